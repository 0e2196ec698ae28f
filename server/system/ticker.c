#include "system/ticker.h"

#include <attn/attn.h>

#include "system/condition.h"

/* Sleeps for the pause. Returns false if the ticker must stop. */
static bool sleep_until_next(srv_ticker *t) {
    const int64_t until = attn_now_ns() + t->pause_ns;
    pthread_mutex_lock(&t->lock);
    while (!t->stop && srv_condition_wait(&t->wake, &t->lock, until))
        ;
    const bool go_on = !t->stop;
    pthread_mutex_unlock(&t->lock);
    return go_on;
}

static void *keep_ticking(void *argument) {
    srv_ticker *t = argument;
    while (sleep_until_next(t))
        t->pause_ns = t->tick(t->of);
    return NULL;
}

static void destroy_lock(srv_ticker *t) {
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
}

bool srv_ticker_start(srv_ticker *t, int64_t (*tick)(void *of), void *of, int64_t pause_ns) {
    *t = (srv_ticker){.tick = tick, .of = of, .pause_ns = pause_ns};
    if (!srv_condition_init(&t->wake))
        return false;
    pthread_mutex_init(&t->lock, NULL);
    t->started = !pthread_create(&t->thread, NULL, keep_ticking, t);
    if (!t->started)
        destroy_lock(t);
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
    destroy_lock(t);
    t->started = false;
}
