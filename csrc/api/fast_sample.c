/* fast_sample.c - a sample as Python has it.
 *
 * A sample is light: where its bytes are, and whom to give them back to. It comes in two kinds.
 *
 *     copy   its bytes stand behind it; the session's memory was given back before the program saw it. All small samples
 *            are copies: a copy of 64 bytes costs 2 ns, giving back one by one costs 20
 *     view   its bytes are where the kernel or the publisher wrote them, and stay there until nobody looks at them: the
 *            sample gives them back when it ends, and every memoryview or array made of it keeps it alive
 *
 * A program that keeps many large samples would keep the memory that further ones need. So there may be only so many views
 * (keeper->views_max, view_bytes_max); what comes then is copied, and counted.
 *
 * Samples of one size come and go quickly, so their memory is kept in a list for each of a few sizes and used again.
 */
#include "api/fast.h"

#include <string.h>

#define CLASSES    UINT8_C(4)
#define CLASS_NONE UINT8_C(255)

enum { SPARE_MAX = 256 };

static const size_t class_bytes[CLASSES] = {0, 64, 256, PDI_COPIED_MAX};

struct sample {
    PyObject_HEAD struct pdi_keeper *keeper;
    PyObject *source;
    pyddsi_received raw;
    Py_ssize_t exports; /* buffers that look at the data */
    uint8_t class;      /* which list its memory comes from */
    uint8_t view;       /* 1: raw must be given back */
    uint8_t released;   /* 1: the program does not want it any more */
    uint8_t bytes[];
};

/* Memory of samples that have ended. */
struct spare {
    struct spare *next;
};

static PyTypeObject *sample_type;
static struct spare *spares[CLASSES];
static uint32_t spare_count[CLASSES];

/* ---- memory ---- */

static struct sample *memory_new(uint8_t class, size_t bytes)
{
    struct sample *sample;
    if (class != CLASS_NONE && spares[class] != NULL) {
        sample = (struct sample *)(void *)spares[class];
        spares[class] = spares[class]->next;
        spare_count[class]--;
    } else {
        sample = PyObject_Malloc(sizeof(struct sample) + bytes);
    }
    return sample == NULL ? (struct sample *)PyErr_NoMemory()
                          : (struct sample *)PyObject_Init((PyObject *)sample, sample_type);
}

static void memory_free(struct sample *sample)
{
    uint8_t class = sample->class;
    if (class == CLASS_NONE || spare_count[class] >= SPARE_MAX) {
        PyObject_Free(sample);
    } else {
        struct spare *spare = (struct spare *)(void *)sample;
        spare->next = spares[class];
        spares[class] = spare;
        spare_count[class]++;
    }
    Py_DECREF((PyObject *)sample_type);
}

/* ---- life ---- */

int pdi_sample_copies(struct pdi_keeper *keeper, size_t size)
{
    if (size <= PDI_COPIED_MAX)
        return 1;
    int large = (Py_ssize_t)size > keeper->view_size;
    if (keeper->views < keeper->views_max &&
        (!large || keeper->view_bytes + (Py_ssize_t)size <= keeper->view_bytes_max))
        return 0;
    keeper->copied++;
    return 1;
}

static uint8_t class_of(size_t size)
{
    for (uint8_t class = 1; class < CLASSES; class++) {
        if (size <= class_bytes[class])
            return class;
    }
    return CLASS_NONE;
}

PyObject *pdi_sample_new(struct pdi_keeper *keeper, PyObject *source, const pyddsi_received *raw,
                         int copies)
{
    size_t front = raw->name_gap + (size_t)raw->name_size; /* its name lies before its data */
    size_t size = front + raw->size;
    uint8_t class = copies ? class_of(size) : 0;
    struct sample *sample = memory_new(class, class == CLASS_NONE ? size : class_bytes[class]);
    if (sample == NULL)
        return NULL;
    sample->keeper = (struct pdi_keeper *)Py_NewRef((PyObject *)keeper);
    sample->source = Py_NewRef(source);
    sample->raw = *raw;
    sample->exports = 0;
    sample->class = class;
    sample->view = !copies;
    sample->released = 0;
    if (copies) {
        if (size != 0)
            memcpy(sample->bytes, raw->data - front, size);
        sample->raw.data = sample->bytes + front;
    } else {
        keeper->views++;
        keeper->view_bytes += (Py_ssize_t)raw->size > keeper->view_size ? (Py_ssize_t)raw->size : 0;
    }
    return (PyObject *)sample;
}

const pyddsi_received *pdi_sample_raw(PyObject *sample)
{
    return &((struct sample *)sample)->raw;
}

static void give_back(struct sample *sample)
{
    struct pdi_keeper *keeper = sample->keeper;
    Py_ssize_t size = (Py_ssize_t)sample->raw.size;
    if (!sample->view)
        return;
    sample->view = 0;
    keeper->views--;
    keeper->view_bytes -= size > keeper->view_size ? size : 0;
    pyddsi_session_release(keeper->session, &sample->raw, 1);
}

static void sample_dealloc(PyObject *self)
{
    struct sample *sample = (struct sample *)self;
    give_back(sample);
    Py_DECREF(sample->source);
    Py_DECREF((PyObject *)sample->keeper);
    memory_free(sample);
}

/* ---- what a program asks of it ---- */

static int sample_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    struct sample *sample = (struct sample *)self;
    if (sample->released) {
        view->obj = NULL;
        PyErr_SetString(
            PyExc_ValueError,
            "this sample was released; bytes(sample.data) before that is a copy that stays");
        return -1;
    }
    static uint8_t nothing;
    void *data = &nothing;
    if (sample->raw.size != 0) /* read-only: what is asked for is told by a flag, not by const */
        memcpy((void *)&data, (const void *)&sample->raw.data, sizeof(data));
    if (PyBuffer_FillInfo(view, self, data, (Py_ssize_t)sample->raw.size, 1, flags) < 0)
        return -1;
    sample->exports++;
    return 0;
}

static void sample_releasebuffer(PyObject *self, Py_buffer *view)
{
    (void)view;
    struct sample *sample = (struct sample *)self;
    if (--sample->exports == 0 && sample->released)
        give_back(sample);
}

static PyObject *sample_data(PyObject *self, void *closure)
{
    (void)closure;
    return PyMemoryView_FromObject(self);
}

static PyObject *sample_resource(PyObject *self, void *closure)
{
    (void)closure;
    const struct sample *sample = (struct sample *)self;
    if (sample->raw.name_size != 0)
        return pdi_name_shown(sample->raw.data - sample->raw.name_gap - sample->raw.name_size,
                              sample->raw.name_size);
    return pdi_keeper_name(sample->keeper, sample->raw.space, sample->raw.resource);
}

static PyObject *sample_number(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(((struct sample *)self)->raw.number);
}

static PyObject *sample_time_ns(PyObject *self, void *closure)
{
    (void)closure;
    const struct sample *sample = (struct sample *)self;
    return PyLong_FromUnsignedLongLong(sample->keeper->wall_ns + sample->raw.time_ns);
}

static PyObject *sample_source(PyObject *self, void *closure)
{
    (void)closure;
    return Py_NewRef(((struct sample *)self)->source);
}

static PyObject *sample_conduit(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLong(((struct sample *)self)->raw.conduit);
}

static PyObject *sample_space(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLong(((struct sample *)self)->raw.space);
}

static PyObject *sample_reliable(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((struct sample *)self)->raw.reliable);
}

static PyObject *sample_size(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(((struct sample *)self)->raw.size);
}

static Py_ssize_t sample_length(PyObject *self)
{
    return (Py_ssize_t)((struct sample *)self)->raw.size;
}

static PyObject *sample_release(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    struct sample *sample = (struct sample *)self;
    sample->released = 1;
    if (sample->exports == 0)
        give_back(sample);
    Py_RETURN_NONE;
}

static PyObject *sample_enter(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return Py_NewRef(self);
}

static PyObject *sample_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)args;
    (void)count;
    return sample_release(self, NULL);
}

static PyObject *sample_repr(PyObject *self)
{
    struct sample *sample = (struct sample *)self;
    PyObject *resource = sample_resource(self, NULL);
    if (resource == NULL)
        return NULL;
    PyObject *text = PyUnicode_FromFormat("<Sample %llu of %R from %R, %zu bytes>",
                                          (unsigned long long)sample->raw.number, resource,
                                          sample->source, sample->raw.size);
    Py_DECREF(resource);
    return text;
}

/* Two samples, or a sample and bytes, are equal if their bytes are. */
static PyObject *sample_compare(PyObject *self, PyObject *other, int how)
{
    if ((how != Py_EQ && how != Py_NE) || !(Py_TYPE(other) == sample_type || PyBytes_Check(other) ||
                                            PyByteArray_Check(other) || PyMemoryView_Check(other)))
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *view = PyMemoryView_FromObject(self);
    PyObject *answer = view == NULL ? NULL : PyObject_RichCompare(view, other, how);
    Py_XDECREF(view);
    return answer;
}

/* As that of the bytes that it is equal to. A memoryview asks its object for this, so it is no help here. */
static Py_hash_t sample_hash(PyObject *self)
{
    PyObject *copy = PyBytes_FromObject(self);
    Py_hash_t hash = copy == NULL ? -1 : PyObject_Hash(copy);
    Py_XDECREF(copy);
    return hash;
}

static PyObject *sample_reduce(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    PyErr_Format(PyExc_TypeError,
                 "%R belongs to its session, and cannot be copied or pickled; bytes(sample) can, "
                 "beside its resource, "
                 "number, source and time_ns",
                 self);
    return NULL;
}

static PyGetSetDef sample_fields[] = {
    {"data", sample_data, NULL, "Its bytes, where they are; every view keeps the sample's memory.",
     NULL},
    {"resource", sample_resource, NULL, "Its name, or its number where no name is known.", NULL},
    {"number", sample_number, NULL, "In its conduit, counted on without wrapping.", NULL},
    {"time_ns", sample_time_ns, NULL, "When its last byte came in, in nanoseconds since 1970.",
     NULL},
    {"source", sample_source, NULL, "The name of the session that sent it.", NULL},
    {"conduit", sample_conduit, NULL, "The sender's conduit.", NULL},
    {"space", sample_space, NULL, "The resource space.", NULL},
    {"reliable", sample_reliable, NULL, "Whether it would have been sent again.", NULL},
    {"size", sample_size, NULL, "How many bytes it has.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef sample_methods[] = {
    {"release", sample_release, METH_NOARGS,
     "release($self, /)\n--\n\nThe data is not needed any more; views made of it before keep the "
     "memory "
     "further."},
    {"__reduce_ex__", sample_reduce, METH_O, NULL},
    {"__enter__", sample_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))sample_exit, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot sample_slots[] = {
    {Py_tp_doc,
     "A sample as its reader gets it: a read-only buffer that knows where it came from."},
    {Py_tp_dealloc, (void *)sample_dealloc},
    {Py_tp_repr, (void *)sample_repr},
    {Py_tp_richcompare, (void *)sample_compare},
    {Py_tp_hash, (void *)sample_hash},
    {Py_tp_getset, sample_fields},
    {Py_tp_methods, sample_methods},
    {Py_bf_getbuffer, (void *)sample_getbuffer},
    {Py_bf_releasebuffer, (void *)sample_releasebuffer},
    {Py_sq_length, (void *)sample_length},
    {0, NULL},
};

static PyType_Spec sample_spec = {"pyddsi.Sample", sizeof(struct sample), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  sample_slots};

int pdi_sample_type(PyObject *module)
{
    sample_type = pdi_type_add(module, &sample_spec, "Sample");
    return sample_type == NULL ? -1 : 0;
}
