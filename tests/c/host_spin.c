/* host/spin.h: how long a waiter looks before it sleeps, by what it has met. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/spin.h"

#include <sched.h>

#include "test.h"

/* How long it looks now; 0: it does not. */
static uint32_t looks(struct pdi_spin *spin)
{
    return pdi_spin_begin(spin) == 0 ? 0 : spin->ns;
}

static struct pdi_spin spin_of_two_processors(void)
{
    struct pdi_spin spin;
    pdi_spin_init(&spin);
    spin.alone = false; /* whatever this machine has */
    return spin;
}

/* If it failed, one who is always lucky would look for ever and keep a processor from others. */
static void test_success_doubles_up_to_a_limit(void)
{
    struct pdi_spin spin = spin_of_two_processors();
    uint32_t before = looks(&spin);
    CHECK(before > 0);
    for (int i = 0; i < 100; i++) {
        pdi_spin_end(&spin, true);
        uint32_t now = looks(&spin);
        CHECK(now == 2 * before || now == before);
        CHECK(now >= before && now <= 32000);
        before = now;
    }
    CHECK_EQ(before, 32000);
}

/* If it failed, one for whom nothing comes would look before each sleep, or, once it has given up, never again. */
static void test_failure_halves_down_to_nothing_but_trials(void)
{
    struct pdi_spin spin = spin_of_two_processors();
    for (int i = 0; i < 3; i++) {
        pdi_spin_end(&spin, true);
    }
    uint32_t steps = 0;
    while (looks(&spin) != 0 && steps < 100) {
        pdi_spin_end(&spin, false);
        steps++;
    }
    CHECK_EQ(steps, 4); /* 8, 4, 2 and 1 microseconds */
    for (int round = 0; round < 3; round++) {
        uint32_t sleeps = round == 0 ? 1 : 0;
        while (looks(&spin) == 0 && sleeps < 1000) {
            sleeps++;
        }
        CHECK_EQ(sleeps, 63); /* one in 64 is a trial */
        pdi_spin_end(&spin, false);
    }
    for (int i = 0; i < 64 && looks(&spin) == 0; i++) {
    }
    CHECK_EQ(spin.ns, 32000);  /* as long as it pays at all, since nothing is known of what comes */
    pdi_spin_end(&spin, true); /* times have changed */
    CHECK_EQ(looks(&spin), 32000);
    pdi_spin_end(&spin, false); /* which is no trial: it goes down step by step */
    CHECK_EQ(looks(&spin), 16000);
}

/* If it failed, a waiter would keep from running the one that it waits for. */
static void test_never_on_one_processor(void)
{
    cpu_set_t all;
    cpu_set_t one;
    struct pdi_spin spin;
    CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
        }
    }
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    pdi_spin_init(&spin);
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(pdi_spin_begin(&spin), 0);
    }
    CHECK_EQ(sched_setaffinity(0, sizeof all, &all), 0);
    pdi_spin_init(&spin);
    CHECK_EQ(spin.alone, CPU_COUNT(&all) < 2);
}

int main(void)
{
    test_success_doubles_up_to_a_limit();
    test_failure_halves_down_to_nothing_but_trials();
    test_never_on_one_processor();
    pdi_spin_pause();
    return test_result();
}
