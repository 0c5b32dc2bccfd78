/* base/ring_spsc.h and base/ring_mpsc.h: edges, thousands of interleavings, and real threads.
 *
 * Compiled with yield points here, whatever the rest is compiled with; all is in the headers. With
 * no hook set, as in the tests with real threads, a yield point does nothing. */
#define PDI_SIM

#include "base/ring_mpsc.h"
#include "base/ring_spsc.h"

#include <pthread.h>
#include <sched.h>

#include "interleave.h"
#include "test.h"

#define SEEDS         3000
#define STEPS_MAX     200000
#define PRODUCERS_MAX 3
#define CAPACITY_MAX  64
#define TURNS         50000    /* items per producer, with real threads */
#define ATTEMPTS_MAX  10000000 /* to push one of them */

struct item {
    uint64_t producer;
    uint64_t number;
    uint64_t check; /* made of the others: a torn item does not fit */
};

/* One ring of either kind and those who play with it. */
struct world {
    struct pdi_ring_spsc spsc;
    struct pdi_ring_mpsc mpsc;
    bool many;
    uint64_t producers;
    uint64_t items_each;
    struct pdi_atomic32 finished; /* producers */
    struct side {
        struct world *world;
        uint64_t id;
        struct pdi_rand rand;
    } sides[PRODUCERS_MAX + 1]; /* the consumer is the last */
    uint64_t next[PRODUCERS_MAX];
    uint64_t wrong;
    _Alignas(64) uint8_t memory[PDI_RING_MPSC_BYTES(CAPACITY_MAX, sizeof(struct item))];
};

static struct world world;

static void world_init(struct pdi_rand *rand, bool many, uint64_t producers, uint32_t capacity,
                       uint64_t items_each)
{
    memset(&world, 0, sizeof world);
    world.many = many;
    world.producers = producers;
    world.items_each = items_each;
    for (uint64_t id = 0; id <= PRODUCERS_MAX; id++) {
        world.sides[id] = (struct side){&world, id, pdi_rand_fork(rand, id)};
    }
    size_t bytes = sizeof world.memory;
    if (many) {
        CHECK_EQ(
            pdi_ring_mpsc_init(&world.mpsc, world.memory, bytes, capacity, sizeof(struct item)),
            PYDDSI_OK);
    } else {
        CHECK_EQ(
            pdi_ring_spsc_init(&world.spsc, world.memory, bytes, capacity, sizeof(struct item)),
            PYDDSI_OK);
    }
}

static int push(struct side *side, uint64_t number)
{
    struct item item = {side->id, number, ~(number * 1000 + side->id)};
    if (side->world->many) {
        return pdi_ring_mpsc_push(&side->world->mpsc, &item);
    }
    int status = pdi_ring_spsc_push(&side->world->spsc, &item);
    if (pdi_rand_chance(&side->rand, 1, 3)) {
        pdi_ring_spsc_publish(&side->world->spsc);
    }
    return status;
}

/* Takes one item and notes what is wrong with it: torn, unknown, or not its producer's next. */
static int pop(struct side *side)
{
    struct world *in = side->world;
    struct item item;
    int status =
        in->many ? pdi_ring_mpsc_pop(&in->mpsc, &item) : pdi_ring_spsc_pop(&in->spsc, &item);
    if (!in->many && pdi_rand_chance(&side->rand, 1, 3)) {
        pdi_ring_spsc_release(&in->spsc);
    }
    if (status != PYDDSI_OK) {
        return status;
    }
    if (item.producer >= in->producers || item.check != ~(item.number * 1000 + item.producer)) {
        in->wrong++;
    } else {
        in->wrong += item.number != in->next[item.producer];
        in->next[item.producer] = item.number + 1;
    }
    return status;
}

static void produce(void *context)
{
    struct side *side = context;
    for (uint64_t number = 0; number < side->world->items_each; number++) {
        int attempts = 0;
        while (attempts < ATTEMPTS_MAX && push(side, number) != PYDDSI_OK) {
            attempts++;
            sched_yield();
        }
        if (attempts == ATTEMPTS_MAX) { /* the ring is stuck; the consumer will miss the rest */
            break;
        }
    }
    if (!side->world->many) {
        pdi_ring_spsc_publish(&side->world->spsc);
    }
    pdi_atomic32_add(&side->world->finished, 1);
}

/* Pops until the ring is empty and was so after the last producer had finished. */
static void consume(void *context)
{
    struct side *side = context;
    bool last = false;
    for (;;) {
        if (pop(side) == PYDDSI_OK) {
            continue;
        }
        if (last) {
            return;
        }
        sched_yield();
        last = pdi_atomic32_load_acquire(&side->world->finished) == side->world->producers;
    }
}

/* Every item has come out whole, once and in order. */
static void check_world(void)
{
    CHECK_EQ(world.wrong, 0);
    for (uint64_t id = 0; id < world.producers; id++) {
        CHECK_EQ(world.next[id], world.items_each);
    }
}

/* Plays SEEDS interleavings and stops at the first that goes wrong. */
static void run_interleavings(bool many)
{
    for (uint64_t seed = 0; seed < SEEDS && test_failures == 0; seed++) {
        struct pdi_rand rand;
        struct interleave_actor actors[PRODUCERS_MAX + 1];
        pdi_rand_init(&rand, seed);
        unsigned producers = many ? 1 + (unsigned)pdi_rand_below(&rand, PRODUCERS_MAX) : 1;
        uint32_t capacity = (many ? 2u : 1u) << pdi_rand_below(&rand, 3);
        world_init(&rand, many, producers, capacity, 1 + pdi_rand_below(&rand, 12));
        for (unsigned i = 0; i < producers; i++) {
            actors[i] = (struct interleave_actor){produce, &world.sides[i]};
        }
        actors[producers] = (struct interleave_actor){consume, &world.sides[PRODUCERS_MAX]};
        CHECK(interleave_run(&rand, actors, producers + 1, STEPS_MAX));
        check_world();
        if (test_failures != 0) {
            printf("seed %" PRIu64 "\n", seed);
        }
    }
}

/* If it failed, an item between two threads could be lost, doubled, torn or overtaken. */
static void test_spsc_interleaved(void)
{
    run_interleavings(false);
}

/* If it failed, an item of one of many threads could be lost, doubled, torn or overtaken. */
static void test_mpsc_interleaved(void)
{
    run_interleavings(true);
}

static void *produce_in_thread(void *context)
{
    produce(context);
    return NULL;
}

static void run_threads(bool many, unsigned producers)
{
    struct pdi_rand rand;
    pthread_t threads[PRODUCERS_MAX];
    pdi_rand_init(&rand, 1);
    world_init(&rand, many, producers, CAPACITY_MAX, TURNS);
    for (unsigned i = 0; i < producers; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, produce_in_thread, &world.sides[i]), 0);
    }
    consume(&world.sides[PRODUCERS_MAX]);
    for (unsigned i = 0; i < producers; i++) {
        pthread_join(threads[i], NULL);
    }
    check_world();
}

/* If it failed, the ring would hold in the simulator but not on a processor. */
static void test_spsc_threads(void)
{
    run_threads(false, 1);
}

/* If it failed, the ring would hold in the simulator but not on a processor. */
static void test_mpsc_threads(void)
{
    run_threads(true, PRODUCERS_MAX);
}

/* If it failed, items would be seen before they are published or slots reused before their release,
 * or the two sides could wait for each other for ever over what each holds back. */
static void test_spsc_batches(void)
{
    static uint8_t memory[PDI_RING_SPSC_BYTES(4, 3)];
    struct pdi_ring_spsc ring;
    char got[3] = "";
    CHECK_EQ(pdi_ring_spsc_init(&ring, memory, sizeof memory, 4, 3), PYDDSI_OK);
    CHECK_EQ(pdi_ring_spsc_pop(&ring, got), PYDDSI_AGAIN);
    for (char letter = 'a'; letter < 'e'; letter++) {
        CHECK_EQ(pdi_ring_spsc_push(&ring, (char[3]){letter, 'x'}), PYDDSI_OK);
    }
    CHECK_EQ(pdi_ring_spsc_pop(&ring, got), PYDDSI_AGAIN); /* nothing is published */
    CHECK_EQ(pdi_ring_spsc_push(&ring, "e!"), PYDDSI_AGAIN);
    for (char letter = 'a'; letter < 'e'; letter++) { /* the refusal published it all */
        CHECK_EQ(pdi_ring_spsc_pop(&ring, got), PYDDSI_OK);
        CHECK_TEXT(got, ((char[3]){letter, 'x'}));
    }
    CHECK_EQ(pdi_ring_spsc_push(&ring, "e!"), PYDDSI_AGAIN); /* nothing is released */
    CHECK_EQ(pdi_ring_spsc_pop(&ring, got), PYDDSI_AGAIN);   /* which releases it all */
    CHECK_EQ(pdi_ring_spsc_push(&ring, "e!"), PYDDSI_OK);
    CHECK_EQ(pdi_ring_spsc_push(&ring, "f!"), PYDDSI_OK);
    pdi_ring_spsc_publish(&ring);
    CHECK_EQ(pdi_ring_spsc_push(&ring, "g!"), PYDDSI_OK);
    CHECK_EQ(pdi_ring_spsc_pop(&ring, got), PYDDSI_OK);
    CHECK_TEXT(got, "e!");
    pdi_ring_spsc_release(&ring);
    CHECK_EQ(pdi_ring_spsc_pop(&ring, got), PYDDSI_OK);
    CHECK_TEXT(got, "f!");
    CHECK_EQ(pdi_ring_spsc_pop(&ring, got), PYDDSI_AGAIN);
}

/* If it failed, a full ring would take an item, or an empty one give one. */
static void test_mpsc_full_and_empty(void)
{
    static _Alignas(8) uint8_t memory[PDI_RING_MPSC_BYTES(2, 3)];
    struct pdi_ring_mpsc ring;
    char got[3] = "";
    CHECK_EQ(sizeof memory, 2 * (8 + 8));
    CHECK_EQ(pdi_ring_mpsc_init(&ring, memory, sizeof memory, 2, 3), PYDDSI_OK);
    for (int round = 0; round < 5; round++) {
        CHECK_EQ(pdi_ring_mpsc_pop(&ring, got), PYDDSI_AGAIN);
        CHECK_EQ(pdi_ring_mpsc_push(&ring, "ab"), PYDDSI_OK);
        CHECK_EQ(pdi_ring_mpsc_push(&ring, "cd"), PYDDSI_OK);
        CHECK_EQ(pdi_ring_mpsc_push(&ring, "ef"), PYDDSI_AGAIN);
        CHECK_EQ(pdi_ring_mpsc_pop(&ring, got), PYDDSI_OK);
        CHECK_TEXT(got, "ab");
        CHECK_EQ(pdi_ring_mpsc_pop(&ring, got), PYDDSI_OK);
        CHECK_TEXT(got, "cd");
    }
}

static int rushes_left;

/* Moves the tail at this many yield points, as a crowd of faster producers would. */
static void rush(void *context)
{
    struct pdi_ring_mpsc *ring = context;
    struct pdi_yield hook = pdi_yield;
    char got[3];
    pdi_yield.call = NULL;
    CHECK_EQ(pdi_ring_mpsc_push(ring, "xx"), PYDDSI_OK);
    CHECK_EQ(pdi_ring_mpsc_pop(ring, got), PYDDSI_OK);
    if (--rushes_left > 0) {
        pdi_yield = hook;
    }
}

/* If it failed, a producer that comes too late a few times would be refused though there is room,
 * or one that always comes too late would try for ever. */
static void test_mpsc_crowd(void)
{
    static _Alignas(8) uint8_t memory[PDI_RING_MPSC_BYTES(4, 3)];
    struct pdi_ring_mpsc ring;
    char got[3] = "";
    CHECK_EQ(pdi_ring_mpsc_init(&ring, memory, sizeof memory, 4, 3), PYDDSI_OK);
    rushes_left = 10 * PDI_RING_MPSC_CLAIMS_MAX;
    pdi_yield = (struct pdi_yield){rush, &ring};
    CHECK_EQ(pdi_ring_mpsc_push(&ring, "ab"), PYDDSI_AGAIN);
    pdi_yield = (struct pdi_yield){NULL, NULL};
    CHECK(rushes_left > 0);
    CHECK_EQ(pdi_ring_mpsc_pop(&ring, got), PYDDSI_AGAIN);
    for (int few = 1; few < 10; few++) {
        rushes_left = few;
        pdi_yield = (struct pdi_yield){rush, &ring};
        CHECK_EQ(pdi_ring_mpsc_push(&ring, "ab"), PYDDSI_OK);
        CHECK_EQ(rushes_left, 0);
        pdi_yield = (struct pdi_yield){NULL, NULL};
        CHECK_EQ(pdi_ring_mpsc_pop(&ring, got), PYDDSI_OK);
        CHECK_TEXT(got, "ab");
    }
}

/* If it failed, a ring would be made that writes past its memory or mixes up its slots. */
static void test_init_refuses(void)
{
    static _Alignas(8) uint8_t memory[256];
    struct pdi_ring_spsc spsc;
    struct pdi_ring_mpsc mpsc;
    CHECK_EQ(pdi_ring_spsc_init(&spsc, memory, 256, 0, 8), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_ring_spsc_init(&spsc, memory, 256, 3, 8), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_ring_spsc_init(&spsc, memory, 256, 4, 0), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_ring_spsc_init(&spsc, memory, 256, 1, PDI_RING_SPSC_ITEM_SIZE_MAX + 1),
             PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_ring_spsc_init(&spsc, memory, 255, 32, 8), PYDDSI_NO_SPACE);
    CHECK_EQ(pdi_ring_spsc_init(&spsc, memory, 256, 32, 8), PYDDSI_OK);
    CHECK_EQ(pdi_ring_mpsc_init(&mpsc, memory, 256, 0, 8), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_ring_mpsc_init(&mpsc, memory, 256, 1, 8), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_ring_mpsc_init(&mpsc, memory, 256, 6, 8), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_ring_mpsc_init(&mpsc, memory, 256, 4, 0), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_ring_mpsc_init(&mpsc, memory, 256, 2, PDI_RING_MPSC_ITEM_SIZE_MAX + 1),
             PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_ring_mpsc_init(&mpsc, memory + 4, 252, 4, 8), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_ring_mpsc_init(&mpsc, memory, 255, 16, 8), PYDDSI_NO_SPACE);
    CHECK_EQ(pdi_ring_mpsc_init(&mpsc, memory, 256, 16, 8), PYDDSI_OK);
}

int main(void)
{
    test_init_refuses();
    test_spsc_batches();
    test_mpsc_full_and_empty();
    test_mpsc_crowd();
    test_spsc_interleaved();
    test_mpsc_interleaved();
    test_spsc_threads();
    test_mpsc_threads();
    return test_result();
}
