/* fast.c - the hot calls from Python.
 *
 * Each is a METH_FASTCALL function that module.c puts beside cffi's: it takes Python objects as they are and crosses
 * the border once for many packets. Python's bytearrays own the memory that is handed back, so nothing here outlives a
 * call. The limited API of 3.11 is all that is used.
 */
#include "api/fast.h"

#include <string.h>

#include "wire/columns.h"
#include "wire/decode.h"

#define ROWS_FIRST     256 /* rows that the columns begin with, besides one for each packet */
#define ROWS_GUESS_MAX (1U << 24) /* never take more than this on a guess */

/* The arrays of pyddsi_columns in order: where the pointer stands, and the size of an element. */
static const struct {
    size_t at;
    size_t size;
} arrays[] = {
    {offsetof(pyddsi_columns, packet), sizeof(uint32_t)},
    {offsetof(pyddsi_columns, at), sizeof(uint32_t)},
    {offsetof(pyddsi_columns, size), sizeof(uint32_t)},
    {offsetof(pyddsi_columns, kind), sizeof(uint8_t)},
    {offsetof(pyddsi_columns, flags), sizeof(uint8_t)},
    {offsetof(pyddsi_columns, conduit), sizeof(uint16_t)},
    {offsetof(pyddsi_columns, sn), sizeof(uint64_t)},
    {offsetof(pyddsi_columns, rid), sizeof(uint64_t)},
    {offsetof(pyddsi_columns, payload_at), sizeof(uint32_t)},
    {offsetof(pyddsi_columns, payload_size), sizeof(uint32_t)},
};

enum { ARRAYS = sizeof(arrays) / sizeof(arrays[0]) };

/* Columns whose memory is Python's. */
struct table {
    pyddsi_columns columns;
    PyObject *memory[ARRAYS];
    PyObject *faults; /* (packet, rule, at), one for each packet that ends in one */
    size_t total;     /* packets */
};

static int resize(struct table *table, size_t rows)
{
    for (size_t i = 0; i < ARRAYS; i++) {
        Py_ssize_t size = (Py_ssize_t)(rows * arrays[i].size);
        if (table->memory[i] == NULL)
            table->memory[i] = PyByteArray_FromStringAndSize(NULL, size);
        else if (PyByteArray_Resize(table->memory[i], size) < 0)
            return -1;
        if (table->memory[i] == NULL)
            return -1;
        void *data = PyByteArray_AsString(table->memory[i]);
        memcpy((char *)&table->columns + arrays[i].at, (const void *)&data, sizeof(data));
    }
    table->columns.capacity = rows;
    return 0;
}

static int note_fault(struct table *table, uint32_t number, const pyddsi_fault *fault)
{
    PyObject *entry = Py_BuildValue("(Iin)", number, fault->rule, (Py_ssize_t)fault->at);
    int failed = entry == NULL || PyList_Append(table->faults, entry) < 0;
    Py_XDECREF(entry);
    return failed ? -1 : 0;
}

/* How many rows to go on with when the packet with this number does not fit: as many as all will have if the rest is
 * like what has been, a little more, and twice what there is at the least. */
static size_t more_rows(const struct table *table, uint32_t number)
{
    size_t twice = table->columns.capacity * 2;
    double each = (double)table->columns.count / (number + 1.0);
    double expected = each * (double)table->total * 1.05;
    return expected > (double)twice && expected < ROWS_GUESS_MAX ? (size_t)expected : twice;
}

/* One packet into the table, growing it as often as it takes. */
static int add_packet(struct table *table, const pyddsi_reading *reading, uint32_t number,
                      const uint8_t *data, size_t size)
{
    pyddsi_fault fault;
    int status;
    while ((status = pyddsi_columns_packet(&table->columns, reading, number, data, size, &fault)) ==
           PYDDSI_NO_SPACE)
        if (resize(table, more_rows(table, number)) < 0)
            return -1;
    if (status == PYDDSI_OK)
        return 0;
    if (status == PYDDSI_BAD_ARGUMENT) {
        PyErr_SetString(PyExc_ValueError, "a packet is 4 GiB or more");
        return -1;
    }
    return note_fault(table, number, &fault);
}

/* A packet that is not bytes, but gives its memory in another way. Asking for it may run the program's own code. */
static int add_object(struct table *table, const pyddsi_reading *reading, uint32_t number,
                      PyObject *packet)
{
    Py_buffer view;
    Py_INCREF(packet); /* the list may lose it meanwhile */
    int result = PyObject_GetBuffer(packet, &view, PyBUF_SIMPLE);
    if (result == 0) {
        result = add_packet(table, reading, number, view.buf, (size_t)view.len);
        PyBuffer_Release(&view);
    }
    Py_DECREF(packet);
    return result;
}

/* All packets. A list that gets shorter on the way raises IndexError, by PyList_GetItem. */
static int add_all(struct table *table, const pyddsi_reading *reading, PyObject *packets)
{
    if (table->total > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "more than 4294967295 packets at once");
        return -1;
    }
    for (size_t i = 0; i < table->total; i++) {
        PyObject *packet = PyList_GetItem(packets, (Py_ssize_t)i);
        int result = -1;
        if (packet != NULL && PyBytes_CheckExact(packet)) {
            const uint8_t *data = (const uint8_t *)PyBytes_AsString(packet);
            result = add_packet(table, reading, (uint32_t)i, data, (size_t)PyBytes_Size(packet));
        } else if (packet != NULL) {
            result = add_object(table, reading, (uint32_t)i, packet);
        }
        if (result < 0)
            return -1;
    }
    return 0;
}

static PyObject *answer(struct table *table)
{
    size_t count = table->columns.count;
    if (resize(table, count) < 0)
        return NULL;
    PyObject *tuple = PyTuple_New(ARRAYS + 1);
    if (tuple == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < (Py_ssize_t)ARRAYS; i++) {
        Py_INCREF(table->memory[i]);
        if (PyTuple_SetItem(tuple, i, table->memory[i]) < 0)
            goto failed;
    }
    Py_INCREF(table->faults);
    if (PyTuple_SetItem(tuple, ARRAYS, table->faults) < 0)
        goto failed;
    return tuple;
failed:
    Py_DECREF(tuple);
    return NULL;
}

/* columns(packets: list, reading: bytes) -> (bytearray x 10, faults); reading is a pyddsi_reading's memory. */
PyObject *pdi_fast_columns(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    pyddsi_reading reading;
    if (count != 2 || !PyList_CheckExact(args[0]) || !PyBytes_CheckExact(args[1]) ||
        PyBytes_Size(args[1]) != (Py_ssize_t)sizeof(reading)) {
        PyErr_SetString(PyExc_TypeError, "columns(packets: list, reading: bytes)");
        return NULL;
    }
    memcpy(&reading, PyBytes_AsString(args[1]), sizeof(reading));
    struct table table = {.faults = PyList_New(0), .total = (size_t)PyList_Size(args[0])};
    PyObject *result = NULL;
    if (table.faults != NULL && resize(&table, table.total + ROWS_FIRST) == 0 &&
        add_all(&table, &reading, args[0]) == 0)
        result = answer(&table);
    for (size_t i = 0; i < ARRAYS; i++)
        Py_XDECREF(table.memory[i]);
    Py_XDECREF(table.faults);
    return result;
}
