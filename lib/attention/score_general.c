/* k . (W q): Luong, Pham and Manning, 2015, equation 8, "general". */
#include "attention/score.h"

static attn_status plan(const attn_score *score, size_t Eq, size_t Ek, attn_score_plan *out,
                        attn_error *err) {
    *out = (attn_score_plan){.width = Ek, .query_map = score->w, .query_from = &score->w};
    return attn_score_parameter(&score->w, "w", 2, Ek, Eq, err);
}

const attn_score_form attn_score_form_general = {.unit_scale = true, .plan = plan};
