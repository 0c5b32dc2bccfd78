/* A session on two networks of IPv6 and sessions that are on one of them each: samples reach both, both ways, by the group.
 *
 *     here  ── one (fd00:1::1) ───── one (fd00:1::2) ──  a machine
 *           ── two (fd00:2::1) ───── two (fd00:2::2) ──  another
 */
#include "live.h"

#include "netns.h"

#define COUNT LIVE_MANY(4000)
#define SIZE  64U

static pyddsi_endpoint address(uint8_t network, uint8_t host)
{
    return (pyddsi_endpoint){.ip = {0xfd, [3] = network, [15] = host}, .kind = 6};
}

/* Another machine, with a cable of this name to here. */
static int machine(const char *name, uint8_t network)
{
    int home = netns_here();
    int other = netns_other();
    pyddsi_endpoint ours = address(network, 1), theirs = address(network, 2);
    NEED(netns_cable(name, other));
    netns_enter(other);
    turn(name, true);
    netns_enter(home);
    turn(name, true);
    give(name, &ours);
    netns_enter(other);
    give(name, &theirs);
    netns_enter(home);
    close(home);
    return other;
}

/* A session that names no interface. */
static pyddsi_session *open_at(int netns)
{
    pyddsi_session_options options = live_options(false);
    int home = netns_here();
    options.interface[0] = 0;
    netns_enter(netns);
    pyddsi_session *session = live_open(&options);
    netns_enter(home);
    close(home);
    return session;
}

/* One stream from a session to others. */
static void flow(pyddsi_session *from, pyddsi_session *const to[], int count, uint64_t resource)
{
    struct live_reader readers[2] = {0};
    for (int i = 0; i < count; i++) {
        readers[i] =
            (struct live_reader){.session = to[i],
                                 .subscriber = live_subscriber(to[i], resource, 64, PYDDSI_WAIT),
                                 .until = COUNT};
    }
    struct live_writer writer = {.session = from,
                                 .publisher =
                                     live_publisher_by(from, resource, true, PYDDSI_WAY_MULTICAST),
                                 .count = COUNT,
                                 .size = SIZE,
                                 .patient = true};
    (void)live_match(from, writer.publisher, count);
    for (int i = 0; i < count; i++) {
        live_read_begin(&readers[i]);
    }
    live_write_begin(&writer);
    live_write_end(&writer);
    CHECK_EQ(writer.accepted, COUNT);
    for (int i = 0; i < count; i++) {
        live_read_join(&readers[i]);
        CHECK_EQ(readers[i].total, COUNT);
        CHECK_EQ(readers[i].wrong, 0);
    }
}

/* If this fails, a machine with two networks of IPv6 meets those of one of them alone. */
int main(void)
{
    int probe = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0) {
        printf("no IPv6 here: not tested\n");
        return test_result();
    }
    close(probe);
    if (!in_namespace()) {
        return test_result();
    }
    turn("lo", true);
    live_group = (pyddsi_endpoint){.ip = {0xff, 5, [15] = 0x71}, .port = 29971, .kind = 6};
    int home = netns_here();
    int machines[] = {machine("one", 1), machine("two", 2)};
    pyddsi_session *both = open_at(home);
    pyddsi_session *single[] = {open_at(machines[0]), open_at(machines[1])};
    flow(both, single, 2, 1);
    flow(single[0], &both, 1, 2);
    flow(single[1], &both, 1, 3);
    for (int i = 0; i < 2; i++) {
        pyddsi_session_close(single[i], LIVE_PATIENCE);
        pyddsi_session_free(single[i]);
        close(machines[i]);
    }
    pyddsi_session_close(both, LIVE_PATIENCE);
    pyddsi_session_free(both);
    close(home);
    return test_result();
}
