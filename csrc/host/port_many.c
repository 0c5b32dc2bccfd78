/* port_many.c - many packets out with one call. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/port_many.h"

#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>

#include "host/clock.h"
#include "host/port_state.h"

/* Datagrams of one call. */
#define CALL_MAX 16U
/* What the system takes as one: so many segments, and bytes of UDP over IPv4.
 */
#define SEGMENTS_MAX 64U
#define JOINED_MAX   65507U
/* So often is a call repeated that a signal interrupted or that told of an
 * older packet's error. */
#define TRIES_MAX 4

/* One call being made up. Message i carries count[i] packets, from first[i] on.
 */
struct call {
    struct mmsghdr messages[CALL_MAX];
    struct iovec vectors[CALL_MAX];
    union pdi_port_address addresses[CALL_MAX];
    union {
        struct cmsghdr head; /* for its alignment */
        char bytes[CMSG_SPACE(sizeof(uint16_t))];
    } control[CALL_MAX];
    uint32_t first[CALL_MAX], count[CALL_MAX];
    uint32_t each[CALL_MAX];
    bool grouped[CALL_MAX]; /* for a group: it leaves by the further ways as well */
    unsigned used;
};

static bool same_place(const pyddsi_endpoint *a, const pyddsi_endpoint *b)
{
    return a->port == b->port && pdi_port_address_same(a, b);
}

/* How many packets, from the first on, can leave as one datagram. */
static uint32_t joined(const struct pdi_port *port, const struct pdi_port_packet *packets,
                       uint32_t left)
{
    size_t each = packets[0].size;
    size_t bytes = each;
    uint32_t count = 1;
    uint32_t most = left < SEGMENTS_MAX ? left : SEGMENTS_MAX;
    if (each == 0 || each >= pdi_atomic32_load_relaxed(&port->segment_below)) {
        return 1;
    }
    while (count < most && packets[count - 1].size == each && packets[count].size <= each &&
           packets[count].size != 0 && bytes + packets[count].size <= JOINED_MAX &&
           packets[count].data == packets[count - 1].data + each &&
           same_place(&packets[count].to, &packets[0].to)) {
        bytes += packets[count++].size;
    }
    return count;
}

/* Adds a datagram of so many packets to the call. */
static void add(struct call *call, const struct pdi_port *port,
                const struct pdi_port_packet *packets, uint32_t at, uint32_t count)
{
    const struct pdi_port_packet *first = &packets[at];
    const struct pdi_port_packet *last = &packets[at + count - 1];
    unsigned i = call->used++;
    struct msghdr *header = &call->messages[i].msg_hdr;
    call->first[i] = at;
    call->count[i] = count;
    call->each[i] = (uint32_t)first->size;
    call->grouped[i] = pdi_port_address_wide(&first->to);
    call->vectors[i].iov_base = (uint8_t *)first->data; /* the system only reads it */
    call->vectors[i].iov_len = (size_t)(last->data - first->data) + last->size;
    *header = (struct msghdr){
        .msg_name = &call->addresses[i],
        .msg_namelen = pdi_port_address_put(&call->addresses[i], &first->to,
                                            pdi_atomic32_load_relaxed(&port->scope)),
        .msg_iov = &call->vectors[i],
        .msg_iovlen = 1,
    };
    if (count > 1) {
        uint16_t each = (uint16_t)first->size;
        header->msg_control = call->control[i].bytes;
        header->msg_controllen = sizeof call->control[i].bytes;
        struct cmsghdr *words = CMSG_FIRSTHDR(header);
        words->cmsg_level = SOL_UDP;
        words->cmsg_type = PDI_PORT_UDP_SEGMENT;
        words->cmsg_len = CMSG_LEN(sizeof each);
        memcpy(CMSG_DATA(words), &each, sizeof each);
    }
}

/* Sends datagrams from `at` on; answers how many left, or negative. */
static int transmit(struct pdi_port *port, struct call *call, unsigned at)
{
    int fd = port->sockets[0].fd;
    unsigned left = call->used - at;
    int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    (void)pdi_atomic64_add(&port->sends, 1);
    if (left > 1 && port->many_out) {
        return sendmmsg(fd, &call->messages[at], left, flags);
    }
    return sendmsg(fd, &call->messages[at].msg_hdr, flags) < 0 ? -1 : 1;
}

/* Whether the system, or the device on the way, cannot cut a datagram into such
 * segments; then it is not asked to again. */
static bool cannot_cut(struct pdi_port *port, int code, size_t each)
{
    if (code == EINVAL || code == EMSGSIZE) {
        pdi_atomic32_store_relaxed(&port->segment_below, (uint32_t)each);
        return true;
    }
    if (code == EIO || code == EOPNOTSUPP || code == ENOPROTOOPT || code == EPROTO) {
        pdi_atomic32_store_relaxed(&port->segment_below, 0);
        return true;
    }
    return false;
}

/* Sends datagrams to groups, from `at` on, by the further ways as well. What fails there is lost, as on a wire. */
static void repeat(struct pdi_port *port, struct call *call, unsigned at, unsigned count)
{
    for (uint32_t ways = pdi_atomic32_load_relaxed(&port->ways); ways != 0; ways &= ways - 1) {
        int fd = port->way[__builtin_ctz(ways)].fd;
        for (unsigned i = at; i < at + count; i++) {
            if (call->grouped[i]) {
                (void)pdi_atomic64_add(&port->sends, 1);
                ssize_t sent = sendmsg(fd, &call->messages[i].msg_hdr, MSG_DONTWAIT | MSG_NOSIGNAL);
                if (sent < 0 && call->count[i] > 1) {
                    (void)cannot_cut(port, errno, call->each[i]);
                }
            }
        }
    }
}

/* Waits for room in the system's buffer, until then at most. */
static bool has_room(const struct pdi_port *port, uint64_t until)
{
    uint64_t now = pdi_clock_now();
    struct pollfd fd = {.fd = port->sockets[0].fd, .events = POLLOUT};
    if (now >= until) {
        return false;
    }
    uint64_t ms = (until - now) / 1000000 + 1;
    return poll(&fd, 1, ms < 1000 ? (int)ms : 1000) > 0;
}

/* Sends all that was made up. Answers the first packet that is to be made up
 * again, otherwise. */
static uint32_t flush(struct pdi_port *port, struct call *call,
                      const struct pdi_port_packet *packets, uint32_t end, uint64_t until,
                      struct pdi_port_result *result)
{
    int tries = 0;
    unsigned at = 0;
    while (at < call->used) { /* each round sends or gives up one, or tries it again */
        int sent = transmit(port, call, at);
        if (sent > 0) {
            repeat(port, call, at, (unsigned)sent);
            for (unsigned i = at; i < at + (unsigned)sent; i++) {
                if (call->count[i] > 1) {
                    (void)pdi_atomic64_add(&port->joined_out, call->count[i]);
                }
            }
            at += (unsigned)sent;
            tries = 0;
            continue;
        }
        int code = errno;
        bool full = code == EAGAIN || code == EWOULDBLOCK || code == ENOBUFS || code == ENOMEM;
        bool passes = code == EINTR || code == ECONNREFUSED;
        tries++;
        if (tries < TRIES_MAX && (passes || (full && has_room(port, until)))) {
            continue;
        }
        if (call->count[at] > 1 && cannot_cut(port, code, packets[call->first[at]].size)) {
            return call->first[at];
        }
        repeat(port, call, at, 1);
        *(full || passes ? &result->full : &result->failed) += call->count[at];
        at++;
        tries = 0;
    }
    return end;
}

struct pdi_port_result pdi_port_send_many(struct pdi_port *port,
                                          const struct pdi_port_packet *packets, uint32_t count,
                                          uint64_t patience_ns)
{
    struct pdi_port_result result = {0, 0};
    struct call call;
    uint64_t until = patience_ns != 0 ? pdi_clock_now() + patience_ns : 0;
    uint32_t at = 0;
    while (at < count) { /* each round sends some, or asks for less */
        uint32_t end = at;
        call.used = 0;
        while (end < count && call.used < CALL_MAX) {
            if (packets[end].to.kind != port->family || packets[end].to.port == 0) {
                break; /* not so, or never; and what the system says then is not said of segments */
            }
            uint32_t some = joined(port, &packets[end], count - end);
            add(&call, port, packets, end, some);
            end += some;
        }
        if (call.used != 0) {
            at = flush(port, &call, packets, end, until, &result);
        } else if (port->streams != NULL && pdi_stream_is(&packets[at].to)) {
            bool more = at + 1 < count && same_place(&packets[at].to, &packets[at + 1].to);
            int status = pdi_streams_send(port->streams, &packets[at].to, packets[at].data,
                                          packets[at].size, more);
            result.full += status == PYDDSI_AGAIN;
            result.failed += status < 0;
            at++;
        } else {
            result.failed++;
            at++;
        }
    }
    return result;
}

void pdi_port_calls(struct pdi_port *port, struct pdi_port_calls *calls)
{
    *calls = (struct pdi_port_calls){
        .sends = pdi_atomic64_load_relaxed(&port->sends),
        .receives = pdi_atomic64_load_relaxed(&port->receives),
        .joined_out = pdi_atomic64_load_relaxed(&port->joined_out),
        .joined_in = pdi_atomic64_load_relaxed(&port->joined_in),
    };
}
