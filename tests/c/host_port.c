/* host/port.h: real sockets on this machine's loopback, and in network namespaces of the test's own.
 *
 * Packets between two sockets of this machine are usually delivered before sendto returns, but a
 * busy kernel may put it off. So what must come is waited for; what depends on several packets
 * being there at once is tried some times and must be seen once; and all runs on one processor,
 * where the kernel keeps the packets in order. It is long because every way to open a port has a
 * failure of its own.
 */
#define _GNU_SOURCE
#include "host/port_state.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/rand.h"
#include "base/time.h"
#include "netns.h"
#include "test.h"

/* Longer than anything here can take: who has waited for so long has failed. */
#define LONG       (60 * PDI_TIME_S)
#define GROUP      {.ip = {239, 255, 77, 1}, .port = 29977, .kind = 4}
#define SKIPS      64
#define TRIES      10
#define FLOOD      200
#define SEEDS      200
#define STEPS      200
#define PORTS      4
#define GROUPS     5
#define QUEUE      64
#define FILES      40
#define THREADS    4
#define PER_THREAD 500

/* Linux 4.20 knows it; the C library's headers may be older. */
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

static char said[400];

static struct pdi_port_options usual(void)
{
    return (struct pdi_port_options){
        .interface = "lo", .family = 4, .ttl = 1, .loopback = 1, .groups = 1, .group = {GROUP}};
}

static struct pdi_port *open_port(const struct pdi_port_options *options, pyddsi_endpoint *local)
{
    struct pdi_port *port = NULL;
    said[0] = 0;
    int status = pdi_port_open(&port, options, local, said, sizeof said);
    CHECK_EQ(status, PYDDSI_OK);
    CHECK_TEXT(said, "");
    if (port == NULL) { /* nothing that follows would make sense */
        exit(test_result());
    }
    return port;
}

/* The number that the next descriptor will have: it tells whether one was left open. */
static int next_file(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

/* Opens what cannot be opened; the text must hold `word`, and nothing may be left open. */
static void refuse(const struct pdi_port_options *options, int code, const char *word)
{
    int before = next_file();
    pyddsi_endpoint local;
    struct pdi_port *port = (struct pdi_port *)&local;
    said[0] = 0;
    CHECK_EQ(pdi_port_open(&port, options, &local, said, sizeof said), -code);
    CHECK(port == NULL);
    CHECK_EQ(next_file(), before);
    if (strstr(said, word) == NULL) {
        CHECK_TEXT(said, word);
    }
}

static bool same(const pyddsi_endpoint *a, const pyddsi_endpoint *b)
{
    return pdi_port_address_same(a, b) && a->port == b->port;
}

static void send_number(struct pdi_port *port, const pyddsi_endpoint *to, uint32_t number)
{
    CHECK_EQ(pdi_port_send(port, to, (const uint8_t *)&number, sizeof number), PYDDSI_OK);
}

/* Receives the next packet, which must be there or be on its way, and answers its number. Nothing
 * that can be waited for may lie before it but packets of the port's own. */
static uint32_t receive_number(struct pdi_port *port, pyddsi_endpoint *from)
{
    uint32_t number = UINT32_MAX;
    size_t size = 0;
    int status = PYDDSI_AGAIN;
    for (int tries = 0; tries < TRIES && status == PYDDSI_AGAIN; tries++) {
        CHECK_EQ(pdi_port_wait(port, LONG), PYDDSI_OK);
        status = pdi_port_receive(port, (uint8_t *)&number, sizeof number, &size, from);
    }
    CHECK_EQ(status, PYDDSI_OK);
    CHECK_EQ(size, sizeof number);
    return number;
}

/* Nothing can be received; there may only be packets of the port's own, on their way still. */
static void receive_nothing(struct pdi_port *port)
{
    uint8_t byte;
    size_t size;
    pyddsi_endpoint from;
    int status = PYDDSI_OK;
    for (int tries = 0; tries < TRIES && status == PYDDSI_OK; tries++) {
        CHECK_EQ(pdi_port_receive(port, &byte, 1, &size, &from), PYDDSI_AGAIN);
        status = pdi_port_wait(port, 0);
    }
    CHECK_EQ(status, PYDDSI_AGAIN);
}

/* Two ports that use `group` talk: by the group, and back to where that came from. */
static void talk(const struct pdi_port_options *options, const char *address)
{
    pyddsi_endpoint local[2];
    pyddsi_endpoint from;
    char text[PDI_PORT_ADDRESS_ROOM];
    int before = next_file();
    struct pdi_port *a = open_port(options, &local[0]);
    struct pdi_port *b = open_port(options, &local[1]);
    CHECK_TEXT(pdi_port_address_print(&local[0], text), address);
    CHECK(local[0].port != 0 && local[0].port != local[1].port);
    CHECK_EQ(local[0].kind, options->family);
    send_number(a, &options->group[0], 1);
    send_number(b, &options->group[0], 2);
    CHECK_EQ(receive_number(b, &from), 1);
    CHECK(same(&from, &local[0]));
    send_number(b, &from, 3);
    uint32_t first = receive_number(a, &from);
    CHECK(first == 2 || first == 3); /* they come by two sockets */
    CHECK(same(&from, &local[1]));
    CHECK_EQ(receive_number(a, &from), 5 - first);
    CHECK(same(&from, &local[1]));
    receive_nothing(a);
    receive_nothing(b);
    pdi_port_close(a);
    pdi_port_close(b);
    CHECK_EQ(next_file(), before);
}

/* If it failed, two sessions of one process would not find each other, or answer to the wrong
 * place, or a session would take its own packets for a stranger's. */
static void test_talk(void)
{
    struct pdi_port_options options = usual();
    talk(&options, "127.0.0.1");
    options.interface = "127.0.0.1";
    talk(&options, "127.0.0.1");
}

/* If it failed, a session without groups could not be opened, or would not tell an address where
 * it can be reached. */
static void test_unicast_only(void)
{
    const char *const interfaces[] = {"lo", "", NULL};
    for (int i = 0; i < 3; i++) {
        struct pdi_port_options options = usual();
        pyddsi_endpoint local[2];
        pyddsi_endpoint from;
        options.groups = 0;
        options.interface = interfaces[i];
        struct pdi_port *a = open_port(&options, &local[0]);
        struct pdi_port *b = open_port(&options, &local[1]);
        CHECK(local[0].ip[0] != 0);
        send_number(a, &local[1], 5);
        CHECK_EQ(receive_number(b, &from), 5);
        CHECK(same(&from, &local[0]));
        pdi_port_close(a);
        pdi_port_close(b);
    }
}

/* If it failed, a group that is listed twice would be heard twice, or another group at the same
 * port, or the same group at another port, would be heard as well. */
static void test_groups(void)
{
    struct pdi_port_options options = usual();
    pyddsi_endpoint local;
    pyddsi_endpoint from;
    options.groups = 4;
    options.group[1] = options.group[0];
    options.group[2] = options.group[0];
    options.group[2].port++;
    options.group[3] = options.group[0];
    options.group[3].ip[3]++;
    struct pdi_port *all = open_port(&options, &local);
    CHECK_EQ(all->count, 4); /* three groups and the unicast socket */
    options.groups = 1;
    struct pdi_port *one = open_port(&options, &local);
    for (uint32_t i = 0; i < 4; i++) {
        send_number(one, &options.group[i], i);
    }
    uint32_t heard = 0;
    for (uint32_t i = 0; i < 4; i++) {
        heard |= UINT32_C(1) << receive_number(all, &from);
        CHECK(same(&from, &local));
    }
    CHECK_EQ(heard, 15);
    receive_nothing(all);
    for (uint32_t i = 0; i < 4; i++) {
        send_number(all, &options.group[i], i);
    }
    CHECK_EQ(receive_number(one, &from), 0);
    CHECK_EQ(receive_number(one, &from), 1);
    receive_nothing(one);
    pdi_port_close(all);
    pdi_port_close(one);
}

/* Starts a child that runs a function and ends with whether its checks held. */
static pid_t start_child(void (*run)(void *), void *context)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        test_failures = 0;
        run(context);
        fflush(stdout);
        _exit(test_failures != 0);
    }
    return child;
}

static void await_child(pid_t child)
{
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

struct pair {
    struct pdi_port *port;
    pyddsi_endpoint local;
};

static void other_process(void *context)
{
    struct pair *parent = context;
    struct pdi_port_options options = usual();
    pyddsi_endpoint local;
    pyddsi_endpoint from;
    pdi_port_close(parent->port);
    struct pdi_port *port = open_port(&options, &local);
    send_number(port, &options.group[0], 7);
    CHECK_EQ(receive_number(port, &from), 8);
    CHECK(same(&from, &parent->local));
    send_number(port, &options.group[0], 9);
    pdi_port_close(port);
}

/* If it failed, sessions of two processes would not hear one group, or a forked child that closes
 * its parent's session would close it for the parent. */
static void test_processes(void)
{
    struct pdi_port_options options = usual();
    struct pair pair;
    pyddsi_endpoint from;
    pair.port = open_port(&options, &pair.local);
    pid_t child = start_child(other_process, &pair);
    CHECK_EQ(receive_number(pair.port, &from), 7);
    send_number(pair.port, &options.group[0], 8);
    CHECK_EQ(receive_number(pair.port, &from), 9);
    await_child(child);
    pdi_port_close(pair.port);
}

static void *ring(void *port)
{
    pdi_port_wake(port);
    return NULL;
}

/* If it failed, a thread that waits for packets could not be told to stop, or would never sleep
 * again after it was told something. */
static void test_wake(void)
{
    struct pdi_port_options options = usual();
    pyddsi_endpoint local;
    pyddsi_endpoint from;
    pthread_t thread;
    uint8_t byte;
    size_t size;
    struct pdi_port *port = open_port(&options, &local);
    CHECK_EQ(pdi_port_wait(port, 0), PYDDSI_AGAIN);
    pdi_port_wake(port); /* before the wait: it counts, and twice is once */
    pdi_port_wake(port);
    CHECK_EQ(pdi_port_receive(port, &byte, 1, &size, &from), PYDDSI_AGAIN); /* uses it not up */
    CHECK_EQ(pdi_port_wait(port, UINT64_MAX), PYDDSI_OK);
    CHECK_EQ(pdi_port_wait(port, 0), PYDDSI_AGAIN);
    CHECK_EQ(pthread_create(&thread, NULL, ring, port), 0);
    CHECK_EQ(pdi_port_wait(port, UINT64_MAX), PYDDSI_OK);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    receive_nothing(port);
    pdi_port_wake(port); /* with a packet: told once, by either */
    send_number(port, &local, 1);
    CHECK_EQ(pdi_port_wait(port, LONG), PYDDSI_OK);
    CHECK_EQ(receive_number(port, &from), 1);
    receive_nothing(port);
    pdi_port_close(port);
}

static uint64_t monotonic(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * PDI_TIME_S + (uint64_t)now.tv_nsec;
}

/* If it failed, the end of a process would be told before what it had sent, which is then nobody's. */
static void test_watched_comes_last(void)
{
    struct pdi_port_options options = usual();
    pyddsi_endpoint local;
    pyddsi_endpoint from;
    struct pdi_port *port = open_port(&options, &local);
    const uint64_t one = 1;
    uint64_t many;
    int bell = eventfd(0, EFD_CLOEXEC);
    bool seen = false;
    size_t size;
    CHECK_EQ(pdi_port_watch(port, bell), PYDDSI_OK);
    for (int i = 0; i < TRIES && !seen; i++) { /* it does not wait for ever, and we may be slow */
        uint64_t begun = monotonic();
        CHECK(!pdi_port_watched(port));
        send_number(port, &local, 7);
        CHECK_EQ(write(bell, &one, sizeof one), sizeof one);
        CHECK_EQ(pdi_port_wait(port, LONG), PYDDSI_OK);
        bool early = port->ready == 0 || pdi_port_watched(port);
        seen = !early;
        CHECK(seen || port->ready == 0 || monotonic() - begun >= 20 * PDI_TIME_MS);
        CHECK_EQ(receive_number(port, &from), 7);
        CHECK_EQ(pdi_port_wait(port, LONG), PYDDSI_OK);
        CHECK_EQ(pdi_port_receive(port, NULL, 0, &size, &from), PYDDSI_AGAIN);
        CHECK(pdi_port_watched(port)); /* if not before, and else again: it is still readable */
        CHECK(!pdi_port_watched(port));
        CHECK_EQ(read(bell, &many, sizeof many), sizeof many);
        while (pdi_port_wait(port, 0) == PYDDSI_OK) { /* once more at most */
            (void)pdi_port_watched(port);
        }
    }
    CHECK(seen);
    pdi_port_close(port);
    (void)close(bell);
}

/* If it failed, a deadline would be met too early, over and over, which burns a core; on old
 * systems, where only milliseconds can be waited for, too. */
static void test_timeout(void)
{
    static const uint64_t timeouts[] = {1, 1000, 999999, 1000000, 1000001, 2500000};
    struct pdi_port_options options = usual();
    pyddsi_endpoint local;
    struct pdi_port *port = open_port(&options, &local);
    for (int coarse = 0; coarse < 2; coarse++) {
        for (size_t i = 0; i < sizeof timeouts / sizeof timeouts[0]; i++) {
            uint64_t start = monotonic();
            CHECK_EQ(pdi_port_wait(port, timeouts[i]), PYDDSI_AGAIN);
            CHECK(monotonic() - start >= timeouts[i]);
        }
        pdi_port_wake(port); /* longer than either way of waiting can say */
        CHECK_EQ(pdi_port_wait(port, UINT64_MAX - 1), PYDDSI_OK);
        port->coarse = true;
    }
    pdi_port_close(port);
}

static void on_alarm(int number)
{
    (void)number;
}

/* If it failed, a signal would end the receive thread. */
static void test_interrupted(void)
{
    struct pdi_port_options options = usual();
    pyddsi_endpoint local;
    struct sigaction act = {.sa_handler = on_alarm};
    struct itimerval often = {{0, 1000}, {0, 1000}};
    const struct itimerval never = {{0, 0}, {0, 0}};
    struct pdi_port *port = open_port(&options, &local);
    CHECK_EQ(sigaction(SIGALRM, &act, NULL), 0);
    CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
    CHECK_EQ(pdi_port_wait(port, UINT64_MAX), PYDDSI_OK);
    CHECK_EQ(pdi_port_wait(port, LONG), PYDDSI_OK);
    port->coarse = true;
    CHECK_EQ(pdi_port_wait(port, (UINT64_C(1) << 32) * PDI_TIME_MS), PYDDSI_OK); /* not an int */
    CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
    pdi_port_close(port);
}

/* If it failed, a packet that is longer than the memory for it would be taken for a whole one, and
 * an empty one for none. */
static void test_sizes(void)
{
    struct pdi_port_options options = usual();
    pyddsi_endpoint local;
    pyddsi_endpoint from;
    uint8_t data[100];
    size_t size = 99;
    struct pdi_port *port = open_port(&options, &local);
    memset(data, 7, sizeof data);
    CHECK_EQ(pdi_port_send(port, &local, data, 100), PYDDSI_OK);
    CHECK_EQ(pdi_port_send(port, &local, data, 0), PYDDSI_OK);
    memset(data, 0, sizeof data);
    CHECK_EQ(pdi_port_wait(port, LONG), PYDDSI_OK);
    CHECK_EQ(pdi_port_receive(port, data, 10, &size, &from), PYDDSI_OK);
    CHECK_EQ(size, 100);
    CHECK_EQ(data[9], 7);
    CHECK_EQ(data[10], 0);
    CHECK_EQ(pdi_port_wait(port, LONG), PYDDSI_OK);
    CHECK_EQ(pdi_port_receive(port, data, 10, &size, &from), PYDDSI_OK);
    CHECK_EQ(size, 0);
    receive_nothing(port);
    pdi_port_close(port);
}

/* If it failed, one bad destination would end the session, or be lost without being counted. */
static void test_send_refused(void)
{
    static uint8_t data[70000];
    struct pdi_port_options options = usual();
    pyddsi_endpoint local;
    pyddsi_endpoint from;
    pyddsi_endpoint other;
    pyddsi_endpoint six = {.kind = 6, .port = 9, .ip = {[15] = 1}};
    struct pdi_port *port = open_port(&options, &local);
    CHECK_EQ(pdi_port_send(port, &local, data, sizeof data), -EMSGSIZE);
    CHECK_EQ(pdi_port_send(port, &six, data, 1), -EAFNOSUPPORT);
    CHECK(pdi_port_send(port, &(pyddsi_endpoint){.kind = 4, .ip = {127, 0, 0, 1}}, data, 1) < 0);
    CHECK_EQ(pdi_port_send(port, &(pyddsi_endpoint){0}, data, 1), -EAFNOSUPPORT);
    struct pdi_port *gone = open_port(&options, &other);
    pdi_port_close(gone);
    for (uint32_t i = 0; i < 10; i++) { /* each comes back as an error from the one before */
        send_number(port, &other, i);
    }
    send_number(port, &local, 42);
    CHECK_EQ(receive_number(port, &from), 42);
    receive_nothing(port);
    pdi_port_close(port);
}

/* If it failed, the receive thread would spin on a socket that is gone. */
static void test_gone(void)
{
    struct pdi_port_options options = usual();
    pyddsi_endpoint local;
    pyddsi_endpoint from;
    uint8_t byte;
    size_t size;
    struct pdi_port *port = open_port(&options, &local);
    send_number(port, &local, 1);
    CHECK_EQ(pdi_port_wait(port, LONG), PYDDSI_OK);
    int fd = port->sockets[0].fd;
    port->sockets[0].fd = -1;
    CHECK_EQ(pdi_port_receive(port, &byte, 1, &size, &from), PYDDSI_END);
    port->sockets[0].fd = fd;
    pdi_port_close(port);
}

/* Runs a trial that depends on packets being there at once, until it succeeds. */
static void succeed_once(bool (*trial)(struct pdi_port *, const pyddsi_endpoint *,
                                       struct pdi_port *))
{
    struct pdi_port_options options = usual();
    pyddsi_endpoint local;
    pyddsi_endpoint other;
    bool good = false;
    for (int tries = 0; tries < TRIES && !good; tries++) {
        struct pdi_port *a = open_port(&options, &local);
        struct pdi_port *b = open_port(&options, &other);
        good = trial(a, &local, b);
        pdi_port_close(a);
        pdi_port_close(b);
    }
    CHECK(good);
}

/* One packet of a group comes soon after a flood; ten come in turns with the flood. */
static bool try_flood(struct pdi_port *a, const pyddsi_endpoint *local, struct pdi_port *b)
{
    const struct pdi_port_options options = usual();
    pyddsi_endpoint from;
    for (uint32_t i = 0; i < FLOOD; i++) {
        send_number(b, local, i);
    }
    CHECK_EQ(receive_number(a, &from), 0); /* has looked: only one socket has anything */
    send_number(b, &options.group[0], FLOOD);
    uint32_t first = 0;
    while (receive_number(a, &from) != FLOOD && first < FLOOD) {
        first++;
    }
    for (uint32_t i = 0; i < 10; i++) {
        send_number(b, &options.group[0], FLOOD);
    }
    uint32_t second = 0;
    for (uint32_t groups = 0; groups < 10 && second < FLOOD; second++) {
        groups += receive_number(a, &from) == FLOOD;
    }
    return first <= 64 && second <= 64 + 20;
}

/* A group is heard although the unicast socket always has something. */
static bool try_flood_for_ever(struct pdi_port *a, const pyddsi_endpoint *local, struct pdi_port *b)
{
    const struct pdi_port_options options = usual();
    pyddsi_endpoint from;
    uint32_t number = 0;
    size_t size;
    send_number(b, local, 0);
    send_number(b, local, 0);
    CHECK_EQ(receive_number(a, &from), 0);
    send_number(b, &options.group[0], 1);
    uint32_t before = 0;
    int status = PYDDSI_OK;
    for (; number == 0 && before < FLOOD && status == PYDDSI_OK; before++) {
        send_number(b, local, 0);
        status = pdi_port_receive(a, (uint8_t *)&number, sizeof number, &size, &from);
    }
    return before <= 64 && status == PYDDSI_OK;
}

/* If it failed, a flood on one socket would keep others from being heard: a peer that nobody
 * answers any more, because somebody else talks so much. */
static void test_fair(void)
{
    succeed_once(try_flood);
    succeed_once(try_flood_for_ever);
}

/* One socket has one packet, the other eight: nine are received without a wait. */
static bool try_drain(struct pdi_port *a, const pyddsi_endpoint *local, struct pdi_port *b)
{
    const struct pdi_port_options options = usual();
    pyddsi_endpoint from;
    uint8_t byte;
    size_t size;
    bool good = true;
    for (uint32_t first = 0; first < 2; first++) {
        for (uint32_t i = 0; i < 9; i++) {
            send_number(b, (i == 0) == (first == 0) ? local : &options.group[0], i);
        }
        for (uint32_t i = 0; i < 9; i++) {
            good = pdi_port_receive(a, &byte, 1, &size, &from) == PYDDSI_OK && good;
        }
        good = pdi_port_receive(a, &byte, 1, &size, &from) == PYDDSI_AGAIN && good;
    }
    return good;
}

/* If it failed, "there is none" would be said while another socket has some. */
static void test_drain(void)
{
    succeed_once(try_drain);
}

/* Many of our own packets lie before a stranger's: it takes few calls, but more than one, so that
 * between them the caller could do something else. */
static bool try_own(struct pdi_port *a, const pyddsi_endpoint *local, struct pdi_port *b)
{
    const struct pdi_port_options options = usual();
    pyddsi_endpoint from;
    uint32_t number = 0;
    size_t size;
    uint32_t calls = 0;
    for (uint32_t i = 0; i < FLOOD; i++) {
        send_number(a, &options.group[0], i);
    }
    send_number(b, &options.group[0], FLOOD);
    while (number != FLOOD && calls <= FLOOD) {
        CHECK_EQ(pdi_port_wait(a, LONG), PYDDSI_OK);
        int status = pdi_port_receive(a, (uint8_t *)&number, sizeof number, &size, &from);
        CHECK(status == PYDDSI_AGAIN || number == FLOOD);
        calls++;
    }
    CHECK_EQ(number, FLOOD);
    CHECK(calls > 1);
    receive_nothing(a);
    send_number(a, local, 5); /* to ourselves, on purpose: that is no echo */
    CHECK_EQ(receive_number(a, &from), 5);
    return calls < 20;
}

/* As many of our own as are passed over at once: then the wait has nothing to tell of. */
static bool try_own_exactly(struct pdi_port *a, const pyddsi_endpoint *local, struct pdi_port *b)
{
    const struct pdi_port_options options = usual();
    pyddsi_endpoint from;
    uint8_t byte;
    size_t size;
    (void)local;
    (void)b;
    for (uint32_t i = 0; i < SKIPS; i++) {
        send_number(a, &options.group[0], i);
    }
    CHECK_EQ(pdi_port_receive(a, &byte, 1, &size, &from), PYDDSI_AGAIN);
    return pdi_port_wait(a, 0) == PYDDSI_AGAIN;
}

/* If it failed, a session that publishes much to a group would hear itself, or be busy for ever
 * with not hearing itself, or sleep while there is something to hear. */
static void test_own(void)
{
    succeed_once(try_own);
    succeed_once(try_own_exactly);
}

/* If it failed, the kernel would leave out too much or too little of what a group brings, or losses
 * would be told that are none. */
static void test_own_filter(void)
{
    struct pdi_port_options options = usual();
    struct pdi_port_buffers buffers;
    pyddsi_endpoint local;
    pyddsi_endpoint from;
    options.own_filter = 1;
    talk(&options, "127.0.0.1");
    struct pdi_port *port = open_port(&options, &local);
    send_number(port, &options.group[0], 1);
    CHECK_EQ(pdi_port_wait(port, 0), PYDDSI_AGAIN); /* nobody was woken */
    send_number(port, &local, 2);
    CHECK_EQ(receive_number(port, &from), 2);
    pdi_port_buffers(port, &buffers);
    CHECK_EQ(buffers.dropped, 0);
    pdi_port_close(port);
}

/* If it failed, somebody at another address who by chance has our port would never be heard. */
static void test_own_port_elsewhere(uint8_t filter)
{
    struct pdi_port_options options = usual();
    pyddsi_endpoint local[2];
    pyddsi_endpoint from;
    options.own_filter = filter;
    struct pdi_port *a = open_port(&options, &local[0]);
    options.interface = "127.0.0.1";
    options.groups = 0;
    struct pdi_port *b = open_port(&options, &local[1]);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct pdi_port_path path = {.index = 1, .address = {.kind = 4, .ip = {127, 0, 0, 2}}};
    pyddsi_endpoint here = {.kind = 4, .ip = {127, 0, 0, 2}, .port = local[0].port};
    union pdi_port_address address;
    socklen_t size = pdi_port_address_put(&address, &here, 0);
    CHECK_EQ(bind(fd, &address.any, size), 0);
    CHECK_EQ(pdi_port_socket_steer(fd, &path), 0);
    size = pdi_port_address_put(&address, &usual().group[0], 0);
    uint32_t number = 6;
    CHECK_EQ(sendto(fd, &number, sizeof number, 0, &address.any, size), sizeof number);
    CHECK_EQ(receive_number(a, &from), 6);
    CHECK(same(&from, &here));
    close(fd);
    pdi_port_close(a);
    pdi_port_close(b);
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t size = sizeof value;
    CHECK_EQ(getsockopt(fd, level, name, &value, &size), 0);
    return value;
}

/* If it failed, options would be without effect, or a program that is started by ours would hold
 * our sockets open. */
static void test_options(void)
{
    struct pdi_port_options options = usual();
    struct pdi_port_buffers buffers;
    pyddsi_endpoint local;
    pyddsi_endpoint first;
    options.ttl = 9;
    options.receive_bytes = 20000;
    options.send_bytes = 30000;
    struct pdi_port *port = open_port(&options, &first);
    CHECK_EQ(option(port->sockets[0].fd, IPPROTO_IP, IP_MULTICAST_TTL), 9);
    CHECK_EQ(option(port->sockets[0].fd, IPPROTO_IP, IP_MULTICAST_LOOP), 1);
    CHECK_EQ(option(port->sockets[0].fd, IPPROTO_IP, IP_MULTICAST_ALL), 0);
    CHECK_EQ(option(port->sockets[1].fd, IPPROTO_IP, IP_MULTICAST_ALL), 0);
    CHECK_EQ(option(port->sockets[1].fd, SOL_SOCKET, SO_RCVBUF), 40000);
    pdi_port_buffers(port, &buffers);
    CHECK_EQ(buffers.receive_bytes, 20000);
    CHECK_EQ(buffers.send_bytes, 30000);
    CHECK_EQ(buffers.dropped, 0);
    for (uint32_t i = 0; i < port->count; i++) {
        CHECK_EQ(fcntl(port->sockets[i].fd, F_GETFD), FD_CLOEXEC);
        CHECK((fcntl(port->sockets[i].fd, F_GETFL) & O_NONBLOCK) != 0);
    }
    CHECK_EQ(fcntl(port->epoll, F_GETFD), FD_CLOEXEC);
    CHECK_EQ(fcntl(port->bell, F_GETFD), FD_CLOEXEC);
    pdi_port_close(port);
    options.port = first.port; /* free again */
    options.loopback = 0;
    options.receive_bytes = UINT32_MAX;
    options.send_bytes = 0;
    port = open_port(&options, &local);
    CHECK(same(&local, &first));
    CHECK_EQ(option(port->sockets[0].fd, IPPROTO_IP, IP_MULTICAST_LOOP), 0);
    pdi_port_buffers(port, &buffers);
    CHECK(buffers.receive_bytes > 20000);
    pdi_port_close(port);
}

/* If it failed, packets that the system lost before we could read them would be nobody's loss. */
static void test_dropped(void)
{
    static uint8_t data[1000];
    struct pdi_port_options options = usual();
    struct pdi_port_buffers buffers;
    pyddsi_endpoint local;
    pyddsi_endpoint from;
    size_t size;
    uint32_t received = 0;
    options.receive_bytes = 10000;
    struct pdi_port *a = open_port(&options, &local);
    struct pdi_port *b = open_port(&options, &from);
    for (int i = 0; i < FLOOD; i++) {
        CHECK_EQ(pdi_port_send(b, i % 2 == 0 ? &local : &options.group[0], data, 1000), PYDDSI_OK);
    }
    uint64_t start = monotonic();
    do {
        while (pdi_port_receive(a, data, sizeof data, &size, &from) == PYDDSI_OK) {
            received++;
        }
        pdi_port_buffers(a, &buffers);
    } while (buffers.dropped + received < FLOOD && monotonic() - start < LONG);
    CHECK(received > 0 && received < FLOOD);
    CHECK_EQ(buffers.dropped + received, FLOOD);
    pdi_port_close(a);
    pdi_port_close(b);
}

/* If it failed, a user would be told nothing, or not what to do, when a session cannot be opened. */
static void test_refused(void)
{
    struct pdi_port_options options = usual();
    pyddsi_endpoint local;
    options.interface = "nosuch7";
    refuse(&options, ENODEV, "no interface or address \"nosuch7\"");
    refuse(&options, ENODEV, "lo 127.0.0.1");
    CHECK(strchr(strstr(said, "those"), ':') != NULL && strstr(said, "::") == NULL);
    options.interface = "192.0.2.254";
    refuse(&options, ENODEV, "no interface or address \"192.0.2.254\"");
    options.interface = "::1";
    refuse(&options, EAFNOSUPPORT, "the address ::1 is IPv6, but IPv4 is asked for");
    options = usual();
    struct pdi_port *port = open_port(&options, &local);
    options.port = local.port;
    refuse(&options, EADDRINUSE, "is in use");
    char number[8];
    snprintf(number, sizeof number, "%u", (unsigned)local.port);
    refuse(&options, EADDRINUSE, number);
    pdi_port_close(port);
    options = usual();
    options.family = 5;
    refuse(&options, EINVAL, "the family is 5");
    options = usual();
    options.groups = PDI_PORT_GROUPS_MAX + 1;
    refuse(&options, EINVAL, "at most 9");
    options = usual();
    options.group[0].ip[0] = 223;
    refuse(&options, EINVAL, "223.255.77.1 port 29977 is not a multicast group");
    options = usual();
    options.group[0].port = 0;
    refuse(&options, EINVAL, "port 0 is not a multicast group");
    options = usual();
    options.family = 6;
    refuse(&options, EINVAL, "group 0 is not IPv6");
    char text[8] = "1234567";
    CHECK_EQ(pdi_port_open(&port, &options, &local, text, 4), -EINVAL);
    CHECK_TEXT(text, "gro"); /* cut, and ended */
    CHECK_EQ(text[4], '5');
}

/* If it failed, a group whose port somebody has for himself would be refused without a reason. */
static void test_group_taken(void)
{
    struct pdi_port_options options = usual();
    pyddsi_endpoint local;
    union pdi_port_address address;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    options.group[0].port += 3;
    socklen_t size = pdi_port_address_put(&address, &options.group[0], 0);
    CHECK_EQ(bind(fd, &address.any, size), 0);
    refuse(&options, EADDRINUSE, "of the group 239.255.77.1 is in use");
    close(fd);
    struct pdi_port *port = open_port(&options, &local);
    pdi_port_close(port);
}

static void few_files(void *context)
{
    struct pdi_port_options options = usual();
    struct pdi_port *port = NULL;
    pyddsi_endpoint local;
    int before = next_file();
    rlim_t files = (rlim_t)before;
    struct rlimit limit;
    (void)context;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    options.groups = 2;
    options.group[1] = options.group[0];
    options.group[1].port++;
    for (; port == NULL && files < (rlim_t)before + FILES; files++) {
        limit.rlim_cur = files;
        CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
        if (pdi_port_open(&port, &options, &local, said, sizeof said) != PYDDSI_OK) {
            CHECK(port == NULL);
            CHECK(strstr(said, "ulimit -n") != NULL);
        }
    }
    CHECK(port != NULL);
    CHECK_EQ(files - (rlim_t)before, 6); /* three sockets, an epoll, an eventfd; and the next */
    pdi_port_close(port);
    CHECK_EQ(next_file(), before); /* nothing was left open by any of those */
}

/* If it failed, too small a limit of files would leak some of them at each try to open a session,
 * or not be named as the cause. */
static void test_few_files(void)
{
    await_child(start_child(few_files, NULL));
}

/* If it failed, the doctor would not tell what interfaces there are. */
static void test_interfaces(void)
{
    struct pdi_port_interface list[PDI_PORT_INTERFACES_MAX];
    uint32_t count = 0;
    bool found = false;
    CHECK_EQ(pdi_port_interfaces(list, PDI_PORT_INTERFACES_MAX, &count), PYDDSI_OK);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(list[i].name, "lo") == 0 && list[i].address.kind == 4) {
            found = list[i].up && list[i].loopback && list[i].address.ip[0] == 127 &&
                    list[i].index == if_nametoindex("lo");
        }
    }
    CHECK(found);
    list[1].name[0] = 'x';
    CHECK_EQ(pdi_port_interfaces(list, 1, &count), PYDDSI_OK);
    CHECK_EQ(count, 1);
    CHECK_EQ(list[1].name[0], 'x');
}

static struct pdi_port_options usual_six(uint8_t scope)
{
    struct pdi_port_options options = usual();
    options.interface = "";
    options.family = 6;
    options.group[0] =
        (pyddsi_endpoint){.ip = {0xff, scope, [15] = 0x77}, .port = 29977, .kind = 6};
    return options;
}

/* Whether this machine's loopback has an IPv6 address. */
static bool speaks_six(void)
{
    struct pdi_port_interface list[PDI_PORT_INTERFACES_MAX];
    uint32_t count = 0;
    bool found = false;
    CHECK_EQ(pdi_port_interfaces(list, PDI_PORT_INTERFACES_MAX, &count), PYDDSI_OK);
    for (uint32_t i = 0; i < count; i++) {
        found = found || (list[i].up && list[i].loopback && list[i].address.kind == 6);
    }
    return found;
}

/* Whether what is sent to 127.0.0.2 arrives at a port that is open on 127.0.0.1. */
static bool heard_elsewhere(const char *interface, uint64_t timeout_ns)
{
    struct pdi_port_options options = usual();
    pyddsi_endpoint local[2];
    options.interface = interface;
    struct pdi_port *a = open_port(&options, &local[0]);
    struct pdi_port *b = open_port(&options, &local[1]);
    local[0].ip[3] = 2;
    send_number(b, &local[0], 1);
    bool heard = pdi_port_wait(a, timeout_ns) == PYDDSI_OK;
    pdi_port_close(a);
    pdi_port_close(b);
    return heard;
}

static void lonely_four(void)
{
    struct pdi_port_options options = usual();
    options.interface = "";
    refuse(&options, ENETUNREACH, "ip link set lo up");
    options.interface = "lo";
    refuse(&options, ENETDOWN, "the interface lo is down");
    turn("lo", true);
    talk(&options, "127.0.0.1");
    options.interface = "";
    talk(&options, "127.0.0.1");
    CHECK(heard_elsewhere("", LONG));
    CHECK(!heard_elsewhere("lo", 0));
    turn("lo", false);
    refuse(&options, ENETUNREACH, "ip link set lo up");
    options.interface = "eth9";
    refuse(&options, ENODEV, "those that are up with IPv4");
    CHECK(strstr(said, "127.0.0.1") == NULL); /* it is down */
    turn("lo", true);
}

static void lonely_six(void)
{
    static const pyddsi_endpoint link = {.ip = {0xfe, 0x80, [15] = 1}, .kind = 6};
    static const pyddsi_endpoint site = {.ip = {0xfd, 0x00, [15] = 9}, .kind = 6};
    struct pdi_port_options options = usual_six(5);
    if (!speaks_six()) {
        return;
    }
    refuse(&options, ENETUNREACH, "ip -6 route add local ff00::/8 dev lo");
    route_groups_to_lo();
    for (int named = 0; named < 2; named++) {
        for (uint8_t scope = 1; scope <= 5; scope++) {
            options = usual_six(scope);
            options.interface = named ? "lo" : "";
            options.own_filter = scope % 2;
            talk(&options, "::1");
        }
    }
    give("lo", &link);
    options = usual_six(2);
    options.interface = "lo";
    talk(&options, "::1"); /* rather than one that is good on its link alone */
    options.interface = "fe80::1";
    talk(&options, "fe80::1");
    give("lo", &site);
    talk(&options, "fe80::1");
    options.interface = "lo";
    talk(&options, "fd00::9"); /* the first */
}

/* What is said on one interface must not be heard on the other, in both directions. */
static void apart(struct pdi_port_options options, const char *one, const char *two)
{
    pyddsi_endpoint local[2];
    options.interface = one;
    struct pdi_port *a = open_port(&options, &local[0]);
    CHECK_EQ(pdi_atomic32_load_relaxed(&a->scope), if_nametoindex(one));
    options.interface = two;
    struct pdi_port *b = open_port(&options, &local[1]);
    send_number(a, &options.group[0], 1);
    send_number(b, &options.group[0], 2);
    receive_nothing(a);
    receive_nothing(b);
    pdi_port_close(a);
    pdi_port_close(b);
}

static void with_cable(void)
{
    static const pyddsi_endpoint four = {.ip = {10, 99, 0, 1}, .kind = 4};
    static const pyddsi_endpoint link = {.ip = {0xfe, 0x80, [15] = 5}, .kind = 6};
    static const pyddsi_endpoint site = {.ip = {0xfd, 0x01, [15] = 5}, .kind = 6};
    struct pdi_port_options options = usual();
    if (!make_cable("pdi0")) {
        return;
    }
    options.interface = "pdi0";
    refuse(&options, ENETDOWN, "ip link set pdi0 up");
    turn("veth0", true);
    turn("pdi0", true);
    refuse(&options, EADDRNOTAVAIL, "pdi0 has no IPv4 address");
    give("pdi0", &four);
    talk(&options, "10.99.0.1");
    options.interface = "10.99.0.1";
    talk(&options, "10.99.0.1");
    options.interface = ""; /* no route to groups leads there, as on a switch without a router */
    talk(&options, "10.99.0.1");
    apart(options, "lo", "pdi0");
    if (speaks_six()) {
        give("pdi0", &link);
        options = usual_six(2);
        talk(&options, "fe80::5");
        give("pdi0", &site);
        options.own_filter = 1;
        talk(&options, "fe80::5");
        options.interface = "pdi0";
        talk(&options, "fd01::5");
        options = usual_six(5);
        apart(options, "lo", "pdi0");
        options.interface = "pdi0";
        talk(&options, "fd01::5");
    }
}

static void lonely(void *context)
{
    (void)context;
    if (in_namespace()) {
        lonely_four();
        lonely_six();
        with_cable();
    }
}

/* If it failed, a container without a network could not hold two sessions that talk, or would not
 * say what it lacks; or IPv6 would not work. */
static void test_lonely(void)
{
    await_child(start_child(lonely, NULL));
}

/* If it failed, two sessions could not talk by IPv6, or would take IPv4 in disguise; or a machine
 * without it would not say so. */
static void test_six(void)
{
    struct pdi_port_options options = usual_six(2);
    pyddsi_endpoint local[2];
    pyddsi_endpoint from;
    const pyddsi_endpoint four = {.ip = {127, 0, 0, 1}, .port = 9, .kind = 4};
    const char *const interfaces[] = {"lo", "::1", ""};
    options.groups = 0;
    options.interface = "127.0.0.1";
    refuse(&options, EAFNOSUPPORT, "is IPv4, but IPv6 is asked for");
    if (!speaks_six()) {
        options.interface = "lo";
        refuse(&options, EADDRNOTAVAIL, "has no IPv6 address");
        return;
    }
    for (int i = 0; i < 3; i++) {
        options.interface = interfaces[i];
        struct pdi_port *a = open_port(&options, &local[0]);
        struct pdi_port *b = open_port(&options, &local[1]);
        CHECK_EQ(local[0].kind, 6);
        send_number(a, &local[1], 1);
        CHECK_EQ(receive_number(b, &from), 1);
        CHECK(same(&from, &local[0]));
        CHECK_EQ(pdi_port_send(a, &four, (const uint8_t *)"", 1), -EAFNOSUPPORT);
        CHECK_EQ(option(a->sockets[0].fd, IPPROTO_IPV6, IPV6_V6ONLY), 1);
        CHECK_EQ(option(a->sockets[0].fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL), 0);
        CHECK_EQ(option(a->sockets[0].fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS), 1);
        CHECK_EQ(option(a->sockets[0].fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP), 1);
        pdi_port_close(a);
        pdi_port_close(b);
    }
}

/* If it failed, a link-local address would lose its link, and be reached nowhere. */
static void test_scope(void)
{
    union pdi_port_address address;
    pyddsi_endpoint back;
    static const struct {
        uint8_t ip[2];
        uint32_t scope;
    } rows[] = {{{0xfe, 0x80}, 7}, {{0xfe, 0xbf}, 7}, {{0xfe, 0xc0}, 0}, {{0xfd, 0x80}, 0},
                {{0xff, 0x02}, 7}, {{0xff, 0x11}, 7}, {{0xff, 0x05}, 0}, {{0x20, 0x02}, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pyddsi_endpoint one = {.kind = 6, .port = 258, .ip = {[15] = 9}};
        memcpy(one.ip, rows[i].ip, 2);
        CHECK_EQ(pdi_port_address_put(&address, &one, 7), sizeof address.v6);
        CHECK_EQ(address.v6.sin6_scope_id, rows[i].scope);
        pdi_port_address_get(&address, &back);
        CHECK(same(&one, &back));
    }
}

struct work {
    struct pdi_port *port;
    pyddsi_endpoint to;
    uint32_t first;
    uint32_t sent;
};

static void *send_many(void *context)
{
    struct work *work = context;
    for (uint32_t i = 0; i < PER_THREAD; i++) {
        uint32_t number = work->first + i;
        work->sent += pdi_port_send(work->port, &work->to, (const uint8_t *)&number,
                                    sizeof number) == PYDDSI_OK;
    }
    pdi_port_wake(work->port);
    return NULL;
}

/* If it failed, threads that send at the same time would mix their packets or lose some. */
static void test_threads(void)
{
    static bool seen[THREADS * PER_THREAD];
    struct pdi_port_options options = usual();
    struct work work[THREADS];
    pthread_t threads[THREADS];
    pyddsi_endpoint local;
    pyddsi_endpoint from;
    options.receive_bytes = 1U << 21;
    struct pdi_port *port = open_port(&options, &local);
    for (uint32_t i = 0; i < THREADS; i++) {
        work[i] = (struct work){port, local, i * PER_THREAD, 0};
        CHECK_EQ(pthread_create(&threads[i], NULL, send_many, &work[i]), 0);
    }
    uint32_t received = 0;
    int status = PYDDSI_OK;
    while (received < THREADS * PER_THREAD && status == PYDDSI_OK) {
        uint32_t number = 0;
        size_t size;
        status = pdi_port_wait(port, LONG);
        if (pdi_port_receive(port, (uint8_t *)&number, sizeof number, &size, &from) == PYDDSI_OK) {
            CHECK(number < THREADS * PER_THREAD && !seen[number]);
            seen[number % (THREADS * PER_THREAD)] = true;
            received++;
        }
    }
    CHECK_EQ(received, THREADS * PER_THREAD);
    for (uint32_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        CHECK_EQ(work[i].sent, PER_THREAD);
    }
    pdi_port_close(port);
}

/* ---- random sending, against queues ---------------------------------------------------------- */

struct packet {
    uint32_t number;
    uint32_t sender;
};

/* What must come out of one socket, in this order. */
struct queue {
    struct packet packets[QUEUE];
    uint32_t count;
};

struct world {
    struct pdi_rand rand;
    struct pdi_port *ports[PORTS];
    pyddsi_endpoint locals[PORTS];
    pyddsi_endpoint groups[GROUPS];
    uint32_t joined[PORTS];
    struct queue queues[PORTS][1 + GROUPS]; /* the unicast socket's is the first */
    uint32_t number;
};

static bool full(const struct world *world, uint32_t at)
{
    for (uint32_t port = 0; port < PORTS; port++) {
        if (world->queues[port][at].count == QUEUE) {
            return true;
        }
    }
    return false;
}

static void expect(struct world *world, uint32_t port, uint32_t at, uint32_t sender)
{
    struct queue *queue = &world->queues[port][at];
    queue->packets[queue->count++] = (struct packet){world->number, sender};
}

static void send_somewhere(struct world *world)
{
    uint32_t sender = (uint32_t)pdi_rand_below(&world->rand, PORTS);
    uint32_t to = (uint32_t)pdi_rand_below(&world->rand, PORTS + GROUPS);
    if (full(world, to < PORTS ? 0 : 1 + to - PORTS)) {
        return;
    }
    world->number++;
    if (to < PORTS) {
        send_number(world->ports[sender], &world->locals[to], world->number);
        expect(world, to, 0, sender);
        return;
    }
    uint32_t group = to - PORTS;
    send_number(world->ports[sender], &world->groups[group], world->number);
    for (uint32_t port = 0; port < PORTS; port++) {
        if (port != sender && (world->joined[port] >> group & 1) != 0) {
            expect(world, port, 1 + group, sender);
        }
    }
}

/* Receives one packet, which must be the first of a queue; answers whether there was one. */
static bool receive_somewhere(struct world *world, uint32_t port)
{
    uint32_t number = 0;
    size_t size = 0;
    pyddsi_endpoint from;
    uint32_t waiting = 0;
    for (uint32_t at = 0; at <= GROUPS; at++) {
        waiting += world->queues[port][at].count;
    }
    if (waiting > 0 && pdi_rand_chance(&world->rand, 1, 2)) {
        CHECK_EQ(pdi_port_wait(world->ports[port], LONG), PYDDSI_OK);
    }
    int status =
        pdi_port_receive(world->ports[port], (uint8_t *)&number, sizeof number, &size, &from);
    if (status != PYDDSI_OK) {
        CHECK_EQ(status, PYDDSI_AGAIN);
        if (waiting == 0) {
            return false;
        }
        CHECK_EQ(pdi_port_wait(world->ports[port], LONG), PYDDSI_OK); /* it passed over its own */
        return true;
    }
    for (uint32_t at = 0; at <= GROUPS; at++) {
        struct queue *queue = &world->queues[port][at];
        if (queue->count > 0 && queue->packets[0].number == number) {
            CHECK_EQ(size, sizeof number);
            CHECK(same(&from, &world->locals[queue->packets[0].sender]));
            queue->count--;
            memmove(queue->packets, queue->packets + 1, queue->count * sizeof queue->packets[0]);
            return true;
        }
    }
    CHECK_EQ(number, UINT32_MAX); /* nobody was to hear this, or not yet */
    return true;
}

static void run_seed(uint64_t seed)
{
    static struct world world;
    memset(&world, 0, sizeof world);
    pdi_rand_init(&world.rand, seed);
    for (uint32_t i = 0; i < GROUPS; i++) { /* some differ by the address, some by the port */
        world.groups[i] = usual().group[0];
        world.groups[i].ip[3] = (uint8_t)(10 + i % 3);
        world.groups[i].port = (uint16_t)(29970 + i / 2);
    }
    for (uint32_t i = 0; i < PORTS; i++) {
        struct pdi_port_options options = usual();
        options.groups = 0;
        options.receive_bytes = 1U << 20;
        options.own_filter = pdi_rand_chance(&world.rand, 1, 2);
        world.joined[i] = (uint32_t)pdi_rand_below(&world.rand, 1U << GROUPS);
        for (uint32_t group = 0; group < GROUPS; group++) {
            if ((world.joined[i] >> group & 1) != 0) {
                options.group[options.groups++] = world.groups[group];
            }
        }
        world.ports[i] = open_port(&options, &world.locals[i]);
    }
    for (int step = 0; step < STEPS; step++) {
        if (pdi_rand_chance(&world.rand, 3, 5)) {
            send_somewhere(&world);
        } else {
            receive_somewhere(&world, (uint32_t)pdi_rand_below(&world.rand, PORTS));
        }
    }
    for (uint32_t port = 0; port < PORTS; port++) {
        for (int i = 0; i < STEPS * 2 && receive_somewhere(&world, port); i++) {
        }
        for (uint32_t at = 0; at <= GROUPS; at++) {
            CHECK_EQ(world.queues[port][at].count, 0);
        }
        receive_nothing(world.ports[port]);
        pdi_port_close(world.ports[port]);
    }
}

/* If it failed, a packet would come twice, not at all, out of order, from the wrong sender, or to
 * somebody who has not joined its group. */
static void test_against_model(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        int failures = test_failures;
        run_seed(seed);
        if (test_failures != failures) {
            printf("seed %" PRIu64 "\n", seed);
            return;
        }
    }
}

/* Keeps this program and its children on the processor that it runs on. */
static void stay(void)
{
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    CHECK_EQ(sched_setaffinity(0, sizeof here, &here), 0);
}

int main(void)
{
    stay();
    test_lonely(); /* the children first: they must not inherit what a failed test left */
    test_few_files();
    test_talk();
    test_unicast_only();
    test_groups();
    test_processes();
    test_wake();
    test_watched_comes_last();
    test_timeout();
    test_interrupted();
    test_sizes();
    test_send_refused();
    test_gone();
    test_fair();
    test_drain();
    test_own();
    test_own_filter();
    test_own_port_elsewhere(0);
    test_own_port_elsewhere(1);
    test_options();
    test_dropped();
    test_refused();
    test_group_taken();
    test_interfaces();
    test_six();
    test_scope();
    test_threads();
    test_against_model();
    return test_result();
}
