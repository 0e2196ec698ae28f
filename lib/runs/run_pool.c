/* Pools weights to cells.
 *
 * Weights are computed in blocks of ROWS x CHUNK. The rows of a block that belong to the same row
 * of cells are added to the cells one after the other. In cells of LANE_LEVEL and above, eight
 * partial sums a cell take the weights, so that an addition waits for no other one. They are added
 * up after the last of these rows. */
#include <math.h>
#include <string.h>

#include "runs/run_pool.h"

enum {
    ROWS = ATTN_RUN_ROWS,
    CHUNK = 2048,   /* columns (keys) of weights that are computed together */
    LANE_LEVEL = 3, /* cells below are too narrow for lanes */
    MOST_CELLS = (CHUNK >> LANE_LEVEL) + 1, /* cells that CHUNK keys touch at LANE_LEVEL */
};

bool attn_run_buffer_bytes(const attn_attention_dims *d, size_t rows, size_t cols, size_t *bytes) {
    attn_area scratch = {0};
    size_t sums;
    attn_cells_place(&scratch, d, attn_kernels_with(d->isa, d->precision, d->tanh_score));
    *bytes = sizeof(attn_run_buffers) + ROWS * CHUNK * attn_dtype_size(d->result) +
             MOST_CELLS * sizeof(attn_pool_lanes) + CHUNK * (sizeof(float) + 1) + 8 * ATTN_ALIGN +
             4096;
    return !scratch.overflow && attn_size_add(*bytes, scratch.used, bytes) &&
           attn_size_mul(cols, rows * sizeof(attn_run_sum), &sums) &&
           attn_size_add(*bytes, sums, bytes);
}

/* Allocates the buffers of one thread. NULL: out of memory. */
static attn_run_buffers *new_buffers(const attn_attention *a, size_t rows, size_t cols,
                                     attn_arena *arena) {
    attn_run_buffers *buf = attn_arena_small(arena, sizeof *buf);
    size_t sums;
    if (!buf || !attn_size_mul(cols, rows, &sums))
        return NULL;
    *buf = (attn_run_buffers){
        .scratch = attn_cells_scratch_new(a, arena),
        .weights = attn_arena_take(arena, ROWS * CHUNK * attn_dtype_size(a->dims.result)),
        .line = attn_arena_take(arena, CHUNK * sizeof(float)),
        .keep = attn_arena_take(arena, CHUNK),
        .lanes = attn_arena_zeroed(arena, MOST_CELLS, sizeof *buf->lanes),
        .sums = attn_arena_zeroed(arena, sums, sizeof *buf->sums),
        .pointwise = attn_pointwise_of(a->dims.isa),
    };
    return buf->scratch && buf->weights && buf->line && buf->keep && buf->lanes && buf->sums ? buf
                                                                                             : NULL;
}

attn_run_buffers **attn_run_buffers_new(const attn_attention *a, size_t rows, size_t cols,
                                        attn_pool *pool, const attn_control *control,
                                        attn_arena *arena) {
    const size_t slots = attn_pool_slots(pool);
    attn_run_buffers **all = attn_arena_zeroed(arena, slots, sizeof *all);
    for (size_t s = 0; all && s < slots; s++) {
        if (!(all[s] = new_buffers(a, rows, cols, arena)))
            return NULL;
        all[s]->pool = pool;
        all[s]->control = control;
    }
    return all;
}

/* --- one row of weights --- */

/* Adds n weights of one row to their cell. `keep` is their visibility, or NULL if all are visible.
 */
static void add_each(attn_run_sum *s, const float *w, const uint8_t *keep, size_t n) {
    for (size_t j = 0; j < n; j++) {
        if (keep && !keep[j])
            continue;
        if (isnan(w[j])) {
            s->nan = true;
            continue;
        }
        s->count++;
        s->sum += (double)w[j];
        s->max = w[j] > s->max ? w[j] : s->max;
    }
}

/* Counts n weights of one row in their cell. */
static void count(attn_run_sum *s, const uint8_t *keep, size_t n) {
    s->count += n;
    for (size_t k = 0; keep && k < n; k++)
        s->count -= !keep[k];
}

/* Adds n weights of one row to the lanes of their cell. */
static void add_few(attn_pool_lanes *lanes, const float *w, size_t n) {
    for (size_t k = 0; k < n; k++) {
        const size_t l = k % POOL_LANES;
        lanes->sum[l] += (double)w[k];
        lanes->max[l] = w[k] > lanes->max[l] ? w[k] : lanes->max[l];
    }
}

/* Adds the lanes of n cells to their sums, and clears them. */
static void empty_lanes(attn_pool_lanes *lanes, attn_run_sum *sums, size_t n) {
    for (size_t c = 0; c < n; c++) {
        float max = 0;
        for (size_t k = 0; k < POOL_LANES; k++) {
            sums[c].sum += lanes[c].sum[k];
            max = lanes[c].max[k] > max ? lanes[c].max[k] : max;
        }
        if (sums[c].count)
            sums[c].max = max > sums[c].max ? max : sums[c].max;
        lanes[c] = (attn_pool_lanes){.sum = {0}};
    }
}

/* Reduces [*from, *to) to the keys that row i may see, and returns which of them it sees; NULL: all
 * of them. */
static const uint8_t *visible(const attn_attention *a, const attn_run_area *area, size_t i,
                              size_t *from, size_t *to, uint8_t *keep) {
    size_t lo, hi;
    if (attn_mask_fills(a->mask))
        return NULL;
    attn_mask_interval(a->mask, area->batch, i, &lo, &hi);
    *from = lo > *from ? lo : *from;
    *to = hi < *to ? hi : *to;
    if (*from >= *to || !attn_mask_hides_cells(a->mask))
        return NULL;
    attn_mask_keep(a->mask, area->batch, area->head, i, *from, *to - *from, keep);
    return keep;
}

/* One row of weights on its way to the cells: columns [col, col + n), of which those in [from, to)
 * are visible unless `keep`, which begins with column `from`, hides them. */
typedef struct row_part {
    const float *w;
    attn_run_sum *line; /* the row's cells, from cell `left` of the level on */
    size_t left;
    size_t col, n, from, to;
    const uint8_t *keep;
} row_part;

static void add_row(const row_part *p, size_t level) {
    for (size_t at = p->from; at < p->to;) {
        const size_t cell = at >> level, end = (cell + 1) << level;
        const size_t stop = end < p->to ? end : p->to;
        add_each(&p->line[cell - p->left], p->w + (at - p->col),
                 p->keep ? p->keep + (at - p->from) : NULL, stop - at);
        at = stop;
    }
}

/* The same into the lanes of the cells, of which the first is that of column p->col. None of the
 * weights is NaN. A hidden weight is 0: it leaves sum and maximum as they are, so that only the
 * count needs `keep`. */
static void add_row_lanes(const row_part *p, size_t level, const attn_pointwise *pointwise,
                          attn_pool_lanes *lanes) {
    const size_t width = (size_t)1 << level, first = p->col >> level;
    for (size_t at = p->from; at < p->to;) {
        const size_t cell = at >> level, end = (cell + 1) << level;
        const size_t stop = end < p->to ? end : p->to;
        count(&p->line[cell - p->left], p->keep ? p->keep + (at - p->from) : NULL, stop - at);
        at = stop;
    }
    size_t at = p->col, end = p->col + p->n, next = (first + (at % width != 0)) << level;
    next = next < end ? next : end;
    const size_t whole = (end - next) >> level, rest = next + (whole << level);
    add_few(lanes, p->w, next - at);
    pointwise->pool(lanes + ((next >> level) - first), p->w + (next - at), whole, width);
    if (rest < end)
        add_few(lanes + ((rest >> level) - first), p->w + (rest - at), end - rest);
}

/* --- blocks --- */

static attn_status pool_rows(const attn_attention *a, const attn_stats *stats,
                             const attn_run_area *area, attn_range *range, attn_run_buffers *buf,
                             attn_error *err) {
    const size_t elem = attn_dtype_size(a->dims.result), level = area->level;
    const size_t first = range->col >> level, last = (range->col + range->cols - 1) >> level;
    const bool in_lanes = level >= LANE_LEVEL && !a->in.allow_nonfinite;
    attn_status status = attn_attention_cells(a, stats, range, ATTN_STAGE_PROBS, buf->weights,
                                              CHUNK, buf->scratch, err);
    for (size_t r = 0; r < range->rows && status == ATTN_OK; r++) {
        const char *w = (const char *)buf->weights + r * CHUNK * elem;
        const size_t i = range->row + r, row = (i >> level) - area->row;
        attn_run_sum *line = buf->sums + row * area->cols;
        if (a->dims.result == ATTN_F64) {
            attn_widen_f32(buf->line, w, ATTN_F64, 1, range->cols);
            w = (const char *)buf->line;
        }
        row_part p = {.w = (const float *)(const void *)w,
                      .line = line,
                      .left = area->col,
                      .col = range->col,
                      .n = range->cols,
                      .from = range->col,
                      .to = range->col + range->cols};
        p.keep = visible(a, area, i, &p.from, &p.to, buf->keep);
        if (!in_lanes)
            add_row(&p, level);
        else
            add_row_lanes(&p, level, buf->pointwise, buf->lanes);
        if (in_lanes && (r + 1 == range->rows || (i + 1) >> level != i >> level))
            empty_lanes(buf->lanes, line + (first - area->col), last - first + 1);
    }
    return status;
}

/* Reduces [*lo, *hi) to the keys that at least one of the rows [row, row + rows) may see. */
static void clip(const attn_attention *a, size_t b, size_t row, size_t rows, size_t *lo,
                 size_t *hi) {
    size_t from, to;
    const attn_block block = {b, 0, row, rows};
    attn_block_interval(a, &block, &from, &to);
    *lo = from > *lo ? from : *lo;
    *hi = to < *hi ? to : *hi;
}

attn_status attn_run_pool(const attn_attention *a, const attn_stats *stats,
                          const attn_run_area *area, attn_run_buffers *buf,
                          const attn_run_sum **sums, attn_error *err) {
    const size_t first = area->row << area->level, left = area->col << area->level;
    size_t end = (area->row + area->rows) << area->level;
    size_t right = (area->col + area->cols) << area->level;
    attn_status status = ATTN_OK;
    end = end < a->dims.L ? end : a->dims.L;
    right = right < a->dims.S ? right : a->dims.S;
    for (size_t c = 0; c < area->rows * area->cols; c++)
        buf->sums[c] = (attn_run_sum){.max = -INFINITY};
    for (size_t i = first; i < end && status == ATTN_OK; i += ROWS) {
        const size_t rows = end - i < ROWS ? end - i : ROWS;
        size_t lo = left, hi = right;
        clip(a, area->batch, i, rows, &lo, &hi);
        for (size_t j = lo; j < hi && status == ATTN_OK; j += CHUNK) {
            attn_range range = {area->batch, area->head, i,
                                rows,        j,          hi - j < CHUNK ? hi - j : CHUNK};
            status = pool_rows(a, stats, area, &range, buf, err);
            attn_pool_yield(buf->pool);
            status = status ? status : attn_control_check(buf->control, err);
        }
    }
    *sums = buf->sums;
    return status;
}

float attn_run_max_of(const attn_run_sum *s) {
    return s->count ? s->max : s->nan ? NAN : -INFINITY;
}

float attn_run_mean_of(const attn_run_sum *s) {
    return s->count ? (float)(s->sum / (double)s->count) : s->nan ? NAN : -INFINITY;
}
