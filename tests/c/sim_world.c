/* The simulator's world: links, clocks, faults, the log, and that one seed is one run.
 *
 * It is long because every kind of fault has a test of its own. */
#include <stdlib.h>

#include "sim/world.h"
#include "test.h"

#define MS      PDI_TIME_MS
#define PACKETS 20000U
#define SIZE    777U /* as no packet of the nodes themselves has */

static void config_of(pyddsi_config *config)
{
    pdi_config_init(config);
    config->id_size = 0;
    config->incarnation = 1;
    config->scout_ms = 50;
    config->multicasts = 1;
    config->peers_max = 8;
}

static struct pdi_world *world_of(uint64_t seed, int nodes)
{
    struct pdi_world *world = calloc(1, sizeof(*world));
    pyddsi_config config;
    config_of(&config);
    if (world == NULL || pdi_world_init(world, seed) != PYDDSI_OK)
        abort();
    for (int i = 0; i < nodes; i++) {
        CHECK_EQ(pdi_world_add(world, &config, NULL), i);
    }
    return world;
}

static void end(struct pdi_world *world)
{
    CHECK(world->fault == NULL);
    pdi_world_fini(world);
    free(world);
}

/* Sends a packet without sense, which the nodes only count. */
static void send(struct pdi_world *world, int from, int to, uint32_t number)
{
    uint8_t data[SIZE] = {0xff, 0xff};
    struct pdi_world_sent sent = {.from = from,
                                  .source = world->nodes[from].endpoint,
                                  .target = world->nodes[to].endpoint,
                                  .data = data,
                                  .size = SIZE};
    memcpy(data + 2, &number, sizeof(number));
    pdi_world_send(world, &sent);
}

struct tally {
    uint32_t fates[PYDDSI_SIM_FATE_COUNT];
    uint32_t overtaken; /* arrives before one that was sent earlier */
    pdi_time earliest, latest;
};

/* What the log says of the packets from 0 to 1 that `send` made. */
static struct tally tally_of(const struct pdi_world *world)
{
    struct tally tally = {.earliest = PDI_TIME_NEVER};
    pdi_time last = 0;
    for (uint64_t i = 0; i < world->log.count; i++) {
        const pyddsi_sim_packet *row = &world->log.rows[i];
        if (row->from != 0 || row->to != 1 || row->packet.size != SIZE)
            continue;
        tally.fates[row->fate]++;
        if (row->fate == PYDDSI_SIM_LOST || row->fate == PYDDSI_SIM_CUT)
            continue;
        pdi_time way = row->arrives_ns - row->sent_ns;
        tally.earliest = way < tally.earliest ? way : tally.earliest;
        tally.latest = way > tally.latest ? way : tally.latest;
        tally.overtaken += row->arrives_ns < last;
        last = row->arrives_ns > last ? row->arrives_ns : last;
    }
    return tally;
}

/* PACKETS packets over a link of this quality, one each 10 us. */
static struct tally tally_link(uint64_t seed, pyddsi_sim_link quality)
{
    struct pdi_world *world = world_of(seed, 2);
    CHECK_EQ(pdi_world_link_set(world, 0, 1, &quality), PYDDSI_OK);
    pdi_world_log(world, true, 0);
    for (uint32_t i = 0; i < PACKETS; i++) {
        send(world, 0, 1, i);
        (void)pdi_world_run(world, 10 * PDI_TIME_US);
    }
    struct tally tally = tally_of(world);
    end(world);
    return tally;
}

/* If this fails, a link that is told to be good loses, repeats or turns packets round. */
static void test_good_link(void)
{
    struct tally tally = tally_link(1, (pyddsi_sim_link){.delay_ns = 3 * MS});
    CHECK_EQ(tally.fates[PYDDSI_SIM_DELIVERED], PACKETS);
    CHECK_EQ(tally.earliest, 3 * MS);
    CHECK(tally.latest < 3 * MS + 10); /* packets of the same moment come one after the other */
    tally = tally_link(1, (pyddsi_sim_link){.delay_ns = 3 * MS, .jitter_ns = MS});
    CHECK_EQ(tally.fates[PYDDSI_SIM_DELIVERED], PACKETS);
    CHECK(tally.earliest >= 3 * MS && tally.latest <= 4 * MS + 1000);
    CHECK(tally.latest > tally.earliest + MS / 20);
    CHECK_EQ(tally.overtaken, 0);
}

/* If this fails, a link does not fail as often as it is told to. */
static void test_chances(void)
{
    struct tally tally = tally_link(2, (pyddsi_sim_link){.loss_ppm = 100000});
    CHECK(tally.fates[PYDDSI_SIM_LOST] > PACKETS / 12);
    CHECK(tally.fates[PYDDSI_SIM_LOST] < PACKETS / 8);
    CHECK_EQ(tally.fates[PYDDSI_SIM_LOST] + tally.fates[PYDDSI_SIM_DELIVERED], PACKETS);
    tally = tally_link(3, (pyddsi_sim_link){.duplicate_ppm = 100000});
    CHECK_EQ(tally.fates[PYDDSI_SIM_DELIVERED], PACKETS);
    CHECK(tally.fates[PYDDSI_SIM_DUPLICATED] > PACKETS / 12);
    CHECK(tally.fates[PYDDSI_SIM_DUPLICATED] < PACKETS / 8);
    tally = tally_link(4, (pyddsi_sim_link){.reorder_ppm = 100000});
    CHECK(tally.overtaken > PACKETS / 100);
    CHECK_EQ(tally.fates[PYDDSI_SIM_DELIVERED], PACKETS);
    tally = tally_link(5, (pyddsi_sim_link){.corrupt_ppm = 100000});
    CHECK(tally.fates[PYDDSI_SIM_CORRUPTED] > PACKETS / 12);
    CHECK(tally.fates[PYDDSI_SIM_CORRUPTED] < PACKETS / 8);
}

/* If this fails, packets pass a cut, or the cut goes both ways when it was to go one way. */
static void test_cut(void)
{
    struct pdi_world *world = world_of(6, 3);
    pdi_world_log(world, true, 0);
    CHECK_EQ(pdi_world_cut(world, 0, 1, 1), PYDDSI_OK);
    send(world, 0, 1, 1);
    CHECK_EQ(tally_of(world).fates[PYDDSI_SIM_CUT], 1);
    uint32_t in_flight = world->in_flight;
    send(world, 1, 0, 1);
    send(world, 0, 2, 1);
    CHECK_EQ(world->in_flight, in_flight + 2);
    CHECK_EQ(pdi_world_cut(world, 0, 1, 0), PYDDSI_OK);
    send(world, 0, 1, 2);
    CHECK_EQ(tally_of(world).fates[PYDDSI_SIM_DELIVERED], 1);
    CHECK_EQ(pdi_world_cut(world, 0, 3, 1), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_world_cut(world, -2, 1, 1), PYDDSI_BAD_ARGUMENT);
    end(world);
}

/* If this fails, packets of one moment have no order, or links of one sender share their fate. */
static void test_moment(void)
{
    struct pdi_world *world = world_of(19, 3);
    uint32_t differ = 0;
    (void)pdi_world_run(world, MS);
    pdi_world_log(world, true, 0);
    send(world, 0, 1, 1);
    send(world, 0, 1, 2);
    CHECK(world->log.rows[0].arrives_ns < world->log.rows[1].arrives_ns);
    pyddsi_sim_link bad = {.loss_ppm = 500000};
    (void)pdi_world_link_set(world, 0, -1, &bad);
    for (uint32_t i = 0; i < 64; i++) {
        uint64_t first = world->log.count;
        send(world, 0, 1, i);
        send(world, 0, 2, i);
        differ += world->log.rows[first].fate != world->log.rows[first + 1].fate;
    }
    CHECK(differ > 0);
    end(world);
}

/* If this fails, a slow link carries more than its rate, or its queue grows without limit. */
static void test_rate(void)
{
    struct pdi_world *world = world_of(7, 2);
    pyddsi_sim_link slow = {.rate_bytes = SIZE * 1000, .delay_ns = MS};
    CHECK_EQ(pdi_world_link_set(world, 0, 1, &slow), PYDDSI_OK);
    pdi_world_log(world, true, 0);
    for (uint32_t i = 0; i < 500; i++) {
        send(world, 0, 1, i); /* each occupies the link for a millisecond */
    }
    struct tally tally = tally_of(world);
    CHECK(tally.fates[PYDDSI_SIM_DELIVERED] >= 200 && tally.fates[PYDDSI_SIM_DELIVERED] <= 202);
    CHECK_EQ(tally.earliest, 2 * MS);
    CHECK(tally.latest >= 201 * MS && tally.latest <= 203 * MS);
    end(world);
}

/* If this fails, what one link suffers depends on what others do, and a seed changes while it is examined. */
static void test_streams(void)
{
    struct tally tallies[2];
    for (int others = 0; others < 2; others++) {
        struct pdi_world *world = world_of(8, 3);
        pyddsi_sim_link bad = {.loss_ppm = 300000, .jitter_ns = MS};
        (void)pdi_world_link_set(world, -1, -1, &bad);
        (void)pdi_world_cut(world, 1, -1, 1); /* nodes that answer differently must not disturb */
        pdi_world_log(world, true, 0);
        for (uint32_t i = 0; i < 1000; i++) {
            send(world, 0, 1, i);
            if (others)
                send(world, 0, 2, i);
        }
        tallies[others] = tally_of(world);
        end(world);
    }
    CHECK_EQ(tallies[0].fates[PYDDSI_SIM_LOST], tallies[1].fates[PYDDSI_SIM_LOST]);
    CHECK_EQ(tallies[0].latest, tallies[1].latest);
}

/* If this fails, a group is heard by the sender itself, or not by all others, or a node hears what is not for it. */
static void test_groups(void)
{
    struct pdi_world *world = world_of(9, 4);
    uint32_t before = world->in_flight;
    struct pdi_world_sent sent = {.from = 2,
                                  .source = world->nodes[2].endpoint,
                                  .target = world->nodes[2].config.scout_to,
                                  .data = (const uint8_t *)"none",
                                  .size = 4};
    pdi_world_send(world, &sent);
    CHECK_EQ(world->in_flight, before + 3);
    sent.target.ip[3] = 77; /* a group that nobody has joined */
    pdi_world_log(world, true, 0);
    pdi_world_send(world, &sent);
    CHECK_EQ(world->in_flight, before + 3);
    CHECK_EQ(world->log.rows[0].fate, PYDDSI_SIM_NOBODY);
    sent.target = world->nodes[1].endpoint;
    sent.target.port++;
    pdi_world_send(world, &sent);
    CHECK_EQ(world->log.rows[1].fate, PYDDSI_SIM_NOBODY);
    end(world);
}

static uint64_t packets_in(const struct pdi_world *world, int node)
{
    pyddsi_stats stats;
    pdi_node_stats(world->nodes[node].node, &stats);
    return stats.packets_in;
}

/* If this fails, a crashed node still hears, or a new one hears what was sent to the old one, or others still hear that. */
static void test_crash(void)
{
    struct pdi_world *world = world_of(10, 2);
    pyddsi_sim_link slow = {.delay_ns = 10 * MS};
    (void)pdi_world_cut(world, 1, -1, 1);
    (void)pdi_world_run(world, 5 * MS);
    (void)pdi_world_link_set(world, 0, 1, &slow);
    pyddsi_endpoint old = world->nodes[1].endpoint;
    send(world, 0, 1, 1);
    CHECK_EQ(pdi_world_crash(world, 1), PYDDSI_OK);
    CHECK(!pdi_world_runs(world, 1));
    CHECK_EQ(pdi_world_crash(world, 1), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_world_pause(world, 1, MS), PYDDSI_BAD_ARGUMENT);
    CHECK(pdi_world_enter(world, 1, NULL) == NULL);
    CHECK_EQ(pdi_world_restart(world, 1, 0), PYDDSI_OK);
    CHECK(world->nodes[1].endpoint.port != old.port);
    CHECK_EQ(world->nodes[1].config.incarnation, 2);
    (void)pdi_world_run(world, 11 * MS);
    CHECK_EQ(packets_in(world, 1), 0);
    (void)pdi_world_link_set(world, 1, 0, &slow); /* no longer cut */
    uint64_t before = packets_in(world, 0);
    send(world, 0, 1, 2);
    send(world, 1, 0, 3);
    (void)pdi_world_cut(world, -1, -1, 1);
    CHECK_EQ(pdi_world_restart(world, 1, 1), PYDDSI_OK);
    (void)pdi_world_run(world, 11 * MS);
    CHECK_EQ(packets_in(world, 1), 0);
    CHECK_EQ(packets_in(world, 0), before);
    CHECK_EQ(pdi_world_restart(world, 7, 1), PYDDSI_BAD_ARGUMENT);
    end(world);
}

/* If this fails, a paused node works, or what came meanwhile is lost or turned round. */
static void test_pause(void)
{
    struct pdi_world *world = world_of(11, 2);
    (void)pdi_world_cut(world, 1, -1, 1);
    (void)pdi_world_run(world, 5 * MS);
    uint64_t before = packets_in(world, 1);
    CHECK_EQ(pdi_world_pause(world, 1, 20 * MS), PYDDSI_OK);
    CHECK(!pdi_world_awake(world, 1));
    for (uint32_t i = 0; i < PDI_WORLD_HELD_MAX + 10; i++) {
        send(world, 0, 1, i);
    }
    (void)pdi_world_run(world, 19 * MS);
    CHECK_EQ(packets_in(world, 1), before);
    (void)pdi_world_run(world, 2 * MS);
    CHECK(pdi_world_awake(world, 1));
    CHECK(packets_in(world, 1) >= before + PDI_WORLD_HELD_MAX);
    CHECK(packets_in(world, 1) <= before + PDI_WORLD_HELD_MAX + 2);
    CHECK(world->lost >= 10);
    CHECK_EQ(pdi_world_pause(world, 1, 500 * MS), PYDDSI_OK);
    before = world->sent;
    (void)pdi_world_crash(world, 0);
    (void)pdi_world_run(world, 400 * MS); /* several times its interval of scouting */
    CHECK_EQ(world->sent, before);
    CHECK_EQ(pdi_world_restart(world, 1, 1), PYDDSI_OK);
    CHECK(pdi_world_awake(world, 1));
    end(world);
}

/* If this fails, a node hears after its restart what was sent to its former life, if that was paused when it crashed. */
static void test_pause_and_crash(void)
{
    struct pdi_world *world = world_of(13, 2);
    pyddsi_sim_link slow = {.delay_ns = MS};
    (void)pdi_world_cut(world, 1, -1, 1);
    (void)pdi_world_run(world, 5 * MS);
    (void)pdi_world_link_set(world, 0, 1, &slow);
    CHECK_EQ(pdi_world_pause(world, 1, 20 * MS), PYDDSI_OK);
    send(world, 0, 1, 1); /* it comes before the crash, and waits */
    (void)pdi_world_run(world, 2 * MS);
    send(world, 0, 1, 2); /* and this one after it */
    CHECK_EQ(pdi_world_crash(world, 1), PYDDSI_OK);
    CHECK(!pdi_world_awake(world, 1));
    (void)pdi_world_run(world, 2 * MS);
    (void)pdi_world_cut(world, 0, 1, 1);
    CHECK_EQ(pdi_world_restart(world, 1, 1), PYDDSI_OK);
    (void)pdi_world_run(world, 40 * MS);
    CHECK_EQ(packets_in(world, 1), 0);
    end(world);
}

/* If this fails, a node is told that time ran backwards, or its clock does not follow a step. */
static void test_clocks(void)
{
    struct pdi_world *world = world_of(12, 2);
    (void)pdi_world_run(world, 100 * MS);
    CHECK_EQ(pdi_world_clock(world, 0), 100 * MS);
    CHECK_EQ(pdi_world_clock_step(world, 0, (int64_t)(50 * MS)), PYDDSI_OK);
    CHECK_EQ(pdi_world_clock(world, 0), 150 * MS);
    (void)pdi_world_run(world, 10 * MS);
    pdi_time before = pdi_world_clock(world, 0);
    CHECK_EQ(before, 160 * MS);
    CHECK_EQ(pdi_world_clock_step(world, 0, -(int64_t)(100 * MS)), PYDDSI_OK);
    CHECK_EQ(pdi_world_clock(world, 0), before);
    (void)pdi_world_run(world, 50 * MS);
    CHECK_EQ(pdi_world_clock(world, 0), before);
    (void)pdi_world_run(world, 60 * MS);
    CHECK_EQ(pdi_world_clock(world, 0), before + 10 * MS);
    CHECK_EQ(pdi_world_clock(world, 1), world->now);
    CHECK_EQ(pdi_world_clock_step(world, 0, INT64_MAX), PYDDSI_BAD_ARGUMENT);
    end(world);
}

static uint64_t digest_of(uint64_t seed, uint8_t poison)
{
    struct pdi_world *world = calloc(1, sizeof(*world));
    pyddsi_config config;
    pyddsi_sim_link link = {.delay_ns = MS, .jitter_ns = MS, .loss_ppm = 50000};
    config_of(&config);
    if (world == NULL || pdi_world_init(world, seed) != PYDDSI_OK)
        abort();
    world->poison = poison;
    for (int i = 0; i < 4; i++) {
        (void)pdi_world_add(world, &config, NULL);
    }
    (void)pdi_world_link_set(world, -1, -1, &link);
    (void)pdi_world_run(world, 3000 * MS);
    uint64_t digest = world->digest;
    end(world);
    return digest;
}

/* If this fails, the same seed is not the same run, or a node reads memory that it has not written. */
static void test_digest(void)
{
    CHECK(digest_of(13, 0) == digest_of(13, 0));
    CHECK(digest_of(13, 0) == digest_of(13, 0xff));
    CHECK(digest_of(13, 0) != digest_of(14, 0));
}

/* If this fails, nodes do not find each other, or the world says that all is quiet when it is not. */
static void test_quiet(void)
{
    struct pdi_world *world = world_of(15, 3);
    const char *why = NULL;
    CHECK(!pdi_world_quiet(world, &why));
    CHECK(why != NULL);
    CHECK_EQ(pdi_world_run_until_quiet(world, 2000 * MS), PYDDSI_OK);
    CHECK(pdi_world_joined(world, 0, 1));
    CHECK(pdi_world_joined(world, 2, 1));
    CHECK(pdi_world_quiet(world, &why));
    CHECK(why == NULL);
    pyddsi_endpoint stranger = {.ip = {10, 9, 9, 9}, .port = 99, .kind = 4};
    CHECK_EQ(pdi_world_inject(world, 1, &stranger, (const uint8_t *)"\x02\x04\x00", 3), PYDDSI_OK);
    (void)pdi_world_run(world, MS);
    CHECK(!pdi_world_quiet(world, NULL)); /* it says HELLO, and never accepts */
    CHECK_EQ(pdi_world_run_until_quiet(world, 60 * PDI_TIME_S), PYDDSI_OK);
    const pyddsi_subscriber_options subscriber = {
        .resource = 1, .reliability = PYDDSI_RELIABLE, .mode = PYDDSI_PUSH, .depth = 4};
    uint32_t from[2], to;
    int status;
    for (uint8_t i = 0; i < 2; i++) {
        const pyddsi_publisher_options publisher = {.resource = 1,
                                                    .reliability = PYDDSI_RELIABLE,
                                                    .way = i == 0 ? PYDDSI_WAY_EACH
                                                                  : PYDDSI_WAY_MULTICAST};
        CHECK_EQ(pdi_node_publisher(pdi_world_enter(world, 0, NULL), &publisher, &from[i], &status),
                 0);
        pdi_world_declared(world, 0, from[i]);
        pdi_world_leave(world, 0);
    }
    CHECK_EQ(pdi_node_subscriber(pdi_world_enter(world, 1, NULL), &subscriber, &to, &status), 0);
    pdi_world_declared(world, 1, to);
    pdi_world_leave(world, 1);
    CHECK(!pdi_world_quiet(world, NULL));
    CHECK_EQ(pdi_world_run_until_quiet(world, 2000 * MS), PYDDSI_OK);
    for (uint8_t i = 0; i < 2; i++) {
        pdi_time now;
        struct pdi_node *node = pdi_world_enter(world, 0, &now);
        CHECK_EQ(pdi_node_put(node, from[i], "x", 1, now), PYDDSI_OK);
        pdi_world_leave(world, 0);
        CHECK(!pdi_world_quiet(world, &why));
        CHECK_TEXT(why, "a window is not acknowledged");
        world->fault = "time stands still"; /* then nothing will be acknowledged */
        CHECK(!pdi_world_quiet(world, &why));
        CHECK_TEXT(why, "time stands still");
        world->fault = NULL;
        CHECK_EQ(pdi_world_run_until_quiet(world, 2000 * MS), PYDDSI_OK);
    }
    CHECK_EQ(pdi_world_crash(world, 2), PYDDSI_OK);
    CHECK_EQ(pdi_world_run_until_quiet(world, 60 * PDI_TIME_S), PYDDSI_OK);
    CHECK(pdi_world_quiet(world, NULL)); /* nobody owes the dead one anything */
    CHECK_EQ(pdi_world_restart(world, 2, 0), PYDDSI_OK);
    CHECK(!pdi_world_quiet(world, NULL));
    CHECK_EQ(pdi_world_find(world, world->nodes[2].config.id, world->nodes[2].config.id_size), 2);
    CHECK_EQ(pdi_world_find(world, (const uint8_t *)"x", 1), -1);
    end(world);
}

/* If this fails, the log forgets a packet, keeps other bytes than arrived, or grows past its limit. */
static void test_log(void)
{
    struct pdi_world *world = world_of(16, 2);
    (void)pdi_world_cut(world, -1, -1, 0);
    pdi_world_log(world, true, SIZE + 8);
    pyddsi_endpoint from = {.ip = {10, 9, 9, 9}, .port = 99, .kind = 4};
    CHECK_EQ(pdi_world_inject(world, 1, &from, (const uint8_t *)"\xff\xfe\xfd", 3), PYDDSI_OK);
    CHECK_EQ(world->log.count, 1);
    CHECK_EQ(world->log.rows[0].fate, PYDDSI_SIM_INJECTED);
    CHECK_EQ(world->log.rows[0].from, -1);
    CHECK_EQ(world->log.rows[0].to, 1);
    CHECK_EQ(world->log.rows[0].packet.size, 3);
    CHECK(memcmp(world->log.rows[0].packet.data, "\xff\xfe\xfd", 3) == 0);
    CHECK_EQ(world->log.rows[0].source.port, 99);
    send(world, 0, 1, 1);
    send(world, 0, 1, 2); /* no room any more */
    CHECK_EQ(world->log.count, 2);
    CHECK_EQ(pdi_world_inject(world, 2, &from, (const uint8_t *)"x", 1), PYDDSI_BAD_ARGUMENT);
    pdi_world_log(world, false, 0);
    CHECK_EQ(world->log.count, 0);
    end(world);
}

/* If this fails, packets in flight outgrow their pool, or flushing loses count of them. */
static void test_flight(void)
{
    struct pdi_world *world = world_of(17, 2);
    pyddsi_sim_link slow = {.delay_ns = PDI_TIME_S};
    (void)pdi_world_link_set(world, 0, 1, &slow);
    uint32_t before = world->in_flight;
    for (uint32_t i = 0; i < 5000; i++) {
        send(world, 0, 1, i);
    }
    CHECK_EQ(world->in_flight, before + 5000);
    pdi_world_flush(world);
    CHECK_EQ(world->in_flight, 0);
    send(world, 0, 1, 1);
    CHECK_EQ(world->in_flight, 1);
    end(world);
}

/* If this fails, a configuration that cannot be is taken, or a world of too many nodes. */
static void test_add(void)
{
    struct pdi_world *world = world_of(18, 1);
    pyddsi_config config;
    const char *text = NULL;
    config_of(&config);
    config.seq_bits = 6;
    CHECK_EQ(pdi_world_add(world, &config, &text), PYDDSI_BAD_ARGUMENT);
    CHECK(text != NULL && text[0] != 0);
    CHECK_EQ(world->count, 1);
    end(world);
}

int main(void)
{
    test_good_link();
    test_chances();
    test_cut();
    test_moment();
    test_rate();
    test_streams();
    test_groups();
    test_crash();
    test_pause();
    test_pause_and_crash();
    test_clocks();
    test_digest();
    test_quiet();
    test_log();
    test_flight();
    test_add();
    return test_result();
}
