/* scenario.h - named worlds, each about one thing that can go wrong.
 *
 * A scenario is a function that fills a play from the play's random numbers: how many nodes, how bad the links, how small
 * the windows, within its theme; pdi_play_run then plays it. So a scenario and a seed name one run for ever, and a failing
 * one is repeated by its name and number. Runs are small (a few virtual seconds, some hundred samples), because what
 * finds faults is the number of different worlds and not the size of one.
 */
#ifndef PDI_SIM_SCENARIO_H
#define PDI_SIM_SCENARIO_H

#include "sim/play.h"

struct pdi_scenario {
    const char *name;
    const char *text; /* what it is about, one sentence */
    void (*build)(struct pdi_play *play);
    void (*run)(struct pdi_play *play); /* null: pdi_play_run */
};

/* Null behind the last one. */
const struct pdi_scenario *pdi_scenario(int index);
/* The one of this name, or -1. */
int pdi_scenario_find(const char *name);

/* Plays it. The play must be zero or finished; OK, BAD_ARGUMENT, NO_SPACE. pdi_play_fini is the caller's. */
int pdi_scenario_run(struct pdi_play *play, int index, uint64_t seed, bool log);
/* The same with other memory contents before a node starts, which must make no difference. */
int pdi_scenario_run_poisoned(struct pdi_play *play, int index, uint64_t seed, uint8_t poison);

/* Bytes decide everything (script.c has the language). */
int pdi_script_run(struct pdi_play *play, const uint8_t *script, size_t size, bool log);

/* How fast losses are repaired (repair.c). */
int pdi_repair_run(const pyddsi_repair_options *options, pyddsi_repair *repair);

/* ---- for the scenarios' own files ---- */

/* A small node: little memory, short times, varied within what every theme allows. */
void pdi_scenario_config(struct pdi_play *play, pyddsi_config *config);
/* `count` nodes with one configuration each from the above; joined by links with this delay and some jitter. */
void pdi_scenario_nodes(struct pdi_play *play, int count);
void pdi_scenario_links(struct pdi_play *play, const pyddsi_sim_link *quality);
/* Links that are good but for a delay between 20 us and 5 ms. */
pyddsi_sim_link pdi_scenario_good_link(struct pdi_play *play);
/* A writer at one node and readers at others, of resource `id` named "/r/<id>", declared by the writer's node. */
struct pdi_play_writer *pdi_scenario_writer(struct pdi_play *play, int node, uint64_t id);
struct pdi_listener *pdi_scenario_reader(struct pdi_play *play, int node, uint64_t id);
/* Makes a writer or a reader one of a resource with this name, which its node declares. */
void pdi_scenario_name(struct pdi_play *play, int node, uint64_t id, struct pdi_audit_topic *topic,
                       const char *name);

#define PDI_SCENARIO_BUILD(name) void pdi_scenario_##name(struct pdi_play *play)
PDI_SCENARIO_BUILD(pair);
PDI_SCENARIO_BUILD(loss);
PDI_SCENARIO_BUILD(reorder);
PDI_SCENARIO_BUILD(duplicate);
PDI_SCENARIO_BUILD(fanout);
PDI_SCENARIO_BUILD(filtered);
PDI_SCENARIO_BUILD(late);
PDI_SCENARIO_BUILD(history);
PDI_SCENARIO_BUILD(lengths);
PDI_SCENARIO_BUILD(rounds);
PDI_SCENARIO_BUILD(leave);
PDI_SCENARIO_BUILD(partition);
PDI_SCENARIO_BUILD(crash);
PDI_SCENARIO_BUILD(slow);
PDI_SCENARIO_BUILD(beside);
PDI_SCENARIO_BUILD(lanes);
PDI_SCENARIO_BUILD(crossing);
PDI_SCENARIO_BUILD(stopped);
PDI_SCENARIO_BUILD(scribbled);
PDI_SCENARIO_BUILD(growing);
PDI_SCENARIO_BUILD(clocks);
PDI_SCENARIO_BUILD(declare);
PDI_SCENARIO_BUILD(forget);
PDI_SCENARIO_BUILD(names);
PDI_SCENARIO_BUILD(fragments);
PDI_SCENARIO_BUILD(pieces);
PDI_SCENARIO_BUILD(paths);
PDI_SCENARIO_BUILD(lagging);
PDI_SCENARIO_BUILD(delayed);
PDI_SCENARIO_BUILD(batch);
PDI_SCENARIO_BUILD(best);
PDI_SCENARIO_BUILD(pull);
PDI_SCENARIO_BUILD(periodic);
PDI_SCENARIO_BUILD(spaces);
PDI_SCENARIO_BUILD(unicast);
PDI_SCENARIO_BUILD(automatic);
PDI_SCENARIO_BUILD(guards);
PDI_SCENARIO_BUILD(selections);
PDI_SCENARIO_BUILD(wrap);
PDI_SCENARIO_BUILD(zhe);
PDI_SCENARIO_BUILD(client);
PDI_SCENARIO_BUILD(star);
PDI_SCENARIO_BUILD(hostile);
PDI_SCENARIO_BUILD(impostor);
PDI_SCENARIO_BUILD(moves);
PDI_SCENARIO_BUILD(calls);
PDI_SCENARIO_BUILD(corrupt);
PDI_SCENARIO_BUILD(mix);
PDI_SCENARIO_BUILD(script);
void pdi_scenario_star_run(struct pdi_play *play);
void pdi_scenario_script_run(struct pdi_play *play);

#endif
