/* proto/series.h: samples cut and put together again, hostile series, random ones against a model.
 *
 * It is long: the model answers for every piece exactly what must be answered. */
#include "proto/series.h"

#include "base/rand.h"
#include "test.h"

#define PAGES_MAX   48
#define ENTRIES_MAX 24
#define SAMPLE_MAX  ((uint64_t)PAGES_MAX * PDI_SERIES_PAGE)
#define OWNERS      3
#define SEEDS       250
#define STEPS       500

static uint8_t memory[PAGES_MAX * PDI_SERIES_PAGE];
static uint64_t used[PDI_BITSET_WORDS(PAGES_MAX)];
static struct pdi_series table[ENTRIES_MAX];

/* A byte of a sample that begins with the message `first`. */
static uint8_t content(int64_t first, uint64_t at)
{
    return (uint8_t)((uint64_t)first * 31 + at * 7 + (at >> 8) * 13 + (at >> 16));
}

static uint8_t piece_bytes[1 << 16];

/* The piece of this sample from `at` on. */
static pyddsi_bytes piece_of(int64_t first, uint64_t at, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++) {
        piece_bytes[i] = content(first, at + i);
    }
    return (pyddsi_bytes){piece_bytes, size};
}

static bool right(pyddsi_bytes bytes, int64_t first)
{
    for (uint64_t at = 0; at < bytes.size; at++) {
        if (bytes.data[at] != content(first, at)) {
            return false;
        }
    }
    return true;
}

static int input(struct pdi_assembler *assembler, uint64_t owner, int64_t first, int64_t number,
                 uint32_t fragments, pyddsi_bytes payload, uint32_t *series, int *dropped)
{
    struct pdi_fragment fragment = {.owner = owner,
                                    .number = number,
                                    .first = first,
                                    .fragments = fragments,
                                    .id = owner * 2,
                                    .space = (uint8_t)owner,
                                    .payload = payload};
    return pdi_assembler_input(assembler, &fragment, series, dropped);
}

/* Nothing is held, and everything can be used again. */
static void check_empty(struct pdi_assembler *assembler)
{
    uint32_t idle = 0;
    CHECK_EQ(assembler->used, 0);
    CHECK_EQ(assembler->growing, 0);
    CHECK_EQ(assembler->untold, 0);
    CHECK_EQ(assembler->pages.free, assembler->pages.pages);
    for (uint32_t at = assembler->idle; at != PDI_SERIES_NONE && idle <= assembler->series_max;
         at = assembler->series[at].link) {
        CHECK_EQ(assembler->series[at].state, PDI_SERIES_FREE);
        idle++;
    }
    CHECK_EQ(idle, assembler->series_max);
    for (uint32_t at = 0; at < assembler->series_max; at++) {
        CHECK_EQ(assembler->series[at].head, PDI_SERIES_NONE);
    }
}

/* Sends a whole sample, told or untold, and checks what comes out. */
static void send_sample(struct pdi_assembler *assembler, int64_t first, uint64_t size,
                        uint64_t piece, bool told)
{
    uint32_t fragments = (uint32_t)((size + piece - 1) / piece);
    uint32_t series = 0;
    int dropped = 9;
    for (uint32_t k = 0; k < fragments; k++) {
        uint64_t at = k * piece;
        uint64_t now = size - at < piece ? size - at : piece;
        int wanted = told && k + 1 == fragments ? PYDDSI_END : PYDDSI_OK;
        CHECK_EQ(input(assembler, 1, first, first + k, told ? fragments : 0,
                       piece_of(first, at, now), &series, &dropped),
                 wanted);
        CHECK_EQ(dropped, 0);
        CHECK(wanted == PYDDSI_END || series == PDI_SERIES_NONE);
    }
    if (!told) {
        CHECK_EQ(pdi_assembler_close(assembler, 2, &series), PYDDSI_END);
        CHECK_EQ(pdi_assembler_close(assembler, 1, &series), PYDDSI_OK);
    }
    uint32_t none = 7;
    CHECK_EQ(pdi_assembler_close(assembler, 1, &none), PYDDSI_END);
    CHECK(series < ENTRIES_MAX);
    if (series >= ENTRIES_MAX) {
        return;
    }
    pyddsi_bytes bytes = pdi_assembler_bytes(assembler, series);
    CHECK_EQ(bytes.size, size);
    CHECK(right(bytes, first));
    CHECK_EQ(table[series].id, 2);
    CHECK_EQ(table[series].space, 1);
    CHECK_EQ(assembler->pages.pages - assembler->pages.free,
             (size + PDI_SERIES_PAGE - 1) / PDI_SERIES_PAGE);
    pdi_assembler_free(assembler, series);
    check_empty(assembler);
}

/* 002-124: if it failed, a sample of some size, cut into equal pieces with a last one that is not
 * larger, would not come out as it went in. */
static void test_sizes(void)
{
    static const uint64_t sizes[] = {
        1,    2,    3,    1471, 1472,  1473,  4095,           4096,
        4097, 8191, 8192, 8193, 65535, 65536, SAMPLE_MAX - 1, SAMPLE_MAX};
    static const uint64_t pieces[] = {1, 2, 3, 1000, 1472, 4095, 4096, 4097, 10000, 65535};
    struct pdi_assembler assembler;
    CHECK_EQ(pdi_assembler_init(&assembler, memory, used, PAGES_MAX, table, 3, SAMPLE_MAX),
             PYDDSI_OK);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t j = 0; j < sizeof pieces / sizeof *pieces; j++) {
            if (sizes[i] / pieces[j] < 20000) {
                send_sample(&assembler, (int64_t)(i * 1000 + j), sizes[i], pieces[j], true);
                send_sample(&assembler, -(int64_t)(i * 1000 + j), sizes[i], pieces[j], false);
            }
        }
    }
}

/* One piece with what must come of it. */
struct move {
    int64_t first;
    int64_t number;
    uint32_t fragments;
    uint32_t size;
    int status;
    int dropped;
};

static void play(const struct move *moves, size_t count)
{
    struct pdi_assembler assembler;
    CHECK_EQ(
        pdi_assembler_init(&assembler, memory, used, 4, table, 3, UINT64_C(3) * PDI_SERIES_PAGE),
        PYDDSI_OK);
    for (size_t i = 0; i < count; i++) {
        uint32_t series = 0;
        int dropped = 9;
        int status = input(&assembler, 5, moves[i].first, moves[i].number, moves[i].fragments,
                           (pyddsi_bytes){piece_bytes, moves[i].size}, &series, &dropped);
        CHECK_EQ(status, moves[i].status);
        CHECK_EQ(dropped, moves[i].dropped);
        CHECK_EQ(series == PDI_SERIES_NONE, status != PYDDSI_END);
        if (status == PYDDSI_END) {
            pdi_assembler_free(&assembler, series);
        }
        if (test_failures != 0) {
            printf("move %zu\n", i);
            return;
        }
    }
    check_empty(&assembler);
}

#define PLAY(...)                                                                                  \
    do {                                                                                           \
        static const struct move moves[] = {__VA_ARGS__};                                          \
        play(moves, sizeof moves / sizeof *moves);                                                 \
    } while (0)

/* 002-124: if it failed, a series that contradicts itself would be delivered, or its memory kept.
 */
static void test_contradictions(void)
{
    enum { OK = PYDDSI_OK, END = PYDDSI_END, BAD = PYDDSI_BAD_INPUT, FULL = PYDDSI_NO_SPACE };
    PLAY({1, 2, 3, 9, BAD, 0}, {1, 0, 3, 9, BAD, 0}, {1, 1, 3, 0, BAD, 0}); /* never began */
    PLAY({1, 1, 1, 9, END, 0}, {1, 1, 1, 9, END, 0}, {1, 2, 1, 9, BAD, 0}); /* one piece is all */
    PLAY({1, 1, 3, 9, OK, 0}, {1, 3, 3, 9, BAD, 1}, {1, 2, 3, 9, BAD, 0});  /* a hole */
    PLAY({1, 1, 3, 9, OK, 0}, {1, 1, 3, 9, BAD, 1}, {1, 2, 3, 9, BAD, 0});  /* the first twice */
    PLAY({1, 1, 3, 9, OK, 0}, {1, 0, 3, 9, BAD, 1});                        /* before the first */
    PLAY({1, 1, 3, 9, OK, 0}, {1, 2, 3, 8, BAD, 1}, {1, 3, 3, 9, BAD, 0});  /* too small */
    PLAY({1, 1, 3, 9, OK, 0}, {1, 2, 3, 10, BAD, 1});                       /* too large */
    PLAY({1, 1, 2, 9, OK, 0}, {1, 2, 2, 10, BAD, 1}); /* the last one too large */
    PLAY({1, 1, 2, 9, OK, 0}, {1, 2, 2, 0, BAD, 1});  /* the last one empty */
    PLAY({1, 1, 3, 9, OK, 0}, {1, 2, 4, 9, BAD, 1});  /* another total */
    PLAY({1, 1, 3, 9, OK, 0}, {1, 2, 2, 9, BAD, 1});  /* another total */
    PLAY({1, 1, 3, 9, OK, 0}, {1, 2, 0, 9, OK, 0}, {1, 3, 0, 1, END, 0}); /* told once is enough */
    PLAY({1, 1, 0, 9, OK, 0}, {1, 2, 3, 9, OK, 0}, {1, 3, 0, 1, END, 0}); /* told late */
    PLAY({1, 1, 0, 9, OK, 0}, {1, 2, 2, 4, END, 0});                      /* with the last one */
    PLAY({1, 1, 0, 9, OK, 0}, {1, 2, 1, 9, BAD, 1});                      /* less than there are */
    PLAY({1, 1, 0, 9, OK, 0}, {1, 2, 3, 8, BAD, 1});                      /* short, and not last */
    PLAY({1, 1, 0, 9, OK, 0}, {1, 2, 0, 8, OK, 0}, {1, 3, 0, 8, BAD, 1}); /* short was the last */
    PLAY({1, 1, 0, 9, OK, 0}, {1, 2, 0, 8, OK, 0}, {1, 3, 0, 1, BAD, 1});
    PLAY({1, 1, 0, 9, OK, 0}, {1, 2, 0, 8, OK, 0}, {1, 3, 3, 8, BAD, 1});
    PLAY({1, 1, 0, 9, OK, 0}, {1, 2, 0, 10, BAD, 1});
    PLAY({1, 1, 1, 12288, END, 0}, {1, 1, 1, 12289, FULL, 0}); /* sample_max */
    PLAY({1, 1, 4, 4096, FULL, 0}, {1, 2, 4, 4096, BAD, 0});   /* cannot fit: no byte is taken */
    PLAY({1, 1, 4, 4095, OK, 0}, {1, 2, 4, 4095, OK, 0}, {1, 3, 4, 4095, OK, 0},
         {1, 4, 4, 3, END, 0});
    PLAY({1, 1, 4, 4095, OK, 0}, {1, 2, 4, 4095, OK, 0}, {1, 3, 4, 4095, OK, 0},
         {1, 4, 4, 4, FULL, 1}, {1, 5, 4, 1, BAD, 0});
    PLAY({1, 1, 0, 4096, OK, 0}, {1, 2, 0, 4096, OK, 0}, {1, 3, 0, 4096, OK, 0},
         {1, 4, 0, 1, FULL, 1}, {1, 5, 0, 1, BAD, 0});
    PLAY({1, 1, UINT32_MAX, 60000, FULL, 0}, {1, 1, UINT32_MAX, 1, FULL, 0});
    PLAY({INT64_MAX, INT64_MAX, 2, 9, OK, 0}, {INT64_MAX, INT64_MIN, 2, 9, END, 0});
    PLAY({1, 1, 2, 9, OK, 0}, {2, 2, 2, 9, OK, 0}, {1, 2, 2, 9, END, 0}, {2, 3, 2, 9, END, 0});
}

/* If it failed, a reliable series would be thrown away because other messages lie between its
 * pieces, or one that goes back in its numbers would be taken. */
static void test_in_order(void)
{
    struct pdi_assembler assembler;
    uint32_t series = 0;
    int dropped = 0;
    struct pdi_fragment piece = {.owner = 1, .first = 10, .fragments = 4, .in_order = true};
    static const int64_t numbers[] = {10, 11, 15, 1000};
    static const int64_t backwards[][2] = {{10, 10}, {10, 9}, {10, -5}, {10, 11}};
    CHECK_EQ(pdi_assembler_init(&assembler, memory, used, 4, table, 3, 9000), PYDDSI_OK);
    for (uint64_t k = 0; k < 4; k++) {
        piece.number = numbers[k];
        piece.payload = piece_of(10, k * 50, 50);
        CHECK_EQ(pdi_assembler_input(&assembler, &piece, &series, &dropped),
                 k == 3 ? PYDDSI_END : PYDDSI_OK);
    }
    CHECK_EQ(pdi_assembler_bytes(&assembler, series).size, 200);
    CHECK(right(pdi_assembler_bytes(&assembler, series), 10));
    pdi_assembler_free(&assembler, series);
    for (uint64_t i = 0; i < 4; i++) {
        piece.number = backwards[i][0];
        CHECK_EQ(pdi_assembler_input(&assembler, &piece, &series, &dropped), PYDDSI_OK);
        piece.number = backwards[i][1];
        CHECK_EQ(pdi_assembler_input(&assembler, &piece, &series, &dropped),
                 i == 3 ? PYDDSI_OK : PYDDSI_BAD_INPUT);
        CHECK_EQ(dropped, i != 3);
    }
    CHECK_EQ(pdi_assembler_forget(&assembler, 0, 0), 1);
    check_empty(&assembler);
}

/* If it failed, series of several owners, or of one, would mix their bytes when they alternate. */
static void test_interleaved(void)
{
    struct pdi_assembler assembler;
    uint32_t series = 0;
    int dropped = 0;
    int complete = 0;
    CHECK_EQ(pdi_assembler_init(&assembler, memory, used, PAGES_MAX, table, 9, SAMPLE_MAX),
             PYDDSI_OK);
    for (int64_t k = 0; k < 10; k++) {
        for (uint64_t owner = 0; owner < 3; owner++) {
            for (int64_t first = 100; first < 400; first += 100) {
                bool told = owner != 1;
                int status = input(&assembler, owner, first, first + k, told ? 10 : 0,
                                   piece_of(first + (int64_t)owner, (uint64_t)k * 1000, 1000),
                                   &series, &dropped);
                CHECK_EQ(status, told && k == 9 ? PYDDSI_END : PYDDSI_OK);
                if (status == PYDDSI_END) {
                    CHECK_EQ(pdi_assembler_bytes(&assembler, series).size, 10000);
                    CHECK(right(pdi_assembler_bytes(&assembler, series), first + (int64_t)owner));
                    pdi_assembler_free(&assembler, series);
                    complete++;
                }
            }
        }
    }
    CHECK_EQ(complete, 6);
    CHECK_EQ(assembler.untold, 3);
    while (pdi_assembler_close(&assembler, 1, &series) == PYDDSI_OK) {
        CHECK_EQ(table[series].owner, 1);
        CHECK(right(pdi_assembler_bytes(&assembler, series), table[series].first + 1));
        pdi_assembler_free(&assembler, series);
        complete++;
    }
    CHECK_EQ(complete, 9);
    check_empty(&assembler);
}

/* If it failed, one peer that never ends its series could keep all others from theirs, or leave
 * memory behind when it goes. */
static void test_hostile(void)
{
    struct pdi_assembler assembler;
    uint32_t series = 0;
    int dropped = 0;
    CHECK_EQ(pdi_assembler_init(&assembler, memory, used, PAGES_MAX, table, ENTRIES_MAX, 9000),
             PYDDSI_OK);
    for (int64_t first = 0; first < 1000; first++) { /* one owner */
        int status = input(&assembler, 0x1001, first, first, (uint32_t)first % 2 * 5,
                           piece_of(first, 0, 10), &series, &dropped);
        CHECK_EQ(status, first < (int64_t)PDI_SERIES_OWNER_MAX ? PYDDSI_OK : PYDDSI_NO_SPACE);
        CHECK_EQ(dropped, 0);
    }
    CHECK_EQ(input(&assembler, 2, 0, 0, 1, piece_of(0, 0, 9000), &series, &dropped), PYDDSI_END);
    pdi_assembler_free(&assembler, series); /* another one has room */
    CHECK_EQ(pdi_assembler_forget(&assembler, ~UINT64_C(0xff), 0x1000), PDI_SERIES_OWNER_MAX);
    CHECK_EQ(input(&assembler, 0x1001, 0, 1, 0, piece_of(0, 0, 10), &series, &dropped),
             PYDDSI_BAD_INPUT);
    check_empty(&assembler);
}

/* If it failed, a thousand owners could leave memory behind, or the wrong ones be forgotten. */
static void test_owners(void)
{
    struct pdi_assembler assembler;
    uint32_t series = 0;
    int dropped = 0;
    CHECK_EQ(pdi_assembler_init(&assembler, memory, used, PAGES_MAX, table, ENTRIES_MAX, 9000),
             PYDDSI_OK);
    for (uint64_t owner = 0; owner < 1000; owner++) {
        int status = input(&assembler, owner << 8 | owner % 2, 7, 7, 0, piece_of(7, 0, 10), &series,
                           &dropped);
        CHECK_EQ(status, owner < ENTRIES_MAX ? PYDDSI_OK : PYDDSI_NO_SPACE);
    }
    CHECK_EQ(pdi_assembler_forget(&assembler, UINT64_MAX, 1000), 0);
    CHECK_EQ(pdi_assembler_forget(&assembler, UINT64_MAX, 5 << 8 | 1), 1);
    CHECK_EQ(pdi_assembler_forget(&assembler, UINT64_MAX, 5 << 8 | 1), 0);
    CHECK_EQ(pdi_assembler_forget(&assembler, ~UINT64_C(0xff), 4 << 8), 1);
    CHECK_EQ(assembler.growing, ENTRIES_MAX - 2);
    CHECK_EQ(pdi_assembler_close(&assembler, 6 << 8, &series), PYDDSI_OK);
    CHECK_EQ(pdi_assembler_forget(&assembler, 1, 1), ENTRIES_MAX / 2 - 1);
    CHECK_EQ(pdi_assembler_forget(&assembler, 0, 0), ENTRIES_MAX / 2 - 2);
    CHECK_EQ(assembler.used, 1); /* the complete one is its reader's */
    CHECK(right(pdi_assembler_bytes(&assembler, series), 7));
    pdi_assembler_free(&assembler, series);
    check_empty(&assembler);
}

/* If it failed, a series of untold length that must move would lose bytes, copy far too often, or
 * take what others need. */
static void test_growing(void)
{
    struct pdi_assembler assembler;
    uint32_t series = 0;
    uint32_t other = 0;
    int dropped = 0;
    int moves = 0;
    CHECK_EQ(pdi_assembler_init(&assembler, memory, used, 40, table, ENTRIES_MAX, SAMPLE_MAX),
             PYDDSI_OK);
    for (int64_t k = 0; k < 20; k++) {
        CHECK_EQ(
            input(&assembler, 1, 0, k, 0, piece_of(0, (uint64_t)k * 4096, 4096), &series, &dropped),
            PYDDSI_OK);
        uint32_t entry = assembler.series[0].owner == 1 ? 0 : 1;
        moves += table[entry].page != other;
        other = table[entry].page;
        if (k == 0) { /* somebody takes the page behind it */
            CHECK_EQ(input(&assembler, 2, 0, 0, 9, piece_of(0, 0, 10), &series, &dropped),
                     PYDDSI_OK);
        }
    }
    CHECK_EQ(moves, 1); /* then all is free behind it */
    CHECK_EQ(pdi_assembler_close(&assembler, 1, &series), PYDDSI_OK);
    CHECK(right(pdi_assembler_bytes(&assembler, series), 0));
    CHECK_EQ(assembler.pages.free, 19);
    pdi_assembler_free(&assembler, series);
    CHECK_EQ(pdi_assembler_forget(&assembler, UINT64_MAX, 2), 1);
    check_empty(&assembler);
}

/* If it failed, series that grow side by side would be copied again and again, once for nearly each
 * page that they need. */
static void test_growing_crowd(void)
{
    enum { CROWD = 8, PIECES = 32, PAGES = 2 * CROWD * PIECES };
    static uint8_t wide[PAGES * PDI_SERIES_PAGE];
    static uint64_t wide_used[PDI_BITSET_WORDS(PAGES)];
    struct pdi_assembler assembler;
    uint32_t page[CROWD] = {0};
    uint32_t series = 0;
    int dropped = 0;
    int64_t copied = 0;
    CHECK_EQ(pdi_assembler_init(&assembler, wide, wide_used, PAGES, table, CROWD, sizeof wide),
             PYDDSI_OK);
    for (int64_t k = 0; k < PIECES; k++) {
        for (uint64_t owner = 0; owner < CROWD; owner++) {
            CHECK_EQ(input(&assembler, owner, 5, 5 + k, 0, piece_of(5, (uint64_t)k * 4096, 4096),
                           &series, &dropped),
                     PYDDSI_OK);
            uint32_t entry = 0;
            while (table[entry].owner != owner) {
                entry++;
            }
            copied += k > 0 && table[entry].page != page[owner] ? k : 0;
            page[owner] = table[entry].page;
        }
    }
    CHECK(copied > 0 && copied < 2 * CROWD * PIECES);
    for (uint64_t owner = 0; owner < CROWD; owner++) {
        CHECK_EQ(pdi_assembler_close(&assembler, owner, &series), PYDDSI_OK);
        CHECK_EQ(pdi_assembler_bytes(&assembler, series).size, PIECES * 4096);
        CHECK(right(pdi_assembler_bytes(&assembler, series), 5));
        pdi_assembler_free(&assembler, series);
    }
    check_empty(&assembler);
}

/* ---- random series against a model ------------------------------------------------------------- */

struct model {
    struct pdi_assembler assembler;
    struct pdi_rand rand;
    struct growing {
        uint64_t owner;
        int64_t first;
        uint64_t pieces;
        uint64_t size;
        uint64_t piece;
        uint32_t total;
        bool live;
    } growing[ENTRIES_MAX];
    struct {
        uint32_t series;
        uint64_t owner;
        int64_t first;
        uint64_t size;
    } complete[ENTRIES_MAX];
    uint32_t complete_count;
    uint32_t entries; /* in use */
    int64_t now;
    uint64_t piece_max;
};

static struct model model;

static uint32_t longest_free(void)
{
    uint32_t longest = 0;
    uint32_t length = 0;
    for (uint32_t page = 0; page < model.assembler.pages.pages; page++) {
        length = pdi_bitset_test(used, page) ? 0 : length + 1;
        longest = length > longest ? length : longest;
    }
    return longest;
}

static uint64_t pages_of(uint64_t size)
{
    return (size + PDI_SERIES_PAGE - 1) / PDI_SERIES_PAGE;
}

/* The bytes of a sample depend on its owner, too. */
static int64_t key_of(uint64_t owner, int64_t first)
{
    return first * 16 + (int64_t)owner;
}

static struct growing *model_find(uint64_t owner, int64_t first)
{
    for (int i = 0; i < ENTRIES_MAX; i++) {
        struct growing *it = &model.growing[i];
        if (it->live && it->owner == owner && it->first == first) {
            return it;
        }
    }
    return NULL;
}

/* What must be answered to a first piece, and the model's entry if it is OK. */
static int model_start(const struct pdi_fragment *in, struct growing **out)
{
    uint64_t limit = model.assembler.sample_max;
    uint64_t size = in->payload.size;
    uint64_t total = in->fragments != 0 ? in->fragments : 1;
    uint64_t least = total == 1 ? size : (total - 1) * size + 1;
    uint64_t most = total * size < limit ? total * size : limit;
    uint32_t others = 0;
    if (in->number != in->first || size == 0) {
        return PYDDSI_BAD_INPUT;
    }
    *out = NULL;
    for (int i = 0; i < ENTRIES_MAX; i++) {
        others += model.growing[i].live && model.growing[i].owner == in->owner;
        *out = model.growing[i].live ? *out : &model.growing[i];
    }
    if (least > limit || others >= PDI_SERIES_OWNER_MAX ||
        model.entries == model.assembler.series_max || longest_free() < pages_of(most)) {
        return PYDDSI_NO_SPACE;
    }
    **out = (struct growing){in->owner, in->first, 0, 0, size, in->fragments, true};
    model.entries++;
    return PYDDSI_OK;
}

static int model_input(const struct pdi_fragment *in, int *dropped, struct growing **out)
{
    struct growing *it = model_find(in->owner, in->first);
    uint64_t size = in->payload.size;
    int status = PYDDSI_OK;
    *dropped = 0;
    *out = NULL;
    if (it == NULL) {
        status = model_start(in, &it);
        if (status != PYDDSI_OK) {
            return status;
        }
    } else {
        bool short_before = it->size % it->piece != 0;
        uint64_t total = it->total != 0 ? it->total : in->fragments;
        bool last = total != 0 && it->pieces + 1 == total;
        int64_t due = it->first + (int64_t)it->pieces;
        *dropped =
            (in->in_order ? in->number < due : in->number != due) || size == 0 ||
            size > it->piece || short_before || (in->fragments != 0 && in->fragments != total) ||
            (total != 0 && it->pieces + 1 > total) || (total != 0 && !last && size != it->piece);
        status = *dropped ? PYDDSI_BAD_INPUT : PYDDSI_OK;
        if (status == PYDDSI_OK && it->size + size > model.assembler.sample_max) {
            *dropped = 1;
            status = PYDDSI_NO_SPACE;
        }
    }
    *out = it;
    if (status == PYDDSI_OK) {
        it->size += size;
        it->pieces++;
        it->total = it->total != 0 ? it->total : in->fragments;
        return it->total != 0 && it->pieces == it->total ? PYDDSI_END : PYDDSI_OK;
    }
    return status;
}

static void note_complete(uint32_t series, struct growing *it)
{
    pyddsi_bytes bytes = pdi_assembler_bytes(&model.assembler, series);
    CHECK_EQ(bytes.size, it->size);
    CHECK(right(bytes, key_of(it->owner, it->first)));
    CHECK_EQ(table[series].pages, pages_of(it->size));
    model.complete[model.complete_count].series = series;
    model.complete[model.complete_count].owner = it->owner;
    model.complete[model.complete_count].first = it->first;
    model.complete[model.complete_count++].size = it->size;
    it->live = false;
}

/* One piece: mostly the next one of a series, sometimes anything. */
static void random_input(void)
{
    struct pdi_rand *rand = &model.rand;
    struct growing *it = &model.growing[pdi_rand_below(rand, ENTRIES_MAX)];
    struct pdi_fragment in = {0};
    if (it->live) {
        in = (struct pdi_fragment){.owner = it->owner,
                                   .first = it->first,
                                   .number = it->first + (int64_t)it->pieces,
                                   .fragments = it->total,
                                   .payload.size = it->piece};
        bool last = it->total != 0 ? it->pieces + 1 == it->total : pdi_rand_chance(rand, 1, 20);
        if (last) {
            in.payload.size = 1 + pdi_rand_below(rand, it->piece);
        }
        if (pdi_rand_chance(rand, 1, 10)) {
            in.fragments = 0;
        }
    } else {
        in.owner = pdi_rand_below(rand, OWNERS);
        in.first = in.number = model.now++;
        in.payload.size = 1 + pdi_rand_below(rand, model.piece_max);
        in.fragments = pdi_rand_chance(rand, 1, 2) ? 0 : 1 + (uint32_t)pdi_rand_below(rand, 12);
    }
    in.in_order = in.owner == 0; /* one of the owners is reliable */
    if (in.in_order && it->live && pdi_rand_chance(rand, 1, 4)) {
        in.number += (int64_t)pdi_rand_below(rand, 9);
    }
    switch (pdi_rand_below(rand, 60)) { /* what a hostile one, or a loss, makes of it */
    case 0:
        in.number += (int64_t)pdi_rand_below(rand, 3) - 1;
        break;
    case 1:
        in.fragments = (uint32_t)pdi_rand_below(rand, 14);
        break;
    case 2:
        in.fragments = UINT32_MAX - (uint32_t)pdi_rand_below(rand, 2);
        break;
    case 3:
        in.payload.size += pdi_rand_below(rand, 3) - 1;
        break;
    case 4:
        in.first += (int64_t)pdi_rand_below(rand, 3) - 1;
        break;
    case 5:
        in.owner = pdi_rand_below(rand, OWNERS);
        break;
    case 6:
        in.payload.size = pdi_rand_below(rand, model.piece_max + 1);
        break;
    default:
        break;
    }
    struct growing *out = model_find(in.owner, in.first);
    in.payload = piece_of(key_of(in.owner, in.first), out != NULL ? out->size : 0, in.payload.size);
    uint32_t series = 0;
    int wanted_dropped = 0;
    int dropped = 9;
    uint32_t longest = longest_free();
    int wanted = model_input(&in, &wanted_dropped, &out);
    int got = pdi_assembler_input(&model.assembler, &in, &series, &dropped);
    if (got == PYDDSI_NO_SPACE && wanted >= 0 && out->pieces > 1) {
        CHECK(longest < pages_of(out->size)); /* nowhere to move */
        wanted = got;
        wanted_dropped = 1;
    }
    CHECK_EQ(got, wanted);
    CHECK_EQ(dropped, wanted_dropped);
    if (out != NULL && got == PYDDSI_END && wanted == got) {
        note_complete(series, out);
    } else if (out != NULL && got < 0) {
        out->live = false;
        model.entries--;
    }
}

static void random_close(void)
{
    uint64_t owner = pdi_rand_below(&model.rand, OWNERS);
    uint32_t series = 0;
    while (pdi_assembler_close(&model.assembler, owner, &series) == PYDDSI_OK) {
        struct growing *it = model_find(owner, table[series].first);
        CHECK(it != NULL && it->total == 0);
        if (it == NULL) {
            return;
        }
        note_complete(series, it);
    }
    for (int i = 0; i < ENTRIES_MAX; i++) {
        CHECK(!model.growing[i].live || model.growing[i].owner != owner ||
              model.growing[i].total != 0);
    }
}

static void forget(uint64_t mask, uint64_t match)
{
    uint32_t wanted = 0;
    for (int i = 0; i < ENTRIES_MAX; i++) {
        if (model.growing[i].live && (model.growing[i].owner & mask) == match) {
            model.growing[i].live = false;
            wanted++;
        }
    }
    model.entries -= wanted;
    CHECK_EQ(pdi_assembler_forget(&model.assembler, mask, match), wanted);
}

/* Frees one of the complete, which must still be what it was. */
static void random_free(void)
{
    if (model.complete_count != 0) {
        uint32_t which = (uint32_t)pdi_rand_below(&model.rand, model.complete_count);
        pyddsi_bytes bytes = pdi_assembler_bytes(&model.assembler, model.complete[which].series);
        CHECK_EQ(bytes.size, model.complete[which].size);
        CHECK(right(bytes, key_of(model.complete[which].owner, model.complete[which].first)));
        pdi_assembler_free(&model.assembler, model.complete[which].series);
        model.complete[which] = model.complete[--model.complete_count];
        model.entries--;
    }
}

static void run_seed(uint64_t seed)
{
    memset(&model, 0, sizeof model);
    pdi_rand_init(&model.rand, seed);
    uint32_t pages = 1 + (uint32_t)pdi_rand_below(&model.rand, PAGES_MAX);
    uint32_t entries = 1 + (uint32_t)pdi_rand_below(&model.rand, ENTRIES_MAX);
    uint64_t sample_max = 1 + pdi_rand_below(&model.rand, SAMPLE_MAX);
    model.piece_max =
        1 + pdi_rand_below(&model.rand, UINT64_C(1) << pdi_rand_below(&model.rand, 15));
    CHECK_EQ(pdi_assembler_init(&model.assembler, memory, used, pages, table, entries, sample_max),
             PYDDSI_OK);
    for (int step = 0; step < STEPS && test_failures == 0; step++) {
        switch (pdi_rand_below(&model.rand, 80)) {
        case 0:
            random_close();
            break;
        case 1:
            forget(UINT64_MAX, pdi_rand_below(&model.rand, OWNERS));
            break;
        case 2:
        case 3:
        case 4:
        case 5:
        case 6:
        case 7:
            random_free();
            break;
        default:
            random_input();
        }
        CHECK_EQ(model.assembler.used, model.entries);
    }
    forget(0, 0);
    while (model.complete_count != 0) {
        random_free();
    }
    check_empty(&model.assembler);
}

/* If it failed, some mixture of series, losses and lies would deliver wrong bytes, refuse what is
 * right, or leave memory behind. */
static void test_against_model(void)
{
    for (uint64_t seed = 0; seed < SEEDS && test_failures == 0; seed++) {
        run_seed(seed);
        if (test_failures != 0) {
            printf("seed %" PRIu64 "\n", seed);
        }
    }
}

/* If it failed, a table or a memory of no size would be taken. */
static void test_init_refuses(void)
{
    struct pdi_assembler assembler;
    CHECK_EQ(pdi_assembler_init(&assembler, memory, used, 0, table, 3, 9), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_assembler_init(&assembler, memory, used, 4, table, 0, 9), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_assembler_init(&assembler, memory, used, 4, table, PDI_SERIES_MAX + 1, 9),
             PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_assembler_init(&assembler, memory, used, 4, table, 1, UINT64_MAX), PYDDSI_OK);
    CHECK_EQ(assembler.sample_max, 4 * PDI_SERIES_PAGE);
}

int main(void)
{
    test_init_refuses();
    test_sizes();
    test_contradictions();
    test_in_order();
    test_interleaved();
    test_hostile();
    test_owners();
    test_growing();
    test_growing_crowd();
    test_against_model();
    return test_result();
}
