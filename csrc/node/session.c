/* session.c - who is there: slots, beginnings and ends.
 *
 *              HELLO                    ACCEPT, OPEN
 *     UNKNOWN ───────► OPENING 1 .. k ───────────────► ESTABLISHED ───────► EXPIRED ───────► UNKNOWN
 *        │                 └─ k unanswered ─► UNKNOWN       ▲   lease, CLOSE,   idle: everything
 *        └──────────────────── OPEN ────────────────────────┘   bad bytes       of it is cleaned up
 *
 * Only housekeeping makes and cleans up: the receive side says what it heard in chores (chore.c), and marks a session as
 * EXPIRED, no more; so nothing is torn down under its feet, nor under a loan (the BUSY count). The file is
 * long, since what a slot begins with and what it ends with stand together.
 */
#include "node/state.h"

/* ---- looking up ---- */

uint32_t pdi_session_find(const struct pdi_node *node, const pyddsi_endpoint *endpoint)
{
    uint64_t peer;
    if (!pdi_map_get(&node->endpoints, pdi_endpoint_key(node->hash_seed, endpoint), &peer)) {
        return PDI_NONE;
    }
    return pdi_endpoint_equal(&node->peers[peer].endpoint, endpoint) ? (uint32_t)peer : PDI_NONE;
}

bool pdi_session_established(const struct pdi_node *node, uint32_t peer)
{
    return pdi_peer_look(&node->peers[peer].word).state == PDI_PEER_ESTABLISHED;
}

uint32_t pdi_session_find_id(const struct pdi_node *node, const uint8_t *id, size_t size)
{
    for (uint32_t peer = 0; size != 0 && peer < node->peers_used; peer++) {
        const struct pdi_node_peer *who = &node->peers[peer];
        if (who->id_size == size && memcmp(who->id, id, size) == 0 &&
            pdi_session_established(node, peer)) {
            return peer;
        }
    }
    return PDI_NONE;
}

/* A free slot: the one that this id had before, so that a returning peer is known again; else one that nothing has used, while
 * few ended sessions are remembered; else that of the session that was heard longest ago. A slot keeps the memory that its
 * window took, so a node that always took a new one would grow with each peer that ever came. */
static uint32_t find_slot(const struct pdi_node *node, const uint8_t *id, size_t size)
{
    uint32_t unused = PDI_NONE, oldest = PDI_NONE, remembered = 0;
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        const struct pdi_node_peer *who = &node->peers[peer];
        if (pdi_peer_look(&who->word).state != PDI_PEER_UNKNOWN) {
            continue;
        }
        if (size != 0 && who->id_size == size && memcmp(who->id, id, size) == 0) {
            return peer;
        }
        if (who->id_size == 0) {
            unused = unused == PDI_NONE ? peer : unused;
            continue;
        }
        remembered++;
        oldest = oldest == PDI_NONE || who->heard < node->peers[oldest].heard ? peer : oldest;
    }
    if (unused != PDI_NONE) {
        return unused;
    }
    bool fresh = node->peers_used < node->config.peers_max && remembered < PDI_REMEMBERED_MAX;
    return fresh ? node->peers_used : oldest;
}

void pdi_session_move_to(struct pdi_node *node, uint32_t peer, const pyddsi_endpoint *endpoint)
{
    struct pdi_node_peer *who = &node->peers[peer];
    if (pdi_session_find(node, &who->endpoint) == peer) {
        (void)pdi_map_remove(&node->endpoints, pdi_endpoint_key(node->hash_seed, &who->endpoint));
    }
    who->endpoint = *endpoint;
    pdi_node_unicast(node, peer)->to = *endpoint;
    pdi_path_begin(node, peer);
    (void)pdi_map_put(&node->endpoints, pdi_endpoint_key(node->hash_seed, endpoint), peer);
}

/* ---- the window of a peer ---- */

/* Where the numbers of a session begin: behind those of all former ones with this address. So what is late by a session
 * comes as a repetition, and is not taken for something new. Of zhe we know only that it takes 0. */
static void first_numbers(const struct pdi_node *node, uint32_t peer, uint64_t *reliable,
                          uint64_t *best)
{
    const struct pdi_node_peer *who = &node->peers[peer];
    *reliable = *best = 0;
    for (uint32_t i = 0; who->session != 0 && i < node->peers_used; i++) {
        const struct pdi_conduit *one = pdi_node_unicast(node, i);
        if (pdi_endpoint_equal(&node->peers[i].endpoint, &who->endpoint)) {
            *reliable = one->window.next > *reliable ? one->window.next : *reliable;
            *best = one->best > *best ? one->best : *best;
        }
    }
}

/* On the wire every unicast conduit comes after those of the groups. Only a client of zhe, which hears no group and may
 * have one conduit at all (another one is the end of it), gets the first. */
static uint16_t unicast_id(const struct pdi_node *node, const struct pdi_node_peer *who)
{
    bool narrow = node->config.role == PYDDSI_BROKER && who->lone && who->session == 0;
    return narrow ? 0 : node->unicast_id;
}

/* zhe closes a connection by which a larger packet comes, and ends a session for a datagram. */
static uint32_t packet_max(const struct pdi_node *node, const struct pdi_node_peer *who)
{
    uint32_t zhe = pdi_endpoint_is_stream(&who->endpoint) ? PDI_STREAM_PACKET_ZHE : PDI_PACKET_ZHE;
    uint32_t most = node->config.packet_max;
    return who->session == 0 && zhe < most ? zhe : most;
}

static bool open_window(struct pdi_node *node, uint32_t peer)
{
    struct pdi_conduit *conduit = pdi_node_unicast(node, peer);
    const struct pdi_node_peer *who = &node->peers[peer];
    uint32_t bytes = node->config.unicast_bytes, samples = node->config.unicast_samples;
    for (uint32_t i = 0; i < PDI_OVERRIDES_MAX; i++) {
        const struct pdi_override *other = &node->overrides[i];
        if (other->id_size != 0 && other->id_size == who->id_size &&
            memcmp(other->id, who->id, who->id_size) == 0) {
            bytes = other->bytes;
            samples = other->samples;
        }
    }
    uint32_t entries = pdi_memory_entries(node, samples);
    struct pdi_carve carve = {0};
    (void)pdi_carve(&carve, bytes, 1);
    (void)pdi_carve(&carve, entries, sizeof(struct pdi_entry));
    (void)pdi_carve(&carve, (size_t)entries * 2, sizeof(struct pdi_region));
    uint32_t pages = (uint32_t)((carve.size + PDI_PAGE - 1) / PDI_PAGE);
    uint32_t block = pdi_pages_get(&node->window_pages, pages);
    if (block == PDI_PAGES_NONE) {
        return false;
    }
    carve = (struct pdi_carve){.memory = node->window_memory + (size_t)block * PDI_PAGE};
    uint8_t *memory = pdi_carve(&carve, bytes, 1);
    struct pdi_entry *entry = pdi_carve(&carve, entries, sizeof *entry);
    struct pdi_region *regions = pdi_carve(&carve, (size_t)entries * 2, sizeof *regions);
    uint64_t first, best;
    first_numbers(node, peer, &first, &best);
    uint8_t *draft = conduit->draft, *sealed = conduit->sealed;
    *conduit = (struct pdi_conduit){
        .to = who->endpoint,
        .number = conduit->number,
        .peer = peer,
        .id = unicast_id(node, who),
        .open = 1,
        .features = who->features,
        .packet_max = packet_max(node, who),
        .flush_at = PDI_TIME_NEVER,
        .synch_wait = node->config.synch_ms * PDI_TIME_MS,
        .sent = first,
        .best = best,
        .draft = draft,
        .sealed = sealed,
        .block = block,
        .block_pages = pages,
    };
    int status =
        pdi_window_init(&conduit->window, memory, bytes, entry, entries, regions, entries * 2);
    pdi_window_start(&conduit->window, first);
    pdi_lead_unicast(node, conduit);
    node->narrow += conduit->packet_max != node->config.packet_max;
    pdi_path_begin(node, peer);
    return status == PYDDSI_OK;
}

static void close_window(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    struct pdi_conduit *conduit = pdi_node_unicast(node, peer);
    uint64_t unsent = conduit->draft_samples + conduit->draft_more + conduit->sealed_samples +
                      conduit->sealed_more + (conduit->big_left != 0);
    if (unsent != 0) {
        pdi_drop(node, PYDDSI_AT_PACKET, PYDDSI_BY_PEER_LOST, 0, 0, unsent, now);
    }
    if (conduit->big_left != 0) {
        pdi_window_abandon(&node->scratch, &conduit->big_loan);
        conduit->big_left = 0;
    }
    pdi_skip_end(node, conduit, now);
    pdi_pages_put(&node->window_pages, conduit->block, conduit->block_pages);
    node->narrow -= conduit->open && conduit->packet_max != node->config.packet_max;
    conduit->open = 0;
    conduit->draft_size = conduit->draft_samples = conduit->sealed_size = conduit->sealed_samples =
        0;
    conduit->draft_more = conduit->sealed_more = 0;
    pdi_timer_set(node, pdi_timer_conduit(node, conduit->number), PDI_TIME_NEVER);
    for (uint32_t i = 0; node->moves_used != 0 && i < PDI_MOVES_MAX; i++) {
        if (node->moves[i].used && node->moves[i].on == conduit->number) {
            node->moves[i].used = 0;
            node->moves_used--;
        }
    }
}

/* ---- beginning ---- */

void pdi_session_say(struct pdi_node *node, enum pdi_reply_kind kind, uint32_t peer)
{
    pdi_hello_reply(
        node,
        &(struct pdi_reply){.kind = (uint8_t)kind, .peer = peer, .to = node->peers[peer].endpoint});
}

static void tell_end(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    pyddsi_event *event = pdi_event_push(node, PYDDSI_DISCONNECTED, now);
    pdi_event_peer(node, event, peer);
    event->reason = node->peers[peer].reason;
}

/* Whether a peer of this id had a session before; the slot that remembers it forgets it, as another one will. Where that
 * session is over and somebody still works for it, its end is told now, before the new one. */
static bool was_here(struct pdi_node *node, const uint8_t *id, size_t size)
{
    bool known = false;
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        struct pdi_node_peer *who = &node->peers[peer];
        if (who->id_size == size && memcmp(who->id, id, size) == 0 &&
            !pdi_session_established(node, peer)) {
            known = known || who->known;
            if (who->known && pdi_peer_look(&who->word).state == PDI_PEER_EXPIRED) {
                tell_end(node, peer, node->now);
            }
            who->known = who->id_size = 0;
        }
    }
    return known;
}

/* What the chore tells of the peer; the word of the slot must be held by us (UNKNOWN or OPENING). */
void pdi_session_adopt(struct pdi_node *node, uint32_t peer, const struct pdi_chore *chore)
{
    struct pdi_node_peer *who = &node->peers[peer];
    who->reconnects = was_here(node, chore->id, chore->id_size);
    who->id_size = chore->id_size;
    memcpy(who->id, chore->id, chore->id_size);
    pdi_lead_adopt(node, who, chore);
    for (uint32_t i = 0; who->incarnation != chore->incarnation && i < node->config.conduits_in;
         i++) {
        pdi_node_order(node, peer, i)->best_seen = 0; /* what came here was of somebody else */
    }
    who->incarnation = chore->incarnation;
    who->session = chore->session;
    who->secret = chore->secret;
    who->commit_mode = chore->commit_mode;
    who->token_size = chore->token_size;
    memcpy(who->token, chore->token, sizeof who->token);
    who->lease_ms = (uint32_t)(chore->lease < INT32_MAX / 100 ? chore->lease * 100 : INT32_MAX);
    if (chore->kind == PDI_CHORE_OPEN) {
        who->groups = chore->groups;
        who->group = chore->group;
    }
    who->lone = chore->lone;
}

/* From UNKNOWN or OPENING to ESTABLISHED, and everything that begins with it. */
bool pdi_session_establish(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    uint32_t deadline = pdi_peer_deadline(pdi_node_ms(now), who->lease_ms);
    bool opening = pdi_peer_look(&who->word).state != PDI_PEER_UNKNOWN;
    if (!open_window(node, peer)) {
        return false;
    }
    pdi_receive_fresh(node, peer);
    pdi_rtt_init(&who->rtt, node->config.rtt_us * PDI_TIME_US);
    who->since = who->heard = now;
    who->ping = 0;
    who->ping_next = now;
    who->rests = 0;
    who->reason = 0;
    who->farewell = 0;
    who->slots = 0;
    who->unsure = 0;
    who->results = 0;
    who->probes = 0;
    who->asks = who->gone = 0;
    who->elsewhere.kind = 0;
    who->astray = 0;
    who->again_at = 0;
    node->opening -= opening;
    int status =
        opening ? pdi_peer_establish(&who->word, deadline) : pdi_peer_accept(&who->word, deadline);
    if (status != PYDDSI_OK) {
        return false;
    }
    node->established++;
    node->member_changes++;
    pdi_registry_join(node->registry, peer, (pyddsi_bytes){who->id, who->id_size}, who->features,
                      who->commit_mode);
    for (uint32_t i = 0; i < node->config.multicasts; i++) {
        if ((who->groups >> i & 1) != 0) {
            pdi_member_join(node, &node->out[i], peer, now);
        }
    }
    pdi_member_join(node, pdi_node_unicast(node, peer), peer, now);
    pdi_plan_features(node);
    pyddsi_event *event =
        pdi_event_push(node, who->reconnects ? PYDDSI_RECONNECTED : PYDDSI_CONNECTED, now);
    pdi_event_peer(node, event, peer);
    who->known = node->kick = 1; /* it is to hear what is declared here */
    pdi_refusal_over(node, &who->endpoint);
    pdi_gossip_joined(node, peer);
    pdi_session_timer(node, peer, now);
    pdi_timer_set(node, PDI_TIMER_KEEPALIVE, now);
    return true;
}

/* A slot for a peer that is not there yet. */
uint32_t pdi_session_claim(struct pdi_node *node, const struct pdi_chore *chore)
{
    uint32_t peer = find_slot(node, chore->id, chore->id_size);
    if (peer == PDI_NONE || node->closing) {
        return PDI_NONE;
    }
    if (peer == node->peers_used) {
        pdi_memory_peer(node);
    }
    struct pdi_node_peer *who = &node->peers[peer];
    if (chore->id_size == 0 || who->id_size != chore->id_size ||
        memcmp(who->id, chore->id, chore->id_size) != 0) {
        who->known = 0;
        who->id_size = 0;
    }
    if (!pdi_endpoint_equal(&who->endpoint, &chore->from)) {
        who->incarnation = 0;
    }
    pdi_lead_claim(node, who, &chore->from);
    who->session = who->secret = 0;
    who->mine = ++node->sessions;
    who->proof = pdi_sip(node->secret, (uint64_t[]){node->config.incarnation, who->mine}, 2);
    pdi_session_move_to(node, peer, &chore->from);
    return peer;
}

/* ---- ending ---- */

void pdi_session_end(struct pdi_node *node, uint32_t peer, uint32_t reason, unsigned farewell,
                     pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    (void)now;
    if (pdi_peer_end(&who->word) == PYDDSI_OK) {
        who->reason = reason;
        who->farewell = (uint16_t)farewell;
        pdi_bitset_set(node->ended, peer);
    }
}

/* Nobody is at this address any more. */
static void forget_address(struct pdi_node *node, uint32_t peer)
{
    struct pdi_node_peer *who = &node->peers[peer];
    if (pdi_session_find(node, &who->endpoint) == peer) {
        (void)pdi_map_remove(&node->endpoints, pdi_endpoint_key(node->hash_seed, &who->endpoint));
    }
    pdi_timer_set(node, pdi_timer_peer(peer), PDI_TIME_NEVER);
}

/* A slot that was claimed, and perhaps opening, and came to nothing. */
void pdi_session_undo(struct pdi_node *node, uint32_t peer)
{
    node->opening -= pdi_peer_give_up(&node->peers[peer].word) == PYDDSI_OK;
    forget_address(node, peer);
}

/* Cleans up an EXPIRED peer that nobody works for. Everything of it is gone afterwards. */
bool pdi_session_reap(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    struct pdi_peer_view view = pdi_peer_look(&who->word);
    if (view.state != PDI_PEER_EXPIRED || view.busy != 0) {
        return false;
    }
    enum pyddsi_reason reason =
        who->reason == PYDDSI_END_LOCAL ? PYDDSI_BY_CLOSE : PYDDSI_BY_PEER_LOST;
    for (uint32_t i = 0; i < node->config.multicasts; i++) {
        pdi_member_leave(node, &node->out[i], peer, reason, now);
    }
    pdi_member_leave(node, pdi_node_unicast(node, peer), peer, reason, now);
    close_window(node, peer, now);
    pdi_receive_forget(node, peer, now);
    if (who->reason < PYDDSI_END_LEASE || who->reason == PYDDSI_END_RESTART ||
        who->reason == PYDDSI_END_LINK) {
        pdi_registry_broke(node->registry, peer);
    }
    pdi_registry_leave(node->registry, peer);
    pdi_aside_forget(node, peer);
    pdi_history_forget_peer(node, peer, now);
    if (who->farewell != 0) {
        pdi_hello_reply(node, &(struct pdi_reply){.kind = PDI_REPLY_CLOSE,
                                                  .reason = (uint8_t)(who->farewell - 1),
                                                  .to = who->endpoint});
    }
    if (who->known) { /* else it has been told (was_here) */
        tell_end(node, peer, now);
    }
    forget_address(node, peer);
    pdi_bitset_clear(node->ended, peer);
    (void)pdi_peer_reset(&who->word);
    node->established--;
    node->member_changes++;
    node->kick = 1;
    pdi_plan_features(node);
    pdi_declare_changes(node, now); /* who was matched is told before the next sample */
    return true;
}

/* Ends a session that turns out to be another one. False: somebody still works for it; the other side will ask again. */
bool pdi_session_replace(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    pdi_session_end(node, peer, PYDDSI_END_RESTART, 0, now);
    return pdi_session_reap(node, peer, now);
}
