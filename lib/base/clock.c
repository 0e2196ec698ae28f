/* The clock of deadlines. It has a file of its own because memory, on which the pool is built, needs
 * it, too. */
#include <time.h>

#include "attn/pool.h"

int64_t attn_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
