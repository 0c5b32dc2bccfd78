/* path.c - packets as large as the way to a peer carries.
 *
 * A message never has more than packet_max bytes, so whatever is sent again passes wherever anything passes. But the pieces of
 * large samples need not travel one by one: to a peer that can (PYDDSI_CAN_LARGE) as many go in one packet as its way carries:
 * 65,507 bytes within a machine, 8,972 where all has jumbo frames.
 *
 *     a session begins, or a peer moves ─► path_next ─► the driver asks its system ─► path(bytes) ─► packets of so many bytes
 *                                                                                                        │
 *     packets of packet_max  ◄── PDI_LARGE_LOST in a row asked for again, none acknowledged ─────────────┘
 *             └── after a pause, each time twice as long: one more try ──►
 *
 * What the system says is what its own interface carries: a switch on the way may carry less, now or later. Nobody is asked by
 * probes: the pieces are the probe. A large packet that a path swallows is asked for again, piece by piece, and goes again in packets of the
 * usual size, so it costs a round trip and no sample.
 *
 * Only pieces go so, since they are copied out of their packet when they come. A small sample is read where it lies, and would
 * keep all of a large packet for as long as its reader looks at it. To groups nothing goes so: the way to each member is another.
 */
#include "node/state.h"

static void set(struct pdi_conduit *conduit, uint32_t bytes)
{
    conduit->large_max = bytes > conduit->packet_max ? bytes : conduit->packet_max;
}

/* The way to this peer has begun, or become another: the driver is to say what it carries. */
void pdi_path_begin(struct pdi_node *node, uint32_t peer)
{
    struct pdi_node_peer *who = &node->peers[peer];
    struct pdi_conduit *conduit = pdi_node_unicast(node, peer);
    bool asks = (who->features & PYDDSI_CAN_LARGE) != 0 && !pdi_endpoint_is_stream(&who->endpoint);
    node->paths_due += asks - who->path_due;
    who->path_due = asks;
    conduit->large_told = conduit->large_lost = 0;
    conduit->large_pause = 0;
    set(conduit, 0);
}

bool pdi_node_path_due(const struct pdi_node *node)
{
    return node->paths_due != 0;
}

bool pdi_node_path_next(struct pdi_node *node, pyddsi_endpoint *to)
{
    for (uint32_t peer = 0; node->paths_due != 0 && peer < node->peers_used; peer++) {
        struct pdi_node_peer *who = &node->peers[peer];
        node->paths_due -= who->path_due;
        if (who->path_due != 0 && pdi_session_established(node, peer)) {
            who->path_due = 0;
            *to = who->endpoint;
            return true;
        }
        who->path_due = 0;
    }
    return false;
}

void pdi_node_path(struct pdi_node *node, const pyddsi_endpoint *to, uint32_t bytes)
{
    uint32_t peer = pdi_session_find(node, to);
    if (peer != PDI_NONE && pdi_session_established(node, peer) &&
        (node->peers[peer].features & PYDDSI_CAN_LARGE) != 0) {
        struct pdi_conduit *conduit = pdi_node_unicast(node, peer);
        conduit->large_told = bytes < PYDDSI_PACKET_MAX ? bytes : PYDDSI_PACKET_MAX;
        set(conduit, conduit->large_told);
    }
}

/* How many bytes a packet of pieces may have now. */
uint32_t pdi_path_room(struct pdi_conduit *conduit, pdi_time now)
{
    if (conduit->large_pause != 0 && conduit->large_max == conduit->packet_max &&
        now >= conduit->large_at) {
        conduit->large_lost = PDI_LARGE_LOST - 1; /* one more */
        set(conduit, conduit->large_told);
    }
    return conduit->large_max;
}

/* A message of a large packet is asked for. Those that left before the last such time say nothing new. */
void pdi_path_lost(struct pdi_conduit *conduit, uint64_t number, pdi_time now)
{
    if (number < conduit->large_from || conduit->large_max == conduit->packet_max) {
        return;
    }
    conduit->large_from = conduit->sent;
    if (++conduit->large_lost >= PDI_LARGE_LOST) {
        pdi_time pause = 2 * conduit->large_pause;
        pause =
            pause > PDI_LARGE_SLOWEST_MS * PDI_TIME_MS ? PDI_LARGE_SLOWEST_MS * PDI_TIME_MS : pause;
        conduit->large_pause = pause != 0 ? pause : PDI_LARGE_MS * PDI_TIME_MS;
        conduit->large_at = pdi_time_add(now, conduit->large_pause);
        set(conduit, 0);
    }
}

/* All before this number is acknowledged: whether a large packet has arrived, and not only its pieces one by one. */
void pdi_path_arrived(struct pdi_conduit *conduit, uint64_t number)
{
    uint8_t mark = pdi_window_entry(&conduit->window, (uint32_t)number - 1)->mark;
    if ((mark & (PDI_MARK_LARGE | PDI_MARK_RESENT)) == PDI_MARK_LARGE) {
        conduit->large_lost = 0;
        conduit->large_pause = 0;
    }
}
