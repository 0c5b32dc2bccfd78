/* proto/peer.h: each operation in each state, and the threads that meet in the word.
 *
 * The table below is the table of the header. It is used twice: on every word that can be, and as
 * the model that each operation of an interleaving is compared with at the very moment at which it
 * takes effect. (The last access to the word decides an operation, and a yield point stands before
 * an access and never after it; so nobody comes between that and the comparison.)
 *
 * The module is compiled here once more with yield points, under other names than those of the
 * core that every test program is linked with. The match bits of base/bitset.h are raced here too,
 * since they are the third of the words that receive thread and housekeeping share.
 *
 * It is long, because the table is both the list of cases and the model of the interleavings. */
#define PDI_SIM
#define pdi_peer_init      sim_peer_init
#define pdi_peer_open      sim_peer_open
#define pdi_peer_retry     sim_peer_retry
#define pdi_peer_give_up   sim_peer_give_up
#define pdi_peer_establish sim_peer_establish
#define pdi_peer_accept    sim_peer_accept
#define pdi_peer_expire    sim_peer_expire
#define pdi_peer_end       sim_peer_end
#define pdi_peer_reset     sim_peer_reset

#include "proto/peer.c" /* NOLINT(bugprone-suspicious-include) */

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/bitset.h"
#include "interleave.h"
#include "test.h"

#define SEEDS        10000
#define RACE_SEEDS   500
#define STEPS_MAX    100000
#define OPENS_MAX    3
#define EPOCHS_MAX   256
#define TURNS        10000   /* of each thread */
#define ATTEMPTS_MAX 1000000 /* of each thread, to enter */
#define BIT_TURNS    1250000 /* of each of 4 threads: each sets and clears */
#define BIT_THREADS  4

enum op {
    OPEN,
    RETRY,
    GIVE_UP,
    ESTABLISH,
    ACCEPT,
    ENTER,
    LEAVE,
    RENEW,
    EXPIRE,
    END,
    RESET,
    OPS,
};

/* What happens in UNKNOWN, OPENING, ESTABLISHED and EXPIRED:
 *     .  nothing, AGAIN
 *     o  OPENING 1 of a new epoch       n  one more OPENING, unless there were opens_max
 *     e  ESTABLISHED, deadline          f  the same, of a new epoch
 *     x  EXPIRED                        p  EXPIRED, if the deadline has passed
 *     u  UNKNOWN, no deadline           r  the same, if nobody is busy
 *     +  busy + 1, unless it is 255     -  busy - 1, unless it is 0
 *     d  another deadline */
static const char table[OPS][5] = {
    [OPEN] = "o...",   [RETRY] = ".n..", [GIVE_UP] = ".u..", [ESTABLISH] = ".e..",
    [ACCEPT] = "f...", [ENTER] = "..+.", [LEAVE] = "..--",   [RENEW] = "..d.",
    [EXPIRE] = "..p.", [END] = "..x.",   [RESET] = "...r",
};

/* Which column of the table a state is; 4 if it is no state. */
static unsigned column(unsigned state)
{
    if (state == PDI_PEER_UNKNOWN) {
        return 0;
    }
    if (state <= PDI_PEER_OPENING_LAST) {
        return 1;
    }
    return state == PDI_PEER_ESTABLISHED ? 2 : state == PDI_PEER_EXPIRED ? 3 : 4;
}

static struct pdi_peer_view become(struct pdi_peer_view view, unsigned state, uint32_t deadline)
{
    view.state = (uint8_t)state;
    view.deadline_ms = deadline;
    return view;
}

/* Whether `now` is after `deadline`, on the circle. */
static bool passed(uint32_t now, uint32_t deadline)
{
    return deadline != 0 && (int32_t)(now - deadline) > 0;
}

/* What the table says of one operation; `arg` is its time or its opens_max. Answers its status. */
static int apply(struct pdi_peer_view *view, enum op op, uint32_t arg)
{
    struct pdi_peer_view old = *view;
    switch (column(old.state) < 4 ? table[op][column(old.state)] : '.') {
    case 'o':
        *view = become(old, PDI_PEER_OPENING, 0);
        view->epoch++;
        return PYDDSI_OK;
    case 'n':
        view->state = (uint8_t)(old.state + (old.state < arg && old.state < PDI_PEER_OPENING_LAST));
        return view->state != old.state ? PYDDSI_OK : PYDDSI_AGAIN;
    case 'e':
        *view = become(old, PDI_PEER_ESTABLISHED, arg);
        return PYDDSI_OK;
    case 'f':
        *view = become(old, PDI_PEER_ESTABLISHED, arg);
        view->epoch++;
        return PYDDSI_OK;
    case 'x':
        view->state = PDI_PEER_EXPIRED;
        return PYDDSI_OK;
    case 'p':
        view->state = passed(arg, old.deadline_ms) ? PDI_PEER_EXPIRED : old.state;
        return view->state != old.state ? PYDDSI_OK : PYDDSI_AGAIN;
    case 'u':
        *view = become(old, PDI_PEER_UNKNOWN, 0);
        return PYDDSI_OK;
    case 'r':
        *view = old.busy == 0 ? become(old, PDI_PEER_UNKNOWN, 0) : old;
        return old.busy == 0 ? PYDDSI_OK : PYDDSI_AGAIN;
    case '+':
        view->busy = (uint8_t)(old.busy + (old.busy < 255));
        return old.busy < 255 ? PYDDSI_OK : PYDDSI_AGAIN;
    case '-':
        view->busy = (uint8_t)(old.busy - (old.busy > 0));
        return old.busy > 0 ? PYDDSI_OK : PYDDSI_AGAIN;
    case 'd':
        view->deadline_ms = arg;
        return PYDDSI_OK;
    default:
        return PYDDSI_AGAIN;
    }
}

static int call(struct pdi_peer_word *peer, enum op op, uint32_t arg, uint16_t *epoch)
{
    switch (op) {
    case OPEN:
        return pdi_peer_open(peer);
    case RETRY:
        return pdi_peer_retry(peer, arg);
    case GIVE_UP:
        return pdi_peer_give_up(peer);
    case ESTABLISH:
        return pdi_peer_establish(peer, arg);
    case ACCEPT:
        return pdi_peer_accept(peer, arg);
    case ENTER:
        return pdi_peer_enter(peer, epoch);
    case LEAVE:
        return pdi_peer_leave(peer);
    case RENEW:
        return pdi_peer_renew(peer, arg);
    case EXPIRE:
        return pdi_peer_expire(peer, arg);
    case END:
        return pdi_peer_end(peer);
    default:
        return pdi_peer_reset(peer);
    }
}

/* ---- one thread ---- */

static struct pdi_peer_word word_of(unsigned state, unsigned busy, unsigned epoch,
                                    uint32_t deadline)
{
    struct pdi_peer_word peer;
    struct pdi_peer_view view = {(uint8_t)state, (uint8_t)busy, (uint16_t)epoch, deadline};
    pdi_atomic64_store_relaxed(&peer.word, pdi_peer_encode(view));
    return peer;
}

/* Does one operation on one word and compares all of it with the table. */
static void check_cell(struct pdi_peer_view before, enum op op, uint32_t arg)
{
    struct pdi_peer_word peer =
        word_of(before.state, before.busy, before.epoch, before.deadline_ms);
    struct pdi_peer_view wanted = before;
    uint16_t epoch = 12345;
    int failures = test_failures;
    CHECK_EQ(call(&peer, op, arg, &epoch), apply(&wanted, op, arg));
    struct pdi_peer_view got = pdi_peer_look(&peer);
    CHECK_EQ(got.state, wanted.state);
    CHECK_EQ(got.busy, wanted.busy);
    CHECK_EQ(got.epoch, wanted.epoch);
    CHECK_EQ(got.deadline_ms, wanted.deadline_ms);
    CHECK_EQ(epoch, op == ENTER && got.busy != before.busy ? before.epoch : 12345);
    if (test_failures != failures) {
        printf("op %d of state %u busy %u deadline %u, argument %u\n", (int)op, before.state,
               before.busy, before.deadline_ms, arg);
    }
}

/* 002-57, 002-58, 002-61, 002-62, 002-65, 002-66, 002-67, 002-68, 002-71, 002-75 to 002-77: If it failed, some
 * operation would do something else than the table in the header says, in some state: the word's
 * half of all that a peer may become, of what an EXPIRED peer is still spared, and of who may write
 * its lease. */
static void test_every_cell(void)
{
    static const uint8_t states[] = {0, 1, 2, 100, 199, 200, 201, 253, 254, 255};
    static const uint8_t busy[] = {0, 1, 2, 254, 255};
    static const uint16_t epochs[] = {0, 7, 65535};
    static const uint32_t times[] = {0,   1,          2,          3,          200,
                                     201, 0x7fffffff, 0x80000000, 0x80000001, UINT32_MAX};
    for (size_t s = 0; s < sizeof states; s++) {
        for (size_t b = 0; b < (states[s] < 254 ? 1 : sizeof busy); b++) {
            for (size_t e = 0; e < 3; e++) {
                for (size_t t = 0; t < 100; t++) {
                    struct pdi_peer_view view = {states[s], busy[b], epochs[e], times[t / 10]};
                    for (int op = 0; op < OPS; op++) {
                        check_cell(view, (enum op)op, times[t % 10]);
                    }
                }
            }
        }
    }
}

/* If it failed, the four parts would overlap or stand elsewhere than the header says. */
static void test_encode(void)
{
    struct pdi_peer_view view = {0x12, 0x34, 0x5678, 0x9abcdef0};
    CHECK(pdi_peer_encode(view) == UINT64_C(0x9abcdef056783412));
    view = pdi_peer_decode(UINT64_C(0x9abcdef056783412));
    CHECK(view.state == 0x12 && view.busy == 0x34);
    CHECK(view.epoch == 0x5678 && view.deadline_ms == 0x9abcdef0);
    struct pdi_peer_word peer;
    pdi_peer_init(&peer);
    CHECK(pdi_atomic64_load_relaxed(&peer.word) == 0);
}

/* If it failed, a lease would end before or long after its time: at the ends of the circle of
 * milliseconds, with the longest lease, or with one that never ends. */
static void test_deadlines(void)
{
    static const struct {
        uint32_t now, lease, deadline;
    } rows[] = {
        {0, 0, 0},
        {77, 0, 0},
        {0, 1, 1},
        {100, 50, 150},
        {UINT32_MAX, 2, 1},
        {UINT32_MAX, 1, 1}, /* not 0, which were never */
        {UINT32_MAX - 9, 10, 1},
        {UINT32_MAX - 9, 9, UINT32_MAX},
        {5, UINT32_MAX, 5 + (uint32_t)INT32_MAX},
        {5, 0x80000000, 5 + (uint32_t)INT32_MAX},
        {5, INT32_MAX, 5 + (uint32_t)INT32_MAX},
        {5, INT32_MAX - 1, 4 + (uint32_t)INT32_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t deadline = pdi_peer_deadline(rows[i].now, rows[i].lease);
        CHECK_EQ(deadline, rows[i].deadline);
        struct pdi_peer_word peer = word_of(PDI_PEER_ESTABLISHED, 0, 1, deadline);
        CHECK_EQ(pdi_peer_expire(&peer, rows[i].now), PYDDSI_AGAIN);
        CHECK_EQ(pdi_peer_expire(&peer, deadline), PYDDSI_AGAIN); /* at it is not after it */
        CHECK_EQ(pdi_peer_expire(&peer, deadline + 1), deadline == 0 ? PYDDSI_AGAIN : PYDDSI_OK);
    }
}

/* 002-57: If it failed, a peer whose lease is over would be gone before housekeeping said so. */
static void test_housekeeping_held(void)
{
    struct pdi_peer_word peer;
    uint16_t epoch = 0;
    pdi_peer_init(&peer);
    CHECK_EQ(pdi_peer_accept(&peer, pdi_peer_deadline(1000, 10)), PYDDSI_OK);
    CHECK_EQ(pdi_peer_enter(&peer, &epoch), PYDDSI_OK); /* however late it is */
    CHECK_EQ(pdi_peer_renew(&peer, pdi_peer_deadline(9000, 10)), PYDDSI_OK);
    CHECK_EQ(pdi_peer_leave(&peer), PYDDSI_OK);
    CHECK_EQ(pdi_peer_expire(&peer, 9000), PYDDSI_AGAIN); /* renewed in time after all */
    CHECK_EQ(pdi_peer_expire(&peer, 9011), PYDDSI_OK);
    CHECK_EQ(pdi_peer_expire(&peer, 9012), PYDDSI_AGAIN); /* one event */
    CHECK_EQ(pdi_peer_end(&peer), PYDDSI_AGAIN);
}

/* 002-58: If it failed, unanswered OPENs would not stop after opens_max, or the peer would stay. */
static void test_opens_stop(void)
{
    struct pdi_peer_word peer;
    pdi_peer_init(&peer);
    CHECK_EQ(pdi_peer_open(&peer), PYDDSI_OK);
    CHECK_EQ(pdi_peer_open(&peer), PYDDSI_AGAIN);
    for (unsigned opens = 1; opens < 5; opens++) {
        CHECK_EQ(pdi_peer_look(&peer).state, opens);
        CHECK_EQ(pdi_peer_retry(&peer, 5), PYDDSI_OK);
    }
    CHECK_EQ(pdi_peer_retry(&peer, 5), PYDDSI_AGAIN);
    CHECK_EQ(pdi_peer_give_up(&peer), PYDDSI_OK);
    CHECK_EQ(pdi_peer_look(&peer).state, PDI_PEER_UNKNOWN);
    CHECK_EQ(pdi_peer_give_up(&peer), PYDDSI_AGAIN);
}

/* 002-64: If it failed, a second ACCEPT would make a second session. */
static void test_accept_twice(void)
{
    struct pdi_peer_word peer;
    pdi_peer_init(&peer);
    CHECK_EQ(pdi_peer_open(&peer), PYDDSI_OK);
    CHECK_EQ(pdi_peer_retry(&peer, 5), PYDDSI_OK);
    CHECK_EQ(pdi_peer_establish(&peer, 50), PYDDSI_OK);
    struct pdi_peer_view view = pdi_peer_look(&peer);
    CHECK_EQ(pdi_peer_establish(&peer, 60), PYDDSI_AGAIN);
    CHECK_EQ(pdi_peer_accept(&peer, 60), PYDDSI_AGAIN);
    CHECK_EQ(pdi_peer_retry(&peer, 5), PYDDSI_AGAIN);
    CHECK(pdi_peer_encode(pdi_peer_look(&peer)) == pdi_peer_encode(view));
}

/* 002-72 to 002-78: If it failed, a peer that is being worked for would be taken down under the
 * worker's feet, an expired one would be worked for, or a counted worker would be forgotten. */
static void test_reset_waits_for_busy(void)
{
    struct pdi_peer_word peer;
    uint16_t epoch = 0;
    pdi_peer_init(&peer);
    CHECK_EQ(pdi_peer_accept(&peer, 10), PYDDSI_OK);
    CHECK_EQ(pdi_peer_enter(&peer, &epoch), PYDDSI_OK);
    CHECK_EQ(epoch, 1);
    CHECK_EQ(pdi_peer_enter(&peer, &epoch), PYDDSI_OK);
    CHECK_EQ(pdi_peer_expire(&peer, 11), PYDDSI_OK);
    CHECK_EQ(pdi_peer_enter(&peer, &epoch), PYDDSI_AGAIN);
    for (unsigned busy = 2; busy > 0; busy--) {
        CHECK_EQ(pdi_peer_look(&peer).state, PDI_PEER_EXPIRED);
        CHECK_EQ(pdi_peer_look(&peer).busy, busy);
        CHECK_EQ(pdi_peer_reset(&peer), PYDDSI_AGAIN);
        CHECK_EQ(pdi_peer_leave(&peer), PYDDSI_OK);
    }
    CHECK_EQ(pdi_peer_look(&peer).state, PDI_PEER_EXPIRED);
    CHECK_EQ(pdi_peer_leave(&peer), PYDDSI_AGAIN);
    CHECK_EQ(pdi_peer_reset(&peer), PYDDSI_OK);
    CHECK_EQ(pdi_peer_look(&peer).state, PDI_PEER_UNKNOWN);
    CHECK_EQ(pdi_peer_look(&peer).deadline_ms, 0);
}

/* If it failed, what was noted of an earlier incarnation could be taken for one of this. */
static void test_epochs_differ(void)
{
    struct pdi_peer_word peer;
    pdi_peer_init(&peer);
    for (uint32_t life = 1; life < 140000; life += 2) {
        CHECK_EQ(pdi_peer_accept(&peer, 9), PYDDSI_OK);
        CHECK_EQ(pdi_peer_look(&peer).epoch, (uint16_t)life);
        CHECK_EQ(pdi_peer_end(&peer), PYDDSI_OK);
        CHECK_EQ(pdi_peer_reset(&peer), PYDDSI_OK);
        CHECK_EQ(pdi_peer_open(&peer), PYDDSI_OK);
        CHECK_EQ(pdi_peer_look(&peer).epoch, (uint16_t)(life + 1));
        CHECK_EQ(pdi_peer_give_up(&peer), PYDDSI_OK);
    }
}

/* ---- many threads ---- */

/* What the actors share beside the word is relaxed and lets nobody meet, so that the thread
 * sanitizer still sees what the word alone orders; `estate` stands for all that belongs to a peer:
 * housekeeping builds it before a new epoch begins and tears it down after a reset, and whoever has
 * entered reads it. */
static struct world {
    struct pdi_peer_word peer;
    uint64_t estate;
    bool playing; /* interleaved: each operation is compared with the model */
    uint32_t turns;
    _Atomic uint64_t model;
    _Atomic uint32_t now;
    _Atomic uint32_t finished;
    _Atomic uint64_t wrong; /* operations that did not do what the table says */
    _Atomic uint64_t wrong_estate;
    _Atomic uint64_t entered;
    _Atomic uint32_t sessions[EPOCHS_MAX];
    struct side {
        struct pdi_rand rand;
    } sides[INTERLEAVE_ACTORS_MAX + 1];
} world;

/* Over all seeds: how often each operation did something and did nothing, and what was seen. */
static struct {
    _Atomic uint64_t count[OPS][2];
    _Atomic uint64_t seen[5][2]; /* by column; idle, busy */
} tally;

static void tick(_Atomic uint64_t *count)
{
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

static uint32_t now_ms(void)
{
    return atomic_load_explicit(&world.now, memory_order_relaxed);
}

/* One operation on the shared word, compared with the model at once. */
static int act(enum op op, uint32_t arg)
{
    uint16_t epoch = 0;
    int status = call(&world.peer, op, arg, &epoch);
    if (!world.playing) {
        return status;
    }
    struct pdi_peer_view view =
        pdi_peer_decode(atomic_load_explicit(&world.model, memory_order_relaxed));
    if (status != apply(&view, op, arg) ||
        (op == ENTER && status == PYDDSI_OK && epoch != view.epoch)) {
        tick(&world.wrong);
    }
    atomic_store_explicit(&world.model, pdi_peer_encode(view), memory_order_relaxed);
    tick(&tally.count[op][status == PYDDSI_OK]);
    tick(&tally.seen[column(view.state)][view.busy != 0]);
    if ((op == ESTABLISH || op == ACCEPT) && status == PYDDSI_OK) {
        atomic_fetch_add_explicit(&world.sessions[view.epoch % EPOCHS_MAX], 1,
                                  memory_order_relaxed);
    }
    return status;
}

/* ---- who works for the peer ---- */

/* What the estate is in the incarnation of this epoch. */
static uint64_t estate_of(uint16_t epoch)
{
    return UINT64_C(0x123456789abcdef) * (epoch + UINT64_C(1));
}

static void use_estate(uint16_t epoch)
{
    pdi_atomic_yield();
    if (world.estate != estate_of(epoch)) {
        tick(&world.wrong_estate);
    }
}

static uint16_t epoch_now(void)
{
    return pdi_peer_look(&world.peer).epoch; /* cannot change while we are busy */
}

/* Enters, uses what belongs to the peer, and leaves; a receive thread also renews, or ends it.
 * Answers whether it could enter. */
static bool work(struct pdi_rand *rand, bool receives)
{
    if (act(ENTER, 0) != PYDDSI_OK) {
        return false;
    }
    uint16_t epoch = epoch_now();
    use_estate(epoch);
    if (receives && pdi_rand_chance(rand, 1, 2)) {
        act(RENEW, pdi_peer_deadline(now_ms(), (uint32_t)pdi_rand_below(rand, 8)));
    }
    if (receives && pdi_rand_chance(rand, 1, 4)) {
        act(END, 0);
    }
    use_estate(epoch);
    if (act(LEAVE, 0) != PYDDSI_OK) {
        tick(&world.wrong);
    }
    return true;
}

static void play_receive(void *context)
{
    struct side *side = context;
    for (uint32_t turn = 0; turn < world.turns; turn++) {
        if (pdi_rand_chance(&side->rand, 1, 3)) {
            act(ESTABLISH,
                pdi_peer_deadline(now_ms(), 1 + (uint32_t)pdi_rand_below(&side->rand, 5)));
        }
        work(&side->rand, true);
    }
}

static void play_application(void *context)
{
    struct side *side = context;
    for (uint32_t turn = 0; turn < world.turns; turn++) {
        work(&side->rand, false);
    }
}

/* ---- housekeeping ---- */

static void reset(void)
{
    if (act(RESET, 0) == PYDDSI_OK) {
        pdi_atomic_yield();
        world.estate = 0xdead;
    }
}

static void keep_house(struct pdi_rand *rand)
{
    uint32_t now = now_ms() + (uint32_t)pdi_rand_below(rand, 4);
    struct pdi_peer_view view = pdi_peer_look(&world.peer);
    atomic_store_explicit(&world.now, now, memory_order_relaxed);
    switch (column(view.state)) {
    case 0:
        pdi_atomic_yield();
        world.estate = estate_of((uint16_t)(view.epoch + 1));
        if (pdi_rand_chance(rand, 1, 2)) {
            act(OPEN, 0);
        } else {
            act(ACCEPT, pdi_peer_deadline(now, 3));
        }
        break;
    case 1:
        if (act(RETRY, OPENS_MAX) != PYDDSI_OK && pdi_rand_chance(rand, 1, 2)) {
            act(GIVE_UP, 0);
        }
        break;
    case 2:
        act(EXPIRE, now);
        break;
    default:
        reset();
    }
    switch (pdi_rand_below(rand, 8)) { /* and things that it has no reason to do */
    case 0:
        act(EXPIRE, now);
        break;
    case 1:
        reset();
        break;
    case 2:
        act(GIVE_UP, 0);
        break;
    case 3:
        act(RETRY, OPENS_MAX);
        break;
    default:
        break;
    }
}

static void play_housekeeping(void *context)
{
    struct side *side = context;
    for (uint32_t turn = 0; turn < 3 * world.turns; turn++) {
        keep_house(&side->rand);
    }
}

static void world_init(uint64_t seed, bool playing, uint32_t turns)
{
    struct pdi_rand rand;
    memset(&world, 0, sizeof world);
    pdi_rand_init(&rand, seed);
    pdi_peer_init(&world.peer);
    for (uint64_t i = 0; i <= INTERLEAVE_ACTORS_MAX; i++) {
        world.sides[i].rand = pdi_rand_fork(&rand, i);
    }
    world.playing = playing;
    world.turns = turns;
    world.now = (uint32_t)(seed % 3) * UINT32_C(0x7fffffff); /* near the ends of the circle */
}

/* Everybody has left, nothing was lost, and the peer can be taken down. */
static void check_world(void)
{
    struct pdi_peer_view view = pdi_peer_look(&world.peer);
    CHECK_EQ(world.wrong, 0);
    CHECK_EQ(world.wrong_estate, 0);
    CHECK_EQ(view.busy, 0);
    CHECK(!world.playing || pdi_peer_encode(view) == world.model);
    for (int epoch = 0; epoch < EPOCHS_MAX; epoch++) {
        if (world.sessions[epoch] > 1) {
            CHECK_EQ(world.sessions[epoch], 1);
        }
    }
    pdi_peer_end(&world.peer);
    pdi_peer_give_up(&world.peer);
    pdi_peer_reset(&world.peer);
    CHECK_EQ(pdi_peer_look(&world.peer).state, PDI_PEER_UNKNOWN);
}

/* 002-59, 002-60, 002-69, 002-70, 002-73, 002-74, 002-78, 002-79: If it failed, a change by one
 * thread would be lost or half undone by another's, a peer would become UNKNOWN without having been
 * EXPIRED or while somebody is busy with it, or a count of busy ones would not come to zero. */
static void test_interleaved(void)
{
    for (uint64_t seed = 0; seed < SEEDS && test_failures == 0; seed++) {
        struct pdi_rand rand;
        struct interleave_actor actors[INTERLEAVE_ACTORS_MAX] = {
            {play_housekeeping, &world.sides[0]},
            {play_receive, &world.sides[1]},
            {play_application, &world.sides[2]},
            {play_receive, &world.sides[3]}};
        pdi_rand_init(&rand, seed);
        world_init(seed, true, 1 + (uint32_t)pdi_rand_below(&rand, 10));
        CHECK(interleave_run(&rand, actors, 2 + (unsigned)pdi_rand_below(&rand, 3), STEPS_MAX));
        check_world();
        if (test_failures != 0) {
            printf("seed %" PRIu64 "\n", seed);
            return;
        }
    }
    for (int op = 0; op < OPS; op++) { /* all of it has happened */
        CHECK(tally.count[op][1] > 100);
        CHECK(tally.count[op][0] > 100 || op == LEAVE || op == OPEN || op == ACCEPT);
    }
    CHECK(tally.seen[2][0] > 0 && tally.seen[2][1] > 0);
    CHECK(tally.seen[3][0] > 0 && tally.seen[3][1] > 0);
    CHECK_EQ(tally.seen[4][0] + tally.seen[4][1], 0);
    CHECK_EQ(tally.seen[0][1] + tally.seen[1][1], 0); /* busy only if ESTABLISHED or EXPIRED */
}

/* ---- two that want the same word ---- */

struct racer {
    enum op op;
    uint32_t arg;
    int status;
};

static void race(void *context)
{
    struct racer *racer = context;
    racer->status = act(racer->op, racer->arg);
}

/* Lets two operations race from one word in many orders. Answers a bit for each pair of results
 * that came out: 1 both, 2 only the first, 4 only the second, 8 none. */
static unsigned race_all(struct pdi_peer_view start, struct racer first, struct racer second,
                         unsigned state)
{
    unsigned outcomes = 0;
    for (uint64_t seed = 0; seed < RACE_SEEDS && test_failures == 0; seed++) {
        struct pdi_rand rand;
        struct interleave_actor actors[] = {{race, &first}, {race, &second}};
        pdi_rand_init(&rand, seed);
        world_init(seed, true, 0);
        world.peer = word_of(start.state, start.busy, start.epoch, start.deadline_ms);
        world.model = pdi_peer_encode(start);
        CHECK(interleave_run(&rand, actors, 2, STEPS_MAX));
        struct pdi_peer_view end = pdi_peer_look(&world.peer);
        CHECK(state == 256 || end.state == state);
        CHECK(world.wrong == 0 && pdi_peer_encode(end) == world.model);
        bool a = first.status == PYDDSI_OK;
        bool b = second.status == PYDDSI_OK;
        outcomes |= a && b ? 1U : a ? 2U : b ? 4U : 8U;
    }
    return outcomes;
}

/* 002-59, 002-63: If it failed, an ACCEPT that comes while an OPEN is repeated or given up would
 * make half a session, or two: it finds OPENING with a higher count, or comes first, or too late. */
static void test_accept_races(void)
{
    struct pdi_peer_view opening_2 = {2, 0, 9, 0};
    struct racer establish = {ESTABLISH, 70, 0};
    CHECK_EQ(race_all(opening_2, establish, (struct racer){RETRY, 5, 0}, PDI_PEER_ESTABLISHED),
             1 | 2);
    CHECK_EQ(race_all(opening_2, establish, (struct racer){RETRY, 2, 0}, PDI_PEER_ESTABLISHED), 2);
    CHECK_EQ(race_all(opening_2, establish, (struct racer){GIVE_UP, 0, 0}, 256), 2 | 4);
    CHECK_EQ(race_all(opening_2, establish, establish, PDI_PEER_ESTABLISHED), 2 | 4);
}

/* 002-71, 002-75, 002-77: If it failed, a lease renewed at the last moment would not save the peer
 * and yet be taken for renewed, two ends would be two events, or a reset would overtake work. */
static void test_expiry_races(void)
{
    struct pdi_peer_view over = {PDI_PEER_ESTABLISHED, 0, 9, 10};
    struct pdi_peer_view last = {PDI_PEER_EXPIRED, 1, 9, 10};
    struct racer expire = {EXPIRE, 11, 0};
    CHECK_EQ(race_all(over, expire, (struct racer){RENEW, 20, 0}, 256), 2 | 4);
    CHECK_EQ(race_all(over, expire, (struct racer){END, 0, 0}, PDI_PEER_EXPIRED), 2 | 4);
    CHECK_EQ(race_all(over, expire, (struct racer){ENTER, 0, 0}, PDI_PEER_EXPIRED), 1 | 2);
    CHECK_EQ(race_all(last, (struct racer){RESET, 0, 0}, (struct racer){LEAVE, 0, 0}, 256), 1 | 4);
}

/* ---- real threads ---- */

/* Works until it has entered TURNS times; between, somebody else must be let go on. */
static void *receive_in_thread(void *context)
{
    struct side *side = context;
    uint64_t entered = 0;
    for (uint32_t attempt = 0; attempt < ATTEMPTS_MAX && entered < TURNS; attempt++) {
        act(ESTABLISH, pdi_peer_deadline(now_ms(), 1 + attempt % 5));
        if (work(&side->rand, true)) {
            entered++;
        } else {
            sched_yield();
        }
    }
    atomic_fetch_add_explicit(&world.entered, entered, memory_order_relaxed);
    atomic_fetch_add_explicit(&world.finished, 1, memory_order_relaxed);
    return NULL;
}

/* 002-60, 002-73: If it failed, the word would hold in interleavings but not on a processor: four
 * receive threads in a storm of expiries read what housekeeping builds and tears down. */
static void test_threads(void)
{
    pthread_t threads[4];
    if (test_failures != 0) {
        return; /* what is broken may also never end */
    }
    world_init(1, false, TURNS);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, receive_in_thread, &world.sides[1 + i]), 0);
    }
    while (atomic_load_explicit(&world.finished, memory_order_relaxed) < 4) {
        keep_house(&world.sides[0].rand);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(world.entered, 4 * TURNS);
    check_world();
}

/* ---- match bits ---- */

static struct {
    struct pdi_atomic64 words[2];
    _Atomic uint64_t balance[2]; /* of the two bits that all change: sets less clears */
    uint64_t wrong[BIT_THREADS];
    uint32_t turns;
} bits;

/* Changes a bit of its own, which nobody else may seem to have changed, and one of everybody's,
 * in which first sets and first clears must take turns. */
static void change_bits(uint32_t mine)
{
    for (uint32_t turn = 0; turn < bits.turns; turn++) {
        uint32_t own = mine + 64 * (turn & 1);
        uint32_t all = 40 + 64 * (turn & 1);
        bits.wrong[mine] += pdi_bitset_atomic_set(bits.words, own);
        if ((turn + mine) % 4 < 2) {
            uint64_t first = !pdi_bitset_atomic_set(bits.words, all);
            atomic_fetch_add_explicit(&bits.balance[turn & 1], first, memory_order_relaxed);
        } else {
            uint64_t first = pdi_bitset_atomic_clear(bits.words, all);
            atomic_fetch_sub_explicit(&bits.balance[turn & 1], first, memory_order_relaxed);
        }
        bits.wrong[mine] += !pdi_bitset_atomic_test(bits.words, own);
        if (turn + 2 < bits.turns) {
            bits.wrong[mine] += !pdi_bitset_atomic_clear(bits.words, own);
        }
    }
}

static void play_bits(void *context)
{
    change_bits((uint32_t)((struct side *)context - world.sides));
}

static void *bits_in_thread(void *context)
{
    play_bits(context);
    return NULL;
}

/* Each thread's own bits stand as it left them, and the shared ones as their changes add up. */
static void check_bits(uint32_t threads)
{
    for (uint32_t i = 0; i < threads; i++) {
        CHECK_EQ(bits.wrong[i], 0);
        CHECK(pdi_bitset_atomic_test(bits.words, i) && pdi_bitset_atomic_test(bits.words, 64 + i));
    }
    CHECK_EQ(bits.balance[0], pdi_bitset_atomic_test(bits.words, 40));
    CHECK_EQ(bits.balance[1], pdi_bitset_atomic_test(bits.words, 104));
    CHECK_EQ(pdi_bitset_atomic_test(bits.words, threads), 0);
}

/* 002-97: If it failed, a match bit would be lost or come back when another thread changes one
 * beside it at the same moment, or two would both learn that they set it first. */
static void test_match_bits(void)
{
    pthread_t threads[BIT_THREADS];
    for (uint64_t seed = 0; seed < 1000 && test_failures == 0; seed++) {
        struct pdi_rand rand;
        struct interleave_actor actors[BIT_THREADS];
        for (size_t i = 0; i < BIT_THREADS; i++) {
            actors[i] = (struct interleave_actor){play_bits, &world.sides[i]};
        }
        pdi_rand_init(&rand, seed);
        memset(&bits, 0, sizeof bits);
        bits.turns = 2 + (uint32_t)pdi_rand_below(&rand, 8);
        CHECK(interleave_run(&rand, actors, BIT_THREADS, STEPS_MAX));
        check_bits(BIT_THREADS);
    }
    memset(&bits, 0, sizeof bits);
    bits.turns = BIT_TURNS;
    for (size_t i = 0; i < BIT_THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, bits_in_thread, &world.sides[i]), 0);
    }
    for (size_t i = 0; i < BIT_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    check_bits(BIT_THREADS);
}

int main(void)
{
    test_encode();
    test_deadlines();
    test_every_cell();
    test_housekeeping_held();
    test_opens_stop();
    test_accept_twice();
    test_reset_waits_for_busy();
    test_epochs_differ();
    test_accept_races();
    test_expiry_races();
    test_interleaved();
    test_threads();
    test_match_bits();
    return test_result();
}
