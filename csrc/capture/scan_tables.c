/* scan_tables.c - rows of what has been added up: flows, sessions, resources, endpoints, rates; and the end of a scan.
 *
 * Rates are added up in a table of their own, by window, flow, resource and kind. When it is full, its rows come out and it
 * begins anew: whoever reads them adds them up once more, over ranges or not.
 */
#include <string.h>

#include "capture/hash.h"
#include "capture/scan.h"

void pdi_rows_flow(struct pdi_scan *scan, uint32_t index)
{
    const struct pdi_trace *trace = scan->trace;
    const struct pdi_flow *flow = &trace->flows[index];
    if (flow->t_messages == 0 && flow->t_synchs == 0 && flow->t_acks == 0) {
        return;
    }
    const struct pdi_party *source = &trace->parties[flow->source],
                           *target = &trace->parties[flow->target];
    const struct pdi_histograms *histograms =
        flow->histogram != PDI_NONE32 ? &trace->histograms[flow->histogram] : NULL;
    struct pdi_row_flow *row = pdi_sink_row(scan->sink);
    row->recording = (uint32_t)scan->options.recording;
    row->epoch = flow->epoch;
    row->flow = flow->id;
    row->src_ep = source->ep;
    row->dst_ep = target->ep;
    row->source = source->at;
    row->target = target->at;
    row->first_ns = flow->t_first_ns;
    row->last_ns = flow->t_last_ns;
    row->first_usn = flow->t_first_usn;
    row->last_usn = flow->t_last_usn;
    row->missing = flow->t_missing;
    row->messages = flow->t_messages;
    row->samples = flow->t_samples;
    row->bytes = flow->t_bytes;
    row->packets = flow->t_packets;
    row->gaps = flow->t_gaps;
    row->repeats = flow->t_repeats;
    row->presync = flow->t_presync;
    row->fills = flow->t_fills;
    row->old = flow->t_old;
    row->ambiguous = flow->t_ambiguous;
    row->unclear = flow->t_unclear;
    row->resets = flow->t_resets;
    row->acks = flow->t_acks;
    row->nacks = flow->t_nacks;
    row->nacked = flow->t_nacked;
    row->synchs = flow->t_synchs;
    row->outstanding = flow->t_outstanding;
    row->gap_file = (uint32_t)flow->t_gap_file;
    row->gap_pkt = flow->t_gap_packet;
    row->repeat_file = (uint32_t)flow->t_repeat_file;
    row->repeat_pkt = flow->t_repeat_packet;
    row->answer = histograms != NULL ? histograms->answer : NULL;
    row->delivery = histograms != NULL ? histograms->delivery : NULL;
    row->conduit = flow->conduit;
    row->reliable = flow->reliable;
    row->seq_bits = flow->seq_bits;
    row->multicast = target->group;
    (void)pdi_sink_put(scan->sink);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The number of the file that was read when so many of the recording had begun, since its files have numbers in a row. */
static uint32_t file_of(const struct pdi_scan *scan, uint32_t files)
{
    uint32_t since = files != 0 ? scan->trace->files - files : 0;
    return (uint32_t)scan->options.file - since;
}

void pdi_rows_session(struct pdi_scan *scan, uint32_t index)
{
    const struct pdi_trace *trace = scan->trace;
    const struct pdi_seen *session = &trace->sessions[index];
    struct pdi_row_session *row = pdi_sink_row(scan->sink);
    int64_t margin = INT64_MAX;
    row->file = file_of(scan, session->end != PDI_END_NOT ? session->end_files : 0);
    row->recording = (uint32_t)scan->options.recording;
    row->number = session->number;
    row->session = session->id;
    for (unsigned side = 0; side < 2; side++) {
        const struct pdi_party *party = &trace->parties[session->party[side]];
        int64_t lease = session->lease_ns[side];
        row->ep[side] = party->ep;
        row->end_of[side] = party->at;
        row->id[side] = (pyddsi_bytes){session->id_of[side], session->id_size[side]};
        row->lease_ms[side] = lease != PDI_NONE64 ? lease / 1000000 : PDI_NONE64;
        row->silence_us[side] = session->silence_ns[side] / 1000;
        if (lease != PDI_NONE64 && lease > 0) {
            margin = least(margin, (lease - session->silence_ns[side]) / 1000);
        }
    }
    row->margin_us = margin != INT64_MAX && session->accept_ns != PDI_NONE64 ? margin : PDI_NONE64;
    row->open_ns = session->open_ns;
    row->accept_ns = session->accept_ns;
    row->end_ns = session->end_ns;
    row->until_ns = session->end_ns != PDI_NONE64 ? session->end_ns : scan->latest_ns;
    row->end = session->end != PDI_END_NOT ? pdi_seen_end_name(session->end) : "capture_end";
    row->open_file = file_of(scan, session->open_files);
    row->open_pkt = session->open_packet;
    row->end_pkt = session->end_packet;
    row->seq_bits = session->seq_bits;
    row->reason = session->reason;
    (void)pdi_sink_put(scan->sink);
}

void pdi_rows_resource(struct pdi_scan *scan, uint32_t index)
{
    const struct pdi_trace *trace = scan->trace;
    const struct pdi_resource *resource = &trace->resources[index];
    struct pdi_row_resource *row = pdi_sink_row(scan->sink);
    row->file = (uint32_t)scan->options.file;
    row->recording = (uint32_t)scan->options.recording;
    row->rid = pdi_table_id(resource->rid);
    row->from_ns = resource->from_ns;
    row->until_ns = resource->until_ns;
    row->ep = trace->parties[resource->party].ep;
    row->declarer = trace->parties[resource->party].at;
    row->name = pdi_resource_name(trace, index);
    row->space = resource->space;
    row->kind = resource->kind;
    (void)pdi_sink_put(scan->sink);
}

void pdi_rows_party(struct pdi_scan *scan, uint32_t index)
{
    const struct pdi_party *party = &scan->trace->parties[index];
    struct pdi_row_endpoint *row = pdi_sink_row(scan->sink);
    row->recording = (uint32_t)scan->options.recording;
    row->ep = party->ep;
    row->packets = party->packets;
    row->bytes = party->bytes;
    row->at = party->at;
    row->port = party->at.port;
    row->id = (pyddsi_bytes){party->id, party->id_size};
    row->first_ns = party->first_ns;
    row->last_ns = party->last_ns;
    row->transport = party->at.kind > 6 ? "tcp" : "udp";
    row->multicast = party->group;
    row->extended = party->extended;
    row->seq_bits = party->seq_bits;
    (void)pdi_sink_put(scan->sink);
}

/* ---- rates ---- */

static void rate_row(struct pdi_scan *scan, uint32_t at)
{
    const struct pdi_rate *rate = &scan->rates[scan->rate_order[at]];
    struct pdi_row_rate *row = pdi_sink_row(scan->sink);
    row->recording = (uint32_t)scan->options.recording;
    row->window_ns = rate->window_ns;
    row->flow = rate->flow;
    row->rid = rate->rid;
    row->kind = rate->kind;
    row->messages = rate->messages;
    row->bytes = rate->bytes;
    row->repeats = rate->repeats;
    (void)pdi_sink_put(scan->sink);
}

void pdi_rows_rates(struct pdi_scan *scan)
{
    for (uint32_t i = 0; i < scan->rate_count; i++) {
        rate_row(scan, i);
        scan->rates[scan->rate_order[i]] = (struct pdi_rate){0};
    }
    scan->rate_count = 0;
}

static int64_t window_of(const struct pdi_scan *scan, int64_t time_ns)
{
    if (time_ns == PDI_TIME_NONE) {
        return PDI_NONE64;
    }
    int64_t into = time_ns % scan->options.window_ns;
    return time_ns - into - (into < 0 ? scan->options.window_ns : 0);
}

void pdi_rates_count(struct pdi_scan *scan, const pyddsi_message *message, const pyddsi_note *note)
{
    int64_t window = window_of(scan, scan->packet.time_ns);
    int64_t rid = message->kind == PYDDSI_WDATA ? PDI_NONE64 : pdi_table_id(message->rid);
    uint64_t at = pdi_mix(note->flow ^ (uint64_t)window, (uint64_t)rid << 8 | message->kind);
    if (scan->rate_count == scan->rate_max / 2 && scan->options.table == PYDDSI_TABLE_RATES) {
        pdi_rows_rates(scan);
    }
    struct pdi_rate *rate = &scan->rates[at % scan->rate_max];
    while (rate->messages != 0 &&
           (rate->flow != note->flow || rate->window_ns != window || rate->rid != rid ||
            rate->kind != message->kind)) { /* half of the places are free */
        at++;
        rate = &scan->rates[at % scan->rate_max];
    }
    if (rate->messages == 0 && scan->rate_count == scan->rate_max / 2) {
        scan->trace->evicted++; /* they are only told at the end */
        return;
    }
    if (rate->messages == 0) {
        *rate = (struct pdi_rate){
            .flow = note->flow, .window_ns = window, .rid = rid, .kind = message->kind};
        scan->rate_order[scan->rate_count++] = (uint32_t)(rate - scan->rates);
    }
    rate->messages++;
    rate->bytes += pdi_trace_payload(message);
    rate->repeats += note->event == PDI_SEQ_REPEAT || note->event == PDI_SEQ_PRE_SYNC;
}

/* ---- the end ---- */

enum { END_TCP, END_PARTS, END_SILENCES, END_ROWS, END_DONE };

/* The row of this place of the table that is wanted; false: the table is over. */
static bool end_row(struct pdi_scan *scan, bool whole)
{
    const struct pdi_trace *trace = scan->trace;
    uint32_t at = scan->finish_at++;
    switch (scan->options.table) {
    case PYDDSI_TABLE_FLOWS:
        if (at < trace->flow_slots.fresh && trace->flows[at].used) {
            pdi_rows_flow(scan, at);
        }
        return at < trace->flow_slots.fresh;
    case PYDDSI_TABLE_SESSIONS:
        if (whole && at < trace->session_slots.fresh && trace->sessions[at].used) {
            pdi_rows_session(scan, at);
        }
        return whole && at < trace->session_slots.fresh;
    case PYDDSI_TABLE_RESOURCES:
        if (whole && at < trace->resource_slots.fresh && trace->resources[at].used) {
            pdi_rows_resource(scan, at);
        }
        return whole && at < trace->resource_slots.fresh;
    case PYDDSI_TABLE_ENDPOINTS:
        if (at < trace->party_slots.fresh && trace->parties[at].used &&
            (whole || trace->parties[at].packets != 0)) {
            pdi_rows_party(scan, at);
        }
        return at < trace->party_slots.fresh;
    case PYDDSI_TABLE_RATES:
        if (at < scan->rate_count) {
            rate_row(scan, at);
        }
        return at < scan->rate_count;
    default:
        return false;
    }
}

static void silences(struct pdi_scan *scan)
{
    scan->packet.number = scan->container.frames;
    scan->messages = 0;
    if (scan->sink != NULL) {
        *pdi_sink_packet(scan->sink) =
            (struct pdi_row_packet){.pkt = scan->container.frames,
                                    .ts_ns = scan->facts.last_ns,
                                    .file = (uint32_t)scan->options.file,
                                    .recording = (uint32_t)scan->options.recording};
    }
    pdi_trace_finish(scan->trace, scan->finish_at++, scan->latest_ns);
    pdi_rows_events(scan);
}

int pdi_scan_tell(struct pdi_scan *scan, int table, uint64_t columns)
{
    if (scan->finish_step != END_DONE || table < PYDDSI_TABLE_FLOWS ||
        table > PYDDSI_TABLE_ENDPOINTS || table == PYDDSI_TABLE_DECLARATIONS ||
        (table == PYDDSI_TABLE_RATES && scan->rates == NULL)) {
        return PYDDSI_BAD_ARGUMENT;
    }
    scan->sink = scan->own_sink;
    pdi_sink_init(scan->sink, &pdi_tables[table], columns, NULL);
    scan->options.table = table;
    pdi_scan_burst(scan);
    scan->finish_step = END_ROWS;
    scan->finish_at = 0;
    return PYDDSI_OK;
}

void pdi_scan_end(struct pdi_scan *scan)
{
    pdi_tcp_finish(scan->tcp);
    pdi_scan_stranger(scan, PDI_OTHER_FRAGMENT, 0, pdi_pieces_fini(scan->dissector.pieces));
    scan->phase = PDI_PHASE_PARTS;
    scan->frame_used = 0;
    scan->finished = 1;
}

int pdi_scan_finish(struct pdi_scan *scan, bool whole)
{
    size_t used;
    scan->finished = 1;
    for (;;) { /* each round goes one place or one step further */
        if (!pdi_scan_fits(scan, PDI_RATES_MAX, 2304)) {
            return PYDDSI_AGAIN;
        }
        switch (scan->finish_step) {
        case END_TCP:
            if (whole) {
                pdi_scan_end(scan);
            }
            scan->finish_step = END_PARTS;
            break;
        case END_PARTS:
            if (scan->phase != PDI_PHASE_FRAMES && scan->phase != PDI_PHASE_END) {
                if (pdi_scan_step(scan, NULL, 0, &used) == PYDDSI_AGAIN) {
                    return PYDDSI_AGAIN;
                }
                break;
            }
            if (whole) {
                pdi_streams_end(scan);
            }
            scan->finish_at = 0;
            scan->finish_step = whole ? END_SILENCES : END_ROWS;
            break;
        case END_SILENCES:
            if (scan->finish_at < scan->trace->party_slots.fresh) {
                silences(scan);
                break;
            }
            scan->finish_at = 0;
            scan->finish_step = END_ROWS;
            break;
        case END_ROWS:
            if (scan->sink == NULL || !end_row(scan, whole)) {
                scan->finish_step = END_DONE;
            }
            break;
        default:
            return PYDDSI_OK;
        }
    }
}

/* ---- looking ---- */

void pdi_scan_look(const struct pdi_scan *scan, pyddsi_scan_facts *facts)
{
    const struct pdi_container *container = &scan->container;
    const struct pdi_trace *trace = scan->trace;
    *facts = scan->facts;
    facts->container = container->kind;
    facts->at = container->at;
    facts->inside = container->skip;
    facts->tcp_late = pdi_tcp_late(scan->tcp);
    facts->interfaces = container->interfaces;
    facts->sections = container->sections;
    facts->over_snap = container->over_snap;
    facts->over_wire = container->over_wire;
    memcpy(facts->by_kind, trace->by_kind, sizeof facts->by_kind);
    memcpy(facts->by_event, trace->by_event, sizeof trace->by_event);
    memcpy(facts->declined, trace->declined, sizeof facts->declined);
    facts->repeats = trace->samples_repeated;
    facts->presync = trace->samples_presync;
    facts->missing = trace->samples_missing;
    facts->fills = trace->samples_filled;
    facts->parties = trace->party_slots.used;
    facts->flows = trace->flow_slots.used;
    facts->sessions = trace->session_slots.used;
    facts->resources = trace->resource_slots.used;
    facts->evicted = trace->evicted;
    facts->forgotten = trace->forgotten;
    facts->names_gone = trace->names_gone;
}

pyddsi_bytes pdi_scan_name(const struct pdi_scan *scan, const pyddsi_endpoint *source,
                           uint8_t space, uint64_t rid)
{
    uint32_t party = pdi_trace_party(scan->trace, source);
    return pdi_trace_name(scan->trace, party, space, rid);
}
