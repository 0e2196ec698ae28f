/* The overview: one pass over the weights of all heads, two rows of its cells a piece, from which
 * the row of the level above follows. */
#include "attention/resolved.h"
#include "runs/run_private.h"

size_t attn_run_cells_along(size_t n, size_t level) {
    return n ? ((n - 1) >> level) + 1 : 0;
}

attn_run_pyramid attn_run_pyramid_of(size_t L, size_t S) {
    const size_t longest = L > S ? L : S;
    attn_run_pyramid p = {.L = L, .S = S, .levels = 1, .overview = SIZE_MAX};
    while (attn_run_cells_along(longest, p.levels - 1) > ATTN_RUN_TILE)
        p.levels++;
    size_t level = 0;
    while (attn_run_cells_along(longest, level) > ATTN_RUN_OVERVIEW)
        level++;
    if (level > 1)
        p.overview = level;
    return p;
}

typedef struct maker {
    const attn_attention *a;
    const attn_stats *stats;
    const attn_run_pyramid *pyramid;
    attn_run_lane **lanes;
    float **max, **mean;
    size_t rows[ATTN_RUN_PLANES], cols[ATTN_RUN_PLANES];
} maker;

static void put(const maker *m, size_t plane, size_t head, size_t row, size_t col,
                const attn_run_sum *sum) {
    const size_t at = (head * m->rows[plane] + row) * m->cols[plane] + col;
    m->max[plane][at] = attn_run_sum_max(sum);
    m->mean[plane][at] = attn_run_sum_mean(sum);
}

static void join(attn_run_sum *to, const attn_run_sum *from) {
    to->max = from->max > to->max ? from->max : to->max;
    to->sum += from->sum;
    to->count += from->count;
    to->nan |= from->nan;
}

static attn_status make_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    const maker *m = ctx;
    const size_t head = index / m->rows[1], top = index % m->rows[1], Hq = m->a->dims.Hq;
    const size_t cols = m->cols[0];
    const attn_run_area area = {.batch = head / Hq,
                                .head = head % Hq,
                                .level = m->pyramid->overview,
                                .row = 2 * top,
                                .rows = m->rows[0] - 2 * top < 2 ? 1 : 2,
                                .cols = cols};
    const attn_run_sum *sums;
    attn_status status = attn_run_pool(m->a, m->stats, &area, m->lanes[lane], &sums, err);
    if (status != ATTN_OK)
        return status;
    for (size_t c = 0; c < area.rows * cols; c++)
        put(m, 0, head, area.row + c / cols, c % cols, &sums[c]);
    for (size_t c = 0; c < m->cols[1]; c++) {
        attn_run_sum sum = sums[2 * c];
        for (size_t k = 1; k < 4; k++)
            if (k / 2 < area.rows && 2 * c + k % 2 < cols)
                join(&sum, &sums[k / 2 * cols + 2 * c + k % 2]);
        put(m, 1, head, top, c, &sum);
    }
    return ATTN_OK;
}

static bool take_planes(maker *m, attn_arena *arena) {
    const size_t heads = m->a->dims.B * m->a->dims.Hq;
    for (size_t p = 0; p < ATTN_RUN_PLANES; p++) {
        size_t cells;
        m->rows[p] = attn_run_cells_along(m->pyramid->L, m->pyramid->overview + p);
        m->cols[p] = attn_run_cells_along(m->pyramid->S, m->pyramid->overview + p);
        if (!attn_size_mul(heads, m->rows[p] * m->cols[p], &cells))
            return false;
        m->max[p] = attn_arena_zeroed(arena, cells, sizeof(float));
        m->mean[p] = attn_arena_zeroed(arena, cells, sizeof(float));
        if (!m->max[p] || !m->mean[p])
            return false;
    }
    return true;
}

attn_status attn_run_overview_make(const attn_attention *a, const attn_stats *stats,
                                   const attn_run_pyramid *pyramid, attn_pool *pool,
                                   const attn_control *control, attn_arena *arena,
                                   float *max[ATTN_RUN_PLANES], float *mean[ATTN_RUN_PLANES],
                                   attn_error *err) {
    const size_t slots = attn_pool_slots(pool);
    maker m = {a,   stats, pyramid, attn_arena_zeroed(arena, slots, sizeof *m.lanes),
               max, mean,  {0},     {0}};
    bool ok = take_planes(&m, arena) && m.lanes;
    for (size_t s = 0; ok && s < slots; s++)
        ok = (m.lanes[s] = attn_run_lane_new(a, pyramid->overview, m.cols[0], arena)) != NULL;
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the overview");
    return attn_pool_run(pool, a->dims.B * a->dims.Hq * m.rows[1], make_piece, &m, control, err);
}
