/* Times of the system's clocks in nanoseconds. */
#ifndef SRV_CLOCK_H
#define SRV_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t srv_ns_of(const struct timespec *t) {
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

/* Reads a clock: CLOCK_REALTIME counts from 1970, CLOCK_THREAD_CPUTIME_ID the processor time of
 * this thread. */
static inline int64_t srv_clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return srv_ns_of(&now);
}

#endif
