/* table.h - the one list of tables and their columns, and the rows that they are filled from.
 *
 * A row is a plain struct; a column says where in it a value stands, and how it is stored. So filling, filtering, the Arrow
 * schema, Spark's schema and the page of the reference are all made from this list, and none has a copy of it.
 *
 * What holds for a whole packet (its time, who sent it) is in a place of its own, and the rows of its messages refer to it:
 * with a hundred messages in a packet that is most of what would have to be written.
 */
#ifndef PDI_CAPTURE_TABLE_H
#define PDI_CAPTURE_TABLE_H

#include "capture/trace.h"

/* Where a column's value comes from, and in which form. */
enum pdi_load {
    PDI_LOAD_U8,
    PDI_LOAD_U16,
    PDI_LOAD_U32,
    PDI_LOAD_I64,      /* and unsigned ones by their bits; null if nullable and PDI_NONE64 */
    PDI_LOAD_ID,       /* uint64_t, null if 0 */
    PDI_LOAD_EVENT,    /* uint8_t, null if 255 */
    PDI_LOAD_TIME,     /* int64_t in nanoseconds; null if PDI_NONE64 */
    PDI_LOAD_VIEW,     /* pyddsi_bytes; null if its data is null */
    PDI_LOAD_ENDPOINT, /* pyddsi_endpoint, as text; null if there is none */
    PDI_LOAD_ADDRESS,  /* the same without the port */
    PDI_LOAD_HEX,      /* pyddsi_bytes as hexadecimal digits */
    PDI_LOAD_WORD,     /* const char * */
    PDI_LOAD_COUNTS,   /* const uint32_t *, PDI_PLACES of them; null if there are none */
};

struct pdi_column {
    pyddsi_column said;
    uint8_t load;      /* enum pdi_load */
    uint8_t of_packet; /* it stands in the packet, and not in the row */
    uint16_t at;
};

struct pdi_table {
    const char *name;
    const struct pdi_column *columns;
    uint32_t count;
    uint32_t row_bytes;
};

extern const struct pdi_table pdi_tables[PYDDSI_TABLE_COUNT];

/* What holds for a packet. */
struct pdi_row_packet {
    uint64_t pkt, offset;
    int64_t ts_ns;
    uint64_t src_ep, dst_ep; /* PDI_NONE64: of none */
    pyddsi_bytes payload;
    pyddsi_endpoint source, target;
    uint32_t file, recording, iface, cap_len, payload_len, messages;
    int64_t wire_len;
    uint16_t vlan;
    uint8_t ip, protocol, multicast, fragment, direction, decode;
};

/* Every row begins with the place of its packet. */
struct pdi_row {
    uint32_t packet;
};

struct pdi_row_message {
    uint32_t packet;
    uint32_t msg, at, size, payload_len, samples;
    int64_t sn, rid, data_rid, frag;
    pyddsi_note note;
    pyddsi_bytes uri, payload;
    uint16_t conduit;
    uint8_t space, kind, solicit, reliable, decode;
};

struct pdi_row_event {
    uint32_t packet;
    uint32_t msg, epoch;
    int64_t ts_ns, flow, peer, usn_from, usn_to, value_us;
    const char *type;
    const char *detail;
};

struct pdi_row_flow {
    uint32_t packet;
    uint32_t recording, epoch, gap_file, repeat_file;
    uint64_t flow, src_ep, dst_ep;
    pyddsi_endpoint source, target;
    int64_t first_ns, last_ns, first_usn, last_usn, missing;
    uint64_t messages, samples, bytes, packets, gaps, repeats, presync, fills, old, ambiguous,
        unclear, resets, acks, nacks, nacked, synchs, outstanding, gap_pkt, repeat_pkt;
    const uint32_t *answer, *delivery;
    uint16_t conduit;
    uint8_t reliable, seq_bits, multicast;
};

struct pdi_row_session {
    uint32_t packet;
    uint32_t file, recording, number, open_file;
    uint64_t session, ep[2];
    pyddsi_endpoint end_of[2];
    pyddsi_bytes id[2];
    int64_t open_ns, accept_ns, end_ns, until_ns, lease_ms[2], silence_us[2], margin_us;
    uint64_t open_pkt, end_pkt;
    const char *end;
    uint8_t seq_bits, reason;
};

struct pdi_row_rate {
    uint32_t packet;
    uint32_t recording;
    int64_t window_ns;
    uint64_t flow, messages, bytes, repeats;
    int64_t rid;
    uint8_t kind;
};

struct pdi_row_resource {
    uint32_t packet;
    uint32_t file, recording;
    int64_t rid, from_ns, until_ns;
    uint64_t ep;
    pyddsi_endpoint declarer;
    pyddsi_bytes name;
    uint8_t space, kind;
};

struct pdi_row_declaration {
    uint32_t packet;
    uint32_t msg, item;
    int64_t id, new_id, mode, commit, status, transaction, period_ms;
    pyddsi_bytes name;
    const char *kind;
    uint8_t space, committed;
};

struct pdi_row_endpoint {
    uint32_t packet;
    uint32_t recording;
    uint64_t ep, packets, bytes;
    pyddsi_endpoint at;
    pyddsi_bytes id;
    int64_t first_ns, last_ns, port;
    const char *transport;
    uint8_t multicast, extended, seq_bits;
};

/* An id as tables have it: a resource's number, a selection's as a negative one. */
static inline int64_t pdi_table_id(uint64_t wire)
{
    return wire & 1 ? -(int64_t)(wire >> 1) : (int64_t)(wire >> 1);
}

#endif
