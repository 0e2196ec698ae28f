/* Turns the sums of the backward pass into the caller's gradients: of sinks, scales and bias
 * tensors, and of queries, keys and values. backward_tables.c has those of other parameters. */
#include <attn/input_rows.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "attention/backward.h"
#include "attention/encodings.h"
#include "attention/mix.h"
#include "base/try.h"
#include "kernels/gemm.h"
#include "mask/layer_view.h"

/* --- bias tensors ---
 *
 * The gradient of an additive bias is dZ, summed over the axes along which the bias is broadcast.
 * The gradient of the scores is that of a bias with the shape of the weights. A piece computes the
 * part of such a gradient that belongs to one block of rows and one tile of keys. If the bias has
 * no row axis, a piece covers all rows, and if it has no key axis, all keys. The piece goes in
 * order over the heads, rows and keys that read its part of the bias. */

/* The computation of the gradient of one bias tensor. */
typedef struct biases {
    const attn_backward *g;
    double *sums;                /* the gradient, dense, in the shape of the bias */
    attn_view at;                /* strides in `sums`; 0 where the bias is broadcast */
    size_t row_parts, key_parts; /* the pieces are numbered [row_parts, key_parts] */
} biases;

/* Adds the tile dZ in l->grad to the sums. */
static void add_tile(const biases *s, const attn_block *block, size_t j0, size_t n,
                     const attn_backward_lane *l) {
    const attn_kernels *k = s->g->k;
    for (size_t r = 0; r < block->rows; r++) {
        const char *dz = (const char *)l->grad + r * k->keys * k->elem;
        double *to = s->sums + s->at.batch[block->b] + (ptrdiff_t)block->h * s->at.head +
                     (ptrdiff_t)(block->i + r) * s->at.row;
        for (size_t j = 0; j < n; j++)
            to[(ptrdiff_t)(j0 + j) * s->at.col] += attn_element(dz, k->elem, j);
    }
}

/* Adds dZ of rows [i0, i1) of query head `head` against keys j … j + n - 1 to the sums. */
static attn_status add_rows(const biases *s, size_t head, size_t i0, size_t i1, size_t j, size_t n,
                            attn_backward_lane *l, attn_error *err) {
    const attn_backward *g = s->g;
    const size_t rows = g->k->rows;
    for (size_t i = i0 / rows; i < g->plan.blocks && i * rows < i1; i++) {
        const attn_block block = attn_block_at(&g->a->dims, g->k, head * g->plan.blocks + i);
        size_t ldq;
        ATTN_TRY(attn_control_check(g->control, err));
        if (!attn_backward_intersects(g->a, &block, j, n))
            continue;
        attn_backward_tile(g, &block, j, n, 1, l, &ldq);
        add_tile(s, &block, j, n, l);
    }
    return ATTN_OK;
}

static attn_status bias_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    const biases *s = ctx;
    const attn_backward *g = s->g;
    const attn_attention_dims *d = &g->a->dims;
    const attn_kernels *k = g->k;
    attn_backward_lane *l = &g->lanes[lane];
    const size_t row_part = index / s->key_parts, key_part = index % s->key_parts;
    const size_t i0 = row_part * k->rows, i1 = s->row_parts > 1 ? i0 + k->rows : d->L;
    const size_t j0 = key_part * k->keys, j1 = s->key_parts > 1 ? j0 + k->keys : d->S;
    for (size_t head = 0; head < d->B * d->Hq; head++)
        for (size_t j = j0; j < j1 && j < d->S; j += k->keys) {
            const size_t n = d->S - j < k->keys ? d->S - j : k->keys;
            attn_backward_load_tile(g, head / d->Hq, attn_kv_head(g->a, head % d->Hq), j, n, l);
            ATTN_TRY(add_rows(s, head, i0, i1, j, n, l, err));
        }
    return ATTN_OK;
}

/* Computes the gradient of the tensor of a bias layer. The tensor broadcasts to the scores as in
 * the forward pass. Only its shape is read. */
static attn_status back_bias(const attn_backward *g, const attn_mask_layer *layer, attn_pool *pool,
                             attn_arena *arena, attn_tensor *out, attn_error *err) {
    biases s = {.g = g};
    /* a copy, because attn_weights_view clears two members of the mask */
    attn_mask mask = *g->a->mask;
    attn_mask_layer sums = *layer;
    size_t count;
    ATTN_TRY(attn_dense_zeros(&layer->values, g->a->dims.result, arena, out, err));
    ATTN_TAKEN(attn_tensor_count(out, &count) &&
                   (s.sums = attn_arena_zeroed(arena, count, sizeof *s.sums)),
               "gradients", err);
    sums.values = attn_tensor_dense(s.sums, ATTN_F64, layer->values.rank, layer->values.dims);
    ATTN_TRY(attn_weights_view(&mask, &sums, arena, &s.at, err));
    s.row_parts = s.at.row && g->plan.blocks ? g->plan.blocks : 1;
    s.key_parts = s.at.col && g->plan.tiles ? g->plan.tiles : 1;
    ATTN_TRY(attn_pool_run(pool, s.row_parts * s.key_parts, bias_piece, &s, g->control, err));
    attn_dense_store(out, 0, s.sums, count);
    return ATTN_OK;
}

static attn_status finish_biases(const attn_backward *g, attn_pool *pool, attn_arena *arena,
                                 attn_gradients *out, attn_error *err) {
    const attn_mask *m = g->a->mask;
    const attn_attention_dims *d = &g->a->dims;
    const attn_mask_layer scores = {
        .kind = ATTN_LAYER_BIAS,
        .values = attn_tensor_dense(NULL, d->result, d->weights_rank, d->scores)};
    if (g->a->in.score_gradients)
        ATTN_TRY(back_bias(g, &scores, pool, arena, &out->scores, err));
    for (size_t p = 0; p < m->bias_count; p++) {
        const attn_mask_part *part = &m->bias[p];
        if (attn_layer_is_added(part->layer))
            ATTN_TRY(
                back_bias(g, part->layer, pool, arena, &out->bias[part->layer - m->layers], err));
    }
    return ATTN_OK;
}

/* --- queries, keys and values ---
 *
 * This part adds up the sums of dQ that the chunks of tiles have (backward.c). It computes the
 * backward pass through rotary positions and score maps, and sums over broadcast batch axes. */

/* An operand (queries, keys or values) and its gradients. */
typedef struct side {
    /* The operand as the caller gave it, [B, heads, rows, width_in]. Its first past_rows rows are
     * in `past`, the others in `view`. */
    const attn_view *past, *view;
    size_t past_rows, heads, rows, width_in;
    const attn_tensor *map; /* the score map of the operand; rank 0 or NULL: none */
    /* the parameter that contains the map as its columns from `column` on */
    const attn_tensor *from;
    size_t column;
    bool query;   /* true for queries, false for keys and values */
    char *grads;  /* the gradients [B, heads, rows, width] as elements of k's type */
    size_t width; /* the score width (values: value width); map_back sets it to width_in */
    bool alone; /* no other gradient is added to the caller's tensor, so `grads` is copied there */
    bool here;  /* the caller's tensor takes over the memory of `grads` */
} side;

/* Removes the padding of the n rows of an accumulator in place, so that it becomes dense
 * [n, width]. */
static char *remove_padding(const attn_kernels *k, char *acc, size_t n, size_t width) {
    const size_t room = attn_acc_room(k, width) * k->elem, bytes = width * k->elem;
    for (size_t r = 1; room != bytes && r < n; r++)
        memmove(acc + r * bytes, acc + r * room, bytes);
    return acc;
}

/* Adds up the sums of dQ of all chunks in the memory of the first one. Returns the total, dense
 * [B, Hq, L, score width]. */
static char *sum_query_chunks(const attn_backward *g) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t rows = d->B * d->Hq * d->L, n = rows * attn_acc_room(g->k, d->score_width);
    for (size_t c = 1; c < g->plan.chunks; c++)
        attn_elements_add(g->dquery, g->dquery + c * n * g->k->elem, g->k->elem, n);
    return remove_padding(g->k, g->dquery, rows, d->score_width);
}

/* Computes the backward pass through rotary positions: rotates gradients by the negative angles.
 * Cached rows that were rotated before the operation stay as they are. `angles` is scratch of 2 *
 * width doubles, and `row` scratch of one row. Unless `sums` is NULL, adds the gradient of the
 * frequencies to it. */
static void rotate_back(const attn_backward *g, const side *s, double *angles, void *row,
                        double *sums) {
    const attn_attention *a = g->a;
    const attn_rotary_rule *rule = &a->rule.rotary;
    const size_t elem = g->k->elem;
    size_t ld;
    for (size_t b = 0; b < a->dims.B; b++)
        for (size_t i = attn_rotated_from(a, s->past_rows); i < s->rows; i++) {
            double at[ATTN_ROTARY_AXES];
            if (!attn_rotary_row(a, s->query, b, i, at))
                continue;
            attn_rotary_angles(rule, at, angles, angles + s->width);
            for (size_t t = 0; t < rule->pairs; t++)
                angles[s->width + t] = -angles[s->width + t];
            for (size_t h = 0; h < s->heads; h++) {
                char *grad = s->grads + ((b * s->heads + h) * s->rows + i) * s->width * elem;
                if (sums)
                    attn_rotary_frequency_gradient(
                        rule, at,
                        attn_view_rows(&a->past_key, s->query ? 0 : a->turned_past,
                                       s->query ? &a->turned_query : &a->turned_key, b, h, i, 1,
                                       s->width, elem, row, &ld),
                        grad, elem, sums);
                attn_rotary_rotate(rule, grad, elem, angles, angles + s->width);
            }
        }
}

/* Calls rotate_back with memory of the arena, and adds the gradient of the caller's frequencies to
 * *out. */
static attn_status back_through_rotation(const attn_backward *g, const side *s, attn_arena *arena,
                                         attn_tensor *out, attn_error *err) {
    const attn_tensor *given = &g->a->in.position.frequencies;
    const size_t pairs = g->a->rule.rotary.pairs;
    double *angles = attn_arena_zeroed(arena, 4 * s->width + 1, sizeof *angles);
    double *sums = angles ? angles + 2 * s->width : NULL;
    ATTN_TAKEN(angles, "gradients", err);
    if (given->rank && !out->rank)
        ATTN_TRY(attn_dense_zeros(given, g->a->dims.result, arena, out, err));
    rotate_back(g, s, angles, sums + s->width, given->rank ? sums : NULL);
    for (size_t t = 0; given->rank && t < pairs; t++)
        attn_element_add(out->data, attn_dtype_size(out->dtype), t, sums[t]);
    return ATTN_OK;
}

/* --- score maps --- */

/* Returns a dense copy [B, heads, rows, width_in] of the operand as the caller gave it, in which
 * rows that are not finite are zeros. NULL: out of memory. */
static char *source_rows(const attn_backward *g, const side *s, attn_arena *arena) {
    const attn_kernels *k = g->k;
    const size_t head_rows = s->rows, bytes = s->width_in * k->elem;
    size_t count;
    if (!attn_size_mul(g->a->dims.B * s->heads * head_rows, s->width_in, &count))
        return NULL;
    char *dense = attn_arena_zeroed(arena, count, k->elem);
    for (size_t head = 0; dense && head < g->a->dims.B * s->heads; head++)
        for (size_t i = 0; i < head_rows; i++) {
            char *to = dense + (head * head_rows + i) * bytes;
            size_t ld;
            const void *row = attn_view_rows(s->past, s->past_rows, s->view, head / s->heads,
                                             head % s->heads, i, 1, s->width_in, k->elem, to, &ld);
            row = attn_backward_clean(k, DBL_MAX, row, &ld, 1, s->width_in, to);
            if (row != to)
                memcpy(to, row, bytes);
        }
    return dense;
}

/* Returns the member of out->score that corresponds to `from`, a member of g->a->in.score. */
static attn_tensor *score_gradient(const attn_backward *g, const attn_tensor *from,
                                   attn_gradients *out) {
    return (attn_tensor *)(void *)((char *)&out->score +
                                   ((const char *)from - (const char *)&g->a->in.score));
}

/* Computes the backward pass through the score map y = W x. dW is the sum of dy x^T over all rows.
 * It is stored as the gradient of the parameter. dx = W^T dy becomes s->grads. */
static attn_status map_back(const attn_backward *g, side *s, attn_arena *arena, attn_gradients *out,
                            attn_error *err) {
    const attn_kernels *k = g->k;
    const size_t A = s->width, E = s->width_in, rows = g->a->dims.B * s->heads * s->rows;
    attn_tensor *to = score_gradient(g, s->from, out);
    const attn_dtype dtype = attn_element_dtype(k->elem);
    char *x = source_rows(g, s, arena), *w = attn_dense_copy(s->map, dtype, arena);
    char *dw = attn_arena_zeroed(arena, A * E, k->elem), *dx = NULL;
    size_t count;
    if (attn_size_mul(rows, E, &count))
        dx = attn_arena_zeroed(arena, count, k->elem);
    ATTN_TAKEN(x && w && dw && dx && rows <= INT32_MAX, "gradients", err);
    if (!to->rank)
        ATTN_TRY(attn_dense_zeros(s->from, g->a->dims.result, arena, to, err));
    if (rows) {
        attn_kernels_gemm_elements(
            k->elem, dw, s->grads, x,
            &(attn_gemm_dims){
                .M = A, .N = E, .K = rows, .lda = A, .ldb = E, .ldc = E, .transpose_a = true},
            0);
        attn_kernels_gemm_elements(
            k->elem, dx, s->grads, w,
            &(attn_gemm_dims){.M = rows, .N = E, .K = A, .lda = A, .ldb = E, .ldc = E}, 0);
    }
    for (size_t r = 0; r < A; r++)
        for (size_t e = 0; e < E; e++) {
            const double value = attn_element(dw, k->elem, r * E + e);
            attn_dense_store(to, r * s->from->dims[1] + s->column + e, &value, 1);
        }
    s->grads = dx;
    s->width = E;
    return ATTN_OK;
}

/* Computes the gradient of the bias of the additive score. The bias is added to every mapped query,
 * so its gradient is the sum of the gradients of all mapped queries. */
static attn_status bias_back(const attn_backward *g, const side *s, attn_arena *arena,
                             attn_gradients *out, attn_error *err) {
    const attn_attention *a = g->a;
    ATTN_TRY(attn_dense_zeros(&a->in.score.b, a->dims.result, arena, &out->score.b, err));
    for (size_t c = 0; c < s->width; c++) {
        double sum = 0;
        for (size_t r = 0; r < a->dims.B * s->heads * s->rows; r++)
            sum += attn_element(s->grads, g->k->elem, r * s->width + c);
        attn_dense_store(&out->score.b, c, &sum, 1);
    }
    return ATTN_OK;
}

/* --- mixed heads --- */

/* Computes the backward pass through the mix of heads: s->grads become the gradients of the queries
 * and keys of each head, and *out becomes the gradient of the mixing matrix. */
static attn_status back_through_mix(const attn_backward *g, side *q, side *k, attn_pool *pool,
                                    attn_arena *arena, attn_tensor *out, attn_error *err) {
    const attn_attention *a = g->a;
    const attn_attention_dims *d = &a->dims;
    const size_t elem = g->k->elem;
    side turned = *q;
    turned.view = &a->turned_query;
    attn_mix_back m = {.a = a,
                       .control = g->control,
                       .elem = elem,
                       .wide_queries = q->grads,
                       .wide_keys = k->grads,
                       .queries = source_rows(g, &turned, arena),
                       .dquery = attn_arena_zeroed(arena, d->B * d->Hq * d->L, d->E * elem),
                       .dkey = attn_arena_zeroed(arena, d->B * d->Hkv * d->S, d->E * elem),
                       .sums = attn_arena_zeroed(arena, d->mixed, sizeof(double))};
    ATTN_TAKEN(m.queries && m.dquery && m.dkey && m.sums, "gradients", err);
    ATTN_TRY(attn_dense_zeros(&a->in.mix.logits, d->result, arena, out, err));
    ATTN_TRY(attn_mix_rows_back(&m, pool, err));
    attn_dense_store(out, 0, m.sums, d->mixed);
    q->grads = m.dquery;
    k->grads = m.dkey;
    q->width = k->width = d->E;
    return ATTN_OK;
}

/* Computes the backward pass through the mix of weights: v->grads become the gradients of the
 * caller's values, and out->mix_weights or out->subtract_lambda is set. */
static attn_status back_through_weights(const attn_backward *g, side *v, attn_pool *pool,
                                        attn_arena *arena, attn_gradients *out, attn_error *err) {
    const attn_attention_dims *d = &g->a->dims;
    const attn_tensor *given = d->pairs ? &g->a->in.subtract.lambda : &g->a->in.mix.weights;
    attn_tensor *to = d->pairs ? &out->subtract_lambda : &out->mix_weights;
    attn_weights_back m = g->mix;
    m.elem = g->k->elem;
    m.dwide = v->grads;
    m.dvalue = attn_arena_zeroed(arena, d->B * d->Hv * d->S, d->Ev * m.elem);
    m.sums = attn_arena_zeroed(arena, d->factors, sizeof *m.sums);
    ATTN_TAKEN(m.dvalue && m.sums, "gradients", err);
    ATTN_TRY(attn_mix_outputs_back(&m, pool, err));
    ATTN_TRY(attn_mix_values_back(&m, pool, err));
    ATTN_TRY(attn_dense_zeros(given, d->result, arena, to, err));
    if (!d->pairs)
        attn_dense_store(to, 0, m.sums, d->factors);
    for (size_t p = 0; d->pairs && p < d->Ho; p++)
        attn_element_add(to->data, attn_dtype_size(to->dtype), given->dims[0] == 1 ? 0 : p,
                         -m.sums[p * d->reads + 1]);
    v->grads = m.dvalue;
    v->heads = d->Hv;
    v->width = d->Ev;
    return ATTN_OK;
}

/* --- to the caller's tensors --- */

static bool has_elements_of(const attn_kernels *k, const attn_tensor *t) {
    return attn_dtype_size(t->dtype) == k->elem;
}

/* Makes the tensor *out with the shape of `like`, for the gradients of `rows` rows of every head,
 * and sets s->alone and s->here. If `shared`, gradients of another operand are added to *out,
 * too. */
static attn_status open_sums(const attn_backward *g, side *s, size_t rows, const attn_tensor *like,
                             bool shared, attn_arena *arena, attn_tensor *out, attn_error *err) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t width = s->map && s->map->rank ? s->width_in : s->width;
    size_t count, here, bytes;
    *out = attn_tensor_dense(NULL, d->result, like->rank, like->dims);
    s->alone = !shared && has_elements_of(g->k, out) && attn_tensor_count(out, &count) &&
               attn_size_mul(d->B * s->heads * rows, width, &here) && here == count &&
               attn_size_mul(count, g->k->elem, &bytes);
    s->here =
        s->alone && rows == s->rows && g->a->in.layout == ATTN_BHLE && !(s->map && s->map->rank);
    if (!s->alone)
        return attn_dense_zeros(like, d->result, arena, out, err);
    out->data = s->here ? s->grads : attn_arena_take(arena, bytes);
    return out->data ? ATTN_OK : attn_no_memory(err, "gradients");
}

/* Adds rows first … first + rows - 1 of every head of s->grads to the dense tensor `to`. If
 * s->alone, the rows are copied instead. */
static attn_status accumulate_rows(const attn_backward *g, const side *s, size_t first, size_t rows,
                                   attn_layout layout, attn_tensor *to, attn_arena *arena,
                                   attn_error *err) {
    const attn_attention *a = g->a;
    attn_view view;
    if (s->here)
        return ATTN_OK;
    ATTN_TAKEN(attn_layout_view(a, to, layout, arena, &view), "gradients", err);
    if (layout == ATTN_BLD)
        view.head = (ptrdiff_t)s->width;
    const bool same = has_elements_of(g->k, to);
    for (size_t head = 0; head < a->dims.B * s->heads; head++)
        for (size_t i = 0; i < rows; i++) {
            const char *row = s->grads + (head * s->rows + first + i) * s->width * g->k->elem;
            const ptrdiff_t at = view.batch[head / s->heads] +
                                 (ptrdiff_t)(head % s->heads) * view.head + (ptrdiff_t)i * view.row;
            if (s->alone)
                memcpy((char *)to->data + at * (ptrdiff_t)g->k->elem, row, s->width * g->k->elem);
            else if (same)
                attn_elements_add((char *)to->data + at * (ptrdiff_t)g->k->elem, row, g->k->elem,
                                  s->width);
            else
                for (size_t e = 0; e < s->width; e++)
                    attn_element_add(to->data, attn_dtype_size(to->dtype), (size_t)at + e,
                                     attn_element(row, g->k->elem, e));
        }
    return ATTN_OK;
}

static attn_status accumulate_keys(const attn_backward *g, const side *s, attn_tensor *to,
                                   attn_tensor *past, const attn_tensor *past_like,
                                   attn_arena *arena, attn_error *err) {
    const attn_attention_dims *d = &g->a->dims;
    side cached = *s;
    ATTN_TRY(accumulate_rows(g, s, d->past, d->S - d->past, g->a->in.layout, to, arena, err));
    if (!d->past)
        return ATTN_OK;
    ATTN_TRY(open_sums(g, &cached, d->past, past_like, false, arena, past, err));
    return accumulate_rows(g, &cached, 0, d->past, ATTN_BHLE, past, arena, err);
}

static attn_status back_through_rotation_and_map(const attn_backward *g, side *s, attn_arena *arena,
                                                 attn_gradients *out, attn_error *err) {
    if (g->a->in.position.kind == ATTN_POSITION_ROTARY)
        ATTN_TRY(back_through_rotation(g, s, arena, &out->frequencies, err));
    return s->map->rank ? map_back(g, s, arena, out, err) : ATTN_OK;
}

static attn_encoding_rows encoded_rows(const attn_backward *g, const side *s) {
    const attn_attention_dims *d = &g->a->dims;
    return (attn_encoding_rows){.grads = s->grads,
                                .elem = g->k->elem,
                                .heads = s->heads,
                                .stored = s->rows,
                                .first = s->query ? 0 : d->past,
                                .rows = s->query ? d->L : d->S - d->past,
                                .width = s->width,
                                .queries = s->query};
}

static attn_status accumulate_gradients(const attn_backward *g, attn_pool *pool, attn_arena *arena,
                                        attn_gradients *out, attn_error *err) {
    attn_attention *a = g->a;
    const attn_inputs *in = &a->in;
    const attn_attention_dims *d = &a->dims;
    const attn_score_plan *p = &a->plan;
    side q = {.view = &a->query,
              .heads = d->Hq,
              .rows = d->L,
              .width_in = d->E,
              .map = &p->query_map,
              .from = p->query_from,
              .column = p->query_column,
              .query = true,
              .grads = sum_query_chunks(g),
              .width = d->score_width};
    side k = {.past = &a->past_key,
              .view = &a->key,
              .past_rows = d->past,
              .heads = d->Hkv,
              .rows = d->S,
              .width_in = d->Ek,
              .map = &p->key_map,
              .from = p->key_from,
              .column = p->key_column,
              .grads = remove_padding(g->k, g->dkey, d->B * d->Hkv * d->S, d->score_width),
              .width = d->score_width};
    side v = {.heads = d->Hkv,
              .rows = d->S,
              .grads = remove_padding(g->k, g->dvalue, d->B * d->Hkv * d->S, d->value_width),
              .width = d->value_width};
    if (d->mixed)
        ATTN_TRY(back_through_mix(g, &q, &k, pool, arena, &out->mix_logits, err));
    if (d->factors)
        ATTN_TRY(back_through_weights(g, &v, pool, arena, out, err));
    attn_tensor *key = in->key.rank ? &out->key : &out->query;
    attn_tensor *value = in->value.rank ? &out->value : key;
    const size_t sent = d->S - d->past;
    ATTN_TRY(open_sums(g, &q, d->L, &in->query, !in->key.rank, arena, &out->query, err));
    if (in->key.rank)
        ATTN_TRY(open_sums(g, &k, sent, &in->key, !in->value.rank, arena, &out->key, err));
    if (in->value.rank)
        ATTN_TRY(open_sums(g, &v, sent, &in->value, false, arena, &out->value, err));
    if (p->query_bias.rank)
        ATTN_TRY(bias_back(g, &q, arena, out, err));
    ATTN_TRY(back_through_rotation_and_map(g, &q, arena, out, err));
    ATTN_TRY(back_through_rotation_and_map(g, &k, arena, out, err));
    ATTN_TRY(accumulate_rows(g, &q, 0, d->L, in->layout, &out->query, arena, err));
    ATTN_TRY(accumulate_keys(g, &k, key, &out->past_key, &in->past_key, arena, err));
    ATTN_TRY(accumulate_keys(g, &v, value, &out->past_value, &in->past_value, arena, err));
    if (in->position.kind == ATTN_POSITION_LEARNED)
        ATTN_TRY(attn_encodings_collect(
            a,
            (attn_encoding_rows[]){encoded_rows(g, &q), encoded_rows(g, &k), encoded_rows(g, &v)},
            3, arena, &out->table, err));
    return ATTN_OK;
}

/* --- numbers by row, and all gradients --- */

/* Returns the gradient of the sink of row r of all rows. The value of a sink is 0, so dP of its
 * weight is 0, and the gradient is the sink's weight times -g->dot. With another normaliser than
 * softmax the derivative of the weight takes the place of the weight. */
static double sink_gradient(const attn_backward *g, size_t r, double sink) {
    if (g->a->dims.normalizer)
        return -attn_normalizer_sink(g->a, sink, g->results->stats.max[r]) * g->dot[r];
    const attn_stats *s = &g->results->stats;
    const attn_kernels *k = s->kind[r] == ATTN_ROW_DOUBLE ? &attn_kernels_ref : g->a->kernels;
    return -exp(sink - k->logsumexp(s->max[r], s->sum[r])) * g->dot[r];
}

static double scale_gradient(const attn_backward *g, size_t r, double scale) {
    const attn_attention_dims *d = &g->a->dims;
    double sum = 0;
    (void)scale;
    for (size_t c = 0; c < g->plan.chunks; c++)
        sum += g->scales[c * d->B * d->Hq * d->L + r];
    return sum;
}

/* Computes the gradients of numbers by row: the gradient of an element of `input` is the sum of the
 * gradients of all rows that use the element. */
static attn_status back_by_row(const attn_backward *g, const attn_row_numbers *numbers,
                               const attn_tensor *input,
                               double (*gradient)(const attn_backward *g, size_t r, double number),
                               attn_arena *arena, attn_tensor *out, attn_error *err) {
    const attn_attention_dims *d = &g->a->dims;
    size_t count = 0;
    if (!numbers->values)
        return ATTN_OK;
    attn_tensor_count(input, &count);
    double *sums = attn_arena_zeroed(arena, count, sizeof *sums);
    ATTN_TAKEN(sums, "gradients", err);
    ATTN_TRY(attn_dense_zeros(input, d->result, arena, out, err));
    for (size_t r = 0; r < d->B * d->Hq * d->L; r++) {
        const size_t head = r / d->L;
        const size_t at = attn_row_number(numbers, head / d->Hq, head % d->Hq, r % d->L);
        sums[at] += gradient(g, r, numbers->values[at]);
    }
    attn_dense_store(out, 0, sums, count);
    return ATTN_OK;
}

attn_status attn_backward_finish(attn_backward *g, attn_pool *pool, attn_arena *arena,
                                 attn_gradients *out, attn_error *err) {
    const size_t pieces = g->a->dims.B * g->a->dims.Hkv * g->plan.chunks;
    ATTN_TRY(attn_backward_tables(g, pieces, arena, out, err));
    const attn_attention *a = g->a;
    ATTN_TRY(back_by_row(g, &a->sinks, &a->in.sinks, sink_gradient, arena, &out->sinks, err));
    ATTN_TRY(back_by_row(g, &a->scales, &a->in.scales, scale_gradient, arena, &out->scales, err));
    ATTN_TRY(finish_biases(g, pool, arena, out, err));
    return accumulate_gradients(g, pool, arena, out, err);
}

static bool is_finite(const attn_backward *g, const attn_tensor *x) {
    const attn_kernels *k =
        x->dtype == ATTN_F64 ? &attn_kernels_ref : attn_kernels_plain(g->a->kernels);
    size_t n = 0;
    if (!x->rank || !attn_tensor_count(x, &n))
        return true;
    if (k->elem == attn_dtype_size(x->dtype))
        return isfinite(k->max_magnitude(x->data, n));
    for (size_t i = 0; i < n; i++)
        if (!isfinite(((const float *)x->data)[i]))
            return false;
    return true;
}

bool attn_backward_all_finite(const attn_backward *g, const attn_gradients *out) {
    bool finite = is_finite(g, &out->scores);
    for (const attn_input *row = attn_input_rows; row->name && finite; row++)
        finite = row->type != ATTN_INPUT_TENSOR || is_finite(g, attn_tensor_at(out, row->gradient));
    for (size_t l = 0; l < ATTN_MASK_LAYERS && finite; l++)
        finite = is_finite(g, &out->bias[l]);
    return finite;
}
