/* hash.h - what endpoints, flows and sessions are called in tables.
 *
 * A 53-bit number made of the thing that it names and of nothing else, so that files, partitions and machines agree on it
 * without talking to each other. Not 64 bits, since pandas makes floats of a column of integers with a null in it, and a float
 * holds 53: an id stays itself there. Two endpoints with one number are possible and rarer than broken memory (one chance in a
 * million among a hundred thousand); whoever keeps endpoints compares the endpoints themselves.
 *
 * The mixing is two multiplications with odd constants, each folded: what a 64-bit multiplication knows of all bits of
 * both halves is in its upper half. It is no protection against somebody who looks for collisions, and need not be: the
 * maps that hold these numbers have keys of their own (base/map.h).
 */
#ifndef PDI_CAPTURE_HASH_H
#define PDI_CAPTURE_HASH_H

#include <stdbool.h>
#include <string.h>

#include "pyddsi.h"

static inline uint64_t pdi_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product =
        (unsigned __int128)(a ^ UINT64_C(0x9e3779b97f4a7c15)) * (b ^ UINT64_C(0xd1342543de82ef95));
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* A mixed number as an id. */
static inline uint64_t pdi_id(uint64_t mixed)
{
    return mixed >> 11;
}

/* An endpoint: its address, port and transport. Of IPv4 the four bytes are read as they were written a moment ago; a wider
 * read would have to wait for them. */
static inline uint64_t pdi_endpoint_hash(const pyddsi_endpoint *endpoint)
{
    uint64_t rest = (uint64_t)endpoint->port << 8 | endpoint->kind;
    if (endpoint->kind == 4 || endpoint->kind == 14) {
        uint32_t address;
        memcpy(&address, endpoint->ip, sizeof address);
        return pdi_id(pdi_mix((uint64_t)address << 32 | rest, 4));
    }
    uint64_t halves[2];
    memcpy(halves, endpoint->ip, sizeof halves);
    return pdi_id(pdi_mix(halves[0] + rest, halves[1] ^ rest << 24));
}

/* Whether both are the same, read in the same way. */
static inline bool pdi_endpoint_same(const pyddsi_endpoint *a, const pyddsi_endpoint *b)
{
    if (a->port != b->port || a->kind != b->kind) {
        return false;
    }
    if (a->kind == 4 || a->kind == 14) {
        uint32_t one, two;
        memcpy(&one, a->ip, sizeof one);
        memcpy(&two, b->ip, sizeof two);
        return one == two;
    }
    return memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

/* Whether it is a group of UDP. */
static inline bool pdi_endpoint_is_group(const pyddsi_endpoint *endpoint)
{
    return endpoint->kind == 4 ? (endpoint->ip[0] & 0xf0) == 0xe0
                               : endpoint->kind == 6 && endpoint->ip[0] == 0xff;
}

#endif
