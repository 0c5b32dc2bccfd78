/* proto/late.h: names that are remembered, and when they are not any more. */
#include "proto/late.h"

#include <stdbool.h>

#include "base/rand.h"
#include "test.h"

#define STEPS 20000
#define KEYS  500

static struct pdi_late late;

static pyddsi_bytes text(const char *name)
{
    return (pyddsi_bytes){(const uint8_t *)name, strlen(name)};
}

static bool is(uint64_t key, const char *name)
{
    pyddsi_bytes found = pdi_late_find(&late, key);
    return found.size == strlen(name) &&
           (found.size == 0 || memcmp(found.data, name, found.size) == 0);
}

/* If it failed, a sample whose publisher has gone would show a number, or the name of another one. */
static void test_by_hand(void)
{
    pdi_late_init(&late);
    CHECK(is(14, ""));
    pdi_late_put(&late, 14, text("/plant/pose"));
    pdi_late_put(&late, UINT64_C(1) << 56 | 14, text("/elsewhere"));
    CHECK(is(14, "/plant/pose"));
    CHECK(is(UINT64_C(1) << 56 | 14, "/elsewhere"));
    CHECK(is(16, ""));
    pdi_late_put(&late, 14, text("/another"));
    CHECK(is(14, "/another"));
    pdi_late_put(&late, 16, text(""));
    CHECK(is(16, ""));
    pdi_late_put(&late, 0, text("/zero"));
    CHECK(is(0, "/zero"));
}

/* If it failed, a name could be read beyond the ring, or be kept that fills it. */
static void test_sizes(void)
{
    static uint8_t long_name[PDI_LATE_BYTES];
    pyddsi_bytes name = {long_name, PDI_LATE_BYTES / 16};
    memset(long_name, 'x', sizeof long_name);
    pdi_late_init(&late);
    for (uint64_t key = 1; key <= 16; key++) {
        pdi_late_put(&late, key, name);
    }
    for (uint64_t key = 1; key <= 16; key++) { /* the ring is full to the last byte */
        CHECK_EQ(pdi_late_find(&late, key).size, name.size);
    }
    pdi_late_put(&late, 17, text("y"));
    CHECK_EQ(pdi_late_find(&late, 1).size, 0);
    CHECK_EQ(pdi_late_find(&late, 2).size, name.size);
    CHECK(is(17, "y"));
    name.size++;
    pdi_late_put(&late, 18, name);
    CHECK_EQ(pdi_late_find(&late, 18).size, 0);
}

/* If it failed, more names of one set than it has places would push out a young one. */
static void test_oldest_gives_way(void)
{
    uint64_t same[PDI_LATE_WAYS + 1] = {1};
    uint32_t count = 1;
    for (uint64_t key = 2; count <= PDI_LATE_WAYS;
         key++) { /* those whose place is beside that of 1 */
        pdi_late_init(&late);
        pdi_late_put(&late, 1, text("/first"));
        pdi_late_put(&late, key, text("/other"));
        for (uint32_t set = 0; set < PDI_LATE_SETS; set++) {
            if (late.way[set][1].size != 0) {
                same[count++] = key;
            }
        }
    }
    pdi_late_init(&late);
    for (uint32_t i = 0; i < count; i++) {
        pdi_late_put(&late, same[i], text("/other"));
    }
    CHECK(is(same[0], ""));
    for (uint32_t i = 1; i < count; i++) {
        CHECK(is(same[i], "/other"));
    }
}

/* If it failed, some name would be wrong after many: each that is found must be the latest of its key, and the latest
 * few must be found. */
static void test_random(void)
{
    static char model[KEYS][64];
    struct pdi_rand rand;
    pdi_rand_init(&rand, 2);
    pdi_late_init(&late);
    uint32_t known = 0;
    for (uint32_t step = 0; step < STEPS; step++) {
        uint64_t key = pdi_rand_below(&rand, KEYS);
        int size = (int)pdi_rand_below(&rand, 40);
        (void)snprintf(model[key], sizeof model[key], "/%u/%.*s", step, size,
                       "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz");
        pdi_late_put(&late, key, text(model[key]));
        CHECK(is(key, model[key]));
        uint64_t other = pdi_rand_below(&rand, KEYS);
        if (pdi_late_find(&late, other).size != 0) {
            known++;
            CHECK(is(other, model[other]));
        }
    }
    CHECK(known > STEPS / 4);
}

int main(void)
{
    test_by_hand();
    test_sizes();
    test_oldest_gives_way();
    test_random();
    return test_result();
}
