/* One lock, one condition, a doubly linked list in order of arrival. `run` is always called without
 * the lock. */
#include "queue.h"

#include <pthread.h>
#include <stdlib.h>

/* A request thread decodes, computes and encodes; jansson recurses over the nesting of a document.
 */
#define STACK_BYTES (4u << 20)

struct srv_queue {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    srv_job *first, *last;
    size_t waiting, running, length, threads;
    bool closing;
    pthread_t *thread;
};

static void take_out(srv_queue *queue, srv_job *job) {
    *(job->previous ? &job->previous->next : &queue->first) = job->next;
    *(job->next ? &job->next->previous : &queue->last) = job->previous;
    job->next = job->previous = NULL;
    job->waiting = false;
    queue->waiting--;
}

static void *request_thread(void *argument) {
    srv_queue *queue = argument;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (!queue->first && !queue->closing)
            pthread_cond_wait(&queue->filled, &queue->lock);
        srv_job *job = queue->first;
        if (!job)
            break;
        take_out(queue, job);
        queue->running++;
        pthread_mutex_unlock(&queue->lock);
        job->run(job);
        pthread_mutex_lock(&queue->lock);
        queue->running--;
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

static bool start_threads(srv_queue *queue, size_t threads) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes))
        return false;
    bool ok = !pthread_attr_setstacksize(&attributes, STACK_BYTES);
    while (ok && queue->threads < threads) {
        ok = !pthread_create(&queue->thread[queue->threads], &attributes, request_thread, queue);
        queue->threads += ok;
    }
    pthread_attr_destroy(&attributes);
    return ok;
}

srv_queue *srv_queue_new(size_t threads, size_t length) {
    srv_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return NULL;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->filled, NULL);
    queue->length = length;
    queue->thread = calloc(threads, sizeof *queue->thread);
    if (!queue->thread || !start_threads(queue, threads)) {
        srv_queue_free(queue);
        return NULL;
    }
    return queue;
}

void srv_queue_close(srv_queue *queue) {
    if (!queue)
        return;
    pthread_mutex_lock(&queue->lock);
    queue->closing = true;
    pthread_cond_broadcast(&queue->filled);
    pthread_mutex_unlock(&queue->lock);
    for (size_t i = 0; i < queue->threads; i++)
        pthread_join(queue->thread[i], NULL);
    queue->threads = 0;
}

void srv_queue_free(srv_queue *queue) {
    if (!queue)
        return;
    srv_queue_close(queue);
    pthread_cond_destroy(&queue->filled);
    pthread_mutex_destroy(&queue->lock);
    free(queue->thread);
    free(queue);
}

bool srv_queue_push(srv_queue *queue, srv_job *job) {
    pthread_mutex_lock(&queue->lock);
    bool room = queue->waiting < queue->length && !queue->closing;
    if (room) {
        job->next = NULL;
        job->previous = queue->last;
        job->waiting = true;
        *(queue->last ? &queue->last->next : &queue->first) = job;
        queue->last = job;
        queue->waiting++;
        pthread_cond_signal(&queue->filled);
    }
    pthread_mutex_unlock(&queue->lock);
    return room;
}

bool srv_queue_is_full(srv_queue *queue) {
    return srv_queue_waiting(queue) >= queue->length;
}

bool srv_queue_take(srv_queue *queue, srv_job *job) {
    pthread_mutex_lock(&queue->lock);
    bool waited = job->waiting;
    if (waited)
        take_out(queue, job);
    pthread_mutex_unlock(&queue->lock);
    return waited;
}

srv_job *srv_queue_take_expired(srv_queue *queue, int64_t now_ns) {
    srv_job *expired = NULL;
    pthread_mutex_lock(&queue->lock);
    for (srv_job *job = queue->first, *next; job; job = next) {
        next = job->next;
        if (now_ns <= job->deadline_ns)
            continue;
        take_out(queue, job);
        job->next = expired;
        expired = job;
    }
    pthread_mutex_unlock(&queue->lock);
    return expired;
}

size_t srv_queue_waiting(srv_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    size_t waiting = queue->waiting;
    pthread_mutex_unlock(&queue->lock);
    return waiting;
}

size_t srv_queue_running(srv_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    size_t running = queue->running;
    pthread_mutex_unlock(&queue->lock);
    return running;
}
