/* table.c - the rows. See table.h; the meaning of each field is told in the reference page made from this file. */
#include "wire/table.h"

#define COUNT(array)   (sizeof(array) / sizeof((array)[0]))
#define IN(type, name) (uint16_t)offsetof(type, name)

/* A field that is always there; one that is there if a flag is set; one that is there by another
 * rule. */
#define FIELD(in, name, kind, text)                                                                \
    {#name, text, PYDDSI_TYPE_##kind, PYDDSI_ALWAYS, 0, 0, IN(in, name), 0, NULL}
#define FIELD_IF(bit, in, name, kind, text)                                                        \
    {#name, text, PYDDSI_TYPE_##kind, PYDDSI_IF_FLAG, bit, 0, IN(in, name), 0, NULL}
#define FIELD_WHEN(rule, in, name, kind, text)                                                     \
    {#name, text, PYDDSI_TYPE_##kind, PYDDSI_IF_##rule, 0, 0, IN(in, name), 0, NULL}
#define FIELD_NAMED(in, name, kind, names, is_bits, text)                                          \
    {#name, text, PYDDSI_TYPE_##kind, PYDDSI_ALWAYS, 0, is_bits, IN(in, name), COUNT(names), names}

#define M(name, kind, text)         FIELD(pyddsi_message, name, kind, text)
#define M_IF(bit, name, kind, text) FIELD_IF(bit, pyddsi_message, name, kind, text)
#define D(name, kind, text)         FIELD(pyddsi_declaration, name, kind, text)
#define D_PERIODIC(name, text)      FIELD_WHEN(PERIODIC, pyddsi_declaration, name, NUMBER64, text)

#define PROPERTIES(in) FIELD_IF(PYDDSI_P, in, properties, PROPERTIES, "properties")

/* The flags. One with a name is a choice of the sender; the others only say that a field is there. */
#define NO_FLAG        {0, NULL, NULL}
#define FLAG_P         {'P', NULL, "properties follow"}
#define FLAG_S         {'S', "sync", "answer with an ACKNACK at once"}
#define FLAG_R         {'R', "reliable", "counted, acknowledged and repeated until it has arrived"}
#define FLAG_A         {'A', NULL, "the data belongs to another id, which follows"}
#define FLAG_ACTUAL    {'A', "actual", "each sample names the resource that it belongs to"}
#define FLAG_C         {'C', "committed", "in effect at once, without a commit and a result"}
#define FLAG_F         {'F', "final", "nothing more will be asked in this pull session"}
#define FLAG_G         {'G', "is_global", "the id is global"}
#define FLAG_I         {'I', NULL, "only the id that follows moves, else everything"}
#define FLAG_M         {'M', NULL, "retransmission is wanted, and a mask follows"}
#define FLAG_LIMIT     {'N', NULL, "a limit follows"}
#define FLAG_FRAGMENTS {'N', NULL, "the number of fragments follows"}
#define FLAG_U         {'U', NULL, "messages are unacknowledged, and their count follows"}
#define FLAG_Z         {'Z', NULL, "short form: the id, less one, in the other flags"}

/* The parts of a row. Flags are in the order 20, 40, 80; a row without markers, flags or fields leaves the part out. */
#define ROW(title, kind, in_part, meaning)                                                         \
    .name = (title), .number = (kind), .part = (in_part), .text = (meaning)
#define IS_MARKER      .marker = 1
#define MARKED(before) .markers = (before)
#define FLAGS(...)     .flag = {__VA_ARGS__}
#define FIELDS(...)    .field_count = COUNT(((pyddsi_field[]){__VA_ARGS__})), .field = {__VA_ARGS__}

enum { CONDUIT = PYDDSI_MARKER_CONDUIT, FRAG = PYDDSI_MARKER_FRAG, RSPACE = PYDDSI_MARKER_RSPACE };

static const pyddsi_value roles[] = {{1, "broker"}, {2, "durability"}, {4, "peer"}, {8, "client"}};

static const pyddsi_value reasons[] = {
    {0, "ordinary"},        {1, "authentication"}, {2, "protocol-version"}, {3, "out-of-resources"},
    {4, "sequence-length"}, {5, "parameter"},      {6, "declarations"},     {255, "other"},
};

static const pyddsi_value modes[] = {
    {1, "push"}, {2, "pull"}, {3, "periodic-push"}, {4, "periodic-pull"}, {5, "push-pull"},
};

static const pyddsi_value statuses[] = {
    {0, "ok"},        {1, "no-space"}, {2, "conflict"},    {3, "too-large"},
    {4, "try-again"}, {5, "invalid"},  {6, "unsupported"}, {7, "other"},
};

static const pyddsi_value property_ids[] = {
    {0, "vendor"},          {1, "extensions"},   {2, "conduits"},   {3, "incarnation"},
    {4, "sequence-bits"},   {6, "reliability"},  {8, "durability"}, {10, "commit-mode"},
    {12, "authentication"}, {14, "client-hash"},
};

/* The rows keep their own layout: one line a field, so that a message is read like the protocol's description. */
/* clang-format off */

const pyddsi_spec pdi_messages[PYDDSI_KIND_COUNT] = {

[PYDDSI_SCOUT] = {ROW("SCOUT", PYDDSI_SCOUT, 'A', "asks who is there"),
    FLAGS(FLAG_P, NO_FLAG, NO_FLAG),
    FIELDS(FIELD_NAMED(pyddsi_message, mask, NUMBER64, roles, 1, "whom the sender looks for"),
           PROPERTIES(pyddsi_message))},

[PYDDSI_HELLO] = {ROW("HELLO", PYDDSI_HELLO, 'A', "answers a SCOUT"),
    FLAGS(FLAG_P, NO_FLAG, NO_FLAG),
    FIELDS(FIELD_NAMED(pyddsi_message, mask, NUMBER64, roles, 1, "what the sender is"),
           M(locators, LOCATORS, "the multicast groups that the sender has joined"),
           PROPERTIES(pyddsi_message))},

[PYDDSI_OPEN] = {ROW("OPEN", PYDDSI_OPEN, 'A', "asks for a session"),
    FLAGS(FLAG_P, NO_FLAG, NO_FLAG),
    FIELDS(M(version, BYTE, "protocol version, 1"),
           M(id, PEER_ID, "who opens"),
           M(lease, NUMBER32, "how long to wait for a sign of life, in 100 ms; 0 is for ever"),
           M(locators, LOCATORS, "the multicast groups that the sender has joined"),
           PROPERTIES(pyddsi_message))},

[PYDDSI_ACCEPT] = {ROW("ACCEPT", PYDDSI_ACCEPT, 'A', "grants a session"),
    FLAGS(FLAG_P, NO_FLAG, NO_FLAG),
    FIELDS(M(opener, PEER_ID, "who opened"),
           M(acceptor, PEER_ID, "who accepts"),
           M(lease, NUMBER32, "how long to wait for a sign of life, in 100 ms; 0 is for ever"),
           PROPERTIES(pyddsi_message))},

[PYDDSI_CLOSE] = {ROW("CLOSE", PYDDSI_CLOSE, 'A', "ends or refuses a session"),
    FIELDS(M(id, PEER_ID, "who closes"),
           FIELD_NAMED(pyddsi_message, reason, BYTE, reasons, 0, "why"))},

[PYDDSI_DECLARE] = {ROW("DECLARE", PYDDSI_DECLARE, 'A', "tells what the sender publishes, subscribes to and names"),
    MARKED(CONDUIT | RSPACE),
    FLAGS(FLAG_S, FLAG_C, NO_FLAG),
    FIELDS(M(sn, SN, "number in the conduit's reliable counter"),
           M(declarations, DECLARATIONS, "one or more declarations"))},

[PYDDSI_SDATA] = {ROW("SDATA", PYDDSI_SDATA, 'A', "one sample of a resource"),
    MARKED(CONDUIT | FRAG | RSPACE),
    FLAGS(FLAG_S, FLAG_R, FLAG_A),
    FIELDS(M(sn, SN, "number in the conduit's counter, reliable or not"),
           M(rid, ID, "the resource; with A the selection or pattern that it is sent for"),
           M_IF(PYDDSI_A, data_rid, ID_NONE, "the resource that the data belongs to; 0 ends a pull"),
           M(payload, BYTES, "the sample"))},

[PYDDSI_BDATA] = {ROW("BDATA", PYDDSI_BDATA, 'B', "several samples of a resource"),
    MARKED(CONDUIT | FRAG | RSPACE),
    FLAGS(FLAG_S, FLAG_R, FLAG_ACTUAL),
    FIELDS(M(sn, SN, "number in the conduit's counter, reliable or not"),
           M(rid, ID, "the resource; with A the selection or pattern that it is sent for"),
           M(samples, SAMPLES, "the samples"))},

[PYDDSI_WDATA] = {ROW("WDATA", PYDDSI_WDATA, 'A', "one sample of a resource given by name"),
    MARKED(CONDUIT | FRAG | RSPACE),
    FLAGS(FLAG_S, FLAG_R, NO_FLAG),
    FIELDS(M(sn, SN, "number in the conduit's counter, reliable or not"),
           M(uri, TEXT, "name of the resource, may hold wildcards"),
           M(payload, BYTES, "the sample"))},

[PYDDSI_QUERY] = {ROW("QUERY", PYDDSI_QUERY, 'R', "reserved")},

[PYDDSI_PULL] = {ROW("PULL", PYDDSI_PULL, 'B', "asks for stored samples of a subscription"),
    MARKED(CONDUIT | RSPACE),
    FLAGS(FLAG_S, FLAG_LIMIT, FLAG_F),
    FIELDS(M(sn, SN, "number in the conduit's reliable counter"),
           M(rid, ID, "the resource or selection"),
           M_IF(PYDDSI_N, limit, NUMBER32, "how many samples at the most"))},

[PYDDSI_PING] = {ROW("PING", PYDDSI_PING, 'A', "asks for a PONG"),
    FIELDS(M(hash, HASH, "comes back in the PONG"))},

[PYDDSI_PONG] = {ROW("PONG", PYDDSI_PONG, 'A', "answers a PING"),
    FIELDS(M(hash, HASH, "the PING's"))},

[PYDDSI_SYNCH] = {ROW("SYNCH", PYDDSI_SYNCH, 'A', "tells where the sender of a conduit is"),
    MARKED(CONDUIT),
    FLAGS(FLAG_S, FLAG_R, FLAG_U),
    FIELDS(M(sn, SN, "the next number to be sent"),
           M_IF(PYDDSI_U, count, SN, "how many messages before it are unacknowledged"))},

[PYDDSI_ACKNACK] = {ROW("ACKNACK", PYDDSI_ACKNACK, 'A', "tells what has arrived and what is missing"),
    MARKED(CONDUIT),
    FLAGS(FLAG_M, NO_FLAG, NO_FLAG),
    FIELDS(M(sn, SN, "everything before it has arrived"),
           M_IF(PYDDSI_M, mask, NUMBER64, "sn is wanted again, and sn + 1 + i for each bit i"))},

[PYDDSI_KEEPALIVE] = {ROW("KEEPALIVE", PYDDSI_KEEPALIVE, 'A', "a sign of life"),
    FIELDS(M(id, PEER_ID, "who lives"))},

[PYDDSI_CONDUIT_CLOSE] = {ROW("CONDUIT CLOSE", PYDDSI_CONDUIT_CLOSE, 'B', "tells that a conduit carries nothing any more"),
    FIELDS(M(left, NUMBER16, "the conduit"))},

[PYDDSI_FRAG] = {ROW("FRAG", PYDDSI_FRAG, 'B', "the message after it carries a fragment of a sample"),
    IS_MARKER, MARKED(CONDUIT),
    FLAGS(NO_FLAG, FLAG_FRAGMENTS, NO_FLAG),
    FIELDS(M(first, SN, "number of the first fragment"),
           M_IF(PYDDSI_N, fragments, NUMBER32, "how many fragments the sample has"))},

[PYDDSI_CONDUIT] = {ROW("CONDUIT", PYDDSI_CONDUIT, 'A', "the messages after it belong to this conduit"),
    IS_MARKER,
    FLAGS(NO_FLAG, NO_FLAG, FLAG_Z),
    FIELDS(M(conduit, MARKER, "the conduit; 0 if there is no marker"))},

[PYDDSI_MIGRATE] = {ROW("MIGRATE", PYDDSI_MIGRATE, 'B', "tells that traffic continues on this conduit"),
    MARKED(CONDUIT | RSPACE),
    FLAGS(FLAG_I, NO_FLAG, NO_FLAG),
    FIELDS(M(left, NUMBER16, "the conduit left behind"),
           M_IF(PYDDSI_I, rid, ID, "the resource or selection that moves"),
           M(last_reliable, SN, "the last reliable number there"),
           M(last_unreliable, SN, "the last unreliable number there"))},

[PYDDSI_SDATA_DELTA] = {ROW("SDATA DELTA", PYDDSI_SDATA_DELTA, 'R', "reserved")},
[PYDDSI_BDATA_DELTA] = {ROW("BDATA DELTA", PYDDSI_BDATA_DELTA, 'R', "reserved")},
[PYDDSI_WDATA_DELTA] = {ROW("WDATA DELTA", PYDDSI_WDATA_DELTA, 'R', "reserved")},

[PYDDSI_RSPACE] = {ROW("RSPACE", PYDDSI_RSPACE, 'B', "the ids in the message after it belong to this resource space"),
    IS_MARKER, MARKED(CONDUIT | FRAG),
    FLAGS(NO_FLAG, NO_FLAG, FLAG_Z),
    FIELDS(M(space, MARKER, "the space: 0 is the default, 1 is the brokers'"))},
};

const pyddsi_spec pdi_declarations[PYDDSI_DECLARATION_COUNT] = {

[PYDDSI_RESOURCE] = {ROW("RESOURCE", PYDDSI_RESOURCE, 'A', "ties an id to a name"),
    FLAGS(FLAG_P, NO_FLAG, NO_FLAG),
    FIELDS(D(id, RID, "the resource"),
           D(uri, TEXT, "its name"),
           PROPERTIES(pyddsi_declaration))},

[PYDDSI_PUBLICATION] = {ROW("PUBLICATION", PYDDSI_PUBLICATION, 'A', "the sender publishes"),
    FLAGS(FLAG_P, NO_FLAG, NO_FLAG),
    FIELDS(D(id, RID, "the resource"),
           PROPERTIES(pyddsi_declaration))},

[PYDDSI_SUBSCRIPTION] = {ROW("SUBSCRIPTION", PYDDSI_SUBSCRIPTION, 'A', "the sender subscribes"),
    FLAGS(FLAG_P, NO_FLAG, NO_FLAG),
    FIELDS(D(id, ID, "the resource or selection"),
           FIELD_NAMED(pyddsi_declaration, mode, BYTE, modes, 0, "how samples are to come"),
           D_PERIODIC(origin, "begin of the first window, in ms"),
           D_PERIODIC(period, "from window to window, in ms"),
           D_PERIODIC(duration, "length of a window, in ms, below the period"),
           PROPERTIES(pyddsi_declaration))},

[PYDDSI_SELECTION] = {ROW("SELECTION", PYDDSI_SELECTION, 'A', "ties an id to a query"),
    FLAGS(FLAG_P, NO_FLAG, FLAG_G),
    FIELDS(D(id, SID, "the selection"),
           D(query, TEXT, "resource#{tag,tag}?{predicate}"),
           PROPERTIES(pyddsi_declaration))},

[PYDDSI_BINDING] = {ROW("BINDING", PYDDSI_BINDING, 'A', "ties a selection to another id"),
    FLAGS(NO_FLAG, NO_FLAG, FLAG_G),
    FIELDS(D(id, SID, "the selection"),
           D(new_id, ID, "the id that it may also have"))},

[PYDDSI_COMMIT] = {ROW("COMMIT", PYDDSI_COMMIT, 'A', "ends a transaction"),
    FIELDS(D(commit, BYTE, "its number"))},

[PYDDSI_RESULT] = {ROW("RESULT", PYDDSI_RESULT, 'A', "answers a commit"),
    FIELDS(D(commit, BYTE, "the commit's number"),
           FIELD_NAMED(pyddsi_declaration, status, BYTE, statuses, 0, "how it went"),
           FIELD_WHEN(FAILED, pyddsi_declaration, id, ID, "the id that was at fault"))},

[PYDDSI_FORGET_RESOURCE] = {ROW("FORGET RESOURCE", PYDDSI_FORGET_RESOURCE, 'A', "takes back a RESOURCE"),
    FIELDS(D(id, RID, "the resource"))},

[PYDDSI_FORGET_PUBLICATION] = {ROW("FORGET PUBLICATION", PYDDSI_FORGET_PUBLICATION, 'A', "takes back a PUBLICATION"),
    FIELDS(D(id, RID, "the resource"))},

[PYDDSI_FORGET_SUBSCRIPTION] = {ROW("FORGET SUBSCRIPTION", PYDDSI_FORGET_SUBSCRIPTION, 'A', "takes back a SUBSCRIPTION"),
    FIELDS(D(id, ID, "the resource or selection"))},

[PYDDSI_FORGET_SELECTION] = {ROW("FORGET SELECTION", PYDDSI_FORGET_SELECTION, 'A', "takes back a SELECTION"),
    FIELDS(D(id, SID, "the selection"))},
};

static const pyddsi_spec items[] = {

{ROW("LOCATOR", 0, 'A', "where a node can be reached"),
    FIELDS(FIELD(pyddsi_locator, text, TEXT, "udp/ADDRESS:PORT, tcp/.."))},

{ROW("PROPERTY", 0, 'A', "a setting"),
    FIELDS(FIELD_NAMED(pyddsi_property, id, NUMBER64, property_ids, 0, "which; odd ones are vendors'"),
           FIELD(pyddsi_property, value, BYTES, "its value"))},

{ROW("SAMPLE", 0, 'B', "a sample of a batch"),
    FLAGS(NO_FLAG, NO_FLAG, FLAG_A),
    FIELDS(FIELD_IF(PYDDSI_A, pyddsi_sample, rid, ID_NONE, "the resource that it belongs to"),
           FIELD(pyddsi_sample, payload, BYTES, "the sample"))},
};

/* clang-format on */

const pyddsi_spec *pdi_item_spec(unsigned type)
{
    return &items[type - PYDDSI_TYPE_LOCATORS];
}

unsigned pdi_flags_defined(const pyddsi_spec *spec)
{
    unsigned defined = spec->field[0].type == PYDDSI_TYPE_MARKER ? PDI_FLAG_MASK : 0;
    for (unsigned i = 0; i < 3; i++)
        defined |= spec->flag[i].letter != 0 ? 0x20U << i : 0;
    return defined;
}
