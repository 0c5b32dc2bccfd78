/* scenario_hostile.c - scenarios with somebody who does not keep to the protocol. */
#include <stdlib.h>

#include "sim/hostile.h"
#include "sim/scenario_draw.h"

static int hear(void *context, int from, int to, const uint8_t *data, size_t size)
{
    struct pdi_play *play = context;
    (void)from;
    (void)to;
    pdi_hostile_hear(play->extra, &play->world, data, size);
    return 0;
}

static void act(struct pdi_play *play, uint32_t timer)
{
    pdi_hostile_act(play->extra, &play->world);
    if (!play->calm)
        pdi_world_timer(&play->world, PDI_PLAY_TIMER_THEME + timer,
                        play->world.now + between(play, 0, 6) * MS);
}

static void leave(struct pdi_play *play)
{
    pdi_world_timer(&play->world, PDI_PLAY_TIMER_THEME, PDI_TIME_NEVER);
    pdi_hostile_leave(play->extra, &play->world);
}

static void build(struct pdi_play *play, enum pdi_hostile_kind kind)
{
    int count = (int)between(play, 2, 4);
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    if (kind == PDI_HOSTILE_FORGER)
        link.corrupt_ppm = (uint32_t)between(play, 0, 50000);
    play->config.ledger_max += 512; /* he may make up a resource for every line */
    for (int i = 0; i < count; i++) {
        pyddsi_config config = play->config;
        if (kind == PDI_HOSTILE_IMPOSTOR && chance(play, 1, 4)) {
            config.features = 0; /* as zhe, who has no secrets */
            config.incarnation = 0;
        }
        (void)pdi_play_node(play, &config);
    }
    pdi_scenario_links(play, &link);
    uint64_t writers = between(play, 1, 2);
    for (uint64_t id = 1; id <= writers; id++) {
        int from = any_node(play, count);
        struct pdi_play_writer *writer = pdi_scenario_writer(play, from, id);
        writer->may_fail = 1;
        writer->interval = between(play, 5, 20) * MS;
        writer->options.way = chance(play, 1, 2) ? PYDDSI_WAY_EACH : PYDDSI_WAY_MULTICAST;
        for (int to = 0; to < count; to++) {
            if (to != from)
                pdi_scenario_reader(play, to, id)->may_fail = 1;
        }
    }
    for (uint32_t i = 0; i < play->things_count; i++) {
        play->things[i].may_fail = 1; /* he answers to declarations as he likes */
    }
    play->audit.strangers = 1;
    play->audit.broken = kind == PDI_HOSTILE_FORGER;
    play->audit.events_may_be_lost = 1;
    struct pdi_hostile *hostile = malloc(sizeof(*hostile));
    play->extra = hostile;
    if (hostile == NULL)
        return;
    pdi_hostile_init(hostile, pdi_rand_fork(&play->rand, 900), kind, play->config.seq_bits);
    play->world.on_packet = hear;
    play->on_timer = act;
    play->on_calm = leave;
    pdi_world_timer(&play->world, PDI_PLAY_TIMER_THEME, 500 * MS);
}

void pdi_scenario_hostile(struct pdi_play *play)
{
    build(play, PDI_HOSTILE_STRANGER);
    play->audit.lossless = 1; /* between the honest ones */
}

/* Their sessions last, whoever else says their names; and what is acknowledged, they have had. */
void pdi_scenario_impostor(struct pdi_play *play)
{
    build(play, PDI_HOSTILE_IMPOSTOR);
    play->audit.lossless = 1;
}

void pdi_scenario_corrupt(struct pdi_play *play)
{
    build(play, PDI_HOSTILE_FORGER);
}
