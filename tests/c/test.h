/* test.h - the whole of the C test harness.
 *
 * A test program is a list of functions, each starting with one sentence that says what would be broken if it failed.
 * CHECK and its kin print file, line and both values and go on, so that one run shows everything that is wrong; the
 * program's exit status tells whether anything was.
 */
#ifndef PDI_TEST_H
#define PDI_TEST_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int test_checks;
static int test_failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        test_checks++;                                                                             \
        if (!(condition)) {                                                                        \
            test_failures++;                                                                       \
            printf("%s:%d: %s: not true: %s\n", __FILE__, __LINE__, __func__, #condition);         \
        }                                                                                          \
    } while (0)

#define CHECK_EQ(got, wanted)                                                                      \
    do {                                                                                           \
        intmax_t test_got = (intmax_t)(got), test_wanted = (intmax_t)(wanted);                     \
        test_checks++;                                                                             \
        if (test_got != test_wanted) {                                                             \
            test_failures++;                                                                       \
            printf("%s:%d: %s: %s is %jd, not %jd (%s)\n", __FILE__, __LINE__, __func__, #got,     \
                   test_got, test_wanted, #wanted);                                                \
        }                                                                                          \
    } while (0)

#define CHECK_TEXT(got, wanted)                                                                    \
    do {                                                                                           \
        const char *test_got = (got), *test_wanted = (wanted);                                     \
        test_checks++;                                                                             \
        if (strcmp(test_got, test_wanted) != 0) {                                                  \
            test_failures++;                                                                       \
            printf("%s:%d: %s: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, __func__, #got,    \
                   test_got, test_wanted);                                                         \
        }                                                                                          \
    } while (0)

/* The last line of main: a test program that checked nothing has failed too. */
static inline int test_result(void)
{
    printf("%d checks, %d failures\n", test_checks, test_failures);
    return test_failures != 0 || test_checks == 0;
}

#endif
