/* scan.c - see scan.h: the phases, and what a frame goes through. */
#include "capture/scan.h"

#include <string.h>

#include "base/check.h"
#include "capture/copy.h"
#include "capture/hash.h"
#include "wire/decode.h"

#define ROWS_USUAL   65536U
#define EVENT_ROWS   ((size_t)2 * PDI_EVENTS_MAX) /* that one packet can cause */
#define NAMES_OF_ROW 2304U /* bytes of the longest texts of a row, but for what its packet holds */

/* ---- room and time ---- */

bool pdi_scan_fits(const struct pdi_scan *scan, size_t rows, size_t bytes)
{
    const struct pdi_sink *sink = scan->sink;
    if (scan->copy != NULL) {
        return pdi_copy_fits(scan->copy);
    }
    rows = rows > scan->burst_rows ? rows : scan->burst_rows;
    bytes = bytes > scan->burst_bytes ? bytes : scan->burst_bytes;
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
 * endpoints as texts. */
static bool room_for(const struct pdi_scan *scan, size_t bytes)
{
    return pdi_scan_fits(scan, bytes + EVENT_ROWS, 32 * bytes + NAMES_OF_ROW);
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
        if ((!scan->counted || scan->copy != NULL) && !room_for(scan, left)) {
            return PYDDSI_AGAIN; /* messages that are counted cause no rows */
        }
        int status = left != 0 ? pdi_decoder_next(&scan->decoder, &message) : PYDDSI_END;
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
            if (scan->counted) {
                scan->messages++;
                continue;
            }
        }
        if (scan->noted && scan->note_count < PDI_NOTES_MAX) {
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
        bool copy = scan->frame.time_ns != PDI_TIME_NONE && pdi_scan_is_double(scan);
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

/* The capturing itself has lost frames behind this one, or right before it. */
static void frames_lost(struct pdi_scan *scan, uint64_t number, int64_t time_ns)
{
    scan->facts.capture_dropped += scan->container.lost;
    scan->packet.number = number;
    scan->messages = 0;
    if (scan->sink != NULL && scan->options.table == PYDDSI_TABLE_EVENTS) {
        *pdi_sink_packet(scan->sink) =
            (struct pdi_row_packet){.pkt = number,
                                    .ts_ns = time_ns,
                                    .file = (uint32_t)scan->options.file,
                                    .recording = (uint32_t)scan->options.recording};
    }
    pdi_trace_lost(scan->trace, scan->container.lost, time_ns);
    pdi_rows_events(scan);
}

/* Reads the next frame: OK, SHORT, END, BAD_INPUT. OK without a frame, still in the phase FRAMES, where one was lost. */
int pdi_scan_frame(struct pdi_scan *scan, const uint8_t *data, size_t size, size_t *used)
{
    size_t need;
    if (scan->container.at >= scan->limit) {
        return PYDDSI_END;
    }
    int status = pdi_container_next(&scan->container, data + *used, size - *used, &scan->frame,
                                    &scan->frame_used, &need);
    if (status == PYDDSI_AGAIN) {
        frames_lost(scan, scan->container.frames, scan->last_ns);
    } else if (status == PYDDSI_OK) {
        if (scan->container.lost != 0) {
            frames_lost(scan, scan->frame.number, scan->frame.time_ns);
        }
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
    return status == PYDDSI_AGAIN ? PYDDSI_OK : PYDDSI_SHORT;
}

int pdi_scan_step(struct pdi_scan *scan, const uint8_t *data, size_t size, size_t *used)
{
    int status = PYDDSI_OK;
    switch (scan->phase) {
    case PDI_PHASE_FRAMES:
        if (!pdi_scan_fits(scan, EVENT_ROWS, PDI_FRAME_BYTES_MAX)) {
            return PYDDSI_AGAIN;
        }
        status = pdi_scan_frame(scan, data, size, used);
        break;
    case PDI_PHASE_PARTS:
        if (scan->copy != NULL && !pdi_copy_fits(scan->copy)) {
            return PYDDSI_AGAIN;
        }
        parts_step(scan);
        break;
    case PDI_PHASE_BYTES:
        if (!pdi_scan_fits(scan, EVENT_ROWS, NAMES_OF_ROW)) {
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
