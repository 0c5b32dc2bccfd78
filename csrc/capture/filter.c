/* filter.c - see filter.h. */
#include "capture/filter.h"

#include <string.h>

#include "base/endpoint.h"
#include "wire/match.h"

enum { TEXT_ROOM = 72 };

static bool is_text(const struct pdi_column *column)
{
    return column->said.type == PYDDSI_COLUMN_TEXT || column->said.type == PYDDSI_COLUMN_BYTES;
}

static const void *place(const struct pdi_column *column, const void *row,
                         const struct pdi_row_packet *packet)
{
    const void *base = column->of_packet ? (const void *)packet : row;
    return (const char *)base + column->at;
}

bool pdi_column_number(const struct pdi_column *column, const void *row,
                       const struct pdi_row_packet *packet, int64_t *value)
{
    const void *at = place(column, row, packet);
    switch (column->load) {
    case PDI_LOAD_U8:
        *value = *(const uint8_t *)at;
        return true;
    case PDI_LOAD_EVENT:
        *value = *(const uint8_t *)at;
        return *value != 255;
    case PDI_LOAD_U16:
        *value = *(const uint16_t *)at;
        return true;
    case PDI_LOAD_U32:
        *value = *(const uint32_t *)at;
        return true;
    case PDI_LOAD_ID:
        *value = *(const int64_t *)at;
        return *value != 0;
    case PDI_LOAD_TIME: /* in microseconds, as the column has it */
        *value = *(const int64_t *)at;
        if (*value == PDI_NONE64) {
            return false;
        }
        *value = *value / 1000 - (*value % 1000 < 0);
        return true;
    default:
        *value = *(const int64_t *)at;
        return !(column->said.nullable && *value == PDI_NONE64);
    }
}

static pyddsi_bytes view(const void *data, size_t size)
{
    return (pyddsi_bytes){data, size};
}

/* An endpoint as address:port, or its address alone. */
static pyddsi_bytes endpoint_text(const pyddsi_endpoint *at, bool port, char *room, size_t size)
{
    pyddsi_endpoint plain = *at; /* TCP and UDP are written alike: the scheme is left out */
    plain.kind = at->kind > 10 ? (uint8_t)(at->kind - 10) : at->kind;
    size_t length = at->kind != 0 ? pdi_endpoint_print(&plain, room, size) : 0;
    if (length == 0 || length >= size) {
        return view(NULL, 0);
    }
    char *begin = memchr(room, '/', length); /* udp/10.0.0.1:7447 */
    begin = begin != NULL ? begin + 1 : room;
    size_t rest = length - (size_t)(begin - room);
    if (!port) {
        while (rest > 0 && begin[rest - 1] != ':') { /* the port is behind the last one */
            rest--;
        }
        rest -= rest > 0;
        if (rest > 2 && begin[0] == '[') {
            begin++;
            rest -= 2;
        }
    }
    return view(begin, rest);
}

static pyddsi_bytes hex_text(const pyddsi_bytes *bytes, char *room, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    size_t count = bytes->size < size / 2 ? bytes->size : size / 2;
    for (size_t i = 0; i < count; i++) {
        room[2 * i] = digits[bytes->data[i] >> 4];
        room[2 * i + 1] = digits[bytes->data[i] & 15];
    }
    return view(room, 2 * count);
}

pyddsi_bytes pdi_column_text(const struct pdi_column *column, const void *row,
                             const struct pdi_row_packet *packet, char *room, size_t size)
{
    const void *at = place(column, row, packet);
    switch (column->load) {
    case PDI_LOAD_VIEW: {
        pyddsi_bytes bytes = *(const pyddsi_bytes *)at;
        return bytes.data == NULL && !column->said.nullable ? view("", 0) : bytes;
    }
    case PDI_LOAD_ENDPOINT:
        return endpoint_text(at, true, room, size);
    case PDI_LOAD_ADDRESS:
        return endpoint_text(at, false, room, size);
    case PDI_LOAD_HEX:
        return hex_text(at, room, size);
    case PDI_LOAD_WORD: {
        const char *word = *(const char *const *)at;
        return view(word, strlen(word));
    }
    default:
        return view(NULL, 0);
    }
}

/* ---- checking a program ---- */

/* What a step takes off the stack; it leaves one. */
static unsigned takes(unsigned step)
{
    switch (step) {
    case PYDDSI_STEP_COLUMN:
    case PYDDSI_STEP_NUMBER:
    case PYDDSI_STEP_TEXT:
        return 0;
    case PYDDSI_STEP_NOT:
    case PYDDSI_STEP_NULL:
        return 1;
    default:
        return 2;
    }
}

int pdi_filter_init(struct pdi_filter *filter, const struct pdi_table *table,
                    const pyddsi_where *steps, uint32_t count, const uint8_t *texts,
                    size_t texts_size)
{
    unsigned depth = 0;
    if (count > PYDDSI_WHERE_MAX || texts_size > PDI_FILTER_TEXTS_MAX) {
        return PYDDSI_BAD_ARGUMENT;
    }
    for (uint32_t i = 0; i < count; i++) {
        const pyddsi_where *step = &steps[i];
        if (step->step > PYDDSI_STEP_NULL || takes(step->step) > depth ||
            (step->step == PYDDSI_STEP_COLUMN &&
             (step->a >= table->count || table->columns[step->a].load == PDI_LOAD_COUNTS)) ||
            (step->step == PYDDSI_STEP_TEXT &&
             (step->a > texts_size || step->size > texts_size - step->a))) {
            return PYDDSI_BAD_ARGUMENT;
        }
        depth = depth - takes(step->step) + 1;
    }
    if (count != 0 && depth != 1) {
        return PYDDSI_BAD_ARGUMENT;
    }
    filter->table = table;
    filter->count = count;
    memcpy(filter->steps, steps, count * sizeof *steps);
    if (texts_size != 0) {
        memcpy(filter->texts, texts, texts_size);
    }
    return PYDDSI_OK;
}

/* ---- running it ---- */

struct value {
    pyddsi_bytes text; /* its data is null: a number */
    int64_t number;
    bool there;
};

static struct value truth(bool is)
{
    return (struct value){.number = is, .there = true};
}

/* Below 0, 0, above 0, as memcmp; *can: they are of one kind, and both there. */
static int compare(const struct value *a, const struct value *b, bool *can)
{
    bool texts = a->text.data != NULL;
    *can = a->there && b->there && texts == (b->text.data != NULL);
    if (!texts || !*can) {
        return a->number < b->number ? -1 : a->number > b->number;
    }
    size_t common = a->text.size < b->text.size ? a->text.size : b->text.size;
    int order = common != 0 ? memcmp(a->text.data, b->text.data, common) : 0;
    return order != 0 ? order : a->text.size < b->text.size ? -1 : a->text.size > b->text.size;
}

static struct value compared(unsigned step, const struct value *a, const struct value *b)
{
    bool can;
    int order = compare(a, b, &can);
    if (step == PYDDSI_STEP_NE) { /* whatever is not equal: no value, too */
        return truth(!can || order != 0);
    }
    bool is = step == PYDDSI_STEP_EQ   ? order == 0
              : step == PYDDSI_STEP_LT ? order < 0
              : step == PYDDSI_STEP_LE ? order <= 0
              : step == PYDDSI_STEP_GT ? order > 0
                                       : order >= 0;
    return truth(can && is);
}

static bool yes(const struct value *value)
{
    return value->there && value->number != 0;
}

static bool fits(const struct value *name, const struct value *pattern)
{
    return name->text.data != NULL && pattern->text.data != NULL && name->text.size <= 1024 &&
           pattern->text.size <= 1024 && pdi_match(pattern->text, name->text);
}

bool pdi_filter_test(const struct pdi_filter *filter, const void *row,
                     const struct pdi_row_packet *packet)
{
    struct value stack[PYDDSI_WHERE_MAX + 1] = {0};
    char room
        [4][TEXT_ROOM]; /* of texts that are printed; more than four at once overwrite each other */
    unsigned depth = 0, printed = 0;
    for (uint32_t i = 0; i < filter->count; i++) { /* PYDDSI_WHERE_MAX */
        const pyddsi_where *step = &filter->steps[i];
        unsigned left = takes(step->step); /* |depth| at most: pdi_filter_init has seen to it */
        depth -= left <= depth ? left : depth;
        struct value *below = &stack[depth], *top = &stack[depth + (left == 2)];
        struct value result = {0};
        switch (step->step) {
        case PYDDSI_STEP_COLUMN: {
            const struct pdi_column *column = &filter->table->columns[step->a];
            if (is_text(column)) {
                result.text = pdi_column_text(column, row, packet, room[printed++ % 4], TEXT_ROOM);
                result.there = result.text.data != NULL;
            } else {
                result.there = pdi_column_number(column, row, packet, &result.number);
            }
            break;
        }
        case PYDDSI_STEP_NUMBER:
            result = (struct value){.number = step->number, .there = true};
            break;
        case PYDDSI_STEP_TEXT:
            result = (struct value){.text = {filter->texts + step->a, step->size}, .there = true};
            break;
        case PYDDSI_STEP_AND:
            result = truth(yes(below) && yes(top));
            break;
        case PYDDSI_STEP_OR:
            result = truth(yes(below) || yes(top));
            break;
        case PYDDSI_STEP_NOT:
            result = truth(!yes(top));
            break;
        case PYDDSI_STEP_NULL:
            result = truth(!top->there);
            break;
        case PYDDSI_STEP_MATCH:
            result = truth(fits(below, top));
            break;
        default:
            result = compared(step->step, below, top);
            break;
        }
        stack[depth++] = result;
    }
    return filter->count == 0 || yes(&stack[0]);
}
