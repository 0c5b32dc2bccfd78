/* pages.c - runs of pages: the search, and changing many bits at once. */
#include "base/pages.h"

#include "base/check.h"

/* The first free page at or after `from`; `pages` if there is none. In the last word that needs no
 * care: the first bit behind the last page is clear, and its number is `pages`. */
static uint32_t find_free(const struct pdi_pages *pages, uint32_t from)
{
    if (from >= pages->pages) {
        return pages->pages;
    }
    uint32_t index = from / 64;
    uint64_t word = ~pages->used[index] & (UINT64_MAX << (from % 64));
    while (word == 0) {
        if (++index == PDI_BITSET_WORDS(pages->pages)) {
            return pages->pages;
        }
        word = ~pages->used[index];
    }
    return index * 64 + (uint32_t)__builtin_ctzll(word);
}

/* Turns `count` bits, at least one, which are all set if `taken` and else all clear. */
static void turn(struct pdi_pages *pages, uint32_t first, uint32_t count, bool taken)
{
    uint32_t end = first + count;
    (void)taken;
    for (uint32_t index = first / 64; index <= (end - 1) / 64; index++) {
        uint64_t mask = UINT64_MAX;
        if (index == first / 64) {
            mask &= UINT64_MAX << (first % 64);
        }
        if (index == (end - 1) / 64) {
            mask &= UINT64_MAX >> (63 - (end - 1) % 64);
        }
        PDI_CHECK((pages->used[index] & mask) == (taken ? mask : 0));
        pages->used[index] ^= mask;
    }
}

int pdi_pages_init(struct pdi_pages *pages, uint64_t *used, uint32_t count)
{
    if (count == 0 || count > PDI_PAGES_MAX) {
        return PYDDSI_BAD_ARGUMENT;
    }
    *pages = (struct pdi_pages){.used = used, .pages = count, .free = count};
    return PYDDSI_OK;
}

uint32_t pdi_pages_get(struct pdi_pages *pages, uint32_t count)
{
    if (count == 0 || count > pages->free) {
        return PDI_PAGES_NONE;
    }
    uint32_t first = find_free(pages, pages->cursor);
    pages->cursor = first;
    while (pages->pages - first >= count) {
        uint32_t end = pdi_bitset_find(pages->used, first + count, first + 1);
        if (end - first >= count) {
            turn(pages, first, count, false);
            pages->free -= count;
            if (first == pages->cursor) {
                pages->cursor += count;
            }
            return first;
        }
        first = find_free(pages, end + 1);
    }
    return PDI_PAGES_NONE;
}

bool pdi_pages_extend(struct pdi_pages *pages, uint32_t first, uint32_t count, uint32_t more)
{
    uint32_t end = first + count;
    PDI_CHECK(first < pages->pages && count <= pages->pages - first);
    if (more == 0) {
        return true;
    }
    if (more > pages->pages - end || pdi_bitset_find(pages->used, end + more, end) < end + more) {
        return false;
    }
    turn(pages, end, more, false);
    pages->free -= more;
    if (pages->cursor == end) {
        pages->cursor += more;
    }
    return true;
}

void pdi_pages_put(struct pdi_pages *pages, uint32_t first, uint32_t count)
{
    if (count == 0) {
        return;
    }
    PDI_CHECK(first < pages->pages && count <= pages->pages - first);
    turn(pages, first, count, true);
    pages->free += count;
    if (first < pages->cursor) {
        pages->cursor = first;
    }
}
