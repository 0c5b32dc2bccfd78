/* world_node.c - nodes: how they start, end, and are told the time. */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

#include "base/endpoint.h"

#define STEP_MAX (INT64_MAX / 1024) /* of a clock: 104 days at once */

static pyddsi_endpoint address(int node, uint32_t ports)
{
    pyddsi_endpoint endpoint = {.kind = 4};
    endpoint.ip[0] = 10;
    endpoint.ip[3] = (uint8_t)(node + 1);
    uint32_t port = PDI_WORLD_PORT + (uint32_t)node + ports * (uint32_t)PYDDSI_SIM_NODES_MAX;
    endpoint.port = (uint16_t)(1024 + (port - 1024) % (65536 - 1024));
    return endpoint;
}

/* Memory for a life that shares some. False: there is none. */
static bool share(struct pdi_world *world, struct pdi_world_node *one)
{
    if (one->sharing.machine == 0)
        return true;
    if (world->machines == NULL)
        world->machines = pdi_machines_new(world->seed);
    if (world->machines != NULL)
        one->shared = pdi_shared_new(world->machines, &one->sharing, &one->config);
    return one->shared != NULL;
}

static int start(struct pdi_world *world, int node)
{
    struct pdi_world_node *one = &world->nodes[node];
    /* A node that reads what it has not written shows it: the same seed with other poison has another digest. */
    memset(one->memory, world->poison, one->size);
    one->last = pdi_world_clock(world, node);
    one->asked_at = PDI_TIME_NEVER;
    if (!share(world, one))
        return PYDDSI_NO_SPACE;
    int status = pdi_node_init(&one->node, &one->config, one->memory, one->size, false, one->last);
    if (status != PYDDSI_OK)
        one->node = NULL;
    else if (one->shared != NULL)
        pdi_shared_begin(one->shared, one->node);
    one->lives++;
    one->handles_count = 0;
    one->paused_until = one->held_until = 0;
    return status;
}

/* Makes up what the configuration leaves open. */
static void complete(struct pdi_world *world, int node, pyddsi_config *config)
{
    struct pdi_rand rand;
    pyddsi_endpoint group = {.ip = {239, 255, 0, 1}, .port = PDI_WORLD_GROUP_PORT, .kind = 4};
    pdi_rand_init(&rand, world->seed);
    rand = pdi_rand_fork(&rand, 1000 + (uint64_t)node);
    if (config->id_size == 0) {
        config->id_size = PYDDSI_ID_MAX;
        for (int i = 0; i < PYDDSI_ID_MAX; i++) {
            config->id[i] = (uint8_t)pdi_rand_u64(&rand);
        }
        config->id[0] = (uint8_t)node; /* told apart at a glance */
    }
    if (config->seed == 0)
        config->seed = pdi_rand_u64(&rand);
    if (config->scout_to.kind == 0)
        config->scout_to = group;
    for (uint32_t i = 0; i < config->multicasts && i < PYDDSI_MULTICASTS_MAX; i++) {
        if (config->multicast_to[i].kind == 0) {
            config->multicast_to[i] = group;
            config->multicast_to[i].ip[3] = (uint8_t)(1 + i);
        }
    }
}

/* Links for one more node. */
static bool links_grow(struct pdi_world *world, int nodes)
{
    if (nodes <= world->links_stride)
        return true;
    int stride = world->links_stride == 0 ? 4 : world->links_stride * 2;
    struct pdi_world_link *links = calloc((size_t)stride * (size_t)stride, sizeof(*links));
    if (links == NULL)
        return false;
    for (int from = 0; from < stride; from++) {
        for (int to = 0; to < stride; to++) {
            struct pdi_world_link *link = &links[from * stride + to];
            if (from < world->links_stride && to < world->links_stride) {
                *link = world->links[from * world->links_stride + to];
            } else {
                link->quality = world->quality;
                link->rand = pdi_rand_fork(&world->links_rand,
                                           (uint64_t)from * PYDDSI_SIM_NODES_MAX + (uint64_t)to);
            }
        }
    }
    free(world->links);
    world->links = links;
    world->links_stride = stride;
    return true;
}

int pdi_world_add(struct pdi_world *world, const pyddsi_config *config, const char **text)
{
    const char *why = "a world has no room for more nodes";
    int node = world->count;
    if (text != NULL)
        *text = why;
    if (node >= PYDDSI_SIM_NODES_MAX || !links_grow(world, node + 1))
        return PYDDSI_NO_SPACE;
    struct pdi_world_node *one = &world->nodes[node];
    memset(one, 0, sizeof(*one));
    one->config = *config;
    complete(world, node, &one->config);
    one->endpoint = address(node, 0);
    one->sharing = world->sharing;
    why = "the configuration cannot be";
    one->size = pdi_node_size(&one->config, &why);
    if (text != NULL)
        *text = why;
    if (one->size == 0)
        return PYDDSI_BAD_ARGUMENT;
    one->size = (one->size + PDI_CACHE_LINE - 1) / PDI_CACHE_LINE * PDI_CACHE_LINE;
    one->memory = aligned_alloc(PDI_CACHE_LINE, one->size);
    if (one->memory == NULL) {
        if (text != NULL)
            *text = "no memory";
        return PYDDSI_NO_SPACE;
    }
    int status = start(world, node);
    if (status != PYDDSI_OK) {
        free(one->memory);
        one->memory = NULL;
        return status;
    }
    world->count++;
    pdi_world_leave(world, node);
    return node;
}

int pdi_world_crash(struct pdi_world *world, int node)
{
    if (!pdi_world_runs(world, node))
        return PYDDSI_BAD_ARGUMENT;
    world->nodes[node].node = NULL;
    pdi_shared_free(world->nodes[node].shared);
    world->nodes[node].shared = NULL;
    world->nodes[node].handles_count = 0;
    memset(world->nodes[node].calls, 0, sizeof world->nodes[node].calls);
    for (int other = 0; other < world->count; other++) {
        pdi_bitset_clear(world->nodes[other].calls, (uint32_t)node);
    }
    pdi_world_hasten(world, node, 0);
    world->nodes[node].paused_until = 0; /* nothing more waits for it */
    pdi_world_reschedule(world, node);
    return PYDDSI_OK;
}

int pdi_world_restart(struct pdi_world *world, int node, int same_port)
{
    if (node < 0 || node >= world->count || world->fault != NULL)
        return PYDDSI_BAD_ARGUMENT;
    struct pdi_world_node *one = &world->nodes[node];
    one->config.incarnation += one->config.incarnation != 0;
    (void)pdi_world_crash(world, node);
    if (same_port)
        pdi_world_outlive(world, node);
    else
        one->endpoint = address(node, ++one->ports);
    int status = start(world, node);
    pdi_world_leave(world, node);
    return status;
}

pyddsi_endpoint pdi_world_listener(const struct pdi_world *world, int node)
{
    pyddsi_endpoint listener = world->nodes[node].endpoint;
    listener.kind = PDI_ENDPOINT_TCP4;
    listener.port = PDI_WORLD_LISTEN_PORT;
    return listener;
}

void pdi_world_places(struct pdi_world *world, int node, int listens)
{
    pyddsi_endpoint places[2] = {world->nodes[node].endpoint, pdi_world_listener(world, node)};
    struct pdi_node *one = pdi_world_enter(world, node, NULL);
    world->nodes[node].listens = listens != 0;
    if (one != NULL)
        pdi_node_places(one, places, listens ? 2 : 1);
    pdi_world_leave(world, node);
}

int pdi_world_move(struct pdi_world *world, int node, int told)
{
    pdi_time now;
    struct pdi_node *one = pdi_world_enter(world, node, &now);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    pdi_world_strand(world, node);
    world->nodes[node].endpoint.ip[2]++;
    if (told)
        pdi_node_moved(one, now);
    pdi_world_leave(world, node);
    return PYDDSI_OK;
}

int pdi_world_pause(struct pdi_world *world, int node, pdi_time duration)
{
    if (!pdi_world_runs(world, node))
        return PYDDSI_BAD_ARGUMENT;
    pdi_time until = duration == 0 ? 0 : pdi_time_add(world->now, duration);
    if (world->nodes[node].paused_until > world->now)
        pdi_world_hasten(world, node, until);
    world->nodes[node].paused_until = until;
    pdi_world_reschedule(world, node);
    return PYDDSI_OK;
}

int pdi_world_clock_step(struct pdi_world *world, int node, int64_t step)
{
    if (!pdi_world_runs(world, node) || step > STEP_MAX || step < -STEP_MAX)
        return PYDDSI_BAD_ARGUMENT;
    world->nodes[node].last = pdi_world_clock(world, node);
    world->nodes[node].offset += step;
    pdi_world_reschedule(world, node);
    return PYDDSI_OK;
}

int pdi_world_find(const struct pdi_world *world, const uint8_t *id, size_t size)
{
    for (int i = 0; i < world->count; i++) {
        const pyddsi_config *config = &world->nodes[i].config;
        if (config->id_size == size && memcmp(config->id, id, size) == 0)
            return i;
    }
    return -1;
}

void pdi_world_declared(struct pdi_world *world, int node, uint32_t handle)
{
    struct pdi_world_node *one = &world->nodes[node];
    if (one->handles_count == one->handles_room && one->handles_room < PDI_WORLD_HANDLES_MAX) {
        uint32_t room = one->handles_room == 0 ? 16 : one->handles_room * 2;
        uint32_t *handles = realloc(one->handles, room * sizeof(*handles));
        if (handles == NULL)
            return; /* quiet then overlooks it, which only means that it is said a little early */
        one->handles = handles;
        one->handles_room = room;
    }
    if (one->handles_count < one->handles_room)
        one->handles[one->handles_count++] = handle;
}
