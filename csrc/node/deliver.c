/* deliver.c - from a message in its turn to the rings of those who want it.
 *
 *     message ─► which readers? ─► has each of them room? ─► a record in each ring
 *                (remembered)       and each guard?           (a view: the bytes stay in their slot)
 *
 * All or none: a sample that one of its readers cannot take (its ring is full and it wants to wait, or its guard has no
 * room) is given to none, and comes again when something has changed. Best effort waits for nobody: who has no
 * room loses it, with a line in the ledger.
 *
 * Fragments go to the assembler (assembly.c), and the complete sample goes the same way. The file is long because what comes past the
 * sockets goes the same way, too.
 */
#include "node/state.h"
#include "wire/list.h"

/* ---- who wants it ---- */

static uint32_t reader_of(const struct pdi_node *node, uint32_t handle)
{
    uint64_t ours;
    return pdi_map_get(&node->handles, handle, &ours) ? (uint32_t)ours & 0xffff : PDI_NONE;
}

/* Samples from a shelf (pulled, or in their period) name the subscription that they are for, and are for no other. Samples
 * that are pushed are for those who want that: on a group everybody hears them. */
static bool meant(const struct pdi_subscriber *reader, bool answer, uint64_t via)
{
    return answer ? reader->id == via
                  : reader->mode == PYDDSI_PUSH || reader->mode == PYDDSI_PUSH_PULL;
}

/* The readers among these handles that a sample is meant for. */
static void fill_route(struct pdi_node *node, struct pdi_route *route, const uint32_t *handles,
                       uint32_t count)
{
    bool answer = false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t reader = reader_of(node, handles[i]);
        answer = answer ||
                 (reader != PDI_NONE && route->via != 0 && node->readers[reader].id == route->via &&
                  node->readers[reader].mode != PYDDSI_PUSH);
    }
    bool mark = route->id == 0 && route->via != 0; /* the end of an answer is for nobody else */
    for (uint32_t i = 0; i < count && (answer || !mark); i++) {
        uint32_t reader = reader_of(node, handles[i]);
        if (reader != PDI_NONE && meant(&node->readers[reader], answer, route->via)) {
            route->filter[route->count] = pdi_registry_predicate(node->registry, handles[i]);
            route->reader[route->count++] = (uint16_t)reader;
        }
    }
}

/* Looks up, and remembers if there are not too many, nor asked by name. What is not remembered holds until the next call. */
static const struct pdi_route *route_of(struct pdi_node *node, uint8_t space, uint64_t id,
                                        uint64_t via, pyddsi_bytes name)
{
    uint64_t mixed = (id ^ via << 7 ^ (uint64_t)space << 20) * UINT64_C(0x9e3779b97f4a7c15);
    struct pdi_route *route = &node->routes[mixed >> 32 & (PDI_ROUTE_CACHE - 1)];
    uint64_t changes = pdi_registry_route_changes(node->registry);
    if (route->valid && route->id == id && route->via == via && route->space == space &&
        route->changes == changes && name.size == 0) {
        return route;
    }
    uint32_t count = pdi_registry_routes(node->registry, space, id != 0 ? id : via, via, name,
                                         node->route_handles, node->config.subscribers_max);
    bool fits = name.size == 0 && count <= PDI_ROUTE_READERS;
    route = fits ? route : &node->routes[PDI_ROUTE_CACHE];
    route->id = id;
    route->via = via;
    route->space = space;
    route->changes = changes;
    route->valid = fits;
    route->count = 0;
    fill_route(node, route, node->route_handles, count);
    return route;
}

/* The readers of a sample whose sender keeps some (history.c): of what comes those that do not wait for what was, and of what
 * was those that asked for it. */
static const struct pdi_route *kept_route(struct pdi_node *node, const struct pdi_route *all,
                                          uint32_t peer, uint64_t reason)
{
    struct pdi_route *some = &node->routes[PDI_ROUTE_CACHE + 1];
    bool live = reason == PDI_REASON_KEPT;
    if (live && node->waiting == 0) {
        return all;
    }
    some->count = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        const struct pdi_subscriber *reader = &node->readers[all->reader[i]];
        bool waits = pdi_bitset_test(reader->waits, peer);
        bool asked = waits && pdi_bitset_test(reader->asked, peer) &&
                     (reader->id | PDI_REASON_HISTORY) == reason;
        if (live ? !waits : asked) {
            some->filter[some->count] = all->filter[i];
            some->reader[some->count++] = all->reader[i];
        }
    }
    return some;
}

static bool is_kept(const struct pdi_node *node, uint32_t peer, uint64_t reason)
{
    return (reason == PDI_REASON_KEPT || reason >= PDI_REASON_HISTORY) &&
           pdi_history_can(node, peer);
}

/* The readers of what came from a peer. */
static const struct pdi_route *route_from(struct pdi_node *node, uint32_t peer, uint8_t space,
                                          uint64_t id, uint64_t via, pyddsi_bytes name)
{
    bool kept = is_kept(node, peer, via);
    const struct pdi_route *route = route_of(node, space, id, kept ? 0 : via, name);
    return kept ? kept_route(node, route, peer, via) : route;
}

/* ---- room ---- */

/* Whether all of them can take one more sample. */
static bool ready(struct pdi_node *node, const struct pdi_route *route)
{
    bool guards = false;
    /* when packets run out, who has something to read gets no more until others have had theirs */
    bool scarce = pdi_pool_free(&node->pool) < node->pool.slots / 4;
    for (uint32_t i = 0; i < route->count; i++) {
        const struct pdi_subscriber *reader = &node->readers[route->reader[i]];
        if (!reader->used) {
            continue;
        }
        if (reader->on_full == PYDDSI_WAIT &&
            (pdi_ring_used(reader) >= reader->depth || (scarce && pdi_ring_used(reader) != 0))) {
            return false;
        }
        guards = guards || reader->guards != 0;
    }
    return !guards || pdi_guard_keeps(node, route);
}

/* One sample to all readers of its route that it fits; answers how many those are. */
static uint32_t hand_out(struct pdi_node *node, const struct pdi_route *route,
                         const pyddsi_received *record, pdi_time now)
{
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < route->count; i++) {
        struct pdi_subscriber *reader = &node->readers[route->reader[i]];
        const struct pdi_predicate *filter = route->filter[i];
        if (reader->used &&
            (filter == NULL || pdi_predicate_holds(filter, record->resource,
                                                   (pyddsi_bytes){record->data, record->size}))) {
            pdi_ring_push(node, reader, record, now);
            wanted++;
        }
    }
    return wanted;
}

/* The same for what has come from elsewhere: that nobody wants it goes into the ledger. */
static void spread(struct pdi_node *node, const struct pdi_route *route,
                   const pyddsi_received *record, pdi_time now)
{
    bool waited = route == &node->routes[PDI_ROUTE_CACHE + 1]; /* by those who get it as history */
    if (hand_out(node, route, record, now) == 0 && !record->last && !waited) {
        pdi_drop(node, PYDDSI_AT_RING, PYDDSI_BY_NO_SUBSCRIBER, record->space, record->resource, 1,
                 now);
    }
}

static pyddsi_received record_of(const struct pdi_arrival *arrival, const pyddsi_message *message,
                                 uint64_t id, pyddsi_bytes payload, pdi_time now)
{
    return (pyddsi_received){
        .data = payload.data,
        .size = payload.size,
        .resource = id,
        .number = (uint64_t)arrival->number,
        .time_ns = now,
        .peer = arrival->peer,
        .held = arrival->slot,
        .conduit = (uint16_t)arrival->conduit,
        .space = (uint8_t)message->space,
        .reliable = arrival->reliable,
    };
}

/* The name lies in front of the data: in the packet with the size of the data between them, in a block of the session's own
 * right before it. */
static void put_name(pyddsi_received *record, pyddsi_bytes name)
{
    record->name_size = (uint16_t)name.size;
    record->name_gap = (uint8_t)(record->data - (name.data + name.size));
}

/* ---- fragments ---- */

static void deliver_series(struct pdi_node *node, const struct pdi_arrival *arrival,
                           uint32_t series, pdi_time now)
{
    const struct pdi_series *whole = &node->assembler.series[series];
    pyddsi_message message = {.space = whole->space};
    struct pdi_arrival at = *arrival;
    at.slot = series | PDI_SERIES_BIT;
    at.number = whole->first;
    uint64_t id = whole->id;
    const struct pdi_route *route = route_from(node, arrival->peer, whole->space, id,
                                               node->series_via[series], (pyddsi_bytes){0});
    pyddsi_received record =
        record_of(&at, &message, id, pdi_assembler_bytes(&node->assembler, series), now);
    node->series_holds[series] = 1;
    spread(node, route, &record, now);
    pdi_ring_release(node, series | PDI_SERIES_BIT);
}

static int fragment(struct pdi_node *node, const struct pdi_arrival *arrival,
                    const pyddsi_message *message, uint64_t id, uint64_t via, pdi_time now)
{
    uint32_t series;
    int status = pdi_assembly_input(node, arrival, message, id, &series, now);
    if (status == PYDDSI_END) {
        node->series_via[series] = via;
        deliver_series(node, arrival, series, now);
    }
    return status == PYDDSI_AGAIN ? PYDDSI_AGAIN : PYDDSI_OK;
}

/* ---- the door ---- */

/* Whether a move lets this message through: everything sent on the conduit left behind must have come. */
static bool passes(struct pdi_node *node, const struct pdi_arrival *arrival, uint8_t space,
                   uint64_t id)
{
    for (uint32_t i = 0; node->barriers_used != 0 && i < PDI_BARRIERS_MAX; i++) {
        struct pdi_barrier *barrier = &node->barriers[i];
        if (!barrier->used || barrier->peer != arrival->peer || barrier->on != arrival->conduit ||
            (!barrier->whole && (barrier->id != id || barrier->space != space))) {
            continue;
        }
        const struct pdi_order *left = pdi_node_order(node, arrival->peer, barrier->left);
        if (!left->synched) {
            return false; /* its first SYNCH will say what of it is for us */
        }
        if (!barrier->begun) {
            barrier->begun = 1;
            barrier->last_reliable =
                pdi_seq_unwrap(left->seq, left->expected, (uint64_t)barrier->last_reliable);
        }
        if (left->expected <= barrier->last_reliable) {
            return false;
        }
        barrier->used = 0;
        node->barriers_used--;
    }
    return true;
}

/* How many samples the only reader of a route can take at once; 0: there are several, or it wants to look at each, or
 * has no room. */
static uint32_t pours(struct pdi_node *node, const struct pdi_route *route)
{
    if (route->count != 1 || route->filter[0] != NULL) {
        return 0;
    }
    const struct pdi_subscriber *reader = &node->readers[route->reader[0]];
    uint32_t used = pdi_ring_used(reader);
    if (!reader->used || reader->guards != 0 || reader->on_full != PYDDSI_WAIT ||
        used >= reader->depth || !ready(node, route)) {
        return 0;
    }
    return reader->depth - used;
}

/* The samples of a batch go to their only reader all at once, as far as there is room; else one by one. The order remembers
 * how many have gone. */
static int batch(struct pdi_node *node, const struct pdi_arrival *arrival,
                 const pyddsi_message *message, pdi_time now)
{
    uint16_t *part = &node->parts[arrival->peer * node->config.conduits_in + arrival->conduit];
    pyddsi_list samples = message->samples;
    pyddsi_sample sample;
    uint8_t space = (uint8_t)message->space;
    bool own_ids = (message->flags & PYDDSI_A) != 0;
    uint16_t done = 0;
    const struct pdi_route *only =
        own_ids ? NULL : route_of(node, space, message->rid, 0, (pyddsi_bytes){0});
    uint32_t room =
        only != NULL && *part == 0 && arrival->slot < node->pool.slots ? pours(node, only) : 0;
    if (room != 0) {
        uint32_t some = room < samples.count ? room : (uint32_t)samples.count;
        pyddsi_received model = record_of(arrival, message, message->rid, (pyddsi_bytes){0}, now);
        pdi_ring_pour(node, &node->readers[only->reader[0]], &model, &samples, some);
        if (arrival->reliable) {
            *part = done = (uint16_t)some;
        }
    }
    while (pdi_list_sample(&samples, &sample) == PYDDSI_OK) { /* at most the message's count */
        if (arrival->reliable && done++ < *part) {
            continue;
        }
        uint64_t id = own_ids ? sample.rid : message->rid;
        const struct pdi_route *route =
            route_of(node, space, id, own_ids ? message->rid : 0, (pyddsi_bytes){0});
        if (arrival->reliable && !ready(node, route)) {
            return PYDDSI_AGAIN;
        }
        pyddsi_received record = record_of(arrival, message, id, sample.payload, now);
        spread(node, route, &record, now);
        *part = (uint16_t)(*part + arrival->reliable);
    }
    *part = arrival->reliable ? 0 : *part;
    return PYDDSI_OK;
}

int pdi_deliver(struct pdi_node *node, const struct pdi_arrival *arrival,
                const pyddsi_message *message, pdi_time now)
{
    uint8_t space = (uint8_t)message->space;
    bool alias = message->kind == PYDDSI_SDATA && (message->flags & PYDDSI_A) != 0;
    uint64_t id = alias ? message->data_rid : message->rid;
    uint64_t via = alias ? message->rid : 0;
    pyddsi_bytes name = {0};
    if (message->kind == PYDDSI_WDATA) {
        id = 0;
        name = message->uri;
    }
    node->held_for = PDI_HELD_CONDUIT;
    if (arrival->reliable && !passes(node, arrival, space, id)) {
        return PYDDSI_AGAIN;
    }
    node->held_for = PDI_HELD_READER;
    if (!arrival->reliable && node->env.overtaken != NULL &&
        node->env.overtaken(node->env.context, arrival->peer, space, id)) {
        pdi_drop(node, PYDDSI_AT_ORDER, PYDDSI_BY_OLD, space, id, 1, now);
        return PYDDSI_OK;
    }
    uint32_t series;
    while (!message->fragment && node->assembler.used != 0 && /* at most the series */
           pdi_assembler_close(&node->assembler, pdi_arrival_owner(arrival), &series) ==
               PYDDSI_OK) {
        deliver_series(node, arrival, series, now);
    }
    bool kept = arrival->slot != PDI_POOL_NONE || message->fragment;
    if (message->kind == PYDDSI_BDATA) {
        return kept ? batch(node, arrival, message, now) : PYDDSI_AGAIN;
    }
    if (alias && is_kept(node, arrival->peer, via)) {
        node->peers[arrival->peer].keeps = 1;
        if (id == 0) {
            pdi_history_end(node, arrival, space, via & ~PDI_REASON_HISTORY, message->payload, now);
            return PYDDSI_OK;
        }
    }
    const struct pdi_route *route = route_from(node, arrival->peer, space, id, via, name);
    if (!kept && route->count != 0) {
        return PYDDSI_AGAIN; /* the packet lies where the next one will: nobody could look at it */
    }
    if (arrival->reliable && !ready(node, route)) {
        return PYDDSI_AGAIN;
    }
    if (message->fragment) {
        return fragment(node, arrival, message, id, via, now);
    }
    pyddsi_received record = record_of(arrival, message, id, message->payload, now);
    if (name.size != 0) {
        put_name(&record, name);
    } else if (alias && id == 0) { /* the end of an answer to a pull: via names the subscription */
        record.resource = via;
        record.last = 1;
    }
    spread(node, route, &record, now);
    return PYDDSI_OK;
}

/* ---- what this session has kept for a reader of its own ---- */

bool pdi_deliver_matches(struct pdi_node *node, const struct pdi_publisher *publisher,
                         uint32_t reader)
{
    const struct pdi_route *route =
        route_of(node, publisher->space, publisher->id, 0, (pyddsi_bytes){0});
    for (uint32_t i = 0; i < route->count; i++) {
        if (route->reader[i] == reader) {
            return true;
        }
    }
    return false;
}

int pdi_deliver_own(struct pdi_node *node, const struct pdi_publisher *publisher, uint32_t reader,
                    pyddsi_bytes payload, pdi_time now)
{
    struct pdi_route *one = &node->routes[PDI_ROUTE_CACHE + 1];
    const struct pdi_subscriber *takes = &node->readers[reader];
    pyddsi_received record = {.resource = publisher->id,
                              .time_ns = now,
                              .size = payload.size,
                              .peer = PYDDSI_OWN,
                              .conduit = UINT16_MAX,
                              .space = publisher->space,
                              .reliable = publisher->reliable};
    one->count = 1;
    one->reader[0] = (uint16_t)reader;
    one->filter[0] = pdi_registry_predicate(node->registry, takes->registry);
    if (one->filter[0] != NULL && !pdi_predicate_holds(one->filter[0], publisher->id, payload)) {
        return PYDDSI_OK;
    }
    if (!ready(node, one)) {
        return PYDDSI_AGAIN;
    }
    int status =
        node->env.copy(node->env.context, payload.data, payload.size, &record.held, &record.data);
    if (status == PYDDSI_OK) {
        (void)hand_out(node, one, &record, now);
        node->env.release(node->env.context, record.held);
    }
    return status;
}

/* ---- past the sockets ---- */

int pdi_node_wants(struct pdi_node *node, uint8_t space, uint64_t resource)
{
    return route_of(node, space, resource, 0, (pyddsi_bytes){0})->count != 0;
}

int pdi_node_about(const struct pdi_node *node, uint32_t handle, struct pdi_brought *sample)
{
    const struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    if (publisher == NULL || node->closing) {
        return PYDDSI_BAD_ARGUMENT;
    }
    sample->resource = publisher->id;
    sample->space = publisher->space;
    sample->reliable = publisher->reliable;
    return PYDDSI_OK;
}

int pdi_node_ready(struct pdi_node *node, const struct pdi_brought *sample)
{
    const struct pdi_route *route =
        route_of(node, sample->space, sample->resource, 0, sample->name);
    if (route->count == 0) {
        return PYDDSI_END;
    }
    return !sample->reliable || ready(node, route) ? PYDDSI_OK : PYDDSI_AGAIN;
}

static pyddsi_received record_brought(const struct pdi_brought *sample)
{
    return (pyddsi_received){
        .data = sample->data.data,
        .size = sample->data.size,
        .resource = sample->resource,
        .number = sample->number,
        .time_ns = sample->time_ns,
        .peer = sample->peer,
        .held = sample->held,
        .conduit = UINT16_MAX,
        .space = sample->space,
        .reliable = sample->reliable,
    };
}

uint32_t pdi_node_pours(struct pdi_node *node, const struct pdi_brought *model)
{
    return pours(node, route_of(node, model->space, model->resource, 0, model->name));
}

void pdi_node_pour(struct pdi_node *node, const struct pdi_brought *model,
                   const struct pdi_poured *samples, uint32_t count)
{
    const struct pdi_route *route = route_of(node, model->space, model->resource, 0, model->name);
    pyddsi_received record = record_brought(model);
    node->now = model->time_ns > node->now ? model->time_ns : node->now;
    pdi_ring_pour_brought(node, &node->readers[route->reader[0]], &record, samples, count);
}

uint64_t pdi_node_credit(struct pdi_node *node, const struct pdi_brought *model, bool *some)
{
    const struct pdi_route *route = route_of(node, model->space, model->resource, 0, model->name);
    uint64_t credit = PDI_CREDIT_ENDLESS;
    *some = false;
    for (uint32_t i = 0; i < route->count; i++) {
        const struct pdi_subscriber *reader = &node->readers[route->reader[i]];
        uint32_t used = pdi_ring_used(reader);
        uint64_t room = model->reliable ? PDI_AHEAD * (uint64_t)reader->depth - used
                                        : PDI_CREDIT_ENDLESS / 2; /* it waits in vain */
        if (reader->used && reader->on_full == PYDDSI_WAIT) {
            *some = *some || used != 0;
            credit = room < credit ? room : credit;
        }
    }
    return credit;
}

bool pdi_node_drops(struct pdi_node *node, const struct pdi_brought *model)
{
    const struct pdi_route *route = route_of(node, model->space, model->resource, 0, model->name);
    for (uint32_t i = 0; i < route->count; i++) {
        const struct pdi_subscriber *reader = &node->readers[route->reader[i]];
        if (reader->used && reader->on_full != PYDDSI_WAIT) {
            return true;
        }
    }
    return false;
}

uint64_t pdi_node_pass(struct pdi_node *node, const struct pdi_brought *model, uint64_t behind,
                       pdi_time now)
{
    const struct pdi_route *route = route_of(node, model->space, model->resource, 0, model->name);
    uint64_t depth = 0;
    for (uint32_t i = 0; i < route->count; i++) {
        const struct pdi_subscriber *reader = &node->readers[route->reader[i]];
        if (!reader->used || reader->on_full != PYDDSI_DROP_OLDEST || reader->guards != 0 ||
            route->filter[i] != NULL) {
            return 0;
        }
        depth = reader->depth > depth ? reader->depth : depth;
    }
    if (route->count == 0 || behind <= depth) {
        return 0;
    }
    uint64_t dropped = (behind - depth) * route->count;
    node->stats.delivered += dropped;
    pdi_drop(node, PYDDSI_AT_RING, PYDDSI_BY_OVERWRITTEN, model->space, model->resource, dropped,
             now);
    return behind - depth;
}

int pdi_node_bring(struct pdi_node *node, const struct pdi_brought *sample, pdi_time now)
{
    const struct pdi_route *route =
        route_of(node, sample->space, sample->resource, 0, sample->name);
    node->now = now > node->now ? now : node->now;
    if (sample->reliable && !ready(node, route)) {
        return PYDDSI_AGAIN;
    }
    pyddsi_received record = record_brought(sample);
    if (sample->name.size != 0) {
        put_name(&record, sample->name);
    }
    if (sample->own) {
        (void)hand_out(node, route, &record, now);
    } else {
        spread(node, route, &record, now);
    }
    return PYDDSI_OK;
}

uint64_t pdi_node_wants_changes(const struct pdi_node *node)
{
    return pdi_registry_route_changes(node->registry);
}
