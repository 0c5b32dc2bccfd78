/* rules.c - the rules as a table. See rules.h.
 *
 * The column zhe is what a live zhe did, over UDP. Some things depend on more than the rule: a
 * message of a kind that zhe does not know breaks no other rule for it, one that is cut stalls a
 * stream instead of ending its session, and a peer id that is refused in an OPEN ends the session
 * in a KEEPALIVE.
 */
#include "wire/rules.h"

#include "wire/table.h"

static const struct {
    const char *name;
    const char *text;
    uint8_t zhe;
} rules[PYDDSI_RULE_COUNT] = {
    [PYDDSI_RULE_NONE] = {"NONE", "nothing is wrong", PYDDSI_ZHE_ACCEPTS},
    [PYDDSI_RULE_CUT] = {"CUT", "the message runs past the end of the packet", PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_KIND_UNKNOWN] = {"KIND_UNKNOWN", "no message has this kind", PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_KIND_RESERVED] = {"KIND_RESERVED", "the kind is reserved and has no body",
                                   PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_KIND_EXTENSION] = {"KIND_EXTENSION",
                                    "the kind is an extension that was not announced",
                                    PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_NUMBER_WIDE] = {"NUMBER_WIDE", "the number does not fit its field",
                                 PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_NUMBER_LONG_FORM] = {"NUMBER_LONG_FORM", "the number is not in its shortest form",
                                      PYDDSI_ZHE_ACCEPTS},
    [PYDDSI_RULE_SN_RANGE] = {"SN_RANGE",
                              "the number is at or above 2 to the sequence number length",
                              PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_LENGTH_WIDE] = {"LENGTH_WIDE", "the length or count is over 65535",
                                 PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_PEER_ID_LENGTH] = {"PEER_ID_LENGTH", "a peer id has 1 to 16 bytes",
                                    PYDDSI_ZHE_REFUSES},
    [PYDDSI_RULE_ID_ZERO] = {"ID_ZERO", "the id is 0, which is no id", PYDDSI_ZHE_ACCEPTS},
    [PYDDSI_RULE_ID_WIDE] = {"ID_WIDE", "the id is over the receiver's width", PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_ID_PARITY] = {"ID_PARITY",
                               "resource ids are even on the wire and selection ids odd",
                               PYDDSI_ZHE_DIES},
    [PYDDSI_RULE_CONDUIT_RANGE] = {"CONDUIT_RANGE", "the receiver does not have this conduit",
                                   PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_CONDUIT_SHORT] =
        {"CONDUIT_SHORT", "the receiver does not have this conduit, and zhe does not check",
         PYDDSI_ZHE_DIES},
    [PYDDSI_RULE_MARKER_ALONE] = {"MARKER_ALONE", "a marker stands before nothing",
                                  PYDDSI_ZHE_ACCEPTS},
    [PYDDSI_RULE_MARKER_ORDER] = {"MARKER_ORDER",
                                  "markers stand in the order CONDUIT, FRAG, RSPACE",
                                  PYDDSI_ZHE_ACCEPTS},
    [PYDDSI_RULE_MARKER_FORM] = {"MARKER_FORM", "the id has a short form and is in the long one",
                                 PYDDSI_ZHE_ACCEPTS},
    [PYDDSI_RULE_MARKER_TARGET] = {"MARKER_TARGET",
                                   "the marker before this message cannot belong to it",
                                   PYDDSI_ZHE_ACCEPTS},
    [PYDDSI_RULE_FLAG_UNDEFINED] = {"FLAG_UNDEFINED", "an undefined flag is set",
                                    PYDDSI_ZHE_ACCEPTS},
    [PYDDSI_RULE_OPEN_PROPERTIES] = {"OPEN_PROPERTIES",
                                     "an OPEN without the properties flag kills zhe",
                                     PYDDSI_ZHE_DIES},
    [PYDDSI_RULE_OPEN_SEQ_BITS] = {"OPEN_SEQ_BITS",
                                   "the sequence number length is not the receiver's",
                                   PYDDSI_ZHE_REFUSES},
    [PYDDSI_RULE_OPEN_VERSION] = {"OPEN_VERSION", "the protocol version is not 1",
                                  PYDDSI_ZHE_REFUSES},
    [PYDDSI_RULE_OPEN_LEASE] = {"OPEN_LEASE", "the lease is over 21474836", PYDDSI_ZHE_REFUSES},
    [PYDDSI_RULE_DECLARATION_KIND] = {"DECLARATION_KIND", "no declaration has this kind",
                                      PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_COMMIT_LAST] = {"COMMIT_LAST", "a commit is the last declaration of its message",
                                 PYDDSI_ZHE_ACCEPTS},
    [PYDDSI_RULE_MODE] = {"MODE", "a subscription mode is 1 to 5", PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_PERIOD] = {"PERIOD", "a window's duration is below its period",
                            PYDDSI_ZHE_ACCEPTS},
    [PYDDSI_RULE_FRAME_LENGTH] = {"FRAME_LENGTH", "a frame length has one or two bytes",
                                  PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_FRAME_LIMIT] = {"FRAME_LIMIT", "the frame or message is over the receiver's limit",
                                 PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_NAME_EMPTY] = {"NAME_EMPTY", "the name is empty", PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_NAME_LONG] = {"NAME_LONG", "the name is too long", PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_NAME_START] = {"NAME_START", "a name on the wire starts with '/' or '**'",
                                PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_NAME_END] = {"NAME_END", "a name does not end in '/'", PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_NAME_SEGMENT] = {"NAME_SEGMENT", "two slashes in a row", PYDDSI_ZHE_ACCEPTS},
    [PYDDSI_RULE_NAME_CHARACTER] = {"NAME_CHARACTER",
                                    "a name has letters, digits, '-', '_', '/', '?' and '*'",
                                    PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_NAME_SCHEME] = {"NAME_SCHEME", "the only scheme is zenoh://", PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_NAME_META] = {"NAME_META", "'$' begins only a last segment '$ls' or '$id'",
                               PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_NAME_TAG] =
        {"NAME_TAG", "the tags are transient, persistent and unreliable: #one or #{one,two}",
         PYDDSI_ZHE_DROPS},
    [PYDDSI_RULE_NAME_PREDICATE] = {"NAME_PREDICATE",
                                    "a predicate is ?{printable text} at the end of the name",
                                    PYDDSI_ZHE_DROPS},
};

static int known(int rule)
{
    return rule >= 0 && rule < PYDDSI_RULE_COUNT && rules[rule].name != NULL;
}

const char *pdi_rule_name(int rule)
{
    return known(rule) ? rules[rule].name : "?";
}

const char *pdi_rule_text(int rule)
{
    return known(rule) ? rules[rule].text : "no such rule";
}

int pdi_rule_zhe(int rule, unsigned kind, int stream)
{
    if (kind < PYDDSI_KIND_COUNT && pdi_messages[kind].part != 'A' && rule != PYDDSI_RULE_NONE)
        return PYDDSI_ZHE_DROPS;
    if (rule == PYDDSI_RULE_CUT && stream)
        return PYDDSI_ZHE_STALLS;
    if (rule == PYDDSI_RULE_PEER_ID_LENGTH && kind != PYDDSI_OPEN)
        return kind == PYDDSI_KEEPALIVE ? PYDDSI_ZHE_DROPS : PYDDSI_ZHE_ACCEPTS;
    if (rule == PYDDSI_RULE_NUMBER_WIDE && (kind == PYDDSI_PING || kind == PYDDSI_PONG))
        return PYDDSI_ZHE_IGNORES;
    return known(rule) ? rules[rule].zhe : PYDDSI_ZHE_ACCEPTS;
}
