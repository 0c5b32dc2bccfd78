/* synthetic.c - see write.h: the headers that a datagram would have had on a wire.
 *
 *     IPv4 20 or IPv6 40 │ UDP 8 or TCP 20 │ payload
 *
 * The checksums are right, so that no tool marks the packets; everything that we do not know has its usual value. What a
 * network would have changed on the way (hops, identity, windows) says nothing here.
 */
#include <stdbool.h>
#include <string.h>

#include "capture/write.h"

enum { UDP = 17, TCP = 6, HOPS = 64, IP4_SIZE = 20, IP6_SIZE = 40, UDP_SIZE = 8, TCP_SIZE = 20 };
enum { TCP_ACK_PUSH = 0x18, TOTAL_MAX = 65535 };

static void put16(uint8_t *at, uint32_t number)
{
    at[0] = (uint8_t)(number >> 8);
    at[1] = (uint8_t)number;
}

static void put32(uint8_t *at, uint32_t number)
{
    put16(at, number >> 16);
    put16(at + 2, number);
}

/* The same sum in 16 bits: what is above them comes round. */
static uint64_t folded(uint64_t total)
{
    while (total > UINT16_MAX) /* four times at most */
        total = (total & UINT16_MAX) + (total >> 16);
    return total;
}

/* Adds the bytes as numbers of 16 bits; 64 bits hold the sum of far more than a packet. Four bytes are taken at once, in the
 * order of this machine: as what is above 16 bits comes round, only the two bytes of the sum may have to change places. */
static uint64_t sum(uint64_t before, const uint8_t *data, size_t size)
{
    uint64_t words = 0;
    size_t i = 0;
    for (; i + 4 <= size; i += 4) {
        uint32_t word;
        memcpy(&word, data + i, sizeof word);
        words += word;
    }
    uint16_t here = (uint16_t)folded(words);
    uint8_t bytes[2];
    memcpy(bytes, &here, sizeof here);
    before += (uint32_t)bytes[0] << 8 | bytes[1];
    for (; i + 1 < size; i += 2)
        before += (uint32_t)data[i] << 8 | data[i + 1];
    return size % 2 != 0 ? before + ((uint32_t)data[size - 1] << 8) : before;
}

static uint32_t checksum(uint64_t total)
{
    return (uint32_t)folded(total) ^ UINT16_MAX;
}

static bool is_six(const pyddsi_endpoint *endpoint)
{
    return endpoint->kind % 10 == 6;
}

static bool is_tcp(const pyddsi_endpoint *endpoint)
{
    return endpoint->kind >= 10;
}

/* Of the bytes that are there; they fit a packet. */
static uint32_t payload_size(const struct pdi_synthetic *synthetic)
{
    return (uint32_t)synthetic->head.size + synthetic->size;
}

/* An IPv4 address where IPv6 is asked for is written as ::ffff:a.b.c.d. */
static void put_six(uint8_t *at, const pyddsi_endpoint *endpoint)
{
    memset(at, 0, 16);
    if (is_six(endpoint)) {
        memcpy(at, endpoint->ip, 16);
    } else {
        put16(at + 10, UINT16_MAX);
        memcpy(at + 12, endpoint->ip, 4);
    }
}

/* An IP header in front of |size| bytes. Answers the sum of what the checksum behind it includes of it. */
static uint64_t put_ip(const struct pdi_synthetic *synthetic, bool six, uint32_t protocol,
                       uint32_t size, uint8_t *at)
{
    memset(at, 0, six ? IP6_SIZE : IP4_SIZE);
    if (six) {
        at[0] = 0x60;
        put16(at + 4, size);
        at[6] = (uint8_t)protocol;
        at[7] = HOPS;
        put_six(at + 8, &synthetic->source);
        put_six(at + 24, &synthetic->target);
        return sum((uint64_t)protocol + size, at + 8, 32);
    }
    at[0] = 0x45;
    put16(at + 2, IP4_SIZE + size);
    at[6] = 0x40; /* not to be cut into pieces */
    at[8] = HOPS;
    at[9] = (uint8_t)protocol;
    memcpy(at + 12, synthetic->source.ip, 4);
    memcpy(at + 16, synthetic->target.ip, 4);
    put16(at + 10, checksum(sum(0, at, IP4_SIZE)));
    return sum((uint64_t)protocol + size, at + 12, 8);
}

static void put_udp(const struct pdi_synthetic *synthetic, uint64_t before, uint8_t *at)
{
    uint32_t there = UDP_SIZE + payload_size(synthetic), size = there + synthetic->absent;
    put16(at, synthetic->source.port);
    put16(at + 2, synthetic->target.port);
    put16(at + 4, size);
    put16(at + 6, 0);
    if (synthetic->unsummed && !is_six(&synthetic->source) && !is_six(&synthetic->target))
        return;
    uint32_t check = checksum(sum(before, at, there));
    put16(at + 6, check != 0 ? check : UINT16_MAX); /* 0 would say that there is none */
}

static void put_tcp(const struct pdi_synthetic *synthetic, uint64_t before, uint8_t *at)
{
    memset(at, 0, TCP_SIZE);
    put16(at, synthetic->source.port);
    put16(at + 2, synthetic->target.port);
    put32(at + 4, synthetic->sequence);
    at[12] = TCP_SIZE / 4 << 4;
    at[13] = synthetic->tcp_flags != 0 ? synthetic->tcp_flags : TCP_ACK_PUSH;
    put16(at + 14, UINT16_MAX); /* the window */
    put16(at + 16, checksum(sum(before, at, (size_t)TCP_SIZE + payload_size(synthetic))));
}

static bool is_kind(const pyddsi_endpoint *endpoint)
{
    return (endpoint->kind % 10 == 4 || endpoint->kind % 10 == 6) && endpoint->kind < 20;
}

size_t pdi_synthetic_size(const struct pdi_synthetic *synthetic)
{
    const pyddsi_endpoint *source = &synthetic->source, *target = &synthetic->target;
    bool tcp = is_tcp(source), six = is_six(source) || is_six(target);
    uint32_t transport = tcp ? TCP_SIZE : UDP_SIZE, ip = six ? IP6_SIZE : IP4_SIZE;
    uint32_t most = TOTAL_MAX - transport - (six ? 0 : IP4_SIZE);
    if (!is_kind(source) || !is_kind(target) || tcp != is_tcp(target) ||
        synthetic->head.size > most || synthetic->size > most - synthetic->head.size ||
        synthetic->absent > most - payload_size(synthetic))
        return 0;
    return (size_t)ip + transport + payload_size(synthetic);
}

int pdi_write_synthetic(const struct pdi_synthetic *synthetic, uint8_t *out, size_t room,
                        size_t *at)
{
    bool tcp = is_tcp(&synthetic->source);
    bool six = is_six(&synthetic->source) || is_six(&synthetic->target);
    uint32_t transport = tcp ? TCP_SIZE : UDP_SIZE, ip = six ? IP6_SIZE : IP4_SIZE;
    size_t size = pdi_synthetic_size(synthetic);
    if (size == 0)
        return PYDDSI_BAD_ARGUMENT;
    if (*at > room || room - *at < size)
        return PYDDSI_NO_SPACE;
    uint8_t *packet = out + *at, *behind = packet + ip, *payload = behind + transport;
    if (synthetic->head.size != 0) /* data may be null when there is nothing to copy */
        memcpy(payload, synthetic->head.data, synthetic->head.size);
    if (synthetic->size != 0)
        memcpy(payload + synthetic->head.size, synthetic->data, synthetic->size);
    uint64_t before = put_ip(synthetic, six, tcp ? TCP : UDP,
                             transport + payload_size(synthetic) + synthetic->absent, packet);
    if (tcp)
        put_tcp(synthetic, before, behind);
    else
        put_udp(synthetic, before, behind);
    *at += size;
    return PYDDSI_OK;
}
