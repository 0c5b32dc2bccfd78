/* sim_node.c - the front door's simulation: what an application does at a node of it.
 *
 * Each call is the node's own (node/node.h), between entering the world and leaving it, which sends what the node has to say.
 */
#include <string.h>

#include "api/sim.h"

static struct pdi_node *enter(pyddsi_sim *sim, int node, pdi_time *now)
{
    return pdi_world_enter(&sim->play.world, node, now);
}

static void leave(pyddsi_sim *sim, int node)
{
    pdi_world_leave(&sim->play.world, node);
}

/* The node, only to be looked at. */
static struct pdi_node *look(const pyddsi_sim *sim, int node)
{
    return pdi_world_runs(&sim->play.world, node) ? sim->play.world.nodes[node].node : NULL;
}

/* A declaration was made: the world must be able to say when it is settled. */
static int declared(pyddsi_sim *sim, int node, int result, const uint32_t *handle)
{
    if (result == PYDDSI_OK)
        pdi_world_declared(&sim->play.world, node, *handle);
    leave(sim, node);
    return result;
}

int pyddsi_sim_close(pyddsi_sim *sim, int node)
{
    pdi_time now;
    struct pdi_node *one = enter(sim, node, &now);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    pdi_node_close(one, now);
    leave(sim, node);
    return PYDDSI_OK;
}

int pyddsi_sim_flush(pyddsi_sim *sim, int node)
{
    pdi_time now;
    struct pdi_node *one = enter(sim, node, &now);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    pdi_node_flush(one, now);
    leave(sim, node);
    return PYDDSI_OK;
}

int pyddsi_sim_release(pyddsi_sim *sim, int node, const pyddsi_received *sample)
{
    struct pdi_node *one = enter(sim, node, NULL);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    pdi_node_release(one, sample);
    leave(sim, node);
    return PYDDSI_OK;
}

int pyddsi_sim_resource(pyddsi_sim *sim, int node, uint8_t space, uint64_t resource,
                        pyddsi_bytes name, uint8_t reliability, uint8_t durability,
                        uint32_t *handle, int *status)
{
    struct pdi_node *one = enter(sim, node, NULL);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result =
        pdi_node_resource(one, space, resource, name, reliability, durability, handle, status);
    return declared(sim, node, result, handle);
}

int pyddsi_sim_selection(pyddsi_sim *sim, int node, uint8_t space, uint64_t selection,
                         pyddsi_bytes query, int is_global, uint32_t *handle, int *status)
{
    struct pdi_node *one = enter(sim, node, NULL);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_selection(one, space, selection, query, is_global, handle, status);
    return declared(sim, node, result, handle);
}

int pyddsi_sim_binding(pyddsi_sim *sim, int node, uint8_t space, uint64_t old_selection,
                       uint64_t new_selection, int is_global, uint32_t *handle, int *status)
{
    struct pdi_node *one = enter(sim, node, NULL);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result =
        pdi_node_binding(one, space, old_selection, new_selection, is_global, handle, status);
    return declared(sim, node, result, handle);
}

int pyddsi_sim_publisher(pyddsi_sim *sim, int node, const pyddsi_publisher_options *options,
                         uint32_t *publisher, int *status)
{
    struct pdi_node *one = enter(sim, node, NULL);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_publisher(one, options, publisher, status);
    return declared(sim, node, result, publisher);
}

int pyddsi_sim_subscriber(pyddsi_sim *sim, int node, const pyddsi_subscriber_options *options,
                          uint32_t *subscriber, int *status)
{
    struct pdi_node *one = enter(sim, node, NULL);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_subscriber(one, options, subscriber, status);
    return declared(sim, node, result, subscriber);
}

int pyddsi_sim_forget(pyddsi_sim *sim, int node, uint32_t handle)
{
    pdi_time now;
    struct pdi_node *one = enter(sim, node, &now);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_forget(one, handle, now);
    leave(sim, node);
    return result;
}

int pyddsi_sim_put(pyddsi_sim *sim, int node, uint32_t publisher, const void *data, size_t size)
{
    pdi_time now;
    struct pdi_node *one = enter(sim, node, &now);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_put(one, publisher, data, size, now);
    leave(sim, node);
    return result;
}

int pyddsi_sim_put_many(pyddsi_sim *sim, int node, uint32_t publisher, const pyddsi_bytes *samples,
                        size_t count)
{
    pdi_time now;
    struct pdi_node *one = enter(sim, node, &now);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_put_many(one, publisher, samples, count, now);
    leave(sim, node);
    return result;
}

int pyddsi_sim_put_name(pyddsi_sim *sim, int node, pyddsi_bytes name, int reliable,
                        const void *data, size_t size)
{
    pdi_time now;
    struct pdi_node *one = enter(sim, node, &now);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_put_name(one, name, reliable, data, size, now);
    leave(sim, node);
    return result;
}

int pyddsi_sim_loan(pyddsi_sim *sim, int node, uint32_t publisher, size_t size, uint8_t **data,
                    uint32_t *loan)
{
    struct pdi_node *one = enter(sim, node, NULL);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_loan(one, publisher, size, data, loan);
    leave(sim, node);
    return result;
}

int pyddsi_sim_commit(pyddsi_sim *sim, int node, uint32_t loan, size_t used)
{
    pdi_time now;
    struct pdi_node *one = enter(sim, node, &now);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_commit(one, loan, used, now);
    leave(sim, node);
    return result;
}

int pyddsi_sim_abandon(pyddsi_sim *sim, int node, uint32_t loan)
{
    struct pdi_node *one = enter(sim, node, NULL);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_abandon(one, loan);
    leave(sim, node);
    return result;
}

int pyddsi_sim_begin(pyddsi_sim *sim, int node, uint32_t publisher, uint64_t total)
{
    pdi_time now;
    struct pdi_node *one = enter(sim, node, &now);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_begin(one, publisher, total, now);
    leave(sim, node);
    return result;
}

int pyddsi_sim_more(pyddsi_sim *sim, int node, uint32_t publisher, const void *data, size_t size,
                    size_t *taken)
{
    pdi_time now;
    struct pdi_node *one = enter(sim, node, &now);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_more(one, publisher, data, size, taken, now);
    leave(sim, node);
    return result;
}

int pyddsi_sim_end(pyddsi_sim *sim, int node, uint32_t publisher, int drop)
{
    pdi_time now;
    struct pdi_node *one = enter(sim, node, &now);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_end(one, publisher, drop, now);
    leave(sim, node);
    return result;
}

int pyddsi_sim_take(pyddsi_sim *sim, int node, uint32_t subscriber, pyddsi_received *sample)
{
    pdi_time now;
    struct pdi_node *one = enter(sim, node, &now);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_take(one, subscriber, sample, now);
    leave(sim, node);
    return result;
}

int pyddsi_sim_pull(pyddsi_sim *sim, int node, uint32_t subscriber, uint32_t max)
{
    pdi_time now;
    struct pdi_node *one = enter(sim, node, &now);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_pull(one, subscriber, max, now);
    leave(sim, node);
    return result;
}

int pyddsi_sim_close_session(pyddsi_sim *sim, int node, const pyddsi_endpoint *endpoint,
                             uint8_t reason)
{
    pdi_time now;
    struct pdi_node *one = enter(sim, node, &now);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_close_session(one, endpoint, reason, now);
    leave(sim, node);
    return result;
}

int pyddsi_sim_peer_window(pyddsi_sim *sim, int node, pyddsi_bytes id, uint32_t bytes,
                           uint32_t samples)
{
    struct pdi_node *one = enter(sim, node, NULL);
    if (one == NULL)
        return PYDDSI_BAD_ARGUMENT;
    int result = pdi_node_peer_window(one, id, bytes, samples);
    leave(sim, node);
    return result;
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

int pyddsi_sim_window(const pyddsi_sim *sim, int node, int conduit, pyddsi_window *window)
{
    const struct pdi_node *one = look(sim, node);
    return one != NULL ? pdi_node_window(one, conduit, window) : PYDDSI_BAD_ARGUMENT;
}
