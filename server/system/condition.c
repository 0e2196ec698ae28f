#include "system/condition.h"

#include <time.h>

bool srv_condition_init(pthread_cond_t *condition) {
    pthread_condattr_t clock;
    if (pthread_condattr_init(&clock))
        return false;
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    const bool ok = !pthread_cond_init(condition, &clock);
    pthread_condattr_destroy(&clock);
    return ok;
}

bool srv_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ns) {
    const struct timespec until = {.tv_sec = until_ns / 1000000000,
                                   .tv_nsec = until_ns % 1000000000};
    return !pthread_cond_timedwait(condition, lock, &until);
}
