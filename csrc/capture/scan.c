/* scan.c - see scan.h: the phases, and what a frame goes through. */
#include "capture/scan.h"

#include <string.h>

#include "base/carve.h"
#include "base/check.h"
#include "capture/copy.h"
#include "capture/hash.h"
#include "wire/decode.h"

#define ROWS_USUAL   65536U
#define LOOKED_AT    64U              /* bytes of a datagram that is held against the last ones */
#define DOUBLE_NS    INT64_C(1000000) /* a copy of a datagram comes within this */
#define SWEPT_ROWS   20000U
#define SWEPT_BYTES  (16U << 20)
#define NAMES_OF_ROW 2304U /* bytes of the longest texts of a row, but for what its packet holds */

/* ---- memory ---- */

struct layout {
    void *pieces, *tcp, *trace;
};

static struct pdi_scan *lay_out(struct pdi_carve *carve, const pyddsi_scan_options *options,
                                struct layout *layout)
{
    struct pdi_scan *scan = pdi_carve(carve, 1, sizeof *scan);
    struct pdi_scan *into = scan;
    bool table = options->table != PYDDSI_TABLE_NONE;
    bool tally = options->tally || options->table == PYDDSI_TABLE_RATES;
    layout->pieces = pdi_carve(carve, 1, pdi_pieces_size());
    layout->tcp = pdi_carve(carve, 1, pdi_tcp_size());
    layout->trace = pdi_carve(carve, 1, pdi_trace_size());
    struct pdi_stream_seen *streams = pdi_carve(carve, PDI_TCP_DIRECTIONS_MAX, sizeof *streams);
    struct pdi_sink *sink = pdi_carve(carve, 1, sizeof *sink);
    pyddsi_note *notes = table || tally ? NULL : pdi_carve(carve, PDI_NOTES_MAX, sizeof *notes);
    struct pdi_rate *rates = tally ? pdi_carve(carve, PDI_RATES_MAX, sizeof *rates) : NULL;
    if (into != NULL) {
        into->streams = streams;
        into->own_sink = sink;
        into->sink = table ? sink : NULL;
        into->notes = notes;
        into->rates = rates;
    }
    return scan;
}

size_t pdi_scan_size(const pyddsi_scan_options *options)
{
    struct pdi_carve carve = {0};
    struct layout layout;
    (void)lay_out(&carve, options, &layout);
    return carve.size;
}

/* Whether the table of packets is wanted without anything that needs decoding. */
static bool is_light(const struct pdi_scan *scan)
{
    return scan->sink != NULL && scan->options.table == PYDDSI_TABLE_PACKETS &&
           !pdi_sink_wants(scan->sink, offsetof(struct pdi_row_packet, messages), true) &&
           !pdi_sink_wants(scan->sink, offsetof(struct pdi_row_packet, decode), true);
}

/* Whether anything is wanted of what a message means to those before it. */
static bool wants_notes(const struct pdi_sink *sink)
{
    size_t from = offsetof(struct pdi_row_message, note), to = from + sizeof(pyddsi_note);
    for (size_t at = from; at < to; at++) { /* the offsets of its fields are among them */
        if (pdi_sink_wants(sink, at, false)) {
            return true;
        }
    }
    return false;
}

static void flow_goes(void *context, uint32_t flow)
{
    pdi_rows_flow(context, flow);
}

static void session_goes(void *context, uint32_t session)
{
    pdi_rows_session(context, session);
}

static void resource_goes(void *context, uint32_t resource)
{
    pdi_rows_resource(context, resource);
}

static void party_goes(void *context, uint32_t party)
{
    pdi_rows_party(context, party);
}

/* Who is told when something is given up: whoever would have put it into a row at the end. */
static struct pdi_trace_listener listener_of(struct pdi_scan *scan)
{
    int table = scan->options.table;
    return (struct pdi_trace_listener){
        .flow_goes = table == PYDDSI_TABLE_FLOWS ? flow_goes : NULL,
        .session_goes = table == PYDDSI_TABLE_SESSIONS ? session_goes : NULL,
        .resource_goes = table == PYDDSI_TABLE_RESOURCES ? resource_goes : NULL,
        .party_goes = table == PYDDSI_TABLE_ENDPOINTS ? party_goes : NULL,
        .context = scan,
    };
}

int pdi_scan_init(struct pdi_scan **made, void *memory, const pyddsi_scan_options *options,
                  const uint64_t seed[2])
{
    struct pdi_carve carve = {.memory = memory};
    struct layout layout;
    bool table = options->table != PYDDSI_TABLE_NONE;
    pyddsi_options readings[2] = {{.base_only = 1}, {.base_only = 0}};
    if ((table && (options->table < 0 || options->table >= PYDDSI_TABLE_COUNT)) ||
        options->port_count > PYDDSI_SCAN_PORTS_MAX || options->window_ns <= 0 ||
        (options->seq_bits != 0 &&
         (options->seq_bits < PDI_SEQ_BITS_MIN || options->seq_bits > PDI_SEQ_BITS_MAX))) {
        return PYDDSI_BAD_ARGUMENT;
    }
    struct pdi_scan *scan = *made = lay_out(&carve, options, &layout);
    scan->options = *options;
    /* packet by packet, messages are filtered as rows of their table */
    const struct pdi_table *columns =
        &pdi_tables[table ? (unsigned)options->table : PYDDSI_TABLE_MESSAGES];
    if (options->where_count != 0 &&
        pdi_filter_init(&scan->filter, columns, options->where, options->where_count,
                        options->texts, options->texts_size) != PYDDSI_OK) {
        return PYDDSI_BAD_ARGUMENT;
    }
    for (unsigned i = 0; i < 2; i++) {
        (void)pdi_reading_init(&scan->reading[i], &readings[i]);
    }
    pdi_container_init(&scan->container);
    scan->dissector.pieces = pdi_pieces_init(layout.pieces);
    scan->tcp = pdi_tcp_init(layout.tcp);
    scan->trace = pdi_trace_init(layout.trace, seed);
    scan->trace->seq_bits = options->seq_bits;
    scan->trace->learn = options->learn;
    if (options->port_count != 0) {
        scan->trace->port_count = options->port_count;
        memcpy(scan->trace->ports, options->ports, options->port_count * sizeof *options->ports);
    }
    scan->trace->listener = listener_of(scan);
    scan->limit = UINT64_MAX;
    scan->last_ns = scan->latest_ns = PDI_TIME_NONE;
    scan->facts.first_ns = scan->facts.last_ns = PDI_TIME_NONE;
    scan->facts.range_first_ns = scan->facts.range_last_ns = PDI_TIME_NONE;
    scan->with_uri = !table && options->where_count != 0;
    scan->with_payload = scan->with_uri;
    if (table) {
        pdi_sink_init(scan->sink, columns, options->columns,
                      options->where_count != 0 ? &scan->filter : NULL);
        scan->with_uri = options->table == PYDDSI_TABLE_MESSAGES &&
                         pdi_sink_wants(scan->sink, offsetof(struct pdi_row_message, uri), false);
        scan->with_payload =
            options->table == PYDDSI_TABLE_MESSAGES &&
            pdi_sink_wants(scan->sink, offsetof(struct pdi_row_message, payload), false);
    }
    scan->light = is_light(scan);
    scan->stateless = options->table == PYDDSI_TABLE_MESSAGES && !wants_notes(scan->sink);
    return PYDDSI_OK;
}

/* ---- room and time ---- */

bool pdi_scan_fits(const struct pdi_scan *scan, size_t rows, size_t bytes)
{
    const struct pdi_sink *sink = scan->sink;
    if (scan->copy != NULL) {
        return pdi_copy_fits(scan->copy);
    }
    return sink == NULL || (sink->rows + sink->pending <
                                (scan->options.rows != 0 ? scan->options.rows : ROWS_USUAL) &&
                            pdi_sink_fits(sink, rows, bytes));
}

bool pdi_scan_in_time(const struct pdi_scan *scan, int64_t time_ns)
{
    return time_ns == PDI_TIME_NONE ||
           (time_ns >= scan->options.from_ns && time_ns < scan->options.until_ns);
}

/* ---- packets of the protocol ---- */

/* Sets out to read a packet. */
static void packet_begin(struct pdi_scan *scan, pyddsi_bytes bytes, const pyddsi_endpoint *source,
                         const pyddsi_endpoint *target, uint64_t number, uint64_t offset,
                         int64_t time_ns)
{
    scan->packet.number = number;
    scan->packet.time_ns = time_ns;
    scan->packet_bytes = bytes;
    scan->packet_source = *source;
    scan->packet_target = *target;
    scan->packet_offset = offset;
    scan->messages = 0;
    scan->note_count = 0;
    scan->fault_passes = 0;
    scan->decode = PYDDSI_DECODE_OK;
    bool extended =
        scan->options.base_only == 2 ||
        (scan->options.base_only == 0 && pdi_trace_extended(scan->trace, scan->packet.source));
    pdi_decoder_init(&scan->decoder, &scan->reading[extended], bytes.data, bytes.size);
    pdi_trace_packet(scan->trace, &scan->packet, bytes.size);
    scan->facts.packets++;
    if (scan->sink != NULL && scan->options.table != PYDDSI_TABLE_PACKETS) {
        pdi_rows_place(scan, pdi_sink_packet(scan->sink));
    }
    if (scan->trace->event_count != 0) {
        pdi_rows_events(scan);
    }
    scan->after = scan->phase;
    scan->phase = PDI_PHASE_MESSAGES;
}

static void fault(struct pdi_scan *scan, bool cut)
{
    int rule = scan->decoder.fault.rule;
    cut = cut && rule == PYDDSI_RULE_CUT;
    scan->decode = cut ? PYDDSI_DECODE_TRUNCATED
                   : rule == PYDDSI_RULE_KIND_UNKNOWN || rule == PYDDSI_RULE_KIND_RESERVED ||
                           rule == PYDDSI_RULE_KIND_EXTENSION
                       ? PYDDSI_DECODE_UNKNOWN
                       : PYDDSI_DECODE_MALFORMED;
    scan->trace->event_count = 0;
    pdi_trace_fault(scan->trace, &scan->packet, &scan->decoder.fault, scan->decoder.kind, cut);
    pdi_rows_fault(scan);
}

static void packet_end(struct pdi_scan *scan)
{
    if (scan->copy != NULL) {
        pdi_copy_packet(scan);
    }
    scan->facts.by_decode[scan->decode]++;
    scan->facts.messages += scan->messages;
    scan->frame_messages += scan->messages;
    if (scan->decode != PYDDSI_DECODE_OK || scan->frame_decode == PYDDSI_DECODE_FOREIGN) {
        scan->frame_decode = scan->decode;
    }
    scan->phase = scan->after;
}

/* Whether the rows fit that so many bytes of messages can cause: a row for each byte would be too many already, with its two
 * endpoints as texts. Where a row stands for a thing that is remembered, a sweep of a full table can bring thousands. */
static bool room_for(const struct pdi_scan *scan, size_t bytes)
{
    int table = scan->options.table;
    if (table == PYDDSI_TABLE_FLOWS || table == PYDDSI_TABLE_SESSIONS ||
        table == PYDDSI_TABLE_RESOURCES || table == PYDDSI_TABLE_ENDPOINTS) {
        return pdi_scan_fits(scan, SWEPT_ROWS, SWEPT_BYTES);
    }
    return pdi_scan_fits(scan, bytes + 2 * PDI_EVENTS_MAX, 32 * bytes + NAMES_OF_ROW);
}

/* Whether a kind is about numbers of a flow and nothing else. */
static bool numbered(unsigned kind)
{
    return kind == PYDDSI_SDATA || kind == PYDDSI_BDATA || kind == PYDDSI_WDATA ||
           kind == PYDDSI_SYNCH || kind == PYDDSI_ACKNACK || kind == PYDDSI_PULL;
}

/* Messages up to the end of the packet: OK, or AGAIN if the batch is full. */
static int messages_step(struct pdi_scan *scan)
{
    pyddsi_message message;
    pyddsi_note note;
    for (;;) { /* each round reads a byte at least, or ends */
        size_t left = scan->decoder.size - scan->decoder.at;
        if (!room_for(scan, left)) {
            return PYDDSI_AGAIN;
        }
        int status = pdi_decoder_next(&scan->decoder, &message);
        if (status != PYDDSI_OK) {
            if (status != PYDDSI_END) {
                fault(scan, scan->cut);
            }
            packet_end(scan);
            return PYDDSI_OK;
        }
        if (message.kind == PYDDSI_CONDUIT || message.kind == PYDDSI_FRAG ||
            message.kind == PYDDSI_RSPACE) {
            scan->trace->by_kind[message.kind]++;
            continue;
        }
        scan->trace->event_count = 0;
        if (!scan->stateless || !numbered(message.kind)) {
            pdi_trace_message(scan->trace, &scan->packet, &message, &note);
        } else {
            scan->trace->by_kind[message.kind]++;
        }
        if (scan->notes != NULL && scan->note_count < PDI_NOTES_MAX) {
            scan->notes[scan->note_count++] = note;
        }
        pdi_rows_message(scan, &message, &note);
        scan->messages++;
    }
}

/* ---- frames ---- */

static void note_time(struct pdi_scan *scan, int64_t time_ns)
{
    pyddsi_scan_facts *facts = &scan->facts;
    if (time_ns == PDI_TIME_NONE) {
        return;
    }
    facts->backwards += scan->last_ns != PDI_TIME_NONE && time_ns < scan->last_ns;
    scan->last_ns = time_ns;
    scan->latest_ns = time_ns > scan->latest_ns ? time_ns : scan->latest_ns;
    if (facts->first_ns == PDI_TIME_NONE || time_ns < facts->first_ns) {
        facts->first_ns = time_ns;
    }
    if (facts->range_first_ns == PDI_TIME_NONE || time_ns < facts->range_first_ns) {
        facts->range_first_ns = time_ns;
    }
    facts->range_last_ns = time_ns > facts->range_last_ns ? time_ns : facts->range_last_ns;
    facts->last_ns = time_ns > facts->last_ns ? time_ns : facts->last_ns;
}

/* Whether this datagram was there a moment ago, word for word as far as its length, its IP identity and its first bytes
 * tell. */
static bool is_double(struct pdi_scan *scan)
{
    const struct pdi_carried *carried = &scan->carried;
    uint64_t hash =
        pdi_mix(pdi_endpoint_hash(&carried->source), pdi_endpoint_hash(&carried->target) + 1);
    hash = pdi_mix(hash, (uint64_t)carried->identity << 32 | carried->whole);
    for (uint32_t i = 0; i + 8 <= carried->size && i < LOOKED_AT; i += 8) {
        uint64_t word;
        memcpy(&word, carried->data + i, sizeof word);
        hash = pdi_mix(hash, word);
    }
    struct pdi_recent *recent = &scan->recent[hash % PDI_RECENT_MAX];
    int64_t apart = scan->frame.time_ns - recent->time_ns;
    bool copy = recent->hash == hash && apart <= DOUBLE_NS && apart >= -DOUBLE_NS;
    *recent = (struct pdi_recent){copy ? 0 : hash,
                                  scan->frame.time_ns}; /* a third is no copy of the second */
    return copy;
}

/* A frame has been looked at. False: not yet, what it is copied to is not ready for it. */
static bool frame_end(struct pdi_scan *scan)
{
    if (scan->finished) {
        return true;
    }
    if (scan->copy != NULL) {
        return pdi_copy_frame(scan);
    }
    if (scan->sink != NULL && scan->options.table == PYDDSI_TABLE_PACKETS) {
        pdi_rows_packet(scan);
    }
    return true;
}

static void udp(struct pdi_scan *scan)
{
    struct pdi_carried *carried = &scan->carried;
    scan->frame_decode = PYDDSI_DECODE_FOREIGN;
    if (scan->light) {
        return;
    }
    if (!pdi_trace_ours(scan->trace, &carried->source, &carried->target, carried->data,
                        carried->size, &scan->packet)) {
        scan->facts.foreign_udp++;
        return;
    }
    if (scan->options.dedupe || scan->options.tally) {
        bool copy = scan->frame.time_ns != PDI_TIME_NONE && is_double(scan);
        scan->facts.doubles += copy;
        if (copy && scan->options.dedupe) {
            return;
        }
    }
    scan->cut = carried->whole > carried->size;
    packet_begin(scan, (pyddsi_bytes){carried->data, carried->size}, &carried->source,
                 &carried->target, scan->frame.number, scan->frame.offset, scan->frame.time_ns);
}

void pdi_scan_stranger(struct pdi_scan *scan, unsigned other, uint32_t detail, uint64_t count)
{
    pyddsi_stranger *strangers = scan->facts.strangers;
    for (unsigned i = 0; count != 0 && i < sizeof scan->facts.strangers / sizeof *strangers; i++) {
        if (strangers[i].count == 0 ||
            (strangers[i].other == other && strangers[i].detail == detail)) {
            strangers[i].other = (uint8_t)other;
            strangers[i].detail = detail;
            strangers[i].count += count;
            return;
        }
    }
}

static void frame_begin(struct pdi_scan *scan)
{
    const struct pdi_frame *frame = &scan->frame;
    scan->facts.frames++;
    note_time(scan, frame->time_ns);
    if (scan->facts.frames == 1) {
        scan->facts.link = frame->link;
    }
    scan->frame_messages = 0;
    scan->frame_decode = PYDDSI_DECODE_OTHER;
    uint64_t given_up = scan->dissector.others[PDI_OTHER_FRAGMENT];
    int status = pdi_dissect(&scan->dissector, frame, &scan->carried);
    given_up = scan->dissector.others[PDI_OTHER_FRAGMENT] - given_up;
    if (given_up != 0) {
        pdi_scan_stranger(scan, PDI_OTHER_FRAGMENT, 0, given_up);
    }
    if (status == PYDDSI_END && scan->carried.other != PDI_OTHER_FRAGMENT) {
        pdi_scan_stranger(scan, scan->carried.other, scan->carried.detail, 1);
    } else if (status == PYDDSI_AGAIN) {
        scan->frame_decode = PYDDSI_DECODE_WAITS;
    } else if (status == PYDDSI_OK && scan->carried.protocol == 17) {
        udp(scan);
    } else if (status == PYDDSI_OK) {
        scan->frame_decode = PYDDSI_DECODE_FOREIGN;
        if (!scan->light) {
            pdi_tcp_push(scan->tcp, frame, &scan->carried);
            scan->phase = PDI_PHASE_PARTS;
        }
    }
}

/* What TCP lets out. */
static void parts_step(struct pdi_scan *scan)
{
    if (pdi_tcp_pop(scan->tcp, &scan->part) != PYDDSI_OK) {
        scan->phase = PDI_PHASE_END;
        return;
    }
    pdi_stream_part(scan);
    scan->facts.foreign_tcp += scan->streams[scan->part.direction].state == PDI_STREAM_FOREIGN;
    scan->phase = PDI_PHASE_BYTES;
}

static void bytes_step(struct pdi_scan *scan)
{
    pyddsi_bytes packet;
    if (!pdi_stream_packet(scan, &packet)) {
        scan->phase = PDI_PHASE_PARTS;
        return;
    }
    scan->cut = 0;
    packet_begin(scan, packet, &scan->part.source, &scan->part.target, scan->part.number,
                 scan->part.offset, scan->part.time_ns);
}

/* Reads the next frame: OK, SHORT, END, BAD_INPUT. */
static int frames_step(struct pdi_scan *scan, const uint8_t *data, size_t size, size_t *used)
{
    size_t need;
    if (scan->container.at >= scan->limit) {
        return PYDDSI_END;
    }
    int status = pdi_container_next(&scan->container, data + *used, size - *used, &scan->frame,
                                    &scan->frame_used, &need);
    if (status == PYDDSI_OK) {
        scan->phase = PDI_PHASE_END; /* unless there is more to it */
        frame_begin(scan);
        return PYDDSI_OK;
    }
    if (status == PYDDSI_BAD_INPUT) {
        scan->facts.damage = scan->container.damage;
        scan->facts.damage_at = scan->container.at;
        return status;
    }
    *used += scan->frame_used;
    scan->facts.bytes += scan->frame_used;
    return PYDDSI_SHORT;
}

int pdi_scan_step(struct pdi_scan *scan, const uint8_t *data, size_t size, size_t *used)
{
    int status = PYDDSI_OK;
    switch (scan->phase) {
    case PDI_PHASE_FRAMES:
        if (!pdi_scan_fits(scan, 2 * PDI_EVENTS_MAX, PDI_FRAME_BYTES_MAX)) {
            return PYDDSI_AGAIN;
        }
        status = frames_step(scan, data, size, used);
        break;
    case PDI_PHASE_PARTS:
        if (scan->copy != NULL && !pdi_copy_fits(scan->copy)) {
            return PYDDSI_AGAIN;
        }
        parts_step(scan);
        break;
    case PDI_PHASE_BYTES:
        if (!pdi_scan_fits(scan, 2 * PDI_EVENTS_MAX, NAMES_OF_ROW)) {
            return PYDDSI_AGAIN;
        }
        bytes_step(scan);
        break;
    case PDI_PHASE_MESSAGES:
        status = messages_step(scan);
        break;
    default:
        if (!frame_end(scan)) {
            return PYDDSI_AGAIN;
        }
        *used += scan->frame_used;
        scan->facts.bytes += scan->frame_used;
        scan->phase = PDI_PHASE_FRAMES;
        break;
    }
    return status;
}

int pdi_scan_input(struct pdi_scan *scan, const uint8_t *data, size_t size, size_t *used)
{
    int status;
    *used = 0;
    do { /* each round reads bytes, or goes on with those it has read */
        status = pdi_scan_step(scan, data, size, used);
    } while (status == PYDDSI_OK);
    return status == PYDDSI_SHORT ? PYDDSI_OK : status;
}

/* ---- packet by packet ---- */

int pdi_scan_packet(struct pdi_scan *scan, const uint8_t *data, size_t size, size_t *used,
                    pyddsi_packet *packet)
{
    int status;
    *used = 0;
    packet->number = 0;
    do { /* as above */
        uint64_t streams = scan->facts.by_decode[PYDDSI_DECODE_STREAM];
        uint8_t before = scan->phase;
        status = pdi_scan_step(scan, data, size, used);
        if (before == PDI_PHASE_MESSAGES ||
            scan->facts.by_decode[PYDDSI_DECODE_STREAM] != streams) {
            bool stream = before != PDI_PHASE_MESSAGES;
            *packet = (pyddsi_packet){
                .number = stream ? scan->part.number : scan->packet.number,
                .offset = stream ? scan->part.offset : scan->packet_offset,
                .time_ns = stream ? scan->part.time_ns : scan->packet.time_ns,
                .source = stream ? scan->part.source : scan->packet_source,
                .target = stream ? scan->part.target : scan->packet_target,
                .data = stream ? NULL : scan->packet_bytes.data,
                .size = stream ? 0 : scan->packet_bytes.size,
                .decode = stream ? PYDDSI_DECODE_STREAM : scan->decode,
                .base_only = scan->decoder.reading == &scan->reading[0],
                .fault_passes = stream || scan->fault_passes,
                .notes = stream ? 0 : scan->note_count,
                .fault = stream ? (pyddsi_fault){0} : scan->decoder.fault,
            };
            return PYDDSI_OK;
        }
    } while (status == PYDDSI_OK);
    return status == PYDDSI_SHORT ? PYDDSI_OK : status;
}

/* ---- datagram by datagram, whosever they are ---- */

static void part_item(const struct pdi_part *part, pyddsi_item *item)
{
    *item = (pyddsi_item){.number = part->number,
                          .offset = part->offset,
                          .time_ns = part->time_ns,
                          .source = part->source,
                          .target = part->target,
                          .data = part->data,
                          .size = part->size,
                          .start = part->start,
                          .end = part->end,
                          .lost = part->lost};
}

static void datagram_item(const struct pdi_scan *scan, pyddsi_item *item)
{
    const struct pdi_carried *carried = &scan->carried;
    *item = (pyddsi_item){.number = scan->frame.number,
                          .offset = scan->frame.offset,
                          .time_ns = scan->frame.time_ns,
                          .source = carried->source,
                          .target = carried->target,
                          .data = carried->data,
                          .size = carried->size,
                          .cut = carried->whole > carried->size};
}

int pdi_scan_item(struct pdi_scan *scan, const uint8_t *data, size_t size, size_t *used,
                  pyddsi_item *item)
{
    *used = 0;
    item->number = 0;
    for (;;) { /* each round takes a part, or reads a frame */
        if (scan->phase == PDI_PHASE_PARTS) {
            if (pdi_tcp_pop(scan->tcp, &scan->part) == PYDDSI_OK) {
                part_item(&scan->part, item);
                return PYDDSI_OK;
            }
            scan->phase = PDI_PHASE_FRAMES;
            *used += scan->frame_used;
            scan->facts.bytes += scan->frame_used;
        }
        scan->light = 1;
        scan->phase = PDI_PHASE_FRAMES;
        int status = frames_step(scan, data, size, used);
        if (status != PYDDSI_OK) {
            return status == PYDDSI_SHORT ? PYDDSI_OK : status;
        }
        if (scan->carried.protocol == 6 && scan->carried.other == PDI_OTHER_NONE &&
            scan->carried.source.kind != 0) {
            pdi_tcp_push(scan->tcp, &scan->frame, &scan->carried);
            scan->phase = PDI_PHASE_PARTS;
            continue;
        }
        scan->phase = PDI_PHASE_FRAMES;
        *used += scan->frame_used;
        scan->facts.bytes += scan->frame_used;
        if (scan->carried.protocol == 17 && scan->frame_decode == PYDDSI_DECODE_FOREIGN) {
            datagram_item(scan, item);
            return PYDDSI_OK;
        }
    }
}
