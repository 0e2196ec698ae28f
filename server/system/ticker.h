/* A thread that calls a function again and again, with pauses, until it is stopped. */
#ifndef SRV_TICKER_H
#define SRV_TICKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct srv_ticker {
    int64_t (*tick)(void *of); /* returns the time until the next call in nanoseconds */
    void *of;                  /* the argument of `tick` */
    int64_t pause_ns;          /* time until the next call */
    pthread_t thread;
    pthread_mutex_t lock; /* protects `stop` */
    pthread_cond_t wake;  /* signalled when `stop` is set */
    bool started;         /* the thread exists */
    bool stop;            /* the thread must end */
} srv_ticker;

/* Starts the thread, which calls `tick` for the first time after `pause_ns`. Returns false if no
 * thread could be started. */
bool srv_ticker_start(srv_ticker *t, int64_t (*tick)(void *of), void *of, int64_t pause_ns);
/* Stops the thread and waits until it has ended. Does nothing if the ticker was not started, which
 * `started` shows. */
void srv_ticker_stop(srv_ticker *t);

#endif
