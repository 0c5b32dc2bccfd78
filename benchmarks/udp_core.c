/* udp_core.c - reliable samples over UDP between processes of one machine, as udp.py compiles and runs it.
 *
 *     udp rate SIZE HOW MILLISECONDS LOSS WINDOW [one]     HOW samples a call; LOSS of a thousand datagrams; one: a
 *                                                          single thread of each session sends
 *     udp setup ROUNDS                                     how long a new session needs to know another
 *
 * The parent publishes, and its child subscribes and keeps the time, because a rate is what arrives.
 * What is lost is lost by the child's port, each datagram by itself, and by the parent's, on the way back. Every sample is
 * counted and has a number, and the program fails if one is missing or out of order.
 *
 * `rate` prints samples a second; the time of processors that each takes, in nanoseconds, of the parent and of the
 * subscriber; then datagrams, repetitions and calls of the system that send. `setup` prints the median and
 * the longest, in microseconds.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/session.h"

enum { GROUP_MAX = 512, TAKE_MAX = 256, HEAD = 8 };

#define PATIENCE UINT64_C(10000000000)

struct shared {
    _Atomic uint32_t publishing; /* whether more is put */
    _Atomic uint64_t accepted;
    uint64_t got, wrong, first_ns, last_ns, cpu_ns;
};

struct load {
    size_t size;
    size_t how;
    uint64_t wanted_ns;
    unsigned loss;
    uint32_t window;
    uint8_t one;
};

static struct shared *shared;

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static pyddsi_session *open_session(const struct load *load, uint16_t port)
{
    pyddsi_session_options options;
    pyddsi_session *session;
    char text[PYDDSI_TEXT_MAX];
    pyddsi_session_options_init(&options);
    options.group.port = port;
    options.shared = 0;
    options.one_stream = load->one;
    options.node.unicast_bytes = load->window;
    options.node.unicast_samples = load->window / 256;
    options.node.multicast_bytes[0] = load->window;
    options.node.ring_samples = 1 << 16;
    (void)snprintf(options.interface, sizeof options.interface, "lo");
    if (pyddsi_session_open(&session, &options, text) != PYDDSI_OK)
        fail(text);
    pdi_port_lose(session->port, load->loss);
    return session;
}

/* What this process has used of its processors. */
static uint64_t cpu_ns(void)
{
    struct timespec used;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000U + (uint64_t)used.tv_nsec;
}

/* A sample that is out of order is wrong. */
static void subscribe(const struct load *load, uint16_t port)
{
    pyddsi_session *session = open_session(load, port);
    pyddsi_subscriber_options options = {
        .resource = 7, .mode = PYDDSI_PUSH, .depth = 1 << 14, .on_full = PYDDSI_WAIT};
    pyddsi_received samples[TAKE_MAX];
    uint32_t subscriber;
    int answer;
    uint64_t got = 0, wrong = 0, first = 0, last = 0;
    if (pyddsi_session_subscriber(session, &options, &subscriber, &answer) != PYDDSI_OK)
        fail("no subscriber");
    while (atomic_load(&shared->publishing) != 0 || got < atomic_load(&shared->accepted)) {
        uint32_t heard = pyddsi_session_listen(session);
        size_t count;
        int status = pyddsi_session_take(session, subscriber, samples, TAKE_MAX, &count);
        if (status != PYDDSI_OK) {
            if (pyddsi_session_wait(session, heard, PATIENCE / 100) == PYDDSI_CLOSED)
                break;
            continue;
        }
        pyddsi_session_unlisten(session);
        for (size_t i = 0; i < count; i++) {
            uint64_t number;
            memcpy(&number, samples[i].data, sizeof number);
            wrong += number != got + i || samples[i].size != load->size;
        }
        pyddsi_session_release(session, samples, count);
        last = pdi_clock_now();
        first = first == 0 ? last : first;
        got += count;
    }
    shared->cpu_ns = cpu_ns();
    shared->got = got;
    shared->wrong = wrong;
    shared->first_ns = first;
    shared->last_ns = last;
    pyddsi_session_close(session, PATIENCE);
    pyddsi_session_free(session);
    _exit(0);
}

static bool matched(pyddsi_session *session)
{
    pyddsi_event event;
    while (pyddsi_session_event(session, &event) == PYDDSI_OK) {
        if (event.kind == PYDDSI_MATCHED)
            return true;
    }
    return false;
}

static uint64_t put_all(const struct load *load, pyddsi_session *session, uint32_t publisher)
{
    static uint8_t data[GROUP_MAX * 64];
    uint8_t *memory = load->how * load->size <= sizeof data ? data : calloc(load->how, load->size);
    pyddsi_bytes samples[GROUP_MAX];
    uint64_t number = 0, end = pdi_clock_now() + load->wanted_ns;
    size_t taken;
    for (size_t i = 0; i < load->how; i++)
        samples[i] = (pyddsi_bytes){memory + i * load->size, load->size};
    while (pdi_clock_now() < end) {
        for (size_t i = 0; i < load->how; i++) {
            uint64_t one = number + i;
            memcpy(memory + i * load->size, &one, sizeof one);
        }
        int status =
            load->how == 1
                ? pyddsi_session_put(session, publisher, memory, load->size, PATIENCE)
                : pyddsi_session_put_many(session, publisher, samples, load->how, &taken, PATIENCE);
        if (status != PYDDSI_OK)
            fail("a put did not find room in time");
        number += load->how;
    }
    return number;
}

/* What the publisher has sent, and its time of processors. */
struct sent {
    uint64_t accepted, cpu_ns;
    struct pdi_port_calls calls;
    pyddsi_stats stats;
};

static void publish(const struct load *load, uint16_t port, struct sent *sent)
{
    pyddsi_session *session = open_session(load, port);
    pyddsi_publisher_options options = {
        .resource = 7, .reliability = PYDDSI_RELIABLE, .way = PYDDSI_WAY_AUTO};
    uint32_t publisher;
    int answer;
    if (pyddsi_session_publisher(session, &options, &publisher, &answer) != PYDDSI_OK)
        fail("no publisher");
    for (uint64_t until = pdi_clock_now() + PATIENCE; !matched(session);) {
        if (pdi_clock_now() > until)
            fail("no match");
        (void)pyddsi_session_wait(session, pyddsi_session_listen(session), 1000000);
    }
    sent->accepted = put_all(load, session, publisher);
    sent->cpu_ns = cpu_ns();
    pdi_port_calls(session->port, &sent->calls);
    atomic_fetch_add(&shared->accepted, sent->accepted);
    atomic_fetch_sub(&shared->publishing, 1);
    pyddsi_session_close(session, PATIENCE);
    pyddsi_session_stats(session, &sent->stats);
    pyddsi_session_free(session);
}

/* Lets everything happen; answers samples a second, and what this process has sent. */
static double play(const struct load *load, struct sent *sent)
{
    uint16_t port = (uint16_t)(20000 + getpid() % 20000);
    atomic_store(&shared->publishing, 1);
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        subscribe(load, port);
    }
    publish(load, port, sent);
    (void)wait(NULL);
    if (atomic_load(&shared->accepted) != shared->got || shared->wrong != 0)
        fail("samples are missing or out of order");
    uint64_t took = shared->last_ns - shared->first_ns;
    return took != 0 ? (double)shared->got * 1e9 / (double)took : 0.0;
}

static void rate(const struct load *load)
{
    struct sent sent;
    double rate = play(load, &sent);
    printf("%.6g %.6g %.6g %llu %llu %llu\n", rate, (double)sent.cpu_ns / (double)sent.accepted,
           (double)shared->cpu_ns / (double)sent.accepted,
           (unsigned long long)sent.stats.packets_out, (unsigned long long)sent.stats.resent,
           (unsigned long long)sent.calls.sends);
}

/* ---- how long a session takes to begin ---- */

static bool established(pyddsi_session *session)
{
    pyddsi_event event;
    while (pyddsi_session_event(session, &event) == PYDDSI_OK) {
        if (event.kind == PYDDSI_CONNECTED)
            return true;
    }
    return false;
}

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return difference < 0 ? -1 : difference > 0;
}

/* From the moment that the second session is open until both know each other. */
static double set_up(const struct load *load, uint16_t port)
{
    pyddsi_session *one = open_session(load, port);
    pyddsi_session *two = open_session(load, port);
    uint64_t begun = pdi_clock_now();
    pyddsi_session *both[2] = {one, two};
    for (int i = 0; i < 2; i++) {
        for (;;) { /* ends with the patience */
            uint32_t heard = pyddsi_session_listen(both[i]);
            if (established(both[i])) {
                pyddsi_session_unlisten(both[i]);
                break;
            }
            if (pdi_clock_now() - begun > PATIENCE)
                fail("the sessions do not find each other");
            (void)pyddsi_session_wait(both[i], heard, PATIENCE);
        }
    }
    double took = (double)(pdi_clock_now() - begun) / 1000;
    pyddsi_session_free(two);
    pyddsi_session_free(one);
    return took;
}

static void setup(int rounds)
{
    enum { ROUNDS_MAX = 1000 };
    static double took[ROUNDS_MAX];
    struct load load = {.window = 65536};
    rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    for (int i = 0; i < rounds; i++)
        took[i] = set_up(&load, (uint16_t)(20000 + (getpid() + i) % 20000));
    qsort(took, (size_t)rounds, sizeof took[0], compare);
    printf("%.6g %.6g\n", took[rounds / 2], took[rounds - 1]);
}

static void check(const struct load *load)
{
    if (load->size < HEAD || load->how < 1 || load->how > GROUP_MAX)
        fail("SIZE from 8, HOW from 1 to 512");
}

int main(int argc, char **argv)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        fail("no memory");
    if ((argc == 7 || argc == 8) && strcmp(argv[1], "rate") == 0) {
        struct load load = {.size = (size_t)atol(argv[2]),
                            .how = (size_t)atol(argv[3]),
                            .wanted_ns = (uint64_t)atol(argv[4]) * 1000000,
                            .loss = (unsigned)atol(argv[5]),
                            .window = (uint32_t)atol(argv[6]),
                            .one = argc == 8};
        check(&load);
        rate(&load);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "setup") == 0) {
        setup((int)atol(argv[2]));
        return 0;
    }
    fprintf(stderr, "usage: see udp.py\n");
    return 2;
}
