/* scenario_life.c - scenarios about nodes that come, go, stop and come back. */
#include "sim/scenario_draw.h"

/* Node 0, and sometimes 1, write to all others. */
static void readers_and_writers(struct pdi_play *play, int count)
{
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    if (chance(play, 1, 3))
        link.loss_ppm = (uint32_t)between(play, 0, 30000);
    pdi_scenario_nodes(play, count);
    pdi_scenario_links(play, &link);
    uint64_t writers = between(play, 1, 2);
    for (uint64_t id = 1; id <= writers; id++) {
        int from = (int)id - 1;
        struct pdi_play_writer *writer = pdi_scenario_writer(play, from, id);
        writer->interval = between(play, 3, 20) * MS;
        writer->options.way = chance(play, 1, 3) ? PYDDSI_WAY_EACH : PYDDSI_WAY_MULTICAST;
        for (int to = 0; to < count; to++) {
            if (to != from)
                pdi_scenario_reader(play, to, id)->delay_max = between(play, 0, 3) * MS;
        }
    }
}

void pdi_scenario_late(struct pdi_play *play)
{
    int count = (int)between(play, 3, 8);
    readers_and_writers(play, count);
    for (uint32_t i = 0; i < play->writers_count; i++) {
        if (chance(play, 1, 2)) {
            play->writers[i].options.durability = PYDDSI_TRANSIENT;
            play->writers[i].options.shelf_samples = (uint32_t)between(play, 1, 20);
        }
    }
    for (int node = 2; node < count; node++) {
        pdi_play_absent(play, node);
        (void)pdi_play_fault(play, PDI_FAULT_RESTART, node, 1, moment(play));
    }
}

void pdi_scenario_leave(struct pdi_play *play)
{
    int count = (int)between(play, 3, 8);
    readers_and_writers(play, count);
    for (int node = 2; node < count; node++) {
        if (chance(play, 1, 4))
            continue;
        bool farewell = chance(play, 2, 3);
        (void)pdi_play_fault(play, farewell ? PDI_FAULT_CLOSE : PDI_FAULT_CRASH, node, 0,
                             moment(play));
        play->dead[node] = 1;
    }
    if (chance(play, 1, 3))
        (void)pdi_play_fault(play, PDI_FAULT_CLOSE_SESSION, 0, 1, moment(play));
}

void pdi_scenario_partition(struct pdi_play *play)
{
    int count = (int)between(play, 2, 5);
    readers_and_writers(play, count);
    uint64_t cuts = between(play, 1, 4);
    for (uint64_t i = 0; i < cuts; i++) {
        int a = any_node(play, count);
        int b = other_node(play, count, a);
        uint64_t lease = play->config.lease_ms;
        pdi_time at = moment(play);
        pdi_time length =
            (chance(play, 1, 2) ? between(play, 1, lease / 2) : between(play, lease, 2 * lease)) *
            MS;
        uint8_t both = chance(play, 2, 3);
        pdi_play_fault(play, PDI_FAULT_CUT, a, b, at)->both = both;
        pdi_play_fault(play, PDI_FAULT_HEAL, a, b, at + length)->both = both;
    }
}

void pdi_scenario_crash(struct pdi_play *play)
{
    int count = (int)between(play, 2, 5);
    readers_and_writers(play, count);
    uint64_t crashes = between(play, 1, 4);
    for (uint64_t i = 0; i < crashes; i++) {
        int node = any_node(play, count);
        pdi_time at = moment(play);
        pdi_time down = chance(play, 1, 2)
                            ? between(play, 0, 50) * MS
                            : between(play, 0, UINT64_C(2) * play->config.lease_ms) * MS;
        (void)pdi_play_fault(play, PDI_FAULT_CRASH, node, 0, at);
        (void)pdi_play_fault(play, PDI_FAULT_RESTART, node, chance(play, 1, 2), at + down);
    }
}

/* The sessions last, and nothing is lost. One may move on before the others have believed that it has moved; but two that move in
 * the same second lose each other, since neither knows where the other is. */
void pdi_scenario_moves(struct pdi_play *play)
{
    int count = (int)between(play, 2, 4);
    play->config.lease_ms = 2000; /* of which four PINGs without an answer take a quarter, */
    play->config.open_ms = 300;   /* and there is time for two moves, each with an OPEN lost */
    play->config.opens_max = 9;
    play->config.slow_ms = 1400;
    readers_and_writers(play, count);
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    if (chance(play, 1, 2))
        link.loss_ppm = (uint32_t)between(play, 0, 50000);
    if (chance(play, 1, 2))
        link.reorder_ppm = (uint32_t)between(play, 0, 100000);
    pdi_scenario_links(play, &link);
    play->half = 5000 * MS;
    play->stop = 6000 * MS;
    for (pdi_time at = between(play, 400, 600) * MS; at < 4000 * MS;
         at += between(play, 1200, 1500) * MS) {
        int node = any_node(play, count);
        bool knows = chance(play, 2, 3);
        (void)pdi_play_fault(play, PDI_FAULT_MOVE, node, knows, at);
        if (chance(play, 1, 4)) {
            at += between(play, 1, 700) * MS;
            (void)pdi_play_fault(play, PDI_FAULT_MOVE, node, knows, at);
        }
    }
    play->audit.lossless = 1;
}

/* Whoever still reads is not held up for long: his rate in the time of the stop is near to what it was. */
static void slow_end(struct pdi_play *play)
{
    uint64_t put = play->audit.authors[0].count;
    for (uint32_t i = 1; i < play->readers_count; i++) {
        if (!play->readers[i].declared)
            continue;
        const struct pdi_audience *audience = &play->audit.audiences[play->readers[i].audience];
        pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME, audience->taken > 0 || put == 0,
                        audience->node, "a reader beside a slow one has got nothing");
    }
}

void pdi_scenario_slow(struct pdi_play *play)
{
    int count = (int)between(play, 2, 6);
    readers_and_writers(play, count);
    play->readers[0].options.depth = (uint32_t)between(play, 1, 16);
    if (chance(play, 1, 4))
        play->readers[0].options.on_full =
            chance(play, 1, 2) ? PYDDSI_DROP_OLDEST : PYDDSI_DROP_NEWEST;
    pdi_time at = moment(play);
    (void)pdi_play_fault(play, PDI_FAULT_STOP_READER, 0, 0, at);
    if (chance(play, 1, 2))
        (void)pdi_play_fault(play, PDI_FAULT_START_READER, 0, 0, at + between(play, 10, 900) * MS);
    if (chance(play, 1, 4)) {
        pdi_time length = between(play, 10, UINT64_C(2) * play->config.lease_ms) * MS;
        pdi_play_fault(play, PDI_FAULT_PAUSE, count - 1, 0, moment(play))->duration = length;
    }
    play->on_end = slow_end;
}

static void beside_event(struct pdi_play *play, int node, const pyddsi_event *event)
{
    (void)node;
    play->theme[0] += event->kind == PYDDSI_DETACHED;
}

/* One that stays stopped has its writer wait for `slow`, and not until the world stands still. */
static void beside_end(struct pdi_play *play)
{
    slow_end(play);
    pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME, play->theme[0] != 0 || play->theme[1] == 0, 0,
                    "a stopped reader is waited for, although there are others");
}

void pdi_scenario_beside(struct pdi_play *play)
{
    int count = (int)between(play, 3, 6);
    readers_and_writers(play, count);
    play->config.unicast_samples = (uint32_t)UINT32_C(8) << between(play, 0, 2);
    for (uint32_t i = 0; i < play->writers_count; i++) {
        play->writers[i].options.way = PYDDSI_WAY_EACH;
        play->writers[i].interval = between(play, 1, 6) * MS;
    }
    play->readers[0].options.depth = (uint32_t)between(play, 1, 8);
    (void)pdi_play_fault(play, PDI_FAULT_STOP_READER, 0, 0, between(play, 100, 300) * MS);
    play->theme[1] = 1;
    if (chance(play, 1, 2)) {
        pdi_time at = between(play, 310, 1900) * MS;
        (void)pdi_play_fault(play, PDI_FAULT_START_READER, 0, 0, at);
        play->theme[1] = 0;
    }
    if (chance(play, 1, 4)) {
        pdi_time length = between(play, 10, UINT64_C(2) * play->config.lease_ms) * MS;
        int node = any_node(play, count);
        pdi_play_fault(play, PDI_FAULT_PAUSE, node, 0, moment(play))->duration = length;
        play->theme[1] = 0;
    }
    play->on_event = beside_event;
    play->on_end = beside_end;
}

void pdi_scenario_clocks(struct pdi_play *play)
{
    int count = (int)between(play, 2, 4);
    readers_and_writers(play, count);
    for (int node = 0; node < count; node++) {
        /* Some start near the end of 32 bits of milliseconds. */
        int64_t start = chance(play, 1, 2) ? (int64_t)(UINT64_C(4294967296) * MS) -
                                                 (int64_t)(between(play, 0, 3000) * MS)
                                           : (int64_t)(between(play, 0, 100000) * MS);
        (void)pdi_world_clock_step(&play->world, node, start);
    }
    uint64_t steps = between(play, 1, 4);
    for (uint64_t i = 0; i < steps; i++) {
        int64_t step = (int64_t)(between(play, 1, 2000) * MS);
        step = chance(play, 1, 2) ? step : -step;
        pdi_time at = moment(play);
        pdi_play_fault(play, PDI_FAULT_CLOCK, any_node(play, count), 0, at)->step = step;
    }
}

void pdi_scenario_mix(struct pdi_play *play)
{
    static const enum pdi_fault_kind kinds[] = {
        PDI_FAULT_CRASH,         PDI_FAULT_RESTART,        PDI_FAULT_CUT,
        PDI_FAULT_HEAL,          PDI_FAULT_PAUSE,          PDI_FAULT_CLOCK,
        PDI_FAULT_STOP_READER,   PDI_FAULT_START_READER,   PDI_FAULT_CLOSE,
        PDI_FAULT_FORGET_READER, PDI_FAULT_DECLARE_READER, PDI_FAULT_CLOSE_SESSION,
    };
    int count = (int)between(play, 2, 6);
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    pdi_scenario_nodes(play, count);
    link.loss_ppm = (uint32_t)between(play, 0, 100000);
    link.duplicate_ppm = (uint32_t)between(play, 0, 100000);
    link.reorder_ppm = (uint32_t)between(play, 0, 100000);
    pdi_scenario_links(play, &link);
    uint64_t writers = between(play, 1, 4);
    for (uint64_t id = 1; id <= writers; id++) {
        int from = any_node(play, count);
        struct pdi_play_writer *writer = pdi_scenario_writer(play, from, id);
        writer->interval = between(play, 3, 30) * MS;
        writer->options.way = any_way(play);
        writer->large_ppm = chance(play, 1, 3) ? 50000 : 0;
        writer->large_max = 5000;
        writer->many_max = chance(play, 1, 3) ? 6 : 1;
        writer->size_max = 60;
        for (int to = 0; to < count; to++) {
            if (to != from)
                pdi_scenario_reader(play, to, id)->delay_max = between(play, 0, 3) * MS;
        }
    }
    uint64_t faults = between(play, 1, 10);
    for (uint64_t i = 0; i < faults; i++) {
        enum pdi_fault_kind kind = kinds[between(play, 0, sizeof(kinds) / sizeof(kinds[0]) - 1)];
        int a = any_node(play, count);
        int b = other_node(play, count, a);
        if (kind == PDI_FAULT_STOP_READER || kind == PDI_FAULT_START_READER ||
            kind == PDI_FAULT_FORGET_READER || kind == PDI_FAULT_DECLARE_READER)
            a = (int)between(play, 0, play->readers_count - 1);
        struct pdi_fault *fault = pdi_play_fault(play, kind, a, b, moment(play));
        fault->both = chance(play, 1, 2);
        fault->duration = between(play, 10, 1500) * MS;
        fault->step = (int64_t)(between(play, 0, 1000) * MS) - (int64_t)(500 * MS);
    }
}
