/* ATTN_STEP_NORMALIZED: a piece computes one block of an operation whose normaliser is not softmax.
 *
 * The pass goes over the keys twice. First it collects the edited scores of the rows in memory of
 * the lane. Then the statistics of each row are known (normalizer.h), and it turns the scores into
 * weights tile by tile and adds the weighted values. Weights that are wanted are computed
 * afterwards, cell by cell, as with softmax. */
#include "attention/forward.h"

#include <math.h>
#include <string.h>

#include "base/try.h"

/* Narrows the keys of the tile that begins at `tile` to those that the block visits: [*from, *to)
 * within [lo, hi). Returns false if there are none. */
static bool visited(const attn_attention *a, const attn_stream *s, size_t tile, size_t lo,
                    size_t hi, size_t *from, size_t *to) {
    const attn_kernels *k = s->w->kernels;
    *from = lo > tile ? lo : tile;
    *to = hi - tile < k->keys ? hi : tile + k->keys;
    attn_block_narrow(a, &s->block, k, from, to);
    return *from < *to;
}

/* Computes the edited scores of the block in scores [rows, S]. */
static void collect_scores(const attn_attention *a, const attn_stream *s, const attn_packed *packed,
                           void *scores, size_t lo, size_t hi) {
    const attn_block *block = &s->block;
    attn_block_work *w = s->w;
    const attn_kernels *k = w->kernels;
    const size_t S = a->dims.S;
    size_t from, to;
    attn_elements_fill(scores, k->elem, -INFINITY, block->rows * S);
    for (size_t tile = lo / k->keys * k->keys; tile < hi; tile += k->keys) {
        if (!visited(a, s, tile, lo, hi, &from, &to))
            continue;
        if (!packed)
            attn_block_load_keys(a, block->b, attn_kv_head(a, block->h), from, to - from, w);
        attn_block_scores(a, block, packed, from, to - from, s->q, s->ldq, true, w);
        for (size_t r = 0; r < block->rows; r++) {
            attn_block_edit(a, block, r, from, to - from, ATTN_STAGE_BIASED, w);
            memcpy(attn_row_of(scores, r * S + from, 1, k), attn_row_of(w->tile, r, k->keys, k),
                   (to - from) * k->elem);
        }
        if (attn_control_check(s->control, NULL) != ATTN_OK)
            return;
    }
}

/* Turns the scores into weights, tile by tile, and adds the weighted values to w->acc. */
static void add_values(const attn_attention *a, const attn_stream *s, const attn_packed *packed,
                       const void *scores, size_t lo, size_t hi, const attn_normalized_row *rows) {
    const attn_block *block = &s->block;
    attn_block_work *w = s->w;
    const attn_kernels *k = w->kernels;
    size_t from, to;
    for (size_t tile = lo / k->keys * k->keys; tile < hi; tile += k->keys) {
        if (!visited(a, s, tile, lo, hi, &from, &to))
            continue;
        memset(w->tile, 0, block->rows * k->keys * k->elem);
        for (size_t r = 0; r < block->rows; r++)
            attn_normalizer_weights(a, attn_row_of(w->tile, r, k->keys, k),
                                    (const char *)scores + (r * a->dims.S + from) * k->elem,
                                    k->elem, to - from, rows[r].threshold, rows[r].divisor);
        if (!packed)
            attn_block_load_values(a, block->b, attn_kv_head(a, block->h), from, to - from, w);
        attn_block_drop(a, block, from, to - from, w);
        attn_block_accumulate(a, block, packed, from, to - from, w);
        if (attn_control_check(s->control, NULL) != ATTN_OK)
            return;
    }
}

void attn_block_normalize(const attn_attention *a, const attn_stream *s, const attn_packed *packed,
                          void *scores, attn_normalized_row *rows) {
    const attn_block *block = &s->block;
    attn_block_work *w = s->w;
    const attn_kernels *k = w->kernels;
    size_t lo, hi;
    attn_block_start(a, s);
    memset(w->acc, 0, block->rows * attn_acc_room(k, a->dims.value_width) * k->elem);
    attn_elements_fill(w->factor, k->elem, 1, block->rows);
    attn_block_interval(a, block, &lo, &hi);
    collect_scores(a, s, packed, scores, lo, hi);
    for (size_t r = 0; r < block->rows; r++)
        rows[r] =
            attn_normalizer_row(a, block->h, attn_row_sink(a, block->b, block->h, block->i + r),
                                (char *)scores + r * a->dims.S * k->elem, k->elem, a->dims.S);
    add_values(a, s, packed, scores, lo, hi, rows);
    attn_block_add_terms(a, block, w);
}

/* Returns the bit set of the rows whose sums of weighted values exceed the range of the kernel
 * table. */
static uint64_t overflowing(const attn_attention *a, const attn_block *block,
                            const attn_block_work *w) {
    const attn_kernels *k = w->kernels;
    const size_t room = attn_acc_room(k, a->dims.value_width);
    uint64_t rows = 0;
    for (size_t r = 0; k->elem == sizeof(float) && r < block->rows; r++)
        if (!isfinite(k->max_magnitude(attn_row_of(w->acc, r, room, k), a->dims.value_width)))
            rows |= UINT64_C(1) << r;
    return rows;
}

/* Computes a block with the work area of the stream, and writes its rows. *in_double is the set of
 * rows that `ref` must compute; the function may add rows. */
static attn_status compute(attn_forward *f, const attn_stream *s, const attn_packed *packed,
                           uint8_t kind, void *scores, uint64_t *in_double, attn_error *err) {
    const attn_attention *a = f->a;
    const attn_block *block = &s->block;
    const size_t first = attn_row_index(a, block->b, block->h, block->i);
    attn_normalized_row rows[ATTN_MOST_ROWS];
    double largest[ATTN_MOST_ROWS], divisors[ATTN_MOST_ROWS];
    attn_block_normalize(a, s, packed, scores, rows);
    ATTN_TRY(attn_control_check(f->control, err));
    for (size_t r = 0; r < block->rows; r++)
        largest[r] = rows[r].largest;
    *in_double |= overflowing(a, block, s->w);
    *in_double = attn_forward_beyond(f, block, largest, *in_double, s->w->kernels);
    for (size_t r = 0; r < block->rows; r++) {
        const bool none = *in_double >> r & 1 || rows[r].divisor == 0;
        f->out->stats.max[first + r] = rows[r].threshold;
        f->out->stats.sum[first + r] = none ? 0 : rows[r].divisor;
        f->out->stats.kind[first + r] = kind;
        divisors[r] = none ? 0 : 1; /* weights are already divided by the divisor */
    }
    return attn_forward_end_rows(f, block, *in_double, largest, divisors, s->w, err);
}

attn_status attn_forward_normalized(void *work, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = work;
    const attn_attention *a = f->a;
    attn_forward_lane *l = &f->lanes[lane];
    attn_block_run *run = l->runs;
    run->stream = (attn_stream){.block = attn_block_at(&a->dims, a->kernels, index),
                                .control = f->control,
                                .w = &run->work};
    ATTN_TRY(attn_forward_begin(f, f->packed, run, err));
    uint64_t in_double = run->in_double;
    ATTN_TRY(compute(f, &run->stream, f->packed, ATTN_ROW_TABLE, l->scores, &in_double, err));
    for (size_t r = 0; in_double && r < run->stream.block.rows; r++) {
        attn_stream one = {.control = f->control, .w = &l->in_double};
        uint64_t none = 0;
        if (!(in_double >> r & 1))
            continue;
        one.block = run->stream.block;
        one.block.i += r;
        one.block.rows = 1;
        one.q = attn_query_rows(a, one.block.b, one.block.h, one.block.i, 1, sizeof(double),
                                l->in_double.query, &one.ldq);
        ATTN_TRY(compute(f, &one, NULL, ATTN_ROW_DOUBLE, l->scores, &none, err));
    }
    return ATTN_OK;
}
