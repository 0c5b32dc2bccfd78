/* seq.h - sequence numbers of L bits, L from 7 to 56.
 *
 * A number is a plain counter modulo 2^L: what is computed with is what is sent. (zhe keeps the
 * number left-aligned in a wider integer, so that the machine's own overflow does the modulo; then
 * every length needs shifts at the border, and a forgotten shift is a number of another length.)
 *
 * The numbers form a circle. From a given one, the half of the circle ahead is later, the half
 * behind is earlier, and the one point opposite is neither:
 *
 *                    now
 *          earlier  .---.  later          before(a, b):  (b - a) mod 2^L  is in  1 .. 2^(L-1) - 1
 *                   |   |
 *                   '-+-'
 *                  neither
 *
 * So numbers can be compared only while all that are alive lie within half a circle; the transmit
 * window sees to that. Where a number must never come round again (statistics, captures) it is
 * unwrapped into a 64-bit count.
 *
 * All arguments called sn must be valid: the decoder refuses the others, and nothing here checks
 * again.
 */
#ifndef PDI_BASE_SEQ_H
#define PDI_BASE_SEQ_H

#include <stdbool.h>
#include <stdint.h>

#include "pyddsi.h"

#define PDI_SEQ_BITS_MIN 7
#define PDI_SEQ_BITS_MAX 56

/* The arithmetic of one length; never changes after init. */
struct pdi_seq {
    uint64_t mask; /* 2^L - 1 */
    uint64_t half; /* 2^(L-1) */
};

/* Sets up the arithmetic of numbers of `bits` bits.
 * PYDDSI_OK; PYDDSI_BAD_ARGUMENT if bits is not in PDI_SEQ_BITS_MIN .. PDI_SEQ_BITS_MAX. */
static inline int pdi_seq_init(struct pdi_seq *seq, unsigned bits)
{
    if (bits < PDI_SEQ_BITS_MIN || bits > PDI_SEQ_BITS_MAX) {
        return PYDDSI_BAD_ARGUMENT;
    }
    seq->half = UINT64_C(1) << (bits - 1);
    seq->mask = (seq->half << 1) - 1;
    return PYDDSI_OK;
}

/* Whether `number` is a sequence number of this length at all. */
static inline bool pdi_seq_valid(const struct pdi_seq *seq, uint64_t number)
{
    return number <= seq->mask;
}

/* The number `count` steps after `sn`; any count will do, as all is modulo 2^L. */
static inline uint64_t pdi_seq_add(const struct pdi_seq *seq, uint64_t sn, uint64_t count)
{
    return (sn + count) & seq->mask;
}

/* The number after `sn`. */
static inline uint64_t pdi_seq_next(const struct pdi_seq *seq, uint64_t sn)
{
    return pdi_seq_add(seq, sn, 1);
}

/* How many steps lead forward from `from` to `to`: 0 .. 2^L - 1. */
static inline uint64_t pdi_seq_distance(const struct pdi_seq *seq, uint64_t from, uint64_t to)
{
    return (to - from) & seq->mask;
}

/* Whether `a` is earlier than `b`. Equal and opposite numbers are not before each other. */
static inline bool pdi_seq_before(const struct pdi_seq *seq, uint64_t a, uint64_t b)
{
    /* a distance of 0 becomes the greatest number of all */
    return pdi_seq_distance(seq, a, b) - 1 < seq->half - 1;
}

/* The number of a 64-bit count. */
static inline uint64_t pdi_seq_wrap(const struct pdi_seq *seq, int64_t count)
{
    return (uint64_t)count & seq->mask;
}

/* The 64-bit count of `sn`: of all counts that have this number, the one nearest to `reference`,
 * which is the count of a number seen lately. The opposite number counts as behind. A number from
 * before count 0 gets a negative count; that is why counts are signed: seen in the middle of a
 * stream, a late repetition may be older than the first number. */
static inline int64_t pdi_seq_unwrap(const struct pdi_seq *seq, int64_t reference, uint64_t sn)
{
    uint64_t ahead = (sn - (uint64_t)reference) & seq->mask;
    /* the upper half of the circle becomes negative */
    uint64_t offset = (ahead ^ seq->half) - seq->half;
    return (int64_t)((uint64_t)reference + offset);
}

#endif
