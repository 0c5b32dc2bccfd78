/* host/streams.h: TCP and Unix sockets on this machine, between two of ours and against bare sockets.
 *
 * What must come is waited for, at the descriptor that the port would wait at; nothing depends on how long that takes. Where
 * a time must be over (patience, pauses), it is made to be over. It is long because each way in which a connection
 * can begin and end has a test of its own.
 */
#define _GNU_SOURCE
#include "host/streams_state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rand.h"
#include "host/clock.h"
#include "test.h"
#include "wire/decode.h"

#define LONG_MS    60000
#define PEERS      4
#define FRAMES     400
#define SEEDS      12
#define THREADS    4
#define PER_THREAD 2000
#define CROWD      80

static char folder[] = P_tmpdir "/pyddsi-streams-XXXXXX";
static char said[400];
static const uint8_t hello[] = {1, 5}; /* what every connection of ours begins with */

/* ---- one side ---- */

struct side {
    struct pdi_streams_options options;
    pyddsi_endpoint peers[PEERS], listen[PEERS];
    char paths[PYDDSI_PATHS_MAX][PYDDSI_PATH_MAX];
    struct pdi_streams *streams;
};

static struct side *side_of(void)
{
    struct side *side = calloc(1, sizeof *side);
    const pyddsi_options reading = {.strictness = PYDDSI_TOLERANT, .seq_bits = 14};
    side->options.peers = side->peers;
    side->options.listen = side->listen;
    side->options.paths = (const char (*)[PYDDSI_PATH_MAX])side->paths;
    memcpy(side->options.greeting, hello, sizeof hello);
    side->options.greeting_size = sizeof hello;
    CHECK_EQ(pdi_reading_init(&side->options.reading, &reading), PYDDSI_OK);
    return side;
}

static pyddsi_endpoint tcp4(uint16_t port)
{
    return (pyddsi_endpoint){.kind = PDI_STREAM_TCP4, .ip = {127, 0, 0, 1}, .port = port};
}

/* The Unix socket of this name in the test's folder, or with @ an abstract one. */
static pyddsi_endpoint at_path(struct side *side, const char *name)
{
    uint16_t at = 0;
    char path[PYDDSI_PATH_MAX];
    while (side->paths[at][0] != 0) {
        at++;
    }
    if (name[0] == '@') {
        snprintf(path, sizeof path, "%s-%d", name, getpid());
    } else {
        snprintf(path, sizeof path, "%s/%s", folder, name);
    }
    memcpy(side->paths[at], path, sizeof path);
    return (pyddsi_endpoint){.kind = PDI_STREAM_UNIX, .port = at};
}

static void opened(struct side *side)
{
    said[0] = 0;
    CHECK_EQ(pdi_streams_open(&side->streams, &side->options, said, sizeof said), PYDDSI_OK);
    CHECK_TEXT(said, "");
    if (side->streams == NULL) { /* nothing that follows would make sense */
        exit(test_result());
    }
}

static void closed(struct side *side)
{
    pdi_streams_close(side->streams);
    side->streams = NULL;
}

static void gone(struct side *side)
{
    closed(side);
    free(side);
}

static struct side *listening(void)
{
    struct side *side = side_of();
    side->listen[side->options.listen_count++] = tcp4(0);
    opened(side);
    return side;
}

static struct pdi_streams_counts counts_of(struct side *side)
{
    struct pdi_streams_counts counts;
    pdi_streams_count(side->streams, &counts);
    return counts;
}

/* Waits until one of two has something to do; the other may be null. */
static void wait_for(struct side *one, struct side *other)
{
    struct pollfd both[2] = {{pdi_streams_fd(one->streams), POLLIN, 0},
                             {other != NULL ? pdi_streams_fd(other->streams) : -1, POLLIN, 0}};
    if (!pdi_streams_waiting(one->streams) &&
        (other == NULL || !pdi_streams_waiting(other->streams))) {
        if (poll(both, 2, LONG_MS) == 0) {
            printf("nothing has come for a minute\n");
            exit(1);
        }
    }
}

static uint8_t packet[PDI_FRAME_MAX + 1];
static size_t packet_size;
static pyddsi_endpoint packet_from;

/* The next packet, or the end of a connection; the other side does what it has to do meanwhile, and gets nothing. */
static void take(struct side *side, struct side *other)
{
    uint8_t none[4];
    size_t size;
    pyddsi_endpoint from;
    while (pdi_streams_receive(side->streams, packet, sizeof packet, &packet_size, &packet_from) !=
           PYDDSI_OK) {
        if (other != NULL) {
            CHECK_EQ(pdi_streams_receive(other->streams, none, sizeof none, &size, &from),
                     PYDDSI_AGAIN);
        }
        wait_for(side, other);
    }
}

static void take_hello(struct side *side, struct side *other)
{
    take(side, other);
    CHECK_EQ(packet_size, sizeof hello);
    CHECK_EQ(memcmp(packet, hello, sizeof hello), 0);
}

/* Everything that is to be done now, and there must be no packet. */
static void quiet(struct side *side)
{
    CHECK_EQ(pdi_streams_receive(side->streams, packet, sizeof packet, &packet_size, &packet_from),
             PYDDSI_AGAIN);
}

static int send_to(struct side *side, pyddsi_endpoint to, const void *data, size_t size)
{
    return pdi_streams_send(side->streams, &to, data, size, false);
}

/* Makes the time of all connections in this state be over. */
static void hurry(struct side *side, enum pdi_stream_state state)
{
    struct pdi_streams *streams = side->streams;
    uint32_t found = 0;
    for (uint32_t i = 0; i < PDI_STREAMS_MAX; i++) {
        if (streams->links[i].state == state) {
            streams->links[i].due = pdi_clock_now();
            streams->armed = PDI_TIME_NEVER;
            pdi_stream_arm(streams, streams->links[i].due);
            found++;
        }
    }
    CHECK(found != 0);
}

/* ---- a bare socket ---- */

static int bare(const struct side *side)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(side->listen[0].port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void say(int fd, const void *data, size_t size)
{
    CHECK_EQ(send(fd, data, size, MSG_NOSIGNAL), (ssize_t)size);
}

/* Reads until so many bytes are there; answers how many there are, fewer at an end. */
static size_t hear(int fd, uint8_t *data, size_t size)
{
    size_t at = 0;
    ssize_t got = 1;
    while (at < size && got > 0) {
        got = recv(fd, data + at, size - at, 0);
        at += got > 0 ? (size_t)got : 0;
    }
    return at;
}

/* A bare socket that has been heard, so that it can be spoken to. */
static int bare_live(struct side *side, pyddsi_endpoint *where)
{
    const uint8_t frame[] = {2, 1, 5};
    int fd = bare(side);
    say(fd, frame, sizeof frame);
    take_hello(side, NULL);
    *where = packet_from;
    return fd;
}

/* ---- talking ---- */

/* What two of ours say to each other, at whatever address. */
static void talk(struct side *one, struct side *other, pyddsi_endpoint to)
{
    static const size_t sizes[] = {1, 127, 128, 1472, PDI_FRAME_MAX};
    static uint8_t data[PDI_FRAME_MAX];
    take_hello(one, other);
    pyddsi_endpoint back = packet_from;
    CHECK(pdi_stream_is(&back));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(data, (int)i + 1, sizeof data);
        data[0] = 7;
        CHECK_EQ(send_to(one, back, data, sizes[i]), PYDDSI_OK);
        take(other, NULL);
        CHECK_EQ(packet_size, sizes[i]);
        CHECK_EQ(memcmp(packet, data, sizes[i]), 0);
        CHECK(pdi_stream_same(&packet_from, &to));
        CHECK_EQ(send_to(other, to, data, sizes[i]), PYDDSI_OK);
        take(one, NULL);
        CHECK_EQ(packet_size, sizes[i]);
        CHECK(pdi_stream_same(&packet_from, &back));
    }
    CHECK_EQ(send_to(one, back, data, PDI_FRAME_MAX + 1), -EMSGSIZE);
    CHECK_EQ(send_to(one, back, data, 0), -EMSGSIZE);
}

/* Packets through TCP would change, be cut, or come from another address than they are answered to. */
static void test_tcp(void)
{
    struct side *one = listening();
    struct side *other = side_of();
    CHECK(one->listen[0].port != 0);
    other->peers[other->options.peer_count++] = one->listen[0];
    opened(other);
    talk(one, other, one->listen[0]);
    CHECK_EQ(counts_of(one).accepted, 1);
    CHECK_EQ(counts_of(other).made, 1);
    CHECK_EQ(counts_of(one).live, 1);
    CHECK_EQ(counts_of(other).live, 1);
    CHECK_EQ(send_to(one, tcp4(1), "x", 1), -ENOTCONN);
    gone(other);
    gone(one);
}

/* IPv6, and Unix sockets by path and by abstract name, would do what TCP over IPv4 does not. */
static void test_other_kinds(void)
{
    for (int kind = 0; kind < 3; kind++) {
        struct side *one = side_of();
        struct side *other = side_of();
        one->listen[one->options.listen_count++] =
            kind == 0 ? (pyddsi_endpoint){.kind = PDI_STREAM_TCP6, .ip = {[15] = 1}}
                      : at_path(one, kind == 1 ? "talk" : "@talk");
        opened(one);
        (void)at_path(other, "unused");
        other->peers[other->options.peer_count++] =
            kind == 0 ? one->listen[0] : at_path(other, kind == 1 ? "talk" : "@talk");
        opened(other);
        talk(one, other, other->peers[0]);
        if (kind != 0) { /* whose process it is, and which of our paths it came by */
            pid_t who = 0;
            for (int i = 0; i < 4; i++) {
                who = who << 8 | one->streams->links[0].where.ip[i];
            }
            CHECK_EQ(who, getpid());
            CHECK_EQ(one->streams->links[0].where.port, 0);
            CHECK_EQ(other->peers[0].port, 1);
        }
        gone(other);
        gone(one);
    }
}

/* What is sent to the address that says nothing would not reach all who are there, once each. */
static void test_all(void)
{
    struct side *one = listening();
    pyddsi_endpoint everybody = {.kind = PDI_STREAM_TCP4};
    int fds[3];
    for (int i = 0; i < 3; i++) {
        pyddsi_endpoint where;
        fds[i] = bare_live(one, &where);
    }
    int silent = bare(one); /* who has said nothing is not spoken to */
    quiet(one);
    CHECK_EQ(send_to(one, everybody, hello, sizeof hello), PYDDSI_OK);
    for (int i = 0; i < 3; i++) {
        uint8_t got[3];
        CHECK_EQ(hear(fds[i], got, sizeof got), sizeof got);
        CHECK_EQ(got[0], 2);
        close(fds[i]);
    }
    uint8_t byte;
    CHECK_EQ(recv(silent, &byte, 1, MSG_DONTWAIT), -1);
    close(silent);
    gone(one);
}

/* ---- frames ---- */

/* 002-116: a stream that is cut at any byte would give other packets. */
static void test_cut_anywhere(void)
{
    static const uint8_t stream[] = {2, 1, 5, 0x82, 0, 1, 4, 1, 1, 3, 1, 2, 3};
    static const size_t sizes[] = {2, 2, 1, 3}, ends[] = {3, 7, 9, 13};
    for (size_t cut = 1; cut < sizeof stream; cut++) {
        struct side *one = listening();
        int fd = bare(one);
        quiet(one);
        say(fd, stream, cut);
        size_t got = 0;
        for (; got < 4 && ends[got] <= cut; got++) {
            take(one, NULL);
            CHECK_EQ(packet_size, sizes[got]);
        }
        quiet(one);
        say(fd, stream + cut, sizeof stream - cut);
        for (; got < 4; got++) {
            take(one, NULL);
            CHECK_EQ(packet_size, sizes[got]);
        }
        close(fd);
        gone(one);
    }
}

/* 002-116: after a length of 0, messages without frames would not be told apart. */
static void test_unframed(void)
{
    static const uint8_t stream[] = {2, 1, 5, 0, 1, 5, 12, 7, 12, 8, 0x93, 0x67, 0, 2, 1, 9};
    static const size_t sizes[] = {2, 2, 2, 2, 6};
    struct side *one = listening();
    int fd = bare(one);
    for (size_t at = 0; at < sizeof stream; at++) {
        say(fd, stream + at, 1);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        take(one, NULL);
        CHECK_EQ(packet_size, sizes[i]);
    }
    close(fd);
    take(one, NULL);
    CHECK_EQ(packet_size, 0);
    gone(one);
}

/* 002-24: an end in the middle of a frame would give a part of a packet, or none would tell of it, or nobody be let in after. */
static void test_truncated(void)
{
    static const uint8_t half[] = {2, 1, 5, 5, 1, 2};
    struct side *one = listening();
    for (int again = 0; again < 3; again++) {
        int fd = bare(one);
        say(fd, half, sizeof half);
        close(fd);
        take_hello(one, NULL);
        pyddsi_endpoint where = packet_from;
        take(one, NULL);
        CHECK_EQ(packet_size, 0);
        CHECK(pdi_stream_same(&packet_from, &where));
        CHECK_EQ(counts_of(one).broken, again + 1);
        CHECK_EQ(counts_of(one).live, 0);
    }
    int fd = bare_live(one, &packet_from);
    close(fd);
    take(one, NULL);
    CHECK_EQ(packet_size, 0);
    CHECK_EQ(counts_of(one).broken, 3); /* an end between frames is no fault */
    gone(one);
}

/* Bytes that are no frames would end another connection than their own, or not that one. */
static void test_hostile(void)
{
    static const uint8_t bad[][4] = {{0x80, 0x80, 1, 0}, {0xff, 0xff, 0xff, 0xff}, {0, 0xff, 0, 0}};
    struct side *one = listening();
    pyddsi_endpoint good, evil;
    int friend = bare_live(one, &good);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int fd = bare_live(one, &evil);
        say(fd, bad[i], sizeof bad[i]);
        take(one, NULL);
        CHECK_EQ(packet_size, 0);
        CHECK(pdi_stream_same(&packet_from, &evil));
        CHECK_EQ(counts_of(one).broken, i + 1);
        uint8_t byte;
        CHECK(recv(fd, &byte, 1, 0) <= 0);
        close(fd);
        CHECK_EQ(send_to(one, evil, "x", 1), -ENOTCONN);
    }
    const uint8_t frame[] = {1, 9};
    say(friend, frame, sizeof frame);
    take(one, NULL);
    CHECK_EQ(packet_size, 1);
    CHECK_EQ(send_to(one, good, hello, sizeof hello), PYDDSI_OK);
    close(friend);
    gone(one);
}

/* A packet that is larger than the room for it would be written beyond it, or not be told. */
static void test_small_room(void)
{
    static const uint8_t frame[] = {5, 1, 2, 3, 4, 5, 1, 6};
    struct side *one = listening();
    int fd = bare(one);
    uint8_t room[4] = {0, 0, 0, 77};
    say(fd, frame, sizeof frame);
    while (pdi_streams_receive(one->streams, room, 3, &packet_size, &packet_from) != PYDDSI_OK) {
        wait_for(one, NULL);
    }
    CHECK_EQ(packet_size, 5);
    CHECK_EQ(room[2], 3);
    CHECK_EQ(room[3], 77);
    take(one, NULL);
    CHECK_EQ(packet_size, 1);
    CHECK_EQ(packet[0], 6);
    close(fd);
    gone(one);
}

/* A connection by which much comes would keep others from their turn. */
static void test_turns(void)
{
    struct side *one = listening();
    pyddsi_endpoint where[2];
    uint8_t frames[100];
    int fds[2] = {bare_live(one, &where[0]), bare_live(one, &where[1])};
    memset(frames, 1, sizeof frames); /* packets of one byte */
    int changes = 0; /* both must be read at once, which a busy system may put off */
    for (int tries = 0; changes < 40 && tries < 1000; tries++) {
        say(fds[0], frames, sizeof frames);
        say(fds[1], frames, sizeof frames);
        changes = 0;
        pyddsi_endpoint before = where[0];
        for (size_t i = 0; i < sizeof frames; i++) {
            take(one, NULL);
            changes += !pdi_stream_same(&packet_from, &before);
            before = packet_from;
        }
    }
    CHECK(changes >= 40);
    close(fds[0]);
    close(fds[1]);
    gone(one);
}

/* ---- who does not read ---- */

/* A peer that does not read would hold up others, or be sent parts of packets, or nobody would know what it lost. */
static void test_never_reads(void)
{
    struct side *one = listening();
    pyddsi_endpoint deaf, other;
    int fd = bare_live(one, &deaf);
    int good = bare_live(one, &other);
    static uint8_t data[1000];
    uint32_t sent = 0;
    data[0] = 7;
    for (;; sent++) {
        memcpy(data + 1, &sent, sizeof sent);
        if (send_to(one, deaf, data, sizeof data) != PYDDSI_OK) {
            break;
        }
    }
    CHECK(sent * 1002 >= PDI_STREAM_OUT_BYTES);
    CHECK_EQ(counts_of(one).full, 1);
    for (uint32_t i = 0; i < 100; i++) {
        CHECK_EQ(send_to(one, deaf, data, sizeof data), PYDDSI_AGAIN);
        CHECK_EQ(send_to(one, other, data, sizeof data), PYDDSI_OK);
        uint8_t got[1002];
        CHECK_EQ(hear(good, got, sizeof got), sizeof got);
    }
    CHECK_EQ(counts_of(one).full, 101);
    for (uint32_t i = 0; i < sent; i++) { /* now it reads: every packet is whole, in order */
        uint8_t got[1002];
        uint32_t number;
        size_t size = 0;
        while (size < sizeof got) {
            ssize_t more = recv(fd, got + size, sizeof got - size, MSG_DONTWAIT);
            size += more > 0 ? (size_t)more : 0;
            if (more < 0) {
                quiet(one);
            }
        }
        memcpy(&number, got + 3, sizeof number);
        CHECK_EQ(number, i);
        if (number != i) {
            break;
        }
    }
    CHECK_EQ(send_to(one, deaf, data, sizeof data), PYDDSI_OK);
    close(fd);
    close(good);
    gone(one);
}

/* Packets that wait for the next one would be lost when there are many of them, or not leave with the last. */
static void test_together(void)
{
    struct side *one = listening();
    pyddsi_endpoint where;
    int fd = bare_live(one, &where);
    static uint8_t data[1000] = {7};
    static uint8_t got[1002];
    const uint32_t count = 2 * PDI_STREAM_OUT_BYTES / sizeof data;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(data + 1, &i, sizeof i);
        CHECK_EQ(pdi_streams_send(one->streams, &where, data, sizeof data, i + 1 < count),
                 PYDDSI_OK);
        if (i == 0) {
            CHECK_EQ(recv(fd, got, 1, MSG_DONTWAIT), -1); /* it waits */
        }
        while (i % 400 == 399 && recv(fd, got, sizeof got, MSG_DONTWAIT | MSG_PEEK) < 0) {
            quiet(one); /* by now some of them had no room to wait */
            if (i < PDI_STREAM_OUT_BYTES / sizeof got) {
                break;
            }
        }
    }
    CHECK_EQ(counts_of(one).full, 0);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number;
        size_t size = 0;
        while (size < sizeof got) {
            ssize_t more = recv(fd, got + size, sizeof got - size, MSG_DONTWAIT);
            size += more > 0 ? (size_t)more : 0;
            if (more < 0) {
                quiet(one);
            }
        }
        memcpy(&number, got + 3, sizeof number);
        CHECK_EQ(number, i);
    }
    close(fd);
    gone(one);
}

/* ---- beginnings and ends ---- */

/* A peer that is called before it listens, or has gone and come back, would not be called again; or at once and for ever, if it
 * answers and then refuses each time. */
static void test_again(void)
{
    for (int kind = 0; kind < 2; kind++) {
        struct side *one = listening(); /* to have a port that is free */
        struct side *other = side_of();
        one->listen[0] = kind == 0 ? one->listen[0] : at_path(one, "again");
        other->peers[other->options.peer_count++] =
            kind == 0 ? one->listen[0] : at_path(other, "again");
        closed(one);
        opened(other);
        while (counts_of(other).failed == 0) {
            quiet(other);
            wait_for(other, NULL);
        }
        uint32_t pause = 2 * PDI_STREAM_PAUSE_MS;
        CHECK_EQ(other->streams->links[0].pause_ms, pause);
        for (int times = 0; times < 12; times++) {
            bool lasts = times == 8;
            opened(one);
            hurry(other, PDI_STREAM_WAITING);
            take_hello(one, other);
            pyddsi_endpoint back = packet_from;
            CHECK_EQ(send_to(one, back, hello, sizeof hello), PYDDSI_OK);
            take_hello(other, NULL);
            other->streams->links[0].since -= lasts ? PDI_STREAM_PATIENCE : 0;
            closed(one); /* as after a kill: the system closes */
            take(other, NULL);
            CHECK_EQ(packet_size, 0);
            CHECK(pdi_stream_same(&packet_from, &other->peers[0]));
            CHECK_EQ(send_to(other, other->peers[0], hello, sizeof hello), -ENOTCONN);
            pause = lasts ? 2 * PDI_STREAM_PAUSE_MS : 2 * pause;
            pause = pause < PDI_STREAM_PAUSE_MAX_MS ? pause : PDI_STREAM_PAUSE_MAX_MS;
            CHECK_EQ(other->streams->links[0].pause_ms, pause);
        }
        CHECK_EQ(counts_of(other).made, 12);
        gone(other);
        gone(one);
    }
}

/* A greeting would not connect to where a peer is that others have told of; or anything that is sent would, again and again, and in
 * the place of those who connect to us. */
static void test_calls(void)
{
    struct side *one = listening();
    struct side *other = listening();
    pyddsi_endpoint to = one->listen[0];
    CHECK_EQ(send_to(other, to, "x", 1), -ENOTCONN);
    CHECK_EQ(send_to(other, to, hello, sizeof hello), PYDDSI_OK);
    CHECK_EQ(send_to(other, to, hello, sizeof hello), -ENOTCONN); /* it is being made */
    talk(one, other, to);
    CHECK_EQ(counts_of(other).made, 1);
    closed(one); /* its end is told, and it is not made again */
    take(other, NULL);
    CHECK_EQ(packet_size, 0);
    CHECK_EQ(counts_of(other).live, 0);
    CHECK_EQ(send_to(other, to, hello, sizeof hello), PYDDSI_OK);
    while (counts_of(other).failed == 0) {
        quiet(other);
        wait_for(other, NULL);
    }
    for (uint32_t i = 0; i < PDI_STREAMS_MAX; i++) {
        CHECK_EQ(other->streams->links[i].state, PDI_STREAM_FREE);
    }
    for (uint16_t port = 1; port <= PDI_STREAM_CALLS_MAX; port++) {
        CHECK_EQ(send_to(other, tcp4(port), hello, sizeof hello), PYDDSI_OK);
    }
    CHECK_EQ(send_to(other, tcp4(999), hello, sizeof hello), -ENOTCONN);
    gone(other);
    free(one);
}

/* One that listens and says nothing would keep the place of others for a minute. */
static void test_call_unheard(void)
{
    struct side *one = listening();
    struct side *other = listening();
    CHECK_EQ(send_to(other, one->listen[0], hello, sizeof hello), PYDDSI_OK);
    while (counts_of(other).live == 0) {
        quiet(other);
        wait_for(other, NULL);
    }
    CHECK(other->streams->links[0].due <= pdi_clock_now() + PDI_STREAM_PATIENCE);
    hurry(other, PDI_STREAM_LIVE);
    take(other, NULL);
    CHECK_EQ(packet_size, 0);
    CHECK_EQ(counts_of(other).live, 0);
    gone(other);
    gone(one);
}

/* Attempts that fail would come as fast as they can, or ever more seldom without an end. */
static void test_pauses(void)
{
    struct side *one = side_of();
    one->peers[one->options.peer_count++] = at_path(one, "nobody");
    one->peers[one->options.peer_count++] = one->peers[0]; /* equal ones are one */
    opened(one);
    CHECK_EQ(one->streams->ours, 1);
    for (uint32_t i = 1; i <= 10; i++) {
        struct pdi_stream_link *link = &one->streams->links[0];
        uint32_t pause = PDI_STREAM_PAUSE_MS << (i - 1);
        pause = pause < PDI_STREAM_PAUSE_MAX_MS ? pause : PDI_STREAM_PAUSE_MAX_MS;
        CHECK_EQ(counts_of(one).failed, i);
        CHECK_EQ(link->state, PDI_STREAM_WAITING);
        CHECK(link->due + PDI_TIME_S > pdi_clock_now() + pause * PDI_TIME_MS);
        hurry(one, PDI_STREAM_WAITING);
        while (counts_of(one).failed == i) {
            wait_for(one, NULL);
            quiet(one);
        }
    }
    gone(one);
}

/* Behind a CLOSE something else would be said, or the connection stay; or what was sent before it be lost. */
static void test_close(void)
{
    static const uint8_t bye[] = {5, 1, 7, 0};
    struct side *one = listening();
    struct side *other = side_of();
    other->peers[other->options.peer_count++] = one->listen[0];
    opened(other);
    take_hello(one, other);
    pyddsi_endpoint back = packet_from;
    CHECK_EQ(send_to(one, back, hello, sizeof hello), PYDDSI_OK);
    CHECK_EQ(send_to(one, back, bye, sizeof bye), PYDDSI_OK);
    CHECK_EQ(send_to(one, back, hello, sizeof hello), -ENOTCONN);
    take_hello(other, NULL);
    take(other, NULL);
    CHECK_EQ(packet_size, sizeof bye);
    take(other, NULL);
    CHECK_EQ(packet_size, 0);
    take(one, other);
    CHECK_EQ(packet_size, 0);
    CHECK(pdi_stream_same(&packet_from, &back));
    CHECK_EQ(counts_of(one).live, 0);
    hurry(other, PDI_STREAM_WAITING);
    take_hello(one, other); /* and it is made again */
    gone(other);
    gone(one);
}

/* Who neither closes after our CLOSE nor reads it would be waited for. */
static void test_close_unheard(void)
{
    static const uint8_t bye[] = {5, 1, 7, 0};
    static const uint8_t more[] = {2, 1, 5};
    static uint8_t data[1000] = {7};
    struct side *one = listening();
    pyddsi_endpoint where;
    for (int full = 0; full < 2; full++) {
        int fd = bare_live(one, &where);
        while (full && send_to(one, where, data, sizeof data) == PYDDSI_OK) {
        }
        struct pdi_stream_link *link = &one->streams->links[0];
        link->out_end -= full ? 2000 : 0; /* there is room for a word of farewell */
        CHECK_EQ(send_to(one, where, bye, sizeof bye), PYDDSI_OK);
        CHECK_EQ(send_to(one, where, "x", 1), -ENOTCONN);
        say(fd, more, sizeof more);
        hurry(one, full ? PDI_STREAM_LIVE : PDI_STREAM_CLOSING);
        do {
            take(one, NULL); /* in the one case the last word is still heard */
        } while (packet_size != 0);
        CHECK_EQ(counts_of(one).live, 0);
        CHECK_EQ(link->state, PDI_STREAM_FREE);
        close(fd);
    }
    gone(one);
}

/* Who connects and is silent, at first or later, would take up a place for ever. */
static void test_patience(void)
{
    struct side *one = listening();
    int fd = bare(one);
    while (counts_of(one).accepted == 0) {
        wait_for(one, NULL);
        quiet(one);
    }
    CHECK(one->streams->links[0].due > pdi_clock_now());
    CHECK(one->streams->links[0].due <= pdi_clock_now() + PDI_STREAM_PATIENCE);
    hurry(one, PDI_STREAM_FRESH);
    uint8_t byte;
    while (counts_of(one).refused == 0) {
        wait_for(one, NULL);
        quiet(one);
    }
    CHECK_EQ(recv(fd, &byte, 1, 0), 0);
    close(fd);
    pyddsi_endpoint where;
    fd = bare_live(one, &where);
    CHECK(one->streams->links[0].due > pdi_clock_now() + PDI_STREAM_PATIENCE);
    hurry(one, PDI_STREAM_LIVE);
    take(one, NULL);
    CHECK_EQ(packet_size, 0);
    close(fd);
    gone(one);
}

/* More connections than there is room for would push out others, or their places never be free again. */
static void test_crowd(void)
{
    struct side *one = listening();
    int fds[CROWD];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < CROWD; i++) {
            fds[i] = bare(one);
            const uint8_t frame[] = {2, 1, 5};
            (void)send(fds[i], frame, sizeof frame, MSG_NOSIGNAL);
            if ((uint32_t)i < PDI_STREAMS_MAX) {
                take_hello(one, NULL);
            }
        }
        while (counts_of(one).refused < (CROWD - PDI_STREAMS_MAX) * (uint32_t)(round + 1)) {
            wait_for(one, NULL);
            quiet(one);
        }
        CHECK_EQ(counts_of(one).live, PDI_STREAMS_MAX);
        for (int i = 0; i < CROWD; i++) {
            close(fds[i]);
        }
        for (uint32_t i = 0; i < PDI_STREAMS_MAX; i++) {
            take(one, NULL);
            CHECK_EQ(packet_size, 0);
        }
        CHECK_EQ(counts_of(one).live, 0);
    }
    gone(one);
}

/* Two connections with one name, to two of our ports from one of theirs: what is sent to that name would go to either. */
static void test_one_name(void)
{
    struct side *one = side_of();
    int fds[2], on = 1;
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t size = sizeof here;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    one->listen[one->options.listen_count++] = tcp4(0);
    one->listen[one->options.listen_count++] = tcp4(0);
    opened(one);
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in to = here;
        const uint8_t frame[] = {2, 1, 5};
        to.sin_port = htons(one->listen[i].port);
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        CHECK_EQ(setsockopt(fds[i], SOL_SOCKET, SO_REUSEPORT, &on, sizeof on), 0);
        CHECK_EQ(bind(fds[i], (struct sockaddr *)&here, sizeof here), 0);
        CHECK_EQ(getsockname(fds[i], (struct sockaddr *)&here, &size), 0);
        CHECK_EQ(connect(fds[i], (struct sockaddr *)&to, sizeof to), 0);
        (void)send(fds[i], frame, sizeof frame, MSG_NOSIGNAL);
        if (i == 0) {
            take_hello(one, NULL);
        }
    }
    while (counts_of(one).refused == 0) {
        wait_for(one, NULL);
        quiet(one);
    }
    CHECK_EQ(counts_of(one).live, 1);
    CHECK_EQ(send_to(one, packet_from, hello, sizeof hello), PYDDSI_OK);
    uint8_t got[3];
    CHECK_EQ(hear(fds[0], got, sizeof got), sizeof got);
    close(fds[0]);
    close(fds[1]);
    gone(one);
}

/* Where no descriptor is left, nobody would be let in any more, or the thread run in a circle. */
static void test_descriptors(void)
{
    struct side *one = listening();
    struct rlimit before, none;
    int fd = bare(one);
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    while (counts_of(one).refused == 0) {
        wait_for(one, NULL);
        quiet(one);
    }
    setrlimit(RLIMIT_NOFILE, &before);
    struct pollfd idle = {pdi_streams_fd(one->streams), POLLIN, 0};
    one->streams->listener[0].shortage += 1000 * PDI_TIME_S;
    one->streams->armed = 0; /* not before it is hurried */
    for (int i = 0; i < 3 && poll(&idle, 1, 0) != 0; i++) {
        quiet(one);
    }
    CHECK_EQ(counts_of(one).refused, 1);
    one->streams->listener[0].shortage = pdi_clock_now();
    one->streams->armed = PDI_TIME_NEVER;
    pdi_stream_arm(one->streams, one->streams->listener[0].shortage);
    while (counts_of(one).accepted == 0) {
        wait_for(one, NULL);
        quiet(one);
    }
    close(fd);
    gone(one);
}

/* ---- opening ---- */

/* Opens what cannot be opened; the text must hold `word`. */
static void refuse(struct side *side, int code, const char *word)
{
    int before = dup(0);
    close(before);
    CHECK_EQ(pdi_streams_open(&side->streams, &side->options, said, sizeof said), -code);
    CHECK(side->streams == NULL);
    int after = dup(0);
    close(after);
    CHECK_EQ(after, before); /* nothing was left open */
    if (strstr(said, word) == NULL) {
        CHECK_TEXT(said, word);
    }
}

static void test_refused(void)
{
    /* What cannot be listened at would be told as something else, or not be told what to do. */
    struct side *one = listening();
    struct side *other = side_of();
    char path[PYDDSI_PATH_MAX + 8];
    other->options.listen_count = 1;
    other->listen[0] = one->listen[0];
    refuse(other, EADDRINUSE, "is in use by another program: end that, or choose another port");
    other->listen[0] = (pyddsi_endpoint){.kind = PDI_STREAM_TCP4, .ip = {192, 0, 2, 1}, .port = 1};
    refuse(other, EADDRNOTAVAIL, "tcp/192.0.2.1:1: no interface of this machine has this address");
    other->listen[0] = at_path(other, "no/folder");
    refuse(other, ENOENT, "there is no such folder: make it");
    other->listen[0] = at_path(other, "file");
    snprintf(path, sizeof path, "%s/file", folder);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    refuse(other, EEXIST, "a file that is no socket");
    CHECK_EQ(unlink(path), 0);
    other->listen[0] = (pyddsi_endpoint){.kind = PDI_STREAM_UNIX, .port = PYDDSI_PATHS_MAX};
    refuse(other, EINVAL, "there is no path 24");
    other->options.listen_count = PDI_STREAMS_LISTEN_MAX + 1;
    refuse(other, EINVAL, "at most 8");
    gone(other);
    gone(one);
}

/* No permission would be told as something else. */
static void test_permission(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct side *one = side_of();
        (void)!chmod(folder, 0500);
        (void)!setuid(65534); /* root may write anywhere */
        one->listen[one->options.listen_count++] = at_path(one, "mine");
        refuse(one, EACCES, "no permission: choose a path in a folder that this user may write to");
        free(one);
        fflush(stdout);
        _exit(test_failures != 0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    CHECK_EQ(chmod(folder, 0700), 0);
}

/* A socket file that was left behind would be in the way of the next start, or a living one be taken away. */
static void test_files(void)
{
    struct stat found;
    char path[PYDDSI_PATH_MAX];
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) { /* is killed while it listens */
        struct side *one = side_of();
        one->listen[one->options.listen_count++] = at_path(one, "left");
        opened(one);
        raise(SIGKILL);
    }
    waitpid(child, NULL, 0);
    struct side *one = side_of(), *other = side_of();
    one->listen[one->options.listen_count++] = at_path(one, "left");
    other->listen[other->options.listen_count++] = at_path(other, "left");
    memcpy(path, one->paths[0], sizeof path);
    CHECK_EQ(lstat(path, &found), 0);
    opened(one);
    refuse(other, EADDRINUSE, "choose another path");
    child = fork();
    if (child == 0) { /* a child that closes what it has inherited leaves the file alone */
        closed(one);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    CHECK_EQ(lstat(path, &found), 0);
    closed(one);
    CHECK_EQ(lstat(path, &found), -1); /* nothing is left behind */
    opened(one);
    CHECK_EQ(unlink(path), 0);
    opened(other);
    closed(one);
    CHECK_EQ(lstat(path, &found), 0); /* that one is another's */
    one->listen[0] = at_path(one, "@left");
    opened(one);
    closed(other);
    other->listen[0] = at_path(other, "@left");
    refuse(other, EADDRINUSE, "is in use by another program");
    gone(other);
    gone(one);
}

/* A port whose last connections the system still remembers could not be listened at again. */
static void test_port_again(void)
{
    struct side *one = listening();
    pyddsi_endpoint where;
    int fd = bare_live(one, &where);
    closed(one); /* our side closes first, and so it is the one that the system remembers */
    close(fd);
    opened(one);
    gone(one);
}

/* ---- many, at random ---- */

/* Whatever is sent through full and empty sockets, in whatever pieces it arrives: each connection would give other packets
 * than were put into it, or in another order. */
static void test_random(void)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct pdi_rand rand;
        pdi_rand_init(&rand, seed);
        struct side *one = listening();
        int fds[PEERS];
        pyddsi_endpoint where[PEERS];
        uint32_t put[PEERS] = {0}, got[PEERS] = {0};
        static uint8_t data[PDI_FRAME_MAX], in[PEERS][1 << 17];
        size_t have[PEERS] = {0};
        for (int i = 0; i < PEERS; i++) {
            fds[i] = bare_live(one, &where[i]);
        }
        for (uint32_t step = 0; step < FRAMES * 20; step++) {
            int i = (int)pdi_rand_below(&rand, PEERS);
            bool fill = step < FRAMES * 10;
            if (fill && pdi_rand_below(&rand, 3) != 0) {
                size_t size = 5 + pdi_rand_below(&rand, pdi_rand_below(&rand, 2) ? 200 : 16000);
                memset(data, (int)(put[i] & 0xff), size);
                data[0] = 7;
                memcpy(data + 1, &put[i], 4);
                bool more = pdi_rand_below(&rand, 3) == 0;
                put[i] += pdi_streams_send(one->streams, &where[i], data, size, more) == PYDDSI_OK;
            } else {
                ssize_t more =
                    recv(fds[i], in[i] + have[i],
                         1 + pdi_rand_below(&rand, sizeof in[i] - (uint32_t)have[i]), MSG_DONTWAIT);
                have[i] += more > 0 ? (size_t)more : 0;
                if (pdi_rand_below(&rand, 2) == 0) {
                    quiet(one);
                }
            }
            pyddsi_stream framing;
            pyddsi_bytes frame;
            size_t used, need, at = 0;
            pdi_stream_init(&framing, &one->options.reading, 0);
            while (pdi_stream_next(&framing, in[i] + at, have[i] - at, &frame, &used, &need) ==
                   PYDDSI_OK) {
                uint32_t number;
                memcpy(&number, frame.data + 1, 4);
                CHECK_EQ(number, got[i]++);
                CHECK(frame.size == 5 || frame.data[frame.size - 1] == (number & 0xff));
                at += used;
            }
            CHECK_EQ(framing.broken, 0);
            memmove(in[i], in[i] + at, have[i] - at);
            have[i] -= at;
        }
        for (int i = 0; i < PEERS; i++) {
            CHECK(put[i] != 0);
            CHECK(got[i] + 64 >= put[i] || counts_of(one).full != 0);
            close(fds[i]);
        }
        gone(one);
    }
}

struct sender {
    pthread_t thread;
    struct side *side;
    pyddsi_endpoint to;
    uint8_t number;
};

static void *send_many(void *context)
{
    struct sender *sender = context;
    uint8_t data[300];
    for (uint32_t i = 0; i < PER_THREAD; i++) {
        size_t size = 6 + i % 290;
        memset(data, sender->number, size);
        data[0] = 7;
        memcpy(data + 2, &i, 4);
        bool more = i % 3 != 0 && i + 1 < PER_THREAD;
        while (pdi_streams_send(sender->side->streams, &sender->to, data, size, more) ==
               PYDDSI_AGAIN) {
            sched_yield();
        }
    }
    return NULL;
}

/* 002-87: several threads that send to one peer would mix their frames, or one thread's would change their order. */
static void test_threads(void)
{
    struct side *one = listening();
    struct side *other = side_of();
    struct sender senders[THREADS];
    uint32_t next[THREADS] = {0};
    other->peers[other->options.peer_count++] = one->listen[0];
    opened(other);
    take_hello(one, other);
    for (int i = 0; i < THREADS; i++) {
        senders[i] =
            (struct sender){.side = other, .to = one->listen[0], .number = (uint8_t)(i + 1)};
        pthread_create(&senders[i].thread, NULL, send_many, &senders[i]);
    }
    for (uint32_t i = 0; i < THREADS * PER_THREAD; i++) {
        take(one, other); /* which flushes what the other has to send */
        uint32_t who = packet[1] - 1U, number;
        memcpy(&number, packet + 2, 4);
        CHECK(who < THREADS);
        CHECK_EQ(number, next[who % THREADS]++);
        CHECK_EQ(packet_size, 6 + number % 290);
        CHECK(packet_size == 6 || packet[packet_size - 1] == packet[1]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(senders[i].thread, NULL);
    }
    gone(other);
    gone(one);
}

/* ---- as part of a port ---- */

/* A port would not wake for its connections, sleep over packets of theirs that it has read, or send there by UDP. */
static void test_port(void)
{
    struct side *one = side_of();
    pyddsi_endpoint local, from, back = {0};
    struct pdi_port *port;
    uint8_t data[64];
    size_t size;
    static const uint8_t frames[] = {2, 1, 5, 1, 9, 1, 8};
    one->listen[one->options.listen_count++] = tcp4(0);
    struct pdi_port_options options = {
        .interface = "lo", .family = 4, .ttl = 1, .loopback = 1, .streams = &one->options};
    CHECK_EQ(pdi_port_open(&port, &options, &local, said, sizeof said), PYDDSI_OK);
    CHECK(pdi_port_streams(port) != NULL);
    one->streams = pdi_port_streams(port);
    int fd = bare(one);
    say(fd, frames, sizeof frames);
    static const size_t sizes[] = {2, 1, 1};
    for (int got = 0; got < 3;) {
        CHECK_EQ(pdi_port_wait(port, LONG_MS * PDI_TIME_MS), PYDDSI_OK);
        if (pdi_port_receive(port, data, sizeof data, &size, &from) == PYDDSI_OK) {
            CHECK_EQ(size, sizes[got]);
            got++; /* and waits again: the other packets have left the system */
            back = from;
            if (pdi_streams_waiting(one->streams)) {
                CHECK_EQ(pdi_port_wait(port, 0), PYDDSI_OK);
            }
        }
    }
    CHECK_EQ(pdi_port_send(port, &back, hello, sizeof hello), PYDDSI_OK);
    CHECK_EQ(hear(fd, data, 3), 3);
    CHECK_EQ(pdi_port_send(port, &local, hello, sizeof hello), PYDDSI_OK); /* to ourselves */
    close(fd);
    int seen = 0;
    while (seen != 3) {
        CHECK_EQ(pdi_port_wait(port, LONG_MS * PDI_TIME_MS), PYDDSI_OK);
        while (pdi_port_receive(port, data, sizeof data, &size, &from) == PYDDSI_OK) {
            seen |= size == 0 && pdi_stream_same(&from, &back) ? 1 : size == 2 ? 2 : 4;
        }
    }
    pdi_port_close(port);
    one->streams = NULL;
    options.streams = NULL;
    CHECK_EQ(pdi_port_open(&port, &options, &local, said, sizeof said), PYDDSI_OK);
    CHECK_EQ(pdi_port_send(port, &back, hello, sizeof hello), -EAFNOSUPPORT);
    pdi_port_close(port);
    free(one);
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    signal(SIGPIPE, SIG_DFL); /* a peer that has gone must not end us */
    test_tcp();
    test_other_kinds();
    test_all();
    test_cut_anywhere();
    test_unframed();
    test_truncated();
    test_hostile();
    test_small_room();
    test_turns();
    test_never_reads();
    test_together();
    test_again();
    test_calls();
    test_call_unheard();
    test_pauses();
    test_close();
    test_close_unheard();
    test_patience();
    test_crowd();
    test_one_name();
    test_descriptors();
    test_refused();
    test_permission();
    test_files();
    test_port_again();
    test_random();
    test_threads();
    test_port();
    CHECK_EQ(rmdir(folder), 0);
    return test_result();
}
