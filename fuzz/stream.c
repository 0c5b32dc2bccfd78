/* stream.c - any bytes as a stream, split anywhere.
 *
 * The first two bytes seed the places to split at, the third the receiver's limit, the rest is the stream. Fed in one
 * piece or in many it must give the same packets, the same end and the same fault; and what was framed is framed again
 * to the same packets.
 */
#include <stdlib.h>
#include <string.h>

#include "pyddsi.h"

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

enum { STREAM_MAX = 1 << 13, PACKETS_MAX = 1 << 13 };

/* What came out of a stream: the sizes of the packets, the bytes of all of them, and how it ended. */
struct outcome {
    size_t count;
    size_t bytes;
    int rule;
    uint8_t unframed;
    uint16_t sizes[PACKETS_MAX];
    uint8_t data[STREAM_MAX];
};

static unsigned random_state;

static size_t random_below(size_t limit)
{
    random_state = random_state * 1103515245U + 12345U;
    return (random_state >> 8) % limit;
}

/* Feeds the stream in pieces of 1 to |piece_max| bytes, keeping what was not used, as a socket's reader would. */
static void run(const pyddsi_reading *reading, size_t packet_max, const uint8_t *data, size_t size,
                size_t piece_max, struct outcome *outcome)
{
    static uint8_t kept[STREAM_MAX];
    size_t have = 0;
    pyddsi_stream stream;
    pyddsi_stream_init(&stream, reading, packet_max);
    memset(outcome, 0, sizeof(*outcome));
    for (size_t at = 0; at < size && !stream.broken;) {
        size_t piece = 1 + random_below(piece_max);
        piece = piece < size - at ? piece : size - at;
        memcpy(kept + have, data + at, piece);
        have += piece;
        at += piece;
        for (;;) {
            pyddsi_bytes packet;
            size_t used, need;
            int status = pyddsi_stream_next(&stream, kept, have, &packet, &used, &need);
            MUST(used <= have);
            if (status == PYDDSI_OK) {
                MUST(packet.size > 0 && packet.data + packet.size == kept + used);
                MUST(packet_max == 0 || packet.size <= packet_max);
                memcpy(outcome->data + outcome->bytes, packet.data, packet.size);
                outcome->bytes += packet.size;
                outcome->sizes[outcome->count++] = (uint16_t)packet.size;
            }
            memmove(kept, kept + used, have - used);
            have -= used;
            if (status == PYDDSI_SHORT)
                MUST(need > have);
            if (status != PYDDSI_OK)
                break;
        }
    }
    outcome->rule = stream.fault.rule;
    outcome->unframed = stream.unframed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct outcome whole, split, again;
    static uint8_t framed[STREAM_MAX];
    if (size < 3 || size > STREAM_MAX / 2)
        return 0;
    pyddsi_reading reading;
    pyddsi_options options = {0};
    MUST(pyddsi_reading_init(&reading, &options) == PYDDSI_OK);
    random_state = (unsigned)data[0] << 8 | data[1];
    size_t piece_max = 1 + data[1] % 32, packet_max = data[2] < 128 ? 0 : data[2];
    run(&reading, packet_max, data + 3, size - 3, size, &whole);
    run(&reading, packet_max, data + 3, size - 3, piece_max, &split);
    MUST(whole.count == split.count && whole.bytes == split.bytes);
    MUST(whole.rule == split.rule && whole.unframed == split.unframed);
    MUST(memcmp(whole.data, split.data, whole.bytes) == 0);
    MUST(memcmp(whole.sizes, split.sizes, whole.count * sizeof(whole.sizes[0])) == 0);
    size_t at = 0, from = 0;
    for (size_t i = 0; i < whole.count; i++) {
        MUST(pyddsi_stream_frame(whole.sizes[i], framed, sizeof(framed), &at) == PYDDSI_OK);
        memcpy(framed + at, whole.data + from, whole.sizes[i]);
        from += whole.sizes[i];
        at += whole.sizes[i];
    }
    run(&reading, packet_max, framed, at, piece_max, &again);
    MUST(again.count == whole.count && again.bytes == whole.bytes && again.rule == 0);
    return 0;
}
