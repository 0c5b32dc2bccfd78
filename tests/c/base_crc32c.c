/* base/crc32c.h: published values, and both ways against a bit-by-bit model. */
#include "base/crc32c.h"

#include <stdlib.h>

#include "base/rand.h"
#include "test.h"

#define SEEDS     300
#define BYTES_MAX 300

/* The definition, one bit at a time. */
static uint32_t model(uint32_t crc, const uint8_t *data, size_t size)
{
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
        }
    }
    return ~crc;
}

static void check_both(const void *data, size_t size, uint32_t wanted)
{
    CHECK_EQ(pdi_crc32c(0, data, size), wanted);
    CHECK_EQ(pdi_crc32c_tables(0, data, size), wanted);
}

/* If it failed, our checksum would not be CRC-32C: the check value of the catalogues, and the
 * examples of RFC 3720, B.4. */
static void test_published_values(void)
{
    static const uint8_t read_command[48] = {
        0x01, 0xc0, 0, 0,    0, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0,
        0,    0,    0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0,    0,
    };
    uint8_t bytes[32];
    check_both("", 0, 0);
    check_both("123456789", 9, 0xe3069283);
    memset(bytes, 0, 32);
    check_both(bytes, 32, 0x8a9136aa);
    memset(bytes, 0xff, 32);
    check_both(bytes, 32, 0x62a8ab43);
    for (int i = 0; i < 32; i++) {
        bytes[i] = (uint8_t)i;
    }
    check_both(bytes, 32, 0x46dd794e);
    for (int i = 0; i < 32; i++) {
        bytes[i] = (uint8_t)(31 - i);
    }
    check_both(bytes, 32, 0x113fdb5c);
    check_both(read_command, 48, 0xd9963a56);
}

/* If it failed, a table would have a wrong entry: each byte value, with each count of bytes after
 * it in one step of eight. */
static void test_every_entry(void)
{
    for (int place = 0; place < 8; place++) {
        for (int value = 0; value < 256; value++) {
            uint8_t bytes[8] = {0};
            bytes[place] = (uint8_t)value;
            check_both(bytes, 8, model(0, bytes, 8));
        }
    }
}

/* If it failed, a record would have another checksum when it lies elsewhere, is written in pieces,
 * or is read on another processor. */
static void test_against_model(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct pdi_rand rand;
        int failures = test_failures;
        pdi_rand_init(&rand, seed);
        size_t size = (size_t)pdi_rand_below(&rand, BYTES_MAX);
        size_t shift = (size_t)pdi_rand_below(&rand, 16);
        uint8_t *memory = malloc(shift + size + (shift + size == 0));
        uint8_t *data = memory + shift;
        for (size_t i = 0; i < size; i++) {
            data[i] = (uint8_t)pdi_rand_u64(&rand);
        }
        uint32_t wanted = model(0, data, size);
        check_both(data, size, wanted);
        uint32_t pieces = 0, table_pieces = 0;
        for (size_t at = 0; at < size;) {
            size_t piece = 1 + (size_t)pdi_rand_below(&rand, size - at);
            pieces = pdi_crc32c(pieces, data + at, piece);
            table_pieces = pdi_crc32c_tables(table_pieces, data + at, piece);
            at += piece;
        }
        CHECK_EQ(pieces, wanted);
        CHECK_EQ(table_pieces, wanted);
        free(memory);
        if (test_failures != failures) {
            printf("seed %" PRIu64 "\n", seed);
            return;
        }
    }
}

int main(void)
{
    test_published_values();
    test_every_entry();
    test_against_model();
    return test_result();
}
