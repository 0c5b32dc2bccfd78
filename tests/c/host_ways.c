/* host/port.h: machines with several networks, and with addresses that change, in network namespaces of the test's own. It is
 * so long because IPv4 and IPv6 go through the same scenes.
 *
 *     here  ── one (10.1.0.1, fd00:1::1) ───── one (10.1.0.2, fd00:1::2) ──  there
 *           ── two (10.2.0.1, fd00:2::1) ───── two (10.2.0.2, fd00:2::2) ──
 */
#define _GNU_SOURCE
#include <sys/wait.h>

#include "base/time.h"
#include "host/port_many.h"
#include "netns.h"

#define LONG  (10 * PDI_TIME_S)
#define TRIES 20

/* By which the sessions of a test meet: all IPv4, or all IPv6. */
static pyddsi_endpoint here_one = {.ip = {10, 1, 0, 1}, .kind = 4};
static pyddsi_endpoint here_two = {.ip = {10, 2, 0, 1}, .kind = 4};
static pyddsi_endpoint there_one = {.ip = {10, 1, 0, 2}, .kind = 4};
static pyddsi_endpoint there_two = {.ip = {10, 2, 0, 2}, .kind = 4};
static pyddsi_endpoint moved_one = {.ip = {10, 1, 0, 101}, .kind = 4};
static pyddsi_endpoint group = {.ip = {239, 255, 77, 9}, .port = 29989, .kind = 4};

static int here, there;
static uint8_t own_filter;

/* A port of this machine, or of the other; the thread is where the port is while it is used. */
struct place {
    int netns;
    struct pdi_port *port;
    pyddsi_endpoint local;
};

static void open_place(struct place *place, int netns, const char *interface)
{
    char said[400] = "";
    const struct pdi_port_options options = {.interface = interface,
                                             .family = group.kind,
                                             .ttl = 1,
                                             .loopback = 1,
                                             .own_filter = own_filter,
                                             .many = own_filter,
                                             .groups = 1,
                                             .group = {group}};
    place->netns = netns;
    netns_enter(netns);
    CHECK_EQ(pdi_port_open(&place->port, &options, &place->local, said, sizeof said), PYDDSI_OK);
    CHECK_TEXT(said, "");
    if (place->port == NULL) { /* nothing that follows would make sense */
        exit(test_result());
    }
}

static void say(struct place *place, const pyddsi_endpoint *to, uint32_t number)
{
    netns_enter(place->netns);
    CHECK_EQ(pdi_port_send(place->port, to, (const uint8_t *)&number, sizeof number), PYDDSI_OK);
}

/* Waits for the next packet and answers its number. */
static uint32_t hear(struct place *place, pyddsi_endpoint *from)
{
    uint32_t number = UINT32_MAX;
    size_t size = 0;
    int status = PYDDSI_AGAIN;
    netns_enter(place->netns);
    for (int tries = 0; tries < TRIES && status == PYDDSI_AGAIN;
         tries++) { /* or it lies in an inbox */
        CHECK(tries == 0 || pdi_port_wait(place->port, LONG) == PYDDSI_OK);
        status = pdi_port_receive(place->port, (uint8_t *)&number, sizeof number, &size, from);
    }
    CHECK_EQ(status, PYDDSI_OK);
    if (test_failures != 0) { /* nothing that follows would make sense */
        exit(test_result());
    }
    return number;
}

/* `to` hears a number by the group, from this address; and its answer arrives. */
static void reaches(struct place *from, struct place *to, const pyddsi_endpoint *address,
                    uint32_t number)
{
    pyddsi_endpoint source;
    say(from, &group, number);
    CHECK_EQ(hear(to, &source), number);
    CHECK(pdi_port_address_same(&source, address));
    CHECK_EQ(source.port, from->local.port);
    say(to, &source, number + 1);
    CHECK_EQ(hear(from, &source), number + 1);
}

/* What a place hears next is this, and nothing before it: it is sent to it alone, behind all else. */
static void hears_no_more(struct place *place, struct place *from)
{
    pyddsi_endpoint source;
    say(from, &place->local, 4711);
    CHECK_EQ(hear(place, &source), 4711);
}

static void wait_moved(struct place *place, const pyddsi_endpoint *address)
{
    netns_enter(place->netns);
    for (int tries = 0; tries < TRIES; tries++) { /* several changes belong to one */
        if (pdi_port_moved(place->port, &place->local) &&
            pdi_port_address_same(&place->local, address)) {
            return;
        }
        CHECK_EQ(pdi_port_wait(place->port, LONG), PYDDSI_OK);
    }
    CHECK(pdi_port_address_same(&place->local, address));
}

static void wait_ways(struct place *place, uint32_t count)
{
    netns_enter(place->netns);
    for (int tries = 0;
         tries < TRIES &&
         (uint32_t)__builtin_popcount(pdi_atomic32_load_relaxed(&place->port->ways)) != count;
         tries++) {
        CHECK_EQ(pdi_port_wait(place->port, LONG), PYDDSI_OK);
    }
    CHECK_EQ(__builtin_popcount(pdi_atomic32_load_relaxed(&place->port->ways)), count);
}

static void close_place(struct place *place)
{
    pdi_port_close(place->port);
}

static void set_up(const char *name, const pyddsi_endpoint *ours, const pyddsi_endpoint *theirs)
{
    netns_enter(there);
    turn(name, true);
    netns_enter(here);
    turn(name, true);
    give(name, ours);
    netns_enter(there);
    give(name, theirs);
    netns_enter(here);
}

/* If it failed, a machine with two networks would be found on one of them alone, or by an address that cannot be answered
 * to; or sessions of one machine would have everything twice. */
static void two_networks(void)
{
    struct place a, b, one, two;
    pyddsi_endpoint list[PDI_PORT_WAYS_MAX];
    pyddsi_endpoint from;
    open_place(&a, here, "");
    open_place(&b, here, "");
    open_place(&one, there, "one");
    open_place(&two, there, "two");
    CHECK_EQ(pdi_port_addresses(a.port, list, PDI_PORT_WAYS_MAX), 2);
    CHECK(pdi_port_address_same(&list[0], &here_one) && list[0].port == a.local.port);
    CHECK(pdi_port_address_same(&list[1], &here_two) && list[1].port == a.local.port);
    CHECK_EQ(pdi_port_addresses(a.port, list, 1), 1);
    say(&a, &group, 1);
    CHECK_EQ(hear(&one, &from), 1);
    CHECK(pdi_port_address_same(&from, &here_one) && from.port == a.local.port);
    CHECK_EQ(hear(&two, &from), 1);
    CHECK(pdi_port_address_same(&from, &here_two) && from.port == a.local.port);
    say(&two, &from, 2);
    CHECK_EQ(hear(&a, &from), 2);
    CHECK_EQ(hear(&b, &from), 1);
    CHECK(pdi_port_address_same(&from, &here_one));
    hears_no_more(&b, &a); /* not once more by the other network */
    say(&one, &group, 5);
    say(&two, &group, 6);
    uint32_t both = hear(&a, &from) + hear(&a, &from);
    CHECK_EQ(both, 11);
    both = hear(&b, &from) + hear(&b, &from);
    CHECK_EQ(both, 11);
    struct place mute; /* it does not hear the others, so they do not hear it */
    open_place(&mute, here, "two");
    say(&mute, &group, 7);
    CHECK_EQ(hear(&two, &from), 7);
    hears_no_more(&a, &b);
    hears_no_more(&b, &a);
    hears_no_more(&mute, &a);
    close_place(&mute);
    /* the other's end may be taken by nobody else, now that it was shared for a moment */
    struct pdi_port_options options = {
        .interface = "", .family = group.kind, .ttl = 1, .port = a.local.port};
    char said[400];
    struct pdi_port *thief;
    pyddsi_endpoint local;
    netns_enter(here);
    CHECK_EQ(pdi_port_open(&thief, &options, &local, said, sizeof said), -EADDRINUSE);
    close_place(&a);
    close_place(&b);
    close_place(&one);
    close_place(&two);
}

/* If it failed, many packets with one call would go by the first way alone. */
static void many_packets(void)
{
    static uint8_t bytes[8][100];
    struct pdi_port_packet packets[8];
    uint32_t heard = 0;
    struct place a, one, two;
    pyddsi_endpoint from;
    open_place(&a, here, "");
    open_place(&one, there, "one");
    open_place(&two, there, "two");
    for (uint32_t i = 0; i < 8; i++) {
        memcpy(bytes[i], &i, sizeof i);
        packets[i] = (struct pdi_port_packet){bytes[i], sizeof bytes[i], group};
    }
    packets[7].to = one.local; /* it alone */
    netns_enter(here);
    struct pdi_port_result result = pdi_port_send_many(a.port, packets, 8, 0);
    CHECK_EQ(result.full + result.failed, 0);
    for (uint32_t i = 0; i < 8; i++) {
        heard |= 1U << hear(&one, &from); /* they come by two sockets */
    }
    CHECK_EQ(heard, 255);
    for (uint32_t i = 0; i < 7; i++) {
        CHECK_EQ(hear(&two, &from), i);
    }
    close_place(&a);
    close_place(&one);
    close_place(&two);
}

/* If it failed, a session would be cut off from its groups for good when its machine gets another address. */
static void address_changes(void)
{
    struct place a, b, fixed;
    open_place(&a, here, "");
    open_place(&b, there, "one");
    open_place(&fixed, here, "one");
    netns_enter(here);
    take_away("one", &here_one);
    give("one", &moved_one);
    wait_moved(&a, &moved_one);
    wait_moved(&fixed, &moved_one);
    reaches(&a, &b, &moved_one, 1);
    pyddsi_endpoint from;
    CHECK_EQ(hear(&fixed, &from), 1);
    reaches(&fixed, &b, &moved_one, 3); /* its socket was bound to the address that is gone */
    CHECK_EQ(hear(&a, &from), 3);
    reaches(&b, &a, &there_one, 5);
    CHECK_EQ(hear(&fixed, &from), 5);
    hears_no_more(&a, &b); /* not itself */
    netns_enter(here);
    take_away("one", &moved_one);
    give("one", &here_one);
    close_place(&a);
    close_place(&b);
    close_place(&fixed);
}

/* If it failed, robots on a switch without a router would not find each other, since nothing there is a route to a group; and
 * a session that begins before its network would stay alone, or one whose cable is pulled out for a while. */
static void cable_comes(void)
{
    struct place a, b, c;
    open_place(&a, here, "");
    open_place(&c, here, "");
    CHECK(a.local.ip[0] == 127);
    CHECK(netns_cable("one", there));
    set_up("one", &here_one, &there_one);
    wait_moved(&a, &here_one);
    wait_moved(&c, &here_one);
    open_place(&b, there, "");
    reaches(&a, &b, &here_one, 1);
    pyddsi_endpoint from;
    CHECK_EQ(hear(&c, &from), 1);
    reaches(&b, &a, &there_one, 3);
    CHECK_EQ(hear(&c, &from), 3);
    netns_enter(here);
    CHECK(netns_cable("two", there));
    set_up("two", &here_two, &there_two);
    wait_ways(&a, 1);
    wait_ways(&c, 1);
    close_place(&b);
    open_place(&b, there, "two");
    reaches(&a, &b, &here_two, 3);
    CHECK_EQ(hear(&c, &from), 3);
    netns_enter(here);
    turn("two", false);
    wait_ways(&a, 0);
    turn("two", true);
    wait_ways(&a, 1);
    reaches(&a, &b, &here_two, 5);
    close_place(&a);
    close_place(&b);
    close_place(&c);
}

static pyddsi_endpoint six(uint8_t link, uint8_t host)
{
    return (pyddsi_endpoint){.ip = {0xfd, [3] = link, [15] = host}, .kind = 6};
}

/* From now on sessions meet by IPv6. False: this machine does not speak it. */
static bool speak_six(void)
{
    static const char *const names[] = {"one", "two"};
    pyddsi_endpoint *ours[] = {&here_one, &here_two}, *theirs[] = {&there_one, &there_two};
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        printf("no IPv6 here: its groups not tested\n");
        return false;
    }
    close(fd);
    for (uint8_t i = 0; i < 2; i++) {
        *ours[i] = six((uint8_t)(i + 1), 1);
        *theirs[i] = six((uint8_t)(i + 1), 2);
        set_up(names[i], ours[i], theirs[i]);
    }
    moved_one = six(1, 0x65);
    group = (pyddsi_endpoint){.ip = {0xff, 5, [15] = 0x79}, .port = 29979, .kind = 6};
    return true;
}

/* If it failed, a network with IPv6 that comes while a session is open would be left out, or one whose addresses are good on its
 * link alone would be used, where nothing that is answered arrives. */
static void six_comes(void)
{
    static const pyddsi_endpoint link = {.ip = {0xfe, 0x80, [15] = 0x77}, .kind = 6};
    static const pyddsi_endpoint far_link = {.ip = {0xfe, 0x80, [15] = 0x78}, .kind = 6};
    static const pyddsi_endpoint wide = {.ip = {0x20, 1, 0x0d, 0xb8, [15] = 1}, .kind = 6};
    struct place a, fresh, two, near;
    pyddsi_endpoint from, list[PDI_PORT_WAYS_MAX];
    open_place(&a, here, "");
    wait_ways(&a, 1);
    take_away("two", &here_two);
    wait_ways(&a, 0);
    give("two", &link);
    open_place(&fresh, here, "");
    wait_ways(&fresh, 0);
    close_place(&fresh);
    open_place(&two, there, "two");
    netns_enter(here);
    give("two", &here_two);
    wait_ways(&a, 1);
    reaches(&a, &two, &here_two, 3);
    reaches(&two, &a, &there_two, 5);
    netns_enter(there);
    give("two", &far_link);
    open_place(&near, there, "fe80::78");
    say(&near, &group, 7); /* it cannot be answered */
    say(&two, &group, 8);
    CHECK_EQ(hear(&a, &from), 8);
    CHECK(pdi_port_address_same(&from, &there_two));
    CHECK_EQ(hear(&two, &from), 7);
    netns_enter(here);
    give("two", &wide); /* which the kernel prefers for groups, */
    take_away("two", &here_two);
    give("two", &here_two); /* and tells of after this one */
    open_place(&fresh, here, "");
    say(&fresh, &group, 9);
    CHECK_EQ(hear(&two, &from), 9);
    CHECK(pdi_port_address_same(&from, &wide));
    CHECK_EQ(pdi_port_addresses(fresh.port, list, PDI_PORT_WAYS_MAX), 2);
    CHECK(pdi_port_address_same(&list[1], &wide));
    netns_enter(here);
    take_away("two", &wide);
    take_away("two", &link);
    netns_enter(there);
    take_away("two", &far_link);
    close_place(&a);
    close_place(&fresh);
    close_place(&two);
    close_place(&near);
}

/* If it failed, a group of one link would be heard on links where its packets' sources cannot be answered. */
static void six_link(void)
{
    const pyddsi_endpoint before = group;
    struct place a, one, two;
    pyddsi_endpoint from;
    group.ip[1] = 2;
    open_place(&a, here, "");
    open_place(&one, there, "one");
    open_place(&two, there, "two");
    CHECK_EQ(pdi_atomic32_load_relaxed(&a.port->ways), 0);
    say(&a, &group, 1);
    CHECK_EQ(hear(&one, &from), 1);
    CHECK(pdi_port_address_same(&from, &here_one));
    say(&two, &group, 2);
    say(&one, &group, 3);
    CHECK_EQ(hear(&a, &from), 3);
    close_place(&a);
    close_place(&one);
    close_place(&two);
    group = before;
}

/* Others of this machine may join the group on an interface that is none of ours. If it failed, what comes there would be taken,
 * and a session on lo would hear one on a network that does not hear it. */
static void six_elsewhere(void)
{
    struct place a, b, lo;
    pyddsi_endpoint from;
    open_place(&a, here, "");
    open_place(&b, here, "");
    open_place(&lo, here, "lo");
    say(&lo, &group, 1);
    say(&b, &group, 2);
    CHECK_EQ(hear(&a, &from), 2);
    say(&a, &group, 3);
    CHECK_EQ(hear(&b, &from), 3);
    close_place(&a);
    close_place(&b);
    close_place(&lo);
}

static bool prepared(void)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        printf("no network namespaces here (%s): not tested in one\n", strerror(errno));
        CHECK(errno == EPERM || errno == EACCES || errno == ENOSPC || errno == ENOSYS ||
              errno == EINVAL);
        return false;
    }
    here = netns_here();
    turn("lo", true);
    there = netns_other();
    return true;
}

static void all(void)
{
    if (!prepared()) {
        return;
    }
    cable_comes(); /* makes the cables that the others use */
    for (own_filter = 0; own_filter < 2; own_filter++) {
        two_networks();
        many_packets();
        address_changes();
    }
    if (!speak_six()) {
        return;
    }
    for (own_filter = 0; own_filter < 2; own_filter++) {
        two_networks();
        many_packets();
        address_changes();
        six_comes();
        six_link();
    }
    route_groups_to_lo();
    for (own_filter = 0; own_filter < 2; own_filter++) {
        six_elsewhere();
    }
}

int main(void)
{
    all();
    return test_result();
}
