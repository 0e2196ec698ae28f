/* Dropout on weights: a cell's fate depends on the seed and its place alone, so tiles, threads and
 * kernels agree. Kept weights are divided by 1 - p (Srivastava et al., "Dropout", 2014, inverted).
 */
#include <attn/rng.h>

#include "attention/attention_private.h"
#include "attention/cells.h"

void attn_drop_row(const attn_attention *a, size_t row, size_t j0, size_t n, size_t elem,
                   void *weights) {
    const double p = a->in.dropout_p, gain = 1 / (1 - p);
    const uint64_t first = (uint64_t)row * a->dims.S + j0;
    for (size_t j = 0; j < n; j++) {
        const bool kept = attn_rng_uniform(a->in.dropout_seed, first + j) >= p;
        if (elem == sizeof(float))
            ((float *)weights)[j] = kept ? ((float *)weights)[j] * (float)gain : 0;
        else
            ((double *)weights)[j] = kept ? ((double *)weights)[j] * gain : 0;
    }
}

void attn_drop_weights(const attn_attention *a, attn_tensor *weights) {
    const size_t S = a->dims.S, elem = attn_dtype_size(a->dims.result);
    for (size_t row = 0; row < a->dims.B * a->dims.Hq * a->dims.L; row++)
        attn_drop_row(a, row, 0, S, elem, (char *)weights->data + row * S * elem);
}
