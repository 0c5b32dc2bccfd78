/* alive.c - the timers of sessions: asking again, giving up, signs of life.
 *
 * Whatever goes to all serves as a sign of life (SCOUT, data on a conduit where everybody is a member); a KEEPALIVE goes
 * only when there was nothing of the kind for a quarter of our lease. A lease that has run out ends the session; so does
 * nothing else here.
 *
 * An idle node is to sleep. So a SCOUT that would be due soon goes in the place of a KEEPALIVE, and leases are looked at
 * when one of these goes anyway: one waking for all. And the round trip is measured often only while there is traffic:
 * once it is known, and nothing was sent or delivered since the last PING, the peer rests until something is. Then a PING
 * every other lease still finds out whether it believes in this session, too.
 */
#include "node/state.h"
#include "wire/list.h"

/* Data and declarations, sent or delivered; what keeps sessions alive is not among them. */
static uint64_t traffic(const struct pdi_node *node)
{
    const pyddsi_stats *stats = &node->stats;
    return stats->owed + stats->sent_best + stats->resent + stats->delivered;
}

void pdi_session_rouse(struct pdi_node *node, pdi_time now)
{
    node->resting = 0;
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        struct pdi_node_peer *who = &node->peers[peer];
        if (who->rests && pdi_session_established(node, peer)) {
            who->rests = 0;
            who->ping_traffic = ~traffic(node); /* not idle: what roused it may not be counted */
            who->ping_next = now;
            pdi_timer_set(node, pdi_timer_peer(peer), now);
        }
    }
}

static void ping(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    if (who->ping_next > now) {
        return;
    }
    bool idle =
        who->ping == 0 && who->rtt.samples >= PDI_PINGS_FIRST && who->ping_traffic == traffic(node);
    if (idle && !who->rests) {
        uint64_t lease_ms = who->lease_ms != 0 ? who->lease_ms : PDI_REST_LEASE_MS;
        who->ping_next = pdi_time_add(now, 2 * lease_ms * PDI_TIME_MS);
        who->rests = 1;
        node->resting = 1;
        return;
    }
    who->rests = 0; /* the answer shows whether it may rest again */
    /* quickly at first, so that the estimate is good soon; and one at a time, however long the way is */
    pdi_time pause =
        PDI_TIME_MS * (who->rtt.samples < PDI_PINGS_FIRST ? PDI_PING_MS / 16 : PDI_PING_MS);
    who->ping_next = pdi_time_add(now, pause);
    if (who->ping != 0 && now - who->ping_at < who->ping_patience) {
        pdi_time lost = who->ping_at + who->ping_patience;
        who->ping_next = who->ping_next < lost ? lost : who->ping_next;
        return;
    }
    who->ping_traffic = traffic(node);
    pdi_time patience = PDI_PING_MS * PDI_TIME_MS;
    if (who->ping != 0 && 2 * who->ping_patience <= PDI_PING_LOST_MS * PDI_TIME_MS) {
        patience = 2 * who->ping_patience; /* it was lost; or the way is longer than we thought */
    }
    who->ping_patience = patience;
    who->ping = (uint16_t)(who->ping_at / PDI_TIME_US + now / PDI_TIME_US) | 1U;
    who->ping_at = now;
    node->stats.pings_out++;
    pdi_hello_reply(
        node, &(struct pdi_reply){.kind = PDI_REPLY_PING, .hash = who->ping, .to = who->endpoint});
}

/* ---- who is elsewhere ----
 *
 * Anybody can say an id. So a session is not moved to another address, nor given up for another one with the same id there,
 * as long as its peer answers where we know it. It is asked there by PINGs, and whatever comes from there is an answer. */

bool pdi_session_gone(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    if (who->asks == 0) {
        who->elsewhere.kind = 0;
        who->ask_at = who->astray = now;
        who->asks = 1;
        pdi_session_timer(node, peer, now);
    }
    return who->gone;
}

pdi_time pdi_session_patience(const struct pdi_node *node, uint32_t peer, pdi_time now)
{
    pdi_time limit = node->config.slow_ms * PDI_TIME_MS;
    pdi_time astray = node->peers[peer].astray;
    return astray != 0 && now - astray < limit ? 2 * limit : limit;
}

/* Asks once more, or knows. When to go on. */
static pdi_time ask(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    if (who->asks == 0 || who->gone) {
        return PDI_TIME_NEVER;
    }
    if (who->ask_at > now) {
        return who->ask_at;
    }
    if (who->asks > PDI_ASKS_MAX) {
        who->gone = 1;
        if (who->elsewhere.kind != 0) {
            pdi_session_move(node, peer, now);
        }
        return PDI_TIME_NEVER;
    }
    /* with a short lease sooner, or that would end it first */
    pdi_time pause = PDI_ASK_MS * PDI_TIME_MS;
    pdi_time part = who->lease_ms * PDI_TIME_MS / (UINT64_C(4) * PDI_ASKS_MAX);
    pause = part != 0 && part < pause ? part : pause;
    pdi_time round = pdi_rtt_wait(&who->rtt);
    who->ask_at = pdi_time_add(now, pause < round ? round : pause);
    who->asks++;
    pdi_hello_reply(node,
                    &(struct pdi_reply){.kind = PDI_REPLY_PING, .hash = 1, .to = who->endpoint});
    return who->ask_at;
}

/* Its group may not reach us, though it is there: who has been silent for three quarters of its lease is asked. Answers when
 * that is. */
static pdi_time ask_the_silent(const struct pdi_node *node, struct pdi_node_peer *who, pdi_time now)
{
    pdi_time at = pdi_time_add(who->heard, who->lease_ms * PDI_TIME_MS / 4 * 3);
    if (who->lease_ms == 0) {
        return PDI_TIME_NEVER;
    }
    if (at <= now && who->ping_at < at) {
        who->ping_next = now;
        who->ping_traffic = ~traffic(node); /* not idle */
    }
    return at;
}

/* Tells a peer again where those of our conduits stand of which it may not know it. Answers when that is due next. */
static pdi_time repeat_unsure(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    if (who->unsure != 0 && who->unsure_at <= now) {
        pdi_time slowest = 4 * PDI_TIME_MS * node->config.synch_ms;
        pdi_member_synch(node, peer, who->unsure, true);
        who->unsure_wait = who->unsure_wait * 2 < slowest ? who->unsure_wait * 2 + 1 : slowest;
        who->unsure_at = pdi_time_add(now, who->unsure_wait);
    }
    return who->unsure != 0 ? who->unsure_at : PDI_TIME_NEVER;
}

/* ---- a session of zhe that goes on where ours has begun ----
 *
 * Who restarts within his lease is taken by zhe for the one he was: it goes on in its session, and never repeats what it
 * declared. Its result for a commit of ours shows which of its conduits is for us alone, and the first SYNCH there that
 * it does not begin at 0. A CLOSE then makes it begin anew; only once, whatever comes of it. (A group's numbers say
 * nothing: others have heard them too. Conduit 0 may be a group's even for results.) */

void pdi_session_early(struct pdi_node *node, uint32_t peer, uint32_t conduit,
                       const pyddsi_message *message)
{
    struct pdi_node_peer *who = &node->peers[peer];
    pyddsi_declaration declaration;
    if (message->kind != PYDDSI_DECLARE || who->session != 0 || who->renewed || conduit == 0) {
        return;
    }
    pyddsi_list list = message->declarations;
    while (pdi_list_declaration(&list, &declaration) == PYDDSI_OK) { /* its bytes at most */
        who->results |= (uint64_t)(declaration.kind == PYDDSI_RESULT) << conduit;
    }
}

bool pdi_session_outdated(struct pdi_node *node, uint32_t peer, uint32_t conduit,
                          const pyddsi_message *message)
{
    struct pdi_node_peer *who = &node->peers[peer];
    uint64_t count = (message->flags & PYDDSI_U) != 0 ? message->count : 0;
    bool goes_on = (who->results >> conduit & 1) != 0 && message->sn != (count & who->seq.mask);
    who->renewed = who->renewed || goes_on;
    return goes_on;
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
            pdi_session_say(node, PDI_REPLY_OPEN, peer);
            due = who->open_at = pdi_time_add(now, node->config.open_ms * PDI_TIME_MS);
        } else {
            pdi_session_undo(node, peer);
            return;
        }
    } else if (view.state == PDI_PEER_ESTABLISHED) {
        if (view.deadline_ms != 0 && pdi_peer_expire(&who->word, pdi_node_ms(now)) == PYDDSI_OK) {
            who->reason = PYDDSI_END_LEASE;
            who->farewell = 0 + 1;
            pdi_bitset_set(node->ended, peer);
            (void)pdi_session_reap(node, peer, now);
            return;
        }
        pdi_time silent = ask_the_silent(node, who, now);
        ping(node, peer, now);
        pdi_time asking = ask(node, peer, now);
        bool rides = who->rests && node->config.lease_ms != 0; /* with the next sign of life */
        due = rides ? PDI_TIME_NEVER : who->ping_next;
        due = silent > now && silent < due ? silent : due;
        if (who->again_at != 0 && who->again_at <= now &&
            pdi_registry_contested(node->registry, peer)) {
            node->kick = 1;
        } else if (who->again_at > now && who->again_at < due) {
            due = who->again_at;
        }
        pdi_time unsure = repeat_unsure(node, peer, now);
        due = unsure < due ? unsure : due;
        due = asking < due ? asking : due;
        if (who->probes != 0 && who->open_at <= now) {
            if (--who->probes == 0) { /* it does not say that it knows this session: it is over */
                pdi_session_end(node, peer, PYDDSI_END_RESTART, 0 + 1, now);
                (void)pdi_session_reap(node, peer, now);
                return;
            }
            who->astray = now;
            who->open_at = pdi_time_add(now, node->config.open_ms * PDI_TIME_MS);
            pdi_session_say(node, PDI_REPLY_OPEN, peer);
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

/* What goes to the group is no sign of life to those who hear none: who was named by an address, is reached through a
 * connection, or is not reached by the group. */
static void tell_apart(struct pdi_node *node, bool streams)
{
    bool leased = node->config.lease_ms != 0; /* otherwise nobody waits for a sign */
    for (uint32_t peer = 0; leased && peer < node->peers_used; peer++) {
        const struct pdi_node_peer *who = &node->peers[peer];
        bool apart = who->groups == 0 || pdi_node_unreached(node, peer);
        if (apart && pdi_session_established(node, peer) &&
            (streams || !pdi_endpoint_is_stream(&who->endpoint))) {
            pdi_session_say(node, PDI_REPLY_KEEPALIVE, peer);
        }
    }
}

void pdi_session_scout(struct pdi_node *node, pdi_time now)
{
    bool looking = (node->config.role != PYDDSI_CLIENT || node->established == 0) && !node->closing;
    if (looking && node->config.scout_to.kind != 0) {
        pdi_hello_reply(node,
                        &(struct pdi_reply){.kind = PDI_REPLY_SCOUT, .to = node->config.scout_to});
        node->stats.scouts_out++;
        node->told_all = now;
        tell_apart(node, node->config.asked_count == 0); /* else connections are asked as well */
    }
    for (uint32_t i = 0; looking && i < node->config.asked_count; i++) { /* 17 at most */
        if (node->config.asked[i].kind != 0) {
            pdi_hello_reply(
                node, &(struct pdi_reply){.kind = PDI_REPLY_SCOUT, .to = node->config.asked[i]});
            node->stats.scouts_out++;
        }
    }
    if (!node->closing) {
        pdi_gossip_tick(node);
    }
    pdi_timer_set(node, PDI_TIMER_SCOUT, pdi_time_add(now, node->config.scout_ms * PDI_TIME_MS));
}

void pdi_node_ask(struct pdi_node *node, uint32_t place, const pyddsi_endpoint *where)
{
    if (place < node->config.asked_count &&
        !pdi_endpoint_equal(&node->config.asked[place], where)) {
        node->config.asked[place] = *where;
        pdi_timer_set(node, PDI_TIMER_SCOUT, node->now);
    }
}

/* An OPEN in the session that there is: who knows it goes on at the address that this comes from (chore.c), and a peer of zhe
 * by the sign of life. For those that there is no room for now, what the look for peers brings does the same. */
void pdi_node_moved(struct pdi_node *node, pdi_time now)
{
    node->now = now > node->now ? now : node->now;
    for (uint32_t peer = 0; peer < node->peers_used && !node->closing; peer++) {
        struct pdi_node_peer *who = &node->peers[peer];
        if (pdi_session_established(node, peer) && !pdi_endpoint_is_stream(&who->endpoint) &&
            node->reply_head - node->reply_tail < PDI_REPLIES_MAX / 2) {
            who->astray = now;
            pdi_session_say(node, who->session != 0 ? PDI_REPLY_OPEN : PDI_REPLY_KEEPALIVE, peer);
        }
    }
    pdi_timer_set(node, PDI_TIMER_SCOUT, node->now);
}

void pdi_session_keepalive(struct pdi_node *node, pdi_time now)
{
    pdi_time every = node->config.lease_ms * PDI_TIME_MS / 4;
    pdi_time due = PDI_TIME_NEVER;
    for (uint32_t peer = 0; node->resting && peer < node->peers_used; peer++) {
        if (pdi_session_established(node, peer)) {
            pdi_session_timer(node, peer, now);
        }
    }
    if (every != 0 && node->established != 0 && !node->closing) {
        pdi_time scout = pdi_heap_get(&node->timers, PDI_TIMER_SCOUT);
        if (now - node->told_all >= every && scout > now && scout - now <= every / 2) {
            pdi_session_scout(node, now);
        }
        if (now - node->told_all >= every) {
            struct pdi_reply reply = {.kind = PDI_REPLY_KEEPALIVE, .to = node->config.scout_to};
            node->told_all = now;
            node->stats.keepalives_out++;
            if (reply.to.kind != 0) {
                pdi_hello_reply(node, &reply);
                tell_apart(node, true);
            }
            for (uint32_t peer = 0; reply.to.kind == 0 && peer < node->peers_used; peer++) {
                if (pdi_session_established(node, peer)) {
                    pdi_session_say(node, PDI_REPLY_KEEPALIVE, peer);
                }
            }
        }
        due = node->told_all + every;
    }
    pdi_timer_set(node, PDI_TIMER_KEEPALIVE, due);
}
