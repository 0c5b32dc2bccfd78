/* streams_link.c - one connection: its bytes in and out, its beginning and its end. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/streams_state.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/clock.h"

#define FRAME_HEAD_MAX 2U
#define KIND_MASK      0x1fU
#define THROWN_MAX     16 /* reads of what nobody wants any more, at one time */

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

static void live(struct pdi_streams *streams, struct pdi_stream_link *link, pdi_time now)
{
    link->state = PDI_STREAM_LIVE;
    link->due = now + PDI_STREAM_IDLE;
    streams->counts.live++;
    pdi_stream_arm(streams, link->due);
}

/* An attempt has failed: the next one is later. */
static void put_off(struct pdi_streams *streams, struct pdi_stream_link *link, pdi_time now)
{
    pdi_stream_link_hang_up(streams, link);
    link->state = PDI_STREAM_WAITING;
    /* a part of it by chance, so that all who lost a broker do not come back as one */
    uint64_t pause = link->pause_ms + now / PDI_TIME_US % (link->pause_ms / 4);
    link->due = now + pause * PDI_TIME_MS;
    link->pause_ms =
        2 * link->pause_ms < PDI_STREAM_PAUSE_MAX_MS ? 2 * link->pause_ms : PDI_STREAM_PAUSE_MAX_MS;
    pdi_stream_arm(streams, link->due);
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
        streams->counts.failed++;
        put_off(streams, link, now);
        return;
    }
    bool made = connect(fd, &address.any, size) == 0;
    if ((!made && errno != EINPROGRESS) ||
        pdi_stream_watch(streams, EPOLL_CTL_ADD, fd, pdi_stream_index(streams, link),
                         made ? EPOLLIN : EPOLLOUT) < 0) {
        streams->counts.failed++;
        put_off(streams, link, now);
        return;
    }
    link->state = PDI_STREAM_CONNECTING;
    link->due = now + PDI_STREAM_CONNECT;
    pdi_stream_arm(streams, link->due);
    if (made) {
        pdi_stream_link_answered(streams, link, now);
    }
}

void pdi_stream_link_answered(struct pdi_streams *streams, struct pdi_stream_link *link,
                              pdi_time now)
{
    int code = 0;
    socklen_t size = sizeof code;
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &code, &size) < 0 || code != 0 ||
        pdi_stream_watch(streams, EPOLL_CTL_MOD, link->fd, pdi_stream_index(streams, link),
                         EPOLLIN) < 0) {
        streams->counts.failed++;
        put_off(streams, link, now);
        return;
    }
    streams->counts.made++;
    live(streams, link, now);
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
    if (!link->ours) {
        free(link->in);
        free(link->out);
        *link = (struct pdi_stream_link){.fd = -1};
        return;
    }
    link->pause_ms = link->heard ? PDI_STREAM_PAUSE_MS : link->pause_ms;
    put_off(streams, link, now);
}

/* ---- out ---- */

/* Has epoll tell when it can be written to, if something waits. */
static void follow(struct pdi_streams *streams, struct pdi_stream_link *link)
{
    bool wanted = link->out_at != link->out_end;
    if (wanted != link->writable) {
        link->writable = wanted;
        (void)pdi_stream_watch(streams, EPOLL_CTL_MOD, link->fd, pdi_stream_index(streams, link),
                               wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
}

/* After a CLOSE has left: we say no more, and read no more. */
static void take_leave(struct pdi_streams *streams, struct pdi_stream_link *link)
{
    if (!link->farewell || link->out_at != link->out_end) {
        return;
    }
    streams->counts.live -= link->state == PDI_STREAM_LIVE;
    link->state = PDI_STREAM_CLOSING;
    (void)shutdown(link->fd, SHUT_WR);
}

/* Writes what there is; answers how much of it went, or negative: the connection is broken, and the receive thread will
 * find it shut down. */
static ssize_t write_some(struct pdi_stream_link *link, struct iovec *parts, size_t count)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    ssize_t sent = sendmsg(link->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
        return sent;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS ||
        errno == ENOMEM) {
        return 0;
    }
    int code = errno;
    (void)shutdown(link->fd, SHUT_RDWR);
    return -code;
}

void pdi_stream_link_flush(struct pdi_streams *streams, struct pdi_stream_link *link)
{
    struct iovec part = {link->out + link->out_at, link->out_end - link->out_at};
    if (part.iov_len != 0) {
        ssize_t sent = write_some(link, &part, 1);
        link->out_at = sent < 0 ? link->out_end : link->out_at + (size_t)sent;
    }
    take_leave(streams, link);
    if (link->state == PDI_STREAM_LIVE) {
        follow(streams, link);
    }
}

/* Room for so many bytes behind what waits. */
static bool make_room(struct pdi_stream_link *link, size_t size)
{
    if (link->out == NULL) {
        link->out = malloc(PDI_STREAM_OUT_BYTES);
        if (link->out == NULL) {
            return false;
        }
    }
    if (link->out_at == link->out_end) {
        link->out_at = link->out_end = 0;
    }
    if (PDI_STREAM_OUT_BYTES - link->out_end < size && link->out_at != 0) {
        memmove(link->out, link->out + link->out_at, link->out_end - link->out_at);
        link->out_end -= link->out_at;
        link->out_at = 0;
    }
    return PDI_STREAM_OUT_BYTES - link->out_end >= size;
}

/* Behind what waits. */
static void append(struct pdi_stream_link *link, const uint8_t *data, size_t size)
{
    memcpy(link->out + link->out_end, data, size);
    link->out_end += size;
}

/* Into the socket, as far as it goes, and what is left behind it. */
static int put_through(struct pdi_stream_link *link, uint8_t *head, size_t head_size,
                       const uint8_t *data, size_t size)
{
    struct iovec parts[2] = {{head, head_size}, {(uint8_t *)(uintptr_t)data, size}};
    ssize_t sent = write_some(link, parts, 2);
    if (sent < 0) {
        return (int)sent;
    }
    size_t of_head = (size_t)sent < head_size ? (size_t)sent : head_size;
    append(link, head + of_head, head_size - of_head);
    size_t of_data = (size_t)sent - of_head;
    append(link, data + of_data, size - of_data);
    return PYDDSI_OK;
}

int pdi_stream_link_put(struct pdi_streams *streams, struct pdi_stream_link *link,
                        const uint8_t *data, size_t size, bool more)
{
    uint8_t head[FRAME_HEAD_MAX];
    size_t head_size = 0;
    int status = PYDDSI_OK;
    if (pdi_stream_frame(size, head, sizeof head, &head_size) != PYDDSI_OK || size == 0) {
        return -EMSGSIZE;
    }
    bool room = make_room(link, head_size + size); /* all of a frame must go, or none */
    if (!room && !link->writable) {                /* what waits there only waited for more */
        pdi_stream_link_flush(streams, link);
        room = make_room(link, head_size + size);
    }
    if (!room) {
        streams->counts.full++;
        return PYDDSI_AGAIN;
    }
    if (more || link->out_at != link->out_end) {
        append(link, head, head_size);
        append(link, data, size);
    } else {
        status = put_through(link, head, head_size, data, size);
    }
    if ((data[0] & KIND_MASK) == PYDDSI_CLOSE) {
        link->farewell = true;
        link->due = pdi_clock_now() + PDI_STREAM_LINGER;
        pdi_stream_arm(streams, link->due);
        more = false;
    }
    if (!more && !link->writable) {
        pdi_stream_link_flush(streams, link);
    }
    return status;
}

/* ---- in ---- */

/* The connection is over; what was read of it can still be taken. */
static void over(struct pdi_streams *streams, struct pdi_stream_link *link)
{
    pdi_lock_take(&streams->lock);
    pdi_stream_link_hang_up(streams, link);
    link->state = PDI_STREAM_ENDED;
    pdi_lock_give(&streams->lock);
}

/* Reads what nobody wants any more, so that the system can tell when the other side has closed. */
static void throw_away(struct pdi_streams *streams, struct pdi_stream_link *link)
{
    ssize_t got = 1;
    for (int i = 0; i < THROWN_MAX && got > 0; i++) {
        got = recv(link->fd, link->in, PDI_STREAM_IN_BYTES, MSG_DONTWAIT);
    }
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
        over(streams, link);
    }
}

void pdi_stream_link_read(struct pdi_streams *streams, struct pdi_stream_link *link, pdi_time now)
{
    uint64_t bit = UINT64_C(1) << pdi_stream_index(streams, link);
    pdi_lock_take(&streams->lock); /* a sender may have said CLOSE */
    bool closing = link->state == PDI_STREAM_CLOSING;
    pdi_lock_give(&streams->lock);
    if (closing) {
        link->in_at = link->in_end = 0;
        throw_away(streams, link);
    } else {
        if (link->in_at != 0) { /* less than a frame */
            memmove(link->in, link->in + link->in_at, link->in_end - link->in_at);
            link->in_end -= link->in_at;
            link->in_at = 0;
        }
        ssize_t got = recv(link->fd, link->in + link->in_end, PDI_STREAM_IN_BYTES - link->in_end,
                           MSG_DONTWAIT);
        if (got > 0) {
            link->in_end += (size_t)got;
            pdi_lock_take(&streams->lock);
            bool lasts = link->state == PDI_STREAM_LIVE && !link->farewell;
            link->due = lasts ? now + PDI_STREAM_IDLE : link->due;
            pdi_lock_give(&streams->lock);
        } else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
            over(streams, link);
        }
    }
    streams->waiting |= link->in_at != link->in_end || link->over ? bit : 0;
}

/* The end of a connection is told, once, if anything was told of it before. */
static int tell_end(struct pdi_streams *streams, struct pdi_stream_link *link, size_t *size,
                    pyddsi_endpoint *from)
{
    *size = 0;
    *from = link->where;
    streams->waiting &= ~(UINT64_C(1) << pdi_stream_index(streams, link));
    pdi_lock_take(&streams->lock);
    streams->counts.broken += link->framing.broken || link->in_at != link->in_end;
    pdi_stream_link_end(streams, link, pdi_clock_now());
    pdi_lock_give(&streams->lock);
    return PYDDSI_OK;
}

int pdi_stream_link_take(struct pdi_streams *streams, struct pdi_stream_link *link, uint8_t *data,
                         size_t room, size_t *size, pyddsi_endpoint *from)
{
    pyddsi_bytes packet;
    size_t used;
    size_t need;
    int status = pdi_stream_next(&link->framing, link->in + link->in_at, link->in_end - link->in_at,
                                 &packet, &used, &need);
    if (status == PYDDSI_BAD_INPUT) {
        over(streams, link);
    } else {
        link->in_at += used;
    }
    if (status != PYDDSI_OK && link->over) {
        return tell_end(streams, link, size, from);
    }
    if (status != PYDDSI_OK) {
        streams->waiting &= ~(UINT64_C(1) << pdi_stream_index(streams, link));
        return PYDDSI_AGAIN;
    }
    *size = packet.size;
    *from = link->where;
    memcpy(data, packet.data, packet.size < room ? packet.size : room);
    if (!link->heard) {
        link->heard = true;
        pdi_lock_take(&streams->lock);
        if (link->state == PDI_STREAM_FRESH) {
            live(streams, link, pdi_clock_now());
        }
        pdi_lock_give(&streams->lock);
    }
    return PYDDSI_OK;
}
