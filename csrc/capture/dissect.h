/* dissect.h - from a frame to what UDP or TCP carries in it.
 *
 *     link layer            network                                      transport
 *     Ethernet (2 tags) ┐   IPv4, options ┐                              ┌ UDP
 *     cooked v1, v2     ├─► IPv6, headers ├─► pieces wait (pieces.h) ───►┤
 *     null, loop, raw   ┘                 ┘                              └ TCP
 *
 * Whatever is something else, or too broken to tell, has a reason: a capture is full of strangers and
 * none of them is an error. What is inside a tunnel is not looked for: the tunnel is named, and counted.
 *
 * Two ends matter everywhere: how far bytes were captured, and how far the IP header says the packet
 * goes. Behind the second lies padding, which is not payload; between the two lies what a snap length
 * cut away. Lengths inside are believed only within these: a UDP length that contradicts IP loses.
 * Checksums are not looked at, for half of all captures are taken where the network card has not
 * written them yet.
 */
#ifndef PDI_CAPTURE_DISSECT_H
#define PDI_CAPTURE_DISSECT_H

#include "capture/frame.h"
#include "capture/pieces.h"

#define PDI_TAGS_MAX       2U /* VLAN tags that are passed */
#define PDI_EXTENSIONS_MAX 8U /* IPv6 extension headers that are passed */

/* Why a frame holds nothing for us. The detail is a number: an ethertype, a protocol, a link type. */
enum pdi_other {
    PDI_OTHER_NONE,
    PDI_OTHER_BLOCK,     /* a pcapng block without a packet; detail: its type */
    PDI_OTHER_LINK,      /* link type */
    PDI_OTHER_ETHERTYPE, /* ethertype; 0: none (802.3) */
    PDI_OTHER_FAMILY,    /* address family of a null or loop link */
    PDI_OTHER_PROTOCOL,  /* IP protocol */
    PDI_OTHER_SHORT,     /* it ends inside a header */
    PDI_OTHER_IP,        /* an IP header that cannot be */
    PDI_OTHER_TCP,       /* a TCP header that cannot be */
    PDI_OTHER_FRAGMENT, /* a piece of an IP packet that will never be whole, or was cut by the snap length */
    PDI_OTHER_TUNNEL, /* MPLS, PPPoE, GRE, VXLAN and their kin: not looked into; detail: ethertype, protocol or port */
    PDI_OTHER_COUNT
};

enum pdi_piece { PDI_PIECE_NONE, PDI_PIECE_WAITS, PDI_PIECE_WHOLE };

struct pdi_carried {
    /* Kind 4 or 6 for UDP, 14 or 16 for TCP; if it is neither 0, with the address if there is one. */
    pyddsi_endpoint source;
    pyddsi_endpoint target;
    const uint8_t *
        data; /* the payload, as far as it was captured; of assembled pieces in memory of the assembly */
    uint32_t size;
    uint32_t whole;    /* its size on the wire; more than size: the snap length cut it */
    uint32_t detail;   /* see enum pdi_other */
    uint32_t sequence; /* TCP */
    uint16_t vlan;     /* the outer tag's number; 0: none */
    uint16_t identity; /* IPv4: of the packet */
    uint8_t other;     /* enum pdi_other */
    uint8_t ip;        /* 4, 6 or 0 */
    uint8_t protocol;  /* IP protocol: 17, 6, ... */
    uint8_t piece;     /* enum pdi_piece */
    uint8_t tcp_flags;
};

struct pdi_dissector {
    struct pdi_pieces *pieces;
    uint64_t others[PDI_OTHER_COUNT]; /* frames, by reason */
};

/* What |frame| holds.
 * OK: UDP or TCP; AGAIN: a piece that waits for the others (fields up to `protocol` are set); END: something else, and
 * |carried|->other says what. Every frame that is not OK for good is counted in |others|; pieces when they are given up,
 * which those that still wait are when the capture ends: add what pdi_pieces_fini answers. */
int pdi_dissect(struct pdi_dissector *dissector, const struct pdi_frame *frame,
                struct pdi_carried *carried);

/* The reason as people read it ("ethertype 0x0806", "IP protocol 1", "GRE tunnel"), ended by a zero; |room| of 48 is
 * enough. */
void pdi_other_print(unsigned other, uint32_t detail, char *out, size_t room);

#endif
