/* capture/tcp.h: the bytes of each direction come out in order and once, whatever happened to the packets, and a byte
 * that is missing is never passed over in silence. (The file is long because each thing that can happen to a packet has
 * a test of its own.) */
#include "capture/tcp.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/rand.h"
#include "damage.h"
#include "test.h"

enum { FIN = 1, SYN = 2, RST = 4, ACK = 16 };
enum { FORTH, BACK }; /* which way a packet goes; the numbers above are other connections */
enum { TEXT_ROOM = 1 << 16, SNAPSHOT_ROOM = 1 << 24 };

static struct pdi_tcp *tcp, *other;
static uint8_t *snapshot;
static char text[TEXT_ROOM];
static size_t text_size;
static uint64_t number; /* of the packet that came last */

static struct pdi_frame frame;
static struct pdi_carried carried;

static pyddsi_endpoint here_of(unsigned way)
{
    unsigned pair = way / 2;
    return (pyddsi_endpoint){
        .ip = {10, 0, (uint8_t)(pair >> 8), (uint8_t)pair}, .port = 40000, .kind = 14};
}

static pyddsi_endpoint there_of(unsigned way)
{
    (void)way;
    return (pyddsi_endpoint){.ip = {10, 9, 9, 9}, .port = 7447, .kind = 14};
}

static bool same_endpoint(const pyddsi_endpoint *one, const pyddsi_endpoint *two)
{
    return one->kind == two->kind && one->port == two->port && memcmp(one->ip, two->ip, 16) == 0;
}

static void start_over(void)
{
    pdi_tcp_init(tcp);
    text_size = 0;
    text[0] = '\0';
    number = 0;
}

/* Everything that is remembered goes through a snapshot, into the other memory. */
static void move(void)
{
    size_t size = pdi_tcp_store(tcp, snapshot, SNAPSHOT_ROOM);
    CHECK(size <= SNAPSHOT_ROOM);
    CHECK_EQ(pdi_tcp_load(other, snapshot, size), PYDDSI_OK);
    struct pdi_tcp *swap = tcp;
    tcp = other;
    other = swap;
}

/* A packet of |size| bytes, of which |captured| are there. */
static void push_cut(unsigned way, const void *data, uint32_t size, uint32_t captured,
                     uint32_t sequence, unsigned flags)
{
    number++;
    frame = (struct pdi_frame){
        .number = number, .offset = number * 1000, .time_ns = (int64_t)number * 7 - 20};
    carried = (struct pdi_carried){.source = way % 2 == FORTH ? here_of(way) : there_of(way),
                                   .target = way % 2 == FORTH ? there_of(way) : here_of(way),
                                   .data = data,
                                   .size = captured,
                                   .whole = size,
                                   .sequence = sequence,
                                   .tcp_flags = (uint8_t)flags,
                                   .ip = 4,
                                   .protocol = 6};
    pdi_tcp_push(tcp, &frame, &carried);
}

/* Takes all parts, as words: number, what is said of it, data; those that go back begin with a '<'. */
static void pop_words(void)
{
    struct pdi_part part;
    for (int i = 0; i < 100000 && pdi_tcp_pop(tcp, &part) == PYDDSI_OK; i++) {
        bool back = part.source.port == 7447;
        CHECK(part.direction < PDI_TCP_DIRECTIONS_MAX);
        CHECK_EQ(part.offset, part.number * 1000);
        CHECK_EQ(part.time_ns, (int64_t)part.number * 7 - 20);
        if (text_size > TEXT_ROOM - 200)
            continue;
        text_size +=
            (size_t)snprintf(text + text_size, TEXT_ROOM - text_size, "%s%s%" PRIu64 "%s%s%s%.*s%s",
                             text_size == 0 ? "" : ", ", back ? "<" : "", part.number,
                             part.start ? " start" : "", part.lost ? " lost" : "",
                             part.size != 0 ? " " : "", (int)(part.size < 20 ? part.size : 20),
                             (const char *)part.data, part.end ? " end" : "");
    }
}

static void send_cut(unsigned way, const void *data, uint32_t size, uint32_t captured,
                     uint32_t sequence, unsigned flags)
{
    push_cut(way, data, size, captured, sequence, flags);
    pop_words();
}

static void send_way(unsigned way, const char *data, uint32_t sequence, unsigned flags)
{
    send_cut(way, data, (uint32_t)strlen(data), (uint32_t)strlen(data), sequence, flags);
}

static void send(const char *data, uint32_t sequence)
{
    send_way(FORTH, data, sequence, ACK);
}

/* The capture ends; all that came since the start has to be |words|. */
#define EXPECT(words)                                                                              \
    do {                                                                                           \
        pdi_tcp_finish(tcp);                                                                       \
        pop_words();                                                                               \
        CHECK_TEXT(text, words);                                                                   \
        start_over();                                                                              \
    } while (0)

/* If it failed, the simplest connection would come out wrong: ends, numbers, or which direction is which. */
static void test_connection(void)
{
    struct pdi_part part;
    send_way(FORTH, "", 100, SYN);
    send_way(BACK, "", 900, SYN | ACK);
    send("", 101);
    push_cut(FORTH, "scout", 5, 5, 101, ACK);
    CHECK_EQ(pdi_tcp_pop(tcp, &part), PYDDSI_OK);
    CHECK(part.data == carried.data && part.size == 5); /* where it came, and not a copy */
    CHECK(same_endpoint(&part.source, &carried.source));
    CHECK(same_endpoint(&part.target, &carried.target));
    unsigned forth = part.direction;
    CHECK_EQ(pdi_tcp_pop(tcp, &part), PYDDSI_END);
    push_cut(BACK, "hello", 5, 5, 901, ACK);
    CHECK_EQ(pdi_tcp_pop(tcp, &part), PYDDSI_OK);
    CHECK(same_endpoint(&part.source, &carried.source));
    CHECK(same_endpoint(&part.target, &carried.target));
    CHECK(part.direction != forth);
    CHECK_EQ(pdi_tcp_pop(tcp, &part), PYDDSI_END);
    send("open", 106);
    send_way(FORTH, "", 110, FIN | ACK);
    send_way(BACK, "bye", 906, FIN | ACK);
    send("", 111);
    CHECK_EQ(pdi_tcp_late(tcp), 0);
    EXPECT("1 start, <2 start, 6 open, 7 end, <8 bye, <8 end");
}

/* If it failed, a capture that begins within a connection would show nothing, or pretend to know its beginning. */
static void test_in_the_middle(void)
{
    send("", 7);
    send_way(BACK, "", 7, FIN);
    send("one", 7);
    send("two", 10);
    EXPECT("3 one, 4 two");
}

/* If it failed, keep-alive probes and repeated packets would put bytes into the stream a second time. */
static void test_probes_and_repeats(void)
{
    send("abc", 10);
    send("", 12);
    send("c", 12);
    send("bcd", 11);
    send("abcde", 10);
    send_way(FORTH, "", 15, FIN);
    send_way(FORTH, "", 15, FIN);
    send("cde", 12);
    CHECK_EQ(pdi_tcp_late(tcp), 0);
    EXPECT("1 abc, 4 d, 5 e, 6 end");
}

/* If it failed, what waits behind a hole would come out in another order than that of its bytes, or twice. */
static void test_held(void)
{
    send("a", 10);
    send("efg", 14); /* held */
    send("cd", 12);
    send("gh", 16); /* overlaps */
    send("efg", 14);
    send_way(FORTH, "", 18, FIN);
    send("b", 11);
    EXPECT("1 a, 7 b, 3 cd, 2 efg, 4 h, 6 end");
    send("a", 10);
    send("c", 12);
    send("cde", 12); /* the same place: the first comes first */
    send("b", 11);
    EXPECT("1 a, 4 b, 2 c, 3 de");
    send("a", 10);
    send_way(FORTH, "cd", 12, FIN); /* bytes and the end wait together */
    send("b", 11);
    EXPECT("1 a, 3 b, 2 cd, 2 end");
    send("ab", 10);
    send_way(FORTH, "", 11, FIN); /* an end where something else has been */
    send("c", 12);
    EXPECT("1 ab, 3 c");
}

/* If it failed, bytes behind a hole would be lost with it, or the hole not be told. */
static void test_hole_at_the_end(void)
{
    send("a", 10);
    send("e", 14);
    send("c", 12);
    send_way(FORTH, "", 15, FIN);
    EXPECT("1 a, 3 lost c, 2 lost e, 4 end");
}

/* If it failed, one lost byte would hold a whole connection in memory, however it is cut into packets; or what was
 * given up would be given up too early. */
static void test_held_is_bounded(void)
{
    static const uint32_t sizes[] = {1, 1000, 60000};
    static const uint8_t zeros[60000];
    for (size_t i = 0; i < 3; i++) {
        for (uint32_t less = 0; less < 2; less++) {
            uint32_t many = PDI_TCP_HELD_MAX / (sizes[i] + PDI_TCP_HELD_OVERHEAD) + 1 - less;
            struct pdi_part part;
            uint64_t bytes = 0, lost = 0, last = 0;
            start_over();
            for (uint32_t k = 0; k < many + 2; k++) {
                if (k == 0)
                    push_cut(FORTH, "first", 5, 5, 0, ACK);
                else if (k <= many)
                    push_cut(FORTH, zeros, sizes[i], sizes[i], 6 + sizes[i] * (k - 1), ACK);
                else
                    push_cut(FORTH, "?", 1, 1, 5, ACK);
                while (pdi_tcp_pop(tcp, &part) == PYDDSI_OK) {
                    bytes += part.size;
                    lost += part.lost;
                    CHECK(!part.lost || part.number == 2);
                    CHECK(part.number > last || part.number == 2 || part.number == many + 2);
                    last = part.number;
                }
            }
            CHECK_EQ(bytes, 5 + (uint64_t)sizes[i] * many + less);
            CHECK_EQ(lost, 1 - less);
        }
    }
    start_over();
}

/* If it failed, there would be room for a packet less or more than the limit says, or its end not be counted. */
static void test_held_exactly(void)
{
    static const uint8_t
        zeros[65280]; /* with what is counted beside them a sixteenth of the limit */
    for (uint32_t over = 0; over < 2; over++) {
        for (unsigned end = 0; end < 2; end++) {
            send("a", 0);
            for (uint32_t i = 0; i < 16; i++) {
                uint32_t size = (uint32_t)sizeof(zeros);
                if (i == 15)
                    size = size - end * PDI_TCP_HELD_OVERHEAD + over;
                send_cut(FORTH, zeros, size, size, 2 + i * (uint32_t)sizeof(zeros),
                         i == 15 && end ? FIN : ACK);
            }
            number = 100;
            send("b", 1);
            CHECK_EQ(strncmp(text, over ? "1 a, 2 lost" : "1 a, 101 b", 10), 0);
            start_over();
        }
    }
}

/* If it failed, of two packets for one place the later would come out, if there is no room for it. */
static void test_same_place_without_room(void)
{
    static const uint8_t zeros[65280];
    send("a", 0);
    send("c", 2);
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t size = (uint32_t)sizeof(zeros) - (i == 15 ? 1 + PDI_TCP_HELD_OVERHEAD : 0);
        send_cut(FORTH, zeros, size, size, 100 + i * (uint32_t)sizeof(zeros), ACK);
    }
    send("cd", 2);
    CHECK_TEXT(text, "1 a, 2 lost c, 19 d");
    start_over();
}

/* If it failed, places for packets that wait would be lost one by one, or be fewer than packets there can be. */
static void test_held_places(void)
{
    const uint32_t each = PDI_TCP_HELD_MAX / (1 + PDI_TCP_HELD_OVERHEAD);
    struct pdi_part part;
    for (uint32_t round = 0; round < 3; round++) {
        uint32_t base = round * (each + 2);
        for (unsigned way = 0; way < 16; way += 2) {
            text_size = 0;
            number = 0;
            send_way(way, "a", base, ACK);
            for (uint32_t i = 0; i < each; i++)
                send_way(way, "c", base + 2 + i, ACK);
            CHECK_TEXT(text, "1 a");
        }
        for (unsigned way = 0; way < 16; way += 2) {
            uint32_t out = 0;
            push_cut(way, "b", 1, 1, base + 1, ACK);
            for (; pdi_tcp_pop(tcp, &part) == PYDDSI_OK; out++)
                CHECK(!part.lost && part.size == 1 && part.data[0] == (out == 0 ? 'b' : 'c'));
            CHECK_EQ(out, each + 1);
        }
    }
    start_over();
}

/* If it failed, many connections with a hole each would together fill the memory, one that is ended would not make room
 * again, or one hole be given up for the sake of another connection. */
static void test_held_is_bounded_in_all(void)
{
    static const uint8_t zeros[65280];
    const uint32_t cost = sizeof(zeros) + PDI_TCP_HELD_OVERHEAD; /* 64 KiB */
    const uint32_t each = 15;                                    /* below what one may hold */
    const uint32_t room = PDI_TCP_HELD_TOTAL_MAX / cost;
    uint32_t count = 0, ways = 0;
    for (; count < room; ways++) {
        send_way(2 * ways, "a", 0, ACK);
        for (uint32_t k = 0; k < each && count < room; k++, count++) {
            send_cut(2 * ways, zeros, sizeof(zeros), sizeof(zeros), 2 + k * (uint32_t)sizeof(zeros),
                     ACK);
        }
    }
    text_size = 0;
    number = 1000;
    send_way(1000, "a", 0, ACK);
    send_way(1000, "c", 2, ACK); /* no room: its own hole goes */
    send_way(1000, "e", 4, ACK);
    CHECK_TEXT(text, "1001 a, 1002 lost c, 1003 lost e");
    text_size = 0;
    send_way(0, "", 0, RST); /* it lets its own go, with a hole and 15 parts, */
    text_size = 0;
    send_way(1000, "g", 6, ACK); /* and now there is room */
    CHECK_EQ(text_size, 0);
    send_way(1000, "f", 5, ACK);
    CHECK_TEXT(text, "1006 f, 1005 g");
    start_over();
}

/* If it failed, bytes behind those that a snap length cut would be joined to what is before the cut. */
static void test_cut(void)
{
    send_cut(FORTH, "abcd", 8, 4, 1, ACK);
    send("ijkl", 9);
    send_way(FORTH, "", 13, FIN);
    EXPECT("1 abcd, 2 lost ijkl, 3 end");
    send_cut(FORTH, "", 8, 0, 1, ACK);
    send_cut(FORTH, "", 4, 0, 9, ACK);
    send_way(FORTH, "", 13, FIN);
    EXPECT("3 lost end");
    send_cut(FORTH, "ab", 8, 2, 1, ACK);
    send_cut(FORTH, "ij", 4, 2, 9, ACK);
    EXPECT("1 ab, 2 lost ij");
    push_cut(FORTH, "abcd", 8, 4, 1, ACK); /* repeated from behind the cut on */
    pop_words();
    send_cut(FORTH, "gh", 4, 2, 7, ACK);
    send("k", 11);
    EXPECT("1 abcd, 3 lost k");
    send_cut(FORTH, "abcd", 8, 4, 1, ACK);
    send_cut(FORTH, "", 0, 0, 9, FIN);
    send_cut(FORTH, "abcd", 8, 4, 1, ACK);
    send_way(FORTH, "", 9, SYN); /* nothing is missing here */
    EXPECT("1 abcd, 2 lost end, 4 start");
    send_cut(FORTH, "abcd", 8, 4, 1, ACK);
    send("i", 9);
    push_cut(FORTH, "hi", 2, 1, 8, ACK); /* a repetition that was cut hides nothing */
    pop_words();
    send("j", 10);
    EXPECT("1 abcd, 2 lost i, 4 j");
}

/* If it failed, a reset would leave a direction open for ever, or what comes behind it be read as another stream. */
static void test_reset(void)
{
    send_way(FORTH, "", 0, SYN);
    send_way(BACK, "", 0, SYN | ACK);
    send("a", 1);
    send("c", 3);
    send_way(BACK, "", 1, RST);
    send_way(FORTH, "", 4, RST);
    CHECK_EQ(pdi_tcp_late(tcp), 0);
    send("d", 4);
    CHECK_EQ(pdi_tcp_late(tcp), 1);
    EXPECT("1 start, <2 start, 3 a, <5 end, 4 lost c, 5 end");
    send_way(FORTH, "", 1, RST | ACK);
    EXPECT("");
}

/* If it failed, a second connection between the same ends would continue the first one, or a repeated SYN begin a
 * second. */
static void test_same_ports_again(void)
{
    send_way(FORTH, "", 0, SYN);
    send_way(FORTH, "", 0, SYN);
    send("a", 1);
    send("c", 3);
    send_way(FORTH, "", 0, SYN);
    send_way(FORTH, "", 5000, SYN);
    send("x", 5001);
    EXPECT("1 start, 3 a, 4 lost c, 6 start, 7 x");
    send_way(FORTH, "", 0, SYN);
    send_way(FORTH, "a", 1, FIN);
    send_way(FORTH, "", 70, SYN);
    send("x", 71);
    EXPECT("1 start, 2 a, 2 end, 3 start, 4 x");
    send("a", 1); /* begun before the capture; then its SYN is another connection's */
    send_way(FORTH, "", 0, SYN);
    send("x", 1);
    EXPECT("1 a, 2 start, 3 x");
    send_way(FORTH, "", 77, SYN);
    send_way(FORTH, "", 77, SYN);
    EXPECT("1 start");
}

/* If it failed, bytes that cannot be behind the end would be given out as if they were, or vanish uncounted. */
static void test_behind_the_end(void)
{
    send("a", 10);
    send("xy", 12);
    send_way(FORTH, "", 11, FIN);
    send_way(FORTH, "", 11, FIN);
    CHECK_EQ(pdi_tcp_late(tcp), 1);
    EXPECT("1 a, 3 end");
    send("a", 10);
    send_way(FORTH, "", 12, FIN);
    send_way(FORTH, "", 12, FIN);
    send("b", 11);
    CHECK_EQ(pdi_tcp_late(tcp), 0);
    send_way(FORTH, "cd", 12, FIN); /* one packet, with bytes and an end, is late once */
    CHECK_EQ(pdi_tcp_late(tcp), 1);
    EXPECT("1 a, 4 b, 2 end");
}

/* If it failed, data that came with the SYN would be lost. */
static void test_data_with_syn(void)
{
    send_way(FORTH, "ab", 9, SYN);
    send("c", 12);
    EXPECT("1 start, 1 ab, 2 c");
    send_way(FORTH, "ab", 9, SYN | FIN);
    EXPECT("1 start, 1 ab, 1 end");
    send_way(FORTH, "", UINT32_MAX, SYN);
    send("a", 0);
    EXPECT("1 start, 2 a");
}

/* If it failed, a connection whose SYN was not captured would be taken for repeats of an old one, and vanish. */
static void test_jump(void)
{
    static const uint32_t jumps[] = {PDI_TCP_JUMP_MAX + 1, 0 - PDI_TCP_JUMP_MAX - 1,
                                     UINT32_C(1) << 31};
    for (size_t i = 0; i < 3; i++) {
        send("a", 10);
        send("c", 12);
        send("x", 11 + jumps[i]);
        send("y", 12 + jumps[i]);
        EXPECT("1 a, 2 lost c, 3 lost x, 4 y");
        send_way(FORTH, "a", 10, FIN);
        send("x", 12 + jumps[i]);
        send("y", 13 + jumps[i]);
        EXPECT("1 a, 1 end, 2 x, 3 y");
    }
    send("a", 10);
    send("z", 11 + PDI_TCP_JUMP_MAX); /* just within */
    send("b", 11 - PDI_TCP_JUMP_MAX);
    send("b", 11);
    EXPECT("1 a, 4 b, 2 lost z");
}

/* If it failed, connections that never end would fill the memory, or the one in use be dropped for the idle one. */
static void test_directions_are_bounded(void)
{
    enum { MAX = PDI_TCP_DIRECTIONS_MAX, NEW = 2 * MAX };
    for (unsigned i = 0; i < MAX; i++)
        send_way(2 * i, "a", 0, ACK);
    text_size = 0;
    number = 1000;
    send_way(0, "b", 1, ACK);
    send_way(2, "d", 3, ACK);
    send_way(NEW, "?", 0, ACK);
    send_way(0, "c", 2, ACK);
    send_way(4, "c", 2, ACK);
    CHECK_TEXT(text, "1001 b, 1003 lost end, 1003 ?, 1004 c, 1005 lost end, 1005 c");
    text_size = 0;
    send_way(NEW + 2, "", 0, SYN); /* the place is free before it is taken */
    CHECK_TEXT(text, "1006 lost end, 1006 start");
    text_size = 0;
    send_way(10, "", 1, FIN); /* who has ended is not ended again when his place is taken */
    for (unsigned i = 6; i < MAX; i++)
        send_way(2 * i, "b", 1, ACK);
    send_way(0, "d", 3, ACK);
    send_way(2, "d", 3, ACK);
    send_way(NEW, "?", 1, ACK);
    send_way(4, "d", 3, ACK);
    send_way(NEW + 2, "x", 1, ACK);
    text_size = 0;
    number = 5000;
    send_way(NEW + 4, "y", 1, ACK);
    EXPECT("5001 y, 1002 lost d");
}

/* ---- any packets ---- */

enum { STREAM = 3000, PIECES = 4000 };

struct piece {
    uint64_t turn;
    uint32_t at, size;
    unsigned flags;
};

/* Cuts a stream into pieces that repeat and overlap each other; answers how many there are. */
static uint32_t cut(struct pdi_rand *rand, uint32_t size, struct piece *pieces)
{
    uint32_t count = 0;
    for (uint32_t at = 0; at < size;) {
        uint32_t step = 1 + (uint32_t)pdi_rand_below(rand, 120);
        uint32_t back = pdi_rand_chance(rand, 1, 4) ? (uint32_t)pdi_rand_below(rand, at + 1) : 0;
        step = step < size - at ? step : size - at;
        pieces[count++] = (struct piece){.at = at - back, .size = step + back};
        at += step;
    }
    pieces[count++] = (struct piece){.at = size, .flags = FIN};
    for (uint32_t i = count / 3; i > 0; i--, count++)
        pieces[count] = pieces[pdi_rand_below(rand, count)];
    uint64_t reaches[] = {1, 8, count};
    uint64_t reach = 1000 * reaches[pdi_rand_below(rand, 3)];
    for (uint32_t i = 0; i < count; i++) { /* each may come later than its turn */
        struct piece piece = pieces[i];
        uint32_t k = i;
        piece.turn = i * UINT64_C(1000) + pdi_rand_below(rand, reach);
        for (; k > 0 && pieces[k - 1].turn > piece.turn; k--)
            pieces[k] = pieces[k - 1];
        pieces[k] = piece;
    }
    return count;
}

/* If it failed, late, repeated and overlapping packets would lose, double or swap bytes, above all where numbers wrap;
 * or a snapshot taken between two of them would. */
static void test_any_order(void)
{
    static uint8_t stream[STREAM], out[STREAM];
    static struct piece pieces[PIECES];
    for (uint64_t seed = 0; seed < 1000 && test_failures == 0; seed++) {
        struct pdi_rand rand;
        struct pdi_part part;
        pdi_rand_init(&rand, seed);
        uint32_t size = 1 + (uint32_t)pdi_rand_below(&rand, STREAM);
        uint32_t first = (uint32_t)pdi_rand_u64(&rand);
        if (pdi_rand_chance(&rand, 1, 2))
            first = UINT32_MAX - (uint32_t)pdi_rand_below(&rand, size);
        for (uint32_t i = 0; i < size; i++)
            stream[i] = (uint8_t)pdi_rand_u64(&rand);
        uint32_t count = cut(&rand, size, pieces);
        uint32_t got = 0, starts = 0, ends = 0;
        start_over();
        for (uint32_t i = 0; i <= count; i++) {
            if (i == 0)
                push_cut(FORTH, "", 0, 0, first - 1, SYN);
            else
                push_cut(FORTH, stream + pieces[i - 1].at, pieces[i - 1].size, pieces[i - 1].size,
                         first + pieces[i - 1].at, ACK | pieces[i - 1].flags);
            while (pdi_tcp_pop(tcp, &part) == PYDDSI_OK) {
                CHECK(!part.lost && part.size <= size - got && ends == 0);
                starts += part.start;
                ends += part.end;
                if (part.size == 0)
                    continue;
                memcpy(out + got, part.data, part.size);
                const struct piece *from =
                    &pieces[part.number - 2]; /* the packet that it came with */
                CHECK(from->at <= got && from->at + from->size >= got + part.size);
                got += part.size;
            }
            if (seed % 2 != 0 && pdi_rand_chance(&rand, 1, 10))
                move();
        }
        CHECK(got == size && memcmp(out, stream, size) == 0);
        CHECK(starts == 1 && ends == 1 && pdi_tcp_late(tcp) == 0);
        if (test_failures != 0)
            printf("seed %" PRIu64 "\n", seed);
    }
    start_over();
}

/* A digest of all that has come out. */
static uint64_t digest;

static void mix(uint64_t value)
{
    digest = (digest ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    digest ^= digest >> 29;
}

static void pop_digest(void)
{
    struct pdi_part part;
    while (pdi_tcp_pop(tcp, &part) == PYDDSI_OK) {
        mix(part.number ^ part.offset << 20);
        mix((uint64_t)part.time_ns);
        mix(part.size | (uint64_t)part.start << 32 | (uint64_t)part.end << 33 |
            (uint64_t)part.lost << 34 | (uint64_t)part.direction << 35);
        mix((uint64_t)part.source.port << 16 | (uint64_t)part.source.ip[3] << 8 | part.source.kind);
        for (uint32_t i = 0; i < part.size; i += 97)
            mix(part.data[i]);
    }
    mix(pdi_tcp_late(tcp));
}

/* Any packets of some connections, with a snapshot after every so manyth; the digest of what came out. */
static uint64_t play(uint64_t seed, uint64_t snapshots)
{
    static uint8_t bytes[70000];
    struct pdi_rand rand, other_rand;
    pdi_rand_init(&rand, seed);
    pdi_rand_init(&other_rand, seed + 1);
    unsigned ways = seed % 3 == 0 ? 1200 : 1 + (unsigned)pdi_rand_below(&rand, 12);
    uint32_t large = seed % 5 == 0 ? 65000 : 300;
    uint32_t reach = seed % 7 == 0 ? UINT32_MAX : large * 40;
    start_over();
    digest = 0;
    memset(bytes, (int)seed, sizeof(bytes));
    for (int i = 0; i < 3000; i++) {
        static const unsigned flags[] = {ACK, ACK, ACK, ACK, ACK, ACK,       ACK, ACK, ACK, ACK,
                                         ACK, ACK, FIN, SYN, RST, FIN | SYN, ACK, ACK, ACK, ACK};
        uint32_t size = (uint32_t)pdi_rand_below(&rand, large);
        uint32_t captured = pdi_rand_chance(&rand, 1, 30) ? size / 2 : size;
        unsigned way = (unsigned)pdi_rand_below(&rand, ways);
        uint32_t sequence = UINT32_MAX - 5 * large + (uint32_t)pdi_rand_below(&rand, reach);
        unsigned flag = flags[pdi_rand_below(&rand, sizeof(flags) / sizeof(flags[0]))];
        bytes[pdi_rand_below(&rand, sizeof(bytes))]++;
        push_cut(way, bytes, size, captured, sequence, flag);
        pop_digest();
        if (snapshots != 0 && pdi_rand_chance(&other_rand, 1, snapshots))
            move();
    }
    pdi_tcp_finish(tcp);
    pop_digest();
    return digest;
}

/* If it failed, a reader that goes on from a snapshot would find something else than one that has read all, in some mix
 * of resets, jumps, holes and connections that are too many. */
static void test_snapshots_change_nothing(void)
{
    for (uint64_t seed = 1; seed <= 60 && test_failures == 0; seed++) {
        uint64_t wanted = play(seed, 0);
        CHECK(play(seed, 100) == wanted);
        CHECK(seed % 10 != 9 || play(seed, 3) == wanted);
        if (test_failures != 0)
            printf("seed %" PRIu64 "\n", seed);
    }
    start_over();
}

/* The bytes of a packet: others than those of any packet near it. */
static void fill(uint8_t *bytes, uint32_t size, uint32_t packet)
{
    for (uint32_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(packet * 31 + i * 7);
}

/* If it failed, what is held would be mixed up when it is moved together, or be refused room that there is. */
static void test_arena(void)
{
    enum { LONG = 12, PACKETS = 2000, SIZE_MAX_HERE = 60000 };
    static uint8_t bytes[SIZE_MAX_HERE], wanted[SIZE_MAX_HERE];
    struct pdi_part part;
    uint32_t at[2] = {1, 1}, size = 0;
    send_way(FORTH, "a", 0, ACK);
    send_way(2, "a", 0, ACK);
    uint32_t parts = 0;
    for (uint32_t i = 0; i < PACKETS; i++) {  /* many times what there is room for */
        if (i % 150 == 0 && i / 150 < LONG) { /* some are held all the time */
            fill(bytes, SIZE_MAX_HERE, i);
            push_cut(2, bytes, SIZE_MAX_HERE, SIZE_MAX_HERE, at[1] + 1, ACK);
            CHECK_EQ(pdi_tcp_pop(tcp, &part), PYDDSI_END);
            at[1] += SIZE_MAX_HERE;
        }
        size = 1 + i * 7919 % SIZE_MAX_HERE;
        fill(bytes, size, i);
        push_cut(FORTH, bytes, size, size, at[0] + 1, ACK); /* the others until the next packet */
        CHECK_EQ(pdi_tcp_pop(tcp, &part), PYDDSI_END);
        push_cut(FORTH, "b", 1, 1, at[0], ACK);
        CHECK_EQ(pdi_tcp_pop(tcp, &part), PYDDSI_OK);
        CHECK_EQ(pdi_tcp_pop(tcp, &part), PYDDSI_OK);
        CHECK(part.size == size && memcmp(part.data, bytes, size) == 0);
        CHECK_EQ(pdi_tcp_pop(tcp, &part), PYDDSI_END);
        at[0] += size + 1;
    }
    push_cut(2, "b", 1, 1, 1, ACK);
    CHECK_EQ(pdi_tcp_pop(tcp, &part), PYDDSI_OK);
    for (; pdi_tcp_pop(tcp, &part) == PYDDSI_OK; parts++) {
        fill(wanted, SIZE_MAX_HERE, parts * 150);
        CHECK(part.size == SIZE_MAX_HERE && memcmp(part.data, wanted, SIZE_MAX_HERE) == 0);
    }
    CHECK_EQ(parts, LONG);
    start_over();
}

/* ---- snapshots ---- */

/* A few directions in all states, for damaging. */
static size_t store_some(void)
{
    start_over();
    send_way(FORTH, "", 0, SYN);
    send("c", 3);
    send("bcd", 3);
    send_way(BACK, "ab", 7, FIN);
    send_way(2, "x", UINT32_MAX, ACK);
    send_cut(2, "z", 4, 1, 5, FIN);
    send_cut(2, "", 4, 0, 2, ACK);
    send_way(BACK, "q", 70, ACK); /* late */
    return pdi_tcp_store(tcp, snapshot, SNAPSHOT_ROOM);
}

/* Loads bytes that may be anything: they are refused and nothing is known, or they are the snapshot of what is. */
static void load_any(const uint8_t *data, size_t size)
{
    static uint8_t again[4096];
    int status = pdi_tcp_load(tcp, data, size);
    CHECK(status == PYDDSI_OK || status == PYDDSI_BAD_INPUT);
    size_t stored = pdi_tcp_store(tcp, again, sizeof(again));
    if (status == PYDDSI_OK) {
        CHECK(stored == size && memcmp(again, data, size) == 0);
        for (unsigned way = 0; way < 3; way++) {
            push_cut(way, "abc", 3, 3, 1, FIN);
            pop_digest();
        }
    } else {
        CHECK(stored == 2 && again[0] == 0 && again[1] == 0);
    }
    pdi_tcp_finish(tcp);
    pop_digest();
    pdi_tcp_init(tcp);
}

/* If it failed, a snapshot that was cut or damaged would crash the reader, or be a state that no packets lead to. */
static void test_hostile_snapshots(void)
{
    uint8_t good[1024];
    size_t size = store_some();
    CHECK(size > 100 && size < sizeof(good));
    memcpy(good, snapshot, size);
    CHECK_EQ(pdi_tcp_load(tcp, good, size), PYDDSI_OK);
    CHECK_EQ(pdi_tcp_late(tcp), 1);
    good[size] = 0;
    CHECK_EQ(pdi_tcp_load(tcp, good, size + 1), PYDDSI_BAD_INPUT);
    CHECK_EQ(pdi_tcp_load(tcp, good, size - 1), PYDDSI_BAD_INPUT);
    CHECK_EQ(pdi_tcp_late(tcp), 0);
    damage_all(good, size, load_any);
    start_over();
}

/* If it failed, a snapshot could say what cannot be of a direction, or of what waits in it. */
static void test_impossible_snapshots(void)
{
    enum { ROUND_HIGH = 32, FAR = PDI_TCP_JUMP_MAX + PDI_FRAME_BYTES_MAX };
    const uint64_t low = UINT64_C(1) << ROUND_HIGH;
    const struct {
        uint64_t count, index, kind, flags, next, gap, size, captured;
        int status;
    } cases[] = {
        {1, 0, 14, 0, low, 1, 5, 5, PYDDSI_OK},
        {1, 0, 16, 5, low, 1, 5, 0, PYDDSI_OK},
        {1, 1, 14, 0, low, 1, 5, 5, PYDDSI_BAD_INPUT}, /* they are numbered from zero on */
        {2, 0, 14, 0, low, 1, 5, 5, PYDDSI_BAD_INPUT}, /* one is missing */
        {PDI_TCP_DIRECTIONS_MAX + 1, 0, 14, 0, low, 1, 5, 5, PYDDSI_BAD_INPUT},
        {1, 0, 13, 0, low, 1, 5, 5, PYDDSI_BAD_INPUT},
        {1, 0, 15, 0, low, 1, 5, 5, PYDDSI_BAD_INPUT},
        {1, 0, 17, 0, low, 1, 5, 5, PYDDSI_BAD_INPUT},
        {1, 0, 14, 8, low, 1, 5, 5, PYDDSI_BAD_INPUT},
        {1, 0, 14, 2, low, 1, 5, 5, PYDDSI_BAD_INPUT}, /* nothing waits behind the end */
        {1, 0, 14, 0, low - 1, 1, 5, 5, PYDDSI_BAD_INPUT},
        {1, 0, 14, 0, UINT64_C(1) << 62, 1, 5, 5, PYDDSI_OK},
        {1, 0, 14, 0, (UINT64_C(1) << 62) + 1, 1, 5, 5, PYDDSI_BAD_INPUT},
        {1, 0, 14, 0, low, 0, 5, 5, PYDDSI_BAD_INPUT}, /* it would not wait */
        {1, 0, 14, 0, low, FAR, 5, 5, PYDDSI_OK},
        {1, 0, 14, 0, low, FAR + 1, 5, 5, PYDDSI_BAD_INPUT},
        {1, 0, 14, 0, low, 1, PDI_FRAME_BYTES_MAX, 5, PYDDSI_OK},
        {1, 0, 14, 0, low, 1, PDI_FRAME_BYTES_MAX + 1, 5, PYDDSI_BAD_INPUT},
        {1, 0, 14, 0, low, 1, 5, 6, PYDDSI_BAD_INPUT},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const uint64_t head[] = {0, cases[i].count, cases[i].index};
        const uint64_t numbers[] = {cases[i].kind << 32 | 7,
                                    cases[i].flags,
                                    9,
                                    cases[i].next,
                                    0,
                                    1,
                                    cases[i].gap,
                                    0,
                                    0,
                                    0,
                                    cases[i].size,
                                    cases[i].captured};
        size_t size = 0;
        for (size_t k = 0; k < sizeof(head) / sizeof(head[0]); k++)
            size = damage_number(snapshot, size, head[k]);
        memset(snapshot + size, 1, 32);
        size += 32;
        for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++)
            size = damage_number(snapshot, size, numbers[k]);
        size = damage_number(snapshot, size + cases[i].captured, 0);
        CHECK_EQ(pdi_tcp_load(tcp, snapshot, size), cases[i].status);
        CHECK_EQ(pdi_tcp_store(tcp, NULL, 0), cases[i].status == PYDDSI_OK ? size : 2);
    }
    start_over();
    size_t size = pdi_tcp_store(tcp, snapshot, SNAPSHOT_ROOM); /* nothing at all */
    CHECK_EQ(size, 2);
    CHECK_EQ(pdi_tcp_load(tcp, snapshot, size), PYDDSI_OK);
    start_over();
}

/* If it failed, two directions of a snapshot could be the same, or have the same place. */
static void test_doubled_snapshots(void)
{
    start_over();
    send("a", 0);
    size_t one = pdi_tcp_store(tcp, snapshot, SNAPSHOT_ROOM);
    memcpy(snapshot + one, snapshot + 2, one - 2); /* behind the count the direction, once more */
    snapshot[1] = 2;
    CHECK_EQ(pdi_tcp_load(tcp, snapshot, 2 * one - 2), PYDDSI_BAD_INPUT);
    snapshot[one] = 1;
    CHECK_EQ(pdi_tcp_load(tcp, snapshot, 2 * one - 2), PYDDSI_BAD_INPUT);
    snapshot[one + 1]++; /* another address */
    CHECK_EQ(pdi_tcp_load(tcp, snapshot, 2 * one - 2), PYDDSI_OK);
    snapshot[one] = 0;
    CHECK_EQ(pdi_tcp_load(tcp, snapshot, 2 * one - 2), PYDDSI_BAD_INPUT);
    snapshot[one] = 2;
    CHECK_EQ(pdi_tcp_load(tcp, snapshot, 2 * one - 2), PYDDSI_BAD_INPUT);
    start_over();
}

/* If it failed, more could wait after a snapshot than there is room for, or less than there was. */
static void test_full_snapshots(void)
{
    static const uint8_t zeros[65280];
    const uint64_t more[] = {1, 1, 0, 0,
                             0, 5, 0, 0}; /* one that waits, without bytes; and no other */
    size_t size;
    start_over();
    for (unsigned way = 0; way < 16; way += 2) {
        send_way(way, "a", 0, ACK);
        for (uint32_t i = 0; i < 16; i++) {
            send_cut(way, zeros, sizeof(zeros), sizeof(zeros), 2 + i * (uint32_t)sizeof(zeros),
                     ACK);
        }
        size = pdi_tcp_store(tcp, snapshot, SNAPSHOT_ROOM);
        CHECK_EQ(pdi_tcp_load(other, snapshot, size), PYDDSI_OK);
        size--;
        for (size_t k = 0; k < sizeof(more) / sizeof(more[0]); k++)
            size = damage_number(snapshot, size, more[k]);
        CHECK_EQ(pdi_tcp_load(other, snapshot, size), PYDDSI_BAD_INPUT);
    }
    send_way(16, "a", 0, ACK); /* a direction more, in which nothing can wait any more */
    size = pdi_tcp_store(tcp, snapshot, SNAPSHOT_ROOM);
    CHECK_EQ(pdi_tcp_load(other, snapshot, size), PYDDSI_OK);
    size--;
    for (size_t k = 0; k < sizeof(more) / sizeof(more[0]); k++)
        size = damage_number(snapshot, size, more[k]);
    CHECK_EQ(pdi_tcp_load(other, snapshot, size), PYDDSI_BAD_INPUT);
    start_over();
}

/* If it failed, a snapshot would be written over what lies behind its room, or be larger than it says. */
static void test_store_room(void)
{
    uint8_t out[1024];
    size_t size = store_some();
    memset(out, 0xA5, sizeof(out));
    CHECK_EQ(pdi_tcp_store(tcp, out, size - 1), size);
    CHECK_EQ(pdi_tcp_store(tcp, NULL, 0), size);
    CHECK_EQ(out[size - 1], 0xA5);
    CHECK_EQ(pdi_tcp_store(tcp, out, size), size);
    CHECK(memcmp(out, snapshot, size) == 0 && out[size] == 0xA5);
    start_over();
}

int main(void)
{
    void *memory = malloc(pdi_tcp_size());
    void *second = malloc(pdi_tcp_size());
    snapshot = malloc(SNAPSHOT_ROOM);
    if (memory == NULL || second == NULL || snapshot == NULL)
        return 1;
    memset(memory, 0x5A, pdi_tcp_size());
    memset(second, 0x5A, pdi_tcp_size());
    tcp = pdi_tcp_init(memory);
    other = pdi_tcp_init(second);
    test_connection();
    test_in_the_middle();
    test_probes_and_repeats();
    test_held();
    test_hole_at_the_end();
    test_held_is_bounded();
    test_held_exactly();
    test_same_place_without_room();
    test_held_places();
    test_held_is_bounded_in_all();
    test_cut();
    test_reset();
    test_same_ports_again();
    test_behind_the_end();
    test_data_with_syn();
    test_jump();
    test_directions_are_bounded();
    test_any_order();
    test_snapshots_change_nothing();
    test_arena();
    test_hostile_snapshots();
    test_impossible_snapshots();
    test_doubled_snapshots();
    test_full_snapshots();
    test_store_room();
    free(memory);
    free(second);
    free(snapshot);
    return test_result();
}
