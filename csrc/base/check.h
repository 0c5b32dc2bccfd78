/* check.h - what must be true, said aloud.
 *
 * PDI_CHECK(condition) states what a correct program cannot violate. In debug, simulator and fuzz builds
 * (PDI_CHECKED) it stops with file and line, so that a seed or an input is found at the first wrong step. In a release
 * build it costs nothing: the core never ends its user's process. Bytes from outside are never checked with it; they
 * get a status and a fault.
 */
#ifndef PDI_BASE_CHECK_H
#define PDI_BASE_CHECK_H

#ifdef PDI_CHECKED
#include <stdio.h>
#include <stdlib.h>
#define PDI_CHECK(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)
#else
#define PDI_CHECK(condition) ((void)0)
#endif

#endif
