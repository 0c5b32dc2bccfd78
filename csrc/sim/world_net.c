/* world_net.c - what happens to a packet between two nodes. It is long, since datagrams and connections share the pool of what is
 * under way. */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/endpoint.h"

#define PPM           1000000U
#define REORDER_MIN   (20 * PDI_TIME_US)
#define REORDER_SPAN  (4 * PDI_TIME_MS)   /* a packet held back is late by up to so much more */
#define RATE_QUEUE    (200 * PDI_TIME_MS) /* what would wait longer for a slow link is lost */
#define CORRUPT_MAX   4U
#define PACKETS_FIRST 64U

static bool same_endpoint(const pyddsi_endpoint *one, const pyddsi_endpoint *two)
{
    return one->kind == two->kind && one->port == two->port &&
           memcmp(one->ip, two->ip, sizeof(one->ip)) == 0;
}

static bool is_group(const pyddsi_endpoint *endpoint)
{
    return (endpoint->kind == 4 && (endpoint->ip[0] & 0xf0) == 0xe0) ||
           (endpoint->kind == 6 && endpoint->ip[0] == 0xff);
}

/* A node hears the groups that it sends to. */
static bool hears(const pyddsi_config *config, const pyddsi_endpoint *group)
{
    if (same_endpoint(&config->scout_to, group))
        return true;
    for (uint32_t i = 0; i < config->multicasts; i++) {
        if (same_endpoint(&config->multicast_to[i], group))
            return true;
    }
    return false;
}

/* ---- packets in flight ---- */

static uint32_t packet_take(struct pdi_world *world, size_t size)
{
    if (world->packets_free == UINT32_MAX) {
        uint32_t room = world->packets_room == 0 ? PACKETS_FIRST : world->packets_room * 2;
        if (room > (uint32_t)PYDDSI_SIM_PACKETS_MAX)
            return UINT32_MAX;
        struct pdi_world_packet *packets = realloc(world->packets, room * sizeof(*packets));
        if (packets == NULL)
            return UINT32_MAX;
        memset(packets + world->packets_room, 0, (room - world->packets_room) * sizeof(*packets));
        world->packets = packets;
        for (uint32_t i = room; i > world->packets_room; i--) {
            packets[i - 1].next = world->packets_free;
            world->packets_free = i - 1;
        }
        world->packets_room = room;
    }
    uint32_t index = world->packets_free;
    if (index == UINT32_MAX)
        return UINT32_MAX;
    struct pdi_world_packet *packet = &world->packets[index];
    if (packet->room < size) {
        uint8_t *data = realloc(packet->data, size);
        if (data == NULL)
            return UINT32_MAX;
        packet->data = data;
        packet->room = (uint32_t)size;
    }
    world->packets_free = packet->next;
    world->in_flight++;
    return index;
}

static void packet_give(struct pdi_world *world, uint32_t index)
{
    world->packets[index].next = world->packets_free;
    world->packets_free = index;
    world->in_flight--;
}

void pdi_world_flush(struct pdi_world *world)
{
    for (uint32_t i = 0; i < world->packets_room; i++) {
        uint32_t item = PDI_WORLD_ITEM_PACKET + i;
        if (item < world->heap_room && pdi_heap_get(&world->heap, item) != PDI_TIME_NEVER) {
            (void)pdi_heap_put(&world->heap, item, PDI_TIME_NEVER);
            packet_give(world, i);
        }
    }
}

/* Loses what is in flight to a node; or, if a group: to its own address alone; and, if from: what it has sent. */
static void lose(struct pdi_world *world, int node, bool groups, bool from)
{
    const pyddsi_endpoint *endpoint = &world->nodes[node].endpoint;
    for (uint32_t i = 0; i < world->packets_room; i++) {
        const struct pdi_world_packet *packet = &world->packets[i];
        uint32_t item = PDI_WORLD_ITEM_PACKET + i;
        bool its = packet->to == (uint32_t)node && (groups || packet->port != 0);
        if (item >= world->heap_room || pdi_heap_get(&world->heap, item) == PDI_TIME_NEVER ||
            !(its || (from && same_endpoint(&packet->source, endpoint))))
            continue;
        (void)pdi_heap_put(&world->heap, item, PDI_TIME_NEVER);
        packet_give(world, i);
        world->lost++;
    }
}

/* Of a node that begins anew at its port: who does is away for longer than a packet lives. By what a packet says, nobody
 * could tell one of its former life from a new one. */
void pdi_world_outlive(struct pdi_world *world, int node)
{
    lose(world, node, true, true);
}

/* Of a node that goes to another address. */
void pdi_world_strand(struct pdi_world *world, int node)
{
    lose(world, node, false, false);
}

/* One copy on its way; |fate| is what the log is to say of it. */
static void launch(struct pdi_world *world, struct pdi_world_link *link,
                   const struct pdi_world_sent *sent, int to, pdi_time at,
                   enum pyddsi_sim_fate fate)
{
    uint32_t index = packet_take(world, sent->size);
    if (index == UINT32_MAX) {
        world->lost++;
        pdi_world_log_add(world, sent, to, at, PYDDSI_SIM_LOST, sent->data);
        return;
    }
    struct pdi_world_packet *packet = &world->packets[index];
    memcpy(packet->data, sent->data, sent->size);
    packet->size = (uint32_t)sent->size;
    packet->to = (uint32_t)to;
    packet->held = 0;
    bool connected = pdi_endpoint_is_stream(&sent->target) != 0;
    packet->port = connected || is_group(&sent->target) ? 0 : sent->target.port;
    packet->source = sent->source;
    if (link != NULL && link->quality.corrupt_ppm != 0 && sent->size != 0 &&
        pdi_rand_chance(&link->rand, link->quality.corrupt_ppm, PPM)) {
        uint64_t flips = 1 + pdi_rand_below(&link->rand, CORRUPT_MAX);
        for (uint64_t i = 0; i < flips; i++) {
            uint64_t bit = pdi_rand_below(&link->rand, sent->size * 8);
            packet->data[bit / 8] ^= (uint8_t)(1U << bit % 8);
        }
        world->corrupted++;
        fate = PYDDSI_SIM_CORRUPTED;
    }
    pdi_world_log_add(world, sent, to, at, fate, packet->data);
    if (!pdi_world_schedule(world, PDI_WORLD_ITEM_PACKET + index, at))
        packet_give(world, index);
}

/* When a packet that is sent now arrives; never, if the queue in front of the link is full. */
static pdi_time arrival(struct pdi_world *world, struct pdi_world_link *link, size_t size)
{
    const pyddsi_sim_link *quality = &link->quality;
    pdi_time at = world->now;
    if (quality->rate_bytes != 0) {
        at = at > link->busy ? at : link->busy;
        if (at - world->now > RATE_QUEUE)
            return PDI_TIME_NEVER;
        link->busy = at = at + size * PDI_TIME_S / quality->rate_bytes;
    }
    at += quality->delay_ns;
    if (quality->jitter_ns != 0)
        at += pdi_rand_below(&link->rand, quality->jitter_ns + 1);
    return at;
}

static void cross(struct pdi_world *world, const struct pdi_world_sent *sent, int to)
{
    struct pdi_world_link *link = &world->links[sent->from * world->links_stride + to];
    const pyddsi_sim_link *quality = &link->quality;
    if (quality->cut) {
        pdi_world_log_add(world, sent, to, world->now, PYDDSI_SIM_CUT, sent->data);
        return;
    }
    bool group = is_group(&sent->target);
    pdi_time at = arrival(world, link, sent->size);
    bool lost = at == PDI_TIME_NEVER || (quality->mtu != 0 && sent->size > quality->mtu) ||
                (quality->loss_ppm != 0 && pdi_rand_chance(&link->rand, quality->loss_ppm, PPM)) ||
                (quality->group_loss_ppm != 0 && group &&
                 pdi_rand_chance(&link->rand, quality->group_loss_ppm, PPM));
    if (world->on_packet != NULL &&
        world->on_packet(world->context, sent->from, to, sent->data, sent->size))
        lost = true;
    if (lost) {
        world->lost++;
        pdi_world_log_add(world, sent, to, at, PYDDSI_SIM_LOST, sent->data);
        return;
    }
    uint64_t span = quality->late_ns != 0 ? quality->late_ns : REORDER_SPAN;
    at += group ? quality->group_delay_ns : quality->alone_delay_ns;
    bool behind = group && (quality->group_delay_ns != 0 || quality->alone_delay_ns != 0 ||
                            at <= link->last[1]);
    pdi_time *last = &link->last[behind]; /* a queue of its own, until that has come */
    if (quality->reorder_ppm != 0 && pdi_rand_chance(&link->rand, quality->reorder_ppm, PPM)) {
        at += REORDER_MIN + pdi_rand_below(&link->rand, span);
        world->reordered++;
    } else {
        if (at <= *last)
            at = *last + 1;
        *last = at;
    }
    launch(world, link, sent, to, at, PYDDSI_SIM_DELIVERED);
    if (quality->duplicate_ppm != 0 && pdi_rand_chance(&link->rand, quality->duplicate_ppm, PPM)) {
        world->duplicated++;
        at += 1 + pdi_rand_below(&link->rand, span);
        launch(world, link, sent, to, at, PYDDSI_SIM_DUPLICATED);
    }
}

/* One packet through a connection, by the one who called or by the one who listens. */
static int through(struct pdi_world *world, const struct pdi_world_sent *sent, int to, bool called)
{
    struct pdi_world_sent one = *sent;
    struct pdi_world_link *link = &world->links[sent->from * world->links_stride + to];
    const struct pdi_world_node *caller = &world->nodes[called ? sent->from : to];
    if (world->nodes[to].node == NULL ||
        !pdi_bitset_test(caller->calls, (uint32_t)(called ? to : sent->from)))
        return 0;
    one.source = pdi_world_listener(world, sent->from);
    if (called)
        one.source.port = (uint16_t)(PDI_WORLD_CALL_PORT + (uint32_t)to);
    pdi_time at = world->now + link->quality.delay_ns;
    at = at > link->last[2] ? at : link->last[2] + 1;
    link->last[2] = at;
    launch(world, NULL, &one, to, at, PYDDSI_SIM_DELIVERED);
    return 1;
}

/* Through connections: to all who are there, to one who listens, or back to one who has called. Answers to how many. */
static int by_stream(struct pdi_world *world, const struct pdi_world_sent *sent)
{
    static const pyddsi_endpoint all = {.kind = PDI_ENDPOINT_TCP4};
    int to = sent->target.ip[3] - 1, count = 0;
    if (pdi_endpoint_equal(&sent->target, &all)) {
        for (to = 0; to < world->count; to++) {
            count += through(world, sent, to, true) + through(world, sent, to, false);
        }
        return count;
    }
    if (to < 0 || to >= world->count || to == sent->from)
        return 0;
    if (sent->target.port != PDI_WORLD_LISTEN_PORT)
        return through(world, sent, to, false);
    if (world->nodes[to].node != NULL && world->nodes[to].listens)
        pdi_bitset_set(world->nodes[sent->from].calls, (uint32_t)to);
    return through(world, sent, to, true);
}

/* The node that a packet for one alone goes to; -1: none. */
static int addressed(const struct pdi_world *world, const pyddsi_endpoint *target)
{
    int to = target->ip[3] - 1;
    bool here = to >= 0 && to < world->count && world->nodes[to].node != NULL &&
                same_endpoint(&world->nodes[to].endpoint, target);
    return here ? to : -1;
}

void pdi_world_measure(struct pdi_world *world, int node)
{
    struct pdi_world_node *one = &world->nodes[node];
    pyddsi_endpoint target;
    while (pdi_node_path_next(one->node, &target)) { /* each of its peers once */
        int to = addressed(world, &target);
        uint32_t known =
            to >= 0 ? world->links[node * world->links_stride + to].quality.mtu_known : 0;
        pdi_node_path(one->node, &target, known);
    }
}

void pdi_world_send(struct pdi_world *world, const struct pdi_world_sent *sent)
{
    int heard = 0;
    world->sent++;
    world->bytes += sent->size;
    pdi_world_digest(world, pdi_crc32c(0, sent->data, sent->size) ^ (uint64_t)sent->size << 32 ^
                                (uint64_t)(sent->from + 1) << 48 ^ world->now << 20);
    world->numbers++;
    if (pdi_endpoint_is_stream(&sent->target)) {
        heard = by_stream(world, sent);
    } else if (is_group(&sent->target)) {
        for (int to = 0; to < world->count; to++) {
            if (to != sent->from && world->nodes[to].node != NULL &&
                hears(&world->nodes[to].config, &sent->target)) {
                cross(world, sent, to);
                heard++;
            }
        }
    } else {
        int to = addressed(world, &sent->target);
        if (to >= 0) {
            cross(world, sent, to);
            heard++;
        }
    }
    if (heard == 0)
        pdi_world_log_add(world, sent, -1, world->now, PYDDSI_SIM_NOBODY, sent->data);
}

static void hand_over(struct pdi_world *world, int to, const pyddsi_endpoint *source,
                      const uint8_t *data, size_t size)
{
    pdi_time now;
    size_t room;
    struct pdi_node *node = pdi_world_enter(world, to, &now);
    if (node == NULL)
        return;
    uint8_t *slot = pdi_node_slot(node, &room);
    if (size > room) {
        pdi_node_input_at(node, source, data, size, now);
    } else {
        memcpy(slot, data, size);
        pdi_node_input(node, source, size, now);
    }
    if ((to & 1) != 0) { /* as a session does it; the others leave it to their tick */
        pdi_node_retry(node, now);
    }
    pdi_world_leave(world, to);
}

void pdi_world_arrive(struct pdi_world *world, uint32_t index)
{
    struct pdi_world_packet *packet = &world->packets[index];
    int to = (int)packet->to;
    struct pdi_world_node *one = &world->nodes[to];
    if (one->paused_until > world->now) {
        bool first = one->held_until <= one->paused_until;
        one->held = first ? 1 : one->held + 1;
        one->held_until = (first ? one->paused_until : one->held_until) + 1;
        if (one->held <= PDI_WORLD_HELD_MAX) {
            packet->held = 1;
            (void)pdi_world_schedule(world, PDI_WORLD_ITEM_PACKET + index, one->held_until);
            return;
        }
        world->lost++;
    } else if (one->node != NULL && (packet->port == 0 || packet->port == one->endpoint.port)) {
        /* The step that follows may make the pool grow, but does not touch the bytes of this packet. */
        hand_over(world, to, &packet->source, packet->data, packet->size);
    }
    packet_give(world, index);
}

/* A pause ends at another time: what waits for the node moves with its end, in its order, or is lost with a node that
 * has crashed. */
void pdi_world_hasten(struct pdi_world *world, int node, pdi_time until)
{
    struct pdi_world_node *one = &world->nodes[node];
    pdi_time before = one->paused_until;
    until = until > world->now ? until : world->now;
    for (uint32_t i = 0; i < world->packets_room && one->held != 0; i++) {
        uint32_t item = PDI_WORLD_ITEM_PACKET + i;
        pdi_time at = item < world->heap_room ? pdi_heap_get(&world->heap, item) : PDI_TIME_NEVER;
        if (at == PDI_TIME_NEVER || !world->packets[i].held ||
            world->packets[i].to != (uint32_t)node)
            continue;
        at = one->node != NULL ? until + (at > before ? at - before : 0) : PDI_TIME_NEVER;
        (void)pdi_heap_put(&world->heap, item, at);
        if (one->node == NULL)
            packet_give(world, i);
    }
    if (one->held_until > before)
        one->held_until = until + (one->held_until - before);
    else
        one->held_until = 0;
}

int pdi_world_inject(struct pdi_world *world, int node, const pyddsi_endpoint *from,
                     const uint8_t *data, size_t size)
{
    if (!pdi_world_runs(world, node) || size > PYDDSI_PACKET_MAX)
        return PYDDSI_BAD_ARGUMENT;
    struct pdi_world_sent sent = {.from = -1,
                                  .source = *from,
                                  .target = world->nodes[node].endpoint,
                                  .data = data,
                                  .size = size};
    world->numbers++;
    pdi_world_log_add(world, &sent, node, world->now, PYDDSI_SIM_INJECTED, data);
    hand_over(world, node, from, data, size);
    return PYDDSI_OK;
}

/* ---- links ---- */

int pdi_world_link_set(struct pdi_world *world, int from, int to, const pyddsi_sim_link *quality)
{
    if (from < -1 || from >= world->count || to < -1 || to >= world->count)
        return PYDDSI_BAD_ARGUMENT;
    if (from == -1 && to == -1)
        world->quality = *quality;
    for (int i = 0; i < world->links_stride; i++) {
        for (int k = 0; k < world->links_stride; k++) {
            if ((from == -1 || from == i) && (to == -1 || to == k))
                world->links[i * world->links_stride + k].quality = *quality;
        }
    }
    return PYDDSI_OK;
}

int pdi_world_link_get(const struct pdi_world *world, int from, int to, pyddsi_sim_link *quality)
{
    if (from == -1 && to == -1) {
        *quality = world->quality;
        return PYDDSI_OK;
    }
    if (from < 0 || from >= world->count || to < 0 || to >= world->count)
        return PYDDSI_BAD_ARGUMENT;
    *quality = world->links[from * world->links_stride + to].quality;
    return PYDDSI_OK;
}

int pdi_world_cut(struct pdi_world *world, int from, int to, int cut)
{
    if (from < -1 || from >= world->count || to < -1 || to >= world->count)
        return PYDDSI_BAD_ARGUMENT;
    if (from == -1 && to == -1)
        world->quality.cut = cut != 0;
    for (int i = 0; i < world->links_stride; i++) {
        for (int k = 0; k < world->links_stride; k++) {
            if ((from == -1 || from == i) && (to == -1 || to == k))
                world->links[i * world->links_stride + k].quality.cut = cut != 0;
        }
    }
    return PYDDSI_OK;
}
