/* tap.h - a recording of one session, from inside: what it says and hears becomes blocks of a pcapng file.
 *
 *     receive ──────┐                                                    drained by one thread of the recording's own
 *     housekeeping ─┤ put ─► lock ─► [ ring of bytes ] ─► take ─► headers, numbers ─► blocks ─► a file, which is not ours
 *     applications ─┘
 *
 * A socket's packets are seen where they leave and where they come in, so nothing is missed that a sniffer would miss, and
 * no privilege is needed. What no sniffer can see is seen as well: samples in lanes of shared memory, and connections through
 * Unix sockets.
 *
 * The price. Without a recording each packet pays one relaxed load and a branch that is foretold. With one it is copied once,
 * with this lock in hand, and once more by the thread that takes, which makes headers and checksums. Nobody waits for that
 * thread: what finds no room in the ring is left out, and counted. The ring's thread is woken by the first record, and then left to
 * sleep for some milliseconds, unless a quarter of the ring is full: so a fast session does not wake it for each packet.
 *
 * What is made up, as it was never on a wire:
 *
 *     datagrams           IP and UDP headers. Their address of ours is the session's own, whichever the system had put in
 *     connections         TCP segments, a frame each, between the peer's address and a port of ours; they begin with a SYN
 *                         where the recording first hears of them. Unix sockets are on 127.0.0.1, with made-up ports
 *     shared memory       SDATA to the group, on the conduit PYDDSI_RECORD_CONDUIT, which no session uses, with numbers
 *                         of the recording's own, and no UDP checksum where the group is IPv4
 *
 * Why not the number that a sample has in its lane: a session has several lanes, and a conduit has one counter.
 *
 * Who may touch what:
 *
 *     ring, size           set by begin; freed by the taker at its end, with the lock, when nobody puts any more
 *     head, newest_ns      who puts, with the lock
 *     tail, made           who takes
 *     on                   begin and stop, with the lock; read by anybody
 */
#ifndef PDI_API_TAP_H
#define PDI_API_TAP_H

#include <stdbool.h>

#include "capture/frame.h"
#include "host/bell.h"
#include "host/lock.h"
#include "pyddsi.h"

enum {
    PDI_TAP_STREAMS_MAX = 64,  /* connections that are known at one time, */
    PDI_TAP_SPEAKERS_MAX = 128 /* and who has spoken by shared memory */
};

/* One record in the ring, before its bytes. */
struct pdi_tap_record {
    uint32_t span;    /* in the ring, with its bytes; 0: nothing more comes before the ring's end */
    uint32_t size;    /* bytes that are here */
    uint64_t whole;   /* and that there were */
    uint64_t time_ns; /* since 1970 */
    uint64_t resource; /* of a sample, as on the wire */
    pyddsi_endpoint source, target;
    uint8_t direction; /* enum pdi_direction */
    uint8_t sample;    /* 1: a sample that came by shared memory, and no packet */
    uint8_t space, reliable;
    uint8_t place, reason; /* why so many of what it brought were dropped */
    uint64_t drops;
};

/* A connection, by its peer's endpoint as the session has it. */
struct pdi_tap_stream {
    pyddsi_endpoint peer;
    pyddsi_endpoint shown[2]; /* as the file has it: ours, the peer's */
    uint32_t next[2];         /* sequence numbers, likewise */
    uint64_t used;            /* when, in records; 0: free */
};

struct pdi_tap_speaker {
    pyddsi_endpoint source;
    uint8_t reliable;
    uint64_t next;
    uint64_t used;
};

/* What the taker remembers. */
struct pdi_tap_made {
    struct pdi_tap_stream streams[PDI_TAP_STREAMS_MAX];
    struct pdi_tap_speaker speakers[PDI_TAP_SPEAKERS_MAX];
    uint64_t records;
    uint64_t connections;
    uint32_t done;                    /* parts of the first record that are written already */
    uint8_t seq_bits;                 /* of the session */
    uint8_t conduit[8], conduit_size; /* the marker before each sample of shared memory */
    pyddsi_endpoint group;
};

struct pdi_tap {
    struct pdi_atomic32 on;
    struct pdi_atomic32 over; /* nothing more comes */
    struct pdi_lock lock;
    uint8_t *ring; /* null: there is no recording */
    uint64_t size;
    uint64_t newest_ns;             /* the latest time of a record */
    struct pdi_atomic64 head, tail; /* bytes so far */
    struct pdi_bell some, much;
    struct pdi_atomic64 records, bytes, lost, lost_bytes, odd;
    struct pdi_tap_made *made;
};

static inline bool pdi_tap_is_on(const struct pdi_tap *tap)
{
    return __builtin_expect(pdi_atomic32_load_relaxed(&tap->on) != 0, 0);
}

/* Begins, with a ring of |size| bytes, a power of two. |group|: to which samples of shared memory are shown. OK; AGAIN: there
 * is a recording; NO_SPACE. */
int pdi_tap_begin(struct pdi_tap *tap, uint32_t size, uint8_t seq_bits,
                  const pyddsi_endpoint *group);
/* Nothing more is recorded; what is in the ring can still be taken. */
void pdi_tap_stop(struct pdi_tap *tap);
void pdi_tap_fini(struct pdi_tap *tap);

/* A record; its span is filled in. From any thread: where one was kept waiting between reading the clock and here, its record
 * gets the time of the one before it, so that times follow the order of the file. */
void pdi_tap_put(struct pdi_tap *tap, struct pdi_tap_record *record, const void *data);

/* Writes blocks for what was recorded, as many as fit, and waits for the first of them up to |timeout_ns|. OK, also with
 * none; END: the recording is over, and everything was taken; another may begin. One thread at a time. */
int pdi_tap_take(struct pdi_tap *tap, pyddsi_copy *into, uint64_t timeout_ns);
void pdi_tap_count(const struct pdi_tap *tap, pyddsi_recorded *counts);

/* ---- of the taker: tap.c has the first two, tap_write.c the last ---- */

/* The first record, or null. Its bytes are behind it. */
const struct pdi_tap_record *pdi_tap_first(struct pdi_tap *tap);
void pdi_tap_pop(struct pdi_tap *tap, const struct pdi_tap_record *record);
/* Writes what a record is in the file. OK: all of it; AGAIN: there is no room for more now. */
int pdi_tap_write(struct pdi_tap *tap, const struct pdi_tap_record *record, pyddsi_copy *into);

#endif
