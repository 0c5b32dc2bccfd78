/* scan_rows.c - rows: what of all that is known goes into which column. */
#include <string.h>

#include "base/check.h"
#include "capture/hash.h"
#include "capture/scan.h"
#include "wire/list.h"
#include "wire/table.h"

/* Which of a row's numbers a kind of message has. Made from the protocol's table once. */
enum {
    HAS_SN = 1,
    HAS_RID = 2,
    HAS_PAYLOAD = 4,
    HAS_SOLICIT = 8,
    HAS_DATA_RID = 16,
    HAS_CONDUIT = 32,
    KNOWN = 64
};

static unsigned has_of(unsigned kind)
{
    static uint8_t known[PYDDSI_KIND_COUNT]; /* written by any thread, always with the same */
    if (known[kind] != 0) {
        return known[kind];
    }
    unsigned has = KNOWN;
    const pyddsi_spec *spec = &pdi_messages[kind];
    has |= spec->flag[0].letter == 'S' ? HAS_SOLICIT : 0U;
    for (unsigned i = 0; i < spec->field_count; i++) {
        size_t at = spec->field[i].at;
        has |= at == offsetof(pyddsi_message, sn)         ? HAS_SN | HAS_CONDUIT
               : at == offsetof(pyddsi_message, rid)      ? HAS_RID
               : at == offsetof(pyddsi_message, data_rid) ? HAS_DATA_RID
               : at == offsetof(pyddsi_message, payload)  ? HAS_PAYLOAD
                                                          : 0U;
    }
    has |= kind == PYDDSI_MIGRATE ? HAS_CONDUIT : 0U;
    known[kind] = (uint8_t)has;
    return has;
}

static bool is_reliable(const pyddsi_message *message)
{
    switch (message->kind) {
    case PYDDSI_SDATA:
    case PYDDSI_BDATA:
    case PYDDSI_WDATA:
    case PYDDSI_SYNCH:
        return (message->flags & PYDDSI_R) != 0;
    case PYDDSI_DECLARE:
    case PYDDSI_PULL:
    case PYDDSI_MIGRATE:
        return true;
    default:
        return false;
    }
}

/* ---- messages ---- */

/* The name of what a message is about; with flag A that is what the data really is of. */
static pyddsi_bytes uri_of(const struct pdi_scan *scan, const pyddsi_message *message, unsigned has)
{
    if (message->kind == PYDDSI_WDATA) {
        return message->uri;
    }
    if (!(has & HAS_RID) || message->kind == PYDDSI_MIGRATE) {
        return (pyddsi_bytes){NULL, 0};
    }
    bool actual = has & HAS_DATA_RID && message->flags & PYDDSI_A && message->data_rid != 0;
    return pdi_trace_name(scan->trace, scan->packet.source, (uint8_t)message->space,
                          actual ? message->data_rid : message->rid);
}

static void message_fill(const struct pdi_scan *scan, struct pdi_row_message *row,
                         const pyddsi_message *message, const pyddsi_note *note)
{
    unsigned has = has_of(message->kind);
    row->msg = scan->messages;
    row->at = (uint32_t)message->at;
    row->size = (uint32_t)message->size;
    row->conduit = has & HAS_CONDUIT ? (uint16_t)message->conduit : 0;
    row->space = (uint8_t)message->space;
    row->kind = message->kind;
    row->decode = PYDDSI_DECODE_OK;
    row->solicit = has & HAS_SOLICIT && message->flags & PYDDSI_S;
    row->reliable = is_reliable(message);
    row->sn = has & HAS_SN ? (int64_t)message->sn : PDI_NONE64;
    row->rid = has & HAS_RID && !(message->kind == PYDDSI_MIGRATE && !(message->flags & PYDDSI_I))
                   ? pdi_table_id(message->rid)
                   : PDI_NONE64;
    row->data_rid = has & HAS_DATA_RID && message->flags & PYDDSI_A
                        ? pdi_table_id(message->data_rid)
                        : PDI_NONE64;
    row->frag = message->fragment ? (int64_t)message->first : PDI_NONE64;
    row->samples =
        message->kind == PYDDSI_BDATA ? (uint32_t)message->samples.count : (has & HAS_PAYLOAD) != 0;
    row->payload_len = (uint32_t)pdi_trace_payload(message);
    if (!scan->stateless) {
        row->note = *note;
    }
    if (scan->with_uri) {
        row->uri = uri_of(scan, message, has);
    }
    if (scan->with_payload) {
        row->payload = has & HAS_PAYLOAD ? message->payload
                       : message->kind == PYDDSI_BDATA
                           ? (pyddsi_bytes){message->samples.data, message->samples.size}
                           : (pyddsi_bytes){NULL, 0};
        if (row->payload.size > scan->options.payload_max) {
            row->payload.size = scan->options.payload_max;
        }
    }
}

/* Whether a message is one of those that the filter lets through, of a scan that goes packet by packet. */
static bool passes(struct pdi_scan *scan, const struct pdi_row_message *row)
{
    struct pdi_row_packet packet;
    if (scan->options.where_count == 0) {
        return true;
    }
    pdi_rows_place(scan, &packet);
    return pdi_filter_test(&scan->filter, row, &packet);
}

/* The number that declarations, their commit and its results share. */
static int64_t transaction_of(const struct pdi_scan *scan, const pyddsi_message *message,
                              const pyddsi_declaration *declaration)
{
    const struct pdi_party *source = &scan->trace->parties[scan->packet.source];
    const struct pdi_party *target = &scan->trace->parties[scan->packet.target];
    if (declaration->kind == PYDDSI_RESULT) {
        if (target->group || target->commits == 0) {
            return PDI_NONE64; /* to everybody: whose commit it answers is not said */
        }
        uint64_t back = (uint8_t)(target->commit - declaration->commit);
        return (int64_t)pdi_id(pdi_mix(target->ep, target->commits - back));
    }
    if (message->flags & PYDDSI_C) {
        return PDI_NONE64;
    }
    /* the DECLARE has been counted already: what stands before its COMMIT belongs to that as well */
    pyddsi_list list = message->declarations;
    pyddsi_declaration other;
    bool commits = false;
    for (size_t i = 0;
         i < message->declarations.count && pdi_list_declaration(&list, &other) == PYDDSI_OK; i++) {
        commits |= other.kind == PYDDSI_COMMIT;
        if (i >= 64) {
            break;
        }
    }
    return (int64_t)pdi_id(pdi_mix(source->ep, source->commits + !commits));
}

static void declaration_row(struct pdi_scan *scan, const pyddsi_message *message,
                            const pyddsi_declaration *declaration, uint32_t item,
                            int64_t transaction)
{
    struct pdi_row_declaration *row = pdi_sink_row(scan->sink);
    unsigned kind = declaration->kind;
    bool periodic =
        kind == PYDDSI_SUBSCRIPTION && (declaration->mode == 3 || declaration->mode == 4);
    bool about_commit = kind == PYDDSI_COMMIT || kind == PYDDSI_RESULT;
    bool id = kind != PYDDSI_COMMIT && !(kind == PYDDSI_RESULT && declaration->status == 0);
    row->msg = scan->messages;
    row->item = item;
    row->kind = pdi_declarations[kind].name;
    row->id = id ? pdi_table_id(declaration->id) : PDI_NONE64;
    row->new_id = kind == PYDDSI_BINDING ? pdi_table_id(declaration->new_id) : PDI_NONE64;
    row->mode = kind == PYDDSI_SUBSCRIPTION ? (int64_t)declaration->mode : PDI_NONE64;
    row->period_ms = periodic ? (int64_t)declaration->period : PDI_NONE64;
    row->commit = about_commit ? (int64_t)declaration->commit : PDI_NONE64;
    row->status = kind == PYDDSI_RESULT ? (int64_t)declaration->status : PDI_NONE64;
    row->transaction = transaction;
    row->name = kind == PYDDSI_RESOURCE    ? declaration->uri
                : kind == PYDDSI_SELECTION ? declaration->query
                                           : (pyddsi_bytes){NULL, 0};
    row->space = (uint8_t)message->space;
    row->committed = (message->flags & PYDDSI_C) != 0;
    (void)pdi_sink_put(scan->sink);
}

static void declaration_rows(struct pdi_scan *scan, const pyddsi_message *message)
{
    pyddsi_list list = message->declarations;
    pyddsi_declaration declaration = {0};
    int64_t transaction = PDI_NONE64;
    for (uint32_t i = 0; i < message->declarations.count; i++) { /* 65535, and each has a byte */
        if (pdi_list_declaration(&list, &declaration) != PYDDSI_OK) {
            return;
        }
        if (i == 0 || declaration.kind == PYDDSI_RESULT) {
            transaction = transaction_of(scan, message, &declaration);
        }
        declaration_row(scan, message, &declaration, i, transaction);
    }
}

static bool is_data(unsigned kind)
{
    return kind == PYDDSI_SDATA || kind == PYDDSI_BDATA || kind == PYDDSI_WDATA;
}

void pdi_rows_place(const struct pdi_scan *scan, struct pdi_row_packet *place)
{
    const struct pdi_party *source = &scan->trace->parties[scan->packet.source];
    const struct pdi_party *target = &scan->trace->parties[scan->packet.target];
    place->pkt = scan->packet.number;
    place->offset = scan->packet_offset;
    place->ts_ns = scan->packet.time_ns;
    place->file = (uint32_t)scan->options.file;
    place->recording = (uint32_t)scan->options.recording;
    place->source = scan->packet_source;
    place->target = scan->packet_target;
    place->src_ep = source->ep;
    place->dst_ep = target->ep;
    place->multicast = target->group;
}

void pdi_rows_message(struct pdi_scan *scan, const pyddsi_message *message, const pyddsi_note *note)
{
    bool now = pdi_scan_in_time(scan, scan->packet.time_ns);
    if (scan->trace->event_count != 0) {
        pdi_rows_events(scan);
    }
    if (scan->note_count != 0) {
        struct pdi_row_message row;
        message_fill(scan, &row, message, note);
        scan->notes[scan->note_count - 1].passes = passes(scan, &row);
    }
    if (scan->rates != NULL && now && is_data(message->kind)) {
        pdi_rates_count(scan, message, note);
    }
    switch (scan->options.table) {
    case PYDDSI_TABLE_MESSAGES:
        if (now) {
            message_fill(scan, pdi_sink_row(scan->sink), message, note);
            (void)pdi_sink_put(scan->sink);
        }
        break;
    case PYDDSI_TABLE_DECLARATIONS:
        if (now && message->kind == PYDDSI_DECLARE) {
            declaration_rows(scan, message);
        }
        break;
    default:
        break;
    }
}

static void fault_fill(const struct pdi_scan *scan, struct pdi_row_message *row)
{
    *row = (struct pdi_row_message){
        .packet = row->packet,
        .msg = scan->messages,
        .at = (uint32_t)scan->decoder.at,
        .size = (uint32_t)(scan->decoder.size - scan->decoder.at),
        .sn = PDI_NONE64,
        .rid = PDI_NONE64,
        .data_rid = PDI_NONE64,
        .frag = PDI_NONE64,
        .note = {.usn = PDI_NONE64,
                 .since_first_us = PDI_NONE64,
                 .ack_usn = PDI_NONE64,
                 .answer_us = PDI_NONE64,
                 .delivery_us = PDI_NONE64,
                 .outstanding = PDI_NONE64,
                 .nack_mask = PDI_NONE64,
                 .event = PDI_SEQ_NONE},
        .conduit = (uint16_t)scan->decoder.conduit,
        .kind = scan->decoder.kind,
        .decode = scan->decode,
    };
}

void pdi_rows_fault(struct pdi_scan *scan)
{
    pdi_rows_events(scan);
    if (scan->noted) {
        struct pdi_row_message row = {0};
        fault_fill(scan, &row);
        scan->fault_passes = passes(scan, &row);
    }
    if (scan->options.table != PYDDSI_TABLE_MESSAGES ||
        !pdi_scan_in_time(scan, scan->packet.time_ns)) {
        return;
    }
    fault_fill(scan, pdi_sink_row(scan->sink));
    (void)pdi_sink_put(scan->sink);
}

void pdi_rows_events(struct pdi_scan *scan)
{
    struct pdi_trace *trace = scan->trace;
    for (uint32_t i = 0; i < trace->event_count; i++) { /* PDI_EVENTS_MAX */
        const struct pdi_event *event = &trace->events[i];
        if (scan->facts.event_packet[event->type] == 0) {
            scan->facts.event_packet[event->type] = scan->packet.number;
            scan->facts.event_ns[event->type] = event->time_ns;
            scan->facts.event_file[event->type] = scan->options.file;
        }
        if (scan->sink == NULL || scan->options.table != PYDDSI_TABLE_EVENTS ||
            !pdi_scan_in_time(scan, event->time_ns)) {
            continue;
        }
        struct pdi_row_event *row = pdi_sink_row(scan->sink);
        row->msg = scan->messages;
        row->epoch = event->epoch;
        row->ts_ns = event->time_ns;
        row->flow = (int64_t)event->flow;
        row->peer = (int64_t)event->peer;
        row->usn_from = event->usn_from;
        row->usn_to = event->usn_to;
        row->value_us = event->value_us;
        row->type = pdi_event_name(event->type);
        row->detail = event->detail;
        (void)pdi_sink_put(scan->sink);
    }
    trace->event_count = 0;
}

/* ---- frames ---- */

void pdi_rows_frame(const struct pdi_scan *scan, struct pdi_row_packet *place)
{
    const struct pdi_frame *frame = &scan->frame;
    const struct pdi_carried *carried = &scan->carried;
    bool ends = carried->source.kind != 0;
    *place = (struct pdi_row_packet){
        .pkt = frame->number,
        .offset = frame->offset,
        .ts_ns = frame->time_ns,
        .src_ep = ends ? pdi_endpoint_hash(&carried->source) : (uint64_t)PDI_NONE64,
        .dst_ep = ends ? pdi_endpoint_hash(&carried->target) : (uint64_t)PDI_NONE64,
        .payload = {carried->data, carried->size < scan->options.payload_max
                                       ? carried->size
                                       : scan->options.payload_max},
        .source = carried->source,
        .target = carried->target,
        .file = (uint32_t)scan->options.file,
        .recording = (uint32_t)scan->options.recording,
        .iface = frame->interface,
        .cap_len = frame->size,
        .payload_len = carried->size,
        .messages = scan->frame_messages,
        .wire_len = frame->wire_size,
        .vlan = carried->vlan,
        .ip = carried->ip,
        .protocol = carried->protocol,
        .multicast = ends && pdi_endpoint_is_group(&carried->target),
        .fragment = carried->piece,
        .direction = frame->direction,
        .decode = scan->frame_decode,
    };
}

void pdi_rows_packet(struct pdi_scan *scan)
{
    if (!pdi_scan_in_time(scan, scan->frame.time_ns)) {
        return;
    }
    pdi_rows_frame(scan, pdi_sink_packet(scan->sink));
    (void)pdi_sink_row(scan->sink);
    (void)pdi_sink_put(scan->sink);
}
