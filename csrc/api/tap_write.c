/* tap_write.c - a record becomes blocks of a pcapng file: see tap.h for what of them is made up.
 *
 * A record is written in parts, one after the other: a datagram has one, a sample of shared memory as many as it has
 * pieces, and what goes to all connections one for each place of the table. Each part fits into PART_ROOM, so where there is
 * less room the taker comes again, and goes on with the next part.
 */
#include <stdio.h>
#include <string.h>

#include "api/tap.h"
#include "base/bytes.h"
#include "base/endpoint.h"
#include "capture/write.h"
#include "flow/ledger.h"
#include "host/streams.h"
#include "wire/encode.h"
#include "wire/stream.h"

#define PART_ROOM   (UINT32_C(256) << 10) /* three frames: two SYNs, and the bytes */
#define PIECE_BYTES 60000U                /* of a sample, in one packet */
#define COMMENT_MAX 256U
#define HEAD_MAX    128U /* of a sample: a message and three markers */
#define OUR_PORT    7447U
#define SHOWN_PORTS 20000U /* made-up ports of Unix sockets begin here, */
#define SHOWN_SPAN  40000U /* and so many follow */

enum { LINK_RAW = 101, TCP_FIN_ACK = 0x11, TCP_SYN = 2, TCP_SYN_ACK = 0x12 };

/* One frame that is being made. */
struct part {
    struct pdi_tap *tap;
    const struct pdi_tap_record *record;
    pyddsi_copy *into;
    struct pdi_synthetic packet;
    uint8_t direction;
    bool plain; /* without what is said of the record */
};

static void odd(struct pdi_tap *tap)
{
    (void)pdi_atomic64_add(&tap->odd, 1);
}

/* ---- comments ---- */

/* Adds half a sentence; answers the new length. */
static size_t say(char *out, size_t size, const char *what)
{
    size_t length = strlen(what);
    size_t between = size != 0 ? 2 : 0;
    if (size + between + length > COMMENT_MAX) { /* all of them together have fewer */
        return size;
    }
    memcpy(out + size, "; ", between);
    /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): its length goes with it */
    memcpy(out + size + between, what, length);
    return size + between + length;
}

static size_t comment_of(const struct part *part, char *out)
{
    const struct pdi_tap_record *record = part->record;
    char drops[COMMENT_MAX];
    size_t size = 0;
    if (part->plain) {
        return record->source.kind == PDI_STREAM_UNIX || record->target.kind == PDI_STREAM_UNIX
                   ? say(out, 0, "a Unix socket")
                   : say(out, 0, "a TCP connection");
    }
    if (record->sample) {
        size = say(out, size, "by shared memory");
    }
    if (record->whole > record->size) {
        size = say(out, size, "longer than a packet may be, and cut");
    }
    if (record->drops != 0) {
        (void)snprintf(drops, sizeof drops, "%llu dropped %s because %s",
                       (unsigned long long)record->drops, pdi_place_text(record->place),
                       pdi_reason_text(record->reason));
        size = say(out, size, drops);
    }
    return size;
}

/* ---- frames ---- */

static void put(struct part *part)
{
    pyddsi_copy *into = part->into;
    char comment[COMMENT_MAX];
    size_t size = pdi_synthetic_size(&part->packet);
    size_t at = 0;
    uint8_t *there;
    uint64_t lacks = part->plain ? 0 : part->record->whole - part->record->size;
    struct pdi_frame frame = {.time_ns = (int64_t)part->record->time_ns,
                              .size = (uint32_t)size,
                              .wire_size = (uint32_t)(size + (part->record->sample ? 0 : lacks)),
                              .link = LINK_RAW,
                              .direction = part->direction};
    pyddsi_bytes text = {(const uint8_t *)comment, comment_of(part, comment)};
    if (size == 0 || pdi_write_frame_around(&frame, text, into->out, into->room, &into->used,
                                            &there) != PYDDSI_OK) {
        odd(part->tap);
        return;
    }
    (void)pdi_write_synthetic(&part->packet, there, size, &at); /* it has said how large it is */
    into->times[into->count] = frame.time_ns;
    into->ends[into->count++] = (uint32_t)into->used;
    into->frames++;
    (void)pdi_atomic64_add(&part->tap->bytes, size);
}

/* ---- connections ---- */

/* How a connection stands in the file: the peer where it is, or on the loopback, and we at the port that makes readers take
 * it for one of ours. */
static void show(struct pdi_tap_made *made, struct pdi_tap_stream *stream,
                 const pyddsi_endpoint *ours)
{
    bool path = stream->peer.kind == PDI_STREAM_UNIX;
    const pyddsi_endpoint loopback = {.ip = {127, 0, 0, 1}, .kind = PDI_ENDPOINT_TCP4};
    stream->shown[0] = stream->shown[1] = loopback;
    if (path) {
        stream->shown[1].port = (uint16_t)(SHOWN_PORTS + made->connections % SHOWN_SPAN);
    } else {
        stream->shown[1] = stream->peer;
        memcpy(stream->shown[0].ip, ours->ip, sizeof ours->ip);
        stream->shown[0].kind = (uint8_t)(ours->kind + 10);
    }
    stream->shown[0].port = stream->shown[1].port != OUR_PORT ? OUR_PORT : ours->port;
    /* other numbers than an earlier connection's of the same address, so that this one is seen to begin */
    stream->next[0] = stream->next[1] = (uint32_t)(made->connections << 20);
    made->connections++;
}

static const pyddsi_bytes no_bytes = {NULL, 0};

/* A frame of a connection; |way| 0: ours, 1: the peer's. Without flags it holds |head|, and the record's bytes. */
static void put_segment(struct part *part, struct pdi_tap_stream *stream, unsigned way,
                        uint8_t flags, pyddsi_bytes head)
{
    const struct pdi_tap_record *record = part->record;
    uint32_t size = flags == 0 ? record->size : 0;
    part->packet = (struct pdi_synthetic){.source = stream->shown[way],
                                          .target = stream->shown[1 - way],
                                          .head = head,
                                          .data = (const uint8_t *)(record + 1),
                                          .size = size,
                                          .sequence = stream->next[way],
                                          .tcp_flags = flags};
    part->direction = way == 0 ? PDI_WAY_OUT : PDI_WAY_IN;
    part->plain = flags != 0;
    stream->next[way] += (uint32_t)head.size + size + (flags != 0);
    put(part);
}

/* The connection with this peer, which may be new; the one that was silent for longest makes room for it. */
static struct pdi_tap_stream *stream_of(struct part *part, const pyddsi_endpoint *peer,
                                        const pyddsi_endpoint *ours)
{
    struct pdi_tap_made *made = part->tap->made;
    struct pdi_tap_stream *oldest = &made->streams[0];
    for (uint32_t i = 0; i < PDI_TAP_STREAMS_MAX; i++) {
        struct pdi_tap_stream *stream = &made->streams[i];
        if (stream->used != 0 && pdi_endpoint_equal(&stream->peer, peer)) {
            stream->used = made->records;
            return stream;
        }
        oldest = stream->used < oldest->used ? stream : oldest;
    }
    *oldest = (struct pdi_tap_stream){.peer = *peer, .used = made->records};
    show(made, oldest, ours);
    put_segment(part, oldest, 0, TCP_SYN, no_bytes);
    put_segment(part, oldest, 1, TCP_SYN_ACK, no_bytes);
    return oldest;
}

/* A packet of a connection, in its frame. */
static void put_framed(struct part *part, struct pdi_tap_stream *stream, unsigned way)
{
    const struct pdi_tap_record *record = part->record;
    uint8_t head[PDI_VLE_MAX];
    size_t at = 0;
    if (record->whole > record->size ||
        pdi_stream_frame(record->size, head, sizeof head, &at) != PYDDSI_OK) {
        odd(part->tap); /* a part of a frame would spoil all that comes behind it */
        return;
    }
    put_segment(part, stream, way, 0, (pyddsi_bytes){head, at});
}

static void put_end(struct part *part, struct pdi_tap_stream *stream)
{
    put_segment(part, stream, 1, TCP_FIN_ACK, no_bytes);
    put_segment(part, stream, 0, TCP_FIN_ACK, no_bytes);
    stream->used = 0;
}

static bool is_known(struct pdi_tap_made *made, const pyddsi_endpoint *peer)
{
    for (uint32_t i = 0; i < PDI_TAP_STREAMS_MAX; i++) {
        if (made->streams[i].used != 0 && pdi_endpoint_equal(&made->streams[i].peer, peer)) {
            return true;
        }
    }
    return false;
}

/* What goes to all connections goes to those that are known: one part each. */
static int write_all(struct part *part)
{
    struct pdi_tap_made *made = part->tap->made;
    struct pdi_tap_stream *stream = &made->streams[made->done++];
    if (stream->used != 0) {
        put_framed(part, stream, 0);
    }
    return made->done < PDI_TAP_STREAMS_MAX ? PYDDSI_AGAIN : PYDDSI_OK;
}

static int write_stream(struct part *part)
{
    const struct pdi_tap_record *record = part->record;
    bool in = record->direction == PDI_WAY_IN;
    const pyddsi_endpoint *peer = in ? &record->source : &record->target;
    const pyddsi_endpoint *ours = in ? &record->target : &record->source;
    if (!in && peer->port == 0 && peer->kind != PDI_STREAM_UNIX) {
        return write_all(part);
    }
    if (in && record->whole == 0) {
        if (is_known(part->tap->made, peer)) {
            put_end(part, stream_of(part, peer, ours));
        }
    } else {
        put_framed(part, stream_of(part, peer, ours), in);
    }
    return PYDDSI_OK;
}

/* ---- shared memory ---- */

/* The counter of who has written a sample; the one that was silent for longest makes room. */
static struct pdi_tap_speaker *speaker_of(struct pdi_tap_made *made,
                                          const struct pdi_tap_record *record)
{
    struct pdi_tap_speaker *oldest = &made->speakers[0];
    for (uint32_t i = 0; i < PDI_TAP_SPEAKERS_MAX; i++) {
        struct pdi_tap_speaker *speaker = &made->speakers[i];
        if (speaker->used != 0 && speaker->reliable == record->reliable &&
            pdi_endpoint_equal(&speaker->source, &record->source)) {
            speaker->used = made->records;
            return speaker;
        }
        oldest = speaker->used < oldest->used ? speaker : oldest;
    }
    *oldest = (struct pdi_tap_speaker){
        .source = record->source, .reliable = record->reliable, .used = made->records};
    return oldest;
}

/* Numbers have the bits of the session's. */
static uint64_t mask_of(const struct pdi_tap_made *made)
{
    return (UINT64_C(1) << made->seq_bits) - 1;
}

/* The markers in front of a sample that is whole, or of one of its |pieces|. */
static bool put_markers(const struct pdi_tap_made *made, const struct pdi_tap_record *record,
                        uint64_t number, uint32_t pieces, uint8_t out[HEAD_MAX], size_t *at)
{
    const pyddsi_message messages[2] = {
        {.kind = PYDDSI_FRAG,
         .flags = made->done == 0 ? PYDDSI_N : 0,
         .first = (number - made->done) & mask_of(made),
         .fragments = pieces},
        {.kind = PYDDSI_RSPACE, .space = record->space},
    };
    const bool wanted[2] = {pieces > 1, record->space != 0};
    pyddsi_fault fault;
    for (unsigned i = 0; i < 2; i++) {
        if (wanted[i] && pdi_encode_message(&messages[i], out, HEAD_MAX, at, &fault) != PYDDSI_OK) {
            return false;
        }
    }
    return true;
}

/* The messages of one piece up to its |size| bytes, which come last; answers how many bytes they are, 0 if it cannot be. */
static size_t encode(const struct pdi_tap_made *made, const struct pdi_tap_record *record,
                     uint64_t number, uint32_t pieces, uint32_t size, uint8_t out[HEAD_MAX])
{
    size_t at = made->conduit_size;
    memcpy(out, made->conduit, at);
    if ((pieces > 1 || record->space != 0) &&
        !put_markers(made, record, number, pieces, out, &at)) {
        return 0;
    }
    out[at++] = PYDDSI_SDATA | (record->reliable ? PYDDSI_R : 0);
    struct pdi_writer writer = {out + at, out + HEAD_MAX};
    bool fits = pdi_vle_put(&writer, number & mask_of(made)) == PYDDSI_OK &&
                pdi_vle_put(&writer, record->resource) == PYDDSI_OK &&
                pdi_vle_put(&writer, size) == PYDDSI_OK;
    return fits ? (size_t)(writer.at - out) : 0;
}

/* A sample, piece by piece. */
static int write_sample(struct part *part)
{
    struct pdi_tap_made *made = part->tap->made;
    const struct pdi_tap_record *record = part->record;
    struct pdi_tap_speaker *speaker = speaker_of(made, record);
    uint32_t pieces = record->size / PIECE_BYTES + (record->size % PIECE_BYTES != 0);
    uint32_t begin = made->done * PIECE_BYTES;
    uint32_t left = record->size - begin;
    uint32_t size = left < PIECE_BYTES ? left : PIECE_BYTES;
    uint8_t head[HEAD_MAX];
    pyddsi_bytes before = {head, encode(made, record, speaker->next++, pieces, size, head)};
    part->packet = (struct pdi_synthetic){.source = record->source,
                                          .target = made->group,
                                          .head = before,
                                          .data = (const uint8_t *)(record + 1) + begin,
                                          .size = size,
                                          .unsummed = true}; /* it was on no wire */
    if (before.size != 0) {
        put(part);
    } else {
        odd(part->tap);
    }
    made->done++;
    return made->done < pieces ? PYDDSI_AGAIN : PYDDSI_OK;
}

/* ---- all of them ---- */

static int write_part(struct part *part)
{
    const struct pdi_tap_record *record = part->record;
    if (record->sample) {
        return write_sample(part);
    }
    if (pdi_endpoint_is_stream(&record->source) || pdi_endpoint_is_stream(&record->target)) {
        return write_stream(part);
    }
    part->packet = (struct pdi_synthetic){.source = record->source,
                                          .target = record->target,
                                          .data = (const uint8_t *)(record + 1),
                                          .size = record->size};
    put(part);
    return PYDDSI_OK;
}

int pdi_tap_write(struct pdi_tap *tap, const struct pdi_tap_record *record, pyddsi_copy *into)
{
    int status = PYDDSI_AGAIN;
    if (tap->made->done == 0) {
        tap->made->records++;
    }
    while (status == PYDDSI_AGAIN) { /* the parts of a record */
        if (into->room - into->used < PART_ROOM || into->count_max - into->count < 3) {
            return PYDDSI_AGAIN;
        }
        struct part part = {
            .tap = tap, .record = record, .into = into, .direction = record->direction};
        status = write_part(&part);
    }
    tap->made->done = 0;
    return PYDDSI_OK;
}
