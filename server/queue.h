/* The bounded queue and its request threads. Jobs are intrusive: whoever pushes one keeps it alive
 * until `run` has been called for it, which happens exactly once for every job that was pushed: on a
 * request thread, or on the thread that takes it out of the queue (srv_queue_sweep, srv_queue_drop). */
#ifndef SRV_QUEUE_H
#define SRV_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_queue srv_queue;
typedef struct srv_job srv_job;

typedef enum srv_verdict {
    SRV_RUN,     /* a request thread: do the work */
    SRV_EXPIRED, /* the deadline passed while it waited */
    SRV_DROPPED, /* taken out by srv_queue_drop */
} srv_verdict;

struct srv_job {
    srv_job *next, *previous; /* the queue's */
    bool waiting;             /* the queue's */
    int64_t deadline_ns;      /* CLOCK_MONOTONIC */
    void (*run)(srv_job *job, srv_verdict verdict);
};

/* `threads` request threads with 4 MiB of stack each, room for `length` waiting jobs. NULL: out of
 * memory or threads. */
srv_queue *srv_queue_new(size_t threads, size_t length);
/* Waits for the request threads; the queue must be empty of waiting jobs. NULL is fine. */
void srv_queue_free(srv_queue *queue);

/* false: full. The job may run before this returns. Any thread. */
bool srv_queue_push(srv_queue *queue, srv_job *job);
bool srv_queue_is_full(srv_queue *queue);
/* Take a waiting job out and run it with SRV_DROPPED; false: it no longer waits. Any thread. */
bool srv_queue_drop(srv_queue *queue, srv_job *job);
/* Run what waits beyond its deadline, with SRV_EXPIRED. Any thread. */
void srv_queue_sweep(srv_queue *queue, int64_t now_ns);

size_t srv_queue_waiting(srv_queue *queue);
size_t srv_queue_running(srv_queue *queue);

#endif
