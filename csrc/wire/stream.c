/* stream.c - see stream.h. */
#include "wire/stream.h"

#include "base/bytes.h"
#include "wire/decode.h"
#include "wire/table.h"

void pdi_stream_init(pyddsi_stream *stream, const pyddsi_reading *reading, size_t packet_max)
{
    *stream = (pyddsi_stream){.reading = reading, .packet_max = packet_max};
    if (packet_max == 0 || packet_max > PDI_FRAME_MAX)
        stream->packet_max = PDI_FRAME_MAX;
}

static int broken(pyddsi_stream *stream, int rule, size_t at)
{
    stream->broken = 1;
    stream->fault.rule = rule;
    stream->fault.at = at;
    return PYDDSI_BAD_INPUT;
}

/* A packet with its length in front. A length of 0 switches the stream over; that uses up its own
 * bytes alone. */
static int framed_next(pyddsi_stream *stream, struct pdi_reader *in, pyddsi_bytes *packet,
                       size_t *need)
{
    const uint8_t *begin = in->at;
    uint64_t size = 0;
    enum pdi_vle got = pdi_vle_get(in, PDI_FRAME_MAX, 2, &size);
    if (got == PDI_VLE_CUT) {
        *need = pdi_reader_left(in) + 1;
        return PYDDSI_SHORT;
    }
    if (got == PDI_VLE_WIDE)
        return broken(stream, PYDDSI_RULE_FRAME_LENGTH, 0);
    if (size > stream->packet_max) {
        in->at = begin;
        return broken(stream, PYDDSI_RULE_FRAME_LIMIT, 0);
    }
    if (size == 0) {
        stream->unframed = 1;
        return PYDDSI_OK;
    }
    if (size > pdi_reader_left(in)) {
        *need = (size_t)(in->at - begin) + (size_t)size;
        in->at = begin; /* the length is read again when the packet is whole */
        return PYDDSI_SHORT;
    }
    *packet = (pyddsi_bytes){in->at, (size_t)size};
    in->at += size;
    return PYDDSI_OK;
}

/* A message with its markers. Bytes beyond the limit are not looked at, so the verdict does not
 * depend on how many of them have come already. */
static int unframed_next(pyddsi_stream *stream, struct pdi_reader *in, pyddsi_bytes *packet,
                         size_t *need)
{
    size_t left = pdi_reader_left(in);
    size_t looked = left < stream->packet_max ? left : stream->packet_max;
    pyddsi_decoder decoder;
    pyddsi_message message;
    pdi_decoder_init(&decoder, stream->reading, in->at, looked);
    int status;
    do /* each turn takes a byte at least */
        status = pdi_decoder_next(&decoder, &message);
    while (status == PYDDSI_OK && pdi_messages[message.kind].marker);
    if (decoder.fault.rule == PYDDSI_RULE_MARKER_ALONE)
        status = PYDDSI_SHORT; /* its message may be on the way */
    if (status == PYDDSI_BAD_INPUT)
        return broken(stream, decoder.fault.rule, decoder.fault.at);
    if (status != PYDDSI_OK) {
        if (looked == stream->packet_max)
            return broken(stream, PYDDSI_RULE_FRAME_LIMIT, 0);
        *need = left + 1;
        return PYDDSI_SHORT;
    }
    *packet = (pyddsi_bytes){in->at, decoder.at};
    in->at += decoder.at;
    return PYDDSI_OK;
}

int pdi_stream_next(pyddsi_stream *stream, const uint8_t *data, size_t size, pyddsi_bytes *packet,
                    size_t *used, size_t *need)
{
    struct pdi_reader in = {data, data + size};
    int status = PYDDSI_OK;
    *used = 0;
    *need = 0;
    *packet = (pyddsi_bytes){NULL, 0};
    if (stream->broken)
        return PYDDSI_BAD_INPUT;
    if (!stream->unframed)
        status = framed_next(stream, &in, packet, need);
    if (status == PYDDSI_OK && packet->data == NULL)
        status = unframed_next(stream, &in, packet, need);
    *used = (size_t)(in.at - data);
    if (status == PYDDSI_BAD_INPUT)
        stream->fault.at += *used; /* a length of 0 stood before it */
    return status;
}

int pdi_stream_frame(size_t size, uint8_t *out, size_t room, size_t *at)
{
    struct pdi_writer writer = {out + *at, out + room};
    if (size > PDI_FRAME_MAX)
        return PYDDSI_BAD_ARGUMENT;
    int status = pdi_vle_put(&writer, size);
    *at = (size_t)(writer.at - out);
    return status;
}
