/* scan_double.c - datagrams that were captured twice: on all interfaces at once, on a mirrored port, on a loopback.
 *
 * A copy is the same datagram, seen at another place: all of its bytes are the same, and within a millisecond. So is a repeat
 * that its sender makes quickly; and that must not be taken for a copy, for it is what a capture is read for. What tells
 * them apart is one of these:
 *
 *     the IP identity   the same, and not 0. A sender that repeats a datagram gives it a new one
 *     the way           another interface or direction, or other headers: hardware addresses, tags, hops
 *
 * IPv6 has no identity, and Linux leaves that of most IPv4 datagrams 0. Where the way is the same as well, nothing tells, and
 * it counts as a repeat.
 */
#include <string.h>

#include "base/check.h"
#include "capture/hash.h"
#include "capture/scan.h"

#define DOUBLE_NS INT64_C(1000000)

/* A number made of all these bytes. */
static uint64_t hash_of(const uint8_t *data, size_t size, uint64_t hash)
{
    enum { STEP = 16 };
    uint64_t words[2];
    for (; size >= STEP; data += STEP, size -= STEP) {
        memcpy(words, data, STEP);
        hash = pdi_mix(hash ^ words[0], words[1]); /* one step waits for the one before it */
    }
    words[0] = words[1] = 0;
    if (size != 0) {
        memcpy(words, data, size);
    }
    return pdi_mix(hash ^ words[0], words[1] ^ (uint64_t)size << 56);
}

/* The way that the frame at hand came: its interface, direction and headers. What was put together of fragments has those of
 * its last. */
static uint64_t way_of(const struct pdi_scan *scan)
{
    const struct pdi_frame *frame = &scan->frame;
    const uint8_t *data = scan->carried.data;
    uint64_t way = (uint64_t)frame->interface << 8 | frame->direction;
    bool inside = data >= frame->data && data <= frame->data + frame->size;
    return hash_of(frame->data, inside ? (size_t)(data - frame->data) : 0, way);
}

bool pdi_scan_is_double(struct pdi_scan *scan)
{
    const struct pdi_carried *carried = &scan->carried;
    uint64_t hash =
        pdi_mix(pdi_endpoint_hash(&carried->source), pdi_endpoint_hash(&carried->target) + 1);
    hash = pdi_mix(hash, (uint64_t)carried->identity << 32 | carried->whole);
    hash = hash_of(carried->data, carried->size, hash) | 1; /* 0: there is none */
    struct pdi_recent now = {hash, way_of(scan), scan->frame.time_ns};
    struct pdi_recent *recent = &scan->recent[(hash >> 1) % PDI_RECENT_MAX];
    int64_t apart;
    bool copy = recent->hash == hash && (carried->identity != 0 || recent->way != now.way) &&
                !__builtin_sub_overflow(now.time_ns, recent->time_ns, &apart) &&
                apart <= DOUBLE_NS && apart >= -DOUBLE_NS;
    now.hash = copy ? 0 : hash; /* a third is no copy of the second */
    *recent = now;
    return copy;
}
