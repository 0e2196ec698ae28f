/* The bounded queue and its request threads. Jobs are intrusive: whoever pushes one keeps it alive
 * until it has been run or taken out. Every job that was pushed is either run, exactly once, on a
 * request thread, or taken out by srv_queue_take or srv_queue_take_late. */
#ifndef SRV_QUEUE_H
#define SRV_QUEUE_H

#include "waiting.h"

typedef struct srv_queue srv_queue;

/* `threads` request threads with 4 MiB of stack each, room for `length` waiting jobs; beyond a wait
 * of target_ns the newest are served first (waiting.h). NULL: out of memory or threads. */
srv_queue *srv_queue_new(size_t threads, size_t length, int64_t target_ns);
/* Take no more jobs, run those that wait, end the request threads. NULL is fine, twice is fine. */
void srv_queue_close(srv_queue *queue);
void srv_queue_free(srv_queue *queue); /* closes it first; NULL is fine */

/* A place for a job that comes later, and that it will not come (waiting.h). Any thread. */
bool srv_queue_promise(srv_queue *queue, srv_job *job);
void srv_queue_forget(srv_queue *queue, srv_job *job);
/* false: full and without a promise, or closed. The job may run before this returns. Any thread. */
bool srv_queue_push(srv_queue *queue, srv_job *job);
bool srv_queue_is_full(srv_queue *queue);
/* Take a waiting job out: the caller has it back. false: it no longer waits. Any thread. */
bool srv_queue_take(srv_queue *queue, srv_job *job);
/* Take out all whose deadline has passed, or cannot be met any more, as a list by `next`. Any
 * thread. */
srv_job *srv_queue_take_late(srv_queue *queue, int64_t now_ns);

size_t srv_queue_waiting(srv_queue *queue);
size_t srv_queue_running(srv_queue *queue);
bool srv_queue_is_standing(srv_queue *queue); /* the newest are served first */
/* How long a job that came now would wait, from what the last ones took. */
int64_t srv_queue_wait_ns(srv_queue *queue);

#endif
