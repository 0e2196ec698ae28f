/* The waiting list under a simulated clock: order, standing queues, late tasks, and that overload
 * does not turn all work into work that comes too late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "load/waiting.h"

static const int64_t MS = 1000000;

static srv_task *out; /* who gave up a place */

/* A task has run for so long. */
static void ran(srv_waiting *list, int64_t ns) {
    srv_account account = {.running = 1};
    srv_waiting_done(list, &account, ns, 0, 0, 0);
}

static void test_order(void **state) {
    (void)state;
    srv_waiting list;
    srv_task tasks[4] = {{0}};
    srv_waiting_init(&list, 3, 1, 100 * MS);
    for (int i = 0; i < 4; i++) {
        tasks[i].deadline_ns = INT64_MAX;
        assert_int_equal(srv_waiting_add(&list, &tasks[i], i, &out), i < 3);
    }
    assert_int_equal(list.count, 3);
    srv_waiting_take(&list, &tasks[1]);
    assert_ptr_equal(srv_waiting_next(&list, 5, true), &tasks[0]);
    assert_ptr_equal(srv_waiting_next(&list, 5, true), &tasks[2]);
    assert_null(srv_waiting_next(&list, 5, true));
    assert_false(tasks[0].waiting || tasks[1].waiting || tasks[2].waiting || tasks[3].waiting);
}

static void test_promises(void **state) {
    (void)state;
    srv_waiting list;
    srv_task tasks[6] = {{0}};
    srv_waiting_init(&list, 2, 1, 100 * MS);
    assert_true(srv_waiting_promise(&list, &tasks[0]));
    assert_true(srv_waiting_promise(&list, &tasks[1]));
    assert_true(srv_waiting_promise(&list, &tasks[1]) == false && list.promises == 2);
    assert_false(srv_waiting_promise(&list, &tasks[2]));
    srv_waiting_forget(&list, &tasks[1]);
    srv_waiting_forget(&list, &tasks[1]);
    assert_int_equal(list.promises, 1);
    /* Others find all the room; who has a promise finds it nevertheless, once. */
    assert_true(srv_waiting_add(&list, &tasks[2], 0, &out));
    assert_true(srv_waiting_add(&list, &tasks[3], 0, &out));
    assert_false(srv_waiting_add(&list, &tasks[1], 0, &out));
    assert_false(srv_waiting_promise(&list, &tasks[4]));
    assert_true(srv_waiting_add(&list, &tasks[0], 0, &out));
    assert_false(tasks[0].promised);
    assert_int_equal(list.promises, 0);
    assert_int_equal(list.count, 3);
}

/* Tasks that came at 0, 10, 20, ... ms. */
static void fill(srv_waiting *list, srv_task *tasks, int count) {
    for (int i = 0; i < count; i++) {
        tasks[i] = (srv_task){.deadline_ns = INT64_MAX};
        assert_true(srv_waiting_add(list, &tasks[i], i * 10 * MS, &out));
    }
}

static void test_a_standing_queue_serves_the_newest(void **state) {
    (void)state;
    srv_waiting list;
    srv_task tasks[12];
    srv_waiting_init(&list, 20, 1, 100 * MS);
    fill(&list, tasks, 12);
    assert_ptr_equal(srv_waiting_next(&list, 100 * MS, true), &tasks[0]); /* at the target */
    assert_ptr_equal(srv_waiting_next(&list, 120 * MS, true), &tasks[1]); /* beyond, from now on */
    assert_false(list.standing);
    assert_ptr_equal(srv_waiting_next(&list, 144 * MS, true), &tasks[2]);
    assert_ptr_equal(srv_waiting_next(&list, 145 * MS, true), &tasks[11]); /* for a quarter of it */
    assert_true(list.standing);
    assert_ptr_equal(srv_waiting_next(&list, 146 * MS, true), &tasks[10]);
    for (int i = 3; i < 9; i++)
        srv_waiting_take(&list, &tasks[i]);
    assert_ptr_equal(srv_waiting_next(&list, 147 * MS, true), &tasks[9]); /* it is short again */
    assert_false(list.standing);
}

static void test_a_burst_is_no_standing_queue(void **state) {
    (void)state;
    srv_waiting list;
    srv_task tasks[12];
    srv_waiting_init(&list, 20, 1, 100 * MS);
    fill(&list, tasks, 12);
    assert_ptr_equal(srv_waiting_next(&list, 101 * MS, true), &tasks[0]);
    for (int i = 1; i < 6; i++)
        srv_waiting_take(&list, &tasks[i]);
    assert_ptr_equal(srv_waiting_next(&list, 130 * MS, true),
                     &tasks[6]); /* below again: all is forgotten */
    for (int i = 7; i < 11; i++)
        assert_ptr_equal(srv_waiting_next(&list, (175 + i) * MS, true), &tasks[i]);
    assert_false(list.standing);
}

static void test_late_ones(void **state) {
    (void)state;
    srv_waiting list;
    srv_task tasks[4];
    srv_waiting_init(&list, 8, 1, 100 * MS);
    fill(&list, tasks, 4);
    tasks[0].deadline_ns = 400 * MS;
    tasks[1].deadline_ns = 120 * MS;
    tasks[2].deadline_ns = 210 * MS;
    ran(&list, 50 * MS);
    assert_null(srv_waiting_take_late(&list, 120 * MS));
    srv_task *late = srv_waiting_take_late(&list, 130 * MS);
    assert_ptr_equal(late, &tasks[1]);
    assert_null(late->next);
    late = srv_waiting_take_late(&list, 170 * MS); /* standing now: 170 + 50 > 210 */
    assert_true(list.standing);
    assert_ptr_equal(late, &tasks[2]);
    assert_null(late->next);
    assert_int_equal(list.count, 2);
}

static void test_estimate(void **state) {
    (void)state;
    srv_waiting list;
    srv_task tasks[10];
    srv_waiting_init(&list, 20, 2, 1000 * MS);
    assert_int_equal(srv_waiting_estimate(&list), 0);
    ran(&list, 80 * MS);
    int64_t last = srv_waiting_estimate(&list);
    assert_int_equal(last, 40 * MS);
    for (int i = 0; i < 10; i++) { /* monotone in what waits */
        tasks[i] = (srv_task){0};
        assert_true(srv_waiting_add(&list, &tasks[i], 0, &out));
        assert_true(srv_waiting_estimate(&list) > last);
        last = srv_waiting_estimate(&list);
    }
    assert_int_equal(last, 440 * MS);
    for (int i = 0; i < 100; i++)
        ran(&list, 160 * MS);
    assert_true(srv_waiting_estimate(&list) > 870 * MS);
}

typedef struct outcome {
    int good, too_late, dropped, refused, expired_begun;
} outcome;

/* `load` times what two threads can do, for a minute of simulated time: a task runs for 100 ms and
 * is good when it ends within its deadline of 2 s. The watcher looks every 50 ms. */
static outcome simulate(double load, int64_t target_ns) {
    enum { THREADS = 2, RUN_MS = 100, MINUTE_MS = 60000, DEADLINE_MS = 2000, LENGTH = 256 };
    static srv_task tasks[(size_t)(8 * THREADS * MINUTE_MS / RUN_MS)];
    srv_task *running[THREADS] = {NULL};
    int64_t until[THREADS] = {0};
    size_t came = 0;
    outcome o = {0};
    srv_waiting list;
    srv_waiting_init(&list, LENGTH, THREADS, target_ns);
    memset(tasks, 0, sizeof tasks);
    for (int64_t ms = 0; ms < MINUTE_MS; ms++) {
        int64_t now = ms * MS;
        for (; (double)came < load * THREADS * (double)ms / RUN_MS; came++) {
            tasks[came].deadline_ns = now + DEADLINE_MS * MS;
            o.refused += !srv_waiting_add(&list, &tasks[came], now, &out);
        }
        if (ms % 50 == 0)
            for (srv_task *j = srv_waiting_take_late(&list, now); j; j = j->next)
                o.dropped++;
        for (int t = 0; t < THREADS; t++) {
            if (running[t] && now < until[t])
                continue;
            if (running[t]) {
                srv_waiting_done(&list, running[t]->account, RUN_MS * MS, RUN_MS * MS, 0, now);
                o.good += until[t] <= running[t]->deadline_ns;
                o.too_late += until[t] > running[t]->deadline_ns;
            }
            while ((running[t] = srv_waiting_next(&list, now, true)) &&
                   now > running[t]->deadline_ns)
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
    /* In order of arrival every task that is begun has waited for nearly all of its time. */
    outcome in_order = simulate(4, never);
    assert_true(in_order.good < possible / 2);
    for (double load = 1.2; load <= 8; load += 0.4) {
        outcome o = simulate(load, target);
        assert_true(o.good >= possible * 90 / 100);
        assert_int_equal(o.expired_begun, 0);
    }
}

/* --- clients --- */

/* Tasks of a client that came at `from`, from + 1, ... */
static void come(srv_waiting *list, srv_task *tasks, int count, uint64_t client, int64_t from) {
    for (int i = 0; i < count; i++) {
        tasks[i] = (srv_task){.deadline_ns = INT64_MAX, .client = client};
        assert_true(srv_waiting_add(list, &tasks[i], from + i, &out));
        assert_null(out);
    }
}

/* The client of the next task, which then uses `busy_ns`. */
static uint64_t serve(srv_waiting *list, int64_t now_ns, int64_t busy_ns) {
    srv_task *task = srv_waiting_next(list, now_ns, true);
    if (!task)
        return 0;
    srv_waiting_done(list, task->account, MS, busy_ns, 0, now_ns);
    return task->client;
}

static void test_clients_are_served_in_turn(void **state) {
    (void)state;
    srv_waiting list;
    srv_task many[20], few[3], one;
    srv_waiting_init(&list, 64, 1, INT64_MAX);
    come(&list, many, 20, 1, 0);
    come(&list, few, 3, 2, 100);
    come(&list, &one, 1, 3, 200);
    uint64_t order[24];
    for (int i = 0; i < 24; i++)
        order[i] = serve(&list, 300, MS);
    const uint64_t first[] = {1, 2, 3, 1, 2, 1, 2, 1};
    assert_memory_equal(order, first, sizeof first);
    for (int i = 8; i < 24; i++)
        assert_int_equal(order[i], 1);
    assert_int_equal(serve(&list, 300, MS), 0);
}

/* One's tasks take ten times the processor time of the other's: both get half of the time. */
static void test_clients_are_charged_by_processor_time(void **state) {
    (void)state;
    enum { TASKS = 200 };
    srv_waiting list;
    static srv_task heavy[TASKS], light[TASKS];
    srv_waiting_init(&list, 2 * TASKS, 1, INT64_MAX);
    come(&list, heavy, TASKS, 1, 0);
    come(&list, light, TASKS, 2, 0);
    int64_t used[3] = {0};
    int served[3] = {0};
    for (int i = 0; i < TASKS; i++) {
        srv_task *task = srv_waiting_next(&list, 300, true);
        const int64_t busy = task->client == 1 ? 50 * MS : 5 * MS;
        used[task->client] += busy;
        served[task->client]++;
        srv_waiting_done(&list, task->account, busy, busy, 0, 300);
    }
    assert_true(served[2] > 8 * served[1] && served[2] < 12 * served[1]);
    assert_true(llabs(used[1] - used[2]) <= 60 * MS);
}

static void test_what_was_paid_is_not_charged_twice(void **state) {
    (void)state;
    srv_waiting list;
    srv_task task = {.deadline_ns = INT64_MAX, .client = 1, .paid_ns = 3 * MS};
    srv_waiting_init(&list, 8, 1, INT64_MAX);
    assert_true(srv_waiting_add(&list, &task, 0, &out));
    srv_account *account = task.account;
    assert_int_equal(account->credit_ns, -3 * MS);
    assert_ptr_equal(srv_waiting_next(&list, 0, true), &task);
    const int64_t before = account->credit_ns;
    srv_waiting_done(&list, account, MS, 10 * MS, task.paid_ns, 0);
    assert_int_equal(account->credit_ns, before - 7 * MS);
}

static void test_a_debt_is_forgotten_in_time(void **state) {
    (void)state;
    srv_waiting list;
    srv_task task = {.deadline_ns = INT64_MAX, .client = 7};
    srv_waiting_init(&list, 8, 1, INT64_MAX);
    srv_waiting_charge(&list, 7, 100 * MS, 0);
    assert_true(srv_waiting_add(&list, &task, 40 * MS, &out));
    assert_int_equal(task.account->credit_ns, -60 * MS);
    srv_waiting_take(&list, &task);
    srv_waiting_charge(&list, 7, 0, 1000 * MS);
    assert_int_equal(task.account->credit_ns, 0);
    srv_waiting_charge(&list, 7, (int64_t)1 << 60, 1000 * MS);
    assert_true(task.account->credit_ns == -(int64_t)SRV_DEBT_NS);
}

static void test_more_clients_than_accounts(void **state) {
    (void)state;
    enum { CLIENTS = 3 * SRV_ACCOUNTS };
    srv_waiting list;
    static srv_task tasks[CLIENTS];
    srv_waiting_init(&list, CLIENTS, 1, INT64_MAX);
    for (uint64_t i = 0; i < CLIENTS; i++)
        come(&list, &tasks[i], 1, i + 1, (int64_t)i);
    for (int i = 0; i < CLIENTS; i++)
        assert_true(serve(&list, CLIENTS, MS) > 0);
    assert_int_equal(list.count, 0);
}

static void test_a_full_list_takes_from_who_has_most(void **state) {
    (void)state;
    srv_waiting list;
    srv_task many[4], late[4];
    srv_waiting_init(&list, 4, 1, INT64_MAX);
    come(&list, many, 4, 1, 0);
    assert_false(srv_waiting_has_room(&list, 1));
    assert_true(srv_waiting_has_room(&list, 2));
    for (int i = 0; i < 4; i++) {
        late[i] = (srv_task){.deadline_ns = INT64_MAX, .client = 2};
        const bool room = srv_waiting_add(&list, &late[i], 10 + i, &out);
        assert_int_equal(room, i < 2);
        assert_ptr_equal(out, room ? &many[3 - i] : NULL);
        assert_int_equal(list.count, 4);
    }
    assert_false(srv_waiting_has_room(&list, 1));
    assert_false(many[3].waiting);
}

static void test_a_client_runs_as_many_as_it_may(void **state) {
    (void)state;
    srv_waiting list;
    srv_task tasks[4], other;
    srv_waiting_init(&list, 8, 4, INT64_MAX);
    come(&list, tasks, 4, 1, 0);
    for (int i = 0; i < 4; i++)
        tasks[i].most = 2;
    assert_ptr_equal(srv_waiting_next(&list, 9, true), &tasks[0]);
    assert_ptr_equal(srv_waiting_next(&list, 9, true), &tasks[1]);
    assert_null(srv_waiting_next(&list, 9, true));
    come(&list, &other, 1, 2, 10);
    assert_ptr_equal(srv_waiting_next(&list, 11, true), &other);
    srv_waiting_done(&list, tasks[0].account, MS, MS, 0, 12);
    assert_ptr_equal(srv_waiting_next(&list, 12, true), &tasks[2]);
}

static void test_long_ones_wait_for_room(void **state) {
    (void)state;
    srv_waiting list;
    srv_task tasks[3], late;
    srv_waiting_init(&list, 8, 2, INT64_MAX);
    come(&list, tasks, 3, 1, 0);
    srv_task *first = srv_waiting_next(&list, 5, false);
    assert_ptr_equal(first, &tasks[0]);
    srv_waiting_put_back(&list, first);
    srv_waiting_done(&list, first->account, MS, MS, 0, 6);
    assert_true(first->is_long && list.first == first); /* as if it had never left */
    assert_ptr_equal(srv_waiting_next(&list, 7, false), &tasks[1]);
    assert_ptr_equal(srv_waiting_next(&list, 8, true), first);
    come(&list, &late, 1, 1, 20);
    srv_waiting_put_back(&list, first);
    assert_ptr_equal(srv_waiting_next(&list, 21, false), &tasks[2]);
    assert_ptr_equal(srv_waiting_next(&list, 21, false), &late);
    assert_null(srv_waiting_next(&list, 21, false));
    srv_waiting_take(&list, first);
    assert_int_equal(list.count, 0);
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
        cmocka_unit_test(test_clients_are_served_in_turn),
        cmocka_unit_test(test_clients_are_charged_by_processor_time),
        cmocka_unit_test(test_what_was_paid_is_not_charged_twice),
        cmocka_unit_test(test_a_debt_is_forgotten_in_time),
        cmocka_unit_test(test_more_clients_than_accounts),
        cmocka_unit_test(test_a_full_list_takes_from_who_has_most),
        cmocka_unit_test(test_a_client_runs_as_many_as_it_may),
        cmocka_unit_test(test_long_ones_wait_for_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
