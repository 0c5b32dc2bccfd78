/* port_many.h - many packets in one call of the system.
 *
 *     sending      packets that lie one behind the other, are as large as the
 * first (the last may be smaller) and go to the same place leave as one long
 * datagram, which the system cuts as late as it can (UDP_SEGMENT); what cannot
 * be joined so leaves in one call all the same (sendmmsg) receiving    one call
 * brings all that is there (recvmmsg), and what came close together from one
 * sender comes as one long datagram (UDP_GRO), which is taken apart here
 *
 * A system call costs about as much as a kilobyte costs to carry, and the way
 * through the system's stack costs twice that. Both are paid for each datagram
 * that the system sees: with 44 packets of 1472 bytes in one, nearly nothing is
 * left of them. On the wire nothing changes: each packet is a datagram of its
 * own, as large as it was made.
 *
 * What the system cannot do, or a device refuses, is given up for good and done
 * one by one: segments altogether where it does not know them, and segments
 * from a certain size on where a device cannot carry that size without cutting
 * it up further. pdi_port_calls tells what came of it.
 *
 * Inbox. What a call brought lies in the inbox of the port, and pdi_port_unpack
 * hands it out packet by packet, as a copy into the caller's memory. That copy
 * costs less than the system call that it saves, as long as packets are small:
 * for packets of tens of kilobytes it is not worth its while, and the port
 * is opened without (`many`).
 */
#ifndef PDI_HOST_PORT_MANY_H
#define PDI_HOST_PORT_MANY_H

#include "host/port.h"

/* Packets that may leave with one pdi_port_send_many. */
#define PDI_PORT_MANY_MAX 64U

/* One packet to be sent. */
struct pdi_port_packet {
    const uint8_t *data;
    size_t size;
    pyddsi_endpoint to;
};

/* How it went: packets that found no room in the system, and packets that it
 * refused. Both are lost, as on a wire. */
struct pdi_port_result {
    uint32_t full;
    uint32_t failed;
};

/* Sends packets in their order, at most PDI_PORT_MANY_MAX. Where the system has
 * no room it is waited for, `patience_ns` at most in all. From any thread;
 * packets of one call are not mixed with those of another only if the callers
 * see to that. */
struct pdi_port_result pdi_port_send_many(struct pdi_port *port,
                                          const struct pdi_port_packet *packets, uint32_t count,
                                          uint64_t patience_ns);

/* How many calls of the system there were, and packets that left or came with
 * others in one datagram. */
struct pdi_port_calls {
    uint64_t sends, receives;
    uint64_t joined_out, joined_in;
};

/* From any thread. */
void pdi_port_calls(struct pdi_port *port, struct pdi_port_calls *calls);

/* For tests and measurements: from now on so many of a thousand packets that come are lost, each by itself. From any
 * thread. */
void pdi_port_lose(struct pdi_port *port, uint32_t of_thousand);

#endif
