/* capture/sink.h, table.h, filter.h: every value of a row comes out in its column as it went in, whatever its type, and the
 * filter lets through what it should. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): madvise */
#include "capture/sink.h"

#include "base/rand.h"
#include "scanned.h"
#include "test.h"

enum { ROWS = 1000 };

static struct pdi_sink *sink;
static struct scanned scanned;
static struct pdi_scan stand_in; /* its sink is all that is looked at */

static void sink_for(int table, uint64_t columns, const struct pdi_filter *filter)
{
    pdi_sink_init(sink, &pdi_tables[table], columns, filter);
    stand_in.sink = sink;
    scanned.scan = &stand_in;
    scanned_batch(&scanned);
}

static uint64_t all_of(int table)
{
    return (UINT64_C(1) << pdi_tables[table].count) - 1;
}

static void *value_at(const struct pdi_column *column, void *row, struct pdi_row_packet *packet)
{
    return (char *)(column->of_packet ? (void *)packet : row) + column->at;
}

static const uint32_t counts[PDI_PLACES] = {3, 1, 4};

/* Gives a value to a column, or none if it may have none. */
static void draw(struct pdi_rand *rand, const struct pdi_column *column, void *at)
{
    static const uint8_t text[] = "plant/robot/7";
    bool none = column->said.nullable && pdi_rand_chance(rand, 1, 4);
    uint64_t number = pdi_rand_u64(rand) >> pdi_rand_below(rand, 64);
    switch (column->load) {
    case PDI_LOAD_U8:
        *(uint8_t *)at = (uint8_t)(number & (column->said.type == PYDDSI_COLUMN_BOOL ? 1 : 127));
        break;
    case PDI_LOAD_EVENT:
        *(uint8_t *)at = none ? 255 : (uint8_t)(number & 127);
        break;
    case PDI_LOAD_U16:
        *(uint16_t *)at = (uint16_t)number;
        break;
    case PDI_LOAD_U32:
        *(uint32_t *)at = (uint32_t)number;
        break;
    case PDI_LOAD_I64:
    case PDI_LOAD_TIME:
        *(int64_t *)at = none ? PDI_NONE64 : (int64_t)number;
        break;
    case PDI_LOAD_ID:
        *(uint64_t *)at = none ? 0 : number;
        break;
    case PDI_LOAD_VIEW:
    case PDI_LOAD_HEX:
        *(pyddsi_bytes *)at =
            none ? (pyddsi_bytes){NULL, 0} : (pyddsi_bytes){text, number % (sizeof text - 1)};
        break;
    case PDI_LOAD_WORD:
        *(const char **)at = "a word";
        break;
    case PDI_LOAD_COUNTS:
        *(const uint32_t **)at = none ? NULL : counts;
        break;
    default:
        *(pyddsi_endpoint *)at =
            (pyddsi_endpoint){.ip = {10, 0, 0, (uint8_t)number}, .port = 7, .kind = none ? 0 : 4};
        break;
    }
}

/* What must come out of it; UINT64_MAX: a text, of which only is asked whether it is there. */
static uint64_t expected(const struct pdi_column *column, const void *at)
{
    switch (column->load) {
    case PDI_LOAD_U8:
        return *(const uint8_t *)at;
    case PDI_LOAD_EVENT:
        return *(const uint8_t *)at == 255 ? SCANNED_NULL : *(const uint8_t *)at;
    case PDI_LOAD_U16:
        return *(const uint16_t *)at;
    case PDI_LOAD_U32:
        return *(const uint32_t *)at;
    case PDI_LOAD_ID:
        return *(const uint64_t *)at == 0 ? SCANNED_NULL : *(const uint64_t *)at;
    case PDI_LOAD_I64:
    case PDI_LOAD_TIME: {
        int64_t number = *(const int64_t *)at;
        if (column->said.nullable && number == PDI_NONE64)
            return SCANNED_NULL;
        if (column->load == PDI_LOAD_TIME)
            number = number / 1000 - (number % 1000 < 0);
        return column->said.type == PYDDSI_COLUMN_INT32 ? (uint64_t)number & UINT32_MAX
                                                        : (uint64_t)number;
    }
    case PDI_LOAD_VIEW:
    case PDI_LOAD_HEX:
        return ((const pyddsi_bytes *)at)->data == NULL ? SCANNED_NULL : UINT64_MAX;
    case PDI_LOAD_COUNTS:
        return *(const uint32_t *const *)at == NULL ? SCANNED_NULL : UINT64_MAX;
    case PDI_LOAD_WORD:
        return UINT64_MAX;
    default:
        return ((const pyddsi_endpoint *)at)->kind == 0 ? SCANNED_NULL : UINT64_MAX;
    }
}

/* A row of a table and, now and then, of another packet; and what must come out of all its columns. */
static void put_one(struct pdi_rand *rand, const struct pdi_table *table,
                    struct pdi_row_packet **packet, uint64_t *wanted)
{
    if (*packet == NULL || pdi_rand_chance(rand, 1, 3)) {
        *packet = pdi_sink_packet(sink);
        memset(*packet, 0, sizeof **packet);
        for (uint32_t i = 0; i < table->count; i++)
            if (table->columns[i].of_packet)
                draw(rand, &table->columns[i], value_at(&table->columns[i], NULL, *packet));
    }
    void *row = pdi_sink_row(sink);
    for (uint32_t i = 0; i < table->count; i++)
        if (!table->columns[i].of_packet)
            draw(rand, &table->columns[i], value_at(&table->columns[i], row, *packet));
    for (uint32_t i = 0; i < table->count; i++)
        wanted[i] = expected(&table->columns[i], value_at(&table->columns[i], row, *packet));
    CHECK(pdi_sink_put(sink));
}

static void check_column(uint32_t i, const struct pdi_column *column,
                         const uint64_t wanted[][PYDDSI_COLUMNS_MAX])
{
    uint32_t nulls = 0;
    for (uint32_t n = 0; n < ROWS; n++) {
        uint64_t got = scanned_value(sink, i, n), value = wanted[n][i];
        bool right = value == UINT64_MAX ? got != SCANNED_NULL : got == value;
        nulls += got == SCANNED_NULL;
        if (!right)
            printf("%s, row %" PRIu32 ": ", column->said.name, n);
        CHECK(right);
    }
    CHECK_EQ(sink->array[i].nulls, nulls);
    CHECK(column->said.nullable || nulls == 0);
}

/* If it failed, a column would hold the value of another row, of another column, or of none; or say there is none. */
static void test_every_column(void)
{
    static uint64_t wanted[ROWS][PYDDSI_COLUMNS_MAX];
    struct pdi_rand rand;
    pdi_rand_init(&rand, 1);
    for (int table = 0; table < PYDDSI_TABLE_COUNT; table++) {
        struct pdi_row_packet *packet = NULL;
        sink_for(table, all_of(table), NULL);
        for (uint32_t n = 0; n < ROWS; n++) {
            put_one(&rand, &pdi_tables[table], &packet, wanted[n]);
            if (n % 3 == 0)
                (void)pdi_sink_row(sink); /* one that is not put is forgotten */
        }
        pdi_sink_flush(sink);
        CHECK_EQ(sink->rows, ROWS);
        for (uint32_t i = 0; i < pdi_tables[table].count; i++)
            check_column(i, &pdi_tables[table].columns[i], wanted);
    }
}

/* If it failed, two columns of a table would have one name, or one could not be stored as its type says. */
static void test_tables(void)
{
    for (int table = 0; table < PYDDSI_TABLE_COUNT; table++) {
        const struct pdi_table *what = &pdi_tables[table];
        CHECK(what->count <= PYDDSI_COLUMNS_MAX && what->row_bytes <= PDI_SINK_ROW_MAX);
        for (uint32_t i = 0; i < what->count; i++) {
            const struct pdi_column *column = &what->columns[i];
            CHECK(column->said.type <= PYDDSI_COLUMN_COUNTS && column->said.text[0] != '\0');
            CHECK(column->at <
                  (column->of_packet ? sizeof(struct pdi_row_packet) : what->row_bytes));
            for (uint32_t k = 0; k < i; k++)
                CHECK(strcmp(what->columns[k].said.name, column->said.name) != 0);
        }
    }
}

/* If it failed, a batch would be filled beyond its rows, or a column of texts beyond its bytes. */
static void test_full(void)
{
    sink_for(PYDDSI_TABLE_MESSAGES, all_of(PYDDSI_TABLE_MESSAGES), NULL);
    static const uint8_t payload[1000];
    sink->capacity = 300;
    CHECK(pdi_sink_fits(sink, 300, 1000) && !pdi_sink_fits(sink, 301, 0));
    CHECK(!pdi_sink_fits(sink, 1, (size_t)SCANNED_TEXT + 1));
    (void)pdi_sink_packet(sink);
    for (uint32_t n = 0; n < 300; n++) {
        CHECK(pdi_sink_fits(sink, 1, 1000));
        struct pdi_row_message *row = pdi_sink_row(sink);
        *row =
            (struct pdi_row_message){.packet = row->packet, .payload = {payload, sizeof payload}};
        CHECK(pdi_sink_put(sink));
    }
    CHECK(!pdi_sink_fits(sink, 1, 0));
    pdi_sink_flush(sink);
    CHECK_EQ(sink->rows, 300);
    CHECK(!pdi_sink_fits(sink, 1, 0));
    size_t used = 0;
    for (uint32_t i = 0; i < sink->count; i++)
        used = sink->array[i].used > used ? sink->array[i].used : used;
    CHECK_EQ(used, 300 * sizeof payload);
    CHECK(pdi_sink_wants(sink, offsetof(struct pdi_row_message, payload), false));
    sink_for(PYDDSI_TABLE_MESSAGES, 1, NULL);
    CHECK(!pdi_sink_wants(sink, offsetof(struct pdi_row_message, payload), false));
}

/* ---- filters ---- */

enum { COLUMN = PYDDSI_STEP_COLUMN, NUMBER = PYDDSI_STEP_NUMBER, TEXT = PYDDSI_STEP_TEXT };

static uint32_t column_of(const char *name)
{
    const struct pdi_table *table = &pdi_tables[PYDDSI_TABLE_MESSAGES];
    for (uint32_t i = 0; i < table->count; i++)
        if (strcmp(table->columns[i].said.name, name) == 0)
            return i;
    abort();
}

static int ask(const pyddsi_where *steps, uint32_t count, const char *texts, bool *answer)
{
    static const uint8_t uri[] = "/plant/robot/7";
    struct pdi_row_packet packet = {.ts_ns = 1500};
    struct pdi_row_message row = {
        .kind = 7, .sn = 5, .rid = PDI_NONE64, .uri = {uri, sizeof uri - 1}, .note.event = 255};
    struct pdi_filter filter;
    int status = pdi_filter_init(&filter, &pdi_tables[PYDDSI_TABLE_MESSAGES], steps, count,
                                 (const uint8_t *)texts, strlen(texts));
    *answer = status == PYDDSI_OK && pdi_filter_test(&filter, &row, &packet);
    return status;
}

/* If it failed, a filter would let through what it is to keep back, above all where there is no value. */
static void test_filter(void)
{
    bool answer;
    static const struct {
        const char *column;
        unsigned step;
        int64_t number;
        bool is;
    } cases[] = {
        {"sn", PYDDSI_STEP_EQ, 5, true},   {"sn", PYDDSI_STEP_EQ, 4, false},
        {"sn", PYDDSI_STEP_NE, 4, true},   {"sn", PYDDSI_STEP_NE, 5, false},
        {"sn", PYDDSI_STEP_LT, 6, true},   {"sn", PYDDSI_STEP_LT, 5, false},
        {"sn", PYDDSI_STEP_LE, 5, true},   {"sn", PYDDSI_STEP_LE, 4, false},
        {"sn", PYDDSI_STEP_GT, 4, true},   {"sn", PYDDSI_STEP_GT, 5, false},
        {"sn", PYDDSI_STEP_GE, 5, true},   {"sn", PYDDSI_STEP_GE, 6, false},
        {"rid", PYDDSI_STEP_EQ, 5, false}, {"rid", PYDDSI_STEP_NE, 5, true},
        {"rid", PYDDSI_STEP_LT, 5, false}, {"seq_event", PYDDSI_STEP_EQ, 255, false},
        {"ts", PYDDSI_STEP_EQ, 1, true},   {"uri", PYDDSI_STEP_NE, 7, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pyddsi_where steps[] = {{.step = COLUMN, .a = column_of(cases[i].column)},
                                {.step = NUMBER, .number = cases[i].number},
                                {.step = (uint8_t)cases[i].step},
                                {.step = PYDDSI_STEP_NOT}};
        CHECK_EQ(ask(steps, 3, "", &answer), PYDDSI_OK);
        CHECK_EQ(answer, cases[i].is);
        CHECK_EQ(ask(steps, 4, "", &answer), PYDDSI_OK);
        CHECK_EQ(answer, !cases[i].is);
    }
    pyddsi_where is_null[] = {{.step = COLUMN, .a = column_of("rid")}, {.step = PYDDSI_STEP_NULL}};
    CHECK(ask(is_null, 2, "", &answer) == PYDDSI_OK && answer);
    pyddsi_where texts[] = {{.step = COLUMN, .a = column_of("uri")},
                            {.step = TEXT, .a = 0, .size = 14},
                            {.step = PYDDSI_STEP_EQ},
                            {.step = COLUMN, .a = column_of("uri")},
                            {.step = TEXT, .a = 14, .size = 10},
                            {.step = PYDDSI_STEP_MATCH},
                            {.step = PYDDSI_STEP_AND}};
    CHECK(ask(texts, 7, "/plant/robot/7/plant/**x", &answer) == PYDDSI_OK && !answer);
    texts[4].size = 9;
    CHECK(ask(texts, 7, "/plant/robot/7/plant/**x", &answer) == PYDDSI_OK && answer);
    texts[6].step = PYDDSI_STEP_OR;
    CHECK(ask(texts, 7, "/plant/robot/8/plant/**x", &answer) == PYDDSI_OK && answer);
    CHECK(ask(texts, 0, "", &answer) == PYDDSI_OK && answer);
}

/* If it failed, a program that cannot be would be run, and read beyond its stack, its columns or its texts. */
static void test_wrong_filters(void)
{
    bool answer;
    const pyddsi_where wrong[][3] = {
        {{.step = PYDDSI_STEP_NOT}, {.step = NUMBER}, {.step = PYDDSI_STEP_AND}},
        {{.step = NUMBER}, {.step = PYDDSI_STEP_EQ}, {.step = NUMBER}},
        {{.step = NUMBER}, {.step = NUMBER}, {.step = NUMBER}},
        {{.step = NUMBER}, {.step = COLUMN, .a = 48}, {.step = PYDDSI_STEP_EQ}},
        {{.step = NUMBER}, {.step = TEXT, .a = 3, .size = 2}, {.step = PYDDSI_STEP_EQ}},
        {{.step = NUMBER}, {.step = TEXT, .a = 5, .size = 0}, {.step = PYDDSI_STEP_EQ}},
        {{.step = NUMBER}, {.step = TEXT, .a = 1, .size = UINT32_MAX}, {.step = PYDDSI_STEP_EQ}},
        {{.step = NUMBER}, {.step = NUMBER}, {.step = PYDDSI_STEP_NULL + 1}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_EQ(ask(wrong[i], 3, "text", &answer), PYDDSI_BAD_ARGUMENT);
    static pyddsi_where many[PYDDSI_WHERE_MAX + 1];
    many[0].step = NUMBER;
    for (size_t i = 1; i <= PYDDSI_WHERE_MAX; i++)
        many[i].step = PYDDSI_STEP_NOT;
    CHECK_EQ(ask(many, PYDDSI_WHERE_MAX, "", &answer), PYDDSI_OK);
    CHECK_EQ(ask(many, PYDDSI_WHERE_MAX + 1, "", &answer), PYDDSI_BAD_ARGUMENT);
}

int main(void)
{
    sink = calloc(1, sizeof *sink);
    if (sink == NULL)
        return 1;
    test_every_column();
    test_tables();
    test_full();
    test_filter();
    test_wrong_filters();
    free(sink);
    return test_result();
}
