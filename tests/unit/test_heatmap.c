/* Heatmaps of random matrices against a plain recomputation of every cell; edges against a full
 * sort; the choice of the grid, bounds in bytes, errors, zero-sized axes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/heatmap.h"
#include "attn/rng.h"

/* --- a source in memory --- */

typedef struct matrix {
    size_t B, H, L, S;
    float *weights, *logits; /* [B, H, L, S] */
    size_t fail_row;         /* fetching it fails; SIZE_MAX = none */
} matrix;

static attn_status fetch(void *ctx, size_t lane, const attn_range *r, float *weights, float *logits,
                         attn_error *err) {
    (void)lane;
    const matrix *m = ctx;
    if (m->fail_row >= r->row && m->fail_row < r->row + r->rows)
        return attn_fail(err, ATTN_EVALUE, "source", "row %zu", m->fail_row);
    size_t at = ((r->batch * m->H + r->head) * m->L + r->row) * m->S + r->col;
    for (size_t i = 0; i < r->rows; i++)
        for (size_t j = 0; j < r->cols; j++) {
            weights[i * r->cols + j] = m->weights[at + i * m->S + j];
            if (m->logits)
                logits[i * r->cols + j] = m->logits[at + i * m->S + j];
        }
    return ATTN_OK;
}

static attn_weight_source source_of(matrix *m) {
    return (attn_weight_source){m->B, m->H, m->L, m->S, m->logits != NULL, fetch, m};
}

/* Softmax rows of normal logits with some keys, and some whole rows, hidden. */
static matrix matrix_new(size_t B, size_t H, size_t L, size_t S, double hidden, uint64_t seed) {
    matrix m = {B, H, L, S, NULL, NULL, SIZE_MAX};
    size_t n = B * H * L * S;
    m.weights = calloc(n + 1, sizeof(float));
    m.logits = calloc(n + 1, sizeof(float));
    for (size_t row = 0; row < B * H * L; row++) {
        float *w = m.weights + row * S, *l = m.logits + row * S;
        bool blind = attn_rng_uniform(seed + 2, row) < hidden / 4;
        double top = -INFINITY, sum = 0;
        for (size_t j = 0; j < S; j++) {
            l[j] = (float)(3 * attn_rng_normal(seed, row * S + j));
            if (blind || attn_rng_uniform(seed + 1, row * S + j) < hidden)
                l[j] = -INFINITY;
            top = fmax(top, l[j]);
        }
        for (size_t j = 0; j < S; j++)
            sum += l[j] == -INFINITY ? 0 : exp(l[j] - top);
        for (size_t j = 0; j < S; j++)
            w[j] = l[j] == -INFINITY ? 0 : (float)(exp(l[j] - top) / sum);
    }
    return m;
}

static void matrix_free(matrix *m) {
    free(m->weights);
    free(m->logits);
}

/* --- the plain recomputation --- */

static const float *row_of(const matrix *m, const float *all, size_t b, size_t h, size_t i) {
    return all + ((b * m->H + h) * m->L + i) * m->S;
}

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

/* One weight of one head, or of the mean over heads (head SIZE_MAX). */
static bool weight_of(const matrix *m, size_t b, size_t head, size_t i, size_t j, double *value) {
    size_t from = head == SIZE_MAX ? 0 : head, to = head == SIZE_MAX ? m->H : head + 1;
    bool visible = false;
    double sum = 0;
    for (size_t h = from; h < to; h++) {
        visible |= row_of(m, m->logits, b, h, i)[j] != -INFINITY;
        sum += row_of(m, m->weights, b, h, i)[j];
    }
    *value = (double)(float)(sum / (double)(to - from));
    return visible;
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

static size_t pick(uint64_t seed, uint64_t index, size_t low, size_t high) {
    return low + (size_t)(attn_rng_bits(seed, index) % (high - low + 1));
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

/* --- edges --- */

typedef struct ranked {
    double weight;
    size_t col;
} ranked;

static int by_weight(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->col < y->col ? -1 : 1;
}

static void check_edges(const matrix *m, const attn_heatmap *map, const attn_heatmap_options *o,
                        size_t rows, size_t cols) {
    size_t at = 0;
    ranked all[64];
    for (size_t i = o->row_from; i < o->row_from + rows; i++) {
        size_t n = 0, want = 0;
        double v, mass = 0;
        for (size_t j = o->col_from; j < o->col_from + cols; j++)
            if (weight_of(m, map->batch, map->head, i, j, &v))
                all[n++] = (ranked){v, j};
        qsort(all, n, sizeof *all, by_weight);
        want = o->top_k && o->top_k < n ? o->top_k : n;
        if (o->top_p > 0) {
            size_t k = 0;
            while (k < want && mass < o->top_p && all[k].weight > 0)
                mass += all[k++].weight;
            want = k;
        }
        for (size_t k = 0; k < want; k++, at++) {
            assert_true(at < map->edge_count);
            assert_int_equal(map->edges[at].row, i);
            assert_int_equal(map->edges[at].col, all[k].col);
            assert_true(map->edges[at].weight == (float)all[k].weight);
        }
    }
    assert_int_equal(at, map->edge_count);
}

static void test_edges(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        size_t L = pick(seed, 2, 1, 9), S = pick(seed, 3, 1, 40);
        matrix m = matrix_new(1, 2, L, S, seed % 3 * 0.3, 77 * seed);
        if (seed % 5 == 0) /* ties */
            for (size_t i = 0; i < 2 * L * S; i++)
                m.weights[i] =
                    m.logits[i] == -INFINITY ? 0 : (float)(attn_rng_bits(seed, i) % 4) / 64;
        attn_heatmap_options o = attn_heatmap_defaults();
        o.heads = seed % 2 ? ATTN_HEADS_MEAN : ATTN_HEADS_ALL;
        o.top_k = seed % 4 == 3 ? 0 : pick(seed, 4, 1, 12);
        o.top_p = seed % 4 >= 2 ? 0.05 + 0.9 * attn_rng_uniform(seed, 5) : 0;
        size_t cols = S;
        if (S > 4) {
            o.col_from = 1, o.col_to = S - 1;
            cols = S - 2;
        }
        attn_arena *arena = attn_arena_new(SIZE_MAX);
        attn_heatmaps out;
        attn_weight_source source = source_of(&m);
        assert_int_equal(attn_heatmap_build(&source, &o, NULL, NULL, arena, &out, NULL), ATTN_OK);
        for (size_t i = 0; i < out.count; i++)
            check_edges(&m, &out.items[i], &o, L, cols);
        attn_arena_free(arena);
        matrix_free(&m);
    }
}

static void test_edges_are_bounded(void **state) {
    (void)state;
    attn_cost cost;
    attn_error err = {0};
    attn_heatmap_options o = attn_heatmap_defaults();
    o.top_k = 100;
    assert_int_equal(attn_heatmap_cost(&o, 1, 1, 10000, 50, 1, &cost, &err), ATTN_OK);
    assert_int_equal(attn_heatmap_cost(&o, 1, 8, 10000, 200, 1, &cost, &err), ATTN_ELIMIT);
    assert_string_equal(err.where, "top_k");
    assert_non_null(strstr(err.text, "13 edges a row"));
    o.top_k = 0, o.top_p = 0.5;
    assert_int_equal(attn_heatmap_cost(&o, 1, 1, 2000000, 1, 1, &cost, &err), ATTN_ELIMIT);
    assert_string_equal(err.where, "top_p");
    o.top_p = 1.5;
    assert_int_equal(attn_heatmap_cost(&o, 1, 1, 2, 2, 1, &cost, &err), ATTN_EARG);
    assert_string_equal(err.where, "top_p");

    /* 1024 edges a row are not enough for half of 4096 equal weights */
    matrix m = {1, 1, 1024, 4096, NULL, NULL, SIZE_MAX};
    m.weights = malloc(m.L * m.S * sizeof(float));
    for (size_t i = 0; i < m.L * m.S; i++)
        m.weights[i] = 1.0f / 4096;
    attn_arena *arena = attn_arena_new(SIZE_MAX);
    attn_heatmaps out;
    attn_weight_source source = source_of(&m);
    o.top_p = 0.5;
    assert_int_equal(attn_heatmap_build(&source, &o, NULL, NULL, arena, &out, &err), ATTN_ELIMIT);
    assert_string_equal(err.where, "top_p");
    assert_non_null(strstr(err.text, "row 0 "));
    o.top_p = 0.2;
    assert_int_equal(attn_heatmap_build(&source, &o, NULL, NULL, arena, &out, &err), ATTN_OK);
    assert_int_equal(out.items[0].edge_count, 1024 * 820); /* ceil(0.2 * 4096) */
    attn_arena_free(arena);
    free(m.weights);
}

/* --- the grid, and what it costs --- */

static void grid(size_t B, size_t H, size_t L, size_t S, size_t max_cells, size_t step[2]) {
    attn_heatmap_options o = attn_heatmap_defaults();
    matrix m = {B, H, L, S, NULL, NULL, SIZE_MAX};
    m.weights = calloc(B * H * L * S + 1, sizeof(float));
    o.max_cells = max_cells;
    attn_arena *arena = attn_arena_new(SIZE_MAX);
    attn_heatmaps out;
    attn_weight_source source = source_of(&m);
    assert_int_equal(attn_heatmap_build(&source, &o, NULL, NULL, arena, &out, NULL), ATTN_OK);
    step[0] = out.items[0].step[0], step[1] = out.items[0].step[1];
    attn_arena_free(arena);
    free(m.weights);
}

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
        size_t step[2];
        grid(cases[i].B, cases[i].H, cases[i].L, cases[i].S, cases[i].max_cells, step);
        assert_int_equal(step[0], cases[i].step[0]);
        assert_int_equal(step[1], cases[i].step[1]);
    }
}

/* Bytes of the longest JSON that the default can become: a cell "-1.2345678e-12,", hidden ones
 * "0,", runs "[4095,4094,4095],", rows and columns as cells, names and brackets 240 a heatmap. */
static void test_default_stays_below_a_mebibyte(void **state) {
    (void)state;
    static const size_t shapes[][4] = {
        {1, 1, 256, 256},   {1, 1, 65536, 65536}, {1, 1, 65536, 1}, {1, 1, 1, 65536},
        {1, 8, 512, 512},   {4, 16, 128, 4096},   {16, 32, 64, 64}, {1, 512, 8, 8},
        {1, 2, 4096, 4096}, {1, 1, 16, 100000},   {1, 100, 77, 31},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        attn_heatmap_options o = attn_heatmap_defaults();
        attn_cost cost;
        const size_t *s = shapes[i];
        size_t maps = s[0] * s[1];
        assert_int_equal(attn_heatmap_cost(&o, s[0], s[1], s[2], s[3], 1, &cost, NULL), ATTN_OK);
        /* floats behind the structs: C cells and 12 bytes of run room a cell, R + C measures */
        double floats = ((double)cost.result_bytes - (double)(maps * sizeof(attn_heatmap))) / 4;
        double cells = floats / 4; /* 4 bytes of value, at least 12 of run room */
        assert_true(cells * 15 + 240.0 * (double)maps < 1 << 20);
    }
    attn_error err = {0};
    attn_heatmap_options o = attn_heatmap_defaults();
    attn_cost cost;
    assert_int_equal(attn_heatmap_cost(&o, 16, 33, 64, 64, 1, &cost, &err), ATTN_ELIMIT);
    assert_string_equal(err.where, "heads");
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
    attn_heatmap_quantise(got, values, 6, range, ATTN_LINEAR);
    static const uint8_t linear[6] = {0, 255, 127, 0, 255, 0}; /* 0.45f is a little below half */
    assert_memory_equal(got, linear, 6);
    attn_heatmap_quantise(got, values, 6, range, ATTN_SQRT);
    assert_int_equal(got[2], 180);
    attn_heatmap_quantise(got, values, 6, range, ATTN_LOG);
    assert_int_equal(got[2], 223);
    float same[2] = {0.25f, 0.25f}, zero[2] = {0, 0}, v[2] = {0.25f, 0};
    attn_heatmap_quantise(got, v, 1, same, ATTN_LINEAR);
    assert_int_equal(got[0], 255);
    attn_heatmap_quantise(got, v + 1, 1, zero, ATTN_LINEAR);
    assert_int_equal(got[0], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_matrices),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_edges_are_bounded),
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_default_stays_below_a_mebibyte),
        cmocka_unit_test(test_cost_is_what_is_taken),
        cmocka_unit_test(test_scratch_of_long_rows_is_bounded),
        cmocka_unit_test(test_pool_does_not_matter),
        cmocka_unit_test(test_zero_axes),
        cmocka_unit_test(test_choices_outside),
        cmocka_unit_test(test_nan_is_skipped),
        cmocka_unit_test(test_zero_is_not_hidden),
        cmocka_unit_test(test_entropy_of_a_sharp_row),
        cmocka_unit_test(test_failures_pass_through),
        cmocka_unit_test(test_quantise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
