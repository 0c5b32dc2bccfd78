/* Declarations of several threads at once, while samples go both ways. */
#include "live.h"

enum { THREADS = 4, EACH = 12, KNOWN_MAX = 1024 };

struct declarer {
    pyddsi_session *session;
    uint64_t first;             /* number of a resource */
    uint32_t subscribers[EACH]; /* handles */
    pthread_t thread;
};

static void *declare(void *context)
{
    struct declarer *own = context;
    for (uint32_t i = 0; i < EACH; i++) {
        own->subscribers[i] = live_subscriber(own->session, own->first + i, 4, PYDDSI_WAIT);
        uint32_t passing = live_publisher(own->session, own->first + i, true);
        NEED(pyddsi_session_forget(own->session, passing) == PYDDSI_OK);
    }
    return NULL;
}

struct hearing {
    pyddsi_session *session;
    uint32_t seen[THREADS * EACH]; /* how often each subscription is known */
    size_t count;
};

/* Whether the peer knows as many subscriptions as were declared. */
static bool has_heard(void *context)
{
    struct hearing *own = context;
    static pyddsi_known known[KNOWN_MAX];
    static uint8_t names[KNOWN_MAX];
    size_t count = 0;
    memset(own->seen, 0, sizeof own->seen);
    own->count = 0;
    NEED(pyddsi_session_known(own->session, known, KNOWN_MAX, &count, names, sizeof names) ==
         PYDDSI_OK);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = known[i].id >> 1;
        if (known[i].kind == PYDDSI_SUBSCRIPTION && number >= 100) {
            own->seen[number - 100]++;
            own->count++;
        }
    }
    return own->count >= (size_t)THREADS * EACH;
}

/* 002-91: what several threads declare at once would reach a peer twice, torn, or not at all; or two of them would write one
 * word (which the thread sanitizer sees). */
static void test_declare_at_once(bool shared)
{
    live_next_group();
    pyddsi_session *a = live_session(shared);
    pyddsi_session *b = live_session(shared);
    uint32_t publisher = live_publisher(a, 7, true);
    struct live_writer writer = {.session = a,
                                 .publisher = publisher,
                                 .count = LIVE_MANY(4000),
                                 .size = 16,
                                 .patient = true};
    struct live_reader reader = {.session = b, .held = 1, .until = writer.count};
    reader.subscriber = live_subscriber(b, 7, 512, PYDDSI_WAIT);
    (void)live_match(a, publisher, 1);
    live_read_begin(&reader);
    live_write_begin(&writer);
    static struct declarer declarers[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        declarers[i] = (struct declarer){.session = a, .first = 100 + (uint64_t)i * EACH};
        NEED(pthread_create(&declarers[i].thread, NULL, declare, &declarers[i]) == 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        NEED(pthread_join(declarers[i].thread, NULL) == 0);
    }
    live_write_end(&writer);
    live_read_join(&reader);
    CHECK_EQ(reader.wrong, 0);
    CHECK_EQ(reader.total, writer.count);
    live_let_go(&reader);
    static struct hearing hearing;
    hearing.session = b;
    CHECK(live_until(b, has_heard, &hearing));
    CHECK_EQ(hearing.count, (size_t)THREADS * EACH);
    for (uint32_t i = 0; i < THREADS * EACH; i++) {
        CHECK_EQ(hearing.seen[i], 1U);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        for (uint32_t j = 0; j < EACH; j++) {
            CHECK_EQ(pyddsi_session_forget(a, declarers[i].subscribers[j]), PYDDSI_OK);
        }
    }
    pyddsi_session_free(a);
    pyddsi_session_free(b);
}

int main(void)
{
    test_declare_at_once(false);
    test_declare_at_once(true);
    return test_result();
}
