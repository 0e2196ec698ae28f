/* Making a model, and its passes over whole batches. A model owns its parameters and, with
 * sinusoidal positions, their table; everything else of a pass lives in the caller's arena. */
#include <math.h>
#include <string.h>

#include "attn/positions.h"
#include "models/model_private.h"

bool attn_models_attends(const attn_model *model) {
    return model->config.attention != ATTN_MODEL_NONE;
}

static attn_attend_kind kind_of(attn_model_attention attention) {
    switch (attention) {
    case ATTN_MODEL_DOT:
        return ATTN_ATTEND_DOT;
    case ATTN_MODEL_ADDITIVE:
        return ATTN_ATTEND_ADDITIVE;
    case ATTN_MODEL_GENERAL:
        return ATTN_ATTEND_GENERAL;
    case ATTN_MODEL_CONCAT:
        return ATTN_ATTEND_CONCAT;
    default:
        return ATTN_ATTEND_MULTIHEAD;
    }
}

static attn_attend_position position_of(attn_model_positions positions) {
    switch (positions) {
    case ATTN_MODEL_RELATIVE:
        return ATTN_ATTEND_RELATIVE;
    case ATTN_MODEL_SHAW:
        return ATTN_ATTEND_SHAW;
    case ATTN_MODEL_ALIBI:
        return ATTN_ATTEND_ALIBI;
    default:
        return ATTN_ATTEND_PLAIN;
    }
}

static attn_attend attend_of(const attn_model_config *c, attn_attend_kind kind) {
    attn_attend a = {.kind = kind,
                     .width = c->width,
                     .heads = kind == ATTN_ATTEND_MULTIHEAD ? c->heads : 1,
                     .score_width = c->width,
                     .reach = c->reach,
                     .dropout = kind == ATTN_ATTEND_MULTIHEAD ? c->dropout : 0};
    a.has_pattern = c->attention == ATTN_MODEL_LOCAL || c->attention == ATTN_MODEL_STRIDED;
    if (c->attention == ATTN_MODEL_LOCAL)
        a.pattern = (attn_pattern){.kind = ATTN_PATTERN_LOCAL, .radius = (int64_t)c->radius};
    if (c->attention == ATTN_MODEL_STRIDED)
        a.pattern = (attn_pattern){.kind = ATTN_PATTERN_STRIDED,
                                   .stride = (int64_t)c->stride,
                                   .local = (int64_t)c->radius};
    return a;
}

/* In the order and under the names of the textbook's state dict. */
static void declare(attn_model *m) {
    const attn_model_config *c = &m->config;
    const size_t D = c->width;
    const float scale = (float)sqrt((double)D);
    attn_embedding_declare(&m->source, m->set, "src_embedding", c->source_vocabulary, D, scale, -1);
    attn_embedding_declare(&m->target, m->set, "tgt_embedding", c->target_vocabulary, D, scale, -1);
    if (c->positions == ATTN_MODEL_LEARNED)
        attn_positions_declare(&m->positions, m->set, "pos_encoding.position_embeddings",
                               c->max_length, D);
    attn_lstm_declare(&m->encoder_lstm, m->set, "encoder_lstm", D, D / 2, c->layers, true,
                      c->dropout);
    if (attn_models_attends(m)) {
        m->encoder_attention = attend_of(c, ATTN_ATTEND_MULTIHEAD);
        m->encoder_attention.position = position_of(c->positions);
        attn_attend_declare(&m->encoder_attention, m->set, "encoder_attention");
        attn_norm_declare(&m->encoder_norm, m->set, "encoder_norm", D);
    }
    attn_lstm_declare(&m->decoder_lstm, m->set, "decoder_lstm", D, D, c->layers, false, c->dropout);
    if (attn_models_attends(m)) {
        m->cross_attention = attend_of(c, kind_of(c->attention));
        attn_attend_declare(&m->cross_attention, m->set, "cross_attention");
    }
    attn_norm_declare(&m->cross_norm, m->set, "cross_norm", D);
    attn_linear_declare(&m->projection, m->set, "output_projection", D, c->target_vocabulary, true);
}

static attn_status make_sinusoids(attn_model *m, attn_error *err) {
    const size_t length = m->config.max_length, D = m->config.width;
    double row[MODEL_WIDTH_MOST];
    m->sinusoids = attn_alloc(length * D * sizeof *m->sinusoids);
    if (!m->sinusoids)
        return attn_fail(err, ATTN_ENOMEM, "max_length", "no memory for %zu positions", length);
    for (size_t t = 0; t < length; t++) {
        attn_sinusoidal_row(row, (double)t, D, ATTN_ENCODING_INTERLEAVED);
        for (size_t d = 0; d < D; d++)
            m->sinusoids[t * D + d] = (float)row[d];
    }
    return ATTN_OK;
}

/* A model whose parameters are declared, without memory for them. */
static attn_status declare_model(const attn_model_config *config, attn_model **out,
                                 attn_error *err) {
    attn_status status = attn_models_check_config(config, err);
    if (status)
        return status;
    attn_model *m = attn_alloc(sizeof *m);
    attn_parameters *set = attn_parameters_new();
    if (!m || !set) {
        attn_free(m);
        attn_parameters_free(set);
        return attn_fail(err, ATTN_ENOMEM, "", "out of memory");
    }
    memset(m, 0, sizeof *m);
    m->config = *config;
    m->set = set;
    declare(m);
    *out = m;
    return ATTN_OK;
}

attn_status attn_model_new(const attn_model_config *config, uint64_t seed, bool gradients,
                           attn_model **out, attn_error *err) {
    attn_model *m;
    attn_status status = declare_model(config, &m, err);
    if (status)
        return status;
    status = attn_parameters_seal(m->set, gradients, err);
    if (!status && config->positions == ATTN_MODEL_SINUSOIDAL)
        status = make_sinusoids(m, err);
    if (status) {
        attn_model_free(m);
        return status;
    }
    attn_parameters_init(m->set, seed);
    *out = m;
    return ATTN_OK;
}

void attn_model_free(attn_model *model) {
    if (!model)
        return;
    attn_parameters_free(model->set);
    attn_free(model->sinusoids);
    attn_free(model);
}

attn_status attn_model_bytes(const attn_model_config *config, bool gradients, size_t *out,
                             attn_error *err) {
    attn_model *m;
    size_t table = 0;
    const attn_status status = declare_model(config, &m, err);
    if (status)
        return status;
    if (config->positions == ATTN_MODEL_SINUSOIDAL)
        table = config->max_length * config->width * sizeof(float);
    *out = attn_parameters_size(m->set) * (gradients ? 2 : 1) * sizeof(float) + table;
    attn_model_free(m);
    return ATTN_OK;
}

const attn_model_config *attn_model_configuration(const attn_model *model) {
    return &model->config;
}
attn_parameters *attn_model_parameters(attn_model *model) {
    return model->set;
}

attn_status attn_model_load(attn_model *model, size_t count, const char *const *names,
                            const attn_tensor *tensors, attn_error *err) {
    static const char *const buffers[] = {"pos_encoding.pe", NULL};
    return attn_parameters_load(model->set, count, names, tensors, buffers, err);
}

static attn_status check_batch(const attn_model *m, const attn_batch *batch, attn_error *err) {
    const attn_status status =
        attn_models_check_source(m, batch->source, batch->source_lengths, batch->B, batch->S, err);
    return status ? status
                  : attn_models_check_target(m, batch->target, batch->B, batch->T, "target", err);
}

static attn_status walk_forward(model_walk *w, const attn_batch *batch, bool want_weights,
                                attn_error *err) {
    const attn_status status = attn_models_encode(w, batch->source, batch->source_lengths, batch->B,
                                                  batch->S, want_weights, err);
    if (status)
        return status;
    const model_decoding from = {.memory = w->encoder.out,
                                 .S = batch->S,
                                 .initial = w->handed.h ? &w->handed : NULL,
                                 .want_weights = want_weights};
    return attn_models_decode(w, batch->target, batch->B, batch->T, 0, &from, err);
}

static void add_site(attn_model_outputs *out, attn_site_kind kind, const attn_attend_saved *s,
                     size_t heads) {
    const size_t dims[4] = {s->B, heads, s->L, s->S};
    out->sites[out->site_count++] = (attn_site){
        .kind = kind, .weights = attn_tensor_dense(s->results.weights.data, ATTN_F32, 4, dims)};
}

attn_status attn_model_forward(const attn_model *model, const attn_batch *batch, bool want_weights,
                               attn_arena *arena, attn_pool *pool, const attn_control *control,
                               attn_model_outputs *out, attn_error *err) {
    model_walk w = {.model = model, .pass = {.arena = arena, .pool = pool, .control = control}};
    attn_status status = check_batch(model, batch, err);
    if (status || (status = walk_forward(&w, batch, want_weights, err)))
        return status;
    const size_t dims[3] = {batch->B, batch->T, model->config.target_vocabulary};
    *out = (attn_model_outputs){.logits = attn_tensor_dense(w.logits, ATTN_F32, 3, dims)};
    if (want_weights && attn_models_attends(model)) {
        add_site(out, ATTN_SITE_ENCODER, &w.encoder.attend, model->encoder_attention.heads);
        add_site(out, ATTN_SITE_CROSS, &w.decoder.attend, model->cross_attention.heads);
    }
    return ATTN_OK;
}

attn_status attn_model_step(attn_model *model, const attn_batch *batch,
                            const attn_step_options *options, attn_arena *arena, attn_pool *pool,
                            const attn_control *control, attn_cross_entropy_loss *loss,
                            attn_error *err) {
    model_walk w = {.model = model,
                    .pass = {.arena = arena,
                             .pool = pool,
                             .control = control,
                             .training = true,
                             .seed = options->seed}};
    attn_status status = check_batch(model, batch, err);
    if (!status)
        status =
            attn_models_check_target(model, batch->expected, batch->B, batch->T, "expected", err);
    if (status || (status = walk_forward(&w, batch, false, err)))
        return status;
    const attn_cross_entropy_loss found =
        attn_cross_entropy(w.logits, w.logits, batch->expected, batch->B * batch->T,
                           model->config.target_vocabulary, model->config.pad, options->smoothing);
    if (!isfinite(found.loss))
        return attn_fail(err, ATTN_ENONFINITE, "loss", "the loss is not finite");
    if ((status = attn_models_backward(&w, w.logits, err)))
        return status;
    *loss = found;
    return ATTN_OK;
}
