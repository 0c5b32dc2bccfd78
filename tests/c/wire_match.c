/* wire_match.c - patterns against names and against each other.
 *
 * Three judges that share nothing with the code: a table that a person wrote; a plain table of all
 * pairs of positions, filled from the ends (agree); and for small patterns the strings themselves.
 * The last is exact: in a shortest string that satisfies two patterns every character is spent on a
 * byte that is no star in one of them, else it could be left out. So with three such bytes in each
 * no string longer than six need be looked at.
 */
#include "wire/match.h"

#include <stdbool.h>
#include <stdlib.h>

#include "wire/name.h"
#include "test.h"

static pyddsi_bytes view(const char *text)
{
    return (pyddsi_bytes){(const uint8_t *)text, strlen(text)};
}

static uint32_t random_state = 2463534242U;

static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % n;
}

/* A pattern as steps: runs of several stars are one step, DEEP. */
enum { DEEP = 1 };
struct steps {
    size_t size;
    uint8_t at[PDI_NAME_MAX];
};

static void steps_init(struct steps *steps, pyddsi_bytes pattern)
{
    steps->size = 0;
    for (size_t i = 0; i < pattern.size; i++) {
        uint8_t *last = steps->size > 0 ? &steps->at[steps->size - 1] : NULL;
        if (pattern.data[i] == '*' && last != NULL && (*last == '*' || *last == DEEP))
            *last = DEEP;
        else
            steps->at[steps->size++] = pattern.data[i];
    }
}

static bool is_star(uint8_t step)
{
    return step == '*' || step == DEEP;
}

/* Whether one character can be both steps at once. */
static bool is_shared(uint8_t x, uint8_t y)
{
    if (x == DEEP || y == DEEP || x == y)
        return true;
    if (x == '*' || x == '?')
        return y != '/';
    return (y == '*' || y == '?') && x != '/';
}

/* Whether some string satisfies what is left of both patterns, for all pairs of remainders from the
 * shortest on. */
static bool agree(const struct steps *a, const struct steps *b)
{
    static bool rest[PDI_NAME_MAX + 1][PDI_NAME_MAX + 1];
    for (size_t i = a->size + 1; i-- > 0;) {
        for (size_t j = b->size + 1; j-- > 0;) {
            bool some_a = i < a->size, some_b = j < b->size, yes = !some_a && !some_b;
            bool shared = some_a && some_b && is_shared(a->at[i], b->at[j]);
            if (some_a && is_star(a->at[i]))
                yes = yes || rest[i + 1][j] || (shared && rest[i][j + 1]);
            if (some_b && is_star(b->at[j]))
                yes = yes || rest[i][j + 1] || (shared && rest[i + 1][j]);
            rest[i][j] = yes || (shared && rest[i + 1][j + 1]);
        }
    }
    return rest[0][0];
}

/* Asks in both orders, and compares with what is wanted and with the bound of match.h. */
static void check_pair(pyddsi_bytes a, pyddsi_bytes b, bool wanted)
{
    uint64_t there = 0, back = 0;
    bool got = pdi_match_count(a, b, &there), turned = pdi_match_count(b, a, &back);
    bool cheap = there <= a.size + (a.size / 64 + 1) * b.size;
    cheap = cheap && back <= b.size + (b.size / 64 + 1) * a.size;
    if (got != wanted || turned != wanted || !cheap)
        printf("\"%.*s\" and \"%.*s\": %d, turned %d, not %d; steps %ju, %ju\n", (int)a.size,
               (const char *)a.data, (int)b.size, (const char *)b.data, got, turned, wanted,
               (uintmax_t)there, (uintmax_t)back);
    CHECK(got == wanted && turned == wanted && cheap);
}

/* If this failed, a subscriber would miss what it asked for, or get what it did not ask for. */
static void test_table(void)
{
    static const struct {
        const char *pattern, *other;
        bool matches;
    } rows[] = {
        {"/plant/robot", "/plant/robot", true},
        {"/plant/robot", "/plant/robots", false},
        {"/plant/robot", "/Plant/robot", false},
        {"/plant/?", "/plant/7", true},
        {"/plant/?", "/plant/", false},
        {"/plant?robot", "/plant/robot", false},
        {"/plant/*", "/plant/robot", true},
        {"/plant/*", "/plant/robot/arm", false},
        {"/plant/*/arm", "/plant/robot/arm", true},
        {"/plant/r*b*b*t", "/plant/robot", false},
        {"/plant/**", "/plant/robot/arm", true},
        {"/plant/**", "/plant", false},
        {"/plant/**/arm", "/plant/arm", false},
        {"**/arm", "/plant/robot/arms", false},
        {"**", "/plant/robot", true},
        {"*****", "/plant/robot", true},
        {"/plant/$ls", "/plant/xls", false},
        {"/plant/*", "/plant/$id", true},
        {"/?$id", "/$id", false},
        /* two patterns */
        {"", "", true},
        {"", "?", false},
        {"/a*", "/*b", true},
        {"/a/*", "/*/b/*", false},
        {"/a/**", "**/z", true},
        {"?*", "*?", true},
        {"/a?", "/a/", false},
        {"/a*", "/a/**", false},
        {"/*/*/*", "/?/?", false},
        {"/x*y/z", "/*zz*y**z", true},
        {"/x*y/z", "/*zz*y*z", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_pair(view(rows[i].pattern), view(rows[i].other), rows[i].matches);
    }
}

enum { STEPS_MAX = 5, PATTERNS_MAX = 6423, THREE_STEPS = 215, STRING_MAX = 6, STRINGS = 1093 };

/* All patterns of up to STEPS_MAX steps over a, b, '/', '?', '*' and '**', shorter ones first. */
struct pattern {
    size_t size;
    uint8_t text[2 * STEPS_MAX];
    struct steps steps;
};
static struct pattern patterns[PATTERNS_MAX];
static size_t patterns_to[STEPS_MAX + 1]; /* how many have at most so many steps */

/* The n-th of all sequences of the first base letters, shorter ones first; returns its length. */
static size_t make_sequence(size_t n, size_t base, uint8_t *out)
{
    static const uint8_t letters[] = {'a', 'b', '/', '?', '*', DEEP};
    size_t size = 0;
    for (size_t count = 1; n >= count; count *= base, size++)
        n -= count;
    for (size_t i = 0; i < size; i++, n /= base)
        out[i] = letters[n % base];
    return size;
}

static void make_patterns(void)
{
    size_t count = 0;
    for (size_t n = 0; count < PATTERNS_MAX; n++) {
        struct pattern *next = &patterns[count];
        bool adjacent = false; /* two stars in a row read as another pattern */
        next->size = 0;
        next->steps.size = make_sequence(n, 6, next->steps.at);
        for (size_t i = 0; i < next->steps.size; i++) {
            uint8_t step = next->steps.at[i];
            adjacent = adjacent || (i > 0 && is_star(step) && is_star(next->steps.at[i - 1]));
            next->text[next->size++] = step == DEEP ? '*' : step;
            if (step == DEEP)
                next->text[next->size++] = '*';
        }
        if (!adjacent)
            patterns_to[next->steps.size] = ++count;
    }
    CHECK_EQ(patterns_to[3], THREE_STEPS);
    CHECK_EQ(patterns[PATTERNS_MAX - 1].steps.size, STEPS_MAX);
}

static pyddsi_bytes pattern_view(size_t i)
{
    return (pyddsi_bytes){patterns[i].text, patterns[i].size};
}

/* If this failed, some pair of patterns with up to seven steps together would be misjudged. */
static void test_all_short_pairs(void)
{
    size_t wrong = 0;
    for (size_t i = 0; i < PATTERNS_MAX; i++) {
        size_t rest = 7 - patterns[i].steps.size;
        for (size_t j = 0; j < patterns_to[rest < STEPS_MAX ? rest : STEPS_MAX]; j++) {
            bool wanted = agree(&patterns[i].steps, &patterns[j].steps);
            wrong += pdi_intersect(pattern_view(i), pattern_view(j)) != wanted;
        }
    }
    CHECK_EQ(wrong, 0);
}

/* Whether a string satisfies a pattern: all positions in the pattern that it can have reached. */
static bool is_satisfied(const struct steps *pattern, const uint8_t *text, size_t size)
{
    bool here[STEPS_MAX + 1] = {true};
    for (size_t i = 0;; i++) {
        bool next[STEPS_MAX + 1] = {false};
        for (size_t k = 0; k < pattern->size; k++) {
            uint8_t step = pattern->at[k];
            if (here[k] && is_star(step))
                here[k + 1] = true;
            if (!here[k] || i == size)
                continue;
            if (is_star(step))
                next[k] = next[k] || step == DEEP || text[i] != '/';
            else
                next[k + 1] = text[i] == step || (step == '?' && text[i] != '/');
        }
        if (i == size)
            return here[pattern->size];
        memcpy(here, next, sizeof here);
    }
}

/* If this failed, the answer would not be about strings at all: a pattern would match what it
 * should not, or two patterns would intersect with no string to show for it. */
static void test_the_strings_themselves(void)
{
    enum { WORDS = STRINGS / 64 + 1 };
    static uint64_t matched[THREE_STEPS][WORDS];
    size_t wrong = 0;
    for (size_t i = 0; i < THREE_STEPS; i++) {
        for (size_t n = 0; n < STRINGS; n++) {
            uint8_t text[STRING_MAX];
            pyddsi_bytes string = {text, make_sequence(n, 3, text)};
            bool wanted = is_satisfied(&patterns[i].steps, text, string.size);
            wrong += pdi_match(pattern_view(i), string) != wanted;
            matched[i][n / 64] |= (uint64_t)wanted << n % 64;
        }
    }
    CHECK_EQ(wrong, 0);
    for (size_t i = 0; i < THREE_STEPS; i++) {
        for (size_t j = 0; j < THREE_STEPS; j++) {
            uint64_t both = 0;
            for (size_t word = 0; word < WORDS; word++)
                both |= matched[i][word] & matched[j][word];
            wrong += pdi_intersect(pattern_view(i), pattern_view(j)) != (both != 0);
        }
    }
    CHECK_EQ(wrong, 0);
}

/* Compares with agree, from copies that end where the patterns end. */
static bool check_agreed(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    static struct steps a_steps, b_steps;
    uint8_t *a_copy = malloc(a_size + 1), *b_copy = malloc(b_size + 1);
    if (a_copy == NULL || b_copy == NULL)
        abort();
    pyddsi_bytes a_view = {a_copy + 1, a_size}, b_view = {b_copy + 1, b_size};
    memcpy(a_copy + 1, a, a_size);
    memcpy(b_copy + 1, b, b_size);
    steps_init(&a_steps, a_view);
    steps_init(&b_steps, b_view);
    bool wanted = agree(&a_steps, &b_steps);
    check_pair(a_view, b_view, wanted);
    free(a_copy);
    free(b_copy);
    return wanted;
}

/* If this failed, what is true would be lost, or what is false would appear, where one word ends
 * and the next begins. */
static void test_every_place_near_a_border(void)
{
    static const char *const parts[] = {"*", "**", "?", "/", "*/", "/**"};
    enum { PARTS = sizeof parts / sizeof parts[0] };
    uint8_t a[PDI_NAME_MAX], b[PDI_NAME_MAX];
    for (size_t at = 62; at < 131; at = at == 66 ? 126 : at + 1) {
        for (size_t n = 0; n < PARTS * PARTS * 3 * 2; n++) {
            const char *x = parts[n % PARTS], *y = parts[n / PARTS % PARTS];
            memset(a, 'a', sizeof a);
            memset(b, 'a', sizeof b);
            b[0] = '?'; /* nothing in front is cut off, so that the borders stay where they are */
            memcpy(a + at, x, strlen(x));
            memcpy(b + at - 1 + n / PARTS / PARTS % 3, y, strlen(y));
            check_agreed(a, at + 4, b, at + 3 + n / PARTS / PARTS / 3);
        }
    }
}

/* If this failed, a run of one byte that fills words would let too little through, or too much. */
static void test_long_runs(void)
{
    static const char bytes[] = "*?a/";
    uint8_t a[PDI_NAME_MAX], b[PDI_NAME_MAX];
    for (size_t size = 60; size < 132; size = size == 68 ? 124 : size + 1) {
        for (size_t n = 0; n < 16 * 4; n++) {
            size_t cut = n / 32 * (size - 1);
            memset(a, bytes[n % 4], sizeof a);
            memset(b, bytes[n / 4 % 4], sizeof b);
            if (n / 16 % 2 == 1)
                a[size - 1] = b[size - cut - 1] = 'b';
            check_agreed(a, size, b, size - cut);
            check_agreed(a, size, b, size - cut + 2);
        }
    }
}

/* Writes a pattern that the name satisfies, with a wildcard for about one byte in dull. */
static size_t make_pattern(const uint8_t *name, size_t size, uint32_t dull, uint8_t *out)
{
    size_t to = 0;
    for (size_t i = 0; i < size && to + 2 <= PDI_NAME_MAX;) {
        uint32_t kind = random_below(3 * dull);
        size_t run = kind < 2 ? random_below(9) : 0;
        if (kind == 1) {
            out[to++] = '*';
            out[to++] = '*';
            i += run;
        } else if (kind == 0) {
            out[to++] = '*';
            while (run-- > 0 && i < size && name[i] != '/')
                i++;
        } else {
            out[to++] = kind == 2 && name[i] != '/' ? '?' : name[i];
            i++;
        }
    }
    return to;
}

/* If this failed, long names would match otherwise than short ones. */
static void test_random_long_pairs(void)
{
    static const char alphabet[] = "aaaaaabbb/";
    uint8_t name[PDI_NAME_MAX], a[PDI_NAME_MAX], b[PDI_NAME_MAX];
    size_t yes = 0, no = 0;
    for (int round = 0; round < 2000; round++) {
        size_t size = round % 100 == 0 ? PDI_NAME_MAX - random_below(9) : 3 + random_below(200);
        uint32_t dull = 1 + random_below(40);
        for (size_t i = 0; i < size; i++)
            name[i] = (uint8_t)alphabet[random_below(sizeof alphabet - 1)];
        size_t a_size = make_pattern(name, size, dull, a);
        size_t b_size = make_pattern(name, size, dull, b);
        if (round % 2 == 0 && a_size > 0)
            a[random_below((uint32_t)a_size)] = (uint8_t)"abc/"[random_below(4)];
        if (round % 4 == 0 && b_size > 0)
            b[random_below((uint32_t)b_size)] = (uint8_t)"abc/"[random_below(4)];
        check_agreed(a, a_size, b, b_size) ? yes++ : no++;
        check_agreed(a, a_size, name, size);
    }
    CHECK(yes > 300 && no > 300);
}

static pyddsi_bytes repeat(uint8_t *out, size_t size, const char *unit, char last)
{
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)(i + 1 < size ? unit[i % strlen(unit)] : last);
    return (pyddsi_bytes){out, size};
}

/* 002-20: If this failed, one peer could keep another busy with a pattern. */
static void test_work_is_bounded(void)
{
    static const char *const units[] = {"a*", "*a", "a", "**a", "?*", "**?", "*/", "**", "?"};
    enum { UNITS = sizeof units / sizeof units[0] };
    static const size_t sizes[] = {100, PDI_NAME_MAX};
    uint8_t a[PDI_NAME_MAX], b[PDI_NAME_MAX];
    uint64_t worst[2] = {0, 0};
    for (size_t i = 0; i < UNITS * UNITS * 2; i++) {
        size_t size = sizes[i % 2];
        uint64_t steps = 0;
        pyddsi_bytes left = repeat(a, size, units[i / 2 % UNITS], 'c');
        pyddsi_bytes right = repeat(b, size, units[i / 2 / UNITS], 'b');
        pdi_match_count(left, right, &steps);
        worst[i % 2] = steps > worst[i % 2] ? steps : worst[i % 2];
    }
    CHECK_EQ(worst[0], 100 + 2 * 100);
    CHECK_EQ(worst[1], 1024 + 17 * 1024);
}

int main(void)
{
    make_patterns();
    test_table();
    test_all_short_pairs();
    test_the_strings_themselves();
    test_every_place_near_a_border();
    test_long_runs();
    test_random_long_pairs();
    test_work_is_bounded();
    return test_result();
}
