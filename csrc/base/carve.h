/* carve.h - one block of memory cut into arrays.
 *
 * The core never allocates: whoever starts a machine gives it one block. The same function that cuts the block says how
 * large it must be, by running once without one, so the two cannot disagree:
 *
 *     struct pdi_carve carve = {0};                 // measuring: every answer is null, the size adds up
 *     lay_out(&carve, ..);  need = carve.size;
 *     struct pdi_carve carve = {.memory = block};   // cutting
 *     lay_out(&carve, ..);
 *
 * Every piece begins on a cache line, so that pieces of different threads never share one.
 */
#ifndef PDI_BASE_CARVE_H
#define PDI_BASE_CARVE_H

#include <stdbool.h>
#include <string.h>

#include "base/bitset.h"

struct pdi_carve {
    uint8_t *memory; /* aligned to PDI_CACHE_LINE; null: only measure */
    size_t size;     /* cut so far */
    bool zero;       /* the memory holds zeros: to write them would only take it from the system */
};

/* The next `count` items of `item_bytes` each; null while measuring. The products must not overflow, which the limits of
 * every configuration see to. */
static inline void *pdi_carve(struct pdi_carve *carve, size_t count, size_t item_bytes)
{
    size_t at = (carve->size + PDI_CACHE_LINE - 1) / PDI_CACHE_LINE * PDI_CACHE_LINE;
    carve->size = at + count * item_bytes;
    return carve->memory != NULL ? carve->memory + at : NULL;
}

/* Zeros in a piece that was just cut. */
static inline void pdi_carve_clear(const struct pdi_carve *carve, void *at, size_t bytes)
{
    if (!carve->zero) {
        memset(at, 0, bytes);
    }
}

/* A bit set of `bits` bits, all clear; null while measuring. */
static inline uint64_t *pdi_carve_bits(struct pdi_carve *carve, size_t bits)
{
    size_t words = PDI_BITSET_WORDS(bits);
    uint64_t *set = pdi_carve(carve, words, sizeof *set);
    if (set != NULL) {
        pdi_carve_clear(carve, set, words * sizeof *set);
    }
    return set;
}

#endif
