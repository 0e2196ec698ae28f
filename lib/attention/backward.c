/* The pieces of the backward pass, and the order in which they visit tiles:
 *
 *                             |     chunk 0     |     chunk 1     |
 *                       keys: | tile 0 | tile 1 | tile 2 | tile 3 |
 *   block 0 of queries        |   1    |   3    |   1    |   3    |
 *   block 1 of queries        |   2    |   4    |   2    |   4    |
 *
 * A piece goes over one chunk of the tiles of one key/value head, in the order of the numbers. The
 * blocks are those of all query heads that share this head. dK and dV of a tile are sums over all
 * blocks, and dQ of a block is a sum over all tiles. Each chunk has a partial sum of dQ of its own.
 *
 * The chunks depend on the shapes alone, and their sums are added up in order, so the size of the
 * pool does not change a bit of the result. The backward pass of FlashAttention (Dao et al., 2022,
 * algorithm 4) has the same loops. */
#include "attention/backward.h"
#include "attention/encodings.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "attention/forward.h"
#include "base/try.h"

/* --- the main pass --- */

/* Computes the gradients of queries, keys and the vector v from dS in l->grad, for scores with
 * tanh. */
static void back_tanh(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                      const void *q, size_t ldq, char *dquery, attn_backward_lane *l,
                      attn_backward_sums *sums) {
    const attn_attention *a = g->a;
    const attn_kernels *k = g->k;
    const void *keys = l->work.packed_key;
    if (g->packed)
        keys = g->packed->keys + g->packed->key_bytes * attn_packed_tile(a, g->packed, block->b,
                                                                         attn_kv_head(a, block->h),
                                                                         j0 / k->keys);
    const attn_tanh_backward back = {.q = q,
                                     .packed_key = keys,
                                     .v = k == a->kernels ? a->score_v : a->score_v_wide,
                                     .ldq = ldq,
                                     .width = a->dims.score_width,
                                     .dq = dquery,
                                     .lddq = attn_acc_room(k, a->dims.score_width),
                                     .dkey = l->dkey_tanh,
                                     .dv = sums->v};
    k->score_tanh_backward(&back, l->grad, block->rows, n);
}

/* Zeroes rows first … first + n - 1 of an accumulator. */
static void clear_rows(const attn_kernels *k, char *acc, size_t first, size_t n, size_t width) {
    const size_t bytes = attn_acc_room(k, width) * k->elem;
    memset(acc + first * bytes, 0, n * bytes);
}

/* Zeroes dK and dV of keys j0 … j0 + n - 1 of a key/value head, if no block has visited these
 * keys. */
static void clear_keys(const attn_backward *g, size_t head, size_t j0, size_t n) {
    const attn_attention_dims *d = &g->a->dims;
    clear_rows(g->k, g->dkey, head * d->S + j0, n, d->score_width);
    clear_rows(g->k, g->dvalue, head * d->S + j0, n, d->value_width);
}

/* Adds the gradients of one block against keys j0 … j0 + n - 1 to all sums. If `begins`, dK and dV
 * of these keys are overwritten instead. */
static void back_block_tile(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                            size_t chunk, bool begins, attn_backward_lane *l,
                            attn_backward_sums *sums) {
    const attn_attention *a = g->a;
    const attn_attention_dims *d = &a->dims;
    const attn_kernels *k = g->k;
    const size_t at = attn_backward_place(g, block, l);
    const size_t E = d->score_width, hkv = attn_kv_head(a, block->h);
    const size_t query =
        chunk * d->B * d->Hq * d->L + attn_row_index(a, block->b, block->h, block->i);
    const size_t key = (block->b * d->Hkv + hkv) * d->S + j0;
    char *dquery = g->dquery + query * attn_acc_room(k, E) * k->elem;
    const bool only_scales = a->in.softcap == 0 && !d->entries && !d->normalizer_bias && !d->scales;
    size_t ldq;
    const void *q = attn_backward_tile(g, block, j0, n, only_scales ? a->scale : 1, l, &ldq);
    if (g->a->dims.entries)
        attn_backward_collect_biases(g, block, j0, n, l, sums);
    if (d->normalizer_bias)
        attn_backward_collect_normalizer(g, block, n, l, sums);
    if (!only_scales)
        attn_backward_edit(g, block, n, chunk, l);
    if (a->rule.relative)
        attn_backward_collect_vectors(g, block, j0, n, q, ldq, dquery, attn_acc_room(k, E), l,
                                      sums);
    k->accumulate_backward(g->dvalue + key * attn_acc_room(k, d->value_width) * k->elem, begins,
                           l->dropped, block->rows, n, g->outs.values + at * g->outs.value_bytes,
                           d->value_width);
    if (a->score_v) {
        back_tanh(g, block, j0, n, q, ldq, dquery, l, sums);
        return;
    }
    l->products->accumulate(dquery, l->grad, block->rows, l->key_values, 0, n, n, E, l->ones);
    char *dkey = g->dkey + key * attn_acc_room(k, E) * k->elem;
    k->accumulate_backward(dkey, begins, l->grad, block->rows, n,
                           g->queries.values + at * g->queries.value_bytes, E);
    if (a->rule.queries.rows)
        attn_backward_collect_key_vectors(g, block, j0, n, dkey, attn_acc_room(k, E), l, sums);
}

/* Stores l->dkey_tanh [A, keys] transposed, as rows `row` … row + n - 1 of g->dkey. */
static void transpose_tanh(const attn_backward *g, size_t row, size_t n,
                           const attn_backward_lane *l) {
    const attn_kernels *k = g->k;
    const size_t A = g->a->dims.score_width;
    for (size_t j = 0; j < n; j++)
        for (size_t e = 0; e < A; e++)
            memcpy(g->dkey + ((row + j) * attn_acc_room(k, A) + e) * k->elem,
                   (char *)l->dkey_tanh + (e * k->keys + j) * k->elem, k->elem);
}

/* Computes the gradients of tile t of keys against all queries of its group, as a part of piece
 * `piece`. */
static attn_status back_tile(const attn_backward *g, size_t piece, size_t t, attn_backward_lane *l,
                             attn_error *err) {
    const attn_attention *a = g->a;
    const attn_attention_dims *d = &a->dims;
    const attn_kernels *k = g->k;
    const size_t head = piece / g->plan.chunks, blocks = attn_group(d) * g->plan.blocks;
    const size_t j0 = t * k->keys, n = d->S - j0 < k->keys ? d->S - j0 : k->keys;
    bool begins = true;
    attn_backward_load_tile(g, head / d->Hkv, head % d->Hkv, j0, n, l);
    if (a->score_v)
        memset(l->dkey_tanh, 0, k->keys * d->score_width * k->elem);
    for (size_t i = 0; i < blocks; i++) {
        const attn_block block = attn_block_at(&g->a->dims, g->k, head * blocks + i);
        ATTN_TRY(attn_control_check(g->control, err));
        if (attn_backward_intersects(a, &block, j0, n)) {
            back_block_tile(g, &block, j0, n, piece % g->plan.chunks, begins, l, &g->sums[piece]);
            begins = false;
        }
    }
    if (begins)
        clear_keys(g, head, j0, n);
    if (a->score_v)
        transpose_tanh(g, head * d->S + j0, n, l);
    return ATTN_OK;
}

/* Piece: packs the rows of one block and computes dO . O for each row. */
static attn_status begin_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    attn_backward *g = ctx;
    const attn_block block = attn_block_at(&g->a->dims, g->k, index);
    ATTN_TRY(attn_control_check(g->control, err));
    ATTN_TRY(attn_backward_pack(g, &block, &g->lanes[lane], err));
    attn_backward_dots(g, &block, &g->lanes[lane]);
    return ATTN_OK;
}

/* Piece: computes the numbers that attn_backward_means stores for one block. */
static attn_status mean_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    attn_backward *g = ctx;
    const attn_block block = attn_block_at(&g->a->dims, g->k, index);
    ATTN_TRY(attn_control_check(g->control, err));
    attn_backward_means(g, &block, &g->lanes[lane]);
    return ATTN_OK;
}

/* Piece: computes a chunk of tiles of one key/value head. Unless plan.begins_apart, the piece first
 * does the work of begin_piece, so that the packed rows are still in the cache. */
static attn_status back_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    attn_backward *g = ctx;
    const attn_attention_dims *d = &g->a->dims;
    const size_t chunk = index % g->plan.chunks, end = (chunk + 1) * g->plan.tiles_a_chunk;
    const size_t heads = attn_group(d), first = index / g->plan.chunks * heads;
    for (size_t i = 0; !g->plan.begins_apart && i < heads * g->plan.blocks; i++)
        ATTN_TRY(begin_piece(g, first * g->plan.blocks + i, lane, err));
    clear_rows(g->k, g->dquery, (chunk * d->B * d->Hq + first) * d->L, heads * d->L,
               d->score_width);
    for (size_t t = chunk * g->plan.tiles_a_chunk; t < end && t < g->plan.tiles; t++)
        ATTN_TRY(back_tile(g, index, t, &g->lanes[lane], err));
    return ATTN_OK;
}

/* --- the backward pass alone, from the results of an earlier forward pass --- */

static attn_status check_gradients(const attn_attention *a, const attn_results *results,
                                   const attn_tensor *t, attn_error *err) {
    const attn_tensor *o = &results->output;
    if (!o->rank)
        return attn_fail(err, ATTN_EARG, "grad_output", "gradients need a run with its output");
    if (t->rank)
        ATTN_TRY(attn_check_loss_gradient("grad_output", t, o->dims, o->rank, err));
    else if (!a->dims.grad_logsumexp)
        return attn_fail(err, ATTN_EARG, "grad_output", "gradients need grad_output");
    if ((a->plan.query_map.rank && !a->plan.query_from) ||
        (a->plan.key_map.rank && !a->plan.key_from))
        return attn_fail(err, ATTN_EARG, "score", "this score form has no gradients");
    return attn_encoding_differentiable(&a->in.position, err);
}

/* Reads the gradient of the logsumexp. */
static attn_status read_row_gradients(attn_backward *g, attn_arena *arena, attn_error *err) {
    const attn_attention_dims *d = &g->a->dims;
    g->rows = attn_dense_copy(&g->a->in.grad_logsumexp, ATTN_F64, arena);
    ATTN_TAKEN(g->rows, "gradients", err);
    for (size_t r = 0; r < d->B * d->Hq * d->L; r++)
        if (!isfinite(g->rows[r]))
            return attn_fail(err, ATTN_ENONFINITE, "grad_logsumexp",
                             "row %zu of head %zu is not finite", r % d->L, r / d->L % d->Hq);
    return ATTN_OK;
}

/* Replaces g->out, [B, Ho, L, Ev], by the gradients of the outputs of each head before they were
 * mixed, in the arena. */
static attn_status unmix_gradients(attn_backward *g, attn_pool *pool, attn_arena *arena,
                                   attn_error *err) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t elem = attn_dtype_size(d->result), rows = d->Hq * d->L;
    size_t count = 0;
    char *wide = attn_size_mul(d->B * rows, d->value_width, &count)
                     ? attn_arena_zeroed(arena, count, elem)
                     : NULL;
    ptrdiff_t *batch = attn_arena_zeroed(arena, d->B, sizeof *batch);
    ATTN_TAKEN(wide && batch, "gradients", err);
    for (size_t b = 0; b < d->B; b++)
        batch[b] = (ptrdiff_t)(b * rows * d->value_width);
    g->mix = (attn_weights_back){.a = g->a,
                                 .control = g->control,
                                 .results = g->results,
                                 .out = g->out,
                                 .elem = elem,
                                 .wide = wide};
    ATTN_TRY(attn_mix_outputs_back(&g->mix, pool, err));
    g->mix.wide = NULL;
    g->out = (attn_view){.data = wide,
                         .dtype = d->result,
                         .batch = batch,
                         .head = (ptrdiff_t)(d->L * d->value_width),
                         .row = (ptrdiff_t)d->value_width,
                         .col = 1};
    return ATTN_OK;
}

static attn_status view_gradients(attn_backward *g, const attn_tensor *grad_output, attn_pool *pool,
                                  attn_arena *arena, attn_error *err) {
    const attn_attention *a = g->a;
    const attn_tensor zeros = attn_zero_gradient(&g->results->output);
    if (!grad_output->rank)
        grad_output = &zeros;
    ATTN_TAKEN(attn_layout_view(a, grad_output, a->in.layout, arena, &g->out), "gradients", err);
    if (a->in.layout == ATTN_BLD)
        g->out.head = (ptrdiff_t)a->dims.Ev * g->out.col;
    if (a->dims.factors)
        ATTN_TRY(unmix_gradients(g, pool, arena, err));
    return a->dims.grad_logsumexp ? read_row_gradients(g, arena, err) : ATTN_OK;
}

/* Returns whether gradients of bias tensors or of the scores are computed. */
static bool has_biases(const attn_attention *a) {
    const attn_mask *m = a->mask;
    if (a->in.score_gradients)
        return true;
    for (size_t p = 0; p < m->bias_count; p++)
        if (attn_layer_is_added(m->bias[p].layer))
            return true;
    return false;
}

static void plan_pass(attn_backward *g, const attn_kernels *kernels, unsigned want, size_t slots) {
    attn_backward_plan_make(&g->a->dims, kernels, want, has_biases(g->a), slots, &g->plan);
    g->k = g->plan.kernels;
    g->scores = g->plan.scores;
}

/* Plans the pass, and sets g->max and g->sum to the statistics of the rows in the form that the
 * kernel table g->k reads. A table can read the maxima and sums that it has computed itself. If
 * `ref` reads those of another table, each maximum is replaced by the logsumexp, and each sum by 1
 * (or 0 for a row that sees no key). Thresholds and divisors do not depend on the table. Returns
 * false if there is not enough memory. */
static bool read_statistics(attn_backward *g, size_t slots, attn_arena *arena) {
    const attn_attention *a = g->a;
    const attn_stats *s = &g->results->stats;
    const size_t rows = a->dims.B * a->dims.Hq * a->dims.L;
    bool in_double = g->in_double;
    for (size_t r = 0; r < rows; r++)
        in_double |= s->kind[r] == ATTN_ROW_DOUBLE;
    g->max = s->max;
    g->sum = s->sum;
    plan_pass(g, in_double ? &attn_kernels_ref : NULL, 0, slots);
    if (!in_double || a->kernels->isa == ATTN_ISA_REF || a->dims.normalizer)
        return true;
    g->max = attn_arena_zeroed(arena, rows, sizeof(double));
    g->sum = attn_arena_zeroed(arena, rows, sizeof(double));
    if (!g->max || !g->sum)
        return false;
    for (size_t r = 0; r < rows; r++) {
        const attn_kernels *k = s->kind[r] == ATTN_ROW_DOUBLE ? g->k : a->kernels;
        g->max[r] = s->sum[r] == 0 ? 0 : k->logsumexp(s->max[r], s->sum[r]);
        g->sum[r] = s->sum[r] == 0 ? 0 : 1;
    }
    return true;
}

/* Returns an error if a row sees NaN or infinity, since such a row has no gradients. */
static attn_status check_finite(const attn_backward *g, const attn_packed *packed,
                                attn_error *err) {
    const attn_attention_dims *d = &g->a->dims;
    const attn_stats *s = &g->results->stats;
    if (!g->a->in.allow_nonfinite)
        return ATTN_OK;
    for (size_t r = 0; r < d->B * d->Hq * d->L; r++) {
        const size_t head = r / d->L;
        ATTN_TRY(attn_control_check(g->control, err));
        if (isnan(s->max[r]) || s->max[r] == INFINITY ||
            (packed->any_bad &&
             attn_sees_bad(g->a, packed, head / d->Hq, head % d->Hq, r % d->L, ATTN_NOT_FINITE)))
            return attn_fail(err, ATTN_ENONFINITE, "grad_output",
                             "row %zu of head %zu sees NaN or infinity: it has no gradients",
                             r % d->L, head % d->Hq);
    }
    return ATTN_OK;
}

static attn_status run_passes(attn_backward *g, attn_pool *pool, attn_arena *arena,
                              attn_gradients *out, attn_error *err) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t pieces = d->B * d->Hkv * g->plan.chunks, blocks = d->B * d->Hq * g->plan.blocks;
    if (g->plan.begins_apart)
        ATTN_TRY(attn_pool_run(pool, blocks, begin_piece, g, g->control, err));
    if (attn_normalizer_sums_to_1(d->normalizer))
        ATTN_TRY(attn_pool_run(pool, blocks, mean_piece, g, g->control, err));
    ATTN_TRY(attn_pool_run(pool, pieces, back_piece, g, g->control, err));
    return attn_backward_finish(g, pool, arena, out, err);
}

/* Runs the backward pass. If a gradient overflows float, runs the pass again with `ref`, in
 * double. */
static attn_status run_backward(attn_backward *g, attn_pool *pool, attn_arena *arena,
                                attn_gradients *out, attn_error *err) {
    attn_gradients gradients = {.score.kind = g->a->in.score.kind};
    const attn_arena_mark before = attn_arena_here(arena);
    ATTN_TAKEN(read_statistics(g, attn_pool_slots(pool), arena), "gradients", err);
    g->packed = g->scores == g->a->kernels ? g->a->packed : NULL;
    g->bad_keys = g->a->packed->any_bad;
    ATTN_TAKEN(attn_backward_allocate(g, arena), "gradients", err);
    ATTN_TRY(run_passes(g, pool, arena, &gradients, err));
    if (attn_backward_all_finite(g, &gradients)) {
        *out = gradients;
        return ATTN_OK;
    }
    if (g->in_double || g->k->isa == ATTN_ISA_REF)
        return attn_fail(err, ATTN_ENONFINITE, "grad_output",
                         "the gradients overflow %s; scale the inputs down",
                         attn_dtype_name(g->a->dims.result));
    g->in_double = true;
    attn_arena_rewind(arena, &before);
    return run_backward(g, pool, arena, out, err);
}

/* Runs the backward pass with the packed keys and values a->packed. */
static attn_status run_packed(attn_backward *g, const attn_tensor *grad_output, attn_pool *pool,
                              attn_arena *arena, attn_gradients *out, attn_error *err) {
    ATTN_TRY(view_gradients(g, grad_output, pool, arena, err));
    ATTN_TRY(check_finite(g, g->a->packed, err));
    return run_backward(g, pool, arena, out, err);
}

attn_status attn_attention_backward(attn_attention *a, const attn_results *results,
                                    const attn_tensor *grad_output, attn_pool *pool,
                                    const attn_control *control, attn_arena *arena,
                                    attn_gradients *out, attn_error *err) {
    attn_backward g = {.a = a, .results = results, .control = control};
    attn_packed *packed = NULL;
    ATTN_TRY(check_gradients(a, results, grad_output, err));
    if (a->dims.precision != ATTN_PRECISION_FP32)
        return attn_fail(err, ATTN_EUNSUPPORTED, "precision",
                         "gradients are computed in fp32 alone, found %s",
                         attn_precision_name(a->dims.precision));
    if (a->packed)
        return run_packed(&g, grad_output, pool, arena, out, err);
    ATTN_TRY(attn_pack(a, pool, control, arena, &packed, err));
    a->packed = packed;
    const attn_status status = run_packed(&g, grad_output, pool, arena, out, err);
    a->packed = NULL; /* the arena of the packed operands may be freed before the operation */
    return status;
}

/* --- forward and backward pass together (plan.by_heads) ---
 *
 * A piece computes both passes for a key/value head and its group. It takes one block of queries
 * after the other:
 *
 *                      keys:  tile 0   tile 1   …
 *   rows of a block       ->  [      ] [      ]    forward: computes the output, keeps numerators
 *                         ->  [      ] [      ]    backward: computes weights and dS from the
 *                              dK, dV   dK, dV     kept numerators, and dQ of the block
 *
 * So scores and exponentials are computed once, and the packed keys and values stay in the
 * second-level cache. Each sum is added up in the same order as by the separate passes, so the
 * results have the same bytes.
 *
 * If a row needs double precision, an input is not finite or a gradient overflows, the functions
 * below return ATTN_ENONFINITE. The two passes are then run separately. */

typedef struct heads {
    attn_backward g;
    attn_forward f;
    _Atomic int apart; /* a piece has found that the passes must run separately */
} heads;

/* Points l->key_values and l->value_keys to the memory of tile `tile`. */
static void place_tile(attn_backward_lane *l, size_t tile) {
    l->key_values = l->tiles + tile * l->tile_bytes;
    l->value_keys = l->tiles + tile * l->tile_bytes + l->key_bytes;
}

/* Packs the keys and values of key/value head `index` for both passes, and the queries and rows of
 * grad_output of its group. */
static attn_status begin_head(heads *t, size_t index, size_t lane, attn_error *err) {
    attn_backward *g = &t->g;
    attn_backward_lane *l = &g->lanes[lane];
    const attn_attention_dims *d = &g->a->dims;
    const size_t b = index / d->Hkv, hkv = index % d->Hkv, keys = g->k->keys;
    const size_t blocks = attn_group(d) * g->plan.blocks;
    if (!attn_pack_head(g->a, l->head, b, hkv, l->source))
        return ATTN_ENONFINITE;
    for (size_t i = 0; i < blocks; i++) {
        const attn_block block = attn_block_at(&g->a->dims, g->k, index * blocks + i);
        ATTN_TRY(attn_backward_pack(g, &block, l, err));
    }
    for (size_t tile = 0; tile < g->plan.tiles; tile++) {
        const size_t j0 = tile * keys;
        place_tile(l, tile);
        attn_backward_load_tile(g, b, hkv, j0, d->S - j0 < keys ? d->S - j0 : keys, l);
    }
    return ATTN_OK;
}

/* Sets numerators [from, to) of the block's rows to 0. */
static void clear_kept(const attn_forward *f, const attn_block *block, char *kept, size_t from,
                       size_t to) {
    const size_t S = f->a->dims.S, elem = f->a->kernels->elem;
    for (size_t r = 0; from < to && r < block->rows; r++)
        memset(kept + (r * S + from) * elem, 0, (to - from) * elem);
}

/* Zeroes the numerators of keys that the block does not see in the first and the last tile that it
 * sees. The forward pass does not write these numerators, but the backward pass reads whole
 * tiles. */
static void clear_edges(const attn_forward *f, const attn_block *block, char *kept) {
    const size_t S = f->a->dims.S, keys = f->a->kernels->keys;
    size_t lo, hi;
    attn_block_interval(f->a, block, &lo, &hi);
    const size_t end = (hi + keys - 1) / keys * keys;
    clear_kept(f, block, kept, lo / keys * keys, lo);
    clear_kept(f, block, kept, hi, end < S ? end : S);
}

/* Computes the forward pass of a block, and keeps its numerators in l->kept. */
static attn_status forward_block(heads *t, const attn_block *block, size_t lane, attn_error *err) {
    attn_forward *f = &t->f;
    attn_forward_lane *fl = &f->lanes[lane];
    attn_backward_lane *l = &t->g.lanes[lane];
    attn_block_run *run = fl->runs;
    run->kept = l->kept;
    run->stream = (attn_stream){.block = *block, .w = &run->work};
    ATTN_TRY(attn_forward_begin(f, l->head, run, err));
    if (run->in_double)
        return ATTN_ENONFINITE;
    run->stream.kept = l->kept;
    l->maxima = run->work.maxima;
    clear_edges(f, block, l->kept);
    attn_block_stream(f->a, &run->stream, 1, l->head);
    ATTN_TRY(attn_forward_end(f, run, fl, err));
    const uint8_t *kind = f->out->stats.kind + attn_row_index(f->a, block->b, block->h, block->i);
    return memchr(kind, ATTN_ROW_DOUBLE, block->rows) ? ATTN_ENONFINITE : ATTN_OK;
}

/* Zeroes dK and dV in the tiles that no block has visited: those without a bit in `begun`. */
static void clear_tiles(const attn_backward *g, size_t head, uint64_t begun) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t keys = g->k->keys;
    for (size_t tile = 0; tile < g->plan.tiles; tile++) {
        const size_t j0 = tile * keys, n = d->S - j0 < keys ? d->S - j0 : keys;
        if (!(begun >> tile & 1))
            clear_keys(g, head, j0, n);
    }
}

/* Computes the backward pass of a block. Bit i of *begun is set once dK and dV of tile i hold
 * sums. */
static void back_block(heads *t, const attn_block *block, size_t index, size_t lane,
                       uint64_t *begun) {
    attn_backward *g = &t->g;
    attn_backward_lane *l = &g->lanes[lane];
    const size_t S = g->a->dims.S, keys = g->k->keys;
    attn_backward_dots(g, block, l);
    for (size_t tile = 0; tile < g->plan.tiles; tile++) {
        const size_t j0 = tile * keys, n = S - j0 < keys ? S - j0 : keys;
        if (!attn_backward_intersects(g->a, block, j0, n))
            continue;
        place_tile(l, tile);
        back_block_tile(g, block, j0, n, 0, !(*begun >> tile & 1), l, &g->sums[index]);
        *begun |= UINT64_C(1) << tile;
    }
}

/* Computes both passes of a key/value head. Returns ATTN_ENONFINITE if they must run separately. */
static attn_status compute_head(heads *t, size_t index, size_t lane, attn_error *err) {
    attn_backward *g = &t->g;
    const attn_attention_dims *d = &g->a->dims;
    const size_t rows = attn_group(d) * d->L, blocks = attn_group(d) * g->plan.blocks;
    uint64_t begun = 0;
    ATTN_TRY(begin_head(t, index, lane, err));
    clear_rows(g->k, g->dquery, index * rows, rows, d->score_width);
    for (size_t i = 0; i < blocks; i++) {
        const attn_block block = attn_block_at(&g->a->dims, g->k, index * blocks + i);
        ATTN_TRY(attn_control_check(g->control, err));
        ATTN_TRY(forward_block(t, &block, lane, err));
        back_block(t, &block, index, lane, &begun);
    }
    clear_tiles(g, index, begun);
    return ATTN_OK;
}

static attn_status head_piece(void *work, size_t index, size_t lane, attn_error *err) {
    heads *t = work;
    const attn_status status = t->apart ? ATTN_OK : compute_head(t, index, lane, err);
    if (status != ATTN_ENONFINITE)
        return status;
    atomic_store(&t->apart, 1);
    return ATTN_OK;
}

static attn_status open_heads(heads *t, const attn_results *results, const attn_tensor *grad_output,
                              attn_pool *pool, attn_arena *arena, attn_error *err) {
    attn_backward *g = &t->g;
    ATTN_TRY(check_gradients(g->a, results, grad_output, err));
    g->results = results;
    g->max = results->stats.max;
    g->sum = results->stats.sum;
    ATTN_TRY(view_gradients(g, grad_output, pool, arena, err));
    ATTN_TAKEN(attn_backward_allocate(g, arena), "gradients", err);
    return ATTN_OK;
}

/* Runs both passes together. Returns ATTN_ENONFINITE if they must run separately. */
static attn_status run_heads(heads *t, unsigned want, attn_stage stage,
                             const attn_tensor *grad_output, attn_pool *pool, attn_arena *arena,
                             attn_results *results, attn_gradients *out, attn_error *err) {
    attn_attention *a = t->g.a;
    const attn_control *control = t->g.control;
    ATTN_TRY(attn_forward_open(&t->f, a, want, t->g.plan.slots, control, arena, results, err));
    ATTN_TRY(open_heads(t, results, grad_output, pool, arena, err));
    ATTN_TRY(attn_pool_run(pool, a->dims.B * a->dims.Hkv, head_piece, t, control, err));
    if (t->apart)
        return ATTN_ENONFINITE;
    ATTN_TRY(attn_forward_finish(&t->f, stage, pool, arena, err));
    ATTN_TRY(attn_backward_finish(&t->g, pool, arena, out, err));
    return attn_backward_all_finite(&t->g, out) ? ATTN_OK : ATTN_ENONFINITE;
}

attn_status attn_attention_run_backward(attn_attention *a, unsigned want, attn_stage stage,
                                        const attn_tensor *grad_output, attn_pool *pool,
                                        const attn_control *control, attn_arena *arena,
                                        attn_results *results, attn_gradients *out,
                                        attn_error *err) {
    attn_results found;
    attn_gradients gradients = {.score.kind = a->in.score.kind};
    const attn_arena_mark before = attn_arena_here(arena);
    heads t = {.g = {.a = a, .control = control}};
    ATTN_TRY(attn_plan_check(want, stage, err));
    plan_pass(&t.g, NULL, want, attn_pool_slots(pool));
    attn_status status = ATTN_ENONFINITE;
    if (t.g.plan.by_heads)
        status = run_heads(&t, want, stage, grad_output, pool, arena, &found, &gradients, err);
    if (status == ATTN_ENONFINITE) {
        attn_arena_rewind(arena, &before);
        want |= ATTN_WANT_CELLS;
        ATTN_TRY(attn_attention_run(a, want, stage, pool, control, arena, &found, err));
        status =
            attn_attention_backward(a, &found, grad_output, pool, control, arena, &gradients, err);
    }
    ATTN_TRY(status);
    *results = found;
    *out = gradients;
    return ATTN_OK;
}
