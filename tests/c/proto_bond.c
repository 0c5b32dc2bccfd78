/* proto/bond.h: both sides find each other's bond, in interleavings and in threads. */
#define PDI_SIM
#include "proto/bond.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "interleave.h"
#include "test.h"

#define SEEDS     4000
#define STEPS_MAX 100000
#define TURNS     20000 /* with real threads */
#define BOND      UINT64_C(0x1234567890abcdef)

/* One of two: its page, whether it has been woken, and what it has found. */
struct side {
    struct pdi_bonds page;
    struct pdi_atomic32 woken;
    struct side *other;
    uint64_t mine, theirs;
    uint32_t row;
    bool found;
};

static struct side sides[2];

static void begin(void)
{
    memset(sides, 0, sizeof sides);
    for (unsigned i = 0; i < 2; i++) {
        sides[i].other = &sides[1 - i];
        sides[i].mine = BOND + i;
        sides[i].theirs = BOND + 1 - i;
        sides[i].row = i == 0 ? 0 : PYDDSI_PEERS_MAX - 1;
    }
}

/* What a session does when it meets the other: once, and again if it is woken. */
static void look(struct side *side)
{
    side->found = pdi_bond_find(&side->page, &side->other->page, side->theirs);
    if (side->found) {
        (void)pdi_atomic32_or(&side->other->woken, 1);
    }
}

static void meet(void *context)
{
    struct side *side = context;
    pdi_bond_write(&side->page, side->row, side->mine);
    look(side);
}

/* After both have met: who has not found the other was woken since it looked, or looks for ever. */
static void agree(void)
{
    CHECK(sides[0].found || sides[1].found);
    for (unsigned i = 0; i < 2; i++) {
        if (!sides[i].found && pdi_atomic32_load_acquire(&sides[i].woken) != 0) {
            look(&sides[i]);
        }
        CHECK(sides[i].found);
    }
}

/* If it failed, two processes of a machine would go by sockets for ever, each waiting for the other. */
static void test_orders(void)
{
    unsigned late = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct pdi_rand rand;
        pdi_rand_init(&rand, seed);
        begin();
        const struct interleave_actor actors[] = {{meet, &sides[0]}, {meet, &sides[1]}};
        CHECK(interleave_run(&rand, actors, 2, STEPS_MAX));
        late += !sides[0].found || !sides[1].found;
        agree();
    }
    CHECK(late > 0 && late < SEEDS); /* both cases were seen */
}

/* If it failed, a page would pass for that of a peer who has only told where it lies. */
static void test_of_somebody_else(void)
{
    begin();
    pdi_bond_write(&sides[0].page, 3, sides[0].mine);
    pdi_bond_write(&sides[1].page, 3, BOND + 7); /* of another session */
    CHECK(!pdi_bond_find(&sides[0].page, &sides[1].page, sides[0].theirs));
    CHECK(!pdi_bond_find(&sides[0].page, &sides[1].page, 0)); /* there is none */
    uint32_t raised = pdi_bond_raised(&sides[0].page);
    pdi_bond_write(&sides[1].page, 3, sides[1].mine);
    CHECK(pdi_bond_find(&sides[1].page, &sides[0].page, sides[1].theirs));
    CHECK(pdi_bond_raised(&sides[0].page) != raised);
    CHECK(pdi_bond_find(&sides[0].page, &sides[1].page, sides[0].theirs));
    pdi_bond_write(&sides[1].page, 3, 0);
    CHECK(!pdi_bond_find(&sides[0].page, &sides[1].page, sides[0].theirs));
}

static struct pdi_atomic32 turn; /* how many have begun, */
static struct pdi_atomic32 done; /* and how many the second has ended */

static void *second(void *none)
{
    for (uint32_t i = 1; i <= TURNS; i++) {
        while (pdi_atomic32_load_acquire(&turn) < i) {
            (void)sched_yield();
        }
        meet(&sides[1]);
        (void)pdi_atomic32_add(&done, 1);
    }
    return none;
}

/* If it failed, a processor that looks before others see what it wrote would leave both without the other. */
static void test_threads(void)
{
    pthread_t thread;
    uint32_t missed = 0;
    begin();
    CHECK_EQ(pthread_create(&thread, NULL, second, NULL), 0);
    for (uint32_t i = 1; i <= TURNS; i++) {
        begin();
        (void)pdi_atomic32_add(&turn, 1);
        meet(&sides[0]);
        while (pdi_atomic32_load_acquire(&done) < i) {
            (void)sched_yield();
        }
        missed += !sides[0].found && !sides[1].found;
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(missed, 0);
}

int main(void)
{
    test_orders();
    test_of_somebody_else();
    test_threads();
    return test_result();
}
