/* streams_link.c - one connection: its beginning and its end. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/streams_state.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "host/clock.h"

static bool tcp(const pyddsi_endpoint *where)
{
    return where->kind == PDI_STREAM_TCP4 || where->kind == PDI_STREAM_TCP6;
}

socklen_t pdi_stream_address_put(const struct pdi_streams *streams, const pyddsi_endpoint *endpoint,
                                 union pdi_stream_address *address, int *domain)
{
    if (tcp(endpoint)) {
        pyddsi_endpoint ip = *endpoint;
        ip.kind = (uint8_t)(ip.kind - 10);
        *domain = ip.kind == PDI_PORT_IPV4 ? AF_INET : AF_INET6;
        return pdi_port_address_put(&address->ip, &ip, 0);
    }
    const char *path = streams->paths[endpoint->port];
    size_t size = strnlen(path, PYDDSI_PATH_MAX - 1);
    memset(address, 0, sizeof *address);
    address->path.sun_family = AF_UNIX;
    memcpy(address->path.sun_path, path, size);
    *domain = AF_UNIX;
    if (path[0] == '@') { /* an abstract name begins with a zero, and has its length */
        address->path.sun_path[0] = '\0';
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    }
    return sizeof address->path;
}

/* ---- beginning ---- */

/* Everything of a new connection; the endpoint is there. */
static bool begin(struct pdi_streams *streams, struct pdi_stream_link *link, int fd)
{
    int on = 1;
    if (link->in == NULL) {
        link->in = malloc(PDI_STREAM_IN_BYTES);
    }
    link->fd = fd;
    link->in_at = link->in_end = link->out_at = link->out_end = 0;
    link->over = link->heard = link->writable = link->farewell = false;
    pdi_stream_init(&link->framing, &streams->reading, 0);
    if (tcp(&link->where)) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    return link->in != NULL;
}

void pdi_stream_link_live(struct pdi_streams *streams, struct pdi_stream_link *link, pdi_time now)
{
    link->state = PDI_STREAM_LIVE;
    link->failed = 0;
    link->since = now;
    link->due = now + (link->called && !link->heard ? PDI_STREAM_PATIENCE : PDI_STREAM_IDLE);
    streams->counts.live++;
    pdi_stream_arm(streams, link->due);
}

/* It is over, or an attempt has failed: the next one is later; but one that is not of a peer that was named is free. */
static void put_off(struct pdi_streams *streams, struct pdi_stream_link *link, pdi_time now)
{
    pdi_stream_link_hang_up(streams, link);
    if (!link->ours) {
        free(link->in);
        free(link->out);
        *link = (struct pdi_stream_link){.fd = -1};
        return;
    }
    link->state = PDI_STREAM_WAITING;
    if (link->aim.kind != 0) {
        link->where = link->aim;
        link->aim.kind = 0;
    }
    /* a part of it by chance, so that all who lost a broker do not come back as one */
    uint64_t pause = link->pause_ms + now / PDI_TIME_US % (link->pause_ms / 4);
    link->due = now + pause * PDI_TIME_MS;
    link->pause_ms =
        2 * link->pause_ms < PDI_STREAM_PAUSE_MAX_MS ? 2 * link->pause_ms : PDI_STREAM_PAUSE_MAX_MS;
    pdi_stream_arm(streams, link->due);
}

/* An attempt has failed, for this reason. */
static void fail(struct pdi_streams *streams, struct pdi_stream_link *link, int code, pdi_time now)
{
    streams->counts.failed++;
    link->failed++;
    link->code = code;
    put_off(streams, link, now);
}

void pdi_stream_link_connect(struct pdi_streams *streams, struct pdi_stream_link *link,
                             pdi_time now)
{
    union pdi_stream_address address;
    int domain;
    socklen_t size = pdi_stream_address_put(streams, &link->where, &address, &domain);
    int fd = socket(domain, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    link->fd = -1;
    if (fd < 0 || !begin(streams, link, fd)) {
        fail(streams, link, errno, now);
        return;
    }
    bool made = connect(fd, &address.any, size) == 0;
    if ((!made && errno != EINPROGRESS) ||
        pdi_stream_watch(streams, EPOLL_CTL_ADD, fd, pdi_stream_index(streams, link),
                         made ? EPOLLIN : EPOLLOUT) < 0) {
        fail(streams, link, errno, now);
        return;
    }
    link->state = PDI_STREAM_CONNECTING;
    link->due = now + PDI_STREAM_CONNECT;
    pdi_stream_arm(streams, link->due);
    if (made) {
        pdi_stream_link_answered(streams, link, now);
    }
}

bool pdi_stream_link_call(struct pdi_streams *streams, const pyddsi_endpoint *where)
{
    struct pdi_stream_link *link = NULL;
    uint32_t called = 0;
    for (uint32_t i = 0; i < PDI_STREAMS_MAX; i++) {
        struct pdi_stream_link *one = &streams->links[i];
        bool known = one->state != PDI_STREAM_FREE && pdi_stream_same(&one->where, where);
        called += known ? PDI_STREAM_CALLS_MAX : one->called;
        link = link == NULL && i >= streams->ours && one->state == PDI_STREAM_FREE ? one : link;
    }
    if (link == NULL || called >= PDI_STREAM_CALLS_MAX || !tcp(where)) {
        return false;
    }
    *link = (struct pdi_stream_link){.fd = -1,
                                     .state = PDI_STREAM_WAITING,
                                     .called = true,
                                     .where = *where,
                                     .due = pdi_clock_now(),
                                     .in = link->in,
                                     .out = link->out};
    pdi_stream_arm(streams, link->due);
    return true;
}

void pdi_stream_link_answered(struct pdi_streams *streams, struct pdi_stream_link *link,
                              pdi_time now)
{
    int code = 0;
    socklen_t size = sizeof code;
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &code, &size) < 0 || code != 0 ||
        pdi_stream_watch(streams, EPOLL_CTL_MOD, link->fd, pdi_stream_index(streams, link),
                         EPOLLIN) < 0) {
        fail(streams, link, code != 0 ? code : errno, now);
        return;
    }
    streams->counts.made++;
    pdi_stream_link_live(streams, link, now);
    (void)pdi_stream_link_put(streams, link, streams->greeting, streams->greeting_size, false);
}

/* Who it is that has connected. */
static void name(struct pdi_streams *streams, const struct pdi_stream_listener *listener, int fd,
                 const union pdi_stream_address *address, pyddsi_endpoint *where)
{
    if (tcp(&listener->where)) {
        pdi_port_address_get(&address->ip, where);
        where->kind = (uint8_t)(where->kind + 10);
        return;
    }
    struct ucred who = {0};
    socklen_t size = sizeof who;
    (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size);
    *where = (pyddsi_endpoint){.kind = PDI_STREAM_UNIX, .port = listener->where.port};
    uint64_t serial = ++streams->serial;
    for (int i = 0; i < 4; i++) {
        where->ip[i] = (uint8_t)((uint32_t)who.pid >> (24 - 8 * i));
    }
    for (int i = 0; i < 8; i++) {
        where->ip[8 + i] = (uint8_t)(serial >> (56 - 8 * i));
    }
}

void pdi_stream_link_accept(struct pdi_streams *streams, struct pdi_stream_listener *listener,
                            int fd, const union pdi_stream_address *address, pdi_time now)
{
    struct pdi_stream_link *link = NULL;
    pyddsi_endpoint where = {0};
    bool known = false;
    name(streams, listener, fd, address, &where);
    for (uint32_t i = 0; i < PDI_STREAMS_MAX; i++) {
        struct pdi_stream_link *one = &streams->links[i];
        known = known || (one->state != PDI_STREAM_FREE && pdi_stream_same(&one->where, &where));
        link = link == NULL && i >= streams->ours && one->state == PDI_STREAM_FREE ? one : link;
    }
    if (known || link == NULL) { /* a name has one connection; the one before may not be over yet */
        streams->counts.refused++;
        close(fd);
        return;
    }
    *link = (struct pdi_stream_link){.where = where, .in = link->in, .out = link->out};
    if (!begin(streams, link, fd) ||
        pdi_stream_watch(streams, EPOLL_CTL_ADD, fd, pdi_stream_index(streams, link), EPOLLIN) <
            0) {
        streams->counts.refused++;
        pdi_stream_link_hang_up(streams, link);
        return;
    }
    link->state = PDI_STREAM_FRESH;
    link->due = now + PDI_STREAM_PATIENCE;
    streams->counts.accepted++;
    pdi_stream_arm(streams, link->due);
}

/* ---- end ---- */

void pdi_stream_link_hang_up(struct pdi_streams *streams, struct pdi_stream_link *link)
{
    streams->counts.live -= link->state == PDI_STREAM_LIVE;
    if (link->fd >= 0) {
        close(link->fd); /* epoll forgets it */
    }
    link->fd = -1;
    link->out_at = link->out_end = 0;
    link->over = true;
}

void pdi_stream_link_end(struct pdi_streams *streams, struct pdi_stream_link *link, pdi_time now)
{
    pdi_stream_link_hang_up(streams, link);
    link->in_at = link->in_end = 0;
    if (link->since != 0 && now - link->since >= PDI_STREAM_PATIENCE) {
        link->pause_ms = PDI_STREAM_PAUSE_MS; /* one that refuses us would have ended it before */
    }
    link->since = 0;
    put_off(streams, link, now);
}
