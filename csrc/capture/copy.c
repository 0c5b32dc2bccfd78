/* copy.c - see copy.h. */
#include "capture/copy.h"

#include <string.h>

#include "base/check.h"
#include "capture/hide.h"
#include "capture/write.h"
#include "wire/stream.h"

#define ROOM_MIN (PDI_FRAME_BYTES_MAX + 4096U) /* the longest frame with everything around it */

enum { LINK_RAW = 101, TCP_SYN = 2, COMMENT = 1, COMMENT_MAX = 1024 };

bool pdi_copy_fits(const pyddsi_copy *copy)
{
    return copy->count < copy->count_max && copy->room - copy->used >= ROOM_MIN;
}

/* The number of the interface with this link type; it may be new. */
static uint16_t interface_of(pyddsi_copy *copy, uint16_t link)
{
    for (uint32_t i = 0; i < copy->link_count; i++) { /* 16 */
        if (copy->links[i] == link) {
            return (uint16_t)i;
        }
    }
    if (copy->link_count == sizeof copy->links / sizeof *copy->links) {
        return UINT16_MAX;
    }
    copy->links[copy->link_count] = link;
    return (uint16_t)copy->link_count++;
}

/* The comment among a frame's options, of a file in our byte order. */
static pyddsi_bytes comment_of(const struct pdi_scan *scan, const struct pdi_frame *frame)
{
    const uint8_t *at = frame->options.data;
    size_t left = frame->options.size;
    while (left >= 4 && !scan->container.swapped) { /* each option has four bytes at least */
        uint16_t code, size;
        memcpy(&code, at, 2);
        memcpy(&size, at + 2, 2);
        size_t padded = ((size_t)size + 3) / 4 * 4;
        if (code == 0 || padded > left - 4) {
            break;
        }
        if (code == COMMENT) {
            return (pyddsi_bytes){at + 4, size < COMMENT_MAX ? size : COMMENT_MAX};
        }
        at += 4 + padded;
        left -= 4 + padded;
    }
    return (pyddsi_bytes){NULL, 0};
}

static void put(pyddsi_copy *copy, const struct pdi_frame *frame, pyddsi_bytes comment)
{
    int status = copy->format == PDI_CONTAINER_PCAPNG
                     ? pdi_write_frame(frame, comment, copy->out, copy->room, &copy->used)
                     : pdi_write_pcap_frame(frame, copy->out, copy->room, &copy->used);
    if (status != PYDDSI_OK) {
        copy->left_out++; /* a time that the format cannot hold */
        return;
    }
    copy->times[copy->count] = frame->time_ns;
    copy->ends[copy->count++] = (uint32_t)copy->used;
    copy->frames++;
}

static bool wanted(const struct pdi_scan *scan)
{
    struct pdi_row_packet packet;
    struct pdi_row row = {0};
    bool ours =
        scan->frame_decode != PYDDSI_DECODE_FOREIGN && scan->frame_decode != PYDDSI_DECODE_OTHER;
    if (!pdi_scan_in_time(scan, scan->frame.time_ns) || (scan->copy->ours && !ours)) {
        return false;
    }
    if (scan->options.where_count == 0) {
        return true;
    }
    pdi_rows_frame(scan, &packet);
    return pdi_filter_test(&scan->filter, &row, &packet);
}

bool pdi_copy_frame(struct pdi_scan *scan)
{
    pyddsi_copy *copy = scan->copy;
    if (copy->hide) {
        return true; /* packets are copied, and frames are not */
    }
    if (scan->frame.stranger || !wanted(scan)) {
        copy->left_out++;
        return true;
    }
    uint32_t links = copy->link_count;
    struct pdi_frame frame = scan->frame;
    frame.interface = interface_of(copy, frame.link);
    if (copy->link_count != links) {
        return false;
    }
    if (frame.interface == UINT16_MAX ||
        (copy->format == PDI_CONTAINER_PCAP && frame.interface != 0)) {
        copy->left_out++;
        return true;
    }
    put(copy, &frame, comment_of(scan, &scan->frame));
    return true;
}

/* ---- without secrets ---- */

static void synthesise(struct pdi_scan *scan, struct pdi_synthetic *synthetic)
{
    pyddsi_copy *copy = scan->copy;
    struct pdi_hide hide = {.key = {copy->key[0], copy->key[1]}, .names = copy->names};
    size_t size = 0;
    pdi_hide_endpoint(&hide, &synthetic->source);
    pdi_hide_endpoint(&hide, &synthetic->target);
    if (pdi_write_synthetic(synthetic, scan->scratch[1], sizeof scan->scratch[1], &size) !=
        PYDDSI_OK) {
        copy->left_out++;
        return;
    }
    struct pdi_frame frame = {.time_ns = scan->packet.time_ns,
                              .data = scan->scratch[1],
                              .size = (uint32_t)size,
                              .wire_size = (uint32_t)size + synthetic->absent,
                              .link = LINK_RAW};
    put(copy, &frame, (pyddsi_bytes){NULL, 0});
}

void pdi_copy_packet(struct pdi_scan *scan)
{
    pyddsi_copy *copy = scan->copy;
    struct pdi_synthetic synthetic = {.source = scan->packet_source, .target = scan->packet_target};
    struct pdi_hide hide = {.key = {copy->key[0], copy->key[1]}, .names = copy->names};
    uint8_t *data = scan->scratch[0];
    size_t at = 0;
    if (!copy->hide || !pdi_scan_in_time(scan, scan->packet.time_ns)) {
        return;
    }
    bool stream = synthetic.source.kind > 6;
    if (stream && pdi_stream_frame(scan->packet_bytes.size, data, sizeof scan->scratch[0], &at) !=
                      PYDDSI_OK) {
        return;
    }
    memcpy(data + at, scan->packet_bytes.data,
           scan->packet_bytes.size); /* 65535 at most, and there is room for more */
    size_t shown = pdi_hide_packet(&hide, scan->decoder.reading, data + at, scan->packet_bytes.size,
                                   scan->cut);
    synthetic.data = data;
    synthetic.size = (uint32_t)(at + shown);
    if (scan->cut) {
        synthetic.absent = scan->carried.whole - (uint32_t)shown;
    }
    if (stream) {
        struct pdi_stream_seen *seen = &scan->streams[scan->part.direction];
        synthetic.sequence = seen->sequence;
        seen->sequence += synthetic.size;
    }
    synthesise(scan, &synthetic);
}

void pdi_copy_start(struct pdi_scan *scan)
{
    struct pdi_synthetic synthetic = {
        .source = scan->part.source, .target = scan->part.target, .tcp_flags = TCP_SYN};
    struct pdi_stream_seen *seen = &scan->streams[scan->part.direction];
    if (!scan->copy->hide || !pdi_scan_in_time(scan, scan->part.time_ns)) {
        return;
    }
    seen->sequence = 1;
    scan->packet.time_ns = scan->part.time_ns;
    synthesise(scan, &synthetic);
}
