/* tcp.h - TCP packets go in, each direction's bytes come out in order and once.
 *
 *     packets as captured        1 2 4 4 5 3 6       (4 sent twice, 3 late)
 *     in order, each byte once   1 2 · · · 3 4 5 6
 *                                    └ held ┘
 *
 * Every packet is laid on a line of positions that never wraps: `next`, the first byte not yet
 * delivered, is an ordinary growing number, and the 32-bit sequence number only says how far from it a
 * packet begins. Below `next` everything has been delivered, so a repeated byte is dropped, also half of
 * a packet. Above it a packet is held until the hole closes, or until the capture turns out never to
 * have seen those bytes: when more is held than a limit allows, or at the end of the file, the hole is
 * given up and the next part says lost. We cannot know earlier: that the other side acknowledged a byte
 * says it was sent, not that it will not be found in the next packet of a capture out of order.
 *
 * A held part keeps number and time of the frame that carried it, so these may step back within one
 * direction.
 *
 * One packet may let many parts out: push it, then take parts until there are none. Memory and
 * snapshots are as in pieces.h.
 */
#ifndef PDI_CAPTURE_TCP_H
#define PDI_CAPTURE_TCP_H

#include "capture/dissect.h"

#define PDI_TCP_DIRECTIONS_MAX                                                                     \
    512U /* followed at one time; the one idle longest is ended for a new one */
#define PDI_TCP_HELD_MAX (UINT32_C(1) << 20) /* bytes that wait behind a hole, in one direction, */
#define PDI_TCP_HELD_TOTAL_MAX (UINT32_C(8) << 20) /* and in all */
/* Counted for each packet that waits beside its bytes, so that a million of one byte have a limit too. */
#define PDI_TCP_HELD_OVERHEAD 256U
#define PDI_TCP_WAIT_NS       INT64_C(2000000000) /* how long a hole stays open */
#define PDI_TCP_JUMP_MAX                                                                           \
    (UINT32_C(64) << 20) /* a number farther away belongs to another connection */

/* The next bytes of one direction. Beginning and end come on their own, without bytes. */
struct pdi_part {
    pyddsi_endpoint source, target;
    uint64_t number;     /* of the frame that carried it, */
    uint64_t offset;     /* its place in the file, */
    int64_t time_ns;     /* and its time */
    const uint8_t *data; /* good until the next call */
    uint32_t size;
    uint64_t missing; /* lost: so many bytes, as far as that is known */
    /* Which one, below PDI_TCP_DIRECTIONS_MAX. Behind an end, and from a start on, it is another connection's. */
    uint16_t direction;
    uint8_t
        start;   /* it begins here; if one with these endpoints was open, it ended without a word */
    uint8_t end; /* nothing more comes in this direction */
    uint8_t lost; /* bytes before these are missing from the capture */
};

struct pdi_tcp; /* tcp.c */

size_t pdi_tcp_size(void);
struct pdi_tcp *pdi_tcp_init(void *memory);

/* A packet of TCP came; what it lets out is taken with pdi_tcp_pop before the next is pushed, or the state is stored:
 * bytes that need not wait come out of where |carried| has them. */
void pdi_tcp_push(struct pdi_tcp *tcp, const struct pdi_frame *frame,
                  const struct pdi_carried *carried);
/* OK, or END: nothing more comes out now. */
int pdi_tcp_pop(struct pdi_tcp *tcp, struct pdi_part *part);
/* The capture ends: what is held comes out, with holes. */
void pdi_tcp_finish(struct pdi_tcp *tcp);
/* Packets that came behind the end of their direction. */
uint64_t pdi_tcp_late(const struct pdi_tcp *tcp);

size_t pdi_tcp_store(const struct pdi_tcp *tcp, uint8_t *out, size_t room);
int pdi_tcp_load(struct pdi_tcp *tcp, const uint8_t *data, size_t size);

#endif
