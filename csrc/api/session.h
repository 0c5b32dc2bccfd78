/* session.h - what a session is made of.
 *
 *     application ── put, take, declare ──┐
 *                                         ▼
 *     receive ──── packets in ────────► lock ─► node ─► output ─► sockets
 *                                         ▲
 *     housekeeping ── when it is due ─────┘
 *
 * One lock guards the node. It is held for some packets, or one call, and never across a system call that waits: a thread takes
 * packets out of the node into a parcel of its own, gives the lock back, and then sends. So nobody waits for the network
 * with it in hand, and acknowledgements from the receive thread do not mix with what others pack.
 *
 * Order. What was taken out must leave before what is taken out later, or a receiver sees gaps that are none, and asks
 * for all of it again; and the fragments of a large sample would have another's small one in their midst. So only one
 * thread at a time takes out new messages and sends them: the one that has `wire`.
 *
 *     who wants to send       wire is free        another has it
 *     application             sends it all        goes on: the other looks again, with the lock, before it gives wire back.
 *                                                 Only if best effort is full, which waits for no window, it waits here
 *     housekeeping            likewise            likewise, but for what needs no order: that it sends without it
 *     receive: answers        without it          without it: they need no order
 *     receive: the rest       one parcel          goes on
 *
 * So acknowledgements, PONGs and repetitions never wait for a publisher's parcel, but for the time that it takes to fill
 * one with the lock in hand. They may overtake new messages, and nothing is wrong with that: an acknowledgement is of
 * another direction, and a repetition is of older ones. (A SYNCH is not among them: it says how far the sender is.) Nobody
 * is kept sending for others for ever: after some parcels the rest is left to housekeeping (`later`).
 *
 * A transport that cannot take packets from several threads asks for one stream of them (option one_stream): then all but
 * housekeeping leave what is to be sent to that. It costs a waking for each burst, and best effort that comes faster
 * than housekeeping does is dropped.
 *
 * Why not tickets, drawn with the lock and sent in turn: then each thread would wait for all before it, and a publisher
 * with a small sample for the system calls of one with large ones. Here it leaves its sample and goes on.
 *
 * Why a lock, when the window's word was made to do without: two threads meet in far more than the window (plans, rings,
 * the books), and an uncontended lock costs less than the atomic operations that all of these would need. What must be fast
 * without one is the way between processes, and that has none: lanes (lanes.h).
 *
 * Who wakes whom:
 *
 *     bell           rung when                                        who sleeps
 *     news           samples, room, events (pdi_node_news moved)      applications: put, take, waits
 *     chores         the node is due earlier than was planned,        the housekeeping thread
 *                    or a neighbour wants something (lanes.h)
 *     (port)         the session closes                               the receive thread
 *
 * Whoever sleeps listens first, then looks once more, and then sleeps; what he looks for is changed before the bell is rung.
 * For housekeeping that is: planned (with the lock), attention and stopping (after it listens).
 *
 * The end. Close may be called more than once, and by several threads; each sample that was taken, each close under way and
 * the application hold the session, and the last of them destroys it. So samples may be released after free, from any
 * thread. Other calls may not: they return before free is called, as close makes them do.
 *
 * A fork copies memory but no threads. The word `here` lies in a page that the system wipes in a child, so there every
 * call finds 0 and answers CLOSED, and nothing there touches what is shared with the parent.
 */
#ifndef PDI_API_SESSION_H
#define PDI_API_SESSION_H

#include "api/echo.h"
#include "api/lanes.h"
#include "api/tap.h"
#include "host/bell.h"
#include "host/clock.h"
#include "host/exits.h"
#include "host/lock.h"
#include "host/port_many.h"
#include "host/thread.h"
#include "node/node.h"
#include "pyddsi.h"

/* Processes of peers: session_exits.h. */
struct pdi_watched {
    struct pdi_exits exits;
    uint32_t *epochs; /* by peer: of the session that was looked at, plus one; 0: none */
    uint32_t changes; /* of peers, when last looked at */
    uint64_t host;    /* in whose tokens process numbers mean something here */
    bool on;
};

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): grouped by who may touch it. */
struct pyddsi_session {
    /* guarded by the lock */
    struct pdi_lock lock;
    struct pdi_node *node;
    pdi_time planned;             /* when housekeeping will look by itself, */
    uint64_t pushed, pushed_seen; /* puts, and those that it knows of */
    uint8_t *parcel;              /* of who has the wire */
    pdi_time later;               /* and when it has to, for what others have left to be sent */
    pdi_time flushed;             /* when an application last sent what it put at once */
    uint64_t news;                /* pdi_node_news when the bell was last rung */
    uint32_t events;              /* pdi_node_events when their bell was last rung */
    uint8_t moved;                /* it is to be rung in any case */
    struct pdi_echo echo;
    struct pdi_watched watched;
    uint8_t closed;
    /* held by the one thread that takes new messages out and sends them; may be held when `lock` is
     * taken, and must not be waited for with that in hand */
    struct pdi_lock wire;

    /* rung from anywhere */
    PDI_CACHE_ALIGNED struct pdi_bell *bell; /* news */
    struct pdi_bell *chores;                 /* housekeeping */
    struct pdi_bell bells[2]; /* which they are without shared memory; else those of the page */
    struct pdi_bell told;     /* events alone, which are rare: for the thread that logs them */
    struct pdi_lanes *lanes;  /* null: none */

    /* set once */
    struct pdi_port *port;
    struct pdi_thread housekeeping, receiving;
    bool barrier; /* there are lanes, and the system has one: whoever listens to `bell` passes it */
    pyddsi_session_options options;
    pdi_time begun; /* of the clock that never steps, */
    pdi_time wall;  /* and the same moment in time since 1970 */
    struct pdi_atomic32 *here;
    void *memory; /* of the node */
    size_t memory_size;

    /* our own address, which may change; under a lock that nothing else is taken with */
    struct pdi_lock local_lock;
    pyddsi_endpoint local;

    /* a recording: session_tap.h */
    struct pdi_tap tap;

    /* counted by many */
    struct pdi_atomic32 stopping;
    struct pdi_atomic32 holders;  /* see above */
    struct pdi_atomic64 received; /* packets; written by the receive thread */
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

/* Whether this is the process that opened it. */
static inline bool pdi_session_here(const struct pyddsi_session *session)
{
    return pdi_atomic32_load_relaxed(session->here) != 0;
}

/* Our address now; with or without the lock. */
static inline pyddsi_endpoint pdi_session_local(pyddsi_session *session)
{
    if (!pdi_session_here(session)) {
        return session
            ->local; /* a child's copy of the lock may have been held when it was forked */
    }
    pdi_lock_take(&session->local_lock);
    pyddsi_endpoint local = session->local;
    pdi_lock_give(&session->local_lock);
    return local;
}

/* The lane of a publisher, or null. */
static inline struct pdi_lane_out *pdi_session_lane(const struct pyddsi_session *session,
                                                    uint32_t publisher)
{
    return session->lanes != NULL ? pdi_lanes_of(session->lanes, publisher) : NULL;
}

/* Takes the lock. False, without it: the session is closed, or another process's. */
bool pdi_session_enter(pyddsi_session *session);
/* Gives it back, and wakes those whom the call concerns. */
void pdi_session_leave(pyddsi_session *session);
/* Sends all that the node wants to send now, or leaves it to the thread that is doing so. Called and left with the lock in
 * hand, which is given back meanwhile: the session may be closed after it. */
void pdi_session_send(pyddsi_session *session, enum pdi_session_thread thread);
/* The same; but if somebody else is sending it waits for its turn, so that what is there has left when it answers. */
void pdi_session_send_last(pyddsi_session *session);
/* Housekeeping will, if nobody has by the time that a sample may wait for others. */
/* A packet to the node: in its slot, or `unpacked` and larger than that. */
static inline void pdi_session_input(pyddsi_session *session, const pyddsi_endpoint *from,
                                     const uint8_t *data, size_t size, bool unpacked, pdi_time now)
{
    if (unpacked && size > session->options.node.packet_max) {
        pdi_node_input_at(session->node, from, data, size, now);
    } else {
        pdi_node_input(session->node, from, size, now);
    }
}
#define PDI_PARCEL_BYTES (UINT32_C(2) << 16)
void pdi_session_send_later(pyddsi_session *session, pdi_time now);

/* One sample, by whatever ways there are; with the lock. */
struct pdi_put {
    uint32_t publisher;
    const void *data;
    size_t size;
};
int pdi_session_put(pyddsi_session *session, const struct pdi_put *put, pdi_time now);

/* Begins to listen to `bell`. All who do come by here, since it is rung lightly. */
static inline uint32_t pdi_session_listen(struct pyddsi_session *session)
{
    uint32_t heard = pdi_bell_listen(session->bell);
    if (session->barrier) {
        pdi_barrier_heavy();
    }
    return heard;
}

/* Room for what waits for readers of our own: whoever put it is to look again. */
static inline void pdi_session_made_room(pyddsi_session *session)
{
    session->moved |= session->echo.waits;
    session->echo.waits = 0;
}

/* What the node asks of us: env.h. */
void pdi_session_env(pyddsi_session *session);

/* After something was written: sends it, if it is not to wait for company. */
void pdi_session_push(pyddsi_session *session, pdi_time now);

/* What an application waits for: tries, with the lock, until it is done, will never be, or the time is over. OK,
 * BAD_ARGUMENT or AGAIN from each attempt. */
typedef int pdi_session_attempt(pyddsi_session *session, void *context, pdi_time now);
int pdi_session_try(pyddsi_session *session, pdi_session_attempt *attempt, void *context,
                    uint64_t timeout_ns);

/* Opens all sockets, and settles who is asked one by one. OK, or negative and a text. */
int pdi_session_open_port(pyddsi_session *session, char *text);
/* The node hears where packets reach us. With the lock, or before there are threads. */
void pdi_session_places(pyddsi_session *session);

/* pyddsi_session_put_large, which asks every tenth of a second whether to go on, without any lock. False: it gives the
 * sample up, and answers END. */
typedef bool pdi_session_go_on(void *context);
int pdi_session_put_large(pyddsi_session *session, uint32_t publisher, const void *data,
                          size_t size, uint64_t timeout_ns, pdi_session_go_on *go_on,
                          void *context);

/* What the receive thread has to say goes at once, whoever else is sending. New messages go if nobody else sends. With the
 * lock. True: there may be more of them. */
bool pdi_session_answer(pyddsi_session *session);

/* The threads. */
void pdi_session_receive(void *context);
void pdi_session_housekeep(void *context);
void pdi_session_relay(void *context);

#endif
