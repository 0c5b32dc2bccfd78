/* wire/stream.h: frames and unframed messages, split and merged at every byte. */
#include "wire/stream.h"

#include "test.h"
#include "wire/decode.h"

enum { ROOM = 512, PACKETS = 32 };

/* What came out of a stream. */
struct result {
    size_t count;
    size_t sizes[PACKETS];
    uint8_t data[ROOM];
    size_t bytes;
    size_t kept;     /* bytes that were not used */
    size_t fault_at; /* counted from the start of all data */
};

static pyddsi_reading reading_of(unsigned strictness)
{
    pyddsi_reading reading;
    pyddsi_options options = {.strictness = (uint8_t)strictness};
    CHECK_EQ(pdi_reading_init(&reading, &options), PYDDSI_OK);
    return reading;
}

/* Takes all packets that are whole. The bytes lie at the end of a buffer of their own, so that a
 * sanitizer sees who reads on. */
static void take(pyddsi_stream *stream, struct result *result, uint8_t *kept, size_t *have,
                 size_t gone)
{
    int status;
    do { /* each packet takes a byte at least */
        pyddsi_bytes packet;
        size_t used, need;
        status = pdi_stream_next(stream, kept, *have, &packet, &used, &need);
        CHECK(used <= *have);
        if (status == PYDDSI_OK) {
            CHECK(packet.size > 0 && packet.data + packet.size == kept + used);
            memcpy(result->data + result->bytes, packet.data, packet.size);
            result->sizes[result->count++] = packet.size;
            result->bytes += packet.size;
        }
        if (status == PYDDSI_SHORT)
            CHECK(need > *have - used);
        if (status == PYDDSI_BAD_INPUT) {
            result->fault_at = gone + stream->fault.at;
            break;
        }
        memmove(kept, kept + used, *have - used);
        *have -= used;
        gone += used;
    } while (status == PYDDSI_OK);
}

/* Feeds |data| in two pieces, or byte by byte if |split| is its size. */
static struct result feed(pyddsi_stream *stream, const uint8_t *data, size_t size, size_t split)
{
    struct result result = {0};
    uint8_t kept[ROOM];
    size_t have = 0;
    for (size_t at = 0; at < size && !stream->broken;) {
        size_t piece = split == size ? 1 : at == 0 && split > 0 ? split : size - at;
        memcpy(kept + have, data + at, piece);
        have += piece;
        at += piece;
        take(stream, &result, kept, &have, at - have);
    }
    result.kept = have;
    return result;
}

/* All splits give the same packets; the last of them is handed out. */
static struct result every_split(const char *data, size_t size, size_t packet_max,
                                 unsigned strictness, int rule)
{
    pyddsi_reading reading = reading_of(strictness);
    struct result first = {0};
    for (size_t split = 0; split <= size; split++) {
        pyddsi_stream stream;
        pdi_stream_init(&stream, &reading, packet_max);
        struct result result = feed(&stream, (const uint8_t *)data, size, split);
        CHECK_EQ(stream.fault.rule, rule);
        CHECK_EQ(stream.broken, rule != PYDDSI_RULE_NONE);
        if (split == 0)
            first = result;
        CHECK_EQ(result.count, first.count);
        CHECK_EQ(result.bytes, first.bytes);
        CHECK_EQ(result.fault_at, first.fault_at);
        CHECK(memcmp(result.data, first.data, first.bytes) == 0);
        CHECK(memcmp(result.sizes, first.sizes, sizeof(first.sizes)) == 0);
        CHECK(rule != PYDDSI_RULE_NONE || result.kept == first.kept);
    }
    return first;
}

#define SPLIT(data, packet_max, strictness, rule)                                                  \
    every_split(data, sizeof(data) - 1, packet_max, strictness, rule)

/* If it failed, the stream that zhe opens a connection with would come apart at other places. */
static void test_frames(void)
{
    struct result result = SPLIT("\x02\x01\x05"
                                 "\x04\x93\xee\x01\x01"
                                 "\x82\x00\x01\x01" /* a length in the long form */
                                 "\x01\x00",        /* what is inside is not looked at */
                                 0, PYDDSI_TOLERANT, PYDDSI_RULE_NONE);
    CHECK_EQ(result.count, 4);
    CHECK_EQ(result.kept, 0);
    CHECK(result.sizes[0] == 2 && result.sizes[1] == 4 && result.sizes[2] == 2);
    CHECK(memcmp(result.data, "\x01\x05\x93\xee\x01\x01\x01\x01\x00", 9) == 0);
}

/* If it failed, a frame that is not whole would come out, or its bytes get lost. */
static void test_unfinished(void)
{
    struct result result = SPLIT("\x02\x01\x05\x05\x67\x00\x02\x01", 0, 0, PYDDSI_RULE_NONE);
    CHECK_EQ(result.count, 1);
    CHECK_EQ(result.kept, 5);
    result = SPLIT("\x80", 0, 0, PYDDSI_RULE_NONE);
    CHECK(result.count == 0 && result.kept == 1);
    result = SPLIT("\x00\x67\x00\x02\x01", 0, 0, PYDDSI_RULE_NONE);
    CHECK(result.count == 0 && result.kept == 4);
}

/* If it failed, need would be a guess: too small, and the caller comes in vain; too large, and a
 * whole packet waits. */
static void test_need(void)
{
    pyddsi_reading reading = reading_of(PYDDSI_TOLERANT);
    pyddsi_stream stream;
    pyddsi_bytes packet;
    size_t used, need;
    const uint8_t frame[] = {0x80, 0x01, 0x00};
    pdi_stream_init(&stream, &reading, 0);
    CHECK_EQ(pdi_stream_next(&stream, frame, 0, &packet, &used, &need), PYDDSI_SHORT);
    CHECK(used == 0 && need == 1);
    CHECK_EQ(pdi_stream_next(&stream, frame, 1, &packet, &used, &need), PYDDSI_SHORT);
    CHECK(used == 0 && need == 2);
    CHECK_EQ(pdi_stream_next(&stream, frame, 3, &packet, &used, &need), PYDDSI_SHORT);
    CHECK(used == 0 && need == 130);
    const uint8_t unframed[] = {0x00, 0x67};
    CHECK_EQ(pdi_stream_next(&stream, unframed, 2, &packet, &used, &need), PYDDSI_SHORT);
    CHECK(used == 1 && need == 2 && stream.unframed);
}

/* If it failed, after a length of 0 markers would be parted from their message, or messages be
 * joined. */
static void test_unframed(void)
{
    for (unsigned strictness = 0; strictness < 3; strictness++) {
        struct result result = SPLIT("\x02\x01\x05"
                                     "\x00"
                                     "\x01\x05"
                                     "\x93\x67\x00\x02\x02\x01\x32"
                                     "\x13\x05\x0f\x01"
                                     "\x0c\x80\x01",
                                     0, strictness, PYDDSI_RULE_NONE);
        CHECK_EQ(result.count, 5);
        CHECK_EQ(result.kept, 0);
        CHECK(result.sizes[1] == 2 && result.sizes[2] == 7 && result.sizes[3] == 4);
    }
    struct result result =
        SPLIT("\x80\x00\x12\x00\x98\x07\x00\x02\x00", 0, PYDDSI_STRICT, PYDDSI_RULE_NONE);
    CHECK(result.count == 1 && result.sizes[0] == 7);
}

/* If it failed, a stream would be read on after its framing is lost, or the fault be told at
 * another byte. */
static void test_broken(void)
{
    struct result result = SPLIT("\x80\x80\x01", 0, 0, PYDDSI_RULE_FRAME_LENGTH);
    CHECK_EQ(result.fault_at, 0);
    result = SPLIT("\x02\x01\x05\xff\xff", 0, 0, PYDDSI_RULE_FRAME_LENGTH);
    CHECK(result.count == 1 && result.fault_at == 3);
    result = SPLIT("\x00\x01\x05\x00", 0, 0, PYDDSI_RULE_KIND_UNKNOWN);
    CHECK(result.count == 1 && result.fault_at == 3);
    result = SPLIT("\x00\x93\x0c\x80\x80\x04", 0, 0, PYDDSI_RULE_NUMBER_WIDE);
    CHECK(result.count == 0 && result.fault_at == 3);
    result = SPLIT("\x00\x93\x93\x0e\x00", 0, PYDDSI_STRICT, PYDDSI_RULE_MARKER_ORDER);
    CHECK(result.count == 0 && result.fault_at == 2);

    pyddsi_reading reading = reading_of(PYDDSI_TOLERANT);
    pyddsi_stream stream;
    pyddsi_bytes packet;
    size_t used, need;
    pdi_stream_init(&stream, &reading, 0);
    feed(&stream, (const uint8_t *)"\xff\xff", 2, 0);
    for (int i = 0; i < 3; i++) {
        const uint8_t fine[] = {0x02, 0x01, 0x05};
        CHECK_EQ(pdi_stream_next(&stream, fine, 3, &packet, &used, &need), PYDDSI_BAD_INPUT);
        CHECK(used == 0 && packet.data == NULL && stream.fault.at == 0);
        CHECK_EQ(stream.fault.rule, PYDDSI_RULE_FRAME_LENGTH);
    }
}

/* If it failed, the largest packet that a receiver has room for would be refused, or a larger one
 * be waited for. */
static void test_limit(void)
{
    struct result result = SPLIT("\x05\x67\x00\x02\x01x", 5, 0, PYDDSI_RULE_NONE);
    CHECK_EQ(result.count, 1);
    result = SPLIT("\x05\x67\x00\x02\x01x", 4, 0, PYDDSI_RULE_FRAME_LIMIT);
    CHECK_EQ(result.count, 0);
    result = SPLIT("\x00\x67\x00\x02\x01x\x01\x05", 5, 0, PYDDSI_RULE_NONE);
    CHECK_EQ(result.count, 2);
    result = SPLIT("\x00\x67\x00\x02\x02xx", 5, 0, PYDDSI_RULE_FRAME_LIMIT);
    CHECK_EQ(result.fault_at, 1);
    result = SPLIT("\x00\x93\x93\x93\x93\x93\x93", 5, 0, PYDDSI_RULE_FRAME_LIMIT);
    CHECK_EQ(result.count, 0);
    pyddsi_reading reading = reading_of(PYDDSI_TOLERANT);
    pyddsi_stream stream;
    pdi_stream_init(&stream, &reading, 0);
    CHECK_EQ(stream.packet_max, PDI_FRAME_MAX);
    pdi_stream_init(&stream, &reading, PDI_FRAME_MAX + 1);
    CHECK_EQ(stream.packet_max, PDI_FRAME_MAX);
}

/* If it failed, a frame would begin with a length that its reader takes for another. */
static void test_frame_length(void)
{
    static const struct {
        size_t size;
        size_t bytes;
        const char *wanted;
    } cases[] = {{0, 1, "\x00"},       {1, 1, "\x01"},         {127, 1, "\x7f"},
                 {128, 2, "\x80\x01"}, {16383, 2, "\xff\x7f"}, {16384, 0, ""}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t room = 1; room <= 3; room++) {
            uint8_t out[4] = {0xa5, 0xa5, 0xa5, 0xa5};
            size_t at = 1;
            int fits = 1 + cases[i].bytes <= room;
            int status = pdi_stream_frame(cases[i].size, out, room, &at);
            CHECK_EQ(status, cases[i].bytes == 0 ? PYDDSI_BAD_ARGUMENT
                             : fits              ? PYDDSI_OK
                                                 : PYDDSI_NO_SPACE);
            CHECK_EQ(at, 1 + (fits ? cases[i].bytes : 0));
            CHECK(out[0] == 0xa5 && out[room] == 0xa5);
            CHECK(!fits || memcmp(out + 1, cases[i].wanted, cases[i].bytes) == 0);
        }
    }
}

int main(void)
{
    test_frames();
    test_unfinished();
    test_need();
    test_unframed();
    test_broken();
    test_limit();
    test_frame_length();
    return test_result();
}
