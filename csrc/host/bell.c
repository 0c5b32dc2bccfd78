/* bell.c - sleeping, and waking: the two system calls of a bell. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/bell.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The system may not mark these as private: the word may lie in memory that another process maps
 * elsewhere. */
static long futex(struct pdi_bell *bell, int operation, uint32_t value,
                  const struct timespec *timeout)
{
    return syscall(SYS_futex, &bell->rings, operation, value, timeout, NULL, 0);
}

void pdi_bell_wake(struct pdi_bell *bell)
{
    (void)pdi_atomic32_add(&bell->rings, 1);
    (void)futex(bell, FUTEX_WAKE, INT_MAX, NULL);
}

int pdi_bell_wait(struct pdi_bell *bell, uint32_t heard, pdi_time timeout)
{
    struct timespec time = {.tv_sec = (time_t)(timeout / PDI_TIME_S),
                            .tv_nsec = (long)(timeout % PDI_TIME_S)};
    bool ever = timeout == PDI_TIME_NEVER;
    int reason = futex(bell, FUTEX_WAIT, heard, ever ? NULL : &time) == 0 ? 0 : errno;
    pdi_bell_unlisten(bell);
    if (reason == ETIMEDOUT) {
        return PYDDSI_AGAIN;
    }
    return reason == EINTR ? PYDDSI_END : PYDDSI_OK;
}
