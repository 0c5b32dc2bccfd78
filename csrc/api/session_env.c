/* session_env.c - what the node asks of a session (env.h): samples in lanes and in blocks, held and released. */
#include "api/session.h"

static void hold(void *context, uint32_t held)
{
    pyddsi_session *session = context;
    if (pdi_echo_has(held))
        pdi_echo_hold(&session->echo, held);
    else
        pdi_lanes_hold(session->lanes, held);
}

static void release(void *context, uint32_t held)
{
    pyddsi_session *session = context;
    if (pdi_echo_has(held))
        pdi_echo_release(&session->echo, held);
    else
        pdi_lanes_release(session->lanes, held);
}

static bool overtaken(void *context, uint32_t peer, uint8_t space, uint64_t resource)
{
    const pyddsi_session *session = context;
    return session->lanes != NULL && pdi_lanes_overtaken(session->lanes, peer, space, resource);
}

static int copy(void *context, const uint8_t *data, size_t size, uint32_t *held,
                const uint8_t **bytes)
{
    pyddsi_session *session = context;
    return pdi_echo_copy(&session->echo, data, size, held, bytes);
}

static bool lingers(void *context, uint8_t space, uint64_t resource)
{
    const pyddsi_session *session = context;
    return session->lanes != NULL && pdi_lanes_linger(session->lanes, space, resource);
}

void pdi_session_env(pyddsi_session *session)
{
    struct pdi_env env = {.context = session,
                          .hold = hold,
                          .release = release,
                          .overtaken = overtaken,
                          .copy = copy,
                          .lingers = lingers};
    pdi_node_env(session->node, &env);
}
