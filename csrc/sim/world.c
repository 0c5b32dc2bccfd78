/* world.c - one event after the other. */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define PACKETS_FIRST 64U
#define POLL          (PDI_TIME_MS) /* how often quiet is looked for */

/* Room for items below `items` in the heap. */
static bool heap_grow(struct pdi_world *world, uint32_t items)
{
    struct pdi_heap *heap = &world->heap;
    if (items <= world->heap_room)
        return true;
    struct pdi_heap_entry *entries = realloc(heap->entries, items * sizeof(*entries));
    if (entries == NULL)
        return false;
    heap->entries = entries;
    uint32_t *places = realloc(heap->places, items * sizeof(*places));
    if (places == NULL)
        return false;
    memset(places + world->heap_room, 0, (items - world->heap_room) * sizeof(*places));
    heap->places = places;
    heap->capacity = heap->items_max = world->heap_room = items;
    return true;
}

int pdi_world_init(struct pdi_world *world, uint64_t seed)
{
    struct pdi_rand rand;
    memset(world, 0, sizeof(*world));
    world->seed = seed;
    world->packets_free = UINT32_MAX;
    world->poison = 0xa5;
    pdi_rand_init(&rand, seed);
    world->links_rand = pdi_rand_fork(&rand, 1);
    world->wake_rand = pdi_rand_fork(&rand, 3);
    world->nodes = calloc(PYDDSI_SIM_NODES_MAX, sizeof(*world->nodes));
    world->staging = malloc(PYDDSI_PACKET_MAX);
    (void)pdi_heap_init(&world->heap, NULL, 0, NULL, 0);
    if (world->nodes == NULL || world->staging == NULL || !heap_grow(world, PDI_WORLD_ITEM_PACKET))
        return PYDDSI_NO_SPACE;
    return PYDDSI_OK;
}

void pdi_world_fini(struct pdi_world *world)
{
    pdi_world_log(world, false, 0);
    for (int i = 0; i < world->count; i++) {
        pdi_shared_free(world->nodes[i].shared);
        free(world->nodes[i].memory);
        free(world->nodes[i].handles);
    }
    for (uint32_t i = 0; i < world->packets_room; i++) {
        free(world->packets[i].data);
    }
    pdi_machines_free(world->machines);
    free(world->packets);
    free(world->nodes);
    free(world->links);
    free(world->staging);
    free(world->heap.entries);
    free(world->heap.places);
    memset(world, 0, sizeof(*world));
}

void pdi_world_digest(struct pdi_world *world, uint64_t what)
{
    uint64_t state = world->digest ^ what;
    world->digest = pdi_rand_splitmix(&state);
}

/* ---- events ---- */

bool pdi_world_schedule(struct pdi_world *world, uint32_t item, pdi_time at)
{
    if (item >= world->heap_room) {
        uint32_t room = world->heap_room + PACKETS_FIRST;
        while (room <= item) {
            room *= 2;
        }
        if (!heap_grow(world, room)) {
            world->fault = "the simulator found no memory for its events";
            return false;
        }
    }
    return pdi_heap_put(&world->heap, item, at) == PYDDSI_OK;
}

void pdi_world_timer(struct pdi_world *world, uint32_t timer, pdi_time at)
{
    PDI_CHECK(timer < PDI_WORLD_TIMERS_MAX);
    (void)pdi_heap_put(&world->heap, PDI_WORLD_ITEM_TIMER + timer, at);
}

pdi_time pdi_world_timer_get(const struct pdi_world *world, uint32_t timer)
{
    return pdi_heap_get(&world->heap, PDI_WORLD_ITEM_TIMER + timer);
}

pdi_time pdi_world_clock(const struct pdi_world *world, int node)
{
    const struct pdi_world_node *one = &world->nodes[node];
    int64_t ahead = (int64_t)world->now + one->offset;
    return ahead > (int64_t)one->last ? (pdi_time)ahead : one->last;
}

/* When the world's clock shows that the node's deadline has come. */
static pdi_time virtual_time(const struct pdi_world *world, const struct pdi_world_node *one,
                             pdi_time due)
{
    pdi_time at = world->now;
    if (due > (pdi_time)INT64_MAX / 2)
        return PDI_TIME_NEVER;
    if (due > one->last && (int64_t)due - one->offset > (int64_t)world->now)
        at = (pdi_time)((int64_t)due - one->offset);
    return at < one->paused_until ? one->paused_until : at;
}

void pdi_world_reschedule(struct pdi_world *world, int node)
{
    struct pdi_world_node *one = &world->nodes[node];
    pdi_time at = PDI_TIME_NEVER;
    if (one->node != NULL)
        at = virtual_time(world, one, pdi_node_due(one->node));
    if (one->node != NULL && one->shared != NULL) {
        pdi_time due = virtual_time(world, one, pdi_shared_due(one->shared));
        pdi_time asked = one->asked_at > one->paused_until ? one->asked_at : one->paused_until;
        at = due < at ? due : at;
        at = asked < at ? asked : at;
    }
    (void)pdi_heap_put(&world->heap, (uint32_t)node, at);
}

static void drain(struct pdi_world *world, int node)
{
    struct pdi_world_node *one = &world->nodes[node];
    struct pdi_world_sent sent = {.from = node, .source = one->endpoint, .data = world->staging};
    for (uint32_t outputs = 0; outputs < PDI_WORLD_OUTPUTS_MAX; outputs++) {
        if (pdi_node_output(one->node, world->staging, PYDDSI_PACKET_MAX, &sent.size, &sent.target,
                            one->last) != PYDDSI_OK)
            return;
        pdi_world_send(world, &sent);
    }
    world->fault = "a node's output has no end";
}

struct pdi_node *pdi_world_enter(struct pdi_world *world, int node, pdi_time *now)
{
    if (!pdi_world_runs(world, node) || world->fault != NULL)
        return NULL;
    struct pdi_world_node *one = &world->nodes[node];
    one->last = pdi_world_clock(world, node);
    if (now != NULL)
        *now = one->last;
    return one->node;
}

/* A node that shares memory attends to it a moment later: the system has to wake it first. */
static void wake(struct pdi_world *world, int node)
{
    struct pdi_world_node *one = &world->nodes[node];
    if (one->asked_at == PDI_TIME_NEVER) {
        one->asked_at = world->now + 1 + pdi_rand_below(&world->wake_rand, one->sharing.wake_max);
        pdi_world_reschedule(world, node);
    }
}

/* What was done at one node may ask something of others of its machine, and of itself. */
static void wake_asked(struct pdi_world *world, int node)
{
    if (pdi_shared_leave(world->nodes[node].shared, world->nodes[node].last))
        wake(world, node);
    for (int other = 0; other < world->count; other++) {
        const struct pdi_shared *shared = pdi_world_shared(world, other);
        if (shared != NULL && pdi_shared_asked(shared))
            wake(world, other);
    }
}

void pdi_world_leave(struct pdi_world *world, int node)
{
    struct pdi_world_node *one = &world->nodes[node];
    if (one->node == NULL)
        return;
    pdi_world_measure(world, node);
    drain(world, node);
    if (one->shared != NULL)
        wake_asked(world, node);
    pdi_world_reschedule(world, node);
    one->still = one->still_at == world->now ? one->still + 1 : 0;
    one->still_at = world->now;
    if (one->still > PDI_WORLD_STILL_MAX)
        world->fault = "a node is busy and time does not go on";
    if (world->on_step != NULL)
        world->on_step(world->context, node);
}

/* Its own time has come, or others have asked. */
static void attend(struct pdi_world *world, int node, pdi_time now)
{
    struct pdi_world_node *one = &world->nodes[node];
    bool asked = one->asked_at <= world->now;
    if (one->shared != NULL && (asked || pdi_shared_due(one->shared) <= now)) {
        one->asked_at = asked ? PDI_TIME_NEVER : one->asked_at;
        pdi_shared_attend(one->shared, now);
    }
}

int pdi_world_step(struct pdi_world *world, pdi_time until)
{
    uint32_t item;
    pdi_time due = pdi_heap_due(&world->heap);
    if (world->fault != NULL)
        return PYDDSI_END;
    if (due == PDI_TIME_NEVER || due > until) {
        if (until != PDI_TIME_NEVER && until > world->now)
            world->now = until;
        return PYDDSI_END;
    }
    if (due > world->now)
        world->now = due;
    (void)pdi_heap_pop(&world->heap, due, &item);
    world->events++;
    if (item >= PDI_WORLD_ITEM_PACKET) {
        pdi_world_arrive(world, item - PDI_WORLD_ITEM_PACKET);
    } else if (item >= PDI_WORLD_ITEM_TIMER) {
        if (world->on_timer != NULL)
            world->on_timer(world->context, item - PDI_WORLD_ITEM_TIMER);
    } else {
        pdi_time now;
        struct pdi_node *node = pdi_world_enter(world, (int)item, &now);
        if (node != NULL) {
            pdi_node_tick(node, now);
            attend(world, (int)item, now);
            pdi_world_leave(world, (int)item);
        }
    }
    return PYDDSI_OK;
}

uint64_t pdi_world_run(struct pdi_world *world, pdi_time duration)
{
    pdi_time until = pdi_time_add(world->now, duration);
    uint64_t events = world->events;
    while (pdi_world_step(world, until) == PYDDSI_OK) {
    }
    return world->events - events;
}

int pdi_world_run_until_quiet(struct pdi_world *world, pdi_time duration)
{
    pdi_time end = pdi_time_add(world->now, duration);
    while (!pdi_world_quiet(world, NULL)) {
        if (world->now >= end || world->fault != NULL)
            return PYDDSI_AGAIN;
        pdi_time until = pdi_time_add(world->now, POLL);
        until = until < end ? until : end;
        while (pdi_world_step(world, until) == PYDDSI_OK) {
        }
    }
    return PYDDSI_OK;
}
