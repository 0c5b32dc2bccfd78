/* base/sip.h: the published values. */
#include "base/sip.h"

#include "test.h"

/* If it failed, secrets would be made by a function that nobody has examined. These are what the authors, and OpenSSL,
 * have for the key 00 01 .. 0f and so many bytes 00 01 .. */
static void test_published_values(void)
{
    static const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    static const uint64_t words[] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908),
                                     UINT64_C(0x1716151413121110)};
    static const uint64_t wanted[] = {UINT64_C(0x726fdb47dd0e0e31), UINT64_C(0x93f5f5799a932462),
                                      UINT64_C(0x3f2acc7f57c29bdb), UINT64_C(0xb8ad50c6f649af94)};
    for (size_t count = 0; count <= 3; count++) {
        CHECK(pdi_sip(key, words, count) == wanted[count]);
    }
}

int main(void)
{
    test_published_values();
    return test_result();
}
