/* trace.c - whose packets are ours.
 *
 * Only multicast goes to the well-known port; answers, handshakes and acknowledgements run between ephemeral ports. So who
 * speaks the protocol is learnt, in three ways:
 *
 *     by port       either end has a well-known port
 *     by company    an end that exchanged a packet with one that speaks, speaks too (groups and well-known ports aside,
 *                   since others may use these)
 *     by its looks  a datagram between strangers that is, to its last byte, a correct HELLO or OPEN with a locator; SCOUT is
 *                   two bytes, and too short to prove anything
 *
 * A HELLO and an OPEN name the groups that their sender hears; traffic to these is ours as well.
 *
 * The usual packet is between two parties that were seen a moment ago: two looks into a small table of the last ones, and
 * no hashing with a key.
 */
#include "base/endpoint.h"
#include "capture/trace_inside.h"
#include "wire/decode.h"

static const char *const event_names[PDI_EVENT_COUNT] = {
    "gap",
    "repeat",
    "fill",
    "nack",
    "stall",
    "silence",
    "lease_expired",
    "scout",
    "open",
    "accept",
    "close",
    "refused",
    "moved",
    "reset",
    "malformed",
    "unknown_kind",
    "truncated",
    "capture_drop",
    "declare_refused",
};

const char *pdi_event_name(unsigned type)
{
    return type < PDI_EVENT_COUNT ? event_names[type] : "";
}

void pdi_trace_begin(struct pdi_trace *trace)
{
    memset(trace->by_event, 0, sizeof trace->by_event);
    memset(trace->by_kind, 0, sizeof trace->by_kind);
    memset(trace->declined, 0, sizeof trace->declined);
    trace->samples_repeated = trace->samples_presync = 0;
    trace->samples_missing = 0;
    trace->samples_filled = 0;
    trace->evicted = trace->forgotten = trace->names_gone = 0;
    trace->event_count = 0;
    /* what was never taken need not be touched */
    for (uint32_t i = 0; i < trace->party_slots.fresh; i++) {
        trace->parties[i].packets = trace->parties[i].bytes = 0;
    }
    for (uint32_t i = 0; i < trace->flow_slots.fresh; i++) {
        if (trace->flows[i].used) {
            pdi_flow_tally(&trace->flows[i]);
            pdi_histograms_free(trace, &trace->flows[i]);
        }
    }
}

struct pdi_event *pdi_trace_event(struct pdi_trace *trace, unsigned type, int64_t time_ns)
{
    uint32_t at =
        trace->event_count < PDI_EVENTS_MAX - 1 ? trace->event_count++ : PDI_EVENTS_MAX - 1;
    struct pdi_event *event = &trace->events[at];
    trace->by_event[type]++;
    *event = (struct pdi_event){.type = (uint8_t)type,
                                .usn_from = PDI_NONE64,
                                .usn_to = PDI_NONE64,
                                .value_us = PDI_NONE64,
                                .time_ns = time_ns};
    return event;
}

void pdi_event_say(struct pdi_event *event, const char *text, uint64_t number)
{
    size_t at = 0;
    for (; *text != '\0' && at < PDI_DETAIL - 1; text++) { /* the text is ours, and short */
        if (*text != '#') {
            event->detail[at++] = *text;
            continue;
        }
        char digits[20];
        unsigned count = 0;
        do {
            digits[count++] = (char)('0' + number % 10);
            number /= 10;
        } while (number != 0); /* at most 20 times */
        while (count > 0 && at < PDI_DETAIL - 1) {
            event->detail[at++] = digits[--count];
        }
    }
    event->detail[at] = '\0';
}

/* ---- parties ---- */

static bool well_known(const struct pdi_trace *trace, const pyddsi_endpoint *at)
{
    for (uint32_t i = 0; i < trace->port_count; i++) { /* PDI_PORTS_MAX */
        if (trace->ports[i] == at->port) {
            return true;
        }
    }
    return false;
}

uint32_t pdi_party_find(struct pdi_trace *trace, const pyddsi_endpoint *at)
{
    uint64_t ep = pdi_endpoint_hash(at), found;
    uint32_t party = trace->cache[ep % PDI_CACHE].party;
    if (party == PDI_NONE32 || trace->cache[ep % PDI_CACHE].ep != ep) {
        if (!pdi_map_get(&trace->party_of, ep, &found)) {
            return PDI_NONE32;
        }
        party = (uint32_t)found;
        trace->cache[ep % PDI_CACHE].ep = ep;
        trace->cache[ep % PDI_CACHE].party = party;
    }
    /* two endpoints with one number: the second is nobody */
    return pdi_endpoint_same(&trace->parties[party].at, at) ? party : PDI_NONE32;
}

void pdi_party_set(struct pdi_trace *trace, uint32_t party, const pyddsi_endpoint *at)
{
    trace->parties[party] = (struct pdi_party){
        .at = *at,
        .ep = pdi_endpoint_hash(at),
        .first_ns = PDI_NONE64,
        .last_ns = PDI_NONE64,
        .lease_ns = PDI_NONE64,
        .stopped_ns = trace->stopped_ns,
        .silence_ns = INT64_MAX,
        .flows = PDI_NONE32,
        .sessions = PDI_NONE32,
        .same = PDI_NONE32,
        .recent = {PDI_NONE32, PDI_NONE32},
        .used = 1,
        .group = pdi_endpoint_is_group(at),
        .shared = pdi_endpoint_is_group(at) || well_known(trace, at),
        .seq_bits = trace->seq_bits != 0 ? trace->seq_bits : 14,
    };
    (void)pdi_map_put(&trace->party_of, trace->parties[party].ep, party);
}

uint32_t pdi_party_get(struct pdi_trace *trace, const pyddsi_endpoint *at)
{
    uint32_t party = pdi_party_find(trace, at);
    if (party != PDI_NONE32) {
        return party;
    }
    uint64_t ep = pdi_endpoint_hash(at), taken;
    if (pdi_map_get(&trace->party_of, ep, &taken)) {
        return (uint32_t)taken; /* of another endpoint: they are one from here on */
    }
    party = pdi_slots_get(&trace->party_slots);
    if (party == PDI_NONE32) {
        pdi_sweep_parties(trace);
        party = pdi_slots_get(&trace->party_slots);
    }
    PDI_CHECK(party != PDI_NONE32);
    pdi_party_set(trace, party, at);
    return party;
}

/* Whether a stranger's datagram is a correct HELLO or OPEN, and nothing else. */
static bool looks_ours(const uint8_t *data, size_t size)
{
    static const pyddsi_options strict = {.strictness = PYDDSI_STRICT};
    unsigned kind = size != 0 ? data[0] & 0x1fU : 0;
    if ((kind != PYDDSI_HELLO && kind != PYDDSI_OPEN) || size < 6 || size > 512) {
        return false;
    }
    pyddsi_reading reading;
    pyddsi_decoder decoder;
    pyddsi_message message;
    (void)pdi_reading_init(&reading, &strict);
    pdi_decoder_init(&decoder, &reading, data, size);
    if (pdi_decoder_next(&decoder, &message) != PYDDSI_OK || decoder.at != size) {
        return false;
    }
    pyddsi_list locators = message.locators;
    pyddsi_locator locator;
    bool any = false;
    for (size_t i = 0; i < message.locators.count && i < 16; i++) {
        if (pdi_list_locator(&locators, &locator) != PYDDSI_OK || locator.text.size < 5 ||
            (memcmp(locator.text.data, "udp/", 4) != 0 &&
             memcmp(locator.text.data, "tcp/", 4) != 0)) {
            return false;
        }
        any = true;
    }
    return any;
}

/* The party with this endpoint, which often is that of the last packet. */
static uint32_t find_again(struct pdi_trace *trace, uint32_t last, const pyddsi_endpoint *at)
{
    if (last != PDI_NONE32 && trace->parties[last].used &&
        pdi_endpoint_same(&trace->parties[last].at, at)) {
        return last;
    }
    return pdi_party_find(trace, at);
}

bool pdi_trace_ours(struct pdi_trace *trace, const pyddsi_endpoint *source,
                    const pyddsi_endpoint *target, const uint8_t *data, size_t size,
                    struct pdi_trace_packet *packet)
{
    uint32_t from = find_again(trace, trace->busy[0], source),
             to = find_again(trace, trace->busy[1], target);
    struct pdi_party *const parties = trace->parties;
    bool known =
        (from != PDI_NONE32 && parties[from].speaks) || (to != PDI_NONE32 && parties[to].speaks);
    if (!known) {
        known = well_known(trace, source) || well_known(trace, target) ||
                (trace->learn && looks_ours(data, size));
        if (!known) {
            return false;
        }
    }
    if (from == PDI_NONE32 || to == PDI_NONE32 || !known) {
        (void)pdi_party_get(trace, source);
        to = pdi_party_get(trace, target);
        from = pdi_party_get(trace, source); /* the target's room may have been the source's */
    }
    parties[from].speaks |= !parties[from].shared;
    parties[to].speaks |= !parties[to].shared;
    packet->source = trace->busy[0] = from;
    packet->target = trace->busy[1] = to;
    return true;
}

uint32_t pdi_trace_party(struct pdi_trace *trace, const pyddsi_endpoint *at)
{
    return pdi_party_find(trace, at);
}

bool pdi_trace_extended(const struct pdi_trace *trace, uint32_t party)
{
    return !trace->parties[party].told || trace->parties[party].extended;
}

/* ---- packets and messages ---- */

/* Who is there says something within each lease. Where nobody has said anything for longer than any lease, the capturing
 * has paused or the clock was set: that is no silence of anybody's. */
static void pass(struct pdi_trace *trace, int64_t time_ns)
{
    int64_t passed;
    if (trace->latest_ns != PDI_NONE64 && trace->lease_ns > 0 &&
        !__builtin_sub_overflow(time_ns, trace->latest_ns, &passed) && passed > trace->lease_ns &&
        __builtin_add_overflow(trace->stopped_ns, passed, &trace->stopped_ns)) {
        trace->stopped_ns = INT64_MAX;
    }
    trace->latest_ns = time_ns > trace->latest_ns ? time_ns : trace->latest_ns;
}

void pdi_trace_packet(struct pdi_trace *trace, const struct pdi_trace_packet *packet, size_t size)
{
    struct pdi_party *party = &trace->parties[packet->source];
    trace->event_count = 0;
    trace->packet_number = packet->number;
    party->packets++;
    party->bytes += size;
    if (packet->time_ns == PDI_TIME_NONE) {
        return;
    }
    pass(trace, packet->time_ns);
    if (party->last_ns == PDI_NONE64) {
        party->first_ns = packet->time_ns;
    } else if (party->sessions != PDI_NONE32) {
        pdi_seen_heard(trace, packet->source, packet->time_ns);
    }
    party->last_ns = packet->time_ns > party->last_ns ? packet->time_ns : party->last_ns;
    party->stopped_ns = trace->stopped_ns;
}

void pdi_trace_message(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                       const pyddsi_message *message, pyddsi_note *note)
{
    *note = (pyddsi_note){.usn = PDI_NONE64,
                          .since_first_us = PDI_NONE64,
                          .ack_usn = PDI_NONE64,
                          .answer_us = PDI_NONE64,
                          .delivery_us = PDI_NONE64,
                          .outstanding = PDI_NONE64,
                          .nack_mask = PDI_NONE64,
                          .event = PDI_SEQ_NONE};
    trace->by_kind[message->kind]++;
    switch (message->kind) {
    case PYDDSI_DECLARE:
        pdi_flow_count(trace, packet, message, note);
        pdi_names_message(trace, packet, message,
                          note->event == PDI_SEQ_REPEAT || note->event == PDI_SEQ_PRE_SYNC);
        break;
    case PYDDSI_SDATA:
    case PYDDSI_BDATA:
    case PYDDSI_WDATA:
    case PYDDSI_PULL:
        pdi_flow_count(trace, packet, message, note);
        break;
    case PYDDSI_MIGRATE:
        pdi_flow_mention(trace, packet, message, note);
        break;
    case PYDDSI_SYNCH:
        pdi_flow_synch(trace, packet, message, note);
        break;
    case PYDDSI_ACKNACK:
        pdi_ack_count(trace, packet, message, note);
        break;
    default:
        pdi_seen_message(trace, packet, message, note);
        break;
    }
}

void pdi_trace_fault(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                     const pyddsi_fault *fault, unsigned kind, bool cut)
{
    unsigned type = cut ? PDI_EVENT_TRUNCATED
                    : fault->rule == PYDDSI_RULE_KIND_UNKNOWN ||
                            fault->rule == PYDDSI_RULE_KIND_RESERVED ||
                            fault->rule == PYDDSI_RULE_KIND_EXTENSION
                        ? PDI_EVENT_UNKNOWN_KIND
                        : PDI_EVENT_MALFORMED;
    struct pdi_event *event = pdi_trace_event(trace, type, packet->time_ns);
    event->peer = trace->parties[packet->source].ep;
    trace->parties[packet->source].cuts += cut;
    pdi_event_say(event, type == PDI_EVENT_UNKNOWN_KIND ? "kind #" : "byte #",
                  type == PDI_EVENT_UNKNOWN_KIND ? kind : fault->at);
}

void pdi_trace_lost(struct pdi_trace *trace, uint64_t frames, int64_t time_ns)
{
    trace->event_count = 0;
    pdi_event_say(pdi_trace_event(trace, PDI_EVENT_CAPTURE_DROP, time_ns), "# frames", frames);
}

void pdi_trace_finish(struct pdi_trace *trace, uint32_t party, int64_t time_ns)
{
    trace->event_count = 0;
    trace->packet_number = 0; /* what ends now, no frame shows */
    if (trace->parties[party].used && trace->parties[party].last_ns != PDI_NONE64 &&
        time_ns != PDI_TIME_NONE) {
        pdi_seen_heard(trace, party, time_ns);
    }
}
