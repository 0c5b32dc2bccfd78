/* proto/window.h: edges, and random lives against a second layout.
 *
 * The second layout is the plainest there is: copies of the messages one after the other in a ring
 * of bytes, each with its length in front, found by walking from the oldest. Room is predicted from
 * a list of what was reserved. What two threads do to the word is in proto_window_threads.c.
 *
 * It is long, because the two models are one half of it and the edges, which need no model, the other. */
#include "proto/window.h"

#include "base/rand.h"
#include "test.h"

#define SEEDS       500
#define STEPS       300
#define MEMORY_MAX  (UINT32_C(4) << 20)
#define ENTRIES_MAX 256
#define REGIONS_MAX 256
#define LOANS_MAX   8
#define LOG_BYTES   (2 * MEMORY_MAX) /* a power of two; a full window with its prefixes fits */
#define PREFIX      4

/* What the model knows of one reserve. */
struct held {
    uint32_t at;
    uint32_t size;
    uint64_t last;
    uint32_t state;
    uint32_t region; /* as in the loan */
};

struct open_loan {
    struct pdi_loan loan;
    uint64_t pattern;
};

static struct world {
    struct pdi_rand rand;
    struct pdi_window window;
    struct open_loan loans[LOANS_MAX];
    uint32_t loans_open;
    struct held held[REGIONS_MAX]; /* oldest first */
    uint32_t held_count;
    uint64_t base, next; /* whole counts */
    uint32_t promised;
    uint32_t log_base, log_next; /* free-running places in the log */
    struct pdi_entry entries[ENTRIES_MAX];
    struct pdi_region regions[REGIONS_MAX];
} world;

static uint8_t memory[MEMORY_MAX];
static uint8_t log_bytes[LOG_BYTES];

static uint32_t draw(uint64_t limit)
{
    return (uint32_t)pdi_rand_below(&world.rand, limit);
}

/* Byte i of a loan with this pattern. */
static uint8_t byte_of(uint64_t pattern, uint32_t i)
{
    return (uint8_t)((pattern >> (i % 8 * 8)) + (i >> 3));
}

/* Starts the window as if `count` numbers had been used and acknowledged. */
static void start_at(struct pdi_window *window, uint64_t count)
{
    window->next = count;
    window->base_seen = (uint32_t)count;
    pdi_atomic64_store_relaxed(&window->word, count << 32 | (count & UINT32_MAX));
}

/* ---- the second layout ---- */

static void log_put(const uint8_t *bytes, uint32_t size)
{
    uint32_t at = world.log_next % LOG_BYTES;
    uint32_t straight = size < LOG_BYTES - at ? size : LOG_BYTES - at;
    memcpy(log_bytes + at, bytes, straight);
    memcpy(log_bytes, bytes + straight, size - straight);
    world.log_next += size;
}

static uint32_t log_size(uint32_t place)
{
    uint32_t size = 0;
    for (uint32_t i = 0; i < PREFIX; i++) {
        size |= (uint32_t)log_bytes[(place + i) % LOG_BYTES] << (8 * i);
    }
    return size;
}

static bool log_equal(uint32_t place, const uint8_t *bytes, uint32_t size)
{
    uint32_t at = place % LOG_BYTES;
    uint32_t straight = size < LOG_BYTES - at ? size : LOG_BYTES - at;
    return memcmp(log_bytes + at, bytes, straight) == 0 &&
           memcmp(log_bytes, bytes + straight, size - straight) == 0;
}

/* Writes a copy of a message made from its loan's pattern, not from the window's memory. */
static void log_message(uint64_t pattern, uint32_t from, uint32_t size)
{
    uint8_t piece[256];
    uint32_t filled = 0;
    log_put((uint8_t[PREFIX]){(uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16),
                              (uint8_t)(size >> 24)},
            PREFIX);
    for (uint32_t i = 0; i < size; i++) {
        piece[filled++] = byte_of(pattern, from + i);
        if (filled == sizeof piece || i == size - 1) {
            log_put(piece, filled);
            filled = 0;
        }
    }
}

/* Compares messages base .. next with the log: all bytes of every `stride`-th and of the newest. */
static void check_messages(uint32_t stride)
{
    struct pdi_window_span span = pdi_window_span(&world.window);
    uint32_t place = world.log_base;
    CHECK_EQ(span.base, (uint32_t)world.base);
    CHECK_EQ(span.next, (uint32_t)world.next);
    for (uint64_t number = world.base; number != world.next; number++) {
        const struct pdi_entry *entry = pdi_window_entry(&world.window, (uint32_t)number);
        uint32_t size = log_size(place);
        place += PREFIX;
        CHECK_EQ(entry->size, size);
        CHECK(entry->at <= world.window.size && size <= world.window.size - entry->at);
        if (test_failures == 0 && (number % stride == 0 || number + 1 == world.next)) {
            CHECK(log_equal(place, memory + entry->at, size));
        }
        place += size;
    }
    CHECK_EQ(place, world.log_next);
}

/* ---- the list of what was reserved ---- */

static void held_clean(void)
{
    uint32_t gone = 0;
    while (gone < world.held_count && (world.held[gone].state == PDI_REGION_ABANDONED ||
                                       (world.held[gone].state == PDI_REGION_COMMITTED &&
                                        world.held[gone].last < world.base))) {
        gone++;
    }
    world.held_count -= gone;
    memmove(world.held, world.held + gone, world.held_count * sizeof world.held[0]);
    while (world.held_count > 0 && world.held[world.held_count - 1].state == PDI_REGION_ABANDONED) {
        world.held_count--;
    }
}

static struct held *held_find(uint32_t region)
{
    for (uint32_t i = 0; i < world.held_count; i++) {
        if (world.held[i].region == region) {
            return &world.held[i];
        }
    }
    return NULL;
}

/* The largest piece of memory that can be had behind the newest held one, without touching the
 * oldest. *sure is false if the oldest one is empty: it may or may not keep its place. */
static uint32_t held_free(bool *sure)
{
    uint32_t size = world.window.size;
    uint32_t oldest = 0;
    while (oldest < world.held_count && world.held[oldest].size == 0) {
        oldest++;
    }
    *sure = oldest == 0;
    if (oldest == world.held_count) {
        *sure = true;
        return size;
    }
    uint32_t tail = world.held[oldest].at;
    uint32_t head =
        (world.held[world.held_count - 1].at + world.held[world.held_count - 1].size) % size;
    if (head > tail) {
        return size - head > tail ? size - head : tail;
    }
    return tail - head;
}

/* ---- the steps ---- */

static uint32_t draw_size(void)
{
    uint32_t size = world.window.size;
    switch (draw(8)) {
    case 0:
        return 0;
    case 1:
        return draw(size + 1);
    case 2:
        return size - draw(3);
    case 3:
        return draw(size / 2 + 1);
    default:
        return draw(size / 8 + 1);
    }
}

static void step_reserve(void)
{
    struct open_loan *open = &world.loans[world.loans_open];
    uint32_t size = draw_size();
    uint32_t numbers = draw(3) != 0 ? 1 : 1 + draw(world.window.entries_max);
    bool sure = true;
    held_clean();
    bool fits = world.next + world.promised + numbers <= world.base + world.window.entries_max &&
                world.held_count < world.window.regions_max && size <= held_free(&sure);
    if (draw(2) != 0) {
        int room = pdi_window_room(&world.window, size, numbers);
        fits = sure || !fits ? fits : room == PYDDSI_OK;
        CHECK_EQ(room, fits ? PYDDSI_OK : PYDDSI_AGAIN);
    }
    int status = pdi_window_reserve(&world.window, size, numbers, &open->loan);
    if (sure || !fits) {
        CHECK_EQ(status, fits ? PYDDSI_OK : PYDDSI_AGAIN);
    }
    if (status != PYDDSI_OK) {
        return;
    }
    CHECK_EQ(open->loan.size, size);
    CHECK(open->loan.at <= world.window.size && size <= world.window.size - open->loan.at);
    open->pattern = pdi_rand_u64(&world.rand);
    uint8_t *data = pdi_window_data(&world.window, &open->loan);
    for (uint32_t i = 0; i < size && test_failures == 0; i++) {
        data[i] = byte_of(open->pattern, i);
    }
    world.promised += numbers;
    world.held[world.held_count++] = (struct held){
        .at = open->loan.at, .size = size, .state = PDI_REGION_OPEN, .region = open->loan.region};
    world.loans_open++;
}

/* Takes a loan out of the list of open ones. */
static struct open_loan take_loan(uint32_t index)
{
    struct open_loan taken = world.loans[index];
    world.loans[index] = world.loans[--world.loans_open];
    world.promised -= taken.loan.numbers;
    return taken;
}

static void check_entry(uint64_t number, const struct pdi_entry *model, uint64_t first)
{
    struct pdi_entry entry = *pdi_window_entry(&world.window, (uint32_t)number);
    CHECK(entry.id == model->id && entry.data_id == model->data_id);
    CHECK(entry.fragments == model->fragments && entry.sent_us == model->sent_us);
    CHECK(entry.kind == model->kind && entry.flags == model->flags);
    CHECK(entry.space == model->space && entry.fragment == model->fragment);
    CHECK(entry.mark == model->mark);
    if (model->fragment != 0) {
        CHECK(entry.first == (model->first == PDI_WINDOW_SELF ? first : model->first));
    }
}

static void step_commit(void)
{
    struct open_loan open = take_loan(draw(world.loans_open));
    struct held *held = held_find(open.loan.region);
    uint32_t size = draw(2) != 0 ? open.loan.size : draw((uint64_t)open.loan.size + 1);
    uint32_t least = size == 0 ? 0 : (size - 1) / open.loan.numbers + 1;
    uint32_t piece = draw(3) == 0 ? 0 : least + draw(2) * draw((uint64_t)size + 1);
    struct pdi_entry model = {.id = pdi_rand_u64(&world.rand),
                              .data_id = pdi_rand_u64(&world.rand),
                              .first = draw(2) != 0 ? PDI_WINDOW_SELF : world.next - draw(9),
                              .fragments = draw(9),
                              .sent_us = draw(1000),
                              .kind = (uint8_t)draw(256),
                              .flags = (uint8_t)draw(256),
                              .space = (uint8_t)draw(256),
                              .fragment = (uint8_t)draw(2),
                              .mark = (uint8_t)draw(256)};
    uint64_t first = pdi_window_commit(&world.window, &open.loan, size, piece, &model);
    CHECK(first == world.next);
    uint32_t from = 0;
    do {
        uint32_t bytes = piece == 0 || size - from < piece ? size - from : piece;
        log_message(open.pattern, from, bytes);
        check_entry(world.next, &model, first);
        world.next++;
        from += bytes;
    } while (from < size);
    CHECK(held != NULL);
    if (held == NULL) {
        return;
    }
    held->state = PDI_REGION_COMMITTED;
    held->last = world.next - 1;
    if (held == &world.held[world.held_count - 1]) {
        held->size = size;
    }
}

static void step_abandon(void)
{
    struct open_loan open = take_loan(draw(world.loans_open));
    struct held *held = held_find(open.loan.region);
    pdi_window_abandon(&world.window, &open.loan);
    CHECK(held != NULL);
    if (held != NULL) {
        held->state = PDI_REGION_ABANDONED;
    }
    held_clean();
}

static void step_ack(void)
{
    uint32_t outstanding = (uint32_t)(world.next - world.base);
    uint32_t count = draw(4) == 0 ? outstanding : draw((uint64_t)outstanding + 1);
    CHECK_EQ(pdi_window_ack(&world.window, (uint32_t)world.base + count), PYDDSI_OK);
    for (; count > 0; count--) {
        world.log_base += PREFIX + log_size(world.log_base);
        world.base++;
    }
}

static void step_bad_ack(void)
{
    uint32_t outstanding = (uint32_t)(world.next - world.base);
    uint32_t beyond = draw(2) != 0 ? 1 + draw(3) : draw(UINT32_MAX - outstanding) + 1;
    CHECK_EQ(pdi_window_ack(&world.window, (uint32_t)world.next + beyond), PYDDSI_BAD_ARGUMENT);
}

/* Whether [at, at + size) lies in `used` bytes from `first` on, round the ring. */
static bool inside(uint32_t at, uint32_t size, uint32_t first, uint32_t used)
{
    uint32_t ring = world.window.size;
    return size == 0 || (at + ring - first) % ring + size <= used;
}

static void check_snapshot(void)
{
    struct pdi_window_snapshot snapshot = pdi_window_snapshot(&world.window);
    uint32_t bytes = 0;
    held_clean();
    CHECK(snapshot.seq == world.next && snapshot.seqbase == world.base);
    CHECK_EQ(snapshot.used_entries, world.next - world.base);
    CHECK(snapshot.pos < world.window.size && snapshot.firstpos < world.window.size);
    CHECK_EQ((snapshot.firstpos + snapshot.used_bytes) % world.window.size, snapshot.pos);
    CHECK(snapshot.used_bytes <= world.window.size);
    for (uint32_t i = 0; i < world.held_count; i++) {
        bytes += world.held[i].size;
        CHECK(inside(world.held[i].at, world.held[i].size, snapshot.firstpos, snapshot.used_bytes));
    }
    CHECK(snapshot.used_bytes >= bytes);
    if (bytes == 0) {
        CHECK_EQ(snapshot.used_bytes, 0);
    }
}

static void step(void)
{
    uint32_t what = draw(16);
    if (what < 6) {
        if (world.loans_open < LOANS_MAX) {
            step_reserve();
        }
    } else if (what < 11) {
        if (world.loans_open > 0) {
            step_commit();
        }
    } else if (what < 12) {
        if (world.loans_open > 0) {
            step_abandon();
        }
    } else if (what < 15) {
        step_ack();
    } else {
        step_bad_ack();
    }
}

/* What is left open is given up, all is acknowledged: then everything must be free at once. */
static void finish(void)
{
    struct pdi_loan loan = {0};
    while (world.loans_open > 0) {
        step_abandon();
    }
    CHECK_EQ(pdi_window_ack(&world.window, (uint32_t)world.next), PYDDSI_OK);
    CHECK_EQ(pdi_window_reserve(&world.window, world.window.size, world.window.entries_max, &loan),
             PYDDSI_OK);
    CHECK_EQ(loan.at, 0);
    CHECK_EQ(pdi_window_room(&world.window, 0, 1), PYDDSI_AGAIN);
    CHECK_EQ(pdi_window_room(&world.window, 1, 1), PYDDSI_AGAIN);
}

static uint32_t draw_memory_size(uint64_t seed)
{
    switch (seed % 8) {
    case 0:
        return PDI_WINDOW_BYTES_MIN;
    case 1:
        return 1000;
    case 2:
        return PDI_WINDOW_BYTES_MIN + draw(100);
    default:
        return seed % 100 == 99 ? MEMORY_MAX - draw(2) * draw(MEMORY_MAX / 2)
                                : PDI_WINDOW_BYTES_MIN + draw(6000);
    }
}

static void run_seed(uint64_t seed)
{
    memset(&world, 0, sizeof world);
    pdi_rand_init(&world.rand, seed);
    uint32_t size = draw_memory_size(seed);
    uint32_t entries_max = UINT32_C(2) << draw(8);
    uint32_t regions_max = UINT32_C(2) << draw(8);
    uint64_t start = (uint64_t)draw(3) << 32;
    start -= draw(2) != 0 && start != 0 ? draw(300) : 0;
    CHECK_EQ(pdi_window_init(&world.window, memory, size, world.entries, entries_max, world.regions,
                             regions_max),
             PYDDSI_OK);
    start_at(&world.window, start);
    /* the regions' counts and the model's places come round too */
    world.window.region_head = world.window.region_tail = UINT32_MAX - draw(100);
    world.log_base = world.log_next = UINT32_MAX - draw(10000);
    world.base = world.next = start;
    for (int i = 0; i < STEPS && test_failures == 0; i++) {
        step();
        check_snapshot();
        check_messages(size > 10000 ? 64 : 4);
    }
    if (test_failures == 0) {
        check_messages(1);
        finish();
    }
}

/* 002-30, 002-31: If it failed, a message would be found at another place, with another length or
 * with other bytes than in a window with a length before each message: the newest, the oldest or
 * any between, after any reserve, commit or acknowledgement in any order. Or room would be lost, or
 * found where there is none. */
static void test_against_prefixed(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        run_seed(seed);
        if (test_failures != 0) {
            printf("seed %" PRIu64 "\n", seed);
            return;
        }
    }
}

/* ---- edges ---- */

static struct pdi_window small(uint32_t size, uint32_t entries_max, uint32_t regions_max)
{
    struct pdi_window window;
    CHECK_EQ(pdi_window_init(&window, memory, size, world.entries, entries_max, world.regions,
                             regions_max),
             PYDDSI_OK);
    return window;
}

static struct pdi_loan reserve(struct pdi_window *window, uint32_t size, uint32_t numbers)
{
    struct pdi_loan loan = {0};
    CHECK_EQ(pdi_window_reserve(window, size, numbers, &loan), PYDDSI_OK);
    return loan;
}

static void send(struct pdi_window *window, uint32_t size)
{
    struct pdi_entry model = {0};
    struct pdi_loan loan = reserve(window, size, 1);
    pdi_window_commit(window, &loan, size, 0, &model);
}

/* If it failed, a window would be made that writes past its arrays or mixes up its numbers. */
static void test_init_refuses(void)
{
    static const struct {
        uint32_t size, entries_max, regions_max;
        int status;
    } rows[] = {
        {PDI_WINDOW_BYTES_MIN - 1, 2, 2, PYDDSI_BAD_ARGUMENT},
        {PDI_WINDOW_BYTES_MIN, 2, 2, PYDDSI_OK},
        {PDI_WINDOW_BYTES_MAX, PDI_WINDOW_ENTRIES_MAX, PDI_WINDOW_REGIONS_MAX, PYDDSI_OK},
        {PDI_WINDOW_BYTES_MAX + 1, 2, 2, PYDDSI_BAD_ARGUMENT},
        {100, 0, 2, PYDDSI_BAD_ARGUMENT},
        {100, 1, 2, PYDDSI_BAD_ARGUMENT},
        {100, 6, 2, PYDDSI_BAD_ARGUMENT},
        {100, 2 * PDI_WINDOW_ENTRIES_MAX, 2, PYDDSI_BAD_ARGUMENT},
        {100, 2, 0, PYDDSI_BAD_ARGUMENT},
        {100, 2, 1, PYDDSI_BAD_ARGUMENT},
        {100, 2, 3, PYDDSI_BAD_ARGUMENT},
        {100, 2, 2 * PDI_WINDOW_REGIONS_MAX, PYDDSI_BAD_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pdi_window window;
        CHECK_EQ(pdi_window_init(&window, memory, rows[i].size, world.entries, rows[i].entries_max,
                                 world.regions, rows[i].regions_max),
                 rows[i].status);
    }
}

/* If it failed, a caller would wait for ever for room that can never be. */
static void test_reserve_never(void)
{
    struct pdi_window window = small(100, 4, 4);
    struct pdi_loan loan;
    CHECK_EQ(pdi_window_reserve(&window, 101, 1, &loan), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_window_reserve(&window, UINT32_MAX, 1, &loan), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_window_reserve(&window, 1, 0, &loan), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_window_reserve(&window, 1, 5, &loan), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_window_reserve(&window, 1, UINT32_MAX, &loan), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_window_room(&window, 101, 1), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_window_room(&window, 100, 4), PYDDSI_OK);
    CHECK_EQ(pdi_window_reserve(&window, 100, 4, &loan), PYDDSI_OK);
}

/* 002-8, 002-9: If it failed, two windows of different sizes could not live beside each other, and
 * a writer would be stopped at another fill than that of its own window. */
static void test_sizes_differ(void)
{
    static struct pdi_entry few[16];
    static struct pdi_region few_regions[16];
    struct pdi_window large = small(MEMORY_MAX - 1024, ENTRIES_MAX, REGIONS_MAX);
    struct pdi_window little;
    CHECK_EQ(pdi_window_init(&little, memory + MEMORY_MAX - 1024, 1024, few, 16, few_regions, 16),
             PYDDSI_OK);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(pdi_window_room(&little, 256, 1), PYDDSI_OK);
        send(&little, 256);
    }
    CHECK_EQ(pdi_window_room(&little, 1, 1), PYDDSI_AGAIN);
    for (int i = 0; i < ENTRIES_MAX; i++) {
        send(&large, 256);
    }
    CHECK_EQ(pdi_window_room(&large, 256, 1), PYDDSI_AGAIN);
    CHECK_EQ(pdi_window_snapshot(&large).used_bytes, 256 * ENTRIES_MAX);
    CHECK_EQ(pdi_window_snapshot(&little).used_bytes, 1024);
}

/* 002-30: If it failed, the window would take more bytes for a message than the message has. */
static void test_no_prefix(void)
{
    struct pdi_window window = small(1000, 128, 128);
    for (int i = 0; i < 100; i++) {
        send(&window, 10);
    }
    CHECK_EQ(pdi_window_snapshot(&window).used_bytes, 1000); /* with prefixes of 4 it were 1400 */
    CHECK_EQ(pdi_window_snapshot(&window).used_entries, 100);
    CHECK_EQ(pdi_window_room(&window, 0, 1), PYDDSI_OK);
    CHECK_EQ(pdi_window_room(&window, 1, 1), PYDDSI_AGAIN);
}

static size_t line(size_t offset)
{
    return offset / PDI_CACHE_LINE;
}

/* 002-44: If it failed, each message sent would cost the receive thread a cache miss on fields that
 * it only reads, or each ACK one to the sender on its own. */
static void test_layout(void)
{
    size_t word = line(offsetof(struct pdi_window, word));
    CHECK_EQ(_Alignof(struct pdi_window), PDI_CACHE_LINE);
    CHECK(line(offsetof(struct pdi_window, regions_max) + 3) < word);
    CHECK(line(offsetof(struct pdi_window, next)) > word);
    CHECK_EQ(line(offsetof(struct pdi_window, next)),
             line(offsetof(struct pdi_window, region_tail) + 3));
    CHECK_EQ(sizeof(struct pdi_window), 3 * PDI_CACHE_LINE);
}

/* 002-51: If it failed, statistics would show positions and numbers that do not belong together. */
static void test_snapshot(void)
{
    struct pdi_window window = small(100, 8, 8);
    start_at(&window, (UINT64_C(7) << 32) - 2);
    send(&window, 40);
    send(&window, 30);
    send(&window, 20);
    struct pdi_window_snapshot snapshot = pdi_window_snapshot(&window);
    CHECK(snapshot.seq == (UINT64_C(7) << 32) + 1 && snapshot.seqbase == (UINT64_C(7) << 32) - 2);
    CHECK(snapshot.firstpos == 0 && snapshot.pos == 90 && snapshot.used_bytes == 90);
    CHECK_EQ(pdi_window_ack(&window, UINT32_MAX), PYDDSI_OK);
    snapshot = pdi_window_snapshot(&window);
    CHECK(snapshot.seqbase == (UINT64_C(7) << 32) - 1 && snapshot.used_entries == 2);
    CHECK(snapshot.firstpos == 40 && snapshot.pos == 90 && snapshot.used_bytes == 50);
    send(&window, 20); /* skips the last 10 */
    snapshot = pdi_window_snapshot(&window);
    CHECK(snapshot.firstpos == 40 && snapshot.pos == 20 && snapshot.used_bytes == 80);
    CHECK_EQ(pdi_window_ack(&window, 1), PYDDSI_OK);
    snapshot = pdi_window_snapshot(&window); /* what was skipped is not in use any more */
    CHECK(snapshot.firstpos == 0 && snapshot.pos == 20 && snapshot.used_bytes == 20);
    CHECK_EQ(pdi_window_ack(&window, 2), PYDDSI_OK);
    snapshot = pdi_window_snapshot(&window);
    CHECK(snapshot.firstpos == snapshot.pos && snapshot.used_bytes == 0);
    CHECK(snapshot.seq == snapshot.seqbase && snapshot.used_entries == 0);
}

/* 002-49: If it failed, a writer that waits at a full window would not find the room that an ACK
 * made, be it bytes, numbers or regions that were short. */
static void test_ack_makes_room(void)
{
    static const struct {
        uint32_t size, entries_max, regions_max;
    } rows[] = {{64, 64, 64}, {1000, 4, 64}, {1000, 64, 4}};
    for (size_t i = 0; i < 3; i++) {
        struct pdi_window window = small(rows[i].size, rows[i].entries_max, rows[i].regions_max);
        for (int sent = 0; sent < 4; sent++) {
            send(&window, 16);
        }
        for (uint32_t base = 1; base < 20; base++) {
            CHECK_EQ(pdi_window_room(&window, 16, 1), PYDDSI_AGAIN);
            CHECK_EQ(pdi_window_ack(&window, base), PYDDSI_OK);
            CHECK_EQ(pdi_window_room(&window, 16, 1), PYDDSI_OK);
            send(&window, 16);
        }
    }
}

/* 002-46, 002-47: If it failed, an acknowledgement of what is gone already or was never sent would
 * move base: the window's half, which keeps a wrong one without effect. */
static void test_ack_bounds(void)
{
    static const uint64_t starts[] = {0, 5, UINT32_MAX, UINT64_C(1) << 31, (UINT64_C(1) << 32) - 2};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        struct pdi_window window = small(1000, 8, 8);
        uint32_t base = (uint32_t)starts[i];
        start_at(&window, starts[i]);
        send(&window, 1);
        send(&window, 1);
        send(&window, 1);
        CHECK_EQ(pdi_window_ack(&window, base - 1), PYDDSI_BAD_ARGUMENT);
        CHECK_EQ(pdi_window_ack(&window, base + 4), PYDDSI_BAD_ARGUMENT);
        CHECK_EQ(pdi_window_ack(&window, base + (UINT32_C(1) << 31)), PYDDSI_BAD_ARGUMENT);
        CHECK_EQ(pdi_window_span(&window).base, base);
        CHECK_EQ(pdi_window_ack(&window, base), PYDDSI_OK);
        CHECK_EQ(pdi_window_ack(&window, base + 2), PYDDSI_OK);
        CHECK_EQ(pdi_window_ack(&window, base + 2), PYDDSI_OK);
        CHECK_EQ(pdi_window_ack(&window, base + 1), PYDDSI_BAD_ARGUMENT);
        CHECK_EQ(pdi_window_span(&window).base, base + 2);
        CHECK_EQ(pdi_window_span(&window).next, base + 3);
        CHECK_EQ(pdi_window_ack(&window, base + 3), PYDDSI_OK);
        CHECK_EQ(pdi_window_ack(&window, base + 4), PYDDSI_BAD_ARGUMENT);
    }
}

/* If it failed, a series of fragments would be cut or numbered wrongly, or a later part of it would
 * name the wrong beginning. */
static void test_pieces(void)
{
    struct pdi_window window = small(1000, 16, 16);
    start_at(&window, UINT64_C(0x3fffffffe));
    struct pdi_entry model = {.fragment = 1, .first = PDI_WINDOW_SELF, .fragments = 4, .id = 99};
    struct pdi_loan loan = reserve(&window, 100, 7);
    uint64_t first = pdi_window_commit(&window, &loan, 100, 30, &model);
    CHECK(first == UINT64_C(0x3fffffffe) && window.next == first + 4);
    for (uint32_t i = 0; i < 4; i++) {
        const struct pdi_entry *entry = pdi_window_entry(&window, (uint32_t)first + i);
        CHECK(entry->first == first && entry->fragments == 4 && entry->id == 99);
        CHECK_EQ(entry->at, loan.at + 30 * i);
        CHECK_EQ(entry->size, i < 3 ? 30 : 10);
    }
    model.first = first; /* the series goes on with a commit of its own */
    loan = reserve(&window, 60, 2);
    CHECK(pdi_window_commit(&window, &loan, 60, 30, &model) == first + 4);
    CHECK(pdi_window_entry(&window, (uint32_t)first + 4)->first == first);
    CHECK(pdi_window_entry(&window, (uint32_t)first + 5)->first == first);
    loan = reserve(&window, 5, 1);
    CHECK(pdi_window_commit(&window, &loan, 5, 30, &model) == first + 6);
    CHECK(pdi_window_entry(&window, (uint32_t)first + 6)->first == first);
    loan = reserve(&window, 0, 3); /* nothing is one message of nothing */
    CHECK(pdi_window_commit(&window, &loan, 0, 30, &model) == first + 7);
    CHECK_EQ(pdi_window_entry(&window, (uint32_t)first + 7)->size, 0);
    CHECK_EQ(pdi_window_room(&window, 0, 8), PYDDSI_OK); /* no promise is left over */
    CHECK_EQ(pdi_window_room(&window, 0, 9), PYDDSI_AGAIN);
}

/* If it failed, a loan that nobody commits would stop those behind it, not only their memory. */
static void test_loan_held_long(void)
{
    struct pdi_window window = small(1000, 8, 64);
    struct pdi_entry model = {0};
    struct pdi_loan held = reserve(&window, 100, 1);
    for (uint32_t i = 0; i < 45; i++) {
        send(&window, 20);
        CHECK_EQ(pdi_window_ack(&window, i + 1), PYDDSI_OK);
    }
    CHECK_EQ(pdi_window_room(&window, 1, 1), PYDDSI_AGAIN);
    CHECK(pdi_window_commit(&window, &held, 100, 0, &model) == 45);
    CHECK_EQ(pdi_window_room(&window, 1, 1), PYDDSI_AGAIN);
    CHECK_EQ(pdi_window_ack(&window, 46), PYDDSI_OK);
    CHECK_EQ(pdi_window_room(&window, 1000, 8), PYDDSI_OK);
}

/* If it failed, a loan that was reserved too large or in vain would keep its memory from the next
 * one. */
static void test_newest_gives_back(void)
{
    struct pdi_window window = small(100, 8, 2);
    struct pdi_entry model = {0};
    struct pdi_loan loan = reserve(&window, 100, 1);
    pdi_window_commit(&window, &loan, 30, 0, &model);
    loan = reserve(&window, 70, 1);
    pdi_window_abandon(&window, &loan);
    loan = reserve(&window, 70, 1);
    CHECK_EQ(loan.at, 30);
    pdi_window_commit(&window, &loan, 20, 0, &model); /* 0 .. 50 in use */
    CHECK_EQ(pdi_window_ack(&window, 1), PYDDSI_OK);  /* 30 .. 50 */
    CHECK_EQ(pdi_window_room(&window, 51, 1), PYDDSI_AGAIN);
    CHECK_EQ(pdi_window_room(&window, 50, 1), PYDDSI_OK);
    CHECK_EQ(pdi_window_ack(&window, 2), PYDDSI_OK);
    struct pdi_loan first = reserve(&window, 60, 1);
    struct pdi_loan second = reserve(&window, 40, 1);
    pdi_window_abandon(&window, &first); /* stays until the newer one goes */
    CHECK_EQ(pdi_window_snapshot(&window).used_bytes, 40);
    pdi_window_abandon(&window, &second);
    CHECK_EQ(window.region_head, window.region_tail);
    CHECK_EQ(pdi_window_room(&window, 100, 8), PYDDSI_OK);
}

/* If it failed, a sender that finds no room would free all of a large window at once, and one
 * message would wait for the freeing of a million. */
static void test_frees_in_batches(void)
{
    struct pdi_window window = small(REGIONS_MAX, ENTRIES_MAX, REGIONS_MAX);
    for (int i = 0; i < REGIONS_MAX; i++) {
        send(&window, 1);
    }
    CHECK_EQ(pdi_window_ack(&window, REGIONS_MAX), PYDDSI_OK);
    CHECK_EQ(pdi_window_room(&window, 1, 1), PYDDSI_OK);
    CHECK_EQ(window.region_tail, PDI_WINDOW_FREE_BATCH);
    CHECK_EQ(pdi_window_room(&window, PDI_WINDOW_FREE_BATCH + 1, 1), PYDDSI_OK);
    CHECK_EQ(window.region_tail, PDI_WINDOW_FREE_BATCH + PDI_WINDOW_FREE_BATCH);
    CHECK_EQ(pdi_window_room(&window, REGIONS_MAX, 1), PYDDSI_OK);
}

int main(void)
{
    test_init_refuses();
    test_reserve_never();
    test_sizes_differ();
    test_no_prefix();
    test_layout();
    test_snapshot();
    test_ack_makes_room();
    test_ack_bounds();
    test_pieces();
    test_loan_held_long();
    test_newest_gives_back();
    test_frees_in_batches();
    test_against_prefixed();
    return test_result();
}
