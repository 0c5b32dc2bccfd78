/* port_socket.c - makes the sockets of a port, one at a time. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/port_state.h"

#include <errno.h>
#include <linux/filter.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* Linux 4.20 knows this; the C library's headers may be older. */
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#define IPV6_ADDR_PREFERENCES_OPTION 72
#define IPV6_PREFER_PUBLIC           2

static int set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value);
}

/* Asks for a buffer; the system gives what it allows, and pdi_port_buffers tells how much. */
static void ask(int fd, int option, uint32_t bytes)
{
    if (bytes != 0) {
        (void)set(fd, SOL_SOCKET, option, (int)bytes);
    }
}

int pdi_port_socket_make(uint8_t family, const struct pdi_port_text *text)
{
    int domain = family == PDI_PORT_IPV4 ? AF_INET : AF_INET6;
    int fd = socket(domain, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return pdi_port_text_refused(
            text, errno, family == PDI_PORT_IPV4 ? "make an IPv4 socket" : "make an IPv6 socket");
    }
    if (family == PDI_PORT_IPV6) {
        /* no IPv4 in disguise, and a source address that stays what it is */
        (void)set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
        (void)set(fd, IPPROTO_IPV6, IPV6_ADDR_PREFERENCES_OPTION, IPV6_PREFER_PUBLIC);
        (void)set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
    } else {
        (void)set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    }
    return fd;
}

int pdi_port_socket_steer(int fd, const struct pdi_port_path *path)
{
    if (path->address.kind == PDI_PORT_IPV4) {
        /* The address as well: on an interface whose addresses are of this machine alone, such as
         * lo, the system finds none by itself and would send from 0.0.0.0. */
        struct ip_mreqn way = {.imr_ifindex = (int)path->index};
        memcpy(&way.imr_address, path->address.ip, 4);
        return setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &way, sizeof way);
    }
    return set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)path->index);
}

/* How far multicast packets go, and whether this machine hears them. */
static int limit(int fd, const struct pdi_port_options *options)
{
    bool v4 = options->family == PDI_PORT_IPV4;
    int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
    if (set(fd, level, v4 ? IP_MULTICAST_TTL : IPV6_MULTICAST_HOPS, options->ttl) < 0) {
        return -1;
    }
    return set(fd, level, v4 ? IP_MULTICAST_LOOP : IPV6_MULTICAST_LOOP, options->loopback != 0);
}

/* Binds the unicast socket; *local becomes its port. Answers as bind. */
static int attach(int fd, const struct pdi_port_options *options, const struct pdi_port_path *path,
                  uint16_t *local)
{
    pyddsi_endpoint here = {.kind = options->family, .port = options->port};
    union pdi_port_address address;
    if (path->chosen) {
        memcpy(here.ip, path->address.ip, sizeof here.ip);
    }
    socklen_t size = pdi_port_address_put(&address, &here, path->index);
    if (bind(fd, &address.any, size) < 0 || getsockname(fd, &address.any, &size) < 0) {
        return -1;
    }
    pdi_port_address_get(&address, &here);
    *local = here.port;
    return 0;
}

/* Says why the unicast socket cannot be had. */
static int refuse(const struct pdi_port_options *options, const struct pdi_port_text *text,
                  int code)
{
    if (code == EADDRINUSE && options->port == 0) {
        return pdi_port_text_fail(text, code,
                                  "no UDP port is free: close sessions, or widen the range "
                                  "(sysctl net.ipv4.ip_local_port_range)");
    }
    if (code == EADDRINUSE) {
        return pdi_port_text_fail(text, code,
                                  "UDP port %u is in use, by another program or by a listener to a "
                                  "group at that port: choose another, or 0 for any",
                                  (unsigned)options->port);
    }
    if (code == EACCES) {
        return pdi_port_text_fail(text, code,
                                  "no permission for UDP port %u: choose one from 1024 on, or 0 "
                                  "for any",
                                  (unsigned)options->port);
    }
    return pdi_port_text_refused(text, code, "bind the unicast socket");
}

int pdi_port_socket_open(const struct pdi_port_options *options, const struct pdi_port_path *path,
                         uint16_t *local, const struct pdi_port_text *text)
{
    int fd = pdi_port_socket_make(options->family, text);
    if (fd < 0) {
        return fd;
    }
    ask(fd, SO_RCVBUF, options->receive_bytes);
    ask(fd, SO_SNDBUF, options->send_bytes);
    if (attach(fd, options, path, local) < 0) {
        int code = errno;
        close(fd);
        return refuse(options, text, code);
    }
    if (limit(fd, options) < 0 || (path->index != 0 && pdi_port_socket_steer(fd, path) < 0)) {
        int code = errno;
        close(fd);
        return pdi_port_text_refused(text, code, "choose the interface for multicast");
    }
    return fd;
}

int pdi_port_socket_member(int fd, uint32_t index, const pyddsi_endpoint *group, bool joins)
{
    if (group->kind == PDI_PORT_IPV4) {
        struct ip_mreqn what = {.imr_ifindex = (int)index};
        memcpy(&what.imr_multiaddr, group->ip, 4);
        return setsockopt(fd, IPPROTO_IP, joins ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &what,
                          sizeof what);
    }
    struct ipv6_mreq what = {.ipv6mr_interface = index};
    memcpy(&what.ipv6mr_multiaddr, group->ip, 16);
    return setsockopt(fd, IPPROTO_IPV6, joins ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &what,
                      sizeof what);
}

int pdi_port_socket_join(const struct pdi_port_options *options, const struct pdi_port_path *path,
                         const pyddsi_endpoint *group, const struct pdi_port_text *text)
{
    char name[PDI_PORT_ADDRESS_ROOM];
    union pdi_port_address address;
    int fd = pdi_port_socket_make(options->family, text);
    if (fd < 0) {
        return fd;
    }
    ask(fd, SO_RCVBUF, options->receive_bytes);
    if (options->family == PDI_PORT_IPV6) {
        /* IPv4 asks each packet's interface by itself; an IPv6 group is heard on all interfaces that anyone here has
         * joined it on, so the socket tells of each packet by which it came (a group of one link belongs to one, by its
         * address) */
        (void)set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
    }
    socklen_t size = pdi_port_address_put(&address, group, path->index);
    if (set(fd, SOL_SOCKET, SO_REUSEADDR, 1) == 0 && bind(fd, &address.any, size) == 0 &&
        pdi_port_socket_member(fd, path->index, group, true) == 0) {
        return fd;
    }
    int code = errno;
    close(fd);
    pdi_port_address_print(group, name);
    if (code == EADDRINUSE) {
        return pdi_port_text_fail(text, code,
                                  "UDP port %u of the group %s is in use by a program that does "
                                  "not share it: end that, or choose another port",
                                  (unsigned)group->port, name);
    }
    char what[32 + PDI_PORT_ADDRESS_ROOM];
    snprintf(what, sizeof what, "join the group %s", name);
    return pdi_port_text_refused(text, code, what);
}

/* Nothing is sent to the address that it is bound to, which is a group's that it has not joined; it is there for its port.
 * The unicast socket has that port for itself, but for the moment in which this one is bound. */
int pdi_port_socket_further(const struct pdi_port_options *options, int unicast, uint16_t local,
                            const pyddsi_endpoint *group)
{
    char unsaid[PDI_PORT_ADDRESS_ROOM + 80];
    const struct pdi_port_text text = {unsaid, sizeof unsaid};
    struct pdi_port_options quiet = *options;
    pyddsi_endpoint here = *group;
    union pdi_port_address address;
    int fd = pdi_port_socket_make(options->family, &text);
    if (fd < 0) {
        return fd;
    }
    here.port = local;
    quiet.loopback = 0;
    socklen_t size = pdi_port_address_put(&address, &here, 0);
    ask(fd, SO_SNDBUF, options->send_bytes);
    bool fine = limit(fd, &quiet) == 0 && set(fd, SOL_SOCKET, SO_REUSEADDR, 1) == 0 &&
                set(unicast, SOL_SOCKET, SO_REUSEADDR, 1) == 0 && bind(fd, &address.any, size) == 0;
    int code = errno;
    (void)set(unicast, SOL_SOCKET, SO_REUSEADDR, 0);
    if (!fine) {
        close(fd);
        return -code;
    }
    return fd;
}

static bool muted(const struct pdi_port_way *way)
{
    return way->index != 0 && way->address.kind == PDI_PORT_IPV4;
}

/* A program of the kernel's packet filter: it sees the packet from the UDP header on, which begins
 * with the port of the source, and the IP header in front of that at SKF_NET_OFF. A step for the IPv4 address of each
 * further way, which leads to the end that leaves out. Then two for our port, two for each word of our
 * address, and two ends: whatever differs goes on to the last. */
void pdi_port_socket_mute(int fd, const pyddsi_endpoint *own,
                          const struct pdi_port_way way[PDI_PORT_WAYS_MAX])
{
    struct sock_filter steps[13 + PDI_PORT_WAYS_MAX];
    uint32_t words = own->kind == PDI_PORT_IPV4 ? 1 : 4;
    uint32_t at = (uint32_t)SKF_NET_OFF + (own->kind == PDI_PORT_IPV4 ? 12 : 8);
    uint8_t differs = (uint8_t)(2 * words + 1);
    uint8_t left = 0; /* ways that are still to be compared */
    uint16_t count = 0;
    for (uint32_t i = 0; i < PDI_PORT_WAYS_MAX; i++) {
        left = (uint8_t)(left + muted(&way[i]));
    }
    if (left != 0) {
        steps[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at);
    }
    for (uint32_t i = 0; i < PDI_PORT_WAYS_MAX; i++) {
        if (muted(&way[i])) {
            uint32_t word;
            memcpy(&word, way[i].address.ip, sizeof word);
            left--;
            steps[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(word),
                                                          (uint8_t)(left + 2 + 2 * words), 0);
        }
    }
    steps[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 0);
    steps[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, own->port, 0, differs);
    for (uint32_t i = 0; i < words; i++) {
        uint32_t word;
        memcpy(&word, own->ip + 4 * (size_t)i, sizeof word);
        differs = (uint8_t)(differs - 2);
        steps[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at + 4 * i);
        steps[count++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(word), 0, differs);
    }
    steps[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    steps[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
    struct sock_fprog program = {.len = count, .filter = steps};
    (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}
