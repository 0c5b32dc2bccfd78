/* base/bytes.h: every form of every number at the borders of bytes, widths and fields, and no byte outside. */
#include "base/bytes.h"

#include "test.h"

#define GUARD 0xa5

/* The limits of the protocol's fields: largest value, most bytes. */
static const struct {
    uint64_t max;
    unsigned bytes;
} fields[] = {
    {0x7f, 2},           {0xff, 2},           {(1U << 11) - 1, 3}, {(1U << 14) - 1, 3},
    {0xffff, 3},         {16383, 2}, /* the length of a frame */
    {(1U << 20) - 1, 5}, {(1U << 28) - 1, 5}, {UINT32_MAX, 5},     {(UINT64_C(1) << 56) - 1, 10},
    {UINT64_MAX, 10},
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

/* Numbers on both sides of every border: of a byte of the number, of a bit, and of a field. */
static size_t borders(uint64_t *out)
{
    size_t count = 0;
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t power = UINT64_C(1) << bit;
        out[count++] = power - 1;
        out[count++] = power;
        out[count++] = power + 1;
        out[count++] = power | power >> 1;
    }
    out[count++] = UINT64_MAX;
    out[count++] = UINT64_MAX - 1;
    return count;
}

/* The number in a form of |size| bytes, or 0 if it has none. */
static int form(uint64_t value, unsigned size, uint8_t *out)
{
    for (unsigned i = 0; i < size; i++) {
        out[i] = (uint8_t)((value & 0x7f) | (i + 1 < size ? 0x80U : 0U));
        value >>= 7;
    }
    return value == 0;
}

/* If it failed, a form of some number would be taken or refused against its field's limits, or be
 * read as another number. */
static void test_every_form(void)
{
    uint64_t values[64 * 4 + 2];
    size_t count = borders(values);
    for (size_t f = 0; f < FIELDS; f++) {
        for (size_t v = 0; v < count; v++) {
            for (unsigned size = 1; size <= PDI_VLE_MAX; size++) {
                uint8_t bytes[PDI_VLE_MAX + 1];
                if (!form(values[v], size, bytes))
                    continue;
                bytes[size] = GUARD;
                struct pdi_reader in = {bytes, bytes + size + 1};
                uint64_t got = 12345;
                enum pdi_vle answer = pdi_vle_get(&in, fields[f].max, fields[f].bytes, &got);
                int fits = size <= fields[f].bytes && values[v] <= fields[f].max;
                int shortest = size == 1 || bytes[size - 1] != 0;
                CHECK_EQ(answer, !fits ? PDI_VLE_WIDE : shortest ? PDI_VLE_OK : PDI_VLE_LONG_FORM);
                CHECK(got == (fits ? values[v] : 12345));
                CHECK_EQ(in.at - bytes, fits ? size : 0);
            }
        }
    }
}

/* If it failed, a number whose end is missing would be read with bytes that are not there, or be
 * called too large although it can still fit. */
static void test_cut(void)
{
    uint64_t values[64 * 4 + 2];
    size_t count = borders(values);
    for (size_t f = 0; f < FIELDS; f++) {
        for (size_t v = 0; v < count; v++) {
            for (unsigned size = 1; size <= fields[f].bytes; size++) {
                uint8_t bytes[PDI_VLE_MAX];
                if (!form(values[v], size, bytes) || values[v] > fields[f].max)
                    continue;
                for (unsigned cut = 0; cut < size; cut++) {
                    struct pdi_reader in = {bytes, bytes + cut};
                    uint64_t got = 7;
                    CHECK_EQ(pdi_vle_get(&in, fields[f].max, fields[f].bytes, &got), PDI_VLE_CUT);
                    CHECK(got == 7 && in.at == bytes);
                }
            }
        }
    }
}

/* If it failed, a reader would wait for the rest of a number that is over its field already. */
static void test_wide_before_the_end(void)
{
    static const struct {
        uint8_t bytes[PDI_VLE_MAX + 1];
        unsigned size;
        uint64_t max;
        unsigned most;
        enum pdi_vle answer;
    } cases[] = {
        {{0x80, 0x90}, 2, (1U << 11) - 1, 3, PDI_VLE_WIDE},
        {{0x80, 0x8f}, 2, (1U << 11) - 1, 3, PDI_VLE_CUT},
        {{0x80, 0x80, 0x84}, 3, 0xffff, 3, PDI_VLE_WIDE},
        {{0x80, 0x80, 0x80}, 3, 0xffff, 3, PDI_VLE_WIDE},
        {{0xff, 0xff}, 2, 0x7f, 2, PDI_VLE_WIDE},
        {{0xff, 0xff}, 2, 0xffff, 3, PDI_VLE_CUT},
        {{0x80, 0x80, 0x80, 0x80, 0x90}, 5, UINT32_MAX, 5, PDI_VLE_WIDE},
        {{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x82},
         10,
         UINT64_MAX,
         10,
         PDI_VLE_WIDE},
        {{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02},
         10,
         UINT64_MAX,
         10,
         PDI_VLE_WIDE},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x03},
         10,
         UINT64_MAX,
         10,
         PDI_VLE_WIDE},
        {{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00},
         11,
         UINT64_MAX,
         10,
         PDI_VLE_WIDE},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 9, UINT64_MAX, 10, PDI_VLE_CUT},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pdi_reader in = {cases[i].bytes, cases[i].bytes + cases[i].size};
        uint64_t got = 7;
        CHECK_EQ(pdi_vle_get(&in, cases[i].max, cases[i].most, &got), cases[i].answer);
        CHECK(got == 7 && in.at == cases[i].bytes);
    }
}

/* If it failed, every number of one and two bytes, which is nearly all there is, could be misread
 * by the quick way that only they take. */
static void test_two_bytes_exhaustively(void)
{
    for (unsigned first = 0; first < 256; first++) {
        for (unsigned second = 0; second < 256; second++) {
            uint8_t bytes[] = {(uint8_t)first, (uint8_t)second, 0x01};
            struct pdi_reader quick = {bytes, bytes + 3}, slow = quick;
            uint64_t one = 0, two = 0;
            for (size_t f = 0; f < FIELDS; f++) {
                quick.at = slow.at = bytes;
                enum pdi_vle a = pdi_vle_get(&quick, fields[f].max, fields[f].bytes, &one);
                enum pdi_vle b = pdi_vle_get_long(&slow, fields[f].max, fields[f].bytes, &two);
                CHECK(a == b && quick.at == slow.at && one == two);
            }
        }
    }
}

/* If it failed, a number would be written longer than it must be, or outside the room it was
 * given. */
static void test_put(void)
{
    uint64_t values[64 * 4 + 2];
    size_t count = borders(values);
    for (size_t v = 0; v < count; v++) {
        uint8_t wanted[PDI_VLE_MAX], out[PDI_VLE_MAX + 2];
        unsigned size = 1;
        while (!form(values[v], size, wanted))
            size++;
        CHECK_EQ(pdi_vle_size(values[v]), size);
        for (unsigned room = 0; room <= PDI_VLE_MAX; room++) {
            memset(out, GUARD, sizeof(out));
            struct pdi_writer writer = {out, out + room};
            int status = pdi_vle_put(&writer, values[v]);
            CHECK_EQ(status, room < size ? PYDDSI_NO_SPACE : PYDDSI_OK);
            CHECK_EQ(writer.at - out, room < size ? 0 : size);
            CHECK(room < size || memcmp(out, wanted, size) == 0);
            for (size_t i = room < size ? 0 : size; i < sizeof(out); i++)
                CHECK_EQ(out[i], GUARD);
        }
    }
}

/* If it failed, a vector would be cut, or written over what follows the room. */
static void test_put_bytes(void)
{
    uint8_t out[8];
    const uint8_t data[] = {1, 2, 3};
    memset(out, GUARD, sizeof(out));
    struct pdi_writer writer = {out, out + 4};
    CHECK_EQ(pdi_bytes_put(&writer, NULL, 0), PYDDSI_OK);
    CHECK_EQ(pdi_bytes_put(&writer, data, 3), PYDDSI_OK);
    CHECK_EQ(pdi_bytes_put(&writer, data, 2), PYDDSI_NO_SPACE);
    CHECK_EQ(writer.at - out, 3);
    CHECK_EQ(pdi_byte_put(&writer, 4), PYDDSI_OK);
    CHECK_EQ(pdi_byte_put(&writer, 5), PYDDSI_NO_SPACE);
    CHECK_EQ(pdi_bytes_put(&writer, NULL, 0), PYDDSI_OK);
    CHECK(memcmp(out, "\1\2\3\4\xa5\xa5\xa5\xa5", 8) == 0);
}

int main(void)
{
    test_every_form();
    test_cut();
    test_wide_before_the_end();
    test_two_bytes_exhaustively();
    test_put();
    test_put_bytes();
    return test_result();
}
