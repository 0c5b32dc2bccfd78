/* scenario_history.c - what publishers have kept, for subscribers of many kinds that come late. */
#include <stdio.h>
#include <string.h>

#include "sim/scenario_draw.h"

#define WRITERS_MAX 3

/* A subscriber of a name, of a pattern, or of a selection that asks for a colour. */
static struct pdi_listener *any_listener(struct pdi_play *play, int node, uint64_t writers,
                                         bool selects)
{
    static const char *const patterns[] = {"/r/*", "/r/?", "/**"};
    struct pdi_listener *reader;
    uint64_t which = between(play, 0, 2);
    if (chance(play, 1, 2)) {
        reader = pdi_scenario_reader(play, node, between(play, 1, writers));
    } else if (!selects || chance(play, 1, 2)) {
        reader = pdi_play_reader(play, node, 40 + which);
        pdi_scenario_name(play, node, 40 + which, &reader->topic, patterns[which]);
    } else {
        char query[96];
        uint8_t limit = (uint8_t)(80 * (which + 1));
        reader = pdi_play_reader(play, node, 70 + which);
        reader->options.is_selection = reader->topic.is_selection = 1;
        reader->topic.colour_limit = limit;
        reader->topic.name_size = (uint8_t)strlen(patterns[0]);
        memcpy(reader->topic.name, patterns[0], reader->topic.name_size);
        (void)snprintf(query, sizeof(query), "%s?{$byte0 < %u}", patterns[0], limit);
        bool known = false;
        for (uint32_t i = 0; i < play->things_count; i++) {
            const struct pdi_play_thing *thing = &play->things[i];
            known = known || (thing->kind == PYDDSI_SELECTION && thing->node == node &&
                              thing->id == 70 + which);
        }
        if (!known)
            (void)pdi_play_thing(play, node, PYDDSI_SELECTION, 70 + which, query);
    }
    return reader;
}

static void any_writer(struct pdi_play *play, int node, uint64_t id, bool keeps)
{
    struct pdi_play_writer *writer = pdi_scenario_writer(play, node, id);
    writer->interval = between(play, 1, 12) * MS;
    writer->options.way = any_way(play);
    if (keeps || chance(play, 2, 3)) {
        writer->options.durability = PYDDSI_TRANSIENT;
        writer->options.shelf_samples = (uint32_t)between(play, 1, 20);
    }
    if (chance(play, 1, 6)) {
        writer->options.reliability = PYDDSI_BEST_EFFORT;
        writer->topic.reliable = 0;
    }
    if (chance(play, 1, 3)) /* what comes late gets nothing but what is kept */
        writer->most = (uint32_t)between(play, 1, 40);
    if (writer->options.durability == PYDDSI_TRANSIENT && chance(play, 1, 4))
        writer->size_max = 2000;
    if (chance(play, 1, 4))
        writer->many_max = 5;
    if (chance(play, 1, 4)) {
        writer->later = 1;
        (void)pdi_play_fault(play, PDI_FAULT_DECLARE_WRITER, (int)play->writers_count - 1, 0,
                             moment(play));
    }
}

void pdi_scenario_history(struct pdi_play *play)
{
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    int count = (int)between(play, 2, 4);
    if (chance(play, 1, 2)) {
        link.loss_ppm = (uint32_t)between(play, 0, 100000);
        link.duplicate_ppm = (uint32_t)between(play, 0, 50000);
        link.reorder_ppm = (uint32_t)between(play, 0, 100000);
    }
    play->config.lease_ms = 2000;
    play->config.unicast_bytes = 16384;
    play->config.shelf_bytes = 262144;
    pdi_scenario_nodes(play, count);
    pdi_scenario_links(play, &link);
    uint64_t writers = between(play, 1, WRITERS_MAX);
    /* a publisher that keeps nothing sends what selections ask for, until it hears of others */
    bool selects = chance(play, 1, 2);
    for (uint64_t id = 1; id <= writers; id++) {
        any_writer(play, any_node(play, count), id, selects);
        if (chance(play, 1, 4)) /* and a second one of the same */
            any_writer(play, any_node(play, count), id, selects);
    }
    for (int node = 0; node < count; node++) {
        uint64_t readers = between(play, 0, 6);
        for (uint64_t i = 0; i < readers; i++) {
            struct pdi_listener *reader = any_listener(play, node, writers, selects);
            int index = (int)play->readers_count - 1;
            reader->delay_max = between(play, 0, 6) * MS;
            if (chance(play, 1, 3))
                reader->options.depth = (uint32_t)between(play, 1, 8);
            if (chance(play, 3, 4)) {
                reader->later = 1;
                (void)pdi_play_fault(play, PDI_FAULT_DECLARE_READER, index, 0, moment(play));
            }
            if (chance(play, 1, 4)) {
                pdi_time at = moment(play);
                pdi_time back = at + (chance(play, 1, 2) ? 0 : between(play, 0, 300) * MS);
                (void)pdi_play_fault(play, PDI_FAULT_FORGET_READER, index, 0, at);
                (void)pdi_play_fault(play, PDI_FAULT_DECLARE_READER, index, 0, back);
            }
        }
    }
    if (chance(play, 1, 3)) {
        int node = any_node(play, count);
        pdi_time at = moment(play);
        (void)pdi_play_fault(play, PDI_FAULT_CRASH, node, 0, at);
        (void)pdi_play_fault(play, PDI_FAULT_RESTART, node, chance(play, 1, 2),
                             at + between(play, 0, 600) * MS);
    }
}
