/* Thumbnails: all cells of the lowest level that has at most a given number of cells along each
 * side. If this level is above the level of the topmost tile, the cells of the topmost tile are
 * pooled. In the mean of a pooled cell, the mean of each cell of the tile is weighted by the cell's
 * number of visible weights, which is counted from the mask. */
#include <math.h>
#include <string.h>

#include "attention/resolved.h"
#include "base/try.h"
#include "runs/pooling.h"

static attn_run_place top_of(const attn_run_site *site, const attn_run_place *at) {
    return (attn_run_place){
        .batch = at->batch, .head = at->head, .level = site->pyramid.levels - 1, .map = at->map};
}

/* --- the number of visible weights in each cell of the topmost tile --- */

struct attn_run_counts {
    size_t shape[2], level;
    uint8_t *keep;   /* [S] */
    uint32_t *cells; /* [shape[0], shape[1]] */
    size_t batch, head;
    bool known; /* `cells` holds the counts of batch and head */
};

attn_run_counts *attn_run_counts_new(const attn_run_site *site, attn_arena *arena) {
    attn_run_counts *c = attn_arena_zeroed(arena, 1, sizeof *c);
    if (!c)
        return NULL;
    c->level = site->pyramid.levels - 1;
    attn_run_level_shape(site, c->level, c->shape);
    c->keep = attn_arena_take(arena, site->dims->S);
    c->cells = attn_arena_zeroed(arena, c->shape[0] * c->shape[1], sizeof *c->cells);
    return c->keep && c->cells ? c : NULL;
}

/* Adds the visible keys of a row in the interval [lo, hi) to the counts of their cells. `keep` [hi
 * - lo] is the visibility of these keys; NULL: all are visible. */
static void count_row(uint32_t *line, size_t level, size_t lo, size_t hi, const uint8_t *keep) {
    for (size_t at = lo; at < hi;) {
        const size_t cell = at >> level, end = (cell + 1) << level, stop = end < hi ? end : hi;
        uint32_t seen = (uint32_t)(stop - at);
        for (size_t j = at; j < stop && keep; j++)
            seen -= !keep[j - lo];
        line[cell] += seen;
        at = stop;
    }
}

static void count_cells(const attn_run_site *site, attn_run_counts *c) {
    memset(c->cells, 0, c->shape[0] * c->shape[1] * sizeof *c->cells);
    for (size_t i = 0; i < site->dims->L; i++) {
        const attn_range row = {.batch = c->batch, .head = c->head, .row = i};
        size_t lo = 0, hi = site->dims->S;
        const uint8_t *keep = attn_run_visible_keys(site->op, &row, &lo, &hi, c->keep);
        count_row(c->cells + (i >> c->level) * c->shape[1], c->level, lo, hi, keep);
    }
}

/* Returns the counts of a head. Heads with equal masks share their counts. */
static const uint32_t *counts_of(const attn_run_site *site, attn_run_counts *c, size_t batch,
                                 size_t head) {
    const bool same = attn_mask_same_heads(site->op->mask) || site->dims->factors;
    if (c->known && c->batch == batch && (same || c->head == head))
        return c->cells;
    c->batch = batch;
    c->head = head;
    count_cells(site, c);
    c->known = true;
    return c->cells;
}

/* --- pooling --- */

/* Adds a cell of the tile, which has `count` visible weights, to a cell of the thumbnail. */
static void add_cell(attn_run_sum *s, float max, float mean, size_t count) {
    if (max == -INFINITY)
        return;
    if (isnan(max)) {
        s->nan = true;
        return;
    }
    s->max = max > s->max ? max : s->max;
    s->sum += (double)count * (double)mean;
    s->count += count;
}

/* Pools squares of 2^up x 2^up cells of the tile. `counts` has the number of visible weights of
 * each cell; NULL: each visible cell counts as 1. */
static void pool_cells(const attn_run_tile *tile, size_t up, const uint32_t *counts,
                       attn_run_thumbnail *out) {
    for (size_t r = 0; r < out->shape[0]; r++)
        for (size_t c = 0; c < out->shape[1]; c++) {
            attn_run_sum s = {.max = -INFINITY};
            for (size_t i = r << up; i < (r + 1) << up && i < tile->shape[0]; i++)
                for (size_t j = c << up; j < (c + 1) << up && j < tile->shape[1]; j++) {
                    const size_t at = i * tile->shape[1] + j;
                    add_cell(&s, tile->max[at], tile->mean[at], counts ? counts[at] : 1);
                }
            out->max[r * out->shape[1] + c] = attn_run_max_of(&s);
            out->mean[r * out->shape[1] + c] = attn_run_mean_of(&s);
        }
}

attn_status attn_run_thumbnail_cost(const attn_run_site *site, size_t slots, attn_cost *out,
                                    attn_error *err) {
    const attn_run_place top = top_of(site, &(attn_run_place){0});
    const size_t cells = (size_t)ATTN_RUN_TILE * ATTN_RUN_TILE;
    *out = (attn_cost){0};
    if (!site->dims->B || !site->dims->Ho || !site->dims->L || !site->dims->S)
        return ATTN_OK;
    ATTN_TRY(attn_run_tile_cost(site, &top, slots, out, err));
    const double all = (double)site->dims->L * (double)site->dims->S;
    out->operations += (double)cells + (attn_mask_hides_cells(site->op->mask) ? all : 0);
    out->work_bytes += out->result_bytes + site->dims->S + cells * sizeof(uint32_t) + 4096;
    out->result_bytes = 2 * cells * sizeof(float);
    return ATTN_OK;
}

attn_status attn_run_thumbnail_make(const attn_run_site *site, const attn_run_place *at,
                                    size_t cells, attn_run_counts *counts, attn_pool *threads,
                                    const attn_control *control, attn_arena *arena,
                                    attn_run_thumbnail *out, attn_error *err) {
    const size_t longest = site->dims->L > site->dims->S ? site->dims->L : site->dims->S;
    attn_run_thumbnail t = {.level = attn_run_level_within(longest, cells)};
    const attn_run_place top = top_of(site, at);
    attn_run_tile tile;
    attn_run_level_shape(site, t.level, t.shape);
    const size_t n = t.shape[0] * t.shape[1];
    t.max = attn_arena_zeroed(arena, 2 * n, sizeof(float));
    ATTN_TAKEN(t.max, "a thumbnail", err);
    t.mean = t.max + n;
    if (n) {
        ATTN_TRY(attn_control_check(control, err));
        ATTN_TRY(attn_run_tile_make(site, &top, threads, control, arena, &tile, err));
    }
    /* single weights, and cells that are not pooled, need no counts */
    const bool uncounted = top.level == 0 || top.level == t.level || !counts;
    if (n)
        pool_cells(&tile, t.level - top.level,
                   uncounted ? NULL : counts_of(site, counts, at->batch, at->head), &t);
    attn_run_find_range(t.max, n, t.range);
    attn_run_find_range(t.mean, n, t.mean_range);
    *out = t;
    return ATTN_OK;
}
