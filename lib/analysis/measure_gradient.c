/* Gradient x attention as a source of rows: with O = A V the gradient at a weight is the product of
 * the output's gradient and the key's value, so that a cell costs one dot product. */
#include <math.h>

#include "analysis/sums.h"
#include "attn/analysis.h"

enum { ROWS = 16 }; /* of the output's gradient, widened together */

typedef struct gradient {
    const attn_weight_source *inner;
    attn_tensor grad, value;
    attn_gradient_kind kind;
    size_t group;  /* query heads a value head */
    double **rows; /* [lanes] ROWS rows of grad, one of value */
} gradient;

static const void *row_of(const attn_tensor *t, size_t b, size_t h, size_t i) {
    size_t at = ((b * t->dims[1] + h) * t->dims[2] + i) * t->dims[3];
    return (const char *)t->data + at * attn_dtype_size(t->dtype);
}

static float cell(const gradient *g, double d, float weight) {
    double product = d * (double)weight;
    switch (g->kind) {
    case ATTN_GRADIENT_PRODUCT:
        return (float)product;
    case ATTN_GRADIENT_POSITIVE:
        return (float)fmax(product, 0);
    default:
        return (float)d;
    }
}

/* Cells of at most ROWS rows, from row `first` of the range. */
static void fill(const gradient *g, const attn_range *at, size_t first, size_t rows,
                 double *scratch, float *weights, const float *logits) {
    const size_t E = g->grad.dims[3];
    double *v = scratch + ROWS * E;
    for (size_t r = 0; r < rows; r++)
        attn_widen_f64(scratch + r * E, row_of(&g->grad, at->batch, at->head, at->row + first + r),
                       g->grad.dtype, 1, E);
    for (size_t j = 0; j < at->cols; j++) {
        attn_widen_f64(v, row_of(&g->value, at->batch, at->head / g->group, at->col + j),
                       g->value.dtype, 1, E);
        for (size_t r = 0; r < rows; r++) {
            size_t k = (first + r) * at->cols + j;
            bool hidden = g->inner->has_logits && logits[k] == -INFINITY;
            weights[k] = hidden ? 0 : cell(g, attn_dot(scratch + r * E, v, E), weights[k]);
        }
    }
}

static attn_status fetch(void *ctx, size_t lane, const attn_range *at, float *weights,
                         float *logits, attn_error *err) {
    const gradient *g = ctx;
    attn_status status = g->inner->fetch(g->inner->ctx, lane, at, weights, logits, err);
    for (size_t first = 0; !status && first < at->rows; first += ROWS)
        fill(g, at, first, at->rows - first < ROWS ? at->rows - first : ROWS, g->rows[lane],
             weights, logits);
    return status;
}

static bool dims_fit(const attn_tensor *t, size_t B, size_t H, size_t n) {
    return t->rank == 4 && t->dims[0] == B && t->dims[1] == H && t->dims[2] == n &&
           attn_tensor_is_dense(t);
}

attn_status attn_gradient_source(const attn_weight_source *source, const attn_tensor *grad_output,
                                 const attn_tensor *value, attn_gradient_kind kind, size_t lanes,
                                 attn_arena *arena, attn_weight_source *out, attn_error *err) {
    char shape[128];
    if ((unsigned)kind > ATTN_GRADIENT_POSITIVE)
        return attn_fail(err, ATTN_EARG, "kind", "there is no kind of the number %d", (int)kind);
    if (!dims_fit(grad_output, source->batches, source->heads, source->rows))
        return attn_fail(
            err, ATTN_ESHAPE, "grad_output",
            "expected [%zu, %zu, %zu, Ev] as the output has, found %s", source->batches,
            source->heads, source->rows,
            attn_shape_text(grad_output->dims, grad_output->rank, shape, sizeof shape));
    size_t kv = value->rank == 4 ? value->dims[1] : 0;
    if (kv == 0 || source->heads % kv || !dims_fit(value, source->batches, kv, source->cols) ||
        value->dims[3] != grad_output->dims[3])
        return attn_fail(err, ATTN_ESHAPE, "value",
                         "expected [%zu, Hkv, %zu, %zu] with Hkv a divisor of %zu, found %s",
                         source->batches, source->cols, grad_output->dims[3], source->heads,
                         attn_shape_text(value->dims, value->rank, shape, sizeof shape));
    gradient *g = attn_arena_small(arena, sizeof *g);
    bool ok = g != NULL;
    if (ok) {
        *g = (gradient){
            source, *grad_output,       *value,
            kind,   source->heads / kv, attn_arena_zeroed(arena, lanes, sizeof *g->rows)};
        ok = g->rows != NULL;
    }
    for (size_t i = 0; ok && i < lanes; i++)
        ok = (g->rows[i] = attn_arena_zeroed(arena, grad_output->dims[3],
                                             (ROWS + 1) * sizeof(double))) != NULL;
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the rows of gradients");
    *out = *source;
    out->fetch = fetch;
    out->ctx = g;
    return ATTN_OK;
}
