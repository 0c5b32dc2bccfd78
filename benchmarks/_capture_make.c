/* _capture_make.c - made-up traffic as a capture file, for the benchmarks: as many flows, packets and messages as are wanted,
 * with numbers that wrap, losses, repeats and skew, from a seed.
 *
 *     _capture_make FILE PACKETS FLOWS SAMPLES BYTES BITS LOSS REPEAT SKEW SEED
 *
 * SAMPLES messages of BYTES bytes in each packet; numbers of BITS bits; LOSS and REPEAT are packets of a thousand whose numbers
 * are passed over, or that are sent twice; SKEW is how many of a thousand packets belong to the first flow. Every 64th packet of
 * a flow is answered by an ACKNACK. Each sender opens a session with one receiver first.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PACKET_MAX = 65507, BUFFER = 1 << 22, ANSWERS = 64 };

static uint8_t buffer[BUFFER];
static size_t used;
static FILE *file;
static uint64_t now = UINT64_C(1700000000000000000);
static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 11) % below);
}

static void flush(void)
{
    if (fwrite(buffer, 1, used, file) != used) {
        perror("write");
        exit(2);
    }
    used = 0;
}

static void put(const void *data, size_t size)
{
    memcpy(buffer + used, data, size);
    used += size;
}

static size_t vle(uint8_t *out, uint64_t value)
{
    size_t size = 0;
    do {
        out[size++] = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value != 0);
    return size;
}

struct end {
    uint8_t ip[4];
    uint16_t port;
};

static void be16(uint8_t *out, unsigned value)
{
    out[0] = (uint8_t)(value >> 8);
    out[1] = (uint8_t)value;
}

static void packet(const struct end *from, const struct end *to, const uint8_t *data, size_t size)
{
    uint8_t head[42] = {1, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17};
    uint32_t record[4] = {(uint32_t)(now / 1000000000), (uint32_t)(now % 1000000000), (uint32_t)(42 + size),
                          (uint32_t)(42 + size)};
    be16(head + 16, (unsigned)(28 + size));
    memcpy(head + 26, from->ip, 4);
    memcpy(head + 30, to->ip, 4);
    be16(head + 34, from->port);
    be16(head + 36, to->port);
    be16(head + 38, (unsigned)(8 + size));
    if (BUFFER - used < sizeof record + sizeof head + size) {
        flush();
    }
    put(record, sizeof record);
    put(head, sizeof head);
    put(data, size);
    now += 500 + draw(1000);
}

static struct end sender_of(uint32_t flow)
{
    return (struct end){{10, 0, (uint8_t)(flow / 200), (uint8_t)(flow % 200 + 1)}, (uint16_t)(20000 + flow % 40000)};
}

static const struct end receiver = {{10, 1, 0, 1}, 19999}, group = {{239, 255, 0, 1}, 7447};

/* OPEN with the length of numbers, ACCEPT, and the SYNCH that begins the conduit. */
static void session(uint32_t flow, unsigned bits)
{
    struct end sender = sender_of(flow);
    uint8_t open[64] = {0x23, 1, 2}, accept[64] = {0x24, 2}, synch[] = {0x6e, 0};
    static const char locator[] = "udp/239.255.0.1:7447";
    size_t at = 3;
    be16(open + at, flow);
    at += 2;
    open[at++] = 50;
    open[at++] = 1;
    open[at++] = sizeof locator - 1;
    memcpy(open + at, locator, sizeof locator - 1);
    at += sizeof locator - 1;
    open[at++] = 1;
    open[at++] = 4;
    open[at++] = 1;
    open[at++] = (uint8_t)bits;
    packet(&sender, &receiver, open, at);
    be16(accept + 2, flow);
    memcpy(accept + 4, "\x02\xff\xff\x32\x00", 5);
    accept[0] = 0x24;
    packet(&receiver, &sender, accept, 9);
    packet(&sender, &group, synch, sizeof synch);
}

int main(int argc, char **argv)
{
    uint64_t arguments[11];
    static uint64_t next[65536], sent[65536];
    static uint8_t data[PACKET_MAX];
    if (argc != 11 || (file = fopen(argv[1], "wb")) == NULL) {
        fprintf(stderr, "FILE PACKETS FLOWS SAMPLES BYTES BITS LOSS REPEAT SKEW SEED\n");
        return 2;
    }
    for (int i = 2; i < 11; i++) {
        arguments[i] = strtoull(argv[i], NULL, 10);
    }
    uint64_t packets = arguments[2], samples = arguments[4], bytes = arguments[5];
    uint32_t flows = (uint32_t)arguments[3], loss = (uint32_t)arguments[7], repeat = (uint32_t)arguments[8],
             skew = (uint32_t)arguments[9];
    unsigned bits = (unsigned)arguments[6];
    uint64_t mask = (UINT64_C(1) << bits) - 1;
    static const uint32_t header[6] = {0xa1b23c4d, 2 | 4 << 16, 0, 0, 262144, 1};
    state = arguments[10] * 2654435761U + 88172645463325252U;
    put(header, sizeof header);
    for (uint32_t flow = 0; flow < flows; flow++) {
        session(flow, bits);
    }
    for (uint64_t i = 0; i < packets; i++) {
        uint32_t flow = draw(1000) < skew ? 0 : draw(flows);
        struct end sender = sender_of(flow);
        size_t at = 0;
        if (draw(1000) < loss) {
            next[flow] += samples; /* a packet that the capture lacks */
        }
        for (uint64_t j = 0; j < samples; j++) {
            data[at++] = j + 1 == samples && sent[flow] % ANSWERS == ANSWERS - 1 ? 0x67 : 0x47;
            at += vle(data + at, next[flow]++ & mask);
            data[at++] = 2 * (1 + flow % 50);
            at += vle(data + at, bytes);
            memset(data + at, (int)i, bytes);
            at += bytes;
        }
        packet(&sender, &group, data, at);
        if (draw(1000) < repeat) {
            packet(&sender, &group, data, at);
        }
        if (sent[flow]++ % ANSWERS == ANSWERS - 1) {
            uint8_t answer[12] = {0x0f};
            packet(&receiver, &sender, answer, 1 + vle(answer + 1, next[flow] & mask));
        }
    }
    flush();
    return fclose(file) != 0;
}
