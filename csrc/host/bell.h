/* bell.h - waking whoever waits for something, in this process or another.
 *
 * A bell is a cache line. `rings` counts how often it was rung; it is what the system lets threads
 * sleep on. `asleep` counts those who listen, so that ringing costs no system call while nobody
 * does. Two more words save calls to those who are awake already; see below.
 *
 *     who waits                                      who has made something happen
 *     heard = listen      asleep + 1                 (the change itself: a store that releases)
 *     look once more      ── nothing ──┐             ring    asleep + 0 ──► 0: nobody to wake
 *     unlisten, or        asleep - 1   │                        │
 *     wait(heard)                      ▼                        ▼
 *        sleeps while rings == heard ◄────── wakes ───── rings + 1
 *
 * Why nothing is slept through. Whoever waits changes `asleep` and then looks; whoever rings stores
 * and then changes `asleep`, if only by nothing. The changes of one word have one order. If the
 * ringer's is the later, it finds us counted, and rings: then `rings` differs from what we heard,
 * be we asleep already or not yet. If ours is the later, it has acquired what the ringer released,
 * and our look finds the change. (This is what a full barrier on either side is usually taken for.
 * A change by nothing does the same in words that the thread sanitizer and a seed can follow, and
 * costs no more.)
 *
 * Whoever was woken runs only when the system lets him, and until then he is counted. So that a
 * fast ringer does not wake him again and again, the bell remembers how many had ever begun to
 * listen (`listens`) when it was last rung (`told`). While nobody has begun since, all who are
 * counted have been woken and will look. Each is read before what it is compared with: who listens
 * reads `rings` before he stands in `listens`, and who rings reads `listens` before he changes
 * `rings`. A ringer that dies in between leaves a `told` that is too old: one call too many.
 *
 * Who rings for every sample does not change `asleep` but reads it (ring_light), which is right only if everybody who listens
 * passes a heavy barrier between listen and that look (barrier.h). A change by nothing waits until all that was
 * written before has reached the other processors; a look does not.
 *
 * Sleeping may end without a reason, so whoever waits looks again in any case. Whoever listens ends
 * it by exactly one of unlisten and wait. A process that dies while it listens leaves `asleep` too
 * high, for as long as the bell lasts: ringing then costs a system call each time, and is never
 * missed. A neighbour that writes nonsense into the words can wake us in vain or let us sleep until
 * our own time is over; so nobody sleeps for ever by a bell that others ring.
 *
 * Bells may lie in memory that processes share: nothing here points anywhere. All zero is a bell
 * that was never rung.
 *
 * Why not an eventfd: it costs a system call on either side each time, whether or not anybody
 * sleeps.
 */
#ifndef PDI_HOST_BELL_H
#define PDI_HOST_BELL_H

#include "base/atomic.h"
#include "base/time.h"
#include "host/barrier.h"
#include "pyddsi.h"

struct pdi_bell {
    PDI_CACHE_ALIGNED struct pdi_atomic32 rings;
    struct pdi_atomic32 asleep;
    struct pdi_atomic32 listens;
    struct pdi_atomic32 told;
};

/* Wakes all who sleep. */
void pdi_bell_wake(struct pdi_bell *bell);

static inline void pdi_bell_init(struct pdi_bell *bell)
{
    pdi_atomic32_store_relaxed(&bell->rings, 0);
    pdi_atomic32_store_relaxed(&bell->asleep, 0);
    pdi_atomic32_store_relaxed(&bell->listens, 0);
    pdi_atomic32_store_relaxed(&bell->told, 0);
}

/* From now on ringing wakes us. Answers what wait is to be told. */
static inline uint32_t pdi_bell_listen(struct pdi_bell *bell)
{
    uint32_t heard = pdi_atomic32_load_acquire(&bell->rings);
    (void)pdi_atomic32_add(&bell->listens, 1);
    (void)pdi_atomic32_add(&bell->asleep, 1);
    return heard;
}

/* What we wanted has happened already: instead of wait. */
static inline void pdi_bell_unlisten(struct pdi_bell *bell)
{
    (void)pdi_atomic32_add(&bell->asleep, UINT32_MAX);
}

/* Sleeps until the bell is rung, or was since `heard`, or `timeout` nanoseconds are over
 * (PDI_TIME_NEVER: for ever), or a signal comes; and stops listening.
 * PYDDSI_OK: look again; PYDDSI_AGAIN: the time is over; PYDDSI_END: a signal came. */
int pdi_bell_wait(struct pdi_bell *bell, uint32_t heard, pdi_time timeout);

/* Somebody listens: wakes him, unless he has been. */
static inline bool pdi_bell_rouse(struct pdi_bell *bell)
{
    uint32_t listens = pdi_atomic32_load_acquire(&bell->listens);
    if (pdi_atomic32_load_acquire(&bell->told) == listens) {
        return false; /* all of them have been woken */
    }
    pdi_bell_wake(bell);
    pdi_atomic32_store_release(&bell->told, listens);
    return true;
}

/* After the change: wakes whoever listens. Answers whether anybody did, which has cost a system
 * call. */
static inline bool pdi_bell_ring(struct pdi_bell *bell)
{
    return pdi_atomic32_add(&bell->asleep, 0) != 0 && pdi_bell_rouse(bell);
}

/* The same where all who listen pass a heavy barrier before they look. */
static inline bool pdi_bell_ring_light(struct pdi_bell *bell)
{
    pdi_barrier_light();
    return pdi_atomic32_load_relaxed(&bell->asleep) != 0 && pdi_bell_rouse(bell);
}

#endif
