/* fast_keeper.c - the Python object that owns a session, and what all hot calls need of it.
 *
 * Everything that looks into a session's memory holds its keeper: samples, loans, publishers, subscribers. The session is
 * freed with the last of them, so that no view ever dangles, however a program ends what it began. A keeper holds nothing
 * that holds it, so there are no cycles to be collected.
 */
#include "api/fast.h"

#include <string.h>

/* Signals end a sleep. One that comes in the instant between the last look for it and the sleep is heard after this. */
#define SLICE_NS    UINT64_C(10000000000)
#define SECOND_NS   1e9
#define SECONDS_MAX 1e9
#define NAMED_MAX   1024 /* bytes of a resource's name */

static PyTypeObject *keeper_type;

/* ---- types ---- */

PyTypeObject *pdi_type_add(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromSpec(spec);
    if (type == NULL)
        return NULL;
    Py_INCREF(type);
    if (PyModule_AddObject(module, name, type) < 0) {
        Py_DECREF(type);
        Py_DECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type;
}

void pdi_type_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* ---- arguments ---- */

int pdi_timeout(PyObject *given, uint64_t *timeout_ns)
{
    if (given == Py_None) {
        *timeout_ns = PDI_FOREVER;
        return 0;
    }
    double seconds = PyBool_Check(given) ? -1.0 : PyFloat_AsDouble(given);
    if (PyBool_Check(given) || (seconds == -1.0 && PyErr_Occurred() != NULL)) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "timeout is a number of seconds, or None for ever, not %R",
                     given);
        return -1;
    }
    if (!(seconds >= 0 && seconds <= SECONDS_MAX)) { /* not a number is neither */
        PyErr_Format(PyExc_ValueError,
                     "timeout is from 0 to 1000000000 seconds, or None for ever, not %R", given);
        return -1;
    }
    *timeout_ns = (uint64_t)(seconds * SECOND_NS);
    return 0;
}

int pdi_keyword(PyObject *names, Py_ssize_t i, const char *word)
{
    return PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, i), word) == 0;
}

int pdi_keyword_unknown(PyObject *names, Py_ssize_t i, const char *function, const char *known)
{
    PyErr_Format(PyExc_TypeError, "%s() has no keyword %R; it has %s", function,
                 PyTuple_GetItem(names, i), known);
    return -1;
}

uint64_t pdi_deadline(const struct pdi_keeper *keeper, uint64_t timeout_ns)
{
    return timeout_ns == PDI_FOREVER ? PDI_FOREVER
                                     : pyddsi_session_now(keeper->session) + timeout_ns;
}

uint64_t pdi_slice(const struct pdi_keeper *keeper, uint64_t deadline)
{
    if (deadline == PDI_FOREVER)
        return SLICE_NS;
    uint64_t now = pyddsi_session_now(keeper->session);
    uint64_t left = deadline > now ? deadline - now : 0;
    return left < SLICE_NS ? left : SLICE_NS;
}

PyObject *pdi_failed(PyObject *self, int status, size_t size, uint64_t timeout_ns)
{
    if (status == PDI_RAISED)
        return NULL;
    PyObject *seconds = timeout_ns == PDI_FOREVER
                            ? Py_NewRef(Py_None)
                            : PyFloat_FromDouble((double)timeout_ns / SECOND_NS);
    if (seconds == NULL)
        return NULL;
    PyObject *nothing =
        PyObject_CallMethod(self, "_failed", "inN", status, (Py_ssize_t)size, seconds);
    if (nothing != NULL) { /* it had to raise */
        Py_DECREF(nothing);
        PyErr_Format(PyExc_SystemError, "status %d was not explained", status);
    }
    return NULL;
}

/* Whether items of this size are pointers to Python objects: others could do nothing with them but harm. */
static int are_objects(PyObject *data)
{
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_FULL_RO) < 0) {
        PyErr_Clear(); /* numpy has no format for some of its types, such as times */
        return 0;
    }
    int found = view.format != NULL && strchr(view.format, 'O') != NULL;
    PyBuffer_Release(&view);
    return found;
}

int pdi_payload(PyObject *data, Py_buffer *view, PyObject **copy)
{
    *copy = NULL;
    if (PyObject_GetBuffer(data, view, PyBUF_SIMPLE) == 0) {
        if (view->itemsize < (Py_ssize_t)sizeof(PyObject *) || !are_objects(data))
            return 0;
        PyBuffer_Release(view);
        PyErr_SetString(PyExc_TypeError,
                        "a sample is bytes, or another buffer, not an array of Python objects");
        return -1;
    }
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        PyObject *kind = PyObject_GetAttrString((PyObject *)Py_TYPE(data), "__name__");
        PyErr_Format(PyExc_TypeError, "a sample is bytes, or another buffer, not %S%s",
                     kind != NULL ? kind : Py_None,
                     PyUnicode_Check(data) ? "; encode() it first" : "");
        Py_XDECREF(kind);
        return -1;
    }
    /* memory in pieces, such as every second row of a matrix: put together here */
    PyErr_Clear();
    if (PyObject_GetBuffer(data, view, PyBUF_FULL_RO) < 0)
        return -1;
    PyObject *whole = PyBytes_FromStringAndSize(NULL, view->len);
    if (whole == NULL || PyBuffer_ToContiguous(PyBytes_AsString(whole), view, view->len, 'C') < 0) {
        Py_XDECREF(whole);
        PyBuffer_Release(view);
        return -1;
    }
    PyBuffer_Release(view);
    *copy = whole;
    view->buf = PyBytes_AsString(whole);
    view->obj = NULL;
    return 0;
}

void pdi_payload_end(Py_buffer *view, PyObject *copy)
{
    if (copy != NULL)
        Py_DECREF(copy);
    else
        PyBuffer_Release(view);
}

/* ---- the keeper ---- */

struct pdi_keeper *pdi_keeper_of(PyObject *given)
{
    if (Py_TYPE(given) == keeper_type)
        return (struct pdi_keeper *)given;
    PyErr_Format(PyExc_TypeError, "a Keeper is needed, not %R", given);
    return NULL;
}

static PyObject *name_of(const uint8_t *id, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    char text[2 * PYDDSI_ID_MAX];
    for (size_t i = 0; i < size; i++) {
        text[2 * i] = digits[id[i] >> 4];
        text[2 * i + 1] = digits[id[i] & 15];
    }
    return PyUnicode_FromStringAndSize(text, (Py_ssize_t)(2 * size));
}

PyObject *pdi_keeper_source(struct pdi_keeper *keeper, uint32_t peer)
{
    struct pdi_source *known = &keeper->source[peer % PDI_SOURCES];
    pyddsi_peer look;
    if (peer == PYDDSI_OWN)
        return Py_NewRef(keeper->own);
    if (pyddsi_session_peer(keeper->session, peer, &look) != PYDDSI_OK || look.id_size == 0)
        return Py_NewRef(known->name != NULL && known->peer == peer ? known->name : Py_None);
    if (known->name != NULL && known->peer == peer && known->id_size == look.id_size &&
        memcmp(known->id, look.id, look.id_size) == 0)
        return Py_NewRef(known->name);
    PyObject *name = name_of(look.id, look.id_size);
    if (name == NULL)
        return NULL;
    Py_XDECREF(known->name);
    known->peer = peer;
    known->id_size = look.id_size;
    memcpy(known->id, look.id, sizeof(known->id));
    known->name = Py_NewRef(name);
    return name;
}

PyObject *pdi_name_shown(const uint8_t *name, size_t size)
{
    size_t slash = size > 1 && name[0] == '/';
    return PyUnicode_DecodeUTF8((const char *)name + slash, (Py_ssize_t)(size - slash), "replace");
}

static PyObject *named_anew(struct pdi_named *named, uint64_t key, const uint8_t *name, size_t size)
{
    PyObject *made = pdi_name_shown(name, size);
    if (made == NULL)
        return NULL;
    Py_XDECREF(named->name);
    named->key = key;
    named->name = made;
    return Py_NewRef(made);
}

/* The core is asked each time, as a peer that comes back may give a number another name; what a text is made of once is
 * used until then, and after the peer has left. */
PyObject *pdi_keeper_name(struct pdi_keeper *keeper, uint8_t space, uint64_t id)
{
    uint64_t key = (uint64_t)space << 56 | id;
    PyObject *number = PyLong_FromUnsignedLongLong(key);
    if (number == NULL)
        return NULL;
    PyObject *name = PyDict_GetItemWithError(keeper->names, number);
    Py_DECREF(number);
    if (name != NULL || PyErr_Occurred() != NULL)
        return Py_XNewRef(name);
    struct pdi_named *known = &keeper->named[(key ^ key >> 7 ^ key >> 15) >> 1 & (PDI_NAMED - 1)];
    uint8_t text[NAMED_MAX];
    size_t size = 0;
    int status = pyddsi_session_name(keeper->session, space, id, text, sizeof(text), &size);
    if (status == PYDDSI_OK) {
        size_t slash = size > 1 && text[0] == '/';
        Py_ssize_t held = 0;
        const char *same = known->key == key ? PyUnicode_AsUTF8AndSize(known->name, &held) : NULL;
        if (same == NULL || (size_t)held != size - slash ||
            memcmp(same, text + slash, size - slash) != 0)
            return named_anew(known, key, text, size);
    }
    if (known->key == key && key != 0)
        return Py_NewRef(known->name);
    return PyLong_FromUnsignedLongLong(id >> 1);
}

int pdi_sleep(struct pdi_keeper *keeper, uint32_t heard, uint64_t slice)
{
    Py_BEGIN_ALLOW_THREADS(void) pyddsi_session_wait(keeper->session, heard, slice);
    Py_END_ALLOW_THREADS return PyErr_CheckSignals() < 0 ? PDI_RAISED : 0;
}

/* Keeper(address, names, views_max, view_bytes_max, view_size): from now on it owns the session at this address. */
static PyObject *keeper_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    unsigned long long address = 0;
    PyObject *names = NULL;
    Py_ssize_t views = 0;
    Py_ssize_t bytes = 0;
    Py_ssize_t size = 0;
    if (keywords != NULL && PyDict_Size(keywords) != 0) {
        PyErr_SetString(PyExc_TypeError, "Keeper() takes no keywords");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "KO!nnn", &address, &PyDict_Type, &names, &views, &bytes, &size))
        return NULL;
    allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct pdi_keeper *keeper = (struct pdi_keeper *)make(type, 0);
    if (keeper == NULL)
        return NULL;
    uintptr_t place = (uintptr_t)address; /* cffi gives a pointer as a number */
    memcpy((void *)&keeper->session, &place, sizeof(place));
    keeper->wall_ns = pyddsi_session_wall(keeper->session);
    keeper->names = Py_NewRef(names);
    pyddsi_session_options options;
    pyddsi_endpoint local;
    pyddsi_session_look(keeper->session, &options, &local);
    keeper->own = name_of(options.node.id, options.node.id_size);
    if (keeper->own == NULL) {
        Py_DECREF((PyObject *)keeper);
        return NULL;
    }
    keeper->views_max = views;
    keeper->view_bytes_max = bytes;
    keeper->view_size = size;
    return (PyObject *)keeper;
}

static void keeper_dealloc(PyObject *self)
{
    struct pdi_keeper *keeper = (struct pdi_keeper *)self;
    pyddsi_session *session = keeper->session;
    if (session != NULL) {
        Py_BEGIN_ALLOW_THREADS pyddsi_session_close(session, 0);
        pyddsi_session_free(session);
        Py_END_ALLOW_THREADS
    }
    Py_XDECREF(keeper->own);
    Py_XDECREF(keeper->names);
    for (size_t i = 0; i < PDI_SOURCES; i++)
        Py_XDECREF(keeper->source[i].name);
    for (size_t i = 0; i < PDI_NAMED; i++)
        Py_XDECREF(keeper->named[i].name);
    pdi_type_free(self);
}

/* (views, bytes of large ones, samples copied for want of views, loans copied) */
static PyObject *keeper_counts(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    const struct pdi_keeper *keeper = (struct pdi_keeper *)self;
    return Py_BuildValue("(nnKK)", keeper->views, keeper->view_bytes,
                         (unsigned long long)keeper->copied,
                         (unsigned long long)keeper->loans_copied);
}

static PyMethodDef keeper_methods[] = {
    {"counts", keeper_counts, METH_NOARGS,
     "counts($self, /)\n--\n\nViews, bytes of large ones, samples copied for want of views, loans "
     "copied."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot keeper_slots[] = {
    {Py_tp_doc, "Owns a session: what needs its memory holds this."},
    {Py_tp_new, (void *)keeper_new},
    {Py_tp_dealloc, (void *)keeper_dealloc},
    {Py_tp_methods, keeper_methods},
    {0, NULL},
};

static PyType_Spec keeper_spec = {"pyddsi._core.Keeper", sizeof(struct pdi_keeper), 0,
                                  Py_TPFLAGS_DEFAULT, keeper_slots};

int pdi_keeper_type(PyObject *module)
{
    keeper_type = pdi_type_add(module, &keeper_spec, "Keeper");
    return keeper_type == NULL ? -1 : 0;
}
