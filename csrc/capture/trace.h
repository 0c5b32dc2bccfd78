/* trace.h - what an onlooker knows of the sessions that pass by. It is long because it holds all that is remembered.
 *
 * A capture shows what both sides said, and neither's state. So this is the third state machine of a conversation: it sees
 * each message with its time and says what it means for the flow that it belongs to.
 *
 *     packet ─► whose?   ─► message ─► its flow ─► note: the number unwrapped, gap, repeat, how long, answered when
 *               parties               sessions ─► events: open, close, expired, moved, ...
 *               learnt                resources      tallies: what flows and resources add up to
 *
 *     party     one endpoint: a peer's socket, or a group
 *     flow      what one party sends to one other, or to a group, on one conduit, reliably or not: one counter
 *     acker     one party that acknowledges a flow; a flow to a group has several
 *     missing   numbers of a flow that were passed over and have not come
 *     session   what two parties have agreed on
 *     resource  a number that a party has given a name
 *
 * What the numbers mean is written in docs/inside/capture.md, which the Wireshark dissector follows as well.
 *
 * A range of a capture is read by itself when the state at its start is known. So everything here is split in two: what
 * is carried on (and lies in a snapshot: trace_store.c), and the tallies of what was seen since the last call of
 * pdi_trace_begin, which add up over ranges.
 *
 * All memory is one block, whose size is a setting (trace_memory.c cuts it). It is asked for as zeros, and a place is touched only
 * when the ones before it are taken: so it is the traffic that makes it real, and a small capture costs a few pages whatever the
 * setting. When a table is full, the half of it that was idle longest is given up at once, with all that hangs on it
 * (trace_sweep.c): that costs a walk over everything, and so little for each of those that find room afterwards. What is told of
 * somebody who was given up and speaks again is wrong from there on; `evicted` counts, and each reader is warned of it.
 *
 * Nothing is believed of lengths or numbers in a message beyond what the decoder has checked.
 */
#ifndef PDI_CAPTURE_TRACE_H
#define PDI_CAPTURE_TRACE_H

#include <stdbool.h>

#include "base/chain.h"
#include "base/histogram.h"
#include "base/map.h"
#include "base/pages.h"
#include "base/seq.h"
#include "capture/frame.h"
#include "pyddsi.h"

#define PDI_NONE32 UINT32_MAX
#define PDI_NONE64 INT64_MIN /* a number that is not there: null in a table */

enum {
    PDI_PARTIES_MAX = (1 << 23) - 1, /* whatever the memory is: keys of flows have no more bits */
    PDI_FLOW_ACKERS_MAX = 64,
    PDI_FLOW_MISSING_MAX = 1024, /* stretches of missing numbers; the lowest is forgotten */
    PDI_BEST_MISSING_MAX = 64,   /* the same of best effort */
    PDI_NAME_UNIT = 32,
    PDI_NAME_BYTES_MAX = 2048, /* longer names are not remembered */
    PDI_SENT_UNIT = 256,       /* first transmissions that are remembered, in units, */
    PDI_SENT_MAX = 8192,       /* at most so many of one flow: half a circle of 14 bits */
    PDI_SENT_ALONE = 1024,     /* where nobody acknowledges it */
    PDI_PORTS_MAX = 16,
    PDI_EVENTS_MAX = 64, /* that one message can cause; further ones are counted, not told */
    PDI_PLACES = 512,    /* of a histogram in microseconds: up to 2^35, which is nine hours */
    PDI_CACHE = 2048,
    PDI_DETAIL = 40,
    PDI_TRACE_BYTES_MIN = 9 << 20, /* what a thousand parties take, with all that hangs on them */
};

/* What a number is to its flow. */
enum pdi_seq_event {
    PDI_SEQ_NEXT,
    PDI_SEQ_FIRST,
    PDI_SEQ_GAP,       /* numbers before it are missing */
    PDI_SEQ_REPEAT,    /* it was seen before */
    PDI_SEQ_FILL,      /* it was missing */
    PDI_SEQ_OLD,       /* best effort, and later ones were seen */
    PDI_SEQ_RESET,     /* the counter began anew */
    PDI_SEQ_AMBIGUOUS, /* too far away, too late, or too long ago, to tell what it is */
    PDI_SEQ_PRE_SYNC, /* a repeat of what was sent before the first SYNCH, which receivers have to ignore */
    PDI_SEQ_COUNT,
};
enum { PDI_SEQ_NONE = 255 }; /* it has no number of its own */

enum pdi_event_type {
    PDI_EVENT_GAP,
    PDI_EVENT_REPEAT,
    PDI_EVENT_FILL,
    PDI_EVENT_NACK,
    PDI_EVENT_STALL,
    PDI_EVENT_SILENCE,
    PDI_EVENT_LEASE_EXPIRED,
    PDI_EVENT_SCOUT,
    PDI_EVENT_OPEN,
    PDI_EVENT_ACCEPT,
    PDI_EVENT_CLOSE,
    PDI_EVENT_REFUSED,
    PDI_EVENT_MOVED,
    PDI_EVENT_RESET,
    PDI_EVENT_MALFORMED,
    PDI_EVENT_UNKNOWN_KIND,
    PDI_EVENT_TRUNCATED,
    PDI_EVENT_CAPTURE_DROP,
    PDI_EVENT_DECLARE_REFUSED,
    PDI_EVENT_COUNT
};

enum pdi_seen_end_kind {
    PDI_END_NOT, /* it had not when the capture ended */
    PDI_END_CLOSED,
    PDI_END_EXPIRED,
    PDI_END_MOVED,
    PDI_END_AGAIN, /* opened anew without a farewell */
    PDI_END_REFUSED,
    PDI_END_EVICTED,
    PDI_END_COUNT
};

struct pdi_party {
    /* looked at with every packet */
    pyddsi_endpoint at;
    uint8_t used;     /* 2: it is about to go */
    uint8_t speaks;   /* whatever it sends or gets is of the protocol */
    uint8_t group;    /* a multicast address */
    uint8_t shared;   /* that, or a well-known port: others may use it as well */
    uint8_t told;     /* it has said in an OPEN or ACCEPT what it can do, */
    uint8_t extended; /* and that was more than zhe */
    uint8_t seq_bits;
    uint8_t bits_told; /* it has said in an OPEN how long its numbers are */
    uint64_t ep;
    int64_t last_ns;          /* its last packet; PDI_NONE64: it has sent none */
    uint64_t packets, bytes;  /* tallies */
    uint32_t recent[2];       /* its flow used last, unreliable and reliable */
    uint32_t flows, sessions; /* lists: flows that it sends, sessions that it has, */
    uint32_t same;            /* and the next party that has told the same id */
    uint64_t greetings;       /* HELLOs, OPENs and ACCEPTs that it has sent */
    uint64_t lives;           /* how often it has told another id */
    /* and with some */
    int64_t first_ns;
    int64_t lease_ns;   /* that it announced; 0: for ever; PDI_NONE64: not known */
    int64_t silence_ns; /* the least of the longest silences in its sessions */
    uint64_t commits;   /* COMMITs that it has sent, */
    uint8_t commit;     /* and the number of the last */
    uint64_t cuts;      /* its packets that the snap length has cut */
    int64_t stopped_ns; /* of the trace, at its last packet */
    uint8_t id_size;
    uint8_t id[16];
};

struct pdi_flow {
    /* looked at with every message */
    uint64_t key, id;
    int64_t highest; /* number, unwrapped, */
    int64_t
        lowest;    /* and the one below which nothing is known: the first of this epoch, at first */
    int64_t base;  /* the lowest number whose first transmission may be remembered */
    uint32_t sent; /* units of the pool, PDI_NONE32: none */
    uint32_t sent_size;              /* numbers they hold: a power of two */
    uint64_t greetings, lives, cuts; /* of its sender, at the last message */
    uint32_t epoch;
    uint32_t source, target; /* parties; a group's flow has the group as its target */
    uint16_t conduit;
    uint8_t used, reliable, begun, synched;
    uint8_t zero_wanted; /* somebody has asked for number 0 again */
    uint8_t asked;       /* and for any since its last message */
    uint8_t seq_bits;
    uint64_t seen;    /* messages in this epoch: for its rate, */
    int64_t begun_ns; /* since then */
    int64_t last_ns;
    int64_t asked_ns; /* the last S or SYNCH that wants an answer */
    uint64_t asks;
    /* tallies of the same */
    uint64_t t_packet; /* the last packet counted, */
    int32_t t_file;    /* and its file */
    uint64_t t_messages, t_samples, t_bytes, t_packets;
    int64_t t_first_ns, t_last_ns;
    int64_t t_first_usn, t_last_usn;
    /* and with some */
    int64_t acked;            /* everything below has been acknowledged by somebody */
    int64_t presync;          /* numbers up to this were first sent before the first SYNCH */
    uint64_t synch_greetings; /* of its sender, at the last SYNCH */
    uint32_t next;            /* of the same source */
    uint32_t ackers;          /* a list, of */
    uint32_t acker_count;
    uint32_t missing; /* a list, lowest first, of */
    uint32_t missing_count;
    uint32_t histogram; /* PDI_NONE32: none */
    uint64_t t_gaps, t_repeats, t_presync, t_fills, t_old, t_acks, t_nacks, t_nacked, t_synchs,
        t_outstanding, t_ambiguous, t_unclear, t_resets;
    uint64_t t_gap_packet, t_repeat_packet; /* the first with one that is not pre-sync; 0: none */
    int32_t t_gap_file, t_repeat_file;      /* and the files they are in */
    int64_t t_missing; /* below 0 in a range that fills what was missing before it */
};

struct pdi_acker {
    int64_t acked;     /* the number that it wants next; INT64_MAX: it has left */
    uint64_t answered; /* asks of the flow when it last answered */
    int64_t usual_us;  /* a running mean of its answers; PDI_NONE64: none yet */
    uint32_t flow, party;
    uint32_t next;
};

struct pdi_missing {
    int64_t from, to; /* both missing */
    uint32_t next;
};

struct pdi_seen {
    uint64_t key, id;
    int64_t open_ns, accept_ns, end_ns;
    int64_t silence_ns[2]; /* the longest, of opener and acceptor */
    int64_t lease_ns[2];
    uint32_t party[2];
    uint32_t next[2];                 /* of the same opener, of the same acceptor */
    uint64_t open_packet, end_packet; /* frames that show it; 0: none, */
    uint32_t open_files, end_files;   /* and how many files had begun by then */
    uint32_t number;                  /* of these two, from 0 */
    uint8_t id_of[2][16];
    uint8_t id_size[2];
    uint8_t used, state; /* enum pdi_seen_state */
    uint8_t end, reason;
    uint8_t seq_bits;
};

enum pdi_seen_state { PDI_SESSION_OPENING, PDI_SESSION_OPEN, PDI_SESSION_ENDED };

struct pdi_resource {
    uint64_t key;
    uint64_t rid; /* as on the wire */
    int64_t from_ns, until_ns;
    uint32_t party;
    uint32_t name_unit;
    uint16_t name_size;
    uint8_t used, space, kind; /* PYDDSI_RESOURCE or PYDDSI_SELECTION */
};

struct pdi_histograms {
    uint32_t answer[PDI_PLACES];
    uint32_t delivery[PDI_PLACES];
};

/* The packet that is being looked at. */
struct pdi_trace_packet {
    uint64_t number; /* of its frame */
    int64_t time_ns;
    uint32_t source, target; /* parties */
};

struct pdi_event {
    uint64_t flow, peer; /* 0: of none */
    int64_t usn_from, usn_to, value_us;
    int64_t time_ns; /* of what it is about, which may be before the packet that shows it */
    uint32_t epoch;
    uint8_t type;
    char detail[PDI_DETAIL]; /* ended by a zero */
};

/* Told before something is given up, or begins anew in its place: what is known of it would be lost. What is still there
 * when a capture ends is looked at by whoever wants to know. */
struct pdi_trace_listener {
    void (*flow_goes)(void *context, uint32_t flow);
    void (*session_goes)(void *context, uint32_t session);
    void (*resource_goes)(void *context, uint32_t resource);
    void (*party_goes)(void *context, uint32_t party);
    void *context;
};

struct pdi_trace {
    /* settings */
    uint16_t ports[PDI_PORTS_MAX];
    uint32_t port_count;
    uint8_t seq_bits; /* 0: as sessions announce */
    uint8_t learn;    /* whether endpoints are learnt from what their packets look like */
    struct pdi_trace_listener listener;
    /* carried on */
    struct pdi_party *parties;
    struct pdi_flow *flows;
    struct pdi_acker *ackers;
    struct pdi_missing *missing;
    struct pdi_seen *sessions;
    struct pdi_resource *resources;
    uint64_t
        *sent; /* times of first transmission, counted from PDI_NONE64; units of PDI_SENT_UNIT */
    uint8_t *names;
    struct pdi_histograms *histograms;
    struct pdi_map party_of, flow_of, session_of, resource_of, rid_of;
    struct pdi_map id_of; /* the party that told an id last, by that */
    struct pdi_pages sent_pages, name_pages;
    struct pdi_slots party_slots, flow_slots, acker_slots, missing_slots, session_slots,
        resource_slots, histogram_slots;
    int64_t latest_ns;   /* of all packets; PDI_NONE64: there was none */
    int64_t lease_ns;    /* the longest that was announced */
    int64_t stopped_ns;  /* time in which nothing came from anybody for longer than that */
    uint64_t evicted;    /* tally */
    uint64_t forgotten;  /* names, ackers or missing numbers for which there was no room; tally */
    uint64_t names_gone; /* declarations of names that no longer hold; tally */
    /* the last packet, whose parties nobody sweeps away, and the last message */
    uint32_t busy[2];
    uint64_t packet_number;
    int32_t file;   /* that is read, */
    uint32_t files; /* and how many of this recording have begun: carried on */
    struct pdi_event events[PDI_EVENTS_MAX];
    uint32_t event_count;
    /* tallies */
    uint64_t by_event[PDI_EVENT_COUNT];
    uint64_t by_kind[PYDDSI_KIND_COUNT];
    pyddsi_declined declined[PYDDSI_DECLINED_MAX]; /* as far as there is room */
    uint64_t samples_repeated, samples_presync;    /* of data alone, */
    int64_t samples_missing;                       /* those still missing, */
    uint64_t samples_filled;                       /* and those that were */
    /* quick ways: no truth is here alone */
    struct {
        uint64_t ep;
        uint32_t party;
    } cache[PDI_CACHE];
};

/* How many of each there is room for in so many bytes. */
struct pdi_trace_room {
    uint32_t parties, flows, ackers, missing, sessions, resources, histograms, name_units,
        sent_units, rates;
};

struct pdi_trace_room pdi_trace_room(uint64_t bytes);
/* Bytes of a trace that is to take about |bytes|, and at least PDI_TRACE_BYTES_MIN. */
size_t pdi_trace_size(uint64_t bytes);
/* In |memory|, of pdi_trace_size(bytes) zero bytes aligned to 64; |seed| is for hashing. */
struct pdi_trace *pdi_trace_init(void *memory, uint64_t bytes, const uint64_t seed[2]);
/* Sets all tallies to 0: a range begins. */
void pdi_trace_begin(struct pdi_trace *trace);

/* Whether a packet between these endpoints is of the protocol, and if so whose. |data| is looked at only if neither is known. */
bool pdi_trace_ours(struct pdi_trace *trace, const pyddsi_endpoint *source,
                    const pyddsi_endpoint *target, const uint8_t *data, size_t size,
                    struct pdi_trace_packet *packet);

/* The packet itself, before its messages: leases and silences. Sets the events anew, as the next one does. */
void pdi_trace_packet(struct pdi_trace *trace, const struct pdi_trace_packet *packet, size_t size);
/* A message of it. */
void pdi_trace_message(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                       const pyddsi_message *message, pyddsi_note *note);
/* It could not be read to its end. */
void pdi_trace_fault(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                     const pyddsi_fault *fault, unsigned kind, bool cut);
/* So many frames were lost by the capturing at this time. Sets the events anew. */
void pdi_trace_lost(struct pdi_trace *trace, uint64_t frames, int64_t time_ns);
/* The capture ends at this time: a party's last silence is counted to it. Called for each party, whose events it sets anew. */
void pdi_trace_finish(struct pdi_trace *trace, uint32_t party, int64_t time_ns);

/* Bytes of the payload of a message, or of all its samples. */
size_t pdi_trace_payload(const pyddsi_message *message);

/* Whether messages beyond zhe are to be read in what this party sends: not if it was seen opening without announcing any. */
bool pdi_trace_extended(const struct pdi_trace *trace, uint32_t party);

/* The party at this endpoint; PDI_NONE32: nobody is known there, and then only names of others are. */
uint32_t pdi_trace_party(struct pdi_trace *trace, const pyddsi_endpoint *at);

/* What a party calls a number, at this moment; else what anybody calls it. Empty: nobody has named it. */
pyddsi_bytes pdi_trace_name(const struct pdi_trace *trace, uint32_t party, uint8_t space,
                            uint64_t rid);

/* The name of a resource in the table. */
pyddsi_bytes pdi_resource_name(const struct pdi_trace *trace, uint32_t index);

/* Snapshots: the state as bytes, without tallies. Writing answers the bytes it takes, written only as far as there is
 * |room|. Reading into a trace that was just made: OK, or BAD_INPUT, and the trace is to be made anew. */
size_t pdi_trace_store(const struct pdi_trace *trace, uint8_t *out, size_t room);
int pdi_trace_load(struct pdi_trace *trace, const uint8_t *data, size_t size);

const char *pdi_event_name(unsigned type);
const char *pdi_seen_end_name(unsigned end);

#endif
