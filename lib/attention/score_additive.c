/* v . tanh(W_q q + W_k k [+ b]): Bahdanau, Cho and Bengio, "Neural machine translation by jointly
 * learning to align and translate", 2015, appendix A.1.2. */
#include <stdint.h>

#include "attention/score.h"

static attn_status plan(const attn_score *score, size_t Eq, size_t Ek, attn_score_plan *out,
                        attn_error *err) {
    attn_status status = attn_score_parameter(&score->w_q, "w_q", 2, SIZE_MAX, Eq, err);
    if (status != ATTN_OK)
        return status;
    const size_t A = score->w_q.dims[0];
    status = attn_score_parameter(&score->w_k, "w_k", 2, A, Ek, err);
    if (status == ATTN_OK)
        status = attn_score_parameter(&score->v, "v", 1, A, 0, err);
    if (status == ATTN_OK && score->b.rank)
        status = attn_score_parameter(&score->b, "b", 1, A, 0, err);
    *out = (attn_score_plan){.width = A,
                             .query_map = score->w_q,
                             .key_map = score->w_k,
                             .query_bias = score->b,
                             .v = score->v,
                             .query_from = &score->w_q,
                             .key_from = &score->w_k};
    return status;
}

const attn_score_form attn_score_form_additive = {.unit_scale = true, .plan = plan};
