/* capture/trace.h: what each number, SYNCH and ACKNACK of a conversation means, rule by rule as docs/inside/capture.md has
 * them. (The file is long because each rule has a test of its own.) */
#include "capture/trace.h"

#include <stdlib.h>

#include "base/rand.h"
#include "damage.h"
#include "test.h"

enum { SNAPSHOT_ROOM = 1 << 25, R = PYDDSI_R, S = PYDDSI_S };

static void *memory[2];
static struct pdi_trace *trace;
static uint8_t *snapshot;
static uint64_t number;
static int64_t now_ns;
static pyddsi_note note;

/* Four peers and a group; others are numbered. */
enum { A, B, C, D, GROUP, OTHERS };

enum { MEMORY = 4 * PDI_TRACE_BYTES_MIN, PARTIES = 4 * 1024, FLOWS = 4 * 2048 };

static pyddsi_endpoint end_of(unsigned who)
{
    return who == GROUP ? (pyddsi_endpoint){.ip = {239, 255, 0, 1}, .port = 7447, .kind = 4}
                        : (pyddsi_endpoint){
                              .ip = {10, (uint8_t)(who >> 16), (uint8_t)(who >> 8), (uint8_t)who},
                              .port = 40000,
                              .kind = 4};
}

static void *aligned(void)
{
    void *at = aligned_alloc(64, (pdi_trace_size(MEMORY) + 63) / 64 * 64);
    if (at == NULL)
        abort();
    return at;
}

static void start_over(void)
{
    static const uint64_t seed[2] = {3, 4};
    memset(memory[0], 0, pdi_trace_size(MEMORY));
    trace = pdi_trace_init(memory[0], MEMORY, seed);
    number = 0;
    now_ns = 0;
}

/* A packet of one message, a millisecond after the one before. */
static void say(unsigned from, unsigned to, const pyddsi_message *message)
{
    struct pdi_trace_packet packet = {.number = ++number, .time_ns = now_ns += 1000000};
    pyddsi_endpoint source = end_of(from), target = end_of(to);
    static const uint8_t known[] = {7};
    trace->ports[0] = 40000; /* all of them speak */
    CHECK(pdi_trace_ours(trace, &source, &target, known, sizeof known, &packet));
    pdi_trace_packet(trace, &packet, 20);
    pdi_trace_message(trace, &packet, message, &note);
}

static void data(unsigned from, unsigned to, uint64_t sn, unsigned flags)
{
    say(from, to,
        &(pyddsi_message){.kind = PYDDSI_SDATA, .flags = (uint8_t)flags, .sn = sn, .rid = 2});
}

static void synch(unsigned from, unsigned to)
{
    say(from, to, &(pyddsi_message){.kind = PYDDSI_SYNCH, .flags = R | S});
}

static void ack(unsigned from, unsigned to, uint64_t sn, int64_t mask)
{
    say(from, to,
        &(pyddsi_message){.kind = PYDDSI_ACKNACK,
                          .flags = mask >= 0 ? PYDDSI_M : 0,
                          .sn = sn,
                          .mask = mask >= 0 ? (uint64_t)mask : 0});
}

/* An OPEN with another id, and the length of numbers if it is not 0. */
static void open_as(unsigned from, unsigned to, char id, unsigned bits)
{
    uint8_t property[] = {4, 1, (uint8_t)bits};
    say(from, to,
        &(pyddsi_message){.kind = PYDDSI_OPEN,
                          .flags = bits != 0 ? PYDDSI_P : 0,
                          .id = {(const uint8_t *)&id, 1},
                          .lease = 50,
                          .properties = {property, sizeof property, bits != 0, 0}});
}

static void hello(unsigned from, unsigned to)
{
    say(from, to, &(pyddsi_message){.kind = PYDDSI_HELLO});
}

/* The event of reliable data, and its number. */
static void check_data(unsigned from, unsigned to, uint64_t sn, unsigned event, int64_t usn)
{
    data(from, to, sn, R);
    CHECK_EQ(note.event, event);
    CHECK_EQ(note.usn, usn);
}

/* If it failed, what is next, missing, late or repeated would be called something else. */
static void test_events(void)
{
    start_over();
    synch(A, B);
    CHECK_EQ(note.event, PDI_SEQ_NONE);
    check_data(A, B, 5, PDI_SEQ_FIRST, 5);
    check_data(A, B, 6, PDI_SEQ_NEXT, 6);
    check_data(A, B, 9, PDI_SEQ_GAP, 9);
    CHECK_EQ(note.gap, 2);
    check_data(A, B, 7, PDI_SEQ_FILL, 7);
    check_data(A, B, 7, PDI_SEQ_REPEAT, 7);
    CHECK_EQ(note.since_first_us, 1000);
    check_data(A, B, 4, PDI_SEQ_AMBIGUOUS, 4);
    check_data(A, B, 10, PDI_SEQ_NEXT, 10);
    CHECK_EQ(note.gap, 0);
    check_data(A, C, 1, PDI_SEQ_FIRST, 1); /* another flow */
    data(A, B, 3, 0);                      /* best effort */
    CHECK_EQ(note.event, PDI_SEQ_FIRST);
    data(A, B, 5, 0);
    CHECK_EQ(note.gap, 1);
    data(A, B, 4, 0);
    CHECK_EQ(note.event, PDI_SEQ_FILL);
    data(A, B, 4, 0);
    CHECK_EQ(note.event, PDI_SEQ_OLD);
    CHECK_EQ(trace->samples_missing, 1); /* 8 */
    CHECK_EQ(trace->samples_filled, 2);
    CHECK_EQ(trace->samples_repeated, 1);
}

/* If it failed, what was sent before its receiver took anything would count as lost. */
static void test_pre_sync(void)
{
    start_over();
    check_data(A, B, 0, PDI_SEQ_FIRST, 0);
    check_data(A, B, 0, PDI_SEQ_PRE_SYNC, 0);
    synch(A, B);
    check_data(A, B, 1, PDI_SEQ_NEXT, 1);
    check_data(A, B, 0, PDI_SEQ_PRE_SYNC, 0);
    check_data(A, B, 1, PDI_SEQ_REPEAT, 1);
    check_data(A, GROUP, 0, PDI_SEQ_FIRST, 0); /* a newcomer's SYNCH is one for the group */
    check_data(A, GROUP, 0, PDI_SEQ_REPEAT, 0);
    check_data(C, GROUP, 0, PDI_SEQ_FIRST, 0);
    check_data(C, GROUP, 0, PDI_SEQ_PRE_SYNC, 0);
}

/* If it failed, a counter that goes round would seem to jump back, or a repeat over the edge to be new. */
static void test_wrap(void)
{
    static const unsigned lengths[] = {7, 14, 28, 56};
    for (unsigned i = 0; i < 4; i++) {
        uint64_t round = UINT64_C(1) << lengths[i];
        int64_t base = (int64_t)round;
        start_over();
        open_as(A, B, 'a', lengths[i]);
        synch(A, B);
        check_data(A, B, round - 2, PDI_SEQ_FIRST, base - 2);
        check_data(A, B, round - 1, PDI_SEQ_NEXT, base - 1);
        check_data(A, B, 0, PDI_SEQ_NEXT, base);
        check_data(A, B, round - 1, PDI_SEQ_REPEAT, base - 1);
        check_data(A, B, 2, PDI_SEQ_GAP, base + 2);
        check_data(A, B, 1, PDI_SEQ_FILL, base + 1);
        check_data(A, B, round - 3, PDI_SEQ_AMBIGUOUS, base - 3);
        ack(B, A, round - 1, -1);
        CHECK_EQ(note.ack_usn, base - 1);
        ack(B, A, 3, -1);
        CHECK_EQ(note.ack_usn, base + 3);
    }
    start_over(); /* exactly opposite is behind */
    open_as(A, B, 'a', 7);
    check_data(A, B, 0, PDI_SEQ_FIRST, 0);
    check_data(A, B, 63, PDI_SEQ_GAP, 63);
    check_data(A, B, 127, PDI_SEQ_AMBIGUOUS, -1);
    check_data(A, B, 126, PDI_SEQ_GAP, 126);
    ack(B, A, 62, -1);
    CHECK_EQ(note.ack_usn, 62);
}

/* If it failed, a counter would be read with too few bits, or one that cannot be would spoil what is known. */
static void test_lengths(void)
{
    start_over();
    check_data(A, B, 5, PDI_SEQ_FIRST, 5);
    check_data(A, B, 20000, PDI_SEQ_GAP, 20000);
    check_data(A, B, UINT64_C(1) << 56, PDI_SEQ_AMBIGUOUS, PDI_NONE64);
    check_data(A, B, 20001, PDI_SEQ_NEXT, 20001);
    check_data(A, B, (UINT64_C(1) << 31) + 20001, PDI_SEQ_AMBIGUOUS, PDI_NONE64);
    check_data(A, B, (UINT64_C(1) << 31) + 20000, PDI_SEQ_GAP, (INT64_C(1) << 31) + 20000);
    CHECK_EQ(note.gap, (INT64_C(1) << 31) - 2);
    ack(B, A, UINT64_C(1) << 56, -1);
    CHECK_EQ(note.ack_usn, PDI_NONE64);
    start_over(); /* who accepts agrees, if somebody has opened */
    open_as(A, B, 'a', 7);
    say(B, A,
        &(pyddsi_message){
            .kind = PYDDSI_ACCEPT, .acceptor = {(const uint8_t *)"b", 1}, .lease = 5});
    say(C, B,
        &(pyddsi_message){
            .kind = PYDDSI_ACCEPT, .acceptor = {(const uint8_t *)"c", 1}, .lease = 5});
    check_data(B, A, 127, PDI_SEQ_FIRST, 127);
    check_data(B, A, 0, PDI_SEQ_NEXT, 128);
    check_data(C, B, 127, PDI_SEQ_FIRST, 127);
    check_data(C, B, 0, PDI_SEQ_AMBIGUOUS, 0); /* 14: B has not opened */
}

/* If it failed, a sender that begins again would seem to repeat everything, or one that goes on to begin again. */
static void test_epochs(void)
{
    start_over();
    open_as(A, B, 'a', 0);
    synch(A, B);
    check_data(A, B, 0, PDI_SEQ_FIRST, 0);
    check_data(A, B, 1, PDI_SEQ_NEXT, 1);
    check_data(A, B, 0, PDI_SEQ_REPEAT, 0); /* it has greeted nobody */
    hello(A, C);
    check_data(A, B, 1, PDI_SEQ_REPEAT, 1);
    check_data(A, B, 0, PDI_SEQ_REPEAT, 0); /* it went on since */
    hello(A, C);
    ack(B, A, 0, 1);
    check_data(A, B, 0, PDI_SEQ_REPEAT, 0); /* it is asked for */
    hello(A, C);
    check_data(A, B, 0, PDI_SEQ_RESET, 0);
    CHECK_EQ(note.epoch, 1);
    check_data(A, B, 0, PDI_SEQ_PRE_SYNC, 0); /* no SYNCH since it greeted */
    open_as(A, B, 'a', 0);
    synch(A, B);
    check_data(A, B, 7, PDI_SEQ_GAP, 7); /* the same id: it goes on */
    open_as(A, B, 'x', 0);
    synch(A, B);
    check_data(A, B, 9, PDI_SEQ_RESET, 9); /* another id */
    CHECK_EQ(note.epoch, 2);
    check_data(A, B, 9, PDI_SEQ_REPEAT, 9);
    check_data(A, B, 8, PDI_SEQ_AMBIGUOUS, 8);
    start_over(); /* a wrap is no new beginning */
    open_as(A, B, 'a', 7);
    check_data(A, B, 127, PDI_SEQ_FIRST, 127);
    hello(A, C);
    check_data(A, B, 0, PDI_SEQ_NEXT, 128);
    check_data(A, B, 1, PDI_SEQ_NEXT, 129);
    hello(A, C);
    check_data(A, B, 0, PDI_SEQ_RESET, 0);
}

/* If it failed, numbers would be called missing, or repeated, of which nobody can tell how often the counter went round. */
static void test_silence(void)
{
    for (unsigned messages = 15; messages < 18; messages++) {
        start_over();
        open_as(A, B, 'a', 7);
        synch(A, B);
        for (uint64_t sn = 1; sn <= messages; sn++)
            data(A, B, sn, R);
        /* half round takes 64 times a millisecond, less one in so many */
        now_ns += INT64_C(64) * 1000000 * (int64_t)(messages - 1) / (int64_t)messages - 1000000;
        data(A, B, messages + 2, R);
        CHECK_EQ(note.event, PDI_SEQ_GAP);
        now_ns += INT64_C(1000000000);
        check_data(A, B, messages + 3, PDI_SEQ_NEXT, messages + 3); /* there is no doubt */
        now_ns += INT64_C(100000000000);
        data(A, B, messages + 5, R);
        CHECK_EQ(note.event, PDI_SEQ_AMBIGUOUS);
        CHECK_EQ(note.usn, messages + 5);
        CHECK_EQ(note.gap, 0);
        check_data(A, B, messages + 1, PDI_SEQ_AMBIGUOUS, messages + 1); /* it was missing, once */
        check_data(A, B, messages + 5, PDI_SEQ_REPEAT, messages + 5);
    }
    start_over(); /* too few to tell a pace */
    open_as(A, B, 'a', 7);
    for (uint64_t sn = 1; sn < 16; sn++)
        data(A, B, sn, R);
    now_ns += INT64_C(100000000000);
    check_data(A, B, 17, PDI_SEQ_GAP, 17);
}

/* If it failed, what was given up of many gaps would be said to be repeated. */
static void test_stretches(void)
{
    start_over();
    synch(A, B);
    check_data(A, B, 0, PDI_SEQ_FIRST, 0);
    for (int64_t n = 1; n <= PDI_FLOW_MISSING_MAX; n++)
        check_data(A, B, (uint64_t)(4 * n), PDI_SEQ_GAP, 4 * n);
    check_data(A, B, 1, PDI_SEQ_FILL, 1);
    check_data(A, B, 6, PDI_SEQ_FILL, 6); /* in two: the lowest, 2 and 3, is given up */
    check_data(A, B, 3, PDI_SEQ_AMBIGUOUS, 3);
    check_data(A, B, 4, PDI_SEQ_REPEAT, 4);
    check_data(A, B, 5, PDI_SEQ_FILL, 5);
    check_data(A, B, 7, PDI_SEQ_FILL, 7);
    check_data(A, B, 4 * PDI_FLOW_MISSING_MAX + 2, PDI_SEQ_GAP, 4 * PDI_FLOW_MISSING_MAX + 2);
    check_data(A, B, 9, PDI_SEQ_FILL, 9); /* one is free again: nothing more was given up */
    check_data(A, B, 7, PDI_SEQ_REPEAT, 7);
    CHECK_EQ(trace->forgotten, 1);
}

/* If it failed, an answer would be measured from another question, or a delivery from another transmission. */
static void test_acks(void)
{
    start_over();
    check_data(A, GROUP, 5, PDI_SEQ_FIRST, 5);
    ack(B, A, 5, -1);
    CHECK_EQ(note.answer_us, PDI_NONE64);
    CHECK_EQ(note.delivery_us, PDI_NONE64);
    data(A, GROUP, 6, R | S);
    data(A, GROUP, 7, R);
    ack(B, A, 7, -1); /* covers 6 */
    CHECK_EQ(note.answer_us, 2000);
    CHECK_EQ(note.delivery_us, 2000);
    ack(C, A, 8, -1);
    CHECK_EQ(note.answer_us, 3000);
    CHECK_EQ(note.delivery_us, 2000);
    ack(B, A, 8, 5); /* nothing new */
    CHECK_EQ(note.answer_us, PDI_NONE64);
    CHECK_EQ(note.delivery_us, PDI_NONE64);
    CHECK_EQ(note.nacked, 3);
    CHECK_EQ(note.nack_mask, 5);
    data(A, GROUP, 10, R);
    ack(B, A, 10, -1); /* 9 was never seen */
    CHECK_EQ(note.delivery_us, PDI_NONE64);
    ack(B, A, 500, -1); /* more than was ever seen */
    CHECK_EQ(note.delivery_us, 2000);
    CHECK_EQ(note.ack_usn, 500);
    data(A, GROUP, 10, R);
    CHECK_EQ(note.since_first_us, 3000); /* C has not acknowledged it */
    ack(C, A, 11, -1);
    ack(B, A, 11, -1);
    data(A, GROUP, 10, R);
    CHECK_EQ(note.event, PDI_SEQ_PRE_SYNC);
    CHECK_EQ(note.since_first_us, PDI_NONE64); /* all have: forgotten */
    ack(D, B, 3, -1);
    CHECK_EQ(note.flow, 0); /* of a flow that nobody has seen */
    synch(A, B);
    ack(B, A, 11, -1);
    CHECK_EQ(note.answer_us, 1000);
    synch(B, A); /* and an answer to one without any data */
    ack(A, B, 3, -1);
    CHECK_EQ(note.answer_us, 1000);
    CHECK_EQ(note.ack_usn, 3);
}

/* If it failed, a clock that was set back, or a frame without a time, would give a time that is none. */
static void test_clocks(void)
{
    start_over();
    synch(A, B);
    data(A, B, 0, R | S);
    now_ns -= 5000000;
    data(A, B, 0, R);
    CHECK_EQ(note.event, PDI_SEQ_REPEAT);
    CHECK_EQ(note.since_first_us, PDI_NONE64);
    struct pdi_trace_packet packet = {.number = 9, .time_ns = PDI_TIME_NONE};
    pyddsi_endpoint source = end_of(B), target = end_of(A);
    CHECK(pdi_trace_ours(trace, &source, &target, NULL, 0, &packet));
    pdi_trace_packet(trace, &packet, 20);
    pyddsi_message message = {.kind = PYDDSI_ACKNACK, .sn = 1};
    pdi_trace_message(trace, &packet, &message, &note);
    CHECK_EQ(note.answer_us, PDI_NONE64);
    CHECK_EQ(note.delivery_us, PDI_NONE64);
    CHECK_EQ(note.ack_usn, 1);
}

/* The state goes through a snapshot, into the other memory. */
static void move(void)
{
    static const uint64_t seed[2] = {8, 9};
    size_t size = pdi_trace_store(trace, snapshot, SNAPSHOT_ROOM);
    CHECK(size <= SNAPSHOT_ROOM);
    void *swap = memory[0];
    memory[0] = memory[1];
    memory[1] = swap;
    memset(memory[0], 0, pdi_trace_size(MEMORY));
    trace = pdi_trace_init(memory[0], MEMORY, seed);
    CHECK_EQ(pdi_trace_load(trace, snapshot, size), PYDDSI_OK);
    CHECK_EQ(pdi_trace_store(trace, NULL, 0), size);
    pdi_trace_begin(trace);
}

/* What somebody says next. */
static void anything(struct pdi_rand *rand, uint64_t *next)
{
    unsigned from = (unsigned)pdi_rand_below(rand, 4), to = (unsigned)pdi_rand_below(rand, 5);
    uint64_t sn = (next[from] + pdi_rand_below(rand, 8) - 3) & 127;
    now_ns += pdi_rand_chance(rand, 1, 200) ? INT64_C(10000000000) : 0;
    switch (pdi_rand_below(rand, 12)) {
    case 0:
        open_as(from, to, (char)('a' + pdi_rand_below(rand, 2)), 7);
        return;
    case 1:
        synch(from, to);
        return;
    case 2:
    case 3:
    case 4:
        ack(to == GROUP ? C : to, from, sn, pdi_rand_chance(rand, 1, 2) ? 3 : -1);
        return;
    default:
        data(from, to, sn, (unsigned)pdi_rand_below(rand, 4) << 5);
        next[from] = (sn + 1) & 127;
    }
}

/* If it failed, a range of a capture would be told otherwise than the whole, from the place on where it begins. */
static void test_snapshots(void)
{
    start_over();
    synch(A, B);
    check_data(A, B, 0, PDI_SEQ_FIRST, 0);
    check_data(A, B, 1, PDI_SEQ_NEXT, 1);
    hello(A, C);
    ack(B, A, 0, 1);
    move();
    check_data(A, B, 0, PDI_SEQ_REPEAT, 0); /* it was asked for */
    static pyddsi_note wanted[2000];
    for (uint64_t every = 1; every < 1000; every *= 7) {
        for (unsigned turn = 0; turn < 2; turn++) {
            struct pdi_rand rand;
            uint64_t next[4] = {0};
            pdi_rand_init(&rand, every);
            start_over();
            for (unsigned i = 0; i < (every == 1 ? 100 : 2000); i++) {
                anything(&rand, next);
                if (turn == 0)
                    wanted[i] = note;
                else
                    CHECK(memcmp(&wanted[i], &note, sizeof note) == 0);
                if (turn == 1 && i % every == 0)
                    move();
            }
        }
    }
}

/* If it failed, a flood of strangers would stop the scan or fill the memory, or what is left then could not be stored. */
static void test_floods(void)
{
    start_over();
    for (unsigned i = 0; i < 3 * PARTIES; i++) {
        unsigned stranger = OTHERS + i;
        open_as(stranger, GROUP, (char)i, 0);
        say(A, GROUP,
            &(pyddsi_message){.kind = PYDDSI_SDATA, .flags = R, .sn = i & 16383, .rid = 2});
        CHECK_EQ(note.event, i == 0 ? PDI_SEQ_FIRST : PDI_SEQ_NEXT); /* who speaks is kept */
        ack(stranger, A, i & 16383, -1);
        synch(stranger, A);
    }
    CHECK(trace->evicted > PARTIES && trace->forgotten != 0);
    CHECK(trace->party_slots.used <= PARTIES);
    move();
    start_over();
    for (unsigned i = 0; i < 3 * FLOWS; i++)
        say(A, OTHERS + i % 3000,
            &(pyddsi_message){
                .kind = PYDDSI_SDATA, .flags = R, .conduit = i / 3000, .sn = i & 15, .rid = 2});
    CHECK(trace->evicted >= FLOWS / 2 && trace->flow_slots.used <= FLOWS);
    move();
    CHECK(trace->flow_slots.used > FLOWS / 4);
}

/* If it failed, bytes that are no snapshot would stop the scan that reads them. */
static void test_damaged_snapshots(void)
{
    struct pdi_rand rand;
    uint64_t next[4] = {0};
    static const uint64_t seed[2] = {1, 1};
    pdi_rand_init(&rand, 5);
    start_over();
    for (unsigned i = 0; i < 300; i++)
        anything(&rand, next);
    size_t size = pdi_trace_store(trace, snapshot, SNAPSHOT_ROOM);
    uint8_t *copy = malloc(size);
    if (copy == NULL)
        abort();
    unsigned taken = 0;
    for (unsigned i = 0; i < 400; i++) {
        memcpy(copy, snapshot, size);
        size_t cut = i % 4 == 0 ? pdi_rand_below(&rand, size) : size;
        for (unsigned n = 0; n < i % 4; n++)
            copy[pdi_rand_below(&rand, size)] ^= (uint8_t)(1U << pdi_rand_below(&rand, 8));
        memset(memory[1], 0, pdi_trace_size(MEMORY));
        trace = pdi_trace_init(memory[1], MEMORY, seed);
        int status = pdi_trace_load(trace, copy, cut);
        CHECK(status == PYDDSI_OK || status == PYDDSI_BAD_INPUT);
        if (cut != size)
            CHECK_EQ(status, PYDDSI_BAD_INPUT);
        for (unsigned n = 0; status == PYDDSI_OK && n < 100; n++)
            anything(&rand, next);
        taken += status == PYDDSI_OK;
    }
    CHECK(taken > 20);
    free(copy);
}

/* If it failed, a session would end at another time, or for another reason, than its packets show. */
static void test_sessions(void)
{
    start_over();
    open_as(A, B, 'a', 0); /* a lease of 5 s */
    say(B, A,
        &(pyddsi_message){
            .kind = PYDDSI_ACCEPT, .acceptor = {(const uint8_t *)"b", 1}, .lease = 50});
    CHECK_EQ(trace->sessions[0].state, PDI_SESSION_OPEN);
    now_ns += INT64_C(3000000000);
    data(A, B, 0, R);
    CHECK_EQ(trace->by_event[PDI_EVENT_SILENCE], 1); /* half of it */
    now_ns += INT64_C(4998000000);
    data(B, A, 0, R); /* from its ACCEPT that is more than 5 s */
    CHECK_EQ(trace->by_event[PDI_EVENT_LEASE_EXPIRED], 1);
    CHECK_EQ(trace->sessions[0].end, PDI_END_EXPIRED);
    CHECK_EQ(trace->sessions[0].end_ns, trace->sessions[0].accept_ns + INT64_C(5000000000));
    open_as(A, B, 'a', 0);
    say(B, A, &(pyddsi_message){.kind = PYDDSI_CLOSE, .reason = 3});
    CHECK_EQ(trace->by_event[PDI_EVENT_REFUSED], 1);
    open_as(A, B, 'a', 0);
    say(B, A,
        &(pyddsi_message){
            .kind = PYDDSI_ACCEPT, .acceptor = {(const uint8_t *)"b", 1}, .lease = 50});
    open_as(C, B, 'a', 0); /* the same id elsewhere */
    CHECK_EQ(trace->by_event[PDI_EVENT_MOVED], 1);
    open_as(A, D, 'q', 0);
    say(D, A,
        &(pyddsi_message){
            .kind = PYDDSI_ACCEPT, .acceptor = {(const uint8_t *)"d", 1}, .lease = 50});
    int64_t accepted = now_ns;
    for (uint32_t party = 0; party < trace->party_slots.fresh; party++)
        pdi_trace_finish(trace, party,
                         accepted + INT64_C(60000000000)); /* the last silence counts */
    CHECK_EQ(trace->by_event[PDI_EVENT_LEASE_EXPIRED], 2);
}

int main(void)
{
    memory[0] = aligned();
    memory[1] = aligned();
    snapshot = malloc(SNAPSHOT_ROOM);
    if (snapshot == NULL)
        return 1;
    test_events();
    test_pre_sync();
    test_wrap();
    test_lengths();
    test_epochs();
    test_silence();
    test_stretches();
    test_acks();
    test_clocks();
    test_snapshots();
    test_floods();
    test_damaged_snapshots();
    test_sessions();
    free(memory[0]);
    free(memory[1]);
    free(snapshot);
    return test_result();
}
