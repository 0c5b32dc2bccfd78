/* Readers that others would wait for (api/lanes_slow.c), and pages in which something stands that makes no sense. No test here waits
 * for a lease: all of them are longer than anybody waits. */
#include "live.h"

#include "api/session.h"

#define SLOW_MS 200
#define LANE    256 /* samples */

static pyddsi_session *slow_session(bool shared, uint32_t slow_ms)
{
    pyddsi_session_options options = live_options(shared);
    options.node.lease_ms = 600000;
    options.node.slow_ms = slow_ms;
    options.lane_samples = LANE;
    return live_open(&options);
}

/* What a session was told. */
struct told {
    pyddsi_session *session;
    enum pyddsi_event_kind kind;
    uint64_t events, lost; /* of this kind; and what its gaps name */
};

static bool is_told(void *context)
{
    struct told *told = context;
    pyddsi_event event;
    while (pyddsi_session_event(told->session, &event) == PYDDSI_OK) {
        told->events += event.kind == told->kind;
        told->lost += event.kind == PYDDSI_GAP ? event.last - event.first + 1 : 0;
    }
    return told->events != 0;
}

/* A reader that does not read, beside one that does: the other gets all, the publisher is told, and when it reads again what it
 * lacks is in its ledger, and it is in the lane as before. */
static void test_does_not_read(bool shared)
{
    live_next_group();
    pyddsi_session *a = slow_session(true, SLOW_MS);
    pyddsi_session *b = slow_session(true, SLOW_MS);
    pyddsi_session *c = slow_session(shared, SLOW_MS); /* whoever shares no memory has a copy */
    uint64_t count = LIVE_MANY(20000);
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher(a, 7, true),
                                 .count = count,
                                 .size = 32,
                                 .patient = true};
    struct live_reader reader = {
        .session = b, .subscriber = live_subscriber(b, 7, 256, PYDDSI_WAIT), .until = count + 100};
    struct live_reader late = {
        .session = c, .subscriber = live_subscriber(c, 7, 16, PYDDSI_WAIT), .gaps = true};
    struct told detached = {.session = a, .kind = PYDDSI_DETACHED};
    struct told gap = {.session = c, .kind = PYDDSI_GAP};
    (void)live_match(a, writer.publisher, 2);
    NEED(live_lane_readers(a, shared ? 2 : 1));
    live_read_begin(&reader);
    live_write(&writer);
    CHECK_EQ(writer.accepted, count);
    CHECK(live_until(a, is_told, &detached));
    CHECK_EQ(detached.events, 1);
    live_read_begin(&late);
    CHECK(live_until(c, is_told, &gap));
    NEED(live_lane_readers(a, shared ? 2 : 1)); /* it is back */
    CHECK(live_until(a, live_settled, a));
    writer.from = count;
    writer.count = 100;
    live_write(&writer);
    live_read_join(&reader);
    CHECK(live_until(a, live_settled, a));
    live_read_end(&late);
    (void)is_told(&gap);
    CHECK_EQ(reader.wrong + late.wrong, 0);
    CHECK_EQ(late.expected[0], count + 100);
    CHECK_EQ(late.skipped + late.first[0], count + 100 - late.total);
    uint64_t listed = gap.lost + live_lost(a, PYDDSI_AT_WINDOW, PYDDSI_BY_GAP);
    CHECK_EQ(listed, count + 100 - late.total);
    CHECK_EQ(live_lost(c, PYDDSI_AT_ORDER, PYDDSI_BY_GAP), gap.lost);
    pyddsi_session_free(c);
    pyddsi_session_free(b);
    pyddsi_session_free(a);
}

/* What the child has read, and what it is to do. */
struct board {
    _Atomic uint64_t read, wrong;
    _Atomic uint32_t up, over;
};

static struct board *board;

static pid_t child(uint64_t resource, bool shared, enum pyddsi_on_full on_full)
{
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    NEED(board != MAP_FAILED);
    (void)fflush(stdout);
    pid_t pid = fork();
    NEED(pid >= 0);
    if (pid != 0) {
        return pid;
    }
    pyddsi_session *session = slow_session(shared, SLOW_MS);
    struct live_reader reader = {.session = session,
                                 .subscriber = live_subscriber(session, resource, 64, on_full),
                                 .gaps = true};
    atomic_store(&board->up, 1);
    while (atomic_load(&board->over) == 0) {
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
    pyddsi_session_free(session);
    _exit(0);
}

static bool has_read(void *context)
{
    return atomic_load(&board->read) >= *(const uint64_t *)context;
}

static void end(pid_t pid)
{
    int status = 0;
    atomic_store(&board->over, 1);
    NEED(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_EQ(atomic_load(&board->wrong), 0);
    (void)munmap(board, sizeof *board);
}

/* A process that is stopped, beside a reader that reads: the others go on, and it has its samples again when it does. */
static void test_is_stopped(bool shared)
{
    live_next_group();
    pid_t pid = child(7, shared, PYDDSI_WAIT);
    pyddsi_session *a = slow_session(shared, SLOW_MS);
    pyddsi_session *b = slow_session(shared, SLOW_MS);
    uint64_t count = LIVE_MANY(20000);
    struct told detached = {.session = a, .kind = PYDDSI_DETACHED};
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher_by(a, 7, true, PYDDSI_WAY_EACH),
                                 .count = count / 2,
                                 .size = 32,
                                 .patient = true};
    struct live_reader reader = {
        .session = b, .subscriber = live_subscriber(b, 7, 256, PYDDSI_WAIT), .until = count};
    (void)live_match(a, writer.publisher, 2);
    NEED(live_lane_readers(a, shared ? 2 : 0));
    live_read_begin(&reader);
    NEED(kill(pid, SIGSTOP) == 0);
    live_write(&writer);
    CHECK_EQ(writer.accepted, count / 2);
    CHECK(live_until(a, is_told, &detached));
    NEED(kill(pid, SIGCONT) == 0);
    NEED(live_lane_readers(a, shared ? 2 : 0)); /* it is back */
    NEED(live_until(a, live_settled, a));
    uint64_t before = atomic_load(&board->read);
    writer.from = count / 2;
    live_write(&writer);
    live_read_join(&reader);
    before++;
    CHECK(live_until(a, has_read, &before));
    CHECK_EQ(reader.wrong, 0);
    CHECK_EQ(reader.total, count);
    end(pid);
    CHECK(live_until(a, live_settled, a));
    pyddsi_session_free(b);
    pyddsi_session_free(a);
}

/* One that drops when it is full is not waited for when it is stopped, although it is the only one: not even for `slow`. */
static void test_stopped_and_would_drop(void)
{
    live_next_group();
    pid_t pid = child(7, true, PYDDSI_DROP_NEWEST);
    pyddsi_session *a = slow_session(true, 600000);
    uint64_t count = LIVE_MANY(8000);
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher(a, 7, true),
                                 .count = count,
                                 .size = 32,
                                 .patient = true};
    (void)live_match(a, writer.publisher, 1);
    NEED(live_lane_readers(a, 1));
    writer.count = 100;
    live_write(&writer);
    NEED(live_until(a, live_settled, a));
    NEED(kill(pid, SIGSTOP) == 0);
    writer.from = 100;
    writer.count = count;
    live_write(&writer);
    CHECK_EQ(writer.accepted, count + 100);
    NEED(kill(pid, SIGCONT) == 0);
    NEED(live_lane_readers(a, 1));
    end(pid);
    pyddsi_session_free(a);
}

/* Somebody writes nonsense into a page: its reader leaves the lane, and gets what comes by the sockets; nobody waits. */
static void test_nonsense(int what)
{
    live_next_group();
    pyddsi_session *a = slow_session(true, SLOW_MS);
    pyddsi_session *b = slow_session(true, SLOW_MS);
    uint64_t count = LIVE_MANY(8000);
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher(a, 7, true),
                                 .count = count,
                                 .size = 32,
                                 .patient = true};
    struct live_reader reader = {
        .session = b, .subscriber = live_subscriber(b, 7, 256, PYDDSI_WAIT), .gaps = true};
    (void)live_match(a, writer.publisher, 1);
    NEED(live_lane_readers(a, 1));
    live_read_begin(&reader);
    live_write(&writer);
    NEED(live_until(a, live_settled, a));
    NEED(pdi_session_enter(b));
    for (int i = 0; i < 64; i++) {
        struct pdi_shared_page *page = b->lanes->page;
        if (what == 0) {
            pdi_atomic64_store_relaxed(&page->brought[i].number, UINT64_C(1) << 62);
        } else if (what == 1) {
            pdi_atomic64_store_relaxed(&page->places[i].position, UINT64_C(1) << 62);
        } else if (what == 2) {
            pdi_atomic64_store_relaxed(&page->brought[i].number, 1); /* it goes back */
        } else {
            pdi_atomic64_store_relaxed(&page->places[i].until,
                                       1); /* the writer may go no further */
        }
    }
    pdi_session_leave(b);
    writer.from = count;
    writer.large = 60000; /* which its lane has no room for: it is to lead back */
    writer.every = count / 2;
    live_write(&writer);
    CHECK_EQ(writer.accepted, 2 * count);
    CHECK(live_until(a, live_settled, a));
    live_read_end(&reader);
    CHECK_EQ(reader.wrong, 0);
    CHECK_EQ(reader.expected[0], 2 * count);
    /* what may still have lain in the lane is lost, with a line, and nothing else */
    CHECK(2 * count - reader.total <= live_lost(a, PYDDSI_AT_WINDOW, PYDDSI_BY_PEER_LOST));
    CHECK(2 * count - reader.total <= 2 * LANE);
    pyddsi_session_free(b);
    pyddsi_session_free(a);
}

int main(void)
{
    test_is_stopped(true);
    test_is_stopped(false);
    test_stopped_and_would_drop();
    test_does_not_read(true);
    test_does_not_read(false);
    test_nonsense(0);
    test_nonsense(1);
    test_nonsense(2);
    test_nonsense(3);
    return test_result();
}
