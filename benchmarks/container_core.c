/* container_core.c - the loops of benchmarks/container.py that run in C.
 *
 * A capture is made in memory and gone through as a reader of files would: in blocks of 1 MiB, each copied to one place
 * first, with what was not used of the block before in front. The copying is timed apart from the walk.
 */
#include <string.h>
#include <time.h>

#include "base/rand.h"
#include "capture/container.h"
#include "capture/write.h"

enum { BLOCK = 1 << 20, FRAME_LEAST = 44, FRAME_SPREAD = 281 };

enum kind { PCAP, PCAP_SWAPPED, PCAPNG };

#define EXPORT __attribute__((visibility("default")))

struct times {
    uint64_t frames;
    uint64_t copy_ns;
    uint64_t walk_ns;
};

EXPORT uint64_t container_make(int kind, uint8_t *out, uint64_t room);
EXPORT void container_walk(const uint8_t *data, uint64_t size, struct times *times);

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

/* Keeps the compiler from leaving the work out. */
static volatile uint64_t sink;

/* Turns the numbers of a pcap file round, as the other kind of machine writes them. */
static void turn(uint8_t *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        uint32_t numbers[6], count = at == 0 ? 6 : 4;
        memcpy(numbers, data + at, 4 * (size_t)count);
        size_t next = at + 4 * (size_t)count + (at == 0 ? 0 : numbers[2]);
        for (unsigned i = 0; i < count; i++)
            numbers[i] = __builtin_bswap32(numbers[i]);
        memcpy(data + at, numbers, 4 * (size_t)count);
        at = next;
    }
}

/* A capture with records of 200 bytes in the mean, half random bytes and half a counter's; how many bytes it has. */
uint64_t container_make(int kind, uint8_t *out, uint64_t room)
{
    static uint8_t bytes[FRAME_LEAST + FRAME_SPREAD];
    struct pdi_rand rand;
    size_t at = 0;
    int status = kind == PCAPNG ? pdi_write_section("bench", out, room, &at)
                                : pdi_write_pcap_header(1, 65535, out, room, &at);
    if (kind == PCAPNG)
        status = pdi_write_interface(1, 0, "any", out, room, &at);
    pdi_rand_init(&rand, 1);
    for (uint64_t number = 0; status == PYDDSI_OK; number++) {
        struct pdi_frame frame = {.data = bytes, .time_ns = (int64_t)(number * 4001)};
        frame.size = (uint32_t)(FRAME_LEAST + pdi_rand_below(&rand, FRAME_SPREAD));
        frame.wire_size = frame.size;
        for (size_t i = 0; i < frame.size / 2; i += 8) {
            uint64_t drawn = pdi_rand_u64(&rand);
            memcpy(bytes + i, &drawn, 8);
        }
        status = kind == PCAPNG ? pdi_write_frame(&frame, (pyddsi_bytes){0}, out, room, &at)
                                : pdi_write_pcap_frame(&frame, out, room, &at);
    }
    if (kind == PCAP_SWAPPED)
        turn(out, at);
    return at;
}

void container_walk(const uint8_t *data, uint64_t size, struct times *times)
{
    static uint8_t block[BLOCK + PDI_BLOCK_BYTES_MAX];
    static struct pdi_container container;
    size_t kept = 0;
    uint64_t sum = 0;
    *times = (struct times){0};
    pdi_container_init(&container);
    for (uint64_t given = 0; given < size;) {
        struct pdi_frame frame;
        size_t piece = size - given < BLOCK ? (size_t)(size - given) : BLOCK, at = 0, used, need;
        uint64_t start = now_ns();
        memcpy(block + kept, data + given, piece);
        uint64_t copied = now_ns();
        given += piece;
        kept += piece;
        while (pdi_container_next(&container, block + at, kept - at, &frame, &used, &need) ==
               PYDDSI_OK) {
            sum += (uint64_t)frame.time_ns + frame.size;
            at += used;
        }
        at += used;
        times->copy_ns += copied - start;
        times->walk_ns += now_ns() - copied;
        memmove(block, block + at, kept - at);
        kept -= at;
    }
    times->frames = container.frames;
    sink = sum;
}
