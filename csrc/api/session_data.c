/* session_data.c - samples: into windows, and out of rings.
 *
 * When what was put leaves:
 *
 *     a full packet                at once, by the thread that filled it
 *     nothing left for FLUSH_US    at once: somebody waits for this one, and there is no crowd to share a packet with
 *     otherwise                    with the next that fills the packet, or when its latency is over (housekeeping)
 *
 * So a single sample is never delayed, and a stream of them shares packets as if it were batched.
 */
#include "api/session.h"

#define FLUSH_US UINT64_C(20)
#define PUMP_MAX 256U

/* After something was written, with the lock in hand. */
static void push_out(pyddsi_session *session, pdi_time now)
{
    if (now - session->flushed >= FLUSH_US * PDI_TIME_US) {
        session->flushed = now;
        pdi_node_flush(session->node, now);
    }
    pdi_session_send(session, PDI_APPLICATION);
}

/* What an application waits for: tries until it is done, will never be, or the time is over. */
typedef int attempt(pyddsi_session *session, void *context, pdi_time now);

static int try_once(pyddsi_session *session, attempt *try, void *context)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    pdi_time now = pdi_session_now(session);
    int status = try(session, context, now);
    push_out(session, now);
    pdi_session_leave(session);
    return status;
}

static int try_until(pyddsi_session *session, attempt *try, void *context, uint64_t timeout_ns)
{
    int status = try_once(session, try, context);
    if (status != PYDDSI_AGAIN || timeout_ns == 0)
        return status;
    pdi_time until = pdi_time_add(pdi_session_now(session), timeout_ns);
    pdi_session_thirst(session, 1);
    for (;;) { /* ends with the time */
        uint32_t heard = pdi_bell_listen(session->bell);
        status = try_once(session, try, context);
        pdi_time left = pdi_time_until(pdi_session_now(session), until);
        if (status != PYDDSI_AGAIN || left == 0) {
            pdi_bell_unlisten(session->bell);
            break;
        }
        status = pyddsi_session_wait(session, heard, left);
        if (status == PYDDSI_CLOSED)
            break;
    }
    pdi_session_thirst(session, -1);
    return status;
}

/* ---- put ---- */

struct put {
    uint32_t publisher;
    const void *data;
    size_t size;
};

/* By the lane alone, without the session's lock. END: this sample takes another way. */
static int put_aside(pyddsi_session *session, struct pdi_lane_out *lane, const struct put *put, bool more)
{
    int status = PYDDSI_END;
    pdi_lock_take(&lane->lock);
    if (lane->publisher == put->publisher && lane->on && !lane->others && !lane->waits) {
        status = put->size <= UINT32_MAX ? pdi_lane_put(&lane->writer, put->data, (uint32_t)put->size, 0, more)
                                         : PYDDSI_BAD_ARGUMENT;
        lane->put += status == PYDDSI_OK;
        if (!more || status != PYDDSI_OK)
            pdi_lanes_ring(session->lanes, lane);
        status = status == PYDDSI_BAD_ARGUMENT ? PYDDSI_END : status;
    }
    pdi_lock_give(&lane->lock);
    return status;
}

/* With the session's lock: whatever ways there are. */
static int put_both(pyddsi_session *session, struct pdi_lane_out *lane, const struct put *put, pdi_time now)
{
    int status = PYDDSI_AGAIN;
    pdi_lock_take(&lane->lock);
    bool ours = lane->publisher == put->publisher && lane->used;
    bool on = ours && lane->on;
    if (ours && lane->waits) {
        pdi_lock_give(&lane->lock);
        return PYDDSI_AGAIN; /* the ways are changing */
    }
    int room = on ? pdi_lane_room(&lane->writer, put->size) : PYDDSI_OK;
    if (room == PYDDSI_BAD_ARGUMENT) {
        lane->closing = lane->waits = 1; /* so large a sample goes by the sockets, and all after it */
        session->lanes->look = 1;
    } else if (room == PYDDSI_OK) {
        status = !on || lane->others
                     ? pdi_node_put(session->node, put->publisher, put->data, put->size, now)
                     : PYDDSI_OK;
        if (on && status == PYDDSI_OK) {
            (void)pdi_lane_put(&lane->writer, put->data, (uint32_t)put->size, 0, false);
            lane->put += !lane->others;
            pdi_lanes_ring(session->lanes, lane);
        }
    } else if (!lane->reliable) {
        pdi_node_note(session->node, PYDDSI_AT_PUT, PYDDSI_BY_FULL, lane->space, lane->resource, 1, now);
        pdi_lanes_hurry(session->lanes, lane);
        lane->put++;
        status = PYDDSI_OK;
    } else {
        pdi_lanes_hurry(session->lanes, lane);
    }
    pdi_lock_give(&lane->lock);
    return status;
}

static int put_one(pyddsi_session *session, void *context, pdi_time now)
{
    const struct put *put = context;
    struct pdi_lane_out *lane =
        session->lanes != NULL ? pdi_lanes_of(session->lanes, put->publisher) : NULL;
    return lane != NULL ? put_both(session, lane, put, now)
                        : pdi_node_put(session->node, put->publisher, put->data, put->size, now);
}

int pyddsi_session_put(pyddsi_session *session, uint32_t publisher, const void *data, size_t size,
                       uint64_t timeout_ns)
{
    struct put put = {publisher, data, size};
    struct pdi_lane_out *lane =
        session->lanes != NULL ? pdi_lanes_of(session->lanes, publisher) : NULL;
    if (lane != NULL && pdi_atomic32_load_relaxed(session->here) != 0 &&
        put_aside(session, lane, &put, false) == PYDDSI_OK)
        return PYDDSI_OK;
    return try_until(session, put_one, &put, timeout_ns);
}

struct put_many {
    uint32_t publisher;
    const pyddsi_bytes *samples;
    size_t count, taken;
};

/* As many as there is room for by the lane, which shows them all at once at the end. */
static int put_some_aside(pyddsi_session *session, struct pdi_lane_out *lane, struct put_many *many)
{
    int status = PYDDSI_OK;
    while (many->taken < many->count && status == PYDDSI_OK) { /* each round takes one */
        const pyddsi_bytes *sample = &many->samples[many->taken];
        struct put put = {many->publisher, sample->data, sample->size};
        status = put_aside(session, lane, &put, many->taken + 1 < many->count);
        many->taken += status == PYDDSI_OK;
    }
    return status;
}

/* As many as there is room for: whole batches first, and where those do not fit, one by one. */
static int put_some(pyddsi_session *session, void *context, pdi_time now)
{
    struct put_many *put = context;
    struct pdi_lane_out *lane =
        session->lanes != NULL ? pdi_lanes_of(session->lanes, put->publisher) : NULL;
    if (lane != NULL) {
        int status = put_some_aside(session, lane, put);
        if (status != PYDDSI_END)
            return status;
    }
    size_t batch = lane != NULL ? 1 : 64;
    while (put->taken < put->count) { /* each round takes some, or halves the batch */
        size_t left = put->count - put->taken;
        size_t count = left < batch ? left : batch;
        const pyddsi_bytes *samples = &put->samples[put->taken];
        struct put one = {put->publisher, samples->data, samples->size};
        int status = count > 1 ? pdi_node_put_many(session->node, put->publisher, samples, count, now)
                               : put_one(session, &one, now);
        if (status == PYDDSI_OK) {
            put->taken += count;
        } else if (count == 1) {
            return status;
        } else {
            batch = count / 2;
        }
    }
    return PYDDSI_OK;
}

int pyddsi_session_put_many(pyddsi_session *session, uint32_t publisher, const pyddsi_bytes *samples,
                            size_t count, size_t *taken, uint64_t timeout_ns)
{
    struct put_many put = {publisher, samples, count, 0};
    int status = try_until(session, put_some, &put, timeout_ns);
    *taken = put.taken;
    return status;
}

struct put_name {
    pyddsi_bytes name;
    int reliable;
    const void *data;
    size_t size;
};

static int put_to_name(pyddsi_session *session, void *context, pdi_time now)
{
    const struct put_name *put = context;
    return pdi_node_put_name(session->node, put->name, put->reliable, put->data, put->size, now);
}

int pyddsi_session_put_name(pyddsi_session *session, pyddsi_bytes name, int reliable, const void *data,
                            size_t size, uint64_t timeout_ns)
{
    struct put_name put = {name, reliable, data, size};
    return try_until(session, put_to_name, &put, timeout_ns);
}

/* ---- loans ----
 *
 * A loan lies where its sample will be sent from: in the lane, if the publisher has one that is in use, else in the window
 * that the node finds. Handles of the former have the highest bit. */

#define LANE_LOAN UINT32_C(0x80000000)

struct borrow {
    uint32_t publisher;
    size_t size;
    uint8_t **data;
    uint32_t *loan;
};

static int borrow_aside(struct pdi_lanes *lanes, struct pdi_lane_out *lane, const struct borrow *borrow)
{
    uint32_t index = 0;
    while (index < PDI_LANE_LOANS_MAX && lanes->open[index].used)
        index++;
    if (index == PDI_LANE_LOANS_MAX)
        return PYDDSI_AGAIN;
    struct pdi_lane_open *open = &lanes->open[index];
    int status = borrow->size > UINT32_MAX
                     ? PYDDSI_BAD_ARGUMENT
                     : pdi_lane_reserve(&lane->writer, (uint32_t)borrow->size, &open->loan);
    if (status == PYDDSI_BAD_ARGUMENT) {
        lane->closing = lane->waits = 1; /* so large a sample goes by the sockets */
        lanes->look = 1;
        return PYDDSI_AGAIN;
    }
    if (status != PYDDSI_OK) {
        pdi_lanes_hurry(lanes, lane);
        return status;
    }
    open->used = 1;
    open->generation++;
    open->lane = (uint32_t)(lane - lanes->out);
    *borrow->data = open->loan.data;
    *borrow->loan = LANE_LOAN | (uint32_t)open->generation << 8 | index;
    return PYDDSI_OK;
}

static int borrow_one(pyddsi_session *session, void *context, pdi_time now)
{
    const struct borrow *borrow = context;
    struct pdi_lane_out *lane =
        session->lanes != NULL ? pdi_lanes_of(session->lanes, borrow->publisher) : NULL;
    (void)now;
    if (lane != NULL) {
        int status = PYDDSI_END;
        pdi_lock_take(&lane->lock);
        if (lane->publisher == borrow->publisher && lane->used && lane->waits)
            status = PYDDSI_AGAIN;
        else if (lane->publisher == borrow->publisher && lane->on)
            status = borrow_aside(session->lanes, lane, borrow);
        pdi_lock_give(&lane->lock);
        if (status != PYDDSI_END)
            return status;
    }
    return pdi_node_loan(session->node, borrow->publisher, borrow->size, borrow->data, borrow->loan);
}

int pyddsi_session_loan(pyddsi_session *session, uint32_t publisher, size_t size, uint8_t **data,
                        uint32_t *loan, uint64_t timeout_ns)
{
    struct borrow borrow = {publisher, size, data, loan};
    return try_until(session, borrow_one, &borrow, timeout_ns);
}

/* The open loan of this handle, or null. */
static struct pdi_lane_open *open_loan(const pyddsi_session *session, uint32_t loan)
{
    uint32_t index = loan & 0xff;
    if (session->lanes == NULL || (loan & LANE_LOAN) == 0 || index >= PDI_LANE_LOANS_MAX)
        return NULL;
    struct pdi_lane_open *open = &session->lanes->open[index];
    return open->used && (uint16_t)(loan >> 8) == open->generation ? open : NULL;
}

/* The sockets get a copy, if they are to; then the sample is shown in the lane. */
static int commit_aside(pyddsi_session *session, struct pdi_lane_open *open, size_t used, pdi_time now)
{
    struct pdi_lane_out *lane = &session->lanes->out[open->lane];
    int status = PYDDSI_OK;
    if (used > open->loan.size)
        return PYDDSI_BAD_ARGUMENT;
    pdi_lock_take(&lane->lock);
    if ((!lane->on || lane->others) && lane->publisher != PDI_LANE_NOBODY)
        status = pdi_node_put(session->node, lane->publisher, open->loan.data, used, now);
    if (status == PYDDSI_OK) {
        if (lane->on) {
            pdi_lane_commit(&lane->writer, &open->loan, (uint32_t)used, 0, false);
            lane->put += !lane->others;
            pdi_lanes_ring(session->lanes, lane);
        } else {
            pdi_lane_abandon(&lane->writer, &open->loan);
        }
        open->used = 0;
    }
    pdi_lock_give(&lane->lock);
    return status;
}

int pyddsi_session_commit(pyddsi_session *session, uint32_t loan, size_t used)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    pdi_time now = pdi_session_now(session);
    struct pdi_lane_open *open = open_loan(session, loan);
    int status = open != NULL               ? commit_aside(session, open, used, now)
                 : (loan & LANE_LOAN) != 0 ? PYDDSI_BAD_ARGUMENT
                                            : pdi_node_commit(session->node, loan, used, now);
    push_out(session, now);
    pdi_session_leave(session);
    return status;
}

int pyddsi_session_abandon(pyddsi_session *session, uint32_t loan)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    struct pdi_lane_open *open = open_loan(session, loan);
    int status = PYDDSI_OK;
    if (open != NULL) {
        struct pdi_lane_out *lane = &session->lanes->out[open->lane];
        pdi_lock_take(&lane->lock);
        pdi_lane_abandon(&lane->writer, &open->loan);
        open->used = 0;
        pdi_lock_give(&lane->lock);
    } else {
        status = (loan & LANE_LOAN) != 0 ? PYDDSI_BAD_ARGUMENT
                                         : pdi_node_abandon(session->node, loan);
    }
    pdi_session_leave(session);
    return status;
}

int pyddsi_session_flush(pyddsi_session *session)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    pdi_node_flush(session->node, pdi_session_now(session));
    pdi_session_send(session, PDI_APPLICATION);
    pdi_session_leave(session);
    return PYDDSI_OK;
}

/* ---- take ---- */

int pyddsi_session_take(pyddsi_session *session, uint32_t subscriber, pyddsi_received *samples, size_t max,
                        size_t *count)
{
    int status = PYDDSI_OK;
    *count = 0;
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    pdi_time now = pdi_session_now(session);
    if (session->lanes != NULL)
        pdi_lanes_pump(session->lanes, PUMP_MAX, now);
    while (*count < max && (status = pdi_node_take(session->node, subscriber, &samples[*count],
                                                   now)) == PYDDSI_OK)
        (*count)++;
    (void)pdi_atomic32_add(&session->holders, (uint32_t)*count);
    pdi_session_leave(session);
    return *count != 0 ? PYDDSI_OK : status;
}

int pyddsi_session_pull(pyddsi_session *session, uint32_t subscriber, uint32_t max)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    int status = pdi_node_pull(session->node, subscriber, max, pdi_session_now(session));
    pdi_session_send(session, PDI_APPLICATION);
    pdi_session_leave(session);
    return status;
}
