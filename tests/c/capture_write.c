/* capture/write.h: what is written is read again as it was, byte for byte what others write, or not at all. It is long because it has
 * files of both kinds and frames of all four. */
#include "capture/write.h"

#include "capture_files.h"

enum { ROOM = 1 << 20, FRAMES = 300, PAYLOAD = 1 << 17 };

static uint8_t out[ROOM];
static uint8_t payload[PAYLOAD];

static void check_bytes(const uint8_t *got, size_t size, const char *hex)
{
    char text[1024];
    CHECK(2 * size < sizeof(text));
    for (size_t i = 0; i < size; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", got[i]);
    CHECK_TEXT(text, hex);
}

/* If it failed, files of ours would be other bytes than the format has, which our own reader might not see. */
static void test_bytes(void)
{
    struct pdi_frame frame = {.time_ns = INT64_C(1700000000123456789),
                              .data = (uint8_t *)"hello",
                              .size = 5,
                              .wire_size = 9,
                              .interface = 1,
                              .direction = PDI_WAY_OUT};
    pyddsi_bytes comment = {(const uint8_t *)"late", 4};
    size_t at = 0;
    CHECK_EQ(pdi_write_pcap_header(101, 262144, out, ROOM, &at), PYDDSI_OK);
    CHECK_EQ(pdi_write_pcap_frame(&frame, out, ROOM, &at), PYDDSI_OK);
    check_bytes(out, at,
                "4d3cb2a10200040000000000000000000000040065000000"
                "00f1536515cd5b07050000000900000068656c6c6f");
    at = 0;
    CHECK_EQ(pdi_write_section("pyddsi", out, ROOM, &at), PYDDSI_OK);
    check_bytes(out, at,
                "0a0d0d0a2c0000004d3c2b1a01000000ffffffffffffffff04000600707964647369000000000000"
                "2c000000");
    at = 0;
    CHECK_EQ(pdi_write_interface(101, 65535, "lo", out, ROOM, &at), PYDDSI_OK);
    check_bytes(out, at,
                "010000002800000065000000ffff0000020002006c6f0000090001000900000000000000"
                "28000000");
    at = 0;
    CHECK_EQ(pdi_write_frame(&frame, comment, out, ROOM, &at), PYDDSI_OK);
    check_bytes(out, at,
                "060000003c00000001000000fe9c971715cd853d0500000009000000"
                "68656c6c6f0000000200040002000000010004006c617465000000003c000000");
    at = 0;
    CHECK_EQ(pdi_write_statistics(1, 5, 7, 3, out, ROOM, &at), PYDDSI_OK);
    check_bytes(out, at,
                "050000003400000001000000000000000500000004000800070000000000000005000800"
                "03000000000000000000000034000000");
}

/* A frame with the corners often: no bytes, odd sizes, lengths that contradict each other, no time. */
static struct pdi_frame draw(struct pdi_rand *rand, uint64_t number)
{
    struct pdi_frame frame = {.number = number};
    frame.size = (uint32_t)pdi_rand_below(rand, pdi_rand_chance(rand, 1, 2) ? 6 : 2000);
    frame.wire_size = pdi_rand_chance(rand, 1, 2) ? frame.size : (uint32_t)pdi_rand_u64(rand);
    frame.data = payload + pdi_rand_below(rand, 1000);
    frame.time_ns = (int64_t)pdi_rand_below(rand, UINT64_C(4294967296000000000));
    frame.direction = (uint8_t)pdi_rand_below(rand, 3);
    frame.interface = (uint16_t)pdi_rand_below(rand, 3);
    return frame;
}

static void check_read(const struct pdi_frame *wanted, const struct seen *seen)
{
    CHECK_EQ(seen->frame.number, wanted->number);
    CHECK_EQ(seen->frame.time_ns, wanted->time_ns);
    CHECK_EQ(seen->frame.size, wanted->size);
    CHECK_EQ(seen->frame.wire_size, wanted->wire_size);
    CHECK_EQ(seen->frame.link, wanted->link);
    CHECK_EQ(seen->frame.interface, wanted->interface);
    CHECK_EQ(seen->frame.direction, wanted->direction);
    CHECK(memcmp(out + seen->data_at, wanted->data, wanted->size) == 0);
}

/* If it failed, a file that we wrote would tell of other frames than there were. */
static void test_round_trip(void)
{
    static struct pdi_frame wanted[FRAMES];
    static struct seen seen[FRAMES];
    struct reading got = {.seen = seen, .room = FRAMES};
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct pdi_rand rand;
        size_t at = 0;
        int ng = seed % 2 == 1;
        pdi_rand_init(&rand, seed);
        if (ng) {
            CHECK_EQ(pdi_write_section("test", out, ROOM, &at), PYDDSI_OK);
            for (uint16_t i = 0; i < 3; i++)
                CHECK_EQ(pdi_write_interface((uint16_t)(100 + i), 0, i % 2 == 0 ? "a" : "", out,
                                             ROOM, &at),
                         PYDDSI_OK);
        } else {
            CHECK_EQ(pdi_write_pcap_header(100, 0, out, ROOM, &at), PYDDSI_OK);
        }
        for (size_t i = 0; i < FRAMES; i++) {
            pyddsi_bytes comment = {payload, pdi_rand_below(&rand, 2) * pdi_rand_below(&rand, 9)};
            wanted[i] = draw(&rand, i + 1);
            if (!ng)
                wanted[i].interface = wanted[i].direction = 0;
            wanted[i].link = (uint16_t)(100 + wanted[i].interface);
            int status = ng ? pdi_write_frame(&wanted[i], comment, out, ROOM, &at)
                            : pdi_write_pcap_frame(&wanted[i], out, ROOM, &at);
            CHECK_EQ(status, PYDDSI_OK);
        }
        if (ng)
            CHECK_EQ(pdi_write_statistics(1, 0, 9, 4, out, ROOM, &at), PYDDSI_OK);
        reading_run(&got, out, at, 5000, &rand);
        CHECK(got.count == FRAMES && got.tail == 0 && got.status == PYDDSI_SHORT);
        for (size_t i = 0; i < got.count; i++)
            check_read(&wanted[i], &seen[i]);
        CHECK_EQ(got.container.dropped, ng ? 4 : 0);
    }
}

/* All that can be written, one after the other. */
static int write_any(int which, uint8_t *into, size_t room, size_t *at)
{
    struct pdi_frame frame = {.data = payload, .size = 21, .direction = PDI_WAY_IN};
    pyddsi_bytes comment = {payload, 3};
    struct pdi_synthetic synthetic = {
        .source = {.kind = 4}, .target = {.kind = 6}, .data = payload, .size = 13};
    switch (which) {
    case 0:
        return pdi_write_pcap_header(1, 1, into, room, at);
    case 1:
        return pdi_write_pcap_frame(&frame, into, room, at);
    case 2:
        return pdi_write_section("test", into, room, at);
    case 3:
        return pdi_write_interface(1, 1, "eth0", into, room, at);
    case 4:
        return pdi_write_frame(&frame, comment, into, room, at);
    case 5:
        return pdi_write_statistics(1, 1, 1, 1, into, room, at);
    default:
        return pdi_write_synthetic(&synthetic, into, room, at);
    }
}

/* If it failed, memory behind a buffer would be written over, or half a block be left in it. */
static void test_no_space(void)
{
    for (int which = 0; which < 7; which++) {
        size_t whole = 3;
        CHECK_EQ(write_any(which, out, ROOM, &whole), PYDDSI_OK);
        for (size_t room = 0; room <= whole; room++) {
            uint8_t *small = malloc(room != 0 ? room : 1);
            size_t at = 3, touched = 0;
            if (small == NULL)
                abort();
            memset(small, 0xa5, room);
            int status = write_any(which, small, room, &at);
            CHECK_EQ(status, room < whole ? PYDDSI_NO_SPACE : PYDDSI_OK);
            CHECK_EQ(at, room < whole ? 3 : whole);
            for (size_t i = 0; i < room; i++)
                touched += small[i] != 0xa5 && (status != PYDDSI_OK || i < 3);
            CHECK_EQ(touched, 0);
            free(small);
        }
    }
}

/* If it failed, something would be written that nobody reads again, or reads as something else. */
static void test_cannot_be_written(void)
{
    const struct pdi_frame good = {.data = payload, .size = 5};
    static char text[UINT16_MAX + 2];
    pyddsi_bytes none = {NULL, 0}, large = {payload, UINT16_MAX + 1};
    struct pdi_frame frame = good;
    size_t at = 0;
    frame.time_ns = -1;
    CHECK_EQ(pdi_write_pcap_frame(&frame, out, ROOM, &at), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_write_frame(&frame, none, out, ROOM, &at), PYDDSI_BAD_ARGUMENT);
    frame.time_ns = INT64_C(4294967296000000000);
    CHECK_EQ(pdi_write_pcap_frame(&frame, out, ROOM, &at), PYDDSI_BAD_ARGUMENT);
    frame = good;
    frame.size = PDI_FRAME_BYTES_MAX + 1;
    CHECK_EQ(pdi_write_pcap_frame(&frame, out, ROOM, &at), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_write_frame(&frame, none, out, ROOM, &at), PYDDSI_BAD_ARGUMENT);
    frame = good;
    frame.stranger = 1;
    CHECK_EQ(pdi_write_pcap_frame(&frame, out, ROOM, &at), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_write_frame(&frame, none, out, ROOM, &at), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_write_frame(&good, large, out, ROOM, &at), PYDDSI_BAD_ARGUMENT);
    memset(text, 'a', sizeof(text) - 1);
    CHECK_EQ(pdi_write_section(text, out, ROOM, &at), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_write_interface(1, 1, text, out, ROOM, &at), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_write_statistics(0, -1, 0, 0, out, ROOM, &at), PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(at, 0);
}

/* If it failed, a frame without a time, which pcapng has, would get whatever its absence is made of. */
static void test_no_time(void)
{
    struct pdi_frame frame = {.data = payload, .size = 5, .time_ns = PDI_TIME_NONE};
    struct seen seen[1];
    struct reading got = {.seen = seen, .room = 1};
    struct file file = {out, 0, ROOM, 0};
    CHECK_EQ(pdi_write_pcap_header(1, 0, out, ROOM, &file.size), PYDDSI_OK);
    CHECK_EQ(pdi_write_pcap_frame(&frame, out, ROOM, &file.size), PYDDSI_OK);
    reading_whole(&got, &file);
    CHECK(got.count == 1 && seen[0].frame.time_ns == 0);
    file.size = 0;
    CHECK_EQ(pdi_write_section("", out, ROOM, &file.size), PYDDSI_OK);
    CHECK_EQ(pdi_write_interface(1, 0, "", out, ROOM, &file.size), PYDDSI_OK);
    CHECK_EQ(pdi_write_frame(&frame, (pyddsi_bytes){NULL, 0}, out, ROOM, &file.size), PYDDSI_OK);
    reading_whole(&got, &file);
    CHECK(got.count == 1 && seen[0].frame.time_ns == 0 && seen[0].frame.options.size == 0);
}

/* ---- synthesised frames ---- */

static pyddsi_endpoint endpoint(unsigned kind, const char *ip, unsigned port)
{
    pyddsi_endpoint made = {.port = (uint16_t)port, .kind = (uint8_t)kind};
    memcpy(made.ip, ip, kind % 10 == 6 ? 16 : 4);
    return made;
}

#define FOUR  "\x0a\0\0\1"
#define GROUP "\xef\xff\0\1"
#define SIX   "\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\1"
#define SIX_2 "\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\2"
#define SIX_G "\xff\2\0\0\0\0\0\0\0\0\0\0\0\0\x74\x47"

/* If it failed, a frame would not be what the same datagram looks like elsewhere. (The bytes are scapy's.) */
static void test_synthetic_bytes(void)
{
    const struct {
        struct pdi_synthetic synthetic;
        const char *hex;
    } cases[] = {
        {{endpoint(4, FOUR, 40000),
          endpoint(4, GROUP, 7447),
          (const uint8_t *)"hello",
          5,
          0,
          0,
          0,
          false,
          {0}},
         "4500002100004000401140cb0a000001efff00019c401d17000d08a968656c6c6f"},
        {{endpoint(6, SIX, 40000),
          endpoint(6, SIX_G, 7447),
          (const uint8_t *)"hello",
          5,
          0,
          0,
          0,
          false,
          {0}},
         "60000000000d1140fe800000000000000000000000000001ff0200000000000000000000000074479c401d17"
         "000d90de68656c6c6f"},
        {{endpoint(14, FOUR, 40000),
          endpoint(16, SIX_2, 7447),
          (const uint8_t *)"hi!",
          3,
          0,
          0x01020304,
          0,
          false,
          {0}},
         "600000000017064000000000000000000000ffff0a000001fe8000000000000000000000000000029c401d17"
         "01020304000000005018ffff607f0000686921"},
        {{endpoint(14, FOUR, 40000),
          endpoint(14, "\x0a\0\0\2", 7447),
          NULL,
          0,
          0,
          0xfffffffe,
          2,
          false,
          {0}},
         "4500002800004000400626ce0a0000010a0000029c401d17fffffffe000000005002ffffe2890000"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t at = 0;
        CHECK_EQ(pdi_write_synthetic(&cases[i].synthetic, out, ROOM, &at), PYDDSI_OK);
        check_bytes(out, at, cases[i].hex);
    }
}

/* The sum of 16-bit numbers with their carries, the way receivers check it. */
static uint32_t add(uint32_t total, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        total += (uint32_t)data[i] << (i % 2 == 0 ? 8 : 0);
        total = (total & 0xffff) + (total >> 16);
    }
    return total;
}

static void check_sums(size_t size, int six, uint32_t protocol)
{
    size_t ip = six ? 40 : 20;
    uint32_t total = add((uint32_t)(size - ip) + protocol, out + (six ? 8 : 12), six ? 32 : 8);
    total = (total & 0xffff) + (total >> 16);
    CHECK_EQ(add(total, out + ip, size - ip), 0xffff);
    CHECK(six || add(0, out, 20) == 0xffff);
    CHECK(protocol != 17 || out[ip + 6] != 0 || out[ip + 7] != 0);
}

/* If it failed, tools would call our packets corrupt; of all payloads there are, in one of 65,536. */
static void test_checksums(void)
{
    struct pdi_rand rand;
    unsigned complements = 0;
    pdi_rand_init(&rand, 1);
    for (unsigned i = 0; i < 70000; i++) {
        int tcp = i % 4 >= 2, six = i % 2;
        unsigned kind = (tcp ? 10U : 0U) + (six ? 6U : 4U);
        struct pdi_synthetic synthetic = {.source = endpoint(kind, SIX, i & 0xffff),
                                          .target = endpoint(kind, SIX_2, 7447),
                                          .data = payload + i,
                                          .size = (uint32_t)pdi_rand_below(&rand, 40)};
        size_t at = 0;
        CHECK_EQ(pdi_write_synthetic(&synthetic, out, ROOM, &at), PYDDSI_OK);
        check_sums(at, six, tcp ? 6 : 17);
    }
    for (unsigned i = 0; i < 65536; i++) { /* one of these has the sum whose complement is 0 */
        const uint8_t data[2] = {(uint8_t)(i >> 8), (uint8_t)i};
        struct pdi_synthetic synthetic = {.source = endpoint(4, FOUR, 1),
                                          .target = endpoint(4, GROUP, 2),
                                          .data = data,
                                          .size = 2};
        size_t at = 0;
        CHECK_EQ(pdi_write_synthetic(&synthetic, out, ROOM, &at), PYDDSI_OK);
        check_sums(at, 0, 17);
        complements += out[26] == 0xff && out[27] == 0xff;
    }
    CHECK_EQ(complements, 1);
}

/* If it failed, a payload that lies in two places would not be the same packet as one that lies in one, or a sum that is left out be
 * left out where it must not. */
static void test_two_places(void)
{
    struct pdi_rand rand;
    pdi_rand_init(&rand, 2);
    for (unsigned i = 0; i < 4000; i++) {
        int tcp = i % 4 >= 2, six = i % 2;
        unsigned kind = (tcp ? 10U : 0U) + (six ? 6U : 4U);
        uint32_t size = (uint32_t)pdi_rand_below(&rand, 200);
        uint32_t before = (uint32_t)pdi_rand_below(&rand, size + 1);
        struct pdi_synthetic whole = {.source = endpoint(kind, SIX, i & 0xffff),
                                      .target = endpoint(kind, SIX_2, 7447),
                                      .data = payload + i,
                                      .size = size};
        struct pdi_synthetic parts = whole;
        parts.head = (pyddsi_bytes){payload + i, before};
        parts.data = payload + i + before;
        parts.size = size - before;
        static uint8_t wanted[512];
        size_t at = 0;
        size_t bytes = 0;
        CHECK_EQ(pdi_write_synthetic(&whole, wanted, sizeof wanted, &bytes), PYDDSI_OK);
        CHECK_EQ(pdi_synthetic_size(&parts), bytes);
        CHECK_EQ(pdi_write_synthetic(&parts, out, ROOM, &at), PYDDSI_OK);
        CHECK(at == bytes && memcmp(out, wanted, at) == 0);
        parts.unsummed = true;
        at = 0;
        CHECK_EQ(pdi_write_synthetic(&parts, out, ROOM, &at), PYDDSI_OK);
        if (kind == 4) {
            wanted[26] = wanted[27] = 0;
        }
        CHECK(at == bytes && memcmp(out, wanted, at) == 0);
    }
}

/* If it failed, a length field would wrap round and a packet of any size claim to be a short one. */
static void test_synthetic_limits(void)
{
    static const struct {
        unsigned kind;
        uint32_t most;
    } cases[] = {{4, 65507}, {14, 65495}, {6, 65527}, {16, 65515}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned kind = cases[i].kind;
        struct pdi_synthetic synthetic = {.source = endpoint(kind, SIX, 1),
                                          .target = endpoint(kind, SIX_2, 2),
                                          .data = payload,
                                          .size = cases[i].most};
        size_t at = 0;
        CHECK_EQ(pdi_write_synthetic(&synthetic, out, ROOM, &at), PYDDSI_OK);
        CHECK_EQ(at, kind % 10 == 6 ? 65575 : 65535);
        check_sums(at, kind % 10 == 6, kind > 10 ? 6 : 17);
        synthetic.size--;
        synthetic.absent = 1;
        at = 0;
        CHECK_EQ(pdi_write_synthetic(&synthetic, out, ROOM, &at), PYDDSI_OK);
        CHECK_EQ(at, kind % 10 == 6 ? 65574 : 65534);
        synthetic.absent = 2;
        CHECK_EQ(pdi_write_synthetic(&synthetic, out, ROOM, &at), PYDDSI_BAD_ARGUMENT);
        synthetic.absent = 0;
        synthetic.size += 2;
        CHECK_EQ(pdi_write_synthetic(&synthetic, out, ROOM, &at), PYDDSI_BAD_ARGUMENT);
        CHECK_EQ(pdi_synthetic_size(&synthetic), 0);
        synthetic.size -= 2;
        synthetic.head = (pyddsi_bytes){payload, 2};
        CHECK_EQ(pdi_write_synthetic(&synthetic, out, ROOM, &at), PYDDSI_BAD_ARGUMENT);
        synthetic.head.size = SIZE_MAX;
        CHECK_EQ(pdi_write_synthetic(&synthetic, out, ROOM, &at), PYDDSI_BAD_ARGUMENT);
    }
    static const uint8_t kinds[][2] = {{0, 4},   {4, 0},   {4, 14}, {16, 6},
                                       {20, 20}, {24, 24}, {5, 5}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct pdi_synthetic synthetic = {.source = {.kind = kinds[i][0]},
                                          .target = {.kind = kinds[i][1]}};
        size_t at = 0;
        CHECK_EQ(pdi_write_synthetic(&synthetic, out, ROOM, &at), PYDDSI_BAD_ARGUMENT);
        CHECK_EQ(at, 0);
    }
}

int main(void)
{
    struct pdi_rand rand;
    pdi_rand_init(&rand, 7447);
    for (size_t i = 0; i < sizeof(payload); i++)
        payload[i] = (uint8_t)pdi_rand_u64(&rand);
    test_bytes();
    test_round_trip();
    test_no_space();
    test_cannot_be_written();
    test_no_time();
    test_synthetic_bytes();
    test_checksums();
    test_two_places();
    test_synthetic_limits();
    return test_result();
}
