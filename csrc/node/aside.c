/* aside.c - samples that come and go past the sockets.
 *
 * Peers on one machine can hand samples over in shared memory, which is its runner's business and not the node's. What the
 * node has to do with it:
 *
 *     audience   who is to get this publisher's samples, if they may go another way at all
 *     settle     what a peer was sent of this publisher has been acknowledged; until then nothing may overtake it
 *     strangers  somebody hears the group who may have to be waited for first
 *     carry      from now on these peers are served the other way, and the plan leaves them out
 *     wants      whether anybody here would get the samples of such a resource
 *     bring      a sample that came the other way: to its readers, as if it had come in a packet
 *
 * What is carried goes by no multicast: on a group its members would hear it a second time. So while some are carried, each
 * of the others gets a copy of its own. Likewise where a sample cannot go by the group, since a zhe hears that and knows no
 * fragments: all leave the group for it (leave), or what follows by the group would overtake it.
 */
#include "node/state.h"

/* Within this time whoever has come has said what he wants, if he wants anything. */
#define STRANGE (250 * PDI_TIME_MS)

uint64_t pdi_node_audience_changes(const struct pdi_node *node)
{
    return (uint64_t)node->member_changes << 32 ^ node->audience_changes;
}

int pdi_node_audience(struct pdi_node *node, uint32_t handle, uint64_t *bits, pyddsi_aside *aside,
                      pdi_time now)
{
    struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    memset(bits, 0, PDI_BITSET_WORDS(node->config.peers_max) * sizeof(uint64_t));
    if (publisher == NULL || node->closing) {
        return PYDDSI_BAD_ARGUMENT;
    }
    (void)pdi_plan(node, publisher, now);
    *aside = (pyddsi_aside){.resource = publisher->id,
                            .space = publisher->space,
                            .reliable = publisher->reliable,
                            .others = publisher->multicast != 0 || publisher->singles != 0 ||
                                      publisher->learning || publisher->keeps,
                            .skips = publisher->skipping != 0};
    if (publisher->durability != PYDDSI_VOLATILE || publisher->keeps || publisher->streaming) {
        return PYDDSI_END; /* there are samples to be kept, or one is halfway */
    }
    memcpy(bits, publisher->pushed, PDI_BITSET_WORDS(node->config.peers_max) * sizeof(uint64_t));
    return PYDDSI_OK;
}

/* Whether this peer has what was written on this conduit before these numbers; else it is asked. */
static bool reached(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t peer,
                    uint64_t number, uint64_t best)
{
    const struct pdi_member *member = pdi_node_member(node, conduit, peer);
    if (!conduit->open || !member->joined) {
        return true;
    }
    /* a peer that has still to be told of a hole (skip.c) would get what comes behind it first */
    bool settled = (node->peers[peer].unsure >> pdi_conduit_bit(node, conduit) & 1) == 0;
    if (conduit->big_left != 0 ||
        (int64_t)(conduit->best - conduit->draft_samples - conduit->sealed_samples - best) < 0) {
        settled = false;
        conduit->draft_at = node->now;
        pdi_bitset_set(node->work, conduit->number);
    }
    if (member->acked < number) {
        settled = false;
        conduit->flush = 1;
        conduit->synch =
            conduit->synch == 0 && conduit->sent == conduit->window.next ? 2 : conduit->synch;
        pdi_bitset_set(node->work, conduit->number);
    }
    return settled;
}

int pdi_node_settle(struct pdi_node *node, uint32_t handle, uint32_t peer,
                    struct pdi_settle *settle)
{
    const struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    if (publisher == NULL || peer >= node->peers_used) {
        return PYDDSI_BAD_ARGUMENT;
    }
    bool grouped = publisher->conduit < node->config.multicasts;
    struct pdi_conduit *group = grouped ? &node->out[publisher->conduit] : NULL;
    struct pdi_conduit *single = pdi_node_unicast(node, peer);
    if (settle->begun != node->peers[peer].mine) {
        *settle = (struct pdi_settle){.begun = node->peers[peer].mine,
                                      .group = grouped ? group->window.next : 0,
                                      .group_best = grouped ? group->best : 0,
                                      .single = single->window.next,
                                      .single_best = single->best};
    }
    bool settled = reached(node, single, peer, settle->single, settle->single_best);
    if (grouped) {
        settled = reached(node, group, peer, settle->group, settle->group_best) && settled;
    }
    return settled ? PYDDSI_OK : PYDDSI_AGAIN;
}

pdi_time pdi_node_strangers(const struct pdi_node *node, uint32_t handle, pdi_time now)
{
    const struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    pdi_time until = 0;
    if (publisher == NULL || publisher->apart || publisher->conduit >= node->config.multicasts) {
        return 0;
    }
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        pdi_time end = node->peers[peer].since + STRANGE;
        bool unsaid =
            !pdi_registry_told(node->registry, peer) || pdi_bitset_test(publisher->learners, peer);
        if (unsaid && end > now && pdi_session_established(node, peer) &&
            pdi_node_member(node, &node->out[publisher->conduit], peer)->joined) {
            until = end > until ? end : until;
        }
    }
    return until;
}

/* While some are carried the others get a copy each, behind what went by the group (fence.c). */
void pdi_node_carry(struct pdi_node *node, uint32_t handle, uint32_t peer, int on, pdi_time now)
{
    struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    if (publisher == NULL || peer >= node->peers_used) {
        return;
    }
    if (on) {
        pdi_bitset_set(publisher->carried, peer);
        publisher->apart = 1;
    } else {
        pdi_bitset_clear(publisher->carried, peer);
    }
    publisher->planned = 0;
    (void)pdi_plan(node, publisher, now);
}

int pdi_aside_leave(struct pdi_node *node, struct pdi_publisher *publisher, pdi_time now)
{
    publisher->apart = publisher->leaving = 1;
    publisher->planned = 0;
    return pdi_plan(node, publisher, now);
}

/* Whether a publisher that has nobody carried any more, nor a sample that its group cannot take, may use its group again: not
 * while somebody goes without, or it would hear the group, and then what waits for it alone. */
bool pdi_aside_over(const struct pdi_node *node, const struct pdi_publisher *publisher)
{
    uint32_t peers = node->peers_used;
    return !publisher->leaving && pdi_bitset_find(publisher->carried, peers, 0) == peers &&
           publisher->skipping == 0 && pdi_bitset_find(publisher->skips, peers, 0) == peers &&
           pdi_fence_open(node, publisher);
}

/* The session with this peer has ended; the next one begins in the usual way. */
void pdi_aside_forget(struct pdi_node *node, uint32_t peer)
{
    for (uint32_t i = 0; i < node->publishers_used; i++) {
        if (node->publishers[i].used) {
            pdi_bitset_clear(node->publishers[i].carried, peer);
            pdi_bitset_clear(node->publishers[i].skips, peer);
            pdi_fence_forget(&node->publishers[i], peer);
        }
    }
}

void pdi_node_note(struct pdi_node *node, enum pyddsi_place place, enum pyddsi_reason reason,
                   uint8_t space, uint64_t resource, uint64_t count, pdi_time now)
{
    pdi_drop(node, place, reason, space, resource, count, now);
}

void pdi_node_env(struct pdi_node *node, const struct pdi_env *env)
{
    node->env = *env;
}
