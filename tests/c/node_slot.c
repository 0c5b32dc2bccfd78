/* The slots that packets lie in, at the edge: all of them in use. */
#include <stdlib.h>

#include "node/state.h"
#include "test.h"
#include "wire/encode.h"

static uint64_t bad_bytes(const struct pdi_node *node)
{
    uint64_t count = 0;
    pyddsi_drop drop;
    for (uint32_t i = 0; pdi_node_drop(node, i, &drop) == PYDDSI_OK; i++) {
        count += drop.reason == PYDDSI_BY_BAD_BYTES ? drop.count : 0;
    }
    return count;
}

/* A packet that came while all slots were in use, and one became free before it was looked at, would be read from that one:
 * what an older packet had left there. A session would end for it, or believe an old message. */
static void test_spare(void)
{
    pyddsi_config config;
    pdi_config_init(&config);
    config.id_size = 8;
    config.seed = 1;
    size_t size = pdi_node_size(&config, NULL);
    void *memory = aligned_alloc(PDI_CACHE_LINE,
                                 (size + PDI_CACHE_LINE - 1) / PDI_CACHE_LINE * PDI_CACHE_LINE);
    struct pdi_node *node = NULL;
    CHECK(memory != NULL);
    CHECK_EQ(pdi_node_init(&node, &config, memory, size, false, 0), PYDDSI_OK);
    uint32_t last = PDI_POOL_NONE;
    for (uint32_t slot; (slot = pdi_pool_get(&node->pool)) != PDI_POOL_NONE; last = slot) {
        memset(pdi_pool_data(&node->pool, slot), 0xff, config.packet_max);
    }
    size_t room;
    size_t written = 0;
    uint8_t *spare = pdi_node_slot(node, &room);
    CHECK_EQ(node->slot, PDI_POOL_NONE);
    pyddsi_message scout = {.kind = PYDDSI_SCOUT, .mask = 1};
    pyddsi_fault fault;
    CHECK_EQ(pdi_encode_message(&scout, spare, room, &written, &fault), PYDDSI_OK);
    pdi_pool_drop(&node->pool, last);
    pyddsi_endpoint from = {.ip = {127, 0, 0, 1}, .port = 7, .kind = 4};
    pyddsi_stats stats;
    pdi_node_input(node, &from, written, 1);
    pdi_node_stats(node, &stats);
    CHECK_EQ(stats.messages_in, 1);
    CHECK_EQ(bad_bytes(node), 0);
    CHECK(pdi_node_slot(node, &room) == pdi_pool_data(&node->pool, last)); /* the next goes there */
    free(memory);
}

int main(void)
{
    test_spare();
    return test_result();
}
