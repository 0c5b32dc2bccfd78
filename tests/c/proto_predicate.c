/* proto/predicate.h and proto/json.h: tables by hand, random expressions with known values, random
 * objects with known members, and bytes that are neither. It is long, being tables. */
#include "proto/predicate.h"

#include <stdlib.h>

#include "base/rand.h"
#include "proto/json.h"
#include "test.h"

#define SEEDS 4000

static pyddsi_bytes bytes_of(const char *text)
{
    return (pyddsi_bytes){(const uint8_t *)text, strlen(text)};
}

/* Whether the sample with this payload, of resource 21, is wanted; -1 if the text is refused. */
static int holds(const char *text, const char *payload)
{
    struct pdi_predicate predicate;
    pyddsi_fault fault = {0};
    if (pdi_predicate_init(&predicate, text, strlen(text), &fault) != PYDDSI_OK) {
        return -1;
    }
    return pdi_predicate_holds(&predicate, 42, bytes_of(payload));
}

/* 002-16: if it failed, a selection would let through what it does not want, or keep back what it
 * wants. */
static void test_by_hand(void)
{
    static const char light[] =
        "{\"lum\": 3.5, \"on\": true, \"off\": false, \"name\": \"hall\", \"none\": null, "
        "\"zero\": 0, \"empty\": \"\", \"list\": [1], "
        "\"at\": {\"room\": {\"no\": 7}, \"x\": -1e2}}";
    static const struct {
        const char *text;
        int holds;
    } rows[] = {
        {"", 1},
        {"  ", 1},
        {"lum > 0", 1},
        {"lum>0", 1},
        {"lum > 3.5", 0},
        {"lum >= 3.5", 1},
        {"lum < 3.6", 1},
        {"lum <= 3.4", 0},
        {"lum = 35e-1", 1},
        {"lum == +3.50", 1},
        {"lum != 3.5", 0},
        {"lum != 3", 1},
        {"3.5 = lum", 1},
        {"name = 'hall'", 1},
        {"name = \"hall\"", 1},
        {"name = 'Hall'", 0},
        {"name < 'hallo' and name > 'hal'", 1},
        {"name > ''", 1},
        {"name = 3", 0},
        {"name != 3", 0},
        {"lum != 'hall'", 0},
        {"not name != 3", 1},
        {"gone = 1", 0},
        {"gone != 1", 0},
        {"not gone = 1", 1},
        {"gone = gone", 0},
        {"gone", 0},
        {"not gone", 1},
        {"none", 0},
        {"none = none", 0},
        {"list", 0},
        {"at", 0},
        {"at.x = -100", 1},
        {"at.room.no = 7", 1},
        {"at.room", 0},
        {"at.no", 0},
        {"room.no", 0},
        {"at.room.no.x", 0},
        {"on", 1},
        {"off", 0},
        {"not off", 1},
        {"on = true", 1},
        {"on != false", 1},
        {"on > off", 1},
        {"on = 1", 0},
        {"off < on and not off = on", 1},
        {"zero", 0},
        {"empty", 0},
        {"lum", 1},
        {"name", 1},
        {"'x'", 1},
        {"''", 0},
        {"0", 0},
        {"-1", 1},
        {"true", 1},
        {"false", 0},
        {"off or off or on", 1},
        {"on or gone and gone", 1},
        {"(on or gone) and gone", 0},
        {"not on or on", 1},
        {"not (on or on)", 0},
        {"not not on", 1},
        {"off and on or on", 1},
        {"on and on and off", 0},
        {"on and (off or (on and (not off)))", 1},
        {"((((on))))", 1},
        {"on and not (lum > 3 and lum < 4)", 0},
        {"$resource = 21", 1},
        {"$size > 100 and $size < 200", 1},
        {"$byte0 = 123", 1},
        {"$byte1 = 34 and $byte63 > 0", 1},
        {"notx", 0},
        {"name and not n", 1}, /* not the field that was looked up before */
        {"android or order or nota or truex", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_EQ(holds(rows[i].text, light), rows[i].holds);
        if (holds(rows[i].text, light) != rows[i].holds) {
            printf("%s\n", rows[i].text);
        }
    }
    CHECK_EQ(holds("$byte0 = 1", "\x01"), 1);
    CHECK_EQ(holds("$byte0 = 255", "\xff"), 1);
    CHECK_EQ(holds("$byte1 = 0 or $byte1 != 0", "\x01"), 0); /* it is not there */
    CHECK_EQ(holds("$size = 0 and not $byte0", ""), 1);
    CHECK_EQ(holds("a", "no object"), 0);
    CHECK_EQ(holds("a = 'it''s'", "{}"), -1);
    CHECK_EQ(holds("a = \"it's\"", "{\"a\": \"it's\"}"), 1);
    CHECK_EQ(holds("a = '\\n'", "{\"a\": \"\\n\"}"), 0); /* no escapes here, but there */
    CHECK_EQ(holds("a = '\\n'", "{\"a\": \"\\\\n\"}"), 1);
    CHECK_EQ(holds("a = b", "{\"a\": \"\\u0041\", \"b\": \"A\"}"), 1);
    CHECK_EQ(holds("_a.0.b = 1", "{\"_a\": {\"0\": {\"b\": 1}}}"), 1);
    CHECK(!pdi_predicate_holds(&(struct pdi_predicate){.count = 1}, 0, (pyddsi_bytes){NULL, 0}));
}

/* If it failed, a wrong predicate would be taken for a right one, or its sender would be told to
 * look for the mistake in the wrong place. */
static void test_refused(void)
{
    static const struct {
        const char *text;
        size_t at;
    } rows[] = {
        {"(", 1},         {")", 0},         {"()", 1},         {"a)", 1},         {"(a", 2},
        {"((a)", 4},      {"a b", 2},       {"a 3", 2},        {"a =", 3},        {"= a", 0},
        {"a = = b", 4},   {"a < b < c", 6}, {"a = (b)", 4},    {"(a) = b", 4},    {"a = not b", 4},
        {"not", 3},       {"a and", 5},     {"and a", 0},      {"a or or b", 5},  {"a and not", 9},
        {"a ! b", 2},     {"a & b", 2},     {"'abc", 0},       {"a = \"abc'", 4}, {"3x", 0},
        {"03", 0},        {"1.", 0},        {".5", 0},         {"1e", 0},         {"- 1", 0},
        {"+-1", 0},       {"+", 0},         {"$", 0},          {"$sizes", 0},     {"$byte", 0},
        {"$byte64", 0},   {"$byte07", 0},   {"$byte100", 0},   {"$byteA", 0},     {"$byte1.x", 0},
        {"a.", 1},        {"a..b", 1},      {"a.b.", 3},       {"a\x01", 1},      {"a = {}", 4},
        {"a = 1 = 1", 6}, {"a == == b", 5}, {"true false", 5}, {"or", 0},         {"a and and", 6},
        {"3and a", 0},    {"\xc3\xa4", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pdi_predicate predicate;
        pyddsi_fault fault = {0, 999};
        int status = pdi_predicate_init(&predicate, rows[i].text, strlen(rows[i].text), &fault);
        CHECK_EQ(status, PYDDSI_BAD_INPUT);
        CHECK_EQ(fault.rule, PYDDSI_RULE_NAME_PREDICATE);
        CHECK_EQ(fault.at, rows[i].at);
        if (status != PYDDSI_BAD_INPUT || fault.at != rows[i].at) {
            printf("%s\n", rows[i].text);
        }
    }
    CHECK_EQ(pdi_predicate_init(&(struct pdi_predicate){0}, "a\0b", 3, &(pyddsi_fault){0}),
             PYDDSI_BAD_INPUT);
}

/* 002-16: if it failed, a selection could cost more than its limits say. */
static void test_limits(void)
{
    struct pdi_predicate predicate;
    pyddsi_fault fault = {0};
    char text[600];
    memset(text, ' ', sizeof text);
    CHECK_EQ(pdi_predicate_init(&predicate, text, 256, &fault), PYDDSI_OK);
    CHECK_EQ(pdi_predicate_init(&predicate, text, 257, &fault), PYDDSI_NO_SPACE);
    CHECK_EQ(fault.rule, PYDDSI_RULE_NAME_PREDICATE);
    memset(text, '(', 16);
    text[16] = '1';
    memset(text + 17, ')', 16);
    CHECK_EQ(pdi_predicate_init(&predicate, text, 33, &fault), PYDDSI_OK);
    memset(text, '(', 17);
    text[17] = '1';
    memset(text + 18, ')', 17);
    CHECK_EQ(pdi_predicate_init(&predicate, text, 35, &fault), PYDDSI_NO_SPACE);
    CHECK_EQ(fault.at, 17);
    CHECK_EQ(predicate.count, 0);
    for (int i = 0; i < 33; i++) { /* 33 operands and 32 jumps are one step too many */
        memcpy(text + i * 5, i == 0 ? "    0" : " or 0", 5);
    }
    CHECK_EQ(pdi_predicate_init(&predicate, text, (size_t)32 * 5, &fault), PYDDSI_OK);
    CHECK_EQ(predicate.count, 63);
    CHECK(!pdi_predicate_holds(&predicate, 0, bytes_of("")));
    CHECK_EQ(pdi_predicate_init(&predicate, text, (size_t)33 * 5, &fault), PYDDSI_NO_SPACE);
    static char payload[PDI_PREDICATE_PAYLOAD_MAX + 1];
    memset(payload, ' ', sizeof payload);
    memcpy(payload, "{\"a\":1}", 7);
    CHECK_EQ(pdi_predicate_init(&predicate, "a", 1, &fault), PYDDSI_OK);
    pyddsi_bytes sample = {(uint8_t *)payload, PDI_PREDICATE_PAYLOAD_MAX};
    CHECK(pdi_predicate_holds(&predicate, 0, sample));
    sample.size++;
    CHECK(!pdi_predicate_holds(&predicate, 0, sample));
    CHECK_EQ(pdi_predicate_init(&predicate, "$size = 65537 and $byte0 = 123", 30, &fault),
             PYDDSI_OK);
    CHECK(pdi_predicate_holds(&predicate, 0, sample));
}

/* ---- random expressions ------------------------------------------------------------------------ */

struct piece {
    char text[PDI_PREDICATE_TEXT_MAX];
    int tie; /* 1 or, 2 and, 3 not, 4 comparison or operand */
    bool value;
};

/* Appends a piece, in brackets if what stands around it would tear it apart, or at times anyway. */
static void append(struct pdi_rand *rand, char *text, size_t room, const struct piece *piece,
                   int tie)
{
    bool brackets = piece->tie < tie || pdi_rand_chance(rand, 1, 6);
    size_t size = strlen(text);
    snprintf(text + size, room - size, "%s%s%s", brackets ? "(" : "", piece->text,
             brackets ? ")" : "");
}

static struct piece random_leaf(struct pdi_rand *rand)
{
    static const char *const signs[] = {"=", "!=", "<", "<=", ">", ">=", "=="};
    struct piece piece = {.tie = 4};
    int a = (int)pdi_rand_below(rand, 4);
    int b = (int)pdi_rand_below(rand, 4);
    uint64_t sign = pdi_rand_below(rand, 7);
    bool values[] = {a == b, a != b, a<b, a <= b, a> b, a >= b, a == b};
    piece.value = values[sign];
    switch (pdi_rand_below(rand, 5)) {
    case 0:
        snprintf(piece.text, sizeof piece.text, "n%d %s %d", a, signs[sign], b);
        break;
    case 1:
        snprintf(piece.text, sizeof piece.text, "%d%sn%d", a, signs[sign], b);
        break;
    case 2:
        snprintf(piece.text, sizeof piece.text, "o.t%d%s'%d'", a, signs[sign], b);
        break;
    case 3:
        piece.value = a != 0;
        snprintf(piece.text, sizeof piece.text, "n%d", a);
        break;
    default:
        piece.value = false;
        snprintf(piece.text, sizeof piece.text, "o.t%d %s %d", a, signs[sign], b);
    }
    return piece;
}

/* Puts random pieces together until one is left or the text would be too long; its value is known
 * without looking at the text. */
static struct piece random_expression(struct pdi_rand *rand)
{
    struct piece pieces[8];
    unsigned count = 1 + (unsigned)pdi_rand_below(rand, 8);
    for (unsigned i = 0; i < count; i++) {
        pieces[i] = random_leaf(rand);
    }
    while (count > 1) {
        struct piece *a = &pieces[pdi_rand_below(rand, count)];
        struct piece made = {.tie = 1 + (int)pdi_rand_below(rand, 3)};
        char text[2 * PDI_PREDICATE_TEXT_MAX] = "";
        if (made.tie == 3) {
            snprintf(text, sizeof text, "not ");
            append(rand, text, sizeof text, a, 3);
            made.value = !a->value;
        } else {
            const struct piece *b = &pieces[count - 1];
            if (a == b) {
                continue;
            }
            append(rand, text, sizeof text, a, made.tie);
            strcat(text, made.tie == 2 ? " and " : " or ");
            append(rand, text, sizeof text, b, made.tie);
            made.value = made.tie == 2 ? a->value && b->value : a->value || b->value;
            count--;
        }
        if (strlen(text) >= sizeof made.text) {
            return pieces[0];
        }
        memcpy(made.text, text, strlen(text) + 1);
        *a = made;
    }
    return pieces[0];
}

/* 002-16: if it failed, some expression would be read with other brackets than it has. */
static void test_random_expressions(void)
{
    static const char payload[] = "{\"n0\":0,\"n1\":1,\"n2\":2,\"n3\":3,\"o\":{\"t0\":\"0\",\"t1\":"
                                  "\"1\",\"t2\":\"\\u0032\",\"t3\":\"3\"}}";
    int made = 0;
    for (uint64_t seed = 0; seed < SEEDS && test_failures == 0; seed++) {
        struct pdi_rand rand;
        struct pdi_predicate predicate;
        pyddsi_fault fault;
        pdi_rand_init(&rand, seed);
        struct piece piece = random_expression(&rand);
        int status = pdi_predicate_init(&predicate, piece.text, strlen(piece.text), &fault);
        CHECK(status == PYDDSI_OK || status == PYDDSI_NO_SPACE);
        if (status == PYDDSI_OK) {
            made++;
            CHECK_EQ(pdi_predicate_holds(&predicate, 0, bytes_of(payload)), piece.value);
        }
        if (test_failures != 0) {
            printf("seed %" PRIu64 ": %s\n", seed, piece.text);
        }
    }
    CHECK(made > SEEDS / 2);
}

/* If it failed, a text made by an enemy could lead the program out of its memory. */
static void test_random_bytes(void)
{
    static const char letters[] = "ab.()=!<>'\"$ 0123456789+-e andornottruesizebyteresource";
    for (uint64_t seed = 0; seed < 10 * SEEDS; seed++) {
        struct pdi_rand rand;
        struct pdi_predicate predicate;
        pyddsi_fault fault = {0};
        pdi_rand_init(&rand, seed);
        size_t size = pdi_rand_below(&rand, 24);
        char *text = malloc(size + 1);
        for (size_t i = 0; i < size; i++) {
            text[i] = letters[pdi_rand_below(&rand, sizeof letters - 1)];
        }
        int status = pdi_predicate_init(&predicate, text, size, &fault);
        CHECK(status == PYDDSI_OK || (status == PYDDSI_BAD_INPUT && fault.at <= size));
        (void)pdi_predicate_holds(&predicate, 2, (pyddsi_bytes){(uint8_t *)text, size});
        free(text);
    }
}

/* ---- JSON -------------------------------------------------------------------------------------- */

/* The kind of the member, in a copy that ends where it ends. */
static struct pdi_json find(const char *json, size_t size, const char *path, char **copy)
{
    *copy = malloc(size + 1);
    memcpy(*copy, json, size);
    char *end = realloc(*copy, size == 0 ? 1 : size);
    *copy = end;
    return pdi_json_find((pyddsi_bytes){(uint8_t *)*copy, size}, bytes_of(path));
}

static int kind_of(const char *json, const char *path)
{
    char *copy = NULL;
    int kind = find(json, strlen(json), path, &copy).kind;
    free(copy);
    return kind;
}

/* If it failed, members would be found in what is no JSON, or not in what is. */
static void test_json_valid(void)
{
    static const char *const valid[] = {
        "{\"a\":1}",
        " \t\r\n{ \"a\" : 1 } \n",
        "{\"a\":1,\"b\":[]}",
        "{\"b\":[1,-2.5e+3,true,false,null,\"x\",{},[[]]],\"a\":1}",
        "{\"b\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\",\"a\":1}",
        "{\"a\":0}",
        "{\"a\":2,\"a\":1}",
        "{\"\":2,\"a\":1}",
        "{\"a\":1,\"b\":{\"a\":\"x\"}}",
        "{\"b\":{\"a\":\"x\"},\"a\":1,\"c\":[{\"a\":true}]}",
        "{\"\\u0061\":1}",
        "{\"a\":1,\"b\":\"\xc3\xa4\x7f\"}",
    };
    static const char *const invalid[] = {
        "",
        " ",
        "{",
        "}",
        "{\"a\":1",
        "{\"a\":1]",
        "{\"a\":1}}",
        "{\"a\":1} x",
        "{\"a\":1},",
        "{\"a\":1}{}",
        "{\"a\":1},{}",
        "{\"a\" 1}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,\"a\":1}",
        "{a:1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":.1}",
        "{\"a\":1e}",
        "{\"a\":+1}",
        "{\"a\":-}",
        "{\"a\":1,\"b\":[1,]}",
        "{\"a\":1,\"b\":[,1]}",
        "{\"a\":1,\"b\":[1 2]}",
        "{\"a\":1,\"b\":[}}",
        "{\"a\":1,\"b\":tru}",
        "{\"a\":1,\"b\":nul",
        "{\"a\":1,\"b\":\"x}",
        "{\"a\":1,\"b\":\"\\x\"}",
        "{\"a\":1,\"b\":\"\\u12g4\"}",
        "{\"a\":1,\"b\":\"\\u123",
        "{\"a\":1,\"b\":\"\\",
        "{\"a\":1,\"b\":\"\n\"}",
        "[1:2]",
        "{\"a\":1,1:2}",
        "{\"a\":True}",
        "{\"a\":1,\"b\":'x'}",
        "{\"a\":1,\"b\":falsey}",
        "{1:1}",
        "{\"a\":1,\"b\":1.5.5}",
    };
    for (size_t i = 0; i < sizeof valid / sizeof *valid; i++) {
        CHECK_EQ(kind_of(valid[i], "a"), PDI_JSON_NUMBER);
        if (kind_of(valid[i], "a") != PDI_JSON_NUMBER) {
            printf("%s\n", valid[i]);
        }
    }
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
        CHECK_EQ(kind_of(invalid[i], "a"), PDI_JSON_NOTHING);
        if (kind_of(invalid[i], "a") != PDI_JSON_NOTHING) {
            printf("%s\n", invalid[i]);
        }
    }
    static const char *const without[] = {
        "1",         "\"a\"",     "[]", "{}", "[{\"a\":1}]", "{\"b\":1}", "{\"b\":{\"a\":1}}",
        "{\"A\":1}", "{\"aa\":1}"};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        CHECK_EQ(kind_of(without[i], "a"), PDI_JSON_NOTHING);
    }
    CHECK_EQ(kind_of("{\"a\":{\"b\":1}}", "a"), PDI_JSON_OTHER);
    CHECK_EQ(kind_of("{\"a\":{\"b\":1}}", "a.b"), PDI_JSON_NUMBER);
    CHECK_EQ(kind_of("{\"a\":[{\"b\":1}]}", "a.b"), PDI_JSON_NOTHING);
    CHECK_EQ(kind_of("{\"a\":{\"c\":{\"b\":1}}}", "a.b"), PDI_JSON_NOTHING);
    CHECK_EQ(kind_of("{\"a\":{\"c\":{\"b\":1},\"b\":true}}", "a.b"), PDI_JSON_TRUE);
    CHECK_EQ(kind_of("{\"a\":{\"b\":1},\"a\":{\"c\":1}}", "a.b"), PDI_JSON_NOTHING);
    CHECK_EQ(kind_of("{\"a\":{\"b\":1},\"a\":2}", "a.b"), PDI_JSON_NOTHING);
    CHECK_EQ(kind_of("{\"a\":1,\"b\":{\"b\":2}}", "a.b"), PDI_JSON_NOTHING);
    CHECK_EQ(kind_of("{\"x\":{\"b\":2},\"a\":{\"b\":\"\"}}", "a.b"), PDI_JSON_TEXT);
    CHECK_EQ(kind_of("{\"a\":{\"x\":1},\"b\":2,\"c\":{\"b\":2}}", "a.b"), PDI_JSON_NOTHING);
    CHECK_EQ(kind_of("{\"a.b\":1}", "a.b"), PDI_JSON_NOTHING);
}

/* If it failed, brackets could be closed by others, or nested until a machine word is full. */
static void test_json_deep(void)
{
    for (size_t depth = 1; depth < 100; depth++) {
        char text[600] = "";
        for (size_t i = 0; i < depth; i++) {
            strcat(text, i % 3 == 0 ? "[" : "{\"b\":");
        }
        strcat(text, "1");
        for (size_t i = depth; i-- > 0;) {
            strcat(text, i % 3 == 0 ? "]" : "}");
        }
        char outer[700];
        snprintf(outer, sizeof outer, "{\"a\":false,\"b\":%s,\"c\":true}", text);
        CHECK_EQ(kind_of(outer, "a"), depth < 64 ? PDI_JSON_FALSE : PDI_JSON_NOTHING);
        CHECK_EQ(kind_of(outer, "c"), depth < 64 ? PDI_JSON_TRUE : PDI_JSON_NOTHING);
        char *middle = strstr(outer, "1");
        middle[1] = middle[1] == ']' ? '}' : ']';
        CHECK_EQ(kind_of(outer, "a"), PDI_JSON_NOTHING);
    }
}

/* If it failed, a comparison would be decided by how a number is written, or by rounding. */
static void test_json_numbers(void)
{
    static const struct {
        const char *text;
        double value;
    } rows[] = {
        {"0", 0},
        {"-0", 0},
        {"1", 1},
        {"-12.5", -12.5},
        {"0.1", 0.1},
        {"0.30", 0.3},
        {"1e3", 1000},
        {"1E+3", 1000},
        {"1000e-3", 1},
        {"123456789012345", 123456789012345.0},
        {"9007199254740993", 9007199254740992.0},
        {"18446744073709551615", 18446744073709551615.0},
        {"0.000001", 1e-6},
        {"1e22", 1e22},
        {"1e-22", 1e-22},
        {"123e20", 123e20},
        {"5e-324000", 0},
        {"0e999999999999", 0},
    };
    static const char *const same[][2] = {
        {"1e23", "100000000000000000000000"},
        {"1.5e300", "15e299"},
        {"0.00000000000000000000000000012", "1.2e-28"},
        {"100000000000000000000000000000000000000000000000000e-50", "1"},
        {"12345678901234567890e5", "1234567890123456789e6"},
        {"1e400", "1e5000"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint8_t *at = (const uint8_t *)rows[i].text;
        const uint8_t *end = at + strlen(rows[i].text);
        double value = -1;
        CHECK(pdi_json_number(&at, end, &value));
        CHECK(at == end);
        CHECK(!(value < rows[i].value) && !(value > rows[i].value));
    }
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        double values[2] = {0, 1};
        for (int j = 0; j < 2; j++) {
            const uint8_t *at = (const uint8_t *)same[i][j];
            CHECK(pdi_json_number(&at, at + strlen(same[i][j]), &values[j]));
        }
        CHECK(!(values[0] < values[1]) && !(values[0] > values[1]));
    }
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct pdi_rand rand;
        char text[64];
        pdi_rand_init(&rand, seed);
        uint64_t digits = pdi_rand_u64(&rand) >> pdi_rand_below(&rand, 64);
        snprintf(text, sizeof text, "%s%" PRIu64 "e%d", seed % 2 ? "-" : "", digits,
                 (int)pdi_rand_below(&rand, 600) - 300);
        const uint8_t *at = (const uint8_t *)text;
        double value = 0;
        CHECK(pdi_json_number(&at, at + strlen(text), &value));
        double wanted = strtod(text, NULL);
        double off = value > wanted ? value - wanted : wanted - value;
        double size = wanted < 0 ? -wanted : wanted;
        CHECK(!(value < wanted || value > wanted) || off <= size * 4e-15 || size < 1e-300);
        double again = 0; /* the same with three zeros more and an exponent smaller by three */
        digits = 1 + digits % UINT64_C(1000000000000000);
        for (int zeros = 0; zeros < 4; zeros += 3) {
            snprintf(text, sizeof text, "%" PRIu64 "%.*se%d", digits, zeros, "000",
                     (int)(seed % 500) - 250 - zeros);
            at = (const uint8_t *)text;
            CHECK(pdi_json_number(&at, at + strlen(text), zeros == 0 ? &value : &again));
        }
        CHECK(!(value < again) && !(value > again));
    }
}

/* If it failed, names and texts would be compared by how they are written. */
static void test_json_texts(void)
{
    static const struct {
        const char *json; /* between quotes */
        const char *bytes;
    } rows[] = {
        {"", ""},
        {"abc", "abc"},
        {"\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t"},
        {"\\u0041\\u00e4\\u20AC", "A\xc3\xa4\xe2\x82\xac"},
        {"\\u007f\\u0080\\u07ff\\u0800", "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80"},
        {"x\\ud83d\\ude00y", "x\xf0\x9f\x98\x80y"},
        {"\\ud83d", "\xed\xa0\xbd"},
        {"\\ud83d\\u0041", "\xed\xa0\xbd\x41"},
        {"\\ud83d\\ue000", "\xed\xa0\xbd\xee\x80\x80"},
        {"\\ude00\\ud83d", "\xed\xb8\x80\xed\xa0\xbd"},
        {"\\ud83d\\n", "\xed\xa0\xbd\n"},
        {"\\ud83d\\nu00x", "\xed\xa0\xbd\nu00x"},
        {"\\udbff\\udfff", "\xf4\x8f\xbf\xbf"},
        {"a\xc3\xa4", "a\xc3\xa4"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char json[100];
        char *copy = NULL;
        snprintf(json, sizeof json, "{\"a\":\"%s\"}", rows[i].json);
        struct pdi_json text = find(json, strlen(json), "a", &copy);
        struct pdi_json wanted = {.kind = PDI_JSON_TEXT, .text = bytes_of(rows[i].bytes)};
        CHECK_EQ(text.kind, PDI_JSON_TEXT);
        CHECK_EQ(pdi_json_compare(&text, &wanted), 0);
        wanted.text.size++; /* the zero at the end */
        CHECK(pdi_json_compare(&text, &wanted) < 0);
        CHECK(pdi_json_compare(&wanted, &text) > 0);
        free(copy);
    }
    struct pdi_json low = {.text = bytes_of("a\x7f")};
    struct pdi_json high = {.text = bytes_of("a\xff")};
    CHECK(pdi_json_compare(&low, &high) < 0);
}

/* Appends spaces, or none. */
static void random_space(struct pdi_rand *rand, char *text)
{
    static const char *const spaces[] = {"", "", "", " ", "\n\t", "\r  "};
    strcat(text, spaces[pdi_rand_below(rand, 6)]);
}

/* Appends a value that is not the one that is looked for. */
static void random_value(struct pdi_rand *rand, char *text)
{
    static const char *const values[] = {"1",
                                         "-0.5e7",
                                         "\"\"",
                                         "\"a\\\"}\"",
                                         "[]",
                                         "{}",
                                         "[1,[2,{\"a\":3}]]",
                                         "{\"z\":{\"a\":[]}}",
                                         "true",
                                         "null",
                                         "\"{\"",
                                         "[{\"a\":{\"b\":1}}]"};
    strcat(text, values[pdi_rand_below(rand, 12)]);
}

/* An object with the member a.b.c.. of this depth, the number `value`, among others. */
static void random_object(struct pdi_rand *rand, char *text, unsigned depth, unsigned value)
{
    char number[16];
    text[0] = 0;
    for (unsigned level = 0; level < depth; level++) {
        random_space(rand, text);
        strcat(text, "{");
        for (uint64_t others = pdi_rand_below(rand, 3); others > 0; others--) {
            strcat(text, "\"x\":");
            random_value(rand, text);
            random_space(rand, text);
            strcat(text, ",");
            random_space(rand, text);
        }
        snprintf(number, sizeof number, "\"%c\"", 'a' + (char)level);
        strcat(text, number);
        random_space(rand, text);
        strcat(text, ":");
        random_space(rand, text);
    }
    snprintf(number, sizeof number, "%u", value);
    strcat(text, number);
    for (unsigned level = 0; level < depth; level++) {
        random_space(rand, text);
        if (pdi_rand_chance(rand, 1, 3)) {
            strcat(text, ",\"y\":");
            random_value(rand, text);
        }
        strcat(text, "}");
    }
}

/* If it failed, a member would be found in the wrong object, or in an object that is cut off, or a
 * changed byte would lead the walk out of the text. */
static void test_json_random(void)
{
    for (uint64_t seed = 0; seed < SEEDS && test_failures == 0; seed++) {
        struct pdi_rand rand;
        char text[2000];
        char path[16] = "";
        char *copy = NULL;
        pdi_rand_init(&rand, seed);
        unsigned depth = 1 + (unsigned)pdi_rand_below(&rand, 4);
        random_object(&rand, text, depth, (unsigned)seed);
        snprintf(path, 2 * depth, "a.b.c.d");
        struct pdi_json found = find(text, strlen(text), path, &copy);
        CHECK_EQ(found.kind, PDI_JSON_NUMBER);
        CHECK_EQ((uint64_t)found.number, seed);
        free(copy);
        found = find(text, pdi_rand_below(&rand, strlen(text)), path, &copy);
        CHECK_EQ(found.kind, PDI_JSON_NOTHING);
        free(copy);
        size_t at = pdi_rand_below(&rand, strlen(text));
        text[at] = "{}[]\",:\\u0\x01\xff"[pdi_rand_below(&rand, 12)];
        found = find(text, strlen(text), path, &copy);
        if (found.kind == PDI_JSON_TEXT) {
            CHECK(pdi_json_compare(&found, &found) == 0);
        }
        free(copy);
        if (test_failures != 0) {
            printf("seed %" PRIu64 ": %s\n", seed, text);
        }
    }
}

int main(void)
{
    test_by_hand();
    test_refused();
    test_limits();
    test_random_expressions();
    test_random_bytes();
    test_json_valid();
    test_json_deep();
    test_json_numbers();
    test_json_texts();
    test_json_random();
    return test_result();
}
