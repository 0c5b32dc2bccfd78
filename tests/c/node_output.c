/* node/send.c and node/best.c where the driver's memory is smaller than packet_max: what cannot leave has its line.
 *
 * A node and one peer, of which there are only an OPEN and an address. */
#include "node/state.h"

#include "test.h"

#define MEMORY_MAX (UINT32_C(8) << 20)
#define ROOM       200U /* the driver's memory */

static _Alignas(64) uint8_t memory[MEMORY_MAX];
static uint8_t large[4000];

static const pyddsi_endpoint GROUP = {.ip = {239, 255, 0, 1}, .port = 7447, .kind = 4};
static const pyddsi_endpoint PEER = {.ip = {10, 0, 0, 9}, .port = 7447, .kind = 4};

/* OPEN: version 1, id, no lease, no groups, property 12, and 1: all features. */
static const uint8_t OPEN[] = {0x23, 1, 2, 0xaa, 0xbb, 0, 0, 2, 12, 2, 2, 3, 1, 2, 1, 0x7f};

/* DECLARE with C on conduit 0: the peer wants resource 5 pushed; first the SYNCH of its conduit. */
static const uint8_t WANTS[] = {0x6e, 0, 0x46, 0, 1, 3, 10, 1};

static void input(struct pdi_node *node, const uint8_t *bytes, size_t size)
{
    size_t room;
    memcpy(pdi_node_slot(node, &room), bytes, size);
    pdi_node_input(node, &PEER, size, node->now);
    pdi_node_tick(node, node->now);
}

/* All packets that fit this memory; how many. */
static uint32_t output(struct pdi_node *node, size_t room)
{
    uint8_t packet[PYDDSI_PACKET_USUAL];
    pyddsi_endpoint to;
    size_t size;
    uint32_t count = 0;
    while (pdi_node_output(node, packet, room, &size, &to, node->now) == PYDDSI_OK) {
        count++;
    }
    return count;
}

static struct pdi_node *start(uint32_t latency_us, uint32_t *publisher)
{
    struct pdi_node *node = NULL;
    pyddsi_config config;
    int status;
    pdi_config_init(&config);
    config.id_size = 1;
    config.id[0] = 0xa0;
    config.latency_us = latency_us;
    config.multicast_to[0] = config.scout_to = GROUP;
    config.slots_max = 64;
    config.peers_max = 2;
    config.assembly_bytes = 64 << 10;
    config.keep_bytes = 64 << 10;
    config.sample_max = 64 << 10;
    CHECK(pdi_node_size(&config, NULL) <= MEMORY_MAX);
    CHECK_EQ(pdi_node_init(&node, &config, memory, sizeof memory, false, PDI_TIME_S), PYDDSI_OK);
    pyddsi_publisher_options options = {
        .resource = 5, .reliability = PYDDSI_BEST_EFFORT, .way = PYDDSI_WAY_EACH};
    CHECK_EQ(pdi_node_publisher(node, &options, publisher, &status), PYDDSI_OK);
    input(node, OPEN, sizeof OPEN);
    input(node, WANTS, sizeof WANTS);
    pdi_node_flush(node, node->now);
    (void)output(node, PYDDSI_PACKET_USUAL);
    return node;
}

/* How many samples were too large for the driver. */
static uint64_t lost(const struct pdi_node *node)
{
    pyddsi_drop drop;
    uint64_t count = 0;
    for (uint32_t i = 0; pdi_node_drop(node, i, &drop) == PYDDSI_OK; i++) {
        CHECK_EQ(drop.place, PYDDSI_AT_PACKET);
        CHECK_EQ(drop.reason, PYDDSI_BY_SIZE);
        count += drop.count;
    }
    return count;
}

/* A sample that the driver has no room for would vanish without a line, at once or when it is old enough. */
static void test_small_memory(uint32_t latency_us)
{
    uint32_t publisher;
    struct pdi_node *node = start(latency_us, &publisher);
    CHECK_EQ(pdi_node_put(node, publisher, large, 100, node->now), PYDDSI_OK);
    pdi_node_flush(node, node->now);
    CHECK_EQ(output(node, ROOM), 1);
    CHECK_EQ(lost(node), 0);
    CHECK_EQ(pdi_node_put(node, publisher, large, 300, node->now), PYDDSI_OK);
    pdi_node_flush(node, node->now);
    CHECK_EQ(output(node, ROOM), 0);
    CHECK_EQ(lost(node), 1);
}

/* A batch that the driver has no room for would count as one sample. */
static void test_small_memory_for_a_batch(void)
{
    uint32_t publisher;
    struct pdi_node *node = start(1000, &publisher);
    pyddsi_bytes samples[] = {{large, 100}, {large, 100}, {large, 100}};
    CHECK_EQ(pdi_node_put_many(node, publisher, samples, 3, node->now), PYDDSI_OK);
    pdi_node_flush(node, node->now);
    CHECK_EQ(output(node, ROOM), 0);
    CHECK_EQ(lost(node), 3);
}

/* A sample in fragments that the driver has no room for would vanish without a line. */
static void test_small_memory_for_fragments(void)
{
    uint32_t publisher;
    struct pdi_node *node = start(0, &publisher);
    CHECK_EQ(pdi_node_put(node, publisher, large, sizeof large, node->now), PYDDSI_OK);
    CHECK_EQ(output(node, ROOM), 0);
    CHECK_EQ(lost(node), 1);
}

int main(void)
{
    test_small_memory(0);
    test_small_memory(1000);
    test_small_memory_for_a_batch();
    test_small_memory_for_fragments();
    return test_result();
}
