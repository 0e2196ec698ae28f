/* Gradients of the projections: with y = x W^T + b, dx = dy W, dW = dy^T x, db = sum of dy. On the
 * calling thread. */
#include <attn/gradients.h>

#include <string.h>

#include "attention/add_positions.h"
#include "base/dense.h"
#include "kernels/gemm.h"

static attn_status no_memory(attn_error *err) {
    return attn_fail(err, ATTN_ENOMEM, "", "no memory left for gradients");
}

static void multiply(attn_dtype dtype, void *c, const void *a, const void *b,
                     const attn_gemm_dims *dims, bool add) {
    if (!dims->M || !dims->N || !dims->K)
        return;
    attn_kernels_gemm_elements(attn_dtype_size(dtype), c, a, b, dims, add ? 1 : 0);
}

static void sum_rows(const attn_tensor *dy, size_t rows, size_t width, attn_tensor *db) {
    for (size_t c = 0; c < width; c++) {
        double sum = 0;
        for (size_t r = 0; r < rows; r++)
            sum += dy->dtype == ATTN_F32 ? (double)((const float *)dy->data)[r * width + c]
                                         : ((const double *)dy->data)[r * width + c];
        if (db->dtype == ATTN_F32)
            ((float *)db->data)[c] = (float)sum;
        else
            ((double *)db->data)[c] = sum;
    }
}

/* One projection. x [.., in], dy [.., out] dense. dx is added to. */
static attn_status back(const attn_tensor *x, const attn_tensor *w, const attn_tensor *b,
                        const attn_tensor *dy, attn_arena *arena, attn_tensor *dx, attn_tensor *dw,
                        attn_tensor *db, attn_error *err) {
    const attn_dtype dtype = dy->dtype;
    const size_t out = w->dims[0], in = w->dims[1];
    size_t rows;
    if (!attn_dense_rows(x, &rows) || rows > INT32_MAX || out > INT32_MAX || in > INT32_MAX)
        return attn_fail(err, ATTN_ELIMIT, "projections", "beyond what can be computed");
    const void *xs = attn_dense_copy(x, dtype, arena), *ws = attn_dense_copy(w, dtype, arena);
    attn_status status = xs && ws ? attn_dense_zeros(w, dtype, arena, dw, err) : no_memory(err);
    if (status == ATTN_OK && b->rank)
        status = attn_dense_zeros(b, dtype, arena, db, err);
    if (status != ATTN_OK)
        return status;
    multiply(
        dtype, dw->data, dy->data, xs,
        &(attn_gemm_dims){
            .M = out, .N = in, .K = rows, .lda = out, .ldb = in, .ldc = in, .transpose_a = true},
        false);
    multiply(dtype, dx->data, dy->data, ws,
             &(attn_gemm_dims){.M = rows, .N = in, .K = out, .lda = out, .ldb = in, .ldc = in},
             true);
    if (b->rank)
        sum_rows(dy, rows, out, db);
    return ATTN_OK;
}

attn_status attn_projections_output_backward(const attn_tensor *output, const attn_projections *p,
                                             const attn_tensor *grad_output, attn_arena *arena,
                                             attn_tensor *grad, attn_projection_gradients *into,
                                             attn_error *err) {
    const attn_dtype dtype = output->dtype;
    char want[128], have[128];
    attn_tensor after = *output, dense;
    if (p->w_o.rank)
        after.dims[after.rank - 1] = p->w_o.dims[0];
    bool same = grad_output->rank == after.rank;
    for (int a = 0; same && a < after.rank; a++)
        same = grad_output->dims[a] == after.dims[a];
    if (!same)
        return attn_fail(err, ATTN_ESHAPE, "grad_output",
                         "expected the output's shape %s, found %s",
                         attn_shape_text(after.dims, after.rank, want, sizeof want),
                         attn_shape_text(grad_output->dims, grad_output->rank, have, sizeof have));
    if (grad_output->dtype > ATTN_F64)
        return attn_fail(err, ATTN_EDTYPE, "grad_output",
                         "expected floating-point numbers, found %s",
                         attn_dtype_name(grad_output->dtype));
    dense = attn_tensor_dense(attn_dense_copy(grad_output, dtype, arena), dtype, grad_output->rank,
                              grad_output->dims);
    if (!dense.data)
        return no_memory(err);
    if (!p->w_o.rank) {
        *grad = dense;
        return ATTN_OK;
    }
    attn_status status = attn_dense_zeros(output, dtype, arena, grad, err);
    if (status == ATTN_OK)
        status = back(output, &p->w_o, &p->b_o, &dense, arena, grad, &into->w_o, &into->b_o, err);
    return status;
}

static void add_all(attn_tensor *to, const attn_tensor *from) {
    size_t count = 0;
    attn_tensor_count(to, &count);
    for (size_t i = 0; i < count; i++)
        if (to->dtype == ATTN_F32)
            ((float *)to->data)[i] += ((const float *)from->data)[i];
        else
            ((double *)to->data)[i] += ((const double *)from->data)[i];
}

attn_status attn_projections_backward(const attn_inputs *in, const attn_projections *p,
                                      const attn_gradients *inner, attn_arena *arena,
                                      attn_gradients *out, attn_projection_gradients *into,
                                      attn_error *err) {
    attn_inputs shapes;
    attn_gradients g = *inner;
    attn_status status = attn_projections_shape(in, p, &shapes, NULL, err);
    const attn_tensor *const key = in->key.rank ? &in->key : &in->query;
    const attn_tensor *const value = in->value.rank ? &in->value : key;
    attn_tensor *const to_key = in->key.rank ? &g.key : &g.query;
    const struct {
        const attn_tensor *x, *w, *b, *dy;
        attn_tensor *dx, *dw, *db;
    } parts[] = {
        {&in->query, &p->w_q, &p->b_q, &inner->query, &g.query, &into->w_q, &into->b_q},
        {key, &p->w_k, &p->b_k, &inner->key, to_key, &into->w_k, &into->b_k},
        {value, &p->w_v, &p->b_v, &inner->value, in->value.rank ? &g.value : to_key, &into->w_v,
         &into->b_v},
    };
    const attn_tensor *const sent[] = {&in->query, &in->key, &in->value};
    attn_tensor *const grads[] = {&g.query, &g.key, &g.value};
    for (int i = 0; i < 3 && status == ATTN_OK; i++) {
        grads[i]->rank = 0;
        if (sent[i]->rank)
            status = attn_dense_zeros(sent[i], inner->query.dtype, arena, grads[i], err);
    }
    for (int i = 0; i < 3 && status == ATTN_OK; i++) {
        attn_tensor x = *parts[i].x;
        if (!parts[i].w->rank) {
            add_all(parts[i].dx, parts[i].dy);
            continue;
        }
        if (p->add_positions)
            status = attn_add_positions(&shapes, i == 0, parts[i].x, arena, &x, err);
        if (status == ATTN_OK)
            status = back(&x, parts[i].w, parts[i].b, parts[i].dy, arena, parts[i].dx, parts[i].dw,
                          parts[i].db, err);
    }
    if (status == ATTN_OK)
        *out = g;
    return status;
}
