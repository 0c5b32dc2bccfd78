/* capture_files.h - captures made by hand for the C tests, and read in blocks of any size.
 *
 *     file_pcap(file, 0xa1b2c3d4, 65535, 1);  file_record(file, 5, 7, data, 60, 60);
 *     file_section(file);  file_interface(file, 1, 0, options);  file_packet(file, 6, 0, ticks, data, 60, 60, options);
 *
 * A file writes its numbers in the byte order that it is told, whatever ours is. Whatever a real writer may get wrong can be
 * said: nothing is checked here.
 */
#ifndef PDI_TEST_CAPTURE_FILES_H
#define PDI_TEST_CAPTURE_FILES_H

#include <stdlib.h>

#include "base/rand.h"
#include "capture/container.h"
#include "test.h"

struct file {
    uint8_t *data;
    size_t size;
    size_t room;
    int big; /* numbers have their high byte first */
};

/* Memory is never short in a test; a writer that runs out of it has miscounted, and ends the program. */
static inline uint8_t *file_take(struct file *file, size_t size)
{
    if (size > file->room - file->size)
        abort();
    uint8_t *at = file->data + file->size;
    file->size += size;
    return at;
}

static inline void file_put(struct file *file, uint64_t number, unsigned bytes)
{
    uint8_t *at = file_take(file, bytes);
    for (unsigned i = 0; i < bytes; i++)
        at[file->big ? bytes - 1 - i : i] = (uint8_t)(number >> 8 * i);
}

static inline void file_put16(struct file *file, uint32_t number)
{
    file_put(file, number, 2);
}

static inline void file_put32(struct file *file, uint64_t number)
{
    file_put(file, number, 4);
}

static inline void file_put64(struct file *file, uint64_t number)
{
    file_put(file, number, 8);
}

/* Bytes, or zeros if there is no data. */
static inline void file_bytes(struct file *file, const void *data, size_t size)
{
    uint8_t *at = file_take(file, size);
    if (data == NULL)
        memset(at, 0, size);
    else
        memcpy(at, data, size);
}

static inline void file_pad(struct file *file, size_t size)
{
    file_bytes(file, NULL, (4 - size % 4) % 4);
}

static inline void file_pcap(struct file *file, uint32_t magic, uint32_t snap, uint32_t link)
{
    file_put32(file, magic);
    file_put16(file, 2);
    file_put16(file, 4);
    file_put64(file, 0);
    file_put32(file, snap);
    file_put32(file, link);
}

static inline void file_record(struct file *file, uint32_t seconds, uint32_t fraction,
                               const void *data, uint32_t size, uint32_t wire_size)
{
    file_put32(file, seconds);
    file_put32(file, fraction);
    file_put32(file, size);
    file_put32(file, wire_size);
    file_bytes(file, data, size);
}

/* Begins a block; file_block_end writes its two lengths. */
static inline size_t file_block(struct file *file, uint32_t kind)
{
    size_t start = file->size;
    file_put32(file, kind);
    file_put32(file, 0);
    return start;
}

static inline void file_block_end(struct file *file, size_t start)
{
    size_t end = file->size;
    uint32_t size = (uint32_t)(end + 4 - start);
    file->size = start + 4;
    file_put32(file, size);
    file->size = end;
    file_put32(file, size);
}

static inline void file_section(struct file *file)
{
    size_t start = file_block(file, 0x0a0d0d0a);
    file_put32(file, 0x1a2b3c4d);
    file_put16(file, 1);
    file_put16(file, 0);
    file_put64(file, UINT64_MAX);
    file_block_end(file, start);
}

/* Options are written one by one, between the beginning and the end of a block. */
static inline void file_option(struct file *file, uint32_t code, const void *value, size_t size)
{
    file_put16(file, code);
    file_put16(file, (uint32_t)size);
    file_bytes(file, value, size);
    file_pad(file, size);
}

static inline void file_option_number(struct file *file, uint32_t code, uint64_t value,
                                      unsigned bytes)
{
    file_put16(file, code);
    file_put16(file, bytes);
    file_put(file, value, bytes);
    file_pad(file, bytes);
}

/* An interface without its options and its end. */
static inline size_t file_interface_open(struct file *file, uint32_t link, uint32_t snap)
{
    size_t start = file_block(file, 1);
    file_put16(file, link);
    file_put16(file, 0);
    file_put32(file, snap);
    return start;
}

static inline void file_interface(struct file *file, uint32_t link, uint32_t snap)
{
    file_block_end(file, file_interface_open(file, link, snap));
}

/* A packet block, of the kind used today (6) or the one before (2), without its options and its end. */
static inline size_t file_packet_open(struct file *file, uint32_t kind, uint32_t interface,
                                      uint64_t ticks, const void *data, uint32_t size,
                                      uint32_t wire_size)
{
    size_t start = file_block(file, kind);
    if (kind == 6) {
        file_put32(file, interface);
    } else {
        file_put16(file, interface);
        file_put16(file, 7); /* drops */
    }
    file_put32(file, ticks >> 32);
    file_put32(file, ticks & UINT32_MAX);
    file_put32(file, size);
    file_put32(file, wire_size);
    file_bytes(file, data, size);
    file_pad(file, size);
    return start;
}

static inline void file_packet(struct file *file, uint32_t kind, uint32_t interface, uint64_t ticks,
                               const void *data, uint32_t size)
{
    file_block_end(file, file_packet_open(file, kind, interface, ticks, data, size, size));
}

static inline void file_simple(struct file *file, const void *data, uint32_t size,
                               uint32_t wire_size)
{
    size_t start = file_block(file, 3);
    file_put32(file, wire_size);
    file_bytes(file, data, size);
    file_pad(file, size);
    file_block_end(file, start);
}

/* ---- reading ---- */

/* A frame that came out, with places in the file instead of pointers. */
struct seen {
    struct pdi_frame frame; /* its pointers are NULL */
    uint64_t data_at;
    uint64_t options_at;
};

struct reading {
    struct seen *seen;
    size_t count;
    size_t room;
    int status;      /* SHORT at the end of the file, or BAD_INPUT */
    uint64_t tail;   /* bytes that no frame or block had use for */
    size_t need_max; /* what was asked for at most */
    struct pdi_container container;
};

static inline void reading_keep(struct reading *reading, const struct pdi_frame *frame,
                                const uint8_t *data, uint64_t place, size_t size)
{
    size_t at = (size_t)(frame->data - data);
    CHECK(frame->data >= data && at <= size && frame->size <= size - at);
    CHECK(frame->options.size == 0 ||
          (frame->options.data >= data &&
           (size_t)(frame->options.data - data) + frame->options.size <= size));
    if (reading->count == reading->room)
        abort();
    struct seen *seen = &reading->seen[reading->count++];
    memset(seen, 0, sizeof(*seen));
    seen->frame = *frame;
    seen->data_at = place + at;
    seen->options_at =
        frame->options.size != 0 ? place + (uint64_t)(frame->options.data - data) : 0;
    seen->frame.data = NULL;
    seen->frame.options.data = NULL;
}

/* Goes through what is there of a file: bytes |*from| to |to|. They lie in memory of exactly their size, so that a memory
 * checker sees who reads on. */
static inline void reading_block(struct reading *reading, const uint8_t *file, uint64_t *from,
                                 uint64_t to)
{
    size_t size = (size_t)(to - *from), at = 0;
    uint8_t *data = malloc(size != 0 ? size : 1);
    if (data == NULL)
        abort();
    memcpy(data, file + *from, size);
    do { /* each frame takes a byte at least */
        struct pdi_frame frame;
        size_t used, need;
        reading->status =
            pdi_container_next(&reading->container, data + at, size - at, &frame, &used, &need);
        CHECK(used <= size - at);
        if (reading->status == PYDDSI_OK) {
            CHECK(used > 0);
            reading_keep(reading, &frame, data + at, *from + at, used);
        }
        at += used;
        CHECK_EQ(reading->container.at, *from + at);
        if (reading->status == PYDDSI_SHORT) {
            CHECK(need > size - at);
            reading->need_max = need > reading->need_max ? need : reading->need_max;
        }
    } while (reading->status == PYDDSI_OK || reading->status == PYDDSI_AGAIN);
    *from += at;
    free(data);
}

/* Reads a file in blocks of 1 to |block_max| bytes, keeping what was not used. */
static inline void reading_run(struct reading *reading, const uint8_t *file, size_t size,
                               size_t block_max, struct pdi_rand *rand)
{
    uint64_t from = 0, to = 0;
    reading->count = 0;
    reading->need_max = 0;
    reading->status = PYDDSI_SHORT;
    pdi_container_init(&reading->container);
    while (to < size && reading->status == PYDDSI_SHORT) {
        uint64_t piece = 1 + pdi_rand_below(rand, block_max);
        to = size - to < piece ? size : to + piece;
        reading_block(reading, file, &from, to);
    }
    reading->tail = size - from;
}

/* In one piece. */
static inline void reading_whole(struct reading *reading, const struct file *file)
{
    uint64_t from = 0;
    reading->count = 0;
    reading->need_max = 0;
    pdi_container_init(&reading->container);
    reading_block(reading, file->data, &from, file->size);
    reading->tail = file->size - from;
}

#endif
