/* Places for samples that come in pieces (node/assembly.c). */
#include "lone.h"

#define MS    PDI_TIME_MS
#define PIECE 1000U

static struct pdi_node *make(void **memory, uint32_t peers, uint32_t places)
{
    pyddsi_config config;
    pdi_config_init(&config);
    config.slow_ms = 300;
    config.assembly_max = places;
    config.assembly_bytes = 64 * PDI_SERIES_PAGE;
    config.sample_max = 32 * PDI_SERIES_PAGE;
    struct pdi_node *node = lone_node(&config, peers, memory);
    node->peers_used = node->established = peers;
    return node;
}

/* Piece `at` of `pieces` of the sample that begins with number `first`. */
static int piece(struct pdi_node *node, uint32_t peer, bool reliable, uint32_t first, uint32_t at,
                 uint32_t pieces, pdi_time now)
{
    static const uint8_t bytes[PIECE];
    struct pdi_arrival arrival = {.peer = peer, .reliable = reliable, .number = first + at};
    pyddsi_message message = {.kind = PYDDSI_SDATA,
                              .sn = first + at,
                              .first = first,
                              .fragment = 1,
                              .fragments = pieces,
                              .payload = {bytes, sizeof bytes}};
    uint32_t series;
    if (!reliable) {
        pdi_assembly_pass(node, &arrival, now);
    }
    int status = pdi_assembly_input(node, &arrival, &message, 2, &series, now);
    if (status == PYDDSI_AGAIN) { /* as turn.c does it */
        struct pdi_order *order = pdi_node_order(node, peer, 0);
        order->held = node->held_for;
        pdi_held_set(node, peer * node->config.conduits_in, true);
    }
    if (status == PYDDSI_END) {
        pdi_assembler_free(&node->assembler, series);
    }
    return status;
}

static uint64_t lost(const struct pdi_node *node, enum pyddsi_reason reason)
{
    return node->ledger.by_reason[reason]; /* of other places there is nothing here */
}

/* If it failed, a lost tail of best effort would keep its place until the session ends. */
static void test_best_effort_passes(void)
{
    void *memory;
    struct pdi_node *node = make(&memory, 2, 8);
    for (uint32_t sample = 0; sample < 100; sample++) { /* the last piece of each is lost */
        CHECK_EQ(piece(node, 0, false, 3 * sample, 0, 3, 0), PYDDSI_OK);
        CHECK_EQ(piece(node, 0, false, 3 * sample, 1, 3, 0), PYDDSI_OK);
        CHECK_EQ(node->assembler.growing, 1);
    }
    CHECK_EQ(lost(node, PYDDSI_BY_INCOMPLETE), 99);
    struct pdi_arrival whole = {.number = 300}; /* a sample of one packet */
    pdi_assembly_pass(node, &whole, 0);
    CHECK_EQ(lost(node, PYDDSI_BY_INCOMPLETE), 100);
    CHECK_EQ(node->assembler.used, 0);
    CHECK_EQ(lost(node, PYDDSI_BY_FULL), 0);
    free(memory);
}

/* If it failed, the place of a sender that falls silent would be taken until its session ends. */
static void test_best_effort_ages(void)
{
    void *memory;
    struct pdi_node *node = make(&memory, 2, 8);
    CHECK_EQ(piece(node, 0, false, 0, 0, 3, 0), PYDDSI_OK);
    CHECK_EQ(piece(node, 1, false, 0, 0, 3, 10 * MS), PYDDSI_OK);
    CHECK_EQ(piece(node, 0, false, 0, 1, 3, 20 * MS), PYDDSI_OK);
    CHECK_EQ(pdi_heap_get(&node->timers, PDI_TIMER_ASSEMBLY), PDI_ASSEMBLY_LOOSE_MS * MS);
    pdi_time at = PDI_ASSEMBLY_LOOSE_MS * MS;
    pdi_assembly_tick(node, at);
    CHECK_EQ(node->assembler.growing, 2);
    CHECK_EQ(pdi_heap_get(&node->timers, PDI_TIMER_ASSEMBLY), at + 10 * MS);
    pdi_assembly_tick(node, at + 10 * MS);
    CHECK_EQ(node->assembler.growing, 1);
    pdi_assembly_tick(node, at + 20 * MS);
    CHECK_EQ(node->assembler.used, 0);
    CHECK_EQ(lost(node, PYDDSI_BY_INCOMPLETE), 2);
    CHECK_EQ(pdi_heap_get(&node->timers, PDI_TIMER_ASSEMBLY), PDI_TIME_NEVER);
    free(memory);
}

/* If it failed, a reliable sample would wait for best effort, or be lost because of it. */
static void test_reliable_displaces(void)
{
    void *memory;
    struct pdi_node *node = make(&memory, 6, 4);
    for (uint32_t peer = 0; peer < 4; peer++) {
        CHECK_EQ(piece(node, peer, false, 0, 0, 3, peer), PYDDSI_OK);
    }
    CHECK_EQ(piece(node, 4, false, 0, 0, 3, 5), PYDDSI_OK);
    CHECK_EQ(lost(node, PYDDSI_BY_FULL),
             1); /* best effort waits for nobody, and displaces nobody */
    CHECK_EQ(piece(node, 5, true, 0, 0, 3, 6), PYDDSI_OK);
    CHECK_EQ(lost(node, PYDDSI_BY_FULL), 2); /* the one that had stood still for longest */
    CHECK_EQ(piece(node, 0, false, 0, 1, 3, 6), PYDDSI_OK);
    CHECK_EQ(node->assembler.growing, 4);
    CHECK_EQ(piece(node, 5, true, 0, 1, 3, 6), PYDDSI_OK);
    CHECK_EQ(piece(node, 5, true, 0, 2, 3, 6), PYDDSI_END);
    CHECK_EQ(piece(node, 4, true, 0, 0, 120, 6), PYDDSI_OK); /* memory, too: nearly half of it */
    CHECK_EQ(piece(node, 5, true, 3, 0, 120, 6), PYDDSI_OK);
    CHECK_EQ(lost(node, PYDDSI_BY_FULL), 3);
    free(memory);
}

/* If it failed, a reliable sample without a place would be acknowledged and lost; or it would wait where no waiting helps. */
static void test_reliable_waits(void)
{
    void *memory;
    struct pdi_node *node = make(&memory, 4, 4);
    for (uint32_t peer = 0; peer < 2; peer++) {
        CHECK_EQ(piece(node, peer, true, 0, 0, 3, 0), PYDDSI_OK);
        CHECK_EQ(piece(node, peer, true, 10, 0, 3, 0), PYDDSI_OK);
    }
    CHECK_EQ(piece(node, 2, true, 0, 0, 3, 0), PYDDSI_AGAIN);
    CHECK_EQ(node->orders[(size_t)2 * node->config.conduits_in].held, PDI_HELD_PLACE);
    node->kick = 0;
    CHECK_EQ(piece(node, 1, true, 0, 1, 9, 0), PYDDSI_OK); /* it contradicts: its series goes */
    CHECK_EQ(node->kick, 1);
    CHECK_EQ(piece(node, 2, true, 0, 0, 3, 0), PYDDSI_OK);
    CHECK_EQ(lost(node, PYDDSI_BY_FULL), 0);
    /* a third one of the same conduit: half of the places are a peer's share, and the two before it stand behind it */
    CHECK_EQ(piece(node, 0, true, 20, 0, 3, 0), PYDDSI_OK);
    CHECK_EQ(lost(node, PYDDSI_BY_LIMIT), 1);
    free(memory);
}

/* If it failed, two conduits that wait for each other would stand still for ever, or what waits for a reader of ours would
 * be given up. */
static void test_stuck(void)
{
    void *memory;
    struct pdi_node *node = make(&memory, 4, 4);
    for (uint32_t peer = 0; peer < 4; peer++) {
        CHECK_EQ(piece(node, peer, true, 0, 0, 3, peer * MS), PYDDSI_OK);
    }
    for (uint32_t peer = 0; peer < 4; peer++) {
        CHECK_EQ(piece(node, peer, true, 10, 0, 3, 10 * MS), PYDDSI_AGAIN);
    }
    pdi_time limit = PDI_ASSEMBLY_STUCK * 300 * MS;
    CHECK(pdi_heap_get(&node->timers, PDI_TIMER_ASSEMBLY) <= 10 * MS + limit);
    pdi_assembly_tick(node, limit - 1);
    CHECK_EQ(node->assembler.growing, 4);
    node->orders[0].held = PDI_HELD_READER; /* of peer 0 */
    pdi_assembly_tick(node, limit);
    CHECK_EQ(node->assembler.growing, 4);
    node->kick = 0;
    pdi_assembly_tick(node, limit + 1 * MS);
    CHECK_EQ(node->assembler.growing, 3);
    CHECK_EQ(node->kick, 1);
    CHECK_EQ(lost(node, PYDDSI_BY_LIMIT), 1);
    CHECK_EQ(piece(node, 2, true, 10, 0, 3, limit), PYDDSI_OK);
    free(memory);
}

/* If it failed, a sample of the largest size would be called greedy by its rounding alone. */
static void test_half_is_not_greedy(void)
{
    void *memory;
    struct pdi_node *node = make(&memory, 2, 8);
    uint32_t pieces = (32 * PDI_SERIES_PAGE + PIECE - 1) /
                      PIECE; /* more than sample_max with the last one whole */
    CHECK_EQ(piece(node, 0, true, 0, 0, pieces, 0), PYDDSI_OK);
    CHECK_EQ(node->assembler.growing, 1);
    CHECK_EQ(lost(node, PYDDSI_BY_LIMIT), 0);
    free(memory);
}

int main(void)
{
    test_best_effort_passes();
    test_best_effort_ages();
    test_reliable_displaces();
    test_reliable_waits();
    test_stuck();
    test_half_is_not_greedy();
    return test_result();
}
