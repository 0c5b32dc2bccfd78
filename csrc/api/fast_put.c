/* fast_put.c - what a publisher does for every sample. The base of pyddsi.Publisher.
 *
 * put is the call that programs make most, so its usual way is short: the bytes are found, the core is asked without
 * waiting, None comes back. All else (keywords, no room, other buffers than bytes) costs more and lies aside.
 *
 * put_many and put_array cross the border once for many samples. They hand them to the core in groups, since the core
 * makes few packets of many samples, and a group has room on the stack.
 *
 * What finds no room sleeps for it (pdi_sleep); what is larger than the windows leaves in pieces, by a call that cannot be
 * taken up again and so is made once, and that lets Python look at its signals meanwhile. The file is long, as all three calls do both in the same way.
 */
#include "api/fast.h"
#include "api/session.h"

#include <string.h>

enum { GROUP = 128 };

#define USUAL_TIMEOUT_NS UINT64_C(10000000000)

struct writer {
    PyObject_HEAD struct pdi_keeper *keeper; /* null: not attached, or detached */
    uint32_t handle;
};

/* How long to wait for room, and whether a full window is an error. */
struct patience {
    uint64_t timeout_ns;
    int wait;
};

static int patience_set(struct patience *patience, const char *function, PyObject *const *args,
                        PyObject *names)
{
    Py_ssize_t count = names != NULL ? PyTuple_Size(names) : 0;
    *patience = (struct patience){USUAL_TIMEOUT_NS, 1};
    for (Py_ssize_t i = 0; i < count; i++) {
        if (pdi_keyword(names, i, "timeout")) {
            if (pdi_timeout(args[i], &patience->timeout_ns) < 0)
                return -1;
        } else if (pdi_keyword(names, i, "wait")) {
            patience->wait = PyObject_IsTrue(args[i]);
            if (patience->wait < 0)
                return -1;
        } else {
            return pdi_keyword_unknown(names, i, function, "timeout and wait");
        }
    }
    if (!patience->wait)
        patience->timeout_ns = 0;
    return 0;
}

/* One argument and keywords, or TypeError. */
static int one_argument(const char *function, Py_ssize_t count)
{
    if (count == 1)
        return 0;
    PyErr_Format(PyExc_TypeError, "%s() takes one argument and keywords, not %zd arguments",
                 function, count);
    return -1;
}

/* ---- one sample ---- */

/* Sleeps until there is room, without the interpreter's lock. */
static int put_patiently(struct pdi_keeper *keeper, uint32_t handle, const void *data, size_t size,
                         uint64_t timeout_ns)
{
    uint64_t deadline = pdi_deadline(keeper, timeout_ns);
    for (;;) { /* ends with the time */
        uint32_t heard = pyddsi_session_listen(keeper->session);
        int status = pyddsi_session_put(keeper->session, handle, data, size, 0);
        uint64_t slice = status == PYDDSI_AGAIN ? pdi_slice(keeper, deadline) : 0;
        if (slice == 0) {
            pyddsi_session_unlisten(keeper->session);
            return status;
        }
        if (pdi_sleep(keeper, heard, slice) < 0)
            return PDI_RAISED;
    }
}

/* Python looks at its signals, and its other threads have not waited for this one. False: one has raised an exception. */
static bool without_signals(void *context)
{
    PyThreadState **state = (PyThreadState **)context;
    PyEval_RestoreThread(*state);
    bool none = PyErr_CheckSignals() == 0;
    *state = PyEval_SaveThread();
    return none;
}

/* Larger than the windows: it leaves in pieces, as room for them comes; once begun, it is ended or given up. */
static int put_large(struct pdi_keeper *keeper, uint32_t handle, const void *data, size_t size,
                     uint64_t timeout_ns)
{
    PyThreadState *state = PyEval_SaveThread();
    int status = pdi_session_put_large(keeper->session, handle, data, size, timeout_ns,
                                       without_signals, (void *)&state);
    PyEval_RestoreThread(state);
    return status == PYDDSI_END || PyErr_CheckSignals() < 0 ? PDI_RAISED : status;
}

static int put_aside(struct writer *writer, int status, const void *data, size_t size,
                     uint64_t timeout_ns)
{
    struct pdi_keeper *keeper = (struct pdi_keeper *)Py_NewRef((PyObject *)writer->keeper);
    uint32_t handle = writer->handle;
    if (status == PYDDSI_AGAIN)
        status = put_patiently(keeper, handle, data, size, timeout_ns);
    if (status == PYDDSI_BAD_ARGUMENT)
        status = put_large(keeper, handle, data, size, timeout_ns);
    Py_DECREF((PyObject *)keeper);
    return status;
}

static inline int put(struct writer *writer, const void *data, size_t size, uint64_t timeout_ns)
{
    if (writer->keeper == NULL)
        return PYDDSI_CLOSED;
    int status = pyddsi_session_put(writer->keeper->session, writer->handle, data, size, 0);
    if ((status == PYDDSI_AGAIN || status == PYDDSI_BAD_ARGUMENT) && timeout_ns != 0)
        return put_aside(writer, status, data, size, timeout_ns);
    return status;
}

int pdi_put(PyObject *writer, const void *data, size_t size, uint64_t timeout_ns)
{
    return put((struct writer *)writer, data, size, timeout_ns);
}

static PyObject *answer_put(struct writer *writer, int status, size_t size,
                            const struct patience *patience)
{
    if (status == PYDDSI_OK)
        Py_RETURN_TRUE;
    if (status == PYDDSI_AGAIN && !patience->wait)
        Py_RETURN_FALSE;
    return pdi_failed((PyObject *)writer, status, size, patience->timeout_ns);
}

static PyObject *writer_put(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names)
{
    struct writer *writer = (struct writer *)self;
    struct patience patience = {USUAL_TIMEOUT_NS, 1};
    if (one_argument("put", count) < 0 ||
        (names != NULL && patience_set(&patience, "put", args + 1, names) < 0))
        return NULL;
    if (PyBytes_CheckExact(args[0])) {
        size_t size = (size_t)PyBytes_Size(args[0]);
        int status = put(writer, PyBytes_AsString(args[0]), size, patience.timeout_ns);
        return answer_put(writer, status, size, &patience);
    }
    Py_buffer view;
    PyObject *copy;
    if (pdi_payload(args[0], &view, &copy) < 0)
        return NULL;
    int status = put(writer, view.buf, (size_t)view.len, patience.timeout_ns);
    PyObject *result = answer_put(writer, status, (size_t)view.len, &patience);
    pdi_payload_end(&view, copy);
    return result;
}

/* ---- many samples ---- */

/* A group on its way, and how many samples of all the call's groups were accepted. */
struct group {
    pyddsi_bytes samples[GROUP];
    size_t count;
    size_t taken;
    uint64_t deadline;
};

/* What the group could not place at once: sleeps for room; what is larger than the windows leaves by itself. */
static int group_patiently(struct pdi_keeper *keeper, uint32_t handle, struct group *group,
                           size_t at, int status)
{
    size_t taken = 0;
    for (;;) { /* ends with the time, or the group */
        uint64_t slice = pdi_slice(keeper, group->deadline);
        if (status == PYDDSI_BAD_ARGUMENT) {
            const pyddsi_bytes *large = &group->samples[at];
            uint64_t now = pyddsi_session_now(keeper->session);
            uint64_t left = group->deadline > now ? group->deadline - now : 0;
            left = group->deadline == PDI_FOREVER ? PDI_FOREVER : left;
            status = left != 0 ? put_large(keeper, handle, large->data, large->size, left)
                               : PYDDSI_AGAIN;
            if (status != PYDDSI_OK)
                return status;
            at++;
            group->taken++;
        }
        uint32_t heard = pyddsi_session_listen(keeper->session);
        status = pyddsi_session_put_many(keeper->session, handle, &group->samples[at],
                                         group->count - at, &taken, 0);
        at += taken;
        group->taken += taken;
        if (status == PYDDSI_AGAIN && slice != 0) {
            if (pdi_sleep(keeper, heard, slice) < 0)
                return PDI_RAISED;
            continue;
        }
        pyddsi_session_unlisten(keeper->session);
        if (status != PYDDSI_BAD_ARGUMENT)
            return status;
    }
}

static int group_put(struct writer *writer, struct group *group, uint64_t timeout_ns)
{
    size_t taken = 0;
    if (writer->keeper == NULL)
        return PYDDSI_CLOSED;
    struct pdi_keeper *keeper = (struct pdi_keeper *)Py_NewRef((PyObject *)writer->keeper);
    int status = pyddsi_session_put_many(keeper->session, writer->handle, group->samples,
                                         group->count, &taken, 0);
    group->taken += taken;
    if ((status == PYDDSI_AGAIN || status == PYDDSI_BAD_ARGUMENT) && timeout_ns != 0) {
        if (group->deadline == 0)
            group->deadline = pdi_deadline(keeper, timeout_ns);
        status = group_patiently(keeper, writer->handle, group, taken, status);
    }
    Py_DECREF((PyObject *)keeper);
    if (status == PYDDSI_OK)
        group->count = 0;
    return status;
}

static PyObject *answer_many(struct writer *writer, int status, size_t size,
                             const struct group *group, const struct patience *patience)
{
    if (status == PYDDSI_OK || (status == PYDDSI_AGAIN && !patience->wait))
        return PyLong_FromSize_t(group->taken);
    (void)pdi_failed((PyObject *)writer, status, size, patience->timeout_ns);
    if (status == PDI_RAISED)
        return NULL;
    /* the exception tells how many were accepted before it */
    PyObject *kind;
    PyObject *error;
    PyObject *trace;
    PyErr_Fetch(&kind, &error, &trace);
    PyErr_NormalizeException(&kind, &error, &trace);
    PyObject *taken = PyLong_FromSize_t(group->taken);
    if (taken == NULL || error == NULL || PyObject_SetAttrString(error, "taken", taken) < 0)
        PyErr_Clear();
    Py_XDECREF(taken);
    PyErr_Restore(kind, error, trace);
    return NULL;
}

/* The samples of a list, group by group. `held` keeps the buffers of one group. */
static int put_list(struct writer *writer, PyObject *list, struct group *group, Py_buffer *held,
                    PyObject **copies, const struct patience *patience)
{
    int status = PYDDSI_OK;
    for (Py_ssize_t at = 0; status == PYDDSI_OK && at < PyList_Size(list);) {
        size_t views = 0;
        for (; group->count < GROUP && at < PyList_Size(list); at++) {
            PyObject *sample = PyList_GetItem(list, at);
            Py_buffer *view = &held[views];
            if (sample == NULL || pdi_payload(sample, view, &copies[views]) < 0) {
                status = PDI_RAISED;
                break;
            }
            views++;
            group->samples[group->count++] = (pyddsi_bytes){view->buf, (size_t)view->len};
        }
        if (status == PYDDSI_OK)
            status = group_put(writer, group, patience->timeout_ns);
        for (size_t i = 0; i < views; i++)
            pdi_payload_end(&held[i], copies[i]);
    }
    return status;
}

static PyObject *writer_put_many(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                 PyObject *names)
{
    struct writer *writer = (struct writer *)self;
    struct patience patience;
    struct group group = {.count = 0};
    Py_buffer held[GROUP];
    PyObject *copies[GROUP];
    if (one_argument("put_many", count) < 0 ||
        patience_set(&patience, "put_many", args + 1, names) < 0)
        return NULL;
    if (PyUnicode_Check(args[0]) || PyBytes_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError,
                        "put_many() takes a list of samples; put() publishes a single one");
        return NULL;
    }
    PyObject *list = PyList_CheckExact(args[0]) ? Py_NewRef(args[0]) : PySequence_List(args[0]);
    if (list == NULL)
        return NULL;
    int status = put_list(writer, list, &group, held, copies, &patience);
    size_t largest = 0;
    for (size_t i = 0; i < group.count; i++)
        largest = group.samples[i].size > largest ? group.samples[i].size : largest;
    PyObject *result = answer_many(writer, status, largest, &group, &patience);
    Py_DECREF(list);
    return result;
}

/* The rows of a matrix, each a sample. */
static PyObject *writer_put_array(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                  PyObject *names)
{
    struct writer *writer = (struct writer *)self;
    struct patience patience;
    struct group group = {.count = 0};
    Py_buffer view;
    PyObject *whole = NULL;
    if (one_argument("put_array", count) < 0 ||
        patience_set(&patience, "put_array", args + 1, names) < 0)
        return NULL;
    if (!PyObject_CheckBuffer(args[0])) {
        PyErr_Format(PyExc_TypeError,
                     "put_array() takes an array, whose rows are samples, not %R; put_many() takes "
                     "a list of samples",
                     Py_TYPE(args[0]));
        return NULL;
    }
    if (PyObject_GetBuffer(args[0], &view, PyBUF_FULL_RO) < 0)
        return NULL;
    if (view.ndim < 1 || view.shape == NULL) {
        PyBuffer_Release(&view);
        PyErr_SetString(
            PyExc_ValueError,
            "put_array() takes an array with at least one dimension: each row is a sample");
        return NULL;
    }
    const uint8_t *data = view.buf;
    size_t rows = (size_t)view.shape[0];
    size_t size = rows != 0 ? (size_t)view.len / rows : 0;
    int status = PYDDSI_OK;
    if (!PyBuffer_IsContiguous(&view, 'C')) {
        whole = PyBytes_FromStringAndSize(NULL, view.len);
        if (whole == NULL ||
            PyBuffer_ToContiguous(PyBytes_AsString(whole), &view, view.len, 'C') < 0)
            status = PDI_RAISED;
        else
            data = (const uint8_t *)PyBytes_AsString(whole);
    }
    for (size_t row = 0; status == PYDDSI_OK && row < rows;) {
        for (; group.count < GROUP && row < rows; row++)
            group.samples[group.count++] = (pyddsi_bytes){data + row * size, size};
        status = group_put(writer, &group, patience.timeout_ns);
    }
    PyObject *result = answer_many(writer, status, size, &group, &patience);
    Py_XDECREF(whole);
    PyBuffer_Release(&view);
    return result;
}

static PyObject *writer_loan(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names)
{
    struct writer *writer = (struct writer *)self;
    struct patience patience;
    if (one_argument("loan", count) < 0 || patience_set(&patience, "loan", args + 1, names) < 0)
        return NULL;
    if (PyBool_Check(args[0]) || !PyLong_Check(args[0])) {
        PyErr_Format(PyExc_TypeError, "loan() takes a number of bytes, not %R", args[0]);
        return NULL;
    }
    Py_ssize_t size = PyLong_AsSsize_t(args[0]);
    if (size < 0) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "a loan has 0 bytes or more, not %R", args[0]);
        return NULL;
    }
    if (writer->keeper == NULL)
        return pdi_failed(self, PYDDSI_CLOSED, (size_t)size, patience.timeout_ns);
    return pdi_loan_new(writer->keeper, self, writer->handle, (size_t)size, patience.timeout_ns);
}

/* ---- life ---- */

static PyObject *writer_attach(PyObject *self, PyObject *args)
{
    struct writer *writer = (struct writer *)self;
    PyObject *given = NULL;
    unsigned int handle = 0;
    if (!PyArg_ParseTuple(args, "OI", &given, &handle))
        return NULL;
    struct pdi_keeper *keeper = pdi_keeper_of(given);
    if (keeper == NULL)
        return NULL;
    Py_INCREF(given);
    Py_XDECREF((PyObject *)writer->keeper);
    writer->keeper = keeper;
    writer->handle = handle;
    Py_RETURN_NONE;
}

static PyObject *writer_detach(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    struct writer *writer = (struct writer *)self;
    PyObject *keeper = (PyObject *)writer->keeper;
    writer->keeper = NULL;
    Py_XDECREF(keeper);
    Py_RETURN_NONE;
}

static void writer_dealloc(PyObject *self)
{
    Py_XDECREF((PyObject *)((struct writer *)self)->keeper);
    pdi_type_free(self);
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))
#define KEYWORDS       (METH_FASTCALL | METH_KEYWORDS)

static PyMethodDef writer_methods[] = {
    {"put", FAST(writer_put), KEYWORDS,
     "put($self, data, /, *, timeout=10.0, wait=True)\n--\n\n"
     "Publish a sample: bytes, or any other buffer.\n\n"
     "When the window is full this waits until it has room; TimeoutError if it has none after\n"
     "`timeout` seconds (None: for ever). With wait=False the answer is False then, and nothing\n"
     "has happened. If nobody subscribes, there is nothing to do, and that is well."},
    {"put_many", FAST(writer_put_many), KEYWORDS,
     "put_many($self, samples, /, *, timeout=10.0, wait=True)\n--\n\n"
     "Publish a list of samples with one call, in few packets. Answers how many were accepted: "
     "all,\n"
     "or with wait=False as many as there was room for. An exception says so in `taken`."},
    {"put_array", FAST(writer_put_array), KEYWORDS,
     "put_array($self, rows, /, *, timeout=10.0, wait=True)\n--\n\n"
     "Publish each row of an array as a sample; otherwise as put_many()."},
    {"loan", FAST(writer_loan), KEYWORDS,
     "loan($self, size, /, *, timeout=10.0)\n--\n\n"
     "A sample to be written in place, without a copy:\n\n"
     "    with pub.loan(4096) as memory:\n"
     "        memory[:] = ...\n\n"
     "It is published when the block ends, and dropped if the block raises. An array made of the\n"
     "memory should end with the block; while one is left, a copy is published instead."},
    {"_attach", writer_attach, METH_VARARGS, "_attach($self, keeper, handle, /)\n--\n\n"},
    {"_detach", writer_detach, METH_NOARGS, "_detach($self, /)\n--\n\n"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot writer_slots[] = {
    {Py_tp_doc, "What a publisher does for every sample."},
    {Py_tp_dealloc, (void *)writer_dealloc},
    {Py_tp_methods, writer_methods},
    {0, NULL},
};

static PyType_Spec writer_spec = {"pyddsi._core.Writer", sizeof(struct writer), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, writer_slots};

int pdi_writer_type(PyObject *module)
{
    return pdi_type_add(module, &writer_spec, "Writer") == NULL ? -1 : 0;
}
