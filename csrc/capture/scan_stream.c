/* scan_stream.c - from the bytes of a TCP direction to packets.
 *
 * Framing can only be followed from its beginning. So a direction whose start was not captured, or of which a part is
 * missing, is reported once and passed over until it starts anew.
 *
 * Bytes are read where they lie. Only what does not make a whole packet is kept, at most one frame; the next bytes are put
 * behind it until it does, and then reading goes on in the part itself. What still waits when its direction, or the
 * capture, ends was not read to its end, and is counted as such.
 */
#include <string.h>

#include "base/check.h"
#include "capture/copy.h"
#include "wire/stream.h"

static struct pdi_stream_seen *stream_of(struct pdi_scan *scan)
{
    return &scan->streams[scan->part.direction];
}

static void broken(struct pdi_scan *scan, struct pdi_stream_seen *stream)
{
    stream->state = PDI_STREAM_BROKEN;
    stream->used = 0;
    scan->bytes_left = 0;
    scan->frame_decode = PYDDSI_DECODE_STREAM;
    scan->facts.by_decode[PYDDSI_DECODE_STREAM]++;
}

void pdi_stream_part(struct pdi_scan *scan)
{
    struct pdi_stream_seen *stream = stream_of(scan);
    const struct pdi_part *part = &scan->part;
    if (stream->used != 0 && (part->start || part->end)) {
        broken(scan, stream); /* it ended inside a packet */
    }
    scan->bytes = part->data;
    scan->bytes_left = part->size;
    scan->bytes_waited = 0;
    if (part->start || stream->state == PDI_STREAM_NONE) {
        bool ours =
            pdi_trace_ours(scan->trace, &part->source, &part->target, NULL, 0, &scan->packet);
        stream->state = !ours ? PDI_STREAM_FOREIGN : PDI_STREAM_READ;
        stream->used = 0;
        pdi_stream_init(&stream->stream, &scan->reading[1], 0);
        if (ours && !part->start) {
            broken(scan, stream);
        } else if (ours && scan->copy != NULL) {
            pdi_copy_start(scan);
        }
    }
    if (stream->state == PDI_STREAM_READ && part->lost) {
        broken(scan, stream);
    }
    if (stream->state != PDI_STREAM_READ) {
        scan->bytes_left = 0;
    } else {
        /* parties may have been swept away since */
        (void)pdi_trace_ours(scan->trace, &part->source, &part->target, NULL, 0, &scan->packet);
    }
    if (part->end) {
        stream->state = PDI_STREAM_NONE;
    }
}

void pdi_streams_end(struct pdi_scan *scan)
{
    for (uint32_t i = 0; i < PDI_TCP_DIRECTIONS_MAX; i++) {
        scan->facts.by_decode[PYDDSI_DECODE_STREAM] += scan->streams[i].used != 0;
        scan->streams[i].used = 0;
    }
}

/* The packet that began in an earlier part: takes from this part what it lacks. */
static bool waited(struct pdi_scan *scan, struct pdi_stream_seen *stream, pyddsi_bytes *packet)
{
    while (stream->used != 0) { /* each round takes bytes, or ends */
        size_t taken = 0, need = 0;
        int status =
            pdi_stream_next(&stream->stream, stream->bytes, stream->used, packet, &taken, &need);
        if (status == PYDDSI_BAD_INPUT || need > sizeof stream->bytes) {
            broken(scan, stream);
            return false;
        }
        if (status == PYDDSI_OK) {
            /* the packet lies in the bytes that waited, and all of them are its */
            PDI_CHECK(taken == stream->used);
            stream->used = 0;
            return true;
        }
        memmove(stream->bytes, stream->bytes + taken, stream->used - taken);
        stream->used -= (uint32_t)taken;
        size_t lacks = need - stream->used;
        size_t more = lacks < scan->bytes_left ? lacks : scan->bytes_left;
        if (more == 0) {
            return false;
        }
        memcpy(stream->bytes + stream->used, scan->bytes, more);
        stream->used += (uint32_t)more;
        scan->bytes += more;
        scan->bytes_left -= more;
    }
    return false;
}

bool pdi_stream_packet(struct pdi_scan *scan, pyddsi_bytes *packet)
{
    struct pdi_stream_seen *stream = stream_of(scan);
    if (stream->used != 0 && waited(scan, stream, packet)) {
        return true;
    }
    if (scan->bytes_left == 0 || stream->used != 0) {
        return false;
    }
    size_t taken = 0, need = 0;
    int status =
        pdi_stream_next(&stream->stream, scan->bytes, scan->bytes_left, packet, &taken, &need);
    if (status == PYDDSI_BAD_INPUT) {
        broken(scan, stream);
        return false;
    }
    scan->bytes += taken;
    scan->bytes_left -= taken;
    if (status == PYDDSI_OK) {
        return true;
    }
    if (scan->bytes_left > sizeof stream->bytes || need > sizeof stream->bytes) {
        broken(scan, stream);
        return false;
    }
    memcpy(stream->bytes, scan->bytes, scan->bytes_left);
    stream->used = (uint32_t)scan->bytes_left;
    scan->bytes_left = 0;
    return false;
}
