/* sim_node.c - the front door's simulation: what an application does at a node of it.
 *
 * Each call is the node's own (node/node.h), between entering the world and leaving it, which sends what the node has to say.
 */
#include "api/sim.h"

/* A node of the world, while somebody acts at it. */
struct visit {
    pyddsi_sim *sim;
    int index;
    struct pdi_node *node;
    pdi_time now;
};

/* False: no such node runs. */
static bool enter(struct visit *visit, pyddsi_sim *sim, int index)
{
    *visit = (struct visit){.sim = sim, .index = index};
    visit->node = pdi_world_enter(&sim->play.world, index, &visit->now);
    return visit->node != NULL;
}

/* Answers what the node answered. */
static int leave(const struct visit *visit, int result)
{
    pdi_world_leave(&visit->sim->play.world, visit->index);
    return result;
}

/* After a declaration: the world must be able to say when it is settled. */
static int declared(const struct visit *visit, int result, const uint32_t *handle)
{
    if (result == PYDDSI_OK)
        pdi_world_declared(&visit->sim->play.world, visit->index, *handle);
    return leave(visit, result);
}

/* The node, only to be looked at. */
static struct pdi_node *look(const pyddsi_sim *sim, int node)
{
    return pdi_world_runs(&sim->play.world, node) ? sim->play.world.nodes[node].node : NULL;
}

int pyddsi_sim_close(pyddsi_sim *sim, int node)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    pdi_node_close(at.node, at.now);
    return leave(&at, PYDDSI_OK);
}

int pyddsi_sim_flush(pyddsi_sim *sim, int node)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    pdi_node_flush(at.node, at.now);
    return leave(&at, PYDDSI_OK);
}

int pyddsi_sim_release(pyddsi_sim *sim, int node, const pyddsi_received *sample)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    pdi_node_release(at.node, sample);
    return leave(&at, PYDDSI_OK);
}

int pyddsi_sim_resource(pyddsi_sim *sim, int node, uint8_t space, uint64_t resource,
                        pyddsi_bytes name, int is_chosen, uint8_t reliability, uint8_t durability,
                        uint32_t *handle, int *status)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_resource(at.node, space, resource, name, is_chosen, reliability,
                                   durability, handle, status);
    return declared(&at, result, handle);
}

int pyddsi_sim_selection(pyddsi_sim *sim, int node, uint8_t space, uint64_t selection,
                         pyddsi_bytes query, int is_global, uint32_t *handle, int *status)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_selection(at.node, space, selection, query, is_global, handle, status);
    return declared(&at, result, handle);
}

int pyddsi_sim_binding(pyddsi_sim *sim, int node, uint8_t space, uint64_t old_selection,
                       uint64_t new_selection, int is_global, uint32_t *handle, int *status)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    int result =
        pdi_node_binding(at.node, space, old_selection, new_selection, is_global, handle, status);
    return declared(&at, result, handle);
}

int pyddsi_sim_publisher(pyddsi_sim *sim, int node, const pyddsi_publisher_options *options,
                         uint32_t *publisher, int *status)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_publisher(at.node, options, publisher, status);
    return declared(&at, result, publisher);
}

int pyddsi_sim_subscriber(pyddsi_sim *sim, int node, const pyddsi_subscriber_options *options,
                          uint32_t *subscriber, int *status)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_subscriber(at.node, options, subscriber, status);
    return declared(&at, result, subscriber);
}

int pyddsi_sim_forget(pyddsi_sim *sim, int node, uint32_t handle)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    return leave(&at, pdi_node_forget(at.node, handle, at.now));
}

int pyddsi_sim_put(pyddsi_sim *sim, int node, uint32_t publisher, const void *data, size_t size)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    return leave(&at, pdi_node_put(at.node, publisher, data, size, at.now));
}

int pyddsi_sim_put_many(pyddsi_sim *sim, int node, uint32_t publisher, const pyddsi_bytes *samples,
                        size_t count)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    return leave(&at, pdi_node_put_many(at.node, publisher, samples, count, at.now));
}

int pyddsi_sim_put_name(pyddsi_sim *sim, int node, pyddsi_bytes name, int reliable,
                        const void *data, size_t size)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    return leave(&at, pdi_node_put_name(at.node, name, reliable, data, size, at.now));
}

int pyddsi_sim_loan(pyddsi_sim *sim, int node, uint32_t publisher, size_t size, uint8_t **data,
                    uint32_t *loan)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    return leave(&at, pdi_node_loan(at.node, publisher, size, data, loan));
}

int pyddsi_sim_commit(pyddsi_sim *sim, int node, uint32_t loan, size_t used)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    return leave(&at, pdi_node_commit(at.node, loan, used, at.now));
}

int pyddsi_sim_abandon(pyddsi_sim *sim, int node, uint32_t loan)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    return leave(&at, pdi_node_abandon(at.node, loan));
}

int pyddsi_sim_begin(pyddsi_sim *sim, int node, uint32_t publisher, uint64_t total)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    return leave(&at, pdi_node_begin(at.node, publisher, total, at.now));
}

int pyddsi_sim_more(pyddsi_sim *sim, int node, uint32_t publisher, const void *data, size_t size,
                    size_t *taken)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    return leave(&at, pdi_node_more(at.node, publisher, data, size, taken, at.now));
}

int pyddsi_sim_end(pyddsi_sim *sim, int node, uint32_t publisher, int drop)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    return leave(&at, pdi_node_end(at.node, publisher, drop, at.now));
}

int pyddsi_sim_take(pyddsi_sim *sim, int node, uint32_t subscriber, pyddsi_received *sample)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    return leave(&at, pdi_node_take(at.node, subscriber, sample, at.now));
}

int pyddsi_sim_pull(pyddsi_sim *sim, int node, uint32_t subscriber, uint32_t max)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    return leave(&at, pdi_node_pull(at.node, subscriber, max, at.now));
}

int pyddsi_sim_close_session(pyddsi_sim *sim, int node, const pyddsi_endpoint *endpoint,
                             uint8_t reason)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    return leave(&at, pdi_node_close_session(at.node, endpoint, reason, at.now));
}

int pyddsi_sim_peer_window(pyddsi_sim *sim, int node, pyddsi_bytes id, uint32_t bytes,
                           uint32_t samples)
{
    struct visit at;
    if (!enter(&at, sim, node))
        return PYDDSI_BAD_ARGUMENT;
    return leave(&at, pdi_node_peer_window(at.node, id, bytes, samples));
}

int pyddsi_sim_status(const pyddsi_sim *sim, int node, uint32_t handle)
{
    const struct pdi_node *one = look(sim, node);
    return one != NULL ? pdi_node_status(one, handle) : PYDDSI_BAD_ARGUMENT;
}

int pyddsi_sim_conduit(const pyddsi_sim *sim, int node, uint32_t publisher)
{
    const struct pdi_node *one = look(sim, node);
    return one != NULL ? pdi_node_conduit(one, publisher) : 0;
}

int pyddsi_sim_event(pyddsi_sim *sim, int node, pyddsi_event *event)
{
    struct pdi_node *one = look(sim, node);
    return one != NULL ? pdi_node_event(one, event) : PYDDSI_END;
}

int pyddsi_sim_drop(const pyddsi_sim *sim, int node, uint32_t index, pyddsi_drop *drop)
{
    const struct pdi_node *one = look(sim, node);
    return one != NULL ? pdi_node_drop(one, index, drop) : PYDDSI_END;
}

int pyddsi_sim_stats(const pyddsi_sim *sim, int node, pyddsi_stats *stats)
{
    const struct pdi_node *one = look(sim, node);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    pdi_node_stats(one, stats);
    return PYDDSI_OK;
}

int pyddsi_sim_peer(const pyddsi_sim *sim, int node, uint32_t index, pyddsi_peer *peer)
{
    const struct pdi_node *one = look(sim, node);
    return one != NULL ? pdi_node_peer(one, index, peer) : PYDDSI_END;
}

int pyddsi_sim_refusal(const pyddsi_sim *sim, int node, uint32_t index, pyddsi_refusal *refusal)
{
    const struct pdi_node *one = look(sim, node);
    return one != NULL ? pdi_node_refusal(one, index, refusal) : PYDDSI_END;
}

int pyddsi_sim_window(const pyddsi_sim *sim, int node, int conduit, pyddsi_window *window)
{
    const struct pdi_node *one = look(sim, node);
    return one != NULL ? pdi_node_window(one, conduit, window) : PYDDSI_BAD_ARGUMENT;
}
