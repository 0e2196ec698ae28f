/* The waiting list under a simulated clock: order, standing queues, late jobs, and that overload
 * does not turn all work into work that comes too late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "waiting.h"

static const int64_t MS = 1000000;

static void test_order(void **state) {
    (void)state;
    srv_waiting list;
    srv_job jobs[4] = {{0}};
    srv_waiting_init(&list, 3, 1, 100 * MS);
    for (int i = 0; i < 4; i++) {
        jobs[i].deadline_ns = INT64_MAX;
        assert_int_equal(srv_waiting_add(&list, &jobs[i], i), i < 3);
    }
    assert_int_equal(list.count, 3);
    srv_waiting_take(&list, &jobs[1]);
    assert_ptr_equal(srv_waiting_next(&list, 5), &jobs[0]);
    assert_ptr_equal(srv_waiting_next(&list, 5), &jobs[2]);
    assert_null(srv_waiting_next(&list, 5));
    assert_false(jobs[0].waiting || jobs[1].waiting || jobs[2].waiting || jobs[3].waiting);
}

static void test_promises(void **state) {
    (void)state;
    srv_waiting list;
    srv_job jobs[6] = {{0}};
    srv_waiting_init(&list, 2, 1, 100 * MS);
    assert_true(srv_waiting_promise(&list, &jobs[0]));
    assert_true(srv_waiting_promise(&list, &jobs[1]));
    assert_true(srv_waiting_promise(&list, &jobs[1]) == false && list.promises == 2);
    assert_false(srv_waiting_promise(&list, &jobs[2]));
    srv_waiting_forget(&list, &jobs[1]);
    srv_waiting_forget(&list, &jobs[1]);
    assert_int_equal(list.promises, 1);
    /* Others find all the room; who has a promise finds it nevertheless, once. */
    assert_true(srv_waiting_add(&list, &jobs[2], 0));
    assert_true(srv_waiting_add(&list, &jobs[3], 0));
    assert_false(srv_waiting_add(&list, &jobs[1], 0));
    assert_false(srv_waiting_promise(&list, &jobs[4]));
    assert_true(srv_waiting_add(&list, &jobs[0], 0));
    assert_false(jobs[0].promised);
    assert_int_equal(list.promises, 0);
    assert_int_equal(list.count, 3);
}

/* Jobs that came at 0, 10, 20, ... ms. */
static void fill(srv_waiting *list, srv_job *jobs, int count) {
    for (int i = 0; i < count; i++) {
        jobs[i] = (srv_job){.deadline_ns = INT64_MAX};
        assert_true(srv_waiting_add(list, &jobs[i], i * 10 * MS));
    }
}

static void test_a_standing_queue_serves_the_newest(void **state) {
    (void)state;
    srv_waiting list;
    srv_job jobs[12];
    srv_waiting_init(&list, 20, 1, 100 * MS);
    fill(&list, jobs, 12);
    assert_ptr_equal(srv_waiting_next(&list, 100 * MS), &jobs[0]); /* at the target */
    assert_ptr_equal(srv_waiting_next(&list, 120 * MS), &jobs[1]); /* beyond, from now on */
    assert_false(list.standing);
    assert_ptr_equal(srv_waiting_next(&list, 144 * MS), &jobs[2]);
    assert_ptr_equal(srv_waiting_next(&list, 145 * MS), &jobs[11]); /* for a quarter of it */
    assert_true(list.standing);
    assert_ptr_equal(srv_waiting_next(&list, 146 * MS), &jobs[10]);
    for (int i = 3; i < 9; i++)
        srv_waiting_take(&list, &jobs[i]);
    assert_ptr_equal(srv_waiting_next(&list, 147 * MS), &jobs[9]); /* it is short again */
    assert_false(list.standing);
}

static void test_a_burst_is_no_standing_queue(void **state) {
    (void)state;
    srv_waiting list;
    srv_job jobs[12];
    srv_waiting_init(&list, 20, 1, 100 * MS);
    fill(&list, jobs, 12);
    assert_ptr_equal(srv_waiting_next(&list, 101 * MS), &jobs[0]);
    for (int i = 1; i < 6; i++)
        srv_waiting_take(&list, &jobs[i]);
    assert_ptr_equal(srv_waiting_next(&list, 130 * MS),
                     &jobs[6]); /* below again: all is forgotten */
    for (int i = 7; i < 11; i++)
        assert_ptr_equal(srv_waiting_next(&list, (175 + i) * MS), &jobs[i]);
    assert_false(list.standing);
}

static void test_late_ones(void **state) {
    (void)state;
    srv_waiting list;
    srv_job jobs[4];
    srv_waiting_init(&list, 8, 1, 100 * MS);
    fill(&list, jobs, 4);
    jobs[0].deadline_ns = 400 * MS;
    jobs[1].deadline_ns = 120 * MS;
    jobs[2].deadline_ns = 210 * MS;
    srv_waiting_ran(&list, 50 * MS);
    assert_null(srv_waiting_take_late(&list, 120 * MS));
    srv_job *late = srv_waiting_take_late(&list, 130 * MS);
    assert_ptr_equal(late, &jobs[1]);
    assert_null(late->next);
    late = srv_waiting_take_late(&list, 170 * MS); /* standing now: 170 + 50 > 210 */
    assert_true(list.standing);
    assert_ptr_equal(late, &jobs[2]);
    assert_null(late->next);
    assert_int_equal(list.count, 2);
}

static void test_estimate(void **state) {
    (void)state;
    srv_waiting list;
    srv_job jobs[10];
    srv_waiting_init(&list, 20, 2, 1000 * MS);
    assert_int_equal(srv_waiting_estimate(&list), 0);
    srv_waiting_ran(&list, 80 * MS);
    int64_t last = srv_waiting_estimate(&list);
    assert_int_equal(last, 40 * MS);
    for (int i = 0; i < 10; i++) { /* monotone in what waits */
        jobs[i] = (srv_job){0};
        assert_true(srv_waiting_add(&list, &jobs[i], 0));
        assert_true(srv_waiting_estimate(&list) > last);
        last = srv_waiting_estimate(&list);
    }
    assert_int_equal(last, 440 * MS);
    for (int i = 0; i < 100; i++)
        srv_waiting_ran(&list, 160 * MS);
    assert_true(srv_waiting_estimate(&list) > 870 * MS);
}

typedef struct outcome {
    int good, too_late, dropped, refused, expired_begun;
} outcome;

/* `load` times what two threads can do, for a minute of simulated time: a job runs for 100 ms and
 * is good when it ends within its deadline of 2 s. The watcher looks every 50 ms. */
static outcome simulate(double load, int64_t target_ns) {
    enum { THREADS = 2, RUN_MS = 100, MINUTE_MS = 60000, DEADLINE_MS = 2000, LENGTH = 256 };
    static srv_job jobs[(size_t)(8 * THREADS * MINUTE_MS / RUN_MS)];
    srv_job *running[THREADS] = {NULL};
    int64_t until[THREADS] = {0};
    size_t came = 0;
    outcome o = {0};
    srv_waiting list;
    srv_waiting_init(&list, LENGTH, THREADS, target_ns);
    memset(jobs, 0, sizeof jobs);
    for (int64_t ms = 0; ms < MINUTE_MS; ms++) {
        int64_t now = ms * MS;
        for (; (double)came < load * THREADS * (double)ms / RUN_MS; came++) {
            jobs[came].deadline_ns = now + DEADLINE_MS * MS;
            o.refused += !srv_waiting_add(&list, &jobs[came], now);
        }
        if (ms % 50 == 0)
            for (srv_job *j = srv_waiting_take_late(&list, now); j; j = j->next)
                o.dropped++;
        for (int t = 0; t < THREADS; t++) {
            if (running[t] && now < until[t])
                continue;
            if (running[t]) {
                srv_waiting_ran(&list, RUN_MS * MS);
                o.good += until[t] <= running[t]->deadline_ns;
                o.too_late += until[t] > running[t]->deadline_ns;
            }
            while ((running[t] = srv_waiting_next(&list, now)) && now > running[t]->deadline_ns)
                o.expired_begun++;
            until[t] = now + RUN_MS * MS;
        }
    }
    return o;
}

static void test_overload_keeps_goodput(void **state) {
    (void)state;
    const int possible = 2 * 60000 / 100;
    const int64_t never = INT64_MAX, target = 1000 * MS;
    assert_true(simulate(0.9, target).good >= possible * 88 / 100);
    /* In order of arrival every job that is begun has waited for nearly all of its time. */
    outcome in_order = simulate(4, never);
    assert_true(in_order.good < possible / 2);
    for (double load = 1.2; load <= 8; load += 0.4) {
        outcome o = simulate(load, target);
        assert_true(o.good >= possible * 90 / 100);
        assert_int_equal(o.expired_begun, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_promises),
        cmocka_unit_test(test_a_standing_queue_serves_the_newest),
        cmocka_unit_test(test_a_burst_is_no_standing_queue),
        cmocka_unit_test(test_late_ones),
        cmocka_unit_test(test_estimate),
        cmocka_unit_test(test_overload_keeps_goodput),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
