/* scan_open.c - the memory of a scan, and what it is to do.
 *
 * One function lays everything out, and says how much that is by running once without memory (base/carve.h). Most of it is
 * never touched: a scan of a small capture costs the pages that it writes to and no more.
 */
#include <string.h>

#include "base/carve.h"
#include "capture/scan.h"
#include "wire/decode.h"

struct layout {
    void *pieces, *tcp, *trace;
};

/* Bytes for what is followed. */
static uint64_t memory_of(const pyddsi_scan_options *options)
{
    uint32_t mib = options->memory_mib != 0 ? options->memory_mib : PYDDSI_SCAN_MEMORY_MIB;
    return (uint64_t)mib << 20;
}

static struct pdi_scan *lay_out(struct pdi_carve *carve, const pyddsi_scan_options *options,
                                struct layout *layout)
{
    struct pdi_scan *scan = pdi_carve(carve, 1, sizeof *scan);
    struct pdi_scan *into = scan;
    bool table = options->table != PYDDSI_TABLE_NONE;
    bool tally = options->tally || options->table == PYDDSI_TABLE_RATES;
    layout->pieces = pdi_carve(carve, 1, pdi_pieces_size());
    layout->tcp = pdi_carve(carve, 1, pdi_tcp_size());
    layout->trace = pdi_carve(carve, 1, pdi_trace_size(memory_of(options)));
    struct pdi_stream_seen *streams = pdi_carve(carve, PDI_TCP_DIRECTIONS_MAX, sizeof *streams);
    struct pdi_sink *sink = pdi_carve(carve, 1, sizeof *sink);
    pyddsi_note *notes = table || tally ? NULL : pdi_carve(carve, PDI_NOTES_MAX, sizeof *notes);
    uint32_t rate_max = options->table == PYDDSI_TABLE_RATES
                            ? PDI_RATES_MAX
                            : pdi_trace_room(memory_of(options)).rates;
    struct pdi_rate *rates = tally ? pdi_carve(carve, rate_max, sizeof *rates) : NULL;
    uint32_t *rate_order = tally ? pdi_carve(carve, rate_max / 2, sizeof *rate_order) : NULL;
    if (into != NULL) {
        into->streams = streams;
        into->own_sink = sink;
        into->sink = table ? sink : NULL;
        into->notes = notes;
        into->rates = rates;
        into->rate_order = rate_order;
        into->rate_max = rate_max;
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

/* Whether nothing that comes out depends on the numbers of messages: which are missing, repeated, acknowledged. */
static bool is_stateless(const struct pdi_scan *scan)
{
    if (scan->options.tally) {
        return false;
    }
    switch (scan->options.table) {
    case PYDDSI_TABLE_PACKETS:
    case PYDDSI_TABLE_RESOURCES:
    case PYDDSI_TABLE_DECLARATIONS:
        return true;
    case PYDDSI_TABLE_MESSAGES:
        return !wants_notes(scan->sink);
    default:
        return false;
    }
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

void pdi_scan_burst(struct pdi_scan *scan)
{
    const struct pdi_trace *trace = scan->trace;
    enum { TEXTS = 64 }; /* of an endpoint, or of an id */
    size_t names = 0;
    switch (scan->options.table) {
    case PYDDSI_TABLE_FLOWS:
        scan->burst_rows = trace->flow_slots.count;
        break;
    case PYDDSI_TABLE_SESSIONS:
        scan->burst_rows = trace->session_slots.count;
        break;
    case PYDDSI_TABLE_RESOURCES:
        scan->burst_rows = trace->resource_slots.count;
        names = (size_t)trace->name_pages.pages * PDI_NAME_UNIT;
        break;
    case PYDDSI_TABLE_ENDPOINTS:
        scan->burst_rows = trace->party_slots.count;
        break;
    default:
        scan->burst_rows = scan->burst_bytes = 0;
        return;
    }
    scan->burst_bytes = scan->burst_rows * TEXTS > names ? scan->burst_rows * TEXTS : names;
    scan->sink->counts = (size_t)trace->histogram_slots.count * PDI_PLACES * sizeof(uint64_t);
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
        options->memory_mib > PYDDSI_SCAN_MEMORY_MIB_MAX ||
        (options->seq_bits != 0 &&
         (options->seq_bits < PDI_SEQ_BITS_MIN || options->seq_bits > PDI_SEQ_BITS_MAX))) {
        return PYDDSI_BAD_ARGUMENT;
    }
    struct pdi_scan *scan = *made = lay_out(&carve, options, &layout);
    if (scan == NULL) {
        return PYDDSI_BAD_ARGUMENT;
    }
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
    scan->trace = pdi_trace_init(layout.trace, memory_of(options), seed);
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
    pdi_scan_burst(scan);
    scan->light = is_light(scan);
    scan->stateless = is_stateless(scan);
    scan->counted = options->table == PYDDSI_TABLE_PACKETS && scan->stateless;
    return PYDDSI_OK;
}
