/* pull.c - asking for what lies on shelves, and answering.
 *
 * A pull is answered over the unicast conduit of the peer that asked, as its room allows, and ends with a mark, an SDATA
 * whose sample id is 0. Pulls that come while one is answered wait their turn: each gets its own samples and its own
 * mark. Where a subscription has periods its time is as good as a pull without limit (periodic push), or a pull outside
 * its time ends at once and consumes nothing (periodic pull).
 */
#include "node/state.h"

static bool has_period(const struct pdi_puller *puller)
{
    return puller->mode == PYDDSI_PERIODIC_PUSH || puller->mode == PYDDSI_PERIODIC_PULL;
}

/* The next waiting pull becomes the one that is answered, if none is. */
static void next_ask(struct pdi_node *node, struct pdi_puller *puller)
{
    if (puller->wanting || puller->ends || puller->asks == 0) {
        return;
    }
    uint64_t limit = puller->asked[0];
    puller->asks--;
    memmove(puller->asked, puller->asked + 1, puller->asks * sizeof puller->asked[0]);
    puller->wanting = limit != 0; /* else there is only the mark */
    puller->ends = 1;
    puller->left = limit;
    node->kick = 1; /* a pull that found no place need not wait for the ACK of this answer */
}

/* Whether this pull is for that one. */
static bool is_for(const struct pdi_puller *puller, uint32_t peer, const pyddsi_message *message)
{
    return puller->used && puller->peer == peer && puller->id == message->rid &&
           puller->space == message->space && puller->mode != PYDDSI_PUSH &&
           puller->mode != PYDDSI_PERIODIC_PUSH;
}

/* It is answered when those before it have been, each with its own end mark. AGAIN: too many wait already, or there is no
 * room for the end of an answer; so the pull waits in its order, and what its peer says behind it. */
int pdi_shelf_pull(struct pdi_node *node, uint32_t peer, const pyddsi_message *message,
                   pdi_time now)
{
    bool limited = (message->flags & PYDDSI_N) != 0;
    bool closes = (message->flags & PYDDSI_F) != 0;
    uint64_t limit = limited ? message->limit : closes ? 0 : UINT64_MAX;
    bool found = false;
    if (message->rid >= PDI_REASON_HISTORY && pdi_history_can(node, peer)) {
        return pdi_history_pull(node, peer, message, now);
    }
    for (uint32_t i = 0; i < node->pullers_used; i++) {
        const struct pdi_puller *puller = &node->pullers[i];
        if (is_for(puller, peer, message) && puller->asks == PDI_PULLS_MAX) {
            return PYDDSI_AGAIN;
        }
    }
    for (uint32_t i = 0; i < node->pullers_used; i++) {
        struct pdi_puller *puller = &node->pullers[i];
        if (is_for(puller, peer, message)) {
            found = true;
            puller->asked[puller->asks++] = limit;
            next_ask(node, puller);
        }
    }
    if (!found) {
        struct pdi_entry end = {.kind = PYDDSI_SDATA,
                                .flags = PYDDSI_R | PYDDSI_A,
                                .id = message->rid,
                                .space = (uint8_t)message->space};
        return pdi_publish_entry(node, pdi_node_unicast(node, peer), &end, (pyddsi_bytes){0}, now);
    }
    pdi_timer_set(node, PDI_TIMER_SHELF, now);
    return PYDDSI_OK;
}

static const struct pdi_shelved *
shelved_from(const struct pdi_node *node, const struct pdi_publisher *publisher, uint64_t serial)
{
    uint32_t at = publisher->shelf_first;
    for (; at != PDI_NONE; at = node->shelved[at].next) { /* at most shelf_max */
        if (node->shelved[at].serial >= serial) {
            return &node->shelved[at];
        }
    }
    return NULL;
}

/* Flag A of what it gets: why. 0: it is not said. */
static uint64_t reason_of(const struct pdi_puller *puller)
{
    switch (puller->kind) {
    case PDI_TAKER_PEER:
        return PDI_REASON_KEPT;
    case PDI_TAKER_HISTORY:
        return PDI_REASON_HISTORY | puller->id;
    default:
        return puller->kind == PDI_TAKER_PULL || (puller->id & 1) != 0 ? puller->id : 0;
    }
}

/* Sends what this one may have now. False: the window is full. */
bool pdi_shelf_serve(struct pdi_node *node, struct pdi_puller *puller, pdi_time now)
{
    struct pdi_publisher *publisher = &node->publishers[puller->publisher];
    struct pdi_conduit *conduit = pdi_node_unicast(node, puller->peer);
    uint64_t reason = reason_of(puller);
    const struct pdi_shelved *shelved = shelved_from(node, publisher, puller->next);
    if (conduit->skips) {
        return false; /* it is first told of those that it goes without, and they are older */
    }
    while (conduit->open && puller->left != 0 && shelved != NULL &&
           shelved->serial < puller->until) { /* at most shelf_max */
        pyddsi_bytes payload = {node->shelf_memory + (size_t)shelved->page * PDI_SHELF_PAGE,
                                shelved->size};
        struct pdi_entry model = {.kind = PYDDSI_SDATA,
                                  .flags = (uint8_t)(PYDDSI_R | (reason != 0 ? PYDDSI_A : 0)),
                                  .id = reason != 0 ? reason : publisher->id,
                                  .data_id = reason != 0 ? publisher->id : 0,
                                  .space = publisher->space};
        bool fits = puller->predicate == NULL ||
                    pdi_predicate_holds(puller->predicate, publisher->id, payload);
        int status = fits ? pdi_publish_entry(node, conduit, &model, payload, now) : PYDDSI_OK;
        if (status == PYDDSI_AGAIN) {
            return false;
        }
        if (status != PYDDSI_OK) {
            struct pdi_way way = {0};
            pdi_way_lack(node, &way, puller->peer);
            pdi_way_list(node, &way, publisher, PYDDSI_AT_SHELF, &model, payload.size, now);
        }
        puller->next = shelved->serial + 1;
        puller->left -= fits;
        shelved = shelved->next != PDI_NONE ? &node->shelved[shelved->next] : NULL;
    }
    if (puller->ends && conduit->open) {
        struct pdi_entry end = {.kind = PYDDSI_SDATA,
                                .flags = PYDDSI_R | PYDDSI_A,
                                .id = puller->id,
                                .space = puller->space};
        if (pdi_publish_entry(node, conduit, &end, (pyddsi_bytes){0}, now) == PYDDSI_AGAIN) {
            return false;
        }
    }
    puller->ends = 0;
    puller->wanting = puller->kind == PDI_TAKER_HISTORY; /* until the end mark has gone */
    next_ask(node, puller);
    return true;
}

void pdi_shelf_tick(struct pdi_node *node, pdi_time now)
{
    pdi_time due = PDI_TIME_NEVER;
    for (uint32_t i = 0; i < node->pullers_used; i++) {
        struct pdi_puller *puller = &node->pullers[i];
        pdi_time next = PDI_TIME_NEVER;
        if (!puller->used) {
            continue;
        }
        bool open = !has_period(puller) || pdi_shelf_open(puller->origin_ms, puller->period_ms,
                                                          puller->duration_ms, now, &next);
        if (puller->mode == PYDDSI_PERIODIC_PUSH && open) {
            puller->wanting = 1;
            puller->left = UINT64_MAX;
        }
        if (puller->kind == PDI_TAKER_OWN) {
            (void)pdi_history_serve_own(node, puller, now);
        } else if (puller->kind == PDI_TAKER_HISTORY) {
            if (puller->publisher == PDI_NONE) { /* for all that it asks for */
                (void)pdi_history_serve(node, puller->peer, puller->space, puller->id, now);
            }
        } else if (puller->wanting && !open && puller->mode == PYDDSI_PERIODIC_PULL) {
            puller->left = 0; /* outside its time nothing is consumed; the answer ends at once */
            (void)pdi_shelf_serve(node, puller, now);
        } else if ((puller->wanting && open) || puller->ends) {
            /* each pull that waits; if the window is full, its next ACK kicks us */
            for (uint32_t pulls = 0; pulls <= PDI_PULLS_MAX; pulls++) {
                if (!pdi_shelf_serve(node, puller, now) || !puller->ends) {
                    break;
                }
            }
        }
        if (puller->mode == PYDDSI_PERIODIC_PUSH && next < due) {
            due = next;
        }
    }
    pdi_timer_set(node, PDI_TIMER_SHELF, due);
}

/* ---- the asking side ---- */

/* Asks all who may have something, or none: who was left out would never know. */
int pdi_node_pull(struct pdi_node *node, uint32_t subscriber, uint32_t max, pdi_time now)
{
    const struct pdi_subscriber *reader = pdi_subscriber_get(node, subscriber);
    uint8_t body[2 * PDI_VLE_MAX];
    struct pdi_writer writer = {body, body + sizeof body};
    node->now = now > node->now ? now : node->now;
    if (reader == NULL || reader->mode == PYDDSI_PUSH || reader->mode == PYDDSI_PERIODIC_PUSH) {
        return PYDDSI_BAD_ARGUMENT;
    }
    struct pdi_entry model = {
        .kind = PYDDSI_PULL, .flags = max != 0 ? PYDDSI_N : 0, .space = reader->space};
    (void)pdi_vle_put(&writer, reader->id);
    if (max != 0) {
        (void)pdi_vle_put(&writer, max);
    }
    pyddsi_bytes bytes = {body, (size_t)(writer.at - body)};
    struct pdi_way way = {0};
    way.singles = way.bits;
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        if (pdi_session_established(node, peer) &&
            (node->peers[peer].features & PYDDSI_CAN_PULL) != 0) {
            pdi_bitset_set(way.bits, peer);
            way.count++;
        }
    }
    return way.count != 0 ? pdi_publish_all(node, &way, &model, bytes, now) : PYDDSI_AGAIN;
}
