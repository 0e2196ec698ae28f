#include "api/models/models_sampling.h"

#include <inttypes.h>

bool srv_sampling_check(const srv_scope *scope, int64_t num_beams) {
    static const char *const options[] = {"temperature", "top_k", "top_p", "min_p"};
    const bool samples = srv_given(scope, "seed");
    for (size_t i = 0; !samples && i < sizeof options / sizeof *options; i++)
        if (srv_given(scope, options[i]))
            return srv_refuse(scope, SRV_VALUE, options[i],
                              "%s needs seed, which is not in this request: tokens are then drawn, "
                              "the same for the same seed",
                              options[i]);
    return !samples || num_beams == 1 ||
           srv_refuse(
               scope, SRV_VALUE, "num_beams",
               "tokens are drawn for one sequence alone: expected 1 with seed, found %" PRId64,
               num_beams);
}

void srv_sampling_set(const srv_scope *scope, const srv_sampling *in, attn_generate_options *out) {
    out->samples = srv_given(scope, "seed");
    out->seed = (uint64_t)in->seed;
    out->temperature = in->temperature;
    out->top_k = (size_t)in->top_k;
    out->top_p = in->top_p;
    out->min_p = in->min_p;
}
