/* scan_one.c - a capture packet by packet, or datagram by datagram, for those who want to look closely. */
#include "capture/scan.h"

/* ---- packet by packet ---- */

int pdi_scan_packet(struct pdi_scan *scan, const uint8_t *data, size_t size, size_t *used,
                    pyddsi_packet *packet)
{
    int status;
    *used = 0;
    packet->number = 0;
    scan->noted = 1;
    do { /* a step reads a byte at least, or ends */
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
                .fault_passes = stream ? scan->options.where_count == 0 : scan->fault_passes,
                .notes = stream ? 0 : scan->note_count,
                .fault = stream ? (pyddsi_fault){0} : scan->decoder.fault,
            };
            return PYDDSI_OK;
        }
    } while (status == PYDDSI_OK);
    return status == PYDDSI_SHORT ? PYDDSI_OK : status;
}

static void line_go(pyddsi_line *line, const pyddsi_packet *packet)
{
    int64_t at;
    line->packets++;
    if (packet->decode == PYDDSI_DECODE_STREAM) {
        line->packets--;
        line->broken++;
        return;
    }
    line->streams += packet->source.kind > 6;
    if (packet->time_ns == PDI_TIME_NONE) {
        return;
    }
    if (!line->begun) {
        line->begun = 1;
        line->zero_ns = packet->time_ns;
    }
    if (__builtin_sub_overflow(packet->time_ns, line->zero_ns, &at) ||
        at < line->now_ns - line->back_ns || at - line->now_ns > line->ahead_ns) {
        line->steps++;
        line->zero_ns = packet->time_ns - line->now_ns;
        return;
    }
    line->now_ns = at > line->now_ns ? at : line->now_ns;
}

int pdi_scan_packet_from(struct pdi_scan *scan, const uint8_t *data, size_t size, size_t *used,
                         pyddsi_packet *packet, pyddsi_line *line, int64_t from_ns, bool absolute)
{
    int status;
    bool early;
    *used = 0;
    do { /* a packet each time, or the end */
        size_t some;
        status = pdi_scan_packet(scan, data + *used, size - *used, &some, packet);
        *used += some;
        if (status != PYDDSI_OK || packet->number == 0) {
            return status;
        }
        line_go(line, packet);
        int64_t at = absolute ? packet->time_ns : line->now_ns;
        early = packet->decode == PYDDSI_DECODE_STREAM || (at != PDI_TIME_NONE && at < from_ns);
    } while (early);
    return status;
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
        int status = pdi_scan_frame(scan, data, size, used);
        if (status != PYDDSI_OK) {
            return status == PYDDSI_SHORT ? PYDDSI_OK : status;
        }
        if (scan->phase == PDI_PHASE_FRAMES) {
            continue;
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
