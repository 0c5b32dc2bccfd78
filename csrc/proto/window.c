/* window.c - what was sent and may be asked for again: the slower half.
 *
 * Reserve and commit of one message are in the header. Here is what happens when room looks short,
 * when a message is cut into pieces, when a loan turns out too large, and what the receive thread
 * does. Walks over regions end at region_head or region_tail, at most regions_max away.
 */
#include "proto/window.h"

static bool power_of_two(uint32_t count, uint32_t max)
{
    return count >= 2 && count <= max && (count & (count - 1)) == 0;
}

int pdi_window_init(struct pdi_window *window, uint8_t *memory, uint32_t size,
                    struct pdi_entry *entries, uint32_t entries_max, struct pdi_region *regions,
                    uint32_t regions_max)
{
    if (size < PDI_WINDOW_BYTES_MIN || size > PDI_WINDOW_BYTES_MAX ||
        !power_of_two(entries_max, PDI_WINDOW_ENTRIES_MAX) ||
        !power_of_two(regions_max, PDI_WINDOW_REGIONS_MAX)) {
        return PYDDSI_BAD_ARGUMENT;
    }
    *window = (struct pdi_window){.memory = memory,
                                  .entries = entries,
                                  .regions = regions,
                                  .size = size,
                                  .entries_max = entries_max,
                                  .regions_max = regions_max};
    pdi_atomic64_store_relaxed(&window->word, 0);
    return PYDDSI_OK;
}

/* Whether nobody needs this region any more. Its last number is at most entries_max - 1 after base,
 * and less than half a circle before it: while it stays, at most one number per byte of memory and
 * one per region can have been given. */
static bool done(const struct pdi_region *region, uint32_t base)
{
    return region->state == PDI_REGION_ABANDONED ||
           (region->state == PDI_REGION_COMMITTED && base - region->last - 1 < UINT32_C(1) << 31);
}

/* How many of the bytes of a region were skipped before it. */
static uint32_t skipped(const struct pdi_window *window, const struct pdi_region *region)
{
    return region->at + region->size > window->size ? window->size - region->at : 0;
}

/* Frees what was skipped before the oldest region: nothing in use is before it. */
static void free_skipped(struct pdi_window *window)
{
    if (window->region_tail == window->region_head) {
        return;
    }
    struct pdi_region *oldest = pdi_window_region(window, window->region_tail);
    uint32_t skip = skipped(window, oldest);
    if (skip != 0) {
        window->used -= skip;
        oldest->size -= skip;
        oldest->at = 0;
    }
}

/* An empty ring begins at the start of the memory, where even the largest region fits. */
static void settle(struct pdi_window *window)
{
    if (window->used == 0) {
        window->head = 0;
    }
}

int pdi_window_free(struct pdi_window *window, uint32_t size, uint32_t numbers)
{
    if (size > window->size || numbers == 0 || numbers > window->entries_max) {
        return PYDDSI_BAD_ARGUMENT;
    }
    window->base_seen = (uint32_t)pdi_atomic64_load_acquire(&window->word);
    for (uint32_t freed = 0; window->region_tail != window->region_head; freed++) {
        struct pdi_region *oldest = pdi_window_region(window, window->region_tail);
        if (!done(oldest, window->base_seen) ||
            (freed >= PDI_WINDOW_FREE_BATCH && pdi_window_fits(window, size, numbers))) {
            break;
        }
        window->used -= oldest->size;
        window->region_tail++;
    }
    free_skipped(window);
    settle(window);
    return pdi_window_fits(window, size, numbers) ? PYDDSI_OK : PYDDSI_AGAIN;
}

void pdi_window_put_pieces(struct pdi_window *window, const struct pdi_loan *loan, uint32_t size,
                           uint32_t piece, const struct pdi_entry *model)
{
    uint64_t number = window->next;
    bool began = model->fragment != 0 && model->first != PDI_WINDOW_SELF;
    uint64_t first = began ? model->first : number;
    for (uint32_t at = 0; at < size; number++) { /* at most loan->numbers pieces */
        uint32_t bytes = size - at < piece ? size - at : piece;
        pdi_window_put_entry(window, number, loan->at + at, bytes, first, model);
        at += bytes;
    }
}

void pdi_window_shrink(struct pdi_window *window, const struct pdi_loan *loan, uint32_t size)
{
    struct pdi_region *region = pdi_window_region(window, loan->region);
    if (loan->region + 1 != window->region_head) {
        return; /* others have begun behind it */
    }
    uint32_t surplus = size == 0 ? region->size : loan->size - size;
    window->used -= surplus;
    region->size -= surplus;
    window->head = size == 0 ? region->at : loan->at + size;
    settle(window);
}

void pdi_window_abandon(struct pdi_window *window, const struct pdi_loan *loan)
{
    struct pdi_region *region = pdi_window_region(window, loan->region);
    PDI_CHECK(loan->region - window->region_tail < window->region_head - window->region_tail);
    PDI_CHECK(region->state == PDI_REGION_OPEN);
    region->state = PDI_REGION_ABANDONED;
    window->promised -= loan->numbers;
    while (window->region_head != window->region_tail) {
        struct pdi_region *newest = pdi_window_region(window, window->region_head - 1);
        if (newest->state != PDI_REGION_ABANDONED) {
            break;
        }
        window->used -= newest->size;
        window->head = newest->at;
        window->region_head--;
    }
    settle(window);
}

int pdi_window_ack(struct pdi_window *window, uint32_t base)
{
    uint64_t word = pdi_atomic64_load_acquire(&window->word);
    for (;;) {
        uint32_t old = (uint32_t)word;
        uint32_t next = (uint32_t)(word >> 32);
        if (base - old > next - old) {
            return PYDDSI_BAD_ARGUMENT;
        }
        /* It fails only if the sender has committed meanwhile, which the sender can do entries_max
         * times at most until base moves. */
        if (base == old ||
            pdi_atomic64_cas(&window->word, &word, (uint64_t)next << 32 | (uint64_t)base)) {
            return PYDDSI_OK;
        }
    }
}

struct pdi_window_snapshot pdi_window_snapshot(const struct pdi_window *window)
{
    struct pdi_window_snapshot snapshot = {.seq = window->next};
    uint32_t base = pdi_window_span(window).base;
    uint32_t used = window->used;
    uint32_t tail = window->region_tail;
    for (; tail != window->region_head; tail++) {
        const struct pdi_region *oldest = pdi_window_region(window, tail);
        if (!done(oldest, base)) {
            used -= skipped(window, oldest);
            break;
        }
        used -= oldest->size;
    }
    snapshot.used_entries = (uint32_t)window->next - base;
    snapshot.seqbase = window->next - snapshot.used_entries;
    snapshot.used_bytes = used;
    snapshot.pos = window->head;
    snapshot.firstpos = (window->head + window->size - used) % window->size;
    return snapshot;
}
