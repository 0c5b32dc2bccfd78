/* port.h - the sockets of one session.
 *
 * A port is one UDP socket from which everything is sent and to which answers come, and one more
 * for each multicast group that is heard. None of them ever blocks; one epoll descriptor tells when
 * there is something, and an eventfd in it, the bell, lets any thread end the wait.
 *
 *                         unicast socket  any address, or the interface's : port ──► all we send
 *     epoll ──────────────┤                                                     ◄── answers
 *       │                 group socket    239.255.0.1 : 7447                    ◄── what groups hear
 *       │                 group socket    ...
 *       └── the bell ◄── pdi_port_wake
 *
 * Groups. A group's socket is bound to the group's address and not to any: so it hears this group
 * alone, whatever else comes to the same port. It shares its address (SO_REUSEADDR), and each such
 * socket gets a copy of its own, so all sessions of a process and of a machine hear one group. The
 * unicast socket shares nothing: a port that is in use is an error that is told at once, and not
 * two sessions that take each other's packets away. Groups are joined before the unicast socket is
 * bound, so that the port the system chooses is none of theirs.
 *
 * Interfaces. The first way is the interface that the options name, by its name or an address of it; else the
 * one that the system routes the first group through; where no route says it (a switch without a router, an
 * IPv6 group of one link) the first that is up and can send there; and where there is no such interface, as in
 * a container without a network, the loopback, if that is up. If none is named, groups are joined, and
 * sent to, on every other interface that is up and can do multicast as well, PDI_PORT_WAYS_MAX at most: the
 * further ways (of IPv6, see below). Each of those has a socket that only sends, with the same port, so that peers on that network
 * see an address that they can answer to. This machine hears the first way alone: the other sockets do not
 * loop back, and what comes from another address of this machine (a session that was told to use another
 * interface) is left out, since that session could not hear us. So sessions of one machine meet if they have
 * the same first way; one on lo and one on eth0 do not.
 *
 * Addresses that come and go. The kernel tells of interfaces, addresses and multicast routes that change
 * (rtnetlink); the thread that waits then looks again, joins and leaves, and steers what is sent
 * (port_ways.c). With one interface that never changes this costs a descriptor, and one load for a call that
 * sends. Where the kernel gives no such socket, everything stays as it was at the opening.
 *
 * What the unicast socket is bound to. A peer knows us by the source of our packets, so that should
 * be one and the same for all we send.
 *
 *     interface named       bound to its address: every packet has that source, and nothing comes
 *                           in any other way. Who names lo is out of reach of other machines. If
 *                           the interface gets another address, it is bound anew, to the same port.
 *     none named            bound to any address: the system puts in the address that fits the
 *                           destination. For groups that is the interface's, and so it is for peers
 *                           that heard a group: those on this machine reach that address through lo
 *                           and are answered from it. A peer that was named by hand, behind another
 *                           interface, sees the address that it can answer to.
 *
 * Own packets. A group that we send to and hear brings us our own packets back. They are known by
 * their source, address and port, and left out by pdi_port_receive. That costs a wake-up and a
 * system call each, and room in the buffer, so the kernel can be told to do it (own_filter): half
 * the time to send a multicast packet then. Its price is that the kernel counts what a filter takes
 * as an error of reception (InErrors of `netstat -su`) and as dropped by the socket, so losses of
 * groups cannot be told any more. Not IP_MULTICAST_LOOP: it would hide us from all of this machine.
 *
 * IPv6. Its sockets speak IPv6 alone, so no address is an IPv4 address in disguise. An endpoint has
 * no zone: addresses of one link belong to the port's first way, and a packet that came from such an
 * address by a further way could not be answered. So further ways carry the wider groups alone (ff05::, ff0e::), on
 * interfaces with an address that is good beyond its link: the kernel sends from that. An interface that has
 * addresses of its link only is left out, and so is what comes from those by a further way; groups of one link (ff01::,
 * ff02::), which the kernel sends from such an address, stay on the first way. IPv6 hears a group on all interfaces that any
 * program here has joined it on: each packet tells by which it came, and others than our ways are left out. For IPv6 groups
 * Linux gives lo no route; whoever needs them there says, as root, `ip -6 route add local ff00::/8 dev lo`.
 *
 * Fairness. Sockets that are ready are read in turns, one call each, and after 32 calls all are
 * looked at again. A call brings one packet, or, with the option `many`, up to 8 datagrams with
 * whatever the system had joined in them (port_many.h). So a flood on one socket hides none of the
 * others.
 *
 * Order. A session that was stopped for long has been given up by those who send to it, and what they then send to a group lies
 * beside what they had sent to us alone before that, and it is not ours to hear before the end of that. So with `many` the
 * unicast socket is read first, until it is empty; and if some time may have passed between that and the reading of a group's, as
 * it does for whoever is stopped just there, what the group brought is kept back until the unicast socket is empty once more.
 * One that never is takes turns with the others, after as many calls as would have emptied it.
 *
 * Threads. One thread waits, fills, unpacks and receives. Any thread may send and wake, at
 * any time before the close. A child after fork may close the port, which leaves the parent's as it
 * is, and nothing else.
 *
 * Connections. TCP and Unix sockets are streams (streams.h); what is sent to such an endpoint goes
 * there, and what comes from there is received with the others, in its turn.
 *
 * Errors. A negative answer is an errno with its sign changed, here and below; where there is room
 * for a text, that says what failed and what to do about it. What the network tells us about
 * packets that left long ago (ICMP) is nobody's error and passed over.
 */
#ifndef PDI_HOST_PORT_H
#define PDI_HOST_PORT_H

#include <stdbool.h>

#include "host/streams.h"
#include "pyddsi.h"

#define PDI_PORT_GROUPS_MAX     9   /* scouting and eight conduits */
#define PDI_PORT_INTERFACES_MAX 256 /* addresses of this machine that are looked at */
#define PDI_PORT_WAYS_MAX       8U  /* interfaces that groups use besides the first */

/* A receive buffer that holds some milliseconds of a fast sender. Systems often give less: see
 * pdi_port_buffers, and sysctl net.core.rmem_max. */
#define PDI_PORT_RECEIVE_BYTES (UINT32_C(2) << 20)

/* All are taken as they stand: the usual ttl and loopback are 1, and not 0. */
struct pdi_port_options {
    const char *interface; /* "" or null: none named; else a name (eth0), or an address of it */
    uint8_t family;        /* 4 or 6 */
    uint8_t ttl;           /* of multicast packets: 1 stays on the link, 0 on this machine */
    uint8_t loopback;      /* whether this machine hears them as well */
    uint8_t own_filter;    /* whether the kernel leaves out our own: see above */
    uint8_t many;          /* whether a call may bring many packets: port_many.h */
    uint16_t port;         /* of the unicast socket; 0: any */
    uint32_t groups;       /* to be joined, all of the family; equal ones are joined once */
    pyddsi_endpoint group[PDI_PORT_GROUPS_MAX];
    uint32_t receive_bytes, send_bytes;        /* of the kernel's buffers; 0: as the system likes */
    const struct pdi_streams_options *streams; /* the connections beside it; null: none */
};

struct pdi_port;

/* Opens everything, or nothing, and then *port is null. *local is the unicast address that others
 * are to use.
 * PYDDSI_OK; negative, and a text, cut to `room` bytes and ended by a zero. */
int pdi_port_open(struct pdi_port **port, const struct pdi_port_options *options,
                  pyddsi_endpoint *local, char *text, size_t room);

/* Closes everything; null is closed already. */
void pdi_port_close(struct pdi_port *port);

/* Waits until there may be a packet, or pdi_port_wake was called, before or while we wait, or
 * `timeout_ns` are over (UINT64_MAX: never). What lies in the inbox is not waited for.
 * PYDDSI_OK: look what there is, which can be nothing (a signal, our own packets); PYDDSI_AGAIN:
 * the time is over; negative: never while the port is open. */
int pdi_port_wait(struct pdi_port *port, uint64_t timeout_ns);

/* Ends the wait, or the next one if nobody waits. From any thread. */
void pdi_port_wake(struct pdi_port *port);

/* The wait ends as well while this descriptor is readable, one at most for a port. It must be open for as long as the port, and
 * belongs to the caller.
 * PYDDSI_OK; negative: the system refuses. */
int pdi_port_watch(const struct pdi_port *port, int fd);

/* Whether it was readable, and everything that had come by then has been received; or others have sent for so long since that it
 * cannot wait. True once for each time. Of the thread that waits. */
bool pdi_port_watched(struct pdi_port *port);

/* Takes one packet, by way of the inbox if there is one. If *size is larger than room, it was cut.
 * PYDDSI_OK; PYDDSI_AGAIN if there is none, or many of our own were passed over, and then the next
 * wait does not wait; *data may have changed then. PYDDSI_END if the socket is gone. */
int pdi_port_receive(struct pdi_port *port, uint8_t *data, size_t room, size_t *size,
                     pyddsi_endpoint *from);

/* Whether there is an inbox: it was asked for, and the system can fill it. */
bool pdi_port_has_inbox(const struct pdi_port *port);

/* The first half of it: fills the inbox, which is empty, with what one call of the system brings.
 * PYDDSI_OK and how many packets that are, our own among them; 0: what comes next does not go
 * through it, and is to be received. PYDDSI_AGAIN, PYDDSI_END: as receive. */
int pdi_port_fill(struct pdi_port *port, uint32_t *packets);

/* The other half: takes one packet out of the inbox, without a call of the system, so where none may
 * be made. It is not copied: *data is good until the inbox is filled again. False: it is empty. */
bool pdi_port_unpack(struct pdi_port *port, const uint8_t **data, size_t *size,
                     pyddsi_endpoint *from);

/* The group by which the last packet came that was received (`unpacked`: that was unpacked from the inbox); null: it came to
 * our own address, or by a connection. */
const pyddsi_endpoint *pdi_port_group(const struct pdi_port *port, bool unpacked);

/* Sends one packet. From any thread.
 * PYDDSI_OK; PYDDSI_AGAIN: the kernel's buffer is full, and the packet lost as on a wire; negative:
 * it cannot be sent there (-EMSGSIZE: too large, -EPERM: a firewall, -ENETUNREACH, -EAFNOSUPPORT:
 * of the other family), and is the caller's to count. */
int pdi_port_send(struct pdi_port *port, const pyddsi_endpoint *to, const uint8_t *data,
                  size_t size);

/* How large a packet to this address is carried, as far as this machine knows: its own interfaces, and what routers on the way
 * have told it. 0: it does not know. From any thread, with some calls of the system. */
uint32_t pdi_port_carries(const struct pdi_port *port, const pyddsi_endpoint *to);

/* The connections beside it; null: none. They are closed with it. */
struct pdi_streams *pdi_port_streams(const struct pdi_port *port);

/* Whether addresses have changed since the opening, or since this was last asked; then *local is the unicast address
 * that others are to use now. Of the thread that waits. */
bool pdi_port_moved(struct pdi_port *port, pyddsi_endpoint *local);

/* The addresses by which others may hear us: the first way's, then those of the further ways, each with the port of the
 * unicast socket. Answers how many. From any thread. */
uint32_t pdi_port_addresses(struct pdi_port *port, pyddsi_endpoint *list, uint32_t room);

/* What the system granted, and what it lost. */
struct pdi_port_buffers {
    uint32_t receive_bytes; /* of each socket */
    uint32_t send_bytes;
    uint64_t dropped; /* packets that found a full buffer; with own_filter, unicast ones alone */
};

/* Reads them. From any thread. */
void pdi_port_buffers(const struct pdi_port *port, struct pdi_port_buffers *buffers);

/* One address of this machine. */
struct pdi_port_interface {
    char name[16];
    pyddsi_endpoint address; /* its port is 0; nowhere, for an interface that has no address */
    uint32_t index;
    bool up, running, multicast, loopback; /* running: it has a carrier, or needs none */
};

/* Lists the addresses of this machine, and the interfaces that have none, as many as there is room
 * for. Needs no port.
 * PYDDSI_OK; negative, and the list may be cut. */
int pdi_port_interfaces(struct pdi_port_interface *list, uint32_t room, uint32_t *count);

#endif
