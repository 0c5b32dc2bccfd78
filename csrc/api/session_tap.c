/* session_tap.c - where a session's packets and samples go into a recording (tap.h), and the recording's own calls.
 *
 *     carry              what leaves, just before it does: a packet that the system then refuses stands there as if it had left
 *     feed_one           what has come, when the node has said what it thinks of it: what is dropped has the reason beside it
 *     puts into lanes    a sample once, however many read it
 *     the pump           what others have put into theirs
 *
 * All of these are kept out of the way of what runs without a recording.
 */
#include "api/session_tap.h"

#define RING_MIN (UINT32_C(1) << 20)
#define RING_MAX (UINT32_C(1) << 30)

/* ---- packets ---- */

void pdi_session_tap_sent(pyddsi_session *session, const struct pdi_port_packet *packets,
                          uint32_t count)
{
    pdi_time now = pdi_clock_wall();
    const pyddsi_endpoint local = pdi_session_local(session);
    for (uint32_t i = 0; i < count; i++) {
        struct pdi_tap_record record = {.size = (uint32_t)packets[i].size,
                                        .whole = packets[i].size,
                                        .time_ns = now,
                                        .source = local,
                                        .target = packets[i].to,
                                        .direction = PDI_WAY_OUT};
        pdi_tap_put(&session->tap, &record, packets[i].data);
    }
}

void pdi_session_tap_input(pyddsi_session *session, const struct pdi_tap_input *input, pdi_time now)
{
    size_t room = input->unpacked ? input->size : session->options.node.packet_max;
    struct pdi_tap_record record = {
        .size = (uint32_t)(input->size < room ? input->size : room),
        .whole = input->size,
        .time_ns = pdi_clock_wall(),
        .source = *input->from,
        .target = input->group != NULL ? *input->group : pdi_session_local(session),
        .direction = PDI_WAY_IN,
    };
    pyddsi_drop last = {0};
    uint64_t before = pdi_node_dropped(session->node, &last);
    pdi_session_input(session, input->from, input->data, input->size, input->unpacked, now);
    record.drops = pdi_node_dropped(session->node, &last) - before;
    record.place = last.place;
    record.reason = last.reason;
    /* whoever keeps the slot only reads it, and only who feeds writes the next one */
    pdi_tap_put(&session->tap, &record, input->data);
}

/* ---- shared memory ---- */

static void put_sample(struct pdi_tap *tap, const struct pdi_tap_sample *sample,
                       const pyddsi_endpoint *source, uint8_t direction)
{
    struct pdi_tap_record record = {
        .size = (uint32_t)sample->size,
        .whole = sample->size,
        .time_ns = pdi_clock_wall(),
        .source = *source,
        .resource = sample->resource,
        .direction = direction,
        .sample = 1,
        .space = sample->space,
        .reliable = sample->reliable,
    };
    pdi_tap_put(tap, &record, sample->data);
}

void pdi_session_tap_out(pyddsi_session *session, const struct pdi_lane_out *lane, const void *data,
                         size_t size)
{
    struct pdi_tap_sample sample = {.data = data,
                                    .size = size,
                                    .resource = lane->resource,
                                    .space = lane->space,
                                    .reliable = lane->reliable};
    const pyddsi_endpoint local = pdi_session_local(session);
    put_sample(&session->tap, &sample, &local, PDI_WAY_OUT);
}

void pdi_lanes_tap_in(const struct pdi_lanes *lanes, const struct pdi_lane_in *lane,
                      const struct pdi_poured *samples, uint32_t count)
{
    pyddsi_peer peer;
    if (pdi_node_peer(lanes->node, lane->peer, &peer) != PYDDSI_OK) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct pdi_tap_sample sample = {.data = samples[i].data.data,
                                        .size = samples[i].data.size,
                                        .resource = lane->resource,
                                        .space = lane->space,
                                        .reliable = lane->reliable};
        put_sample(lanes->tap, &sample, &peer.endpoint, PDI_WAY_IN);
    }
}

/* ---- the recording ---- */

int pdi_session_tap_begin(pyddsi_session *session, uint32_t ring_bytes)
{
    const pyddsi_endpoint usual = {.ip = {239, 255, 0, 1}, .port = 7447, .kind = 4};
    const pyddsi_endpoint *group = &session->options.group;
    bool fits =
        ring_bytes >= RING_MIN && ring_bytes <= RING_MAX && (ring_bytes & (ring_bytes - 1)) == 0;
    return fits ? pdi_tap_begin(&session->tap, ring_bytes, session->options.node.seq_bits,
                                group->kind != 0 ? group : &usual)
                : PYDDSI_BAD_ARGUMENT;
}

int pyddsi_session_record(pyddsi_session *session, uint32_t ring_bytes)
{
    if (!pdi_session_enter(session)) {
        return PYDDSI_CLOSED;
    }
    int status = pdi_session_tap_begin(session, ring_bytes);
    pdi_session_leave(session);
    return status;
}

void pyddsi_session_record_stop(pyddsi_session *session)
{
    if (pdi_session_here(session)) {
        pdi_tap_stop(&session->tap);
    }
}

int pyddsi_session_record_take(pyddsi_session *session, pyddsi_copy *into, uint64_t timeout_ns)
{
    return pdi_session_here(session) ? pdi_tap_take(&session->tap, into, timeout_ns) : PYDDSI_END;
}

void pyddsi_session_recorded(const pyddsi_session *session, pyddsi_recorded *counts)
{
    pdi_tap_count(&session->tap, counts);
}
