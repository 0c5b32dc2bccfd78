/* bias.h - a lock that the same thread takes again and again.
 *
 * A publisher's lane is written by one thread nearly always, and now and then looked at by another, housekeeping. An ordinary
 * lock costs the writer two atomic operations for each sample, and each of them is a barrier: it waits until the sample before has
 * reached the reader's processor. So the lock has an owner, who goes in and out with plain stores; everybody else stops him
 * first.
 *
 *     the owner, in his seat                       everybody else
 *     busy = 1                                     take `lock`
 *     light barrier                                stop = 1
 *     stop? ── 1 ──► busy = 0, by `lock`           heavy barrier
 *       │ 0                                        wait until busy is 0
 *       ▼ inside                                     ▼ inside
 *     busy = 0; stop? wake who waits               stop = 0, give `lock` back
 *
 * Either the owner sees that he is stopped, or the other sees that he is inside (barrier.h). Whoever waits for him sleeps on
 * `busy`; by then the owner cannot overlook `stop` when he leaves.
 *
 * A seat belongs to one thread for ever, and only that thread writes its busy and uses: somebody who was owner a moment ago
 * may still be on his way in. One seat at a time is open; all others are stopped. Seat 0 is nobody's, and while it is the open one
 * this is an ordinary lock.
 *
 *     what                    who             when
 *     a seat's busy, uses     its owner       going in and out; inside
 *     a seat's stop, owner    everybody else  with `lock`
 *     open, and all counts    everybody       with `lock`, while the owner is stopped
 *
 * Who becomes the owner: a thread that has taken it PDI_BIAS_TURNS times in a row by `lock`, with no use by the owner between. If
 * those were several threads, nobody is the owner, until one of them comes as often alone; and who comes when all seats are
 * taken never is. To stop him costs as much as some dozens of his uses save: where he has fewer than PDI_BIAS_WORTH for each time
 * that he is stopped (two threads take turns, say), nobody is the owner either. A thread is known by a number of its own, not 0,
 * which the caller brings (pdi_thread_self); it may be used again when that thread has ended. Where the system has no such
 * barrier there are no owners.
 */
#ifndef PDI_HOST_BIAS_H
#define PDI_HOST_BIAS_H

#include "host/barrier.h"
#include "host/lock.h"

#define PDI_BIAS_TURNS 16U
#define PDI_BIAS_WORTH 64U
#define PDI_BIAS_SEATS 5U /* with nobody's */

struct pdi_bias_seat {
    struct pdi_atomic64 owner;
    struct pdi_atomic32 stop;
    struct pdi_atomic32 busy;
    uint32_t uses;
};

/* All zero is one that is free and has no owner. */
struct pdi_bias {
    struct pdi_bias_seat seats[PDI_BIAS_SEATS];
    struct pdi_atomic32 open; /* which seat */
    struct pdi_lock lock;
    uint64_t last;   /* who took it by the lock, */
    uint32_t turns;  /* and how many times in a row somebody has, */
    uint32_t seen;   /* with so many uses by the owner before the first */
    uint32_t stops;  /* how many times the owner was stopped, */
    uint32_t since;  /* with so many uses at the first */
    uint8_t mixed;   /* not all of them by the same thread */
    uint8_t allowed; /* there may be an owner; set before it is taken for the first time */
};

/* What take and give do for others than the owner, and when he is stopped. */
void pdi_bias_take_slowly(struct pdi_bias *bias, uint64_t self);
void pdi_bias_give_slowly(struct pdi_bias *bias);
void pdi_bias_wake(struct pdi_bias_seat *seat);

/* The owner goes out; or does not go in after all. */
static inline void pdi_bias_out(struct pdi_bias_seat *seat)
{
    pdi_atomic32_store_release(&seat->busy, 0);
    pdi_barrier_light();
    if (pdi_atomic32_load_relaxed(&seat->stop) != 0) {
        pdi_bias_wake(seat);
    }
}

static inline void pdi_bias_take(struct pdi_bias *bias, uint64_t self)
{
    struct pdi_bias_seat *seat = &bias->seats[pdi_atomic32_load_relaxed(&bias->open)];
    if (pdi_atomic64_load_relaxed(&seat->owner) == self) {
        pdi_atomic32_store_relaxed(&seat->busy, 1);
        pdi_barrier_light();
        if (pdi_atomic32_load_acquire(&seat->stop) == 0) {
            seat->uses++;
            return;
        }
        pdi_bias_out(seat);
    }
    pdi_bias_take_slowly(bias, self);
}

/* By the thread that has taken it. Who is inside as the owner has the open seat, since that changes only while he is not. */
static inline void pdi_bias_give(struct pdi_bias *bias, uint64_t self)
{
    struct pdi_bias_seat *seat = &bias->seats[pdi_atomic32_load_relaxed(&bias->open)];
    if (pdi_atomic64_load_relaxed(&seat->owner) == self &&
        pdi_atomic32_load_relaxed(&seat->busy) != 0) {
        pdi_bias_out(seat);
    } else {
        pdi_bias_give_slowly(bias);
    }
}

#endif
