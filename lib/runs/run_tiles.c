/* Pools the weights of a stored run to cells: maximum and mean of the visible weights in a square
 * of 2^level x 2^level.
 *
 * The overview of an image holds all cells of two high levels. A tile of these levels is copied
 * from the overview. Tiles of other levels are computed from the inputs when they are requested.
 *
 * Making the overview computes all weights once. Its work is divided into pieces for the thread
 * pool. A piece is two rows of cells of the lower level, from which it also computes one row of the
 * level above. Each thread of the pool has one set of buffers (thread_buffers). */
#include <math.h>
#include <string.h>

#include "attention/cells.h"
#include "attention/resolved.h"
#include "runs/run_private.h"

enum {
    ROWS = 64,    /* rows of weights that are computed together */
    CHUNK = 2048, /* columns (keys) of weights that are computed together */
    /* independent partial sums, so that an addition does not wait for the result of the previous
     * one */
    PARTIAL_SUMS = 8,
};

/* The cells [row, row + rows) x [col, col + cols) of a level, of one head. Units are cells. */
typedef struct cell_area {
    size_t batch, head, level, row, rows, col, cols;
} cell_area;

/* Statistics of the weights in one cell. */
typedef struct cell_sum {
    double sum;
    size_t count; /* visible weights that are not NaN */
    float max;
    bool nan;
} cell_sum;

/* The buffers of one thread. */
typedef struct thread_buffers {
    attn_cells_scratch *scratch;
    void *weights;  /* [ROWS, CHUNK] weights in the type of the results */
    float *line;    /* [CHUNK] a row of float64 weights, rounded to float32 */
    uint8_t *keep;  /* [CHUNK] visibility of the weights in a row */
    cell_sum *sums; /* [rows_per_piece(level), cols] */
} thread_buffers;

/* Returns the number of rows of cells that a piece of work computes: those that cover ROWS rows of
 * weights, but at least 2. */
static size_t rows_per_piece(size_t level) {
    const size_t rows = level < 6 ? (size_t)ROWS >> level : 0;
    return rows > 2 ? rows : 2;
}

bool attn_run_buffer_bytes(const attn_attention_dims *d, size_t level, size_t cols, size_t *bytes) {
    attn_area scratch = {0};
    size_t sums;
    attn_cells_place(&scratch, d, attn_kernels_with(d->isa, d->precision, d->tanh_score));
    *bytes = sizeof(thread_buffers) + ROWS * CHUNK * attn_dtype_size(d->result) +
             CHUNK * (sizeof(float) + 1) + 8 * ATTN_ALIGN + 4096;
    return !scratch.overflow && attn_size_add(*bytes, scratch.used, bytes) &&
           attn_size_mul(cols, rows_per_piece(level) * sizeof(cell_sum), &sums) &&
           attn_size_add(*bytes, sums, bytes);
}

/* Allocates the buffers of one thread for pieces with rows of `cols` cells. NULL: out of memory. */
static thread_buffers *new_buffers(const attn_attention *a, size_t level, size_t cols,
                                   attn_arena *arena) {
    thread_buffers *buf = attn_arena_small(arena, sizeof *buf);
    size_t sums;
    if (!buf || !attn_size_mul(cols, rows_per_piece(level), &sums))
        return NULL;
    *buf = (thread_buffers){
        .scratch = attn_cells_scratch_new(a, arena),
        .weights = attn_arena_take(arena, ROWS * CHUNK * attn_dtype_size(a->dims.result)),
        .line = attn_arena_take(arena, CHUNK * sizeof(float)),
        .keep = attn_arena_take(arena, CHUNK),
        .sums = attn_arena_zeroed(arena, sums, sizeof *buf->sums),
    };
    return buf->scratch && buf->weights && buf->line && buf->keep && buf->sums ? buf : NULL;
}

static void add_slowly(cell_sum *s, const float *w, const uint8_t *keep, size_t n) {
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

/* Adds n weights of one row to the statistics of their cell. `keep` is their visibility, or NULL if
 * all are visible. A hidden weight is 0: it leaves sum and maximum as they are, so that only the
 * count needs `keep`. */
static void add_weights(cell_sum *s, const float *w, const uint8_t *keep, size_t n) {
    double sums[PARTIAL_SUMS] = {0}, sum = 0;
    float max[PARTIAL_SUMS] = {0};
    size_t j = 0, count = n;
    if (n < PARTIAL_SUMS) {
        add_slowly(s, w, keep, n);
        return;
    }
    for (; j + PARTIAL_SUMS <= n; j += PARTIAL_SUMS)
        for (size_t k = 0; k < PARTIAL_SUMS; k++) {
            const float v = w[j + k];
            sums[k] += (double)v;
            max[k] = v > max[k] ? v : max[k];
        }
    for (size_t k = 0; j + k < n; k++) {
        sums[k] += (double)w[j + k];
        max[k] = w[j + k] > max[k] ? w[j + k] : max[k];
    }
    for (size_t k = 0; k < PARTIAL_SUMS; k++)
        sum += sums[k];
    if (isnan(sum)) {
        add_slowly(s, w, keep, n);
        return;
    }
    for (size_t k = 0; keep && k < n; k++)
        count -= !keep[k];
    if (!count)
        return;
    for (size_t k = 0; k < PARTIAL_SUMS; k++)
        s->max = max[k] > s->max ? max[k] : s->max;
    s->sum += sum;
    s->count += count;
}

/* Adds columns [j, j + n) of row i of the weights to the statistics of their cells. `line` has the
 * cells of the area's row that contains row i. */
static void add_row(const attn_attention *a, const cell_area *area, size_t i, size_t j, size_t n,
                    const float *w, thread_buffers *buf, cell_sum *line) {
    const uint8_t *keep = NULL;
    size_t from = j, to = j + n;
    if (!attn_mask_fills(a->mask)) {
        size_t lo, hi;
        attn_mask_interval(a->mask, area->batch, i, &lo, &hi);
        from = lo > from ? lo : from;
        to = hi < to ? hi : to;
        if (from >= to)
            return;
        if (attn_mask_hides_cells(a->mask)) {
            attn_mask_keep(a->mask, area->batch, area->head, i, from, to - from, buf->keep);
            keep = buf->keep;
        }
    }
    for (size_t at = from; at < to;) {
        const size_t cell = at >> area->level, end = (cell + 1) << area->level;
        const size_t stop = end < to ? end : to;
        add_weights(&line[cell - area->col], w + (at - j), keep ? keep + (at - from) : NULL,
                    stop - at);
        at = stop;
    }
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

static attn_status pool_rows(const attn_attention *a, const attn_stats *stats,
                             const cell_area *area, attn_range *range, thread_buffers *buf,
                             attn_error *err) {
    const size_t elem = attn_dtype_size(a->dims.result);
    attn_status status = attn_attention_cells(a, stats, range, ATTN_STAGE_PROBS, buf->weights,
                                              CHUNK, buf->scratch, err);
    for (size_t r = 0; r < range->rows && status == ATTN_OK; r++) {
        const char *w = (const char *)buf->weights + r * CHUNK * elem;
        const size_t i = range->row + r;
        if (a->dims.result == ATTN_F64) {
            attn_widen_f32(buf->line, w, ATTN_F64, 1, range->cols);
            w = (const char *)buf->line;
        }
        add_row(a, area, i, range->col, range->cols, (const float *)(const void *)w, buf,
                buf->sums + ((i >> area->level) - area->row) * area->cols);
    }
    return status;
}

/* Computes the statistics of the cells of an area from the weights, row-major
 * [area->rows, area->cols]. The area has at most rows_per_piece(level) rows. *sums points into the
 * thread's buffers. */
static attn_status pool_area(const attn_attention *a, const attn_stats *stats,
                             const cell_area *area, thread_buffers *buf, const cell_sum **sums,
                             attn_error *err) {
    const size_t first = area->row << area->level, left = area->col << area->level;
    size_t end = (area->row + area->rows) << area->level;
    size_t right = (area->col + area->cols) << area->level;
    attn_status status = ATTN_OK;
    end = end < a->dims.L ? end : a->dims.L;
    right = right < a->dims.S ? right : a->dims.S;
    for (size_t c = 0; c < area->rows * area->cols; c++)
        buf->sums[c] = (cell_sum){.max = -INFINITY};
    for (size_t i = first; i < end && status == ATTN_OK; i += ROWS) {
        const size_t rows = end - i < ROWS ? end - i : ROWS;
        size_t lo = left, hi = right;
        clip(a, area->batch, i, rows, &lo, &hi);
        for (size_t j = lo; j < hi && status == ATTN_OK; j += CHUNK) {
            attn_range range = {area->batch, area->head, i,
                                rows,        j,          hi - j < CHUNK ? hi - j : CHUNK};
            status = pool_rows(a, stats, area, &range, buf, err);
        }
    }
    *sums = buf->sums;
    return status;
}

/* Return the maximum and the mean of a cell: -infinity if no weight in it is visible, NaN if all
 * visible weights are NaN. */
static float max_of(const cell_sum *s) {
    return s->count ? s->max : s->nan ? NAN : -INFINITY;
}

static float mean_of(const cell_sum *s) {
    return s->count ? (float)(s->sum / (double)s->count) : s->nan ? NAN : -INFINITY;
}

/* --- the overview --- */

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
    thread_buffers **buffers;
    float **max, **mean;
    size_t rows[ATTN_RUN_PLANES], cols[ATTN_RUN_PLANES];
} maker;

static void put(const maker *m, size_t plane, size_t head, size_t row, size_t col,
                const cell_sum *sum) {
    const size_t at = (head * m->rows[plane] + row) * m->cols[plane] + col;
    m->max[plane][at] = max_of(sum);
    m->mean[plane][at] = mean_of(sum);
}

static void join(cell_sum *to, const cell_sum *from) {
    to->max = from->max > to->max ? from->max : to->max;
    to->sum += from->sum;
    to->count += from->count;
    to->nan |= from->nan;
}

static attn_status make_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    const maker *m = ctx;
    const size_t head = index / m->rows[1], top = index % m->rows[1], Hq = m->a->dims.Hq;
    const size_t cols = m->cols[0];
    const cell_area area = {.batch = head / Hq,
                            .head = head % Hq,
                            .level = m->pyramid->overview,
                            .row = 2 * top,
                            .rows = m->rows[0] - 2 * top < 2 ? 1 : 2,
                            .cols = cols};
    const cell_sum *sums;
    attn_status status = pool_area(m->a, m->stats, &area, m->buffers[lane], &sums, err);
    if (status != ATTN_OK)
        return status;
    for (size_t c = 0; c < area.rows * cols; c++)
        put(m, 0, head, area.row + c / cols, c % cols, &sums[c]);
    for (size_t c = 0; c < m->cols[1]; c++) {
        cell_sum sum = sums[2 * c];
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
    maker m = {a,   stats, pyramid, attn_arena_zeroed(arena, slots, sizeof *m.buffers),
               max, mean,  {0},     {0}};
    bool ok = take_planes(&m, arena) && m.buffers;
    for (size_t s = 0; ok && s < slots; s++)
        ok = (m.buffers[s] = new_buffers(a, pyramid->overview, m.cols[0], arena)) != NULL;
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the overview");
    return attn_pool_run(pool, a->dims.B * a->dims.Hq * m.rows[1], make_piece, &m, control, err);
}

/* --- tiles --- */

size_t attn_run_levels(const attn_run_site *site) {
    return site->pyramid.levels;
}
size_t attn_run_overview_level(const attn_run_site *site) {
    return site->pyramid.overview;
}

void attn_run_level_shape(const attn_run_site *site, size_t level, size_t shape[2]) {
    shape[0] = attn_run_cells_along(site->dims->L, level);
    shape[1] = attn_run_cells_along(site->dims->S, level);
}

static attn_status outside(attn_error *err, const char *where, const char *what, size_t found,
                           size_t count) {
    return attn_fail(err, ATTN_EARG, where, "expected one of %zu %s, counted from 0; found %zu",
                     count, what, found);
}

static size_t tiles_along(size_t cells) {
    return (cells + ATTN_RUN_TILE - 1) / ATTN_RUN_TILE;
}

attn_status attn_run_tile_shape(const attn_run_site *site, const attn_run_place *at,
                                size_t shape[2], attn_error *err) {
    size_t whole[2];
    if (at->batch >= site->dims->B)
        return outside(err, "batch", "batch entries", at->batch, site->dims->B);
    if (at->head >= site->dims->Hq)
        return outside(err, "head", "heads", at->head, site->dims->Hq);
    if (at->level >= site->pyramid.levels)
        return outside(err, "level", "levels", at->level, site->pyramid.levels);
    attn_run_level_shape(site, at->level, whole);
    if (at->y >= tiles_along(whole[0]))
        return outside(err, "y", "rows of tiles at this level", at->y, tiles_along(whole[0]));
    if (at->x >= tiles_along(whole[1]))
        return outside(err, "x", "columns of tiles at this level", at->x, tiles_along(whole[1]));
    const size_t from[2] = {at->y * ATTN_RUN_TILE, at->x * ATTN_RUN_TILE};
    for (int axis = 0; axis < 2; axis++)
        shape[axis] =
            whole[axis] - from[axis] < ATTN_RUN_TILE ? whole[axis] - from[axis] : ATTN_RUN_TILE;
    return ATTN_OK;
}

static bool from_overview(const attn_run_site *site, size_t level) {
    return site->pyramid.overview != SIZE_MAX && level >= site->pyramid.overview &&
           level - site->pyramid.overview < ATTN_RUN_PLANES;
}

attn_status attn_run_tile_cost(const attn_run_site *site, const attn_run_place *at, size_t slots,
                               attn_cost *out, attn_error *err) {
    const attn_attention_dims *d = site->dims;
    size_t shape[2], bytes, work;
    attn_status status = attn_run_tile_shape(site, at, shape, err);
    if (status != ATTN_OK)
        return status;
    attn_cost cost = {.result_bytes = 2 * shape[0] * shape[1] * sizeof(float)};
    if (!from_overview(site, at->level)) {
        if (!attn_run_buffer_bytes(d, at->level, ATTN_RUN_TILE, &bytes) ||
            !attn_size_mul(slots, bytes, &work))
            return attn_fail(err, ATTN_ELIMIT, "level", "more bytes than can be counted");
        const double side = ldexp(1, (int)at->level);
        cost.cells = fmin((double)shape[0] * side, (double)d->L) *
                     fmin((double)shape[1] * side, (double)d->S);
        cost.operations = cost.cells * 2 * (double)d->score_width;
        cost.work_bytes = work;
    }
    *out = cost;
    return ATTN_OK;
}

static void copy_cells(const attn_run_site *site, const attn_run_place *at, attn_run_tile *tile) {
    const size_t plane = at->level - site->pyramid.overview;
    size_t whole[2];
    attn_run_level_shape(site, at->level, whole);
    for (size_t r = 0; r < tile->shape[0]; r++) {
        const size_t head = at->batch * site->dims->Hq + at->head;
        const size_t from =
            (head * whole[0] + at->y * ATTN_RUN_TILE + r) * whole[1] + at->x * ATTN_RUN_TILE;
        const size_t to = r * tile->shape[1], bytes = tile->shape[1] * sizeof(float);
        memcpy(tile->max + to, site->max[plane] + from, bytes);
        memcpy(tile->mean + to, site->mean[plane] + from, bytes);
    }
}

typedef struct worker {
    const attn_run_site *site;
    const attn_run_place *at;
    thread_buffers **buffers;
    attn_run_tile *tile;
} worker;

static attn_status tile_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    const worker *w = ctx;
    attn_run_tile *tile = w->tile;
    const size_t most_rows = rows_per_piece(w->at->level), first = index * most_rows;
    const cell_area area = {.batch = w->at->batch,
                            .head = w->at->head,
                            .level = w->at->level,
                            .row = w->at->y * ATTN_RUN_TILE + first,
                            .rows = tile->shape[0] - first < most_rows ? tile->shape[0] - first
                                                                       : most_rows,
                            .col = w->at->x * ATTN_RUN_TILE,
                            .cols = tile->shape[1]};
    const cell_sum *sums;
    attn_status status =
        pool_area(w->site->op, &w->site->stats, &area, w->buffers[lane], &sums, err);
    for (size_t c = 0; c < area.rows * area.cols && status == ATTN_OK; c++) {
        tile->max[first * area.cols + c] = max_of(&sums[c]);
        tile->mean[first * area.cols + c] = mean_of(&sums[c]);
    }
    return status;
}

static attn_status compute_cells(const attn_run_site *site, const attn_run_place *at,
                                 attn_pool *pool, const attn_control *control, attn_arena *arena,
                                 attn_run_tile *tile, attn_error *err) {
    const size_t slots = attn_pool_slots(pool), most_rows = rows_per_piece(at->level);
    worker w = {site, at, attn_arena_zeroed(arena, slots, sizeof *w.buffers), tile};
    for (size_t s = 0; s < slots; s++)
        if (!w.buffers || !(w.buffers[s] = new_buffers(site->op, at->level, ATTN_RUN_TILE, arena)))
            return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the tile");
    return attn_pool_run(pool, (tile->shape[0] + most_rows - 1) / most_rows, tile_piece, &w,
                         control, err);
}

/* Finds the smallest and largest finite value of n cells (0 and 0 if there is none). Returns true
 * if all cells are hidden. */
static bool find_range(const float *cells, size_t n, float range[2]) {
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

attn_status attn_run_tile_make(const attn_run_site *site, const attn_run_place *at, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_run_tile *out,
                               attn_error *err) {
    attn_run_tile tile = {.hidden = false};
    attn_status status = attn_run_tile_shape(site, at, tile.shape, err);
    if (status != ATTN_OK)
        return status;
    const size_t cells = tile.shape[0] * tile.shape[1];
    tile.max = attn_arena_take(arena, 2 * cells * sizeof(float));
    if (!tile.max)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the tile");
    tile.mean = tile.max + cells;
    if (from_overview(site, at->level))
        copy_cells(site, at, &tile);
    else
        status = compute_cells(site, at, pool, control, arena, &tile, err);
    if (status != ATTN_OK)
        return status;
    tile.hidden = find_range(tile.max, cells, tile.range);
    find_range(tile.mean, cells, tile.mean_range);
    *out = tile;
    return ATTN_OK;
}
