/* Sessions without shared memory: order and completeness by the sockets, waiting, and ends. It is long because what
 * holds for one writer is tried again with many, and with threads that are held up. */
#include "live.h"

#include <poll.h>

#include "api/session.h"

/* What cannot be is refused with a text, and leaves nothing behind. */
static void test_open_fails(void)
{
    pyddsi_session *session = (pyddsi_session *)&session;
    char text[PYDDSI_TEXT_MAX] = "";
    live_next_group();
    pyddsi_session_options options = live_options(true);
    options.node.peers_max = 0;
    CHECK_EQ(pyddsi_session_open(&session, &options, text), PYDDSI_BAD_ARGUMENT);
    CHECK(session == NULL && text[0] != '\0');
    options = live_options(true);
    (void)snprintf(options.interface, sizeof options.interface, "nosuch0");
    CHECK(pyddsi_session_open(&session, &options, text) < 0);
    CHECK(session == NULL && text[0] != '\0');
    options = live_options(true);
    options.peer_count = 17;
    CHECK_EQ(pyddsi_session_open(&session, &options, text), PYDDSI_BAD_ARGUMENT);
    pyddsi_session_free(NULL);
}

/* A session closes none of the descriptors that are not its own, such as 0. */
static void test_descriptors(void)
{
    live_next_group();
    int zero = dup(0);
    NEED(zero >= 0 && close(0) == 0);
    int pipes[2];
    NEED(pipe(pipes) == 0); /* one of them is 0 now */
    CHECK_EQ(pipes[0], 0);
    for (int i = 0; i < 3; i++) {
        pyddsi_session *a = live_session(i != 0);
        pyddsi_session *b = live_session(i != 1);
        uint32_t publisher = live_publisher(a, 7, true);
        uint32_t subscriber = live_subscriber(b, 7, 16, PYDDSI_WAIT);
        (void)live_match(a, publisher, 1);
        CHECK_EQ(pyddsi_session_forget(b, subscriber), PYDDSI_OK);
        pyddsi_session_free(a);
        pyddsi_session_free(b);
    }
    char byte = 'x';
    CHECK_EQ(write(pipes[1], &byte, 1), 1);
    CHECK_EQ(read(0, &byte, 1), 1);
    (void)close(pipes[1]);
    NEED(dup2(zero, 0) == 0 && close(zero) == 0);
}

/* Several writers and readers in several sessions: everything once and in order, by sockets alone. */
static void test_order(bool reliable)
{
    enum { WRITERS = 4, READERS = 3 };
    live_next_group();
    pyddsi_session *a = live_session(false);
    pyddsi_session *readers[READERS];
    struct live_reader reading[READERS];
    struct live_writer writers[WRITERS];
    uint64_t count = LIVE_MANY(8000);
    for (uint32_t i = 0; i < WRITERS; i++) {
        writers[i] = (struct live_writer){.session = a,
                                          .publisher = live_publisher(a, 7 + i / 2, reliable),
                                          .stream = i,
                                          .count = count,
                                          .size = 16 + 10 * i,
                                          .large = 9000,
                                          .every = 200,
                                          .how = reliable ? (int)i : 0,
                                          .patient = true};
    }
    for (int i = 0; i < READERS; i++) {
        readers[i] = live_session(i == 0);
        reading[i] = (struct live_reader){.session = readers[i], .gaps = !reliable, .held = 3};
        reading[i].subscriber = live_subscriber(readers[i], i == 2 ? 8 : 7, 512, PYDDSI_WAIT);
        reading[i].until = reliable ? 2 * count : 0;
    }
    (void)live_match(a, 0, 6); /* two publishers of 7 in two sessions, two of 8 in one */
    for (int i = 0; i < READERS; i++) {
        live_read_begin(&reading[i]);
    }
    for (int i = 0; i < WRITERS; i++) {
        live_write_begin(&writers[i]);
    }
    for (int i = 0; i < WRITERS; i++) {
        live_write_end(&writers[i]);
        CHECK_EQ(writers[i].accepted, count);
    }
    for (int i = 0; i < READERS; i++) {
        if (reliable) {
            live_read_join(&reading[i]);
            live_let_go(&reading[i]);
            CHECK_EQ(reading[i].total, 2 * count);
        } else {
            live_read_end(&reading[i]);
        }
        CHECK_EQ(reading[i].wrong, 0);
    }
    CHECK(live_until(a, live_settled, a));
    CHECK_EQ(live_lane_put(a), 0);
    pyddsi_session_free(a);
    for (int i = 0; i < READERS; i++) {
        pyddsi_session_free(readers[i]);
    }
}

static void *wait_for_ever(void *context)
{
    pyddsi_session *session = context;
    int status;
    do {
        status = pyddsi_session_wait(session, pyddsi_session_listen(session), UINT64_MAX);
    } while (status == PYDDSI_OK || status == PYDDSI_AGAIN);
    return (void *)(intptr_t)status;
}

static void *close_it(void *context)
{
    pyddsi_session_close(context, LIVE_PATIENCE);
    return NULL;
}

/* Closing ends every wait, from several threads as well, and a put that waits for room; the event loop's descriptor tells
 * of it; books and samples stay. */
static void test_close(void)
{
    for (int round = 0; round < 10; round++) {
        live_next_group();
        pyddsi_session *a = live_session(round % 2);
        pyddsi_session *b = live_session(round % 2);
        struct live_writer writer = {.session = a,
                                     .publisher = live_publisher(a, 7, true),
                                     .count = UINT64_MAX / 2,
                                     .size = 64,
                                     .patient = true};
        uint32_t subscriber = live_subscriber(b, 7, 16, PYDDSI_WAIT);
        int fd = pyddsi_session_fd(b);
        pthread_t waiting, closing[2];
        pyddsi_received sample;
        void *answer;
        pyddsi_stats stats;
        NEED(fd >= 0);
        (void)live_match(a, writer.publisher, 1);
        live_write_begin(&writer);
        NEED(pthread_create(&waiting, NULL, wait_for_ever, b) == 0);
        NEED(live_take_one(b, subscriber, &sample));
        for (int i = 0; i < 2; i++) {
            NEED(pthread_create(&closing[i], NULL, close_it, a) == 0);
        }
        if (round % 3 == 0) {
            pyddsi_session_close(a, 0);
        }
        pyddsi_session_close(b, 0); /* so that a need not wait for it */
        for (int i = 0; i < 2; i++) {
            NEED(pthread_join(closing[i], NULL) == 0);
        }
        live_write_end(&writer);
        CHECK_EQ(writer.status, PYDDSI_CLOSED);
        NEED(pthread_join(waiting, &answer) == 0);
        CHECK_EQ((intptr_t)answer, PYDDSI_CLOSED);
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        CHECK_EQ(poll(&poll_fd, 1, 20000), 1);
        CHECK_EQ(pyddsi_session_stats(a, &stats), PYDDSI_OK);
        CHECK(live_settled(a));
        CHECK_EQ(pyddsi_session_put(a, writer.publisher, &stats, 16, 0), PYDDSI_CLOSED);
        pyddsi_session_free(a);
        pyddsi_session_free(b);
        uint64_t number = 1;
        memcpy(&number, sample.data + 8, 8);
        CHECK_EQ(number, 0);
        pyddsi_session_release(b, &sample, 1);
    }
}

static bool readable(void *context)
{
    struct pollfd poll_fd = {.fd = *(int *)context, .events = POLLIN};
    uint64_t times;
    if (poll(&poll_fd, 1, 0) != 1) {
        return false;
    }
    return read(poll_fd.fd, &times, sizeof times) == sizeof times;
}

/* An event loop that tries, reads the descriptor and tries again misses nothing. */
static void test_descriptor_tells(bool shared)
{
    live_next_group();
    pyddsi_session *a = live_session(shared);
    pyddsi_session *b = live_session(shared);
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher(a, 7, true),
                                 .count = LIVE_MANY(4000),
                                 .size = 16,
                                 .patient = true};
    struct live_reader reader = {.session = b,
                                 .subscriber = live_subscriber(b, 7, 64, PYDDSI_WAIT)};
    int fd = pyddsi_session_fd(b);
    NEED(fd >= 0);
    (void)live_match(a, writer.publisher, 1);
    live_write_begin(&writer);
    while (reader.total < writer.count) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        while (live_take(&reader) == PYDDSI_OK) {
        }
        if (reader.total == writer.count) {
            break;
        }
        NEED(poll(&poll_fd, 1, 20000) == 1);
        NEED(readable(&fd));
    }
    live_write_end(&writer);
    CHECK_EQ(reader.wrong, 0);
    pyddsi_session_free(a);
    pyddsi_session_free(b);
}

static void *put_without_waiting(void *context)
{
    struct live_writer *writer = context;
    uint8_t data[64];
    for (uint64_t number = 0; number < writer->count;) {
        uint32_t heard = pyddsi_session_listen(writer->session);
        live_fill(data, sizeof data, writer->stream, number);
        int status = pyddsi_session_put(writer->session, writer->publisher, data, sizeof data, 0);
        if (status == PYDDSI_AGAIN) {
            status = pyddsi_session_wait(writer->session, heard, LIVE_PATIENCE);
            if (status == PYDDSI_AGAIN) { /* nobody told us that there is room */
                writer->status = status;
                break;
            }
            continue;
        }
        pyddsi_session_unlisten(writer->session);
        number++;
        writer->accepted++;
    }
    return NULL;
}

/* A put that answered "not now" is followed by the bell when there is room, without any call that waits itself. */
static void test_room_is_told(bool shared)
{
    live_next_group();
    pyddsi_session_options options = live_options(shared);
    options.lane_samples = 32;
    pyddsi_session *a = live_open(&options);
    pyddsi_session *b = live_session(shared);
    struct live_writer writer = {
        .session = a, .publisher = live_publisher(a, 7, true), .count = LIVE_MANY(8000)};
    struct live_reader reader = {.session = b,
                                 .subscriber = live_subscriber(b, 7, 16, PYDDSI_WAIT),
                                 .until = writer.count,
                                 .batch = 5};
    (void)live_match(a, writer.publisher, 1);
    live_read_begin(&reader);
    (void)put_without_waiting(&writer);
    CHECK_EQ(writer.status, 0);
    CHECK_EQ(writer.accepted, writer.count);
    live_read_join(&reader);
    CHECK_EQ(reader.wrong, 0);
    CHECK_EQ(reader.total, writer.count);
    pyddsi_session_free(a);
    pyddsi_session_free(b);
}

/* 002-55: samples that eight threads put on one publisher would be lost, or come twice, or in another order than each
 * thread put them. */
static void test_one_publisher(void)
{
    enum { WRITERS = 8 };
    live_next_group();
    pyddsi_session *a = live_session(false);
    pyddsi_session *b = live_session(false);
    struct live_writer writers[WRITERS];
    uint64_t count = LIVE_MANY(8000);
    struct live_reader reader = {.session = b,
                                 .subscriber = live_subscriber(b, 7, 512, PYDDSI_WAIT),
                                 .until = WRITERS * count};
    uint32_t publisher = live_publisher(a, 7, true);
    (void)live_match(a, publisher, 1);
    for (uint32_t i = 0; i < WRITERS; i++) {
        writers[i] = (struct live_writer){.session = a,
                                          .publisher = publisher,
                                          .stream = i,
                                          .count = count,
                                          .size = 16 + 100 * i,
                                          .large = 9000,
                                          .every = 200,
                                          .how = (int)i % 4,
                                          .patient = true};
    }
    live_read_begin(&reader);
    for (int i = 0; i < WRITERS; i++) {
        live_write_begin(&writers[i]);
    }
    for (int i = 0; i < WRITERS; i++) {
        live_write_end(&writers[i]);
        CHECK_EQ(writers[i].accepted, count);
    }
    live_read_join(&reader);
    CHECK_EQ(reader.total, WRITERS * count);
    CHECK_EQ(reader.wrong, 0);
    pyddsi_session_free(a);
    pyddsi_session_free(b);
}

static void on_one_processor(cpu_set_t *before)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    NEED(sched_getaffinity(0, sizeof *before, before) == 0);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++) {
        if (CPU_ISSET(cpu, before)) {
            CPU_SET(cpu, &one);
        }
    }
    NEED(sched_setaffinity(0, sizeof one, &one) == 0);
}

/* Packets of one conduit would leave in another order than they were taken out in, if two threads could send at the same
 * time: best effort that comes after what was sent later is dropped as old. On one processor nothing else changes their
 * order. Nor may one thread's packet push out another's that has not left. */
static void test_order_of_packets(void)
{
    enum { WRITERS = 4 };
    cpu_set_t before;
    on_one_processor(&before);
    live_next_group();
    pyddsi_session_options options = live_options(false);
    options.node.seq_bits =
        28; /* so many may be lost in a row that fewer bits would make new ones look old */
    pyddsi_session *a = live_open(&options);
    pyddsi_session *b = live_open(&options);
    struct live_writer writers[WRITERS];
    struct live_reader reader = {
        .session = b, .subscriber = live_subscriber(b, 7, 4096, PYDDSI_DROP_OLDEST), .gaps = true};
    uint32_t publisher = live_publisher(a, 7, false);
    (void)live_match(a, publisher, 1);
    for (uint32_t i = 0; i < WRITERS; i++) {
        writers[i] = (struct live_writer){.session = a,
                                          .publisher = publisher,
                                          .stream = i,
                                          .count = LIVE_MANY(8000),
                                          .size = 700 + 200 * i,
                                          .how = i == 3 ? 1 : 0};
    }
    live_read_begin(&reader);
    for (int i = 0; i < WRITERS; i++) {
        live_write_begin(&writers[i]);
    }
    for (int i = 0; i < WRITERS; i++) {
        live_write_end(&writers[i]);
    }
    live_read_end(&reader);
    CHECK_EQ(reader.wrong, 0);
    CHECK_EQ(live_lost(b, PYDDSI_AT_ORDER, PYDDSI_BY_OLD), 0);
    CHECK_EQ(live_lost(a, PYDDSI_AT_PACKET, PYDDSI_BY_FULL), 0);
    pyddsi_session_free(a);
    pyddsi_session_free(b);
    NEED(sched_setaffinity(0, sizeof before, &before) == 0);
}

static bool is_repeated(void *context)
{
    pyddsi_stats stats;
    NEED(pyddsi_session_stats(context, &stats) == PYDDSI_OK);
    return stats.resent != 0;
}

/* 002-81: acknowledgements and repetitions would wait for a publisher that sends much. Here it sends for ever: the test
 * has what a sender has in hand, so all that leaves meanwhile passes by it, with not one packet of its own in between. */
static void test_answers_pass(void)
{
    live_next_group();
    pyddsi_session *a = live_session(false);
    pyddsi_session *b = live_session(false);
    struct live_writer there = {
        .session = b, .publisher = live_publisher(b, 7, true), .count = 100, .size = 64};
    struct live_writer back = {.session = a,
                               .publisher = live_publisher(a, 8, true),
                               .count = 100,
                               .size = 1400,
                               .patient = true};
    struct live_reader reader = {
        .session = a, .subscriber = live_subscriber(a, 7, 512, PYDDSI_WAIT), .until = there.count};
    struct live_reader other = {
        .session = b, .subscriber = live_subscriber(b, 8, 512, PYDDSI_WAIT), .until = back.count};
    (void)live_match(a, back.publisher, 1);
    (void)live_match(b, there.publisher, 1);
    pdi_port_lose(b->port, 500);
    live_write_begin(&back);
    live_write_end(&back);
    pdi_lock_take(&a->wire);
    pdi_port_lose(b->port, 0);
    uint64_t application = pdi_atomic64_load_relaxed(&a->sent[PDI_APPLICATION]);
    CHECK(live_until(a, is_repeated, a));
    live_write_begin(&there);
    live_write_end(&there);
    CHECK(live_until(b, live_settled, b));
    CHECK_EQ(pdi_atomic64_load_relaxed(&a->sent[PDI_APPLICATION]), application);
    pdi_lock_give(&a->wire);
    live_read_begin(&reader);
    live_read_begin(&other);
    live_read_join(&reader);
    live_read_join(&other);
    CHECK_EQ(reader.total, there.count);
    CHECK_EQ(other.total, back.count);
    CHECK(live_until(a, live_settled, a));
    pyddsi_session_free(a);
    pyddsi_session_free(b);
}

/* 002-85: what one thread has taken out to be sent would be mixed with another's, if they had one buffer: each thread's
 * packets are counted by themselves, and each has sent some. */
static void test_counts(void)
{
    live_next_group();
    pyddsi_session *a = live_session(false);
    pyddsi_session *b = live_session(false);
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher(a, 7, true),
                                 .count = LIVE_MANY(8000),
                                 .size = 64,
                                 .patient = true};
    struct live_reader reader = {
        .session = b, .subscriber = live_subscriber(b, 7, 512, PYDDSI_WAIT), .until = writer.count};
    (void)live_match(a, writer.publisher, 1);
    live_read_begin(&reader);
    live_write_begin(&writer);
    live_write_end(&writer);
    live_read_join(&reader);
    CHECK(live_until(a, live_settled, a));
    pyddsi_session_counts counts[2];
    pyddsi_stats stats[2];
    pyddsi_session_count(a, &counts[0]);
    pyddsi_session_count(b, &counts[1]);
    CHECK_EQ(pyddsi_session_stats(a, &stats[0]), PYDDSI_OK);
    CHECK(counts[0].sent_application != 0);
    CHECK(counts[0].sent_housekeeping != 0); /* it has found b */
    CHECK(counts[1].sent_receive != 0);
    CHECK(counts[0].sent_application + counts[0].sent_housekeeping + counts[0].sent_receive <=
          stats[0].packets_out);
    pyddsi_session_free(a);
    pyddsi_session_free(b);
}

/* 002-82, 002-88: a transport that wants one stream of packets would get them from several threads. Nothing is lost for it. */
static void test_one_stream(void)
{
    live_next_group();
    pyddsi_session_options options = live_options(false);
    options.one_stream = 1;
    pyddsi_session *a = live_open(&options);
    pyddsi_session *b = live_open(&options);
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher(a, 7, true),
                                 .count = LIVE_MANY(8000),
                                 .size = 64,
                                 .large = 9000,
                                 .every = 200,
                                 .how = 3,
                                 .patient = true};
    struct live_reader reader = {
        .session = b, .subscriber = live_subscriber(b, 7, 512, PYDDSI_WAIT), .until = writer.count};
    (void)live_match(a, writer.publisher, 1);
    live_read_begin(&reader);
    live_write_begin(&writer);
    live_write_end(&writer);
    live_read_join(&reader);
    CHECK_EQ(reader.total, writer.count);
    CHECK_EQ(reader.wrong, 0);
    CHECK(live_until(a, live_settled, a));
    pyddsi_session *both[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        pyddsi_session_counts counts;
        pyddsi_session_count(both[i], &counts);
        CHECK(counts.sent_housekeeping != 0);
        CHECK_EQ(counts.sent_receive + counts.sent_application, 0);
        pyddsi_session_free(both[i]);
    }
}

int main(void)
{
    test_open_fails();
    test_descriptors();
    test_order(true);
    test_order(false);
    test_close();
    test_descriptor_tells(false);
    test_descriptor_tells(true);
    test_room_is_told(false);
    test_room_is_told(true);
    test_one_publisher();
    test_order_of_packets();
    test_answers_pass();
    test_counts();
    test_one_stream();
    return test_result();
}
