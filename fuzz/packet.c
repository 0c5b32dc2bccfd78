/* packet.c - any bytes as a packet, under any reading.
 *
 * The first byte chooses the options, the second a place to cut, the rest is the packet. What must hold:
 *
 *   - every view lies inside the packet, every message takes a byte at least, and nothing is read twice differently;
 *   - what the strict reading takes, the tolerant one takes, and it is written again byte for byte;
 *   - what the tolerant reading takes can be written, and reads the same again;
 *   - a packet that is cut gives the messages before the cut and then SHORT, never a fault of its own;
 *   - columns and lists hold as many rows and items as the messages say.
 */
#include <stdlib.h>

#include "pyddsi.h"

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

enum { MESSAGES_MAX = 4096, LINE_MAX_BYTES = 1 << 16, PACKET_MAX = 1 << 14 };

static void check_inside(const pyddsi_list *list, const uint8_t *data, size_t size)
{
    MUST(list->size == 0 || (list->data >= data && list->data + list->size <= data + size));
}

/* Walks the lists of a message; the items that come out are as many as were announced. */
static void check_lists(const pyddsi_message *message, const uint8_t *data, size_t size)
{
    pyddsi_list list;
    size_t count = 0;
    if (message->kind == PYDDSI_OPEN || message->kind == PYDDSI_HELLO) {
        pyddsi_locator locator;
        check_inside(&message->locators, data, size);
        for (list = message->locators; pyddsi_list_locator(&list, &locator) == PYDDSI_OK;)
            count++;
        MUST(count == message->locators.count && list.size == 0);
    } else if (message->kind == PYDDSI_BDATA) {
        pyddsi_sample sample;
        check_inside(&message->samples, data, size);
        for (list = message->samples; pyddsi_list_sample(&list, &sample) == PYDDSI_OK;)
            count++;
        MUST(count == message->samples.count && list.size == 0);
    } else if (message->kind == PYDDSI_DECLARE) {
        pyddsi_declaration declaration;
        check_inside(&message->declarations, data, size);
        for (list = message->declarations;
             pyddsi_list_declaration(&list, &declaration) == PYDDSI_OK;) {
            check_inside(&declaration.properties, data, size);
            count++;
        }
        MUST(count == message->declarations.count && list.size == 0);
    }
}

/* The message, written and read again, prints the same line; |out| gets the bytes. */
static void check_again(const pyddsi_message *message, uint8_t *out, size_t room, size_t *at)
{
    static char line[LINE_MAX_BYTES], again_line[LINE_MAX_BYTES];
    pyddsi_fault fault;
    pyddsi_reading any;
    pyddsi_options options = {0};
    pyddsi_decoder decoder;
    pyddsi_message again;
    size_t begin = *at;
    MUST(pyddsi_encode_message(message, out, room, at, &fault) == PYDDSI_OK);
    MUST(pyddsi_reading_init(&any, &options) == PYDDSI_OK);
    pyddsi_decoder_init(&decoder, &any, out + begin, *at - begin);
    MUST(pyddsi_decoder_next(&decoder, &again) == PYDDSI_OK && decoder.at == *at - begin);
    size_t length = pyddsi_print_message(message, line, sizeof(line));
    MUST(pyddsi_print_message(&again, again_line, sizeof(again_line)) == length);
    for (size_t i = 0; i < length && i < sizeof(line); i++)
        MUST(line[i] == again_line[i]);
    char little
        [8]; /* a line that does not fit is cut and ended, and its length is told all the same */
    MUST(pyddsi_print_message(message, little, sizeof(little)) == length);
}

static size_t walk(const pyddsi_reading *reading, const uint8_t *data, size_t size, size_t ends[],
                   int *status)
{
    size_t count = 0;
    pyddsi_decoder decoder;
    pyddsi_message message = {0};
    pyddsi_decoder_init(&decoder, reading, data, size);
    while ((*status = pyddsi_decoder_next(&decoder, &message)) == PYDDSI_OK) {
        MUST(message.size > 0 && message.at + message.size == decoder.at && decoder.at <= size);
        check_lists(&message, data, size);
        if (count < MESSAGES_MAX)
            ends[count] = decoder.at;
        count++;
    }
    MUST(*status == PYDDSI_END || decoder.fault.rule != PYDDSI_RULE_NONE);
    MUST(*status == PYDDSI_END || decoder.fault.at <= size);
    MUST((*status == PYDDSI_SHORT) == (decoder.fault.rule == PYDDSI_RULE_CUT));
    return count;
}

static void check_tolerant(const uint8_t *data, size_t size, int strict_status)
{
    static uint8_t out[2 * PACKET_MAX];
    size_t at = 0;
    int status;
    pyddsi_reading any;
    pyddsi_options options = {0};
    pyddsi_decoder decoder;
    pyddsi_message message;
    MUST(pyddsi_reading_init(&any, &options) == PYDDSI_OK);
    pyddsi_decoder_init(&decoder, &any, data, size);
    while ((status = pyddsi_decoder_next(&decoder, &message)) == PYDDSI_OK)
        check_again(&message, out, sizeof(out), &at);
    if (strict_status != PYDDSI_END)
        return;
    MUST(status == PYDDSI_END && at == size);
    for (size_t i = 0; i < size; i++)
        MUST(out[i] == data[i]);
}

static void check_cut(const uint8_t *data, size_t cut, const size_t ends[], size_t count)
{
    size_t cut_ends[MESSAGES_MAX];
    int status;
    pyddsi_reading any;
    pyddsi_options options = {0};
    MUST(pyddsi_reading_init(&any, &options) == PYDDSI_OK);
    size_t got = walk(&any, data, cut, cut_ends, &status), whole = 0;
    while (whole < count && ends[whole] <= cut)
        whole++;
    size_t last = whole > 0 ? ends[whole - 1] : 0;
    MUST(got == whole && status == (last == cut ? PYDDSI_END : PYDDSI_SHORT));
}

static void check_columns(const pyddsi_reading *reading, const uint8_t *data, size_t size,
                          size_t count, int wanted)
{
    static uint32_t words[5][MESSAGES_MAX];
    static uint64_t longs[2][MESSAGES_MAX];
    static uint16_t shorts[MESSAGES_MAX];
    static uint8_t bytes[2][MESSAGES_MAX];
    pyddsi_fault fault;
    pyddsi_columns columns = {
        .capacity = count,
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
    int status = pyddsi_columns_packet(&columns, reading, 7, data, size, &fault);
    MUST(columns.count == count && (wanted == PYDDSI_END ? status == PYDDSI_OK : status == wanted));
    for (size_t i = 0; i < count; i++)
        MUST((size_t)columns.payload_at[i] + columns.payload_size[i] <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t seq_bits[] = {0, 7, 14, 28, 56}, rid_bits[] = {0, 8, 16, 32};
    static size_t ends[MESSAGES_MAX];
    if (size < 2 || size > PACKET_MAX)
        return 0;
    pyddsi_options options = {.strictness = data[0] % 3,
                              .base_only = data[0] >> 7,
                              .seq_bits = seq_bits[data[0] / 3 % 5],
                              .rid_bits = rid_bits[data[0] / 15 % 4],
                              .conduits = data[1] % 8};
    size_t cut = data[1];
    pyddsi_reading reading, any, strict;
    MUST(pyddsi_reading_init(&reading, &options) == PYDDSI_OK);
    options = (pyddsi_options){.strictness = PYDDSI_STRICT};
    MUST(pyddsi_reading_init(&strict, &options) == PYDDSI_OK);
    options.strictness = PYDDSI_TOLERANT;
    MUST(pyddsi_reading_init(&any, &options) == PYDDSI_OK);
    data += 2;
    size -= 2;
    int status, strict_status;
    size_t count = walk(&reading, data, size, ends, &status);
    if (count <= MESSAGES_MAX)
        check_columns(&reading, data, size, count, status);
    walk(&strict, data, size, ends, &strict_status);
    count = walk(&any, data, size, ends, &status);
    check_tolerant(data, size, strict_status);
    if (status == PYDDSI_END && cut <= size && count <= MESSAGES_MAX)
        check_cut(data, cut, ends, count);
    return 0;
}
