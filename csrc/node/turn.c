/* turn.c - every message of a conduit in its turn.
 *
 * A message whose turn has come is handled at once. One that is early is kept where it lies: the slot is held, and the order
 * remembers the place. Handling can say "not now" (a reader's ring is full, a guard has no room, a move waits for the
 * other conduit): then the order is held at this message, nothing of the conduit behind it is delivered or
 * acknowledged, the sender's window fills, and its writer waits. That is how back-pressure reaches the right
 * writer and nobody else. Everything held is tried again when something has changed (kick). The file is long because whatever
 * comes in order passes here.
 */
#include "node/state.h"
#include "wire/encode.h"

/* Where a message lies, for the order to remember. */
static struct pdi_kept remember(const struct pdi_arrival *arrival, const pyddsi_message *message)
{
    return (struct pdi_kept){
        .slot = arrival->slot,
        .at = (uint16_t)message->at,
        .size = (uint16_t)message->size,
        .extra = message->space | (uint64_t)message->fragment << 16 | message->fragments << 32,
        .extra2 = message->first,
    };
}

/* Sees to it that a message lies in a slot: one in the driver's memory is copied there. False: no slot is free. */
static bool lay(struct pdi_node *node, struct pdi_arrival *arrival, const pyddsi_message *message,
                struct pdi_kept *kept)
{
    *kept = remember(arrival, message);
    if (arrival->slot != PDI_POOL_NONE) {
        pdi_pool_hold(&node->pool, arrival->slot);
        return true;
    }
    bool fits = node->packet != NULL && message->size <= node->config.packet_max;
    kept->slot = fits ? pdi_pool_get(&node->pool) : PDI_POOL_NONE;
    if (kept->slot == PDI_POOL_NONE) {
        return false;
    }
    memcpy(pdi_pool_data(&node->pool, kept->slot), node->packet + message->at, message->size);
    kept->at = 0;
    return true;
}

/* The message that was remembered. */
static void recall(struct pdi_node *node, const struct pdi_kept *kept, uint32_t peer,
                   uint32_t conduit, pyddsi_message *message)
{
    pyddsi_decoder decoder;
    const uint8_t *data = pdi_pool_data(&node->pool, kept->slot);
    pdi_lead_reading(node, &node->peers[peer]);
    pdi_decoder_init(&decoder, &node->reading, data, (size_t)kept->at + kept->size);
    decoder.at = kept->at;
    (void)pdi_decoder_next(&decoder, message); /* it was decoded before */
    message->conduit = conduit;
    message->space = kept->extra & 0xffff;
    message->fragment = kept->extra >> 16 & 1;
    message->fragments = kept->extra >> 32;
    message->first = kept->extra2;
}

static void drop_kept(struct pdi_node *node, uint32_t peer, uint32_t slot)
{
    node->peers[peer].slots -= --node->slot_kept[slot] == 0;
    pdi_pool_drop(&node->pool, slot);
}

/* ---- a message in its turn. OK; AGAIN: not now ---- */

static int handle(struct pdi_node *node, const struct pdi_arrival *arrival,
                  const pyddsi_message *message, pdi_time now)
{
    switch (message->kind) {
    case PYDDSI_DECLARE: /* a stranger may be none any more */
        node->audience_changes += !pdi_registry_told(node->registry, arrival->peer);
        if (pdi_registry_input(node->registry, arrival->peer, (uint8_t)message->space,
                               (message->flags & PYDDSI_C) != 0,
                               message->declarations) != PYDDSI_OK) {
            pdi_session_end(node, arrival->peer, 6, 6 + 1, now);
        }
        node->kick = 1;
        return PYDDSI_OK;
    case PYDDSI_PULL:
        node->held_for = PDI_HELD_CONDUIT;
        return pdi_shelf_pull(node, arrival->peer, message, now);
    default:
        return pdi_deliver(node, arrival, message, now);
    }
}

/* Whatever can be handled now at this order, from expected on. */
static void proceed(struct pdi_node *node, uint32_t peer, uint32_t conduit, pdi_time now)
{
    uint32_t index = peer * node->config.conduits_in + conduit;
    struct pdi_order *order = &node->orders[index];
    struct pdi_arrival arrival = {.peer = peer, .conduit = conduit, .reliable = 1};
    /* each round moves expected on, so there are no more than messages kept, and gaps between them */
    for (uint32_t round = 0; round <= 2 * order->capacity + 1; round++) {
        const struct pdi_kept *kept = pdi_order_ready(order);
        if (kept == NULL) {
            struct pdi_gap gap;
            order->held = 0;
            pdi_held_set(node, index, false);
            if (pdi_order_skip(order, &gap) != PYDDSI_OK) {
                break;
            }
            pyddsi_event *event = pdi_event_push(node, PYDDSI_GAP, now);
            pdi_event_peer(node, event, peer);
            event->conduit = conduit;
            event->first = (uint64_t)gap.first;
            event->last = (uint64_t)gap.last;
            pdi_drop(node, PYDDSI_AT_ORDER, PYDDSI_BY_GAP, 0, 0, gap.lost, now);
            uint64_t owner = (uint64_t)peer << 32 | conduit << 1 | 1;
            pdi_assembly_forget(node, UINT64_MAX, owner, PYDDSI_BY_INCOMPLETE, now);
            continue;
        }
        pyddsi_message message;
        uint32_t slot = kept->slot;
        recall(node, kept, peer, conduit, &message);
        arrival.slot = slot;
        arrival.number = order->expected;
        if (handle(node, &arrival, &message, now) == PYDDSI_AGAIN) {
            order->held = node->held_for;
            pdi_held_set(node, index, true);
            break;
        }
        if (!order->synched) {
            break; /* handling it ended the session */
        }
        pdi_order_advance(order);
        drop_kept(node, peer, slot);
    }
}

/* Sees to it that what is missing will be asked for in time. */
void pdi_turn_watch(struct pdi_node *node, uint32_t peer, uint32_t conduit)
{
    struct pdi_node_peer *who = &node->peers[peer];
    uint32_t index = peer * node->config.conduits_in + conduit;
    pdi_timer_set(node, pdi_timer_order(node, index),
                  pdi_order_due(&node->orders[index], pdi_rtt_wait(&who->rtt) / 2));
}

static void acknowledge(struct pdi_node *node, uint32_t peer, uint32_t conduit, bool answer)
{
    struct pdi_node_peer *who = &node->peers[peer];
    who->acks |= UINT64_C(1) << conduit;
    who->answers |= (uint64_t)answer << conduit;
    pdi_bitset_set(node->talk, peer);
}

/* Nobody has asked; but after a farewell nobody can, and what has come would be written down as lost there. */
void pdi_node_acknowledge(struct pdi_node *node)
{
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        for (uint32_t conduit = 0;
             pdi_session_established(node, peer) && conduit < node->config.conduits_in; conduit++) {
            acknowledge(node, peer, conduit, true);
        }
    }
}

uint32_t pdi_node_doubts(const struct pdi_node *node)
{
    uint32_t doubts = 0;
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        doubts += pdi_session_established(node, peer) && node->peers[peer].probes != 0;
    }
    return doubts;
}

/* An order went on: another one may have waited for it to. */
static void went_on(struct pdi_node *node)
{
    if (node->barriers_used != 0 && node->holding != 0) {
        node->kick = 1;
    }
}

void pdi_turn_reliable(struct pdi_node *node, struct pdi_arrival *arrival,
                       const pyddsi_message *message, pdi_time now)
{
    uint32_t peer = arrival->peer;
    struct pdi_order *order = pdi_node_order(node, peer, arrival->conduit);
    enum pdi_order_verdict verdict = pdi_order_input(order, message->sn, &arrival->number);
    bool s = (message->flags & PYDDSI_S) != 0;
    if (verdict == PDI_ORDER_NEXT) {
        if (!order->held && handle(node, arrival, message, now) == PYDDSI_OK) {
            if (!order->synched) {
                return;
            }
            pdi_order_advance(order);
            if (order->expected < order->marked ||
                order->expected < order->base) { /* something was kept, or given up */
                proceed(node, peer, arrival->conduit, now);
            }
            went_on(node);
            if (s) {
                acknowledge(node, peer, arrival->conduit, true);
            }
            return;
        }
        verdict = PDI_ORDER_EARLY; /* it has come, but must wait */
        if (arrival->slot != PDI_POOL_NONE || node->packet != NULL) {
            order->held = node->held_for;
            pdi_held_set(node, peer * node->config.conduits_in + arrival->conduit, true);
        }
    }
    if (verdict == PDI_ORDER_EARLY) {
        struct pdi_node_peer *who = &node->peers[peer];
        uint32_t share = node->config.slots_max / (node->established + 1) + 1;
        bool shared = arrival->slot != PDI_POOL_NONE && node->slot_kept[arrival->slot] != 0;
        struct pdi_kept kept;
        if ((who->slots < share || shared) && lay(node, arrival, message, &kept)) {
            who->slots += node->slot_kept[kept.slot]++ == 0;
            pdi_order_keep(order, arrival->number, &kept);
        } else {
            order->held = 0; /* nothing is kept there: it will be asked for again */
            pdi_drop(node, PYDDSI_AT_ORDER, PYDDSI_BY_FULL, 0, 0, 1, now);
        }
    } else if (verdict == PDI_ORDER_UNSYNCHED) {
        pdi_session_early(node, peer, arrival->conduit, message);
        pdi_drop(node, PYDDSI_AT_ORDER, PYDDSI_BY_NOT_SYNCHED, 0, 0, 1, now);
        return;
    } else if (verdict == PDI_ORDER_REPEAT) {
        pdi_drop(node, PYDDSI_AT_ORDER, PYDDSI_BY_REPEAT, 0, 0, 1, now);
    }
    acknowledge(node, peer, arrival->conduit, s);
}

void pdi_turn_best(struct pdi_node *node, struct pdi_arrival *arrival,
                   const pyddsi_message *message, pdi_time now)
{
    uint64_t lost = 0;
    struct pdi_order *order = pdi_node_order(node, arrival->peer, arrival->conduit);
    uint8_t space = (uint8_t)message->space;
    if (!pdi_order_best(order, message->sn, &arrival->number, &lost)) {
        pdi_drop(node, PYDDSI_AT_ORDER, PYDDSI_BY_OLD, space, message->rid, 1, now);
        return;
    }
    if (lost != 0) {
        pdi_drop(node, PYDDSI_AT_ORDER, PYDDSI_BY_LOSS, 0, 0, lost, now);
    }
    pdi_assembly_pass(node, arrival, now);
    if (pdi_deliver(node, arrival, message, now) != PYDDSI_OK) {
        pdi_drop(node, PYDDSI_AT_RING, PYDDSI_BY_FULL, space, message->rid, 1, now);
    }
}

void pdi_turn_synch(struct pdi_node *node, uint32_t peer, uint32_t conduit,
                    const pyddsi_message *message, pdi_time now)
{
    const struct pdi_node_peer *who = &node->peers[peer];
    struct pdi_order *order = pdi_node_order(node, peer, conduit);
    node->stats.synchs_in++;
    if (!order->synched && who->session != 0 && !node->personal) {
        return; /* meant for others: ours is on its way, and says where we begin */
    }
    if (!order->synched && pdi_session_outdated(node, peer, conduit, message)) {
        pdi_session_end(node, peer, PYDDSI_END_RESTART, 0 + 1, now);
        return;
    }
    if (order->steady && !node->personal && pdi_order_is_behind(order, message->sn)) {
        /* It is late: a group's socket may be read long after the one by which repetitions have come. */
        acknowledge(node, peer, conduit, (message->flags & PYDDSI_S) != 0);
        return;
    }
    uint64_t count = (message->flags & PYDDSI_U) != 0 ? message->count : 0;
    int status = pdi_order_synch(order, message->sn, count, now);
    if (status == PYDDSI_END) {
        /* Those of its own socket can be late as well, but not for a lease. Then we mean different numbers, for ever. */
        uint64_t lease_ms = who->lease_ms != 0 ? who->lease_ms : PDI_REST_LEASE_MS;
        if (now - order->since >= lease_ms * PDI_TIME_MS) {
            pdi_session_end(node, peer, PYDDSI_END_RESTART, 0 + 1, now);
            return;
        }
    }
    if (status == PYDDSI_AGAIN) {
        struct pdi_kept kept;
        uint64_t lost = 0;
        while (pdi_order_clear(order, &kept) == PYDDSI_OK) { /* at most what is kept */
            drop_kept(node, peer, kept.slot);
            lost++;
        }
        node->parts[peer * node->config.conduits_in + conduit] = 0;
        pdi_drop(node, PYDDSI_AT_ORDER, PYDDSI_BY_GAP, 0, 0, lost, now);
        order->held = 0;
        status = pdi_order_synch(order, message->sn, count, now);
    }
    if (status == PYDDSI_BAD_INPUT) {
        pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_BAD_BYTES, 0, 0, 1, now);
        return;
    }
    proceed(node, peer, conduit, now);
    went_on(node);
    acknowledge(node, peer, conduit, (message->flags & PYDDSI_S) != 0);
    pdi_turn_watch(node, peer, conduit);
}

/* ---- what to tell the sender ---- */

size_t pdi_receive_write_ack(struct pdi_node *node, uint32_t peer, uint32_t conduit, int answer,
                             uint8_t *out, size_t room, pdi_time now)
{
    struct pdi_order *order = pdi_node_order(node, peer, conduit);
    struct pdi_node_peer *who = &node->peers[peer];
    pyddsi_message message = {.kind = PYDDSI_ACKNACK};
    if (!order->synched || who->probes != 0) { /* in doubt: these may not be its numbers */
        return 0;
    }
    /* Without a slot nothing that is early could be kept: then nothing is asked for until the sender's next SYNCH. */
    bool starved = node->slot == PDI_POOL_NONE && pdi_pool_free(&node->pool) == 0;
    int nack = starved ? 0
                       : pdi_order_ask(order, now, pdi_rtt_wait(&who->rtt) / 2, &message.sn,
                                       &message.mask);
    if (starved) {
        message.sn = pdi_seq_wrap(order->seq, order->expected);
    }
    if (!nack && !answer) {
        return 0;
    }
    if (node->resting) {
        pdi_session_rouse(node, now);
    }
    message.flags = nack ? PYDDSI_M : 0;
    pdi_turn_watch(node, peer, conduit);
    const struct pdi_conduit *back = pdi_node_unicast(node, peer);
    size_t size = (size_t)(pdi_pack_conduit(pdi_lead_write(back, message.sn, out), conduit) - out);
    message.sn &= back->seq.mask;
    pyddsi_fault fault;
    if (pdi_encode_message(&message, out, room, &size, &fault) != PYDDSI_OK) {
        return 0;
    }
    node->stats.acks_out++;
    node->stats.nacks_out += (uint64_t)nack;
    return size;
}

void pdi_receive_order_timer(struct pdi_node *node, uint32_t order, pdi_time now)
{
    uint32_t peer = order / node->config.conduits_in;
    (void)now;
    pdi_timer_set(node, pdi_timer_order(node, order), PDI_TIME_NEVER);
    if (pdi_session_established(node, peer)) {
        acknowledge(node, peer, order % node->config.conduits_in, false);
    }
}

/* ---- holding, beginning, ending ---- */

void pdi_receive_retry(struct pdi_node *node, pdi_time now)
{
    uint32_t orders = node->peers_used * node->config.conduits_in;
    node->kick = 0;
    for (uint32_t i = node->holding == 0 ? orders : pdi_bitset_find(node->held, orders, 0);
         i < orders; i = pdi_bitset_find(node->held, orders, i + 1)) {
        uint32_t peer = i / node->config.conduits_in, conduit = i % node->config.conduits_in;
        struct pdi_order *order = &node->orders[i];
        int64_t before = order->expected;
        order->held = 0;
        proceed(node, peer, conduit, now);
        if (order->expected != before) {
            acknowledge(node, peer, conduit, true);
            pdi_turn_watch(node, peer, conduit);
            node->kick = 1; /* what waits for this conduit may go on now */
        }
    }
}

/* Over all sessions that one life of a peer has from one address its best effort goes on counting, so that what was late by
 * a session is known to be old. Answers the number that is next, or 0. */
static int64_t best_next(const struct pdi_node *node, uint32_t peer, uint32_t conduit)
{
    const struct pdi_node_peer *who = &node->peers[peer];
    int64_t next = 0;
    for (uint32_t i = 0; who->incarnation != 0 && i < node->peers_used; i++) {
        const struct pdi_order *order = pdi_node_order(node, i, conduit);
        if (node->peers[i].incarnation == who->incarnation && order->best_seen &&
            order->best_next > next &&
            pdi_endpoint_equal(&node->peers[i].endpoint, &who->endpoint)) {
            next = order->best_next;
        }
    }
    return next;
}

void pdi_receive_fresh(struct pdi_node *node, uint32_t peer)
{
    for (uint32_t conduit = 0; conduit < node->config.conduits_in; conduit++) {
        uint32_t index = peer * node->config.conduits_in + conduit;
        struct pdi_kept *kept = &node->kept[(size_t)index * node->config.order_max];
        int64_t best = best_next(node, peer, conduit);
        pdi_lead_order(node, &node->peers[peer], kept, &node->orders[index]);
        node->orders[index].best_seen = best != 0;
        node->orders[index].best_next = best;
        bool plain = node->peers[peer].session == 0;
        node->orders[index].steady = !plain;
        node->orders[index].reach = plain ? PDI_ORDER_REACH_ZHE : PDI_ORDER_MASK_BITS + 1;
        bool client = node->config.role == PYDDSI_CLIENT ||
                      (node->config.role == PYDDSI_BROKER && node->peers[peer].lone);
        if (client && plain) { /* between a broker and a client of zhe all numbers begin at 0 */
            pdi_order_start(&node->orders[index]);
        }
        pdi_held_set(node, index, false);
    }
}

void pdi_receive_forget(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    uint64_t lost = 0;
    for (uint32_t conduit = 0; conduit < node->config.conduits_in; conduit++) {
        uint32_t index = peer * node->config.conduits_in + conduit;
        struct pdi_kept kept;
        while (pdi_order_clear(&node->orders[index], &kept) ==
               PYDDSI_OK) { /* at most what is kept */
            drop_kept(node, peer, kept.slot);
            lost++;
        }
        node->parts[index] = 0;
        pdi_held_set(node, index, false);
        pdi_timer_set(node, pdi_timer_order(node, index), PDI_TIME_NEVER);
    }
    if (lost != 0) {
        pdi_drop(node, PYDDSI_AT_ORDER, PYDDSI_BY_PEER_LOST, 0, 0, lost, now);
    }
    pdi_assembly_forget(node, ~UINT64_C(0) << 32, (uint64_t)peer << 32, PYDDSI_BY_PEER_LOST, now);
    for (uint32_t i = 0; i < PDI_BARRIERS_MAX && node->barriers_used != 0; i++) {
        if (node->barriers[i].used && node->barriers[i].peer == peer) {
            node->barriers[i].used = 0;
            node->barriers_used--;
        }
    }
    who->acks = who->answers = who->synchs = who->tells = who->repeats = 0;
    pdi_bitset_clear(node->talk, peer);
}
