/* session_large.c - a sample larger than any window: it leaves piece by piece, while earlier pieces are acknowledged.
 *
 * It is accepted, and counted, when its last piece is in a window. If the time is over before that it is given up, and
 * the receivers drop what they have of it. No other sample of the publisher can be put meanwhile.
 */
#include "api/session.h"

#define FLUSH_BYTES ((size_t)256 * 1024) /* what is offered at once */

struct large {
    uint32_t publisher;
    const uint8_t *data;
    size_t size, done;
    bool begun;
};

/* Whether the sockets have this publisher's readers for themselves; if not, its lane is asked to empty and close. */
static bool leaves_lane(pyddsi_session *session, uint32_t publisher)
{
    struct pdi_lane_out *lane =
        session->lanes != NULL ? pdi_lanes_of(session->lanes, publisher) : NULL;
    bool on = false;
    if (lane != NULL) {
        pdi_lock_take(&lane->lock);
        on = lane->publisher == publisher && lane->on;
        if (on) {
            lane->closing = lane->waits = 1;
            session->lanes->look = 1;
        }
        pdi_lock_give(&lane->lock);
    }
    return !on;
}

/* As much as there is room for. OK: all of it; AGAIN: the rest must wait. */
static int put_pieces(pyddsi_session *session, struct large *large)
{
    pdi_time now = pdi_session_now(session);
    int status = PYDDSI_OK;
    if (!large->begun && !leaves_lane(session, large->publisher))
        return PYDDSI_AGAIN;
    if (!large->begun) {
        status = pdi_node_begin(session->node, large->publisher, large->size, now);
        large->begun = status == PYDDSI_OK;
    }
    while (status == PYDDSI_OK &&
           large->done < large->size) { /* each round takes some, or is the last */
        size_t left = large->size - large->done;
        size_t taken = 0;
        status = pdi_node_more(session->node, large->publisher, large->data + large->done,
                               left < FLUSH_BYTES ? left : FLUSH_BYTES, &taken, now);
        large->done += taken;
        status = status == PYDDSI_OK && taken == 0 ? PYDDSI_AGAIN : status;
        pdi_session_send(session, PDI_APPLICATION);
    }
    return status;
}

int pyddsi_session_put_large(pyddsi_session *session, uint32_t publisher, const void *data,
                             size_t size, uint64_t timeout_ns)
{
    struct large large = {.publisher = publisher, .data = data, .size = size};
    pdi_time until = pdi_time_add(pdi_session_now(session), timeout_ns);
    for (;;) { /* ends with the time, or the sample */
        uint32_t heard = pdi_bell_listen(session->bell);
        if (!pdi_session_enter(session)) {
            pdi_bell_unlisten(session->bell);
            return PYDDSI_CLOSED;
        }
        int status = put_pieces(session, &large);
        pdi_time left = pdi_time_until(pdi_session_now(session), until);
        bool over = status != PYDDSI_AGAIN || left == 0;
        if (over && status != PYDDSI_OK && large.begun)
            (void)pdi_node_end(session->node, publisher, 1, pdi_session_now(session));
        pdi_node_flush(session->node, pdi_session_now(session));
        pdi_session_send(session, PDI_APPLICATION);
        pdi_session_leave(session);
        if (over) {
            pdi_bell_unlisten(session->bell);
            return status;
        }
        if (pyddsi_session_wait(session, heard, left) == PYDDSI_CLOSED)
            return PYDDSI_CLOSED;
    }
}
