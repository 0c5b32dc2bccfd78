/* session_receive.c - the receive thread: packets in, in their order, and answers out.
 *
 *     fill       one call of the system brings what has come into the port's inbox    without a lock
 *     feed       some packets of the inbox at a time to the node                      with `lock`
 *     answer     acknowledgements and retransmissions leave                           after each burst
 *
 * The order in which the socket gave the packets of a conduit is the order in which the node gets them: a receiver takes a
 * number that is passed over for lost, and requests it again. What an inbox holds is fed to the end before the next call.
 *
 * One thread receives. Up to eight could, by turns, and no load was found on which the second one paid: the node is fed under
 * one lock, so that beside it only the system's copying and the sending of answers can go on (docs/inside/session.md).
 *
 * What goes through no inbox (connections, large packets) is received straight into the slot where the node reads it.
 */
#include "api/session_exits.h"
#include "api/session_tap.h"

#define BURST_MAX 64U /* packets that come in before answers go out, */
#define GRIP_MAX  8U  /* and of these, before others get the lock */

/* Sends acknowledgements and retransmissions. True: there may be more to be sent. */
static bool answer(pyddsi_session *session)
{
    pdi_lock_take(&session->lock);
    bool more = pdi_session_answer(session);
    pdi_session_leave(session);
    return more;
}

/* With the lock: the packet in the slot, unpacked from the inbox or received; or one still in the inbox that is larger than a
 * slot. */
static inline void feed_one(pyddsi_session *session, const uint8_t *data,
                            const pyddsi_endpoint *from, size_t size, bool unpacked, pdi_time now)
{
    if (session->closed) {
        return;
    }
    if (pdi_tap_is_on(&session->tap)) {
        struct pdi_tap_input input = {data, size, from, pdi_port_group(session->port, unpacked),
                                      unpacked};
        pdi_session_tap_input(session, &input, now);
        return;
    }
    pdi_session_input(session, from, data, size, unpacked, now);
}

/* One packet that goes straight into the slot, or none. Returns how many that were. */
static unsigned feed_straight(pyddsi_session *session)
{
    size_t room;
    size_t size;
    pyddsi_endpoint from;
    pdi_lock_take(&session->lock);
    uint8_t *slot = pdi_node_slot(session->node, &room);
    pdi_lock_give(&session->lock);
    if (pdi_port_receive(session->port, slot, room, &size, &from) != PYDDSI_OK) {
        return 0;
    }
    pdi_lock_take(&session->lock);
    feed_one(session, slot, &from, size, false, pdi_session_now(session));
    pdi_session_leave(session);
    return 1;
}

/* All that the inbox holds. Returns how many packets that were. */
static unsigned feed(pyddsi_session *session)
{
    unsigned count = 0;
    unsigned grip;
    do { /* ends with the inbox */
        size_t room;
        size_t size;
        const uint8_t *packet;
        pyddsi_endpoint from;
        if (count != 0 && count % BURST_MAX == 0) {
            (void)answer(session); /* the last one says whether there is more */
        }
        pdi_lock_take(&session->lock);
        pdi_time now = pdi_session_now(session);
        for (grip = 0; grip < GRIP_MAX; grip++) {
            if (!pdi_port_unpack(session->port, &packet, &size, &from)) {
                break;
            }
            uint8_t *slot = pdi_node_slot(session->node, &room);
            bool large = size > room; /* it is read where it lies */
            feed_one(session, large ? packet : memcpy(slot, packet, size), &from, size, true, now);
        }
        if (!session->closed) {
            pdi_node_retry(session->node, now); /* else housekeeping would have to wake for it */
        }
        pdi_session_leave(session);
        count += grip;
    } while (grip == GRIP_MAX);
    return count;
}

/* Takes in what has come, about a burst. Returns how many packets that were. */
static unsigned take_in(pyddsi_session *session)
{
    unsigned count = 0;
    unsigned some;
    do { /* each round has some packets */
        uint32_t packets;
        if (pdi_port_fill(session->port, &packets) != PYDDSI_OK) {
            break;
        }
        some = packets == 0 ? feed_straight(session) : 0;
        some += feed(session);
        count += some;
    } while (some != 0 && count < BURST_MAX);
    uint64_t before = pdi_atomic64_load_relaxed(&session->received);
    pdi_atomic64_store_relaxed(&session->received, before + count);
    return count;
}

/* Our own address has changed. */
static void move(pyddsi_session *session, const pyddsi_endpoint *local)
{
    pdi_lock_take(&session->local_lock);
    session->local = *local;
    pdi_lock_give(&session->local_lock);
    pdi_lock_take(&session->lock);
    if (!session->closed) {
        pdi_session_places(session);
        pdi_node_moved(session->node, pdi_session_now(session));
    }
    pdi_session_leave(session);
}

void pdi_session_receive(void *context)
{
    pyddsi_session *session = context;
    bool more = false;                                           /* there may be more to be sent */
    while (pdi_atomic32_load_acquire(&session->stopping) == 0) { /* until the session closes */
        unsigned count = take_in(session);
        if (pdi_port_watched(session->port)) {
            pdi_session_exits_told(session);
        }
        if (count != 0 || more) {
            more = answer(session);
            continue;
        }
        pyddsi_endpoint local;
        (void)pdi_port_wait(session->port, PDI_TIME_NEVER);
        (void)pdi_atomic64_add(&session->wakeups[PDI_RECEIVE], 1);
        if (pdi_port_moved(session->port, &local)) {
            move(session, &local);
        }
    }
}
