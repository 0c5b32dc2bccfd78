/* fast_take.c - how samples come out of a subscriber. The base of pyddsi.Subscriber.
 *
 * One crossing takes as many samples as are there, up to a batch; recv() and the loop over a subscriber then hand them out
 * one by one without asking the core again:
 *
 *     core's ring ── take ──► ready[at .. count) ── recv, for, poll ──► program
 *                └────────────────── recv_many ───────────────────────►
 *
 * How many may be taken ahead is said when the reader is attached: none where a full ring drops its oldest samples, since
 * what lies here could not be dropped any more, and the program wants the newest.
 *
 * While a thread sleeps for samples, others run: the core is asked again after every sleep, and nothing is remembered
 * across it.
 *
 * A sample that was taken from the core and does not reach the program (the subscriber was closed, there was no memory) gets
 * its line in the ledger here: the core has handed it over and does not know. The file is long, as all ways out have to do so.
 */
#include "api/fast.h"
#include "api/fast_reader.h"
#include "host/clock.h"

/* ---- from the core ---- */

Py_ssize_t pdi_reader_wrap(struct pdi_fast_reader *reader, const pyddsi_received *raw, size_t count,
                           PyObject **made)
{
    struct pdi_keeper *keeper = reader->keeper;
    pyddsi_received back[PDI_BATCH_MAX];
    size_t backs = 0;
    Py_ssize_t makes = 0;
    PyObject *source = NULL;
    uint32_t peer = 0;
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        if (raw[i].last || failed) {
            reader->answers += raw[i].last;
            back[backs++] = raw[i];
            continue;
        }
        if (source == NULL || raw[i].peer != peer) {
            Py_XDECREF(source);
            peer = raw[i].peer;
            source = pdi_keeper_source(keeper, peer);
        }
        int copies = pdi_sample_copies(keeper, raw[i].size);
        PyObject *sample = source != NULL ? pdi_sample_new(keeper, source, &raw[i], copies) : NULL;
        failed = sample == NULL;
        if (failed || copies)
            back[backs++] = raw[i];
        if (!failed)
            made[makes++] = sample;
    }
    Py_XDECREF(source);
    for (size_t i = 0; failed && i < count; i++) {
        if (!raw[i].last)
            pyddsi_session_unread(keeper->session, &raw[i], 1, PYDDSI_BY_FULL);
    }
    if (backs != 0)
        pyddsi_session_release(keeper->session, back, backs);
    for (Py_ssize_t i = 0; failed && i < makes; i++)
        Py_DECREF(made[i]);
    return failed ? PDI_RAISED : makes;
}

/* Fills the batch, which is empty. OK: at least one is there. */
static int fill(struct pdi_fast_reader *reader)
{
    pyddsi_received raw[PDI_BATCH_MAX];
    size_t count = 0;
    if (reader->keeper == NULL)
        return PYDDSI_CLOSED;
    for (;;) { /* again only where all that came were ends of answers */
        int status = pyddsi_session_take(reader->keeper->session, reader->handle, raw,
                                         reader->ahead, &count);
        if (status != PYDDSI_OK)
            return status;
        Py_ssize_t made = pdi_reader_wrap(reader, raw, count, reader->ready);
        if (made < 0)
            return PDI_RAISED;
        reader->at = 0;
        reader->count = (uint32_t)made;
        if (made != 0)
            return PYDDSI_OK;
    }
}

/* For so short a time that no other thread of Python misses the interpreter's lock. */
static int look_again(struct pdi_fast_reader *reader)
{
    int status = PYDDSI_AGAIN;
    pdi_time until = pdi_spin_begin(&reader->spin);
    while (status == PYDDSI_AGAIN && until != 0 && pdi_clock_now() < until) {
        pdi_spin_pause();
        status = fill(reader);
    }
    if (until != 0)
        pdi_spin_end(&reader->spin, status != PYDDSI_AGAIN);
    return status;
}

int pdi_reader_await(struct pdi_fast_reader *reader, uint64_t timeout_ns)
{
    int status = fill(reader);
    if (status == PYDDSI_AGAIN && timeout_ns != 0)
        status = look_again(reader);
    if (status != PYDDSI_AGAIN || timeout_ns == 0)
        return status;
    struct pdi_keeper *keeper = (struct pdi_keeper *)Py_NewRef((PyObject *)reader->keeper);
    uint64_t deadline = pdi_deadline(keeper, timeout_ns);
    for (;;) { /* ends with the time */
        uint32_t heard = pyddsi_session_listen(keeper->session);
        status = fill(reader);
        uint64_t slice = status == PYDDSI_AGAIN ? pdi_slice(keeper, deadline) : 0;
        if (slice == 0) {
            pyddsi_session_unlisten(keeper->session);
            break;
        }
        if (pdi_sleep(keeper, heard, slice) < 0) {
            status = PDI_RAISED;
            break;
        }
        /* another thread may have been quicker to fill it; to look before we listen again costs less than to listen */
        status = reader->at < reader->count ? PYDDSI_OK : fill(reader);
        if (status != PYDDSI_AGAIN)
            break;
    }
    Py_DECREF((PyObject *)keeper);
    return status;
}

PyObject *pdi_reader_pop(struct pdi_fast_reader *reader)
{
    return reader->at < reader->count ? reader->ready[reader->at++] : NULL;
}

/* ---- arguments ---- */

/* `timeout`, by place or by name, behind `skip` other arguments. */
static int timeout_of(const char *function, PyObject *const *args, Py_ssize_t count,
                      PyObject *names, uint64_t *timeout_ns)
{
    Py_ssize_t named = names != NULL ? PyTuple_Size(names) : 0;
    *timeout_ns = PDI_FOREVER;
    if (count + named > 1) {
        PyErr_Format(PyExc_TypeError, "%s() takes a timeout and nothing else", function);
        return -1;
    }
    if (named == 1 && !pdi_keyword(names, 0, "timeout"))
        return pdi_keyword_unknown(names, 0, function, "timeout");
    return count + named == 1 ? pdi_timeout(args[0], timeout_ns) : 0;
}

int pdi_reader_many(const char *function, PyObject *const *args, Py_ssize_t count, PyObject *names,
                    Py_ssize_t *max, uint64_t *timeout_ns)
{
    Py_ssize_t named = names != NULL ? PyTuple_Size(names) : 0;
    PyObject *most = count > 0 ? args[0] : NULL;
    *timeout_ns = PDI_FOREVER;
    if (count > 1) {
        PyErr_Format(PyExc_TypeError, "%s() takes max and keywords", function);
        return -1;
    }
    for (Py_ssize_t i = 0; i < named; i++) {
        if (pdi_keyword(names, i, "timeout")) {
            if (pdi_timeout(args[count + i], timeout_ns) < 0)
                return -1;
        } else if (pdi_keyword(names, i, "max") && most == NULL) {
            most = args[count + i];
        } else {
            return pdi_keyword_unknown(names, i, function, "max and timeout");
        }
    }
    if (most == NULL)
        return 0;
    *max = PyBool_Check(most) || !PyLong_Check(most) ? -1 : PyLong_AsSsize_t(most);
    if (*max < 1) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "max is a number of samples, 1 or more, not %R", most);
        return -1;
    }
    return 0;
}

/* ---- calls ---- */

static PyObject *reader_recv(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names)
{
    struct pdi_fast_reader *reader = (struct pdi_fast_reader *)self;
    uint64_t timeout_ns;
    if (timeout_of("recv", args, count, names, &timeout_ns) < 0)
        return NULL;
    for (;;) { /* again only if another thread took what came */
        PyObject *sample = pdi_reader_pop(reader);
        if (sample != NULL)
            return sample;
        int status = pdi_reader_await(reader, timeout_ns);
        if (status != PYDDSI_OK)
            return pdi_failed(self, status, 0, timeout_ns);
    }
}

static PyObject *reader_poll(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    struct pdi_fast_reader *reader = (struct pdi_fast_reader *)self;
    PyObject *sample = pdi_reader_pop(reader);
    if (sample != NULL)
        return sample;
    int status = fill(reader);
    if (status == PYDDSI_OK)
        return pdi_reader_pop(reader);
    if (status == PYDDSI_AGAIN)
        Py_RETURN_NONE;
    return pdi_failed(self, status, 0, 0);
}

/* A loop over a subscriber ends when it, or its session, is closed. */
static PyObject *reader_next(PyObject *self)
{
    struct pdi_fast_reader *reader = (struct pdi_fast_reader *)self;
    for (;;) { /* again only if another thread took what came */
        PyObject *sample = pdi_reader_pop(reader);
        if (sample != NULL)
            return sample;
        int status = pdi_reader_await(reader, PDI_FOREVER);
        if (status == PYDDSI_CLOSED)
            return NULL;
        if (status != PYDDSI_OK)
            return pdi_failed(self, status, 0, PDI_FOREVER);
    }
}

/* What is there now, at most max samples, appended to the list. OK, also if it is nothing. */
static int gather(struct pdi_fast_reader *reader, PyObject *list, Py_ssize_t max)
{
    pyddsi_received raw[PDI_BATCH_MAX];
    PyObject *made[PDI_BATCH_MAX];
    int status = PYDDSI_OK;
    while (PyList_Size(list) < max) { /* each round appends one, or ends it */
        PyObject *sample = pdi_reader_pop(reader);
        if (sample == NULL)
            break;
        int failed = PyList_Append(list, sample) < 0;
        Py_DECREF(sample);
        if (failed)
            return PDI_RAISED;
    }
    /* Each round appends some, or ends it. A take of fewer than there was room for is not repeated: what it left is to come
     * with the next call. */
    bool more = true;
    while (status == PYDDSI_OK && more && PyList_Size(list) < max) {
        size_t count = 0;
        Py_ssize_t left = max - PyList_Size(list);
        size_t room = left < PDI_BATCH_MAX ? (size_t)left : PDI_BATCH_MAX;
        if (reader->keeper == NULL)
            return PYDDSI_CLOSED;
        status = pyddsi_session_take(reader->keeper->session, reader->handle, raw, room, &count);
        more = count == room;
        Py_ssize_t makes = status == PYDDSI_OK ? pdi_reader_wrap(reader, raw, count, made) : 0;
        int failed = makes < 0;
        for (Py_ssize_t i = 0; i < makes; i++) {
            failed = failed || PyList_Append(list, made[i]) < 0;
            Py_DECREF(made[i]);
        }
        if (failed)
            return PDI_RAISED;
    }
    return status == PYDDSI_AGAIN || PyList_Size(list) != 0 ? PYDDSI_OK : status;
}

/* The list of a call that fails: the program will never see the samples in it. */
static void give_up(struct pdi_fast_reader *reader, PyObject *list)
{
    for (Py_ssize_t i = 0; reader->keeper != NULL && i < PyList_Size(list); i++) {
        const pyddsi_received *raw = pdi_sample_raw(PyList_GetItem(list, i));
        pyddsi_session_unread(reader->keeper->session, raw, 1, PYDDSI_BY_FULL);
    }
    Py_DECREF(list);
}

static PyObject *reader_recv_many(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                  PyObject *names)
{
    struct pdi_fast_reader *reader = (struct pdi_fast_reader *)self;
    uint64_t timeout_ns;
    Py_ssize_t max = 256;
    if (pdi_reader_many("recv_many", args, count, names, &max, &timeout_ns) < 0)
        return NULL;
    PyObject *list = PyList_New(0);
    if (list == NULL)
        return NULL;
    int status = gather(reader, list, max);
    while (status == PYDDSI_OK && PyList_Size(list) == 0) { /* again if another thread took it */
        status = pdi_reader_await(reader, timeout_ns);
        if (status == PYDDSI_OK)
            status = gather(reader, list, max);
    }
    if (status == PYDDSI_OK)
        return list;
    give_up(reader, list);
    return pdi_failed(self, status, 0, timeout_ns);
}

/* What is there now, without waiting: a list that may be empty, or None where it is closed. */
static PyObject *reader_take(PyObject *self, PyObject *given)
{
    struct pdi_fast_reader *reader = (struct pdi_fast_reader *)self;
    Py_ssize_t max = PyLong_AsSsize_t(given);
    PyObject *list = max == -1 && PyErr_Occurred() != NULL ? NULL : PyList_New(0);
    if (list == NULL)
        return NULL;
    int status = gather(reader, list, max);
    if (status == PYDDSI_OK)
        return list;
    give_up(reader, list);
    if (status == PYDDSI_CLOSED)
        Py_RETURN_NONE;
    return pdi_failed(self, status, 0, 0);
}

static PyObject *reader_attach(PyObject *self, PyObject *args)
{
    struct pdi_fast_reader *reader = (struct pdi_fast_reader *)self;
    PyObject *given = NULL;
    unsigned int handle = 0;
    unsigned int ahead = 0;
    if (!PyArg_ParseTuple(args, "OII", &given, &handle, &ahead))
        return NULL;
    struct pdi_keeper *keeper = pdi_keeper_of(given);
    if (keeper == NULL)
        return NULL;
    Py_INCREF(given);
    Py_XDECREF((PyObject *)reader->keeper);
    reader->keeper = keeper;
    reader->handle = handle;
    pdi_spin_init(&reader->spin);
    reader->ahead = ahead < 1 ? 1 : ahead > PDI_BATCH_MAX ? PDI_BATCH_MAX : ahead;
    Py_RETURN_NONE;
}

/* From now on it answers as closed. What was taken ahead gets its lines in the ledger. */
static PyObject *reader_detach(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    struct pdi_fast_reader *reader = (struct pdi_fast_reader *)self;
    struct pdi_keeper *keeper = reader->keeper;
    reader->keeper = NULL;
    if (keeper == NULL)
        Py_RETURN_NONE;
    PyObject *sample;
    while ((sample = pdi_reader_pop(reader)) != NULL) { /* at most a batch */
        pyddsi_session_unread(keeper->session, pdi_sample_raw(sample), 1, PYDDSI_BY_CLOSE);
        Py_DECREF(sample);
    }
    Py_DECREF((PyObject *)keeper);
    Py_RETURN_NONE;
}

static void reader_dealloc(PyObject *self)
{
    struct pdi_fast_reader *reader = (struct pdi_fast_reader *)self;
    while (reader->at < reader->count) /* at most a batch */
        Py_DECREF(reader->ready[reader->at++]);
    Py_XDECREF((PyObject *)reader->keeper);
    pdi_type_free(self);
}

static PyObject *reader_iter(PyObject *self)
{
    return Py_NewRef(self);
}

static PyObject *reader_answers(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(((struct pdi_fast_reader *)self)->answers);
}

static PyGetSetDef reader_fields[] = {
    {"answers", reader_answers, NULL, "How many answers to pull() have come to their end.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

#define FAST(function) ((PyCFunction)(void (*)(void))(function))
#define KEYWORDS       (METH_FASTCALL | METH_KEYWORDS)

static PyMethodDef reader_methods[] = {
    {"recv", FAST(reader_recv), KEYWORDS,
     "recv($self, /, timeout=None)\n--\n\n"
     "The next sample. Waits for it; TimeoutError after `timeout` seconds (None: for ever)."},
    {"recv_many", FAST(reader_recv_many), KEYWORDS,
     "recv_many($self, /, max=256, *, timeout=None)\n--\n\n"
     "A list of the samples that are there, at most `max`. Waits for the first one as recv()."},
    {"poll", reader_poll, METH_NOARGS,
     "poll($self, /)\n--\n\nThe next sample if one is there now, else None."},
    {"_array", FAST(pdi_reader_array), KEYWORDS,
     "_array($self, item, /, max=65536, *, timeout=None)\n--\n\n"},
    {"_take", reader_take, METH_O, "_take($self, max, /)\n--\n\n"},
    {"_attach", reader_attach, METH_VARARGS, "_attach($self, keeper, handle, ahead, /)\n--\n\n"},
    {"_detach", reader_detach, METH_NOARGS, "_detach($self, /)\n--\n\n"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, "How samples come out of a subscriber."},
    {Py_tp_dealloc, (void *)reader_dealloc},
    {Py_tp_iter, (void *)reader_iter},
    {Py_tp_iternext, (void *)reader_next},
    {Py_tp_methods, reader_methods},
    {Py_tp_getset, reader_fields},
    {0, NULL},
};

static PyType_Spec reader_spec = {"pyddsi._core.Reader", sizeof(struct pdi_fast_reader), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, reader_slots};

int pdi_reader_type(PyObject *module)
{
    return pdi_type_add(module, &reader_spec, "Reader") == NULL ? -1 : 0;
}
