/* live.h - for tests of real sessions: opening them on the loopback, and writers and readers that check what comes.
 *
 * Each sample says which stream it belongs to and its number in it, and the rest of its bytes follow from these. A reader
 * checks of every stream that numbers follow each other, from the first that it sees. Nothing depends on how long
 * something takes: whoever waits does so until it has happened, and after LIVE_PATIENCE the test has failed.
 */
#ifndef PDI_TEST_LIVE_H
#define PDI_TEST_LIVE_H

#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): it comes before all others */

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pyddsi.h"
#include "test.h"

#define LIVE_PATIENCE UINT64_C(20000000000)
#define LIVE_STREAMS  16
#define LIVE_HEAD     16 /* the least size of a sample */
#define LIVE_BATCH    64

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define LIVE_SLOW 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define LIVE_SLOW 1
#endif
#endif
#ifndef LIVE_SLOW
#define LIVE_SLOW 0
#endif
/* So many samples, or fewer where each instruction costs more. */
#define LIVE_MANY(count) ((uint64_t)(LIVE_SLOW ? (count) / 8 : (count)))

static inline uint64_t live_now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

/* A failure that makes going on pointless. */
_Noreturn static inline void live_fail(const char *what, const char *file, int line)
{
    printf("%s:%d: %s\n", file, line, what);
    (void)fflush(stdout);
    abort();
}

#define NEED(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            live_fail("not true: " #condition, __FILE__, __LINE__);                                \
        }                                                                                          \
    } while (0)

/* ---- sessions ---- */

/* Every test has a group of its own, so that tests do not hear each other, whoever runs them at the same time: the address
 * is the program's and the port the test's. Programs that are started at once have neighbouring numbers, so a port alone
 * would be one program's fifth and another one's first. */
static pyddsi_endpoint live_group;

static inline void live_next_group(void)
{
    if (live_group.port == 0) { /* in the parent, for its children too */
        uint32_t pid = (uint32_t)getpid();
        live_group = (pyddsi_endpoint){
            .ip = {239, (uint8_t)(192 + (pid >> 16 & 63)), (uint8_t)(pid >> 8), (uint8_t)pid},
            .port = 20000,
            .kind = 4};
    }
    live_group.port++;
}

static inline pyddsi_session_options live_options(bool shared)
{
    pyddsi_session_options options;
    pyddsi_session_options_init(&options);
    options.group = live_group;
    options.shared = shared;
    (void)snprintf(options.interface, sizeof options.interface, "lo");
    return options;
}

static inline pyddsi_session *live_open(const pyddsi_session_options *options)
{
    pyddsi_session *session;
    char text[PYDDSI_TEXT_MAX];
    int status = pyddsi_session_open(&session, options, text);
    if (status != PYDDSI_OK) {
        live_fail(text, __FILE__, __LINE__);
    }
    return session;
}

static inline pyddsi_session *live_session(bool shared)
{
    pyddsi_session_options options = live_options(shared);
    return live_open(&options);
}

/* One whose lanes have so much room. */
static inline pyddsi_session *live_lane_session(uint32_t bytes, uint32_t samples)
{
    pyddsi_session_options options = live_options(true);
    options.lane_bytes = bytes;
    options.lane_samples = samples;
    return live_open(&options);
}

static inline uint32_t live_publisher_by(pyddsi_session *session, uint64_t resource, bool reliable,
                                         enum pyddsi_way way)
{
    uint32_t handle;
    int answer;
    pyddsi_publisher_options options = {
        .resource = resource,
        .reliability = reliable ? PYDDSI_RELIABLE : PYDDSI_BEST_EFFORT,
        .way = (uint8_t)way,
    };
    NEED(pyddsi_session_publisher(session, &options, &handle, &answer) == PYDDSI_OK);
    return handle;
}

static inline uint32_t live_publisher(pyddsi_session *session, uint64_t resource, bool reliable)
{
    return live_publisher_by(session, resource, reliable, PYDDSI_WAY_AUTO);
}

static inline uint32_t live_subscriber(pyddsi_session *session, uint64_t resource, uint32_t depth,
                                       enum pyddsi_on_full on_full)
{
    uint32_t handle;
    int answer;
    pyddsi_subscriber_options options = {
        .resource = resource, .mode = PYDDSI_PUSH, .depth = depth, .on_full = (uint8_t)on_full};
    NEED(pyddsi_session_subscriber(session, &options, &handle, &answer) == PYDDSI_OK);
    return handle;
}

/* Waits for something that a session does, or another thread or process. */
typedef bool live_condition(void *context);

static inline bool live_until(pyddsi_session *session, live_condition *condition, void *context)
{
    uint64_t end = live_now() + LIVE_PATIENCE;
    for (;;) {
        uint32_t heard = pyddsi_session_listen(session);
        bool done = condition(context);
        if (done || live_now() > end) {
            pyddsi_session_unlisten(session);
            return done;
        }
        /* not all conditions ring this session's bell, so it is looked again now and then */
        (void)pyddsi_session_wait(session, heard, 5000000);
    }
}

/* How many peers match a publisher (0: all publishers together): events are taken out, so one thread at a time. */
struct live_matches {
    pyddsi_session *session;
    uint32_t publisher;
    int now, wanted;
};

static inline bool live_matched(void *context)
{
    struct live_matches *matches = context;
    pyddsi_event event;
    while (pyddsi_session_event(matches->session, &event) == PYDDSI_OK) {
        bool ours = matches->publisher == 0 || event.handle == matches->publisher;
        matches->now += ours && event.kind == PYDDSI_MATCHED;
        matches->now -= ours && event.kind == PYDDSI_UNMATCHED;
    }
    return matches->now >= matches->wanted;
}

static inline struct live_matches live_match(pyddsi_session *session, uint32_t publisher,
                                             int wanted)
{
    struct live_matches matches = {session, publisher, 0, wanted};
    NEED(live_until(session, live_matched, &matches));
    return matches;
}

/* Until so many readers use lanes of this session. */
struct live_lanes {
    pyddsi_session *session;
    uint64_t readers;
};

static inline bool live_lanes_are(void *context)
{
    struct live_lanes *lanes = context;
    pyddsi_session_counts counts;
    pyddsi_session_count(lanes->session, &counts);
    return counts.lane_readers == lanes->readers;
}

static inline bool live_lane_readers(pyddsi_session *session, uint64_t readers)
{
    struct live_lanes lanes = {session, readers};
    bool are = live_until(session, live_lanes_are, &lanes);
    if (!are) {
        pyddsi_session_counts counts;
        pyddsi_session_count(session, &counts);
        printf("lanes %" PRIu64 ", readers %" PRIu64 " instead of %" PRIu64 ", refused %" PRIu64
               "\n",
               counts.lanes, counts.lane_readers, readers, counts.lane_refused);
    }
    return are;
}

static inline uint64_t live_lane_put(pyddsi_session *session)
{
    pyddsi_session_counts counts;
    pyddsi_session_count(session, &counts);
    return counts.lane_put;
}

/* What the ledger says was lost of samples at this place; PLACE_COUNT: at all of them. */
static inline uint64_t live_lost(pyddsi_session *session, int place, int reason)
{
    uint64_t lost = 0;
    pyddsi_drop drop;
    for (uint32_t i = 0; pyddsi_session_drop(session, i, &drop) == PYDDSI_OK; i++) {
        if ((place == PYDDSI_PLACE_COUNT || drop.place == place) &&
            (reason == PYDDSI_REASON_COUNT || drop.reason == reason)) {
            lost += drop.count;
        }
    }
    return lost;
}

static inline void live_print_ledger(pyddsi_session *session, const char *name)
{
    pyddsi_drop drop;
    for (uint32_t i = 0; pyddsi_session_drop(session, i, &drop) == PYDDSI_OK; i++) {
        printf("  %s: %s %s resource %" PRIu64 ": %" PRIu64 "\n", name,
               pyddsi_place_name(drop.place), pyddsi_reason_name(drop.reason), drop.resource,
               drop.count);
    }
}

/* The books of a session: owed = acknowledged + forgiven + in flight. */
static inline bool live_settled(void *context)
{
    pyddsi_stats stats;
    NEED(pyddsi_session_stats(context, &stats) == PYDDSI_OK);
    return stats.owed == stats.acknowledged + stats.forgiven;
}

/* ---- samples ---- */

static inline void live_fill(uint8_t *data, size_t size, uint32_t stream, uint64_t number)
{
    memcpy(data, &stream, 4);
    memset(data + 4, 0x5a, 4);
    memcpy(data + 8, &number, 8);
    memset(data + LIVE_HEAD, (int)(number * 31 + stream) & 0xff, size - LIVE_HEAD);
}

/* ---- writers ---- */

/* Until this thread, which has written its number there, sleeps. */
static inline void live_until_waits(const atomic_int *number)
{
    uint64_t end = live_now() + LIVE_PATIENCE;
    char state = 0;
    while (state != 'S' && live_now() < end) {
        char name[64];
        (void)snprintf(name, sizeof name, "/proc/self/task/%d/stat", atomic_load(number));
        FILE *file = fopen(name, "r");
        if (file == NULL || fscanf(file, "%*d %*s %c", &state) != 1) {
            state = 0;
        }
        if (file != NULL) {
            (void)fclose(file);
        }
    }
    CHECK_EQ(state, 'S');
}

struct live_writer {
    pthread_t thread;
    atomic_int number; /* of the thread, as the system knows it */
    pyddsi_session *session;
    uint32_t publisher, stream;
    uint64_t from, count;
    size_t size;       /* of most samples */
    size_t large;      /* of some */
    uint64_t every;    /* which: each so many-th */
    int how;           /* 0 put, 1 put_many, 2 loan, 3 all of them */
    bool patient;      /* a reliable one waits for room */
    uint64_t accepted; /* how many the session took */
    int status;        /* of what it did not take */
    atomic_bool done;
};

static inline size_t live_size(const struct live_writer *writer, uint64_t number)
{
    return writer->every != 0 && number % writer->every == writer->every - 1 ? writer->large
                                                                             : writer->size;
}

static inline int live_put_many(struct live_writer *writer, uint64_t number, uint64_t *taken)
{
    uint8_t data[16][64];
    pyddsi_bytes samples[16];
    size_t done;
    uint64_t left = writer->from + writer->count - number;
    size_t count = left < 16 ? (size_t)left : 16;
    for (size_t i = 0; i < count; i++) {
        size_t size = LIVE_HEAD + (number + i) % 48;
        live_fill(data[i], size, writer->stream, number + i);
        samples[i] = (pyddsi_bytes){data[i], size};
    }
    int status = pyddsi_session_put_many(writer->session, writer->publisher, samples, count, &done,
                                         LIVE_PATIENCE);
    *taken = done;
    return status;
}

static inline int live_put_loan(struct live_writer *writer, uint64_t number, size_t size)
{
    uint8_t *data;
    uint32_t loan;
    uint64_t end = live_now() + LIVE_PATIENCE;
    int status = pyddsi_session_loan(writer->session, writer->publisher, size + 8, &data, &loan,
                                     LIVE_PATIENCE);
    if (status != PYDDSI_OK) {
        return status;
    }
    live_fill(data, size, writer->stream, number);
    do {
        uint32_t heard = pyddsi_session_listen(writer->session);
        status = pyddsi_session_commit(writer->session, loan, size);
        if (status == PYDDSI_AGAIN) {
            (void)pyddsi_session_wait(writer->session, heard, 5000000);
        } else {
            pyddsi_session_unlisten(writer->session);
        }
    } while (status == PYDDSI_AGAIN && live_now() < end);
    return status;
}

static inline void *live_write(void *context)
{
    struct live_writer *writer = context;
    uint8_t *data = malloc(writer->size + writer->large + LIVE_HEAD);
    atomic_store(&writer->number, (int)syscall(SYS_gettid));
    uint64_t number = writer->from;
    uint64_t end = writer->from + writer->count;
    NEED(data != NULL);
    while (number < end) {
        uint64_t taken = 1;
        size_t size = live_size(writer, number);
        int how = writer->how != 3 ? writer->how : (int)(number / 7 % 3);
        int status;
        if (how == 1) {
            status = live_put_many(writer, number, &taken);
        } else if (how == 2 && size < 60000) {
            status = live_put_loan(writer, number, size);
        } else {
            live_fill(data, size, writer->stream, number);
            status = pyddsi_session_put(writer->session, writer->publisher, data, size,
                                        writer->patient ? LIVE_PATIENCE : 0);
        }
        if (status == PYDDSI_AGAIN && !writer->patient) {
            (void)sched_yield();
            continue;
        }
        if (status != PYDDSI_OK) {
            writer->status = status;
            break;
        }
        number += taken;
        writer->accepted += taken;
    }
    free(data);
    atomic_store(&writer->done, true);
    return NULL;
}

static inline void live_write_begin(struct live_writer *writer)
{
    NEED(pthread_create(&writer->thread, NULL, live_write, writer) == 0);
}

static inline void live_write_end(struct live_writer *writer)
{
    NEED(pthread_join(writer->thread, NULL) == 0);
}

/* ---- readers ---- */

struct live_reader {
    pthread_t thread;
    pyddsi_session *session;
    uint32_t subscriber;
    uint64_t expected[LIVE_STREAMS]; /* the number that each stream goes on with, */
    uint64_t got[LIVE_STREAMS];      /* and how many have come */
    uint64_t first[LIVE_STREAMS];
    uint64_t skipped; /* numbers that never came: only with gaps, */
    uint64_t jumps;   /* and how often some did not */
    uint64_t total;
    bool gaps;             /* some may be missing */
    bool shares;           /* another thread takes, too */
    bool forgets;          /* the subscriber, when it ends: else others would wait for its ring */
    size_t batch;          /* how many are taken at once */
    unsigned held;         /* this many taken samples are kept unreleased */
    _Atomic uint64_t seen; /* total, for others to look at */
    atomic_bool stop;      /* ends when there is nothing more */
    uint64_t until;        /* ends after so many samples; 0: never */
    uint64_t wrong;
    int status;
    pyddsi_received kept[256];
    unsigned kept_count;
};

static inline void live_check(struct live_reader *reader, const pyddsi_received *sample)
{
    uint32_t stream = 0;
    uint64_t number = 0;
    NEED(sample->size >= LIVE_HEAD);
    memcpy(&stream, sample->data, 4);
    memcpy(&number, sample->data + 8, 8);
    NEED(stream < LIVE_STREAMS);
    uint8_t rest = (uint8_t)(number * 31 + stream);
    bool intact = sample->size == LIVE_HEAD ||
                  (sample->data[LIVE_HEAD] == rest && sample->data[sample->size - 1] == rest);
    if (reader->got[stream]++ == 0) {
        reader->first[stream] = reader->expected[stream] = number;
    }
    bool right = number == reader->expected[stream] ||
                 ((reader->gaps || reader->shares) && number > reader->expected[stream]);
    if (!intact || !right) {
        if (reader->wrong++ < 3) {
            printf("stream %u: %" PRIu64 " came where %" PRIu64 " was expected%s (of conduit %u, "
                   "number %" PRIu64 ")\n",
                   stream, number, reader->expected[stream],
                   intact ? "" : ", and its bytes are wrong", sample->conduit, sample->number);
        }
    } else {
        reader->skipped += number - reader->expected[stream];
        reader->jumps += number != reader->expected[stream];
    }
    reader->expected[stream] = number + 1;
    reader->total++;
}

static inline void live_keep(struct live_reader *reader, pyddsi_received *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (reader->held == 0) {
            pyddsi_session_release(reader->session, &samples[i], 1);
            continue;
        }
        if (reader->kept_count == reader->held) {
            pyddsi_session_release(reader->session, &reader->kept[0], 1);
            memmove(reader->kept, reader->kept + 1, (reader->held - 1) * sizeof reader->kept[0]);
            reader->kept_count--;
        }
        reader->kept[reader->kept_count++] = samples[i];
    }
}

struct live_one {
    pyddsi_session *session;
    uint32_t subscriber;
    pyddsi_received *sample;
};

static inline bool live_is_taken(void *context)
{
    const struct live_one *one = context;
    size_t count;
    return pyddsi_session_take(one->session, one->subscriber, one->sample, 1, &count) == PYDDSI_OK;
}

/* Waits for one sample. */
static inline bool live_take_one(pyddsi_session *session, uint32_t subscriber,
                                 pyddsi_received *sample)
{
    struct live_one one = {session, subscriber, sample};
    return live_until(session, live_is_taken, &one);
}

static inline int live_take(struct live_reader *reader)
{
    pyddsi_received samples[LIVE_BATCH];
    size_t count;
    size_t batch = reader->batch != 0 ? reader->batch : LIVE_BATCH;
    int status = pyddsi_session_take(reader->session, reader->subscriber, samples, batch, &count);
    for (size_t i = 0; i < count; i++) {
        live_check(reader, &samples[i]);
    }
    atomic_store(&reader->seen, reader->total);
    if (reader->held != 0 || (reader->total & 1) != 0) {
        live_keep(reader, samples, count);
    } else if (count != 0) {
        pyddsi_session_release(reader->session, samples, count);
    }
    return status;
}

static inline void *live_read(void *context)
{
    struct live_reader *reader = context;
    uint64_t patience = live_now() + LIVE_PATIENCE;
    while (reader->until == 0 || reader->total < reader->until) {
        uint32_t heard = pyddsi_session_listen(reader->session);
        bool stop = atomic_load(&reader->stop);
        uint64_t before = reader->total;
        reader->status = live_take(reader);
        if (reader->total != before) {
            patience = live_now() + LIVE_PATIENCE;
        }
        if (reader->status != PYDDSI_AGAIN || stop) {
            pyddsi_session_unlisten(reader->session);
            if (reader->status != PYDDSI_OK) {
                break;
            }
            continue;
        }
        /* woken by the bell; only whether to stop is looked at now and then */
        (void)pyddsi_session_wait(reader->session, heard, 20000000);
        if (live_now() > patience && reader->until != 0) {
            printf("a reader has waited too long, with %" PRIu64 " of %" PRIu64 " samples\n",
                   reader->total, reader->until);
            reader->wrong++;
            break;
        }
    }
    if (reader->forgets) {
        NEED(pyddsi_session_forget(reader->session, reader->subscriber) == PYDDSI_OK);
    }
    return NULL;
}

static inline void live_read_begin(struct live_reader *reader)
{
    NEED(pthread_create(&reader->thread, NULL, live_read, reader) == 0);
}

static inline void live_read_join(struct live_reader *reader)
{
    NEED(pthread_join(reader->thread, NULL) == 0);
}

static inline void live_let_go(struct live_reader *reader)
{
    if (reader->kept_count != 0) {
        pyddsi_session_release(reader->session, reader->kept, reader->kept_count);
        reader->kept_count = 0;
    }
}

/* Ends a reader that goes on until it is told to: everything that is there is taken first. */
static inline void live_read_end(struct live_reader *reader)
{
    atomic_store(&reader->stop, true);
    live_read_join(reader);
    live_let_go(reader);
}

#endif
