/* wire.c - the front door's functions of the wire room. Each is the room's own function under its public name. */
#include "pyddsi.h"

#include "proto/predicate.h"
#include "wire/columns.h"
#include "wire/decode.h"
#include "wire/encode.h"
#include "wire/list.h"
#include "wire/match.h"
#include "wire/name.h"
#include "wire/print.h"
#include "wire/rules.h"
#include "wire/stream.h"
#include "wire/table.h"

static const pyddsi_spec *row(const pyddsi_spec *table, unsigned count, unsigned number)
{
    return number < count && table[number].name != NULL ? &table[number] : NULL;
}

const pyddsi_spec *pyddsi_spec_message(unsigned kind)
{
    return row(pdi_messages, PYDDSI_KIND_COUNT, kind);
}

const pyddsi_spec *pyddsi_spec_declaration(unsigned kind)
{
    return row(pdi_declarations, PYDDSI_DECLARATION_COUNT, kind);
}

const pyddsi_spec *pyddsi_spec_item(unsigned type)
{
    int is_item = type >= PYDDSI_TYPE_LOCATORS && type < PYDDSI_TYPE_DECLARATIONS;
    return is_item ? pdi_item_spec(type) : NULL;
}

const char *pyddsi_rule_name(int rule)
{
    return pdi_rule_name(rule);
}

const char *pyddsi_rule_text(int rule)
{
    return pdi_rule_text(rule);
}

int pyddsi_rule_zhe(int rule, unsigned kind, int stream)
{
    return pdi_rule_zhe(rule, kind, stream);
}

int pyddsi_reading_init(pyddsi_reading *reading, const pyddsi_options *options)
{
    return pdi_reading_init(reading, options);
}

void pyddsi_decoder_init(pyddsi_decoder *decoder, const pyddsi_reading *reading,
                         const uint8_t *data, size_t size)
{
    pdi_decoder_init(decoder, reading, data, size);
}

int pyddsi_decoder_next(pyddsi_decoder *decoder, pyddsi_message *message)
{
    return pdi_decoder_next(decoder, message);
}

int pyddsi_list_locator(pyddsi_list *list, pyddsi_locator *locator)
{
    return pdi_list_locator(list, locator);
}

int pyddsi_list_property(pyddsi_list *list, pyddsi_property *property)
{
    return pdi_list_property(list, property);
}

int pyddsi_list_sample(pyddsi_list *list, pyddsi_sample *sample)
{
    return pdi_list_sample(list, sample);
}

int pyddsi_list_declaration(pyddsi_list *list, pyddsi_declaration *declaration)
{
    return pdi_list_declaration(list, declaration);
}

int pyddsi_encode_message(const pyddsi_message *message, uint8_t *out, size_t room, size_t *at,
                          pyddsi_fault *fault)
{
    return pdi_encode_message(message, out, room, at, fault);
}

int pyddsi_encode_locator(const pyddsi_locator *locator, uint8_t *out, size_t room, size_t *at,
                          pyddsi_fault *fault)
{
    return pdi_encode_locator(locator, out, room, at, fault);
}

int pyddsi_encode_property(const pyddsi_property *property, uint8_t *out, size_t room, size_t *at,
                           pyddsi_fault *fault)
{
    return pdi_encode_property(property, out, room, at, fault);
}

int pyddsi_encode_sample(const pyddsi_sample *sample, uint8_t flags, uint8_t *out, size_t room,
                         size_t *at, pyddsi_fault *fault)
{
    return pdi_encode_sample(sample, flags, out, room, at, fault);
}

int pyddsi_encode_declaration(const pyddsi_declaration *declaration, uint8_t *out, size_t room,
                              size_t *at, pyddsi_fault *fault)
{
    return pdi_encode_declaration(declaration, out, room, at, fault);
}

size_t pyddsi_print_message(const pyddsi_message *message, char *out, size_t room)
{
    return pdi_print_message(message, out, room);
}

void pyddsi_stream_init(pyddsi_stream *stream, const pyddsi_reading *reading, size_t packet_max)
{
    pdi_stream_init(stream, reading, packet_max);
}

int pyddsi_stream_next(pyddsi_stream *stream, const uint8_t *data, size_t size,
                       pyddsi_bytes *packet, size_t *used, size_t *need)
{
    return pdi_stream_next(stream, data, size, packet, used, need);
}

int pyddsi_stream_frame(size_t size, uint8_t *out, size_t room, size_t *at)
{
    return pdi_stream_frame(size, out, room, at);
}

int pyddsi_columns_packet(pyddsi_columns *columns, const pyddsi_reading *reading, uint32_t number,
                          const uint8_t *data, size_t size, pyddsi_fault *fault)
{
    return pdi_columns_packet(columns, reading, number, data, size, fault);
}

int pyddsi_name_check(const uint8_t *path, size_t size, size_t size_max, pyddsi_fault *fault)
{
    return pdi_name_check((pyddsi_bytes){path, size}, size_max, fault);
}

int pyddsi_predicate_check(const char *text, size_t size, pyddsi_fault *fault)
{
    struct pdi_predicate predicate;
    return pdi_predicate_init(&predicate, text, size, fault);
}

int pyddsi_name_parse(const char *text, size_t size, pyddsi_name *name, pyddsi_fault *fault)
{
    struct pdi_name parsed;
    int status = pdi_name_parse(text, size, &parsed, fault);
    if (status == PYDDSI_OK)
        *name = (pyddsi_name){parsed.path, parsed.predicate, (uint8_t)parsed.tags,
                              (uint8_t)parsed.meta, (uint8_t)parsed.wild};
    return status;
}

int pyddsi_name_canonical(const char *text, size_t size, char *out, size_t room, size_t *out_size,
                          pyddsi_fault *fault)
{
    return pdi_name_canonical(text, size, out, room, out_size, fault);
}

int pyddsi_name_wire(const char *text, size_t size, char *out, size_t room, size_t *out_size,
                     pyddsi_fault *fault)
{
    return pdi_name_wire(text, size, out, room, out_size, fault);
}

/* A path over the limit is no name, so nothing matches it. */
static int too_long(size_t one, size_t two)
{
    return one > PDI_NAME_MAX || two > PDI_NAME_MAX;
}

static pyddsi_bytes view(const char *text, size_t size)
{
    return (pyddsi_bytes){(const uint8_t *)text, size};
}

int pyddsi_match(const char *pattern, size_t pattern_size, const char *name, size_t name_size)
{
    return !too_long(pattern_size, name_size) &&
           pdi_match(view(pattern, pattern_size), view(name, name_size));
}

int pyddsi_intersect(const char *one, size_t one_size, const char *two, size_t two_size)
{
    return !too_long(one_size, two_size) && pdi_intersect(view(one, one_size), view(two, two_size));
}
