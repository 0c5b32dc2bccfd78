/* proto/lane.h: writer and readers at once, in interleavings and in threads.
 *
 * The module is compiled here once more with yield points, under other names than those of the core
 * that every test program is linked with.
 *
 * It is long, because one world serves drawn orders, all orders, crashes and real threads. */
#define PDI_SIM
#define pdi_lane_size         sim_lane_size
#define pdi_lane_init         sim_lane_init
#define pdi_lane_find         sim_lane_find
#define pdi_lane_join         sim_lane_join
#define pdi_lane_leave        sim_lane_leave
#define pdi_lane_in_flight    sim_lane_in_flight
#define pdi_lane_room         sim_lane_room
#define pdi_lane_make_room    sim_lane_make_room
#define pdi_lane_has_row      sim_lane_has_row
#define pdi_lane_reserve      sim_lane_reserve
#define pdi_lane_commit       sim_lane_commit
#define pdi_lane_abandon      sim_lane_abandon
#define pdi_lane_open         sim_lane_open
#define pdi_lane_start        sim_lane_start
#define pdi_lane_look         sim_lane_look
#define pdi_lane_release_late sim_lane_release_late
#define pdi_lane_pass         sim_lane_pass
#define pdi_lane_quit         sim_lane_quit
#define pdi_place_dismiss     sim_place_dismiss
#define pdi_place_want        sim_place_want
#define pdi_place_end         sim_place_end
#define pdi_place_clear       sim_place_clear

#include "proto/lane.c"        /* NOLINT(bugprone-suspicious-include) */
#include "proto/lane_reader.c" /* NOLINT(bugprone-suspicious-include) */

#include <pthread.h>
#include <sched.h>

#include "interleave.h"
#include "test.h"

#define SEEDS        3000
#define CRASHES      3000
#define STEPS_CRASH  100 /* after at most so many steps */
#define STEPS_MAX    200000
#define ATTEMPTS_MAX 1000000 /* to find room once */
#define TURNS        40000   /* samples, with real threads */
#define READERS      3
#define ENTRIES      8
#define BYTES        128
#define COOKIE       77
#define DEPTH_MAX    96 /* steps of an exhaustive play */
#define PLAYS_MAX    1000000

/* A reader: what it does is drawn, what it finds wrong is counted and looked at afterwards. */
struct member {
    struct pdi_place *place;
    struct pdi_lane_reader reader;
    uint64_t released[PDI_LANE_WORDS(ENTRIES)];
    struct pdi_rand rand;
    struct pdi_lane_sample held[ENTRIES];
    uint32_t held_count;
    uint32_t lives; /* how often it joins */
    bool drops;
    uint64_t expected; /* the next number */
    uint64_t wrong_bytes, wrong_number, wrong_status, got, dropped, joined;
};

static struct world {
    struct pdi_place places[READERS]; /* first, as they are aligned */
    _Alignas(PDI_CACHE_LINE) uint8_t memory[sizeof(struct pdi_lane) + 16 * ENTRIES + BYTES];
    struct pdi_lane_writer writer;
    uint64_t starts[ENTRIES];
    struct pdi_rand rand;
    uint32_t entries, bytes;
    uint32_t messages;
    struct member members[READERS];
    struct pdi_atomic32 finished; /* the writer */
    struct pdi_atomic32 gone;     /* so many readers */
    uint64_t put, gave_up, wrong_room, owed, broken;
} world;

static void world_init(struct pdi_rand *rand, uint32_t entries, uint32_t bytes, uint64_t start)
{
    memset(&world, 0, sizeof world);
    world.entries = entries;
    world.bytes = bytes;
    world.rand = pdi_rand_fork(rand, 1);
    CHECK_EQ(pdi_lane_init(&world.writer, world.memory, sizeof world.memory, world.starts, entries,
                           bytes, COOKIE),
             PYDDSI_OK);
    world.writer.next = world.writer.shown = world.writer.floor = start;
    pdi_atomic64_store_relaxed(&world.writer.lane->next, start);
    for (uint32_t i = 0; i < READERS; i++) {
        struct member *member = &world.members[i];
        member->place = &world.places[i];
        member->rand = pdi_rand_fork(rand, 2 + i);
        member->lives = 1;
    }
}

/* Byte i of sample `number`. */
static uint8_t byte_of(uint64_t number, uint64_t i)
{
    return (uint8_t)(number * 37 + i * 5 + 1);
}

/* ---- the writer, with its housekeeping ---- */

static void keep_house(void)
{
    for (uint32_t i = 0; i < READERS; i++) {
        enum pdi_place_state state = pdi_place_state(&world.places[i]);
        if (state == PDI_PLACE_WANTED) {
            (void)pdi_lane_join(&world.writer, &world.places[i]);
        } else if (state == PDI_PLACE_ENDED) {
            world.owed += pdi_lane_leave(&world.writer, &world.places[i]);
        }
    }
    world.broken += pdi_lane_broken(&world.writer) != NULL;
}

/* Fills in two steps what is to become the next sample. */
static void fill(uint8_t *data, uint64_t size)
{
    for (uint64_t half = 0; half < 2; half++) {
        pdi_atomic_yield();
        for (uint64_t i = half * (size / 2); i < (half != 0 ? size : size / 2); i++) {
            data[i] = byte_of(world.writer.next, i);
        }
    }
}

static void finish_loan(const struct pdi_lane_loan *loan)
{
    struct pdi_rand *rand = &world.rand;
    if (pdi_rand_chance(rand, 1, 6)) {
        pdi_lane_abandon(&world.writer, loan);
        return;
    }
    uint32_t size = pdi_rand_chance(rand, 1, 4)
                        ? (uint32_t)pdi_rand_below(rand, (uint64_t)loan->size + 1)
                        : loan->size;
    fill(loan->data, size);
    pdi_lane_commit(&world.writer, loan, size, world.writer.next * 3, pdi_rand_chance(rand, 1, 2));
    world.put++;
}

/* Puts one sample, or a loan that is kept for later; waits for room. */
static void put_one(struct pdi_lane_loan *kept, bool *keeps)
{
    struct pdi_rand *rand = &world.rand;
    uint32_t size = (uint32_t)pdi_rand_below(rand, world.bytes / 2);
    bool loan = pdi_rand_chance(rand, 1, 3);
    for (uint32_t attempts = 0;; attempts++) {
        if (pdi_lane_room(&world.writer, size) == PYDDSI_OK) {
            break;
        }
        if (*keeps) {
            finish_loan(kept);
            *keeps = false;
        }
        if (attempts == ATTEMPTS_MAX) {
            world.gave_up++;
            return;
        }
        keep_house();
        sched_yield();
    }
    if (loan) {
        struct pdi_lane_loan fresh = {0};
        world.wrong_room += pdi_lane_reserve(&world.writer, size, &fresh) != PYDDSI_OK;
        if (!*keeps && pdi_rand_chance(rand, 1, 2)) {
            *kept = fresh;
            *keeps = true;
        } else {
            finish_loan(&fresh);
        }
        return;
    }
    uint8_t data[BYTES];
    uint64_t number = world.writer.next;
    for (uint32_t i = 0; i < size; i++) {
        data[i] = byte_of(number, i);
    }
    world.wrong_room += pdi_lane_put(&world.writer, data, size, number * 3,
                                     pdi_rand_chance(rand, 1, 2)) != PYDDSI_OK;
    world.put++;
}

static void writer(void *context)
{
    (void)context;
    struct pdi_lane_loan kept = {0};
    bool keeps = false;
    for (uint32_t i = 0; i < world.messages && world.gave_up == 0; i++) {
        put_one(&kept, &keeps);
        if (keeps && pdi_rand_chance(&world.rand, 1, 3)) {
            finish_loan(&kept);
            keeps = false;
        }
        if (pdi_rand_chance(&world.rand, 1, 4)) {
            keep_house();
        }
    }
    if (keeps) {
        finish_loan(&kept);
    }
    pdi_lane_flush(&world.writer);
    pdi_atomic32_add(&world.finished, 1);
    while (pdi_atomic32_load_acquire(&world.gone) < READERS) { /* as all do then */
        keep_house();
        sched_yield();
    }
    keep_house();
}

/* ---- a reader ---- */

/* Reads a sample in two steps. */
static void verify(struct member *member, const struct pdi_lane_sample *sample)
{
    member->wrong_bytes += sample->time != sample->number * 3;
    for (uint64_t half = 0; half < 2; half++) {
        pdi_atomic_yield();
        for (uint64_t i = half; i < sample->bytes.size; i += 2) {
            member->wrong_bytes += sample->bytes.data[i] != byte_of(sample->number, i);
        }
    }
}

static void release_some(struct member *member, uint32_t keep)
{
    while (member->held_count > keep) {
        uint32_t chosen = (uint32_t)pdi_rand_below(&member->rand, member->held_count);
        verify(member, &member->held[chosen]);
        pdi_lane_release(&member->reader, member->held[chosen].number);
        member->held[chosen] = member->held[--member->held_count];
    }
}

/* Takes what there is; answers whether there was anything. */
static bool take_some(struct member *member)
{
    uint64_t until = pdi_lane_next(&member->reader);
    bool any = false;
    uint64_t most = 1 + pdi_rand_below(&member->rand, ENTRIES);
    while (member->held_count < most) {
        struct pdi_lane_sample sample;
        uint64_t dropped = member->reader.dropped;
        int status = pdi_lane_take(&member->reader, until, &sample);
        dropped = member->reader.dropped - dropped;
        member->expected += dropped;
        member->dropped += dropped;
        member->wrong_number += dropped != 0 && (!member->drops || member->held_count != 0);
        if (status == PYDDSI_AGAIN) {
            break;
        }
        if (status != PYDDSI_OK) {
            member->wrong_status++;
            break;
        }
        member->wrong_number += sample.number != member->expected++;
        verify(member, &sample);
        member->held[member->held_count++] = sample;
        member->got++;
        any = true;
    }
    return any;
}

/* Wants, joins, reads, and leaves; answers whether the writer had finished. */
static bool live(struct member *member, bool last)
{
    bool finished = false;
    uint64_t rounds = last ? UINT64_MAX : pdi_rand_below(&member->rand, 8);
    size_t size = sizeof(struct pdi_lane) + 16 * (size_t)world.entries + world.bytes;
    pdi_place_want(member->place, COOKIE, member->drops);
    member->wrong_status += pdi_lane_open(&member->reader, world.memory, size, COOKIE,
                                          member->released, PDI_LANE_WORDS(ENTRIES)) != PYDDSI_OK;
    while (pdi_lane_start(&member->reader, member->place) == PYDDSI_AGAIN && !finished) {
        finished = pdi_atomic32_load_acquire(&world.finished) != 0;
        if (!last && pdi_rand_chance(&member->rand, 1, 8)) {
            break;
        }
        sched_yield();
    }
    if (member->reader.place == NULL) { /* it changes its mind, perhaps while it is let in */
        pdi_place_end(member->place);
        return finished;
    }
    member->joined++;
    member->expected = member->reader.taken;
    for (uint64_t round = 0; round < rounds; round++) {
        finished = pdi_atomic32_load_acquire(&world.finished) != 0;
        bool any = take_some(member);
        release_some(member,
                     (uint32_t)pdi_rand_below(&member->rand, (uint64_t)member->held_count + 1));
        if (finished && !any && member->held_count == 0) {
            break;
        }
        if (!any) {
            sched_yield();
        }
    }
    release_some(member, 0);
    member->wrong_status += pdi_lane_quit(&member->reader) != PYDDSI_OK;
    return finished;
}

static void reader(void *context)
{
    struct member *member = context;
    bool finished = false;
    for (uint32_t life = 1; life <= member->lives && !finished; life++) {
        finished = live(member, life == member->lives);
        while (!finished && pdi_place_state(member->place) != PDI_PLACE_FREE) {
            finished = pdi_atomic32_load_acquire(&world.finished) != 0;
            sched_yield();
        }
    }
    pdi_atomic32_add(&world.gone, 1);
}

/* ---- afterwards ---- */

/* No sample was lost but those that were pushed out, none torn, none overrun; and when all have
 * gone, all is free. */
static void check_world(void)
{
    uint64_t dropped = 0;
    for (uint32_t i = 0; i < READERS; i++) {
        const struct member *member = &world.members[i];
        CHECK_EQ(member->wrong_bytes, 0);
        CHECK_EQ(member->wrong_number, 0);
        CHECK_EQ(member->wrong_status, 0);
        dropped += member->dropped;
        CHECK_EQ(pdi_place_state(member->place), PDI_PLACE_FREE);
    }
    CHECK_EQ(world.gave_up, 0);
    CHECK_EQ(world.wrong_room, 0);
    CHECK_EQ(world.broken, 0);
    CHECK(dropped <= world.writer.pushed_out);
    CHECK_EQ(world.writer.readers, 0);
    CHECK_EQ(pdi_lane_room(&world.writer, world.bytes), PYDDSI_OK);
}

/* If it failed, there would be an order of the steps of a writer and its readers, who come and go
 * as they like, in which a sample is lost, torn, taken twice or overwritten while somebody reads
 * it, or in which room is lost. */
static void test_interleaved(void)
{
    uint64_t pushed_out = 0;
    uint64_t got = 0;
    uint64_t joined = 0;
    for (uint64_t seed = 0; seed < SEEDS && test_failures == 0; seed++) {
        struct pdi_rand rand;
        struct interleave_actor actors[1 + READERS] = {{writer, NULL}};
        pdi_rand_init(&rand, seed);
        world_init(&rand, UINT32_C(4) << pdi_rand_below(&rand, 2),
                   UINT32_C(64) << pdi_rand_below(&rand, 2),
                   pdi_rand_chance(&rand, 1, 2) ? 0 : UINT32_MAX - 3);
        world.messages = 1 + (uint32_t)pdi_rand_below(&rand, 40);
        for (uint32_t i = 0; i < READERS; i++) {
            world.members[i].lives = 1 + (uint32_t)pdi_rand_below(&rand, 3);
            world.members[i].drops = pdi_rand_chance(&rand, 3, 4);
            actors[1 + i] = (struct interleave_actor){reader, &world.members[i]};
        }
        CHECK(interleave_run(&rand, actors, 1 + READERS, STEPS_MAX));
        check_world();
        for (uint32_t i = 0; i < READERS; i++) {
            got += world.members[i].got;
            joined += world.members[i].joined;
        }
        pushed_out += world.writer.pushed_out;
        if (test_failures != 0) {
            printf("seed %" PRIu64 "\n", seed);
        }
    }
    CHECK(pushed_out > SEEDS && got > SEEDS && joined > SEEDS);
}

/* ---- every order of a few steps ---- */

static struct {
    uint8_t who[DEPTH_MAX]; /* of the two, at each step */
    bool free[DEPTH_MAX];   /* both could go on */
    uint32_t depth;
} play;

/* Plays the first `fixed` steps as they stand in the play, and the rest with the first actor
 * ahead. */
static void play_once(const struct interleave_actor actors[2], uint32_t fixed)
{
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
        bool first = !interleave_stage.cast[0].done;
        bool second = !interleave_stage.cast[1].done;
        if (!first && !second) {
            break;
        }
        play.free[play.depth] = first && second;
        if (play.depth >= fixed) {
            play.who[play.depth] = first ? 0 : 1;
        }
        interleave_step(play.who[play.depth]);
    }
    pdi_yield = (struct pdi_yield){NULL, NULL};
}

/* Where the next play differs from this one: the last step at which the first went on though the
 * other could have. 0: all plays were played. */
static uint32_t play_next(void)
{
    for (uint32_t at = play.depth; at-- > 0;) {
        if (play.free[at] && play.who[at] == 0) {
            play.who[at] = 1;
            return at + 1;
        }
    }
    return 0;
}

/* Every order in which the steps of the two can follow each other; answers how many there are. */
static uint32_t play_all(const struct interleave_actor actors[2], void (*begin)(void),
                         void (*end)(void))
{
    uint32_t plays = 0;
    uint32_t fixed = 0;
    do {
        begin();
        play_once(actors, fixed);
        CHECK(play.depth < DEPTH_MAX);
        end();
        plays++;
        fixed = play_next();
    } while (fixed != 0 && plays < PLAYS_MAX && test_failures == 0);
    CHECK_EQ(fixed, 0); /* none is left */
    return plays;
}

static struct {
    uint32_t puts, takes;          /* attempts */
    uint64_t pushed, got, refused; /* over all plays: that all of them happen */
    enum pdi_place_state writer_saw, reader_saw;
} tiny;

/* Puts eight bytes that tell the number. */
static int put_tiny(void)
{
    uint64_t number = world.writer.next;
    return pdi_lane_put(&world.writer, &number, sizeof number, number * 3, false);
}

/* A full lane, whose one reader would rather lose the oldest. */
static void begin_drops(void)
{
    struct pdi_rand rand;
    struct member *member = &world.members[0];
    pdi_rand_init(&rand, 0);
    world_init(&rand, 4, 64, UINT32_MAX - 1);
    pdi_place_want(member->place, COOKIE, true);
    CHECK_EQ(pdi_lane_open(&member->reader, world.memory, sizeof world.memory, COOKIE,
                           member->released, PDI_LANE_WORDS(ENTRIES)),
             PYDDSI_OK);
    CHECK_EQ(pdi_lane_join(&world.writer, member->place), PYDDSI_OK);
    CHECK_EQ(pdi_lane_start(&member->reader, member->place), PYDDSI_OK);
    member->expected = world.writer.next;
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(put_tiny(), PYDDSI_OK);
    }
}

static void put_drops(void *context)
{
    (void)context;
    for (uint32_t i = 0; i < tiny.puts; i++) {
        tiny.refused += put_tiny() != PYDDSI_OK;
    }
}

static void take_drops(void *context)
{
    struct member *member = context;
    for (uint32_t i = 0; i < tiny.takes; i++) {
        struct pdi_lane_sample sample;
        int status = pdi_lane_take(&member->reader, pdi_lane_next(&member->reader), &sample);
        if (status == PYDDSI_OK) {
            uint64_t number;
            pdi_atomic_yield();
            memcpy(&number, sample.bytes.data, sizeof number);
            member->wrong_bytes += number != sample.number || sample.time != number * 3;
            member->wrong_number += sample.number != member->expected + member->reader.dropped;
            member->expected++;
            pdi_lane_release(&member->reader, sample.number);
            member->got++;
        }
        member->wrong_status += status != PYDDSI_OK;
    }
}

/* What was put is taken, pushed out, or there. */
static void end_drops(void)
{
    struct member *member = &world.members[0];
    uint64_t all = world.writer.next - (UINT32_MAX - 1);
    CHECK_EQ(member->wrong_bytes, 0);
    CHECK_EQ(member->wrong_number, 0);
    CHECK_EQ(member->wrong_status, 0);
    CHECK_EQ(pdi_lane_in_flight(&world.writer) + world.writer.pushed_out + member->got, all);
    tiny.pushed += world.writer.pushed_out;
    tiny.got += member->got;
}

/* If it failed, there would be an order of steps in which a sample is pushed out while it is read,
 * or is lost without being counted; all orders are played. */
static void test_all_pushes(void)
{
    const struct interleave_actor actors[2] = {{put_drops, NULL}, {take_drops, &world.members[0]}};
    tiny.puts = 1;
    tiny.takes = 1;
    CHECK(play_all(actors, begin_drops, end_drops) > 10000);
#ifndef INTERLEAVE_TSAN /* there each step is long, and one take shows all accesses */
    tiny.takes = 2;
    CHECK(play_all(actors, begin_drops, end_drops) > 100000);
#endif
    CHECK(tiny.pushed > 0 && tiny.got > 0 && tiny.refused > 0);
}

#define MINE 1234567

static void begin_place(void)
{
    struct pdi_rand rand;
    pdi_rand_init(&rand, 0);
    world_init(&rand, 4, 64, 0);
    CHECK_EQ(put_tiny(), PYDDSI_OK);
}

/* Lets in and out whoever is there, and at last gives up waiting if `context` is set. */
static void let_in_and_out(void *context)
{
    keep_house();
    keep_house();
    if (context != NULL) {
        world.owed += pdi_lane_leave(&world.writer, &world.places[0]);
    }
    tiny.writer_saw = pdi_place_state(&world.places[0]);
}

/* Wants, changes its mind, and if the place is free again wants it for another lane. */
static void change_mind(void *context)
{
    struct pdi_place *place = context;
    pdi_place_want(place, COOKIE, false);
    pdi_place_end(place);
    tiny.reader_saw = pdi_place_state(place);
    if (tiny.reader_saw == PDI_PLACE_FREE) {
        world.members[0].joined++;
        pdi_atomic64_store_relaxed(&place->position, MINE);
        pdi_place_want(place, COOKIE + 1, false);
    }
}

static void end_place(void)
{
    const struct pdi_place *place = &world.places[0];
    enum pdi_place_state state = pdi_place_state(place);
    if (world.members[0].joined != 0) { /* it is another lane's: nothing of ours may be in it */
        CHECK(state == PDI_PLACE_WANTED || state == PDI_PLACE_LOST);
        CHECK_EQ(pdi_atomic64_load_relaxed(&place->position), MINE);
        CHECK_EQ(world.writer.readers, 0);
        tiny.got++;
    } else {
        CHECK(state == PDI_PLACE_FREE || state == PDI_PLACE_ENDED || state == PDI_PLACE_LOST);
        CHECK((world.writer.readers != 0) <= (state == PDI_PLACE_ENDED));
        /* who frees it is clear: neither may lose what the other said */
        CHECK((tiny.writer_saw == PDI_PLACE_LOST) == (state == PDI_PLACE_LOST));
        CHECK((tiny.reader_saw == PDI_PLACE_LOST) == (state == PDI_PLACE_LOST));
    }
    CHECK_EQ(world.owed, 0);
}

/* If it failed, there would be an order of steps in which a reader that changes its mind is let
 * into a place that is another lane's by then, or in which a place is never free again; all orders
 * are played. */
static void test_all_places(void)
{
    struct interleave_actor actors[2] = {{let_in_and_out, NULL}, {change_mind, &world.places[0]}};
    tiny.got = 0;
    CHECK(play_all(actors, begin_place, end_place) > 100);
    CHECK(tiny.got > 0);
    actors[0].context = &world;
    CHECK(play_all(actors, begin_place, end_place) > 100);
}

/* ---- a side that dies ---- */

static uint32_t steps_left;

/* At its last step the actor goes, and is never called back. */
static void die_in_time(void *context)
{
    (void)context;
    if (steps_left-- == 0) {
        interleave_leave(true);
    }
}

/* Plays an actor for so many steps, and then kills it. */
static void play_until_killed(struct interleave_actor actor, uint32_t steps)
{
    steps_left = steps;
    interleave_stage.fiber = interleave_fiber_here();
    interleave_stage.cast[0].actor = actor;
    interleave_stage.cast[0].done = false;
    if (!interleave_stage.cast[0].ready) {
        interleave_prepare(0);
    }
    pdi_yield = (struct pdi_yield){die_in_time, NULL};
    interleave_step(0);
    pdi_yield = (struct pdi_yield){NULL, NULL};
    interleave_stage.cast[0].ready = interleave_stage.cast[0].done;
#ifdef INTERLEAVE_TSAN
    if (!interleave_stage.cast[0].ready) {
        __tsan_destroy_fiber(interleave_stage.cast[0].fiber);
    }
#endif
}

static void begin_crash(uint64_t seed, uint32_t messages, bool drops)
{
    struct pdi_rand rand;
    pdi_rand_init(&rand, seed);
    world_init(&rand, UINT32_C(4) << seed % 2, UINT32_C(64) << seed % 2, 0);
    world.messages = messages;
    for (uint32_t i = 0; i < 2; i++) {
        struct member *member = &world.members[i];
        member->drops = i == 0 && drops;
        pdi_place_want(member->place, COOKIE, member->drops);
        CHECK_EQ(pdi_lane_open(&member->reader, world.memory, sizeof world.memory, COOKIE,
                               member->released, PDI_LANE_WORDS(ENTRIES)),
                 PYDDSI_OK);
        CHECK_EQ(pdi_lane_join(&world.writer, member->place), PYDDSI_OK);
        CHECK_EQ(pdi_lane_start(&member->reader, member->place), PYDDSI_OK);
    }
}

/* Takes and releases all there is. */
static void drain(struct member *member)
{
    while (take_some(member)) {
        release_some(member, 0);
    }
    CHECK_EQ(member->wrong_bytes, 0);
    CHECK_EQ(member->wrong_number, 0);
    CHECK_EQ(member->wrong_status, 0);
    CHECK_EQ(member->expected, pdi_lane_next(&member->reader));
}

/* If it failed, a writer that is killed would leave samples that cannot be read, or that were never
 * put. It is stopped before each of its steps. */
static void test_writer_dies(void)
{
    uint64_t got = 0;
    for (uint32_t seed = 0; seed < CRASHES && test_failures == 0; seed++) {
        begin_crash(seed / STEPS_CRASH, 20, false);
        play_until_killed((struct interleave_actor){writer, NULL}, seed % STEPS_CRASH);
        CHECK(!interleave_stage.cast[0].done);
        drain(&world.members[0]);
        drain(&world.members[1]);
        got += world.members[0].got;
        pdi_place_clear(world.members[0].place);
        CHECK_EQ(pdi_place_state(world.members[0].place), PDI_PLACE_FREE);
    }
    CHECK(got > CRASHES);
}

static void read_until_killed(void *context)
{
    struct member *member = context;
    while (pdi_place_state(member->place) == PDI_PLACE_ACTIVE) {
        (void)take_some(member);
        release_some(member, (uint32_t)pdi_rand_below(&member->rand, 2));
        if (member->held_count == 0 && pdi_rand_chance(&member->rand, 1, 4)) {
            (void)pdi_lane_quit(&member->reader);
        }
    }
}

/* If it failed, a reader that is killed would stop the writer for good, or spoil what others read.
 * It is stopped before each of its steps. */
static void test_reader_dies(void)
{
    uint64_t owed = 0;
    for (uint32_t seed = 0; seed < CRASHES && test_failures == 0; seed++) {
        begin_crash(seed / STEPS_CRASH, 0, seed / STEPS_CRASH % 2 != 0);
        for (int i = 0; i < 4; i++) {
            uint8_t byte = byte_of(world.writer.next, 0);
            (void)pdi_lane_put(&world.writer, &byte, 1, world.writer.next * 3, false);
        }
        play_until_killed((struct interleave_actor){read_until_killed, &world.members[0]},
                          seed % STEPS_CRASH);
        uint64_t before = pdi_atomic64_load_relaxed(&world.places[0].position) & ~PDI_PLACE_HELD;
        uint64_t lost = pdi_lane_leave(&world.writer, &world.places[0]);
        CHECK_EQ(lost, world.writer.next - before);
        owed += lost;
        CHECK(pdi_place_state(&world.places[0]) == PDI_PLACE_LOST ||
              pdi_place_state(&world.places[0]) == PDI_PLACE_FREE);
        drain(&world.members[1]);
        for (int i = 0; i < 20; i++) {
            uint8_t byte = byte_of(world.writer.next, 0);
            CHECK_EQ(pdi_lane_put(&world.writer, &byte, 1, world.writer.next * 3, false),
                     PYDDSI_OK);
            drain(&world.members[1]);
        }
    }
    CHECK(owed > 0);
}

/* ---- real threads ---- */

static void *read_in_thread(void *member)
{
    reader(member);
    return NULL;
}

/* If it failed, a lane would hold in interleavings but not on a processor. */
static void test_threads(void)
{
    struct pdi_rand rand;
    pthread_t threads[READERS];
    pdi_rand_init(&rand, 1);
    world_init(&rand, ENTRIES, BYTES, UINT32_MAX - TURNS / 2);
    world.messages = TURNS;
    for (uint32_t i = 0; i < READERS; i++) {
        world.members[i].lives = i == 0 ? 1 : 50;
        world.members[i].drops = i == 2;
        CHECK_EQ(pthread_create(&threads[i], NULL, read_in_thread, &world.members[i]), 0);
    }
    writer(NULL);
    for (uint32_t i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
    }
    keep_house();
    check_world();
    CHECK(world.members[0].got > TURNS / 2);
}

int main(void)
{
    test_all_pushes();
    test_all_places();
    test_writer_dies();
    test_reader_dies();
    test_interleaved();
    test_threads();
    return test_result();
}
