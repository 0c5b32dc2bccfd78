/* quick.h - the messages that nearly all are, read without the table: an SDATA, and the markers before it. Whatever is not
 * certain is left to the table, and so is every fault. Of decode.c alone.
 */
#ifndef PDI_WIRE_QUICK_H
#define PDI_WIRE_QUICK_H

#include <stdbool.h>

#include "wire/table.h"

static inline unsigned pdi_marker_bit(unsigned kind)
{
    return kind == PYDDSI_CONDUIT ? PYDDSI_MARKER_CONDUIT
           : kind == PYDDSI_FRAG  ? PYDDSI_MARKER_FRAG
                                  : PYDDSI_MARKER_RSPACE;
}

/* A number of one or two bytes in its shortest form, of which there are two at |at|. Answers how many it has, 0 for any
 * other. */
static inline size_t pdi_quick_short(const uint8_t *at, uint64_t *value)
{
    if (at[0] < 0x80) {
        *value = at[0];
        return 1;
    }
    *value = (at[0] & 0x7fU) | (uint64_t)at[1] << 7;
    return at[1] - 1U < 0x7f ? 2 : 0;
}

/* The same for one of up to 28 bits; four bytes are there. */
static inline size_t pdi_quick_number(const uint8_t *at, uint64_t *value)
{
    size_t size = pdi_quick_short(at, value);
    if (size != 0 || at[1] < 0x80) {
        return size;
    }
    uint64_t low = (at[0] & 0x7fU) | (at[1] & 0x7fU) << 7;
    if (at[2] < 0x80) {
        *value = low | (uint64_t)at[2] << 14;
        return at[2] == 0 ? 0 : 3;
    }
    *value = low | (at[2] & 0x7fU) << 14 | (uint64_t)at[3] << 21;
    return at[3] - 1U < 0x7f ? 4 : 0;
}

/* What nearly every message under load is: an SDATA of one resource, its numbers short, in the tolerant reading, none of these
 * markers before it. Read without the table, in a third of the time. False: it is not, or not certainly; then nothing has
 * happened. */
static inline bool pdi_quick_sdata(pyddsi_decoder *decoder, pyddsi_message *message,
                                   unsigned markers)
{
    enum { HEAD_MAX = 1 + 4 + 4 + 2 };
    const pyddsi_reading *reading = decoder->reading;
    const uint8_t *begin = decoder->data + decoder->at, *at = begin + 1;
    size_t left = decoder->size - decoder->at;
    uint64_t sn, rid, size;
    if (left < HEAD_MAX || (begin[0] & (PDI_KIND_MASK | PYDDSI_A)) != PYDDSI_SDATA ||
        (decoder->markers & markers) != 0 || reading->options.strictness != PYDDSI_TOLERANT)
        return false;
    size_t first = pdi_quick_number(at, &sn), second = pdi_quick_number(at + first, &rid);
    size_t third = pdi_quick_short(at + first + second, &size);
    at += first + second + third;
    if (first == 0 || second == 0 || third == 0 || sn > reading->max[PYDDSI_TYPE_SN] ||
        rid > reading->max[PYDDSI_TYPE_ID] || size > left - (size_t)(at - begin))
        return false;
    message->kind = decoder->kind = PYDDSI_SDATA;
    message->flags = (uint8_t)(begin[0] & PDI_FLAG_MASK);
    message->fragment = 0;
    message->at = decoder->at;
    message->size = (size_t)(at - begin) + size;
    message->conduit = decoder->conduit;
    message->space = decoder->space;
    message->sn = sn;
    message->rid = rid;
    message->data_rid = 0;
    message->payload = (pyddsi_bytes){at, size};
    decoder->at += message->size;
    return true;
}

/* A marker that stands before each message of a conduit, and before each of the forty pieces that a large packet has. As
 * pdi_quick_sdata. */
static inline bool pdi_quick_marker(pyddsi_decoder *decoder, pyddsi_message *message)
{
    enum { HEAD_MAX = 1 + 4 + 4 };
    const pyddsi_options *options = &decoder->reading->options;
    const uint8_t *begin = decoder->data + decoder->at;
    unsigned kind = begin[0] & PDI_KIND_MASK;
    size_t size = 1;
    if (options->strictness != PYDDSI_TOLERANT || options->base_only ||
        decoder->size - decoder->at < HEAD_MAX)
        return false;
    if (kind == PYDDSI_CONDUIT && decoder->markers == 0 && (begin[0] & PYDDSI_Z) != 0) {
        decoder->conduit = ((begin[0] >> 5) & 3U) + 1;
    } else if (kind == PYDDSI_FRAG && (decoder->markers & ~PYDDSI_MARKER_CONDUIT) == 0) {
        uint64_t first, fragments = 0;
        size_t of_first = pdi_quick_number(begin + 1, &first), of_count = 0;
        if ((begin[0] & PYDDSI_N) != 0) {
            of_count = pdi_quick_number(begin + 1 + of_first, &fragments);
            if (of_count == 0)
                return false;
        }
        if (of_first == 0 || first > decoder->reading->max[PYDDSI_TYPE_SN])
            return false;
        size += of_first + of_count;
        message->first = decoder->first = first;
        message->fragments = decoder->fragments = fragments;
        decoder->fragment = 1;
    } else {
        return false;
    }
    decoder->markers |= (uint8_t)pdi_marker_bit(kind);
    message->kind = decoder->kind = (uint8_t)kind;
    message->flags = (uint8_t)(begin[0] & PDI_FLAG_MASK);
    message->fragment = 0;
    message->at = decoder->at;
    message->size = size;
    message->conduit = decoder->conduit;
    message->space = decoder->space;
    decoder->at += size;
    return true;
}

/* The messages that are read without the table. */
static inline bool pdi_quick_next(pyddsi_decoder *decoder, pyddsi_message *message)
{
    if (pdi_quick_sdata(decoder, message, UINT8_MAX))
        return true;
    if (decoder->markers == 0 || !pdi_quick_sdata(decoder, message, PYDDSI_MARKER_RSPACE))
        return pdi_quick_marker(decoder, message);
    if (decoder->fragment != 0) {
        message->fragment = 1;
        message->first = decoder->first;
        message->fragments = decoder->fragments;
    }
    decoder->fragment = decoder->markers = 0;
    return true;
}

#endif
