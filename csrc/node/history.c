/* history.c - what publishers have kept, for each new subscriber exactly once.
 *
 * A publisher with durability TRANSIENT sends what it has kept to a peer with its first matching subscription, and then what
 * comes, on one conduit and so in order. Readers that the peer had by then get all of it. One that comes later has missed what
 * came before it, and nobody but its own session knows that it is there. So the session asks, where both sides can
 * PYDDSI_CAN_HISTORY:
 *
 *     reader's session                                                  publisher's session
 *       a reader of X comes, after samples of reason KEPT have
 *       come from there: it waits, and gets no more of these
 *       X is declared and accepted ──── PULL HISTORY|X, n ────────────►
 *                                  ◄─── SDATA HISTORY|X, id ─────────── what is kept, of each publisher that matches X
 *                                  ◄─── SDATA HISTORY|X, 0: n ───────── the end mark
 *       the readers that asked have what was ◄── SDATA KEPT, id ─────── what comes is for them as well
 *
 * Why nothing is lost or comes twice: the end mark stands on the conduit behind all that was sent for KEPT and that the new readers
 * passed by, and these samples were on the shelf when it was written. For a reliable publisher that is because it waits until
 * what is asked for has gone out; with one of best effort the answer goes on until it has caught up, and the mark says how far its
 * numbers are, so what the network has kept back until then is old. If no sample of KEPT has come yet, all will, from the oldest
 * on: then a new reader need not ask. So a session with peers that keep nothing says not a word.
 *
 * What is sent for HISTORY says for which id, and not for which question. So while one question about an id is open, further
 * readers of that id wait for its end, and ask then; and while a peer still answers a question whose readers have all gone, it is
 * asked nothing. Each question has one end mark, as long as the session lasts.
 *
 * Readers of the publisher's own session take from the shelf as their rings have room, and reliable publishers wait for them.
 * Peers of former versions, and zhe, get what was kept once for each subscription that they declare.
 */
#include "node/state.h"

/* ---- the side of the reader ---- */

static void wait_no_more(struct pdi_node *node, struct pdi_subscriber *reader, uint32_t peer)
{
    if (pdi_bitset_test(reader->waits, peer)) {
        pdi_bitset_clear(reader->waits, peer);
        pdi_bitset_clear(reader->asked, peer);
        node->waiting--;
    }
}

/* Readers of one id are told apart by nothing that is on the wire. */
static bool is_same(const struct pdi_subscriber *one, const struct pdi_subscriber *other)
{
    return other->used && other->mode == PYDDSI_PUSH && one->id == other->id &&
           one->space == other->space;
}

static bool is_open(const struct pdi_node *node, const struct pdi_subscriber *reader, uint32_t peer)
{
    for (uint32_t i = 0; i < node->readers_used; i++) {
        const struct pdi_subscriber *other = &node->readers[i];
        if (is_same(reader, other) && pdi_bitset_test(other->asked, peer)) {
            return true;
        }
    }
    return false;
}

/* A reader that has not got all of its answer. If it was the last of those that had asked, the rest comes for nobody. */
static void leave(struct pdi_node *node, struct pdi_subscriber *reader, uint32_t peer)
{
    bool asked = pdi_bitset_test(reader->asked, peer);
    wait_no_more(node, reader, peer);
    if (asked && !is_open(node, reader, peer)) {
        node->peers[peer].orphans++;
    }
}

/* From each publisher of this session that keeps something: a cursor, and what there is room for. */
static void take_own(struct pdi_node *node, uint32_t index)
{
    for (uint32_t i = 0; node->env.copy != NULL && i < node->publishers_used; i++) {
        const struct pdi_publisher *publisher = &node->publishers[i];
        if (!publisher->used || publisher->durability == PYDDSI_VOLATILE ||
            publisher->shelf_first == PDI_NONE || !pdi_deliver_matches(node, publisher, index)) {
            continue;
        }
        struct pdi_puller *puller = pdi_shelf_taker(node);
        if (puller == NULL) {
            pdi_drop(node, PYDDSI_AT_SHELF, PYDDSI_BY_LIMIT, publisher->space, publisher->id,
                     publisher->shelf_count, node->now);
            continue;
        }
        *puller = (struct pdi_puller){.used = 1,
                                      .kind = PDI_TAKER_OWN,
                                      .wanting = 1,
                                      .mode = PYDDSI_PUSH,
                                      .space = publisher->space,
                                      .publisher = i,
                                      .peer = PDI_NONE,
                                      .serial = index,
                                      .next = pdi_shelf_oldest(node, publisher),
                                      .until = publisher->shelf_next};
        node->own_waiting++;
        (void)pdi_history_serve_own(node, puller, node->now);
    }
}

void pdi_history_reader(struct pdi_node *node, struct pdi_subscriber *reader)
{
    uint32_t words = PDI_BITSET_WORDS(node->config.peers_max);
    uint32_t index = (uint32_t)(reader - node->readers);
    reader->waits = node->reader_bits + (size_t)index * words * 2;
    reader->asked = reader->waits + words;
    memset(reader->waits, 0, (size_t)words * 2 * sizeof *reader->waits);
    if (reader->mode != PYDDSI_PUSH) {
        return;
    }
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        if (node->peers[peer].keeps && pdi_session_established(node, peer)) {
            pdi_bitset_set(reader->waits, peer);
            node->waiting++;
        }
    }
    take_own(node, index);
}

void pdi_history_forget_reader(struct pdi_node *node, struct pdi_subscriber *reader)
{
    uint32_t index = (uint32_t)(reader - node->readers);
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        leave(node, reader, peer);
    }
    for (uint32_t i = 0; node->own_waiting != 0 && i < node->pullers_used; i++) {
        struct pdi_puller *puller = &node->pullers[i];
        if (puller->used && puller->kind == PDI_TAKER_OWN && puller->serial == index) {
            puller->used = 0;
            node->own_waiting--;
        }
    }
}

void pdi_history_forget_peer(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    node->peers[peer].keeps = 0;
    node->peers[peer].orphans = 0;
    for (uint32_t i = 0; node->waiting != 0 && i < node->readers_used; i++) {
        if (node->readers[i].used) {
            wait_no_more(node, &node->readers[i], peer);
        }
    }
    for (uint32_t i = 0; i < node->pullers_used; i++) {
        struct pdi_puller *puller = &node->pullers[i];
        if (!puller->used || puller->peer != peer ||
            (puller->kind != PDI_TAKER_HISTORY && puller->kind != PDI_TAKER_PEER)) {
            continue;
        }
        if (puller->kind == PDI_TAKER_PEER && puller->wanting) {
            const struct pdi_publisher *publisher = &node->publishers[puller->publisher];
            pdi_drop(node, PYDDSI_AT_SHELF, PYDDSI_BY_PEER_LOST, publisher->space, publisher->id,
                     pdi_shelf_left(node, publisher, puller), now);
        }
        puller->used = puller->rests = 0;
    }
}

/* For this reader, and for all of its id that wait. What has no room waits: the window's next ACK tries again. */
static void ask(struct pdi_node *node, const struct pdi_subscriber *reader, uint32_t peer,
                pdi_time now)
{
    uint8_t body[2 * PDI_VLE_MAX];
    struct pdi_writer writer = {body, body + sizeof body};
    struct pdi_entry model = {.kind = PYDDSI_PULL, .flags = PYDDSI_N, .space = reader->space};
    (void)pdi_vle_put(&writer, PDI_REASON_HISTORY | reader->id);
    (void)pdi_vle_put(&writer, node->questions + 1);
    if (pdi_publish_entry(node, pdi_node_unicast(node, peer), &model,
                          (pyddsi_bytes){body, (size_t)(writer.at - body)}, now) != PYDDSI_OK) {
        return;
    }
    node->questions++;
    for (uint32_t i = 0; i < node->readers_used; i++) {
        const struct pdi_subscriber *other = &node->readers[i];
        if (is_same(reader, other) && pdi_bitset_test(other->waits, peer)) {
            pdi_bitset_set(other->asked, peer);
        }
    }
}

void pdi_history_tick(struct pdi_node *node, pdi_time now)
{
    for (uint32_t i = 0; node->waiting != 0 && i < node->readers_used; i++) {
        struct pdi_subscriber *reader = &node->readers[i];
        uint32_t peers = reader->used ? node->peers_used : 0;
        for (uint32_t peer = pdi_bitset_find(reader->waits, peers, 0); peer < peers;
             peer = pdi_bitset_find(reader->waits, peers, peer + 1)) {
            int taken = pdi_registry_taken(node->registry, reader->registry, peer);
            if (taken == PDI_STATUS_OK && node->peers[peer].orphans == 0 &&
                !is_open(node, reader, peer)) {
                ask(node, reader, peer, now);
            } else if (taken != PDI_STATUS_OK && taken != PDI_REGISTRY_PENDING) {
                leave(node, reader, peer); /* the peer does not have it: nothing will come */
            }
        }
    }
}

/* Best effort before this number is old: it was kept as well. */
static void pass_best(struct pdi_node *node, const struct pdi_arrival *arrival, uint64_t best,
                      pdi_time now)
{
    struct pdi_order *order = pdi_node_order(node, arrival->peer, arrival->conduit);
    best = pdi_seq_wrap(order->seq, (int64_t)best);
    int64_t at =
        order->best_seen ? pdi_seq_unwrap(order->seq, order->best_next, best) : (int64_t)best;
    if (order->best_seen && at > order->best_next) {
        pdi_drop(node, PYDDSI_AT_ORDER, PYDDSI_BY_LOSS, 0, 0, (uint64_t)(at - order->best_next),
                 now);
    }
    if (!order->best_seen || at > order->best_next) {
        order->best_seen = 1;
        order->best_next = at;
    }
}

void pdi_history_end(struct pdi_node *node, const struct pdi_arrival *arrival, uint8_t space,
                     uint64_t id, pyddsi_bytes payload, pdi_time now)
{
    struct pdi_reader in = {payload.data, payload.data + payload.size};
    uint64_t question = 0, best = 0;
    if (pdi_vle_get(&in, UINT64_MAX, PDI_VLE_MAX, &question) != PDI_VLE_OK) {
        return;
    }
    if (pdi_reader_left(&in) != 0 &&
        pdi_vle_get(&in, UINT64_MAX, PDI_VLE_MAX, &best) == PDI_VLE_OK) {
        pass_best(node, arrival, best, now);
    }
    bool orphan = true;
    for (uint32_t i = 0; node->waiting != 0 && i < node->readers_used; i++) {
        struct pdi_subscriber *reader = &node->readers[i];
        if (reader->used && reader->id == id && reader->space == space &&
            pdi_bitset_test(reader->asked, arrival->peer)) {
            wait_no_more(node, reader, arrival->peer);
            orphan = false;
        }
    }
    node->peers[arrival->peer].orphans -= orphan && node->peers[arrival->peer].orphans != 0;
    node->kick = 1; /* others may ask now */
}

/* ---- the side of the publisher ---- */

static struct pdi_puller *question_of(struct pdi_node *node, uint32_t peer, uint8_t space,
                                      uint64_t id)
{
    for (uint32_t i = 0; i < node->pullers_used; i++) {
        struct pdi_puller *puller = &node->pullers[i];
        if (puller->used && puller->kind == PDI_TAKER_HISTORY && puller->publisher == PDI_NONE &&
            puller->peer == peer && puller->space == space && puller->id == id) {
            return puller;
        }
    }
    return NULL;
}

/* Whether samples of this publisher go to the peer because of this subscription, among others. */
static bool is_linked(const struct pdi_node *node, const struct pdi_publisher *publisher,
                      uint32_t peer, uint64_t id)
{
    for (uint32_t link = pdi_registry_link_first(node->registry, publisher->registry);
         link != PDI_REGISTRY_NONE;
         link = pdi_registry_link_next(node->registry, link)) { /* at most remotes_max */
        const struct pdi_remote *remote = pdi_registry_link_remote(node->registry, link);
        if (remote->peer == peer && remote->id == id && remote->mode == PYDDSI_PUSH) {
            return true;
        }
    }
    return false;
}

static struct pdi_puller *add_taker(struct pdi_node *node, uint32_t publisher, uint32_t peer,
                                    uint8_t space, uint64_t id)
{
    struct pdi_puller *puller = pdi_shelf_taker(node);
    if (puller != NULL) {
        *puller = (struct pdi_puller){.used = 1,
                                      .kind = PDI_TAKER_HISTORY,
                                      .wanting = 1,
                                      .mode = PYDDSI_PUSH,
                                      .space = space,
                                      .publisher = publisher,
                                      .peer = peer,
                                      .id = id,
                                      .until = UINT64_MAX,
                                      .left = UINT64_MAX};
    }
    return puller;
}

/* A publisher whose samples do not go there yet, as the peer has still to hear its name, is none of those: all that it has kept
 * will come for KEPT. */
int pdi_history_pull(struct pdi_node *node, uint32_t peer, const pyddsi_message *message,
                     pdi_time now)
{
    uint64_t id = message->rid & ~PDI_REASON_HISTORY;
    uint8_t space = (uint8_t)message->space;
    struct pdi_puller *question = question_of(node, peer, space, id) == NULL
                                      ? add_taker(node, PDI_NONE, peer, space, id)
                                      : NULL;
    if (question == NULL) {
        return PYDDSI_AGAIN; /* one at a time */
    }
    question->left = message->limit;
    uint32_t used = node->pullers_used; /* those that are added here are not looked at */
    for (uint32_t i = 0; i < used; i++) {
        const struct pdi_puller *flow = &node->pullers[i];
        if (!flow->used || flow->kind != PDI_TAKER_PEER || flow->rests || flow->peer != peer ||
            flow->space != space) {
            continue;
        }
        uint32_t index = flow->publisher;
        const struct pdi_publisher *publisher = &node->publishers[index];
        if (!is_linked(node, publisher, peer, id)) {
            continue;
        }
        struct pdi_puller *taker = add_taker(node, index, peer, space, id);
        if (taker == NULL) {
            pdi_drop(node, PYDDSI_AT_SHELF, PYDDSI_BY_LIMIT, space, publisher->id,
                     publisher->shelf_count, now);
        } else {
            taker->next = pdi_shelf_oldest(node, publisher);
        }
    }
    (void)pdi_history_serve(node, peer, space, id, now);
    return PYDDSI_OK;
}

/* What the publisher sends for KEPT goes first: the end mark must stand behind it. */
static bool serve_one(struct pdi_node *node, struct pdi_puller *taker, pdi_time now)
{
    for (uint32_t i = 0; i < node->pullers_used; i++) {
        struct pdi_puller *flow = &node->pullers[i];
        if (flow->used && flow->kind == PDI_TAKER_PEER && flow->wanting &&
            flow->publisher == taker->publisher && flow->peer == taker->peer &&
            !pdi_shelf_serve(node, flow, now)) {
            return false;
        }
    }
    return pdi_shelf_serve(node, taker, now);
}

bool pdi_history_serve(struct pdi_node *node, uint32_t peer, uint8_t space, uint64_t id,
                       pdi_time now)
{
    struct pdi_puller *question = question_of(node, peer, space, id);
    struct pdi_conduit *conduit = pdi_node_unicast(node, peer);
    bool best = false;
    bool gone = question == NULL || !conduit->open;
    if (gone || conduit->skips) {
        return gone;
    }
    for (uint32_t i = 0; i < node->pullers_used; i++) {
        struct pdi_puller *taker = &node->pullers[i];
        if (taker->used && taker->kind == PDI_TAKER_HISTORY && taker->publisher != PDI_NONE &&
            taker->peer == peer && taker->space == space && taker->id == id) {
            best = best || !node->publishers[taker->publisher].reliable;
            if (!serve_one(node, taker, now)) {
                return false;
            }
        }
    }
    uint8_t body[2 * PDI_VLE_MAX];
    struct pdi_writer writer = {body, body + sizeof body};
    struct pdi_entry end = {.kind = PYDDSI_SDATA,
                            .flags = PYDDSI_R | PYDDSI_A,
                            .id = PDI_REASON_HISTORY | id,
                            .space = space};
    (void)pdi_vle_put(&writer, question->left);
    if (best) {
        (void)pdi_vle_put(&writer, conduit->best);
    }
    if (pdi_publish_entry(node, conduit, &end, (pyddsi_bytes){body, (size_t)(writer.at - body)},
                          now) == PYDDSI_AGAIN) {
        return false;
    }
    if (best) { /* what waits for company goes now, so that it is not old when it comes */
        conduit->draft_at = now;
        pdi_bitset_set(node->work, conduit->number);
    }
    for (uint32_t i = 0; i < node->pullers_used; i++) {
        struct pdi_puller *taker = &node->pullers[i];
        bool over = taker->kind == PDI_TAKER_HISTORY && taker->peer == peer &&
                    taker->space == space && taker->id == id;
        taker->used = taker->used && !over;
    }
    return true;
}

bool pdi_history_serve_own(struct pdi_node *node, struct pdi_puller *puller, pdi_time now)
{
    const struct pdi_publisher *publisher = &node->publishers[puller->publisher];
    uint32_t at = publisher->shelf_first;
    for (; at != PDI_NONE && node->shelved[at].serial < puller->until;
         at = node->shelved[at].next) { /* at most shelf_max */
        const struct pdi_shelved *shelved = &node->shelved[at];
        if (shelved->serial < puller->next) {
            continue;
        }
        pyddsi_bytes payload = {node->shelf_memory + (size_t)shelved->page * PDI_SHELF_PAGE,
                                shelved->size};
        int status = pdi_deliver_own(node, publisher, puller->serial, payload, now);
        if (status == PYDDSI_AGAIN) {
            return false;
        }
        if (status != PYDDSI_OK) {
            pdi_drop(node, PYDDSI_AT_SHELF, PYDDSI_BY_SIZE, publisher->space, publisher->id, 1,
                     now);
        }
        puller->next = shelved->serial + 1;
    }
    puller->used = 0;
    node->own_waiting--;
    return true;
}
