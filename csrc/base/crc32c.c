/* crc32c.c - the checksum of stored records: by tables, and by the processor.
 *
 * The tables. tables[k][b] is the effect that byte b has on the checksum when k bytes follow it;
 * eight tables let one step take eight bytes (slicing-by-8). The checksum is linear: the effect of
 * a byte is the XOR of the effects of its bits. So 64 numbers, one per bit of eight bytes, say all
 * 2048 entries, and the compiler writes them out. The 64 are one sequence: read from the end of the
 * first row backwards and then on through the rows, each is the one before it, shifted right by
 * one bit, XOR 0x82f63b78 (the polynomial) if a bit fell out.
 *
 * The processor. SSE 4.2 has the instruction; whether it is there is asked at run time, so one
 * build serves all x86-64. On other processors the tables do.
 */
#include "base/crc32c.h"

/* All sums of a number x and any of the bits that follow, counting upwards: SPAN2 is x, x^a, x^b,
 * x^b^a. */
#define SPAN1(x, a)                   (x), (x) ^ (a)
#define SPAN2(x, a, b)                SPAN1(x, a), SPAN1((x) ^ (b), a)
#define SPAN3(x, a, b, c)             SPAN2(x, a, b), SPAN2((x) ^ (c), a, b)
#define SPAN4(x, a, b, c, d)          SPAN3(x, a, b, c), SPAN3((x) ^ (d), a, b, c)
#define SPAN5(x, a, b, c, d, e)       SPAN4(x, a, b, c, d), SPAN4((x) ^ (e), a, b, c, d)
#define SPAN6(x, a, b, c, d, e, f)    SPAN5(x, a, b, c, d, e), SPAN5((x) ^ (f), a, b, c, d, e)
#define SPAN7(x, a, b, c, d, e, f, g) SPAN6(x, a, b, c, d, e, f), SPAN6((x) ^ (g), a, b, c, d, e, f)
#define SPAN8(x, a, b, c, d, e, f, g, h)                                                           \
    SPAN7(x, a, b, c, d, e, f, g), SPAN7((x) ^ (h), a, b, c, d, e, f, g)

static const uint32_t tables[8][256] = {
    {SPAN8(0u, 0xf26b8303u, 0xe13b70f7u, 0xc79a971fu, 0x8ad958cfu, 0x105ec76fu, 0x20bd8edeu,
           0x417b1dbcu, 0x82f63b78u)},
    {SPAN8(0u, 0x13a29877u, 0x274530eeu, 0x4e8a61dcu, 0x9d14c3b8u, 0x3fc5f181u, 0x7f8be302u,
           0xff17c604u, 0xfbc3faf9u)},
    {SPAN8(0u, 0xa541927eu, 0x4f6f520du, 0x9edea41au, 0x38513ec5u, 0x70a27d8au, 0xe144fb14u,
           0xc76580d9u, 0x8b277743u)},
    {SPAN8(0u, 0xdd45aab8u, 0xbf672381u, 0x7b2231f3u, 0xf64463e6u, 0xe964b13du, 0xd725148bu,
           0xaba65fe7u, 0x52a0c93fu)},
    {SPAN8(0u, 0x38116facu, 0x7022df58u, 0xe045beb0u, 0xc5670b91u, 0x8f2261d3u, 0x1ba8b557u,
           0x37516aaeu, 0x6ea2d55cu)},
    {SPAN8(0u, 0xef306b19u, 0xdb8ca0c3u, 0xb2f53777u, 0x6006181fu, 0xc00c303eu, 0x85f4168du,
           0x0e045bebu, 0x1c08b7d6u)},
    {SPAN8(0u, 0x68032cc8u, 0xd0065990u, 0xa5e0c5d1u, 0x4e2dfd53u, 0x9c5bfaa6u, 0x3d5b83bdu,
           0x7ab7077au, 0xf56e0ef4u)},
    {SPAN8(0u, 0x493c7d27u, 0x9278fa4eu, 0x211d826du, 0x423b04dau, 0x847609b4u, 0x0d006599u,
           0x1a00cb32u, 0x34019664u)},
};

/* Four bytes, least significant first, from any address on any machine; compilers make one load of
 * it. */
static uint32_t load32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

uint32_t pdi_crc32c_tables(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    crc = ~crc;
    for (; size >= 8; size -= 8, bytes += 8) {
        uint32_t low = load32(bytes) ^ crc;
        uint32_t high = load32(bytes + 4);
        crc = tables[7][low & 255] ^ tables[6][low >> 8 & 255] ^ tables[5][low >> 16 & 255] ^
              tables[4][low >> 24] ^ tables[3][high & 255] ^ tables[2][high >> 8 & 255] ^
              tables[1][high >> 16 & 255] ^ tables[0][high >> 24];
    }
    for (; size > 0; size--, bytes++) {
        crc = crc >> 8 ^ tables[0][(crc ^ *bytes) & 255];
    }
    return ~crc;
}

#if defined(__x86_64__) && defined(__GNUC__)

#include <nmmintrin.h>
#include <string.h>

__attribute__((target("sse4.2"))) static uint32_t by_processor(uint32_t crc, const void *data,
                                                               size_t size)
{
    const uint8_t *bytes = data;
    uint64_t wide = ~crc;
    for (; size >= 8; size -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, sizeof word);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    for (; size > 0; size--, bytes++) {
        crc = _mm_crc32_u8(crc, *bytes);
    }
    return ~crc;
}

uint32_t pdi_crc32c(uint32_t crc, const void *data, size_t size)
{
    if (__builtin_cpu_supports("sse4.2")) {
        return by_processor(crc, data, size);
    }
    return pdi_crc32c_tables(crc, data, size);
}

#else

uint32_t pdi_crc32c(uint32_t crc, const void *data, size_t size)
{
    return pdi_crc32c_tables(crc, data, size);
}

#endif
