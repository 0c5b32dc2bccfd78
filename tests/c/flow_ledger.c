/* flow/ledger.h: random drops against a list that has no limits, and its edges. */
#include "flow/ledger.h"

#include "base/rand.h"
#include "test.h"

#define OWN_MAX   200
#define LINES_MAX (PDI_LEDGER_LINES_MIN + OWN_MAX)
#define KEYS_MAX  2000
#define SEEDS     150
#define STEPS     1500

struct book {
    struct pdi_ledger ledger;
    pyddsi_drop lines[LINES_MAX + 1];
    pyddsi_drop model[KEYS_MAX]; /* every key ever dropped */
    uint32_t keys;
    uint64_t total;
};

static bool same_key(const pyddsi_drop *a, const pyddsi_drop *b)
{
    return a->place == b->place && a->reason == b->reason && a->space == b->space &&
           a->resource == b->resource;
}

static void book_add(struct book *book, const pyddsi_drop *key, uint64_t count, pdi_time now)
{
    uint32_t at = 0;
    pdi_ledger_add(&book->ledger, key->place, key->reason, key->space, key->resource, count, now);
    if (count == 0) {
        return;
    }
    while (at < book->keys && !same_key(&book->model[at], key)) {
        at++;
    }
    if (at == book->keys) {
        book->model[book->keys] = *key;
        book->model[book->keys].count = 0;
        book->model[book->keys++].first_ns = now;
    }
    book->model[at].count += count;
    book->model[at].last_ns = now;
    book->total += count;
}

/* Each line in use is what the list says of its key; those of the list that have no line add up,
 * for each place and reason, to the line without resource. */
static void check_book(const struct book *book)
{
    pyddsi_drop rest[PYDDSI_PLACE_COUNT][PYDDSI_REASON_COUNT] = {0};
    pyddsi_drop line;
    uint64_t total = 0;
    uint64_t by_reason[PYDDSI_REASON_COUNT] = {0};
    uint32_t own = 0;
    uint32_t count = 0;
    for (uint32_t key = 0; key < book->keys; key++) {
        const pyddsi_drop *wanted = &book->model[key];
        pyddsi_drop *sum = &rest[wanted->place][wanted->reason];
        bool found = false;
        for (uint32_t cursor = 0; pdi_ledger_next(&book->ledger, &cursor, &line) == PYDDSI_OK;) {
            if (same_key(&line, wanted) && (line.space != 0 || line.resource != 0)) {
                CHECK(!found);
                found = true;
                own++;
                CHECK(line.count == wanted->count && line.first_ns == wanted->first_ns &&
                      line.last_ns == wanted->last_ns);
            }
        }
        if (!found) {
            sum->first_ns = sum->count == 0 || wanted->first_ns < sum->first_ns ? wanted->first_ns
                                                                                : sum->first_ns;
            sum->last_ns = wanted->last_ns > sum->last_ns ? wanted->last_ns : sum->last_ns;
            sum->count += wanted->count;
        }
    }
    for (uint32_t cursor = 0; pdi_ledger_next(&book->ledger, &cursor, &line) == PYDDSI_OK;) {
        pyddsi_drop again;
        CHECK_EQ(pdi_ledger_get(&book->ledger, count++, &again), PYDDSI_OK);
        CHECK(same_key(&line, &again));
        total += line.count;
        by_reason[line.reason] += line.count;
        if (line.space == 0 && line.resource == 0) {
            const pyddsi_drop *sum = &rest[line.place][line.reason];
            own++;
            CHECK(sum->count == line.count && sum->first_ns == line.first_ns &&
                  sum->last_ns == line.last_ns);
        }
    }
    CHECK_EQ(pdi_ledger_get(&book->ledger, count, &line), PYDDSI_END);
    CHECK_EQ(pdi_ledger_get(&book->ledger, UINT32_MAX, &line), PYDDSI_END);
    CHECK_EQ(own, count);
    CHECK_EQ(book->ledger.count, count);
    CHECK(book->ledger.total == book->total && total == book->total);
    CHECK_EQ(memcmp(by_reason, book->ledger.by_reason, sizeof by_reason), 0);
}

static void run_seed(uint64_t seed)
{
    static struct book book;
    struct pdi_rand rand;
    pyddsi_drop key = {0};
    pdi_time now = 1000;
    pdi_rand_init(&rand, seed);
    memset(&book, 0xa5, sizeof book);
    book.keys = 0;
    book.total = 0;
    uint32_t own = (uint32_t)pdi_rand_below(&rand, OWN_MAX + 1);
    uint64_t resources = 1 + pdi_rand_below(&rand, 20);
    uint64_t step_bits = pdi_rand_below(&rand, 60);
    uint64_t spaces = 1 + pdi_rand_below(&rand, 3);
    uint64_t places = 1 + pdi_rand_below(&rand, PYDDSI_PLACE_COUNT);
    CHECK_EQ(pdi_ledger_init(&book.ledger, book.lines, PDI_LEDGER_LINES_MIN + own), PYDDSI_OK);
    for (int step = 0; step < STEPS && book.keys < KEYS_MAX; step++) {
        if (pdi_rand_chance(&rand, 1, 2)) { /* else the same once more */
            key.place = (uint8_t)pdi_rand_below(&rand, places);
            key.reason = (uint8_t)pdi_rand_below(&rand, PYDDSI_REASON_COUNT);
            key.space = (uint8_t)pdi_rand_below(&rand, spaces);
            key.resource = pdi_rand_below(&rand, resources) << step_bits;
        }
        now += pdi_rand_below(&rand, 3);
        book_add(&book, &key, pdi_rand_below(&rand, 4), now);
    }
    check_book(&book);
    CHECK_EQ(((uint8_t *)&book.lines[PDI_LEDGER_LINES_MIN + own])[0], 0xa5);
}

/* If it failed, a drop would be lost, counted twice, or written in another resource's line, and the
 * books would not balance: each drop anywhere has a place, a reason, a resource, a count, a first
 * and a last time. */
static void test_against_model(void)
{
    for (uint64_t seed = 0; seed < SEEDS && test_failures == 0; seed++) {
        run_seed(seed);
        if (test_failures != 0) {
            printf("seed %" PRIu64 "\n", seed);
        }
    }
}

/* If it failed, made-up resources could fill the ledger so that a drop of another kind finds no
 * line, or a small ledger would not use the lines it has. */
static void test_flood(void)
{
    static pyddsi_drop lines[PDI_LEDGER_LINES_MIN + PDI_LEDGER_PROBES_MAX];
    struct pdi_ledger ledger;
    pyddsi_drop line;
    uint32_t own = 0;
    CHECK_EQ(pdi_ledger_init(&ledger, lines, PDI_LEDGER_LINES_MIN + PDI_LEDGER_PROBES_MAX),
             PYDDSI_OK);
    for (uint64_t resource = 1; resource <= 10000; resource++) {
        pdi_ledger_add(&ledger, PYDDSI_AT_INPUT, PYDDSI_BY_LIMIT, 0, 2 * resource, 1, resource);
        if (resource == PDI_LEDGER_PROBES_MAX) {
            CHECK_EQ(ledger.count, PDI_LEDGER_PROBES_MAX); /* each has its own */
        }
    }
    CHECK_EQ(ledger.count, PDI_LEDGER_PROBES_MAX + 1);
    for (int place = 0; place < PYDDSI_PLACE_COUNT; place++) {
        for (int reason = 0; reason < PYDDSI_REASON_COUNT; reason++) {
            pdi_ledger_add(&ledger, (enum pyddsi_place)place, (enum pyddsi_reason)reason, 7, 99, 5,
                           20000);
        }
    }
    CHECK_EQ(ledger.count, sizeof lines / sizeof *lines);
    for (uint32_t at = 0; pdi_ledger_get(&ledger, at, &line) == PYDDSI_OK; at++) {
        bool flooded = line.place == PYDDSI_AT_INPUT && line.reason == PYDDSI_BY_LIMIT;
        if (line.resource != 0) {
            own++;
            CHECK_EQ(line.count, 1);
            CHECK(line.first_ns == line.resource / 2 && line.last_ns == line.first_ns);
        } else {
            CHECK_EQ(line.count, 5 + (flooded ? 10000 - PDI_LEDGER_PROBES_MAX : 0));
            CHECK_EQ(line.last_ns, 20000);
            CHECK_EQ(line.first_ns, flooded ? PDI_LEDGER_PROBES_MAX + 1 : 20000);
        }
    }
    CHECK_EQ(own, PDI_LEDGER_PROBES_MAX);
}

/* If it failed, the first drop of all would be lost, for its key looks like the memory it finds. */
static void test_first(void)
{
    static pyddsi_drop lines[PDI_LEDGER_LINES_MIN];
    struct pdi_ledger ledger;
    pyddsi_drop line;
    CHECK_EQ(pdi_ledger_init(&ledger, lines, PDI_LEDGER_LINES_MIN - 1), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_ledger_init(&ledger, lines, PDI_LEDGER_LINES_MAX + 1), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_ledger_init(&ledger, lines, PDI_LEDGER_LINES_MIN), PYDDSI_OK);
    CHECK_EQ(pdi_ledger_get(&ledger, 0, &line), PYDDSI_END);
    pdi_ledger_add(&ledger, PYDDSI_AT_PUT, PYDDSI_BY_FULL, 0, 0, 0, 4);
    CHECK_EQ(pdi_ledger_get(&ledger, 0, &line), PYDDSI_END);
    pdi_ledger_add(&ledger, PYDDSI_AT_PUT, PYDDSI_BY_FULL, 0, 0, 3, 5);
    pdi_ledger_add(&ledger, PYDDSI_AT_PUT, PYDDSI_BY_FULL, 3, 8, 2, 6); /* has no line */
    CHECK_EQ(ledger.count, 1);
    CHECK_EQ(pdi_ledger_get(&ledger, 0, &line), PYDDSI_OK);
    CHECK_EQ(line.count, 5);
    CHECK_EQ(line.first_ns, 5);
    CHECK_EQ(line.last_ns, 6);
    CHECK_EQ(line.resource, 0);
    CHECK_EQ(line.space, 0);
    CHECK_EQ(pdi_ledger_get(&ledger, 1, &line), PYDDSI_END);
}

/* If it failed, what is dropped in a space without a known resource would be counted in no space.
 */
static void test_space(void)
{
    static pyddsi_drop lines[PDI_LEDGER_LINES_MIN + 2];
    struct pdi_ledger ledger;
    pyddsi_drop line;
    CHECK_EQ(pdi_ledger_init(&ledger, lines, PDI_LEDGER_LINES_MIN + 2), PYDDSI_OK);
    pdi_ledger_add(&ledger, PYDDSI_AT_RING, PYDDSI_BY_FULL, 3, 0, 1, 5);
    CHECK_EQ(pdi_ledger_get(&ledger, 0, &line), PYDDSI_OK);
    CHECK_EQ(line.space, 3);
    CHECK_EQ(line.resource, 0);
}

/* If it failed, ids that follow each other would share lines though a third of them is free. */
static void test_spread(void)
{
    static pyddsi_drop lines[PDI_LEDGER_LINES_MIN + 1024];
    for (int shift = 0; shift < 40; shift++) {
        struct pdi_ledger ledger;
        CHECK_EQ(pdi_ledger_init(&ledger, lines, PDI_LEDGER_LINES_MIN + 1024), PYDDSI_OK);
        for (uint64_t resource = 1; resource <= 682; resource++) {
            pdi_ledger_add(&ledger, PYDDSI_AT_RING, PYDDSI_BY_FULL, 0, resource << shift, 1, 0);
        }
        CHECK_EQ(ledger.count, 682);
    }
}

/* If it failed, a place or a reason would have no word, or two the same. */
static void test_words(void)
{
    for (int i = 0; i < PYDDSI_PLACE_COUNT; i++) {
        CHECK(pdi_place_name(i) != NULL && pdi_place_text(i) != NULL);
        for (int j = 0; j < i; j++) {
            CHECK(strcmp(pdi_place_name(i), pdi_place_name(j)) != 0);
            CHECK(strcmp(pdi_place_text(i), pdi_place_text(j)) != 0);
        }
    }
    for (int i = 0; i < PYDDSI_REASON_COUNT; i++) {
        CHECK(pdi_reason_name(i) != NULL && pdi_reason_text(i) != NULL);
        for (int j = 0; j < i; j++) {
            CHECK(strcmp(pdi_reason_name(i), pdi_reason_name(j)) != 0);
            CHECK(strcmp(pdi_reason_text(i), pdi_reason_text(j)) != 0);
        }
    }
    CHECK_TEXT(pdi_place_name(PYDDSI_AT_ASSEMBLY), "assembly");
    CHECK_TEXT(pdi_reason_name(PYDDSI_BY_NO_SUBSCRIBER), "no_subscriber");
    CHECK_TEXT(pdi_place_name(-1), "?");
    CHECK_TEXT(pdi_place_name(PYDDSI_PLACE_COUNT), "?");
    CHECK_TEXT(pdi_place_text(PYDDSI_PLACE_COUNT), "at no such place");
    CHECK_TEXT(pdi_reason_name(-1), "?");
    CHECK_TEXT(pdi_reason_name(PYDDSI_REASON_COUNT), "?");
    CHECK_TEXT(pdi_reason_text(PYDDSI_REASON_COUNT), "of no such reason");
}

int main(void)
{
    test_first();
    test_flood();
    test_spread();
    test_space();
    test_words();
    test_against_model();
    return test_result();
}
