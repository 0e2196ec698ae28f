/* A doubly linked list in order of arrival, and the discipline over it (waiting.h). */
#include "waiting.h"

/* The weight of the newest run in the mean, and the part of the target that is the interval. */
enum { NEWEST = 8, INTERVALS = 4 };

void srv_waiting_init(srv_waiting *list, size_t length, size_t threads, int64_t target_ns) {
    *list =
        (srv_waiting){.length = length, .threads = threads ? threads : 1, .target_ns = target_ns};
}

/* Is the queue standing? Looked at whenever something changes. */
static void look(srv_waiting *list, int64_t now_ns) {
    if (!list->first || now_ns - list->first->since_ns <= list->target_ns) {
        list->above_ns = 0;
        list->standing = false;
    } else if (!list->above_ns) {
        list->above_ns = now_ns;
    } else if (now_ns - list->above_ns >= list->target_ns / INTERVALS) {
        list->standing = true;
    }
}

bool srv_waiting_promise(srv_waiting *list, srv_job *job) {
    if (list->count >= list->length || list->promises >= list->length)
        return false;
    list->promises += !job->promised;
    job->promised = true;
    return true;
}

void srv_waiting_forget(srv_waiting *list, srv_job *job) {
    list->promises -= job->promised;
    job->promised = false;
}

bool srv_waiting_add(srv_waiting *list, srv_job *job, int64_t now_ns) {
    if (list->count >= list->length && !job->promised)
        return false;
    srv_waiting_forget(list, job);
    job->next = NULL;
    job->previous = list->last;
    job->waiting = true;
    job->since_ns = now_ns;
    *(list->last ? &list->last->next : &list->first) = job;
    list->last = job;
    list->count++;
    return true;
}

void srv_waiting_take(srv_waiting *list, srv_job *job) {
    *(job->previous ? &job->previous->next : &list->first) = job->next;
    *(job->next ? &job->next->previous : &list->last) = job->previous;
    job->next = job->previous = NULL;
    job->waiting = false;
    list->count--;
}

srv_job *srv_waiting_next(srv_waiting *list, int64_t now_ns) {
    look(list, now_ns);
    srv_job *job = list->standing ? list->last : list->first;
    if (job)
        srv_waiting_take(list, job);
    return job;
}

srv_job *srv_waiting_take_late(srv_waiting *list, int64_t now_ns) {
    look(list, now_ns);
    int64_t start_by = now_ns + (list->standing ? (int64_t)list->run_ns : 0);
    srv_job *late = NULL;
    for (srv_job *job = list->first, *next; job; job = next) {
        next = job->next;
        if (start_by <= job->deadline_ns)
            continue;
        srv_waiting_take(list, job);
        job->next = late;
        late = job;
    }
    return late;
}

void srv_waiting_ran(srv_waiting *list, int64_t ns) {
    list->run_ns += ((double)ns - list->run_ns) / (list->run_ns > 0 ? NEWEST : 1);
}

int64_t srv_waiting_estimate(const srv_waiting *list) {
    return (int64_t)((double)(list->count + 1) * list->run_ns / (double)list->threads);
}
