/* scanned.h - scans with memory of their own, for tests and fuzzers, and their rows added up.
 *
 *     scanned_open(&scanned, &options);  scanned_read(&scanned, data, size);  scanned_finish(&scanned, true);
 *     scanned.rows
 *
 * Of the rows is told how many there are, and a number made of every value in them, whatever their order: so two ways to
 * read one capture can be compared without keeping them. Each batch is taken as soon as the scan says that it is full, and
 * must have rows then.
 */
#ifndef PDI_SCANNED_H
#define PDI_SCANNED_H

#include <stdlib.h>
#include <sys/mman.h>

#include "capture/hash.h"
#include "capture/scan.h"

#define SCANNED_MUST(condition)                                                                    \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

enum {
    SCANNED_CAPACITY = 140000,
    SCANNED_TEXT = 24 << 20,
    SCANNED_NULL = 0x5ca1ab1e,
    SCANNED_MIB = 16
};

struct scanned_rows {
    uint64_t count, sum;
};

struct scanned {
    struct pdi_scan *scan;
    struct scanned_rows rows;
    uint64_t batches;
    uint8_t *memory, *arrays;
    uint32_t capacity; /* of a batch; 0: SCANNED_CAPACITY */
};

#define SCANNED_COLUMN ((size_t)SCANNED_TEXT + (size_t)SCANNED_CAPACITY * 10)

static inline size_t scanned_memory_size(void)
{
    pyddsi_scan_options most = {.tally = 1, .window_ns = 1, .memory_mib = SCANNED_MIB};
    return pdi_scan_size(&most) + (size_t)PDI_NOTES_MAX * sizeof(pyddsi_note);
}

/* Pages that are given back are zero when they are touched again, which costs only those that were. */
static inline uint8_t *scanned_pages(uint8_t *at, size_t size)
{
    if (at != NULL) {
        (void)madvise(at, size, MADV_DONTNEED);
        return at;
    }
    at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
              0);
    SCANNED_MUST(at != MAP_FAILED);
    return at;
}

static inline void scanned_batch(struct scanned *scanned)
{
    struct pdi_sink *sink = scanned->scan->sink;
    scanned->arrays = scanned_pages(scanned->arrays, PYDDSI_COLUMNS_MAX * SCANNED_COLUMN);
    for (uint32_t i = 0; i < sink->count; i++) {
        const struct pdi_column *column = &sink->table->columns[sink->wanted[i]];
        uint8_t *at = scanned->arrays + i * SCANNED_COLUMN;
        sink->array[i].values = at;
        sink->array[i].room = SCANNED_TEXT;
        sink->array[i].valid = column->said.nullable ? at + SCANNED_TEXT : NULL;
        sink->array[i].offsets = (void *)(at + SCANNED_TEXT + SCANNED_CAPACITY / 4);
    }
    pdi_sink_begin(sink, scanned->capacity != 0 ? scanned->capacity : SCANNED_CAPACITY);
}

/* A value of a batch that was flushed, as one number; what has any length by what it holds. */
static inline uint64_t scanned_value(const struct pdi_sink *sink, uint32_t i, uint32_t row)
{
    static const uint8_t widths[] = {1, 2, 4, 8, 0, 8};
    const struct pdi_array *array = &sink->array[i];
    unsigned type = sink->table->columns[sink->wanted[i]].said.type;
    uint64_t value = 0;
    if (array->valid != NULL && !(array->valid[row / 8] >> row % 8 & 1))
        return SCANNED_NULL;
    if (type == PYDDSI_COLUMN_BOOL)
        return array->values[row / 8] >> row % 8 & 1;
    if (type < PYDDSI_COLUMN_TEXT) {
        memcpy(&value, array->values + (size_t)row * widths[type], widths[type]);
        return value;
    }
    size_t width = type == PYDDSI_COLUMN_COUNTS ? 8 : 1;
    SCANNED_MUST(array->offsets[row] >= 0 && array->offsets[row] <= array->offsets[row + 1]);
    SCANNED_MUST((size_t)array->offsets[row + 1] * width <= array->used);
    SCANNED_MUST(array->used <= array->room);
    for (int32_t at = array->offsets[row]; at < array->offsets[row + 1]; at++)
        value = pdi_mix(value, array->values[(size_t)at * width]);
    return value;
}

/* Takes the rows that are there. */
static inline void scanned_take(struct scanned *scanned)
{
    struct pdi_sink *sink = scanned->scan->sink;
    pdi_sink_flush(sink);
    SCANNED_MUST(sink->rows <= sink->capacity);
    for (uint32_t row = 0; row < sink->rows; row++) {
        uint64_t hash = 1;
        for (uint32_t i = 0; i < sink->count; i++)
            hash = pdi_mix(hash, scanned_value(sink, i, row));
        scanned->rows.sum += hash;
    }
    scanned->rows.count += sink->rows;
    scanned->batches += sink->rows != 0;
    scanned_batch(scanned);
}

/* Another scan in the same memory; the rows go on being added up. */
static inline int scanned_open(struct scanned *scanned, const pyddsi_scan_options *options)
{
    static const uint64_t seed[2] = {1, 2};
    pyddsi_scan_options little = *options;
    little.memory_mib =
        SCANNED_MIB; /* so that tables are full at times, and their rows fit the batches here */
    SCANNED_MUST(pdi_scan_size(&little) <= scanned_memory_size());
    scanned->memory = scanned_pages(scanned->memory, scanned_memory_size());
    int status = pdi_scan_init(&scanned->scan, scanned->memory, &little, seed);
    if (status == PYDDSI_OK && scanned->scan->sink != NULL)
        scanned_batch(scanned);
    return status;
}

/* A batch that is full has rows. */
static inline void scanned_full(struct scanned *scanned)
{
    uint64_t before = scanned->rows.count;
    scanned_take(scanned);
    SCANNED_MUST(scanned->rows.count > before);
}

/* Reads on to the end of the bytes, or to the limit; answers where that is. */
static inline size_t scanned_read(struct scanned *scanned, const uint8_t *data, size_t size)
{
    size_t at = 0, used;
    int status;
    do { /* see scanned_full */
        status = pdi_scan_input(scanned->scan, data + at, size - at, &used);
        SCANNED_MUST(used <= size - at);
        at += used;
        if (status == PYDDSI_AGAIN)
            scanned_full(scanned);
    } while (status == PYDDSI_AGAIN);
    SCANNED_MUST(status == PYDDSI_OK || status == PYDDSI_END || status == PYDDSI_BAD_INPUT);
    return at;
}

static inline void scanned_finish(struct scanned *scanned, bool whole)
{
    while (pdi_scan_finish(scanned->scan, whole) == PYDDSI_AGAIN)
        scanned_full(scanned);
    if (scanned->scan->sink != NULL)
        scanned_take(scanned);
}

#endif
