/* capture/dissect.h: what is inside frames: link layers, IP with everything it can carry in front, and the lengths that
 * contradict each other. (The file is long because frames have many layers, and each test names its own.) */
#include "capture/dissect.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/rand.h"
#include "made.h"
#include "test.h"

enum { IPV4 = 0x0800, IPV6 = 0x86DD, TCP = 6, UDP = 17 };
enum { HOP = 0, ROUTING = 43, FRAGMENT = 44, AUTHENTICATION = 51, OPTIONS = 60 };

static const uint8_t eight[7]; /* the rest of an extension header of 8 bytes */

static struct pdi_dissector dissector;
static struct pdi_carried carried;
static struct made made;
static uint8_t *frame_memory;
static int64_t now;

/* Dissects |size| bytes, which lie in memory of their own, so that a sanitizer sees who reads on. */
static int dissect(unsigned link, const uint8_t *data, uint32_t size)
{
    free(frame_memory);
    frame_memory = malloc(size != 0 ? size : 1);
    if (frame_memory == NULL)
        return PYDDSI_NO_SPACE;
    if (size != 0)
        memcpy(frame_memory, data, size);
    struct pdi_frame frame = {.data = frame_memory,
                              .size = size,
                              .wire_size = size,
                              .link = (uint16_t)link,
                              .time_ns = now};
    memset(&carried, 0xA5, sizeof(carried));
    return pdi_dissect(&dissector, &frame, &carried);
}

static int dissect_made(unsigned link)
{
    return dissect(link, made.data, made.size);
}

static void expect_hello(void)
{
    bool four = carried.ip == 4;
    static const uint8_t here[16] = {10, 0, 0, 1}, there[16] = {10, 0, 0, 2};
    static const uint8_t here6[16] = {0xFE, 0x80, [15] = 1};
    static const uint8_t there6[16] = {0xFF, 0x02, [14] = 0x74, 0x47};
    CHECK(four || carried.ip == 6);
    CHECK_EQ(carried.size, 5);
    CHECK_EQ(carried.whole, 5);
    CHECK(carried.size == 5 && memcmp(carried.data, "hello", 5) == 0);
    CHECK_EQ(carried.source.kind, carried.ip);
    CHECK_EQ(carried.target.kind, carried.ip);
    CHECK_EQ(carried.source.port, MADE_HERE);
    CHECK_EQ(carried.target.port, MADE_THERE);
    CHECK(memcmp(carried.source.ip, four ? here : here6, 16) == 0);
    CHECK(memcmp(carried.target.ip, four ? there : there6, 16) == 0);
    CHECK_EQ(carried.protocol, UDP);
    CHECK_EQ(carried.identity, four ? 1 : 0);
    CHECK_EQ(carried.other, PDI_OTHER_NONE);
    CHECK_EQ(carried.piece, PDI_PIECE_NONE);
}

static void make_hello(int ip)
{
    made_begin(&made, "hello", 5);
    made_udp(&made, -1);
    if (ip == 4)
        made_ipv4(&made, UDP, 0, 1, -1);
    else
        made_ipv6(&made, UDP, -1);
}

/* If it failed, captures of a usual kind of interface would show nothing, or bytes that are no payload. */
static void test_links(void)
{
    static const uint8_t cooked[14] = {0, 0, 0, 1, 0, 6};
    static const struct {
        unsigned link;
        int ip;
        uint32_t size; /* of what stands in front of the IP header */
        const char *front;
    } cases[] = {
        {101, 4, 0, ""},
        {101, 6, 0, ""},
        {12, 4, 0, ""},
        {14, 6, 0, ""},
        {228, 4, 0, ""},
        {229, 6, 0, ""},
        {0, 4, 4, "\x02\0\0\0"},
        {0, 4, 4, "\0\0\0\x02"},
        {0, 6, 4, "\x1e\0\0\0"},
        {0, 6, 4, "\x1c\0\0\0"},
        {0, 6, 4, "\x0a\0\0\0"},
        {108, 4, 4, "\0\0\0\x02"},
        {108, 6, 4, "\0\0\0\x18"},
        {113, 4, 16, "\0\0\0\x01\0\x06........\x08\0"},
        {113, 6, 16, "\0\0\0\x01\0\x06........\x86\xdd"},
        {276, 4, 20, "\x08\0\0\0\0\0\0\x02\0\x01\0\x06........"},
        {276, 6, 20, "\x86\xdd\0\0\0\0\0\x02\0\x01\0\x06........"},
        {1, 4, 14, "............\x08\0"},
        {1, 6, 14, "............\x86\xdd"},
        {1, 4, 14, "............\x86\xdd"}, /* IP itself says which it is */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make_hello(cases[i].ip);
        made_front(&made, cases[i].front, cases[i].size);
        CHECK_EQ(dissect_made(cases[i].link), PYDDSI_OK);
        CHECK_EQ(carried.ip, cases[i].ip);
        CHECK_EQ(carried.vlan, 0);
        expect_hello();
    }
    make_hello(4);
    made_tag(&made, 100, IPV4);
    made_front(&made, "\x81\0", 2);
    made_front(&made, cooked, sizeof(cooked));
    CHECK_EQ(dissect_made(113), PYDDSI_OK);
    expect_hello();
    CHECK_EQ(carried.vlan, 100);
}

/* If it failed, tagged traffic would be missing, or told of another VLAN. */
static void test_tags(void)
{
    static const unsigned kinds[] = {0x8100, 0x88A8, 0x9100};
    for (int ip = 4; ip <= 6; ip += 2) {
        for (size_t i = 0; i < 3; i++) {
            make_hello(ip);
            made_tag(&made, 0x6000 | 0x0FFE, ip == 4 ? IPV4 : IPV6); /* with a priority */
            made_ethernet(&made, kinds[i]);
            CHECK_EQ(dissect_made(1), PYDDSI_OK);
            expect_hello();
            CHECK_EQ(carried.vlan, 0x0FFE);
            make_hello(ip);
            made_tag(&made, 7, ip == 4 ? IPV4 : IPV6);
            made_tag(&made, 4000, 0x8100);
            made_ethernet(&made, kinds[i]);
            CHECK_EQ(dissect_made(1), PYDDSI_OK);
            expect_hello();
            CHECK_EQ(carried.vlan, 4000);
        }
    }
    make_hello(4);
    made_ethernet(&made, IPV4);
    CHECK_EQ(dissect_made(1), PYDDSI_OK);
    expect_hello();
    CHECK_EQ(carried.vlan, 0);
}

/* If it failed, options in front of a datagram would be read as it. */
static void test_ipv4_options(void)
{
    static const uint8_t options[8] = {7, 7, 4};
    uint8_t header[20];
    make_hello(4);
    memcpy(header, made.data, sizeof(header));
    made.data += sizeof(header);
    made.size -= (uint32_t)sizeof(header);
    made_front(&made, options, sizeof(options));
    header[0] = 0x47;
    header[3] = (uint8_t)(made.size + sizeof(header));
    made_front(&made, header, sizeof(header));
    made_ethernet(&made, IPV4);
    CHECK_EQ(dissect_made(1), PYDDSI_OK);
    expect_hello();
}

/* If it failed, a header between IPv6 and UDP would hide the datagram, or be read as one. */
static void test_ipv6_extensions(void)
{
    static const uint8_t two[23] = {2}, four[23] = {4};
    static const struct {
        unsigned count;
        unsigned kinds[8]; /* from the outside in */
        const uint8_t *rest;
        uint32_t size;
    } cases[] = {
        {1, {HOP}, eight, 7},
        {3, {HOP, OPTIONS, ROUTING}, two, 23},
        {1, {AUTHENTICATION}, four, 23},
        {1, {FRAGMENT}, eight, 7}, /* the only fragment is no fragment, */
        {2, {FRAGMENT, OPTIONS}, eight, 7},
        {1, {135}, eight, 7},
        {8, {OPTIONS, OPTIONS, OPTIONS, OPTIONS, OPTIONS, OPTIONS, OPTIONS, OPTIONS}, eight, 7},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned protocol = UDP;
        made_begin(&made, "hello", 5);
        made_udp(&made, -1);
        for (unsigned k = cases[i].count; k > 0; k--) {
            made_extension(&made, protocol, cases[i].rest, cases[i].size);
            protocol = cases[i].kinds[k - 1];
        }
        made_ipv6(&made, protocol, -1);
        CHECK_EQ(dissect_made(101), PYDDSI_OK);
        expect_hello();
    }
}

/* What |size| bytes, or all that were made if it is below zero, are passed over for, and that it is counted so. */
static void expect_other(unsigned link, int size, unsigned reason, const char *words)
{
    char text[48];
    uint64_t before = dissector.others[reason];
    int status = dissect(link, made.data, size < 0 ? made.size : (uint32_t)size);
    CHECK_EQ(status, PYDDSI_END);
    CHECK_EQ(carried.other, reason);
    CHECK_EQ(dissector.others[reason], before + 1);
    CHECK_EQ(carried.source.kind, 0);
    if (reason == PDI_OTHER_SHORT || reason == PDI_OTHER_IP || reason == PDI_OTHER_TCP ||
        reason == PDI_OTHER_FRAGMENT)
        CHECK_EQ(carried.detail, 0);
    pdi_other_print(carried.other, carried.detail, text, sizeof(text));
    CHECK_TEXT(text, words);
}

/* If it failed, a frame of another kind would be taken for ours, or vanish without its reason. */
static void test_other_links(void)
{
    made_begin(&made, NULL, 0);
    expect_other(1, 0, PDI_OTHER_SHORT, "short packet");
    expect_other(0, 0, PDI_OTHER_SHORT, "short packet");
    expect_other(113, 0, PDI_OTHER_SHORT, "short packet");
    expect_other(276, 0, PDI_OTHER_SHORT, "short packet");
    made_begin(&made, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 28);
    made_ethernet(&made, 0x0806);
    expect_other(1, -1, PDI_OTHER_ETHERTYPE, "ethertype 0x0806");
    made_put16(made.data + 12, 0x0026);
    expect_other(1, -1, PDI_OTHER_ETHERTYPE, "no ethertype (802.3)");
    made_put16(made.data + 12, 0x0600);
    expect_other(1, -1, PDI_OTHER_ETHERTYPE, "ethertype 0x0600");
    expect_other(105, -1, PDI_OTHER_LINK, "link type 105"); /* 802.11 */
    expect_other(147, -1, PDI_OTHER_LINK, "link type 147");
    make_hello(4);
    made_tag(&made, 1, IPV4);
    made_tag(&made, 2, 0x8100);
    made_tag(&made, 3, 0x8100);
    made_ethernet(&made, 0x8100);
    expect_other(1, -1, PDI_OTHER_ETHERTYPE, "ethertype 0x8100");
    CHECK_EQ(carried.vlan, 3);
    expect_other(1, 17, PDI_OTHER_SHORT, "short packet");
    expect_other(1, 21, PDI_OTHER_SHORT, "short packet");
    make_hello(4);
    made_ethernet(&made, IPV4);
    expect_other(1, 13, PDI_OTHER_SHORT, "short packet");
    expect_other(1, 14, PDI_OTHER_SHORT, "short packet");
    make_hello(4);
    made_front(&made, "\x07\0\0\0", 4);
    expect_other(0, -1, PDI_OTHER_FAMILY, "address family 7");
    made.data[0] = 2;
    expect_other(0, 3, PDI_OTHER_SHORT, "short packet");
    make_hello(4);
    made_front(&made, "\x08\0\0\0\0\0\0\x02\0\x01\0\x06........", 20);
    expect_other(276, 19, PDI_OTHER_SHORT, "short packet");
    struct pdi_frame frame = {.stranger = 1, .block_kind = 9, .link = 1};
    CHECK_EQ(pdi_dissect(&dissector, &frame, &carried), PYDDSI_END);
    CHECK(carried.other == PDI_OTHER_BLOCK && carried.detail == 9);
}

/* The same within IP. */
static void test_other_ip(void)
{
    static const uint8_t long_rest[7] = {0xFF};
    make_hello(4);
    expect_other(101, 0, PDI_OTHER_SHORT, "short packet");
    expect_other(101, 19, PDI_OTHER_SHORT, "short packet");
    expect_other(101, 27, PDI_OTHER_SHORT, "short packet");
    made.data[0] = 0x50;
    expect_other(101, -1, PDI_OTHER_IP, "bad IP header");
    made.data[0] = 0x44;
    expect_other(101, -1, PDI_OTHER_IP, "bad IP header");
    made.data[0] = 0x45;
    made.data[3] = 19;
    expect_other(101, -1, PDI_OTHER_IP, "bad IP header");
    made.data[3] = 27;
    expect_other(101, -1, PDI_OTHER_SHORT, "short packet");
    made_ethernet(&made, IPV4);
    expect_other(1, -1, PDI_OTHER_SHORT, "short packet");
    made_begin(&made, NULL, 0);
    made_ipv4(&made, 1, 0, 77, -1);
    expect_other(101, -1, PDI_OTHER_PROTOCOL, "IP protocol 1");
    CHECK(carried.ip == 4 && carried.protocol == 1 && carried.identity == 77);
    CHECK(carried.source.ip[3] == 1 && carried.target.ip[3] == 2);
    made_begin(&made, NULL, 0);
    made_ipv6(&made, 58, -1);
    expect_other(101, -1, PDI_OTHER_PROTOCOL, "IP protocol 58");
    expect_other(101, 39, PDI_OTHER_SHORT, "short packet");
    make_hello(6);
    expect_other(101, 47, PDI_OTHER_SHORT, "short packet");
    made_begin(&made, "x", 1);
    made_udp(&made, -1);
    for (int i = 0; i < 9; i++)
        made_extension(&made, i == 0 ? UDP : OPTIONS, eight, sizeof(eight));
    made_ipv6(&made, OPTIONS, -1);
    expect_other(101, -1, PDI_OTHER_PROTOCOL, "IP protocol 60");
    made_begin(&made, NULL, 0);
    made_extension(&made, UDP, long_rest, 1);
    made_ipv6(&made, HOP, -1);
    expect_other(101, -1, PDI_OTHER_SHORT, "short packet");
    made_begin(&made, NULL, 0);
    made_extension(&made, UDP, long_rest, 7);
    made_ipv6(&made, HOP, -1);
    expect_other(101, -1, PDI_OTHER_SHORT, "short packet");
    made_begin(&made, "hello", 5);
    made_udp(&made, -1);
    made_extension(&made, UDP, eight, sizeof(eight));
    made_ipv6(&made, HOP, -1);
    expect_other(101, 41, PDI_OTHER_SHORT, "short packet");
}

/* The same for TCP, and for pieces that can never be whole. */
static void test_other_transport(void)
{
    made_begin(&made, NULL, 0);
    made_tcp(&made, 1, 16, 5);
    made.size--;
    made_ipv4(&made, TCP, 0, 1, -1);
    expect_other(101, -1, PDI_OTHER_SHORT, "short packet");
    for (unsigned words = 4; words <= 6; words += 2) {
        made_begin(&made, NULL, 0);
        made_tcp(&made, 1, 16, words);
        made_ipv4(&made, TCP, 0, 1, -1);
        expect_other(101, -1, PDI_OTHER_TCP, "bad TCP header");
    }
    made_begin(&made, "12345678", 8);
    made_ipv4(&made, UDP, 0x2000, 1, -1);
    expect_other(101, 27, PDI_OTHER_FRAGMENT, "fragment");
    made_begin(&made, "12345678", 8);
    made_extension(&made, UDP, "\0\0\x01\0\0\0\0", 7);
    made_ipv6(&made, FRAGMENT, -1);
    expect_other(101, 55, PDI_OTHER_FRAGMENT, "fragment");
}

/* If it failed, traffic in a tunnel would be counted as nothing that anybody understands, or be taken for ours. */
static void test_tunnels(void)
{
    static const struct {
        unsigned kind;
        const char *words;
    } cases[] = {{0x8847, "MPLS tunnel"},
                 {0x8848, "MPLS tunnel"},
                 {0x8863, "PPPoE tunnel"},
                 {0x8864, "PPPoE tunnel"}};
    static const struct {
        unsigned protocol;
        const char *words;
    } protocols[] = {{4, "IP-in-IP tunnel"}, {41, "IP-in-IP tunnel"}, {47, "GRE tunnel"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make_hello(4);
        made_ethernet(&made, cases[i].kind);
        expect_other(1, -1, PDI_OTHER_TUNNEL, cases[i].words);
        CHECK_EQ(carried.detail, cases[i].kind);
        make_hello(4);
        made_tag(&made, 9, cases[i].kind);
        made_ethernet(&made, 0x8100);
        expect_other(1, -1, PDI_OTHER_TUNNEL, cases[i].words);
    }
    for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++) {
        make_hello(4);
        made_ipv4(&made, protocols[i].protocol, 0, 1, -1);
        expect_other(101, -1, PDI_OTHER_TUNNEL, protocols[i].words);
        CHECK_EQ(carried.detail, protocols[i].protocol);
        make_hello(6);
        made_ipv6(&made, protocols[i].protocol, -1);
        expect_other(101, -1, PDI_OTHER_TUNNEL, protocols[i].words);
    }
    make_hello(4);
    made_put16(made.data + 22, 4789);
    made_ethernet(&made, IPV4);
    expect_other(1, -1, PDI_OTHER_TUNNEL, "VXLAN tunnel");
    CHECK_EQ(carried.detail, 4789);
    make_hello(4);
    made_put16(made.data + 20, 4789); /* a source port may be any */
    CHECK_EQ(dissect_made(101), PYDDSI_OK);
}

/* If it failed, a wrong UDP length would read beyond the packet, or throw the payload away. */
static void test_udp_length(void)
{
    static const int lengths[] = {0, 7, 20, 65535};
    for (unsigned link = 1; link <= 101; link += 100) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            made_begin(&made, "hello", 5);
            made_udp(&made, lengths[i]);
            made_ipv4(&made, UDP, 0, 1, -1);
            if (link == 1)
                made_ethernet(&made, IPV4);
            CHECK_EQ(dissect_made(link), PYDDSI_OK);
            expect_hello();
        }
        made_begin(&made, "hello.........", 14);
        made_udp(&made, 13); /* something stands behind it in its packet */
        made_ipv4(&made, UDP, 0, 1, -1);
        if (link == 1)
            made_ethernet(&made, IPV4);
        CHECK_EQ(dissect_made(link), PYDDSI_OK);
        expect_hello();
    }
}

/* If it failed, packets captured before the network card cut them up, which carry no length, would be lost. */
static void test_ip_without_length(void)
{
    static const uint8_t zeros[70000];
    made_begin(&made, zeros, 60000);
    made_udp(&made, 0);
    made_ipv4(&made, UDP, 0, 1, 0);
    made_ethernet(&made, IPV4);
    CHECK_EQ(dissect_made(1), PYDDSI_OK);
    CHECK(carried.size == 60000 && carried.whole == 60000);
    made_begin(&made, zeros, 70000);
    made_udp(&made, 0);
    made_ipv6(&made, UDP, 0);
    CHECK_EQ(dissect_made(101), PYDDSI_OK);
    CHECK(carried.size == 70000 && carried.whole == 70000);
}

/* If it failed, a datagram that the snap length cut would pass for a whole one, or a whole one for cut. */
static void test_cut(void)
{
    uint8_t data[100];
    for (unsigned i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)i;
    made_begin(&made, data, sizeof(data));
    made_udp(&made, -1);
    made_ipv4(&made, UDP, 0, 1, -1);
    made_ethernet(&made, IPV4);
    for (uint32_t size = 42; size <= 142; size++) {
        CHECK_EQ(dissect(1, made.data, size), PYDDSI_OK);
        CHECK_EQ(carried.size, size - 42);
        CHECK_EQ(carried.whole, 100);
        CHECK(memcmp(carried.data, data, carried.size) == 0);
        CHECK_EQ(dissect(101, made.data + 14, size - 14), PYDDSI_OK);
        CHECK(carried.size == size - 42 && carried.whole == 100);
    }
}

/* If it failed, a TCP packet would begin or end at another byte than it does, or say something else. */
static void test_tcp(void)
{
    for (uint32_t cut = 0; cut <= 17; cut++) { /* 12 bytes of options, 5 of data */
        made_begin(&made, "............hello", 17);
        made_tcp(&made, 0xFEDCBA98, 0x12, 8);
        made_ipv6(&made, TCP, -1);
        CHECK_EQ(dissect(101, made.data, made.size - cut), PYDDSI_OK);
        CHECK_EQ(carried.size, cut < 5 ? 5 - cut : 0);
        CHECK_EQ(carried.whole, 5);
        CHECK(memcmp(carried.data, "hello", carried.size) == 0);
        CHECK(carried.source.kind == 16 && carried.target.kind == 16);
        CHECK(carried.source.port == MADE_HERE && carried.target.port == MADE_THERE);
        CHECK(carried.sequence == 0xFEDCBA98 && carried.tcp_flags == 0x12);
    }
    made_begin(&made, NULL, 0);
    made_tcp(&made, 1, 16, 5);
    made_ipv4(&made, TCP, 0, 3, -1);
    made_ethernet(&made, IPV4); /* padded */
    CHECK_EQ(dissect_made(1), PYDDSI_OK);
    CHECK(carried.size == 0 && carried.whole == 0 && carried.source.kind == 14);
    CHECK_EQ(carried.identity, 3);
}

/* Part [start, stop) of a datagram of 2,000 bytes as a fragment. */
static void make_piece(int ip, uint32_t start, uint32_t stop, unsigned identity)
{
    static struct made whole;
    uint8_t data[2000];
    struct pdi_rand rand;
    pdi_rand_init(&rand, 1);
    for (unsigned i = 0; i < sizeof(data); i++) /* no part of it is like another */
        data[i] = (uint8_t)pdi_rand_u64(&rand);
    made_begin(&whole, data, sizeof(data));
    made_udp(&whole, -1);
    unsigned more = stop < whole.size;
    made_begin(&made, whole.data + start, stop - start);
    if (ip == 4) {
        made_ipv4(&made, UDP, start / 8 | more << 13, identity, -1);
    } else {
        uint8_t rest[7] = {0, (uint8_t)(start >> 8), (uint8_t)(start | more), 0, 0, 0, 0};
        rest[6] = (uint8_t)identity;
        made_extension(&made, UDP, rest, sizeof(rest));
        made_extension(&made, FRAGMENT, eight, sizeof(eight));
        made_ipv6(&made, HOP, -1);
    }
}

/* If it failed, a datagram in pieces would be lost, put together wrongly, or mixed with another one. */
static void test_pieces(void)
{
    for (int ip = 4; ip <= 6; ip += 2) {
        uint64_t before = dissector.others[PDI_OTHER_FRAGMENT];
        make_piece(ip, 800, 2008, 1);
        CHECK_EQ(dissect_made(101), PYDDSI_AGAIN);
        CHECK_EQ(carried.piece, PDI_PIECE_WAITS);
        CHECK(carried.ip == ip && carried.protocol == UDP && carried.other == PDI_OTHER_NONE);
        make_piece(ip, 0, 800, 2); /* another datagram, */
        CHECK_EQ(dissect_made(101), PYDDSI_AGAIN);
        make_piece(ip, 0, 800, 1); /* another protocol, */
        made.data[ip == 4 ? 9 : 48] = TCP;
        CHECK_EQ(dissect_made(101), PYDDSI_AGAIN);
        make_piece(ip, 0, 800, 1); /* another host, */
        made.data[ip == 4 ? 15 : 23] = 9;
        CHECK_EQ(dissect_made(101), PYDDSI_AGAIN);
        make_piece(ip, 0, 800, 1); /* and another target */
        made.data[ip == 4 ? 19 : 39] = 9;
        CHECK_EQ(dissect_made(101), PYDDSI_AGAIN);
        make_piece(ip, 0, 800, 1);
        CHECK_EQ(dissect_made(101), PYDDSI_OK);
        CHECK_EQ(carried.piece, PDI_PIECE_WHOLE);
        CHECK(carried.size == 2000 && carried.whole == 2000);
        CHECK(carried.source.port == MADE_HERE && carried.source.kind == ip);
        make_piece(ip, 0, 2008, 1);
        CHECK(memcmp(carried.data, made.data + made.size - 2000, 2000) == 0);
        CHECK_EQ(dissector.others[PDI_OTHER_FRAGMENT], before);
        CHECK_EQ(pdi_pieces_fini(dissector.pieces), 4);
    }
}

/* If it failed, what stands in a packet that was put together would be read past the end, or by other rules than in one
 * that came whole. */
static void test_inside_pieces(void)
{
    static const uint8_t ipv6_rest[7] = {0, 0, 1, 0, 0, 0, 9};
    struct made second;
    make_hello(4);
    made_ipv4(&made, 47, 0x2000, 9, 28); /* the first 8 bytes of GRE */
    CHECK_EQ(dissect_made(101), PYDDSI_AGAIN);
    made_begin(&made, "12345", 5);
    made_ipv4(&made, 47, 1, 9, -1);
    expect_other(101, -1, PDI_OTHER_TUNNEL, "GRE tunnel");
    CHECK_EQ(carried.piece, PDI_PIECE_WHOLE);
    made_begin(&second, "hello", 5); /* an extension header that was cut up with the rest */
    made_udp(&second, -1);
    made_extension(&second, UDP, eight, sizeof(eight));
    made_begin(&made, second.data, 8);
    made_extension(&made, OPTIONS, ipv6_rest, sizeof(ipv6_rest));
    made_ipv6(&made, FRAGMENT, -1);
    CHECK_EQ(dissect_made(101), PYDDSI_AGAIN);
    made_begin(&made, second.data + 8, second.size - 8);
    made_extension(&made, OPTIONS, "\0\0\x08\0\0\0\x09", 7);
    made_ipv6(&made, FRAGMENT, -1);
    CHECK_EQ(dissect_made(101), PYDDSI_OK);
    carried.piece = PDI_PIECE_NONE;
    expect_hello();
    made_begin(&made, "12345678", 8); /* pieces of pieces */
    made_extension(&made, UDP, ipv6_rest, sizeof(ipv6_rest));
    second = made;
    second.data = second.room + (made.data - made.room);
    made_begin(&made, second.data, 8);
    made_extension(&made, FRAGMENT, ipv6_rest, sizeof(ipv6_rest));
    made_ipv6(&made, FRAGMENT, -1);
    CHECK_EQ(dissect_made(101), PYDDSI_AGAIN);
    made_begin(&made, second.data + 8, 8);
    made_extension(&made, FRAGMENT, "\0\0\x08\0\0\0\x09", 7);
    made_ipv6(&made, FRAGMENT, -1);
    expect_other(101, -1, PDI_OTHER_IP, "bad IP header");
    make_hello(4); /* an IPv4 header and UDP alike: the rest of it is one byte */
    made_begin(&made, "12345678", 8);
    made_ipv4(&made, TCP, 0x2000, 5, -1);
    CHECK_EQ(dissect_made(101), PYDDSI_AGAIN);
    made_begin(&made, "1", 1);
    made_ipv4(&made, TCP, 1, 5, -1);
    expect_other(101, -1, PDI_OTHER_SHORT, "short packet");
}

/* If it failed, a fragment cut by the snap length would be filled up with what stands behind it in the file. */
static void test_cut_piece(void)
{
    for (int ip = 4; ip <= 6; ip += 2) {
        make_piece(ip, 0, 800, 1);
        expect_other(101, 500, PDI_OTHER_FRAGMENT, "fragment");
        make_hello(ip);
        CHECK_EQ(dissect_made(101), PYDDSI_OK);
        make_piece(ip, 800, 2008, 1);
        CHECK_EQ(dissect_made(101), PYDDSI_AGAIN);
        CHECK_EQ(pdi_pieces_fini(dissector.pieces), 1);
    }
}

/* If it failed, a piece that ends the wait of others would not be counted, or not under fragments. */
static void test_given_up(void)
{
    uint64_t before = dissector.others[PDI_OTHER_FRAGMENT];
    make_piece(4, 800, 2008, 1);
    CHECK_EQ(dissect_made(101), PYDDSI_AGAIN);
    now += PDI_PIECES_WAIT_NS + 1;
    make_piece(4, 0, 800, 1);
    CHECK_EQ(dissect_made(101), PYDDSI_AGAIN);
    CHECK_EQ(dissector.others[PDI_OTHER_FRAGMENT], before + 1);
    make_piece(4, 800, 2008, 1);
    CHECK_EQ(dissect_made(101), PYDDSI_OK);
    CHECK_EQ(dissector.others[PDI_OTHER_FRAGMENT], before + 1);
}

static bool same_endpoint(const pyddsi_endpoint *one, const pyddsi_endpoint *two)
{
    return one->kind == two->kind && one->port == two->port && memcmp(one->ip, two->ip, 16) == 0;
}

/* If it failed, the straight path would find something else in a frame than the general one. */
static void test_straight_is_general(void)
{
    for (uint64_t seed = 0; seed < 200000 && test_failures == 0; seed++) {
        struct pdi_rand rand;
        uint8_t bytes[100];
        pdi_rand_init(&rand, seed);
        make_hello(4);
        made_ethernet(&made, IPV4);
        uint32_t size = made.size - (uint32_t)pdi_rand_below(&rand, 30);
        memcpy(bytes, made.data, size);
        for (uint64_t i = pdi_rand_below(&rand, 4); i > 0; i--) {
            static const uint8_t places[] = {14, 15, 16, 17, 20, 21, 23, 36, 37, 38, 39};
            bytes[places[pdi_rand_below(&rand, sizeof(places))]] =
                pdi_rand_chance(&rand, 1, 2) ? (uint8_t)pdi_rand_below(&rand, 48)
                                             : (uint8_t)pdi_rand_u64(&rand);
        }
        int status = dissect(1, bytes, size);
        struct pdi_carried first = carried;
        uint8_t *data = frame_memory;
        frame_memory = NULL;
        CHECK_EQ(dissect(101, bytes + 14, size - 14), status);
        CHECK(first.other == carried.other && first.detail == carried.detail);
        if (status == PYDDSI_OK) {
            CHECK(first.size == carried.size && first.whole == carried.whole);
            CHECK_EQ(first.data - data - 14, carried.data - frame_memory);
            CHECK(same_endpoint(&first.source, &carried.source));
            CHECK(same_endpoint(&first.target, &carried.target));
            CHECK(first.identity == carried.identity && first.vlan == 0);
            CHECK(first.ip == carried.ip && first.protocol == carried.protocol);
            CHECK(first.piece == carried.piece && first.tcp_flags == carried.tcp_flags);
            CHECK_EQ(first.sequence, carried.sequence);
        }
        free(data);
        pdi_pieces_fini(dissector.pieces);
        if (test_failures != 0)
            printf("seed %" PRIu64 "\n", seed);
    }
}

/* If it failed, damaged frames would be read past their end, or what comes out lie outside of them. */
static void test_any_bytes(void)
{
    static const uint16_t links[] = {1, 1, 1, 101, 0, 108, 113, 276, 105};
    uint64_t counted = 0;
    uint64_t ended = 0;
    for (int i = 0; i < PDI_OTHER_COUNT; i++)
        counted += i == PDI_OTHER_FRAGMENT ? 0 : dissector.others[i];
    for (uint64_t seed = 0; seed < 100000; seed++) {
        struct pdi_rand rand;
        pdi_rand_init(&rand, seed);
        if (pdi_rand_chance(&rand, 1, 2))
            make_hello(pdi_rand_chance(&rand, 1, 2) ? 4 : 6);
        else
            make_piece(pdi_rand_chance(&rand, 1, 2) ? 4 : 6, 0, 16, 1);
        unsigned kind = made.data[0] >> 4 == 4 ? IPV4 : IPV6;
        unsigned link = links[pdi_rand_below(&rand, sizeof(links) / sizeof(links[0]))];
        if (link == 1)
            made_ethernet(&made, kind);
        for (uint64_t i = pdi_rand_below(&rand, 5); i > 0; i--)
            made.data[pdi_rand_below(&rand, made.size < 70 ? made.size : 70)] =
                (uint8_t)pdi_rand_u64(&rand);
        uint32_t size = made.size - (uint32_t)pdi_rand_below(&rand, made.size + UINT64_C(1));
        int status = dissect(link, made.data, size);
        CHECK(status == PYDDSI_OK || status == PYDDSI_AGAIN || status == PYDDSI_END);
        CHECK((status == PYDDSI_END) == (carried.other != PDI_OTHER_NONE));
        ended += status == PYDDSI_END && carried.other != PDI_OTHER_FRAGMENT;
        if (status != PYDDSI_OK)
            continue;
        CHECK(carried.size <= carried.whole);
        if (carried.piece == PDI_PIECE_NONE)
            CHECK(carried.data >= frame_memory &&
                  carried.data + carried.size <= frame_memory + size);
    }
    for (int i = 0; i < PDI_OTHER_COUNT; i++)
        counted -= i == PDI_OTHER_FRAGMENT ? 0 : dissector.others[i];
    CHECK_EQ(0 - counted, ended);
}

/* If it failed, a reason would be cut in the middle of the room for it, or written beyond. */
static void test_print(void)
{
    char text[48];
    pdi_other_print(PDI_OTHER_BLOCK, 0x40000BAD, text, sizeof(text));
    CHECK_TEXT(text, "pcapng block 0x40000bad");
    pdi_other_print(PDI_OTHER_BLOCK, 9, text, sizeof(text));
    CHECK_TEXT(text, "pcapng block 0x9");
    pdi_other_print(PDI_OTHER_NONE, 0, text, sizeof(text));
    CHECK_TEXT(text, "");
    pdi_other_print(PDI_OTHER_COUNT, 7, text, sizeof(text));
    CHECK_TEXT(text, "");
    memset(text, 'x', sizeof(text));
    pdi_other_print(PDI_OTHER_LINK, UINT32_MAX, text, 8);
    CHECK_TEXT(text, "link ty");
    CHECK_EQ(text[8], 'x');
    for (unsigned other = 0; other < PDI_OTHER_COUNT; other++) {
        pdi_other_print(other, UINT32_MAX, text, sizeof(text));
        CHECK(strlen(text) < sizeof(text) - 1);
    }
}

int main(void)
{
    void *memory = malloc(pdi_pieces_size());
    if (memory == NULL)
        return 1;
    dissector.pieces = pdi_pieces_init(memory);
    test_links();
    test_tags();
    test_ipv4_options();
    test_ipv6_extensions();
    test_other_links();
    test_other_ip();
    test_other_transport();
    test_tunnels();
    test_udp_length();
    test_ip_without_length();
    test_cut();
    test_tcp();
    test_pieces();
    test_inside_pieces();
    test_cut_piece();
    test_given_up();
    test_straight_is_general();
    test_any_bytes();
    test_print();
    free(frame_memory);
    free(memory);
    return test_result();
}
