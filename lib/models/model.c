/* Makes models and runs passes over whole batches. A model owns its parameters and its table of
 * sinusoidal positions. All other memory of a pass comes from the caller's arena. */
#include <math.h>
#include <string.h>

#include "attn/positions.h"
#include "models/model_private.h"

static void (*const declare[])(attn_model *) = {
    [ATTN_MODEL_SEQ2SEQ] = attn_models_declare_seq2seq,
    [ATTN_MODEL_TRANSFORMER] = attn_models_declare_transformer,
};

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

/* Makes a model and declares its parameters, but allocates no values for them. */
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
    if (!m->config.feed_forward)
        m->config.feed_forward = 4 * config->width;
    if (m->config.attention_dropout_p < 0)
        m->config.attention_dropout_p = config->dropout_p;
    m->set = set;
    declare[config->architecture](m);
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

static attn_status check_batch(const attn_model *m, const attn_batch *batch, attn_error *err) {
    attn_status status =
        attn_models_check_source(m, batch->source, batch->source_lengths, batch->B, batch->S, err);
    if (!status)
        status = attn_models_check_keep(batch->source_keep, batch->B, batch->S, err);
    return status ? status
                  : attn_models_check_target(m, batch->target, batch->B, batch->T, "target", err);
}

static attn_status walk_forward(model_walk *w, const attn_batch *batch, bool want_weights,
                                attn_error *err) {
    const attn_status status =
        attn_models_encode(w, batch->source, batch->source_lengths, batch->source_keep, batch->B,
                           batch->S, want_weights, err);
    if (status)
        return status;
    return attn_models_decode(w, batch->target, batch->T, want_weights, err);
}

/* Sets query, key and value of the sites, which are `kind` in the stack and were listed in this
 * order. */
static attn_status keep_inputs(const model_walk *w, const model_half *half, attn_site_kind kind,
                               attn_site *sites, size_t count, attn_error *err) {
    attn_status status = ATTN_OK;
    size_t at = 0;
    while (at < count && sites[at].kind != kind)
        at++;
    for (size_t i = 0; !status && i < half->stack->count; i++) {
        const model_operation *o = half->stack->blocks[i].operation;
        if (!o->has_site || o->site != kind)
            continue;
        attn_site *site = &sites[at++];
        attn_tensor *all[3] = {&site->query, &site->key, &site->value};
        status = attn_attention_operands(half->traces[i].attend.operation, w->pass.arena,
                                         &site->query, &site->key, &site->value, err);
        for (int k = 0; !status && k < 3; k++) /* a single head has no axis */
            *all[k] =
                attn_tensor_dense(all[k]->data, ATTN_F32, 4,
                                  (size_t[4]){half->B, site->heads, all[k]->dims[all[k]->rank - 2],
                                              all[k]->dims[all[k]->rank - 1]});
    }
    return status;
}

/* Appends the attention sites of one kind in a stack to `sites`. If traces are given, the sites get
 * the weights and the operations of the pass. */
static void list_sites(const model_stack *stack, const model_trace *traces, attn_site_kind kind,
                       attn_site *sites, size_t *count) {
    size_t layer = 0;
    for (size_t i = 0; i < stack->count; i++) {
        const model_block *block = &stack->blocks[i];
        if (!block->operation->has_site || block->operation->site != kind)
            continue;
        attn_site *site = &sites[(*count)++];
        *site = (attn_site){.kind = kind, .layer = layer++, .heads = block->attend.heads};
        const attn_attend_saved *s = traces ? &traces[i].attend : NULL;
        site->operation = s ? s->operation : NULL;
        site->stats = s ? &s->results.stats : NULL;
        if (s && s->results.weights.rank)
            site->weights = attn_tensor_dense(s->results.weights.data, ATTN_F32, 4,
                                              (size_t[4]){s->B, site->heads, s->L, s->S});
    }
}

size_t attn_models_list_sites(const attn_model *m, const model_walk *w,
                              attn_site sites[ATTN_MODEL_SITES]) {
    size_t count = 0;
    const model_trace *encoder = w ? w->encoder.traces : NULL;
    const model_trace *decoder = w ? w->decoder.traces : NULL;
    list_sites(&m->encoder, encoder, ATTN_SITE_ENCODER, sites, &count);
    list_sites(&m->decoder, decoder, ATTN_SITE_DECODER, sites, &count);
    list_sites(&m->decoder, decoder, ATTN_SITE_CROSS, sites, &count);
    return count;
}

size_t attn_model_sites(const attn_model *model, attn_site sites[ATTN_MODEL_SITES]) {
    return attn_models_list_sites(model, NULL, sites);
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
                             .dropout = options->dropout_p > 0 ? &options->dropout_p : NULL,
                             .seed = options->seed},
                    .keep_states = (keep & ATTN_KEEP_STATES) != 0};
    if (!(options->dropout_p >= 0 && options->dropout_p < 1))
        return attn_fail(err, ATTN_EVALUE, "dropout_p", "expected 0 <= dropout_p < 1");
    attn_status status = check_batch(model, batch, err);
    if (status || (status = walk_forward(&w, batch, (keep & ATTN_KEEP_WEIGHTS) != 0, err)))
        return status;
    const size_t dims[3] = {batch->B, batch->T, model->config.target_vocabulary};
    *out = (attn_model_outputs){
        .logits = attn_tensor_dense(w.logits, ATTN_F32, 3, dims),
        .encoder = attn_tensor_dense((void *)(uintptr_t)w.encoder.out, ATTN_F32, 3,
                                     (size_t[3]){batch->B, batch->S, model->config.width})};
    if (keep & (ATTN_KEEP_WEIGHTS | ATTN_KEEP_INPUTS | ATTN_KEEP_OPERATIONS))
        out->site_count = attn_models_list_sites(model, &w, out->sites);
    for (attn_site_kind k = ATTN_SITE_ENCODER; (keep & ATTN_KEEP_INPUTS) && k <= ATTN_SITE_CROSS;
         k++)
        if ((status = keep_inputs(&w, k == ATTN_SITE_ENCODER ? &w.encoder : &w.decoder, k,
                                  out->sites, out->site_count, err)))
            return status;
    if (keep & ATTN_KEEP_STATES)
        out->state_count = attn_models_list_states(model, &w, out->states);
    return ATTN_OK;
}

/* Computes the gradients of the guidance and diversity losses with respect to the weights of the
 * last cross-attention, and stores them for the backward pass. Padding is left out: its rows have
 * no alignment, and similarity counts only the first rows[b] rows. Does nothing for a model without
 * cross-attention. */
static attn_status add_weight_losses(model_walk *w, const attn_batch *batch,
                                     const attn_step_options *options, attn_error *err) {
    const model_stack *stack = &w->model->decoder;
    size_t i = stack->count;
    while (i && stack->blocks[i - 1].operation != &attn_models_cross)
        i--;
    if (!i)
        return ATTN_OK;
    const attn_attend_saved *s = &w->decoder.traces[i - 1].attend;
    const float *weights = s->results.weights.data;
    const size_t B = s->B, H = stack->blocks[i - 1].attend.heads, L = s->L, S = s->S;
    int64_t *rows = attn_arena_zeroed(w->pass.arena, B, sizeof *rows);
    float *dweights = attn_layers_zeroed(&w->pass, B * H * L, S, err);
    if (!rows || !dweights)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory for the gradients of the weights");
    for (size_t at = 0; at < B * L; at++)
        rows[at / L] += batch->expected[at] != w->model->config.pad;
    if (options->guidance > 0 && batch->alignment)
        attn_alignment_loss(dweights, weights, batch->alignment, B, H, L, S, options->guidance);
    if (options->diversity > 0)
        attn_similarity_loss(dweights, weights, rows, B, H, L, S, options->diversity);
    w->decoder.traces[i - 1].dweights = dweights;
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
    const bool has_weight_losses = options->guidance > 0 || options->diversity > 0;
    if (status || (status = walk_forward(&w, batch, has_weight_losses, err)) ||
        (has_weight_losses && (status = add_weight_losses(&w, batch, options, err))))
        return status;
    attn_cross_entropy_loss found;
    found.loss = attn_cross_entropy(w.logits, w.logits, batch->expected, batch->B * batch->T,
                                    model->config.target_vocabulary, model->config.pad,
                                    options->smoothing, &found.rows, &found.right);
    if (!isfinite(found.loss))
        return attn_fail(err, ATTN_ENONFINITE, "loss", "the loss is not finite");
    if ((status = attn_models_backward(&w, w.logits, err)))
        return status;
    *loss = found;
    return ATTN_OK;
}
