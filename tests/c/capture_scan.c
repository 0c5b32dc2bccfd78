/* capture/scan.h: whatever the batches, the blocks and the parts that a capture is read in, its rows are the same. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): madvise */
#include "base/rand.h"
#include "capture/write.h"
#include "capture_files.h"
#include "scanned.h"
#include "wire/encode.h"

enum { FILE_ROOM = 1 << 21, SNAPSHOT_ROOM = 1 << 22, PACKET_ROOM = 4096 };
enum { ALL_TABLES = PYDDSI_TABLE_COUNT };

static uint8_t memory[FILE_ROOM], snapshot[SNAPSHOT_ROOM];
static size_t file_size;
static int64_t now_ns;
static struct scanned one, two;

static const pyddsi_endpoint alice = {.ip = {10, 0, 0, 1}, .port = 40001, .kind = 4},
                             bob = {.ip = {10, 0, 0, 2}, .port = 40002, .kind = 4},
                             group = {.ip = {239, 255, 0, 1}, .port = 7447, .kind = 4},
                             near = {.ip = {10, 0, 0, 1}, .port = 50000, .kind = 14},
                             far = {.ip = {10, 0, 0, 2}, .port = 7447, .kind = 14};

/* ---- captures ---- */

static void file_begin(void)
{
    file_size = 0;
    now_ns = INT64_C(1700000000000000000);
    CHECK_EQ(pdi_write_pcap_header(101, 65535, memory, FILE_ROOM, &file_size), PYDDSI_OK);
}

static void frame_of(const struct pdi_synthetic *synthetic)
{
    uint8_t packet[PACKET_ROOM + 64];
    size_t size = 0;
    CHECK_EQ(pdi_write_synthetic(synthetic, packet, sizeof packet, &size), PYDDSI_OK);
    struct pdi_frame frame = {.time_ns = now_ns,
                              .data = packet,
                              .size = (uint32_t)size,
                              .wire_size = (uint32_t)size,
                              .link = 101};
    CHECK_EQ(pdi_write_pcap_frame(&frame, memory, FILE_ROOM, &file_size), PYDDSI_OK);
    now_ns += 1000000;
}

static size_t sample_put(uint8_t *out, size_t at, uint64_t sn, uint64_t name)
{
    static const uint8_t text[] = "some bytes of a payload";
    pyddsi_message message = {.kind = PYDDSI_SDATA,
                              .flags = PYDDSI_R | (sn % 4 == 0 ? PYDDSI_S : 0),
                              .sn = sn,
                              .rid = name << 1,
                              .payload = {text, sn % sizeof text}};
    pyddsi_fault fault;
    CHECK_EQ(pdi_encode_message(&message, out, PACKET_ROOM, &at, &fault), PYDDSI_OK);
    return at;
}

static void udp(const pyddsi_endpoint *from, const pyddsi_endpoint *to, uint64_t sn,
                unsigned messages)
{
    uint8_t data[PACKET_ROOM];
    size_t size = 0;
    for (unsigned i = 0; i < messages; i++)
        size = sample_put(data, size, sn + i, 1 + i % 3);
    frame_of(&(struct pdi_synthetic){
        .source = *from, .target = *to, .data = data, .size = (uint32_t)size});
}

static void bytes_put(const pyddsi_endpoint *from, const pyddsi_endpoint *to, const void *data,
                      size_t size)
{
    frame_of(&(struct pdi_synthetic){
        .source = *from, .target = *to, .data = data, .size = (uint32_t)size});
}

/* Alice opens a session, Bob accepts it, and she gives two names. */
static void handshake(void)
{
    static const uint8_t open[] = "\x23\x01\x02xx\x32\x01\x14udp/239.255.0.1:7447",
                         accept[] = "\x24\x02xx\x02yy\x32",
                         names[] = "\xb3\x06\x00\x03\x01\x02\x02/p\x01\x04\x02/q\x06";
    bytes_put(&alice, &bob, open, sizeof open); /* the zero at the end: no properties */
    bytes_put(&bob, &alice, accept, sizeof accept);
    bytes_put(&alice, &bob, names, sizeof names);
}

static uint32_t stream_at;

static void tcp(const uint8_t *data, uint32_t size, uint8_t flags)
{
    frame_of(&(struct pdi_synthetic){.source = near,
                                     .target = far,
                                     .data = data,
                                     .size = size,
                                     .sequence = stream_at,
                                     .tcp_flags = flags});
    stream_at += size + (flags == 2);
}

/* Datagrams with one message and with many, gaps and repeats; a connection whose packets are cut anywhere; somebody else. */
static void some_capture(uint64_t seed)
{
    struct pdi_rand rand;
    static uint8_t stream[FILE_ROOM / 4];
    size_t size = 0, sent = 0;
    uint64_t sn = 0;
    pdi_rand_init(&rand, seed);
    file_begin();
    for (uint64_t n = 0; n < 300; n++) {
        size_t begin = size;
        uint8_t packet[PACKET_ROOM];
        size_t bytes = 0;
        for (uint64_t i = 0; i <= n % 5; i++)
            bytes = sample_put(packet, bytes, 5 * n + i, 2);
        stream[size++] = (uint8_t)(bytes < 128 ? bytes : bytes | 0x80);
        if (bytes >= 128)
            stream[size++] = (uint8_t)(bytes >> 7);
        memcpy(stream + size, packet, bytes);
        size += bytes;
        CHECK(size > begin && size < sizeof stream - PACKET_ROOM);
    }
    handshake();
    stream_at = UINT32_MAX - 1000;
    tcp(NULL, 0, 2);
    while (sent < size) {
        sn += pdi_rand_chance(&rand, 1, 10) ? pdi_rand_below(&rand, 5) : 0;
        unsigned messages =
            1 + (unsigned)pdi_rand_below(&rand, pdi_rand_chance(&rand, 1, 8) ? 90 : 3);
        udp(&alice, pdi_rand_chance(&rand, 1, 2) ? &group : &bob, sn % 16384, messages);
        sn += messages;
        if (pdi_rand_chance(&rand, 1, 8))
            udp(&alice, &group, (sn - messages) % 16384, messages);
        uint32_t piece = 1 + (uint32_t)pdi_rand_below(&rand, 400);
        piece = size - sent < piece ? (uint32_t)(size - sent) : piece;
        tcp(stream + sent, piece, 0);
        sent += piece;
        if (pdi_rand_chance(&rand, 1, 6))
            frame_of(
                &(struct pdi_synthetic){.source = far, .target = far, .data = stream, .size = 9});
    }
}

/* ---- scans ---- */

static pyddsi_scan_options options_of(int table, uint32_t rows)
{
    return (pyddsi_scan_options){.table = table,
                                 .columns = (UINT64_C(1) << pdi_tables[table].count) - 1,
                                 .rows = rows,
                                 .learn = 1,
                                 .payload_max = 65535,
                                 .from_ns = INT64_MIN,
                                 .until_ns = INT64_MAX,
                                 .window_ns = 1000000000};
}

static void open_at(struct scanned *scanned, int table, uint32_t rows)
{
    pyddsi_scan_options options = options_of(table, rows);
    CHECK_EQ(scanned_open(scanned, &options), PYDDSI_OK);
}

static void whole(int table, uint32_t rows)
{
    one.rows = (struct scanned_rows){0};
    one.batches = 0;
    open_at(&one, table, rows);
    CHECK_EQ(scanned_read(&one, memory, file_size), file_size);
    scanned_finish(&one, true);
}

static void check_same(int table, uint64_t detail)
{
    if (one.rows.count != two.rows.count || one.rows.sum != two.rows.sum)
        printf("table %s, %" PRIu64 "\n", pdi_tables[table].name, detail);
    CHECK_EQ(two.rows.count, one.rows.count);
    CHECK(two.rows.sum == one.rows.sum);
}

/* If it failed, a row would be lost, doubled or spoilt where a batch is full: in a frame, a packet, a stream, at the end. */
static void test_batches(void)
{
    some_capture(1);
    for (int table = 0; table < ALL_TABLES; table++) {
        whole(table, 0);
        CHECK(one.rows.count != 0);
        for (uint32_t rows = 1; rows < 400; rows = rows * 3 + 1) {
            two.rows = (struct scanned_rows){0};
            two.batches = 0;
            open_at(&two, table, rows);
            CHECK_EQ(scanned_read(&two, memory, file_size), file_size);
            scanned_finish(&two, true);
            check_same(table, rows);
            if (table <= PYDDSI_TABLE_MESSAGES)
                CHECK(two.batches > one.rows.count / (rows + 200));
        }
    }
}

/* If it failed, a batch without a limit of its own would be filled beyond its memory. */
static void test_narrow_batches(void)
{
    file_begin();
    for (uint64_t n = 0; n < 100; n++)
        udp(&alice, &group, 150 * n % 16384, 150); /* more than a frame needs to begin */
    whole(PYDDSI_TABLE_MESSAGES, 0);
    CHECK_EQ(one.rows.count, 15000);
    two.rows = (struct scanned_rows){0};
    two.batches = 0;
    two.capacity = 2990; /* what such a packet may need, and a little */
    open_at(&two, PYDDSI_TABLE_MESSAGES, UINT32_MAX);
    CHECK_EQ(scanned_read(&two, memory, file_size), file_size);
    two.capacity = 0; /* the end wants more at once */
    scanned_take(&two);
    scanned_finish(&two, true);
    CHECK(two.batches > 2);
    check_same(PYDDSI_TABLE_MESSAGES, 2990);
}

/* If it failed, rows would depend on how many bytes of the file are read at once. */
static void test_blocks(void)
{
    struct pdi_rand rand;
    pdi_rand_init(&rand, 7);
    some_capture(2);
    for (int table = 0; table < ALL_TABLES; table++) {
        whole(table, 0);
        for (uint64_t most = 3; most < 5000; most *= 30) {
            size_t from = 0, to = 0;
            two.rows = (struct scanned_rows){0};
            open_at(&two, table, 50);
            while (to < file_size) {
                uint64_t piece = 1 + pdi_rand_below(&rand, most);
                to = file_size - to < piece ? file_size : to + piece;
                from += scanned_read(&two, memory + from, to - from);
            }
            CHECK_EQ(from, file_size);
            scanned_finish(&two, true);
            check_same(table, most);
        }
    }
}

/* Whether rows of parts are rows of the whole, and do not add up first. */
static bool adds_up(int table)
{
    return table == PYDDSI_TABLE_FLOWS || table == PYDDSI_TABLE_RATES ||
           table == PYDDSI_TABLE_ENDPOINTS;
}

/* If it failed, a file that is read by many would have other rows than read by one. */
static void test_parts(void)
{
    some_capture(3);
    for (int table = 0; table < ALL_TABLES; table++) {
        whole(table, 0);
        for (uint64_t cut = 1; !adds_up(table) && cut < file_size; cut += file_size / 9) {
            two.rows = (struct scanned_rows){0};
            open_at(&two, table, 100);
            two.scan->limit = cut;
            size_t at = scanned_read(&two, memory, file_size);
            CHECK(at >= cut || at == file_size);
            open_at(&two, table, 100);
            two.scan->limit = at; /* where a frame begins, it is not read */
            two.rows = (struct scanned_rows){0};
            CHECK_EQ(scanned_read(&two, memory, file_size), at);
            size_t size = pdi_scan_store(two.scan, snapshot, SNAPSHOT_ROOM);
            scanned_finish(&two, false);
            open_at(&two, table, 100);
            CHECK_EQ(pdi_scan_load(two.scan, snapshot, size), PYDDSI_OK);
            pdi_trace_begin(two.scan->trace);
            (void)scanned_read(&two, memory + at, file_size - at);
            scanned_finish(&two, true);
            check_same(table, cut);
        }
    }
}

/* If it failed, numbers would begin anew with each file of a capture that goes on in several, or times of rows be wrong. */
static void test_several_files(void)
{
    some_capture(4);
    static uint8_t second[FILE_ROOM];
    open_at(&one, PYDDSI_TABLE_MESSAGES, 0);
    one.rows = (struct scanned_rows){0};
    one.scan->limit = file_size / 2;
    size_t at = scanned_read(&one, memory, file_size);
    one.scan->limit = UINT64_MAX;
    memcpy(second, memory, 24);
    memcpy(second + 24, memory + at, file_size - at);
    pdi_container_init(&one.scan->container);
    CHECK_EQ(scanned_read(&one, second, 24 + file_size - at), 24 + file_size - at);
    scanned_finish(&one, true);
    pyddsi_scan_facts facts;
    pdi_scan_look(one.scan, &facts);
    uint64_t repeats = facts.repeats, missing = (uint64_t)facts.missing;
    whole(PYDDSI_TABLE_MESSAGES, 0);
    pdi_scan_look(one.scan, &facts);
    CHECK(facts.repeats != 0 && facts.missing != 0);
    CHECK_EQ(repeats, facts.repeats);
    CHECK_EQ(missing, facts.missing);
}

/* If it failed, a time range would let rows of another through, or change what they say. */
static void test_times(void)
{
    some_capture(5);
    whole(PYDDSI_TABLE_MESSAGES, 0);
    struct scanned_rows all = one.rows;
    int64_t begin = INT64_C(1700000000000000000);
    for (int64_t n = 0; n < 8; n++) { /* some frame of these is ours */
        int64_t middle = begin + ((now_ns - begin) / 2000000 + n) * 1000000;
        struct scanned_rows sum = {0};
        for (int part = 0; part < 2; part++) {
            pyddsi_scan_options options = options_of(PYDDSI_TABLE_MESSAGES, 0);
            options.from_ns = part == 0 ? INT64_MIN : middle;
            options.until_ns = part == 0 ? middle : INT64_MAX;
            one.rows = (struct scanned_rows){0};
            CHECK_EQ(scanned_open(&one, &options), PYDDSI_OK);
            (void)scanned_read(&one, memory, file_size);
            scanned_finish(&one, true);
            CHECK(one.rows.count > 0);
            sum.count += one.rows.count;
            sum.sum += one.rows.sum;
        }
        CHECK_EQ(sum.count, all.count);
        CHECK(sum.sum == all.sum);
    }
}

/* If it failed, what a capture ends within would be gone without a word: a packet of a stream, pieces of IP, a hole. */
static void test_what_waits_at_the_end(void)
{
    uint8_t stream[PACKET_ROOM];
    size_t size = sample_put(stream, 1, 0, 1);
    stream[0] = (uint8_t)(size - 1);
    pyddsi_scan_facts facts;
    for (unsigned finished = 0; finished < 4; finished++) {
        file_begin();
        stream_at = 1;
        tcp(NULL, 0, 2);
        tcp(stream, (uint32_t)size, 0);
        stream_at += finished == 2 ? 5 : 0; /* which nobody has captured */
        tcp(stream, (uint32_t)size - 2, finished % 2 == 1 ? 1 : 0);
        if (finished == 3)
            tcp(NULL, 0, 2); /* and another begins */
        whole(PYDDSI_TABLE_MESSAGES, 0);
        pdi_scan_look(one.scan, &facts);
        CHECK_EQ(one.rows.count, 1);
        CHECK_EQ(facts.by_decode[PYDDSI_DECODE_STREAM], 1);
    }
    /* the first half of a datagram */
    file_begin();
    bytes_put(&alice, &group, stream, 16);
    memory[24 + 16 + 6] |= 0x20; /* more pieces follow */
    whole(PYDDSI_TABLE_MESSAGES, 0);
    pdi_scan_look(one.scan, &facts);
    CHECK_EQ(one.rows.count, 0);
    CHECK_EQ(facts.strangers[0].other, PDI_OTHER_FRAGMENT);
    CHECK_EQ(facts.strangers[0].count, 1);
}

/* If it failed, a scan could be asked for what it cannot do, and would do something else. */
static void test_options(void)
{
    pyddsi_scan_options good = options_of(PYDDSI_TABLE_MESSAGES, 0);
    CHECK_EQ(scanned_open(&one, &good), PYDDSI_OK);
    pyddsi_scan_options wrong[6];
    for (unsigned i = 0; i < 6; i++)
        wrong[i] = good;
    wrong[0].table = PYDDSI_TABLE_COUNT;
    wrong[1].port_count = PYDDSI_SCAN_PORTS_MAX + 1;
    wrong[2].window_ns = 0;
    wrong[3].seq_bits = 6;
    wrong[4].seq_bits = 57;
    wrong[5].where_count = 1;
    wrong[5].where[0].step = PYDDSI_STEP_AND;
    for (unsigned i = 0; i < 6; i++)
        CHECK_EQ(scanned_open(&one, &wrong[i]), PYDDSI_BAD_ARGUMENT);
    open_at(&one, PYDDSI_TABLE_MESSAGES, 0);
    CHECK_EQ(pdi_scan_tell(one.scan, PYDDSI_TABLE_FLOWS, 1), PYDDSI_BAD_ARGUMENT); /* not ended */
}

int main(void)
{
    test_batches();
    test_narrow_batches();
    test_blocks();
    test_parts();
    test_several_files();
    test_times();
    test_what_waits_at_the_end();
    test_options();
    return test_result();
}
