/* The linear projections of query, key, value and output, y = x W^T + b, and their gradients. */
#include <attn/projections.h>

#include <attn/gradients.h>
#include <math.h>
#include <string.h>

#include "attention/encodings.h"
#include "attention/resolved.h"
#include "base/try.h"
#include "base/view.h"
#include "kernels/gemm.h"

/* Rows in a piece. The number is constant, so that results do not depend on the number of
 * threads. */
enum { ROWS_A_PIECE = 256 };

static attn_status too_large(attn_error *err) {
    return attn_fail(err, ATTN_ELIMIT, "projections", "beyond what can be computed");
}

/* --- shapes --- */

/* One of the projections of query, key and value. */
typedef struct part {
    const attn_tensor *t;               /* input of the projection, [.., L, D] */
    const attn_tensor *w, *b;           /* weight [out, D] and bias [out]; rank 0: none */
    const char *name, *w_name, *b_name; /* names of t, w and b in errors */
    size_t heads;                       /* number of heads in its result */
} part;

static attn_status check_part(const part *p, attn_tensor *out, size_t *parameters,
                              attn_error *err) {
    char have[128];
    if (p->t->rank < 2)
        return attn_fail(err, ATTN_ESHAPE, p->name, "expected [L, D] or [B, L, D], found %s",
                         attn_rank_text(p->t));
    *out = *p->t;
    if (p->b->rank && !p->w->rank)
        return attn_fail(err, ATTN_EARG, p->b_name, "a bias needs its weight");
    if (p->w->rank) {
        const size_t D = p->t->dims[p->t->rank - 1];
        attn_found_text(p->w, have, sizeof have);
        if (p->w->rank != 2 || p->w->dims[1] != D)
            return attn_fail(err, ATTN_ESHAPE, p->w_name,
                             "expected [out, %zu] (torch.nn.Linear.weight), found %s", D, have);
        if (p->b->rank && (p->b->rank != 1 || p->b->dims[0] != p->w->dims[0]))
            return attn_fail(err, ATTN_ESHAPE, p->b_name, "expected shape [%zu]", p->w->dims[0]);
        if (p->w->dtype > ATTN_F64 || (p->b->rank && p->b->dtype > ATTN_F64))
            return attn_fail(err, ATTN_EDTYPE, p->w_name, "expected floating-point numbers");
        size_t dims[ATTN_MAX_RANK];
        memcpy(dims, p->t->dims, sizeof dims);
        dims[p->t->rank - 1] = p->w->dims[0];
        *out = attn_tensor_dense(
            NULL, p->t->dtype == ATTN_F64 || p->w->dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32,
            p->t->rank, dims);
        if (parameters)
            *parameters += p->w->dims[0] * (D + (p->b->rank ? 1 : 0));
    }
    const size_t width = out->dims[out->rank - 1];
    if (p->heads && width % p->heads)
        return attn_fail(err, ATTN_ESHAPE, p->w->rank ? p->w_name : p->name,
                         "the width %zu is not divisible by the %zu heads", width, p->heads);
    return ATTN_OK;
}

static void parts_of(const attn_inputs *in, const attn_projections *p, part parts[3]) {
    const attn_tensor *key = in->key.rank ? &in->key : &in->query;
    const attn_tensor *value = in->value.rank ? &in->value : key;
    const size_t kv = p->num_kv_heads ? p->num_kv_heads : p->num_heads;
    parts[0] = (part){&in->query,        &p->w_q,           &p->b_q,     "query",
                      "projections/w_q", "projections/b_q", p->num_heads};
    parts[1] = (part){key, &p->w_k, &p->b_k, "key", "projections/w_k", "projections/b_k", kv};
    parts[2] = (part){value, &p->w_v, &p->b_v, "value", "projections/w_v", "projections/b_v", kv};
}

static attn_status check_output(const attn_inputs *in, const attn_projections *p,
                                size_t *parameters, attn_error *err) {
    const size_t kv = p->num_kv_heads ? p->num_kv_heads : p->num_heads;
    size_t width;
    if (p->b_o.rank && !p->w_o.rank)
        return attn_fail(err, ATTN_EARG, "projections/b_o", "a bias needs its weight");
    if (!p->w_o.rank)
        return ATTN_OK;
    if (!attn_size_mul(in->value.dims[in->value.rank - 1] / kv, p->num_heads, &width))
        return too_large(err);
    if (p->w_o.rank != 2 || p->w_o.dims[1] != width || p->w_o.dtype > ATTN_F64)
        return attn_fail(
            err, ATTN_ESHAPE, "projections/w_o",
            "expected floating-point numbers of shape [out, %zu]: heads times value width", width);
    if (p->b_o.rank &&
        (p->b_o.rank != 1 || p->b_o.dims[0] != p->w_o.dims[0] || p->b_o.dtype > ATTN_F64))
        return attn_fail(err, ATTN_ESHAPE, "projections/b_o", "expected shape [%zu]",
                         p->w_o.dims[0]);
    if (parameters)
        *parameters += p->w_o.dims[0] * (width + (p->b_o.rank ? 1 : 0));
    return ATTN_OK;
}

/* Returns the positions that are added before the projections. */
static attn_position encodings_of(const attn_inputs *in, const attn_projections *p) {
    if (p->add_positions)
        return (attn_position){.kind = ATTN_POSITION_SINUSOIDAL};
    return attn_position_encodes(in->position.kind) ? in->position
                                                    : (attn_position){.kind = ATTN_POSITION_NONE};
}

static const char *asked_by(const attn_projections *p, const attn_position *encodings) {
    return p->add_positions                           ? "projections/add_positions"
           : encodings->kind == ATTN_POSITION_LEARNED ? "position/table"
                                                      : "position/kind";
}

static attn_status check_encodings(const attn_inputs *in, const attn_projections *p,
                                   const part parts[3], attn_error *err) {
    const attn_position e = encodings_of(in, p);
    const size_t past = in->past_key.rank >= 2 ? in->past_key.dims[in->past_key.rank - 2] : 0;
    if (p->add_positions && attn_position_encodes(in->position.kind))
        return attn_fail(err, ATTN_EARG, "projections/add_positions",
                         "position adds encodings already; leave out one of the two");
    for (int i = 0; i < 3 && e.kind != ATTN_POSITION_NONE; i++) {
        const attn_tensor *t = parts[i].t;
        size_t positions = 0;
        if (i > 0 && !in->key_positions.rank &&
            !attn_size_add(past, t->dims[t->rank - 2], &positions))
            return too_large(err);
        ATTN_TRY(attn_encoding_check(&e, asked_by(p, &e), t, positions, err));
    }
    return ATTN_OK;
}

attn_status attn_projections_shape(const attn_inputs *in, const attn_projections *p,
                                   attn_inputs *out, size_t *parameters, attn_error *err) {
    part parts[3];
    attn_inputs projected = *in;
    attn_tensor *const to[3] = {&projected.query, &projected.key, &projected.value};
    if (!p->num_heads)
        return attn_fail(err, ATTN_EARG, "projections/num_heads", "expected at least 1 head");
    if (in->layout == ATTN_BLHE)
        return attn_fail(err, ATTN_EARG, "layout",
                         "projections take query, key and value as [B, L, D]");
    if (parameters)
        *parameters = 0;
    parts_of(in, p, parts);
    for (int i = 0; i < 3; i++)
        ATTN_TRY(check_part(&parts[i], to[i], parameters, err));
    ATTN_TRY(check_encodings(in, p, parts, err));
    ATTN_TRY(attn_sequence_positions_read_by(
        in, encodings_of(in, p).kind || attn_position_reads(in), err));
    if (attn_position_encodes(in->position.kind))
        projected.position = (attn_position){.kind = ATTN_POSITION_NONE};
    projected.layout = ATTN_BLD;
    projected.projected = true;
    projected.num_heads = p->num_heads;
    projected.num_kv_heads = p->num_kv_heads ? p->num_kv_heads : p->num_heads;
    ATTN_TRY(check_output(&projected, p, parameters, err));
    *out = projected;
    return ATTN_OK;
}

/* Adds the cost of one product x [rows, in] w^T [in, out] + b: its operations, and the bytes of
 * dense copies of x, w and b and of the result, with 8 bytes for each element. Without a product
 * (`multiplies` is false) only the bytes are added. */
static bool add_cost(attn_cost *c, size_t rows, size_t in, size_t out, bool multiplies) {
    size_t copies, weights, results, total;
    if (!attn_size_mul(rows, in, &copies) || !attn_size_mul(in + 1, out, &weights) ||
        !attn_size_mul(rows, out, &results) || !attn_size_add(copies, weights, &total) ||
        !attn_size_add(total, results, &total) || !attn_size_mul(total, sizeof(double), &total) ||
        !attn_size_add(c->work_bytes, total + 4 * ATTN_ALIGN, &c->work_bytes))
        return false;
    if (multiplies)
        c->operations += 2.0 * (double)rows * (double)in * (double)out;
    return true;
}

/* Adds the bytes that attn_projections_draw takes for the tensors that have no data yet. */
static bool add_draws(const attn_projections *p, attn_cost *c) {
    const attn_tensor *const all[] = {&p->w_q, &p->b_q, &p->w_k, &p->b_k,
                                      &p->w_v, &p->b_v, &p->w_o, &p->b_o};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t n;
        if (all[i]->rank && !all[i]->data &&
            (!attn_tensor_count(all[i], &n) || !attn_size_mul(n, sizeof(float), &n) ||
             !attn_size_add(c->work_bytes, n + ATTN_ALIGN, &c->work_bytes)))
            return false;
    }
    return true;
}

/* Adds the bytes that gradients of learned positions take: the gradient of each input, and the sums
 * and the gradient of the table, with 8 bytes for each element. */
static bool add_table(const attn_position *encodings, const part parts[3], attn_cost *c) {
    size_t n, bytes, all = 0;
    for (int i = 0; i < 3; i++)
        if (!attn_tensor_count(parts[i].t, &n) || !attn_size_add(all, n, &all))
            return false;
    return encodings->kind != ATTN_POSITION_LEARNED ||
           (attn_tensor_count(&encodings->table, &n) && attn_size_add(all, n, &all) &&
            attn_size_add(all, n, &all) && attn_size_mul(all, sizeof(double), &bytes) &&
            attn_size_add(c->work_bytes, bytes + 5 * ATTN_ALIGN, &c->work_bytes));
}

attn_status attn_projections_cost(const attn_inputs *in, const attn_projections *p, attn_cost *out,
                                  attn_error *err) {
    const attn_position encodings = encodings_of(in, p);
    attn_cost c = {.cells = 0};
    attn_inputs projected;
    part parts[3];
    size_t rows;
    ATTN_TRY(attn_projections_shape(in, p, &projected, NULL, err));
    parts_of(in, p, parts);
    for (int i = 0; i < 3; i++) {
        const size_t D = parts[i].t->dims[parts[i].t->rank - 1];
        const bool maps = parts[i].w->rank;
        const size_t width = maps ? parts[i].w->dims[0] : encodings.kind ? D : 0;
        if (!attn_dense_rows(parts[i].t, &rows) || !add_cost(&c, rows, D, width, maps))
            return too_large(err);
        if (encodings.kind)
            c.operations += ATTN_ENCODING_OPERATIONS * (double)rows * (double)D;
    }
    if (p->w_o.rank && (!attn_dense_rows(&in->query, &rows) ||
                        !add_cost(&c, rows, p->w_o.dims[1], p->w_o.dims[0], true)))
        return too_large(err);
    if (!add_draws(p, &c) || !add_table(&encodings, parts, &c))
        return too_large(err);
    *out = c;
    return ATTN_OK;
}

/* --- products --- */

/* y [rows, out] = x [rows, in] w^T + bias, all dense with elements of elem bytes. */
typedef struct product {
    const char *x, *w;
    const char *bias; /* [out]; NULL: none */
    char *y;
    size_t rows, in, out, elem;
} product;

static attn_status product_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    const product *p = ctx;
    const size_t first = index * ROWS_A_PIECE;
    const size_t n = p->rows - first < ROWS_A_PIECE ? p->rows - first : ROWS_A_PIECE;
    const attn_gemm_dims dims = {.M = n,
                                 .N = p->out,
                                 .K = p->in,
                                 .lda = p->in,
                                 .ldb = p->in,
                                 .ldc = p->out,
                                 .transpose_b = true};
    char *y = p->y + first * p->out * p->elem;
    (void)lane, (void)err;
    for (size_t r = 0; r < n; r++)
        if (p->bias)
            memcpy(y + r * p->out * p->elem, p->bias, p->out * p->elem);
        else
            memset(y + r * p->out * p->elem, 0, p->out * p->elem);
    if (!n || !p->out || !p->in)
        return ATTN_OK;
    const void *x = p->x + first * p->in * p->elem;
    attn_kernels_gemm_elements(p->elem, y, x, p->w, &dims, 1);
    return ATTN_OK;
}

static attn_status project(const attn_tensor *x, const attn_tensor *w, const attn_tensor *b,
                           attn_pool *pool, const attn_control *control, attn_arena *arena,
                           attn_tensor *out, attn_error *err) {
    size_t dims[ATTN_MAX_RANK], count;
    const attn_dtype dtype = x->dtype == ATTN_F64 || w->dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank - 1] = w->dims[0];
    *out = attn_tensor_dense(NULL, dtype, x->rank, dims);
    product p = {.in = w->dims[1], .out = w->dims[0], .elem = attn_dtype_size(dtype)};
    if (p.in > INT32_MAX || p.out > INT32_MAX || !attn_tensor_count(out, &count) ||
        !attn_size_mul(count, p.elem, &count) || !attn_dense_rows(x, &p.rows))
        return too_large(err);
    p.x = attn_dense_copy(x, dtype, arena);
    p.w = attn_dense_copy(w, dtype, arena);
    p.bias = b->rank ? attn_dense_copy(b, dtype, arena) : NULL;
    p.y = attn_arena_take(arena, count);
    ATTN_TAKEN(p.x && p.w && p.y && (!b->rank || p.bias), "projections", err);
    out->data = p.y;
    return attn_pool_run(pool, (p.rows + ROWS_A_PIECE - 1) / ROWS_A_PIECE, product_piece, &p,
                         control, err);
}

/* Sets dims, positions and layout of *e. `shapes` are inputs with the shapes of the operation,
 * whose data are not read. The positions come from `in`. */
static attn_status open_encoding(const attn_inputs *in, const attn_inputs *shapes,
                                 attn_arena *arena, attn_encoding *e, attn_error *err) {
    attn_mask *mask;
    attn_attention_dims *d = &e->dims;
    ATTN_TRY(attn_attention_shape(shapes, d, err));
    ATTN_TRY(attn_attention_mask_new(&shapes->mask, d, arena, &mask, err));
    e->layout = shapes->layout;
    ATTN_TRY(attn_sequence_positions_read(&in->query_positions, "query_positions", mask->offset,
                                          arena, &e->query_positions, err));
    return attn_sequence_positions_read(&in->key_positions, "key_positions", NULL, arena,
                                        &e->key_positions, err);
}

attn_status attn_projections_apply(const attn_inputs *in, const attn_projections *p,
                                   attn_pool *pool, const attn_control *control, attn_arena *arena,
                                   attn_inputs *out, attn_error *err) {
    part parts[3];
    attn_inputs projected, shapes;
    ATTN_TRY(attn_projections_shape(in, p, &shapes, NULL, err));
    attn_tensor *const to[3] = {&projected.query, &projected.key, &projected.value};
    attn_encoding e = {.position = encodings_of(in, p)};
    e.where = asked_by(p, &e.position);
    parts_of(in, p, parts);
    const attn_tensor *const tensors[3] = {parts[0].t, parts[1].t, parts[2].t};
    projected = shapes;
    if (e.position.kind != ATTN_POSITION_NONE)
        ATTN_TRY(open_encoding(in, &shapes, arena, &e, err));
    for (int i = 0; i < 3; i++) {
        attn_tensor x = *parts[i].t;
        e.stream = attn_encoding_stream(tensors, i);
        if (e.position.kind != ATTN_POSITION_NONE)
            ATTN_TRY(attn_encode(&e, i == 0, parts[i].t, arena, &x, err));
        *to[i] = x;
        if (parts[i].w->rank)
            ATTN_TRY(project(&x, parts[i].w, parts[i].b, pool, control, arena, to[i], err));
    }
    if (!attn_position_reads(&projected)) /* no later code reads them */
        projected.query_positions = projected.key_positions = (attn_tensor){.rank = 0};
    *out = projected;
    return ATTN_OK;
}

static bool is_finite(const attn_tensor *t) {
    size_t count;
    bool finite = attn_tensor_count(t, &count);
    for (size_t i = 0; finite && i < count; i++)
        finite = isfinite(attn_element(t->data, attn_dtype_size(t->dtype), i));
    return finite;
}

attn_status attn_projections_output(const attn_tensor *output, const attn_projections *p,
                                    attn_pool *pool, const attn_control *control, attn_arena *arena,
                                    attn_tensor *out, attn_error *err) {
    if (!p->w_o.rank) {
        *out = *output;
        return ATTN_OK;
    }
    ATTN_TRY(project(output, &p->w_o, &p->b_o, pool, control, arena, out, err));
    if (!p->allow_nonfinite && !is_finite(out))
        return attn_fail(err, ATTN_ENONFINITE, "projections/w_o",
                         "the projected outputs overflow %s; scale the inputs down (or set "
                         "allow_nonfinite)",
                         attn_dtype_name(out->dtype));
    return ATTN_OK;
}

/* --- gradients ---
 *
 * With y = x W^T + b: dx = dy W, dW = dy^T x, db = the sum of the rows of dy. The calling thread
 * computes the gradients. */

static void multiply_gradients(attn_dtype dtype, void *c, const void *a, const void *b,
                               const attn_gemm_dims *dims, bool add) {
    if (!dims->M || !dims->N || !dims->K)
        return;
    attn_kernels_gemm_elements(attn_dtype_size(dtype), c, a, b, dims, add ? 1 : 0);
}

static void sum_rows(const attn_tensor *dy, size_t rows, size_t width, attn_tensor *db) {
    for (size_t c = 0; c < width; c++) {
        double sum = 0;
        for (size_t r = 0; r < rows; r++)
            sum += attn_element(dy->data, attn_dtype_size(dy->dtype), r * width + c);
        attn_element_set(db->data, attn_dtype_size(db->dtype), c, sum);
    }
}

/* Computes the gradients of one projection from its input x [.., in] and the dense gradient
 * dy [.., out] of its result. The gradient of x is added to *dx, which must exist. *dw and *db are
 * made in the arena. */
static attn_status backward_product(const attn_tensor *x, const attn_tensor *w,
                                    const attn_tensor *b, const attn_tensor *dy, attn_arena *arena,
                                    attn_tensor *dx, attn_tensor *dw, attn_tensor *db,
                                    attn_error *err) {
    const attn_dtype dtype = dy->dtype;
    const size_t out = w->dims[0], in = w->dims[1];
    size_t rows;
    if (!attn_dense_rows(x, &rows) || rows > INT32_MAX || out > INT32_MAX || in > INT32_MAX)
        return attn_fail(err, ATTN_ELIMIT, "projections", "beyond what can be computed");
    const void *xs = attn_dense_copy(x, dtype, arena), *ws = attn_dense_copy(w, dtype, arena);
    ATTN_TAKEN(xs && ws, "gradients", err);
    ATTN_TRY(attn_dense_zeros(w, dtype, arena, dw, err));
    if (b->rank)
        ATTN_TRY(attn_dense_zeros(b, dtype, arena, db, err));
    multiply_gradients(
        dtype, dw->data, dy->data, xs,
        &(attn_gemm_dims){
            .M = out, .N = in, .K = rows, .lda = out, .ldb = in, .ldc = in, .transpose_a = true},
        false);
    multiply_gradients(
        dtype, dx->data, dy->data, ws,
        &(attn_gemm_dims){.M = rows, .N = in, .K = out, .lda = out, .ldb = in, .ldc = in}, true);
    if (b->rank)
        sum_rows(dy, rows, out, db);
    return ATTN_OK;
}

attn_status attn_projections_output_backward(const attn_tensor *output, const attn_projections *p,
                                             const attn_tensor *grad_output, attn_arena *arena,
                                             attn_tensor *grad, attn_projections *into,
                                             attn_error *err) {
    const attn_dtype dtype = output->dtype;
    attn_tensor after = *output, dense;
    if (p->w_o.rank)
        after.dims[after.rank - 1] = p->w_o.dims[0];
    if (!grad_output->rank && !p->w_o.rank) {
        *grad = *grad_output;
        return ATTN_OK;
    }
    const attn_tensor zeros = attn_zero_gradient(&after);
    if (!grad_output->rank)
        grad_output = &zeros;
    ATTN_TRY(attn_check_loss_gradient("grad_output", grad_output, after.dims, after.rank, err));
    dense = attn_tensor_dense(attn_dense_copy(grad_output, dtype, arena), dtype, grad_output->rank,
                              grad_output->dims);
    ATTN_TAKEN(dense.data, "gradients", err);
    if (!p->w_o.rank) {
        *grad = dense;
        return ATTN_OK;
    }
    ATTN_TRY(attn_dense_zeros(output, dtype, arena, grad, err));
    return backward_product(output, &p->w_o, &p->b_o, &dense, arena, grad, &into->w_o, &into->b_o,
                            err);
}

static void add_tensor(attn_tensor *to, const attn_tensor *from) {
    size_t count = 0;
    attn_tensor_count(to, &count);
    attn_elements_add(to->data, from->data, attn_dtype_size(to->dtype), count);
}

/* One of W_q, W_k and W_v in the backward pass: its input x, weight w and bias b, the gradient dy
 * of its result, and the gradients dx, dw and db to compute. */
typedef struct back {
    const attn_tensor *x, *w, *b, *dy;
    attn_tensor *dx, *dw, *db;
} back;

/* Computes the gradients of one input and its projection. If `sums` is not NULL, the gradient of
 * the learned positions is added to `sums`. */
static attn_status back_part(const back *p, const attn_encoding *e, bool queries, double *sums,
                             attn_arena *arena, attn_error *err) {
    attn_tensor x = *p->x, own = *p->dy;
    if (!p->w->rank && !sums) {
        add_tensor(p->dx, p->dy);
        return ATTN_OK;
    }
    if (e->position.kind != ATTN_POSITION_NONE && p->w->rank)
        ATTN_TRY(attn_encode(e, queries, p->x, arena, &x, err));
    if (sums && p->w->rank)
        ATTN_TRY(attn_dense_zeros(p->x, p->dy->dtype, arena, &own, err));
    if (p->w->rank)
        ATTN_TRY(
            backward_product(&x, p->w, p->b, p->dy, arena, sums ? &own : p->dx, p->dw, p->db, err));
    if (!sums)
        return ATTN_OK;
    attn_encode_backward(e, queries, &own, sums);
    add_tensor(p->dx, &own);
    return ATTN_OK;
}

attn_status attn_projections_backward(const attn_inputs *in, const attn_projections *p,
                                      const attn_gradients *inner, attn_arena *arena,
                                      attn_gradients *out, attn_projections *into,
                                      attn_error *err) {
    attn_inputs shapes;
    attn_gradients g = *inner;
    ATTN_TRY(attn_projections_shape(in, p, &shapes, NULL, err));
    const attn_tensor *const key = in->key.rank ? &in->key : &in->query;
    const attn_tensor *const value = in->value.rank ? &in->value : key;
    attn_tensor *const to_key = in->key.rank ? &g.key : &g.query;
    const back parts[] = {
        {&in->query, &p->w_q, &p->b_q, &inner->query, &g.query, &into->w_q, &into->b_q},
        {key, &p->w_k, &p->b_k, &inner->key, to_key, &into->w_k, &into->b_k},
        {value, &p->w_v, &p->b_v, &inner->value, in->value.rank ? &g.value : to_key, &into->w_v,
         &into->b_v},
    };
    const attn_tensor *const sent[] = {&in->query, &in->key, &in->value};
    attn_tensor *const grads[] = {&g.query, &g.key, &g.value};
    attn_encoding e = {.position = encodings_of(in, p)};
    e.where = asked_by(p, &e.position);
    const bool learned = e.position.kind == ATTN_POSITION_LEARNED;
    double *sums = learned ? attn_encoding_sums(&e.position.table, arena) : NULL;
    ATTN_TAKEN(!learned || sums, "gradients", err);
    ATTN_TRY(attn_encoding_differentiable(&e.position, err));
    if (e.position.kind != ATTN_POSITION_NONE)
        ATTN_TRY(open_encoding(in, &shapes, arena, &e, err));
    for (int i = 0; i < 3; i++) {
        grads[i]->rank = 0;
        if (sent[i]->rank)
            ATTN_TRY(attn_dense_zeros(sent[i], inner->query.dtype, arena, grads[i], err));
    }
    for (int i = 0; i < 3; i++)
        ATTN_TRY(back_part(&parts[i], &e, i == 0, sums, arena, err));
    if (learned)
        ATTN_TRY(
            attn_encoding_table(&e.position.table, sums, inner->query.dtype, arena, &g.table, err));
    *out = g;
    return ATTN_OK;
}
