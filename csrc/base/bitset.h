/* bitset.h - a fixed array of bits.
 *
 * Bit i is bit i % 64 of word i / 64 of an array that the caller owns and has set to zero. Nobody
 * keeps the number of bits, so the functions that look at many are told it; bits at and above it
 * must stay clear.
 *
 * The second half does the same on atomic words, for bits that several threads share (the match
 * bits: the receive thread sets, housekeeping clears). A set is an atomic OR and a clear an atomic
 * AND with the complement, so neighbours in one word never lose each other's change. Both answer
 * what the bit was, so exactly one of many setters learns that it was the first. A set releases and
 * a test acquires: who sees the bit sees what was done before it was set.
 */
#ifndef PDI_BASE_BITSET_H
#define PDI_BASE_BITSET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

/* How many words hold this many bits. */
#define PDI_BITSET_WORDS(bits) (((bits) + 63) / 64)

/* The bit alone in its word. */
static inline uint64_t pdi_bitset_mask(uint32_t bit)
{
    return UINT64_C(1) << (bit % 64);
}

static inline void pdi_bitset_set(uint64_t *words, uint32_t bit)
{
    words[bit / 64] |= pdi_bitset_mask(bit);
}

static inline void pdi_bitset_clear(uint64_t *words, uint32_t bit)
{
    words[bit / 64] &= ~pdi_bitset_mask(bit);
}

static inline bool pdi_bitset_test(const uint64_t *words, uint32_t bit)
{
    return (words[bit / 64] & pdi_bitset_mask(bit)) != 0;
}

/* The first set bit at or after `from` among `bits` bits; `bits` if there is none. */
static inline uint32_t pdi_bitset_find(const uint64_t *words, uint32_t bits, uint32_t from)
{
    if (from >= bits) {
        return bits;
    }
    uint32_t index = from / 64;
    uint64_t word = words[index] & (UINT64_MAX << (from % 64));
    while (word == 0) {
        if (++index == PDI_BITSET_WORDS((uint64_t)bits)) {
            return bits;
        }
        word = words[index];
    }
    return index * 64 + (uint32_t)__builtin_ctzll(word);
}

/* How many of `bits` bits are set. */
static inline uint32_t pdi_bitset_count(const uint64_t *words, uint32_t bits)
{
    uint32_t count = 0;
    for (uint32_t index = 0; index < PDI_BITSET_WORDS((uint64_t)bits); index++) {
        count += (uint32_t)__builtin_popcountll(words[index]);
    }
    return count;
}

/* Sets a shared bit; answers whether it was set already. */
static inline bool pdi_bitset_atomic_set(struct pdi_atomic64 *words, uint32_t bit)
{
    return (pdi_atomic64_or(&words[bit / 64], pdi_bitset_mask(bit)) & pdi_bitset_mask(bit)) != 0;
}

/* Clears a shared bit; answers whether it was set until now. */
static inline bool pdi_bitset_atomic_clear(struct pdi_atomic64 *words, uint32_t bit)
{
    return (pdi_atomic64_and(&words[bit / 64], ~pdi_bitset_mask(bit)) & pdi_bitset_mask(bit)) != 0;
}

/* Whether a shared bit is set now; another thread may change it at any time. */
static inline bool pdi_bitset_atomic_test(const struct pdi_atomic64 *words, uint32_t bit)
{
    return (pdi_atomic64_load_acquire(&words[bit / 64]) & pdi_bitset_mask(bit)) != 0;
}

#endif
