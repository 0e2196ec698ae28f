/* Gradients of additive biases: dZ summed over the axes that a bias broadcasts. A piece owns a part
 * of the bias: with a row axis one block of rows, with a key axis one tile of keys, else all. It
 * goes over the heads, rows and keys that read that part, in order. */
#include <string.h>

#include "attention/backward.h"
#include "base/dense.h"

typedef struct biases {
    const attn_backward *g;
    const attn_mask_part *part;
    double *sums; /* dense, in the shape of the bias */
    const ptrdiff_t *batch;
    ptrdiff_t head, row, col; /* strides into sums, 0 where the bias broadcasts */
    size_t row_parts, key_parts;
} biases;

/* Strides of the dense gradient as the mask's view broadcasts: 0 where the bias has 1 or no axis.
 * Axes are aligned to the right of [batch.., (H), L, S]. */
static bool lay_out(biases *s, attn_arena *arena) {
    const attn_attention_dims *d = &s->g->a->dims;
    const attn_tensor *t = &s->part->layer->values;
    const attn_tensor dense = attn_tensor_dense(NULL, ATTN_F64, t->rank, t->dims);
    ptrdiff_t batch[ATTN_MAX_RANK] = {0}, *const inner[3] = {&s->col, &s->row, &s->head};
    const int axes = d->has_heads ? 3 : 2, batch_rank = d->batch_rank;
    s->col = s->row = s->head = 0;
    for (int a = 0; a < t->rank; a++) {
        const int at = t->rank - 1 - a;
        const ptrdiff_t stride = t->dims[at] == 1 ? 0 : dense.strides[at];
        if (a < axes)
            *inner[a] = stride;
        else
            batch[batch_rank - 1 - (a - axes)] = stride;
    }
    s->batch = attn_view_batches(arena, d->batch, batch_rank, batch);
    return s->batch != NULL;
}

static void add_tile(const biases *s, const attn_block *block, size_t j0, size_t n,
                     const attn_back_lane *l) {
    const attn_kernels *k = s->g->k;
    for (size_t r = 0; r < block->rows; r++) {
        const char *dz = (const char *)l->grad + r * k->keys * k->elem;
        double *to = s->sums + s->batch[block->b] + (ptrdiff_t)block->h * s->head +
                     (ptrdiff_t)(block->i + r) * s->row;
        for (size_t j = 0; j < n; j++)
            to[(ptrdiff_t)(j0 + j) * s->col] += k->elem == sizeof(float)
                                                    ? (double)((const float *)(const void *)dz)[j]
                                                    : ((const double *)(const void *)dz)[j];
    }
}

/* Rows [i0, i1) of a head against the keys of a tile. */
static attn_status add_rows(const biases *s, size_t head, size_t i0, size_t i1, size_t j, size_t n,
                            attn_back_lane *l, attn_error *err) {
    const attn_backward *g = s->g;
    const size_t rows = g->k->rows;
    attn_status status = ATTN_OK;
    for (size_t i = i0 / rows; i < g->blocks && i * rows < i1 && status == ATTN_OK; i++) {
        const attn_block block = attn_back_block_at(g, head * g->blocks + i);
        size_t ldq;
        status = attn_control_check(g->control, err);
        if (status != ATTN_OK || !attn_back_meets(g->a, &block, j, n))
            continue;
        attn_back_tile(g, &block, j, n, 1, l, &ldq);
        add_tile(s, &block, j, n, l);
    }
    return status;
}

static attn_status bias_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    const biases *s = ctx;
    const attn_backward *g = s->g;
    const attn_attention_dims *d = &g->a->dims;
    const attn_kernels *k = g->k;
    attn_back_lane *l = &g->lanes[lane];
    const size_t row_part = index / s->key_parts, key_part = index % s->key_parts;
    const size_t i0 = row_part * k->rows, i1 = s->row_parts > 1 ? i0 + k->rows : d->L;
    const size_t j0 = key_part * k->keys, j1 = s->key_parts > 1 ? j0 + k->keys : d->S;
    attn_status status = ATTN_OK;
    for (size_t head = 0; head < d->B * d->Hq; head++)
        for (size_t j = j0; j < j1 && j < d->S && status == ATTN_OK; j += k->keys) {
            const size_t n = d->S - j < k->keys ? d->S - j : k->keys;
            attn_back_load_tile(g, head / d->Hq, attn_kv_head(g->a, head % d->Hq), j, n, l);
            status = add_rows(s, head, i0, i1, j, n, l, err);
        }
    return status;
}

static attn_status back_bias(const attn_backward *g, const attn_mask_part *part, attn_pool *pool,
                             attn_arena *arena, attn_tensor *out, attn_error *err) {
    biases s = {.g = g, .part = part};
    size_t count;
    attn_status status = attn_dense_zeros(&part->layer->values, g->a->dims.result, arena, out, err);
    if (status != ATTN_OK)
        return status;
    if (!attn_tensor_count(out, &count) || !lay_out(&s, arena) ||
        !(s.sums = attn_arena_zeroed(arena, count, sizeof *s.sums)))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for gradients");
    s.row_parts = s.row && g->blocks ? g->blocks : 1;
    s.key_parts = s.col && g->tiles ? g->tiles : 1;
    status = attn_pool_run(pool, s.row_parts * s.key_parts, bias_piece, &s, g->control, err);
    if (status == ATTN_OK)
        attn_back_store(out, 0, s.sums, count);
    return status;
}

attn_status attn_back_biases(const attn_backward *g, attn_pool *pool, attn_arena *arena,
                             attn_gradients *out, attn_error *err) {
    const attn_mask *m = g->a->mask;
    attn_status status = ATTN_OK;
    for (size_t p = 0; p < m->bias_count && status == ATTN_OK; p++) {
        const attn_mask_part *part = &m->bias[p];
        if (part->layer->kind == ATTN_LAYER_BIAS)
            status = back_bias(g, part, pool, arena, &out->bias[part->layer - m->layers], err);
    }
    return status;
}
