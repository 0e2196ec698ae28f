/* Overviews of stored runs: tiles of every level of long runs against the full matrix, and the cost of
 * an image. */
#include "run_tiles_case.h"
#include "trials.h"

/* A run of one head whose image has an overview. */
static trial begin_long(size_t L, size_t S, bool causal) {
    trial t = {.arena = attn_arena_new(LIMIT), .seed = 7};
    t.B = 1, t.Hq = t.Hkv = 1, t.L = L, t.S = S, t.E = 8, t.Ev = 4;
    t.in = attn_attention_defaults();
    t.in.query = NORMAL(&t, t.B, t.Hq, t.L, t.E);
    t.in.key = NORMAL(&t, t.B, t.Hkv, t.S, t.E);
    t.in.value = NORMAL(&t, t.B, t.Hkv, t.S, t.Ev);
    if (causal)
        add_layer(&t, (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "causal"});
    return t;
}

/* The range of the head is that of its topmost tile, and the bytes before are its maxima. */
static void check_ranges(trial *t) {
    const attn_run_place top = {.level = attn_run_levels(t->run) - 1};
    attn_error err;
    attn_run_tile tile;
    size_t bytes;
    fail_on(attn_run_tile_make(t->run, &top, NULL, NULL, t->arena, &tile, &err), &err);
    const void *tops = attn_run_tops(t->run, &bytes);
    assert_int_equal(bytes, tile.shape[0] * tile.shape[1] * sizeof(float));
    assert_memory_equal(tops, tile.max, bytes);
    const float *ranges = attn_run_ranges(t->run);
    assert_memory_equal(ranges, tile.range, sizeof tile.range);
    assert_ptr_equal(attn_run_ranges(t->run), ranges);
}

static void test_overview(void **state) {
    static const struct {
        size_t L, S, overview, levels;
    } sizes[] = {{700, 2100, 3, 5}, {1500, 1025, 2, 4}, {30, 20011, 5, 8},
                 {20011, 30, 5, 8}, {40, 70001, 6, 10}, {70001, 40, 6, 10}};
    (void)state;
    attn_pool *pool = attn_pool_new(3);
    const size_t count = trials(2 * sizeof sizes / sizeof sizes[0]);
    for (size_t i = 0; i < count; i++) {
        trial t = begin_long(sizes[i / 2].L, sizes[i / 2].S, i % 2);
        store(&t, NULL, NULL);
        assert_int_equal(attn_run_levels(t.run), sizes[i / 2].levels);
        assert_int_equal(attn_run_overview_level(t.run), sizes[i / 2].overview);
        check_tiles(&t, 0, 0, pool);
        check_ranges(&t);
        attn_arena_free(t.arena);
    }
    attn_pool_free(pool);
}

/* What attn_run_cost counts is enough for the image, and not much more. */
static void test_cost(void **state) {
    (void)state;
    for (size_t n = 1000; n < 40000; n = 3 * n / 2) {
        trial t = begin_long(n, 50, true);
        attn_cost cost;
        attn_error err;
        store(&t, NULL, NULL);
        fail_on(attn_run_cost(attn_attention_dims_of(t.a), 1, &cost, &err), &err);
        assert_true(t.pieces.size <= cost.result_bytes);
        assert_true(cost.result_bytes <= t.pieces.size + 70000);
        attn_arena_free(t.arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overview),
        cmocka_unit_test(test_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
