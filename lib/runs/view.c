/* The matrices that tiles show: weights, normalised weights, means over heads, and differences of
 * two runs. Each number is computed in double from the weights and rounded to float32 once, before
 * pooling.
 *
 * The largest weight of a row is the weight of its largest score, and this score is in the
 * statistics. With sinks the largest score may be that of a sink, and normalisers other than softmax
 * store no largest score. Then the weights of the row are computed to find the largest weight of a key. */
#include <math.h>
#include <string.h>

#include "attention/mix_weights.h"
#include "base/try.h"
#include "runs/pooling.h"

enum { ROWS = ATTN_RUN_ROWS, CHUNK = ATTN_RUN_CHUNK };

attn_run_matrix attn_run_matrix_of(const attn_run_site *site, const attn_run_view *view) {
    attn_run_matrix m = {.terms = {{site->op, &site->stats}},
                         .count = 1,
                         .normalize = view->normalize,
                         .mean_heads = view->mean_heads};
    if (view->against)
        m.terms[m.count++] = (attn_run_term){view->against->op, &view->against->stats};
    return m;
}

static bool is_mixed(const attn_run_matrix *m) {
    return m->count > 1 || m->mean_heads;
}

void attn_run_clip(const attn_run_matrix *m, size_t batch, size_t row, size_t rows, size_t *lo,
                   size_t *hi) {
    const attn_block block = {batch, 0, row, rows};
    size_t first = *hi, last = *lo;
    for (size_t t = 0; t < m->count; t++) {
        size_t from, to;
        attn_block_interval(m->terms[t].a, &block, &from, &to);
        first = from < first ? from : first;
        last = to > last ? to : last;
    }
    *lo = first > *lo ? first : *lo;
    *hi = last < *hi ? last : *hi;
}

void attn_run_keep(const attn_attention *a, const attn_range *at, uint8_t *keep) {
    const attn_mask *mask = a->mask;
    const size_t reads = a->dims.factors && !attn_mask_same_heads(mask) ? a->dims.reads : 1;
    const size_t head = !a->dims.factors ? at->head : attn_mix_head(&a->dims, at->head, 0);
    uint8_t one[CHUNK];
    attn_mask_keep(mask, at->batch, head, at->row, at->col, at->cols, keep);
    for (size_t n = 1; n < reads; n++)
        for (size_t j = 0; j < at->cols; j += CHUNK) {
            const size_t cols = at->cols - j < CHUNK ? at->cols - j : CHUNK;
            attn_mask_keep(mask, at->batch, attn_mix_head(&a->dims, at->head, n), at->row,
                           at->col + j, cols, one);
            for (size_t k = 0; k < cols; k++)
                keep[j + k] |= one[k];
        }
}

const uint8_t *attn_run_visible_keys(const attn_attention *a, const attn_range *row, size_t *from,
                                     size_t *to, uint8_t *keep) {
    size_t lo, hi;
    if (attn_mask_fills(a->mask))
        return NULL;
    attn_mask_interval(a->mask, row->batch, row->row, &lo, &hi);
    *from = lo > *from ? lo : *from;
    *to = hi < *to ? hi : *to;
    if (*from >= *to || !attn_mask_hides_cells(a->mask))
        return NULL;
    const attn_range part = {row->batch, row->head, row->row, 1, *from, *to - *from};
    attn_run_keep(a, &part, keep);
    return keep;
}

/* --- the number that normalises a row --- */

/* Returns the number of keys that a row sees. `keep` [CHUNK] is working memory. */
static size_t keys_of_row(const attn_attention *a, const attn_range *at, uint8_t *keep) {
    size_t count = 0;
    for (size_t j = 0; j < a->dims.S; j += CHUNK) {
        size_t from = j, to = a->dims.S - j < CHUNK ? a->dims.S : j + CHUNK;
        const uint8_t *kept = attn_run_visible_keys(a, at, &from, &to, keep);
        for (size_t k = from; k < to; k++)
            count += kept ? kept[k - from] != 0 : 1;
    }
    return count;
}

/* Returns the weight of the row's largest score, or 0 if the row sees no key. The operation must
 * have no sinks, and its normaliser must be softmax. */
static double top_weight(const attn_run_term *t, size_t row) {
    const attn_kernels *k =
        t->stats->kind[row] == ATTN_ROW_DOUBLE ? &attn_kernels_ref : t->a->kernels;
    const double max = t->stats->max[row], sum = t->stats->sum[row];
    double wide = max;
    float narrow = (float)max;
    if (sum == 0)
        return 0;
    if (k->elem == sizeof wide)
        k->weights(&wide, &wide, 1, max, sum);
    else
        k->weights(&narrow, &narrow, 1, max, sum);
    return k->elem != sizeof wide          ? (double)narrow
           : t->a->dims.result == ATTN_F64 ? wide
                                           : (double)(float)wide;
}

/* Computes the rows of the range, and sets top[r] to the largest weight of row r. */
static attn_status scan_rows(const attn_run_term *t, attn_range range, attn_cells_scratch *scratch,
                             attn_run_buffers *buf, double *top, attn_error *err) {
    const size_t elem = attn_dtype_size(t->a->dims.result);
    size_t end = t->a->dims.S;
    const attn_block block = {range.batch, range.head, range.row, range.rows};
    attn_block_interval(t->a, &block, &range.col, &end);
    for (size_t r = 0; r < range.rows; r++)
        top[r] = 0;
    for (; range.col < end; range.col += CHUNK) {
        range.cols = end - range.col < CHUNK ? end - range.col : CHUNK;
        ATTN_TRY(attn_attention_cells(t->a, t->stats, &range, ATTN_STAGE_PROBS, buf->weights, CHUNK,
                                      scratch, err));
        for (size_t c = 0; c < range.rows * range.cols; c++) {
            const size_t r = c / range.cols;
            const double w = attn_element(buf->weights, elem, r * CHUNK + c % range.cols);
            top[r] = w > top[r] ? w : top[r];
        }
        attn_pool_yield(buf->pool);
        ATTN_TRY(attn_control_check(buf->control, err));
    }
    return ATTN_OK;
}

/* Computes the number that normalises each row of a range, for one term. */
static attn_status factors_of(const attn_run_matrix *m, const attn_run_term *t,
                              const attn_range *range, attn_cells_scratch *scratch,
                              attn_run_buffers *buf, double *factors, attn_error *err) {
    const attn_attention *a = t->a;
    if (m->normalize == ATTN_RUN_ROW_MAX &&
        (a->in.sinks.rank || a->dims.normalizer || a->dims.factors))
        return scan_rows(t, *range, scratch, buf, factors, err);
    if (m->normalize == ATTN_RUN_ROW_MAX && t->stats->need)
        ATTN_TRY(t->stats->need(t->stats->ctx, range, err));
    for (size_t r = 0; r < range->rows; r++) {
        const attn_range at = {.batch = range->batch, .head = range->head, .row = range->row + r};
        factors[r] = m->normalize == ATTN_RUN_ROW_MAX
                         ? top_weight(t, attn_row_index(a, at.batch, at.head, at.row))
                         : (double)keys_of_row(a, &at, buf->keep);
    }
    return ATTN_OK;
}

/* Sets [*from, *to) to the heads whose weights are computed for the matrix of `head`. */
static void heads_of(const attn_run_matrix *m, size_t head, size_t *from, size_t *to) {
    *from = m->mean_heads ? 0 : head;
    *to = m->mean_heads ? m->terms[0].a->dims.Ho : head + 1;
}

attn_status attn_run_factors(const attn_run_matrix *m, const attn_run_area *area, size_t row,
                             size_t rows, attn_run_buffers *buf, attn_error *err) {
    double *to = buf->factors;
    size_t from, end;
    heads_of(m, area->head, &from, &end);
    for (size_t t = 0; t < m->count && m->normalize != ATTN_RUN_AS_IS; t++)
        for (size_t h = from; h < end; h++, to += ROWS) {
            const attn_range range = {.batch = area->batch, .head = h, .row = row, .rows = rows};
            ATTN_TRY(factors_of(m, &m->terms[t], &range, buf->scratch[t], buf, to, err));
        }
    return ATTN_OK;
}

static void normalise_wide(attn_run_normalize how, double *w, size_t n, double factor) {
    if (how == ATTN_RUN_UNIFORM)
        for (size_t j = 0; j < n; j++)
            w[j] *= factor;
    else if (how == ATTN_RUN_ROW_MAX && factor != 0)
        for (size_t j = 0; j < n; j++)
            w[j] /= factor;
}

/* Does the same for float32. A quotient of floats has the same bits as the quotient in double
 * rounded to float32. */
static void normalise_narrow(attn_run_normalize how, float *w, size_t n, double factor) {
    const float by = (float)factor;
    if (how == ATTN_RUN_UNIFORM)
        for (size_t j = 0; j < n; j++)
            w[j] = (float)((double)w[j] * factor);
    else if (how == ATTN_RUN_ROW_MAX && factor != 0)
        for (size_t j = 0; j < n; j++)
            w[j] /= by;
}

/* --- blocks --- */

/* Adds the normalised weights of one head to the term's part of buf->mixed, and their visibility to
 * buf->seen. */
static attn_status mix_head(const attn_run_matrix *m, size_t term, size_t head,
                            const attn_range *range, const double *factors, attn_run_buffers *buf,
                            attn_error *err) {
    const attn_attention *a = m->terms[term].a;
    const attn_dtype type = a->dims.result;
    attn_range own = *range;
    own.head = head;
    ATTN_TRY(attn_attention_cells(a, m->terms[term].stats, &own, ATTN_STAGE_PROBS, buf->weights,
                                  CHUNK, buf->scratch[term], err));
    for (size_t r = 0; r < range->rows; r++) {
        double *to = buf->mixed + (term * ROWS + r) * CHUNK, *row = buf->wide;
        size_t from = range->col, end = range->col + range->cols;
        const attn_range at = {.batch = range->batch, .head = head, .row = range->row + r};
        const uint8_t *keep = attn_run_visible_keys(a, &at, &from, &end, buf->keep);
        attn_widen_f64(row, (const char *)buf->weights + r * CHUNK * attn_dtype_size(type), type, 1,
                       range->cols);
        normalise_wide(m->normalize, row, range->cols, factors[r]);
        for (size_t j = 0; j < range->cols; j++)
            to[j] += row[j];
        uint8_t *seen = buf->seen + r * CHUNK + (from - range->col);
        for (size_t j = 0; from + j < end; j++)
            seen[j] |= keep ? keep[j] : 1;
    }
    return ATTN_OK;
}

static attn_status mix_heads(const attn_run_matrix *m, const attn_range *range,
                             attn_run_buffers *buf, attn_error *err) {
    const double *factors = buf->factors;
    size_t from, end;
    heads_of(m, range->head, &from, &end);
    memset(buf->mixed, 0, m->count * ROWS * CHUNK * sizeof *buf->mixed);
    memset(buf->seen, 0, ROWS * CHUNK);
    for (size_t t = 0; t < m->count; t++)
        for (size_t h = from; h < end; h++, factors += ROWS) {
            ATTN_TRY(mix_head(m, t, h, range, factors, buf, err));
            attn_pool_yield(buf->pool);
            ATTN_TRY(attn_control_check(buf->control, err));
        }
    return ATTN_OK;
}

attn_status attn_run_block(const attn_run_matrix *m, const attn_range *range, attn_run_buffers *buf,
                           attn_error *err) {
    const attn_run_term *t = &m->terms[0];
    if (is_mixed(m))
        return mix_heads(m, range, buf, err);
    ATTN_TRY(attn_attention_cells(t->a, t->stats, range, ATTN_STAGE_PROBS, buf->weights, CHUNK,
                                  buf->scratch[0], err));
    attn_pool_yield(buf->pool);
    return attn_control_check(buf->control, err);
}

static attn_run_row mixed_row(const attn_run_matrix *m, const attn_range *range, size_t r,
                              attn_run_buffers *buf) {
    double *first = buf->mixed + r * CHUNK, *second = first + ROWS * CHUNK;
    for (size_t t = 0; t < m->count && m->mean_heads; t++)
        for (size_t j = 0; j < range->cols; j++)
            (t ? second : first)[j] /= (double)m->terms[0].a->dims.Ho;
    for (size_t j = 0; j < range->cols; j++)
        buf->line[j] = (float)(m->count > 1 ? first[j] - second[j] : first[j]);
    return (attn_run_row){.w = buf->line,
                          .col = range->col,
                          .n = range->cols,
                          .from = range->col,
                          .to = range->col + range->cols,
                          .keep = buf->seen + r * CHUNK};
}

attn_run_row attn_run_row_of(const attn_run_matrix *m, const attn_range *range, size_t r,
                             attn_run_buffers *buf) {
    const attn_attention *a = m->terms[0].a;
    const size_t n = range->cols;
    attn_run_row row = {.col = range->col, .n = n, .from = range->col, .to = range->col + n};
    if (is_mixed(m))
        return mixed_row(m, range, r, buf);
    if (a->dims.result == ATTN_F64) {
        double *w = (double *)buf->weights + r * CHUNK;
        normalise_wide(m->normalize, w, n, buf->factors[r]);
        attn_widen_f32(buf->line, w, ATTN_F64, 1, n);
        row.w = buf->line;
    } else {
        float *w = (float *)buf->weights + r * CHUNK;
        normalise_narrow(m->normalize, w, n, buf->factors[r]);
        row.w = w;
    }
    const attn_range at = {.batch = range->batch, .head = range->head, .row = range->row + r};
    row.keep = attn_run_visible_keys(a, &at, &row.from, &row.to, buf->keep);
    return row;
}
