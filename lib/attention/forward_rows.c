/* Begins the blocks of a pass, and ends them with output, weights and statistics.
 *
 * A float kernel table computes only rows with finite inputs, without danger of overflow, and with
 * |maximum| < ATTN_WIDE. All other rows are called double-precision rows: `ref` computes them from
 * the unpacked inputs. In bit sets of rows (in_double), bit r is row r of the block. */
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "attention/cells.h"
#include "attention/forward.h"
#include "base/try.h"

/* --- finishing a row --- */

static bool is_f64(const attn_attention *a) {
    return a->dims.result == ATTN_F64;
}

static void *result_at(const attn_forward *f, const attn_tensor *t, size_t element) {
    return (char *)t->data + element * f->elem;
}

/* Converts n doubles to float. Returns false if a finite number exceeds the range of float. */
static bool narrow_row(float *dst, const double *src, size_t n) {
    bool held = true;
    for (size_t i = 0; i < n; i++) {
        dst[i] = (float)src[i];
        held &= isfinite(dst[i]) || !isfinite(src[i]);
    }
    return held;
}

/* Writes the output of the rows of a block. Returns false if a number exceeds the range of the
 * output's type. */
static bool finish_output(const attn_forward *f, const attn_block *block, const double *sum,
                          attn_block_work *w) {
    const attn_attention *a = f->a;
    const attn_kernels *k = w->kernels;
    const size_t Ev = a->dims.value_width, elem = f->elem, room = attn_acc_room(k, Ev) * k->elem;
    const ptrdiff_t at = (ptrdiff_t)(block->b * a->dims.Hq * a->dims.L * Ev) +
                         (ptrdiff_t)block->h * a->out_head + (ptrdiff_t)block->i * a->out_row;
    char *dst = (char *)attn_pass_output(f->out)->data + at * (ptrdiff_t)elem;
    if (k->elem == elem) {
        k->divide(dst, (size_t)a->out_row, w->acc, block->rows, Ev, sum);
        return true;
    }
    bool held = true;
    for (size_t r = 0; r < block->rows; r++, dst += a->out_row * (ptrdiff_t)elem)
        for (size_t e = 0; e < Ev; e += k->keys) {
            size_t n = Ev - e < k->keys ? Ev - e : k->keys;
            k->divide(w->line, n, (const char *)w->acc + r * room + e * k->elem, 1, n, &sum[r]);
            held &= narrow_row((float *)(void *)dst + e, w->line, n);
        }
    return held;
}

static attn_status overflows(const attn_attention *a, const attn_block *block, size_t r,
                             const char *what, attn_error *err) {
    char where[96];
    attn_element_path(a, 'q', block->b, block->h, block->i + r, ATTN_WHOLE_ROW, where);
    return attn_fail(err, ATTN_ENONFINITE, where,
                     "the %s of this query overflow %s; scale the inputs down (or set "
                     "allow_nonfinite)",
                     what, attn_dtype_name(a->dims.result));
}

static attn_status check_scores(const attn_attention *a, const attn_block *block, size_t r,
                                double max, attn_error *err) {
    if (a->in.allow_nonfinite || max == -INFINITY || fabs(max) <= (is_f64(a) ? DBL_MAX : FLT_MAX))
        return ATTN_OK;
    return overflows(a, block, r, "scores", err);
}

static void finish_logsumexp(const attn_forward *f, size_t row, const attn_kernels *k) {
    const double max = f->out->stats.max[row], sum = f->out->stats.sum[row];
    const double lse = f->a->dims.normalizer ? NAN : sum == 0 ? -INFINITY : k->logsumexp(max, sum);
    attn_element_set(f->out->logsumexp.data, f->elem, row, lse);
}

uint64_t attn_forward_beyond(attn_forward *f, const attn_block *block, const double *largest,
                             uint64_t in_double, const attn_kernels *k) {
    const bool narrow_range = k->elem == sizeof(float);
    size_t hidden = 0;
    for (size_t r = 0; r < block->rows; r++) {
        if (fabs(largest[r]) < ATTN_WIDE) /* nearly all rows take this path */
            continue;
        const bool empty = largest[r] == -INFINITY;
        if (narrow_range && (!empty || /* if the row sees a key, its scores are below -FLT_MAX */
                             attn_mask_sees_any(f->a->mask, block->b, block->h, block->i + r)))
            in_double |= UINT64_C(1) << r;
        hidden += empty && !(in_double >> r & 1);
    }
    if (hidden)
        atomic_fetch_add(&f->hidden_rows, hidden);
    return in_double;
}

/* Writes the statistics of the rows of a block from the block's state in *w. Returns the bit set of
 * the rows that `ref` must compute (attn_forward_beyond). These rows get a sum of 0 for now, as if
 * they saw no key. */
static uint64_t finish_statistics(attn_forward *f, const attn_block *block, uint8_t kind,
                                  uint64_t in_double, const attn_block_work *w) {
    const size_t row = attn_row_index(f->a, block->b, block->h, block->i);
    double *max = f->out->stats.max + row, *sum = f->out->stats.sum + row;
    w->kernels->statistics(w->max, w->sum, block->rows, max, sum);
    memset(f->out->stats.kind + row, kind, block->rows);
    in_double = attn_forward_beyond(f, block, max, in_double, w->kernels);
    for (size_t r = 0; r < block->rows; r++)
        if (in_double >> r & 1 || max[r] == -INFINITY)
            sum[r] = 0;
    return in_double;
}

attn_status attn_forward_end_rows(const attn_forward *f, const attn_block *block,
                                  uint64_t in_double, const double *largest, const double *divisors,
                                  attn_block_work *w, attn_error *err) {
    const attn_attention *a = f->a;
    const size_t row = attn_row_index(a, block->b, block->h, block->i);
    /* Only `ref` computes rows with maxima of ATTN_WIDE and more. */
    const bool wide = w->kernels->elem == sizeof(double);
    for (size_t r = 0; wide && r < block->rows; r++)
        if (!(in_double >> r & 1))
            ATTN_TRY(check_scores(a, block, r, largest[r], err));
    if ((f->plan.want & ATTN_WANT_OUTPUT) && !finish_output(f, block, divisors, w) &&
        !a->in.allow_nonfinite)
        /* Only double_row gets here, and its block has one row. */
        ATTN_TRY(overflows(a, block, 0, "outputs", err));
    for (size_t r = 0; (f->plan.want & ATTN_WANT_LOGSUMEXP) && r < block->rows; r++)
        finish_logsumexp(f, row + r, w->kernels);
    return ATTN_OK;
}

/* Ends rows whose statistics are those of softmax. */
static attn_status finish_rows(const attn_forward *f, const attn_block *block, uint64_t in_double,
                               attn_block_work *w, attn_error *err) {
    const size_t row = attn_row_index(f->a, block->b, block->h, block->i);
    return attn_forward_end_rows(f, block, in_double, f->out->stats.max + row,
                                 f->out->stats.sum + row, w, err);
}

/* If all weights together have more bytes than this, they leave the caches before the caller reads
 * them. So they are stored to memory without passing through the caches. */
enum { PAST_CACHES = 8 << 20 };

/* Computes the weights of a block from the numerators or edited scores that its pass kept. */
static void finish_weights(const attn_forward *f, const attn_block_run *run) {
    const attn_attention *a = f->a;
    const attn_block *block = &run->stream.block;
    const attn_kernels *k = a->kernels;
    const size_t S = a->dims.S, elem = k->elem;
    const size_t row = attn_row_index(a, block->b, block->h, block->i);
    const double *max = f->out->stats.max + row, *sum = f->out->stats.sum + row;
    const bool open = attn_mask_fills(a->mask) || attn_mask_is_open(a->mask);
    const char *kept = run->stream.kept;
    char *w = result_at(f, &f->out->weights, row * S);
    size_t from[ATTN_MOST_ROWS], to[ATTN_MOST_ROWS];
    for (size_t r = 0; r < block->rows && !open; r++)
        attn_mask_interval(a->mask, block->b, block->i + r, &from[r], &to[r]);
    if (k->finish_weights) {
        const attn_finish how = {
            .rows = block->rows,
            .n = S,
            .from = open ? NULL : from,
            .to = open ? NULL : to,
            .maxima = run->work.maxima,
            .ld_maxima = attn_block_maxima(k, S),
            .max = max,
            .sum = sum,
            .past_caches = a->dims.B * a->dims.Hq * a->dims.L * S * elem > PAST_CACHES,
        };
        k->finish_weights(w, kept, &how);
        return;
    }
    for (size_t r = 0; r < block->rows; r++, w += S * elem, kept += S * elem) {
        const size_t lo = open ? 0 : from[r], hi = open ? S : to[r];
        memset(w, 0, (sum[r] == 0 ? S : lo) * elem);
        if (sum[r] == 0)
            continue;
        k->weights(w + lo * elem, kept + lo * elem, hi - lo, max[r], sum[r]);
        memset(w + hi * elem, 0, (S - hi) * elem);
    }
}

/* --- double-precision rows --- */

/* Computes row r of a block with `ref`, in a pass of its own. */
static attn_status double_row(attn_forward *f, const attn_block *block, size_t r,
                              attn_forward_lane *l, attn_error *err) {
    const attn_attention *a = f->a;
    attn_block_work *w = &l->in_double;
    attn_block one = {block->b, block->h, block->i + r, 1};
    size_t ld;
    const void *q = attn_query_rows(a, one.b, one.h, one.i, 1, w->kernels->elem, w->query, &ld);
    const attn_stream stream = {.block = one, .q = q, .ldq = ld, .control = f->control, .w = w};
    attn_block_stream(a, &stream, 1, NULL);
    ATTN_TRY(attn_control_check(f->control, err));
    finish_statistics(f, &one, ATTN_ROW_DOUBLE, 0, w);
    return finish_rows(f, &one, 0, w, err);
}

/* Loads the queries of a block, packs them if the kernel table packs queries, and finds their
 * largest magnitude. A query that is not finite is refused if it sees a key, unless the inputs
 * allow such numbers. If it is not refused, zeros replace it, and its row is marked in
 * run->in_double. */
static attn_status load_queries(const attn_forward *f, attn_block_run *run, attn_error *err) {
    const attn_attention *a = f->a;
    const attn_block *block = &run->stream.block;
    attn_block_work *w = &run->work;
    const attn_kernels *k = w->kernels;
    const size_t E = a->dims.score_width;
    size_t ld;
    const void *q =
        attn_query_rows(a, block->b, block->h, block->i, block->rows, k->elem, w->query, &ld);
    run->in_double = 0;
    run->stream.q = q;
    run->stream.ldq = ld;
    if (k->pack_query)
        run->query_magnitude = attn_block_pack_queries(a, block, q, ld, w);
    else
        run->query_magnitude = ld == E ? k->max_magnitude(q, block->rows * E) : INFINITY;
    run->stream.query_packed = k->pack_query && isfinite(run->query_magnitude);
    run->stream.query_magnitude = run->query_magnitude;
    if (isfinite(run->query_magnitude))
        return ATTN_OK;
    run->query_magnitude = 0;
    for (size_t r = 0; r < block->rows; r++) {
        double x = k->max_magnitude((const char *)q + r * ld * k->elem, E);
        if (isfinite(x)) {
            run->query_magnitude = fmax(run->query_magnitude, x);
            continue;
        }
        ATTN_TRY(attn_refuse_query(a, block->b, block->h, block->i + r, err));
        run->in_double |= UINT64_C(1) << r;
        if (run->stream.q != w->query) {
            for (size_t c = 0; c < block->rows; c++)
                memcpy((char *)w->query + c * E * k->elem, (const char *)q + c * ld * k->elem,
                       E * k->elem);
            run->stream.q = w->query;
            run->stream.ldq = E;
        }
        memset((char *)w->query + r * E * k->elem, 0, E * k->elem);
    }
    return ATTN_OK;
}

/* Returns whether the scale is so large, above 2^80, that it would magnify the rounding errors of
 * float products, or whether the softcap is beyond the normal range of float. */
static bool has_wide_numbers(const attn_attention *a) {
    const double cap = a->in.softcap;
    return fabs(a->scale) > ATTN_MOST_SPLIT || (cap != 0 && !(cap >= FLT_MIN && cap <= FLT_MAX));
}

/* Returns whether products or sums of operands with these largest magnitudes may overflow float, or
 * whether the operands are too large to be split into bfloat16 parts. */
static bool may_overflow(const attn_attention *a, double query, double key, double value) {
    const double factor = fmax(1, fabs(a->scale));
    const double score = query * key * (double)a->dims.score_width * factor;
    const double sum =
        (value + a->rule.value_magnitude) * (double)a->dims.S / (1 - a->in.dropout_p);
    if (a->kernels->elem == sizeof(float) && has_wide_numbers(a))
        return true;
    if (a->kernels->pack_query && fmax(1, fmax(query, fmax(key, value))) * factor > ATTN_MOST_SPLIT)
        return true;
    return a->kernels->elem == sizeof(float) && (score > FLT_MAX / 4 || sum > FLT_MAX / 4);
}

/* Returns the bit set of the block's rows for whose queries may_overflow is true. `key` and `value`
 * are the largest magnitudes of keys and values. */
static uint64_t overflowing_rows(const attn_attention *a, const attn_block_run *run, double key,
                                 double value) {
    const attn_stream *s = &run->stream;
    const attn_kernels *k = run->work.kernels;
    uint64_t rows = 0;
    if (!may_overflow(a, run->query_magnitude, key, value))
        return 0;
    for (size_t r = 0; r < s->block.rows; r++) {
        const void *q = (const char *)s->q + r * s->ldq * k->elem;
        if (may_overflow(a, k->max_magnitude(q, a->dims.score_width), key, value))
            rows |= UINT64_C(1) << r;
    }
    return rows;
}

/* Returns the bit set of the rows of a block that `ref` must compute: rows that see a key or value
 * that is marked in p->bad, and rows whose products could overflow. Marked keys and values are
 * packed as zeros, so they do not affect the other rows. */
static uint64_t double_rows(const attn_attention *a, const attn_packed *p,
                            const attn_block_run *run) {
    const attn_block *block = &run->stream.block;
    const size_t first = attn_packed_tile(a, p, block->b, attn_kv_head(a, block->h), 0);
    uint64_t in_double = 0;
    double key = 0, value = 0;
    if (p->any_bad)
        for (size_t r = 0; r < block->rows; r++)
            if (attn_sees_bad(a, p, block->b, block->h, block->i + r, ATTN_BAD))
                in_double |= UINT64_C(1) << r;
    for (size_t t = 0; t < p->tiles; t++) {
        key = fmax(key, p->key_magnitude[first + t]);
        value = fmax(value, p->value_magnitude[first + t]);
    }
    return in_double | overflowing_rows(a, run, key, value);
}

attn_status attn_forward_begin(const attn_forward *f, const attn_packed *packed,
                               attn_block_run *run, attn_error *err) {
    const attn_attention *a = f->a;
    const attn_block *block = &run->stream.block;
    ATTN_TRY(load_queries(f, run, err));
    if (packed)
        run->in_double |= double_rows(a, packed, run);
    run->work.key_magnitude = run->work.value_magnitude = 0;
    run->work.maxima = run->maxima;
    if (f->plan.keeps)
        run->stream.kept =
            run->kept ? run->kept
                      : result_at(f, &f->out->weights,
                                  attn_row_index(a, block->b, block->h, block->i) * a->dims.S);
    return ATTN_OK;
}

attn_status attn_forward_end(attn_forward *f, attn_block_run *run, attn_forward_lane *l,
                             attn_error *err) {
    const attn_block *block = &run->stream.block;
    const uint64_t in_double =
        finish_statistics(f, block, ATTN_ROW_TABLE, run->in_double, &run->work);
    ATTN_TRY(finish_rows(f, block, in_double, &run->work, err));
    if (f->plan.keeps)
        finish_weights(f, run);
    for (size_t r = 0; in_double && r < block->rows; r++)
        if (in_double >> r & 1)
            ATTN_TRY(double_row(f, block, r, l, err));
    return ATTN_OK;
}

attn_status attn_forward_end_as_is(attn_forward *f, attn_block_run *run, double key, double value,
                                   attn_forward_lane *l, attn_error *err) {
    const double most = attn_most_packed(f->a->kernels);
    if (!(key <= most && value <= most)) {
        atomic_store(&f->not_finite, 1);
        return ATTN_OK;
    }
    run->in_double |= overflowing_rows(f->a, run, key, value);
    return attn_forward_end(f, run, l, err);
}
