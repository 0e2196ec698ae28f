/* Penalties: what a search takes from the logits of tokens that a sequence already has. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "models/model_private.h"

bool attn_models_penalises(const attn_generate_options *o) {
    const bool repeats = o->repetition_penalty > 0 && fabs(o->repetition_penalty - 1) > 0;
    return repeats || fabs(o->frequency_penalty) > 0 || fabs(o->presence_penalty) > 0 ||
           o->no_repeat_ngram_size;
}

attn_status attn_models_check_penalties(const attn_generate_options *o, attn_error *err) {
    if (!(o->repetition_penalty >= 0 && isfinite(o->repetition_penalty)))
        return attn_fail(err, ATTN_EARG, "repetition_penalty", "expected a number of at least 0");
    if (!isfinite(o->frequency_penalty))
        return attn_fail(err, ATTN_EARG, "frequency_penalty", "expected a finite number");
    if (!isfinite(o->presence_penalty))
        return attn_fail(err, ATTN_EARG, "presence_penalty", "expected a finite number");
    if (attn_models_penalises(o) && o->beams > 1)
        return attn_fail(err, ATTN_EARG, "beams", "a search with penalties has one beam, found %zu",
                         o->beams);
    return ATTN_OK;
}

/* Divides logits above 0 of the tokens of a sequence by the penalty, and multiplies those below 0
 * (Keskar et al. 2019, in the form of transformers). A token that occurs twice is penalised once. */
static void penalise_repeats(const int32_t *ids, size_t count, double penalty, int32_t *seen,
                             float *logits) {
    for (size_t i = 0; i < count; i++) {
        float *z = &logits[ids[i]];
        if (!seen[ids[i]]++)
            *z = (float)(*z < 0 ? *z * penalty : *z / penalty);
    }
}

/* Subtracts, for each time that a token was generated, the frequency penalty, and once the presence
 * penalty. */
static void penalise_counts(const int32_t *ids, size_t count, const attn_generate_options *o,
                            int32_t *seen, float *logits) {
    for (size_t i = 0; i < count; i++) {
        const double once = seen[ids[i]]++ ? 0 : o->presence_penalty;
        logits[ids[i]] = (float)(logits[ids[i]] - once - o->frequency_penalty);
    }
}

/* Sets the logits to -infinity of those tokens that, after the last n - 1 tokens, would make n tokens
 * in a row occur a second time. */
static void forbid_repeats(const int32_t *ids, size_t count, size_t n, float *logits) {
    const int32_t *last = ids + count - (n - 1);
    for (size_t i = 0; i + n <= count; i++)
        if (!memcmp(ids + i, last, (n - 1) * sizeof *ids))
            logits[ids[i + n - 1]] = -INFINITY;
}

attn_status attn_models_penalise(const attn_generate_options *o, const int32_t *ids, size_t prompt,
                                 size_t count, size_t V, float *logits, attn_arena *arena,
                                 attn_error *err) {
    int32_t *seen = attn_arena_zeroed(arena, 2 * V, sizeof *seen);
    ATTN_TAKEN(seen, "the tokens of a sequence", err);
    if (o->repetition_penalty > 0)
        penalise_repeats(ids, count, o->repetition_penalty, seen, logits);
    penalise_counts(ids + prompt, count - prompt, o, seen + V, logits);
    if (o->no_repeat_ngram_size && o->no_repeat_ngram_size <= count)
        forbid_repeats(ids, count, o->no_repeat_ngram_size, logits);
    return ATTN_OK;
}

void attn_models_penalty_cost(const attn_model_config *config, size_t tokens,
                              attn_layer_cost *cost) {
    attn_cost_bytes(cost, (double)(2 * config->target_vocabulary * sizeof(int32_t)));
    attn_cost_bytes(cost, (double)((tokens + 1) * sizeof(int32_t)));
}
