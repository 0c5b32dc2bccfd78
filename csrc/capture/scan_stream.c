/* scan_stream.c - from the bytes of a TCP direction to packets.
 *
 * Framing is followed from its beginning. Where a part of a direction is missing, or the capture begins in its middle, reading
 * has to find a packet again:
 *
 *     ..payload of one that is not whole│02 01 05│1a 23 01 02 ...│0e 67 ...        two whole packets behind each other, the
 *                                        ▲                                         last of them up to where the bytes end
 *
 * A segment usually begins with a packet, so that place is tried first, and there one packet is proof enough; if it is longer
 * than the segment, it is believed once it is whole. Proof is that a packet breaks no rule in the strict reading. What
 * is passed over on the way is counted.
 *
 * Bytes are read where they lie. Only what does not make a whole packet is kept, at most one frame; the next bytes are put
 * behind it until it does, and then reading goes on in the part itself. What still waits when its direction, or the
 * capture, ends was not read to its end, and is counted as such.
 */
#include <string.h>

#include "base/check.h"
#include "capture/copy.h"
#include "wire/decode.h"
#include "wire/stream.h"

static struct pdi_stream_seen *stream_of(struct pdi_scan *scan)
{
    return &scan->streams[scan->part.direction];
}

/* Reading breaks off: packets have to be looked for, or there are none any more. */
static void broken(struct pdi_scan *scan, struct pdi_stream_seen *stream, enum pdi_framing now)
{
    bool first = stream->state == PDI_STREAM_READ;
    stream->state = (uint8_t)now;
    scan->facts.stream_unread += stream->used;
    stream->used = 0;
    scan->frame_decode = PYDDSI_DECODE_STREAM;
    if (first) {
        scan->facts.by_decode[PYDDSI_DECODE_STREAM]++;
        if (scan->facts.stream_packet == 0) {
            scan->facts.stream_packet = scan->part.number;
            scan->facts.stream_file = scan->options.file;
        }
    }
}

/* Bytes that cannot be framed. Where packets had to be looked for these were none; else nothing behind them can be read. */
static void not_framed(struct pdi_scan *scan, struct pdi_stream_seen *stream)
{
    broken(scan, stream, stream->found ? PDI_STREAM_BROKEN : PDI_STREAM_OVER);
}

/* ---- finding a packet again ---- */

#define WHOLE_FRAMED   2U /* packets behind each other that are proof, where no segment begins, */
#define WHOLE_UNFRAMED 4U /* and of those without a length */
#define COST_MAX       8U /* what looking may cost: its bytes, so many times, */
#define COST_LEAST     4096U

/* What becomes of bytes in the strict reading: END if they are a packet, or messages of one, else its fault's rule. */
static int strictly(pyddsi_bytes packet)
{
    static const pyddsi_options strict = {.strictness = PYDDSI_STRICT};
    pyddsi_reading reading;
    pyddsi_decoder decoder;
    pyddsi_message message;
    (void)pdi_reading_init(&reading, &strict);
    pdi_decoder_init(&decoder, &reading, packet.data, packet.size);
    int status;
    do { /* each turn takes a byte at least */
        status = pdi_decoder_next(&decoder, &message);
    } while (status == PYDDSI_OK);
    return status == PYDDSI_END ? PYDDSI_END : decoder.fault.rule;
}

/* Whether a packet may begin here that the bytes do not hold to its end. */
static bool begins(const pyddsi_stream *stream, const uint8_t *data, size_t size)
{
    size_t head = stream->unframed ? 0 : data[0] < 0x80 ? 1 : 2;
    int what = size > head ? strictly((pyddsi_bytes){data + head, size - head}) : PYDDSI_END;
    return what == PYDDSI_END || what == PYDDSI_RULE_CUT || what == PYDDSI_RULE_MARKER_ALONE;
}

enum found { NOTHING, PERHAPS, PACKETS };

/* Whether packets follow each other from here to the end of the bytes. */
static enum found look(const struct pdi_stream_seen *seen, const uint8_t *data, size_t size,
                       bool aligned, size_t *cost)
{
    pyddsi_stream stream = seen->stream;
    unsigned least = stream.unframed ? WHOLE_UNFRAMED : aligned ? 1 : WHOLE_FRAMED;
    unsigned whole = 0;
    while (size != 0) { /* each turn takes a byte at least */
        pyddsi_bytes packet;
        size_t taken = 0, need = 0;
        int status = pdi_stream_next(&stream, data, size, &packet, &taken, &need);
        if (status == PYDDSI_BAD_INPUT || stream.unframed != seen->stream.unframed ||
            need > sizeof seen->bytes) {
            return NOTHING;
        }
        if (status != PYDDSI_OK) {
            bool fits = begins(&stream, data, size);
            return fits && whole >= least ? PACKETS : fits && aligned ? PERHAPS : NOTHING;
        }
        *cost += packet.size;
        if (strictly(packet) != PYDDSI_END) {
            return NOTHING;
        }
        whole++;
        data += taken;
        size -= taken;
    }
    return whole >= least ? PACKETS : NOTHING;
}

/* Looks for packets in the bytes at hand, which begin a segment or not, and passes over what is in front of them. */
static void find(struct pdi_scan *scan, struct pdi_stream_seen *stream, bool aligned)
{
    size_t most = scan->bytes_left * COST_MAX + COST_LEAST, cost = 0;
    enum found found = NOTHING;
    size_t at = 0;
    stream->stream.broken = 0;
    for (; at < scan->bytes_left && cost < most; at++, cost++) {
        found = look(stream, scan->bytes + at, scan->bytes_left - at, aligned && at == 0, &cost);
        if (found != NOTHING) {
            break;
        }
    }
    at = found == NOTHING ? scan->bytes_left : at;
    if (at != 0) { /* a part that only ends a direction has no bytes */
        scan->facts.stream_unread += at;
        scan->bytes += at;
        scan->bytes_left -= at;
    }
    if (found == NOTHING) {
        scan->frame_decode = PYDDSI_DECODE_STREAM;
        return;
    }
    stream->found = 1;
    stream->state = found == PACKETS ? PDI_STREAM_READ : PDI_STREAM_UNSURE;
    if (scan->copy != NULL && stream->sequence == 0) {
        pdi_copy_start(scan);
    }
}

static bool is_read(const struct pdi_stream_seen *stream)
{
    return stream->state == PDI_STREAM_READ || stream->state == PDI_STREAM_UNSURE;
}

void pdi_stream_part(struct pdi_scan *scan)
{
    struct pdi_stream_seen *stream = stream_of(scan);
    const struct pdi_part *part = &scan->part;
    if (stream->used != 0 && (part->start || part->end)) {
        broken(scan, stream, PDI_STREAM_BROKEN); /* it ended inside a packet */
    }
    scan->bytes = part->data;
    scan->bytes_left = part->size;
    if (part->start || stream->state == PDI_STREAM_NONE) {
        bool ours =
            pdi_trace_ours(scan->trace, &part->source, &part->target, NULL, 0, &scan->packet);
        stream->state = !ours ? PDI_STREAM_FOREIGN : PDI_STREAM_READ;
        stream->used = 0;
        stream->sequence = 0;
        stream->found = 0;
        pdi_stream_init(&stream->stream, &scan->reading[1], 0);
        if (ours && !part->start) {
            broken(scan, stream, PDI_STREAM_BROKEN);
        } else if (ours && scan->copy != NULL) {
            pdi_copy_start(scan);
        }
    }
    if (is_read(stream) && part->lost) {
        broken(scan, stream, PDI_STREAM_BROKEN);
    }
    if (stream->state != PDI_STREAM_FOREIGN) {
        scan->facts.stream_missing += part->missing;
        /* parties may have been swept away since */
        (void)pdi_trace_ours(scan->trace, &part->source, &part->target, NULL, 0, &scan->packet);
    }
    if (stream->state == PDI_STREAM_BROKEN) {
        find(scan, stream, true);
    }
    if (!is_read(stream)) {
        scan->bytes_left = 0;
    }
    if (part->end) {
        stream->state = PDI_STREAM_NONE;
    }
}

void pdi_streams_end(struct pdi_scan *scan)
{
    for (uint32_t i = 0; i < PDI_TCP_DIRECTIONS_MAX; i++) {
        struct pdi_stream_seen *stream = &scan->streams[i];
        scan->facts.by_decode[PYDDSI_DECODE_STREAM] +=
            stream->used != 0 && stream->state == PDI_STREAM_READ;
        scan->facts.stream_unread += stream->used;
        stream->used = 0;
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
            not_framed(scan, stream);
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

/* The next packet in the bytes at hand; false: what they still hold waits, or reading broke off. */
static bool next(struct pdi_scan *scan, struct pdi_stream_seen *stream, pyddsi_bytes *packet)
{
    if (stream->used != 0 && waited(scan, stream, packet)) {
        return true;
    }
    if (scan->bytes_left == 0 || stream->used != 0 || !is_read(stream)) {
        return false;
    }
    size_t taken = 0, need = 0;
    int status =
        pdi_stream_next(&stream->stream, scan->bytes, scan->bytes_left, packet, &taken, &need);
    if (status == PYDDSI_BAD_INPUT) {
        not_framed(scan, stream);
        return false;
    }
    scan->bytes += taken;
    scan->bytes_left -= taken;
    if (status == PYDDSI_OK) {
        return true;
    }
    if (scan->bytes_left > sizeof stream->bytes || need > sizeof stream->bytes) {
        not_framed(scan, stream);
        return false;
    }
    memcpy(stream->bytes, scan->bytes, scan->bytes_left);
    stream->used = (uint32_t)scan->bytes_left;
    scan->bytes_left = 0;
    return false;
}

bool pdi_stream_packet(struct pdi_scan *scan, pyddsi_bytes *packet)
{
    struct pdi_stream_seen *stream = stream_of(scan);
    for (;;) { /* each round takes bytes, or ends */
        bool some = next(scan, stream, packet);
        if (some && stream->state == PDI_STREAM_UNSURE && strictly(*packet) != PYDDSI_END) {
            scan->facts.stream_unread += packet->size;
            stream->state = PDI_STREAM_BROKEN;
        } else if (some) {
            stream->state = PDI_STREAM_READ;
            return true;
        }
        if (stream->state != PDI_STREAM_BROKEN || scan->bytes_left == 0) {
            return false;
        }
        find(scan, stream, false);
        if (!is_read(stream)) {
            return false;
        }
    }
}
