/* port_inbox.h - what one call brought, until it has been handed out.
 *
 *     letters   [ datagram of 5 packets ][ one of 1 ][ ... ]     count of them
 *                             ▲ offset   at
 */
#ifndef PDI_HOST_PORT_INBOX_H
#define PDI_HOST_PORT_INBOX_H

#include <sys/socket.h>

#include "host/port_state.h"

/* What the system tells beside a datagram. */
union pdi_port_control {
    struct cmsghdr head;                                  /* for its alignment */
    char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(20)]; /* segments, struct in6_pktinfo */
};

/* Datagrams of one call, and the bytes of the longest. */
#define PDI_PORT_INBOX_MAX   8U
#define PDI_PORT_INBOX_BYTES 65536U

/* One datagram: packets of `each` bytes, the last one perhaps of fewer. */
struct pdi_port_letter {
    pyddsi_endpoint from;
    uint32_t index; /* of the interface that it came by; 0: not told */
    uint32_t size;
    uint32_t each;
};

struct pdi_port_inbox {
    uint8_t data[PDI_PORT_INBOX_MAX][PDI_PORT_INBOX_BYTES];
    struct pdi_port_letter letters[PDI_PORT_INBOX_MAX];
    uint32_t socket; /* that all of them came by */
    uint32_t count;
    uint32_t packets;    /* that all of them hold */
    uint32_t at, offset; /* what is handed out next */
};

/* Makes the inbox, if there is memory, and lets the system join what comes. Without it packets are taken one by one. */
void pdi_port_inbox_open(struct pdi_port *port);
void pdi_port_inbox_close(struct pdi_port *port);

/* Fills an empty inbox from this socket. Answers how many datagrams came, or
 * negative, and errno says why. */
int pdi_port_inbox_fill(struct pdi_port *port, struct pdi_port_inbox *inbox, uint32_t socket);

/* The interface by which a datagram came, as the socket of a wide IPv6 group tells it; 0: not told. */
uint32_t pdi_port_inbox_index(struct msghdr *header);

/* The next packet, where it lies until the inbox is filled again. False: the inbox is empty. */
bool pdi_port_inbox_pop(struct pdi_port_inbox *inbox, const uint8_t **data, size_t *size,
                        pyddsi_endpoint *from, uint32_t *index);

#endif
