/* table.c - the list of tables and columns. It is long because it is a list. */
#include "capture/table.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* name, what it is, type, nullable, dear, load, struct, member */
#define COLUMN(n, t, ty, nu, de, lo, st, me)                                                       \
    {{n, t, PYDDSI_COLUMN_##ty, nu, de}, PDI_LOAD_##lo, 0, offsetof(struct st, me)}
#define OF_PACKET(n, t, ty, nu, de, lo, me)                                                        \
    {{n, t, PYDDSI_COLUMN_##ty, nu, de}, PDI_LOAD_##lo, 1, offsetof(struct pdi_row_packet, me)}

#define RECORDING_TEXT                                                                             \
    "number of the first file of its recording; a flow, a resource or an endpoint of one "         \
    "recording "                                                                                   \
    "is another in the next"
#define FILE_OF_PACKET                                                                             \
    OF_PACKET("file", "number of the file among those that are read", INT32, 0, 0, U32, file),     \
        OF_PACKET("recording", RECORDING_TEXT, INT32, 0, 0, U32, recording)
#define PKT_OF_PACKET                                                                              \
    OF_PACKET("pkt", "number of the frame in its file, from 1, as Wireshark counts", INT64, 0, 0,  \
              I64, pkt)
#define TIMES_OF_PACKET                                                                            \
    OF_PACKET("ts", "when it was captured, rounded down to microseconds", TIME, 1, 0, TIME,        \
              ts_ns),                                                                              \
        OF_PACKET("ts_ns", "the same in nanoseconds since 1970", INT64, 1, 0, I64, ts_ns)
#define ENDS_OF_PACKET                                                                             \
    OF_PACKET("src_ep", "who sent it: the number of an address, port and transport", INT64, 1, 0,  \
              I64, src_ep),                                                                        \
        OF_PACKET("dst_ep", "to whom", INT64, 1, 0, I64, dst_ep)
#define TEXTS_OF_PACKET                                                                            \
    OF_PACKET("src", "the sender as address:port", TEXT, 1, 1, ENDPOINT, source),                  \
        OF_PACKET("dst", "the receiver as address:port", TEXT, 1, 1, ENDPOINT, target)

static const struct pdi_column packets[] = {
    FILE_OF_PACKET,
    PKT_OF_PACKET,
    OF_PACKET("offset", "byte of the file where its record begins, unpacked", INT64, 0, 0, I64,
              offset),
    TIMES_OF_PACKET,
    OF_PACKET("iface", "interface that captured it", INT32, 0, 0, U32, iface),
    OF_PACKET("cap_len", "bytes captured", INT32, 0, 0, U32, cap_len),
    OF_PACKET("wire_len", "bytes on the wire, as the file says", INT64, 0, 0, I64, wire_len),
    OF_PACKET("vlan", "number of its outer VLAN tag; 0 is none", INT32, 0, 0, U16, vlan),
    OF_PACKET("ip", "4, 6, or 0 if it is not IP", INT8, 0, 0, U8, ip),
    OF_PACKET("transport", "number of the protocol on IP: 17 UDP, 6 TCP", INT16, 0, 0, U8,
              protocol),
    ENDS_OF_PACKET,
    OF_PACKET("src_port", "port of the sender", INT32, 0, 0, U16, source.port),
    OF_PACKET("dst_port", "port of the receiver", INT32, 0, 0, U16, target.port),
    OF_PACKET("multicast", "whether it went to a group", BOOL, 0, 0, U8, multicast),
    OF_PACKET("fragment",
              "1 a piece of an IP packet that waits, 2 the piece that made it whole, else 0", INT8,
              0, 0, U8, fragment),
    OF_PACKET("payload_len", "bytes that UDP or TCP carried, as far as captured", INT32, 0, 0, U32,
              payload_len),
    OF_PACKET("messages", "messages of the protocol in it, without markers", INT32, 0, 0, U32,
              messages),
    OF_PACKET("decode",
              "0 ours and whole, 1 foreign, 2 truncated, 3 malformed, 4 unknown kind, 5 a piece "
              "that waits, 6 neither UDP nor TCP, 7 a stream that cannot be read",
              INT8, 0, 0, U8, decode),
    OF_PACKET("direction", "1 received, 2 sent, as pcapng may tell; else 0", INT8, 0, 0, U8,
              direction),
    TEXTS_OF_PACKET,
    OF_PACKET("payload", "what UDP or TCP carried", BYTES, 1, 1, VIEW, payload),
};

#define M(n, t, ty, nu, de, lo, me) COLUMN(n, t, ty, nu, de, lo, pdi_row_message, me)
static const struct pdi_column messages[] = {
    FILE_OF_PACKET,
    PKT_OF_PACKET,
    M("msg", "number of the message in its frame, from 0, markers not counted", INT32, 0, 0, U32,
      msg),
    OF_PACKET("offset", "byte of the file where its frame's record begins, unpacked", INT64, 0, 0,
              I64, offset),
    TIMES_OF_PACKET,
    ENDS_OF_PACKET,
    OF_PACKET("multicast", "whether it went to a group", BOOL, 0, 0, U8, multicast),
    M("kind", "kind of the message: 7 SDATA, 15 ACKNACK, ...", INT8, 0, 0, U8, kind),
    M("solicit", "flag S: an answer is wanted at once", BOOL, 0, 0, U8, solicit),
    M("reliable", "whether it belongs to a reliable counter", BOOL, 0, 0, U8, reliable),
    M("conduit", "conduit of the message; of an ACKNACK the one that it answers", INT32, 0, 0, U16,
      conduit),
    M("space", "resource space", INT32, 0, 0, U8, space),
    M("flow", "the counter that it belongs to; of an ACKNACK the one that it answers", INT64, 1, 0,
      ID, note.flow),
    M("epoch", "how often this counter had begun anew", INT32, 0, 0, U32, note.epoch),
    M("sn", "sequence number as it was sent", INT64, 1, 0, I64, sn),
    M("usn", "the same counted on without wrapping, within flow and epoch", INT64, 1, 0, I64,
      note.usn),
    M("rid", "resource of the data; a selection's number is negative", INT64, 1, 0, I64, rid),
    M("data_rid", "with flag A: the resource that the data really is of", INT64, 1, 0, I64,
      data_rid),
    M("samples", "samples in a BDATA, 1 in other data, else 0", INT32, 0, 0, U32, samples),
    M("frag", "first number of the series that this is a fragment of", INT64, 1, 0, I64, frag),
    M("size", "bytes of the message", INT32, 0, 0, U32, size),
    M("payload_len", "bytes of its payload", INT32, 0, 0, U32, payload_len),
    M("seq_event",
      "0 next, 1 first, 2 gap before it, 3 repeat, 4 fills a gap, 5 old (best effort), 6 reset, 7 "
      "ambiguous, 8 a repeat of what came before the first SYNCH",
      INT8, 1, 0, EVENT, note.event),
    M("gap", "numbers missing before it", INT64, 0, 0, U32, note.gap),
    M("since_first_us", "of a repeat: microseconds since the first transmission", INT64, 1, 0, I64,
      note.since_first_us),
    M("ack_usn", "of an ACKNACK: everything before this number has arrived", INT64, 1, 0, I64,
      note.ack_usn),
    M("nacked", "numbers that an ACKNACK wants again", INT32, 0, 0, U32, note.nacked),
    M("nack_mask", "its mask: bit i is number ack_usn + 1 + i", INT64, 1, 0, I64, note.nack_mask),
    M("outstanding", "of a SYNCH: messages not acknowledged", INT64, 1, 0, I64, note.outstanding),
    M("answer_us", "of an ACKNACK: microseconds since it was last asked for", INT64, 1, 0, I64,
      note.answer_us),
    M("delivery_us",
      "of an ACKNACK: microseconds since the newest number that it is the first to cover was first "
      "sent",
      INT64, 1, 0, I64, note.delivery_us),
    M("decode",
      "0, or of the message that could not be read 2 truncated, 3 malformed, 4 unknown kind", INT8,
      0, 0, U8, decode),
    M("uri", "name of the resource", TEXT, 1, 1, VIEW, uri),
    M("payload", "the payload, or its beginning (option payload)", BYTES, 1, 1, VIEW, payload),
    TEXTS_OF_PACKET,
};

#define E(n, t, ty, nu, de, lo, me) COLUMN(n, t, ty, nu, de, lo, pdi_row_event, me)
static const struct pdi_column events[] = {
    E("ts", "when it happened, rounded down to microseconds", TIME, 1, 0, TIME, ts_ns),
    E("ts_ns", "the same in nanoseconds since 1970", INT64, 1, 0, I64, ts_ns),
    FILE_OF_PACKET,
    PKT_OF_PACKET,
    E("msg", "number of the message in its frame that shows it", INT32, 0, 0, U32, msg),
    E("flow", "flow that it is about", INT64, 1, 0, ID, flow),
    E("epoch", "epoch of that", INT32, 0, 0, U32, epoch),
    E("peer", "endpoint that it is about, or that did it", INT64, 1, 0, ID, peer),
    E("type",
      "gap, repeat, fill, nack, stall, silence, lease_expired, scout, open, accept, close, "
      "refused, moved, reset, malformed, unknown_kind, truncated, capture_drop, "
      "declare_refused",
      TEXT, 0, 0, WORD, type),
    E("usn_from", "first number that it is about", INT64, 1, 0, I64, usn_from),
    E("usn_to", "last number that it is about", INT64, 1, 0, I64, usn_to),
    E("value_us", "microseconds: since the first transmission, of a silence, until an answer",
      INT64, 1, 0, I64, value_us),
    E("detail", "more in words", TEXT, 0, 0, WORD, detail),
};

#define F(n, t, ty, nu, de, lo, me) COLUMN(n, t, ty, nu, de, lo, pdi_row_flow, me)
static const struct pdi_column flows[] = {
    F("recording", RECORDING_TEXT, INT32, 0, 0, U32, recording),
    F("flow", "number of the flow", INT64, 0, 0, I64, flow),
    F("epoch", "how often its counter had begun anew", INT32, 0, 0, U32, epoch),
    F("src_ep", "who sends", INT64, 0, 0, I64, src_ep),
    F("dst_ep", "to whom: an endpoint, or a group", INT64, 0, 0, I64, dst_ep),
    F("multicast", "whether it goes to a group", BOOL, 0, 0, U8, multicast),
    F("conduit", "conduit of the sender", INT32, 0, 0, U16, conduit),
    F("reliable", "whether lost messages are sent again", BOOL, 0, 0, U8, reliable),
    F("seq_bits", "bits of its numbers", INT8, 0, 0, U8, seq_bits),
    F("first_ns", "time of its earliest message here, nanoseconds since 1970; least over ranges",
      INT64, 1, 0, I64, first_ns),
    F("last_ns", "and of its latest; greatest over ranges", INT64, 1, 0, I64, last_ns),
    F("first_usn", "least number seen", INT64, 1, 0, I64, first_usn),
    F("last_usn", "greatest number seen", INT64, 1, 0, I64, last_usn),
    F("messages",
      "messages with a number, repeats among them; added over ranges, as all that follow", INT64, 0,
      0, I64, messages),
    F("samples", "of these, messages with data", INT64, 0, 0, I64, samples),
    F("bytes", "bytes of payload", INT64, 0, 0, I64, bytes),
    F("packets", "packets that hold them", INT64, 0, 0, I64, packets),
    F("gaps", "times that numbers were passed over", INT64, 0, 0, I64, gaps),
    F("missing", "numbers passed over, less those that came later", INT64, 0, 0, I64, missing),
    F("repeats", "messages seen before", INT64, 0, 0, I64, repeats),
    F("pre_sync", "of these, repeats of what was sent before the first SYNCH", INT64, 0, 0, I64,
      presync),
    F("fills", "missing numbers that came later", INT64, 0, 0, I64, fills),
    F("old", "best effort messages overtaken by later ones", INT64, 0, 0, I64, old),
    F("ambiguous", "jumps too large to be understood", INT64, 0, 0, I64, ambiguous),
    F("unclear",
      "numbers that may have gone by in silences behind which it is unclear, at the flow's own "
      "pace",
      INT64, 0, 0, I64, unclear),
    F("resets", "times that the counter began anew", INT64, 0, 0, I64, resets),
    F("acks", "ACKNACKs that answer it", INT64, 0, 0, I64, acks),
    F("nacks", "ACKNACKs that wanted something again", INT64, 0, 0, I64, nacks),
    F("nacked", "numbers that they wanted", INT64, 0, 0, I64, nacked),
    F("synchs", "SYNCHs", INT64, 0, 0, I64, synchs),
    F("outstanding_max",
      "most messages that a SYNCH named as not acknowledged; greatest over ranges", INT64, 0, 0,
      I64, outstanding),
    F("gap_file", "number of the file with the frame gap_pkt; 0 without one", INT32, 0, 0, U32,
      gap_file),
    F("gap_pkt", "first frame with a gap before it; the first of all over ranges", INT64, 1, 0, ID,
      gap_pkt),
    F("repeat_file", "number of the file with the frame repeat_pkt; 0 without one", INT32, 0, 0,
      U32, repeat_file),
    F("repeat_pkt", "first frame with a repeat that is not pre-sync; the first of all over ranges",
      INT64, 1, 0, ID, repeat_pkt),
    F("answer_hist",
      "answers by their time (log-linear, csrc/base/histogram.h): added place by place", COUNTS, 1,
      1, COUNTS, answer),
    F("delivery_hist", "deliveries likewise", COUNTS, 1, 1, COUNTS, delivery),
    F("src", "the sender as address:port", TEXT, 1, 1, ENDPOINT, source),
    F("dst", "the receiver as address:port", TEXT, 1, 1, ENDPOINT, target),
};

#define S(n, t, ty, nu, de, lo, me) COLUMN(n, t, ty, nu, de, lo, pdi_row_session, me)
static const struct pdi_column sessions[] = {
    S("file", "number of the file in which it ends, or of the last", INT32, 0, 0, U32, file),
    S("recording", RECORDING_TEXT, INT32, 0, 0, U32, recording),
    S("session", "number of the session", INT64, 0, 0, I64, session),
    S("number", "how many these two had before", INT32, 0, 0, U32, number),
    S("opener_ep", "who opened it", INT64, 0, 0, I64, ep[0]),
    S("acceptor_ep", "who accepted it", INT64, 0, 0, I64, ep[1]),
    S("opener_id", "id of the opener, in hexadecimal digits", TEXT, 0, 0, HEX, id[0]),
    S("acceptor_id", "id of the acceptor", TEXT, 0, 0, HEX, id[1]),
    S("seq_bits", "bits of its numbers", INT8, 0, 0, U8, seq_bits),
    S("opener_lease_ms", "how long the opener may be silent; 0 is for ever", INT64, 1, 0, I64,
      lease_ms[0]),
    S("acceptor_lease_ms", "how long the acceptor may be silent", INT64, 1, 0, I64, lease_ms[1]),
    S("open_ns", "when it was asked for, nanoseconds since 1970", INT64, 1, 0, I64, open_ns),
    S("accept_ns", "when it was accepted; null: never", INT64, 1, 0, I64, accept_ns),
    S("end_ns", "when it ended; null: it had not", INT64, 1, 0, I64, end_ns),
    S("until_ns", "until when it was followed: when it ended, or when its recording did", INT64, 1,
      0, I64, until_ns),
    S("end",
      "closed, expired, moved, again (opened anew without a farewell), refused, evicted, "
      "capture_end",
      TEXT, 0, 0, WORD, end),
    S("reason", "reason in the CLOSE that ended it", INT32, 0, 0, U8, reason),
    S("opener_silence_us", "longest silence of the opener", INT64, 0, 0, I64, silence_us[0]),
    S("acceptor_silence_us", "longest silence of the acceptor", INT64, 0, 0, I64, silence_us[1]),
    S("margin_us", "least distance of a silence to its lease; negative: it was longer", INT64, 1, 0,
      I64, margin_us),
    S("open_file", "number of the file with the frame open_pkt", INT32, 0, 0, U32, open_file),
    S("open_pkt", "frame that asked for it, or accepted it", INT64, 1, 0, ID, open_pkt),
    S("end_pkt", "frame that ended it, or showed that it had ended; of the file `file`", INT64, 1,
      0, ID, end_pkt),
    S("opener", "the opener as address:port", TEXT, 1, 1, ENDPOINT, end_of[0]),
    S("acceptor", "the acceptor as address:port", TEXT, 1, 1, ENDPOINT, end_of[1]),
};

#define R(n, t, ty, nu, de, lo, me) COLUMN(n, t, ty, nu, de, lo, pdi_row_rate, me)
static const struct pdi_column rates[] = {
    R("recording", RECORDING_TEXT, INT32, 0, 0, U32, recording),
    R("window", "beginning of the window (option window)", TIME, 1, 0, TIME, window_ns),
    R("flow", "flow that carried it", INT64, 0, 0, I64, flow),
    R("rid", "resource; null: named in the message itself", INT64, 1, 0, I64, rid),
    R("kind", "kind of the messages", INT8, 0, 0, U8, kind),
    R("messages", "messages; added over ranges, as all that follow", INT64, 0, 0, I64, messages),
    R("bytes", "bytes of payload", INT64, 0, 0, I64, bytes),
    R("repeats", "of the messages, repeats", INT64, 0, 0, I64, repeats),
};

#define N(n, t, ty, nu, de, lo, me) COLUMN(n, t, ty, nu, de, lo, pdi_row_resource, me)
static const struct pdi_column resources[] = {
    N("file", "number of the file in which it was taken back, or else of the last", INT32, 0, 0,
      U32, file),
    N("recording", RECORDING_TEXT, INT32, 0, 0, U32, recording),
    N("rid", "number of the resource; a selection's is negative", INT64, 0, 0, I64, rid),
    N("space", "resource space", INT32, 0, 0, U8, space),
    N("kind", "1 resource, 4 selection", INT8, 0, 0, U8, kind),
    N("uri", "its name", TEXT, 0, 0, VIEW, name),
    N("declarer_ep", "who says so", INT64, 0, 0, I64, ep),
    N("valid_from_ns", "since when, nanoseconds since 1970", INT64, 1, 0, I64, from_ns),
    N("valid_to_ns", "until when; null: it still was when the capture ended", INT64, 1, 0, I64,
      until_ns),
    N("declarer", "who says so, as address:port", TEXT, 1, 1, ENDPOINT, declarer),
};

#define D(n, t, ty, nu, de, lo, me) COLUMN(n, t, ty, nu, de, lo, pdi_row_declaration, me)
static const struct pdi_column declarations[] = {
    FILE_OF_PACKET,
    PKT_OF_PACKET,
    D("msg", "number of the DECLARE in its frame", INT32, 0, 0, U32, msg),
    D("item", "number of the declaration in its DECLARE", INT32, 0, 0, U32, item),
    TIMES_OF_PACKET,
    ENDS_OF_PACKET,
    D("kind", "RESOURCE, SUBSCRIPTION, COMMIT, RESULT, ...", TEXT, 0, 0, WORD, kind),
    D("id", "what it is about; a selection's number is negative", INT64, 1, 0, I64, id),
    D("new_id", "of a binding: the common id", INT64, 1, 0, I64, new_id),
    D("space", "resource space", INT32, 0, 0, U8, space),
    D("uri", "name of a resource, query of a selection", TEXT, 1, 0, VIEW, name),
    D("mode",
      "of a subscription: 1 push, 2 pull, 3 periodic push, 4 periodic pull, 5 push and pull", INT64,
      1, 0, I64, mode),
    D("period_ms", "of a periodic subscription", INT64, 1, 0, I64, period_ms),
    D("committed", "flag C: in force without a commit", BOOL, 0, 0, U8, committed),
    D("commit", "of a commit or result: its number", INT64, 1, 0, I64, commit),
    D("status",
      "of a result: 0 ok, 1 no space, 2 conflict, 3 too large, 4 try again, 5 invalid, 6 "
      "unsupported, 7 other",
      INT64, 1, 0, I64, status),
    D("transaction", "number that declarations, their commit and its results share; null: none",
      INT64, 1, 0, I64, transaction),
    TEXTS_OF_PACKET,
};

#define P(n, t, ty, nu, de, lo, me) COLUMN(n, t, ty, nu, de, lo, pdi_row_endpoint, me)
static const struct pdi_column endpoints[] = {
    P("recording", RECORDING_TEXT, INT32, 0, 0, U32, recording),
    P("ep", "number of the endpoint", INT64, 0, 0, I64, ep),
    P("address", "its address", TEXT, 0, 0, ADDRESS, at),
    P("port", "its port", INT32, 0, 0, I64, port),
    P("transport", "udp or tcp", TEXT, 0, 0, WORD, transport),
    P("multicast", "whether it is a group", BOOL, 0, 0, U8, multicast),
    P("peer_id", "id that it told, in hexadecimal digits", TEXT, 0, 0, HEX, id),
    P("extended", "whether it announced more than zhe can do", BOOL, 0, 0, U8, extended),
    P("seq_bits", "bits of its numbers", INT8, 0, 0, U8, seq_bits),
    P("first_ns", "its first packet, nanoseconds since 1970", INT64, 1, 0, I64, first_ns),
    P("last_ns", "its last packet", INT64, 1, 0, I64, last_ns),
    P("packets", "packets that it sent in this range", INT64, 0, 0, I64, packets),
    P("bytes", "bytes of them", INT64, 0, 0, I64, bytes),
};

const struct pdi_table pdi_tables[PYDDSI_TABLE_COUNT] = {
    {"packets", packets, COUNT(packets), sizeof(struct pdi_row)},
    {"messages", messages, COUNT(messages), sizeof(struct pdi_row_message)},
    {"events", events, COUNT(events), sizeof(struct pdi_row_event)},
    {"flows", flows, COUNT(flows), sizeof(struct pdi_row_flow)},
    {"sessions", sessions, COUNT(sessions), sizeof(struct pdi_row_session)},
    {"rates", rates, COUNT(rates), sizeof(struct pdi_row_rate)},
    {"resources", resources, COUNT(resources), sizeof(struct pdi_row_resource)},
    {"declarations", declarations, COUNT(declarations), sizeof(struct pdi_row_declaration)},
    {"endpoints", endpoints, COUNT(endpoints), sizeof(struct pdi_row_endpoint)},
};

_Static_assert(COUNT(messages) <= PYDDSI_COLUMNS_MAX,
               "the bits of the wanted columns are not enough");
