/* node/memory.c: places for peers cost memory only once there are peers.
 *
 * Nodes in memory that comes from the system page by page, as sessions have it; the system says which pages were touched. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "node/state.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

#define NODES 12
#define STEPS 400

static const pyddsi_endpoint GROUP = {.ip = {239, 255, 0, 1}, .port = 7447, .kind = 4};

struct place {
    struct pdi_node *node;
    pyddsi_endpoint endpoint;
    uint8_t *memory;
    size_t size;
};

/* A node with the sizes that a session has. */
static struct place begin(uint32_t index, uint32_t peers_max)
{
    pyddsi_config config;
    struct place place = {
        .endpoint = {.ip = {10, 0, 0, (uint8_t)(1 + index)}, .port = 5000, .kind = 4}};
    pdi_config_init(&config);
    config.id_size = 8;
    config.id[0] = (uint8_t)(1 + index);
    config.seed = index + 1;
    config.incarnation = 1;
    config.scout_to = config.multicast_to[0] = GROUP;
    config.unicast_bytes = 256 << 10;
    config.unicast_samples = 1024;
    config.order_max = 1024;
    config.resources_max = config.publishers_max = config.subscribers_max = 1024;
    config.remotes_max = 2048;
    config.peers_max = peers_max;
    place.size = pdi_node_size(&config, NULL);
    place.memory = mmap(NULL, place.size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(place.memory != MAP_FAILED);
    CHECK_EQ(madvise(place.memory, place.size, MADV_NOHUGEPAGE), 0);
    CHECK_EQ(pdi_node_init(&place.node, &config, place.memory, place.size, true, 0), PYDDSI_OK);
    return place;
}

/* Bytes of the memory that were touched. */
static size_t touched(const struct place *place)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (place->size + page - 1) / page, count = 0;
    unsigned char *resident = malloc(pages);
    CHECK(resident != NULL && mincore(place->memory, place->size, resident) == 0);
    for (size_t i = 0; i < pages; i++)
        count += resident[i] & 1;
    free(resident);
    return count * page;
}

static void end(struct place *place)
{
    (void)munmap(place->memory, place->size);
}

/* If it failed, a session would pay for all peers that it may ever have. */
static void test_idle(void)
{
    struct place few = begin(0, 16), many = begin(0, PYDDSI_PEERS_MAX);
    CHECK(many.size > 2 * few.size);
    CHECK(touched(&few) > 0 && touched(&few) < 256 << 10);
    /* what is cut differently may begin on other pages */
    CHECK(touched(&many) <= touched(&few) + (32 << 10));
    end(&few);
    end(&many);
}

static void carry(struct place *places, uint32_t from, const pyddsi_endpoint *to,
                  const uint8_t *packet, size_t size, pdi_time now)
{
    for (uint32_t i = 0; i < NODES; i++) {
        size_t room;
        if (i == from || (to->ip[0] != 239 && to->ip[3] != places[i].endpoint.ip[3]))
            continue;
        memcpy(pdi_node_slot(places[i].node, &room), packet, size);
        pdi_node_input(places[i].node, &places[from].endpoint, size, now);
    }
}

/* If it failed, each peer would take hundreds of KiB that nothing needs. */
static void test_each(void)
{
    static struct place places[NODES];
    uint8_t packet[PYDDSI_PACKET_USUAL];
    pyddsi_endpoint to;
    size_t size, before;
    pyddsi_peer peer;
    for (uint32_t i = 0; i < NODES; i++)
        places[i] = begin(i, 256);
    before = touched(&places[0]);
    for (pdi_time step = 0; step < STEPS; step++) {
        pdi_time now = step * 10 * PDI_TIME_MS;
        for (uint32_t i = 0; i < NODES; i++) {
            pdi_node_tick(places[i].node, now);
            while (pdi_node_output(places[i].node, packet, sizeof packet, &size, &to, now) ==
                   PYDDSI_OK)
                carry(places, i, &to, packet, size, now);
        }
    }
    for (uint32_t i = 0; i < NODES - 1; i++) {
        CHECK_EQ(pdi_node_peer(places[0].node, i, &peer), PYDDSI_OK);
        CHECK_EQ(peer.state, PDI_PEER_ESTABLISHED);
    }
    CHECK(touched(&places[0]) - before <= (size_t)(NODES - 1) * (48 << 10));
    for (uint32_t i = 0; i < NODES; i++)
        end(&places[i]);
}

int main(void)
{
    test_idle();
    test_each();
    return test_result();
}
