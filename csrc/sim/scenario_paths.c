/* scenario_paths.c - scenarios about paths: how large a packet they carry, and which of two is the faster. */
#include "sim/scenario_draw.h"

/* The path carries more now, or less. */
static void path_timer(struct pdi_play *play, uint32_t timer)
{
    for (int from = 0; from < play->world.count; from++) {
        for (int to = 0; to < play->world.count; to++) {
            pyddsi_sim_link link;
            (void)pdi_world_link_get(&play->world, from, to, &link);
            link.mtu = chance(play, 1, 2) ? 0 : (uint32_t)between(play, PYDDSI_PACKET_USUAL, 9000);
            (void)pdi_world_link_set(&play->world, from, to, &link);
        }
    }
    if (timer == 0 && play->world.now < play->half) {
        pdi_world_timer(&play->world, PDI_PLAY_TIMER_THEME,
                        play->world.now + between(play, 50, 600) * MS);
    }
}

/* What a node is told that the path carries is never true for long; at the end it may swallow what is large for ever. */
void pdi_scenario_paths(struct pdi_play *play)
{
    static const uint32_t carried[] = {2000, 4000, 8972, 65507};
    int count = (int)between(play, 2, 4);
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    link.delay_ns = link.delay_ns > 2 * MS ? 2 * MS : link.delay_ns;
    link.mtu_known = carried[between(play, 0, 3)];
    link.loss_ppm = chance(play, 1, 2) ? (uint32_t)between(play, 0, 50000) : 0;
    link.reorder_ppm = chance(play, 1, 3) ? (uint32_t)between(play, 10000, 200000) : 0;
    play->config.lease_ms = 2000;
    play->config.packet_max = PYDDSI_PACKET_USUAL;
    play->config.seq_bits = play->config.seq_bits < 10 ? 10 : play->config.seq_bits;
    play->config.unicast_bytes = 32768;
    play->config.unicast_samples = 128;
    pdi_scenario_nodes(play, count);
    pdi_scenario_links(play, &link);
    for (uint64_t id = 1; id <= 2; id++) {
        struct pdi_play_writer *writer = pdi_scenario_writer(play, 0, id);
        writer->size_min = chance(play, 1, 3) ? PDI_AUDIT_STUB : 2000;
        writer->size_max = (uint32_t)between(play, 3000, 12000);
        writer->interval = between(play, 2, 20) * MS;
        writer->options.way = PYDDSI_WAY_EACH;
        if (id == 2) {
            writer->size_max = 100;
            writer->size_min = PDI_AUDIT_STUB;
        }
        for (int to = 1; to < count; to++) {
            struct pdi_listener *reader = pdi_scenario_reader(play, to, id);
            reader->options.depth = (uint32_t)between(play, 1, 64);
            reader->delay_max = chance(play, 1, 2) ? between(play, 0, 5) * MS : 0;
        }
    }
    play->on_timer = path_timer;
    pdi_world_timer(&play->world, PDI_PLAY_TIMER_THEME, between(play, 50, 600) * MS);
}

/* What goes to a node's groups comes much later than what goes to it alone, as if it had no time for that socket. */
static void lagging_timer(struct pdi_play *play, uint32_t timer)
{
    for (int from = 0; from < play->world.count; from++) {
        for (int to = 0; to < play->world.count; to++) {
            pyddsi_sim_link link;
            (void)pdi_world_link_get(&play->world, from, to, &link);
            link.group_delay_ns = chance(play, 1, 2) ? 0 : between(play, 20, 800) * MS;
            if (play->theme[0] != 0 && !play->calm)
                link.alone_delay_ns = chance(play, 1, 2) ? 0 : between(play, 20, 800) * MS;
            (void)pdi_world_link_set(&play->world, from, to, &link);
        }
    }
    if (timer == 0 && play->world.now < play->half) {
        pdi_world_timer(&play->world, PDI_PLAY_TIMER_THEME,
                        play->world.now + between(play, 100, 900) * MS);
    }
}

static void lagging_event(struct pdi_play *play, int node, const pyddsi_event *event)
{
    bool ended = event->kind == PYDDSI_DISCONNECTED && !play->calm;
    pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME, !ended, node,
                    "a session ends since a group is late");
}

/* Batches with long pauses between them: what is late then is behind all that has come. */
void pdi_scenario_lagging(struct pdi_play *play)
{
    int count = (int)between(play, 2, 5);
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    link.delay_ns = link.delay_ns > MS ? MS : link.delay_ns;
    link.loss_ppm = (uint32_t)between(play, 0, 100000);
    play->config.lease_ms = 4000;
    play->config.slow_ms = chance(play, 1, 2) ? 2000 : play->config.slow_ms;
    pdi_scenario_nodes(play, count);
    pdi_scenario_links(play, &link);
    uint64_t writers = between(play, 1, 2);
    for (uint64_t id = 1; id <= writers; id++) {
        struct pdi_play_writer *writer = pdi_scenario_writer(play, 0, id);
        writer->interval = between(play, 5, 300) * MS;
        writer->many_max = (uint32_t)between(play, 1, 8);
        writer->size_max = PDI_AUDIT_STUB + 20;
        for (int to = 1; to < count; to++) {
            pdi_scenario_reader(play, to, id)->options.depth = 64;
        }
    }
    play->on_timer = lagging_timer;
    play->on_event = lagging_event;
    pdi_world_timer(&play->world, PDI_PLAY_TIMER_THEME, between(play, 50, 600) * MS);
}

/* The same, and until half time what goes to one node alone is late as well: either passes the other. Longer than that it could
 * not last: with room for 4 messages that are early, each round trip brings 4 of those that are lacking, and a full window may
 * have 256. An opening may not be given up while its answer is on the way. */
void pdi_scenario_delayed(struct pdi_play *play)
{
    play->theme[0] = 1;
    play->config.open_ms = 500;
    pdi_scenario_lagging(play);
}
