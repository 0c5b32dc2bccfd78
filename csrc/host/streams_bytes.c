/* streams_bytes.c - what goes through a connection: frames out and in. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/streams_state.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include "host/clock.h"

#define FRAME_HEAD_MAX 2U
#define KIND_MASK      0x1fU
#define THROWN_MAX     16 /* reads of what nobody wants any more, at one time */

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
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the system has no word for bytes that it only reads */
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
            pdi_stream_link_live(streams, link, pdi_clock_now());
        }
        pdi_lock_give(&streams->lock);
    }
    return PYDDSI_OK;
}
