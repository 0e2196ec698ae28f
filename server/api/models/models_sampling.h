/* Sampling in a search: the request fields that say how tokens are drawn. */
#ifndef SRV_MODELS_SAMPLING_H
#define SRV_MODELS_SAMPLING_H

#include "api/common/scope.h"
#include "attn/models.h"
#include "wire/decode.h"

typedef struct srv_sampling {
    int64_t seed, top_k;
    double temperature, top_p, min_p;
} srv_sampling;

#define SRV_SAMPLING_DEFAULTS                                                                      \
    { .temperature = 1, .top_p = 1 }
#define SRV_SAMPLING_ROWS(T, member)                                                               \
    SRV_NAMED_ROW(T, "seed", member.seed, SRV_INT,                                                 \
                  "Draw each token at random; the same seed, the same tokens. Default: take the "  \
                  "most probable token.",                                                          \
                  .min = 0, .max = 9007199254740991.0),                                            \
        SRV_NAMED_ROW(T, "temperature", member.temperature, SRV_REAL,                              \
                      "With seed: logits are divided by it; default 1. Below 1, probable tokens "  \
                      "become more probable.",                                                     \
                      .min = 0.001, .max = 1000),                                                  \
        SRV_NAMED_ROW(T, "top_k", member.top_k, SRV_INT,                                           \
                      "With seed: draw from this many of the most probable tokens; default all.",  \
                      .min = 1, .max = 1048576),                                                   \
        SRV_NAMED_ROW(T, "top_p", member.top_p, SRV_REAL,                                          \
                      "With seed: draw from the fewest most probable tokens, of those of top_k, "  \
                      "whose probabilities reach this share; default 1.",                          \
                      .min = 0.000001, .max = 1),                                                  \
        SRV_NAMED_ROW(T, "min_p", member.min_p, SRV_REAL,                                          \
                      "With seed: draw from the tokens, of those of top_p, that are at least "     \
                      "this share as probable as the most probable token; default 0.",             \
                      .min = 0, .max = 1)

/* Checks that options of sampling come with a seed, and that sampling has one beam. false: a problem
 * is set. */
bool srv_sampling_check(const srv_scope *scope, int64_t num_beams);
/* Sets the options of sampling. A search draws its tokens if the request has a seed. */
void srv_sampling_set(const srv_scope *scope, const srv_sampling *in, attn_generate_options *out);

#endif
