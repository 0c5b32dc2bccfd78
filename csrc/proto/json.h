/* json.h - one member of a JSON text, found without a tree.
 *
 * A predicate asks for a few members of each sample. So the text is read from its first byte to its
 * last, keeping nothing but where in it we are: a bit for each open bracket, and how much of the
 * path that is looked for has been met.
 *
 *     path a.b     { "x": {"b": 1}, "a": {"b": 7, "c": 2} }
 *     open         1      2         1    2              0
 *     met          0                1    a value
 *
 * The whole text must be valid (RFC 8259), or no member is found in it: half a text is not an
 * object that lacks some members. If a name stands in an object twice, the last one counts, as in
 * Python. Brackets may be nested PDI_JSON_DEPTH_MAX deep; deeper is not valid here.
 *
 * Texts are not decoded but compared while they are decoded, byte by byte as UTF-8; a \u escape of
 * half a surrogate pair counts as the three bytes that its number would have. Other bytes above
 * 0x7f stand for themselves.
 */
#ifndef PDI_PROTO_JSON_H
#define PDI_PROTO_JSON_H

#include <stdbool.h>

#include "pyddsi.h"

#define PDI_JSON_DEPTH_MAX 64U

enum pdi_json_kind {
    PDI_JSON_NOTHING, /* it is not there */
    PDI_JSON_FALSE,
    PDI_JSON_TRUE,
    PDI_JSON_NUMBER,
    PDI_JSON_TEXT,
    PDI_JSON_OTHER, /* null, an object, an array */
};

struct pdi_json {
    double number;
    pyddsi_bytes text; /* what stands between the quotes */
    uint8_t kind;      /* enum pdi_json_kind */
    bool escaped;      /* whether a backslash in the text begins an escape */
};

/* The member of the object `json` at `path`, whose parts are separated by dots. Nothing if there is
 * none, or if json is not a valid text. One step for each byte of json, and for each name in it one
 * for each byte of path. */
struct pdi_json pdi_json_find(pyddsi_bytes json, pyddsi_bytes path);

/* Reads a number as JSON writes it and moves *at behind it; false if there is none. Up to 15 digits
 * and exponents from -22 to 22 give the nearest double, all others one that is off by a few units
 * of the last place; but however a value is written, with up to 19 digits it gives the same double.
 * What is too large is infinite. */
bool pdi_json_number(const uint8_t **at, const uint8_t *end, double *number);

/* The order of two texts: below 0, 0 or above 0, by their bytes. */
int pdi_json_compare(const struct pdi_json *a, const struct pdi_json *b);

#endif
