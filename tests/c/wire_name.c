/* wire_name.c - which texts are names, where the others go wrong, and what is canonical.
 *
 * Every text is handed over in memory that ends where the text ends, so that a sanitizer sees a
 * byte read behind it.
 */
#include "wire/name.h"

#include <stdlib.h>

#include "test.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static char *exact(const char *text, size_t size)
{
    char *copy = malloc(size + 1);
    if (copy == NULL)
        abort();
    memcpy(copy + 1, text, size);
    return copy;
}

static int check(const char *text, size_t size, size_t limit, pyddsi_fault *fault)
{
    char *copy = exact(text, size);
    int status = pdi_name_check((pyddsi_bytes){(uint8_t *)copy + 1, size}, limit, fault);
    free(copy);
    return status;
}

/* Parses a copy; the views of out point into text. */
static int parse(const char *text, size_t size, struct pdi_name *out, pyddsi_fault *fault)
{
    char *copy = exact(text, size);
    int status = pdi_name_parse(copy + 1, size, out, fault);
    if (status == PYDDSI_OK) {
        const uint8_t *from = (uint8_t *)copy + 1, *to = (const uint8_t *)text;
        out->path.data = to + (out->path.data - from);
        if (out->predicate.data != NULL)
            out->predicate.data = to + (out->predicate.data - from);
    }
    free(copy);
    return status;
}

/* Compares a fault with what is wanted, and shows the text if it differs. */
static void check_fault(const char *text, int status, pyddsi_fault fault, pyddsi_fault wanted)
{
    char got_text[256], wanted_text[256];
    snprintf(got_text, sizeof got_text, "%d %.80s: rule %d at %zu", status, text, fault.rule,
             fault.at);
    snprintf(wanted_text, sizeof wanted_text, "%d %.80s: rule %d at %zu",
             wanted.rule == 0 ? PYDDSI_OK : PYDDSI_BAD_INPUT, text, wanted.rule, wanted.at);
    CHECK_TEXT(got_text, wanted_text);
}

struct fault_row {
    const char *text;
    pyddsi_fault fault;
};

/* If this failed, a valid name from the network would be refused, or an invalid one taken. */
static void test_wire_paths(void)
{
    static const struct fault_row rows[] = {
        {"/a", {0, 0}},
        {"/plant/robot-7/Arm_2", {0, 0}},
        {"**", {0, 0}},
        {"**/a", {0, 0}},
        {"**a", {0, 0}},
        {"/?", {0, 0}},
        {"/a***b", {0, 0}},
        {"/$ls", {0, 0}},
        {"**/$ls", {0, 0}},
        {"", {PYDDSI_RULE_NAME_EMPTY, 0}},
        {"a", {PYDDSI_RULE_NAME_START, 0}},
        {"*", {PYDDSI_RULE_NAME_START, 0}},
        {"*/a", {PYDDSI_RULE_NAME_START, 0}},
        {"?/a", {PYDDSI_RULE_NAME_START, 0}},
        {"$ls", {PYDDSI_RULE_NAME_START, 0}},
        {"/", {PYDDSI_RULE_NAME_END, 0}},
        {"/a/", {PYDDSI_RULE_NAME_END, 2}},
        {"//", {PYDDSI_RULE_NAME_SEGMENT, 1}},
        {"//a", {PYDDSI_RULE_NAME_SEGMENT, 1}},
        {"/a//b", {PYDDSI_RULE_NAME_SEGMENT, 3}},
        {"/a b", {PYDDSI_RULE_NAME_CHARACTER, 2}},
        {"/\xc3\xa9", {PYDDSI_RULE_NAME_CHARACTER, 1}},
        {"/a#transient", {PYDDSI_RULE_NAME_CHARACTER, 2}},
        {"/a?{x}", {PYDDSI_RULE_NAME_CHARACTER, 3}},
        {"/$", {PYDDSI_RULE_NAME_META, 1}},
        {"/$ls/a", {PYDDSI_RULE_NAME_META, 1}},
        {"/a$ls", {PYDDSI_RULE_NAME_META, 2}},
        {"**$ls", {PYDDSI_RULE_NAME_META, 2}},
        {"/$$ls", {PYDDSI_RULE_NAME_META, 1}},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        pyddsi_fault fault = {0, 0};
        int status = check(rows[i].text, strlen(rows[i].text), PDI_NAME_MAX, &fault);
        check_fault(rows[i].text, status, fault, rows[i].fault);
    }
}

/* If this failed, some byte value would pass in a name that no other part of the system expects. */
static void test_every_byte_value(void)
{
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_?*";
    for (int c = 0; c < 256; c++) {
        for (size_t at = 1; at <= 4; at++) {
            char text[] = "/abcd";
            pyddsi_fault fault = {0, 0}, wanted = {0, 0};
            text[at] = (char)c;
            if (c == '/' && at == 1)
                wanted = (pyddsi_fault){PYDDSI_RULE_NAME_SEGMENT, at};
            else if (c == '/' && at == 4)
                wanted = (pyddsi_fault){PYDDSI_RULE_NAME_END, at};
            else if (c == '$')
                wanted = (pyddsi_fault){PYDDSI_RULE_NAME_META, at};
            else if (c != '/' && memchr(good, c, sizeof good - 1) == NULL)
                wanted = (pyddsi_fault){PYDDSI_RULE_NAME_CHARACTER, at};
            int status = check(text, 5, PDI_NAME_MAX, &fault);
            check_fault(text, status, fault, wanted);
        }
    }
}

/* Says whether a path is valid, segment by segment: the rules once more in another order. */
static bool is_valid(const char *text)
{
    bool last = false;
    if (text[0] == '/')
        text++;
    else if (strncmp(text, "**", 2) != 0)
        return false;
    for (; !last; text += strcspn(text, "/") + 1) {
        size_t size = strcspn(text, "/");
        last = text[size] == '\0';
        if (size == 0)
            return false;
        if (last && (strcmp(text, "$ls") == 0 || strcmp(text, "$id") == 0))
            return true;
        if (strspn(text, "als?*") < size)
            return false;
    }
    return true;
}

/* If this failed, some short path would be judged otherwise than the rules say. */
static void test_all_short_paths(void)
{
    static const char alphabet[] = "a/*?$ls.";
    enum { LETTERS = sizeof alphabet - 1, SIZE = 6 };
    size_t wrong = 0, valid = 0;
    for (size_t size = 1, count = LETTERS; size <= SIZE; size++, count *= LETTERS) {
        for (size_t n = 0; n < count; n++) {
            char text[SIZE + 1] = {0};
            pyddsi_fault fault = {0, 0};
            for (size_t i = 0, rest = n; i < size; i++, rest /= LETTERS)
                text[i] = alphabet[rest % LETTERS];
            pyddsi_bytes path = {(uint8_t *)text, size};
            bool good = pdi_name_check(path, PDI_NAME_MAX, &fault) == PYDDSI_OK;
            wrong += good != is_valid(text) || fault.at >= size;
            valid += good;
        }
    }
    CHECK_EQ(wrong, 0);
    CHECK(valid > 5000);
}

/* 002-21: If this failed, a name could outgrow the buffers that are made for the longest one. */
static void test_limits(void)
{
    static char text[PDI_NAME_MAX + 16], out[PDI_NAME_MAX];
    struct pdi_name name;
    pyddsi_fault fault = {0, 0};
    size_t out_size = 0;
    memset(text, 'a', sizeof text);
    text[0] = '/';
    CHECK_EQ(check(text, PDI_NAME_MAX, PDI_NAME_MAX, &fault), PYDDSI_OK);
    CHECK_EQ(check(text, PDI_NAME_MAX, SIZE_MAX, &fault), PYDDSI_OK);
    CHECK_EQ(check(text, 100, 100, &fault), PYDDSI_OK);
    CHECK_EQ(parse(text, PDI_NAME_MAX, &name, &fault), PYDDSI_OK);
    CHECK_EQ(parse(text + 1, PDI_NAME_MAX - 1, &name, &fault), PYDDSI_OK);
    int status = check(text, PDI_NAME_MAX + 1, SIZE_MAX, &fault);
    check_fault("/aa", status, fault, (pyddsi_fault){PYDDSI_RULE_NAME_LONG, PDI_NAME_MAX});
    status = check(text, 101, 100, &fault);
    check_fault("/aa", status, fault, (pyddsi_fault){PYDDSI_RULE_NAME_LONG, 100});
    status = check(text, 1, 0, &fault);
    check_fault("/", status, fault, (pyddsi_fault){PYDDSI_RULE_NAME_LONG, 0});
    status = parse(text, PDI_NAME_MAX + 1, &name, &fault);
    check_fault("/aa", status, fault, (pyddsi_fault){PYDDSI_RULE_NAME_LONG, PDI_NAME_MAX});
    status = parse(text + 1, PDI_NAME_MAX, &name, &fault);
    check_fault("aa", status, fault, (pyddsi_fault){PYDDSI_RULE_NAME_LONG, PDI_NAME_MAX - 1});
    memcpy(text + PDI_NAME_MAX + 2, "://", 3);
    status = parse(text + 1, PDI_NAME_MAX + 4, &name, &fault);
    check_fault("a://", status, fault, (pyddsi_fault){PYDDSI_RULE_NAME_LONG, PDI_NAME_MAX - 1});

    memset(text, 'a', sizeof text);
    memcpy(text, "zenoh:///", 9);
    CHECK_EQ(parse(text, PDI_NAME_MAX + 8, &name, &fault), PYDDSI_OK);
    CHECK_EQ(name.path.size, PDI_NAME_MAX);
    status = parse(text, PDI_NAME_MAX + 9, &name, &fault);
    check_fault(text, status, fault, (pyddsi_fault){PYDDSI_RULE_NAME_LONG, PDI_NAME_MAX + 8});
    text[8] = 'a';
    status = pdi_name_canonical(text, PDI_NAME_MAX + 7, out, PDI_NAME_MAX, &out_size, &fault);
    CHECK_EQ(status, PYDDSI_OK);
    CHECK_EQ(out_size, PDI_NAME_MAX);
    memcpy(text, "/a#transient?{", 14);
    text[PDI_NAME_MAX - 1] = '}';
    status = pdi_name_canonical(text, PDI_NAME_MAX, out, PDI_NAME_MAX, &out_size, &fault);
    CHECK_EQ(status, PYDDSI_OK);
    CHECK(out_size == PDI_NAME_MAX && memcmp(text, out, out_size) == 0);
}

/* If this failed, a name, a tag or a predicate that a person wrote would be lost or misread. */
static void test_texts_taken_apart(void)
{
    enum { P = PDI_NAME_PERSISTENT, T = PDI_NAME_TRANSIENT, U = PDI_NAME_UNRELIABLE };
    static const struct {
        const char *text, *path, *predicate;
        unsigned tags;
        enum pdi_name_meta meta;
        bool wild;
    } rows[] = {
        {"plant/robot", "plant/robot", "", 0, PDI_NAME_PLAIN, false},
        {"zenoh:///plant", "/plant", "", 0, PDI_NAME_PLAIN, false},
        {"zenoh", "zenoh", "", 0, PDI_NAME_PLAIN, false},
        {"**/a", "**/a", "", 0, PDI_NAME_PLAIN, true},
        {"?", "?", "", 0, PDI_NAME_PLAIN, true},
        {"*/$id", "*/$id", "", 0, PDI_NAME_ID, true},
        {"$ls", "$ls", "", 0, PDI_NAME_LIST, false},
        {"/a#transient", "/a", "", T, PDI_NAME_PLAIN, false},
        {"/a#{persistent}", "/a", "", P, PDI_NAME_PLAIN, false},
        {"/a#{transient,unreliable}", "/a", "", T | U, PDI_NAME_PLAIN, false},
        {"/a#{unreliable,persistent,unreliable}", "/a", "", P | U, PDI_NAME_PLAIN, false},
        {"/a?{}", "/a", "", 0, PDI_NAME_PLAIN, false},
        {"/a?{x > 3}", "/a", "x > 3", 0, PDI_NAME_PLAIN, false},
        {"/a??{x}", "/a?", "x", 0, PDI_NAME_PLAIN, true},
        {"/a?{a{b}c?{d}#}}", "/a", "a{b}c?{d}#}", 0, PDI_NAME_PLAIN, false},
        {"/a#unreliable?{ ~ }", "/a", " ~ ", U, PDI_NAME_PLAIN, false},
        {"zenoh://a/$ls#{transient}?{#x}", "a/$ls", "#x", T, PDI_NAME_LIST, false},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        const char *path = rows[i].path, *predicate = rows[i].predicate;
        struct pdi_name name = {0};
        pyddsi_fault fault = {0, 0};
        int status = parse(rows[i].text, strlen(rows[i].text), &name, &fault);
        check_fault(rows[i].text, status, fault, (pyddsi_fault){0, 0});
        CHECK_EQ(name.path.size, strlen(path));
        CHECK(strncmp((const char *)name.path.data, path, strlen(path)) == 0);
        CHECK_EQ(name.predicate.size, strlen(predicate));
        CHECK(name.predicate.size == 0 ||
              strncmp((const char *)name.predicate.data, predicate, strlen(predicate)) == 0);
        CHECK_EQ(name.tags, rows[i].tags);
        CHECK_EQ(name.meta, rows[i].meta);
        CHECK_EQ(name.wild, rows[i].wild);
    }
}

/* If this failed, a wrong text would be taken for a name, or its author sent to the wrong place. */
static void test_texts_with_faults(void)
{
    static const struct fault_row rows[] = {
        {"", {PYDDSI_RULE_NAME_EMPTY, 0}},
        {"zenoh://", {PYDDSI_RULE_NAME_EMPTY, 8}},
        {"#transient", {PYDDSI_RULE_NAME_EMPTY, 0}},
        {"zenoh://?{x}", {PYDDSI_RULE_NAME_EMPTY, 8}},
        {"/", {PYDDSI_RULE_NAME_END, 0}},
        {"zenoh:///", {PYDDSI_RULE_NAME_END, 8}},
        {"plant/", {PYDDSI_RULE_NAME_END, 5}},
        {"plant/#transient", {PYDDSI_RULE_NAME_END, 5}},
        {"//plant", {PYDDSI_RULE_NAME_SEGMENT, 1}},
        {"zenoh:////plant", {PYDDSI_RULE_NAME_SEGMENT, 9}},
        {"http://plant", {PYDDSI_RULE_NAME_SCHEME, 0}},
        {"Zenoh://plant", {PYDDSI_RULE_NAME_SCHEME, 0}},
        {"://plant", {PYDDSI_RULE_NAME_CHARACTER, 0}},
        {"zenoh:/plant", {PYDDSI_RULE_NAME_CHARACTER, 5}},
        {"/a://plant", {PYDDSI_RULE_NAME_CHARACTER, 2}},
        {"zenoh://zenoh://a", {PYDDSI_RULE_NAME_CHARACTER, 13}},
        {"plant robot", {PYDDSI_RULE_NAME_CHARACTER, 5}},
        {"zenoh://a$ls", {PYDDSI_RULE_NAME_META, 9}},
        {"$ls/a", {PYDDSI_RULE_NAME_META, 0}},
        {"/a#", {PYDDSI_RULE_NAME_TAG, 3}},
        {"/a#{}", {PYDDSI_RULE_NAME_TAG, 4}},
        {"/a#urgent", {PYDDSI_RULE_NAME_TAG, 3}},
        {"/a#transien", {PYDDSI_RULE_NAME_TAG, 3}},
        {"/a#transientx", {PYDDSI_RULE_NAME_TAG, 3}},
        {"/a#transient,unreliable", {PYDDSI_RULE_NAME_TAG, 3}},
        {"/a#transient ", {PYDDSI_RULE_NAME_TAG, 3}},
        {"/a#transient#unreliable", {PYDDSI_RULE_NAME_TAG, 12}},
        {"/a#transient?", {PYDDSI_RULE_NAME_TAG, 3}},
        {"/a#?{x}", {PYDDSI_RULE_NAME_TAG, 3}},
        {"/a#{transient", {PYDDSI_RULE_NAME_TAG, 4}},
        {"/a#{transient?{x}", {PYDDSI_RULE_NAME_TAG, 4}},
        {"/a#{transient,}", {PYDDSI_RULE_NAME_TAG, 14}},
        {"/a#{,transient}", {PYDDSI_RULE_NAME_TAG, 4}},
        {"/a#{transient, unreliable}", {PYDDSI_RULE_NAME_TAG, 14}},
        {"/a#{transient}x", {PYDDSI_RULE_NAME_TAG, 14}},
        {"zenoh://a#x", {PYDDSI_RULE_NAME_TAG, 10}},
        {"/a?{x", {PYDDSI_RULE_NAME_PREDICATE, 5}},
        {"/a?{x} ", {PYDDSI_RULE_NAME_PREDICATE, 6}},
        {"/a?{x}y", {PYDDSI_RULE_NAME_PREDICATE, 6}},
        {"/a?{x\ty}", {PYDDSI_RULE_NAME_PREDICATE, 5}},
        {"/a?{\x7f}", {PYDDSI_RULE_NAME_PREDICATE, 4}},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        static const struct pdi_name before = {.tags = 77};
        struct pdi_name name = before;
        pyddsi_fault fault = {0, 0};
        int status = parse(rows[i].text, strlen(rows[i].text), &name, &fault);
        check_fault(rows[i].text, status, fault, rows[i].fault);
        CHECK_EQ(name.tags, before.tags);
    }
}

/* The canonical text of a text, or its wire form, as a string. */
static const char *rewritten(const char *text, bool whole)
{
    static char out[PDI_NAME_MAX + 1];
    pyddsi_fault fault = {0, 0};
    size_t size = 0;
    char *copy = exact(text, strlen(text));
    int status = (whole ? pdi_name_canonical : pdi_name_wire)(copy + 1, strlen(text), out,
                                                              PDI_NAME_MAX, &size, &fault);
    free(copy);
    CHECK_EQ(status, PYDDSI_OK);
    out[size] = '\0';
    return out;
}

/* If this failed, one resource would be two for us, or two would be one. */
static void test_canonical(void)
{
    static const struct {
        const char *text, *canonical, *wire;
    } rows[] = {
        {"plant/robot", "/plant/robot", "/plant/robot"},
        {"zenoh://plant/robot", "/plant/robot", "/plant/robot"},
        {"zenoh:///plant/robot", "/plant/robot", "/plant/robot"},
        {"**", "**", "**"},
        {"*", "/*", "/*"},
        {"*****a***/*b**", "**a**/*b**", "**a**/*b**"},
        {"?", "/?", "/?"},
        {"$id", "/$id", "/$id"},
        {"a#{transient}", "/a#transient", "/a"},
        {"a#unreliable", "/a#unreliable", "/a"},
        {"a#{unreliable,transient,persistent}", "/a#{persistent,transient,unreliable}", "/a"},
        {"a#{unreliable,unreliable}", "/a#unreliable", "/a"},
        {"a#{unreliable,transient,unreliable}?{***}", "/a#{transient,unreliable}?{***}", "/a"},
        {"a?{}", "/a", "/a"},
        {"**??{ {x} }", "**??{ {x} }", "**?"},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        CHECK_TEXT(rewritten(rows[i].text, true), rows[i].canonical);
        CHECK_TEXT(rewritten(rows[i].canonical, true), rows[i].canonical);
        CHECK_TEXT(rewritten(rows[i].text, false), rows[i].wire);
        CHECK_TEXT(rewritten(rows[i].wire, true), rows[i].wire);
        pyddsi_fault fault = {0, 0};
        int status = check(rows[i].wire, strlen(rows[i].wire), PDI_NAME_MAX, &fault);
        check_fault(rows[i].wire, status, fault, (pyddsi_fault){0, 0});
    }
}

/* If this failed, a caller with a small buffer would get half a name, or lose what was in it. */
static void test_canonical_room(void)
{
    static const char text[] = "a#{unreliable,persistent}";
    char out[] = "################################";
    size_t size = 99;
    pyddsi_fault fault = {7, 7};
    CHECK_EQ(pdi_name_canonical(text, 25, out, 25, &size, &fault), PYDDSI_NO_SPACE);
    CHECK_EQ(pdi_name_wire(text, 25, out, 1, &size, &fault), PYDDSI_NO_SPACE);
    CHECK_EQ(pdi_name_canonical("a/", 2, out, 32, &size, &fault), PYDDSI_BAD_INPUT);
    CHECK_EQ(pdi_name_wire("a b", 3, out, 32, &size, &fault), PYDDSI_BAD_INPUT);
    CHECK_TEXT(out, "################################");
    CHECK_EQ(size, 99);
    CHECK_EQ(pdi_name_wire(text, 25, out, 2, &size, &fault), PYDDSI_OK);
    CHECK_EQ(size, 2);
    CHECK_TEXT(out, "/a##############################");
    CHECK_EQ(pdi_name_canonical(text, 25, out, 26, &size, &fault), PYDDSI_OK);
    CHECK_EQ(size, 26);
    CHECK_TEXT(out, "/a#{persistent,unreliable}######");
    memcpy(out, "x****y##", 8);
    CHECK_EQ(pdi_name_canonical(out, 6, out, 6, &size, &fault), PYDDSI_OK);
    CHECK_EQ(size, 5);
    CHECK(memcmp(out, "/x**yy##", 8) == 0);
}

int main(void)
{
    test_wire_paths();
    test_every_byte_value();
    test_all_short_paths();
    test_limits();
    test_texts_taken_apart();
    test_texts_with_faults();
    test_canonical();
    test_canonical_room();
    return test_result();
}
