/* name.h - the names of resources: what may go on the wire, and what people may write.
 *
 *     [zenoh://] path [#tag | #{tag,tag}] [?{predicate}]    people write this; so does a selection
 *                path                                       the wire has this, in its wire form
 *
 * A path is letters, digits, '-', '_' and '/', with the wildcards '?' for one character but '/',
 * '*' for any run without '/', and '**' for any run; runs may be empty, and more than two stars
 * mean the same as two. On the wire it starts with '/' or '**', does not end in '/', and has no two
 * slashes in a row. A last segment '$ls' or '$id' asks about the path before it; '$' stands nowhere
 * else. People may leave out the first '/': plant/robot, /plant/robot, zenoh://plant/robot and
 * zenoh:///plant/robot are one name. Before '**' nothing is left out, for '**' can be the '/'
 * itself.
 *
 * Among the texts of one name one is canonical. It has no scheme, but the first '/'; no more than
 * two stars in a row; tags in alphabetical order, each once, in braces if there are several; and no
 * empty predicate. So equal names can be compared and hashed as bytes. The wire form is the
 * canonical path.
 *
 * NAME_SCHEME, NAME_LONG and NAME_EMPTY are looked for first, in this order. Then the text is read
 * from left to right, and the first fault is the one that is told:
 *
 *     rule             the byte at which it is broken
 *     NAME_SCHEME      0
 *     NAME_LONG        the first byte over the limit
 *     NAME_EMPTY       where the path should start
 *     NAME_START       0; only the wire has this rule
 *     NAME_CHARACTER   the byte that stands in no path; white space is one
 *     NAME_SEGMENT     the second slash
 *     NAME_END         the last slash; "/" alone is this fault
 *     NAME_META        the '$'
 *     NAME_TAG         the start of a tag that is empty, unknown or not closed;
 *                      or what follows the tags and is no predicate
 *     NAME_PREDICATE   a byte that is not printable; or what follows the last '}';
 *                      or the end of the text, where the '}' is missing
 */
#ifndef PDI_WIRE_NAME_H
#define PDI_WIRE_NAME_H

#include <stdbool.h>

#include "pyddsi.h"

/* The most bytes of a path on the wire, and of a text; its scheme does not count, but a first '/'
 * that was left out does. So every canonical text fits this many bytes. A receiver may have a
 * smaller limit for paths: zhe's is 100. */
#define PDI_NAME_MAX     1024
#define PDI_NAME_MAX_ZHE 100

/* In alphabetical order, which is the order of the canonical text. */
enum pdi_name_tag {
    PDI_NAME_PERSISTENT = 1,
    PDI_NAME_TRANSIENT = 2,
    PDI_NAME_UNRELIABLE = 4,
};

enum pdi_name_meta {
    PDI_NAME_PLAIN,
    PDI_NAME_LIST, /* path/$ls: the children of path */
    PDI_NAME_ID,   /* path/$id: the id of path */
};

/* A text taken apart. The views point into the text. */
struct pdi_name {
    pyddsi_bytes path;       /* as written: without scheme, perhaps without the first '/' */
    pyddsi_bytes predicate;  /* between the braces; size 0 if there is none */
    unsigned tags;           /* bits of enum pdi_name_tag */
    enum pdi_name_meta meta; /* what the path asks for */
    bool wild;               /* the path has a wildcard */
};

/* Whether a path that arrived in a declaration or in WDATA is valid in every byte. limit is the
 * greatest size that the caller accepts; above PDI_NAME_MAX it means PDI_NAME_MAX. The cost is one
 * pass over at most that many bytes.
 * PYDDSI_OK, or PYDDSI_BAD_INPUT with the fault set. */
int pdi_name_check(pyddsi_bytes path, size_t limit, pyddsi_fault *fault);

/* Whether zhe takes such a path. Its limit is smaller, and it knows neither empty segments as a fault
 * nor '$'. As pdi_name_check in all else. */
int pdi_name_check_zhe(pyddsi_bytes path, pyddsi_fault *fault);

/* Takes apart what a person wrote, or the text of a selection.
 * PYDDSI_OK with out set, or PYDDSI_BAD_INPUT with the fault set and out as it was. */
int pdi_name_parse(const char *written, size_t size, struct pdi_name *out, pyddsi_fault *fault);

/* Writes the canonical text to out, which has room bytes and may be the text itself. PDI_NAME_MAX
 * bytes are always enough.
 * PYDDSI_OK with *out_size set, PYDDSI_BAD_INPUT with the fault set, or PYDDSI_NO_SPACE; only with
 * PYDDSI_OK has out changed. */
int pdi_name_canonical(const char *text, size_t size, char *out, size_t room, size_t *out_size,
                       pyddsi_fault *fault);

/* Writes the wire form, that is the canonical path without tags and predicate. All else as in
 * pdi_name_canonical. */
int pdi_name_wire(const char *text, size_t size, char *out, size_t room, size_t *out_size,
                  pyddsi_fault *fault);

#endif
