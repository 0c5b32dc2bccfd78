/* bytes.h - reading and writing bytes inside bounds.
 *
 * A reader is a pointer and an end, a writer the same with a wish to write; nothing in the core
 * touches bytes from outside except through these functions, so the question "can it read past the
 * end?" has one place to be asked.
 *
 * VLE is the protocol's number: seven bits a byte, least significant group first, the top bit set
 * on all bytes but the last. The shortest form is the only one we write. On reading, longer forms
 * are taken as long as they fit the field: a field has a largest value and a largest number of
 * bytes (3 for 16 bits, 5 for 32, 10 for 64), and a byte that could only make the number larger
 * than that is an overflow even before the number ends.
 *
 * Numbers of one and two bytes are nearly all there is, so they are read inline; the loop for the
 * rest is a call.
 */
#ifndef PDI_BASE_BYTES_H
#define PDI_BASE_BYTES_H

#include <string.h>

#include "base/check.h"
#include "pyddsi.h"

#define PDI_VLE_MAX 10U /* bytes of the longest number */

struct pdi_reader {
    const uint8_t *at;
    const uint8_t *end;
};

struct pdi_writer {
    uint8_t *at;
    uint8_t *end;
};

/* What reading a number may answer. */
enum pdi_vle {
    PDI_VLE_OK,
    PDI_VLE_LONG_FORM, /* read, but a shorter form exists */
    PDI_VLE_CUT,       /* the bytes end inside the number */
    PDI_VLE_WIDE,      /* over the field's largest value or number of bytes */
};

static inline size_t pdi_reader_left(const struct pdi_reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

/* The general case of pdi_vle_get. */
enum pdi_vle pdi_vle_get_long(struct pdi_reader *reader, uint64_t max, unsigned bytes_max,
                              uint64_t *value);

/* Reads a number of at most |max| in at most |bytes_max| bytes. Unless the answer is OK or
 * LONG_FORM neither the reader nor the value has changed. */
static inline enum pdi_vle pdi_vle_get(struct pdi_reader *reader, uint64_t max, unsigned bytes_max,
                                       uint64_t *value)
{
    const uint8_t *at = reader->at;
    size_t left = pdi_reader_left(reader);
    if (left >= 1 && at[0] < 0x80 && at[0] <= max) {
        *value = at[0];
        reader->at = at + 1;
        return PDI_VLE_OK;
    }
    if (left >= 2 && at[1] - 1U < 0x7f && bytes_max >= 2) {
        uint64_t two = (uint64_t)(at[0] & 0x7f) | (uint64_t)at[1] << 7;
        if (at[0] >= 0x80 && two <= max) {
            *value = two;
            reader->at = at + 2;
            return PDI_VLE_OK;
        }
    }
    return pdi_vle_get_long(reader, max, bytes_max, value);
}

/* How many bytes the shortest form of |value| has. */
static inline unsigned pdi_vle_size(uint64_t value)
{
    unsigned bits = 64U - (unsigned)__builtin_clzll(value | 1);
    return (bits + 6) / 7;
}

/* Writes the shortest form. OK, or NO_SPACE and nothing is written. */
static inline int pdi_vle_put(struct pdi_writer *writer, uint64_t value)
{
    size_t room = (size_t)(writer->end - writer->at);
    if (room < PDI_VLE_MAX && room < pdi_vle_size(value))
        return PYDDSI_NO_SPACE;
    uint8_t *at = writer->at;
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    writer->at = at;
    return PYDDSI_OK;
}

static inline int pdi_byte_put(struct pdi_writer *writer, uint8_t value)
{
    if (writer->at == writer->end)
        return PYDDSI_NO_SPACE;
    *writer->at++ = value;
    return PYDDSI_OK;
}

static inline int pdi_bytes_put(struct pdi_writer *writer, const uint8_t *data, size_t size)
{
    if ((size_t)(writer->end - writer->at) < size)
        return PYDDSI_NO_SPACE;
    if (size != 0) /* data may be null when there is nothing to copy */
        memcpy(writer->at, data, size);
    writer->at += size;
    return PYDDSI_OK;
}

#endif
