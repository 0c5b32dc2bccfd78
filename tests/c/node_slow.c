/* Who is too slow for a window that others share (node/member.c). */
#include "lone.h"

#define MS    PDI_TIME_MS
#define PEERS 3U

static struct pdi_node *make(void **memory)
{
    pyddsi_config config;
    pdi_config_init(&config);
    config.slow_ms = 300;
    config.synch_ms = 10;
    struct pdi_node *node = lone_node(&config, PEERS + 1, memory);
    node->peers_used = PEERS;
    return node;
}

/* One message into the window, and out at once. */
static void put(struct pdi_node *node, struct pdi_conduit *conduit, pdi_time now)
{
    struct pdi_loan loan;
    struct pdi_entry model = {.kind = PYDDSI_SDATA, .flags = PYDDSI_R, .id = 2};
    CHECK_EQ(pdi_reliable_reserve(node, conduit, 8, 1, &loan), PYDDSI_OK);
    (void)pdi_reliable_commit(node, conduit, &loan, 8, 8, &model, now);
    conduit->sent = conduit->window.next;
}

static void ack(struct pdi_node *node, const struct pdi_conduit *conduit, uint32_t peer,
                pdi_time now)
{
    pyddsi_message message = {.kind = PYDDSI_ACKNACK,
                              .conduit = conduit->id,
                              .sn = conduit->window.next & conduit->seq.mask};
    pdi_reliable_acknack(node, peer, &message, now);
}

/* A member that had all there was, for long, while a silent one held the window, would be called slow for the first message
 * that comes then, before it could have said a word about it; and it would be asked as seldom as the silent one. */
static void test_idle_is_not_slow(void)
{
    void *memory;
    struct pdi_node *node = make(&memory);
    struct pdi_conduit *conduit = &node->out[0];
    CHECK(conduit->open);
    for (uint32_t peer = 0; peer < PEERS; peer++) {
        pdi_node_unicast(node, peer)->id = 1; /* as if its session had begun */
        pdi_member_join(node, conduit, peer, 0);
    }
    put(node, conduit, 0);
    ack(node, conduit, 0, 1 * MS); /* 2 says nothing */
    ack(node, conduit, 1, 1 * MS);
    pdi_time now = 2 * MS;
    for (; now < 299 * MS; now += 1 * MS) {
        pdi_reliable_timer(node, conduit, now);
    }
    CHECK_EQ(conduit->detached, 0);
    put(node, conduit, 299 * MS);
    CHECK(pdi_time_add(conduit->synch_point, conduit->synch_wait) <= 309 * MS);
    ack(node, conduit, 0, 300 * MS);
    for (now = 300 * MS; now < 598 * MS; now += 1 * MS) {
        pdi_reliable_timer(node, conduit, now);
    }
    CHECK_EQ(conduit->detached, 1); /* the silent one */
    CHECK(pdi_node_member(node, conduit, 2)->detached);
    CHECK(!pdi_node_member(node, conduit, 1)->detached);
    pdi_reliable_timer(node, conduit, 599 * MS); /* now it is, having held the window for so long */
    CHECK(pdi_node_member(node, conduit, 1)->detached);
    CHECK(!pdi_node_member(node, conduit, 0)->detached);
    free(memory);
}

int main(void)
{
    test_idle_is_not_slow();
    return test_result();
}
