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

/* cffi: end */

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
