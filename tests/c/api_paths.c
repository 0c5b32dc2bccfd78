/* Sessions over paths that carry more than Ethernet does: found, used, and done without when they carry less.
 *
 * On the loopback, and over a cable between two network namespaces of the test's own.
 */
#include "live.h"

#include "netns.h"

#define SIZE  60000U /* 42 pieces */
#define COUNT LIVE_MANY(240)

static int there = -1; /* the other namespace */

/* ip link set NAME mtu BYTES */
static void carry(const char *name, int bytes)
{
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    request.ifr_mtu = bytes;
    CHECK_EQ(ioctl(fd, SIOCSIFMTU, &request), 0);
    close(fd);
}

static void carry_there(const char *name, int bytes)
{
    int here = netns_here();
    netns_enter(there);
    carry(name, bytes);
    netns_enter(here);
    close(here);
}

static pyddsi_session *open_on(const char *name)
{
    pyddsi_session_options options = live_options(false);
    options.node.unicast_bytes = 4 * SIZE;
    options.node.unicast_samples = 1024;
    (void)snprintf(options.interface, sizeof options.interface, "%s", name);
    return live_open(&options);
}

static pyddsi_session *open_there(const char *name)
{
    int here = netns_here();
    netns_enter(there);
    pyddsi_session *session = open_on(name);
    netns_enter(here);
    close(here);
    return session;
}

/* One stream from a session to another, which is read to its end. */
struct flow {
    pyddsi_session *from, *to;
    struct live_writer writer;
    struct live_reader reader;
    pyddsi_stats before;
};

static void begin(struct flow *flow, uint64_t resource, uint64_t count)
{
    uint32_t subscriber = live_subscriber(flow->to, resource, 64, PYDDSI_WAIT);
    uint32_t publisher = live_publisher_by(flow->from, resource, true, PYDDSI_WAY_EACH);
    (void)live_match(flow->from, publisher, 1);
    NEED(pyddsi_session_stats(flow->from, &flow->before) == PYDDSI_OK);
    flow->writer = (struct live_writer){.session = flow->from,
                                        .publisher = publisher,
                                        .count = count,
                                        .size = SIZE,
                                        .patient = true};
    flow->reader =
        (struct live_reader){.session = flow->to, .subscriber = subscriber, .until = count};
    live_read_begin(&flow->reader);
    live_write_begin(&flow->writer);
}

/* How many bytes a packet had that carried the stream. */
static uint64_t end(struct flow *flow)
{
    pyddsi_stats stats;
    live_write_end(&flow->writer);
    live_read_join(&flow->reader);
    CHECK_EQ(flow->writer.accepted, flow->writer.count);
    CHECK_EQ(flow->reader.total, flow->writer.count);
    CHECK_EQ(flow->reader.wrong, 0);
    NEED(pyddsi_session_stats(flow->from, &stats) == PYDDSI_OK);
    return (stats.bytes_out - flow->before.bytes_out) /
           (stats.packets_out - flow->before.packets_out);
}

static uint64_t run(struct flow *flow, uint64_t resource)
{
    begin(flow, resource, COUNT);
    return end(flow);
}

static void close_both(struct flow *flow)
{
    pyddsi_session_close(flow->from, LIVE_PATIENCE);
    pyddsi_session_close(flow->to, LIVE_PATIENCE);
    pyddsi_session_free(flow->from);
    pyddsi_session_free(flow->to);
}

/* If this fails, samples of 60,000 bytes go through the loopback in 42 packets each, where one or two would do. */
static void test_loopback(void)
{
    struct flow flow = {.from = open_on("lo"), .to = open_on("lo")};
    CHECK(run(&flow, 1) > 20000);
    close_both(&flow);
}

/* If this fails, a session sends packets that its interface does not carry, or none of those that it does. */
static void test_cable(int mtu, uint64_t least, uint64_t most)
{
    carry("cable", mtu);
    carry_there("cable", mtu);
    live_next_group();
    struct flow flow = {.from = open_on("cable"), .to = open_there("cable")};
    uint64_t bytes = run(&flow, 1);
    CHECK(bytes >= least);
    CHECK(bytes <= most);
    close_both(&flow);
}

static bool is_under_way(void *context)
{
    const struct flow *flow = context;
    pyddsi_stats stats;
    NEED(pyddsi_session_stats(flow->from, &stats) == PYDDSI_OK);
    return stats.acknowledged > flow->before.acknowledged + COUNT / 4 * (SIZE / 1472);
}

/* If this fails, a path that begins to carry less while a stream runs swallows the rest of it: first the far end alone, of which
 * nobody tells us (a switch, say), then our own. */
static void test_shrinks(bool far)
{
    carry("cable", 9000);
    carry_there("cable", 9000);
    live_next_group();
    struct flow flow = {.from = open_on("cable"), .to = open_there("cable")};
    CHECK(run(&flow, 1) > 4000);
    begin(&flow, 2, COUNT);
    NEED(live_until(flow.from, is_under_way, &flow));
    if (far) {
        carry_there("cable", 1500);
    } else {
        carry("cable", 1500);
    }
    (void)end(&flow);
    (void)run(&flow, 3);
    CHECK_EQ(live_lost(flow.to, PYDDSI_PLACE_COUNT, PYDDSI_BY_GAP), 0);
    close_both(&flow);
}

static void in_namespaces(void)
{
    const pyddsi_endpoint one = {.ip = {10, 77, 0, 1}, .kind = 4},
                          two = {.ip = {10, 77, 0, 2}, .kind = 4};
    if (!in_namespace()) {
        return;
    }
    turn("lo", true);
    there = netns_other();
    if (!netns_cable("cable", there)) {
        return;
    }
    give("cable", &one);
    turn("cable", true);
    int here = netns_here();
    netns_enter(there);
    give("cable", &two);
    turn("cable", true);
    netns_enter(here);
    close(here);
    test_cable(1500, 0, 1472);
    test_cable(9000, 4000, 8972);
    test_shrinks(true);
    test_shrinks(false);
}

int main(void)
{
    live_next_group();
    test_loopback();
    in_namespaces();
    return test_result();
}
