/* encode.c - walking the same rows as the decoder, the other way.
 *
 * What is written is canonical: shortest numbers, the fields that the flags announce and no others,
 * the short form of a marker where the flag Z asks for it. A value that the tolerant reading would
 * refuse is refused here, so whatever can be encoded can be decoded. A list is written as the bytes
 * that it is; those were made by this file or found whole by the decoder.
 */
#include "wire/encode.h"

#include "wire/record.h"

struct encoding {
    struct pdi_writer out;
    int rule;
};

static int refuse(struct encoding *encoding, int rule)
{
    encoding->rule = rule;
    return PYDDSI_BAD_INPUT;
}

static uint64_t largest(unsigned type)
{
    switch (type) {
    case PYDDSI_TYPE_NUMBER32:
        return UINT32_MAX;
    case PYDDSI_TYPE_NUMBER16:
    case PYDDSI_TYPE_HASH:
        return UINT16_MAX;
    default:
        return UINT64_MAX;
    }
}

static int vector_put(struct encoding *encoding, const pyddsi_bytes *bytes)
{
    if (bytes->size > PDI_VECTOR_MAX)
        return refuse(encoding, PYDDSI_RULE_LENGTH_WIDE);
    int status = pdi_vle_put(&encoding->out, bytes->size);
    return status == PYDDSI_OK ? pdi_bytes_put(&encoding->out, bytes->data, bytes->size) : status;
}

static int list_put(struct encoding *encoding, const pyddsi_list *list)
{
    if (list->count > PDI_VECTOR_MAX)
        return refuse(encoding, PYDDSI_RULE_LENGTH_WIDE);
    int status = pdi_vle_put(&encoding->out, list->count);
    return status == PYDDSI_OK ? pdi_bytes_put(&encoding->out, list->data, list->size) : status;
}

static int field_put(struct encoding *encoding, const pyddsi_field *field, unsigned flags,
                     const void *from)
{
    const void *place = (const char *)from + field->at;
    if (field->type > PYDDSI_TYPE_LISTS)
        return list_put(encoding, place);
    if (field->type > PYDDSI_TYPE_BYTE)
        return vector_put(encoding, place);
    uint64_t value = *(const uint64_t *)place;
    switch (field->type) {
    case PYDDSI_TYPE_MARKER:
        if (flags & PYDDSI_Z)
            return PYDDSI_OK; /* it is in the header */
        if (value > PDI_VECTOR_MAX)
            return refuse(encoding, PYDDSI_RULE_NUMBER_WIDE);
        return pdi_vle_put(&encoding->out, value);
    case PYDDSI_TYPE_BYTE:
        if (value > UINT8_MAX)
            return refuse(encoding, PYDDSI_RULE_NUMBER_WIDE);
        return pdi_byte_put(&encoding->out, (uint8_t)value);
    default:
        if (value > largest(field->type))
            return refuse(encoding, PYDDSI_RULE_NUMBER_WIDE);
        return pdi_vle_put(&encoding->out, value);
    }
}

/* Writes the fields of one row. On failure |fault| holds the number of the field. */
static int fields_put(struct encoding *encoding, const pyddsi_spec *spec, unsigned flags,
                      const void *from, pyddsi_fault *fault)
{
    for (unsigned i = 0; i < spec->field_count; i++) {
        const pyddsi_field *field = &spec->field[i];
        if ((field->flag & ~flags) != 0 || !pdi_field_present(field, flags, from))
            continue;
        int status = field_put(encoding, field, flags, from);
        if (status != PYDDSI_OK) {
            fault->rule = encoding->rule;
            fault->at = i;
            return status;
        }
    }
    return PYDDSI_OK;
}

static struct encoding begin(uint8_t *out, size_t room, size_t at, pyddsi_fault *fault)
{
    PDI_CHECK(at <= room);
    *fault = (pyddsi_fault){0};
    return (struct encoding){.out = {out + at, out + room}};
}

static int end(const struct encoding *encoding, const uint8_t *out, size_t *at, int status)
{
    if (status == PYDDSI_OK)
        *at = (size_t)(encoding->out.at - out);
    return status;
}

/* The header byte, with a short marker's id in its flags; 0, which no row has, if the id has no
 * short form. */
static unsigned header_of(const pyddsi_spec *spec, const pyddsi_message *message)
{
    unsigned flags = message->flags & PDI_FLAG_MASK;
    if (spec->field[0].type == PYDDSI_TYPE_MARKER && (flags & PYDDSI_Z)) {
        uint64_t id = spec->number == PYDDSI_CONDUIT ? message->conduit : message->space;
        if (id < 1 || id > 4)
            return 0;
        flags = PYDDSI_Z | (unsigned)(id - 1) << 5;
    }
    return flags | spec->number;
}

int pdi_encode_message(const pyddsi_message *message, uint8_t *out, size_t room, size_t *at,
                       pyddsi_fault *fault)
{
    struct encoding encoding = begin(out, room, *at, fault);
    if (message->kind >= PYDDSI_KIND_COUNT || pdi_messages[message->kind].name == NULL) {
        fault->rule = PYDDSI_RULE_KIND_UNKNOWN;
        return PYDDSI_BAD_INPUT;
    }
    const pyddsi_spec *spec = &pdi_messages[message->kind];
    unsigned header = header_of(spec, message);
    if (header == 0 || spec->part == 'R') {
        fault->rule = header == 0 ? PYDDSI_RULE_MARKER_FORM : PYDDSI_RULE_KIND_RESERVED;
        return PYDDSI_BAD_INPUT;
    }
    int status = pdi_byte_put(&encoding.out, (uint8_t)header);
    if (status == PYDDSI_OK)
        status = fields_put(&encoding, spec, header, message, fault);
    return end(&encoding, out, at, status);
}

int pdi_encode_locator(const pyddsi_locator *locator, uint8_t *out, size_t room, size_t *at,
                       pyddsi_fault *fault)
{
    struct encoding encoding = begin(out, room, *at, fault);
    const pyddsi_spec *spec = pdi_item_spec(PYDDSI_TYPE_LOCATORS);
    return end(&encoding, out, at, fields_put(&encoding, spec, 0, locator, fault));
}

int pdi_encode_property(const pyddsi_property *property, uint8_t *out, size_t room, size_t *at,
                        pyddsi_fault *fault)
{
    struct encoding encoding = begin(out, room, *at, fault);
    const pyddsi_spec *spec = pdi_item_spec(PYDDSI_TYPE_PROPERTIES);
    return end(&encoding, out, at, fields_put(&encoding, spec, 0, property, fault));
}

int pdi_encode_sample(const pyddsi_sample *sample, uint8_t flags, uint8_t *out, size_t room,
                      size_t *at, pyddsi_fault *fault)
{
    struct encoding encoding = begin(out, room, *at, fault);
    const pyddsi_spec *spec = pdi_item_spec(PYDDSI_TYPE_SAMPLES);
    return end(&encoding, out, at, fields_put(&encoding, spec, flags, sample, fault));
}

int pdi_encode_declaration(const pyddsi_declaration *declaration, uint8_t *out, size_t room,
                           size_t *at, pyddsi_fault *fault)
{
    struct encoding encoding = begin(out, room, *at, fault);
    unsigned kind = declaration->kind;
    if (kind >= PYDDSI_DECLARATION_COUNT || pdi_declarations[kind].name == NULL) {
        fault->rule = PYDDSI_RULE_DECLARATION_KIND;
        return PYDDSI_BAD_INPUT;
    }
    if (kind == PYDDSI_SUBSCRIPTION && (declaration->mode < 1 || declaration->mode > 5)) {
        *fault = (pyddsi_fault){PYDDSI_RULE_MODE, 1};
        return PYDDSI_BAD_INPUT;
    }
    unsigned header = (declaration->flags & PDI_FLAG_MASK) | kind;
    int status = pdi_byte_put(&encoding.out, (uint8_t)header);
    if (status == PYDDSI_OK)
        status = fields_put(&encoding, &pdi_declarations[kind], header, declaration, fault);
    return end(&encoding, out, at, status);
}
