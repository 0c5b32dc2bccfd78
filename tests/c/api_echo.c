/* A session's own subscribers: they get what it publishes, beside the peers, in order, and nothing is lost without a line. */
#include "live.h"

/* Writers in one session, and readers in it and in another: all get everything in order, by sockets or by lanes, while
 * readers of the first come and go. */
static void test_here_and_there(bool shared, bool reliable, size_t large)
{
    enum { WRITERS = 3 };
    live_next_group();
    uint64_t count = LIVE_MANY(4000);
    pyddsi_session *a = live_session(shared);
    pyddsi_session *b = live_session(shared);
    struct live_writer writers[WRITERS];
    struct live_reader here = {.session = a, .held = 5, .gaps = !reliable};
    struct live_reader there = {.session = b, .gaps = !reliable};
    here.subscriber = live_subscriber(a, 7, 256, PYDDSI_WAIT);
    there.subscriber = live_subscriber(b, 7, 512, PYDDSI_WAIT);
    here.until = there.until = reliable ? WRITERS * count : 0;
    for (uint32_t i = 0; i < WRITERS; i++) {
        writers[i] = (struct live_writer){.session = a,
                                          .publisher = live_publisher(a, 7, reliable),
                                          .stream = i,
                                          .count = count,
                                          .size = 16 + 30 * i,
                                          .large = large,
                                          .every = 100,
                                          .how = reliable ? (int)i : 0,
                                          .patient = true};
    }
    (void)live_match(a, 0, WRITERS);
    CHECK_EQ(pyddsi_session_own(a, writers[0].publisher), 1);
    live_read_begin(&here);
    live_read_begin(&there);
    for (int i = 0; i < WRITERS; i++) {
        live_write_begin(&writers[i]);
    }
    for (int i = 0; i < 20; i++) { /* one that is never read, and loses what is older */
        uint32_t guest = live_subscriber(a, 7, 8, PYDDSI_DROP_OLDEST);
        (void)sched_yield();
        CHECK_EQ(pyddsi_session_forget(a, guest), PYDDSI_OK);
    }
    for (int i = 0; i < WRITERS; i++) {
        live_write_end(&writers[i]);
        CHECK_EQ(writers[i].accepted, count);
    }
    struct live_reader *both[] = {&here, &there};
    for (int i = 0; i < 2; i++) {
        if (reliable) {
            live_read_join(both[i]);
            live_let_go(both[i]);
            CHECK_EQ(both[i]->total, WRITERS * count);
        } else {
            live_read_end(both[i]);
        }
        CHECK_EQ(both[i]->wrong, 0);
    }
    if (!reliable) { /* what did not come has a line */
        uint64_t put = WRITERS * count;
        CHECK(here.total <= put &&
              put - here.total <= live_lost(a, PYDDSI_AT_RING, PYDDSI_BY_FULL));
    }
    CHECK(live_until(a, live_settled, a));
    pyddsi_session_free(a);
    pyddsi_session_free(b);
}

struct put {
    pyddsi_session *session;
    uint32_t publisher;
    int status;
    atomic_bool begun;
};

static void *put_patiently(void *context)
{
    struct put *put = context;
    atomic_store(&put->begun, true);
    put->status = pyddsi_session_put(put->session, put->publisher, "patience is a virtue", 20,
                                     10 * LIVE_PATIENCE);
    return NULL;
}

/* A reliable put waits for a reader of its own session, whose taking wakes it; best effort waits for nobody. */
static void test_waiting(void)
{
    live_next_group();
    pyddsi_session *a = live_session(false);
    struct put put = {.session = a, .publisher = live_publisher(a, 7, true), .status = -1};
    uint32_t careless = live_publisher(a, 8, false);
    uint32_t reader = live_subscriber(a, 7, 2, PYDDSI_WAIT);
    (void)live_subscriber(a, 8, 2, PYDDSI_WAIT);
    for (int i = 0; i < 5; i++) {
        int status = pyddsi_session_put(a, put.publisher, "x", 1, 0);
        CHECK_EQ(status, i < 2 ? PYDDSI_OK : PYDDSI_AGAIN);
        CHECK_EQ(pyddsi_session_put(a, careless, "y", 1, 0), PYDDSI_OK);
    }
    CHECK_EQ(live_lost(a, PYDDSI_AT_RING, PYDDSI_BY_FULL), 3);
    for (int round = 0; round < 50; round++) { /* in most of them it sleeps before we take */
        pthread_t thread;
        pyddsi_received samples[8];
        size_t count;
        struct timespec limit;
        atomic_store(&put.begun, false);
        NEED(pthread_create(&thread, NULL, put_patiently, &put) == 0);
        while (!atomic_load(&put.begun)) {
            (void)sched_yield();
        }
        for (int i = 0; i < round; i++) {
            (void)sched_yield();
        }
        NEED(pyddsi_session_take(a, reader, samples, 1, &count) == PYDDSI_OK && count == 1);
        NEED(clock_gettime(CLOCK_REALTIME, &limit) == 0);
        limit.tv_sec += (time_t)(LIVE_PATIENCE / 1000000000);
        NEED(pthread_timedjoin_np(thread, NULL, &limit) == 0);
        CHECK_EQ(put.status, PYDDSI_OK);
        pyddsi_session_release(a, samples, count);
    }
    pyddsi_session_free(a);
}

/* Memory for what is echoed has a limit, and what is looked at outlives its session. */
static void test_memory(void)
{
    live_next_group();
    pyddsi_session_options options = live_options(false);
    options.node.sample_max = 1 << 20;
    pyddsi_session *a = live_open(&options);
    uint32_t reliable = live_publisher(a, 7, true);
    uint32_t careless = live_publisher(a, 7, false);
    uint32_t reader = live_subscriber(a, 7, 512, PYDDSI_WAIT);
    uint8_t *data = calloc(1, 3 << 19);
    NEED(data != NULL);
    CHECK_EQ(pyddsi_session_put(a, reliable, data, 3 << 18, 0), PYDDSI_OK);
    CHECK_EQ(pyddsi_session_put(a, reliable, data, 3 << 18, 0), PYDDSI_AGAIN);
    CHECK_EQ(pyddsi_session_put(a, careless, data, 3 << 18, 0), PYDDSI_OK);
    CHECK_EQ(live_lost(a, PYDDSI_AT_RING, PYDDSI_BY_FULL), 1);
    CHECK_EQ(pyddsi_session_put(a, reliable, data, 3 << 19, 0), PYDDSI_OK);
    CHECK_EQ(live_lost(a, PYDDSI_AT_RING, PYDDSI_BY_SIZE), 1);
    free(data);
    pyddsi_received samples[8];
    size_t count;
    NEED(pyddsi_session_take(a, reader, samples, 8, &count) == PYDDSI_OK);
    CHECK_EQ(count, 1);
    CHECK_EQ(samples[0].peer, PYDDSI_OWN);
    pyddsi_session_release(a, samples, 1);
    CHECK_EQ(pyddsi_session_put(a, reliable, "later", 5, 0), PYDDSI_OK);
    NEED(pyddsi_session_take(a, reader, samples, 8, &count) == PYDDSI_OK && count == 1);
    pyddsi_session_free(a);
    CHECK(memcmp(samples[0].data, "later", 5) == 0);
    pyddsi_session_release(a, samples, 1);
}

int main(void)
{
    test_here_and_there(false, true, 3000);
    test_here_and_there(true, true, 3000);
    test_here_and_there(true, true, 50000);
    test_here_and_there(true, false, 3000);
    test_waiting();
    test_memory();
    return test_result();
}
