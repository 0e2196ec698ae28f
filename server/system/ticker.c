#include "system/ticker.h"

#include <time.h>

/* Sleeps for the pause. Returns false if the ticker must stop. */
static bool nap(srv_ticker *t) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += t->pause_ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&t->lock);
    while (!t->stop && !pthread_cond_timedwait(&t->wake, &t->lock, &until))
        ;
    const bool go_on = !t->stop;
    pthread_mutex_unlock(&t->lock);
    return go_on;
}

static void *keep_ticking(void *argument) {
    srv_ticker *t = argument;
    while (nap(t))
        t->pause_ns = t->tick(t->of);
    return NULL;
}

static void discard(srv_ticker *t) {
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
}

bool srv_ticker_start(srv_ticker *t, int64_t (*tick)(void *of), void *of, int64_t pause_ns) {
    pthread_condattr_t clock;
    *t = (srv_ticker){.tick = tick, .of = of, .pause_ns = pause_ns};
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&t->wake, &clock);
    pthread_condattr_destroy(&clock);
    t->started = !pthread_create(&t->thread, NULL, keep_ticking, t);
    if (!t->started)
        discard(t);
    return t->started;
}

void srv_ticker_stop(srv_ticker *t) {
    if (!t->started)
        return;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    discard(t);
    t->started = false;
}
