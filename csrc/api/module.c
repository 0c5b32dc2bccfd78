/* module.c - how the extension module comes to life.
 *
 * cffi makes the module `pyddsi._core` with its `lib` and `ffi`. A call through `lib` costs about
 * 100 ns, which is fine for opening a session and too much for a sample. The functions that are
 * called for every sample are therefore plain extension functions (METH_FASTCALL, about 15 ns) in
 * the same module, and this file is the only one that adds them:
 *
 *     PyInit__core ──► pdi_cffi_init (written by cffi, renamed in pyddsi/_build.py)
 *                └───► PyModule_AddFunctions(functions)
 *
 * Everything here keeps to Python's limited API of 3.11, so that one build serves all later
 * versions.
 */
#include "api/fast.h"

PyObject *pdi_cffi_init(void);

/* The hot functions, each with the line that help() shows. */
static PyMethodDef functions[] = {
    {"columns", (PyCFunction)(void (*)(void))pdi_fast_columns, METH_FASTCALL,
     "columns(packets, reading, /)\n--\n\nEvery message of a list of packets, as columns."},
    {NULL, NULL, 0, NULL},
};

PyMODINIT_FUNC PyInit__core(void)
{
    PyObject *module = pdi_cffi_init();
    if (module != NULL && PyModule_AddFunctions(module, functions) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
