/* proto/rtt.h: the arithmetic by hand, and against floating point. */
#include "proto/rtt.h"

#include "base/rand.h"
#include "test.h"

#define SEEDS 200
#define STEPS 300

/* If it failed, lost packets would be asked for at the wrong time from the first answer on. */
static void test_by_hand(void)
{
    struct pdi_rtt rtt;
    pdi_rtt_init(&rtt, 8 * PDI_TIME_MS);
    CHECK_EQ(rtt.samples, 0);
    CHECK_EQ(rtt.smooth, 8 * PDI_TIME_MS);
    CHECK_EQ(pdi_rtt_wait(&rtt), 24 * PDI_TIME_MS);
    pdi_rtt_sample(&rtt, 2 * PDI_TIME_MS); /* the guess is gone */
    CHECK_EQ(rtt.samples, 1);
    CHECK_EQ(rtt.smooth, 2 * PDI_TIME_MS);
    CHECK_EQ(rtt.variation, PDI_TIME_MS);
    pdi_rtt_sample(&rtt, 10 * PDI_TIME_MS); /* 8 ms off */
    CHECK_EQ(rtt.variation, 2750 * PDI_TIME_US);
    CHECK_EQ(rtt.smooth, 3 * PDI_TIME_MS);
    CHECK_EQ(pdi_rtt_wait(&rtt), 14 * PDI_TIME_MS);
    pdi_rtt_sample(&rtt, PDI_TIME_MS); /* 2 ms off, to the other side */
    CHECK_EQ(rtt.variation, 2562500);
    CHECK_EQ(rtt.smooth, 2750 * PDI_TIME_US);
    CHECK_EQ(rtt.samples, 3);
}

/* If it failed, an even line would be asked again at its round trip itself, or a slow one never. */
static void test_margins(void)
{
    struct pdi_rtt rtt = {.smooth = 80 * PDI_TIME_US, .variation = 0, .samples = 9};
    CHECK_EQ(pdi_rtt_wait(&rtt), 130 * PDI_TIME_US);
    rtt.smooth = 800 * PDI_TIME_US;
    CHECK_EQ(pdi_rtt_wait(&rtt), 900 * PDI_TIME_US);
    rtt.variation = 26 * PDI_TIME_US;
    CHECK_EQ(pdi_rtt_wait(&rtt), 904 * PDI_TIME_US);
    rtt.smooth = 990 * PDI_TIME_MS;
    CHECK_EQ(pdi_rtt_wait(&rtt), PDI_TIME_S);
    pdi_rtt_init(&rtt, 0);
    CHECK_EQ(pdi_rtt_wait(&rtt), 50 * PDI_TIME_US);
    pdi_rtt_init(&rtt, PDI_TIME_NEVER);
    CHECK_EQ(rtt.smooth, PDI_RTT_MAX);
    CHECK_EQ(pdi_rtt_wait(&rtt), PDI_TIME_S);
    pdi_rtt_init(&rtt, 0);
    pdi_rtt_sample(&rtt, PDI_TIME_NEVER);
    CHECK_EQ(rtt.smooth, PDI_RTT_MAX);
    for (int i = 0; i < 1000; i++) {
        pdi_rtt_sample(&rtt, PDI_TIME_NEVER);
    }
    CHECK_EQ(rtt.smooth, PDI_RTT_MAX);
    for (int i = 0; i < 1000; i++) {
        pdi_rtt_sample(&rtt, 0);
    }
    CHECK(rtt.smooth < 8);
    CHECK(rtt.variation < 16);
}

static double distance(double a, double b)
{
    return a < b ? b - a : a - b;
}

/* If it failed, rounding would add up, and the estimate leave the round trips that it is made of.
 */
static void test_against_model(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct pdi_rand rand;
        struct pdi_rtt rtt;
        pdi_rand_init(&rand, seed);
        uint64_t base = pdi_rand_below(&rand, PDI_TIME_S);
        uint64_t spread = 1 + pdi_rand_below(&rand, UINT64_C(1) << pdi_rand_below(&rand, 30));
        double smooth = 0;
        double variation = 0;
        pdi_rtt_init(&rtt, pdi_rand_below(&rand, PDI_TIME_S));
        for (int step = 0; step < STEPS; step++) {
            uint64_t took = base + pdi_rand_below(&rand, spread);
            pdi_rtt_sample(&rtt, took);
            if (step == 0) {
                smooth = (double)took;
                variation = smooth / 2;
            } else {
                variation += (distance((double)took, smooth) - variation) / 4;
                smooth += ((double)took - smooth) / 8;
            }
            CHECK(rtt.smooth >= base && rtt.smooth < base + spread);
            CHECK(distance((double)rtt.smooth, smooth) < 8);
            CHECK(distance((double)rtt.variation, variation) < 16);
        }
        CHECK_EQ(rtt.samples, STEPS);
    }
}

int main(void)
{
    test_by_hand();
    test_margins();
    test_against_model();
    return test_result();
}
