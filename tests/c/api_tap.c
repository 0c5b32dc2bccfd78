/* The tap: what is put into the ring comes out as frames, in order, or is counted; and what a session says and hears is put. It
 * is long, as each thing that is made up for the file is a test. */
#include "live.h"

#include "api/tap.h"
#include "base/endpoint.h"
#include "wire/decode.h"

enum { RING = 1 << 20, ROOM = 4 << 20, FRAMES = 4096 };

static const pyddsi_endpoint local = {.ip = {10, 0, 0, 1}, .port = 40000, .kind = 4};
static const pyddsi_endpoint peer = {.ip = {10, 0, 0, 2}, .port = 50000, .kind = 4};
static const pyddsi_endpoint group = {.ip = {239, 255, 0, 1}, .port = 7447, .kind = 4};
static const pyddsi_endpoint tcp_peer = {.ip = {10, 0, 0, 3}, .port = 7447, .kind = 14};
static const pyddsi_endpoint all_streams = {.kind = 14};
static const pyddsi_endpoint unix_peer = {.ip = {1, 2, 3, 4}, .port = 0, .kind = 20};

/* ---- what comes out ---- */

static uint8_t out[ROOM];
static int64_t times[FRAMES];
static uint32_t ends[FRAMES];

static pyddsi_copy empty(void)
{
    return (pyddsi_copy){
        .out = out, .room = sizeof out, .times = times, .ends = ends, .count_max = FRAMES};
}

/* A frame, taken apart. */
struct shown {
    uint32_t size, wire_size, flags;
    char comment[256];
    uint8_t protocol;
    uint16_t source, target;
    uint32_t sequence;
    uint8_t tcp_flags;
    const uint8_t *data;
    uint32_t data_size;
};

static uint32_t number32(const uint8_t *at)
{
    uint32_t number;
    memcpy(&number, at, 4);
    return number;
}

static uint32_t wire32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static struct shown shown(uint32_t index)
{
    const uint8_t *block = out + (index == 0 ? 0 : ends[index - 1]);
    const uint8_t *ip = block + 28;
    struct shown frame = {.size = number32(block + 20), .wire_size = number32(block + 24)};
    const uint8_t *option = ip + ((size_t)frame.size + 3) / 4 * 4;
    CHECK_EQ(number32(block), 6);
    CHECK_EQ(number32(block + 4), ends[index] - (uint32_t)(block - out));
    for (unsigned i = 0; i < 2 && number32(option) != 0; i++) {
        unsigned code = option[0] | (unsigned)option[1] << 8;
        unsigned size = option[2] | (unsigned)option[3] << 8;
        if (code == 2)
            frame.flags = number32(option + 4);
        else
            memcpy(frame.comment, option + 4, size);
        option += 4 + (size + 3) / 4 * 4;
    }
    frame.protocol = ip[9];
    frame.source = (uint16_t)(ip[20] << 8 | ip[21]);
    frame.target = (uint16_t)(ip[22] << 8 | ip[23]);
    uint32_t head = frame.protocol == 6 ? 40 : 28;
    if (frame.protocol == 6) {
        frame.sequence = wire32(ip + 24);
        frame.tcp_flags = ip[33];
    }
    frame.data = ip + head;
    frame.data_size = frame.size - head;
    return frame;
}

static struct pdi_tap *made(uint32_t size)
{
    static struct pdi_tap tap;
    memset(&tap, 0, sizeof tap);
    NEED(pdi_tap_begin(&tap, size, 7, &group) == PYDDSI_OK);
    return &tap;
}

static void put(struct pdi_tap *tap, const pyddsi_endpoint *source, const pyddsi_endpoint *target,
                const char *text)
{
    struct pdi_tap_record record = {.size = (uint32_t)strlen(text),
                                    .whole = strlen(text),
                                    .time_ns = 5,
                                    .source = *source,
                                    .target = *target,
                                    .direction = pdi_endpoint_equal(source, &local) ? PDI_WAY_OUT
                                                                                    : PDI_WAY_IN};
    pdi_tap_put(tap, &record, text);
}

/* If it failed, a recording would not say what went where, when, and what became of it. */
static void test_datagrams(void)
{
    struct pdi_tap *tap = made(RING);
    pyddsi_copy into = empty();
    struct pdi_tap_record dropped = {.size = 3,
                                     .whole = 9,
                                     .time_ns = UINT64_C(1700000000123456789),
                                     .source = peer,
                                     .target = local,
                                     .direction = PDI_WAY_IN,
                                     .place = PYDDSI_AT_INPUT,
                                     .reason = PYDDSI_BY_SIZE,
                                     .drops = 2};
    put(tap, &local, &group, "said");
    pdi_tap_put(tap, &dropped, "cut");
    CHECK_EQ(pdi_tap_take(tap, &into, 0), PYDDSI_OK);
    CHECK_EQ(into.count, 2);
    struct shown first = shown(0), second = shown(1);
    CHECK_EQ(first.flags, 2);
    CHECK_EQ(first.source, 40000);
    CHECK_EQ(first.target, 7447);
    CHECK_EQ(first.data_size, 4);
    CHECK(memcmp(first.data, "said", 4) == 0);
    CHECK_TEXT(first.comment, "");
    CHECK_EQ(second.flags, 1);
    CHECK_EQ(second.wire_size - second.size, 6);
    CHECK_EQ(times[1], dropped.time_ns);
    CHECK_TEXT(
        second.comment,
        "longer than a packet may be, and cut; 2 dropped as a packet that came in because it is "
        "larger than the receiver's limit");
    pdi_tap_fini(tap);
}

/* If it failed, a thread that was kept waiting would make time run backwards in a recording, or a clock that was set back
 * would not show. */
static void test_times(void)
{
    static const uint64_t put_at[] = {9000000000, 8999400000, 9000000001, 7000000000, 7000000001};
    static const uint64_t shown_at[] = {9000000000, 9000000000, 9000000001, 7000000000, 7000000001};
    struct pdi_tap *tap = made(RING);
    pyddsi_copy into = empty();
    for (unsigned i = 0; i < 5; i++) {
        struct pdi_tap_record record = {
            .size = 1, .whole = 1, .time_ns = put_at[i], .source = peer, .target = local};
        pdi_tap_put(tap, &record, "x");
    }
    CHECK_EQ(pdi_tap_take(tap, &into, 0), PYDDSI_OK);
    NEED(into.count == 5);
    for (unsigned i = 0; i < 5; i++) {
        CHECK_EQ(times[i], shown_at[i]);
    }
    pdi_tap_fini(tap);
}

static void put_sample(struct pdi_tap *tap, const pyddsi_endpoint *source, bool reliable,
                       uint32_t size)
{
    static uint8_t data[2000000];
    struct pdi_tap_record record = {.size = size,
                                    .whole = size,
                                    .source = *source,
                                    .resource = 14,
                                    .direction = PDI_WAY_OUT,
                                    .sample = 1,
                                    .reliable = reliable};
    for (uint32_t i = 0; i < size; i++)
        data[i] = (uint8_t)(i * 7 + size);
    pdi_tap_put(tap, &record, data);
}

/* The SDATA of a frame; its FRAG marker is in it. */
static pyddsi_message sdata(const struct shown *frame)
{
    const pyddsi_options options = {.strictness = PYDDSI_STRICT, .seq_bits = 7};
    pyddsi_reading reading;
    pyddsi_decoder decoder;
    pyddsi_message message = {0};
    CHECK_EQ(pdi_reading_init(&reading, &options), PYDDSI_OK);
    pdi_decoder_init(&decoder, &reading, frame->data, frame->data_size);
    while (pdi_decoder_next(&decoder, &message) == PYDDSI_OK && message.kind != PYDDSI_SDATA)
        continue;
    CHECK_EQ(message.kind, PYDDSI_SDATA);
    CHECK_EQ(message.conduit, PYDDSI_RECORD_CONDUIT);
    CHECK_EQ(message.rid, 14);
    return message;
}

/* If it failed, samples that went through shared memory would have gaps in a recording, or be one another's continuation. */
static void test_samples(void)
{
    struct pdi_tap *tap = made(RING);
    pyddsi_copy into = empty();
    for (unsigned i = 0; i < 130; i++)
        put_sample(tap, &local, true, 5);
    put_sample(tap, &local, false, 0);
    put_sample(tap, &peer, true, 6);
    put_sample(tap, &local, true, 150000);
    CHECK_EQ(pdi_tap_take(tap, &into, 0), PYDDSI_OK);
    CHECK_EQ(into.count, 135);
    for (uint32_t i = 0; i < 135; i++) {
        struct shown frame = shown(i);
        pyddsi_message message = sdata(&frame);
        CHECK_EQ(message.sn, i < 130 ? i % 128 : i < 132 ? 0 : i - 130); /* numbers of 7 bits */
        CHECK_EQ((message.flags & PYDDSI_R) != 0, i != 130);
        CHECK_EQ(message.fragment, i >= 132);
        CHECK_EQ(frame.target, 7447);
        CHECK_TEXT(frame.comment, "by shared memory");
        if (i >= 132) {
            CHECK_EQ(message.first, 2);
            CHECK_EQ(message.fragments, i == 132 ? 3 : 0);
            CHECK_EQ(message.payload.data[1], (uint8_t)(((i - 132) * 60000 + 1) * 7 + 150000));
        }
    }
    pdi_tap_fini(tap);
}

/* If it failed, a reader would see no connection, or one with holes, or two where there was one. */
static void test_connections(void)
{
    struct pdi_tap *tap = made(RING);
    pyddsi_copy into = empty();
    put(tap, &tcp_peer, &local, "one");
    put(tap, &local, &tcp_peer, "three");
    put(tap, &unix_peer, &local, "path");
    put(tap, &local, &all_streams, "all");
    put(tap, &tcp_peer, &local, ""); /* it is over */
    put(tap, &tcp_peer, &local, "again");
    CHECK_EQ(pdi_tap_take(tap, &into, 0), PYDDSI_OK);
    CHECK_EQ(into.count, 14);
    static const struct {
        uint8_t flags, size;
        uint16_t source, target;
    } wanted[14] = {
        {0x02, 0, 40000, 7447}, {0x12, 0, 7447, 40000}, {0x18, 4, 7447, 40000},
        {0x18, 6, 40000, 7447}, {0x02, 0, 7447, 20001}, {0x12, 0, 20001, 7447},
        {0x18, 5, 20001, 7447}, {0x18, 4, 40000, 7447}, {0x18, 4, 7447, 20001},
        {0x11, 0, 7447, 40000}, {0x11, 0, 40000, 7447}, {0x02, 0, 40000, 7447},
        {0x12, 0, 7447, 40000}, {0x18, 6, 7447, 40000},
    };
    CHECK_EQ(pdi_tap_take(tap, &into, 0), PYDDSI_OK);
    uint32_t next[2] = {0, 0};  /* of the connection by TCP: ours, the peer's; */
    uint32_t begun[2] = {1, 1}; /* and of the one before it */
    for (uint32_t i = 0; i < 14; i++) {
        struct shown frame = shown(i);
        CHECK_EQ(frame.protocol, 6);
        CHECK_EQ(frame.tcp_flags, wanted[i].flags);
        CHECK_EQ(frame.data_size, wanted[i].size);
        CHECK_EQ(frame.source, wanted[i].source);
        CHECK_EQ(frame.target, wanted[i].target);
        if (frame.source != 20001 && frame.target != 20001) {
            unsigned way = frame.source == 40000 ? 0 : 1;
            bool begins = (frame.tcp_flags & 2) != 0;
            CHECK(!begins || frame.sequence != begun[way]); /* or it would be a repetition */
            begun[way] = begins ? frame.sequence : begun[way];
            CHECK(begins || frame.sequence == next[way]);
            next[way] = frame.sequence + frame.data_size + (frame.tcp_flags != 0x18);
        }
    }
    CHECK_EQ(shown(2).data[0], 3); /* its frame */
    CHECK_TEXT(shown(4).comment, "a Unix socket");
    pdi_tap_fini(tap);
}

/* If it failed, a taker with little room would lose parts of a record, or write them twice. */
static void test_little_room(void)
{
    struct pdi_tap *tap = made(RING);
    uint32_t frames = 0, rounds = 0;
    put_sample(tap, &local, true, 199999);
    put(tap, &local, &peer, "last");
    for (; frames < 5 && rounds < 10; rounds++) {
        pyddsi_copy into = empty();
        into.count_max = 3; /* room for one part */
        CHECK_EQ(pdi_tap_take(tap, &into, 0), PYDDSI_OK);
        for (uint32_t i = 0; i < into.count && frames < 4; i++, frames++) {
            struct shown frame = shown(i);
            CHECK_EQ(sdata(&frame).sn, frames);
        }
        frames += frames == 4 && rounds == 4;
    }
    CHECK_EQ(rounds, 5);
    CHECK(memcmp(shown(0).data, "last", 4) == 0);
    pdi_tap_fini(tap);
}

/* If it failed, what found no room would be missing without a word, or the session would wait for a disk. */
static void test_full(void)
{
    struct pdi_tap *tap = made(1 << 20);
    pyddsi_recorded counts;
    pyddsi_copy into = empty();
    for (unsigned i = 0; i < 20; i++)
        put_sample(tap, &local, true, 59000);
    put_sample(tap, &local, true, 2000000); /* never */
    pdi_tap_count(tap, &counts);
    CHECK_EQ(counts.lost, 4);
    CHECK_EQ(counts.lost_bytes, 3 * 59000 + 2000000);
    CHECK_EQ(pdi_tap_take(tap, &into, 0), PYDDSI_OK);
    CHECK_EQ(into.count, 17);
    put_sample(tap, &local, true, 59000); /* there is room again, round the end of the ring */
    put_sample(tap, &local, true, 59000);
    into = empty();
    CHECK_EQ(pdi_tap_take(tap, &into, 0), PYDDSI_OK);
    CHECK_EQ(into.count, 2);
    struct shown last = shown(1);
    CHECK_EQ(sdata(&last).sn, 18);
    pdi_tap_fini(tap);
}

/* If it failed, a record that must not be cut in two at the end of the ring would be written over others. */
static void test_round_the_end(void)
{
    enum { HEAD = sizeof(struct pdi_tap_record), LEFT = 19000 };
    struct pdi_tap *tap = made(RING);
    pyddsi_recorded counts;
    pyddsi_copy into = empty();
    put_sample(tap, &local, true, 1000 - HEAD);
    put_sample(tap, &local, true, RING - 1000 - LEFT - HEAD);
    into.count_max = 3;
    CHECK_EQ(pdi_tap_take(tap, &into, 0), PYDDSI_OK); /* the first */
    CHECK_EQ(into.count, 1);
    put_sample(tap, &local, true, LEFT + 1000 - HEAD); /* as much as there is, in two parts */
    pdi_tap_count(tap, &counts);
    CHECK_EQ(counts.lost, 1);
    put_sample(tap, &local, true, LEFT - HEAD);
    put_sample(tap, &local, true, 1000 - HEAD);
    pdi_tap_count(tap, &counts);
    CHECK_EQ(counts.lost, 1);
    into = empty();
    CHECK_EQ(pdi_tap_take(tap, &into, 0), PYDDSI_OK);
    CHECK_EQ(into.count, 18 + 2);
    pdi_tap_fini(tap);
}

/* If it failed, a recording would never end, end too early, or be the only one that a session can have. */
static void test_end(void)
{
    struct pdi_tap *tap = made(RING);
    pyddsi_copy into = empty();
    CHECK_EQ(pdi_tap_begin(tap, RING, 7, &group), PYDDSI_AGAIN);
    put(tap, &local, &peer, "before");
    CHECK(pdi_tap_is_on(tap));
    pdi_tap_stop(tap);
    CHECK(!pdi_tap_is_on(tap));
    put(tap, &local, &peer, "behind");
    CHECK_EQ(pdi_tap_take(tap, &into, LIVE_PATIENCE), PYDDSI_OK);
    CHECK_EQ(into.count, 1);
    into.count = 0;
    CHECK_EQ(pdi_tap_take(tap, &into, LIVE_PATIENCE), PYDDSI_END);
    CHECK_EQ(pdi_tap_take(tap, &into, LIVE_PATIENCE), PYDDSI_END);
    CHECK_EQ(pdi_tap_begin(tap, RING, 7, &group), PYDDSI_OK);
    put(tap, &local, &peer, "new");
    into = empty();
    CHECK_EQ(pdi_tap_take(tap, &into, LIVE_PATIENCE), PYDDSI_OK);
    CHECK_EQ(into.count, 1);
    pdi_tap_fini(tap);
}

/* ---- threads ---- */

enum { WRITERS = 4 };

struct putter {
    pthread_t thread;
    struct pdi_tap *tap;
    uint32_t number;
    uint64_t count;
};

static void *put_many(void *context)
{
    struct putter *putter = context;
    uint8_t data[300];
    struct pdi_tap_record record = {.source = local, .target = peer, .direction = PDI_WAY_OUT};
    for (uint64_t i = 0; i < putter->count; i++) {
        record.size = (uint32_t)(LIVE_HEAD + i % 280);
        record.whole = record.size;
        live_fill(data, record.size, putter->number, i);
        pdi_tap_put(putter->tap, &record, data);
    }
    return NULL;
}

struct taken {
    uint64_t frames, wrong, next[WRITERS];
};

static void check_frames(struct taken *taken, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct shown frame = shown(i);
        uint8_t wanted[300];
        uint64_t number;
        uint32_t stream = number32(frame.data);
        memcpy(&number, frame.data + 8, 8);
        live_fill(wanted, frame.data_size, stream, number);
        bool right = stream < WRITERS && number >= taken->next[stream] &&
                     memcmp(wanted, frame.data, frame.data_size) == 0;
        taken->wrong += !right;
        taken->next[right ? stream : 0] = number + 1;
    }
    taken->frames += count;
}

/* If it failed, threads that put at the same time would spoil each other's records, or the taker would sleep for ever. */
static void test_threads(void)
{
    struct pdi_tap *tap = made(RING);
    struct putter putters[WRITERS];
    struct taken taken = {0};
    pyddsi_recorded counts;
    uint64_t each = LIVE_MANY(40000);
    for (uint32_t i = 0; i < WRITERS; i++) {
        putters[i] = (struct putter){.tap = tap, .number = i, .count = each};
        NEED(pthread_create(&putters[i].thread, NULL, put_many, &putters[i]) == 0);
    }
    do { /* until all was put or lost */
        pyddsi_copy into = empty();
        NEED(pdi_tap_take(tap, &into, PDI_TIME_NEVER) == PYDDSI_OK);
        check_frames(&taken, into.count);
        pdi_tap_count(tap, &counts);
    } while (taken.frames + counts.lost < WRITERS * each);
    for (uint32_t i = 0; i < WRITERS; i++)
        (void)pthread_join(putters[i].thread, NULL);
    CHECK_EQ(taken.frames + counts.lost, WRITERS * each);
    CHECK_EQ(taken.wrong, 0);
    CHECK_EQ(counts.records, taken.frames);
    pdi_tap_fini(tap);
}

/* ---- sessions ---- */

struct recorder {
    pthread_t thread;
    pyddsi_session *session;
    uint64_t sent, heard, samples;
};

static void *record(void *context)
{
    struct recorder *recorder = context;
    pyddsi_copy into = {.room = ROOM, .count_max = FRAMES};
    into.out = malloc(ROOM);
    into.times = malloc(FRAMES * sizeof *into.times);
    into.ends = malloc(FRAMES * sizeof *into.ends);
    NEED(into.out != NULL && into.times != NULL && into.ends != NULL);
    while (pyddsi_session_record_take(recorder->session, &into, LIVE_PATIENCE) == PYDDSI_OK) {
        uint32_t begin = 0;
        for (uint32_t i = 0; i < into.count; begin = into.ends[i++]) {
            const uint8_t *option = into.out + begin + 28;
            uint32_t size = number32(into.out + begin + 20);
            option += ((size_t)size + 3) / 4 * 4;
            static const uint8_t aside[] = {PYDDSI_CONDUIT, 0xff, 0x01};
            bool sample = memcmp(into.out + begin + 28 + 28, aside, sizeof aside) == 0;
            recorder->samples += sample;
            recorder->sent += !sample && option[4] == 2;
            recorder->heard += !sample && option[4] == 1;
        }
        into.used = into.count = 0;
    }
    free(into.out);
    free(into.times);
    free(into.ends);
    return NULL;
}

/* If it failed, a session's packets, or its samples in shared memory, would not be in its recording, or twice; or the session
 * would be held up. */
static void test_sessions(bool shared)
{
    live_next_group();
    pyddsi_session_options options = live_options(shared);
    options.record_bytes = 64 << 20;
    pyddsi_session *a = live_open(&options);
    pyddsi_session *b = live_open(&options);
    CHECK_EQ(pyddsi_session_record(a, 1 << 20), PYDDSI_AGAIN);
    struct recorder recorders[2] = {{.session = a}, {.session = b}};
    for (unsigned i = 0; i < 2; i++)
        NEED(pthread_create(&recorders[i].thread, NULL, record, &recorders[i]) == 0);
    uint64_t count = LIVE_MANY(20000);
    struct live_writer writer = {.session = a,
                                 .publisher = live_publisher(a, 7, true),
                                 .count = count,
                                 .size = 40,
                                 .how = 3,
                                 .patient = true};
    struct live_reader reader = {
        .session = b, .subscriber = live_subscriber(b, 7, 4096, PYDDSI_WAIT), .until = count};
    (void)live_match(a, writer.publisher, 1);
    live_read_begin(&reader);
    live_write_begin(&writer);
    live_write_end(&writer);
    live_read_join(&reader);
    live_let_go(&reader);
    CHECK(live_until(a, live_settled, a));
    pyddsi_session_counts counts[2];
    pyddsi_session_count(a, &counts[0]);
    pyddsi_session_count(b, &counts[1]);
    uint64_t lane_put = counts[0].lane_put, lane_taken = counts[1].lane_taken;
    pyddsi_session_close(a, LIVE_PATIENCE);
    pyddsi_session_close(b, LIVE_PATIENCE);
    pyddsi_stats stats[2];
    for (unsigned i = 0; i < 2; i++) {
        (void)pthread_join(recorders[i].thread, NULL);
        pyddsi_session_count(recorders[i].session, &counts[i]);
        (void)pyddsi_session_stats(recorders[i].session, &stats[i]);
        CHECK_EQ(recorders[i].sent,
                 counts[i].sent_receive + counts[i].sent_housekeeping + counts[i].sent_application);
        CHECK_EQ(recorders[i].heard, stats[i].packets_in);
    }
    CHECK_EQ(recorders[0].samples, lane_put);
    CHECK_EQ(recorders[1].samples, lane_taken);
    CHECK_EQ(recorders[0].samples != 0, shared);
    CHECK_EQ(recorders[0].samples, recorders[1].samples);
    CHECK_EQ(pyddsi_session_record(a, 1 << 20), PYDDSI_CLOSED);
    pyddsi_session_free(a);
    pyddsi_session_free(b);
}

/* If it failed, a ring of an odd size would be written past its end. */
static void test_sizes(void)
{
    live_next_group();
    pyddsi_session *session = live_session(false);
    CHECK_EQ(pyddsi_session_record(session, (1 << 20) + 8), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pyddsi_session_record(session, 1 << 19), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pyddsi_session_record(session, 1 << 20), PYDDSI_OK);
    pyddsi_session_free(session); /* nobody takes: its memory goes with it */
}

int main(void)
{
    test_datagrams();
    test_times();
    test_samples();
    test_connections();
    test_little_room();
    test_full();
    test_round_the_end();
    test_end();
    test_threads();
    test_sessions(false);
    test_sessions(true);
    test_sizes();
    return test_result();
}
