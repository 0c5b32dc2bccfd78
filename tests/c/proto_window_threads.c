/* proto/window.h: the sender against the receive thread, in interleavings and in threads.
 *
 * The module is compiled here once more with yield points, under other names than those of the
 * core that every test program is linked with.
 *
 * It is long, because one world serves drawn orders, all orders and real threads. */
#define PDI_SIM
#define pdi_window_init       sim_window_init
#define pdi_window_free       sim_window_free
#define pdi_window_put_pieces sim_window_put_pieces
#define pdi_window_shrink     sim_window_shrink
#define pdi_window_abandon    sim_window_abandon
#define pdi_window_ack        sim_window_ack
#define pdi_window_snapshot   sim_window_snapshot

#include "proto/window.c" /* NOLINT(bugprone-suspicious-include) */

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "interleave.h"
#include "test.h"

#define SEEDS        12000
#define STEPS_MAX    100000
#define ATTEMPTS_MAX 10000000 /* to find room once */
#define TURNS        30000    /* messages, with real threads */
#define MEMORY_BYTES 160
#define COUNT_MAX    8  /* entries, and regions */
#define DEPTH_MAX    64 /* steps of an exhaustive play */
#define PLAYS_MAX    300000

/* The window and its two threads. What they find wrong is counted, and looked at afterwards. */
static struct world {
    struct pdi_window window;
    struct pdi_entry entries[COUNT_MAX];
    struct pdi_region regions[COUNT_MAX];
    uint8_t memory[MEMORY_BYTES];
    struct pdi_rand sender_rand;
    struct pdi_rand acker_rand;
    uint32_t messages; /* to be sent */
    struct pdi_atomic32 finished;
    uint32_t rounds;         /* the acker's, in an exhaustive play */
    uint64_t wrong_room;     /* found, and then not there */
    uint64_t wrong_number;   /* a commit with another number than it had to have */
    uint64_t wrong_bytes;    /* of a message that may be asked for again */
    uint64_t wrong_ack;      /* refused, or a bad one taken */
    uint64_t wrong_span;     /* base or next went back, or are too far from each other */
    uint64_t gave_up;        /* no room for ever */
    uint64_t acked, refused; /* how often: that both happen */
} world;

static void world_init(uint64_t start, uint32_t size, uint32_t entries_max, uint32_t regions_max)
{
    memset(&world, 0, sizeof world);
    CHECK_EQ(pdi_window_init(&world.window, world.memory, size, world.entries, entries_max,
                             world.regions, regions_max),
             PYDDSI_OK);
    world.window.next = start;
    world.window.base_seen = (uint32_t)start;
    pdi_atomic64_store_relaxed(&world.window.word, start << 32 | (start & UINT32_MAX));
}

/* Byte i of message `number`. */
static uint8_t byte_of(uint32_t number, uint32_t i)
{
    return (uint8_t)(number * 37 + i * 5 + 1);
}

/* ---- the sender ---- */

/* Waits until there is room, tested as a whole or bytes and numbers apart in either order; then
 * reserves it, which must succeed whatever was acknowledged meanwhile. */
static bool take_room(uint32_t size, uint32_t numbers, struct pdi_loan *loan)
{
    uint64_t way = pdi_rand_below(&world.sender_rand, 4);
    struct pdi_window *window = &world.window;
    uint32_t attempts = 0;
    for (;; attempts++) {
        bool room = false;
        if (way == 0) {
            room = pdi_window_room(window, size, numbers) == PYDDSI_OK;
        } else if (way == 1) {
            room = pdi_window_room(window, size, 1) == PYDDSI_OK &&
                   pdi_window_room(window, 0, numbers) == PYDDSI_OK;
        } else if (way == 2) {
            room = pdi_window_room(window, 0, numbers) == PYDDSI_OK &&
                   pdi_window_room(window, size, 1) == PYDDSI_OK;
        } else {
            return pdi_window_reserve(window, size, numbers, loan) == PYDDSI_OK;
        }
        if (room) {
            break;
        }
        if (attempts == ATTEMPTS_MAX) {
            world.gave_up++;
            return false;
        }
        sched_yield();
        pdi_atomic_yield();
    }
    int status = pdi_window_reserve(window, size, numbers, loan);
    world.wrong_room += status != PYDDSI_OK;
    return status == PYDDSI_OK;
}

/* Fills a loan as the messages that it is about to become, in two steps, and commits it. */
static void fill_and_commit(const struct pdi_loan *loan, uint32_t size, uint32_t piece)
{
    uint32_t number = (uint32_t)world.window.next;
    struct pdi_entry model = {.id = size, .data_id = piece, .fragment = piece != 0};
    model.first = PDI_WINDOW_SELF;
    for (uint32_t half = 0; half < 2; half++) {
        uint8_t *data = pdi_window_data(&world.window, loan);
        for (uint32_t i = half * (size / 2); i < (half != 0 ? size : size / 2); i++) {
            uint32_t of = piece != 0 ? i / piece : 0;
            data[i] = byte_of(number + of, i - of * piece);
        }
    }
    uint64_t first = pdi_window_commit(&world.window, loan, size, piece, &model);
    world.wrong_number += (uint32_t)first != number;
}

static void finish_loan(const struct pdi_loan *loan)
{
    struct pdi_rand *rand = &world.sender_rand;
    if (pdi_rand_chance(rand, 1, 8)) {
        pdi_window_abandon(&world.window, loan);
        return;
    }
    uint32_t size = loan->size;
    if (pdi_rand_chance(rand, 1, 4)) {
        size = (uint32_t)pdi_rand_below(rand, (uint64_t)size + 1);
    }
    uint32_t piece = loan->numbers == 1 ? 0 : (size + loan->numbers - 1) / loan->numbers;
    fill_and_commit(loan, size, piece);
}

static void send(void *context)
{
    (void)context;
    struct pdi_rand *rand = &world.sender_rand;
    struct pdi_loan kept = {0};
    bool keeps = false;
    for (uint32_t sent = 0; sent < world.messages && world.gave_up == 0; sent++) {
        struct pdi_loan loan;
        uint32_t numbers = pdi_rand_chance(rand, 1, 4) && world.window.entries_max > 2 ? 2 : 1;
        uint32_t size = (uint32_t)pdi_rand_below(rand, world.window.size / 2);
        if (keeps && (pdi_rand_chance(rand, 1, 2) ||
                      pdi_window_room(&world.window, size, numbers) != PYDDSI_OK)) {
            finish_loan(&kept);
            keeps = false;
        }
        if (!take_room(size, numbers, &loan)) {
            sched_yield();
        } else if (!keeps && pdi_rand_chance(rand, 1, 4)) {
            kept = loan;
            keeps = true;
        } else {
            finish_loan(&loan);
        }
    }
    if (keeps) {
        finish_loan(&kept);
    }
    pdi_atomic32_add(&world.finished, 1);
}

/* ---- the receive thread ---- */

/* Reads a message as a retransmission would. */
static void verify(uint32_t number)
{
    const struct pdi_entry *entry = pdi_window_entry(&world.window, number);
    uint32_t size = entry->size;
    bool fits = entry->at <= world.window.size && size <= world.window.size - entry->at;
    bool sized = entry->data_id == 0 ? size == entry->id : size <= entry->data_id;
    if (!fits || !sized) {
        world.wrong_bytes++;
        return;
    }
    pdi_atomic_yield();
    const uint8_t *data = world.window.memory + entry->at;
    for (uint32_t i = 0; i < size; i++) {
        world.wrong_bytes += data[i] != byte_of(number, i);
    }
}

/* One look at the word, compared with the one before. */
static struct pdi_window_span look(const struct pdi_window_span *before)
{
    struct pdi_window_span span = pdi_window_span(&world.window);
    world.wrong_span += span.base != before->base || span.next - before->next > COUNT_MAX ||
                        span.next - span.base > world.window.entries_max;
    return span;
}

static void acknowledge(struct pdi_window_span *span, uint32_t count)
{
    world.wrong_ack += pdi_window_ack(&world.window, span->base + count) != PYDDSI_OK;
    world.acked += count != 0;
    span->base += count;
}

/* Verifies all that is there, sometimes twice, and acknowledges some of it, until all is done. */
static void receive(void *context)
{
    (void)context;
    struct pdi_rand *rand = &world.acker_rand;
    struct pdi_window_span span = pdi_window_span(&world.window);
    for (;;) {
        bool last = pdi_atomic32_load_acquire(&world.finished) != 0;
        span = look(&span);
        for (uint32_t number = span.base; number != span.next; number++) {
            verify(number);
        }
        uint32_t there = span.next - span.base;
        if (pdi_rand_chance(rand, 1, 4)) {
            uint32_t before = span.base - 1 - (uint32_t)pdi_rand_below(rand, 9);
            world.wrong_ack += pdi_window_ack(&world.window, before) != PYDDSI_BAD_ARGUMENT;
            world.refused++;
        }
        acknowledge(&span, last ? there : (uint32_t)pdi_rand_below(rand, (uint64_t)there + 1));
        if (last) {
            return;
        }
        if (there == 0) {
            sched_yield();
        }
    }
}

/* ---- afterwards ---- */

/* No message was lost, torn or overrun, and when all is done the whole window is free. */
static void check_world(void)
{
    struct pdi_window_span span = pdi_window_span(&world.window);
    struct pdi_loan loan;
    CHECK_EQ(world.wrong_room, 0);
    CHECK_EQ(world.wrong_number, 0);
    CHECK_EQ(world.wrong_bytes, 0);
    CHECK_EQ(world.wrong_ack, 0);
    CHECK_EQ(world.wrong_span, 0);
    CHECK_EQ(world.gave_up, 0);
    CHECK_EQ(span.next, (uint32_t)world.window.next);
    CHECK_EQ(pdi_window_ack(&world.window, span.next), PYDDSI_OK);
    CHECK_EQ(world.window.promised, 0);
    CHECK_EQ(pdi_window_reserve(&world.window, world.window.size, world.window.entries_max, &loan),
             PYDDSI_OK);
}

/* 002-45, 002-50, 002-53, 002-54: If it failed, an ACK that comes while the sender works could be
 * lost or lose a message, room that was found could be gone, or a message could be overwritten
 * while it may still be asked for. */
static void test_interleaved(void)
{
    uint64_t acked = 0;
    uint64_t refused = 0;
    for (uint64_t seed = 0; seed < SEEDS && test_failures == 0; seed++) {
        struct pdi_rand rand;
        struct interleave_actor actors[] = {{send, NULL}, {receive, NULL}};
        pdi_rand_init(&rand, seed);
        world_init((UINT64_C(1) << 32) * (1 + seed % 3) - pdi_rand_below(&rand, 12),
                   PDI_WINDOW_BYTES_MIN + (uint32_t)pdi_rand_below(&rand, 97),
                   UINT32_C(2) << pdi_rand_below(&rand, 3),
                   UINT32_C(2) << pdi_rand_below(&rand, 3));
        world.messages = 1 + (uint32_t)pdi_rand_below(&rand, 12);
        world.sender_rand = pdi_rand_fork(&rand, 1);
        world.acker_rand = pdi_rand_fork(&rand, 2);
        CHECK(interleave_run(&rand, actors, 2, STEPS_MAX));
        acked += world.acked;
        refused += world.refused;
        check_world();
        if (test_failures != 0) {
            printf("seed %" PRIu64 "\n", seed);
        }
    }
    CHECK(acked > SEEDS && refused > SEEDS);
}

/* ---- every interleaving of a tiny window ---- */

static uint32_t tiny_size;

/* A few attempts to send, with nothing drawn, so that a play depends on the order alone. */
static void send_tiny(void *context)
{
    (void)context;
    for (uint32_t attempt = 0; attempt < world.messages; attempt++) {
        struct pdi_loan loan;
        if (pdi_window_room(&world.window, tiny_size, 1) != PYDDSI_OK) {
            world.refused++;
            continue;
        }
        int status = pdi_window_reserve(&world.window, tiny_size, 1, &loan);
        world.wrong_room += status != PYDDSI_OK;
        if (status == PYDDSI_OK) {
            fill_and_commit(&loan, tiny_size, 0);
        }
    }
}

static void receive_tiny(void *context)
{
    (void)context;
    struct pdi_window_span span = pdi_window_span(&world.window);
    for (uint32_t round = 0; round < world.rounds; round++) {
        if (round > 0) {
            span = look(&span);
        }
        for (uint32_t number = span.base; number != span.next; number++) {
            verify(number);
        }
        acknowledge(&span, span.next - span.base);
    }
}

static struct {
    uint8_t who[DEPTH_MAX]; /* of the two, at each step */
    bool free[DEPTH_MAX];   /* both could go on */
    uint32_t depth;
} play;

/* Plays the first `fixed` steps as they stand in the play, and the rest with the sender ahead. */
static void play_once(uint32_t fixed)
{
    struct interleave_actor actors[] = {{send_tiny, NULL}, {receive_tiny, NULL}};
    interleave_stage.fiber = interleave_fiber_here();
    for (unsigned i = 0; i < 2; i++) {
        interleave_stage.cast[i].actor = actors[i];
        interleave_stage.cast[i].done = false;
        if (!interleave_stage.cast[i].ready) {
            interleave_prepare(i);
        }
    }
    pdi_yield = (struct pdi_yield){interleave_yield, NULL};
    for (play.depth = 0; play.depth < DEPTH_MAX; play.depth++) {
        bool sends = !interleave_stage.cast[0].done;
        bool receives = !interleave_stage.cast[1].done;
        if (!sends && !receives) {
            break;
        }
        play.free[play.depth] = sends && receives;
        if (play.depth >= fixed) {
            play.who[play.depth] = sends ? 0 : 1;
        }
        interleave_step(play.who[play.depth]);
    }
    pdi_yield = (struct pdi_yield){NULL, NULL};
}

/* Where the next play differs from this one: the last step at which the sender went on though the
 * other could have. 0 if there is none, and then all plays were played. */
static uint32_t play_next(void)
{
    for (uint32_t step = play.depth; step-- > 0;) {
        if (play.free[step] && play.who[step] == 0) {
            play.who[step] = 1;
            return step + 1;
        }
    }
    return 0;
}

/* Every order in which the steps of the two can follow each other; answers how many there are. */
static uint32_t play_all(uint32_t size, uint32_t attempts, uint32_t rounds)
{
    uint32_t plays = 0;
    uint32_t fixed = 0;
    uint64_t refused = 0;
    uint64_t acked = 0;
    tiny_size = size;
    do {
        world_init((UINT64_C(1) << 32) - 1, PDI_WINDOW_BYTES_MIN, 2, 2);
        world.messages = attempts;
        world.rounds = rounds;
        play_once(fixed);
        CHECK(play.depth < DEPTH_MAX);
        refused += world.refused;
        acked += world.acked;
        check_world();
        plays++;
        fixed = play_next();
    } while (fixed != 0 && plays < PLAYS_MAX && test_failures == 0);
    CHECK_EQ(fixed, 0); /* none is left */
    CHECK(refused > 0 && acked > 0);
    return plays;
}

/* 002-50, 002-52: If it failed, there would be an order of the steps of sender and receive thread
 * in which room is lost or overrun; all orders are played, with bytes short and with numbers
 * short. */
static void test_exhaustive(void)
{
    CHECK(play_all(40, 3, 1) > 100);
    CHECK(play_all(40, 4, 2) > 1000);
    CHECK(play_all(5, 4, 1) > 1000);
    CHECK(play_all(5, 3, 2) > 100000);
}

/* ---- real threads ---- */

static void *receive_in_thread(void *context)
{
    receive(context);
    return NULL;
}

/* 002-42, 002-50: If it failed, the window would hold in interleavings but not on a processor. */
static void test_threads(void)
{
    struct pdi_rand rand;
    pthread_t thread;
    pdi_rand_init(&rand, 1);
    world_init(UINT32_MAX - TURNS / 2, MEMORY_BYTES, COUNT_MAX, COUNT_MAX);
    world.messages = TURNS;
    world.sender_rand = pdi_rand_fork(&rand, 1);
    world.acker_rand = pdi_rand_fork(&rand, 2);
    CHECK_EQ(pthread_create(&thread, NULL, receive_in_thread, NULL), 0);
    send(NULL);
    pthread_join(thread, NULL);
    check_world();
    CHECK(world.acked > 0);
}

int main(void)
{
    test_exhaustive();
    test_interleaved();
    test_threads();
    return test_result();
}
