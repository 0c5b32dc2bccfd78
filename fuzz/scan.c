/* scan.c - any bytes as a capture that is read to the rows of a table, whole and in two parts with a snapshot between.
 *
 *     byte 0     the table; from 128 on the rest is a snapshot, and a capture behind it
 *     byte 1     how: bits for copies passed over, rows added up, sequence numbers of 7 bits, no learning, who has extensions
 *     byte 2, 3  where it is cut, as a share of the rest
 *     byte 4     even: the rest is a file; odd: datagrams of four peers and two groups, each with a head of three bytes (who
 *                to whom, the time since the one before, its size), which are put into a file here, so that what is changed
 *                are messages and not the headers around them
 *
 * The rows of both parts together must be those of the whole. What only adds up over parts (flows, rates, endpoints) is run
 * and not compared. A snapshot is refused, or gone on with.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): madvise */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "capture/write.h"
#include "scanned.h"

#define MUST SCANNED_MUST

enum { HEAD = 5, DATAGRAM = 3, FILE_MAX = 1 << 20, SNAPSHOT_MAX = 1 << 24, LARGEST = 512 };
enum { HOW_DEDUPE = 1, HOW_TALLY = 2, HOW_SHORT = 4, HOW_DEAF = 8, HOW_READING = 4 };

static uint8_t file[FILE_MAX], snapshot[SNAPSHOT_MAX];
static struct scanned whole, parts;

static void open_scan(struct scanned *scanned, int table, unsigned how)
{
    pyddsi_scan_options options = {.table = table,
                                   .columns = (UINT64_C(1) << pdi_tables[table].count) - 1,
                                   .rows = 64,
                                   .seq_bits = how & HOW_SHORT ? 7 : 0,
                                   .learn = !(how & HOW_DEAF),
                                   .dedupe = how & HOW_DEDUPE ? 1 : 0,
                                   .tally = how & HOW_TALLY ? 1 : 0,
                                   .base_only = (uint8_t)((how >> HOW_READING) % 3),
                                   .payload_max = 65535,
                                   .from_ns = INT64_MIN,
                                   .until_ns = INT64_MAX,
                                   .window_ns = 1000000000};
    MUST(scanned_open(scanned, &options) == PYDDSI_OK);
}

static void compare(int table, unsigned how, uint64_t cut, const uint8_t *data, size_t size)
{
    whole.rows = parts.rows = (struct scanned_rows){0};
    open_scan(&whole, table, how);
    (void)scanned_read(&whole, data, size);
    scanned_finish(&whole, true);

    open_scan(&parts, table, how);
    parts.scan->limit = cut;
    size_t at = scanned_read(&parts, data, size);
    bool damaged = parts.scan->facts.damage != 0;
    size_t stored = pdi_scan_store(parts.scan, snapshot, SNAPSHOT_MAX);
    MUST(stored <= SNAPSHOT_MAX);
    scanned_finish(&parts, damaged);
    if (!damaged) {
        open_scan(&parts, table, how);
        MUST(pdi_scan_load(parts.scan, snapshot, stored) == PYDDSI_OK);
        pdi_trace_begin(parts.scan->trace);
        MUST(pdi_scan_store(parts.scan, NULL, 0) == stored);
        (void)scanned_read(&parts, data + at, size - at);
        scanned_finish(&parts, true);
    }
    if (table != PYDDSI_TABLE_FLOWS && table != PYDDSI_TABLE_RATES &&
        table != PYDDSI_TABLE_ENDPOINTS)
        MUST(whole.rows.count == parts.rows.count && whole.rows.sum == parts.rows.sum);
}

/* A snapshot from anywhere, and what comes behind it. */
static void go_on(int table, unsigned how, size_t cut, const uint8_t *data, size_t size)
{
    open_scan(&parts, table, how);
    if (pdi_scan_load(parts.scan, data, cut) != PYDDSI_OK)
        return;
    pdi_trace_begin(parts.scan->trace);
    (void)scanned_read(&parts, data + cut, size - cut);
    bool between = parts.scan->phase == PDI_PHASE_FRAMES;
    size_t stored = pdi_scan_store(parts.scan, snapshot, SNAPSHOT_MAX);
    scanned_finish(&parts, true);
    if (between && stored <= SNAPSHOT_MAX) {
        open_scan(&parts, table, how);
        MUST(pdi_scan_load(parts.scan, snapshot, stored) == PYDDSI_OK);
    }
}

/* ---- datagrams ---- */

static size_t file_of(const uint8_t *data, size_t size)
{
    static const pyddsi_endpoint ends[] = {
        {.ip = {10, 0, 0, 1}, .port = 40001, .kind = 4},
        {.ip = {10, 0, 0, 2}, .port = 40002, .kind = 4},
        {.ip = {10, 0, 0, 3}, .port = 7447, .kind = 4},
        {.ip = {0xfe, 0x80, [15] = 1}, .port = 40004, .kind = 6},
        {.ip = {239, 255, 0, 1}, .port = 7447, .kind = 4},
        {.ip = {239, 255, 0, 2}, .port = 7448, .kind = 4},
    };
    uint8_t packet[LARGEST];
    int64_t time_ns = INT64_C(1700000000000000000);
    size_t at = 0;
    MUST(pdi_write_pcap_header(101, PDI_FRAME_BYTES_MAX, file, FILE_MAX, &at) == PYDDSI_OK);
    while (size >= DATAGRAM) {
        const pyddsi_endpoint *from = &ends[(data[0] & 15) % 4], *to = &ends[(data[0] >> 4) % 6];
        size_t length = data[2] < size - DATAGRAM ? data[2] : size - DATAGRAM;
        time_ns += (INT64_C(1) << data[1] % 40) - (data[1] >= 250 ? INT64_C(1) << 39 : 0);
        struct pdi_synthetic synthetic = {
            .source = *from, .target = *to, .data = data + DATAGRAM, .size = (uint32_t)length};
        struct pdi_frame frame = {.time_ns = time_ns, .data = packet, .link = 101};
        size_t bytes = 0;
        if (from->kind == to->kind) {
            MUST(pdi_write_synthetic(&synthetic, packet, sizeof packet, &bytes) == PYDDSI_OK);
            frame.size = frame.wire_size = (uint32_t)bytes;
            if (pdi_write_pcap_frame(&frame, file, FILE_MAX, &at) != PYDDSI_OK)
                return at;
        }
        data += DATAGRAM + length;
        size -= DATAGRAM + length;
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD)
        return 0;
    int table = data[0] % 128 % PYDDSI_TABLE_COUNT;
    bool is_snapshot = data[0] >= 128, datagrams = data[4] & 1;
    unsigned how = data[1];
    uint64_t share = (uint64_t)data[2] << 8 | data[3];
    data += HEAD;
    size -= HEAD;
    if (is_snapshot) {
        go_on(table, how, (size_t)(share * size / UINT16_MAX), data, size);
    } else if (datagrams) {
        size = file_of(data, size);
        compare(table, how, share * size / UINT16_MAX, file, size);
    } else {
        compare(table, how, share * size / UINT16_MAX, data, size);
    }
    return 0;
}
