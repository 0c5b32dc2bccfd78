/* flow/bucket.h: edges, and random takes against a bucket of 128-bit numbers. */
#include "flow/bucket.h"

#include <stdbool.h>

#include "base/rand.h"
#include "test.h"

#define SEEDS 400
#define STEPS 400

__extension__ typedef unsigned __int128 wide;

/* If it failed, a limit would let through more than it says, or less. */
static void test_by_hand(void)
{
    struct pdi_bucket bucket;
    CHECK_EQ(pdi_bucket_init(&bucket, 3, 0, 0), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_bucket_init(&bucket, PDI_BUCKET_MAX + UINT64_C(1), 1, 0), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_bucket_init(&bucket, 1, PDI_BUCKET_MAX + UINT64_C(1), 0), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_bucket_init(&bucket, 3, 2, 100), PYDDSI_OK);
    CHECK_EQ(pdi_bucket_due(&bucket, 2), 100);
    CHECK(pdi_bucket_due(&bucket, 3) == PDI_TIME_NEVER);
    CHECK_EQ(pdi_bucket_take(&bucket, 3, 100), PYDDSI_AGAIN);
    CHECK_EQ(pdi_bucket_take(&bucket, 2, 100), PYDDSI_OK);
    CHECK_EQ(pdi_bucket_take(&bucket, 0, 100), PYDDSI_OK);
    CHECK_EQ(pdi_bucket_take(&bucket, 1, 100), PYDDSI_AGAIN);
    CHECK_EQ(pdi_bucket_due(&bucket, 1), 100 + 333333334); /* a third of a second, rounded up */
    CHECK_EQ(pdi_bucket_take(&bucket, 1, 100 + 333333333), PYDDSI_AGAIN);
    CHECK_EQ(pdi_bucket_take(&bucket, 1, 100 + 333333334), PYDDSI_OK);
    CHECK_EQ(pdi_bucket_due(&bucket, 1), 100 + 666666667); /* and not drifted by the rounding */
    CHECK_EQ(pdi_bucket_due(&bucket, 2), 100 + 1000000000);
    CHECK_EQ(pdi_bucket_take(&bucket, 1, 50), PYDDSI_AGAIN); /* time does not run back */
    CHECK_EQ(pdi_bucket_due(&bucket, 1), 100 + 666666667);
    CHECK_EQ(pdi_bucket_take(&bucket, 2, PDI_TIME_NEVER - 1), PYDDSI_OK); /* 584 years later */
    CHECK(pdi_bucket_due(&bucket, 1) == PDI_TIME_NEVER); /* which does not fit any more */
    CHECK_EQ(pdi_bucket_init(&bucket, 0, 2, 0), PYDDSI_OK);
    CHECK_EQ(pdi_bucket_take(&bucket, 1, 0), PYDDSI_OK);
    CHECK_EQ(pdi_bucket_due(&bucket, 1), 0);
    CHECK(pdi_bucket_due(&bucket, 2) == PDI_TIME_NEVER);
    CHECK_EQ(pdi_bucket_take(&bucket, 2, PDI_TIME_NEVER - 1), PYDDSI_AGAIN);
}

/* If it failed, tokens would be lost or gained by looking often: rates would drift. */
static void test_no_drift(void)
{
    struct pdi_bucket bucket;
    uint64_t taken = 0;
    CHECK_EQ(pdi_bucket_init(&bucket, 333333, 10, 0), PYDDSI_OK);
    CHECK_EQ(pdi_bucket_take(&bucket, 10, 0), PYDDSI_OK);
    for (pdi_time now = 0; now <= PDI_TIME_S; now += 1000) {
        taken += pdi_bucket_take(&bucket, 1, now) == PYDDSI_OK;
    }
    CHECK_EQ(taken, 333333);
}

static void run_seed(uint64_t seed)
{
    struct pdi_rand rand;
    struct pdi_bucket bucket;
    pdi_rand_init(&rand, seed);
    uint64_t rate = 1 + (pdi_rand_u64(&rand) & PDI_BUCKET_MAX) % PDI_BUCKET_MAX;
    uint64_t burst = 1 + (pdi_rand_u64(&rand) & PDI_BUCKET_MAX) % PDI_BUCKET_MAX;
    rate = 1 + (rate - 1) % (UINT64_C(1) << (1 + pdi_rand_below(&rand, 32)));
    burst = 1 + (burst - 1) % (UINT64_C(1) << (1 + pdi_rand_below(&rand, 32)));
    pdi_time now = pdi_rand_u64(&rand) >> (1 + pdi_rand_below(&rand, 63));
    wide full = (wide)burst * PDI_TIME_S; /* the model counts parts of tokens */
    wide level = full;
    CHECK_EQ(pdi_bucket_init(&bucket, rate, burst, now), PYDDSI_OK);
    for (int step = 0; step < STEPS; step++) {
        uint64_t count = pdi_rand_below(&rand, burst + 2);
        pdi_time later = pdi_rand_u64(&rand) >> (24 + pdi_rand_below(&rand, 40));
        if (pdi_rand_chance(&rand, 1, 3)) { /* at the very moment, or just before */
            pdi_time due = pdi_bucket_due(&bucket, count);
            if (due != PDI_TIME_NEVER && due > now) {
                later = due - now - pdi_rand_below(&rand, 2);
            }
        }
        if (later > PDI_TIME_NEVER - 1 - now) {
            break;
        }
        now += later;
        level = level + (wide)later * rate < full ? level + (wide)later * rate : full;
        bool there = (wide)count * PDI_TIME_S <= level;
        pdi_time due = pdi_bucket_due(&bucket, count);
        CHECK_EQ(due <= now, there);
        CHECK_EQ(pdi_bucket_take(&bucket, count, now), there ? PYDDSI_OK : PYDDSI_AGAIN);
        level -= there ? (wide)count * PDI_TIME_S : 0;
        CHECK((wide)bucket.tokens * PDI_TIME_S + bucket.rest == level);
        CHECK(bucket.rest < PDI_TIME_S && bucket.tokens <= burst);
    }
}

/* If it failed, some rate, burst or pause would give other than rate times time, at most burst. */
static void test_against_model(void)
{
    for (uint64_t seed = 0; seed < SEEDS && test_failures == 0; seed++) {
        run_seed(seed);
        if (test_failures != 0) {
            printf("seed %" PRIu64 "\n", seed);
        }
    }
}

int main(void)
{
    test_by_hand();
    test_no_drift();
    test_against_model();
    return test_result();
}
