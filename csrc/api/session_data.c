/* session_data.c - samples into windows and lanes.
 *
 * When what was put leaves:
 *
 *     nothing left for FLUSH_US    at once: somebody waits for this one, and there is no crowd to share a packet with
 *     32 KiB of full packets       at once, with one call of the system, by the thread that filled the last
 *     otherwise                    with one of those, or when its latency is over (housekeeping)
 *
 * So a single sample is never delayed, and a stream of them shares packets as if it were batched.
 */
#include "api/session_tap.h"

#define FLUSH_US UINT64_C(20)
/* What is put together before it is sent. */
#define BATCH_BYTES 32768U
#define SAMPLE_HEAD 3U  /* bytes that a sample needs beside its own, */
#define PACKET_HEAD 64U /* and a packet */
#define BATCH_MAX   512U

/* Whether somebody here wants this publisher's samples. */
static bool echoes(pyddsi_session *session, uint32_t publisher)
{
    struct pdi_brought sample = {.own = 1};
    return pdi_node_about(session->node, publisher, &sample) == PYDDSI_OK &&
           pdi_node_ready(session->node, &sample) != PYDDSI_END;
}

int pyddsi_session_own(pyddsi_session *session, uint32_t publisher)
{
    if (!pdi_session_enter(session)) {
        return PYDDSI_CLOSED;
    }
    int own = echoes(session, publisher);
    pdi_session_leave(session);
    return own;
}

void pdi_session_push(pyddsi_session *session, pdi_time now)
{
    session->pushed++;
    if (now - session->flushed >= FLUSH_US * PDI_TIME_US) {
        session->flushed = now;
        pdi_node_flush(session->node, now);
    } else {
        enum pdi_urge urge = pdi_node_urge(session->node);
        if (urge == PDI_URGE_NONE) {
            return;
        }
        if (urge == PDI_URGE_SMALL && session->options.node.latency_us != 0) {
            pdi_session_send_later(session, now);
            return;
        }
    }
    pdi_session_send(session, PDI_APPLICATION);
}

static int try_once(pyddsi_session *session, pdi_session_attempt *attempt, void *context)
{
    if (!pdi_session_enter(session)) {
        return PYDDSI_CLOSED;
    }
    pdi_time now = pdi_session_now(session);
    if (pdi_node_urge(session->node) == PDI_URGE_BRIM) {
        pdi_session_send(session, PDI_APPLICATION); /* or best effort would push it out */
    }
    int status = attempt(session, context, now);
    pdi_session_push(session, now);
    pdi_session_leave(session);
    return status;
}

int pdi_session_try(pyddsi_session *session, pdi_session_attempt *attempt, void *context,
                    uint64_t timeout_ns)
{
    int status = try_once(session, attempt, context);
    if (status != PYDDSI_AGAIN || timeout_ns == 0) {
        return status;
    }
    pdi_time until = pdi_time_add(pdi_session_now(session), timeout_ns);
    for (;;) { /* ends with the time */
        uint32_t heard = pyddsi_session_listen(session);
        status = try_once(session, attempt, context);
        pdi_time left = pdi_time_until(pdi_session_now(session), until);
        if (status != PYDDSI_AGAIN || left == 0) {
            pyddsi_session_unlisten(session);
            return status;
        }
        status = pyddsi_session_wait(session, heard, left);
        if (status == PYDDSI_CLOSED) {
            return status;
        }
    }
}

/* ---- put ---- */

/* Samples by the lane alone, without the session's lock; all are shown at once, so the readers miss their cache once and
 * are woken once. OK: all; AGAIN: there is no room for more; END: the next one takes another way. */
static int put_shown(pyddsi_session *session, struct pdi_lane_out *lane, uint32_t publisher,
                     const pyddsi_bytes *samples, size_t count, size_t *taken)
{
    int status = PYDDSI_END;
    size_t i = 0;
    pdi_lanes_enter(lane);
    if (pdi_lanes_alone(lane, publisher)) {
        status = PYDDSI_OK;
        while (i < count && status == PYDDSI_OK) {
            status = samples[i].size <= lane->ample && samples[i].size <= PDI_LANE_BYTES_MAX
                         ? pdi_lane_put(&lane->writer, samples[i].data, (uint32_t)samples[i].size,
                                        0, i + 1 < count)
                         : PYDDSI_BAD_ARGUMENT;
            if (status == PYDDSI_OK) {
                if (pdi_tap_is_on(&session->tap)) {
                    pdi_session_tap_out(session, lane, samples[i].data, samples[i].size);
                }
                i++;
            }
        }
        lane->put += i;
        pdi_lane_flush(&lane->writer);
        pdi_lanes_ring(session->lanes, lane);
        status = status == PYDDSI_BAD_ARGUMENT ? PYDDSI_END : status;
    }
    pdi_lanes_exit(lane);
    *taken += i;
    return status;
}

/* The same; where there is no room for one it is looked for a moment, before anybody is told that we wait. */
static int put_aside(pyddsi_session *session, struct pdi_lane_out *lane, uint32_t publisher,
                     const pyddsi_bytes *samples, size_t count, size_t *taken)
{
    size_t done = 0;
    int status = put_shown(session, lane, publisher, samples, count, &done);
    while (status == PYDDSI_AGAIN &&
           pdi_lanes_spin(lane, publisher, samples[done].size)) { /* each round takes some */
        status = put_shown(session, lane, publisher, &samples[done], count - done, &done);
    }
    *taken += done;
    return status;
}

/* Best effort waits for nobody: the lane's readers do without this one. */
static void do_without(pyddsi_session *session, struct pdi_lane_out *lane, pdi_time now)
{
    uint64_t readers = (uint64_t)__builtin_popcountll(lane->writer.readers);
    pdi_node_note(session->node, PYDDSI_AT_PUT, PYDDSI_BY_FULL, lane->space, lane->resource,
                  readers, now);
    lane->put += !lane->others;
}

/* With both locks: by the lane and by the sockets, as far as they are used, or not at all. */
static int put_both(pyddsi_session *session, struct pdi_lane_out *lane, const struct pdi_put *put,
                    pdi_time now)
{
    bool ours = lane->publisher == put->publisher && lane->used;
    bool on = ours && lane->on;
    int status = PYDDSI_OK;
    if (on && lane->writer.broken != 0) {
        session->lanes->look = 1; /* a reader is to leave first: it is waited for no longer */
        return PYDDSI_AGAIN;
    }
    if (ours && (lane->waits || pdi_lanes_growing(session->lanes, put->publisher) ||
                 (on && pdi_lanes_grow(session->lanes, lane, put->size, now)))) {
        return PYDDSI_AGAIN; /* the ways are changing */
    }
    int room = on ? pdi_lanes_room(session->lanes, lane, put->size) : PYDDSI_OK;
    if (on && lane->writer.broken != 0) {
        session->lanes->look = 1; /* it may still read what would be free without it */
        return PYDDSI_AGAIN;
    }
    if (room == PYDDSI_BAD_ARGUMENT) {
        return pdi_lanes_outgrown(session->lanes, lane, put->size, now);
    }
    if (room == PYDDSI_AGAIN && lane->reliable) {
        return PYDDSI_AGAIN;
    }
    if (!on || lane->others) {
        status = pdi_node_put(session->node, put->publisher, put->data, put->size, now);
    }
    if (on && status == PYDDSI_OK && room == PYDDSI_OK) {
        if (pdi_tap_is_on(&session->tap)) {
            pdi_session_tap_out(session, lane, put->data, put->size);
        }
        (void)pdi_lane_put(&lane->writer, put->data, (uint32_t)put->size, 0, false);
        lane->put += !lane->others;
        pdi_lanes_ring(session->lanes, lane);
    } else if (on && status == PYDDSI_OK) {
        do_without(session, lane, now);
    }
    return status;
}

/* To the peers, by whatever ways there are. */
static int put_away(pyddsi_session *session, const struct pdi_put *put, pdi_time now)
{
    struct pdi_lane_out *lane = pdi_session_lane(session, put->publisher);
    if (lane == NULL) {
        if (session->lanes != NULL) {
            if (pdi_lanes_growing(session->lanes, put->publisher)) {
                return PYDDSI_AGAIN;
            }
            pdi_lanes_again(session->lanes, put->publisher, now);
        }
        return pdi_node_put(session->node, put->publisher, put->data, put->size, now);
    }
    pdi_lanes_enter(lane);
    int status = put_both(session, lane, put, now);
    pdi_lanes_exit(lane);
    return status;
}

int pdi_session_put(pyddsi_session *session, const struct pdi_put *put, pdi_time now)
{
    struct pdi_echoed own;
    if (put->size > session->options.node.packet_max &&
        put->size > pdi_node_largest(session->node, put->publisher)) {
        return PYDDSI_BAD_ARGUMENT;
    }
    int status = pdi_echo_ask(&session->echo, session->node, put->publisher, put->size, &own, now);
    if (status == PYDDSI_OK) {
        status = put_away(session, put, now);
    }
    return pdi_echo_end(&session->echo, session->node, &own, put->data, put->size, status, now);
}

static int put_one(pyddsi_session *session, void *context, pdi_time now)
{
    return pdi_session_put(session, context, now);
}

int pyddsi_session_put(pyddsi_session *session, uint32_t publisher, const void *data, size_t size,
                       uint64_t timeout_ns)
{
    struct pdi_put put = {publisher, data, size};
    pyddsi_bytes sample = {data, size};
    size_t taken = 0;
    struct pdi_lane_out *lane = pdi_session_lane(session, publisher);
    if (lane != NULL && pdi_session_here(session) &&
        put_aside(session, lane, publisher, &sample, 1, &taken) == PYDDSI_OK) {
        return PYDDSI_OK;
    }
    return pdi_session_try(session, put_one, &put, timeout_ns);
}

struct put_many {
    uint32_t publisher;
    const pyddsi_bytes *samples;
    size_t count, taken;
};

/* How many of the samples make a batch: few enough for all to be sent at once; of best effort, for one packet. */
static size_t share(const pyddsi_bytes *samples, size_t left, size_t most, size_t bytes)
{
    size_t count = 0;
    while (count < left && count < most) {
        size_t size = samples[count].size + SAMPLE_HEAD;
        if (size > bytes) {
            break;
        }
        bytes -= size;
        count++;
    }
    return count != 0 ? count : 1;
}

/* As many as there is room for: by the lane, or in whole batches, and where those do not fit, one by one. */
static int put_some(pyddsi_session *session, void *context, pdi_time now)
{
    struct put_many *put = context;
    size_t batch = BATCH_MAX;
    size_t bytes = pdi_node_reliable(session->node, put->publisher)
                       ? BATCH_BYTES
                       : session->options.node.packet_max - PACKET_HEAD;
    if (session->lanes != NULL) {
        pdi_lanes_again(session->lanes, put->publisher, now);
    }
    while (put->taken < put->count) { /* each round takes some, or halves the batch */
        struct pdi_lane_out *lane = pdi_session_lane(session, put->publisher);
        const pyddsi_bytes *samples = &put->samples[put->taken];
        size_t left = put->count - put->taken;
        if (lane != NULL &&
            put_shown(session, lane, put->publisher, samples, left, &put->taken) == PYDDSI_OK) {
            continue;
        }
        samples = &put->samples[put->taken];
        left = put->count - put->taken;
        bool single = lane != NULL || echoes(session, put->publisher) ||
                      (session->lanes != NULL && pdi_lanes_growing(session->lanes, put->publisher));
        size_t count = single ? 1 : share(samples, left, batch, bytes);
        struct pdi_put one = {put->publisher, samples->data, samples->size};
        int status = count > 1
                         ? pdi_node_put_many(session->node, put->publisher, samples, count, now)
                         : pdi_session_put(session, &one, now);
        if (status == PYDDSI_OK) {
            put->taken += count;
            pdi_session_send(session, PDI_APPLICATION);
            if (session->closed) {
                return PYDDSI_CLOSED;
            }
        } else if (count == 1) {
            return status;
        } else {
            batch = count / 2;
        }
    }
    return PYDDSI_OK;
}

int pyddsi_session_put_many(pyddsi_session *session, uint32_t publisher,
                            const pyddsi_bytes *samples, size_t count, size_t *taken,
                            uint64_t timeout_ns)
{
    struct put_many put = {publisher, samples, count, 0};
    struct pdi_lane_out *lane = pdi_session_lane(session, publisher);
    int status = PYDDSI_END;
    if (lane != NULL && pdi_session_here(session)) {
        status = put_aside(session, lane, publisher, samples, count, &put.taken);
    }
    if (status != PYDDSI_OK) {
        status = pdi_session_try(session, put_some, &put, timeout_ns);
    }
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
    struct pdi_echoed own;
    int status = pdi_echo_ask_name(&session->echo, session->node, put->name, put->reliable,
                                   put->size, &own, now);
    if (status == PYDDSI_OK) {
        status =
            pdi_node_put_name(session->node, put->name, put->reliable, put->data, put->size, now);
    }
    return pdi_echo_end(&session->echo, session->node, &own, put->data, put->size, status, now);
}

int pyddsi_session_put_name(pyddsi_session *session, pyddsi_bytes name, int reliable,
                            const void *data, size_t size, uint64_t timeout_ns)
{
    struct put_name put = {name, reliable, data, size};
    return pdi_session_try(session, put_to_name, &put, timeout_ns);
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
