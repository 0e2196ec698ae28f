/* The operations of blocks: LSTMs, attention, feed-forward and layer norm, each with its forward
 * and backward pass and, where needed, a cache for searches. */
#include <string.h>

#include "base/try.h"
#include "kernels/pointwise.h"
#include "models/model_private.h"

/* The score form of cross-attention for each kind of attention of a configuration. Kinds that are
 * not listed have ATTN_SCORE_scaled_dot, which is 0. */
static const attn_score_kind score_kinds[ATTN_MODEL_ATTENTIONS] = {
    [ATTN_MODEL_DOT] = ATTN_SCORE_dot,
    [ATTN_MODEL_ADDITIVE] = ATTN_SCORE_additive,
    [ATTN_MODEL_GENERAL] = ATTN_SCORE_general,
    [ATTN_MODEL_CONCAT] = ATTN_SCORE_concat,
};

attn_position_kind attn_models_relative(const attn_model_config *c) {
    static const attn_position_kind kinds[ATTN_MODEL_POSITIONS] = {
        [ATTN_MODEL_RELATIVE] = ATTN_POSITION_RELATIVE,
        [ATTN_MODEL_SHAW] = ATTN_POSITION_SHAW,
        [ATTN_MODEL_ALIBI] = ATTN_POSITION_ALIBI,
        [ATTN_MODEL_ROTARY] = ATTN_POSITION_ROTARY,
        [ATTN_MODEL_T5] = ATTN_POSITION_T5,
    };
    return kinds[c->positions];
}

attn_position attn_models_rotary(const attn_model_config *c, bool local) {
    static const attn_scaling_kind kinds[] = {[ATTN_MODEL_LINEAR] = ATTN_SCALING_LINEAR,
                                              [ATTN_MODEL_DYNAMIC] = ATTN_SCALING_DYNAMIC,
                                              [ATTN_MODEL_YARN] = ATTN_SCALING_YARN,
                                              [ATTN_MODEL_LLAMA3] = ATTN_SCALING_LLAMA3,
                                              [ATTN_MODEL_LONGROPE] = ATTN_SCALING_LONGROPE};
    attn_position p = {.base = local ? c->local_rotary_base : c->rotary_base,
                       .dims = (int64_t)c->rotary_dims,
                       .rotary = c->rotary_pairs == ATTN_MODEL_INTERLEAVED ? ATTN_ROTARY_INTERLEAVED
                                                                           : ATTN_ROTARY_HALVES};
    p.scaling = (attn_rotary_scaling){.kind = kinds[c->rotary_scaling],
                                      .factor = c->rotary_factor,
                                      .original_max_position_embeddings =
                                          (int64_t)c->rotary_original_length,
                                      .beta_fast = c->rotary_beta_fast,
                                      .beta_slow = c->rotary_beta_slow,
                                      .mscale = c->rotary_mscale,
                                      .mscale_all_dim = c->rotary_mscale_all_dim,
                                      .rounded_off = c->rotary_unrounded,
                                      .low_freq_factor = c->rotary_low_freq_factor,
                                      .high_freq_factor = c->rotary_high_freq_factor,
                                      .attention_factor = c->rotary_attention_factor};
    if (local && p.scaling.kind && !c->local_scaling)
        p.scaling = (attn_rotary_scaling){.kind = ATTN_SCALING_LINEAR};
    return p;
}

bool attn_model_pattern(const attn_model_config *c, attn_pattern *out) {
    const int64_t radius = (int64_t)c->radius;
    switch (c->attention) {
    case ATTN_MODEL_LOCAL:
        *out = (attn_pattern){.kind = ATTN_PATTERN_LOCAL, .radius = radius};
        return true;
    case ATTN_MODEL_STRIDED:
        *out = (attn_pattern){
            .kind = ATTN_PATTERN_STRIDED, .stride = (int64_t)c->stride, .local = radius};
        return true;
    case ATTN_MODEL_BLOCK:
        *out = (attn_pattern){.kind = ATTN_PATTERN_BLOCK, .size = (int64_t)c->block_size};
        return true;
    case ATTN_MODEL_GLOBAL:
        *out = (attn_pattern){
            .kind = ATTN_PATTERN_GLOBAL, .num_keys = (int64_t)c->num_global_keys, .local = radius};
        return true;
    default:
        return false;
    }
}

attn_attend attn_models_attend(const attn_model_config *c, bool across) {
    const attn_score_kind kind = across ? score_kinds[c->attention] : ATTN_SCORE_scaled_dot;
    attn_attend a = {.kind = kind,
                     .width = c->width,
                     .heads = kind == ATTN_SCORE_scaled_dot ? c->num_heads : 1,
                     .kv_heads = kind == ATTN_SCORE_scaled_dot ? c->num_kv_heads : 0,
                     .head_width = c->head_width,
                     .scale = c->score_scale,
                     .softcap = c->score_softcap,
                     .unbiased = !attn_models_has_bias(c->qkv_bias, c->bias),
                     .output_unbiased = !attn_models_has_bias(c->output_bias, c->bias),
                     .score_width = c->width,
                     .max_distance = c->reach,
                     .dropout = c->attention_dropout_p};
    a.has_pattern = attn_model_pattern(c, &a.pattern);
    return a;
}

bool attn_models_may_be_lean(const attn_model *model) {
    return score_kinds[model->config.attention] == ATTN_SCORE_scaled_dot;
}

/* If the walk has interventions or activations, sets sight->heads to the function that receives the
 * outputs of the heads of a block. `seen` must live as long as the sight. */
static void show_heads(attn_attend_sight *sight, model_heads *seen, const model_walk *w,
                       const model_half *half, const model_block *block) {
    *seen = (model_heads){w, half, block};
    if (!w->intervention_count && !w->activations)
        return;
    sight->heads = attn_models_see_heads;
    sight->ctx = seen;
}

/* --- self-attention --- */

static attn_status self_forward(float *out, const float *x, model_walk *w, model_half *half,
                                const model_block *block, model_trace *t, attn_error *err) {
    attn_attend_sight sight = {.lengths = half->lengths, .keep = half->keep};
    model_heads seen;
    show_heads(&sight, &seen, w, half, block);
    return attn_attend_forward(out, x, x, half->B, half->T, half->T, &sight, half->want_weights,
                               &block->attend, &t->attend, &w->pass, err);
}

static attn_status self_backward(float *dx, const float *dout, model_walk *w, model_half *half,
                                 const model_block *block, model_trace *t, attn_error *err) {
    (void)half;
    return attn_attend_backward(dx, dx, dout, &block->attend, &t->attend, &w->pass, err);
}

static void self_cost(const model_block *block, const model_extent *e, attn_layer_cost *cost) {
    attn_attend_cost(&block->attend, e->B, e->T, e->earlier + e->T, &e->use, cost);
}

const model_operation attn_models_self = {.forward = self_forward,
                                          .backward = self_backward,
                                          .cost = self_cost,
                                          .has_site = true,
                                          .site = ATTN_SITE_ENCODER,
                                          .step = ATTN_STATE_SELF_ATTENTION_SUM,
                                          .norm_step = ATTN_STATE_SELF_ATTENTION_NORM};

/* --- causal self-attention --- */

/* Computes causal self-attention. In a search, the keys and values of x are appended to the
 * cache. */
static attn_status causal_forward(float *out, const float *x, model_walk *w, model_half *half,
                                  const model_block *block, model_trace *t, attn_error *err) {
    if (!half->caches)
        return self_forward(out, x, w, half, block, t, err);
    model_cache *cache = &half->caches[block - half->stack->blocks];
    const attn_status status =
        attn_attend_append(&cache->seen, x, half->T, half->first, &block->attend, &w->pass, err);
    attn_attend_sight sight = {.first = half->first, .ready = &cache->seen};
    model_heads seen;
    show_heads(&sight, &seen, w, half, block);
    return status
               ? status
               : attn_attend_forward(out, x, x, half->B, half->T, half->first + half->T, &sight,
                                     half->want_weights, &block->attend, &t->attend, &w->pass, err);
}

static attn_status causal_start(model_walk *w, const model_block *block, const model_rows *r,
                                model_cache *cache, attn_error *err) {
    const size_t n = r->rows * r->most, D = attn_attend_key_width(&block->attend);
    cache->seen = (attn_attend_saved){.B = r->rows, .step = r->most};
    cache->seen.k = attn_layers_take(&w->pass, n, D, err);
    cache->seen.v = attn_layers_take(&w->pass, n, D, err);
    cache->spare = r->beams > 1 ? attn_layers_take(&w->pass, n, D, err) : NULL;
    return cache->seen.k && cache->seen.v && (r->beams == 1 || cache->spare) ? ATTN_OK
                                                                             : ATTN_ENOMEM;
}

/* Reorders `rows`, the keys or values [rows, most, D] of a search: copies the first `steps` tokens
 * of row parents[i] to row i of the second buffer (cache->spare). Returns this buffer; `rows` is
 * the second buffer afterwards. */
static const float *reorder(const float *rows, const model_rows *r, size_t D, const size_t *parents,
                            size_t steps, model_cache *cache) {
    float *to = cache->spare;
    for (size_t i = 0; i < r->rows; i++)
        memcpy(to + i * r->most * D, rows + parents[i] * r->most * D, steps * D * sizeof *to);
    cache->spare = (float *)(uintptr_t)rows;
    return to;
}

static void causal_follow(const model_walk *w, const model_block *block, const model_rows *r,
                          const size_t *parents, size_t steps, model_cache *cache) {
    (void)w;
    const size_t D = attn_attend_key_width(&block->attend);
    if (r->beams == 1)
        return;
    cache->seen.k = reorder(cache->seen.k, r, D, parents, steps, cache);
    cache->seen.v = reorder(cache->seen.v, r, D, parents, steps, cache);
}

/* Adds the cost of causal self-attention. In a search, self_cost counts no keys and values, so the
 * keys and values of the new tokens are counted here. */
static void causal_cost(const model_block *block, const model_extent *e, attn_layer_cost *cost) {
    self_cost(block, e, cost);
    if (e->use.ready)
        attn_attend_ready_cost(&block->attend, e->B, e->T, cost);
}

static void causal_start_cost(const model_block *block, const model_rows *r, size_t S,
                              attn_layer_cost *cost) {
    const double D = (double)attn_attend_key_width(&block->attend);
    (void)S;
    for (int i = 0; i < 2 + (r->beams > 1); i++)
        attn_cost_floats(cost, (double)r->rows * (double)r->most * D);
}

const model_operation attn_models_causal = {.forward = causal_forward,
                                            .backward = self_backward,
                                            .cost = causal_cost,
                                            .start = causal_start,
                                            .start_cost = causal_start_cost,
                                            .follow = causal_follow,
                                            .has_site = true,
                                            .site = ATTN_SITE_DECODER,
                                            .step = ATTN_STATE_SELF_ATTENTION_SUM,
                                            .norm_step = ATTN_STATE_SELF_ATTENTION_NORM};

/* --- cross-attention --- */

static attn_status cross_forward(float *out, const float *x, model_walk *w, model_half *half,
                                 const model_block *block, model_trace *t, attn_error *err) {
    const attn_attend_saved *ready =
        half->caches ? &half->caches[block - half->stack->blocks].seen : NULL;
    attn_attend_sight sight = {.lengths = half->memory_lengths,
                               .keep = half->memory_keep,
                               .first = half->first,
                               .ready = ready};
    model_heads seen;
    show_heads(&sight, &seen, w, half, block);
    return attn_attend_forward(out, x, ready ? ready->memory : half->memory, half->B, half->T,
                               half->S, &sight, half->want_weights, &block->attend, &t->attend,
                               &w->pass, err);
}

static attn_status cross_backward(float *dx, const float *dout, model_walk *w, model_half *half,
                                  const model_block *block, model_trace *t, attn_error *err) {
    const attn_status status =
        attn_attend_backward(dx, half->dmemory, dout, &block->attend, &t->attend, &w->pass, err);
    return status || !t->dweights
               ? status
               : attn_attend_weights_backward(dx, half->dmemory, t->dweights, &block->attend,
                                              &t->attend, &w->pass, err);
}

/* Returns an array [rows, n] that repeats each row of x [B, n] for each beam. With one beam it is
 * x. NULL: out of memory. */
static const float *spread(model_walk *w, const model_rows *r, const float *x, size_t n,
                           attn_error *err) {
    if (r->beams == 1)
        return x;
    float *all = attn_layers_take(&w->pass, r->rows, n, err);
    for (size_t i = 0; all && i < r->rows; i++)
        memcpy(all + i * n, x + i / r->beams * n, n * sizeof *x);
    return all;
}

/* Stores the keys and values of all steps of a search: for scaled_dot the projections of the
 * encoder's outputs, for other kinds the outputs themselves. */
static attn_status cross_start(model_walk *w, const model_block *block, const model_rows *r,
                               model_cache *cache, attn_error *err) {
    const float *memory = w->encoder.out;
    const size_t S = w->encoder.T, n = S * attn_attend_key_width(&block->attend);
    attn_attend_saved *seen = &cache->seen;
    ATTN_TRY(attn_attend_ready(memory, r->rows / r->beams, S, &block->attend, seen, &w->pass, err));
    const bool projected = seen->k != memory;
    seen->memory = projected ? memory : spread(w, r, memory, n, err);
    seen->k = projected ? spread(w, r, seen->k, n, err) : seen->memory;
    seen->v = projected ? spread(w, r, seen->v, n, err) : seen->memory;
    return seen->memory && seen->k && seen->v ? ATTN_OK : ATTN_ENOMEM;
}

static void cross_cost(const model_block *block, const model_extent *e, attn_layer_cost *cost) {
    attn_attend_cost(&block->attend, e->B, e->T, e->S, &e->use, cost);
}

static void cross_start_cost(const model_block *block, const model_rows *r, size_t S,
                             attn_layer_cost *cost) {
    const double D = (double)attn_attend_key_width(&block->attend);
    attn_attend_ready_cost(&block->attend, r->rows / r->beams, S, cost);
    for (int i = 0; i < 2 && r->beams > 1; i++)
        attn_cost_floats(cost, (double)r->rows * (double)S * D);
}

const model_operation attn_models_cross = {.forward = cross_forward,
                                           .backward = cross_backward,
                                           .cost = cross_cost,
                                           .start = cross_start,
                                           .start_cost = cross_start_cost,
                                           .has_site = true,
                                           .site = ATTN_SITE_CROSS,
                                           .step = ATTN_STATE_CROSS_ATTENTION_SUM,
                                           .norm_step = ATTN_STATE_CROSS_ATTENTION_NORM};

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
                             w->model->reads_padding ? NULL : half->lengths,
                             cache ? &cache->panels : NULL, half->B, half->T, &block->lstm,
                             &t->lstm, &w->pass, err);
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
    return attn_lstm_pack(&cache->panels, r->rows, &block->lstm, &w->pass, err);
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

static void lstm_cost(const model_block *block, const model_extent *e, attn_layer_cost *cost) {
    attn_lstm_cost(&block->lstm, e->B, e->T, &e->use, cost);
}

static void lstm_start_cost(const model_block *block, const model_rows *r, size_t S,
                            attn_layer_cost *cost) {
    (void)S;
    for (int i = 0; i < 4; i++)
        attn_cost_floats(cost, (double)(block->lstm.layers * r->rows * block->lstm.hidden));
    attn_lstm_pack_cost(&block->lstm, r->rows, cost);
}

const model_operation attn_models_lstm = {.forward = lstm_forward,
                                          .backward = lstm_backward,
                                          .cost = lstm_cost,
                                          .start = lstm_start,
                                          .start_cost = lstm_start_cost,
                                          .follow = lstm_follow,
                                          .step = ATTN_STATE_LSTM};

/* --- feed-forward --- */

/* Returns whether model_trace.hidden is a separate array, which backward needs. */
static bool keeps_hidden(const model_feed *feed) {
    return feed->gated || feed->activation != ATTN_RELU;
}

/* Rows of the hidden layer that a lean pass computes at a time. The last part has more than FEED_REST
 * rows, so that kernels for few rows never compute a part of many. */
enum { FEED_ROWS = 512, FEED_REST = 128 };

/* Returns the most rows of a part of n rows. */
static size_t feed_most(size_t n, bool lean) {
    return lean && n > FEED_ROWS + FEED_REST ? FEED_ROWS + FEED_REST : n;
}

static attn_status take_hidden(model_walk *w, const model_feed *feed, size_t n, model_trace *t,
                               attn_error *err) {
    const size_t F = feed->linear1.out;
    const bool keeps = keeps_hidden(feed);
    t->active = attn_layers_take(&w->pass, n, F, err);
    t->hidden = keeps ? attn_layers_take(&w->pass, n, F, err) : t->active;
    t->factor = feed->gated ? attn_layers_take(&w->pass, n, F, err) : NULL;
    return t->active && t->hidden && (t->factor || !feed->gated) ? ATTN_OK : ATTN_ENOMEM;
}

/* Computes n rows of out. `first` is the index of the first number of the hidden layer. */
static void feed_part(float *out, const float *x, size_t n, size_t first, const model_walk *w,
                      const model_feed *feed, const model_trace *t) {
    const size_t F = feed->linear1.out;
    attn_linear_forward(t->hidden, x, n, feed->gated ? &feed->gate : &feed->linear1);
    attn_activation_forward(t->active, t->hidden, n * F, feed->activation);
    if (feed->gated) {
        attn_linear_forward(t->factor, x, n, &feed->linear1);
        attn_pointwise_current()->multiply(t->active, t->factor, n * F);
    }
    attn_dropout(t->active, n * F, first, attn_dropout_of(&w->pass, feed->dropout), t->feed_seed);
    attn_linear_forward(out, t->active, n, &feed->linear2);
}

static attn_status feed_forward(float *out, const float *x, model_walk *w, model_half *half,
                                const model_block *block, model_trace *t, attn_error *err) {
    const model_feed *feed = &block->feed;
    const size_t n = half->B * half->T, in = feed->linear1.in, F = feed->linear1.out;
    const attn_arena_mark mark = attn_arena_here(w->pass.arena);
    const size_t most = feed_most(n, w->pass.lean);
    t->feed_seed = attn_dropout_seed(&w->pass);
    if (take_hidden(w, feed, most, t, err))
        return ATTN_ENOMEM;
    for (size_t r = 0, part; r < n; r += part) {
        part = n - r > most ? FEED_ROWS : n - r;
        feed_part(out + r * feed->linear2.out, x + r * in, part, r * F, w, feed, t);
    }
    if (w->pass.lean)
        attn_arena_rewind(w->pass.arena, &mark);
    return ATTN_OK;
}

/* Runs the backward pass of the product in a gated hidden layer, activation(hidden) * factor with
 * factor = linear1(x). dactive is the gradient of the product, and is overwritten with the gradient
 * of activation(hidden). The gradient of x through `factor` is added to dx. */
static attn_status factor_back(float *dx, float *dactive, const float *x, size_t n, model_walk *w,
                               const model_feed *feed, const model_trace *t, attn_error *err) {
    const size_t F = feed->linear1.out;
    float *dfactor = attn_layers_take(&w->pass, n, F, err);
    if (!dfactor)
        return ATTN_ENOMEM;
    attn_activation_forward(dfactor, t->hidden, n * F, feed->activation);
    attn_pointwise_current()->multiply(dfactor, dactive, n * F);
    attn_pointwise_current()->multiply(dactive, t->factor, n * F);
    attn_linear_backward(dx, dfactor, x, n, &feed->linear1);
    return ATTN_OK;
}

static attn_status feed_backward(float *dx, const float *dout, model_walk *w, model_half *half,
                                 const model_block *block, model_trace *t, attn_error *err) {
    const model_feed *feed = &block->feed;
    const size_t n = half->B * half->T, F = feed->linear1.out;
    const float *x = t->inner ? t->inner : t->x;
    float *dactive = attn_layers_zeroed(&w->pass, n, F, err);
    float *dhidden = attn_layers_zeroed(&w->pass, n, F, err);
    if (!dactive || !dhidden)
        return ATTN_ENOMEM;
    attn_linear_backward(dactive, dout, t->active, n, &feed->linear2);
    attn_dropout(dactive, n * F, 0, attn_dropout_of(&w->pass, feed->dropout), t->feed_seed);
    if (feed->gated && factor_back(dx, dactive, x, n, w, feed, t, err))
        return ATTN_ENOMEM;
    attn_activation_backward(dhidden, dactive, t->hidden, n * F, feed->activation);
    attn_linear_backward(dx, dhidden, x, n, feed->gated ? &feed->gate : &feed->linear1);
    return ATTN_OK;
}

static void feed_cost(const model_block *block, const model_extent *e, attn_layer_cost *cost) {
    const model_feed *feed = &block->feed;
    const double n = (double)e->B * (double)e->T;
    const int forward = 1 + keeps_hidden(feed) + feed->gated, backward = 2 + feed->gated;
    attn_layer_cost taken = {0};
    const double rows = (double)feed_most(e->B * e->T, e->use.lean);
    for (int i = 0; i < forward + (e->use.training ? backward : 0); i++)
        attn_cost_floats(&taken, rows * (double)feed->linear1.out);
    *(e->use.lean ? &cost->passing : &cost->bytes) += taken.bytes;
    for (int i = 0; i < 1 + feed->gated; i++)
        attn_linear_cost(&feed->linear1, n, e->use.training, cost);
    attn_linear_cost(&feed->linear2, n, e->use.training, cost);
}

const model_operation attn_models_feed = {.forward = feed_forward,
                                          .backward = feed_backward,
                                          .cost = feed_cost,
                                          .step = ATTN_STATE_FEED_FORWARD_SUM,
                                          .norm_step = ATTN_STATE_FEED_FORWARD_NORM};

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

const model_operation attn_models_norm = {
    .forward = norm_forward, .backward = norm_backward, .step = ATTN_STATE_NORM};
