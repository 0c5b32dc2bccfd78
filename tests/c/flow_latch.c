/* flow/latch.h: the marks, and random levels against the rule. */
#include "flow/latch.h"

#include "base/rand.h"
#include "test.h"

#define SEEDS 200
#define STEPS 500

/* If it failed, senders would be told to stop or to go on too early, too late, or twice. */
static void test_marks(void)
{
    struct pdi_latch latch;
    CHECK_EQ(pdi_latch_init(&latch, 5, 5), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_latch_init(&latch, 5, 6), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_latch_init(&latch, 0, 0), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_latch_init(&latch, 8, 3), PYDDSI_OK);
    static const struct {
        uint64_t level;
        int turn;
    } rows[] = {{0, PDI_LATCH_UNCHANGED}, {7, PDI_LATCH_UNCHANGED},   {8, PDI_LATCH_OFF},
                {9, PDI_LATCH_UNCHANGED}, {8, PDI_LATCH_UNCHANGED},   {4, PDI_LATCH_UNCHANGED},
                {7, PDI_LATCH_UNCHANGED}, {3, PDI_LATCH_ON},          {3, PDI_LATCH_UNCHANGED},
                {7, PDI_LATCH_UNCHANGED}, {0, PDI_LATCH_UNCHANGED},   {99, PDI_LATCH_OFF},
                {0, PDI_LATCH_ON},        {UINT64_MAX, PDI_LATCH_OFF}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_EQ(pdi_latch_input(&latch, rows[i].level), rows[i].turn);
    }
}

/* If it failed, some walk of the level would leave senders stopped beside an empty queue, or
 * sending into a full one. */
static void test_random(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct pdi_rand rand;
        struct pdi_latch latch = {0};
        bool off = false;
        pdi_rand_init(&rand, seed);
        uint64_t low = pdi_rand_below(&rand, 20);
        uint64_t high = low + 1 + pdi_rand_below(&rand, 20);
        CHECK_EQ(pdi_latch_init(&latch, high, low), PYDDSI_OK);
        for (int step = 0; step < STEPS; step++) {
            uint64_t level = pdi_rand_below(&rand, 45);
            enum pdi_latch_turn turn = pdi_latch_input(&latch, level);
            CHECK(turn != (off ? PDI_LATCH_OFF : PDI_LATCH_ON)); /* never what they know */
            off = turn == PDI_LATCH_UNCHANGED ? off : turn == PDI_LATCH_OFF;
            CHECK(level < high || off);
            CHECK(level > low || !off);
            CHECK_EQ(latch.off, off);
        }
    }
}

int main(void)
{
    test_marks();
    test_random();
    return test_result();
}
