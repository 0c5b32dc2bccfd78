/* window.h - what was sent and may be asked for again.
 *
 * Three arrays that the caller owns, and one shared word:
 *
 *     memory    bytes, a ring of regions        a region for each reserve, in their order
 *     regions   what each region is             the sender's alone
 *     entries   number ──► where, how long      one for each numbered message
 *     word      next << 32 | base               counts of messages, the low 32 bits of each
 *
 *     numbers         base                     next
 *        acknowledged  │ may be asked for again │ promised to open loans │ free
 *     ─────────────────┼────────────────────────┼────────────────────────┼─────  entries_max ahead
 *                      │                        │                        │       of base at most
 *                      ▼ entries tell where
 *     memory  │ 7, 8 │ open │ 9 │      free      │ given up │ 6 │ open │ skipped │
 *             │                 └ head           └ the oldest          └ too small for 7 and 8
 *             └ so they begin here
 *
 * The sender reserves room, fills it in place, and commits it, which gives it its numbers, or
 * abandons it. The receive thread moves base when acknowledgements allow, and reads the messages in
 * [base, next) to send them again, without a lock.
 *
 * Who changes what:
 *
 *     what                   who             when
 *     next in the word       sender          commit, by one atomic add
 *     base in the word       receive thread  ack, by compare-and-swap
 *     bytes of a region      sender          from reserve until commit
 *     entry of a number      sender          in commit, before next passes the number
 *     entry's sent_us        receive thread  while the number is in [base, next)
 *     entry's mark           sender          at any time; nobody else looks at it
 *     regions and the rest   sender          at any time
 *
 * "The sender" is one thread, or several that take turns under a lock of their own.
 *
 * Invariants.
 *   - base <= next <= base + entries_max, and next + promised <= base + entries_max: an entry is
 *     written again only when the number that had it is before base.
 *   - used is the sum of the regions' sizes and never more than the memory; the regions in use are
 *     one piece of the ring, which ends at head. If used is 0, head is 0.
 *   - A region leaves the ring only as the oldest one, when it was given up or its last number is
 *     before base; or as the newest one, when it was given up.
 *
 * Why room cannot turn into no room. Only the sender takes room, and what the receive thread does
 * only makes more. So whatever the sender has found stays true until the sender itself changes it,
 * bytes and numbers can be tested one after the other in either order, and each may be tested
 * against a base that is out of date: base_seen, which saves the sender from reading the shared
 * word at all until room looks short. And since commit takes no more than reserve promised, it
 * cannot fail.
 *
 * Why the word holds no positions. The two threads have to agree about two counts only. Where the
 * bytes of a number lie stands in its entry, which is written before next passes the number (commit
 * releases, the reader acquires) and again only after base has passed it (ack releases, reserve
 * acquires). So the pair (next, base) carries the pair (position, first position) with it: 32 bits
 * are enough for each count whatever the size of the memory, and no 128-bit word is needed for
 * large windows.
 *
 * Why an add for next, but compare-and-swap for base. Next stands in the upper half: what overflows
 * falls out of the word, so one add is right, and it cannot fail. Base is changed only after
 * comparing it with next, and must not be moved if it has changed since.
 *
 * Why there is no length in front of the bytes. It would have to be read by walking from the oldest
 * message on, would cost its bytes in each, and could not be there for the newest message, which
 * may still grow. The entries know all of them in one step.
 *
 * Memory is freed lazily, when reserve finds too little, and in small batches. A loan that is held
 * for long stops neither the numbers of those behind it nor their acknowledgement, only the reuse
 * of memory. A region never wraps: if the rest of the memory is too small, it is skipped and counts
 * as part of the region behind it until that is the oldest one. A region may be empty.
 *
 * Memory and entries hold offsets and never pointers, so they may lie in shared memory.
 */
#ifndef PDI_PROTO_WINDOW_H
#define PDI_PROTO_WINDOW_H

#include "base/atomic.h"
#include "base/check.h"
#include "pyddsi.h"

#define PDI_WINDOW_BYTES_MIN   64
#define PDI_WINDOW_BYTES_MAX   (UINT32_C(64) << 20)
#define PDI_WINDOW_ENTRIES_MAX (UINT32_C(1) << 20) /* a power of two, at least 2 */
#define PDI_WINDOW_REGIONS_MAX (UINT32_C(1) << 20) /* a power of two, at least 2 */
#define PDI_WINDOW_FREE_BATCH  64                  /* regions freed at once beyond what is needed */
#define PDI_WINDOW_SELF        UINT64_MAX /* as first: the series begins with this very commit */

/* One numbered message. For SDATA the bytes are the payload; for other kinds all that stands behind
 * the sequence number and the ids. */
struct pdi_entry {
    uint32_t at;        /* offset in the memory */
    uint32_t size;      /* bytes */
    uint64_t id;        /* as on the wire; 0 for kinds without */
    uint64_t data_id;   /* with flag A */
    uint64_t first;     /* if fragment: the whole count of the first message of the series */
    uint32_t fragments; /* if fragment: how many in all; 0: not told */
    uint32_t sent_us;   /* low bits of when it was last sent */
    uint8_t kind;
    uint8_t flags;
    uint8_t space;
    uint8_t fragment;
    uint8_t mark; /* for the sender's own use */
};

enum pdi_region_state {
    PDI_REGION_OPEN,
    PDI_REGION_COMMITTED,
    PDI_REGION_ABANDONED,
};

struct pdi_region {
    uint32_t at;   /* where it begins, with what was skipped before it */
    uint32_t size; /* bytes, with what was skipped before it */
    uint32_t last; /* committed: low bits of its last number */
    uint32_t state;
};

/* Room that was reserved. */
struct pdi_loan {
    uint32_t region; /* which region, free-running */
    uint32_t at;     /* offset in the memory */
    uint32_t size;
    uint32_t numbers; /* how many it may take */
};

/* The padding is wanted. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct pdi_window {
    uint8_t *memory; /* this line: nobody writes it after init */
    struct pdi_entry *entries;
    struct pdi_region *regions;
    uint32_t size;
    uint32_t entries_max;
    uint32_t regions_max;

    PDI_CACHE_ALIGNED struct pdi_atomic64 word; /* both threads' line */

    PDI_CACHE_ALIGNED uint64_t next; /* the sender's line: the whole count of the next message, */
    uint32_t base_seen;              /* what base was when last looked at, */
    uint32_t promised;               /* numbers that open loans may take, */
    uint32_t head;                   /* where the next region begins if it fits there, */
    uint32_t used;                   /* bytes of all regions, */
    uint32_t region_head;            /* the next new region, free-running, */
    uint32_t region_tail;            /* and the oldest one in use */
};

/* One consistent look at the word: low 32 bits of the counts. */
struct pdi_window_span {
    uint32_t base, next;
};

/* Both pairs, for statistics and tests. */
struct pdi_window_snapshot {
    uint64_t seq, seqbase;  /* next and base, whole counts */
    uint32_t pos, firstpos; /* the first free byte, and the first byte that is held */
    uint32_t used_bytes;    /* from firstpos on, round the ring, to pos */
    uint32_t used_entries;
};

/* Makes an empty window whose first number is 0, in memory[size], entries[entries_max] and
 * regions[regions_max]. entries_max must be less than half the circle of the numbers on the wire
 * (base/seq.h), which the caller sees to.
 * PYDDSI_OK; PYDDSI_BAD_ARGUMENT for a size that is out of the limits above. */
int pdi_window_init(struct pdi_window *window, uint8_t *memory, uint32_t size,
                    struct pdi_entry *entries, uint32_t entries_max, struct pdi_region *regions,
                    uint32_t regions_max);

/* Before anything is reserved: the first number is `first`. */
static inline void pdi_window_start(struct pdi_window *window, uint64_t first)
{
    window->next = first;
    window->base_seen = (uint32_t)first;
    pdi_atomic64_store_relaxed(&window->word, first << 32 | (first & UINT32_MAX));
}

/* Frees regions until `size` bytes for `numbers` numbers fit. Answers as pdi_window_room. */
int pdi_window_free(struct pdi_window *window, uint32_t size, uint32_t numbers);

/* Writes the entries of a commit of several messages. */
void pdi_window_put_pieces(struct pdi_window *window, const struct pdi_loan *loan, uint32_t size,
                           uint32_t piece, const struct pdi_entry *model);

/* Gives back what the newest region does not need of its bytes. */
void pdi_window_shrink(struct pdi_window *window, const struct pdi_loan *loan, uint32_t size);

static inline struct pdi_region *pdi_window_region(const struct pdi_window *window, uint32_t count)
{
    return &window->regions[count & (window->regions_max - 1)];
}

/* How much of the end of the memory must be skipped for `size` bytes in one piece. */
static inline uint32_t pdi_window_skip(const struct pdi_window *window, uint32_t size)
{
    uint32_t rest = window->size - window->head;
    return size > rest ? rest : 0;
}

/* Whether there is room by what the sender knows without looking at the word. */
static inline bool pdi_window_fits(const struct pdi_window *window, uint32_t size, uint32_t numbers)
{
    uint32_t taken = (uint32_t)window->next + window->promised - window->base_seen;
    uint64_t bytes = (uint64_t)window->used + pdi_window_skip(window, size) + size;
    return numbers - 1 < window->entries_max - taken && /* also false for 0 */
           bytes <= window->size && window->region_head - window->region_tail < window->regions_max;
}

/* Sender: whether pdi_window_reserve would say OK.
 * PYDDSI_OK, and this stays so until the sender takes room; PYDDSI_AGAIN: not now;
 * PYDDSI_BAD_ARGUMENT: never (more bytes than the memory has, numbers 0 or above entries_max). */
static inline int pdi_window_room(struct pdi_window *window, uint32_t size, uint32_t numbers)
{
    return pdi_window_fits(window, size, numbers) ? PYDDSI_OK
                                                  : pdi_window_free(window, size, numbers);
}

/* Sender: room for `size` bytes that will take up to `numbers` numbers. Answers as pdi_window_room;
 * only if OK, *loan is set. */
static inline int pdi_window_reserve(struct pdi_window *window, uint32_t size, uint32_t numbers,
                                     struct pdi_loan *loan)
{
    int status = pdi_window_room(window, size, numbers);
    if (status != PYDDSI_OK) {
        return status;
    }
    uint32_t skip = pdi_window_skip(window, size);
    struct pdi_region *region = pdi_window_region(window, window->region_head);
    region->at = window->head;
    region->size = skip + size;
    region->state = PDI_REGION_OPEN;
    loan->region = window->region_head++;
    loan->at = skip != 0 ? 0 : window->head;
    loan->size = size;
    loan->numbers = numbers;
    window->head = loan->at + size == window->size ? 0 : loan->at + size;
    window->used += skip + size;
    window->promised += numbers;
    return PYDDSI_OK;
}

/* Sender: the bytes of a loan, to be filled before commit. */
static inline uint8_t *pdi_window_data(const struct pdi_window *window, const struct pdi_loan *loan)
{
    pdi_atomic_yield();
    return window->memory + loan->at;
}

/* The entry of a number in [base, next), which is not checked. */
static inline struct pdi_entry *pdi_window_entry(const struct pdi_window *window, uint32_t number)
{
    pdi_atomic_yield();
    return &window->entries[number & (window->entries_max - 1)];
}

/* How many messages `size` bytes make. */
static inline uint32_t pdi_window_pieces(uint32_t size, uint32_t piece)
{
    return piece == 0 || size <= piece ? 1 : (size - 1) / piece + 1;
}

/* Writes the entry of `number`. */
static inline void pdi_window_put_entry(struct pdi_window *window, uint64_t number, uint32_t at,
                                        uint32_t size, uint64_t first,
                                        const struct pdi_entry *model)
{
    struct pdi_entry *entry = pdi_window_entry(window, (uint32_t)number);
    *entry = *model;
    entry->at = at;
    entry->size = size;
    entry->first = first;
}

/* Sender: the first `size` bytes of the loan become messages like `model`, of `piece` bytes each
 * but the last; with piece 0 one message whatever its size. At, size and first of each entry are
 * set here: model->first is the first number of a series that began earlier, or PDI_WINDOW_SELF,
 * and counts only if model->fragment is set. `size` must not be above loan->size, nor the messages
 * more than loan->numbers. The loan is used up. Answers the number of the first message (whole
 * count). */
static inline uint64_t pdi_window_commit(struct pdi_window *window, const struct pdi_loan *loan,
                                         uint32_t size, uint32_t piece,
                                         const struct pdi_entry *model)
{
    struct pdi_region *region = pdi_window_region(window, loan->region);
    uint32_t count = pdi_window_pieces(size, piece);
    uint64_t number = window->next;
    PDI_CHECK(loan->region - window->region_tail < window->region_head - window->region_tail);
    PDI_CHECK(region->state == PDI_REGION_OPEN);
    PDI_CHECK(size <= loan->size && count <= loan->numbers);
    if (count == 1) {
        bool began = model->fragment != 0 && model->first != PDI_WINDOW_SELF;
        pdi_window_put_entry(window, number, loan->at, size, began ? model->first : number, model);
    } else {
        pdi_window_put_pieces(window, loan, size, piece, model);
    }
    if (size != loan->size) {
        pdi_window_shrink(window, loan, size);
    }
    region->last = (uint32_t)number + count - 1;
    region->state = PDI_REGION_COMMITTED;
    window->promised -= loan->numbers;
    window->next = number + count;
    pdi_atomic64_add(&window->word, (uint64_t)count << 32);
    return number;
}

/* Sender: the loan is not wanted any more. */
void pdi_window_abandon(struct pdi_window *window, const struct pdi_loan *loan);

/* Receive thread: everything before `base` (the low 32 bits of a count) is no longer needed.
 * PYDDSI_OK; PYDDSI_BAD_ARGUMENT, and nothing changes, if that is before the present base or after
 * next. */
int pdi_window_ack(struct pdi_window *window, uint32_t base);

/* Anyone: one consistent look. Who sees a number before next may read its entry and its bytes. */
static inline struct pdi_window_span pdi_window_span(const struct pdi_window *window)
{
    uint64_t word = pdi_atomic64_load_acquire(&window->word);
    return (struct pdi_window_span){.base = (uint32_t)word, .next = (uint32_t)(word >> 32)};
}

/* Sender: both pairs, of one moment. */
struct pdi_window_snapshot pdi_window_snapshot(const struct pdi_window *window);

#endif
