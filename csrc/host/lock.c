/* lock.c - the slow half of the lock: sleeping, and waking who sleeps. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOKS_MAX 50 /* about a microsecond */

/* Tells the processor that this loop waits for another core. */
static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static long futex(struct pdi_lock *lock, int operation, uint32_t value)
{
    return syscall(SYS_futex, &lock->word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

void pdi_lock_wait(struct pdi_lock *lock)
{
    for (int i = 0; i < LOOKS_MAX; i++) {
        if (pdi_atomic32_load_relaxed(&lock->word) == 0 && pdi_lock_try(lock)) {
            return;
        }
        relax();
    }
    /* From here on we hold it as 2: we cannot know whether others sleep as well. */
    for (;;) { /* each round is a sleep; whoever gives the lock back ends it */
        uint32_t seen = 0;
        if (pdi_atomic32_cas(&lock->word, &seen, 2)) {
            return;
        }
        if (seen == 2 || pdi_atomic32_cas(&lock->word, &seen, 2)) {
            (void)futex(lock, FUTEX_WAIT, 2);
        }
    }
}

void pdi_lock_wake(struct pdi_lock *lock)
{
    (void)futex(lock, FUTEX_WAKE, 1);
}
