/* declare.c - declarations of the application, and their way over each peer's unicast conduit.
 *
 * The registry decides; here its handles become ours, publishers and readers get their places, and the registry's words
 * for each peer are put into that peer's window whenever there is room. A handle is
 *
 *     kind (2 bits) | generation (14) | index (16)
 *
 * so that one of a forgotten thing is refused, for as long as 16383 others have not had its place.
 */
#include "node/state.h"

enum { KIND_THING, KIND_PUBLISHER, KIND_READER };

static uint32_t handle_of(uint32_t kind, uint16_t generation, uint32_t index)
{
    return kind << 30 | (generation & 0x3fffU) << 16 | index;
}

struct pdi_publisher *pdi_publisher_get(const struct pdi_node *node, uint32_t handle)
{
    uint32_t index = handle & 0xffff;
    if (handle >> 30 != KIND_PUBLISHER || index >= node->config.publishers_max) {
        return NULL;
    }
    struct pdi_publisher *publisher = &node->publishers[index];
    return publisher->used && (publisher->generation & 0x3fff) == (handle >> 16 & 0x3fff)
               ? publisher
               : NULL;
}

struct pdi_subscriber *pdi_subscriber_get(const struct pdi_node *node, uint32_t handle)
{
    uint32_t index = handle & 0xffff;
    if (handle >> 30 != KIND_READER || index >= node->config.subscribers_max) {
        return NULL;
    }
    struct pdi_subscriber *reader = &node->readers[index];
    return reader->used && (reader->generation & 0x3fff) == (handle >> 16 & 0x3fff) ? reader : NULL;
}

static struct pdi_thing *thing_get(const struct pdi_node *node, uint32_t handle)
{
    uint32_t index = handle & 0xffff;
    if (handle >> 30 != KIND_THING || index >= node->things_max) {
        return NULL;
    }
    struct pdi_thing *thing = &node->things[index];
    return thing->used && (thing->generation & 0x3fff) == (handle >> 16 & 0x3fff) ? thing : NULL;
}

/* ---- things: resources, selections, bindings ---- */

static int declare_thing(struct pdi_node *node, const struct pdi_wish *wish, uint32_t *handle,
                         int *status)
{
    uint32_t registry;
    if (pdi_slots_full(&node->things_free) || node->closing) {
        return pdi_retire_full(node);
    }
    int answer = pdi_registry_declare(node->registry, wish, &registry, status);
    if (answer != PYDDSI_OK) {
        return answer == PYDDSI_NO_SPACE ? pdi_retire_full(node) : answer;
    }
    uint32_t index = pdi_slots_get(&node->things_free);
    struct pdi_thing *thing = &node->things[index];
    thing->used = 1;
    thing->registry = registry;
    thing->named = wish->kind == PYDDSI_RESOURCE;
    thing->space = wish->space;
    thing->id = wish->id;
    *handle = handle_of(KIND_THING, thing->generation, index);
    (void)pdi_map_put(&node->handles, registry, *handle);
    node->kick = 1;
    return PYDDSI_OK;
}

int pdi_node_resource(struct pdi_node *node, uint8_t space, uint64_t resource, pyddsi_bytes name,
                      int is_chosen, uint8_t reliability, uint8_t durability, uint32_t *handle,
                      int *status)
{
    struct pdi_wish wish = {.kind = PYDDSI_RESOURCE,
                            .space = space,
                            .reliability = reliability,
                            .durability = durability,
                            .is_chosen = is_chosen != 0,
                            .id = resource << 1,
                            .text = name};
    return declare_thing(node, &wish, handle, status);
}

int pdi_node_selection(struct pdi_node *node, uint8_t space, uint64_t selection, pyddsi_bytes query,
                       int is_global, uint32_t *handle, int *status)
{
    struct pdi_wish wish = {.kind = PYDDSI_SELECTION,
                            .space = space,
                            .is_global = is_global != 0,
                            .id = selection << 1 | 1,
                            .text = query};
    return declare_thing(node, &wish, handle, status);
}

int pdi_node_binding(struct pdi_node *node, uint8_t space, uint64_t old_selection,
                     uint64_t new_selection, int is_global, uint32_t *handle, int *status)
{
    struct pdi_wish wish = {.kind = PYDDSI_BINDING,
                            .space = space,
                            .is_global = is_global != 0,
                            .id = old_selection << 1 | 1,
                            .new_id = new_selection << 1 | 1};
    return declare_thing(node, &wish, handle, status);
}

/* ---- publishers ---- */

int pdi_node_publisher(struct pdi_node *node, const pyddsi_publisher_options *options,
                       uint32_t *handle, int *status)
{
    if (pdi_slots_full(&node->publishers_free) || node->closing) {
        return PYDDSI_NO_SPACE;
    }
    struct pdi_wish wish = {.kind = PYDDSI_PUBLICATION,
                            .space = options->space,
                            .reliability = options->reliability,
                            .durability = options->durability,
                            .way = options->way,
                            .id = options->resource << 1};
    uint32_t registry;
    int answer = pdi_registry_declare(node->registry, &wish, &registry, status);
    if (answer != PYDDSI_OK) {
        return answer;
    }
    uint32_t index = pdi_slots_get(&node->publishers_free);
    struct pdi_publisher *publisher = &node->publishers[index];
    node->publishers_used = index >= node->publishers_used ? index + 1 : node->publishers_used;
    uint8_t reliability = options->reliability;
    if (reliability == PYDDSI_BY_RESOURCE) {
        reliability = pdi_registry_reliability(node->registry, options->space, wish.id);
    }
    uint8_t durability = options->durability;
    if (durability == PYDDSI_VOLATILE) {
        durability = pdi_registry_durability(node->registry, options->space, wish.id);
    }
    uint32_t words = PDI_BITSET_WORDS(node->config.peers_max);
    uint64_t *bits = node->publisher_bits + (size_t)index * words * PDI_PUBLISHER_BITS;
    memset(bits, 0, (size_t)words * PDI_PUBLISHER_BITS * sizeof *bits);
    *publisher = (struct pdi_publisher){
        .registry = registry,
        .generation = publisher->generation,
        .used = 1,
        .space = options->space,
        .reliable = reliability != PYDDSI_BEST_EFFORT,
        .durability = durability,
        .way = options->way,
        .conduit = options->conduit,
        .id = wish.id,
        .pushed = bits,
        .singles_bits = bits + words,
        .learners = bits + (size_t)words * 2,
        .untold = bits + (size_t)words * 3,
        .carried = bits + (size_t)words * 4,
        .skips = bits + (size_t)words * 5,
        .without = bits + (size_t)words * 6,
        .alone = bits + (size_t)words * 7,
        .only = PDI_NONE,
        .current = INT32_MIN,
        .shelf_max =
            options->shelf_samples != 0 ? options->shelf_samples : durability != PYDDSI_VOLATILE,
        .shelf_first = PDI_NONE,
        .shelf_last = PDI_NONE,
    };
    *handle = publisher->handle = handle_of(KIND_PUBLISHER, publisher->generation, index);
    (void)pdi_map_put(&node->handles, registry, *handle);
    node->kick = 1;
    return PYDDSI_OK;
}

/* ---- subscribers ---- */

static uint32_t ring_for(uint32_t depth)
{
    uint32_t size = 2;
    while (size < depth && size < UINT32_C(1) << 30) {
        size *= 2;
    }
    return size;
}

int pdi_node_subscriber(struct pdi_node *node, const pyddsi_subscriber_options *options,
                        uint32_t *handle, int *status)
{
    uint32_t registry;
    uint32_t depth = options->depth != 0 ? options->depth : 1;
    uint32_t size = ring_for(depth);
    if (options->guards > PYDDSI_GUARD_MAX || options->on_full > PYDDSI_DROP_NEWEST) {
        return PYDDSI_BAD_ARGUMENT;
    }
    if (pdi_slots_full(&node->readers_free) || node->closing) {
        return PYDDSI_NO_SPACE;
    }
    uint32_t ring = pdi_pages_get(&node->record_pages, size);
    if (ring == PDI_PAGES_NONE) {
        return PYDDSI_NO_SPACE;
    }
    struct pdi_wish wish = {.kind = PYDDSI_SUBSCRIPTION,
                            .space = options->space,
                            .reliability = options->reliability,
                            .mode = options->mode != 0 ? options->mode : PYDDSI_PUSH,
                            .id = options->resource << 1 | (options->is_selection != 0),
                            .origin_ms = options->origin_ms,
                            .period_ms = options->period_ms,
                            .duration_ms = options->duration_ms};
    int answer = pdi_registry_declare(node->registry, &wish, &registry, status);
    if (answer != PYDDSI_OK) {
        pdi_pages_put(&node->record_pages, ring, size);
        return answer;
    }
    uint32_t index = pdi_slots_get(&node->readers_free);
    struct pdi_subscriber *reader = &node->readers[index];
    node->readers_used = index >= node->readers_used ? index + 1 : node->readers_used;
    *reader = (struct pdi_subscriber){
        .registry = registry,
        .generation = reader->generation,
        .used = 1,
        .space = options->space,
        .mode = wish.mode,
        .on_full = options->on_full,
        .depth = depth,
        .id = wish.id,
        .ring = ring,
        .ring_size = size,
        .guards = options->guards,
    };
    memcpy(reader->guard_publisher, options->guard_publisher, sizeof reader->guard_publisher);
    memcpy(reader->guard_bytes, options->guard_bytes, sizeof reader->guard_bytes);
    *handle = handle_of(KIND_READER, reader->generation, index);
    (void)pdi_map_put(&node->handles, registry, *handle);
    pdi_history_reader(node, reader);
    node->kick = 1;
    return PYDDSI_OK;
}

/* ---- forgetting, status ---- */

static uint32_t *registry_handle(const struct pdi_node *node, uint32_t handle)
{
    struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    struct pdi_subscriber *reader = pdi_subscriber_get(node, handle);
    struct pdi_thing *thing = thing_get(node, handle);
    return publisher != NULL ? &publisher->registry
           : reader != NULL  ? &reader->registry
           : thing != NULL   ? &thing->registry
                             : NULL;
}

int pdi_node_forget(struct pdi_node *node, uint32_t handle, pdi_time now)
{
    uint32_t *registry = registry_handle(node, handle);
    node->now = now > node->now ? now : node->now;
    if (registry == NULL) {
        return PYDDSI_BAD_ARGUMENT;
    }
    (void)pdi_map_remove(&node->handles, *registry);
    struct pdi_publisher *publisher = pdi_publisher_get(node, handle);
    struct pdi_subscriber *reader = pdi_subscriber_get(node, handle);
    struct pdi_thing *thing = thing_get(node, handle);
    if (thing == NULL) {
        (void)pdi_registry_forget(node->registry, *registry);
    }
    if (publisher != NULL) {
        pdi_shelf_forget(node, publisher, PYDDSI_BY_CLOSE, now);
        pdi_stream_forget(node, publisher, now);
        publisher->used = 0;
        publisher->generation++;
        pdi_slots_put(&node->publishers_free, handle & 0xffff);
    } else if (reader != NULL) {
        pdi_ring_drop(node, reader, PYDDSI_BY_CLOSE, now);
        pdi_history_forget_reader(node, reader);
        reader->used = 0;
        reader->generation++;
        pdi_slots_put(&node->readers_free, handle & 0xffff);
        pdi_pages_put(&node->record_pages, reader->ring, reader->ring_size);
    } else if (thing != NULL) {
        thing->used = 0;
        thing->generation++;
        pdi_retire(node, handle & 0xffff, now);
    }
    node->kick = 1;
    return PYDDSI_OK;
}

int pdi_node_status(const struct pdi_node *node, uint32_t handle)
{
    const uint32_t *registry = registry_handle(node, handle);
    return registry != NULL ? pdi_registry_status(node->registry, *registry) : PYDDSI_BAD_ARGUMENT;
}

/* ---- to the peers, and what comes of it ---- */

/* "Try again" is answered with a pause that grows: a contest ends when others have settled it, and that takes round
 * trips, or the lease of somebody who has gone. */
static bool may_repeat(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    if (now < who->again_at) {
        if (who->again_at < pdi_heap_get(&node->timers, pdi_timer_peer(peer))) {
            pdi_timer_set(node, pdi_timer_peer(peer), who->again_at);
        }
        return false;
    }
    bool first = now - who->again_at > 2 * PDI_TIME_MS * PDI_AGAIN_SLOWEST_MS;
    pdi_time least = 2 * who->rtt.smooth > PDI_AGAIN_MS * PDI_TIME_MS ? 2 * who->rtt.smooth
                                                                      : PDI_AGAIN_MS * PDI_TIME_MS;
    who->again_wait = first ? least : 2 * who->again_wait;
    if (who->again_wait > PDI_AGAIN_SLOWEST_MS * PDI_TIME_MS) {
        who->again_wait = PDI_AGAIN_SLOWEST_MS * PDI_TIME_MS;
    }
    who->again_at = pdi_time_add(now, who->again_wait);
    return true;
}

/* Puts into each peer's window what the registry has for it. What finds no room waits: the window's next ACK, or the
 * next tick, tries again. */
void pdi_declare_tick(struct pdi_node *node, pdi_time now)
{
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        struct pdi_conduit *conduit = pdi_node_unicast(node, peer);
        while (conduit->open && pdi_session_established(node, peer) &&
               pdi_registry_pending(node->registry, peer)) {
            uint8_t body[PDI_REGISTRY_ROOM_MIN];
            struct pdi_entry model = {.kind = PYDDSI_DECLARE};
            if (pdi_reliable_room(node, conduit, PDI_REGISTRY_ROOM_MIN, 1) != PYDDSI_OK) {
                break; /* room for the largest one, since what the registry gives counts as sent */
            }
            size_t size;
            if (pdi_registry_contested(node->registry, peer) && !may_repeat(node, peer, now)) {
                break;
            }
            size_t room = conduit->packet_max - pdi_way_overhead(node, &model, false);
            room = room < sizeof body ? room : sizeof body;
            if (pdi_registry_output(node->registry, peer, body, room, &size, &model.space) !=
                PYDDSI_OK) {
                break;
            }
            (void)pdi_publish_entry(node, conduit, &model, (pyddsi_bytes){body, size}, now);
        }
    }
}

/* Whether a match, or its end, is not to be told: the peer has still to hear the name by which it matches. */
static bool untold(struct pdi_publisher *publisher, const struct pdi_change *change)
{
    if (change->kind == PYDDSI_MATCHED && pdi_bitset_test(publisher->learners, change->peer) &&
        !pdi_bitset_test(publisher->pushed, change->peer)) {
        pdi_bitset_set(publisher->untold, change->peer);
        return true;
    }
    bool gone =
        change->kind == PYDDSI_UNMATCHED && pdi_bitset_test(publisher->untold, change->peer);
    if (gone) {
        pdi_bitset_clear(publisher->untold, change->peer);
    }
    return gone;
}

/* Changes for which there was no place count as lost events. A publisher must not miss one: each makes its plan anew, if
 * its links have changed. */
static void count_lost(struct pdi_node *node, pdi_time now)
{
    uint64_t lost = pdi_registry_changes_lost(node->registry);
    if (lost == node->changes_lost) {
        return;
    }
    node->stats.events_lost += lost - node->changes_lost;
    node->changes_lost = lost;
    for (uint32_t i = 0; i < node->publishers_used; i++) {
        if (node->publishers[i].used) {
            (void)pdi_plan(node, &node->publishers[i], now);
        }
    }
}

void pdi_declare_changes(struct pdi_node *node, pdi_time now)
{
    struct pdi_change change;
    count_lost(node, now);
    while (pdi_registry_change(node->registry, &change) == PYDDSI_OK) { /* at most its ring */
        uint64_t ours = PDI_NONE;
        (void)pdi_map_get(&node->handles, change.handle, &ours);
        struct pdi_publisher *publisher = pdi_publisher_get(node, (uint32_t)ours);
        if (publisher != NULL) {
            (void)pdi_plan(node, publisher, now);
            if (untold(publisher, &change)) {
                continue;
            }
        }
        pyddsi_event *event = pdi_event_push(node, change.kind, now);
        pdi_event_peer(node, event, change.peer);
        event->handle = (uint32_t)ours;
        event->status = change.status;
        event->space = change.space;
        event->resource = change.id;
    }
}
