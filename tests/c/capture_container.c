/* capture/container.h: every kind of file, whatever may be wrong in one, and blocks of any size.
 *
 * The file is long because the format has many corners, and each is a few lines. The last test makes captures at random
 * together with the frames that must come out of them, and cuts them anywhere.
 */
#include "capture/container.h"

#include "capture_files.h"

enum { ROOM = 1 << 16, SEEN = 4096 };

#define NOW INT64_C(1700000000123456789)
#define S   INT64_C(1000000000)

/* A file to be written, and what was read of it. */
static struct file fresh(int big)
{
    static uint8_t data[ROOM];
    return (struct file){data, 0, ROOM, big};
}

static struct reading *read_whole(const struct file *file)
{
    static struct seen seen[SEEN];
    static struct reading reading = {.seen = seen, .room = SEEN};
    reading_whole(&reading, file);
    return &reading;
}

static const char *why(const struct reading *reading)
{
    static char text[160];
    pdi_container_why(&reading->container, text, sizeof(text));
    return text;
}

/* ---- pcap ---- */

/* If it failed, one of the four kinds of pcap would be refused, or its times be a thousand times off. */
static void test_pcap(void)
{
    for (int kind = 0; kind < 4; kind++) {
        int big = kind & 1, fine = kind >> 1;
        struct file file = fresh(big);
        file_pcap(&file, fine ? 0xa1b23c4d : 0xa1b2c3d4, 100, 228);
        file_record(&file, 1700000000, 999999, "hello", 5, 7);
        file_record(&file, UINT32_MAX, UINT32_MAX, NULL, 0, 0);
        struct reading *got = read_whole(&file);
        CHECK_EQ(got->status, PYDDSI_SHORT);
        CHECK_EQ(got->count, 2);
        CHECK_EQ(got->tail, 0);
        const struct pdi_frame *first = &got->seen[0].frame, *second = &got->seen[1].frame;
        CHECK_EQ(first->time_ns, 1700000000 * S + (fine ? 999999 : 999999000));
        CHECK(first->number == 1 && first->offset == 24 && got->seen[0].data_at == 40);
        CHECK(first->size == 5 && first->wire_size == 7 && first->link == 228);
        CHECK(first->direction == PDI_WAY_UNKNOWN && !first->stranger && first->interface == 0);
        CHECK_EQ(second->time_ns, UINT32_MAX * S + UINT32_MAX * INT64_C(1000) / (fine ? 1000 : 1));
        CHECK(second->number == 2 && second->offset == 45 && second->size == 0);
        CHECK_EQ(got->container.snap, 100);
        CHECK_EQ(got->container.quick, big == 0);
    }
}

/* If it failed, a file that notes its check sequences in the link type would be of an unknown type, or four bytes of each
 * frame be taken for payload; or a frame whose check sequence was cut off lose bytes of its own. */
static void test_pcap_check_sequence(void)
{
    static const struct {
        uint32_t size, wire_size, wanted;
    } cases[] = {{64, 64, 60}, {60, 64, 60}, {62, 64, 60}, {40, 64, 40},
                 {64, 10, 60}, {3, 3, 0},    {0, 0, 0},    {0, 64, 0}};
    for (int big = 0; big < 2; big++) {
        struct file file = fresh(big);
        file_pcap(&file, 0xa1b2c3d4, 0, 0x24000001);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
            file_record(&file, 1, 1, NULL, cases[i].size, cases[i].wire_size);
        struct reading *got = read_whole(&file);
        CHECK_EQ(got->count, sizeof(cases) / sizeof(cases[0]));
        for (size_t i = 0; i < got->count; i++) {
            CHECK_EQ(got->seen[i].frame.size, cases[i].wanted);
            CHECK_EQ(got->seen[i].frame.wire_size, cases[i].wire_size);
            CHECK_EQ(got->seen[i].frame.link, 1);
        }
    }
    struct file file = fresh(0);
    file_pcap(&file, 0xa1b2c3d4, 0, 0x23ff0065); /* a length without the bit that tells of one */
    file_record(&file, 1, 1, NULL, 64, 64);
    struct reading *got = read_whole(&file);
    CHECK(got->seen[0].frame.size == 64 && got->seen[0].frame.link == 0x65);
}

/* If it failed, a file that is merely odd would be refused: frames over their snap length, more captured than there was,
 * nothing captured, a header that says 2^31. */
static void test_pcap_odd_lengths(void)
{
    static const uint32_t snaps[] = {0, 10, UINT32_C(1) << 31, UINT32_MAX};
    for (size_t i = 0; i < sizeof(snaps) / sizeof(snaps[0]); i++) {
        struct file file = fresh(i % 2 == 0);
        file_pcap(&file, 0xa1b23c4d, snaps[i], 1);
        file_record(&file, 0, 0, NULL, 100, 100);
        file_record(&file, 0, 0, NULL, 100, 0);
        file_record(&file, 0, 0, NULL, 0, UINT32_MAX);
        file_record(&file, 0, 0, NULL, 10, 9);
        struct reading *got = read_whole(&file);
        CHECK_EQ(got->count, 4);
        CHECK_EQ(got->container.over_snap, snaps[i] == 10 ? 2 : 0);
        CHECK_EQ(got->container.over_wire, 2);
        CHECK_EQ(got->container.damage, PDI_DAMAGE_NONE);
    }
}

/* If it failed, a length of half the address space would be waited for, or read. */
static void test_pcap_too_long(void)
{
    static const uint32_t sizes[] = {PDI_FRAME_BYTES_MAX + 1, UINT32_C(1) << 31, UINT32_MAX - 15,
                                     UINT32_MAX};
    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct file file = fresh(i % 2 == 1);
        file_pcap(&file, 0xa1b2c3d4, 65535, 1);
        file_record(&file, 1, 1, "hello", 5, 5);
        size_t at = file.size;
        file_record(&file, 1, 1, NULL, 0, 0);
        file.size = at + 8;
        file_put32(&file, sizes[i / 2]);
        file.size = at + 100;
        struct reading *got = read_whole(&file);
        CHECK_EQ(got->status, PYDDSI_BAD_INPUT);
        CHECK_EQ(got->count, 1);
        CHECK_EQ(got->container.damage, PDI_DAMAGE_FRAME);
        CHECK_EQ(got->container.wrong, sizes[i / 2]);
        CHECK_EQ(got->container.at, at);
        struct pdi_frame frame; /* it is over, whatever comes */
        size_t used, need;
        CHECK_EQ(pdi_container_next(&got->container, file.data + 24, 21, &frame, &used, &need),
                 PYDDSI_BAD_INPUT);
    }
}

/* If it failed, the longest frame there may be would be refused, or asked for with a byte too much; or a longer one be
 * taken because all of it was there. */
static void test_pcap_longest(void)
{
    static uint8_t data[24 + 16 + 16 + PDI_FRAME_BYTES_MAX + 1];
    struct file file = {data, 0, sizeof(data), 0};
    struct pdi_rand rand;
    struct seen seen[2];
    struct reading got = {.seen = seen, .room = 2};
    pdi_rand_init(&rand, 1);
    file_pcap(&file, 0xa1b2c3d4, 0, 1);
    file_record(&file, 1, 1, NULL, PDI_FRAME_BYTES_MAX, PDI_FRAME_BYTES_MAX);
    reading_run(&got, data, file.size, 100000, &rand);
    CHECK(got.count == 1 && got.tail == 0);
    CHECK_EQ(got.need_max, 16 + PDI_FRAME_BYTES_MAX);
    file.size = 24;
    file_record(&file, 1, 1, NULL, 0, 0);
    file_record(&file, 1, 1, NULL, PDI_FRAME_BYTES_MAX + 1, 0);
    reading_whole(&got, &file);
    CHECK(got.count == 1 && got.container.damage == PDI_DAMAGE_FRAME);
}

/* ---- pcapng ---- */

struct clock {
    int resolution; /* -1: not told */
    int64_t offset_s;
    uint64_t ticks;
    int64_t time_ns;
};

static struct file one_packet(int big, uint32_t kind, const struct clock *clock)
{
    struct file file = fresh(big);
    file_section(&file);
    size_t start = file_interface_open(&file, 1, 0);
    file_option(&file, 2, "eth12", 5);
    if (clock->resolution >= 0)
        file_option_number(&file, 9, (uint64_t)clock->resolution, 1);
    if (clock->offset_s != 0)
        file_option_number(&file, 14, (uint64_t)clock->offset_s, 8);
    file_option(&file, 0, NULL, 0);
    file_block_end(&file, start);
    file_packet(&file, kind, 0, clock->ticks, "hello", 5);
    return file;
}

/* If it failed, a time would be read in the wrong unit, rounded the wrong way, or wrap round to some other century. */
static void test_times(void)
{
    static const struct clock clocks[] = {
        {-1, 0, NOW / 1000, NOW / 1000 * 1000},
        {9, 0, NOW, NOW},
        {3, 0, NOW / 1000000, NOW / 1000000 * 1000000},
        {0, 0, 5, 5 * S},
        {8, 0, 1, 10},
        {12, 0, 1234567, 1234},
        {28, 0, UINT64_MAX, 1},
        {27, 0, UINT64_MAX, 18},
        {29, 0, UINT64_MAX, 0},
        {127, 0, UINT64_MAX, 0},
        {0x80, 0, 7, 7 * S},
        {0x80 | 4, 0, 17, S + S / 16},
        {0x80 | 9, 0, 3, 5859375},
        {0x80 | 10, 0, 1024 + 512, 1500000000},
        {0x80 | 40, 0, UINT64_C(1) << 39, 500000000},
        {0x80 | 41, 0, (UINT64_C(1) << 41) - 1, S - 1},
        {0x80 | 63, 0, UINT64_C(1) << 63, S},
        {0x80 | 64, 0, UINT64_MAX, S - 1},
        {0x80 | 93, 0, UINT64_MAX, 1},
        {0x80 | 94, 0, UINT64_MAX, 0},
        {0x80 | 127, 0, UINT64_MAX, 0},
        {9, -3600, NOW, NOW - 3600 * S},
        {6, 1700000000, 5, 1700000000 * S + 5000},
        {9, -2000000000, 1, 1 - 2000000000 * S},
        /* what 63 bits cannot hold is no time */
        {9, 0, INT64_MAX, INT64_MAX},
        {9, 0, UINT64_C(1) << 63, PDI_TIME_NONE},
        {6, 0, UINT64_MAX, PDI_TIME_NONE},
        {0, 0, 9223372036, 9223372036 * S},
        {0, 0, 9223372037, PDI_TIME_NONE},
        {0, 0, UINT64_MAX, PDI_TIME_NONE},
        {0x80, 0, UINT64_C(1) << 34, PDI_TIME_NONE},
        {0x80 | 31, 0, UINT64_MAX, 8589934592 * S - 1},
        {0x80 | 30, 0, UINT64_MAX, PDI_TIME_NONE},
        {9, INT64_MAX, 0, PDI_TIME_NONE},
        {9, INT64_MIN, 0, PDI_TIME_NONE},
        {9, 1, INT64_MAX, PDI_TIME_NONE},
    };
    for (size_t i = 0; i < 4 * sizeof(clocks) / sizeof(clocks[0]); i++) {
        const struct clock *clock = &clocks[i / 4];
        struct file file = one_packet(i % 2 == 1, i % 4 < 2 ? 6 : 2, clock);
        struct reading *got = read_whole(&file);
        CHECK_EQ(got->count, 1);
        CHECK_EQ(got->seen[0].frame.time_ns, clock->time_ns);
        CHECK(got->seen[0].frame.size == 5 && got->seen[0].frame.link == 1);
    }
}

/* If it failed, bytes behind the last option, or an option of a length that it cannot have, would change the clock. */
static void test_options_that_do_not_count(void)
{
    struct file file = fresh(0);
    file_section(&file);
    size_t start = file_interface_open(&file, 1, 0);
    file_option_number(&file, 9, 3, 2);
    file_option_number(&file, 14, 77, 4);
    file_option(&file, 0, NULL, 0);
    file_option_number(&file, 9, 0, 1);
    file_block_end(&file, start);
    file_packet(&file, 6, 0, 5, "hello", 5);
    struct reading *got = read_whole(&file);
    CHECK(got->count == 1 && got->seen[0].frame.time_ns == 5000);
}

/* If it failed, packets of a second interface or section would be read with the clock, link type or byte order of the
 * first. */
static void test_sections_and_interfaces(void)
{
    struct file file = fresh(0);
    file_section(&file);
    file_interface(&file, 1, 0);
    size_t start = file_interface_open(&file, 101, 0);
    file_option_number(&file, 9, 9, 1);
    file_block_end(&file, start);
    file_packet(&file, 6, 1, 11, "one", 3);
    file_packet(&file, 6, 0, 11, "two", 3);
    file_interface(&file, 105, 0); /* late */
    file.big = 1;
    file_section(&file);
    file_interface(&file, 99, 0);
    file_section(&file);
    file_block_end(&file, file_block(&file, 9)); /* counts as a frame */
    start = file_interface_open(&file, 228, 0);
    file_option_number(&file, 9, 3, 1);
    file_block_end(&file, start);
    file_packet(&file, 6, 0, 11, "four", 4);
    file_packet(&file, 2, 0, 12, "five", 4);
    struct reading *got = read_whole(&file);
    static const struct pdi_frame wanted[] = {
        {.number = 1, .time_ns = 11, .link = 101, .interface = 1, .size = 3},
        {.number = 2, .time_ns = 11000, .link = 1, .interface = 0, .size = 3},
        {.number = 3, .time_ns = PDI_TIME_NONE, .link = PDI_LINK_NONE},
        {.number = 4, .time_ns = 11000000, .link = 228, .interface = 0, .size = 4},
        {.number = 5, .time_ns = 12000000, .link = 228, .interface = 0, .size = 4},
    };
    CHECK_EQ(got->count, 5);
    for (size_t i = 0; i < got->count; i++) {
        const struct pdi_frame *frame = &got->seen[i].frame;
        CHECK_EQ(frame->number, wanted[i].number);
        CHECK_EQ(frame->time_ns, wanted[i].time_ns);
        CHECK_EQ(frame->link, wanted[i].link);
        CHECK_EQ(frame->interface, wanted[i].interface);
        CHECK_EQ(frame->size, wanted[i].size);
    }
    CHECK(got->container.sections == 3 && got->container.interfaces == 1);
    CHECK_EQ(got->container.late, 2);
    CHECK_EQ(got->container.swapped, 1);
}

/* If it failed, a packet without a time would get a made-up one, or the padding behind it be taken for payload. */
static void test_simple(void)
{
    for (int big = 0; big < 2; big++) {
        struct file file = fresh(big);
        file_section(&file);
        file_interface(&file, 101, 42);
        file_simple(&file, NULL, 33, 33);
        file_simple(&file, NULL, 60, 128);
        file_section(
            &file); /* a writer that does not tell its snap length: all there is is the packet */
        file_interface(&file, 101, 0);
        file_simple(&file, NULL, 42, 128);
        file_simple(&file, NULL, 0, 0);
        struct reading *got = read_whole(&file);
        static const uint32_t sizes[] = {33, 42, 44, 0}, wires[] = {33, 128, 128, 0};
        CHECK_EQ(got->count, 4);
        for (size_t i = 0; i < got->count; i++) {
            CHECK_EQ(got->seen[i].frame.size, sizes[i]);
            CHECK_EQ(got->seen[i].frame.wire_size, wires[i]);
            CHECK(got->seen[i].frame.time_ns == PDI_TIME_NONE && got->seen[i].frame.link == 101);
            CHECK_EQ(got->seen[i].frame.options.size, 0);
        }
        CHECK(got->container.over_snap == 0 && got->container.over_wire == 0);
    }
}

/* If it failed, a block nobody reads would stop the reading or be held in memory, or the frame numbers be shifted against
 * Wireshark's. */
static void test_other_blocks(void)
{
    enum { LONG = 3 << 20 };
    static const uint32_t counted[] = {9,     0x204, 0x208, 0x216,     0x217,
                                       0x221, 0x222, 0xbad, 0x40000bad};
    static uint8_t data[LONG + PDI_BLOCK_BYTES_MAX + 4096];
    struct file file = {data, 0, sizeof(data), 0};
    struct pdi_rand rand;
    struct seen seen[16];
    struct reading got = {.seen = seen, .room = 16};
    pdi_rand_init(&rand, 1);
    file_section(&file);
    file_interface(&file, 1, 0);
    size_t start = file_block(&file, 4);
    file_bytes(&file, NULL, 100);
    file_block_end(&file, start);
    file_packet(&file, 6, 0, 1, "a", 1);
    start = file_block(&file, 0x77);
    file_bytes(&file, NULL, LONG);
    file_block_end(&file, start);
    for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++)
        file_block_end(&file, file_block(&file, counted[i]));
    start = file_block(&file, 5); /* statistics that are too long to be looked into */
    file_bytes(&file, NULL, PDI_BLOCK_BYTES_MAX);
    file_block_end(&file, start);
    file_packet(&file, 6, 0, 1, "b", 1);
    reading_run(&got, data, file.size, 60000, &rand);
    CHECK_EQ(got.count, 11);
    CHECK(got.tail == 0 && got.container.skip == 0 && got.status == PYDDSI_SHORT);
    CHECK(got.need_max < 64);
    for (size_t i = 0; i < got.count; i++) {
        int stranger = i > 0 && i < 10;
        CHECK_EQ(got.seen[i].frame.number, i + 1);
        CHECK_EQ(got.seen[i].frame.stranger, stranger);
        CHECK_EQ(got.seen[i].frame.block_kind, stranger ? counted[i - 1] : 0);
        CHECK_EQ(got.seen[i].frame.size, !stranger);
        CHECK_EQ(got.seen[i].frame.time_ns, stranger ? PDI_TIME_NONE : 1000);
    }
    /* the file ends inside what is passed over */
    reading_run(&got, data, 400000, 60000, &rand);
    CHECK(got.count == 1 && got.tail == 0 && got.container.skip != 0);
}

/* If it failed, a packet's direction, its options or its check sequence would be another's. */
static void test_packet_options(void)
{
    for (int big = 0; big < 2; big++) {
        struct file file = fresh(big);
        file_section(&file);
        size_t start = file_interface_open(&file, 1, 0);
        file_option_number(&file, 13, big ? 32 : 4, 1); /* bits and bytes, both are written */
        file_block_end(&file, start);
        static const uint32_t flags[] = {0, 1, 2, 3, 2 << 5 | 1, 4 << 5 | 2};
        for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
            start = file_packet_open(&file, i % 2 == 0 ? 6 : 2, 0, 1, NULL, 63, 63);
            file_option(&file, 1, "seen", 4);
            file_option_number(&file, 2, flags[i], 4);
            file_option_number(&file, 2, 1, 4); /* the first counts */
            file_block_end(&file, start);
        }
        struct reading *got = read_whole(&file);
        static const uint8_t ways[] = {0, PDI_WAY_IN, PDI_WAY_OUT, 0, PDI_WAY_IN, PDI_WAY_OUT};
        CHECK_EQ(got->count, 6);
        for (size_t i = 0; i < got->count; i++) {
            CHECK_EQ(got->seen[i].frame.direction, ways[i]);
            CHECK_EQ(got->seen[i].frame.size, i == 4 ? 61 : 59);
            CHECK_EQ(got->seen[i].frame.options.size, 24);
            CHECK_EQ(got->seen[i].options_at, got->seen[i].data_at + 64);
        }
    }
}

/* If it failed, a broken option behind a packet would end the reading, or be read beyond its block. */
static void test_broken_packet_options(void)
{
    static const uint8_t codes[] = {2, 0};
    for (uint32_t size = 0; size <= 12; size++) {
        struct file file = fresh(0);
        file_section(&file);
        file_interface(&file, 1, 0);
        size_t start = file_packet_open(&file, 6, 0, 1, "data", 4, 4);
        file_bytes(&file, codes, 2);
        file_put16(&file, size);
        file_put32(&file, 1);
        file_block_end(&file, start);
        struct reading *got = read_whole(&file);
        CHECK(got->count == 1 && got->seen[0].frame.size == 4);
        CHECK_EQ(got->seen[0].frame.direction, size == 4 ? PDI_WAY_IN : PDI_WAY_UNKNOWN);
    }
}

/* If it failed, frames that the capturing itself has lost would go uncounted, or twice. */
static void test_statistics(void)
{
    for (int big = 0; big < 2; big++) {
        static const struct {
            uint32_t interface;
            int code;
            uint64_t count;
        } told[] = {{0, 5, 10}, {1, 7, 5}, {0, 5, 12}, {0, 4, 99}, {2, 5, 1}, {0xffffffff, 5, 1}};
        struct file file = fresh(big);
        file_section(&file);
        file_interface(&file, 1, 0);
        file_interface(&file, 1, 0);
        for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
            size_t start = file_block(&file, 5);
            file_put32(&file, told[i].interface);
            file_put64(&file, 0);
            file_option_number(&file, (uint32_t)told[i].code, told[i].count, 8);
            file_block_end(&file, start);
        }
        struct reading *got = read_whole(&file);
        CHECK(got->count == 0 && got->tail == 0);
        CHECK_EQ(got->container.interface[0].dropped, 12);
        CHECK_EQ(got->container.interface[1].dropped, 5);
        CHECK_EQ(got->container.dropped, 17);
    }
}

/* If it failed, interfaces beyond those that are kept would write over memory, or lend their packets another's clock. */
static void test_many_interfaces(void)
{
    struct file file = fresh(0);
    file_section(&file);
    for (uint32_t i = 0; i < PDI_INTERFACES_MAX + 2; i++)
        file_interface(&file, 100 + i, 0);
    file_packet(&file, 6, PDI_INTERFACES_MAX - 1, 1, "a", 1);
    file_packet(&file, 6, PDI_INTERFACES_MAX, 1, "a", 1);
    file_packet(&file, 6, PDI_INTERFACES_MAX + 1, 1, "a", 1);
    file_packet(&file, 6, PDI_INTERFACES_MAX + 2, 1, "a", 1);
    struct reading *got = read_whole(&file);
    CHECK_EQ(got->count, 3);
    CHECK(got->seen[0].frame.link == 355 && got->seen[0].frame.time_ns == 1000);
    CHECK(got->seen[1].frame.link == PDI_LINK_NONE && got->seen[1].frame.interface == 256);
    CHECK_EQ(got->seen[2].frame.time_ns, PDI_TIME_NONE);
    CHECK_TEXT(why(got), "a frame of interface 258, and 258 were described");
}

/* ---- damage ---- */

static void check_damage(struct file *file, size_t at, enum pdi_damage damage, const char *words)
{
    struct reading *got = read_whole(file);
    CHECK_EQ(got->status, PYDDSI_BAD_INPUT);
    CHECK_EQ(got->container.damage, damage);
    CHECK_EQ(got->container.at, at);
    CHECK_TEXT(why(got), words);
    struct pdi_frame frame;
    size_t used = 9, need = 9;
    CHECK_EQ(pdi_container_next(&got->container, file->data, file->size, &frame, &used, &need),
             PYDDSI_BAD_INPUT);
    CHECK(used == 0 && got->container.at == at);
}

/* A section with an interface; where the next block will be. */
static size_t begin_section(struct file *file)
{
    *file = fresh(0);
    file_section(file);
    file_interface(file, 1, 0);
    return file->size;
}

static void put_head(struct file *file, uint32_t kind, uint32_t size, uint32_t next)
{
    file_put32(file, kind);
    file_put32(file, size);
    file_put32(file, next);
}

/* If it failed, bytes that cannot be right would be read as packets, or nobody be told where and what they are. */
static void test_damage_of_packets(void)
{
    struct file file;
    size_t at = begin_section(&file);
    file_packet(&file, 6, 1, 1, "a", 1);
    check_damage(&file, at, PDI_DAMAGE_INTERFACE, "a frame of interface 1, and 1 were described");
    at = begin_section(&file);
    file_packet(&file, 6, 0, 1, NULL, 100);
    file.size = at + 20;
    file_put32(&file, 101);
    file.size = at + 132;
    check_damage(&file, at, PDI_DAMAGE_CAPTURED,
                 "a frame of 101 bytes in a block that has room for 100");
    file.size = at + 20;
    file_put32(&file, UINT32_MAX);
    file.size = at + 132;
    check_damage(&file, at, PDI_DAMAGE_FRAME,
                 "a frame of 4294967295 bytes, above the limit of 262144");
    file.size = at + 128;
    file_put32(&file, 40);
    check_damage(&file, at, PDI_DAMAGE_ENDS,
                 "a block whose length is 132 at its beginning and 40 at its end");
    file = fresh(0);
    file_section(&file);
    at = file.size;
    file_simple(&file, "a", 1, 1);
    check_damage(&file, at, PDI_DAMAGE_INTERFACE, "a frame of interface 0, and 0 were described");
}

static void test_damage_of_blocks(void)
{
    static const struct {
        uint32_t kind, size;
        const char *words;
    } cases[] = {
        {0x77, 8, "a block of type 0x77 with 8 bytes, which it cannot have"},
        {0x77, 0, "a block of type 0x77 with 0 bytes, which it cannot have"},
        {0x77, 15, "a block of type 0x77 with 15 bytes, which it cannot have"},
        {0x77, UINT32_MAX, "a block of type 0x77 with 4294967295 bytes, which it cannot have"},
        {6, 28, "a block of type 0x6 with 28 bytes, which it cannot have"},
        {6, 1048580, "a block of type 0x6 with 1048580 bytes, which it cannot have"},
        {1, 16, "a block of type 0x1 with 16 bytes, which it cannot have"},
        {2, UINT32_C(1) << 31, "a block of type 0x2 with 2147483648 bytes, which it cannot have"},
        {3, 12, "a block of type 0x3 with 12 bytes, which it cannot have"},
        {5, 20, "a block of type 0x5 with 20 bytes, which it cannot have"},
        {0x0a0d0d0a, 24, "a block of type 0xa0d0d0a with 24 bytes, which it cannot have"},
    };
    struct file file;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t at = begin_section(&file);
        put_head(&file, cases[i].kind, cases[i].size, 0x1a2b3c4d);
        check_damage(&file, at, PDI_DAMAGE_BLOCK, cases[i].words);
    }
    size_t at = begin_section(&file);
    put_head(&file, 0x0a0d0d0a, 28, 5);
    check_damage(&file, at, PDI_DAMAGE_ORDER,
                 "a section whose byte order mark is 00000005, not 1a2b3c4d");
    at = begin_section(&file);
    size_t start = file_interface_open(&file, 1, 0);
    file_put16(&file, 9);
    file_put16(&file, 400);
    file_block_end(&file, start);
    check_damage(&file, at, PDI_DAMAGE_OPTION,
                 "option 9 of an interface, which runs out of its block");
    /* 2^31 bytes that nobody looks into are only passed over */
    begin_section(&file);
    put_head(&file, 0x77, UINT32_C(1) << 31, 0);
    struct reading *got = read_whole(&file);
    CHECK(got->status == PYDDSI_SHORT && got->container.skip == (UINT32_C(1) << 31) - 12);
}

/* If it failed, somebody who hands over the wrong file would not be told which it is and what would be right. */
static void test_strangers(void)
{
    static const struct {
        const char *bytes, *words;
    } cases[] = {
        {"hello, world.", "68 65 6c 6c, which begins no capture; a pcap or pcapng file is needed"},
        {"\x0a\x0d\x0d\x0a\x1c\0\0\0abcd",
         "0a 0d 0d 0a, which begins no capture; a pcap or pcapng file is needed"},
        {"\x34\xcd\xb2\xa1........",
         "a pcap of the modified (Kuznetzov) kind, where a pcap or pcapng file is needed"},
        {"\xa1\xb2\x34\xcd........",
         "a pcap of a modified (Mesquita) kind, where a pcap or pcapng file is needed"},
        {"\x1f\x8b\x08\0........", "compressed with gzip, where a pcap or pcapng file is needed"},
        {"BZh9........", "compressed with bzip2, where a pcap or pcapng file is needed"},
        {"\x28\xb5\x2f\xfd........", "compressed with zstd, where a pcap or pcapng file is needed"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct file file = fresh(0);
        file_bytes(&file, cases[i].bytes, 12);
        check_damage(&file, 0, PDI_DAMAGE_STRANGER, cases[i].words);
    }
    char text[160];
    struct pdi_container container;
    pdi_container_init(&container);
    pdi_container_why(&container, text, sizeof(text));
    CHECK_TEXT(text, "nothing is wrong");
}

/* If it failed, a file that breaks off would lose whole frames, invent one, or be called damaged. */
static void test_cut_anywhere(void)
{
    for (int form = 0; form < 4; form++) {
        struct file file = fresh(form & 1);
        size_t ends[8], count = 0, first;
        if (form < 2) {
            file_pcap(&file, 0xa1b2c3d4, 0, 1);
            first = file.size;
            for (; count < 4; ends[count++] = file.size)
                file_record(&file, 1, 1, NULL, (uint32_t)(7 * count), 0);
        } else {
            file_section(&file);
            file_interface(&file, 1, 0);
            first = file.size;
            for (; count < 4; ends[count++] = file.size)
                file_packet(&file, 6, 0, 1, NULL, (uint32_t)(7 * count));
        }
        size_t whole = 0, last = first;
        for (size_t size = 0; size <= file.size; size++) {
            struct file part = {file.data, size, size, 0};
            while (whole < count && size >= ends[whole])
                last = ends[whole++];
            struct reading *got = read_whole(&part);
            CHECK_EQ(got->status, PYDDSI_SHORT);
            CHECK_EQ(got->count, whole);
            if (size >= first)
                CHECK_EQ(got->tail + got->container.skip, size - last);
        }
    }
}

/* ---- captures at random ---- */

/* What was written, and what must come out. */
struct draft {
    struct file file;
    struct seen wanted[SEEN];
    size_t count;
    struct pdi_rand rand;
    uint32_t fcs[8], snap[8], interfaces; /* of this section */
    unsigned unit[8];                     /* nanoseconds in a tick */
};

static uint32_t below(struct draft *draft, uint32_t limit)
{
    return (uint32_t)pdi_rand_below(&draft->rand, limit);
}

static struct seen *expect(struct draft *draft, uint64_t offset)
{
    struct seen *seen = &draft->wanted[draft->count++];
    memset(seen, 0, sizeof(*seen));
    seen->frame.number = draft->count;
    seen->frame.offset = offset;
    return seen;
}

/* Sizes that frames have, with the corners often. */
static void draw_sizes(struct draft *draft, uint32_t *size, uint32_t *wire)
{
    *size = below(draft, 4) == 0 ? below(draft, 5) : below(draft, 300);
    *wire = below(draft, 3) == 0 ? below(draft, 400) : *size;
}

static uint32_t trimmed(uint32_t size, uint32_t wire, uint32_t fcs)
{
    uint32_t whole = size > wire ? size : wire;
    uint32_t end = whole > fcs ? whole - fcs : 0;
    return size < end ? size : end;
}

static void draft_pcap(struct draft *draft)
{
    int fine = below(draft, 2) == 0;
    uint32_t fcs = below(draft, 3) == 0 ? below(draft, 16) : 0;
    uint32_t link = below(draft, 65536);
    file_pcap(&draft->file, fine ? 0xa1b23c4d : 0xa1b2c3d4, below(draft, 200),
              link | (fcs != 0 ? fcs << 28 | 1U << 26 : 0));
    for (uint32_t i = below(draft, 60); i > 0; i--) {
        uint32_t size, wire, seconds = (uint32_t)pdi_rand_u64(&draft->rand);
        uint32_t fraction = below(draft, fine ? 1000000000 : 1000000);
        struct seen *seen = expect(draft, draft->file.size);
        draw_sizes(draft, &size, &wire);
        file_record(&draft->file, seconds, fraction, NULL, size, wire);
        seen->data_at = draft->file.size - size;
        seen->frame.time_ns = seconds * S + (int64_t)fraction * (fine ? 1 : 1000);
        seen->frame.size = trimmed(size, wire, 2 * fcs);
        seen->frame.wire_size = wire;
        seen->frame.link = (uint16_t)link;
    }
}

static void draft_section(struct draft *draft)
{
    draft->file.big = below(draft, 2) == 0;
    draft->interfaces = 0;
    file_section(&draft->file);
}

static void draft_interface(struct draft *draft)
{
    static const struct {
        int told;
        unsigned unit;
    } clocks[] = {{6, 1000}, {9, 1}, {3, 1000000}, {0x80 | 9, 1953125}, {-1, 1000}};
    uint32_t at = draft->interfaces++, kind = below(draft, 5);
    draft->snap[at] = below(draft, 3) == 0 ? 0 : below(draft, 300);
    draft->fcs[at] = below(draft, 3) == 0 ? below(draft, 16) : 0;
    draft->unit[at] = clocks[kind].unit;
    size_t start = file_interface_open(&draft->file, 100 + at, draft->snap[at]);
    if (below(draft, 2) == 0)
        file_option(&draft->file, 2, "name", below(draft, 5));
    if (clocks[kind].told >= 0)
        file_option_number(&draft->file, 9, (uint64_t)clocks[kind].told, 1);
    if (draft->fcs[at] != 0)
        file_option_number(&draft->file, 13, draft->fcs[at], 1);
    file_block_end(&draft->file, start);
}

static void draft_packet(struct draft *draft)
{
    uint32_t at = below(draft, draft->interfaces), size, wire, kind = below(draft, 3) == 0 ? 2 : 6;
    uint64_t ticks = pdi_rand_below(&draft->rand, UINT64_C(1) << 40);
    struct seen *seen = expect(draft, draft->file.size);
    draw_sizes(draft, &size, &wire);
    size_t start = file_packet_open(&draft->file, kind, at, ticks, NULL, size, wire);
    size_t options = draft->file.size;
    seen->data_at = options - (size + 3) / 4 * 4;
    if (below(draft, 3) == 0)
        file_option(&draft->file, 1, "comment", below(draft, 8));
    if (below(draft, 3) == 0) {
        seen->frame.direction = (uint8_t)(1 + below(draft, 2));
        file_option_number(&draft->file, 2, seen->frame.direction, 4);
        if (below(draft, 2) == 0)
            file_option(&draft->file, 0, NULL, 0);
    }
    seen->frame.options.size = draft->file.size - options;
    seen->options_at = seen->frame.options.size != 0 ? options : 0;
    file_block_end(&draft->file, start);
    seen->frame.time_ns = (int64_t)ticks * draft->unit[at];
    seen->frame.size = trimmed(size, wire, draft->fcs[at]);
    seen->frame.wire_size = wire;
    seen->frame.link = (uint16_t)(100 + at);
    seen->frame.interface = (uint16_t)at;
}

static void draft_simple(struct draft *draft)
{
    uint32_t wire = below(draft, 300), snap = draft->snap[0];
    uint32_t size = snap != 0 && snap < wire ? snap : wire;
    struct seen *seen = expect(draft, draft->file.size);
    seen->data_at = draft->file.size + 12;
    file_simple(&draft->file, NULL, size, wire);
    seen->frame.time_ns = PDI_TIME_NONE;
    seen->frame.size = trimmed(size, wire, draft->fcs[0]);
    seen->frame.wire_size = wire;
    seen->frame.link = 100;
}

static void draft_other(struct draft *draft)
{
    static const uint32_t kinds[] = {4, 5, 9, 0xbad, 0x77, 0x80000001};
    uint32_t kind = kinds[below(draft, 6)];
    size_t start = file_block(&draft->file, kind);
    if (kind == 9 || kind == 0xbad) {
        struct seen *seen = expect(draft, start);
        seen->data_at = start;
        seen->frame.time_ns = PDI_TIME_NONE;
        seen->frame.link = PDI_LINK_NONE;
        seen->frame.stranger = 1;
        seen->frame.block_kind = kind;
    }
    file_bytes(&draft->file, NULL, 12 + 4 * (size_t)below(draft, 100));
    file_block_end(&draft->file, start);
}

static void draft_pcapng(struct draft *draft)
{
    draft_section(draft);
    for (uint32_t i = below(draft, 60); i > 0; i--) {
        uint32_t what = below(draft, 20);
        if (what == 0)
            draft_section(draft);
        else if ((what < 4 || draft->interfaces == 0) && draft->interfaces < 8)
            draft_interface(draft);
        else if (what < 14)
            draft_packet(draft);
        else if (what < 17)
            draft_simple(draft);
        else
            draft_other(draft);
    }
}

static int same(const struct reading *got, const struct draft *draft)
{
    int failures = test_failures;
    CHECK_EQ(got->status, PYDDSI_SHORT);
    CHECK_EQ(got->count, draft->count);
    CHECK(got->tail == 0 && got->container.skip == 0);
    for (size_t i = 0; i < got->count && i < draft->count; i++) {
        const struct seen *seen = &got->seen[i], *wanted = &draft->wanted[i];
        CHECK_EQ(seen->frame.number, wanted->frame.number);
        CHECK_EQ(seen->frame.offset, wanted->frame.offset);
        CHECK_EQ(seen->frame.time_ns, wanted->frame.time_ns);
        CHECK_EQ(seen->frame.size, wanted->frame.size);
        CHECK_EQ(seen->frame.wire_size, wanted->frame.wire_size);
        CHECK_EQ(seen->frame.link, wanted->frame.link);
        CHECK_EQ(seen->frame.interface, wanted->frame.interface);
        CHECK_EQ(seen->frame.direction, wanted->frame.direction);
        CHECK_EQ(seen->frame.stranger, wanted->frame.stranger);
        CHECK_EQ(seen->frame.block_kind, wanted->frame.block_kind);
        CHECK_EQ(seen->frame.options.size, wanted->frame.options.size);
        CHECK_EQ(seen->data_at, wanted->data_at);
        CHECK_EQ(seen->options_at, wanted->options_at);
    }
    return test_failures == failures;
}

/* If it failed, what comes out of a capture would depend on how its bytes came in: in one piece, in blocks, byte by
 * byte. */
static void test_random_captures(void)
{
    static struct draft draft;
    static struct seen seen[SEEN];
    static uint8_t data[ROOM];
    struct reading got = {.seen = seen, .room = SEEN};
    for (uint64_t seed = 0; seed < 600; seed++) {
        draft.file = (struct file){data, 0, ROOM, 0};
        draft.count = 0;
        pdi_rand_init(&draft.rand, seed);
        draft.file.big = below(&draft, 2) == 0;
        if (below(&draft, 2) == 0)
            draft_pcap(&draft);
        else
            draft_pcapng(&draft);
        static const size_t blocks[] = {ROOM, 1, 7, 64, 1000};
        for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
            reading_run(&got, data, draft.file.size, blocks[i], &draft.rand);
            if (!same(&got, &draft)) {
                printf("seed %" PRIu64 ", blocks of %zu\n", seed, blocks[i]);
                return;
            }
        }
        reading_whole(&got, &draft.file);
        same(&got, &draft);
    }
}

int main(void)
{
    test_pcap();
    test_pcap_check_sequence();
    test_pcap_odd_lengths();
    test_pcap_too_long();
    test_pcap_longest();
    test_times();
    test_options_that_do_not_count();
    test_sections_and_interfaces();
    test_simple();
    test_other_blocks();
    test_packet_options();
    test_broken_packet_options();
    test_statistics();
    test_many_interfaces();
    test_damage_of_packets();
    test_damage_of_blocks();
    test_strangers();
    test_cut_anywhere();
    test_random_captures();
    return test_result();
}
