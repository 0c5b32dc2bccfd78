/* receive.c - the way of a packet, from its slot to the room that its messages are for.
 *
 *     slot ─► peer? ─► decode ─┬─ sessions ──► hello.c ─► a chore for housekeeping
 *                              ├─ ACKNACK ───► reliable.c
 *                              ├─ SYNCH ─────► the order of that peer and conduit
 *                              └─ data, DECLARE, PULL ─► order ─► in turn: handle
 *
 * Bytes that break a rule end the session of their sender, and only that. What came before them in the packet
 * has taken effect.
 */
#include "node/state.h"

/* One message of an established peer. */
static void dispatch(struct pdi_node *node, uint32_t peer, uint32_t slot,
                     const pyddsi_message *message, pdi_time now)
{
    struct pdi_arrival arrival = {
        .peer = peer, .conduit = (uint32_t)message->conduit, .slot = slot};
    switch (message->kind) {
    case PYDDSI_SDATA:
    case PYDDSI_BDATA:
    case PYDDSI_WDATA:
        if ((message->flags & PYDDSI_R) == 0) {
            pdi_turn_best(node, &arrival, message, now);
            return;
        }
        arrival.reliable = 1;
        pdi_turn_reliable(node, &arrival, message, now);
        return;
    case PYDDSI_DECLARE:
    case PYDDSI_PULL:
        arrival.reliable = 1;
        pdi_turn_reliable(node, &arrival, message, now);
        return;
    case PYDDSI_SYNCH:
        if (node->foreign) {
            pdi_hello_doubt(node, peer, now); /* it is late, or we mean different sessions */
        } else {
            pdi_turn_synch(node, peer, arrival.conduit, message, now);
        }
        return;
    case PYDDSI_ACKNACK:
        pdi_reliable_acknack(node, peer, message, now);
        return;
    case PYDDSI_MIGRATE:
        pdi_turn_migrate(node, peer, arrival.conduit, message, now);
        return;
    default:
        return; /* CONDUIT CLOSE: nothing more comes there, and nothing needs to be done */
    }
}

static bool is_data(unsigned kind)
{
    return kind == PYDDSI_SDATA || kind == PYDDSI_BDATA || kind == PYDDSI_WDATA;
}

static bool of_a_session(const pyddsi_message *message)
{
    return message->kind <= PYDDSI_CLOSE || message->kind == PYDDSI_KEEPALIVE ||
           message->kind == PYDDSI_PING || message->kind == PYDDSI_PONG;
}

uint8_t *pdi_node_slot(struct pdi_node *node, size_t *room)
{
    if (node->slot == PDI_POOL_NONE) {
        node->slot = pdi_pool_get(&node->pool);
    }
    *room = node->config.packet_max;
    return node->slot != PDI_POOL_NONE ? pdi_pool_data(&node->pool, node->slot) : node->spare;
}

/* The conduits that a message may name: an ACKNACK one of ours, all others one of the sender's. */
static uint32_t limit_of(const struct pdi_node *node, const pyddsi_message *message)
{
    return message->kind == PYDDSI_ACKNACK ? node->config.multicasts + 1 : node->config.conduits_in;
}

/* Why a message is not heard that needs a session. */
static enum pyddsi_reason why_outside(const struct pdi_node *node, uint32_t peer)
{
    if (peer == PDI_NONE) {
        return PYDDSI_BY_UNKNOWN_PEER;
    }
    uint8_t state = pdi_peer_look(&node->peers[peer].word).state;
    bool opening = state >= PDI_PEER_OPENING && state <= PDI_PEER_OPENING_LAST;
    return opening ? PYDDSI_BY_NOT_SYNCHED : PYDDSI_BY_EXPIRED_PEER;
}

/* A PONG in front of a SYNCH has the mark of the session that this is for, one in front of numbers may have the bits above
 * them. (Alone it may be the answer to a PING.) */
static void marked(struct pdi_node *node, const struct pdi_node_peer *who, uint64_t hash)
{
    if ((who->features & PYDDSI_CAN_WIDE) != 0 && (hash & PDI_MARK_BIT) == 0) {
        pdi_lead_read(node, hash);
        return;
    }
    node->personal = hash == pdi_session_mark(who->session, who->secret, who->features);
    node->foreign = !node->personal && who->session != 0;
}

/* Walks over the messages of a packet. */
static void walk(struct pdi_node *node, const pyddsi_endpoint *from, uint32_t peer, bool inside,
                 pyddsi_bytes packet, pdi_time now)
{
    pyddsi_decoder decoder;
    pyddsi_message message;
    int status;
    pdi_lead_reading(node, inside ? &node->peers[peer] : NULL);
    pdi_decoder_init(&decoder, &node->reading, packet.data, packet.size);
    node->personal = node->foreign = node->led_bits = 0;
    bool doubted = inside && node->peers[peer].probes != 0;
    bool believes = false, ours = false;
    while ((status = pdi_decoder_next(&decoder, &message)) == PYDDSI_OK) { /* its bytes at most */
        node->stats.messages_in++;
        believes = believes || message.kind == PYDDSI_PING || message.kind == PYDDSI_ACKNACK;
        ours = ours || message.kind == PYDDSI_PING || message.kind == PYDDSI_PONG;
        if (inside && message.kind == PYDDSI_PONG && decoder.at < packet.size) {
            marked(node, &node->peers[peer], message.hash);
        } else if (of_a_session(&message)) {
            pdi_hello_input(node, &message, from, peer, now);
        } else if (message.kind == PYDDSI_CONDUIT || message.kind == PYDDSI_FRAG ||
                   message.kind == PYDDSI_RSPACE) {
            continue;
        } else if (node->packet != NULL && !message.fragment && is_data(message.kind)) {
            /* read where it lies, it would need a slot; it is asked for, and comes in a small packet */
            pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_SIZE, 0, 0, 1, now);
        } else if (inside && (!pdi_lead_widen(node, &node->peers[peer], &message) || doubted)) {
            pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_NOT_SYNCHED, 0, 0, 1, now);
        } else if (inside && message.conduit < limit_of(node, &message) &&
                   message.space < PYDDSI_SPACES_MAX) {
            dispatch(node, peer, node->packet == NULL ? node->slot : PDI_POOL_NONE, &message, now);
        } else if (inside) {
            status = PYDDSI_BAD_INPUT;
            break;
        } else {
            pdi_drop(node, PYDDSI_AT_INPUT, why_outside(node, peer), 0, 0, 1, now);
        }
        if (inside && !pdi_session_established(node, peer)) {
            inside = false; /* a message has just ended the session */
        }
    }
    if (believes && peer == PDI_NONE) {
        pdi_hello_believer(node, from, ours, now);
    }
    if (status != PYDDSI_END) {
        pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_BAD_BYTES, 0, 0, 1, now);
        /* zhe lets these pass */
        bool ping = decoder.kind == PYDDSI_PING || decoder.kind == PYDDSI_PONG;
        if (inside && !(status == PYDDSI_BAD_INPUT && ping)) {
            pdi_session_end(node, peer, PYDDSI_END_BYTES, 255 + 1, now);
        }
    }
}

/* The peer at this address; the usual packet comes from where the last one came from. */
static uint32_t sender(struct pdi_node *node, const pyddsi_endpoint *from)
{
    uint32_t peer = node->last_sender;
    if (peer >= node->peers_used || !pdi_endpoint_equal(&node->peers[peer].endpoint, from) ||
        !pdi_session_established(node, peer)) {
        peer = pdi_session_find(node, from);
        peer = peer == PDI_NONE ? pdi_gossip_find(node, from) : peer;
        node->last_sender = peer != PDI_NONE ? peer : node->last_sender;
    }
    return peer;
}

/* Whether this peer's ACCEPT may be among what housekeeping has still to look at. */
static bool begins_soon(const struct pdi_node *node, uint32_t peer)
{
    uint8_t state = peer != PDI_NONE ? pdi_peer_look(&node->peers[peer].word).state : 0;
    return node->chore_head != node->chore_tail && state >= PDI_PEER_OPENING &&
           state <= PDI_PEER_OPENING_LAST;
}

/* The connection is over. What we sent there last may not have arrived, so the session is over as well; a new connection
 * begins another. */
static void lost(struct pdi_node *node, const pyddsi_endpoint *from, pdi_time now)
{
    uint32_t peer = pdi_session_find(node, from);
    if (peer != PDI_NONE) {
        pdi_session_end(node, peer, PYDDSI_END_LINK, 0, now);
    }
}

static void input(struct pdi_node *node, const pyddsi_endpoint *from, const uint8_t *data,
                  size_t size, pdi_time now)
{
    uint16_t epoch = 0;
    node->now = now > node->now ? now : node->now;
    if (size == 0 && pdi_endpoint_is_stream(from)) {
        lost(node, from, now);
        return;
    }
    node->stats.packets_in++;
    node->stats.bytes_in += size;
    uint32_t peer = sender(node, from);
    if (begins_soon(node, peer)) {
        /* A peer's first messages come right behind its ACCEPT. Dropped here, they would have to be sent again. */
        pdi_node_tick(node, now);
        peer = sender(node, from);
    }
    bool large = size > node->config.packet_max;
    if (large && (peer == PDI_NONE || node->packet == NULL ||
                  (node->peers[peer].features & PYDDSI_CAN_LARGE) == 0)) {
        pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_SIZE, 0, 0, 1, now);
        return;
    }
    bool inside = peer != PDI_NONE && pdi_peer_enter(&node->peers[peer].word, &epoch) == PYDDSI_OK;
    if (inside) {
        struct pdi_node_peer *who = &node->peers[peer];
        (void)pdi_peer_renew(&who->word, pdi_peer_deadline(pdi_node_ms(now), who->lease_ms));
        who->heard = now;
        who->asks = who->gone = 0;
    }
    walk(node, from, peer, inside, (pyddsi_bytes){data, size}, now);
    if (inside) {
        uint64_t touched = node->peers[peer].acks;
        while (touched != 0) { /* one round per conduit */
            pdi_turn_watch(node, peer, (uint32_t)__builtin_ctzll(touched));
            touched &= touched - 1;
        }
        (void)pdi_peer_leave(&node->peers[peer].word);
    }
    if (node->slot != PDI_POOL_NONE &&
        pdi_atomic32_load_acquire(&node->pool.holds[node->slot]) != 1) {
        /* somebody keeps it: the next packet needs another */
        pdi_pool_drop(&node->pool, node->slot);
        node->slot = pdi_pool_get(&node->pool);
    }
}

void pdi_node_input(struct pdi_node *node, const pyddsi_endpoint *from, size_t size, pdi_time now)
{
    /* Not asked for anew: a slot may have become free since the packet was put into the spare one. */
    bool spare = node->slot == PDI_POOL_NONE;
    input(node, from, spare ? node->spare : pdi_pool_data(&node->pool, node->slot), size, now);
}

void pdi_node_input_at(struct pdi_node *node, const pyddsi_endpoint *from, const uint8_t *data,
                       size_t size, pdi_time now)
{
    node->packet = data;
    input(node, from, data, size, now);
    node->packet = NULL;
}
