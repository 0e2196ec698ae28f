/* Passes through a model: forward from ids to logits, and backward from the gradient of the
 * logits. */
#include <string.h>

#include "base/try.h"
#include "kernels/pointwise.h"
#include "models/model_private.h"

static size_t numbers(const model_walk *w, const model_half *half) {
    return half->B * half->T * w->model->config.width;
}

static void drop(const model_walk *w, const model_half *half, float *x, uint64_t seed) {
    attn_dropout(x, numbers(w, half), 0, attn_dropout_of(&w->pass, w->model->config.dropout_p),
                 seed);
}

/* The buffers [n, D] of blocks. A lean pass takes those of a stack once, and its blocks write them
 * in turn; else each block takes its own. */
typedef struct buffers {
    float *out, *inner, *sum, *stats;
} buffers;

static attn_status take(model_walk *w, const model_half *half, bool inner, bool sum, buffers *b,
                        attn_error *err) {
    const size_t D = w->model->config.width, n = half->B * half->T;
    *b = (buffers){.out = attn_layers_take(&w->pass, n, D, err)};
    if (!b->out || !(b->stats = attn_layers_take(&w->pass, n, 2, err)) ||
        (inner && !(b->inner = attn_layers_take(&w->pass, n, D, err))) ||
        (sum && !(b->sum = attn_layers_take(&w->pass, n, D, err))))
        return ATTN_ENOMEM;
    return ATTN_OK;
}

/* Return whether a block computes a norm of its input, and whether it keeps the input of its last
 * norm. */
static bool makes_inner(const model_block *block) {
    return (block->wrap == WRAP_BEFORE || block->wrap == WRAP_AROUND) && block->norm.width &&
           !block->shares_norm;
}
static bool makes_sum(const model_block *block) {
    return block->wrap != WRAP_NONE && block->wrap != WRAP_BEFORE;
}

model_shared attn_models_shared(const model_stack *stack) {
    model_shared s = {.outputs = 2};
    for (size_t i = 0; i < stack->count; i++) {
        const model_block *block = &stack->blocks[i];
        const size_t inners = makes_inner(block);
        if (block->parallel)
            s.outputs = MODEL_OUTPUTS;
        s.inners = block->shares_norm ? MODEL_INNERS : s.inners > inners ? s.inners : inners;
        s.sums |= makes_sum(block);
    }
    return s;
}

/* Sets t->inner: computes norm(x), or takes the norm of the block before. */
static void enter_block(const model_half *half, const model_block *block, model_trace *t,
                        float *inner) {
    const bool before = block->wrap == WRAP_BEFORE || block->wrap == WRAP_AROUND;
    t->inner = !before              ? NULL
               : makes_inner(block) ? inner
               : block->shares_norm ? t[-1].inner
                                    : t->x;
    if (makes_inner(block))
        attn_norm_forward(inner, t->stats, t->x, half->B * half->T, &block->norm);
}

/* Adds the residual connection and the last norm to the output of the operation, `made`. */
static void leave_block(model_walk *w, model_half *half, const model_block *block, model_trace *t,
                        float *made) {
    const attn_pointwise *p = attn_pointwise_current();
    const size_t n = half->B * half->T, all = numbers(w, half);
    t->seed = attn_dropout_seed(&w->pass);
    drop(w, half, made, t->seed);
    if (w->activations)
        attn_models_keep_made(w, half, block, made);
    if (block->wrap == WRAP_AROUND || block->wrap == WRAP_INSIDE)
        attn_norm_forward(t->out, t->stats, made, n,
                          block->wrap == WRAP_AROUND ? &block->second : &block->norm);
    float *added = block->wrap == WRAP_AFTER ? made : t->out;
    if (block->residual_scale != 0)
        p->scale(added, block->residual_scale, all);
    p->add(added, t->base, all);
    if (block->wrap == WRAP_AFTER)
        attn_norm_forward(t->out, t->stats, t->sum, n, &block->norm);
}

/* Passes the residual stream after the first `after` blocks to the interventions and the
 * activations of a walk. */
static void show_stream(const model_walk *w, const model_half *half, size_t after, float *out,
                        const float *stats) {
    if (w->intervention_count || w->activations)
        attn_models_see_stream(w, half, after, out, stats);
}

static attn_status run_block(model_walk *w, model_half *half, const model_block *block,
                             model_trace *t, float *inner, attn_error *err) {
    float *made = makes_sum(block) ? t->sum : t->out;
    enter_block(half, block, t, inner);
    ATTN_TRY(block->operation->forward(made, t->inner ? t->inner : t->x, w, half, block, t, err));
    if (block->wrap != WRAP_NONE)
        leave_block(w, half, block, t, made);
    show_stream(w, half, 1 + (size_t)(block - half->stack->blocks), t->out, t->stats);
    return ATTN_OK;
}

/* Runs all blocks of a stack, from half->embedded to half->out. */
static attn_status run_stack(model_walk *w, model_half *half, attn_error *err) {
    const model_stack *stack = half->stack;
    const float *x = half->embedded;
    const model_shared count = attn_models_shared(stack);
    buffers shared[MODEL_OUTPUTS], own;
    half->traces = attn_arena_zeroed(w->pass.arena, stack->count, sizeof *half->traces);
    ATTN_TAKEN(half->traces, "the blocks of a pass", err);
    for (size_t i = 0; w->pass.lean && i < count.outputs; i++)
        ATTN_TRY(take(w, half, i < count.inners, i < count.sums, &shared[i], err));
    for (size_t i = 0; i < stack->count; i++) {
        const model_block *block = &stack->blocks[i];
        model_trace *t = &half->traces[i];
        ATTN_TRY(attn_control_check(w->pass.control, err));
        t->x = block->parallel ? t[-1].x : x;
        t->base = x;
        if (w->pass.lean)
            own = (buffers){shared[i % count.outputs].out,
                            count.inners ? shared[i % count.inners].inner : NULL, shared->sum,
                            shared->stats};
        else
            ATTN_TRY(take(w, half, makes_inner(block), makes_sum(block), &own, err));
        t->out = own.out;
        t->stats = own.stats;
        t->sum = makes_sum(block) ? own.sum : NULL;
        ATTN_TRY(run_block(w, half, block, t, own.inner, err));
        x = t->out;
    }
    half->out = x;
    return ATTN_OK;
}

/* Runs the backward pass of norm(x + dropout(f(x))). dx must be zeros and becomes the gradient of
 * x. dout is the gradient of the result, and is overwritten with the gradient of f(x). */
static attn_status after_back(model_walk *w, model_half *half, const model_block *block,
                              model_trace *t, float *dx, float *dout, attn_error *err) {
    attn_norm_backward(dx, dout, t->sum, t->stats, half->B * half->T, &block->norm);
    memcpy(dout, dx, numbers(w, half) * sizeof *dout);
    drop(w, half, dout, t->seed);
    return block->operation->backward(dx, dout, w, half, block, t, err);
}

/* Runs the backward pass of x + dropout(f(norm(x))). dout is the gradient of the result, and
 * becomes the gradient of x. dinner must be zeros and becomes the gradient of norm(x). dmade is
 * overwritten with the gradient of f(norm(x)). */
static attn_status before_back(model_walk *w, model_half *half, const model_block *block,
                               model_trace *t, float *dout, float *dinner, float *dmade,
                               attn_error *err) {
    memcpy(dmade, dout, numbers(w, half) * sizeof *dmade);
    drop(w, half, dmade, t->seed);
    ATTN_TRY(block->operation->backward(dinner, dmade, w, half, block, t, err));
    attn_norm_backward(dout, dinner, t->x, t->stats, half->B * half->T, &block->norm);
    return ATTN_OK;
}

/* Runs the backward pass of all blocks of a stack. dout [B, T, D] is the gradient of half->out, and
 * is overwritten. *dembedded becomes the gradient of half->embedded. */
static attn_status run_stack_back(model_walk *w, model_half *half, float *dout, float **dembedded,
                                  attn_error *err) {
    const size_t D = w->model->config.width, n = half->B * half->T;
    float *other = attn_layers_take(&w->pass, n, D, err);
    float *scratch = attn_layers_take(&w->pass, n, D, err);
    if (!other || !scratch)
        return ATTN_ENOMEM;
    for (size_t i = half->stack->count; i-- > 0;) {
        const model_block *block = &half->stack->blocks[i];
        model_trace *t = &half->traces[i];
        ATTN_TRY(attn_control_check(w->pass.control, err));
        memset(other, 0, n * D * sizeof *other);
        if (block->wrap == WRAP_BEFORE)
            ATTN_TRY(before_back(w, half, block, t, dout, other, scratch, err));
        else if (block->wrap == WRAP_AFTER)
            ATTN_TRY(after_back(w, half, block, t, other, dout, err));
        else
            ATTN_TRY(block->operation->backward(other, dout, w, half, block, t, err));
        if (block->wrap != WRAP_BEFORE) {
            float *was = dout;
            dout = other;
            other = was;
        }
    }
    *dembedded = dout;
    return ATTN_OK;
}

bool attn_models_adds_embeddings(const attn_model *m, const model_stack *stack) {
    return m->config.positions == ATTN_MODEL_SINUSOIDAL ||
           m->config.positions == ATTN_MODEL_LEARNED || stack->embedding.segments.rows;
}

/* Returns the learned positions of a stack. */
static const attn_embedding *learned_positions(const attn_model *m, const model_stack *stack) {
    return stack->embedding.positions.rows ? &stack->embedding.positions : &m->positions;
}

/* Adds the positions of the tokens and the embeddings of their segments to x [B, T, D]. */
static void add_embeddings(const model_walk *w, const model_half *half, float *x) {
    const attn_model *m = w->model;
    const attn_embedding *segments = &half->stack->embedding.segments,
                         *learned = learned_positions(m, half->stack);
    const attn_weight sinusoids = {.value = m->sinusoids};
    const size_t D = half->stack->embedding.tokens.width;
    if (m->sinusoids)
        attn_positions_add(x, half->B, half->T, D, &sinusoids, half->first);
    else if (learned->rows)
        attn_positions_add(x, half->B, half->T, D, &learned->weight,
                           m->config.position_offset + half->first);
    if (segments->rows)
        attn_segments_add(x, half->segments, half->B * half->T, segments);
}

/* If the stack has a norm of the embeddings, moves half->embedded to half->summed, and sets
 * half->embedded to the norm of half->summed. */
static attn_status norm_embeddings(model_walk *w, model_half *half, attn_error *err) {
    const size_t D = half->stack->embedding.tokens.width, n = half->B * half->T;
    if (!half->stack->embedding.norm.width)
        return ATTN_OK;
    half->summed = half->embedded;
    half->embedded = attn_layers_take(&w->pass, n, D, err);
    half->stats = attn_layers_take(&w->pass, n, 2, err);
    if (!half->embedded || !half->stats)
        return ATTN_ENOMEM;
    attn_norm_forward(half->embedded, half->stats, half->summed, n, &half->stack->embedding.norm);
    return ATTN_OK;
}

/* If the tables have another width than the model, maps half->embedded to the width of the model. */
static attn_status project_embeddings(model_walk *w, model_half *half, attn_error *err) {
    const attn_linear *projection = &half->stack->embedding.projection;
    const size_t n = half->B * half->T;
    const float *narrow = half->embedded;
    if (!projection->out)
        return ATTN_OK;
    if (!(half->embedded = attn_layers_take(&w->pass, n, projection->out, err)))
        return ATTN_ENOMEM;
    attn_linear_forward(half->embedded, narrow, n, projection);
    return ATTN_OK;
}

/* Computes half->embedded = dropout(projection(norm(embeddings of tokens, positions and
 * segments))). */
static attn_status embed(model_walk *w, model_half *half, attn_error *err) {
    const attn_model *m = w->model;
    const size_t D = half->stack->embedding.tokens.width, n = half->B * half->T;
    const bool adds = attn_models_adds_embeddings(m, half->stack);
    float *unplaced = NULL;
    half->seed = attn_dropout_seed(&w->pass);
    if (!(half->embedded = attn_layers_take(&w->pass, n, D, err)))
        return ATTN_ENOMEM;
    if (w->keep_states && adds && !(unplaced = attn_layers_take(&w->pass, n, D, err)))
        return ATTN_ENOMEM;
    attn_embedding_forward(half->embedded, half->ids, n, &half->stack->embedding.tokens);
    if (unplaced)
        memcpy(unplaced, half->embedded, n * D * sizeof *unplaced);
    half->unplaced = unplaced;
    add_embeddings(w, half, half->embedded);
    if (norm_embeddings(w, half, err) || project_embeddings(w, half, err))
        return ATTN_ENOMEM;
    drop(w, half, half->embedded, half->seed);
    show_stream(w, half, 0, half->embedded, NULL);
    return ATTN_OK;
}

static attn_status embed_back(model_walk *w, const model_half *half, float *dembedded,
                              attn_error *err) {
    const model_embedding *e = &half->stack->embedding;
    const size_t n = half->B * half->T;
    drop(w, half, dembedded, half->seed);
    if (e->norm.width) {
        float *dsummed = attn_layers_zeroed(&w->pass, n, w->model->config.width, err);
        if (!dsummed)
            return ATTN_ENOMEM;
        attn_norm_backward(dsummed, dembedded, half->summed, half->stats, n, &e->norm);
        dembedded = dsummed;
    }
    if (w->model->config.positions == ATTN_MODEL_LEARNED)
        attn_positions_backward(dembedded, half->B, half->T,
                                w->model->config.position_offset + half->first,
                                learned_positions(w->model, half->stack));
    if (e->segments.rows)
        attn_embedding_backward(dembedded, half->segments, n, &e->segments);
    attn_embedding_backward(dembedded, half->ids, n, &e->tokens);
    return ATTN_OK;
}

/* Copies the final states of an LSTM from apart [2 * layers, B, D / 2], where the directions are
 * apart, to joined [layers, B, D], where they are side by side. If `back`, copies from joined to
 * apart, for the backward pass. */
static void join_states(float *joined, float *apart, const attn_model *m, size_t B, bool back) {
    const size_t half = m->config.width / 2;
    for (size_t i = 0; i < 2 * m->config.num_layers; i++)
        for (size_t b = 0; b < B; b++) {
            float *one = apart + (i * B + b) * half;
            float *two = joined + ((i / 2 * B + b) * 2 + i % 2) * half;
            memcpy(back ? one : two, back ? two : one, half * sizeof(float));
        }
}

static attn_status take_states(model_walk *w, attn_lstm_state *state, size_t B, attn_error *err) {
    const size_t n = w->model->config.num_layers * B, D = w->model->config.width;
    state->h = attn_layers_zeroed(&w->pass, n, D, err);
    state->c = attn_layers_zeroed(&w->pass, n, D, err);
    return state->h && state->c ? ATTN_OK : ATTN_ENOMEM;
}

static attn_status run_half(model_walk *w, model_half *half, attn_error *err) {
    const attn_status status = embed(w, half, err);
    return status ? status : run_stack(w, half, err);
}

/* Sets the segments of the source; all are 0 if the batch has none. */
static attn_status place_segments(model_walk *w, const attn_batch *batch, attn_error *err) {
    model_half *half = &w->encoder;
    half->segments = batch->source_segments;
    if (half->segments || !half->stack->embedding.segments.rows)
        return ATTN_OK;
    half->segments = attn_arena_zeroed(w->pass.arena, half->B * half->T, sizeof *half->segments);
    return half->segments ? ATTN_OK
                          : attn_fail(err, ATTN_ENOMEM, "", "no memory for %zu segments", half->B);
}

attn_status attn_models_encode(model_walk *w, const attn_batch *batch, bool want_weights,
                               attn_error *err) {
    const attn_model *m = w->model;
    model_half *half = &w->encoder;
    *half = (model_half){.stack = &m->encoder,
                         .ids = batch->source,
                         .B = batch->B,
                         .T = batch->S,
                         .lengths = batch->source_lengths,
                         .keep = batch->source_keep,
                         .want_weights = want_weights};
    w->decoder.initial = (attn_lstm_state){NULL, NULL};
    if (m->hands) {
        ATTN_TRY(take_states(w, &half->last, batch->B, err));
        ATTN_TRY(take_states(w, &w->decoder.initial, batch->B, err));
    }
    ATTN_TRY(place_segments(w, batch, err));
    ATTN_TRY(run_half(w, half, err));
    if (m->hands) {
        join_states(w->decoder.initial.h, half->last.h, m, batch->B, false);
        join_states(w->decoder.initial.c, half->last.c, m, batch->B, false);
    }
    return ATTN_OK;
}

attn_status attn_models_decode(model_walk *w, const attn_batch *batch, bool want_weights,
                               attn_error *err) {
    const model_half *encoder = &w->encoder;
    w->decoder = (model_half){.stack = &w->model->decoder,
                              .ids = batch->target,
                              .B = batch->B,
                              .T = batch->T,
                              .want_weights = want_weights,
                              .memory = encoder->out,
                              .S = encoder->T,
                              .memory_lengths = encoder->lengths,
                              .memory_keep = encoder->keep,
                              .initial = w->decoder.initial};
    return run_half(w, &w->decoder, err);
}

attn_status attn_models_decode_step(model_walk *w, const int32_t *tokens, size_t rows, size_t T,
                                    size_t first, model_cache *caches, const int64_t *lengths,
                                    const uint8_t *keep, bool want_weights, attn_error *err) {
    w->decoder = (model_half){.stack = &w->model->decoder,
                              .ids = tokens,
                              .B = rows,
                              .T = T,
                              .first = first,
                              .want_weights = want_weights,
                              .S = w->encoder.T,
                              .memory_lengths = lengths,
                              .memory_keep = keep,
                              .caches = caches};
    return run_half(w, &w->decoder, err);
}

/* --- the head --- */

model_half *attn_models_last_half(model_walk *w) {
    return w->model->decoder.count ? &w->decoder : &w->encoder;
}

/* Computes w->pooled = tanh(linear(output of the first token of each sequence)). */
static attn_status pool_outputs(model_walk *w, const model_half *half, attn_error *err) {
    const size_t D = w->model->config.width;
    float *first = attn_layers_take(&w->pass, half->B, D, err);
    if (!first || !(w->pooled = attn_layers_take(&w->pass, half->B, D, err)))
        return ATTN_ENOMEM;
    for (size_t b = 0; b < half->B; b++)
        memcpy(first + b * D, half->out + b * half->T * D, D * sizeof *first);
    attn_linear_forward(w->pooled, first, half->B, &w->model->head.pooler);
    attn_activation_forward(w->pooled, w->pooled, half->B * D, ATTN_TANH);
    return ATTN_OK;
}

/* Copies the last w->last_logits rows of each sequence of x [B, T, D] to *out. */
static attn_status last_rows(model_walk *w, const model_half *half, const float **out,
                             attn_error *err) {
    const size_t D = w->model->config.width, n = w->last_logits;
    float *rows = attn_layers_take(&w->pass, half->B * n, D, err);
    if (!rows)
        return ATTN_ENOMEM;
    for (size_t b = 0; b < half->B; b++)
        memcpy(rows + b * n * D, half->out + ((b + 1) * half->T - n) * D, n * D * sizeof *rows);
    *out = rows;
    return ATTN_OK;
}

/* Computes norm(activation(dense(x))) of the rows of *x for a head of masked words. */
static attn_status transform_outputs(const attn_model *m, attn_pass *pass, const float **x,
                                     size_t rows, attn_error *err) {
    const model_head *head = &m->head;
    float *y = attn_layers_take(pass, rows, head->dense.out, err);
    float *normed = attn_layers_take(pass, rows, head->dense.out, err);
    if (!y || !normed)
        return ATTN_ENOMEM;
    attn_linear_forward(y, *x, rows, &head->dense);
    attn_activation_forward(y, y, rows * head->dense.out, head->activation);
    attn_norm_forward(normed, NULL, y, rows, &head->norm);
    *x = normed;
    return ATTN_OK;
}

static void cap_logits(const attn_model_config *c, float *logits, size_t n) {
    const attn_pointwise *p = attn_pointwise_current();
    const float cap = (float)c->logit_softcap;
    if (c->logit_scale > 0)
        p->scale(logits, (float)c->logit_scale, n);
    if (cap <= 0)
        return;
    p->scale(logits, 1 / cap, n);
    p->tanh(logits, logits, n);
    p->scale(logits, cap, n);
}

attn_status attn_models_logits(const attn_model *m, attn_pass *pass, const float *x, size_t rows,
                               float *logits, attn_error *err) {
    if (m->head.dense.out)
        ATTN_TRY(transform_outputs(m, pass, &x, rows, err));
    attn_linear_forward(logits, x, rows, &m->head.projection);
    cap_logits(&m->config, logits, rows * m->head.projection.out);
    return ATTN_OK;
}

attn_status attn_models_head(model_walk *w, attn_error *err) {
    const model_head *head = &w->model->head;
    const model_half *half = attn_models_last_half(w);
    const bool pools = head->pooler.out > 0;
    const float *x = half->out;
    w->rows = 0;
    if (!head->projection.out || w->no_logits)
        return ATTN_OK;
    w->rows = pools ? half->B : half->B * (w->last_logits ? w->last_logits : half->T);
    if (pools)
        ATTN_TRY(pool_outputs(w, half, err));
    else if (w->last_logits)
        ATTN_TRY(last_rows(w, half, &x, err));
    if (!(w->logits = attn_layers_take(&w->pass, w->rows, head->projection.out, err)))
        return ATTN_ENOMEM;
    return attn_models_logits(w->model, &w->pass, pools ? w->pooled : x, w->rows, w->logits, err);
}

/* Adds the gradient of the pooled outputs to the gradient of the outputs, dout [B, T, D]. */
static attn_status pool_back(model_walk *w, const model_half *half, const float *dpooled,
                             float *dout, attn_error *err) {
    const size_t D = w->model->config.width;
    float *dlinear = attn_layers_take(&w->pass, half->B, D, err);
    if (!dlinear)
        return ATTN_ENOMEM;
    for (size_t i = 0; i < half->B * D; i++)
        dlinear[i] = dpooled[i] * (1 - w->pooled[i] * w->pooled[i]);
    for (size_t b = 0; b < half->B; b++)
        attn_linear_backward(dout + b * half->T * D, dlinear + b * D, half->out + b * half->T * D,
                             1, &w->model->head.pooler);
    return ATTN_OK;
}

/* Adds the gradient of the last stack's outputs to dout [B, T, D]. */
static attn_status head_back(model_walk *w, const float *dlogits, float *dout, attn_error *err) {
    const model_head *head = &w->model->head;
    const model_half *half = attn_models_last_half(w);
    if (!head->pooler.out) {
        attn_linear_backward(dout, dlogits, half->out, w->rows, &head->projection);
        return ATTN_OK;
    }
    float *dpooled = attn_layers_zeroed(&w->pass, w->rows, w->model->config.width, err);
    if (!dpooled)
        return ATTN_ENOMEM;
    attn_linear_backward(dpooled, dlogits, w->pooled, w->rows, &head->projection);
    return pool_back(w, half, dpooled, dout, err);
}

/* --- backward --- */

static attn_status half_back(model_walk *w, model_half *half, float *dout, attn_error *err) {
    float *dembedded;
    const attn_status status = run_stack_back(w, half, dout, &dembedded, err);
    return status ? status : embed_back(w, half, dembedded, err);
}

/* Runs the backward pass of the decoder. Attention adds the gradient of the encoder's outputs to
 * dmemory. If the decoder starts from the encoder's last states, the gradient of these states is
 * stored in w->encoder.dlast. */
static attn_status decoder_back(model_walk *w, float *dout, attn_error *err) {
    const attn_model *m = w->model;
    model_half *half = &w->decoder;
    if (m->hands) {
        ATTN_TRY(take_states(w, &half->dinitial, half->B, err));
        ATTN_TRY(take_states(w, &w->encoder.dlast, half->B, err));
    }
    ATTN_TRY(half_back(w, half, dout, err));
    if (m->hands) {
        join_states(half->dinitial.h, w->encoder.dlast.h, m, half->B, true);
        join_states(half->dinitial.c, w->encoder.dlast.c, m, half->B, true);
    }
    return ATTN_OK;
}

/* Returns zeros for the gradient of the outputs of a stack. NULL: out of memory, and *err is
 * ATTN_ENOMEM. */
static float *take_gradient(model_walk *w, const model_half *half, attn_error *err) {
    return attn_layers_zeroed(&w->pass, half->B * half->T, w->model->config.width, err);
}

attn_status attn_models_backward(model_walk *w, const float *dlogits, attn_error *err) {
    const bool encodes = w->model->encoder.count, decodes = w->model->decoder.count;
    float *dout = take_gradient(w, attn_models_last_half(w), err);
    if (!dout)
        return ATTN_ENOMEM;
    if (encodes && decodes && !(w->decoder.dmemory = take_gradient(w, &w->encoder, err)))
        return ATTN_ENOMEM;
    ATTN_TRY(head_back(w, dlogits, dout, err));
    if (decodes)
        ATTN_TRY(decoder_back(w, dout, err));
    return encodes ? half_back(w, &w->encoder, decodes ? w->decoder.dmemory : dout, err) : ATTN_OK;
}
