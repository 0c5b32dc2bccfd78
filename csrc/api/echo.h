/* echo.h - what a session publishes is for its own subscribers, too.
 *
 *     put ─┬─► windows, lanes ─► other sessions
 *          └─► a block of ours ─► rings of our own subscribers that match
 *
 * The node speaks to its peers only, and a session is no peer of its own. So a sample that somebody here wants is copied
 * into a block, and the node puts it into the rings as if it had come by a lane (pdi_node_bring). From there on it is a
 * sample as any other: order, on_full, guards, the ledger.
 *
 * A sample is accepted by all or by none: first our own readers are asked for room, then it goes to the others, and
 * only then, which cannot fail any more as the lock is held, to our own. A reliable put waits for its own session's readers
 * as it does for others; who takes samples here wakes it.
 *
 * A copy, although nothing leaves the process: what lies in a window goes when the peers have it, and a reader here
 * may look for longer.
 *
 * What was kept for those who come late the node takes from the shelf itself (node/history.c), and asks for blocks. What is not
 * echoed: samples that are pulled or asked for in periods. They are a matter between a publisher's shelf and its peers.
 */
#ifndef PDI_API_ECHO_H
#define PDI_API_ECHO_H

#include "node/node.h"

#define PDI_ECHO_MAX  16384U               /* samples that wait here, or are looked at */
#define PDI_ECHO_HELD UINT32_C(0x20000000) /* beside PDI_ENV_HELD: a block, not a lane */

struct pdi_echo_block {
    uint32_t holds; /* rings and readers that have it */
    size_t room;
    uint8_t bytes[];
};

/* All zero: nothing was ever echoed. */
struct pdi_echo {
    struct pdi_echo_block **blocks; /* [PDI_ECHO_MAX] */
    uint16_t *free;                 /* indexes of blocks that nobody has */
    uint32_t free_count, used;
    size_t bytes, bytes_max; /* in blocks that somebody has */
    uint64_t number;         /* of the samples that were echoed */
    uint8_t waits;           /* a put found no room; who makes some says so */
};

/* A sample on its way. */
struct pdi_echoed {
    struct pdi_brought sample;
    struct pdi_echo_block *block; /* null: nobody here wants it, or it is done without */
};

void pdi_echo_fini(struct pdi_echo *echo);
/* Asks for room for one of this size. OK, whether or not anybody here wants it; AGAIN. */
int pdi_echo_ask(struct pdi_echo *echo, struct pdi_node *node, uint32_t publisher, size_t size,
                 struct pdi_echoed *echoed, pdi_time now);
/* The same for one that goes by name alone. */
int pdi_echo_ask_name(struct pdi_echo *echo, struct pdi_node *node, pyddsi_bytes name, int reliable,
                      size_t size, struct pdi_echoed *echoed, pdi_time now);
/* After that: hands it out if status is OK, the answer of all others; else gives the room back. Answers status. */
int pdi_echo_end(struct pdi_echo *echo, struct pdi_node *node, struct pdi_echoed *echoed,
                 const void *data, size_t size, int status, pdi_time now);

/* Whether a sample lies in a block. */
static inline bool pdi_echo_has(uint32_t held)
{
    return held >> 29 == (PDI_ENV_HELD | PDI_ECHO_HELD) >> 29;
}

/* A block with a copy of these bytes, held once. OK; AGAIN: no room now; BAD_ARGUMENT: there never is. */
int pdi_echo_copy(struct pdi_echo *echo, const uint8_t *data, size_t size, uint32_t *held,
                  const uint8_t **bytes);
void pdi_echo_hold(struct pdi_echo *echo, uint32_t held);
void pdi_echo_release(struct pdi_echo *echo, uint32_t held);

#endif
