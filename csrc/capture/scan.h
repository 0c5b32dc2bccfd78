/* scan.h - a capture from its bytes to the rows of a table.
 *
 *     bytes ─► container ─► dissect ─► UDP ──────────────────────┐
 *              frames       carried    TCP ─► parts ─► packets ──┴─► ours? ─► messages ─► trace ─► rows ─► sink
 *
 * Bytes come in and rows go out; nothing else is asked of anybody. A scan stops when the batch is full, in the middle of a
 * packet if need be, and goes on when it is called again with the same bytes; and when it has come to the limit of its range.
 *
 *     phase       what is at hand                          goes on with
 *     FRAMES      nothing: the next frame is to be read    MESSAGES (UDP), PARTS (TCP), END
 *     PARTS       what TCP lets out after a packet         BYTES, END when there is no more
 *     BYTES       bytes of one direction                   MESSAGES, PARTS when they hold no whole packet
 *     MESSAGES    a packet of the protocol                 BYTES or END, from where it came
 *     END         a frame that has been looked at          FRAMES
 *
 * A row of the table `packets` is about a frame and put when that is done with; all others are put where they arise.
 *
 * The state between two frames is plain data, and can be stored and gone on with elsewhere (scan_store.c). That is how one
 * file is read by many: an index keeps the state at the start of each chunk.
 */
#ifndef PDI_CAPTURE_SCAN_H
#define PDI_CAPTURE_SCAN_H

#include "capture/container.h"
#include "capture/dissect.h"
#include "capture/sink.h"
#include "capture/tcp.h"
#include "capture/trace.h"

enum {
    PDI_STREAM_ROOM = 16384 + 8, /* of a stream: what one frame and its length can have */
    PDI_NOTES_MAX =
        32768, /* messages of one packet that are noted: it has two bytes for each at least */
    PDI_RATES_MAX =
        16384, /* of the table of rates, a power of two: its rows come out when it is full */
    PDI_RECENT_MAX = 64, /* datagrams that a copy may be of */
};

/* What is known of the bytes of one TCP direction. */
enum pdi_framing {
    PDI_STREAM_NONE,    /* nothing has come */
    PDI_STREAM_FOREIGN, /* not of the protocol */
    PDI_STREAM_READ,
    PDI_STREAM_BROKEN, /* bytes are passed over until packets are found again */
    PDI_STREAM_UNSURE, /* a packet may have begun where one was looked for; it is not whole yet */
    PDI_STREAM_OVER,   /* what its bytes say cannot be framed: nothing more is read */
};

struct pdi_stream_seen {
    pyddsi_stream stream;
    uint32_t used;     /* bytes that wait for the rest of their packet */
    uint32_t sequence; /* of what is made anew of it: copy.h */
    uint8_t state;
    uint8_t found; /* its packets had to be looked for */
    uint8_t bytes[PDI_STREAM_ROOM];
};

struct pdi_rate {
    uint64_t flow, messages, bytes, repeats;
    int64_t window_ns, rid;
    uint8_t kind;
};

struct pdi_recent {
    uint64_t hash; /* of a datagram; 0: there is none */
    uint64_t way;
    int64_t time_ns;
};

enum pdi_phase {
    PDI_PHASE_FRAMES,
    PDI_PHASE_PARTS,
    PDI_PHASE_BYTES,
    PDI_PHASE_MESSAGES,
    PDI_PHASE_END
};

struct pdi_scan {
    pyddsi_scan_options options;
    struct pdi_filter filter;
    pyddsi_reading reading[2]; /* of those without extensions, and with */
    uint8_t light;             /* frames are all that is wanted: nothing is decoded */
    uint8_t stateless; /* nothing wanted depends on earlier messages: numbers are not followed, */
    uint8_t counted;   /* and of most messages it is wanted how many there are, and no more */
    uint8_t with_uri, with_payload;
    uint8_t noted; /* packets are taken one by one, each with the notes of its messages */
    uint8_t finished;
    /* of what is at hand, see below */
    uint8_t phase, after; /* enum pdi_phase */
    uint8_t decode, frame_decode;
    uint8_t fault_passes;
    uint8_t cut;
    uint32_t messages, frame_messages;
    uint64_t limit;
    /* carried on */
    struct pdi_container container;
    struct pdi_dissector dissector;
    struct pdi_tcp *tcp;
    struct pdi_stream_seen *streams; /* PDI_TCP_DIRECTIONS_MAX */
    struct pdi_trace *trace;
    struct pdi_recent recent[PDI_RECENT_MAX];
    uint32_t finish_step, finish_at;
    uint32_t note_count, rate_count;
    uint32_t rate_max; /* a power of two */
    size_t burst_rows,
        burst_bytes;            /* what a sweep of a full table can put into the batch at once */
    int64_t last_ns, latest_ns; /* of the last frame; the greatest of all */
    /* at hand */
    struct pdi_frame frame;
    size_t frame_used;
    struct pdi_carried carried;
    struct pdi_part part;
    const uint8_t *bytes; /* of the part, or of what waited with it, that have not been looked at */
    size_t bytes_left;
    struct pdi_trace_packet packet;
    pyddsi_decoder decoder;
    pyddsi_bytes packet_bytes;
    pyddsi_endpoint packet_source, packet_target;
    uint64_t packet_offset;
    /* what comes out */
    struct pdi_sink *sink; /* null: no table */
    struct pdi_sink *own_sink;
    pyddsi_copy *copy; /* frames go there, and not into rows; or null */
    uint8_t scratch[2][65536 + 256];
    pyddsi_note *notes; /* room for those of a packet; null: there is a table */
    struct pdi_rate *rates;
    uint32_t *rate_order; /* where they lie, in the order in which they came */
    pyddsi_scan_facts facts;
};

/* Memory of a scan but for its sink's arrays, all zero, aligned to 64. */
size_t pdi_scan_size(const pyddsi_scan_options *options);
/* OK, or BAD_ARGUMENT. */
int pdi_scan_init(struct pdi_scan **made, void *memory, const pyddsi_scan_options *options,
                  const uint64_t seed[2]);

/* As pyddsi_scan_input, pyddsi_scan_finish. */
int pdi_scan_input(struct pdi_scan *scan, const uint8_t *data, size_t size, size_t *used);
int pdi_scan_finish(struct pdi_scan *scan, bool whole);
/* After the end of a scan without a table: the rows of one come from what it knows, with pdi_scan_finish. OK, or BAD_ARGUMENT. */
int pdi_scan_tell(struct pdi_scan *scan, int table, uint64_t columns);
/* As pyddsi_scan_packet. */
int pdi_scan_packet(struct pdi_scan *scan, const uint8_t *data, size_t size, size_t *used,
                    pyddsi_packet *packet);
int pdi_scan_packet_from(struct pdi_scan *scan, const uint8_t *data, size_t size, size_t *used,
                         pyddsi_packet *packet, pyddsi_line *line, int64_t from_ns, bool absolute);

int pdi_scan_item(struct pdi_scan *scan, const uint8_t *data, size_t size, size_t *used,
                  pyddsi_item *item);
/* As pyddsi_scan_end. */
void pdi_scan_end(struct pdi_scan *scan);
void pdi_scan_look(const struct pdi_scan *scan, pyddsi_scan_facts *facts);
/* What the party at this endpoint calls a number. */
pyddsi_bytes pdi_scan_name(const struct pdi_scan *scan, const pyddsi_endpoint *source,
                           uint8_t space, uint64_t rid);

size_t pdi_scan_store(const struct pdi_scan *scan, uint8_t *out, size_t room);
int pdi_scan_load(struct pdi_scan *scan, const uint8_t *data, size_t size);

/* ---- for the files of the scan ---- */

/* Whether the datagram at hand was captured a moment ago by another way; it is remembered. */
bool pdi_scan_is_double(struct pdi_scan *scan);

/* One step of one phase: OK, AGAIN (the batch is full), SHORT, END, BAD_INPUT. */
int pdi_scan_step(struct pdi_scan *scan, const uint8_t *data, size_t size, size_t *used);

/* Reads the next frame and looks at it: OK, SHORT, END, BAD_INPUT. */
int pdi_scan_frame(struct pdi_scan *scan, const uint8_t *data, size_t size, size_t *used);
/* What the table that is wanted may put into the batch at once, and how many bytes of counts may be among it. */
void pdi_scan_burst(struct pdi_scan *scan);
/* Whether so many rows with so many bytes of text each in all fit the batch. */
bool pdi_scan_fits(const struct pdi_scan *scan, size_t rows, size_t bytes);
bool pdi_scan_in_time(const struct pdi_scan *scan, int64_t time_ns);
/* Rows of a message, and of the events that it or its packet caused. */
/* What holds for the packet at hand. */
void pdi_rows_place(const struct pdi_scan *scan, struct pdi_row_packet *place);
void pdi_rows_message(struct pdi_scan *scan, const pyddsi_message *message,
                      const pyddsi_note *note);
void pdi_rows_fault(struct pdi_scan *scan);
void pdi_rows_events(struct pdi_scan *scan);
void pdi_rows_packet(struct pdi_scan *scan);
/* What holds for the frame at hand. */
void pdi_rows_frame(const struct pdi_scan *scan, struct pdi_row_packet *place);
/* So many frames hold nothing for us, for this reason. */
void pdi_scan_stranger(struct pdi_scan *scan, unsigned other, uint32_t detail, uint64_t count);
/* A row of what a table of the trace holds at this place. */
void pdi_rows_flow(struct pdi_scan *scan, uint32_t index);
void pdi_rows_session(struct pdi_scan *scan, uint32_t index);
void pdi_rows_resource(struct pdi_scan *scan, uint32_t index);
void pdi_rows_party(struct pdi_scan *scan, uint32_t index);
/* Rows of what has been added up; then it is 0 again. */
void pdi_rows_rates(struct pdi_scan *scan);
void pdi_rates_count(struct pdi_scan *scan, const pyddsi_message *message, const pyddsi_note *note);
/* The next packet of the bytes at hand; false: there is no whole one. */
bool pdi_stream_packet(struct pdi_scan *scan, pyddsi_bytes *packet);
/* A part is at hand: its bytes, as far as they are ours and can be read. */
void pdi_stream_part(struct pdi_scan *scan);
/* The capture ends: whose packets are not whole cannot be read to its end. */
void pdi_streams_end(struct pdi_scan *scan);

#endif
