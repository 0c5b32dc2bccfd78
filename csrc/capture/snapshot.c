/* snapshot.c - the state of a trace as bytes, and back. It is long because each table has its two ways side by side.
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
#include "base/bytes.h"
#include "base/endpoint.h"
#include "capture/trace_inside.h"

#define VERSION 1U /* of this layout; the index holds it against its own */

/* ---- writing: goes on counting when the room is over ---- */

struct store {
    uint8_t *out;
    size_t room;
    size_t size;
    int64_t last_ns;
};

static void put(struct store *store, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)(value & 0x7f);
        value >>= 7;
        if (store->size < store->room) {
            store->out[store->size] = byte | (value != 0 ? 0x80 : 0);
        }
        store->size++;
    } while (value != 0); /* ten bytes at most */
}

static void put_signed(struct store *store, int64_t value)
{
    put(store, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

/* A time, as its distance from the last one; 0 is none. */
static void put_time(struct store *store, int64_t time_ns)
{
    if (time_ns == PDI_NONE64) {
        put(store, 0);
        return;
    }
    uint64_t distance = (uint64_t)time_ns - (uint64_t)store->last_ns;
    uint64_t zigzag = distance << 1 ^ (distance >> 63 != 0 ? UINT64_MAX : 0);
    put(store,
        zigzag == UINT64_MAX ? zigzag : zigzag + 1); /* the one distance that has no room is 2^63 */
    store->last_ns = time_ns;
}

static void put_bytes(struct store *store, const uint8_t *data, size_t size)
{
    put(store, size);
    if (store->size <= store->room && store->room - store->size >= size && size != 0) {
        memcpy(store->out + store->size, data, size);
    }
    store->size += size;
}

static void put_endpoint(struct store *store, const pyddsi_endpoint *at)
{
    put_bytes(store, at->ip, at->kind == 4 || at->kind == 14 ? 4 : 16);
    put(store, at->port);
    put(store, at->kind);
}

/* ---- reading: the first thing wrong is remembered, and all that follows is 0 ---- */

struct load {
    const uint8_t *at, *end;
    int64_t last_ns;
    bool bad;
};

static uint64_t get(struct load *load, uint64_t max)
{
    struct pdi_reader reader = {load->at, load->end};
    uint64_t value = 0;
    if (load->bad || pdi_vle_get(&reader, max, PDI_VLE_MAX, &value) != PDI_VLE_OK) {
        load->bad = true;
        return 0;
    }
    load->at = reader.at;
    return value;
}

static int64_t get_signed(struct load *load)
{
    uint64_t zigzag = get(load, UINT64_MAX);
    return (int64_t)(zigzag >> 1 ^ (zigzag & 1 ? UINT64_MAX : 0));
}

static int64_t get_time(struct load *load)
{
    uint64_t zigzag = get(load, UINT64_MAX);
    if (zigzag == 0) {
        return PDI_NONE64;
    }
    zigzag = zigzag == UINT64_MAX ? zigzag : zigzag - 1;
    uint64_t distance = zigzag >> 1 ^ (zigzag & 1 ? UINT64_MAX : 0);
    load->last_ns = (int64_t)((uint64_t)load->last_ns + distance);
    return load->last_ns;
}

static uint32_t get_index(struct load *load, uint32_t count)
{
    return (uint32_t)get(load, count - 1);
}

/* At most |room| bytes; answers how many. */
static size_t get_bytes(struct load *load, uint8_t *out, size_t room)
{
    size_t size = (size_t)get(load, room);
    if (load->bad || (size_t)(load->end - load->at) < size) {
        load->bad = true;
        return 0;
    }
    if (size != 0) {
        memcpy(out, load->at, size);
    }
    load->at += size;
    return size;
}

/* ---- parties ---- */

static void store_parties(struct store *store, const struct pdi_trace *trace)
{
    put(store, trace->party_slots.used);
    for (uint32_t i = 0; i < PDI_PARTIES_MAX; i++) {
        const struct pdi_party *party = &trace->parties[i];
        if (!party->used) {
            continue;
        }
        put(store, i);
        put_endpoint(store, &party->at);
        put_time(store, party->first_ns);
        put_time(store, party->last_ns);
        put_signed(store, party->lease_ns);
        put_signed(store, party->silence_ns);
        put(store, party->incarnation);
        put_bytes(store, party->id, party->id_size);
        put(store,
            (uint64_t)party->speaks | (uint64_t)party->told << 1 | (uint64_t)party->extended << 2);
        put(store, party->seq_bits);
    }
}

static void load_party(struct load *load, struct pdi_trace *trace)
{
    uint32_t i = get_index(load, PDI_PARTIES_MAX);
    struct pdi_party *party = &trace->parties[i];
    pyddsi_endpoint at = {0};
    size_t ip = get_bytes(load, at.ip, sizeof at.ip);
    at.port = (uint16_t)get(load, UINT16_MAX);
    at.kind = (uint8_t)get(load, UINT8_MAX);
    if (load->bad || party->used || (ip != 4 && ip != 16) ||
        pdi_party_find(trace, &at) != PDI_NONE32) {
        load->bad = true;
        return;
    }
    pdi_party_set(trace, i, &at);
    party->first_ns = get_time(load);
    party->last_ns = get_time(load);
    party->lease_ns = get_signed(load);
    party->silence_ns = get_signed(load);
    party->incarnation = get(load, UINT64_MAX);
    party->id_size = (uint8_t)get_bytes(load, party->id, sizeof party->id);
    uint64_t flags = get(load, 7);
    party->speaks = flags & 1;
    party->told = flags >> 1 & 1;
    party->extended = flags >> 2 & 1;
    party->seq_bits = (uint8_t)get(load, PDI_SEQ_BITS_MAX);
    load->bad |= party->seq_bits < PDI_SEQ_BITS_MIN;
}

/* ---- flows ---- */

static void store_flow(struct store *store, const struct pdi_trace *trace, uint32_t index)
{
    const struct pdi_flow *flow = &trace->flows[index];
    put(store, index);
    put(store, flow->source);
    put(store, flow->target);
    put(store, flow->conduit);
    put(store, (uint64_t)flow->reliable | (uint64_t)flow->begun << 1 |
                   (uint64_t)flow->synched << 2 | (uint64_t)flow->doubt << 3);
    put(store, flow->seq_bits);
    put(store, flow->epoch);
    put_signed(store, flow->highest);
    put_signed(store, flow->highest - flow->base);
    put_signed(store, flow->highest - flow->acked);
    put_signed(store, flow->presync);
    put_time(store, flow->last_ns);
    put_time(store, flow->asked_ns);
    put_time(store, flow->begun_ns);
    put(store, flow->asks);
    put(store, flow->seen);
    put(store, flow->acker_count);
    for (uint32_t i = flow->ackers; i != PDI_NONE32;
         i = trace->ackers[i].next) { /* PDI_FLOW_ACKERS_MAX */
        put(store, trace->ackers[i].party);
        put_signed(store, trace->ackers[i].acked);
        put(store, trace->ackers[i].answered);
        put_signed(store, trace->ackers[i].usual_us);
    }
    put(store, flow->missing_count);
    for (uint32_t i = flow->missing; i != PDI_NONE32;
         i = trace->missing[i].next) { /* PDI_FLOW_MISSING_MAX */
        put_signed(store, flow->highest - trace->missing[i].to);
        put(store, (uint64_t)(trace->missing[i].to - trace->missing[i].from));
    }
    put(store, flow->sent != PDI_NONE32 ? flow->sent_size / PDI_SENT_UNIT : 0);
    for (int64_t n = flow->base; flow->sent != PDI_NONE32 && n <= flow->highest;
         n++) { /* PDI_SENT_MAX */
        put_time(store, pdi_flow_sent(trace, flow, n));
    }
}

static void load_ackers(struct load *load, struct pdi_trace *trace, uint32_t index)
{
    struct pdi_flow *flow = &trace->flows[index];
    uint32_t count = (uint32_t)get(load, PDI_FLOW_ACKERS_MAX);
    uint32_t *end = &flow->ackers;
    for (uint32_t i = 0; i < count && !load->bad; i++) {
        uint32_t made = pdi_slots_get(&trace->acker_slots);
        uint32_t party = get_index(load, PDI_PARTIES_MAX);
        if (made == PDI_CHAIN_END || !trace->parties[party].used) {
            load->bad = true;
            return;
        }
        struct pdi_acker *acker = &trace->ackers[made];
        *acker = (struct pdi_acker){.flow = index, .party = party, .next = PDI_NONE32};
        acker->acked = get_signed(load);
        acker->answered = get(load, UINT64_MAX);
        acker->usual_us = get_signed(load);
        *end = made;
        end = &acker->next;
        flow->acker_count++;
    }
}

static void load_missing(struct load *load, struct pdi_trace *trace, struct pdi_flow *flow)
{
    uint32_t count = (uint32_t)get(load, PDI_FLOW_MISSING_MAX);
    uint32_t *end = &flow->missing;
    int64_t after = INT64_MIN;
    for (uint32_t i = 0; i < count && !load->bad; i++) {
        uint32_t made = pdi_slots_get(&trace->missing_slots);
        int64_t back = get_signed(load);
        uint64_t length = get(load, INT64_MAX);
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

static void load_sent(struct load *load, struct pdi_trace *trace, struct pdi_flow *flow)
{
    uint32_t units = (uint32_t)get(load, PDI_SENT_MAX / PDI_SENT_UNIT);
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
        int64_t time_ns = get_time(load);
        *pdi_flow_sent_at(trace, flow, n) = time_ns != PDI_NONE64 ? (uint64_t)time_ns : 0;
    }
}

static void load_flow(struct load *load, struct pdi_trace *trace)
{
    uint32_t index = get_index(load, PDI_FLOWS_MAX);
    uint32_t source = get_index(load, PDI_PARTIES_MAX), target = get_index(load, PDI_PARTIES_MAX);
    uint64_t conduit = get(load, UINT16_MAX), flags = get(load, 31);
    struct pdi_flow *flow = &trace->flows[index];
    if (load->bad || flow->used || !trace->parties[source].used || !trace->parties[target].used ||
        flags >> 3 > PDI_DOUBT_SESSION ||
        !pdi_flow_set(trace, index, source, target, conduit, flags & 1)) {
        load->bad = true;
        return;
    }
    flow->begun = flags >> 1 & 1;
    flow->synched = flags >> 2 & 1;
    flow->doubt = (uint8_t)(flags >> 3);
    flow->seq_bits = (uint8_t)get(load, PDI_SEQ_BITS_MAX);
    flow->epoch = (uint32_t)get(load, UINT32_MAX);
    flow->highest = get_signed(load);
    int64_t base = get_signed(load), acked = get_signed(load);
    flow->presync = get_signed(load);
    flow->last_ns = get_time(load);
    flow->asked_ns = get_time(load);
    flow->begun_ns = get_time(load);
    flow->asks = get(load, UINT64_MAX);
    flow->seen = get(load, UINT64_MAX);
    if (load->bad || flow->seq_bits < PDI_SEQ_BITS_MIN || flow->highest > INT64_MAX / 4 ||
        flow->highest < INT64_MIN / 4 || base < -1 || base > PDI_SENT_MAX * 4 || acked < -1 ||
        acked > INT64_MAX / 4) {
        load->bad = true;
        return;
    }
    flow->base = flow->highest - base;
    flow->acked = flow->highest - acked;
    load_ackers(load, trace, index);
    load_missing(load, trace, flow);
    load_sent(load, trace, flow);
}

/* ---- sessions and resources ---- */

static void store_sessions(struct store *store, const struct pdi_trace *trace)
{
    put(store, trace->session_slots.used);
    for (uint32_t i = 0; i < PDI_SESSIONS_MAX; i++) {
        const struct pdi_session_seen *session = &trace->sessions[i];
        if (!session->used) {
            continue;
        }
        put(store, i);
        put_time(store, session->open_ns);
        put_time(store, session->accept_ns);
        put_time(store, session->end_ns);
        for (unsigned side = 0; side < 2; side++) {
            put(store, session->party[side]);
            put_signed(store, session->silence_ns[side]);
            put_signed(store, session->lease_ns[side]);
            put_bytes(store, session->id_of[side], session->id_size[side]);
        }
        put(store, session->number);
        put(store, session->state);
        put(store, session->end);
        put(store, session->reason);
        put(store, session->seq_bits);
    }
}

static void load_session(struct load *load, struct pdi_trace *trace)
{
    uint32_t index = get_index(load, PDI_SESSIONS_MAX);
    struct pdi_session_seen *session = &trace->sessions[index];
    if (load->bad || session->used) {
        load->bad = true;
        return;
    }
    *session = (struct pdi_session_seen){.open_ns = get_time(load)};
    session->accept_ns = get_time(load);
    session->end_ns = get_time(load);
    for (unsigned side = 0; side < 2; side++) {
        session->party[side] = get_index(load, PDI_PARTIES_MAX);
        session->silence_ns[side] = get_signed(load);
        session->lease_ns[side] = get_signed(load);
        session->id_size[side] =
            (uint8_t)get_bytes(load, session->id_of[side], sizeof session->id_of[side]);
        load->bad |= !trace->parties[session->party[side]].used;
    }
    session->number = (uint32_t)get(load, UINT32_MAX);
    session->state = (uint8_t)get(load, PDI_SESSION_ENDED);
    session->end = (uint8_t)get(load, PDI_END_COUNT - 1);
    session->reason = (uint8_t)get(load, UINT8_MAX);
    session->seq_bits = (uint8_t)get(load, PDI_SEQ_BITS_MAX);
    load->bad |= load->bad || !pdi_session_set(trace, index);
}

static void store_resources(struct store *store, const struct pdi_trace *trace)
{
    put(store, trace->resource_slots.used);
    for (uint32_t i = 0; i < PDI_RESOURCES_MAX; i++) {
        const struct pdi_resource *resource = &trace->resources[i];
        if (resource->used) {
            put(store, i);
            put(store, resource->party);
            put(store, resource->space);
            put(store, resource->rid);
            put(store, resource->kind);
            put_time(store, resource->from_ns);
            put(store, pdi_resource_is_last(trace, i));
            pyddsi_bytes name = pdi_resource_name(trace, i);
            put_bytes(store, name.data, name.size);
        }
    }
}

static void load_resource(struct load *load, struct pdi_trace *trace)
{
    struct pdi_resource resource = {.used = 1, .until_ns = PDI_NONE64};
    uint8_t name[PDI_NAME_BYTES_MAX];
    uint32_t index = get_index(load, PDI_RESOURCES_MAX);
    resource.party = get_index(load, PDI_PARTIES_MAX);
    resource.space = (uint8_t)get(load, UINT8_MAX);
    resource.rid = get(load, UINT64_MAX);
    resource.kind = (uint8_t)get(load, UINT8_MAX);
    resource.from_ns = get_time(load);
    bool last = get(load, 1) != 0;
    pyddsi_bytes text = {name, get_bytes(load, name, sizeof name)};
    load->bad |= load->bad || trace->resources[index].used ||
                 !trace->parties[resource.party].used ||
                 !pdi_resource_set(trace, index, &resource, text, last);
}

/* ---- all of it ---- */

size_t pdi_trace_store(const struct pdi_trace *trace, uint8_t *out, size_t room)
{
    struct store store = {.out = out, .room = room};
    put(&store, VERSION);
    store_parties(&store, trace);
    put(&store, trace->flow_slots.used);
    for (uint32_t i = 0; i < PDI_FLOWS_MAX; i++) {
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
    for (uint32_t i = slots->count; i > 0; i--) {
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
    struct load load = {.at = data, .end = data + size};
    if (get(&load, UINT64_MAX) != VERSION) {
        return PYDDSI_BAD_INPUT;
    }
    static void (*const loads[4])(struct load *, struct pdi_trace *) = {
        load_party, load_flow, load_session, load_resource};
    static const uint32_t limits[4] = {PDI_PARTIES_MAX, PDI_FLOWS_MAX, PDI_SESSIONS_MAX,
                                       PDI_RESOURCES_MAX};
    for (unsigned table = 0; table < 4; table++) {
        uint64_t count = get(&load, limits[table]);
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
