/* host/barrier.h, host/bias.h, and the light ring of host/bell.h: what a barrier that one side pays for is good for. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include <pthread.h>
#include <sched.h>

#include "host/bell.h"
#include "host/bias.h"
#include "host/thread.h"
#include "test.h"

#define ROUNDS 100000U
#define TAKES  200000U
#define VISITS 5000U

/* Looks until the word has this value; where there are fewer processors than threads, the other must be let go on. */
static void await(const struct pdi_atomic32 *word, uint32_t value)
{
    for (unsigned i = 1; pdi_atomic32_load_acquire(word) != value; i++) {
        if (i % 256 == 0) {
            (void)sched_yield();
        }
    }
}

/* ---- the barrier ---- */

static struct {
    PDI_CACHE_ALIGNED struct pdi_atomic32 light; /* what each changes */
    PDI_CACHE_ALIGNED struct pdi_atomic32 heavy;
    PDI_CACHE_ALIGNED struct pdi_atomic32 begun; /* rounds */
    PDI_CACHE_ALIGNED struct pdi_atomic32 light_done;
    uint32_t light_saw;
} duel;

/* So that the two meet at some round or other. */
static void dawdle(uint32_t steps)
{
    for (volatile uint32_t i = 0; i < steps; i++) {
    }
}

static void *duel_lightly(void *context)
{
    (void)context;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        await(&duel.begun, round);
        dawdle(round % 7);
        pdi_atomic32_store_relaxed(&duel.light, round);
        pdi_barrier_light();
        duel.light_saw = pdi_atomic32_load_relaxed(&duel.heavy);
        pdi_atomic32_store_release(&duel.light_done, round);
    }
    return NULL;
}

/* If it failed, two threads could each go on as if the other had done nothing: a waiter sleeps through what it waits for, a
 * lock lets two in. */
static void test_one_of_two_sees_the_other(void)
{
    pthread_t thread;
    uint32_t blind = 0;
    CHECK(pdi_barrier_begin());
    CHECK_EQ(pthread_create(&thread, NULL, duel_lightly, NULL), 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        pdi_atomic32_store_release(&duel.begun, round);
        dawdle(round % 601);
        pdi_atomic32_store_relaxed(&duel.heavy, round);
        pdi_barrier_heavy();
        uint32_t saw = pdi_atomic32_load_relaxed(&duel.light);
        await(&duel.light_done, round);
        blind += saw != round && duel.light_saw != round;
    }
    (void)pthread_join(thread, NULL);
    CHECK_EQ(blind, 0);
}

/* ---- who becomes the owner ---- */

static void take(struct pdi_bias *bias, uint64_t self, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        pdi_bias_take(bias, self);
        pdi_bias_give(bias, self);
    }
}

static uint64_t owner(const struct pdi_bias *bias)
{
    return pdi_atomic64_load_relaxed(&bias->seats[pdi_atomic32_load_relaxed(&bias->open)].owner);
}

/* If it failed, a writer would pay for a lock of several threads, or one that looks in now and then would take it from him. */
static void test_who_comes_often_owns_it(void)
{
    struct pdi_bias bias = {.allowed = 1};
    take(&bias, 7, PDI_BIAS_TURNS - 1);
    CHECK_EQ(owner(&bias), 0);
    take(&bias, 7, 1);
    CHECK_EQ(owner(&bias), 7);
    for (unsigned i = 0; i < 100; i++) { /* housekeeping */
        take(&bias, 8, PDI_BIAS_TURNS - 1);
        take(&bias, 7, PDI_BIAS_TURNS * PDI_BIAS_WORTH);
    }
    CHECK_EQ(owner(&bias), 7);
    CHECK_EQ(bias.seats[1].uses, 100 * PDI_BIAS_TURNS * PDI_BIAS_WORTH);
    take(&bias, 8, PDI_BIAS_TURNS);
    CHECK_EQ(owner(&bias), 8);
    take(&bias, 7, PDI_BIAS_TURNS);
    CHECK_EQ(owner(&bias), 7);
    CHECK_EQ(pdi_atomic32_load_relaxed(&bias.open), 1); /* in the seat that he had */
}

/* If it failed, threads that take turns would stop each other each time. */
static void test_several_own_nothing(void)
{
    struct pdi_bias bias = {.allowed = 1};
    take(&bias, 7, PDI_BIAS_TURNS);
    for (unsigned i = 0; i < PDI_BIAS_TURNS; i++) {
        take(&bias, 8 + i % 2, 1);
    }
    CHECK_EQ(owner(&bias), 0);
    take(&bias, 7, PDI_BIAS_TURNS);
    CHECK_EQ(owner(&bias), 7);
    for (unsigned i = 0; i < 2 * PDI_BIAS_TURNS;
         i++) { /* he, too, comes no more often than another */
        take(&bias, 8, 1);
        take(&bias, 7, 3);
    }
    CHECK_EQ(owner(&bias), 0);
    for (uint64_t self = 10; self < 30; self++) { /* more than there are seats */
        take(&bias, self, PDI_BIAS_TURNS);
    }
    CHECK_EQ(owner(&bias), 0);
    struct pdi_bias plain = {.allowed = 0};
    take(&plain, 7, 1000);
    CHECK_EQ(owner(&plain), 0);
}

/* ---- the lock ---- */

static struct {
    struct pdi_bias bias;
    uint64_t count; /* guarded by it */
    struct pdi_atomic32 inside, crowded, owning;
} house;

static void visit(uint64_t self)
{
    pdi_bias_take(&house.bias, self);
    if (pdi_atomic32_add(&house.inside, 1) != 0) {
        pdi_atomic32_store_relaxed(&house.crowded, 1);
    }
    house.count++;
    (void)pdi_atomic32_add(&house.inside, UINT32_MAX);
    pdi_bias_give(&house.bias, self);
}

/* Takes it as a writer does, often and with nothing else to do. */
static void *live_there(void *context)
{
    (void)context;
    for (unsigned i = 0; i < TAKES; i++) {
        uint64_t self = pdi_thread_self();
        pdi_bias_take(&house.bias, self);
        house.count++;
        pdi_bias_give(&house.bias, self);
    }
    (void)pdi_atomic32_add(&house.owning, 1);
    return NULL;
}

static void *come_and_go(void *context)
{
    (void)context;
    for (unsigned i = 0; i < VISITS; i++) {
        visit(pdi_thread_self());
        (void)sched_yield();
    }
    return NULL;
}

/* If it failed, housekeeping would look at a lane while its publisher writes. */
static void test_one_at_a_time(void)
{
    pthread_t threads[4];
    house.bias.allowed = 1;
    CHECK_EQ(pthread_create(&threads[0], NULL, live_there, NULL), 0);
    CHECK_EQ(pthread_create(&threads[1], NULL, come_and_go, NULL), 0);
    CHECK_EQ(pthread_create(&threads[2], NULL, come_and_go, NULL), 0);
    CHECK_EQ(pthread_create(&threads[3], NULL, live_there, NULL), 0); /* who owns it, changes */
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    CHECK_EQ(house.count, 2 * TAKES + 2 * VISITS);
    CHECK_EQ(pdi_atomic32_load_relaxed(&house.crowded), 0);
}

static struct {
    struct pdi_bias bias;
    PDI_CACHE_ALIGNED struct pdi_atomic32 begun; /* rounds */
    PDI_CACHE_ALIGNED struct pdi_atomic32 done;  /* by the owner */
    PDI_CACHE_ALIGNED struct pdi_atomic32 inside[2];
    struct pdi_atomic32 crowded;
} door;

/* Goes in, stays a while, and looks whether the other is there. */
static void enter(uint32_t who)
{
    pdi_bias_take(&door.bias, who + 1);
    pdi_atomic32_store_relaxed(&door.inside[who], 1);
    dawdle(100);
    if (pdi_atomic32_load_relaxed(&door.inside[1 - who]) != 0) {
        pdi_atomic32_store_relaxed(&door.crowded, 1);
    }
    pdi_atomic32_store_relaxed(&door.inside[who], 0);
    pdi_bias_give(&door.bias, who + 1);
}

static void *enter_as_owner(void *context)
{
    (void)context;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        await(&door.begun, round);
        dawdle(round % 7);
        enter(0);
        take(&door.bias, 1, 2 * PDI_BIAS_WORTH); /* so he stays the owner */
        pdi_atomic32_store_release(&door.done, round);
    }
    return NULL;
}

/* If it failed, the owner would not see that he is stopped, nor the other that he is inside. */
static void test_two_at_the_door(void)
{
    pthread_t thread;
    door.bias.allowed = 1;
    take(&door.bias, 1, PDI_BIAS_TURNS);
    CHECK_EQ(pthread_create(&thread, NULL, enter_as_owner, NULL), 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        pdi_atomic32_store_release(&door.begun, round);
        dawdle(round % 601);
        enter(1);
        await(&door.done, round);
    }
    (void)pthread_join(thread, NULL);
    CHECK_EQ(owner(&door.bias), 1);
    CHECK_EQ(pdi_atomic32_load_relaxed(&door.crowded), 0);
}

static void *wait_outside(void *context)
{
    (void)context;
    visit(2);
    return NULL;
}

/* If it failed, who waits for the owner to leave would wait for ever, or not at all. */
static void test_who_waits_is_let_in(void)
{
    pthread_t thread;
    memset(&house, 0, sizeof house);
    house.bias.allowed = 1;
    take(&house.bias, 1, PDI_BIAS_TURNS);
    pdi_bias_take(&house.bias, 1);
    CHECK_EQ(pthread_create(&thread, NULL, wait_outside, NULL), 0);
    while (pdi_atomic32_load_acquire(&house.bias.seats[1].stop) == 0) { /* until he knocks */
        (void)sched_yield();
    }
    for (unsigned i = 0; i < 1000; i++) {
        (void)sched_yield();
    }
    CHECK_EQ(house.count, 0);
    pdi_bias_give(&house.bias, 1);
    (void)pthread_join(thread, NULL);
    CHECK_EQ(house.count, 1);
    pdi_bias_take(&house.bias, 1);
    CHECK_EQ(pdi_atomic32_load_relaxed(&house.bias.seats[1].busy), 1); /* and it is his again */
    pdi_bias_give(&house.bias, 1);
}

/* ---- the bell ---- */

/* What is written before a ring: each line was the other's a moment ago, so the last of it reaches him long after the ringer
 * has looked at the bell, as it is with a sample. */
static struct {
    struct pdi_bell bell;
    PDI_CACHE_ALIGNED struct pdi_atomic32 happened;
    PDI_CACHE_ALIGNED struct pdi_atomic32 seen;
    struct {
        PDI_CACHE_ALIGNED struct pdi_atomic32 word;
    } lines[16];
} tower;

static void write_lines(uint32_t value)
{
    for (unsigned i = 0; i < 16; i++) {
        pdi_atomic32_store_relaxed(&tower.lines[i].word, value);
    }
}

static void *ring_lightly(void *context)
{
    (void)context;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        await(&tower.seen, i - 1);
        dawdle(i % 601);
        write_lines(i);
        pdi_atomic32_store_release(&tower.happened, i);
        (void)pdi_bell_ring_light(&tower.bell);
    }
    return NULL;
}

/* If it failed, a sample would lie in a lane while its reader sleeps. */
static void test_light_ring_is_not_slept_through(void)
{
    pthread_t thread;
    uint32_t slept_through = 0;
    CHECK_EQ(pthread_create(&thread, NULL, ring_lightly, NULL), 0);
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        write_lines(0);
        pdi_atomic32_store_release(&tower.seen, i - 1);
        for (;;) { /* each round is a sleep, but for the last */
            uint32_t heard = pdi_bell_listen(&tower.bell);
            pdi_barrier_heavy();
            if (pdi_atomic32_load_acquire(&tower.happened) == i) {
                pdi_bell_unlisten(&tower.bell);
                break;
            }
            pdi_time time = slept_through < 3 ? PDI_TIME_S : 0; /* that says enough */
            slept_through += pdi_bell_wait(&tower.bell, heard, time) == PYDDSI_AGAIN && time != 0 &&
                             pdi_atomic32_load_acquire(&tower.happened) == i;
        }
    }
    (void)pthread_join(thread, NULL);
    CHECK_EQ(slept_through, 0);
}

int main(void)
{
    test_one_of_two_sees_the_other();
    test_who_comes_often_owns_it();
    test_several_own_nothing();
    test_one_at_a_time();
    test_two_at_the_door();
    test_who_waits_is_let_in();
    test_light_ring_is_not_slept_through();
    return test_result();
}
