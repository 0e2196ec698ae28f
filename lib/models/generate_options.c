/* Options of generation: their defaults, and their checks. */
#include <math.h>

#include "base/try.h"
#include "models/model_private.h"

attn_generate_options attn_generate_defaults(void) {
    return (attn_generate_options){.beams = 1, .length_penalty = 0.6, .temperature = 1, .top_p = 1};
}

attn_status attn_models_check_generate(const attn_model *model, const attn_generate_options *o,
                                       attn_error *err) {
    if (!model->decoder.count)
        return attn_fail(err, ATTN_EARG, "architecture", "an encoder alone generates no tokens");
    if (o->beams < 1 || o->beams > ATTN_MODELS_BEAMS)
        return attn_fail(err, ATTN_EARG, "beams", "expected 1 to %d, found %zu", ATTN_MODELS_BEAMS,
                         o->beams);
    if (o->alternatives > ATTN_ALTERNATIVES_MOST)
        return attn_fail(err, ATTN_EARG, "alternatives", "expected 0 to %d, found %zu",
                         ATTN_ALTERNATIVES_MOST, o->alternatives);
    if (!isfinite(o->length_penalty))
        return attn_fail(err, ATTN_EARG, "length_penalty", "expected a finite number");
    ATTN_TRY(attn_models_check_sampling(o, err));
    ATTN_TRY(attn_models_check_penalties(o, err));
    ATTN_TRY(
        attn_models_check_interventions(model, o->interventions, o->intervention_count, NULL, err));
    if (o->bare && model->encoder.count)
        return attn_fail(err, ATTN_EARG, "bare", "a model with an encoder has no prompt");
    if (!o->bare && model->config.begin < 0)
        return attn_fail(err, ATTN_EARG, "begin", "the model has no token that begins a sequence");
    return attn_ids_check(o->stop, o->stop_count, model->config.target_vocabulary, "stop", err);
}
