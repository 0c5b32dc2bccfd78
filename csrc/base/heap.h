/* heap.h - which deadline comes first.
 *
 * A binary min-heap of (deadline, item). Items are small numbers (the index of a peer, of a
 * conduit, of a job), each in the heap at most once. For every item the heap notes at which place
 * it stands, so that a deadline can be changed or taken away in O(log n) when a lease is renewed or
 * an ack arrives, and not only when it has come to the top:
 *
 *     entries            [0] item 1, 100                 places    of item   0  1  2  3
 *                       /               \                          stands at  2  0  -  1
 *            [1] item 3, 200       [2] item 0, 300
 *
 * PDI_TIME_NEVER is the deadline of an item that is not in the heap: to put that is to take the
 * item out, and to get it is to learn that the item is not there. So there is one function to
 * change anything.
 *
 * Invariants: no entry is earlier than its parent at (i - 1) / 2; entries[places[item] - 1].item ==
 * item for every item in the heap, and places[item] == 0 for all others. Equal
 * deadlines are ordered by item, so what comes out depends on what is in and not on the way it got
 * there, and a simulated run repeats exactly.
 *
 * Why not a timer wheel: a wheel is faster per timer but must be turned tick by tick, and cannot
 * say when the next deadline is without a search; due() is asked at every step, and here it is one
 * load.
 *
 * One thread at a time.
 */
#ifndef PDI_BASE_HEAP_H
#define PDI_BASE_HEAP_H

#include <stdint.h>

#include "base/time.h"
#include "pyddsi.h"

#define PDI_HEAP_CAPACITY_MAX (UINT32_C(1) << 30)

struct pdi_heap_entry {
    pdi_time deadline;
    uint32_t item;
};

struct pdi_heap {
    struct pdi_heap_entry *entries;
    uint32_t *places; /* of each item its place and one; 0: it is not there */
    uint32_t count;
    uint32_t capacity;
    uint32_t items_max;
};

/* Makes an empty heap of at most `capacity` entries in `entries[capacity]`, for items 0 ..
 * items_max - 1, whose places are kept in `places[items_max]`, which must hold zeros: to write them
 * here would take memory for items that never come.
 * PYDDSI_OK; PYDDSI_BAD_ARGUMENT if capacity is over PDI_HEAP_CAPACITY_MAX. */
int pdi_heap_init(struct pdi_heap *heap, struct pdi_heap_entry *entries, uint32_t capacity,
                  uint32_t *places, uint32_t items_max);

/* Gives `item` this deadline, whether or not it had another; PDI_TIME_NEVER takes it out.
 * PYDDSI_OK; PYDDSI_NO_SPACE if it is new and the heap is full; PYDDSI_BAD_ARGUMENT if there is no
 * such item. */
int pdi_heap_put(struct pdi_heap *heap, uint32_t item, pdi_time deadline);

/* The deadline of `item`, PDI_TIME_NEVER if it has none. */
pdi_time pdi_heap_get(const struct pdi_heap *heap, uint32_t item);

/* The earliest deadline, PDI_TIME_NEVER if the heap is empty. */
pdi_time pdi_heap_due(const struct pdi_heap *heap);

/* Takes out the item with the earliest deadline if that has come, that is, if it is not after
 * `now`.
 * PYDDSI_OK, and *item is set; PYDDSI_AGAIN if no deadline has come. */
int pdi_heap_pop(struct pdi_heap *heap, pdi_time now, uint32_t *item);

#endif
