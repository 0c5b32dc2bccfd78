/* proto/pool.h: edges, thousands of interleavings of readers with the receive thread, real threads.
 *
 * Compiled with yield points here, whatever the rest is compiled with: all that runs per packet is
 * in headers. */
#define PDI_SIM

#include "proto/pool.h"

#include <pthread.h>
#include <sched.h>

#include "base/ring_spsc.h"
#include "interleave.h"
#include "test.h"

#define SEEDS       3000
#define STEPS_MAX   400000
#define READERS_MAX 3
#define SLOTS_MAX   8
#define WORDS       4
#define QUEUE       64
#define TURNS       20000 /* packets, with real threads */
#define ATTEMPTS    20000000

/* The receive thread fills slots and hands each to some readers, who check and drop it. */
struct world {
    struct pdi_pool pool;
    uint64_t memory[SLOTS_MAX * WORDS];
    struct pdi_atomic32 holds[SLOTS_MAX];
    _Alignas(8) uint8_t ring[PDI_RING_MPSC_BYTES(SLOTS_MAX, 4)];
    struct pdi_ring_spsc queues[READERS_MAX];
    uint8_t queue_memory[READERS_MAX][PDI_RING_SPSC_BYTES(QUEUE, 16)];
    uint64_t readers;
    uint64_t packets;
    struct pdi_atomic32 finished;
    struct reader {
        struct world *world;
        uint64_t index;
        uint64_t seen;
        uint64_t wrong;
    } reader[READERS_MAX];
    struct pdi_rand rand;
    uint64_t sent[READERS_MAX];
    uint64_t wrong;
};

struct note {
    uint32_t slot;
    uint64_t packet;
};

static struct world world;

static void world_init(struct pdi_rand *rand, uint64_t readers, uint32_t slots, uint64_t packets)
{
    memset(&world, 0, sizeof world);
    world.readers = readers;
    world.packets = packets;
    world.rand = pdi_rand_fork(rand, 1);
    CHECK_EQ(pdi_pool_init(&world.pool, (uint8_t *)world.memory, WORDS * 8, slots, world.holds,
                           world.ring),
             PYDDSI_OK);
    for (uint64_t i = 0; i < READERS_MAX; i++) {
        world.reader[i] = (struct reader){&world, i, 0, 0};
        CHECK_EQ(pdi_ring_spsc_init(&world.queues[i], world.queue_memory[i],
                                    sizeof world.queue_memory[i], QUEUE, sizeof(struct note)),
                 PYDDSI_OK);
    }
}

/* Hands the slot to a reader, with a hold of its own. */
static void hand_over(struct world *in, uint64_t reader, const struct note *note)
{
    int attempts = 0;
    pdi_pool_hold(&in->pool, note->slot);
    while (pdi_ring_spsc_push(&in->queues[reader], note) != PYDDSI_OK && attempts++ < ATTEMPTS) {
        sched_yield();
    }
    pdi_ring_spsc_publish(&in->queues[reader]);
    in->sent[reader]++;
}

static void receive(void *context)
{
    struct world *in = context;
    int attempts = 0;
    for (uint64_t packet = 1; packet <= in->packets; packet++) {
        struct note note = {pdi_pool_get(&in->pool), packet};
        if (note.slot == PDI_POOL_NONE) { /* the readers hold them all */
            if (++attempts > ATTEMPTS) {
                in->wrong++;
                break;
            }
            packet--;
            sched_yield();
            continue;
        }
        volatile uint64_t *data = (void *)pdi_pool_data(&in->pool, note.slot);
        for (int word = 0; word < WORDS; word++) {
            pdi_atomic_yield();
            data[word] = packet;
        }
        uint64_t to = pdi_rand_below(&in->rand, UINT64_C(1) << in->readers);
        for (uint64_t reader = 0; reader < in->readers; reader++) {
            if ((to >> reader & 1) != 0) {
                hand_over(in, reader, &note);
            }
        }
        pdi_pool_drop(&in->pool, note.slot);
    }
    pdi_atomic32_add(&in->finished, 1);
}

static void read_one(struct reader *reader, const struct note *note)
{
    const volatile uint64_t *data = (void *)pdi_pool_data(&reader->world->pool, note->slot);
    for (int word = 0; word < WORDS; word++) {
        pdi_atomic_yield();
        reader->wrong += data[word] != note->packet;
    }
    reader->seen++;
    if (note->packet % 3 == 0) { /* a hold for a friend, which outlives one's own */
        pdi_pool_hold(&reader->world->pool, note->slot);
        pdi_pool_drop(&reader->world->pool, note->slot);
        pdi_atomic_yield();
        reader->wrong += data[0] != note->packet;
    }
    pdi_pool_drop(&reader->world->pool, note->slot);
}

static void read_all(void *context)
{
    struct reader *reader = context;
    struct pdi_ring_spsc *queue = &reader->world->queues[reader->index];
    bool last = false;
    for (;;) {
        struct note note;
        if (pdi_ring_spsc_pop(queue, &note) == PYDDSI_OK) {
            read_one(reader, &note);
        } else if (last) {
            return;
        } else {
            sched_yield();
            last = pdi_atomic32_load_acquire(&reader->world->finished) == 1;
        }
    }
}

/* Every reader has seen what it was sent, unchanged, and all slots are free, each once. */
static void check_world(void)
{
    uint32_t slots[SLOTS_MAX] = {0};
    CHECK_EQ(world.wrong, 0);
    for (uint64_t i = 0; i < world.readers; i++) {
        CHECK_EQ(world.reader[i].wrong, 0);
        CHECK_EQ(world.reader[i].seen, world.sent[i]);
    }
    CHECK_EQ(pdi_pool_free(&world.pool), world.pool.slots);
    for (uint32_t i = 0; i < world.pool.slots; i++) {
        uint32_t slot = pdi_pool_get(&world.pool);
        CHECK(slot < world.pool.slots && slots[slot]++ == 0);
    }
    CHECK_EQ(pdi_pool_get(&world.pool), PDI_POOL_NONE);
}

/* If it failed, a packet would change under its reader, or a slot be lost or given out twice, in
 * some interleaving of readers that drop with the thread that gets. */
static void test_interleaved(void)
{
    for (uint64_t seed = 0; seed < SEEDS && test_failures == 0; seed++) {
        struct pdi_rand rand;
        struct interleave_actor actors[READERS_MAX + 1];
        pdi_rand_init(&rand, seed);
        unsigned readers = 1 + (unsigned)pdi_rand_below(&rand, READERS_MAX);
        world_init(&rand, readers, 2u << pdi_rand_below(&rand, 3), 1 + pdi_rand_below(&rand, 12));
        for (unsigned i = 0; i < readers; i++) {
            actors[i] = (struct interleave_actor){read_all, &world.reader[i]};
        }
        actors[readers] = (struct interleave_actor){receive, &world};
        CHECK(interleave_run(&rand, actors, readers + 1, STEPS_MAX));
        check_world();
        if (test_failures != 0) {
            printf("seed %" PRIu64 "\n", seed);
        }
    }
}

static void *read_in_thread(void *context)
{
    read_all(context);
    return NULL;
}

/* If it failed, the pool would hold in the simulator but not on a processor. */
static void test_threads(void)
{
    struct pdi_rand rand;
    pthread_t threads[READERS_MAX];
    pdi_rand_init(&rand, 1);
    world_init(&rand, READERS_MAX, SLOTS_MAX, TURNS);
    for (unsigned i = 0; i < READERS_MAX; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, read_in_thread, &world.reader[i]), 0);
    }
    receive(&world);
    for (unsigned i = 0; i < READERS_MAX; i++) {
        pthread_join(threads[i], NULL);
    }
    check_world();
}

/* If it failed, a slot would be free while it is held, or held when nobody does. */
static void test_holds(void)
{
    struct pdi_rand rand;
    pdi_rand_init(&rand, 1);
    world_init(&rand, 1, 2, 0);
    uint32_t one = pdi_pool_get(&world.pool);
    uint32_t two = pdi_pool_get(&world.pool);
    CHECK(one + two == 1); /* 0 and 1 */
    CHECK_EQ(pdi_pool_data(&world.pool, 1) - pdi_pool_data(&world.pool, 0), WORDS * 8);
    CHECK_EQ(pdi_pool_get(&world.pool), PDI_POOL_NONE);
    CHECK_EQ(pdi_pool_free(&world.pool), 0);
    pdi_pool_hold(&world.pool, one);
    pdi_pool_hold(&world.pool, one);
    pdi_pool_drop(&world.pool, one);
    pdi_pool_drop(&world.pool, one);
    CHECK_EQ(pdi_pool_free(&world.pool), 0);
    pdi_pool_drop(&world.pool, two);
    CHECK_EQ(pdi_pool_free(&world.pool), 1);
    CHECK_EQ(pdi_pool_get(&world.pool), two);
    pdi_pool_drop(&world.pool, one);
    CHECK_EQ(pdi_pool_get(&world.pool), one);
    CHECK_EQ(pdi_pool_get(&world.pool), PDI_POOL_NONE);
    pdi_pool_drop(&world.pool, two);
    pdi_pool_drop(&world.pool, one);
    CHECK_EQ(pdi_pool_free(&world.pool), 2);
}

static int rushes_left;

/* Takes out the slot at the front and drops it again, as a crowd of faster readers would. */
static void rush(void *context)
{
    struct pdi_pool *pool = context;
    struct pdi_yield hook = pdi_yield;
    pdi_yield.call = NULL;
    pdi_pool_drop(pool, pdi_pool_get(pool));
    if (--rushes_left > 0) {
        pdi_yield = hook;
    }
}

/* If it failed, a slot would be lost for ever when many drop at once. */
static void test_crowd(void)
{
    struct pdi_rand rand;
    pdi_rand_init(&rand, 1);
    world_init(&rand, 1, 4, 0);
    uint32_t slot = pdi_pool_get(&world.pool);
    rushes_left = 5 * PDI_RING_MPSC_CLAIMS_MAX;
    pdi_yield = (struct pdi_yield){rush, &world.pool};
    pdi_pool_drop(&world.pool, slot);
    pdi_yield = (struct pdi_yield){NULL, NULL};
    CHECK(rushes_left <= 0);
    CHECK_EQ(pdi_pool_free(&world.pool), 4);
}

/* If it failed, a pool would be made that mixes up its slots or reaches past its memory. */
static void test_init_refuses(void)
{
    uint8_t *memory = (uint8_t *)world.memory;
    struct pdi_pool *pool = &world.pool;
    CHECK_EQ(pdi_pool_init(pool, memory, 8, 0, world.holds, world.ring), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_pool_init(pool, memory, 8, 1, world.holds, world.ring), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_pool_init(pool, memory, 8, 6, world.holds, world.ring), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_pool_init(pool, memory, 0, 4, world.holds, world.ring), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_pool_init(pool, memory, 8, 1U << 31, world.holds, world.ring),
             PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_pool_init(pool, memory, 8, 4, world.holds, world.ring + 4), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_pool_init(pool, memory, 8, 4, world.holds, world.ring), PYDDSI_OK);
}

int main(void)
{
    test_init_refuses();
    test_holds();
    test_crowd();
    test_interleaved();
    test_threads();
    return test_result();
}
