/* base/heap.h: random changes against an array of deadlines. */
#include "base/heap.h"

#include <stdbool.h>

#include "base/rand.h"
#include "test.h"

#define ITEMS 40
#define SEEDS 200
#define STEPS 400

struct pair {
    struct pdi_heap heap;
    struct pdi_heap_entry entries[ITEMS];
    uint32_t places[ITEMS];
    pdi_time model[ITEMS]; /* the deadline of each item */
};

/* The item that must come first: the earliest, of equals the smallest. ITEMS if there is none. */
static uint32_t model_first(const struct pair *pair)
{
    uint32_t first = ITEMS;
    pdi_time earliest = PDI_TIME_NEVER;
    for (uint32_t item = 0; item < ITEMS; item++) {
        if (pair->model[item] < earliest) {
            first = item;
            earliest = pair->model[item];
        }
    }
    return first;
}

static void check_model(const struct pair *pair)
{
    uint32_t first = model_first(pair);
    uint32_t count = 0;
    CHECK(pdi_heap_due(&pair->heap) == (first == ITEMS ? PDI_TIME_NEVER : pair->model[first]));
    for (uint32_t item = 0; item < ITEMS; item++) {
        CHECK(pdi_heap_get(&pair->heap, item) == pair->model[item]);
        count += pair->model[item] != PDI_TIME_NEVER;
    }
    CHECK_EQ(pair->heap.count, count);
    for (uint32_t place = 1; place < count; place++) {
        CHECK(pair->entries[(place - 1) / 2].deadline <= pair->entries[place].deadline);
    }
}

static void put(struct pair *pair, uint32_t item, pdi_time deadline)
{
    bool added = pair->model[item] == PDI_TIME_NEVER && deadline != PDI_TIME_NEVER;
    bool full = pair->heap.count == pair->heap.capacity;
    int status = pdi_heap_put(&pair->heap, item, deadline);
    CHECK_EQ(status, added && full ? PYDDSI_NO_SPACE : PYDDSI_OK);
    if (status == PYDDSI_OK) {
        pair->model[item] = deadline;
    }
}

static void pop(struct pair *pair, pdi_time now)
{
    uint32_t first = model_first(pair);
    uint32_t item = ITEMS;
    int status = pdi_heap_pop(&pair->heap, now, &item);
    if (first == ITEMS || pair->model[first] > now) {
        CHECK_EQ(status, PYDDSI_AGAIN);
        CHECK_EQ(item, ITEMS);
    } else {
        CHECK_EQ(status, PYDDSI_OK);
        CHECK_EQ(item, first);
        pair->model[first] = PDI_TIME_NEVER;
    }
}

static void run_seed(uint64_t seed)
{
    struct pdi_rand rand;
    struct pair pair = {0};
    pdi_rand_init(&rand, seed);
    uint32_t capacity = 1 + (uint32_t)pdi_rand_below(&rand, ITEMS);
    pdi_time span = 1 + pdi_rand_below(&rand, 1000); /* a short one makes many equals */
    CHECK_EQ(pdi_heap_init(&pair.heap, pair.entries, capacity, pair.places, ITEMS), PYDDSI_OK);
    memset(pair.model, 0xff, sizeof pair.model);
    for (int step = 0; step < STEPS; step++) {
        uint32_t item = (uint32_t)pdi_rand_below(&rand, ITEMS);
        switch (pdi_rand_below(&rand, 8)) {
        case 0:
            put(&pair, item, PDI_TIME_NEVER);
            break;
        case 1:
            pop(&pair, pdi_rand_below(&rand, span));
            break;
        case 2:
            pop(&pair, PDI_TIME_NEVER);
            break;
        case 3:
            put(&pair, item, PDI_TIME_NEVER - 1 - pdi_rand_below(&rand, 2));
            break;
        default:
            put(&pair, item, pdi_rand_below(&rand, span));
        }
        check_model(&pair);
    }
    for (uint32_t i = 0; i <= capacity; i++) { /* what is left comes out in order */
        pop(&pair, PDI_TIME_NEVER);
    }
    CHECK_EQ(pair.heap.count, 0);
}

/* If it failed, a deadline would be met too late, twice, or for the wrong item. */
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

/* If it failed, an item that does not exist would be written past the caller's memory. */
static void test_refuses(void)
{
    struct pair pair = {0};
    uint32_t item = 9;
    CHECK_EQ(pdi_heap_init(&pair.heap, pair.entries, PDI_HEAP_CAPACITY_MAX + 1, pair.places, 2),
             PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_heap_init(&pair.heap, pair.entries, 2, pair.places, 3), PYDDSI_OK);
    CHECK_EQ(pdi_heap_put(&pair.heap, 3, 5), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_heap_put(&pair.heap, UINT32_MAX, 5), PYDDSI_BAD_ARGUMENT);
    CHECK(pdi_heap_get(&pair.heap, 3) == PDI_TIME_NEVER);
    CHECK_EQ(pdi_heap_put(&pair.heap, 2, 5), PYDDSI_OK);
    CHECK_EQ(pdi_heap_put(&pair.heap, 0, 6), PYDDSI_OK);
    CHECK_EQ(pdi_heap_put(&pair.heap, 1, 4), PYDDSI_NO_SPACE);
    CHECK(pdi_heap_get(&pair.heap, 1) == PDI_TIME_NEVER);
    CHECK(pdi_heap_due(&pair.heap) == 5);
    CHECK_EQ(pdi_heap_put(&pair.heap, 0, 4), PYDDSI_OK); /* a change needs no space */
    CHECK_EQ(pdi_heap_pop(&pair.heap, 3, &item), PYDDSI_AGAIN);
    CHECK_EQ(pdi_heap_pop(&pair.heap, 4, &item), PYDDSI_OK); /* due at its time, not after it */
    CHECK_EQ(item, 0);
}

int main(void)
{
    test_refuses();
    test_against_model();
    return test_result();
}
