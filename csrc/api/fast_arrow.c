/* fast_arrow.c - batches cross into Python as Arrow's capsules.
 *
 * Arrow's PyCapsule protocol: an object with __arrow_c_array__ answers two capsules, and whoever understands Arrow takes
 * what is in them. A capsule that nobody took releases what it holds when it goes.
 */
#include <stdlib.h>

#include "api/arrow.h"
#include "api/fast.h"

static void schema_free(PyObject *capsule)
{
    struct ArrowSchema *schema = PyCapsule_GetPointer(capsule, "arrow_schema");
    if (schema->release != NULL) {
        schema->release(schema);
    }
    free(schema);
}

static void array_free(PyObject *capsule)
{
    struct ArrowArray *array = PyCapsule_GetPointer(capsule, "arrow_array");
    if (array->release != NULL) {
        array->release(array);
    }
    free(array);
}

static pyddsi_scan *scan_of(PyObject *address)
{
    return PyLong_AsVoidPtr(address);
}

/* scan_schema(address: int) -> capsule: the schema of a scan's batches. */
PyObject *pdi_fast_scan_schema(PyObject *self, PyObject *address)
{
    (void)self;
    pyddsi_scan *scan = scan_of(address);
    if (scan == NULL) {
        return NULL;
    }
    struct ArrowSchema *schema = calloc(1, sizeof *schema);
    if (schema == NULL || pdi_arrow_schema(scan, schema) != PYDDSI_OK) {
        free(schema);
        return PyErr_NoMemory();
    }
    PyObject *capsule = PyCapsule_New(schema, "arrow_schema", schema_free);
    if (capsule == NULL) {
        schema->release(schema);
        free(schema);
    }
    return capsule;
}

/* scan_batch(address: int) -> capsule of the batch that was filled, or None if it has no rows. */
PyObject *pdi_fast_scan_batch(PyObject *self, PyObject *address)
{
    (void)self;
    pyddsi_scan *scan = scan_of(address);
    if (scan == NULL) {
        return NULL;
    }
    int status;
    struct pdi_arrow_batch *batch = pdi_scan_take(scan, &status);
    if (batch == NULL) {
        if (status != PYDDSI_END) {
            return PyErr_NoMemory();
        }
        Py_RETURN_NONE;
    }
    struct ArrowArray *array = calloc(1, sizeof *array);
    if (array == NULL || pdi_arrow_array(batch, array) != PYDDSI_OK) {
        pdi_batch_leave(batch);
        free(array);
        return PyErr_NoMemory();
    }
    PyObject *capsule = PyCapsule_New(array, "arrow_array", array_free);
    if (capsule == NULL) {
        array->release(array);
        free(array);
    }
    return capsule;
}

/* ---- rows as Python's own objects, for small tables and without Arrow ---- */

static PyObject *number_object(const struct pdi_shape *shape, const struct pdi_arrow_batch *batch,
                               uint32_t row)
{
    const uint8_t *values = batch->memory + shape->values;
    switch (shape->column->said.type) {
    case PYDDSI_COLUMN_BOOL:
        return PyBool_FromLong(values[row / 8] >> row % 8 & 1);
    case PYDDSI_COLUMN_INT8:
        return PyLong_FromLong(((const int8_t *)values)[row]);
    case PYDDSI_COLUMN_INT16:
        return PyLong_FromLong(((const int16_t *)(const void *)values)[row]);
    case PYDDSI_COLUMN_INT32:
        return PyLong_FromLong(((const int32_t *)(const void *)values)[row]);
    default:
        return PyLong_FromLongLong(((const int64_t *)(const void *)values)[row]);
    }
}

static PyObject *counts_object(const uint64_t *counts, Py_ssize_t size)
{
    PyObject *list = PyList_New(size);
    for (Py_ssize_t i = 0; list != NULL && i < size; i++) {
        PyObject *count = PyLong_FromUnsignedLongLong(counts[i]);
        if (count == NULL || PyList_SetItem(list, i, count) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *value_object(const struct pdi_arrow_batch *batch, uint32_t column, uint32_t row)
{
    const struct pdi_shape *shape = &batch->pool->shape.column[column];
    if (shape->valid != SIZE_MAX && !(batch->memory[shape->valid + row / 8] >> row % 8 & 1)) {
        Py_RETURN_NONE;
    }
    if (shape->offsets == SIZE_MAX) {
        return number_object(shape, batch, row);
    }
    const int32_t *offsets = (const void *)(batch->memory + shape->offsets);
    const uint8_t *values = batch->memory + shape->values;
    Py_ssize_t size = offsets[row + 1] - offsets[row];
    if (shape->column->said.type == PYDDSI_COLUMN_COUNTS) {
        return counts_object((const uint64_t *)(const void *)values + offsets[row], size);
    }
    const char *bytes = (const char *)values + offsets[row];
    return shape->column->said.type == PYDDSI_COLUMN_TEXT ? PyUnicode_FromStringAndSize(bytes, size)
                                                          : PyBytes_FromStringAndSize(bytes, size);
}

static PyObject *row_object(const struct pdi_arrow_batch *batch, uint32_t row)
{
    uint32_t count = batch->pool->shape.count;
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (uint32_t i = 0; tuple != NULL && i < count; i++) {
        PyObject *value = value_object(batch, i, row);
        if (value == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, value) < 0) {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

/* scan_rows(address: int) -> the rows of the batch that was filled, each a tuple; empty if it has none. */
PyObject *pdi_fast_scan_rows(PyObject *self, PyObject *address)
{
    (void)self;
    pyddsi_scan *scan = scan_of(address);
    int status = PYDDSI_END;
    struct pdi_arrow_batch *batch = scan != NULL ? pdi_scan_take(scan, &status) : NULL;
    if (batch == NULL) {
        return scan == NULL ? NULL : status == PYDDSI_END ? PyList_New(0) : PyErr_NoMemory();
    }
    PyObject *list = PyList_New((Py_ssize_t)batch->rows);
    for (uint32_t i = 0; list != NULL && i < batch->rows; i++) {
        PyObject *row = row_object(batch, i);
        if (row == NULL || PyList_SetItem(list, (Py_ssize_t)i, row) < 0) {
            Py_CLEAR(list);
        }
    }
    pdi_batch_leave(batch);
    return list;
}
