/* plan.c - who is to get a publisher's samples, and by which way.
 *
 * Worked out when a match or a session has changed, and looked at for each sample:
 *
 *     links of the registry ──► pushed   a bit for each peer that wants samples pushed
 *                          ├──► singles  those of them that need a copy of their own
 *                          ├──► multicast: one copy for the rest
 *                          └──► keeps, filters
 *
 *     way          singles                                       multicast
 *     MULTICAST    those who have not joined the group           if any has
 *     UNICAST      all (the registry lets in but one)            no
 *     EACH         all                                           no
 *     AUTO         the only one, if it knows a MIGRATE           else as MULTICAST
 *
 * A publisher that keeps samples for those who come late gives each a copy of its own, whatever the way: first what was,
 * then what comes, on one conduit and so in order. There a peer that asks for each of its readers (history.c) gets all samples,
 * whatever its selections say: they are looked at when it has come.
 *
 * Whoever would get a copy of its own and may not be waited for goes without (skip.c).
 *
 * On a conduit that several peers hear, the least of them decides what may be sent there (features).
 */
#include "node/state.h"

static bool pushes(const struct pdi_remote *remote)
{
    return remote->mode == PYDDSI_PUSH || remote->mode == PYDDSI_PUSH_PULL;
}

static bool gets_all(const struct pdi_node *node, const struct pdi_publisher *publisher,
                     uint32_t peer)
{
    return publisher->durability != PYDDSI_VOLATILE && pdi_history_can(node, peer);
}

/* What every receiver of a conduit's packets can: on a group all established peers may listen, members or not. */
void pdi_plan_features(struct pdi_node *node)
{
    uint32_t all = PYDDSI_CAN_ALL;
    node->id_most = UINT64_MAX;
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        if (pdi_session_established(node, peer)) {
            all &= node->peers[peer].features;
            uint64_t most = pdi_registry_id_most(node->registry, peer);
            node->id_most = most < node->id_most ? most : node->id_most;
        }
    }
    for (uint32_t i = 0; i < node->config.multicasts; i++) {
        if ((node->out[i].features & ~all) != 0) {
            pdi_repeat_apart(node, &node->out[i], node->now);
        }
        node->out[i].features = all;
    }
    pdi_lead_groups(node);
}

/* Whether a way that changes by itself leads to the only peer there is: one to whom nothing can say where it goes on would
 * get what overtakes what went to the group. */
static bool can_be_alone(const struct pdi_node *node, const struct pdi_publisher *publisher,
                         uint32_t peers)
{
    uint32_t only = pdi_bitset_find(publisher->pushed, node->config.peers_max, 0);
    return peers == 1 && (node->peers[only].features & PYDDSI_CAN_MIGRATE) != 0;
}

static void set_ways(struct pdi_node *node, struct pdi_publisher *publisher, uint32_t peers)
{
    uint32_t words = PDI_BITSET_WORDS(node->config.peers_max);
    bool grouped = publisher->conduit < node->config.multicasts &&
                   publisher->durability == PYDDSI_VOLATILE && !publisher->apart &&
                   (publisher->way == PYDDSI_WAY_MULTICAST ||
                    (publisher->way == PYDDSI_WAY_AUTO && !can_be_alone(node, publisher, peers)));
    const struct pdi_conduit *group = grouped ? &node->out[publisher->conduit] : NULL;
    for (uint32_t i = 0; i < words; i++) {
        publisher->singles_bits[i] = publisher->pushed[i] & ~publisher->carried[i];
    }
    for (uint32_t peer = 0; group != NULL && peer < node->peers_used; peer++) {
        if (pdi_bitset_test(publisher->pushed, peer) &&
            pdi_node_member(node, group, peer)->joined) {
            publisher->multicast = 1;
            pdi_bitset_clear(publisher->singles_bits, peer);
        }
    }
    memset(publisher->without, 0, words * sizeof(uint64_t));
    publisher->skipping = 0;
    for (uint32_t peer = 0; publisher->reliable && peer < node->peers_used; peer++) {
        if (pdi_bitset_test(publisher->singles_bits, peer) && pdi_skip_is(node, publisher, peer)) {
            pdi_bitset_clear(publisher->singles_bits, peer);
            pdi_bitset_set(publisher->without, peer);
            publisher->skipping++;
        }
    }
    publisher->singles = pdi_bitset_count(publisher->singles_bits, node->config.peers_max);
    publisher->only = pdi_bitset_find(publisher->singles_bits, node->config.peers_max, 0);
}

/* The conduit of a way that changes by itself: as pdi_node_conduit says it; INT32_MIN: nobody is there, or several are. */
static int way_of(const struct pdi_publisher *publisher)
{
    return publisher->multicast      ? publisher->conduit
           : publisher->singles == 1 ? -1 - (int)publisher->only
                                     : INT32_MIN;
}

/* Whether the plan has another way than what was put last went. */
static bool changes_way(const struct pdi_publisher *publisher)
{
    int now = way_of(publisher);
    return publisher->way == PYDDSI_WAY_AUTO && now != INT32_MIN && now != publisher->current;
}

/* With a way that changes by itself nothing may overtake what went the old way.
 *
 * From a group to a single peer the first message on the new conduit may need a fence (fence.c). From a single peer to a group the
 * sender waits, for about a round trip, until the single peer has acknowledged what it was sent, and for no longer than slow_ms
 * if it no longer does (member.c). Best effort only goes out at once where it still waits for company: it waits for nobody, so what
 * the network keeps back may come after what went the new way.
 *
 * A sample that is going out piece by piece stays on the way that it began on. So the move is noted only when it has ended:
 * whoever moves then waits for all of its pieces as well. */
static void note_move(struct pdi_node *node, struct pdi_publisher *publisher)
{
    int now = way_of(publisher);
    int before = publisher->current;
    if (!changes_way(publisher) || publisher->streaming) {
        return;
    }
    publisher->current = now;
    publisher->move_after = 0;
    if (before != INT32_MIN) {
        struct pdi_conduit *old =
            before >= 0 ? &node->out[before] : pdi_node_unicast(node, (uint32_t)(-1 - before));
        old->draft_at = node->now;
        pdi_bitset_set(node->work, old->number);
    }
    if (before != INT32_MIN && before < 0 && now >= 0) {
        uint32_t peer = (uint32_t)(-1 - before);
        struct pdi_conduit *left = pdi_node_unicast(node, peer);
        publisher->move_after = left->open ? left->number + 1 : 0;
        publisher->move_number = left->window.next;
        publisher->move_life = node->peers[peer].mine;
        publisher->move_since = 0;
    }
}

/* Whether the move is over: what went the old way is acknowledged, or will never be. */
static bool moved(struct pdi_node *node, struct pdi_publisher *publisher)
{
    struct pdi_conduit *left = &node->out[publisher->move_after - 1];
    struct pdi_window_span span =
        left->open ? pdi_window_span(&left->window) : (struct pdi_window_span){0};
    if (left->open && node->peers[left->peer].mine == publisher->move_life &&
        (int32_t)(span.base - (uint32_t)publisher->move_number) < 0) {
        left->flush = 1;
        left->synch = left->synch == 0 && left->sent == left->window.next ? 2 : left->synch;
        pdi_bitset_set(node->work, left->number);
        publisher->move_since = publisher->move_since != 0 ? publisher->move_since : node->now;
        return false;
    }
    publisher->move_after = 0;
    return true;
}

static void make(struct pdi_node *node, struct pdi_publisher *publisher, uint32_t changes,
                 pdi_time now);

/* Whether some match has not been told. Not only who is learning has such: a plan that was made since for another reason
 * may have found that the peer knows the name by now. */
static bool owes_match(const struct pdi_node *node, const struct pdi_publisher *publisher)
{
    return pdi_bitset_find(publisher->untold, node->peers_used, 0) < node->peers_used;
}

/* After news from the peers: who waited to hear a name may know it now, and then the match is told. */
void pdi_plan_learn(struct pdi_node *node, pdi_time now)
{
    for (uint32_t i = 0; i < node->publishers_used; i++) {
        struct pdi_publisher *publisher = &node->publishers[i];
        if (!publisher->used || (!publisher->learning && !owes_match(node, publisher))) {
            continue;
        }
        publisher->planned = 0;
        (void)pdi_plan(node, publisher, now);
        for (uint32_t peer = 0; peer < node->peers_used; peer++) {
            if (pdi_bitset_test(publisher->untold, peer) &&
                !pdi_bitset_test(publisher->learners, peer)) {
                pdi_bitset_clear(publisher->untold, peer);
                pyddsi_event *event = pdi_event_push(node, PYDDSI_MATCHED, now);
                pdi_event_peer(node, event, peer);
                event->handle = publisher->handle;
                event->space = publisher->space;
                event->resource = publisher->id;
            }
        }
    }
}

/* Sees to it that the plan is true. OK; AGAIN: the publisher's samples must wait, as they are changing their way. */
int pdi_plan(struct pdi_node *node, struct pdi_publisher *publisher, pdi_time now)
{
    uint32_t changes = pdi_registry_link_changes(node->registry, publisher->registry);
    if (publisher->apart && !publisher->streaming && pdi_aside_over(node, publisher)) {
        publisher->apart = publisher->planned = 0;
    }
    if (!publisher->planned || publisher->link_changes != changes ||
        publisher->member_changes != node->member_changes) {
        make(node, publisher, changes, now);
    }
    if (publisher->streaming && changes_way(publisher)) {
        return PYDDSI_AGAIN; /* what is put meanwhile waits for the end of the sample in pieces */
    }
    bool over = publisher->move_after == 0 || moved(node, publisher);
    return over ? pdi_fence_ready(node, publisher) : PYDDSI_AGAIN;
}

static void make(struct pdi_node *node, struct pdi_publisher *publisher, uint32_t changes,
                 pdi_time now)
{
    uint32_t words = PDI_BITSET_WORDS(node->config.peers_max);
    uint32_t peers = 0;
    bool one_reason = true, shelf = publisher->shelf_max != 0;
    publisher->planned = 1;
    if (publisher->link_changes != changes || publisher->member_changes != node->member_changes) {
        publisher->told_large = 0;
    }
    node->audience_changes++;
    publisher->link_changes = changes;
    publisher->member_changes = node->member_changes;
    publisher->filters = publisher->multicast = publisher->keeps = 0;
    publisher->via = 0;
    publisher->learning = 0;
    memset(publisher->pushed, 0, words * sizeof(uint64_t));
    memset(publisher->learners, 0, words * sizeof(uint64_t));
    for (uint32_t link = pdi_registry_link_first(node->registry, publisher->registry);
         link != PDI_REGISTRY_NONE;
         link = pdi_registry_link_next(node->registry, link)) { /* at most remotes_max */
        const struct pdi_remote *remote = pdi_registry_link_remote(node->registry, link);
        shelf = shelf || remote->mode != PYDDSI_PUSH;
        if (!pdi_node_unicast(node, remote->peer)->open) {
            continue;
        }
        bool by_number = remote->id == publisher->id && !gets_all(node, publisher, remote->peer) &&
                         pdi_registry_told_id(node->registry, publisher->space, publisher->id,
                                              true) == publisher->id;
        if (!by_number && !pdi_registry_knows(node->registry, publisher->registry, remote->peer)) {
            publisher->learning = 1; /* it has still to hear what our resource is called */
            pdi_bitset_set(publisher->learners, remote->peer);
            continue;
        }
        if (!pushes(remote)) {
            continue;
        }
        peers += !pdi_bitset_test(publisher->pushed, remote->peer);
        pdi_bitset_set(publisher->pushed, remote->peer);
        publisher->filters |= remote->predicate != NULL && !gets_all(node, publisher, remote->peer);
        uint64_t via = remote->bound_id != 0   ? remote->bound_id
                       : (remote->id & 1) != 0 ? remote->id
                                               : 0;
        one_reason = one_reason && via != 0 && (publisher->via == 0 || publisher->via == via);
        publisher->via = one_reason ? via : 0;
    }
    publisher->keeps = shelf;
    set_ways(node, publisher, peers);
    note_move(node, publisher);
    pdi_shelf_links(node, publisher, now);
}

/* Asked of the registry, since events can be lost. A peer that has still to hear the name by which it matches is left out. */
int pdi_node_matched(struct pdi_node *node, uint32_t handle, uint64_t *bits, pdi_time now)
{
    struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    memset(bits, 0, PDI_BITSET_WORDS(PYDDSI_PEERS_MAX) * sizeof(uint64_t));
    if (publisher == NULL) {
        return PYDDSI_BAD_ARGUMENT;
    }
    (void)pdi_plan(node, publisher, now);
    for (uint32_t link = pdi_registry_link_first(node->registry, publisher->registry);
         link != PDI_REGISTRY_NONE;
         link = pdi_registry_link_next(node->registry, link)) { /* at most remotes_max */
        uint32_t peer = pdi_registry_link_remote(node->registry, link)->peer;
        bool learns = pdi_bitset_test(publisher->learners, peer);
        if (pdi_session_established(node, peer) &&
            (!learns || pdi_bitset_test(publisher->pushed, peer))) {
            pdi_bitset_set(bits, peer);
        }
    }
    return PYDDSI_OK;
}

/* Which peers want this very sample: those with a plain subscription, or a selection that it fits. */
bool pdi_plan_filter(const struct pdi_node *node, const struct pdi_publisher *publisher,
                     pyddsi_bytes payload, uint64_t *wanting)
{
    bool any = false;
    memset(wanting, 0, PDI_BITSET_WORDS(node->config.peers_max) * sizeof(uint64_t));
    for (uint32_t link = pdi_registry_link_first(node->registry, publisher->registry);
         link != PDI_REGISTRY_NONE;
         link = pdi_registry_link_next(node->registry, link)) { /* at most remotes_max */
        const struct pdi_remote *remote = pdi_registry_link_remote(node->registry, link);
        if (pushes(remote) && !pdi_bitset_test(wanting, remote->peer) &&
            (remote->predicate == NULL || gets_all(node, publisher, remote->peer) ||
             pdi_predicate_holds(remote->predicate, publisher->id, payload))) {
            pdi_bitset_set(wanting, remote->peer);
            any = true;
        }
    }
    return any;
}
