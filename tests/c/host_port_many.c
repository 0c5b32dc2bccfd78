/* host/port_many.h: many packets in one call, on this machine's loopback.
 *
 * All runs on one processor, where the kernel keeps the packets in order and delivers them before a call returns, or soon
 * after: what must come is waited for. No more is under way at a time than a socket's buffer holds.
 *
 * It is long because sending and receiving are two halves of one thing.
 */
#define _GNU_SOURCE
#include "host/port_many.h"

#include <netinet/udp.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/rand.h"
#include "base/time.h"
#include "host/port_state.h"
#include "test.h"

#define LONG    (60 * PDI_TIME_S)
#define MEMORY  200000
#define SEEDS   300
#define THREADS 4
#define ROUNDS  200
#define HEAD    12

static struct pdi_port *open_port(uint8_t many, pyddsi_endpoint *local)
{
    struct pdi_port_options options = {.interface = "lo",
                                       .family = 4,
                                       .many = many,
                                       .receive_bytes = 2 << 20,
                                       .send_bytes = 1 << 20};
    struct pdi_port *port = NULL;
    char said[400] = "";
    CHECK_EQ(pdi_port_open(&port, &options, local, said, sizeof said), PYDDSI_OK);
    CHECK_TEXT(said, "");
    if (port == NULL) { /* nothing that follows would make sense */
        exit(test_result());
    }
    return port;
}

/* The next packet, which must come. */
static size_t next(struct pdi_port *port, uint8_t *data, size_t room, pyddsi_endpoint *from)
{
    size_t size = 0;
    while (pdi_port_receive(port, data, room, &size, from) != PYDDSI_OK) {
        int status = pdi_port_wait(port, LONG);
        CHECK(status == PYDDSI_OK);
        if (status != PYDDSI_OK) {
            exit(test_result());
        }
    }
    return size;
}

/* Nothing is there any more. */
static void check_empty(struct pdi_port *port)
{
    uint8_t data[64];
    size_t size;
    pyddsi_endpoint from;
    CHECK_EQ(pdi_port_receive(port, data, sizeof data, &size, &from), PYDDSI_AGAIN);
}

static uint8_t memory[MEMORY];
static uint8_t got[65536];

/* A packet's content says which it is. */
static void write_packet(uint8_t *at, size_t size, uint32_t number)
{
    for (size_t i = 0; i < size; i++) {
        at[i] = (uint8_t)(number * 31 + i * 7);
    }
}

static void check_packet(const uint8_t *data, size_t size, size_t wanted, uint32_t number)
{
    bool same = size == wanted;
    for (size_t i = 0; same && i < size; i++) {
        same = data[i] == (uint8_t)(number * 31 + i * 7);
    }
    CHECK(same);
}

struct sent {
    size_t size;
    uint32_t number;
};

/* Without it packets of one call could be lost, cut, joined, mixed up or sent to another, with segments or without:
 * sizes and places are drawn so that all borders of what may be joined are met. */
static void test_against_model(void)
{
    struct pdi_port *ports[3];
    pyddsi_endpoint to[3];
    for (int i = 0; i < 3; i++) {
        ports[i] = open_port(i != 1, &to[i]);
    }
    bool cuts = pdi_atomic32_load_relaxed(&ports[0]->segment_below) != 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct pdi_rand rand;
        struct pdi_port_packet packets[PDI_PORT_MANY_MAX];
        struct sent sent[2][PDI_PORT_MANY_MAX];
        uint32_t counts[2] = {0, 0};
        pdi_rand_init(&rand, seed);
        uint32_t count = (uint32_t)pdi_rand_below(&rand, PDI_PORT_MANY_MAX) + 1;
        uint32_t place = 0;
        size_t size = 0;
        size_t at = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (i == 0 || pdi_rand_chance(&rand, 1, 5)) {
                size = pdi_rand_chance(&rand, 1, 20) ? 0 : (size_t)pdi_rand_below(&rand, 1473);
            }
            place = pdi_rand_chance(&rand, 1, 10) ? 1 - place : place;
            at += pdi_rand_chance(&rand, 1, 15); /* not one behind the other */
            packets[i] = (struct pdi_port_packet){memory + at, size, to[1 + place]};
            write_packet(memory + at, size, i);
            sent[place][counts[place]++] = (struct sent){size, i};
            at += size;
        }
        pdi_atomic32_store_relaxed(&ports[0]->segment_below,
                                   cuts && seed % 4 != 0 ? UINT16_MAX : 0);
        ports[0]->many_out = seed % 8 != 0;
        struct pdi_port_result result = pdi_port_send_many(ports[0], packets, count, 0);
        CHECK_EQ(result.full, 0);
        CHECK_EQ(result.failed, 0);
        for (int p = 0; p < 2; p++) {
            for (uint32_t i = 0; i < counts[p]; i++) {
                pyddsi_endpoint from;
                size_t came = next(ports[1 + p], got, sizeof got, &from);
                check_packet(got, came, sent[p][i].size, sent[p][i].number);
                CHECK_EQ(from.port, to[0].port);
            }
            check_empty(ports[1 + p]);
        }
    }
    for (int i = 0; i < 3; i++) {
        pdi_port_close(ports[i]);
    }
}

/* Sends 40 packets of one size and checks that they come. */
static void forty(struct pdi_port *from, struct pdi_port *to, const pyddsi_endpoint *there)
{
    struct pdi_port_packet packets[40];
    for (uint32_t i = 0; i < 40; i++) {
        packets[i] = (struct pdi_port_packet){memory + (size_t)i * 1000, 1000, *there};
        write_packet(memory + (size_t)i * 1000, 1000, i);
    }
    struct pdi_port_result result = pdi_port_send_many(from, packets, 40, LONG);
    CHECK_EQ(result.full, 0);
    CHECK_EQ(result.failed, 0);
    for (uint32_t i = 0; i < 40; i++) {
        pyddsi_endpoint sender;
        check_packet(got, next(to, got, sizeof got, &sender), 1000, i);
    }
    check_empty(to);
}

/* 002-89: without it forty packets would take forty calls where the system can take them at once. */
static void test_calls(void)
{
    pyddsi_endpoint here, there;
    struct pdi_port *from = open_port(1, &here);
    struct pdi_port *to = open_port(1, &there);
    struct pdi_port_calls calls;
    forty(from, to, &there);
    pdi_port_calls(from, &calls);
    if (pdi_atomic32_load_relaxed(&from->segment_below) != 0) { /* Linux 4.18 and later */
        CHECK_EQ(calls.sends, 1);
        CHECK_EQ(calls.joined_out, 40);
    } else {
        CHECK(calls.sends <= 3);
    }
    pdi_atomic32_store_relaxed(&from->segment_below, 0);
    forty(from, to, &there);
    struct pdi_port_calls more;
    pdi_port_calls(from, &more);
    CHECK_EQ(more.joined_out, calls.joined_out);
    CHECK(more.sends - calls.sends <= 3); /* sixteen at once */
    pdi_port_close(from);
    pdi_port_close(to);
}

/* Without it packets would be lost for good on a way that does not take segments, and each call would ask in vain. A
 * socket without checksums is such a way. */
static void test_given_up(void)
{
    pyddsi_endpoint here, there;
    struct pdi_port *from = open_port(1, &here);
    struct pdi_port *to = open_port(1, &there);
    const int one = 1;
    bool cuts = pdi_atomic32_load_relaxed(&from->segment_below) != 0;
    CHECK_EQ(setsockopt(from->sockets[0].fd, SOL_SOCKET, SO_NO_CHECK, &one, sizeof one), 0);
    forty(from, to, &there);
    CHECK(!cuts || pdi_atomic32_load_relaxed(&from->segment_below) <= 1000);
    struct pdi_port_calls before, after;
    pdi_port_calls(from, &before);
    forty(from, to, &there);
    pdi_port_calls(from, &after);
    CHECK_EQ(after.joined_out, before.joined_out);
    CHECK(after.sends - before.sends <= 3);
    pdi_port_close(from);
    pdi_port_close(to);
}

/* Without it one packet that can never leave would keep others from leaving, or not be counted. */
static void test_refused(void)
{
    pyddsi_endpoint here, there;
    struct pdi_port *from = open_port(1, &here);
    struct pdi_port *to = open_port(1, &there);
    pyddsi_endpoint six = {.ip = {[15] = 1}, .port = there.port, .kind = 6};
    pyddsi_endpoint zero = there;
    zero.port = 0;
    struct pdi_port_packet packets[5] = {
        {memory, 10, there}, {memory + 10, 10, six},   {memory + 20, 10, zero},
        {memory, 10, zero},  {memory + 10, 10, there},
    };
    write_packet(memory, 10, 0);
    write_packet(memory + 10, 10, 1);
    struct pdi_port_result result = pdi_port_send_many(from, packets, 5, 0);
    CHECK_EQ(result.failed, 3);
    CHECK_EQ(result.full, 0);
    pyddsi_endpoint sender;
    check_packet(got, next(to, got, sizeof got, &sender), 10, 0);
    check_packet(got, next(to, got, sizeof got, &sender), 10, 1);
    check_empty(to);
    CHECK_EQ(pdi_atomic32_load_relaxed(&from->segment_below),
             pdi_atomic32_load_relaxed(&to->segment_below));
    pdi_port_close(from);
    pdi_port_close(to);
}

struct sender {
    pthread_t thread;
    struct pdi_port *port;
    pyddsi_endpoint to;
    uint32_t name;
    uint32_t lost;
    struct pdi_atomic32 *room; /* packets that may be under way */
};

/* Packets that say who sent them and in which place. */
static void *send_stream(void *context)
{
    struct sender *sender = context;
    uint8_t bytes[20 * 100];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct pdi_port_packet packets[20];
        while ((int32_t)pdi_atomic32_add(sender->room, (uint32_t)-20) < 20) {
            (void)pdi_atomic32_add(sender->room, 20);
            sched_yield();
        }
        for (uint32_t i = 0; i < 20; i++) {
            uint8_t *at = bytes + (size_t)i * 100;
            uint32_t number = round * 20 + i;
            memset(at, 0, 100);
            memcpy(at, &sender->name, 4);
            memcpy(at + 4, &number, 4);
            packets[i] = (struct pdi_port_packet){at, 100, sender->to};
        }
        struct pdi_port_result result = pdi_port_send_many(sender->port, packets, 20, LONG);
        sender->lost += result.full + result.failed;
    }
    return NULL;
}

/* 002-87: without it threads that send by one port at the same time would lose each other's packets, or their order. */
static void test_threads(void)
{
    pyddsi_endpoint here, there;
    struct pdi_port *from = open_port(1, &here);
    struct pdi_port *to = open_port(1, &there);
    struct pdi_atomic32 room;
    struct sender senders[THREADS];
    uint32_t seen[THREADS] = {0};
    pdi_atomic32_store_relaxed(&room, 400);
    for (uint32_t i = 0; i < THREADS; i++) {
        senders[i] = (struct sender){.port = from, .to = there, .name = i, .room = &room};
        CHECK_EQ(pthread_create(&senders[i].thread, NULL, send_stream, &senders[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS * ROUNDS * 20; i++) {
        pyddsi_endpoint sender;
        uint32_t name = 0, number = 0;
        CHECK_EQ(next(to, got, sizeof got, &sender), 100);
        memcpy(&name, got, 4);
        memcpy(&number, got + 4, 4);
        CHECK(name < THREADS && number == seen[name]);
        seen[name < THREADS ? name : 0]++;
        (void)pdi_atomic32_add(&room, 1);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(senders[i].thread, NULL), 0);
        CHECK_EQ(senders[i].lost, 0);
    }
    check_empty(to);
    pdi_port_close(from);
    pdi_port_close(to);
}

/* Without it what a call brought would be written over by the next, or what goes through no inbox would not be received. */
static void test_inbox(void)
{
    pyddsi_endpoint here, there;
    struct pdi_port *from = open_port(1, &here);
    struct pdi_port *to = open_port(1, &there);
    uint32_t packets;
    uint32_t filled = 0;
    size_t size;
    pyddsi_endpoint sender;
    CHECK(pdi_port_has_inbox(to));
    CHECK_EQ(pdi_port_fill(to, &packets), PYDDSI_AGAIN);
    for (uint32_t i = 0; i < 3; i++) {
        const uint8_t *data;
        struct pdi_port_packet packet = {memory, 100, there};
        write_packet(memory, 100, i);
        (void)pdi_port_send_many(from, &packet, 1, LONG);
        while (pdi_port_fill(to, &packets) == PYDDSI_AGAIN) {
            CHECK_EQ(pdi_port_wait(to, LONG), PYDDSI_OK);
        }
        filled += packets;
        CHECK(pdi_port_unpack(to, &data, &size, &sender));
        check_packet(data, size, 100, i);
        CHECK(!pdi_port_unpack(to, &data, &size, &sender));
    }
    CHECK_EQ(filled, 3);
    pdi_port_close(to);
    to = open_port(0, &there); /* and without, what is there is to be received */
    CHECK(!pdi_port_has_inbox(to));
    struct pdi_port_packet packet = {memory, 100, there};
    (void)pdi_port_send_many(from, &packet, 1, LONG);
    while (pdi_port_fill(to, &packets) == PYDDSI_AGAIN) {
        CHECK_EQ(pdi_port_wait(to, LONG), PYDDSI_OK);
    }
    CHECK_EQ(packets, 0);
    CHECK_EQ(pdi_port_receive(to, got, sizeof got, &size, &sender), PYDDSI_OK);
    pdi_port_close(to);
    pdi_port_close(from);
}

/* Without it tests and benchmarks that lose packets would lose none, or all of a call, or change the others. */
static void test_lose(uint8_t many)
{
    pyddsi_endpoint here, there;
    struct pdi_port *from = open_port(1, &here);
    struct pdi_port *to = open_port(many, &there);
    uint32_t came = 0;
    uint32_t broken = 0; /* calls of which some came, and some did not */
    pdi_port_lose(to, 300);
    for (int round = 0; round < 50; round++) {
        struct pdi_port_packet packets[40];
        for (uint32_t i = 0; i < 40; i++) {
            packets[i] = (struct pdi_port_packet){memory + (size_t)i * 100, 100, there};
            write_packet(memory + (size_t)i * 100, 100, i);
        }
        (void)pdi_port_send_many(from, packets, 40, LONG);
        uint32_t before = came;
        uint32_t number = 0;
        pyddsi_endpoint sender;
        size_t size;
        while (pdi_port_receive(to, got, sizeof got, &size, &sender) == PYDDSI_OK) {
            while (number < 40 && memcmp(got, memory + (size_t)number * 100, 100) != 0) {
                number++;
            }
            CHECK(number < 40 && size == 100);
            came++;
            number++;
        }
        broken += came != before && came != before + 40;
    }
    CHECK(came > 1000 && came < 1800);
    CHECK(broken > 25);
    pdi_port_close(from);
    pdi_port_close(to);
}

int main(void)
{
    cpu_set_t may, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof may, &may) == 0) {
        for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++) {
            if (CPU_ISSET(cpu, &may)) {
                CPU_SET(cpu, &one);
            }
        }
        (void)sched_setaffinity(0, sizeof one, &one);
    }
    test_against_model();
    test_calls();
    test_given_up();
    test_refused();
    test_threads();
    test_inbox();
    test_lose(1);
    test_lose(0);
    return test_result();
}
