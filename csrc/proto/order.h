/* order.h - the receiver's side of one conduit of one peer: what came, what is missing.
 *
 * Numbers here are whole counts, unwrapped from the wire's short ones, so they can be compared and
 * subtracted without a thought of the circle. Two of them say nearly everything:
 *
 *        expected                 end
 *           |  to be delivered     |  one past the last number that is known to exist
 *     ------+--x--k--k--x--x--k----+-----------
 *           |                            x missing: it will be asked for
 *           '-- the next one             k kept: it came early and waits for those before it
 *
 * The usual message is the expected one: the caller delivers it and the line moves on by one; no
 * table is touched. One that comes early is kept, so only what is really missing is asked for. (zhe
 * throws away whatever is not expected, and gets it all again after one loss.) What is kept is a
 * reference, which the caller chose: this module decides and remembers and never touches bytes.
 *
 *     input    a message came: deliver, keep, or drop it
 *     ready    the kept message whose turn has come; after it, as after each delivery, advance
 *     synch    the sender says what exists and what it still has
 *     skip     what it no longer has is passed over, and reported with first and last number
 *     ask      what the next ACKNACK says
 *
 * Invariants: expected <= end. Every kept number lies in expected .. expected + capacity - 1, where
 * it has an entry of its own; of a number from `marked` on nothing is kept and nothing was asked
 * for, whatever its entry holds. So the usual path leaves the table alone, and a conduit that loses
 * nothing never touches its memory. Bytes from outside can move all of these, but never break an
 * invariant: no check stands on a number from the wire.
 *
 * Asking. An ACKNACK with a mask always asks for the expected number (the wire implies that bit),
 * so the expected one paces all: while it was asked for less than `wait` ago nothing is asked, and
 * then each other one is included unless it was itself asked for less than `wait` ago. While nothing
 * comes in answer the pause doubles from the second question on, up to PDI_ORDER_ASK_SLOWEST: where
 * the repetitions do not arrive either, asking at the pace of the round trip is a flood.
 *
 * SYNCH(next, count) says that base = next - count is the oldest number the sender still has:
 *
 *     base <= expected <= next   it has all that is wanted; what lies before next exists
 *     expected < base            it gave up expected .. base - 1: what was kept of them is still
 *                                delivered, the rest is a gap
 *     next < expected            it says less than we have seen: an old SYNCH that was overtaken on
 *                                its way, or a sender that began anew
 *
 * The wire cannot tell the last two apart, and zhe jumps back at once. But on a fast conduit a
 * SYNCH that was late by a millisecond is a thousand numbers behind, and a jump back would deliver
 * those a second time; on the other hand, never to believe it would lock a sender that began anew
 * out for ever, as near as it may be. What does tell them apart is that one sender repeats itself:
 * SYNCHs from behind are believed when PDI_ORDER_BEHIND_MAX of them came in a row, each a while
 * after the one that was counted before, and nothing from expected on between them. A late SYNCH is
 * soon followed by what overtook it or by a newer one; a sender that began anew says nothing else.
 * Many at once are no evidence: a sender that stood still answers all that had piled up in one
 * moment, and a single message may overtake that whole pile. Nor is it how far behind they are. But a
 * receiver short of time reads such a pile slowly, and then it looks like the new beginning. So where
 * sessions have numbers a new beginning is a new session, and the order is `steady`: it never goes back.
 *
 * Numbers can be compared only within half a circle. What was late by more than that looks new; the
 * protocol has no cure, but a wider sequence number. A count of half a circle or more can be of no
 * sender and is refused.
 */
#ifndef PDI_PROTO_ORDER_H
#define PDI_PROTO_ORDER_H

#include <stdbool.h>

#include "base/check.h"
#include "base/seq.h"
#include "base/time.h"
#include "pyddsi.h"

#define PDI_ORDER_MASK_BITS    64 /* of our own ACKNACKs; */
#define PDI_ORDER_REACH_ZHE    32 /* of the numbers asked for at once zhe looks at so many */
#define PDI_ORDER_CAPACITY_MIN 2
#define PDI_ORDER_CAPACITY_MAX (UINT32_C(1) << 16)
#define PDI_ORDER_BEHIND_MAX   8 /* SYNCHs from behind, in a row, that make a new beginning, */
#define PDI_ORDER_BEHIND_APART (5 * PDI_TIME_MS) /* each so long after the last (a sender: 10 ms) */

#define PDI_ORDER_ASK_SLOWEST                                                                      \
    (200 * PDI_TIME_MS) /* between two questions that nothing came in answer to */

/* Jumps may carry a count forward by half a circle each; one beyond this begins anew, long before
 * an int64 overflows. */
#define PDI_ORDER_COUNT_MAX (INT64_C(1) << 62)

/* Where a kept message lies: chosen by the caller, opaque here. A slot of PDI_ORDER_EMPTY says that
 * nothing is kept. */
#define PDI_ORDER_EMPTY UINT32_MAX
struct pdi_kept {
    uint32_t slot;
    uint16_t at;     /* the first byte of the message in its slot, */
    uint16_t size;   /* and how many it has */
    uint64_t extra;  /* what else the caller needs to read it again: conduit, space, fragment .. */
    uint64_t extra2; /* and more of it */
    pdi_time asked;  /* the module's own: when, missing, it was asked for last; 0: never */
};

/* The caller may read everything, and writes `reach` and `steady` at first and `held`: while it is set, the caller holds the
 * delivery at expected, nothing is asked for and nothing is skipped. */
struct pdi_order {
    const struct pdi_seq *seq;
    struct pdi_kept *kept; /* [capacity]; that of a number is kept[number & (capacity - 1)] */
    uint32_t capacity;
    uint8_t synched;
    uint8_t held;
    uint8_t best_seen; /* best effort: one came */
    uint8_t reach;     /* numbers that one NACK asks for at most */
    uint8_t steady;    /* of a sender that begins anew in another session only */
    uint8_t behind;    /* SYNCHs from behind in a row, */
    int64_t behind_at; /* while this was expected; */
    pdi_time since;    /* when the first of them came, */
    pdi_time counted;  /* and the last */
    int64_t expected;
    int64_t end;  /* one past the last number that is known to exist */
    int64_t base; /* the sender gave up what lies before it */
    int64_t
        marked; /* from here on nothing is kept and nothing was asked for, whatever the entries hold */
    uint32_t count;         /* how many are kept */
    uint32_t asked_count;   /* how many were kept when it was asked last, */
    int64_t asked_expected; /* what was expected then, */
    uint32_t asks;          /* and how often, with nothing in between, before that */
    int64_t best_next;      /* best effort: the next number that is not old */
};

enum pdi_order_verdict {
    PDI_ORDER_NEXT,     /* it is expected: deliver it, then pdi_order_advance (or keep it) */
    PDI_ORDER_EARLY,    /* keep it: pdi_order_keep. Or drop it: it will be asked for */
    PDI_ORDER_REPEAT,   /* it came before: delivered, skipped, or kept */
    PDI_ORDER_FAR,      /* it cannot be kept, but is known to exist and will be asked for */
    PDI_ORDER_UNSYNCHED /* no SYNCH came yet; the sender will repeat it */
};

/* first .. last will not be delivered any more. */
struct pdi_gap {
    int64_t first, last;
    uint64_t lost; /* how many these are */
};

/* Makes the order of a conduit that waits for its first SYNCH, with `kept[capacity]`, which need
 * not be cleared. `seq` must live as long.
 * PYDDSI_OK; PYDDSI_BAD_ARGUMENT if capacity is not a power of two in PDI_ORDER_CAPACITY_MIN ..
 * PDI_ORDER_CAPACITY_MAX, or more than half a circle. */
int pdi_order_init(struct pdi_order *order, const struct pdi_seq *seq, struct pdi_kept *kept,
                   uint32_t capacity);

/* Expects number 0 without a SYNCH, as a client of a broker does. Nothing may be kept. */
void pdi_order_start(struct pdi_order *order);

/* pdi_order_input where the message is not simply the expected one. */
enum pdi_order_verdict pdi_order_input_other(struct pdi_order *order, uint64_t sn, int64_t *number);

/* A reliable message with this wire number came. *number is its count, if not UNSYNCHED. */
static inline enum pdi_order_verdict pdi_order_input(struct pdi_order *order, uint64_t sn,
                                                     int64_t *number)
{
    int64_t expected = order->expected;
    if (sn == pdi_seq_wrap(order->seq, expected) && expected >= order->marked && order->synched) {
        *number = expected;
        if (order->end == expected) {
            order->end = expected + 1;
        }
        return PDI_ORDER_NEXT;
    }
    return pdi_order_input_other(order, sn, number);
}

/* Remembers where the message lies that input just called EARLY, or NEXT. */
void pdi_order_keep(struct pdi_order *order, int64_t number, const struct pdi_kept *kept);

/* The kept message at expected, or null; it stays until pdi_order_advance. */
static inline const struct pdi_kept *pdi_order_ready(const struct pdi_order *order)
{
    if (order->expected >= order->marked) {
        return NULL;
    }
    const struct pdi_kept *kept =
        &order->kept[(uint64_t)order->expected & (order->capacity - UINT64_C(1))];
    return kept->slot == PDI_ORDER_EMPTY ? NULL : kept;
}

/* pdi_order_advance over an entry that may have to be cleared. */
void pdi_order_advance_marked(struct pdi_order *order);

/* expected was delivered, whether it came just now or was kept. */
static inline void pdi_order_advance(struct pdi_order *order)
{
    PDI_CHECK(order->synched && order->expected < order->end);
    if (order->expected < order->marked) {
        pdi_order_advance_marked(order);
    }
    order->expected++;
}

/* A SYNCH came now: `sn` is the sender's next number, `count` of those before it are not
 * acknowledged.
 * PYDDSI_OK: done; pdi_order_skip may have something to tell now, and pdi_order_ready after it.
 * PYDDSI_AGAIN: the sender began anew, or the conduit waited for a SYNCH, and messages of the past
 * are still kept: take them out with pdi_order_clear and call again.
 * PYDDSI_END: the sender of a steady order says that it began anew, and has said so since order->since; nothing has changed.
 * PYDDSI_BAD_INPUT: the count is half a circle or more; nothing has changed. */
int pdi_order_synch(struct pdi_order *order, uint64_t sn, uint64_t count, pdi_time now);

/* Whether a SYNCH with this number is from behind: it says less than we have seen. */
static inline bool pdi_order_is_behind(const struct pdi_order *order, uint64_t sn)
{
    return order->synched && pdi_seq_unwrap(order->seq, order->expected, sn) < order->expected;
}

/* The next step over what the sender gave up. PYDDSI_OK: *gap was passed over; it ends before the
 * next kept message or before the sender's base. PYDDSI_END: expected is kept, or held, or the
 * sender has it. The caller alternates: deliver all that is ready, skip, until both say no. */
int pdi_order_skip(struct pdi_order *order, struct pdi_gap *gap);

/* Takes out some kept message, as before the end of the conduit. PYDDSI_OK; PYDDSI_END: none is
 * left. */
int pdi_order_clear(struct pdi_order *order, struct pdi_kept *kept);

/* What an ACKNACK says now. *sn is the wire number of expected: all before it is acknowledged.
 * Answers 1 if something is to be asked for: expected, and for each bit i of *mask the number
 * expected + 1 + i; they count as asked for at `now`. Answers 0, with *mask 0, if nothing that may
 * be kept is missing, or it was asked for less than `wait` (or a longer pause) ago, or delivery is held. Before the
 * first SYNCH there is nothing to acknowledge, and *sn is 0. */
int pdi_order_ask(struct pdi_order *order, pdi_time now, pdi_time wait, uint64_t *sn,
                  uint64_t *mask);

/* When pdi_order_ask next answers 1, if nothing comes meanwhile; 0 is at once. PDI_TIME_NEVER if
 * nothing is missing, or delivery is held. */
pdi_time pdi_order_due(const struct pdi_order *order, pdi_time wait);

/* A best effort message with this wire number came; these count on their own. Answers 1 if it is to
 * be delivered and 0 if it is old. *number is its count, and *lost how many before it did not come
 * (0 for the first ever). */
static inline int pdi_order_best(struct pdi_order *order, uint64_t sn, int64_t *number,
                                 uint64_t *lost)
{
    int64_t next = order->best_next;
    int64_t at = pdi_seq_unwrap(order->seq, next, sn);
    *lost = 0;
    if (!order->best_seen || at > PDI_ORDER_COUNT_MAX) {
        order->best_seen = 1;
        at = (int64_t)sn;
        next = at;
    }
    *number = at;
    if (at < next) {
        return 0;
    }
    *lost = (uint64_t)(at - next);
    order->best_next = at + 1;
    return 1;
}

#endif
