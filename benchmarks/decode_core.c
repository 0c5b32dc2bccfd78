/* decode_core.c - the loops of benchmarks/decode.py that run in C.
 *
 * Each takes packets that lie back to back, goes over all of them |rounds| times, and returns the nanoseconds that took.
 * It is compiled with the core's own sources and the core's own flags.
 */
#include <string.h>
#include <time.h>

#include "pyddsi.h"

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

/* Keeps the compiler from leaving the work out. */
static volatile uint64_t sink;

#define EXPORT __attribute__((visibility("default")))

EXPORT uint64_t bench_copy(const uint8_t *data, const uint32_t *sizes, uint32_t count,
                           uint32_t rounds);
EXPORT uint64_t bench_decode(const uint8_t *data, const uint32_t *sizes, uint32_t count,
                             uint32_t rounds);
EXPORT uint64_t bench_encode(const uint8_t *data, const uint32_t *sizes, uint32_t count,
                             uint32_t rounds);

/* Packet by packet into one place, as a receiver that copies would. */
uint64_t bench_copy(const uint8_t *data, const uint32_t *sizes, uint32_t count, uint32_t rounds)
{
    static uint8_t into[65536];
    uint64_t start = now_ns();
    for (uint32_t round = 0; round < rounds; round++) {
        const uint8_t *at = data;
        for (uint32_t i = 0; i < count; at += sizes[i++]) {
            memcpy(into, at, sizes[i]);
            sink = into[sizes[i] / 2];
        }
    }
    return now_ns() - start;
}

uint64_t bench_decode(const uint8_t *data, const uint32_t *sizes, uint32_t count, uint32_t rounds)
{
    pyddsi_options options = {0};
    pyddsi_reading reading;
    pyddsi_reading_init(&reading, &options);
    uint64_t start = now_ns(), sum = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        const uint8_t *at = data;
        for (uint32_t i = 0; i < count; at += sizes[i++]) {
            pyddsi_decoder decoder;
            pyddsi_message message;
            pyddsi_decoder_init(&decoder, &reading, at, sizes[i]);
            while (pyddsi_decoder_next(&decoder, &message) == PYDDSI_OK)
                sum += message.size;
        }
    }
    sink = sum;
    return now_ns() - start;
}

/* What was decoded, written again. The decoding is not timed: at most MESSAGES_MAX messages are kept and written. */
uint64_t bench_encode(const uint8_t *data, const uint32_t *sizes, uint32_t count, uint32_t rounds)
{
    enum { MESSAGES_MAX = 256 };
    static pyddsi_message messages[MESSAGES_MAX];
    static uint8_t out[65536];
    uint64_t elapsed = 0;
    pyddsi_options options = {0};
    pyddsi_reading reading;
    pyddsi_fault fault;
    pyddsi_reading_init(&reading, &options);
    const uint8_t *at = data;
    for (uint32_t i = 0; i < count; at += sizes[i++]) {
        pyddsi_decoder decoder;
        uint32_t got = 0;
        pyddsi_decoder_init(&decoder, &reading, at, sizes[i]);
        while (got < MESSAGES_MAX && pyddsi_decoder_next(&decoder, &messages[got]) == PYDDSI_OK)
            got++;
        uint64_t start = now_ns();
        for (uint32_t round = 0; round < rounds; round++) {
            size_t end = 0;
            for (uint32_t k = 0; k < got; k++)
                pyddsi_encode_message(&messages[k], out, sizeof(out), &end, &fault);
            sink = end;
        }
        elapsed += now_ns() - start;
    }
    return elapsed;
}
