/* pool.c - the packets that came in: making the pool. What happens per packet is in the header. */
#include "proto/pool.h"

int pdi_pool_init(struct pdi_pool *pool, uint8_t *memory, uint32_t slot_bytes, uint32_t slots,
                  struct pdi_atomic32 *holds, void *ring_memory)
{
    if (slots < PDI_POOL_SLOTS_MIN || slots > PDI_POOL_SLOTS_MAX || slot_bytes == 0) {
        return PYDDSI_BAD_ARGUMENT;
    }
    pool->memory = memory;
    pool->slot_bytes = slot_bytes;
    pool->slots = slots;
    pool->holds = holds;
    int status = pdi_ring_mpsc_init(&pool->free, ring_memory, PDI_RING_MPSC_BYTES(slots, 4), slots,
                                    sizeof(uint32_t));
    if (status != PYDDSI_OK) {
        return status;
    }
    for (uint32_t slot = 0; slot < slots; slot++) {
        pdi_atomic32_store_relaxed(&holds[slot], 0);
        (void)pdi_ring_mpsc_push(&pool->free, &slot); /* it has room for all */
    }
    return PYDDSI_OK;
}

uint32_t pdi_pool_free(const struct pdi_pool *pool)
{
    return (uint32_t)(pdi_atomic64_load_acquire(&pool->free.tail) - pool->free.head);
}
