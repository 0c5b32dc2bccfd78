/* session_thread.c - how packets leave, and what the threads do that do not receive. */
#include <unistd.h>

#include "api/session_exits.h"
#include "api/session_tap.h"

#define PUMP_MAX     1024U
#define URGENT_BYTES 65536U /* of a parcel that needs no order */
#define ROUNDS_MAX   16U    /* parcels that one thread sends before it goes on with its own work */
#define PATIENCE_MS  20U    /* how long a thread waits for room in the system's buffer */

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

static void count_ring(pyddsi_session *session, bool woken)
{
    if (woken) {
        (void)pdi_atomic64_add(&session->bells_rung, 1);
    }
}

/* Lanes whose writers are to be told something. */
static void tell(pyddsi_session *session)
{
    if (session->lanes->tell != 0) {
        pdi_lanes_tell(session->lanes, pdi_session_now(session));
    }
}

/* What has changed for the lanes. True: housekeeping has to go on with it. */
static bool look_at_lanes(pyddsi_session *session)
{
    struct pdi_lanes *lanes = session->lanes;
    bool looked = false;
    tell(session);
    if (session->closed) {
        return false;
    }
    /* a lane that is moving waits for an acknowledgement, which is news */
    if (pdi_lanes_due(lanes) || (lanes->moving && pdi_node_news(session->node) != session->news)) {
        looked = true;
        session->moved |= pdi_lanes_look(lanes, pdi_session_now(session));
        tell(session);
    }
    return (looked && (lanes->moving || pdi_lanes_due(lanes))) || lanes->due < session->planned;
}

void pdi_session_leave(pyddsi_session *session)
{
    bool early = session->lanes != NULL && look_at_lanes(session);
    early = early || session->later < session->planned || pdi_node_path_due(session->node) ||
            pdi_node_due(session->node) < session->planned;
    uint64_t news = pdi_node_news(session->node);
    bool moved = session->moved || news != session->news;
    bool told = session->events != pdi_node_events(session->node);
    session->moved = 0;
    session->news = news;
    session->events = pdi_node_events(session->node);
    if (early) {
        session->planned = 0; /* it is being told: nobody else need do it */
    }
    pdi_lock_give(&session->lock);
    if (early) {
        count_ring(session, pdi_bell_ring(session->chores));
    }
    if (moved) {
        count_ring(session, session->barrier ? pdi_bell_ring_light(session->bell)
                                             : pdi_bell_ring(session->bell));
    }
    if (told) {
        (void)pdi_bell_ring(&session->told);
    }
}

/* ---- sending ---- */

/* Packets that one thread takes out at once and sends with one call. */
struct parcel {
    struct pdi_port_packet packets[PDI_PORT_MANY_MAX];
    uint32_t count;
    uint32_t used, room;
    uint8_t *bytes;
};

typedef int output_function(struct pdi_node *node, uint8_t *packet, size_t room, size_t *size,
                            pyddsi_endpoint *to, pdi_time now);

/* With the lock: takes out what there is, one packet behind the other, as far as there is room. */
static bool fill(pyddsi_session *session, struct parcel *parcel, output_function *output)
{
    size_t most = session->options.node.packet_max;
    pdi_time now = pdi_session_now(session);
    parcel->count = parcel->used = 0;
    while (parcel->count < PDI_PORT_MANY_MAX && parcel->room - parcel->used >= most) {
        struct pdi_port_packet *packet = &parcel->packets[parcel->count];
        uint8_t *at = parcel->bytes + parcel->used;
        size_t room = parcel->room - parcel->used;
        if (output(session->node, at, room, &packet->size, &packet->to, now) != PYDDSI_OK) {
            break;
        }
        packet->data = at;
        parcel->used += (uint32_t)packet->size;
        parcel->count++;
    }
    return parcel->count != 0;
}

/* Without the lock in hand, which is taken back. */
static void carry(pyddsi_session *session, struct parcel *parcel, enum pdi_session_thread thread)
{
    pdi_lock_give(&session->lock);
    if (pdi_tap_is_on(&session->tap)) {
        pdi_session_tap_sent(session, parcel->packets, parcel->count);
    }
    struct pdi_port_result result =
        pdi_port_send_many(session->port, parcel->packets, parcel->count,
                           thread == PDI_RECEIVE ? 0 : PATIENCE_MS * PDI_TIME_MS);
    (void)pdi_atomic64_add(&session->sent[thread], parcel->count);
    if (result.full != 0 || result.failed != 0) {
        (void)pdi_atomic64_add(&session->send_full, result.full);
        (void)pdi_atomic64_add(&session->send_failed, result.failed);
    }
    pdi_lock_take(&session->lock);
}

/* With both locks. True: there may be more. (Its frame is large, so it is entered only if there is something.) The parcel is the
 * session's, as there is one wire: it has room for two of the largest packets, and no thread has such a stack for certain. */
__attribute__((noinline)) static bool send_some(pyddsi_session *session,
                                                enum pdi_session_thread thread, unsigned rounds)
{
    struct parcel parcel = {.bytes = session->parcel, .room = PDI_PARCEL_BYTES};
    for (unsigned i = 0; i < rounds && session->port != NULL; i++) { /* null: closed meanwhile */
        if (!fill(session, &parcel, pdi_node_output)) {
            return false;
        }
        carry(session, &parcel, thread);
    }
    return true;
}

/* With the lock alone: what needs no order. */
__attribute__((noinline)) static void send_urgent(pyddsi_session *session,
                                                  enum pdi_session_thread thread)
{
    uint8_t bytes[URGENT_BYTES];
    struct parcel parcel = {.bytes = bytes, .room = sizeof bytes};
    while (fill(session, &parcel, pdi_node_output_urgent)) { /* ends with what is wanted */
        carry(session, &parcel, thread);
    }
}

void pdi_session_send_later(pyddsi_session *session, pdi_time now)
{
    pdi_time latest = now + session->options.node.latency_us * PDI_TIME_US;
    session->later = latest < session->later ? latest : session->later;
}

void pdi_session_send(pyddsi_session *session, enum pdi_session_thread thread)
{
    enum pdi_urge urge = pdi_node_urge(session->node);
    if (urge == PDI_URGE_NONE) {
        return;
    }
    if (session->options.one_stream && thread != PDI_HOUSEKEEPING && !session->closed) {
        session->later = 0;
        return;
    }
    if (!pdi_lock_try(&session->wire)) {
        if (urge != PDI_URGE_BRIM) {
            if (thread == PDI_HOUSEKEEPING) {
                /* a session must not end because another thread is slow */
                send_urgent(session, thread);
            }
            pdi_session_send_later(session, pdi_session_now(session));
            return; /* who has it looks once more, with the session's lock, before he gives it back */
        }
        pdi_lock_give(&session->lock);
        pdi_lock_take(&session->wire);
        pdi_lock_take(&session->lock);
    }
    session->later = send_some(session, thread, ROUNDS_MAX) ? 0 : PDI_TIME_NEVER;
    pdi_lock_give(&session->wire);
}

void pdi_session_send_last(pyddsi_session *session)
{
    if (!pdi_lock_try(&session->wire)) {
        pdi_lock_give(&session->lock);
        pdi_lock_take(&session->wire);
        pdi_lock_take(&session->lock);
    }
    (void)send_some(session, PDI_APPLICATION, ROUNDS_MAX);
    pdi_lock_give(&session->wire);
}

bool pdi_session_answer(pyddsi_session *session)
{
    bool more = false;
    if (pdi_node_urge(session->node) <= PDI_URGE_SMALL) {
        return false;
    }
    if (session->options.one_stream) {
        session->later = 0;
        return false;
    }
    send_urgent(session, PDI_RECEIVE);
    if (pdi_node_urge(session->node) > PDI_URGE_SMALL && pdi_lock_try(&session->wire)) {
        more = send_some(session, PDI_RECEIVE, 1);
        pdi_lock_give(&session->wire);
    }
    return more;
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

/* With the lock, which is given back meanwhile: how large a packet those take to whom a way has begun. */
static void measure(pyddsi_session *session)
{
    pyddsi_endpoint to;
    while (!session->closed && pdi_node_path_next(session->node, &to)) { /* each way once */
        pdi_lock_give(&session->lock);
        uint32_t bytes = pdi_port_carries(session->port, &to);
        pdi_lock_take(&session->lock);
        pdi_node_path(session->node, &to, bytes);
    }
}

/* Everything that is to be done now. Answers when there is more to do. */
static pdi_time work(pyddsi_session *session)
{
    pdi_time now = pdi_session_now(session);
    if (pdi_node_due(session->node) <= now) {
        pdi_node_tick(session->node, now);
    }
    pdi_session_exits_follow(session);
    attend(session, now);
    measure(session);
    /* it is set again if another is sending, but not to now, or we would spin */
    session->later = PDI_TIME_NEVER;
    pdi_session_send(session, PDI_HOUSEKEEPING);
    if (session->lanes != NULL && session->lanes->moving) {
        attend(session, now); /* it may have waited for what has just been sent */
    }
    pdi_time due = pdi_node_due(session->node);
    due = session->later < due ? session->later : due;
    return session->lanes != NULL && session->lanes->due < due ? session->lanes->due : due;
}

/* A stream of puts is due anew every few samples, and each time the one who puts would have to wake us: that costs it more than a
 * look every now and then costs us. So while more than one put comes in the time that one may wait, we plan to look that often. */
static pdi_time expect(pyddsi_session *session, pdi_time looked, pdi_time due)
{
    pdi_time now = pdi_session_now(session);
    pdi_time latency = session->options.node.latency_us * PDI_TIME_US;
    uint64_t puts = session->pushed - session->pushed_seen;
    session->pushed_seen = session->pushed;
    bool streams = latency != 0 && puts > 1 && puts > (now - looked) / latency;
    return streams && pdi_time_add(now, latency) < due ? pdi_time_add(now, latency) : due;
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
    pdi_time looked = 0;
    while (pdi_atomic32_load_acquire(&session->stopping) == 0) { /* until the session closes */
        pdi_lock_take(&session->lock);
        pdi_time due = expect(session, looked, work(session));
        looked = pdi_session_now(session);
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
        uint32_t heard = pdi_session_listen(session);
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
