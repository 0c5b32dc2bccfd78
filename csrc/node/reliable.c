/* reliable.c - the sender's half of reliability: room, acknowledgements, and asking.
 *
 *        base                      sent          next
 *    ─────┼────────────────────────┼──────────────┼────
 *         │  sent, not acknowledged │  not yet sent│
 *    member A acked ──┘        └── member B acked
 *
 * Who the members are and how far they are is member.c's, and what goes once more, and to whom, repeat.c's.
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
uint64_t pdi_conduit_base(const struct pdi_conduit *conduit)
{
    struct pdi_window_span span = pdi_window_span(&conduit->window);
    return conduit->window.next - ((uint32_t)conduit->window.next - span.base);
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
    uint32_t entries = conduit->numbers_max;
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
    if (size > conduit->window.size || numbers > conduit->numbers_max) {
        return PYDDSI_BAD_ARGUMENT;
    }
    struct pdi_window_span span = pdi_window_span(&conduit->window);
    bool many = span.next - span.base > conduit->numbers_max - numbers;
    int status =
        draining(conduit) || many ? PYDDSI_AGAIN : pdi_window_room(&conduit->window, size, numbers);
    if (status == PYDDSI_AGAIN && !conduit->draining) {
        /* Full: what waits must go, and the receivers must say how far they are. */
        conduit->draining = 1;
        conduit->full = node->now;
        conduit->flush = 1;
        if (conduit->sent == conduit->window.next && conduit->unsynched != 0) {
            conduit->synch = 2; /* else they have been asked */
        }
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

uint64_t pdi_reliable_commit(struct pdi_node *node, struct pdi_conduit *conduit,
                             const struct pdi_loan *loan, uint32_t size, uint32_t piece,
                             const struct pdi_entry *model, pdi_time now)
{
    struct pdi_window_span before = pdi_window_span(&conduit->window);
    struct pdi_entry plain;
    if (conduit->features == 0) {
        plain = pdi_way_plain(node, conduit, model);
        model = &plain;
    }
    uint64_t first = pdi_window_commit(&conduit->window, loan, size, piece, model);
    uint64_t next = conduit->window.next;
    node->stats.owed += (next - first) * conduit->members;
    if (before.next ==
        before.base) { /* an empty window: from here the receivers have something to say */
        conduit->synch_point = now;
        conduit->synch_wait = node->config.synch_ms * PDI_TIME_MS;
    }
    if (conduit->level) {
        pdi_member_begin_owing(node, conduit, first, now);
    }
    if (pdi_heap_get(&node->timers, pdi_timer_conduit(node, conduit->number)) == PDI_TIME_NEVER) {
        pdi_timer_set(node, pdi_timer_conduit(node, conduit->number),
                      pdi_time_add(now, conduit->synch_wait));
    }
    if (conduit->detached != 0 && ((first ^ next) & ~(conduit->seq.half / 16 - 1)) != 0) {
        pdi_member_end_lost(node, conduit,
                            now); /* every sixteenth of half a circle is often enough */
    }
    for (uint64_t number = first; number != next; number++) {
        const struct pdi_entry *entry = pdi_window_entry(&conduit->window, (uint32_t)number);
        conduit->waiting += pdi_pack_size(conduit, entry, number);
    }
    if (conduit->members == 0) {
        /* Nobody is to have it, so nobody will acknowledge it. */
        (void)pdi_window_ack(&conduit->window, (uint32_t)next);
        conduit->sent = next;
        conduit->waiting = 0;
        return first;
    }
    if (node->config.latency_us == 0 || conduit->waiting >= conduit->packet_max) {
        /* the last piece of a large sample gains nothing by waiting for company, and its reader waits for it */
        conduit->flush = conduit->flush || node->config.latency_us == 0 || size >= PDI_URGE_BYTES;
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

/* ---- ACKNACK ---- */

static struct pdi_conduit *conduit_of(struct pdi_node *node, uint32_t peer, uint64_t id)
{
    struct pdi_conduit *single = pdi_node_unicast(node, peer);
    if (id == single->id) {
        return single;
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
    pdi_repeat_arrived(node, conduit, peer, number, now);
    pdi_path_arrived(conduit, number);
    member->acked = number;
    member->begun = 1;
    member->progress = now;
    member->missing_at = 0;
    member->reminders = 0;
    conduit->level =
        conduit->level || (conduit->peer == PDI_NONE && number == conduit->window.next);
    pdi_member_reattach(conduit, member, now);
    pdi_member_release(node, conduit);
    if (conduit->skips) {
        pdi_skip_over(node, conduit, now);
    }
    if (conduit->timed != 0 && pdi_conduit_base(conduit) >= conduit->timed) {
        conduit->timed = 0;
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
    uint64_t base = pdi_conduit_base(conduit);
    uint64_t bit = UINT64_C(1) << pdi_conduit_bit(node, conduit);
    const struct pdi_seq *seq = &node->peers[peer].seq;
    uint64_t ahead = (next - message->sn) & seq->mask; /* how far behind next it is */
    struct pdi_member *member = pdi_node_member(node, conduit, peer);
    uint64_t knows = member->begun ? member->acked : member->from;
    uint64_t least = member->joined && knows < base ? knows : base;
    if (next - least >=
        seq->half) { /* a detached one, so far behind that its numbers mean nothing */
        least = base;
    }
    if (ahead > next - least) {
        /* Before what the window holds, or after what was ever written: tell where we are. */
        pdi_member_synch(node, peer, bit, false);
        return;
    }
    uint64_t number = next - ahead;
    if (number >= knows) { /* it knows where it is to go on */
        node->peers[peer].unsure &= ~bit;
        /* A late ACKNACK, of an earlier session, may say so; but then there was nothing to be asked for. */
        member->begun = member->begun || (nack && member->joined);
    }
    acknowledged(node, conduit, peer, number < conduit->sent ? number : conduit->sent, now);
    if (nack && member->joined) {
        if (number < base && node->peers[peer].features == 0) {
            pdi_member_missed(node, conduit, peer, number, now);
        } else if (number < base) {
            pdi_member_synch(node, peer, bit, false);
        }
        pdi_repeat_wanted(node, conduit, peer, number, message->mask, now);
    }
}

/* ---- timers ---- */

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
    pdi_member_detach_slow(node, conduit, now);
    pdi_member_remind_silent(node, conduit, now);
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
            pdi_member_remind(node, conduit);
            pdi_time slowest = PDI_SYNCH_SLOWEST_MS * PDI_TIME_MS;
            pdi_time least = node->config.synch_ms * PDI_TIME_MS;
            conduit->synch_wait =
                conduit->synch_wait * 2 < slowest ? conduit->synch_wait * 2 : slowest;
            conduit->synch_wait = conduit->synch_wait < least ? least : conduit->synch_wait;
            ask = pdi_time_add(now, conduit->synch_wait);
        }
        due = ask < due ? ask : due;
    } else if (conduit->detached != 0) {
        pdi_member_remind(
            node, conduit); /* the window is empty without them; they may not know what they lack */
        pdi_time again = pdi_time_add(now, PDI_SYNCH_SLOWEST_MS * PDI_TIME_MS);
        due = again < due ? again : due;
    }
    pdi_timer_set(node, pdi_timer_conduit(node, conduit->number), due);
}
