#include "api/models/models_sampling.h"

#include <inttypes.h>

const char *srv_sampling_penalty(const srv_scope *scope) {
    static const char *const penalties[] = {"repetition_penalty", "frequency_penalty",
                                            "presence_penalty", "no_repeat_ngram_size"};
    for (size_t i = 0; i < sizeof penalties / sizeof *penalties; i++)
        if (srv_given(scope, penalties[i]))
            return penalties[i];
    return NULL;
}

bool srv_sampling_check(const srv_scope *scope, int64_t num_beams) {
    static const char *const options[] = {"temperature", "top_k", "top_p", "min_p"};
    const bool samples = srv_given(scope, "seed");
    for (size_t i = 0; !samples && i < sizeof options / sizeof *options; i++)
        if (srv_given(scope, options[i]))
            return srv_refuse(scope, SRV_VALUE, options[i],
                              "%s needs seed, which is not in this request: tokens are then drawn, "
                              "the same for the same seed",
                              options[i]);
    const char *alone = samples ? "seed" : srv_sampling_penalty(scope);
    return !alone || num_beams == 1 ||
           srv_refuse(scope, SRV_VALUE, "num_beams",
                      "a search with %s has one sequence alone: expected 1, found %" PRId64, alone,
                      num_beams);
}
