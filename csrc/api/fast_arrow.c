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
    struct pdi_batch *batch = pdi_scan_take(scan, &status);
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
