/* Passes through a model: forward from ids to logits, and backward from the gradient of the
 * logits. */
#include <string.h>

#include "kernels/pointwise.h"
#include "models/model_private.h"

static size_t numbers(const model_walk *w, const model_half *half) {
    return half->B * half->T * w->model->config.width;
}

static void drop(const model_walk *w, const model_half *half, float *x, uint64_t seed) {
    attn_dropout(x, numbers(w, half), attn_dropout_of(&w->pass, w->model->config.dropout_p), seed);
}

static attn_status take(model_walk *w, const model_half *half, const model_block *block,
                        model_trace *t, attn_error *err) {
    const size_t D = w->model->config.width, n = half->B * half->T;
    t->inner = t->sum = NULL;
    if (!(t->out = attn_layers_take(&w->pass, n, D, err)) ||
        !(t->stats = attn_layers_take(&w->pass, n, 2, err)) ||
        (block->wrap == WRAP_BEFORE && !(t->inner = attn_layers_take(&w->pass, n, D, err))) ||
        (block->wrap == WRAP_AFTER && !(t->sum = attn_layers_take(&w->pass, n, D, err))))
        return ATTN_ENOMEM;
    return ATTN_OK;
}

static attn_status run_block(model_walk *w, model_half *half, const model_block *block,
                             model_trace *t, attn_error *err) {
    const size_t n = half->B * half->T;
    float *made = block->wrap == WRAP_AFTER ? t->sum : t->out;
    if (block->wrap == WRAP_BEFORE)
        attn_norm_forward(t->inner, t->stats, t->x, n, &block->norm);
    const attn_status status = block->operation->forward(
        made, block->wrap == WRAP_BEFORE ? t->inner : t->x, w, half, block, t, err);
    if (status || block->wrap == WRAP_NONE)
        return status;
    t->seed = attn_dropout_seed(&w->pass);
    drop(w, half, made, t->seed);
    attn_pointwise_current()->add(made, t->x, numbers(w, half));
    if (block->wrap == WRAP_AFTER)
        attn_norm_forward(t->out, t->stats, t->sum, n, &block->norm);
    return ATTN_OK;
}

/* Runs all blocks of a stack, from half->embedded to half->out. */
static attn_status attn_models_run_stack(model_walk *w, model_half *half, attn_error *err) {
    const model_stack *stack = half->stack;
    const float *x = half->embedded;
    half->traces = attn_arena_zeroed(w->pass.arena, stack->count, sizeof *half->traces);
    if (!half->traces)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory for a pass of %zu blocks", stack->count);
    for (size_t i = 0; i < stack->count; i++) {
        model_trace *t = &half->traces[i];
        attn_status status = attn_control_check(w->pass.control, err);
        t->x = x;
        if (status || (status = take(w, half, &stack->blocks[i], t, err)) ||
            (status = run_block(w, half, &stack->blocks[i], t, err)))
            return status;
        x = t->out;
    }
    half->out = x;
    return ATTN_OK;
}

/* Backward pass of norm(x + dropout(f(x))). dx must be zeros and becomes the gradient of x; dout is
 * overwritten with the gradient of f(x). */
static attn_status after_back(model_walk *w, model_half *half, const model_block *block,
                              model_trace *t, float *dx, float *dout, attn_error *err) {
    attn_norm_backward(dx, dout, t->sum, t->stats, half->B * half->T, &block->norm);
    memcpy(dout, dx, numbers(w, half) * sizeof *dout);
    drop(w, half, dout, t->seed);
    return block->operation->backward(dx, dout, w, half, block, t, err);
}

/* Backward pass of x + dropout(f(norm(x))). dout becomes the gradient of x. dinner must be zeros;
 * it becomes the gradient of norm(x), and dmade that of f(norm(x)). */
static attn_status before_back(model_walk *w, model_half *half, const model_block *block,
                               model_trace *t, float *dout, float *dinner, float *dmade,
                               attn_error *err) {
    memcpy(dmade, dout, numbers(w, half) * sizeof *dmade);
    drop(w, half, dmade, t->seed);
    const attn_status status = block->operation->backward(dinner, dmade, w, half, block, t, err);
    if (!status)
        attn_norm_backward(dout, dinner, t->x, t->stats, half->B * half->T, &block->norm);
    return status;
}

/* Runs the backward pass of all blocks of a stack. dout [B, T, D] is overwritten. *dembedded
 * becomes the gradient of half->embedded. */
static attn_status attn_models_stack_back(model_walk *w, model_half *half, float *dout,
                                          float **dembedded, attn_error *err) {
    const size_t D = w->model->config.width, n = half->B * half->T;
    float *other = attn_layers_take(&w->pass, n, D, err);
    float *scratch = attn_layers_take(&w->pass, n, D, err);
    if (!other || !scratch)
        return ATTN_ENOMEM;
    for (size_t i = half->stack->count; i-- > 0;) {
        const model_block *block = &half->stack->blocks[i];
        model_trace *t = &half->traces[i];
        attn_status status = attn_control_check(w->pass.control, err);
        memset(other, 0, n * D * sizeof *other);
        if (!status && block->wrap == WRAP_BEFORE)
            status = before_back(w, half, block, t, dout, other, scratch, err);
        else if (!status && block->wrap == WRAP_AFTER)
            status = after_back(w, half, block, t, other, dout, err);
        else if (!status)
            status = block->operation->backward(other, dout, w, half, block, t, err);
        if (status)
            return status;
        if (block->wrap != WRAP_BEFORE) {
            float *was = dout;
            dout = other;
            other = was;
        }
    }
    *dembedded = dout;
    return ATTN_OK;
}

const float *attn_models_position_table(const attn_model *model) {
    return model->sinusoids ? model->sinusoids : model->positions.weight.value;
}

/* Computes half->embedded = dropout(embedding(ids) + positions). */
static attn_status embed(model_walk *w, model_half *half, attn_error *err) {
    const attn_model *m = w->model;
    const size_t D = m->config.width, n = half->B * half->T;
    const float *table = attn_models_position_table(m);
    float *unplaced = NULL;
    half->seed = attn_dropout_seed(&w->pass);
    if (!(half->embedded = attn_layers_take(&w->pass, n, D, err)))
        return ATTN_ENOMEM;
    if (w->keep_states && table && !(unplaced = attn_layers_take(&w->pass, n, D, err)))
        return ATTN_ENOMEM;
    attn_embedding_forward(half->embedded, half->ids, n, &half->stack->embedding);
    if (unplaced)
        memcpy(unplaced, half->embedded, n * D * sizeof *unplaced);
    half->unplaced = unplaced;
    if (table)
        attn_positions_add(half->embedded, half->B, half->T, D, table, half->first);
    drop(w, half, half->embedded, half->seed);
    return ATTN_OK;
}

static void embed_back(const model_walk *w, const model_half *half, float *dembedded) {
    const attn_model *m = w->model;
    const size_t n = half->B * half->T;
    drop(w, half, dembedded, half->seed);
    if (m->config.positions == ATTN_MODEL_LEARNED)
        attn_positions_backward(dembedded, half->B, half->T, half->first, &m->positions);
    attn_embedding_backward(dembedded, half->ids, n, &half->stack->embedding);
}

/* Joins the final states of both directions of an LSTM, apart [2 layers, B, D / 2], to joined
 * [layers, B, D]. With `back` it copies from `joined` to `apart`, for gradients. */
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

attn_status attn_models_encode(model_walk *w, const int32_t *source, const int64_t *lengths,
                               const uint8_t *keep, size_t B, size_t S, bool want_weights,
                               attn_error *err) {
    const attn_model *m = w->model;
    model_half *half = &w->encoder;
    attn_status status;
    *half = (model_half){.stack = &m->encoder,
                         .ids = source,
                         .B = B,
                         .T = S,
                         .lengths = lengths,
                         .keep = keep,
                         .want_weights = want_weights};
    w->decoder.initial = (attn_lstm_state){NULL, NULL};
    if (m->hands && ((status = take_states(w, &half->last, B, err)) ||
                     (status = take_states(w, &w->decoder.initial, B, err))))
        return status;
    if ((status = embed(w, half, err)) || (status = attn_models_run_stack(w, half, err)))
        return status;
    if (m->hands) {
        join_states(w->decoder.initial.h, half->last.h, m, B, false);
        join_states(w->decoder.initial.c, half->last.c, m, B, false);
    }
    return ATTN_OK;
}

static attn_status decode(model_walk *w, attn_error *err) {
    const attn_model *m = w->model;
    model_half *half = &w->decoder;
    const size_t n = half->B * half->T;
    attn_status status;
    if ((status = embed(w, half, err)) || (status = attn_models_run_stack(w, half, err)))
        return status;
    if (!(w->logits = attn_layers_take(&w->pass, n, m->config.target_vocabulary, err)))
        return ATTN_ENOMEM;
    attn_linear_forward(w->logits, half->out, n, &m->projection);
    return ATTN_OK;
}

attn_status attn_models_decode(model_walk *w, const int32_t *target, size_t T, bool want_weights,
                               attn_error *err) {
    const model_half *encoder = &w->encoder;
    w->decoder = (model_half){.stack = &w->model->decoder,
                              .ids = target,
                              .B = encoder->B,
                              .T = T,
                              .want_weights = want_weights,
                              .memory = encoder->out,
                              .S = encoder->T,
                              .memory_lengths = encoder->lengths,
                              .memory_keep = encoder->keep,
                              .initial = w->decoder.initial};
    return decode(w, err);
}

attn_status attn_models_decode_step(model_walk *w, const int32_t *tokens, size_t rows, size_t first,
                                    model_cache *caches, const int64_t *lengths,
                                    const uint8_t *keep, bool want_weights, attn_error *err) {
    w->decoder = (model_half){.stack = &w->model->decoder,
                              .ids = tokens,
                              .B = rows,
                              .T = 1,
                              .first = first,
                              .want_weights = want_weights,
                              .S = w->encoder.T,
                              .memory_lengths = lengths,
                              .memory_keep = keep,
                              .caches = caches};
    return decode(w, err);
}

/* Backward pass of the decoder. It also computes the gradient of the encoder's outputs (dmemory),
 * or of the encoder's last states (dlast) if the decoder starts from them. */
static attn_status decoder_back(model_walk *w, const float *dlogits, attn_error *err) {
    const attn_model *m = w->model;
    model_half *half = &w->decoder;
    const size_t n = half->B * half->T;
    float *dout = attn_layers_zeroed(&w->pass, n, m->config.width, err), *dembedded;
    attn_status status;
    if (!dout)
        return ATTN_ENOMEM;
    if (m->hands && ((status = take_states(w, &half->dinitial, half->B, err)) ||
                     (status = take_states(w, &w->encoder.dlast, half->B, err))))
        return status;
    attn_linear_backward(dout, dlogits, half->out, n, &m->projection);
    if ((status = attn_models_stack_back(w, half, dout, &dembedded, err)))
        return status;
    if (m->hands) {
        join_states(half->dinitial.h, w->encoder.dlast.h, m, half->B, true);
        join_states(half->dinitial.c, w->encoder.dlast.c, m, half->B, true);
    }
    embed_back(w, half, dembedded);
    return ATTN_OK;
}

attn_status attn_models_backward(model_walk *w, const float *dlogits, attn_error *err) {
    model_half *half = &w->encoder;
    float *dmemory = attn_layers_zeroed(&w->pass, half->B * half->T, w->model->config.width, err),
          *dembedded;
    attn_status status;
    if (!dmemory)
        return ATTN_ENOMEM;
    w->decoder.dmemory = dmemory;
    if ((status = decoder_back(w, dlogits, err)) ||
        (status = attn_models_stack_back(w, half, dmemory, &dembedded, err)))
        return status;
    embed_back(w, half, dembedded);
    return ATTN_OK;
}
