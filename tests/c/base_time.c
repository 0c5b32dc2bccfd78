/* base/time.h: sums that do not fit, and never. */
#include "base/time.h"

#include "test.h"

/* If it failed, a deadline far in the future would wrap round to one that is long past. */
static void test_add(void)
{
    CHECK(pdi_time_add(0, 0) == 0);
    CHECK(pdi_time_add(3 * PDI_TIME_S, 250 * PDI_TIME_MS) == UINT64_C(3250000000));
    CHECK(pdi_time_add(7 * PDI_TIME_MS, PDI_TIME_US) == 7001000);
    CHECK(pdi_time_add(UINT64_MAX - 9, 8) == UINT64_MAX - 1);
    CHECK(pdi_time_add(UINT64_MAX - 9, 9) == PDI_TIME_NEVER);
    CHECK(pdi_time_add(UINT64_MAX - 9, 10) == PDI_TIME_NEVER);
    CHECK(pdi_time_add(PDI_TIME_NEVER, 0) == PDI_TIME_NEVER);
    CHECK(pdi_time_add(PDI_TIME_NEVER, 1) == PDI_TIME_NEVER);
    CHECK(pdi_time_add(1, PDI_TIME_NEVER) == PDI_TIME_NEVER);
    CHECK(pdi_time_add(PDI_TIME_NEVER, PDI_TIME_NEVER) == PDI_TIME_NEVER);
}

/* If it failed, a wait would be too long for a deadline that has passed, or end for one that never
 * comes. */
static void test_until(void)
{
    CHECK(pdi_time_until(10, 25) == 15);
    CHECK(pdi_time_until(25, 25) == 0);
    CHECK(pdi_time_until(26, 25) == 0);
    CHECK(pdi_time_until(26, PDI_TIME_NEVER) == PDI_TIME_NEVER);
    CHECK(pdi_time_until(PDI_TIME_NEVER, PDI_TIME_NEVER) == PDI_TIME_NEVER);
}

int main(void)
{
    test_add();
    test_until();
    return test_result();
}
