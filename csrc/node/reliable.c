/* reliable.c - the sender's half of reliability: members, acknowledgements, what is wanted again, and asking.
 *
 *        base                      sent          next
 *    ─────┼────────────────────────┼──────────────┼────
 *         │  sent, not acknowledged │  not yet sent│
 *    member A acked ──┘        └── member B acked
 *
 * The base is the least of what the members that hold the window have acknowledged. Everybody who joins starts at next and
 * owes nothing; everybody who leaves is no longer waited for, and what he had not acknowledged is written in the ledger:
 * owed = acknowledged + forgiven + in flight, at every moment.
 *
 * A member that does not move for slow_ms while others share the window with it is detached: it still hears everything and
 * is served while the window holds what it asks for, but the window does not wait for it. What it misses it reports
 * itself, as a gap. When it has caught up it holds the window again. (One that has the window for itself is never
 * detached: there is nobody to be protected from it, and its writer waits.)
 *
 * Nobody repeats by a timer here: a receiver asks for exactly what it lacks, and when it may not know (the tail was lost)
 * a SYNCH tells it how far the sender is. A SYNCH goes when something is unacknowledged and nothing was asked for
 * synch_ms, and then less and less often while nobody answers.
 */
#include "node/state.h"

static void wake(struct pdi_node *node, const struct pdi_conduit *conduit)
{
    pdi_bitset_set(node->work, conduit->number);
}

/* The whole count of a base seen in the word. */
static uint64_t base_of(const struct pdi_conduit *conduit)
{
    struct pdi_window_span span = pdi_window_span(&conduit->window);
    return conduit->window.next - (uint32_t)((uint32_t)conduit->window.next - span.base);
}

/* ---- room ---- */

/* Whether the hysteresis lets a message in: once full, a quarter must be free again. */
static bool draining(struct pdi_conduit *conduit)
{
    if (!conduit->draining) {
        return false;
    }
    struct pdi_window_span span = pdi_window_span(&conduit->window);
    uint32_t used = span.next - span.base;
    uint32_t entries = conduit->window.entries_max;
    if (used == 0 ||
        (used <= entries - entries / 4 &&
         pdi_window_room(&conduit->window, conduit->window.size / 4, 1) == PYDDSI_OK)) {
        conduit->draining = 0;
        return false;
    }
    return true;
}

int pdi_reliable_room(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t size,
                      uint32_t numbers)
{
    if (size > conduit->window.size || numbers > conduit->window.entries_max) {
        return PYDDSI_BAD_ARGUMENT;
    }
    int status =
        draining(conduit) ? PYDDSI_AGAIN : pdi_window_room(&conduit->window, size, numbers);
    if (status == PYDDSI_AGAIN && !conduit->draining) {
        /* Full: what waits must go, and the receivers must say how far they are. */
        conduit->draining = 1;
        conduit->flush = 1;
        conduit->synch =
            conduit->sent == conduit->window.next && conduit->synch == 0 ? 2 : conduit->synch;
        wake(node, conduit);
    }
    return status;
}

int pdi_reliable_reserve(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t size,
                         uint32_t numbers, struct pdi_loan *loan)
{
    int status = pdi_reliable_room(node, conduit, size, numbers);
    return status == PYDDSI_OK ? pdi_window_reserve(&conduit->window, size, numbers, loan) : status;
}

static void end_lost(struct pdi_node *node, const struct pdi_conduit *conduit, pdi_time now);

uint64_t pdi_reliable_commit(struct pdi_node *node, struct pdi_conduit *conduit,
                             const struct pdi_loan *loan, uint32_t size, uint32_t piece,
                             const struct pdi_entry *model, pdi_time now)
{
    struct pdi_window_span before = pdi_window_span(&conduit->window);
    uint64_t first = pdi_window_commit(&conduit->window, loan, size, piece, model);
    uint64_t next = conduit->window.next;
    node->stats.owed += (next - first) * conduit->members;
    if (before.next ==
        before.base) { /* an empty window: from here the receivers have something to say */
        conduit->synch_point = now;
        conduit->synch_wait = node->config.synch_ms * PDI_TIME_MS;
        for (uint32_t peer = 0; conduit->peer == PDI_NONE && peer < node->peers_used; peer++) {
            pdi_node_member(node, conduit, peer)->progress = now;
        }
        if (conduit->peer != PDI_NONE) {
            pdi_node_member(node, conduit, conduit->peer)->progress = now;
        }
    }
    if (pdi_heap_get(&node->timers, pdi_timer_conduit(node, conduit->number)) == PDI_TIME_NEVER) {
        pdi_timer_set(node, pdi_timer_conduit(node, conduit->number),
                      pdi_time_add(now, conduit->synch_wait));
    }
    if (conduit->detached != 0 && ((first ^ next) & ~(node->seq.half / 16 - 1)) != 0) {
        end_lost(node, conduit, now); /* every sixteenth of half a circle is often enough */
    }
    for (uint64_t number = first; number != next; number++) {
        const struct pdi_entry *entry = pdi_window_entry(&conduit->window, (uint32_t)number);
        conduit->waiting += pdi_pack_size(node, conduit, entry, number);
    }
    if (conduit->members == 0) {
        /* Nobody is to have it, so nobody will acknowledge it. */
        (void)pdi_window_ack(&conduit->window, (uint32_t)next);
        conduit->sent = next;
        conduit->waiting = 0;
        return first;
    }
    if (node->config.latency_us == 0 || conduit->waiting >= node->config.packet_max) {
        conduit->flush = conduit->flush || node->config.latency_us == 0;
        wake(node, conduit);
    } else if (conduit->flush_at == PDI_TIME_NEVER) {
        conduit->flush_at = pdi_time_add(now, node->config.latency_us * PDI_TIME_US);
        if (conduit->flush_at <
            pdi_heap_get(&node->timers, pdi_timer_conduit(node, conduit->number))) {
            pdi_timer_set(node, pdi_timer_conduit(node, conduit->number), conduit->flush_at);
        }
    }
    return first;
}

/* ---- members ---- */

/* Moves the base to the least that anybody still needs. */
static void release(struct pdi_node *node, struct pdi_conduit *conduit)
{
    uint64_t least = conduit->window.next;
    if (conduit->peer != PDI_NONE) {
        const struct pdi_member *member = pdi_node_member(node, conduit, conduit->peer);
        least = member->joined ? member->acked : least;
    } else if (conduit->members != 0) {
        for (uint32_t peer = 0; peer < node->peers_used; peer++) {
            const struct pdi_member *member = pdi_node_member(node, conduit, peer);
            if (member->joined && !member->detached && member->acked < least) {
                least = member->acked;
            }
        }
    }
    if ((uint32_t)least != pdi_window_span(&conduit->window).base &&
        pdi_window_ack(&conduit->window, (uint32_t)least) == PYDDSI_OK) {
        conduit->synch_wait = node->config.synch_ms * PDI_TIME_MS;
        node->kick = 1; /* a guard, or a shelf, may wait for this room */
        for (uint32_t i = 0; node->moves_used != 0 && i < PDI_MOVES_MAX; i++) {
            struct pdi_move *move = &node->moves[i];
            if (move->used && move->on == conduit->number && move->number < least) {
                move->used = 0;
                node->moves_used--;
            }
        }
    }
    if (conduit->sent < least) {
        conduit->sent = least;
    }
}

void pdi_reliable_join(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t peer,
                       pdi_time now)
{
    struct pdi_member *member = pdi_node_member(node, conduit, peer);
    *member = (struct pdi_member){.acked = conduit->window.next, .progress = now, .joined = 1};
    conduit->members++;
    uint32_t bit = conduit->peer == PDI_NONE ? conduit->number : node->config.multicasts;
    struct pdi_node_peer *who = &node->peers[peer];
    who->synchs |= UINT64_C(1) << bit;
    who->unsure |= UINT64_C(1) << bit;
    who->unsure_wait = node->config.synch_ms * PDI_TIME_MS;
    who->unsure_at = pdi_time_add(now, who->unsure_wait);
    pdi_bitset_set(node->talk, peer);
}

/* What this member has not acknowledged will not be asked for any more. */
static void forgive(struct pdi_node *node, struct pdi_conduit *conduit, struct pdi_member *member,
                    enum pyddsi_reason reason, pdi_time now)
{
    uint64_t base = base_of(conduit);
    if (!member->detached) { /* what a detached one owes is off the books already */
        node->stats.forgiven += conduit->window.next - member->acked;
    }
    for (uint64_t number = member->acked; number != conduit->window.next;
         number++) { /* at most the window */
        const struct pdi_entry *entry = pdi_window_entry(&conduit->window, (uint32_t)number);
        if (number < base) {
            /* the window is past it already (it was detached): what it was is forgotten */
            pdi_drop(node, PYDDSI_AT_WINDOW, reason, 0, 0, base - number, now);
            number = base - 1;
        } else if (entry->kind == PYDDSI_SDATA || entry->kind == PYDDSI_BDATA ||
                   entry->kind == PYDDSI_WDATA) {
            pdi_drop(node, PYDDSI_AT_WINDOW, reason, entry->space,
                     (entry->flags & PYDDSI_A) != 0 ? entry->data_id : entry->id, 1, now);
        }
    }
    member->acked = conduit->window.next;
}

void pdi_reliable_leave(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t peer,
                        enum pyddsi_reason reason, pdi_time now)
{
    struct pdi_member *member = pdi_node_member(node, conduit, peer);
    if (!member->joined) {
        return;
    }
    forgive(node, conduit, member, reason, now);
    conduit->members -= !member->detached;
    conduit->detached -= member->detached;
    *member = (struct pdi_member){0};
    release(node, conduit);
}

/* A member that was detached holds the window again once it has all there is. */
static void reattach(struct pdi_conduit *conduit, struct pdi_member *member, pdi_time now)
{
    if (member->detached && member->acked == conduit->window.next) {
        member->detached = 0;
        member->progress = now;
        conduit->members++;
        conduit->detached--;
    }
}

static void detach_slow(struct pdi_node *node, struct pdi_conduit *conduit, pdi_time now)
{
    if (conduit->peer != PDI_NONE || conduit->members < 2 || node->config.slow_ms == 0) {
        return;
    }
    uint64_t base = base_of(conduit);
    pdi_time limit = node->config.slow_ms * PDI_TIME_MS;
    bool others_wait = false;
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        const struct pdi_member *member = pdi_node_member(node, conduit, peer);
        others_wait = others_wait || (member->joined && !member->detached && member->acked > base);
    }
    for (uint32_t peer = 0; others_wait && conduit->members > 1 && peer < node->peers_used;
         peer++) {
        struct pdi_member *member = pdi_node_member(node, conduit, peer);
        if (member->joined && !member->detached && member->acked == base &&
            now - member->progress >= limit) {
            member->detached = 1;
            conduit->members--;
            conduit->detached++;
            pyddsi_event *event = pdi_event_push(node, PYDDSI_DETACHED, now);
            pdi_event_peer(node, event, peer);
            event->conduit = conduit->id;
            event->first = member->acked;
            event->last = conduit->window.next - 1;
            node->stats.owed -= conduit->window.next - member->acked;
        }
    }
    release(node, conduit);
}

/* A detached member that is a quarter of the circle behind could soon no longer tell old numbers from new ones: its session
 * ends, and it begins anew. What it lacks is written down. */
static void end_lost(struct pdi_node *node, const struct pdi_conduit *conduit, pdi_time now)
{
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        const struct pdi_member *member = pdi_node_member(node, conduit, peer);
        if (member->joined && member->detached &&
            conduit->window.next - member->acked >= node->seq.half / 2) {
            pdi_session_end(node, peer, 3, 3 + 1, now);
        }
    }
}

/* ---- ACKNACK ---- */

static struct pdi_conduit *conduit_of(struct pdi_node *node, uint32_t peer, uint64_t id)
{
    if (id == node->config.multicasts) {
        return pdi_node_unicast(node, peer);
    }
    return id < node->config.multicasts ? &node->out[id] : NULL;
}

static void acknowledged(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t peer,
                         uint64_t number, pdi_time now)
{
    struct pdi_member *member = pdi_node_member(node, conduit, peer);
    if (!member->joined || number <= member->acked) {
        return;
    }
    if (conduit->timed != 0 && member->acked < conduit->timed && number >= conduit->timed) {
        pdi_time took = now - conduit->timed_at;
        if (took <
            4 * node->peers[peer]
                    .rtt
                    .smooth) { /* longer: it waited for its reader, and says nothing about the way */
            pdi_rtt_sample(&node->peers[peer].rtt, took);
        }
    }
    if (!member->detached) {
        node->stats.acknowledged += number - member->acked;
    }
    member->acked = number;
    member->progress = now;
    reattach(conduit, member, now);
    release(node, conduit);
    if (conduit->timed != 0 && base_of(conduit) >= conduit->timed) {
        conduit->timed = 0;
    }
}

/* Marks what is asked for and was not sent again a moment ago. */
static void wanted(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t peer,
                   uint64_t number, uint64_t mask, pdi_time now)
{
    uint64_t base = base_of(conduit);
    pdi_time rtt = node->peers[peer].rtt.smooth;
    uint32_t pause = (uint32_t)((rtt - rtt / 8) / PDI_TIME_US);
    uint32_t now_us = (uint32_t)(now / PDI_TIME_US);
    uint64_t from = UINT64_MAX;
    for (unsigned i = 0; i <= 64; i++) {
        uint64_t one = number + i;
        if ((i != 0 && (mask >> (i - 1) & 1) == 0) || one < base) {
            continue;
        }
        if (one >= conduit->sent) {
            break; /* ahead of the writer: there is nothing to send */
        }
        struct pdi_entry *entry = pdi_window_entry(&conduit->window, (uint32_t)one);
        bool recent = (entry->mark & PDI_MARK_RESENT) != 0 && now_us - entry->sent_us < pause;
        if ((entry->mark & PDI_MARK_WANTED) == 0 && !recent) {
            entry->mark |= PDI_MARK_WANTED;
            conduit->wanted++;
            from = from == UINT64_MAX ? one : from;
        }
    }
    if (from != UINT64_MAX) {
        conduit->wanted_from =
            conduit->wanted == 0 || from < conduit->wanted_from ? from : conduit->wanted_from;
        wake(node, conduit);
    }
}

void pdi_reliable_acknack(struct pdi_node *node, uint32_t peer, const pyddsi_message *message,
                          pdi_time now)
{
    struct pdi_conduit *conduit = conduit_of(node, peer, message->conduit);
    bool nack = (message->flags & PYDDSI_M) != 0;
    node->stats.acks_in++;
    node->stats.nacks_in += nack;
    if (conduit == NULL || !conduit->open) {
        pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_UNSUPPORTED, 0, 0, 1, now);
        return;
    }
    uint64_t next = conduit->window.next;
    uint64_t base = base_of(conduit);
    node->peers[peer].unsure &= ~(UINT64_C(1) << message->conduit);
    uint64_t ahead = (next - message->sn) & node->seq.mask; /* how far behind next it is */
    const struct pdi_member *member = pdi_node_member(node, conduit, peer);
    uint64_t least = member->joined && member->acked < base ? member->acked : base;
    if (next - least >=
        node->seq.half) { /* a detached one, so far behind that its numbers mean nothing */
        least = base;
    }
    if (ahead > next - least) {
        /* Before what the window holds, or after what was ever written: tell where we are. */
        node->peers[peer].tells |= UINT64_C(1) << message->conduit;
        pdi_bitset_set(node->talk, peer);
        return;
    }
    uint64_t number = next - ahead;
    acknowledged(node, conduit, peer, number < conduit->sent ? number : conduit->sent, now);
    if (nack) {
        if (number < base) {
            node->peers[peer].tells |= UINT64_C(1) << message->conduit;
            pdi_bitset_set(node->talk, peer);
        }
        wanted(node, conduit, peer, number, message->mask, now);
    }
}

/* ---- timers ---- */

/* Members of a group that have not moved for several SYNCHs may not have begun at all (an acknowledgement that was late by
 * a session looked as if they had): they are told where to begin. */
static void remind(struct pdi_node *node, const struct pdi_conduit *conduit)
{
    uint64_t base = base_of(conduit);
    if (conduit->peer != PDI_NONE ||
        conduit->synch_wait < 4 * PDI_TIME_MS * node->config.synch_ms) {
        return;
    }
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        const struct pdi_member *member = pdi_node_member(node, conduit, peer);
        if (member->joined && (member->detached ? member->acked != conduit->window.next : member->acked == base)) {
            node->peers[peer].synchs |= UINT64_C(1) << conduit->number;
            pdi_bitset_set(node->talk, peer);
        }
    }
}

/* The flush of what waits for company, and the SYNCH that asks. */
void pdi_reliable_timer(struct pdi_node *node, struct pdi_conduit *conduit, pdi_time now)
{
    pdi_time due = PDI_TIME_NEVER;
    if (!conduit->open) {
        return;
    }
    if (conduit->flush_at <= now) {
        conduit->flush = 1;
        conduit->flush_at = PDI_TIME_NEVER;
        wake(node, conduit);
    }
    if (conduit->draft_size != 0 && conduit->draft_at <= now) {
        wake(node, conduit);
    }
    due = conduit->flush_at;
    if (conduit->draft_size != 0 && conduit->draft_at > now && conduit->draft_at < due) {
        due = conduit->draft_at;
    }
    detach_slow(node, conduit, now);
    struct pdi_window_span span = pdi_window_span(&conduit->window);
    if (span.next != span.base) {
        pdi_time ask = pdi_time_add(conduit->synch_point, conduit->synch_wait);
        if (ask <= now) {
            if (conduit->sent != conduit->window.next) {
                conduit->flush = 1; /* the message itself asks as well */
            } else {
                conduit->synch = 2;
            }
            wake(node, conduit);
            conduit->synch_point = now;
            remind(node, conduit);
            pdi_time slowest = PDI_SYNCH_SLOWEST_MS * PDI_TIME_MS;
            pdi_time least = node->config.synch_ms * PDI_TIME_MS;
            conduit->synch_wait =
                conduit->synch_wait * 2 < slowest ? conduit->synch_wait * 2 : slowest;
            conduit->synch_wait = conduit->synch_wait < least ? least : conduit->synch_wait;
            ask = pdi_time_add(now, conduit->synch_wait);
        }
        due = ask < due ? ask : due;
    } else if (conduit->detached != 0) {
        remind(node, conduit); /* the window is empty without them; they may not know what they lack */
        pdi_time again = pdi_time_add(now, PDI_SYNCH_SLOWEST_MS * PDI_TIME_MS);
        due = again < due ? again : due;
    }
    pdi_timer_set(node, pdi_timer_conduit(node, conduit->number), due);
}
