/* scenario_links.c - scenarios about links that fail, and about the forms in which samples travel. */
#include "sim/scenario_draw.h"

/* Samples of many sizes at any pace, by any way. */
static struct pdi_play_writer *any_writer(struct pdi_play *play, int node, uint64_t id)
{
    struct pdi_play_writer *writer = pdi_scenario_writer(play, node, id);
    writer->interval = between(play, 1, 20) * MS;
    writer->size_max = (uint32_t)between(play, PDI_AUDIT_STUB, chance(play, 1, 3) ? 400 : 60);
    writer->many_max = chance(play, 1, 3) ? (uint32_t)between(play, 1, 8) : 1;
    writer->loan_ppm = chance(play, 1, 3) ? 300000 : 0;
    if (writer->many_max > 1) {
        writer->size_max = PDI_AUDIT_STUB + 20; /* a batch fits every window */
    }
    if (chance(play, 1, 3)) {
        writer->options.way = PYDDSI_WAY_EACH;
    } else {
        writer->options.conduit = (uint8_t)between(play, 0, play->config.multicasts - 1);
    }
    return writer;
}

static struct pdi_listener *any_reader(struct pdi_play *play, int node, uint64_t id)
{
    struct pdi_listener *reader = pdi_scenario_reader(play, node, id);
    /* What comes in one message comes at once, so a ring must hold a batch. */
    reader->options.depth = (uint32_t)between(play, 1, 64);
    for (uint32_t i = 0; i < play->writers_count; i++) {
        if (play->writers[i].many_max > 1 && reader->options.depth < PDI_PLAY_MANY_MAX)
            reader->options.depth = PDI_PLAY_MANY_MAX;
    }
    reader->delay_max = chance(play, 1, 2) ? between(play, 0, 5) * MS : 0;
    reader->hold_max = chance(play, 1, 4) ? (uint32_t)between(play, 1, 8) : 0;
    reader->takes_one = chance(play, 1, 4);
    return reader;
}

/* Two nodes, or three, that write to each other. */
static void some_nodes(struct pdi_play *play, int count, pyddsi_sim_link link)
{
    pdi_scenario_nodes(play, count);
    pdi_scenario_links(play, &link);
    uint64_t writers = between(play, 1, 3);
    for (uint64_t id = 1; id <= writers; id++) {
        int from = any_node(play, count);
        (void)any_writer(play, from, id);
        for (int to = 0; to < count; to++) {
            if (to != from) {
                (void)any_reader(play, to, id);
                if (chance(play, 1, 4))
                    (void)any_reader(play, to, id);
            }
        }
    }
}

void pdi_scenario_pair(struct pdi_play *play)
{
    some_nodes(play, 2, pdi_scenario_good_link(play));
    play->audit.lossless = 1;
}

void pdi_scenario_loss(struct pdi_play *play)
{
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    link.loss_ppm = (uint32_t)between(play, 10000, 200000);
    play->config.lease_ms = 2000;
    some_nodes(play, (int)between(play, 2, 3), link);
    if (chance(play, 1, 4)) {
        link.loss_ppm = 0; /* one way only */
        (void)pdi_world_link_set(&play->world, 0, 1, &link);
    }
}

void pdi_scenario_reorder(struct pdi_play *play)
{
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    link.reorder_ppm = (uint32_t)between(play, 10000, 300000);
    some_nodes(play, (int)between(play, 2, 3), link);
    play->audit.lossless = 1;
}

void pdi_scenario_duplicate(struct pdi_play *play)
{
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    link.duplicate_ppm = (uint32_t)between(play, 10000, 500000);
    link.reorder_ppm = chance(play, 1, 2) ? (uint32_t)between(play, 0, 50000) : 0;
    some_nodes(play, (int)between(play, 2, 3), link);
    play->audit.lossless = 1;
}

void pdi_scenario_fanout(struct pdi_play *play)
{
    int count = (int)between(play, 3, 11);
    pyddsi_sim_link link = pdi_scenario_good_link(play), bad = link;
    play->config.lease_ms = 2000;
    pdi_scenario_nodes(play, count);
    pdi_scenario_links(play, &link);
    bad.loss_ppm = (uint32_t)between(play, 10000, 100000);
    uint64_t writers = between(play, 1, 2);
    for (uint64_t id = 1; id <= writers; id++) {
        struct pdi_play_writer *writer = pdi_scenario_writer(play, 0, id);
        writer->interval = between(play, 5, 20) * MS;
        for (int to = 1; to < count; to++) {
            (void)any_reader(play, to, id);
        }
    }
    for (int to = 1; to < count; to++) {
        if (chance(play, 1, 3)) {
            (void)pdi_world_link_set(&play->world, 0, to, &bad);
            (void)pdi_world_link_set(&play->world, to, 0, &bad);
        }
    }
}

/* Whether the group of one node reaches the other. */
static bool reaches(const struct pdi_play *play, int from, int to)
{
    pyddsi_sim_link link;
    (void)pdi_world_link_get(&play->world, from, to, &link);
    return link.group_loss_ppm == 0;
}

static void on_event_filtered(struct pdi_play *play, int node, const pyddsi_event *event)
{
    if (event->kind == PYDDSI_UNREACHED) {
        int peer = event->endpoint.ip[3] - 1;
        play->theme[0]++;
        pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME, !reaches(play, node, peer), node,
                        "its group reaches node %d, and it says that it does not", peer);
    }
}

/* One who hears none of what goes to a group asks no more often than others, and gets it. */
static void on_end_filtered(struct pdi_play *play)
{
    const struct pdi_author *author = &play->audit.authors[play->writers[0].author];
    uint64_t taken = 0;
    for (int node = 0; node < play->world.count; node++) {
        pyddsi_stats stats;
        pdi_node_stats(play->world.nodes[node].node, &stats);
        uint64_t most = 600 * (uint64_t)play->world.count + stats.delivered;
        pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME, stats.nacks_out <= most, node,
                        "it has asked %llu times for %llu samples",
                        (unsigned long long)stats.nacks_out, (unsigned long long)stats.delivered);
        taken += stats.taken;
    }
    pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME, author->count == 0 || taken != 0,
                    author->node, "nobody has got anything");
}

void pdi_scenario_filtered(struct pdi_play *play)
{
    int count = (int)between(play, 2, 6);
    pyddsi_sim_link link = pdi_scenario_good_link(play), filtered;
    link.delay_ns = link.delay_ns > 2 * MS ? 2 * MS : link.delay_ns;
    play->config.lease_ms = 2000;
    play->filtered = 1;
    play->on_event = on_event_filtered;
    play->on_end = on_end_filtered;
    some_nodes(play, count, link);
    filtered = link;
    filtered.group_loss_ppm = 1000000;
    for (int from = 0; from < count; from++) {
        for (int to = from + 1; to < count; to++) { /* one direction at most: they have to meet */
            bool back = chance(play, 1, 2);
            if (chance(play, 1, 2))
                (void)pdi_world_link_set(&play->world, back ? to : from, back ? from : to,
                                         &filtered);
        }
    }
}

void pdi_scenario_fragments(struct pdi_play *play)
{
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    link.delay_ns = link.delay_ns > 2 * MS ? 2 * MS : link.delay_ns;
    link.loss_ppm = chance(play, 2, 3) ? (uint32_t)between(play, 0, 100000) : 0;
    play->config.lease_ms = 2000;
    some_nodes(play, 2, link);
    uint64_t writers = between(play, 1, 3);
    for (uint64_t id = 11; id < 11 + writers; id++) {
        struct pdi_play_writer *writer = pdi_scenario_writer(play, 0, id);
        writer->large_ppm = 500000;
        writer->large_max = (uint32_t)between(play, 2000, chance(play, 1, 4) ? 60000 : 8000);
        if (play->config.seq_bits < 10 && writer->large_max > 8000)
            writer->large_max = 8000; /* a series is shorter than half the circle */
        writer->drop_ppm = chance(play, 1, 3) ? 200000 : 0;
        writer->interval = 40 * MS;
        writer->most = 20;
        writer->options.way = chance(play, 1, 2) ? PYDDSI_WAY_EACH : PYDDSI_WAY_MULTICAST;
        (void)any_reader(play, 1, id);
    }
}

/* Once nothing is lost on the way, best effort in pieces arrives as well. */
static void on_take_pieces(struct pdi_play *play, uint32_t reader, const pyddsi_received *sample,
                           uint32_t author, uint32_t number)
{
    (void)author;
    (void)number;
    if (!sample->reliable && sample->size > play->config.packet_max && play->world.now > play->half)
        play->theme[reader]++;
}

static void on_end_pieces(struct pdi_play *play)
{
    for (uint32_t i = 0; i < play->readers_count; i++) {
        const struct pdi_listener *reader = &play->readers[i];
        pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME,
                        reader->topic.reliable || play->theme[i] != 0, reader->node,
                        "subscriber %u has got nothing in pieces any more", reader->handle);
    }
}

/* Nobody has two reliable samples in pieces under way at once, so none may be lost for want of a place. */
void pdi_scenario_pieces(struct pdi_play *play)
{
    int count = (int)between(play, 3, 7);
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    link.delay_ns = link.delay_ns > 2 * MS ? 2 * MS : link.delay_ns;
    link.loss_ppm = (uint32_t)between(play, 10000, 150000);
    play->config.lease_ms = 2000;
    play->config.seq_bits = play->config.seq_bits < 10 ? 10 : play->config.seq_bits;
    play->config.unicast_bytes = 16384; /* the samples of best effort must fit */
    for (int i = 0; i < PYDDSI_MULTICASTS_MAX; i++) {
        play->config.multicast_bytes[i] = 16384;
    }
    play->config.assembly_max = (uint32_t)between(play, 2, 8);
    play->config.assembly_bytes = (uint32_t)between(play, 32768, 98304);
    play->on_take = on_take_pieces;
    play->on_end = on_end_pieces;
    pdi_scenario_nodes(play, count);
    pdi_scenario_links(play, &link);
    for (int from = 1; from < count; from++) {
        struct pdi_play_writer *best = pdi_scenario_writer(play, from, (uint64_t)from);
        best->options.reliability = PYDDSI_BEST_EFFORT;
        best->topic.reliable = 0;
        best->size_max = 2 * play->config.packet_max;
        best->interval = between(play, 2, 10) * MS;
        best->options.way = chance(play, 1, 2) ? PYDDSI_WAY_EACH : PYDDSI_WAY_MULTICAST;
        any_reader(play, 0, (uint64_t)from)->topic.reliable = 0;
        if (from != 1 && chance(play, 1, 2))
            continue;
        struct pdi_play_writer *large = pdi_scenario_writer(play, from, 20 + (uint64_t)from);
        large->large_ppm = 800000;
        large->large_max = (uint32_t)between(play, 4000, 12000);
        large->interval = between(play, 20, 60) * MS;
        large->options.way = chance(play, 1, 2) ? PYDDSI_WAY_EACH : PYDDSI_WAY_MULTICAST;
        (void)any_reader(play, 0, 20 + (uint64_t)from);
    }
}

void pdi_scenario_batch(struct pdi_play *play)
{
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    link.loss_ppm = chance(play, 1, 2) ? (uint32_t)between(play, 0, 50000) : 0;
    play->config.lease_ms = 2000;
    some_nodes(play, 2, link);
    for (uint32_t i = 0; i < play->writers_count; i++) {
        play->writers[i].many_max = (uint32_t)between(play, 2, PDI_PLAY_MANY_MAX);
        play->writers[i].size_max = PDI_AUDIT_STUB;
        play->writers[i].interval = 20 * MS;
    }
    for (uint32_t i = 0; i < play->readers_count; i++) {
        play->readers[i].options.depth = (uint32_t)between(play, PDI_PLAY_MANY_MAX, 64);
    }
}

void pdi_scenario_best(struct pdi_play *play)
{
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    link.loss_ppm = chance(play, 1, 2) ? (uint32_t)between(play, 0, 200000) : 0;
    link.reorder_ppm = chance(play, 1, 2) ? (uint32_t)between(play, 0, 200000) : 0;
    link.duplicate_ppm = chance(play, 1, 2) ? (uint32_t)between(play, 0, 200000) : 0;
    play->config.lease_ms = 2000;
    some_nodes(play, (int)between(play, 2, 4), link);
    for (uint32_t i = 0; i < play->writers_count; i++) {
        if (i == 0 || chance(play, 1, 2)) { /* reliable ones may share a conduit with the others */
            play->writers[i].options.reliability = PYDDSI_BEST_EFFORT;
            play->writers[i].topic.reliable = 0;
            play->writers[i].many_max = chance(play, 1, 2) ? 6 : 1; /* more than a ring: it loses */
        }
    }
}

void pdi_scenario_wrap(struct pdi_play *play)
{
    static const uint8_t lengths[] = {7, 7, 8, 10, 14, 28, 56};
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    link.delay_ns = between(play, 20, 300) * PDI_TIME_US;
    link.jitter_ns = 0;
    link.loss_ppm = chance(play, 2, 3) ? (uint32_t)between(play, 0, 30000) : 0;
    play->config.lease_ms = 2000;
    play->config.seq_bits = lengths[between(play, 0, 6)];
    for (int i = 0; i < PYDDSI_MULTICASTS_MAX; i++) {
        play->config.multicast_samples[i] = play->config.seq_bits > 10 ? 1024 : 32;
        play->config.multicast_bytes[i] = 65536;
    }
    play->config.unicast_samples = 32;
    play->config.latency_us = 200;
    pdi_scenario_nodes(play, 2);
    pdi_scenario_links(play, &link);
    struct pdi_play_writer *writer = pdi_scenario_writer(play, 0, 1);
    writer->size_max = PDI_AUDIT_STUB;
    writer->interval = 2 * MS;
    if (play->config.seq_bits == 14) { /* 16,384 numbers in three seconds; others wrap soon */
        writer->interval = 100 * PDI_TIME_US;
        play->half = 1700 * MS;
        play->stop = 2000 * MS;
        link.loss_ppm /= 4;
        pdi_scenario_links(play, &link);
    }
    if (chance(play, 1, 2))
        writer->options.way = PYDDSI_WAY_EACH;
    pdi_scenario_reader(play, 1, 1)->options.depth = 256;
}

/* Of `count` nodes the last one speaks as zhe, if any does: what is late for it comes to the others alone. */
void pdi_scenario_rounds(struct pdi_play *play)
{
    static const uint8_t lengths[] = {7, 7, 8, 10, 14};
    pyddsi_sim_link link = pdi_scenario_good_link(play), late;
    int count = (int)between(play, 2, 4);
    bool zhe = count > 2 && chance(play, 1, 2);
    play->config.lease_ms = 2000;
    play->config.seq_bits = lengths[between(play, 0, 4)];
    bool longest = play->config.seq_bits == 14;
    for (int i = 0; i < PYDDSI_MULTICASTS_MAX; i++) {
        play->config.multicast_samples[i] = longest ? 256 : 32;
        play->config.multicast_bytes[i] = 65536;
    }
    play->config.unicast_samples = longest ? 128 : 32;
    for (int i = 0; i < count; i++) {
        pyddsi_config config = play->config;
        if (zhe && i == count - 1)
            config.features = 0;
        (void)pdi_play_node(play, &config);
    }
    link.delay_ns = between(play, 20, 300) * PDI_TIME_US;
    link.jitter_ns = 0;
    pdi_scenario_links(play, &link);
    late = link;
    late.reorder_ppm = (uint32_t)between(play, 1000, 20000);
    late.duplicate_ppm = chance(play, 1, 2) ? (uint32_t)between(play, 1000, 20000) : 0;
    late.late_ns = between(play, 100, 1500) * MS;
    for (int from = 0; from < count; from++) {
        for (int to = 0; to < count - zhe; to++)
            (void)pdi_world_link_set(&play->world, from, to, from < count - zhe ? &late : &link);
    }
    uint64_t writers = between(play, 1, 2);
    for (uint64_t id = 1; id <= writers; id++) {
        struct pdi_play_writer *writer = pdi_scenario_writer(play, 0, id);
        writer->size_max = PDI_AUDIT_STUB;
        writer->interval = longest ? 60 * PDI_TIME_US : between(play, 300, 1500) * PDI_TIME_US;
        writer->options.way = chance(play, 1, 2) ? PYDDSI_WAY_EACH : PYDDSI_WAY_MULTICAST;
        if (id == 2 && chance(play, 1, 2)) {
            writer->options.reliability = PYDDSI_BEST_EFFORT;
            writer->topic.reliable = 0;
        }
        for (int to = 1; to < count; to++)
            pdi_scenario_reader(play, to, id)->options.depth = 256;
    }
    if (longest) { /* 16,384 numbers in a second */
        play->half = 1700 * MS;
        play->stop = 2000 * MS;
    }
}
