/* series.c - fragments become samples again.
 *
 * pdi_assembler_input is one decision after the other: is there a series, does the piece fit it, is
 * there room, was it the last. Whatever is wrong on the way ends in `drop`, so no answer but OK and
 * END leaves a growing series behind.
 */
#include "proto/series.h"

#include <string.h>

#include "base/check.h"

/* The entry whose `head` begins the chain of an owner. */
static uint32_t home(const struct pdi_assembler *assembler, uint64_t owner)
{
    uint64_t hash = (owner ^ owner >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)((hash >> 32) * assembler->series_max >> 32);
}

static uint8_t *bytes_at(const struct pdi_assembler *assembler, uint32_t page)
{
    return assembler->memory + (size_t)page * PDI_SERIES_PAGE;
}

/* How many pages hold so many bytes, which are at most sample_max. */
static uint32_t pages_of(uint64_t size)
{
    return (uint32_t)((size + PDI_SERIES_PAGE - 1) / PDI_SERIES_PAGE);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Takes a growing entry out of its chain. */
static void unlink_growing(struct pdi_assembler *assembler, uint32_t index)
{
    struct pdi_series *entry = &assembler->series[index];
    uint32_t *link = &assembler->series[home(assembler, entry->owner)].head;
    while (*link != index) { /* at most as many as are growing; it is in there */
        link = &assembler->series[*link].link;
    }
    *link = entry->link;
    assembler->growing--;
    assembler->loose -= !entry->in_order;
    assembler->untold -= entry->fragments == 0;
}

/* Makes an entry free and gives back its memory. It is in no chain. */
static void release(struct pdi_assembler *assembler, uint32_t index)
{
    struct pdi_series *entry = &assembler->series[index];
    pdi_pages_put(&assembler->pages, entry->page, entry->pages);
    entry->state = PDI_SERIES_FREE;
    entry->link = assembler->idle;
    assembler->idle = index;
    assembler->used--;
}

void pdi_assembler_drop(struct pdi_assembler *assembler, uint32_t series)
{
    PDI_CHECK(series < assembler->series_max);
    PDI_CHECK(assembler->series[series].state == PDI_SERIES_GROWING);
    unlink_growing(assembler, series);
    release(assembler, series);
}

/* A growing series is complete; it keeps no page that it does not need. */
static void complete(struct pdi_assembler *assembler, uint32_t index)
{
    struct pdi_series *entry = &assembler->series[index];
    uint32_t needed = pages_of(entry->size);
    unlink_growing(assembler, index);
    pdi_pages_put(&assembler->pages, entry->page + needed, entry->pages - needed);
    entry->pages = needed;
    entry->state = PDI_SERIES_COMPLETE;
}

/* The growing series (owner, first), or PDI_SERIES_NONE; *others is then how many others the owner
 * has. */
static uint32_t find(const struct pdi_assembler *assembler, uint64_t owner, int64_t first,
                     uint32_t *others)
{
    *others = 0;
    uint32_t index = assembler->series[home(assembler, owner)].head;
    while (index != PDI_SERIES_NONE) { /* at most as many as are growing */
        const struct pdi_series *entry = &assembler->series[index];
        if (entry->owner == owner && entry->first == first) {
            return index;
        }
        *others += entry->owner == owner;
        index = entry->link;
    }
    return PDI_SERIES_NONE;
}

/* How many pages the series of this first piece takes at its start; 0: it is larger than any sample. All
 * are taken if the total is known. The last piece may be as small as one byte: that decides whether
 * the sample may be too large; and as large as the first: for that there is memory. */
uint32_t pdi_assembler_pages(const struct pdi_assembler *assembler,
                             const struct pdi_fragment *fragment)
{
    uint64_t piece = fragment->payload.size;
    uint64_t total = fragment->fragments == 0 ? 1 : fragment->fragments;
    if (piece > UINT32_MAX ||
        (total == 1 ? piece : (total - 1) * piece + 1) > assembler->sample_max) {
        return 0;
    }
    return pages_of(smaller(total * piece, assembler->sample_max));
}

/* Starts a series with its first piece, of which no byte is copied yet; answers its entry, or
 * PDI_SERIES_NONE. */
static uint32_t start(struct pdi_assembler *assembler, const struct pdi_fragment *fragment)
{
    uint32_t index = assembler->idle;
    uint32_t pages = pdi_assembler_pages(assembler, fragment);
    uint32_t page =
        index == PDI_SERIES_NONE ? PDI_PAGES_NONE : pdi_pages_get(&assembler->pages, pages);
    if (page == PDI_PAGES_NONE) {
        return PDI_SERIES_NONE;
    }
    struct pdi_series *entry = &assembler->series[index];
    uint32_t *head = &assembler->series[home(assembler, fragment->owner)].head;
    assembler->idle = entry->link;
    assembler->used++;
    assembler->growing++;
    assembler->loose += !fragment->in_order;
    assembler->untold += fragment->fragments == 0;
    *entry = (struct pdi_series){
        .owner = fragment->owner,
        .first = fragment->first,
        .next = fragment->first,
        .id = fragment->id,
        .page = page,
        .pages = pages,
        .fragments = fragment->fragments,
        .piece = (uint32_t)fragment->payload.size,
        .head = entry->head, /* another one's chain, which begins here */
        .link = *head,
        .state = PDI_SERIES_GROWING,
        .space = fragment->space,
        .in_order = fragment->in_order,
    };
    *head = index;
    return index;
}

/* Makes room for `size` bytes in all: behind the series or, if that is taken, elsewhere. */
static bool grow(struct pdi_assembler *assembler, struct pdi_series *entry, uint64_t size)
{
    if (size > assembler->sample_max) {
        return false;
    }
    uint32_t needed = pages_of(size);
    if (needed <= entry->pages) {
        return true;
    }
    if (pdi_pages_extend(&assembler->pages, entry->page, entry->pages, needed - entry->pages)) {
        entry->pages = needed;
        return true;
    }
    uint64_t twice = 2 * (uint64_t)entry->pages * PDI_SERIES_PAGE;
    uint32_t wanted = pages_of(smaller(twice < size ? size : twice, assembler->sample_max));
    uint32_t page = pdi_pages_get(&assembler->pages, wanted);
    if (page == PDI_PAGES_NONE) {
        wanted = needed;
        page = pdi_pages_get(&assembler->pages, wanted);
    }
    if (page == PDI_PAGES_NONE) {
        return false;
    }
    memcpy(bytes_at(assembler, page), bytes_at(assembler, entry->page), entry->size);
    pdi_pages_put(&assembler->pages, entry->page, entry->pages);
    entry->page = page;
    entry->pages = wanted;
    return true;
}

/* Whether a piece is what its series, started by the first one, expects next. */
static bool fits(const struct pdi_series *entry, const struct pdi_fragment *fragment)
{
    uint64_t pieces = (uint64_t)entry->next - (uint64_t)entry->first;
    uint64_t size = fragment->payload.size;
    uint32_t total = entry->fragments != 0 ? entry->fragments : fragment->fragments;
    /* Numbers rise by one at least, so in order too none is below the one due without others. */
    if (fragment->number < entry->next || size > entry->piece) {
        return false;
    }
    if (fragment->number != entry->next && !fragment->in_order) {
        return false;
    }
    if (entry->size != pieces * entry->piece) { /* the last one was short */
        return false;
    }
    if (total == 0) {
        return true;
    }
    if (fragment->fragments != 0 && fragment->fragments != total) {
        return false;
    }
    return pieces + 1 == total || (pieces + 1 < total && size == entry->piece);
}

int pdi_assembler_init(struct pdi_assembler *assembler, uint8_t *memory, uint64_t *used,
                       uint32_t pages, struct pdi_series *series, uint32_t series_max,
                       uint64_t sample_max)
{
    if (series_max == 0 || series_max > PDI_SERIES_MAX) {
        return PYDDSI_BAD_ARGUMENT;
    }
    *assembler = (struct pdi_assembler){
        .memory = memory,
        .series = series,
        .series_max = series_max,
        .sample_max = smaller(sample_max, (uint64_t)pages * PDI_SERIES_PAGE),
    };
    for (uint32_t index = 0; index < series_max; index++) {
        series[index] = (struct pdi_series){
            .head = PDI_SERIES_NONE, .link = index + 1 < series_max ? index + 1 : PDI_SERIES_NONE};
    }
    memset(used, 0, PDI_BITSET_WORDS((size_t)pages) * sizeof *used);
    return pdi_pages_init(&assembler->pages, used, pages);
}

int pdi_assembler_input(struct pdi_assembler *assembler, const struct pdi_fragment *fragment,
                        uint32_t *series, int *dropped)
{
    uint32_t others = 0;
    uint32_t index = find(assembler, fragment->owner, fragment->first, &others);
    *series = PDI_SERIES_NONE;
    *dropped = 0;
    if (index == PDI_SERIES_NONE) {
        if (fragment->number != fragment->first || fragment->payload.size == 0) {
            return PYDDSI_BAD_INPUT;
        }
        index = others < PDI_SERIES_OWNER_MAX ? start(assembler, fragment) : PDI_SERIES_NONE;
        if (index == PDI_SERIES_NONE) {
            return PYDDSI_NO_SPACE;
        }
    } else if (fragment->payload.size == 0 || !fits(&assembler->series[index], fragment)) {
        pdi_assembler_drop(assembler, index);
        *dropped = 1;
        return PYDDSI_BAD_INPUT;
    }
    struct pdi_series *entry = &assembler->series[index];
    uint64_t size = entry->size + fragment->payload.size;
    if (!grow(assembler, entry, size)) {
        pdi_assembler_drop(assembler, index);
        *dropped = 1;
        return PYDDSI_NO_SPACE;
    }
    memcpy(bytes_at(assembler, entry->page) + entry->size, fragment->payload.data,
           fragment->payload.size);
    entry->size = size;
    entry->moved = fragment->now;
    entry->next = (int64_t)((uint64_t)entry->next + 1);
    if (entry->fragments == 0 && fragment->fragments != 0) {
        entry->fragments = fragment->fragments;
        assembler->untold--;
    }
    if ((uint64_t)entry->next - (uint64_t)entry->first != entry->fragments) {
        return PYDDSI_OK;
    }
    complete(assembler, index);
    *series = index;
    return PYDDSI_END;
}

int pdi_assembler_finish(struct pdi_assembler *assembler, uint64_t owner, uint32_t *series)
{
    uint32_t index = assembler->series[home(assembler, owner)].head;
    while (index != PDI_SERIES_NONE) { /* at most as many as are growing */
        const struct pdi_series *entry = &assembler->series[index];
        if (entry->owner == owner && entry->fragments == 0) {
            complete(assembler, index);
            *series = index;
            return PYDDSI_OK;
        }
        index = entry->link;
    }
    return PYDDSI_END;
}

uint32_t pdi_assembler_forget(struct pdi_assembler *assembler, uint64_t mask, uint64_t match)
{
    uint32_t dropped = 0;
    for (uint32_t index = 0; assembler->growing > 0 && index < assembler->series_max; index++) {
        const struct pdi_series *entry = &assembler->series[index];
        if (entry->state == PDI_SERIES_GROWING && (entry->owner & mask) == match) {
            pdi_assembler_drop(assembler, index);
            dropped++;
        }
    }
    return dropped;
}

/* Whether a run of so many pages is free, or one of `more` behind these. */
static bool pages_free(const struct pdi_assembler *assembler, const struct pdi_series *entry,
                       uint32_t count)
{
    struct pdi_pages look = assembler->pages; /* what a search changes in it goes with it, */
    if (entry != NULL && count <= entry->pages) {
        return true;
    }
    if (entry != NULL && pdi_pages_extend(&look, entry->page, entry->pages, count - entry->pages)) {
        pdi_pages_put(&look, entry->page + entry->pages, count - entry->pages);
        return true;
    }
    uint32_t page = pdi_pages_get(&look, count);
    if (page == PDI_PAGES_NONE) {
        return false;
    }
    pdi_pages_put(&look, page, count); /* and the bits are as before */
    return true;
}

bool pdi_assembler_room(const struct pdi_assembler *assembler, const struct pdi_fragment *fragment)
{
    uint32_t others = 0;
    uint32_t index = find(assembler, fragment->owner, fragment->first, &others);
    if (index != PDI_SERIES_NONE) {
        const struct pdi_series *entry = &assembler->series[index];
        uint64_t size = entry->size + fragment->payload.size;
        return !fits(entry, fragment) || size > assembler->sample_max ||
               pages_free(assembler, entry, pages_of(size));
    }
    uint32_t pages = pdi_assembler_pages(assembler, fragment);
    if (fragment->number != fragment->first || fragment->payload.size == 0 || pages == 0 ||
        others >= PDI_SERIES_OWNER_MAX) {
        return true;
    }
    return assembler->idle != PDI_SERIES_NONE && pages_free(assembler, NULL, pages);
}

uint32_t pdi_assembler_broken_one(const struct pdi_assembler *assembler, uint64_t owner,
                                  int64_t number)
{
    uint32_t index = assembler->series[home(assembler, owner)].head;
    while (index != PDI_SERIES_NONE) { /* at most as many as are growing */
        const struct pdi_series *entry = &assembler->series[index];
        if (entry->owner == owner && entry->next != number) {
            return index;
        }
        index = entry->link;
    }
    return PDI_SERIES_NONE;
}

pyddsi_bytes pdi_assembler_bytes(const struct pdi_assembler *assembler, uint32_t series)
{
    PDI_CHECK(series < assembler->series_max);
    const struct pdi_series *entry = &assembler->series[series];
    PDI_CHECK(entry->state == PDI_SERIES_COMPLETE);
    return (pyddsi_bytes){bytes_at(assembler, entry->page), (size_t)entry->size};
}

void pdi_assembler_free(struct pdi_assembler *assembler, uint32_t series)
{
    PDI_CHECK(series < assembler->series_max);
    PDI_CHECK(assembler->series[series].state == PDI_SERIES_COMPLETE);
    release(assembler, series);
}
