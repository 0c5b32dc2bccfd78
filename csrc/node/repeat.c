/* repeat.c - what a conduit sends once more, and to whom.
 *
 *     NACK ─► of a unicast conduit, of a zhe peer,        to the conduit: one repetition for all who lack it,
 *          │  or of what many members lack                and none for those who ask within its round trip
 *          └► of what few members of a group lack         to each of these alone: the same message, to its address
 *
 * A group's repetition costs every member a packet that one of them needs; and where switches filter the group for one member it
 * never reaches the one. So it goes to the asker's own address, unless PDI_REPEAT_FEW others have just been sent the same.
 *
 * A member to whom all goes so, and nothing comes by the group (PDI_UNREACHED_MIN messages in a row, over slow_ms at least),
 * and who does not answer PINGs to the group, is called unreached, with an event. From then on it gets a copy of each packet of
 * the group, at its own address, right after the group. After PDI_UNREACHED_RETRY_MS it is tried again. Numbers, windows and order are those of the group: nothing
 * moves, so nothing can overtake.
 *
 * When a zhe joins a group, the window has what was written for others: batches and fragments, of which one is the end of its session.
 * It begins behind these, and all that is before that number goes to the others alone, as they ask for it (plain_from).
 *
 *     lone_from ──┬─ lone_wanted   bit i: lone_from + i is to go to this member alone
 *                 └─ lone_sent     bit i: it has gone; what is asked again within a round trip of lone_at is not sent again
 */
#include "node/state.h"

/* The bits of one member, as seen from another first number. */
static uint64_t bits_from(uint64_t bits, uint64_t from, uint64_t number)
{
    if (number >= from) {
        return number - from < 64 ? bits >> (number - from) : 0;
    }
    return from - number < 64 ? bits << (from - number) : 0;
}

/* What several other members lacked as well a moment ago: bit i is number + i. */
static uint64_t lacked_by_many(const struct pdi_node *node, const struct pdi_conduit *conduit,
                               uint32_t peer, uint64_t number, pdi_time pause, pdi_time now)
{
    uint64_t times[PDI_REPEAT_FEW] = {0}; /* one asker at least, two at least */
    for (uint32_t other = 0; other < node->peers_used; other++) {
        const struct pdi_member *member = pdi_node_member(node, conduit, other);
        if (other == peer || !member->joined) {
            continue;
        }
        uint64_t bits =
            member->lone_wanted | (now - member->lone_at < pause ? member->lone_sent : 0);
        bits = bits_from(bits, member->lone_from, number);
        for (uint32_t i = PDI_REPEAT_FEW - 1; i > 0; i--) {
            times[i] |= times[i - 1] & bits;
        }
        times[0] |= bits;
    }
    return times[PDI_REPEAT_FEW - 1];
}

/* What a NACK of zhe wants: it asks for 32 messages at most, and keeps nothing of what comes behind a gap. So where it asks for
 * as many as it can, all that follows has to come again as well, and one answer brings some packets of it: in 32s, each a round
 * trip, a window takes longer than the next loss. */
enum {
    ASKS_MAX = 32,
    BEYOND_NUMBERS = 1024,
    BEYOND_BYTES = 8 * 1472,
};

/* Whether a number goes with those that were asked for; |bytes| are those of them so far. */
static bool follows(bool all, unsigned i, size_t bytes)
{
    return all && i >= ASKS_MAX && bytes < BEYOND_BYTES;
}

/* Marks what is asked for and was not sent again a moment ago. */
void pdi_repeat_wanted(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t peer,
                       uint64_t number, uint64_t mask, pdi_time now)
{
    struct pdi_member *member = pdi_node_member(node, conduit, peer);
    uint64_t base = pdi_conduit_base(conduit);
    pdi_time rtt = node->peers[peer].rtt.smooth;
    pdi_time least = PDI_TIME_US * 1000 * node->config.synch_ms /
                     40; /* however near the one who asks pretends to be */
    pdi_time pause = rtt - rtt / 8 > least ? rtt - rtt / 8 : least;
    uint32_t now_us = (uint32_t)(now / PDI_TIME_US);
    uint64_t from = UINT64_MAX;
    bool alone = conduit->peer == PDI_NONE && node->peers[peer].features != 0;
    uint64_t many = alone ? lacked_by_many(node, conduit, peer, number, pause, now) : 0;
    if (alone) {
        member->lone_wanted = bits_from(member->lone_wanted, member->lone_from, number);
        member->lone_sent = bits_from(member->lone_sent, member->lone_from, number);
        member->lone_from = number;
    }
    uint64_t lately = now - member->lone_at < pause ? member->lone_sent : 0;
    bool all =
        node->peers[peer].features == 0 && (~mask & ((UINT64_C(1) << (ASKS_MAX - 1)) - 1)) == 0;
    size_t bytes = 0;
    for (unsigned i = 0; i <= (all ? BEYOND_NUMBERS : 64); i++) {
        uint64_t one = number + i;
        bool asked = i == 0 || (i <= 64 && (mask >> (i - 1) & 1) != 0);
        if ((!asked && !follows(all, i, bytes)) || one < base) {
            continue;
        }
        if (one >= conduit->sent || (alone && i == 64)) {
            break; /* ahead of the writer: there is nothing to send; or it asks again for this one */
        }
        struct pdi_entry *entry = pdi_window_entry(&conduit->window, (uint32_t)one);
        bytes += pdi_pack_size(conduit, entry, one);
        bool recent = (entry->mark & PDI_MARK_RESENT) != 0 &&
                      now_us - entry->sent_us < (uint32_t)(pause / PDI_TIME_US);
        if ((entry->mark & PDI_MARK_WANTED) != 0 || (recent && !member->unreached)) {
            continue;
        }
        if ((entry->mark & (PDI_MARK_LARGE | PDI_MARK_RESENT)) == PDI_MARK_LARGE) {
            pdi_path_lost(conduit, one, now);
        }
        if (alone && ((many >> i & 1) == 0 || one < conduit->plain_from)) {
            member->lone_wanted |= UINT64_C(1) << i & ~lately;
            continue;
        }
        entry->mark |= PDI_MARK_WANTED;
        conduit->wanted++;
        from = from == UINT64_MAX ? one : from;
    }
    if (from != UINT64_MAX) {
        conduit->wanted_from =
            conduit->wanted == 0 || from < conduit->wanted_from ? from : conduit->wanted_from;
        pdi_bitset_set(node->work, conduit->number);
    }
    if (alone && member->lone_wanted != 0) {
        node->peers[peer].repeats |= UINT64_C(1) << conduit->number;
        pdi_bitset_set(node->talk, peer);
    }
}

/* ---- what goes once more: the wanted ones, oldest first; S on the last of the burst ---- */

size_t pdi_repeat_group(struct pdi_node *node, struct pdi_conduit *conduit, uint8_t *out,
                        size_t most, pdi_time now)
{
    struct pdi_window *window = &conduit->window;
    struct pdi_window_span span = pdi_window_span(window);
    uint64_t end = conduit->sent;
    uint64_t base = window->next - ((uint32_t)window->next - span.base);
    uint64_t number = conduit->wanted_from > base ? conduit->wanted_from : base;
    uint8_t *at = out, *header = NULL;
    uint64_t led = PDI_LED_NONE;
    for (; number < end && conduit->wanted != 0; number++) { /* at most the window's entries */
        struct pdi_entry *entry = pdi_window_entry(window, (uint32_t)number);
        if ((entry->mark & PDI_MARK_WANTED) == 0) {
            continue;
        }
        if (number < conduit->plain_from) { /* it was wanted before that */
            entry->mark &= (uint8_t)~PDI_MARK_WANTED;
            conduit->wanted--;
            continue;
        }
        uint32_t size = pdi_pack_size(conduit, entry, number);
        bool lead = pdi_lead_due(conduit, number, led);
        size_t whole = size + (lead ? PDI_LEAD_BYTES : 0);
        if (!pdi_has_room(conduit, (size_t)(at - out), whole, most)) {
            break;
        }
        if (lead) {
            led = pdi_lead_of(conduit, number);
            at = pdi_lead_write(conduit, number, at);
        }
        entry->mark = (uint8_t)((entry->mark & ~PDI_MARK_WANTED) | PDI_MARK_RESENT);
        entry->sent_us = (uint32_t)(now / PDI_TIME_US);
        conduit->wanted--;
        node->stats.resent++;
        node->stats.messages_out++;
        at = pdi_pack_entry(node, conduit, entry, window->memory + entry->at, number, at, &header);
    }
    conduit->wanted_from = number;
    if (number >= end) {
        conduit->wanted = 0;
    }
    if (header == NULL) {
        return 0;
    }
    if (conduit->wanted == 0) {
        *header |= PYDDSI_S;
        conduit->synch_point = now;
    }
    conduit->timed = 0; /* an answer could now belong to either */
    return (size_t)(at - out);
}

/* The same for one member of a group alone. */
static size_t alone(struct pdi_node *node, struct pdi_conduit *conduit, struct pdi_member *member,
                    uint8_t *out, size_t room, pdi_time now)
{
    uint64_t base = pdi_conduit_base(conduit);
    uint8_t *at = out, *header = NULL;
    uint64_t led = PDI_LED_NONE;
    while (member->joined && member->lone_wanted != 0) { /* each round clears a bit */
        uint32_t i = (uint32_t)__builtin_ctzll(member->lone_wanted);
        uint64_t number = member->lone_from + i;
        if (number >= base && number < conduit->sent) {
            const struct pdi_entry *entry = pdi_window_entry(&conduit->window, (uint32_t)number);
            bool lead = pdi_lead_due(conduit, number, led);
            size_t whole = pdi_pack_size(conduit, entry, number) + (lead ? PDI_LEAD_BYTES : 0);
            if (!pdi_has_room(conduit, (size_t)(at - out), whole, room)) {
                break;
            }
            if (lead) {
                led = pdi_lead_of(conduit, number);
                at = pdi_lead_write(conduit, number, at);
            }
            at = pdi_pack_entry(node, conduit, entry, conduit->window.memory + entry->at, number,
                                at, &header);
            member->lone_sent |= UINT64_C(1) << i;
            member->lone_at = now;
            node->stats.resent++;
            node->stats.messages_out++;
        }
        member->lone_wanted &= member->lone_wanted - 1;
    }
    if (header != NULL) {
        conduit->timed = 0; /* an answer could now belong to either */
        *header |= member->lone_wanted == 0 ? PYDDSI_S : 0;
    }
    return (size_t)(at - out);
}

size_t pdi_repeat_alone(struct pdi_node *node, uint32_t peer, uint8_t *out, size_t room,
                        pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    size_t size = 0;
    while (size == 0 && who->repeats != 0) { /* one round per conduit */
        struct pdi_conduit *conduit = &node->out[__builtin_ctzll(who->repeats)];
        struct pdi_member *member = pdi_node_member(node, conduit, peer);
        size = alone(node, conduit, member, out, room, now);
        if (size == 0) {
            who->repeats &= who->repeats - 1;
        }
    }
    return size;
}

void pdi_repeat_apart(struct pdi_node *node, struct pdi_conduit *conduit, pdi_time now)
{
    uint64_t best = conduit->draft_samples + conduit->draft_more + conduit->sealed_samples +
                    conduit->sealed_more + (conduit->big_left != 0);
    conduit->plain_from = conduit->window.next;
    if (conduit->big_left != 0) {
        pdi_window_abandon(&node->scratch, &conduit->big_loan);
    }
    conduit->big_left = conduit->draft_size = conduit->draft_samples = 0;
    conduit->sealed_size = conduit->sealed_samples = 0;
    conduit->draft_more = conduit->sealed_more = 0;
    if (best != 0) {
        pdi_drop(node, PYDDSI_AT_PACKET, PYDDSI_BY_UNSUPPORTED, 0, 0, best, now);
    }
    if (pdi_conduit_base(conduit) == conduit->window.next) {
        return;
    }
    conduit->sent = conduit->window.next;
    conduit->waiting = conduit->flush = 0;
    conduit->flush_at = PDI_TIME_NEVER;
    conduit->timed = 0;
    conduit->synch = 2; /* by which the others learn what they lack */
    pdi_bitset_set(node->work, conduit->number);
}

/* ---- members that a group does not reach ---- */

/* The hash of a PING to a group: even, as those to one peer are odd, and with the bit that no lead has (lead.c). */
static uint16_t question_of(const struct pdi_conduit *conduit)
{
    return (uint16_t)(PDI_MARK_BIT | 2 * (conduit->number + 1));
}

/* Nothing comes to this member by its group; but it may lack the room to keep what comes. So the group is asked by a PING, and
 * who answers is reached. */
static void suspect(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t peer, pdi_time now)
{
    struct pdi_member *member = pdi_node_member(node, conduit, peer);
    pdi_time wait = 2 * pdi_rtt_wait(&node->peers[peer].rtt);
    if (conduit->features == 0 || (member->lone_asked != 0 && now - member->lone_asked_at < wait)) {
        return; /* a zhe peer hears the group, too */
    }
    if (member->lone_asked < PDI_UNREACHED_ASK) {
        member->lone_asked++;
        member->lone_asked_at = now;
        pdi_hello_reply(node, &(struct pdi_reply){.kind = PDI_REPLY_PING,
                                                  .hash = question_of(conduit),
                                                  .to = conduit->to});
        return;
    }
    member->unreached = 1;
    member->lone_since = now;
    conduit->unreached++;
    if (!member->told_unreached) {
        member->told_unreached = 1;
        pyddsi_event *event = pdi_event_push(node, PYDDSI_UNREACHED, now);
        pdi_event_peer(node, event, peer);
        event->conduit = conduit->id;
    }
}

void pdi_repeat_arrived(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t peer,
                        uint64_t number, pdi_time now)
{
    struct pdi_member *member = pdi_node_member(node, conduit, peer);
    if (conduit->peer != PDI_NONE || node->peers[peer].features == 0) {
        return;
    }
    if (member->unreached) {
        if (now - member->lone_since >= PDI_UNREACHED_RETRY_MS * PDI_TIME_MS) {
            pdi_repeat_forget(conduit, member);
        }
        return;
    }
    uint64_t came = number - member->acked; /* at least one */
    uint64_t gone = member->acked >= member->lone_from
                        ? bits_from(member->lone_sent, member->lone_from, member->acked)
                        : 0;
    if (came > 64 || (~gone & (came == 64 ? ~UINT64_C(0) : (UINT64_C(1) << came) - 1)) != 0) {
        member->lone_count = member->lone_asked = 0; /* something came by the group */
        return;
    }
    member->lone_since = member->lone_count == 0 ? now : member->lone_since;
    member->lone_count += (uint32_t)came;
    pdi_time least = PDI_TIME_MS * (node->config.slow_ms != 0 ? node->config.slow_ms : 1000);
    if (member->lone_count >= PDI_UNREACHED_MIN && now - member->lone_since >= least) {
        suspect(node, conduit, peer, now);
    }
}

void pdi_repeat_pong(struct pdi_node *node, uint32_t peer, uint64_t hash)
{
    for (uint32_t i = 0; i < node->config.multicasts; i++) {
        if (hash == question_of(&node->out[i])) {
            pdi_repeat_forget(&node->out[i], pdi_node_member(node, &node->out[i], peer));
        }
    }
}

void pdi_repeat_forget(struct pdi_conduit *conduit, struct pdi_member *member)
{
    conduit->unreached -= member->unreached;
    member->unreached = member->lone_asked = 0;
    member->lone_count = 0;
}

void pdi_repeat_copies(struct pdi_node *node, const struct pdi_conduit *conduit,
                       const uint8_t *packet, size_t size)
{
    memcpy(node->copy, packet, size);
    node->copy_size = (uint32_t)size;
    node->copy_of = conduit->number;
    node->copy_next = 0;
}

size_t pdi_repeat_copy(struct pdi_node *node, uint8_t *out, size_t room, pyddsi_endpoint *to)
{
    const struct pdi_conduit *conduit = &node->out[node->copy_of];
    while (node->copy_next < node->peers_used && node->copy_size <= room) {
        uint32_t peer = node->copy_next++;
        if (pdi_node_member(node, conduit, peer)->unreached) {
            memcpy(out, node->copy, node->copy_size);
            *to = node->peers[peer].endpoint;
            return node->copy_size;
        }
    }
    node->copy_size = 0;
    return 0;
}
