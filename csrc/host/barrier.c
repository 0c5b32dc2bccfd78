/* barrier.c - see barrier.h. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

/* To register once more costs one short call; and a child of fork has to, so nothing is remembered here. */
bool pdi_barrier_begin(void)
{
    return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0 &&
           membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
}

/* Who goes on without it may find two inside a lock: better nobody goes on. A program that forbids itself system calls after
 * it has opened a session has to leave this one. */
void pdi_barrier_heavy(void)
{
    PDI_CHECK(membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0);
}
