#include "housekeeping.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "jobs/jobs.h"
#include "request/shared.h"
#include "store/runs.h"

enum { EVERY_NS = 250000000 };
#define KEPT_NS 2000000000 /* after which memory that the library keeps goes back */

struct srv_housekeeping {
    srv_app *app;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* with lock: stop was set */
    bool stop;
};

/* Sleep; false: stop. */
static bool nap(srv_housekeeping *h) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += EVERY_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&h->lock);
    while (!h->stop && !pthread_cond_timedwait(&h->wake, &h->lock, &until))
        ;
    const bool go_on = !h->stop;
    pthread_mutex_unlock(&h->lock);
    return go_on;
}

static void *keep_house(void *argument) {
    srv_housekeeping *h = argument;
    while (nap(h)) {
        srv_runs_tick(h->app->runs);
        srv_jobs_tick(h->app->jobs);
        attn_block_trim(KEPT_NS);
    }
    return NULL;
}

static void discard(srv_housekeeping *h) {
    pthread_cond_destroy(&h->wake);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

srv_housekeeping *srv_housekeeping_start(srv_app *app) {
    srv_housekeeping *h = calloc(1, sizeof *h);
    pthread_condattr_t clock;
    if (!h)
        return NULL;
    h->app = app;
    pthread_mutex_init(&h->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&h->wake, &clock);
    pthread_condattr_destroy(&clock);
    if (!pthread_create(&h->thread, NULL, keep_house, h))
        return h;
    discard(h);
    return NULL;
}

void srv_housekeeping_stop(srv_housekeeping *h) {
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->stop = true;
    pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    discard(h);
}
