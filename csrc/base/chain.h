/* chain.h - lists and free slots among things that have numbers.
 *
 * Where many things belong to each other, each is an item of an array and is known by its index. An item hangs in several lists at once
 * (a link in the list of its publication and in that of its subscription), with one pdi_chain in it for each. A lane
 * says where in the array the chains of one such list lie:
 *
 *     array:   [ .. chain .. ][ .. chain .. ][ .. chain .. ]
 *                   ▲ at          ▲ at + stride
 *
 * so that one append and one remove serve all lists, at the cost of a multiplication. Free items hang in a list of their
 * own through an array of indices: to get one and to give it back is O(1) however many there are (002-35), and nothing
 * ever looks for a free one.
 *
 * Why indices and not pointers: they are half as large, and survive a copy of the whole memory.
 */
#ifndef PDI_BASE_CHAIN_H
#define PDI_BASE_CHAIN_H

#include "base/check.h"
#include "base/carve.h"

#define PDI_CHAIN_END UINT32_MAX

struct pdi_chain {
    uint32_t prev, next;
};

/* A list. */
struct pdi_ends {
    uint32_t first, last;
};

#define PDI_ENDS_EMPTY ((struct pdi_ends){PDI_CHAIN_END, PDI_CHAIN_END})

struct pdi_chains {
    void *at; /* the chain of item 0 */
    size_t stride;
};

static inline struct pdi_chain *pdi_chains_item(const struct pdi_chains *lane, uint32_t item)
{
    return (void *)((char *)lane->at + item * lane->stride);
}

static inline uint32_t pdi_chain_next(const struct pdi_chains *lane, uint32_t item)
{
    return pdi_chains_item(lane, item)->next;
}

static inline void pdi_lane_append(const struct pdi_chains *lane, struct pdi_ends *ends,
                                   uint32_t item)
{
    *pdi_chains_item(lane, item) = (struct pdi_chain){ends->last, PDI_CHAIN_END};
    if (ends->last == PDI_CHAIN_END)
        ends->first = item;
    else
        pdi_chains_item(lane, ends->last)->next = item;
    ends->last = item;
}

static inline void pdi_lane_remove(const struct pdi_chains *lane, struct pdi_ends *ends,
                                   uint32_t item)
{
    struct pdi_chain chain = *pdi_chains_item(lane, item);
    if (chain.prev == PDI_CHAIN_END)
        ends->first = chain.next;
    else
        pdi_chains_item(lane, chain.prev)->next = chain.next;
    if (chain.next == PDI_CHAIN_END)
        ends->last = chain.prev;
    else
        pdi_chains_item(lane, chain.next)->prev = chain.prev;
}

/* The free items of an array: a list of those that were given back, and all that were never taken. `next` is written only
 * for items that are given back, so an array that is sized for many takes no memory for those that never come. */
struct pdi_slots {
    uint32_t *next; /* of an item that was given back: the next one */
    uint32_t free;  /* the first of these */
    uint32_t fresh; /* items from here on were never taken */
    uint32_t used;
    uint32_t count;
};

static inline void pdi_slots_init(struct pdi_slots *slots, uint32_t *next, uint32_t count)
{
    *slots = (struct pdi_slots){.next = next, .free = PDI_CHAIN_END, .count = count};
}

static inline bool pdi_slots_full(const struct pdi_slots *slots)
{
    return slots->used == slots->count;
}

/* A free item, PDI_CHAIN_END if there is none. */
static inline uint32_t pdi_slots_get(struct pdi_slots *slots)
{
    uint32_t item = slots->free;
    if (item != PDI_CHAIN_END) {
        slots->free = slots->next[item];
    } else if (slots->fresh < slots->count) {
        item = slots->fresh++;
    } else {
        return PDI_CHAIN_END;
    }
    slots->used++;
    return item;
}

static inline void pdi_slots_put(struct pdi_slots *slots, uint32_t item)
{
    PDI_CHECK(item < slots->count && slots->used > 0);
    slots->next[item] = slots->free;
    slots->free = item;
    slots->used--;
}

#endif
