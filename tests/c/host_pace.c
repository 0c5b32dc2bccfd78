/* host/pace.h: packets at their deadlines, on this machine's loopback. Nothing is said of how late they are, for that is
 * the machine's affair; that none is early, lost, changed or out of order is ours. */
#define _GNU_SOURCE
#include "host/pace.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/rand.h"
#include "host/clock.h"
#include "test.h"

#define LONG    (60 * PDI_TIME_S)
#define PACKETS 64U
#define SIZE    100U

/* A UDP socket of the loopback; *here is where it can be reached. */
static int open_socket(pyddsi_endpoint *here)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int bytes = 4 << 20;
    CHECK(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *here = (pyddsi_endpoint){.ip = {127, 0, 0, 1}, .port = ntohs(address.sin_port), .kind = 4};
    return fd;
}

static struct pdi_pace *open_pace(uint64_t spin_ns, bool flat_out)
{
    struct pdi_pace *pace;
    char text[PYDDSI_TEXT_MAX] = "";
    CHECK_EQ(pdi_pace_open(&pace, spin_ns, flat_out, text, sizeof text), PYDDSI_OK);
    CHECK_TEXT(text, "");
    if (pace == NULL) { /* nothing that follows would make sense */
        exit(test_result());
    }
    return pace;
}

static void begin(struct pdi_pace *pace)
{
    char text[PYDDSI_TEXT_MAX] = "";
    CHECK_EQ(pdi_pace_begin(pace, text, sizeof text), PYDDSI_OK);
    CHECK_TEXT(text, "");
}

/* A packet that must come: its size, in *when a moment at which it had come, and in *from the port of who sent it. */
static size_t next(int fd, uint8_t *data, size_t room, pdi_time *when, uint16_t *from)
{
    struct sockaddr_in source;
    socklen_t length = sizeof source;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    int found = poll(&ready, 1, 60000);
    CHECK_EQ(found, 1);
    if (found != 1) {
        exit(test_result());
    }
    ssize_t size = recvfrom(fd, data, room, 0, (struct sockaddr *)&source, &length);
    *when = pdi_clock_now();
    *from = ntohs(source.sin_port);
    CHECK(size >= 0);
    return (size_t)size;
}

static uint8_t bytes[PACKETS * SIZE];
static pyddsi_replay_packet packets[PACKETS];

/* Packets so far apart, each with its number in every byte. */
static void fill(uint64_t apart_ns, uint32_t way)
{
    for (uint32_t i = 0; i < PACKETS; i++) {
        memset(bytes + (size_t)i * SIZE, (int)i, SIZE);
        packets[i] = (pyddsi_replay_packet){
            .due_ns = i * apart_ns, .at = i * SIZE, .size = SIZE, .way = way};
    }
}

static void end(struct pdi_pace *pace, uint64_t done)
{
    pdi_pace_finish(pace);
    CHECK_EQ(pdi_pace_wait(pace, UINT64_MAX, LONG), PYDDSI_OK);
    pyddsi_replay_counts counts;
    pdi_pace_count(pace, &counts);
    CHECK_EQ(counts.ended, 1);
    CHECK_EQ(counts.done, done);
}

/* Without it a packet would leave before its deadline, out of order or changed, or its lateness not be counted, with a
 * last look at the clock as without. */
static void test_deadlines(void)
{
    for (uint64_t spin = 0; spin < 2; spin++) {
        pyddsi_endpoint to;
        pyddsi_endpoint own;
        int receiver = open_socket(&to);
        int sender = open_socket(&own);
        struct pdi_pace *pace = open_pace(spin * 80000, false);
        CHECK_EQ(pdi_pace_socket(pace, sender, 4, 0), 0);
        CHECK_EQ(pdi_pace_way(pace, 0, &to), 0);
        fill(100000, 0);
        CHECK_EQ(pdi_pace_push(pace, packets, PACKETS, bytes, sizeof bytes, 1000000), PYDDSI_OK);
        begin(pace);
        pyddsi_replay_counts counts;
        pdi_pace_count(pace, &counts);
        for (uint32_t i = 0; i < PACKETS; i++) {
            uint8_t got[2 * SIZE];
            pdi_time when = 0;
            uint16_t from;
            CHECK_EQ(next(receiver, got, sizeof got, &when, &from), SIZE);
            CHECK_EQ(from, own.port);
            CHECK(memcmp(got, bytes + (size_t)i * SIZE, SIZE) == 0);
            CHECK(when >= counts.begun_ns + 1000000 + packets[i].due_ns);
        }
        end(pace, 1);
        pdi_pace_count(pace, &counts);
        CHECK_EQ(counts.sent, PACKETS);
        CHECK_EQ(counts.bytes, sizeof bytes);
        CHECK_EQ(counts.full + counts.failed, 0);
        uint64_t late[PDI_HISTOGRAM_SLOTS];
        uint64_t sum = 0;
        unsigned last = 0;
        pdi_pace_late(pace, late);
        for (unsigned i = 0; i < PDI_HISTOGRAM_SLOTS; i++) {
            sum += late[i];
            last = late[i] != 0 ? i : last;
        }
        CHECK_EQ(sum, PACKETS);
        CHECK_EQ(last, pdi_histogram_slot(counts.late_max_ns));
        CHECK(counts.drift_ns <= counts.late_max_ns);
        pdi_pace_close(pace);
        close(receiver);
        close(sender);
    }
}

/* Without it what is not to wait would wait, or packets of several senders be mixed up, lost, or sent one by one. */
static void test_flat_out(void)
{
    pyddsi_endpoint to[2];
    pyddsi_endpoint own[2];
    int receiver[2];
    int sender[2];
    struct pdi_pace *pace = open_pace(0, true);
    for (int i = 0; i < 2; i++) {
        receiver[i] = open_socket(&to[i]);
        sender[i] = open_socket(&own[i]);
        CHECK_EQ(pdi_pace_socket(pace, sender[i], 4, 0), i);
        CHECK_EQ(pdi_pace_way(pace, (uint32_t)i, &to[i]), i);
    }
    fill(UINT64_C(1) << 56, 0); /* two years each: who waited would not end */
    for (uint32_t i = PACKETS / 2; i < PACKETS; i++) {
        packets[i].way = 1;
    }
    CHECK_EQ(pdi_pace_push(pace, packets, PACKETS, bytes, sizeof bytes, UINT64_MAX), PYDDSI_OK);
    begin(pace);
    for (uint32_t i = 0; i < PACKETS; i++) {
        uint8_t got[2 * SIZE];
        pdi_time when;
        uint16_t from;
        CHECK_EQ(next(receiver[i >= PACKETS / 2], got, sizeof got, &when, &from), SIZE);
        CHECK_EQ(from, own[i >= PACKETS / 2].port);
        CHECK(memcmp(got, bytes + (size_t)i * SIZE, SIZE) == 0);
    }
    end(pace, 1);
    pyddsi_replay_counts counts;
    pdi_pace_count(pace, &counts);
    CHECK_EQ(counts.sent, PACKETS);
    CHECK(counts.calls < PACKETS / 2);
    CHECK_EQ(counts.late_max_ns, 0);
    CHECK(counts.last_ns > counts.begun_ns);
    pdi_pace_close(pace);
    for (int i = 0; i < 2; i++) {
        close(receiver[i]);
        close(sender[i]);
    }
}

/* Without it a full ring would lose batches, or memory be given back that is still to be sent from. */
static void test_ring(void)
{
    pyddsi_endpoint to;
    int receiver = open_socket(&to);
    struct pdi_pace *pace = open_pace(0, true);
    CHECK_EQ(pdi_pace_socket(pace, receiver, 4, 0), 0); /* it sends to itself */
    CHECK_EQ(pdi_pace_way(pace, 0, &to), 0);
    fill(0, 0);
    for (uint32_t i = 0; i < PDI_PACE_BATCHES_MAX; i++) {
        CHECK_EQ(pdi_pace_push(pace, packets + i % PACKETS, 1, bytes, sizeof bytes, 0), PYDDSI_OK);
    }
    CHECK_EQ(pdi_pace_push(pace, packets, 1, bytes, sizeof bytes, 0), PYDDSI_AGAIN);
    begin(pace);
    for (uint32_t i = 0; i < PDI_PACE_BATCHES_MAX; i++) {
        uint8_t got[2 * SIZE];
        pdi_time when;
        uint16_t from;
        CHECK_EQ(pdi_pace_wait(pace, i + 1, LONG), PYDDSI_OK);
        CHECK_EQ(next(receiver, got, sizeof got, &when, &from), SIZE);
        CHECK_EQ(got[0], i % PACKETS);
    }
    pyddsi_replay_counts counts;
    do { /* until it has nothing to wait for, which is told */
        CHECK_EQ(pdi_pace_wait(pace, PDI_PACE_BATCHES_MAX + 1, PDI_TIME_MS), PYDDSI_AGAIN);
        pdi_pace_count(pace, &counts);
    } while (counts.starved == 0);
    CHECK_EQ(pdi_pace_push(pace, packets, 1, bytes, sizeof bytes, 0), PYDDSI_OK);
    end(pace, PDI_PACE_BATCHES_MAX + 1);
    pdi_pace_close(pace);
    close(receiver);
}

/* Without it Ctrl-C would wait for a deadline that is far away, or for one that is near, or for more. */
static void test_stop(void)
{
    static const uint64_t due[] = {PDI_TIME_NEVER, 0};
    for (int i = 0; i < 3; i++) {
        pyddsi_endpoint to;
        int fd = open_socket(&to);
        struct pdi_pace *pace = open_pace(0, false);
        CHECK_EQ(pdi_pace_socket(pace, fd, 4, 0), 0);
        CHECK_EQ(pdi_pace_way(pace, 0, &to), 0);
        fill(0, 0);
        if (i < 2) {
            CHECK_EQ(pdi_pace_push(pace, packets, PACKETS, bytes, sizeof bytes, due[i]), PYDDSI_OK);
        }
        begin(pace);
        pdi_pace_stop(pace);
        CHECK_EQ(pdi_pace_wait(pace, UINT64_MAX, LONG), PYDDSI_OK);
        pyddsi_replay_counts counts;
        pdi_pace_count(pace, &counts);
        CHECK_EQ(counts.ended, 1);
        CHECK(i == 1 || counts.sent == 0);
        pdi_pace_close(pace);
        close(fd);
    }
}

/* Without it what cannot be sent would be sent from elsewhere in memory, by another socket, or pass for sent. */
static void test_bad(void)
{
    pyddsi_endpoint to;
    int fd = open_socket(&to);
    pyddsi_endpoint other = {.ip = {1}, .port = 1, .kind = 6};
    struct pdi_pace *pace = open_pace(0, false);
    CHECK_EQ(pdi_pace_socket(pace, fd, 5, 0), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_pace_socket(pace, fd, 4, 0), 0);
    CHECK_EQ(pdi_pace_way(pace, 1, &to), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_pace_way(pace, 0, &other), PYDDSI_BAD_ARGUMENT);
    to.port = 0; /* nobody can be there */
    CHECK_EQ(pdi_pace_way(pace, 0, &to), 0);
    fill(0, 1);
    CHECK_EQ(pdi_pace_push(pace, packets, 1, bytes, sizeof bytes, 0), PYDDSI_BAD_ARGUMENT);
    fill(0, 0);
    CHECK_EQ(pdi_pace_push(pace, packets, PACKETS, bytes, sizeof bytes - 1, 0),
             PYDDSI_BAD_ARGUMENT);
    packets[0].at = UINT64_MAX;
    CHECK_EQ(pdi_pace_push(pace, packets, 1, bytes, sizeof bytes, 0), PYDDSI_BAD_ARGUMENT);
    packets[0].at = 0;
    CHECK_EQ(pdi_pace_push(pace, packets, PACKETS, bytes, sizeof bytes, 0), PYDDSI_OK);
    begin(pace);
    end(pace, 1);
    pyddsi_replay_counts counts;
    pdi_pace_count(pace, &counts);
    CHECK_EQ(counts.sent, 0);
    CHECK_EQ(counts.failed, PACKETS);
    for (int i = 1; i < (int)PYDDSI_REPLAY_SOCKETS_MAX; i++) {
        CHECK_EQ(pdi_pace_socket(pace, fd, 4, 0), i);
    }
    CHECK_EQ(pdi_pace_socket(pace, fd, 4, 0), PYDDSI_NO_SPACE);
    pdi_pace_close(pace);
    pdi_pace_close(NULL);
    close(fd);
}

/* Without it a percentile would be of another value: every value lies in its slot and below the next, and slots grow. */
static void test_histogram(void)
{
    struct pdi_rand rand;
    pdi_rand_init(&rand, 1);
    for (unsigned i = 0; i < PDI_HISTOGRAM_SLOTS; i++) {
        CHECK_EQ(pdi_histogram_slot(pdi_histogram_least(i)), i);
        CHECK(i == 0 || pdi_histogram_least(i) > pdi_histogram_least(i - 1));
        CHECK(i == 0 || pdi_histogram_slot(pdi_histogram_least(i) - 1) == i - 1);
    }
    CHECK_EQ(pdi_histogram_slot(UINT64_MAX), PDI_HISTOGRAM_SLOTS - 1);
    for (int i = 0; i < 100000; i++) {
        uint64_t value = pdi_rand_u64(&rand) >> pdi_rand_below(&rand, 64);
        uint64_t least = pdi_histogram_least(pdi_histogram_slot(value));
        CHECK(least <= value && value - least <= value / 16);
    }
}

int main(void)
{
    test_deadlines();
    test_flat_out();
    test_ring();
    test_stop();
    test_bad();
    test_histogram();
    return test_result();
}
