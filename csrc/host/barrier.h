/* barrier.h - a full barrier that one side pays for both.
 *
 * Two threads, each of which changes a word of its own and then looks at the other's, need a full barrier between the two on
 * both sides, or each may see the other's word as it was before:
 *
 *     who does it often               who does it seldom
 *     changes his word                changes his word
 *     pdi_barrier_light               pdi_barrier_heavy
 *     looks at the other's            looks at the other's
 *
 * Where one does so for every sample and the other before it goes to sleep, the barrier of the first costs much more than the
 * instruction says: it waits until all that was written before has reached the other processors, which for samples in shared
 * memory are some misses each. The system can have every running thread of the processes that have registered pass a barrier
 * at a moment of the caller's choice (membarrier, Linux 4.16). So the light side keeps the compiler from changing
 * the order, and nothing else; the heavy side does a system call.
 *
 * The light side's process must have registered, and the heavy side must be able to call; each knows its own half only
 * (pdi_barrier_begin), and processes tell each other. Where it is not to be had, both sides do what they did before: they
 * change words by atomic operations, which are barriers.
 */
#ifndef PDI_HOST_BARRIER_H
#define PDI_HOST_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

/* Registers this process, and answers whether that can be had here. Best called while there is one thread: with several
 * the system may take some milliseconds the first time. */
bool pdi_barrier_begin(void);

/* Only after a begin that answered true, in this process. */
void pdi_barrier_heavy(void);

static inline void pdi_barrier_light(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

#endif
