/* scenario.c - the list of scenarios, and what they share. */
#include "sim/scenario.h"

#include <stdio.h>
#include <string.h>

static const struct pdi_scenario scenarios[] = {
    {"pair", "two nodes and good links: all arrives, and nothing is ever lost or repeated",
     pdi_scenario_pair, NULL},
    {"loss", "two or three nodes, and up to a fifth of all packets is lost", pdi_scenario_loss,
     NULL},
    {"reorder", "packets pass each other", pdi_scenario_reorder, NULL},
    {"duplicate", "packets come twice", pdi_scenario_duplicate, NULL},
    {"fanout", "one to many by multicast, some of them lossy", pdi_scenario_fanout, NULL},
    {"filtered", "groups do not reach some of their members, as where a switch filters them",
     pdi_scenario_filtered, NULL},
    {"late", "subscribers come one after the other while data flows", pdi_scenario_late, NULL},
    {"history", "new subscribers of every session get what is kept, once each, before what comes",
     pdi_scenario_history, NULL},
    {"leave", "subscribers say farewell, or do not", pdi_scenario_leave, NULL},
    {"partition", "links are cut, one way or both, for less or more than a lease",
     pdi_scenario_partition, NULL},
    {"crash", "nodes crash and come back with the same id", pdi_scenario_crash, NULL},
    {"slow", "a reader stops, and others share its window", pdi_scenario_slow, NULL},
    {"beside", "a reader stops, and others have windows of their own", pdi_scenario_beside, NULL},
    {"lanes", "nodes of one machine hand samples over in shared memory, while readers come and go",
     pdi_scenario_lanes, NULL},
    {"scribbled",
     "nonsense is written into shared memory: its reader leaves, and nothing else is lost",
     pdi_scenario_scribbled, NULL},
    {"growing",
     "samples too large for their lane, which is left for a larger one, or for the network",
     pdi_scenario_growing, NULL},
    {"stopped",
     "a process is stopped for as long as others wait, goes on for a moment, and is stopped again",
     pdi_scenario_stopped, NULL},
    {"crossing", "a publisher leaves its group for shared memory, and others elsewhere lag behind",
     pdi_scenario_crossing, NULL},
    {"moves", "nodes go to other addresses, and their sessions with them", pdi_scenario_moves,
     NULL},
    {"clocks", "clocks run apart, jump ahead and back", pdi_scenario_clocks, NULL},
    {"declare", "many nodes declare the same at once, and contradict each other",
     pdi_scenario_declare, NULL},
    {"forget", "publishers, subscribers and resources are forgotten and declared again",
     pdi_scenario_forget, NULL},
    {"names", "subscribers of patterns, which only names bring together", pdi_scenario_names, NULL},
    {"fragments", "large samples in pieces, interleaved with small ones, under loss",
     pdi_scenario_fragments, NULL},
    {"pieces", "best effort in pieces, some of them lost, and reliable large samples beside it",
     pdi_scenario_pieces, NULL},
    {"paths", "paths that carry more or less than a node was told, and swallow the rest",
     pdi_scenario_paths, NULL},
    {"lagging", "what goes to a group comes much later than what goes to one of its members",
     pdi_scenario_lagging, NULL},
    {"delayed", "what goes to a group, and what goes to one of its members, comes much later",
     pdi_scenario_delayed, NULL},
    {"batch", "many samples in one message", pdi_scenario_batch, NULL},
    {"best", "best effort: may be lost, but not repeated or turned round", pdi_scenario_best, NULL},
    {"pull", "subscribers ask for what is kept for them", pdi_scenario_pull, NULL},
    {"periodic", "samples flow only within windows of time", pdi_scenario_periodic, NULL},
    {"spaces", "the same ids in several resource spaces", pdi_scenario_spaces, NULL},
    {"unicast", "publishers for one subscriber alone", pdi_scenario_unicast, NULL},
    {"auto", "from unicast to multicast and back as subscribers come and go",
     pdi_scenario_automatic, NULL},
    {"guards", "a subscriber hears only what it has room to answer", pdi_scenario_guards, NULL},
    {"selections", "predicates and bindings: only what was asked for", pdi_scenario_selections,
     NULL},
    {"wrap", "sequence numbers of all lengths, the short ones over their wrap", pdi_scenario_wrap,
     NULL},
    {"rounds", "packets that are late by whole rounds of the sequence numbers", pdi_scenario_rounds,
     NULL},
    {"lengths", "nodes that speak as zhe does, with numbers of another length than ours",
     pdi_scenario_lengths, NULL},
    {"zhe", "nodes that speak as zhe does among others", pdi_scenario_zhe, NULL},
    {"client", "clients and their broker", pdi_scenario_client, NULL},
    {"star", "without multicast, each knows of one other, and all meet", pdi_scenario_star,
     pdi_scenario_star_run},
    {"calls", "each node has a connection to one other; they tell where they listen, and all meet",
     pdi_scenario_calls, pdi_scenario_star_run},
    {"hostile", "a stranger sends whatever he likes", pdi_scenario_hostile, NULL},
    {"impostor", "a stranger says that he is one of the nodes, as they said it",
     pdi_scenario_impostor, NULL},
    {"corrupt", "bits are turned over and addresses are forged: nobody may break",
     pdi_scenario_corrupt, NULL},
    {"mix", "something of everything", pdi_scenario_mix, NULL},
    {"script", "random bytes decide what happens", pdi_scenario_script, pdi_scenario_script_run},
};

#define COUNT ((int)(sizeof(scenarios) / sizeof(scenarios[0])))

const struct pdi_scenario *pdi_scenario(int index)
{
    return index >= 0 && index < COUNT ? &scenarios[index] : NULL;
}

int pdi_scenario_find(const char *name)
{
    for (int i = 0; i < COUNT; i++) {
        if (strcmp(scenarios[i].name, name) == 0)
            return i;
    }
    return -1;
}

static int run(struct pdi_play *play, int index, uint64_t seed, bool log, int poison)
{
    const struct pdi_scenario *scenario = pdi_scenario(index);
    if (scenario == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int status = pdi_play_init(play, seed);
    if (status != PYDDSI_OK)
        return status;
    if (poison >= 0)
        play->world.poison = (uint8_t)poison;
    pdi_world_log(&play->world, log, 0);
    pdi_scenario_config(play, &play->config);
    scenario->build(play);
    if (scenario->run != NULL) {
        scenario->run(play);
    } else {
        pdi_play_run(play);
    }
    return PYDDSI_OK;
}

int pdi_scenario_run(struct pdi_play *play, int index, uint64_t seed, bool log)
{
    return run(play, index, seed, log, -1);
}

int pdi_scenario_run_poisoned(struct pdi_play *play, int index, uint64_t seed, uint8_t poison)
{
    return run(play, index, seed, false, poison);
}

/* ---- what they share ---- */

#define BETWEEN(least, most) ((uint32_t)pdi_play_between(rand, least, most))

static uint32_t one_of(struct pdi_rand *rand, const uint32_t *choices, uint32_t count)
{
    return choices[pdi_rand_below(rand, count)];
}

void pdi_scenario_config(struct pdi_play *play, pyddsi_config *config)
{
    static const uint32_t lengths[] = {7, 10, 14, 14, 28, 56};
    static const uint32_t latencies[] = {0, 50, 200, 1000};
    static const uint32_t orders[] = {4, 8, 32, 32};
    struct pdi_rand *rand = &play->rand;
    pdi_config_init(config);
    config->id_size = 0;
    config->incarnation = 1;
    config->seq_bits = (uint8_t)one_of(rand, lengths, 6);
    config->lease_ms = BETWEEN(400, 1000);
    config->scout_ms = BETWEEN(30, 150);
    config->open_ms = BETWEEN(20, 60);
    config->opens_max = 5;
    config->synch_ms = BETWEEN(2, 12);
    config->rtt_us = BETWEEN(100, 3000);
    config->latency_us = one_of(rand, latencies, 4);
    config->slow_ms = BETWEEN(150, 300);
    config->packet_max = pdi_rand_chance(rand, 1, 4) ? BETWEEN(1300, 4000) : PYDDSI_PACKET_USUAL;
    config->multicasts = BETWEEN(1, 2);
    for (uint32_t i = 0; i < PYDDSI_MULTICASTS_MAX; i++) {
        config->multicast_bytes[i] = pdi_rand_chance(rand, 1, 3) ? BETWEEN(512, 2048) : 16384;
        config->multicast_samples[i] = UINT32_C(1) << BETWEEN(3, 5);
        if (config->seq_bits > 10)
            config->multicast_samples[i] <<= 3;
    }
    config->unicast_bytes = pdi_rand_chance(rand, 1, 3) ? 4096 : 16384;
    config->unicast_samples = config->seq_bits > 10 ? 128 : 32;
    config->peers_max = 20;
    config->conduits_in = 4;
    config->order_max = one_of(rand, orders, 4);
    config->slots_max = 256;
    config->assembly_bytes = 262144;
    config->assembly_max = 16;
    config->sample_max = UINT32_C(1) << 20;
    config->resources_max = 128;
    config->names_bytes = 16384;
    config->publishers_max = 16;
    config->subscribers_max = 16;
    config->remotes_max = 256;
    config->remotes_peer_max = 64;
    config->transaction_bytes = 8192;
    config->ring_samples = 1024;
    config->keep_bytes = 32768;
    config->shelf_bytes = 32768;
    config->shelf_samples = 128;
    config->events_max = 1024;
}

void pdi_scenario_nodes(struct pdi_play *play, int count)
{
    for (int i = 0; i < count; i++) {
        (void)pdi_play_node(play, &play->config);
    }
}

void pdi_scenario_links(struct pdi_play *play, const pyddsi_sim_link *quality)
{
    (void)pdi_world_link_set(&play->world, -1, -1, quality);
}

pyddsi_sim_link pdi_scenario_good_link(struct pdi_play *play)
{
    struct pdi_rand *rand = &play->rand;
    pyddsi_sim_link link = {0};
    link.delay_ns = pdi_rand_chance(rand, 1, 2) ? pdi_play_between(rand, 20, 300) * PDI_TIME_US
                                                : pdi_play_between(rand, 300, 5000) * PDI_TIME_US;
    if (pdi_rand_chance(rand, 1, 2))
        link.jitter_ns = link.delay_ns / 4;
    return link;
}

void pdi_scenario_name(struct pdi_play *play, int node, uint64_t id, struct pdi_audit_topic *topic,
                       const char *name)
{
    bool known = false;
    for (uint32_t i = 0; i < play->things_count && !known; i++) {
        const struct pdi_play_thing *thing = &play->things[i];
        known = thing->node == node && thing->kind == PYDDSI_RESOURCE && thing->id == id &&
                thing->space == topic->space;
    }
    if (!known)
        pdi_play_thing(play, node, PYDDSI_RESOURCE, id, name)->space = topic->space;
    topic->name_size = (uint8_t)strlen(name);
    memcpy(topic->name, name, topic->name_size);
}

static void usual_name(struct pdi_play *play, int node, uint64_t id, struct pdi_audit_topic *topic)
{
    char name[PDI_AUDIT_NAME_MAX];
    (void)snprintf(name, sizeof(name), "/r/%llu", (unsigned long long)id);
    pdi_scenario_name(play, node, id, topic, name);
}

struct pdi_play_writer *pdi_scenario_writer(struct pdi_play *play, int node, uint64_t id)
{
    struct pdi_play_writer *writer = pdi_play_writer(play, node, id);
    usual_name(play, node, id, &writer->topic);
    return writer;
}

struct pdi_listener *pdi_scenario_reader(struct pdi_play *play, int node, uint64_t id)
{
    struct pdi_listener *reader = pdi_play_reader(play, node, id);
    usual_name(play, node, id, &reader->topic);
    return reader;
}
