/* scan.c - the front door of captures: scans with memory of their own, and the arrays of their batches.
 *
 * The core fills arrays that belong to a batch. A batch that is taken goes to whoever takes it, with its memory (arrow.c):
 * nobody copies it, and the next one has memory of its own. Memory that comes back is used again, since fresh pages cost as
 * much as filling them.
 *
 *     pool ──► batch being filled ──► taken ──► (pyarrow, polars, DuckDB) ──► released ──► pool, or freed
 *
 * The pool outlives the scan for as long as a batch of it is out; both are counted.
 */
#include "api/scan.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/bitset.h"
#include "capture/write.h"

#define BATCH_ROWS 65536U
#define SPARE_ROWS                                                                                 \
    70000U /* what one packet, or one round of a table, can add to a batch that is nearly full */
#define TEXT_BYTES (24U << 20) /* room of a column of texts in a batch */
#define POOL_MAX   3U          /* batches kept for the next use */
#define ALIGNMENT  64U

static size_t up(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- the memory of batches ---- */

static size_t width_of(unsigned type)
{
    static const uint8_t widths[] = {1, 2, 4, 8, 0, 8};
    return type < sizeof widths ? widths[type] : 0;
}

/* How the memory of a batch is cut; the same for all batches of a pool. */
static void lay_out(struct pdi_pool_shape *shape, const struct pdi_sink *sink, uint32_t capacity,
                    size_t text_bytes)
{
    size_t at = 0;
    shape->count = sink->count;
    for (uint32_t i = 0; i < sink->count; i++) {
        const struct pdi_column *column = &sink->table->columns[sink->wanted[i]];
        struct pdi_shape *one = &shape->column[i];
        one->column = column;
        one->valid = one->offsets = SIZE_MAX;
        if (column->said.nullable) {
            one->valid = at;
            at += up(capacity / 8 + 1);
        }
        one->values = at;
        if (column->said.type == PYDDSI_COLUMN_BOOL) {
            at += up(capacity / 8 + 1);
        } else if (column->said.type < PYDDSI_COLUMN_TEXT) {
            at += up(capacity * width_of(column->said.type));
        } else {
            one->offsets = at;
            at += up((capacity + 1) * sizeof(int32_t));
            one->values = at;
            one->room = column->said.type == PYDDSI_COLUMN_COUNTS ? 2 * sink->counts
                                                                  : TEXT_BYTES + text_bytes;
            at += up(one->room);
        }
    }
    shape->bytes = at;
    shape->capacity = capacity;
}

static void pool_leave(struct pdi_arrow_pool *pool)
{
    if (pdi_atomic32_add(&pool->users, UINT32_MAX) == 1) {
        for (uint32_t i = 0; i < pool->free_count; i++) {
            free(pool->free[i]);
        }
        free(pool);
    }
}

void pdi_batch_leave(struct pdi_arrow_batch *batch)
{
    struct pdi_arrow_pool *pool = batch->pool;
    if (pdi_atomic32_add(&batch->users, UINT32_MAX) != 1) {
        return;
    }
    pdi_lock_take(&pool->lock);
    bool kept = pool->free_count < POOL_MAX && !pool->closed;
    if (kept) {
        pool->free[pool->free_count++] = batch;
    }
    pdi_lock_give(&pool->lock);
    if (!kept) {
        free(batch);
    }
    pool_leave(pool);
}

/* Memory for the next batch, as the sink wants it. */
static int batch_begin(pyddsi_scan *scan)
{
    struct pdi_arrow_pool *pool = scan->pool;
    struct pdi_arrow_batch *batch = NULL;
    pdi_lock_take(&pool->lock);
    if (pool->free_count != 0) {
        batch = pool->free[--pool->free_count];
    }
    pdi_lock_give(&pool->lock);
    if (batch == NULL) {
        batch = aligned_alloc(ALIGNMENT, up(sizeof *batch) + up(pool->shape.bytes));
        if (batch == NULL) {
            return PYDDSI_NO_SPACE;
        }
    }
    batch->pool = pool;
    batch->memory = (uint8_t *)batch + up(sizeof *batch);
    pdi_atomic32_store_relaxed(&batch->users, 1);
    (void)pdi_atomic32_add(&pool->users, 1);
    struct pdi_sink *sink = scan->core->sink;
    for (uint32_t i = 0; i < sink->count; i++) {
        const struct pdi_shape *shape = &pool->shape.column[i];
        struct pdi_array *array = &sink->array[i];
        array->values = batch->memory + shape->values;
        array->valid = shape->valid != SIZE_MAX ? batch->memory + shape->valid : NULL;
        array->offsets =
            shape->offsets != SIZE_MAX ? (void *)(batch->memory + shape->offsets) : NULL;
        array->room = shape->room;
        if (shape->valid != SIZE_MAX) {
            memset(array->valid, 0, pool->shape.capacity / 8 + 1);
        }
        if (shape->column->said.type == PYDDSI_COLUMN_BOOL) {
            memset(array->values, 0, pool->shape.capacity / 8 + 1);
        }
    }
    pdi_sink_begin(sink, pool->shape.capacity);
    scan->batch = batch;
    return PYDDSI_OK;
}

/* ---- opening and closing ---- */

/* Rows of a batch that is told to be full at so many. */
static uint32_t capacity_of(const pyddsi_scan *scan, uint32_t rows)
{
    size_t burst = scan->core->burst_rows;
    return rows + (burst > SPARE_ROWS ? (uint32_t)burst : SPARE_ROWS);
}

pyddsi_scan *pyddsi_scan_open(const pyddsi_scan_options *options, int *status)
{
    uint64_t seed[2] = {0};
    size_t size = pdi_scan_size(options);
    pyddsi_scan *scan = calloc(1, sizeof *scan);
    /* calloc: nearly all of it is never touched, and costs nothing then */
    uint8_t *memory = scan != NULL ? calloc(1, size + ALIGNMENT) : NULL;
    struct pdi_arrow_pool *pool = memory != NULL ? calloc(1, sizeof *pool) : NULL;
    *status = PYDDSI_NO_SPACE;
    /* without it strangers could choose what is slow, and no more */
    (void)getrandom(seed, sizeof seed, 0);
    if (pool != NULL) {
        scan->memory = memory;
        scan->pool = pool;
        pdi_atomic32_store_relaxed(&pool->users, 1);
        *status = pdi_scan_init(&scan->core, memory + up((uintptr_t)memory) - (uintptr_t)memory,
                                options, seed);
    }
    if (*status == PYDDSI_OK && scan->core->sink != NULL) {
        lay_out(&pool->shape, scan->core->sink,
                capacity_of(scan, options->rows != 0 ? options->rows : BATCH_ROWS),
                scan->core->burst_bytes);
        *status = batch_begin(scan);
    }
    if (*status != PYDDSI_OK) {
        free(pool);
        free(memory);
        free(scan);
        return NULL;
    }
    return scan;
}

void pyddsi_scan_close(pyddsi_scan *scan)
{
    if (scan == NULL) {
        return;
    }
    if (scan->batch != NULL) {
        pdi_batch_leave(scan->batch);
    }
    pdi_lock_take(&scan->pool->lock);
    scan->pool->closed = 1;
    pdi_lock_give(&scan->pool->lock);
    pool_leave(scan->pool);
    free(scan->memory);
    free(scan);
}

/* ---- reading ---- */

int pyddsi_scan_restore(pyddsi_scan *scan, const uint8_t *snapshot, size_t size)
{
    int status = pdi_scan_load(scan->core, snapshot, size);
    pdi_trace_begin(scan->core->trace);
    return status;
}

size_t pyddsi_scan_snapshot(pyddsi_scan *scan, uint8_t *out, size_t room)
{
    return pdi_scan_store(scan->core, out, room);
}

int pyddsi_scan_input(pyddsi_scan *scan, const uint8_t *data, size_t size, size_t *used)
{
    return pdi_scan_input(scan->core, data, size, used);
}

void pyddsi_scan_file(pyddsi_scan *scan, int32_t number, int32_t recording)
{
    pdi_container_init(&scan->core->container);
    scan->core->options.file = number;
    scan->core->options.recording = recording;
    scan->core->trace->file = number;
    scan->core->trace->files++;
}

void pyddsi_scan_limit(pyddsi_scan *scan, uint64_t offset)
{
    scan->core->limit = offset;
    scan->core->facts.range_first_ns = scan->core->facts.range_last_ns = PDI_TIME_NONE;
}

int pyddsi_scan_finish(pyddsi_scan *scan, int whole)
{
    return pdi_scan_finish(scan->core, whole != 0);
}

/* From one pool to the next: batches of the old one may still be out. */
static int pool_again(pyddsi_scan *scan)
{
    struct pdi_arrow_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
        return PYDDSI_NO_SPACE;
    }
    if (scan->batch != NULL) {
        pdi_batch_leave(scan->batch);
        scan->batch = NULL;
    }
    pdi_lock_take(&scan->pool->lock);
    scan->pool->closed = 1;
    pdi_lock_give(&scan->pool->lock);
    pool_leave(scan->pool);
    scan->pool = pool;
    pdi_atomic32_store_relaxed(&pool->users, 1);
    lay_out(&pool->shape, scan->core->sink, capacity_of(scan, BATCH_ROWS), scan->core->burst_bytes);
    return batch_begin(scan);
}

int pyddsi_scan_tell(pyddsi_scan *scan, int table, uint64_t columns)
{
    int status = pdi_scan_tell(scan->core, table, columns);
    return status == PYDDSI_OK ? pool_again(scan) : status;
}

int pyddsi_scan_packet(pyddsi_scan *scan, const uint8_t *data, size_t size, size_t *used,
                       pyddsi_packet *packet)
{
    return pdi_scan_packet(scan->core, data, size, used, packet);
}

int pyddsi_scan_packet_from(pyddsi_scan *scan, const uint8_t *data, size_t size, size_t *used,
                            pyddsi_packet *packet, pyddsi_line *line, int64_t from_ns, int absolute)
{
    return pdi_scan_packet_from(scan->core, data, size, used, packet, line, from_ns, absolute != 0);
}

int pyddsi_scan_item(pyddsi_scan *scan, const uint8_t *data, size_t size, size_t *used,
                     pyddsi_item *item)
{
    return pdi_scan_item(scan->core, data, size, used, item);
}

int pyddsi_write_datagram(int format, int64_t time_ns, const pyddsi_endpoint *source,
                          const pyddsi_endpoint *target, const uint8_t *data, size_t size,
                          uint8_t *out, size_t room, size_t *at)
{
    uint8_t packet[65536 + 64];
    struct pdi_synthetic synthetic = {
        .source = *source, .target = *target, .data = data, .size = (uint32_t)size};
    struct pdi_frame frame = {.time_ns = time_ns, .data = packet, .link = 101};
    size_t length = 0;
    int status = size <= UINT16_MAX
                     ? pdi_write_synthetic(&synthetic, packet, sizeof packet, &length)
                     : PYDDSI_BAD_ARGUMENT;
    if (status != PYDDSI_OK) {
        return status == PYDDSI_NO_SPACE ? PYDDSI_BAD_ARGUMENT : status;
    }
    frame.size = frame.wire_size = (uint32_t)length;
    return format == PDI_CONTAINER_PCAPNG
               ? pdi_write_frame(&frame, (pyddsi_bytes){NULL, 0}, out, room, at)
               : pdi_write_pcap_frame(&frame, out, room, at);
}

void pyddsi_scan_end(pyddsi_scan *scan)
{
    pdi_scan_end(scan->core);
}

void pyddsi_scan_copy(pyddsi_scan *scan, pyddsi_copy *copy)
{
    scan->core->copy = copy;
    scan->core->light = !copy->ours && !copy->hide && scan->core->light;
}

int pyddsi_write_header(int format, uint16_t link, const char *application, uint8_t *out,
                        size_t room, size_t *at)
{
    return format == PDI_CONTAINER_PCAPNG
               ? pdi_write_section(application, out, room, at)
               : pdi_write_pcap_header(link, PDI_FRAME_BYTES_MAX, out, room, at);
}

int pyddsi_write_interface(uint16_t link, uint8_t *out, size_t room, size_t *at)
{
    return pdi_write_interface(link, PDI_FRAME_BYTES_MAX, "", out, room, at);
}

int pyddsi_write_statistics(int64_t time_ns, uint64_t received, uint64_t dropped, uint8_t *out,
                            size_t room, size_t *at)
{
    return pdi_write_statistics(0, time_ns, received, dropped, out, room, at);
}

const pyddsi_note *pyddsi_scan_notes(const pyddsi_scan *scan)
{
    return scan->core->notes;
}

pyddsi_bytes pyddsi_scan_name(const pyddsi_scan *scan, const pyddsi_endpoint *source, uint8_t space,
                              uint64_t rid)
{
    return pdi_scan_name(scan->core, source, space, rid);
}

struct pdi_arrow_batch *pdi_scan_take(pyddsi_scan *scan, int *status)
{
    struct pdi_sink *sink = scan->core->sink;
    *status = sink != NULL ? PYDDSI_OK : PYDDSI_END;
    if (sink == NULL) {
        return NULL;
    }
    pdi_sink_flush(sink);
    if (sink->rows == 0) {
        *status = PYDDSI_END;
        return NULL;
    }
    struct pdi_arrow_batch *batch = scan->batch;
    batch->rows = sink->rows;
    scan->rows += sink->rows;
    for (uint32_t i = 0; i < sink->count; i++) {
        batch->nulls[i] = sink->array[i].nulls;
    }
    *status = batch_begin(scan);
    if (*status != PYDDSI_OK) {
        scan->batch = batch;
        return NULL;
    }
    return batch;
}

/* ---- looking ---- */

const pyddsi_column *pyddsi_table_column(int table, int column)
{
    if (table < 0 || table >= PYDDSI_TABLE_COUNT || column < 0 ||
        (uint32_t)column >= pdi_tables[table].count) {
        return NULL;
    }
    return &pdi_tables[table].columns[column].said;
}

const char *pyddsi_table_name(int table)
{
    return table >= 0 && table < PYDDSI_TABLE_COUNT ? pdi_tables[table].name : NULL;
}

const char *pyddsi_event_word(int event)
{
    return event >= 0 && event < PDI_EVENT_COUNT ? pdi_event_name((unsigned)event) : NULL;
}

void pyddsi_other_print(int other, uint32_t detail, char *out, size_t room)
{
    pdi_other_print((unsigned)other, detail, out, room);
}

void pyddsi_scan_damage(const pyddsi_scan *scan, char *out, size_t room)
{
    pdi_container_why(&scan->core->container, out, room);
}

void pyddsi_scan_look(pyddsi_scan *scan, pyddsi_scan_facts *facts)
{
    pdi_scan_look(scan->core, facts);
    facts->rows = scan->rows;
}
