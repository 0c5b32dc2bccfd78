/* sink.c - see sink.h. */
#include "capture/sink.h"

#include <string.h>

#include "base/check.h"

enum { TEXT_ROOM = 80 };

static bool varies(const struct pdi_column *column)
{
    return column->said.type >= PYDDSI_COLUMN_TEXT;
}

void pdi_sink_init(struct pdi_sink *sink, const struct pdi_table *table, uint64_t columns,
                   const struct pdi_filter *filter)
{
    PDI_CHECK(table->row_bytes <= PDI_SINK_ROW_MAX);
    sink->table = table;
    sink->filter = filter;
    sink->count = 0;
    sink->varying = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        if (columns >> i & 1) {
            sink->varying |= varies(&table->columns[i]);
            sink->wanted[sink->count++] = i;
        }
    }
    sink->capacity = sink->rows = sink->pending = sink->packets = 0;
    sink->placed = 0;
    sink->counts = 0;
}

bool pdi_sink_wants(const struct pdi_sink *sink, size_t at, bool of_packet)
{
    for (uint32_t i = 0; i < sink->count; i++) {
        const struct pdi_column *column = &sink->table->columns[sink->wanted[i]];
        if (column->at == at && column->of_packet == of_packet) {
            return true;
        }
    }
    for (uint32_t i = 0; sink->filter != NULL && i < sink->filter->count; i++) {
        const pyddsi_where *step = &sink->filter->steps[i];
        if (step->step == PYDDSI_STEP_COLUMN && sink->table->columns[step->a].at == at &&
            sink->table->columns[step->a].of_packet == of_packet) {
            return true;
        }
    }
    return false;
}

static void keep_room(struct pdi_sink *sink, const struct pdi_column *column,
                      const struct pdi_array *array)
{
    size_t room = array->room - array->used;
    size_t *least =
        column->said.type == PYDDSI_COLUMN_COUNTS ? &sink->counts_room : &sink->text_room;
    *least = room < *least ? room : *least;
}

void pdi_sink_begin(struct pdi_sink *sink, uint32_t capacity)
{
    sink->capacity = capacity;
    sink->rows = sink->pending =
        0; /* the packet at hand stays: a batch may be full in its middle */
    sink->text_room = sink->counts_room = SIZE_MAX;
    for (uint32_t i = 0; i < sink->count; i++) {
        const struct pdi_column *column = &sink->table->columns[sink->wanted[i]];
        sink->array[i].used = 0;
        sink->array[i].nulls = 0;
        if (varies(column)) {
            sink->array[i].offsets[0] = 0;
            keep_room(sink, column, &sink->array[i]);
        }
    }
}

/* ---- values of any length ---- */

static void append_counts(struct pdi_array *array, const uint32_t *counts)
{
    for (unsigned i = 0; counts != NULL && i < PDI_PLACES; i++) {
        uint64_t count = counts[i];
        memcpy(array->values + array->used, &count, sizeof count);
        array->used += sizeof count;
    }
}

/* Names are ASCII; what came from outside and is none must not make a text that nobody can read. */
static void make_plain(uint8_t *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        text[i] = text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?';
    }
}

static void append(struct pdi_sink *sink, uint32_t i, const void *row,
                   const struct pdi_row_packet *packet)
{
    const struct pdi_column *column = &sink->table->columns[sink->wanted[i]];
    struct pdi_array *array = &sink->array[i];
    uint32_t at = sink->rows + sink->pending;
    bool there = true;
    if (column->load == PDI_LOAD_COUNTS) {
        const uint32_t *counts =
            *(const uint32_t *const *)(const void *)((const char *)row + column->at);
        there = counts != NULL;
        append_counts(array, counts);
        array->offsets[at + 1] = (int32_t)(array->used / sizeof(uint64_t));
    } else {
        char room[TEXT_ROOM];
        pyddsi_bytes text = pdi_column_text(column, row, packet, room, sizeof room);
        there = text.data != NULL;
        size_t size = text.size < PDI_SINK_VALUE_MAX ? text.size : PDI_SINK_VALUE_MAX;
        if (there && size != 0) {
            memcpy(array->values + array->used, text.data, size);
        }
        if (column->said.type == PYDDSI_COLUMN_TEXT && column->load == PDI_LOAD_VIEW) {
            make_plain(array->values + array->used, size);
        }
        array->used += size;
        array->offsets[at + 1] = (int32_t)array->used;
    }
    keep_room(sink, column, array);
    if (array->valid != NULL) {
        array->valid[at / 8] |= (uint8_t)(there << at % 8);
        array->nulls += !there;
    }
}

/* The packet of a row; null: its table has none. */
static const struct pdi_row_packet *packet_of(const struct pdi_sink *sink,
                                              const struct pdi_row *row)
{
    return sink->packets != 0 ? &sink->packet[row->packet] : NULL;
}

bool pdi_sink_put_any(struct pdi_sink *sink)
{
    const void *row = sink->block + (size_t)sink->pending * sink->table->row_bytes;
    const struct pdi_row_packet *packet = packet_of(sink, row);
    if (sink->filter != NULL && !pdi_filter_test(sink->filter, row, packet)) {
        return false;
    }
    for (uint32_t i = 0; sink->varying && i < sink->count; i++) {
        if (varies(&sink->table->columns[sink->wanted[i]])) {
            append(sink, i, row, packet);
        }
    }
    sink->pending++;
    return true;
}

/* ---- values of one width: a loop for each way, so that each is fast ---- */

/* Where the values of a column stand: |base| + place[i]. What is written may be anything, so all of it is in local variables
 * while a loop runs. */
struct walk {
    const char *base;
    const uint32_t *place;
    uint32_t count;
};

/* Types stand without parentheses. NOLINTBEGIN(bugprone-macro-parentheses) */
#define MOVE(walk, type, out_type, out)                                                            \
    do {                                                                                           \
        out_type *restrict to = (out_type *)(void *)(out);                                         \
        const char *base = (walk)->base;                                                           \
        const uint32_t *restrict place = (walk)->place;                                            \
        for (uint32_t i = 0, count = (walk)->count; i < count; i++) {                              \
            to[i] = (out_type) * (const type *)(const void *)(base + place[i]);                    \
        }                                                                                          \
    } while (0)
/* NOLINTEND(bugprone-macro-parentheses) */

/* Truths, one in each byte and 0 behind the last, into a bitmap of zeros from bit |from| on; eight at a time: the factor
 * brings bit 0 of byte i to bit 56 + i. */
static void put_bits(uint8_t *bits, uint32_t from, const uint8_t *truths, uint32_t count)
{
    for (uint32_t i = 0; i < count; i += 8) {
        uint64_t eight = 0;
        for (unsigned j = 0; j < 8; j++) { /* a load, where bytes stand in that order */
            eight |= (uint64_t)truths[i + j] << 8 * j;
        }
        unsigned byte = (unsigned)(eight * UINT64_C(0x0102040810204080) >> 56);
        unsigned both = byte << (from + i) % 8;
        bits[(from + i) / 8] |= (uint8_t)both;
        if (both > 0xff) {
            bits[(from + i) / 8 + 1] |= (uint8_t)(both >> 8);
        }
    }
}

static int64_t micro(int64_t ns)
{
    return ns / 1000 - (ns % 1000 < 0);
}

static void move_bits(const struct walk *walk, uint8_t *out, uint32_t from)
{
    uint8_t truths[PDI_SINK_BLOCK] = {0};
    for (uint32_t i = 0; i < walk->count; i++) {
        truths[i] = *(const uint8_t *)(walk->base + walk->place[i]) != 0;
    }
    put_bits(out, from, truths, walk->count);
}

static void move_times(const struct walk *walk, int64_t *out)
{
    for (uint32_t i = 0; i < walk->count; i++) {
        out[i] = micro(*(const int64_t *)(const void *)(walk->base + walk->place[i]));
    }
}

/* What is there, for a column whose nulls are a certain value. */
static void move_valid(const struct walk *walk, const struct pdi_column *column,
                       struct pdi_array *array, uint32_t from)
{
    uint8_t truths[PDI_SINK_BLOCK] = {0};
    uint32_t there = 0;
    if (column->load == PDI_LOAD_EVENT) {
        for (uint32_t i = 0; i < walk->count; i++) {
            truths[i] = *(const uint8_t *)(walk->base + walk->place[i]) != 255;
            there += truths[i];
        }
    } else {
        int64_t none = column->load == PDI_LOAD_ID ? 0 : PDI_NONE64;
        for (uint32_t i = 0; i < walk->count; i++) {
            truths[i] = *(const int64_t *)(const void *)(walk->base + walk->place[i]) != none;
            there += truths[i];
        }
    }
    put_bits(array->valid, from, truths, walk->count);
    array->nulls += walk->count - there;
}

static void move(const struct walk *walk, const struct pdi_column *column, struct pdi_array *array,
                 uint32_t from)
{
    uint8_t *values = array->values;
    switch ((unsigned)column->said.type << 8 | column->load) {
    case PYDDSI_COLUMN_INT8 << 8 | PDI_LOAD_U8:
    case PYDDSI_COLUMN_INT8 << 8 | PDI_LOAD_EVENT:
        MOVE(walk, uint8_t, uint8_t, values + from);
        break;
    case PYDDSI_COLUMN_INT16 << 8 | PDI_LOAD_U8:
        MOVE(walk, uint8_t, int16_t, values + 2 * (size_t)from);
        break;
    case PYDDSI_COLUMN_INT32 << 8 | PDI_LOAD_U8:
        MOVE(walk, uint8_t, int32_t, values + 4 * (size_t)from);
        break;
    case PYDDSI_COLUMN_INT32 << 8 | PDI_LOAD_U16:
        MOVE(walk, uint16_t, int32_t, values + 4 * (size_t)from);
        break;
    case PYDDSI_COLUMN_INT32 << 8 | PDI_LOAD_U32:
        MOVE(walk, uint32_t, uint32_t, values + 4 * (size_t)from);
        break;
    case PYDDSI_COLUMN_INT32 << 8 | PDI_LOAD_I64:
        MOVE(walk, int64_t, int32_t, values + 4 * (size_t)from);
        break;
    case PYDDSI_COLUMN_INT64 << 8 | PDI_LOAD_U32:
        MOVE(walk, uint32_t, int64_t, values + 8 * (size_t)from);
        break;
    case PYDDSI_COLUMN_INT64 << 8 | PDI_LOAD_I64:
    case PYDDSI_COLUMN_INT64 << 8 | PDI_LOAD_ID:
        MOVE(walk, int64_t, int64_t, values + 8 * (size_t)from);
        break;
    case PYDDSI_COLUMN_TIME << 8 | PDI_LOAD_TIME:
        move_times(walk, (int64_t *)(void *)values + from);
        break;
    case PYDDSI_COLUMN_BOOL << 8 | PDI_LOAD_U8:
        move_bits(walk, values, from);
        break;
    default:
        PDI_CHECK(false); /* a way of filling that no table has */
        break;
    }
    if (array->valid != NULL) {
        move_valid(walk, column, array, from);
    }
}

void pdi_sink_flush(struct pdi_sink *sink)
{
    uint32_t row[PDI_SINK_BLOCK], packet[PDI_SINK_BLOCK];
    for (uint32_t i = 0; i < sink->pending; i++) {
        row[i] = i * (uint32_t)sink->table->row_bytes;
        packet[i] = ((const struct pdi_row *)(const void *)(sink->block + row[i]))->packet *
                    (uint32_t)sizeof *sink->packet;
    }
    for (uint32_t i = 0; i < sink->count && sink->pending != 0; i++) {
        const struct pdi_column *column = &sink->table->columns[sink->wanted[i]];
        if (!varies(column)) {
            const void *base = column->of_packet ? (const void *)sink->packet : sink->block;
            struct walk walk = {.base = (const char *)base + column->at,
                                .place = column->of_packet ? packet : row,
                                .count = sink->pending};
            move(&walk, column, &sink->array[i], sink->rows);
        }
    }
    sink->rows += sink->pending;
    sink->pending = 0;
    if (sink->placed) { /* more rows of it may come */
        sink->packet[0] = sink->packet[sink->packets - 1];
    }
    sink->packets = sink->placed;
}
