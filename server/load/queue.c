/* One lock protects the waiting list (waiting.h). The `work` function of a task is always called
 * without the lock. */
#include "load/queue.h"

#include <attn/attn.h>
#include <pthread.h>
#include <stdlib.h>

#include "system/clock.h"
#include "system/condition.h"

/* The stack size of a request thread in bytes. Request threads draw PNG pictures with librsvg,
 * which recurses over the elements of a picture and therefore needs a large stack. Other work needs
 * less. */
#define STACK_BYTES (4u << 20)

/* A request thread. The last three members describe the task that it runs. */
typedef struct place {
    srv_queue *queue;
    pthread_t thread;
    bool busy;        /* the thread runs a task */
    bool is_long;     /* the task was declared long and is counted in long_running */
    int64_t start_ns; /* when the task began to run */
} place;

struct srv_queue {
    pthread_mutex_t lock;
    pthread_cond_t filled; /* a task was added, another thread may run one, or `closing` is set */
    srv_waiting list;
    srv_queue_plan plan;
    size_t running;      /* running tasks */
    size_t long_running; /* running tasks that were declared long */
    size_t threads;      /* started request threads, each with its entry of `places` */
    uint64_t put_back;
    bool closing;
    place *places;
};

/* The calling request thread. NULL: this is not a request thread. */
static _Thread_local place *own;
/* The processor time that this thread had used when its task began. */
static _Thread_local int64_t own_cpu_ns;
/* The processor time that pool workers had used for this thread when its task began
 * (attn_pool_helped_ns). */
static _Thread_local int64_t own_helped_ns;

int64_t srv_queue_busy_ns(void) {
    return srv_clock_ns(CLOCK_THREAD_CPUTIME_ID) - own_cpu_ns + attn_pool_helped_ns() -
           own_helped_ns;
}

/* Counts the running tasks that are long: those that were declared long, and those that have run
 * for long_ns. Sets *next_ns to the time at which the next running task will become long; 0: none
 * will. The caller has the lock. */
static size_t count_long(const srv_queue *queue, int64_t now_ns, int64_t *next_ns) {
    size_t count = queue->long_running;
    *next_ns = 0;
    for (size_t i = 0; i < queue->threads; i++) {
        const place *p = &queue->places[i];
        if (!p->busy || p->is_long)
            continue;
        const int64_t then = p->start_ns + queue->plan.long_ns;
        if (then <= now_ns)
            count++;
        else if (!*next_ns || then < *next_ns)
            *next_ns = then;
    }
    return count;
}

/* Removes the task to run now from the waiting list and returns it. NULL: none may run now. Sets
 * *look_ns to the time at which a running task becomes long, so that one more thread may run tasks;
 * 0: none will. The caller has the lock. */
static srv_task *take_next_task(srv_queue *queue, int64_t *look_ns) {
    const int64_t now = attn_now_ns();
    size_t most = queue->plan.threads;
    *look_ns = 0;
    if (!queue->list.count)
        return NULL;
    const size_t longs = count_long(queue, now, look_ns), share = queue->plan.long_threads;
    most += longs > share ? longs - share : 0;
    if (queue->running >= most || queue->running == queue->threads)
        return NULL;
    return srv_waiting_next(&queue->list, now, longs < share);
}

static void wait_for_work(srv_queue *queue, int64_t look_ns) {
    if (!look_ns) {
        pthread_cond_wait(&queue->filled, &queue->lock);
        return;
    }
    srv_condition_wait(&queue->filled, &queue->lock, look_ns);
}

/* Runs a task. The caller has the lock, which is released while the task runs. The task is not used
 * after it has run, because another thread may have freed it. */
static void run_task(srv_queue *queue, place *p, srv_task *task) {
    srv_account *account = task->account;
    const int64_t paid = task->paid_ns, start = attn_now_ns();
    const bool crowded = account->running > 1 || account->waiting > 0;
    p->busy = true;
    p->is_long = task->is_long;
    p->start_ns = start;
    queue->running++;
    queue->long_running += p->is_long;
    pthread_mutex_unlock(&queue->lock);
    own_cpu_ns = srv_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    own_helped_ns = attn_pool_helped_ns();
    attn_pool_be_patient(p->is_long ? start : start + queue->plan.long_ns);
    attn_pool_be_crowded(crowded);
    task->work(task);
    const int64_t busy = srv_queue_busy_ns();
    pthread_mutex_lock(&queue->lock);
    const int64_t now = attn_now_ns();
    srv_waiting_done(&queue->list, account, now - start, busy, paid, now);
    queue->long_running -= p->is_long;
    queue->running--;
    p->busy = false;
}

static void *request_thread(void *argument) {
    place *p = own = argument;
    srv_queue *queue = p->queue;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        int64_t look_ns;
        srv_task *task = take_next_task(queue, &look_ns);
        if (task && queue->list.count && queue->running + 1 < queue->plan.threads)
            pthread_cond_signal(&queue->filled); /* another thread may run the next task */
        if (task)
            run_task(queue, p, task);
        else if (queue->closing)
            break;
        else
            wait_for_work(queue, look_ns);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

static bool start_threads(srv_queue *queue, size_t threads) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes))
        return false;
    bool ok = !pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_mutex_lock(&queue->lock); /* threads that have started read queue->threads */
    while (ok && queue->threads < threads) {
        place *p = &queue->places[queue->threads];
        p->queue = queue;
        ok = !pthread_create(&p->thread, &attributes, request_thread, p);
        queue->threads += ok;
    }
    pthread_mutex_unlock(&queue->lock);
    pthread_attr_destroy(&attributes);
    return ok;
}

srv_queue *srv_queue_new(const srv_queue_plan *plan) {
    srv_queue *queue = calloc(1, sizeof *queue);
    if (!queue || !srv_condition_init(&queue->filled)) {
        free(queue);
        return NULL;
    }
    pthread_mutex_init(&queue->lock, NULL);
    queue->plan = *plan;
    srv_waiting_init(&queue->list, plan->length, plan->threads, plan->target_ns);
    queue->places = calloc(2 * plan->threads, sizeof *queue->places);
    if (!queue->places || !start_threads(queue, 2 * plan->threads)) {
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
        pthread_join(queue->places[i].thread, NULL);
    queue->threads = 0;
}

void srv_queue_free(srv_queue *queue) {
    if (!queue)
        return;
    srv_queue_close(queue);
    pthread_cond_destroy(&queue->filled);
    pthread_mutex_destroy(&queue->lock);
    free(queue->places);
    free(queue);
}

bool srv_queue_promise(srv_queue *queue, srv_task *task) {
    pthread_mutex_lock(&queue->lock);
    bool room = srv_waiting_promise(&queue->list, task);
    pthread_mutex_unlock(&queue->lock);
    return room;
}

void srv_queue_forget(srv_queue *queue, srv_task *task) {
    pthread_mutex_lock(&queue->lock);
    srv_waiting_forget(&queue->list, task);
    pthread_mutex_unlock(&queue->lock);
}

bool srv_queue_push(srv_queue *queue, srv_task *task, srv_task **out) {
    *out = NULL;
    pthread_mutex_lock(&queue->lock);
    bool room = !queue->closing && srv_waiting_add(&queue->list, task, attn_now_ns(), out);
    if (room)
        pthread_cond_signal(&queue->filled);
    pthread_mutex_unlock(&queue->lock);
    return room;
}

bool srv_queue_has_room(srv_queue *queue, uint64_t client) {
    pthread_mutex_lock(&queue->lock);
    const bool room = srv_waiting_has_room(&queue->list, client);
    pthread_mutex_unlock(&queue->lock);
    return room;
}

void srv_queue_charge(srv_queue *queue, uint64_t client, int64_t ns) {
    pthread_mutex_lock(&queue->lock);
    srv_waiting_charge(&queue->list, client, ns, attn_now_ns());
    pthread_mutex_unlock(&queue->lock);
}

bool srv_queue_go_long(void) {
    if (!own)
        return true;
    srv_queue *queue = own->queue;
    pthread_mutex_lock(&queue->lock);
    const bool goes = own->is_long || queue->long_running < queue->plan.long_threads;
    queue->long_running += goes && !own->is_long;
    own->is_long |= goes;
    pthread_mutex_unlock(&queue->lock);
    if (goes)
        attn_pool_be_patient(own->start_ns);
    return goes;
}

void srv_queue_put_back(srv_queue *queue, srv_task *task) {
    pthread_mutex_lock(&queue->lock);
    queue->put_back++;
    srv_waiting_put_back(&queue->list, task);
    pthread_cond_signal(&queue->filled);
    pthread_mutex_unlock(&queue->lock);
}

srv_queue_state srv_queue_look(srv_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    srv_queue_state s = {
        .waiting = queue->list.count,
        .running = queue->running,
        .long_running = queue->long_running,
        .long_threads = queue->plan.long_threads,
        .put_back = queue->put_back,
        .standing = queue->list.standing,
    };
    for (const srv_task *task = queue->list.first; task; task = task->next)
        s.long_waiting += task->is_long;
    pthread_mutex_unlock(&queue->lock);
    return s;
}

bool srv_queue_take(srv_queue *queue, srv_task *task) {
    pthread_mutex_lock(&queue->lock);
    bool waited = task->waiting;
    if (waited)
        srv_waiting_take(&queue->list, task);
    pthread_mutex_unlock(&queue->lock);
    return waited;
}

srv_task *srv_queue_take_late(srv_queue *queue, int64_t now_ns) {
    pthread_mutex_lock(&queue->lock);
    srv_task *late = srv_waiting_take_late(&queue->list, now_ns);
    pthread_mutex_unlock(&queue->lock);
    return late;
}

size_t srv_queue_waiting(srv_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    size_t waiting = queue->list.count;
    pthread_mutex_unlock(&queue->lock);
    return waiting;
}

int64_t srv_queue_wait_ns(srv_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    int64_t ns = srv_waiting_estimate(&queue->list);
    pthread_mutex_unlock(&queue->lock);
    return ns;
}
