/* capture/resync.h: boundaries found in ordinary captures, and in such as were made to mislead.
 *
 * The hostile ones hold what looks like records in their payloads: another capture cut into pieces, headers by the thousand,
 * a second chain that runs beside the true one for ever. What must hold is that no boundary is ever wrong; where nobody can
 * tell, the answer has to say so. The same places are asked of a search that takes some plausible headers in a row for
 * proof, to show what that is worth. (The file is long because what misleads has to be made first.)
 */
#include "capture/resync.h"

#include "capture_files.h"

enum { FILE_ROOM = 12 << 20, GIVEN = 4 << 20, FRAME_ROOM = 64 << 10, WINDOW = 16 + (256 << 10) };
enum { TRIES = 450, TRIES_PARALLEL = 600 };

/* What the payloads of a capture are made of. */
enum payload { RANDOM, MIXED, ZEROS, CAPTURE_SMALL, CAPTURE_LARGE, HEADERS, PARALLEL };

struct scene {
    const char *name;
    uint32_t magic;
    int big;
    enum payload payload;
    int mixed; /* VLAN tags and IPv6 among the packets */
    int odd;   /* records as few writers have them, all of which are good ones */
};

struct world {
    struct file file;
    uint8_t *is_boundary; /* a byte for each byte of the file */
    struct file inner;    /* a capture to fill payloads with, and how much of it was used */
    size_t inner_at;
    struct pdi_rand rand;
    uint64_t time_ns;
};

static uint32_t below(struct world *world, uint32_t limit)
{
    return (uint32_t)pdi_rand_below(&world->rand, limit);
}

static void fill_random(struct world *world, uint8_t *at, size_t size)
{
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)pdi_rand_u64(&world->rand);
}

/* Payloads as applications have them: random, empty, numbers that count, text. */
static void fill_mixed(struct world *world, uint8_t *at, size_t size)
{
    uint32_t kind = below(world, 4), count = below(world, 1000);
    for (size_t i = 0; i < size; i++)
        at[i] = kind == 0   ? (uint8_t)pdi_rand_u64(&world->rand)
                : kind == 1 ? 0
                : kind == 2 ? (uint8_t)(i % 4 == 0 ? count++ : 0)
                            : (uint8_t)('a' + i % 26);
}

/* Record headers with nothing, or little, behind them, as the capture itself would have them. */
static void fill_headers(struct world *world, const struct scene *scene, uint8_t *at, size_t size)
{
    struct file out = {at, 0, size, scene->big};
    while (out.room - out.size >= 16 + 32) {
        uint32_t length = below(world, 33);
        file_record(&out, (uint32_t)(world->time_ns / 1000000000), below(world, 1000000), NULL,
                    length, length);
    }
    file_bytes(&out, NULL, out.room - out.size);
}

static void fill(struct world *world, const struct scene *scene, uint8_t *at, size_t size,
                 uint32_t frame_size)
{
    switch (scene->payload) {
    case RANDOM:
        fill_random(world, at, size);
        break;
    case MIXED:
        fill_mixed(world, at, size);
        break;
    case ZEROS:
        memset(at, 0, size);
        break;
    case CAPTURE_SMALL:
    case CAPTURE_LARGE:
        if (world->inner_at + size > world->inner.size)
            world->inner_at = 0;
        memcpy(at, world->inner.data + world->inner_at, size);
        world->inner_at += size;
        break;
    case HEADERS:
        fill_headers(world, scene, at, size);
        break;
    case PARALLEL: { /* a header that leads to its like in the next frame */
        struct file out = {at, 0, size, scene->big};
        file_record(&out, 1700000000, below(world, 1000000), NULL, 0, frame_size);
        out.size = 8;
        file_put32(&out, frame_size);
        fill_random(world, at + 16, size - 16);
        break;
    }
    }
}

static uint32_t payload_size(struct world *world, const struct scene *scene)
{
    switch (scene->payload) {
    case CAPTURE_SMALL:
    case HEADERS:
        return 1400;
    case CAPTURE_LARGE:
        return 60000;
    case ZEROS:
        return 512;
    case PARALLEL:
        return 100 + below(world, 1000);
    default:
        return below(world, 8) == 0 ? below(world, 1473) : below(world, 200);
    }
}

/* An Ethernet frame with a UDP packet in it; how long it is. */
static uint32_t frame_make(struct world *world, const struct scene *scene, uint8_t *out)
{
    static const uint8_t ethernet[12] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1};
    uint32_t payload = payload_size(world, scene);
    int six = scene->mixed && below(world, 10) < 3, tagged = scene->mixed && below(world, 10) < 2;
    struct file at = {out, 0, FRAME_ROOM, 1};
    file_bytes(&at, ethernet, sizeof(ethernet));
    if (tagged)
        file_put32(&at, 0x81000064);
    file_put16(&at, six ? 0x86dd : 0x0800);
    if (six) {
        file_put32(&at, 6U << 28);
        file_put16(&at, 8 + payload);
        file_put16(&at, 0x1140);
        file_bytes(&at, "\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\1\xff\2\0\0\0\0\0\0\0\0\0\0\0\0\0\1",
                   32);
    } else {
        file_put32(&at, 0x45000000 | (28 + payload));
        file_put32(&at, below(world, 65536) << 16 | 0x4000);
        file_put32(&at, 0x40110000);
        file_put64(&at, UINT64_C(0x0a0000010a000002));
    }
    file_put64(&at, UINT64_C(0x9c401d1700000000) | (8 + payload) << 16);
    uint32_t size = (uint32_t)at.size + payload;
    fill(world, scene, out + at.size, payload, size);
    return size;
}

/* What good files have been seen to hold: more captured than there was, or less, or nothing; a clock that was never set; a
 * clock of nanoseconds under the magic number of microseconds. */
static void record_odd(struct world *world, struct file *file, const uint8_t *frame, uint32_t size)
{
    uint32_t seconds = (uint32_t)(world->time_ns / 1000000000) - below(world, 2) * 1700000000;
    uint32_t fraction = (uint32_t)(world->time_ns % 1000000000) / (below(world, 2) == 0 ? 1 : 1000);
    uint32_t kept = below(world, 8) == 0 ? 0 : below(world, 2) == 0 && size > 96 ? 96 : size;
    uint32_t wire = below(world, 8) == 0 ? 0 : below(world, 8) == 0 ? UINT32_MAX : size;
    file_record(file, seconds, fraction, frame, kept, wire);
}

/* Fills |file| with records; where each begins is told to |is_boundary| if there is one. */
static void world_fill(struct world *world, struct file *file, const struct scene *scene,
                       uint8_t *is_boundary)
{
    static uint8_t frame[FRAME_ROOM];
    uint32_t unit = scene->magic == 0xa1b2c3d4 ? 1000 : 1;
    file->size = 0;
    file->big = scene->big;
    world->time_ns = UINT64_C(1700000000123456789);
    file_pcap(file, scene->magic, 65535, 1);
    while (file->room - file->size >= FRAME_ROOM + 16) {
        uint32_t size = frame_make(world, scene, frame);
        if (is_boundary != NULL)
            is_boundary[file->size] = 1;
        if (scene->odd)
            record_odd(world, file, frame, size);
        else
            file_record(file, (uint32_t)(world->time_ns / 1000000000),
                        (uint32_t)(world->time_ns % 1000000000) / unit, frame, size, size);
        world->time_ns += below(world, 1000000);
    }
}

static uint8_t *memory(size_t size)
{
    uint8_t *got = calloc(size, 1);
    if (got == NULL)
        abort();
    return got;
}

static void world_init(struct world *world, const struct scene *scene, uint64_t seed)
{
    *world = (struct world){.file = {.data = memory(FILE_ROOM), .room = FILE_ROOM},
                            .is_boundary = memory(FILE_ROOM + 1)};
    pdi_rand_init(&world->rand, seed);
    if (scene->payload == CAPTURE_SMALL || scene->payload == CAPTURE_LARGE) {
        struct scene inside = {.magic = scene->magic, .big = scene->big, .payload = MIXED};
        world->inner = (struct file){.data = memory(GIVEN), .room = GIVEN};
        world_fill(world, &world->inner, &inside, NULL);
    }
    world_fill(world, &world->file, scene, world->is_boundary);
    world->is_boundary[world->file.size] = 1;
}

static void world_fini(struct world *world)
{
    free(world->file.data);
    free(world->inner.data);
    free(world->is_boundary);
}

/* ---- a search that guesses ---- */

static uint32_t number(const uint8_t *at, int big)
{
    return big ? (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]
               : (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

/* The first place with |wanted| plausible headers in a row: a year in this century, a fraction below a second, not longer
 * than it was. */
static size_t guess(const struct file *file, uint32_t fractions, size_t from, unsigned wanted)
{
    for (size_t start = from; start + 16 <= file->size; start++) {
        size_t at = start;
        unsigned found = 0;
        while (found < wanted && at + 16 <= file->size) {
            const uint8_t *head = file->data + at;
            uint32_t size = number(head + 8, file->big), wire = number(head + 12, file->big);
            if (number(head, file->big) < 946684800 || number(head + 4, file->big) >= fractions ||
                size > PDI_FRAME_BYTES_MAX || wire < size || wire > PDI_FRAME_BYTES_MAX)
                break;
            found++;
            at += 16 + (size_t)size;
        }
        if (found == wanted)
            return start;
    }
    return file->size;
}

/* ---- tests ---- */

static void *ring(void)
{
    static uint64_t words[1 << 14];
    CHECK(pdi_resync_memory() <= sizeof(words));
    return words;
}

static struct pdi_container header_of(const struct file *file)
{
    static struct pdi_container container;
    struct pdi_frame frame;
    size_t used, need;
    pdi_container_init(&container);
    (void)pdi_container_next(&container, file->data, file->size, &frame, &used, &need);
    return container;
}

struct score {
    unsigned tries, found, wrong, undecided, other;
    unsigned guess_2, guess_6; /* wrong */
};

/* A place that is one in 450 only by chance: where a record begins, or where one begins just behind the window. */
static size_t draw_place(struct world *world, unsigned try)
{
    size_t from = 24 + below(world, (uint32_t)world->file.size - GIVEN);
    size_t ahead = try % 4 == 2 ? 0 : WINDOW;
    while (try % 4 >= 2 && !world->is_boundary[from + ahead])
        from++;
    return from;
}

/* Asks for random places. The bytes given end somewhere, or with the file. */
static void try_scene(const struct scene *scene, uint64_t seed, unsigned tries, struct score *score)
{
    struct world world;
    world_init(&world, scene, seed);
    struct pdi_container container = header_of(&world.file);
    uint32_t fractions = scene->magic == 0xa1b2c3d4 ? 1000000 : 1000000000;
    for (unsigned i = 0; i < tries; i++) {
        size_t from = draw_place(&world, i), at = 0;
        size_t size = i % 2 == 0 ? GIVEN : world.file.size - from;
        int status = pdi_resync_find(&container, world.file.data + from, size,
                                     from + size == world.file.size, ring(), &at);
        score->tries++;
        score->found += status == PYDDSI_OK;
        score->wrong += status == PYDDSI_OK && !world.is_boundary[from + at];
        score->undecided += status == (from + size == world.file.size ? PYDDSI_END : PYDDSI_AGAIN);
        score->other += status == PYDDSI_BAD_INPUT;
        if (!scene->odd) {
            score->guess_2 += !world.is_boundary[guess(&world.file, fractions, from, 2)];
            score->guess_6 += !world.is_boundary[guess(&world.file, fractions, from, 6)];
        }
    }
    world_fini(&world);
}

/* If it failed, a capture would be cut in the middle of a record, and what lies behind be read as if it were packets. */
static void test_hostile(void)
{
    static const struct scene scenes[] = {
        {"microseconds, low byte first", 0xa1b2c3d4, 0, RANDOM, 0, 0},
        {"nanoseconds, low byte first", 0xa1b23c4d, 0, MIXED, 0, 0},
        {"microseconds, high byte first", 0xa1b2c3d4, 1, MIXED, 0, 0},
        {"IPv6 and VLAN, microseconds", 0xa1b2c3d4, 0, MIXED, 1, 0},
        {"IPv6 and VLAN, nanoseconds, high byte first", 0xa1b23c4d, 1, RANDOM, 1, 0},
        {"payload is a capture, pieces of 1,400 B", 0xa1b2c3d4, 0, CAPTURE_SMALL, 0, 0},
        {"payload is a capture, pieces of 60 kB", 0xa1b2c3d4, 0, CAPTURE_LARGE, 0, 0},
        {"payload is record headers", 0xa1b23c4d, 0, HEADERS, 0, 0},
        {"a second chain for ever", 0xa1b2c3d4, 0, PARALLEL, 0, 0},
    };
    struct score all = {0};
    printf("%-44s %5s %5s %5s %9s   2 in a row  6 in a row\n", "", "tries", "found", "wrong",
           "undecided");
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        struct score score = {0};
        int parallel = scenes[i].payload == PARALLEL;
        try_scene(&scenes[i], i, parallel ? TRIES_PARALLEL : TRIES, &score);
        printf("%-44s %5u %5u %5u %9u %6u wrong %5u wrong\n", scenes[i].name, score.tries,
               score.found, score.wrong, score.undecided, score.guess_2, score.guess_6);
        CHECK_EQ(score.wrong, 0);
        CHECK_EQ(score.other, 0);
        CHECK_EQ(score.undecided, parallel ? TRIES_PARALLEL : 0);
        all.tries += score.tries;
        all.wrong += score.wrong;
        all.guess_2 += score.guess_2;
        all.guess_6 += score.guess_6;
    }
    printf("%u wrong of %u tries; where 2 plausible headers in a row had been proof enough, %u, "
           "and with 6, %u\n",
           all.wrong, all.tries, all.guess_2, all.guess_6);
    CHECK_EQ(all.tries, 4200);
    CHECK(all.guess_2 > 0 && all.guess_6 > 0);
}

/* If it failed, a test of plausibility would be too strict: it kills the true chain of a file that is merely odd, and then
 * whichever is left passes for true. */
static void test_odd_files(void)
{
    static const struct scene scenes[] = {
        {"odd", 0xa1b2c3d4, 0, MIXED, 1, 1},
        {"odd, high byte first", 0xa1b23c4d, 1, RANDOM, 1, 1},
        {"odd, zeros", 0xa1b2c3d4, 0, ZEROS, 0, 1},
        {"frames all alike", 0xa1b2c3d4, 0, ZEROS, 0, 0},
    };
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        struct score score = {0};
        try_scene(&scenes[i], 100 + i, 100, &score);
        printf("%-44s %5u %5u %5u %9u\n", scenes[i].name, score.tries, score.found, score.wrong,
               score.undecided);
        CHECK_EQ(score.wrong, 0);
        CHECK_EQ(score.found, score.tries);
    }
}

/* A record of 100 bytes whose clock tells |fraction|, in a year before 2002: where this is the captured size, the four bytes
 * before it look like a record that goes on like it. The original size keeps the chain behind it from living. */
static void put_told(struct file *file, uint32_t size, uint32_t fraction)
{
    file_record(file, 5, fraction, NULL, size, UINT32_MAX);
    memset(file->data + file->size - size, 0xff, size);
}

/* If it failed, a clock that was never set, and for a moment told the sizes of its frames, would make the chain of four
 * bytes before the true one pass for true. */
static void test_clock_that_tells_sizes(void)
{
    enum { SIZE = WINDOW + 10000, FIRST = WINDOW - 1000 };
    for (unsigned told = 0; told < 15; told++) {
        for (unsigned again = 0; again < 15; again++) {
            struct file file = {memory(SIZE), FIRST, SIZE, 0};
            struct pdi_container container;
            size_t at = 0, ends[40] = {0}, count = 0, found = 0;
            pdi_container_init(&container);
            container.kind = PDI_CONTAINER_PCAP;
            memset(file.data, 0xff, SIZE);
            put_told(&file, 2000, 2000);
            for (unsigned i = 0; i < told + again + 5; i++) {
                ends[count++] = file.size;
                /* between the two moments, one that leads the false chain to where the next begins */
                put_told(&file, 100,
                         i < told               ? 100
                         : i == told            ? 216
                         : i < told + 2 + again ? 100
                                                : 500000);
            }
            ends[count++] = file.size;
            CHECK_EQ(pdi_resync_find(&container, file.data, SIZE, 0, ring(), &at), PYDDSI_OK);
            for (size_t i = 0; i < count; i++)
                found += ends[i] == at;
            CHECK_EQ(found, 1);
            free(file.data);
        }
    }
}

/* The search, with the bytes in memory of exactly their size. */
static int find_exactly(const struct pdi_container *container, const uint8_t *data, size_t size,
                        int last, size_t *at)
{
    uint8_t *copy = memory(size != 0 ? size : 1);
    memcpy(copy, data, size);
    int status = pdi_resync_find(container, copy, size, last, ring(), at);
    free(copy);
    return status;
}

/* If it failed, two readers that were given more or less of the same file would cut it at different places, and what lies
 * between be read twice or never. */
static void test_more_bytes(void)
{
    struct scene scene = {"", 0xa1b2c3d4, 0, CAPTURE_LARGE, 0, 0};
    struct world world;
    world_init(&world, &scene, 7);
    struct pdi_container container = header_of(&world.file);
    for (unsigned i = 0; i < 4; i++) {
        size_t from = 24 + below(&world, (uint32_t)world.file.size - GIVEN), wanted = 0, at = 0;
        const uint8_t *data = world.file.data + from;
        CHECK_EQ(pdi_resync_find(&container, data, GIVEN, 0, ring(), &wanted), PYDDSI_OK);
        for (size_t size = WINDOW; size <= GIVEN; size += size < WINDOW + 16 ? 1 : 400009) {
            int status = find_exactly(&container, data, size, 0, &at);
            CHECK(status == PYDDSI_AGAIN || (status == PYDDSI_OK && at == wanted));
            CHECK(status == PYDDSI_OK || size < wanted + 64 * 65536);
            int ended = pdi_resync_find(&container, data, size, 1, ring(), &at);
            CHECK_EQ(ended, status == PYDDSI_OK ? PYDDSI_OK : PYDDSI_END);
        }
    }
    world_fini(&world);
}

/* If it failed, the one chain that is left would be lost, or sought behind the end of the file. */
static void test_ends(void)
{
    enum { SIZE = WINDOW + 100 };
    static uint8_t data[SIZE];
    struct pdi_container container;
    struct file file = {data, 0, SIZE, 0};
    size_t at = 0;
    pdi_container_init(&container);
    container.kind = PDI_CONTAINER_PCAP;
    memset(data, 0xff, SIZE);
    CHECK_EQ(pdi_resync_find(&container, data, SIZE, 1, ring(), &at), PYDDSI_BAD_INPUT);
    file.size = 200;
    file_record(&file, UINT32_MAX, 0, "", 0, UINT32_MAX);
    file.size = 208;
    file_put32(&file, SIZE - 216);
    CHECK_EQ(pdi_resync_find(&container, data, SIZE, 1, ring(), &at), PYDDSI_OK);
    CHECK_EQ(at, SIZE);
    CHECK_EQ(pdi_resync_find(&container, data, SIZE, 0, ring(), &at), PYDDSI_OK);
    file.size = 208;
    file_put32(&file, SIZE - 216 + 1); /* the file was cut */
    at = 0;
    CHECK_EQ(pdi_resync_find(&container, data, SIZE, 1, ring(), &at), PYDDSI_OK);
    CHECK_EQ(at, SIZE);
    CHECK_EQ(pdi_resync_find(&container, data, SIZE, 0, ring(), &at), PYDDSI_AGAIN);
    for (size_t size = 0; size < WINDOW + 16; size += size < WINDOW - 16 ? 4099 : 1) {
        CHECK_EQ(find_exactly(&container, data, size, 0, &at), PYDDSI_AGAIN);
        CHECK_EQ(find_exactly(&container, data, size, 1, &at), PYDDSI_END);
    }
    container.kind = PDI_CONTAINER_PCAPNG;
    CHECK_EQ(pdi_resync_find(&container, data, SIZE, 1, ring(), &at), PYDDSI_BAD_INPUT);
}

int main(void)
{
    test_hostile();
    test_odd_files();
    test_clock_that_tells_sizes();
    test_more_bytes();
    test_ends();
    return test_result();
}
