/* Sampling: draws tokens at random from logits. */
#include <math.h>
#include <stdlib.h>

#include "attn/rng.h"
#include "base/try.h"
#include "models/model_private.h"

/* A token with a weight that is proportional to its probability at the temperature. */
typedef struct choice {
    double weight;
    int32_t token;
} choice;

/* Sorts by falling weight. Of tokens with equal weights, the one with the smaller id comes
 * first. */
static int by_weight(const void *a, const void *b) {
    const choice *x = a, *y = b;
    if (x->weight > y->weight || x->weight < y->weight)
        return x->weight < y->weight ? 1 : -1;
    return (x->token > y->token) - (x->token < y->token);
}

bool attn_models_may_write(const attn_model_config *c, int32_t token) {
    return c->any_ids || (token != c->pad && token != c->begin);
}

/* Writes all tokens that the model may write to `out`, with weights e^((logit - max) / temperature).
 * Returns their number. */
static size_t list_choices(const float *logits, const attn_model_config *c, double temperature,
                           choice *out) {
    size_t count = 0;
    double max = -INFINITY;
    for (size_t v = 0; v < c->target_vocabulary; v++)
        max = logits[v] > max ? logits[v] : max;
    for (size_t v = 0; v < c->target_vocabulary; v++)
        if (attn_models_may_write(c, (int32_t)v))
            out[count++] = (choice){exp((logits[v] - max) / temperature), (int32_t)v};
    return count;
}

static double sum_of(const choice *choices, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += choices[i].weight;
    return sum;
}

/* Returns the smallest number of leading choices whose weights add up to the share `top_p` of all
 * weights, at least 1. The choices are sorted by falling weight. */
static size_t nucleus(const choice *choices, size_t count, double top_p) {
    const double wanted = top_p * sum_of(choices, count);
    double sum = 0;
    size_t n = 0;
    while (n < count && (!n || sum < wanted))
        sum += choices[n++].weight;
    return n;
}

/* Returns the number of leading choices whose weights are at least the share `min_p` of the largest
 * weight. It is at least 1. The choices are sorted by falling weight. */
static size_t near_largest(const choice *choices, size_t count, double min_p) {
    while (count > 1 && choices[count - 1].weight < min_p * choices[0].weight)
        count--;
    return count;
}

attn_status attn_models_check_sampling(const attn_generate_options *o, attn_error *err) {
    if (!o->samples)
        return ATTN_OK;
    if (o->beams > 1)
        return attn_fail(err, ATTN_EARG, "beams", "sampling has one beam, found %zu", o->beams);
    if (!(o->temperature > 0 && isfinite(o->temperature)))
        return attn_fail(err, ATTN_EARG, "temperature", "expected a number above 0");
    if (!(o->top_p > 0 && o->top_p <= 1))
        return attn_fail(err, ATTN_EARG, "top_p", "expected a number above 0, at most 1");
    if (!(o->min_p >= 0 && o->min_p <= 1))
        return attn_fail(err, ATTN_EARG, "min_p", "expected a number from 0 to 1");
    return ATTN_OK;
}

attn_status attn_models_draw(const float *logits, const attn_model_config *config,
                             const attn_generate_options *options, double uniform,
                             attn_arena *arena, int32_t *out, attn_error *err) {
    choice *choices = attn_arena_zeroed(arena, config->target_vocabulary, sizeof *choices);
    ATTN_TAKEN(choices, "the choices of a step", err);
    size_t count = list_choices(logits, config, options->temperature, choices), i = 0;
    qsort(choices, count, sizeof *choices, by_weight);
    if (options->top_k && options->top_k < count)
        count = options->top_k;
    count = nucleus(choices, count, options->top_p);
    count = near_largest(choices, count, options->min_p);
    const double at = uniform * sum_of(choices, count);
    for (double sum = choices[0].weight; i + 1 < count && sum <= at; i++)
        sum += choices[i + 1].weight;
    *out = choices[i].token;
    return ATTN_OK;
}

void attn_models_draw_cost(const attn_model_config *config, attn_layer_cost *cost) {
    attn_cost_bytes(cost, (double)(config->target_vocabulary * sizeof(choice)));
}
