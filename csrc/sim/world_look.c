/* world_look.c - looking at a world: its log of packets, and whether anything is left to do in it. */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

#define STATE_ESTABLISHED  254
#define STATE_OPENING_LAST 200
#define PENDING            255

void pdi_world_log(struct pdi_world *world, bool keep, uint64_t bytes_max)
{
    struct pdi_world_log *log = &world->log;
    if (!keep) {
        for (uint64_t i = 0; i < log->count; i++) {
            free((void *)log->rows[i].packet.data);
        }
        free(log->rows);
        memset(log, 0, sizeof(*log));
    }
    log->keep = keep;
    log->bytes_max = bytes_max;
}

void pdi_world_log_add(struct pdi_world *world, const struct pdi_world_sent *sent, int to,
                       pdi_time arrives, enum pyddsi_sim_fate fate, const uint8_t *data)
{
    struct pdi_world_log *log = &world->log;
    if (!log->keep || (log->bytes_max != 0 && log->bytes + sent->size > log->bytes_max))
        return;
    if (log->count == log->room) {
        uint64_t room = log->room == 0 ? 256 : log->room * 2;
        pyddsi_sim_packet *rows = realloc(log->rows, room * sizeof(*rows));
        if (rows == NULL)
            return;
        log->rows = rows;
        log->room = room;
    }
    uint8_t *copy = malloc(sent->size > 0 ? sent->size : 1);
    if (copy == NULL)
        return;
    memcpy(copy, data, sent->size);
    log->bytes += sent->size;
    log->rows[log->count++] = (pyddsi_sim_packet){
        .number = world->numbers - 1,
        .sent_ns = world->now,
        .arrives_ns = arrives,
        .from = sent->from,
        .to = to,
        .source = sent->source,
        .target = sent->target,
        .fate = (uint8_t)fate,
        .packet = {.data = copy, .size = sent->size},
    };
}

/* How the first takes the second: its state, 0 if it does not know it. *opening is set if any session of the first is. */
static unsigned peer_state(const struct pdi_world *world, int one, int two, bool *opening)
{
    const pyddsi_config *config = &world->nodes[two].config;
    const pyddsi_config *own = &world->nodes[one].config;
    pyddsi_peer peer;
    unsigned state = 0;
    for (uint32_t i = 0; i < own->peers_max; i++) {
        if (pdi_node_peer(world->nodes[one].node, i, &peer) != PYDDSI_OK)
            break;
        if (peer.state >= 1 && peer.state <= STATE_OPENING_LAST)
            *opening = true;
        if (peer.state == STATE_ESTABLISHED && peer.id_size == config->id_size &&
            memcmp(peer.id, config->id, config->id_size) == 0)
            state = peer.state;
    }
    return state;
}

bool pdi_world_joined(const struct pdi_world *world, int one, int two)
{
    bool opening = false;
    return pdi_world_runs(world, one) && pdi_world_runs(world, two) &&
           peer_state(world, one, two, &opening) == STATE_ESTABLISHED &&
           /* NOLINTNEXTLINE(readability-suspicious-call-argument): the other way round */
           peer_state(world, two, one, &opening) == STATE_ESTABLISHED;
}

/* Whether these two are to have a session: not two clients, nor a client and a peer, nor across a cut. */
static bool wanted(const struct pdi_world *world, int one, int two)
{
    const pyddsi_config *a = &world->nodes[one].config, *b = &world->nodes[two].config;
    if (a->role == PYDDSI_CLIENT && b->role != PYDDSI_BROKER)
        return false;
    if (b->role == PYDDSI_CLIENT && a->role != PYDDSI_BROKER)
        return false;
    return !world->links[one * world->links_stride + two].quality.cut &&
           !world->links[two * world->links_stride + one].quality.cut &&
           a->scout_to.kind == b->scout_to.kind && a->scout_to.port == b->scout_to.port &&
           memcmp(a->scout_to.ip, b->scout_to.ip, sizeof(a->scout_to.ip)) == 0;
}

/* A node has sessions with all whom it wants, or with as many as it may. */
static bool sessions_quiet(const struct pdi_world *world, int node)
{
    uint32_t want = 0, have = 0;
    bool opening = false;
    for (int other = 0; other < world->count; other++) {
        if (other == node || !pdi_world_runs(world, other) || !wanted(world, node, other))
            continue;
        want++;
        have += peer_state(world, node, other, &opening) == STATE_ESTABLISHED;
    }
    uint32_t may = world->nodes[node].config.peers_max;
    if (world->nodes[node].config.role == PYDDSI_CLIENT)
        may = 1;
    return !opening && have >= (want < may ? want : may);
}

static bool windows_quiet(const struct pdi_world *world, int node)
{
    const struct pdi_world_node *one = &world->nodes[node];
    pyddsi_window window;
    for (uint32_t i = 0; i < one->config.multicasts; i++) {
        if (pdi_node_window(one->node, (int)i, &window) == PYDDSI_OK &&
            window.seq != window.seqbase)
            return false;
    }
    for (uint32_t i = 0; i < one->config.peers_max; i++) {
        if (pdi_node_window(one->node, -1 - (int)i, &window) == PYDDSI_OK &&
            window.seq != window.seqbase)
            return false;
    }
    return true;
}

static const char *busy(const struct pdi_world *world, int node)
{
    const struct pdi_world_node *one = &world->nodes[node];
    if (one->shared != NULL && !pdi_shared_quiet(one->shared))
        return "a sample in a lane has not been brought";
    if (one->paused_until > world->now)
        return "a node is paused";
    if (pdi_node_due(one->node) <= one->last)
        return "a node has something to do at once";
    if (!windows_quiet(world, node))
        return "a window is not acknowledged";
    for (uint32_t i = 0; i < one->handles_count; i++) {
        if (pdi_node_status(one->node, one->handles[i]) == PENDING)
            return "a declaration is not settled";
    }
    if (!sessions_quiet(world, node))
        return "a session is missing or half open";
    return NULL;
}

bool pdi_world_quiet(const struct pdi_world *world, const char **why)
{
    const char *reason = world->fault; /* all else follows from it */
    for (int node = 0; node < world->count && reason == NULL; node++) {
        if (world->nodes[node].node != NULL)
            reason = busy(world, node);
    }
    if (why != NULL)
        *why = reason;
    return reason == NULL;
}
