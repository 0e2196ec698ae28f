/* The bounded queue: order, refusal, taking out, expiry, and no task lost or run twice under load.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "load/queue.h"

typedef struct task {
    srv_task base; /* first */
    atomic_int runs;
    int order;
    sem_t *started, *go; /* NULL: does not wait */
} task;

static atomic_int clock_of_runs;
static srv_task *out; /* who gave up a place */

/* So many run at a time, long ones all but one, and nothing becomes long by itself. */
static srv_queue *new_queue(size_t threads, size_t length) {
    return srv_queue_new(&(srv_queue_plan){
        .threads = threads,
        .long_threads = threads > 1 ? threads - 1 : 1,
        .long_ns = INT64_MAX / 2,
        .length = length,
        .target_ns = INT64_MAX,
    });
}

static void run(srv_task *base) {
    task *j = (task *)base;
    atomic_fetch_add(&j->runs, 1);
    j->order = atomic_fetch_add(&clock_of_runs, 1);
    if (j->started)
        sem_post(j->started);
    if (j->go)
        sem_wait(j->go);
}

static task make(int64_t deadline_ns) {
    return (task){.base = {.work = run, .deadline_ns = deadline_ns}};
}

/* A queue with one thread that is held by `blocker` until `go` is posted. */
typedef struct held {
    srv_queue *queue;
    sem_t started, go;
    task blocker;
} held;

static void hold(held *h, size_t length) {
    h->queue = new_queue(1, length);
    assert_non_null(h->queue);
    sem_init(&h->started, 0, 0);
    sem_init(&h->go, 0, 0);
    h->blocker = make(INT64_MAX);
    h->blocker.started = &h->started;
    h->blocker.go = &h->go;
    assert_true(srv_queue_push(h->queue, &h->blocker.base, &out));
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
    task tasks[4];
    hold(&h, 3);
    for (int i = 0; i < 4; i++) {
        tasks[i] = make(INT64_MAX);
        assert_int_equal(srv_queue_has_room(h.queue, 0), i < 3);
        assert_int_equal(srv_queue_push(h.queue, &tasks[i].base, &out), i < 3);
    }
    assert_int_equal(srv_queue_waiting(h.queue), 3);
    assert_int_equal(srv_queue_look(h.queue).running, 1);
    release(&h); /* waits for what is in the queue, too */
    for (int i = 0; i < 3; i++)
        assert_int_equal(tasks[i].runs, 1);
    assert_int_equal(tasks[3].runs, 0);
    assert_true(tasks[0].order < tasks[1].order && tasks[1].order < tasks[2].order);
}

static void test_take(void **state) {
    (void)state;
    held h;
    task tasks[3];
    hold(&h, 3);
    for (int i = 0; i < 3; i++) {
        tasks[i] = make(INT64_MAX);
        assert_true(srv_queue_push(h.queue, &tasks[i].base, &out));
    }
    assert_false(srv_queue_take(h.queue, &h.blocker.base));
    assert_true(srv_queue_take(h.queue, &tasks[1].base));
    assert_false(srv_queue_take(h.queue, &tasks[1].base));
    assert_true(srv_queue_take(h.queue, &tasks[2].base));
    assert_int_equal(srv_queue_waiting(h.queue), 1);
    assert_true(srv_queue_push(h.queue, &tasks[2].base, &out));
    release(&h);
    assert_int_equal(tasks[0].runs, 1);
    assert_int_equal(tasks[1].runs, 0);
    assert_int_equal(tasks[2].runs, 1);
}

static void test_expiry(void **state) {
    (void)state;
    static const int64_t deadlines[] = {100, 300, 50, 200};
    held h;
    task tasks[4];
    hold(&h, 4);
    for (int i = 0; i < 4; i++) {
        tasks[i] = make(deadlines[i]);
        assert_true(srv_queue_push(h.queue, &tasks[i].base, &out));
    }
    assert_null(srv_queue_take_late(h.queue, 50));
    int count = 0;
    for (srv_task *j = srv_queue_take_late(h.queue, 200); j; j = j->next, count++)
        assert_true(j == &tasks[0].base || j == &tasks[2].base);
    assert_int_equal(count, 2);
    assert_int_equal(srv_queue_waiting(h.queue), 2);
    release(&h);
    assert_int_equal(tasks[0].runs + tasks[2].runs, 0);
    assert_int_equal(tasks[1].runs + tasks[3].runs, 2);
}

static void test_closed(void **state) {
    (void)state;
    srv_queue *queue = new_queue(2, 8);
    task tasks[6], late = make(INT64_MAX);
    assert_non_null(queue);
    for (int i = 0; i < 6; i++) {
        tasks[i] = make(INT64_MAX);
        assert_true(srv_queue_push(queue, &tasks[i].base, &out));
    }
    srv_queue_close(queue);
    for (int i = 0; i < 6; i++)
        assert_int_equal(tasks[i].runs, 1);
    assert_false(srv_queue_push(queue, &late.base, &out));
    assert_int_equal(srv_queue_waiting(queue) + srv_queue_look(queue).running, 0);
    srv_queue_close(queue);
    srv_queue_free(queue);
    srv_queue_free(NULL);
    assert_int_equal(late.runs, 0);
}

enum { MANY = 20000 };
static task many[MANY];

static void *taker(void *queue) {
    intptr_t taken = 0;
    for (int i = 0; i < MANY; i += 7)
        taken += srv_queue_take(queue, &many[i].base);
    return (void *)taken;
}

static void test_nothing_is_lost_under_load(void **state) {
    (void)state;
    srv_queue *queue = new_queue(4, 64);
    pthread_t thread;
    const struct timespec nap = {.tv_nsec = 1000};
    assert_non_null(queue);
    for (int i = 0; i < MANY; i++)
        many[i] = make(INT64_MAX);
    assert_int_equal(pthread_create(&thread, NULL, taker, queue), 0);
    for (int i = 0; i < MANY; i++)
        while (!srv_queue_push(queue, &many[i].base, &out))
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

/* --- long tasks --- */

typedef struct lengthy {
    srv_task base; /* first */
    srv_queue *queue;
    sem_t *started, *go;
    atomic_int begins, ends;
} lengthy;

/* Finds that it is long, and holds a thread until `go`. */
static void run_long(srv_task *base) {
    lengthy *l = (lengthy *)base;
    atomic_fetch_add(&l->begins, 1);
    if (!srv_queue_go_long()) {
        srv_queue_put_back(l->queue, base);
        return;
    }
    sem_post(l->started);
    sem_wait(l->go);
    atomic_fetch_add(&l->ends, 1);
}

static void test_short_jobs_have_threads_beside_long_ones(void **state) {
    (void)state;
    enum { LONGS = 6 };
    srv_queue *queue = new_queue(3, 64); /* two for long ones */
    sem_t started, go, ran;
    lengthy longs[LONGS];
    sem_init(&started, 0, 0);
    sem_init(&go, 0, 0);
    sem_init(&ran, 0, 0);
    for (int i = 0; i < LONGS; i++) {
        longs[i] = (lengthy){.base = {.work = run_long, .deadline_ns = INT64_MAX},
                             .queue = queue,
                             .started = &started,
                             .go = &go};
        assert_true(srv_queue_push(queue, &longs[i].base, &out));
    }
    sem_wait(&started);
    sem_wait(&started);
    for (int i = 0; i < 20; i++) {
        task brief = make(INT64_MAX);
        brief.started = &ran;
        assert_true(srv_queue_push(queue, &brief.base, &out));
        sem_wait(&ran);
        while (srv_queue_look(queue).running > 2)
            sched_yield(); /* `brief` is gone with this round */
    }
    const srv_queue_state at = srv_queue_look(queue);
    assert_int_equal(at.long_running, 2);
    assert_int_equal(at.long_waiting, LONGS - 2);
    assert_int_equal(at.put_back, LONGS - 2);
    for (int i = 0; i < LONGS; i++)
        sem_post(&go);
    srv_queue_close(queue);
    for (int i = 0; i < LONGS; i++) {
        assert_int_equal(longs[i].ends, 1);
        assert_true(longs[i].begins <= 2);
    }
    srv_queue_free(queue);
}

/* Nobody said that these are long: after a while others run beside them nevertheless. */
static void test_what_turns_out_to_be_long_keeps_nobody_out(void **state) {
    (void)state;
    enum { HELD = 3 };
    srv_queue *queue = srv_queue_new(&(srv_queue_plan){.threads = HELD,
                                                       .long_threads = 1,
                                                       .long_ns = 50000000,
                                                       .length = 64,
                                                       .target_ns = INT64_MAX});
    sem_t started, go, ran;
    task held_up[HELD], brief = make(INT64_MAX);
    sem_init(&started, 0, 0);
    sem_init(&go, 0, 0);
    sem_init(&ran, 0, 0);
    for (int i = 0; i < HELD; i++) {
        held_up[i] = make(INT64_MAX);
        held_up[i].started = &started;
        held_up[i].go = &go;
        assert_true(srv_queue_push(queue, &held_up[i].base, &out));
    }
    for (int i = 0; i < HELD; i++)
        sem_wait(&started);
    brief.started = &ran;
    assert_true(srv_queue_push(queue, &brief.base, &out));
    sem_wait(&ran); /* for ever, if no spare thread takes it */
    for (int i = 0; i < HELD; i++)
        sem_post(&go);
    srv_queue_free(queue);
    assert_int_equal(brief.runs, 1);
}

static void test_a_place_is_given_up(void **state) {
    (void)state;
    held h;
    task tasks[3], other = make(INT64_MAX);
    hold(&h, 3);
    for (int i = 0; i < 3; i++) {
        tasks[i] = make(INT64_MAX);
        assert_true(srv_queue_push(h.queue, &tasks[i].base, &out));
    }
    other.base.client = 1;
    assert_false(srv_queue_has_room(h.queue, 0));
    assert_true(srv_queue_has_room(h.queue, 1));
    assert_true(srv_queue_push(h.queue, &other.base, &out));
    assert_ptr_equal(out, &tasks[2].base);
    release(&h);
    assert_int_equal(tasks[2].runs, 0);
    assert_int_equal(other.runs, 1);
    assert_true(other.order < tasks[1].order);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_refusal),
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_expiry),
        cmocka_unit_test(test_closed),
        cmocka_unit_test(test_nothing_is_lost_under_load),
        cmocka_unit_test(test_short_jobs_have_threads_beside_long_ones),
        cmocka_unit_test(test_what_turns_out_to_be_long_keeps_nobody_out),
        cmocka_unit_test(test_a_place_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
