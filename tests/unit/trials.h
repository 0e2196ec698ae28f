/* How many of their random cases the tests try: all of them, or one of ATTN_TEST_SHARE where each
 * takes many times as long (sanitizers, emulated processors, valgrind). Header only. */
#ifndef TRIALS_H
#define TRIALS_H

#include <stdint.h>
#include <stdlib.h>

static inline uint64_t trials(uint64_t all) {
    const char *share = getenv("ATTN_TEST_SHARE");
    return share ? all / strtoull(share, NULL, 10) : all;
}

#endif
