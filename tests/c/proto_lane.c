/* proto/lane.h: edges, hostile neighbours, and random lives against the plainest model.
 *
 * The model is a list: every piece of memory that was given out, in its order, with who may still need it. What fits is found
 * by looking at all of it. What threads do to each other is in proto_lane_threads.c.
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

/* The least position if those who would rather lose the oldest, and hold nothing, were all moved to `number`. */
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
    piece->size = size; /* what it does not need is only promised to be free if it is the newest; see shrinks */
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
    if (!member->drops || member->held_count > 0) { /* else it may not know yet where it was moved */
        CHECK_EQ(member->reader.base, member->base);
    }
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

/* If it failed, room would be lost or found where there is none, a sample that somebody needs would be overwritten,
 * numbers or bytes would be wrong, or a reader that would rather lose the oldest would lose more than it must:
 * after any puts, loans, takes, releases, joins and leaves in any order. */
static void test_against_model(void)
{
    for (uint64_t seed = 0; seed < SEEDS && test_failures == 0; seed++) {
        run_seed(seed);
        if (test_failures != 0) {
            printf("seed %" PRIu64 "\n", seed);
        }
    }
}

int main(void)
{
    test_against_model();
    return test_result();
}
