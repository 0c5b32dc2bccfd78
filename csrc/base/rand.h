/* rand.h - seeded random numbers.
 *
 * Everything random in the simulator and in the tests comes from here, so one seed reproduces one
 * run. xoshiro256** (Blackman and Vigna) makes the numbers; splitmix64 spreads a seed, even 0 or 1,
 * over its state.
 *
 * A generator can be forked into streams, one per part of a world (network, disk, each thread):
 *
 *     seed ──► fork(1) network ──► fork(7) link 7
 *         └──► fork(2) threads
 *
 * A stream depends on the seed and the ids alone and not on how many numbers anybody has drawn: one
 * more draw in the network leaves the interleaving of the threads as it was, so a failing seed
 * keeps failing while it is examined.
 *
 * Not for secrets: who sees a few numbers knows all others.
 */
#ifndef PDI_BASE_RAND_H
#define PDI_BASE_RAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

/* A draw of pdi_rand_below misses its range with a chance below 1/2; that this many do is a chance
 * below 2^-128. */
#define PDI_RAND_DRAWS_MAX 128

struct pdi_rand {
    uint64_t seed; /* what streams are made of */
    uint64_t state[4];
};

/* The next number of the splitmix64 generator whose state is *state. */
static inline uint64_t pdi_rand_splitmix(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Starts a generator; every seed is a good one. */
static inline void pdi_rand_init(struct pdi_rand *rand, uint64_t seed)
{
    rand->seed = seed;
    for (int i = 0; i < 4; i++) {
        rand->state[i] = pdi_rand_splitmix(&seed);
    }
}

/* The generator of stream `id` under this one's seed. Draws nothing from it. */
static inline struct pdi_rand pdi_rand_fork(const struct pdi_rand *rand, uint64_t id)
{
    struct pdi_rand stream;
    uint64_t state = id;
    state = rand->seed ^ pdi_rand_splitmix(&state);
    pdi_rand_init(&stream, pdi_rand_splitmix(&state));
    return stream;
}

/* The next 64 random bits. */
static inline uint64_t pdi_rand_u64(struct pdi_rand *rand)
{
    uint64_t *s = rand->state;
    uint64_t product = s[1] * 5;
    uint64_t result = ((product << 7) | (product >> 57)) * 9;
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return result;
}

/* A number in 0 .. limit - 1, each as likely as any other; `limit` must not be 0. Draws bits until
 * they make a number in the range, because a remainder would favour the small numbers. */
static inline uint64_t pdi_rand_below(struct pdi_rand *rand, uint64_t limit)
{
    PDI_CHECK(limit > 0);
    uint64_t mask = limit - 1;
    for (unsigned shift = 1; shift < 64; shift *= 2) {
        mask |= mask >> shift;
    }
    for (int draws = 0; draws < PDI_RAND_DRAWS_MAX; draws++) {
        uint64_t number = pdi_rand_u64(rand) & mask;
        if (number < limit) {
            return number;
        }
    }
    return 0;
}

/* True `numerator` times out of `denominator`, which must not be 0. */
static inline bool pdi_rand_chance(struct pdi_rand *rand, uint64_t numerator, uint64_t denominator)
{
    return pdi_rand_below(rand, denominator) < numerator;
}

#endif
