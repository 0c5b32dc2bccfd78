/* sip.h - SipHash (Aumasson and Bernstein): a function of 64-bit words and a key.
 *
 * Who does not know the key learns nothing from any number of results about any other one. So it makes secrets out of
 * numbers that everybody knows, and proves that two sides know the same: SipHash-2-4, pdi_sip. A hash table needs less,
 * and takes the rounds one by one (map.c).
 */
#ifndef PDI_BASE_SIP_H
#define PDI_BASE_SIP_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t pdi_sip_rotate(uint64_t word, unsigned bits)
{
    return (word << bits) | (word >> (64 - bits));
}

static inline void pdi_sip_begin(uint64_t v[4], const uint64_t key[2])
{
    v[0] = key[0] ^ UINT64_C(0x736f6d6570736575);
    v[1] = key[1] ^ UINT64_C(0x646f72616e646f6d);
    v[2] = key[0] ^ UINT64_C(0x6c7967656e657261);
    v[3] = key[1] ^ UINT64_C(0x7465646279746573);
}

static inline void pdi_sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = pdi_sip_rotate(v[1], 13) ^ v[0];
    v[3] = pdi_sip_rotate(v[3], 16) ^ v[2];
    v[0] = pdi_sip_rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = pdi_sip_rotate(v[1], 17) ^ v[2];
    v[3] = pdi_sip_rotate(v[3], 21) ^ v[0];
    v[2] = pdi_sip_rotate(v[2], 32);
}

static inline void pdi_sip_absorb(uint64_t v[4], uint64_t word, unsigned rounds)
{
    v[3] ^= word;
    for (unsigned i = 0; i < rounds; i++) {
        pdi_sip_round(v);
    }
    v[0] ^= word;
}

/* What comes out after the last word; its input ends with the length. */
static inline uint64_t pdi_sip_end(uint64_t v[4], unsigned rounds)
{
    v[2] ^= 0xff;
    for (unsigned i = 0; i < rounds; i++) {
        pdi_sip_round(v);
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* SipHash-2-4 of `count` words, at most 31. */
static inline uint64_t pdi_sip(const uint64_t key[2], const uint64_t *words, size_t count)
{
    uint64_t v[4];
    pdi_sip_begin(v, key);
    for (size_t i = 0; i < count; i++) {
        pdi_sip_absorb(v, words[i], 2);
    }
    pdi_sip_absorb(v, (uint64_t)count << 59, 2); /* the length in bytes, above all others */
    return pdi_sip_end(v, 4);
}

#endif
