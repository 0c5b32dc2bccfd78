/* proto/order.h: each rule by itself, all SYNCHs of the smallest circle, random calls against a
 * naive model, and whole conversations over a bad network.
 *
 * It is long because the three models say the same thing from three sides, and none of them sees
 * all.
 */
#include "proto/order.h"

#include <stdbool.h>

#include "base/rand.h"
#include "test.h"

#define CAPACITY_MAX 128
#define WAIT         10

static const unsigned LENGTHS[] = {7, 14, 28, 56};
#define LENGTH_COUNT (sizeof LENGTHS / sizeof LENGTHS[0])

/* An order with the memory it needs. */
struct bench {
    struct pdi_seq seq;
    struct pdi_kept kept[CAPACITY_MAX];
    struct pdi_order order;
};

/* A SYNCH, as long after the one before as makes each one count. */
static int synch(struct pdi_order *order, uint64_t sn, uint64_t count)
{
    static pdi_time now;
    now += PDI_ORDER_BEHIND_APART;
    return pdi_order_synch(order, sn, count, now);
}

static void bench_init(struct bench *bench, unsigned bits, uint32_t capacity)
{
    CHECK_EQ(pdi_seq_init(&bench->seq, bits), PYDDSI_OK);
    memset(bench->kept, 0x5a, sizeof bench->kept); /* it is never read before it was written */
    CHECK_EQ(pdi_order_init(&bench->order, &bench->seq, bench->kept, capacity), PYDDSI_OK);
}

/* One that expects the number with this wire number. */
static void bench_at(struct bench *bench, unsigned bits, uint32_t capacity, uint64_t sn)
{
    bench_init(bench, bits, capacity);
    CHECK_EQ(synch(&bench->order, sn, 0), PYDDSI_OK);
}

static enum pdi_order_verdict input(struct bench *bench, uint64_t sn)
{
    int64_t number = -1;
    enum pdi_order_verdict verdict = pdi_order_input(&bench->order, sn, &number);
    if (verdict != PDI_ORDER_UNSYNCHED) {
        CHECK_EQ(pdi_seq_wrap(&bench->seq, number), sn);
    }
    return verdict;
}

static void keep(struct bench *bench, int64_t number)
{
    struct pdi_kept kept = {.slot = 7, .extra = (uint64_t)number, .asked = 99};
    pdi_order_keep(&bench->order, number, &kept);
}

static bool is_kept(const struct bench *bench, int64_t number)
{
    return number < bench->order.marked &&
           bench->kept[(uint64_t)number & (bench->order.capacity - 1)].slot != PDI_ORDER_EMPTY;
}

static void check_nothing_to_ask(struct bench *bench, pdi_time now)
{
    uint64_t sn = 0;
    uint64_t mask = 1;
    CHECK_EQ(pdi_order_ask(&bench->order, now, WAIT, &sn, &mask), 0);
    CHECK_EQ(mask, 0);
    CHECK(pdi_order_due(&bench->order, WAIT) > now);
    if (bench->order.synched) {
        CHECK_EQ(sn, pdi_seq_wrap(&bench->seq, bench->order.expected));
    }
}

/* Checks that ask answers this at `now`. */
static void check_ask(struct bench *bench, pdi_time now, uint64_t wanted_sn, uint64_t wanted_mask)
{
    uint64_t sn = 0;
    uint64_t mask = 0;
    CHECK(pdi_order_due(&bench->order, WAIT) <= now);
    CHECK_EQ(pdi_order_ask(&bench->order, now, WAIT, &sn, &mask), 1);
    CHECK_EQ(sn, wanted_sn);
    CHECK_EQ(mask, wanted_mask);
    CHECK_EQ(pdi_order_due(&bench->order, WAIT), (now == 0 ? 1 : now) + WAIT);
}

static void check_skip(struct bench *bench, int64_t first, int64_t last)
{
    struct pdi_gap gap = {0};
    CHECK_EQ(pdi_order_skip(&bench->order, &gap), PYDDSI_OK);
    CHECK_EQ(gap.first, first);
    CHECK_EQ(gap.last, last);
    CHECK_EQ(gap.lost, last - first + 1);
}

static void check_no_skip(struct bench *bench)
{
    struct pdi_gap gap = {.first = 77};
    CHECK_EQ(pdi_order_skip(&bench->order, &gap), PYDDSI_END);
    CHECK_EQ(gap.first, 77);
}

/* ---- each rule by itself --------------------------------------------------------------------- */

/* If it failed, two numbers would share an entry, or the memory would be written past its end. */
static void test_refuses(void)
{
    struct bench bench;
    const struct {
        unsigned bits;
        uint32_t capacity;
        int status;
    } cases[] = {
        {14, 0, PYDDSI_BAD_ARGUMENT},
        {14, 1, PYDDSI_BAD_ARGUMENT},
        {14, 3, PYDDSI_BAD_ARGUMENT},
        {14, 96, PYDDSI_BAD_ARGUMENT},
        {7, 128, PYDDSI_BAD_ARGUMENT},
        {56, PDI_ORDER_CAPACITY_MAX * 2, PYDDSI_BAD_ARGUMENT},
        {56, 1, PYDDSI_BAD_ARGUMENT},
        {7, 64, PYDDSI_OK},
        {7, 2, PYDDSI_OK},
        {56, 128, PYDDSI_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_EQ(pdi_seq_init(&bench.seq, cases[i].bits), PYDDSI_OK);
        CHECK_EQ(pdi_order_init(&bench.order, &bench.seq, bench.kept, cases[i].capacity),
                 cases[i].status);
    }
}

/* 002-128: if it failed, the stream would stop, or repeat itself, where its numbers wrap around. */
static void test_in_order_over_the_wrap(void)
{
    for (size_t i = 0; i < LENGTH_COUNT; i++) {
        struct bench bench;
        bench_init(&bench, LENGTHS[i], 16);
        CHECK_EQ(input(&bench, 0), PDI_ORDER_UNSYNCHED);
        check_nothing_to_ask(&bench, 0);
        uint64_t sn = pdi_seq_add(&bench.seq, 0, (uint64_t)-100);
        CHECK_EQ(synch(&bench.order, sn, 0), PYDDSI_OK);
        for (int step = 0; step < 300; step++) {
            CHECK_EQ(input(&bench, sn), PDI_ORDER_NEXT);
            CHECK(pdi_order_ready(&bench.order) == NULL);
            pdi_order_advance(&bench.order);
            CHECK_EQ(input(&bench, sn), PDI_ORDER_REPEAT);
            check_nothing_to_ask(&bench, PDI_TIME_NEVER - 1);
            sn = pdi_seq_next(&bench.seq, sn);
        }
        CHECK_EQ(bench.order.marked, bench.order.expected - 300); /* no entry was touched */
    }
}

/* If it failed, a client of a broker would wait for ever for a SYNCH that never comes. */
static void test_client_starts_at_zero(void)
{
    struct bench bench;
    bench_init(&bench, 14, 4);
    pdi_order_start(&bench.order);
    CHECK_EQ(input(&bench, 1), PDI_ORDER_EARLY);
    CHECK_EQ(input(&bench, 0), PDI_ORDER_NEXT);
    CHECK_EQ(bench.order.expected, 0);
}

/* If it failed, messages that came early would come again, in another order, or not at all. */
static void test_keeps_what_is_early(void)
{
    struct bench bench;
    bench_at(&bench, 14, 4, 16382);
    CHECK_EQ(input(&bench, 0), PDI_ORDER_EARLY);
    keep(&bench, 16384);
    CHECK_EQ(input(&bench, 0), PDI_ORDER_REPEAT);
    CHECK_EQ(input(&bench, 1),
             PDI_ORDER_EARLY); /* the last that has an entry; dropped by the caller */
    CHECK_EQ(input(&bench, 2), PDI_ORDER_FAR);
    CHECK_EQ(input(&bench, 1), PDI_ORDER_EARLY);
    CHECK(pdi_order_ready(&bench.order) == NULL);
    check_ask(&bench, 5, 16382, 5); /* and not 2, which could not be kept */
    CHECK_EQ(input(&bench, 16382), PDI_ORDER_NEXT);
    pdi_order_advance(&bench.order);
    CHECK(pdi_order_ready(&bench.order) == NULL);
    CHECK_EQ(input(&bench, 16383), PDI_ORDER_NEXT);
    pdi_order_advance(&bench.order);
    const struct pdi_kept *ready = pdi_order_ready(&bench.order);
    CHECK(ready != NULL && ready->extra == 16384 && ready->slot == 7);
    check_nothing_to_ask(&bench, 50);
    CHECK_EQ(bench.order.count, 1);
    pdi_order_advance(&bench.order);
    CHECK_EQ(bench.order.count, 0);
    CHECK(pdi_order_ready(&bench.order) == NULL);
    check_nothing_to_ask(&bench, 14); /* 1 was asked for at 5 */
    check_ask(&bench, 15, 1, 1);
}

/* If it failed, lost messages would be asked for too often, too late or never. */
static void test_asks_at_its_pace(void)
{
    struct bench bench;
    bench_at(&bench, 14, 128, 100);
    CHECK_EQ(input(&bench, 103), PDI_ORDER_EARLY);
    keep(&bench, 103);
    check_ask(&bench, 0, 100, 3); /* 100, 101, 102 */
    check_nothing_to_ask(&bench, 1);
    check_nothing_to_ask(&bench, WAIT);
    CHECK_EQ(input(&bench, 105), PDI_ORDER_EARLY);
    keep(&bench, 105);
    check_nothing_to_ask(&bench, WAIT); /* the expected one paces the others */
    check_ask(&bench, WAIT + 1, 100, 0xb);
    CHECK_EQ(input(&bench, 100), PDI_ORDER_NEXT);
    pdi_order_advance(&bench.order);
    CHECK_EQ(input(&bench, 107), PDI_ORDER_EARLY);
    check_nothing_to_ask(&bench, WAIT + 2);
    check_ask(&bench, WAIT * 2 + 1, 101,
              0x35); /* 101 102 104 106 107; 102 was asked for at WAIT + 1 too */
    CHECK_EQ(input(&bench, 101), PDI_ORDER_NEXT);
    pdi_order_advance(&bench.order);
    CHECK_EQ(input(&bench, 102), PDI_ORDER_NEXT);
    pdi_order_advance(&bench.order);
    pdi_order_advance(&bench.order);        /* 103 was kept */
    check_nothing_to_ask(&bench, WAIT * 3); /* 104 was asked for at WAIT * 2 + 1 */
    CHECK_EQ(input(&bench, 200), PDI_ORDER_EARLY);
    check_ask(&bench, WAIT * 3 + 1, 104, UINT64_MAX - 1); /* all up to 168 but 105 */
    CHECK_EQ(input(&bench, 104), PDI_ORDER_NEXT);
    pdi_order_advance(&bench.order);
    pdi_order_advance(&bench.order);
    check_nothing_to_ask(&bench, WAIT * 4);
    bench.order.held = 1;
    check_nothing_to_ask(&bench, WAIT * 9);
    CHECK(pdi_order_due(&bench.order, WAIT) == PDI_TIME_NEVER);
    bench.order.held = 0;
    check_ask(&bench, WAIT * 9, 106, UINT64_MAX);
    CHECK_EQ(pdi_order_due(&bench.order, PDI_TIME_NEVER), PDI_TIME_NEVER);
}

/* If it failed, one that was asked for lately would be asked for again with the expected one. */
static void test_asks_each_at_its_own_pace(void)
{
    struct bench bench;
    bench_at(&bench, 14, 128, 0);
    CHECK_EQ(input(&bench, 2), PDI_ORDER_EARLY);
    keep(&bench, 2);
    check_ask(&bench, 100, 0, 1); /* 0 and 1 at 100 */
    CHECK_EQ(input(&bench, 4), PDI_ORDER_EARLY);
    check_ask(&bench, 110, 0, 0xd); /* 0, 1, 3, 4 at 110 */
    CHECK_EQ(input(&bench, 6), PDI_ORDER_EARLY);
    uint64_t sn = 0;
    uint64_t mask = 0;
    CHECK_EQ(pdi_order_ask(&bench.order, 112, 2, &sn, &mask), 1); /* 0, 1, 3, 4, 5, 6 at 112 */
    CHECK_EQ(mask, 0x3d);
    CHECK_EQ(input(&bench, 8), PDI_ORDER_EARLY);
    CHECK_EQ(input(&bench, 0), PDI_ORDER_NEXT);
    pdi_order_advance(&bench.order);
    CHECK_EQ(input(&bench, 1), PDI_ORDER_NEXT);
    pdi_order_advance(&bench.order);
    pdi_order_advance(&bench.order);
    bench.order.kept[3].asked = 90;  /* the expected one lost its turn longer ago than the others */
    check_ask(&bench, 113, 3, 0x18); /* 3, and 7 and 8, which were never asked for */
}

/* If it failed, numbers would be asked for that cannot be kept, and would share an entry with
 * others. */
static void test_asks_for_no_more_than_it_can_keep(void)
{
    struct bench bench;
    bench_at(&bench, 14, 4, 0);
    CHECK_EQ(input(&bench, 30), PDI_ORDER_FAR);
    for (pdi_time now = 0; now < 3; now++) {
        uint64_t sn = 1;
        uint64_t mask = 0;
        CHECK_EQ(pdi_order_ask(&bench.order, now * 2, 0, &sn, &mask), 1);
        CHECK_EQ(mask, 7);
    }
    CHECK_EQ(bench.order.marked, 4);
}

/* If it failed, a guard that holds the delivery would lose the message that it holds, or it would
 * come twice. */
static void test_holds_the_expected_one(void)
{
    struct bench bench;
    bench_at(&bench, 7, 4, 10);
    CHECK_EQ(input(&bench, 10), PDI_ORDER_NEXT);
    keep(&bench, 10);
    bench.order.held = 1;
    CHECK_EQ(input(&bench, 10), PDI_ORDER_REPEAT);
    CHECK_EQ(input(&bench, 12), PDI_ORDER_EARLY);
    CHECK_EQ(synch(&bench.order, 16, 2), PYDDSI_OK); /* 10 to 13 are given up */
    check_no_skip(&bench);
    bench.order.held = 0;
    check_no_skip(&bench); /* it is kept, so it can be delivered */
    CHECK(pdi_order_ready(&bench.order)->extra == 10);
    check_nothing_to_ask(&bench, 1);
    pdi_order_advance(&bench.order);
    check_nothing_to_ask(&bench, 1); /* nobody has 11 any more */
    bench.order.held = 1;
    check_no_skip(&bench);
    bench.order.held = 0;
    check_skip(&bench, 11, 13);
    check_ask(&bench, 1, 14, 1);
}

/* 002-109: if it failed, the application would not learn which samples it will never get, or would
 * lose some that had come. */
static void test_gap_with_first_and_last(void)
{
    struct bench bench;
    bench_at(&bench, 7, 16, 120);
    check_no_skip(&bench);
    for (uint64_t sn = 122; sn < 124; sn++) {
        CHECK_EQ(input(&bench, sn), PDI_ORDER_EARLY);
        keep(&bench, (int64_t)sn);
    }
    CHECK_EQ(input(&bench, 126), PDI_ORDER_EARLY);
    keep(&bench, 126);
    check_ask(&bench, 3, 120, 0x19);                  /* so 124 and 125 have marks */
    CHECK_EQ(synch(&bench.order, 30, 20), PYDDSI_OK); /* 120 to 137 are given up, of which 3 came */
    check_skip(&bench, 120, 121);
    check_no_skip(&bench);
    CHECK_EQ(pdi_order_ready(&bench.order)->extra, 122);
    pdi_order_advance(&bench.order);
    CHECK_EQ(pdi_order_ready(&bench.order)->extra, 123);
    pdi_order_advance(&bench.order);
    CHECK(pdi_order_ready(&bench.order) == NULL);
    check_skip(&bench, 124, 125);
    pdi_order_advance(&bench.order);
    CHECK_EQ(input(&bench, 127), PDI_ORDER_NEXT); /* a straggler is still good */
    pdi_order_advance(&bench.order);
    check_skip(&bench, 128, 137);
    check_no_skip(&bench);
    CHECK_EQ(bench.order.count, 0);
    check_ask(&bench, 3, 10, (1 << 15) - 1); /* all marks of skipped ones are gone */
}

/* 002-47: if it failed, the SYNCH that answers a question for what is not written yet would do
 * harm. */
static void test_synch_that_tells_nothing_new(void)
{
    struct bench bench;
    bench_at(&bench, 14, 16, 50);
    CHECK_EQ(input(&bench, 60), PDI_ORDER_EARLY); /* somebody's error: 50 to 60 do not exist */
    check_ask(&bench, 1, 50, 0x3ff);
    CHECK_EQ(synch(&bench.order, 50, 0), PYDDSI_OK);
    check_no_skip(&bench);
    CHECK_EQ(bench.order.expected, 50);
    CHECK_EQ(input(&bench, 50), PDI_ORDER_NEXT);
}

/* 002-46: if it failed, a question for what the sender no longer has would be repeated for ever. */
static void test_synch_answers_a_question_too_late(void)
{
    struct bench bench;
    bench_at(&bench, 14, 16, 50);
    CHECK_EQ(input(&bench, 53), PDI_ORDER_EARLY);
    check_ask(&bench, 1, 50, 7);
    CHECK_EQ(synch(&bench.order, 54, 2), PYDDSI_OK);
    check_nothing_to_ask(&bench, 100);
    check_skip(&bench, 50, 51);
    check_ask(&bench, 11, 52, 1);
}

/* If it failed, a lost tail would be noticed only with the next message. */
static void test_synch_tells_of_the_tail(void)
{
    struct bench bench;
    bench_at(&bench, 14, 16, 50);
    CHECK_EQ(synch(&bench.order, 53, 4), PYDDSI_OK);
    check_no_skip(&bench);
    check_ask(&bench, 1, 50, 3);
    CHECK_EQ(synch(&bench.order, 52, 4), PYDDSI_OK); /* an older one takes nothing back */
    check_ask(&bench, 11, 50, 3);
}

/* If it failed, SYNCHs that were overtaken on their way would make samples come twice. */
static void test_old_synchs_do_nothing(void)
{
    struct bench bench;
    bench_at(&bench, 14, 16, 5000);
    for (int round = 0; round < 4; round++) {
        uint64_t expected = pdi_seq_wrap(&bench.seq, bench.order.expected);
        for (int i = 1; i < PDI_ORDER_BEHIND_MAX; i++) {
            uint64_t late = pdi_seq_add(&bench.seq, expected, (uint64_t)-(i * i * i));
            CHECK_EQ(synch(&bench.order, late, (uint64_t)i), PYDDSI_OK);
            CHECK_EQ(pdi_seq_wrap(&bench.seq, bench.order.expected), expected);
            CHECK_EQ(input(&bench, late), PDI_ORDER_REPEAT);
        }
        check_no_skip(&bench);
        /* the row ends with whatever is not from behind */
        if (round == 0) {
            CHECK_EQ(input(&bench, expected), PDI_ORDER_NEXT);
            pdi_order_advance(&bench.order);
        } else if (round == 1) {
            CHECK_EQ(synch(&bench.order, expected, 0), PYDDSI_OK);
        } else if (round == 2) {
            CHECK_EQ(input(&bench, expected + 2), PDI_ORDER_EARLY);
        }
    }
    CHECK_EQ(bench.order.expected, 5001);
}

/* If it failed, samples would come twice when a sender answers at once all that had piled up while
 * it stood still, and a message of it overtakes those answers. */
static void test_many_old_synchs_at_once_do_nothing(void)
{
    struct bench bench;
    bench_at(&bench, 14, 16, 5000);
    const pdi_time first = 1000 * PDI_TIME_S;
    for (pdi_time late = 0; late < PDI_ORDER_BEHIND_MAX - 1; late++) {
        for (pdi_time i = 0; i < 100; i++) { /* the last a moment before it would be the next */
            pdi_time now = first + late * PDI_ORDER_BEHIND_APART + i;
            CHECK_EQ(pdi_order_synch(&bench.order, 4999, 1, now), PYDDSI_OK);
            CHECK_EQ(bench.order.expected, 5000);
        }
    }
    const pdi_time eighth = first + (PDI_ORDER_BEHIND_MAX - 1) * PDI_ORDER_BEHIND_APART;
    CHECK_EQ(pdi_order_synch(&bench.order, 4999, 1, eighth - 1), PYDDSI_OK);
    CHECK_EQ(bench.order.expected, 5000);
    CHECK_EQ(pdi_order_synch(&bench.order, 4999, 1, eighth), PYDDSI_OK);
    CHECK_EQ(bench.order.expected, 4998); /* but a sender that says nothing else is believed */
}

/* If it failed, a pile of old SYNCHs that is read slowly would make all behind them come twice. */
static void test_steady_never_goes_back(void)
{
    struct bench bench;
    bench_at(&bench, 28, 16, 5000);
    bench.order.steady = 1;
    CHECK_EQ(input(&bench, 5002), PDI_ORDER_EARLY);
    keep(&bench, 5002);
    CHECK(pdi_order_is_behind(&bench.order, 4999));
    CHECK(!pdi_order_is_behind(&bench.order, 5000));
    for (int i = 1; i < PDI_ORDER_BEHIND_MAX; i++) {
        CHECK_EQ(synch(&bench.order, 4999, 99), PYDDSI_OK);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(synch(&bench.order, 4999, 99), PYDDSI_END);
        CHECK_EQ(bench.order.expected, 5000);
        CHECK_EQ(bench.order.count, 1);
    }
    CHECK_EQ(synch(&bench.order, 5003, 3), PYDDSI_OK); /* what is not from behind ends the row */
    CHECK_EQ(synch(&bench.order, 4999, 99), PYDDSI_OK);
    struct bench fresh;
    bench_at(&fresh, 28, 16, 5000);
    (void)pdi_order_init(&fresh.order, &fresh.seq, fresh.order.kept, 16);
    fresh.order.steady = 1;
    CHECK(!pdi_order_is_behind(&fresh.order, 0)); /* nothing is, before the first */
    CHECK_EQ(synch(&fresh.order, 4999, 99), PYDDSI_OK);
    CHECK_EQ(fresh.order.expected, 4900);
}

/* If it failed, a sender that began anew would be deaf and dumb for ever, whether its numbers are
 * near or far. */
static void test_sender_begins_anew(void)
{
    for (uint64_t behind = 1; behind <= 8192; behind *= 2) {
        struct bench bench;
        struct pdi_kept kept;
        bench_at(&bench, 14, 4, 9000);
        int64_t number = 0;
        uint64_t lost = 0;
        CHECK_EQ(pdi_order_best(&bench.order, 700, &number, &lost), 1);
        CHECK_EQ(input(&bench, 9002), PDI_ORDER_EARLY);
        keep(&bench, 9002);
        check_ask(&bench, 1, 9000, 1);
        uint64_t next = 9000 - behind;
        for (int i = 1; i < PDI_ORDER_BEHIND_MAX; i++) {
            CHECK_EQ(synch(&bench.order, next, 3), PYDDSI_OK);
            CHECK_EQ(bench.order.expected, 9000);
        }
        CHECK_EQ(synch(&bench.order, next, 3), PYDDSI_AGAIN);
        CHECK_EQ(synch(&bench.order, next, 3), PYDDSI_AGAIN);
        CHECK_EQ(pdi_order_clear(&bench.order, &kept), PYDDSI_OK);
        CHECK_EQ(kept.extra, 9002);
        CHECK_EQ(pdi_order_clear(&bench.order, &kept), PYDDSI_END);
        CHECK_EQ(synch(&bench.order, next, 3), PYDDSI_OK);
        check_no_skip(&bench);
        check_ask(&bench, 1, next - 3, 3);
        CHECK_EQ(pdi_order_best(&bench.order, 0, &number, &lost), 1);
        CHECK_EQ(lost, 0);
        CHECK_EQ(synch(&bench.order, next - 4, 0), PYDDSI_OK); /* a new row */
        CHECK_EQ(pdi_seq_wrap(&bench.seq, bench.order.expected), next - 3);
    }
}

/* If it failed, the first SYNCH after a session's new start would leave old messages behind as new
 * ones. */
static void test_synch_waits_for_the_past(void)
{
    struct bench bench;
    struct pdi_kept kept;
    bench_at(&bench, 14, 16, 20);
    CHECK_EQ(input(&bench, 22), PDI_ORDER_EARLY);
    keep(&bench, 22);
    bench.order.synched = 0;
    CHECK_EQ(input(&bench, 20), PDI_ORDER_UNSYNCHED);
    CHECK_EQ(synch(&bench.order, 3, 3), PYDDSI_AGAIN);
    CHECK_EQ(pdi_order_clear(&bench.order, &kept), PYDDSI_OK);
    CHECK_EQ(synch(&bench.order, 3, 3), PYDDSI_OK);
    check_ask(&bench, 1, 0, 3);
}

/* If it failed, what is kept at the end of a conduit would not be given back, or twice. */
static void test_clear_gives_all_back(void)
{
    struct bench bench;
    struct pdi_kept kept;
    bench_at(&bench, 56, 64, 40);
    uint64_t wanted = 0;
    for (int64_t number = 41; number < 104; number += 3) {
        CHECK_EQ(input(&bench, (uint64_t)number), PDI_ORDER_EARLY);
        keep(&bench, number);
        wanted |= UINT64_C(1) << (number - 40);
    }
    check_ask(&bench, 1, 40, ~(wanted >> 1) & ((UINT64_C(1) << 61) - 1));
    uint64_t got = 0;
    while (pdi_order_clear(&bench.order, &kept) == PYDDSI_OK) {
        got ^= UINT64_C(1) << (kept.extra - 40);
    }
    CHECK(got == wanted);
    CHECK_EQ(bench.order.count, 0);
    CHECK_EQ(bench.order.expected, 40);
    CHECK_EQ(input(&bench, 41), PDI_ORDER_EARLY); /* it is missing again */
    check_ask(&bench, 11, 40, (UINT64_C(1) << 61) - 1);
}

/* If it failed, a stranger's numbers could overflow ours, or stop the stream for good. */
static void test_hostile_numbers(void)
{
    struct bench bench;
    struct bench best; /* on its own: it has no SYNCH to set it right */
    struct pdi_gap gap;
    int64_t number = 0;
    uint64_t lost = 0;
    bench_at(&bench, 56, 4, 0);
    bench_init(&best, 56, 4);
    uint64_t step = bench.seq.half - 2; /* with a count of 1 before it, the farthest */
    CHECK_EQ(synch(&bench.order, 1, bench.seq.half), PYDDSI_BAD_INPUT);
    CHECK_EQ(synch(&bench.order, 1, bench.seq.mask), PYDDSI_BAD_INPUT);
    CHECK_EQ(bench.order.end, 0);
    uint64_t sn = 0;
    for (int i = 0; i < 1000; i++) {
        sn = pdi_seq_add(&bench.seq, sn, step);
        CHECK_EQ(synch(&bench.order, sn, (uint64_t)i % 2), PYDDSI_OK);
        while (pdi_order_skip(&bench.order, &gap) == PYDDSI_OK) {
            CHECK_EQ(gap.lost, gap.last - gap.first + 1);
        }
        CHECK_EQ(pdi_seq_wrap(&bench.seq, bench.order.expected), sn - (uint64_t)i % 2);
        CHECK_EQ(pdi_order_best(&best.order, sn, &number, &lost), 1);
        CHECK_EQ(pdi_order_best(&best.order, sn, &number, &lost), 0);
        CHECK(number >= 0 && bench.order.expected >= 0);
        CHECK_EQ(input(&bench, pdi_seq_add(&bench.seq, sn, step)), PDI_ORDER_FAR);
        CHECK(bench.order.end > bench.order.expected);
    }
    bench_init(&bench, 56, 4);
    CHECK_EQ(synch(&bench.order, 0, bench.seq.half), PYDDSI_BAD_INPUT);
    CHECK_EQ(bench.order.synched, 0);
    CHECK_EQ(synch(&bench.order, 0, bench.seq.half - 1), PYDDSI_OK);
    CHECK_EQ(bench.order.expected, bench.seq.half + 1);
}

/* If it failed, best effort samples would come late, twice, or lost ones would not be counted. */
static void test_best_effort(void)
{
    struct bench bench;
    int64_t number = 0;
    uint64_t lost = 0;
    bench_init(&bench, 7, 4);
    CHECK_EQ(pdi_order_best(&bench.order, 126, &number, &lost), 1); /* it needs no SYNCH */
    CHECK_EQ(number, 126);
    CHECK_EQ(lost, 0);
    CHECK_EQ(pdi_order_best(&bench.order, 126, &number, &lost), 0);
    CHECK_EQ(pdi_order_best(&bench.order, 1, &number, &lost), 1);
    CHECK_EQ(number, 129);
    CHECK_EQ(lost, 2);
    CHECK_EQ(pdi_order_best(&bench.order, 0, &number, &lost), 0);
    CHECK_EQ(lost, 0);
    CHECK_EQ(synch(&bench.order, 5, 5), PYDDSI_OK);                /* which does not concern it */
    CHECK_EQ(pdi_order_best(&bench.order, 66, &number, &lost), 0); /* opposite: behind */
    CHECK_EQ(pdi_order_best(&bench.order, 65, &number, &lost), 1);
    CHECK_EQ(lost, 63);
}

/* ---- every SYNCH of the smallest circle ------------------------------------------------------ */

static void one_synch(uint64_t expected, uint64_t sn, uint64_t count, bool *good)
{
    static struct bench bench;
    static bool made;
    if (!made) {
        bench_init(&bench, 7, 16);
        made = true;
    }
    struct pdi_order *order = &bench.order;
    order->synched = 0; /* begin again, at the number wanted */
    *good = synch(order, expected, 0) == PYDDSI_OK && *good;
    int64_t before = order->expected;
    int status = synch(order, sn, count);
    struct pdi_gap gap = {.first = -1, .last = -1};
    int skipped = pdi_order_skip(order, &gap);
    uint64_t ahead = (sn - expected) & 127;
    if (count >= 64 || ahead >= 64) { /* no sender's, or from behind */
        *good = *good && status == (count >= 64 ? PYDDSI_BAD_INPUT : PYDDSI_OK) &&
                skipped == PYDDSI_END && order->expected == before && order->end == before;
        for (int i = 1; i < PDI_ORDER_BEHIND_MAX; i++) {
            *good = *good && order->expected == before;
            status = synch(order, sn, count);
        }
        uint64_t now = count >= 64 ? expected : (sn - count) & 127;
        *good = *good && ((uint64_t)order->expected & 127) == now &&
                order->end - order->expected == (count >= 64 ? 0 : (int64_t)count);
    } else if (count >= ahead) { /* it still has all */
        *good = *good && status == PYDDSI_OK && skipped == PYDDSI_END &&
                order->expected == before && order->end == before + (int64_t)ahead;
    } else {
        *good = *good && status == PYDDSI_OK && skipped == PYDDSI_OK && gap.first == before &&
                gap.last == before + (int64_t)(ahead - count) - 1 &&
                order->expected == gap.last + 1 && order->end == before + (int64_t)ahead &&
                pdi_order_skip(order, &gap) == PYDDSI_END;
    }
}

/* If it failed, there would be a SYNCH, in some state, with which the receiver repeats, loses or
 * stops. */
static void test_every_synch(void)
{
    for (uint64_t expected = 0; expected < 128; expected++) {
        bool good = true;
        for (uint64_t sn = 0; sn < 128 && good; sn++) {
            for (uint64_t count = 0; count < 128 && good; count++) {
                one_synch(expected, sn, count, &good);
                if (!good) {
                    printf("expected %d sn %d count %d\n", (int)expected, (int)sn, (int)count);
                }
            }
        }
        CHECK(good);
    }
}

/* ---- random calls against a naive model ------------------------------------------------------ */

#define NUMBERS 6000
#define STEPS   3000

/* What is known of each number, in plain arrays from the first one on. */
struct naive {
    struct bench bench;
    struct pdi_rand rand;
    int64_t origin; /* the count of number 0 */
    int64_t expected, end, base;
    uint8_t kept[NUMBERS];
    pdi_time asked[NUMBERS];
    pdi_time now;
    int row;  /* SYNCHs from behind */
    int asks; /* questions, the last of them when this was expected and so many were kept */
    int64_t asked_expected, asked_kept;
};

static bool is_past(const struct naive *naive)
{
    return naive->end + 200 > NUMBERS;
}

static void naive_input(struct naive *naive)
{
    struct pdi_order *order = &naive->bench.order;
    int64_t half = (int64_t)naive->bench.seq.half;
    int64_t spread = half < 150 ? half : 150;
    int64_t at = naive->expected;
    if (pdi_rand_chance(&naive->rand, 1, 2)) {
        at += (int64_t)pdi_rand_below(&naive->rand, (uint64_t)spread * 2) - spread;
    } else {
        at += (int64_t)pdi_rand_below(&naive->rand, 4);
    }
    int64_t number = 0;
    uint64_t sn = pdi_seq_wrap(&naive->bench.seq, naive->origin + at);
    enum pdi_order_verdict got = pdi_order_input(order, sn, &number);
    CHECK_EQ(number, naive->origin + at);
    if (at < naive->expected) {
        CHECK_EQ(got, PDI_ORDER_REPEAT);
        return;
    }
    naive->row = 0;
    naive->end = at + 1 > naive->end ? at + 1 : naive->end;
    if (at - naive->expected >= (int64_t)order->capacity) {
        CHECK_EQ(got, PDI_ORDER_FAR);
    } else if (naive->kept[at]) {
        CHECK_EQ(got, PDI_ORDER_REPEAT);
    } else {
        CHECK_EQ(got, at == naive->expected ? PDI_ORDER_NEXT : PDI_ORDER_EARLY);
        if (at == naive->expected && pdi_rand_chance(&naive->rand, 3, 4)) {
            pdi_order_advance(order);
            naive->expected++;
        } else if (pdi_rand_chance(&naive->rand, 3, 4)) {
            keep(&naive->bench, number);
            naive->kept[at] = 1;
        }
    }
}

static void naive_ready(struct naive *naive)
{
    const struct pdi_kept *ready = pdi_order_ready(&naive->bench.order);
    CHECK_EQ(ready != NULL, naive->kept[naive->expected]);
    if (ready != NULL) {
        CHECK_EQ(ready->extra, naive->origin + naive->expected);
        pdi_order_advance(&naive->bench.order);
        naive->kept[naive->expected++] = 0;
        naive->row = 0;
    }
}

static void naive_synch(struct naive *naive)
{
    int64_t half = (int64_t)naive->bench.seq.half;
    int64_t spread = half < 100 ? half : 100;
    int64_t next =
        naive->expected + (int64_t)pdi_rand_below(&naive->rand, (uint64_t)spread + 20) - 20;
    if (next >= naive->expected + half) {
        next = naive->expected + half - 1;
    }
    int64_t count = (int64_t)pdi_rand_below(&naive->rand, (uint64_t)spread);
    if (next < naive->expected && naive->row == PDI_ORDER_BEHIND_MAX - 1) {
        return; /* the next one would be believed, which is another test's */
    }
    uint64_t sn = pdi_seq_wrap(&naive->bench.seq, naive->origin + next);
    CHECK_EQ(synch(&naive->bench.order, sn, (uint64_t)count), PYDDSI_OK);
    if (next < naive->expected) {
        naive->row++;
        return;
    }
    naive->row = 0;
    naive->end = next > naive->end ? next : naive->end;
    naive->base = next - count > naive->base ? next - count : naive->base;
}

static void naive_skip(struct naive *naive)
{
    struct pdi_gap gap;
    int64_t to = naive->expected;
    while (to < naive->base && !naive->kept[to]) {
        to++;
    }
    int status = pdi_order_skip(&naive->bench.order, &gap);
    if (to == naive->expected || naive->bench.order.held) {
        CHECK_EQ(status, PYDDSI_END);
        return;
    }
    CHECK_EQ(status, PYDDSI_OK);
    CHECK_EQ(gap.first, naive->origin + naive->expected);
    CHECK_EQ(gap.last, naive->origin + to - 1);
    CHECK_EQ(gap.lost, to - naive->expected);
    naive->expected = to;
    naive->row = 0;
}

/* How many are kept: while neither this nor what is expected changes, questions are without an answer. */
static int64_t naive_kept(const struct naive *naive)
{
    int64_t count = 0;
    for (int64_t at = naive->expected; at < naive->end; at++) {
        count += naive->kept[at];
    }
    return count;
}

static bool unanswered(const struct naive *naive)
{
    return naive->asks != 0 && naive->asked_expected == naive->expected &&
           naive->asked_kept == naive_kept(naive);
}

static bool may_ask(const struct naive *naive, int64_t at)
{
    pdi_time wait = WAIT;
    for (int i = 2; unanswered(naive) && i < naive->asks && i < 20; i++) {
        wait *= 2;
    }
    return !naive->kept[at] && (naive->asked[at] == 0 || naive->asked[at] + wait <= naive->now);
}

static void naive_ask(struct naive *naive)
{
    struct pdi_order *order = &naive->bench.order;
    uint64_t sn = 1;
    uint64_t mask = 1;
    uint64_t wanted = 0;
    bool due = !order->held && naive->expected < naive->end && naive->expected >= naive->base &&
               may_ask(naive, naive->expected);
    CHECK_EQ(pdi_order_due(order, WAIT) <= naive->now, due);
    int status = pdi_order_ask(order, naive->now, WAIT, &sn, &mask);
    CHECK_EQ(status, due);
    CHECK_EQ(sn, pdi_seq_wrap(&naive->bench.seq, naive->origin + naive->expected));
    for (int64_t i = 0; due && i <= PDI_ORDER_MASK_BITS; i++) {
        int64_t at = naive->expected + i;
        if (i < (int64_t)order->capacity && at < naive->end && may_ask(naive, at)) {
            naive->asked[at] = naive->now;
            wanted |= i > 0 ? UINT64_C(1) << (i - 1) : 0;
        }
    }
    CHECK(mask == wanted);
    if (due) {
        naive->asks = unanswered(naive) ? naive->asks + 1 : 1;
        naive->asked_expected = naive->expected;
        naive->asked_kept = naive_kept(naive);
    }
}

static void naive_clear(struct naive *naive)
{
    struct pdi_kept kept;
    int64_t top = naive->expected - 1;
    for (int64_t at = naive->expected; at < naive->end; at++) {
        top = naive->kept[at] ? at : top;
    }
    int status = pdi_order_clear(&naive->bench.order, &kept);
    CHECK_EQ(status, top >= naive->expected ? PYDDSI_OK : PYDDSI_END);
    if (status == PYDDSI_OK) {
        CHECK_EQ(kept.extra, naive->origin + top);
        naive->kept[top] = 0;
        for (int64_t at = top; at < naive->end; at++) {
            naive->asked[at] = 0;
        }
    }
}

static void naive_run(struct naive *naive, uint64_t seed)
{
    pdi_rand_init(&naive->rand, seed);
    unsigned bits = LENGTHS[seed % LENGTH_COUNT];
    uint32_t capacity = UINT32_C(2) << pdi_rand_below(&naive->rand, bits == 7 ? 6 : 7);
    uint64_t start = -pdi_rand_below(&naive->rand, 300);
    bench_init(&naive->bench, bits, capacity);
    CHECK_EQ(synch(&naive->bench.order, start & naive->bench.seq.mask, 0), PYDDSI_OK);
    naive->origin = naive->bench.order.expected;
    naive->expected = naive->end = naive->base = 0;
    naive->now = 1;
    naive->row = naive->asks = 0;
    memset(naive->kept, 0, sizeof naive->kept);
    memset(naive->asked, 0, sizeof naive->asked);
    for (int step = 0; step < STEPS && !is_past(naive); step++) {
        naive->now += pdi_rand_below(&naive->rand, 4);
        uint64_t what = pdi_rand_below(&naive->rand, 100);
        if (what < 50) {
            naive_input(naive);
        } else if (what < 70) {
            naive_ready(naive);
        } else if (what < 75) {
            naive_synch(naive);
        } else if (what < 82) {
            naive_skip(naive);
        } else if (what < 96) {
            naive_ask(naive);
        } else if (what < 97) {
            naive_clear(naive);
        } else {
            naive->bench.order.held = what == 97;
        }
        CHECK_EQ(naive->bench.order.expected, naive->origin + naive->expected);
        CHECK_EQ(naive->bench.order.end, naive->origin + naive->end);
    }
}

/* If it failed, some sequence of calls would leave the order in a state that nobody thought of. */
static void test_against_naive_model(void)
{
    static struct naive naive;
    for (uint64_t seed = 0; seed < 240; seed++) {
        int failures = test_failures;
        naive_run(&naive, seed);
        if (test_failures != failures) {
            printf("seed %" PRIu64 "\n", seed);
            return;
        }
    }
}

/* ---- conversations over a bad network -------------------------------------------------------- */

#define TALK    1200 /* messages of one conversation */
#define FLIGHTS 160  /* packets on their way */
#define SYNCHS  (PDI_ORDER_BEHIND_MAX - 1)
#define TICKS   200000

enum kind { NOTHING, DATA, SYNCH, ACKNACK };

/* A packet on its way. `truth` is the whole number, which the other side must find out by itself.
 * */
struct flight {
    enum kind kind;
    pdi_time at;
    int64_t truth;
    uint64_t sn, count, mask;
    int64_t base;
    int nack;
};

struct talk {
    struct pdi_rand rand;
    struct bench bench;
    struct flight flights[FLIGHTS];
    pdi_time now;
    uint32_t loss, repeat, delay, give_up; /* of 1000; ticks; of 1000 */
    uint32_t synchs;                       /* on their way */

    /* the sender; numbers are truths, all from `origin` on */
    int64_t origin, base, next, end;
    int64_t heard; /* the receiver has all before it */
    int64_t window;
    pdi_time synch_at;
    uint8_t given[TALK];
    int resent;

    /* the receiver */
    int64_t want; /* the truth of what is expected; -1: not synchronised */
    pdi_time asked[TALK];
    int delivered, lost;
};

static void fly(struct talk *talk, const struct flight *flight)
{
    if (flight->kind == SYNCH && talk->synchs >= SYNCHS) {
        return;
    }
    int copies = pdi_rand_chance(&talk->rand, talk->loss, 1000) ? 0 : 1;
    copies += pdi_rand_chance(&talk->rand, talk->repeat, 1000);
    for (int i = 0; i < FLIGHTS && copies > 0; i++) {
        if (talk->flights[i].kind == NOTHING && (flight->kind != SYNCH || talk->synchs < SYNCHS)) {
            talk->flights[i] = *flight;
            talk->flights[i].at = talk->now + 1 + pdi_rand_below(&talk->rand, talk->delay);
            talk->synchs += flight->kind == SYNCH;
            copies--;
        }
    }
}

static uint64_t wire(const struct talk *talk, int64_t truth)
{
    return pdi_seq_wrap(&talk->bench.seq, truth);
}

static void send_data(struct talk *talk, int64_t truth)
{
    fly(talk, &(struct flight){.kind = DATA, .truth = truth, .sn = wire(talk, truth)});
}

static void send_synch(struct talk *talk)
{
    talk->synch_at = talk->now + 10;
    fly(talk, &(struct flight){.kind = SYNCH,
                               .truth = talk->next,
                               .base = talk->base,
                               .sn = wire(talk, talk->next),
                               .count = (uint64_t)(talk->next - talk->base)});
}

/* The sender hears an ACKNACK, as part A of the protocol has it. */
static void hear_acknack(struct talk *talk, const struct flight *flight)
{
    int64_t sn = pdi_seq_unwrap(&talk->bench.seq, talk->next, flight->sn);
    if (sn < talk->base || sn > talk->next) {
        send_synch(talk);
        return;
    }
    talk->base = sn;
    talk->heard = sn > talk->heard ? sn : talk->heard;
    for (int64_t i = 0; flight->nack && i <= PDI_ORDER_MASK_BITS; i++) {
        bool wanted = i == 0 || (flight->mask >> (i - 1) & 1);
        if (wanted && sn + i < talk->next) {
            send_data(talk, sn + i);
            talk->resent++;
        }
    }
}

/* What the receiver delivers must be what it should be: truths in order, each once. */
static void deliver(struct talk *talk, int64_t truth)
{
    CHECK_EQ(truth, talk->want);
    CHECK_EQ(wire(talk, truth), wire(talk, talk->bench.order.expected));
    pdi_order_advance(&talk->bench.order);
    talk->want++;
    talk->delivered++;
}

/* Delivers and skips all that can be. */
static void settle(struct talk *talk)
{
    struct pdi_order *order = &talk->bench.order;
    struct pdi_gap gap;
    for (int i = 0; i < TALK * 2; i++) {
        const struct pdi_kept *ready = pdi_order_ready(order);
        if (ready != NULL) {
            deliver(talk, (int64_t)ready->extra);
        } else if (pdi_order_skip(order, &gap) == PYDDSI_OK) {
            CHECK_EQ(wire(talk, gap.first), wire(talk, talk->want));
            CHECK_EQ(order->expected, gap.last + 1);
            for (int64_t n = gap.first; n <= gap.last; n++, talk->want++) {
                CHECK(talk->want < talk->next && talk->given[talk->want - talk->origin]);
            }
            talk->lost += (int)gap.lost;
        } else {
            return;
        }
    }
    CHECK(false);
}

static void answer(struct talk *talk)
{
    struct flight flight = {.kind = ACKNACK};
    struct pdi_order *order = &talk->bench.order;
    if (!order->synched) {
        return;
    }
    flight.nack = pdi_order_ask(order, talk->now, WAIT, &flight.sn, &flight.mask);
    CHECK_EQ(flight.sn, wire(talk, talk->want));
    for (int64_t i = 0; flight.nack && i <= PDI_ORDER_MASK_BITS; i++) {
        if (i == 0 || (flight.mask >> (i - 1) & 1)) {
            pdi_time *asked = &talk->asked[talk->want + i - talk->origin];
            CHECK(talk->want + i < talk->next);               /* nobody is asked for what is not */
            CHECK(*asked == 0 || *asked + WAIT <= talk->now); /* nor all the time, */
            CHECK(!is_kept(&talk->bench, order->expected + i)); /* nor for what is here */
            *asked = talk->now;
        }
    }
    fly(talk, &flight);
}

static void hear_data(struct talk *talk, const struct flight *flight)
{
    int64_t number = 0;
    switch (pdi_order_input(&talk->bench.order, flight->sn, &number)) {
    case PDI_ORDER_NEXT:
        deliver(talk, flight->truth);
        break;
    case PDI_ORDER_EARLY:
        CHECK(flight->truth > talk->want);
        if (!pdi_rand_chance(&talk->rand, talk->loss,
                             2000)) { /* now and then there is no slot for it */
            struct pdi_kept kept = {.slot = 1, .extra = (uint64_t)flight->truth};
            pdi_order_keep(&talk->bench.order, number, &kept);
        }
        break;
    case PDI_ORDER_REPEAT:
        CHECK(flight->truth < talk->want || is_kept(&talk->bench, number));
        break;
    case PDI_ORDER_FAR:
        CHECK(flight->truth - talk->want >= talk->bench.order.capacity);
        break;
    case PDI_ORDER_UNSYNCHED:
        CHECK(talk->want < 0);
    }
}

static void hear_synch(struct talk *talk, const struct flight *flight)
{
    CHECK_EQ(synch(&talk->bench.order, flight->sn, flight->count), PYDDSI_OK);
    if (talk->want < 0) {
        talk->want = flight->base;
    }
    settle(talk);
    answer(talk);
}

static void hear(struct talk *talk, const struct flight *flight)
{
    /* What is more than half a circle late looks new, and no receiver can tell: the network that
     * this protocol asks for has lost it. */
    if (flight->kind != ACKNACK && talk->next - flight->truth > (int64_t)talk->bench.seq.half) {
        return;
    }
    switch (flight->kind) {
    case DATA:
        hear_data(talk, flight);
        settle(talk);
        if (pdi_rand_chance(&talk->rand, 1, 3)) {
            answer(talk);
        }
        break;
    case SYNCH:
        hear_synch(talk, flight);
        break;
    default:
        hear_acknack(talk, flight);
    }
}

static void tick_sender(struct talk *talk)
{
    /* Whoever gives numbers up still has to wait for the receiver before it is half a circle
     * ahead. */
    while (talk->next < talk->end && talk->next - talk->base < talk->window &&
           talk->next - talk->heard < (int64_t)talk->bench.seq.half - 1 &&
           pdi_rand_chance(&talk->rand, 1, 2)) {
        send_data(talk, talk->next++);
    }
    if (talk->base < talk->next && pdi_rand_chance(&talk->rand, talk->give_up, 1000)) {
        int64_t to = talk->base + 1 +
                     (int64_t)pdi_rand_below(&talk->rand, (uint64_t)(talk->next - talk->base));
        while (talk->base < to) {
            talk->given[talk->base++ - talk->origin] = 1;
        }
        send_synch(talk);
    }
    /* Near the end it says once more where it is, for those whose loss was its last word. */
    if (talk->now >= talk->synch_at && (talk->base < talk->next || talk->next == talk->end)) {
        send_synch(talk);
    }
}

static void talk_init(struct talk *talk, uint64_t seed)
{
    memset(talk, 0, sizeof *talk);
    pdi_rand_init(&talk->rand, seed);
    unsigned bits = LENGTHS[seed % LENGTH_COUNT];
    bench_init(&talk->bench, bits, UINT32_C(2) << pdi_rand_below(&talk->rand, bits == 7 ? 6 : 7));
    talk->now = 1;
    talk->loss = (uint32_t)pdi_rand_below(&talk->rand, 3) * 150;
    talk->repeat = (uint32_t)pdi_rand_below(&talk->rand, 3) * 100;
    talk->delay = 1 + (uint32_t)pdi_rand_below(&talk->rand, 25);
    talk->give_up = pdi_rand_chance(&talk->rand, 1, 2) ? 20 : 0;
    talk->origin = (int64_t)talk->bench.seq.mask + 1 - (int64_t)pdi_rand_below(&talk->rand, TALK);
    talk->origin += bits == 7 ? 2048 : 0; /* so that it stays above 0 */
    talk->base = talk->next = talk->heard = talk->origin;
    talk->end = talk->origin + TALK;
    talk->window = 1 + (int64_t)pdi_rand_below(&talk->rand, bits == 7 ? 63 : 200);
    talk->want = -1;
}

/* Runs until everything sent is delivered or known to be lost, which must not take for ever; half-
 * way through, the network becomes a good one. */
static void talk_run(struct talk *talk)
{
    while (talk->now < TICKS && talk->want < talk->end) {
        talk->now++;
        if (talk->next - talk->origin > TALK / 2) {
            talk->loss = talk->repeat = talk->give_up = 0;
        }
        tick_sender(talk);
        for (int i = 0; i < FLIGHTS; i++) {
            struct flight flight = talk->flights[i];
            if (flight.kind != NOTHING && flight.at <= talk->now) {
                talk->flights[i].kind = NOTHING;
                talk->synchs -= flight.kind == SYNCH;
                hear(talk, &flight);
            }
        }
        if (pdi_order_due(&talk->bench.order, WAIT) <= talk->now) {
            answer(talk);
        }
    }
    CHECK_EQ(talk->want, talk->end);
    CHECK_EQ(talk->bench.order.count, 0);
}

/* 002-128: if it failed, samples would come twice, in another order or not at all, with some length
 * of numbers, where they wrap around, on a network that loses, repeats and reorders. */
static void test_conversations(void)
{
    static struct talk talk;
    int lost = 0;
    for (uint64_t seed = 0; seed < 240; seed++) {
        int failures = test_failures;
        talk_init(&talk, seed);
        talk_run(&talk);
        lost += talk.lost;
        if (test_failures != failures) {
            printf("seed %" PRIu64 "\n", seed);
            return;
        }
    }
    CHECK(lost > 100); /* or the conversations have become too easy */
}

/* 002-121: if it failed, more than what was lost would be sent again, or the oldest would not be
 * among it. */
static void test_drop_each_in_turn(void)
{
    for (int run = 1; run <= 8; run++) {
        for (uint64_t dropped = 0; dropped < 100; dropped++) {
            struct bench bench;
            uint64_t sn = 0;
            uint64_t mask = 0;
            int asked = 0;
            bench_at(&bench, 7, 32, 90);
            for (uint64_t n = 0; n < 100; n++) {
                if (n >= dropped && n < dropped + (uint64_t)run) {
                    continue;
                }
                CHECK_EQ(input(&bench, (90 + n) & 127),
                         n < dropped ? PDI_ORDER_NEXT : PDI_ORDER_EARLY);
                if (n < dropped) {
                    pdi_order_advance(&bench.order);
                    continue;
                }
                keep(&bench, (int64_t)(90 + n));
                CHECK_EQ(pdi_order_ask(&bench.order, 1, WAIT, &sn, &mask), 1);
                CHECK_EQ(sn, (90 + dropped) & 127);
                CHECK_EQ(mask, (UINT64_C(1) << (run - 1)) - 1);
                asked = 1;
                break;
            }
            if (!asked) { /* the tail: only a SYNCH tells */
                CHECK_EQ(synch(&bench.order, (90 + 100) & 127, 100 - dropped), PYDDSI_OK);
                CHECK_EQ(pdi_order_ask(&bench.order, 1, WAIT, &sn, &mask), 1);
                CHECK_EQ(sn, (90 + dropped) & 127);
                CHECK_EQ(mask, (UINT64_C(1) << (99 - dropped)) - 1);
            }
        }
    }
}

int main(void)
{
    test_refuses();
    test_in_order_over_the_wrap();
    test_client_starts_at_zero();
    test_keeps_what_is_early();
    test_asks_at_its_pace();
    test_asks_each_at_its_own_pace();
    test_asks_for_no_more_than_it_can_keep();
    test_holds_the_expected_one();
    test_gap_with_first_and_last();
    test_synch_that_tells_nothing_new();
    test_synch_answers_a_question_too_late();
    test_synch_tells_of_the_tail();
    test_old_synchs_do_nothing();
    test_many_old_synchs_at_once_do_nothing();
    test_steady_never_goes_back();
    test_sender_begins_anew();
    test_synch_waits_for_the_past();
    test_clear_gives_all_back();
    test_hostile_numbers();
    test_best_effort();
    test_every_synch();
    test_drop_each_in_turn();
    test_against_naive_model();
    test_conversations();
    return test_result();
}
