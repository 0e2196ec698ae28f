/* Readings of a pass at single places: the tokens that each layer would predict, and the part of
 * each head in a logit. The functions read the activations that attn_model_forward kept at
 * attn_forward_options.places. The model has no LSTMs, and its tokens have logits.
 *
 * Threads: any number may use the same activations. Results are in the arena of the call. */
#ifndef ATTN_INTERPRET_H
#define ATTN_INTERPRET_H

#include "models.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Sets the most probable tokens of a row of logits [V], the most probable one first and equal ones by
 * rising id, with the log probabilities of the softmax over all of them. The caller has set to->ids
 * and to->log_probabilities, [k] each; to->count becomes the smaller of k and V. *normaliser is the
 * logarithm of the sum of e^logit, if it is not NULL. scratch [V] is overwritten. */
void attn_top_tokens(const float *logits, size_t V, size_t k, float *scratch, attn_alternatives *to,
                     double *normaliser);

/* Sets out[i] to the log probability of ids[i] by row i of logits [rows, V]. scratch [V] is
 * overwritten. Ids are below V. */
void attn_log_probabilities(const float *logits, const int32_t *ids, size_t rows, size_t V,
                            float *scratch, double *out);

/* The logit lens (nostalgebraist 2020): the norm at the end of the last stack, if it has one, and
 * the head of the model applied to the residual stream, here to the input of the first layer and to
 * the output of each layer. The output of the last layer gives the logits of the pass. */
typedef struct attn_lens {
    size_t layers; /* number of layers + 1 */
    size_t places;
    attn_alternatives *top; /* [places, layers] */
    /* [places, layers]: the log probability of the wanted id, and how many tokens have a larger
     * logit; NULL: no ids are wanted */
    double *log_probabilities;
    size_t *ranks;
} attn_lens;

/* Computes the lens with top_k tokens, at most ATTN_ALTERNATIVES_MOST, at each place. `ids` [places]:
 * wanted ids, one a place, or NULL. Errors: ATTN_EARG at "head" (the model has no logits),
 * ATTN_EVALUE, ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE. */
attn_status attn_model_lens(const attn_activations *activations, size_t top_k, const int32_t *ids,
                            attn_arena *arena, const attn_control *control, attn_lens *out,
                            attn_error *err);

/* The logit of the token `id` at a place; `place` is an index of attn_forward_options.places. */
typedef struct attn_wanted_logit {
    size_t place;
    int32_t id;
} attn_wanted_logit;

/* The direct contributions to a logit (Elhage et al. 2021, "logit attribution"). The residual
 * stream is x = e + the sum of all heads h and feed-forwards f of all layers. The last norm has the
 * weight w, the bias b and, at this place, the deviation s. The unembedding of the token is the row
 * u with the bias c. The logit is
 *
 *   logit = u . (w (x - mean(x)) / s + b) + c
 *   head h        g . (W_o^h z_h),  where g = center(w u) / s and z_h is the output of the head
 *   feed-forward  g . f,  with the biases of its layers
 *   embedding     g . e,  with positions, segments and their norm
 *   bias          u . b + c + g . (biases of all W_o)
 *
 * For an RMS norm, mean is 0 and center is the identity. s keeps the value that it has in the pass
 * (it is frozen), so the logit is a sum. Norms after a sublayer or inside its residual connection
 * are frozen in the same way at every layer. All members are multiplied by the factor of the
 * logits, if the model has one, and come before its softcap. They sum to `logit` but for
 * rounding. */
typedef struct attn_contributions {
    double logit; /* before the softcap */
    double embedding, bias;
    /* The residual stream that the last patch of the pass puts in at this place. Everything that
     * was added before the patch contributes 0. */
    double patched;
    /* [sites of the model] in the order of attn_model_sites: the contributions of the heads of each
     * site. NULL: the site belongs to an encoder with a decoder behind it, whose contributions are
     * not direct. */
    double **heads;
    double *feed_forward; /* [layers] */
    size_t layers;
} attn_contributions;

/* Computes the contributions to `count` logits into out [count]. Errors: ATTN_EARG at "head"
 * (the model has no logits, or its head is MASKED, whose activation makes no sum), ATTN_EVALUE
 * at "wanted/<index>/id" or "/place", ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE. */
attn_status attn_model_contributions(const attn_activations *activations,
                                     const attn_wanted_logit *wanted, size_t count,
                                     attn_arena *arena, const attn_control *control,
                                     attn_contributions *out, attn_error *err);

/* Return the cost of attn_model_lens for this number of places, and of attn_model_contributions for
 * this number of logits. */
attn_model_cost attn_model_lens_cost(const attn_model *model, size_t places, size_t top_k);
attn_model_cost attn_model_contributions_cost(const attn_model *model, size_t count);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
