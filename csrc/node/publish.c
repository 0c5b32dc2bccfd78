/* publish.c - from the application into windows and drafts.
 *
 *     put ─► plan ─► who? ─┬─ nobody                          counted, nothing to do
 *                          ├─ reliable     room everywhere?   then into each window: all or nothing
 *                          └─ best effort                     into the draft of each conduit
 *
 * A reliable sample is accepted by all the windows that it needs, or by none: the rooms are asked first, and since
 * room can never turn into no room behind the sender's back, the answers still hold when the sample is written.
 */
#include "node/state.h"

/* ---- reliable ---- */

/* The worst answer of all windows concerned. */
static int room(struct pdi_node *node, const struct pdi_way *way, uint32_t size, uint32_t numbers)
{
    int status =
        way->group != NULL ? pdi_reliable_room(node, way->group, size, numbers) : PYDDSI_OK;
    for (uint32_t peer = pdi_way_next(node, way, 0); status == PYDDSI_OK && peer < node->peers_used;
         peer = pdi_way_next(node, way, peer + 1)) {
        status = pdi_reliable_room(node, pdi_node_unicast(node, peer), size, numbers);
    }
    return status;
}

static void write_one(struct pdi_node *node, struct pdi_publisher *publisher,
                      struct pdi_conduit *conduit, const struct pdi_entry *model,
                      pyddsi_bytes payload, uint32_t piece, pdi_time now)
{
    struct pdi_loan loan;
    struct pdi_entry entry = *model;
    uint32_t size = (uint32_t)payload.size;
    entry.fragment = piece != 0;
    entry.first = PDI_WINDOW_SELF;
    entry.fragments = piece != 0 ? pdi_publish_pieces(payload.size, piece) : 0;
    if (pdi_window_reserve(&conduit->window, size, pdi_publish_pieces(payload.size, piece),
                           &loan) != PYDDSI_OK) {
        PDI_CHECK(false); /* room was asked, and only we use it up */
        return;
    }
    if (size != 0) {
        memcpy(pdi_window_data(&conduit->window, &loan), payload.data, size);
    }
    pdi_fence_lead(node, publisher, conduit, &entry);
    (void)pdi_reliable_commit(node, conduit, &loan, size, piece, &entry, now);
    if (publisher != NULL) {
        pdi_fence_wrote(node, publisher, conduit);
    }
}

static int write_all(struct pdi_node *node, struct pdi_publisher *publisher,
                     const struct pdi_way *way, const struct pdi_entry *model, pyddsi_bytes payload,
                     uint32_t piece, pdi_time now)
{
    int status =
        payload.size > PDI_WINDOW_BYTES_MAX
            ? PYDDSI_BAD_ARGUMENT
            : room(node, way, (uint32_t)payload.size, pdi_publish_pieces(payload.size, piece));
    if (status != PYDDSI_OK) {
        return status;
    }
    if (way->group != NULL) {
        write_one(node, publisher, way->group, model, payload, piece, now);
    }
    for (uint32_t peer = pdi_way_next(node, way, 0); peer < node->peers_used;
         peer = pdi_way_next(node, way, peer + 1)) {
        write_one(node, publisher, pdi_node_unicast(node, peer), model, payload, piece, now);
    }
    return PYDDSI_OK;
}

/* A message of the node's own to all of these, or to none. */
int pdi_publish_all(struct pdi_node *node, const struct pdi_way *way, const struct pdi_entry *model,
                    pyddsi_bytes bytes, pdi_time now)
{
    return write_all(node, NULL, way, model, bytes, 0, now);
}

/* A message of the node's own (a declaration, an answer to a pull) on one conduit. */
int pdi_publish_entry(struct pdi_node *node, struct pdi_conduit *conduit,
                      const struct pdi_entry *model, pyddsi_bytes bytes, pdi_time now)
{
    uint32_t piece = model->kind == PYDDSI_SDATA ? pdi_way_piece(node, model, bytes.size) : 0;
    bool narrow = conduit->packet_max != node->config.packet_max;
    if ((piece != 0 && (conduit->features & PYDDSI_CAN_FRAGMENT) == 0) ||
        (narrow && bytes.size + pdi_way_overhead(node, model, false) > conduit->packet_max)) {
        return PYDDSI_BAD_ARGUMENT;
    }
    int status = pdi_reliable_room(node, conduit, (uint32_t)bytes.size,
                                   pdi_publish_pieces(bytes.size, piece));
    if (status == PYDDSI_OK) {
        write_one(node, NULL, conduit, model, bytes, piece, now);
    }
    return status;
}

/* ---- the application's calls ---- */

static struct pdi_entry model_of(const struct pdi_node *node, const struct pdi_publisher *publisher)
{
    uint64_t via = publisher->durability != PYDDSI_VOLATILE ? PDI_REASON_KEPT : publisher->via;
    bool alias = via != 0;
    return (struct pdi_entry){
        .kind = PYDDSI_SDATA,
        .flags = (uint8_t)((publisher->reliable ? PYDDSI_R : 0) | (alias ? PYDDSI_A : 0)),
        .id = alias ? via : publisher->id,
        .data_id = alias ? publisher->id : 0,
        .space = publisher->space,
        .mark = pdi_fence_due(node, publisher) ? PDI_MARK_MIGRATE : 0, /* room for it */
    };
}

uint32_t pdi_publish_piece(const struct pdi_node *node, const struct pdi_publisher *publisher,
                           size_t size)
{
    struct pdi_entry model = model_of(node, publisher);
    return pdi_way_piece(node, &model, size);
}

/* Pieces are known by the number of the first, which must not come round again; and best effort lies in the scratch window until
 * they have left. */
static uint64_t largest(const struct pdi_node *node, const struct pdi_publisher *publisher)
{
    uint32_t piece = pdi_publish_piece(node, publisher, node->config.packet_max);
    uint64_t pieces = (UINT64_C(1) << node->config.seq_bits) - 1;
    uint64_t most = piece * (pieces < UINT32_MAX ? pieces : UINT32_MAX) - 1;
    return publisher->reliable || most < node->scratch.size ? most : node->scratch.size;
}

uint64_t pdi_node_largest(const struct pdi_node *node, uint32_t handle)
{
    const struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    return publisher != NULL ? largest(node, publisher) : UINT64_MAX;
}

/* Leaves those on a sample's way who can read it, and says how it is cut. OK; AGAIN: its group cannot take it, and is being left. */
static int find_way(struct pdi_node *node, struct pdi_publisher *publisher, pyddsi_bytes payload,
                    struct pdi_entry *model, uint32_t *piece, struct pdi_way *way, pdi_time now)
{
    for (;;) { /* twice at most */
        bool grouped = way->group != NULL;
        *model = model_of(node, publisher);
        *piece = pdi_way_piece(node, model, payload.size);
        pdi_way_fit(node, publisher, model, payload.size, *piece, way);
        if (!publisher->reliable || !grouped || way->group != NULL || way->count == 0) {
            return PYDDSI_OK;
        }
        if (pdi_aside_leave(node, publisher, now) != PYDDSI_OK) {
            return PYDDSI_AGAIN;
        }
        (void)pdi_way_wanted(node, publisher, payload, way);
    }
}

int pdi_node_put(struct pdi_node *node, uint32_t handle, const void *data, size_t size,
                 pdi_time now)
{
    struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    pyddsi_bytes payload = {data, size};
    struct pdi_way way = {0};
    node->now = now > node->now ? now : node->now;
    if (publisher == NULL || node->closing) {
        return PYDDSI_BAD_ARGUMENT;
    }
    if (pdi_plan(node, publisher, now) != PYDDSI_OK ||
        (publisher->reliable && !pdi_shelf_caught_up(node, publisher, now))) {
        node->stats.put_waits++;
        return PYDDSI_AGAIN;
    }
    bool goes = pdi_way_wanted(node, publisher, payload, &way);
    if (goes && publisher->durability != PYDDSI_VOLATILE) {
        /* who still gets what was before gets this one after it, from the shelf */
        memcpy(way.bits, way.singles, PDI_BITSET_WORDS(node->config.peers_max) * sizeof(uint64_t));
        way.singles = way.bits;
        pdi_shelf_late(node, publisher, way.bits);
        way.count = pdi_bitset_count(way.bits, node->config.peers_max);
    }
    if (goes) {
        struct pdi_entry model;
        uint32_t piece;
        int status = find_way(node, publisher, payload, &model, &piece, &way, now);
        if (!publisher->reliable && piece != 0 && size > largest(node, publisher)) {
            return PYDDSI_BAD_ARGUMENT;
        }
        if (publisher->reliable) {
            if (status == PYDDSI_OK) {
                status = write_all(node, publisher, &way, &model, payload, piece, now);
            }
            if (status != PYDDSI_OK) {
                node->stats.put_waits += status == PYDDSI_AGAIN;
                return status;
            }
        } else {
            model.mark = 0;
            pdi_best_put(node, &way, &model, payload, piece, now);
        }
        if (way.lacking != 0) {
            pdi_way_list(node, &way, publisher, PYDDSI_AT_PUT, &model, size, now);
        }
    }
    publisher->leaving = 0;
    node->stats.accepted++;
    node->stats.filtered += !goes && publisher->filters;
    node->stats.unmatched +=
        !goes && !publisher->filters && !publisher->keeps && publisher->skipping == 0;
    if (publisher->skipping != 0) {
        pdi_skip_count(node, publisher, payload, 1);
    }
    if (publisher->keeps) {
        pdi_shelf_put(node, publisher, payload, now);
    }
    return PYDDSI_OK;
}

/* Where a message of so many bytes goes that is put by name; bits of those that are skipped (skip.c). */
static void name_way(struct pdi_node *node, pyddsi_bytes name, int reliable, size_t bytes,
                     struct pdi_way *way, uint64_t *without)
{
    bool groups = node->config.multicasts != 0 && node->out[0].members != 0 &&
                  bytes <= node->out[0].packet_max;
    way->group = groups ? &node->out[0] : NULL;
    way->singles = way->bits;
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        bool grouped = way->group != NULL && pdi_node_member(node, way->group, peer)->joined;
        if (!pdi_session_established(node, peer) || grouped) {
            continue;
        }
        uint32_t most = pdi_node_unicast(node, peer)->packet_max;
        if (most != node->config.packet_max && bytes > most) {
            if (pdi_registry_wants(node->registry, peer, name)) {
                pdi_way_lack(node, way, peer);
            }
        } else if (reliable && pdi_node_unicast(node, peer)->skips) {
            pdi_bitset_set(without, peer);
        } else {
            pdi_bitset_set(way->bits, peer);
            way->count++;
        }
    }
}

/* Everybody, declared or not: the group for its members, and a copy for each other peer. */
int pdi_node_put_name(struct pdi_node *node, pyddsi_bytes name, int reliable, const void *data,
                      size_t size, pdi_time now)
{
    uint8_t head[PDI_NAME_MAX + 2 * PDI_VLE_MAX];
    struct pdi_writer writer = {head, head + sizeof head};
    struct pdi_way way = {0};
    uint64_t without[PDI_BITSET_WORDS(PYDDSI_PEERS_MAX)] = {0}; /* skip.c */
    pyddsi_fault fault;
    node->now = now > node->now ? now : node->now;
    if (node->closing || pdi_name_check(name, PDI_NAME_MAX, &fault) != PYDDSI_OK ||
        size > UINT16_MAX) {
        return PYDDSI_BAD_ARGUMENT;
    }
    struct pdi_entry model = {.kind = PYDDSI_WDATA, .flags = reliable ? PYDDSI_R : 0};
    size_t bytes = name.size + size + 5 + pdi_way_overhead(node, &model, false);
    name_way(node, name, reliable, bytes, &way, without);
    (void)pdi_vle_put(&writer, name.size);
    (void)pdi_bytes_put(&writer, name.data, name.size);
    (void)pdi_vle_put(&writer, size);
    uint32_t front = (uint32_t)(writer.at - head);
    if (front + size + pdi_way_overhead(node, &model, false) > node->config.packet_max ||
        front + size > node->scratch.size) {
        return PYDDSI_BAD_ARGUMENT;
    }
    struct pdi_loan loan;
    if (pdi_window_reserve(&node->scratch, front + (uint32_t)size, 1, &loan) != PYDDSI_OK) {
        return PYDDSI_AGAIN;
    }
    uint8_t *whole = pdi_window_data(&node->scratch, &loan);
    memcpy(whole, head, front);
    if (size != 0) {
        memcpy(whole + front, data, size);
    }
    int status = PYDDSI_OK;
    pyddsi_bytes payload = {whole, front + size};
    if (reliable) {
        status = write_all(node, NULL, &way, &model, payload, 0, now);
    } else {
        pdi_best_put(node, &way, &model, payload, 0, now);
    }
    pdi_window_abandon(&node->scratch, &loan);
    if (status == PYDDSI_OK) {
        node->stats.accepted++;
        node->stats.unmatched += way.group == NULL && way.count == 0;
        if (way.lacking != 0) {
            pdi_way_list(node, &way, NULL, PYDDSI_AT_PUT, &model, size, now);
        }
        for (uint32_t peer = pdi_bitset_find(without, node->peers_used, 0); peer < node->peers_used;
             peer = pdi_bitset_find(without, node->peers_used, peer + 1)) {
            pdi_node_unicast(node, peer)->skipped++;
        }
    }
    return status;
}

int pdi_node_conduit(const struct pdi_node *node, uint32_t handle)
{
    struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    if (publisher == NULL) {
        return INT32_MIN;
    }
    if (publisher->multicast || (publisher->way != PYDDSI_WAY_UNICAST && publisher->singles == 0)) {
        return publisher->conduit;
    }
    return publisher->singles != 0 ? -1 - (int)publisher->only : INT32_MIN;
}

bool pdi_node_reliable(const struct pdi_node *node, uint32_t handle)
{
    const struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    return publisher != NULL && publisher->reliable;
}

/* The usual way of a sample of this size: everybody who is matched and can read it. */
void pdi_publish_way(const struct pdi_node *node, const struct pdi_publisher *publisher,
                     size_t size, struct pdi_way *way)
{
    struct pdi_entry model = model_of(node, publisher);
    *way = pdi_way_usual(node, publisher);
    pdi_way_fit(node, publisher, &model, size, pdi_way_piece(node, &model, size), way);
}

/* Whether all of these find room, in each window all that goes there. Large ones may go other ways than small ones. */
static int room_for_each(struct pdi_node *node, const struct pdi_publisher *publisher,
                         const pyddsi_bytes *samples, size_t count)
{
    uint64_t bytes[2] = {0, 0}, numbers[2] = {0, 0};
    size_t most[2] = {0, 0}, least[2] = {SIZE_MAX, SIZE_MAX};
    struct pdi_way ways[2];
    int status = PYDDSI_OK;
    for (size_t i = 0; i < count; i++) {
        uint32_t piece = pdi_publish_piece(node, publisher, samples[i].size);
        bytes[piece != 0] += samples[i].size;
        numbers[piece != 0] += pdi_publish_pieces(samples[i].size, piece);
        most[piece != 0] = samples[i].size > most[piece != 0] ? samples[i].size : most[piece != 0];
        least[piece != 0] =
            samples[i].size < least[piece != 0] ? samples[i].size : least[piece != 0];
    }
    if (bytes[0] + bytes[1] > PDI_WINDOW_BYTES_MAX ||
        numbers[0] + numbers[1] > PDI_WINDOW_ENTRIES_MAX) {
        return PYDDSI_BAD_ARGUMENT;
    }
    for (int large = 0; large < 2;
         large++) { /* the smallest goes to all that any of them goes to */
        pdi_publish_way(node, publisher, numbers[large] != 0 ? least[large] : 0, &ways[large]);
        bool goes = ways[large].group != NULL || ways[large].count != 0;
        if (!publisher->reliable && large && goes && most[large] > largest(node, publisher)) {
            return PYDDSI_BAD_ARGUMENT;
        }
        if (publisher->reliable && numbers[large] != 0) {
            pdi_way_promise(node, &ways[large], bytes[large], (uint32_t)numbers[large], 1);
        }
    }
    for (int large = 0; publisher->reliable && large < 2; large++) {
        int answer = numbers[large] != 0 ? pdi_way_room(node, &ways[large]) : PYDDSI_OK;
        status = status == PYDDSI_OK || answer == PYDDSI_AGAIN ? answer : status;
    }
    for (int large = 0; large < 2; large++) {
        pdi_way_promise(node, &ways[large], 0, 0, 0);
    }
    return status;
}

/* If the group cannot take the largest of these, none goes by it. As pdi_aside_leave. */
static int leave_for_each(struct pdi_node *node, struct pdi_publisher *publisher,
                          const pyddsi_bytes *samples, size_t count, pdi_time now)
{
    size_t most = 0;
    struct pdi_way way;
    for (size_t i = 0; i < count; i++) {
        most = samples[i].size > most ? samples[i].size : most;
    }
    if (!publisher->reliable || !publisher->multicast) {
        return PYDDSI_OK;
    }
    pdi_publish_way(node, publisher, most, &way);
    return way.group == NULL && way.count != 0 ? pdi_aside_leave(node, publisher, now) : PYDDSI_OK;
}

/* One by one, but all or none. */
int pdi_publish_each(struct pdi_node *node, uint32_t handle, const pyddsi_bytes *samples,
                     size_t count, pdi_time now)
{
    struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    int status = publisher->reliable && !pdi_shelf_caught_up(node, publisher, now)
                     ? PYDDSI_AGAIN
                     : leave_for_each(node, publisher, samples, count, now);
    status = status == PYDDSI_OK ? room_for_each(node, publisher, samples, count) : status;
    node->stats.put_waits += status == PYDDSI_AGAIN;
    bool leaves = publisher->leaving;
    for (size_t i = 0; status == PYDDSI_OK && i < count; i++) {
        publisher->leaving = leaves; /* for all of them */
        status = pdi_node_put(node, handle, samples[i].data, samples[i].size, now);
    }
    return status;
}
