/* ring_mpsc.h - a queue from many threads to one.
 *
 * As in ring_spsc.h items of one size are copied into and out of a ring that the caller owns, and a
 * pushed item belongs to the consumer. Here the producers meet at one word, the tail, and each slot
 * says by a word of its own in whose hand it is. (The design is Dmitry Vyukov's bounded queue, with
 * one consumer.) A producer
 *
 *     1. looks whether the slot of count n = tail is free,
 *     2. claims it by cas of the tail from n to n + 1,
 *     3. writes the item,
 *     4. sets the slot's word to n + 1: now it is the consumer's.
 *
 *     word of slot        means                            set by
 *     n, and tail <= n    free for the item of count n     init; the consumer, with n - capacity
 *     n, and tail > n     claimed by one producer          (the tail says it, not the slot)
 *     n + 1               holds the item of count n        the producer that claimed n
 *
 * Who may write which word:
 *
 *     word        writer                          when                               reader
 *     tail        any producer, by cas            its slot is free                   producers
 *     sequence    the producer that claimed n     item written: n + 1, release       all
 *                 consumer                        item read: n + capacity, release
 *     item        the producer that claimed n     from the claim to n + 1            consumer
 *     head        consumer                        pop                                consumer
 *     the rest    nobody                          after init                         all
 *
 * Items come out in the order of the claims, so each producer's own items stay in order. A producer
 * that is stopped between 2 and 4 holds up the consumer at its slot but loses nothing. With a
 * capacity of 1 "holds n" and "free for n + 1" would be the same word; so 2 is the least.
 *
 * Why not a ring per producer: the consumer would have to visit them all, and know when a thread
 * comes or goes.
 */
#ifndef PDI_BASE_RING_MPSC_H
#define PDI_BASE_RING_MPSC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/atomic.h"
#include "pyddsi.h"

#define PDI_RING_MPSC_CAPACITY_MAX  (UINT32_C(1) << 31)
#define PDI_RING_MPSC_ITEM_SIZE_MAX 4096

/* Each time a producer fails to claim a slot another one has claimed it, so the ring makes
 * progress; but this one's turn must come too, or its caller must hear of it. */
#define PDI_RING_MPSC_CLAIMS_MAX 1000

/* A slot is its word and the item, rounded up so that the next word is aligned. */
#define PDI_RING_MPSC_SLOT_SIZE(item_size) (8 + ((size_t)(item_size) + 7) / 8 * 8)

/* How much memory a ring needs; it must be aligned to 8 bytes. */
#define PDI_RING_MPSC_BYTES(capacity, item_size)                                                   \
    ((size_t)(capacity) * PDI_RING_MPSC_SLOT_SIZE(item_size))

struct pdi_ring_mpsc_slot {
    struct pdi_atomic64 sequence;
    uint8_t item[];
};

/* The padding is wanted. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct pdi_ring_mpsc {
    uint8_t *slots;
    uint32_t capacity;
    uint32_t item_size;

    PDI_CACHE_ALIGNED struct pdi_atomic64 tail; /* the producers' line */

    PDI_CACHE_ALIGNED uint64_t head; /* the consumer's line */
};

/* The slot of the item with this count. */
static inline struct pdi_ring_mpsc_slot *pdi_ring_mpsc_slot(const struct pdi_ring_mpsc *ring,
                                                            uint64_t count)
{
    size_t index = (size_t)(count & (ring->capacity - 1));
    return (void *)(ring->slots + index * PDI_RING_MPSC_SLOT_SIZE(ring->item_size));
}

/* Makes an empty ring of `capacity` items of `item_size` bytes in `memory`. Must be over before any
 * side starts.
 * PYDDSI_OK; PYDDSI_BAD_ARGUMENT if capacity is not a power of two in 2 ..
 * PDI_RING_MPSC_CAPACITY_MAX, item_size not in 1 .. PDI_RING_MPSC_ITEM_SIZE_MAX or memory not
 * aligned; PYDDSI_NO_SPACE if memory_size is below PDI_RING_MPSC_BYTES. */
static inline int pdi_ring_mpsc_init(struct pdi_ring_mpsc *ring, void *memory, size_t memory_size,
                                     uint32_t capacity, uint32_t item_size)
{
    if (capacity < 2 || capacity > PDI_RING_MPSC_CAPACITY_MAX || (capacity & (capacity - 1)) != 0 ||
        item_size == 0 || item_size > PDI_RING_MPSC_ITEM_SIZE_MAX || (uintptr_t)memory % 8 != 0) {
        return PYDDSI_BAD_ARGUMENT;
    }
    if (memory_size < PDI_RING_MPSC_BYTES(capacity, item_size)) {
        return PYDDSI_NO_SPACE;
    }
    ring->slots = memory;
    ring->capacity = capacity;
    ring->item_size = item_size;
    ring->head = 0;
    for (uint32_t count = 0; count < capacity; count++) {
        pdi_atomic64_store_relaxed(&pdi_ring_mpsc_slot(ring, count)->sequence, count);
    }
    pdi_atomic64_store_relaxed(&ring->tail, 0);
    return PYDDSI_OK;
}

/* Any producer: copies `item` into the ring and hands it to the consumer.
 * PYDDSI_OK; PYDDSI_AGAIN if the ring is full, or others were faster PDI_RING_MPSC_CLAIMS_MAX
 * times. */
static inline int pdi_ring_mpsc_push(struct pdi_ring_mpsc *ring, const void *item)
{
    uint64_t count = pdi_atomic64_load_relaxed(&ring->tail);
    for (int claims = 0; claims < PDI_RING_MPSC_CLAIMS_MAX; claims++) {
        struct pdi_ring_mpsc_slot *slot = pdi_ring_mpsc_slot(ring, count);
        uint64_t sequence = pdi_atomic64_load_acquire(&slot->sequence);
        if ((int64_t)(sequence - count) < 0) { /* it still holds an item of the last round */
            return PYDDSI_AGAIN;
        }
        /* If it is past count, the tail that we know is old; then this fails and brings the new. */
        if (pdi_atomic64_cas(&ring->tail, &count, count + 1)) {
            pdi_atomic_yield();
            memcpy(slot->item, item, ring->item_size);
            pdi_atomic64_store_release(&slot->sequence, count + 1);
            return PYDDSI_OK;
        }
    }
    return PYDDSI_AGAIN;
}

/* Consumer: copies the oldest item to `item` and frees its slot.
 * PYDDSI_OK; PYDDSI_AGAIN if the ring is empty, or its oldest item is still being written. */
static inline int pdi_ring_mpsc_pop(struct pdi_ring_mpsc *ring, void *item)
{
    struct pdi_ring_mpsc_slot *slot = pdi_ring_mpsc_slot(ring, ring->head);
    if (pdi_atomic64_load_acquire(&slot->sequence) != ring->head + 1) {
        return PYDDSI_AGAIN;
    }
    pdi_atomic_yield();
    memcpy(item, slot->item, ring->item_size);
    pdi_atomic64_store_release(&slot->sequence, ring->head + ring->capacity);
    ring->head++;
    return PYDDSI_OK;
}

#endif
