/* map.h - from a 64-bit key to a 64-bit value.
 *
 * Open addressing with linear probing in memory that the caller owns: a key lies at its home, or as
 * near after it as there was room, and a search walks from the home to the first free slot.
 *
 *     slot:   0   1   2   3   4     The homes of a, b and c are 1, 1 and 2. Taking out a moves b to
 * 1 [ ] [a] [b] [c] [ ]    and c to 2: what could lie nearer to its home is moved back home: 1   1
 * 2         into the hole, so a deleted key leaves no mark, and the map is as fast after a million
 * changes as it was when new.
 *
 * Invariant: between the home of a key and its slot no slot is free. Which slots are in use is kept
 * in a bitset of its own, so every key and every value is allowed.
 *
 * At most PDI_MAP_LIMIT(capacity) keys are held, three quarters of the slots: there is always a
 * free slot to end every walk, which bounds all loops by the capacity; when full, a successful
 * search looks at 2.5 slots and a failing one at
 * 8.5, on average. The map never grows: its memory is a promise made at the start.
 *
 * The home is a keyed hash (SipHash-1-3) of the key. Keys come from outside (peer addresses,
 * resource ids), and with a plain mixing function anybody could send ten thousand that share one
 * home. Without the seed nobody can choose them; give every map of a process random bits, or the
 * simulator's.
 *
 * One thread at a time.
 */
#ifndef PDI_BASE_MAP_H
#define PDI_BASE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bitset.h"
#include "pyddsi.h"

#define PDI_MAP_CAPACITY_MIN    4
#define PDI_MAP_CAPACITY_MAX    (UINT32_C(1) << 31)
#define PDI_MAP_LIMIT(capacity) ((capacity) / 4 * 3)

struct pdi_map_slot {
    uint64_t key;
    uint64_t value;
};

struct pdi_map {
    struct pdi_map_slot *slots;
    uint64_t *used; /* one bit per slot */
    uint64_t seed[2];
    uint32_t mask; /* capacity - 1 */
    uint32_t count;
};

/* Makes an empty map in `slots[capacity]` and `used[PDI_BITSET_WORDS(capacity)]`, which must hold
 * zeros (pdi_carve_bits); the slots need not.
 * PYDDSI_OK; PYDDSI_BAD_ARGUMENT if capacity is not a power of two in PDI_MAP_CAPACITY_MIN ..
 * PDI_MAP_CAPACITY_MAX. */
int pdi_map_init(struct pdi_map *map, struct pdi_map_slot *slots, uint64_t *used, uint32_t capacity,
                 const uint64_t seed[2]);

/* Sets the value of `key`, whether or not it had another.
 * PYDDSI_OK; PYDDSI_NO_SPACE if the key is new and the map is full. */
int pdi_map_put(struct pdi_map *map, uint64_t key, uint64_t value);

/* Answers whether the map holds `key`, and if so sets *value. */
bool pdi_map_get(const struct pdi_map *map, uint64_t key, uint64_t *value);

/* Takes out `key`; answers whether it was there. */
bool pdi_map_remove(struct pdi_map *map, uint64_t key);

/* Visits all keys, in no order: start with *cursor = 0 and call until it answers false; each time
 * it answers true, *key and *value are set. Between the calls nothing may be put or removed,
 * because that moves entries about. */
bool pdi_map_next(const struct pdi_map *map, uint32_t *cursor, uint64_t *key, uint64_t *value);

/* The keyed hash, SipHash-1-3 of the key's eight bytes, least significant first. */
uint64_t pdi_map_hash(const uint64_t seed[2], uint64_t key);

#endif
