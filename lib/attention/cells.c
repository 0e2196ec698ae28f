/* Computes any rectangle of the weights, or of the scores at a stage, after the forward pass. A
 * score depends only on its query and key, and the pass has stored the maximum and the sum of each
 * row. So every cell has the same bits as in the full matrix. */
#include "attention/cells.h"

#include <math.h>
#include <string.h>

#include "attention/mix_weights.h"
#include "base/try.h"

struct attn_cells_scratch {
    attn_block_work work, in_double;
    /* The members that follow are used only with mixed weights. */
    char *head;    /* [rows of work, MIX_COLUMNS]: weights of one head */
    float *logits; /* [rows of work, MIX_COLUMNS]: biased scores of one head */
    double *sums;  /* [rows of work, MIX_COLUMNS]: mixed weights */
};

enum { MIX_COLUMNS = 512 }; /* columns that are mixed together */

attn_cells_scratch *attn_cells_place(attn_area *area, const attn_attention_dims *d,
                                     const attn_kernels *k) {
    attn_cells_scratch *at = attn_area_take(area, 1, sizeof *at), s;
    const size_t rows = d->L < k->rows ? d->L : k->rows;
    attn_block_work_place(area, &s.work, k, rows ? rows : 1, d);
    attn_block_work_place(area, &s.in_double, &attn_kernels_ref, 1, d);
    const size_t mixed = d->factors ? (rows ? rows : 1) * MIX_COLUMNS : 0;
    s.head = attn_area_take(area, mixed, attn_dtype_size(d->result));
    s.logits = attn_area_take(area, mixed, sizeof *s.logits);
    s.sums = attn_area_take(area, mixed, sizeof *s.sums);
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

/* A request: which stage of the cells in a range to compute. */
typedef struct request {
    const attn_attention *a;
    const attn_stats *stats; /* statistics of the pass; NULL: the kernel table computes all rows */
    const attn_range *range;
    attn_stage stage;
    char *dst;     /* [rows, cols] of the range, as elements of dims.result */
    float *logits; /* also receives the biased scores, [rows, cols]; NULL: not wanted */
    size_t ld;     /* row stride of dst */
    bool dropped;  /* weights after dropout */
    bool of_head;  /* weights before they are mixed */
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
 * keys j0 and after. If the stage is ATTN_STAGE_PROBS, the function computes the weights from these
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
 * -INFINITY. Writes only rows of this kind. */
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

/* The keys whose cells are computed for a block. At a stage before ATTN_STAGE_BIASED the mask is
 * not applied yet, so these are all keys of the range. */
typedef struct extent {
    size_t from, to;             /* keys of the range that a row of the block may see */
    size_t plain_from, plain_to; /* keys whose scores neither mask, biases nor softcap change */
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
    const size_t heads = q->stage == ATTN_STAGE_PROBS ? d->Ho : d->Hq;
    if (r->batch >= d->B || r->head >= heads || r->row > d->L || r->rows > d->L - r->row ||
        r->col > d->S || r->cols > d->S - r->col)
        return attn_fail(err, ATTN_EARG, "range",
                         "batch %zu, head %zu, rows %zu + %zu, keys %zu + %zu reach outside of "
                         "%zu x %zu x %zu x %zu",
                         r->batch, r->head, r->row, r->rows, r->col, r->cols, d->B, heads, d->L,
                         d->S);
    if ((unsigned)q->stage > ATTN_STAGE_PROBS)
        return attn_fail(err, ATTN_EARG, "stage", "there is no stage of the number %d",
                         (int)q->stage);
    if (q->stage == ATTN_STAGE_PROBS && !q->stats)
        return attn_fail(err, ATTN_EARG, "stats", "weights need the statistics of a run");
    return ATTN_OK;
}

/* Computes a request for a head whose weights are not mixed: rows of kind ATTN_ROW_TABLE in blocks
 * (none if double_only), and rows of kind ATTN_ROW_DOUBLE one by one. */
static attn_status compute_head(const request *q, attn_cells_scratch *scratch, bool double_only,
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
    for (size_t r = 0; q->dropped && r < range->rows; r++)
        attn_drop_row(a, attn_row_index(a, range->batch, range->head, range->row + r), range->col,
                      range->cols, attn_dtype_size(a->dims.result),
                      q->dst + r * q->ld * attn_dtype_size(a->dims.result));
    return ATTN_OK;
}

/* --- mixed weights --- */

/* Mixes the weights of the part `at` of a range: at most the rows of a block and MIX_COLUMNS
 * columns. */
static attn_status mix_part(const request *q, const attn_range *at, attn_cells_scratch *scratch,
                            attn_error *err) {
    const attn_attention *a = q->a;
    const size_t elem = attn_dtype_size(a->dims.result), g = at->head, n = at->rows * at->cols;
    const size_t row = at->row - q->range->row, col = at->col - q->range->col;
    const double *factors = attn_mix_factors(a, g);
    attn_range one = *at;
    request head = {.a = a,
                    .stats = q->stats,
                    .range = &one,
                    .stage = ATTN_STAGE_PROBS,
                    .dst = scratch->head,
                    .logits = q->logits ? scratch->logits : NULL,
                    .ld = at->cols,
                    .dropped = q->dropped,
                    .control = q->control};
    memset(scratch->sums, 0, n * sizeof *scratch->sums);
    for (size_t r = 0; q->logits && r < at->rows; r++)
        attn_elements_fill(q->logits + (row + r) * q->range->cols + col, sizeof(float), -INFINITY,
                           at->cols);
    for (size_t h = 0; h < a->dims.reads; h++) {
        one.head = attn_mix_head(&a->dims, g, h);
        if (factors[h] == 0)
            continue;
        ATTN_TRY(compute_head(&head, scratch, false, err));
        attn_mix_add(scratch->sums, factors[h], scratch->head, elem, n);
        for (size_t c = 0; q->logits && c < n; c++) {
            float *to = q->logits + (row + c / at->cols) * q->range->cols + col + c % at->cols;
            *to = fmaxf(*to, scratch->logits[c]);
        }
    }
    for (size_t c = 0; c < n; c++)
        attn_element_set(q->dst, elem, (row + c / at->cols) * q->ld + col + c % at->cols,
                         scratch->sums[c]);
    return ATTN_OK;
}

static attn_status mix_weights(const request *q, attn_cells_scratch *scratch, attn_error *err) {
    const attn_range *all = q->range;
    const size_t most = scratch->work.most_rows, end = all->col + all->cols;
    for (size_t i = 0; i < all->rows; i += most)
        for (size_t j = all->col; j < end; j += MIX_COLUMNS) {
            const attn_range part = {.batch = all->batch,
                                     .head = all->head,
                                     .row = all->row + i,
                                     .rows = all->rows - i < most ? all->rows - i : most,
                                     .col = j,
                                     .cols = end - j < MIX_COLUMNS ? end - j : MIX_COLUMNS};
            ATTN_TRY(mix_part(q, &part, scratch, err));
        }
    return ATTN_OK;
}

/* Computes a request. */
static attn_status compute_request(const request *q, attn_cells_scratch *scratch, bool double_only,
                                   attn_error *err) {
    return q->a->dims.factors && q->stage == ATTN_STAGE_PROBS && !q->of_head
               ? mix_weights(q, scratch, err)
               : compute_head(q, scratch, double_only, err);
}

attn_status attn_attention_cells(const attn_attention *a, const attn_stats *stats,
                                 const attn_range *range, attn_stage stage, void *dst, size_t ld,
                                 attn_cells_scratch *scratch, attn_error *err) {
    request q = {.a = a, .stats = stats, .range = range, .stage = stage, .dst = dst, .ld = ld};
    ATTN_TRY(check_range(&q, err));
    return compute_request(&q, scratch, false, err);
}

attn_status attn_cells_with_logits(const attn_attention *a, const attn_stats *stats,
                                   const attn_range *range, void *weights, float *logits,
                                   attn_cells_scratch *scratch, attn_error *err) {
    request q = {.a = a,
                 .stats = stats,
                 .range = range,
                 .stage = ATTN_STAGE_PROBS,
                 .dst = weights,
                 .logits = logits,
                 .ld = range->cols};
    ATTN_TRY(check_range(&q, err));
    return compute_request(&q, scratch, false, err);
}

attn_status attn_cells_rows(const attn_attention *a, const attn_stats *stats,
                            const attn_range *range, const attn_cells *cells,
                            const attn_control *control, void *dst, attn_cells_scratch *scratch,
                            attn_error *err) {
    const request q = {.a = a,
                       .stats = stats,
                       .range = range,
                       .stage = cells->stage,
                       .dst = dst,
                       .ld = range->cols,
                       .dropped = cells->dropped,
                       .of_head = cells->of_head,
                       .control = control};
    return compute_request(&q, scratch, cells->double_only, err);
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
            for (size_t h = 0; h < d->Ho; h++) {
                const size_t from = ((b * d->Ho + h) * d->L + i) * d->S;
                attn_widen_f64(row, (const char *)weights->data + from * elem, d->result, 1, d->S);
                for (size_t j = 0; j < d->S; j++)
                    sums[j] += row[j];
            }
            for (size_t j = 0; j < d->S; j++)
                sums[j] /= (double)d->Ho;
            attn_dense_store(&mean, at, sums, d->S);
            ATTN_TRY(attn_control_check(control, err));
        }
    *out = mean;
    return ATTN_OK;
}

attn_status attn_attention_row_sums(const attn_attention_dims *d, const attn_tensor *weights,
                                    const attn_control *control, attn_arena *arena,
                                    attn_tensor *out, attn_error *err) {
    const size_t elem = attn_dtype_size(d->result), rows = d->B * d->Ho * d->L;
    *out = attn_tensor_dense(attn_arena_take(arena, rows * elem), d->result, d->weights_rank - 1,
                             d->weights);
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
