/* base/map.h: random changes against a list, keys that all want one slot, and the hash. */
#include "base/map.h"

#include "base/rand.h"
#include "test.h"

#define CAPACITY_MAX 64
#define KEYS         48
#define SEEDS        300
#define STEPS        300

struct pair {
    struct pdi_map map;
    struct pdi_map_slot slots[CAPACITY_MAX];
    uint64_t used[PDI_BITSET_WORDS(CAPACITY_MAX)];
    uint64_t keys[KEYS]; /* all that are ever used */
    bool held[KEYS];
    uint64_t values[KEYS];
};

static uint32_t home(const struct pair *pair, uint64_t key)
{
    return (uint32_t)pdi_map_hash(pair->map.seed, key) & pair->map.mask;
}

/* Fills in the keys: the extremes, and either any others or such as crowd the last two homes, so
 * that walks go round the end of the array. */
static void choose_keys(struct pair *pair, struct pdi_rand *rand)
{
    bool crowd = pdi_rand_chance(rand, 1, 2);
    uint64_t key = pdi_rand_u64(rand);
    pair->keys[0] = 0;
    pair->keys[1] = UINT64_MAX;
    for (int i = 2; i < KEYS; i++) {
        key++;
        while (crowd && home(pair, key) < pair->map.mask - 1) {
            key++;
        }
        pair->keys[i] = key;
    }
}

/* Compares everything with the model, and looks that no walk to a key meets a free slot. */
static void check_model(const struct pair *pair)
{
    uint32_t cursor = 0, count = 0, visited = 0;
    uint64_t key, value;
    for (int i = 0; i < KEYS; i++) {
        value = 0;
        CHECK_EQ(pdi_map_get(&pair->map, pair->keys[i], &value), pair->held[i]);
        CHECK(value == (pair->held[i] ? pair->values[i] : 0));
        count += pair->held[i];
    }
    CHECK_EQ(pair->map.count, count);
    CHECK_EQ(pdi_bitset_count(pair->used, pair->map.mask + 1), count);
    while (pdi_map_next(&pair->map, &cursor, &key, &value) && visited <= count) {
        uint64_t again = ~value;
        visited++;
        CHECK(pdi_map_get(&pair->map, key, &again));
        CHECK(again == value);
        for (uint32_t at = home(pair, key); at != cursor - 1; at = (at + 1) & pair->map.mask) {
            CHECK(pdi_bitset_test(pair->used, at));
        }
    }
    CHECK_EQ(visited, count);
}

static void put(struct pair *pair, int i, uint64_t value)
{
    bool full = pair->map.count == PDI_MAP_LIMIT(pair->map.mask + 1);
    int status = pdi_map_put(&pair->map, pair->keys[i], value);
    CHECK_EQ(status, full && !pair->held[i] ? PYDDSI_NO_SPACE : PYDDSI_OK);
    if (status == PYDDSI_OK) {
        pair->held[i] = true;
        pair->values[i] = value;
    }
}

static void run_seed(uint64_t seed)
{
    static struct pair pair;
    struct pdi_rand rand;
    pdi_rand_init(&rand, seed);
    uint32_t capacity = UINT32_C(4) << pdi_rand_below(&rand, 5);
    uint64_t secret[2] = {pdi_rand_u64(&rand), pdi_rand_u64(&rand)};
    memset(&pair, 0xff, sizeof pair);
    memset(pair.held, 0, sizeof pair.held);
    memset(pair.used, 0, PDI_BITSET_WORDS(capacity) * sizeof pair.used[0]);
    CHECK_EQ(pdi_map_init(&pair.map, pair.slots, pair.used, capacity, secret), PYDDSI_OK);
    choose_keys(&pair, &rand);
    for (int step = 0; step < STEPS; step++) {
        int i = (int)pdi_rand_below(&rand, KEYS);
        if (pdi_rand_chance(&rand, 1 + (uint64_t)step / 100, 4)) {
            CHECK_EQ(pdi_map_remove(&pair.map, pair.keys[i]), pair.held[i]);
            pair.held[i] = false;
        } else {
            put(&pair, i, pdi_rand_u64(&rand));
        }
        if (step % 4 == 0) {
            check_model(&pair);
        }
    }
}

/* If it failed, a key would be lost, found twice or have another's value after some history. */
static void test_against_model(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        int failures = test_failures;
        run_seed(seed);
        if (test_failures != failures) {
            printf("seed %" PRIu64 "\n", seed);
            return;
        }
    }
}

/* If it failed, the map would write past its memory, or walk for ever because no slot is free. */
static void test_limits(void)
{
    static struct pdi_map_slot slots[4];
    uint64_t used[1] = {0}, value;
    const uint64_t secret[2] = {1, 2};
    struct pdi_map map;
    CHECK_EQ(pdi_map_init(&map, slots, used, 0, secret), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_map_init(&map, slots, used, 2, secret), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_map_init(&map, slots, used, 12, secret), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_map_init(&map, slots, used, PDI_MAP_CAPACITY_MAX + 4, secret),
             PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_map_init(&map, slots, used, 4, secret), PYDDSI_OK);
    for (uint64_t key = 10; key < 13; key++) {
        CHECK_EQ(pdi_map_put(&map, key, key * key), PYDDSI_OK);
    }
    CHECK_EQ(pdi_map_put(&map, 13, 0), PYDDSI_NO_SPACE);
    CHECK_EQ(pdi_map_put(&map, 12, 7), PYDDSI_OK); /* a change needs no space */
    CHECK(!pdi_map_get(&map, 13, &value));
    CHECK(!pdi_map_remove(&map, 13));
    CHECK(pdi_map_remove(&map, 10));
    CHECK_EQ(pdi_map_put(&map, 13, 1), PYDDSI_OK);
    CHECK(pdi_map_get(&map, 12, &value));
    CHECK_EQ(value, 7);
}

/* If it failed, the hash would not be SipHash-1-3, and nobody would have shown that it keeps its
 * seed to itself. The first two values are also those of CPython's hash() of the same eight bytes
 * without a random seed. */
static void test_hash(void)
{
    const uint64_t zero[2] = {0, 0};
    const uint64_t counting[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    CHECK(pdi_map_hash(zero, 1) == UINT64_C(0x1e9f734161d62dd9));
    CHECK(pdi_map_hash(zero, UINT64_C(0x0807060504030201)) == UINT64_C(0x884ccc87cb0e5fb0));
    CHECK(pdi_map_hash(counting, 0) == UINT64_C(0x5cb96f6ba2a4fcfc));
    CHECK(pdi_map_hash(counting, counting[0]) == UINT64_C(0x369095118d299a8e));
    CHECK(pdi_map_hash(counting, UINT64_MAX) == UINT64_C(0x823f307311453347));
}

/* If it failed, keys chosen to collide under one seed would collide under another too. */
static void test_seed_moves_keys(void)
{
    static struct pair pair;
    const uint64_t known[2] = {5, 6};
    uint32_t homes[CAPACITY_MAX] = {0};
    uint64_t key = 0;
    uint32_t most = 0;
    CHECK_EQ(pdi_map_init(&pair.map, pair.slots, pair.used, CAPACITY_MAX, known), PYDDSI_OK);
    for (int i = 0; i < KEYS; i++) {
        do {
            key++;
        } while (home(&pair, key) != 0);
        const uint64_t other[2] = {5, 7};
        uint32_t moved = (uint32_t)pdi_map_hash(other, key) % CAPACITY_MAX;
        most = ++homes[moved] > most ? homes[moved] : most;
    }
    CHECK(most <= 6);
}

int main(void)
{
    test_hash();
    test_limits();
    test_against_model();
    test_seed_moves_keys();
    return test_result();
}
