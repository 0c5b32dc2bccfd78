/* heap.c - which deadline comes first: the moves.
 *
 * An entry is never swapped upwards or downwards step by step. It is held in the hand while a hole
 * moves to where it belongs: each step writes one entry and one place instead of two. The hole
 * moves at most once per level, and there are at most 30 levels (PDI_HEAP_CAPACITY_MAX), which
 * bounds both loops.
 */
#include "base/heap.h"

#include <stdbool.h>

#include "base/check.h"

#define NOWHERE UINT32_MAX

static bool earlier(const struct pdi_heap_entry *a, const struct pdi_heap_entry *b)
{
    return a->deadline < b->deadline || (a->deadline == b->deadline && a->item < b->item);
}

static void set(struct pdi_heap *heap, uint32_t place, struct pdi_heap_entry entry)
{
    heap->entries[place] = entry;
    heap->places[entry.item] = place + 1;
}

/* Where an item stands, NOWHERE if it is not in the heap. */
static uint32_t place_of(const struct pdi_heap *heap, uint32_t item)
{
    return heap->places[item] - 1;
}

/* Moves the hole up past every parent that is later than `entry`; answers where it ends. */
static uint32_t hole_up(struct pdi_heap *heap, uint32_t hole, const struct pdi_heap_entry *entry)
{
    while (hole > 0) {
        uint32_t parent = (hole - 1) / 2;
        if (!earlier(entry, &heap->entries[parent])) {
            break;
        }
        set(heap, hole, heap->entries[parent]);
        hole = parent;
    }
    return hole;
}

/* Moves the hole down past every child that is earlier than `entry`; answers where it ends. */
static uint32_t hole_down(struct pdi_heap *heap, uint32_t hole, const struct pdi_heap_entry *entry)
{
    for (;;) {
        uint32_t child = 2 * hole + 1;
        if (child >= heap->count) {
            return hole;
        }
        if (child + 1 < heap->count && earlier(&heap->entries[child + 1], &heap->entries[child])) {
            child++;
        }
        if (!earlier(&heap->entries[child], entry)) {
            return hole;
        }
        set(heap, hole, heap->entries[child]);
        hole = child;
    }
}

/* Puts `entry` where it belongs, starting from a hole anywhere. If the first walk moves the hole,
 * the entry is earlier than all that is then below it, and the second walk ends at once. */
static void settle(struct pdi_heap *heap, uint32_t hole, struct pdi_heap_entry entry)
{
    hole = hole_up(heap, hole, &entry);
    hole = hole_down(heap, hole, &entry);
    set(heap, hole, entry);
}

/* Takes out the entry at `place` and fills the hole with the last one. */
static void take(struct pdi_heap *heap, uint32_t place)
{
    struct pdi_heap_entry last = heap->entries[--heap->count];
    heap->places[heap->entries[place].item] = 0;
    if (place != heap->count) {
        settle(heap, place, last);
    }
}

int pdi_heap_init(struct pdi_heap *heap, struct pdi_heap_entry *entries, uint32_t capacity,
                  uint32_t *places, uint32_t items_max)
{
    if (capacity > PDI_HEAP_CAPACITY_MAX) {
        return PYDDSI_BAD_ARGUMENT;
    }
    *heap = (struct pdi_heap){
        .entries = entries, .places = places, .capacity = capacity, .items_max = items_max};
    return PYDDSI_OK;
}

int pdi_heap_put(struct pdi_heap *heap, uint32_t item, pdi_time deadline)
{
    if (item >= heap->items_max) {
        return PYDDSI_BAD_ARGUMENT;
    }
    uint32_t place = place_of(heap, item);
    if (deadline == PDI_TIME_NEVER) {
        if (place != NOWHERE) {
            take(heap, place);
        }
        return PYDDSI_OK;
    }
    if (place == NOWHERE) {
        if (heap->count == heap->capacity) {
            return PYDDSI_NO_SPACE;
        }
        place = heap->count++;
    }
    settle(heap, place, (struct pdi_heap_entry){deadline, item});
    return PYDDSI_OK;
}

pdi_time pdi_heap_get(const struct pdi_heap *heap, uint32_t item)
{
    uint32_t place = item < heap->items_max ? place_of(heap, item) : NOWHERE;
    if (place == NOWHERE) {
        return PDI_TIME_NEVER;
    }
    PDI_CHECK(heap->entries[place].item == item);
    return heap->entries[place].deadline;
}

pdi_time pdi_heap_due(const struct pdi_heap *heap)
{
    return heap->count == 0 ? PDI_TIME_NEVER : heap->entries[0].deadline;
}

int pdi_heap_pop(struct pdi_heap *heap, pdi_time now, uint32_t *item)
{
    if (heap->count == 0 || heap->entries[0].deadline > now) {
        return PYDDSI_AGAIN;
    }
    *item = heap->entries[0].item;
    take(heap, 0);
    return PYDDSI_OK;
}
