/* The way through a sequence-to-sequence model and back: embedding and positions, LSTM, attention
 * with a residual, layer norm; twice, then logits. */
#include <string.h>

#include "kernels/pointwise.h"
#include "layers/dense_layer.h"
#include "models/model_private.h"

/* embedded = dropout(embedding + positions). */
static attn_status embed(model_walk *w, model_half *half, const attn_embedding *table,
                         attn_error *err) {
    const attn_model *m = w->model;
    const size_t D = m->config.width, n = half->B * half->T;
    half->embedding_seed = attn_dropout_seed(&w->pass);
    if (!(half->embedded = attn_layers_take(&w->pass, n, D, err)))
        return ATTN_ENOMEM;
    attn_embedding_forward(half->embedded, half->ids, n, table);
    if (m->sinusoids)
        attn_positions_add(half->embedded, half->B, half->T, D, m->sinusoids, half->first);
    else if (m->positions.weight.value)
        attn_positions_add(half->embedded, half->B, half->T, D, m->positions.weight.value,
                           half->first);
    if (w->pass.training)
        attn_dropout(half->embedded, n * D, m->config.dropout, half->embedding_seed);
    return ATTN_OK;
}

static void embed_back(const model_walk *w, const model_half *half, float *dembedded,
                       const attn_embedding *table) {
    const attn_model *m = w->model;
    const size_t n = half->B * half->T;
    attn_dropout(dembedded, n * m->config.width, m->config.dropout, half->embedding_seed);
    if (m->config.positions == ATTN_MODEL_LEARNED)
        attn_positions_backward(dembedded, half->B, half->T, half->first, &m->positions);
    attn_embedding_backward(dembedded, half->ids, n, table);
}

/* out = norm(states + dropout(attention(states, memory))). */
static attn_status look(model_walk *w, model_half *half, const attn_attend *layer,
                        const attn_norm *norm, const float *memory, size_t S,
                        const attn_attend_sight *sight, bool want_weights, attn_error *err) {
    const size_t D = w->model->config.width, n = half->B * half->T;
    const attn_status status =
        attn_attend_forward(half->sum, half->states, memory, half->B, half->T, S, sight,
                            want_weights, layer, &half->attend, &w->pass, err);
    if (status)
        return status;
    half->attention_seed = attn_dropout_seed(&w->pass);
    if (w->pass.training)
        attn_dropout(half->sum, n * D, w->model->config.dropout, half->attention_seed);
    attn_pointwise_current()->add(half->sum, half->states, n * D);
    attn_norm_forward(half->out, half->stats, half->sum, n, norm);
    return ATTN_OK;
}

/* dout -> dstates (written) and dmemory (added to; may be dstates). */
static attn_status look_back(model_walk *w, model_half *half, const attn_attend *layer,
                             const attn_norm *norm, const float *dout, float *dstates,
                             float *dmemory, attn_error *err) {
    const size_t D = w->model->config.width, n = half->B * half->T;
    float *dattention = attn_layers_take(&w->pass, n, D, err);
    if (!dattention)
        return ATTN_ENOMEM;
    memset(dstates, 0, n * D * sizeof *dstates);
    attn_norm_backward(dstates, dout, half->sum, half->stats, n, norm);
    memcpy(dattention, dstates, n * D * sizeof *dattention);
    attn_dropout(dattention, n * D, w->model->config.dropout, half->attention_seed);
    return attn_attend_backward(dstates, dmemory, dattention, layer, &half->attend, &w->pass, err);
}

static attn_status take_half(model_walk *w, model_half *half, attn_error *err) {
    const size_t D = w->model->config.width, n = half->B * half->T;
    half->states = attn_layers_take(&w->pass, n, D, err);
    half->sum = attn_layers_take(&w->pass, n, D, err);
    half->out = attn_layers_take(&w->pass, n, D, err);
    half->stats = attn_layers_take(&w->pass, n, 2, err);
    return half->states && half->sum && half->out && half->stats ? ATTN_OK : ATTN_ENOMEM;
}

/* The two directions' final states [2 layers, B, D / 2] side by side: [layers, B, D]. `back`: the
 * other way. */
static void join_states(float *joined, float *apart, const attn_model *m, size_t B, bool back) {
    const size_t half = m->config.width / 2;
    for (size_t i = 0; i < 2 * m->config.layers; i++)
        for (size_t b = 0; b < B; b++) {
            float *one = apart + (i * B + b) * half;
            float *two = joined + ((i / 2 * B + b) * 2 + i % 2) * half;
            memcpy(back ? one : two, back ? two : one, half * sizeof(float));
        }
}

static attn_status take_states(model_walk *w, attn_lstm_state *state, size_t B, attn_error *err) {
    const size_t n = w->model->config.layers * B, D = w->model->config.width;
    state->h = attn_layers_zeroed(&w->pass, n, D, err);
    state->c = attn_layers_zeroed(&w->pass, n, D, err);
    return state->h && state->c ? ATTN_OK : ATTN_ENOMEM;
}

attn_status attn_models_encode(model_walk *w, const int32_t *source, const int64_t *lengths,
                               size_t B, size_t S, bool want_weights, attn_error *err) {
    const attn_model *m = w->model;
    model_half *half = &w->encoder;
    attn_lstm_state last = {NULL, NULL};
    attn_status status;
    *half = (model_half){.ids = source, .B = B, .T = S};
    w->lengths = lengths;
    if ((status = embed(w, half, &m->source, err)) || (status = take_half(w, half, err)))
        return status;
    if (!attn_models_attends(m) &&
        ((status = take_states(w, &last, B, err)) || (status = take_states(w, &w->handed, B, err))))
        return status;
    if ((status = attn_lstm_forward(half->states, last.h ? &last : NULL, half->embedded, NULL,
                                    m->config.read_padding ? NULL : lengths, B, S, &m->encoder_lstm,
                                    &half->lstm, &w->pass, err)))
        return status;
    if (!attn_models_attends(m)) {
        join_states(w->handed.h, last.h, m, B, false);
        join_states(w->handed.c, last.c, m, B, false);
        return ATTN_OK;
    }
    const attn_attend_sight sight = {.lengths = lengths};
    return look(w, half, &m->encoder_attention, &m->encoder_norm, half->states, S, &sight,
                want_weights, err);
}

attn_status attn_models_decode(model_walk *w, const int32_t *target, size_t B, size_t T,
                               size_t first, const model_decoding *from, attn_error *err) {
    const attn_model *m = w->model;
    const size_t n = B * T;
    model_half *half = &w->decoder;
    attn_status status;
    *half = (model_half){.ids = target, .B = B, .T = T, .first = first};
    if ((status = embed(w, half, &m->target, err)) || (status = take_half(w, half, err)) ||
        (status = attn_lstm_forward(half->states, from->last, half->embedded, from->initial, NULL,
                                    B, T, &m->decoder_lstm, &half->lstm, &w->pass, err)))
        return status;
    if (attn_models_attends(m)) {
        const attn_attend_sight sight = {
            .lengths = w->lengths, .first = first, .ready = from->ready};
        status = look(w, half, &m->cross_attention, &m->cross_norm, from->memory, from->S, &sight,
                      from->want_weights, err);
    } else {
        attn_norm_forward(half->out, half->stats, half->states, n, &m->cross_norm);
    }
    if (status)
        return status;
    if (!(w->logits = attn_layers_take(&w->pass, n, m->config.target_vocabulary, err)))
        return ATTN_ENOMEM;
    attn_linear_forward(w->logits, half->out, n, &m->projection);
    return ATTN_OK;
}

/* The decoder without attention: dstates, and the gradients of the states that it started from. */
static attn_status unaided_back(model_walk *w, const float *dout, float *dstates, float *dembedded,
                                attn_lstm_state *dlast, attn_error *err) {
    const attn_model *m = w->model;
    model_half *half = &w->decoder;
    attn_lstm_state dhanded;
    attn_status status;
    if ((status = take_states(w, &dhanded, half->B, err)) ||
        (status = take_states(w, dlast, half->B, err)))
        return status;
    attn_norm_backward(dstates, dout, half->states, half->stats, half->B * half->T, &m->cross_norm);
    if ((status = attn_lstm_backward(dembedded, &dhanded, dstates, NULL, &m->decoder_lstm,
                                     &half->lstm, &w->pass, err)))
        return status;
    join_states(dhanded.h, dlast->h, m, half->B, true);
    join_states(dhanded.c, dlast->c, m, half->B, true);
    return ATTN_OK;
}

/* From dlogits to the decoder's parameters; dmemory, or dlast without attention. */
static attn_status decoder_back(model_walk *w, const float *dlogits, float *dmemory,
                                attn_lstm_state *dlast, attn_error *err) {
    const attn_model *m = w->model;
    model_half *half = &w->decoder;
    const size_t D = m->config.width, n = half->B * half->T;
    float *dout = attn_layers_zeroed(&w->pass, n, D, err);
    float *dstates = attn_layers_zeroed(&w->pass, n, D, err);
    float *dembedded = attn_layers_zeroed(&w->pass, n, D, err);
    attn_status status = ATTN_OK;
    if (!dout || !dstates || !dembedded)
        return ATTN_ENOMEM;
    attn_linear_backward(dout, dlogits, half->out, n, &m->projection);
    if (!attn_models_attends(m))
        status = unaided_back(w, dout, dstates, dembedded, dlast, err);
    else if (!(status = look_back(w, half, &m->cross_attention, &m->cross_norm, dout, dstates,
                                  dmemory, err)))
        status = attn_lstm_backward(dembedded, NULL, dstates, NULL, &m->decoder_lstm, &half->lstm,
                                    &w->pass, err);
    if (!status)
        embed_back(w, half, dembedded, &m->target);
    return status;
}

attn_status attn_models_backward(model_walk *w, const float *dlogits, attn_error *err) {
    const attn_model *m = w->model;
    model_half *half = &w->encoder;
    const size_t D = m->config.width, n = half->B * half->T;
    float *dmemory = attn_layers_zeroed(&w->pass, n, D, err);
    float *dstates = attn_layers_zeroed(&w->pass, n, D, err);
    float *dembedded = attn_layers_zeroed(&w->pass, n, D, err);
    attn_lstm_state dlast = {NULL, NULL};
    if (!dmemory || !dstates || !dembedded)
        return ATTN_ENOMEM;
    attn_status status = decoder_back(w, dlogits, dmemory, &dlast, err);
    if (!status && attn_models_attends(m))
        status = look_back(w, half, &m->encoder_attention, &m->encoder_norm, dmemory, dstates,
                           dstates, err);
    if (status)
        return status;
    status = attn_lstm_backward(dembedded, NULL, dstates, dlast.h ? &dlast : NULL, &m->encoder_lstm,
                                &half->lstm, &w->pass, err);
    if (!status)
        embed_back(w, half, dembedded, &m->source);
    return status;
}
