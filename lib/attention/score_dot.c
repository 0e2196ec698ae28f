/* q . k: Luong, Pham and Manning, "Effective approaches to attention-based neural machine
 * translation", 2015, equation 8, "dot". */
#include "attention/score.h"

static attn_status plan(const attn_score *score, size_t Eq, size_t Ek, attn_score_plan *out,
                        attn_error *err) {
    (void)score;
    *out = (attn_score_plan){.width = Eq};
    return attn_score_equal_widths(Eq, Ek, err);
}

const attn_score_form attn_score_form_dot = {.unit_scale = true, .plan = plan};
