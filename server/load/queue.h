/* The bounded queue and its request threads. Tasks are intrusive: whoever pushes one keeps it alive
 * until it has been run or taken out. Every task that was pushed is either run on a request
 * thread, once and, if it was put back, once more, or taken out. */
#ifndef SRV_QUEUE_H
#define SRV_QUEUE_H

#include "load/waiting.h"

typedef struct srv_queue srv_queue;

typedef struct srv_queue_plan {
    size_t threads;      /* tasks that run at a time */
    size_t long_threads; /* of them at most so many long ones */
    int64_t long_ns;     /* what has run for so long is long, whatever was predicted */
    size_t length;       /* tasks that may wait */
    int64_t target_ns;   /* of the longest wait (waiting.h) */
} srv_queue_plan;

/* Request threads with 4 MiB of stack each, twice as many as run tasks: where more than
 * long_threads tasks turn out to be long, spare threads run the others, so that short ones always
 * have threads - long_threads. NULL: out of memory or threads. */
srv_queue *srv_queue_new(const srv_queue_plan *plan);
/* Take no more tasks, run those that wait, end the request threads. NULL is fine, twice is fine. */
void srv_queue_close(srv_queue *queue);
void srv_queue_free(srv_queue *queue); /* closes it first; NULL is fine */

/* Promise a place to a task that comes later; forget a promise, because the task will not come
 * (waiting.h). Any thread. */
bool srv_queue_promise(srv_queue *queue, srv_task *task);
void srv_queue_forget(srv_queue *queue, srv_task *task);
/* false: it finds no room, or the queue is closed. The task may run before this returns. *out is a
 * task of another client that gave up its place and is the caller's again, or NULL. Any thread. */
bool srv_queue_push(srv_queue *queue, srv_task *task, srv_task **out);
/* Would a task of this client find room? */
bool srv_queue_has_room(srv_queue *queue, uint64_t client);
/* A client has used so much processor time outside of the queue. Any thread. */
void srv_queue_charge(srv_queue *queue, uint64_t client, int64_t ns);

/* Of the task that the calling thread runs: processor time of all threads since it began. */
int64_t srv_queue_busy_ns(void);
/* The task of the calling thread turns out to be long. true: it may go on as one of long_threads,
 * and its work gives way to that of others (attn_pool_be_patient). false: it has to wait, by
 * srv_queue_put_back. */
bool srv_queue_go_long(void);
/* The running task waits again, until a thread for long ones is free. It is not the caller's any
 * more. */
void srv_queue_put_back(srv_queue *queue, srv_task *task);

/* Take a waiting task out: the caller has it back. false: it no longer waits. Any thread. */
bool srv_queue_take(srv_queue *queue, srv_task *task);
/* Take out all whose deadline has passed, or cannot be met any more, as a list by `next`. Any
 * thread. */
srv_task *srv_queue_take_late(srv_queue *queue, int64_t now_ns);

size_t srv_queue_waiting(srv_queue *queue);
size_t srv_queue_running(srv_queue *queue);
/* Long tasks: those that run, those that wait, how many may run at a time, and how many had to wait
 * so far. */
typedef struct srv_queue_long {
    size_t running, waiting, most;
    uint64_t put_back;
} srv_queue_long;
srv_queue_long srv_queue_count_long(srv_queue *queue);
bool srv_queue_is_standing(srv_queue *queue); /* the newest are served first */
/* How long a task that came now would wait, from what the last ones took. */
int64_t srv_queue_wait_ns(srv_queue *queue);

#endif
