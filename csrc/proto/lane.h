/* lane.h - a publisher's samples in shared memory: one writer, up to 64 readers, in other processes
 * or in this one.
 *
 *     lane: the writer's memory, mapped          place: a reader's memory, mapped by the writer
 *     by readers
 *     ┌ magic, version, cookie, sizes   ┐        ┌ state, wishes, cookie of its lane ┐
 *     │ next        (a line of its own) │        │ position, until   (their own line) │
 *     │ entries: where a sample is, time│        └───────────────────────────────────┘
 *     └ bytes                           ┘
 *
 *     numbers   position of A   position of B         shown         next
 *     ──────────────┼──────────────┼────────────────────┼─────────────┼──────────
 *       free again  │ A holds or   │ both need them     │ committed,  │ at most entries_max
 *                   │ has not seen │                    │ held back   │ after the least position
 *
 * The writer puts a sample's bytes into the ring of bytes, its description into the ring of
 * entries, and then moves next. Readers take what lies before next and say by their position what
 * they no longer need. There is no lock and no system call. The state of a place, and for one kind
 * of readers the position, are changed by both sides, by compare-and-swap; every other word has one
 * side at a time that changes it.
 *
 * Who changes what:
 *
 *     what                        who     when
 *     header                      writer  init
 *     next                        writer  put, commit, flush: store_release, after entry and bytes
 *     entry and bytes of n        writer  before next passes n, and after every position has passed
 *                                         n - entries_max
 *     state FREE ─► WANTED        reader  pdi_place_want, after cookie and wishes
 *           WANTED ─► ACTIVE      writer  join, after position
 *           WANTED ─► ENDED       reader  pdi_place_end: it wants no longer
 *           ACTIVE ─► ENDED       reader  quit: it takes nothing any more
 *           ENDED ─► FREE         writer  leave or dismiss: it will not touch the place again
 *           WANTED ─► LOST        writer  dismiss: there is no such lane any more
 *           ACTIVE ─► LOST        writer  leave: it waits for this reader no longer
 *           LOST ─► FREE          reader  pdi_place_clear
 *           any ─► FREE           reader  pdi_place_clear, when it knows that the writer is dead
 *     position                    writer  join, before the place is ACTIVE
 *                                 reader  release, while it is ACTIVE
 *                                 either  if the reader would rather lose the oldest: see below
 *     until                       reader  before it wants to join: how far, counted from there
 *                                 writer  join, before the place is ACTIVE: the number that is
 *                                 reader  while it is ACTIVE
 *     all private state           its side, one thread at a time, under a lock of that side's own
 *
 * Invariants.
 *   - floor <= every position <= shown <= next, and next + open loans <= floor + entries_max.
 *   - No number is put that is not before every `until` that was seen, but for loans, which get theirs at commit.
 *   - Positions, and what is known of them (seen, floor), never go back; nor does tail.
 *   - tail <= head <= tail + bytes_max. Bytes before tail are nobody's; every entry that is not
 *     free, and every open loan, begins at or after it.
 *   - Of the entries that are not late, each begins after the one before it.
 *
 * Bytes are counted since the beginning and never wrap; a count modulo bytes_max is a place in the
 * ring, and room is plain arithmetic. A sample is in one piece: one that does not fit before the
 * end of the ring begins at the front, and the skipped rest counts as used until what lies before
 * it is free. Samples begin at multiples of 8, so that numbers in them can be read in place. The
 * tail for a least position f is the start of entry f, one look in an array.
 *
 * Loans. Room may be reserved, filled in place, and committed later, in any order; the number is
 * given at commit. Up to 64 reservations are open at once. Samples of other numbers may have been
 * put behind a loan meanwhile; then its entry is late: its bytes lie before those of an entry with
 * a lower number. A late entry keeps its row in the table of loans until all readers are past it,
 * and the tail is the least of that start, the late rows and the open rows. So an open loan keeps
 * only memory from being used again: it stops no number, and when it is given up its memory is free
 * as soon as that before it. (window.h has a ring of regions for this, one for each sample, because
 * its windows free bytes as acknowledgements come; here the array of starts needs half as much
 * memory and no walk, which is what counts at 50 million samples a second.)
 *
 * Losing the oldest. A reader may wish to lose its oldest samples rather than hold up the writer.
 * Then the position has two who change it, both by compare-and-swap. The reader puts a mark (HELD)
 * beside the number before it looks at any sample and removes it when it has released all; the
 * writer moves a position only without that mark. So nothing is ever overwritten that is being
 * read: one side wins, and the other sees that. While such a reader holds samples, it does hold up
 * the writer, so it should copy what it takes.
 *
 * Holding the writer back. A lane has room for many samples, and a reader may wish that the writer is not so far ahead of it.
 * `until` says how far it may go. It need not grow: the writer stops at the least that it has seen.
 *
 * A place is used again only after the other side has said that it will not touch it: each change
 * of state that both sides may want at once is a compare-and-swap, and from ENDED and from LOST
 * only the other side leads on. Without that, a writer that is slow to join could write its
 * position into a place that meanwhile belongs to another lane.
 *
 * Trust. Each side takes the other for broken or hostile. A value of the other side is loaded once,
 * checked, then used. The writer uses nothing of a reader but its position, which must lie in what
 * was seen before .. next; a reader that tells anything else is broken, and waited for no longer.
 * It keeps what it relies on (starts, counts) in memory of its own, and masks every place, so it
 * never writes outside. The reader takes the sizes once, when it opens the lane, and checks the
 * place of every sample against them. What it cannot know is whether bytes change while it reads
 * them: their meaning must be checked where they are decoded, and whoever copies them asks
 * pdi_lane_lost afterwards.
 *
 * A side that dies. All that was shown stays readable, since next moves last; what was half put is
 * not seen. A dead reader's place is freed by leave, which answers how many samples it had not
 * released; a dead writer's by pdi_place_clear.
 *
 * Room cannot turn into no room: only the writer takes room, and what readers do only makes more.
 *
 * (The file is long for this page, and because what every sample needs is inlined.)
 */
#ifndef PDI_PROTO_LANE_H
#define PDI_PROTO_LANE_H

#include <string.h>

#include "base/atomic.h"
#include "base/bitset.h"
#include "base/check.h"
#include "base/time.h"
#include "pyddsi.h"

#define PDI_LANE_READERS_MAX 64
#define PDI_LANE_LOANS_MAX   64
#define PDI_LANE_ENTRIES_MIN 4
#define PDI_LANE_ENTRIES_MAX (UINT32_C(1) << 16) /* these are powers of two, as what they limit */
#define PDI_LANE_BYTES_MIN   64
#define PDI_LANE_BYTES_MAX   (UINT32_C(1) << 30)
#define PDI_LANE_TRIES_MAX   64 /* compare-and-swaps that a neighbour may make fail in a row */
#define PDI_LANE_MAGIC       UINT32_C(0x656e616c)
#define PDI_LANE_VERSION     UINT32_C(2)

/* ---- in shared memory ---- */

struct pdi_lane_entry {
    struct pdi_atomic64 where; /* size << 32 | offset in the bytes */
    struct pdi_atomic64 time;  /* the writer's own 64 bits about the sample */
};

/* The padding is wanted. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct pdi_lane {
    struct pdi_atomic32 magic;
    struct pdi_atomic32 version;
    struct pdi_atomic64 cookie;
    struct pdi_atomic32 entries;
    struct pdi_atomic32 bytes;

    PDI_CACHE_ALIGNED struct pdi_atomic64 next;
    /* here follow the entries, then the bytes */
};

enum pdi_place_state {
    PDI_PLACE_FREE,
    PDI_PLACE_WANTED,
    PDI_PLACE_ACTIVE,
    PDI_PLACE_ENDED,
    PDI_PLACE_LOST,
};

#define PDI_PLACE_STATE UINT64_C(0xff)      /* the part of the state word that is the state */
#define PDI_PLACE_DROPS UINT64_C(0x100)     /* a wish: rather lose the oldest */
#define PDI_PLACE_HELD  (UINT64_C(1) << 63) /* beside a position: not to be moved now */

struct pdi_place {
    PDI_CACHE_ALIGNED struct pdi_atomic64 state;
    struct pdi_atomic64 cookie;
    PDI_CACHE_ALIGNED struct pdi_atomic64 position;
    struct pdi_atomic64 until;
};

static inline enum pdi_place_state pdi_place_state(const struct pdi_place *place)
{
    return (enum pdi_place_state)(pdi_atomic64_load_acquire(&place->state) & PDI_PLACE_STATE);
}

/* How much shared memory a lane needs; 0 for sizes that are out of the limits above. */
size_t pdi_lane_size(uint32_t entries, uint32_t bytes);

/* ---- the writer ---- */

/* Room that was reserved: a row of the table of loans. */
struct pdi_lane_loan {
    uint8_t *data;
    uint32_t size;
    uint32_t row;
};

struct pdi_lane_row {
    uint64_t from;   /* where the free bytes began, with what was skipped */
    uint64_t at;     /* where its bytes begin */
    uint64_t number; /* late: its entry */
    uint64_t size;   /* open: the bytes it takes up */
};

/* The padding is wanted. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct pdi_lane_writer {
    uint8_t *bytes; /* what every put needs comes first */
    struct pdi_lane_entry *entries;
    uint64_t *starts; /* of each number: where its bytes begin */
    struct pdi_lane *lane;
    uint64_t next;  /* the number of the next sample, */
    uint64_t until; /* which must stay before this, without another look */
    uint64_t floor; /* the least position when last looked at */
    uint64_t head;  /* where bytes are put next, */
    uint64_t brim;  /* and how far they may go without another look */
    uint32_t entries_max;
    uint32_t bytes_max;
    uint32_t open; /* open loans, each of which will take a number */

    uint64_t tail;  /* bytes before it are free */
    uint64_t start; /* of the newest entry that is not late */
    uint64_t shown; /* next in shared memory */
    uint64_t cookie;
    uint64_t pushed_out; /* samples that were taken from readers who would rather lose the oldest */
    uint64_t limit;      /* the least `until` of the readers */
    uint64_t readers;    /* a bit for each that has joined, */
    uint64_t drops;      /* of these: rather loses the oldest, */
    uint64_t held;       /* had its mark set when last looked at, */
    uint64_t broken;     /* told a position that cannot be: waited for no longer, to be left */
    uint64_t rows_open;  /* rows that are open loans, */
    uint64_t rows_late;  /* and those that are late entries */
    struct pdi_lane_row rows[PDI_LANE_LOANS_MAX];
    struct pdi_place *places[PDI_LANE_READERS_MAX];
    uint64_t seen[PDI_LANE_READERS_MAX];   /* each reader's position when last looked at, */
    uint64_t limits[PDI_LANE_READERS_MAX]; /* and its `until` */
};

/* Makes an empty lane in memory[size], which must be aligned to PDI_CACHE_LINE; starts[entries] is
 * the writer's own.
 * PYDDSI_OK; PYDDSI_BAD_ARGUMENT: sizes out of the limits; PYDDSI_NO_SPACE: memory too small. */
int pdi_lane_init(struct pdi_lane_writer *writer, uint8_t *memory, size_t size, uint64_t *starts,
                  uint32_t entries, uint32_t bytes, uint64_t cookie);

/* The row of the reader in this place, 0 .. 63, which it keeps as long as it is joined;
 * PDI_LANE_READERS_MAX if it has not joined. */
unsigned pdi_lane_find(const struct pdi_lane_writer *writer, const struct pdi_place *place);

/* A place that is WANTED becomes ACTIVE, and its reader begins with the next sample. What was held
 * back is shown.
 * PYDDSI_OK; PYDDSI_AGAIN: its reader has changed its mind; PYDDSI_BAD_INPUT: it is not WANTED, or
 * for another lane, or has joined before; PYDDSI_NO_SPACE: there are 64 readers. */
int pdi_lane_join(struct pdi_lane_writer *writer, struct pdi_place *place);

/* Its reader is waited for no longer, and the place is dismissed. Answers how many samples it had
 * not released; 0 if it had not joined. */
uint64_t pdi_lane_leave(struct pdi_lane_writer *writer, struct pdi_place *place);

/* The writer's side will not touch a place again: one that has ENDED becomes FREE, one that is
 * WANTED or ACTIVE becomes LOST. For places that have not joined; leave does it for the others. */
void pdi_place_dismiss(struct pdi_place *place);

/* The place of a reader that told a position that cannot be, and is to be left; null if there is
 * none. */
static inline struct pdi_place *pdi_lane_broken(const struct pdi_lane_writer *writer)
{
    return writer->broken != 0 ? writer->places[__builtin_ctzll(writer->broken)] : NULL;
}

/* Samples that readers have not released: the sum over all readers. */
uint64_t pdi_lane_in_flight(struct pdi_lane_writer *writer);

/* Whether a sample of `size` bytes has room; looks at the readers if need be, shows what was held
 * back, and lets those who would rather lose the oldest lose just so many.
 * PYDDSI_OK, and this stays so until the writer takes room; PYDDSI_AGAIN: not now;
 * PYDDSI_BAD_ARGUMENT: never. */
int pdi_lane_room(struct pdi_lane_writer *writer, uint64_t size);

/* The same, and then the next `size` bytes are in one piece. */
int pdi_lane_make_room(struct pdi_lane_writer *writer, uint64_t size);

/* Whether there is a row for another loan, that is, fewer than 64 are open or late; looks at the readers if need be. */
bool pdi_lane_has_row(struct pdi_lane_writer *writer);

/* Room to be filled in place. Answers as pdi_lane_room, and PYDDSI_AGAIN if 64 loans are open or
 * late; *loan only if OK. */
int pdi_lane_reserve(struct pdi_lane_writer *writer, uint32_t size, struct pdi_lane_loan *loan);

/* The first `size` bytes of the loan, at most as many as reserved, are the next sample. `more`: as
 * with put. */
void pdi_lane_commit(struct pdi_lane_writer *writer, const struct pdi_lane_loan *loan,
                     uint32_t size, uint64_t time, bool more);

/* The loan is not wanted any more. */
void pdi_lane_abandon(struct pdi_lane_writer *writer, const struct pdi_lane_loan *loan);

/* The bytes that a sample takes up: at least 8, so that no two begin at the same place. */
static inline uint64_t pdi_lane_unit(uint64_t size)
{
    return (size + (size == 0) + 7) & ~UINT64_C(7);
}

/* Shows all samples that were held back. */
static inline void pdi_lane_flush(struct pdi_lane_writer *writer)
{
    if (writer->shown != writer->next) {
        writer->shown = writer->next;
        pdi_atomic64_store_release(&writer->lane->next, writer->next);
    }
}

/* Writes the next entry. */
static inline void pdi_lane_push(struct pdi_lane_writer *writer, uint64_t at, uint32_t size,
                                 uint64_t time, bool more)
{
    uint64_t offset = at & (writer->bytes_max - 1);
    uint64_t index = writer->next & (writer->entries_max - 1);
    pdi_atomic64_store_relaxed(&writer->entries[index].where, (uint64_t)size << 32 | offset);
    pdi_atomic64_store_relaxed(&writer->entries[index].time, time);
    writer->starts[index] = at;
    writer->next++;
    if (!more) {
        pdi_lane_flush(writer);
    }
}

/* A copy of data[size] becomes the next sample. With `more` it may be held back, until a put or
 * commit without, a flush, a join, or until room is short: a batch then costs the readers one cache
 * miss, not one for each sample. Answers as pdi_lane_room. */
static inline int pdi_lane_put(struct pdi_lane_writer *writer, const void *data, uint32_t size,
                               uint64_t time, bool more)
{
    uint64_t unit = pdi_lane_unit(size);
    if (unit > writer->brim - writer->head || writer->next >= writer->until) {
        int status = pdi_lane_make_room(writer, size);
        if (status != PYDDSI_OK) {
            return status;
        }
    }
    pdi_atomic_yield();
    if (size != 0) {
        memcpy(writer->bytes + (writer->head & (writer->bytes_max - 1)), data, size);
    }
    writer->start = writer->head;
    writer->head += unit;
    pdi_lane_push(writer, writer->start, size, time, more);
    return PYDDSI_OK;
}

/* ---- a reader ---- */

/* How many words pdi_lane_open needs to remember what was released out of order. */
#define PDI_LANE_WORDS(entries) PDI_BITSET_WORDS(entries)

struct pdi_lane_sample {
    pyddsi_bytes bytes; /* in the lane; until it is released */
    uint64_t time;
    uint64_t number; /* one more than that of the sample before, if none was lost */
};

struct pdi_lane_reader {
    const struct pdi_lane_entry *entries; /* what every take needs comes first */
    const uint8_t *bytes;
    uint64_t taken; /* the number of the next sample */
    uint64_t span;  /* how far that may be behind `until`; 0: the mark must be set first */
    uint64_t base;  /* the position: all before it was released */
    uint32_t entries_max;
    uint32_t bytes_max;
    uint32_t ahead; /* samples released after base */
    bool drops;
    struct pdi_place *place;
    uint64_t *released; /* a bit for each of these */
    const struct pdi_lane *lane;
    uint64_t dropped; /* samples that the writer took from us */
};

/* How far the writer may go: before a wish to join, counted from there, 0 meaning that it is never said; after the wish has been
 * fulfilled, the number. */
static inline void pdi_place_limit(struct pdi_place *place, uint64_t until)
{
    pdi_atomic64_store_release(&place->until, until);
}

/* A reader's wish to join the lane with this cookie, in a place of its own memory that is FREE. */
void pdi_place_want(struct pdi_place *place, uint64_t cookie, bool drops);

/* A place that is WANTED or ACTIVE becomes ENDED, and FREE once the writer has seen that, unless
 * the writer was first and it is LOST. For places without a reader; quit does it for the others. */
void pdi_place_end(struct pdi_place *place);

/* A place that is LOST, or whose writer is dead, becomes FREE. */
void pdi_place_clear(struct pdi_place *place);

/* Takes memory[size] for a lane, whose readers it does not join yet. released[words] is the
 * reader's own and lasts as long.
 * PYDDSI_OK; PYDDSI_BAD_INPUT: it is no lane, another one, or of another size; PYDDSI_NO_SPACE: too
 * few words. */
int pdi_lane_open(struct pdi_lane_reader *reader, const uint8_t *memory, size_t size,
                  uint64_t cookie, uint64_t *released, size_t words);

/* Begins, once the writer has made our place ACTIVE.
 * PYDDSI_OK; PYDDSI_AGAIN: not yet; PYDDSI_END: the writer has left us; PYDDSI_BAD_INPUT: the
 * position cannot be. */
int pdi_lane_start(struct pdi_lane_reader *reader, struct pdi_place *place);

/* What take does if it is not simple. */
int pdi_lane_look(struct pdi_lane_reader *reader, uint64_t until);

/* What release does if it is not simple. */
void pdi_lane_release_late(struct pdi_lane_reader *reader, uint64_t number);

/* The next `count` samples, which are there, are not taken. Not while a sample is not released. */
void pdi_lane_pass(struct pdi_lane_reader *reader, uint64_t count);

/* We take nothing any more: our place has ENDED. PYDDSI_OK; PYDDSI_AGAIN, and nothing happens,
 * while a sample is not released. */
int pdi_lane_quit(struct pdi_lane_reader *reader);

/* Whether the writer waits for us no longer: what was read in place since may have been overwritten
 * meanwhile. */
static inline bool pdi_lane_lost(const struct pdi_lane_reader *reader)
{
    return pdi_place_state(reader->place) != PDI_PLACE_ACTIVE;
}

/* The number of the next sample that the writer will put: all before it can be taken. */
static inline uint64_t pdi_lane_next(const struct pdi_lane_reader *reader)
{
    return pdi_atomic64_load_acquire(&reader->lane->next);
}

/* How many samples are there and not taken. */
static inline uint64_t pdi_lane_behind(const struct pdi_lane_reader *reader)
{
    return pdi_lane_next(reader) - reader->taken;
}

/* The next sample before `until`, which is an answer of pdi_lane_next.
 * PYDDSI_OK; PYDDSI_AGAIN: there is none; PYDDSI_END: none, and the writer has left us;
 * PYDDSI_BAD_INPUT: the writer is broken, and the lane must be left. */
static inline int pdi_lane_take(struct pdi_lane_reader *reader, uint64_t until,
                                struct pdi_lane_sample *sample)
{
    if (until - reader->taken - 1 >= reader->span) { /* also if there is none */
        int status = pdi_lane_look(reader, until);
        if (status != PYDDSI_OK) {
            return status;
        }
    }
    const struct pdi_lane_entry *entry =
        &reader->entries[reader->taken & (reader->entries_max - 1)];
    uint64_t where = pdi_atomic64_load_relaxed(&entry->where);
    uint64_t at = where & UINT32_MAX;
    uint64_t size = where >> 32;
    if (at + size > reader->bytes_max) {
        return PYDDSI_BAD_INPUT;
    }
    sample->bytes = (pyddsi_bytes){.data = reader->bytes + at, .size = size};
    sample->time = pdi_atomic64_load_relaxed(&entry->time);
    sample->number = reader->taken++;
    return PYDDSI_OK;
}

/* Tells the writer what we need from now on. */
static inline void pdi_lane_tell(struct pdi_lane_reader *reader)
{
    uint64_t position = reader->base;
    if (reader->drops) {
        if (reader->base == reader->taken) {
            reader->span = 0;
        } else {
            position |= PDI_PLACE_HELD;
        }
    }
    pdi_atomic64_store_release(&reader->place->position, position);
}

/* A sample that was taken is not looked at any more; in any order. */
static inline void pdi_lane_release(struct pdi_lane_reader *reader, uint64_t number)
{
    PDI_CHECK(number - reader->base < reader->taken - reader->base);
    if (number != reader->base || reader->ahead != 0) {
        pdi_lane_release_late(reader, number);
        return;
    }
    reader->base++;
    pdi_lane_tell(reader);
}

#endif
