/* base/rand.h: the published values, the ranges, the independence of streams. */
#include "base/rand.h"

#include "test.h"

/* If it failed, seeds noted in a report would no longer mean the same runs. The numbers are those
 * that the generators' authors publish for seed 0 and for state 1, 2, 3, 4. */
static void test_published_values(void)
{
    static const uint64_t spread[] = {
        UINT64_C(0xe220a8397b1dcdaf),
        UINT64_C(0x6e789e6aa1b965f4),
        UINT64_C(0x06c45d188009454f),
        UINT64_C(0xf88bb8a8724c81ec),
    };
    static const uint64_t drawn[] = {
        UINT64_C(11520),
        UINT64_C(0),
        UINT64_C(1509978240),
        UINT64_C(1215971899390074240),
        UINT64_C(1216172134540287360),
        UINT64_C(607988272756665600),
        UINT64_C(16172922978634559625),
        UINT64_C(8476171486693032832),
        UINT64_C(10595114339597558777),
        UINT64_C(2904607092377533576),
    };
    struct pdi_rand rand;
    pdi_rand_init(&rand, 0);
    for (int i = 0; i < 4; i++) {
        CHECK(rand.state[i] == spread[i]);
        rand.state[i] = (uint64_t)i + 1;
    }
    for (int i = 0; i < 10; i++) {
        CHECK(pdi_rand_u64(&rand) == drawn[i]);
    }
}

/* If it failed, a draw would leave its range, or some numbers would come more often than others: of
 * 3 * 2^62 numbers a remainder of 64 bits takes the lowest third twice as often, and a sum that
 * wrong cannot come out within these bounds (more than 20 standard deviations). */
static void test_below(void)
{
    struct pdi_rand rand;
    uint64_t limit = UINT64_C(3) << 62;
    int thirds[3] = {0};
    int faces[6] = {0};
    pdi_rand_init(&rand, 42);
    for (int i = 0; i < 60000; i++) {
        uint64_t number = pdi_rand_below(&rand, limit);
        CHECK(number < limit);
        thirds[number / (limit / 3)]++;
        faces[pdi_rand_below(&rand, 6)]++;
    }
    for (int i = 0; i < 3; i++) {
        CHECK(thirds[i] > 19000 && thirds[i] < 21000);
    }
    for (int i = 0; i < 6; i++) {
        CHECK(faces[i] > 9500 && faces[i] < 10500);
    }
    uint64_t bits = 0;
    for (int i = 0; i < 100; i++) {
        bits |= pdi_rand_below(&rand, (UINT64_C(1) << 63) + 1);
        CHECK_EQ(pdi_rand_below(&rand, 1), 0);
        CHECK(pdi_rand_below(&rand, UINT64_MAX) < UINT64_MAX);
        CHECK(pdi_rand_below(&rand, 65) < 65);
    }
    CHECK((bits | UINT64_C(1) << 63) == UINT64_MAX); /* every bit comes up */
}

/* If it failed, faults in the simulator would come more or less often than asked for. */
static void test_chance(void)
{
    struct pdi_rand rand;
    int hits = 0;
    pdi_rand_init(&rand, 7);
    for (int i = 0; i < 10000; i++) {
        CHECK(!pdi_rand_chance(&rand, 0, 3));
        CHECK(pdi_rand_chance(&rand, 3, 3));
        hits += pdi_rand_chance(&rand, 1, 10);
    }
    CHECK(hits > 850 && hits < 1150);
}

/* If it failed, a draw in one part of a simulated world would change what happens in another. */
static void test_fork(void)
{
    struct pdi_rand rand, other, fresh, used, second, deep;
    pdi_rand_init(&rand, 1);
    pdi_rand_init(&other, 2);
    fresh = pdi_rand_fork(&rand, 5);
    pdi_rand_u64(&rand);
    used = pdi_rand_fork(&rand, 5);
    second = pdi_rand_fork(&rand, 6);
    other = pdi_rand_fork(&other, 5);
    deep = pdi_rand_fork(&used, 5);
    for (int i = 0; i < 10; i++) {
        uint64_t number = pdi_rand_u64(&fresh);
        CHECK(pdi_rand_u64(&used) == number); /* the parent's draw has changed nothing */
        CHECK(pdi_rand_u64(&rand) != number);
        CHECK(pdi_rand_u64(&second) != number);
        CHECK(pdi_rand_u64(&other) != number);
        CHECK(pdi_rand_u64(&deep) != number);
    }
}

int main(void)
{
    test_published_values();
    test_below();
    test_chance();
    test_fork();
    return test_result();
}
