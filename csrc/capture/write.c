/* write.c - see write.h.
 *
 * Every function knows how much it is going to write before it writes, so there is one question about room and nothing to
 * take back.
 */
#include "capture/write.h"

#include <string.h>

#include "capture/container.h"

enum { PCAP_HEADER = 24, PACKET_HEAD = 28, PACKET_LEAST = 32, OPTION_HEAD = 4, STATISTICS = 60 };
enum { OPTION_COMMENT = 1, OPTION_FLAGS = 2, OPTION_IF_RECEIVED = 4, OPTION_IF_DROP = 5 };
enum { OPTION_APPLICATION = 4, OPTION_NAME = 2, OPTION_RESOLUTION = 9 };

#define SECOND INT64_C(1000000000)

/* Where to write; there is room, for whoever made it has asked. */
struct pen {
    uint8_t *at;
};

static void put16(struct pen *pen, uint32_t number)
{
    *pen->at++ = (uint8_t)number;
    *pen->at++ = (uint8_t)(number >> 8);
}

static void put32(struct pen *pen, uint32_t number)
{
    put16(pen, number);
    put16(pen, number >> 16);
}

static void put64(struct pen *pen, uint64_t number)
{
    put32(pen, (uint32_t)number);
    put32(pen, (uint32_t)(number >> 32));
}

static void put_bytes(struct pen *pen, const void *data, size_t size)
{
    if (size != 0) /* data may be null when there is nothing to copy */
        memcpy(pen->at, data, size);
    pen->at += size;
}

static size_t padded(size_t size)
{
    return (size + 3) & ~(size_t)3;
}

static void put_padded(struct pen *pen, const void *data, size_t size)
{
    put_bytes(pen, data, size);
    for (size_t i = size; i < padded(size); i++)
        *pen->at++ = 0;
}

static void put_option(struct pen *pen, uint32_t code, const void *value, size_t size)
{
    put16(pen, code);
    put16(pen, (uint32_t)size);
    put_padded(pen, value, size);
}

static void put_end(struct pen *pen)
{
    put_option(pen, 0, NULL, 0);
}

static size_t option_size(size_t size)
{
    return OPTION_HEAD + padded(size);
}

/* Room for |size| bytes at out[*at], which is moved behind them. */
static int take(uint8_t *out, size_t room, size_t *at, size_t size, struct pen *pen)
{
    if (*at > room || room - *at < size)
        return PYDDSI_NO_SPACE;
    pen->at = out + *at;
    *at += size;
    return PYDDSI_OK;
}

/* The same for a block, with its beginning written; block_end writes its end. */
static int block_begin(uint32_t kind, size_t size, uint8_t *out, size_t room, size_t *at,
                       struct pen *pen)
{
    int status = take(out, room, at, size, pen);
    if (status == PYDDSI_OK) {
        put32(pen, kind);
        put32(pen, (uint32_t)size);
    }
    return status;
}

static void block_end(struct pen *pen, size_t size)
{
    put32(pen, (uint32_t)size);
}

/* A frame that is none, or that nobody would read again. */
static int is_odd(const struct pdi_frame *frame)
{
    return frame->stranger || frame->size > PDI_FRAME_BYTES_MAX;
}

int pdi_write_pcap_header(uint16_t link, uint32_t snap, uint8_t *out, size_t room, size_t *at)
{
    struct pen pen;
    int status = take(out, room, at, PCAP_HEADER, &pen);
    if (status != PYDDSI_OK)
        return status;
    put32(&pen, UINT32_C(0xa1b23c4d));
    put16(&pen, 2); /* the version, which has been 2.4 since 1998 */
    put16(&pen, 4);
    put64(&pen, 0);
    put32(&pen, snap);
    put32(&pen, link);
    return PYDDSI_OK;
}

int pdi_write_pcap_frame(const struct pdi_frame *frame, uint8_t *out, size_t room, size_t *at)
{
    int64_t time_ns = frame->time_ns == PDI_TIME_NONE ? 0 : frame->time_ns;
    struct pen pen;
    if (is_odd(frame) || time_ns < 0 || time_ns / SECOND > (int64_t)UINT32_MAX)
        return PYDDSI_BAD_ARGUMENT;
    int status = take(out, room, at, PDI_RECORD_HEAD + (size_t)frame->size, &pen);
    if (status != PYDDSI_OK)
        return status;
    put32(&pen, (uint32_t)(time_ns / SECOND));
    put32(&pen, (uint32_t)(time_ns % SECOND));
    put32(&pen, frame->size);
    put32(&pen, frame->wire_size);
    put_bytes(&pen, frame->data, frame->size);
    return PYDDSI_OK;
}

int pdi_write_section(const char *application, uint8_t *out, size_t room, size_t *at)
{
    size_t length = strlen(application), size = 28 + option_size(length) + OPTION_HEAD;
    struct pen pen;
    if (length > UINT16_MAX)
        return PYDDSI_BAD_ARGUMENT;
    int status = block_begin(UINT32_C(0x0a0d0d0a), size, out, room, at, &pen);
    if (status != PYDDSI_OK)
        return status;
    put32(&pen, UINT32_C(0x1a2b3c4d));
    put16(&pen, 1);
    put16(&pen, 0);
    put64(&pen, UINT64_MAX); /* how long the section is: until it ends */
    put_option(&pen, OPTION_APPLICATION, application, length);
    put_end(&pen);
    block_end(&pen, size);
    return PYDDSI_OK;
}

int pdi_write_interface(uint16_t link, uint32_t snap, const char *name, uint8_t *out, size_t room,
                        size_t *at)
{
    const uint8_t nanoseconds = 9;
    size_t length = strlen(name);
    size_t size = 20 + option_size(length) + option_size(1) + OPTION_HEAD;
    struct pen pen;
    if (length > UINT16_MAX)
        return PYDDSI_BAD_ARGUMENT;
    int status = block_begin(1, size, out, room, at, &pen);
    if (status != PYDDSI_OK)
        return status;
    put16(&pen, link);
    put16(&pen, 0);
    put32(&pen, snap);
    put_option(&pen, OPTION_NAME, name, length);
    put_option(&pen, OPTION_RESOLUTION, &nanoseconds, 1);
    put_end(&pen);
    block_end(&pen, size);
    return PYDDSI_OK;
}

int pdi_write_frame_around(const struct pdi_frame *frame, pyddsi_bytes comment, uint8_t *out,
                           size_t room, size_t *at, uint8_t **data)
{
    int64_t time_ns = frame->time_ns == PDI_TIME_NONE ? 0 : frame->time_ns;
    int directed = frame->direction != PDI_WAY_UNKNOWN, commented = comment.size != 0;
    size_t options = (directed ? option_size(4) : 0) + (commented ? option_size(comment.size) : 0);
    size_t size = PACKET_LEAST + padded(frame->size) + options + (options != 0 ? OPTION_HEAD : 0);
    struct pen pen;
    if (is_odd(frame) || time_ns < 0 || comment.size > UINT16_MAX)
        return PYDDSI_BAD_ARGUMENT;
    int status = block_begin(6, size, out, room, at, &pen);
    if (status != PYDDSI_OK)
        return status;
    put32(&pen, frame->interface);
    put32(&pen, (uint32_t)((uint64_t)time_ns >> 32));
    put32(&pen, (uint32_t)time_ns);
    put32(&pen, frame->size);
    put32(&pen, frame->wire_size);
    *data = pen.at;
    pen.at += frame->size;
    put_bytes(&pen, (const uint8_t[4]){0}, padded(frame->size) - frame->size);
    if (directed) {
        const uint8_t flags[4] = {frame->direction == PDI_WAY_IN ? 1 : 2};
        put_option(&pen, OPTION_FLAGS, flags, sizeof(flags));
    }
    if (commented)
        put_option(&pen, OPTION_COMMENT, comment.data, comment.size);
    if (options != 0)
        put_end(&pen);
    block_end(&pen, size);
    return PYDDSI_OK;
}

int pdi_write_frame(const struct pdi_frame *frame, pyddsi_bytes comment, uint8_t *out, size_t room,
                    size_t *at)
{
    uint8_t *data;
    int status = pdi_write_frame_around(frame, comment, out, room, at, &data);
    if (status == PYDDSI_OK && frame->size != 0) /* its data may be null when there is none */
        memcpy(data, frame->data, frame->size);
    return status;
}

int pdi_write_statistics(uint32_t interface, int64_t time_ns, uint64_t received, uint64_t dropped,
                         uint8_t *out, size_t room, size_t *at)
{
    size_t size = 24 + 2 * option_size(8) + OPTION_HEAD;
    struct pen pen;
    if (time_ns < 0)
        return PYDDSI_BAD_ARGUMENT;
    int status = block_begin(5, size, out, room, at, &pen);
    if (status != PYDDSI_OK)
        return status;
    put32(&pen, interface);
    put32(&pen, (uint32_t)((uint64_t)time_ns >> 32));
    put32(&pen, (uint32_t)time_ns);
    put16(&pen, OPTION_IF_RECEIVED);
    put16(&pen, 8);
    put64(&pen, received);
    put16(&pen, OPTION_IF_DROP);
    put16(&pen, 8);
    put64(&pen, dropped);
    put_end(&pen);
    block_end(&pen, size);
    return PYDDSI_OK;
}
