/* session_thread.c - what the threads of a session do, and how packets leave. */
#include <unistd.h>

#include "api/session.h"

#define BURST_MAX 32U /* packets that come in before answers go out */
#define PUMP_MAX  1024U

bool pdi_session_enter(pyddsi_session *session)
{
    if (!pdi_session_here(session)) {
        return false; /* nobody would ever give the lock back in a child that was forked while it was held */
    }
    pdi_lock_take(&session->lock);
    if (session->closed) {
        pdi_lock_give(&session->lock);
        return false;
    }
    return true;
}

static void ring(pyddsi_session *session, struct pdi_bell *bell)
{
    if (pdi_bell_ring(bell)) {
        (void)pdi_atomic64_add(&session->bells_rung, 1);
    }
}

/* What has changed for the lanes. True: housekeeping has to go on with it. */
static bool look_at_lanes(pyddsi_session *session)
{
    struct pdi_lanes *lanes = session->lanes;
    bool looked = false;
    pdi_lanes_tell(lanes);
    if (session->closed) {
        return false;
    }
    /* a lane that is moving waits for an acknowledgement, which is news */
    if (pdi_lanes_due(lanes) || (lanes->moving && pdi_node_news(session->node) != session->news)) {
        looked = true;
        session->moved |= pdi_lanes_look(lanes, pdi_session_now(session));
        pdi_lanes_tell(lanes);
    }
    return (looked && (lanes->moving || pdi_lanes_due(lanes))) || lanes->due < session->planned;
}

void pdi_session_leave(pyddsi_session *session)
{
    bool early = session->lanes != NULL && look_at_lanes(session);
    early = early || pdi_node_due(session->node) < session->planned;
    uint64_t news = pdi_node_news(session->node);
    bool moved = session->moved || news != session->news;
    session->moved = 0;
    session->news = news;
    if (early) {
        session->planned = 0; /* it is being told: nobody else need do it */
    }
    pdi_lock_give(&session->lock);
    if (early) {
        ring(session, session->chores);
    }
    if (moved) {
        ring(session, session->bell);
    }
}

void pdi_session_send(pyddsi_session *session, enum pdi_session_thread thread)
{
    uint8_t packet[PYDDSI_PACKET_MAX];
    pyddsi_endpoint to;
    size_t size;
    while (pdi_node_output(session->node, packet, sizeof packet, &size, &to,
                           pdi_session_now(session)) ==
           PYDDSI_OK) { /* ends with what the windows hold */
        pdi_lock_give(&session->lock);
        int status = pdi_port_send(session->port, &to, packet, size);
        (void)pdi_atomic64_add(&session->sent[thread], 1);
        if (status != PYDDSI_OK) {
            (void)pdi_atomic64_add(
                status == PYDDSI_AGAIN ? &session->send_full : &session->send_failed, 1);
        }
        pdi_lock_take(&session->lock);
    }
}

/* ---- receive ---- */

/* Takes in what has come, up to a burst. Answers how many packets that were. */
static unsigned take_in(pyddsi_session *session)
{
    unsigned count = 0;
    while (count < BURST_MAX) {
        size_t room;
        size_t size;
        pyddsi_endpoint from;
        pdi_lock_take(&session->lock);
        uint8_t *slot = pdi_node_slot(session->node, &room);
        pdi_lock_give(&session->lock);
        /* The slot is ours alone until input: only this thread asks for one. */
        if (pdi_port_receive(session->port, slot, room, &size, &from) != PYDDSI_OK) {
            break;
        }
        pdi_lock_take(&session->lock);
        if (!session->closed) {
            pdi_node_input(session->node, &from, size, pdi_session_now(session));
        }
        pdi_session_leave(session);
        count++;
    }
    return count;
}

void pdi_session_receive(void *context)
{
    pyddsi_session *session = context;
    while (pdi_atomic32_load_acquire(&session->stopping) == 0) { /* until the session closes */
        if (take_in(session) == 0) {
            (void)pdi_port_wait(session->port, PDI_TIME_NEVER);
            (void)pdi_atomic64_add(&session->wakeups[PDI_RECEIVE], 1);
            continue;
        }
        pdi_lock_take(&session->lock);
        pdi_session_send(session, PDI_RECEIVE);
        pdi_session_leave(session);
    }
}

/* ---- housekeeping ---- */

/* What others have put into our page, or want of us. */
static void attend(pyddsi_session *session, pdi_time now)
{
    struct pdi_lanes *lanes = session->lanes;
    if (lanes == NULL || session->closed) {
        return;
    }
    bool asked = pdi_atomic32_and(&lanes->page->attention, 0) != 0;
    if (asked || pdi_lanes_due(lanes) || lanes->moving || lanes->due <= now) {
        session->moved |= pdi_lanes_look(lanes, now);
    }
    if (asked) {
        pdi_lanes_pump(lanes, PUMP_MAX, now); /* also what has only just begun */
    }
}

/* Everything that is to be done now. Answers when there is more to do. */
static pdi_time work(pyddsi_session *session)
{
    pdi_time now = pdi_session_now(session);
    if (pdi_node_due(session->node) <= now) {
        pdi_node_tick(session->node, now);
    }
    attend(session, now);
    pdi_session_send(session, PDI_HOUSEKEEPING);
    if (session->lanes != NULL && session->lanes->moving) {
        attend(session, now); /* it may have waited for what has just been sent */
    }
    pdi_time due = pdi_node_due(session->node);
    return session->lanes != NULL && session->lanes->due < due ? session->lanes->due : due;
}

/* After we have begun to listen: whether somebody has asked for something before that. */
static bool is_asked(const pyddsi_session *session)
{
    return pdi_atomic32_load_acquire(&session->stopping) != 0 ||
           (session->lanes != NULL &&
            pdi_atomic32_load_acquire(&session->lanes->page->attention) != 0);
}

void pdi_session_housekeep(void *context)
{
    pyddsi_session *session = context;
    while (pdi_atomic32_load_acquire(&session->stopping) == 0) { /* until the session closes */
        pdi_lock_take(&session->lock);
        pdi_time due = work(session);
        session->planned = due;
        uint32_t heard = pdi_bell_listen(session->chores);
        pdi_session_leave(session);
        pdi_time now = pdi_session_now(session);
        if (due <= now || is_asked(session)) {
            pdi_bell_unlisten(session->chores);
            continue;
        }
        (void)pdi_bell_wait(session->chores, heard, pdi_time_until(now, due));
        (void)pdi_atomic64_add(&session->wakeups[PDI_HOUSEKEEPING], 1);
    }
}

/* ---- for event loops: the bell as a descriptor ---- */

void pdi_session_relay(void *context)
{
    pyddsi_session *session = context;
    const uint64_t one = 1;
    while (pdi_atomic32_load_acquire(&session->stopping) == 0) { /* until the session closes */
        uint32_t heard = pdi_bell_listen(session->bell);
        /* between two waits nobody tells us; so whatever there was is told now */
        (void)!write(session->relay_fd, &one, sizeof one);
        if (pdi_atomic32_load_acquire(&session->stopping) != 0) {
            pdi_bell_unlisten(session->bell);
            break;
        }
        (void)pdi_bell_wait(session->bell, heard, PDI_TIME_NEVER);
    }
    (void)!write(session->relay_fd, &one, sizeof one);
}
