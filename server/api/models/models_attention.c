/* POST /v1/models/{id}/attention runs the model once over source and target (models_pass.c). The
 * answer has the logits and, for each attention site, weights or heatmaps. A site is an attention
 * operation of the model: encoder, decoder or cross-attention of a layer. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/models/models_api.h"
#include "api/models/models_sites.h"
#include "api/predictions/predictions_api.h"
#include "api/stored/stored_api.h"
#include "request/shared.h"

static const char *const returns[] = {
    "weights", "heatmap",           "logits", "encoder_output", "states",
    "inputs",  "log_probabilities", "pooled", "masks",          NULL};

/* The words of srv_model_site_kinds, then the word for all kinds. */
static const char *const site_choices[] = {"encoder", "decoder", "cross", "all", NULL};
enum { ALL_SITES = 1u << (ATTN_SITE_CROSS + 1) };

const srv_field srv_models_attention_fields[] = {
    SRV_SIDE_ROWS(srv_sites_body, source, "", "token_ids", "The source"),
    SRV_SIDE_ROWS(srv_sites_body, target, "target_", "target_token_ids",
                  "The target (default: the sequence that greedy search generates)"),
    SRV_BOOL_ROW(srv_sites_body, target_end,
                 "Whether the model adds the end token <eos> to the target, and with it a row to "
                 "logits and weights: true (default), or false, with which a target of L tokens "
                 "has L rows. Row t is in both cases the step that leads to token t: the decoder "
                 "has read <bos> and the tokens before token t. An end token at the end of the "
                 "target is left out, and a begin token causes a warning."),
    SRV_BOOL_ROW(srv_sites_body, target_begin,
                 "Whether the decoder reads the begin token <bos> in front of the target: true "
                 "(default), or false, with which it reads the L tokens of the target alone, "
                 "without <bos> and <eos>, and answers L rows. Row t is then the step after token "
                 "t, as in decode(tgt, encoder_output) of textbooks: the decoder has read tokens 0 "
                 "to t, which name rows and columns. true for target_end is then refused."),
    SRV_NAMED_ROW(srv_sites_body, "text_pair", pairs, SRV_TEXTS,
                  "A second text beside each text, for encoders of other programs, whose files say "
                  "how two texts stand together. The tokens then have no offsets."),
    SRV_BOOL_ROW(srv_sites_body, words,
                 "Weights and heatmaps between words instead of tokens, for models of files of "
                 "other programs and texts: the rows of the tokens of a word are averaged, and "
                 "their columns are added, so that rows still sum to 1. A run that is stored has "
                 "the tokens."),
    SRV_SIGHT_ROWS(srv_sites_body, sight),
    SRV_OFFSET_UNIT_ROW(srv_sites_body),
    SRV_FIELD_ROW(
        srv_sites_body, sites, SRV_FLAGS,
        "The attention sites: encoder, decoder (the causal attention of a transformer; seq2seq "
        "has none) and cross, or all (default), which are those that the model has. A picture "
        "shows one site, by default cross, of the last layer.",
        .choices = site_choices),
    SRV_FIELD_ROW(
        srv_sites_body, layers, SRV_INTS,
        "Layers, numbered from 0; default all. seq2seq has attention in layer 0 only; its states "
        "have the layers of its LSTMs. With layers, states that belong to no layer are left "
        "out.",
        .max = 64),
    SRV_FIELD_ROW(
        srv_sites_body, heads, SRV_UNION,
        "\"all\" (default), a list of head numbers, or \"mean\": the mean of the weights over "
        "all heads, [B, L, S] without an axis of heads.",
        .accepts = SRV_U_STRING | SRV_U_INTS, .choices = srv_run_mean_words),
    SRV_NAMED_ROW(
        srv_sites_body, "return", returns, SRV_FLAGS,
        "The parts of the answer: weights (default if they hold at most 65,536 values), heatmap, "
        "logits, encoder_output ([B, S, width], what cross attention sees), states (the hidden "
        "vectors between the steps of the pass, [B, L, width] each; [B, width] those with which a "
        "decoder without attention starts), inputs (query, key and value of each site, [B, heads, "
        "rows, width / num_heads], as the scores are made of them; padded with zeros), "
        "log_probabilities (of the tokens, from a model that predicts the next one), pooled (the "
        "mean state of a source), masks (what may stand in place of mask tokens). As text: "
        "the tensors that it names, and heatmaps if return or heatmap asks for them; without "
        "return the heatmaps of all sites.",
        .choices = returns),
    SRV_FIELD_ROW(
        srv_sites_body, steps, SRV_FLAGS,
        "The states by their steps; default all that the model has. embedding is multiplied by "
        "sqrt(width), positions adds the positional encodings, start_hidden and start_cell are "
        "what the decoder of a model without attention gets of the source, lstm has the hidden "
        "states of a layer, a sum ends with the residual connection, a norm is the layer norm of "
        "what goes into the same attention or feed-forward (for seq2seq, and with norm after, of "
        "the sum), embedding_norm is that of the sum of all embeddings, and norm is the last one "
        "of a side. sites choose, too: "
        "encoder the states of the source, decoder and cross those of the target.",
        .choices = srv_model_steps),
    SRV_REAL_ROW(
        srv_sites_body, dropout_p, 0, 1,
        "Dropout of the pass as in training, with this probability: of embeddings with "
        "their positions, between the layers of an LSTM, of attention weights "
        "(but those of dot, additive, general and concat cross attention), of the hidden "
        "layer of feed-forward, and of what a sublayer adds to its residual sum. weights, heatmaps "
        "and analyses are those of the pass before the dropout of the weights themselves. "
        "A target that is generated is generated without dropout. Default 0.",
        .below = true),
    SRV_INT_ROW(srv_sites_body, seed, 0, 9007199254740991.0,
                "Seed that selects what dropout_p drops: the same seed, the same answer."),
    SRV_ABLATE_ROWS(srv_sites_body, interventions),
    SRV_FIELD_ROW(
        srv_sites_body, analysis, SRV_FLAGS,
        "Measures, patterns and diagnoses of all layers and heads of the sites, as of /v1/analyses "
        "without gradient, for each sequence. Without return the answer then has no weights. "
        "rollout goes through all layers of the encoder of a transformer, or of a decoder alone.",
        .choices = srv_analysis_items_model),
    SRV_MASKS_ROW(srv_sites_body, ATTN_ALTERNATIVES_MOST),
    SRV_MODEL_STORE_ROW(srv_sites_body, "the pass"),
    SRV_MODEL_COMMON_ROWS(srv_sites_body),
    {0},
};

/* Sets target_end to false if the decoder reads only the target. false: a problem is set. */
static bool settle_ends(const srv_scope *scope, srv_sites_body *b) {
    if (!b->target_begin && srv_given(scope, "target_end") && b->target_end)
        return srv_refuse(scope, SRV_VALUE, "target_end",
                          "with \"target_begin\": false the decoder reads the target alone: leave "
                          "target_end out, and send the end token in the target if it is to be "
                          "read");
    b->target_end = b->target_end && b->target_begin;
    return true;
}

static bool check_dropout(const srv_scope *scope, const srv_sites_body *b) {
    if (b->dropout_p > 0 && !srv_given(scope, "seed"))
        return srv_refuse(scope, SRV_VALUE, "dropout_p",
                          "dropout_p needs seed, which is not in this request: the same seed drops "
                          "the same numbers");
    if (srv_given(scope, "seed") && !srv_given(scope, "dropout_p"))
        return srv_refuse(scope, SRV_VALUE, "seed",
                          "seed needs dropout_p, which is not in this request");
    return true;
}

/* Refuses fields of a target if the model has only an encoder or only a decoder. */
static bool check_sides(const srv_scope *scope, const srv_model *model) {
    static const char *const names[] = {"target_text", "target_tokens", "target_token_ids",
                                        "target_begin", "target_end"};
    const bool writes = srv_models_reads(model, SRV_TARGET) && !model->known;
    if (srv_models_reads(model, SRV_TARGET) && srv_models_reads(model, SRV_SOURCE))
        return true;
    for (size_t i = 0; i < (writes ? 3 : sizeof names / sizeof *names); i++)
        if (srv_given(scope, names[i]))
            return srv_refuse(scope, SRV_VALUE, names[i],
                              "the model \"%s\" has no target beside its text", model->id);
    return true;
}

/* Reads the source and the target. For a model without an encoder, `text` is the target. */
static bool read_sides(srv_sites_pass *c, const srv_scope *scope) {
    const srv_sites_body *b = &c->body;
    const size_t most = attn_model_configuration(c->pass.model->model)->max_length;
    const bool encodes = srv_models_reads(c->pass.model, SRV_SOURCE);
    srv_reading source = {.req = c->pass.req,
                          .model = c->pass.model,
                          .scope = scope,
                          .which = SRV_SOURCE,
                          .names = {"text", "tokens", "token_ids"},
                          .most = most,
                          .unit = (srv_offset_unit)b->offset_unit,
                          .pairs = srv_given(scope, "text_pair") ? &b->pairs : NULL,
                          .warnings = &c->warnings};
    srv_reading target = source;
    if (encodes)
        target.pairs = NULL;
    target.which = SRV_TARGET;
    target.adds_begin = b->target_begin;
    target.adds_end = b->target_end;
    target.most = most - b->target_end;
    if (encodes)
        memcpy(target.names, (const char *[3]){"target_text", "target_tokens", "target_token_ids"},
               sizeof target.names);
    if ((encodes && !srv_models_read(&source, &b->source, &c->source)) ||
        !srv_models_read(&target, encodes ? &b->target : &b->source, &c->target))
        return false;
    c->B = encodes ? c->source.count : c->target.count;
    return true;
}

static bool check_target(const srv_sites_pass *c, const srv_scope *scope) {
    static const char *const names[] = {"target_text", "target_tokens", "target_token_ids"};
    for (int i = 0; c->target.count && c->target.count != c->B && i < 3; i++)
        if (srv_given(scope, names[i]))
            return srv_refuse(scope, SRV_SHAPE, names[i],
                              "expected %zu target%s, one a source, found %zu", c->B,
                              attn_plural(c->B), c->target.count);
    return true;
}

/* Refuses empty lists. */
static bool check_selections(const srv_scope *scope, const srv_sites_body *b) {
    const struct {
        const char *name;
        bool empty;
    } lists[] = {{"sites", !b->sites},
                 {"layers", !b->layers.count},
                 {"heads", b->heads.is == SRV_U_INTS && !b->heads.ints.count},
                 {"steps", !b->steps}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i].empty && srv_given(scope, lists[i].name))
            return srv_refuse(scope, SRV_VALUE, lists[i].name,
                              "expected at least one, found an empty list");
    return true;
}

/* Refuses parts of the answer that this model cannot give. */
static bool check_returns(const srv_sites_pass *c, const srv_scope *scope) {
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    const unsigned wanted = c->body.returns;
    const bool encodes = srv_models_reads(c->pass.model, SRV_SOURCE),
               decodes = srv_models_reads(c->pass.model, SRV_TARGET);
    const char *lacks =
        wanted & SRV_SITES_ENCODER && !encodes  ? "encoder and no encoder_output"
        : wanted & SRV_SITES_POOLED && !encodes ? "encoder whose states could be pooled"
        : wanted & SRV_SITES_LOGITS && m->headless
            ? "logits: its files hold no head, so encoder_output and pooled are its results"
        : wanted & SRV_SITES_MASKS && (decodes || m->headless || m->head != ATTN_MODEL_MASKED)
            ? "head that names masked words, so its answers have no masks"
        : wanted & SRV_SITES_PROBABILITIES && !decodes
            ? "decoder that predicts the next token, so its tokens have no log_probabilities"
            : NULL;
    if (lacks)
        return srv_refuse(scope, SRV_VALUE, "return", "the model \"%s\" has no %s",
                          c->pass.model->id, lacks);
    return !(wanted & SRV_SITES_MASKS) || srv_masks_count(c->pass.model, &c->source) ||
           srv_refuse(scope, SRV_VALUE, "return", "no token of the text is a mask: write %s in it",
                      c->pass.model->known && c->pass.model->known->mask >= 0
                          ? attn_tokenizer_token(c->pass.model->source, c->pass.model->known->mask)
                          : "its token");
}

static bool decode(srv_sites_pass *c) {
    srv_request *req = c->pass.req;
    srv_sites_body *b = &c->body;
    if (!srv_figure_check(req, &b->figure) || !check_selections(&c->pass.scope, b))
        return false;
    if (b->sites & ALL_SITES)
        b->sites = 0;
    if (!check_sides(&c->pass.scope, c->pass.model) || !check_dropout(&c->pass.scope, b))
        return false;
    /* The files of a known decoder-only model say how a text begins, so the service adds no
     * tokens. */
    if (!srv_models_reads(c->pass.model, SRV_TARGET) ||
        (c->pass.model->known && !srv_models_reads(c->pass.model, SRV_SOURCE)))
        b->target_begin = b->target_end = false;
    if (!settle_ends(&c->pass.scope, b) || !read_sides(c, &c->pass.scope))
        return false;
    if (!c->B)
        return srv_refuse(&c->pass.scope, SRV_VALUE, "text", "send text, tokens or token_ids");
    if (!b->target_end && !c->target.count && srv_models_reads(c->pass.model, SRV_TARGET))
        return srv_refuse(&c->pass.scope, SRV_VALUE,
                          b->target_begin ? "target_end" : "target_begin",
                          "false belongs to a target of the request: send target_text, "
                          "target_tokens or target_token_ids");
    if (!srv_models_hide(&c->pass.scope, &b->sight, c->pass.model, &c->source, &c->warnings) ||
        !check_target(c, &c->pass.scope))
        return false;
    if (!check_returns(c, &c->pass.scope) || !srv_sites_words_check(c, &c->pass.scope))
        return false;
    if (srv_draws(req))
        b->analysis = 0; /* a picture shows only weights */
    c->unasked = !srv_given(&c->pass.scope, "return");
    if (c->unasked)
        b->returns = (b->analysis ? 0u : (unsigned)SRV_SITES_WEIGHTS) |
                     (srv_given(&c->pass.scope, "heatmap") ? (unsigned)SRV_SITES_HEATMAP : 0u);
    return true;
}

/* --- sites --- */

static bool lists(const srv_ints *list, size_t value) {
    for (size_t i = 0; i < list->count; i++)
        if (list->values[i] == (int64_t)value)
            return true;
    return !list->count;
}

bool srv_sites_wants(const srv_sites_pass *c, size_t i) {
    return (!c->body.sites || (c->body.sites & 1u << c->sites[i].kind)) &&
           lists(&c->body.layers, c->sites[i].layer);
}

/* Checks that the requested sites of the model have all layers (or heads) in `list`. */
static bool check_numbers(const srv_sites_pass *c, const srv_scope *scope, const char *name,
                          const srv_ints *list, bool layers) {
    for (size_t s = 0; s < c->site_count; s++) {
        const attn_site *site = &c->sites[s];
        const bool last = s + 1 == c->site_count || c->sites[s + 1].kind != site->kind;
        const size_t most = layers ? site->layer + 1 : site->heads;
        if (!last || (c->body.sites && !(c->body.sites & 1u << site->kind)))
            continue;
        for (size_t i = 0; i < list->count; i++) {
            char at[32];
            snprintf(at, sizeof at, "%s/%zu", name, i);
            if (list->values[i] < 0 || (uint64_t)list->values[i] >= most)
                return srv_refuse(
                    scope, SRV_VALUE, at, "the site %s has the %s 0 to %zu, found %" PRId64,
                    srv_model_site_kinds[site->kind], name, most - 1, list->values[i]);
        }
    }
    return true;
}

static bool has_kind(const srv_sites_pass *c, unsigned kind) {
    for (size_t i = 0; i < c->site_count; i++)
        if ((unsigned)c->sites[i].kind == kind)
            return true;
    return false;
}

static bool check_sites(srv_sites_pass *c) {
    const srv_sites_body *b = &c->body;
    c->sites = attn_model_sites(c->pass.model->model, &c->site_count);
    for (unsigned k = 0; k <= ATTN_SITE_CROSS; k++)
        if ((b->sites & 1u << k) && !has_kind(c, k))
            return srv_refuse(&c->pass.scope, SRV_VALUE, "sites", "the model \"%s\" has no site %s",
                              c->pass.model->id, srv_model_site_kinds[k]);
    if (srv_sites_mean(c) && (b->returns & SRV_SITES_INPUTS))
        return srv_refuse(&c->pass.scope, SRV_VALUE, "heads",
                          "inputs belong to single heads: expected \"all\" or a list, found "
                          "\"mean\"");
    const bool states = (b->returns & SRV_SITES_STATES) != 0; /* other layers have states, too */
    if ((!states && !check_numbers(c, &c->pass.scope, "layers", &b->layers, true)) ||
        !check_numbers(c, &c->pass.scope, "heads", &b->heads.ints, false))
        return false;
    return srv_model_run_check(&c->pass.scope, c->pass.model, b->store) &&
           srv_sites_states_check(c, &c->pass.scope) && srv_models_may_draw(&c->pass, c->B);
}

/* --- limits --- */

/* Sets the shape of the logits: [B, L, V] or, if the model pools sequences, [B, V]. Returns its
 * rank. */
static int logits_dims(const srv_sites_pass *c, size_t dims[3]) {
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    int rank = 0;
    dims[rank++] = c->B;
    if (m->head != ATTN_MODEL_POOLED)
        dims[rank++] = srv_models_reads(c->pass.model, SRV_TARGET) ? c->T : c->source.longest;
    dims[rank++] = m->target_vocabulary;
    return rank;
}

/* Returns an upper bound of the memory of the answer in bytes: its numbers and their text. */
static double result_bytes(const srv_sites_pass *c) {
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    size_t d[3];
    double logits = 1;
    for (int i = logits_dims(c, d); i-- > 0;)
        logits *= (double)d[i];
    const bool heats = c->body.returns & SRV_SITES_HEATMAP || srv_draws(c->pass.req) ||
                       (srv_reads_text(c->pass.req) && srv_sites_prints_heatmaps(c));
    double numbers = heats ? 2 * srv_sites_weights(c) : 0;
    if (c->body.returns & SRV_SITES_WEIGHTS)
        numbers += srv_sites_weights(c);
    if (c->body.returns & SRV_SITES_LOGITS)
        numbers += logits;
    if (c->body.returns & (SRV_SITES_ENCODER | SRV_SITES_POOLED))
        numbers += (double)c->B * (double)c->source.longest * (double)m->width;
    if (c->body.returns & SRV_SITES_PROBABILITIES)
        numbers += (double)c->B * (double)c->T;
    if (c->body.returns & SRV_SITES_MASKS)
        numbers += (double)srv_masks_count(c->pass.model, &c->source) *
                   (double)c->body.num_alternatives * SRV_CHOICE_TEXT / SRV_MODEL_TEXT;
    numbers += srv_sites_states_numbers(c) + srv_sites_inputs(c);
    return SRV_MODEL_TEXT * numbers + (double)(c->B * (c->source.longest + c->T)) * 64 +
           c->analysis_text + c->run_text;
}

static attn_model_cost cost_of(const srv_sites_pass *c) {
    attn_model_pass pass = {.B = c->source.count,
                            .S = c->source.longest,
                            .rows = srv_models_reads(c->pass.model, SRV_TARGET) ? c->B : 0,
                            .T = c->T,
                            .beams = 1,
                            .hides = srv_models_hides(&c->source),
                            .keeps_weights = !c->pass.model->known,
                            .no_logits = !srv_sites_needs_logits(c),
                            .keeps_states = (c->body.returns & SRV_SITES_STATES) != 0,
                            .keeps_inputs = (c->body.returns & SRV_SITES_INPUTS) != 0,
                            .drops = c->body.dropout_p > 0};
    attn_model_cost cost = srv_models_cost(&c->pass, &pass);
    srv_sites_weigh_cost(c, &cost);
    if (srv_sites_generates(c)) {
        pass.searches = true;
        pass.keeps_weights = pass.keeps_states = pass.keeps_inputs = pass.drops = false;
        const attn_model_cost search = srv_models_cost(&c->pass, &pass);
        cost.cells += search.cells;
        cost.operations += search.operations;
        cost.bytes += search.bytes;
    }
    return cost;
}

static size_t first_wanted(const srv_sites_pass *c, attn_site_kind kind) {
    size_t i = 0;
    while (!srv_sites_wants(c, i) || c->sites[i].kind != kind)
        i++;
    return c->sites[i].layer;
}

/* Adds the shapes of a site's queries, keys and values to a dry run, if they are requested. */
static void add_inputs(srv_dry *dry, const srv_sites_pass *c, const attn_site *site) {
    static const char *const names[][3] = {
        [ATTN_SITE_ENCODER] = {"query.encoder", "key.encoder", "value.encoder"},
        [ATTN_SITE_DECODER] = {"query.decoder", "key.decoder", "value.decoder"},
        [ATTN_SITE_CROSS] = {"query.cross", "key.cross", "value.cross"}};
    size_t q[4] = {c->B}, k[4] = {c->B};
    if (!(c->body.returns & SRV_SITES_INPUTS))
        return;
    srv_sites_inputs_dims(c, site, q + 1, k + 1);
    for (int i = 0; i < 3; i++)
        srv_dry_shape(dry, names[site->kind][i], 4, i ? k : q);
}

static bool add_shapes(void *data, srv_dry *dry) {
    const srv_sites_pass *c = data;
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    const size_t B = c->B;
    size_t logits[3];
    srv_models_dry(&c->pass, dry);
    if (srv_draws(c->pass.req)) /* a picture holds no tensors */
        return true;
    for (size_t i = 0; i < c->site_count; i++) {
        size_t d[4] = {B, 0, 0, 0};
        srv_sites_dims(c, &c->sites[i], d + 1);
        /* All layers of a kind of site have the same shape. Therefore each kind is listed once. */
        if (!srv_sites_wants(c, i) || c->sites[i].layer != first_wanted(c, c->sites[i].kind))
            continue;
        if (srv_sites_has_weights(c) && srv_sites_mean(c)) /* the mean has no axis of heads */
            srv_dry_shape(dry, srv_model_site_kinds[c->sites[i].kind], 3,
                          (size_t[3]){B, d[2], d[3]});
        else if (srv_sites_has_weights(c))
            srv_dry_shape(dry, srv_model_site_kinds[c->sites[i].kind], 4, d);
        add_inputs(dry, c, &c->sites[i]);
    }
    if (c->body.returns & SRV_SITES_LOGITS)
        srv_dry_shape(dry, "logits", logits_dims(c, logits), logits);
    if (c->body.returns & SRV_SITES_ENCODER)
        srv_dry_shape(dry, "encoder_output", 3, (size_t[3]){B, c->source.longest, m->width});
    srv_sites_states_shapes(dry, c);
    return true;
}

/* --- the row of the route --- */

/* Stores all sites of the pass if `store` asks for it. false: a problem is set. */
static bool store(srv_sites_pass *c) {
    srv_model_run run;
    if (!c->body.store)
        return true;
    if (!srv_model_run_begin(&run, c->pass.req, c->pass.model, c->B, &c->source))
        return false;
    for (size_t b = 0; b < c->target.count; b++)
        if (!srv_model_run_target(&run, b, c->body.target_begin, &c->target.items[b],
                                  c->read.items[b].length))
            return false;
    c->run = srv_model_run_store(&run, c->out.sites, c->out.site_count);
    return c->run;
}

static bool prepare(void *data) {
    srv_sites_pass *c = data;
    const size_t max = attn_model_configuration(c->pass.model->model)->max_length;
    if (!decode(c) || !check_sites(c))
        return false;
    if (c->pass.req->is_job) {
        c->body.returns = c->body.analysis = 0;
        c->unasked = false;
    }
    c->T = srv_sites_generates(c) ? 2 * c->source.longest + 11
                                  : c->target.longest + c->body.target_end;
    c->T = c->T < max ? c->T : max;
    if (!srv_sites_interventions(c))
        return false;
    if (c->body.store)
        c->pass.call.job = (srv_job_order){.run = srv_models_attention, .stores = true};
    c->pass.call.needs_thread = c->body.store;
    attn_model_cost cost = cost_of(c);
    if ((c->body.store && !srv_model_run_cost(c->pass.req, c->pass.model, c->B, c->source.longest,
                                              c->T, &cost, &c->run_text)) ||
        !srv_sites_analysis_cost(c, &cost, &c->analysis_text))
        return false;
    srv_models_bill(&c->pass, &cost, result_bytes(c));
    return true;
}

static bool compute(void *data) {
    return srv_sites_run(data) && srv_sites_weigh(data) && srv_sites_analyse(data) && store(data) &&
           srv_sites_merge(data);
}

srv_outcome srv_models_attention(srv_request *req) {
    static const srv_steps steps = {
        .fields = srv_models_attention_fields,
        SRV_BODY_OF(srv_sites_pass),
        SRV_MODEL_STEPS,
        .prepare = prepare,
        .dry = add_shapes,
        .compute = compute,
        .json = srv_sites_json,
        .text = srv_sites_text,
        .picture = srv_sites_picture,
    };
    srv_sites_pass c = {.pass.call.req = req,
                        .body = {.decimals = -1,
                                 .figure = SRV_FIGURE_DEFAULTS,
                                 .num_alternatives = 5,
                                 .target_begin = true,
                                 .target_end = true}};
    req->control.progress = NULL; /* each attention of the model would report its own progress */
    const srv_outcome outcome = srv_models_run(&c.pass, &steps);
    if (c.run)
        srv_run_tell(req, c.run);
    return outcome;
}
