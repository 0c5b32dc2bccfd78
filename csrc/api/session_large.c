/* session_large.c - a sample larger than any window: by a lane, or piece by piece, while earlier pieces are acknowledged.
 *
 * While it leaves in pieces nobody can join the publisher's lane; and if one such sample follows the other nobody ever could.
 * So where somebody may be about to, it waits for that first, for a moment.
 *
 * It is accepted, and counted, when its last piece is in a window. If the time is over before that it is given up, and
 * the receivers drop what they have of it. No other sample of the publisher can be put meanwhile.
 */
#include "api/session.h"

#define FLUSH_BYTES ((size_t)256 * 1024) /* what is offered at once */
#define SLICE_NS    (100 * PDI_TIME_MS)  /* how long nobody is asked whether to go on */

struct large {
    uint32_t publisher;
    const uint8_t *data;
    size_t size, done;
    struct pdi_echoed own;
    bool begun;
    bool paused;    /* there may be room for more, but it is time to ask */
    pdi_time slice; /* when it is */
};

/* Whether the sockets have this publisher's readers for themselves; if not, its lane is asked to empty and close. */
static bool leaves_lane(pyddsi_session *session, uint32_t publisher)
{
    struct pdi_lane_out *lane =
        session->lanes != NULL ? pdi_lanes_of(session->lanes, publisher) : NULL;
    bool on = false;
    if (lane != NULL) {
        pdi_lanes_enter(lane);
        on = lane->publisher == publisher && lane->on;
        if (on) {
            lane->closing = lane->waits = 1;
            session->lanes->look = 1;
        }
        pdi_lanes_exit(lane);
    }
    return !on;
}

/* By the lane if there is one that it may fit, or is about to be. BAD_ARGUMENT: it has to go by the sockets, which are free for
 * it then. */
static int put_whole(pyddsi_session *session, const struct large *large, pdi_time now)
{
    const struct pdi_put put = {large->publisher, large->data, large->size};
    int status = pdi_session_put(session, &put, now);
    if (status != PYDDSI_BAD_ARGUMENT || session->lanes == NULL) {
        return status;
    }
    bool later = pdi_lanes_await(session->lanes, large->publisher, large->size, now) ||
                 !leaves_lane(session, large->publisher);
    return later ? PYDDSI_AGAIN : PYDDSI_BAD_ARGUMENT;
}

/* As much as there is room for. OK: all of it; AGAIN: the rest must wait. */
static int put_pieces(pyddsi_session *session, struct large *large)
{
    pdi_time now = pdi_session_now(session);
    int status = PYDDSI_OK;
    if (!large->begun && large->size > pdi_node_largest(session->node, large->publisher)) {
        return PYDDSI_BAD_ARGUMENT;
    }
    if (!large->begun) {
        status = put_whole(session, large, now);
        if (status != PYDDSI_BAD_ARGUMENT)
            return status;
        status = pdi_echo_ask(&session->echo, session->node, large->publisher, large->size,
                              &large->own, now);
        if (status == PYDDSI_OK)
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
        if (session->closed)
            return PYDDSI_CLOSED;
        if (status == PYDDSI_OK && large->done < large->size &&
            pdi_session_now(session) >= large->slice) {
            large->paused = true;
            return PYDDSI_AGAIN;
        }
    }
    return status;
}

/* After a slice: whether to go on. Without any lock. */
static bool goes_on(pyddsi_session *session, struct large *large, pdi_session_go_on *go_on,
                    void *context)
{
    pdi_time now = pdi_session_now(session);
    if (now < large->slice)
        return true;
    large->slice = now + SLICE_NS;
    return go_on == NULL || go_on(context);
}

int pyddsi_session_put_large(pyddsi_session *session, uint32_t publisher, const void *data,
                             size_t size, uint64_t timeout_ns)
{
    return pdi_session_put_large(session, publisher, data, size, timeout_ns, NULL, NULL);
}

int pdi_session_put_large(pyddsi_session *session, uint32_t publisher, const void *data,
                          size_t size, uint64_t timeout_ns, pdi_session_go_on *go_on, void *context)
{
    struct large large = {.publisher = publisher, .data = data, .size = size};
    pdi_time until = pdi_time_add(pdi_session_now(session), timeout_ns);
    bool wanted = true;
    large.slice = pdi_session_now(session) + SLICE_NS;
    for (;;) { /* ends with the time, or the sample */
        uint32_t heard = pdi_session_listen(session);
        if (!pdi_session_enter(session)) {
            pdi_bell_unlisten(session->bell);
            return PYDDSI_CLOSED;
        }
        large.paused = false;
        int status = wanted ? put_pieces(session, &large) : PYDDSI_END;
        pdi_time left = pdi_time_until(pdi_session_now(session), until);
        bool over = status != PYDDSI_AGAIN || left == 0;
        if (over || !large.begun)
            (void)pdi_echo_end(&session->echo, session->node, &large.own, data, size, status,
                               pdi_session_now(session));
        if (over && status != PYDDSI_OK && large.begun)
            (void)pdi_node_end(session->node, publisher, 1, pdi_session_now(session));
        pdi_node_flush(session->node, pdi_session_now(session));
        pdi_session_send(session, PDI_APPLICATION);
        pdi_session_leave(session);
        if (over) {
            pdi_bell_unlisten(session->bell);
            return status;
        }
        if (large.paused)
            pdi_bell_unlisten(session->bell);
        else if (pyddsi_session_wait(session, heard, left < SLICE_NS ? left : SLICE_NS) ==
                 PYDDSI_CLOSED)
            return PYDDSI_CLOSED;
        wanted = goes_on(session, &large, go_on, context);
    }
}
