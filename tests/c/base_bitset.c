/* base/bitset.h: random changes against an array of booleans, and threads that share words. */
#include "base/bitset.h"

#include <pthread.h>

#include "base/rand.h"
#include "test.h"

#define BITS_MAX 200
#define SEEDS    100
#define STEPS    300
#define THREADS  4
#define ROUNDS   5000

/* Compares the whole set with the model. */
static void check_model(const uint64_t *words, const bool *model, uint32_t bits)
{
    uint32_t count = 0;
    uint32_t first = bits;
    CHECK_EQ(pdi_bitset_find(words, bits, bits), bits);
    CHECK_EQ(pdi_bitset_find(words, bits, bits + 100), bits);
    for (uint32_t bit = bits; bit-- > 0;) {
        first = model[bit] ? bit : first;
        count += model[bit];
        CHECK_EQ(pdi_bitset_test(words, bit), model[bit]);
        CHECK_EQ(pdi_bitset_find(words, bits, bit), first);
    }
    CHECK_EQ(pdi_bitset_count(words, bits), count);
}

/* If it failed, a bit would be set, cleared or found at the wrong place. */
static void test_against_model(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct pdi_rand rand;
        uint64_t words[PDI_BITSET_WORDS(BITS_MAX) + 1] = {0};
        bool model[BITS_MAX] = {false};
        int failures = test_failures;
        pdi_rand_init(&rand, seed);
        uint32_t bits = 1 + (uint32_t)pdi_rand_below(&rand, BITS_MAX);
        if (pdi_rand_chance(&rand, 1, 4)) {
            bits = 64 + 64 * (uint32_t)pdi_rand_below(&rand, 3);
        }
        uint64_t *past = &words[PDI_BITSET_WORDS(bits)]; /* a word that is not theirs */
        *past = UINT64_MAX - 1;
        for (int step = 0; step < STEPS; step++) {
            uint32_t bit = (uint32_t)pdi_rand_below(&rand, bits);
            model[bit] = pdi_rand_chance(&rand, 1, 5);
            (model[bit] ? pdi_bitset_set : pdi_bitset_clear)(words, bit);
            if (step % 10 == 0) {
                check_model(words, model, bits);
            }
        }
        CHECK(*past == UINT64_MAX - 1);
        if (test_failures != failures) {
            printf("seed %" PRIu64 ", %u bits\n", seed, bits);
            return;
        }
    }
}

/* If it failed, an array would have a word too few for its bits. */
static void test_words(void)
{
    CHECK_EQ(PDI_BITSET_WORDS(0), 0);
    CHECK_EQ(PDI_BITSET_WORDS(1), 1);
    CHECK_EQ(PDI_BITSET_WORDS(64), 1);
    CHECK_EQ(PDI_BITSET_WORDS(65), 2);
}

/* If it failed, a setter would not learn whether it was the first. */
static void test_atomic_answers(void)
{
    static struct pdi_atomic64 words[2];
    CHECK(!pdi_bitset_atomic_test(words, 70));
    CHECK(!pdi_bitset_atomic_set(words, 70));
    CHECK(pdi_bitset_atomic_set(words, 70));
    CHECK(pdi_bitset_atomic_test(words, 70));
    CHECK(!pdi_bitset_atomic_test(words, 6));
    CHECK(!pdi_bitset_atomic_test(words, 71));
    CHECK(!pdi_bitset_atomic_set(words, 71));
    CHECK(pdi_atomic64_load_relaxed(&words[1]) == 0xc0);
    CHECK(pdi_bitset_atomic_clear(words, 70));
    CHECK(!pdi_bitset_atomic_clear(words, 70));
    CHECK(!pdi_bitset_atomic_test(words, 70));
    CHECK(pdi_bitset_atomic_test(words, 71));
    CHECK(pdi_atomic64_load_relaxed(&words[0]) == 0);
}

static struct pdi_atomic64 shared[2];
static uint64_t seen_by[THREADS]; /* wrong answers */

/* Sets and clears some bits of both words, beside those of the other threads; leaves them set. */
static void *flip(void *context)
{
    uint32_t mine = (uint32_t)(uintptr_t)context;
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t bit = mine; bit < 128; bit += 32 + THREADS) {
            if (round > 0) {
                seen_by[mine] += !pdi_bitset_atomic_clear(shared, bit);
            }
            seen_by[mine] += pdi_bitset_atomic_set(shared, bit);
            seen_by[mine] += !pdi_bitset_atomic_test(shared, bit);
        }
    }
    return NULL;
}

/* If it failed, one thread's match bit would be lost when another thread changes its neighbour. */
static void test_threads_share_words(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, flip, (void *)i), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(seen_by[i], 0);
    }
    for (uint32_t bit = 0; bit < 128; bit++) {
        CHECK_EQ(pdi_bitset_atomic_test(shared, bit), bit % (32 + THREADS) < THREADS);
    }
}

int main(void)
{
    test_words();
    test_against_model();
    test_atomic_answers();
    test_threads_share_words();
    return test_result();
}
