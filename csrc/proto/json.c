/* json.c - one member of a JSON text, found without a tree.
 *
 * Three parts that need each other: numbers, texts, and the walk from bracket to bracket. That is why it is long. */
#include "proto/json.h"

#include <math.h>
#include <string.h>

enum {
    DIGITS_MAX = 19,       /* decimal digits that fit 64 bits */
    EXPONENT_LIMIT = 9999, /* far beyond every double */
    POWER_MAX = 22,        /* 10 to this power is a double exactly */
};

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* The value of a hexadecimal digit; 16 if it is none. */
static unsigned hex(uint8_t c)
{
    unsigned letter = (unsigned)(c | 0x20) - 'a';
    return is_digit(c) ? (unsigned)(c - '0') : letter < 6 ? letter + 10 : 16;
}

/* ---- numbers ----------------------------------------------------------------------------------- */

/* digits * 10^exponent. Zeros at the end are moved into the exponent first, so that all ways to
 * write a value come the same way from here on. */
static double power(uint64_t digits, int exponent)
{
    static const double powers[POWER_MAX + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (digits == 0) {
        return 0;
    }
    while (digits % 10 == 0) { /* DIGITS_MAX times at most */
        digits /= 10;
        exponent++;
    }
    if (exponent > 330 || exponent < -360) {
        return exponent > 0 ? (double)INFINITY : 0;
    }
    double value = (double)digits;
    for (; exponent > POWER_MAX; exponent -= POWER_MAX) {
        value *= powers[POWER_MAX];
    }
    for (; exponent < -POWER_MAX; exponent += POWER_MAX) {
        value /= powers[POWER_MAX];
    }
    return exponent < 0 ? value / powers[-exponent] : value * powers[exponent];
}

/* Digits that have been read so far, and what is to be made of them. */
struct decimal {
    uint64_t digits;
    int count;    /* of digits, without zeros in front */
    int exponent; /* of ten */
};

/* Reads a run of digits; false if there is none. Those beyond DIGITS_MAX count only by their
 * place. */
static bool read_digits(const uint8_t **at, const uint8_t *end, struct decimal *decimal,
                        bool fraction)
{
    const uint8_t *p = *at;
    for (; p != end && is_digit(*p); p++) {
        bool kept = decimal->count < DIGITS_MAX;
        if (kept) {
            decimal->digits = decimal->digits * 10 + (uint64_t)(*p - '0');
            decimal->count += decimal->digits != 0;
        }
        decimal->exponent += !kept - fraction;
    }
    bool found = p != *at;
    *at = p;
    return found;
}

/* Reads an exponent, of which the letter has been read. */
static bool read_exponent(const uint8_t **at, const uint8_t *end, int *exponent)
{
    bool minus = *at != end && **at == '-';
    int value = 0;
    if (*at != end && (**at == '-' || **at == '+')) {
        ++*at;
    }
    const uint8_t *p = *at;
    for (; p != end && is_digit(*p); p++) {
        value = value < EXPONENT_LIMIT ? value * 10 + (*p - '0') : value;
    }
    bool found = p != *at;
    *at = p;
    *exponent += minus ? -value : value;
    return found;
}

bool pdi_json_number(const uint8_t **at, const uint8_t *end, double *number)
{
    const uint8_t *p = *at;
    struct decimal decimal = {0};
    bool minus = p != end && *p == '-';
    p += minus;
    const uint8_t *first = p;
    if (!read_digits(&p, end, &decimal, false) || (*first == '0' && p - first > 1)) {
        return false;
    }
    if (p != end && *p == '.') {
        p++;
        if (!read_digits(&p, end, &decimal, true)) {
            return false;
        }
    }
    if (p != end && (*p | 0x20) == 'e') {
        p++;
        if (!read_exponent(&p, end, &decimal.exponent)) {
            return false;
        }
    }
    double value = power(decimal.digits, decimal.exponent);
    *number = minus ? -value : value;
    *at = p;
    return true;
}

/* ---- texts ------------------------------------------------------------------------------------- */

/* Four hexadecimal digits; 0x10000 if they are none. */
static unsigned hex4(const uint8_t *at, const uint8_t *end)
{
    unsigned value = 0;
    if (end - at < 4) {
        return 0x10000;
    }
    for (int i = 0; i < 4; i++) {
        unsigned digit = hex(at[i]);
        if (digit == 16) {
            return 0x10000;
        }
        value = value << 4 | digit;
    }
    return value;
}

/* Whether what follows a backslash is an escape. */
static bool is_escape(const uint8_t *at, const uint8_t *end)
{
    static const char letters[] = "\"\\/bfnrt";
    return *at == 'u' ? hex4(at + 1, end) < 0x10000
                      : memchr(letters, *at, sizeof letters - 1) != NULL;
}

/* Reads a text, of which the quote in front has been read, to behind the quote at its end; false if
 * it is not valid. */
static bool read_text(const uint8_t **at, const uint8_t *end, struct pdi_json *text)
{
    const uint8_t *p = *at;
    *text = (struct pdi_json){.kind = PDI_JSON_TEXT, .text.data = p};
    for (; p != end && *p != '"'; p++) {
        if (*p < 0x20) {
            return false;
        }
        if (*p != '\\') {
            continue;
        }
        text->escaped = true;
        p++;
        if (p == end || !is_escape(p, end)) {
            return false;
        }
    }
    if (p == end) {
        return false;
    }
    text->text.size = (size_t)(p - text->text.data);
    *at = p + 1;
    return true;
}

/* A text that is read byte by byte. */
struct cursor {
    const uint8_t *at;
    const uint8_t *end;
    bool escaped;
    uint8_t waiting[4]; /* bytes of one character, the last one first */
    unsigned count;
};

static struct cursor cursor_of(const struct pdi_json *text)
{
    return (struct cursor){.at = text->text.data,
                           .end = text->text.size == 0 ? text->text.data
                                                       : text->text.data + text->text.size,
                           .escaped = text->escaped};
}

/* Puts the bytes of a character in waiting, in UTF-8. */
static void put_character(struct cursor *cursor, unsigned character)
{
    unsigned tails = character < 0x80 ? 0 : character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
    static const uint8_t lead[4] = {0, 0xc0, 0xe0, 0xf0};
    for (unsigned i = 0; i < tails; i++) {
        cursor->waiting[cursor->count++] = (uint8_t)(0x80 | (character & 0x3f));
        character >>= 6;
    }
    cursor->waiting[cursor->count++] = (uint8_t)(lead[tails] | character);
}

/* The character of a \u escape, of which the u has been read: four digits, or two times four. */
static unsigned read_escape(struct cursor *cursor)
{
    unsigned character = hex4(cursor->at, cursor->end);
    cursor->at += 4;
    if (character - 0xd800 < 0x400 && cursor->end - cursor->at >= 6 && cursor->at[0] == '\\' &&
        cursor->at[1] == 'u') {
        unsigned low = hex4(cursor->at + 2, cursor->end);
        if (low - 0xdc00 < 0x400) {
            cursor->at += 6;
            return 0x10000 + ((character - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    return character;
}

/* The next byte of a valid text; -1 behind the last. */
static int next_byte(struct cursor *cursor)
{
    static const char letters[] = "bfnrt";
    static const char meant[] = "\b\f\n\r\t";
    if (cursor->count > 0) {
        return cursor->waiting[--cursor->count];
    }
    if (cursor->at == cursor->end) {
        return -1;
    }
    uint8_t c = *cursor->at++;
    if (c != '\\' || !cursor->escaped) {
        return c;
    }
    c = *cursor->at++;
    if (c == 'u') {
        put_character(cursor, read_escape(cursor));
        return cursor->waiting[--cursor->count];
    }
    const char *letter = memchr(letters, c, sizeof letters - 1);
    return letter != NULL ? meant[letter - letters] : c;
}

int pdi_json_compare(const struct pdi_json *a, const struct pdi_json *b)
{
    struct cursor one = cursor_of(a);
    struct cursor two = cursor_of(b);
    for (;;) { /* ends with the shorter of the two at the latest */
        int byte = next_byte(&one);
        int other = next_byte(&two);
        if (byte != other || byte < 0) {
            return byte - other;
        }
    }
}

/* ---- the walk ---------------------------------------------------------------------------------- */

/* What may come next. */
enum want {
    WANT_VALUE,
    WANT_VALUE_OR_END, /* after '[' */
    WANT_KEY,
    WANT_KEY_OR_END, /* after '{' */
    WANT_COMMA_OR_END,
};

struct walk {
    const uint8_t *at;
    const uint8_t *end;
    pyddsi_bytes path;
    uint64_t objects; /* bit i: the bracket opened as the i-th is '{' */
    unsigned depth;   /* open brackets */
    unsigned met;     /* parts of the path that the objects we are in have met */
    bool wanted;      /* the value that comes next is the one */
    enum want want;
    struct pdi_json found;
};

/* The part-th part of the path, and whether it is the last; no such part has no bytes. */
static struct pdi_json path_part(pyddsi_bytes path, unsigned part, bool *last)
{
    const uint8_t *at = path.data;
    const uint8_t *end = path.data + path.size;
    const uint8_t *dot = memchr(at, '.', path.size);
    for (; part > 0 && dot != NULL; part--) {
        at = dot + 1;
        dot = memchr(at, '.', (size_t)(end - at));
    }
    *last = dot == NULL;
    return (struct pdi_json){.kind = PDI_JSON_TEXT,
                             .text = {at, (size_t)((dot != NULL ? dot : end) - at)}};
}

/* A name was read. It can only meet a part of the path if the object that it stands in is the value
 * of what met the part before. */
static void meet(struct walk *walk, const struct pdi_json *key)
{
    bool last = false;
    if (walk->met >= walk->depth) { /* the name before in this object had met something */
        walk->met = walk->depth - 1;
    }
    if (walk->met + 1 != walk->depth) {
        return;
    }
    struct pdi_json part = path_part(walk->path, walk->met, &last);
    if (pdi_json_compare(&part, key) == 0) {
        walk->found.kind = PDI_JSON_NOTHING; /* whatever the same name gave before */
        walk->wanted = last;
        walk->met += !last;
    }
}

static bool read_word(struct walk *walk, const char *word, size_t size)
{
    if ((size_t)(walk->end - walk->at) < size || memcmp(walk->at, word, size) != 0) {
        return false;
    }
    walk->at += size;
    return true;
}

/* Reads a name and the colon after it. */
static bool read_key(struct walk *walk)
{
    struct pdi_json key;
    if (*walk->at != '"') {
        return false;
    }
    walk->at++;
    if (!read_text(&walk->at, walk->end, &key)) {
        return false;
    }
    meet(walk, &key);
    while (walk->at != walk->end && is_space(*walk->at)) {
        walk->at++;
    }
    walk->want = WANT_VALUE;
    return walk->at != walk->end && read_word(walk, ":", 1);
}

/* Reads a value; of an object or an array only the bracket. */
static bool read_value(struct walk *walk)
{
    struct pdi_json value = {.kind = PDI_JSON_OTHER};
    uint8_t c = *walk->at;
    bool valid = true;
    walk->want = WANT_COMMA_OR_END;
    if (c == '{' || c == '[') {
        uint64_t bit = UINT64_C(1) << walk->depth % PDI_JSON_DEPTH_MAX;
        walk->at++;
        walk->objects = c == '{' ? walk->objects | bit : walk->objects & ~bit;
        walk->want = c == '{' ? WANT_KEY_OR_END : WANT_VALUE_OR_END;
        valid = walk->depth++ < PDI_JSON_DEPTH_MAX;
    } else if (c == '"') {
        walk->at++;
        valid = read_text(&walk->at, walk->end, &value);
    } else if (c == 't') {
        value.kind = PDI_JSON_TRUE;
        valid = read_word(walk, "true", 4);
    } else if (c == 'f') {
        value.kind = PDI_JSON_FALSE;
        valid = read_word(walk, "false", 5);
    } else if (c == 'n') {
        valid = read_word(walk, "null", 4);
    } else {
        value.kind = PDI_JSON_NUMBER;
        valid = pdi_json_number(&walk->at, walk->end, &value.number);
    }
    if (walk->wanted) {
        walk->found = value;
        walk->wanted = false;
    }
    return valid;
}

/* Reads what comes next, at a byte that is no space. */
static bool step(struct walk *walk)
{
    bool object = walk->depth > 0 && (walk->objects >> (walk->depth - 1) & 1) != 0;
    bool may_end = walk->want == WANT_KEY_OR_END || walk->want == WANT_VALUE_OR_END ||
                   walk->want == WANT_COMMA_OR_END;
    if (may_end && walk->depth > 0 && *walk->at == (object ? '}' : ']')) {
        walk->at++;
        walk->depth--;
        walk->want = WANT_COMMA_OR_END;
        return true;
    }
    switch (walk->want) {
    case WANT_COMMA_OR_END:
        walk->want = object ? WANT_KEY : WANT_VALUE;
        return walk->depth > 0 && read_word(walk, ",", 1);
    case WANT_KEY:
    case WANT_KEY_OR_END:
        return read_key(walk);
    default:
        return read_value(walk);
    }
}

struct pdi_json pdi_json_find(pyddsi_bytes json, pyddsi_bytes path)
{
    struct walk walk = {.at = json.data, .end = json.data, .path = path};
    if (json.size > 0) {
        walk.end += json.size;
    }
    for (;;) { /* each round reads a byte at least */
        while (walk.at != walk.end && is_space(*walk.at)) {
            walk.at++;
        }
        if (walk.at == walk.end) {
            break;
        }
        if (!step(&walk)) {
            return (struct pdi_json){.kind = PDI_JSON_NOTHING};
        }
    }
    if (walk.depth != 0 || walk.want != WANT_COMMA_OR_END) {
        walk.found.kind = PDI_JSON_NOTHING;
    }
    return walk.found;
}
