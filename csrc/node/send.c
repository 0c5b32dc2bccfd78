/* send.c - what goes out next. It is long, since all that leaves is chosen here.
 *
 * Nothing is queued as a finished packet but the drafts of best effort: what must go is a mark (an ACKNACK for that
 * conduit, a SYNCH on this one, these entries again), and the packet is made when the driver asks for one. So a mark that
 * is set twice gives one packet, and nothing can pile up.
 *
 *     1. replies   what sessions say: short, rare, first
 *     2. talk      ACKNACK, SYNCH and repetitions to one peer
 *     3. work      per conduit: what is wanted again, SYNCH to all, drafts, new messages
 *
 * What goes to a group goes as a copy to each member that the group does not reach (repeat.c), right after it.
 *
 * New messages wait for company until the packet is full or the latency budget is over (flush).
 *
 * S is set on the last message of a packet when the sender wants to hear how far the receivers are: when that was long
 * ago, when a quarter of the window went out since, and when little room is left. A receiver answers each S at once, so
 * setting it more often costs a packet each.
 */
#include "node/state.h"
#include "wire/encode.h"

/* A packet can hold so many bytes of messages; the driver's memory may be smaller. */
static size_t room_of(const struct pdi_node *node, size_t room)
{
    return room < node->config.packet_max ? room : node->config.packet_max;
}

static void went_to_all(struct pdi_node *node, const struct pdi_conduit *conduit, pdi_time now)
{
    if (conduit->peer == PDI_NONE && conduit->members == node->established) {
        node->told_all = now;
    }
}

/* SYNCH: to all, or to one peer. To one it says what that one has not acknowledged; above all, where one who has just
 * joined begins: at what was next then, although others may still lack what was before. (A group's SYNCH says what
 * the slowest of all lacks; who began there would get what was never meant for him.) So that he can tell the two apart, one
 * to a peer who knows our extensions is led by a PONG with the mark of our session. */
static size_t write_synch(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t peer, int s,
                          uint8_t *out, size_t room, pdi_time now)
{
    /* what is still unsent comes by itself; to announce it would only make it asked for */
    uint64_t next = conduit->sent;
    uint64_t base = peer == PDI_NONE ? pdi_member_base(node, conduit) : pdi_conduit_base(conduit);
    uint64_t outstanding = next - base;
    size_t size = 0;
    bool led = peer == PDI_NONE || (node->peers[peer].features & PYDDSI_CAN_WIDE) != 0;
    pyddsi_fault fault;
    if (peer != PDI_NONE) {
        const struct pdi_member *member = pdi_node_member(node, conduit, peer);
        if (member->joined && member->acked > next) {
            next = member->acked; /* it begins behind what is still to be sent */
            outstanding = 0;
        } else if (member->joined && !member->begun &&
                   next - member->from < node->peers[peer].seq.half) {
            /* It asks for what the window is past as well, and is told, and reports that. */
            outstanding = next - member->from;
        } else if (member->joined && next - member->acked < outstanding) {
            outstanding = next - member->acked;
        }
        const struct pdi_node_peer *who = &node->peers[peer];
        pyddsi_message mark = {.kind = PYDDSI_PONG,
                               .hash = pdi_session_mark(who->mine, who->proof, who->features)};
        if (who->session != 0) {
            (void)pdi_encode_message(&mark, out, room, &size, &fault);
        }
    }
    pyddsi_message message = {
        .kind = PYDDSI_SYNCH,
        .flags = (uint8_t)(PYDDSI_R | (s ? PYDDSI_S : 0) | (outstanding != 0 ? PYDDSI_U : 0)),
        .sn = next & conduit->seq.mask,
        .count = outstanding,
    };
    uint8_t *at = led ? pdi_lead_write(conduit, next, out + size) : out + size;
    size = (size_t)(pdi_pack_conduit(at, conduit->id) - out);
    if (pdi_encode_message(&message, out, room, &size, &fault) != PYDDSI_OK) {
        return 0;
    }
    if (s && peer == conduit->peer) {
        conduit->synch_point = now;
        conduit->unsynched = 0;
        conduit->unsynched_bytes = 0;
    }
    node->stats.synchs_out++;
    node->stats.messages_out++;
    return size;
}

/* ---- 2: to one peer ---- */

static size_t talk(struct pdi_node *node, uint32_t peer, uint8_t *out, size_t room,
                   pyddsi_endpoint *to, pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    *to = who->endpoint;
    while ((who->synchs | who->tells) != 0) { /* one round per conduit: each clears its bit */
        uint32_t bit = (uint32_t)__builtin_ctzll(who->synchs | who->tells);
        int s = (int)(who->synchs >> bit & 1);
        who->synchs &= ~(UINT64_C(1) << bit);
        who->tells &= ~(UINT64_C(1) << bit);
        struct pdi_conduit *conduit =
            bit == node->config.multicasts ? pdi_node_unicast(node, peer) : &node->out[bit];
        size_t size = write_synch(node, conduit, peer, s, out, room, now);
        if (s && conduit->peer == peer) {
            conduit->synch = 0; /* this is what was to be asked there */
        }
        if (size != 0) {
            return size;
        }
    }
    while (who->acks != 0) {
        uint32_t bit = (uint32_t)__builtin_ctzll(who->acks);
        int answer = (int)(who->answers >> bit & 1);
        who->acks &= who->acks - 1;
        who->answers &= ~(UINT64_C(1) << bit);
        size_t size = pdi_receive_write_ack(node, peer, bit, answer, out, room, now);
        if (size != 0) {
            return size;
        }
    }
    return who->repeats != 0 ? pdi_repeat_alone(node, peer, out, room, now) : 0;
}

/* ---- 3: conduits ---- */

/* Whether the last message of this packet should carry S. */
static bool wants_answer(const struct pdi_node *node, const struct pdi_conduit *conduit,
                         uint32_t in_packet, size_t bytes, pdi_time now)
{
    struct pdi_window_span span = pdi_window_span(&conduit->window);
    uint32_t quarter = conduit->numbers_max / 4 + 1;
    uint32_t outstanding = span.next - span.base;
    pdi_time synch = node->config.synch_ms * PDI_TIME_MS;
    pdi_time rtt = 2 * PDI_TIME_US * node->config.rtt_us;
    return conduit->draining || conduit->unsynched + in_packet >= quarter ||
           conduit->unsynched_bytes + bytes >= conduit->window.size / 4 ||
           (outstanding > 3 * quarter && conduit->unsynched + in_packet > quarter / 4) ||
           now - conduit->synch_point >= (synch > rtt ? synch - rtt : 0);
}

/* What of a large packet may be asked for again. */
static void mark_large(struct pdi_conduit *conduit, uint64_t end)
{
    for (uint64_t number = conduit->sent; number != end; number++) { /* the packet's messages */
        pdi_window_entry(&conduit->window, (uint32_t)number)->mark |= PDI_MARK_LARGE;
    }
}

/* A packet of pieces alone may be as large as its way carries, up to `room`. */
static size_t new_messages(struct pdi_node *node, struct pdi_conduit *conduit, uint8_t *out,
                           size_t most, size_t room, pdi_time now)
{
    size_t large = pdi_path_room(conduit, now);
    large = large < room ? large : room;
    bool pieces = large > most;
    struct pdi_window *window = &conduit->window;
    uint64_t end = window->next;
    uint64_t number = conduit->sent;
    uint8_t *at = out;
    uint8_t *header = NULL;
    uint64_t led = PDI_LED_NONE;
    uint32_t sent_us = (uint32_t)(now / PDI_TIME_US);
    while (number != end) { /* at most the window's entries, and a packet's bytes */
        struct pdi_entry *entry = pdi_window_entry(window, (uint32_t)number);
        uint32_t size = pdi_pack_size(conduit, entry, number);
        bool lead = pdi_lead_due(conduit, number, led);
        size_t whole = size + (lead ? PDI_LEAD_BYTES : 0);
        size_t packed = (size_t)(at - out);
        pieces = pieces && entry->fragment != 0;
        if (!pdi_has_room(conduit, packed, whole, most) && (!pieces || packed + whole > large)) {
            PDI_CHECK(at != out); /* what does not fit an empty packet would stay for ever */
            break;
        }
        if (lead) {
            led = pdi_lead_of(conduit, number);
            at = pdi_lead_write(conduit, number, at);
        }
        entry->sent_us = sent_us;
        at = pdi_pack_entry(node, conduit, entry, window->memory + entry->at, number, at, &header);
        conduit->waiting -= size < conduit->waiting ? size : conduit->waiting;
        number++;
    }
    if (header == NULL) {
        return 0;
    }
    if (node->resting) {
        pdi_session_rouse(node, now);
    }
    uint32_t count = (uint32_t)(number - conduit->sent);
    size_t bytes = (size_t)(at - out);
    if (bytes > most) {
        mark_large(conduit, number);
    }
    if (wants_answer(node, conduit, count, bytes, now)) {
        *header |= PYDDSI_S;
        conduit->synch_point = now;
        conduit->unsynched = 0;
        conduit->unsynched_bytes = 0;
        if (conduit->timed == 0) {
            conduit->timed = number;
            conduit->timed_at = now;
        }
    } else {
        conduit->unsynched += count;
        conduit->unsynched_bytes += bytes;
    }
    conduit->sent = number;
    node->stats.messages_out += count;
    if (number == end) {
        conduit->waiting = 0;
        conduit->flush = 0;
        conduit->flush_at = PDI_TIME_NEVER;
    }
    went_to_all(node, conduit, now);
    return (size_t)(at - out);
}

/* A packet of best effort. False: the driver's memory is too small for it, and it is lost. */
static bool best_packet(struct pdi_node *node, struct pdi_conduit *conduit, const uint8_t *packet,
                        size_t size, uint32_t messages, uint64_t samples, uint8_t *out, size_t room,
                        pdi_time now)
{
    if (size > room) {
        pdi_drop(node, PYDDSI_AT_PACKET, PYDDSI_BY_SIZE, 0, 0, samples, now);
        return false;
    }
    memcpy(out, packet, size);
    node->stats.messages_out += messages;
    went_to_all(node, conduit, now);
    return true;
}

static size_t conduit_packet(struct pdi_node *node, struct pdi_conduit *conduit, uint8_t *out,
                             size_t whole, pdi_time now)
{
    size_t most = room_of(node, whole);
    size_t room = pdi_room_on(conduit, most);
    if (!conduit->open) {
        return 0;
    }
    if (conduit->wanted != 0) {
        size_t size = pdi_repeat_group(node, conduit, out, most, now);
        if (size != 0) {
            return size;
        }
    }
    if (conduit->synch != 0) {
        int s = conduit->synch == 2;
        conduit->synch = 0;
        size_t size = write_synch(node, conduit, conduit->peer, s, out, room, now);
        if (size != 0) {
            return size;
        }
    }
    if (conduit->sealed_size != 0) {
        size_t size = conduit->sealed_size;
        uint32_t messages = conduit->sealed_samples;
        uint64_t samples = messages + conduit->sealed_more;
        conduit->sealed_size = conduit->sealed_samples = 0;
        conduit->sealed_more = 0;
        if (best_packet(node, conduit, conduit->sealed, size, messages, samples, out, most, now)) {
            return size;
        }
    }
    if (conduit->big_left != 0) {
        return pdi_best_piece(node, conduit, out, most);
    }
    if (conduit->draft_size != 0 && conduit->draft_at <= now) {
        size_t size = conduit->draft_size;
        uint32_t messages = conduit->draft_samples;
        uint64_t samples = messages + conduit->draft_more;
        conduit->draft_size = conduit->draft_samples = 0;
        conduit->draft_more = 0;
        if (best_packet(node, conduit, conduit->draft, size, messages, samples, out, most, now)) {
            return size;
        }
    }
    if (conduit->sent != conduit->window.next && (conduit->flush || conduit->waiting >= room)) {
        return new_messages(node, conduit, out, most, whole, now);
    }
    return 0;
}

/* Replies, and what is to be said to one peer. */
static size_t say(struct pdi_node *node, uint8_t *packet, size_t most, pyddsi_endpoint *to,
                  pdi_time now)
{
    size_t got = 0;
    while (got == 0 && node->reply_head != node->reply_tail) {
        const struct pdi_reply *reply = &node->replies[node->reply_tail++ % PDI_REPLIES_MAX];
        *to = reply->to;
        if (pdi_hello_write(node, reply, packet, most, &got) != PYDDSI_OK) {
            got = 0;
        }
        node->stats.messages_out += got != 0;
    }
    uint32_t peer;
    while (got == 0 &&
           (peer = pdi_bitset_find(node->talk, node->peers_used, 0)) < node->peers_used) {
        got = talk(node, peer, packet, most, to, now);
        if (got == 0) {
            pdi_bitset_clear(node->talk, peer);
        }
    }
    return got;
}

static int went(struct pdi_node *node, size_t got, size_t *size)
{
    if (got == 0) {
        return PYDDSI_AGAIN;
    }
    *size = got;
    node->stats.packets_out++;
    node->stats.bytes_out += got;
    return PYDDSI_OK;
}

int pdi_node_output(struct pdi_node *node, uint8_t *packet, size_t room, size_t *size,
                    pyddsi_endpoint *to, pdi_time now)
{
    node->now = now > node->now ? now : node->now;
    size_t most = room_of(node, room);
    size_t got = node->copy_size != 0 ? pdi_repeat_copy(node, packet, most, to) : 0;
    got = got == 0 ? say(node, packet, most, to, now) : got;
    uint32_t conduits = node->config.multicasts + node->peers_used;
    uint32_t number;
    while (got == 0 && (number = pdi_bitset_find(node->work, conduits, 0)) < conduits) {
        struct pdi_conduit *conduit = &node->out[number];
        *to = conduit->to;
        got = conduit_packet(node, conduit, packet, room, now);
        if (got == 0) {
            pdi_bitset_clear(node->work, number);
        } else if (conduit->unreached != 0) {
            pdi_repeat_copies(node, conduit, packet, got);
        }
    }
    return went(node, got, size);
}

/* A conduit's own SYNCH is not urgent: it says how far the sender is, and must not overtake that. */
int pdi_node_output_urgent(struct pdi_node *node, uint8_t *packet, size_t room, size_t *size,
                           pyddsi_endpoint *to, pdi_time now)
{
    node->now = now > node->now ? now : node->now;
    size_t most = room_of(node, room);
    size_t got = node->copy_size != 0 ? pdi_repeat_copy(node, packet, most, to) : 0;
    got = got == 0 ? say(node, packet, most, to, now) : got;
    uint32_t conduits = node->config.multicasts + node->peers_used;
    uint32_t number = 0;
    while (got == 0 && (number = pdi_bitset_find(node->work, conduits, number)) < conduits) {
        struct pdi_conduit *conduit = &node->out[number++];
        if (conduit->open && conduit->wanted != 0) {
            *to = conduit->to;
            got = pdi_repeat_group(node, conduit, packet, most, now);
            if (got != 0 && conduit->unreached != 0) {
                pdi_repeat_copies(node, conduit, packet, got);
            }
        }
    }
    return went(node, got, size);
}

void pdi_node_flush(struct pdi_node *node, pdi_time now)
{
    node->now = now > node->now ? now : node->now;
    uint32_t conduits = node->config.multicasts + node->peers_used;
    for (uint32_t number = 0; number < conduits; number++) {
        struct pdi_conduit *conduit = &node->out[number];
        if (conduit->open && (conduit->sent != conduit->window.next || conduit->draft_size != 0)) {
            conduit->flush = 1;
            conduit->draft_at = now;
            pdi_bitset_set(node->work, number);
        }
    }
}
