/* Sessions in several processes, some of which are killed, or stopped for longer than their lease. */
#include "live.h"

#define LEASE_MS 3000

/* What a child and its parent tell each other, in memory that they share. */
struct board {
    _Atomic uint64_t accepted; /* the writer's, after each put that was taken */
    _Atomic uint64_t read;     /* the reader's, after each sample */
    _Atomic uint64_t wrong;
    _Atomic uint64_t lost; /* what the child's ledger says, and those that nobody wanted */
    _Atomic uint64_t lanes;
    _Atomic uint32_t step; /* what the child is to do, */
    _Atomic uint32_t done; /* and what it has done */
};

static struct board *new_board(void)
{
    void *memory =
        mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    NEED(memory != MAP_FAILED);
    return memory;
}

static bool reach(_Atomic uint64_t *count, uint64_t wanted)
{
    uint64_t end = live_now() + LIVE_PATIENCE;
    while (atomic_load(count) < wanted && live_now() < end) {
        (void)sched_yield();
    }
    return atomic_load(count) >= wanted;
}

static uint32_t lease_ms = LEASE_MS;
static bool child_shares = true; /* memory, as a reader */

static pyddsi_session *session_with_lease(bool shared)
{
    pyddsi_session_options options = live_options(shared);
    options.node.lease_ms = lease_ms;
    options.lane_samples = 1024;
    return live_open(&options);
}

/* The child's part begins here; it never comes back. */
static pid_t child(void (*run)(struct board *), struct board *board)
{
    (void)fflush(stdout);
    pid_t pid = fork();
    NEED(pid >= 0);
    if (pid == 0) {
        run(board);
        (void)fflush(stdout);
        _exit(0);
    }
    return pid;
}

static void finish(pid_t pid, int signal)
{
    int status = 0;
    NEED(waitpid(pid, &status, 0) == pid);
    if (signal != 0) {
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    } else {
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void run_writer(struct board *board)
{
    pyddsi_session *session = session_with_lease(true);
    uint32_t publisher = live_publisher(session, 7, true);
    uint8_t data[32];
    (void)live_match(session, publisher, 1);
    NEED(live_lane_readers(session, 1));
    atomic_store(&board->lanes, 1);
    for (uint64_t number = 0; atomic_load(&board->step) == 0; number++) {
        live_fill(data, sizeof data, 0, number);
        int status = pyddsi_session_put(session, publisher, data, sizeof data, 100000000);
        if (status == PYDDSI_AGAIN) {
            number--;
            continue;
        }
        NEED(status == PYDDSI_OK);
        atomic_store(&board->accepted, number + 1);
        if (number % 1024 == 1023) {
            (void)sched_yield(); /* the reader is to be neither far behind nor always waiting */
        }
    }
    pyddsi_session_close(session, LIVE_PATIENCE);
    pyddsi_stats stats;
    NEED(pyddsi_session_stats(session, &stats) == PYDDSI_OK);
    atomic_store(&board->lost,
                 stats.unmatched + live_lost(session, PYDDSI_AT_WINDOW, PYDDSI_REASON_COUNT));
    atomic_store(&board->done, 1);
    pyddsi_session_free(session);
}

static void run_reader(struct board *board)
{
    pyddsi_session *session = session_with_lease(child_shares);
    struct live_reader reader = {.session = session,
                                 .subscriber = live_subscriber(session, 7, 256, PYDDSI_WAIT),
                                 .gaps = true};
    while (atomic_load(&board->step) == 0) {
        uint32_t heard = pyddsi_session_listen(session);
        if (live_take(&reader) == PYDDSI_AGAIN) {
            (void)pyddsi_session_wait(session, heard, 5000000);
        } else {
            pyddsi_session_unlisten(session);
        }
        live_let_go(&reader);
        atomic_store(&board->wrong, reader.wrong);
        atomic_store(&board->read, reader.total);
    }
    pyddsi_session_close(session, 0);
    atomic_store(&board->done, 1);
    pyddsi_session_free(session);
}

/* Of a writer that is killed everything comes that it had put; and the next one finds its reader as it was. */
static void test_writer_is_killed(void)
{
    live_next_group();
    struct board *boards[3] = {new_board(), new_board(), new_board()};
    pid_t pids[3] = {child(run_writer, boards[0]), child(run_writer, boards[1]), 0};
    pids[2] = child(run_writer, boards[2]); /* before this process has threads */
    (void)kill(pids[1], SIGSTOP);
    (void)kill(pids[2], SIGSTOP);
    pyddsi_session *session = session_with_lease(true);
    for (int i = 0; i < 3; i++) {
        (void)kill(pids[i], SIGCONT);
        struct live_reader reader = {.session = session,
                                     .subscriber = live_subscriber(session, 7, 128, PYDDSI_WAIT)};
        live_read_begin(&reader);
        NEED(reach(&boards[i]->accepted, 3000));
        (void)kill(pids[i], SIGKILL);
        finish(pids[i], SIGKILL);
        uint64_t accepted = atomic_load(&boards[i]->accepted);
        live_read_end(&reader);
        CHECK_EQ(reader.wrong, 0);
        CHECK_EQ(reader.first[0], 0);
        /* one more may have been put that it had not told yet */
        CHECK(reader.total == accepted || reader.total == accepted + 1);
        CHECK_EQ(pyddsi_session_forget(session, reader.subscriber), PYDDSI_OK);
    }
    pyddsi_session_free(session);
}

/* A reader that is killed, or stopped for longer than its lease, holds the others up for no longer than its lease; what it did not
 * get is in the ledger. One that goes on gets nothing twice and nothing out of order; not even where the other reader shares no
 * memory, so that what was sent to the group waits at its socket, beside what is left in the lane. */
static void test_reader_is_lost(bool killed, bool group)
{
    live_next_group();
    struct board *board = new_board();
    pid_t pid = child(run_reader, board);
    pyddsi_session *a = session_with_lease(true);
    pyddsi_session *b = session_with_lease(!group);
    uint64_t count = LIVE_MANY(40000);
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher_by(a, 7, true, PYDDSI_WAY_MULTICAST),
                                 .count = count / 4,
                                 .size = 32,
                                 .patient = true};
    struct live_reader reader = {
        .session = b, .subscriber = live_subscriber(b, 7, 256, PYDDSI_WAIT), .until = count};
    (void)live_match(a, writer.publisher, 2);
    NEED(live_lane_readers(a, group ? 1 : 2));
    live_read_begin(&reader);
    live_write(&writer);
    (void)kill(pid, killed ? SIGKILL : SIGSTOP);
    if (killed) {
        finish(pid, SIGKILL);
    }
    writer.from = count / 4;
    writer.count = count / 2;
    live_write(&writer); /* waits until that is known */
    CHECK_EQ(writer.accepted, count / 4 * 3);
    if (!killed) {
        (void)kill(pid, SIGCONT);
        uint64_t before = atomic_load(&board->read);
        NEED(live_lane_readers(a, group ? 1 : 2)); /* it is back */
        writer.from = count / 4 * 3;
        writer.count = count / 4;
        live_write(&writer);
        CHECK(reach(&board->read, before + 1));
    } else {
        writer.from = count / 4 * 3;
        writer.count = count / 4;
        live_write(&writer);
    }
    live_read_join(&reader);
    CHECK_EQ(reader.wrong, 0);
    CHECK_EQ(reader.total, count);
    CHECK(live_until(a, live_settled, a));
    if (!killed) {
        atomic_store(&board->step, 1);
        finish(pid, 0);
        CHECK_EQ(atomic_load(&board->wrong), 0);
    }
    pyddsi_session_free(b);
    pyddsi_session_free(a);
}

/* How a session has ended, the first that did. */
struct ending {
    pyddsi_session *session;
    uint32_t reason;
};

static bool has_ended(void *context)
{
    struct ending *ending = context;
    pyddsi_event event;
    while (ending->reason == 0 && pyddsi_session_event(ending->session, &event) == PYDDSI_OK) {
        ending->reason = event.kind == PYDDSI_DISCONNECTED ? event.reason : 0;
    }
    return ending->reason != 0;
}

/* A reader that is killed is known to be gone at once, by shared memory and by the sockets: its lease is longer than anybody
 * waits here. */
static void test_reader_is_known_gone(bool shared)
{
    live_next_group();
    lease_ms = 600000;
    child_shares = shared;
    struct board *board = new_board();
    pid_t pid = child(run_reader, board);
    pyddsi_session *a = session_with_lease(shared);
    pyddsi_session *b = session_with_lease(shared);
    struct ending ending = {.session = a};
    uint64_t count = LIVE_MANY(20000);
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher(a, 7, true),
                                 .count = count / 2,
                                 .size = 32,
                                 .patient = true};
    struct live_reader reader = {
        .session = b, .subscriber = live_subscriber(b, 7, 256, PYDDSI_WAIT), .until = count};
    (void)live_match(a, writer.publisher, 2);
    if (shared) {
        NEED(live_lane_readers(a, 2));
    }
    live_read_begin(&reader);
    live_write(&writer);
    (void)kill(pid, SIGKILL);
    writer.from = count / 2;
    live_write(&writer);
    CHECK_EQ(writer.accepted, count);
    finish(pid, SIGKILL);
    NEED(live_until(a, has_ended, &ending));
    CHECK_EQ(ending.reason, PYDDSI_END_EXITED);
    live_read_join(&reader);
    CHECK_EQ(reader.wrong, 0);
    CHECK_EQ(reader.total, count);
    CHECK(live_until(a, live_settled, a));
    pyddsi_session_free(b);
    pyddsi_session_free(a);
    lease_ms = LEASE_MS;
    child_shares = true;
}

/* A writer that is stopped for longer than its lease and then goes on: nothing twice, nothing out of order, and what is
 * missing is in its ledger. */
static void test_writer_is_stopped(void)
{
    live_next_group();
    struct board *board = new_board();
    pid_t pid = child(run_writer, board);
    pyddsi_session *session = session_with_lease(true);
    struct live_reader reader = {.session = session,
                                 .subscriber = live_subscriber(session, 7, 64, PYDDSI_WAIT),
                                 .gaps = true};
    live_read_begin(&reader);
    NEED(reach(&board->accepted, 2000));
    (void)kill(pid, SIGSTOP);
    uint64_t stopped = live_now();
    while (live_now() - stopped < UINT64_C(1000000) * (LEASE_MS + LEASE_MS / 2)) {
        (void)sched_yield(); /* longer than its lease: that is what this test is about */
    }
    (void)kill(pid, SIGCONT);
    NEED(reach(&reader.seen, atomic_load(&reader.seen) + 2000)); /* it is back */
    atomic_store(&board->step, 1);
    finish(pid, 0);
    live_read_end(&reader);
    CHECK_EQ(reader.wrong, 0);
    CHECK_EQ(reader.first[0], 0);
    CHECK_EQ(reader.expected[0], atomic_load(&board->accepted));
    CHECK_EQ(reader.total + atomic_load(&board->lost), atomic_load(&board->accepted));
    pyddsi_session_free(session);
}

/* In a child every call answers CLOSED, frees what is the child's and touches nothing of the parent's. */
static void test_fork(void)
{
    live_next_group();
    pyddsi_session *a = live_session(true);
    pyddsi_session *b = live_session(true);
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher(a, 7, true),
                                 .count = 2000,
                                 .size = 32,
                                 .patient = true};
    struct live_reader reader = {
        .session = b, .subscriber = live_subscriber(b, 7, 256, PYDDSI_WAIT), .until = 4000};
    (void)live_match(a, writer.publisher, 1);
    NEED(live_lane_readers(a, 1));
    live_read_begin(&reader);
    live_write_begin(&writer);
    pid_t pid = fork();
    if (pid == 0) {
        pyddsi_received sample;
        pyddsi_stats stats;
        size_t count;
        bool right =
            pyddsi_session_put(a, writer.publisher, "0123456789abcdef", 16, 0) == PYDDSI_CLOSED &&
            pyddsi_session_take(b, reader.subscriber, &sample, 1, &count) == PYDDSI_CLOSED &&
            pyddsi_session_wait(b, pyddsi_session_listen(b), UINT64_MAX) == PYDDSI_CLOSED &&
            pyddsi_session_stats(a, &stats) == PYDDSI_CLOSED &&
            pyddsi_session_fd(a) == PYDDSI_CLOSED;
        pyddsi_session_close(b, UINT64_MAX);
        pyddsi_session_free(b);
        pyddsi_session_free(a);
        _exit(right ? 0 : 1);
    }
    NEED(pid > 0);
    finish(pid, 0);
    live_write_end(&writer);
    writer.from = 2000;
    live_write(&writer);
    live_read_join(&reader);
    CHECK_EQ(reader.wrong, 0);
    CHECK_EQ(reader.total, 4000);
    pyddsi_session_free(a);
    pyddsi_session_free(b);
}

int main(void)
{
    test_writer_is_killed();
    test_reader_is_lost(true, false);
    test_reader_is_lost(false, false);
    test_reader_is_lost(false, true);
    test_reader_is_known_gone(true);
    test_reader_is_known_gone(false);
    test_writer_is_stopped();
    test_fork();
    return test_result();
}
