/* session_receive.c - the receive threads: packets in, in their order, and answers out.
 *
 * Usually there is one, and it does all three by turns. With the option receive_threads there are several, which do them at
 * the same time:
 *
 *     take      what one call of the system brings, into an inbox of one's own     with `taking` in hand
 *     feed      the inbox to the node, some packets at a time                      with `feeding`, and `lock` for each time
 *     answer    acknowledgements and repetitions, in a parcel of one's own         with neither
 *
 *     thread 1   take │ feed ───────── │ answer │ sleeps until it gets `taking`
 *     thread 2          │ take │ waits   │ feed ───────── │ answer │ ...
 *     thread 3                           │ take │ waits   │ feed ...
 *
 * Order. The packets of a conduit must reach the node as the socket gave them: a receiver takes for lost what is passed
 * over, and asks for it again. So the locks go from hand to hand: who has taken keeps `taking` until he has `feeding`, and
 * so nobody can take what comes later and feed it earlier. What an inbox holds is fed to the end before the next one's
 * turn, with answers in between, so that senders hear of it in time.
 *
 * Why not tickets, drawn with each call and fed in turn: threads could then take further ahead. But the node is fed by one
 * at a time in any case, and the system keeps what nobody has taken; two locks and no number do the same.
 *
 * Who wakes. All but one sleep until they get `taking`, so a packet wakes one thread, and an idle session is as quiet as
 * with one. That one keeps `taking` while it feeds and answers, as if it were alone, and gives it away only if its call
 * brought so much that others have time to wake meanwhile (ROUSE_MIN). At the end they wake each other: who gets `taking`
 * looks whether the session closes before he waits, and passes it on.
 *
 * What goes through no inbox (connections, large packets) is received by who has both locks, straight into the slot where
 * the node reads it. So the slot belongs to who has `feeding`.
 */
#include "api/session_exits.h"
#include "api/session_tap.h"

#define BURST_MAX 64U /* packets that come in before answers go out, */
#define GRIP_MAX  8U  /* and of these, before others get the lock */
#define ROUSE_MIN 8U  /* packets of one call that take longer to feed than a thread takes to wake */

/* Says what is to be said, without the lock in hand. */
static void answer(struct pdi_receiver *receiver)
{
    pyddsi_session *session = receiver->session;
    pdi_lock_take(&session->lock);
    receiver->more = pdi_session_answer(session);
    if (receiver->more && !receiver->takes) {
        receiver->more = 0; /* we may sleep next: housekeeping goes on with it */
        session->later = 0;
    }
    pdi_session_leave(session);
}

/* With `feeding` and the lock: the packet in the slot, unpacked from the inbox or received; or one still in the inbox that is
 * larger than a slot. */
static inline void feed_one(struct pdi_receiver *receiver, const uint8_t *data,
                            const pyddsi_endpoint *from, size_t size, bool unpacked, pdi_time now)
{
    pyddsi_session *session = receiver->session;
    if (session->closed) {
        return;
    }
    if (pdi_tap_is_on(&session->tap)) {
        struct pdi_tap_input input = {
            data, size, from, pdi_port_group(session->port, receiver->inbox, unpacked), unpacked};
        pdi_session_tap_input(session, &input, now);
        return;
    }
    pdi_session_input(session, from, data, size, unpacked, now);
}

/* With both: one packet that goes straight into the slot, or nothing. */
static unsigned feed_straight(struct pdi_receiver *receiver)
{
    pyddsi_session *session = receiver->session;
    size_t room;
    size_t size;
    pyddsi_endpoint from;
    pdi_lock_take(&session->lock);
    uint8_t *slot = pdi_node_slot(session->node, &room);
    pdi_lock_give(&session->lock);
    if (pdi_port_receive(session->port, receiver->inbox, slot, room, &size, &from) != PYDDSI_OK) {
        return 0;
    }
    pdi_lock_take(&session->lock);
    feed_one(receiver, slot, &from, size, false, pdi_session_now(session));
    pdi_session_leave(session);
    return 1;
}

/* With `feeding`: all that the inbox holds. Answers how many packets that were. */
static unsigned feed(struct pdi_receiver *receiver)
{
    pyddsi_session *session = receiver->session;
    unsigned count = 0;
    unsigned grip;
    do { /* ends with the inbox */
        size_t room;
        size_t size;
        const uint8_t *packet;
        pyddsi_endpoint from;
        if (count != 0 && count % BURST_MAX == 0) {
            answer(receiver);
        }
        pdi_lock_take(&session->lock);
        pdi_time now = pdi_session_now(session);
        for (grip = 0; grip < GRIP_MAX; grip++) {
            if (!pdi_port_unpack(session->port, receiver->inbox, &packet, &size, &from)) {
                break;
            }
            uint8_t *slot = pdi_node_slot(session->node, &room);
            bool large = size > room; /* it is read where it lies */
            feed_one(receiver, large ? packet : memcpy(slot, packet, size), &from, size, true, now);
        }
        pdi_session_leave(session);
        count += grip;
    } while (grip == GRIP_MAX);
    return count;
}

/* With `taking`: takes in what has come, about a burst, unless that is given away. Answers how many packets that were. */
static unsigned take_in(struct pdi_receiver *receiver)
{
    pyddsi_session *session = receiver->session;
    unsigned count = 0;
    unsigned some;
    do { /* each round has some packets */
        uint32_t packets;
        if (pdi_port_fill(session->port, receiver->inbox, &packets) != PYDDSI_OK) {
            break;
        }
        pdi_lock_take(&session->feeding);
        if (packets >= ROUSE_MIN && session->receivers_count > 1) {
            receiver->takes = 0;
            pdi_lock_give(&session->taking);
        }
        some = packets == 0 ? feed_straight(receiver) : 0;
        some += feed(receiver);
        pdi_lock_give(&session->feeding);
        count += some;
    } while (some != 0 && receiver->takes && count < BURST_MAX);
    uint64_t before = pdi_atomic64_load_relaxed(&receiver->received);
    pdi_atomic64_store_relaxed(&receiver->received, before + count);
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
    struct pdi_receiver *receiver = context;
    pyddsi_session *session = receiver->session;
    while (pdi_atomic32_load_acquire(&session->stopping) == 0) { /* until the session closes */
        if (!receiver->takes) {
            pdi_lock_take(&session->taking);
            receiver->takes = 1;
            continue; /* the session may have closed meanwhile */
        }
        unsigned count = take_in(receiver);
        if (receiver->takes && pdi_port_watched(session->port)) {
            pdi_session_exits_told(session);
        }
        if (count == 0 && !receiver->more && receiver->takes) {
            pyddsi_endpoint local;
            (void)pdi_port_wait(session->port, PDI_TIME_NEVER);
            (void)pdi_atomic64_add(&session->wakeups[PDI_RECEIVE], 1);
            if (pdi_port_moved(session->port, &local)) {
                move(session, &local);
            }
            continue;
        }
        answer(receiver);
    }
    if (receiver->takes) {
        pdi_lock_give(&session->taking);
    }
}
