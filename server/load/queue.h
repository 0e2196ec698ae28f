/* The bounded queue of tasks, and the request threads that run them. A task is a request that waits
 * or runs (srv_task in waiting.h). The queue does not copy tasks: the caller keeps a task alive
 * until it has been run or taken out. Each task that is pushed is either run on a request thread or
 * taken out of the queue. A running task may put itself back (srv_queue_put_back) and is then run a
 * second time. */
#ifndef SRV_QUEUE_H
#define SRV_QUEUE_H

#include "load/waiting.h"

typedef struct srv_queue srv_queue;

typedef struct srv_queue_plan {
    size_t threads;      /* largest number of tasks that run at the same time */
    size_t long_threads; /* largest number of long tasks that run at the same time */
    int64_t long_ns;     /* a task counts as long once it has run for this time */
    size_t length;       /* largest number of tasks that wait */
    int64_t target_ns;   /* target for the longest wait (waiting.h) */
} srv_queue_plan;

/* Makes the queue and starts 2 * threads request threads. Usually only `threads` of them run tasks
 * at a time. The others are needed if more than long_threads of the running tasks turn out to be
 * long: for each such task one more thread runs tasks, so that threads - long_threads short tasks
 * can always run. NULL: out of memory or threads. */
srv_queue *srv_queue_new(const srv_queue_plan *plan);
/* Refuses new tasks from now on, runs the waiting tasks and ends the request threads. NULL and a
 * second call are fine. */
void srv_queue_close(srv_queue *queue);
void srv_queue_free(srv_queue *queue); /* closes it first; NULL is fine */

/* srv_queue_promise reserves a place in the queue for a task that will be pushed later, when its
 * body has arrived. srv_queue_forget releases the place of a task that will not be pushed. See
 * srv_waiting_promise. Any thread may call both. */
bool srv_queue_promise(srv_queue *queue, srv_task *task);
void srv_queue_forget(srv_queue *queue, srv_task *task);
/* Adds a task, which may run before this function returns. Returns false if there is no place or
 * the queue is closed. If a task of another client had to be taken out to make room, *out is that
 * task, and the caller must answer it; otherwise *out is NULL. Any thread may call this. */
bool srv_queue_push(srv_queue *queue, srv_task *task, srv_task **out);
/* Returns whether srv_queue_push would find a place for a task of this client now. */
bool srv_queue_has_room(srv_queue *queue, uint64_t client);
/* Charges a client's account (waiting.h) for `ns` of processor time that was used for it outside of
 * the queue, for example on the HTTP thread. Any thread may call this. */
void srv_queue_charge(srv_queue *queue, uint64_t client, int64_t ns);

/* Returns the processor time that all threads together have used so far for the task that the
 * calling request thread runs. */
int64_t srv_queue_busy_ns(void);
/* Declares that the task that the calling request thread runs is long. true: the task may continue
 * as one of the long_threads long tasks, and its work in the worker pool yields to other work
 * (attn_pool_be_patient). false: long_threads other long tasks are running, and the caller must put
 * the task back by srv_queue_put_back. */
bool srv_queue_go_long(void);
/* Puts the task that the calling request thread runs back into the queue, where it waits until
 * another long task may run. The caller must not use the task afterwards. */
void srv_queue_put_back(srv_queue *queue, srv_task *task);

/* Takes a task out of the queue. Returns false if the task is not waiting, because it runs or has
 * run. Any thread may call this. */
bool srv_queue_take(srv_queue *queue, srv_task *task);
/* Takes out all tasks whose deadline has passed and, if the queue is standing (waiting.h), those
 * that cannot meet their deadline. Returns them as a list linked by `next`. Any thread may call
 * this. */
srv_task *srv_queue_take_late(srv_queue *queue, int64_t now_ns);

size_t srv_queue_waiting(srv_queue *queue); /* number of waiting tasks */
/* The state of the queue at one time. */
typedef struct srv_queue_state {
    size_t waiting, running;           /* number of tasks */
    size_t long_waiting, long_running; /* number of tasks that were declared long */
    size_t long_threads;               /* srv_queue_plan.long_threads */
    uint64_t put_back;                 /* calls of srv_queue_put_back since the start */
    bool standing;                     /* the newest tasks run first (waiting.h) */
} srv_queue_state;
srv_queue_state srv_queue_look(srv_queue *queue);
/* Estimates how long a task that is pushed now would wait, in nanoseconds. */
int64_t srv_queue_wait_ns(srv_queue *queue);

#endif
