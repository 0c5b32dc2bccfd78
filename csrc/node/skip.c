/* skip.c - peers that go without samples, since others would wait for them.
 *
 * A group's window lets go of a member that is slow (member.c). Where each peer has a window of its own (connections, publishers
 * that give each a copy, those beside a lane) a sample is accepted by all of these or by none; so one peer that is stopped, or whose
 * application does not read, would hold up all others. After slow_ms it goes without:
 *
 *     window full for slow_ms, and others wait ──► skips: the plan leaves the peer out, and counts what it does not get
 *     all that is in the window acknowledged ────► its numbers go on behind what was skipped, and it gets samples again
 *
 * What was in the window stays there, so declarations are not lost, and reaches the peer in order when it goes on. Then comes the
 * hole in the numbers, as large as the samples that it went without: by a SYNCH the peer knows that these will not come, and writes
 * them down (GAP), as a slow member of a group does. What is kept for it (pull.c) waits behind the hole, since it is newer.
 * Here are written: what a hole may not be large enough for, what a peer that ends its session had still to be told, and
 * everything of a zhe, which reports nothing.
 *
 * The only reader of all that its publisher has holds up nobody else, and is waited for. A sample that goes out piece by piece
 * cannot go on without one of those that have its beginning: there the session ends, and begins anew.
 *
 * Who reads lanes may go without as well (api/lanes.h): its runner says so, for one publisher, and when it is back.
 */
#include "node/state.h"

bool pdi_skip_is(const struct pdi_node *node, const struct pdi_publisher *publisher, uint32_t peer)
{
    return pdi_node_unicast(node, peer)->skips || pdi_bitset_test(publisher->skips, peer);
}

static void tell(struct pdi_node *node, struct pdi_conduit *conduit, pdi_time now)
{
    pyddsi_event *event = pdi_event_push(node, PYDDSI_DETACHED, now);
    pdi_event_peer(node, event, conduit->peer);
    event->conduit = conduit->id;
    event->first = pdi_conduit_base(conduit);
    event->last = conduit->window.next - 1;
}

/* A publisher that waits for this peer, and has others; with `streams`: whose sample goes out piece by piece. */
static bool waits(const struct pdi_node *node, uint32_t peer, bool streams)
{
    uint32_t peers = node->peers_used;
    for (uint32_t i = 0; i < node->publishers_used; i++) {
        const struct pdi_publisher *publisher = &node->publishers[i];
        if (publisher->used && publisher->reliable && publisher->streaming == streams &&
            pdi_bitset_test(publisher->singles_bits, peer) &&
            (publisher->multicast || publisher->singles > 1 ||
             pdi_bitset_find(publisher->carried, peers, 0) < peers)) {
            return true;
        }
    }
    return false;
}

void pdi_skip_slow(struct pdi_node *node, struct pdi_conduit *conduit, pdi_time now)
{
    const struct pdi_member *member = pdi_node_member(node, conduit, conduit->peer);
    pdi_time since = conduit->full > member->progress ? conduit->full : member->progress;
    if (!conduit->draining || conduit->skips || now < since ||
        now - since < pdi_session_patience(node, conduit->peer, now)) {
        return;
    }
    if (waits(node, conduit->peer, true)) {
        pdi_session_end(node, conduit->peer, 3, 3 + 1, now);
    } else if (waits(node, conduit->peer, false)) {
        conduit->skips = 1;
        node->member_changes++;
        tell(node, conduit, now);
    }
}

void pdi_skip_count(struct pdi_node *node, const struct pdi_publisher *publisher,
                    pyddsi_bytes payload, uint32_t count)
{
    uint64_t wanting[PDI_BITSET_WORDS(PYDDSI_PEERS_MAX)];
    uint32_t peers = publisher->skipping != 0 ? node->peers_used : 0;
    if (peers != 0 && publisher->filters) {
        (void)pdi_plan_filter(node, publisher, payload, wanting);
    }
    for (uint32_t peer = pdi_bitset_find(publisher->without, peers, 0); peer < peers;
         peer = pdi_bitset_find(publisher->without, peers, peer + 1)) {
        if (!publisher->filters || pdi_bitset_test(wanting, peer)) {
            pdi_node_unicast(node, peer)->skipped += count;
        }
    }
}

/* Of the holes that its peer has been told of, those of which it has not said that it knows. */
static uint64_t unheard(const struct pdi_node *node, const struct pdi_conduit *conduit)
{
    uint64_t unsure = node->peers[conduit->peer].unsure;
    return (unsure >> pdi_conduit_bit(node, conduit) & 1) != 0 ? conduit->hole : 0;
}

/* The numbers of an empty window go on behind a hole. Nothing in it, nor in open loans, has a number yet. */
static void leave_hole(struct pdi_node *node, struct pdi_conduit *conduit, uint64_t size,
                       pdi_time now)
{
    struct pdi_member *member = pdi_node_member(node, conduit, conduit->peer);
    conduit->hole = unheard(node, conduit) + size;
    pdi_window_start(&conduit->window, conduit->window.next + size);
    conduit->sent = member->acked = conduit->window.next;
    conduit->wanted = 0;
    conduit->timed = 0;
    pdi_member_tell_where(node, conduit, conduit->peer, now);
}

void pdi_skip_over(struct pdi_node *node, struct pdi_conduit *conduit, pdi_time now)
{
    if (pdi_conduit_base(conduit) != conduit->window.next) {
        return;
    }
    const struct pdi_node_peer *who = &node->peers[conduit->peer];
    uint64_t most = who->features != 0 ? who->seq.half / 2 : 0;
    uint64_t hole = conduit->skipped < most ? conduit->skipped : most;
    if (conduit->skipped != hole) {
        pdi_drop(node, PYDDSI_AT_WINDOW, PYDDSI_BY_GAP, 0, 0, conduit->skipped - hole, now);
    }
    if (hole != 0) {
        leave_hole(node, conduit, hole, now);
    }
    conduit->skipped = 0;
    conduit->skips = 0;
    node->member_changes++;
    node->kick = 1;
}

void pdi_skip_end(struct pdi_node *node, struct pdi_conduit *conduit, pdi_time now)
{
    uint64_t lost = conduit->skipped + unheard(node, conduit);
    if (lost != 0) {
        pdi_drop(node, PYDDSI_AT_WINDOW, PYDDSI_BY_PEER_LOST, 0, 0, lost, now);
    }
    conduit->skipped = conduit->hole = 0;
    conduit->skips = 0;
}

/* ---- for those whom another way has served ---- */

void pdi_node_skip(struct pdi_node *node, uint32_t handle, uint32_t peer, uint64_t lost,
                   pdi_time now)
{
    struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    if (publisher == NULL || peer >= node->peers_used || !pdi_node_unicast(node, peer)->open) {
        return;
    }
    pdi_bitset_set(publisher->skips, peer);
    publisher->planned = 0;
    pdi_node_unicast(node, peer)->skipped += lost;
    tell(node, pdi_node_unicast(node, peer), now);
    (void)pdi_plan(node, publisher, now);
}

void pdi_node_skip_end(struct pdi_node *node, uint32_t handle, uint32_t peer, pdi_time now)
{
    struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    if (peer >= node->peers_used || !pdi_node_unicast(node, peer)->open) {
        return;
    }
    if (publisher != NULL) {
        pdi_bitset_clear(publisher->skips, peer);
        publisher->planned = 0;
    }
    pdi_node_unicast(node, peer)->skips = 1;
    pdi_skip_over(node, pdi_node_unicast(node, peer), now);
    node->member_changes++;
}
