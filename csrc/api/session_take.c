/* session_take.c - samples out of rings, and how much of a lane a program gets at once. */
#include "api/session_tap.h"

#define PUMP_MAX   256U
#define TAKE_FIRST 4U /* samples of a batch are taken blindly, */
#define TAKE_SHARE 4U /* and so much of a lane at once */

/* As many as there are, but of those that lie in lanes no more bytes than a quarter of a lane has: programs look at what they
 * took until they have taken more, and if all of a lane were looked at, nobody could write into it. */
static int take_some(pyddsi_session *session, uint32_t subscriber, pyddsi_received *samples,
                     size_t max, size_t *count, pdi_time now)
{
    size_t chunk = max < TAKE_FIRST ? max : TAKE_FIRST;
    uint64_t bytes = 0;
    uint32_t lent = 0;
    int status = PYDDSI_OK;
    while (*count < max && chunk != 0) { /* each round takes some, or ends */
        size_t some = 0;
        status = pdi_node_take_many(session->node, subscriber, &samples[*count], chunk, &some, now);
        uint64_t most = UINT64_MAX;
        for (size_t i = *count; i < *count + some; i++) {
            if (pdi_lanes_have(samples[i].held)) {
                most = pdi_lanes_took(session->lanes, samples[i].held) / TAKE_SHARE;
                bytes += samples[i].size;
                lent++;
            }
        }
        *count += some;
        uint64_t left = most == UINT64_MAX ? max
                        : most > bytes     ? (most - bytes) * lent / (bytes + 1)
                                           : 0;
        chunk = some < chunk ? 0 : left < max - *count ? (size_t)left : max - *count;
    }
    return status;
}

int pyddsi_session_take(pyddsi_session *session, uint32_t subscriber, pyddsi_received *samples,
                        size_t max, size_t *count)
{
    *count = 0;
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    pdi_time now = pdi_session_now(session);
    if (session->lanes != NULL)
        pdi_lanes_pump(session->lanes, PUMP_MAX, now);
    int status = take_some(session, subscriber, samples, max, count, now);
    (void)pdi_atomic32_add(&session->holders, (uint32_t)*count);
    if (session->lanes != NULL && *count != 0)
        pdi_lanes_allow(session->lanes);
    pdi_session_made_room(session);
    pdi_session_leave(session);
    return *count != 0 ? PYDDSI_OK : status;
}

void pyddsi_session_unread(pyddsi_session *session, const pyddsi_received *samples, size_t count,
                           uint8_t reason)
{
    if (!pdi_session_here(session))
        return;
    pdi_lock_take(&session->lock);
    pdi_node_unread(session->node, samples, count, (enum pyddsi_reason)reason,
                    pdi_session_now(session));
    pdi_lock_give(&session->lock);
}

int pyddsi_session_pull(pyddsi_session *session, uint32_t subscriber, uint32_t max)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    int status = pdi_node_pull(session->node, subscriber, max, pdi_session_now(session));
    pdi_session_send(session, PDI_APPLICATION);
    pdi_session_leave(session);
    return status;
}
