/* wire/encode.h: every row with every value at its limits goes there and back; what cannot be read is not written. */
#include "wire/encode.h"

#include "test.h"
#include "wire/decode.h"
#include "wire/list.h"
#include "wire/table.h"

#define GUARD 0xa5
enum { ROOM = 256 };

/* Values around the limits of every type of number. */
static const uint64_t values[] = {
    0,          1,
    2,          3,
    4,          5,
    127,        128,
    255,        256,
    16383,      16384,
    65535,      65536,
    UINT32_MAX, (uint64_t)UINT32_MAX + 1,
    INT64_MAX,  (uint64_t)INT64_MAX + 1,
    UINT64_MAX,
};

#define VALUES (sizeof(values) / sizeof(values[0]))

static uint64_t most(unsigned type)
{
    switch (type) {
    case PYDDSI_TYPE_BYTE:
        return 255;
    case PYDDSI_TYPE_NUMBER16:
    case PYDDSI_TYPE_HASH:
    case PYDDSI_TYPE_MARKER:
        return 65535;
    case PYDDSI_TYPE_NUMBER32:
        return UINT32_MAX;
    default:
        return UINT64_MAX;
    }
}

static void *place_of(void *record, const pyddsi_field *field)
{
    return (char *)record + field->at;
}

/* Gives every field of the row something small to say, each another. */
static void fill(const pyddsi_spec *spec, void *record)
{
    static const uint8_t text[] = "/abc";
    static const uint8_t no_items[1];
    for (unsigned i = 0; i < spec->field_count; i++) {
        const pyddsi_field *field = &spec->field[i];
        if (field->type > PYDDSI_TYPE_LISTS)
            *(pyddsi_list *)place_of(record, field) = (pyddsi_list){no_items, 0, 0, 0};
        else if (field->type > PYDDSI_TYPE_BYTE)
            *(pyddsi_bytes *)place_of(record, field) = (pyddsi_bytes){text, 1 + i % 4};
        else
            *(uint64_t *)place_of(record, field) = 2 * i + 2;
    }
}

static int same(const pyddsi_spec *spec, unsigned flags, void *one, void *two)
{
    for (unsigned i = 0; i < spec->field_count; i++) {
        const pyddsi_field *field = &spec->field[i];
        const void *a = place_of(one, field), *b = place_of(two, field);
        if (field->flag & ~flags)
            continue;
        if (field->type > PYDDSI_TYPE_LISTS) {
            if (((const pyddsi_list *)a)->count != ((const pyddsi_list *)b)->count)
                return 0;
        } else if (field->type > PYDDSI_TYPE_BYTE) {
            const pyddsi_bytes *x = a, *y = b;
            if (x->size != y->size || memcmp(x->data, y->data, x->size) != 0)
                return 0;
        } else if (*(const uint64_t *)a != *(const uint64_t *)b) {
            return 0;
        }
    }
    return 1;
}

/* Writes a message with every room there can be, and reads it again. */
static void there_and_back(pyddsi_message *message)
{
    const pyddsi_spec *spec = &pdi_messages[message->kind];
    pyddsi_options options = {0};
    pyddsi_reading reading;
    pyddsi_decoder decoder;
    pyddsi_message again;
    pyddsi_fault fault;
    uint8_t out[ROOM], less[ROOM];
    size_t size = 0;
    CHECK_EQ(pdi_encode_message(message, out, sizeof(out), &size, &fault), PYDDSI_OK);
    CHECK_EQ(pdi_reading_init(&reading, &options), PYDDSI_OK);
    pdi_decoder_init(&decoder, &reading, out, size);
    CHECK_EQ(pdi_decoder_next(&decoder, &again), PYDDSI_OK);
    CHECK_EQ(decoder.at, size);
    CHECK_EQ(again.kind, message->kind);
    if (spec->field[0].type != PYDDSI_TYPE_MARKER || (message->flags & PYDDSI_Z) == 0)
        CHECK_EQ(again.flags, message->flags);
    CHECK(same(spec, message->flags, message, &again));
    for (size_t room = 0; room < size; room++) {
        size_t at = 0;
        memset(less, GUARD, sizeof(less));
        CHECK_EQ(pdi_encode_message(message, less, room, &at, &fault), PYDDSI_NO_SPACE);
        CHECK(at == 0 && less[room] == GUARD);
    }
}

/* If it failed, some message would not come back as it was written, or be written outside its room. */
static void test_messages(void)
{
    for (unsigned kind = 0; kind < PYDDSI_KIND_COUNT; kind++) {
        const pyddsi_spec *spec = &pdi_messages[kind];
        if (spec->name == NULL || spec->part == 'R')
            continue;
        for (unsigned flags = 0; flags < 256; flags += 0x20) {
            pyddsi_message message = {.kind = (uint8_t)kind, .flags = (uint8_t)flags};
            fill(spec, &message);
            there_and_back(&message);
        }
    }
}

/* If it failed, a number at its limit would be refused, or one over it be cut to what fits. */
static void test_numbers(void)
{
    for (unsigned kind = 0; kind < PYDDSI_KIND_COUNT; kind++) {
        const pyddsi_spec *spec = &pdi_messages[kind];
        for (unsigned i = 0; i < spec->field_count; i++) {
            const pyddsi_field *field = &spec->field[i];
            for (size_t v = 0; v < VALUES && field->type <= PYDDSI_TYPE_BYTE; v++) {
                pyddsi_message message = {.kind = (uint8_t)kind, .flags = field->flag};
                fill(spec, &message);
                *(uint64_t *)place_of(&message, field) = values[v];
                if (values[v] <= most(field->type)) {
                    there_and_back(&message);
                    continue;
                }
                uint8_t out[ROOM] = {GUARD};
                size_t at = 1;
                pyddsi_fault fault;
                CHECK_EQ(pdi_encode_message(&message, out, sizeof(out), &at, &fault),
                         PYDDSI_BAD_INPUT);
                CHECK(at == 1 && fault.at == i && out[0] == GUARD);
                CHECK_EQ(fault.rule, PYDDSI_RULE_NUMBER_WIDE);
            }
        }
    }
}

/* If it failed, a marker would be written for another conduit or space than the one asked for. */
static void test_markers(void)
{
    static const uint8_t kinds[] = {PYDDSI_CONDUIT, PYDDSI_RSPACE};
    for (size_t k = 0; k < 2; k++) {
        for (size_t v = 0; v < VALUES; v++) {
            pyddsi_message message = {.kind = kinds[k],
                                      .flags = PYDDSI_Z | PYDDSI_FLAG_20, /* the 20 is the id's */
                                      .conduit = values[v],
                                      .space = values[v]};
            uint8_t out[ROOM];
            size_t at = 0;
            pyddsi_fault fault;
            int status = pdi_encode_message(&message, out, sizeof(out), &at, &fault);
            int short_form = values[v] >= 1 && values[v] <= 4;
            CHECK_EQ(status, short_form ? PYDDSI_OK : PYDDSI_BAD_INPUT);
            CHECK_EQ(at, short_form);
            if (short_form)
                CHECK_EQ(out[0], 0x80U | (unsigned)(values[v] - 1) << 5 | kinds[k]);
            else
                CHECK_EQ(fault.rule, PYDDSI_RULE_MARKER_FORM);
        }
    }
}

/* If it failed, what nobody can read would be written. */
static void test_no_body(void)
{
    for (unsigned kind = 0; kind < 256; kind++) {
        int reserved = kind < PYDDSI_KIND_COUNT && pdi_messages[kind].part == 'R';
        if (kind < PYDDSI_KIND_COUNT && pdi_messages[kind].name != NULL && !reserved)
            continue;
        pyddsi_message message = {.kind = (uint8_t)kind};
        uint8_t out[ROOM];
        size_t at = 0;
        pyddsi_fault fault;
        CHECK_EQ(pdi_encode_message(&message, out, sizeof(out), &at, &fault), PYDDSI_BAD_INPUT);
        CHECK_EQ(fault.rule, reserved ? PYDDSI_RULE_KIND_RESERVED : PYDDSI_RULE_KIND_UNKNOWN);
        CHECK_EQ(at, 0);
    }
    for (unsigned kind = 0; kind < 256; kind++) {
        if (kind >= PYDDSI_RESOURCE && kind <= PYDDSI_FORGET_SELECTION)
            continue;
        pyddsi_declaration declaration = {.kind = (uint8_t)kind};
        uint8_t out[ROOM];
        size_t at = 0;
        pyddsi_fault fault;
        CHECK_EQ(pdi_encode_declaration(&declaration, out, sizeof(out), &at, &fault),
                 PYDDSI_BAD_INPUT);
        CHECK_EQ(fault.rule, PYDDSI_RULE_DECLARATION_KIND);
        CHECK_EQ(at, 0);
    }
}

/* If it failed, vectors and lists would be cut to what their length can say. */
static void test_lengths(void)
{
    static uint8_t large[65536], out[70000];
    pyddsi_fault fault;
    for (size_t size = 65535; size <= 65536; size++) {
        size_t at = 0;
        pyddsi_message data = {.kind = PYDDSI_SDATA, .rid = 2, .payload = {large, size}};
        int status = pdi_encode_message(&data, out, sizeof(out), &at, &fault);
        CHECK_EQ(status, size == 65535 ? PYDDSI_OK : PYDDSI_BAD_INPUT);
        CHECK(size == 65535 ? at == 3 + 3 + size
                            : fault.rule == PYDDSI_RULE_LENGTH_WIDE && fault.at == 3);
        at = 0;
        pyddsi_message hello = {.kind = PYDDSI_HELLO, .locators = {large, size, size, 0}};
        status = pdi_encode_message(&hello, out, sizeof(out), &at, &fault);
        CHECK_EQ(status, size == 65535 ? PYDDSI_OK : PYDDSI_BAD_INPUT);
        CHECK(size == 65535 || (fault.rule == PYDDSI_RULE_LENGTH_WIDE && fault.at == 1));
        at = 0;
        pyddsi_property property = {.id = 1, .value = {large, size}};
        status = pdi_encode_property(&property, out, sizeof(out), &at, &fault);
        CHECK_EQ(status, size == 65535 ? PYDDSI_OK : PYDDSI_BAD_INPUT);
    }
}

/* If it failed, a declaration would not come back, or the fields hang on another mode or status. */
static void test_declarations(void)
{
    for (unsigned kind = PYDDSI_RESOURCE; kind <= PYDDSI_FORGET_SELECTION; kind++) {
        for (unsigned flags = 0; flags < 256; flags += 0x20) {
            for (unsigned choice = 0; choice <= 6; choice++) {
                pyddsi_declaration declaration = {.kind = (uint8_t)kind, .flags = (uint8_t)flags};
                const pyddsi_spec *spec = &pdi_declarations[kind];
                uint8_t out[ROOM];
                size_t at = 0;
                pyddsi_fault fault;
                fill(spec, &declaration);
                declaration.mode = choice;
                declaration.status = choice;
                int status = pdi_encode_declaration(&declaration, out, sizeof(out), &at, &fault);
                if (kind == PYDDSI_SUBSCRIPTION && (choice == 0 || choice == 6)) {
                    CHECK(status == PYDDSI_BAD_INPUT && fault.rule == PYDDSI_RULE_MODE);
                    CHECK(at == 0 && fault.at == 1);
                    continue;
                }
                CHECK_EQ(status, PYDDSI_OK);
                pyddsi_list list = {out, at, 1, 0};
                pyddsi_declaration again;
                CHECK_EQ(pdi_list_declaration(&list, &again), PYDDSI_OK);
                CHECK_EQ(list.size, 0);
                CHECK_EQ(again.flags, flags);
                int periodic = kind == PYDDSI_SUBSCRIPTION && (choice == 3 || choice == 4);
                int ok = kind == PYDDSI_RESULT && choice == 0;
                CHECK_EQ(again.period, periodic ? declaration.period : 0);
                CHECK_EQ(again.id, ok || kind == PYDDSI_COMMIT ? 0 : declaration.id);
            }
        }
    }
}

/* If it failed, an item of a list would be written as another. */
static void test_items(void)
{
    static const uint8_t text[] = "abc";
    uint8_t out[ROOM];
    size_t at = 0;
    pyddsi_fault fault;
    pyddsi_locator locator = {{text, 3}};
    pyddsi_property property = {300, {text, 2}};
    pyddsi_sample sample = {6, {text, 1}};
    CHECK_EQ(pdi_encode_locator(&locator, out, sizeof(out), &at, &fault), PYDDSI_OK);
    CHECK_EQ(pdi_encode_property(&property, out, sizeof(out), &at, &fault), PYDDSI_OK);
    CHECK_EQ(pdi_encode_sample(&sample, PYDDSI_A, out, sizeof(out), &at, &fault), PYDDSI_OK);
    CHECK_EQ(pdi_encode_sample(&sample, 0, out, sizeof(out), &at, &fault), PYDDSI_OK);
    CHECK_EQ(at, 14);
    CHECK(memcmp(out, "\3abc\xac\2\2ab\6\1a\1a", 14) == 0);
    for (size_t room = 14; room < 18; room++) {
        at = 14;
        CHECK_EQ(pdi_encode_locator(&locator, out, room, &at, &fault), PYDDSI_NO_SPACE);
        CHECK_EQ(at, 14);
    }
}

int main(void)
{
    test_messages();
    test_numbers();
    test_markers();
    test_no_body();
    test_lengths();
    test_declarations();
    test_items();
    return test_result();
}
