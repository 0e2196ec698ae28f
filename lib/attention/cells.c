/* Computes any rectangle of the weights, or of the scores at a stage, after the forward pass. A
 * score depends only on its query and key, and the pass has stored the maximum and the sum of each
 * row. So every cell has the same bits as in the full matrix. */
#include "attention/cells.h"

#include <math.h>
#include <string.h>

#include "base/try.h"

struct attn_cells_scratch {
    attn_block_work work, in_double;
};

attn_cells_scratch *attn_cells_place(attn_area *area, const attn_attention_dims *d,
                                     const attn_kernels *k) {
    attn_cells_scratch *at = attn_area_take(area, 1, sizeof *at), s;
    const size_t rows = d->L < k->rows ? d->L : k->rows;
    attn_block_work_place(area, &s.work, k, rows ? rows : 1, d);
    attn_block_work_place(area, &s.in_double, &attn_kernels_ref, 1, d);
    if (area->base)
        *at = s;
    return at;
}

attn_cells_scratch *attn_cells_scratch_new(const attn_attention *a, attn_arena *arena) {
    attn_area counted = {0}, area;
    attn_cells_place(&counted, &a->dims, a->kernels);
    return attn_area_open(&area, &counted, arena) ? attn_cells_place(&area, &a->dims, a->kernels)
                                                  : NULL;
}

/* What to compute: a stage of the cells in a range. */
typedef struct request {
    const attn_attention *a;
    const attn_stats *stats; /* statistics of the pass; NULL: the kernel table computes all rows */
    const attn_range *range;
    attn_stage stage;
    char *dst;     /* [rows, cols] of the range, as elements of dims.result */
    float *logits; /* also receives the biased scores, [rows, cols]; NULL: not wanted */
    size_t ld;     /* row stride of dst */
    const attn_control *control; /* NULL: never stops */
} request;

/* Stores n elements of the kernel table's type as elements of the result. */
static void store_cells(const attn_attention *a, const attn_kernels *k, char *dst, const void *src,
                        size_t n) {
    if (k->elem == attn_dtype_size(a->dims.result)) {
        memcpy(dst, src, n * k->elem);
        return;
    }
    for (size_t i = 0; i < n; i++)
        ((float *)(void *)dst)[i] = (float)((const double *)src)[i];
}

/* Stores the cells of keys [from, from + n) of row r of a block. w->tile holds the row's scores of
 * keys j0 and after. For the stage of weights the function computes the weights from these
 * scores. */
static void store_row(const request *q, const attn_block *block, size_t r, size_t j0, size_t from,
                      size_t n, attn_block_work *w) {
    const attn_attention *a = q->a;
    const attn_kernels *k = w->kernels;
    const size_t out_row = block->i + r - q->range->row, out_col = from - q->range->col;
    const size_t elem = attn_dtype_size(a->dims.result);
    char *dst = q->dst + (out_row * q->ld + out_col) * elem;
    const char *cells = (char *)w->tile + (r * k->keys + from - j0) * k->elem;
    const bool converts = k->elem != elem;
    if (q->logits)
        attn_widen_f32(q->logits + out_row * q->range->cols + out_col, cells,
                       attn_element_dtype(k->elem), 1, n);
    if (q->stage != ATTN_STAGE_PROBS) {
        store_cells(a, k, dst, cells, n);
        return;
    }
    const size_t row = attn_row_index(a, block->b, block->h, block->i + r);
    if (q->stats->sum[row] == 0) {
        memset(dst, 0, n * elem);
        return;
    }
    attn_weigh_cells(a, k, converts ? w->line : dst, cells, n, q->stats->max[row],
                     q->stats->sum[row]);
    if (converts)
        store_cells(a, k, dst, w->line, n);
}

/* Returns whether row r of a block is of this kind (attn_stats.kind), or true if there are no
 * statistics. */
static bool is_kind(const request *q, const attn_block *block, size_t r, uint8_t kind) {
    return !q->stats ||
           q->stats->kind[attn_row_index(q->a, block->b, block->h, block->i + r)] == kind;
}

/* Stores the cells of keys [from, to), which no row of the block sees: weights of 0, or scores of
 * -INFINITY. Only rows of this kind are written. */
static void hide_keys(const request *q, const attn_block *block, size_t from, size_t to,
                      uint8_t kind) {
    const size_t n = to - from, elem = attn_dtype_size(q->a->dims.result);
    for (size_t r = 0; from < to && r < block->rows; r++) {
        const size_t row = block->i + r - q->range->row, col = from - q->range->col;
        char *dst = q->dst + (row * q->ld + col) * elem;
        if (!is_kind(q, block, r, kind))
            continue;
        if (q->logits)
            attn_elements_fill(q->logits + row * q->range->cols + col, sizeof(float), -INFINITY, n);
        attn_elements_fill(dst, elem, q->stage == ATTN_STAGE_PROBS ? 0 : -INFINITY, n);
    }
}

/* The keys whose cells are computed for a block. At a stage before ATTN_STAGE_BIASED, when the mask
 * is not applied yet, these are all keys of the range. */
typedef struct extent {
    size_t from, to;             /* keys of the range that a row of the block may see */
    size_t plain_from, plain_to; /* keys whose scores mask, biases and softcap leave unchanged */
} extent;

static extent extent_of(const request *q, const attn_block *block) {
    const size_t col = q->range->col, end = col + q->range->cols;
    extent x = {col, end, 0, 0};
    if (q->stage < ATTN_STAGE_BIASED)
        return x;
    attn_block_interval(q->a, block, &x.from, &x.to);
    attn_block_plain(q->a, block, &x.plain_from, &x.plain_to);
    x.from = x.from < col ? col : x.from > end ? end : x.from;
    x.to = x.to < x.from ? x.from : x.to > end ? end : x.to;
    return x;
}

/* Computes all cells of the range in those rows of a block that have this kind (attn_stats.kind).
 * If `packed` is NULL, the function packs the keys itself. */
static void compute_block(const request *q, const attn_block *block, const attn_packed *packed,
                          uint8_t kind, attn_block_work *w) {
    const attn_attention *a = q->a;
    const attn_kernels *k = w->kernels;
    const attn_range *range = q->range;
    const extent seen = extent_of(q, block);
    size_t ld;
    hide_keys(q, block, range->col, seen.from, kind);
    hide_keys(q, block, seen.to, range->col + range->cols, kind);
    if (seen.from == seen.to)
        return;
    const void *queries =
        attn_query_rows(a, block->b, block->h, block->i, block->rows, k->elem, w->query, &ld);
    attn_block_begin(a, block, queries, ld, w);
    for (size_t tile = seen.from / k->keys * k->keys; tile < seen.to; tile += k->keys) {
        const size_t tile_end = a->dims.S - tile < k->keys ? a->dims.S : tile + k->keys;
        const size_t from = tile < seen.from ? seen.from : tile;
        const size_t to = tile_end < seen.to ? tile_end : seen.to;
        const size_t j0 = packed ? tile : from, n = (packed ? tile_end : to) - j0;
        if (!packed)
            attn_block_load_keys(a, block->b, attn_kv_head(a, block->h), j0, n, w);
        attn_block_scores(a, block, packed, j0, n, queries, ld, q->stage >= ATTN_STAGE_SCALED, w);
        const bool plain = w->scaled && from >= seen.plain_from && to <= seen.plain_to;
        for (size_t r = 0; r < block->rows; r++) {
            if (!is_kind(q, block, r, kind))
                continue;
            if (!plain)
                attn_block_edit(a, block, r, j0, n, q->stage, w);
            store_row(q, block, r, j0, from, to - from, w);
        }
    }
}

static attn_status check_range(const request *q, attn_error *err) {
    const attn_attention_dims *d = &q->a->dims;
    const attn_range *r = q->range;
    if (r->batch >= d->B || r->head >= d->Hq || r->row > d->L || r->rows > d->L - r->row ||
        r->col > d->S || r->cols > d->S - r->col)
        return attn_fail(err, ATTN_EARG, "range",
                         "batch %zu, head %zu, rows %zu + %zu, keys %zu + %zu reach outside of "
                         "%zu x %zu x %zu x %zu",
                         r->batch, r->head, r->row, r->rows, r->col, r->cols, d->B, d->Hq, d->L,
                         d->S);
    if ((unsigned)q->stage > ATTN_STAGE_PROBS)
        return attn_fail(err, ATTN_EARG, "stage", "there is no stage of the number %d",
                         (int)q->stage);
    if (q->stage == ATTN_STAGE_PROBS && !q->stats)
        return attn_fail(err, ATTN_EARG, "stats", "weights need the statistics of a run");
    return ATTN_OK;
}

/* Computes a request: rows of kind ATTN_ROW_TABLE in blocks, unless double_only, and rows of kind
 * ATTN_ROW_DOUBLE one by one. */
static attn_status compute_request(const request *q, attn_cells_scratch *scratch, bool double_only,
                                   attn_error *err) {
    const attn_attention *a = q->a;
    const attn_range *range = q->range;
    if (q->stats && q->stats->need)
        ATTN_TRY(q->stats->need(q->stats->ctx, range, err));
    for (size_t i = 0; i < range->rows && !double_only; i += scratch->work.most_rows) {
        const size_t left = range->rows - i;
        attn_block block = {range->batch, range->head, range->row + i,
                            left < scratch->work.most_rows ? left : scratch->work.most_rows};
        compute_block(q, &block, a->packed, ATTN_ROW_TABLE, &scratch->work);
        ATTN_TRY(attn_control_check(q->control, err));
    }
    for (size_t i = 0; i < range->rows && q->stats; i++) {
        attn_block block = {range->batch, range->head, range->row + i, 1};
        if (q->stats->kind[attn_row_index(a, block.b, block.h, block.i)] == ATTN_ROW_DOUBLE)
            compute_block(q, &block, NULL, ATTN_ROW_DOUBLE, &scratch->in_double);
        ATTN_TRY(attn_control_check(q->control, err));
    }
    return ATTN_OK;
}

attn_status attn_attention_cells(const attn_attention *a, const attn_stats *stats,
                                 const attn_range *range, attn_stage stage, void *dst, size_t ld,
                                 attn_cells_scratch *scratch, attn_error *err) {
    request q = {a, stats, range, stage, dst, NULL, ld, NULL};
    ATTN_TRY(check_range(&q, err));
    return compute_request(&q, scratch, false, err);
}

attn_status attn_cells_with_logits(const attn_attention *a, const attn_stats *stats,
                                   const attn_range *range, void *weights, float *logits,
                                   attn_cells_scratch *scratch, attn_error *err) {
    request q = {a, stats, range, ATTN_STAGE_PROBS, weights, logits, range->cols, NULL};
    ATTN_TRY(check_range(&q, err));
    return compute_request(&q, scratch, false, err);
}

attn_status attn_cells_rows(const attn_attention *a, const attn_stats *stats,
                            const attn_range *range, attn_stage stage, bool double_only,
                            const attn_control *control, void *dst, attn_cells_scratch *scratch,
                            attn_error *err) {
    const request q = {a, stats, range, stage, dst, NULL, range->cols, control};
    return compute_request(&q, scratch, double_only, err);
}

/* --- the mean over the heads, and sums of rows --- */

attn_status attn_attention_mean_heads(const attn_attention_dims *d, const attn_tensor *weights,
                                      const attn_control *control, attn_arena *arena,
                                      attn_tensor *out, attn_error *err) {
    const size_t elem = attn_dtype_size(d->result), cells = d->L * d->S;
    size_t dims[ATTN_MAX_RANK], at = 0;
    *out = *weights;
    if (!d->has_heads || !weights->rank)
        return ATTN_OK;
    memcpy(dims, d->weights, sizeof dims);
    dims[d->batch_rank] = d->L;
    dims[d->batch_rank + 1] = d->S;
    const attn_tensor mean = attn_tensor_dense(attn_arena_take(arena, d->B * cells * elem),
                                               d->result, d->weights_rank - 1, dims);
    double *sums = attn_arena_zeroed(arena, 2 * d->S, sizeof *sums), *row = sums + d->S;
    ATTN_TAKEN(mean.data && sums, "the mean of the heads", err);
    for (size_t b = 0; b < d->B; b++)
        for (size_t i = 0; i < d->L; i++, at += d->S) {
            memset(sums, 0, d->S * sizeof *sums);
            for (size_t h = 0; h < d->Hq; h++) {
                const size_t from = ((b * d->Hq + h) * d->L + i) * d->S;
                attn_widen_f64(row, (const char *)weights->data + from * elem, d->result, 1, d->S);
                for (size_t j = 0; j < d->S; j++)
                    sums[j] += row[j];
            }
            for (size_t j = 0; j < d->S; j++)
                sums[j] /= (double)d->Hq;
            attn_dense_store(&mean, at, sums, d->S);
            ATTN_TRY(attn_control_check(control, err));
        }
    *out = mean;
    return ATTN_OK;
}

attn_status attn_attention_row_sums(const attn_attention_dims *d, const attn_tensor *weights,
                                    const attn_control *control, attn_arena *arena,
                                    attn_tensor *out, attn_error *err) {
    const size_t elem = attn_dtype_size(d->result), rows = d->B * d->Hq * d->L;
    *out = attn_tensor_dense(attn_arena_take(arena, rows * elem), d->result, d->rows_rank, d->rows);
    double *row = attn_arena_take(arena, d->S * sizeof *row);
    ATTN_TAKEN(out->data && row, "the sums of rows", err);
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        attn_widen_f64(row, (const char *)weights->data + i * d->S * elem, d->result, 1, d->S);
        for (size_t j = 0; j < d->S; j++)
            sum += row[j];
        attn_dense_store(out, i, &sum, 1);
        ATTN_TRY(attn_control_check(control, err));
    }
    return ATTN_OK;
}
