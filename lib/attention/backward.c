/* Gradients: the passes.
 *
 *                       keys: tile 0   tile 1 | tile 2 …
 *   queries of all    ->      [      ] [      ] |       a piece: a chunk of tiles of one
 *   heads of a group  ->      [      ] [      ] |       key/value head, tile by tile
 *                               dK, dV   dK, dV         summed over all queries
 *                       dQ of each block of queries     added to the chunk's own sums
 *
 * Chunks depend on shapes alone and are added up in order, so pools do not change a bit. */
#include "attention/backward.h"

#include <math.h>
#include <string.h>

#include "base/dense.h"

/* --- the main pass --- */

static void back_tanh(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                      const void *q, size_t ldq, char *dquery, attn_back_lane *l,
                      attn_back_sums *sums) {
    const attn_attention *a = g->a;
    const attn_kernels *k = g->k;
    const void *keys = l->work.packed_key;
    if (g->packed)
        keys = g->packed->keys + g->packed->key_bytes * attn_packed_tile(a, g->packed, block->b,
                                                                         attn_kv_head(a, block->h),
                                                                         j0 / k->keys);
    const attn_tanh_back back = {.q = q,
                                 .packed_key = keys,
                                 .v = k == a->kernels ? a->score_v : a->score_v_wide,
                                 .ldq = ldq,
                                 .width = a->dims.score_width,
                                 .dq = dquery,
                                 .lddq = k->acc_room(a->dims.score_width),
                                 .dkey = l->dkey_tanh,
                                 .dv = sums->v};
    k->score_tanh_back(&back, l->grad, block->rows, n);
}

void attn_back_clear(const attn_kernels *k, char *acc, size_t first, size_t n, size_t width) {
    const size_t bytes = k->acc_room(width) * k->elem;
    memset(acc + first * bytes, 0, n * bytes);
}

void attn_back_block(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                     size_t chunk, bool begins, attn_back_lane *l, attn_back_sums *sums) {
    const attn_attention *a = g->a;
    const attn_attention_dims *d = &a->dims;
    const attn_kernels *k = g->k;
    const size_t at = attn_back_place(g, block, l);
    const size_t E = d->score_width, hkv = attn_kv_head(a, block->h);
    const size_t query =
        chunk * d->B * d->Hq * d->L + attn_row_index(a, block->b, block->h, block->i);
    const size_t key = (block->b * d->Hkv + hkv) * d->S + j0;
    char *dquery = g->dquery + query * k->acc_room(E) * k->elem;
    const bool only_scales = a->in.softcap == 0 && !g->entries;
    size_t ldq;
    const void *q = attn_back_tile(g, block, j0, n, only_scales ? a->scale : 1, l, &ldq);
    if (g->entries)
        attn_back_collect_biases(g, block, j0, n, l, sums);
    if (!only_scales)
        attn_back_edit(g, block, n, l);
    if (a->rule.relative)
        attn_back_collect_shaw(g, block, j0, n, q, ldq, dquery, k->acc_room(E), l, sums);
    k->accumulate_back(g->dvalue + key * k->acc_room(d->Ev) * k->elem, begins, l->dropped,
                       block->rows, n, g->outs.values + at * g->outs.value_bytes, d->Ev);
    if (a->score_v) {
        back_tanh(g, block, j0, n, q, ldq, dquery, l, sums);
        return;
    }
    l->products->accumulate(dquery, l->grad, block->rows, l->key_values, 0, n, n, E, l->ones);
    k->accumulate_back(g->dkey + key * k->acc_room(E) * k->elem, begins, l->grad, block->rows, n,
                       g->queries.values + at * g->queries.value_bytes, E);
}

/* A tile's sums over queries that score_tanh_back made -> rows of dkey. */
static void turn_tanh(const attn_backward *g, size_t row, size_t n, const attn_back_lane *l) {
    const attn_kernels *k = g->k;
    const size_t A = g->a->dims.score_width;
    for (size_t j = 0; j < n; j++)
        for (size_t e = 0; e < A; e++)
            memcpy(g->dkey + ((row + j) * k->acc_room(A) + e) * k->elem,
                   (char *)l->dkey_tanh + (e * k->keys + j) * k->elem, k->elem);
}

/* Tile t of a key/value head against all queries of its group. */
static attn_status back_tile(const attn_backward *g, size_t piece, size_t t, attn_back_lane *l,
                             attn_error *err) {
    const attn_attention *a = g->a;
    const attn_attention_dims *d = &a->dims;
    const attn_kernels *k = g->k;
    const size_t head = piece / g->chunks, blocks = attn_group(d) * g->blocks;
    const size_t j0 = t * k->keys, n = d->S - j0 < k->keys ? d->S - j0 : k->keys;
    const size_t row = head * d->S + j0;
    bool begins = true;
    attn_status status = ATTN_OK;
    attn_back_load_tile(g, head / d->Hkv, head % d->Hkv, j0, n, l);
    if (a->score_v)
        memset(l->dkey_tanh, 0, k->keys * d->score_width * k->elem);
    for (size_t i = 0; i < blocks && status == ATTN_OK; i++) {
        const attn_block block = attn_back_block_at(g, head * blocks + i);
        status = attn_control_check(g->control, err);
        if (status == ATTN_OK && attn_back_meets(a, &block, j0, n)) {
            attn_back_block(g, &block, j0, n, piece % g->chunks, begins, l, &g->sums[piece]);
            begins = false;
        }
    }
    if (begins) {
        attn_back_clear(k, g->dkey, row, n, d->score_width);
        attn_back_clear(k, g->dvalue, row, n, d->Ev);
    }
    if (a->score_v)
        turn_tanh(g, row, n, l);
    return status;
}

/* Piece: one block of rows. */
static attn_status begin_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    attn_backward *g = ctx;
    const attn_block block = attn_back_block_at(g, index);
    attn_status status = attn_control_check(g->control, err);
    if (status == ATTN_OK)
        status = attn_back_pack(g, &block, &g->lanes[lane], err);
    if (status == ATTN_OK)
        attn_back_dots(g, &block, &g->lanes[lane]);
    return status;
}

/* Piece: a chunk of tiles of one key/value head. One that is alone with its queries begins them:
 * they are still in the cache. */
static attn_status back_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    attn_backward *g = ctx;
    const attn_attention_dims *d = &g->a->dims;
    const size_t chunk = index % g->chunks, end = (chunk + 1) * g->tiles_a_chunk;
    const size_t heads = attn_group(d), first = index / g->chunks * heads;
    attn_status status = ATTN_OK;
    for (size_t i = 0; g->chunks == 1 && i < heads * g->blocks && status == ATTN_OK; i++)
        status = begin_piece(g, first * g->blocks + i, lane, err);
    attn_back_clear(g->k, g->dquery, (chunk * d->B * d->Hq + first) * d->L, heads * d->L,
                    d->score_width);
    for (size_t t = chunk * g->tiles_a_chunk; t < end && t < g->tiles && status == ATTN_OK; t++)
        status = back_tile(g, index, t, &g->lanes[lane], err);
    return status;
}

/* --- all of it --- */

static attn_status no_memory(attn_error *err) {
    return attn_fail(err, ATTN_ENOMEM, "", "no memory left for gradients");
}

attn_status attn_back_check(const attn_attention *a, const attn_results *results,
                            const attn_tensor *t, attn_error *err) {
    const attn_tensor *o = &results->output;
    char want[128], have[128];
    if (!o->rank)
        return attn_fail(err, ATTN_EARG, "grad_output", "gradients need a run with its output");
    bool same = t->rank == o->rank;
    for (int i = 0; same && i < t->rank; i++)
        same = t->dims[i] == o->dims[i];
    if (!same)
        return attn_fail(err, ATTN_ESHAPE, "grad_output",
                         "expected the output's shape %s, found %s",
                         attn_shape_text(o->dims, o->rank, want, sizeof want),
                         attn_shape_text(t->dims, t->rank, have, sizeof have));
    if (t->dtype > ATTN_F64)
        return attn_fail(err, ATTN_EDTYPE, "grad_output",
                         "expected floating-point numbers, found %s", attn_dtype_name(t->dtype));
    if ((a->plan.query_map.rank && !a->plan.query_from) ||
        (a->plan.key_map.rank && !a->plan.key_from))
        return attn_fail(err, ATTN_EARG, "score", "this score form has no gradients");
    return ATTN_OK;
}

bool attn_back_view(attn_backward *g, const attn_tensor *grad_output, attn_arena *arena) {
    const attn_attention *a = g->a;
    if (!attn_layout_view(a, grad_output, a->in.layout, arena, &g->out))
        return false;
    if (a->in.layout == ATTN_BLD)
        g->out.head = (ptrdiff_t)a->dims.Ev * g->out.col;
    return true;
}

/* Statistics as the table of the way back reads them: its own, or logsumexp and 1 for `ref`. */
static bool read_statistics(attn_backward *g, attn_arena *arena) {
    const attn_attention *a = g->a;
    const attn_stats *s = &g->results->stats;
    const size_t rows = a->dims.B * a->dims.Hq * a->dims.L;
    bool careful = g->careful;
    for (size_t r = 0; r < rows; r++)
        careful |= s->kind[r] == ATTN_ROW_CAREFUL;
    g->max = s->max;
    g->sum = s->sum;
    g->scores = a->kernels;
    g->k = attn_kernels_plain(a->kernels);
    if (!careful || a->kernels->isa == ATTN_ISA_REF)
        return true;
    g->k = g->scores = attn_kernels_of(ATTN_ISA_REF);
    g->max = attn_arena_zeroed(arena, rows, sizeof(double));
    g->sum = attn_arena_zeroed(arena, rows, sizeof(double));
    if (!g->max || !g->sum)
        return false;
    for (size_t r = 0; r < rows; r++) {
        const attn_kernels *k = s->kind[r] == ATTN_ROW_CAREFUL ? g->k : a->kernels;
        g->max[r] = s->sum[r] == 0 ? 0 : k->logsumexp(s->max[r], s->sum[r]);
        g->sum[r] = s->sum[r] == 0 ? 0 : 1;
    }
    return true;
}

/* Something that is not finite and that a query sees has no gradient. */
static attn_status check_finite(const attn_backward *g, const attn_packed *packed,
                                attn_error *err) {
    const attn_attention_dims *d = &g->a->dims;
    const attn_stats *s = &g->results->stats;
    if (!g->a->in.allow_nonfinite)
        return ATTN_OK;
    for (size_t r = 0; r < d->B * d->Hq * d->L; r++) {
        const size_t head = r / d->L;
        attn_status status = attn_control_check(g->control, err);
        if (status != ATTN_OK)
            return status;
        if (isnan(s->max[r]) || s->max[r] == INFINITY ||
            (packed->any_bad &&
             attn_sees_bad(g->a, packed, head / d->Hq, head % d->Hq, r % d->L, ATTN_NOT_FINITE)))
            return attn_fail(err, ATTN_ENONFINITE, "grad_output",
                             "row %zu of head %zu sees NaN or infinity: it has no gradients",
                             r % d->L, head % d->Hq);
    }
    return ATTN_OK;
}

/* The sinks' weight times what it would have liked to be: -dot, summed over rows. */
static attn_status back_sinks(const attn_backward *g, attn_arena *arena, attn_gradients *out,
                              attn_error *err) {
    const attn_attention *a = g->a;
    const attn_attention_dims *d = &a->dims;
    const attn_stats *s = &g->results->stats;
    if (!a->sinks)
        return ATTN_OK;
    attn_status status = attn_dense_zeros(&a->in.sinks, a->dims.result, arena, &out->sinks, err);
    for (size_t h = 0; h < d->Hq && status == ATTN_OK; h++) {
        double sum = 0;
        for (size_t b = 0; b < d->B; b++)
            for (size_t i = 0; i < d->L; i++) {
                const size_t r = attn_row_index(a, b, h, i);
                const attn_kernels *k =
                    s->kind[r] == ATTN_ROW_CAREFUL ? attn_kernels_of(ATTN_ISA_REF) : a->kernels;
                sum -= exp(a->sinks[h] - k->logsumexp(s->max[r], s->sum[r])) * g->dot[r];
            }
        attn_back_store(&out->sinks, h, &sum, 1);
    }
    return status;
}

attn_status attn_back_finish(attn_backward *g, attn_pool *pool, attn_arena *arena,
                             attn_gradients *out, attn_error *err) {
    const size_t pieces = g->a->dims.B * g->a->dims.Hkv * g->chunks;
    attn_status status = attn_back_tables_finish(g, pieces, arena, out, err);
    if (status == ATTN_OK)
        status = back_sinks(g, arena, out, err);
    if (status == ATTN_OK)
        status = attn_back_biases(g, pool, arena, out, err);
    if (status == ATTN_OK)
        status = attn_back_fold(g, arena, out, err);
    return status;
}

static attn_status run_passes(attn_backward *g, attn_pool *pool, attn_arena *arena,
                              attn_gradients *out, attn_error *err) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t pieces = d->B * d->Hkv * g->chunks;
    attn_status status = ATTN_OK;
    if (g->chunks > 1)
        status = attn_pool_run(pool, d->B * d->Hq * g->blocks, begin_piece, g, g->control, err);
    if (status == ATTN_OK)
        status = attn_pool_run(pool, pieces, back_piece, g, g->control, err);
    return status == ATTN_OK ? attn_back_finish(g, pool, arena, out, err) : status;
}

/* All gradients in one list, for what is true of each. */
bool attn_back_all_finite(const attn_backward *g, const attn_gradients *out) {
    const attn_tensor *fixed[] = {
        &out->query,   &out->key,       &out->value,     &out->past_key,  &out->past_value,
        &out->sinks,   &out->score.w_q, &out->score.w_k, &out->score.b,   &out->score.v,
        &out->score.w, &out->slopes,    &out->table,     &out->key_table, &out->value_table};
    const size_t count = sizeof fixed / sizeof *fixed;
    for (size_t t = 0; t < count + ATTN_MASK_LAYERS; t++) {
        const attn_tensor *x = t < count ? fixed[t] : &out->bias[t - count];
        const attn_kernels *k = x->dtype == ATTN_F64 ? attn_kernels_of(ATTN_ISA_REF)
                                                     : attn_kernels_plain(g->a->kernels);
        size_t n = 0;
        if (!x->rank || !attn_tensor_count(x, &n))
            continue;
        if (k->elem == attn_dtype_size(x->dtype)) {
            if (!isfinite(k->reach(x->data, n)))
                return false;
            continue;
        }
        for (size_t i = 0; i < n; i++)
            if (!isfinite(((const float *)x->data)[i]))
                return false;
    }
    return true;
}

/* The passes with the statistics of one table; `ref` again in double where float overflowed. */
static attn_status run(attn_backward *g, attn_pool *pool, attn_arena *arena, attn_gradients *out,
                       attn_error *err) {
    attn_gradients gradients = {.score.kind = g->a->in.score.kind};
    const attn_arena_mark before = attn_arena_here(arena);
    if (!read_statistics(g, arena))
        return no_memory(err);
    g->packed = g->scores == g->a->kernels ? g->a->packed : NULL;
    g->bad_keys = g->a->packed->any_bad;
    attn_status status =
        attn_back_allocate(g, attn_pool_slots(pool), arena) ? ATTN_OK : no_memory(err);
    if (status == ATTN_OK)
        status = run_passes(g, pool, arena, &gradients, err);
    if (status != ATTN_OK)
        return status;
    if (attn_back_all_finite(g, &gradients)) {
        *out = gradients;
        return ATTN_OK;
    }
    if (g->careful || g->k->isa == ATTN_ISA_REF)
        return attn_fail(err, ATTN_ENONFINITE, "grad_output",
                         "the gradients overflow %s; scale the inputs down",
                         attn_dtype_name(g->a->dims.result));
    g->careful = true;
    attn_arena_rewind(arena, &before);
    return run(g, pool, arena, out, err);
}

attn_status attn_attention_backward(attn_attention *a, const attn_results *results,
                                    const attn_tensor *grad_output, attn_pool *pool,
                                    const attn_control *control, attn_arena *arena,
                                    attn_gradients *out, attn_error *err) {
    attn_backward g = {.a = a, .results = results, .control = control};
    attn_packed *packed = NULL;
    attn_status status = attn_back_check(a, results, grad_output, err);
    if (status == ATTN_OK && a->dims.precision != ATTN_PRECISION_FP32)
        status = attn_fail(err, ATTN_EUNSUPPORTED, "precision",
                           "gradients are computed in fp32 alone, found %s",
                           attn_precision_name(a->dims.precision));
    if (status == ATTN_OK && !a->packed)
        status = attn_pack(a, pool, control, arena, &packed, err);
    if (status != ATTN_OK)
        return status;
    if (packed)
        a->packed = packed;
    status =
        attn_back_view(&g, grad_output, arena) ? check_finite(&g, a->packed, err) : no_memory(err);
    if (status == ATTN_OK)
        status = run(&g, pool, arena, out, err);
    if (packed) /* this arena may go before the operation does */
        a->packed = NULL;
    return status;
}
