/* The simulator's audit can see: every rule, broken on purpose, becomes a violation of its own kind, and nothing
 * else does. The file is long, as there are many rules. */
#include <stdlib.h>

#include "node/state.h"
#include "sim/audit.h"
#include "test.h"

struct fixture {
    struct pdi_world world;
    struct pdi_audit audit;
    uint32_t author, audience;
    uint64_t violations;
};

static void begin(struct fixture *fixture)
{
    pyddsi_config config;
    struct pdi_audit_topic topic = {.resource = 1, .reliable = 1};
    memset(fixture, 0, sizeof(*fixture));
    pdi_config_init(&config);
    config.id_size = 0;
    config.multicasts = 1;
    config.incarnation = 1;
    config.peers_max = 4;
    if (pdi_world_init(&fixture->world, 1) != PYDDSI_OK ||
        pdi_audit_init(&fixture->audit, &fixture->world) != PYDDSI_OK)
        abort();
    for (int node = 0; node < 2; node++) {
        CHECK_EQ(pdi_world_add(&fixture->world, &config, NULL), node);
        pdi_audit_started(&fixture->audit, node);
    }
    fixture->author = pdi_audit_author(&fixture->audit, 0, 7, &topic);
    fixture->audience = pdi_audit_audience(&fixture->audit, 1, 9, &topic);
    fixture->audit.authors[fixture->author].matched = 1U << 1;
    fixture->audit.sessions[0][1].current = fixture->audit.sessions[0][1].connected = 1;
    fixture->audit.sessions[1][0].current = fixture->audit.sessions[1][0].connected = 1;
    fixture->audit.sessions[1][0].peer = 3;
}

static void finish(struct fixture *fixture)
{
    pdi_audit_fini(&fixture->audit);
    pdi_world_fini(&fixture->world);
}

/* Violations since the last question. */
static int found(struct fixture *fixture)
{
    uint64_t count = fixture->audit.violations - fixture->violations;
    fixture->violations = fixture->audit.violations;
    return (int)count;
}

static const char *last_text(const struct fixture *fixture)
{
    return fixture->audit.texts[fixture->audit.texts_count - 1];
}

enum { SIZE = 40 };

static void put(struct fixture *fixture, uint8_t *payload)
{
    pdi_audit_fill(&fixture->audit, fixture->author, 0, 5, payload, SIZE);
    pdi_audit_put(&fixture->audit, fixture->author, 5,
                  pdi_audit_matched(&fixture->audit, fixture->author), fixture->audit.stamp);
}

static void take(struct fixture *fixture, const uint8_t *payload)
{
    pyddsi_received sample = {.data = payload, .size = SIZE, .peer = 3};
    pdi_audit_take(&fixture->audit, fixture->audience, &sample);
}

/* If this fails, the audit complains about a run in which nothing is wrong. */
static void test_good(void)
{
    struct fixture fixture;
    uint8_t payload[3][SIZE];
    begin(&fixture);
    for (int i = 0; i < 3; i++) {
        put(&fixture, payload[i]);
        take(&fixture, payload[i]);
    }
    pdi_audit_complete(&fixture.audit);
    CHECK_EQ(found(&fixture), 0);
    CHECK_EQ(fixture.audit.taken, 3);
    CHECK_EQ(fixture.audit.owed, 3);
    CHECK_EQ(fixture.audit.excused, 0);
    finish(&fixture);
}

/* If this fails, a sample that is damaged, made up, or for somebody else is taken for a good one. */
static void test_payload(void)
{
    struct fixture fixture;
    uint8_t payload[SIZE];
    begin(&fixture);
    put(&fixture, payload);
    for (size_t i = 0; i < SIZE; i++) {
        payload[i] ^= 1;
        take(&fixture, payload);
        CHECK_EQ(found(&fixture), 1);
        payload[i] ^= 1;
    }
    pdi_audit_fill(&fixture.audit, fixture.author, 0, 5, payload, SIZE); /* not put */
    take(&fixture, payload);
    CHECK_EQ(found(&fixture), 1);
    CHECK(strstr(last_text(&fixture), "nobody put") != NULL);
    put(&fixture, payload);
    fixture.audit.audiences[fixture.audience].topic.space = 1;
    take(&fixture, payload);
    CHECK_EQ(found(&fixture), 1);
    CHECK(strstr(last_text(&fixture), "not for it") != NULL);
    finish(&fixture);
}

/* If this fails, a sample may be taken twice. */
static void test_once(void)
{
    struct fixture fixture;
    uint8_t payload[SIZE];
    begin(&fixture);
    put(&fixture, payload);
    take(&fixture, payload);
    CHECK_EQ(found(&fixture), 0);
    take(&fixture, payload);
    CHECK_EQ(found(&fixture), 1);
    CHECK(strstr(last_text(&fixture), "twice") != NULL);
    finish(&fixture);
}

/* If this fails, samples may change places. */
static void test_order(void)
{
    struct fixture fixture;
    uint8_t one[SIZE], two[SIZE];
    begin(&fixture);
    fixture.audit.authors[fixture.author].topic.reliable = 0; /* so that the hole is no violation */
    put(&fixture, one);
    put(&fixture, two);
    take(&fixture, two);
    CHECK_EQ(found(&fixture), 0);
    take(&fixture, one);
    CHECK_EQ(found(&fixture), 1);
    CHECK(strstr(last_text(&fixture), "after") != NULL);
    finish(&fixture);
}

/* If this fails, best effort that changes its way is held to an order between the two ways, or to none on the same one. */
static void test_moves(void)
{
    struct fixture fixture;
    uint8_t payload[4][SIZE];
    begin(&fixture);
    struct pdi_author *author = &fixture.audit.authors[fixture.author];
    author->topic.reliable = 0;
    author->moves = 1;
    for (int i = 0; i < 4; i++) {
        put(&fixture, payload[i]);
        author->puts[i].alone = i < 2;
    }
    take(&fixture, payload[2]);
    take(&fixture, payload[1]); /* they went different ways */
    CHECK_EQ(found(&fixture), 0);
    take(&fixture, payload[1]);
    CHECK_EQ(found(&fixture), 1);
    take(&fixture, payload[0]);
    CHECK_EQ(found(&fixture), 1);
    take(&fixture, payload[3]);
    CHECK_EQ(found(&fixture), 0);
    finish(&fixture);
}

/* If this fails, what goes to one node counts as what makes a sample late that went to the group. */
static void test_moves_and_comes_round(void)
{
    struct fixture fixture;
    uint8_t payload[122][SIZE];
    begin(&fixture);
    fixture.world.nodes[0].config.features = 0; /* else its numbers are wide */
    fixture.world.nodes[0].config.seq_bits = 7;
    struct pdi_author *author = &fixture.audit.authors[fixture.author];
    author->topic.reliable = 0;
    author->moves = 1;
    for (int i = 0; i < 122; i++) {
        put(&fixture, payload[i]);
        author->puts[i].alone = i == 120;
    }
    for (int i = 0; i < 120; i++)
        take(&fixture, payload[i]);
    take(&fixture, payload[21]); /* late by 98 */
    take(&fixture, payload[120]);
    take(&fixture, payload[63]); /* newer than 21, as numbers say, whatever went the other way */
    CHECK_EQ(found(&fixture), 0);
    take(&fixture, payload[62]);
    CHECK_EQ(found(&fixture), 1);
    take(&fixture, payload[120]);
    CHECK_EQ(found(&fixture), 1);
    finish(&fixture);
}

/* If this fails, best effort that is late by half of all numbers counts as a fault, or what is less late does not. */
static void test_comes_round(void)
{
    struct fixture fixture;
    uint8_t payload[70][SIZE];
    begin(&fixture);
    fixture.world.nodes[0].config.features = 0; /* else its numbers are wide */
    fixture.world.nodes[0].config.seq_bits = 7;
    fixture.audit.authors[fixture.author].topic.reliable = 0;
    for (int i = 0; i < 70; i++)
        put(&fixture, payload[i]);
    take(&fixture, payload[0]);
    take(&fixture, payload[69]);
    take(&fixture, payload[0]);
    take(&fixture, payload[5]);
    take(&fixture, payload[69]); /* a copy, which is newer than the one before it */
    take(&fixture, payload[6]);
    CHECK_EQ(found(&fixture), 0);
    take(&fixture, payload[6]);
    CHECK_EQ(found(&fixture), 1);
    take(&fixture, payload[68]);
    take(&fixture, payload[7]);
    CHECK_EQ(found(&fixture), 1);
    take(&fixture, payload[69]);
    CHECK_EQ(found(&fixture), 0);
    take(&fixture, payload[10]); /* behind that copy, and not by half */
    CHECK_EQ(found(&fixture), 1);
    take(&fixture, payload[69]);
    fixture.world.nodes[0].config.seq_bits = 14;
    take(&fixture, payload[1]);
    CHECK_EQ(found(&fixture), 1);
    fixture.world.nodes[0].config.seq_bits = 7;
    fixture.audit.authors[fixture.author].topic.reliable = 1;
    take(&fixture, payload[68]);
    CHECK(found(&fixture) != 0);
    take(&fixture, payload[0]); /* a reliable one is never so late */
    CHECK_EQ(found(&fixture), 1);
    finish(&fixture);
}

/* If this fails, what a full ring had no room for does not count as heard, and a late one counts as a fault. */
static void test_comes_round_past_a_full_ring(void)
{
    struct fixture fixture;
    uint8_t payload[70][SIZE];
    begin(&fixture);
    fixture.world.nodes[0].config.features = 0; /* else its numbers are wide */
    fixture.world.nodes[0].config.seq_bits = 7;
    fixture.audit.authors[fixture.author].topic.reliable = 0;
    for (int i = 0; i < 70; i++)
        put(&fixture, payload[i]);
    for (int i = 0; i <= 30; i++)
        take(&fixture, payload[i]);
    CHECK_EQ(found(&fixture), 0);
    take(&fixture, payload[6]);
    CHECK_EQ(found(&fixture), 1);
    take(&fixture, payload[30]);
    pdi_drop(fixture.world.nodes[1].node, PYDDSI_AT_RING, PYDDSI_BY_FULL, 0, 2, 39, 0);
    take(&fixture, payload[6]); /* late by 64, if the others came */
    CHECK_EQ(found(&fixture), 0);
    take(&fixture, payload[30]);
    take(&fixture, payload[7]); /* late by 63 at most */
    CHECK_EQ(found(&fixture), 1);
    finish(&fixture);
}

/* If this fails, a reliable sample may be skipped, or lack at the end, and nobody notices. */
static void test_holes(void)
{
    struct fixture fixture;
    uint8_t payload[4][SIZE];
    begin(&fixture);
    for (int i = 0; i < 4; i++) {
        put(&fixture, payload[i]);
    }
    take(&fixture, payload[0]);
    CHECK_EQ(found(&fixture), 0);
    take(&fixture, payload[2]);
    CHECK_EQ(found(&fixture), 1);
    CHECK(strstr(last_text(&fixture), "skipped number 1") != NULL);
    pdi_audit_complete(&fixture.audit);
    CHECK_EQ(found(&fixture), 1);
    CHECK(strstr(last_text(&fixture), "lacks 2 samples") != NULL);
    finish(&fixture);
}

/* If this fails, what was put before a match, before the subscriber, or after UNMATCHED is demanded. */
static void test_edges(void)
{
    struct fixture fixture;
    uint8_t payload[SIZE];
    struct pdi_audit_topic topic = {.resource = 1, .reliable = 1};
    begin(&fixture);
    fixture.audit.authors[fixture.author].matched = 0;
    put(&fixture, payload);
    fixture.audit.authors[fixture.author].matched = 1U << 1;
    fixture.audit.sessions[0][1].current = 0; /* with a life that has ended */
    put(&fixture, payload);
    fixture.audit.sessions[0][1].current = 1;
    pdi_audit_complete(&fixture.audit);
    CHECK_EQ(found(&fixture), 0);
    put(&fixture, payload);
    pdi_audit_complete(&fixture.audit);
    CHECK_EQ(found(&fixture), 1);
    fixture.audit.audiences[fixture.audience].forgotten = 1;
    fixture.audience = pdi_audit_audience(&fixture.audit, 1, 10, &topic);
    pdi_audit_complete(&fixture.audit);
    CHECK_EQ(found(&fixture), 0);
    put(&fixture, payload);
    pdi_audit_complete(&fixture.audit);
    CHECK_EQ(found(&fixture), 1);
    finish(&fixture);
}

/* If this fails, a subscriber is blamed for what went by before it was there. */
static void test_newcomer(void)
{
    struct fixture fixture;
    uint8_t payload[2][SIZE];
    struct pdi_audit_topic topic = {.resource = 1, .reliable = 1};
    begin(&fixture);
    put(&fixture, payload[0]);
    fixture.audience = pdi_audit_audience(&fixture.audit, 1, 10, &topic);
    put(&fixture, payload[1]);
    take(&fixture, payload[1]);
    CHECK_EQ(found(&fixture), 0);
    finish(&fixture);
}

/* If this fails, books that do not balance, packets that stay, samples that nobody reads are overlooked. */
static void test_books(void)
{
    struct fixture fixture;
    begin(&fixture);
    pdi_audit_windows(&fixture.audit, 0, true);
    pdi_audit_memory(&fixture.audit, 0);
    CHECK_EQ(found(&fixture), 0);
    fixture.audit.nodes[0].stats.owed += 5;
    pdi_audit_windows(&fixture.audit, 0, true);
    CHECK_EQ(found(&fixture), 1);
    fixture.audit.nodes[0].slots++;
    pdi_audit_memory(&fixture.audit, 0);
    CHECK_EQ(found(&fixture), 1);
    const pyddsi_publisher_options publisher = {
        .resource = 1, .reliability = PYDDSI_RELIABLE, .way = PYDDSI_WAY_EACH};
    const pyddsi_subscriber_options subscriber = {
        .resource = 1, .reliability = PYDDSI_RELIABLE, .mode = PYDDSI_PUSH, .depth = 4};
    uint32_t from, to;
    int status;
    pdi_time now;
    struct pdi_world *world = &fixture.world;
    CHECK_EQ(pdi_node_publisher(pdi_world_enter(world, 0, NULL), &publisher, &from, &status), 0);
    pdi_world_leave(world, 0);
    CHECK_EQ(pdi_node_subscriber(pdi_world_enter(world, 1, NULL), &subscriber, &to, &status), 0);
    pdi_world_leave(world, 1);
    CHECK_EQ(pdi_world_run_until_quiet(world, 5 * PDI_TIME_S), PYDDSI_OK);
    struct pdi_node *node = pdi_world_enter(world, 0, &now);
    CHECK_EQ(pdi_node_put(node, from, "x", 1, now), PYDDSI_OK);
    pdi_world_leave(world, 0);
    (void)pdi_world_run(world, PDI_TIME_S / 10);
    pyddsi_stats stats;
    pdi_node_stats(world->nodes[1].node, &stats);
    fixture.audit.nodes[1].slots = stats.allocated_slots;
    pdi_audit_memory(&fixture.audit, 1);
    CHECK_EQ(found(&fixture), 1);
    CHECK(strstr(last_text(&fixture), "rings") != NULL);
    finish(&fixture);
}

/* If this fails, the audit does not notice that a session began or broke. */
static void test_sessions(void)
{
    struct fixture fixture;
    begin(&fixture);
    memset(fixture.audit.sessions, 0, sizeof(fixture.audit.sessions));
    CHECK_EQ(pdi_world_run_until_quiet(&fixture.world, 5 * PDI_TIME_S), PYDDSI_OK);
    pdi_audit_step(&fixture.audit, 0);
    CHECK(fixture.audit.sessions[0][1].connected && fixture.audit.sessions[0][1].current);
    CHECK_EQ(fixture.audit.sessions[0][1].broken, 0);
    (void)pdi_world_crash(&fixture.world, 1);
    (void)pdi_world_run(&fixture.world, 60 * PDI_TIME_S);
    pdi_audit_step(&fixture.audit, 0);
    CHECK(!fixture.audit.sessions[0][1].connected);
    CHECK(fixture.audit.sessions[0][1].broken > 0);
    CHECK_EQ(fixture.audit.authors[fixture.author].matched, 0);
    finish(&fixture);
}

/* If this fails, a broken session excuses what came after it, or what nobody has written down. */
static void test_excuses(void)
{
    struct fixture fixture;
    uint8_t payload[SIZE];
    begin(&fixture);
    put(&fixture, payload);
    fixture.audit.sessions[1][0].broken = ++fixture.audit.stamp;
    pdi_audit_complete(&fixture.audit);
    CHECK_EQ(found(&fixture), 1);
    CHECK(strstr(last_text(&fixture), "written down") != NULL);
    fixture.audit.sessions[1][0].gaps = 1;
    pdi_audit_complete(&fixture.audit);
    CHECK_EQ(found(&fixture), 0);
    put(&fixture, payload);
    pdi_audit_complete(&fixture.audit);
    CHECK(found(&fixture) >= 1);
    CHECK(strstr(fixture.audit.texts[1], "lacks 1 samples") != NULL);
    finish(&fixture);
}

/* If this fails, a publisher may be matched with nobody, or not with a subscriber that is there. */
static void test_settled(void)
{
    struct fixture fixture;
    begin(&fixture);
    CHECK_EQ(pdi_world_run_until_quiet(&fixture.world, 5 * PDI_TIME_S), PYDDSI_OK);
    pdi_audit_settled(&fixture.audit);
    CHECK_EQ(found(&fixture), 0);
    fixture.audit.authors[fixture.author].matched = 0;
    pdi_audit_settled(&fixture.audit);
    CHECK_EQ(found(&fixture), 1);
    fixture.audit.audiences[fixture.audience].forgotten = 1;
    pdi_audit_settled(&fixture.audit);
    CHECK_EQ(found(&fixture), 0);
    fixture.audit.authors[fixture.author].matched = 1U << 1;
    pdi_audit_settled(&fixture.audit);
    CHECK_EQ(found(&fixture), 1);
    finish(&fixture);
}

/* If this fails, a stranger's sample counts as a node's, or a replay of his as a repetition. */
static void test_strangers(void)
{
    struct fixture fixture;
    uint8_t payload[SIZE];
    pyddsi_received sample = {.data = payload, .size = SIZE, .peer = 4};
    begin(&fixture);
    fixture.audit.strangers = 1;
    put(&fixture, payload);
    pdi_audit_take(&fixture.audit, fixture.audience, &sample);
    CHECK_EQ(fixture.audit.foreign, 1);
    take(&fixture, payload);
    pdi_audit_take(&fixture.audit, fixture.audience, &sample);
    CHECK_EQ(found(&fixture), 0);
    CHECK_EQ(fixture.audit.taken, 1);
    take(&fixture, payload);
    CHECK_EQ(found(&fixture), 1);
    finish(&fixture);
}

/* If this fails, a selection's subscriber is owed what it did not ask for, or may get it. */
static void test_wants(void)
{
    struct pdi_author author = {.node = 0,
                                .topic = {.resource = 3, .name_size = 4, .name = "/r/3"}};
    struct pdi_audience audience = {.node = 1, .topic = {.resource = 3}};
    CHECK(pdi_audit_wants(&audience, &author, 0));
    audience.topic.resource = 4;
    CHECK(!pdi_audit_wants(&audience, &author, 0));
    audience.topic.name_size = 4;
    memcpy(audience.topic.name, "/r/*", 4);
    CHECK(pdi_audit_wants(&audience, &author, 0));
    audience.topic.is_selection = 1;
    audience.topic.resource = 3;
    audience.topic.colour_limit = 10;
    CHECK(pdi_audit_wants(&audience, &author, 9));
    CHECK(!pdi_audit_wants(&audience, &author, 10));
    audience.topic.name[1] = 'q';
    CHECK(!pdi_audit_wants(&audience, &author, 9));
    audience.topic.is_selection = 0;
    CHECK(pdi_audit_wants(&audience, &author, 9));
    audience.topic.space = 1;
    CHECK(!pdi_audit_wants(&audience, &author, 9));
    audience.topic.space = 0;
    audience.node = 0;
    CHECK(!pdi_audit_wants(&audience, &author, 9)); /* nobody sends to himself */
}

int main(void)
{
    test_good();
    test_payload();
    test_once();
    test_order();
    test_moves();
    test_moves_and_comes_round();
    test_comes_round();
    test_comes_round_past_a_full_ring();
    test_holes();
    test_edges();
    test_newcomer();
    test_books();
    test_sessions();
    test_excuses();
    test_settled();
    test_strangers();
    test_wants();
    return test_result();
}
