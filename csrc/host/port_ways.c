/* port_ways.c - the further ways of groups, and what happens when addresses of this machine change.
 *
 *     kernel ── link, address or route has changed ──► news ──► the thread that waits: pdi_port_ways_follow
 *                                                                     │ looks at all interfaces, as the opening does
 *                                                  first way ◄────────┼────────► further ways
 *                                       steer the unicast socket;     │     join and leave; a socket each that sends
 *                                       bind it anew, if it is bound  ▼
 *                                       to an address            filters of the groups' sockets
 *
 * All is computed from what there is now, and never from what the kernel said: messages of it may be lost, and between two
 * of them more may have changed. Several at once cost one look.
 *
 * Where no way is left at all, everything stays as it was: a cable that is pulled out often comes back with the same address.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/port_inbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <netinet/udp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* So many messages are read at one time; more of them have us look once more. */
#define READS_MAX 64

/* ---- what the kernel tells ---- */

/* Whether a route may be one that groups take: the default route, or one to a group. (Machines that route for others may
 * change theirs all day long.) */
static bool for_groups(const struct nlmsghdr *header)
{
    const struct rtmsg *route = NLMSG_DATA(header);
    if (header->nlmsg_len < NLMSG_LENGTH(sizeof *route) || route->rtm_dst_len == 0) {
        return true;
    }
    size_t left = header->nlmsg_len - NLMSG_LENGTH(sizeof *route);
    for (const struct rtattr *one = RTM_RTA(route); RTA_OK(one, left); one = RTA_NEXT(one, left)) {
        if (one->rta_type == RTA_DST && RTA_PAYLOAD(one) != 0) {
            return *(const uint8_t *)RTA_DATA(one) >= 224;
        }
    }
    return true;
}

/* Reads what the kernel has told; whether something has changed that may concern us. */
static bool hear(int news)
{
    _Alignas(struct nlmsghdr) uint8_t got[8192];
    bool changed = false;
    for (int i = 0; i < READS_MAX; i++) {
        ssize_t size = recv(news, got, sizeof got, MSG_DONTWAIT);
        if (size <= 0) {
            return changed || (size < 0 && errno == ENOBUFS); /* it had more to tell than room */
        }
        size_t left = (size_t)size;
        for (const struct nlmsghdr *one = (const void *)got; NLMSG_OK(one, left);
             one = NLMSG_NEXT(one, left)) {
            bool route = one->nlmsg_type == RTM_NEWROUTE || one->nlmsg_type == RTM_DELROUTE;
            changed = changed || !route || for_groups(one);
        }
    }
    return true;
}

static int listen_to_kernel(void)
{
    const struct sockaddr_nl groups = {.nl_family = AF_NETLINK,
                                       .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR |
                                                    RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&groups, sizeof groups) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* ---- the further ways ---- */

/* The first group that further ways carry; null: there is none. */
static const pyddsi_endpoint *first_wide(const struct pdi_port *port)
{
    for (uint32_t i = 1; i < port->count; i++) {
        if (pdi_port_address_wide(&port->sockets[i].group)) {
            return &port->sockets[i].group;
        }
    }
    return NULL;
}

/* Whether an interface is to be a further way; then *path is that of packets to such groups. Of several IPv6 addresses it has the
 * one that the kernel sends from, and an address of the link alone is none: a peer could not be answered there. */
static bool fits(const struct pdi_port *port, const struct pdi_port_interface *row,
                 const pyddsi_endpoint *group, struct pdi_port_path *path)
{
    char unsaid[200];
    const struct pdi_port_text text = {unsaid, sizeof unsaid};
    pyddsi_endpoint own;
    int refused = 0;
    if (!row->up || !row->running || !row->multicast || row->loopback ||
        row->address.kind != port->family || row->index == port->path.index) {
        return false;
    }
    *path = (struct pdi_port_path){.address = row->address, .index = row->index};
    if (port->family == PDI_PORT_IPV4) {
        return true;
    }
    if (pdi_port_path_probe(path, group, &own, &refused, &text) < 0 || refused != 0 ||
        pdi_port_address_link(&own)) {
        return false;
    }
    path->address = own;
    return true;
}

/* Every group's socket joins, or leaves; with `wide` only those that further ways carry. What fails is an interface that has
 * vanished meanwhile, or more memberships than the system allows (igmp_max_memberships): then nothing comes that way. */
static void member(const struct pdi_port *port, uint32_t index, bool wide, bool joins)
{
    for (uint32_t i = 1; i < port->count; i++) {
        if (!wide || pdi_port_address_wide(&port->sockets[i].group)) {
            (void)pdi_port_socket_member(port->sockets[i].fd, index, &port->sockets[i].group,
                                         joins);
        }
    }
}

/* With the lock. Whether it is in use now. */
static bool use(struct pdi_port *port, struct pdi_port_way *way, const struct pdi_port_path *path,
                const pyddsi_endpoint *group)
{
    if (way->fd < 0) {
        way->fd = pdi_port_socket_further(&port->options, port->sockets[0].fd, port->number, group);
    }
    if (way->fd < 0 || pdi_port_socket_steer(way->fd, path) < 0) {
        return false;
    }
    way->index = path->index;
    way->address = path->address;
    member(port, way->index, true, true);
    return true;
}

/* With the lock. True: something is different. */
static bool find_ways(struct pdi_port *port)
{
    struct pdi_port_interface list[PDI_PORT_INTERFACES_MAX];
    struct pdi_port_path wanted[PDI_PORT_WAYS_MAX];
    uint32_t count = 0, found = 0, kept = 0, bits = 0;
    bool changed = false;
    const pyddsi_endpoint *group = first_wide(port);
    if (port->path.chosen || group == NULL ||
        pdi_port_interfaces(list, PDI_PORT_INTERFACES_MAX, &count) < 0) {
        return false;
    }
    for (uint32_t i = 0; i < count && found < PDI_PORT_WAYS_MAX; i++) {
        bool known = false; /* of several addresses the first */
        for (uint32_t k = 0; k < found; k++) {
            known = known || wanted[k].index == list[i].index;
        }
        if (!known && fits(port, &list[i], group, &wanted[found])) {
            found++;
        }
    }
    for (uint32_t i = 0; i < PDI_PORT_WAYS_MAX; i++) { /* those that are gone */
        struct pdi_port_way *way = &port->way[i];
        bool stays = false;
        for (uint32_t k = 0; k < found && way->index != 0; k++) {
            if (wanted[k].index == way->index &&
                pdi_port_address_same(&wanted[k].address, &way->address)) {
                stays = true;
                kept |= UINT32_C(1) << k;
            }
        }
        if (way->index != 0 && !stays) {
            if (way->index != port->path.index) {
                member(port, way->index, true, false);
            }
            way->index = 0;
            changed = true;
        }
        bits |= stays ? UINT32_C(1) << i : 0;
    }
    for (uint32_t k = 0; k < found; k++) { /* and those that are new */
        uint32_t free = (uint32_t)__builtin_ctz(~bits);
        if ((kept >> k & 1) == 0 && use(port, &port->way[free], &wanted[k], group)) {
            bits |= UINT32_C(1) << free;
            changed = true;
        }
    }
    pdi_atomic32_store_relaxed(&port->ways, bits);
    return changed;
}

/* ---- the first way ---- */

/* The unicast socket is bound to an address that is gone: another takes its place, with the same number of its own and of
 * its port, so that no thread that sends has to know. */
static bool bind_anew(struct pdi_port *port, const struct pdi_port_path *path)
{
    char unsaid[200];
    const struct pdi_port_text text = {unsaid, sizeof unsaid};
    struct pdi_port_options options = port->options;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 0};
    const int one = 1;
    uint16_t number;
    options.port = port->number;
    int fd = pdi_port_socket_open(&options, path, &number, &text);
    if (fd < 0) {
        return false;
    }
    bool fine = dup3(fd, port->sockets[0].fd, O_CLOEXEC) >= 0;
    close(fd);
    if (fine && port->inbox != NULL) {
        (void)setsockopt(port->sockets[0].fd, SOL_UDP, PDI_PORT_UDP_GRO, &one, sizeof one);
    }
    (void)epoll_ctl(port->epoll, EPOLL_CTL_ADD, port->sockets[0].fd, &event);
    return fine;
}

/* With the lock. True: it is another one now. */
static bool find_path(struct pdi_port *port)
{
    char unsaid[400];
    const struct pdi_port_text text = {unsaid, sizeof unsaid};
    struct pdi_port_path path;
    pyddsi_endpoint own[PDI_PORT_GROUPS_MAX];
    const struct pdi_port_path before = port->path;
    if (pdi_port_path_find(&path, &port->options, own, &text) < 0 || path.index == 0) {
        return false;
    }
    if (path.index == before.index && pdi_port_address_same(&path.address, &before.address)) {
        return false;
    }
    bool fine = path.chosen ? bind_anew(port, &path)
                            : pdi_port_socket_steer(port->sockets[0].fd, &path) == 0;
    if (!fine) {
        return false; /* it has changed once more, which will be told */
    }
    port->path = path;
    pdi_atomic32_store_relaxed(&port->scope, path.index);
    if (path.index != before.index) {
        member(port, before.index, false, false);
        member(port, path.index, false, true);
    }
    for (uint32_t i = 1; i < port->count; i++) {
        for (uint32_t k = 0; k < port->options.groups; k++) {
            if (pdi_port_address_same(&port->options.group[k], &port->sockets[i].group)) {
                port->sockets[i].own = own[k];
                port->sockets[i].own.port = port->number;
            }
        }
    }
    return true;
}

/* ---- the whole ---- */

static void mute(const struct pdi_port *port)
{
    for (uint32_t i = 1; i < port->count && port->own_filter; i++) {
        pdi_port_socket_mute(port->sockets[i].fd, &port->sockets[i].own, port->way);
    }
}

void pdi_port_ways_follow(struct pdi_port *port)
{
    if (!hear(port->news)) {
        return;
    }
    pdi_lock_take(&port->ways_lock);
    bool moved = find_path(port);
    moved = find_ways(port) || moved;
    if (moved) {
        mute(port);
    }
    pdi_lock_give(&port->ways_lock);
    port->moved = port->moved || moved;
}

void pdi_port_ways_open(struct pdi_port *port)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = PDI_PORT_NEWS};
    port->news = listen_to_kernel();
    if (port->news >= 0 && epoll_ctl(port->epoll, EPOLL_CTL_ADD, port->news, &event) < 0) {
        close(port->news);
        port->news = -1;
    }
    (void)find_ways(port);
    mute(port);
}

void pdi_port_ways_close(struct pdi_port *port)
{
    for (uint32_t i = 0; i < PDI_PORT_WAYS_MAX; i++) {
        if (port->way[i].fd >= 0) {
            close(port->way[i].fd);
        }
    }
    if (port->news >= 0) {
        close(port->news);
    }
}

bool pdi_port_moved(struct pdi_port *port, pyddsi_endpoint *local)
{
    bool moved = port->moved;
    port->moved = false;
    if (moved) {
        (void)pdi_port_addresses(port, local, 1);
    }
    return moved;
}

uint32_t pdi_port_addresses(struct pdi_port *port, pyddsi_endpoint *list, uint32_t room)
{
    uint32_t count = 0;
    pdi_lock_take(&port->ways_lock);
    if (room != 0) {
        list[count] = port->count > 1 ? port->sockets[1].own : port->path.address;
        list[count++].port = port->number;
    }
    for (uint32_t i = 0; i < PDI_PORT_WAYS_MAX && count < room; i++) {
        if (port->way[i].index != 0) {
            list[count] = port->way[i].address;
            list[count++].port = port->number;
        }
    }
    pdi_lock_give(&port->ways_lock);
    return count;
}
