/* Dropout on weights: a cell's fate depends on the seed and its place alone, so tiles, threads and
 * kernels agree. Kept weights are divided by 1 - p (Srivastava et al., "Dropout", 2014, inverted).
 */
#include <attn/rng.h>
#include <math.h>

#include "attention/attention_private.h"
#include "attention/cells.h"
#include "kernels/pointwise.h"

void attn_drop_row(const attn_attention *a, size_t row, size_t j0, size_t n, size_t elem,
                   void *weights) {
    const double p = a->in.dropout_p, gain = 1 / (1 - p);
    const uint64_t first = (uint64_t)row * a->dims.S + j0;
    if (elem == sizeof(float)) { /* uniform < p exactly when its 53 bits are below ceil(p 2^53) */
        attn_pointwise_current()->dropout(weights, n, (uint64_t)ceil(ldexp(p, 53)), (float)gain,
                                          a->in.dropout_seed, first);
        return;
    }
    double *cells = weights;
    for (size_t j = 0; j < n; j++)
        cells[j] = attn_rng_uniform(a->in.dropout_seed, first + j) >= p ? cells[j] * gain : 0;
}

void attn_drop_weights(const attn_attention *a, attn_tensor *weights) {
    const size_t S = a->dims.S, elem = attn_dtype_size(a->dims.result);
    for (size_t row = 0; row < a->dims.B * a->dims.Hq * a->dims.L; row++)
        attn_drop_row(a, row, 0, S, elem, (char *)weights->data + row * S * elem);
}
