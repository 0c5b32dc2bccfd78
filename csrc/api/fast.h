/* fast.h - the hot calls from Python: what module.c registers, and what the files behind it share.
 *
 * cffi's calls cost about 100 ns, which is more than a sample may. So the objects that samples go through are types of
 * this extension, and Python's own classes inherit from them:
 *
 *     fast_keeper.c   Keeper   owns a session; whoever needs its memory holds the keeper
 *     fast_put.c      Writer   put, put_many, put_array       base of pyddsi.Publisher
 *     fast_loan.c     Loan     a sample written in place, by a with statement
 *     fast_take.c     Reader   recv, recv_many, iteration     base of pyddsi.Subscriber
 *     fast_sample.c   Sample   what comes out of a reader
 *     fast.c          columns of captured packets
 *     fast_arrow.c    batches of captures, as Arrow takes them
 *     fast_lines.c    packets of captures as lines of text
 *
 * Two rules hold for all of them. First a call is tried as it is, with the interpreter's lock held, since nearly always it
 * succeeds in less time than giving the lock away takes; only when there is no room, or nothing to read, the lock is given
 * away and the thread sleeps in the core, until something happens there or a signal comes (Ctrl-C). And no thread of the
 * core ever waits for the interpreter's lock, so to wait for the core's lock while holding it cannot end in a deadlock.
 *
 * What a failure means is said by Python code: `_failed(status, size, timeout)` of the subclass raises.
 */
#ifndef PDI_API_FAST_H
#define PDI_API_FAST_H

#include <Python.h>

#include "pyddsi.h"

/* As PyObject_HEAD says it, for readers of this file: every struct below begins with a Python object. */

#define PDI_FOREVER UINT64_MAX

enum {
    PDI_SOURCES = 16, /* names of peers that a keeper remembers, */
    PDI_NAMED = 64,   /* and of resources that others declared */
    PDI_COPIED_MAX =
        1024, /* samples up to this size are copied: that costs less than giving them back one by one */
    PDI_BATCH_MAX = 64, /* samples that cross the border at once */
    PDI_RAISED = -100,  /* beside enum pyddsi_status: a Python exception is set */
};

/* What a peer is called, as long as it is the one with this index. */
struct pdi_source {
    uint32_t peer;
    uint8_t id_size;
    uint8_t id[PYDDSI_ID_MAX];
    PyObject *name;
};

/* What a resource is called, as long as the core says the same. */
struct pdi_named {
    uint64_t key; /* space << 56 | id on the wire; 0: empty */
    PyObject *name;
};

struct pdi_keeper {
    PyObject_HEAD pyddsi_session *session;
    uint64_t wall_ns;      /* what 0 of the session's clock is in time since 1970 */
    PyObject *own;         /* what the session itself is called */
    PyObject *names;       /* space << 56 | id on the wire -> what this program calls it */
    Py_ssize_t views;      /* samples that keep memory of the session, */
    Py_ssize_t views_max;  /* and how many may; further ones are copied */
    Py_ssize_t view_bytes; /* the same for the bytes of them that are larger than a packet */
    Py_ssize_t view_bytes_max;
    Py_ssize_t view_size;  /* how large a packet is */
    uint64_t copied;       /* samples that were copied because there were too many views, */
    uint64_t loans_copied; /* and loans because a view of them lived longer than they did */
    struct pdi_source source[PDI_SOURCES];
    struct pdi_named named[PDI_NAMED];
};

/* columns(packets, reading): every message of a list of packets, as columns. */
PyObject *pdi_fast_columns(PyObject *self, PyObject *const *args, Py_ssize_t count);

/* scan_schema(address), scan_batch(address), scan_rows(address): see fast_arrow.c. */
PyObject *pdi_fast_scan_rows(PyObject *self, PyObject *address);
PyObject *pdi_fast_scan_schema(PyObject *self, PyObject *address);
PyObject *pdi_fast_scan_batch(PyObject *self, PyObject *address);

/* scan_lines(address, start): see fast_lines.c. */
PyObject *pdi_fast_scan_lines(PyObject *self, PyObject *const *args, Py_ssize_t count);

/* ---- types; each answers 0, or -1 with an exception ---- */

int pdi_keeper_type(PyObject *module);
int pdi_sample_type(PyObject *module);
int pdi_writer_type(PyObject *module);
int pdi_loan_type(PyObject *module);
int pdi_reader_type(PyObject *module);
/* Makes a type and puts it into the module; the reference that it answers lives as long as the process. */
PyTypeObject *pdi_type_add(PyObject *module, PyType_Spec *spec, const char *name);
/* Ends an object of a type made from a spec, or of a subclass of it. */
void pdi_type_free(PyObject *self);

/* ---- keeper ---- */

/* `given` if it is a keeper (a borrowed reference), else null and TypeError. */
struct pdi_keeper *pdi_keeper_of(PyObject *given);
/* What the peer with this index is called now; a new reference, None if nobody knows, null with an exception. */
PyObject *pdi_keeper_source(struct pdi_keeper *keeper, uint32_t peer);
/* What a resource is called: as this program named it, or a peer; or its number. Likewise. */
PyObject *pdi_keeper_name(struct pdi_keeper *keeper, uint8_t space, uint64_t id);
/* A name in wire form as people write it: on the wire every name begins with a slash. A new reference. */
PyObject *pdi_name_shown(const uint8_t *name, size_t size);
/* Gives the interpreter's lock away and sleeps until something has happened since `heard`, or `slice` is over, or a signal
 * comes, whose handler is run. 0, or PDI_RAISED. */
int pdi_sleep(struct pdi_keeper *keeper, uint32_t heard, uint64_t slice);

/* ---- arguments ---- */

/* Seconds, or None for ever, as nanoseconds. 0, or -1 with an exception. */
int pdi_timeout(PyObject *given, uint64_t *timeout_ns);
/* Whether the i-th keyword is this one. */
int pdi_keyword(PyObject *names, Py_ssize_t i, const char *word);
/* TypeError for a keyword that `function` does not have; answers -1. */
int pdi_keyword_unknown(PyObject *names, Py_ssize_t i, const char *function, const char *known);
/* When a wait that begins now is over; PDI_FOREVER: never. */
uint64_t pdi_deadline(const struct pdi_keeper *keeper, uint64_t timeout_ns);
/* How long to sleep now: what is left, but not for ever; 0: the time is over. */
uint64_t pdi_slice(const struct pdi_keeper *keeper, uint64_t deadline);
/* self._failed(status, size, timeout), which raises. Answers null. */
PyObject *pdi_failed(PyObject *self, int status, size_t size, uint64_t timeout_ns);
/* Memory of a buffer in one piece, read-only; a copy if it is scattered (*copy, else null). 0, or -1 with an exception. */
int pdi_payload(PyObject *data, Py_buffer *view, PyObject **copy);
void pdi_payload_end(Py_buffer *view, PyObject *copy);

/* ---- publishers ---- */

/* Publishes for a Writer, sleeping for room if need be; what is larger than its windows leaves in pieces. OK, or as
 * pdi_failed takes it. */
int pdi_put(PyObject *writer, const void *data, size_t size, uint64_t timeout_ns);

/* ---- samples ---- */

/* Whether a sample of this size becomes a copy, so that the session's memory can be given back at once. */
int pdi_sample_copies(struct pdi_keeper *keeper, size_t size);
/* A new sample: a copy, or a view that gives `raw` back when it ends. Null: no memory, and `raw` is still the caller's. */
PyObject *pdi_sample_new(struct pdi_keeper *keeper, PyObject *source, const pyddsi_received *raw,
                         int copies);
/* The sample as the core gave it, for the ledger. */
const pyddsi_received *pdi_sample_raw(PyObject *sample);

/* ---- loans ---- */

PyObject *pdi_loan_new(struct pdi_keeper *keeper, PyObject *writer, uint32_t publisher, size_t size,
                       uint64_t timeout_ns);

#endif
