/* scenario_lanes.c - scenarios about nodes of one machine, which hand samples over in shared memory (shared.h). */
#include "sim/scenario_draw.h"

/* So many nodes of one machine, and others elsewhere. */
static void machine(struct pdi_play *play, int here, int elsewhere)
{
    play->world.sharing = (struct pdi_sharing){
        .machine = 1,
        .bytes_first = UINT32_C(1) << between(play, 9, 12),
        .bytes_max = UINT32_C(1) << between(play, 12, 15),
        .samples_max = UINT32_C(1) << between(play, 4, 7),
        .wake_max = between(play, 1, chance(play, 1, 4) ? 5000 : 200) * PDI_TIME_US};
    pdi_scenario_nodes(play, here);
    play->world.sharing.machine = 0;
    pdi_scenario_nodes(play, elsewhere);
}

static struct pdi_play_writer *lane_writer(struct pdi_play *play, int node, uint64_t id)
{
    struct pdi_play_writer *writer = pdi_scenario_writer(play, node, id);
    writer->interval =
        chance(play, 1, 2) ? between(play, 50, 500) * PDI_TIME_US : between(play, 1, 10) * MS;
    writer->size_max = (uint32_t)between(play, PDI_AUDIT_STUB, chance(play, 1, 3) ? 400 : 60);
    writer->options.way = any_way(play);
    writer->topic.reliable = 1;
    return writer;
}

static struct pdi_listener *lane_reader(struct pdi_play *play, int node, uint64_t id)
{
    struct pdi_listener *reader = pdi_scenario_reader(play, node, id);
    reader->options.depth = (uint32_t)between(play, 1, 64);
    reader->delay_max = chance(play, 1, 2) ? between(play, 0, 5) * MS : 0;
    reader->hold_max = chance(play, 1, 4) ? (uint32_t)between(play, 1, 8) : 0;
    reader->takes_one = chance(play, 1, 4);
    return reader;
}

/* A reader that is declared when data flow. */
static void declared_at(struct pdi_play *play, struct pdi_listener *reader, pdi_time at)
{
    int which = (int)(reader - play->readers);
    reader->later = 1;
    (void)pdi_play_fault(play, PDI_FAULT_DECLARE_READER, which, 0, at);
}

/* A publisher's group is left for the lane while another, elsewhere, begins to subscribe and hears the group late. */
void pdi_scenario_crossing(struct pdi_play *play)
{
    int here = (int)between(play, 2, 3), elsewhere = (int)between(play, 1, 2);
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    link.loss_ppm = chance(play, 1, 2) ? (uint32_t)between(play, 0, 100000) : 0;
    link.reorder_ppm = chance(play, 1, 4) ? (uint32_t)between(play, 0, 100000) : 0;
    play->config.lease_ms = 2000;
    machine(play, here, elsewhere);
    pdi_scenario_links(play, &link);
    struct pdi_play_writer *writer = lane_writer(play, 0, 1);
    writer->interval = between(play, 50, 2000) * PDI_TIME_US;
    if (chance(play, 1, 2))
        writer->options.way = PYDDSI_WAY_MULTICAST;
    pdi_time at = between(play, 300, 900) * MS;
    for (int node = 1; node < here; node++) {
        pdi_time when = at + between(play, 0, 20) * MS;
        declared_at(play, lane_reader(play, node, 1), when);
    }
    for (int node = here; node < here + elsewhere; node++) {
        pdi_time when = at - between(play, 0, 40) * MS;
        declared_at(play, lane_reader(play, node, 1), when);
        struct pdi_fault *fault =
            pdi_play_fault(play, PDI_FAULT_CUT, 0, node, at - between(play, 0, 20) * MS);
        fault->both = chance(play, 3, 4);
        fault = pdi_play_fault(play, PDI_FAULT_HEAL, 0, node, at + between(play, 5, 400) * MS);
        fault->both = 1;
    }
}

/* Readers come and go here and elsewhere, processes are stopped, and sometimes killed. */
void pdi_scenario_lanes(struct pdi_play *play)
{
    int here = (int)between(play, 2, 4), elsewhere = (int)between(play, 0, 2);
    int count = here + elsewhere;
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    link.loss_ppm = chance(play, 1, 2) ? (uint32_t)between(play, 0, 100000) : 0;
    link.duplicate_ppm = chance(play, 1, 4) ? (uint32_t)between(play, 0, 100000) : 0;
    link.reorder_ppm = chance(play, 1, 4) ? (uint32_t)between(play, 0, 100000) : 0;
    machine(play, here, elsewhere);
    pdi_scenario_links(play, &link);
    uint64_t writers = between(play, 1, 2);
    for (uint64_t id = 1; id <= writers; id++) {
        int from = any_node(play, here);
        (void)lane_writer(play, from, id);
        for (int node = 0; node < count; node++) {
            if (node == from || chance(play, 1, 4))
                continue;
            struct pdi_listener *reader = lane_reader(play, node, id);
            int which = (int)(reader - play->readers);
            if (chance(play, 1, 2))
                declared_at(play, reader, moment(play));
            if (chance(play, 1, 3)) {
                pdi_time at = moment(play);
                (void)pdi_play_fault(play, PDI_FAULT_FORGET_READER, which, 0, at);
                (void)pdi_play_fault(play, PDI_FAULT_DECLARE_READER, which, 0,
                                     at + between(play, 1, 300) * MS);
            }
            if (chance(play, 1, 4)) {
                pdi_time at = moment(play);
                (void)pdi_play_fault(play, PDI_FAULT_STOP_READER, which, 0, at);
                (void)pdi_play_fault(play, PDI_FAULT_START_READER, which, 0,
                                     at + between(play, 1, 800) * MS);
            }
        }
    }
    uint64_t stops = between(play, 0, 3);
    for (uint64_t i = 0; i < stops; i++) {
        pdi_time at = moment(play);
        struct pdi_fault *fault =
            pdi_play_fault(play, PDI_FAULT_PAUSE, any_node(play, count), 0, at);
        fault->duration = between(play, 1, chance(play, 1, 3) ? 1500 : 300) * MS;
    }
    if (chance(play, 1, 3)) {
        int node = any_node(play, here);
        pdi_time at = moment(play);
        (void)pdi_play_fault(play, chance(play, 1, 3) ? PDI_FAULT_CLOSE : PDI_FAULT_CRASH, node, 0,
                             at);
        at += between(play, 10, 600) * MS;
        (void)pdi_play_fault(play, PDI_FAULT_RESTART, node, chance(play, 1, 2), at);
    }
    if (elsewhere != 0 && chance(play, 1, 3)) {
        pdi_time at = moment(play);
        int b = here + any_node(play, elsewhere), a = any_node(play, here);
        struct pdi_fault *fault = pdi_play_fault(play, PDI_FAULT_CUT, a, b, at);
        fault->both = chance(play, 1, 2);
        fault = pdi_play_fault(play, PDI_FAULT_HEAL, a, b, at + between(play, 10, 600) * MS);
        fault->both = 1;
    }
}

/* Readers everywhere, declared at any time. */
static void readers_of(struct pdi_play *play, uint64_t id, int from, int count)
{
    for (int node = 0; node < count; node++) {
        if (node == from)
            continue;
        struct pdi_listener *reader = lane_reader(play, node, id);
        if (chance(play, 1, 2))
            declared_at(play, reader, moment(play));
    }
}

/* Somebody writes over a page. A reader whose words cannot be true goes on by the network; with those that might be, all that can be
 * asked is that nobody breaks. */
void pdi_scenario_scribbled(struct pdi_play *play)
{
    int here = (int)between(play, 2, 4), elsewhere = (int)between(play, 0, 1);
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    machine(play, here, elsewhere);
    pdi_scenario_links(play, &link);
    play->audit.lines_suffice = 1;
    play->audit.broken = chance(play, 1, 3);
    uint64_t writers = between(play, 1, 2);
    for (uint64_t id = 1; id <= writers; id++) {
        int from = any_node(play, here);
        (void)lane_writer(play, from, id);
        readers_of(play, id, from, here + elsewhere);
    }
    uint64_t times = between(play, 1, 3);
    for (uint64_t i = 0; i < times; i++) {
        pdi_time at = moment(play);
        int times_over = (int)between(play, 1, 40);
        struct pdi_fault *fault =
            pdi_play_fault(play, PDI_FAULT_SCRIBBLE, any_node(play, here), times_over, at);
        fault->both = play->audit.broken;
    }
}

/* Sizes that few of fit in a lane, and some that none fits. */
void pdi_scenario_growing(struct pdi_play *play)
{
    int here = (int)between(play, 2, 4), elsewhere = (int)between(play, 0, 2);
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    link.loss_ppm = chance(play, 1, 3) ? (uint32_t)between(play, 0, 50000) : 0;
    machine(play, here, elsewhere);
    pdi_scenario_links(play, &link);
    uint64_t writers = between(play, 1, 2);
    for (uint64_t id = 1; id <= writers; id++) {
        int from = any_node(play, here);
        struct pdi_play_writer *writer = lane_writer(play, from, id);
        writer->interval = between(play, 1, 10) * MS;
        writer->size_max = UINT32_C(1) << between(play, 7, 12);
        writer->may_fail = 1; /* some windows are smaller than that */
        readers_of(play, id, from, here + elsewhere);
    }
}

/* What a reader lacks that was stopped it is told when it is back; it may be stopped again before it hears that. */
void pdi_scenario_stopped(struct pdi_play *play)
{
    int here = (int)between(play, 3, 4), elsewhere = (int)between(play, 0, 1);
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    link.loss_ppm = chance(play, 1, 2) ? (uint32_t)between(play, 0, 200000) : 0;
    machine(play, here, elsewhere);
    pdi_scenario_links(play, &link);
    struct pdi_play_writer *writer = lane_writer(play, 0, 1);
    writer->interval = between(play, 100, 2000) * PDI_TIME_US;
    for (int node = 1; node < here + elsewhere; node++) {
        struct pdi_listener *reader = lane_reader(play, node, 1);
        if (chance(play, 1, 4))
            declared_at(play, reader, moment(play));
    }
    pdi_time at = between(play, 200, 600) * MS;
    uint64_t stops = between(play, 1, 3);
    for (uint64_t i = 0; i < stops && at < play->half; i++) {
        struct pdi_fault *fault = pdi_play_fault(play, PDI_FAULT_PAUSE, 1, 0, at);
        fault->duration =
            MS * between(play, play->config.slow_ms, UINT64_C(2) * play->config.slow_ms);
        if (i + 1 == stops)
            fault->duration = between(play, play->config.lease_ms / 2, 1500) * MS;
        at += fault->duration + between(play, 0, chance(play, 1, 2) ? 2000 : 50000) * PDI_TIME_US;
    }
}
