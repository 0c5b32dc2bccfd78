/* map.c - from a 64-bit key to a 64-bit value: the walks. */
#include "base/map.h"

#include "base/sip.h"

uint64_t pdi_map_hash(const uint64_t seed[2], uint64_t key)
{
    uint64_t v[4];
    pdi_sip_begin(v, seed);
    pdi_sip_absorb(v, key, 1);
    pdi_sip_absorb(v, UINT64_C(8) << 56, 1); /* the length, as SipHash ends every input */
    return pdi_sip_end(v, 3);
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
