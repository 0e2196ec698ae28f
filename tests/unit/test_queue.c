/* The bounded queue: order, refusal, taking out, expiry, and no job lost or run twice under load.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "queue.h"

typedef struct job {
    srv_job base; /* first */
    atomic_int runs;
    int order;
    sem_t *started, *go; /* NULL: does not wait */
} job;

static atomic_int clock_of_runs;

static void run(srv_job *base) {
    job *j = (job *)base;
    atomic_fetch_add(&j->runs, 1);
    j->order = atomic_fetch_add(&clock_of_runs, 1);
    if (j->started)
        sem_post(j->started);
    if (j->go)
        sem_wait(j->go);
}

static job make(int64_t deadline_ns) {
    return (job){.base = {.run = run, .deadline_ns = deadline_ns}};
}

/* A queue with one thread that is held by `blocker` until `go` is posted. */
typedef struct held {
    srv_queue *queue;
    sem_t started, go;
    job blocker;
} held;

static void hold(held *h, size_t length) {
    h->queue = srv_queue_new(1, length, INT64_MAX);
    assert_non_null(h->queue);
    sem_init(&h->started, 0, 0);
    sem_init(&h->go, 0, 0);
    h->blocker = make(INT64_MAX);
    h->blocker.started = &h->started;
    h->blocker.go = &h->go;
    assert_true(srv_queue_push(h->queue, &h->blocker.base));
    sem_wait(&h->started);
}

static void release(held *h) {
    sem_post(&h->go);
    srv_queue_free(h->queue);
    assert_int_equal(h->blocker.runs, 1);
    sem_destroy(&h->started);
    sem_destroy(&h->go);
}

static void test_order_and_refusal(void **state) {
    (void)state;
    held h;
    job jobs[4];
    hold(&h, 3);
    for (int i = 0; i < 4; i++) {
        jobs[i] = make(INT64_MAX);
        assert_int_equal(srv_queue_is_full(h.queue), i == 3);
        assert_int_equal(srv_queue_push(h.queue, &jobs[i].base), i < 3);
    }
    assert_int_equal(srv_queue_waiting(h.queue), 3);
    assert_int_equal(srv_queue_running(h.queue), 1);
    release(&h); /* waits for what is in the queue, too */
    for (int i = 0; i < 3; i++)
        assert_int_equal(jobs[i].runs, 1);
    assert_int_equal(jobs[3].runs, 0);
    assert_true(jobs[0].order < jobs[1].order && jobs[1].order < jobs[2].order);
}

static void test_take(void **state) {
    (void)state;
    held h;
    job jobs[3];
    hold(&h, 3);
    for (int i = 0; i < 3; i++) {
        jobs[i] = make(INT64_MAX);
        assert_true(srv_queue_push(h.queue, &jobs[i].base));
    }
    assert_false(srv_queue_take(h.queue, &h.blocker.base));
    assert_true(srv_queue_take(h.queue, &jobs[1].base));
    assert_false(srv_queue_take(h.queue, &jobs[1].base));
    assert_true(srv_queue_take(h.queue, &jobs[2].base));
    assert_int_equal(srv_queue_waiting(h.queue), 1);
    assert_true(srv_queue_push(h.queue, &jobs[2].base));
    release(&h);
    assert_int_equal(jobs[0].runs, 1);
    assert_int_equal(jobs[1].runs, 0);
    assert_int_equal(jobs[2].runs, 1);
}

static void test_expiry(void **state) {
    (void)state;
    static const int64_t deadlines[] = {100, 300, 50, 200};
    held h;
    job jobs[4];
    hold(&h, 4);
    for (int i = 0; i < 4; i++) {
        jobs[i] = make(deadlines[i]);
        assert_true(srv_queue_push(h.queue, &jobs[i].base));
    }
    assert_null(srv_queue_take_late(h.queue, 50));
    int count = 0;
    for (srv_job *j = srv_queue_take_late(h.queue, 200); j; j = j->next, count++)
        assert_true(j == &jobs[0].base || j == &jobs[2].base);
    assert_int_equal(count, 2);
    assert_int_equal(srv_queue_waiting(h.queue), 2);
    release(&h);
    assert_int_equal(jobs[0].runs + jobs[2].runs, 0);
    assert_int_equal(jobs[1].runs + jobs[3].runs, 2);
}

static void test_closed(void **state) {
    (void)state;
    srv_queue *queue = srv_queue_new(2, 8, INT64_MAX);
    job jobs[6], late = make(INT64_MAX);
    assert_non_null(queue);
    for (int i = 0; i < 6; i++) {
        jobs[i] = make(INT64_MAX);
        assert_true(srv_queue_push(queue, &jobs[i].base));
    }
    srv_queue_close(queue);
    for (int i = 0; i < 6; i++)
        assert_int_equal(jobs[i].runs, 1);
    assert_false(srv_queue_push(queue, &late.base));
    assert_int_equal(srv_queue_waiting(queue) + srv_queue_running(queue), 0);
    srv_queue_close(queue);
    srv_queue_free(queue);
    srv_queue_free(NULL);
    assert_int_equal(late.runs, 0);
}

enum { MANY = 20000 };
static job many[MANY];

static void *taker(void *queue) {
    intptr_t taken = 0;
    for (int i = 0; i < MANY; i += 7)
        taken += srv_queue_take(queue, &many[i].base);
    return (void *)taken;
}

static void test_nothing_is_lost_under_load(void **state) {
    (void)state;
    srv_queue *queue = srv_queue_new(4, 64, INT64_MAX);
    pthread_t thread;
    const struct timespec nap = {.tv_nsec = 1000};
    assert_non_null(queue);
    for (int i = 0; i < MANY; i++)
        many[i] = make(INT64_MAX);
    assert_int_equal(pthread_create(&thread, NULL, taker, queue), 0);
    for (int i = 0; i < MANY; i++)
        while (!srv_queue_push(queue, &many[i].base))
            nanosleep(&nap, NULL);
    void *taken;
    pthread_join(thread, &taken);
    srv_queue_free(queue);
    intptr_t ran = 0;
    for (int i = 0; i < MANY; i++) {
        assert_true(many[i].runs <= 1);
        ran += many[i].runs;
    }
    assert_int_equal(ran + (intptr_t)taken, MANY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_refusal),
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_expiry),
        cmocka_unit_test(test_closed),
        cmocka_unit_test(test_nothing_is_lost_under_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
