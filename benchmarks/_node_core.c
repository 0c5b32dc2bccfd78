/* _node_core.c - the loops of benchmarks/sim.py: nodes joined in memory, in one thread, without faults.
 *
 *     put ──► packet ──► copied to the slot ──► deliver ──► take, release
 *      ▲                                           │
 *      └──────────────── ack ◄─────────────────────┘
 *
 * The network is a memcpy, the clock is a number that jumps to the next deadline when nothing else is left to do, so what
 * is timed is the stack alone. Each step stands in a function of its own that is never inlined: valgrind counts
 * the instructions below a function of a given name, and so tells the steps apart.
 *
 * It is built twice from one source: as a library for the timings, and as a program for the counts. It is long because the
 * little network, the nodes on it and the loops are of no use apart.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "node/node.h"

#define EXPORT    __attribute__((visibility("default")))
#define STEP      __attribute__((noinline))
#define NODES_MAX 8
#define BATCH_MAX 1024
#define IDLE_MAX  1000 /* jumps of the clock in a row without a sample: something is stuck */
#define SETTLE_NS 200000000U

enum kind { KIND_PUT, KIND_MANY, KIND_LOAN };

/* What is sent, and how. sim.py has the same struct. */
struct load {
    uint32_t size;      /* bytes of each sample */
    uint32_t kind;      /* enum kind */
    uint32_t batch;     /* samples of one put_many, else 1 */
    uint32_t burst;     /* calls of the application between two rounds of the network */
    uint32_t way;       /* enum pyddsi_way */
    uint32_t receivers; /* nodes beside the sender */
    uint32_t reliable;  /* 1, or 0: best effort */
    uint32_t seq_bits;  /* of sequence numbers; 0: as usual */
};

struct world {
    struct load load;
    pdi_time now;
    uint32_t nodes;
    uint32_t publisher;
    uint32_t subscriber[NODES_MAX]; /* of nodes 1 and above */
    struct pdi_node *node[NODES_MAX];
    pyddsi_endpoint endpoint[NODES_MAX];
    pyddsi_bytes batch[BATCH_MAX];
    uint8_t *data;
    uint8_t *ring; /* where the yardstick copies to */
    size_t ring_size;
    uint64_t sum; /* of something in each sample, so that nothing can be left out */
};

/* The result of some samples. */
struct cost {
    uint64_t samples; /* put, */
    uint64_t taken;   /* and taken by all receivers */
    uint64_t ns;
    uint64_t packets, bytes;         /* sent by the publisher's node, */
    uint64_t ack_packets, ack_bytes; /* and by the others */
    uint64_t waits;                  /* of put */
};

EXPORT struct world *bench_new(const struct load *load);
EXPORT void bench_free(struct world *world);
EXPORT int bench_run(struct world *world, uint64_t samples, struct cost *cost);
EXPORT uint64_t bench_copy(struct world *world, uint64_t samples);

int step_put(struct world *world);
int step_packet(struct world *world, uint8_t *out, size_t *size, pyddsi_endpoint *to);
int step_ack_write(struct world *world, uint32_t node, uint8_t *out, size_t *size,
                   pyddsi_endpoint *to);
void step_deliver(struct world *world, uint32_t node, uint32_t from, size_t size);
void step_ack_read(struct world *world, uint32_t from, size_t size);
int step_take(struct world *world, uint32_t node, pyddsi_received *sample);
void step_release(struct world *world, uint32_t node, const pyddsi_received *sample);
void step_tick(struct world *world, uint32_t node);

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

/* ---- the steps ---- */

STEP int step_put(struct world *world)
{
    struct pdi_node *node = world->node[0];
    const struct load *load = &world->load;
    if (load->kind == KIND_MANY) {
        return pdi_node_put_many(node, world->publisher, world->batch, load->batch, world->now);
    }
    if (load->kind == KIND_LOAN) {
        uint8_t *data;
        uint32_t loan;
        int status = pdi_node_loan(node, world->publisher, load->size, &data, &loan);
        if (status != PYDDSI_OK) {
            return status;
        }
        memcpy(data, world->data, load->size); /* the application's own writing */
        return pdi_node_commit(node, loan, load->size, world->now);
    }
    return pdi_node_put(node, world->publisher, world->data, load->size, world->now);
}

STEP int step_packet(struct world *world, uint8_t *out, size_t *size, pyddsi_endpoint *to)
{
    return pdi_node_output(world->node[0], out, PYDDSI_PACKET_USUAL, size, to, world->now);
}

STEP int step_ack_write(struct world *world, uint32_t node, uint8_t *out, size_t *size,
                        pyddsi_endpoint *to)
{
    return pdi_node_output(world->node[node], out, PYDDSI_PACKET_USUAL, size, to, world->now);
}

STEP void step_deliver(struct world *world, uint32_t node, uint32_t from, size_t size)
{
    pdi_node_input(world->node[node], &world->endpoint[from], size, world->now);
}

STEP void step_ack_read(struct world *world, uint32_t from, size_t size)
{
    pdi_node_input(world->node[0], &world->endpoint[from], size, world->now);
}

STEP int step_take(struct world *world, uint32_t node, pyddsi_received *sample)
{
    return pdi_node_take(world->node[node], world->subscriber[node], sample, world->now);
}

STEP void step_release(struct world *world, uint32_t node, const pyddsi_received *sample)
{
    pdi_node_release(world->node[node], sample);
}

STEP void step_tick(struct world *world, uint32_t node)
{
    pdi_node_tick(world->node[node], world->now);
}

/* ---- the network and the clock ---- */

/* To one node, or to all others if `to` is the group. */
static void carry(struct world *world, uint32_t from, const pyddsi_endpoint *to,
                  const uint8_t *packet, size_t size)
{
    bool group = to->ip[0] == 239;
    for (uint32_t node = 0; node < world->nodes; node++) {
        const pyddsi_endpoint *at = &world->endpoint[node];
        if (node == from ||
            (!group && (at->port != to->port || memcmp(at->ip, to->ip, sizeof to->ip) != 0))) {
            continue;
        }
        size_t room;
        uint8_t *slot = pdi_node_slot(world->node[node], &room);
        memcpy(slot, packet, size);
        if (node == 0) {
            step_ack_read(world, from, size);
        } else {
            step_deliver(world, node, from, size);
        }
    }
}

/* Everything that nodes want to send, until none has more. */
static void drain(struct world *world)
{
    uint8_t packet[PYDDSI_PACKET_USUAL];
    pyddsi_endpoint to;
    size_t size;
    bool more = true;
    while (more) {
        more = false;
        for (uint32_t node = 0; node < world->nodes; node++) {
            while ((node == 0 ? step_packet(world, packet, &size, &to)
                              : step_ack_write(world, node, packet, &size, &to)) == PYDDSI_OK) {
                more = true;
                carry(world, node, &to, packet, size);
            }
            if (pdi_node_due(world->node[node]) <= world->now) {
                more = true;
                step_tick(world, node);
            }
        }
    }
}

/* On to the next deadline, but not beyond `until`. */
static void jump(struct world *world, pdi_time until)
{
    pdi_time due = until;
    for (uint32_t node = 0; node < world->nodes; node++) {
        pdi_time mine = pdi_node_due(world->node[node]);
        due = mine < due ? mine : due;
    }
    world->now = due > world->now ? due : world->now + 1;
}

static void settle(struct world *world)
{
    pdi_time until = world->now + SETTLE_NS;
    while (world->now < until) {
        drain(world);
        jump(world, until);
    }
    drain(world);
}

/* What the readers have; answers how many. */
static uint64_t take_all(struct world *world)
{
    uint64_t taken = 0;
    pyddsi_received sample;
    for (uint32_t node = 1; node < world->nodes; node++) {
        while (step_take(world, node, &sample) == PYDDSI_OK) {
            taken++;
            world->sum += sample.data[sample.size / 2];
            step_release(world, node, &sample);
        }
    }
    return taken;
}

/* ---- making ---- */

static bool make_node(struct world *world, uint32_t index)
{
    pyddsi_endpoint group = {.ip = {239, 255, 0, 1}, .port = 7447, .kind = 4};
    pyddsi_config config;
    pdi_config_init(&config);
    config.id_size = 2;
    config.id[0] = (uint8_t)(0xa0 + index);
    config.id[1] = 1;
    config.seed = 7 + index;
    config.incarnation = 1;
    config.multicast_to[0] = config.scout_to = group;
    config.seq_bits = (uint8_t)(world->load.seq_bits != 0 ? world->load.seq_bits : config.seq_bits);
    if (world->load.size > 65536) { /* several of them must fit the window */
        config.multicast_bytes[0] = 4U << 20;
        config.multicast_samples[0] = 4096;
        config.slots_max = 4096;
        config.assembly_bytes = 8U << 20;
    }
    world->endpoint[index] = (pyddsi_endpoint){
        .ip = {10, 0, 0, (uint8_t)(1 + index)}, .port = (uint16_t)(50000 + index), .kind = 4};
    size_t size = pdi_node_size(&config, NULL);
    void *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    if (size == 0 || memory == NULL) {
        free(memory);
        return false;
    }
    memset(memory, 0, size);
    return pdi_node_init(&world->node[index], &config, memory, size, false, world->now) == PYDDSI_OK;
}

static bool make_ends(struct world *world)
{
    uint32_t handle;
    int status = 0;
    static const uint8_t name[] = "/a/b";
    uint8_t reliability = world->load.reliable ? PYDDSI_RELIABLE : PYDDSI_BEST_EFFORT;
    pyddsi_publisher_options publisher = {
        .resource = 1, .reliability = reliability, .way = (uint8_t)world->load.way};
    pyddsi_subscriber_options subscriber = {
        .resource = 1, .depth = 4096, .mode = PYDDSI_PUSH, .reliability = reliability};
    if (pdi_node_resource(world->node[0], 0, 1, (pyddsi_bytes){name, 4}, PYDDSI_BY_RESOURCE, 0,
                          &handle, &status) != PYDDSI_OK ||
        pdi_node_publisher(world->node[0], &publisher, &world->publisher, &status) != PYDDSI_OK) {
        return false;
    }
    for (uint32_t node = 1; node < world->nodes; node++) {
        if (pdi_node_subscriber(world->node[node], &subscriber, &world->subscriber[node],
                                &status) != PYDDSI_OK) {
            return false;
        }
    }
    settle(world);
    return true;
}

struct world *bench_new(const struct load *load)
{
    struct world *world = calloc(1, sizeof *world);
    if (world == NULL || load->receivers + 1 > NODES_MAX || load->batch > BATCH_MAX) {
        free(world);
        return NULL;
    }
    world->load = *load;
    world->nodes = load->receivers + 1;
    world->now = 1000000000;
    world->data = calloc(1, load->size + 1);
    world->ring_size = load->size > 65536 ? 4U << 20 : 256U << 10; /* as the window's memory */
    world->ring = aligned_alloc(4096, world->ring_size);
    bool made = world->data != NULL && world->ring != NULL;
    for (uint32_t node = 0; made && node < world->nodes; node++) {
        made = make_node(world, node);
    }
    if (made) {
        memset(world->data, 7, load->size);
        memset(world->ring, 0, world->ring_size);
        for (uint32_t i = 0; i < load->batch; i++) {
            world->batch[i] = (pyddsi_bytes){world->data, load->size};
        }
        settle(world);
        made = make_ends(world);
    }
    if (!made) {
        bench_free(world);
        return NULL;
    }
    return world;
}

void bench_free(struct world *world)
{
    for (uint32_t node = 0; node < world->nodes; node++) {
        free(world->node[node]);
    }
    free(world->ring);
    free(world->data);
    free(world);
}

/* ---- running ---- */

static void count(struct world *world, struct cost *cost, uint64_t sign)
{
    pyddsi_stats stats;
    pdi_node_stats(world->node[0], &stats);
    cost->packets += sign * stats.packets_out;
    cost->bytes += sign * stats.bytes_out;
    cost->waits += sign * stats.put_waits;
    for (uint32_t node = 1; node < world->nodes; node++) {
        pdi_node_stats(world->node[node], &stats);
        cost->ack_packets += sign * stats.packets_out;
        cost->ack_bytes += sign * stats.bytes_out;
    }
}

/* Puts so many samples and takes them at every receiver; 0, or 1: they do not arrive. */
int bench_run(struct world *world, uint64_t samples, struct cost *cost)
{
    uint32_t each = world->load.kind == KIND_MANY ? world->load.batch : 1;
    uint64_t wanted = samples / each * each * world->load.receivers;
    unsigned idle = 0;
    *cost = (struct cost){0};
    count(world, cost, UINT64_MAX);
    uint64_t start = now_ns();
    while (cost->taken < wanted) {
        for (uint32_t i = 0; i < world->load.burst && cost->samples + each <= samples; i++) {
            if (step_put(world) != PYDDSI_OK) {
                break;
            }
            cost->samples += each;
        }
        drain(world);
        uint64_t taken = take_all(world);
        cost->taken += taken;
        idle = taken != 0 ? 0 : idle + 1;
        if (idle > IDLE_MAX) {
            return 1;
        }
        if (taken == 0) {
            jump(world, world->now + SETTLE_NS);
        }
    }
    cost->ns = now_ns() - start;
    count(world, cost, 1);
    return 0;
}

/* The yardstick: the same bytes, copied once for each sample into memory as large as the window. */
uint64_t bench_copy(struct world *world, uint64_t samples)
{
    size_t at = 0, size = world->load.size;
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < samples; i++) {
        at = at + size <= world->ring_size ? at : 0;
        memcpy(world->ring + at, world->data, size);
        __asm__ volatile("" : : "r"(world->ring + at) : "memory"); /* it must really be there now */
        at += size;
    }
    return now_ns() - start;
}

/* The program: the numbers of a load in the order of its struct, and how many samples. */
int main(int count_of, char **words)
{
    struct load load;
    struct cost cost;
    uint32_t *fields[] = {&load.size, &load.kind,      &load.batch,    &load.burst,
                          &load.way,  &load.receivers, &load.reliable, &load.seq_bits};
    if (count_of != 10) {
        return 2;
    }
    for (int i = 0; i < 8; i++) {
        *fields[i] = (uint32_t)strtoul(words[1 + i], NULL, 10);
    }
    struct world *world = bench_new(&load);
    if (world == NULL) {
        return 1;
    }
    int status = bench_run(world, strtoull(words[9], NULL, 10), &cost);
    printf("%llu samples %llu taken %.0f/s packets %llu bytes %llu acks %llu %llu waits %llu\n",
           (unsigned long long)cost.samples, (unsigned long long)cost.taken,
           (double)cost.samples * 1e9 / (double)(cost.ns + 1), (unsigned long long)cost.packets,
           (unsigned long long)cost.bytes, (unsigned long long)cost.ack_packets,
           (unsigned long long)cost.ack_bytes, (unsigned long long)cost.waits);
    bench_free(world);
    return status;
}
