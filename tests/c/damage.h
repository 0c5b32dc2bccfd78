/* damage.h - bytes that were stored, damaged in every way a test can afford.
 *
 * Each variant is handed over in memory of exactly its size, so that a sanitizer sees who reads on.
 */
#ifndef PDI_DAMAGE_H
#define PDI_DAMAGE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"

enum { DAMAGE_SEEDS = 20000 };

typedef void damage_load(const uint8_t *data, size_t size);

static inline void damage_one(const uint8_t *data, size_t size, damage_load *load)
{
    uint8_t *copy = malloc(size != 0 ? size : 1);
    if (copy == NULL)
        return;
    memcpy(copy, data, size);
    load(copy, size);
    free(copy);
}

/* Every beginning of |good|, every other value of every byte, and some bytes at once. The bytes are as they were after. */
static inline void damage_all(uint8_t *good, size_t size, damage_load *load)
{
    for (size_t cut = 0; cut < size; cut++)
        damage_one(good, cut, load);
    for (size_t at = 0; at < size; at++) {
        uint8_t right = good[at];
        for (unsigned value = 0; value < 256; value++) {
            good[at] = (uint8_t)value;
            damage_one(good, size, load);
        }
        good[at] = right;
    }
    for (uint64_t seed = 0; seed < DAMAGE_SEEDS; seed++) {
        struct pdi_rand rand;
        uint8_t right[5];
        size_t at[5];
        pdi_rand_init(&rand, seed);
        for (int i = 0; i < 5; i++) {
            at[i] = (size_t)pdi_rand_below(&rand, size);
            right[i] = good[at[i]];
            if (i < 2 || pdi_rand_chance(&rand, 1, 2))
                good[at[i]] = (uint8_t)(pdi_rand_u64(&rand) >> pdi_rand_below(&rand, 8));
        }
        damage_one(good, size, load);
        for (int i = 5; i-- > 0;)
            good[at[i]] = right[i];
    }
}

/* Puts a number as snapshots have it; answers where the next one begins. */
static inline size_t damage_number(uint8_t *out, size_t at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        out[at++] = (uint8_t)(value | 0x80);
    out[at++] = (uint8_t)value;
    return at;
}

#endif
