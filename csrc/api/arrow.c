/* arrow.c - see arrow.h.
 *
 * What is handed out is a tree: one array for the batch, one child for each column, and of a list one child more. Who takes
 * it may keep the whole or move children out of it, and releases each of them once, in any order and from any thread. So
 * each array counts as a user of the batch, and the last one gives its memory back; the structs themselves lie in one piece
 * that goes with the same last user.
 */
#include "api/arrow.h"

#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"

enum { BUFFERS_MAX = 3, NULLABLE = 2 };

/* ---- schemas ---- */

struct schemas {
    struct ArrowSchema child[PYDDSI_COLUMNS_MAX], item[PYDDSI_COLUMNS_MAX];
    struct ArrowSchema *children[PYDDSI_COLUMNS_MAX], *items[PYDDSI_COLUMNS_MAX];
};

static void schema_release_child(struct ArrowSchema *schema)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (schema->children[i]->release != NULL) {
            schema->children[i]->release(schema->children[i]);
        }
    }
    schema->release = NULL;
}

/* A schema's children cannot be kept beyond it: they are copied by everybody who wants them, so one piece is freed here. */
static void schema_release(struct ArrowSchema *schema)
{
    schema_release_child(schema);
    free(schema->private_data);
}

static const char *format_of(unsigned type)
{
    static const char *const formats[] = {"c", "s", "i", "l", "b", "tsu:UTC", "u", "z", "+l"};
    return formats[type];
}

int pdi_arrow_schema(const pyddsi_scan *scan, struct ArrowSchema *schema)
{
    const struct pdi_pool_shape *shape = &scan->pool->shape;
    struct schemas *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return PYDDSI_NO_SPACE;
    }
    for (uint32_t i = 0; i < shape->count; i++) {
        const pyddsi_column *column = &shape->column[i].column->said;
        struct ArrowSchema *child = &made->child[i];
        made->children[i] = child;
        child->format = format_of(column->type);
        child->name = column->name;
        child->flags = NULLABLE; /* for all: whoever wants a schema of its own asks for it */
        child->release = schema_release_child;
        if (column->type == PYDDSI_COLUMN_COUNTS) {
            made->items[i] = &made->item[i];
            made->item[i].format = "l";
            made->item[i].name = "element";
            made->item[i].flags = NULLABLE;
            made->item[i].release = schema_release_child;
            child->n_children = 1;
            child->children = &made->items[i];
        }
    }
    *schema = (struct ArrowSchema){.format = "+s",
                                   .name = "",
                                   .n_children = shape->count,
                                   .children = made->children,
                                   .release = schema_release,
                                   .private_data = made};
    return PYDDSI_OK;
}

/* ---- arrays ---- */

struct arrays {
    struct pdi_arrow_batch *batch;
    struct pdi_atomic32 users;
    struct ArrowArray child[PYDDSI_COLUMNS_MAX], item[PYDDSI_COLUMNS_MAX];
    struct ArrowArray *children[PYDDSI_COLUMNS_MAX], *items[PYDDSI_COLUMNS_MAX];
    const void *buffers[2 * PYDDSI_COLUMNS_MAX + 1][BUFFERS_MAX];
};

static void array_release(struct ArrowArray *array)
{
    struct arrays *made = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) {
        if (array->children[i]->release != NULL) {
            array->children[i]->release(array->children[i]);
        }
    }
    array->release = NULL;
    if (pdi_atomic32_add(&made->users, UINT32_MAX) == 1) {
        pdi_batch_leave(made->batch);
        free(made);
    }
}

static void array_fill(struct ArrowArray *array, struct arrays *made, uint32_t place,
                       int64_t length, int64_t nulls, int64_t buffers)
{
    *array = (struct ArrowArray){.length = length,
                                 .null_count = nulls,
                                 .n_buffers = buffers,
                                 .buffers = made->buffers[place],
                                 .release = array_release,
                                 .private_data = made};
    (void)pdi_atomic32_add(&made->users, 1);
}

static void child_fill(struct arrays *made, uint32_t i)
{
    const struct pdi_arrow_batch *batch = made->batch;
    const struct pdi_shape *shape = &batch->pool->shape.column[i];
    const void **buffers = made->buffers[2 * i + 1];
    struct ArrowArray *child = &made->child[i];
    made->children[i] = child;
    /* without nulls there need be no bitmap */
    buffers[0] =
        shape->valid != SIZE_MAX && batch->nulls[i] != 0 ? batch->memory + shape->valid : NULL;
    int64_t nulls = batch->nulls[i];
    if (shape->offsets == SIZE_MAX) {
        buffers[1] = batch->memory + shape->values;
        array_fill(child, made, 2 * i + 1, batch->rows, nulls, 2);
        return;
    }
    buffers[1] = batch->memory + shape->offsets;
    buffers[2] = batch->memory + shape->values;
    if (shape->column->said.type != PYDDSI_COLUMN_COUNTS) {
        array_fill(child, made, 2 * i + 1, batch->rows, nulls, 3);
        return;
    }
    int32_t last;
    memcpy(&last, batch->memory + shape->offsets + batch->rows * sizeof last, sizeof last);
    made->buffers[2 * i + 2][1] = buffers[2];
    array_fill(child, made, 2 * i + 1, batch->rows, nulls, 2);
    array_fill(&made->item[i], made, 2 * i + 2, last, 0, 2);
    made->items[i] = &made->item[i];
    child->n_children = 1;
    child->children = &made->items[i];
}

int pdi_arrow_array(struct pdi_arrow_batch *batch, struct ArrowArray *array)
{
    struct arrays *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return PYDDSI_NO_SPACE;
    }
    uint32_t count = batch->pool->shape.count;
    made->batch = batch;
    array_fill(array, made, 0, batch->rows, 0, 1);
    for (uint32_t i = 0; i < count; i++) {
        child_fill(made, i);
    }
    array->n_children = count;
    array->children = made->children;
    return PYDDSI_OK;
}
