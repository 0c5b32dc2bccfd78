/* Room in a lane: who waits for it is told when there is some, whoever makes it; and who must not wait goes on. */
#include "live.h"

/* Two sessions, and between them a publisher's lane with so much room. */
struct pair {
    pyddsi_session *a, *b;
    uint32_t publisher, subscriber;
};

static struct pair joined(uint32_t bytes, uint32_t samples)
{
    live_next_group();
    struct pair pair = {live_lane_session(bytes, samples), live_session(true), 0, 0};
    pair.publisher = live_publisher(pair.a, 7, true);
    pair.subscriber = live_subscriber(pair.b, 7, 256, PYDDSI_WAIT);
    (void)live_match(pair.a, pair.publisher, 1);
    NEED(live_lane_readers(pair.a, 1));
    return pair;
}

static void part(struct pair *pair)
{
    pyddsi_session_free(pair->a);
    pyddsi_session_free(pair->b);
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
    struct pair pair = joined(1 << 15, ROOM);
    struct live_writer writer = {.session = pair.a,
                                 .publisher = pair.publisher,
                                 .count = ROOM + 1,
                                 .size = 40,
                                 .patient = true};
    struct brought brought = {pair.b, ROOM};
    pyddsi_received views[ROOM], next;
    size_t count = 0;
    live_write_begin(&writer);
    NEED(live_until(pair.b, is_brought, &brought)); /* since the last put has asked for it, */
    live_until_waits(&writer.number);               /* and sleeps */
    CHECK_EQ(pyddsi_session_take(pair.b, pair.subscriber, views, ROOM, &count), PYDDSI_OK);
    CHECK_EQ(count, ROOM);
    NEED(live_take_one(pair.b, pair.subscriber, &next));
    live_write_end(&writer);
    CHECK_EQ(writer.accepted, ROOM + 1);
    pyddsi_session_release(pair.b, views, count);
    pyddsi_session_release(pair.b, &next, 1);
    part(&pair);
}

/* The same, but the reader begins to look between two puts: it finds that nobody waits, and tells nobody. So the second put
 * must see for itself that the lane moves no more. */
static void test_views_begin_between_two_puts(void)
{
    static const uint8_t data[3000];
    struct pair pair = joined(4096, 16);
    pyddsi_received views[4];
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(pyddsi_session_put(pair.a, pair.publisher, data, 1000, 0), PYDDSI_OK);
    }
    CHECK_EQ(pyddsi_session_put(pair.a, pair.publisher, data, 3000, 0), PYDDSI_AGAIN);
    NEED(live_take_one(pair.b, pair.subscriber, &views[0]));
    /* what was asked for is told, and is not enough */
    pyddsi_session_release(pair.b, &views[0], 1);
    for (int i = 1; i < 4; i++) {
        NEED(live_take_one(pair.b, pair.subscriber, &views[i]));
    }
    CHECK_EQ(pyddsi_session_put(pair.a, pair.publisher, data, 3000, LIVE_PATIENCE), PYDDSI_OK);
    pyddsi_session_release(pair.b, &views[1], 3);
    part(&pair);
}

struct waiter {
    pthread_t thread;
    atomic_int number;
    struct pair pair;
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
                         ? pyddsi_session_loan(waiter->pair.a, waiter->pair.publisher, waiter->size,
                                               &place, &loan, 10 * LIVE_PATIENCE)
                         : pyddsi_session_put(waiter->pair.a, waiter->pair.publisher, data,
                                              waiter->size, 10 * LIVE_PATIENCE);
    atomic_store(&waiter->over, true);
    return NULL;
}

/* It goes on, and not by its own time. */
static void see_over(struct waiter *waiter)
{
    uint64_t end = live_now() + LIVE_PATIENCE;
    while (!atomic_load(&waiter->over) && live_now() < end) {
        (void)sched_yield();
    }
    CHECK(atomic_load(&waiter->over));
    NEED(pthread_join(waiter->thread, NULL) == 0);
    CHECK_EQ(waiter->status, PYDDSI_OK);
}

enum ending { ABANDONED, COMMITTED, SEEN };

/* A thread waits for what another thread's loans have: their memory, or, as so many are open, a row. It is told when one is over,
 * and when the reader has seen what was committed late. */
static void test_loans_tell_who_waits(enum ending ending, size_t size, bool lends)
{
    struct pair pair = joined(4096, 256);
    struct waiter waiter = {.pair = pair, .size = size, .lends = lends};
    uint32_t loans[64];
    uint8_t *place;
    pyddsi_received view;
    int count = size > 1000 ? 1 : 64;
    for (int i = 0; i < count; i++) {
        CHECK_EQ(pyddsi_session_loan(pair.a, pair.publisher, size, &place, &loans[i], 0),
                 PYDDSI_OK);
    }
    if (ending == SEEN) { /* the others are late */
        for (int i = count - 1; i >= 0; i--) {
            CHECK_EQ(pyddsi_session_commit(pair.a, loans[i], size), PYDDSI_OK);
        }
        CHECK_EQ(pyddsi_session_loan(pair.a, pair.publisher, size, &place, &loans[0], 0),
                 PYDDSI_OK);
    }
    NEED(pthread_create(&waiter.thread, NULL, wait_for_room, &waiter) == 0);
    live_until_waits(&waiter.number);
    CHECK(!atomic_load(&waiter.over));
    if (ending == ABANDONED) {
        CHECK_EQ(pyddsi_session_abandon(pair.a, loans[0]), PYDDSI_OK);
    } else if (ending == COMMITTED) {
        CHECK_EQ(pyddsi_session_commit(pair.a, loans[0], size), PYDDSI_OK);
    }
    for (int i = 0; ending == SEEN && i < count; i++) {
        NEED(live_take_one(pair.b, pair.subscriber, &view));
        pyddsi_session_release(pair.b, &view, 1);
    }
    see_over(&waiter);
    part(&pair);
}

/* As many as fit; then a put has asked to be told of room. */
static int fill_up(const struct pair *pair)
{
    static const uint8_t data[16];
    int count = 0;
    while (pyddsi_session_put(pair->a, pair->publisher, data, sizeof data, 0) == PYDDSI_OK) {
        count++;
    }
    return count;
}

/* Whether a writer that waits is told of the room of a single sample at once: then it would be woken for each. */
static bool is_told_at_once(void)
{
    struct pair pair = joined(1 << 12, 64);
    struct waiter waiter = {.pair = pair, .size = 16};
    pyddsi_received view;
    int count = fill_up(&pair);
    CHECK_EQ(count, 64);
    NEED(pthread_create(&waiter.thread, NULL, wait_for_room, &waiter) == 0);
    live_until_waits(&waiter.number);
    NEED(live_take_one(pair.b, pair.subscriber, &view));
    uint32_t heard = pyddsi_session_listen(pair.a);
    pyddsi_session_release(pair.b, &view, 1);
    bool told = pyddsi_session_wait(pair.a, heard, 0) == PYDDSI_OK;
    for (int i = 1; i < count; i++) {
        NEED(live_take_one(pair.b, pair.subscriber, &view));
        pyddsi_session_release(pair.b, &view, 1);
    }
    see_over(&waiter);
    part(&pair);
    return told;
}

/* It is told in the end, although the reader takes no more. */
static void test_is_told_of_little_room(void)
{
    struct pair pair = joined(1 << 12, 64);
    struct waiter waiter = {.pair = pair, .size = 16};
    pyddsi_received view;
    CHECK_EQ(fill_up(&pair), 64);
    NEED(pthread_create(&waiter.thread, NULL, wait_for_room, &waiter) == 0);
    live_until_waits(&waiter.number);
    NEED(live_take_one(pair.b, pair.subscriber, &view));
    pyddsi_session_release(pair.b, &view, 1);
    see_over(&waiter);
    part(&pair);
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
    pyddsi_session *a = live_lane_session(4096, 16);
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
    pyddsi_session *a = live_lane_session(size > 40000 ? 1 << 15 : 1 << 21, 8192);
    uint32_t publisher = live_publisher(a, 7, false);
    (void)live_match(a, publisher, 1);
    bool in_lane = live_lane_readers(a, 1);
    (void)kill(child, SIGSTOP);
    CHECK(in_lane);
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

int main(void)
{
    test_views_begin_while_a_put_waits();
    test_views_begin_between_two_puts();
    test_loans_tell_who_waits(ABANDONED, 3000, false);
    test_loans_tell_who_waits(ABANDONED, 3000, true);
    test_loans_tell_who_waits(ABANDONED, 8, true);
    test_loans_tell_who_waits(COMMITTED, 8, true);
    test_loans_tell_who_waits(SEEN, 8, true);
    int told = 0;
    for (int round = 0; round < 10; round++) {
        told += is_told_at_once();
    }
    CHECK(told <= 3); /* its moment may be over before we look */
    test_is_told_of_little_room();
    test_puts_wait_for_no_joiner_for_long();
    test_best_effort_waits_for_no_reader(40000);
    test_best_effort_waits_for_no_reader(50000);
    return test_result();
}
