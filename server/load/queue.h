/* The bounded queue of tasks and the request threads that run them. The queue does not copy tasks:
 * the caller keeps a pushed task alive until it has been run or taken out. Every pushed task is
 * either run on a request thread or taken out of the queue. A task that puts itself back while it
 * runs is run once more. */
#ifndef SRV_QUEUE_H
#define SRV_QUEUE_H

#include "load/waiting.h"

typedef struct srv_queue srv_queue;

typedef struct srv_queue_plan {
    size_t threads;      /* number of tasks that may run at the same time */
    size_t long_threads; /* number of long tasks that may run at the same time */
    int64_t long_ns;     /* a task that has run for this time counts as long */
    size_t length;       /* number of tasks that may wait */
    int64_t target_ns;   /* target for the longest wait (waiting.h) */
} srv_queue_plan;

/* Makes the queue and starts 2 * threads request threads. If more than long_threads running tasks
 * turn out to be long, the spare threads run short tasks, so that threads - long_threads short
 * tasks can always run. NULL: out of memory or threads. */
srv_queue *srv_queue_new(const srv_queue_plan *plan);
/* Refuses new tasks, runs the waiting ones and ends the request threads. NULL is fine, and so is a
 * second call. */
void srv_queue_close(srv_queue *queue);
void srv_queue_free(srv_queue *queue); /* closes it first; NULL is fine */

/* srv_queue_promise reserves a slot for a task that will be pushed later; srv_queue_forget releases
 * the slot of a task that will not be pushed (waiting.h). Any thread. */
bool srv_queue_promise(srv_queue *queue, srv_task *task);
void srv_queue_forget(srv_queue *queue, srv_task *task);
/* Adds a task, which may run before this function returns. Returns false if there is no room or the
 * queue is closed. Sets *out to a task of another client that was taken out to make room, or to
 * NULL; the caller must answer that task. Any thread. */
bool srv_queue_push(srv_queue *queue, srv_task *task, srv_task **out);
/* Returns whether a task of this client would find room. */
bool srv_queue_has_room(srv_queue *queue, uint64_t client);
/* Charges a client for `ns` of processor time that it used without the queue. Any thread. */
void srv_queue_charge(srv_queue *queue, uint64_t client, int64_t ns);

/* Returns the processor time that all threads have used for the calling thread's task. */
int64_t srv_queue_busy_ns(void);
/* Declares that the task of the calling thread is long. Returns true if it may go on as one of the
 * long_threads long tasks; its work in the pool then yields to other work (attn_pool_be_patient).
 * If it returns false, the task must be put back by srv_queue_put_back. */
bool srv_queue_go_long(void);
/* Puts the running task back into the queue, until another long task may run. The caller must not
 * use the task afterwards. */
void srv_queue_put_back(srv_queue *queue, srv_task *task);

/* Takes a waiting task out of the queue. Returns false if the task no longer waits. Any thread. */
bool srv_queue_take(srv_queue *queue, srv_task *task);
/* Takes out all tasks whose deadline has passed, or in a standing queue cannot be met. Returns them
 * as a list linked by `next`. Any thread. */
srv_task *srv_queue_take_late(srv_queue *queue, int64_t now_ns);

size_t srv_queue_waiting(srv_queue *queue);
size_t srv_queue_running(srv_queue *queue);
/* Counts of long tasks: how many run, how many wait, how many may run at the same time, and how
 * many have had to wait since the start. */
typedef struct srv_queue_long {
    size_t running, waiting, most;
    uint64_t put_back;
} srv_queue_long;
srv_queue_long srv_queue_count_long(srv_queue *queue);
bool srv_queue_is_standing(srv_queue *queue); /* true: the newest tasks are served first */
/* Estimates how long a task that is pushed now would wait. */
int64_t srv_queue_wait_ns(srv_queue *queue);

#endif
