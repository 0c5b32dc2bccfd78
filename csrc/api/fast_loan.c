/* fast_loan.c - a sample written in place.
 *
 *     made ── __enter__ ──► open ── __exit__ ──► over
 *                            │  the block raised, or `used` is wrong: abandoned
 *                            │  nobody looks any more: committed, without a copy
 *                            └─ somebody still looks: a copy is put, and the place is given up with the last look
 *
 * The last case is that of `a = np.frombuffer(memory)` without a `del a`: the array outlives the block, and what it writes
 * later must not change what others send from the same place. So the sample is copied, and counted
 * (keeper->loans_copied), rather than refused or corrupted.
 *
 * Loans come and go quickly, so the memory of some is kept and used again.
 */
#include "api/fast.h"

#define LARGE_MIN 4096 /* bytes that every window has; what is refused below has another reason */

enum { SPARE_MAX = 16 };

enum state { MADE, OPEN, LINGERING, OVER };

struct loan {
    PyObject_HEAD struct pdi_keeper *keeper;
    PyObject *writer; /* explains failures */
    PyObject *view;   /* what the block got */
    uint8_t *data;
    uint8_t *owned; /* data, if that is no memory of the session */
    uint64_t timeout_ns;
    size_t size;
    Py_ssize_t used;
    Py_ssize_t exports;
    uint32_t publisher;
    uint32_t number;
    uint8_t state;
};

static PyTypeObject *loan_type;
static PyObject *view_release; /* memoryview.release */
static struct loan *spares[SPARE_MAX];
static uint32_t spare_count;

PyObject *pdi_loan_new(struct pdi_keeper *keeper, PyObject *writer, uint32_t publisher, size_t size,
                       uint64_t timeout_ns)
{
    struct loan *loan =
        spare_count != 0 ? spares[--spare_count] : PyObject_Malloc(sizeof(struct loan));
    if (loan == NULL)
        return PyErr_NoMemory();
    (void)PyObject_Init((PyObject *)loan, loan_type);
    loan->keeper = (struct pdi_keeper *)Py_NewRef((PyObject *)keeper);
    loan->writer = Py_NewRef(writer);
    loan->view = NULL;
    loan->owned = NULL;
    loan->publisher = publisher;
    loan->size = size;
    loan->used = (Py_ssize_t)size;
    loan->exports = 0;
    loan->timeout_ns = timeout_ns;
    loan->state = MADE;
    return (PyObject *)loan;
}

/* What is larger than the windows gets memory of its own, which leaves in pieces; that is a copy, and counted. */
static int own(struct loan *loan)
{
    loan->owned = loan->data = PyMem_Malloc(loan->size);
    if (loan->data == NULL) /* the writer says how large a sample can be */
        return PYDDSI_BAD_ARGUMENT;
    loan->keeper->loans_copied++;
    return PYDDSI_OK;
}

/* Sleeps until there is room, without the interpreter's lock. */
static int borrow(struct loan *loan)
{
    pyddsi_session *session = loan->keeper->session;
    uint64_t deadline = 0;
    if (pyddsi_session_loan(session, loan->publisher, loan->size, &loan->data, &loan->number, 0) ==
        PYDDSI_OK)
        return PYDDSI_OK;
    for (;;) { /* ends with the time */
        uint32_t heard = pyddsi_session_listen(session);
        int status = pyddsi_session_loan(session, loan->publisher, loan->size, &loan->data,
                                         &loan->number, 0);
        if (deadline == 0 && status == PYDDSI_AGAIN)
            deadline = pdi_deadline(loan->keeper, loan->timeout_ns);
        uint64_t slice = status == PYDDSI_AGAIN ? pdi_slice(loan->keeper, deadline) : 0;
        if (slice == 0) {
            pyddsi_session_unlisten(session);
            return status == PYDDSI_BAD_ARGUMENT && loan->size > LARGE_MIN ? own(loan) : status;
        }
        if (pdi_sleep(loan->keeper, heard, slice) < 0)
            return PDI_RAISED;
    }
}

/* Its memory is given back, and nothing is published from it any more. */
static void abandon(struct loan *loan)
{
    loan->state = OVER;
    if (loan->owned == NULL)
        (void)pyddsi_session_abandon(loan->keeper->session, loan->number);
    PyMem_Free(loan->owned);
    loan->owned = NULL;
}

static PyObject *loan_enter(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    struct loan *loan = (struct loan *)self;
    if (loan->state != MADE) {
        PyErr_SetString(PyExc_ValueError, "a loan is used once; ask the publisher for another one");
        return NULL;
    }
    int status = borrow(loan);
    if (status != PYDDSI_OK)
        return pdi_failed(loan->writer, status, loan->size, loan->timeout_ns);
    loan->state = OPEN;
    loan->view = PyMemoryView_FromObject(self);
    if (loan->view == NULL) {
        abandon(loan);
        return NULL;
    }
    return Py_NewRef(loan->view);
}

/* The block's view ends, and with it what nobody made anything of. Whether somebody still looks. */
static int still_looked_at(struct loan *loan)
{
    PyObject *view = loan->view;
    loan->view = NULL;
    PyObject *done = PyObject_CallFunctionObjArgs(view_release, view, NULL);
    if (done == NULL)
        PyErr_Clear(); /* BufferError: something was made of it */
    Py_XDECREF(done);
    Py_DECREF(view);
    return loan->exports != 0;
}

static PyObject *publish_copy(struct loan *loan)
{
    PyObject *copy = PyBytes_FromStringAndSize((const char *)loan->data, loan->used);
    loan->keeper->loans_copied++;
    loan->state = LINGERING;
    if (copy == NULL)
        return NULL;
    PyObject *seconds = loan->timeout_ns == PDI_FOREVER
                            ? Py_NewRef(Py_None)
                            : PyFloat_FromDouble((double)loan->timeout_ns / 1e9);
    PyObject *put = PyObject_GetAttrString(loan->writer, "put");
    PyObject *args = PyTuple_Pack(1, copy);
    PyObject *keywords = seconds != NULL ? Py_BuildValue("{sO}", "timeout", seconds) : NULL;
    PyObject *done =
        put != NULL && args != NULL && keywords != NULL ? PyObject_Call(put, args, keywords) : NULL;
    Py_XDECREF(keywords);
    Py_XDECREF(args);
    Py_XDECREF(put);
    Py_XDECREF(seconds);
    Py_DECREF(copy);
    return done;
}

/* Sleeps a while until there is room where the sample has to go by now; mostly it is there already. */
static int commit(struct loan *loan)
{
    pyddsi_session *session = loan->keeper->session;
    uint64_t deadline = 0;
    int first = pyddsi_session_commit(session, loan->number, (size_t)loan->used);
    if (first != PYDDSI_AGAIN)
        return first;
    for (;;) { /* ends with the time */
        uint32_t heard = pyddsi_session_listen(session);
        int status = pyddsi_session_commit(session, loan->number, (size_t)loan->used);
        if (deadline == 0 && status == PYDDSI_AGAIN)
            deadline = pdi_deadline(loan->keeper, loan->timeout_ns);
        uint64_t slice = status == PYDDSI_AGAIN ? pdi_slice(loan->keeper, deadline) : 0;
        if (slice == 0) {
            pyddsi_session_unlisten(session);
            return status;
        }
        if (pdi_sleep(loan->keeper, heard, slice) < 0)
            return PDI_RAISED;
    }
}

static PyObject *loan_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct loan *loan = (struct loan *)self;
    if (loan->state != OPEN)
        Py_RETURN_NONE;
    int looked_at = still_looked_at(loan);
    if (count > 0 && args[0] != Py_None) {
        loan->state = LINGERING;
        if (!looked_at)
            abandon(loan);
        Py_RETURN_NONE;
    }
    if (loan->used < 0 || (size_t)loan->used > loan->size) {
        loan->state = LINGERING;
        if (!looked_at)
            abandon(loan);
        return PyErr_Format(PyExc_ValueError, "a loan of %zu bytes cannot use %zd of them",
                            loan->size, loan->used);
    }
    if (looked_at) {
        PyObject *done = publish_copy(loan);
        Py_XDECREF(done);
        return done == NULL ? NULL : Py_NewRef(Py_None);
    }
    int status = PYDDSI_OK;
    if (loan->owned != NULL) {
        status = pdi_put(loan->writer, loan->data, (size_t)loan->used, loan->timeout_ns);
        abandon(loan);
    } else {
        status = commit(loan);
    }
    if (status == PYDDSI_OK) {
        loan->state = OVER;
        Py_RETURN_NONE;
    }
    if (loan->state != OVER)
        abandon(loan);
    return pdi_failed(loan->writer, status, (size_t)loan->used, loan->timeout_ns);
}

static int loan_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    struct loan *loan = (struct loan *)self;
    static uint8_t nothing;
    if (loan->state != OPEN) {
        view->obj = NULL;
        PyErr_SetString(PyExc_ValueError, "a loan has memory only inside its with block");
        return -1;
    }
    void *data = loan->size == 0 ? &nothing : loan->data;
    if (PyBuffer_FillInfo(view, self, data, (Py_ssize_t)loan->size, 0, flags) < 0)
        return -1;
    loan->exports++;
    return 0;
}

static void loan_releasebuffer(PyObject *self, Py_buffer *view)
{
    (void)view;
    struct loan *loan = (struct loan *)self;
    if (--loan->exports == 0 && loan->state == LINGERING)
        abandon(loan);
}

static void loan_dealloc(PyObject *self)
{
    struct loan *loan = (struct loan *)self;
    PyTypeObject *type = Py_TYPE(self); /* the module may have been loaded once more since */
    if (loan->state == OPEN || loan->state == LINGERING)
        abandon(loan);
    Py_XDECREF(loan->view);
    Py_DECREF(loan->writer);
    Py_DECREF((PyObject *)loan->keeper);
    if (spare_count < SPARE_MAX)
        spares[spare_count++] = loan;
    else
        PyObject_Free(loan);
    Py_DECREF((PyObject *)type);
}

static PyObject *loan_used(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSsize_t(((struct loan *)self)->used);
}

static int loan_set_used(PyObject *self, PyObject *value, void *closure)
{
    (void)closure;
    Py_ssize_t used = value != NULL ? PyLong_AsSsize_t(value) : -1;
    if (value == NULL)
        PyErr_SetString(PyExc_TypeError, "`used` is a number of bytes");
    if (PyErr_Occurred() != NULL)
        return -1;
    ((struct loan *)self)->used = used;
    return 0;
}

static PyObject *loan_size(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(((struct loan *)self)->size);
}

static PyGetSetDef loan_fields[] = {
    {"used", loan_used, loan_set_used,
     "How many of its bytes are published; all, unless the block sets it.", NULL},
    {"size", loan_size, NULL, "How many bytes it has.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef loan_methods[] = {
    {"__enter__", loan_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))loan_exit, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot loan_slots[] = {
    {Py_tp_doc, "Memory of a publisher for one sample; see Publisher.loan."},
    {Py_tp_dealloc, (void *)loan_dealloc},
    {Py_tp_getset, loan_fields},
    {Py_tp_methods, loan_methods},
    {Py_bf_getbuffer, (void *)loan_getbuffer},
    {Py_bf_releasebuffer, (void *)loan_releasebuffer},
    {0, NULL},
};

static PyType_Spec loan_spec = {"pyddsi.Loan", sizeof(struct loan), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, loan_slots};

int pdi_loan_type(PyObject *module)
{
    loan_type = pdi_type_add(module, &loan_spec, "Loan");
    view_release = PyObject_GetAttrString((PyObject *)&PyMemoryView_Type, "release");
    return loan_type == NULL || view_release == NULL ? -1 : 0;
}
