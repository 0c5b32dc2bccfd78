/* session_call.c - declarations and looks: each call of node.h, with the lock around it. */
#include "api/session.h"

int pyddsi_session_resource(pyddsi_session *session, uint8_t space, uint64_t resource,
                            pyddsi_bytes name, int is_chosen, uint8_t reliability,
                            uint8_t durability, uint32_t *handle, int *answer)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    int status = pdi_node_resource(session->node, space, resource, name, is_chosen, reliability,
                                   durability, handle, answer);
    pdi_session_send(session, PDI_APPLICATION);
    pdi_session_leave(session);
    return status;
}

int pyddsi_session_selection(pyddsi_session *session, uint8_t space, uint64_t selection,
                             pyddsi_bytes query, int is_global, uint32_t *handle, int *answer)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    int status =
        pdi_node_selection(session->node, space, selection, query, is_global, handle, answer);
    pdi_session_send(session, PDI_APPLICATION);
    pdi_session_leave(session);
    return status;
}

int pyddsi_session_publisher(pyddsi_session *session, const pyddsi_publisher_options *options,
                             uint32_t *publisher, int *answer)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    int status = pdi_node_publisher(session->node, options, publisher, answer);
    if (status == PYDDSI_OK && session->lanes != NULL)
        pdi_lanes_publisher(session->lanes, *publisher);
    pdi_session_send(session, PDI_APPLICATION);
    pdi_session_leave(session);
    return status;
}

int pyddsi_session_subscriber(pyddsi_session *session, const pyddsi_subscriber_options *options,
                              uint32_t *subscriber, int *answer)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    int status = pdi_node_subscriber(session->node, options, subscriber, answer);
    session->moved = 1; /* a publisher of ours may have waited for it */
    pdi_session_send(session, PDI_APPLICATION);
    pdi_session_leave(session);
    return status;
}

int pyddsi_session_forget(pyddsi_session *session, uint32_t handle)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    if (session->lanes != NULL)
        pdi_lanes_forget(session->lanes, handle);
    int status = pdi_node_forget(session->node, handle, pdi_session_now(session));
    pdi_session_send(session, PDI_APPLICATION);
    pdi_session_leave(session);
    return status;
}

int pyddsi_session_status(pyddsi_session *session, uint32_t handle)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    int status = pdi_node_status(session->node, handle);
    pdi_session_leave(session);
    return status;
}

int pyddsi_session_conduit(pyddsi_session *session, uint32_t publisher)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    int status = pdi_node_conduit(session->node, publisher);
    pdi_session_leave(session);
    return status;
}

int pyddsi_session_close_session(pyddsi_session *session, const pyddsi_endpoint *endpoint,
                                 uint8_t reason)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    int status = pdi_node_close_session(session->node, endpoint, reason, pdi_session_now(session));
    pdi_session_send(session, PDI_APPLICATION);
    pdi_session_leave(session);
    return status;
}

int pyddsi_session_event(pyddsi_session *session, pyddsi_event *event)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    int status = pdi_node_event(session->node, event);
    pdi_session_leave(session);
    return status;
}

int pyddsi_session_peer(pyddsi_session *session, uint32_t index, pyddsi_peer *peer)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    int status = pdi_node_peer(session->node, index, peer);
    pdi_session_leave(session);
    return status;
}

int pyddsi_session_matched(pyddsi_session *session, uint32_t publisher, uint32_t *peers,
                           uint32_t max, uint32_t *count)
{
    uint64_t bits[PDI_BITSET_WORDS(PYDDSI_PEERS_MAX)];
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    int status = pdi_node_matched(session->node, publisher, bits, pdi_session_now(session));
    pdi_session_leave(session);
    *count = 0;
    for (uint32_t peer = pdi_bitset_find(bits, PYDDSI_PEERS_MAX, 0); peer < PYDDSI_PEERS_MAX;
         peer = pdi_bitset_find(bits, PYDDSI_PEERS_MAX, peer + 1)) {
        if (*count < max)
            peers[*count] = peer;
        ++*count;
    }
    return status;
}

int pyddsi_session_refusal(pyddsi_session *session, uint32_t index, pyddsi_refusal *refusal)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    int status = pdi_node_refusal(session->node, index, refusal);
    pdi_session_leave(session);
    return status;
}

int pyddsi_session_window(pyddsi_session *session, int conduit, pyddsi_window *window)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    int status = pdi_node_window(session->node, conduit, window);
    pdi_session_leave(session);
    return status;
}

/* ---- the books, which stay readable after the end ---- */

static bool look(pyddsi_session *session)
{
    if (pdi_atomic32_load_relaxed(session->here) == 0)
        return false;
    pdi_lock_take(&session->lock);
    return true;
}

int pyddsi_session_drop(pyddsi_session *session, uint32_t index, pyddsi_drop *drop)
{
    if (!look(session))
        return PYDDSI_CLOSED;
    int status = pdi_node_drop(session->node, index, drop);
    pdi_lock_give(&session->lock);
    return status;
}

int pyddsi_session_stats(pyddsi_session *session, pyddsi_stats *stats)
{
    if (!look(session))
        return PYDDSI_CLOSED;
    pdi_node_stats(session->node, stats);
    if (session->lanes != NULL)
        pdi_lanes_stats(session->lanes, stats);
    pdi_lock_give(&session->lock);
    return PYDDSI_OK;
}
