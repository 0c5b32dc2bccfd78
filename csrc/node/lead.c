/* lead.c - numbers that are wider than those in the messages.
 *
 * A message says the lower bits of its number, as many as zhe reads: 14 unless a length is set or told. A packet that the
 * network holds back for a whole round of these would be taken for a new one; at 400,000 messages a second that is 40 ms.
 * So in what goes to peers that can (PYDDSI_CAN_WIDE), a PONG that nobody asked for stands in front of the numbers and
 * says the bits above, up to bit 27. It holds for the rest of the packet, or up to the next one:
 *
 *     PONG 0x0002  SDATA sn=16382  SDATA sn=16383  PONG 0x0003  SDATA sn=0
 *
 *     hash   0 0 b27 ........... b14             the bits from 14 on
 *            0 1 L-7 (6 bits)  b13 .... b7       behind it, where the length L is not 14: that, and the bits below 14
 *
 * A group that zhe hears keeps the length of that zhe, which skips the PONGs; the others there lose nothing. Numbers of
 * such a peer without a lead are of a time before the session, and mean nothing.
 *
 * zhe is spoken to in the length that its OPEN tells. It hears our groups, whether or not it wants what they carry, so all
 * of its kind in one group need one length: one of another length is refused as zhe would refuse it (reason 4).
 */
#include "node/state.h"

#define REASON_LENGTH 4                /* of a CLOSE */
#define LEAD_LENGTH   UINT64_C(0x4000) /* a second lead: the length, and the bits from 7 on */

static bool can(const struct pdi_node_peer *who)
{
    return (who->features & PYDDSI_CAN_WIDE) != 0;
}

/* ---- out ---- */

static uint8_t *put(uint8_t *at, uint64_t hash)
{
    *at++ = PYDDSI_PONG;
    for (; hash >= 0x80; hash >>= 7) { /* twice at most */
        *at++ = (uint8_t)(hash | 0x80);
    }
    *at++ = (uint8_t)hash;
    return at;
}

/* Writes what leads this number, if its conduit has leads: PDI_LEAD_BYTES at most; answers where it ends. */
uint8_t *pdi_lead_write(const struct pdi_conduit *conduit, uint64_t number, uint8_t *at)
{
    if (!conduit->leads) {
        return at;
    }
    uint64_t lead = pdi_lead_of(conduit, number);
    at = put(at, lead >> PDI_LEAD_BITS);
    return conduit->bits == PDI_LEAD_BITS
               ? at
               : put(at, LEAD_LENGTH | (uint64_t)(conduit->bits - PDI_SEQ_BITS_MIN) << 7 |
                             (lead >> 7 & 0x7f));
}

/* ---- in ---- */

void pdi_lead_read(struct pdi_node *node, uint64_t hash)
{
    if ((hash & LEAD_LENGTH) == 0) {
        node->led = hash << PDI_LEAD_BITS;
        node->led_bits = PDI_LEAD_BITS;
    } else if (node->led_bits != 0) {
        unsigned bits = PDI_SEQ_BITS_MIN + (unsigned)(hash >> 7 & 0x3f);
        node->led_bits = (uint8_t)(bits < PDI_SEQ_BITS_MAX ? bits : PDI_SEQ_BITS_MAX);
        node->led = (node->led >> PDI_LEAD_BITS << PDI_LEAD_BITS) | (hash & 0x7f) << 7;
    }
}

static uint64_t low(unsigned bits, unsigned most)
{
    return (UINT64_C(1) << (bits < most ? bits : most)) - 1;
}

/* Makes the numbers of a message those that we reckon with. False: they mean nothing, since they lack their lead. */
bool pdi_lead_widen(const struct pdi_node *node, const struct pdi_node_peer *who,
                    pyddsi_message *message)
{
    if (!can(who) || message->kind == PYDDSI_MIGRATE) {
        return true; /* whose numbers are whole, and of another conduit */
    }
    if (node->led_bits == 0) {
        return message->kind == PYDDSI_CONDUIT_CLOSE;
    }
    uint64_t behind = (message->sn - message->first) & low(node->led_bits, PDI_WIDE_BITS);
    uint64_t below = low(node->led_bits, PDI_LEAD_BITS);
    message->sn = (node->led & ~below) | (message->sn & below);
    message->first = pdi_seq_add(&who->seq, message->sn, -behind);
    return true;
}

/* The reading of what this peer sends; null: of a stranger. */
void pdi_lead_reading(struct pdi_node *node, const struct pdi_node_peer *who)
{
    unsigned bits = who == NULL || can(who) ? PDI_SEQ_BITS_MAX : who->bits;
    if (node->reading.options.seq_bits != bits) {
        pdi_reading_numbers(&node->reading, bits);
    }
}

/* ---- lengths ---- */

static void set_length(struct pdi_conduit *conduit, unsigned bits, bool leads, bool bare)
{
    uint32_t entries = conduit->window.entries_max;
    conduit->bits = (uint8_t)bits;
    (void)pdi_seq_init(&conduit->seq, bits);
    conduit->leads = leads;
    uint64_t most = conduit->seq.half / 2;
    conduit->numbers_max = bare && most < entries ? (uint32_t)most : entries;
}

/* A place for a peer at this address, which is to hear an OPEN with the length that its own last one told, else with ours. */
void pdi_lead_claim(const struct pdi_node *node, struct pdi_node_peer *who,
                    const pyddsi_endpoint *from)
{
    who->told = pdi_endpoint_equal(&who->endpoint, from) ? who->told : 0;
    who->bits = node->config.seq_bits;
    for (uint32_t peer = 0; node->config.features != 0 && peer < node->peers_used; peer++) {
        const struct pdi_node_peer *other = &node->peers[peer];
        if (other->told != 0 && pdi_endpoint_equal(&other->endpoint, from)) {
            who->bits = other->told;
        }
    }
}

/* What a peer that has answered, or asked, can do, and the length of its numbers. */
void pdi_lead_adopt(const struct pdi_node *node, struct pdi_node_peer *who,
                    const struct pdi_chore *chore)
{
    who->features = chore->features & node->config.features;
    if (chore->kind == PDI_CHORE_OPEN) {
        who->bits = who->told = chore->bits;
    } /* else it took the one that our OPEN told */
    (void)pdi_seq_init(&who->seq, can(who) ? PDI_WIDE_BITS : who->bits);
}

/* One of its conduits begins. Numbers further apart than a quarter of all could not be told. */
void pdi_lead_order(const struct pdi_node *node, const struct pdi_node_peer *who,
                    struct pdi_kept *kept, struct pdi_order *order)
{
    uint64_t most = who->seq.half / 2;
    uint32_t capacity = node->config.order_max < most ? node->config.order_max : (uint32_t)most;
    (void)pdi_order_init(order, &who->seq, kept, capacity);
}

/* A conduit to one peer, which is about to begin. */
void pdi_lead_unicast(const struct pdi_node *node, struct pdi_conduit *conduit)
{
    const struct pdi_node_peer *who = &node->peers[conduit->peer];
    set_length(conduit, can(who) ? node->config.seq_bits : who->bits, can(who), !can(who));
}

/* Whether what we send to groups reaches a peer there, which may have joined them or not. */
static bool hears(const pyddsi_endpoint *endpoint, bool lone)
{
    return !pdi_endpoint_is_stream(endpoint) && !lone;
}

/* Sessions have come or gone: the length of the groups' numbers, and of their packets, is that of the peers who hear them
 * and cannot do with another. */
void pdi_lead_groups(struct pdi_node *node)
{
    unsigned bits = node->config.seq_bits;
    bool leads = false, bare = false, zhe = false;
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        const struct pdi_node_peer *who = &node->peers[peer];
        if (!pdi_session_established(node, peer)) {
            continue;
        }
        if (can(who)) {
            leads = true;
        } else if (hears(&who->endpoint, who->lone)) {
            bits = who->bits;
            bare = true;
            zhe = zhe || who->session == 0;
        }
    }
    for (uint32_t i = 0; i < node->config.multicasts; i++) {
        set_length(&node->out[i], bits, leads, bare);
        uint32_t most = node->config.packet_max;
        node->out[i].packet_max = zhe && most > PDI_PACKET_ZHE ? PDI_PACKET_ZHE : most;
    }
}

/* Whether there may be a session with a peer of these features and this length: OK; AGAIN: too much is under way on a
 * group; BAD_ARGUMENT: no, as long as the present ones last. */
int pdi_lead_fits(struct pdi_node *node, const struct pdi_chore *chore)
{
    uint32_t features = chore->features & node->config.features;
    if ((features & PYDDSI_CAN_WIDE) != 0 || !hears(&chore->from, chore->lone) ||
        node->config.multicasts == 0) {
        return PYDDSI_OK;
    }
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        const struct pdi_node_peer *who = &node->peers[peer];
        bool other =
            who->id_size != chore->id_size || memcmp(who->id, chore->id, chore->id_size) != 0;
        if (other && pdi_session_established(node, peer) && !can(who) &&
            hears(&who->endpoint, who->lone) && who->bits != chore->bits) {
            return PYDDSI_BAD_ARGUMENT;
        }
    }
    int status = PYDDSI_OK;
    uint32_t quarter = (uint32_t)low(chore->bits - 2U, 30) + 1;
    for (uint32_t i = 0; i < node->config.multicasts; i++) {
        struct pdi_conduit *conduit = &node->out[i];
        struct pdi_window_span span = pdi_window_span(&conduit->window);
        if (span.next - span.base > quarter) { /* no more is let in, and it will ask again */
            conduit->numbers_max = quarter < conduit->numbers_max ? quarter : conduit->numbers_max;
            status = PYDDSI_AGAIN;
        }
    }
    return status;
}

/* Whether a CLOSE of this reason answers an OPEN of before we knew the length of its numbers, and so ends nothing. */
bool pdi_lead_answered(const struct pdi_node *node, uint32_t peer, uint64_t reason)
{
    const struct pdi_node_peer *who = &node->peers[peer];
    return reason == REASON_LENGTH && who->session == 0 && who->told != 0 &&
           who->told != node->config.seq_bits;
}
