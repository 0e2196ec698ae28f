/* The logit lens (attn/interpret.h), and the most probable tokens of logits. */
#include <attn/interpret.h>
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "kernels/pointwise.h"
#include "models/model_private.h"

/* Rows of logits that are computed together, which bounds the memory. */
enum { TOGETHER = 16 };

/* Returns the logarithm of the sum of e^logit. */
static double normaliser_of(const float *logits, size_t V, float *scratch) {
    float most;
    const float sum = attn_pointwise_current()->exponentials(scratch, logits, V, &most);
    return (double)most + log((double)sum);
}

void attn_top_tokens(const float *logits, size_t V, size_t k, float *scratch, attn_alternatives *to,
                     double *normaliser) {
    const double all = normaliser_of(logits, V, scratch);
    size_t count = 0;
    for (size_t v = 0; v < V; v++) {
        size_t at = count < k ? count++ : k;
        if (at == k && (!k || !(logits[v] > logits[to->ids[--at]])))
            continue;
        for (; at && logits[v] > logits[to->ids[at - 1]]; at--)
            to->ids[at] = to->ids[at - 1];
        to->ids[at] = (int32_t)v;
    }
    for (size_t i = 0; i < count; i++)
        to->log_probabilities[i] = (double)logits[to->ids[i]] - all;
    to->count = count;
    if (normaliser)
        *normaliser = all;
}

void attn_log_probabilities(const float *logits, const int32_t *ids, size_t rows, size_t V,
                            float *scratch, double *out) {
    for (size_t i = 0; i < rows; i++) {
        const float *row = logits + i * V;
        out[i] = (double)row[ids[i]] - normaliser_of(row, V, scratch);
    }
}

/* Returns whether the output of a block is the output of a layer. */
static bool ends_layer(const model_block *block) {
    return block->operation == &attn_models_feed;
}

static size_t layers_of(const model_stack *stack) {
    size_t layers = 1;
    for (size_t i = 0; i < stack->count; i++)
        layers += ends_layer(&stack->blocks[i]);
    return layers;
}

static attn_status take(attn_lens *lens, size_t k, bool wants, attn_arena *arena, attn_error *err) {
    const size_t n = lens->places * lens->layers;
    int32_t *ids = attn_arena_array(arena, n, k * sizeof *ids);
    double *numbers = attn_arena_array(arena, n, k * sizeof *numbers);
    lens->top = attn_arena_zeroed(arena, n, sizeof *lens->top);
    if (wants) {
        lens->log_probabilities = attn_arena_zeroed(arena, n, sizeof *lens->log_probabilities);
        lens->ranks = attn_arena_zeroed(arena, n, sizeof *lens->ranks);
    }
    ATTN_TAKEN(ids && numbers && lens->top && (!wants || (lens->log_probabilities && lens->ranks)),
               "a lens", err);
    for (size_t i = 0; i < n; i++)
        lens->top[i] =
            (attn_alternatives){.ids = ids + i * k, .log_probabilities = numbers + i * k};
    return ATTN_OK;
}

/* Sets the results of the lens for one row of logits. */
static void read_row(attn_lens *lens, size_t at, const float *logits, size_t V, size_t k,
                     const int32_t *id, float *scratch) {
    double all;
    attn_top_tokens(logits, V, k, scratch, &lens->top[at], &all);
    if (!id)
        return;
    lens->log_probabilities[at] = (double)logits[*id] - all;
    for (size_t v = 0; v < V; v++)
        lens->ranks[at] += logits[v] > logits[*id];
}

/* Computes the lens at places [first, first + n) after a layer. x [n, D] is the stream there. */
static attn_status read_layer(const attn_activations *a, attn_lens *lens, size_t layer,
                              size_t first, size_t n, const float *x, size_t k, const int32_t *ids,
                              attn_arena *arena, attn_error *err) {
    const size_t V = a->model->config.target_vocabulary;
    const model_block *last = &a->stack->blocks[a->stack->count - 1];
    const bool norms = last->operation == &attn_models_norm;
    attn_pass pass = {.arena = arena};
    float *normed = attn_layers_take(&pass, norms ? n : 0, a->model->config.width, err);
    float *logits = attn_layers_take(&pass, n, V, err);
    float *scratch = attn_layers_take(&pass, 1, V, err);
    if (!normed || !logits || !scratch)
        return ATTN_ENOMEM;
    if (norms)
        attn_norm_forward(normed, NULL, x, n, &last->norm);
    ATTN_TRY(attn_models_logits(a->model, &pass, norms ? normed : x, n, logits, err));
    for (size_t i = 0; i < n; i++)
        read_row(lens, (first + i) * lens->layers + layer, logits + i * V, V, k,
                 ids ? &ids[first + i] : NULL, scratch);
    return ATTN_OK;
}

static attn_status read_all(const attn_activations *a, attn_lens *lens, size_t k,
                            const int32_t *ids, attn_arena *arena, const attn_control *control,
                            attn_error *err) {
    const attn_arena_mark mark = attn_arena_here(arena);
    size_t layer = 0;
    for (size_t i = 0; i <= a->stack->count; i++) {
        if (i && !ends_layer(&a->stack->blocks[i - 1]))
            continue;
        for (size_t first = 0; first < a->count; first += TOGETHER) {
            const size_t n = a->count - first < TOGETHER ? a->count - first : TOGETHER;
            ATTN_TRY(attn_control_check(control, err));
            ATTN_TRY(read_layer(a, lens, layer, first, n,
                                a->blocks[i].out + first * a->model->config.width, k, ids, arena,
                                err));
            attn_arena_rewind(arena, &mark);
        }
        layer++;
    }
    return ATTN_OK;
}

attn_status attn_model_lens(const attn_activations *a, size_t top_k, const int32_t *ids,
                            attn_arena *arena, const attn_control *control, attn_lens *out,
                            attn_error *err) {
    attn_lens lens = {.layers = layers_of(a->stack), .places = a->count};
    const size_t V = a->model->config.target_vocabulary;
    if (!a->model->head.projection.out)
        return attn_fail(err, ATTN_EARG, "head", "the model has no logits");
    if (top_k > ATTN_ALTERNATIVES_MOST)
        return attn_fail(err, ATTN_EVALUE, "top_k", "expected 0 to %d, found %zu",
                         ATTN_ALTERNATIVES_MOST, top_k);
    if (ids)
        ATTN_TRY(attn_ids_check(ids, a->count, V, "ids", err));
    ATTN_TRY(take(&lens, top_k, ids != NULL, arena, err));
    ATTN_TRY(read_all(a, &lens, top_k, ids, arena, control, err));
    *out = lens;
    return ATTN_OK;
}

attn_model_cost attn_model_lens_cost(const attn_model *m, size_t places, size_t top_k) {
    const double n = (double)places * (double)layers_of(attn_models_last(m));
    const double rows = places < TOGETHER ? (double)places : TOGETHER;
    const double V = (double)m->config.target_vocabulary;
    attn_layer_cost cost = {0};
    attn_linear_cost(&m->head.projection, n, false, &cost);
    if (m->head.dense.out)
        attn_linear_cost(&m->head.dense, n, false, &cost);
    cost.operations += 4 * n * V;
    attn_cost_bytes(&cost, n * (double)top_k * sizeof(int32_t));
    attn_cost_bytes(&cost, n * (double)top_k * sizeof(double));
    attn_cost_bytes(&cost, n * sizeof(attn_alternatives));
    attn_cost_bytes(&cost, n * sizeof(double));
    attn_cost_bytes(&cost, n * sizeof(size_t));
    attn_cost_floats(&cost, rows * (double)m->config.width);
    attn_cost_floats(&cost, rows * V);
    attn_cost_floats(&cost, V);
    for (int i = 0; m->head.dense.out && i < 2; i++)
        attn_cost_floats(&cost, rows * (double)m->head.dense.out);
    return (attn_model_cost){.operations = cost.operations, .bytes = cost.bytes};
}
