/* capture/hide.h, copy.h: nothing of who, what about and what was said is left, and all else is as it was. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): madvise */
#include "capture/hide.h"

#include "base/rand.h"
#include "capture/copy.h"
#include "capture/write.h"
#include "capture_files.h"
#include "scanned.h"
#include "wire/decode.h"

enum { ROOM = 1 << 20, PACKET_ROOM = 1024 };

static const struct pdi_hide hide = {.key = {11, 12}, .names = 1};
static pyddsi_reading reading;

/* Each says something that must not be found again; a packet of every kind that can. */
static const struct {
    const char *text;
    size_t size;
} packets[] = {
#define PACKET(text) {text, sizeof(text) - 1}
    PACKET(
        "\x23\x01\x06SECRET2\x02\x14udp/239.255.0.1:7447\x13tcp/SECRET.7.8:4321\x01\x07\x06SECRET"),
    PACKET("\x24\x06SECRET\x05OTHER2\x00"),
    PACKET("\x24\x05OTHER\x05OTHER2\x02\x05\x09\x83\x03SECRET1\x09\x09\x03SECRET12"),
    PACKET("\x02\x04\x01\x13tcp/SECRET.7.8:4321"),
    PACKET("\x05\x06SECRET\x00"),
    PACKET("\x10\x06SECRET"),
    PACKET("\xb3\x06\x00\x03\x01\x02\x0e/SECRET/**/a.b\x01\x04\x0f/SECRET/OTHER/1\x04\x07\x0a/"
           "SECRET?x9"),
    PACKET("G\x00\x02\x06SECRET"),
    PACKET("I\x00\x0f/SECRET/OTHER/1\x06SECRET"),
    PACKET("H\x00\x02\x02\x06SECRET\x05OTHER"),
    PACKET("G\x00\x02\x06SECRETg\x01\x02\x7fSECRET and no more"),
};

/* Whether |text| occurs in some bytes. */
static bool has(const uint8_t *data, size_t size, const char *text)
{
    size_t length = strlen(text);
    for (size_t i = 0; i + length <= size; i++)
        if (memcmp(data + i, text, length) == 0)
            return true;
    return false;
}

/* The kinds of the messages of a packet, as letters, and the number of bytes of each. */
static void shape_of(const uint8_t *data, size_t size, char *out)
{
    pyddsi_decoder decoder;
    pyddsi_message message;
    size_t at = 0;
    pdi_decoder_init(&decoder, &reading, data, size);
    while (pdi_decoder_next(&decoder, &message) == PYDDSI_OK && at < 200)
        at += (size_t)sprintf(out + at, "%u.%zu.%u ", (unsigned)message.kind, message.size,
                              (unsigned)message.sn);
    (void)sprintf(out + at, "rule %d", (int)decoder.fault.rule);
}

/* If it failed, an id, a name, an address or a payload would be in a capture that somebody gives away. */
static void test_packets(void)
{
    for (size_t i = 0; i < sizeof packets / sizeof *packets; i++) {
        uint8_t data[PACKET_ROOM];
        char before[400], after[400];
        size_t size = packets[i].size;
        memcpy(data, packets[i].text, size);
        shape_of(data, size, before);
        CHECK(has(data, size, "SECRET"));
        CHECK_EQ(pdi_hide_packet(&hide, &reading, data, size, false), size);
        shape_of(data, size, after);
        if (has(data, size, "SECRET") || has(data, size, "OTHER"))
            printf("packet %zu: ", i);
        CHECK(!has(data, size, "SECRET") && !has(data, size, "OTHER"));
        if (i + 1 !=
            sizeof packets / sizeof *packets) /* behind what breaks a rule everything is zeros */
            CHECK_TEXT(after, before);
    }
    uint8_t open[PACKET_ROOM];
    memcpy(open, packets[0].text, packets[0].size);
    (void)pdi_hide_packet(&hide, &reading, open, packets[0].size, false);
    CHECK(has(open, packets[0].size, "udp/239.255.0.1:7447")); /* a group says nothing */
    CHECK(has(open, packets[0].size, "tcp/000000.0.0:0000"));
}

/* The replacement of one WDATA's name. */
static void replaced(const struct pdi_hide *by, const char *name, char *out)
{
    uint8_t data[PACKET_ROOM] = {0x49, 0x00, (uint8_t)strlen(name)};
    memcpy(data + 3, name, strlen(name));
    (void)pdi_hide_packet(by, &reading, data, 3 + strlen(name) + 1, false);
    memcpy(out, data + 3, strlen(name));
    out[strlen(name)] = '\0';
}

/* If it failed, one name would become two, or two of them one; or what a name is made of could not be seen any more. */
static void test_names(void)
{
    char one[100], two[100], three[100];
    struct pdi_hide other = {.key = {11, 13}, .names = 1}, open = {.key = {11, 12}};
    replaced(&hide, "/plant/robot/7/pose", one);
    replaced(&hide, "/plant/robot/8/pose", two);
    CHECK(memcmp(one, two, 13) == 0 && memcmp(one + 14, two + 14, 6) == 0 && one[13] != two[13]);
    CHECK(one[0] == '/' && one[6] == '/' && one[12] == '/' && one[14] == '/');
    replaced(&hide, "/plant/robot/7/pose", three);
    CHECK_TEXT(three, one);
    replaced(&other, "/plant/robot/7/pose", three);
    CHECK(strcmp(three, one) != 0);
    replaced(&hide, "/plant/*/**/ro*t", three);
    CHECK(memcmp(three, one, 7) == 0 && strstr(three, "/*/**/") != NULL && three[14] == '*');
    replaced(&open, "/plant/robot/7/pose", three);
    CHECK_TEXT(three, "/plant/robot/7/pose"); /* only if it is wanted */
}

static unsigned common_bits(const uint8_t *a, const uint8_t *b)
{
    unsigned bits = 0;
    while (bits < 32 && ((a[bits / 8] ^ b[bits / 8]) >> (7 - bits % 8) & 1) == 0)
        bits++;
    return bits;
}

/* If it failed, networks would fall apart or together, a peer look like a group, or an address stay what it was. */
static void test_addresses(void)
{
    struct pdi_rand rand;
    unsigned same = 0;
    pdi_rand_init(&rand, 3);
    for (unsigned i = 0; i < 2000; i++) {
        uint32_t bits = (uint32_t)pdi_rand_u64(&rand), other;
        pyddsi_endpoint a = {.port = 5, .kind = i % 2 ? 4 : 14}, b, old;
        memcpy(a.ip, &bits, 4);
        a.ip[0] = (uint8_t)(1 + a.ip[0] % 126); /* the networks of old class A */
        b = old = a;
        other = UINT32_C(1) << pdi_rand_below(&rand, 24) << 8;
        memcpy(&bits, b.ip, 4);
        bits ^= other;
        memcpy(b.ip, &bits, 4);
        unsigned shared = common_bits(a.ip, b.ip);
        pdi_hide_endpoint(&hide, &a);
        pdi_hide_endpoint(&hide, &b);
        CHECK(a.port == 5 && a.kind == old.kind);
        CHECK((a.ip[0] & 0xf0) != 0xe0 && a.ip[0] != 127 && a.ip[0] != 0);
        CHECK_EQ(common_bits(a.ip, b.ip), shared);
        same += memcmp(a.ip, old.ip, 4) == 0;
    }
    CHECK_EQ(same, 0);
    static const pyddsi_endpoint stay[] = {
        {.ip = {239, 255, 0, 1}, .port = 7447, .kind = 4},
        {.ip = {127, 0, 0, 1}, .kind = 4},
        {.ip = {0}, .kind = 4},
        {.ip = {0xff, 0x02, [15] = 1}, .kind = 6},
        {.ip = {[15] = 1}, .kind = 16},
        {.ip = {0}, .kind = 6},
    };
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++) {
        pyddsi_endpoint at = stay[i];
        pdi_hide_endpoint(&hide, &at);
        CHECK(memcmp(&at, &stay[i], sizeof at) == 0);
    }
    pyddsi_endpoint local = {.ip = {0xfe, 0x80, [15] = 7}, .kind = 6};
    pdi_hide_endpoint(&hide, &local);
    CHECK(local.ip[0] == 0xfe && local.ip[1] == 0x80 && local.ip[15] != 7);
}

/* ---- copies ---- */

static uint8_t file[ROOM], out[ROOM];
static int64_t times[1000];
static uint32_t ends[1000];
static struct scanned scanned;

static const pyddsi_endpoint here = {.ip = {10, 1, 2, 3}, .port = 40000, .kind = 4},
                             group = {.ip = {239, 255, 0, 1}, .port = 7447, .kind = 4},
                             stranger = {.ip = {10, 1, 2, 4}, .port = 53, .kind = 4};

static size_t file_of(uint16_t link, unsigned frames)
{
    uint8_t frame_data[PACKET_ROOM];
    size_t size = 0;
    CHECK_EQ(pdi_write_pcap_header(link, 65535, file, ROOM, &size), PYDDSI_OK);
    for (unsigned n = 0; n < frames; n++) {
        unsigned which = n % 3 == 2 ? 6 : n % 6; /* nothing that looks like ours */
        const pyddsi_endpoint *to = n % 3 == 2 ? &stranger : &group;
        size_t bytes = 0;
        struct pdi_synthetic synthetic = {.source = n % 3 == 2 ? stranger : here,
                                          .target = *to,
                                          .data = (const uint8_t *)packets[which].text,
                                          .size = (uint32_t)packets[which].size};
        CHECK_EQ(pdi_write_synthetic(&synthetic, frame_data, sizeof frame_data, &bytes), PYDDSI_OK);
        struct pdi_frame frame = {.time_ns = INT64_C(1700000000000000000) + n,
                                  .data = frame_data,
                                  .size = (uint32_t)bytes,
                                  .wire_size = (uint32_t)bytes};
        CHECK_EQ(pdi_write_pcap_frame(&frame, file, ROOM, &size), PYDDSI_OK);
    }
    return size;
}

static pyddsi_copy copied(size_t size, pyddsi_copy copy)
{
    pyddsi_scan_options options = {.table = PYDDSI_TABLE_PACKETS,
                                   .columns = (UINT64_C(1) << pdi_tables[0].count) - 1,
                                   .learn = 1,
                                   .payload_max = 65535,
                                   .from_ns = INT64_MIN,
                                   .until_ns = INT64_MAX,
                                   .window_ns = 1};
    CHECK_EQ(scanned_open(&scanned, &options), PYDDSI_OK);
    copy.out = out;
    copy.room = ROOM;
    copy.times = times;
    copy.ends = ends;
    copy.count_max = 1000;
    copy.format = 1;
    scanned.scan->copy = &copy;
    size_t at = 0, used;
    int status;
    unsigned rounds = 0;
    do {
        status = pdi_scan_input(scanned.scan, file + at, size - at, &used);
        at += used;
    } while (status == PYDDSI_AGAIN && rounds++ < 10); /* a link type that was new */
    CHECK_EQ(status, PYDDSI_OK);
    CHECK_EQ(pdi_scan_finish(scanned.scan, true), PYDDSI_OK);
    return copy;
}

/* If it failed, a copy would lack a frame, have one that is not wanted, or change one. */
static void test_copies(void)
{
    size_t size = file_of(101, 60);
    pyddsi_copy copy = copied(size, (pyddsi_copy){0});
    CHECK_EQ(copy.frames, 60);
    CHECK_EQ(copy.used, size - 24);
    CHECK(memcmp(out, file + 24, size - 24) == 0);
    CHECK_EQ(copy.link_count, 1);
    CHECK_EQ(copy.links[0], 101);
    for (unsigned i = 0; i < 60; i++)
        CHECK_EQ(times[i], INT64_C(1700000000000000000) + i);
    CHECK_EQ(ends[59], copy.used);
    copy = copied(size, (pyddsi_copy){.ours = 1});
    CHECK_EQ(copy.frames, 40);
    CHECK_EQ(copy.left_out, 20);
}

/* If it failed, what is not ours would be in an anonymous copy, or a secret in the headers around a packet. */
static void test_anonymous_copies(void)
{
    size_t size = file_of(101, 60);
    pyddsi_copy copy = copied(
        size, (pyddsi_copy){.ours = 1, .hide = 1, .names = 1, .key = {hide.key[0], hide.key[1]}});
    CHECK_EQ(copy.frames, 40);
    CHECK(!has(out, copy.used, "SECRET") && !has(out, copy.used, "OTHER"));
    static const char address[] = {10, 1, 2, 3, 0};
    CHECK(has(file, size, address) && !has(out, copy.used, address));
    uint32_t from = 0;
    for (unsigned i = 0; i < copy.count; i++) {
        CHECK_EQ(ends[i] - from - 16,
                 28 + packets[(i / 2 * 3 + i % 2) % 6].size); /* as long as it was */
        from = ends[i];
    }
    pyddsi_copy again = copied(
        size, (pyddsi_copy){.ours = 1, .hide = 1, .names = 1, .key = {hide.key[0], hide.key[1]}});
    CHECK_EQ(again.used, copy.used);
}

int main(void)
{
    pyddsi_options options = {0};
    CHECK_EQ(pdi_reading_init(&reading, &options), PYDDSI_OK);
    test_packets();
    test_names();
    test_addresses();
    test_copies();
    test_anonymous_copies();
    return test_result();
}
