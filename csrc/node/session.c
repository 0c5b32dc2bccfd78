/* session.c - who is there: finding peers, opening and ending sessions, keeping them alive.
 *
 *              HELLO                    ACCEPT, OPEN
 *     UNKNOWN ───────► OPENING 1 .. k ───────────────► ESTABLISHED ───────► EXPIRED ───────► UNKNOWN
 *        │                 └─ k unanswered ─► UNKNOWN       ▲   lease, CLOSE,   idle: everything
 *        └──────────────────── OPEN ────────────────────────┘   bad bytes       of it is cleaned up
 *
 * Only housekeeping makes and cleans up: the receive side says what it heard in chores, and marks a session as EXPIRED, no
 * more; so nothing is torn down under its feet, nor under an application that holds a loan (the BUSY count).
 *
 * The same id again. A node that restarts opens with a higher incarnation, or at least another session number: then the
 * old session is ended first, and the application hears of both. The same session from another address is a move.
 * A peer that lost the session while we did not (it heard nothing from us for a lease) answers our SCOUT with a HELLO;
 * we OPEN again, and by the session number in its ACCEPT both sides find out and begin anew.
 *
 * Staying alive. Whatever goes to all serves as a sign of life (SCOUT, data on a conduit where everybody is a member);
 * a KEEPALIVE goes only when there was nothing of the kind for a quarter of our lease.
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

static uint32_t find_id(const struct pdi_node *node, const uint8_t *id, size_t size)
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

/* A free slot, if possible the one that this id had before. */
static uint32_t find_slot(const struct pdi_node *node, const uint8_t *id, size_t size)
{
    uint32_t found = PDI_NONE;
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        const struct pdi_node_peer *who = &node->peers[peer];
        if (pdi_peer_look(&who->word).state != PDI_PEER_UNKNOWN) {
            continue;
        }
        if (size != 0 && who->id_size == size && memcmp(who->id, id, size) == 0) {
            return peer;
        }
        /* rather one that nobody had, so that a returning peer is known again */
        found = found == PDI_NONE || (node->peers[found].id_size != 0 && who->id_size == 0) ? peer
                                                                                            : found;
    }
    bool fresh = node->peers_used < node->config.peers_max;
    return fresh && (found == PDI_NONE || node->peers[found].id_size != 0) ? node->peers_used
                                                                           : found;
}

static void set_endpoint(struct pdi_node *node, uint32_t peer, const pyddsi_endpoint *endpoint)
{
    struct pdi_node_peer *who = &node->peers[peer];
    if (pdi_session_find(node, &who->endpoint) == peer) {
        (void)pdi_map_remove(&node->endpoints, pdi_endpoint_key(node->hash_seed, &who->endpoint));
    }
    who->endpoint = *endpoint;
    pdi_node_unicast(node, peer)->to = *endpoint;
    (void)pdi_map_put(&node->endpoints, pdi_endpoint_key(node->hash_seed, endpoint), peer);
}

/* ---- the window of a peer ---- */

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
    uint8_t *draft = conduit->draft, *sealed = conduit->sealed;
    *conduit = (struct pdi_conduit){
        .to = who->endpoint,
        .number = conduit->number,
        .peer = peer,
        .id = node->unicast_id,
        .open = 1,
        .features = who->features,
        .flush_at = PDI_TIME_NEVER,
        .synch_wait = node->config.synch_ms * PDI_TIME_MS,
        .draft = draft,
        .sealed = sealed,
        .block = block,
        .block_pages = pages,
    };
    return pdi_window_init(&conduit->window, memory, bytes, entry, entries, regions, entries * 2) ==
           PYDDSI_OK;
}

static void close_window(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    struct pdi_conduit *conduit = pdi_node_unicast(node, peer);
    uint32_t unsent = conduit->draft_samples + conduit->sealed_samples + (conduit->big_left != 0);
    if (unsent != 0) {
        pdi_drop(node, PYDDSI_AT_PACKET, PYDDSI_BY_PEER_LOST, 0, 0, unsent, now);
    }
    if (conduit->big_left != 0) {
        pdi_window_abandon(&node->scratch, &conduit->big_loan);
        conduit->big_left = 0;
    }
    pdi_pages_put(&node->window_pages, conduit->block, conduit->block_pages);
    conduit->open = 0;
    conduit->draft_size = conduit->draft_samples = conduit->sealed_size = conduit->sealed_samples =
        0;
    pdi_timer_set(node, pdi_timer_conduit(node, conduit->number), PDI_TIME_NEVER);
    for (uint32_t i = 0; node->moves_used != 0 && i < PDI_MOVES_MAX; i++) {
        if (node->moves[i].used && node->moves[i].on == conduit->number) {
            node->moves[i].used = 0;
            node->moves_used--;
        }
    }
}

/* ---- beginning ---- */

static void say(struct pdi_node *node, enum pdi_reply_kind kind, uint32_t peer)
{
    pdi_hello_reply(
        node,
        &(struct pdi_reply){.kind = (uint8_t)kind, .peer = peer, .to = node->peers[peer].endpoint});
}

/* What the chore tells of the peer; the word of the slot must be held by us (UNKNOWN or OPENING). */
static void adopt(struct pdi_node *node, uint32_t peer, const struct pdi_chore *chore)
{
    struct pdi_node_peer *who = &node->peers[peer];
    who->reconnects = who->id_size == chore->id_size &&
                      memcmp(who->id, chore->id, chore->id_size) == 0 && who->known;
    who->id_size = chore->id_size;
    memcpy(who->id, chore->id, chore->id_size);
    who->features = chore->features & node->config.features;
    who->incarnation = chore->incarnation;
    who->session = chore->session;
    who->commit_mode = chore->commit_mode;
    who->lease_ms = (uint32_t)(chore->lease < INT32_MAX / 100 ? chore->lease * 100 : INT32_MAX);
    if (chore->kind == PDI_CHORE_OPEN) {
        who->groups = chore->groups;
    }
}

/* From UNKNOWN or OPENING to ESTABLISHED, and everything that begins with it. */
static bool establish(struct pdi_node *node, uint32_t peer, pdi_time now)
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
    who->reason = 0;
    who->farewell = 0;
    who->slots = 0;
    who->unsure = 0;
    who->probes = 0;
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
            pdi_reliable_join(node, &node->out[i], peer, now);
        }
    }
    pdi_reliable_join(node, pdi_node_unicast(node, peer), peer, now);
    pdi_plan_features(node);
    pyddsi_event *event =
        pdi_event_push(node, who->reconnects ? PYDDSI_RECONNECTED : PYDDSI_CONNECTED, now);
    pdi_event_peer(node, event, peer);
    who->known = 1;
    node->kick = 1; /* it is to hear what is declared here */
    pdi_session_timer(node, peer, now);
    pdi_timer_set(node, PDI_TIMER_KEEPALIVE, now);
    return true;
}

/* A slot for a peer that is not there yet. */
static uint32_t claim(struct pdi_node *node, const struct pdi_chore *chore)
{
    uint32_t peer = find_slot(node, chore->id, chore->id_size);
    if (peer == PDI_NONE || node->closing) {
        return PDI_NONE;
    }
    if (peer == node->peers_used) {
        node->peers_used++;
    }
    struct pdi_node_peer *who = &node->peers[peer];
    if (chore->id_size == 0 || who->id_size != chore->id_size ||
        memcmp(who->id, chore->id, chore->id_size) != 0) {
        who->known = 0;
        who->id_size = 0;
    }
    who->session = 0;
    who->mine = ++node->sessions;
    set_endpoint(node, peer, &chore->from);
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

static void forget_slot(struct pdi_node *node, uint32_t peer)
{
    struct pdi_node_peer *who = &node->peers[peer];
    if (pdi_session_find(node, &who->endpoint) == peer) {
        (void)pdi_map_remove(&node->endpoints, pdi_endpoint_key(node->hash_seed, &who->endpoint));
    }
    pdi_timer_set(node, pdi_timer_peer(peer), PDI_TIME_NEVER);
}

/* Cleans up an EXPIRED peer that nobody works for. Everything of it is gone afterwards. */
static bool reap(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    struct pdi_peer_view view = pdi_peer_look(&who->word);
    if (view.state != PDI_PEER_EXPIRED || view.busy != 0) {
        return false;
    }
    enum pyddsi_reason reason =
        who->reason == PYDDSI_END_LOCAL ? PYDDSI_BY_CLOSE : PYDDSI_BY_PEER_LOST;
    for (uint32_t i = 0; i < node->config.multicasts; i++) {
        pdi_reliable_leave(node, &node->out[i], peer, reason, now);
    }
    pdi_reliable_leave(node, pdi_node_unicast(node, peer), peer, reason, now);
    close_window(node, peer, now);
    pdi_receive_forget(node, peer, now);
    pdi_registry_leave(node->registry, peer);
    if (who->farewell != 0) {
        pdi_hello_reply(node, &(struct pdi_reply){.kind = PDI_REPLY_CLOSE,
                                                  .reason = (uint8_t)(who->farewell - 1),
                                                  .to = who->endpoint});
    }
    pyddsi_event *event = pdi_event_push(node, PYDDSI_DISCONNECTED, now);
    pdi_event_peer(node, event, peer);
    event->reason = who->reason;
    forget_slot(node, peer);
    pdi_bitset_clear(node->ended, peer);
    (void)pdi_peer_reset(&who->word);
    node->established--;
    node->member_changes++;
    node->kick = 1;
    pdi_plan_features(node);
    return true;
}

/* Ends a session that turns out to be another one. False: somebody still works for it; the other side will ask again. */
static bool replace(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    pdi_session_end(node, peer, PYDDSI_END_RESTART, 0, now);
    return reap(node, peer, now);
}

/* ---- chores ---- */

static void start_opening(struct pdi_node *node, const struct pdi_chore *chore, pdi_time now)
{
    uint32_t limit = node->config.peers_max / 2 + 1;
    uint32_t peer = node->opening < limit ? claim(node, chore) : PDI_NONE;
    if (peer == PDI_NONE || pdi_peer_open(&node->peers[peer].word) != PYDDSI_OK) {
        pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_LIMIT, 0, 0, 1, now);
        return;
    }
    node->opening++;
    node->peers[peer].groups = chore->groups;
    node->peers[peer].open_at = pdi_time_add(now, node->config.open_ms * PDI_TIME_MS);
    pdi_timer_set(node, pdi_timer_peer(peer), node->peers[peer].open_at);
    say(node, PDI_REPLY_OPEN, peer);
}

static void hello(struct pdi_node *node, const struct pdi_chore *chore, pdi_time now)
{
    uint32_t peer = pdi_session_find(node, &chore->from);
    if (node->config.role == PYDDSI_CLIENT && node->established + node->opening != 0 &&
        peer == PDI_NONE) {
        return; /* one broker is enough */
    }
    if (peer == PDI_NONE) {
        start_opening(node, chore, now);
        return;
    }
    struct pdi_node_peer *who = &node->peers[peer];
    if (pdi_peer_look(&who->word).state != PDI_PEER_ESTABLISHED) {
        return;
    }
    if (who->session != 0) {
        who->probes =
            (uint8_t)(node->config.opens_max < UINT8_MAX ? node->config.opens_max : UINT8_MAX);
        who->open_at = now; /* its ACCEPT will tell whether it is still the same session */
        pdi_session_timer(node, peer, now);
    } else if (now - who->since > 2 * PDI_TIME_MS * node->config.open_ms &&
               replace(node, peer, now)) {
        start_opening(node, chore, now); /* zhe says HELLO only to those it does not know */
    }
}

enum age { OLDER, SAME, NEWER };

/* How the session that an OPEN or ACCEPT speaks of compares with the one we know. A node's session numbers grow, so what
 * was late on its way cannot end a newer session. From zhe, who has no numbers, everything is the same session. */
static enum age age_of(const struct pdi_chore *chore, const struct pdi_node_peer *who)
{
    if (chore->session == who->session && chore->incarnation == who->incarnation) {
        return SAME;
    }
    if (chore->incarnation == 0 || who->session == 0 || chore->session == 0) {
        return NEWER; /* nothing says which; the one that speaks now is there */
    }
    return chore->session > who->session ? NEWER : OLDER;
}

/* The peer with this id is known at another address, in the very same session: it goes on here. */
static void move(struct pdi_node *node, uint32_t peer, const struct pdi_chore *chore, pdi_time now)
{
    set_endpoint(node, peer, &chore->from);
    struct pdi_node_peer *who = &node->peers[peer];
    (void)pdi_peer_renew(&who->word, pdi_peer_deadline(pdi_node_ms(now), who->lease_ms));
    pyddsi_event *event = pdi_event_push(node, PYDDSI_RECONNECTED, now);
    pdi_event_peer(node, event, peer);
}

static void refuse(struct pdi_node *node, const struct pdi_chore *chore, uint8_t reason)
{
    pdi_hello_reply(
        node, &(struct pdi_reply){.kind = PDI_REPLY_CLOSE, .reason = reason, .to = chore->from});
}

static void open_chore(struct pdi_node *node, const struct pdi_chore *chore, pdi_time now)
{
    uint32_t peer = pdi_session_find(node, &chore->from);
    if (chore->refuse != 0) {
        pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_UNSUPPORTED, 0, 0, 1, now);
        refuse(node, chore, (uint8_t)(chore->refuse - 1));
        return;
    }
    if (peer != PDI_NONE && pdi_session_established(node, peer)) {
        const struct pdi_node_peer *who = &node->peers[peer];
        bool same_id =
            who->id_size == chore->id_size && memcmp(who->id, chore->id, chore->id_size) == 0;
        enum age age = same_id ? age_of(chore, who) : NEWER;
        if (age == SAME) {
            say(node, PDI_REPLY_ACCEPT, peer);
        }
        if (age != NEWER || !replace(node, peer, now)) {
            return;
        }
        peer = PDI_NONE;
    }
    uint32_t elsewhere = find_id(node, chore->id, chore->id_size);
    if (elsewhere != PDI_NONE) {
        enum age age = age_of(chore, &node->peers[elsewhere]);
        if (age == SAME && chore->session != 0 && peer == PDI_NONE) {
            move(node, elsewhere, chore, now);
            say(node, PDI_REPLY_ACCEPT, elsewhere);
            return;
        }
        if (age == OLDER || !replace(node, elsewhere, now)) {
            return; /* zhe from a new address has restarted, as far as anyone can tell */
        }
    }
    peer = peer == PDI_NONE ? claim(node, chore) : peer;
    if (peer == PDI_NONE) {
        pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_LIMIT, 0, 0, 1, now);
        refuse(node, chore, 3);
        return;
    }
    adopt(node, peer, chore);
    if (!establish(node, peer, now)) {
        forget_slot(node, peer);
        refuse(node, chore, 3);
        return;
    }
    say(node, PDI_REPLY_ACCEPT, peer);
}

static void accept_chore(struct pdi_node *node, const struct pdi_chore *chore, pdi_time now)
{
    uint32_t peer = pdi_session_find(node, &chore->from);
    if (peer == PDI_NONE) {
        return;
    }
    struct pdi_node_peer *who = &node->peers[peer];
    uint8_t state = pdi_peer_look(&who->word).state;
    who->probes = 0;
    if (state == PDI_PEER_ESTABLISHED && chore->session != 0 && age_of(chore, who) == NEWER) {
        struct pdi_chore again = *chore;
        again.groups = who->groups;
        if (replace(node, peer, now)) {
            start_opening(node, &again, now);
        }
        return;
    }
    if (state < PDI_PEER_OPENING || state > PDI_PEER_OPENING_LAST) {
        return;
    }
    uint32_t other = find_id(node, chore->id, chore->id_size);
    if (other != PDI_NONE && other != peer &&
        (age_of(chore, &node->peers[other]) == OLDER || !replace(node, other, now))) {
        return; /* the same peer, where it was before, or is now */
    }
    adopt(node, peer, chore);
    if (!establish(node, peer, now)) {
        pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_LIMIT, 0, 0, 1, now);
        refuse(node, chore, 3);
        (void)pdi_peer_give_up(&who->word);
        forget_slot(node, peer);
    }
}

/* A KEEPALIVE from nobody we know. If it is one we know, it has moved. If not, it may believe in a session that we have
 * lost, as after our restart: a CLOSE tells it, and means nothing to one who only keeps alive what it has with others. */
static void stranger(struct pdi_node *node, const struct pdi_chore *chore, pdi_time now)
{
    uint32_t known = find_id(node, chore->id, chore->id_size);
    if (pdi_session_find(node, &chore->from) != PDI_NONE) {
        return; /* known meanwhile, or about to be */
    }
    if (known != PDI_NONE && node->peers[known].session == 0) {
        move(node, known, chore, now);
        return;
    }
    if (known != PDI_NONE) {
        /* Anybody can say an id. Who has the session answers a HELLO by an OPEN with its number. */
        pdi_hello_reply(node, &(struct pdi_reply){.kind = PDI_REPLY_HELLO, .to = chore->from});
        return;
    }
    pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_UNKNOWN_PEER, 0, 0, 1, now);
    refuse(node, chore, 0);
}

void pdi_session_tick(struct pdi_node *node, pdi_time now)
{
    for (uint32_t peer = pdi_bitset_find(node->ended, node->peers_used, 0); peer < node->peers_used;
         peer = pdi_bitset_find(node->ended, node->peers_used, peer + 1)) {
        (void)reap(node, peer, now);
    }
    while (node->chore_tail !=
           node->chore_head) { /* at most PDI_CHORES_MAX; they make no new ones */
        const struct pdi_chore *chore = &node->chores[node->chore_tail++ % PDI_CHORES_MAX];
        if (node->closing) {
            continue;
        }
        switch (chore->kind) {
        case PDI_CHORE_HELLO:
            hello(node, chore, now);
            break;
        case PDI_CHORE_OPEN:
            open_chore(node, chore, now);
            break;
        case PDI_CHORE_ACCEPT:
            accept_chore(node, chore, now);
            break;
        default:
            stranger(node, chore, now);
        }
    }
}

/* ---- timers ---- */

static void ping(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    if (who->ping_next > now) {
        return;
    }
    who->ping = (uint16_t)(who->ping_at / PDI_TIME_US + now / PDI_TIME_US) | 1U;
    who->ping_at = now;
    who->ping_next = pdi_time_add(now, PDI_PING_MS * PDI_TIME_MS);
    node->stats.pings_out++;
    pdi_hello_reply(
        node, &(struct pdi_reply){.kind = PDI_REPLY_PING, .hash = who->ping, .to = who->endpoint});
}

void pdi_session_timer(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    struct pdi_peer_view view = pdi_peer_look(&who->word);
    pdi_time due = PDI_TIME_NEVER;
    if (view.state >= PDI_PEER_OPENING && view.state <= PDI_PEER_OPENING_LAST) {
        if (who->open_at > now) {
            due = who->open_at;
        } else if (pdi_peer_retry(&who->word, node->config.opens_max) == PYDDSI_OK) {
            say(node, PDI_REPLY_OPEN, peer);
            due = who->open_at = pdi_time_add(now, node->config.open_ms * PDI_TIME_MS);
        } else if (pdi_peer_give_up(&who->word) == PYDDSI_OK) {
            node->opening--;
            forget_slot(node, peer);
        }
    } else if (view.state == PDI_PEER_ESTABLISHED) {
        if (view.deadline_ms != 0 && pdi_peer_expire(&who->word, pdi_node_ms(now)) == PYDDSI_OK) {
            who->reason = PYDDSI_END_LEASE;
            who->farewell = 0 + 1;
            pdi_bitset_set(node->ended, peer);
            (void)reap(node, peer, now);
            return;
        }
        ping(node, peer, now);
        due = who->ping_next;
        if (who->unsure != 0 && who->unsure_at <= now) {
            pdi_time slowest = PDI_SYNCH_SLOWEST_MS * PDI_TIME_MS;
            who->synchs |= who->unsure;
            pdi_bitset_set(node->talk, peer);
            who->unsure_wait = who->unsure_wait * 2 < slowest ? who->unsure_wait * 2 + 1 : slowest;
            who->unsure_at = pdi_time_add(now, who->unsure_wait);
        }
        due = who->unsure != 0 && who->unsure_at < due ? who->unsure_at : due;
        if (who->probes != 0 && who->open_at <= now) {
            who->probes--;
            who->open_at = pdi_time_add(now, node->config.open_ms * PDI_TIME_MS);
            say(node, PDI_REPLY_OPEN, peer);
        }
        due = who->probes != 0 && who->open_at < due ? who->open_at : due;
        if (view.deadline_ms != 0) {
            uint32_t left = view.deadline_ms - pdi_node_ms(now);
            pdi_time lease =
                pdi_time_add(now - now % PDI_TIME_MS, ((uint64_t)left + 1) * PDI_TIME_MS);
            due = lease < due ? lease : due;
        }
    }
    pdi_timer_set(node, pdi_timer_peer(peer), due);
}

void pdi_session_scout(struct pdi_node *node, pdi_time now)
{
    bool looking = node->config.role != PYDDSI_CLIENT || node->established == 0;
    if (looking && node->config.scout_to.kind != 0 && !node->closing) {
        pdi_hello_reply(node,
                        &(struct pdi_reply){.kind = PDI_REPLY_SCOUT, .to = node->config.scout_to});
        node->stats.scouts_out++;
        node->told_all = now;
    }
    pdi_timer_set(node, PDI_TIMER_SCOUT, pdi_time_add(now, node->config.scout_ms * PDI_TIME_MS));
}

void pdi_session_keepalive(struct pdi_node *node, pdi_time now)
{
    pdi_time every = node->config.lease_ms * PDI_TIME_MS / 4;
    pdi_time due = PDI_TIME_NEVER;
    if (every != 0 && node->established != 0 && !node->closing) {
        if (now - node->told_all >= every) {
            struct pdi_reply reply = {.kind = PDI_REPLY_KEEPALIVE, .to = node->config.scout_to};
            node->told_all = now;
            node->stats.keepalives_out++;
            if (reply.to.kind != 0) {
                pdi_hello_reply(node, &reply);
            }
            for (uint32_t peer = 0; reply.to.kind == 0 && peer < node->peers_used; peer++) {
                if (pdi_session_established(node, peer)) {
                    say(node, PDI_REPLY_KEEPALIVE, peer);
                }
            }
        }
        due = node->told_all + every;
    }
    pdi_timer_set(node, PDI_TIMER_KEEPALIVE, due);
}
