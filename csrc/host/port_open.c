/* port_open.c - opens a port, everything or nothing, and closes it. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/port_inbox.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

/* What the options ask for that cannot be. */
static int check(const struct pdi_port_options *options, const struct pdi_port_text *text)
{
    char name[PDI_PORT_ADDRESS_ROOM];
    if (options->family != PDI_PORT_IPV4 && options->family != PDI_PORT_IPV6) {
        return pdi_port_text_fail(text, EINVAL, "the family is %u: it must be 4 or 6",
                                  (unsigned)options->family);
    }
    if (options->groups > PDI_PORT_GROUPS_MAX) {
        return pdi_port_text_fail(text, EINVAL, "%u groups: at most %u can be joined",
                                  (unsigned)options->groups, (unsigned)PDI_PORT_GROUPS_MAX);
    }
    for (uint32_t i = 0; i < options->groups; i++) {
        const pyddsi_endpoint *group = &options->group[i];
        if (group->kind != options->family) {
            return pdi_port_text_fail(text, EINVAL, "group %u is not IPv%u as the others are",
                                      (unsigned)i, (unsigned)options->family);
        }
        if (!pdi_port_address_group(group) || group->port == 0) {
            return pdi_port_text_fail(text, EINVAL,
                                      "%s port %u is not a multicast group: IPv4 has them from "
                                      "224.0.0.0 to 239.255.255.255, IPv6 in ff00::/8, and the "
                                      "port is not 0",
                                      pdi_port_address_print(group, name), (unsigned)group->port);
        }
    }
    return PYDDSI_OK;
}

/* Whether a group is listed before. */
static bool listed(const struct pdi_port_options *options, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++) {
        if (pdi_port_address_same(&options->group[i], &options->group[at]) &&
            options->group[i].port == options->group[at].port) {
            return true;
        }
    }
    return false;
}

/* Makes epoll tell of a descriptor by this number. Answers as epoll_ctl. */
static int listen_to(const struct pdi_port *port, int fd, uint32_t number)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};
    return epoll_ctl(port->epoll, EPOLL_CTL_ADD, fd, &event);
}

int pdi_port_watch(const struct pdi_port *port, int fd)
{
    return listen_to(port, fd, PDI_PORT_WATCHED) == 0 ? PYDDSI_OK : -errno;
}

/* The groups come first, so that a port that the system chooses is none of theirs. */
static int open_sockets(struct pdi_port *port, const struct pdi_port_options *options,
                        const struct pdi_port_path *path, const pyddsi_endpoint *own,
                        uint16_t *local, const struct pdi_port_text *text)
{
    for (uint32_t i = 0; i < options->groups; i++) {
        if (listed(options, i)) {
            continue;
        }
        int fd = pdi_port_socket_join(options, path, &options->group[i], text);
        if (fd < 0) {
            return fd;
        }
        port->sockets[port->count++] =
            (struct pdi_port_socket){.fd = fd, .own = own[i], .group = options->group[i]};
    }
    port->sockets[0].fd = pdi_port_socket_open(options, path, local, text);
    if (port->sockets[0].fd < 0) {
        return port->sockets[0].fd;
    }
    for (uint32_t i = 1; i < port->count; i++) {
        port->sockets[i].own.port = *local;
    }
    return PYDDSI_OK;
}

static int open_bells(struct pdi_port *port, const struct pdi_port_text *text)
{
    port->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (port->epoll < 0) {
        return pdi_port_text_refused(text, errno, "make an epoll descriptor");
    }
    port->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (port->bell < 0) {
        return pdi_port_text_refused(text, errno, "make an eventfd");
    }
    int failed = listen_to(port, port->bell, PDI_PORT_BELL);
    for (uint32_t i = 0; i < port->count && failed == 0; i++) {
        failed = listen_to(port, port->sockets[i].fd, i);
    }
    return failed == 0 ? PYDDSI_OK : pdi_port_text_refused(text, errno, "wait for the sockets");
}

/* What the system can do with many packets at once is used. It knows segments if it can say how
 * long they are. */
static void learn_many(struct pdi_port *port)
{
    int each = 0;
    socklen_t size = sizeof each;
    bool cuts = getsockopt(port->sockets[0].fd, SOL_UDP, PDI_PORT_UDP_SEGMENT, &each, &size) == 0;
    pdi_atomic32_store_relaxed(&port->segment_below, cuts ? UINT16_MAX : 0);
    port->many_out = sendmmsg(port->sockets[0].fd, NULL, 0, MSG_DONTWAIT) == 0;
}

void pdi_port_lend(struct pdi_port *port, int fd, uint8_t family, uint32_t scope)
{
    *port = (struct pdi_port){.epoll = -1, .bell = -1, .news = -1, .family = family, .count = 1};
    pdi_atomic32_store_relaxed(&port->scope, scope);
    port->sockets[0].fd = fd;
    learn_many(port);
}

static int open_streams(struct pdi_port *port, const struct pdi_streams_options *options,
                        const struct pdi_port_text *text)
{
    int status = pdi_streams_open(&port->streams, options, text->text, text->room);
    if (status == PYDDSI_OK &&
        listen_to(port, pdi_streams_fd(port->streams), PDI_PORT_STREAMS) < 0) {
        status = pdi_port_text_refused(text, errno, "wait for connections");
    }
    return status;
}

struct pdi_streams *pdi_port_streams(const struct pdi_port *port)
{
    return port->streams;
}

int pdi_port_open(struct pdi_port **port, const struct pdi_port_options *options,
                  pyddsi_endpoint *local, char *text, size_t room)
{
    struct pdi_port_text words = {text, room};
    struct pdi_port_path path;
    pyddsi_endpoint own[PDI_PORT_GROUPS_MAX];
    uint16_t number = 0;
    *port = NULL;
    int status = check(options, &words);
    if (status < 0) {
        return status;
    }
    status = pdi_port_path_find(&path, options, own, &words);
    if (status < 0) {
        return status;
    }
    struct pdi_port *fresh = calloc(1, sizeof(*fresh));
    if (fresh == NULL) {
        return pdi_port_text_refused(&words, ENOMEM, "make a port");
    }
    *fresh = (struct pdi_port){.own_filter = options->own_filter != 0,
                               .epoll = -1,
                               .bell = -1,
                               .news = -1,
                               .family = options->family,
                               .path = path,
                               .options = *options,
                               .count = 1};
    fresh->sockets[0].fd = -1;
    for (uint32_t i = 0; i < PDI_PORT_WAYS_MAX; i++) {
        fresh->way[i].fd = -1;
    }
    (void)snprintf(fresh->interface, sizeof fresh->interface, "%s",
                   options->interface != NULL ? options->interface : "");
    fresh->options.interface = fresh->interface;
    fresh->options.streams = NULL;
    pdi_atomic32_store_relaxed(&fresh->scope, path.index);
    pdi_rand_init(&fresh->losses, 1); /* what a test loses shall be the same each time */
    status = open_sockets(fresh, options, &path, own, &number, &words);
    if (status == PYDDSI_OK) {
        status = open_bells(fresh, &words);
    }
    if (status == PYDDSI_OK && options->many != 0) {
        learn_many(fresh);
        pdi_port_inbox_open(fresh);
    }
    if (status == PYDDSI_OK) {
        fresh->number = number;
        pdi_port_ways_open(fresh);
    }
    if (status == PYDDSI_OK && options->streams != NULL) {
        status = open_streams(fresh, options->streams, &words);
    }
    if (status < 0) {
        pdi_port_close(fresh);
        return status;
    }
    *local = options->groups > 0 ? own[0] : path.address;
    local->port = number;
    *port = fresh;
    return PYDDSI_OK;
}

void pdi_port_close(struct pdi_port *port)
{
    if (port == NULL) {
        return;
    }
    for (uint32_t i = 0; i < port->count; i++) {
        if (port->sockets[i].fd >= 0) {
            close(port->sockets[i].fd);
        }
    }
    pdi_port_ways_close(port);
    pdi_streams_close(port->streams);
    if (port->bell >= 0) {
        close(port->bell);
    }
    if (port->epoll >= 0) {
        close(port->epoll);
    }
    pdi_port_inbox_close(port);
    free(port);
}

/* What a socket's buffer holds; the system counts its own expense and so doubles what it gives. */
static uint32_t granted(int fd, int option)
{
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? (uint32_t)value / 2 : 0;
}

void pdi_port_buffers(const struct pdi_port *port, struct pdi_port_buffers *buffers)
{
    *buffers = (struct pdi_port_buffers){
        .receive_bytes = granted(port->sockets[0].fd, SO_RCVBUF),
        .send_bytes = granted(port->sockets[0].fd, SO_SNDBUF),
    };
    uint32_t count = port->own_filter ? 1 : port->count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t numbers[SK_MEMINFO_VARS] = {0};
        socklen_t size = sizeof numbers;
        if (getsockopt(port->sockets[i].fd, SOL_SOCKET, SO_MEMINFO, numbers, &size) == 0) {
            buffers->dropped += numbers[SK_MEMINFO_DROPS];
        }
    }
}
