/* Lanes between sessions of one process: order, completeness and the books, while readers and publishers come and go. Room in
 * them is api_room.c. The file is long, as each way in which they can come and go is a test. */
#include "live.h"

/* Everything that was put comes once and in order, although the first samples go by sockets and the others by the lane. */
static void test_from_sockets_to_the_lane(bool reliable, size_t size, int how, uint32_t held)
{
    live_next_group();
    pyddsi_session *a = live_session(true);
    pyddsi_session *b = live_session(true);
    uint64_t count = LIVE_MANY(80000) / (size > 1000 ? 20 : 1);
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher(a, 7, reliable),
                                 .count = count,
                                 .size = size,
                                 .how = how,
                                 .patient = true};
    struct live_reader reader = {.session = b,
                                 .subscriber = live_subscriber(b, 7, 4096, PYDDSI_WAIT),
                                 .until = reliable ? count : 0,
                                 .held = held,
                                 .gaps = !reliable};
    (void)live_match(a, writer.publisher, 1);
    live_read_begin(&reader);
    live_write_begin(&writer);
    live_write_end(&writer);
    CHECK(
        live_lane_readers(a, 1)); /* even if all was put before: then the next one goes this way */
    writer.from = writer.count;
    if (!reliable) {
        NEED(live_until(a, live_settled, a));
        live_read_end(&reader);
    } else {
        live_read_join(&reader);
        live_let_go(&reader);
    }
    CHECK_EQ(writer.accepted, count);
    CHECK_EQ(reader.wrong, 0);
    CHECK_EQ(reader.expected[0] <= count, 1);
    uint64_t lost = live_lost(a, PYDDSI_AT_PUT, PYDDSI_REASON_COUNT) +
                    live_lost(a, PYDDSI_AT_PACKET, PYDDSI_REASON_COUNT) +
                    live_lost(b, PYDDSI_AT_ORDER, PYDDSI_BY_OLD) +
                    live_lost(b, PYDDSI_AT_ORDER, PYDDSI_BY_LOSS) +
                    live_lost(b, PYDDSI_AT_RING, PYDDSI_REASON_COUNT);
    CHECK_EQ(reader.total + (reliable ? 0 : lost), count);
    if (test_failures != 0) {
        live_print_ledger(a, "writer");
        live_print_ledger(b, "reader");
    }
    CHECK(live_until(a, live_settled, a));
    pyddsi_session_free(a);
    pyddsi_session_free(b);
}

/* Several publishers, threads on one of them, and two threads that take. */
static void test_many_threads(void)
{
    enum { WRITERS = 6 };
    live_next_group();
    pyddsi_session *a = live_session(true);
    pyddsi_session *b = live_session(true);
    uint64_t count = LIVE_MANY(20000);
    struct live_writer writers[WRITERS];
    uint32_t shared = live_publisher(a, 7, true);
    uint32_t other = live_publisher(a, 8, true);
    for (uint32_t i = 0; i < WRITERS; i++) {
        writers[i] = (struct live_writer){.session = a,
                                          .publisher = i < 4 ? shared : other,
                                          .stream = i,
                                          .count = count,
                                          .size = LIVE_HEAD + i,
                                          .how = i == 3 ? 3 : 0,
                                          .patient = true};
    }
    struct live_reader two[2], one;
    uint32_t subscriber = live_subscriber(b, 7, 512, PYDDSI_WAIT);
    for (int i = 0; i < 2; i++) {
        two[i] = (struct live_reader){.session = b, .subscriber = subscriber, .shares = true};
    }
    one = (struct live_reader){.session = b,
                               .subscriber = live_subscriber(b, 8, 64, PYDDSI_WAIT),
                               .batch = 3,
                               .held = 5,
                               .until = 2 * count};
    (void)live_match(a, 0, 2);
    live_read_begin(&two[0]);
    live_read_begin(&two[1]);
    live_read_begin(&one);
    for (int i = 0; i < WRITERS; i++) {
        live_write_begin(&writers[i]);
    }
    for (int i = 0; i < WRITERS; i++) {
        live_write_end(&writers[i]);
        CHECK_EQ(writers[i].accepted, count);
    }
    live_read_join(&one);
    live_let_go(&one);
    NEED(live_until(a, live_settled, a));
    live_read_end(&two[0]);
    live_read_end(&two[1]);
    CHECK_EQ(one.wrong + two[0].wrong + two[1].wrong, 0);
    CHECK_EQ(one.total, 2 * count);
    CHECK_EQ(two[0].total + two[1].total, 4 * count);
    CHECK(live_lane_put(a) > 0);
    pyddsi_session_free(b);
    pyddsi_session_free(a);
}

/* Readers in other sessions come and go, some of them without shared memory, while a publisher writes. Each gets everything from
 * when the publisher knows of it to its last sample, in order; before that it may have heard some that went to the group, once. */
static void test_readers_come_and_go(bool large)
{
    enum { OTHERS = 4, ROUNDS = 3 };
    live_next_group();
    pyddsi_session *a = live_lane_session(1 << 15, 512);
    pyddsi_session *b = live_session(true);
    uint64_t count = LIVE_MANY(40000);
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher(a, 7, true),
                                 .count = count,
                                 .size = 40,
                                 .large = large ? 50000 : 1000,
                                 .every = large ? count / 8 : 50,
                                 .how = large ? 0 : 3,
                                 .patient = true};
    struct live_reader first = {
        .session = b, .subscriber = live_subscriber(b, 7, 256, PYDDSI_WAIT), .until = count};
    (void)live_match(a, writer.publisher, 1);
    live_read_begin(&first);
    live_write_begin(&writer);
    for (int round = 0; round < ROUNDS; round++) {
        pyddsi_session *others[OTHERS];
        struct live_reader readers[OTHERS];
        for (int i = 0; i < OTHERS; i++) {
            others[i] = i == 3 ? b : live_session(i != 1);
            readers[i] = (struct live_reader){
                .session = others[i],
                .subscriber = live_subscriber(others[i], 7, i == 2 ? 4 : 128, PYDDSI_WAIT),
                .until = i == 2 ? 50 : 500,
                .gaps = i != 3,
                .held = i == 0 ? 7 : 0,
                .forgets = true};
        }
        for (int i = 0; i < OTHERS; i++) {
            live_read_begin(&readers[i]);
        }
        for (int i = 0; i < OTHERS; i++) {
            /* the last ones may find that all has been put before they came */
            while (pthread_tryjoin_np(readers[i].thread, NULL) != 0) {
                atomic_store(&readers[i].stop, atomic_load(&writer.done));
                (void)sched_yield();
            }
            CHECK_EQ(readers[i].wrong, 0);
            CHECK(readers[i].jumps <= 1);
            if (i != 0) {
                live_let_go(&readers[i]);
            }
        }
        for (int i = 0; i < OTHERS; i++) {
            if (i != 3) {
                pyddsi_session_close(others[i], i == 1 ? 1000000000 : 0);
                pyddsi_session_free(others[i]);
            }
            live_let_go(&readers[i]); /* the first one's: after its session was closed and freed */
        }
    }
    live_write_end(&writer);
    live_read_join(&first);
    CHECK_EQ(writer.accepted, count);
    CHECK_EQ(first.wrong, 0);
    CHECK_EQ(first.total, count);
    CHECK(large || live_lane_put(a) > 0); /* after a large one it pauses, perhaps until the end */
    CHECK(live_until(a, live_settled, a));
    pyddsi_session_free(a);
    pyddsi_session_free(b);
}

/* What an application keeps looking at stops nobody: neither the other readers nor the way back to the sockets. */
static void test_views_stop_nobody(void)
{
    live_next_group();
    pyddsi_session *a = live_lane_session(1 << 15, 64);
    pyddsi_session *b = live_session(true);
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher(a, 7, true),
                                 .count = 500,
                                 .size = 40,
                                 .patient = true};
    struct live_reader keeper = {
        .session = b, .subscriber = live_subscriber(b, 7, 256, PYDDSI_WAIT), .until = 1000};
    pyddsi_received view;
    uint64_t number = 0;
    (void)live_match(a, writer.publisher, 1);
    NEED(live_lane_readers(a, 1));
    uint8_t first[40];
    live_fill(first, sizeof first, 15, 77);
    NEED(pyddsi_session_put(a, writer.publisher, first, sizeof first, 0) == PYDDSI_OK);
    NEED(live_take_one(b, keeper.subscriber, &view));
    live_read_begin(&keeper);
    live_write(&writer);
    CHECK_EQ(writer.accepted, 500);
    writer.from = 500;
    writer.large = 50000; /* too large for the lane, and not for the sockets */
    writer.every = 10;
    live_write(&writer);
    CHECK_EQ(writer.accepted, 1000);
    live_read_join(&keeper);
    CHECK_EQ(keeper.wrong, 0);
    CHECK_EQ(keeper.total, 1000);
    memcpy(&number, view.data + 8, 8);
    CHECK_EQ(number, 77);
    CHECK(memcmp(view.data, first, sizeof first) == 0);
    pyddsi_session_free(a);
    CHECK(memcmp(view.data, first, sizeof first) == 0);
    pyddsi_session_free(b);
    CHECK(memcmp(view.data, first, sizeof first) == 0);
    pyddsi_session_release(b, &view, 1); /* the last that holds the session */
}

/* A sample that is too large for the lane and for every window is refused, and nothing else changes. A loan that is open
 * meanwhile neither stops the way back nor loses its sample. */
static void test_large_ones_and_open_loans(void)
{
    live_next_group();
    pyddsi_session *a = live_lane_session(1 << 15, 8192);
    pyddsi_session *b = live_session(true);
    uint32_t publisher = live_publisher(a, 7, true);
    static uint8_t data[300000];
    uint8_t *lent;
    uint32_t loan;
    struct live_reader reader = {
        .session = b, .subscriber = live_subscriber(b, 7, 256, PYDDSI_WAIT), .until = 4};
    (void)live_match(a, publisher, 1);
    NEED(live_lane_readers(a, 1));
    live_fill(data, sizeof data, 0, 0);
    CHECK_EQ(pyddsi_session_put(a, publisher, data, sizeof data, LIVE_PATIENCE),
             PYDDSI_BAD_ARGUMENT);
    CHECK(live_lane_readers(a, 1));
    CHECK_EQ(pyddsi_session_put(a, publisher, data, 16, LIVE_PATIENCE), PYDDSI_OK);
    CHECK_EQ(live_lane_put(a), 1);
    NEED(pyddsi_session_loan(a, publisher, 100, &lent, &loan, LIVE_PATIENCE) == PYDDSI_OK);
    live_fill(data, 40000, 0, 1);
    live_read_begin(&reader);
    CHECK_EQ(pyddsi_session_put(a, publisher, data, 40000, LIVE_PATIENCE), PYDDSI_OK);
    live_fill(lent, 100, 0, 2);
    CHECK_EQ(pyddsi_session_commit(a, loan, 101), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pyddsi_session_commit(a, loan, 100), PYDDSI_OK);
    CHECK_EQ(pyddsi_session_commit(a, loan, 100), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pyddsi_session_abandon(a, loan), PYDDSI_BAD_ARGUMENT);
    live_fill(data, 50, 0, 3);
    CHECK_EQ(pyddsi_session_put(a, publisher, data, 50, LIVE_PATIENCE), PYDDSI_OK);
    live_read_join(&reader);
    CHECK_EQ(reader.wrong, 0);
    CHECK_EQ(reader.total, 4);
    pyddsi_session_free(a);
    pyddsi_session_free(b);
}

/* Loans of the lane and of the windows have handles that are never taken for each other, however many there were; and one
 * that was lent before the lane was used, or while it is closed, goes where samples go when it is committed. */
static void test_loans_across(void)
{
    live_next_group();
    pyddsi_session *a = live_session(true);
    uint32_t publisher = live_publisher(a, 7, true);
    uint8_t *early, *late;
    uint32_t loan, other;
    for (int i = 0; i < 70000; i++) { /* generations have 16 bits */
        NEED(pyddsi_session_loan(a, publisher, 16, &early, &loan, 0) == PYDDSI_OK);
        NEED(pyddsi_session_abandon(a, loan) == PYDDSI_OK);
    }
    NEED(pyddsi_session_loan(a, publisher, 16, &early, &loan, 0) == PYDDSI_OK);
    pyddsi_session *b = live_session(true);
    struct live_reader reader = {
        .session = b, .subscriber = live_subscriber(b, 7, 256, PYDDSI_WAIT), .until = 2};
    (void)live_match(a, publisher, 1);
    NEED(live_lane_readers(a, 1));
    NEED(pyddsi_session_loan(a, publisher, 16, &late, &other, 0) == PYDDSI_OK);
    live_fill(late, 16, 0, 0);
    CHECK_EQ(pyddsi_session_commit(a, other, 16), PYDDSI_OK);
    live_fill(early, 16, 0, 1);
    CHECK_EQ(pyddsi_session_commit(a, loan, 16), PYDDSI_OK);
    CHECK_EQ(live_lane_put(a), 2);
    live_read_begin(&reader);
    live_read_join(&reader);
    CHECK_EQ(reader.wrong, 0);
    NEED(pyddsi_session_loan(a, publisher, 16, &late, &other, 0) == PYDDSI_OK);
    pyddsi_session_close(a, 0);
    memset(late, 1, 16); /* it may be written to until the session is freed */
    CHECK_EQ(pyddsi_session_commit(a, other, 16), PYDDSI_CLOSED);
    pyddsi_session_free(a);
    pyddsi_session_free(b);
}

/* Forgetting something else, whose handle has the same index, does nothing to a publisher's lane. */
static void test_forget_and_declare_again(void)
{
    live_next_group();
    pyddsi_session *a = live_session(true);
    pyddsi_session *b = live_session(true);
    uint32_t publisher = live_publisher(a, 7, true);
    struct live_reader reader = {.session = b,
                                 .subscriber = live_subscriber(b, 7, 1024, PYDDSI_WAIT)};
    struct live_matches matches = live_match(a, publisher, 1);
    NEED(live_lane_readers(a, 1));
    uint32_t subscriber = live_subscriber(a, 9, 16, PYDDSI_WAIT);
    CHECK_EQ(subscriber & 0xffff, publisher & 0xffff);
    CHECK_EQ(pyddsi_session_forget(a, subscriber), PYDDSI_OK);
    live_read_begin(&reader);
    for (uint32_t round = 0; round < 10; round++) {
        struct live_writer writer = {.session = a,
                                     .publisher = publisher,
                                     .stream = round,
                                     .count = 300,
                                     .size = 24,
                                     .patient = true};
        live_write(&writer);
        CHECK_EQ(writer.accepted, 300);
        CHECK_EQ(pyddsi_session_forget(a, publisher), PYDDSI_OK);
        CHECK_EQ(pyddsi_session_put(a, publisher, &writer, 16, 0), PYDDSI_BAD_ARGUMENT);
        publisher = live_publisher(a, 7, true);
        matches.publisher = publisher;
        matches.now = 0;
        NEED(live_until(a, live_matched, &matches));
    }
    NEED(live_until(a, live_settled, a));
    live_read_end(&reader);
    CHECK_EQ(reader.wrong, 0);
    CHECK_EQ(reader.total, 3000);
    for (uint32_t round = 0; round < 10; round++) {
        CHECK_EQ(reader.got[round], 300);
    }
    pyddsi_session_free(b);
    pyddsi_session_free(a);
}

/* Samples that were put before their session closed are read, also if it closed before their reader had begun to use the
 * lane; what the ledger says is lost of them is no less than what is. */
static void test_close_with_samples_in_the_lane(bool begun)
{
    for (int round = 0; round < 8; round++) {
        live_next_group();
        pyddsi_session *a = live_session(true);
        pyddsi_session *b = live_session(true);
        struct live_writer writer = {.session = a,
                                     .publisher = live_publisher(a, 7, true),
                                     .count = 100,
                                     .size = 24,
                                     .patient = true};
        struct live_reader reader = {.session = b,
                                     .subscriber = live_subscriber(b, 7, 64, PYDDSI_WAIT)};
        (void)live_match(a, writer.publisher, 1);
        if (begun) {
            NEED(live_lane_readers(a, 1));
        }
        live_write(&writer);
        CHECK_EQ(writer.accepted, 100);
        bool lanes = live_lane_put(a) == 100;
        pyddsi_session_close(a, round % 2 == 0 ? 0 : 10000000);
        uint64_t lost = live_lost(a, PYDDSI_AT_WINDOW, PYDDSI_REASON_COUNT);
        pyddsi_session_free(a);
        reader.until = lanes || lost > 100 ? 100 : 100 - lost; /* and perhaps more */
        if (reader.until != 0) {
            live_read_begin(&reader);
            live_read_join(&reader);
        }
        CHECK_EQ(reader.wrong, 0);
        pyddsi_session_free(b);
    }
}

/* A reader whose session is closed under load leaves no trace in the lane; the others lose nothing. */
static void test_close_under_load(void)
{
    live_next_group();
    pyddsi_session *a = live_session(true);
    pyddsi_session *b = live_session(true);
    uint64_t count = LIVE_MANY(40000);
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher(a, 7, true),
                                 .count = count,
                                 .size = 64,
                                 .how = 3,
                                 .patient = true};
    struct live_reader stays = {
        .session = b, .subscriber = live_subscriber(b, 7, 512, PYDDSI_WAIT), .until = count};
    (void)live_match(a, writer.publisher, 1);
    live_read_begin(&stays);
    live_write_begin(&writer);
    for (int round = 0; round < 6; round++) {
        pyddsi_session *c = live_session(true);
        struct live_reader goes = {
            .session = c, .subscriber = live_subscriber(c, 7, 128, PYDDSI_WAIT), .held = 20};
        live_read_begin(&goes);
        NEED(live_lane_readers(a, 2));
        pyddsi_session_close(c, 0); /* its reader is in the middle of taking */
        live_read_join(&goes);
        CHECK_EQ(goes.status, PYDDSI_CLOSED);
        CHECK_EQ(goes.wrong, 0);
        pyddsi_session_free(c);
        live_let_go(&goes);
    }
    live_write_end(&writer);
    live_read_join(&stays);
    CHECK_EQ(stays.wrong, 0);
    CHECK_EQ(stays.total, count);
    CHECK(live_until(a, live_settled, a));
    pyddsi_session_free(a);
    pyddsi_session_free(b);
}

/* A reader that would rather lose the oldest holds nobody up, even if it does not read at all; nothing is lost twice. */
static void test_drop_oldest_holds_nobody_up(void)
{
    live_next_group();
    pyddsi_session *a = live_lane_session(1 << 20, 256);
    pyddsi_session *b = live_session(true);
    uint64_t count = LIVE_MANY(20000);
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher(a, 7, true),
                                 .count = count,
                                 .size = 24,
                                 .patient = true};
    struct live_reader reader = {
        .session = b, .subscriber = live_subscriber(b, 7, 16, PYDDSI_DROP_OLDEST), .gaps = true};
    (void)live_match(a, writer.publisher, 1);
    NEED(live_lane_readers(a, 1));
    live_write(&writer);
    CHECK_EQ(writer.accepted, count);
    pyddsi_session_close(a, LIVE_PATIENCE);
    CHECK(live_settled(a));
    CHECK_EQ(live_lost(a, PYDDSI_AT_WINDOW, PYDDSI_REASON_COUNT), 0);
    live_read_begin(&reader);
    live_read_end(&reader);
    CHECK_EQ(reader.wrong, 0);
    CHECK_EQ(reader.expected[0], count); /* the newest are there */
    CHECK_EQ(reader.total + live_lost(b, PYDDSI_AT_RING, PYDDSI_BY_OVERWRITTEN), count);
    pyddsi_session_free(b);
    pyddsi_session_free(a);
}

/* Samples that only few of would fit the lane get a larger one, on the way to which nothing is lost or overtaken; and go by
 * that, all but those that were put meanwhile. */
static void test_lanes_grow(int how)
{
    live_next_group();
    pyddsi_session *a = live_session(true);
    pyddsi_session *b = live_session(true);
    pyddsi_session *c = live_session(true);
    uint64_t count = LIVE_MANY(4000);
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher(a, 7, true),
                                 .count = count,
                                 .size = 2000,
                                 .how = how,
                                 .patient = true};
    struct live_reader readers[2];
    for (int i = 0; i < 2; i++) {
        pyddsi_session *session = i == 0 ? b : c;
        readers[i] =
            (struct live_reader){.session = session,
                                 .subscriber = live_subscriber(session, 7, 64, PYDDSI_WAIT),
                                 .until = count + 300};
    }
    (void)live_match(a, writer.publisher, 2);
    NEED(live_lane_readers(a, 2));
    live_read_begin(&readers[0]);
    live_read_begin(&readers[1]);
    live_write(&writer);
    uint64_t small = live_lane_put(a);
    CHECK_EQ(small, count);
    writer.from = count;
    writer.count = 300;
    writer.size = 200000;
    live_write(&writer);
    CHECK_EQ(writer.accepted, count + 300);
    live_read_join(&readers[0]);
    live_read_join(&readers[1]);
    for (int i = 0; i < 2; i++) {
        live_let_go(&readers[i]);
        CHECK_EQ(readers[i].wrong, 0);
        CHECK_EQ(readers[i].total, count + 300);
    }
    CHECK(live_lane_readers(a, 2));
    CHECK(live_lane_put(a) >= small + 150);
    CHECK(live_until(a, live_settled, a));
    pyddsi_session_free(c);
    pyddsi_session_free(b);
    pyddsi_session_free(a);
}

int main(void)
{
    test_from_sockets_to_the_lane(true, 16, 0, 0);
    test_from_sockets_to_the_lane(true, 40, 3, 9);
    test_from_sockets_to_the_lane(true, 5000, 2, 0);
    test_from_sockets_to_the_lane(false, 16, 0, 0);
    test_many_threads();
    test_readers_come_and_go(false);
    test_readers_come_and_go(true);
    test_views_stop_nobody();
    test_large_ones_and_open_loans();
    test_loans_across();
    test_forget_and_declare_again();
    test_close_with_samples_in_the_lane(true);
    test_close_with_samples_in_the_lane(false);
    test_close_under_load();
    test_drop_oldest_holds_nobody_up();
    test_lanes_grow(0);
    test_lanes_grow(3);
    return test_result();
}
