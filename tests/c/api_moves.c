/* Sessions whose machine gets another address while samples flow both ways: they go on, and nothing is lost.
 *
 *     here  ── cable (10.78.0.1, then .101, then .102) ─────── cable (10.78.0.2) ──  there
 */
#include "live.h"

#include "netns.h"

#define COUNT LIVE_MANY(40000)
#define SIZE  64U

static const pyddsi_endpoint far = {.ip = {10, 78, 0, 2}, .kind = 4};
static const pyddsi_endpoint near[] = {{.ip = {10, 78, 0, 1}, .kind = 4},
                                       {.ip = {10, 78, 0, 101}, .kind = 4},
                                       {.ip = {10, 78, 0, 102}, .kind = 4}};

static int there = -1; /* the other namespace */

static pyddsi_session *open_on(const char *interface)
{
    pyddsi_session_options options = live_options(false);
    (void)snprintf(options.interface, sizeof options.interface, "%s", interface);
    return live_open(&options);
}

/* One stream from a session to another. */
struct flow {
    pyddsi_session *from, *to;
    struct live_writer writer;
    struct live_reader reader;
};

static void begin(struct flow *flow, uint64_t resource, uint8_t way)
{
    uint32_t subscriber = live_subscriber(flow->to, resource, 64, PYDDSI_WAIT);
    uint32_t publisher = live_publisher_by(flow->from, resource, true, way);
    (void)live_match(flow->from, publisher, 1);
    flow->writer = (struct live_writer){.session = flow->from,
                                        .publisher = publisher,
                                        .count = COUNT,
                                        .size = SIZE,
                                        .patient = true};
    flow->reader =
        (struct live_reader){.session = flow->to, .subscriber = subscriber, .until = COUNT};
    live_read_begin(&flow->reader);
    live_write_begin(&flow->writer);
}

static void end(struct flow *flow)
{
    live_write_end(&flow->writer);
    live_read_join(&flow->reader);
    CHECK_EQ(flow->writer.accepted, COUNT);
    CHECK_EQ(flow->reader.total, COUNT);
    CHECK_EQ(flow->reader.wrong, 0);
}

/* Whether the peer of a session is known at this address. */
struct known {
    pyddsi_session *session;
    const pyddsi_endpoint *where;
};

static bool is_known(void *context)
{
    const struct known *known = context;
    pyddsi_peer peer;
    NEED(pyddsi_session_peer(known->session, 0, &peer) == PYDDSI_OK);
    return memcmp(peer.endpoint.ip, known->where->ip, sizeof peer.endpoint.ip) == 0;
}

/* How many sessions have ended. */
static int ended(pyddsi_session *session)
{
    pyddsi_event event;
    int count = 0;
    while (pyddsi_session_event(session, &event) == PYDDSI_OK) {
        count += event.kind == PYDDSI_DISCONNECTED;
    }
    return count;
}

/* If this fails, a machine that gets another address (DHCP, Wi-Fi) loses its sessions, and with them what is under way. */
static void test_moves(const char *interface, uint8_t way)
{
    live_next_group();
    int home = netns_here();
    struct flow out = {.from = open_on(interface)};
    netns_enter(there);
    struct flow back = {.from = open_on(interface), .to = out.from};
    netns_enter(home);
    out.to = back.from;
    begin(&out, 1, way);
    begin(&back, 2, way);
    for (int i = 0; i < 2; i++) { /* the first time while samples flow */
        struct known known = {back.from, &near[i + 1]};
        take_away("cable", &near[i]);
        give("cable", &near[i + 1]);
        CHECK(live_until(back.from, is_known, &known));
    }
    end(&out);
    end(&back);
    CHECK_EQ(ended(out.from), 0);
    CHECK_EQ(ended(back.from), 0);
    pyddsi_session_close(out.from, LIVE_PATIENCE);
    pyddsi_session_close(back.from, LIVE_PATIENCE);
    pyddsi_session_free(out.from);
    pyddsi_session_free(back.from);
    take_away("cable", &near[2]);
    give("cable", &near[0]);
    close(home);
}

int main(void)
{
    if (!in_namespace()) {
        return test_result();
    }
    turn("lo", true);
    there = netns_other();
    if (!netns_cable("cable", there)) {
        return test_result();
    }
    give("cable", &near[0]);
    turn("cable", true);
    int home = netns_here();
    netns_enter(there);
    give("cable", &far);
    turn("cable", true);
    netns_enter(home);
    close(home);
    test_moves("", PYDDSI_WAY_EACH);
    test_moves("", PYDDSI_WAY_MULTICAST);
    test_moves("cable", PYDDSI_WAY_MULTICAST);
    return test_result();
}
