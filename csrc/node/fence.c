/* fence.c - a publisher leaves its group for copies to each, and comes back to it: nothing overtakes.
 *
 *     group         ... 17 18 19                              20 21 ...
 *     to one peer              │ 5 6 7 ...   ... 41 42        │
 *                              └ fence: not before 19         └ not before all who got copies have acknowledged them
 *
 * A peer may lack samples of the group that others have had for long: it may be slow, it may have been detached, and it may have
 * subscribed a moment ago, while what the group had carried before was still being repeated to it. So what counts is each peer's
 * own acknowledgement, and not the window's base, nor who was matched when the group was left.
 *
 *     state of a (publisher, peer)        when                            what the next copy does
 *     in the group                        the last sample went there      it is the first one:
 *                                           the peer has acknowledged it    goes
 *                                           it lacks some of it             goes led by a MIGRATE: the receiver waits
 *                                           and knows no MIGRATE            waits here, until it lacks nothing
 *     alone                               it has got a copy since         goes, behind the copy before
 *
 * The way back is no message: members of a group have a counter each on their unicast conduits, and a MIGRATE names one number for
 * all. So the group is used again when nothing is under way to any peer that is alone (pdi_plan asks).
 *
 * A MIGRATE is kept as long as its sample may be repeated, and there are PDI_MOVES_MAX of them. Without one a put waits.
 *
 * Best effort waits for nobody, so it has no fence.
 */
#include "node/state.h"

static bool has_group(const struct pdi_node *node, const struct pdi_publisher *publisher)
{
    return publisher->group_next != 0 && publisher->conduit < node->config.multicasts;
}

/* Whether this peer may get a copy before what the group has carried. */
static bool lags(const struct pdi_node *node, const struct pdi_publisher *publisher, uint32_t peer)
{
    const struct pdi_conduit *group = &node->out[publisher->conduit];
    const struct pdi_member *member = pdi_node_member(node, group, peer);
    return !pdi_bitset_test(publisher->alone, peer) && member->joined &&
           member->acked < publisher->group_next;
}

/* The next peer at or after `from` that gets copies and lags; peers_used: there is none. */
static uint32_t next_lagging(const struct pdi_node *node, const struct pdi_publisher *publisher,
                             uint32_t from)
{
    uint32_t peers = node->peers_used;
    uint32_t peer = pdi_bitset_find(publisher->singles_bits, peers, from);
    while (peer < peers && !lags(node, publisher, peer)) { /* at most peers_used */
        peer = pdi_bitset_find(publisher->singles_bits, peers, peer + 1);
    }
    return peer;
}

/* A reliable sample of this publisher was written on this conduit. */
void pdi_fence_wrote(struct pdi_node *node, struct pdi_publisher *publisher,
                     const struct pdi_conduit *conduit)
{
    if (conduit->peer != PDI_NONE) {
        pdi_bitset_set(publisher->alone, conduit->peer);
        publisher->some_alone = 1;
        return;
    }
    publisher->group_next = conduit->window.next;
    if (publisher->some_alone) {
        memset(publisher->alone, 0, PDI_BITSET_WORDS(node->config.peers_max) * sizeof(uint64_t));
        publisher->some_alone = 0;
    }
}

/* Whether some copy of the next sample is led by a MIGRATE: it needs room for that. */
bool pdi_fence_due(const struct pdi_node *node, const struct pdi_publisher *publisher)
{
    return publisher->singles != 0 && has_group(node, publisher) &&
           next_lagging(node, publisher, 0) < node->peers_used;
}

/* The group is to be acknowledged: those who cannot be told to wait for it are waited for. */
static void ask(struct pdi_node *node, struct pdi_conduit *group)
{
    group->flush = 1;
    group->synch = group->synch == 0 && group->sent == group->window.next ? 2 : group->synch;
    pdi_bitset_set(node->work, group->number);
}

/* OK; AGAIN: the next sample has to wait for acknowledgements. (A detached peer that knows no MIGRATE is not waited for, here as
 * elsewhere.) */
int pdi_fence_ready(struct pdi_node *node, const struct pdi_publisher *publisher)
{
    uint32_t moves = 0;
    bool waits = false;
    if (publisher->singles == 0 || !has_group(node, publisher)) {
        return PYDDSI_OK;
    }
    struct pdi_conduit *group = &node->out[publisher->conduit];
    for (uint32_t peer = next_lagging(node, publisher, 0); peer < node->peers_used;
         peer = next_lagging(node, publisher, peer + 1)) {
        bool can = (node->peers[peer].features & PYDDSI_CAN_MIGRATE) != 0;
        moves += can;
        waits = waits || (!can && !pdi_node_member(node, group, peer)->detached);
    }
    if (waits || moves > PDI_MOVES_MAX - node->moves_used) {
        ask(node, group);
        return PYDDSI_AGAIN;
    }
    return PYDDSI_OK;
}

/* The entry is about to be written for this peer alone: what leads it. Pieces behind the first are led by nothing. */
void pdi_fence_lead(struct pdi_node *node, const struct pdi_publisher *publisher,
                    const struct pdi_conduit *on, struct pdi_entry *entry)
{
    entry->mark = 0;
    if (publisher == NULL || on->peer == PDI_NONE || !has_group(node, publisher) ||
        !pdi_bitset_test(publisher->singles_bits, on->peer) || !lags(node, publisher, on->peer) ||
        (on->features & PYDDSI_CAN_MIGRATE) == 0) {
        return;
    }
    const struct pdi_conduit *left = &node->out[publisher->conduit];
    for (uint32_t i = 0; i < PDI_MOVES_MAX; i++) {
        struct pdi_move *move = &node->moves[i];
        if (!move->used) {
            *move = (struct pdi_move){.used = 1,
                                      .left = left->id,
                                      .on = on->number,
                                      .number = on->window.next,
                                      .id = publisher->id,
                                      .last_reliable = publisher->group_next - 1,
                                      .last_best = left->best - 1};
            node->moves_used++;
            entry->mark = PDI_MARK_MIGRATE;
            return;
        }
    }
}

/* Whether all that went to peers alone has been acknowledged, so that the group may be used again. */
bool pdi_fence_open(const struct pdi_node *node, const struct pdi_publisher *publisher)
{
    uint32_t peers = publisher->some_alone ? node->peers_used : 0;
    for (uint32_t peer = pdi_bitset_find(publisher->alone, peers, 0); peer < peers;
         peer = pdi_bitset_find(publisher->alone, peers, peer + 1)) {
        const struct pdi_conduit *single = pdi_node_unicast(node, peer);
        if (single->open && pdi_conduit_base(single) != single->window.next) {
            return false;
        }
    }
    return true;
}

/* The session with this peer has ended. */
void pdi_fence_forget(struct pdi_publisher *publisher, uint32_t peer)
{
    pdi_bitset_clear(publisher->alone, peer);
}
