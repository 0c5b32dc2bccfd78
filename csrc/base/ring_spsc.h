/* ring_spsc.h - a queue from one thread to one other.
 *
 * Items of one size are copied into slots of a ring that the caller owns, and out of it; once an
 * item is published, it belongs to the consumer and to nobody else, with all that it refers to. An
 * item is a description (where a payload lies, what happened), not the payload itself.
 *
 *              head        head_next      tail       tail_next
 *               |              |            |            |
 *      --free-->|   popped,    | published  | pushed,    |--free--
 *               | not released |            | not shown  |
 *
 * The four are counts of items since the beginning and never wrap; the slot of count n is n mod
 * capacity.
 *
 * Invariant: head <= head_next <= tail <= tail_next <= head + capacity.
 *
 * Who may write which word:
 *
 *     word         writer      when                              reader, to learn
 *     tail         producer    publish, by store_release         consumer: what is written
 *     head         consumer    release, by store_release         producer: what is free
 *     slot of n    producer    tail <= n < head + capacity       consumer, if head <= n < tail
 *     tail_next    producer    push                              producer
 *     head_seen    producer    push, when the ring looks full    producer: head was here already
 *     head_next    consumer    pop                               consumer
 *     tail_seen    consumer    pop, when it looks empty          consumer: tail was here already
 *     the rest     nobody      after init                        both
 *
 * Reading the other side's word costs a cache miss, so each side keeps the last value it saw and
 * looks again only when that is not enough; and it writes its own word once for a batch: push
 * several, then publish; pop several, then release. What is held back cannot make the two sides
 * wait for each other: a push that finds the ring full publishes, and a pop that finds it empty
 * releases.
 *
 * Positions on two cache lines, producer's and consumer's, and no word written by both: there is
 * nothing to compare and swap, and neither side can be held up by the other being stopped in the
 * middle.
 */
#ifndef PDI_BASE_RING_SPSC_H
#define PDI_BASE_RING_SPSC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/atomic.h"
#include "pyddsi.h"

#define PDI_RING_SPSC_CAPACITY_MAX  (UINT32_C(1) << 31)
#define PDI_RING_SPSC_ITEM_SIZE_MAX 4096

/* How much memory a ring needs. */
#define PDI_RING_SPSC_BYTES(capacity, item_size) ((size_t)(capacity) * (size_t)(item_size))

/* The padding is wanted. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct pdi_ring_spsc {
    uint8_t *slots;
    uint32_t capacity;
    uint32_t item_size;

    PDI_CACHE_ALIGNED struct pdi_atomic64 tail; /* the producer's line */
    uint64_t tail_next;
    uint64_t head_seen;

    PDI_CACHE_ALIGNED struct pdi_atomic64 head; /* the consumer's line */
    uint64_t head_next;
    uint64_t tail_seen;
};

/* Makes an empty ring of `capacity` items of `item_size` bytes in `memory`. Must be over before
 * either side starts.
 * PYDDSI_OK; PYDDSI_BAD_ARGUMENT if capacity is not a power of two up to PDI_RING_SPSC_CAPACITY_MAX
 * or item_size not in 1 .. PDI_RING_SPSC_ITEM_SIZE_MAX; PYDDSI_NO_SPACE if memory_size is below
 * PDI_RING_SPSC_BYTES. */
static inline int pdi_ring_spsc_init(struct pdi_ring_spsc *ring, void *memory, size_t memory_size,
                                     uint32_t capacity, uint32_t item_size)
{
    if (capacity == 0 || capacity > PDI_RING_SPSC_CAPACITY_MAX ||
        (capacity & (capacity - 1)) != 0 || item_size == 0 ||
        item_size > PDI_RING_SPSC_ITEM_SIZE_MAX) {
        return PYDDSI_BAD_ARGUMENT;
    }
    if (memory_size < PDI_RING_SPSC_BYTES(capacity, item_size)) {
        return PYDDSI_NO_SPACE;
    }
    ring->slots = memory;
    ring->capacity = capacity;
    ring->item_size = item_size;
    ring->tail_next = ring->head_seen = ring->head_next = ring->tail_seen = 0;
    pdi_atomic64_store_relaxed(&ring->tail, 0);
    pdi_atomic64_store_relaxed(&ring->head, 0);
    return PYDDSI_OK;
}

/* The slot of the item with this count. */
static inline uint8_t *pdi_ring_spsc_slot(const struct pdi_ring_spsc *ring, uint64_t count)
{
    return ring->slots + (size_t)(count & (ring->capacity - 1)) * ring->item_size;
}

/* Producer: shows the consumer all that has been pushed. */
static inline void pdi_ring_spsc_publish(struct pdi_ring_spsc *ring)
{
    if (pdi_atomic64_load_relaxed(&ring->tail) != ring->tail_next) {
        pdi_atomic64_store_release(&ring->tail, ring->tail_next);
    }
}

/* Producer: copies `item` into the ring; the consumer sees it after the next publish.
 * PYDDSI_OK; PYDDSI_AGAIN if the ring is full, and then everything pushed so far is published. */
static inline int pdi_ring_spsc_push(struct pdi_ring_spsc *ring, const void *item)
{
    if (ring->tail_next - ring->head_seen == ring->capacity) {
        ring->head_seen = pdi_atomic64_load_acquire(&ring->head);
        if (ring->tail_next - ring->head_seen == ring->capacity) {
            pdi_ring_spsc_publish(ring);
            return PYDDSI_AGAIN;
        }
    }
    pdi_atomic_yield();
    memcpy(pdi_ring_spsc_slot(ring, ring->tail_next), item, ring->item_size);
    ring->tail_next++;
    return PYDDSI_OK;
}

/* Consumer: gives the slots of all that has been popped back to the producer. */
static inline void pdi_ring_spsc_release(struct pdi_ring_spsc *ring)
{
    if (pdi_atomic64_load_relaxed(&ring->head) != ring->head_next) {
        pdi_atomic64_store_release(&ring->head, ring->head_next);
    }
}

/* Consumer: copies the oldest published item to `item`; its slot is free after the next release.
 * PYDDSI_OK; PYDDSI_AGAIN if the ring is empty, and then everything popped so far is released. */
static inline int pdi_ring_spsc_pop(struct pdi_ring_spsc *ring, void *item)
{
    if (ring->head_next == ring->tail_seen) {
        ring->tail_seen = pdi_atomic64_load_acquire(&ring->tail);
        if (ring->head_next == ring->tail_seen) {
            pdi_ring_spsc_release(ring);
            return PYDDSI_AGAIN;
        }
    }
    pdi_atomic_yield();
    memcpy(item, pdi_ring_spsc_slot(ring, ring->head_next), ring->item_size);
    ring->head_next++;
    return PYDDSI_OK;
}

#endif
