/* histogram.h - how long things took, as counts that add up.
 *
 * Log-linear: exact up to 15 microseconds, from there eight steps to each doubling, so a value read off it is at most an
 * eighth too large. Two histograms are added place by place, across files and machines, and percentiles of the sum need
 * neither the values nor a sort.
 *
 *     place    0 .. 15      16 .. 23      24 .. 31      ...    PDI_HISTOGRAM_PLACES - 1
 *     values   0 .. 15      16 .. 31      32 .. 63      ...    all that is longer
 *              by 1         by 2          by 4
 */
#ifndef PDI_CAPTURE_HISTOGRAM_H
#define PDI_CAPTURE_HISTOGRAM_H

#include <stdint.h>

#define PDI_HISTOGRAM_PLACES 256U /* up to 2^34 us, which is nearly five hours */

/* The place of a value in microseconds; what is below 0 (a clock that stepped) counts as 0. */
static inline unsigned pdi_histogram_place(int64_t us)
{
    if (us < 16) {
        return us < 0 ? 0 : (unsigned)us;
    }
    unsigned doubling = 63U - (unsigned)__builtin_clzll((uint64_t)us); /* 4 and more */
    unsigned place = doubling * 8U - 16U + ((unsigned)((uint64_t)us >> (doubling - 3)) & 7U);
    return place < PDI_HISTOGRAM_PLACES ? place : PDI_HISTOGRAM_PLACES - 1;
}

/* The least value of a place. */
static inline int64_t pdi_histogram_least(unsigned place)
{
    if (place < 16) {
        return place;
    }
    unsigned doubling = place / 8U + 2U;
    return (int64_t)(8U + place % 8U) << (doubling - 3);
}

#endif
