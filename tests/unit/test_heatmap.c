/* Heatmaps of random matrices against a plain recomputation of every cell; hidden against zero,
 * NaN, zero-sized axes, failures, quantising. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "unit/heatmap_source.h"

/* --- the plain recomputation --- */

static double row_entropy(const matrix *m, size_t b, size_t h, size_t i) {
    const float *l = row_of(m, m->logits, b, h, i);
    double top = -INFINITY, sum = 0, entropy = 0;
    for (size_t j = 0; j < m->S; j++)
        top = fmax(top, l[j]);
    if (top == -INFINITY)
        return NAN;
    for (size_t j = 0; j < m->S; j++)
        sum += exp(l[j] - top);
    for (size_t j = 0; j < m->S; j++) {
        double p = exp(l[j] - top) / sum;
        entropy -= p > 0 ? p * log(p) : 0;
    }
    return entropy;
}

static double entropy_of(const matrix *m, size_t b, size_t head, size_t i) {
    if (head != SIZE_MAX)
        return row_entropy(m, b, head, i);
    double sum = 0;
    size_t alive = 0;
    for (size_t h = 0; h < m->H; h++) {
        double e = row_entropy(m, b, h, i);
        if (!isnan(e))
            sum += e, alive++;
    }
    return alive ? sum / (double)alive : NAN;
}

static bool near(double a, double b, double tolerance) {
    return (isnan(a) && isnan(b)) || fabs(a - b) <= tolerance;
}

static bool run_holds(const attn_heatmap *map, size_t r, size_t c) {
    for (size_t i = 0; i < map->hidden_count; i++)
        if (map->hidden[i].row == r && map->hidden[i].from <= c && c < map->hidden[i].to)
            return true;
    return false;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static void check_map(const matrix *m, const attn_heatmap *map, size_t rows, size_t cols) {
    double low = INFINITY, high = -INFINITY;
    size_t R = map->shape[0], C = map->shape[1];
    assert_int_equal(R, (rows + map->step[0] - 1) / map->step[0]);
    assert_int_equal(C, (cols + map->step[1] - 1) / map->step[1]);
    for (size_t r = 0; r < R; r++) {
        size_t i0 = map->origin[0] + r * map->step[0];
        size_t i1 = least(i0 + map->step[0], map->origin[0] + rows), alive = 0;
        double entropy = 0;
        for (size_t i = i0; i < i1; i++) {
            double e = entropy_of(m, map->batch, map->head, i);
            if (!isnan(e))
                entropy += e, alive++;
        }
        assert_true(near(map->row_entropy[r], alive ? entropy / (double)alive : NAN, 2e-6));
        for (size_t c = 0; c < C; c++) {
            size_t j0 = map->origin[1] + c * map->step[1];
            size_t j1 = least(j0 + map->step[1], map->origin[1] + cols), count = 0;
            double max = -INFINITY, sum = 0, v;
            for (size_t i = i0; i < i1; i++)
                for (size_t j = j0; j < j1; j++)
                    if (weight_of(m, map->batch, map->head, i, j, &v))
                        max = fmax(max, v), sum += v, count++;
            assert_int_equal(run_holds(map, r, c), count == 0);
            if (map->max)
                assert_true(map->max[r * C + c] == (count ? (float)max : 0.0f));
            if (map->mean)
                assert_true(near(map->mean[r * C + c], count ? sum / (double)count : 0, 1e-7));
            double shown = map->max ? map->max[r * C + c] : map->mean[r * C + c];
            if (count)
                low = fmin(low, shown), high = fmax(high, shown);
        }
    }
    assert_true(near(map->range[0], low <= high ? low : 0, 0));
    assert_true(near(map->range[1], low <= high ? high : 0, 0));
    for (size_t c = 0; c < C; c++) {
        double sum = 0, v;
        for (size_t i = map->origin[0]; i < map->origin[0] + rows; i++)
            for (size_t j = map->origin[1] + c * map->step[1];
                 j < least(map->origin[1] + (c + 1) * map->step[1], map->origin[1] + cols); j++)
                sum += weight_of(m, map->batch, map->head, i, j, &v) ? v : 0;
        assert_true(near(map->received[c], sum, 1e-5));
    }
    for (size_t i = 0; i < map->hidden_count; i++) {
        const attn_hidden_run *a = &map->hidden[i], *next = a + 1;
        assert_true(a->from < a->to && a->to <= C && a->row < R);
        if (i + 1 < map->hidden_count) /* ordered, merged */
            assert_true(next->row > a->row || next->from > a->to);
    }
}

static void test_random_matrices(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        size_t B = pick(seed, 0, 1, 2), H = pick(seed, 1, 1, 3);
        size_t L = pick(seed, 2, 1, 23), S = pick(seed, 3, 1, 29);
        matrix m = matrix_new(B, H, L, S, seed % 4 * 0.3, 1000 * seed);
        attn_heatmap_options o = attn_heatmap_defaults();
        int64_t heads[2] = {(int64_t)H - 1, 0}, batch = (int64_t)B - 1;
        size_t maps = B * H;
        o.pool = (attn_pooling)pick(seed, 4, 0, 2);
        o.max_cells = pick(seed, 5, 0, 1) ? pick(seed, 6, 1, 600) : 0;
        if (seed % 3 == 1) {
            o.heads = ATTN_HEADS_MEAN;
            maps = B;
        } else if (seed % 3 == 2) {
            o.heads = ATTN_HEADS_LIST, o.head_list = heads, o.head_count = 2;
            o.batch_list = &batch, o.batch_count = 1;
            maps = 2;
        }
        size_t rows = L, cols = S;
        if (pick(seed, 7, 0, 1)) {
            o.row_from = pick(seed, 8, 0, L - 1), o.row_to = pick(seed, 9, o.row_from + 1, L);
            o.col_from = pick(seed, 10, 0, S - 1), o.col_to = pick(seed, 11, o.col_from + 1, S);
            rows = o.row_to - o.row_from, cols = o.col_to - o.col_from;
        }
        attn_arena *arena = attn_arena_new(SIZE_MAX);
        attn_heatmaps out;
        attn_error err = {0};
        attn_weight_source source = source_of(&m);
        assert_int_equal(attn_heatmap_build(&source, &o, NULL, NULL, arena, &out, &err), ATTN_OK);
        assert_int_equal(out.count, maps);
        size_t cells = 0;
        for (size_t i = 0; i < out.count; i++) {
            const attn_heatmap *map = &out.items[i];
            assert_true((map->max != NULL) == (o.pool != ATTN_POOL_MEAN));
            assert_true((map->mean != NULL) == (o.pool != ATTN_POOL_MAX));
            assert_int_equal(map->origin[0], o.row_from);
            assert_int_equal(map->origin[1], o.col_from);
            if (seed % 3 == 2)
                assert_true(map->batch == B - 1 && map->head == (size_t)heads[i]);
            else if (seed % 3 == 1)
                assert_true(map->batch == i && map->head == SIZE_MAX);
            else
                assert_true(map->batch == i / H && map->head == i % H);
            check_map(&m, map, rows, cols);
            cells += map->shape[0] * map->shape[1];
        }
        assert_true(cells <= (o.max_cells > maps ? o.max_cells : o.max_cells ? maps : 65536));
        attn_arena_free(arena);
        matrix_free(&m);
    }
}

/* --- the rest --- */

static void test_pool_does_not_matter(void **state) {
    (void)state;
    matrix m = matrix_new(2, 3, 700, 611, 0.2, 5);
    attn_weight_source source = source_of(&m);
    for (int mean = 0; mean < 2; mean++) {
        attn_heatmaps first = {0};
        attn_arena *arenas[3];
        for (size_t slots = 0; slots < 3; slots++) {
            attn_pool *pool = slots ? attn_pool_new(slots + 1) : NULL;
            attn_heatmap_options o = attn_heatmap_defaults();
            attn_heatmaps out;
            o.heads = mean ? ATTN_HEADS_MEAN : ATTN_HEADS_ALL;
            o.pool = ATTN_POOL_BOTH, o.top_k = 3, o.max_cells = 20000;
            arenas[slots] = attn_arena_new(SIZE_MAX);
            assert_int_equal(attn_heatmap_build(&source, &o, pool, NULL, arenas[slots], &out, NULL),
                             ATTN_OK);
            if (!slots)
                first = out;
            for (size_t i = 0; i < out.count; i++) {
                const attn_heatmap *a = &first.items[i], *b = &out.items[i];
                size_t R = a->shape[0], C = a->shape[1];
                assert_memory_equal(a->max, b->max, R * C * sizeof(float));
                assert_memory_equal(a->mean, b->mean, R * C * sizeof(float));
                assert_memory_equal(a->row_entropy, b->row_entropy, R * sizeof(float));
                assert_memory_equal(a->received, b->received, C * sizeof(float));
                assert_int_equal(a->edge_count, b->edge_count);
                for (size_t k = 0; k < a->edge_count; k++)
                    assert_true(a->edges[k].row == b->edges[k].row &&
                                a->edges[k].col == b->edges[k].col &&
                                a->edges[k].weight == b->edges[k].weight);
                assert_int_equal(a->hidden_count, b->hidden_count);
            }
            attn_pool_free(pool);
        }
        for (size_t i = 0; i < 3; i++)
            attn_arena_free(arenas[i]);
    }
    matrix_free(&m);
}

static void test_zero_axes(void **state) {
    (void)state;
    static const size_t shapes[][4] = {
        {0, 2, 3, 4}, {2, 0, 3, 4}, {1, 2, 0, 4}, {1, 2, 3, 0}, {1, 1, 0, 0},
    };
    for (size_t i = 0; i < 5; i++)
        for (int heads = 0; heads < 2; heads++) {
            matrix m = matrix_new(shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3], 0, 1);
            attn_heatmap_options o = attn_heatmap_defaults();
            o.heads = heads ? ATTN_HEADS_MEAN : ATTN_HEADS_ALL;
            o.pool = ATTN_POOL_BOTH, o.top_k = 2;
            attn_arena *arena = attn_arena_new(SIZE_MAX);
            attn_heatmaps out;
            attn_weight_source source = source_of(&m);
            assert_int_equal(attn_heatmap_build(&source, &o, NULL, NULL, arena, &out, NULL),
                             ATTN_OK);
            size_t H = heads ? (m.H > 0) : m.H;
            assert_int_equal(out.count, m.B * H);
            for (size_t k = 0; k < out.count; k++) {
                assert_int_equal(out.items[k].shape[0], m.L);
                assert_int_equal(out.items[k].shape[1], m.S);
                assert_true(out.items[k].range[0] == 0 && out.items[k].range[1] == 0);
                assert_int_equal(out.items[k].hidden_count, 0);
                assert_int_equal(out.items[k].edge_count, 0);
                for (size_t r = 0; r < m.L; r++)
                    assert_true(isnan(out.items[k].row_entropy[r]));
                for (size_t c = 0; c < m.S; c++)
                    assert_true(out.items[k].received[c] == 0);
            }
            attn_arena_free(arena);
            matrix_free(&m);
        }
}

static void test_nan_is_skipped(void **state) {
    (void)state;
    matrix m = matrix_new(1, 1, 4, 4, 0, 3);
    for (size_t j = 0; j < 4; j++)
        m.weights[4 + j] = m.logits[4 + j] = NAN;
    m.weights[2] = NAN;
    attn_heatmap_options o = attn_heatmap_defaults();
    attn_arena *arena = attn_arena_new(SIZE_MAX);
    attn_heatmaps out;
    attn_weight_source source = source_of(&m);
    o.top_k = 4, o.pool = ATTN_POOL_BOTH;
    assert_int_equal(attn_heatmap_build(&source, &o, NULL, NULL, arena, &out, NULL), ATTN_OK);
    const attn_heatmap *map = &out.items[0];
    assert_true(isnan(map->max[2]) && isnan(map->max[4]) && isnan(map->mean[7]));
    assert_true(map->range[0] > 0 && map->range[1] <= 1);
    assert_int_equal(map->hidden_count, 0);
    assert_int_equal(map->edge_count, 3 + 0 + 4 + 4);
    assert_true(isnan(map->row_entropy[1]) && !isnan(map->row_entropy[2]));
    assert_true(isfinite(map->received[0]) && isfinite(map->received[2]));
    o.max_cells = 1;
    assert_int_equal(attn_heatmap_build(&source, &o, NULL, NULL, arena, &out, NULL), ATTN_OK);
    assert_true(out.items[0].max[0] <= 1 && isfinite(out.items[0].mean[0]));
    attn_arena_free(arena);
    matrix_free(&m);
}

/* A visible weight of exactly 0 is not hidden, and a source without logits hides nothing. */
static void test_zero_is_not_hidden(void **state) {
    (void)state;
    float weights[6] = {1, 0, 0, 0, 0, 0},
          logits[6] = {200, -200, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    matrix m = {1, 1, 2, 3, weights, logits, SIZE_MAX};
    attn_heatmap_options o = attn_heatmap_defaults();
    attn_arena *arena = attn_arena_new(SIZE_MAX);
    attn_heatmaps out;
    attn_weight_source source = source_of(&m);
    assert_int_equal(attn_heatmap_build(&source, &o, NULL, NULL, arena, &out, NULL), ATTN_OK);
    assert_int_equal(out.items[0].hidden_count, 2);
    assert_int_equal(out.items[0].hidden[0].from, 2);
    assert_int_equal(out.items[0].hidden[1].from, 0);
    assert_int_equal(out.items[0].hidden[1].to, 3);
    assert_true(out.items[0].range[0] == 0 && out.items[0].range[1] == 1);
    assert_true(out.items[0].row_entropy[0] == 0 && isnan(out.items[0].row_entropy[1]));
    m.logits = NULL;
    source = source_of(&m);
    assert_int_equal(attn_heatmap_build(&source, &o, NULL, NULL, arena, &out, NULL), ATTN_OK);
    assert_int_equal(out.items[0].hidden_count, 0);
    attn_arena_free(arena);
}

/* Large logits: entropy keeps its digits where 1 - p has lost them. */
static void test_entropy_of_a_sharp_row(void **state) {
    (void)state;
    float logits[3] = {500, 500 - 18, 500 - 20}, weights[3];
    double l = 1 + exp(-18) + exp(-20);
    for (size_t j = 0; j < 3; j++)
        weights[j] = (float)(exp((double)logits[j] - 500) / l);
    double want = log1p(exp(-18) + exp(-20)) + (18 * exp(-18) + 20 * exp(-20)) / l;
    matrix m = {1, 1, 1, 3, weights, logits, SIZE_MAX};
    attn_heatmap_options o = attn_heatmap_defaults();
    attn_arena *arena = attn_arena_new(SIZE_MAX);
    attn_heatmaps out;
    attn_weight_source source = source_of(&m);
    assert_int_equal(attn_heatmap_build(&source, &o, NULL, NULL, arena, &out, NULL), ATTN_OK);
    assert_true(fabs(out.items[0].row_entropy[0] / want - 1) < 1e-6);
    attn_arena_free(arena);
}

static void test_failures_pass_through(void **state) {
    (void)state;
    matrix m = matrix_new(1, 2, 40, 30, 0, 9);
    attn_heatmap_options o = attn_heatmap_defaults();
    attn_error err = {0};
    attn_heatmaps out = {0};
    attn_arena *arena = attn_arena_new(SIZE_MAX);
    attn_weight_source source = source_of(&m);
    m.fail_row = 17;
    assert_int_equal(attn_heatmap_build(&source, &o, NULL, NULL, arena, &out, &err), ATTN_EVALUE);
    assert_string_equal(err.where, "source");
    m.fail_row = SIZE_MAX;
    atomic_int cancel = 1;
    attn_control control = {.cancel = &cancel};
    assert_int_equal(attn_heatmap_build(&source, &o, NULL, &control, arena, &out, &err),
                     ATTN_ECANCELED);
    assert_null(out.items);
    attn_arena_free(arena);
    matrix_free(&m);
}

static void test_quantise(void **state) {
    (void)state;
    float values[] = {0.2f, 0.7f, 0.45f, 0.1f, 0.9f, NAN}, range[2] = {0.2f, 0.7f};
    uint8_t got[6];
    attn_heatmap_quantise(got, values, 6, range, ATTN_LINEAR, false);
    static const uint8_t linear[6] = {0, 255, 127, 0, 255, 0}; /* 0.45f is a little below half */
    assert_memory_equal(got, linear, 6);
    attn_heatmap_quantise(got, values, 6, range, ATTN_SQRT, false);
    assert_int_equal(got[2], 180);
    attn_heatmap_quantise(got, values, 6, range, ATTN_LOG, false);
    assert_int_equal(got[2], 223);
    float same[2] = {0.25f, 0.25f}, zero[2] = {0, 0}, v[2] = {0.25f, 0};
    attn_heatmap_quantise(got, v, 1, same, ATTN_LINEAR, false);
    assert_int_equal(got[0], 255);
    attn_heatmap_quantise(got, v + 1, 1, zero, ATTN_LINEAR, false);
    assert_int_equal(got[0], 0);
    float both[] = {-0.5f, 0, 0.5f, 0.125f, -0.125f, NAN}, around[2] = {-0.5f, 0.5f};
    attn_heatmap_quantise(got, both, 6, around, ATTN_LINEAR, true);
    static const uint8_t bent[6] = {0, 128, 255, 159, 96, 0};
    assert_memory_equal(got, bent, 6);
    attn_heatmap_quantise(got, both, 6, around, ATTN_SQRT, true);
    static const uint8_t roots[6] = {0, 128, 255, 191, 64, 0};
    assert_memory_equal(got, roots, 6);
    attn_heatmap_quantise(got, both, 2, zero, ATTN_LOG, true);
    assert_int_equal(got[1], 128);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_matrices),
        cmocka_unit_test(test_pool_does_not_matter),
        cmocka_unit_test(test_zero_axes),
        cmocka_unit_test(test_nan_is_skipped),
        cmocka_unit_test(test_zero_is_not_hidden),
        cmocka_unit_test(test_entropy_of_a_sharp_row),
        cmocka_unit_test(test_failures_pass_through),
        cmocka_unit_test(test_quantise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
