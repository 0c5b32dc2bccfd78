/* trace_store.c - the state of a trace as bytes, and back. It is long because each table has its two ways side by side.
 *
 * A snapshot is what a range of a capture needs to be read by itself: what is carried on, and no tallies. All numbers are VLE,
 * signed ones zigzag, and times are told as distances from the last one told, so that some thousand of them fit what the
 * raw tables would take for a hundred.
 *
 *     parties │ flows, each with its ackers, missing numbers and first transmissions │ sessions │ resources
 *
 * Things are told with their index, because others refer to them by it. Reading believes nothing: every index, count and
 * length is held against its table before it is used, and maps, lists and free places are made anew and not read. Bytes
 * that were not written by this file give BAD_INPUT, and a trace that has to be made anew.
 */
#include "base/endpoint.h"
#include "capture/store.h"
#include "capture/trace_inside.h"

static void put_endpoint(struct pdi_store *store, const pyddsi_endpoint *at)
{
    pdi_store_put_bytes(store, at->ip, at->kind == 4 || at->kind == 14 ? 4 : 16);
    pdi_store_put(store, at->port);
    pdi_store_put(store, at->kind);
}

/* This place is taken; places behind all that are were never touched. */
static uint32_t taken(struct pdi_slots *slots, uint32_t index)
{
    slots->fresh = index >= slots->fresh ? index + 1 : slots->fresh;
    return index;
}

/* ---- parties ---- */

static void store_parties(struct pdi_store *store, const struct pdi_trace *trace)
{
    pdi_store_put(store, trace->party_slots.used);
    for (uint32_t i = 0; i < trace->party_slots.fresh; i++) {
        const struct pdi_party *party = &trace->parties[i];
        if (!party->used) {
            continue;
        }
        pdi_store_put(store, i);
        put_endpoint(store, &party->at);
        pdi_store_put_time(store, party->first_ns);
        pdi_store_put_time(store, party->last_ns);
        pdi_store_put_signed(store, party->lease_ns);
        pdi_store_put_signed(store, party->silence_ns);
        pdi_store_put(store, party->greetings);
        pdi_store_put(store, party->lives);
        pdi_store_put_bytes(store, party->id, party->id_size);
        pdi_store_put(store, (uint64_t)party->speaks | (uint64_t)party->told << 1 |
                                 (uint64_t)party->extended << 2 | (uint64_t)party->bits_told << 3);
        pdi_store_put(store, party->seq_bits);
        pdi_store_put(store, party->commit);
        pdi_store_put(store, party->commits);
        pdi_store_put(store, party->cuts);
        pdi_store_put_signed(store, party->stopped_ns);
    }
}

static void load_party(struct pdi_restore *load, struct pdi_trace *trace)
{
    uint32_t i = taken(&trace->party_slots, pdi_store_get_index(load, trace->party_slots.count));
    struct pdi_party *party = &trace->parties[i];
    pyddsi_endpoint at = {0};
    size_t ip = pdi_store_get_bytes(load, at.ip, sizeof at.ip);
    at.port = (uint16_t)pdi_store_get(load, UINT16_MAX);
    at.kind = (uint8_t)pdi_store_get(load, UINT8_MAX);
    if (load->bad || party->used || (ip != 4 && ip != 16) ||
        pdi_party_find(trace, &at) != PDI_NONE32) {
        load->bad = true;
        return;
    }
    pdi_party_set(trace, i, &at);
    party->first_ns = pdi_store_get_time(load);
    party->last_ns = pdi_store_get_time(load);
    party->lease_ns = pdi_store_get_signed(load);
    party->silence_ns = pdi_store_get_signed(load);
    party->greetings = pdi_store_get(load, UINT64_MAX);
    party->lives = pdi_store_get(load, UINT64_MAX);
    party->id_size = (uint8_t)pdi_store_get_bytes(load, party->id, sizeof party->id);
    uint64_t flags = pdi_store_get(load, 15);
    party->speaks = flags & 1;
    party->told = flags >> 1 & 1;
    party->extended = flags >> 2 & 1;
    party->bits_told = flags >> 3 & 1;
    party->seq_bits = (uint8_t)pdi_store_get(load, PDI_SEQ_BITS_MAX);
    party->commit = (uint8_t)pdi_store_get(load, UINT8_MAX);
    party->commits = pdi_store_get(load, UINT64_MAX);
    party->cuts = pdi_store_get(load, UINT64_MAX);
    party->stopped_ns = pdi_store_get_signed(load);
    load->bad |= party->seq_bits < PDI_SEQ_BITS_MIN || party->stopped_ns < 0 ||
                 party->stopped_ns > trace->stopped_ns;
}

/* ---- flows ---- */

static void store_flow(struct pdi_store *store, const struct pdi_trace *trace, uint32_t index)
{
    const struct pdi_flow *flow = &trace->flows[index];
    pdi_store_put(store, index);
    pdi_store_put(store, flow->source);
    pdi_store_put(store, flow->target);
    pdi_store_put(store, flow->conduit);
    pdi_store_put(store, (uint64_t)flow->reliable | (uint64_t)flow->begun << 1 |
                             (uint64_t)flow->synched << 2 | (uint64_t)flow->zero_wanted << 3 |
                             (uint64_t)flow->asked << 4);
    pdi_store_put(store, flow->seq_bits);
    pdi_store_put(store, flow->epoch);
    pdi_store_put_signed(store, flow->highest);
    pdi_store_put_signed(store, flow->highest - flow->base);
    pdi_store_put_signed(store, flow->highest - flow->acked);
    pdi_store_put_signed(store, flow->highest - flow->lowest);
    pdi_store_put_signed(store, flow->presync);
    pdi_store_put(store, flow->greetings);
    pdi_store_put(store, flow->lives);
    pdi_store_put(store, flow->cuts);
    pdi_store_put(store, flow->synch_greetings);
    pdi_store_put_time(store, flow->last_ns);
    pdi_store_put_time(store, flow->asked_ns);
    pdi_store_put_time(store, flow->begun_ns);
    pdi_store_put(store, flow->asks);
    pdi_store_put(store, flow->seen);
    pdi_store_put(store, flow->acker_count);
    for (uint32_t i = flow->ackers; i != PDI_NONE32;
         i = trace->ackers[i].next) { /* PDI_FLOW_ACKERS_MAX */
        pdi_store_put(store, trace->ackers[i].party);
        pdi_store_put_signed(store, trace->ackers[i].acked);
        pdi_store_put(store, trace->ackers[i].answered);
        pdi_store_put_signed(store, trace->ackers[i].usual_us);
    }
    pdi_store_put(store, flow->missing_count);
    for (uint32_t i = flow->missing; i != PDI_NONE32;
         i = trace->missing[i].next) { /* PDI_FLOW_MISSING_MAX */
        pdi_store_put_signed(store, flow->highest - trace->missing[i].to);
        pdi_store_put(store, (uint64_t)(trace->missing[i].to - trace->missing[i].from));
    }
    pdi_store_put(store, flow->sent != PDI_NONE32 ? flow->sent_size / PDI_SENT_UNIT : 0);
    for (int64_t n = flow->base; flow->sent != PDI_NONE32 && n <= flow->highest;
         n++) { /* PDI_SENT_MAX */
        pdi_store_put_time(store, pdi_flow_sent(trace, flow, n));
    }
}

static void load_ackers(struct pdi_restore *load, struct pdi_trace *trace, uint32_t index)
{
    struct pdi_flow *flow = &trace->flows[index];
    uint32_t count = (uint32_t)pdi_store_get(load, PDI_FLOW_ACKERS_MAX);
    uint32_t *end = &flow->ackers;
    for (uint32_t i = 0; i < count && !load->bad; i++) {
        uint32_t made = pdi_slots_get(&trace->acker_slots);
        uint32_t party = pdi_store_get_index(load, trace->party_slots.count);
        if (made == PDI_CHAIN_END || !trace->parties[party].used) {
            load->bad = true;
            return;
        }
        struct pdi_acker *acker = &trace->ackers[made];
        *acker = (struct pdi_acker){.flow = index, .party = party, .next = PDI_NONE32};
        acker->acked = pdi_store_get_signed(load);
        acker->answered = pdi_store_get(load, UINT64_MAX);
        acker->usual_us = pdi_store_get_signed(load);
        *end = made;
        end = &acker->next;
        flow->acker_count++;
    }
}

static void load_missing(struct pdi_restore *load, struct pdi_trace *trace, struct pdi_flow *flow)
{
    uint32_t count = (uint32_t)pdi_store_get(load, PDI_FLOW_MISSING_MAX);
    uint32_t *end = &flow->missing;
    int64_t after = INT64_MIN;
    for (uint32_t i = 0; i < count && !load->bad; i++) {
        uint32_t made = pdi_slots_get(&trace->missing_slots);
        int64_t back = pdi_store_get_signed(load);
        uint64_t length = pdi_store_get(load, INT64_MAX);
        if (made == PDI_CHAIN_END || back < 0 ||
            (uint64_t)(flow->highest - INT64_MIN / 2 - back) < length) {
            load->bad = true;
            return;
        }
        int64_t to = flow->highest - back;
        trace->missing[made] = (struct pdi_missing){to - (int64_t)length, to, PDI_NONE32};
        load->bad |= trace->missing[made].from <= after;
        after = to;
        *end = made;
        end = &trace->missing[made].next;
        flow->missing_count++;
    }
}

static void load_sent(struct pdi_restore *load, struct pdi_trace *trace, struct pdi_flow *flow)
{
    uint32_t units = (uint32_t)pdi_store_get(load, PDI_SENT_MAX / PDI_SENT_UNIT);
    if (units == 0 || load->bad) {
        return;
    }
    if ((units & (units - 1)) != 0 ||
        flow->highest - flow->base >= (int64_t)units * PDI_SENT_UNIT) {
        load->bad = true;
        return;
    }
    flow->sent = pdi_pages_get(&trace->sent_pages, units);
    flow->sent_size = units * PDI_SENT_UNIT;
    if (flow->sent == PDI_PAGES_NONE) {
        load->bad = true;
        return;
    }
    for (int64_t n = flow->base; n <= flow->highest && !load->bad; n++) { /* PDI_SENT_MAX */
        int64_t time_ns = pdi_store_get_time(load);
        pdi_flow_sent_set(trace, flow, n, time_ns);
    }
}

static void load_flow(struct pdi_restore *load, struct pdi_trace *trace)
{
    uint32_t index = taken(&trace->flow_slots, pdi_store_get_index(load, trace->flow_slots.count));
    uint32_t source = pdi_store_get_index(load, trace->party_slots.count),
             target = pdi_store_get_index(load, trace->party_slots.count);
    uint64_t conduit = pdi_store_get(load, UINT16_MAX), flags = pdi_store_get(load, 31);
    struct pdi_flow *flow = &trace->flows[index];
    if (load->bad || flow->used || !trace->parties[source].used || !trace->parties[target].used ||
        !pdi_flow_set(trace, index, source, target, conduit, flags & 1)) {
        load->bad = true;
        return;
    }
    flow->begun = flags >> 1 & 1;
    flow->synched = flags >> 2 & 1;
    flow->zero_wanted = flags >> 3 & 1;
    flow->asked = flags >> 4 & 1;
    flow->seq_bits = (uint8_t)pdi_store_get(load, PDI_SEQ_BITS_MAX);
    flow->epoch = (uint32_t)pdi_store_get(load, UINT32_MAX);
    flow->highest = pdi_store_get_signed(load);
    int64_t base = pdi_store_get_signed(load), acked = pdi_store_get_signed(load),
            lowest = pdi_store_get_signed(load);
    flow->presync = pdi_store_get_signed(load);
    flow->greetings = pdi_store_get(load, UINT64_MAX);
    flow->lives = pdi_store_get(load, UINT64_MAX);
    flow->cuts = pdi_store_get(load, UINT64_MAX);
    flow->synch_greetings = pdi_store_get(load, UINT64_MAX);
    flow->last_ns = pdi_store_get_time(load);
    flow->asked_ns = pdi_store_get_time(load);
    flow->begun_ns = pdi_store_get_time(load);
    flow->asks = pdi_store_get(load, UINT64_MAX);
    flow->seen = pdi_store_get(load, UINT64_MAX);
    if (load->bad || flow->seq_bits < PDI_SEQ_BITS_MIN || flow->highest > INT64_MAX / 4 ||
        flow->highest < INT64_MIN / 4 || base < -1 || base > INT64_C(4) * PDI_SENT_MAX ||
        acked < -1 || acked > INT64_MAX / 4 || lowest < 0 || lowest > INT64_MAX / 4) {
        load->bad = true;
        return;
    }
    flow->base = flow->highest - base;
    flow->acked = flow->highest - acked;
    flow->lowest = flow->highest - lowest;
    load_ackers(load, trace, index);
    load_missing(load, trace, flow);
    load_sent(load, trace, flow);
}

/* ---- sessions and resources ---- */

static void store_sessions(struct pdi_store *store, const struct pdi_trace *trace)
{
    pdi_store_put(store, trace->session_slots.used);
    for (uint32_t i = 0; i < trace->session_slots.fresh; i++) {
        const struct pdi_seen *session = &trace->sessions[i];
        if (!session->used) {
            continue;
        }
        pdi_store_put(store, i);
        pdi_store_put_time(store, session->open_ns);
        pdi_store_put_time(store, session->accept_ns);
        pdi_store_put_time(store, session->end_ns);
        for (unsigned side = 0; side < 2; side++) {
            pdi_store_put(store, session->party[side]);
            pdi_store_put_signed(store, session->silence_ns[side]);
            pdi_store_put_signed(store, session->lease_ns[side]);
            pdi_store_put_bytes(store, session->id_of[side], session->id_size[side]);
        }
        pdi_store_put(store, session->open_packet);
        pdi_store_put(store, session->end_packet);
        pdi_store_put(store, session->open_files);
        pdi_store_put(store, session->end_files);
        pdi_store_put(store, session->number);
        pdi_store_put(store, session->state);
        pdi_store_put(store, session->end);
        pdi_store_put(store, session->reason);
        pdi_store_put(store, session->seq_bits);
    }
}

static void load_session(struct pdi_restore *load, struct pdi_trace *trace)
{
    uint32_t index =
        taken(&trace->session_slots, pdi_store_get_index(load, trace->session_slots.count));
    struct pdi_seen *session = &trace->sessions[index];
    if (load->bad || session->used) {
        load->bad = true;
        return;
    }
    *session = (struct pdi_seen){.open_ns = pdi_store_get_time(load)};
    session->accept_ns = pdi_store_get_time(load);
    session->end_ns = pdi_store_get_time(load);
    for (unsigned side = 0; side < 2; side++) {
        session->party[side] = pdi_store_get_index(load, trace->party_slots.count);
        session->silence_ns[side] = pdi_store_get_signed(load);
        session->lease_ns[side] = pdi_store_get_signed(load);
        session->id_size[side] =
            (uint8_t)pdi_store_get_bytes(load, session->id_of[side], sizeof session->id_of[side]);
        load->bad |= !trace->parties[session->party[side]].used;
    }
    session->open_packet = pdi_store_get(load, UINT64_MAX);
    session->end_packet = pdi_store_get(load, UINT64_MAX);
    session->open_files = (uint32_t)pdi_store_get(load, trace->files);
    session->end_files = (uint32_t)pdi_store_get(load, trace->files);
    session->number = (uint32_t)pdi_store_get(load, UINT32_MAX);
    session->state = (uint8_t)pdi_store_get(load, PDI_SESSION_ENDED);
    session->end = (uint8_t)pdi_store_get(load, PDI_END_COUNT - 1);
    session->reason = (uint8_t)pdi_store_get(load, UINT8_MAX);
    session->seq_bits = (uint8_t)pdi_store_get(load, PDI_SEQ_BITS_MAX);
    load->bad |= load->bad || !pdi_seen_set(trace, index);
}

static void store_resources(struct pdi_store *store, const struct pdi_trace *trace)
{
    pdi_store_put(store, trace->resource_slots.used);
    for (uint32_t i = 0; i < trace->resource_slots.fresh; i++) {
        const struct pdi_resource *resource = &trace->resources[i];
        if (resource->used) {
            pdi_store_put(store, i);
            pdi_store_put(store, resource->party);
            pdi_store_put(store, resource->space);
            pdi_store_put(store, resource->rid);
            pdi_store_put(store, resource->kind);
            pdi_store_put_time(store, resource->from_ns);
            pdi_store_put(store, pdi_resource_is_last(trace, i));
            pyddsi_bytes name = pdi_resource_name(trace, i);
            pdi_store_put_bytes(store, name.data, name.size);
        }
    }
}

static void load_resource(struct pdi_restore *load, struct pdi_trace *trace)
{
    struct pdi_resource resource = {.used = 1, .until_ns = PDI_NONE64};
    uint8_t name[PDI_NAME_BYTES_MAX];
    uint32_t index =
        taken(&trace->resource_slots, pdi_store_get_index(load, trace->resource_slots.count));
    resource.party = pdi_store_get_index(load, trace->party_slots.count);
    resource.space = (uint8_t)pdi_store_get(load, UINT8_MAX);
    resource.rid = pdi_store_get(load, UINT64_MAX);
    resource.kind = (uint8_t)pdi_store_get(load, UINT8_MAX);
    resource.from_ns = pdi_store_get_time(load);
    bool last = pdi_store_get(load, 1) != 0;
    pyddsi_bytes text = {name, pdi_store_get_bytes(load, name, sizeof name)};
    load->bad |= load->bad || trace->resources[index].used ||
                 !trace->parties[resource.party].used ||
                 !pdi_resource_set(trace, index, &resource, text, last);
}

/* ---- all of it ---- */

size_t pdi_trace_store(const struct pdi_trace *trace, uint8_t *out, size_t room)
{
    struct pdi_store store = {.out = out, .room = room};
    pdi_store_put(&store, trace->files);
    pdi_store_put_time(&store, trace->latest_ns);
    pdi_store_put_signed(&store, trace->lease_ns);
    pdi_store_put_signed(&store, trace->stopped_ns);
    store_parties(&store, trace);
    pdi_store_put(&store, trace->flow_slots.used);
    for (uint32_t i = 0; i < trace->flow_slots.fresh; i++) {
        if (trace->flows[i].used) {
            store_flow(&store, trace, i);
        }
    }
    store_sessions(&store, trace);
    store_resources(&store, trace);
    return store.size;
}

/* The free places are those that are not used, the first one first. */
static void slots_again(struct pdi_slots *slots, const uint8_t *used, size_t stride)
{
    slots->free = PDI_CHAIN_END;
    slots->used = 0;
    for (uint32_t i = slots->fresh; i > 0; i--) {
        if (used[(i - 1) * stride]) {
            slots->used++;
        } else {
            slots->next[i - 1] = slots->free;
            slots->free = i - 1;
        }
    }
}

int pdi_trace_load(struct pdi_trace *trace, const uint8_t *data, size_t size)
{
    struct pdi_restore load = {.at = data, .end = data + size};
    static void (*const loads[4])(struct pdi_restore *, struct pdi_trace *) = {
        load_party, load_flow, load_session, load_resource};
    const uint32_t limits[4] = {trace->party_slots.count, trace->flow_slots.count,
                                trace->session_slots.count, trace->resource_slots.count};
    trace->files = (uint32_t)pdi_store_get(&load, INT32_MAX);
    trace->latest_ns = pdi_store_get_time(&load);
    trace->lease_ns = pdi_store_get_signed(&load);
    trace->stopped_ns = pdi_store_get_signed(&load);
    load.bad |= trace->stopped_ns < 0;
    for (unsigned table = 0; table < 4; table++) {
        uint64_t count = pdi_store_get(&load, limits[table]);
        for (uint64_t i = 0; i < count && !load.bad; i++) {
            loads[table](&load, trace);
        }
    }
    if (load.bad || load.at != load.end) {
        return PYDDSI_BAD_INPUT;
    }
    slots_again(&trace->party_slots, &trace->parties->used, sizeof *trace->parties);
    slots_again(&trace->flow_slots, &trace->flows->used, sizeof *trace->flows);
    slots_again(&trace->session_slots, &trace->sessions->used, sizeof *trace->sessions);
    slots_again(&trace->resource_slots, &trace->resources->used, sizeof *trace->resources);
    pdi_trace_relink(trace);
    return PYDDSI_OK;
}
