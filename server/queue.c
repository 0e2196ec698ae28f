/* The waiting list under one lock and one condition. `run` is always called without the lock. */
#include "queue.h"

#include <attn/attn.h>
#include <pthread.h>
#include <stdlib.h>

/* A request thread decodes, computes and encodes; jansson recurses over the nesting of a document.
 */
#define STACK_BYTES (4u << 20)

struct srv_queue {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    srv_waiting list;
    size_t running, threads;
    bool closing;
    pthread_t *thread;
};

static void *request_thread(void *argument) {
    srv_queue *queue = argument;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (!queue->list.count && !queue->closing)
            pthread_cond_wait(&queue->filled, &queue->lock);
        int64_t start = attn_now_ns();
        srv_job *job = srv_waiting_next(&queue->list, start);
        if (!job)
            break;
        queue->running++;
        pthread_mutex_unlock(&queue->lock);
        job->run(job);
        pthread_mutex_lock(&queue->lock);
        queue->running--;
        srv_waiting_ran(&queue->list, attn_now_ns() - start);
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

srv_queue *srv_queue_new(size_t threads, size_t length, int64_t target_ns) {
    srv_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return NULL;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->filled, NULL);
    srv_waiting_init(&queue->list, length, threads, target_ns);
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

bool srv_queue_promise(srv_queue *queue, srv_job *job) {
    pthread_mutex_lock(&queue->lock);
    bool room = srv_waiting_promise(&queue->list, job);
    pthread_mutex_unlock(&queue->lock);
    return room;
}

void srv_queue_forget(srv_queue *queue, srv_job *job) {
    if (!job->promised)
        return;
    pthread_mutex_lock(&queue->lock);
    srv_waiting_forget(&queue->list, job);
    pthread_mutex_unlock(&queue->lock);
}

bool srv_queue_push(srv_queue *queue, srv_job *job) {
    pthread_mutex_lock(&queue->lock);
    bool room = !queue->closing && srv_waiting_add(&queue->list, job, attn_now_ns());
    if (room)
        pthread_cond_signal(&queue->filled);
    pthread_mutex_unlock(&queue->lock);
    return room;
}

bool srv_queue_is_full(srv_queue *queue) {
    return srv_queue_waiting(queue) >= queue->list.length;
}

bool srv_queue_take(srv_queue *queue, srv_job *job) {
    pthread_mutex_lock(&queue->lock);
    bool waited = job->waiting;
    if (waited)
        srv_waiting_take(&queue->list, job);
    pthread_mutex_unlock(&queue->lock);
    return waited;
}

srv_job *srv_queue_take_late(srv_queue *queue, int64_t now_ns) {
    pthread_mutex_lock(&queue->lock);
    srv_job *late = srv_waiting_take_late(&queue->list, now_ns);
    pthread_mutex_unlock(&queue->lock);
    return late;
}

size_t srv_queue_waiting(srv_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    size_t waiting = queue->list.count;
    pthread_mutex_unlock(&queue->lock);
    return waiting;
}

size_t srv_queue_running(srv_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    size_t running = queue->running;
    pthread_mutex_unlock(&queue->lock);
    return running;
}

bool srv_queue_is_standing(srv_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    bool standing = queue->list.standing;
    pthread_mutex_unlock(&queue->lock);
    return standing;
}

int64_t srv_queue_wait_ns(srv_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    int64_t ns = srv_waiting_estimate(&queue->list);
    pthread_mutex_unlock(&queue->lock);
    return ns;
}
