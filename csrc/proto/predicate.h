/* predicate.h - which samples a selection wants.
 *
 * The text between the braces of `resource?{text}`. It is made once into a small program, which is
 * run over each sample, at the sender, where the sample need not even be sent if nobody wants it.
 *
 *     expression  =  term { "or" term }
 *     term        =  factor { "and" factor }
 *     factor      =  { "not" } ( "(" expression ")" | operand [ compare operand ] )
 *     compare     =  "=" | "==" | "!=" | "<" | "<=" | ">" | ">="
 *     operand     =  number | text | "true" | "false" | field
 *     number      =  as JSON writes it, or the same with "+" in front
 *     text        =  'bytes without the quote' or "bytes without the quote", no escapes
 *     field       =  name { "." name } | "$size" | "$resource" | "$byte0" .. "$byte63"
 *     name        =  [A-Za-z_][A-Za-z0-9_]*; after a dot it may begin with a digit
 *
 * A name is a member of the sample's payload if that is a JSON object (proto/json.h); dots lead
 * into nested objects. $size is the number of bytes of the payload, $resource the number of the
 * resource, not doubled as on the wire, $byte0 the value of the first byte of the payload.
 *
 * What is compared. Two numbers, as doubles. Two texts, byte by byte. Two truth values, false
 * before true. Everything else is false, whatever the sign of comparison: a number with a text, and
 * anything with a field that is not there, is null, an object or an array. So `x = 1` and `x != 1`
 * may both be false, and `not x = 1` is how to ask for all the others. An operand alone is true if
 * it is true, a number but 0, or a text but the empty one. A text of spaces wants every sample.
 *
 * The program has no operators for "and" and "or", only jumps: what stands on the right is not
 * looked at if the left has decided, so the payload is not read for a sample that $byte0 has
 * already refused. Two values are all that is ever held.
 *
 *     lum > 3 and not hot        0 field lum
 *                                1 number 3
 *                                2 greater
 *                                3 if it is false, leave it and go to 6; else forget it
 *                                4 field hot
 *                                5 not
 *                                6
 *
 * Jumps only lead forward: a run has at most PDI_PREDICATE_STEPS_MAX steps, and each step reads the
 * payload once at most. A payload over PDI_PREDICATE_PAYLOAD_MAX bytes is not read and has no
 * members; $size and $byte0 it has.
 *
 * Why not a tree: it would have to be walked by recursion, and live in memory of its own.
 */
#ifndef PDI_PROTO_PREDICATE_H
#define PDI_PROTO_PREDICATE_H

#include <stdbool.h>

#include "pyddsi.h"

#define PDI_PREDICATE_STEPS_MAX   64U
#define PDI_PREDICATE_TEXT_MAX    256U
#define PDI_PREDICATE_DEPTH_MAX   16U /* brackets, nots and operators that wait for what follows */
#define PDI_PREDICATE_BYTE_MAX    63U
#define PDI_PREDICATE_PAYLOAD_MAX 65536U

struct pdi_predicate_step {
    double number;
    uint16_t at;   /* of a name or a text, in the predicate's text; of a byte; where a jump leads */
    uint16_t size; /* of a name or a text */
    uint8_t op;
};

struct pdi_predicate {
    char text[PDI_PREDICATE_TEXT_MAX]; /* its own copy */
    uint16_t count;
    struct pdi_predicate_step steps[PDI_PREDICATE_STEPS_MAX];
};

/* Makes the program.
 * PYDDSI_OK; PYDDSI_BAD_INPUT if the text is not an expression; PYDDSI_NO_SPACE if it is too long,
 * too deep or has too many steps. With the last two, fault has PYDDSI_RULE_NAME_PREDICATE and where
 * reading stopped, and the predicate wants every sample. */
int pdi_predicate_init(struct pdi_predicate *predicate, const char *text, size_t size,
                       pyddsi_fault *fault);

/* Whether the selection wants a sample. The resource is as on the wire. */
bool pdi_predicate_holds(const struct pdi_predicate *predicate, uint64_t resource,
                         pyddsi_bytes payload);

#endif
