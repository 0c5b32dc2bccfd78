/* snapshot.h - what must be remembered between packets, as bytes and back.
 *
 * A machine stores itself as numbers (base/bytes.h's VLE, so that small ones cost one byte) and runs of bytes, in the
 * same order on every machine. It is run twice: once without memory, which only counts, and once to write; so the size
 * that is promised and the bytes that are written cannot differ.
 *
 * Who reads one back believes nothing: each number has its limits, and only its shortest form is taken. So what was
 * read and is stored again is the same bytes.
 */
#ifndef PDI_CAPTURE_SNAPSHOT_H
#define PDI_CAPTURE_SNAPSHOT_H

#include <stdbool.h>

#include "base/bytes.h"

struct pdi_snapshot {
    uint8_t *out; /* null: only counted */
    size_t size;
};

static inline void pdi_snapshot_bytes(struct pdi_snapshot *snapshot, const uint8_t *data,
                                      size_t size)
{
    if (snapshot->out != NULL && size != 0)
        memcpy(snapshot->out + snapshot->size, data, size);
    snapshot->size += size;
}

static inline void pdi_snapshot_number(struct pdi_snapshot *snapshot, uint64_t value)
{
    uint8_t bytes[PDI_VLE_MAX];
    struct pdi_writer writer = {bytes, bytes + sizeof(bytes)};
    (void)pdi_vle_put(&writer, value); /* the longest fits */
    pdi_snapshot_bytes(snapshot, bytes, (size_t)(writer.at - bytes));
}

/* Takes a number off the front; answers whether there is one, and in min .. max. */
static inline bool pdi_snapshot_get(struct pdi_reader *reader, uint64_t min, uint64_t max,
                                    uint64_t *value)
{
    return pdi_vle_get(reader, max, PDI_VLE_MAX, value) == PDI_VLE_OK && *value >= min;
}

/* Takes |size| bytes off the front; answers whether there are so many. */
static inline bool pdi_snapshot_take(struct pdi_reader *reader, uint8_t *out, size_t size)
{
    if (pdi_reader_left(reader) < size)
        return false;
    if (size != 0)
        memcpy(out, reader->at, size);
    reader->at += size;
    return true;
}

#endif
