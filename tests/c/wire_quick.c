/* wire/quick.h: what is read without the table is what the table says. */
#include "wire/decode.h"

#include <stdlib.h>

#include "base/rand.h"
#include "test.h"
#include "wire/table.h"

static pyddsi_reading reading_of(pyddsi_options options)
{
    pyddsi_reading reading;
    CHECK_EQ(pdi_reading_init(&reading, &options), PYDDSI_OK);
    return reading;
}

/* A number as senders write it, or in a longer form than it needs. */
static size_t put_number(uint8_t *at, struct pdi_rand *rand)
{
    uint64_t value = pdi_rand_u64(rand) >> (63 - pdi_rand_below(rand, 36));
    value = pdi_rand_below(rand, 8) == 0 ? 0 : value & ~UINT64_C(1);
    size_t size = 0;
    for (; value >= 0x80; value >>= 7)
        at[size++] = (uint8_t)(value | 0x80);
    at[size++] = (uint8_t)value;
    if (pdi_rand_below(rand, 16) == 0) {
        at[size - 1] |= 0x80;
        at[size++] = 0;
    }
    return size;
}

/* An SDATA with any of its markers; answers its bytes. */
static size_t put_sdata(uint8_t *at, struct pdi_rand *rand)
{
    unsigned any = (unsigned)pdi_rand_below(rand, 256);
    uint8_t *begin = at;
    if ((any & 1) != 0)
        *at++ = (uint8_t)(PYDDSI_CONDUIT | PYDDSI_Z | (any & 0x60));
    if ((any & 6) == 2 && pdi_rand_below(rand, 8) == 0)
        *at++ = (uint8_t)(PYDDSI_RSPACE | PYDDSI_Z);
    if ((any & 2) != 0) {
        *at++ = (uint8_t)(PYDDSI_FRAG | ((any & 4) != 0 ? PYDDSI_N : 0));
        at += put_number(at, rand);
        at += (any & 4) != 0 ? put_number(at, rand) : 0;
    }
    if ((any & 0x18) == 0x18)
        *at++ = (uint8_t)(PYDDSI_RSPACE | PYDDSI_Z);
    *at++ = (uint8_t)(PYDDSI_SDATA | (any & 0xe0));
    at += put_number(at, rand);
    at += put_number(at, rand);
    at += (any & PYDDSI_A) != 0 ? put_number(at, rand) : 0;
    size_t size = pdi_rand_below(rand, 200);
    if (size >= 0x80)
        *at++ = (uint8_t)(size | 0x80);
    *at++ = (uint8_t)(size >= 0x80 ? size >> 7 : size);
    return (size_t)(at - begin) + size;
}

static void check_same(const pyddsi_message *a, const pyddsi_message *b)
{
    CHECK(a->kind == b->kind && a->flags == b->flags && a->at == b->at && a->size == b->size);
    CHECK(a->conduit == b->conduit && a->space == b->space && a->fragment == b->fragment);
    if (a->fragment || a->kind == PYDDSI_FRAG)
        CHECK(a->first == b->first && a->fragments == b->fragments);
    if (a->kind == PYDDSI_SDATA) {
        CHECK(a->sn == b->sn && a->rid == b->rid && a->data_rid == b->data_rid);
        CHECK(a->payload.data == b->payload.data && a->payload.size == b->payload.size);
    }
}

/* If it failed, what is read without the table would be read as something else, or from behind the packet's end. */
static void test_quick(void)
{
    static const uint8_t bits[] = {0, 14, 28};
    struct pdi_rand rand;
    pdi_rand_init(&rand, 25);
    for (int round = 0; round < 20000; round++) {
        uint8_t packet[1024] = {0};
        size_t size = 0;
        for (uint64_t i = pdi_rand_below(&rand, 3) + 1; i != 0; i--)
            size += put_sdata(packet + size, &rand);
        size -= pdi_rand_below(&rand, 4) == 0 ? pdi_rand_below(&rand, size) : 0;
        pyddsi_reading quick = reading_of(
            (pyddsi_options){.seq_bits = bits[round % 3], .base_only = (uint8_t)(round % 16 == 0)});
        pyddsi_reading table = quick;
        table.options.strictness =
            PYDDSI_ZHE; /* which asks no more of these, but that ids are even */
        pyddsi_decoder a, b;
        pyddsi_message one, other;
        uint8_t *alone = malloc(size);
        memcpy(alone, packet, size);
        pdi_decoder_init(&a, &quick, alone, size);
        pdi_decoder_init(&b, &table, alone, size);
        int status;
        do {
            status = pdi_decoder_next(&a, &one);
            CHECK_EQ(pdi_decoder_next(&b, &other), status);
            CHECK(a.at == b.at && a.kind == b.kind);
            if (status == PYDDSI_OK)
                check_same(&one, &other);
        } while (status == PYDDSI_OK); /* the packet's messages */
        CHECK(a.fault.rule == b.fault.rule && a.fault.at == b.fault.at);
        free(alone);
    }
}

int main(void)
{
    test_quick();
    return test_result();
}
