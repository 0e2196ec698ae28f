/* Pools weights to cells.
 *
 * Weights are computed in blocks of ROWS x CHUNK. The rows of a block that belong to the same row
 * of cells are added to the cells one after the other. At LANE_LEVEL and above, a cell has eight
 * partial sums (lanes), so that an addition need not wait for the one before. The lanes are added
 * up after the last row of a row of cells. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "runs/pooling.h"

enum {
    ROWS = ATTN_RUN_ROWS,
    CHUNK = ATTN_RUN_CHUNK,
    LANE_LEVEL = 3,                         /* cells of lower levels are too narrow for lanes */
    MOST_CELLS = (CHUNK >> LANE_LEVEL) + 1, /* cells that CHUNK keys touch at LANE_LEVEL */
};

attn_run_shapes attn_run_shapes_of(const attn_run_matrix *m) {
    return (attn_run_shapes){
        .dims = {&m->terms[0].a->dims, m->count > 1 ? &m->terms[1].a->dims : NULL},
        .mean_heads = m->mean_heads};
}

void attn_run_buffers_place(attn_area *area, const attn_run_shapes *shapes, size_t rows,
                            size_t cols, attn_run_buffers *buf) {
    const size_t terms = shapes->dims[1] ? 2 : 1, mixed = terms > 1 || shapes->mean_heads;
    const size_t differs = terms - 1, heads = shapes->mean_heads ? shapes->dims[0]->Ho : 1;
    *buf = (attn_run_buffers){.pointwise = attn_pointwise_of(shapes->dims[0]->isa)};
    buf->scratch[0] = attn_run_scratch_place(area, shapes->dims[0]);
    if (differs)
        buf->scratch[1] = attn_run_scratch_place(area, shapes->dims[1]);
    buf->weights = attn_area_take(area, ROWS * CHUNK, sizeof(double));
    buf->line = attn_area_take(area, CHUNK, sizeof *buf->line);
    buf->keep = attn_area_take(area, CHUNK, 1);
    buf->factors = attn_area_take_3(area, terms, heads, ROWS, sizeof *buf->factors);
    buf->mixed = attn_area_take_3(area, mixed * terms, ROWS, CHUNK, sizeof *buf->mixed);
    buf->wide = attn_area_take(area, mixed * CHUNK, sizeof *buf->wide);
    buf->seen = attn_area_take_3(area, mixed, ROWS, CHUNK, 1);
    buf->minus = attn_area_take(area, differs * CHUNK, sizeof *buf->minus);
    buf->lanes[0] = attn_area_take(area, MOST_CELLS, sizeof *buf->lanes[0]);
    if (differs)
        buf->lanes[1] = attn_area_take(area, MOST_CELLS, sizeof *buf->lanes[1]);
    buf->sums = attn_area_take_3(area, rows, cols, 1, sizeof *buf->sums);
}

void attn_run_buffers_begin(attn_run_buffers *buf, attn_pool *pool, const attn_control *control) {
    for (int t = 0; t < 2; t++)
        if (buf->lanes[t])
            memset(buf->lanes[t], 0, MOST_CELLS * sizeof *buf->lanes[t]);
    buf->pool = pool;
    buf->control = control;
}

/* --- one row --- */

/* Returns whether a is further from 0 than b, or equally far and a > b. */
static bool is_further(float a, float b) {
    return fabsf(a) > fabsf(b) || (fabsf(a) == fabsf(b) && a > b);
}

void attn_run_join(const attn_run_matrix *m, attn_run_sum *to, const attn_run_sum *from) {
    if (m->count == 1)
        to->max = from->max > to->max ? from->max : to->max;
    else if (from->count && (!to->count || is_further(from->max, to->max)))
        to->max = from->max;
    to->sum += from->sum;
    to->count += from->count;
    to->nan |= from->nan;
}

/* Adds n weights of one row to their cell. `keep` is their visibility; NULL: all are visible. */
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

/* Adds the number of visible weights among n of one row to the count of their cell. */
static void count_visible(attn_run_sum *s, const uint8_t *keep, size_t n) {
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

/* Adds the lanes of n cells to their sums, and clears them. `minus` are the lanes of the negative
 * parts, or NULL. */
static void empty_lanes(attn_pool_lanes *lanes, attn_pool_lanes *minus, attn_run_sum *sums,
                        size_t n) {
    for (size_t c = 0; c < n; c++) {
        float max = 0, low = 0;
        for (size_t k = 0; k < POOL_LANES; k++) {
            sums[c].sum += lanes[c].sum[k] - (minus ? minus[c].sum[k] : 0);
            max = lanes[c].max[k] > max ? lanes[c].max[k] : max;
            low = minus && minus[c].max[k] > low ? minus[c].max[k] : low;
        }
        const float top = low > max ? -low : max, *known = &sums[c].max;
        const bool first = !isfinite(*known);
        if (sums[c].count && (first || (minus ? is_further(top, *known) : top > *known)))
            sums[c].max = top;
        lanes[c] = (attn_pool_lanes){.sum = {0}};
        if (minus)
            minus[c] = lanes[c];
    }
}

/* Does what add_each does, but for differences: `max` is the difference that is furthest from 0. */
static void add_signed(attn_run_sum *s, const float *w, const uint8_t *keep, size_t n) {
    for (size_t j = 0; j < n; j++) {
        if (keep && !keep[j])
            continue;
        if (isnan(w[j])) {
            s->nan = true;
            continue;
        }
        if (!s->count++ || is_further(w[j], s->max))
            s->max = w[j];
        s->sum += (double)w[j];
    }
}

/* The row of cells to which a row of weights is added. sums[0] is cell `left` of the level. */
typedef struct cell_row {
    attn_run_sum *sums;
    size_t left, level;
} cell_row;

static void add_row(const attn_run_row *p, const cell_row *to, bool differs) {
    for (size_t at = p->from; at < p->to;) {
        const size_t cell = at >> to->level, end = (cell + 1) << to->level;
        const size_t stop = end < p->to ? end : p->to;
        const uint8_t *keep = p->keep ? p->keep + (at - p->from) : NULL;
        (differs ? add_signed : add_each)(&to->sums[cell - to->left], p->w + (at - p->col), keep,
                                          stop - at);
        at = stop;
    }
}

static void count_row(const attn_run_row *p, const cell_row *to) {
    for (size_t at = p->from; at < p->to;) {
        const size_t cell = at >> to->level, end = (cell + 1) << to->level;
        const size_t stop = end < p->to ? end : p->to;
        count_visible(&to->sums[cell - to->left], p->keep ? p->keep + (at - p->from) : NULL,
                      stop - at);
        at = stop;
    }
}

/* Adds n numbers from column `col` on to the lanes of their cells; lanes[0] is the cell of column
 * `col`. None of the numbers is NaN or negative. A hidden number is 0, which changes neither sum
 * nor maximum; count_row leaves it out of the count. */
static void add_lanes(const float *w, size_t col, size_t n, size_t level,
                      const attn_pointwise *pointwise, attn_pool_lanes *lanes) {
    const size_t width = (size_t)1 << level, first = col >> level, end = col + n;
    size_t next = (first + (col % width != 0)) << level;
    next = next < end ? next : end;
    const size_t whole = (end - next) >> level, rest = next + (whole << level);
    add_few(lanes, w, next - col);
    pointwise->pool(lanes + ((next >> level) - first), w + (next - col), whole, width);
    if (rest < end)
        add_few(lanes + ((rest >> level) - first), w + (rest - col), end - rest);
}

/* Adds the positive parts of a row of differences to lanes[0] and the negative parts to
 * lanes[1]. */
static void add_differences(const attn_run_row *p, size_t level, attn_run_buffers *buf) {
    for (size_t j = 0; j < p->n; j++) {
        const float w = p->w[j];
        buf->line[j] = w > 0 ? w : 0;
        buf->minus[j] = w < 0 ? -w : 0;
    }
    add_lanes(buf->line, p->col, p->n, level, buf->pointwise, buf->lanes[0]);
    add_lanes(buf->minus, p->col, p->n, level, buf->pointwise, buf->lanes[1]);
}

/* --- blocks --- */

/* Adds the rows of a computed block to their cells. */
static void pool_rows(const attn_run_matrix *m, const attn_run_area *area, const attn_range *range,
                      attn_run_buffers *buf) {
    const size_t level = area->level;
    const size_t first = range->col >> level, last = (range->col + range->cols - 1) >> level;
    const bool differs = m->count > 1;
    const bool in_lanes = level >= LANE_LEVEL && !m->terms[0].a->in.allow_nonfinite &&
                          (!differs || !m->terms[1].a->in.allow_nonfinite);
    for (size_t r = 0; r < range->rows; r++) {
        const size_t i = range->row + r, row = (i >> level) - area->row;
        const cell_row to = {buf->sums + row * area->cols, area->col, level};
        const attn_run_row part = attn_run_row_of(m, range, r, buf);
        if (!in_lanes) {
            add_row(&part, &to, differs);
            continue;
        }
        count_row(&part, &to);
        if (differs)
            add_differences(&part, level, buf);
        else
            add_lanes(part.w, part.col, part.n, level, buf->pointwise, buf->lanes[0]);
        if (r + 1 == range->rows || (i + 1) >> level != i >> level)
            empty_lanes(buf->lanes[0], buf->lanes[1], to.sums + (first - area->col),
                        last - first + 1);
    }
}

attn_status attn_run_pool(const attn_run_matrix *m, const attn_run_area *area,
                          attn_run_buffers *buf, const attn_run_sum **sums, attn_error *err) {
    const attn_attention_dims *d = &m->terms[0].a->dims;
    const size_t first = area->row << area->level, left = area->col << area->level;
    size_t end = (area->row + area->rows) << area->level;
    size_t right = (area->col + area->cols) << area->level;
    end = end < d->L ? end : d->L;
    right = right < d->S ? right : d->S;
    for (size_t c = 0; c < area->rows * area->cols; c++)
        buf->sums[c] = (attn_run_sum){.max = -INFINITY};
    for (size_t i = first; i < end; i += ROWS) {
        const size_t rows = end - i < ROWS ? end - i : ROWS;
        size_t lo = left, hi = right;
        attn_run_clip(m, area->batch, i, rows, &lo, &hi);
        if (lo < hi)
            ATTN_TRY(attn_run_factors(m, area, i, rows, buf, err));
        for (size_t j = lo; j < hi; j += CHUNK) {
            attn_range range = {area->batch, area->head, i,
                                rows,        j,          hi - j < CHUNK ? hi - j : CHUNK};
            ATTN_TRY(attn_run_block(m, &range, buf, err));
            pool_rows(m, area, &range, buf);
        }
    }
    *sums = buf->sums;
    return ATTN_OK;
}

float attn_run_max_of(const attn_run_sum *s) {
    return s->count ? s->max : s->nan ? NAN : -INFINITY;
}

float attn_run_mean_of(const attn_run_sum *s) {
    return s->count ? (float)(s->sum / (double)s->count) : s->nan ? NAN : -INFINITY;
}

bool attn_run_find_range(const float *cells, size_t n, float range[2]) {
    float low = INFINITY, high = -INFINITY;
    bool hidden = true;
    for (size_t c = 0; c < n; c++) {
        hidden &= cells[c] == -INFINITY;
        if (!isfinite(cells[c]))
            continue;
        low = cells[c] < low ? cells[c] : low;
        high = cells[c] > high ? cells[c] : high;
    }
    range[0] = low <= high ? low : 0;
    range[1] = low <= high ? high : 0;
    return hidden;
}
