/* wire/decode.h, wire/list.h and wire/columns.h: what is in force for a message, what readings differ in, and that no
 * byte outside a packet is touched, whatever happened to it. */
#include "wire/decode.h"

#include <stdlib.h>

#include "test.h"
#include "wire/columns.h"
#include "wire/list.h"
#include "wire/rules.h"
#include "wire/table.h"

enum { ROWS = 64 };

/* A message of every kind, with every field that it can have, and every marker. */
static const uint8_t all_kinds[] = {
    0x21, 0x05, 0x01, 0x0c, 0x02, 0x02, 0x03,                         /* SCOUT */
    0x22, 0x04, 0x02, 0x01, 'a',  0x00, 0x00,                         /* HELLO */
    0x23, 0x01, 0x01, 0xaa, 0xb2, 0x01, 0x01, 0x01, 'x',  0x01, 0x04, /* OPEN */
    0x01, 0x0e,                                                       /* its property 4 */
    0x24, 0x01, 0xaa, 0x02, 0xbb, 0xbb, 0x32, 0x00,                   /* ACCEPT */
    0x05, 0x01, 0xaa, 0xff,                                           /* CLOSE */
    0xb3,                                                             /* CONDUIT 2 */
    0x66, 0x81, 0x01, 0x0d,                                           /* DECLARE */
    0x21, 0x02, 0x02, '/',  'a',  0x01, 0x0a, 0x00,                   /* RESOURCE */
    0x22, 0x04, 0x00,                                                 /* PUBLICATION */
    0x03, 0x02, 0x01,                                                 /* SUBSCRIPTION, push */
    0x23, 0x03, 0x03, 0x80, 0x01, 0x05, 0x04, 0x00,                   /* and periodic */
    0xa4, 0x03, 0x02, '/',  'q',  0x00,                               /* SELECTION */
    0x85, 0x03, 0x02,                                                 /* BINDING */
    0x07, 0x09, 0x02, 0x04, 0x08, 0x02, 0x09, 0x04, 0x0a, 0x03,       /* RESULT, FORGET.. */
    0x0b, 0x03, 0x07, 0x00, 0x00, 0x06, 0x09,                         /* RESULT, COMMIT */
    0x52, 0x82, 0x01, 0x03,                                           /* FRAG of 3 */
    0x98,                                                             /* RSPACE 1 */
    0xe7, 0x03, 0x03, 0x04, 0x02, 'h',  'i',                          /* SDATA */
    0xc8, 0x04, 0x02, 0x02, 0x04, 0x01, 'a',  0x06, 0x00,             /* BDATA */
    0x69, 0x05, 0x02, '/',  'n',  0x01, 'x',                          /* WDATA */
    0xeb, 0x06, 0x02, 0x80, 0x02,                                     /* PULL */
    0x0c, 0xff, 0xff, 0x03,                                           /* PING */
    0x0d, 0x01,                                                       /* PONG */
    0xee, 0x07, 0x01,                                                 /* SYNCH */
    0x2f, 0x07, 0xff, 0xff, 0xff, 0xff, 0x07,                         /* ACKNACK */
    0x10, 0x01, 0xaa,                                                 /* KEEPALIVE */
    0x11, 0x05,                                                       /* CONDUIT CLOSE */
    0x13, 0x80, 0x02,                                                 /* CONDUIT 256 */
    0x34, 0x02, 0x02, 0x07, 0x08,                                     /* MIGRATE */
};

static const uint8_t all_order[] = {1, 2,  3,  4,  5,  19, 6,  18, 24, 7, 8,
                                    9, 11, 12, 13, 14, 15, 16, 17, 19, 20};

static pyddsi_reading reading_of(pyddsi_options options)
{
    pyddsi_reading reading;
    CHECK_EQ(pdi_reading_init(&reading, &options), PYDDSI_OK);
    return reading;
}

/* Walks a packet that lies alone in its memory, so that a sanitizer sees every byte read outside. */
static int walk(const pyddsi_reading *reading, const uint8_t *data, size_t size, size_t *count,
                pyddsi_fault *fault)
{
    uint8_t *alone = malloc(size > 0 ? size : 1);
    pyddsi_decoder decoder;
    pyddsi_message message;
    int status;
    memcpy(alone, data, size);
    pdi_decoder_init(&decoder, reading, size > 0 ? alone : NULL, size);
    for (*count = 0; (status = pdi_decoder_next(&decoder, &message)) == PYDDSI_OK; ++*count) {
        CHECK(message.at + message.size == decoder.at && decoder.at <= size);
        if (message.kind == PYDDSI_DECLARE) {
            pyddsi_declaration declaration;
            size_t declared = 0;
            while (pdi_list_declaration(&message.declarations, &declaration) == PYDDSI_OK)
                declared++;
            CHECK(message.declarations.size == 0 && declared <= size);
        }
    }
    size_t at = decoder.at;
    pyddsi_fault first = decoder.fault;
    CHECK_EQ(pdi_decoder_next(&decoder, &message), status); /* and so for ever */
    CHECK(decoder.at == at && decoder.fault.at == first.at && decoder.fault.rule == first.rule);
    *fault = first;
    CHECK((status == PYDDSI_END) == (first.rule == PYDDSI_RULE_NONE));
    CHECK((status == PYDDSI_SHORT) == (first.rule == PYDDSI_RULE_CUT));
    CHECK(first.at <= size);
    free(alone);
    return status;
}

/* If it failed, some kind would not be read to its last byte, or be read as another. */
static void test_all_kinds(void)
{
    for (uint8_t strictness = PYDDSI_TOLERANT; strictness <= PYDDSI_STRICT; strictness++) {
        pyddsi_reading reading = reading_of((pyddsi_options){.strictness = strictness});
        pyddsi_decoder decoder;
        pyddsi_message message;
        size_t count = 0;
        pdi_decoder_init(&decoder, &reading, all_kinds, sizeof(all_kinds));
        while (pdi_decoder_next(&decoder, &message) == PYDDSI_OK)
            CHECK_EQ(message.kind, all_order[count++]);
        CHECK_EQ(count, sizeof(all_order));
        CHECK_EQ(decoder.at, sizeof(all_kinds));
    }
}

/* If it failed, a marker would last for too long or too short a time. */
static void test_markers(void)
{
    static const uint8_t packet[] = {
        0x0e, 0x00,                   /* conduit 0 */
        0x93, 0x52, 0x09, 0x03, 0xf8, /* conduit 1, a fragment of 3 from 9 on, space 4 */
        0x07, 0x09, 0x02, 0x00,       /* for this message */
        0x0f, 0x01,                   /* conduit 1 is left */
        0x12, 0x0a, 0x07, 0x0a, 0x02, 0x00, 0x13, 0x00, 0x0e, 0x00,
    };
    static const struct {
        uint8_t kind, fragment;
        uint64_t conduit, space, first, fragments;
    } wanted[] = {
        {PYDDSI_SYNCH, 0, 0, 0, 0, 0},   {PYDDSI_CONDUIT, 0, 1, 0, 0, 0},
        {PYDDSI_FRAG, 0, 1, 0, 9, 3},    {PYDDSI_RSPACE, 1, 1, 4, 9, 3},
        {PYDDSI_SDATA, 1, 1, 4, 9, 3},   {PYDDSI_ACKNACK, 0, 1, 0, 0, 0},
        {PYDDSI_FRAG, 0, 1, 0, 10, 0},   {PYDDSI_SDATA, 1, 1, 0, 10, 0},
        {PYDDSI_CONDUIT, 0, 0, 0, 0, 0}, {PYDDSI_SYNCH, 0, 0, 0, 0, 0},
    };
    pyddsi_reading reading = reading_of((pyddsi_options){0});
    pyddsi_decoder decoder;
    pyddsi_message message;
    pdi_decoder_init(&decoder, &reading, packet, sizeof(packet));
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        memset(&message, 0xa5, sizeof(message));
        CHECK_EQ(pdi_decoder_next(&decoder, &message), PYDDSI_OK);
        CHECK_EQ(message.kind, wanted[i].kind);
        CHECK_EQ(message.fragment, wanted[i].fragment);
        CHECK_EQ(message.conduit, wanted[i].conduit);
        CHECK_EQ(message.space, wanted[i].space);
        if (wanted[i].fragment || wanted[i].kind == PYDDSI_FRAG) {
            CHECK_EQ(message.first, wanted[i].first);
            CHECK_EQ(message.fragments, wanted[i].fragments);
        }
    }
    CHECK_EQ(pdi_decoder_next(&decoder, &message), PYDDSI_END);
}

/* If it failed, a field whose flag is clear would keep what the message before it had. */
static void test_absent_fields(void)
{
    static const uint8_t packet[] = {0x07, 0x00, 0x02, 0x00, 0x0e, 0x00, 0x0f, 0x00, 0x01, 0x05,
                                     0x0b, 0x00, 0x02, 0x14, 0x01, 0x02, 0x03, 0x12, 0x00};
    pyddsi_reading reading = reading_of((pyddsi_options){0});
    pyddsi_decoder decoder;
    pyddsi_message message;
    memset(&message, 0xa5, sizeof(message));
    pdi_decoder_init(&decoder, &reading, packet, sizeof(packet));
    CHECK_EQ(pdi_decoder_next(&decoder, &message), PYDDSI_OK);
    CHECK(message.data_rid == 0 && message.payload.size == 0);
    CHECK_EQ(pdi_decoder_next(&decoder, &message), PYDDSI_OK);
    CHECK_EQ(message.count, 0);
    CHECK_EQ(pdi_decoder_next(&decoder, &message), PYDDSI_OK);
    CHECK_EQ(message.mask, 0);
    CHECK_EQ(pdi_decoder_next(&decoder, &message), PYDDSI_OK);
    CHECK(message.properties.count == 0 && message.properties.size == 0);
    CHECK_EQ(pdi_decoder_next(&decoder, &message), PYDDSI_OK);
    CHECK_EQ(message.limit, 0);
    message.rid = 77;
    CHECK_EQ(pdi_decoder_next(&decoder, &message), PYDDSI_OK);
    CHECK(message.rid == 0 && message.left == 1 && message.last_unreliable == 3);
    CHECK_EQ(pdi_decoder_next(&decoder, &message), PYDDSI_OK);
    CHECK_EQ(message.fragments, 0);
}

/* If it failed, the items of a list would come out as others than were written, or too many. */
static void test_lists(void)
{
    pyddsi_reading reading = reading_of((pyddsi_options){0});
    pyddsi_decoder decoder;
    pyddsi_message message;
    pyddsi_property property;
    pyddsi_sample sample;
    pyddsi_locator locator;
    pyddsi_declaration declaration;
    pdi_decoder_init(&decoder, &reading, all_kinds, sizeof(all_kinds));
    size_t declared[PYDDSI_DECLARATION_COUNT] = {0};
    while (pdi_decoder_next(&decoder, &message) == PYDDSI_OK) {
        if (message.kind == PYDDSI_SCOUT) {
            CHECK_EQ(pdi_list_property(&message.properties, &property), PYDDSI_OK);
            CHECK(property.id == 12 && property.value.size == 2 && property.value.data[1] == 3);
            CHECK_EQ(pdi_list_property(&message.properties, &property), PYDDSI_END);
            CHECK_EQ(pdi_list_property(&message.properties, &property), PYDDSI_END);
        } else if (message.kind == PYDDSI_HELLO) {
            CHECK_EQ(pdi_list_locator(&message.locators, &locator), PYDDSI_OK);
            CHECK(locator.text.size == 1 && locator.text.data[0] == 'a');
            CHECK_EQ(pdi_list_locator(&message.locators, &locator), PYDDSI_OK);
            CHECK_EQ(locator.text.size, 0);
            CHECK_EQ(pdi_list_locator(&message.locators, &locator), PYDDSI_END);
            CHECK_EQ(pdi_list_property(&message.properties, &property), PYDDSI_END);
        } else if (message.kind == PYDDSI_BDATA) {
            CHECK_EQ(pdi_list_sample(&message.samples, &sample), PYDDSI_OK);
            CHECK(sample.rid == 4 && sample.payload.size == 1);
            CHECK_EQ(pdi_list_sample(&message.samples, &sample), PYDDSI_OK);
            CHECK(sample.rid == 6 && sample.payload.size == 0);
            CHECK_EQ(pdi_list_sample(&message.samples, &sample), PYDDSI_END);
        } else if (message.kind == PYDDSI_DECLARE) {
            while (pdi_list_declaration(&message.declarations, &declaration) == PYDDSI_OK) {
                declared[declaration.kind]++;
                if (declaration.kind == PYDDSI_SUBSCRIPTION && declaration.mode == 3)
                    CHECK(declaration.origin == 128 && declaration.period == 5 &&
                          declaration.duration == 4);
                if (declaration.kind == PYDDSI_SUBSCRIPTION && declaration.mode == 1)
                    CHECK(declaration.origin == 0 && declaration.properties.count == 0);
                if (declaration.kind == PYDDSI_RESULT)
                    CHECK_EQ(declaration.id, declaration.status == 0 ? 0 : 4);
            }
            CHECK_EQ(message.declarations.size, 0);
        }
    }
    for (unsigned kind = PYDDSI_RESOURCE; kind <= PYDDSI_FORGET_SELECTION; kind++)
        CHECK_EQ(declared[kind], kind == PYDDSI_SUBSCRIPTION || kind == PYDDSI_RESULT ? 2 : 1);
}

/* If it failed, a batch without ids would be read with them, or the other way. */
static void test_batches(void)
{
    static const uint8_t packet[] = {0x08, 0x00, 0x02, 0x02, 0x01, 'a', 0x00};
    pyddsi_reading reading = reading_of((pyddsi_options){0});
    pyddsi_decoder decoder;
    pyddsi_message message;
    pyddsi_sample sample;
    pdi_decoder_init(&decoder, &reading, packet, sizeof(packet));
    CHECK_EQ(pdi_decoder_next(&decoder, &message), PYDDSI_OK);
    CHECK_EQ(pdi_list_sample(&message.samples, &sample), PYDDSI_OK);
    CHECK(sample.rid == 0 && sample.payload.size == 1 && sample.payload.data[0] == 'a');
    CHECK_EQ(pdi_list_sample(&message.samples, &sample), PYDDSI_OK);
    CHECK_EQ(pdi_list_sample(&message.samples, &sample), PYDDSI_END);
}

/* If it failed, a packet that was cut or damaged anywhere would be read outside its bytes, give
 * more than was whole, or have a fault without a rule. */
static void test_damage(void)
{
    uint8_t packet[sizeof(all_kinds)];
    for (uint8_t strictness = 0; strictness < 3; strictness++) {
        pyddsi_reading reading =
            reading_of((pyddsi_options){.strictness = strictness, .conduits = 3});
        size_t count = 0, before = 0;
        pyddsi_fault fault;
        for (size_t cut = 0; cut <= sizeof(all_kinds); cut++) {
            int status = walk(&reading, all_kinds, cut, &count, &fault);
            CHECK(count >= before && count <= before + 1);
            CHECK(strictness != PYDDSI_TOLERANT || status != PYDDSI_BAD_INPUT);
            before = count;
        }
        for (size_t bit = 0; bit < 8 * sizeof(all_kinds); bit++) {
            memcpy(packet, all_kinds, sizeof(packet));
            packet[bit / 8] ^= (uint8_t)(1U << bit % 8);
            walk(&reading, packet, sizeof(packet), &count, &fault);
            CHECK(fault.rule < PYDDSI_RULE_COUNT);
        }
        for (unsigned byte = 0; byte < 256; byte++) {
            for (size_t at = 0; at < sizeof(all_kinds); at++) {
                memcpy(packet, all_kinds, sizeof(packet));
                packet[at] = (uint8_t)byte;
                walk(&reading, packet, sizeof(packet), &count, &fault);
            }
        }
    }
}

/* If it failed, a list would be believed that announces more items than the packet has bytes. */
static void test_lying_lists(void)
{
    static const uint8_t packets[][8] = {
        {0x02, 0x04, 0xff, 0xff, 0x03, 0x00, 0x00, 0x00}, /* 65535 locators */
        {0x06, 0x00, 0xff, 0xff, 0x03, 0x06, 0x00, 0x06}, /* declarations */
        {0x08, 0x00, 0x02, 0xff, 0xff, 0x03, 0x00, 0x00}, /* samples */
        {0x21, 0x00, 0xff, 0xff, 0x03, 0x00, 0x00, 0x00}, /* properties */
        {0x07, 0x00, 0x02, 0xff, 0xff, 0x03, 0x00, 0x00}, /* a payload */
    };
    pyddsi_reading reading = reading_of((pyddsi_options){0});
    for (size_t i = 0; i < sizeof(packets) / sizeof(packets[0]); i++) {
        size_t count;
        pyddsi_fault fault;
        CHECK_EQ(walk(&reading, packets[i], 8, &count, &fault), PYDDSI_SHORT);
        CHECK_EQ(count, 0);
    }
}

/* If it failed, limits that no peer has would be taken for some others. */
static void test_options(void)
{
    pyddsi_reading reading;
    for (unsigned bits = 0; bits < 256; bits++) {
        pyddsi_options options = {.seq_bits = (uint8_t)bits};
        int fits = bits == 0 || (bits >= 7 && bits <= 56);
        CHECK_EQ(pdi_reading_init(&reading, &options), fits ? PYDDSI_OK : PYDDSI_BAD_ARGUMENT);
        options = (pyddsi_options){.rid_bits = (uint8_t)bits};
        fits = bits == 0 || bits == 8 || bits == 16 || bits == 32 || bits == 64;
        CHECK_EQ(pdi_reading_init(&reading, &options), fits ? PYDDSI_OK : PYDDSI_BAD_ARGUMENT);
        options = (pyddsi_options){.strictness = (uint8_t)bits};
        CHECK_EQ(pdi_reading_init(&reading, &options), bits < 3 ? PYDDSI_OK : PYDDSI_BAD_ARGUMENT);
    }
    reading = reading_of((pyddsi_options){.strictness = PYDDSI_ZHE});
    CHECK_EQ(reading.options.seq_bits, 14);
    CHECK_EQ(reading.max[PYDDSI_TYPE_SN], 16383);
    CHECK_EQ(reading.bytes[PYDDSI_TYPE_SN], 3);
    CHECK_EQ(reading.max[PYDDSI_TYPE_ID], UINT32_MAX);
    CHECK_EQ(reading.options.base_only, 1);
}

static pyddsi_columns columns_of(size_t capacity)
{
    static uint32_t words[5][ROWS];
    static uint64_t longs[2][ROWS];
    static uint16_t shorts[ROWS];
    static uint8_t bytes[2][ROWS];
    return (pyddsi_columns){
        .capacity = capacity,
        .packet = words[0],
        .at = words[1],
        .size = words[2],
        .payload_at = words[3],
        .payload_size = words[4],
        .sn = longs[0],
        .rid = longs[1],
        .conduit = shorts,
        .kind = bytes[0],
        .flags = bytes[1],
    };
}

/* If it failed, a packet would be half in the columns, or rows be written behind their end. */
static void test_columns_space(void)
{
    pyddsi_reading reading = reading_of((pyddsi_options){0});
    pyddsi_fault fault;
    for (size_t capacity = 0; capacity <= 2 * sizeof(all_order) + 1; capacity++) {
        pyddsi_columns columns = columns_of(capacity);
        size_t whole = capacity / sizeof(all_order);
        for (uint32_t i = 0; i < 3; i++) {
            int status =
                pdi_columns_packet(&columns, &reading, i, all_kinds, sizeof(all_kinds), &fault);
            CHECK_EQ(status, i < whole ? PYDDSI_OK : PYDDSI_NO_SPACE);
            CHECK_EQ(columns.count, (i < whole ? i + 1 : whole) * sizeof(all_order));
        }
        for (size_t i = 0; i < columns.count; i++) {
            CHECK_EQ(columns.packet[i], i / sizeof(all_order));
            CHECK_EQ(columns.kind[i], all_order[i % sizeof(all_order)]);
        }
    }
}

/* If it failed, the messages before a fault would be lost, or the fault be another than a decoder's. */
static void test_columns_faults(void)
{
    static const uint8_t packet[] = {0x0e, 0x00, 0x07, 0x05, 0x02, 0x01, 'x', 0x0e};
    pyddsi_reading reading = reading_of((pyddsi_options){0});
    pyddsi_fault fault;
    pyddsi_columns columns = columns_of(ROWS);
    CHECK_EQ(pdi_columns_packet(&columns, &reading, 9, packet, sizeof(packet), &fault),
             PYDDSI_SHORT);
    CHECK(fault.rule == PYDDSI_RULE_CUT && fault.at == 8);
    CHECK_EQ(columns.count, 2);
    CHECK(columns.sn[1] == 5 && columns.rid[1] == 2 && columns.payload_at[1] == 6);
    CHECK(columns.payload_size[1] == 1 && columns.rid[0] == 0 && columns.payload_size[0] == 0);
    CHECK_EQ(pdi_columns_packet(&columns, &reading, 10, (const uint8_t *)"\0", 1, &fault),
             PYDDSI_BAD_INPUT);
    CHECK(fault.rule == PYDDSI_RULE_KIND_UNKNOWN && fault.at == 0 && columns.count == 2);
}

int main(void)
{
    test_all_kinds();
    test_markers();
    test_absent_fields();
    test_lists();
    test_batches();
    test_damage();
    test_lying_lists();
    test_options();
    test_columns_space();
    test_columns_faults();
    return test_result();
}
