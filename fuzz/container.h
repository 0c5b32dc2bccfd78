/* container.h - what the targets pcap and pcapng have in common: a capture is read, and read again in other pieces.
 *
 * Whatever the bytes are, and however they are cut into blocks: the same frames come out, and what the container has learnt
 * is the same down to the last byte of it. Every view lies inside the bytes that were given and every call that finds
 * something uses something up.
 */
#ifndef PDI_FUZZ_CONTAINER_H
#define PDI_FUZZ_CONTAINER_H

#include <stdlib.h>

#include "capture/container.h"
#include "capture/write.h"

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

enum { INPUT_MAX = 1 << 14, FRAMES_MAX = INPUT_MAX / 12 + 1 };

struct outcome {
    int status;
    size_t tail;
    size_t count;
    struct pdi_frame frames[FRAMES_MAX]; /* with places in the file for pointers */
    struct pdi_container container;
};

static unsigned random_state;

static size_t random_below(size_t limit)
{
    random_state = random_state * 1103515245U + 12345U;
    return (random_state >> 8) % limit;
}

static const uint8_t *place(const uint8_t *at, const uint8_t *data, size_t from)
{
    return at == NULL ? NULL : (const uint8_t *)(uintptr_t)(from + (size_t)(at - data));
}

/* A frame that came from the |used| bytes at |data|, which lie at |from| in the file. */
static void keep(struct outcome *outcome, const struct pdi_frame *frame, const uint8_t *data,
                 size_t used, size_t from)
{
    size_t at = (size_t)(frame->data - data);
    pyddsi_bytes options = frame->options;
    MUST(used > 0 && at <= used && frame->size <= used - at);
    MUST(frame->size <= PDI_FRAME_BYTES_MAX && frame->number == outcome->count + 1);
    MUST(options.size == 0 || (options.data >= frame->data && options.data < data + used &&
                               options.size <= (size_t)(data + used - options.data)));
    MUST(outcome->count < FRAMES_MAX);
    struct pdi_frame *kept = &outcome->frames[outcome->count++];
    memset(kept, 0, sizeof(*kept));
    kept->number = frame->number;
    kept->offset = frame->offset;
    kept->time_ns = frame->time_ns;
    kept->data = place(frame->data, data, from);
    kept->size = frame->size;
    kept->wire_size = frame->wire_size;
    kept->link = frame->link;
    kept->interface = frame->interface;
    kept->direction = frame->direction;
    kept->stranger = frame->stranger;
    kept->block_kind = frame->block_kind;
    kept->options.data = place(options.data, data, from);
    kept->options.size = options.size;
}

/* Takes all there is in bytes |*from| to |to| of a file, which lie in memory of exactly their size. */
static void take_all(struct outcome *outcome, const uint8_t *file, size_t *from, size_t to)
{
    size_t size = to - *from, at = 0;
    uint8_t *data = malloc(size != 0 ? size : 1);
    MUST(data != NULL);
    memcpy(data, file + *from, size);
    do {
        struct pdi_frame frame;
        size_t used, need;
        outcome->status =
            pdi_container_next(&outcome->container, data + at, size - at, &frame, &used, &need);
        MUST(used <= size - at);
        if (outcome->status == PYDDSI_OK)
            keep(outcome, &frame, data + at, used, *from + at);
        at += used;
        MUST(outcome->container.at == *from + at);
        MUST(outcome->status != PYDDSI_SHORT || (need > size - at && need <= PDI_BLOCK_BYTES_MAX));
    } while (outcome->status == PYDDSI_OK || outcome->status == PYDDSI_AGAIN);
    *from += at;
    free(data);
}

/* Reads a file in blocks of 1 to |block_max| bytes. */
static void run(const uint8_t *file, size_t size, size_t block_max, struct outcome *outcome)
{
    size_t from = 0, to = 0;
    memset(outcome, 0, sizeof(*outcome));
    pdi_container_init(&outcome->container);
    do {
        size_t piece = 1 + random_below(block_max);
        to = piece < size - to ? to + piece : size;
        take_all(outcome, file, &from, to);
    } while (to < size && outcome->status == PYDDSI_SHORT);
    outcome->tail = outcome->status == PYDDSI_SHORT ? size - from : 0;
    char why[160];
    pdi_container_why(&outcome->container, why, sizeof(why));
    MUST((outcome->status == PYDDSI_BAD_INPUT) == (outcome->container.damage != PDI_DAMAGE_NONE));
    MUST(strlen(why) > 10 && strlen(why) < sizeof(why) - 1);
}

static void must_be_same(const struct outcome *one, const struct outcome *other)
{
    MUST(one->status == other->status && one->tail == other->tail && one->count == other->count);
    MUST(memcmp(one->frames, other->frames, one->count * sizeof(one->frames[0])) == 0);
    MUST(memcmp(&one->container, &other->container, sizeof(one->container)) == 0);
}

/* A frame in a file of its own, as it was; but interface and options are the writer's. */
static void must_be_read(const struct pdi_frame *frame, const uint8_t *file, size_t size)
{
    static struct pdi_container container;
    struct pdi_frame again;
    size_t used, need;
    pdi_container_init(&container);
    MUST(pdi_container_next(&container, file, size, &again, &used, &need) == PYDDSI_OK);
    MUST(used == size && again.number == 1);
    MUST(again.time_ns == (frame->time_ns == PDI_TIME_NONE ? 0 : frame->time_ns));
    MUST(again.size == frame->size && again.wire_size == frame->wire_size);
    MUST(again.direction == frame->direction && again.link == frame->link);
    MUST(memcmp(again.data, frame->data, frame->size) == 0);
}

/* Each frame, written as pcap and as pcapng, is read again as it was. */
static void must_be_written(const struct outcome *outcome, const uint8_t *data)
{
    static uint8_t out[INPUT_MAX + 1024];
    const pyddsi_bytes comment = {(const uint8_t *)"seen", 4};
    for (size_t i = 0; i < outcome->count; i++) {
        struct pdi_frame frame = outcome->frames[i];
        size_t pcap = 0, ng = 0;
        frame.data = data + (uintptr_t)frame.data;
        frame.interface = 0;
        MUST(pdi_write_section("fuzz", out, sizeof(out), &ng) == PYDDSI_OK);
        MUST(pdi_write_interface(frame.link, 0, "", out, sizeof(out), &ng) == PYDDSI_OK);
        int status = pdi_write_frame(&frame, comment, out, sizeof(out), &ng);
        if (status == PYDDSI_OK)
            must_be_read(&frame, out, ng);
        else
            MUST(status == PYDDSI_BAD_ARGUMENT &&
                 (frame.stranger || (frame.time_ns < 0 && frame.time_ns != PDI_TIME_NONE)));
        frame.direction = PDI_WAY_UNKNOWN;
        MUST(pdi_write_pcap_header(frame.link, 0, out, sizeof(out), &pcap) == PYDDSI_OK);
        if (pdi_write_pcap_frame(&frame, out, sizeof(out), &pcap) == PYDDSI_OK)
            must_be_read(&frame, out, pcap);
    }
}

/* All that must hold for a file. */
static void check_file(const uint8_t *file, size_t size, unsigned seed)
{
    static struct outcome whole, split;
    random_state = seed;
    run(file, size, 1, &whole);
    run(file, size, 2 * size + 1, &split);
    must_be_same(&whole, &split);
    run(file, size, 1 + seed % 61, &split);
    must_be_same(&whole, &split);
    must_be_written(&whole, file);
}

#endif
