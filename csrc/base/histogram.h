/* histogram.h - how often values came, log-linear.
 *
 *     slot     0 1 2 ... 15 │ 16 ... 31 │ 32 ... 47 │ ...
 *     values   one each     │ one each  │ two each  │ four each ...
 *
 * Sixteen slots for each power of two: a value is known to a sixteenth of itself, from nanoseconds to
 * centuries, in 976 counters. Histograms of several sources are added slot by slot, and a percentile is
 * a walk over the slots, so nothing is ever kept or sorted.
 */
#ifndef PDI_BASE_HISTOGRAM_H
#define PDI_BASE_HISTOGRAM_H

#include <stdint.h>

#define PDI_HISTOGRAM_SLOTS 976U

/* The slot of a value. */
static inline unsigned pdi_histogram_slot(uint64_t value)
{
    if (value < 16) {
        return (unsigned)value;
    }
    unsigned power = 63U - (unsigned)__builtin_clzll(value);
    return (power - 3) * 16 + (unsigned)(value >> (power - 4) & 15);
}

/* The least value of a slot. */
static inline uint64_t pdi_histogram_least(unsigned slot)
{
    return slot < 16 ? slot : (UINT64_C(16) | (slot & 15)) << (slot / 16 - 1);
}

#endif
