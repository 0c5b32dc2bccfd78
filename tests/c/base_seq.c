/* base/seq.h: every pair of numbers of the short lengths, random ones of all lengths. */
#include "base/seq.h"

#include "base/rand.h"
#include "test.h"

#define SEEDS 200

/* If it failed, a length that the protocol does not have would be computed with. */
static void test_init(void)
{
    struct pdi_seq seq = {0};
    CHECK_EQ(pdi_seq_init(&seq, 0), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_seq_init(&seq, 6), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_seq_init(&seq, 57), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_seq_init(&seq, 64), PYDDSI_BAD_ARGUMENT);
    for (unsigned bits = PDI_SEQ_BITS_MIN; bits <= PDI_SEQ_BITS_MAX; bits++) {
        CHECK_EQ(pdi_seq_init(&seq, bits), PYDDSI_OK);
        CHECK(pdi_seq_valid(&seq, 0));
        CHECK(pdi_seq_valid(&seq, (UINT64_C(1) << bits) - 1));
        CHECK(!pdi_seq_valid(&seq, UINT64_C(1) << bits));
        CHECK(!pdi_seq_valid(&seq, UINT64_MAX));
    }
}

/* If it failed, numbers would not follow each other over the wrap as zhe counts them. */
static void test_known_values(void)
{
    struct pdi_seq seq = {0};
    CHECK_EQ(pdi_seq_init(&seq, 14), PYDDSI_OK);
    CHECK_EQ(pdi_seq_next(&seq, 0), 1);
    CHECK_EQ(pdi_seq_next(&seq, 16382), 16383);
    CHECK_EQ(pdi_seq_next(&seq, 16383), 0);
    CHECK_EQ(pdi_seq_add(&seq, 16000, 1000), 616);
    CHECK_EQ(pdi_seq_add(&seq, 5, (uint64_t)-6), 16383);
    CHECK_EQ(pdi_seq_distance(&seq, 16383, 2), 3);
    CHECK(pdi_seq_before(&seq, 16383, 0));
    CHECK(!pdi_seq_before(&seq, 0, 16383));
    CHECK(pdi_seq_before(&seq, 0, 8191));
    CHECK(!pdi_seq_before(&seq, 0, 8192)); /* opposite: neither way */
    CHECK(!pdi_seq_before(&seq, 8192, 0));
    CHECK(pdi_seq_before(&seq, 8193, 0));
    CHECK_EQ(pdi_seq_unwrap(&seq, 16383, 0), 16384);
    CHECK_EQ(pdi_seq_unwrap(&seq, 16384, 16383), 16383);
    CHECK_EQ(pdi_seq_unwrap(&seq, 0, 16383), -1);
    CHECK_EQ(pdi_seq_unwrap(&seq, -1, 0), 0);
    CHECK_EQ(pdi_seq_unwrap(&seq, 5 * 16384 + 7, 8), 5 * 16384 + 8);
    CHECK_EQ(pdi_seq_wrap(&seq, 5 * 16384 + 8), 8);
    CHECK_EQ(pdi_seq_wrap(&seq, -1), 16383);
}

/* How many single steps lead from a to b on a circle of `size` numbers. */
static uint64_t count_steps(uint64_t a, uint64_t b, uint64_t size)
{
    uint64_t steps = 0;
    for (; a != b; a = a + 1 == size ? 0 : a + 1) {
        steps++;
    }
    return steps;
}

/* If it failed, some pair of numbers would be compared wrongly: all pairs of the shortest length.
 */
static void test_all_pairs(void)
{
    struct pdi_seq seq = {0};
    CHECK_EQ(pdi_seq_init(&seq, 7), PYDDSI_OK);
    for (uint64_t a = 0; a < 128; a++) {
        for (uint64_t b = 0; b < 128; b++) {
            uint64_t steps = count_steps(a, b, 128);
            CHECK_EQ(pdi_seq_distance(&seq, a, b), steps);
            CHECK_EQ(pdi_seq_before(&seq, a, b), steps >= 1 && steps <= 63);
            CHECK_EQ(pdi_seq_add(&seq, a, steps), b);
        }
    }
}

/* If it failed, a stream that wraps would lose its place: counts walk to and fro by up to half a
 * circle, at every length, and must be found again from their numbers alone. */
static void test_unwrap_follows(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct pdi_rand rand;
        struct pdi_seq seq = {0};
        int failures = test_failures;
        pdi_rand_init(&rand, seed);
        unsigned bits = PDI_SEQ_BITS_MIN + (unsigned)(seed % 50);
        CHECK_EQ(pdi_seq_init(&seq, bits), PYDDSI_OK);
        int64_t size = INT64_C(1) << bits;
        int64_t count = (int64_t)pdi_rand_below(&rand, 100) - 50;
        for (int step = 0; step < 100; step++) {
            int64_t jump = (int64_t)pdi_rand_below(&rand, (uint64_t)size) - size / 2;
            if (pdi_rand_chance(&rand, 1, 8)) {
                jump = pdi_rand_chance(&rand, 1, 2) ? size / 2 - 1 : -size / 2;
            }
            uint64_t from = pdi_seq_wrap(&seq, count);
            uint64_t to = pdi_seq_wrap(&seq, count + jump);
            CHECK(pdi_seq_valid(&seq, to));
            CHECK_EQ(pdi_seq_unwrap(&seq, count, to), count + jump);
            CHECK_EQ(pdi_seq_before(&seq, from, to), jump > 0);
            CHECK_EQ(pdi_seq_before(&seq, to, from), jump < 0 && jump != -size / 2);
            count += jump;
        }
        if (test_failures != failures) {
            printf("seed %" PRIu64 ", %u bits\n", seed, bits);
            return;
        }
    }
}

int main(void)
{
    test_init();
    test_known_values();
    test_all_pairs();
    test_unwrap_follows();
    return test_result();
}
