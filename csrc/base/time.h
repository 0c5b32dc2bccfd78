/* time.h - the type of times.
 *
 * A time is a count of nanoseconds since an origin that whoever drives the core has chosen. The
 * core never reads a clock: every `now` is an argument. The same type serves for lengths of time.
 *
 *     0 ......... now ......... deadline ......... PDI_TIME_NEVER
 *                               due when deadline <= now
 *
 * Unsigned, because a deadline is only ever compared with now and never lies before the origin; 64
 * bits hold 584 years. The greatest value is not a time but the absence of one. It absorbs what is
 * added to it, and a sum that would pass it stops there, so that a huge lease means "never" and not
 * "long ago".
 */
#ifndef PDI_BASE_TIME_H
#define PDI_BASE_TIME_H

#include <stdint.h>

typedef uint64_t pdi_time;

#define PDI_TIME_NEVER UINT64_MAX
#define PDI_TIME_US    UINT64_C(1000)
#define PDI_TIME_MS    UINT64_C(1000000)
#define PDI_TIME_S     UINT64_C(1000000000)

/* The time that lies `length` after `start`, or PDI_TIME_NEVER if the sum does not fit. */
static inline pdi_time pdi_time_add(pdi_time start, pdi_time length)
{
    return length > PDI_TIME_NEVER - start ? PDI_TIME_NEVER : start + length;
}

/* How long it is from `now` until `deadline`: 0 if that has come, PDI_TIME_NEVER if it never
 * comes. */
static inline pdi_time pdi_time_until(pdi_time now, pdi_time deadline)
{
    if (deadline == PDI_TIME_NEVER) {
        return PDI_TIME_NEVER;
    }
    return deadline > now ? deadline - now : 0;
}

#endif
