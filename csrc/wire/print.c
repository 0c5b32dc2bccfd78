/* print.c - see print.h.
 *
 *     SDATA SR sn=0 rid=1 payload=3132 (2)
 *     DECLARE C sn=0 declarations=[SUBSCRIPTION id=1 mode=push]
 *
 * The name, the letters of the flags, then the fields in wire order. A selection's id is written
 * s3, a value with a name by that name, text in quotes with everything unprintable escaped, other
 * bytes in hex with their number behind.
 */
#include "wire/print.h"

#include "wire/list.h"
#include "wire/record.h"

struct text {
    char *out;
    size_t room;
    size_t size; /* of the whole line, also where room has ended */
};

static void put(struct text *text, char character)
{
    if (text->size + 1 < text->room)
        text->out[text->size] = character;
    text->size++;
}

static void put_text(struct text *text, const char *string)
{
    while (*string != 0)
        put(text, *string++);
}

static void put_number(struct text *text, uint64_t number)
{
    char digits[20];
    unsigned count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    while (count > 0)
        put(text, digits[--count]);
}

static void put_hex(struct text *text, uint8_t byte)
{
    put(text, "0123456789abcdef"[byte >> 4]);
    put(text, "0123456789abcdef"[byte & 15]);
}

static void put_quoted(struct text *text, const pyddsi_bytes *bytes)
{
    put(text, '"');
    for (size_t i = 0; i < bytes->size; i++) {
        uint8_t byte = bytes->data[i];
        if (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\') {
            put(text, (char)byte);
        } else {
            put_text(text, "\\x");
            put_hex(text, byte);
        }
    }
    put(text, '"');
}

static void put_bytes(struct text *text, const pyddsi_bytes *bytes, int counted)
{
    size_t shown = bytes->size < PDI_PRINT_BYTES_MAX ? bytes->size : PDI_PRINT_BYTES_MAX;
    for (size_t i = 0; i < shown; i++)
        put_hex(text, bytes->data[i]);
    if (shown < bytes->size)
        put_text(text, "..");
    if (!counted)
        return;
    put_text(text, shown == 0 ? "(" : " (");
    put_number(text, bytes->size);
    put(text, ')');
}

/* A number by its name if it has one; a number of bits by the names of the bits and the rest. */
static void put_value(struct text *text, const pyddsi_field *field, uint64_t value)
{
    int first = 1;
    for (unsigned i = 0; i < field->value_count; i++) {
        const pyddsi_value *known = &field->values[i];
        if (field->bits ? (value & known->value) == 0 : value != known->value)
            continue;
        if (!first)
            put(text, '+');
        first = 0;
        put_text(text, known->name);
        value &= field->bits ? ~known->value : 0;
        if (!field->bits)
            return;
    }
    if (value != 0 || first) {
        if (!first)
            put(text, '+');
        put_number(text, value);
    }
}

/* A field that is no list. */
static void put_plain(struct text *text, const pyddsi_field *field, const void *from)
{
    const void *place = (const char *)from + field->at;
    switch (field->type) {
    case PYDDSI_TYPE_RID:
    case PYDDSI_TYPE_SID:
    case PYDDSI_TYPE_ID:
    case PYDDSI_TYPE_ID_NONE: {
        uint64_t id = *(const uint64_t *)place;
        if (id & 1)
            put(text, 's');
        put_number(text, id >> 1);
        break;
    }
    case PYDDSI_TYPE_BYTES:
    case PYDDSI_TYPE_PEER_ID:
        put_bytes(text, place, field->type == PYDDSI_TYPE_BYTES);
        break;
    case PYDDSI_TYPE_TEXT:
        put_quoted(text, place);
        break;
    default:
        put_value(text, field, *(const uint64_t *)place);
    }
}

static void put_name(struct text *text, const char *name)
{
    put(text, ' ');
    put_text(text, name);
    put(text, '=');
}

static void put_flags(struct text *text, const pyddsi_spec *spec, unsigned flags)
{
    int any = 0;
    for (unsigned i = 0; i < 3; i++) {
        if ((flags & 0x20U << i) == 0 || spec->field[0].type == PYDDSI_TYPE_MARKER)
            continue;
        if (!any)
            put(text, ' ');
        any = 1;
        put(text, spec->flag[i].letter != 0 ? spec->flag[i].letter : (char)('x' + i));
    }
}

/* Locators, properties, samples: their fields without names, joined by a colon. */
static void put_items(struct text *text, const pyddsi_field *field, const void *from)
{
    const pyddsi_spec *spec = pdi_item_spec(field->type);
    pyddsi_list list = *(const pyddsi_list *)(const void *)((const char *)from + field->at);
    struct pdi_record record = {.reading = &pdi_reading_any};
    record.in.at = list.data;
    record.in.end = list.data + list.size;
    put(text, '[');
    for (size_t i = 0; i < list.count; i++) {
        union {
            pyddsi_locator locator;
            pyddsi_property property;
            pyddsi_sample sample;
        } item;
        if (pdi_item_read(&record, spec, list.flags, &item) != PYDDSI_OK)
            break;
        if (i > 0)
            put(text, ' ');
        for (unsigned k = 0, shown = 0; k < spec->field_count; k++) {
            if (spec->field[k].flag & ~(unsigned)list.flags)
                continue;
            if (shown++ > 0)
                put(text, ':');
            put_plain(text, &spec->field[k], &item);
        }
    }
    put(text, ']');
}

static void put_declaration(struct text *text, const pyddsi_declaration *declaration)
{
    const pyddsi_spec *spec = &pdi_declarations[declaration->kind];
    put_text(text, spec->name);
    put_flags(text, spec, declaration->flags);
    for (unsigned i = 0; i < spec->field_count; i++) {
        const pyddsi_field *field = &spec->field[i];
        if (!pdi_field_present(field, declaration->flags, declaration))
            continue;
        put_name(text, field->name);
        if (field->type > PYDDSI_TYPE_LISTS)
            put_items(text, field, declaration);
        else
            put_plain(text, field, declaration);
    }
}

static void put_declarations(struct text *text, pyddsi_list list)
{
    pyddsi_declaration declaration;
    put(text, '[');
    for (int first = 1; pdi_list_declaration(&list, &declaration) == PYDDSI_OK; first = 0) {
        if (!first)
            put_text(text, ", ");
        put_declaration(text, &declaration);
    }
    put(text, ']');
}

size_t pdi_print_message(const pyddsi_message *message, char *out, size_t room)
{
    struct text text = {out, room, 0};
    PDI_CHECK(message->kind < PYDDSI_KIND_COUNT);
    const pyddsi_spec *spec = &pdi_messages[message->kind];
    put_text(&text, spec->name);
    put_flags(&text, spec, message->flags);
    for (unsigned i = 0; i < spec->field_count; i++) {
        const pyddsi_field *field = &spec->field[i];
        if (field->flag & ~(unsigned)message->flags)
            continue;
        put_name(&text, field->name);
        if (field->type == PYDDSI_TYPE_DECLARATIONS)
            put_declarations(&text, message->declarations);
        else if (field->type > PYDDSI_TYPE_LISTS)
            put_items(&text, field, message);
        else
            put_plain(&text, field, message);
    }
    if (room > 0)
        out[text.size < room ? text.size : room - 1] = 0;
    return text.size;
}
