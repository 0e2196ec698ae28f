/* Direct contributions to a logit (attn/interpret.h). Once the deviations of the norms are frozen,
 * a logit is linear in the vectors that blocks add to the residual stream. So the gradient of the
 * logit with respect to the stream is computed backwards, from the head through the norms. The
 * contribution of a block is the product of this gradient with the vector that the block added. */
#include <attn/interpret.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "models/model_private.h"

/* The backward pass from one logit. */
typedef struct way {
    const attn_activations *a;
    size_t place;
    double *stream;  /* [D] gradient of the logit with respect to the stream */
    double *added;   /* [D] gradient with respect to the output of a block */
    double *through; /* [Q] gradient with respect to the outputs of the block's heads */
    float *row;      /* [max(D, Q)] a row of a matrix */
} way;

static double dot(const double *g, const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += g[i] * (double)x[i];
    return sum;
}

/* Turns the gradient with respect to a norm's output into the gradient with respect to its input.
 * The deviation is frozen. Returns the contribution of the norm's bias. */
static double norm_back(double *g, const attn_norm *norm, const float *stats) {
    const size_t D = norm->width;
    const double bias = norm->bias.value ? dot(g, norm->bias.value, D) : 0;
    double mean = 0;
    for (size_t i = 0; i < D; i++) {
        g[i] *= (double)norm->weight.value[i] * (double)stats[1];
        mean += g[i] / (double)D;
    }
    for (size_t i = 0; !norm->rms && i < D; i++)
        g[i] -= mean;
    return bias;
}

/* Sets the contributions of the heads of an attention block. Adds the contribution of the bias of
 * W_o to *bias. */
static void heads_back(way *y, const attn_attend *a, const float *outputs, double *heads,
                       double *bias) {
    const size_t Q = attn_attend_query_width(a), E = Q / a->heads;
    const bool projects = a->kind == ATTN_SCORE_scaled_dot;
    const double *g = projects ? y->through : y->added;
    memset(y->through, 0, Q * sizeof *y->through);
    for (size_t d = 0; projects && d < a->o.out; d++) {
        attn_weight_row(y->row, &a->o.weight, d, Q);
        for (size_t i = 0; i < Q; i++)
            y->through[i] += y->added[d] * (double)y->row[i];
    }
    for (size_t h = 0; h < a->heads; h++)
        heads[h] = dot(g + h * E, outputs + h * E, E);
    if (projects && a->o.bias.value)
        *bias += dot(y->added, a->o.bias.value, a->o.out);
}

/* Returns the element of `heads` for a block: `heads` is in the order of the model's sites. */
static double *heads_of(const attn_model *m, const model_operation *operation, size_t layer,
                        double **heads) {
    size_t i = 0;
    while (m->sites[i].kind != operation->site || m->sites[i].layer != layer)
        i++;
    return heads[i];
}

/* Computes the backward pass through block i, and its contributions. */
static void block_back(way *y, size_t i, attn_contributions *out) {
    const attn_model *m = y->a->model;
    const model_block *block = &y->a->stack->blocks[i];
    const model_kept *kept = &y->a->blocks[i + 1];
    const size_t D = m->config.width, layer = attn_models_layer_of(y->a->stack, i);
    const float *stats = kept->stats + 2 * y->place;
    const double factor = block->residual_scale != 0 ? (double)block->residual_scale : 1;
    if (block->wrap == WRAP_NONE || block->wrap == WRAP_AFTER)
        out->bias += norm_back(y->stream, &block->norm, stats);
    if (block->wrap == WRAP_NONE)
        return;
    for (size_t d = 0; d < D; d++)
        y->added[d] = y->stream[d] * factor;
    if (block->wrap == WRAP_AROUND || block->wrap == WRAP_INSIDE)
        out->bias +=
            norm_back(y->added, block->wrap == WRAP_AROUND ? &block->second : &block->norm, stats);
    if (block->operation->has_site)
        heads_back(y, &block->attend,
                   kept->heads + y->place * attn_attend_query_width(&block->attend),
                   heads_of(m, block->operation, layer, out->heads), &out->bias);
    else
        out->feed_forward[layer] = dot(y->added, kept->made + y->place * D, D);
}

/* Sets the contributions to the logit of a token at a place. */
static void logit_back(way *y, int32_t id, attn_contributions *out) {
    const attn_model *m = y->a->model;
    const attn_linear *projection = &m->head.projection;
    const size_t D = m->config.width, count = y->a->stack->count;
    const double factor = m->config.logit_scale > 0 ? (double)(float)m->config.logit_scale : 1;
    attn_weight_row(y->row, &projection->weight, (size_t)id, D);
    for (size_t d = 0; d < D; d++)
        y->stream[d] = factor * (double)y->row[d];
    out->bias = projection->bias.value ? factor * (double)projection->bias.value[id] : 0;
    out->logit = out->bias + dot(y->stream, y->a->blocks[count].out + y->place * D, D);
    for (size_t i = count + 1; i-- > 0;) {
        const model_kept *kept = &y->a->blocks[i];
        if (kept->patched[y->place]) {
            out->patched = dot(y->stream, kept->out + y->place * D, D);
            return;
        }
        if (i)
            block_back(y, i - 1, out);
    }
    out->embedding = dot(y->stream, y->a->blocks[0].out + y->place * D, D);
}

static size_t feeds_of(const model_stack *stack) {
    size_t feeds = 0;
    for (size_t i = 0; i < stack->count; i++)
        feeds += stack->blocks[i].operation == &attn_models_feed;
    return feeds;
}

/* Returns whether the heads of a site add to the stream from which the logits are computed. */
static bool is_direct(const attn_model *m, const attn_site *site) {
    return !m->decoder.count || site->kind != ATTN_SITE_ENCODER;
}

static attn_status take_lists(const attn_model *m, const model_stack *stack,
                              attn_contributions *out, attn_arena *arena, attn_error *err) {
    const size_t layers = feeds_of(stack);
    *out = (attn_contributions){.layers = layers};
    out->feed_forward = attn_arena_zeroed(arena, layers + 1, sizeof *out->feed_forward);
    out->heads = attn_arena_zeroed(arena, m->site_count + 1, sizeof *out->heads);
    ATTN_TAKEN(out->feed_forward && out->heads, "contributions", err);
    for (size_t i = 0; i < m->site_count; i++)
        if (is_direct(m, &m->sites[i])) {
            out->heads[i] = attn_arena_zeroed(arena, m->sites[i].heads, sizeof **out->heads);
            ATTN_TAKEN(out->heads[i], "contributions", err);
        }
    return ATTN_OK;
}

/* Returns the largest width of the outputs of all heads of a stack, at least that of the stack. */
static size_t widest(const attn_model *m, const model_stack *stack) {
    size_t most = m->config.width;
    for (size_t i = 0; i < stack->count; i++)
        if (stack->blocks[i].operation->has_site) {
            const size_t Q = attn_attend_query_width(&stack->blocks[i].attend);
            most = Q > most ? Q : most;
        }
    return most;
}

static attn_status check_wanted(const attn_activations *a, const attn_wanted_logit *wanted,
                                size_t count, attn_error *err) {
    const size_t V = a->model->config.target_vocabulary;
    char where[64];
    if (!a->model->head.projection.out)
        return attn_fail(err, ATTN_EARG, "head", "the model has no logits");
    if (a->model->head.dense.out)
        return attn_fail(err, ATTN_EARG, "head",
                         "the head of masked words has an activation, so that its logits are no "
                         "sums of contributions");
    for (size_t i = 0; i < count; i++) {
        const bool place = wanted[i].place >= a->count;
        snprintf(where, sizeof where, "wanted/%zu/%s", i, place ? "place" : "id");
        if (place)
            return attn_fail(err, ATTN_EVALUE, where, "expected 0 to %zu, found %zu", a->count - 1,
                             wanted[i].place);
        if (wanted[i].id < 0 || (size_t)wanted[i].id >= V)
            return attn_fail(err, ATTN_EVALUE, where, "expected 0 to %zu, found %d", V - 1,
                             (int)wanted[i].id);
    }
    return ATTN_OK;
}

attn_status attn_model_contributions(const attn_activations *a, const attn_wanted_logit *wanted,
                                     size_t count, attn_arena *arena, const attn_control *control,
                                     attn_contributions *out, attn_error *err) {
    const size_t D = a->model->config.width, most = widest(a->model, a->stack);
    ATTN_TRY(check_wanted(a, wanted, count, err));
    way y = {.a = a,
             .stream = attn_arena_zeroed(arena, D, sizeof *y.stream),
             .added = attn_arena_zeroed(arena, D, sizeof *y.added),
             .through = attn_arena_zeroed(arena, most, sizeof *y.through),
             .row = attn_arena_zeroed(arena, most, sizeof *y.row)};
    ATTN_TAKEN(y.stream && y.added && y.through && y.row, "contributions", err);
    for (size_t i = 0; i < count; i++) {
        attn_contributions one;
        ATTN_TRY(attn_control_check(control, err));
        ATTN_TRY(take_lists(a->model, a->stack, &one, arena, err));
        y.place = wanted[i].place;
        logit_back(&y, wanted[i].id, &one);
        out[i] = one;
    }
    return ATTN_OK;
}

attn_model_cost attn_model_contributions_cost(const attn_model *m, size_t count) {
    const model_stack *stack = attn_models_last(m);
    const double n = (double)count, D = (double)m->config.width, most = (double)widest(m, stack);
    attn_layer_cost cost = {0}, one = {0};
    attn_cost_bytes(&cost, 2 * D * sizeof(double) + ATTN_ALIGN);
    attn_cost_bytes(&cost, most * sizeof(double));
    attn_cost_floats(&cost, most);
    attn_cost_bytes(&one, (double)(feeds_of(stack) + 1) * sizeof(double));
    attn_cost_bytes(&one, (double)(m->site_count + 1) * sizeof(double *));
    for (size_t i = 0; i < m->site_count; i++)
        if (is_direct(m, &m->sites[i]))
            attn_cost_bytes(&one, (double)m->sites[i].heads * sizeof(double));
    for (size_t i = 0; i < stack->count; i++) {
        const model_block *block = &stack->blocks[i];
        cost.operations += n * 8 * D;
        if (block->operation->has_site)
            cost.operations += n * 2 * D * (double)attn_attend_query_width(&block->attend);
    }
    return (attn_model_cost){.operations = cost.operations, .bytes = cost.bytes + n * one.bytes};
}
