/* lock.h - a lock that is held for less than a microsecond.
 *
 *     0 free      1 held      2 held, and somebody may sleep for it
 *
 * Nobody does a system call that waits with it in hand, so who finds it held looks a few times more before he sleeps. Taking and
 * giving back one that nobody else wants is two atomic operations. Whoever gives it back and sees that others sleep wakes
 * one of them; it is not handed over, so a thread that comes by meanwhile may be first. That is wanted: handing over
 * would cost a switch of threads each time.
 *
 * Why not a mutex of the C library: this one lies in shared or private memory as it is, costs half as much when
 * nobody else wants it, and `try` tells a thread that holds Python's interpreter lock to give that up before it waits.
 */
#ifndef PDI_HOST_LOCK_H
#define PDI_HOST_LOCK_H

#include "base/atomic.h"

struct pdi_lock {
    struct pdi_atomic32 word;
};

/* Whether it was free, and is now ours. */
static inline bool pdi_lock_try(struct pdi_lock *lock)
{
    uint32_t seen = 0;
    return pdi_atomic32_cas(&lock->word, &seen, 1);
}

/* What take and give do when another thread is concerned. */
void pdi_lock_wait(struct pdi_lock *lock);
void pdi_lock_wake(struct pdi_lock *lock);

static inline void pdi_lock_take(struct pdi_lock *lock)
{
    if (!pdi_lock_try(lock)) {
        pdi_lock_wait(lock);
    }
}

static inline void pdi_lock_give(struct pdi_lock *lock)
{
    if (pdi_atomic32_and(&lock->word, 0) == 2) {
        pdi_lock_wake(lock);
    }
}

#endif
