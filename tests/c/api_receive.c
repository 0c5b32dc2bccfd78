/* What a session receives of several others: all of it, in order, by datagrams and connections; how it begins, and ends. */
#include "live.h"

#include "api/session.h"

enum { WRITERS = 3 };

/* Has room for all packets of a test, so that only a wrong order makes it ask for one again. */
static pyddsi_session_options roomy(void)
{
    pyddsi_session_options options = live_options(false);
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
    pdi_lock_take(&all->to->lock);
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
    pdi_lock_give(&all->to->lock);
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

/* Samples of several writers, small and in fragments, would be lost or come in another order where the receive thread is late,
 * or all that a call brought is lost. */
static void test_load(void)
{
    struct gathering all;
    pyddsi_session_options options = live_options(false);
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

/* Packets that are received straight into the slot would be cut, or mixed up. */
static void test_large_packets(void)
{
    struct gathering all;
    pyddsi_session_options options = roomy();
    options.node.packet_max = 16000;
    gather(&all, &options);
    write_and_read(&all, LIVE_MANY(800), 12000);
    CHECK(!pdi_port_has_inbox(all.to->port));
    part(&all);
}

/* What goes through no inbox would be written over by what lies in one, or frames come in another order: one writer has
 * datagrams, the others have connections. */
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

/* A session would not end while packets come, or a thread would outlive it; a child after fork would wait for threads that it
 * does not have. */
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
static void test_begins_at_once(void)
{
    enum { HOUR_MS = 3600000 };
    live_next_group();
    pyddsi_session_options options = live_options(false);
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
    test_load();
    test_large_packets();
    test_connections();
    test_ends();
    test_begins_at_once();
    return test_result();
}
