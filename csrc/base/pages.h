/* pages.h - runs of pages out of one piece of memory.
 *
 * Memory that is needed in pieces of many sizes (the window of a peer, a sample that is being put
 * together) is cut into pages of one size. Who needs some takes a run of neighbours and gives it
 * back later. What a page is and where it lies is the caller's business: here it is one bit, set
 * while the page is taken, and a run is the number of its first page. Numbers and not pointers, so
 * the memory may be shared with another process and may lie anywhere.
 *
 *     page      0   1   2   3   4   5   6   7   8   9
 *     used      x   x   x   .   .   x   .   .   .   .      get(1): 3     get(3): 6
 *                           ^cursor
 *
 * Of all runs that are long enough the first is taken. So what is taken stays together at the
 * lower end, the upper end stays in one piece for those who need much, and a page that was given
 * back a moment ago, and is still in the cache, is the next to go.
 *
 * Invariants: no page below the cursor is free; `free` is the number of clear bits; bits at and
 * above `pages` are clear and never looked at. The cursor makes the usual request, a single page,
 * cheap however many are taken: it starts where the first free one is.
 *
 * Bounds: a search looks at each run above the cursor once, with two steps a run and one a word;
 * there are at most 32 runs in a word. It ends before it begins if fewer pages are free than
 * wanted. Giving back costs one step a word, and nothing is ever moved.
 *
 * Why not a buddy allocator: rounding up to powers of two wastes a quarter on average, and it joins
 * only neighbours of one pair; here every two neighbours are one run as soon as both are free.
 *
 * One thread at a time.
 */
#ifndef PDI_BASE_PAGES_H
#define PDI_BASE_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bitset.h"
#include "pyddsi.h"

#define PDI_PAGES_NONE UINT32_MAX
#define PDI_PAGES_MAX  ((UINT32_C(1) << 31) - 1)

struct pdi_pages {
    uint64_t *used;  /* one bit per page */
    uint32_t pages;  /* how many there are, */
    uint32_t free;   /* and how many of them are free */
    uint32_t cursor; /* no page before it is free */
};

/* Makes `count` free pages, which are kept in `used[PDI_BITSET_WORDS(count)]`, which must hold zeros
 * (pdi_carve_bits).
 * PYDDSI_OK; PYDDSI_BAD_ARGUMENT if count is not in 1 .. PDI_PAGES_MAX. */
int pdi_pages_init(struct pdi_pages *pages, uint64_t *used, uint32_t count);

/* Takes `count` pages that lie next to each other; answers the first of them, or PDI_PAGES_NONE if
 * no run is so long or count is 0. */
uint32_t pdi_pages_get(struct pdi_pages *pages, uint32_t count);

/* Takes the `more` pages directly after a run of `count` that begins at `first`, so that it becomes
 * longer; answers whether all of them were free, and otherwise takes none. */
bool pdi_pages_extend(struct pdi_pages *pages, uint32_t first, uint32_t count, uint32_t more);

/* Gives pages back, which must all be taken. It need not be the run that was got: a part of it may
 * be given back alone, and two neighbouring runs at once. */
void pdi_pages_put(struct pdi_pages *pages, uint32_t first, uint32_t count);

#endif
