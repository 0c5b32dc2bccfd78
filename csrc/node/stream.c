/* stream.c - a sample larger than any window, piece by piece.
 *
 *     begin(total) ── more(data) ── more(data) ── .. ── the last piece ends it
 *                     as many whole pieces as there is room for
 *
 * The pieces are the fragments that a sample of this size has anyway; what is new is only that they are committed over
 * time, with other messages of the conduit between them. Who is to get the sample is settled at its beginning: who comes
 * later does not get the rest of it, and for who leaves the rest is not sent. A way that has changed meanwhile is taken by
 * what comes after it (plan.c).
 *
 * A sample that is given up in the middle must not stay at its receivers as a torso: a last piece that contradicts the
 * others (another total) makes them drop it, with a line in their ledger.
 */
#include "node/state.h"

static struct pdi_conduit *conduit_of(const struct pdi_node *node, const struct pdi_outflow *flow)
{
    struct pdi_conduit *conduit = &node->out[flow->conduit];
    bool same = conduit->peer == PDI_NONE || node->peers[conduit->peer].mine == flow->life;
    return conduit->open && same ? conduit : NULL;
}

/* OK; AGAIN: as many are on their way there as a receiver has places for; NO_SPACE: no flow is free. */
static int add(struct pdi_node *node, uint32_t publisher, const struct pdi_conduit *conduit)
{
    struct pdi_outflow *free = NULL;
    uint32_t there = 0;
    for (uint32_t i = 0; i < PDI_OUTFLOWS_MAX; i++) {
        struct pdi_outflow *flow = &node->outflows[i];
        there += flow->used && flow->conduit == conduit->number;
        free = flow->used || free != NULL ? free : flow;
    }
    if (there >= PDI_SERIES_OWNER_MAX) {
        return PYDDSI_AGAIN;
    }
    if (free == NULL) {
        return PYDDSI_NO_SPACE;
    }
    *free = (struct pdi_outflow){.used = 1,
                                 .publisher = publisher,
                                 .conduit = conduit->number,
                                 .life = conduit->peer != PDI_NONE ? node->peers[conduit->peer].mine
                                                                   : 0};
    return PYDDSI_OK;
}

/* The next flow of this publisher at or after i; null behind the last. */
static struct pdi_outflow *next(struct pdi_node *node, uint32_t publisher, uint32_t *i)
{
    for (; *i < PDI_OUTFLOWS_MAX; (*i)++) {
        struct pdi_outflow *flow = &node->outflows[*i];
        if (flow->used && !flow->torso && flow->publisher == publisher) {
            if (conduit_of(node, flow) != NULL) {
                (*i)++;
                return flow;
            }
            flow->used = 0;
        }
    }
    return NULL;
}

static void finish(struct pdi_node *node, struct pdi_publisher *publisher)
{
    uint32_t index = (uint32_t)(publisher - node->publishers);
    for (uint32_t i = 0; i < PDI_OUTFLOWS_MAX; i++) {
        struct pdi_outflow *flow = &node->outflows[i];
        flow->used = flow->used && (flow->torso || flow->publisher != index);
    }
    publisher->streaming = 0;
    publisher->planned = 0; /* a move may have waited for this */
}

int pdi_node_begin(struct pdi_node *node, uint32_t handle, uint64_t total, pdi_time now)
{
    struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    node->now = now > node->now ? now : node->now;
    if (publisher == NULL || node->closing || publisher->streaming || total == 0 ||
        !publisher->reliable) {
        return PYDDSI_BAD_ARGUMENT;
    }
    if (pdi_plan(node, publisher, now) != PYDDSI_OK) {
        return PYDDSI_AGAIN;
    }
    if (publisher->keeps || publisher->filters) {
        return PYDDSI_BAD_ARGUMENT; /* it would have to be kept, or looked at, as a whole */
    }
    uint32_t index = (uint32_t)(publisher - node->publishers);
    uint32_t needed = PYDDSI_CAN_FRAGMENT | (publisher->space != 0 ? PYDDSI_CAN_SPACE : 0U);
    struct pdi_conduit *group = publisher->multicast ? &node->out[publisher->conduit] : NULL;
    bool grouped = group != NULL && (group->features & needed) == needed;
    if (group != NULL && !grouped && pdi_aside_leave(node, publisher, now) != PYDDSI_OK) {
        return PYDDSI_AGAIN;
    }
    uint32_t piece = pdi_publish_piece(node, publisher, node->config.packet_max);
    int room = grouped ? add(node, index, group) : PYDDSI_OK;
    struct pdi_way way = {0};
    for (uint32_t peer = 0; room == PYDDSI_OK && peer < node->peers_used; peer++) {
        bool single = pdi_bitset_test(publisher->singles_bits, peer) ||
                      (pdi_bitset_test(publisher->pushed, peer) && !grouped &&
                       !pdi_bitset_test(publisher->without, peer));
        if (single && (node->peers[peer].features & needed) == needed) {
            room = add(node, index, pdi_node_unicast(node, peer));
        } else if (single) {
            pdi_way_lack(node, &way, peer);
        }
    }
    uint32_t i = 0;
    struct pdi_outflow *flow;
    while ((flow = next(node, index, &i)) != NULL) { /* at most PDI_OUTFLOWS_MAX */
        uint32_t half = conduit_of(node, flow)->window.size / 2;
        piece = piece < half ? piece : half; /* a piece must fit beside the one before it */
    }
    if (room != PYDDSI_OK || total / piece >= UINT32_MAX ||
        total / piece + 1 >= UINT64_C(1) << node->config.seq_bits) {
        /* pieces are known by the number of the first, which must not come round again */
        finish(node, publisher);
        return room != PYDDSI_OK ? room : PYDDSI_BAD_ARGUMENT;
    }
    if (way.lacking != 0) {
        struct pdi_entry model = {
            .kind = PYDDSI_SDATA, .id = publisher->id, .space = publisher->space};
        pdi_way_list(node, &way, publisher, PYDDSI_AT_PUT, &model, total, now);
    }
    publisher->streaming = 1;
    publisher->leaving = 0;
    publisher->stream_piece = piece;
    publisher->total = total;
    publisher->done = 0;
    return PYDDSI_OK;
}

static int write_pieces(struct pdi_node *node, struct pdi_publisher *publisher,
                        struct pdi_outflow *flow, const uint8_t *data, uint32_t size,
                        uint32_t fragments, pdi_time now)
{
    struct pdi_conduit *conduit = conduit_of(node, flow);
    struct pdi_loan loan;
    uint32_t piece = publisher->stream_piece;
    struct pdi_entry model = {.kind = PYDDSI_SDATA,
                              .flags = PYDDSI_R,
                              .id = publisher->id,
                              .space = publisher->space,
                              .fragment = 1,
                              .first = flow->started ? flow->first : PDI_WINDOW_SELF,
                              .fragments = fragments};
    int status = pdi_reliable_reserve(node, conduit, size, (size + piece - 1) / piece, &loan);
    if (status != PYDDSI_OK) {
        return status;
    }
    memcpy(pdi_window_data(&conduit->window, &loan), data, size);
    pdi_fence_lead(node, flow->started ? NULL : publisher, conduit, &model);
    uint64_t number = pdi_reliable_commit(node, conduit, &loan, size, piece, &model, now);
    pdi_fence_wrote(node, publisher, conduit);
    flow->first = flow->started ? flow->first : number;
    flow->started = 1;
    return PYDDSI_OK;
}

/* Whether every window has room for so much. */
static int room(struct pdi_node *node, uint32_t publisher, uint32_t size, uint32_t piece)
{
    int status = PYDDSI_OK;
    uint32_t i = 0;
    struct pdi_outflow *flow;
    while (status == PYDDSI_OK && (flow = next(node, publisher, &i)) != NULL) { /* as above */
        status = pdi_reliable_room(node, conduit_of(node, flow), size, (size + piece - 1) / piece);
    }
    return status;
}

int pdi_node_more(struct pdi_node *node, uint32_t handle, const void *data, size_t size,
                  size_t *taken, pdi_time now)
{
    struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    *taken = 0;
    node->now = now > node->now ? now : node->now;
    if (publisher == NULL || !publisher->streaming || size > publisher->total - publisher->done) {
        return PYDDSI_BAD_ARGUMENT;
    }
    uint32_t index = (uint32_t)(publisher - node->publishers);
    uint32_t piece = publisher->stream_piece;
    uint32_t fragments = (uint32_t)((publisher->total + piece - 1) / piece);
    while (*taken < size) { /* each round takes a piece */
        uint64_t left = publisher->total - publisher->done;
        uint32_t some = left < piece ? (uint32_t)left : piece;
        if (size - *taken < some || room(node, index, some, piece) != PYDDSI_OK) {
            break;
        }
        uint32_t i = 0;
        struct pdi_outflow *flow;
        while ((flow = next(node, index, &i)) != NULL) { /* at most PDI_OUTFLOWS_MAX */
            (void)write_pieces(node, publisher, flow, (const uint8_t *)data + *taken, some,
                               fragments, now);
        }
        *taken += some;
        publisher->done += some;
    }
    if (publisher->done == publisher->total) {
        pdi_skip_count(node, publisher, (pyddsi_bytes){0}, 1);
        finish(node, publisher);
        node->stats.accepted++;
        return PYDDSI_OK;
    }
    return *taken != 0 ? PYDDSI_OK : PYDDSI_AGAIN;
}

/* A last piece that contradicts the others. False: there is no room for it now. */
static bool end_torso(struct pdi_node *node, struct pdi_outflow *flow, pdi_time now)
{
    struct pdi_conduit *conduit = conduit_of(node, flow);
    struct pdi_loan loan;
    struct pdi_entry model = {.kind = PYDDSI_SDATA,
                              .flags = PYDDSI_R,
                              .id = flow->id,
                              .space = flow->space,
                              .fragment = 1,
                              .first = flow->first,
                              .fragments = 1};
    if (conduit == NULL || !flow->started) {
        return true;
    }
    if (pdi_reliable_reserve(node, conduit, 1, 1, &loan) != PYDDSI_OK) {
        return false;
    }
    *pdi_window_data(&conduit->window, &loan) = 0;
    (void)pdi_reliable_commit(node, conduit, &loan, 1, 0, &model, now);
    return true;
}

/* Ends what was given up while there was no room. */
void pdi_stream_tick(struct pdi_node *node, pdi_time now)
{
    for (uint32_t i = 0; i < PDI_OUTFLOWS_MAX; i++) {
        struct pdi_outflow *flow = &node->outflows[i];
        if (flow->used && flow->torso && end_torso(node, flow, now)) {
            flow->used = 0;
        }
    }
}

void pdi_stream_forget(struct pdi_node *node, struct pdi_publisher *publisher, pdi_time now)
{
    uint32_t index = (uint32_t)(publisher - node->publishers);
    for (uint32_t i = 0; i < PDI_OUTFLOWS_MAX; i++) {
        struct pdi_outflow *flow = &node->outflows[i];
        if (flow->used && !flow->torso && flow->publisher == index) {
            flow->torso = 1;
            flow->id = publisher->id;
            flow->space = publisher->space;
        }
    }
    publisher->streaming = 0;
    publisher->planned = 0;
    pdi_stream_tick(node, now);
}

int pdi_node_end(struct pdi_node *node, uint32_t handle, int drop, pdi_time now)
{
    struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    node->now = now > node->now ? now : node->now;
    if (publisher == NULL || (publisher->streaming && !drop)) {
        return PYDDSI_BAD_ARGUMENT;
    }
    if (!publisher->streaming) {
        return PYDDSI_OK;
    }
    pdi_stream_forget(node, publisher, now);
    return PYDDSI_OK;
}
