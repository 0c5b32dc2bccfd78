/* fast_lines.c - the messages of a packet as lines of text, for `pyddsi decode`.
 *
 *     START  c0 SDATA R sn=7 rid=1 payload=3132 (2)  [/plant/robot/7, number 16391, repeat after 2.0 ms]
 *
 * The same lines as pyddsi/cli/decode.py makes of messages and notes (a test compares them), without an object for each: a
 * capture of some million messages is read through a pager.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/fast.h"
#include "api/scan.h"
#include "wire/decode.h"
#include "wire/print.h"

#define ROOM_FIRST 65536U

struct lines {
    char *out;
    size_t size;
    size_t room;
    bool failed; /* there is no memory */
};

static bool reserve(struct lines *lines, size_t more)
{
    if (lines->room - lines->size > more) {
        return true;
    }
    size_t room = 2 * (lines->room + more);
    char *out = lines->failed ? NULL : realloc(lines->out, room);
    if (out == NULL) {
        lines->failed = true;
        return false;
    }
    lines->out = out;
    lines->room = room;
    return true;
}

static void put(struct lines *lines, const char *text, size_t size)
{
    if (reserve(lines, size)) {
        memcpy(lines->out + lines->size, text, size);
        lines->size += size;
    }
}

__attribute__((format(printf, 2, 3))) static void say(struct lines *lines, const char *format, ...)
{
    enum { MOST = 128 }; /* numbers and words */
    va_list arguments;
    if (!reserve(lines, MOST)) {
        return;
    }
    va_start(arguments, format);
    int size = vsnprintf(lines->out + lines->size, MOST, format, arguments);
    va_end(arguments);
    lines->size += size > 0 ? (size_t)size : 0;
}

static void put_message(struct lines *lines, const pyddsi_message *message)
{
    size_t size = pdi_print_message(message, lines->out + lines->size, lines->room - lines->size);
    if (size >= lines->room - lines->size) {
        if (!reserve(lines, size + 1)) {
            return;
        }
        (void)pdi_print_message(message, lines->out + lines->size, size + 1);
    }
    lines->size += size;
}

/* ---- what stands in brackets ---- */

static void begin_part(struct lines *lines, bool *any)
{
    put(lines, *any ? ", " : "  [", *any ? 2 : 3);
    *any = true;
}

static void put_span(struct lines *lines, int64_t us)
{
    if (us < 1000) {
        say(lines, "%lld µs", (long long)us);
    } else if (us < 1000000) {
        say(lines, "%.1f ms", (double)us / 1000);
    } else {
        say(lines, "%.2f s", (double)us / 1e6);
    }
}

/* A name of somebody else: what is no letter or sign of ASCII would steer a terminal. */
static void put_name(struct lines *lines, pyddsi_bytes name)
{
    for (size_t i = 0; i < name.size; i++) {
        uint8_t byte = name.data[i];
        if (byte == '\n' || byte == '\r' || byte == '\t') {
            put(lines, byte == '\n' ? "\\n" : byte == '\r' ? "\\r" : "\\t", 2);
        } else if (byte >= 0x20 && byte < 0x7f) {
            put(lines, (const char *)&byte, 1);
        } else {
            say(lines, "\\x%02x", byte);
        }
    }
}

static pyddsi_bytes name_of(const struct pdi_scan *scan, const pyddsi_message *message)
{
    unsigned kind = message->kind;
    if (kind != PYDDSI_SDATA && kind != PYDDSI_BDATA && kind != PYDDSI_PULL) {
        return (pyddsi_bytes){NULL, 0};
    }
    uint64_t rid =
        kind == PYDDSI_SDATA && message->data_rid != 0 ? message->data_rid : message->rid;
    return pdi_scan_name(scan, &scan->packet_source, (uint8_t)message->space, rid);
}

static const char *event_text(unsigned event)
{
    static const char *const words[] = {
        [3] = "repeat",    [4] = "fills a gap",
        [5] = "overtaken", [6] = "counts anew",
        [7] = "ambiguous", [8] = "repeat of what came before the first SYNCH"};
    return event < sizeof words / sizeof *words ? words[event] : NULL;
}

static void put_meaning(struct lines *lines, const struct pdi_scan *scan,
                        const pyddsi_message *message, const pyddsi_note *note)
{
    bool any = false;
    pyddsi_bytes name = name_of(scan, message);
    const char *event = event_text(note->event);
    if (name.size != 0) {
        begin_part(lines, &any);
        put_name(lines, name);
    }
    if (note->usn != PDI_NONE64 && (uint64_t)note->usn != message->sn) {
        begin_part(lines, &any);
        say(lines, "number %lld", (long long)note->usn);
    }
    if (note->event == 2) {
        begin_part(lines, &any);
        say(lines, "%u missing before it", (unsigned)note->gap);
    } else if (event != NULL) {
        begin_part(lines, &any);
        put(lines, event, strlen(event));
        if (note->since_first_us != PDI_NONE64) {
            put(lines, " after ", 7);
            put_span(lines, note->since_first_us);
        }
    }
    if (note->answer_us != PDI_NONE64) {
        begin_part(lines, &any);
        put(lines, "answer after ", 13);
        put_span(lines, note->answer_us);
    }
    if (any) {
        put(lines, "]", 1);
    }
}

/* ---- the packet ---- */

static bool is_marker(const pyddsi_message *message)
{
    return message->kind == PYDDSI_CONDUIT || message->kind == PYDDSI_FRAG ||
           message->kind == PYDDSI_RSPACE;
}

/* Markers go with the message behind them; where that does not pass, |kept| is where the lines end. */
static void put_packet(struct lines *lines, const struct pdi_scan *scan, const char *start,
                       size_t start_size)
{
    pyddsi_decoder decoder;
    pyddsi_message message = {0};
    bool filtered = scan->options.where_count != 0;
    uint32_t at = 0;
    size_t kept = 0;
    pdi_decoder_init(&decoder, scan->decoder.reading, scan->packet_bytes.data,
                     scan->packet_bytes.size);
    while (pdi_decoder_next(&decoder, &message) == PYDDSI_OK) {
        bool marker = is_marker(&message);
        const pyddsi_note *note = !marker && at < scan->note_count ? &scan->notes[at] : NULL;
        at += !marker;
        if (!marker && filtered && (note == NULL || !note->passes)) {
            lines->size = kept;
            continue;
        }
        put(lines, start, start_size);
        say(lines, "  c%llu ", (unsigned long long)message.conduit);
        put_message(lines, &message);
        if (note != NULL) {
            put_meaning(lines, scan, &message, note);
        }
        put(lines, "\n", 1);
        kept = marker ? kept : lines->size;
    }
    lines->size = filtered ? kept : lines->size;
}

/* scan_lines(address: int, start: str) -> the messages of the packet that a scan gave last, each a line that begins so. */
PyObject *pdi_fast_scan_lines(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    Py_ssize_t size;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "scan_lines takes an address and a text");
        return NULL;
    }
    pyddsi_scan *scan = PyLong_AsVoidPtr(args[0]);
    const char *start = scan != NULL ? PyUnicode_AsUTF8AndSize(args[1], &size) : NULL;
    if (start == NULL) {
        return NULL;
    }
    struct lines lines = {.out = malloc(ROOM_FIRST), .room = ROOM_FIRST};
    if (lines.out == NULL) {
        return PyErr_NoMemory();
    }
    put_packet(&lines, scan->core, start, (size_t)size);
    PyObject *text = lines.failed ? PyErr_NoMemory()
                                  : PyUnicode_FromStringAndSize(lines.out, (Py_ssize_t)lines.size);
    free(lines.out);
    return text;
}
