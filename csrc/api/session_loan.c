/* session_loan.c - samples that are written in place.
 *
 * A loan lies where its sample will be sent from: in the lane, if the publisher has one that is in use, else in the window
 * that the node finds. Who gets it is decided when it is committed: by then the lane may have got other readers, or none,
 * or have just begun, and those that it does not reach where it lies get a copy.
 *
 *     handle    generation (16 bits) | 1 in a lane | lane | row
 */
#include "api/session_tap.h"

#define LANE_LOAN UINT32_C(0x8000) /* the node's indexes are smaller */
#define ROW_BITS  6U

_Static_assert(PDI_LANE_LOANS_MAX == 1U << ROW_BITS && PDI_LANES_MAX << ROW_BITS <= LANE_LOAN,
               "a handle has room for lane and row");

struct borrow {
    uint32_t publisher;
    size_t size;
    uint8_t **data;
    uint32_t *loan;
};

/* With the lane's lock. Answers as pdi_lane_room. */
static int lend(struct pdi_lanes *lanes, struct pdi_lane_out *lane, const struct borrow *borrow)
{
    struct pdi_lane_loan loan;
    uint32_t size = borrow->size <= PDI_LANE_BYTES_MAX ? (uint32_t)borrow->size : UINT32_MAX;
    int status = pdi_lane_reserve(&lane->writer, size, &loan);
    if (status != PYDDSI_OK) {
        return status;
    }
    struct pdi_lane_open *open = &lane->open[loan.row];
    open->loan = loan;
    open->generation++;
    open->used = 1;
    *borrow->data = loan.data;
    *borrow->loan = (uint32_t)open->generation << 16 | LANE_LOAN |
                    (uint32_t)(lane - lanes->out) << ROW_BITS | loan.row;
    return PYDDSI_OK;
}

/* With both locks. */
static int borrow_aside(struct pdi_lanes *lanes, struct pdi_lane_out *lane,
                        const struct borrow *borrow, pdi_time now)
{
    if (pdi_lanes_grow(lanes, lane, borrow->size, now)) {
        return PYDDSI_AGAIN;
    }
    int status = pdi_lanes_room(lanes, lane, borrow->size);
    if (status == PYDDSI_OK) {
        status = lend(lanes, lane, borrow);
        if (status ==
            PYDDSI_AGAIN) { /* too many are open, or readers have not seen the end of them */
            pdi_lanes_want(lanes, PDI_TELL_ROOM);
            status = lend(lanes, lane, borrow);
        }
        if (status == PYDDSI_AGAIN) {
            pdi_lanes_short(lanes, lane, borrow->size, true);
        }
    }
    return status == PYDDSI_BAD_ARGUMENT ? pdi_lanes_outgrown(lanes, lane, borrow->size, now)
                                         : status;
}

static int borrow_one(pyddsi_session *session, void *context, pdi_time now)
{
    const struct borrow *borrow = context;
    struct pdi_lane_out *lane = pdi_session_lane(session, borrow->publisher);
    if (borrow->size > pdi_node_largest(session->node, borrow->publisher)) {
        return PYDDSI_BAD_ARGUMENT;
    }
    if (lane != NULL) {
        int status = PYDDSI_END;
        pdi_lanes_enter(lane);
        if (lane->publisher == borrow->publisher && lane->used && lane->waits) {
            status = PYDDSI_AGAIN;
        } else if (lane->publisher == borrow->publisher && lane->on) {
            status = borrow_aside(session->lanes, lane, borrow, now);
        }
        pdi_lanes_exit(lane);
        if (status != PYDDSI_END) {
            return status;
        }
    }
    if (session->lanes != NULL && pdi_lanes_growing(session->lanes, borrow->publisher)) {
        return PYDDSI_AGAIN;
    }
    return pdi_node_loan(session->node, borrow->publisher, borrow->size, borrow->data,
                         borrow->loan);
}

/* Without the session's lock: from a lane that is the only way. */
static int lend_aside(struct pdi_lanes *lanes, struct pdi_lane_out *lane,
                      const struct borrow *borrow)
{
    int status = PYDDSI_END;
    pdi_lanes_enter(lane);
    if (pdi_lanes_alone(lane, borrow->publisher) && borrow->size <= lane->ample) {
        status = lend(lanes, lane, borrow);
    }
    pdi_lanes_exit(lane);
    return status;
}

int pyddsi_session_loan(pyddsi_session *session, uint32_t publisher, size_t size, uint8_t **data,
                        uint32_t *loan, uint64_t timeout_ns)
{
    struct borrow borrow = {publisher, size, data, loan};
    struct pdi_lane_out *lane = pdi_session_lane(session, publisher);
    int status = PYDDSI_END;
    if (lane != NULL && pdi_session_here(session)) {
        status = lend_aside(session->lanes, lane, &borrow);
        /* once more, and not for as long as room is seen: it may be too many loans that are open */
        if (status == PYDDSI_AGAIN && pdi_lanes_spin(lane, publisher, size)) {
            status = lend_aside(session->lanes, lane, &borrow);
        }
    }
    return status == PYDDSI_OK ? status : pdi_session_try(session, borrow_one, &borrow, timeout_ns);
}

/* The lane that this handle names, which may have no such loan; null: it is none of a lane. */
static struct pdi_lane_out *lane_of(const pyddsi_session *session, uint32_t loan)
{
    uint32_t index = (loan & (LANE_LOAN - 1)) >> ROW_BITS;
    if (session->lanes == NULL || (loan & LANE_LOAN) == 0 || index >= PDI_LANES_MAX) {
        return NULL;
    }
    return &session->lanes->out[index];
}

/* The open loan of this handle, or null; with its lane's lock. */
static struct pdi_lane_open *open_loan(struct pdi_lane_out *lane, uint32_t loan)
{
    struct pdi_lane_open *open = &lane->open[loan & (PDI_LANE_LOANS_MAX - 1)];
    return open->used && open->generation == loan >> 16 ? open : NULL;
}

/* A lane that leads back may have waited for it, or another thread of ours for its memory or its row. */
static void over(pyddsi_session *session, const struct pdi_lane_out *lane,
                 struct pdi_lane_open *open)
{
    open->used = 0;
    session->lanes->look = session->lanes->look || lane->closing;
    session->moved |= lane->short_of != 0;
}

/* To the lane's readers; with its lock. */
static void show(pyddsi_session *session, struct pdi_lane_out *lane, struct pdi_lane_open *open,
                 size_t used)
{
    if (pdi_tap_is_on(&session->tap)) {
        pdi_session_tap_out(session, lane, open->loan.data, used);
    }
    pdi_lane_commit(&lane->writer, &open->loan, (uint32_t)used, 0, false);
    lane->put += !lane->others;
    pdi_lanes_ring(session->lanes, lane);
}

/* The sockets get a copy, if they are to; then the sample is shown in the lane. With both locks. */
static int commit_aside(pyddsi_session *session, struct pdi_lane_out *lane,
                        struct pdi_lane_open *open, size_t used, pdi_time now)
{
    int status = PYDDSI_OK;
    if (used > open->loan.size) {
        return PYDDSI_BAD_ARGUMENT;
    }
    if (lane->waits && lane->publisher != PDI_LANE_NOBODY) {
        return PYDDSI_AGAIN; /* the ways are changing */
    }
    struct pdi_echoed own;
    status = pdi_echo_ask(&session->echo, session->node, lane->publisher, used, &own, now);
    if (status == PYDDSI_OK && (!lane->on || lane->others) && lane->publisher != PDI_LANE_NOBODY) {
        status = pdi_node_put(session->node, lane->publisher, open->loan.data, used, now);
    }
    status = pdi_echo_end(&session->echo, session->node, &own, open->loan.data, used, status, now);
    if (status != PYDDSI_OK) {
        return status;
    }
    if (lane->on) {
        show(session, lane, open, used);
    } else {
        pdi_lane_abandon(&lane->writer, &open->loan);
    }
    over(session, lane, open);
    return PYDDSI_OK;
}

/* It lies in a window; if a lane is in use meanwhile, it is put as any other sample. */
static int commit_node(pyddsi_session *session, uint32_t loan, size_t used, pdi_time now)
{
    struct pdi_put put;
    const uint8_t *data;
    size_t size;
    int status = pdi_node_lent(session->node, loan, &put.publisher, &data, &size);
    struct pdi_lane_out *lane =
        status == PYDDSI_OK ? pdi_session_lane(session, put.publisher) : NULL;
    bool aside = false;
    if (lane != NULL) {
        pdi_lanes_enter(lane);
        aside = lane->publisher == put.publisher && lane->used && (lane->on || lane->waits);
        pdi_lanes_exit(lane);
    }
    if (status != PYDDSI_OK || used > size) {
        return pdi_node_commit(session->node, loan, used, now);
    }
    if (!aside) {
        struct pdi_echoed own;
        status = pdi_echo_ask(&session->echo, session->node, put.publisher, used, &own, now);
        if (status == PYDDSI_OK) {
            status = pdi_node_commit(session->node, loan, used, now);
        }
        return pdi_echo_end(&session->echo, session->node, &own, data, used, status, now);
    }
    put.data = data;
    put.size = used;
    status = pdi_session_put(session, &put, now);
    if (status == PYDDSI_OK) {
        (void)pdi_node_abandon(session->node, loan);
    }
    return status;
}

/* Where it lies, without the session's lock: if it goes nowhere else. */
static bool commit_alone(pyddsi_session *session, struct pdi_lane_out *lane, uint32_t loan,
                         size_t used)
{
    pdi_lanes_enter(lane);
    struct pdi_lane_open *open = open_loan(lane, loan);
    bool alone = open != NULL && pdi_lanes_alone(lane, lane->publisher) && used <= open->loan.size;
    bool waited = alone && lane->short_of != 0; /* another thread, for its memory or its row */
    if (alone) {
        show(session, lane, open, used);
        open->used = 0;
    }
    pdi_lanes_exit(lane);
    if (waited) {
        (void)pdi_bell_ring(session->bell);
    }
    return alone;
}

int pyddsi_session_commit(pyddsi_session *session, uint32_t loan, size_t used)
{
    struct pdi_lane_out *lane = lane_of(session, loan);
    if (lane != NULL && pdi_session_here(session) && commit_alone(session, lane, loan, used)) {
        return PYDDSI_OK;
    }
    if (!pdi_session_enter(session)) {
        return PYDDSI_CLOSED;
    }
    int status = PYDDSI_BAD_ARGUMENT;
    pdi_time now = pdi_session_now(session);
    if (lane != NULL) {
        pdi_lanes_enter(lane);
        struct pdi_lane_open *open = open_loan(lane, loan);
        if (open != NULL) {
            status = commit_aside(session, lane, open, used, now);
        }
        pdi_lanes_exit(lane);
    } else if ((loan & LANE_LOAN) == 0) {
        status = commit_node(session, loan, used, now);
    }
    pdi_session_push(session, now);
    pdi_session_leave(session);
    return status;
}

int pyddsi_session_abandon(pyddsi_session *session, uint32_t loan)
{
    if (!pdi_session_enter(session)) {
        return PYDDSI_CLOSED;
    }
    int status = PYDDSI_BAD_ARGUMENT;
    struct pdi_lane_out *lane = lane_of(session, loan);
    if (lane != NULL) {
        pdi_lanes_enter(lane);
        struct pdi_lane_open *open = open_loan(lane, loan);
        if (open != NULL) {
            pdi_lane_abandon(&lane->writer, &open->loan);
            over(session, lane, open);
            status = PYDDSI_OK;
        }
        pdi_lanes_exit(lane);
    } else if ((loan & LANE_LOAN) == 0) {
        status = pdi_node_abandon(session->node, loan);
    }
    pdi_session_leave(session);
    return status;
}
