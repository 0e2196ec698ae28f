/* The strongest edges of each row against a full sort, and how many there may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "unit/heatmap_source.h"

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
    assert_true(err.limit == 1 << 20);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_edges_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
