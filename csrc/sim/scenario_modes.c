/* scenario_modes.c - scenarios about modes of subscriptions and about other kinds of nodes. */
#include "base/endpoint.h"
#include "sim/scenario_draw.h"

/* ---- pull: 002-13, 002-122 ---- */

/* An answer has no more samples than were asked for. */
static void pull_take(struct pdi_play *play, uint32_t index, const pyddsi_received *sample,
                      uint32_t author, uint32_t number)
{
    const struct pdi_listener *reader = &play->readers[index];
    (void)sample;
    (void)author;
    (void)number;
    if (reader->options.mode == PYDDSI_PULL_MODE && reader->pull_max != 0)
        pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME, reader->answer <= reader->pull_max,
                        reader->node, "subscriber %u asked for %u samples and got %u",
                        reader->handle, reader->pull_max, reader->answer);
}

static void pull_end(struct pdi_play *play)
{
    for (uint32_t i = 0; i < play->readers_count; i++) {
        const struct pdi_listener *reader = &play->readers[i];
        if (reader->declared && reader->pull_every != 0)
            pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME, reader->ends > 0, reader->node,
                            "subscriber %u has seen no end of an answer", reader->handle);
    }
}

void pdi_scenario_pull(struct pdi_play *play)
{
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    int count = (int)between(play, 2, 4);
    bool lossy = chance(play, 1, 2);
    link.loss_ppm = lossy ? (uint32_t)between(play, 0, 50000) : 0;
    play->config.lease_ms = 2000;
    pdi_scenario_nodes(play, count);
    pdi_scenario_links(play, &link);
    struct pdi_play_writer *writer = pdi_scenario_writer(play, 0, 1);
    writer->interval = between(play, 3, 20) * MS;
    writer->options.shelf_samples = (uint32_t)between(play, 1, 30);
    for (int to = 1; to < count; to++) {
        struct pdi_listener *reader = pdi_scenario_reader(play, to, 1);
        reader->options.mode = chance(play, 1, 4) ? PYDDSI_PUSH_PULL : PYDDSI_PULL_MODE;
        reader->pull_every = between(play, 100, 300) * MS;
        reader->pull_max = chance(play, 1, 3) ? 0 : (uint32_t)between(play, 1, 8);
    }
    if (!lossy) /* with losses an answer may come while the next one is asked for */
        play->on_take = pull_take;
    play->on_end = pull_end;
}

/* ---- periodic: 002-14, 002-15 ---- */

static void periodic_take(struct pdi_play *play, uint32_t index, const pyddsi_received *sample,
                          uint32_t author, uint32_t number)
{
    const struct pdi_listener *reader = &play->readers[index];
    uint64_t origin = reader->options.origin_ms * MS, period = reader->options.period_ms * MS;
    uint64_t late = play->theme[0], time = sample->time_ns;
    (void)author;
    (void)number;
    if (reader->options.mode != PYDDSI_PERIODIC_PUSH &&
        reader->options.mode != PYDDSI_PERIODIC_PULL)
        return;
    bool inside =
        time >= origin && (time - origin) % period <= reader->options.duration_ms * MS + late;
    pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME, inside, reader->node,
                    "subscriber %u got a sample at %.3f s, outside of its windows", reader->handle,
                    (double)time / (double)PDI_TIME_S);
    play->theme[1]++;
}

static void periodic_end(struct pdi_play *play)
{
    pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME, play->theme[1] > 0, -1,
                    "nothing came within the windows");
}

void pdi_scenario_periodic(struct pdi_play *play)
{
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    int count = (int)between(play, 2, 4);
    play->config.lease_ms = 2000;
    play->config.latency_us = 0;
    pdi_scenario_nodes(play, count);
    pdi_scenario_links(play, &link);
    /* The way itself, and a repetition or two that the first exchange on a conduit needs. */
    play->theme[0] = 6 * (link.delay_ns + link.jitter_ns) + 4 * MS * play->config.synch_ms + 5 * MS;
    struct pdi_play_writer *writer = pdi_scenario_writer(play, 0, 1);
    writer->interval = between(play, 3, 15) * MS;
    writer->options.shelf_samples = (uint32_t)between(play, 1, 30);
    for (int to = 1; to < count; to++) {
        struct pdi_listener *reader = pdi_scenario_reader(play, to, 1);
        reader->options.mode =
            to == 1 || chance(play, 2, 3) ? PYDDSI_PERIODIC_PUSH : PYDDSI_PERIODIC_PULL;
        reader->options.origin_ms = between(play, 0, 400);
        reader->options.period_ms = between(play, 200, 400);
        reader->options.duration_ms = between(play, 10, 60);
        if (reader->options.mode == PYDDSI_PERIODIC_PULL)
            reader->pull_every = between(play, 20, 60) * MS;
    }
    play->on_take = periodic_take;
    play->on_end = periodic_end;
}

/* ---- other kinds of nodes ---- */

void pdi_scenario_zhe(struct pdi_play *play)
{
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    int count = (int)between(play, 2, 5);
    if (chance(play, 1, 2))
        link.loss_ppm = (uint32_t)between(play, 0, 100000);
    play->config.lease_ms = 2000;
    for (int i = 0; i < count; i++) {
        pyddsi_config config = play->config;
        if (i == 0 || chance(play, 1, 2)) {
            config.features = 0;
            config.incarnation = 0;
        }
        (void)pdi_play_node(play, &config);
    }
    pdi_scenario_links(play, &link);
    uint64_t writers = between(play, 1, 3);
    for (uint64_t id = 1; id <= writers; id++) {
        int from = any_node(play, count);
        struct pdi_play_writer *writer = pdi_scenario_writer(play, from, id);
        writer->interval = between(play, 2, 20) * MS;
        writer->options.way = any_way(play);
        writer->many_max = chance(play, 1, 3) ? 5 : 1;
        if (writer->many_max > 1)
            writer->size_max = PDI_AUDIT_STUB;
        for (int to = 0; to < count; to++) {
            if (to != from)
                pdi_scenario_reader(play, to, id)->delay_max = between(play, 0, 3) * MS;
        }
    }
}

/* No multicast, and each node knows of one other: a star, a chain or something between. Everybody is to meet. */
void pdi_scenario_star(struct pdi_play *play)
{
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    int count = (int)between(play, 3, 8);
    uint64_t shape = between(play, 0, 2);
    if (chance(play, 1, 2))
        link.loss_ppm = (uint32_t)between(play, 0, 100000);
    for (int i = 0; i < count; i++) {
        pyddsi_config config = play->config;
        int knows = shape == 0 ? 0 : shape == 1 ? i - 1 : (int)between(play, 0, (uint64_t)i);
        config.scout_to = (pyddsi_endpoint){/* a group in which nobody else is */
                                            .kind = 4,
                                            .ip = {239, 255, 9, (uint8_t)(i + 1)},
                                            .port = 7447};
        config.multicasts = 0;
        config.asked_count = i != 0;
        if (i != 0) {
            knows = knows < i ? knows : i - 1;
            config.asked[0] = play->world.nodes[knows].endpoint;
        }
        (void)pdi_play_node(play, &config);
    }
    pdi_scenario_links(play, &link);
    uint64_t writers = between(play, 1, 3);
    for (uint64_t id = 1; id <= writers; id++) {
        int from = any_node(play, count);
        struct pdi_play_writer *writer = pdi_scenario_writer(play, from, id);
        writer->options.way = chance(play, 1, 2) ? PYDDSI_WAY_EACH : PYDDSI_WAY_AUTO;
        for (int to = 0; to < count; to++) {
            if (to != from)
                (void)pdi_scenario_reader(play, to, id);
        }
    }
    if (chance(play, 1, 3)) /* one that is known of comes back */
        (void)pdi_play_fault(play, PDI_FAULT_RESTART, 0, 1, between(play, 500, 1500) * MS);
}

/* The same by connections: datagrams reach nobody, or some. One node does not listen, or all do. */
void pdi_scenario_calls(struct pdi_play *play)
{
    pyddsi_sim_link link = pdi_scenario_good_link(play), filtered = link;
    int count = (int)between(play, 3, 7);
    int deaf = (int)between(play, 1, (uint64_t)count); /* of count nodes the last: none */
    play->config.lease_ms = 2000;
    filtered.mtu = 1;
    for (int i = 0; i < count; i++) {
        pyddsi_config config = play->config;
        int knows = (int)between(play, 0, (uint64_t)i);
        config.scout_to = (pyddsi_endpoint){/* a group in which nobody else is */
                                            .kind = 4,
                                            .ip = {239, 255, 9, (uint8_t)(i + 1)},
                                            .port = 7447};
        config.multicasts = 0;
        config.asked_count = 1;
        config.asked[0] = (pyddsi_endpoint){.kind = PDI_ENDPOINT_TCP4}; /* all connections */
        knows = knows < i && knows != deaf ? knows : 0;
        if (i != 0)
            config.asked[config.asked_count++] = pdi_world_listener(&play->world, knows);
        (void)pdi_play_node(play, &config);
        pdi_world_places(&play->world, i, i != deaf);
    }
    pdi_scenario_links(play, &filtered);
    for (int a = 0; a < count; a++) {
        for (int b = 0; b < a; b++) {
            if (chance(play, 1, 4)) {
                (void)pdi_world_link_set(&play->world, a, b, &link);
                (void)pdi_world_link_set(&play->world, b, a, &link);
            }
        }
    }
    uint64_t writers = between(play, 1, 3);
    for (uint64_t id = 1; id <= writers; id++) {
        int from = any_node(play, count);
        pdi_scenario_writer(play, from, id)->options.way = PYDDSI_WAY_EACH;
        for (int to = 0; to < count; to++) {
            if (to != from)
                (void)pdi_scenario_reader(play, to, id);
        }
    }
}

void pdi_scenario_star_run(struct pdi_play *play)
{
    pdi_play_run(play);
    for (int one = 0; one < play->world.count; one++) {
        for (int two = 0; two < one; two++) {
            (void)pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME,
                                  pdi_world_joined(&play->world, one, two), one,
                                  "it has not met node %d, of whom another could tell", two);
        }
    }
}

void pdi_scenario_lengths(struct pdi_play *play)
{
    static const uint8_t lengths[] = {7, 8, 11, 14, 28, 56};
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    int count = (int)between(play, 2, 5);
    uint8_t other = lengths[between(play, 0, 5)];
    if (chance(play, 1, 2))
        link.loss_ppm = (uint32_t)between(play, 0, 50000);
    play->config.lease_ms = 2000;
    play->config.seq_bits = lengths[between(play, 0, 5)];
    for (int i = 0; i < count; i++) {
        pyddsi_config config = play->config;
        if (i == 0 || (i > 1 && chance(play, 1, 3))) {
            config.features = 0;
            config.incarnation = 0;
            config.seq_bits = other;
        }
        int node = pdi_play_node(play, &config);
        if (i == 0 && chance(play, 1, 2)) { /* it comes while data flows */
            pdi_play_absent(play, node);
            (void)pdi_play_fault(play, PDI_FAULT_RESTART, node, 1, moment(play));
        }
    }
    pdi_scenario_links(play, &link);
    uint64_t writers = between(play, 1, 3);
    for (uint64_t id = 1; id <= writers; id++) {
        int from = id == 1 ? 1 : any_node(play, count);
        struct pdi_play_writer *writer = pdi_scenario_writer(play, from, id);
        writer->size_max = PDI_AUDIT_STUB;
        writer->interval = between(play, 1, 10) * MS;
        writer->options.way = any_way(play);
        for (int to = 0; to < count; to++) {
            if (to != from)
                pdi_scenario_reader(play, to, id)->delay_max = between(play, 0, 3) * MS;
        }
    }
}

void pdi_scenario_client(struct pdi_play *play)
{
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    int count = (int)between(play, 2, 6);
    if (chance(play, 1, 2))
        link.loss_ppm = (uint32_t)between(play, 0, 100000);
    play->config.lease_ms = 2000;
    for (int i = 0; i < count; i++) {
        pyddsi_config config = play->config;
        config.role = i == 0 ? PYDDSI_BROKER : chance(play, 4, 5) ? PYDDSI_CLIENT : PYDDSI_PEER;
        (void)pdi_play_node(play, &config);
    }
    pdi_scenario_links(play, &link);
    uint64_t writers = between(play, 1, 3);
    for (uint64_t id = 1; id <= writers; id++) {
        int from = id == 1 ? 0 : any_node(play, count);
        struct pdi_play_writer *writer = pdi_scenario_writer(play, from, id);
        writer->options.way = chance(play, 1, 2) ? PYDDSI_WAY_EACH : PYDDSI_WAY_MULTICAST;
        for (int to = 0; to < count; to++) {
            if (to != from)
                (void)pdi_scenario_reader(play, to, id);
        }
    }
    if (chance(play, 1, 3)) /* the broker comes back */
        (void)pdi_play_fault(play, PDI_FAULT_RESTART, 0, 1, between(play, 500, 1500) * MS);
}
