/* The plan of a heatmap: the grid, its bounds in cells and bytes, choices outside the shape. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/heatmap_private.h"
#include "unit/heatmap_source.h"

static void test_grid(void **state) {
    (void)state;
    static const struct {
        size_t B, H, L, S, max_cells, step[2];
    } cases[] = {
        {1, 1, 256, 256, 0, {1, 1}},     {1, 1, 257, 257, 0, {2, 2}},
        {1, 1, 300, 300, 0, {2, 2}},     {1, 1, 8, 4000, 0, {1, 1}},
        {1, 1, 8, 7000, 0, {1, 2}},      {1, 1, 8, 20000, 0, {1, 5}},
        {1, 1, 20000, 8, 0, {5, 1}},     {1, 1, 300, 10000, 0, {2, 23}},
        {1, 1, 2, 2, 4, {1, 1}},         {1, 1, 2, 2, 3, {2, 2}},
        {1, 1, 5, 5, 1, {5, 5}},         {2, 4, 512, 512, 0, {6, 6}},
        {2, 2, 9, 9, 2, {9, 9}},         {1, 1, 1, 1, 0, {1, 1}},
        {1, 1, 512, 512, 65536, {2, 2}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attn_heatmap_options o = attn_heatmap_defaults();
        attn_heatmap_plan p;
        o.max_cells = cases[i].max_cells;
        assert_int_equal(
            attn_analysis_plan(&o, cases[i].B, cases[i].H, cases[i].L, cases[i].S, 1, &p, NULL),
            ATTN_OK);
        assert_int_equal(p.step[0], cases[i].step[0]);
        assert_int_equal(p.step[1], cases[i].step[1]);
    }
}

/* Bytes of the longest JSON that the default can become. Of two cells one may be hidden: a number
 * of 13 bytes, a comma, "0,", and a run "[255,123,124],". Rows and columns of cells have a number
 * each, names and brackets take 240 a heatmap. */
static void test_default_stays_below_a_mebibyte(void **state) {
    (void)state;
    static const size_t shapes[][4] = {
        {1, 1, 256, 256},   {1, 1, 65536, 65536}, {1, 1, 65536, 1}, {1, 1, 1, 65536},
        {1, 8, 512, 512},   {4, 16, 128, 4096},   {16, 32, 64, 64}, {1, 512, 8, 8},
        {1, 2, 4096, 4096}, {1, 1, 16, 100000},   {1, 100, 77, 31},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        attn_heatmap_options o = attn_heatmap_defaults();
        attn_heatmap_plan p;
        const size_t *s = shapes[i];
        assert_int_equal(attn_analysis_plan(&o, s[0], s[1], s[2], s[3], 1, &p, NULL), ATTN_OK);
        size_t a_map = 15 * p.shape[0] * p.shape[1] + 14 * (p.shape[0] + p.shape[1]) + 240;
        assert_true(a_map * p.maps < 1 << 20);
    }
    attn_error err = {0};
    attn_heatmap_options o = attn_heatmap_defaults();
    attn_cost cost;
    assert_int_equal(attn_heatmap_cost(&o, 16, 33, 64, 64, 1, &cost, &err), ATTN_ELIMIT);
    assert_string_equal(err.where, "heads");
    assert_true(err.limit == 512 && cost.cells == 16. * 33 * 64 * 64 && cost.result_bytes > 0);
    size_t maps, shape[2];
    assert_int_equal(attn_heatmap_shape(&o, 16, 33, 64, 64, &maps, shape, &err), ATTN_OK);
    assert_int_equal(maps, 16 * 33);
    o.max_cells = 16 * 33;
    assert_int_equal(attn_heatmap_cost(&o, 16, 33, 64, 64, 1, &cost, &err), ATTN_OK);
    o.max_cells = 0, o.heads = ATTN_HEADS_MEAN;
    assert_int_equal(attn_heatmap_cost(&o, 16, 33, 64, 64, 1, &cost, &err), ATTN_OK);
}

static void test_cost_is_what_is_taken(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        size_t B = pick(seed, 0, 1, 2), H = pick(seed, 1, 1, 4);
        size_t L = pick(seed, 2, 1, 600), S = pick(seed, 3, 1, 300);
        matrix m = matrix_new(B, H, L, S, 0, seed);
        attn_heatmap_options o = attn_heatmap_defaults();
        o.heads = seed % 2 ? ATTN_HEADS_MEAN : ATTN_HEADS_ALL;
        o.pool = (attn_pooling)(seed % 3);
        o.top_k = seed % 5;
        attn_pool *pool = attn_pool_new(1 + seed % 3);
        attn_arena *arena = attn_arena_new(SIZE_MAX);
        attn_heatmaps out;
        attn_cost cost;
        attn_weight_source source = source_of(&m);
        assert_int_equal(attn_heatmap_build(&source, &o, pool, NULL, arena, &out, NULL), ATTN_OK);
        assert_int_equal(attn_heatmap_cost(&o, B, H, L, S, attn_pool_slots(pool), &cost, NULL),
                         ATTN_OK);
        size_t total = cost.work_bytes + cost.result_bytes, used = attn_arena_used(arena);
        assert_true(used <= total);
        if (o.top_k) /* the last block, the edges, is full; else the runs are given back */
            assert_true((double)total <= 1.2 * (double)used);
        attn_arena_free(arena);
        /* the bound suffices, and one byte less is refused cleanly */
        arena = attn_arena_new(total);
        assert_int_equal(attn_heatmap_build(&source, &o, pool, NULL, arena, &out, NULL), ATTN_OK);
        attn_arena_free(arena);
        arena = attn_arena_new(total - 1);
        assert_int_equal(attn_heatmap_build(&source, &o, pool, NULL, arena, &out, NULL),
                         ATTN_ENOMEM);
        attn_arena_free(arena);
        attn_pool_free(pool);
        matrix_free(&m);
    }
}

static void test_scratch_of_long_rows_is_bounded(void **state) {
    (void)state;
    attn_heatmap_options o = attn_heatmap_defaults();
    attn_cost cost;
    for (int mean = 0; mean < 2; mean++) {
        o.heads = mean ? ATTN_HEADS_MEAN : ATTN_HEADS_ALL;
        assert_int_equal(attn_heatmap_cost(&o, 1, 8, 65536, 65536, 4, &cost, NULL), ATTN_OK);
        assert_true(cost.work_bytes <= 4 * (size_t)(4 << 20) + (6 << 20));
    }
    assert_int_equal(attn_heatmap_cost(&o, 1, SIZE_MAX, 9, SIZE_MAX / 2, 4, &cost, NULL),
                     ATTN_ELIMIT);
    o.heads = ATTN_HEADS_ALL, o.max_cells = SIZE_MAX;
    assert_int_equal(attn_heatmap_cost(&o, SIZE_MAX, 1, SIZE_MAX, SIZE_MAX, 4, &cost, NULL),
                     ATTN_ELIMIT);
}

static void test_choices_outside(void **state) {
    (void)state;
    attn_cost cost;
    int64_t list[3] = {0, 1, 4};
    attn_heatmap_options none = attn_heatmap_defaults(), o = none;
    attn_error err;
    o.heads = ATTN_HEADS_LIST, o.head_list = list, o.head_count = 3;
    assert_int_equal(attn_heatmap_cost(&o, 1, 4, 5, 5, 1, &cost, &err), ATTN_EARG);
    assert_string_equal(err.where, "heads/2");
    list[1] = -1;
    assert_int_equal(attn_heatmap_cost(&o, 1, 4, 5, 5, 1, &cost, &err), ATTN_EARG);
    assert_string_equal(err.where, "heads/1");
    o.head_count = 0;
    assert_int_equal(attn_heatmap_cost(&o, 1, 4, 5, 5, 1, &cost, &err), ATTN_EARG);
    assert_string_equal(err.where, "heads");
    o = none, o.batch_list = list + 2, o.batch_count = 1;
    assert_int_equal(attn_heatmap_cost(&o, 4, 4, 5, 5, 1, &cost, &err), ATTN_EARG);
    assert_string_equal(err.where, "batch/0");
    static const size_t spans[][2] = {{0, 6}, {3, 3}, {4, 2}, {5, 6}, {7, 0}};
    for (size_t i = 0; i < 5; i++) {
        o = none, o.row_from = spans[i][0], o.row_to = spans[i][1];
        assert_int_equal(attn_heatmap_cost(&o, 1, 1, 5, 5, 1, &cost, &err), ATTN_EARG);
        assert_string_equal(err.where, "rows");
        o = none, o.col_from = spans[i][0], o.col_to = spans[i][1];
        assert_int_equal(attn_heatmap_cost(&o, 1, 1, 5, 5, 1, &cost, &err), ATTN_EARG);
        assert_string_equal(err.where, "cols");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_default_stays_below_a_mebibyte),
        cmocka_unit_test(test_cost_is_what_is_taken),
        cmocka_unit_test(test_scratch_of_long_rows_is_bounded),
        cmocka_unit_test(test_choices_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
