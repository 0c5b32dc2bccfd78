/* clock.c - see clock.h. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/clock.h"

#include <time.h>

static pdi_time read_clock(clockid_t clock)
{
    struct timespec time;
    (void)clock_gettime(clock, &time); /* these two clocks are always there */
    return (pdi_time)time.tv_sec * PDI_TIME_S + (pdi_time)time.tv_nsec;
}

pdi_time pdi_clock_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

pdi_time pdi_clock_wall(void)
{
    return read_clock(CLOCK_REALTIME);
}
