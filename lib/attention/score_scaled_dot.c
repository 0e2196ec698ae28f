/* q . k / sqrt(E): Vaswani et al., "Attention is all you need", 2017, equation 1. */
#include "attention/score.h"

static attn_status plan(const attn_score *score, size_t Eq, size_t Ek, attn_score_plan *out,
                        attn_error *err) {
    (void)score;
    *out = (attn_score_plan){.width = Eq};
    return attn_score_equal_widths(Eq, Ek, err);
}

const attn_score_form attn_score_form_scaled_dot = {.plan = plan};
