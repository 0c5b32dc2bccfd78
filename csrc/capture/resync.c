/* resync.c - see resync.h.
 *
 *     window, every byte a candidate             behind it: bits of a ring
 *     ├──────────────────────────────────────────┤ · · ·1· · · · ·1· · · · ·1·
 *       └── 16 + captured ──────────────────────────────┘   chains that landed here, not yet looked at
 *
 * The window is as long as the longest record, so one of its bytes at least is a true boundary, and every chain that
 * matters has a position in the ring, which is longer than the longest step. Inside the window nothing has to be marked:
 * each byte is a candidate anyway.
 *
 * Plausible is what our reader takes and a clock can have told: a size within the limit, and a fraction of less than 10^9.
 * (In microseconds too, since some systems write nanoseconds under the magic number of microseconds.) All else that looks
 * unlikely exists in good files: zero length, more captured than sent, a year in the past.
 *
 * Every ordinary file has a second chain that never ends, four bytes behind the true one:
 *
 *     true      seconds │ fraction │ captured │ original │ first bytes
 *     shadow              seconds    fraction   captured   original
 *
 * Where nothing was cut off, captured and original are the same number, and the shadow takes the same steps. Seen from the
 * other side it is no riddle: for the shadow to be true, its clock would have told the size of each frame, and a year before
 * 2002. So if those two are left and went side by side for some records, the first is true.
 */
#include "capture/resync.h"

#include "base/bitset.h"
#include "capture/walk.h"

enum { STEP_MAX = PDI_RECORD_HEAD + PDI_FRAME_BYTES_MAX, WINDOW = STEP_MAX, RING_BITS = 1 << 19 };
enum { SHADOW = 4, SHADOW_RECORDS = 16 };

_Static_assert(RING_BITS > STEP_MAX, "a step must not go round the ring");

size_t pdi_resync_memory(void)
{
    return RING_BITS / 8;
}

/* What follows the header at |at| in the chain, or 0 if no writer has written that. */
static size_t step(const uint8_t *at, int swapped)
{
    uint32_t captured = pdi_number32(at + 8, swapped);
    if (captured > PDI_FRAME_BYTES_MAX)
        return 0;
    return pdi_number32(at + 4, swapped) < 1000000000 ? PDI_RECORD_HEAD + (size_t)captured : 0;
}

/* Marks a position. Answers 1 if no chain was there. */
static uint32_t mark(uint64_t *ring, size_t position)
{
    uint32_t bit = (uint32_t)(position % RING_BITS);
    uint32_t fresh = !pdi_bitset_test(ring, bit);
    pdi_bitset_set(ring, bit);
    return fresh;
}

/* Takes the first marked position at or behind |from|, of which there is one within a step. */
static size_t take(uint64_t *ring, size_t from)
{
    uint32_t start = (uint32_t)(from % RING_BITS);
    uint32_t bit = pdi_bitset_find(ring, RING_BITS, start);
    size_t position = from + (bit - start);
    if (bit == RING_BITS) {
        bit = pdi_bitset_find(ring, RING_BITS, 0);
        position = from + (RING_BITS - start) + bit;
    }
    pdi_bitset_clear(ring, bit);
    return position;
}

/* The candidates of the window, each by one step. How many chains are alive behind it. */
static uint32_t begin(uint64_t *ring, const uint8_t *data, int swapped)
{
    uint32_t alive = 0;
    memset(ring, 0, RING_BITS / 8);
    for (size_t i = 0; i < WINDOW; i++) {
        size_t ahead = step(data + i, swapped);
        if (i + ahead >= WINDOW)
            alive += mark(ring, i + ahead);
    }
    return alive;
}

/* Whether the chain at |position|, which goes on by |ahead|, has its shadow beside it. */
static int is_shadowed(const uint64_t *ring, const uint8_t *data, size_t position, size_t ahead,
                       int swapped)
{
    size_t shadow = position + SHADOW;
    return pdi_bitset_test(ring, (uint32_t)(shadow % RING_BITS)) &&
           step(data + shadow, swapped) == ahead;
}

int pdi_resync_find(const struct pdi_container *container, const uint8_t *data, size_t size,
                    int last, void *memory, size_t *at)
{
    uint64_t *ring = memory;
    int swapped = container->swapped, undecided = last ? PYDDSI_END : PYDDSI_AGAIN;
    if (container->kind != PDI_CONTAINER_PCAP)
        return PYDDSI_BAD_INPUT;
    if (size < WINDOW + PDI_RECORD_HEAD)
        return undecided; /* where the file ends, every byte may begin a record that was cut */
    uint32_t alive = begin(ring, data, swapped);
    size_t position = WINDOW;
    unsigned beside = 0; /* records in a row that the last chain had its shadow beside it */
    while (alive > 1) {  /* each turn goes on by a byte at least */
        position = take(ring, position);
        if (position + SHADOW > size - PDI_RECORD_HEAD)
            return undecided;
        size_t ahead = step(data + position, swapped);
        if (alive == 2 && ahead != 0 && is_shadowed(ring, data, position, ahead, swapped)) {
            if (++beside == SHADOW_RECORDS) {
                *at = position;
                return PYDDSI_OK;
            }
            (void)take(ring, position);
            (void)mark(ring, position + ahead);
            (void)mark(ring, position + SHADOW + ahead);
        } else {
            beside = 0;
            alive--;
            alive += ahead != 0 ? mark(ring, position + ahead) : 0;
        }
    }
    if (alive == 0)
        return PYDDSI_BAD_INPUT;
    position = take(ring, position);
    if (position > size && !last)
        return PYDDSI_AGAIN;
    *at = position < size ? position : size;
    return PYDDSI_OK;
}
