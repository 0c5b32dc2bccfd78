/* fast_array.c - samples of one size, as one block of memory.
 *
 * Where many small samples of a fixed size come in, objects for each would cost more than the samples. This copies them
 * side by side into one bytearray, from which numpy makes an array without a further copy. A copy of 64 bytes takes 2 ns;
 * samples seldom lie side by side where they came in, so no array could be made of them where they are.
 *
 * What comes first decides about the size. A sample of another size ends the block, and begins the next. If the first one
 * is no whole number of the elements that are asked for, it stays where it is, and only its size is told.
 */
#include "api/fast.h"
#include "api/fast_reader.h"

#include <string.h>

struct block {
    PyObject *memory; /* bytearray, at least `count` samples long */
    Py_ssize_t count, max, room;
    Py_ssize_t size;   /* of each; negative: none has come */
    Py_ssize_t item;   /* what it must be a multiple of */
    Py_ssize_t misfit; /* the first sample's size, if it is not; else negative */
};

/* Room for one more. False: there is no memory, so the block ends here. */
static bool grow(struct block *block)
{
    if (block->count < block->room)
        return true;
    Py_ssize_t room = block->room * 2 < block->max ? block->room * 2 : block->max;
    if (PyByteArray_Resize(block->memory, room * block->size) < 0) {
        PyErr_Clear();
        return false;
    }
    block->room = room;
    return true;
}

/* 1: it is in; 0: it does not go into this block, which ends; negative: an exception. */
static int add(struct block *block, const void *data, Py_ssize_t size)
{
    if (block->size >= 0 && size != block->size)
        return 0;
    if (block->size < 0 && size % block->item != 0) {
        block->misfit = size;
        return 0;
    }
    if (block->size < 0) {
        block->size = size;
        block->room = block->max < PDI_BATCH_MAX ? block->max : PDI_BATCH_MAX;
        if (PyByteArray_Resize(block->memory, block->room * size) < 0)
            return -1;
    }
    if (!grow(block))
        return 0;
    if (size != 0)
        memcpy(PyByteArray_AsString(block->memory) + block->count * size, data, (size_t)size);
    block->count++;
    return 1;
}

/* What had been taken before. 1: all of it; 0: up to one of another size; negative: an exception. */
static int add_ready(struct pdi_fast_reader *reader, struct block *block)
{
    int more = 1;
    while (more > 0 && block->count < block->max &&
           reader->at < reader->count) { /* at most a batch */
        Py_buffer view;
        if (PyObject_GetBuffer(reader->ready[reader->at], &view, PyBUF_SIMPLE) < 0)
            return -1;
        more = add(block, view.buf, view.len);
        PyBuffer_Release(&view);
        if (more > 0)
            Py_DECREF(pdi_reader_pop(reader));
    }
    return more;
}

/* Straight from the core; what is of another size becomes the batch. As add_ready; AGAIN in *status: nothing is left. */
static int add_taken(struct pdi_fast_reader *reader, struct block *block, int *status)
{
    pyddsi_received raw[PDI_BATCH_MAX];
    size_t count = 0;
    size_t i = 0;
    int more = 1;
    Py_ssize_t left = block->max - block->count;
    *status = pyddsi_session_take(reader->keeper->session, reader->handle, raw,
                                  left < PDI_BATCH_MAX ? (size_t)left : PDI_BATCH_MAX, &count);
    for (; *status == PYDDSI_OK && i < count && more > 0; i += more > 0) {
        if (raw[i].last)
            reader->answers++;
        else
            more = add(block, raw[i].data, (Py_ssize_t)raw[i].size);
    }
    if (i != 0)
        pyddsi_session_release(reader->keeper->session, raw, i);
    if (i < count) {
        Py_ssize_t made = pdi_reader_wrap(reader, raw + i, count - i, reader->ready);
        reader->at = 0;
        reader->count = made > 0 ? (uint32_t)made : 0;
        more = made < 0 ? -1 : more;
    }
    return more;
}

static int add_all(struct pdi_fast_reader *reader, struct block *block)
{
    int status = PYDDSI_OK;
    int more = add_ready(reader, block);
    while (more > 0 && block->count < block->max &&
           status == PYDDSI_OK) { /* each round adds some */
        if (reader->keeper == NULL)
            return PYDDSI_CLOSED;
        more = add_taken(reader, block, &status);
    }
    return more < 0 ? PDI_RAISED : status;
}

PyObject *pdi_reader_array(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    struct pdi_fast_reader *reader = (struct pdi_fast_reader *)self;
    struct block block = {.max = 65536, .size = -1, .misfit = -1};
    uint64_t timeout_ns;
    block.item = count > 0 ? PyLong_AsSsize_t(args[0]) : 0;
    if (block.item < 1) {
        if (PyErr_Occurred() == NULL)
            PyErr_SetString(PyExc_ValueError, "an element has 1 byte or more");
        return NULL;
    }
    if (pdi_reader_many("recv_array", args + 1, count - 1, names, &block.max, &timeout_ns) < 0)
        return NULL;
    block.memory = PyByteArray_FromStringAndSize(NULL, 0);
    if (block.memory == NULL)
        return NULL;
    int status = add_all(reader, &block);
    while (block.count == 0 && block.misfit < 0 &&
           (status == PYDDSI_OK || status == PYDDSI_AGAIN)) { /* until one is there */
        status = pdi_reader_await(reader, timeout_ns);
        if (status != PYDDSI_OK)
            break;
        status = add_all(reader, &block);
    }
    PyObject *result = NULL;
    if (block.misfit >= 0 && status != PDI_RAISED)
        result = Py_BuildValue("(Onn)", Py_None, (Py_ssize_t)0, block.misfit);
    else if (block.count == 0)
        (void)pdi_failed(self, status, 0, timeout_ns);
    else if (status != PDI_RAISED &&
             PyByteArray_Resize(block.memory, block.count * block.size) == 0)
        result = Py_BuildValue("(Onn)", block.memory, block.count, block.size);
    Py_DECREF(block.memory);
    return result;
}
