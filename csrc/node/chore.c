/* chore.c - what housekeeping does about what the receive side heard of sessions.
 *
 * The same id again. A node that restarts opens with a higher incarnation, or at least another session number: then the
 * old session is ended first, and the application hears of both. The same session from another address is a move. Anybody
 * can say an id, and know the number: a session has a secret, and who comes from elsewhere has to wait until the peer that
 * we know no longer answers where it was (pdi_session_gone). Whose address changes need not know it, as behind a translation of
 * addresses: a HELLO has it show the session (believer).
 * A peer that lost the session while we did not (it heard nothing from us for a lease) answers our SCOUT with a HELLO;
 * we OPEN again, and by the session number in its ACCEPT both sides find out and begin anew. Until the ACCEPT has come
 * we are in doubt: what comes may be of another session than ours, with other numbers, and so nothing on its conduits is
 * heard, and nothing acknowledged.
 *
 * OPENs cross, and ACCEPTs are lost. So either side can take an OPEN for that of the present session, which the other has
 * given up meanwhile, and then both are content, and mean different sessions. No order of three packets rules that out; but
 * it shows as soon as one says where it begins, since that is marked (send.c): who hears the mark of
 * another session is in doubt as well, and asks.
 */
#include "node/state.h"

/* All places are taken. */
static void refuse_full(struct pdi_node *node, const struct pdi_chore *chore, pdi_time now)
{
    pdi_refusal_note(node, &chore->from, (pyddsi_bytes){chore->id, chore->id_size},
                     PYDDSI_END_LIMIT, now);
}

static void start_opening(struct pdi_node *node, const struct pdi_chore *chore, pdi_time now)
{
    if (node->opening > node->config.peers_max / 2) { /* its next HELLO will find fewer */
        pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_LIMIT, 0, 0, 1, now);
        return;
    }
    uint32_t peer = pdi_session_claim(node, chore);
    if (peer == PDI_NONE || pdi_peer_open(&node->peers[peer].word) != PYDDSI_OK) {
        refuse_full(node, chore, now);
        return;
    }
    node->opening++;
    node->peers[peer].groups = chore->groups;
    node->peers[peer].group = chore->group;
    node->peers[peer].open_at = pdi_time_add(now, node->config.open_ms * PDI_TIME_MS);
    pdi_timer_set(node, pdi_timer_peer(peer), node->peers[peer].open_at);
    pdi_session_say(node, PDI_REPLY_OPEN, peer);
}

/* It is asked whether it is still the same session: its ACCEPT will tell. */
static void doubt(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    if (who->probes != 0) {
        return; /* it is being asked */
    }
    who->astray = now;
    who->probes = (uint8_t)(1 + (node->config.opens_max < UINT8_MAX ? node->config.opens_max
                                                                    : UINT8_MAX - 1));
    who->open_at = now;
    pdi_session_timer(node, peer, now);
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
        doubt(node, peer, now);
    } else if (now - who->since > 2 * PDI_TIME_MS * node->config.open_ms &&
               pdi_session_replace(node, peer, now)) {
        start_opening(node, chore, now); /* zhe says HELLO only to those it does not know */
    }
}

enum age { OLDER, SAME, NEWER };

/* How the session that an OPEN or ACCEPT speaks of compares with the one we know. A node's session numbers grow within a
 * life, and its lives in number, so what was late on its way cannot end a newer session. Who has the number and not the
 * secret is somebody else. From zhe, who has neither, everything is the same session. */
static enum age age_of(const struct pdi_chore *chore, const struct pdi_node_peer *who)
{
    if (chore->session == who->session && chore->incarnation == who->incarnation) {
        return chore->secret == who->secret ? SAME : OLDER;
    }
    if (chore->incarnation == 0 || who->session == 0 || chore->session == 0) {
        return NEWER; /* nothing says which; the one that speaks now is there */
    }
    if (chore->incarnation != who->incarnation) {
        return chore->incarnation > who->incarnation ? NEWER : OLDER;
    }
    return chore->session > who->session ? NEWER : OLDER;
}

/* The session goes on at another address. */
void pdi_session_move(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    if (pdi_session_find(node, &who->elsewhere) != PDI_NONE) {
        return; /* somebody is there meanwhile */
    }
    pdi_session_move_to(node, peer, &who->elsewhere);
    who->asks = who->gone = 0;
    who->astray = now;
    (void)pdi_peer_renew(&who->word, pdi_peer_deadline(pdi_node_ms(now), who->lease_ms));
    pyddsi_event *event = pdi_event_push(node, PYDDSI_RECONNECTED, now);
    pdi_event_peer(node, event, peer);
    if (who->session != 0) {
        pdi_session_say(node, PDI_REPLY_ACCEPT, peer);
    }
}

/* The peer with this id is known at another address, in the very same session: once it does not answer there any more, it
 * goes on where it is heard now. Of ours we know by the secret that it is the same; but that may have been overheard. */
static void move(struct pdi_node *node, uint32_t peer, const struct pdi_chore *chore, pdi_time now)
{
    bool gone = pdi_session_gone(node, peer, now);
    node->peers[peer].elsewhere = chore->from;
    if (gone) {
        pdi_session_move(node, peer, now);
    }
}

static void refuse(struct pdi_node *node, const struct pdi_chore *chore, uint8_t reason)
{
    pdi_hello_reply(
        node, &(struct pdi_reply){.kind = PDI_REPLY_CLOSE, .reason = reason, .to = chore->from});
}

/* Whether its numbers are of a length that there may be; else it is told that they are not, or will ask again. */
static bool fits(struct pdi_node *node, const struct pdi_chore *chore, pdi_time now)
{
    int status = pdi_lead_fits(node, chore);
    if (status == PYDDSI_BAD_ARGUMENT) {
        pdi_refusal_note(node, &chore->from, (pyddsi_bytes){chore->id, chore->id_size},
                         PYDDSI_END_LENGTH, now);
        refuse(node, chore, 4);
    }
    return status == PYDDSI_OK;
}

/* Whether this very session has ended here. Its sender does not know that yet, and would go on where it was: what we have
 * had, and not acknowledged in time, would come again. */
static bool ended_before(const struct pdi_node *node, const struct pdi_chore *chore)
{
    for (uint32_t peer = 0; chore->session != 0 && peer < node->peers_used; peer++) {
        const struct pdi_node_peer *who = &node->peers[peer];
        if (who->id_size == chore->id_size && memcmp(who->id, chore->id, chore->id_size) == 0 &&
            who->session == chore->session && who->secret == chore->secret &&
            who->incarnation == chore->incarnation &&
            pdi_peer_look(&who->word).state == PDI_PEER_UNKNOWN) {
            return true;
        }
    }
    return false;
}

static void open_chore(struct pdi_node *node, const struct pdi_chore *chore, pdi_time now)
{
    uint32_t peer = pdi_session_find(node, &chore->from);
    if (peer != PDI_NONE && pdi_peer_look(&node->peers[peer].word).state == PDI_PEER_EXPIRED) {
        return; /* somebody still works for what was there; it will ask again */
    }
    if (chore->refuse != 0) {
        pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_UNSUPPORTED, 0, 0, 1, now);
        refuse(node, chore, (uint8_t)(chore->refuse - 1));
        return;
    }
    if (ended_before(node, chore)) {
        refuse(node, chore, 0); /* then it begins a new one */
        return;
    }
    if (!fits(node, chore, now)) {
        return;
    }
    if (peer != PDI_NONE && pdi_session_established(node, peer)) {
        const struct pdi_node_peer *who = &node->peers[peer];
        bool same_id =
            who->id_size == chore->id_size && memcmp(who->id, chore->id, chore->id_size) == 0;
        enum age age = same_id ? age_of(chore, who) : NEWER;
        if (age == SAME) {
            pdi_session_say(node, PDI_REPLY_ACCEPT, peer);
        }
        if (age != NEWER || !pdi_session_replace(node, peer, now)) {
            return;
        }
        peer = PDI_NONE;
    }
    uint32_t elsewhere = pdi_session_find_id(node, chore->id, chore->id_size);
    if (elsewhere != PDI_NONE) {
        enum age age = age_of(chore, &node->peers[elsewhere]);
        if (age == SAME && chore->secret != 0 && peer == PDI_NONE) {
            move(node, elsewhere, chore, now);
            return;
        }
        if (age == OLDER || !pdi_session_gone(node, elsewhere, now) ||
            !pdi_session_replace(node, elsewhere, now)) {
            return; /* it will ask again */
        }
    }
    peer = peer == PDI_NONE ? pdi_session_claim(node, chore) : peer;
    if (peer == PDI_NONE) {
        refuse_full(node, chore, now);
        refuse(node, chore, 3);
        return;
    }
    pdi_session_adopt(node, peer, chore);
    if (!pdi_session_establish(node, peer, now)) {
        pdi_session_undo(node, peer);
        refuse(node, chore, 3);
        return;
    }
    pdi_session_say(node, PDI_REPLY_ACCEPT, peer);
}

static void accept_chore(struct pdi_node *node, const struct pdi_chore *chore, pdi_time now)
{
    uint32_t peer = pdi_session_find(node, &chore->from);
    if (peer == PDI_NONE) {
        return;
    }
    struct pdi_node_peer *who = &node->peers[peer];
    uint8_t state = pdi_peer_look(&who->word).state;
    if (chore->answered != 0 &&
        (chore->answered != who->mine || chore->answered_secret != who->proof)) {
        return; /* it is late, and answers an OPEN of an earlier session */
    }
    who->probes = 0;
    if (state == PDI_PEER_ESTABLISHED && chore->session != 0 && age_of(chore, who) == NEWER) {
        struct pdi_chore again = *chore;
        again.groups = who->groups;
        again.group = who->group;
        if (pdi_session_replace(node, peer, now)) {
            start_opening(node, &again, now);
        }
        return;
    }
    if (state < PDI_PEER_OPENING || state > PDI_PEER_OPENING_LAST) {
        return;
    }
    struct pdi_chore told = *chore;
    told.bits = who->bits; /* of our OPEN, which it took */
    if (!fits(node, &told, now)) {
        return;
    }
    uint32_t other = pdi_session_find_id(node, chore->id, chore->id_size);
    if (other != PDI_NONE && other != peer &&
        (age_of(chore, &node->peers[other]) == OLDER || !pdi_session_gone(node, other, now) ||
         !pdi_session_replace(node, other, now))) {
        return; /* the same peer, where it was before, or is now */
    }
    pdi_session_adopt(node, peer, chore);
    if (!pdi_session_establish(node, peer, now)) {
        pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_LIMIT, 0, 0, 1, now);
        refuse(node, chore, 3);
        pdi_session_undo(node, peer);
    }
}

/* A KEEPALIVE from nobody we know at this address: perhaps one of ours has moved. Or it is one that we were told of, and look for:
 * it has a session with whom we were before we began anew here, and takes each SCOUT of ours for a sign of life. */
static void stranger(struct pdi_node *node, const struct pdi_chore *chore, pdi_time now)
{
    uint32_t known = pdi_session_find_id(node, chore->id, chore->id_size);
    if (pdi_session_find(node, &chore->from) != PDI_NONE) {
        return; /* known meanwhile, or about to be */
    }
    if (known != PDI_NONE && node->peers[known].session == 0) {
        move(node, known, chore, now);
        return;
    }
    if (known != PDI_NONE || pdi_gossip_seeks(node, chore->id, chore->id_size, &chore->from)) {
        /* Anybody can say an id. Who has the session answers a HELLO by an OPEN with its number. */
        pdi_hello_reply(node, &(struct pdi_reply){.kind = PDI_REPLY_HELLO, .to = chore->from});
        return;
    }
    pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_UNKNOWN_PEER, 0, 0, 1, now);
}

/* The sender believes in a session that is not known at its address. If it may be one of ours that has moved, a HELLO makes it
 * show that; unless it has, and the old address is being asked. Otherwise we have lost the session with a former life, when we
 * had other numbers; a CLOSE ends it before the sender takes what we send to all for a part of it. */
static void believer(struct pdi_node *node, const struct pdi_chore *chore)
{
    bool moved = false;
    if (pdi_session_find(node, &chore->from) != PDI_NONE) {
        return; /* known meanwhile, or about to be */
    }
    for (uint32_t peer = 0; chore->ours && peer < node->peers_used; peer++) {
        const struct pdi_node_peer *who = &node->peers[peer];
        if (who->session != 0 && pdi_session_established(node, peer)) {
            if (who->asks != 0 && pdi_endpoint_equal(&who->elsewhere, &chore->from)) {
                return;
            }
            moved = moved || !pdi_endpoint_is_stream(&who->endpoint);
        }
    }
    pdi_hello_reply(node, &(struct pdi_reply){.kind = moved ? PDI_REPLY_HELLO : PDI_REPLY_CLOSE,
                                              .to = chore->from});
}

/* What came was of another session with this peer: either late, or the one that it means. */
static void foreign(struct pdi_node *node, const struct pdi_chore *chore, pdi_time now)
{
    uint32_t peer = pdi_session_find(node, &chore->from);
    if (peer != PDI_NONE && pdi_session_established(node, peer) && node->peers[peer].session != 0 &&
        node->peers[peer].probes == 0) {
        doubt(node, peer, now);
    }
}

void pdi_session_tick(struct pdi_node *node, pdi_time now)
{
    for (uint32_t peer = pdi_bitset_find(node->ended, node->peers_used, 0); peer < node->peers_used;
         peer = pdi_bitset_find(node->ended, node->peers_used, peer + 1)) {
        (void)pdi_session_reap(node, peer, now);
    }
    while (node->chore_tail != node->chore_head) { /* PDI_CHORES_MAX at most: none makes new ones */
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
        case PDI_CHORE_DOUBT:
            foreign(node, chore, now);
            break;
        case PDI_CHORE_BELIEVER:
            believer(node, chore);
            break;
        default:
            stranger(node, chore, now);
        }
    }
}
