/* proto/lane.h: edges, hostile neighbours, and random lives against the plainest model.
 *
 * The model is a list: every piece of memory that was given out, in its order, with who may still
 * need it. What fits is found by looking at all of it. What threads do to each other is in
 * proto_lane_threads.c.
 *
 * It is long, because the model is one half of it and the edges, which need no model, the other. */
#include "proto/lane.h"

#include <stdlib.h>

#include "base/rand.h"
#include "test.h"

#define SEEDS       1500
#define STEPS       400
#define READERS     4
#define ENTRIES     16
#define BYTES       512
#define NUMBERS_MAX 4096
#define PIECES_MAX  4096
#define COOKIE      UINT64_C(0x1122334455667788)

/* A piece of memory that was given out. */
struct piece {
    uint64_t at; /* count of bytes */
    uint64_t size;
    uint64_t number;
    bool open, free;
    struct pdi_lane_loan loan;
};

/* What a sample must be. */
struct told {
    uint64_t size, time, pattern;
};

struct member {
    struct pdi_place place;
    struct pdi_lane_reader reader;
    uint64_t released[PDI_LANE_WORDS(ENTRIES)];
    struct pdi_lane_sample held[ENTRIES];
    uint32_t held_count;
    uint64_t base, taken; /* as the model has them */
    bool joined, drops;
};

static struct world {
    struct pdi_rand rand;
    struct pdi_lane_writer writer;
    uint64_t starts[ENTRIES];
    uint8_t *memory;
    uint32_t entries, bytes;
    struct piece pieces[PIECES_MAX];
    uint32_t pieces_count;
    struct told told[NUMBERS_MAX]; /* from number `first` on */
    uint64_t first, next, pushed_out;
    struct member members[READERS];
} world;

static uint32_t draw(uint64_t limit)
{
    return (uint32_t)pdi_rand_below(&world.rand, limit);
}

/* Byte i of a sample with this pattern. */
static uint8_t byte_of(uint64_t pattern, uint64_t i)
{
    return (uint8_t)((pattern >> (i % 8 * 8)) + (i >> 3));
}

static void fill(uint8_t *data, uint64_t size, uint64_t pattern)
{
    for (uint64_t i = 0; i < size; i++) {
        data[i] = byte_of(pattern, i);
    }
}

/* Memory of exactly the size that a lane needs, so that a sanitizer sees a step beside it. */
static uint8_t *lane_memory(uint32_t entries, uint32_t bytes)
{
    uint8_t *memory = aligned_alloc(PDI_CACHE_LINE, pdi_lane_size(entries, bytes));
    CHECK(memory != NULL);
    memset(memory, 0, pdi_lane_size(entries, bytes));
    return memory;
}

/* Starts the lane as if `number` samples in `bytes` bytes had come and gone. */
static void start_at(struct pdi_lane_writer *writer, uint64_t number, uint64_t bytes)
{
    writer->next = writer->shown = writer->floor = number;
    writer->head = writer->tail = writer->start = bytes;
    writer->brim = (bytes | (writer->bytes_max - 1)) + 1;
    pdi_atomic64_store_relaxed(&writer->lane->next, number);
}

/* ---- the model ---- */

/* The least position if those who would rather lose the oldest, and hold nothing, were all moved to
 * `number`. */
static uint64_t model_floor(uint64_t number)
{
    uint64_t floor = world.next;
    for (uint32_t i = 0; i < READERS; i++) {
        const struct member *member = &world.members[i];
        bool movable = member->drops && member->base == member->taken;
        uint64_t base = movable && member->base < number ? number : member->base;
        if (member->joined && base < floor) {
            floor = base;
        }
    }
    return floor;
}

/* Whether a sample of `size` bytes fits if the least position is `floor`. */
static bool model_fits(uint64_t size, uint64_t floor)
{
    uint64_t unit = size == 0 ? 8 : (size + 7) / 8 * 8;
    uint64_t head = world.writer.head;
    uint64_t tail = UINT64_MAX;
    uint64_t open = 0;
    for (uint32_t i = 0; i < world.pieces_count; i++) {
        const struct piece *piece = &world.pieces[i];
        if (!piece->free && (piece->open || piece->number >= floor) && piece->at < tail) {
            tail = piece->at;
        }
        open += piece->open;
    }
    uint64_t at = head % world.bytes + unit <= world.bytes
                      ? head
                      : (head + world.bytes - 1) / world.bytes * world.bytes;
    return size <= world.bytes && world.next + open - floor < world.entries &&
           (tail == UINT64_MAX || at + unit - tail <= world.bytes);
}

/* What room must answer; and whom it pushes out. */
static int model_room(uint64_t size)
{
    if (size > world.bytes) {
        return PYDDSI_BAD_ARGUMENT;
    }
    if (!model_fits(size, model_floor(world.next))) {
        return PYDDSI_AGAIN;
    }
    uint64_t number = model_floor(0);
    while (!model_fits(size, model_floor(number))) {
        number++;
    }
    for (uint32_t i = 0; i < READERS; i++) {
        struct member *member = &world.members[i];
        if (member->joined && member->drops && member->base == member->taken &&
            member->base < number) {
            world.pushed_out += number - member->base;
            member->base = member->taken = number;
        }
    }
    return PYDDSI_OK;
}

/* Forgets pieces that nobody needs. */
static void model_clean(void)
{
    uint32_t kept = 0;
    uint64_t floor = model_floor(0);
    for (uint32_t i = 0; i < world.pieces_count; i++) {
        const struct piece *piece = &world.pieces[i];
        if (!piece->free && (piece->open || piece->number >= floor)) {
            world.pieces[kept++] = *piece;
        }
    }
    world.pieces_count = kept;
}

/* A piece was given out at `data`: it must lie in the lane and touch no other that is needed. */
static struct piece *model_give(const uint8_t *data, uint64_t size)
{
    const uint8_t *bytes = world.memory + pdi_lane_size(world.entries, world.bytes) - world.bytes;
    struct piece *piece = &world.pieces[world.pieces_count];
    uint64_t unit = size == 0 ? 8 : (size + 7) / 8 * 8;
    CHECK(data >= bytes && data + unit <= bytes + world.bytes && (data - bytes) % 8 == 0);
    model_clean();
    piece = &world.pieces[world.pieces_count++];
    CHECK(world.pieces_count < PIECES_MAX);
    *piece = (struct piece){.at = world.writer.head - unit, .size = size, .open = true};
    CHECK_EQ(piece->at % world.bytes, data - bytes);
    for (uint32_t i = 0; i + 1 < world.pieces_count; i++) {
        const struct piece *other = &world.pieces[i];
        uint64_t other_unit = other->size == 0 ? 8 : (other->size + 7) / 8 * 8;
        uint64_t ahead = (other->at - piece->at) % world.bytes;
        CHECK(ahead >= unit && ahead + other_unit <= world.bytes);
    }
    return piece;
}

/* The piece has become the next sample. */
static void model_number(struct piece *piece, uint64_t size, uint64_t time, uint64_t pattern)
{
    struct told *told = &world.told[world.next - world.first];
    *told = (struct told){.size = size, .time = time, .pattern = pattern};
    piece->open = false;
    piece->number = world.next++;
    piece->size = size;
    CHECK_EQ(world.writer.next, world.next);
}

/* ---- the steps ---- */

static uint32_t draw_size(void)
{
    switch (draw(8)) {
    case 0:
        return 0;
    case 1:
        return draw((uint64_t)world.bytes + 20);
    case 2:
        return world.bytes - draw(9);
    default:
        return draw(world.bytes / 6);
    }
}

static void step_put(void)
{
    static uint8_t data[BYTES + 64];
    uint32_t size = draw_size();
    uint64_t pattern = pdi_rand_u64(&world.rand);
    uint64_t time = pdi_rand_u64(&world.rand);
    fill(data, size, pattern);
    int wanted = model_room(size);
    if (draw(4) == 0) {
        CHECK_EQ(pdi_lane_room(&world.writer, size), wanted);
    }
    CHECK_EQ(pdi_lane_put(&world.writer, data, size, time, draw(2) != 0), wanted);
    CHECK_EQ(world.writer.pushed_out, world.pushed_out);
    if (wanted == PYDDSI_OK && test_failures == 0) {
        uint64_t unit = pdi_lane_unit(size);
        uint64_t at = (world.writer.head - unit) % world.bytes;
        model_number(model_give(world.writer.bytes + at, size), size, time, pattern);
    }
}

static void step_reserve(void)
{
    uint32_t size = draw_size();
    struct pdi_lane_loan loan;
    int wanted = model_room(size);
    CHECK_EQ(pdi_lane_reserve(&world.writer, size, &loan), wanted);
    if (wanted == PYDDSI_OK && test_failures == 0) {
        CHECK_EQ(loan.size, size);
        model_give(loan.data, size)->loan = loan;
    }
}

/* One of the open loans, or null. */
static struct piece *draw_open(void)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < world.pieces_count; i++) {
        open += world.pieces[i].open;
    }
    uint32_t chosen = open != 0 ? draw(open) : 0;
    for (uint32_t i = 0; i < world.pieces_count; i++) {
        if (world.pieces[i].open && chosen-- == 0) {
            return &world.pieces[i];
        }
    }
    return NULL;
}

static void step_commit(void)
{
    struct piece *piece = draw_open();
    if (piece == NULL) {
        return;
    }
    uint64_t size = draw(3) != 0 ? piece->size : draw(piece->size + 1);
    uint64_t pattern = pdi_rand_u64(&world.rand);
    bool newest = world.writer.head == piece->at + pdi_lane_unit(piece->size);
    fill(piece->loan.data, size, pattern);
    pdi_lane_commit(&world.writer, &piece->loan, (uint32_t)size, pattern + 1, draw(2) != 0);
    model_number(piece, size, pattern + 1, pattern);
    if (newest) {
        CHECK_EQ(world.writer.head, piece->at + pdi_lane_unit(size));
    }
}

static void step_abandon(void)
{
    struct piece *piece = draw_open();
    if (piece == NULL) {
        return;
    }
    memset(piece->loan.data, 0xee, piece->size);
    pdi_lane_abandon(&world.writer, &piece->loan);
    piece->open = false;
    piece->free = true;
}

/* All that was put and that nobody has released is counted. */
static void step_count(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < READERS; i++) {
        sum += world.members[i].joined ? world.next - world.members[i].base : 0;
    }
    CHECK_EQ(pdi_lane_in_flight(&world.writer), sum);
    if (draw(2) == 0) {
        pdi_lane_flush(&world.writer);
        CHECK_EQ(pdi_atomic64_load_relaxed(&world.writer.lane->next), world.next);
    }
}

/* ---- the readers' steps ---- */

static void check_sample(const struct pdi_lane_sample *sample)
{
    const struct told *told = &world.told[sample->number - world.first];
    bool same = sample->bytes.size == told->size && sample->time == told->time;
    for (uint64_t i = 0; same && i < told->size; i++) {
        same = sample->bytes.data[i] == byte_of(told->pattern, i);
    }
    CHECK(same);
}

static void step_join(struct member *member)
{
    size_t size = pdi_lane_size(world.entries, world.bytes);
    member->drops = draw(2) != 0;
    pdi_place_want(&member->place, COOKIE, member->drops);
    CHECK_EQ(pdi_lane_open(&member->reader, world.memory, size, COOKIE, member->released,
                           PDI_LANE_WORDS(ENTRIES)),
             PYDDSI_OK);
    CHECK_EQ(pdi_lane_start(&member->reader, &member->place), PYDDSI_AGAIN);
    CHECK_EQ(pdi_lane_join(&world.writer, &member->place), PYDDSI_OK);
    CHECK_EQ(pdi_lane_start(&member->reader, &member->place), PYDDSI_OK);
    member->base = member->taken = world.next;
    member->joined = true;
    CHECK_EQ(pdi_lane_behind(&member->reader), 0);
}

static void step_take(struct member *member)
{
    uint64_t until = pdi_lane_next(&member->reader);
    uint64_t dropped = member->reader.dropped;
    for (uint32_t count = 1 + draw(6); count > 0 && test_failures == 0; count--) {
        struct pdi_lane_sample sample;
        int wanted = member->taken < until ? PYDDSI_OK : PYDDSI_AGAIN;
        CHECK_EQ(pdi_lane_take(&member->reader, until, &sample), wanted);
        if (wanted != PYDDSI_OK) {
            break;
        }
        CHECK_EQ(sample.number, member->taken++);
        check_sample(&sample);
        member->held[member->held_count++] = sample;
    }
    CHECK(member->drops || member->reader.dropped == dropped);
}

static void step_release(struct member *member)
{
    for (uint32_t count = 1 + draw(8); count > 0 && member->held_count > 0; count--) {
        uint32_t chosen = draw(3) == 0 ? draw(member->held_count) : 0;
        check_sample(&member->held[chosen]);
        pdi_lane_release(&member->reader, member->held[chosen].number);
        member->held_count--;
        memmove(&member->held[chosen], &member->held[chosen + 1],
                (member->held_count - chosen) * sizeof member->held[0]);
    }
    member->base = member->taken;
    for (uint32_t i = 0; i < member->held_count; i++) {
        if (member->held[i].number < member->base) {
            member->base = member->held[i].number;
        }
    }
    if (!member->drops ||
        member->held_count > 0) { /* else it may not know yet where it was moved */
        CHECK_EQ(member->reader.base, member->base);
    }
    CHECK_EQ(member->reader.ahead, member->taken - member->base - member->held_count);
}

static void step_go(struct member *member)
{
    uint64_t owed = world.next - member->base;
    if (draw(2) == 0) { /* the writer gives up waiting */
        struct pdi_lane_sample sample;
        CHECK_EQ(pdi_lane_leave(&world.writer, &member->place), owed);
        CHECK(pdi_lane_lost(&member->reader));
        if (!member->drops) {
            CHECK_EQ(pdi_lane_take(&member->reader, member->taken, &sample), PYDDSI_END);
        }
        pdi_place_clear(&member->place);
    } else { /* the reader has had enough */
        int status = pdi_lane_quit(&member->reader);
        CHECK_EQ(status, member->held_count != 0 ? PYDDSI_AGAIN : PYDDSI_OK);
        if (status == PYDDSI_AGAIN) {
            return;
        }
        CHECK_EQ(pdi_place_state(&member->place), PDI_PLACE_ENDED);
        CHECK_EQ(pdi_lane_leave(&world.writer, &member->place), owed);
    }
    CHECK_EQ(pdi_place_state(&member->place), PDI_PLACE_FREE);
    CHECK_EQ(pdi_lane_find(&world.writer, &member->place), PDI_LANE_READERS_MAX);
    member->joined = false;
    member->held_count = 0;
}

static void step(void)
{
    struct member *member = &world.members[draw(READERS)];
    switch (draw(16)) {
    case 0:
        step_reserve();
        break;
    case 1:
        step_commit();
        break;
    case 2:
        step_abandon();
        break;
    case 3:
        step_count();
        break;
    case 4:
        if (!member->joined) {
            step_join(member);
        } else if (draw(4) == 0) {
            step_go(member);
        }
        break;
    case 5:
    case 6:
    case 7:
        if (member->joined) {
            step_take(member);
        }
        break;
    case 8:
    case 9:
    case 10:
        if (member->joined) {
            step_release(member);
        }
        break;
    default:
        step_put();
        break;
    }
}

/* When all loans are closed and all is released, the whole lane is one piece again. */
static void finish(void)
{
    struct pdi_lane_loan loan;
    for (struct piece *piece = draw_open(); piece != NULL; piece = draw_open()) {
        pdi_lane_abandon(&world.writer, &piece->loan);
        piece->open = false;
        piece->free = true;
    }
    pdi_lane_flush(&world.writer);
    for (uint32_t i = 0; i < READERS; i++) {
        struct member *member = &world.members[i];
        while (member->joined && (member->taken < world.next || member->held_count > 0) &&
               test_failures == 0) {
            step_take(member);
            step_release(member);
        }
    }
    CHECK_EQ(pdi_lane_in_flight(&world.writer), 0);
    CHECK_EQ(pdi_lane_reserve(&world.writer, world.bytes, &loan), PYDDSI_OK);
}

static void run_seed(uint64_t seed)
{
    memset(&world, 0, sizeof world);
    pdi_rand_init(&world.rand, seed);
    world.entries = UINT32_C(4) << draw(3);
    world.bytes = UINT32_C(64) << draw(4);
    world.memory = lane_memory(world.entries, world.bytes);
    CHECK_EQ(pdi_lane_init(&world.writer, world.memory, pdi_lane_size(world.entries, world.bytes),
                           world.starts, world.entries, world.bytes, COOKIE),
             PYDDSI_OK);
    world.first = world.next = draw(2) != 0 ? 0 : (UINT64_C(1) << 32) - draw(20);
    start_at(&world.writer, world.first, draw(2) != 0 ? 0 : (UINT64_C(1) << 32) - 8 * draw(64));
    for (int i = 0; i < STEPS && test_failures == 0; i++) {
        step();
    }
    if (test_failures == 0) {
        finish();
    }
    free(world.memory);
}

/* If it failed, room would be lost or found where there is none, a sample that somebody needs would
 * be overwritten, numbers or bytes would be wrong, or a reader that would rather lose the oldest
 * would lose more than it must: after any puts, loans, takes, releases, joins and leaves in any
 * order. */
static void test_against_model(void)
{
    for (uint64_t seed = 0; seed < SEEDS && test_failures == 0; seed++) {
        run_seed(seed);
        if (test_failures != 0) {
            printf("seed %" PRIu64 "\n", seed);
        }
    }
}

/* ---- edges ---- */

/* A lane of its own, of the least size unless said otherwise, and two readers. */
static struct bench {
    struct pdi_lane_writer writer;
    uint64_t starts[256];
    uint8_t *memory;
    size_t size;
    struct pdi_place places[PDI_LANE_READERS_MAX + 1];
    struct pdi_lane_reader readers[2];
    uint64_t released[2][PDI_LANE_WORDS(256)];
} bench;

static void set_up(uint32_t entries, uint32_t bytes)
{
    memset(&bench, 0, sizeof bench);
    bench.memory = lane_memory(entries, bytes);
    bench.size = pdi_lane_size(entries, bytes);
    CHECK_EQ(pdi_lane_init(&bench.writer, bench.memory, bench.size, bench.starts, entries, bytes,
                           COOKIE),
             PYDDSI_OK);
}

static void join(uint32_t i, bool drops)
{
    pdi_place_want(&bench.places[i], COOKIE, drops);
    CHECK_EQ(pdi_lane_open(&bench.readers[i], bench.memory, bench.size, COOKIE, bench.released[i],
                           PDI_LANE_WORDS(256)),
             PYDDSI_OK);
    CHECK_EQ(pdi_lane_join(&bench.writer, &bench.places[i]), PYDDSI_OK);
    CHECK_EQ(pdi_lane_start(&bench.readers[i], &bench.places[i]), PYDDSI_OK);
}

/* Puts `size` bytes that are all `byte`. */
static int put(uint32_t size, uint8_t byte)
{
    uint8_t data[BYTES];
    memset(data, byte, sizeof data);
    return pdi_lane_put(&bench.writer, data, size, byte, false);
}

static int take(uint32_t i, struct pdi_lane_sample *sample)
{
    return pdi_lane_take(&bench.readers[i], pdi_lane_next(&bench.readers[i]), sample);
}

/* Takes and releases the next sample; answers its first byte, or a status below. */
static int take_byte(uint32_t i)
{
    struct pdi_lane_sample sample;
    int status = take(i, &sample);
    if (status != PYDDSI_OK) {
        return -1000 - status;
    }
    int byte = sample.bytes.data[0];
    CHECK_EQ(sample.time, byte);
    pdi_lane_release(&bench.readers[i], sample.number);
    return byte;
}

static struct pdi_lane_loan reserve(uint32_t size)
{
    struct pdi_lane_loan loan = {0};
    CHECK_EQ(pdi_lane_reserve(&bench.writer, size, &loan), PYDDSI_OK);
    memset(loan.data, 0xee, size);
    return loan;
}

static void commit(const struct pdi_lane_loan *loan, uint8_t byte)
{
    memset(loan->data, byte, loan->size);
    pdi_lane_commit(&bench.writer, loan, loan->size, byte, false);
}

/* If it failed, a lane would be made that writes past its memory or mixes up its numbers. */
static void test_init_refuses(void)
{
    static const struct {
        uint32_t entries, bytes;
        int status;
    } rows[] = {
        {PDI_LANE_ENTRIES_MIN, PDI_LANE_BYTES_MIN, PYDDSI_OK},
        {256, 512, PYDDSI_OK},
        {PDI_LANE_ENTRIES_MIN / 2, PDI_LANE_BYTES_MIN, PYDDSI_BAD_ARGUMENT},
        {PDI_LANE_ENTRIES_MIN, PDI_LANE_BYTES_MIN / 2, PYDDSI_BAD_ARGUMENT},
        {2 * PDI_LANE_ENTRIES_MAX, PDI_LANE_BYTES_MIN, PYDDSI_BAD_ARGUMENT},
        {PDI_LANE_ENTRIES_MIN, 2 * PDI_LANE_BYTES_MAX, PYDDSI_BAD_ARGUMENT},
        {0, 64, PYDDSI_BAD_ARGUMENT},
        {6, 64, PYDDSI_BAD_ARGUMENT},
        {4, 0, PYDDSI_BAD_ARGUMENT},
        {4, 96, PYDDSI_BAD_ARGUMENT},
        {UINT32_MAX, UINT32_MAX, PYDDSI_BAD_ARGUMENT},
    };
    uint8_t *memory = lane_memory(256, 512);
    size_t size = pdi_lane_size(256, 512);
    CHECK_EQ(size, 128 + 256 * 16 + 512);
    CHECK_EQ(pdi_lane_size(PDI_LANE_ENTRIES_MAX, PDI_LANE_BYTES_MAX),
             128 + 16 * (size_t)PDI_LANE_ENTRIES_MAX + PDI_LANE_BYTES_MAX);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_EQ(pdi_lane_init(&bench.writer, memory, size, bench.starts, rows[i].entries,
                               rows[i].bytes, COOKIE),
                 rows[i].status);
        CHECK((pdi_lane_size(rows[i].entries, rows[i].bytes) != 0) ==
              (rows[i].status == PYDDSI_OK));
    }
    CHECK_EQ(pdi_lane_init(&bench.writer, memory, size - 1, bench.starts, 256, 512, COOKIE),
             PYDDSI_NO_SPACE);
    free(memory);
}

static size_t line(size_t offset)
{
    return offset / PDI_CACHE_LINE;
}

/* If it failed, the two sides of a lane would slow each other down by words that stand on one cache
 * line, or two builds would not agree where things lie. */
static void test_layout(void)
{
    CHECK(line(offsetof(struct pdi_lane, next)) > line(offsetof(struct pdi_lane, bytes) + 3));
    CHECK_EQ(sizeof(struct pdi_lane), 2 * PDI_CACHE_LINE);
    CHECK_EQ(sizeof(struct pdi_lane_entry), 16);
    CHECK(line(offsetof(struct pdi_place, position)) > line(offsetof(struct pdi_place, cookie)));
    CHECK_EQ(sizeof(struct pdi_place), 2 * PDI_CACHE_LINE);
    CHECK_EQ(_Alignof(struct pdi_place), PDI_CACHE_LINE);
}

/* If it failed, a reader would wait for samples that the writer holds back for ever, or a writer in
 * a hurry would pay for showing each. */
static void test_held_back(void)
{
    uint8_t data[8] = {7};
    set_up(4, 64);
    join(0, false);
    CHECK_EQ(pdi_lane_put(&bench.writer, data, 8, 7, true), PYDDSI_OK);
    CHECK_EQ(pdi_lane_behind(&bench.readers[0]), 0);
    pdi_lane_flush(&bench.writer);
    CHECK_EQ(pdi_lane_behind(&bench.readers[0]), 1);
    CHECK_EQ(pdi_lane_put(&bench.writer, data, 8, 7, true), PYDDSI_OK);
    CHECK_EQ(pdi_lane_in_flight(&bench.writer), 2); /* counted, though not shown */
    CHECK_EQ(pdi_lane_behind(&bench.readers[0]), 1);
    join(1, false); /* begins after it */
    CHECK_EQ(pdi_lane_behind(&bench.readers[0]), 2);
    CHECK_EQ(pdi_lane_behind(&bench.readers[1]), 0);
    CHECK_EQ(pdi_lane_put(&bench.writer, data, 8, 7, true), PYDDSI_OK);
    CHECK_EQ(pdi_lane_put(&bench.writer, data, 8, 7, true), PYDDSI_OK);
    CHECK_EQ(pdi_lane_behind(&bench.readers[0]), 2);
    CHECK_EQ(pdi_lane_put(&bench.writer, data, 8, 7, true), PYDDSI_AGAIN);
    CHECK_EQ(pdi_lane_behind(&bench.readers[0]), 4); /* or nobody could make room */
    free(bench.memory);
}

/* If it failed, a sample as large as the lane could never be sent, one that is larger would be
 * waited for, or a size near the end of its type would be taken for a small one. */
static void test_sizes(void)
{
    set_up(8, 64);
    join(0, false);
    CHECK_EQ(put(8, 1), PYDDSI_OK);
    CHECK_EQ(put(64, 2), PYDDSI_AGAIN);
    CHECK_EQ(pdi_lane_room(&bench.writer, 65), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_lane_room(&bench.writer, UINT32_MAX), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_lane_room(&bench.writer, UINT64_MAX), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_lane_put(&bench.writer, NULL, UINT32_MAX, 0, false), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(take_byte(0), 1);
    CHECK_EQ(put(64, 3), PYDDSI_OK);
    CHECK_EQ(put(0, 4), PYDDSI_AGAIN);
    CHECK_EQ(take_byte(0), 3);
    CHECK_EQ(pdi_lane_put(&bench.writer, NULL, 0, 4, false), PYDDSI_OK);
    struct pdi_lane_sample sample;
    CHECK_EQ(take(0, &sample), PYDDSI_OK);
    CHECK_EQ(sample.bytes.size, 0);
    free(bench.memory);
}

/* If it failed, a loan that nobody commits, or that was given up, would stop those behind it. */
static void test_loans_do_not_block(void)
{
    set_up(256, 512);
    join(0, false);
    struct pdi_lane_loan kept = reserve(8);
    struct pdi_lane_loan given_up = reserve(200);
    for (uint8_t i = 0; i < 30; i++) {
        CHECK_EQ(put(8, i), PYDDSI_OK);
        CHECK_EQ(take_byte(0), i);
    }
    pdi_lane_abandon(&bench.writer, &given_up);
    CHECK_EQ(put(72, 99), PYDDSI_AGAIN); /* the one that is kept still has its bytes */
    CHECK_EQ(put(64, 100), PYDDSI_OK);
    commit(&kept, 101);
    CHECK_EQ(take_byte(0), 100);
    CHECK_EQ(take_byte(0), 101);
    CHECK_EQ(put(512, 102), PYDDSI_OK);
    free(bench.memory);
}

/* If it failed, samples of loans would come in another order than that in which they were
 * committed, or the bytes of one that was committed late would be overwritten before it was
 * read. */
static void test_loans_in_any_order(void)
{
    set_up(8, 64);
    join(0, false);
    struct pdi_lane_loan first = reserve(16);
    struct pdi_lane_loan second = reserve(16);
    CHECK_EQ(put(8, 1), PYDDSI_OK);
    commit(&second, 2);
    CHECK_EQ(put(8, 3), PYDDSI_OK);
    commit(&first, 4);
    CHECK_EQ(put(16, 5), PYDDSI_OK);
    CHECK_EQ(put(8, 6), PYDDSI_AGAIN);
    CHECK_EQ(take_byte(0), 1);
    CHECK_EQ(take_byte(0), 2);
    CHECK_EQ(take_byte(0), 3);
    CHECK_EQ(put(8, 6), PYDDSI_AGAIN); /* the fourth lies before all that is free */
    CHECK_EQ(take_byte(0), 4);
    CHECK_EQ(put(48, 6), PYDDSI_OK);
    CHECK_EQ(take_byte(0), 5);
    CHECK_EQ(take_byte(0), 6);
    free(bench.memory);
}

/* If it failed, a number that was promised to a loan could be given to another sample, and a commit
 * would write over an entry that is still needed. */
static void test_loans_keep_numbers(void)
{
    set_up(4, 512);
    join(0, false);
    struct pdi_lane_loan loans[4];
    for (uint32_t i = 0; i < 4; i++) {
        loans[i] = reserve(8);
    }
    CHECK_EQ(put(8, 9), PYDDSI_AGAIN);
    pdi_lane_abandon(&bench.writer, &loans[1]);
    CHECK_EQ(put(8, 1), PYDDSI_OK);
    CHECK_EQ(put(8, 9), PYDDSI_AGAIN);
    commit(&loans[3], 2);
    commit(&loans[0], 3);
    commit(&loans[2], 4);
    CHECK_EQ(put(8, 9), PYDDSI_AGAIN);
    for (int i = 1; i <= 4; i++) {
        CHECK_EQ(take_byte(0), i);
    }
    CHECK_EQ(put(8, 9), PYDDSI_OK);
    free(bench.memory);
}

/* If it failed, a lane would run out of rows for loans though all were closed, or write past their
 * table. */
static void test_loans_limit(void)
{
    struct pdi_lane_loan loans[PDI_LANE_LOANS_MAX];
    struct pdi_lane_loan loan;
    set_up(256, 4096);
    join(0, false);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < PDI_LANE_LOANS_MAX; i++) {
            loans[i] = reserve(8);
        }
        CHECK_EQ(pdi_lane_reserve(&bench.writer, 8, &loan), PYDDSI_AGAIN);
        CHECK_EQ(put(8, 200), PYDDSI_OK); /* puts need no row */
        for (uint32_t i = PDI_LANE_LOANS_MAX; i-- > 0;) {
            commit(&loans[i], (uint8_t)i); /* all are late */
        }
        CHECK_EQ(pdi_lane_reserve(&bench.writer, 8, &loan), PYDDSI_AGAIN);
        CHECK_EQ(take_byte(0), 200);
        for (int i = PDI_LANE_LOANS_MAX; i-- > 0;) {
            CHECK_EQ(take_byte(0), i);
        }
    }
    free(bench.memory);
}

/* If it failed, a loan that was too large or in vain would keep its bytes, with those skipped for
 * it, from the next one. */
static void test_newest_gives_back(void)
{
    set_up(8, 128);
    join(0, false);
    CHECK_EQ(put(64, 1), PYDDSI_OK);
    CHECK_EQ(put(24, 2), PYDDSI_OK);
    CHECK_EQ(take_byte(0), 1);
    struct pdi_lane_loan loan = reserve(48); /* skips the last 40 bytes */
    CHECK(loan.data == bench.writer.bytes);
    pdi_lane_abandon(&bench.writer, &loan);
    loan = reserve(40);
    CHECK(loan.data == bench.writer.bytes + 88);
    pdi_lane_commit(&bench.writer, &loan, 8, 3, false);
    CHECK_EQ(put(32, 4), PYDDSI_OK); /* the rest of the lap, and then the front, in one lap each */
    CHECK_EQ(put(64, 5), PYDDSI_OK);
    CHECK_EQ(put(0, 6), PYDDSI_AGAIN);
    CHECK_EQ(take_byte(0), 2);
    CHECK_EQ(put(16, 6), PYDDSI_OK);
    free(bench.memory);
}

/* If it failed, what a loan gives back could be counted to the next lap, and a sample would run
 * over the ring's end. */
static void test_gives_back_at_the_end(void)
{
    set_up(8, 64);
    join(0, false);
    CHECK_EQ(put(32, 1), PYDDSI_OK);
    CHECK_EQ(take_byte(0), 1);
    struct pdi_lane_loan loan = reserve(32);                    /* to the very end */
    CHECK_EQ(pdi_lane_make_room(&bench.writer, 32), PYDDSI_OK); /* in the next lap */
    pdi_lane_commit(&bench.writer, &loan, 0, 2, false);
    CHECK_EQ(put(32, 3), PYDDSI_OK);
    struct pdi_lane_sample sample;
    CHECK_EQ(take(0, &sample), PYDDSI_OK);
    CHECK_EQ(take(0, &sample), PYDDSI_OK);
    CHECK(sample.bytes.data == bench.writer.bytes);
    free(bench.memory);
}

/* ---- readers who would rather lose the oldest ---- */

/* If it failed, such a reader would hold up the writer, lose what it is reading, or not know what
 * it lost. */
static void test_drops(void)
{
    struct pdi_lane_sample sample;
    set_up(4, 512);
    join(0, true);
    for (uint8_t i = 0; i < 6; i++) {
        CHECK_EQ(put(8, i), PYDDSI_OK);
    }
    CHECK_EQ(bench.writer.pushed_out, 2);
    CHECK_EQ(pdi_lane_in_flight(&bench.writer), 4);
    CHECK_EQ(take(0, &sample), PYDDSI_OK);
    CHECK_EQ(sample.number, 2);
    CHECK_EQ(bench.readers[0].dropped, 2);
    CHECK_EQ(put(8, 6), PYDDSI_AGAIN); /* while it looks, nothing moves */
    CHECK_EQ(bench.writer.pushed_out, 2);
    CHECK_EQ(sample.bytes.data[0], 2);
    pdi_lane_release(&bench.readers[0], 2);
    CHECK_EQ(put(8, 6), PYDDSI_OK); /* into the room of what it released */
    CHECK_EQ(put(8, 7), PYDDSI_OK);
    CHECK_EQ(bench.writer.pushed_out, 3);
    CHECK_EQ(take_byte(0), 4);
    CHECK_EQ(bench.readers[0].dropped, 3);
    /* those that it takes together are safe together */
    struct pdi_lane_sample two[2];
    CHECK_EQ(take(0, &two[0]), PYDDSI_OK);
    CHECK_EQ(take(0, &two[1]), PYDDSI_OK);
    pdi_lane_release(&bench.readers[0], two[1].number);
    CHECK_EQ(put(8, 8), PYDDSI_OK);
    CHECK_EQ(put(8, 9), PYDDSI_AGAIN);
    CHECK_EQ(two[0].bytes.data[0], 5);
    pdi_lane_release(&bench.readers[0], two[0].number);
    CHECK_EQ(put(8, 9), PYDDSI_OK);
    CHECK_EQ(take_byte(0), 7);
    CHECK_EQ(bench.readers[0].dropped, 3);
    free(bench.memory);
}

/* If it failed, samples would be taken from a reader though that makes no room, because another
 * still needs them. */
static void test_drops_not_in_vain(void)
{
    set_up(4, 512);
    join(0, true);
    join(1, false);
    for (uint8_t i = 0; i < 4; i++) {
        CHECK_EQ(put(8, i), PYDDSI_OK);
    }
    CHECK_EQ(put(8, 9), PYDDSI_AGAIN);
    CHECK_EQ(bench.writer.pushed_out, 0);
    CHECK_EQ(take_byte(1), 0);
    CHECK_EQ(put(8, 4), PYDDSI_OK);
    CHECK_EQ(bench.writer.pushed_out, 1);
    CHECK_EQ(take_byte(0), 1);
    CHECK_EQ(take_byte(1), 1);
    free(bench.memory);
}

/* If it failed, a reader that was moved past all it asked for would keep its mark, and hold up the
 * writer. */
static void test_drops_past_until(void)
{
    struct pdi_lane_sample sample;
    set_up(4, 512);
    join(0, true);
    CHECK_EQ(put(8, 0), PYDDSI_OK);
    uint64_t until = pdi_lane_next(&bench.readers[0]);
    for (uint8_t i = 1; i < 9; i++) {
        CHECK_EQ(put(8, i), PYDDSI_OK);
    }
    CHECK_EQ(pdi_lane_take(&bench.readers[0], until, &sample), PYDDSI_AGAIN);
    CHECK_EQ(bench.readers[0].dropped, 5);
    CHECK_EQ(put(8, 9), PYDDSI_OK);
    CHECK_EQ(take_byte(0), 6);
    CHECK_EQ(bench.readers[0].dropped, 6);
    free(bench.memory);
}

/* ---- places ---- */

/* If it failed, a place could be used again while the other side may still touch it, or never
 * again. */
static void test_place_life(void)
{
    struct pdi_place *place = &bench.places[0];
    struct pdi_lane_sample sample;
    set_up(4, 64);
    CHECK_EQ(pdi_lane_join(&bench.writer, place), PYDDSI_BAD_INPUT); /* FREE */
    pdi_place_end(place);
    pdi_place_dismiss(place);
    CHECK_EQ(pdi_place_state(place), PDI_PLACE_FREE);
    pdi_place_want(place, COOKIE + 1, false);
    CHECK_EQ(pdi_lane_join(&bench.writer, place), PYDDSI_BAD_INPUT); /* another lane's */
    pdi_place_dismiss(place);
    CHECK_EQ(pdi_place_state(place), PDI_PLACE_LOST);
    pdi_place_end(place);
    CHECK_EQ(pdi_place_state(place), PDI_PLACE_LOST);
    CHECK_EQ(pdi_lane_join(&bench.writer, place), PYDDSI_BAD_INPUT);
    pdi_place_clear(place);
    pdi_place_want(place, COOKIE, false);
    pdi_place_end(place); /* before anybody came */
    CHECK_EQ(pdi_place_state(place), PDI_PLACE_ENDED);
    CHECK_EQ(pdi_lane_join(&bench.writer, place), PYDDSI_BAD_INPUT);
    CHECK_EQ(pdi_lane_leave(&bench.writer, place), 0);
    CHECK_EQ(pdi_place_state(place), PDI_PLACE_FREE);
    join(0, false);
    CHECK_EQ(pdi_lane_find(&bench.writer, place), 0);
    CHECK_EQ(put(8, 1), PYDDSI_OK);
    CHECK_EQ(take(0, &sample), PYDDSI_OK);
    CHECK_EQ(pdi_lane_quit(&bench.readers[0]), PYDDSI_AGAIN); /* holds a sample */
    CHECK_EQ(pdi_place_state(place), PDI_PLACE_ACTIVE);
    CHECK(!pdi_lane_lost(&bench.readers[0]));
    pdi_lane_release(&bench.readers[0], sample.number);
    CHECK_EQ(put(8, 2), PYDDSI_OK);
    CHECK_EQ(pdi_lane_quit(&bench.readers[0]), PYDDSI_OK);
    CHECK_EQ(pdi_place_state(place), PDI_PLACE_ENDED);
    CHECK_EQ(pdi_lane_leave(&bench.writer, place), 1);
    CHECK_EQ(pdi_place_state(place), PDI_PLACE_FREE);
    CHECK_EQ(bench.writer.readers, 0);
    free(bench.memory);
}

/* If it failed, the writer would wait for a reader that has left, or a reader that was left would
 * take its samples for true. */
static void test_left_by_the_writer(void)
{
    struct pdi_lane_sample sample;
    set_up(4, 64);
    join(0, false);
    for (uint8_t i = 0; i < 4; i++) {
        CHECK_EQ(put(8, i), PYDDSI_OK);
    }
    CHECK_EQ(take(0, &sample), PYDDSI_OK);
    CHECK_EQ(put(8, 4), PYDDSI_AGAIN);
    CHECK_EQ(pdi_lane_leave(&bench.writer, &bench.places[0]), 4);
    CHECK_EQ(put(8, 4), PYDDSI_OK);
    CHECK(pdi_lane_lost(&bench.readers[0]));
    CHECK_EQ(pdi_lane_start(&bench.readers[0], &bench.places[0]), PYDDSI_END);
    CHECK_EQ(pdi_lane_take(&bench.readers[0], sample.number + 1, &sample), PYDDSI_END);
    pdi_lane_release(&bench.readers[0], sample.number);
    CHECK_EQ(pdi_lane_quit(&bench.readers[0]), PYDDSI_OK);
    CHECK_EQ(pdi_place_state(&bench.places[0]), PDI_PLACE_LOST);
    free(bench.memory);
}

/* If it failed, a 65th reader would be written past the table, or one reader could take two
 * rows. */
static void test_readers_limit(void)
{
    set_up(4, 64);
    for (uint32_t i = 0; i <= PDI_LANE_READERS_MAX; i++) {
        pdi_place_want(&bench.places[i], COOKIE, false);
        CHECK_EQ(pdi_lane_join(&bench.writer, &bench.places[i]),
                 i < PDI_LANE_READERS_MAX ? PYDDSI_OK : PYDDSI_NO_SPACE);
    }
    CHECK_EQ(pdi_place_state(&bench.places[PDI_LANE_READERS_MAX]), PDI_PLACE_WANTED);
    CHECK_EQ(put(8, 1), PYDDSI_OK);
    CHECK_EQ(pdi_lane_in_flight(&bench.writer), PDI_LANE_READERS_MAX);
    CHECK_EQ(pdi_lane_leave(&bench.writer, &bench.places[63]), 1);
    pdi_atomic64_store_relaxed(&bench.places[5].state,
                               PDI_PLACE_WANTED); /* it wants to join twice */
    CHECK_EQ(pdi_lane_join(&bench.writer, &bench.places[5]), PYDDSI_BAD_INPUT);
    CHECK_EQ(pdi_lane_join(&bench.writer, &bench.places[PDI_LANE_READERS_MAX]), PYDDSI_OK);
    CHECK_EQ(pdi_lane_find(&bench.writer, &bench.places[PDI_LANE_READERS_MAX]), 63);
    free(bench.memory);
}

/* ---- hostile neighbours ---- */

/* If it failed, a reader that tells a position that cannot be would stop the writer, or let it
 * overwrite what others read. */
static void test_hostile_positions(void)
{
    static const uint64_t positions[] = {
        7,
        3,
        0,
        UINT64_MAX,
        UINT64_MAX >> 1,
        PDI_PLACE_HELD,
        PDI_PLACE_HELD | 7,
        UINT64_C(1) << 62,
        UINT64_C(1) << 32 | 4,
    };
    for (size_t i = 0; i < sizeof positions / sizeof positions[0]; i++) {
        set_up(4, 512);
        start_at(&bench.writer, 2, 16);
        join(0, i % 2 != 0);
        join(1, false);
        CHECK_EQ(put(8, 1), PYDDSI_OK);
        CHECK_EQ(put(8, 2), PYDDSI_OK);
        CHECK_EQ(take_byte(0), 1);
        CHECK_EQ(take_byte(0), 2);
        CHECK_EQ(pdi_lane_in_flight(&bench.writer), 2); /* seen: 4 */
        CHECK_EQ(put(8, 3), PYDDSI_OK);
        CHECK(pdi_lane_broken(&bench.writer) == NULL);
        pdi_atomic64_store_relaxed(&bench.places[0].position, positions[i]);
        CHECK_EQ(put(8, 4), PYDDSI_OK);
        CHECK_EQ(put(8, 5), PYDDSI_AGAIN);
        CHECK(pdi_lane_broken(&bench.writer) == &bench.places[0]);
        for (int byte = 1; byte <= 4; byte++) {
            CHECK_EQ(take_byte(1), byte);
        }
        for (uint8_t byte = 5; byte < 9; byte++) { /* it is waited for no longer */
            CHECK_EQ(put(8, byte), PYDDSI_OK);
        }
        pdi_atomic64_store_relaxed(&bench.places[0].position, 5);
        CHECK_EQ(put(8, 9), PYDDSI_AGAIN); /* nor believed again */
        CHECK(pdi_lane_broken(&bench.writer) == &bench.places[0]);
        CHECK_EQ(pdi_lane_leave(&bench.writer, &bench.places[0]), 6);
        CHECK(pdi_lane_broken(&bench.writer) == NULL);
        CHECK_EQ(pdi_lane_in_flight(&bench.writer), 4);
        free(bench.memory);
    }
}

/* If it failed, a reader could ask for samples from before it joined, of which nothing is kept for
 * it. */
static void test_hostile_from_the_beginning(void)
{
    set_up(4, 512);
    join(0, false);
    CHECK_EQ(put(8, 1), PYDDSI_OK);
    CHECK_EQ(put(8, 2), PYDDSI_OK);
    join(1, false);
    pdi_atomic64_store_relaxed(&bench.places[1].position, 1);
    (void)pdi_lane_in_flight(&bench.writer);
    CHECK(pdi_lane_broken(&bench.writer) == &bench.places[1]);
    free(bench.memory);
}

/* If it failed, a reader would read beside a lane whose header, or whose position for it, is not
 * true. */
static void test_hostile_lane(void)
{
    for (int wrong = 0; wrong < 12; wrong++) {
        set_up(4, 64);
        struct pdi_lane *lane = bench.writer.lane;
        size_t size = bench.size;
        int wanted = PYDDSI_BAD_INPUT;
        uint64_t cookie = COOKIE;
        size_t words = 1;
        switch (wrong) {
        case 0:
            pdi_atomic32_store_relaxed(&lane->magic, 0);
            break;
        case 1:
            pdi_atomic32_store_relaxed(&lane->version, PDI_LANE_VERSION + 1);
            break;
        case 2:
            pdi_atomic64_store_relaxed(&lane->cookie, COOKIE ^ UINT64_C(1) << 63);
            break;
        case 3:
            pdi_atomic32_store_relaxed(&lane->entries, 8);
            break;
        case 4:
            pdi_atomic32_store_relaxed(&lane->bytes, 128);
            break;
        case 5:
            pdi_atomic32_store_relaxed(&lane->entries, 3);
            break;
        case 6:
            pdi_atomic32_store_relaxed(&lane->bytes, 0);
            break;
        case 7:
            pdi_atomic32_store_relaxed(&lane->entries, UINT32_MAX);
            break;
        case 8:
            size--;
            break;
        case 9:
            size = sizeof *lane - 1;
            break;
        case 10:
            words = 0;
            wanted = PYDDSI_NO_SPACE;
            break;
        default:
            wanted = PYDDSI_OK;
        }
        CHECK_EQ(
            pdi_lane_open(&bench.readers[0], bench.memory, size, cookie, bench.released[0], words),
            wanted);
        free(bench.memory);
    }
}

/* If it failed, a writer could lead its readers to memory beside the lane. */
static void test_hostile_entries(void)
{
    static const struct {
        uint64_t at, size;
        int status;
    } rows[] = {
        {0, 64, PYDDSI_OK},
        {64, 0, PYDDSI_OK},
        {63, 1, PYDDSI_OK},
        {0, 65, PYDDSI_BAD_INPUT},
        {64, 1, PYDDSI_BAD_INPUT},
        {1, 64, PYDDSI_BAD_INPUT},
        {65, 0, PYDDSI_BAD_INPUT},
        {UINT32_MAX, 1, PYDDSI_BAD_INPUT},
        {1, UINT32_MAX, PYDDSI_BAD_INPUT},
        {UINT32_MAX, UINT32_MAX, PYDDSI_BAD_INPUT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pdi_lane_sample sample;
        set_up(4, 64);
        join(0, i % 2 != 0);
        CHECK_EQ(put(8, 1), PYDDSI_OK);
        pdi_atomic64_store_relaxed(&bench.writer.entries[0].where, rows[i].size << 32 | rows[i].at);
        CHECK_EQ(take(0, &sample), rows[i].status);
        if (rows[i].status == PYDDSI_OK) {
            CHECK(sample.bytes.data == bench.writer.bytes + rows[i].at);
            CHECK_EQ(sample.bytes.size, rows[i].size);
        }
        free(bench.memory);
    }
}

/* If it failed, a writer could make its readers take samples that are not there, or believe that it
 * moved them where it must not. */
static void test_hostile_next(void)
{
    struct pdi_lane_sample sample;
    set_up(4, 512);
    start_at(&bench.writer, 100, 0);
    join(0, false);
    join(1, true);
    for (uint8_t i = 0; i < 4; i++) {
        CHECK_EQ(put(8, i), PYDDSI_OK);
    }
    static const uint64_t wrong[] = {105, 1000, UINT64_C(1) << 62};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        pdi_atomic64_store_relaxed(&bench.writer.lane->next, wrong[i]);
        CHECK_EQ(take(0, &sample), PYDDSI_BAD_INPUT);
        CHECK_EQ(take(1, &sample), PYDDSI_BAD_INPUT);
        pdi_atomic64_store_relaxed(&bench.places[1].position, 100);
        bench.readers[1].span = 0;
    }
    static const uint64_t behind[] = {100, 99, 0, (UINT64_C(1) << 63) + 200, UINT64_MAX};
    for (size_t i = 0; i < sizeof behind / sizeof behind[0]; i++) {
        pdi_atomic64_store_relaxed(&bench.writer.lane->next, behind[i]);
        CHECK_EQ(take(0, &sample), PYDDSI_AGAIN);
        CHECK_EQ(take(1, &sample), PYDDSI_AGAIN);
    }
    pdi_atomic64_store_relaxed(&bench.writer.lane->next, 104);
    static const uint64_t moved[] = {99,        0, 105, 100 | PDI_PLACE_HELD, UINT64_C(1) << 62,
                                     UINT64_MAX};
    for (size_t i = 0; i < sizeof moved / sizeof moved[0]; i++) {
        pdi_atomic64_store_relaxed(&bench.places[1].position, moved[i]);
        CHECK_EQ(take(1, &sample), PYDDSI_BAD_INPUT);
        CHECK_EQ(bench.readers[1].dropped, 0);
    }
    pdi_atomic64_store_relaxed(&bench.places[1].position, 103);
    CHECK_EQ(take_byte(1), 3);
    CHECK_EQ(bench.readers[1].dropped, 3);
    pdi_atomic64_store_relaxed(&bench.writer.lane->next, 105);
    pdi_atomic64_store_relaxed(&bench.places[1].position, 102); /* near, but behind */
    CHECK_EQ(take(1, &sample), PYDDSI_BAD_INPUT);
    CHECK_EQ(bench.readers[1].dropped, 3);
    pdi_atomic64_store_relaxed(&bench.writer.lane->next, 104);
    static const uint64_t starts[] = {99, 105, 0, UINT64_MAX, 104 | PDI_PLACE_HELD};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        pdi_atomic64_store_relaxed(&bench.places[0].position, starts[i]);
        CHECK_EQ(pdi_lane_start(&bench.readers[0], &bench.places[0]), PYDDSI_BAD_INPUT);
    }
    free(bench.memory);
}

/* One word of nonsense: any, or near to what is true. */
static uint64_t nonsense(uint64_t near)
{
    switch (draw(4)) {
    case 0:
        return pdi_rand_u64(&world.rand);
    case 1:
        return pdi_rand_u64(&world.rand) >> draw(64);
    default:
        return near + draw(16) - 8;
    }
}

/* If it failed, there would be nonsense in the lane by which a reader is led beside it. (A
 * sanitizer watches.) */
static void test_hostile_writer_drawn(void)
{
    uint64_t taken = 0;
    uint64_t refused = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        pdi_rand_init(&world.rand, seed);
        set_up(4, 64);
        join(0, draw(2) != 0);
        const uint8_t *end = bench.memory + bench.size;
        for (int i = 0; i < 50; i++) {
            struct pdi_lane_sample sample;
            struct pdi_lane_writer *writer = &bench.writer;
            uint64_t true_next = bench.readers[0].taken + draw(5);
            pdi_atomic64_store_relaxed(&writer->lane->next,
                                       draw(2) != 0 ? true_next : nonsense(true_next));
            uint64_t where = draw(2) != 0 ? (uint64_t)draw(70) << 32 | draw(70) : nonsense(64);
            pdi_atomic64_store_relaxed(&writer->entries[bench.readers[0].taken % 4].where, where);
            if (draw(16) == 0) {
                pdi_atomic64_store_relaxed(&bench.places[0].position,
                                           nonsense(bench.readers[0].base));
            }
            pdi_atomic32_store_relaxed(&writer->lane->entries, (uint32_t)nonsense(4));
            pdi_atomic32_store_relaxed(&writer->lane->bytes, (uint32_t)nonsense(64));
            int status = take(0, &sample);
            refused += status == PYDDSI_BAD_INPUT;
            if (status == PYDDSI_OK) {
                CHECK(sample.bytes.data >= writer->bytes && sample.bytes.data <= end);
                CHECK(sample.bytes.size <= (size_t)(end - sample.bytes.data));
                pdi_lane_release(&bench.readers[0], sample.number);
                taken++;
            }
        }
        free(bench.memory);
    }
    printf("%lu %lu\n", taken, refused);
    CHECK(taken > SEEDS && refused > SEEDS);
}

/* If it failed, there would be nonsense in one reader's place that spoils what another reads, or
 * that stops the writer for good. */
static void test_hostile_reader_drawn(void)
{
    uint64_t broken = 0;
    for (uint64_t seed = 0; seed < SEEDS && test_failures == 0; seed++) {
        uint8_t next = 0;
        pdi_rand_init(&world.rand, seed);
        set_up(4, 128);
        join(0, false);
        for (int i = 0; i < 100; i++) {
            struct pdi_place *place = &bench.places[1];
            pdi_atomic64_store_relaxed(&place->position, nonsense(bench.writer.next));
            pdi_atomic64_store_relaxed(&place->state,
                                       draw(3) == 0 ? nonsense(2) : PDI_PLACE_WANTED);
            pdi_atomic64_store_relaxed(&place->cookie, draw(3) == 0 ? nonsense(COOKIE) : COOKIE);
            (void)pdi_lane_join(&bench.writer, place);
            pdi_atomic64_store_relaxed(&place->position, nonsense(bench.writer.next));
            if (put(draw(40), next) == PYDDSI_OK) {
                CHECK_EQ(pdi_lane_behind(&bench.readers[0]), 1);
                struct pdi_lane_sample sample;
                CHECK_EQ(take(0, &sample), PYDDSI_OK);
                CHECK_EQ(sample.time, next);
                next = (uint8_t)(next + 1);
                for (size_t at = 0; at < sample.bytes.size; at++) {
                    CHECK_EQ(sample.bytes.data[at], sample.time);
                }
                pdi_lane_release(&bench.readers[0], sample.number);
            }
            broken += pdi_lane_broken(&bench.writer) != NULL;
            if (draw(8) == 0) {
                (void)pdi_lane_leave(&bench.writer, place);
            }
        }
        (void)pdi_lane_leave(&bench.writer, &bench.places[1]);
        CHECK_EQ(put(128, 1), PYDDSI_OK);
        free(bench.memory);
    }
    printf("%lu\n", broken);
    CHECK(broken > SEEDS);
}

int main(void)
{
    test_init_refuses();
    test_layout();
    test_held_back();
    test_sizes();
    test_loans_do_not_block();
    test_loans_in_any_order();
    test_loans_keep_numbers();
    test_loans_limit();
    test_newest_gives_back();
    test_gives_back_at_the_end();
    test_drops();
    test_drops_not_in_vain();
    test_drops_past_until();
    test_place_life();
    test_left_by_the_writer();
    test_readers_limit();
    test_hostile_positions();
    test_hostile_from_the_beginning();
    test_hostile_lane();
    test_hostile_entries();
    test_hostile_next();
    test_hostile_writer_drawn();
    test_hostile_reader_drawn();
    test_against_model();
    return test_result();
}
