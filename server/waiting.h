/* The waiting list of the queue and its discipline, without threads, locks or a clock: the queue
 * (queue.h) calls it under its lock, tests with a simulated clock.
 *
 * First come, first served, as long as that works. When the longest wait stays beyond a target for
 * an interval, the queue is standing: whoever has waited longest is about to miss his deadline, and
 * serving in order would spend all work on answers that come too late. Then the newest are served
 * first, and those that could not finish in time are dropped unserved, until the longest wait is
 * below the target again (CoDel's test of a standing queue: K. Nichols, V. Jacobson, "Controlling
 * Queue Delay", ACM Queue 10(5), 2012). */
#ifndef SRV_WAITING_H
#define SRV_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_job srv_job;

struct srv_job {
    srv_job *next, *previous; /* the list's, as the next three */
    bool waiting, promised;
    int64_t since_ns;
    int64_t deadline_ns; /* CLOCK_MONOTONIC */
    void (*run)(srv_job *job);
};

typedef struct srv_waiting {
    srv_job *first, *last; /* in order of arrival */
    size_t count, length, threads;
    size_t promises;             /* to jobs that are on their way */
    int64_t target_ns, above_ns; /* above: since when the longest wait is beyond the target; or 0 */
    bool standing;
    double run_ns; /* how long a job runs: mean, the newest weigh most */
} srv_waiting;

/* Room for `length` jobs, which `threads` threads will run. */
void srv_waiting_init(srv_waiting *list, size_t length, size_t threads, int64_t target_ns);
/* A place for a job that comes later, while there is one and fewer than `length` are promised: it
 * will find room even when the list has become full meanwhile, so the list never holds more than
 * twice its length. Others find as much room as without it: whoever is slow to come keeps nobody
 * out. false: none, the job may find the list full. */
bool srv_waiting_promise(srv_waiting *list, srv_job *job);
/* It will not come. Without a promise nothing happens. */
void srv_waiting_forget(srv_waiting *list, srv_job *job);
/* false: full, and the job has no promise. */
bool srv_waiting_add(srv_waiting *list, srv_job *job, int64_t now_ns);
/* The job to run now, taken out; NULL: none. */
srv_job *srv_waiting_next(srv_waiting *list, int64_t now_ns);
void srv_waiting_take(srv_waiting *list, srv_job *job); /* out with this one, which waits */
/* Take out those whose deadline has passed, and while the queue is standing those that would miss
 * it; a list by `next`. */
srv_job *srv_waiting_take_late(srv_waiting *list, int64_t now_ns);
/* A job has run for so long. */
void srv_waiting_ran(srv_waiting *list, int64_t ns);
/* How long one that came now would wait, in order. */
int64_t srv_waiting_estimate(const srv_waiting *list);

#endif
