/* sim.c - the front door's simulation: worlds that a program builds by itself. */
#include <stdlib.h>
#include <string.h>

#include "api/sim.h"
#include "flow/ledger.h"
#include "node/node.h"

void pyddsi_config_init(pyddsi_config *config)
{
    pdi_config_init(config);
}

/* ---- names ---- */

const char *pyddsi_place_name(int place)
{
    return place >= 0 && place < PYDDSI_PLACE_COUNT ? pdi_place_name(place) : NULL;
}

const char *pyddsi_place_text(int place)
{
    return place >= 0 && place < PYDDSI_PLACE_COUNT ? pdi_place_text(place) : NULL;
}

const char *pyddsi_reason_name(int reason)
{
    return reason >= 0 && reason < PYDDSI_REASON_COUNT ? pdi_reason_name(reason) : NULL;
}

const char *pyddsi_reason_text(int reason)
{
    return reason >= 0 && reason < PYDDSI_REASON_COUNT ? pdi_reason_text(reason) : NULL;
}

const char *pyddsi_event_name(int kind)
{
    static const char *const names[] = {
        [PYDDSI_CONNECTED] = "connected",     [PYDDSI_DISCONNECTED] = "disconnected",
        [PYDDSI_RECONNECTED] = "reconnected", [PYDDSI_GAP] = "gap",
        [PYDDSI_DECLARED] = "declared",       [PYDDSI_MATCHED] = "matched",
        [PYDDSI_UNMATCHED] = "unmatched",     [PYDDSI_QOS_CONFLICT] = "qos_conflict",
        [PYDDSI_REJECTED] = "rejected",       [PYDDSI_DETACHED] = "detached",
        [PYDDSI_REFUSED] = "refused",         [PYDDSI_UNREACHED] = "unreached",
        [PYDDSI_TOO_LARGE] = "too_large",
    };
    return kind >= 0 && kind < (int)(sizeof(names) / sizeof(names[0])) ? names[kind] : NULL;
}

const char *pyddsi_sim_fate_name(int fate)
{
    static const char *const names[PYDDSI_SIM_FATE_COUNT] = {
        [PYDDSI_SIM_DELIVERED] = "delivered",
        [PYDDSI_SIM_LOST] = "lost",
        [PYDDSI_SIM_CUT] = "cut",
        [PYDDSI_SIM_DUPLICATED] = "duplicated",
        [PYDDSI_SIM_CORRUPTED] = "corrupted",
        [PYDDSI_SIM_NOBODY] = "nobody",
        [PYDDSI_SIM_INJECTED] = "injected",
    };
    return fate >= 0 && fate < PYDDSI_SIM_FATE_COUNT ? names[fate] : NULL;
}

/* ---- the world ---- */

pyddsi_sim *pyddsi_sim_new(uint64_t seed)
{
    pyddsi_sim *sim = calloc(1, sizeof(*sim));
    if (sim == NULL)
        return NULL;
    if (pdi_play_init(&sim->play, seed) != PYDDSI_OK) {
        pyddsi_sim_free(sim);
        return NULL;
    }
    pyddsi_sim_detach(sim);
    return sim;
}

void pyddsi_sim_free(pyddsi_sim *sim)
{
    if (sim == NULL)
        return;
    pdi_play_fini(&sim->play);
    free(sim);
}

uint64_t pyddsi_sim_now(const pyddsi_sim *sim)
{
    return sim->play.world.now;
}

uint64_t pyddsi_sim_digest(const pyddsi_sim *sim)
{
    return sim->play.world.digest;
}

int pyddsi_sim_node(pyddsi_sim *sim, const pyddsi_config *config, const char **text)
{
    return pdi_world_add(&sim->play.world, config, text);
}

int pyddsi_sim_count(const pyddsi_sim *sim)
{
    return sim->play.world.count;
}

int pyddsi_sim_running(const pyddsi_sim *sim, int node)
{
    return pdi_world_runs(&sim->play.world, node);
}

static bool is_node(const pyddsi_sim *sim, int node)
{
    return node >= 0 && node < sim->play.world.count;
}

int pyddsi_sim_endpoint(const pyddsi_sim *sim, int node, pyddsi_endpoint *endpoint)
{
    if (!is_node(sim, node))
        return PYDDSI_BAD_ARGUMENT;
    *endpoint = sim->play.world.nodes[node].endpoint;
    return PYDDSI_OK;
}

int pyddsi_sim_config(const pyddsi_sim *sim, int node, pyddsi_config *config)
{
    if (!is_node(sim, node))
        return PYDDSI_BAD_ARGUMENT;
    *config = sim->play.world.nodes[node].config;
    return PYDDSI_OK;
}

int pyddsi_sim_link_set(pyddsi_sim *sim, int from, int to, const pyddsi_sim_link *link)
{
    return pdi_world_link_set(&sim->play.world, from, to, link);
}

int pyddsi_sim_link_get(const pyddsi_sim *sim, int from, int to, pyddsi_sim_link *link)
{
    return pdi_world_link_get(&sim->play.world, from, to, link);
}

int pyddsi_sim_cut(pyddsi_sim *sim, int from, int to, int cut)
{
    return pdi_world_cut(&sim->play.world, from, to, cut);
}

int pyddsi_sim_crash(pyddsi_sim *sim, int node)
{
    return pdi_world_crash(&sim->play.world, node);
}

int pyddsi_sim_restart(pyddsi_sim *sim, int node, int same_port)
{
    return pdi_world_restart(&sim->play.world, node, same_port);
}

int pyddsi_sim_pause(pyddsi_sim *sim, int node, uint64_t duration_ns)
{
    return pdi_world_pause(&sim->play.world, node, duration_ns);
}

int pyddsi_sim_clock_step(pyddsi_sim *sim, int node, int64_t step_ns)
{
    return pdi_world_clock_step(&sim->play.world, node, step_ns);
}

int pyddsi_sim_inject(pyddsi_sim *sim, int node, const pyddsi_endpoint *from, const uint8_t *data,
                      size_t size)
{
    return pdi_world_inject(&sim->play.world, node, from, data, size);
}

uint64_t pyddsi_sim_run(pyddsi_sim *sim, uint64_t duration_ns)
{
    return pdi_world_run(&sim->play.world, duration_ns);
}

int pyddsi_sim_run_until_quiet(pyddsi_sim *sim, uint64_t duration_ns)
{
    return pdi_world_run_until_quiet(&sim->play.world, duration_ns);
}

const char *pyddsi_sim_busy(const pyddsi_sim *sim)
{
    const char *why = NULL;
    return pdi_world_quiet(&sim->play.world, &why) ? NULL : why;
}

void pyddsi_sim_log(pyddsi_sim *sim, int keep, uint64_t bytes_max)
{
    pdi_world_log(&sim->play.world, keep != 0, bytes_max);
}

int pyddsi_sim_packet_get(const pyddsi_sim *sim, uint64_t index, pyddsi_sim_packet *packet)
{
    const struct pdi_world_log *log = &sim->play.world.log;
    if (index >= log->count)
        return PYDDSI_END;
    *packet = log->rows[index];
    return PYDDSI_OK;
}
