/* clock.h - the two clocks of a session.
 *
 * The core counts nanoseconds from an origin of its driver's choice; here that is the moment when the session began, by a
 * clock that never steps. What a count is in the time of day is known by one pair of readings at the beginning.
 */
#ifndef PDI_HOST_CLOCK_H
#define PDI_HOST_CLOCK_H

#include "base/time.h"

/* Nanoseconds of the clock that never steps. */
pdi_time pdi_clock_now(void);

/* Nanoseconds since 1970. */
pdi_time pdi_clock_wall(void);

#endif
