/* loan.c - samples written in place, and batches.
 *
 * A loan is memory that the application writes and the node sends. It lies in the window that the sample will be sent
 * from, if that is one window, and so is written once; otherwise (several windows, best effort, nobody yet) it lies in the
 * scratch window and is copied at its end.
 *
 * Between loan and commit the way may change: then the loan is copied to where samples go now, and its place is
 * given up. The peer whose window it lies in stays BUSY as long, so its window stays.
 */
#include "node/state.h"
#include "wire/encode.h"

static struct pdi_open_loan *loan_get(struct pdi_node *node, uint32_t handle)
{
    uint32_t index = handle & 0xffff;
    if (index >= PDI_LOANS_MAX || !node->loans[index].used ||
        node->loans[index].generation != handle >> 16) {
        return NULL;
    }
    return &node->loans[index];
}

static struct pdi_window *window_of(struct pdi_node *node, const struct pdi_open_loan *open)
{
    return open->conduit == PDI_NONE ? &node->scratch : &node->out[open->conduit].window;
}

/* The one conduit that samples of this publisher go to, or null. */
static struct pdi_conduit *only_conduit(struct pdi_node *node,
                                        const struct pdi_publisher *publisher)
{
    if (!publisher->reliable || publisher->filters || publisher->keeps ||
        pdi_fence_due(node, publisher) || publisher->space != 0) {
        return NULL;
    }
    if (publisher->multicast && publisher->singles == 0 &&
        !pdi_way_wide(node, publisher->space, publisher->id)) {
        return &node->out[publisher->conduit];
    }
    return !publisher->multicast && publisher->singles == 1 && node->narrow == 0
               ? pdi_node_unicast(node, publisher->only)
               : NULL;
}

/* Whether a sample that is cut into such pieces (0: it is not) can leave by that conduit. */
static bool fits(const struct pdi_node *node, const struct pdi_publisher *publisher,
                 const struct pdi_conduit *conduit, size_t size, uint32_t piece)
{
    struct pdi_entry model = {.kind = PYDDSI_SDATA, .id = publisher->id};
    return piece != 0 ? (conduit->features & PYDDSI_CAN_FRAGMENT) != 0
                      : conduit->packet_max == node->config.packet_max ||
                            size + pdi_way_overhead(node, &model, false) <= conduit->packet_max;
}

int pdi_node_loan(struct pdi_node *node, uint32_t handle, size_t size, uint8_t **data,
                  uint32_t *loan)
{
    struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    uint32_t index = 0;
    uint16_t epoch;
    if (publisher == NULL || node->closing || size > PDI_WINDOW_BYTES_MAX) {
        return PYDDSI_BAD_ARGUMENT;
    }
    while (index < PDI_LOANS_MAX && node->loans[index].used) {
        index++;
    }
    if (index == PDI_LOANS_MAX) {
        return PYDDSI_AGAIN;
    }
    if (pdi_plan(node, publisher, node->now) != PYDDSI_OK) {
        return PYDDSI_AGAIN;
    }
    struct pdi_open_loan *open = &node->loans[index];
    struct pdi_conduit *conduit = only_conduit(node, publisher);
    uint32_t piece = pdi_publish_piece(node, publisher, size);
    bool in_place = conduit != NULL && fits(node, publisher, conduit, size, piece);
    bool entered = in_place && conduit->peer != PDI_NONE &&
                   pdi_peer_enter(&node->peers[conduit->peer].word, &epoch) == PYDDSI_OK;
    in_place = in_place && (conduit->peer == PDI_NONE || entered);
    open->conduit = in_place ? conduit->number : PDI_NONE;
    uint32_t numbers = piece == 0 ? 1 : (uint32_t)((size + piece - 1) / piece);
    int status = in_place
                     ? pdi_reliable_reserve(node, conduit, (uint32_t)size, numbers, &open->loan)
                     : pdi_window_reserve(&node->scratch, (uint32_t)size, 1, &open->loan);
    if (status != PYDDSI_OK) {
        if (entered) {
            (void)pdi_peer_leave(&node->peers[conduit->peer].word);
        }
        return status;
    }
    open->used = 1;
    open->publisher = handle;
    open->size = (uint32_t)size;
    *data = pdi_window_data(window_of(node, open), &open->loan);
    *loan = (uint32_t)open->generation << 16 | index;
    return PYDDSI_OK;
}

static void give_back(struct pdi_node *node, struct pdi_open_loan *open)
{
    if (open->conduit != PDI_NONE && node->out[open->conduit].peer != PDI_NONE) {
        (void)pdi_peer_leave(&node->peers[node->out[open->conduit].peer].word);
    }
    open->used = 0;
    open->generation++;
}

int pdi_node_lent(struct pdi_node *node, uint32_t loan, uint32_t *publisher, const uint8_t **data,
                  size_t *size)
{
    const struct pdi_open_loan *open = loan_get(node, loan);
    if (open == NULL) {
        return PYDDSI_BAD_ARGUMENT;
    }
    *publisher = open->publisher;
    *data = pdi_window_data(window_of(node, open), &open->loan);
    *size = open->size;
    return PYDDSI_OK;
}

int pdi_node_abandon(struct pdi_node *node, uint32_t loan)
{
    struct pdi_open_loan *open = loan_get(node, loan);
    if (open == NULL) {
        return PYDDSI_BAD_ARGUMENT;
    }
    pdi_window_abandon(window_of(node, open), &open->loan);
    give_back(node, open);
    return PYDDSI_OK;
}

int pdi_node_commit(struct pdi_node *node, uint32_t loan, size_t size, pdi_time now)
{
    struct pdi_open_loan *open = loan_get(node, loan);
    struct pdi_publisher *publisher =
        open != NULL ? pdi_publisher_get(node, open->publisher) : NULL;
    if (open == NULL || size > open->size) {
        return PYDDSI_BAD_ARGUMENT;
    }
    if (publisher == NULL || node->closing) {
        (void)pdi_node_abandon(node, loan); /* who would send it is gone, so nothing is accepted */
        return PYDDSI_BAD_ARGUMENT;
    }
    node->now = now > node->now ? now : node->now;
    if (pdi_plan(node, publisher, now) != PYDDSI_OK) {
        return PYDDSI_AGAIN;
    }
    struct pdi_conduit *conduit = only_conduit(node, publisher);
    uint32_t piece = pdi_publish_piece(node, publisher, size);
    bool in_place = conduit != NULL && conduit->number == open->conduit &&
                    pdi_publish_pieces(size, piece) <= open->loan.numbers &&
                    fits(node, publisher, conduit, size, piece);
    if (!in_place) {
        const uint8_t *data = pdi_window_data(window_of(node, open), &open->loan);
        int status = pdi_node_put(node, open->publisher, data, size, now);
        /* a copy that must go where the loan itself takes the room would wait for ever */
        bool never = open->conduit != PDI_NONE && size > window_of(node, open)->size - open->size;
        if (status == PYDDSI_AGAIN && !never) {
            return PYDDSI_AGAIN;
        }
        (void)pdi_node_abandon(node, loan);
        return status == PYDDSI_AGAIN ? PYDDSI_BAD_ARGUMENT : status;
    }
    struct pdi_entry model = {.kind = PYDDSI_SDATA,
                              .flags = (uint8_t)(PYDDSI_R | (publisher->via != 0 ? PYDDSI_A : 0)),
                              .id = publisher->via != 0 ? publisher->via : publisher->id,
                              .data_id = publisher->via != 0 ? publisher->id : 0,
                              .fragment = piece != 0,
                              .first = PDI_WINDOW_SELF,
                              .fragments = piece != 0 ? (uint32_t)((size + piece - 1) / piece) : 0};
    (void)pdi_reliable_commit(node, conduit, &open->loan, (uint32_t)size, piece, &model, now);
    pdi_fence_wrote(node, publisher, conduit);
    give_back(node, open);
    node->stats.accepted++;
    pdi_skip_count(node, publisher, (pyddsi_bytes){0}, 1);
    return PYDDSI_OK;
}

/* ---- batches ---- */

enum { BATCH_MESSAGES_MAX = 64, BATCH_HEAD = 3 };

/* How many of the samples from `at` on share a message, and how many bytes they take there. */
static size_t share(const pyddsi_bytes *samples, size_t count, size_t at, uint32_t room,
                    uint32_t *bytes)
{
    size_t taken = 0;
    *bytes = BATCH_HEAD;
    while (at + taken < count) { /* at most count */
        size_t size = samples[at + taken].size;
        uint32_t need = (uint32_t)(pdi_vle_size(size) + size);
        if (*bytes + need > room) {
            break;
        }
        *bytes += need;
        taken++;
    }
    return taken;
}

/* Writes one BDATA body at `out`: the count and the samples; answers its size. */
static uint32_t write_batch(const pyddsi_bytes *samples, size_t count, uint8_t *out, uint32_t room)
{
    struct pdi_writer writer = {out, out + room};
    (void)pdi_vle_put(&writer, count);
    for (size_t i = 0; i < count; i++) {
        (void)pdi_vle_put(&writer, samples[i].size);
        (void)pdi_bytes_put(&writer, samples[i].data, samples[i].size);
    }
    return (uint32_t)(writer.at - out);
}

/* Whether everybody on this way can read batches. */
static bool all_can_batch(const struct pdi_node *node, const struct pdi_way *way)
{
    bool all = way->group == NULL || (way->group->features & PYDDSI_CAN_BATCH) != 0;
    for (uint32_t peer = pdi_way_next(node, way, 0); all && peer < node->peers_used;
         peer = pdi_way_next(node, way, peer + 1)) {
        all = (node->peers[peer].features & PYDDSI_CAN_BATCH) != 0;
    }
    return all && (way->group != NULL || way->count != 0);
}

/* Batches of best effort, each written in the scratch window and copied to the drafts. False: they must go one by one. */
static bool batch_best(struct pdi_node *node, struct pdi_publisher *publisher,
                       const pyddsi_bytes *samples, size_t count, pdi_time now)
{
    struct pdi_way way = pdi_way_usual(node, publisher);
    uint32_t room = node->config.packet_max - 32;
    struct pdi_loan loan;
    if (publisher->filters || publisher->keeps || publisher->space != 0 || count > UINT16_MAX ||
        !all_can_batch(node, &way)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (samples[i].size + BATCH_HEAD + PDI_VLE_MAX > room) {
            return false;
        }
    }
    if (pdi_window_reserve(&node->scratch, room, 1, &loan) != PYDDSI_OK) {
        return false;
    }
    uint8_t *body = pdi_window_data(&node->scratch, &loan);
    struct pdi_entry model = {.kind = PYDDSI_BDATA, .id = publisher->id};
    for (size_t at = 0; at < count;) {
        uint32_t bytes;
        size_t some = share(samples, count, at, room, &bytes);
        uint32_t size = write_batch(&samples[at], some, body, room);
        pdi_best_put(node, &way, &model, (pyddsi_bytes){body, size}, 0, now);
        at += some;
    }
    pdi_window_abandon(&node->scratch, &loan);
    node->stats.accepted += count;
    return true;
}

int pdi_node_put_many(struct pdi_node *node, uint32_t handle, const pyddsi_bytes *samples,
                      size_t count, pdi_time now)
{
    struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    struct pdi_loan loans[BATCH_MESSAGES_MAX];
    size_t taken[BATCH_MESSAGES_MAX];
    uint32_t messages = 0;
    node->now = now > node->now ? now : node->now;
    if (publisher == NULL || node->closing || count == 0) {
        return PYDDSI_BAD_ARGUMENT;
    }
    if (pdi_plan(node, publisher, now) != PYDDSI_OK) {
        node->stats.put_waits++;
        return PYDDSI_AGAIN;
    }
    if (!publisher->reliable && batch_best(node, publisher, samples, count, now)) {
        return PYDDSI_OK;
    }
    struct pdi_conduit *conduit = only_conduit(node, publisher);
    if (conduit == NULL || (conduit->features & PYDDSI_CAN_BATCH) == 0 || count > UINT16_MAX) {
        return pdi_publish_each(node, handle, samples, count, now);
    }
    uint32_t room = node->config.packet_max - 32;
    int status = PYDDSI_OK;
    for (size_t at = 0; status == PYDDSI_OK && at < count; at += taken[messages++]) {
        uint32_t bytes;
        size_t some = messages < BATCH_MESSAGES_MAX ? share(samples, count, at, room, &bytes) : 0;
        if (some == 0) {
            status = PYDDSI_BAD_ARGUMENT; /* a sample, or the whole of them, is too large */
            break;
        }
        taken[messages] = some;
        status = pdi_reliable_reserve(node, conduit, bytes, 1, &loans[messages]);
        if (status != PYDDSI_OK) {
            break;
        }
    }
    if (status != PYDDSI_OK) {
        for (uint32_t i = 0; i < messages; i++) {
            pdi_window_abandon(&conduit->window, &loans[i]);
        }
        node->stats.put_waits += status == PYDDSI_AGAIN;
        return status;
    }
    size_t at = 0;
    for (uint32_t i = 0; i < messages; i++) {
        struct pdi_entry model = {.kind = PYDDSI_BDATA,
                                  .flags = PYDDSI_R,
                                  .id = publisher->id,
                                  .space = publisher->space};
        uint8_t *out = pdi_window_data(&conduit->window, &loans[i]);
        uint32_t size = write_batch(&samples[at], taken[i], out, loans[i].size);
        (void)pdi_reliable_commit(node, conduit, &loans[i], size, 0, &model, now);
        pdi_fence_wrote(node, publisher, conduit);
        at += taken[i];
    }
    node->stats.accepted += count;
    pdi_skip_count(node, publisher, (pyddsi_bytes){0}, (uint32_t)count);
    return PYDDSI_OK;
}
