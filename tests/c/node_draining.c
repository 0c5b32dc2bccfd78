/* The flag `draining` of a conduit (node/reliable.c) decides when a full window opens again, and nothing else.
 *
 * Two nodes write to each other through small windows, over a network that loses packets, delays them and turns them
 * round. Before every single step of a node (packet in, packet out, tick, put, take) the flags of all its conduits are
 * overwritten, in one of these ways:
 *
 *       LEFT_ALONE   the usual life, to compare with
 *       RANDOM       anything, at any step
 *       ALWAYS_ON    "was full", even if the window is empty
 *       ALWAYS_OFF   "never full": no hysteresis at all
 *       INVERTED     the opposite of what it was
 *
 * Whatever the flag says, each sample arrives once and in order, and every writer gets on. */
#include "base/rand.h"
#include "node/state.h"

#include "test.h"

#define MS          PDI_TIME_MS
#define NODES       2
#define MEMORY_MAX  (UINT32_C(8) << 20)
#define FLIGHTS_MAX 512
#define WRITERS     3
#define SAMPLE_MAX  300
#define TARGET      150 /* samples of each writer */
#define SEEDS       12  /* of each way */
#define STUCK       (20 * PDI_TIME_S)

enum way { LEFT_ALONE, RANDOM, ALWAYS_ON, ALWAYS_OFF, INVERTED, WAYS };

struct flight {
    pdi_time at;
    uint32_t to, size; /* size 0: a free place */
    uint8_t data[PYDDSI_PACKET_USUAL];
};

struct writer {
    uint32_t node, handle, reader; /* the reader is on the other node */
    uint32_t put, taken;
    pdi_time since; /* when the last one was accepted */
    pdi_time longest;
};

static _Alignas(64) uint8_t memory[NODES][MEMORY_MAX];
static struct flight flights[FLIGHTS_MAX];

static struct {
    struct pdi_node *node[NODES];
    pyddsi_endpoint endpoint[NODES];
    struct writer writers[WRITERS];
    struct pdi_rand rand;
    pdi_time now;
    enum way way;
    uint32_t loss; /* in 1000 packets */
    uint64_t lost, refused, flips, retried;
} net;

static const pyddsi_endpoint GROUP = {.ip = {239, 255, 0, 1}, .port = 7447, .kind = 4};

static uint32_t chance(uint32_t below)
{
    return (uint32_t)pdi_rand_below(&net.rand, below);
}

/* ---- the flag ---- */

static uint8_t flipped(uint8_t draining)
{
    switch (net.way) {
    case RANDOM:
        return (uint8_t)chance(2);
    case ALWAYS_ON:
        return 1;
    case ALWAYS_OFF:
        return 0;
    case INVERTED:
        return !draining;
    default:
        return draining;
    }
}

/* The node, to be told one thing; what it believed about its windows is no longer so. */
static struct pdi_node *enter(uint32_t index)
{
    struct pdi_node *node = net.node[index];
    for (uint32_t i = 0; i < node->conduits; i++) {
        uint8_t before = node->out[i].draining;
        node->out[i].draining = flipped(before);
        net.flips += before != node->out[i].draining;
    }
    return node;
}

/* ---- the network ---- */

static void start(uint32_t index, uint32_t samples)
{
    pyddsi_config config;
    pdi_config_init(&config);
    config.id_size = 1;
    config.id[0] = (uint8_t)(0xa0 + index);
    config.seed = 11 + index;
    config.incarnation = 1;
    config.multicast_to[0] = config.scout_to = GROUP;
    config.multicast_bytes[0] = 1024;
    config.unicast_bytes = 2400;
    config.multicast_samples[0] = config.unicast_samples = samples;
    config.slots_max = 128;
    config.peers_max = 2;
    config.assembly_bytes = 64 << 10;
    config.keep_bytes = 64 << 10;
    config.sample_max = 64 << 10;

    size_t size = pdi_node_size(&config, NULL);
    CHECK(size != 0 && size <= MEMORY_MAX);
    net.endpoint[index] =
        (pyddsi_endpoint){.ip = {10, 0, 0, (uint8_t)(1 + index)}, .port = 50000, .kind = 4};
    CHECK_EQ(pdi_node_init(&net.node[index], &config, memory[index], size, false, net.now),
             PYDDSI_OK);
}

static void send(uint32_t from, const uint8_t *packet, size_t size)
{
    if (chance(1000) < net.loss) {
        net.lost++;
        return;
    }
    for (uint32_t i = 0; i < FLIGHTS_MAX; i++) {
        if (flights[i].size == 0) {
            flights[i].at = net.now + MS / 2 + chance(1000) * PDI_TIME_US; /* they overtake */
            flights[i].to = 1 - from;
            flights[i].size = (uint32_t)size;
            memcpy(flights[i].data, packet, size);
            return;
        }
    }
    net.lost++; /* of so few places: as in a router */
}

static void arrive(struct flight *flight)
{
    size_t room;
    struct pdi_node *node = enter(flight->to);
    uint8_t *slot = pdi_node_slot(node, &room);
    CHECK(flight->size <= room);
    memcpy(slot, flight->data, flight->size);
    pdi_node_input(node, &net.endpoint[1 - flight->to], flight->size, net.now);
    if (flight->to ==
        1) { /* as a session: no tick is due because of what has come, unless there is a chore */
        bool kicked = node->kick;
        pdi_node_retry(node, net.now);
        bool chore = node->chore_head != node->chore_tail;
        net.retried += kicked && (chore || pdi_node_due(node) > net.now);
    }
    flight->size = 0;
}

/* Everything of this moment, each step with the flags as they may be. */
static void net_now(void)
{
    uint8_t packet[PYDDSI_PACKET_USUAL];
    pyddsi_endpoint to;
    size_t size;
    for (uint32_t i = 0; i < FLIGHTS_MAX; i++) {
        if (flights[i].size != 0 && flights[i].at <= net.now) {
            arrive(&flights[i]);
        }
    }
    for (uint32_t i = 0; i < NODES; i++) {
        if (pdi_node_due(net.node[i]) <= net.now) {
            pdi_node_tick(enter(i), net.now);
        }
        for (uint32_t k = 0; k < 1000 && pdi_node_output(enter(i), packet, sizeof packet, &size,
                                                         &to, net.now) == PYDDSI_OK;
             k++) {
            CHECK(k < 999); /* else it sends without end */
            send(i, packet, size);
        }
    }
}

static void net_run(pdi_time duration)
{
    for (pdi_time until = net.now + duration; net.now < until; net.now += MS / 10) {
        net_now();
    }
}

/* ---- the applications ---- */

static void open_writer(uint32_t index, uint32_t node, uint64_t resource, uint8_t way)
{
    struct writer *writer = &net.writers[index];
    pyddsi_publisher_options out = {.resource = resource, .reliability = 1, .way = way};
    pyddsi_subscriber_options in = {
        .resource = resource, .mode = PYDDSI_PUSH, .depth = 8, .reliability = 1};
    int status = 0;
    writer->node = node;
    writer->since = net.now;
    CHECK_EQ(pdi_node_publisher(net.node[node], &out, &writer->handle, &status), PYDDSI_OK);
    CHECK_EQ(pdi_node_subscriber(net.node[1 - node], &in, &writer->reader, &status), PYDDSI_OK);
}

/* A sample says its number first; its size and the rest follow from that. */
static size_t compose(uint32_t number, uint8_t *out)
{
    size_t size = 4 + number * 37 % (SAMPLE_MAX - 4);
    memset(out, (int)(number & 0xff), size);
    memcpy(out, &number, sizeof number);
    return size;
}

static int put_loan(struct pdi_node *node, uint32_t handle, const uint8_t *bytes, size_t size)
{
    uint8_t *data;
    uint32_t loan;
    int status = pdi_node_loan(node, handle, size, &data, &loan);
    if (status != PYDDSI_OK) {
        return status;
    }
    memcpy(data, bytes, size);
    status = pdi_node_commit(node, loan, size, net.now);
    if (status == PYDDSI_AGAIN) {
        CHECK_EQ(pdi_node_abandon(node, loan), PYDDSI_OK);
    }
    return status;
}

static void write_some(struct writer *writer)
{
    uint8_t bytes[2][SAMPLE_MAX];
    struct pdi_node *node = enter(writer->node);
    uint32_t count = chance(4) == 0 && writer->put + 2 <= TARGET ? 2 : 1;
    pyddsi_bytes samples[2];
    for (uint32_t i = 0; i < count; i++) {
        samples[i] = (pyddsi_bytes){bytes[i], compose(writer->put + i, bytes[i])};
    }
    int status = count == 2 ? pdi_node_put_many(node, writer->handle, samples, 2, net.now)
                 : chance(3) == 0
                     ? put_loan(node, writer->handle, bytes[0], samples[0].size)
                     : pdi_node_put(node, writer->handle, bytes[0], samples[0].size, net.now);
    CHECK(status == PYDDSI_OK || status == PYDDSI_AGAIN);
    if (status == PYDDSI_OK) {
        pdi_time waited = net.now - writer->since;
        writer->longest = waited > writer->longest ? waited : writer->longest;
        writer->since = net.now;
        writer->put += count;
    }
    net.refused += status == PYDDSI_AGAIN;
}

static void read_some(struct writer *writer)
{
    pyddsi_received sample;
    uint8_t wanted[SAMPLE_MAX];
    struct pdi_node *node = enter(1 - writer->node);
    if (pdi_node_take(node, writer->reader, &sample, net.now) == PYDDSI_OK) {
        size_t size = compose(writer->taken, wanted);
        CHECK_EQ(sample.size, size);
        CHECK(sample.size == size && memcmp(sample.data, wanted, size) == 0);
        writer->taken++;
        pdi_node_release(enter(1 - writer->node), &sample);
    }
}

/* Whether somebody has still to put or to take, and nobody has waited for too long. */
static bool going_on(void)
{
    bool busy = false;
    for (uint32_t i = 0; i < WRITERS; i++) {
        const struct writer *writer = &net.writers[i];
        busy = busy || writer->taken < TARGET;
        if (writer->put < TARGET && net.now - writer->since > STUCK) {
            return false;
        }
    }
    return busy;
}

static void life(enum way way, uint64_t seed)
{
    memset(&net, 0, sizeof net);
    memset(flights, 0, sizeof flights);
    pdi_rand_init(&net.rand, seed);
    net.way = way;
    net.now = PDI_TIME_S;
    uint32_t samples = 1U << (2 + chance(3));
    for (uint32_t i = 0; i < NODES; i++) {
        start(i, samples);
    }
    net_run(100 * MS);
    open_writer(0, 0, 1, PYDDSI_WAY_MULTICAST);
    open_writer(1, 0, 2, PYDDSI_WAY_EACH);
    open_writer(2, 1, 3, PYDDSI_WAY_MULTICAST);
    net_run(500 * MS);
    net.loss = chance(250);
    uint32_t haste = 2 + chance(40); /* how often applications do something: bursts, or seldom */
    for (pdi_time end = net.now + 4 * STUCK; net.now < end && going_on(); net.now += MS / 10) {
        for (uint32_t i = 0; i < WRITERS; i++) {
            for (uint32_t k = 0; net.writers[i].put < TARGET && k < 3 && chance(haste) < 2; k++) {
                write_some(&net.writers[i]);
            }
            if (chance(haste) < 3) {
                read_some(&net.writers[i]);
            }
        }
        net_now();
    }
    for (uint32_t i = 0; i < WRITERS; i++) {
        CHECK_EQ(net.writers[i].put, TARGET);
        CHECK_EQ(net.writers[i].taken, TARGET);
    }
    net.loss = 0;
    net_run(2000 * MS);
    for (uint32_t i = 0; i < WRITERS; i++) {
        pyddsi_received sample;
        const struct writer *writer = &net.writers[i];
        CHECK_EQ(pdi_node_take(net.node[1 - writer->node], writer->reader, &sample, net.now),
                 PYDDSI_AGAIN); /* nothing came twice */
    }
    for (uint32_t i = 0; i < NODES; i++) {
        pyddsi_stats stats;
        pdi_node_stats(net.node[i], &stats);
        CHECK_EQ(stats.owed, stats.acknowledged); /* and nobody was forgiven anything */
    }
}

static void test_flag_is_only_a_hint(void)
{
    /* 002-56: a wrong `draining` lets a sample in that has no room, loses or repeats one, or shuts a writer out for
     * ever. */
    uint64_t refused[WAYS] = {0}, flips[WAYS] = {0}, lost = 0, retried = 0;
    pdi_time longest = 0;
    for (uint64_t seed = 0; seed < SEEDS && test_failures == 0; seed++) {
        for (enum way way = 0; way < WAYS && test_failures == 0; way++) {
            life(way, seed);
            refused[way] += net.refused;
            flips[way] += net.flips;
            lost += net.lost;
            retried += net.retried;
            for (uint32_t i = 0; i < WRITERS; i++) {
                longest = net.writers[i].longest > longest ? net.writers[i].longest : longest;
            }
            if (test_failures != 0) {
                printf("way %d, seed %" PRIu64 "\n", (int)way, seed);
            }
        }
    }
    for (enum way way = 0; way < WAYS; way++) {
        CHECK(refused[way] > 1000); /* windows were full, often, */
        CHECK(way == LEFT_ALONE ? flips[way] == 0 : flips[way] > 200); /* flags were wrong, */
    }
    CHECK(lost > 1000);    /* and packets lost */
    CHECK(retried > 1000); /* an acknowledgement that makes room needs no tick */
    CHECK(longest < STUCK / 2);
    printf("longest wait %" PRIu64 " ms, %" PRIu64 " lost\n", (uint64_t)(longest / MS), lost);
}

int main(void)
{
    test_flag_is_only_a_hint();
    return test_result();
}
