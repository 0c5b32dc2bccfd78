/* netns.h - network namespaces, cables and addresses of a test's own, without any program of the system's.
 *
 * What changes the network asks the kernel itself (rtnetlink). A thread is in one namespace at a time, and a socket belongs to
 * the one in which it was made; so a test with two machines goes from one to the other.
 */
#ifndef PDI_TEST_NETNS_H
#define PDI_TEST_NETNS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "host/port_state.h"
#include "test.h"

#define NETNS_PATIENCE 60 /* seconds: what the kernel says takes less */

/* Makes a network namespace of our own, in which there is nothing but lo, which is down. Some
 * systems keep that from their users: then there is nothing to be tested here, and it says so. */
static inline bool in_namespace(void)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0) {
        return true;
    }
    printf("no network namespaces here (%s): not tested in one\n", strerror(errno));
    CHECK(errno == EPERM || errno == EACCES || errno == ENOSPC || errno == ENOSYS ||
          errno == EINVAL); /* which the thread sanitizer's own thread causes */
    return false;
}

static inline void turn(const char *name, bool up)
{
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    CHECK_EQ(ioctl(fd, SIOCGIFFLAGS, &request), 0);
    request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    CHECK_EQ(ioctl(fd, SIOCSIFFLAGS, &request), 0);
    close(fd);
}

/* A question to the kernel about the network: a header, a struct, attributes. */
struct question {
    struct nlmsghdr header;
    uint8_t rest[200];
};

static inline struct question ask(uint16_t type, const void *what, size_t size)
{
    struct question question = {
        .header = {.nlmsg_len = NLMSG_LENGTH((uint32_t)size),
                   .nlmsg_type = type,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK},
    };
    memcpy(question.rest, what, size);
    return question;
}

static inline void with(struct question *question, uint16_t type, const void *value, size_t size)
{
    struct rtattr attribute = {.rta_len = (uint16_t)RTA_LENGTH(size), .rta_type = type};
    uint8_t *end = (uint8_t *)question + question->header.nlmsg_len;
    memcpy(end, &attribute, sizeof attribute);
    memcpy(end + RTA_LENGTH(0), value, size);
    question->header.nlmsg_len += (uint32_t)RTA_SPACE(size);
}

/* Asks; answers 0 or the errno. */
static inline int answer(const struct question *question)
{
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        uint8_t rest[500];
    } got;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    CHECK_EQ(send(fd, question, question->header.nlmsg_len, 0), question->header.nlmsg_len);
    CHECK(recv(fd, &got, sizeof got, 0) >= (ssize_t)(sizeof got.header + sizeof got.error.error));
    CHECK_EQ(got.header.nlmsg_type, NLMSG_ERROR);
    close(fd);
    return -got.error.error;
}

/* ip -6 route add local ff00::/8 dev lo */
static inline void route_groups_to_lo(void)
{
    const struct rtmsg route = {.rtm_family = AF_INET6,
                                .rtm_dst_len = 8,
                                .rtm_table = RT_TABLE_LOCAL,
                                .rtm_protocol = RTPROT_STATIC,
                                .rtm_type = RTN_LOCAL};
    const uint8_t groups[16] = {0xff};
    uint32_t index = if_nametoindex("lo");
    struct question question = ask(RTM_NEWROUTE, &route, sizeof route);
    with(&question, RTA_DST, groups, sizeof groups);
    with(&question, RTA_OIF, &index, sizeof index);
    CHECK_EQ(answer(&question), 0);
}

/* A socket that is told of the IPv6 routes that come. */
static inline int watch_routes(void)
{
    const struct sockaddr_nl groups = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_IPV6_ROUTE};
    const struct timeval patience = {.tv_sec = NETNS_PATIENCE};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    CHECK_EQ(bind(fd, (const struct sockaddr *)&groups, sizeof groups), 0);
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    return fd;
}

/* Waits for the route to an address of our own: the kernel adds it in its own time, and before
 * that it finds nobody at the address. */
static inline void await_route(int fd, const pyddsi_endpoint *address)
{
    struct {
        struct nlmsghdr header;
        struct rtmsg route;
        uint8_t attributes[1000];
    } got;
    ssize_t size;
    do {
        size = recv(fd, &got, sizeof got, 0);
        CHECK(size > 0);
    } while (size > 0 &&
             (got.header.nlmsg_type != RTM_NEWROUTE || got.route.rtm_type != RTN_LOCAL ||
              memmem(&got, (size_t)size, address->ip, sizeof address->ip) == NULL));
    close(fd);
}

/* ip addr add ADDRESS/64 dev NAME nodad, or /24 for IPv4 */
static inline void give(const char *name, const pyddsi_endpoint *address)
{
    const struct ifaddrmsg what = {.ifa_family = address->kind == 4 ? AF_INET : AF_INET6,
                                   .ifa_prefixlen = address->kind == 4 ? 24 : 64,
                                   .ifa_flags = IFA_F_NODAD | IFA_F_PERMANENT,
                                   .ifa_index = if_nametoindex(name)};
    struct question question = ask(RTM_NEWADDR, &what, sizeof what);
    int routes = watch_routes();
    with(&question, IFA_LOCAL, address->ip, address->kind == 4 ? 4 : 16);
    with(&question, IFA_ADDRESS, address->ip, address->kind == 4 ? 4 : 16);
    CHECK_EQ(answer(&question), 0);
    if (address->kind == 6) {
        await_route(routes, address);
    } else {
        close(routes);
    }
}

/* Makes a cable with two ends, `name` and veth0, that get no address by themselves; answers whether
 * this kernel knows how. */
static inline bool make_cable(const char *name)
{
    const struct ifinfomsg what = {.ifi_family = AF_UNSPEC};
    const struct {
        struct rtattr kind;
        char veth[4];
    } info = {{.rta_len = RTA_LENGTH(4), .rta_type = IFLA_INFO_KIND}, {'v', 'e', 't', 'h'}};
    const struct {
        struct rtattr family;
        struct rtattr mode;
        uint32_t none;
    } manner = {{.rta_len = RTA_LENGTH(8), .rta_type = AF_INET6},
                {.rta_len = RTA_LENGTH(1), .rta_type = IFLA_INET6_ADDR_GEN_MODE},
                IN6_ADDR_GEN_MODE_NONE};
    struct question question = ask(RTM_NEWLINK, &what, sizeof what);
    with(&question, IFLA_IFNAME, name, strlen(name) + 1);
    with(&question, IFLA_LINKINFO, &info, sizeof info);
    if (answer(&question) != 0) {
        printf("no cables here: groups of one link not tested\n");
        return false;
    }
    const char *const ends[] = {name, "veth0"};
    for (int i = 0; i < 2; i++) {
        question = ask(RTM_SETLINK, &what, sizeof what);
        with(&question, IFLA_IFNAME, ends[i], strlen(ends[i]) + 1);
        with(&question, IFLA_AF_SPEC, &manner, sizeof manner);
        CHECK_EQ(answer(&question), 0);
    }
    return true;
}

/* ip addr del ADDRESS dev NAME */
static inline void take_away(const char *name, const pyddsi_endpoint *address)
{
    const struct ifaddrmsg what = {.ifa_family = address->kind == 4 ? AF_INET : AF_INET6,
                                   .ifa_prefixlen = address->kind == 4 ? 24 : 64,
                                   .ifa_index = if_nametoindex(name)};
    struct question question = ask(RTM_DELADDR, &what, sizeof what);
    with(&question, IFA_LOCAL, address->ip, address->kind == 4 ? 4 : 16);
    CHECK_EQ(answer(&question), 0);
}

/* The namespace that this thread is in. */
static inline int netns_here(void)
{
    int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static inline void netns_enter(int netns)
{
    CHECK_EQ(setns(netns, CLONE_NEWNET), 0);
}

/* Makes another namespace, with lo up, and stays where it was. */
static inline int netns_other(void)
{
    int here = netns_here();
    CHECK_EQ(unshare(CLONE_NEWNET), 0);
    int other = netns_here();
    turn("lo", true);
    netns_enter(here);
    close(here);
    return other;
}

/* A cable from this namespace into another; its ends are down, and have the same name. */
static inline bool netns_cable(const char *name, int other)
{
    const struct ifinfomsg what = {.ifi_family = AF_UNSPEC};
    if (!make_cable(name)) {
        return false;
    }
    struct question question = ask(RTM_SETLINK, &what, sizeof what);
    with(&question, IFLA_IFNAME, "veth0", 6);
    with(&question, IFLA_NET_NS_FD, &other, sizeof other);
    CHECK_EQ(answer(&question), 0);
    int here = netns_here();
    netns_enter(other);
    question = ask(RTM_SETLINK, &what, sizeof what);
    uint32_t index = if_nametoindex("veth0");
    struct ifinfomsg *link = (struct ifinfomsg *)question.rest;
    link->ifi_index = (int)index;
    with(&question, IFLA_IFNAME, name, strlen(name) + 1);
    CHECK_EQ(answer(&question), 0);
    netns_enter(here);
    close(here);
    return true;
}

#endif
