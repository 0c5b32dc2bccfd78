/* session.h - what a session is made of.
 *
 *     application ── put, take, declare ──┐
 *                                         ▼
 *     receive ──── packets in ────────► lock ─► node ─► output ─► sockets
 *                                         ▲
 *     housekeeping ── when it is due ─────┘
 *
 * One lock guards the node. It is held for one packet, or one call, and never across a system call: a thread takes a
 * packet out of the node into a buffer of its own, gives the lock back, and then sends. So nobody waits for the network
 * with it in hand, and acknowledgements from the receive thread do not mix with what others pack.
 *
 * Why a lock, when the window's word was made to do without: two threads meet in far more than the window (plans, rings,
 * the books), and an uncontended lock costs less than the atomic operations that all of these would need. What must be fast
 * without one is the way between processes, and that has none: lanes (session_lane.c).
 *
 * Who wakes whom:
 *
 *     bell           rung when                                        who sleeps
 *     news           samples, room, events (pdi_node_news moved)      applications: put, take, waits
 *     housekeeping   the node is due earlier than was planned         the housekeeping thread
 *     (port)         the session closes                               the receive thread
 *
 * A fork copies memory but no threads. The word `here` lies in a page that the system wipes in a child, so there every
 * call finds 0 and answers CLOSED.
 */
#ifndef PDI_API_SESSION_H
#define PDI_API_SESSION_H

#include "api/lanes.h"
#include "host/bell.h"
#include "host/clock.h"
#include "host/lock.h"
#include "host/port.h"
#include "host/thread.h"
#include "node/node.h"
#include "pyddsi.h"

struct pyddsi_session {
    /* guarded by the lock */
    struct pdi_lock lock;
    struct pdi_node *node;
    pdi_time planned; /* when housekeeping will look by itself */
    pdi_time flushed; /* when an application last sent what it put at once */
    uint64_t news;    /* pdi_node_news when the bell was last rung */
    uint8_t closed;

    /* rung from anywhere */
    struct pdi_bell *bell;   /* news */
    struct pdi_bell *chores; /* housekeeping */
    struct pdi_bell bells[2]; /* which they are without shared memory; else those of the page */
    struct pdi_lanes *lanes;  /* null: none */

    /* set once */
    struct pdi_port *port;
    struct pdi_thread receive, housekeeping;
    pyddsi_session_options options;
    pyddsi_endpoint local;
    pdi_time begun; /* of the clock that never steps, */
    pdi_time wall;  /* and the same moment in time since 1970 */
    struct pdi_atomic32 *here;
    void *memory; /* of the node */
    size_t memory_size;

    /* counted by many */
    struct pdi_atomic32 stopping;
    struct pdi_atomic32 holders; /* the application, and each sample it has not released */
    struct pdi_atomic64 sent[3], send_full, send_failed, bells_rung, wakeups[2];

    /* the descriptor for event loops, made when it is asked for */
    struct pdi_thread relay;
    int relay_fd;
};

enum pdi_session_thread { PDI_RECEIVE, PDI_HOUSEKEEPING, PDI_APPLICATION };

static inline pdi_time pdi_session_now(const struct pyddsi_session *session)
{
    return pdi_clock_now() - session->begun;
}

/* While somebody waits for what readers of lanes release, they tell us. */
static inline void pdi_session_thirst(struct pyddsi_session *session, int change)
{
    if (session->lanes != NULL) {
        (void)pdi_atomic32_add(&session->lanes->page->thirsty, (uint32_t)change);
    }
}

/* Takes the lock. False, without it: the session is closed, or another process's. */
bool pdi_session_enter(pyddsi_session *session);
/* Gives it back, and wakes those whom the call concerns. */
void pdi_session_leave(pyddsi_session *session);
/* Sends all that the node wants to send now; called and left with the lock in hand. */
void pdi_session_send(pyddsi_session *session, enum pdi_session_thread thread);

/* The threads. */
void pdi_session_receive(void *session);
void pdi_session_housekeep(void *session);
void pdi_session_relay(void *session);

#endif
