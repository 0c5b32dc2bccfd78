/* sink.h - rows become columns: the arrays of one batch, and how they are filled.
 *
 *     row ─► filter ─► block of 128 rows ─► one loop for each wanted column ─► arrays of the batch
 *                      in the nearest cache                                     the caller's memory
 *
 * A row is written once as a struct, and taken apart block by block, so each loop moves one kind of value and the compiler
 * makes it fast. Values of any length (names, payloads, texts) are appended at once, row by row, while what they are views
 * of is still there.
 *
 * The arrays belong to whoever gives them (pdi_sink_begin): numbers by their width, truths as bits, and for each column that
 * has nulls a bitmap of what is there, as Arrow wants them.
 */
#ifndef PDI_CAPTURE_SINK_H
#define PDI_CAPTURE_SINK_H

#include "capture/filter.h"
#include "capture/table.h"

enum {
    PDI_SINK_BLOCK = 128,
    PDI_SINK_ROW_MAX = 512,       /* bytes of the largest row */
    PDI_SINK_VALUE_MAX = 1 << 18, /* bytes of the longest value */
};

/* The memory of one column in a batch. */
struct pdi_array {
    uint8_t *
        values; /* capacity x width; of truths bits; of what has any length the bytes themselves, or 64-bit counts */
    uint8_t *valid;   /* bits; null: the column has no nulls */
    int32_t *offsets; /* of what has any length: capacity + 1 */
    size_t room;      /* bytes of values, of what has any length */
    size_t used;
    uint32_t nulls;
};

struct pdi_sink {
    const struct pdi_table *table;
    const struct pdi_filter *filter;     /* null: every row */
    uint32_t wanted[PYDDSI_COLUMNS_MAX]; /* columns of the table */
    uint32_t count;
    uint32_t capacity;
    uint32_t rows;    /* in the arrays */
    uint32_t pending; /* in the block */
    uint32_t packets; /* places of packets in use */
    uint8_t placed;   /* the packet at hand has a place */
    uint8_t varying;  /* a column of any length is wanted */
    size_t counts;    /* bytes of counts that there has to be room for */
    /* bytes that are free in the column of texts, and in that of counts, that has the fewest */
    size_t text_room, counts_room;
    struct pdi_array array[PYDDSI_COLUMNS_MAX];
    struct pdi_row_packet packet[PDI_SINK_BLOCK];
    /* rows, one behind the other */
    _Alignas(16) uint8_t block[(size_t)PDI_SINK_BLOCK * PDI_SINK_ROW_MAX];
};

/* For the wanted columns (bits) of a table. */
void pdi_sink_init(struct pdi_sink *sink, const struct pdi_table *table, uint64_t columns,
                   const struct pdi_filter *filter);
/* Whether a column is wanted, by where its value stands. */
bool pdi_sink_wants(const struct pdi_sink *sink, size_t at, bool of_packet);

/* A new batch: array[i] has the memory for column wanted[i], cleared bitmaps among it. */
void pdi_sink_begin(struct pdi_sink *sink, uint32_t capacity);
/* Whether so many more rows fit, and so many bytes in each column of texts. */
static inline bool pdi_sink_fits(const struct pdi_sink *sink, size_t rows, size_t bytes)
{
    return sink->capacity - sink->rows - sink->pending >= rows && sink->text_room >= bytes &&
           sink->counts_room >= sink->counts;
}

/* Takes the block apart: afterwards the arrays hold |rows| rows. */
void pdi_sink_flush(struct pdi_sink *sink);

/* Another packet is at hand: its place, to be filled at once. */
static inline struct pdi_row_packet *pdi_sink_packet(struct pdi_sink *sink)
{
    sink->placed = 0;
    if (sink->packets == PDI_SINK_BLOCK) {
        pdi_sink_flush(sink);
    }
    sink->placed = 1;
    return &sink->packet[sink->packets++];
}

/* Memory for the next row, which is in the batch when it is put; one that is not put is forgotten. */
static inline void *pdi_sink_row(struct pdi_sink *sink)
{
    if (sink->pending == PDI_SINK_BLOCK) {
        pdi_sink_flush(sink);
    }
    struct pdi_row *row = (void *)(sink->block + (size_t)sink->pending * sink->table->row_bytes);
    row->packet = sink->packets - 1;
    return row;
}

/* The same of a row that is filtered, or has values of any length. */
bool pdi_sink_put_any(struct pdi_sink *sink);

/* Answers whether it was let through. */
static inline bool pdi_sink_put(struct pdi_sink *sink)
{
    if (sink->filter != NULL || sink->varying) {
        return pdi_sink_put_any(sink);
    }
    sink->pending++;
    return true;
}

#endif
