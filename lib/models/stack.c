/* A stack of blocks: each operation with what its wrap puts around it, and back. */
#include <string.h>

#include "kernels/pointwise.h"
#include "models/model_private.h"

static size_t numbers(const model_walk *w, const model_half *half) {
    return half->B * half->T * w->model->config.width;
}

static void drop(const model_walk *w, const model_half *half, float *x, uint64_t seed) {
    if (w->pass.training)
        attn_dropout(x, numbers(w, half), w->model->config.dropout, seed);
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

attn_status attn_models_run_stack(model_walk *w, model_half *half, attn_error *err) {
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

/* norm(x + f(x)): *dx from zeros; *dout is used for what f hands back. */
static attn_status after_back(model_walk *w, model_half *half, const model_block *block,
                              model_trace *t, float *dx, float *dout, attn_error *err) {
    attn_norm_backward(dx, dout, t->sum, t->stats, half->B * half->T, &block->norm);
    memcpy(dout, dx, numbers(w, half) * sizeof *dout);
    drop(w, half, dout, t->seed);
    return block->operation->backward(dx, dout, w, half, block, t, err);
}

/* x + f(norm(x)): dout becomes dx; dinner from zeros. */
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

attn_status attn_models_stack_back(model_walk *w, model_half *half, float *dout, float **dembedded,
                                   attn_error *err) {
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
