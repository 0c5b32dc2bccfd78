/* member.c - those for whom a window is kept.
 *
 * The base is the least of what the members that hold the window have acknowledged. Everybody who joins starts at next and
 * owes nothing; everybody who leaves is no longer waited for, and what he had not acknowledged is written in the ledger:
 * owed = acknowledged + forgiven + in flight, at every moment.
 *
 * A member that does not move for slow_ms while others share the window with it is detached: it still hears everything and
 * is served while the window holds what it asks for, but the window does not wait for it. What it misses it reports
 * itself, as a gap: it begins where it joined, even if the window is past that by now. (For a zhe peer, which reports nothing,
 * it is written here when it asks for what is gone.) When it has caught up it holds the window again. (One that has the
 * window for itself is never detached: there is nobody to be protected from it, and its writer waits. But if a writer has more
 * readers by now, and cannot go over to their group for its sake, its session ends: it begins anew, as a member like them.)
 */
#include "node/state.h"

/* Moves the base to the least that anybody still needs. */
void pdi_member_release(struct pdi_node *node, struct pdi_conduit *conduit)
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

/* zhe reads a group and what is sent to it alone from two sockets, in either order. A SYNCH that says less than it knows makes it
 * step back, and take again what it is sent again. So what a group's SYNCH says to zhe goes the way of the group, behind the
 * messages that it counts. Others tell the two apart, and get what concerns them alone. */
void pdi_member_synch(struct pdi_node *node, uint32_t peer, uint64_t conduits, bool asks)
{
    struct pdi_node_peer *who = &node->peers[peer];
    for (uint32_t i = 0; who->features == 0 && i < node->config.multicasts; i++) {
        struct pdi_conduit *group = &node->out[i];
        if ((conduits >> i & 1) != 0) {
            group->synch = asks ? 2 : group->synch != 0 ? group->synch : 1;
            pdi_bitset_set(node->work, group->number);
            conduits &= ~(UINT64_C(1) << i);
        }
    }
    if (asks) {
        who->synchs |= conduits;
    } else {
        who->tells |= conduits;
    }
    if (conduits != 0) {
        pdi_bitset_set(node->talk, peer);
    }
}

/* The base that a group's SYNCH says: the window's, or, since zhe jumps to it without a word and then acknowledges what it never
 * had, what a detached one may lack. It asks for that, and so says what it lacks (pdi_member_missed). */
uint64_t pdi_member_base(const struct pdi_node *node, const struct pdi_conduit *conduit)
{
    uint64_t base = pdi_conduit_base(conduit);
    if (conduit->peer != PDI_NONE || conduit->detached == 0) {
        return base;
    }
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        const struct pdi_member *member = pdi_node_member(node, conduit, peer);
        bool silent = member->joined && member->detached && node->peers[peer].features == 0;
        base = silent && member->acked < base ? member->acked : base;
    }
    return base;
}

/* A member is told where it is to go on, until it acknowledges that. */
void pdi_member_tell_where(struct pdi_node *node, const struct pdi_conduit *conduit, uint32_t peer,
                           pdi_time now)
{
    uint64_t bit = UINT64_C(1) << pdi_conduit_bit(node, conduit);
    struct pdi_node_peer *who = &node->peers[peer];
    who->unsure |= bit;
    who->unsure_wait = node->config.synch_ms * PDI_TIME_MS;
    who->unsure_at = pdi_time_add(now, who->unsure_wait);
    pdi_timer_set(node, pdi_timer_peer(peer), now); /* which looks at unsure_at */
    pdi_member_synch(node, peer, bit, true);
}

void pdi_member_join(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t peer,
                     pdi_time now)
{
    struct pdi_member *member = pdi_node_member(node, conduit, peer);
    uint64_t next = conduit->window.next;
    *member = (struct pdi_member){.from = next, .acked = next, .progress = now, .joined = 1};
    conduit->level = conduit->peer == PDI_NONE;
    conduit->members++;
    pdi_member_tell_where(node, conduit, peer, now);
}

/* What the window is past, and this member does not have, is gone. */
static void write_lost(struct pdi_node *node, const struct pdi_conduit *conduit,
                       const struct pdi_member *member, enum pyddsi_reason reason, pdi_time now)
{
    uint64_t base = pdi_conduit_base(conduit);
    if (member->acked < base) {
        pdi_drop(node, PYDDSI_AT_WINDOW, reason, 0, 0, base - member->acked, now);
    }
}

/* What this member has not acknowledged will not be asked for any more. */
static void forgive(struct pdi_node *node, struct pdi_conduit *conduit, struct pdi_member *member,
                    enum pyddsi_reason reason, pdi_time now)
{
    uint64_t base = pdi_conduit_base(conduit);
    if (!member->detached) { /* what a detached one owes is off the books already */
        node->stats.forgiven += conduit->window.next - member->acked;
    }
    write_lost(node, conduit, member, reason, now);
    uint64_t number = member->acked > base ? member->acked : base;
    for (; number != conduit->window.next; number++) { /* at most the window */
        const struct pdi_entry *entry = pdi_window_entry(&conduit->window, (uint32_t)number);
        if (entry->kind == PYDDSI_SDATA || entry->kind == PYDDSI_BDATA ||
            entry->kind == PYDDSI_WDATA) {
            pdi_drop(node, PYDDSI_AT_WINDOW, reason, entry->space,
                     (entry->flags & PYDDSI_A) != 0 ? entry->data_id : entry->id,
                     pdi_pack_samples(entry, conduit->window.memory + entry->at), now);
        }
    }
    member->acked = conduit->window.next;
}

/* Only detached members are left, and nobody to be protected from them: they hold the window again. What
 * it has lost already is written down here. */
static void take_back(struct pdi_node *node, struct pdi_conduit *conduit, pdi_time now)
{
    uint64_t base = pdi_conduit_base(conduit);
    conduit->level = 1;
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        struct pdi_member *member = pdi_node_member(node, conduit, peer);
        if (!member->joined || !member->detached) {
            continue;
        }
        if (member->acked < base) { /* its session may end before it can say what it lacks */
            write_lost(node, conduit, member, PYDDSI_BY_GAP, now);
            member->acked = base;
        }
        member->detached = 0;
        member->progress = now;
        conduit->detached--;
        conduit->members++;
        node->stats.owed += conduit->window.next - member->acked;
        pdi_member_tell_where(node, conduit, peer, now);
    }
}

void pdi_member_leave(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t peer,
                      enum pyddsi_reason reason, pdi_time now)
{
    struct pdi_member *member = pdi_node_member(node, conduit, peer);
    if (!member->joined) {
        return;
    }
    forgive(node, conduit, member, reason, now);
    conduit->members -= !member->detached;
    conduit->detached -= member->detached;
    pdi_repeat_forget(conduit, member);
    *member = (struct pdi_member){0};
    if (conduit->members == 0 && conduit->detached != 0) {
        take_back(node, conduit, now);
    }
    pdi_member_release(node, conduit);
}

/* A member that was detached holds the window again once it has all there is. */
void pdi_member_reattach(struct pdi_conduit *conduit, struct pdi_member *member, pdi_time now)
{
    if (member->detached && member->acked == conduit->window.next) {
        member->detached = 0;
        member->progress = now;
        conduit->members++;
        conduit->detached--;
    }
}

/* One without extensions, that reports nothing, asks for what is gone. If it is detached, that is written down here, once, when
 * it has asked for the same for some time: what was sent again may still lie in its socket. Then it is told to go on. */
void pdi_member_missed(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t peer,
                       uint64_t number, pdi_time now)
{
    struct pdi_member *member = pdi_node_member(node, conduit, peer);
    struct pdi_node_peer *who = &node->peers[peer];
    uint64_t bit = UINT64_C(1) << pdi_conduit_bit(node, conduit);
    pdi_time pause = 2 * PDI_TIME_MS * node->config.synch_ms;
    if (!member->detached || number != member->acked) {
        pdi_member_synch(node, peer, bit, false);
        return;
    }
    if (member->missing_at == 0) {
        member->missing_at = now;
    }
    if (now - member->missing_at >= pause) {
        write_lost(node, conduit, member, PYDDSI_BY_GAP, now);
        member->acked = pdi_conduit_base(conduit);
        member->missing_at = 0;
        pdi_member_synch(node, peer, bit, true);
        pdi_member_reattach(conduit, member, now);
        return;
    }
    who->unsure |= bit; /* it is asked again then */
    who->unsure_wait = pause;
    who->unsure_at = pdi_time_add(member->missing_at, pause);
    pdi_timer_set(node, pdi_timer_peer(peer), now);
}

/* A message has come after the last one that some members have. They owe from now on, however long they had nothing to say
 * because others held the window. And they are asked as soon as if the window had been empty: those who are silent must
 * not make us slow in asking those who answer. (Never later than it would have been.) */
void pdi_member_begin_owing(struct pdi_node *node, struct pdi_conduit *conduit, uint64_t first,
                            pdi_time now)
{
    bool any = false;
    conduit->level = 0;
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        struct pdi_member *member = pdi_node_member(node, conduit, peer);
        if (member->joined && member->acked == first) {
            member->progress = now;
            any = true;
        }
    }
    pdi_time wait = node->config.synch_ms * PDI_TIME_MS;
    if (any && pdi_time_add(now, wait) < pdi_time_add(conduit->synch_point, conduit->synch_wait)) {
        uint32_t timer = pdi_timer_conduit(node, conduit->number);
        conduit->synch_point = now;
        conduit->synch_wait = wait;
        if (pdi_time_add(now, wait) < pdi_heap_get(&node->timers, timer)) {
            pdi_timer_set(node, timer, pdi_time_add(now, wait));
        }
    }
}

/* A publisher waits for the one reader that it had, before it can write to several (plan.c). */
static void end_if_in_the_way(struct pdi_node *node, const struct pdi_conduit *conduit,
                              pdi_time now)
{
    pdi_time limit = pdi_session_patience(node, conduit->peer, now);
    const struct pdi_member *member = pdi_node_member(node, conduit, conduit->peer);
    for (uint32_t i = 0; i < node->publishers_used; i++) {
        const struct pdi_publisher *publisher = &node->publishers[i];
        pdi_time since =
            publisher->move_since > member->progress ? publisher->move_since : member->progress;
        if (publisher->used && publisher->move_after == conduit->number + 1 &&
            publisher->move_since != 0 && member->acked < publisher->move_number &&
            now - since >= limit) {
            pdi_session_end(node, conduit->peer, 3, 3 + 1, now);
            return;
        }
    }
}

void pdi_member_detach_slow(struct pdi_node *node, struct pdi_conduit *conduit, pdi_time now)
{
    uint64_t base = pdi_conduit_base(conduit);
    if (node->config.slow_ms == 0) {
        return;
    }
    if (conduit->peer != PDI_NONE && base != conduit->window.next) {
        end_if_in_the_way(node, conduit, now);
        pdi_skip_slow(node, conduit, now);
    }
    if (conduit->peer != PDI_NONE || conduit->members < 2) {
        return;
    }
    bool others_wait = false;
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        const struct pdi_member *member = pdi_node_member(node, conduit, peer);
        others_wait = others_wait || (member->joined && !member->detached && member->acked > base);
    }
    for (uint32_t peer = 0; others_wait && conduit->members > 1 && peer < node->peers_used;
         peer++) {
        struct pdi_member *member = pdi_node_member(node, conduit, peer);
        if (member->joined && !member->detached && member->acked == base &&
            now - member->progress >= pdi_session_patience(node, peer, now)) {
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
    pdi_member_release(node, conduit);
}

/* A detached member that is a quarter of the circle behind could soon no longer tell old numbers from new ones: its session
 * ends, and it begins anew. What it lacks is written down. */
void pdi_member_end_lost(struct pdi_node *node, const struct pdi_conduit *conduit, pdi_time now)
{
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        const struct pdi_member *member = pdi_node_member(node, conduit, peer);
        if (member->joined && member->detached &&
            conduit->window.next - member->acked >= node->peers[peer].seq.half / 2) {
            pdi_session_end(node, peer, 3, 3 + 1, now);
        }
    }
}

/* Members of a group that have not moved for several SYNCHs may not have begun at all (an acknowledgement that was late by
 * a session looked as if they had): they are told where to begin. */
void pdi_member_remind(struct pdi_node *node, const struct pdi_conduit *conduit)
{
    uint64_t base = pdi_conduit_base(conduit);
    bool patient = conduit->synch_wait < 4 * PDI_TIME_MS * node->config.synch_ms;
    if (conduit->peer != PDI_NONE || (conduit->detached == 0 && patient)) {
        return;
    }
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        const struct pdi_member *member = pdi_node_member(node, conduit, peer);
        if (member->joined &&
            (member->detached ? member->acked != conduit->window.next : member->acked == base)) {
            pdi_member_synch(node, peer, UINT64_C(1) << conduit->number, true);
        }
    }
}

/* A member that has acknowledged nothing for several SYNCHs, though it owes something and messages go out all the time, may not
 * hear the group: it is told by its own address how far the sender is, and less and less often while nothing comes of it. */
void pdi_member_remind_silent(struct pdi_node *node, const struct pdi_conduit *conduit,
                              pdi_time now)
{
    pdi_time slowest = PDI_SYNCH_SLOWEST_MS * PDI_TIME_MS;
    for (uint32_t peer = 0; conduit->peer == PDI_NONE && peer < node->peers_used; peer++) {
        struct pdi_member *member = pdi_node_member(node, conduit, peer);
        pdi_time since = member->reminded > member->progress ? member->reminded : member->progress;
        pdi_time wait =
            4 * PDI_TIME_MS * node->config.synch_ms + 2 * pdi_rtt_wait(&node->peers[peer].rtt);
        uint32_t doublings = member->reminders < 8 ? member->reminders : 8;
        wait = wait << doublings < slowest ? wait << doublings : wait < slowest ? slowest : wait;
        if (member->joined && !member->detached && member->acked < conduit->sent &&
            node->peers[peer].features != 0 && now - since >= wait) {
            member->reminded = now;
            member->reminders++;
            pdi_member_synch(node, peer, UINT64_C(1) << conduit->number, true);
        }
    }
}
