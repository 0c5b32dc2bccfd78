/* Lanes between sessions of one process: order, completeness and the books, while readers and publishers come and go. The
 * file is long, as each way in which they can come and go is a test. */
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

/* Readers in other sessions come and go, some of them without shared memory, while a publisher writes. Each gets
 * everything from its first sample to its last, in order. */
static void test_readers_come_and_go(bool large)
{
    enum { OTHERS = 4, ROUNDS = 3 };
    live_next_group();
    pyddsi_session_options options = live_options(true);
    options.lane_bytes = 1 << 15;
    options.lane_samples = 512;
    pyddsi_session *a = live_open(&options);
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
    pyddsi_session_options options = live_options(true);
    options.lane_bytes = 1 << 15;
    options.lane_samples = 64;
    pyddsi_session *a = live_open(&options);
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

struct brought {
    pyddsi_session *session;
    uint64_t samples;
};

static bool is_brought(void *context)
{
    const struct brought *brought = context;
    pyddsi_session_counts counts;
    pyddsi_session_count(brought->session, &counts);
    return counts.lane_taken == brought->samples;
}

/* A writer waits for room; only then its reader takes what its rings have, and goes on looking at it. If it failed, the writer would
 * wait for as long as the reader looks, since nobody tells it that the lane moves no more. */
static void test_views_begin_while_a_put_waits(void)
{
    enum { ROOM = 16 };
    live_next_group();
    pyddsi_session_options options = live_options(true);
    options.lane_bytes = 1 << 15;
    options.lane_samples = ROOM;
    pyddsi_session *a = live_open(&options);
    pyddsi_session *b = live_session(true);
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher(a, 7, true),
                                 .count = ROOM + 1,
                                 .size = 40,
                                 .patient = true};
    struct brought brought = {b, ROOM};
    pyddsi_received views[ROOM], next;
    uint32_t subscriber = live_subscriber(b, 7, 256, PYDDSI_WAIT);
    size_t count = 0;
    (void)live_match(a, writer.publisher, 1);
    NEED(live_lane_readers(a, 1));
    live_write_begin(&writer);
    NEED(live_until(b, is_brought, &brought)); /* since the last put has asked for it, */
    live_until_waits(&writer.number);          /* and sleeps */
    CHECK_EQ(pyddsi_session_take(b, subscriber, views, ROOM, &count), PYDDSI_OK);
    CHECK_EQ(count, ROOM);
    NEED(live_take_one(b, subscriber, &next));
    live_write_end(&writer);
    CHECK_EQ(writer.accepted, ROOM + 1);
    pyddsi_session_release(b, views, count);
    pyddsi_session_release(b, &next, 1);
    pyddsi_session_free(a);
    pyddsi_session_free(b);
}

/* The same, but the reader begins to look between two puts: it finds that nobody waits, and tells nobody. So the second put
 * must see for itself that the lane moves no more. */
static void test_views_begin_between_two_puts(void)
{
    live_next_group();
    pyddsi_session_options options = live_options(true);
    options.lane_bytes = 4096;
    options.lane_samples = 16;
    pyddsi_session *a = live_open(&options);
    pyddsi_session *b = live_session(true);
    uint32_t publisher = live_publisher(a, 7, true);
    uint32_t subscriber = live_subscriber(b, 7, 256, PYDDSI_WAIT);
    static const uint8_t data[3000];
    pyddsi_received views[4];
    (void)live_match(a, publisher, 1);
    NEED(live_lane_readers(a, 1));
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(pyddsi_session_put(a, publisher, data, 1000, 0), PYDDSI_OK);
    }
    CHECK_EQ(pyddsi_session_put(a, publisher, data, 3000, 0), PYDDSI_AGAIN);
    NEED(live_take_one(b, subscriber, &views[0]));
    pyddsi_session_release(b, &views[0], 1); /* what was asked for is told, and is not enough */
    for (int i = 1; i < 4; i++) {
        NEED(live_take_one(b, subscriber, &views[i]));
    }
    CHECK_EQ(pyddsi_session_put(a, publisher, data, 3000, LIVE_PATIENCE), PYDDSI_OK);
    pyddsi_session_release(b, &views[1], 3);
    pyddsi_session_free(a);
    pyddsi_session_free(b);
}

struct waiter {
    pthread_t thread;
    atomic_int number;
    pyddsi_session *session;
    uint32_t publisher;
    size_t size;
    bool lends;
    atomic_bool over;
    int status;
};

static void *wait_for_room(void *context)
{
    static const uint8_t data[3000];
    struct waiter *waiter = context;
    uint8_t *place;
    uint32_t loan;
    atomic_store(&waiter->number, (int)syscall(SYS_gettid));
    waiter->status = waiter->lends
                         ? pyddsi_session_loan(waiter->session, waiter->publisher, waiter->size,
                                               &place, &loan, 10 * LIVE_PATIENCE)
                         : pyddsi_session_put(waiter->session, waiter->publisher, data,
                                              waiter->size, 10 * LIVE_PATIENCE);
    atomic_store(&waiter->over, true);
    return NULL;
}

enum ending { ABANDONED, COMMITTED, SEEN };

/* A thread waits for what another thread's loans have: their memory, or, as so many are open, a row. It is told when one is over,
 * and when the reader has seen what was committed late. */
static void test_loans_tell_who_waits(enum ending ending, size_t size, bool lends)
{
    live_next_group();
    pyddsi_session_options options = live_options(true);
    options.lane_bytes = 4096;
    options.lane_samples = 256;
    pyddsi_session *a = live_open(&options);
    pyddsi_session *b = live_session(true);
    struct waiter waiter = {
        .session = a, .publisher = live_publisher(a, 7, true), .size = size, .lends = lends};
    uint32_t subscriber = live_subscriber(b, 7, 256, PYDDSI_WAIT);
    uint32_t loans[64];
    uint8_t *place;
    pyddsi_received view;
    int count = size > 1000 ? 1 : 64;
    (void)live_match(a, waiter.publisher, 1);
    NEED(live_lane_readers(a, 1));
    for (int i = 0; i < count; i++) {
        CHECK_EQ(pyddsi_session_loan(a, waiter.publisher, size, &place, &loans[i], 0), PYDDSI_OK);
    }
    if (ending == SEEN) { /* the others are late */
        for (int i = count - 1; i >= 0; i--) {
            CHECK_EQ(pyddsi_session_commit(a, loans[i], size), PYDDSI_OK);
        }
        CHECK_EQ(pyddsi_session_loan(a, waiter.publisher, size, &place, &loans[0], 0), PYDDSI_OK);
    }
    NEED(pthread_create(&waiter.thread, NULL, wait_for_room, &waiter) == 0);
    live_until_waits(&waiter.number);
    CHECK(!atomic_load(&waiter.over));
    if (ending == ABANDONED) {
        CHECK_EQ(pyddsi_session_abandon(a, loans[0]), PYDDSI_OK);
    } else if (ending == COMMITTED) {
        CHECK_EQ(pyddsi_session_commit(a, loans[0], size), PYDDSI_OK);
    }
    for (int i = 0; ending == SEEN && i < count; i++) {
        NEED(live_take_one(b, subscriber, &view));
        pyddsi_session_release(b, &view, 1);
    }
    uint64_t end = live_now() + LIVE_PATIENCE;
    while (!atomic_load(&waiter.over) && live_now() < end) {
        (void)sched_yield();
    }
    CHECK(atomic_load(&waiter.over)); /* and not by its own time */
    NEED(pthread_join(waiter.thread, NULL) == 0);
    CHECK_EQ(waiter.status, PYDDSI_OK);
    pyddsi_session_free(a);
    pyddsi_session_free(b);
}

struct trickle {
    pyddsi_session *session;
    uint32_t publisher;
    uint64_t next; /* put then: the window must not be full before there is a lane */
};

static bool has_a_lane_again(void *context)
{
    static const uint8_t data[64];
    struct trickle *trickle = context;
    pyddsi_session_counts counts;
    pyddsi_session_count(trickle->session, &counts);
    if (counts.lanes == 0 && live_now() >= trickle->next) {
        const pyddsi_bytes two[2] = {{data, sizeof data}, {data, sizeof data}};
        size_t taken;
        NEED(pyddsi_session_put_many(trickle->session, trickle->publisher, two, 2, &taken, 0) ==
             PYDDSI_OK);
        trickle->next = live_now() + 50000000;
    }
    return counts.lanes != 0;
}

/* Two readers have no room for what came by the sockets when there is a lane again. The puts wait for each of them only a moment,
 * and not for one and then the other, for ever. */
static void test_puts_wait_for_no_joiner_for_long(void)
{
    static const uint8_t data[20000];
    live_next_group();
    pyddsi_session_options options = live_options(true);
    options.lane_bytes = 4096;
    options.lane_samples = 16;
    pyddsi_session *a = live_open(&options);
    pyddsi_session *b = live_session(true);
    pyddsi_session *c = live_session(true);
    struct trickle trickle = {a, live_publisher_by(a, 7, true, PYDDSI_WAY_EACH), 0};
    (void)live_subscriber(b, 7, 4, PYDDSI_WAIT);
    (void)live_subscriber(c, 7, 4, PYDDSI_WAIT);
    (void)live_match(a, trickle.publisher, 2);
    NEED(live_lane_readers(a, 2));
    CHECK_EQ(pyddsi_session_put(a, trickle.publisher, data, sizeof data, LIVE_PATIENCE), PYDDSI_OK);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(pyddsi_session_put(a, trickle.publisher, data, 64, LIVE_PATIENCE), PYDDSI_OK);
    }
    NEED(live_until(a, has_a_lane_again, &trickle));
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(pyddsi_session_put(a, trickle.publisher, data, 64, LIVE_PATIENCE), PYDDSI_OK);
    }
    pyddsi_session_free(a);
    pyddsi_session_free(b);
    pyddsi_session_free(c);
}

/* A reader's process is stopped, so what was put stays in the lane; a best effort sample that should have a larger lane, or does
 * not fit into this one, does not wait for that reader. */
static void test_best_effort_waits_for_no_reader(size_t size)
{
    static const uint8_t data[50000];
    live_next_group();
    pid_t child = fork();
    NEED(child >= 0);
    if (child == 0) {
        (void)live_subscriber(live_session(true), 7, 256, PYDDSI_WAIT);
        for (;;) { /* until it is killed */
            (void)pause();
        }
    }
    pyddsi_session_options options = live_options(true);
    options.lane_bytes = size > 40000 ? 1 << 15 : 1 << 21;
    pyddsi_session *a = live_open(&options);
    uint32_t publisher = live_publisher(a, 7, false);
    (void)live_match(a, publisher, 1);
    bool joined = live_lane_readers(a, 1);
    (void)kill(child, SIGSTOP);
    CHECK(joined);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(pyddsi_session_put(a, publisher, data, 64, 0), PYDDSI_OK);
    }
    /* less than it takes until the reader's session is over */
    CHECK_EQ(pyddsi_session_put(a, publisher, data, size, 2000000000), PYDDSI_OK);
    CHECK_EQ(pyddsi_session_put(a, publisher, data, 64, 2000000000), PYDDSI_OK);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    pyddsi_session_free(a);
}

/* A sample that is too large for the lane and for every window is refused, and nothing else changes. A loan that is open
 * meanwhile neither stops the way back nor loses its sample. */
static void test_large_ones_and_open_loans(void)
{
    live_next_group();
    pyddsi_session_options options = live_options(true);
    options.lane_bytes = 1 << 15;
    pyddsi_session *a = live_open(&options);
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
                                     .subscriber = live_subscriber(b, 7, 16, PYDDSI_WAIT)};
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
    pyddsi_session_options options = live_options(true);
    options.lane_samples = 256;
    pyddsi_session *a = live_open(&options);
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
    test_views_begin_while_a_put_waits();
    test_views_begin_between_two_puts();
    test_loans_tell_who_waits(ABANDONED, 3000, false);
    test_loans_tell_who_waits(ABANDONED, 3000, true);
    test_loans_tell_who_waits(ABANDONED, 8, true);
    test_loans_tell_who_waits(COMMITTED, 8, true);
    test_loans_tell_who_waits(SEEN, 8, true);
    test_puts_wait_for_no_joiner_for_long();
    test_best_effort_waits_for_no_reader(40000);
    test_best_effort_waits_for_no_reader(50000);
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
