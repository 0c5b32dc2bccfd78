/* module.c - how the extension module comes to life.
 *
 * cffi makes the module `pyddsi._core` with its `lib` and `ffi`. A call through `lib` costs about
 * 100 ns, which is fine for opening a session and too much for a sample. What is called for every
 * sample is therefore plain extension code (METH_FASTCALL, about 15 ns) in the same module, and this
 * file is the only one that adds it:
 *
 *     PyInit__core ──► pdi_cffi_init (written by cffi, renamed in pyddsi/_build.py)
 *                ├───► PyModule_AddFunctions(functions)
 *                └───► the types of fast.h
 *
 * Everything here keeps to Python's limited API of 3.11, so that one build serves all later
 * versions. A Python without the global lock does not load such a module and says so itself.
 */
#include "api/fast.h"

PyObject *pdi_cffi_init(void);

/* The hot functions, each with the line that help() shows. */
static PyMethodDef functions[] = {
    {"columns", (PyCFunction)(void (*)(void))pdi_fast_columns, METH_FASTCALL,
     "columns(packets, reading, /)\n--\n\nEvery message of a list of packets, as columns."},
    {"scan_schema", pdi_fast_scan_schema, METH_O,
     "scan_schema(address, /)\n--\n\nThe schema of a scan's batches, as Arrow's capsule."},
    {"scan_batch", pdi_fast_scan_batch, METH_O,
     "scan_batch(address, /)\n--\n\nThe batch that a scan has filled, as Arrow's capsule."},
    {"scan_rows", pdi_fast_scan_rows, METH_O,
     "scan_rows(address, /)\n--\n\nThe rows of the batch that a scan has filled, as tuples."},
    {"scan_lines", (PyCFunction)(void (*)(void))pdi_fast_scan_lines, METH_FASTCALL,
     "scan_lines(address, start, /)\n--\n\nThe messages of the packet that a scan gave last, each "
     "a line that begins so."},
    {NULL, NULL, 0, NULL},
};

/* Each puts its types into the module. */
static int (*const types[])(PyObject *module) = {pdi_keeper_type, pdi_sample_type, pdi_writer_type,
                                                 pdi_loan_type, pdi_reader_type};

PyMODINIT_FUNC PyInit__core(void)
{
    PyObject *module = pdi_cffi_init();
    int failed = module == NULL || PyModule_AddFunctions(module, functions) < 0;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) && !failed; i++)
        failed = types[i](module) < 0;
    if (failed) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
