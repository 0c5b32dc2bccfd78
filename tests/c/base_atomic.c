/* base/atomic.h: the operations, the yield points, and what real threads make of them.
 *
 * Compiled with yield points here, whatever the rest is compiled with; all is in the header. */
#define PDI_SIM

#include "base/atomic.h"

#include <pthread.h>
#include <stddef.h>

#include "interleave.h"
#include "test.h"

#define THREADS        4
#define ROUNDS         20000
#define ATTEMPTS_MAX   100000000
#define SEEDS          300
#define STEPS_MAX      10000
#define INCREMENTS     5
#define HOOK_LEFT_HERE 7

/* One check of every operation at one width: what it does to the word and what it answers. */
#define TEST_OPERATIONS(bits)                                                                      \
    static void test_operations_##bits(void)                                                       \
    {                                                                                              \
        struct pdi_atomic##bits word;                                                              \
        uint##bits##_t expected = 9;                                                               \
        pdi_atomic##bits##_store_relaxed(&word, 10);                                               \
        CHECK_EQ(pdi_atomic##bits##_load_relaxed(&word), 10);                                      \
        pdi_atomic##bits##_store_release(&word, 12);                                               \
        CHECK_EQ(pdi_atomic##bits##_load_acquire(&word), 12);                                      \
        CHECK(!pdi_atomic##bits##_cas(&word, &expected, 1));                                       \
        CHECK_EQ(expected, 12);                                                                    \
        CHECK(pdi_atomic##bits##_cas(&word, &expected, 5));                                        \
        CHECK_EQ(pdi_atomic##bits##_add(&word, UINT##bits##_MAX), 5);                              \
        CHECK_EQ(pdi_atomic##bits##_or(&word, 3), 4);                                              \
        CHECK_EQ(pdi_atomic##bits##_and(&word, 6), 7);                                             \
        CHECK_EQ(pdi_atomic##bits##_load_relaxed(&word), 6);                                       \
    }

/* The hook changes the word, so an operation that yields before it acts meets what the hook left.
 */
#define TEST_YIELDS(bits)                                                                          \
    static void hook_##bits(void *context)                                                         \
    {                                                                                              \
        pdi_yield.call = NULL;                                                                     \
        pdi_atomic##bits##_store_relaxed(context, HOOK_LEFT_HERE);                                 \
    }                                                                                              \
                                                                                                   \
    static void test_yields_##bits(void)                                                           \
    {                                                                                              \
        struct pdi_atomic##bits word;                                                              \
        struct pdi_yield hook = {hook_##bits, &word};                                              \
        uint##bits##_t expected = 1;                                                               \
        pdi_atomic##bits##_store_relaxed(&word, 1);                                                \
        pdi_yield = hook;                                                                          \
        CHECK_EQ(pdi_atomic##bits##_load_relaxed(&word), HOOK_LEFT_HERE);                          \
        pdi_atomic##bits##_store_relaxed(&word, 1);                                                \
        pdi_yield = hook;                                                                          \
        CHECK_EQ(pdi_atomic##bits##_load_acquire(&word), HOOK_LEFT_HERE);                          \
        pdi_yield = hook;                                                                          \
        pdi_atomic##bits##_store_relaxed(&word, 1);                                                \
        CHECK(pdi_yield.call == NULL);                                                             \
        CHECK_EQ(pdi_atomic##bits##_load_relaxed(&word), 1);                                       \
        pdi_yield = hook;                                                                          \
        pdi_atomic##bits##_store_release(&word, 1);                                                \
        CHECK(pdi_yield.call == NULL);                                                             \
        CHECK_EQ(pdi_atomic##bits##_load_relaxed(&word), 1);                                       \
        pdi_yield = hook;                                                                          \
        CHECK(!pdi_atomic##bits##_cas(&word, &expected, 2));                                       \
        CHECK_EQ(expected, HOOK_LEFT_HERE);                                                        \
        pdi_atomic##bits##_store_relaxed(&word, 1);                                                \
        pdi_yield = hook;                                                                          \
        CHECK_EQ(pdi_atomic##bits##_add(&word, 1), HOOK_LEFT_HERE);                                \
        pdi_yield = hook;                                                                          \
        CHECK_EQ(pdi_atomic##bits##_or(&word, 1), HOOK_LEFT_HERE);                                 \
        pdi_atomic##bits##_store_relaxed(&word, 1);                                                \
        pdi_yield = hook;                                                                          \
        CHECK_EQ(pdi_atomic##bits##_and(&word, 1), HOOK_LEFT_HERE);                                \
        CHECK_EQ(pdi_atomic##bits##_load_relaxed(&word), 1);                                       \
    }

/* If it failed, every algorithm on shared words would compute something else. */
TEST_OPERATIONS(32)
TEST_OPERATIONS(64)

/* If it failed, an interleaving at this operation could not be simulated. */
TEST_YIELDS(32)
TEST_YIELDS(64)

/* If it failed, words of different threads would share a cache line. */
static void test_alignment(void)
{
    struct two {
        PDI_CACHE_ALIGNED struct pdi_atomic64 mine;
        PDI_CACHE_ALIGNED struct pdi_atomic64 yours;
    };
    CHECK_EQ(offsetof(struct two, yours), PDI_CACHE_LINE);
    CHECK_EQ(sizeof(struct two), 2 * PDI_CACHE_LINE);
    CHECK_EQ(sizeof(struct pdi_atomic64), 8);
    CHECK_EQ(sizeof(struct pdi_atomic32), 4);
}

static struct pdi_atomic64 sum_added, sum_swapped, bits_set;
static struct pdi_atomic32 sum_added_32;

static void *increment(void *context)
{
    uint64_t mine = UINT64_C(0xff) << (8 * (uintptr_t)context);
    for (int round = 0; round < ROUNDS; round++) {
        pdi_atomic64_add(&sum_added, 1);
        pdi_atomic32_add(&sum_added_32, 1);
        uint64_t seen = pdi_atomic64_load_relaxed(&sum_swapped);
        while (!pdi_atomic64_cas(&sum_swapped, &seen, seen + 1)) {
        }
        pdi_atomic64_or(&bits_set, mine);
        if (round != ROUNDS - 1) {
            pdi_atomic64_and(&bits_set, ~mine);
        }
    }
    return NULL;
}

/* If it failed, changes of one thread would be lost to those of another. */
static void test_threads_change_one_word(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, increment, (void *)i), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(pdi_atomic64_load_relaxed(&sum_added), THREADS * ROUNDS);
    CHECK_EQ(pdi_atomic32_load_relaxed(&sum_added_32), THREADS * ROUNDS);
    CHECK_EQ(pdi_atomic64_load_relaxed(&sum_swapped), THREADS * ROUNDS);
    CHECK_EQ(pdi_atomic64_load_relaxed(&bits_set), UINT32_MAX);
}

static struct pdi_atomic64 turn;
static uint64_t letter; /* a plain word, handed to and fro by `turn` */

/* Waits until it is `wanted`'s turn; answers whether it came within ATTEMPTS_MAX looks. */
static bool wait_for_turn(uint64_t wanted)
{
    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        if (pdi_atomic64_load_acquire(&turn) == wanted) {
            return true;
        }
    }
    return false;
}

static void *write_letters(void *context)
{
    (void)context;
    for (uint64_t round = 0; round < 100 && wait_for_turn(2 * round); round++) {
        letter = round * round;
        pdi_atomic64_store_release(&turn, 2 * round + 1);
    }
    return NULL;
}

/* If it failed, what a thread did before a store_release would not be seen after a load_acquire;
 * the thread sanitizer sees it even where the processor is kinder than the language. */
static void test_threads_publish(void)
{
    pthread_t writer;
    uint64_t wrong = 0;
    CHECK_EQ(pthread_create(&writer, NULL, write_letters, NULL), 0);
    for (uint64_t round = 0; round < 100 && wait_for_turn(2 * round + 1); round++) {
        wrong += letter != round * round;
        pdi_atomic64_store_release(&turn, 2 * round + 2);
    }
    pthread_join(writer, NULL);
    CHECK_EQ(pdi_atomic64_load_relaxed(&turn), 200);
    CHECK_EQ(wrong, 0);
}

static void swap_up(void *context)
{
    for (int i = 0; i < INCREMENTS; i++) {
        uint64_t seen = pdi_atomic64_load_relaxed(context);
        while (!pdi_atomic64_cas(context, &seen, seen + 1)) {
        }
    }
}

static void store_up(void *context)
{
    for (int i = 0; i < INCREMENTS; i++) {
        pdi_atomic64_store_relaxed(context, pdi_atomic64_load_relaxed(context) + 1);
    }
}

/* How many of SEEDS interleavings of two such actors end with a wrong sum. */
static int count_wrong_sums(void (*body)(void *))
{
    int wrong = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct pdi_rand rand;
        struct pdi_atomic64 word;
        struct interleave_actor actors[2] = {{body, &word}, {body, &word}};
        pdi_rand_init(&rand, seed);
        pdi_atomic64_store_relaxed(&word, 0);
        CHECK(interleave_run(&rand, actors, 2, STEPS_MAX));
        wrong += pdi_atomic64_load_relaxed(&word) != 2 * INCREMENTS;
    }
    return wrong;
}

/* If it failed, either cas would lose changes, or a plain store in the place of a cas would go
 * unnoticed in the simulator. */
static void test_interleavings_tell_cas_from_store(void)
{
    CHECK_EQ(count_wrong_sums(swap_up), 0);
    CHECK(count_wrong_sums(store_up) > SEEDS / 2);
}

/* A plain word behind a lock of one bit, made of one kind of operation or a pair of them. */
struct guarded {
    struct pdi_atomic64 lock;
    uint64_t plain;
    enum { BY_CAS, BY_ADD, BY_OR_AND, BY_AND_OR, WAYS } way;
};

static bool try_lock(struct guarded *guarded)
{
    uint64_t open = 0;
    switch (guarded->way) {
    case BY_CAS:
        return pdi_atomic64_cas(&guarded->lock, &open, 1);
    case BY_ADD:
        if (pdi_atomic64_add(&guarded->lock, 1) == 0) {
            return true;
        }
        pdi_atomic64_add(&guarded->lock, UINT64_MAX);
        return false;
    case BY_OR_AND:
        return pdi_atomic64_or(&guarded->lock, 1) == 0;
    default:
        return pdi_atomic64_and(&guarded->lock, 0) == 1;
    }
}

static void unlock(struct guarded *guarded)
{
    uint64_t closed = 1;
    switch (guarded->way) {
    case BY_CAS:
        pdi_atomic64_cas(&guarded->lock, &closed, 0);
        break;
    case BY_ADD:
        pdi_atomic64_add(&guarded->lock, UINT64_MAX);
        break;
    case BY_OR_AND:
        pdi_atomic64_and(&guarded->lock, 0);
        break;
    default:
        pdi_atomic64_or(&guarded->lock, 1);
    }
}

static void count_up_locked(void *context)
{
    struct guarded *guarded = context;
    for (int i = 0; i < INCREMENTS; i++) {
        while (!try_lock(guarded)) {
        }
        uint64_t seen = guarded->plain;
        pdi_atomic_yield();
        guarded->plain = seen + 1;
        unlock(guarded);
    }
}

/* If it failed, an operation that changes a word would not be one step, or, seen by the thread
 * sanitizer, would not hand over what was written before it to whoever comes after. */
static void test_interleavings_locked(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct pdi_rand rand;
        struct guarded guarded = {.way = seed % WAYS};
        struct interleave_actor actors[2] = {{count_up_locked, &guarded},
                                             {count_up_locked, &guarded}};
        pdi_rand_init(&rand, seed);
        pdi_atomic64_store_relaxed(&guarded.lock, guarded.way == BY_AND_OR);
        CHECK(interleave_run(&rand, actors, 2, STEPS_MAX));
        CHECK_EQ(guarded.plain, 2 * INCREMENTS);
    }
}

int main(void)
{
    test_operations_32();
    test_operations_64();
    test_yields_32();
    test_yields_64();
    test_alignment();
    test_threads_change_one_word();
    test_threads_publish();
    test_interleavings_tell_cas_from_store();
    test_interleavings_locked();
    return test_result();
}
