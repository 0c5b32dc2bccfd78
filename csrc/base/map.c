/* map.c - from a 64-bit key to a 64-bit value: the walks. */
#include "base/map.h"

static uint64_t rotate(uint64_t word, unsigned bits)
{
    return (word << bits) | (word >> (64 - bits));
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static void sip_absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

uint64_t pdi_map_hash(const uint64_t seed[2], uint64_t key)
{
    uint64_t v[4] = {
        seed[0] ^ UINT64_C(0x736f6d6570736575),
        seed[1] ^ UINT64_C(0x646f72616e646f6d),
        seed[0] ^ UINT64_C(0x6c7967656e657261),
        seed[1] ^ UINT64_C(0x7465646279746573),
    };
    sip_absorb(v, key);
    sip_absorb(v, UINT64_C(8) << 56); /* the length, as SipHash ends every input */
    v[2] ^= 0xff;
    sip_round(v);
    sip_round(v);
    sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static uint32_t home(const struct pdi_map *map, uint64_t key)
{
    return (uint32_t)pdi_map_hash(map->seed, key) & map->mask;
}

/* The slot where `key` lies, or the free one where it would be put. */
static uint32_t find(const struct pdi_map *map, uint64_t key)
{
    uint32_t index = home(map, key);
    while (pdi_bitset_test(map->used, index) && map->slots[index].key != key) {
        index = (index + 1) & map->mask;
    }
    return index;
}

int pdi_map_init(struct pdi_map *map, struct pdi_map_slot *slots, uint64_t *used, uint32_t capacity,
                 const uint64_t seed[2])
{
    if (capacity < PDI_MAP_CAPACITY_MIN || capacity > PDI_MAP_CAPACITY_MAX ||
        (capacity & (capacity - 1)) != 0) {
        return PYDDSI_BAD_ARGUMENT;
    }
    *map = (struct pdi_map){
        .slots = slots, .used = used, .seed = {seed[0], seed[1]}, .mask = capacity - 1};
    return PYDDSI_OK;
}

int pdi_map_put(struct pdi_map *map, uint64_t key, uint64_t value)
{
    uint32_t index = find(map, key);
    if (!pdi_bitset_test(map->used, index)) {
        if (map->count >= PDI_MAP_LIMIT(map->mask + 1)) {
            return PYDDSI_NO_SPACE;
        }
        pdi_bitset_set(map->used, index);
        map->slots[index].key = key;
        map->count++;
    }
    map->slots[index].value = value;
    return PYDDSI_OK;
}

bool pdi_map_get(const struct pdi_map *map, uint64_t key, uint64_t *value)
{
    uint32_t index = find(map, key);
    if (!pdi_bitset_test(map->used, index)) {
        return false;
    }
    *value = map->slots[index].value;
    return true;
}

bool pdi_map_remove(struct pdi_map *map, uint64_t key)
{
    uint32_t hole = find(map, key);
    if (!pdi_bitset_test(map->used, hole)) {
        return false;
    }
    uint32_t index = (hole + 1) & map->mask;
    while (pdi_bitset_test(map->used, index)) {
        uint32_t from_home = (index - home(map, map->slots[index].key)) & map->mask;
        uint32_t from_hole = (index - hole) & map->mask;
        if (from_home >= from_hole) { /* the hole is not before its home, so it may move there */
            map->slots[hole] = map->slots[index];
            hole = index;
        }
        index = (index + 1) & map->mask;
    }
    pdi_bitset_clear(map->used, hole);
    map->count--;
    return true;
}

bool pdi_map_next(const struct pdi_map *map, uint32_t *cursor, uint64_t *key, uint64_t *value)
{
    uint32_t index = pdi_bitset_find(map->used, map->mask + 1, *cursor);
    if (index > map->mask) {
        return false;
    }
    *key = map->slots[index].key;
    *value = map->slots[index].value;
    *cursor = index + 1;
    return true;
}
