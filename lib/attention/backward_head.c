/* The run and the way back of a key/value head by one piece, block by block of rows:
 *
 *                      keys:  tile 0   tile 1   …
 *   a block's rows        ->  [      ] [      ]    forward: numerators, kept; then output, dO . O
 *                         ->  [      ] [      ]    back: their weights, dS
 *                              dK, dV   dK, dV     dQ of the block
 *
 * So scores and exponentials are made once, and a head's operands stay in the second cache. Each
 * sum is added up in the order of the passes in backward.c, so that the bytes are theirs.
 *
 * Rows that `ref` must compute, what is not finite and gradients that overflow take the run and the
 * way back apart. */
#include <stdatomic.h>
#include <string.h>

#include "attention/backward.h"
#include "attention/forward.h"

typedef struct heads {
    attn_backward g;
    attn_forward f;
    _Atomic int apart; /* a piece met what pieces do not do */
} heads;

/* Is it done so? Sums by distance, over biases and through a softcap look at scores; what is to be
 * computed afterwards wants packed keys. */
static bool by_heads(const attn_attention *a, unsigned want) {
    const attn_position *p = &a->in.position;
    const unsigned later = ATTN_WANT_CELLS | ATTN_WANT_SCORES | ATTN_WANT_WEIGHTS_DROPPED;
    return attn_back_by_heads(&a->dims, a->kernels) && (want & ATTN_WANT_OUTPUT) &&
           !(want & later) && a->in.softcap == 0 && !p->slopes.rank && !p->table.rank &&
           !attn_back_has_biases(a->mask);
}

static void place_tile(attn_back_lane *l, size_t tile) {
    l->key_values = l->tiles + tile * l->tile_bytes;
    l->value_keys = l->tiles + tile * l->tile_bytes + l->key_bytes;
}

/* Queries and output gradients of a key/value head's group, and its keys and values. */
static attn_status begin_head(heads *t, size_t index, size_t lane, attn_error *err) {
    attn_backward *g = &t->g;
    attn_back_lane *l = &g->lanes[lane];
    const attn_attention_dims *d = &g->a->dims;
    const size_t b = index / d->Hkv, hkv = index % d->Hkv, keys = g->k->keys;
    const size_t blocks = attn_group(d) * g->blocks;
    attn_status status = ATTN_OK;
    if (!attn_pack_head(g->a, l->head, b, hkv, l->source))
        return ATTN_ENONFINITE;
    for (size_t i = 0; i < blocks && status == ATTN_OK; i++) {
        const attn_block block = attn_back_block_at(g, index * blocks + i);
        status = attn_back_pack(g, &block, l, err);
    }
    for (size_t tile = 0; tile < g->tiles && status == ATTN_OK; tile++) {
        const size_t j0 = tile * keys;
        place_tile(l, tile);
        attn_back_load_tile(g, b, hkv, j0, d->S - j0 < keys ? d->S - j0 : keys, l);
    }
    return status;
}

/* Numerators [from, to) of the block's rows are 0. */
static void clear_kept(const attn_forward *f, const attn_block *block, char *kept, size_t from,
                       size_t to) {
    const size_t S = f->a->dims.S, elem = f->a->kernels->elem;
    for (size_t r = 0; from < to && r < block->rows; r++)
        memset(kept + (r * S + from) * elem, 0, (to - from) * elem);
}

/* The run leaves out what is before and behind all that the block's rows see; the way back takes
 * whole tiles. */
static void clear_edges(const attn_forward *f, const attn_block *block, char *kept) {
    const size_t S = f->a->dims.S, keys = f->a->kernels->keys;
    size_t lo, hi;
    attn_block_interval(f->a, block, &lo, &hi);
    const size_t end = (hi + keys - 1) / keys * keys;
    clear_kept(f, block, kept, lo / keys * keys, lo);
    clear_kept(f, block, kept, hi, end < S ? end : S);
}

/* The run of a block; its numerators are kept. */
static attn_status forward_block(heads *t, const attn_block *block, size_t lane, attn_error *err) {
    attn_forward *f = &t->f;
    attn_forward_lane *fl = &f->lanes[lane];
    attn_back_lane *l = &t->g.lanes[lane];
    attn_block_run *run = fl->runs;
    run->kept = l->kept;
    attn_status status = attn_forward_begin(f, block, l->head, run, err);
    if (status != ATTN_OK || run->careful)
        return status != ATTN_OK ? status : ATTN_ENONFINITE;
    run->stream.kept = l->kept;
    l->maxima = run->work.maxima;
    clear_edges(f, block, l->kept);
    attn_block_stream(f->a, &run->stream, 1, l->head);
    status = attn_forward_end(f, run, fl, err);
    const uint8_t *kind = f->out->stats.kind + attn_row_index(f->a, block->b, block->h, block->i);
    return status == ATTN_OK && memchr(kind, ATTN_ROW_CAREFUL, block->rows) ? ATTN_ENONFINITE
                                                                            : status;
}

/* Tiles that no block met have no sums. */
static void clear_tiles(const attn_backward *g, size_t head, uint64_t begun) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t keys = g->k->keys;
    for (size_t tile = 0; tile < g->tiles; tile++) {
        const size_t j0 = tile * keys, n = d->S - j0 < keys ? d->S - j0 : keys;
        if (begun >> tile & 1)
            continue;
        attn_back_clear(g->k, g->dkey, head * d->S + j0, n, d->score_width);
        attn_back_clear(g->k, g->dvalue, head * d->S + j0, n, d->Ev);
    }
}

static void back_block(heads *t, const attn_block *block, size_t index, size_t lane,
                       uint64_t *begun) {
    attn_backward *g = &t->g;
    attn_back_lane *l = &g->lanes[lane];
    const size_t S = g->a->dims.S, keys = g->k->keys;
    attn_back_dots(g, block, l);
    for (size_t tile = 0; tile < g->tiles; tile++) {
        const size_t j0 = tile * keys, n = S - j0 < keys ? S - j0 : keys;
        if (!attn_back_meets(g->a, block, j0, n))
            continue;
        place_tile(l, tile);
        attn_back_block(g, block, j0, n, 0, !(*begun >> tile & 1), l, &g->sums[index]);
        *begun |= UINT64_C(1) << tile;
    }
}

/* Piece: a key/value head. */
static attn_status head_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    heads *t = ctx;
    attn_backward *g = &t->g;
    const attn_attention_dims *d = &g->a->dims;
    const size_t rows = attn_group(d) * d->L, blocks = attn_group(d) * g->blocks;
    uint64_t begun = 0;
    attn_status status = t->apart ? ATTN_ENONFINITE : begin_head(t, index, lane, err);
    attn_back_clear(g->k, g->dquery, index * rows, rows, d->score_width);
    for (size_t i = 0; i < blocks && status == ATTN_OK; i++) {
        const attn_block block = attn_back_block_at(g, index * blocks + i);
        status = attn_control_check(g->control, err);
        if (status == ATTN_OK)
            status = forward_block(t, &block, lane, err);
        if (status == ATTN_OK)
            back_block(t, &block, index, lane, &begun);
    }
    clear_tiles(g, index, begun);
    if (status != ATTN_ENONFINITE)
        return status;
    atomic_store(&t->apart, 1);
    return ATTN_OK;
}

static attn_status open_heads(heads *t, const attn_results *results, const attn_tensor *grad_output,
                              size_t slots, attn_arena *arena, attn_error *err) {
    attn_backward *g = &t->g;
    attn_attention *a = g->a;
    attn_status status = attn_back_check(a, results, grad_output, err);
    if (status != ATTN_OK)
        return status;
    g->results = results;
    g->max = results->stats.max;
    g->sum = results->stats.sum;
    g->scores = a->kernels;
    g->k = attn_kernels_plain(a->kernels);
    if (!attn_back_view(g, grad_output, arena) || !attn_back_allocate(g, slots, arena) ||
        !attn_back_allocate_heads(g, slots, arena))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for gradients");
    return ATTN_OK;
}

/* ATTN_ENONFINITE: it must be done apart. */
static attn_status run_heads(attn_attention *a, unsigned want, attn_stage stage,
                             const attn_tensor *grad_output, attn_pool *pool,
                             const attn_control *control, attn_arena *arena, attn_results *results,
                             attn_gradients *out, attn_error *err) {
    heads t = {.g = {.a = a, .control = control}};
    const size_t slots = attn_pool_slots(pool);
    attn_status status = attn_forward_open(&t.f, a, want, slots, control, arena, results, err);
    if (status == ATTN_OK)
        status = open_heads(&t, results, grad_output, slots, arena, err);
    if (status == ATTN_OK)
        status = attn_pool_run(pool, a->dims.B * a->dims.Hkv, head_piece, &t, control, err);
    if (status == ATTN_OK && t.apart)
        return ATTN_ENONFINITE;
    if (status == ATTN_OK)
        status = attn_forward_finish(&t.f, stage, pool, arena, err);
    if (status == ATTN_OK)
        status = attn_back_finish(&t.g, pool, arena, out, err);
    return status == ATTN_OK && !attn_back_all_finite(&t.g, out) ? ATTN_ENONFINITE : status;
}

attn_status attn_attention_run_backward(attn_attention *a, unsigned want, attn_stage stage,
                                        const attn_tensor *grad_output, attn_pool *pool,
                                        const attn_control *control, attn_arena *arena,
                                        attn_results *results, attn_gradients *out,
                                        attn_error *err) {
    attn_results found;
    attn_gradients gradients = {.score.kind = a->in.score.kind};
    const attn_arena_mark before = attn_arena_here(arena);
    attn_status status = attn_forward_check(want, stage, err);
    if (status != ATTN_OK)
        return status;
    status = ATTN_ENONFINITE;
    if (by_heads(a, want))
        status =
            run_heads(a, want, stage, grad_output, pool, control, arena, &found, &gradients, err);
    if (status == ATTN_ENONFINITE) {
        attn_arena_rewind(arena, &before);
        status =
            attn_attention_run(a, want | ATTN_WANT_CELLS, stage, pool, control, arena, &found, err);
        if (status == ATTN_OK)
            status = attn_attention_backward(a, &found, grad_output, pool, control, arena,
                                             &gradients, err);
    }
    if (status == ATTN_OK) {
        *results = found;
        *out = gradients;
    }
    return status;
}
