/* Sweeps (base/sweep.h): what is counted is what is taken, waves are merged in order, and a wave
 * that fails is not merged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/sweep.h"

enum { PIECES = 23, WAVE = 4, SLOTS = 3 };

typedef struct lane {
    double *numbers; /* [100] */
    uint8_t *bytes;  /* [7] */
} lane;

typedef struct squares {
    lane *lanes;
    int *parts; /* [WAVE] */
    size_t merged;
    int sum;
    size_t fails; /* the piece that fails */
} squares;

static void place_lane(const void *work, attn_area *area, void *to) {
    lane *l = to;
    (void)work;
    l->numbers = attn_area_take(area, 100, sizeof *l->numbers);
    l->bytes = attn_area_take(area, 7, 1);
}

static void place_parts(void *work, attn_area *area) {
    squares *s = work;
    s->parts = attn_area_take(area, WAVE, sizeof *s->parts);
}

static attn_status square(void *work, size_t index, size_t lane_index, attn_error *err) {
    squares *s = work;
    const lane *l = &s->lanes[lane_index];
    for (size_t i = 0; i < 100; i++)
        l->numbers[i] = (double)index;
    memset(l->bytes, (int)index, 7);
    if (index == s->fails)
        return attn_fail(err, ATTN_EVALUE, "", "piece %zu", index);
    s->parts[index % WAVE] = (int)(l->numbers[99] * l->bytes[6]);
    return ATTN_OK;
}

static void merge(void *work, size_t first, size_t count) {
    squares *s = work;
    assert_int_equal(first, s->merged);
    assert_true(count <= WAVE);
    for (size_t i = 0; i < count; i++)
        s->sum = s->sum * 31 % 1000003 + s->parts[i];
    s->merged = first + count;
}

static const attn_sweep squaring = {sizeof(lane), place_lane, place_parts, square, merge};

static int expected_sum(void) {
    int sum = 0;
    for (int i = 0; i < PIECES; i++)
        sum = sum * 31 % 1000003 + i * i;
    return sum;
}

static void test_waves_are_merged_in_order(void **state) {
    attn_pool *pool = attn_pool_new(SLOTS);
    (void)state;
    assert_non_null(pool);
    for (int repeat = 0; repeat < 50; repeat++) {
        attn_arena *arena = attn_arena_new(1 << 20);
        squares s = {.fails = SIZE_MAX};
        assert_non_null(arena);
        assert_non_null(s.lanes = attn_sweep_open(&squaring, &s, SLOTS, arena));
        assert_int_equal(attn_sweep_run(&squaring, &s, PIECES, WAVE, pool, NULL, NULL), ATTN_OK);
        assert_int_equal(s.merged, PIECES);
        assert_int_equal(s.sum, expected_sum());
        attn_arena_free(arena);
    }
    attn_pool_free(pool);
}

static void test_a_wave_that_fails_is_not_merged(void **state) {
    attn_arena *arena = attn_arena_new(1 << 20);
    squares s = {.fails = 9};
    attn_error err;
    (void)state;
    assert_non_null(arena);
    assert_non_null(s.lanes = attn_sweep_open(&squaring, &s, 1, arena));
    assert_int_equal(attn_sweep_run(&squaring, &s, PIECES, WAVE, NULL, NULL, &err), ATTN_EVALUE);
    assert_string_equal(err.text, "piece 9");
    assert_int_equal(s.merged, 8);
    attn_arena_free(arena);
}

static void test_what_is_counted_is_taken(void **state) {
    (void)state;
    for (size_t slots = 1; slots <= SLOTS; slots++) {
        squares s = {.fails = SIZE_MAX};
        const attn_area counted = attn_sweep_count(&squaring, &s, slots);
        const size_t content =
            slots * (sizeof(lane) + 100 * sizeof(double) + 7) + WAVE * sizeof(int);
        attn_arena *enough = attn_arena_new(counted.used), *less = attn_arena_new(counted.used - 1);
        assert_non_null(enough);
        assert_non_null(less);
        assert_false(counted.overflow);
        assert_int_equal(counted.content, content);
        assert_null(attn_sweep_open(&squaring, &s, slots, less));
        assert_non_null(attn_sweep_open(&squaring, &s, slots, enough));
        assert_int_equal(attn_arena_used(enough), counted.used);
        attn_arena_free(enough);
        attn_arena_free(less);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waves_are_merged_in_order),
        cmocka_unit_test(test_a_wave_that_fails_is_not_merged),
        cmocka_unit_test(test_what_is_counted_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
