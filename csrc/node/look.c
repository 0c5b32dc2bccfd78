/* look.c - the node's clockwork (tick, due), its end, and looks at it from outside. */
#include "node/state.h"

/* ---- clockwork ---- */

/* Whether a session has ended and nobody works for it any more. */
static bool reapable(const struct pdi_node *node)
{
    uint32_t peer = pdi_bitset_find(node->ended, node->peers_used, 0);
    while (peer < node->peers_used && pdi_peer_look(&node->peers[peer].word).busy != 0) {
        peer = pdi_bitset_find(node->ended, node->peers_used, peer + 1);
    }
    return peer < node->peers_used;
}

pdi_time pdi_node_due(const struct pdi_node *node)
{
    bool at_once = node->kick || node->chore_head != node->chore_tail || reapable(node);
    return at_once ? node->now : pdi_heap_due(&node->timers);
}

static void timer(struct pdi_node *node, uint32_t item, pdi_time now)
{
    uint32_t peers = node->config.peers_max;
    if (item == PDI_TIMER_SCOUT) {
        pdi_session_scout(node, now);
    } else if (item == PDI_TIMER_KEEPALIVE) {
        pdi_session_keepalive(node, now);
    } else if (item == PDI_TIMER_SHELF) {
        pdi_shelf_tick(node, now);
    } else if (item == PDI_TIMER_RETIRE) {
        pdi_retire_tick(node, now);
    } else if (item == PDI_TIMER_ASSEMBLY) {
        pdi_assembly_tick(node, now);
    } else if (item < PDI_TIMER_FIXED + peers) {
        pdi_session_timer(node, item - PDI_TIMER_FIXED, now);
    } else if (item < PDI_TIMER_FIXED + peers + node->conduits) {
        pdi_reliable_timer(node, &node->out[item - PDI_TIMER_FIXED - peers], now);
    } else {
        pdi_receive_order_timer(node, item - PDI_TIMER_FIXED - peers - node->conduits, now);
    }
}

void pdi_node_retry(struct pdi_node *node, pdi_time now)
{
    if (node->kick) {
        pdi_receive_retry(node, now);
        pdi_declare_changes(node, now);
        pdi_retire_tick(node, now);
        pdi_declare_tick(node, now);
        pdi_stream_tick(node, now);
        pdi_plan_learn(node, now);
        pdi_history_tick(node, now);
        pdi_shelf_tick(node, now);
        pdi_declare_changes(node, now);
    }
}

void pdi_node_tick(struct pdi_node *node, pdi_time now)
{
    uint32_t item;
    uint32_t items =
        PDI_TIMER_FIXED + node->config.peers_max * (1 + node->config.conduits_in) + node->conduits;
    node->now = now > node->now ? now : node->now;
    pdi_session_tick(node, now);
    pdi_node_retry(node, now);
    /* each item at most once, so that one that is due again at once cannot keep us here */
    for (uint32_t i = 0; i < items && pdi_heap_pop(&node->timers, now, &item) == PYDDSI_OK; i++) {
        timer(node, item, now);
    }
}

void pdi_node_close(struct pdi_node *node, pdi_time now)
{
    node->now = now > node->now ? now : node->now;
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        uint8_t state = pdi_peer_look(&node->peers[peer].word).state;
        if (state >= PDI_PEER_OPENING && state <= PDI_PEER_OPENING_LAST) {
            /* our OPEN may be there, and taken for a session */
            pdi_hello_reply(node, &(struct pdi_reply){.kind = PDI_REPLY_CLOSE,
                                                      .to = node->peers[peer].endpoint});
            pdi_session_undo(node, peer);
        }
        pdi_session_end(node, peer, PYDDSI_END_LOCAL, 0 + 1, now);
    }
    pdi_session_tick(node, now);
    for (uint32_t i = 0; i < node->readers_used; i++) {
        if (node->readers[i].used) {
            pdi_ring_drop(node, &node->readers[i], PYDDSI_BY_CLOSE, now);
        }
    }
    node->closing = 1;
}

int pdi_node_close_session(struct pdi_node *node, const pyddsi_endpoint *endpoint, uint8_t reason,
                           pdi_time now)
{
    uint32_t peer = pdi_session_find(node, endpoint);
    node->now = now > node->now ? now : node->now;
    if (peer == PDI_NONE || !pdi_session_established(node, peer)) {
        return PYDDSI_BAD_ARGUMENT;
    }
    pdi_session_end(node, peer, PYDDSI_END_LOCAL, reason + 1U, now);
    return PYDDSI_OK;
}

void pdi_node_exited(struct pdi_node *node, uint32_t peer, uint16_t epoch, pdi_time now)
{
    node->now = now > node->now ? now : node->now;
    if (peer < node->peers_used && pdi_peer_look(&node->peers[peer].word).epoch == epoch) {
        pdi_session_end(node, peer, PYDDSI_END_EXITED, 0, now);
    }
}

uint32_t pdi_node_peer_changes(const struct pdi_node *node)
{
    return node->member_changes;
}

uint64_t pdi_node_bond(const struct pdi_node *node, uint32_t peer, bool ours)
{
    const struct pdi_node_peer *who = &node->peers[peer];
    if (peer >= node->peers_used || who->secret == 0 || !pdi_session_established(node, peer)) {
        return 0;
    }
    /* who stands between two, and passes their secrets on, has not both their names as well, unless it is them for each other */
    unsigned own = ours ? 0 : 2;
    uint64_t key[2] = {ours ? who->proof : who->secret, ours ? who->secret : who->proof};
    uint64_t words[5] = {0};
    memcpy(&words[own], node->config.id, node->config.id_size);
    memcpy(&words[2 - own], who->id, who->id_size);
    words[4] = (uint64_t)node->config.id_size << 8 * own | (uint64_t)who->id_size << 8 * (2 - own);
    uint64_t bond = pdi_sip(key, words, 5);
    return bond != 0 ? bond : 1;
}

int pdi_node_peer_window(struct pdi_node *node, pyddsi_bytes id, uint32_t bytes, uint32_t samples)
{
    struct pdi_override *at = NULL;
    if (id.size == 0 || id.size > PYDDSI_ID_MAX || bytes < 2 * PDI_REGISTRY_ROOM_MIN ||
        bytes > PDI_WINDOW_BYTES_MAX) {
        return PYDDSI_BAD_ARGUMENT;
    }
    for (uint32_t i = 0; i < PDI_OVERRIDES_MAX; i++) {
        struct pdi_override *override = &node->overrides[i];
        if (override->id_size == id.size && memcmp(override->id, id.data, id.size) == 0) {
            at = override;
            break;
        }
        at = at == NULL && override->id_size == 0 ? override : at;
    }
    if (at == NULL) {
        return PYDDSI_NO_SPACE;
    }
    *at = (struct pdi_override){.id_size = (uint8_t)id.size, .bytes = bytes, .samples = samples};
    memcpy(at->id, id.data, id.size);
    return PYDDSI_OK;
}

/* ---- looks ---- */

uint64_t pdi_node_news(const struct pdi_node *node)
{
    const pyddsi_stats *stats = &node->stats;
    return stats->delivered + stats->acknowledged + stats->forgiven + node->event_head +
           node->audience_changes + pdi_registry_settles(node->registry) +
           pdi_registry_route_changes(node->registry);
}

pyddsi_bytes pdi_node_name(const struct pdi_node *node, uint8_t space, uint64_t id)
{
    return pdi_registry_name_late(node->registry, space, id);
}

size_t pdi_node_known(const struct pdi_node *node, pyddsi_known *known, size_t max, uint8_t *names,
                      size_t room)
{
    return pdi_registry_known(node->registry, known, max, names, room);
}

int pdi_node_drop(const struct pdi_node *node, uint32_t index, pyddsi_drop *drop)
{
    return pdi_ledger_get(&node->ledger, index, drop);
}

uint64_t pdi_node_dropped(const struct pdi_node *node, pyddsi_drop *last)
{
    *last = *node->ledger.last;
    return node->ledger.total;
}

void pdi_node_stats(const struct pdi_node *node, pyddsi_stats *stats)
{
    *stats = node->stats;
    stats->allocated_slots =
        node->pool.slots - pdi_pool_free(&node->pool) - (node->slot != PDI_POOL_NONE);
    stats->kept_bytes = (uint64_t)(node->keep_pages.pages - node->keep_pages.free) * PDI_KEEP_PAGE;
    stats->rings_used = 0;
    for (uint32_t i = 0; i < node->readers_used; i++) {
        const struct pdi_subscriber *reader = &node->readers[i];
        if (reader->used) {
            stats->rings_used +=
                pdi_atomic64_load_acquire(&reader->tail) - pdi_atomic64_load_acquire(&reader->head);
        }
    }
}

int pdi_node_peer(const struct pdi_node *node, uint32_t index, pyddsi_peer *peer)
{
    if (index >= node->peers_used) {
        return PYDDSI_END;
    }
    const struct pdi_node_peer *who = &node->peers[index];
    struct pdi_peer_view view = pdi_peer_look(&who->word);
    const struct pdi_conduit *conduit = pdi_node_unicast(node, index);
    struct pdi_window_span span = {0};
    if (conduit->open) {
        span = pdi_window_span(&conduit->window);
    }
    *peer = (pyddsi_peer){
        .id_size = who->id_size,
        .state = view.state,
        .busy = view.busy,
        .epoch = view.epoch,
        .endpoint = who->endpoint,
        .features = who->features,
        .incarnation = who->incarnation,
        .lease_ms = who->lease_ms,
        .rtt_ns = who->rtt.smooth,
        .unacknowledged = span.next - span.base,
        .unreached = pdi_node_unreached(node, index),
    };
    if (who->features == 0 && who->groups == 0) {
        peer->group = who->group;
    }
    memcpy(peer->id, who->id, sizeof peer->id);
    peer->token_size = who->token_size;
    memcpy(peer->token, who->token, sizeof peer->token);
    return PYDDSI_OK;
}

int pdi_node_window(const struct pdi_node *node, int number, pyddsi_window *window)
{
    uint32_t place =
        number >= 0 ? (uint32_t)number : node->config.multicasts + (uint32_t)(-1 - number);
    bool known = number >= 0 ? place < node->config.multicasts
                             : place < node->config.multicasts + node->peers_used;
    if (!known || !node->out[place].open) {
        return PYDDSI_BAD_ARGUMENT;
    }
    const struct pdi_conduit *conduit = &node->out[place];
    struct pdi_window_snapshot snapshot = pdi_window_snapshot(&conduit->window);
    *window = (pyddsi_window){
        .seq = snapshot.seq,
        .seqbase = snapshot.seqbase,
        .pos = snapshot.pos,
        .firstpos = snapshot.firstpos,
        .size_bytes = conduit->window.size,
        .used_bytes = snapshot.used_bytes,
        .samples_max = conduit->window.entries_max,
        .used_samples = snapshot.used_entries,
        .members = conduit->members,
        .draining = conduit->draining,
    };
    return PYDDSI_OK;
}
