/* name.c - one scan for paths, and a parser for the text around them.
 *
 *     zenoh://plant/robot#{transient,unreliable}?{speed > 3}
 *     ╰scheme╯╰── path ─╯╰──────── tags ───────╯╰predicate─╯
 *
 * The four parts are found from left to right without looking back: ':' '#' '{' and '}' are no path
 * characters, so the first '#' or '?{' ends the path although a lone '?' is a wildcard, and the
 * first '}' ends the tags. The predicate is the last part and ends with the text, so it may hold
 * braces itself.
 *
 * One function, scan, knows what a path is. The wire and the people's text both go through it, and
 * differ only in the byte that stands before the path: nothing, or the '/' that was left out. So
 * whatever parse accepts has a wire form that check accepts; fuzz/names.c holds us to it.
 *
 * Every function makes a few passes over at most PDI_NAME_MAX bytes, for the length is looked at
 * first, and does a constant amount of work for each byte. There is no state.
 *
 * Why the canonical text is made in a local buffer and then copied: it cannot be longer than
 * PDI_NAME_MAX, so the writer needs no test for room at each byte, the caller's buffer never holds
 * half an answer, and it may be the text.
 */
#include "wire/name.h"

#include <string.h>

#include "base/check.h"

static const char scheme[] = "zenoh://";

/* The tags in the order of their bits in enum pdi_name_tag. */
static const char *const tags[] = {"persistent", "transient", "unreliable"};
enum { TAG_COUNT = sizeof tags / sizeof tags[0] };

static int bad(pyddsi_fault *fault, int rule, size_t at)
{
    *fault = (pyddsi_fault){rule, at};
    return PYDDSI_BAD_INPUT;
}

static bool is_word(uint8_t c)
{
    uint8_t lower = c | 0x20;
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static bool begins(pyddsi_bytes text, size_t at, const char *wanted)
{
    size_t size = strlen(wanted);
    return size <= text.size - at && memcmp(text.data + at, wanted, size) == 0;
}

static bool is_meta(pyddsi_bytes text, size_t at)
{
    return text.size - at == 3 && (begins(text, at, "$ls") || begins(text, at, "$id"));
}

/* Whether the path at `at` starts as on the wire. */
static bool is_rooted(pyddsi_bytes text, size_t at)
{
    return begins(text, at, "/") || begins(text, at, "**");
}

/* The rules for every byte of the path that starts at `at` and ends with text. before is the byte
 * in front of it, 0 for none. Sets meta and wild of out. */
static int scan(pyddsi_bytes text, size_t at, uint8_t before, struct pdi_name *out,
                pyddsi_fault *fault)
{
    for (; at < text.size; before = text.data[at++]) {
        uint8_t c = text.data[at];
        if (c == '/') {
            if (before == '/')
                return bad(fault, PYDDSI_RULE_NAME_SEGMENT, at);
            if (at + 1 == text.size)
                return bad(fault, PYDDSI_RULE_NAME_END, at);
        } else if (c == '*' || c == '?') {
            out->wild = true;
        } else if (c == '$') {
            if (before != '/' || !is_meta(text, at))
                return bad(fault, PYDDSI_RULE_NAME_META, at);
            out->meta = text.data[at + 1] == 'l' ? PDI_NAME_LIST : PDI_NAME_ID;
            return PYDDSI_OK;
        } else if (!is_word(c)) {
            return bad(fault, PYDDSI_RULE_NAME_CHARACTER, at);
        }
    }
    return PYDDSI_OK;
}

int pdi_name_check(pyddsi_bytes path, size_t limit, pyddsi_fault *fault)
{
    struct pdi_name unused = {0};
    if (limit > PDI_NAME_MAX)
        limit = PDI_NAME_MAX;
    if (path.size > limit)
        return bad(fault, PYDDSI_RULE_NAME_LONG, limit);
    if (path.size == 0)
        return bad(fault, PYDDSI_RULE_NAME_EMPTY, 0);
    if (!is_rooted(path, 0))
        return bad(fault, PYDDSI_RULE_NAME_START, 0);
    return scan(path, 0, 0, &unused, fault);
}

int pdi_name_check_zhe(pyddsi_bytes path, pyddsi_fault *fault)
{
    if (path.size > PDI_NAME_MAX_ZHE)
        return bad(fault, PYDDSI_RULE_NAME_LONG, PDI_NAME_MAX_ZHE);
    if (path.size == 0)
        return bad(fault, PYDDSI_RULE_NAME_EMPTY, 0);
    if (!is_rooted(path, 0))
        return bad(fault, PYDDSI_RULE_NAME_START, 0);
    for (size_t i = 0; i < path.size; i++) {
        uint8_t c = path.data[i];
        if (!is_word(c) && c != '/' && c != '?' && c != '*')
            return bad(fault, PYDDSI_RULE_NAME_CHARACTER, i);
    }
    if (path.data[path.size - 1] == '/')
        return bad(fault, PYDDSI_RULE_NAME_END, path.size - 1);
    return PYDDSI_OK;
}

/* Whether text starts with what reads as a scheme; no further than a path could go. */
static bool has_scheme(pyddsi_bytes text)
{
    size_t i = 0;
    while (i < text.size && i < PDI_NAME_MAX && is_word(text.data[i]))
        i++;
    return i > 0 && begins(text, i, "://");
}

/* The end of the path or tag that starts at `at`: the first of the two stops, or '?{', or the end
 * of text. */
static size_t part_end(pyddsi_bytes text, size_t at, uint8_t stop, uint8_t other)
{
    while (at < text.size && text.data[at] != stop && text.data[at] != other &&
           !begins(text, at, "?{"))
        at++;
    return at;
}

/* The tag that is written from `at` to end, or 0. */
static unsigned tag_find(pyddsi_bytes text, size_t at, size_t end)
{
    for (size_t i = 0; i < TAG_COUNT; i++) {
        if (strlen(tags[i]) == end - at && begins(text, at, tags[i]))
            return 1U << i;
    }
    return 0;
}

/* Reads the tags, if any, at *at and moves *at behind them. */
static int parse_tags(pyddsi_bytes text, size_t *at, struct pdi_name *out, pyddsi_fault *fault)
{
    if (!begins(text, *at, "#"))
        return PYDDSI_OK;
    bool list = begins(text, *at, "#{"), more = true;
    for (*at += list ? 2 : 1; more;) {
        size_t end = part_end(text, *at, list ? ',' : '#', list ? '}' : '#');
        unsigned tag = tag_find(text, *at, end);
        more = list && begins(text, end, ",");
        if (tag == 0 || (list && !more && !begins(text, end, "}")))
            return bad(fault, PYDDSI_RULE_NAME_TAG, *at);
        out->tags |= tag;
        *at = list ? end + 1 : end;
    }
    if (*at < text.size && !begins(text, *at, "?{"))
        return bad(fault, PYDDSI_RULE_NAME_TAG, *at);
    return PYDDSI_OK;
}

/* Reads the predicate, if any, that starts at `at` and ends with the text. */
static int parse_predicate(pyddsi_bytes text, size_t at, struct pdi_name *out, pyddsi_fault *fault)
{
    if (at == text.size)
        return PYDDSI_OK;
    size_t start = at + 2, end = 0;
    for (at = start; at < text.size; at++) {
        if (text.data[at] < 0x20 || text.data[at] > 0x7e)
            return bad(fault, PYDDSI_RULE_NAME_PREDICATE, at);
        if (text.data[at] == '}')
            end = at;
    }
    if (end + 1 != text.size)
        return bad(fault, PYDDSI_RULE_NAME_PREDICATE, end == 0 ? text.size : end + 1);
    out->predicate = (pyddsi_bytes){text.data + start, end - start};
    return PYDDSI_OK;
}

int pdi_name_parse(const char *written, size_t size, struct pdi_name *out, pyddsi_fault *fault)
{
    pyddsi_bytes text = {(const uint8_t *)written, size};
    struct pdi_name name = {0};
    size_t start = begins(text, 0, scheme) ? strlen(scheme) : 0;
    if (start == 0 && has_scheme(text))
        return bad(fault, PYDDSI_RULE_NAME_SCHEME, 0);
    bool rooted = is_rooted(text, start);
    size_t limit = start + PDI_NAME_MAX - (rooted ? 0 : 1);
    if (size > limit)
        return bad(fault, PYDDSI_RULE_NAME_LONG, limit);
    size_t at = part_end(text, start, '#', '#');
    if (at == start)
        return bad(fault, PYDDSI_RULE_NAME_EMPTY, start);
    name.path = (pyddsi_bytes){text.data + start, at - start};
    int status = scan((pyddsi_bytes){text.data, at}, start, rooted ? 0 : '/', &name, fault);
    if (status == PYDDSI_OK)
        status = parse_tags(text, &at, &name, fault);
    if (status == PYDDSI_OK)
        status = parse_predicate(text, at, &name, fault);
    if (status == PYDDSI_OK)
        *out = name;
    return status;
}

/* A text under construction. It cannot outgrow the array, for parse has counted at least as much.
 */
struct draft {
    size_t size;
    char text[PDI_NAME_MAX];
};

static void draft_put(struct draft *draft, const void *bytes, size_t size)
{
    PDI_CHECK(size <= PDI_NAME_MAX - draft->size);
    memcpy(draft->text + draft->size, bytes, size);
    draft->size += size;
}

static void draft_put_text(struct draft *draft, const char *text)
{
    draft_put(draft, text, strlen(text));
}

static void draft_put_path(struct draft *draft, pyddsi_bytes path)
{
    if (!is_rooted(path, 0))
        draft_put_text(draft, "/");
    for (size_t i = 0; i < path.size; i++) {
        if (i < 2 || memcmp(path.data + i - 2, "***", 3) != 0)
            draft_put(draft, path.data + i, 1);
    }
}

static void draft_put_tags(struct draft *draft, unsigned set)
{
    bool list = (set & (set - 1)) != 0;
    const char *before = list ? "#{" : "#";
    for (size_t i = 0; i < TAG_COUNT; i++) {
        if ((set >> i & 1) == 0)
            continue;
        draft_put_text(draft, before);
        draft_put_text(draft, tags[i]);
        before = ",";
    }
    if (list)
        draft_put_text(draft, "}");
}

static int draft_copy(const struct draft *draft, char *out, size_t room, size_t *out_size)
{
    if (draft->size > room)
        return PYDDSI_NO_SPACE;
    memcpy(out, draft->text, draft->size);
    *out_size = draft->size;
    return PYDDSI_OK;
}

int pdi_name_canonical(const char *text, size_t size, char *out, size_t room, size_t *out_size,
                       pyddsi_fault *fault)
{
    struct pdi_name name;
    struct draft draft = {.size = 0};
    int status = pdi_name_parse(text, size, &name, fault);
    if (status != PYDDSI_OK)
        return status;
    draft_put_path(&draft, name.path);
    draft_put_tags(&draft, name.tags);
    if (name.predicate.size > 0) {
        draft_put_text(&draft, "?{");
        draft_put(&draft, name.predicate.data, name.predicate.size);
        draft_put_text(&draft, "}");
    }
    return draft_copy(&draft, out, room, out_size);
}

int pdi_name_wire(const char *text, size_t size, char *out, size_t room, size_t *out_size,
                  pyddsi_fault *fault)
{
    struct pdi_name name;
    struct draft draft = {.size = 0};
    int status = pdi_name_parse(text, size, &name, fault);
    if (status != PYDDSI_OK)
        return status;
    draft_put_path(&draft, name.path);
    return draft_copy(&draft, out, room, out_size);
}
