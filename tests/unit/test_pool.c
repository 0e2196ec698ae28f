/* The worker pool: pieces, slots, turns of work by how pressing it is. */
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <attn/attn.h>

typedef struct job {
    atomic_int *runs;
    atomic_int lane_busy[64];
    size_t fail_from;
} job;

static attn_status piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    job *j = ctx;
    assert_int_equal(atomic_fetch_add(&j->lane_busy[lane], 1), 0);
    atomic_fetch_add(&j->runs[index], 1);
    for (volatile int spin = 0; spin < 2000; spin++)
        ;
    atomic_fetch_sub(&j->lane_busy[lane], 1);
    if (index >= j->fail_from)
        return attn_fail(err, ATTN_EVALUE, "", "piece %zu", index);
    return ATTN_OK;
}

static void test_pool_runs_each_piece_once(void **state) {
    (void)state;
    for (size_t slots = 1; slots <= 5; slots++) {
        attn_pool *pool = attn_pool_new(slots);
        assert_non_null(pool);
        for (size_t pieces = 0; pieces < 200; pieces += 33) {
            atomic_int runs[200] = {0};
            job j = {.runs = runs, .fail_from = SIZE_MAX};
            assert_int_equal(attn_pool_run(pool, pieces, piece, &j, NULL, NULL), ATTN_OK);
            for (size_t i = 0; i < 200; i++)
                assert_int_equal(runs[i], i < pieces);
        }
        attn_pool_free(pool);
    }
}

static pthread_t caller_thread;
static atomic_size_t helper_stack;

static attn_status stack_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    pthread_attr_t attributes;
    size_t size = 0;
    (void)ctx, (void)index, (void)lane, (void)err;
    if (pthread_equal(pthread_self(), caller_thread)) {
        usleep(100);
        return ATTN_OK;
    }
    assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
    assert_int_equal(pthread_attr_getstacksize(&attributes, &size), 0);
    pthread_attr_destroy(&attributes);
    atomic_store(&helper_stack, size);
    return ATTN_OK;
}

/* Helpers have the stack that is promised where the process gives its threads less. */
static void test_pool_gives_helpers_their_stack(void **state) {
    pthread_attr_t usual, small;
    (void)state;
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, 256 << 10), 0);
    assert_int_equal(pthread_setattr_default_np(&small), 0);
    attn_pool *pool = attn_pool_new(2);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    pthread_attr_destroy(&small);
    pthread_attr_destroy(&usual);
    assert_non_null(pool);
    caller_thread = pthread_self();
    for (int i = 0; i < 1000 && !helper_stack; i++) /* until the helper has had a piece */
        assert_int_equal(attn_pool_run(pool, 50, stack_piece, NULL, NULL, NULL), ATTN_OK);
    assert_int_equal(helper_stack, ATTN_POOL_STACK);
    attn_pool_free(pool);
}

static void test_pool_reports_lowest_failure(void **state) {
    attn_pool *pool = attn_pool_new(4);
    (void)state;
    for (int round = 0; round < 50; round++) {
        atomic_int runs[200] = {0};
        job j = {.runs = runs, .fail_from = 20};
        attn_error err;
        assert_int_equal(attn_pool_run(pool, 200, piece, &j, NULL, &err), ATTN_EVALUE);
        assert_string_equal(err.text, "piece 20");
    }
    attn_pool_free(pool);
}

static void test_control(void **state) {
    atomic_int cancel = 1, runs[4] = {0};
    attn_control control = {.cancel = &cancel};
    attn_pool *pool = attn_pool_new(2);
    job j = {.runs = runs, .fail_from = SIZE_MAX};
    attn_error err;
    (void)state;
    assert_int_equal(attn_pool_run(pool, 4, piece, &j, &control, &err), ATTN_ECANCELED);
    control = (attn_control){.deadline_ns = attn_now_ns() - 1};
    assert_int_equal(attn_pool_run(pool, 4, piece, &j, &control, &err), ATTN_EDEADLINE);
    assert_int_equal(attn_pool_run(NULL, 4, piece, &j, &control, &err), ATTN_EDEADLINE);
    assert_int_equal(runs[0] + runs[1] + runs[2] + runs[3], 0);
    attn_pool_free(pool);
}

typedef struct caller {
    attn_pool *pool;
    atomic_int *total;
} caller;

static attn_status count_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    (void)index, (void)lane, (void)err;
    atomic_fetch_add((atomic_int *)ctx, 1);
    return ATTN_OK;
}

static void *call_often(void *arg) {
    caller *c = arg;
    for (int i = 0; i < 100; i++) {
        attn_pool_enter(c->pool);
        if (attn_pool_run(c->pool, 17, count_piece, (void *)c->total, NULL, NULL) != ATTN_OK)
            abort();
        attn_pool_leave(c->pool);
    }
    return NULL;
}

/* More callers than slots, all at once: no deadlock, nothing lost. */
static void test_pool_many_callers(void **state) {
    enum { CALLERS = 12 };
    pthread_t threads[CALLERS];
    atomic_int total = 0;
    caller c = {attn_pool_new(2), &total};
    (void)state;
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &c), 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(total, CALLERS * 100 * 17);
    attn_pool_free(c.pool);
}

/* Threads that ask for slots again and again, and use each for a while. */
typedef struct queuer {
    attn_pool *pool;
    atomic_int *stop;
    int64_t use_ns, used_ns;
    bool patient, crowded;
} queuer;

static void spin(int64_t ns) {
    const int64_t start = attn_now_ns();
    while (attn_now_ns() - start < ns)
        ;
}

static void *queue_again(void *arg) {
    queuer *q = arg;
    attn_pool_be_patient(q->patient ? 1 : 0);
    attn_pool_be_crowded(q->crowded);
    while (!atomic_load(q->stop)) {
        attn_pool_enter(q->pool);
        const int64_t begun = attn_now_ns();
        spin(q->use_ns);
        q->used_ns += attn_now_ns() - begun;
        attn_pool_leave(q->pool);
    }
    return NULL;
}

/* The part of the time of one slot that patient or crowded threads have beside prompt ones: so many
 * of these that one waits at any time, also where the machine lets few of them run. */
static double share_of_work(bool patient, int64_t turn_ns) {
    enum { LESS = 2, ALL = 12, SPAN_US = 300000 };
    attn_pool *pool = attn_pool_new(1);
    atomic_int stop = 0;
    queuer q[ALL];
    pthread_t threads[ALL];
    double less = 0, all = 0;
    for (int i = 0; i < ALL; i++) {
        q[i] = (queuer){pool,
                        &stop,
                        i < LESS ? turn_ns : 1000000,
                        0,
                        i < LESS && patient,
                        i < LESS && !patient};
        assert_int_equal(pthread_create(&threads[i], NULL, queue_again, &q[i]), 0);
    }
    usleep(SPAN_US);
    atomic_store(&stop, 1);
    for (int i = 0; i < ALL; i++) {
        pthread_join(threads[i], NULL);
        less += i < LESS ? (double)q[i].used_ns : 0;
        all += (double)q[i].used_ns;
    }
    attn_pool_free(pool);
    return less / all;
}

/* A quarter; with turns in order of asking, five times as long as the others, it would be half. */
static void test_pool_less_pressing_work_has_a_share(void **state) {
    (void)state;
    for (int patient = 0; patient < 2; patient++) {
        double share = 0;
        /* again where the machine had other work */
        for (int i = 0; i < 20 && (share < 0.15 || share > 0.38); i++)
            share = share_of_work(patient, 5000000);
        assert_true(share > 0.15 && share < 0.38);
    }
}

static atomic_int long_steps;

static attn_status long_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    (void)index, (void)lane, (void)err;
    for (int i = 0; i < 50; i++) {
        spin(1000000);
        atomic_fetch_add(&long_steps, 1);
        attn_pool_yield(ctx);
    }
    return ATTN_OK;
}

static void *run_patiently(void *arg) {
    queuer *q = arg;
    attn_pool_be_patient(1);
    while (!atomic_load(q->stop))
        if (attn_pool_run(q->pool, 4, long_piece, q->pool, NULL, NULL) != ATTN_OK)
            abort();
    return NULL;
}

static attn_status short_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    (void)ctx, (void)index, (void)lane, (void)err;
    spin(500000);
    return ATTN_OK;
}

/* Prompt work waits until a piece of patient work yields, not for its end, and is not interrupted:
 * while twelve milliseconds of it run, patient work makes few steps of a millisecond, where a piece
 * has fifty. */
static void test_pool_prompt_work_waits_for_a_yield(void **state) {
    attn_pool *pool = attn_pool_new(1);
    atomic_int stop = 0;
    queuer q[2] = {{.pool = pool, .stop = &stop}, {.pool = pool, .stop = &stop}};
    pthread_t threads[2];
    int least = INT_MAX;
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_patiently, &q[i]), 0);
    for (int i = 0; i < 20; i++) { /* the machine has other work, too */
        usleep(20000);
        const int before = atomic_load(&long_steps);
        assert_int_equal(attn_pool_run(pool, 24, short_piece, NULL, NULL, NULL), ATTN_OK);
        const int steps = atomic_load(&long_steps) - before;
        least = steps < least ? steps : least;
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(least <= 4);
    attn_pool_free(pool);
}

/* A thread that takes a slot of each pool once. */
typedef struct visitor {
    attn_pool *pools[2];
    atomic_int visits;
} visitor;

static void *visit(void *arg) {
    visitor *v = arg;
    for (int i = 0; i < 2; i++) {
        attn_pool_enter(v->pools[i]);
        atomic_fetch_add(&v->visits, 1);
        attn_pool_leave(v->pools[i]);
    }
    return NULL;
}

/* A thread inside two pools holds a slot of each, and gives back those that it took, in any order.
 */
static void test_pool_slots_are_held_by_pool(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) {
        visitor v = {.pools = {attn_pool_new(1), attn_pool_new(1)}};
        pthread_t thread;
        attn_pool_enter(v.pools[0]);
        attn_pool_enter(v.pools[1]);
        attn_pool_enter(v.pools[1]);
        attn_pool_leave(v.pools[1]);
        assert_int_equal(pthread_create(&thread, NULL, visit, &v), 0);
        usleep(20000);
        assert_int_equal(v.visits, 0);
        attn_pool_leave(v.pools[first]);
        usleep(20000);
        assert_int_equal(v.visits <= (first == 0), 1);
        attn_pool_leave(v.pools[!first]);
        pthread_join(thread, NULL);
        assert_int_equal(v.visits, 2);
        /* each has one slot again */
        v.visits = 0;
        attn_pool_enter(v.pools[first]);
        assert_int_equal(pthread_create(&thread, NULL, visit, &v), 0);
        usleep(20000);
        assert_int_equal(v.visits <= first, 1);
        attn_pool_leave(v.pools[first]);
        pthread_join(thread, NULL);
        attn_pool_free(v.pools[0]);
        attn_pool_free(v.pools[1]);
    }
}

/* A thread inside more pools than it can hold slots of computes its pieces on its own. */
static void test_pool_many_pools_at_once(void **state) {
    enum { POOLS = 12 };
    attn_pool *pools[POOLS];
    atomic_int total = 0;
    (void)state;
    for (int i = 0; i < POOLS; i++) {
        pools[i] = attn_pool_new(2);
        attn_pool_enter(pools[i]);
    }
    for (int i = 0; i < POOLS; i++)
        assert_int_equal(attn_pool_run(pools[i], 17, count_piece, &total, NULL, NULL), ATTN_OK);
    for (int i = 0; i < POOLS; i++)
        attn_pool_leave(pools[i]);
    for (int i = 0; i < POOLS; i++) {
        assert_int_equal(attn_pool_run(pools[i], 17, count_piece, &total, NULL, NULL), ATTN_OK);
        attn_pool_free(pools[i]);
    }
    assert_int_equal(total, 2 * POOLS * 17);
}

static atomic_llong spun_ns;

static attn_status spin_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    (void)ctx, (void)index, (void)lane, (void)err;
    const int64_t start = attn_now_ns();
    while (attn_now_ns() - start < 200000)
        ;
    atomic_fetch_add(&spun_ns, attn_now_ns() - start);
    return ATTN_OK;
}

/* What helpers did for a run is known to its thread afterwards; alone there is none. */
static void test_pool_counts_help(void **state) {
    (void)state;
    for (size_t slots = 1; slots <= 2; slots++) {
        attn_pool *pool = attn_pool_new(slots);
        const int64_t before = attn_pool_helped_ns();
        int64_t helped = 0;
        spun_ns = 0;
        /* again where the helper was too late to help */
        for (int i = 0; i < 50 && (!i || (slots > 1 && !helped)); i++) {
            assert_int_equal(attn_pool_run(pool, 50, spin_piece, NULL, NULL, NULL), ATTN_OK);
            helped = attn_pool_helped_ns() - before;
        }
        assert_true(slots > 1 ? helped >= 200000 : helped == 0);
        assert_true(helped < spun_ns + 50000000);
        attn_pool_free(pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool_runs_each_piece_once),
        cmocka_unit_test(test_pool_gives_helpers_their_stack),
        cmocka_unit_test(test_pool_reports_lowest_failure),
        cmocka_unit_test(test_control),
        cmocka_unit_test(test_pool_many_callers),
        cmocka_unit_test(test_pool_less_pressing_work_has_a_share),
        cmocka_unit_test(test_pool_prompt_work_waits_for_a_yield),
        cmocka_unit_test(test_pool_slots_are_held_by_pool),
        cmocka_unit_test(test_pool_many_pools_at_once),
        cmocka_unit_test(test_pool_counts_help),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
