/* Pooling: the weights of an area are computed band by band and summed into its cells. Nothing
 * larger than a band of rows by a chunk of keys exists. A cell's sum runs over its bands, chunks,
 * rows and keys in this order, whatever was asked for, so that equal cells have equal bits. */
#include <math.h>
#include <string.h>

#include "attention/cells.h"
#include "runs/run_private.h"

enum {
    ROWS = 64,    /* of weights computed at a time */
    CHUNK = 2048, /* keys of them */
    WAYS = 8,     /* independent sums, so that additions need not wait for each other */
};

struct attn_run_lane {
    attn_cells_scratch *scratch;
    void *weights;      /* [ROWS, CHUNK] elements of the result */
    float *line;        /* [CHUNK] a row of float64 weights, rounded */
    uint8_t *keep;      /* [CHUNK] */
    attn_run_sum *sums; /* [band, cols] */
};

size_t attn_run_band(size_t level) {
    const size_t band = level < 6 ? (size_t)ROWS >> level : 0;
    return band > 2 ? band : 2;
}

bool attn_run_lane_bytes(const attn_attention_dims *d, size_t level, size_t cols, size_t *bytes) {
    attn_area scratch = {0};
    size_t sums;
    attn_cells_place(&scratch, d, attn_kernels_with(d->isa, d->precision, d->tanh_score));
    *bytes = sizeof(attn_run_lane) + ROWS * CHUNK * attn_dtype_size(d->result) +
             CHUNK * (sizeof(float) + 1) + 8 * ATTN_ALIGN + 4096;
    return !scratch.overflow && attn_size_add(*bytes, scratch.used, bytes) &&
           attn_size_mul(cols, attn_run_band(level) * sizeof(attn_run_sum), &sums) &&
           attn_size_add(*bytes, sums, bytes);
}

attn_run_lane *attn_run_lane_new(const attn_attention *a, size_t level, size_t cols,
                                 attn_arena *arena) {
    attn_run_lane *lane = attn_arena_small(arena, sizeof *lane);
    size_t sums;
    if (!lane || !attn_size_mul(cols, attn_run_band(level), &sums))
        return NULL;
    *lane = (attn_run_lane){
        .scratch = attn_cells_scratch_new(a, arena),
        .weights = attn_arena_take(arena, ROWS * CHUNK * attn_dtype_size(a->dims.result)),
        .line = attn_arena_take(arena, CHUNK * sizeof(float)),
        .keep = attn_arena_take(arena, CHUNK),
        .sums = attn_arena_zeroed(arena, sums, sizeof *lane->sums),
    };
    return lane->scratch && lane->weights && lane->line && lane->keep && lane->sums ? lane : NULL;
}

static void add_slowly(attn_run_sum *s, const float *w, const uint8_t *keep, size_t n) {
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

/* n weights of one row that belong to one cell. A hidden weight is 0 and changes neither sum nor
 * maximum, so only the count asks for `keep` (NULL: all are visible). */
static void add_weights(attn_run_sum *s, const float *w, const uint8_t *keep, size_t n) {
    double sums[WAYS] = {0}, sum = 0;
    float max[WAYS] = {0};
    size_t j = 0, count = n;
    if (n < WAYS) {
        add_slowly(s, w, keep, n);
        return;
    }
    for (; j + WAYS <= n; j += WAYS)
        for (size_t k = 0; k < WAYS; k++) {
            const float v = w[j + k];
            sums[k] += (double)v;
            max[k] = v > max[k] ? v : max[k];
        }
    for (size_t k = 0; j + k < n; k++) {
        sums[k] += (double)w[j + k];
        max[k] = w[j + k] > max[k] ? w[j + k] : max[k];
    }
    for (size_t k = 0; k < WAYS; k++)
        sum += sums[k];
    if (isnan(sum)) {
        add_slowly(s, w, keep, n);
        return;
    }
    for (size_t k = 0; keep && k < n; k++)
        count -= !keep[k];
    if (!count)
        return;
    for (size_t k = 0; k < WAYS; k++)
        s->max = max[k] > s->max ? max[k] : s->max;
    s->sum += sum;
    s->count += count;
}

/* Keys [j, j + n) of row i into the cells of its line. */
static void add_row(const attn_attention *a, const attn_run_area *area, size_t i, size_t j,
                    size_t n, const float *w, attn_run_lane *lane, attn_run_sum *line) {
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
            attn_mask_keep(a->mask, area->batch, area->head, i, from, to - from, lane->keep);
            keep = lane->keep;
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

/* The keys that any of the rows sees, cut to [*lo, *hi). */
static void clip(const attn_attention *a, size_t b, size_t row, size_t rows, size_t *lo,
                 size_t *hi) {
    size_t from, to;
    const attn_block block = {b, 0, row, rows};
    attn_block_interval(a, &block, &from, &to);
    *lo = from > *lo ? from : *lo;
    *hi = to < *hi ? to : *hi;
}

static attn_status pool_rows(const attn_attention *a, const attn_stats *stats,
                             const attn_run_area *area, attn_range *range, attn_run_lane *lane,
                             attn_error *err) {
    const size_t elem = attn_dtype_size(a->dims.result);
    attn_status status = attn_attention_cells(a, stats, range, ATTN_STAGE_PROBS, lane->weights,
                                              CHUNK, lane->scratch, err);
    for (size_t r = 0; r < range->rows && status == ATTN_OK; r++) {
        const char *w = (const char *)lane->weights + r * CHUNK * elem;
        const size_t i = range->row + r;
        if (a->dims.result == ATTN_F64) {
            attn_widen_f32(lane->line, w, ATTN_F64, 1, range->cols);
            w = (const char *)lane->line;
        }
        add_row(a, area, i, range->col, range->cols, (const float *)(const void *)w, lane,
                lane->sums + ((i >> area->level) - area->row) * area->cols);
    }
    return status;
}

attn_status attn_run_pool(const attn_attention *a, const attn_stats *stats,
                          const attn_run_area *area, attn_run_lane *lane, const attn_run_sum **sums,
                          attn_error *err) {
    const size_t first = area->row << area->level, left = area->col << area->level;
    size_t end = (area->row + area->rows) << area->level;
    size_t right = (area->col + area->cols) << area->level;
    attn_status status = ATTN_OK;
    end = end < a->dims.L ? end : a->dims.L;
    right = right < a->dims.S ? right : a->dims.S;
    for (size_t c = 0; c < area->rows * area->cols; c++)
        lane->sums[c] = (attn_run_sum){.max = -INFINITY};
    for (size_t i = first; i < end && status == ATTN_OK; i += ROWS) {
        const size_t rows = end - i < ROWS ? end - i : ROWS;
        size_t lo = left, hi = right;
        clip(a, area->batch, i, rows, &lo, &hi);
        for (size_t j = lo; j < hi && status == ATTN_OK; j += CHUNK) {
            attn_range range = {area->batch, area->head, i,
                                rows,        j,          hi - j < CHUNK ? hi - j : CHUNK};
            status = pool_rows(a, stats, area, &range, lane, err);
        }
    }
    *sums = lane->sums;
    return status;
}

float attn_run_sum_max(const attn_run_sum *s) {
    return s->count ? s->max : s->nan ? NAN : -INFINITY;
}

float attn_run_sum_mean(const attn_run_sum *s) {
    return s->count ? (float)(s->sum / (double)s->count) : s->nan ? NAN : -INFINITY;
}
