/* fast.h - the hot calls from Python; module.c registers them. */
#ifndef PDI_API_FAST_H
#define PDI_API_FAST_H

#include <Python.h>

/* columns(packets, reading): every message of a list of packets, as columns. */
PyObject *pdi_fast_columns(PyObject *self, PyObject *const *args, Py_ssize_t count);

#endif
