/* From canonical rows to the caller's tensors: chunks are added up, rotary positions turned back,
 * score maps applied backwards, broadcast axes summed. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "attention/backward.h"
#include "base/dense.h"
#include "kernels/gemm.h"

static attn_status no_memory(attn_error *err) {
    return attn_fail(err, ATTN_ENOMEM, "", "no memory left for gradients");
}

void attn_back_store(const attn_tensor *t, size_t at, const double *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (t->dtype == ATTN_F64)
            ((double *)t->data)[at + i] = x[i];
        else
            ((float *)t->data)[at + i] = (float)x[i];
}

/* Gradients of one side's rows [B, heads, rows, width], elements of k. */
typedef struct side {
    const attn_view *past, *view; /* as sent */
    size_t past_rows, heads, rows, width_in;
    const attn_tensor *map, *from;
    size_t column;
    bool query;
    char *grads;
    size_t width; /* of grads */
    bool alone; /* each element of the caller's tensor comes from one of these, and is not zeroed */
    bool here;  /* the caller's tensor is these rows */
} side;

/* to += from, n elements of k. */
static void add_row(const attn_kernels *k, void *to, const void *from, size_t n) {
    if (k->elem == sizeof(float))
        for (size_t e = 0; e < n; e++)
            ((float *)to)[e] += ((const float *)from)[e];
    else
        for (size_t e = 0; e < n; e++)
            ((double *)to)[e] += ((const double *)from)[e];
}

/* Accumulators of n rows as rows without a gap, in place. */
static char *close_up(const attn_kernels *k, char *acc, size_t n, size_t width) {
    const size_t room = k->acc_room(width) * k->elem, bytes = width * k->elem;
    for (size_t r = 1; room != bytes && r < n; r++)
        memmove(acc + r * bytes, acc + r * room, bytes);
    return acc;
}

/* The chunks of queries' accumulators are added up in the first one's place. */
static char *query_rows(const attn_backward *g) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t rows = d->B * d->Hq * d->L, n = rows * g->k->acc_room(d->score_width);
    for (size_t c = 1; c < g->chunks; c++)
        add_row(g->k, g->dquery, g->dquery + c * n * g->k->elem, n);
    return close_up(g->k, g->dquery, rows, d->score_width);
}

/* The transpose of a turn is the turn back. */
static bool turn_back(const attn_backward *g, const side *s, attn_arena *arena) {
    const attn_attention *a = g->a;
    const attn_position *p = &a->in.position;
    double *angles = attn_arena_zeroed(arena, 2 * s->width + 1, sizeof *angles);
    for (size_t b = 0; angles && b < a->dims.B; b++)
        for (size_t i = s->past_rows; i < s->rows; i++) {
            const int64_t offset = s->query ? attn_mask_offset(a->mask, b) : 0;
            attn_rotary_angles(p, s->width, (double)((int64_t)i + offset), angles,
                               angles + s->width);
            for (size_t e = 0; e < s->width; e++)
                angles[s->width + e] = -angles[s->width + e];
            for (size_t h = 0; h < s->heads; h++)
                attn_rotary_turn(p, s->width,
                                 s->grads +
                                     ((b * s->heads + h) * s->rows + i) * s->width * g->k->elem,
                                 g->k->elem, angles, angles + s->width);
        }
    return angles != NULL;
}

/* --- score maps --- */

/* The rows as they were sent, dense. */
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
            row = attn_back_clean(k, DBL_MAX, row, &ld, 1, s->width_in, to);
            if (row != to)
                memcpy(to, row, bytes);
        }
    return dense;
}

/* The gradient of the parameter that a map was cut from: the same member of out->score. */
static attn_tensor *member(const attn_backward *g, const attn_tensor *from, attn_gradients *out) {
    return (attn_tensor *)(void *)((char *)&out->score +
                                   ((const char *)from - (const char *)&g->a->in.score));
}

/* y = W x: dW = sum of dy x^T, dx = W^T dy. */
static attn_status map_back(const attn_backward *g, side *s, attn_arena *arena, attn_gradients *out,
                            attn_error *err) {
    const attn_kernels *k = g->k;
    const size_t A = s->width, E = s->width_in, rows = g->a->dims.B * s->heads * s->rows;
    attn_tensor *to = member(g, s->from, out);
    const attn_dtype dtype = k->elem == sizeof(float) ? ATTN_F32 : ATTN_F64;
    char *x = source_rows(g, s, arena), *w = attn_dense_copy(s->map, dtype, arena);
    char *dw = attn_arena_zeroed(arena, A * E, k->elem), *dx = NULL;
    size_t count;
    if (attn_size_mul(rows, E, &count))
        dx = attn_arena_zeroed(arena, count, k->elem);
    if (!x || !w || !dw || !dx || rows > INT32_MAX)
        return no_memory(err);
    attn_status status =
        to->rank ? ATTN_OK : attn_dense_zeros(s->from, g->a->dims.result, arena, to, err);
    if (status != ATTN_OK)
        return status;
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
            const double value = attn_back_cell(k, dw, r * E + e);
            attn_back_store(to, r * s->from->dims[1] + s->column + e, &value, 1);
        }
    s->grads = dx;
    s->width = E;
    return ATTN_OK;
}

/* The additive score's bias stands with the mapped queries. */
static attn_status bias_back(const attn_backward *g, const side *s, attn_arena *arena,
                             attn_gradients *out, attn_error *err) {
    const attn_attention *a = g->a;
    attn_status status =
        attn_dense_zeros(&a->in.score.b, a->dims.result, arena, &out->score.b, err);
    for (size_t c = 0; c < s->width && status == ATTN_OK; c++) {
        double sum = 0;
        for (size_t r = 0; r < a->dims.B * s->heads * s->rows; r++)
            sum += attn_back_cell(g->k, s->grads, r * s->width + c);
        attn_back_store(&out->score.b, c, &sum, 1);
    }
    return status;
}

/* --- to the caller's tensors --- */

static bool has_elements_of(const attn_kernels *k, const attn_tensor *t) {
    return attn_dtype_size(t->dtype) == k->elem;
}

/* The same where the tensor has other elements than k. */
static void add_converted(const attn_kernels *k, const attn_tensor *to, ptrdiff_t at,
                          const void *row, size_t n) {
    for (size_t e = 0; e < n; e++, at++)
        if (to->dtype == ATTN_F64)
            ((double *)to->data)[at] += attn_back_cell(k, row, e);
        else
            ((float *)to->data)[at] += (float)attn_back_cell(k, row, e);
}

/* The tensor that `rows` rows of every head go to. `shared`: others do, too. */
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
    return out->data ? ATTN_OK : no_memory(err);
}

/* Rows first … of every head are added to the dense tensor `to`, or all that there is in it. */
static attn_status fold(const attn_backward *g, const side *s, size_t first, size_t rows,
                        attn_layout layout, attn_tensor *to, attn_arena *arena, attn_error *err) {
    const attn_attention *a = g->a;
    attn_view view;
    if (s->here)
        return ATTN_OK;
    if (!attn_layout_view(a, to, layout, arena, &view))
        return no_memory(err);
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
                add_row(g->k, (char *)to->data + at * (ptrdiff_t)g->k->elem, row, s->width);
            else
                add_converted(g->k, to, at, row, s->width);
        }
    return ATTN_OK;
}

static attn_status fold_keys(const attn_backward *g, const side *s, attn_tensor *to,
                             attn_tensor *past, const attn_tensor *past_like, attn_arena *arena,
                             attn_error *err) {
    const attn_attention_dims *d = &g->a->dims;
    side cached = *s;
    attn_status status = fold(g, s, d->past, d->S - d->past, g->a->in.layout, to, arena, err);
    if (status == ATTN_OK && d->past)
        status = open_sums(g, &cached, d->past, past_like, false, arena, past, err);
    if (status == ATTN_OK && d->past)
        status = fold(g, &cached, 0, d->past, ATTN_BHLE, past, arena, err);
    return status;
}

static attn_status back_through(const attn_backward *g, side *s, attn_arena *arena,
                                attn_gradients *out, attn_error *err) {
    if (g->a->in.position.kind == ATTN_POSITION_ROTARY && !turn_back(g, s, arena))
        return no_memory(err);
    return s->map->rank ? map_back(g, s, arena, out, err) : ATTN_OK;
}

attn_status attn_back_fold(const attn_backward *g, attn_arena *arena, attn_gradients *out,
                           attn_error *err) {
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
              .grads = query_rows(g),
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
              .grads = close_up(g->k, g->dkey, d->B * d->Hkv * d->S, d->score_width),
              .width = d->score_width};
    side v = {.heads = d->Hkv,
              .rows = d->S,
              .grads = close_up(g->k, g->dvalue, d->B * d->Hkv * d->S, d->Ev),
              .width = d->Ev};
    attn_tensor *key = in->key.rank ? &out->key : &out->query;
    attn_tensor *value = in->value.rank ? &out->value : key;
    const size_t sent = d->S - d->past;
    attn_status status = open_sums(g, &q, d->L, &in->query, !in->key.rank, arena, &out->query, err);
    if (status == ATTN_OK && in->key.rank)
        status = open_sums(g, &k, sent, &in->key, !in->value.rank, arena, &out->key, err);
    if (status == ATTN_OK && in->value.rank)
        status = open_sums(g, &v, sent, &in->value, false, arena, &out->value, err);
    if (status == ATTN_OK && p->query_bias.rank)
        status = bias_back(g, &q, arena, out, err);
    if (status == ATTN_OK)
        status = back_through(g, &q, arena, out, err);
    if (status == ATTN_OK)
        status = back_through(g, &k, arena, out, err);
    if (status == ATTN_OK)
        status = fold(g, &q, 0, d->L, in->layout, &out->query, arena, err);
    if (status == ATTN_OK)
        status = fold_keys(g, &k, key, &out->past_key, &in->past_key, arena, err);
    if (status == ATTN_OK)
        status = fold_keys(g, &v, value, &out->past_value, &in->past_value, arena, err);
    return status;
}
