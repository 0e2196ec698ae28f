/* Mixing of heads after the softmax (attn_mix.weights and attn_subtract in attn/forms.h).
 *
 * The weights of output head g are the sum over the heads h that it reads of F[g][h] W_h, and so
 *
 *   output of g  =  sum over h of F[g][h] (W_h V_v(g))
 *
 * where v(g) is the value head of g. No pass needs the weights of all heads at once: the pass of
 * head h multiplies W_h by wide values. A wide value holds, side by side, the rows of all value
 * heads that the output heads of h use. The output of g is then a sum of parts of the wide outputs,
 * and a mixed weight is a sum of cells. With mix.weights all value heads are used, so an output
 * takes Hv times the operations. With `subtract` the heads of a pair share one output head, so
 * values are wider only if the heads of a group use different value heads. */
#ifndef ATTN_MIX_WEIGHTS_H
#define ATTN_MIX_WEIGHTS_H

#include "attention/operands.h"

/* Checks in->mix.weights and in->subtract, and sets the members of *d that depend on them: Ho, Hv,
 * value_width, factors and reads. `heads` is the number of value heads. */
attn_status attn_mix_weights_resolve(const attn_inputs *in, size_t heads, attn_attention_dims *d,
                                     attn_error *err);
/* Reads the factors, and makes the wide values in the arena as elements of the type dims.result. */
attn_status attn_mix_values(attn_attention *a, attn_arena *arena, attn_error *err);
/* Adds an upper bound of the bytes that attn_mix_values takes to *bytes. Returns false if the sum
 * exceeds SIZE_MAX. */
bool attn_mix_values_bytes(const attn_attention_dims *d, size_t *bytes);

/* Returns the head that output head g reads with its factor number n < dims.reads. */
static inline size_t attn_mix_head(const attn_attention_dims *d, size_t g, size_t n) {
    return !d->pairs ? n : d->pairs == ATTN_PAIRS_ADJACENT ? 2 * g + n : g + n * d->Ho;
}

/* Returns the factors of output head g, [dims.reads]. */
static inline const double *attn_mix_factors(const attn_attention *a, size_t g) {
    return a->factors + g * a->dims.reads;
}

/* Returns the value head that output head g uses. */
static inline size_t attn_mix_value_head(const attn_attention_dims *d, size_t g) {
    return g / (d->Ho / d->Hv);
}

/* Returns the value head whose rows are part `part` of the wide values of key head hkv. */
size_t attn_mix_value_of_part(const attn_attention_dims *d, size_t hkv, size_t part);
/* Returns the first element of the value head of output head g in the wide values of head h. */
size_t attn_mix_column(const attn_attention_dims *d, size_t h, size_t g);

/* Adds factor times n elements of `elem` bytes to sums. */
static inline void attn_mix_add(double *sums, double factor, const void *from, size_t elem,
                                size_t n) {
    for (size_t c = 0; c < n; c++)
        sums[c] += factor * attn_element(from, elem, c);
}

/* Computes rows row … row + rows - 1 of output head g from results->head_outputs. Returns
 * ATTN_ENONFINITE if an output exceeds the range of its type. */
attn_status attn_mix_outputs(const attn_attention *a, const attn_results *results, size_t b,
                             size_t g, size_t row, size_t rows, attn_error *err);

/* The backward pass of the mix. */
typedef struct attn_weights_back {
    const attn_attention *a;
    const attn_control *control;
    const attn_results *results;
    attn_view out; /* grad_output [B, Ho, L, Ev] */
    size_t elem;   /* bytes of an element of `wide`, `dwide` and `dvalue` */
    /* out: [B, Hq, L, value width] the gradient of the wide outputs; NULL: not computed now */
    void *wide;
    double *sums;      /* out: [Ho, reads] the gradient of the factors; NULL: not computed now */
    const void *dwide; /* [B, Hkv, S, value width]: the gradients of the wide values */
    void *dvalue;      /* out: [B, Hv, S, Ev] the gradients of the values */
} attn_weights_back;

/* Computes w->wide, which must hold zeros, and w->sums. For w->sums, w->results must be
 * complete. */
attn_status attn_mix_outputs_back(attn_weights_back *w, attn_pool *pool, attn_error *err);
/* Computes w->dvalue from w->dwide. */
attn_status attn_mix_values_back(attn_weights_back *w, attn_pool *pool, attn_error *err);

#endif
