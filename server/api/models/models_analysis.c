/* Analyses of a model's attention. There is one analysis for each kind of site and each sequence.
 * It covers all layers of the kind, and has the tokens of the sequence as labels and the mask of
 * the site. Layers of self-attention may also have a rollout. */
#include "api/models/models_api.h"
#include "api/models/models_sites.h"

#include <string.h>

#include "base/try.h"
#include "request/shared.h"
#include "wire/answer.h"

#define LABEL_TEXT 64.0 /* upper bound of the bytes of a token as a label */

/* --- one analysis --- */

/* The weights of all layers of one kind of site, for one sequence. attn_weight_source.ctx points to
 * this struct. */
typedef struct layers {
    const attn_site *sites; /* the site of layer 0; those of the other layers follow it */
    size_t sequence;
} layers;

/* Copies a range of weights; range->batch is the layer. This is attn_weight_source.fetch. */
static attn_status fetch(void *ctx, size_t lane, const attn_range *range, float *weights,
                         float *logits, attn_error *err) {
    const layers *l = ctx;
    const attn_tensor *w = &l->sites[range->batch].weights;
    const size_t *d = w->dims;
    const float *from =
        (const float *)w->data + ((l->sequence * d[1] + range->head) * d[2] + range->row) * d[3];
    (void)lane, (void)logits, (void)err;
    for (size_t r = 0; r < range->rows; r++)
        memcpy(weights + r * range->cols, from + r * d[3] + range->col,
               range->cols * sizeof *weights);
    return ATTN_OK;
}

/* Returns the number of layers of a kind of site, whose layer 0 is site `first`. */
static size_t layers_of(const srv_sites_pass *c, size_t first) {
    size_t n = 1;
    while (first + n < c->site_count && c->sites[first + n].kind == c->sites[first].kind)
        n++;
    return n;
}

/* Returns the kind of site whose layers a rollout multiplies: the self-attention of the encoder or,
 * if the model has no encoder, that of the decoder. */
static attn_site_kind rolled_kind(const srv_sites_pass *c) {
    return srv_models_reads(c->pass.model, SRV_SOURCE) ? ATTN_SITE_ENCODER : ATTN_SITE_DECODER;
}

/* Returns whether the sites of this kind are analysed. If a rollout is the only analysis that the
 * request asks for, only the kind of the rollout is analysed. */
static bool wants(const srv_sites_pass *c, const attn_site *site) {
    return (!c->body.sites || (c->body.sites & 1u << site->kind)) &&
           (site->kind == rolled_kind(c) || (c->body.analysis & ~(unsigned)SRV_AN_ROLLOUT));
}

static bool rolls(const srv_sites_pass *c, attn_site_kind kind) {
    return kind == rolled_kind(c) && (c->body.analysis & SRV_AN_ROLLOUT);
}

/* Returns an analysis, not yet computed, of the layers of a kind of site, whose layer 0 is site
 * `first`, with L queries and S keys. */
static srv_analysis describe(const srv_sites_pass *c, size_t first, size_t L, size_t S) {
    static const srv_labels none = {0};
    const unsigned items = c->body.analysis;
    const size_t n = layers_of(c, first);
    return (srv_analysis){.req = c->pass.req,
                          .items = items | (items & SRV_AN_ALL ? SRV_AN_EVERY : 0),
                          .B = n,
                          .H = c->sites[first].heads,
                          .L = L,
                          .S = S,
                          .layers = n,
                          .layered = true,
                          .labels = &none,
                          .options = attn_measure_defaults()};
}

/* --- masks --- */

/* Adds the pattern of the model's attention, if it has one. */
static void add_pattern(const attn_model_config *m, attn_mask_spec *spec) {
    attn_mask_layer layer = {.kind = ATTN_LAYER_PATTERN, .where = "attention"};
    if (attn_model_pattern(m, &layer.pattern))
        spec->layers[spec->count++] = layer;
}

/* Makes the mask that sites of this kind have for sequence b. *out is NULL if nothing is hidden. */
static attn_status make_mask(const srv_sites_pass *c, const srv_analysis *an, attn_site_kind kind,
                             size_t b, const attn_mask **out, attn_error *err) {
    const attn_mask_shape shape = {
        .batch_rank = 1, .batch = {1}, .has_heads = true, .H = an->H, .L = an->L, .S = an->S};
    attn_mask_spec *spec = attn_arena_small(c->pass.req->arena, sizeof *spec);
    attn_mask *mask = NULL;
    *out = NULL;
    ATTN_TAKEN(spec, "the mask of an analysis", err);
    *spec = (attn_mask_spec){0};
    if (kind == ATTN_SITE_DECODER)
        spec->layers[spec->count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "decoder"};
    else if (c->source.items[b].keep)
        spec->layers[spec->count++] = (attn_mask_layer){
            .kind = ATTN_LAYER_PADDING,
            .where = "hide",
            .semantics = ATTN_SEM_KEEP,
            .values = attn_tensor_dense(c->source.items[b].keep, ATTN_BOOL, 1, &an->S)};
    add_pattern(attn_model_configuration(c->pass.model->model), spec);
    if (!spec->count)
        return ATTN_OK;
    const attn_status status = attn_mask_new(spec, &shape, c->pass.req->arena, &mask, err);
    *out = mask;
    return status;
}

/* --- rollout --- */

static bool rollout_options(const srv_sites_pass *c, size_t S, attn_heatmap_options *out) {
    const attn_attention_dims dims = {.B = 1, .Hq = 1, .L = S, .S = S};
    const bool ok = srv_heat_options(c->pass.req, &c->body.heatmap, &dims, out);
    out->heads = ATTN_HEADS_ALL; /* the rollout is one matrix, so it has one head */
    return ok;
}

static bool roll(srv_sites_pass *c, srv_sites_analysis *to) {
    srv_request *req = c->pass.req;
    attn_pool *pool = srv_request_pool(req);
    attn_heatmap_options options;
    attn_weight_source rollout;
    attn_error err = {0};
    if (!rollout_options(c, to->analysis.S, &options))
        return false;
    attn_status status =
        attn_rollout_source(&to->analysis.source, to->analysis.layers, attn_pool_slots(pool),
                            &req->control, req->arena, &rollout, &err);
    if (!status)
        status = attn_heatmap_build(&rollout, &options, pool, &req->control, req->arena,
                                    &to->rollout, &err);
    if (status)
        srv_heat_problem(req, &err);
    to->rolls = !status;
    return !status;
}

/* Refuses a rollout if the model has no stacked layers of self-attention, or if `sites` leaves out
 * these layers. */
static bool may_roll(const srv_sites_pass *c) {
    if (!(c->body.analysis & SRV_AN_ROLLOUT))
        return true;
    if (attn_model_configuration(c->pass.model->model)->architecture == ATTN_MODEL_SEQ2SEQ)
        return srv_refuse(
            &c->pass.scope, SRV_VALUE, "analysis",
            "rollout multiplies layers of self-attention: expected a transformer; the "
            "LSTM of a seq2seq mixes the tokens before its only layer");
    const char *kind = srv_model_site_kinds[rolled_kind(c)];
    if (c->body.sites && !(c->body.sites & 1u << rolled_kind(c)))
        return srv_refuse(&c->pass.scope, SRV_VALUE, "analysis",
                          "rollout goes through the layers of the %s: name %s in sites", kind,
                          kind);
    return true;
}

/* Adds the cost of the rollout of an analysis to *cost, and an upper bound of the bytes of its text
 * to *words. false: a problem is set. */
static bool rollout_cost(const srv_sites_pass *c, const srv_analysis *an, size_t slots,
                         attn_cost *cost, double *words) {
    attn_heatmap_options options;
    attn_cost map, rolled;
    attn_error err = {0};
    if (!rollout_options(c, an->S, &options))
        return false;
    if (attn_heatmap_cost(&options, 1, 1, an->S, an->S, slots, &map, &err))
        return srv_heat_problem(c->pass.req, &err);
    attn_rollout_cost(an->layers, 1, an->H, an->S, slots, &rolled);
    cost->operations += map.operations + rolled.operations;
    cost->work_bytes += map.work_bytes + rolled.work_bytes;
    cost->result_bytes += map.result_bytes;
    *words += SRV_HEAT_TEXT * (double)map.result_bytes + LABEL_TEXT * 2 * (double)an->S;
    return true;
}

/* --- all analyses --- */

static attn_status analyse(srv_sites_pass *c, size_t first, size_t b, srv_sites_analysis *to,
                           attn_error *err) {
    srv_request *req = c->pass.req;
    const attn_site *site = &c->out.sites[first];
    const srv_sequence *rows = srv_sites_queries(c, site, b), *cols = srv_sites_keys(c, site, b);
    layers *l = attn_arena_small(req->arena, sizeof *l);
    srv_names *names = attn_arena_small(req->arena, sizeof *names);
    ATTN_TAKEN(l && names, "an analysis", err);
    *l = (layers){site, b};
    to->kind = site->kind;
    to->sequence = b;
    *names = (srv_names){
        .given = {{3}}, .query = {rows->tokens, rows->length}, .key = {cols->tokens, cols->length}};
    to->labels = (srv_labels){names, 1, true};
    to->analysis = describe(c, first, rows->length, cols->length);
    srv_analysis *an = &to->analysis;
    an->labels = &to->labels;
    an->source = (attn_weight_source){
        .batches = an->B, .heads = an->H, .rows = an->L, .cols = an->S, .fetch = fetch, .ctx = l};
    const attn_status status = make_mask(c, an, site->kind, b, &an->mask, err);
    return status ? status : srv_analysis_run(an, srv_request_pool(req), err);
}

bool srv_sites_analyse(srv_sites_pass *c) {
    attn_error err = {0};
    attn_status status = ATTN_OK;
    size_t kinds = 0;
    if (!c->body.analysis)
        return true;
    for (size_t i = 0; i < c->site_count; i += layers_of(c, i))
        kinds += wants(c, &c->sites[i]);
    c->analyses = attn_arena_zeroed(c->pass.req->arena, kinds * c->B + 1, sizeof *c->analyses);
    if (!c->analyses)
        status = attn_no_memory(&err, "the analyses");
    for (size_t i = 0; !status && i < c->site_count; i += layers_of(c, i))
        for (size_t b = 0; !status && wants(c, &c->sites[i]) && b < c->B; b++)
            status = analyse(c, i, b, &c->analyses[c->analysis_count++], &err);
    if (status)
        srv_problem_error(c->pass.req, &err);
    bool ok = !status;
    for (size_t i = 0; ok && i < c->analysis_count; i++)
        ok = !rolls(c, c->analyses[i].kind) || roll(c, &c->analyses[i]);
    return ok;
}

/* Upper bound, in bytes, of the memory of an analysis without its tensors: its mask, its labels and
 * its entry in the list. */
#define ANALYSIS_BYTES 16384.0

bool srv_sites_analysis_cost(const srv_sites_pass *c, attn_model_cost *cost, double *text) {
    const size_t slots = attn_pool_slots(c->pass.req->app->pool);
    const double B = (double)c->B;
    *text = 0;
    if (!may_roll(c))
        return false;
    for (size_t i = 0; c->body.analysis && i < c->site_count; i += layers_of(c, i)) {
        attn_cost one;
        double words;
        size_t d[3];
        if (!wants(c, &c->sites[i]))
            continue;
        srv_sites_dims(c, &c->sites[i], d);
        const srv_analysis an = describe(c, i, d[1], d[2]);
        if (!srv_analysis_cost(&an, slots, &one, &words) ||
            (rolls(c, c->sites[i].kind) && !rollout_cost(c, &an, slots, &one, &words)))
            return false;
        cost->operations += B * one.operations;
        cost->bytes += B * ((double)one.work_bytes + (double)one.result_bytes + ANALYSIS_BYTES +
                            64 * ((double)d[1] + (double)d[2]));
        *text += B * words;
    }
    return true;
}

/* --- the answer --- */

_Static_assert(sizeof(attn_site_kind) == sizeof(int), "a row of SRV_ENUM is an int");

const srv_field srv_sites_analysis_rows[] = {
    SRV_ALWAYS("kind", SRV_ENUM, srv_sites_analysis, kind, "The kind of the sites.",
               .choices = srv_model_site_kinds),
    SRV_ALWAYS("sequence", SRV_INT, srv_sites_analysis, sequence,
               "The number of the sequence in the request."),
    SRV_WRITTEN("heads", "[HeadAnalysis]", NULL, NULL, .always = true),
    SRV_WRITTEN("pairs", "[HeadPairs]", NULL, NULL),
    SRV_WRITTEN("diagnoses", "[Diagnosis]", NULL, NULL),
    SRV_WRITTEN("omitted", "AnalysisOmitted", NULL, NULL),
    SRV_WRITTEN("legend", "AnalysisLegend", NULL, NULL, .always = true),
    SRV_WRITTEN("rollout", "Rollout", NULL, "Attention through all layers."),
    SRV_WRITTEN("caveat", "string", NULL, NULL, .always = true),
    {0},
};

void srv_sites_analyses_write(attn_json_text *j, const srv_sites_pass *c) {
    if (!c->body.analysis)
        return;
    attn_json_key_array(j, "analyses");
    for (size_t i = 0; i < c->analysis_count; i++) {
        attn_json_object(j);
        srv_answer_members(j, srv_sites_analysis_rows, &c->analyses[i]);
        srv_analysis_members(j, &c->analyses[i].analysis);
        if (c->analyses[i].rolls)
            srv_rollout_write(j, &c->analyses[i].rollout, &c->body.heatmap, &c->analyses[i].labels);
        attn_json_object_end(j);
    }
    attn_json_array_end(j);
}

void srv_sites_analyses_text(attn_text *t, const srv_sites_pass *c) {
    for (size_t i = 0; i < c->analysis_count; i++) {
        attn_text_add(t, "analysis of %s", srv_model_site_kinds[c->analyses[i].kind]);
        if (c->B > 1)
            attn_text_add(t, ", sequence %zu", c->analyses[i].sequence);
        attn_text_add(t, "\n");
        srv_analysis_text(t, &c->analyses[i].analysis);
        if (c->analyses[i].rolls) {
            attn_text_add(t, "rollout\n");
            srv_heat_text(t, &c->analyses[i].rollout, &c->analyses[i].labels, NULL);
        }
    }
}
