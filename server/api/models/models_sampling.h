/* Sampling and penalties in a search: the request fields that say how a token is chosen. */
#ifndef SRV_MODELS_SAMPLING_H
#define SRV_MODELS_SAMPLING_H

#include "api/common/scope.h"
#include "attn/models.h"
#include "wire/decode.h"

/* The struct T has the attn_generate_options `member`. */
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
                      .min = 0, .max = 1),                                                         \
        SRV_NAMED_ROW(T, "repetition_penalty", member.repetition_penalty, SRV_REAL,                \
                      "Tokens of the prompt and of the text so far have their logits divided by "  \
                      "it, or multiplied if they are below 0; default 1. Above 1, they become "    \
                      "less probable.",                                                            \
                      .min = 0.001, .max = 1000),                                                  \
        SRV_NAMED_ROW(T, "frequency_penalty", member.frequency_penalty, SRV_REAL,                  \
                      "A token's logit loses this for each time that it was generated; default "   \
                      "0.",                                                                        \
                      .min = -1000, .max = 1000),                                                  \
        SRV_NAMED_ROW(T, "presence_penalty", member.presence_penalty, SRV_REAL,                    \
                      "The logit of a token that was generated loses this once; default 0.",       \
                      .min = -1000, .max = 1000),                                                  \
        SRV_NAMED_ROW(T, "no_repeat_ngram_size", member.no_repeat_ngram_size, SRV_INT,             \
                      "So many tokens in a row occur once at most, those of the prompt included; " \
                      "default: tokens may repeat.",                                               \
                      .min = 1, .max = 1048576)

/* Returns the name of a penalty that the request has. NULL: it has none. */
const char *srv_sampling_penalty(const srv_scope *scope);
/* Checks that options of sampling come with a seed, and that sampling and penalties have one beam.
 * false: a problem is set. */
bool srv_sampling_check(const srv_scope *scope, int64_t num_beams);

#endif
