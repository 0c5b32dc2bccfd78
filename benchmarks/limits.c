/*
 * What the machine can do at all: the yardsticks that limits.py compiles and runs.
 *
 *     limits NAME SIZE MILLISECONDS        prints the value, and what was lost in per cent
 *
 * Two processes share one page of words. The parent sends, the child receives and keeps the time, because a rate is what
 * arrives:
 *
 *     parent ── datagrams, or a ring in shared memory ──► child ── got, first, last ──► parent prints
 *
 * The file is long because it is one program of a dozen small measurements, which share the words above and little else.
 *
 * A datagram of one byte, sent several times, is the end. Nothing holds the sender of datagrams back, as nothing does
 * below a protocol; so UDP loses what its receiver does not get to, and Unix datagrams wait for room.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): the C library asks for it */
#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum {
    DATAGRAM_MAX = 65000, /* what several segments may have together */
    SEGMENTS_MAX = 64,    /* what every kernel with GSO takes */
    CALL_MAX = 32,        /* datagrams of one sendmmsg or recvmmsg */
    SOCKET_BYTES = 4 * 1024 * 1024,
    RING_BYTES = 256 * 1024,
    SLOTS_MIN = 16,
    ENDS = 50,
    TRIPS_MAX = 400000,
    CLOCK_EVERY = 1024, /* messages between two looks at the clock */
};

struct shared {
    _Alignas(64) _Atomic uint64_t tail; /* written by the parent */
    _Alignas(64) _Atomic uint64_t head; /* written by the child */
    _Alignas(64) _Atomic uint32_t there;
    _Alignas(64) _Atomic uint32_t back;
    _Alignas(64) _Atomic uint64_t end; /* how many there are in all, when that is known */
    uint64_t got, first_got, first_ns, last_ns;
    _Alignas(64) unsigned char data[];
};

static struct shared *shared;
static size_t size;
static uint64_t wanted_ns;
static volatile unsigned sink;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

/* The n-th processor that we may use; the last if there are fewer. */
static void pin(int n)
{
    cpu_set_t may, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof may, &may) != 0)
        fail("sched_getaffinity");
    int last = 0;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &may))
            continue;
        if (last++ <= n) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
        }
    }
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        fail("sched_setaffinity");
}

static void relax(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

/* The child, on its processor; it dies with the parent. */
static pid_t fork_on(int parent_at, int child_at)
{
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(child == 0 ? child_at : parent_at);
    return child;
}

static void count(uint64_t messages)
{
    uint64_t t = now();
    if (shared->got == 0) {
        shared->first_ns = t;
        shared->first_got = messages;
    }
    shared->got += messages;
    shared->last_ns = t;
}

static void print_rate(uint64_t sent)
{
    uint64_t got = shared->got, taken = shared->last_ns - shared->first_ns;
    double rate = taken > 0 ? (double)(got - shared->first_got) * 1e9 / (double)taken : 0.0;
    double lost = sent > 0 ? 100.0 * (1.0 - (double)got / (double)sent) : 0.0;
    printf("%.9g %.6g\n", rate, lost < 0 ? 0.0 : lost);
}

/* ---- datagrams ---------------------------------------------------------------------------------------------------- */

struct call {
    struct mmsghdr messages[CALL_MAX];
    struct iovec vectors[CALL_MAX];
    char control[CALL_MAX][CMSG_SPACE(sizeof(int))];
    unsigned char *bytes;
};

static void call_init(struct call *call, size_t each, bool control)
{
    memset(call, 0, sizeof *call);
    call->bytes = calloc(CALL_MAX, each);
    if (call->bytes == NULL)
        fail("calloc");
    for (int i = 0; i < CALL_MAX; i++) {
        call->vectors[i] = (struct iovec){call->bytes + (size_t)i * each, each};
        call->messages[i].msg_hdr.msg_iov = &call->vectors[i];
        call->messages[i].msg_hdr.msg_iovlen = 1;
        if (control) {
            call->messages[i].msg_hdr.msg_control = call->control[i];
            call->messages[i].msg_hdr.msg_controllen = sizeof call->control[i];
        }
    }
}

/* How many messages one received datagram is: with GRO the kernel says how long each was. */
static uint64_t segments(const struct mmsghdr *message)
{
    const struct msghdr *header = &message->msg_hdr;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c != NULL;
         c = CMSG_NXTHDR((struct msghdr *)header, c)) {
        if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
            int each;
            memcpy(&each, CMSG_DATA(c), sizeof each);
            return (message->msg_len + (unsigned)each - 1) / (unsigned)each;
        }
    }
    return 1;
}

static void datagrams_receive(int fd, bool many, bool merged)
{
    static struct call call;
    call_init(&call, merged ? 65536 : size + 1, merged);
    for (;;) {
        int n = recvmmsg(fd, call.messages, many ? CALL_MAX : 1, MSG_WAITFORONE, NULL);
        if (n <= 0)
            fail("recvmmsg");
        uint64_t messages = 0;
        bool end = false;
        for (int i = 0; i < n; i++) {
            if (call.messages[i].msg_len == 1)
                end = true;
            else
                messages += segments(&call.messages[i]);
            call.messages[i].msg_hdr.msg_controllen = merged ? sizeof call.control[i] : 0;
        }
        if (messages > 0)
            count(messages);
        if (end)
            return;
    }
}

static uint64_t datagrams_send(int fd, bool many, size_t whole)
{
    static struct call call;
    call_init(&call, whole, false);
    uint64_t sent = 0, end = now() + wanted_ns;
    while (now() < end) {
        for (int i = 0; i < 16; i++) {
            int n = sendmmsg(fd, call.messages, many ? CALL_MAX : 1, 0);
            if (n < 0 && errno != ENOBUFS && errno != ECONNREFUSED)
                fail("sendmmsg");
            sent += (uint64_t)(n > 0 ? n : 0) * (whole / size);
        }
    }
    for (int i = 0; i < ENDS; i++) {
        struct timespec pause = {0, 2000000};
        if (send(fd, "", 1, MSG_DONTWAIT) < 0 && errno == ECONNREFUSED)
            break;
        nanosleep(&pause, NULL);
    }
    return sent;
}

/* UDP over loopback: plain calls, many datagrams a call, many segments a datagram, and these merged at the receiver. */
static void udp(bool many, bool split, bool merged)
{
    int in = socket(AF_INET, SOCK_DGRAM, 0), out = socket(AF_INET, SOCK_DGRAM, 0);
    if (in < 0 || out < 0)
        fail("socket");
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof at;
    int bytes = SOCKET_BYTES, one = 1, segment = (int)size;
    setsockopt(in, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    setsockopt(out, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    if (bind(in, (struct sockaddr *)&at, sizeof at) != 0 ||
        getsockname(in, (struct sockaddr *)&at, &length) != 0)
        fail("bind");
    if (connect(out, (struct sockaddr *)&at, sizeof at) != 0)
        fail("connect");
    if (split && setsockopt(out, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment) != 0)
        fail("UDP_SEGMENT");
    if (merged && setsockopt(in, SOL_UDP, UDP_GRO, &one, sizeof one) != 0)
        fail("UDP_GRO");
    size_t fit = DATAGRAM_MAX / size < SEGMENTS_MAX ? DATAGRAM_MAX / size : SEGMENTS_MAX;
    if (fork_on(0, 1) == 0) {
        close(out);
        datagrams_receive(in, many, merged);
        _exit(0);
    }
    close(in);
    uint64_t sent = datagrams_send(out, many && !split, split ? size * fit : size);
    wait(NULL);
    print_rate(sent);
}

static void unix_datagrams(void)
{
    int pair[2], bytes = SOCKET_BYTES;
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0)
        fail("socketpair");
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    if (fork_on(0, 1) == 0) {
        close(pair[0]);
        datagrams_receive(pair[1], false, false);
        _exit(0);
    }
    close(pair[1]);
    uint64_t sent = datagrams_send(pair[0], false, size);
    wait(NULL);
    print_rate(sent);
}

/* ---- a ring in shared memory --------------------------------------------------------------------------------------- */

static void ring_receive(size_t slots, uint64_t batch)
{
    uint64_t head = 0, tail = 0;
    for (;;) {
        for (unsigned spins = 0; head == tail; spins++) {
            tail = atomic_load_explicit(&shared->tail, memory_order_acquire);
            if (head == tail &&
                atomic_load_explicit(&shared->end, memory_order_acquire) == head + 1)
                return;
            if (spins > 10000)
                sched_yield();
            relax();
        }
        uint64_t from = head;
        while (head != tail) {
            uint64_t number;
            memcpy(&number, shared->data + (head & (slots - 1)) * size, sizeof number);
            if (number != head) {
                fprintf(stderr, "the ring is out of order\n");
                _exit(1);
            }
            if (++head % batch == 0)
                atomic_store_explicit(&shared->head, head, memory_order_release);
        }
        atomic_store_explicit(&shared->head, head, memory_order_release);
        count(head - from);
    }
}

/* The tail moves once in a batch, and always before the writer waits. The reader looks at each message's number. */
static void ring(uint64_t batch)
{
    size_t slots = SLOTS_MIN; /* a power of two */
    while (slots * 2 * size <= RING_BYTES)
        slots *= 2;
    unsigned char *payload = calloc(1, size);
    if (payload == NULL)
        fail("calloc");
    if (fork_on(0, 1) == 0) {
        ring_receive(slots, batch);
        _exit(0);
    }
    uint64_t tail = 0, head = 0, end = now() + wanted_ns;
    while (tail % CLOCK_EVERY != 0 || now() < end) {
        if (tail - head == slots) {
            atomic_store_explicit(&shared->tail, tail, memory_order_release);
            for (unsigned spins = 0; tail - head == slots; spins++) {
                head = atomic_load_explicit(&shared->head, memory_order_acquire);
                if (spins > 10000)
                    sched_yield();
                relax();
            }
        }
        memcpy(payload, &tail, sizeof tail);
        memcpy(shared->data + (tail & (slots - 1)) * size, payload, size);
        if (++tail % batch == 0)
            atomic_store_explicit(&shared->tail, tail, memory_order_release);
    }
    atomic_store_explicit(&shared->tail, tail, memory_order_release);
    atomic_store_explicit(&shared->end, tail + 1, memory_order_release);
    int status;
    wait(&status);
    if (status != 0)
        exit(1);
    print_rate(tail);
}

/* ---- there and back ------------------------------------------------------------------------------------------------ */

static uint32_t times[TRIPS_MAX];

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void word_wait(_Atomic uint32_t *word, uint32_t value, bool sleeps)
{
    for (uint32_t seen; (seen = atomic_load_explicit(word, memory_order_acquire)) != value;) {
        if (sleeps)
            syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
        else
            relax();
    }
}

static void word_post(_Atomic uint32_t *word, uint32_t value, bool sleeps)
{
    atomic_store_explicit(word, value, memory_order_release);
    if (sleeps)
        syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

enum way { SPIN, FUTEX, EVENTFD };

static int events[2];

static void post(enum way way, int to, uint32_t value)
{
    uint64_t one = 1;
    if (way != EVENTFD)
        word_post(to == 0 ? &shared->there : &shared->back, value, way == FUTEX);
    else if (write(events[to], &one, sizeof one) != sizeof one)
        fail("write");
}

static void await(enum way way, int from, uint32_t value)
{
    uint64_t one;
    if (way != EVENTFD)
        word_wait(from == 0 ? &shared->there : &shared->back, value, way == FUTEX);
    else if (read(events[from], &one, sizeof one) != sizeof one)
        fail("read");
}

/* The median in microseconds. */
static void round_trip(enum way way, int child_at)
{
    events[0] = eventfd(0, 0);
    events[1] = eventfd(0, 0);
    pid_t child = fork_on(0, child_at);
    if (child == 0) {
        for (uint32_t i = 1;; i++) {
            await(way, 0, i);
            post(way, 1, i);
        }
    }
    uint64_t begin = now(), end = begin + wanted_ns;
    uint32_t n = 0;
    while (begin < end && n < TRIPS_MAX) {
        begin = now();
        post(way, 0, n + 1);
        await(way, 1, n + 1);
        times[n++] = (uint32_t)(now() - begin);
    }
    kill(child, SIGKILL);
    wait(NULL);
    qsort(times, n, sizeof times[0], by_value);
    printf("%.6g 0\n", times[n / 2] / 1e3);
}

/* ---- alone --------------------------------------------------------------------------------------------------------- */

/* Bytes a second. */
static void copies(void)
{
    unsigned char *from = malloc(size), *to = malloc(size);
    if (from == NULL || to == NULL)
        fail("malloc");
    memset(from, 1, size);
    memset(to, 2, size);
    uint64_t turns = 1 + (1 << 24) / size, copied = 0, begin = now(), taken;
    do {
        for (uint64_t i = 0; i < turns; i++) {
            memcpy(to, from, size);
            __asm__ volatile("" : : "r"(to), "r"(from) : "memory");
        }
        copied += turns * size;
        taken = now() - begin;
    } while (taken < wanted_ns);
    sink = to[size / 2];
    printf("%.9g 0\n", (double)copied * 1e9 / (double)taken);
}

/* Nanoseconds for one clock reading, or for one system call. */
static void calls(bool system)
{
    uint64_t turns = 0, begin = now(), taken;
    do {
        for (int i = 0; i < CLOCK_EVERY; i++)
            sink = system ? (unsigned)syscall(SYS_getppid) : (unsigned)now();
        turns += CLOCK_EVERY;
        taken = now() - begin;
    } while (taken < wanted_ns);
    printf("%.6g 0\n", (double)taken / (double)turns);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: limits NAME SIZE MILLISECONDS\n");
        return 2;
    }
    const char *name = argv[1];
    size = (size_t)strtoull(argv[2], NULL, 10);
    wanted_ns = strtoull(argv[3], NULL, 10) * 1000000U;
    if (size < 8 || size > (size_t)1 << 30)
        return 2;
    size_t room = size * SLOTS_MIN > RING_BYTES ? size * SLOTS_MIN : RING_BYTES;
    shared = mmap(NULL, sizeof *shared + room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                  -1, 0);
    if (shared == MAP_FAILED)
        fail("mmap");
#define IS(word) (strcmp(name, word) == 0)
    if (IS("memcpy"))
        copies();
    else if (IS("clock") || IS("system-call"))
        calls(IS("system-call"));
    else if (IS("udp"))
        udp(false, false, false);
    else if (IS("udp-mmsg"))
        udp(true, false, false);
    else if (IS("udp-gso"))
        udp(true, true, false);
    else if (IS("udp-gso-gro"))
        udp(true, true, true);
    else if (IS("unix"))
        unix_datagrams();
    else if (IS("ring"))
        ring(1);
    else if (IS("ring-32"))
        ring(32);
    else if (IS("spin"))
        round_trip(SPIN, 1);
    else if (IS("futex-two") || IS("futex-one"))
        round_trip(FUTEX, IS("futex-two"));
    else if (IS("eventfd-two") || IS("eventfd-one"))
        round_trip(EVENTFD, IS("eventfd-two"));
    else
        return 2;
    return 0;
}
