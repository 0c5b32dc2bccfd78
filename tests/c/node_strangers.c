/* Who hears a group without having said what he wants (node/aside.c): the publisher must not leave it just then. */
#include "lone.h"

#define MS    PDI_TIME_MS
#define PEERS 3U

static struct pdi_node *make(void **memory, uint32_t *publisher)
{
    pyddsi_config config;
    pdi_config_init(&config);
    struct pdi_node *node = lone_node(&config, PEERS + 1, memory);
    pyddsi_publisher_options options = {
        .resource = 7, .reliability = PYDDSI_RELIABLE, .way = PYDDSI_WAY_MULTICAST};
    int answer;
    CHECK_EQ(pdi_node_publisher(node, &options, publisher, &answer), PYDDSI_OK);
    return node;
}

static void come(struct pdi_node *node, uint32_t peer, bool grouped, pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    node->peers_used = peer >= node->peers_used ? peer + 1 : node->peers_used;
    who->id_size = 8;
    who->id[0] = (uint8_t)(peer + 1);
    who->groups = grouped;
    who->lease_ms = 10000;
    CHECK(pdi_session_establish(node, peer, now));
}

static void say(struct pdi_node *node, uint32_t peer)
{
    CHECK_EQ(pdi_registry_input(node->registry, peer, 0, true, (pyddsi_list){0}), PYDDSI_OK);
}

/* Without a limit in time one that never says anything would keep all others from the lane. */
static void test_until_all_have_said_it_or_had_the_time(void)
{
    void *memory;
    uint32_t publisher;
    struct pdi_node *node = make(&memory, &publisher);
    CHECK_EQ(pdi_node_strangers(node, publisher, 0), 0);
    for (uint32_t peer = 0; peer < PEERS; peer++) {
        come(node, peer, true, (100 + peer) * MS);
    }
    CHECK_EQ(pdi_node_strangers(node, publisher, 103 * MS), 352 * MS);
    say(node, 2);
    CHECK_EQ(pdi_node_strangers(node, publisher, 103 * MS), 351 * MS);
    say(node, 0);
    CHECK_EQ(pdi_node_strangers(node, publisher, 350 * MS), 351 * MS);
    CHECK_EQ(pdi_node_strangers(node, publisher, 351 * MS), 0);
    come(node, 3, true, 400 * MS);
    CHECK(pdi_node_strangers(node, publisher, 401 * MS) != 0);
    say(node, 3);
    CHECK_EQ(pdi_node_strangers(node, publisher, 401 * MS), 0);
    free(memory);
}

/* Those who hear no group of ours, or come when it is left already, would delay everybody for nothing. */
static void test_only_those_who_hear_it(void)
{
    void *memory;
    uint32_t publisher;
    struct pdi_node *node = make(&memory, &publisher);
    come(node, 0, true, 0);
    come(node, 1, false, 0);
    say(node, 0);
    CHECK_EQ(pdi_node_strangers(node, publisher, 1 * MS), 0);
    pdi_node_carry(node, publisher, 0, 1, 1 * MS);
    come(node, 2, true, 2 * MS);
    CHECK_EQ(pdi_node_strangers(node, publisher, 3 * MS), 0);
    free(memory);
}

int main(void)
{
    test_until_all_have_said_it_or_had_the_time();
    test_only_those_who_hear_it();
    return test_result();
}
