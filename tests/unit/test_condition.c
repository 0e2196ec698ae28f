/* Timeouts of condition variables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "system/condition.h"

/* A timeout of the wall clock would be over at once: that clock is decades ahead of this one. */
static void test_timeouts_are_on_the_clock_that_nobody_sets(void **state) {
    (void)state;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition;
    assert_true(srv_condition_init(&condition));
    pthread_mutex_lock(&lock);
    const int64_t until = attn_now_ns() + 20000000;
    while (srv_condition_wait(&condition, &lock, until))
        ;
    assert_true(attn_now_ns() >= until);
    assert_false(srv_condition_wait(&condition, &lock, until)); /* a time that is over */
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&condition);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timeouts_are_on_the_clock_that_nobody_sets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
