/* base/pages.h: random gets, extends and puts against an array with a byte for each page. */
#include "base/pages.h"

#include "base/rand.h"
#include "test.h"

#define PAGES 300
#define RUNS  64
#define SEEDS 300
#define STEPS 500
#define GUARD UINT64_C(0x1234567890abcdef)

struct pair {
    struct pdi_pages pages;
    uint64_t used[PDI_BITSET_WORDS(PAGES) + 1];
    uint8_t model[PAGES]; /* 1: taken */
    struct run {
        uint32_t first;
        uint32_t count;
    } runs[RUNS];
    uint32_t runs_count;
};

/* The first of the leftmost `count` free neighbours, by trying every place. */
static uint32_t model_find(const struct pair *pair, uint32_t count)
{
    for (uint32_t first = 0; count != 0 && first + count <= pair->pages.pages; first++) {
        if (memchr(pair->model + first, 1, count) == NULL) {
            return first;
        }
    }
    return PDI_PAGES_NONE;
}

static void check_model(const struct pair *pair)
{
    uint32_t free = 0;
    for (uint32_t page = 0; page < pair->pages.pages; page++) {
        free += pair->model[page] == 0;
        CHECK_EQ(pdi_bitset_test(pair->used, page), pair->model[page]);
        CHECK(page >= pair->pages.cursor || pair->model[page] == 1);
    }
    CHECK_EQ(pair->pages.free, free);
    CHECK_EQ(pdi_bitset_count(pair->used, pair->pages.pages), pair->pages.pages - free);
    CHECK(pair->used[PDI_BITSET_WORDS(pair->pages.pages)] == GUARD);
}

static void get(struct pair *pair, uint32_t count)
{
    uint32_t wanted = model_find(pair, count);
    CHECK_EQ(pdi_pages_get(&pair->pages, count), wanted);
    if (wanted != PDI_PAGES_NONE) {
        memset(pair->model + wanted, 1, count);
        if (pair->runs_count < RUNS) {
            pair->runs[pair->runs_count++] = (struct run){wanted, count};
        } else {
            pdi_pages_put(&pair->pages, wanted, count);
            memset(pair->model + wanted, 0, count);
        }
    }
}

static void extend(struct pair *pair, struct run *run, uint32_t more)
{
    uint32_t end = run->first + run->count;
    bool fits = more <= pair->pages.pages - end &&
                (more == 0 || memchr(pair->model + end, 1, more) == NULL);
    CHECK_EQ(pdi_pages_extend(&pair->pages, run->first, run->count, more), fits);
    if (fits) {
        memset(pair->model + end, 1, more);
        run->count += more;
    }
}

/* Gives back a run, or only a part of it from either end. */
static void put(struct pair *pair, struct pdi_rand *rand, uint32_t which)
{
    struct run *run = &pair->runs[which];
    struct run part = *run;
    if (pdi_rand_chance(rand, 1, 3)) {
        part.count = (uint32_t)pdi_rand_below(rand, run->count + 1);
        if (pdi_rand_chance(rand, 1, 2)) {
            part.first = run->first + run->count - part.count;
        } else {
            run->first += part.count;
        }
    }
    run->count -= part.count;
    pdi_pages_put(&pair->pages, part.first, part.count);
    memset(pair->model + part.first, 0, part.count);
    if (run->count == 0) {
        *run = pair->runs[--pair->runs_count];
    }
}

static void run_seed(uint64_t seed)
{
    static struct pair pair;
    struct pdi_rand rand;
    pdi_rand_init(&rand, seed);
    memset(&pair, 0, sizeof pair);
    uint32_t pages = 1 + (uint32_t)pdi_rand_below(&rand, PAGES);
    uint32_t size_max = 1 + (uint32_t)pdi_rand_below(&rand, 1 + pages / 2);
    pair.used[PDI_BITSET_WORDS(pages)] = GUARD;
    CHECK_EQ(pdi_pages_init(&pair.pages, pair.used, pages), PYDDSI_OK);
    check_model(&pair);
    for (int step = 0; step < STEPS; step++) {
        uint32_t size = (uint32_t)pdi_rand_below(&rand, size_max + 1);
        uint32_t which =
            pair.runs_count != 0 ? (uint32_t)pdi_rand_below(&rand, pair.runs_count) : 0;
        switch (pdi_rand_below(&rand, 8)) {
        case 0:
        case 1:
        case 2:
            get(&pair, size);
            break;
        case 3:
            get(&pair, 1);
            break;
        case 4:
            if (pair.runs_count != 0) {
                extend(&pair, &pair.runs[which], size);
            }
            break;
        default:
            if (pair.runs_count != 0) {
                put(&pair, &rand, which);
            }
        }
        check_model(&pair);
    }
    while (pair.runs_count != 0) {
        put(&pair, &rand, 0);
    }
    CHECK_EQ(pdi_pages_get(&pair.pages, pages), 0); /* all of it is one run again */
}

/* If it failed, two would be given the same page, pages would be lost, or a run refused that is
 * there. */
static void test_against_model(void)
{
    for (uint64_t seed = 0; seed < SEEDS && test_failures == 0; seed++) {
        run_seed(seed);
        if (test_failures != 0) {
            printf("seed %" PRIu64 "\n", seed);
        }
    }
}

/* If it failed, the ends of words and of the memory would be places where runs are not found or
 * overlap. */
static void test_edges(void)
{
    struct pdi_pages pages;
    uint64_t used[3] = {0};
    CHECK_EQ(pdi_pages_init(&pages, used, 0), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_pages_init(&pages, used, PDI_PAGES_MAX + 1), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_pages_init(&pages, used, UINT32_MAX), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_pages_init(&pages, used, 130), PYDDSI_OK);
    CHECK_EQ(pdi_pages_get(&pages, 0), PDI_PAGES_NONE);
    CHECK_EQ(pdi_pages_get(&pages, 131), PDI_PAGES_NONE);
    CHECK_EQ(pdi_pages_get(&pages, UINT32_MAX), PDI_PAGES_NONE);
    CHECK_EQ(pdi_pages_get(&pages, 64), 0);
    CHECK_EQ(pdi_pages_get(&pages, 66), 64);
    CHECK_EQ(pdi_pages_get(&pages, 1), PDI_PAGES_NONE);
    pdi_pages_put(&pages, 129, 1);
    CHECK_EQ(pdi_pages_get(&pages, 2), PDI_PAGES_NONE);
    CHECK_EQ(pdi_pages_get(&pages, 1), 129);
    pdi_pages_put(&pages, 63, 2); /* the last of one run and the first of the next */
    CHECK_EQ(pdi_pages_get(&pages, 2), 63);
    pdi_pages_put(&pages, 128, 2);
    CHECK(!pdi_pages_extend(&pages, 64, 64, 3));
    CHECK(!pdi_pages_extend(&pages, 64, 64, UINT32_MAX));
    CHECK(pdi_pages_extend(&pages, 64, 64, 2));
    CHECK(!pdi_pages_extend(&pages, 64, 66, 1));
    CHECK(pdi_pages_extend(&pages, 64, 66, 0));
    pdi_pages_put(&pages, 0, 0);
    CHECK_EQ(pages.free, 0);
}

/* If it failed, each search would walk over what is taken, and a single page cost as much as there
 * are pages. */
static void test_cursor(void)
{
    struct pdi_pages pages;
    uint64_t used[3] = {0};
    CHECK_EQ(pdi_pages_init(&pages, used, 130), PYDDSI_OK);
    CHECK_EQ(pdi_pages_get(&pages, 10), 0);
    CHECK_EQ(pages.cursor, 10);
    CHECK(pdi_pages_extend(&pages, 0, 10, 90));
    CHECK_EQ(pages.cursor, 100);
    pdi_pages_put(&pages, 3, 1);
    CHECK_EQ(pages.cursor, 3);
    CHECK_EQ(pdi_pages_get(&pages, 2), 100);
    CHECK_EQ(pages.cursor, 3);
    CHECK_EQ(pdi_pages_get(&pages, 1), 3);
    CHECK_EQ(pdi_pages_get(&pages, 1), 102); /* not from 4 on the next time */
    CHECK_EQ(pages.cursor, 103);
}

int main(void)
{
    test_edges();
    test_cursor();
    test_against_model();
    return test_result();
}
