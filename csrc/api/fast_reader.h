/* fast_reader.h - a reader's insides, for the two files that take samples: as objects (fast_take.c), as one block of memory
 * (fast_array.c). */
#ifndef PDI_API_FAST_READER_H
#define PDI_API_FAST_READER_H

#include "api/fast.h"
#include "host/spin.h"

struct pdi_fast_reader {
    PyObject_HEAD struct pdi_keeper *keeper; /* null: not attached, or detached */
    uint32_t handle;
    uint32_t ahead;     /* samples that may be taken at once, 1 to PDI_BATCH_MAX */
    uint32_t at, count; /* of ready[]: the next to be handed out, and their end */
    uint64_t answers;   /* ends of answers to pulls */
    struct pdi_spin spin;
    PyObject *ready[PDI_BATCH_MAX];
};

/* Samples that were taken become objects; those that are copies are given back, all at once. At most PDI_BATCH_MAX. Answers
 * how many objects there are; negative: PDI_RAISED. */
Py_ssize_t pdi_reader_wrap(struct pdi_fast_reader *reader, const pyddsi_received *raw, size_t count,
                           PyObject **made);
/* Fills ready[], which is empty, and sleeps for it if need be. OK, AGAIN: the time is over, CLOSED, PDI_RAISED. */
int pdi_reader_await(struct pdi_fast_reader *reader, uint64_t timeout_ns);
/* The next of ready[]; null: there is none. */
PyObject *pdi_reader_pop(struct pdi_fast_reader *reader);
/* The arguments (max, *, timeout=None); *max stays as it is if it is not given. 0, or -1 with an exception. */
int pdi_reader_many(const char *function, PyObject *const *args, Py_ssize_t count, PyObject *names,
                    Py_ssize_t *max, uint64_t *timeout_ns);
/* _array(item, max, timeout): samples of one size, which is a multiple of item, as one block of memory: (bytearray, count,
 * size). (None, 0, size) if the next sample's size is no such multiple; it stays. */
PyObject *pdi_reader_array(PyObject *self, PyObject *const *args, Py_ssize_t count,
                           PyObject *names);

#endif
