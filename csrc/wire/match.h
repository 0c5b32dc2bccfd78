/* match.h - which names a pattern names, and whether two patterns have a name in common.
 *
 * A pattern is a glob over bytes: '?' is one byte but '/', '*' any run of bytes without '/', two or
 * more '*' in a row any run of bytes. Runs may be empty, and every other byte is itself, '$' too.
 * So "**" matches everything, and "a/" followed by "**" does not match "a".
 *
 * The question is about strings, not about valid names: "?/" and "**" have "x/" in common, though
 * no name ends so. That asks nothing of the patterns but their size, at most PDI_NAME_MAX bytes,
 * which pdi_name_check has seen to. A longer one is the caller's mistake and has nothing in common
 * with anything.
 */
#ifndef PDI_WIRE_MATCH_H
#define PDI_WIRE_MATCH_H

#include <stdbool.h>

#include "pyddsi.h"

/* Whether some string satisfies both patterns. Whatever they are, it takes no more than
 *     |a| + (|a| / 64 + 1) x |b|
 * steps of constant cost, where |a| and |b| are the sizes in bytes; match.c has the proof. The
 * steps are added to *steps, so that a test can hold the code to the bound without a clock. */
bool pdi_match_count(pyddsi_bytes a, pyddsi_bytes b, uint64_t *steps);

/* Whether some string satisfies both patterns. */
static inline bool pdi_intersect(pyddsi_bytes a, pyddsi_bytes b)
{
    uint64_t unused = 0;
    return pdi_match_count(a, b, &unused);
}

/* Whether the pattern matches a name, which has no wildcards. Such a name is a pattern of one
 * string, so this is the same question; the call says which side is which. */
static inline bool pdi_match(pyddsi_bytes pattern, pyddsi_bytes name)
{
    return pdi_intersect(pattern, name);
}

#endif
