/* node/look.c, pdi_node_bond: what two ends of a session can show each other, and nobody else. */
#include <stdlib.h>

#include "sim/world.h"
#include "test.h"

enum { NODES = 3 };

static struct pdi_world world; /* large */

/* Three nodes that know each other; the last life of each begins anew, if `again`. */
static void meet(uint64_t seed, bool again)
{
    pyddsi_config config;
    pdi_config_init(&config);
    config.incarnation = 1;
    config.multicasts = 1;
    config.peers_max = 8;
    CHECK_EQ(pdi_world_init(&world, seed), PYDDSI_OK);
    for (int i = 0; i < NODES; i++) {
        CHECK_EQ(pdi_world_add(&world, &config, NULL), i);
    }
    (void)pdi_world_run(&world, 3 * PDI_TIME_S);
    for (int i = 0; again && i < NODES; i++) {
        pdi_world_crash(&world, i);
        CHECK_EQ(pdi_world_restart(&world, i, false), PYDDSI_OK);
        (void)pdi_world_run(&world, 30 * PDI_TIME_S);
    }
}

/* What one shows another, or expects of it. */
static uint64_t bond(int one, int other, bool ours)
{
    const struct pdi_node *node = world.nodes[one].node;
    const pyddsi_config *config = &world.nodes[other].config;
    pyddsi_peer peer;
    for (uint32_t i = 0; pdi_node_peer(node, i, &peer) == PYDDSI_OK; i++) {
        uint64_t found = pdi_node_bond(node, i, ours);
        if (found != 0 && peer.id_size == config->id_size &&
            memcmp(peer.id, config->id, peer.id_size) == 0) {
            return found;
        }
    }
    return 0;
}

/* If it failed, samples would go by sockets between all processes of a machine; or who has a session of its own could show, or
 * repeat, what another one has to. */
static void test_of_the_pair(void)
{
    uint64_t seen[2 * 2 * NODES * NODES] = {0};
    size_t count = 0;
    for (int again = 0; again < 2; again++) {
        meet(7, again != 0);
        for (int one = 0; one < NODES; one++) {
            for (int other = 0; other < NODES; other++) {
                if (one == other) {
                    continue;
                }
                uint64_t shown = bond(one, other, true);
                CHECK(shown != 0);
                CHECK(shown == bond(other, one, false));
                for (size_t i = 0; i < count; i++) {
                    CHECK(seen[i] !=
                          shown); /* of another pair, of the other end, or of another life */
                }
                seen[count++] = shown;
            }
        }
        CHECK_EQ(pdi_node_bond(world.nodes[0].node, 7, true), 0); /* there is no such peer */
        pdi_world_fini(&world);
    }
}

int main(void)
{
    test_of_the_pair();
    return test_result();
}
