/* pyddsi.h - the front door.
 *
 * Everything that a program outside the core may use is declared here, and nothing else is exported. Two kinds of
 * things stand in this file:
 *
 *   - plain words that every room speaks (status codes, a view of bytes, a decoded message), so that no room needs a
 *     second copy of them and no translation can go wrong;
 *   - functions named pyddsi_..., implemented in csrc/api.
 *
 * It is long because it is the only one: one list of words is easier to keep true than several.
 *
 * The part between the two cffi marks is plain C without a macro or an attribute: the Python package's build script
 * (pyddsi/_build.py) hands it to cffi as it stands, so that this file is the only truth about the boundary.
 */
#ifndef PYDDSI_H
#define PYDDSI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* cffi: begin */

/* What a call may answer. Zero and above are good news; below zero something is wrong and the call changed nothing
 * but the fault or the text it was given to explain itself. */
enum pyddsi_status {
    PYDDSI_OK = 0,
    PYDDSI_SHORT = 1,         /* the input ends inside something; more bytes may complete it */
    PYDDSI_AGAIN = 2,         /* not now: the queue is empty, or full */
    PYDDSI_END = 3,           /* nothing is left */
    PYDDSI_BAD_INPUT = -1,    /* bytes from outside break a rule; the fault says which, and where */
    PYDDSI_NO_SPACE = -2,     /* the memory that the caller gave is too small */
    PYDDSI_BAD_ARGUMENT = -3, /* the caller asks for what cannot be; a mistake of the program */
    PYDDSI_CLOSED = -4,       /* the session is closed, or belongs to the process that forked */
    PYDDSI_SYSTEM = -5,       /* the system refused; the text says what, and what to do */
};

/* A view of bytes that somebody else owns. Never terminated by a zero. */
typedef struct {
    const uint8_t *data;
    size_t size;
} pyddsi_bytes;

/* The rules that bytes from outside may break. wire/rules.c says of each what it means and what zhe does about it. */
enum pyddsi_rule {
    PYDDSI_RULE_NONE = 0,
    /* messages */
    PYDDSI_RULE_CUT,              /* the message runs past the end of the packet */
    PYDDSI_RULE_KIND_UNKNOWN,     /* no message has this kind */
    PYDDSI_RULE_KIND_RESERVED,    /* the kind has a name but no body */
    PYDDSI_RULE_KIND_EXTENSION,   /* a kind of part B from a peer that speaks part A alone */
    PYDDSI_RULE_NUMBER_WIDE,      /* a number does not fit the width of its field */
    PYDDSI_RULE_NUMBER_LONG_FORM, /* a number is not in its shortest form (strict) */
    PYDDSI_RULE_SN_RANGE,         /* a sequence number or count at or above 2^L */
    PYDDSI_RULE_LENGTH_WIDE,      /* a byte vector longer than 65535 */
    PYDDSI_RULE_PEER_ID_LENGTH, /* a peer id that is empty or longer than 16 bytes (zhe, strict) */
    PYDDSI_RULE_ID_ZERO,        /* resource or selection id 0 */
    PYDDSI_RULE_ID_WIDE,        /* an id over the receiver's width */
    PYDDSI_RULE_ID_PARITY, /* a selection id where only a resource can stand, or the other way (zhe, strict) */
    PYDDSI_RULE_CONDUIT_RANGE,  /* a conduit, in the long form, that the receiver does not have */
    PYDDSI_RULE_CONDUIT_SHORT,  /* the same in the short form, which zhe does not check */
    PYDDSI_RULE_MARKER_ALONE,   /* a marker with no message after it (strict) */
    PYDDSI_RULE_MARKER_ORDER,   /* markers not in the order CONDUIT, FRAG, RSPACE (strict) */
    PYDDSI_RULE_MARKER_FORM,    /* the long form of an id that has a short one (strict) */
    PYDDSI_RULE_MARKER_TARGET,  /* a marker before a message that it cannot decorate (strict) */
    PYDDSI_RULE_FLAG_UNDEFINED, /* an undefined flag is set (strict) */
    PYDDSI_RULE_OPEN_PROPERTIES, /* an OPEN without the properties flag, which kills zhe (zhe, strict) */
    PYDDSI_RULE_OPEN_SEQ_BITS, /* an OPEN whose sequence number length is not the receiver's (zhe) */
    PYDDSI_RULE_OPEN_VERSION,  /* an OPEN of another protocol version (zhe, strict) */
    PYDDSI_RULE_OPEN_LEASE,    /* an OPEN with a lease over 21,474,836 (zhe, strict) */
    PYDDSI_RULE_DECLARATION_KIND, /* no declaration has this kind */
    PYDDSI_RULE_COMMIT_LAST,      /* a commit that is not the last of its DECLARE (strict) */
    PYDDSI_RULE_MODE,             /* a subscription mode other than 1 to 5 */
    PYDDSI_RULE_PERIOD,           /* a duration that is not below its period (strict) */
    /* streams */
    PYDDSI_RULE_FRAME_LENGTH, /* a frame length of three bytes or more */
    PYDDSI_RULE_FRAME_LIMIT,  /* a frame or an unframed message over the receiver's limit */
    /* names */
    PYDDSI_RULE_NAME_EMPTY,
    PYDDSI_RULE_NAME_LONG,
    PYDDSI_RULE_NAME_START,     /* on the wire a name starts with '/' or '**' */
    PYDDSI_RULE_NAME_END,       /* a name does not end in '/' */
    PYDDSI_RULE_NAME_SEGMENT,   /* two slashes in a row */
    PYDDSI_RULE_NAME_CHARACTER, /* only letters, digits, '-', '_', '/', '?', '*' */
    PYDDSI_RULE_NAME_SCHEME,    /* a scheme other than zenoh:// */
    PYDDSI_RULE_NAME_META,      /* '$' starts only a last segment '$ls' or '$id' */
    PYDDSI_RULE_NAME_TAG,       /* an unknown or empty tag, or a tag list that is not closed */
    PYDDSI_RULE_NAME_PREDICATE, /* a predicate that is not closed, or bytes after it */
    PYDDSI_RULE_COUNT
};

/* Which rule was broken, and at which byte of the input. */
typedef struct {
    int rule;
    size_t at;
} pyddsi_fault;

/* What zhe, the reference peer, does about a broken rule. */
enum pyddsi_zhe {
    PYDDSI_ZHE_ACCEPTS = 0, /* nothing: it takes the message as it is */
    PYDDSI_ZHE_IGNORES,     /* it leaves the message without effect and goes on */
    PYDDSI_ZHE_REFUSES, /* it answers an OPEN with CLOSE (which usually gets lost) and forgets the peer */
    PYDDSI_ZHE_DROPS, /* it drops the session without a word; over TCP it closes the connection too */
    PYDDSI_ZHE_STALLS, /* over TCP: the bytes stay, framing is lost, nothing more happens until the lease ends */
    PYDDSI_ZHE_DIES, /* the process stops, or works on memory that is not its own */
};

/* ---- messages: wire.md as a table ------------------------------------------------------------------------------ */

enum pyddsi_kind {
    PYDDSI_SCOUT = 1,
    PYDDSI_HELLO = 2,
    PYDDSI_OPEN = 3,
    PYDDSI_ACCEPT = 4,
    PYDDSI_CLOSE = 5,
    PYDDSI_DECLARE = 6,
    PYDDSI_SDATA = 7,
    PYDDSI_BDATA = 8,
    PYDDSI_WDATA = 9,
    PYDDSI_QUERY = 10,
    PYDDSI_PULL = 11,
    PYDDSI_PING = 12,
    PYDDSI_PONG = 13,
    PYDDSI_SYNCH = 14,
    PYDDSI_ACKNACK = 15,
    PYDDSI_KEEPALIVE = 16,
    PYDDSI_CONDUIT_CLOSE = 17,
    PYDDSI_FRAG = 18,
    PYDDSI_CONDUIT = 19,
    PYDDSI_MIGRATE = 20,
    PYDDSI_SDATA_DELTA = 21,
    PYDDSI_BDATA_DELTA = 22,
    PYDDSI_WDATA_DELTA = 23,
    PYDDSI_RSPACE = 24,
    PYDDSI_KIND_COUNT = 32, /* five bits */
};

enum pyddsi_declaration_kind {
    PYDDSI_RESOURCE = 1,
    PYDDSI_PUBLICATION = 2,
    PYDDSI_SUBSCRIPTION = 3,
    PYDDSI_SELECTION = 4,
    PYDDSI_BINDING = 5,
    PYDDSI_COMMIT = 6,
    PYDDSI_RESULT = 7,
    PYDDSI_FORGET_RESOURCE = 8,
    PYDDSI_FORGET_PUBLICATION = 9,
    PYDDSI_FORGET_SUBSCRIPTION = 10,
    PYDDSI_FORGET_SELECTION = 11,
    PYDDSI_DECLARATION_COUNT = 16, /* four bits */
};

/* The three flag bits of a header byte; what each means is the business of the kind. */
enum pyddsi_flag_bit { PYDDSI_FLAG_20 = 0x20, PYDDSI_FLAG_40 = 0x40, PYDDSI_FLAG_80 = 0x80 };

/* The flags by name, each at the place that it has in all kinds that know it. */
enum pyddsi_flag_name {
    PYDDSI_P = 0x20, /* properties follow */
    PYDDSI_S = 0x20, /* answer with an ACKNACK at once */
    PYDDSI_M = 0x20, /* ACKNACK: a mask follows */
    PYDDSI_I = 0x20, /* MIGRATE: only the named id moves */
    PYDDSI_R = 0x40, /* reliable */
    PYDDSI_C = 0x40, /* DECLARE: already committed */
    PYDDSI_N = 0x40, /* a number follows: PULL's limit, FRAG's number of fragments */
    PYDDSI_A = 0x80, /* the data belongs to another id, which follows */
    PYDDSI_U = 0x80, /* SYNCH: the count of unacknowledged messages follows */
    PYDDSI_F = 0x80, /* PULL: the last of its pull session */
    PYDDSI_G = 0x80, /* SELECTION, BINDING: the id is global */
    PYDDSI_Z = 0x80, /* CONDUIT, RSPACE: short form */
};

/* How a field stands on the wire. The numbers up to PYDDSI_TYPE_NUMBERS are VLE numbers, each with its own limit. */
enum pyddsi_type {
    PYDDSI_TYPE_NUMBER64,
    PYDDSI_TYPE_NUMBER32,
    PYDDSI_TYPE_NUMBER16,
    PYDDSI_TYPE_HASH,    /* 16 bits; zhe swallows wider ones without an answer */
    PYDDSI_TYPE_SN,      /* a sequence number, or a count coded like one */
    PYDDSI_TYPE_RID,     /* twice a resource's id */
    PYDDSI_TYPE_SID,     /* twice a selection's id, plus one */
    PYDDSI_TYPE_ID,      /* either */
    PYDDSI_TYPE_ID_NONE, /* either, and 0 means none */
    PYDDSI_TYPE_NUMBERS, /* (the end of the VLE numbers) */
    PYDDSI_TYPE_MARKER,  /* in the flags if short, else a 16-bit VLE number */
    PYDDSI_TYPE_BYTE,    /* one byte */
    PYDDSI_TYPE_BYTES,   /* a byte vector: 16-bit VLE length, then the bytes */
    PYDDSI_TYPE_PEER_ID, /* a byte vector of 1 to 16 bytes */
    PYDDSI_TYPE_TEXT,    /* a byte vector that holds text */
    PYDDSI_TYPE_LISTS,   /* (what follows are lists: a 16-bit VLE count, then the items) */
    PYDDSI_TYPE_LOCATORS,
    PYDDSI_TYPE_PROPERTIES,
    PYDDSI_TYPE_SAMPLES,
    PYDDSI_TYPE_DECLARATIONS,
};

/* When a field is there. */
enum pyddsi_presence {
    PYDDSI_ALWAYS,
    PYDDSI_IF_FLAG,     /* the flag of the field is set */
    PYDDSI_IF_PERIODIC, /* the mode is 3 or 4 */
    PYDDSI_IF_FAILED,   /* the status is not 0 */
};

/* A name for a value of a field. */
typedef struct {
    uint64_t value;
    const char *name;
} pyddsi_value;

typedef struct {
    const char *name;
    const char *text; /* what it is, for the docs */
    uint8_t type;     /* enum pyddsi_type */
    uint8_t presence; /* enum pyddsi_presence */
    uint8_t flag;     /* with PYDDSI_IF_FLAG: the bit */
    uint8_t bits;     /* 1: the values' names are names of bits */
    uint16_t at;      /* where it stands in the decoded struct */
    uint16_t value_count;
    const pyddsi_value *values; /* names of its values, or null */
} pyddsi_field;

typedef struct {
    char letter;      /* 0: the bit is undefined */
    const char *name; /* null: the flag only says that a field is there */
    const char *text;
} pyddsi_flag;

/* One row of the table: a message, a marker, a declaration, or an item of a list. */
typedef struct {
    const char *name; /* null: no such kind */
    const char *text;
    uint8_t number;
    char part;       /* 'A' as zhe speaks it, 'B' beyond zhe, 'R' reserved: a name without a body */
    uint8_t marker;  /* 1: decorates the message after it */
    uint8_t markers; /* the markers that may stand before it, bits as in pyddsi_marker_bit */
    uint8_t field_count;
    pyddsi_flag flag[3]; /* for 20, 40, 80 */
    pyddsi_field field[8];
} pyddsi_spec;

enum pyddsi_marker_bit {
    PYDDSI_MARKER_CONDUIT = 1,
    PYDDSI_MARKER_FRAG = 2,
    PYDDSI_MARKER_RSPACE = 4
};

/* A list inside a message, as the bytes of its items. pyddsi_list_... take the items out one by one. */
typedef struct {
    const uint8_t *data;
    size_t size;
    size_t count;
    uint8_t flags; /* the flags of the message, which say how a sample looks */
} pyddsi_list;

/* One message. Only the fields of its kind, and the first block, mean anything. Views point into the packet. */
typedef struct {
    uint8_t kind;
    uint8_t flags;    /* bits 20, 40, 80 as they came */
    uint8_t fragment; /* 1: a FRAG marker stands before it; its fields are in first and fragments */
    size_t at;        /* where in the packet it begins, and how many bytes it has */
    size_t size;
    uint64_t conduit; /* the conduit in force; in CONDUIT itself the one that it sets */
    uint64_t space;   /* the resource space in force, likewise */

    uint64_t sn;
    uint64_t rid; /* as on the wire: twice the id, odd for a selection; likewise data_rid */
    uint64_t data_rid;
    uint64_t mask;
    uint64_t count;
    uint64_t lease; /* in units of 100 ms */
    uint64_t version;
    uint64_t reason;
    uint64_t hash;
    uint64_t limit;
    uint64_t first;
    uint64_t fragments;
    uint64_t left; /* the conduit that is closed or moved away from */
    uint64_t last_reliable;
    uint64_t last_unreliable;
    pyddsi_bytes id;
    pyddsi_bytes opener;
    pyddsi_bytes acceptor;
    pyddsi_bytes uri;
    pyddsi_bytes payload;
    pyddsi_list locators;
    pyddsi_list properties;
    pyddsi_list samples;
    pyddsi_list declarations;
} pyddsi_message;

typedef struct {
    uint8_t kind;
    uint8_t flags;
    uint64_t id; /* as on the wire: twice the id, odd for a selection; likewise new_id */
    uint64_t new_id;
    uint64_t mode;
    uint64_t origin; /* milliseconds, likewise period and duration */
    uint64_t period;
    uint64_t duration;
    uint64_t commit;
    uint64_t status;
    pyddsi_bytes uri;
    pyddsi_bytes query;
    pyddsi_list properties;
} pyddsi_declaration;

typedef struct {
    uint64_t id;
    pyddsi_bytes value;
} pyddsi_property;

typedef struct {
    pyddsi_bytes text;
} pyddsi_locator;

typedef struct {
    uint64_t rid; /* 0 if the batch names none */
    pyddsi_bytes payload;
} pyddsi_sample;

/* Which of three readings to take. */
enum pyddsi_strictness {
    PYDDSI_TOLERANT, /* everything that can be understood */
    PYDDSI_STRICT,   /* only what a correct sender writes */
    PYDDSI_ZHE, /* what zhe takes, with the limits of one configuration; faults say what it does instead */
};

typedef struct {
    uint8_t strictness;
    uint8_t base_only; /* 1: refuse the kinds of part B */
    uint8_t seq_bits;  /* length of sequence numbers, 7 to 56; 0: not known, take any */
    uint8_t rid_bits;  /* width of the doubled id: 8, 16, 32 or 64; 0 is 64 */
    uint32_t conduits; /* how many conduits the receiver has; 0: any */
} pyddsi_options;

/* Options, made ready for use. Prepared once, then shared by any number of decoders. */
typedef struct {
    pyddsi_options options;
    uint64_t max[PYDDSI_TYPE_NUMBERS];
    uint8_t bytes[PYDDSI_TYPE_NUMBERS];
    uint8_t strict;
} pyddsi_reading;

/* A walk over the messages of one packet. Owns nothing. */
typedef struct {
    const pyddsi_reading *reading;
    const uint8_t *data;
    size_t size;
    size_t at;        /* the next message begins here */
    uint64_t conduit; /* the marker in force */
    uint64_t space;   /* 0 unless a marker stands before the next message */
    uint64_t first;   /* likewise, if fragment is set */
    uint64_t fragments;
    uint8_t fragment;
    uint8_t markers;   /* the markers since the last message, bits as in pyddsi_marker_bit */
    uint8_t kind;      /* after a fault: the kind of the faulty message, */
    const char *field; /* and its field, or null */
    pyddsi_fault fault;
} pyddsi_decoder;

/* One direction of a stream connection, which carries packets in frames or, after a length of 0, without. */
typedef struct {
    const pyddsi_reading *reading;
    size_t packet_max;
    uint8_t unframed; /* 1: no frames any more */
    uint8_t broken;   /* 1: a rule was broken; nothing can be read any more */
    pyddsi_fault fault;
} pyddsi_stream;

/* One row of the tables by number, or null if there is none; list items have the rows LOCATORS to SAMPLES of
 * enum pyddsi_type. */
const pyddsi_spec *pyddsi_spec_message(unsigned kind);
const pyddsi_spec *pyddsi_spec_declaration(unsigned kind);
const pyddsi_spec *pyddsi_spec_item(unsigned type);

/* A rule's name, what it says, and what zhe does when a message of this kind breaks it in a datagram or a stream. */
const char *pyddsi_rule_name(int rule);
const char *pyddsi_rule_text(int rule);
int pyddsi_rule_zhe(int rule, unsigned kind, int stream);

/* Prepares a reading. PYDDSI_BAD_ARGUMENT for a length or width that cannot be. */
int pyddsi_reading_init(pyddsi_reading *reading, const pyddsi_options *options);

/* Begins a walk over a packet, and takes the next message. OK: message is filled. END: the packet is at its end.
 * SHORT: it ends inside a message; the decoder stays in front of it. BAD_INPUT: it broke a rule. After SHORT and
 * BAD_INPUT fault, kind and field say what and where; the walk cannot go on. */
void pyddsi_decoder_init(pyddsi_decoder *decoder, const pyddsi_reading *reading,
                         const uint8_t *data, size_t size);
int pyddsi_decoder_next(pyddsi_decoder *decoder, pyddsi_message *message);

/* Takes the first item off a list of a decoded message. OK, or END. */
int pyddsi_list_locator(pyddsi_list *list, pyddsi_locator *locator);
int pyddsi_list_property(pyddsi_list *list, pyddsi_property *property);
int pyddsi_list_sample(pyddsi_list *list, pyddsi_sample *sample);
int pyddsi_list_declaration(pyddsi_list *list, pyddsi_declaration *declaration);

/* Writes one message, or one item of a list, at out[*at] and moves *at behind it. Flags that announce a field decide
 * whether it is written. NO_SPACE: it does not fit below room. BAD_INPUT: a value breaks the rule in fault->rule (at
 * is then the number of the field). */
int pyddsi_encode_message(const pyddsi_message *message, uint8_t *out, size_t room, size_t *at,
                          pyddsi_fault *fault);
int pyddsi_encode_locator(const pyddsi_locator *locator, uint8_t *out, size_t room, size_t *at,
                          pyddsi_fault *fault);
int pyddsi_encode_property(const pyddsi_property *property, uint8_t *out, size_t room, size_t *at,
                           pyddsi_fault *fault);
int pyddsi_encode_sample(const pyddsi_sample *sample, uint8_t flags, uint8_t *out, size_t room,
                         size_t *at, pyddsi_fault *fault);
int pyddsi_encode_declaration(const pyddsi_declaration *declaration, uint8_t *out, size_t room,
                              size_t *at, pyddsi_fault *fault);

/* Writes a message as one line of text, always terminated by a zero; returns the length it has in full. */
size_t pyddsi_print_message(const pyddsi_message *message, char *out, size_t room);

/* Streams: takes packets out of bytes, and puts the length in front of one. wire/stream.h has the whole contract:
 * OK: packet is the next one and used bytes go; SHORT: at least need bytes must be there after used have gone;
 * BAD_INPUT: broken for good. A packet_max of 0 is the protocol's limit of 16383 bytes. */
void pyddsi_stream_init(pyddsi_stream *stream, const pyddsi_reading *reading, size_t packet_max);
int pyddsi_stream_next(pyddsi_stream *stream, const uint8_t *data, size_t size,
                       pyddsi_bytes *packet, size_t *used, size_t *need);
int pyddsi_stream_frame(size_t size, uint8_t *out, size_t room, size_t *at);

/* Names of resources: wire/name.h and wire/match.h have the rules. The texts written are at most 1024 bytes long.
 * OK, BAD_INPUT with the fault set, or NO_SPACE. */
typedef struct {
    pyddsi_bytes path; /* views into the text */
    pyddsi_bytes predicate;
    uint8_t tags; /* 1 persistent, 2 transient, 4 unreliable */
    uint8_t meta; /* 0 none, 1 $ls, 2 $id */
    uint8_t wild; /* 1: the path has a wildcard */
} pyddsi_name;

int pyddsi_name_check(const uint8_t *path, size_t size, size_t size_max, pyddsi_fault *fault);
/* A predicate, which is what stands between the braces of `name?{predicate}`: OK, or BAD_INPUT or NO_SPACE and where reading stopped. */
int pyddsi_predicate_check(const char *text, size_t size, pyddsi_fault *fault);
int pyddsi_name_parse(const char *text, size_t size, pyddsi_name *name, pyddsi_fault *fault);
int pyddsi_name_canonical(const char *text, size_t size, char *out, size_t room, size_t *out_size,
                          pyddsi_fault *fault);
int pyddsi_name_wire(const char *text, size_t size, char *out, size_t room, size_t *out_size,
                     pyddsi_fault *fault);

/* Whether a name without wildcards fits a pattern; whether some name fits both patterns. 1 or 0; the arguments are
 * wire forms of at most 1024 bytes. */
int pyddsi_match(const char *pattern, size_t pattern_size, const char *name, size_t name_size);
int pyddsi_intersect(const char *one, size_t one_size, const char *two, size_t two_size);

/* Many messages as columns: one element a message in each array, which the caller owns. */
typedef struct {
    size_t capacity;  /* elements of each array */
    size_t count;     /* elements in use */
    uint32_t *packet; /* which packet, by the number given */
    uint32_t *at;     /* the message's first byte in it, */
    uint32_t *size;   /* and how many it has */
    uint8_t *kind;
    uint8_t *flags;
    uint16_t *conduit;
    uint64_t *sn;         /* 0 where the kind has none; likewise below */
    uint64_t *rid;        /* as on the wire */
    uint32_t *payload_at; /* in the packet */
    uint32_t *payload_size;
    uint8_t has[PYDDSI_KIND_COUNT]; /* for the columns' own use; begins with 0 */
} pyddsi_columns;

/* Appends the messages of one packet. OK; NO_SPACE: columns.count is as before the packet, whose messages need more
 * room; SHORT, BAD_INPUT: the messages before the fault are in. */
int pyddsi_columns_packet(pyddsi_columns *columns, const pyddsi_reading *reading, uint32_t number,
                          const uint8_t *data, size_t size, pyddsi_fault *fault);

/* ---- nodes: one participant of the protocol, as bytes and time in, bytes and events out ------------------------- */

enum {
    PYDDSI_ID_MAX = 16,         /* bytes of a peer id */
    PYDDSI_MULTICASTS_MAX = 8,  /* multicast conduits that a node sends on */
    PYDDSI_SPACES_MAX = 256,    /* resource spaces are 0 to 255 */
    PYDDSI_GUARD_MAX = 8,       /* publishers that one guard may name */
    PYDDSI_PEERS_MAX = 1024,    /* peers of one node */
    PYDDSI_PACKET_MAX = 65507,  /* the largest datagram */
    PYDDSI_PACKET_USUAL = 1472, /* what fits one Ethernet frame */
};

/* Where packets come from and go to. */
typedef struct {
    uint8_t
        ip[16]; /* in network order; an IPv4 address uses the first four bytes, the others are 0 */
    uint16_t port;
    /* 0: nowhere; 4, 6: UDP over IPv4 or IPv6; 14, 16: TCP over these, all of ip and port 0: every connection that there
     * is; 20: a Unix socket, where port says which of the session's paths */
    uint8_t kind;
} pyddsi_endpoint;

/* Where in its way a sample, or a packet, was dropped. */
enum pyddsi_place {
    PYDDSI_AT_PUT,      /* between the application and the window */
    PYDDSI_AT_WINDOW,   /* accepted, and waiting to be acknowledged */
    PYDDSI_AT_PACKET,   /* on its way into a packet */
    PYDDSI_AT_SHELF,    /* kept until it is pulled or its period comes */
    PYDDSI_AT_INPUT,    /* a packet that came in */
    PYDDSI_AT_ORDER,    /* a message that came in and waited for its turn */
    PYDDSI_AT_ASSEMBLY, /* a fragment that waited for the others */
    PYDDSI_AT_RING,     /* between the protocol and the reader */
    PYDDSI_AT_DECLARE,  /* a declaration */
    PYDDSI_PLACE_COUNT
};

/* Why. */
enum pyddsi_reason {
    PYDDSI_BY_FULL,      /* no room, and nobody wanted to wait */
    PYDDSI_BY_PEER_LOST, /* the peer left before it acknowledged: delivered or not, nobody can say */
    PYDDSI_BY_CLOSE,     /* this side closed before it was acknowledged or read */
    PYDDSI_BY_GAP,       /* the sender gave it up; the receiver knows the numbers */
    PYDDSI_BY_LOSS,      /* lost on the way, and best effort asks for no repetition */
    PYDDSI_BY_SIZE,      /* larger than the receiver's limit */
    PYDDSI_BY_BAD_BYTES,     /* bytes that break a rule */
    PYDDSI_BY_UNKNOWN_PEER,  /* from an address without a session */
    PYDDSI_BY_EXPIRED_PEER,  /* from a peer whose session has ended */
    PYDDSI_BY_NOT_SYNCHED,   /* before the first SYNCH of its conduit; it comes again */
    PYDDSI_BY_REPEAT,        /* received before */
    PYDDSI_BY_OLD,           /* best effort, and overtaken by a later one */
    PYDDSI_BY_OVERWRITTEN,   /* a newer one took its place, as the application asked */
    PYDDSI_BY_INCOMPLETE,    /* a piece is missing for ever */
    PYDDSI_BY_LIMIT,         /* a peer used up its share */
    PYDDSI_BY_UNSUPPORTED,   /* the receiver, or the sender, does not know this kind */
    PYDDSI_BY_NO_SUBSCRIBER, /* it came, and nobody here wants it (any more) */
    PYDDSI_BY_PEERS_MAX,     /* this node has as many peers as its peers_max allows */
    PYDDSI_BY_REFUSED,       /* the peer refused a session */
    PYDDSI_REASON_COUNT
};

/* One line of the drop ledger. */
typedef struct {
    uint8_t place;  /* enum pyddsi_place */
    uint8_t reason; /* enum pyddsi_reason */
    uint8_t space;  /* the resource space, */
    uint64_t
        resource; /* and the id as on the wire in it; 0: no resource, or those that found no line of their own */
    uint64_t count;
    uint64_t first_ns; /* when the first and the last one were dropped */
    uint64_t last_ns;
    /* Of the last one, where it was too large for the peer that was to get it: */
    uint64_t size, size_max; /* its bytes, and how many that peer takes; else 0 */
    uint8_t id_size;         /* 0: no peer is named */
    uint8_t id[16];
} pyddsi_drop;

enum pyddsi_role { PYDDSI_PEER, PYDDSI_CLIENT, PYDDSI_BROKER };

/* What a peer can do beyond zhe, as it tells in vendor property 1. */
enum pyddsi_feature {
    PYDDSI_CAN_BATCH = 1,
    PYDDSI_CAN_FRAGMENT = 2,
    PYDDSI_CAN_PULL = 4,
    PYDDSI_CAN_MIGRATE = 8,
    PYDDSI_CAN_SPACE = 16,
    PYDDSI_CAN_FORGET = 32,
    PYDDSI_CAN_INCARNATION = 64,
    PYDDSI_CAN_WIDE = 8192,     /* sequence numbers of 28 bits: bits 7 to 12 have other meanings */
    PYDDSI_CAN_HISTORY = 16384, /* what is kept for late joiners, for each new subscriber */
    PYDDSI_CAN_LARGE = 32768,   /* packets of pieces alone, however large */
    PYDDSI_CAN_ALL = 57471,
};

/* Everything a node is told at its start. pyddsi_config_init fills it with good values. */
typedef struct {
    uint8_t id[16];
    uint8_t id_size;
    uint8_t role;         /* enum pyddsi_role */
    uint8_t seq_bits;     /* 7 to 56, where a peer does not tell its own length */
    uint8_t rid_bits;     /* width of a doubled id: 8, 16, 32, 64 */
    uint8_t commit_mode;  /* commits whose results may be outstanding beyond one */
    uint32_t features;    /* enum pyddsi_feature; 0: speak as zhe does */
    uint64_t incarnation; /* higher after each restart; 0: not told */
    uint64_t seed;        /* for hashing; any number nobody can guess */
    uint64_t secret[2];   /* the key of the sessions' secrets; 0: made of the seed */
    uint8_t token[32];    /* told to each peer in vendor property 7, for those who run the nodes */
    uint8_t token_size;   /* 0: none */

    /* times */
    uint32_t lease_ms; /* how long others may hear nothing; 0: for ever */
    uint32_t scout_ms;
    uint32_t open_ms;
    uint32_t opens_max;
    uint32_t synch_ms;
    uint32_t rtt_us;     /* the first guess */
    uint32_t latency_us; /* how long a sample may wait for others to share its packet */
    uint32_t slow_ms;    /* how long a reader may hold a window that others share */

    /* where to */
    uint32_t packet_max;
    pyddsi_endpoint scout_to;
    uint32_t asked_count; /* asked[] in use: who is asked one by one, besides scout_to */
    pyddsi_endpoint asked[17];
    uint32_t
        multicasts; /* how many of the next are used; conduits 0, 1, .. are these, the next is unicast */
    pyddsi_endpoint multicast_to[8];

    /* sizes; windows are rounded up to whole samples of index */
    uint32_t multicast_bytes[8];
    uint32_t multicast_samples[8];
    uint32_t unicast_bytes;
    uint32_t unicast_samples;
    uint32_t peers_max;
    uint32_t conduits_in; /* conduits of others that are accepted: 0 .. n - 1 */
    uint32_t order_max;   /* messages per peer and conduit that may wait for an earlier one */
    uint32_t slots_max;   /* packets received and not yet read */
    uint32_t assembly_bytes;
    uint32_t assembly_max; /* fragmented samples in progress, and not yet read */
    uint64_t sample_max;   /* bytes of the largest sample that is taken */
    uint32_t resources_max;
    uint32_t names_bytes;
    uint32_t publishers_max;
    uint32_t subscribers_max;
    uint32_t remotes_max;       /* subscriptions of all peers together, */
    uint32_t remotes_peer_max;  /* and of one */
    uint32_t transaction_bytes; /* declarations of one peer before their commit */
    uint32_t ring_samples;      /* samples waiting for their readers, all subscribers together */
    uint32_t keep_bytes;        /* of these, for readers that drop when they are full */
    uint32_t
        shelf_bytes; /* samples kept for pull, periods and late joiners, all publishers together */
    uint32_t shelf_samples;
    uint32_t events_max;
    uint32_t ledger_max;
} pyddsi_config;

/* A subscription's mode, as on the wire. */
enum pyddsi_mode {
    PYDDSI_PUSH = 1,
    PYDDSI_PULL_MODE = 2,
    PYDDSI_PERIODIC_PUSH = 3,
    PYDDSI_PERIODIC_PULL = 4,
    PYDDSI_PUSH_PULL = 5,
};

/* Which way a publisher's samples go. A conduit of 0 and above is the multicast conduit of that number; -1 - i, as
 * pyddsi_publisher_conduit tells it, is the unicast conduit to peer i. */
enum pyddsi_way {
    PYDDSI_WAY_MULTICAST, /* one copy for all, on the conduit asked for */
    PYDDSI_WAY_UNICAST,   /* to one subscriber; a second one is rejected */
    PYDDSI_WAY_EACH,      /* a copy for each subscriber */
    PYDDSI_WAY_AUTO,      /* unicast to one, multicast to several; changes as they come and go */
};

/* What a full ring does with the next sample. */
enum pyddsi_on_full { PYDDSI_WAIT, PYDDSI_DROP_OLDEST, PYDDSI_DROP_NEWEST };

enum pyddsi_reliability { PYDDSI_BY_RESOURCE, PYDDSI_RELIABLE, PYDDSI_BEST_EFFORT };

enum pyddsi_durability { PYDDSI_VOLATILE, PYDDSI_TRANSIENT, PYDDSI_PERSISTENT };

typedef struct {
    uint64_t resource; /* its number, not doubled */
    uint8_t space;
    uint8_t reliability; /* enum pyddsi_reliability */
    uint8_t durability; /* enum pyddsi_durability; transient keeps shelf_samples for late joiners */
    uint8_t way;        /* enum pyddsi_way */
    uint8_t conduit;    /* the multicast conduit */
    uint32_t shelf_samples; /* kept for those who pull or come late */
} pyddsi_publisher_options;

typedef struct {
    uint64_t resource; /* its number, or with a selection the number of that */
    uint8_t is_selection;
    uint8_t space;
    uint8_t reliability;
    uint8_t mode;    /* enum pyddsi_mode */
    uint8_t on_full; /* enum pyddsi_on_full */
    uint32_t depth;  /* samples that may wait for the reader */
    uint64_t origin_ms;
    uint64_t period_ms;
    uint64_t duration_ms;
    uint32_t
        guards; /* samples are handed over only while each of these publishers has room for so many bytes */
    uint32_t guard_publisher[8];
    uint32_t guard_bytes[8];
} pyddsi_subscriber_options;

#define PYDDSI_OWN 0xffffffff /* as a peer: the session itself */

/* A sample as its reader gets it. The data stays where it is until the sample is released. */
typedef struct {
    const uint8_t *data;
    size_t size;
    uint64_t resource; /* as on the wire, of the data; 0 if it came by name alone */
    uint64_t number;   /* in its conduit, counted on without wrapping */
    uint64_t time_ns;  /* when its last byte came in */
    uint32_t peer;     /* the peer's index */
    uint32_t held;     /* what keeps the data; for pyddsi_..._release */
    uint16_t conduit;
    uint8_t space;
    uint8_t reliable;
    uint8_t last; /* 1: no sample; the end of an answer to a pull */
    /* By name alone: the name in wire form is the name_size bytes that end name_gap bytes before data. It stays as
     * long as the data does. */
    uint8_t name_gap;
    uint16_t name_size;
} pyddsi_received;

enum pyddsi_event_kind {
    PYDDSI_CONNECTED = 1,
    PYDDSI_DISCONNECTED, /* reason: as in CLOSE, or one of pyddsi_end */
    PYDDSI_RECONNECTED,  /* the same id, from another address or in a new incarnation */
    PYDDSI_GAP,          /* samples first .. last of this conduit will not come */
    PYDDSI_DECLARED, /* the declaration handle is settled with every peer; status is the worst answer */
    PYDDSI_MATCHED,      /* the publisher handle has a subscriber in that peer */
    PYDDSI_UNMATCHED,    /* it has none any more there */
    PYDDSI_QOS_CONFLICT, /* definitions of a resource contradict each other */
    PYDDSI_REJECTED,     /* the peer has refused the declaration for good; status says why */
    PYDDSI_DETACHED,     /* that peer is too slow for the window it shared; it is not waited for */
    PYDDSI_REFUSED, /* no session: reason is PYDDSI_END_LIMIT if this node refused, else as in the peer's CLOSE */
    PYDDSI_UNREACHED, /* the group does not reach that peer; it gets a copy of its own of what goes there */
    PYDDSI_TOO_LARGE, /* that peer goes without a sample of the publisher handle: it has `first` bytes, and the peer takes `last` */
};

/* How a session ended, where CLOSE has no number for it. */
enum pyddsi_end {
    PYDDSI_END_LEASE = 1000,   /* nothing was heard for too long */
    PYDDSI_END_BYTES = 1001,   /* it sent what breaks a rule */
    PYDDSI_END_RESTART = 1002, /* it came back as a new incarnation */
    PYDDSI_END_LOCAL = 1003,   /* we closed it */
    PYDDSI_END_LINK = 1004,    /* the connection by which it was reached is over */
    PYDDSI_END_EXITED = 1005,  /* its process, on this machine, has ended */
    PYDDSI_END_LIMIT = 1006,   /* of a refusal: this node has peers_max peers */
    PYDDSI_END_LENGTH = 1007,  /* of a refusal: its group has numbers of another length */
};

typedef struct {
    uint8_t kind; /* enum pyddsi_event_kind */
    uint8_t status;
    uint8_t space; /* of the resource */
    uint8_t id_size;
    uint8_t id[16]; /* of the peer */
    pyddsi_endpoint endpoint;
    uint32_t peer;
    uint32_t handle; /* of the declaration, publisher or subscriber */
    uint32_t reason;
    uint64_t conduit;
    uint64_t resource;
    uint64_t first;
    uint64_t last;
    uint64_t incarnation;
    uint64_t time_ns;
} pyddsi_event;

/* A session that did not come about: one side refuses, and goes on doing so. */
typedef struct {
    pyddsi_endpoint endpoint; /* of the peer */
    uint8_t id_size;          /* 0: it has not said its id */
    uint8_t id[16];
    uint32_t reason; /* as of the event REFUSED */
    uint64_t count;
    uint64_t first_ns, last_ns;
} pyddsi_refusal;

/* What a peer has declared. */
typedef struct {
    uint32_t peer;
    uint8_t kind; /* enum pyddsi_declaration_kind: RESOURCE, SELECTION or SUBSCRIPTION */
    uint8_t space;
    uint8_t mode;       /* of a subscription */
    uint64_t id;        /* as on the wire */
    uint32_t name_at;   /* where its name begins in the memory given, if it is known, */
    uint32_t name_size; /* and how long it is; of a selection, the query */
} pyddsi_known;

/* What a node has done so far. Samples are counted once where they are accepted, and once per peer that was to have
 * them (owed). The books: owed = acknowledged + in flight + dropped at the windows, at every moment. */
typedef struct {
    uint64_t packets_in, packets_out, bytes_in, bytes_out;
    uint64_t messages_in, messages_out;
    uint64_t accepted;  /* samples that put or a loan's end took */
    uint64_t unmatched; /* of these: nobody wanted them, so there was nothing to do */
    uint64_t filtered;  /* of these: no selection wanted them */
    uint64_t sent_best; /* best effort: handed to the network */
    uint64_t
        owed; /* reliable messages times the members that were to have them, declarations included */
    uint64_t acknowledged; /* of these: a member has acknowledged them */
    uint64_t forgiven;     /* of these: dropped from a window with a line in the ledger */
    uint64_t resent;
    uint64_t delivered; /* samples handed to readers' rings */
    uint64_t taken;     /* samples that readers took */
    uint64_t acks_in, nacks_in, acks_out, nacks_out, synchs_in, synchs_out;
    uint64_t keepalives_out, scouts_out, pings_out;
    uint64_t allocated_slots, /* packets held now, */
        rings_used;           /* and samples waiting now, */
    uint64_t kept_bytes;      /* memory of those for readers that drop */
    uint64_t put_waits;       /* put answered: not now */
    uint64_t events_lost;
} pyddsi_stats;

/* One peer, as it looks now. */
typedef struct {
    uint8_t id[16];
    uint8_t id_size;
    uint8_t state; /* 0 unknown, 1 to 200 opening, 254 established, 255 expired */
    uint8_t busy;
    uint16_t epoch;
    pyddsi_endpoint endpoint;
    pyddsi_endpoint
        group; /* where zhe sends to, if it has named groups and none is ours; else kind 0 */
    uint32_t features;
    uint64_t incarnation;
    uint64_t lease_ms;
    uint64_t rtt_ns;
    uint64_t unacknowledged; /* messages in its unicast window */
    uint8_t token[32];       /* what it told in property 7 */
    uint8_t token_size;
    uint8_t unreached; /* a group of ours does not reach it: it gets copies of its own */
} pyddsi_peer;

/* One transmit window, as it looks now: both pairs of row 002-51. */
typedef struct {
    uint64_t seq, seqbase;
    uint32_t pos, firstpos;
    uint32_t size_bytes, used_bytes;
    uint32_t samples_max, used_samples;
    uint32_t members;
    uint8_t draining;
} pyddsi_window;

/* ---- simulation: nodes in memory, virtual time, one seed --------------------------------------------------------- */

enum {
    PYDDSI_SIM_NODES_MAX = 250,
    PYDDSI_SIM_PACKETS_MAX = 1 << 20, /* in flight at once; one more is lost */
    PYDDSI_SIM_TEXT_MAX = 256,
};

/* A network of nodes with its own clock. Nothing happens in it but through these calls, and the same calls with the
 * same seed always have the same outcome. */
typedef struct pyddsi_sim pyddsi_sim;

/* One direction between two nodes. Chances are in parts per million. */
typedef struct {
    uint32_t loss_ppm;
    uint32_t duplicate_ppm;
    uint32_t reorder_ppm; /* the packet is held back, so that later ones pass it, */
    uint32_t corrupt_ppm; /* some of its bits are turned over */
    uint64_t late_ns;     /* for up to so long, as is a second copy of it; 0: some ms */
    uint64_t delay_ns;
    uint64_t jitter_ns;  /* up to so much later; later packets do not pass it for that */
    uint64_t rate_bytes; /* per second; 0: no limit */
    uint8_t cut;         /* 1: nothing comes through */
    uint32_t
        group_loss_ppm; /* beside loss_ppm, of packets to a group: 1,000,000 as where a switch filters it */
    uint64_t group_delay_ns; /* a packet to a group takes so much longer; all others pass it */
    uint64_t alone_delay_ns; /* the same for one that is not to a group */
    uint32_t mtu;            /* packets of more bytes are lost; 0: none is */
    uint32_t
        mtu_known; /* what the sender is told that it carries, when a session begins; 0: nothing */
} pyddsi_sim_link;

/* What became of a packet. */
enum pyddsi_sim_fate {
    PYDDSI_SIM_DELIVERED,
    PYDDSI_SIM_LOST,
    PYDDSI_SIM_CUT,        /* the link is cut */
    PYDDSI_SIM_DUPLICATED, /* this is the second copy; it arrives as well */
    PYDDSI_SIM_CORRUPTED,  /* it arrives, with other bytes than it was sent with */
    PYDDSI_SIM_NOBODY,     /* no running node has this address */
    PYDDSI_SIM_INJECTED,   /* pyddsi_sim_inject made it */
    PYDDSI_SIM_FATE_COUNT
};

/* One packet on its way to one node: what is sent to a group is here once for each node that hears it, each time with
 * the same number. */
typedef struct {
    uint64_t number;     /* of the packet, in the order in which they were sent */
    uint64_t sent_ns;    /* virtual time, likewise arrives_ns */
    uint64_t arrives_ns; /* or would have arrived */
    int32_t from;        /* node, or -1: injected */
    int32_t to;          /* node, or -1: nobody */
    pyddsi_endpoint source;
    pyddsi_endpoint target; /* of a group if it was sent to one */
    uint8_t fate;           /* enum pyddsi_sim_fate */
    pyddsi_bytes
        packet; /* the bytes as they arrive; owned by the simulation, for as long as the log is kept */
} pyddsi_sim_packet;

/* Good values for everything but the id and the endpoints. */
void pyddsi_config_init(pyddsi_config *config);

/* Names ("window") and what they mean, of enum pyddsi_place, pyddsi_reason, pyddsi_sim_fate and pyddsi_event_kind. Null
 * for a number that means nothing. */
const char *pyddsi_place_name(int place);
const char *pyddsi_place_text(int place);
const char *pyddsi_reason_name(int reason);
const char *pyddsi_reason_text(int reason);
const char *pyddsi_event_name(int kind);
const char *pyddsi_sim_fate_name(int fate);

/* The world. new: null if there is no memory. */
pyddsi_sim *pyddsi_sim_new(uint64_t seed);
void pyddsi_sim_free(pyddsi_sim *sim);
uint64_t pyddsi_sim_now(const pyddsi_sim *sim); /* nanoseconds since the world began */
/* A hash of all that was sent and taken so far: the same for the same seed and calls. */
uint64_t pyddsi_sim_digest(const pyddsi_sim *sim);

/* Adds a node and starts it. An id_size of 0: the id is made up; scout_to and multicast_to of kind 0 are made up as well:
 * one group that all nodes hear. Its own address is 10.0.0.(index + 1), port 50000 + index. The index, or BAD_ARGUMENT, or
 * NO_SPACE; *text (if given) says why. */
int pyddsi_sim_node(pyddsi_sim *sim, const pyddsi_config *config, const char **text);
int pyddsi_sim_count(const pyddsi_sim *sim);
int pyddsi_sim_running(const pyddsi_sim *sim, int node); /* 1, or 0: crashed, or no such node */
int pyddsi_sim_endpoint(const pyddsi_sim *sim, int node, pyddsi_endpoint *endpoint);
int pyddsi_sim_config(const pyddsi_sim *sim, int node,
                      pyddsi_config *config); /* with all that was made up */

/* Faults. from and to may be -1: all nodes, also those to come. OK, or BAD_ARGUMENT. */
int pyddsi_sim_link_set(pyddsi_sim *sim, int from, int to, const pyddsi_sim_link *link);
int pyddsi_sim_link_get(const pyddsi_sim *sim, int from, int to, pyddsi_sim_link *link);
int pyddsi_sim_cut(pyddsi_sim *sim, int from, int to, int cut); /* one direction */
int pyddsi_sim_crash(pyddsi_sim *sim, int node); /* without a word; packets to it are lost */
/* A new incarnation with the same id, and with the same port or the next. A running node crashes first. With the same
 * port, what is in flight from and to it is lost. */
int pyddsi_sim_restart(pyddsi_sim *sim, int node, int same_port);
/* The node does nothing for so long: packets wait for it, deadlines pass. 0: it goes on now. */
int pyddsi_sim_pause(pyddsi_sim *sim, int node, uint64_t duration_ns);
/* The node's clock jumps ahead; for a step back it stands still until the world has caught up, as time within a node
 * never runs backwards. */
int pyddsi_sim_clock_step(pyddsi_sim *sim, int node, int64_t step_ns);
/* A packet from anywhere arrives at a node now. */
int pyddsi_sim_inject(pyddsi_sim *sim, int node, const pyddsi_endpoint *from, const uint8_t *data,
                      size_t size);

/* Lets time pass. run answers how many events there were. run_until_quiet stops when nothing is left to do, or in
 * flight that matters: every two nodes that can reach each other have a session, all windows are acknowledged, all
 * declarations settled. OK; AGAIN: not within duration_ns. */
uint64_t pyddsi_sim_run(pyddsi_sim *sim, uint64_t duration_ns);
int pyddsi_sim_run_until_quiet(pyddsi_sim *sim, uint64_t duration_ns);
const char *pyddsi_sim_busy(const pyddsi_sim *sim); /* what is left to do; null: all is quiet */

/* What an application does at a node; node/node.h has the contracts. All of them: BAD_ARGUMENT if the node is not there or
 * does not run. */
int pyddsi_sim_close(pyddsi_sim *sim, int node);
int pyddsi_sim_resource(pyddsi_sim *sim, int node, uint8_t space, uint64_t resource,
                        pyddsi_bytes name, int is_chosen, uint8_t reliability, uint8_t durability,
                        uint32_t *handle, int *status);
int pyddsi_sim_selection(pyddsi_sim *sim, int node, uint8_t space, uint64_t selection,
                         pyddsi_bytes query, int is_global, uint32_t *handle, int *status);
int pyddsi_sim_binding(pyddsi_sim *sim, int node, uint8_t space, uint64_t old_selection,
                       uint64_t new_selection, int is_global, uint32_t *handle, int *status);
int pyddsi_sim_publisher(pyddsi_sim *sim, int node, const pyddsi_publisher_options *options,
                         uint32_t *publisher, int *status);
int pyddsi_sim_subscriber(pyddsi_sim *sim, int node, const pyddsi_subscriber_options *options,
                          uint32_t *subscriber, int *status);
int pyddsi_sim_forget(pyddsi_sim *sim, int node, uint32_t handle);
int pyddsi_sim_status(const pyddsi_sim *sim, int node, uint32_t handle);
int pyddsi_sim_put(pyddsi_sim *sim, int node, uint32_t publisher, const void *data, size_t size);
int pyddsi_sim_put_many(pyddsi_sim *sim, int node, uint32_t publisher, const pyddsi_bytes *samples,
                        size_t count);
int pyddsi_sim_put_name(pyddsi_sim *sim, int node, pyddsi_bytes name, int reliable,
                        const void *data, size_t size);
int pyddsi_sim_loan(pyddsi_sim *sim, int node, uint32_t publisher, size_t size, uint8_t **data,
                    uint32_t *loan);
int pyddsi_sim_commit(pyddsi_sim *sim, int node, uint32_t loan, size_t used);
int pyddsi_sim_abandon(pyddsi_sim *sim, int node, uint32_t loan);
int pyddsi_sim_begin(pyddsi_sim *sim, int node, uint32_t publisher, uint64_t total);
int pyddsi_sim_more(pyddsi_sim *sim, int node, uint32_t publisher, const void *data, size_t size,
                    size_t *taken);
int pyddsi_sim_end(pyddsi_sim *sim, int node, uint32_t publisher, int drop);
int pyddsi_sim_flush(pyddsi_sim *sim, int node);
int pyddsi_sim_conduit(const pyddsi_sim *sim, int node, uint32_t publisher);
int pyddsi_sim_take(pyddsi_sim *sim, int node, uint32_t subscriber, pyddsi_received *sample);
/* Must come before the node crashes or restarts: its samples go with it. */
int pyddsi_sim_release(pyddsi_sim *sim, int node, const pyddsi_received *sample);
int pyddsi_sim_pull(pyddsi_sim *sim, int node, uint32_t subscriber, uint32_t max);
int pyddsi_sim_close_session(pyddsi_sim *sim, int node, const pyddsi_endpoint *endpoint,
                             uint8_t reason);
int pyddsi_sim_peer_window(pyddsi_sim *sim, int node, pyddsi_bytes id, uint32_t bytes,
                           uint32_t samples);

/* What happened there. OK, or END; window: OK or BAD_ARGUMENT. */
int pyddsi_sim_event(pyddsi_sim *sim, int node, pyddsi_event *event);
int pyddsi_sim_drop(const pyddsi_sim *sim, int node, uint32_t index, pyddsi_drop *drop);
int pyddsi_sim_stats(const pyddsi_sim *sim, int node, pyddsi_stats *stats);
int pyddsi_sim_peer(const pyddsi_sim *sim, int node, uint32_t index, pyddsi_peer *peer);
int pyddsi_sim_refusal(const pyddsi_sim *sim, int node, uint32_t index, pyddsi_refusal *refusal);
int pyddsi_sim_window(const pyddsi_sim *sim, int node, int conduit, pyddsi_window *window);

/* The packets, in the order in which they were sent. Kept only between log(1) and log(0), which forgets them; at most
 * bytes_max bytes, then the newest ones are left out (0: no limit). packet: OK, or END. */
void pyddsi_sim_log(pyddsi_sim *sim, int keep, uint64_t bytes_max);
int pyddsi_sim_packet_get(const pyddsi_sim *sim, uint64_t index, pyddsi_sim_packet *packet);

/* ---- scenarios: worlds that play by themselves and are checked ---- */

/* What is checked. */
enum pyddsi_sim_check {
    PYDDSI_CHECK_PAYLOAD,  /* what is taken was put, and is intact */
    PYDDSI_CHECK_ONCE,     /* nothing is taken twice */
    PYDDSI_CHECK_ORDER,    /* nothing is taken out of order */
    PYDDSI_CHECK_COMPLETE, /* nothing is missing without an entry */
    PYDDSI_CHECK_BOOKS,    /* owed = acknowledged + forgiven + in flight */
    PYDDSI_CHECK_BOUNDS,   /* windows, rings and tables within their limits */
    PYDDSI_CHECK_SETTLED,  /* declarations are settled, and rightly */
    PYDDSI_CHECK_LIVENESS, /* after the faults have stopped everything arrives */
    PYDDSI_CHECK_MEMORY,   /* slots and rings are back at their start */
    PYDDSI_CHECK_THEME,    /* what the scenario is about */
    PYDDSI_CHECK_COUNT
};

typedef struct {
    uint32_t scenario;
    uint64_t seed;
    uint64_t time_ns; /* virtual */
    uint64_t events;
    uint64_t nodes, crashes, restarts;
    uint64_t packets, bytes, packets_lost, packets_duplicated, packets_reordered, packets_corrupted;
    uint64_t declared; /* declarations of all nodes */
    uint64_t put;      /* samples accepted */
    uint64_t owed;     /* of these, times the subscribers that were to have them, */
    uint64_t taken;    /* those that came, */
    uint64_t excused;  /* and those that did not, with an entry that says so */
    uint64_t resent;
    uint64_t checks[10]; /* how often each of enum pyddsi_sim_check was made */
    uint64_t violations;
    char violation[256]; /* the first one, "" if there is none */
    uint64_t digest;
} pyddsi_report;

int pyddsi_scenario_count(void);
const char *pyddsi_scenario_name(int scenario); /* null: no such */
const char *pyddsi_scenario_text(int scenario);
const char *pyddsi_check_name(int check);
const char *pyddsi_check_text(int check);

/* Plays a scenario. OK (also with violations, which are in the report), BAD_ARGUMENT, or NO_SPACE. If sim is given, the
 * packets are logged and *sim is the world as the run left it, to be freed by the caller. */
int pyddsi_scenario_run(int scenario, uint64_t seed, pyddsi_report *report, pyddsi_sim **sim);
/* The same for a script, which decides everything that happens; any bytes are one. */
int pyddsi_script_run(const uint8_t *script, size_t size, pyddsi_report *report, pyddsi_sim **sim);
/* The violations of a run, in order: text, or null behind the last that was kept. */
const char *pyddsi_sim_violation(const pyddsi_sim *sim, uint32_t index);

/* How fast losses are repaired: one reliable publisher, one subscriber. Times are from the moment when the lost packet would
 * have arrived to the delivery of its sample, of those samples whose first packet was lost. */
typedef struct {
    uint64_t seed;
    uint32_t loss_ppm;    /* of packets, in both directions */
    uint32_t rate;        /* samples per second */
    uint32_t samples;     /* how many are put */
    uint32_t size;        /* bytes of each */
    uint64_t delay_ns;    /* one way */
    uint32_t multicast;   /* 1: by the multicast conduit; 0: unicast */
    uint32_t subscribers; /* at least 1 */
} pyddsi_repair_options;

typedef struct {
    uint64_t put, delivered;
    uint64_t lost;   /* samples whose first packet was lost, for each subscriber */
    uint64_t resent; /* samples sent again */
    uint64_t median_ns, p99_ns, max_ns;
} pyddsi_repair;

int pyddsi_sim_repair(const pyddsi_repair_options *options, pyddsi_repair *repair);

/* ---- sessions: a node on real sockets, with its threads ---------------------------------------------------------- */

enum {
    PYDDSI_SESSION_PEERS_MAX = 16, /* addresses that are asked one by one */
    PYDDSI_LISTEN_MAX = 8,         /* where connections are accepted */
    PYDDSI_PATHS_MAX = 24,         /* Unix sockets of both */
    PYDDSI_PATH_MAX = 108,         /* bytes of a path, with a zero */
    PYDDSI_TEXT_MAX = 256,         /* bytes of what a failure says */
    PYDDSI_INTERFACE_MAX = 48,
    PYDDSI_SEND_BYTES = 1048576, /* that are asked of the system for what a socket has to send */
};

/* One participant, as an application has it. Every call may be made from any thread. */
typedef struct pyddsi_session pyddsi_session;

/* How a session begins. pyddsi_session_options_init fills it with good values. */
typedef struct {
    pyddsi_config node; /* id_size, seed, incarnation 0: made up; endpoints of kind 0: as below */
    pyddsi_endpoint group;  /* kind 0: no multicast; then only the peers below are asked */
    uint16_t port;          /* of our own address; 0: any */
    uint8_t ttl;            /* how many routers a packet to the group may pass, plus one */
    uint8_t loopback;       /* 1: sessions on this machine hear each other by the group */
    uint8_t shared;         /* 1: samples for peers on this machine go through shared memory */
    uint8_t one_stream;     /* 1: one thread sends all packets, for transports that want no more */
    uint32_t record_bytes;  /* not 0: pyddsi_session_record, before anything is said or heard */
    uint32_t lane_bytes;    /* the shared window of one publisher at most, */
    uint32_t lane_samples;  /* and how many samples it can hold */
    uint32_t receive_bytes; /* of the system, for what a socket has received */
    uint32_t peer_count;    /* peers[] in use */
    pyddsi_endpoint peers[16]; /* who is asked directly, at first and until they answer */
    char interface[48];        /* "": the system's choice; a name (eth0), or an address of it */
    uint32_t listen_count;     /* listen[] in use: where TCP and Unix connections are accepted */
    pyddsi_endpoint listen[8]; /* port 0 of TCP: any; pyddsi_session_look tells which */
    char paths[24][108];       /* of Unix sockets, in peers and listen; @ begins an abstract name */
} pyddsi_session_options;

/* What a session's threads and sockets did, beside what its node did. */
typedef struct {
    uint64_t wakeups_receive, wakeups_housekeeping;
    uint64_t sent_receive, sent_housekeeping,
        sent_application; /* packets by thread: each has its own buffer */
    uint64_t send_full;   /* packets that the system had no room for; they are lost, as on a wire */
    uint64_t send_failed; /* packets that the system refused */
    uint64_t bells;       /* times that sleepers were woken */
    uint64_t lanes;       /* shared windows that we write now, */
    uint64_t lane_readers; /* and peers' subscribers that read them now */
    uint64_t lane_put, lane_taken,
        lane_copied;       /* samples; copied: taken as copies, as too many were looked at */
    uint64_t lane_refused; /* peers on this machine whose memory could not be used */
    uint64_t links;        /* TCP and Unix connections now; */
    uint64_t links_made, links_accepted; /* so far */
    uint64_t links_failed;               /* attempts to connect that came to nothing */
    uint64_t links_refused;              /* who was sent away: too many, or silent for too long */
    uint64_t links_broken; /* ended by bytes that are no frames, or in the middle of one */
    uint64_t links_full;   /* packets lost for a peer that does not read */
    uint64_t received;     /* packets that the receive thread took */
} pyddsi_session_counts;

void pyddsi_session_options_init(pyddsi_session_options *options);
/* OK, or negative and why in text, which has room for PYDDSI_TEXT_MAX bytes. */
int pyddsi_session_open(pyddsi_session **made, const pyddsi_session_options *options, char *text);
/* Says farewell; waits at most so long for reliable samples to be acknowledged; ends the threads. Then every call but
 * release, drop, stats and free answers CLOSED. */
void pyddsi_session_close(pyddsi_session *session, uint64_t timeout_ns);
/* Gives the memory back. Samples that were not released keep it until the last of them is. */
void pyddsi_session_free(pyddsi_session *session);
/* What the session is really like: id, endpoints, seed. */
void pyddsi_session_look(pyddsi_session *session, pyddsi_session_options *options,
                         pyddsi_endpoint *local);
/* A peer that was named without an address (its ip is 0) is here from now on; others can be given another one, too. */
int pyddsi_session_aim(pyddsi_session *session, uint32_t peer, const pyddsi_endpoint *where);
/* A peer that was named: where it is (ip 0: not known); whether there is a session, or for TCP and Unix sockets a
 * connection; how often connecting has failed since, and the errno of the last time. */
typedef struct {
    pyddsi_endpoint where;
    uint8_t live;
    uint32_t failed;
    int32_t code;
} pyddsi_named;
int pyddsi_session_named(pyddsi_session *session, uint32_t peer, pyddsi_named *named);
void pyddsi_session_count(pyddsi_session *session, pyddsi_session_counts *counts);
uint64_t
pyddsi_session_now(const pyddsi_session *session); /* its clock: nanoseconds since it began */
uint64_t pyddsi_session_wall(const pyddsi_session *session); /* what that 0 is in time since 1970 */

/* Sleeping until something has happened: samples, room, events, declarations. listen, then try again what was answered
 * AGAIN, then either wait or unlisten; so nothing that happens in between is missed. wait: OK, AGAIN (time is over), CLOSED. */
uint32_t pyddsi_session_listen(pyddsi_session *session);
void pyddsi_session_unlisten(pyddsi_session *session);
int pyddsi_session_wait(pyddsi_session *session, uint32_t heard, uint64_t timeout_ns);
/* Sleeps until there is an event since `heard`, which is 0 at first, then what the call before has left there; nothing else wakes
 * it. OK: look for events; CLOSED. For one thread. */
int pyddsi_session_wait_event(pyddsi_session *session, uint32_t *heard);
/* A descriptor that is readable whenever something has happened since it was last read (8 bytes); negative: none. */
int pyddsi_session_fd(pyddsi_session *session);

/* The calls of an application; node/node.h has the contracts. All may answer CLOSED. */
int pyddsi_session_resource(pyddsi_session *session, uint8_t space, uint64_t resource,
                            pyddsi_bytes name, int is_chosen, uint8_t reliability,
                            uint8_t durability, uint32_t *handle, int *answer);
int pyddsi_session_selection(pyddsi_session *session, uint8_t space, uint64_t selection,
                             pyddsi_bytes query, int is_global, uint32_t *handle, int *answer);
int pyddsi_session_publisher(pyddsi_session *session, const pyddsi_publisher_options *options,
                             uint32_t *publisher, int *answer);
int pyddsi_session_subscriber(pyddsi_session *session, const pyddsi_subscriber_options *options,
                              uint32_t *subscriber, int *answer);
int pyddsi_session_forget(pyddsi_session *session, uint32_t handle);
int pyddsi_session_status(pyddsi_session *session, uint32_t handle);
/* 1: the session itself has a subscriber for this publisher. */
int pyddsi_session_own(pyddsi_session *session, uint32_t publisher);
/* Those with a time wait so long at most for room: OK, AGAIN, BAD_ARGUMENT, CLOSED. */
int pyddsi_session_put(pyddsi_session *session, uint32_t publisher, const void *data, size_t size,
                       uint64_t timeout_ns);
/* A sample larger than the windows, of a reliable publisher; accepted when the last of it has found room. If the time is
 * over before, it is given up. No other sample of the publisher can be put meanwhile: AGAIN. */
int pyddsi_session_put_large(pyddsi_session *session, uint32_t publisher, const void *data,
                             size_t size, uint64_t timeout_ns);
int pyddsi_session_put_many(pyddsi_session *session, uint32_t publisher,
                            const pyddsi_bytes *samples, size_t count, size_t *taken,
                            uint64_t timeout_ns);
int pyddsi_session_put_name(pyddsi_session *session, pyddsi_bytes name, int reliable,
                            const void *data, size_t size, uint64_t timeout_ns);
int pyddsi_session_loan(pyddsi_session *session, uint32_t publisher, size_t size, uint8_t **data,
                        uint32_t *loan, uint64_t timeout_ns);
/* AGAIN: a subscriber that gets a copy by a socket has no room for it; the loan is still open. */
int pyddsi_session_commit(pyddsi_session *session, uint32_t loan, size_t used);
int pyddsi_session_abandon(pyddsi_session *session, uint32_t loan);
int pyddsi_session_flush(pyddsi_session *session);
int pyddsi_session_conduit(pyddsi_session *session, uint32_t publisher);
/* At most `max` samples that are there, in order; *count of them. OK (one or more), AGAIN, BAD_ARGUMENT, CLOSED. */
int pyddsi_session_take(pyddsi_session *session, uint32_t subscriber, pyddsi_received *samples,
                        size_t max, size_t *count);
void pyddsi_session_release(pyddsi_session *session, const pyddsi_received *samples, size_t count);
/* Records in the ledger (ring, and this reason) that these samples were taken and that the application never saw them.
 * They are released like all others. Also after close. */
void pyddsi_session_unread(pyddsi_session *session, const pyddsi_received *samples, size_t count,
                           uint8_t reason);
int pyddsi_session_pull(pyddsi_session *session, uint32_t subscriber, uint32_t max);
int pyddsi_session_close_session(pyddsi_session *session, const pyddsi_endpoint *endpoint,
                                 uint8_t reason);
int pyddsi_session_event(pyddsi_session *session, pyddsi_event *event);
/* Wakes all who sleep by listen and wait, and what waits for the descriptor. */
void pyddsi_session_ring(pyddsi_session *session);
/* The name of a resource, given its id as on the wire. OK; END: it is not known here; NO_SPACE. */
int pyddsi_session_name(pyddsi_session *session, uint8_t space, uint64_t id, uint8_t *name,
                        size_t room, size_t *size);
/* What the peers have declared. OK; NO_SPACE: there are *count, of which the first `max` are written. */
int pyddsi_session_known(pyddsi_session *session, pyddsi_known *known, size_t max, size_t *count,
                         uint8_t *names, size_t room);
int pyddsi_session_drop(pyddsi_session *session, uint32_t index, pyddsi_drop *drop);
int pyddsi_session_stats(pyddsi_session *session, pyddsi_stats *stats);
int pyddsi_session_peer(pyddsi_session *session, uint32_t index, pyddsi_peer *peer);
/* The peers, as indexes, that subscribe to what this publisher publishes: at most `max` of them are written, and *count says
 * how many there are. OK, BAD_ARGUMENT or CLOSED. */
int pyddsi_session_matched(pyddsi_session *session, uint32_t publisher, uint32_t *peers,
                           uint32_t max, uint32_t *count);
/* The refusals that last. OK, END or CLOSED. */
int pyddsi_session_refusal(pyddsi_session *session, uint32_t index, pyddsi_refusal *refusal);
int pyddsi_session_window(pyddsi_session *session, int conduit, pyddsi_window *window);

/* ---- captures: tables of what passed by ------------------------------------------------------------------------- */

enum pyddsi_table {
    PYDDSI_TABLE_PACKETS,  /* every frame of the file */
    PYDDSI_TABLE_MESSAGES, /* every message of the protocol */
    PYDDSI_TABLE_EVENTS,   /* what is worth a look */
    PYDDSI_TABLE_FLOWS, /* what each counter adds up to, in this range; add over ranges by epoch */
    PYDDSI_TABLE_SESSIONS,     /* what two endpoints agreed on */
    PYDDSI_TABLE_RATES,        /* data by time, flow and resource; add over ranges */
    PYDDSI_TABLE_RESOURCES,    /* which number means which name, in whose mouth, and when */
    PYDDSI_TABLE_DECLARATIONS, /* every declaration */
    PYDDSI_TABLE_ENDPOINTS,    /* who was heard or spoken to */
    PYDDSI_TABLE_COUNT,
};
enum { PYDDSI_TABLE_NONE = 255 }; /* no rows at all: the state alone goes on */

/* How a column's values are stored, as Arrow and Spark call it. */
enum pyddsi_column_type {
    PYDDSI_COLUMN_INT8,
    PYDDSI_COLUMN_INT16,
    PYDDSI_COLUMN_INT32,
    PYDDSI_COLUMN_INT64,
    PYDDSI_COLUMN_BOOL,
    PYDDSI_COLUMN_TIME, /* microseconds since 1970, UTC */
    PYDDSI_COLUMN_TEXT,
    PYDDSI_COLUMN_BYTES,
    PYDDSI_COLUMN_COUNTS, /* a list of 64-bit numbers */
};

typedef struct {
    const char *name;
    const char *text;
    uint8_t type;     /* enum pyddsi_column_type */
    uint8_t nullable; /* 1: there may be no value */
    uint8_t dear;     /* 1: only if it is asked for, as it costs much */
} pyddsi_column;

enum {
    PYDDSI_COLUMNS_MAX = 48,
    PYDDSI_WHERE_MAX = 64, /* steps of a filter */
    PYDDSI_SCAN_PORTS_MAX = 16,
    PYDDSI_SCAN_MEMORY_MIB = 256,      /* for what a scan follows, unless it is told otherwise, */
    PYDDSI_SCAN_MEMORY_MIB_MIN = 16,   /* at least, */
    PYDDSI_SCAN_MEMORY_MIB_MAX = 8192, /* and at most */
    PYDDSI_SNAPSHOT_LAYOUT = 2,        /* of a scan's state; another one cannot be gone on with */
};

/* The columns of a table, in their order; null: no such table, or no such column. */
const pyddsi_column *pyddsi_table_column(int table, int column);
/* "packets", ...; null: no such table. */
const char *pyddsi_table_name(int table);

/* What became of a packet, in the column `decode`. */
enum pyddsi_decode {
    PYDDSI_DECODE_OK,        /* of the protocol, and whole */
    PYDDSI_DECODE_FOREIGN,   /* UDP or TCP of somebody else */
    PYDDSI_DECODE_TRUNCATED, /* cut by the snap length; what is whole of it is there */
    PYDDSI_DECODE_MALFORMED, /* it breaks a rule */
    PYDDSI_DECODE_UNKNOWN,   /* it holds a kind of message that nobody knows */
    PYDDSI_DECODE_WAITS,     /* a piece of an IP packet */
    PYDDSI_DECODE_OTHER,     /* neither UDP nor TCP */
    PYDDSI_DECODE_STREAM, /* TCP that cannot be read: behind a part that is missing, up to the next packet that is found */
};

/* One step of a filter, which works on a stack of numbers and texts. */
enum pyddsi_step {
    PYDDSI_STEP_COLUMN, /* push the value of column `a`; no value is not equal to any, and makes all other comparisons false */
    PYDDSI_STEP_NUMBER, /* push `number` */
    PYDDSI_STEP_TEXT,   /* push `size` bytes at `a` of the filter's texts */
    PYDDSI_STEP_EQ,     /* pop two, push 1 or 0; likewise */
    PYDDSI_STEP_NE,
    PYDDSI_STEP_LT,
    PYDDSI_STEP_LE,
    PYDDSI_STEP_GT,
    PYDDSI_STEP_GE,
    PYDDSI_STEP_AND,
    PYDDSI_STEP_OR,
    PYDDSI_STEP_NOT,   /* pop one, push 1 or 0 */
    PYDDSI_STEP_MATCH, /* pop a pattern and a name, push whether it fits */
    PYDDSI_STEP_NULL,  /* pop one, push whether it is no value */
};

typedef struct {
    uint8_t step; /* enum pyddsi_step */
    uint32_t a;
    uint32_t size;
    int64_t number;
} pyddsi_where;

typedef struct {
    int table;         /* enum pyddsi_table */
    uint64_t columns;  /* bits: which of its columns are wanted */
    int32_t file;      /* what the column `file` holds, */
    int32_t recording; /* and the column `recording` */
    uint32_t rows;     /* of a batch, about; 0: 65536 */
    uint8_t seq_bits;  /* of all sessions; 0: as they announce */
    uint8_t learn;     /* 1: find speakers by the looks of their handshakes as well */
    uint8_t
        dedupe; /* 1: pass over a datagram that was captured a moment ago by another way: capture/scan_double.c */
    uint8_t tally;     /* 1: data is added up by flow and resource also without the table `rates` */
    uint8_t base_only; /* 1: nobody has extensions; 2: everybody; 0: as they announce */
    uint32_t port_count;
    uint16_t ports[16];   /* well-known */
    uint32_t payload_max; /* bytes of a payload in the column `payload` */
    uint32_t
        memory_mib; /* for endpoints, flows, sessions and names, taken as they come; 0: the usual */
    int64_t from_ns;      /* rows of this time and later, INT64_MIN: all, */
    int64_t until_ns;     /* and before that, INT64_MAX: all */
    int64_t window_ns;    /* of `rates` */
    uint32_t where_count; /* the filter's steps; 0: everything */
    pyddsi_where where[64];
    const uint8_t *texts; /* of the filter; copied */
    size_t texts_size;
} pyddsi_scan_options;

typedef struct pyddsi_scan pyddsi_scan;

/* Reads one capture, or a range of one. Null: no memory, or BAD_ARGUMENT in *status. */
pyddsi_scan *pyddsi_scan_open(const pyddsi_scan_options *options, int *status);
void pyddsi_scan_close(pyddsi_scan *scan);

/* Begins in the middle of a file, with what a snapshot says of what came before. BAD_INPUT: it is none. */
int pyddsi_scan_restore(pyddsi_scan *scan, const uint8_t *snapshot, size_t size);
/* The state as it is now, between two frames. Answers its size; it is written if there is room for all of it. */
size_t pyddsi_scan_snapshot(pyddsi_scan *scan, uint8_t *out, size_t room);

/* Bytes of the file, the first of which was not used before; the same bytes again after AGAIN.
 * OK: used bytes are done with, and more are needed. AGAIN: a batch is full, take it and come again. END: the limit set by
 * pyddsi_scan_limit is reached. BAD_INPUT: the file is damaged, and pyddsi_scan_facts says how and where. */
int pyddsi_scan_input(pyddsi_scan *scan, const uint8_t *data, size_t size, size_t *used);
/* Another file begins, which goes on where the last one ended: what is known of sessions stays. Its rows have this number, and
 * that of their recording. */
void pyddsi_scan_file(pyddsi_scan *scan, int32_t number, int32_t recording);
/* Stops in front of the first frame that begins at this byte of the file or behind. */
void pyddsi_scan_limit(pyddsi_scan *scan, uint64_t offset);
/* The file (`whole`), or the range, ends here: rows of what is not over come now. OK; AGAIN as above. */
int pyddsi_scan_finish(pyddsi_scan *scan, int whole);
/* After that, of a scan without a table: batches of one that tells what has been added up (flows, sessions, rates with the
 * option tally, resources, endpoints) come with further calls of pyddsi_scan_finish. */
int pyddsi_scan_tell(pyddsi_scan *scan, int table, uint64_t columns);

/* One packet of the protocol and what its messages mean, for those who go through them one by one. */
typedef struct {
    uint64_t number;
    uint64_t offset;
    int64_t time_ns; /* INT64_MIN: none */
    pyddsi_endpoint source;
    pyddsi_endpoint target;
    const uint8_t *data; /* good until the next call */
    size_t size;
    uint8_t decode;       /* enum pyddsi_decode */
    uint8_t base_only;    /* 1: its sender announced no extensions */
    uint8_t fault_passes; /* 1: the filter lets the message through that cannot be read */
    uint32_t notes;       /* in pyddsi_scan_notes: one for each message but markers */
    pyddsi_fault fault;
} pyddsi_packet;

/* A UDP datagram, or the next bytes of one direction of a TCP connection, whosever it is. */
typedef struct {
    uint64_t number; /* 0: there is none */
    uint64_t offset;
    int64_t time_ns;
    pyddsi_endpoint source; /* its kind tells UDP (4, 6) from TCP (14, 16) */
    pyddsi_endpoint target;
    const uint8_t *data; /* good until the next call */
    size_t size;
    uint8_t cut;   /* UDP: the snap length took the rest */
    uint8_t start; /* TCP: the direction begins here, without bytes */
    uint8_t end;   /* TCP: nothing more comes in it */
    uint8_t lost;  /* TCP: bytes before these are missing from the capture */
} pyddsi_item;

/* What a message is to its flow; INT64_MIN: no such number. */
typedef struct {
    uint64_t flow; /* 0: it is of none */
    int64_t usn;
    int64_t since_first_us;
    int64_t ack_usn;
    int64_t answer_us;
    int64_t delivery_us;
    int64_t outstanding;
    int64_t nack_mask;
    uint32_t epoch;
    uint32_t gap;
    uint32_t nacked;
    uint8_t
        event; /* 0 next, 1 first, 2 gap, 3 repeat, 4 fill, 5 old, 6 reset, 7 ambiguous, 8 pre-sync; 255 none */
    uint8_t passes; /* 1: the filter lets it through, or there is none */
} pyddsi_note;

/* As pyddsi_scan_input, up to the next packet of the protocol: OK with packet->number != 0, else more bytes are needed. Of a
 * scan without a table. */
int pyddsi_scan_packet(pyddsi_scan *scan, const uint8_t *data, size_t size, size_t *used,
                       pyddsi_packet *packet);

/* The times of a recording as one line from 0 on: a packet is never before the one before it. A step back by more than
 * |back_ns|, and a leap by more than |ahead_ns|, is a clock that was set: there the line goes on without a pause. */
typedef struct {
    int64_t back_ns;
    int64_t ahead_ns;
    int64_t zero_ns;                   /* the time that is 0 on the line, */
    int64_t now_ns;                    /* and where on it the last packet is */
    uint64_t steps;                    /* so often the clock was set */
    uint64_t packets, streams, broken; /* so far; of these by TCP; and that could not be read on */
    uint8_t begun;                     /* 1: zero_ns is known */
} pyddsi_line;

/* As pyddsi_scan_packet, up to the next packet at |from_ns| on the line or behind it; |absolute|: since 1970. */
int pyddsi_scan_packet_from(pyddsi_scan *scan, const uint8_t *data, size_t size, size_t *used,
                            pyddsi_packet *packet, pyddsi_line *line, int64_t from_ns,
                            int absolute);
const pyddsi_note *pyddsi_scan_notes(const pyddsi_scan *scan);
/* The same, up to the next datagram or TCP bytes, without a look at what they hold. A scan is used in one of these ways. */
int pyddsi_scan_item(pyddsi_scan *scan, const uint8_t *data, size_t size, size_t *used,
                     pyddsi_item *item);
/* For both: the file ends. What still waits comes with the next calls, which are given no bytes. */
void pyddsi_scan_end(pyddsi_scan *scan);
/* What a party calls a number now; the text is not ended by a zero. */
pyddsi_bytes pyddsi_scan_name(const pyddsi_scan *scan, const pyddsi_endpoint *source, uint8_t space,
                              uint64_t rid);

/* Frames on their way into another file: cut by time, by a filter over the table of packets, or to the protocol's own; as they
 * are, or without what is secret in them (csrc/capture/hide.h). */
typedef struct {
    uint8_t *out; /* records or blocks, one behind the other, */
    size_t room;  /* at least 1 MiB */
    size_t used;
    int64_t *times; /* of each, INT64_MIN: none, */
    uint32_t *ends; /* and where in out it ends */
    uint32_t count, count_max;
    uint16_t links[16];  /* link types so far: interface i of the new file has links[i] */
    uint32_t link_count; /* has it grown, the interface is to be written before what comes next */
    uint8_t format;      /* 1 pcap, 2 pcapng */
    uint8_t ours;        /* 1: packets of the protocol alone */
    uint8_t
        hide; /* 1: without secrets; then every packet is made anew, and what is not ours left out */
    uint8_t names; /* 1: names are secret as well */
    uint64_t key[2];
    uint64_t frames;   /* copied so far, */
    uint64_t left_out; /* and not */
} pyddsi_copy;

/* Of a scan with the table of packets: from now on pyddsi_scan_input and pyddsi_scan_finish fill |copy| instead of a batch, and
 * answer AGAIN when it is full or a link type is new; the caller takes what is in it, and sets used and count to 0. */
void pyddsi_scan_copy(pyddsi_scan *scan, pyddsi_copy *copy);

/* A recording from inside. From now on what the session says and hears is kept in a ring of so many bytes (a power of two, from
 * 1 MiB to 1 GiB); what finds no room there is left out, and the session goes on. OK; AGAIN: it is being recorded; BAD_ARGUMENT,
 * NO_SPACE, CLOSED. */
int pyddsi_session_record(pyddsi_session *session, uint32_t ring_bytes);
/* Nothing more is recorded, as when the session closes. What is in the ring can still be taken, and has to be: until END. */
void pyddsi_session_record_stop(pyddsi_session *session);
/* Fills |into| (out, room, times, ends, count_max; used and count 0) with blocks of a pcapng file whose one interface has link
 * type 101; waits for the first of them. OK, also with none; END: the recording is over. One thread at a time; also after the
 * session was closed, but not after it was freed. */
int pyddsi_session_record_take(pyddsi_session *session, pyddsi_copy *into, uint64_t timeout_ns);

enum {
    PYDDSI_RECORD_BYTES = 16777216, /* of a ring: some tenths of a second of a busy network */
    PYDDSI_RECORD_CONDUIT = 255,    /* what was on no wire, but in shared memory, stands on it */
};

typedef struct {
    uint64_t records, bytes;   /* packets and samples that were taken, and their bytes as frames */
    uint64_t lost, lost_bytes; /* and that found no room in the ring */
    uint64_t odd;              /* that no frame can hold */
} pyddsi_recorded;

/* Of the recording that there is, or was last. */
void pyddsi_session_recorded(const pyddsi_session *session, pyddsi_recorded *counts);

/* Looking at an interface: what goes by, as the bytes of a pcap file behind its header (link type 101). See csrc/host/sniff.h. */
typedef struct pdi_sniff pyddsi_sniff;

/* |interface|: its name, or "any". OK; negative, an errno with its sign changed, and a text of PYDDSI_TEXT_MAX bytes. */
int pyddsi_sniff_open(pyddsi_sniff **made, const char *interface, char *text);
void pyddsi_sniff_close(pyddsi_sniff *sniff);
/* As many records as fit, 128 KiB of room at least; waits for the first. OK, also with none; negative: the interface is gone. */
int pyddsi_sniff_take(pyddsi_sniff *sniff, uint8_t *out, size_t room, size_t *size,
                      uint32_t timeout_ms);
/* What went by, and what was lost for want of room, since it was opened. */
void pyddsi_sniff_counts(pyddsi_sniff *sniff, uint64_t *seen, uint64_t *lost);

/* The beginning of a file, the description of an interface (pcapng), and what the capturing says at its end; NO_SPACE below 256
 * bytes of room. */
int pyddsi_write_header(int format, uint16_t link, const char *application, uint8_t *out,
                        size_t room, size_t *at);
int pyddsi_write_interface(uint16_t link, uint8_t *out, size_t room, size_t *at);
int pyddsi_write_statistics(int64_t time_ns, uint64_t received, uint64_t dropped, uint8_t *out,
                            size_t room, size_t *at);
/* A datagram as a frame with headers of its own (link type 101), which is a record of a pcap file or a block of a pcapng file.
 * BAD_ARGUMENT: no datagram can be as long, or no file hold its time; NO_SPACE below its size and 256 bytes. */
int pyddsi_write_datagram(int format, int64_t time_ns, const pyddsi_endpoint *source,
                          const pyddsi_endpoint *target, const uint8_t *data, size_t size,
                          uint8_t *out, size_t room, size_t *at);

/* Frames that hold nothing that we read: why, more exactly (an ethertype, a protocol, a link type), and how many. */
typedef struct {
    uint64_t count;
    uint32_t detail;
    uint8_t other;
} pyddsi_stranger;

/* A declaration that was refused: by whom, whose, how often and why. */
typedef struct {
    uint64_t count;
    uint64_t packet; /* the first frame that says so, */
    int64_t id;      /* what it was about; a selection's number is negative */
    pyddsi_endpoint source, target;
    int32_t file;   /* and its file */
    uint8_t status; /* of the RESULT: neither 0 (ok) nor 4 (try again) */
} pyddsi_declined;

enum { PYDDSI_DECLINED_MAX = 24 }; /* that are told apart; all of them count as events */

/* What a scan adds up to. */
typedef struct {
    pyddsi_stranger strangers[24]; /* as far as there is room; then by_decode has the rest */
    uint64_t frames, packets, messages,
        bytes; /* packets and messages of the protocol, and bytes of the file */
    int64_t first_ns,
        last_ns; /* of the earliest and the latest frame; INT64_MIN: none has a time */
    int64_t range_first_ns, range_last_ns; /* the same since pyddsi_scan_limit was called */
    uint64_t backwards;                    /* frames that are earlier than the one before */
    uint64_t at;                           /* byte of the file that comes next */
    uint64_t inside;    /* bytes of a block that are still to come, though nobody looks at them */
    uint64_t tcp_late;  /* TCP packets behind the end of their direction */
    uint64_t damage_at; /* BAD_INPUT: at this byte, */
    uint8_t damage;     /* and what */
    uint8_t container;  /* 1 pcap, 2 pcapng */
    uint16_t link;      /* of the first frame */
    uint32_t interfaces, sections;
    uint64_t over_snap, over_wire; /* frames that contradict their header */
    uint64_t capture_dropped;      /* frames that the capturing lost itself, as it says */
    uint64_t foreign_udp, foreign_tcp;
    uint64_t by_kind[32]; /* messages and markers */
    uint64_t by_event[24];
    uint64_t event_packet[24];    /* the first frame with each event, */
    int64_t event_ns[24];         /* its time, */
    int32_t event_file[24];       /* and its file */
    pyddsi_declined declined[24]; /* PYDDSI_DECLINED_MAX, as far as there is room */
    uint64_t by_decode[8];
    uint64_t
        stream_packet; /* the first frame at which reading of a TCP direction broke off; 0: none, */
    int32_t stream_file; /* and its file */
    uint64_t stream_missing,
        stream_unread; /* bytes of such that are not in the capture; and that are, and were passed over */
    uint64_t repeats, presync, fills; /* samples */
    int64_t missing;
    uint64_t parties, flows, sessions, resources;
    uint64_t evicted, forgotten, doubles;
    uint64_t names_gone; /* declarations of names that no longer hold */
    uint64_t rows;
} pyddsi_scan_facts;

void pyddsi_scan_look(pyddsi_scan *scan, pyddsi_scan_facts *facts);
const char *pyddsi_event_word(int event);
/* What is wrong at the byte facts.damage_at, as the end of a sentence; |room| of 160 is enough. */
void pyddsi_scan_damage(const pyddsi_scan *scan, char *out, size_t room);
/* "ethertype 0x0806", "IP protocol 1", ...: ended by a zero if there is room. */
void pyddsi_other_print(int other, uint32_t detail, char *out, size_t room);

/* ---- replay: packets leave at their deadlines, from a thread of their own ---------------------------------------- */

enum {
    PYDDSI_REPLAY_SOCKETS_MAX = 1024, /* who packets come from, */
    PYDDSI_REPLAY_WAYS_MAX = 65536,   /* and whom they go to from there */
    PYDDSI_LATE_SLOTS = 976,          /* of a histogram: base/histogram.h */
};

typedef struct pyddsi_replay pyddsi_replay;

typedef struct {
    uint64_t due_ns; /* after the base of its batch */
    uint64_t at;     /* where in the batch's bytes it begins, */
    uint32_t size;   /* and how many it has */
    uint32_t way;    /* which of the ways it takes */
} pyddsi_replay_packet;

typedef struct {
    uint64_t begun_ns; /* the moment that deadlines count from, by the clock that never steps; */
    uint64_t last_ns;  /* and the one when something was last sent */
    uint64_t sent, bytes;
    uint64_t full, failed; /* packets that the system had no room for, or refused */
    uint64_t calls;        /* of the system, that sent */
    uint64_t starved; /* times that the thread had nothing to wait for, as nothing was pushed */
    uint64_t done;    /* batches that may be given back */
    uint64_t late_max_ns;
    uint64_t drift_ns; /* how late the last packet left */
    uint8_t ended;     /* 1: the thread has ended */
} pyddsi_replay_counts;

/* host/pace.h has the contracts. */
int pyddsi_replay_open(pyddsi_replay **made, uint64_t spin_ns, int flat_out, char *text);
int pyddsi_replay_socket(pyddsi_replay *replay, int fd, uint8_t family, uint32_t scope);
int pyddsi_replay_way(pyddsi_replay *replay, uint32_t socket, const pyddsi_endpoint *to);
int pyddsi_replay_push(pyddsi_replay *replay, const pyddsi_replay_packet *packets, uint64_t count,
                       const uint8_t *data, size_t size, uint64_t base_ns);
int pyddsi_replay_begin(pyddsi_replay *replay, char *text);
void pyddsi_replay_finish(pyddsi_replay *replay);
void pyddsi_replay_stop(pyddsi_replay *replay);
int pyddsi_replay_wait(pyddsi_replay *replay, uint64_t done, uint64_t timeout_ns);
void pyddsi_replay_count(pyddsi_replay *replay, pyddsi_replay_counts *counts);
void pyddsi_replay_late(pyddsi_replay *replay, uint64_t *late);
void pyddsi_replay_close(pyddsi_replay *replay);
/* The slot of a value in such a histogram, and the least value of a slot. */
unsigned pyddsi_late_slot(uint64_t ns);
uint64_t pyddsi_late_least(unsigned slot);

/* cffi: end */

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
