/* tcp.c - any bytes as TCP packets of two directions, with any flags and numbers.
 *
 * Each packet takes six bytes: what it is, how far its sequence number lies from where the direction would go on, and its
 * size. The byte at a sequence number is always the same one, so whatever comes out can be checked against its place:
 *
 *     a part ends where the captured bytes of its packet end; it begins where the one before ended, or says that bytes
 *     are lost, or that it begins anew.
 *
 * A second machine gets the same packets and goes on from a snapshot now and then; what comes out of both must be equal.
 * An input whose first byte is odd is a snapshot instead: it is refused, or stored again as the same bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "capture/tcp.h"

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

enum { HEAD = 1, PACKET = 6, PACKETS_MAX = 2000, PERIOD = 1 << 16, SNAPSHOT_MAX = 1 << 24 };
enum { FIN = 1, SYN = 2, RST = 4 };
enum { WHAT_BACK = 8, WHAT_CUT = 16, WHAT_FAR = 32, WHAT_SNAPSHOT = 64, WHAT_LARGE = 128 };

/* What the packets were, and what is to come next in each direction. */
static struct {
    uint32_t sequence, captured, size;
} packets[PACKETS_MAX];

struct flow {
    uint32_t expected;
    int open, must_lose, ended;
};

static uint8_t bytes[2 * PERIOD + 1];
static struct pdi_tcp *one, *two;
static uint8_t *snapshot;
static struct flow flows[2];

static void begin(void)
{
    if (one == NULL) {
        uint32_t state = 1;
        for (uint32_t i = 0; i < PERIOD; i++) {
            state = state * 1103515245U + 12345U;
            bytes[i] = bytes[i + PERIOD] = (uint8_t)(state >> 16);
        }
        one = malloc(pdi_tcp_size());
        two = malloc(pdi_tcp_size());
        snapshot = malloc(SNAPSHOT_MAX);
    }
    MUST(one != NULL && two != NULL && snapshot != NULL);
    pdi_tcp_init(one);
    pdi_tcp_init(two);
    memset(flows, 0, sizeof(flows));
}

/* The second machine goes on from a snapshot of itself, which is the first one's too. */
static void carry_over(void)
{
    size_t size = pdi_tcp_store(two, snapshot, SNAPSHOT_MAX);
    MUST(size <= SNAPSHOT_MAX && pdi_tcp_store(one, NULL, 0) == size);
    MUST(pdi_tcp_load(two, snapshot, size) == PYDDSI_OK);
    MUST(pdi_tcp_store(two, NULL, 0) == size);
}

/* Whether a part may come now. */
static void check(const struct pdi_part *part)
{
    struct flow *flow = &flows[part->source.port - 1];
    MUST(part->number < PACKETS_MAX && part->direction < 2);
    MUST(part->start + part->end <= 1 && (part->size == 0) == (part->start || part->end));
    if (part->start) {
        MUST(!part->lost);
        *flow = (struct flow){.open = 1, .expected = packets[part->number].sequence};
        return;
    }
    if (flow->must_lose && !flow->ended)
        MUST(part->lost);
    flow->must_lose = 0;
    if (part->end) { /* twice, if of the second connection nothing else was captured */
        *flow = (struct flow){.ended = 1};
        return;
    }
    uint32_t captured = packets[part->number].captured;
    MUST(part->size <= captured);
    uint32_t sequence = packets[part->number].sequence + captured - part->size;
    MUST(memcmp(part->data, bytes + sequence % PERIOD, part->size) == 0);
    if (flow->open && !part->lost)
        MUST(sequence == flow->expected);
    flow->open = 1;
    flow->ended = 0;
    flow->expected = sequence + part->size;
    flow->must_lose = captured < packets[part->number].size;
}

static void pop(void)
{
    struct pdi_part first, second;
    int status;
    uint32_t parts = 0;
    do {
        status = pdi_tcp_pop(one, &first);
        MUST(pdi_tcp_pop(two, &second) == status);
        if (status != PYDDSI_OK)
            break;
        check(&first);
        MUST(first.number == second.number && first.offset == second.offset);
        MUST(first.time_ns == second.time_ns && first.direction == second.direction);
        MUST(first.start == second.start && first.end == second.end && first.lost == second.lost);
        MUST(first.size == second.size);
        MUST(first.size == 0 || memcmp(first.data, second.data, first.size) == 0);
        MUST(++parts <= 2 * PACKETS_MAX);
    } while (status == PYDDSI_OK);
    MUST(status == PYDDSI_END && pdi_tcp_late(one) == pdi_tcp_late(two));
}

static void push(const uint8_t *data, uint32_t number)
{
    unsigned what = data[0];
    unsigned way = (what & WHAT_BACK) != 0;
    static uint32_t next[2];
    if (number == 0)
        next[0] = next[1] = UINT32_MAX - 1000;
    uint32_t away = (uint32_t)(int32_t)(int16_t)(data[1] | data[2] << 8);
    if (what & WHAT_FAR)
        away <<= 12;
    uint32_t size = data[3] | (uint32_t)(what & WHAT_LARGE ? data[4] : 0) << 8;
    uint32_t sequence = next[way] + away;
    struct pdi_frame frame = {
        .number = number, .offset = number * UINT64_C(77), .time_ns = INT64_C(5) - number};
    struct pdi_carried carried = {
        .source = {.ip = {10}, .port = (uint16_t)(1 + way), .kind = 14},
        .target = {.ip = {10}, .port = (uint16_t)(2 - way), .kind = 14},
        .whole = size,
        .size = what & WHAT_CUT ? size * data[5] / 256 : size,
        .sequence = sequence,
        .tcp_flags = what & (FIN | SYN | RST),
    };
    uint32_t first = sequence + (carried.tcp_flags & SYN ? 1 : 0); /* of its bytes */
    carried.data = bytes + first % PERIOD;
    packets[number].sequence = first;
    packets[number].captured = carried.size;
    packets[number].size = size;
    next[way] = first + size;
    if (what & WHAT_SNAPSHOT)
        carry_over();
    pdi_tcp_push(one, &frame, &carried);
    pdi_tcp_push(two, &frame, &carried);
    pop();
}

static void load(const uint8_t *data, size_t size)
{
    if (pdi_tcp_load(one, data, size) == PYDDSI_OK) {
        MUST(pdi_tcp_store(one, snapshot, SNAPSHOT_MAX) == size);
        MUST(size == 0 || memcmp(snapshot, data, size) == 0);
    } else {
        MUST(pdi_tcp_store(one, NULL, 0) == 2);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD)
        return 0;
    begin();
    if (data[0] & 1) {
        load(data + HEAD, size - HEAD);
        return 0;
    }
    data += HEAD;
    size -= HEAD;
    for (uint32_t number = 0; size >= PACKET && number < PACKETS_MAX; number++) {
        push(data, number);
        data += PACKET;
        size -= PACKET;
    }
    pdi_tcp_finish(one);
    pdi_tcp_finish(two);
    pop();
    return 0;
}
