/* A thread that calls a function again and again, with pauses between, until it is stopped. */
#ifndef SRV_TICKER_H
#define SRV_TICKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct srv_ticker {
    int64_t (*tick)(void *of); /* returns the length of the next pause in nanoseconds */
    void *of;
    int64_t pause_ns;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* with lock: `stop` was set */
    bool started, stop;
} srv_ticker;

/* Starts the thread, which first calls `tick` after `pause_ns`. Returns false if no thread could be
 * started. */
bool srv_ticker_start(srv_ticker *t, int64_t (*tick)(void *of), void *of, int64_t pause_ns);
/* Waits until the thread has ended. Nothing happens to a ticker that was not started. */
void srv_ticker_stop(srv_ticker *t);

#endif
