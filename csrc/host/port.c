/* port.c - waiting, receiving, sending. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/port_inbox.h"

#include <errno.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/clock.h"

/* After so many packets all sockets are looked at again: a flood on one cannot hide the others. */
#define TURN 32
/* So many calls the unicast socket may have before the others have one: more than its buffer holds packets for. */
#define LEAD_MAX 1024
/* Within so short a time nobody is given up by those who send to him. */
#define GLANCE (5 * PDI_TIME_MS)
/* So long what the watched descriptor tells waits for packets that came before it, where others come without end. */
#define MAIL (20 * PDI_TIME_MS)
/* So many packets are left out, or failures of the system passed over, in one call. */
#define SKIPS_MAX 64
/* So often is a call repeated that a signal interrupted or that told of an older packet's error. */
#define TRIES_MAX 4

/* The errno of a packet that was sent long ago, as ICMP brought it back, or of a shortage that
 * passes: the socket is well. */
static bool passing(int code)
{
    switch (code) {
    case EINTR:
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case ENONET:
    case ENOPROTOOPT:
    case EPROTO:
    case EOPNOTSUPP:
    case EMSGSIZE:
    case EACCES:
    case EPERM:
    case ENOMEM:
    case ENOBUFS:
        return true;
    default:
        return false;
    }
}

/* epoll_wait, to the nanosecond where the system can: since Linux 5.11, and where no filter of
 * system calls forbids what it does not know. */
static int poll_for(struct pdi_port *port, struct epoll_event *events, uint64_t timeout_ns)
{
#ifdef SYS_epoll_pwait2
    if (!port->coarse && timeout_ns != 0 && timeout_ns != UINT64_MAX) {
        const int64_t timeout[2] = {(int64_t)(timeout_ns / 1000000000),
                                    (int64_t)(timeout_ns % 1000000000)};
        long count = syscall(SYS_epoll_pwait2, port->epoll, events, PDI_PORT_EVENTS_MAX, timeout,
                             NULL, (size_t)0);
        if (count >= 0 || (errno != ENOSYS && errno != EPERM)) {
            return (int)count;
        }
        port->coarse = true;
    }
#endif
    uint64_t ms = timeout_ns / 1000000 + (timeout_ns % 1000000 != 0);
    int timeout = timeout_ns == UINT64_MAX ? -1 : ms > INT_MAX ? INT_MAX : (int)ms;
    return epoll_wait(port->epoll, events, PDI_PORT_EVENTS_MAX, timeout);
}

/* Notes which sockets have something; answers whether the bell was rung. */
static bool note(struct pdi_port *port, const struct epoll_event *events, int count)
{
    bool rung = false;
    for (int i = 0; i < count; i++) {
        uint32_t number = events[i].data.u32;
        if (number == PDI_PORT_BELL) {
            rung = true;
        } else if (number == PDI_PORT_WATCHED) {
            port->watched = port->watched != 0 ? port->watched : pdi_clock_now();
        } else if (number == PDI_PORT_NEWS) {
            pdi_port_ways_follow(port);
            rung = true;
        } else {
            port->ready |= UINT32_C(1) << number;
        }
    }
    port->turn = TURN;
    return rung;
}

int pdi_port_wait(struct pdi_port *port, uint64_t timeout_ns)
{
    struct epoll_event events[PDI_PORT_EVENTS_MAX];
    port->ready = 0; /* whatever is still there is told again, */
    if (port->streams != NULL && pdi_streams_waiting(port->streams)) { /* but for this */
        port->ready = UINT32_C(1) << PDI_PORT_STREAMS;
        timeout_ns = 0;
    }
    if (port->kept) {
        port->ready |= 1;
        timeout_ns = 0;
    }
    int count = poll_for(port, events, timeout_ns);
    if (count < 0) {
        return errno == EINTR ? PYDDSI_OK : -errno;
    }
    bool rung = note(port, events, count);
    if (rung) {
        uint64_t rings;
        (void)!read(port->bell, &rings, sizeof rings);
    }
    return rung || port->ready != 0 || port->watched != 0 ? PYDDSI_OK : PYDDSI_AGAIN;
}

bool pdi_port_watched(struct pdi_port *port)
{
    if (port->watched == 0 ||
        ((port->ready != 0 || port->kept) && pdi_clock_now() < pdi_time_add(port->watched, MAIL))) {
        return false;
    }
    port->watched = 0;
    return true;
}

void pdi_port_wake(struct pdi_port *port)
{
    /* It can only fail if it was rung 2^64 - 2 times, and then it rings anyway. */
    const uint64_t one = 1;
    (void)!write(port->bell, &one, sizeof one);
}

/* Looks at all sockets without waiting. */
static void look(struct pdi_port *port)
{
    struct epoll_event events[PDI_PORT_EVENTS_MAX];
    (void)note(port, events, epoll_wait(port->epoll, events, PDI_PORT_EVENTS_MAX, 0));
}

/* The socket whose turn it is, of those that are ready. */
static uint32_t choose(const struct pdi_port *port)
{
    uint32_t later = port->ready & (UINT32_MAX << port->next);
    return (uint32_t)__builtin_ctz(later != 0 ? later : port->ready);
}

/* Whether a packet that a group brought is to be left out. It was sent by ourselves, or by a session of this machine that does
 * not use our first way and so does not hear us; the kernel leaves most of these out, if it is told to. Or it came by an
 * interface (`index`; 0: not told) that is no way of ours; or by a further way from an address of that link alone, which no
 * answer would reach. */
static bool left_out(struct pdi_port *port, const struct pdi_port_socket *socket,
                     const pyddsi_endpoint *from, uint32_t index)
{
    bool group = socket->group.kind != 0;
    bool further = index != 0 && index != pdi_atomic32_load_relaxed(&port->scope);
    bool known = !further;
    if (!group ||
        (!further && from->port != port->number && pdi_atomic32_load_relaxed(&port->ways) == 0)) {
        return false;
    }
    pdi_lock_take(&port->ways_lock);
    bool ours = socket->own.port == from->port && pdi_port_address_same(&socket->own, from);
    for (uint32_t i = 0; i < PDI_PORT_WAYS_MAX; i++) {
        const struct pdi_port_way *way = &port->way[i];
        ours = ours || (way->index != 0 && pdi_port_address_same(&way->address, from));
        known = known || way->index == index;
    }
    pdi_lock_give(&port->ways_lock);
    return ours || !known || (further && pdi_port_address_link(from));
}

/* Whether this packet is one of those that a test lets the network lose. */
static bool lost(struct pdi_port *port)
{
    uint32_t lose = pdi_atomic32_load_relaxed(&port->lose);
    return lose != 0 && pdi_rand_below(&port->losses, 1000) < lose;
}

/* A socket has given something: the others are next. */
static void turned(struct pdi_port *port, uint32_t number)
{
    port->next = number + 1;
    port->turn -= port->turn > 0;
}

/* A socket has given nothing, and errno says why. False: it is gone. */
static bool empty(struct pdi_port *port, uint32_t number)
{
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
        port->ready &= ~(UINT32_C(1) << number);
        return true;
    }
    return passing(errno);
}

/* Whether the unicast socket goes before the others. */
static bool leads(const struct pdi_port *port)
{
    return (port->ready & 1) != 0 && port->lead < LEAD_MAX;
}

/* The spare inbox and the other change places. */
static struct pdi_port_inbox *change(struct pdi_port *port)
{
    struct pdi_port_inbox *spare = port->spare;
    port->spare = port->inbox;
    port->inbox = spare;
    return spare;
}

/* A group has given something. Keeps it back if we may have been stopped since the unicast socket was empty. */
static bool keep(struct pdi_port *port)
{
    if (port->spare == NULL || port->lead >= LEAD_MAX ||
        pdi_clock_now() < pdi_time_add(port->empty, GLANCE)) {
        return false;
    }
    (void)change(port);
    port->ready |= 1;
    port->kept = true;
    return true;
}

int pdi_port_fill(struct pdi_port *port, uint32_t *packets)
{
    *packets = 0;
    if (port->inbox == NULL) { /* one by one: in turns */
        if (port->ready == 0 || port->turn == 0) {
            look(port);
        }
        return port->ready != 0 ? PYDDSI_OK : PYDDSI_AGAIN;
    }
    if (!port->kept && (port->ready == 0 || port->turn == 0)) {
        look(port);
    }
    for (int skips = 0; skips < SKIPS_MAX && (port->ready != 0 || port->kept); skips++) {
        if (port->kept && !leads(port)) {
            port->kept = false;
            *packets = change(port)->packets;
            return PYDDSI_OK;
        }
        uint32_t socket = leads(port) ? 0 : choose(port);
        if (socket == PDI_PORT_STREAMS) {
            return PYDDSI_OK;
        }
        pdi_time now = socket == 0 ? pdi_clock_now() : 0;
        int got = pdi_port_inbox_fill(port, port->inbox, socket);
        if (got > 0) {
            turned(port, socket);
            port->lead += socket == 0;
            if (socket != 0 && keep(port)) {
                continue;
            }
            *packets = port->inbox->packets;
            return PYDDSI_OK;
        }
        if (got < 0 && !empty(port, socket)) {
            return PYDDSI_END;
        }
        if (socket == 0 && (port->ready & 1) == 0) {
            port->lead = 0;
            port->empty = now;
        }
    }
    return PYDDSI_AGAIN;
}

/* What is left of the inbox; own packets, and those to be lost, are passed over. */
bool pdi_port_unpack(struct pdi_port *port, const uint8_t **data, size_t *size,
                     pyddsi_endpoint *from)
{
    struct pdi_port_inbox *inbox = port->inbox;
    uint32_t index;
    while (inbox != NULL && pdi_port_inbox_pop(inbox, data, size, from, &index)) {
        if (!left_out(port, &port->sockets[inbox->socket], from, index) && !lost(port)) {
            return true;
        }
    }
    return false;
}

/* The turn of the connections. */
static int receive_stream(struct pdi_port *port, uint8_t *data, size_t room, size_t *size,
                          pyddsi_endpoint *from)
{
    int status = pdi_streams_receive(port->streams, data, room, size, from);
    port->came = 0;
    turned(port, PDI_PORT_STREAMS);
    if (status != PYDDSI_OK) {
        port->ready &= ~(UINT32_C(1) << PDI_PORT_STREAMS);
    }
    return status;
}

/* The turn of a socket without an inbox: one packet. AGAIN: look on. */
static int receive_one(struct pdi_port *port, uint32_t number, uint8_t *data, size_t room,
                       size_t *size, pyddsi_endpoint *from)
{
    union pdi_port_address address;
    union pdi_port_control control;
    struct iovec vector = {data, room};
    struct msghdr header = {.msg_name = &address,
                            .msg_namelen = sizeof address,
                            .msg_iov = &vector,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof control};
    address.any.sa_family = AF_UNSPEC;
    ssize_t got = recvmsg(port->sockets[number].fd, &header, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0) {
        return empty(port, number) ? PYDDSI_AGAIN : PYDDSI_END;
    }
    turned(port, number);
    port->came = number;
    pdi_port_address_get(&address, from);
    *size = (size_t)got;
    uint32_t index = pdi_port_inbox_index(&header);
    return left_out(port, &port->sockets[number], from, index) || lost(port) ? PYDDSI_AGAIN
                                                                             : PYDDSI_OK;
}

int pdi_port_receive(struct pdi_port *port, uint8_t *data, size_t room, size_t *size,
                     pyddsi_endpoint *from)
{
    for (int skips = 0; skips < SKIPS_MAX; skips++) {
        uint32_t packets;
        const uint8_t *packet;
        if (pdi_port_unpack(port, &packet, size, from)) {
            memcpy(data, packet, *size < room ? *size : room);
            port->came = port->inbox->socket;
            return PYDDSI_OK;
        }
        int status = pdi_port_fill(port, &packets);
        if (status != PYDDSI_OK) {
            return status;
        }
        if (packets == 0) {
            uint32_t socket = choose(port);
            status = socket == PDI_PORT_STREAMS ? receive_stream(port, data, room, size, from)
                                                : receive_one(port, socket, data, room, size, from);
            if (status != PYDDSI_AGAIN || port->ready == 0) {
                return status;
            }
        }
    }
    return PYDDSI_AGAIN;
}

const pyddsi_endpoint *pdi_port_group(const struct pdi_port *port, bool unpacked)
{
    uint32_t socket = unpacked ? port->inbox->socket : port->came;
    const pyddsi_endpoint *group = &port->sockets[socket].group;
    return group->kind != 0 ? group : NULL;
}

int pdi_port_send(struct pdi_port *port, const pyddsi_endpoint *to, const uint8_t *data,
                  size_t size)
{
    if (to->kind != port->family) {
        return port->streams != NULL && pdi_stream_is(to)
                   ? pdi_streams_send(port->streams, to, data, size, false)
                   : -EAFNOSUPPORT;
    }
    union pdi_port_address address;
    socklen_t length = pdi_port_address_put(&address, to, pdi_atomic32_load_relaxed(&port->scope));
    uint32_t ways = pdi_atomic32_load_relaxed(&port->ways);
    for (; ways != 0 && pdi_port_address_wide(to); ways &= ways - 1) { /* what fails is lost */
        (void)sendto(port->way[__builtin_ctz(ways)].fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL,
                     &address.any, length);
    }
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        ssize_t sent = sendto(port->sockets[0].fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL,
                              &address.any, length);
        if (sent >= 0) {
            return PYDDSI_OK;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM) {
            return PYDDSI_AGAIN;
        }
        if (errno != EINTR && errno != ECONNREFUSED) {
            return -errno;
        }
    }
    return PYDDSI_AGAIN;
}
