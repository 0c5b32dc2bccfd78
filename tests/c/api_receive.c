/* Sessions that receive by several threads: order, no question for what is there, quiet, ends; and how a session begins. */
#include "live.h"

#include "api/session.h"

enum { THREADS = 3, WRITERS = 3 };

/* Has room for all packets of a test, so that only a wrong order makes it ask for one again. */
static pyddsi_session_options roomy(void)
{
    pyddsi_session_options options = live_options(false);
    options.receive_threads = THREADS;
    options.node.slots_max = 1 << 14;
    options.node.ring_samples = 1 << 16;
    options.node.order_max = 1 << 14;
    return options;
}

/* A session that several others, of one writer each, write to; and its reader. */
struct gathering {
    pyddsi_session *to;
    pyddsi_session *from[WRITERS];
    struct live_writer writers[WRITERS];
    struct live_reader reader;
};

/* Small windows: what all writers have under way fits the buffer that the system gives at least. */
static void gather(struct gathering *all, const pyddsi_session_options *options)
{
    live_next_group();
    pyddsi_session_options to = *options;
    pyddsi_session_options from = live_options(false);
    pyddsi_endpoint local;
    to.group = live_group;
    from.node.unicast_bytes = from.node.multicast_bytes[0] = 1 << 15;
    from.node.packet_max = to.node.packet_max;
    all->to = live_open(&to);
    pyddsi_session_look(all->to, &to, &local);
    from.peers[0] = to.listen[0];
    all->reader = (struct live_reader){.session = all->to};
    all->reader.subscriber = live_subscriber(all->to, 7, 4096, PYDDSI_WAIT);
    for (uint32_t i = 0; i < WRITERS; i++) {
        if (to.listen_count != 0 && i == 1) { /* the others have connections */
            from.group.kind = 0;
            from.peer_count = 1;
        }
        all->from[i] = live_open(&from);
        all->writers[i] =
            (struct live_writer){.session = all->from[i], .stream = i, .patient = true};
        all->writers[i].publisher = live_publisher(all->from[i], 7, true);
        (void)live_match(all->from[i], all->writers[i].publisher, 1);
    }
}

/* So many samples more of each writer, all at once, and all of them read. */
static void write_and_read(struct gathering *all, uint64_t count, size_t size)
{
    for (int i = 0; i < WRITERS; i++) {
        all->writers[i].from += all->writers[i].count;
        all->writers[i].count = count;
        all->writers[i].size = size;
        all->reader.until += count;
    }
    for (int i = 0; i < WRITERS; i++) {
        live_write_begin(&all->writers[i]);
    }
    (void)live_read(&all->reader);
    for (int i = 0; i < WRITERS; i++) {
        live_write_end(&all->writers[i]);
        CHECK_EQ(all->writers[i].status, PYDDSI_OK);
    }
    CHECK_EQ(all->reader.total, all->reader.until);
    CHECK_EQ(all->reader.wrong, 0);
}

/* Some samples of each come, in less than a window, while none can be fed, and so many of a thousand are lost; they are
 * read with the next. */
static void heap_up(struct gathering *all, uint32_t lost)
{
    const uint64_t count = 20;
    uint8_t data[1000];
    for (int i = 0; i < WRITERS; i++) {
        CHECK(live_until(all->from[i], live_settled, all->from[i])); /* or there may be no room */
    }
    pdi_lock_take(&all->to->feeding);
    for (uint32_t i = 0; i < WRITERS; i++) {
        struct live_writer *writer = &all->writers[i];
        for (uint64_t number = 0; number < count; number++) {
            live_fill(data, sizeof data, i, writer->from + writer->count++);
            CHECK_EQ(pyddsi_session_put(writer->session, writer->publisher, data, sizeof data,
                                        LIVE_PATIENCE),
                     PYDDSI_OK);
        }
        all->reader.until += count;
    }
    pdi_port_lose(all->to->port, lost);
    pdi_lock_give(&all->to->feeding);
}

static void part(struct gathering *all)
{
    live_let_go(&all->reader);
    for (int i = 0; i < WRITERS; i++) {
        CHECK(live_until(all->from[i], live_settled, all->from[i]));
        pyddsi_session_free(all->from[i]);
    }
    pyddsi_session_free(all->to);
}

/* How many threads have taken packets. */
static uint32_t takers(pyddsi_session *session)
{
    pyddsi_session_counts counts;
    uint32_t found = 0;
    pyddsi_session_count(session, &counts);
    CHECK_EQ(counts.receive_threads, THREADS);
    for (uint32_t i = 0; i < PYDDSI_RECEIVE_THREADS_MAX; i++) {
        found += counts.received[i] != 0;
        CHECK(counts.received[i] == 0 || i < THREADS);
    }
    return found;
}

static uint64_t asked_for(pyddsi_session *session)
{
    pyddsi_stats stats;
    CHECK_EQ(pyddsi_session_stats(session, &stats), PYDDSI_OK);
    return stats.nacks_out;
}

/* 002-80: packets that one thread has received would come to the node before older ones that another has, and be asked for
 * again; or one thread would do everything. Each round lets a heap of packets come while none can be fed, so that threads
 * stand one behind the other with what they have taken. In a round or two something may be asked for with reason: a writer
 * that the system held up between taking packets out and sending them is overtaken by its own SYNCH. */
static void test_order_between_threads(void)
{
    enum { ROUNDS = 36 };
    struct gathering all;
    pyddsi_session_options options = roomy();
    uint64_t end = live_now() + LIVE_PATIENCE;
    int rounds = 0;
    int asking = 0;
    gather(&all, &options);
    write_and_read(&all, 10, 1000);
    while (rounds < ROUNDS || (takers(all.to) < 2 && live_now() < end)) {
        uint64_t asked = asked_for(all.to);
        heap_up(&all, 0);
        write_and_read(&all, 60, 1000);
        asking += asked_for(all.to) != asked;
        rounds++;
    }
    CHECK(takers(all.to) > 1);
    CHECK(asking <= 2);
    part(&all);
}

/* Samples of several writers, small and in fragments, would be lost or come in another order where threads are late; or
 * threads that have found nothing in what they took would wait, or take, at the same time. */
static void test_load(void)
{
    struct gathering all;
    pyddsi_session_options options = live_options(false);
    options.receive_threads = THREADS;
    gather(&all, &options);
    for (int i = 0; i < WRITERS; i++) {
        all.writers[i].large = 9000;
        all.writers[i].every = 50;
        all.writers[i].how = i;
    }
    all.reader.held = 3;
    for (int round = 0; round < 10; round++) {
        heap_up(&all, round % 2 == 0 ? 1000 : 0);
        pdi_port_lose(all.to->port, 0);
        write_and_read(&all, LIVE_MANY(800), 60);
    }
    part(&all);
}

/* Packets that come one at a time would wake all threads, or go from one to the next. A machine that is busy may let more
 * of them come together, so it is tried until they do not. */
static void test_one_wakes(void)
{
    struct gathering all;
    pyddsi_session_options options = roomy();
    uint64_t end = live_now() + LIVE_PATIENCE;
    uint32_t took;
    gather(&all, &options);
    do {
        pyddsi_session_counts before;
        pyddsi_session_counts after;
        pyddsi_session_count(all.to, &before);
        for (int i = 0; i < 50; i++) {
            write_and_read(&all, 1, 100);
        }
        pyddsi_session_count(all.to, &after);
        took = 0;
        for (int i = 0; i < THREADS; i++) {
            took += after.received[i] != before.received[i];
        }
    } while (took != 1 && live_now() < end);
    CHECK_EQ(took, 1);
    part(&all);
}

/* Packets that one thread alone would receive straight into the slot would be cut, or mixed up on their way through inboxes. */
static void test_large_packets(void)
{
    struct gathering all;
    pyddsi_session_options options = roomy();
    options.node.packet_max = 16000;
    gather(&all, &options);
    write_and_read(&all, LIVE_MANY(800), 12000);
    CHECK_EQ(pdi_port_inboxes(all.to->port), THREADS);
    part(&all);
}

/* What goes through no inbox would be written over by what another thread has taken, or frames come in another order: one
 * writer has datagrams, the others have connections. */
static void test_connections(void)
{
    struct gathering all;
    pyddsi_session_options options = roomy();
    options.listen_count = 1;
    options.listen[0] = (pyddsi_endpoint){.ip = {127, 0, 0, 1}, .kind = PDI_STREAM_TCP4};
    gather(&all, &options);
    write_and_read(&all, LIVE_MANY(8000), 200);
    part(&all);
}

static void *close_it(void *context)
{
    pyddsi_session_close(context, 0);
    return NULL;
}

/* A session would not end while its threads wait for each other, or one of them would outlive it; a child after fork would
 * wait for threads that it does not have. */
static void test_ends(void)
{
    for (int round = 0; round < 20; round++) {
        struct gathering all;
        pyddsi_session_options options = roomy();
        options.one_stream = round % 2 == 1;
        gather(&all, &options);
        for (int i = 0; i < WRITERS; i++) {
            all.writers[i].count = UINT64_MAX / 2;
            all.writers[i].size = 64;
            live_write_begin(&all.writers[i]);
        }
        pyddsi_received sample;
        NEED(live_take_one(all.to, all.reader.subscriber, &sample));
        (void)fflush(stdout);
        pid_t pid = fork();
        NEED(pid >= 0);
        if (pid == 0) {
            pyddsi_session_close(all.to, LIVE_PATIENCE);
            _exit(pyddsi_session_flush(all.to) == PYDDSI_CLOSED ? 0 : 1);
        }
        int status = 1;
        NEED(waitpid(pid, &status, 0) == pid);
        CHECK_EQ(status, 0);
        pthread_t closing[2];
        for (int i = 0; i < 2; i++) {
            NEED(pthread_create(&closing[i], NULL, close_it, all.to) == 0);
        }
        for (int i = 0; i < 2; i++) {
            NEED(pthread_join(closing[i], NULL) == 0);
        }
        pyddsi_session_counts counts;
        pyddsi_session_count(all.to, &counts);
        CHECK(!options.one_stream || counts.sent_receive == 0);
        for (int i = 0; i < WRITERS; i++) {
            pyddsi_session_close(all.from[i], 0);
            live_write_end(&all.writers[i]);
            pyddsi_session_free(all.from[i]);
        }
        pyddsi_session_release(all.to, &sample, 1);
        pyddsi_session_free(all.to);
    }
}

/* A number of threads that cannot be would be taken, and threads started that have no place. */
static void test_refused(void)
{
    static const uint8_t wrong[] = {0, PYDDSI_RECEIVE_THREADS_MAX + 1};
    pyddsi_session *session;
    char text[PYDDSI_TEXT_MAX];
    for (size_t i = 0; i < sizeof wrong; i++) {
        pyddsi_session_options options = live_options(false);
        options.receive_threads = wrong[i];
        CHECK_EQ(pyddsi_session_open(&session, &options, text), PYDDSI_BAD_ARGUMENT);
        CHECK(session == NULL && strstr(text, "receive_threads is from 1 to 8") != NULL);
    }
}

static bool knows_a_peer(void *context)
{
    pyddsi_event event;
    while (pyddsi_session_event(context, &event) == PYDDSI_OK) {
        if (event.kind == PYDDSI_CONNECTED) {
            return true;
        }
    }
    return false;
}

/* 002-84: a session would not begin before housekeeping wakes up by itself, which it does in an hour here: what receiving
 * leaves to it, it has to be told of at once. */
static void test_begins_at_once(uint8_t threads)
{
    enum { HOUR_MS = 3600000 };
    live_next_group();
    pyddsi_session_options options = live_options(false);
    options.receive_threads = threads;
    options.node.scout_ms = options.node.open_ms = options.node.synch_ms = HOUR_MS;
    options.node.lease_ms = 0;
    options.node.latency_us = 1000000000;
    pyddsi_session *one = live_open(&options);
    pyddsi_session *other = live_open(&options);
    CHECK(live_until(one, knows_a_peer, one));
    CHECK(live_until(other, knows_a_peer, other));
    pyddsi_session_free(other);
    pyddsi_session_free(one);
}

int main(void)
{
    test_order_between_threads();
    test_load();
    test_one_wakes();
    test_large_packets();
    test_connections();
    test_ends();
    test_refused();
    test_begins_at_once(1);
    test_begins_at_once(THREADS);
    return test_result();
}
