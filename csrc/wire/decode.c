/* decode.c - walking the messages of a packet.
 *
 * A packet is messages back to back, nothing around them. The walk keeps the little that spans
 * messages: the CONDUIT marker stays in force until the next one (as zhe reads it; a sender that
 * marks every message is read alike by everybody), FRAG and RSPACE belong to the next message
 * alone. Nothing is copied and nothing is allocated.
 *
 * Three readings share this code. The tolerant one takes everything that can be understood. The
 * strict one also demands what a correct sender keeps to. The zhe reading takes what zhe takes,
 * with the limits of a configuration, and its faults can be looked up in rules.c for what zhe does
 * instead; so "would zhe survive this packet?" has an answer without zhe.
 */
#include "wire/decode.h"

#include <stdbool.h>

#include "wire/list.h"
#include "wire/name.h"
#include "wire/quick.h"
#include "wire/record.h"

#define ZHE_SEQ_BITS 14 /* if the caller does not say: the reference's usual configuration */
#define ZHE_RID_BITS 32

static unsigned machine_bits(unsigned bits)
{
    return bits <= 8 ? 8 : bits <= 16 ? 16 : bits <= 32 ? 32 : 64;
}

static uint64_t largest(unsigned bits)
{
    return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static void limit(pyddsi_reading *reading, unsigned type, unsigned bits)
{
    reading->max[type] = largest(bits);
    reading->bytes[type] = (uint8_t)((machine_bits(bits) + 6) / 7);
}

void pdi_reading_numbers(pyddsi_reading *reading, unsigned bits)
{
    reading->options.seq_bits = (uint8_t)bits;
    limit(reading, PYDDSI_TYPE_SN, bits);
}

int pdi_reading_init(pyddsi_reading *reading, const pyddsi_options *options)
{
    unsigned seq_bits = options->seq_bits, rid_bits = options->rid_bits;
    if (options->strictness > PYDDSI_ZHE || (seq_bits != 0 && (seq_bits < 7 || seq_bits > 56)))
        return PYDDSI_BAD_ARGUMENT;
    if (rid_bits != 0 && (rid_bits > 64 || machine_bits(rid_bits) != rid_bits))
        return PYDDSI_BAD_ARGUMENT;
    int zhe = options->strictness == PYDDSI_ZHE;
    if (seq_bits == 0)
        seq_bits = zhe ? ZHE_SEQ_BITS : 64;
    if (rid_bits == 0)
        rid_bits = zhe ? ZHE_RID_BITS : 64;
    memset(reading, 0, sizeof(*reading));
    reading->options = *options;
    reading->options.base_only = (uint8_t)(options->base_only || zhe);
    reading->strict = options->strictness == PYDDSI_STRICT;
    limit(reading, PYDDSI_TYPE_NUMBER64, 64);
    limit(reading, PYDDSI_TYPE_NUMBER32, 32);
    limit(reading, PYDDSI_TYPE_NUMBER16, 16);
    limit(reading, PYDDSI_TYPE_HASH, zhe ? 64 : 16);
    pdi_reading_numbers(reading, seq_bits);
    for (unsigned type = PYDDSI_TYPE_RID; type <= PYDDSI_TYPE_ID_NONE; type++)
        limit(reading, type, rid_bits);
    return PYDDSI_OK;
}

void pdi_decoder_init(pyddsi_decoder *decoder, const pyddsi_reading *reading, const uint8_t *data,
                      size_t size)
{
    memset(decoder, 0, sizeof(*decoder));
    decoder->reading = reading;
    decoder->data = data;
    decoder->size = size;
}

static int faulty(pyddsi_decoder *decoder, int rule, size_t at, const char *field)
{
    decoder->fault.rule = rule;
    decoder->fault.at = at;
    decoder->field = field;
    return rule == PYDDSI_RULE_CUT ? PYDDSI_SHORT : PYDDSI_BAD_INPUT;
}

/* The rule that a kind breaks by being there. */
static int kind_rule(const pyddsi_spec *spec, int base_only)
{
    if (spec->name == NULL)
        return PYDDSI_RULE_KIND_UNKNOWN;
    if (spec->part == 'R')
        return PYDDSI_RULE_KIND_RESERVED;
    return base_only && spec->part == 'B' ? PYDDSI_RULE_KIND_EXTENSION : PYDDSI_RULE_NONE;
}

/* zhe's checks of an OPEN, in its order; property 4 holds the length of sequence numbers if that is
 * not 14. */
static int open_check(pyddsi_decoder *decoder, const pyddsi_message *message)
{
    const pyddsi_options *options = &decoder->reading->options;
    pyddsi_list properties = message->properties;
    pyddsi_property property;
    size_t version_at = message->at + 1;
    size_t lease_at = (size_t)(message->id.data - decoder->data) + message->id.size;
    if ((message->flags & PYDDSI_P) == 0)
        return faulty(decoder, PYDDSI_RULE_OPEN_PROPERTIES, message->at, "properties");
    while (pdi_list_property(&properties, &property) == PYDDSI_OK) {
        if (property.id == 4 && options->strictness == PYDDSI_ZHE &&
            (property.value.size != 1 || property.value.data[0] != options->seq_bits))
            return faulty(decoder, PYDDSI_RULE_OPEN_SEQ_BITS,
                          (size_t)(property.value.data - decoder->data), "properties");
    }
    if (message->version != 1)
        return faulty(decoder, PYDDSI_RULE_OPEN_VERSION, version_at, "version");
    if (message->id.size == 0 || message->id.size > PDI_PEER_ID_MAX)
        return faulty(decoder, PYDDSI_RULE_PEER_ID_LENGTH, version_at + 1, "id");
    if (message->lease > PDI_LEASE_MAX)
        return faulty(decoder, PYDDSI_RULE_OPEN_LEASE, lease_at, "lease");
    return PYDDSI_OK;
}

/* A name that must be valid. Only WDATA names its resource outside a declaration; there zhe looks
 * too, with rules of its own. */
static int uri_check(pyddsi_decoder *decoder, const pyddsi_message *message)
{
    pyddsi_fault fault;
    int status = decoder->reading->strict ? pdi_name_check(message->uri, PDI_NAME_MAX, &fault)
                                          : pdi_name_check_zhe(message->uri, &fault);
    if (status == PYDDSI_OK)
        return PYDDSI_OK;
    return faulty(decoder, fault.rule, (size_t)(message->uri.data - decoder->data) + fault.at,
                  "uri");
}

/* A conduit that the receiver does not have; zhe looks at the long form alone. */
static int conduit_check(pyddsi_decoder *decoder, const pyddsi_message *message)
{
    uint32_t conduits = decoder->reading->options.conduits;
    if (conduits == 0 || message->conduit < conduits)
        return PYDDSI_OK;
    if (message->flags & PYDDSI_Z)
        return faulty(decoder, PYDDSI_RULE_CONDUIT_SHORT, message->at, "conduit");
    return faulty(decoder, PYDDSI_RULE_CONDUIT_RANGE, message->at + 1, "conduit");
}

/* What zhe checks, in any order but that of the bytes. */
static int zhe_check(pyddsi_decoder *decoder, const pyddsi_message *message)
{
    switch (message->kind) {
    case PYDDSI_OPEN:
        return open_check(decoder, message);
    case PYDDSI_KEEPALIVE:
        return message->id.size > 0
                   ? PYDDSI_OK
                   : faulty(decoder, PYDDSI_RULE_PEER_ID_LENGTH, message->at + 1, "id");
    case PYDDSI_CONDUIT:
        return conduit_check(decoder, message);
    case PYDDSI_WDATA:
        return uri_check(decoder, message);
    default:
        return PYDDSI_OK;
    }
}

/* What a correct sender keeps to beyond the fields themselves. */
static int strict_check(pyddsi_decoder *decoder, const pyddsi_spec *spec,
                        const pyddsi_message *message)
{
    int rule = PYDDSI_RULE_NONE;
    unsigned before = decoder->markers;
    if (message->flags & ~pdi_flags_defined(spec))
        rule = PYDDSI_RULE_FLAG_UNDEFINED;
    else if (before & ~(unsigned)spec->markers)
        rule = spec->marker ? PYDDSI_RULE_MARKER_ORDER : PYDDSI_RULE_MARKER_TARGET;
    else if (spec->marker && decoder->at == decoder->size)
        rule = PYDDSI_RULE_MARKER_ALONE;
    else if (spec->field[0].type == PYDDSI_TYPE_MARKER && (message->flags & PYDDSI_Z) == 0) {
        uint64_t id = spec->number == PYDDSI_CONDUIT ? message->conduit : message->space;
        if ((id >= 1 && id <= 4) || message->flags != 0)
            rule = PYDDSI_RULE_MARKER_FORM;
    }
    if (rule != PYDDSI_RULE_NONE)
        return faulty(decoder, rule, message->at, NULL);
    if (message->kind == PYDDSI_OPEN)
        return open_check(decoder, message);
    return message->kind == PYDDSI_WDATA ? uri_check(decoder, message) : PYDDSI_OK;
}

/* After a message: a marker changes what is in force, anything else has used up FRAG and RSPACE. */
static void follow(pyddsi_decoder *decoder, const pyddsi_spec *spec, const pyddsi_message *message)
{
    if (!spec->marker) {
        if (decoder->markers != 0) {
            decoder->fragment = 0;
            decoder->space = 0;
            decoder->markers = 0;
        }
        return;
    }
    decoder->markers |= (uint8_t)pdi_marker_bit(spec->number);
    decoder->conduit = message->conduit;
    decoder->space = message->space;
    if (spec->number == PYDDSI_FRAG) {
        decoder->fragment = 1;
        decoder->first = message->first;
        decoder->fragments = message->fragments;
    }
}

static void absent(const pyddsi_field *field, void *place)
{
    if (field->type > PYDDSI_TYPE_LISTS)
        memset(place, 0, sizeof(pyddsi_list));
    else
        *(uint64_t *)place = 0; /* no byte vector is optional */
}

/* A field of any kind; |fields_read| has the quick way for most. */
static int field_read(struct pdi_record *record, const pyddsi_field *field, unsigned header,
                      pyddsi_message *message)
{
    if (field->type < PYDDSI_TYPE_LISTS)
        return pdi_field_read(record, field, header, message);
    if (field->type == PYDDSI_TYPE_DECLARATIONS)
        return pdi_declarations_read(record, field, message);
    return pdi_items_read(record, field, header, message);
}

/* Reads the fields of a message. Nearly all are numbers of one or two bytes and vectors below 128
 * bytes, in the tolerant reading, away from the end of the packet: those are read on the spot, with
 * the position in a register. Everything else, and every fault, takes the general way. */
static int fields_read(struct pdi_record *record, const pyddsi_spec *spec, unsigned header,
                       pyddsi_message *message)
{
    const pyddsi_reading *reading = record->reading;
    const uint8_t *at = record->in.at, *end = record->in.end;
    const pyddsi_field *field = spec->field, *last = field + spec->field_count;
    int quick = reading->options.strictness == PYDDSI_TOLERANT;
    for (; field != last; field++) {
        unsigned type = field->type;
        void *place = (char *)message + field->at;
        if (field->flag & ~header) { /* the flag that announces it is clear */
            absent(field, place);
            continue;
        }
        if (type < PYDDSI_TYPE_NUMBERS && quick && end - at >= 2) {
            uint64_t value = at[0];
            unsigned bytes = 1;
            if (value >= 0x80) {
                value = (value & 0x7f) | (uint64_t)at[1] << 7;
                bytes = at[1] - 1U < 0x7f
                            ? 2
                            : 0; /* neither the last group empty nor another to come */
            }
            if (bytes != 0 && value <= reading->max[type]) {
                *(uint64_t *)place = value;
                at += bytes;
                continue;
            }
        } else if (type == PYDDSI_TYPE_BYTES && at != end && at[0] < 0x80 && at[0] < end - at) {
            *(pyddsi_bytes *)place = (pyddsi_bytes){at + 1, at[0]};
            at += 1 + at[0];
            continue;
        }
        record->in.at = at;
        int status = field_read(record, field, header, message);
        if (status != PYDDSI_OK)
            return status;
        at = record->in.at;
    }
    record->in.at = at;
    return PYDDSI_OK;
}

int pdi_decoder_next(pyddsi_decoder *decoder, pyddsi_message *message)
{
    if (decoder->at == decoder->size)
        return PYDDSI_END;
    if (pdi_quick_next(decoder, message))
        return PYDDSI_OK;
    const pyddsi_reading *reading = decoder->reading;
    const uint8_t *begin = decoder->data + decoder->at;
    unsigned header = *begin;
    const pyddsi_spec *spec = &pdi_messages[header & PDI_KIND_MASK];
    decoder->kind = (uint8_t)(header & PDI_KIND_MASK);
    if (spec->part != 'A') {
        int rule = kind_rule(spec, reading->options.base_only);
        if (rule != PYDDSI_RULE_NONE)
            return faulty(decoder, rule, decoder->at, NULL);
    }
    struct pdi_record record; /* the rest is set by whatever fails */
    record.reading = reading;
    record.in.at = begin + 1;
    record.in.end = decoder->data + decoder->size;
    message->kind = decoder->kind;
    message->flags = (uint8_t)(header & PDI_FLAG_MASK);
    message->at = decoder->at;
    message->conduit = decoder->conduit;
    message->space = decoder->space;
    message->fragment = decoder->fragment;
    if (decoder->fragment) {
        message->first = decoder->first;
        message->fragments = decoder->fragments;
    }
    int status = fields_read(&record, spec, header, message);
    if (status != PYDDSI_OK)
        return faulty(decoder, record.rule, (size_t)(record.at - decoder->data), record.field);
    message->size = (size_t)(record.in.at - begin);
    decoder->at += message->size;
    if (reading->options.strictness != PYDDSI_TOLERANT) {
        status =
            reading->strict ? strict_check(decoder, spec, message) : zhe_check(decoder, message);
        if (status != PYDDSI_OK) {
            decoder->at = message->at;
            return status;
        }
    }
    if (spec->marker || decoder->markers != 0)
        follow(decoder, spec, message);
    return PYDDSI_OK;
}
