/* node/receive.c where a peer's first messages come right behind its ACCEPT, before housekeeping has looked at that.
 *
 * Two nodes whose packets are all received before either is given time for anything else. */
#include "node/state.h"

#include "test.h"

#define MEMORY_MAX (UINT32_C(8) << 20)
#define ROUNDS     200U
#define ROUND      (5 * PDI_TIME_MS)

static _Alignas(64) uint8_t memory[2][MEMORY_MAX];

static const pyddsi_endpoint GROUP = {.ip = {239, 255, 0, 1}, .port = 7447, .kind = 4};
static const pyddsi_endpoint AT[2] = {{.ip = {10, 0, 0, 1}, .port = 7001, .kind = 4},
                                      {.ip = {10, 0, 0, 2}, .port = 7002, .kind = 4}};

static struct pdi_node *make(unsigned which)
{
    struct pdi_node *node = NULL;
    pyddsi_config config;
    pdi_config_init(&config);
    config.id_size = 1;
    config.id[0] = (uint8_t)(0xa0 + which);
    config.seed = 7 + which;
    config.incarnation = 5;
    config.multicast_to[0] = config.scout_to = GROUP;
    config.slots_max = 64;
    config.peers_max = 2;
    config.assembly_bytes = 64 << 10;
    config.keep_bytes = 64 << 10;
    config.sample_max = 64 << 10;
    CHECK(pdi_node_size(&config, NULL) <= MEMORY_MAX);
    CHECK_EQ(pdi_node_init(&node, &config, memory[which], MEMORY_MAX, false, PDI_TIME_S),
             PYDDSI_OK);
    return node;
}

/* All that one has to say reaches the other, which does nothing else meanwhile. */
static void carry(struct pdi_node *from, struct pdi_node *to, unsigned which, pdi_time now)
{
    uint8_t packet[PYDDSI_PACKET_USUAL];
    pyddsi_endpoint whom;
    size_t size, room;
    while (pdi_node_output(from, packet, sizeof packet, &size, &whom, now) == PYDDSI_OK) {
        memcpy(pdi_node_slot(to, &room), packet, size);
        pdi_node_input(to, &AT[which], size, now);
    }
}

/* If it failed, the declarations behind each ACCEPT would be sent twice, and a recording of two healthy sessions would show
 * repeats. */
static void test_behind_an_accept(void)
{
    struct pdi_node *node[2] = {make(0), make(1)};
    uint32_t made;
    int answer;
    pyddsi_publisher_options wants = {.resource = 5, .reliability = PYDDSI_RELIABLE};
    pyddsi_subscriber_options hears = {.resource = 5, .depth = 8};
    CHECK_EQ(pdi_node_publisher(node[0], &wants, &made, &answer), PYDDSI_OK);
    CHECK_EQ(pdi_node_subscriber(node[1], &hears, &made, &answer), PYDDSI_OK);
    pdi_time now = PDI_TIME_S;
    for (unsigned i = 0; i < ROUNDS; i++, now += ROUND) {
        for (unsigned which = 0; which < 2; which++) {
            carry(node[which], node[1 - which], which, now);
        }
        for (unsigned which = 0; which < 2; which++) {
            pdi_node_tick(node[which], now);
        }
    }
    for (unsigned which = 0; which < 2; which++) {
        pyddsi_stats stats;
        pyddsi_drop last;
        pdi_node_stats(node[which], &stats);
        CHECK(stats.acknowledged != 0); /* they are in session */
        CHECK_EQ(stats.resent, 0);
        CHECK_EQ(pdi_node_dropped(node[which], &last), 0);
    }
}

int main(void)
{
    test_behind_an_accept();
    return test_result();
}
