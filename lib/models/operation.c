/* What the operations of blocks do: LSTM, feed-forward, layer norm. Those that attend are in
 * operation_attend.c. */
#include <string.h>

#include "models/model_private.h"

_Static_assert((int)ATTN_MODEL_LAYERS <= (int)ATTN_LSTM_LAYERS,
               "an LSTM holds all layers of a model");

static model_cache *cache_of(const model_half *half, const model_block *block) {
    return half->caches ? &half->caches[block - half->stack->blocks] : NULL;
}

/* --- LSTM --- */

static const attn_lstm_state *given(const attn_lstm_state *state) {
    return state->h ? state : NULL;
}

static attn_status lstm_forward(float *out, const float *x, model_walk *w, model_half *half,
                                const model_block *block, model_trace *t, attn_error *err) {
    model_cache *cache = cache_of(half, block);
    return attn_lstm_forward(out, cache ? &cache->next : given(&half->last), x,
                             cache ? &cache->state : given(&half->initial),
                             w->model->reads_padding ? NULL : half->lengths, half->B, half->T,
                             &block->lstm, &t->lstm, &w->pass, err);
}

static attn_status lstm_backward(float *dx, const float *dout, model_walk *w, model_half *half,
                                 const model_block *block, model_trace *t, attn_error *err) {
    return attn_lstm_backward(dx, given(&half->dinitial), dout, given(&half->dlast), &block->lstm,
                              &t->lstm, &w->pass, err);
}

static attn_status lstm_start(model_walk *w, const model_block *block, const model_rows *r,
                              model_cache *cache, attn_error *err) {
    const size_t layers = block->lstm.layers, H = block->lstm.hidden, n = layers * r->rows;
    const attn_lstm_state *handed = &w->decoder.initial;
    cache->state.h = attn_layers_zeroed(&w->pass, n, H, err);
    cache->state.c = attn_layers_zeroed(&w->pass, n, H, err);
    cache->next.h = attn_layers_take(&w->pass, n, H, err);
    cache->next.c = attn_layers_take(&w->pass, n, H, err);
    if (!cache->state.h || !cache->state.c || !cache->next.h || !cache->next.c)
        return ATTN_ENOMEM;
    for (size_t i = 0; handed->h && i < n; i++) {
        const size_t of = (i / r->rows * (r->rows / r->beams) + i % r->rows / r->beams) * H;
        memcpy(cache->state.h + i * H, handed->h + of, H * sizeof(float));
        memcpy(cache->state.c + i * H, handed->c + of, H * sizeof(float));
    }
    return ATTN_OK;
}

static void lstm_follow(const model_walk *w, const model_block *block, const model_rows *r,
                        const size_t *parents, size_t steps, model_cache *cache) {
    const size_t H = block->lstm.hidden;
    for (size_t i = 0; i < block->lstm.layers * r->rows; i++) {
        const size_t of = (i / r->rows * r->rows + parents[i % r->rows]) * H;
        memcpy(cache->state.h + i * H, cache->next.h + of, H * sizeof(float));
        memcpy(cache->state.c + i * H, cache->next.c + of, H * sizeof(float));
    }
    (void)w, (void)steps;
}

const model_operation attn_models_lstm = {
    .forward = lstm_forward, .backward = lstm_backward, .start = lstm_start, .follow = lstm_follow};

/* --- feed-forward --- */

static attn_status feed_forward(float *out, const float *x, model_walk *w, model_half *half,
                                const model_block *block, model_trace *t, attn_error *err) {
    const model_feed *feed = &block->feed;
    const size_t n = half->B * half->T, F = feed->linear1.out;
    t->feed_seed = attn_dropout_seed(&w->pass);
    if (!(t->active = attn_layers_take(&w->pass, n, F, err)))
        return ATTN_ENOMEM;
    attn_linear_forward(t->active, x, n, &feed->linear1);
    attn_activation_forward(t->active, t->active, n * F, ATTN_RELU);
    if (w->pass.training)
        attn_dropout(t->active, n * F, feed->dropout, t->feed_seed);
    attn_linear_forward(out, t->active, n, &feed->linear2);
    return ATTN_OK;
}

/* What is dropped and what the activation cuts off are both 0 in t->active: nothing but that needs
 * to be kept for the way back. */
static attn_status feed_backward(float *dx, const float *dout, model_walk *w, model_half *half,
                                 const model_block *block, model_trace *t, attn_error *err) {
    const model_feed *feed = &block->feed;
    const size_t n = half->B * half->T, F = feed->linear1.out;
    const float *x = block->wrap == WRAP_BEFORE ? t->inner : t->x;
    float *dactive = attn_layers_zeroed(&w->pass, n, F, err);
    float *dhidden = attn_layers_zeroed(&w->pass, n, F, err);
    if (!dactive || !dhidden)
        return ATTN_ENOMEM;
    attn_linear_backward(dactive, dout, t->active, n, &feed->linear2);
    if (w->pass.training)
        attn_dropout(dactive, n * F, feed->dropout, t->feed_seed);
    attn_activation_backward(dhidden, dactive, t->active, n * F, ATTN_RELU);
    attn_linear_backward(dx, dhidden, x, n, &feed->linear1);
    return ATTN_OK;
}

const model_operation attn_models_feed = {.forward = feed_forward, .backward = feed_backward};

/* --- layer norm --- */

static attn_status norm_forward(float *out, const float *x, model_walk *w, model_half *half,
                                const model_block *block, model_trace *t, attn_error *err) {
    attn_norm_forward(out, t->stats, x, half->B * half->T, &block->norm);
    (void)w, (void)err;
    return ATTN_OK;
}

static attn_status norm_backward(float *dx, const float *dout, model_walk *w, model_half *half,
                                 const model_block *block, model_trace *t, attn_error *err) {
    attn_norm_backward(dx, dout, t->x, t->stats, half->B * half->T, &block->norm);
    (void)w, (void)err;
    return ATTN_OK;
}

const model_operation attn_models_norm = {.forward = norm_forward, .backward = norm_backward};
