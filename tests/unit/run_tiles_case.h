/* The check of every tile of a stored run against its full matrix, for the tests of stored runs. */
#ifndef TEST_RUN_TILES_CASE_H
#define TEST_RUN_TILES_CASE_H

#include <float.h>

#include "run_case.h"

static inline bool visible(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    const attn_mask *mask = attn_attention_mask(t->a);
    uint8_t keep;
    attn_mask_keep(mask, b, h, i, j, 1, &keep);
    return keep || attn_mask_fills(mask);
}

/* One cell of a level, from the full matrix. */
static inline void expect_cell(const trial *t, const attn_run_place *at, size_t y, size_t x,
                               float max, float mean) {
    const size_t side = (size_t)1 << at->level;
    double sum = 0;
    float most = -INFINITY;
    size_t count = 0;
    for (size_t i = y * side; i < (y + 1) * side && i < t->L; i++)
        for (size_t j = x * side; j < (x + 1) * side && j < t->S; j++) {
            const float w = (float)weight(t, at->batch, at->head, i, j);
            if (!visible(t, at->batch, at->head, i, j))
                continue;
            count++;
            sum += (double)w;
            most = w > most ? w : most;
        }
    assert_memory_equal(&max, &most, sizeof max);
    if (count)
        assert_true(fabs((double)mean - sum / (double)count) <=
                    1e-7 * fabs(sum / (double)count) + (double)FLT_TRUE_MIN);
    else
        assert_true(mean == -INFINITY);
}

/* Every tile of every level of one head. */
static inline void check_tiles(trial *t, size_t b, size_t h, attn_pool *pool) {
    attn_run_place at = {.batch = b, .head = h};
    attn_error err = {.code = ATTN_OK};
    for (; at.level < attn_run_levels(t->run); at.level++) {
        size_t whole[2], seen = 0;
        attn_run_level_shape(t->run, at.level, whole);
        for (at.y = 0; at.y * ATTN_RUN_TILE < whole[0]; at.y++)
            for (at.x = 0; at.x * ATTN_RUN_TILE < whole[1]; at.x++) {
                const attn_arena_mark mark = attn_arena_here(t->arena);
                attn_run_tile tile;
                fail_on(attn_run_tile_make(t->run, &at, pool, NULL, t->arena, &tile, &err), &err);
                bool hidden = true;
                for (size_t c = 0; c < tile.shape[0] * tile.shape[1]; c++) {
                    expect_cell(t, &at, at.y * ATTN_RUN_TILE + c / tile.shape[1],
                                at.x * ATTN_RUN_TILE + c % tile.shape[1], tile.max[c],
                                tile.mean[c]);
                    hidden &= tile.max[c] == -INFINITY;
                    assert_true(tile.max[c] <= tile.range[1]);
                }
                assert_int_equal(hidden, tile.hidden);
                seen += tile.shape[0] * tile.shape[1];
                attn_arena_rewind(t->arena, &mark);
            }
        assert_int_equal(seen, whole[0] * whole[1]);
    }
    assert_int_equal(attn_run_tile_shape(t->run, &at, (size_t[2]){0, 0}, &err), ATTN_EARG);
    assert_string_equal(err.where, "level");
}

#endif
