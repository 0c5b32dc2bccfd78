/* names.c - any two texts, as names and as patterns.
 *
 * The input is split at its first newline. Nothing may crash or read outside the texts, and what
 * the headers promise must hold: a fault lies within its text; a canonical text is a name and its
 * own canonical text; a wire form is valid on the wire and its own wire form; a valid path is a
 * name, too; and two patterns have something in common in both orders or in neither. Short patterns
 * are also judged by a table of all pairs of positions.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/match.h"
#include "wire/name.h"

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

/* The longest pattern that the table judges: three words of positions. */
enum { SHORT = 180 };

/* What rewriting gave: a canonical text or a wire form. */
struct rewritten {
    size_t size;
    char text[PDI_NAME_MAX];
};

static void check_path(pyddsi_bytes path)
{
    pyddsi_fault fault = {0, 0};
    struct pdi_name name;
    int status = pdi_name_check(path, PDI_NAME_MAX, &fault);
    if (status == PYDDSI_OK) {
        MUST(pdi_name_parse((const char *)path.data, path.size, &name, &fault) == PYDDSI_OK);
        MUST(name.path.size == path.size && name.tags == 0 && name.predicate.size == 0);
        MUST(path.size <= 100 || pdi_name_check(path, 100, &fault) == PYDDSI_BAD_INPUT);
    } else {
        MUST(status == PYDDSI_BAD_INPUT && fault.rule != PYDDSI_RULE_NONE);
        MUST(fault.at < path.size || (path.size == 0 && fault.at == 0));
    }
}

static void check_text(const char *text, size_t size)
{
    static struct rewritten canonical, again, wire;
    pyddsi_fault fault = {0, 0}, same = {0, 0};
    struct pdi_name name, reread;
    int status = pdi_name_parse(text, size, &name, &fault);
    MUST(pdi_name_canonical(text, size, canonical.text, PDI_NAME_MAX, &canonical.size, &same) ==
         status);
    MUST(pdi_name_wire(text, size, wire.text, PDI_NAME_MAX, &wire.size, &same) == status);
    if (status != PYDDSI_OK) {
        MUST(status == PYDDSI_BAD_INPUT && fault.rule != PYDDSI_RULE_NONE && fault.at <= size);
        MUST(fault.rule == same.rule && fault.at == same.at);
        return;
    }
    MUST(pdi_name_canonical(canonical.text, canonical.size, again.text, canonical.size, &again.size,
                            &fault) == PYDDSI_OK);
    MUST(again.size == canonical.size && !memcmp(again.text, canonical.text, again.size));
    MUST(pdi_name_parse(canonical.text, canonical.size, &reread, &fault) == PYDDSI_OK);
    MUST(reread.tags == name.tags && reread.meta == name.meta && reread.wild == name.wild);
    MUST(reread.predicate.size == name.predicate.size);
    MUST(name.predicate.size == 0 ||
         !memcmp(reread.predicate.data, name.predicate.data, name.predicate.size));
    MUST(reread.path.size == wire.size && !memcmp(reread.path.data, wire.text, wire.size));
    check_path(reread.path);
    MUST(pdi_name_check(reread.path, PDI_NAME_MAX, &fault) == PYDDSI_OK);
    MUST(pdi_name_wire(wire.text, wire.size, again.text, wire.size, &again.size, &fault) ==
         PYDDSI_OK);
    MUST(again.size == wire.size && !memcmp(again.text, wire.text, wire.size));
}

/* Whether the star at `at` is in a run of several, and so eats '/', too. */
static bool is_deep(pyddsi_bytes pattern, size_t at)
{
    return (at > 0 && pattern.data[at - 1] == '*') ||
           (at + 1 < pattern.size && pattern.data[at + 1] == '*');
}

/* Whether one character can be a byte of a and a byte of b at once. */
static bool is_shared(pyddsi_bytes a, size_t i, pyddsi_bytes b, size_t j)
{
    uint8_t x = a.data[i], y = b.data[j];
    if (x == y || (x == '*' && is_deep(a, i)) || (y == '*' && is_deep(b, j)))
        return true;
    return ((x == '*' || x == '?') && y != '/') || ((y == '*' || y == '?') && x != '/');
}

/* Whether some string satisfies both, from all pairs of remainders, the shortest first. */
static bool agree(pyddsi_bytes a, pyddsi_bytes b)
{
    static bool rest[SHORT + 1][SHORT + 1];
    for (size_t i = a.size + 1; i-- > 0;) {
        for (size_t j = b.size + 1; j-- > 0;) {
            bool shared = i < a.size && j < b.size && is_shared(a, i, b, j);
            bool yes = i == a.size && j == b.size;
            if (i < a.size && a.data[i] == '*')
                yes = yes || rest[i + 1][j] || (shared && rest[i][j + 1]);
            if (j < b.size && b.data[j] == '*')
                yes = yes || rest[i][j + 1] || (shared && rest[i + 1][j]);
            rest[i][j] = yes || (shared && rest[i + 1][j + 1]);
        }
    }
    return rest[0][0];
}

static void check_pair(pyddsi_bytes a, pyddsi_bytes b)
{
    uint64_t steps = 0;
    if (a.size > PDI_NAME_MAX || b.size > PDI_NAME_MAX)
        return;
    bool common = pdi_match_count(a, b, &steps);
    MUST(steps <= a.size + (a.size / 64 + 1) * b.size);
    MUST(pdi_match(b, a) == common && pdi_intersect(a, a));
    MUST(a.size > SHORT || b.size > SHORT || agree(a, b) == common);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *newline = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t first = newline != NULL ? (size_t)(newline - data) : size;
    size_t second = newline != NULL ? size - first - 1 : 0;
    /* Copies, so that a read behind a text is seen. */
    uint8_t *a = malloc(first), *b = malloc(second);
    if ((a == NULL && first > 0) || (b == NULL && second > 0))
        abort();
    if (first > 0)
        memcpy(a, data, first);
    if (second > 0)
        memcpy(b, newline + 1, second);
    check_path((pyddsi_bytes){a, first});
    check_path((pyddsi_bytes){b, second});
    check_text((const char *)a, first);
    check_text((const char *)b, second);
    check_pair((pyddsi_bytes){a, first}, (pyddsi_bytes){b, second});
    free(a);
    free(b);
    return 0;
}
