/* flow/credit.h: the rules by hand, and two sides with a line between them that loses, repeats and
 * delays grants. */
#include "flow/credit.h"

#include "base/rand.h"
#include "test.h"

#define SEEDS  300
#define STEPS  1000
#define FLYING 8

/* If it failed, a sender would send what nobody has room for, or wait beside a grant. */
static void test_sender(void)
{
    struct pdi_credit credit;
    pdi_credit_init(&credit, 3);
    CHECK_EQ(pdi_credit_left(&credit), 3);
    CHECK_EQ(pdi_credit_take(&credit, 4), PYDDSI_AGAIN);
    CHECK_EQ(pdi_credit_left(&credit), 3); /* all or nothing */
    CHECK_EQ(pdi_credit_take(&credit, UINT64_MAX), PYDDSI_AGAIN);
    CHECK_EQ(pdi_credit_take(&credit, 3), PYDDSI_OK);
    CHECK_EQ(pdi_credit_take(&credit, 0), PYDDSI_OK);
    CHECK_EQ(pdi_credit_take(&credit, 1), PYDDSI_AGAIN);
    CHECK(!pdi_credit_input(&credit, 3)); /* repeated */
    CHECK(!pdi_credit_input(&credit, 2)); /* late */
    CHECK_EQ(pdi_credit_left(&credit), 0);
    CHECK(pdi_credit_input(&credit, 5));
    CHECK(!pdi_credit_input(&credit, 4));
    CHECK_EQ(pdi_credit_left(&credit), 2);
    CHECK(pdi_credit_input(&credit, UINT64_MAX));
    CHECK_EQ(pdi_credit_take(&credit, UINT64_MAX - 3), PYDDSI_OK);
    CHECK_EQ(pdi_credit_left(&credit), 0);
}

/* If it failed, a cheating sender would get more than the window, or grants would be told for
 * nothing or not at all. */
static void test_receiver(void)
{
    struct pdi_credit_window window;
    CHECK_EQ(pdi_credit_window_init(&window, 0), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_credit_window_init(&window, 5), PYDDSI_OK);
    CHECK(!pdi_credit_due(&window));
    CHECK_EQ(pdi_credit_came(&window, 6), PYDDSI_BAD_INPUT);
    CHECK_EQ(pdi_credit_came(&window, UINT64_MAX), PYDDSI_BAD_INPUT);
    CHECK_EQ(pdi_credit_came(&window, 4), PYDDSI_OK);
    pdi_credit_free(&window, 2);
    CHECK(!pdi_credit_due(&window)); /* less than half */
    pdi_credit_free(&window, 1);
    CHECK(pdi_credit_due(&window));
    CHECK_EQ(pdi_credit_came(&window, 2), PYDDSI_BAD_INPUT); /* free, but not told yet */
    CHECK_EQ(pdi_credit_grant(&window), 8);
    CHECK_EQ(pdi_credit_grant(&window), 8);
    CHECK(!pdi_credit_due(&window));
    CHECK_EQ(pdi_credit_came(&window, 4), PYDDSI_OK);
    CHECK(!pdi_credit_due(&window)); /* the sender waits, but there is nothing to tell */
    pdi_credit_free(&window, 1);
    CHECK(pdi_credit_due(&window)); /* it waits, and one will do */
    CHECK_EQ(pdi_credit_came(&window, 1), PYDDSI_BAD_INPUT);
    CHECK_EQ(pdi_credit_grant(&window), 9);
    CHECK(!pdi_credit_due(&window));
}

static void run_seed(uint64_t seed)
{
    struct pdi_rand rand;
    struct pdi_credit sender;
    struct pdi_credit_window receiver = {0};
    uint64_t flying[FLYING] = {0}; /* grants on their way, in no order */
    uint64_t on_way = 0;           /* units on their way */
    uint64_t held = 0;             /* units that the receiver's reader has not freed */
    pdi_rand_init(&rand, seed);
    uint64_t room = 1 + pdi_rand_below(&rand, 20);
    CHECK_EQ(pdi_credit_window_init(&receiver, room), PYDDSI_OK);
    pdi_credit_init(&sender, room);
    for (int step = 0; step < STEPS; step++) {
        uint64_t count = pdi_rand_below(&rand, 5);
        uint64_t any = pdi_rand_below(&rand, FLYING);
        switch (pdi_rand_below(&rand, 5)) {
        case 0:
            if (pdi_credit_take(&sender, count) == PYDDSI_OK) {
                on_way += count;
            }
            break;
        case 1:
            count = count < on_way ? count : on_way;
            CHECK_EQ(pdi_credit_came(&receiver, count), PYDDSI_OK); /* always granted */
            on_way -= count;
            held += count;
            break;
        case 2:
            count = count < held ? count : held;
            pdi_credit_free(&receiver, count);
            held -= count;
            break;
        case 3:
            if (pdi_credit_due(&receiver)) {
                flying[any] = pdi_credit_grant(&receiver); /* what was there is lost */
            }
            break;
        default:
            (void)pdi_credit_input(&sender, flying[any]); /* stays: comes again */
        }
        CHECK(on_way + held <= room);
        CHECK(sender.used <= sender.granted && sender.granted <= receiver.granted);
        CHECK(receiver.granted <= receiver.freed + room);
    }
    /* from now on nothing is lost: everything must go on */
    for (int step = 0; step < 100; step++) {
        CHECK_EQ(pdi_credit_came(&receiver, on_way), PYDDSI_OK);
        pdi_credit_free(&receiver, held + on_way);
        held = 0;
        (void)pdi_credit_input(&sender, pdi_credit_grant(&receiver));
        CHECK_EQ(pdi_credit_left(&sender), room);
        on_way = 1 + pdi_rand_below(&rand, room);
        CHECK_EQ(pdi_credit_take(&sender, on_way), PYDDSI_OK);
    }
}

/* If it failed, lost, late or repeated grants would let in more than there is room for, or stop the
 * sender for ever. */
static void test_bad_line(void)
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
    test_sender();
    test_receiver();
    test_bad_line();
    return test_result();
}
