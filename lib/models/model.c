/* Makes models and runs passes over whole batches. A model owns its parameters and its table of
 * sinusoidal positions. All other memory of a pass comes from the caller's arena. */
#include <math.h>

#include "attention/encodings.h"
#include "base/try.h"
#include "models/model_private.h"

static bool (*const declare[])(attn_model *) = {
    [ATTN_MODEL_SEQ2SEQ] = attn_models_declare_seq2seq,
    [ATTN_MODEL_TRANSFORMER] = attn_models_declare_transformer,
    [ATTN_MODEL_ENCODER] = attn_models_declare_encoder,
    [ATTN_MODEL_DECODER] = attn_models_declare_decoder,
};

static attn_status make_sinusoids(attn_model *m, attn_error *err) {
    const size_t length = m->config.max_length, D = m->config.width;
    double row[MODEL_WIDTH_MOST];
    m->sinusoids = attn_alloc(length * D * sizeof *m->sinusoids);
    ATTN_TAKEN(m->sinusoids, "the positions of a model", err);
    for (size_t t = 0; t < length; t++) {
        attn_sinusoidal_row(row, (double)t, D,
                            m->config.sinusoid_halves ? ATTN_ENCODING_HALVES
                                                      : ATTN_ENCODING_INTERLEAVED);
        for (size_t d = 0; d < D; d++)
            m->sinusoids[t * D + d] = (float)row[d];
    }
    return ATTN_OK;
}

attn_status attn_model_declare(const attn_model_config *config, attn_model **out, attn_error *err) {
    ATTN_TRY(attn_models_check_config(config, err));
    attn_model *m = attn_alloc(sizeof *m);
    ATTN_TAKEN(m, "a model", err);
    *m = (attn_model){
        .config = *config, .arena = attn_arena_new(SIZE_MAX), .set = attn_parameters_new()};
    if (!m->config.feed_forward)
        m->config.feed_forward = 4 * config->width;
    if (isnan(m->config.attention_dropout_p))
        m->config.attention_dropout_p = config->dropout_p;
    attn_status status = ATTN_OK;
    if (!m->arena || !m->set || !declare[config->architecture](m))
        status = attn_fail(err, ATTN_ENOMEM, "", "no memory for the blocks of a model");
    if (status || (status = attn_models_list_sites(m, err)) ||
        (status = attn_models_list_states(m, err))) {
        attn_model_free(m);
        return status;
    }
    *out = m;
    return ATTN_OK;
}

attn_status attn_models_complete(attn_model *m, attn_error *err) {
    attn_models_share_blocks(m);
    if (m->config.tied)
        m->head.projection.weight = attn_models_last(m)->embedding.tokens.weight;
    return m->config.positions == ATTN_MODEL_SINUSOIDAL ? make_sinusoids(m, err) : ATTN_OK;
}

/* Checks that a model of this configuration has a backward pass. */
static attn_status check_trainable(const attn_model_config *c, attn_error *err) {
    const char *where = c->norm >= ATTN_MODEL_NORM_AROUND          ? "norm"
                        : c->head >= ATTN_MODEL_MASKED             ? "head"
                        : c->rotary_scaling == ATTN_MODEL_LONGROPE ? "rotary_scaling"
                                                                   : NULL;
    for (const attn_model_setting *s = attn_model_settings; !where && s->name; s++)
        if (s->of == ATTN_OF_FIXED && attn_model_has_setting(c, s))
            where = s->name;
    return where ? attn_fail(err, ATTN_EARG, where,
                             "a model with this value of %s cannot be trained", where)
                 : ATTN_OK;
}

attn_status attn_model_new(const attn_model_config *config, uint64_t seed, bool gradients,
                           attn_model **out, attn_error *err) {
    attn_model *m;
    if (gradients)
        ATTN_TRY(check_trainable(config, err));
    ATTN_TRY(attn_model_declare(config, &m, err));
    attn_status status = attn_parameters_seal(m->set, gradients, err);
    if (!status)
        status = attn_models_complete(m, err);
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
    attn_arena_free(model->arena);
    attn_free(model->sinusoids);
    attn_free(model);
}

attn_status attn_model_bytes(const attn_model_config *config, bool gradients, size_t *out,
                             attn_error *err) {
    attn_model *m;
    size_t table = 0;
    if (gradients)
        ATTN_TRY(check_trainable(config, err));
    ATTN_TRY(attn_model_declare(config, &m, err));
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

attn_status attn_models_check_batch(const attn_model *m, const attn_batch *batch, attn_error *err) {
    const attn_status status = m->encoder.count ? attn_models_check_source(m, batch, err) : ATTN_OK;
    return status || !m->decoder.count
               ? status
               : attn_models_check_target(m, batch->target, batch->B, batch->T, "target", err);
}

attn_status attn_models_forward(model_walk *w, const attn_batch *batch, bool want_weights,
                                attn_error *err) {
    const attn_model *m = w->model;
    w->target_lengths = batch->target_lengths;
    if (m->encoder.count)
        ATTN_TRY(attn_models_encode(w, batch, want_weights, err));
    if (m->decoder.count)
        ATTN_TRY(attn_models_decode(w, batch, want_weights, err));
    return attn_models_head(w, err);
}

/* Sets the sites and states of *out for which `keep` has a bit (ATTN_KEEP_…). */
static attn_status keep_lists(const model_walk *w, unsigned keep, attn_model_outputs *out,
                              attn_error *err) {
    if (keep & (ATTN_KEEP_WEIGHTS | ATTN_KEEP_INPUTS | ATTN_KEEP_OPERATIONS)) {
        if (!(out->sites = attn_models_sites_of(w, err)))
            return ATTN_ENOMEM;
        out->site_count = w->model->site_count;
    }
    if (keep & ATTN_KEEP_STATES) {
        if (!(out->states = attn_models_states_of(w, err)))
            return ATTN_ENOMEM;
        out->state_count = w->model->state_count;
    }
    return keep & ATTN_KEEP_INPUTS ? attn_models_site_inputs(w, out->sites, err) : ATTN_OK;
}

static attn_tensor logits_of(model_walk *w) {
    const model_half *half = attn_models_last_half(w);
    const size_t V = w->model->config.target_vocabulary;
    const size_t T = w->last_logits ? w->last_logits : half->T;
    if (!w->logits)
        return (attn_tensor){0};
    return w->pooled ? attn_tensor_dense(w->logits, ATTN_F32, 2, (size_t[2]){half->B, V})
                     : attn_tensor_dense(w->logits, ATTN_F32, 3, (size_t[3]){half->B, T, V});
}

attn_status attn_model_forward(const attn_model *model, const attn_batch *batch,
                               const attn_forward_options *options, attn_arena *arena,
                               attn_pool *pool, const attn_control *control,
                               attn_model_outputs *out, attn_error *err) {
    const unsigned keep = options->keep;
    model_walk w = {.model = model,
                    .pass = {.arena = arena,
                             .pool = pool,
                             .control = control,
                             .lean = !(keep & ATTN_KEEP_STATES) && attn_models_may_be_lean(model),
                             .dropout = options->dropout_p > 0 ? &options->dropout_p : NULL,
                             .seed = options->seed},
                    .keep_states = (keep & ATTN_KEEP_STATES) != 0,
                    .last_logits = options->last_logits,
                    .no_logits = options->no_logits,
                    .interventions = options->interventions,
                    .intervention_count = options->intervention_count};
    const size_t T = model->decoder.count ? batch->T : batch->S;
    if (w.last_logits > T)
        return attn_fail(err, ATTN_EVALUE, "last_logits", "expected 0 to %zu, found %zu", T,
                         w.last_logits);
    if (!(options->dropout_p >= 0 && options->dropout_p < 1))
        return attn_fail(err, ATTN_EVALUE, "dropout_p", "expected 0 <= dropout_p < 1");
    ATTN_TRY(attn_models_check_batch(model, batch, err));
    ATTN_TRY(
        attn_models_check_interventions(model, w.interventions, w.intervention_count, batch, err));
    ATTN_TRY(attn_models_take_activations(&w, batch, options, err));
    ATTN_TRY(attn_models_forward(&w, batch, (keep & ATTN_KEEP_WEIGHTS) != 0, err));
    *out = (attn_model_outputs){.logits = logits_of(&w), .activations = w.activations};
    if (model->encoder.count)
        out->encoder = attn_tensor_dense((void *)(uintptr_t)w.encoder.out, ATTN_F32, 3,
                                         (size_t[3]){batch->B, batch->S, model->config.width});
    return keep_lists(&w, keep, out, err);
}
