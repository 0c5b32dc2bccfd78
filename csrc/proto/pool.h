/* pool.h - the packets that came in, kept for as long as anyone looks at them.
 *
 * Slots of equal size in memory that the caller owns. A packet is received into a free slot; the
 * samples in it are read where they lie, by as many readers as want them, and each reader holds the
 * slot until it is done. So a payload is never copied on its way in.
 *
 *     free ring ──► get ──► one hold ──► hold, hold .. ──► drop .. drop ──► the last: free ring
 *                 receive    (the       who holds it may    any thread
 *                 thread    receiver)   hold it for others
 *
 * Who may change what:
 *
 *     word             when it is      who             what
 *     holds of a slot  0, out of ring  receive thread  0 → 1, by a plain store: nobody else knows it
 *                      1 or more       any holder      +1 for somebody else
 *                      2 or more       any holder      -1; the one that makes it 0 owns the slot
 *                      1               its one holder  1 → 0, by a plain store: nobody else may look
 *     free ring        any time        who made it 0   pushes the slot
 *                      any time        receive thread  pops
 *     bytes of a slot  got             receive thread  writes, before it holds it for anybody else
 *                      held            any holder      reads
 *
 * Invariant: a slot is in the ring once and its holds are 0, or out of it and they are not (or it
 * is on the way between, in the hands of one thread). So there are never more than `slots` numbers
 * for the ring, which has room for so many: a push cannot find it full.
 *
 * The last drop acquires what all the earlier ones released, and the ring hands that on: no reader
 * reads any more when the receive thread writes the next packet into the slot.
 *
 * Why the ring and not a list of free slots through the slots themselves: the usual one, a stack by
 * compare-and-swap, needs a tag against a slot that goes and comes back (ABA), and hands out the
 * slot that another processor has just touched. The ring is there, is tested, and hands out the one
 * that has rested longest.
 */
#ifndef PDI_PROTO_POOL_H
#define PDI_PROTO_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/ring_mpsc.h"

#define PDI_POOL_NONE      UINT32_MAX
#define PDI_POOL_SLOTS_MIN 2U
#define PDI_POOL_SLOTS_MAX (UINT32_C(1) << 30)

/* The ring always has room, but a push gives up when other threads were faster
 * PDI_RING_MPSC_CLAIMS_MAX times. Then it is tried again, so often at the most. */
#define PDI_POOL_PUSHES_MAX 1000000

/* The ring in it is padded on purpose. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct pdi_pool {
    uint8_t *memory;
    uint32_t slot_bytes;
    uint32_t slots;
    struct pdi_atomic32 *holds; /* one per slot */
    struct pdi_ring_mpsc free;  /* of uint32_t */
};

/* Makes a pool whose slots are all free, in `memory[slots * slot_bytes]`, `holds[slots]` and
 * `ring_memory[PDI_RING_MPSC_BYTES(slots, 4)]`, aligned to 8. Must be over before any other thread
 * knows it.
 * PYDDSI_OK; PYDDSI_BAD_ARGUMENT if slots is not a power of two in PDI_POOL_SLOTS_MIN ..
 * PDI_POOL_SLOTS_MAX, slot_bytes is 0 or ring_memory is not aligned. */
int pdi_pool_init(struct pdi_pool *pool, uint8_t *memory, uint32_t slot_bytes, uint32_t slots,
                  struct pdi_atomic32 *holds, void *ring_memory);

/* How many slots are free. Exact for the receive thread while nobody drops; for statistics. */
uint32_t pdi_pool_free(const struct pdi_pool *pool);

/* Receive thread: a free slot, held once, by the caller; PDI_POOL_NONE if none is free. */
static inline uint32_t pdi_pool_get(struct pdi_pool *pool)
{
    uint32_t slot = PDI_POOL_NONE;
    if (pdi_ring_mpsc_pop(&pool->free, &slot) != PYDDSI_OK) {
        return PDI_POOL_NONE;
    }
    pdi_atomic32_store_relaxed(&pool->holds[slot], 1);
    return slot;
}

/* Who holds a slot holds it so many times more, for others. */
static inline void pdi_pool_hold_many(struct pdi_pool *pool, uint32_t slot, uint32_t count)
{
    PDI_CHECK(slot < pool->slots);
    uint32_t before = pdi_atomic32_add(&pool->holds[slot], count);
    PDI_CHECK(before != 0 && before <= UINT32_MAX - count);
    (void)before;
}

static inline void pdi_pool_hold(struct pdi_pool *pool, uint32_t slot)
{
    pdi_pool_hold_many(pool, slot, 1);
}

/* Any thread: so many holds less, which are all the caller's. With the last one the slot is free. */
static inline void pdi_pool_drop_many(struct pdi_pool *pool, uint32_t slot, uint32_t count)
{
    PDI_CHECK(slot < pool->slots && count != 0);
    /* With no more holds than these all are the caller's, and nobody else can change the word. */
    if (pdi_atomic32_load_acquire(&pool->holds[slot]) == count) {
        pdi_atomic32_store_relaxed(&pool->holds[slot], 0);
    } else {
        uint32_t before = pdi_atomic32_add(&pool->holds[slot], 0U - count);
        PDI_CHECK(before >= count);
        if (before != count) {
            return;
        }
    }
    int status = PYDDSI_AGAIN;
    for (int pushes = 0; status != PYDDSI_OK && pushes < PDI_POOL_PUSHES_MAX; pushes++) {
        status = pdi_ring_mpsc_push(&pool->free, &slot);
    }
    PDI_CHECK(status == PYDDSI_OK);
}

static inline void pdi_pool_drop(struct pdi_pool *pool, uint32_t slot)
{
    pdi_pool_drop_many(pool, slot, 1);
}

/* The bytes of a slot. */
static inline uint8_t *pdi_pool_data(const struct pdi_pool *pool, uint32_t slot)
{
    return pool->memory + (size_t)slot * pool->slot_bytes;
}

#endif
