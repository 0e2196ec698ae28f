/* The answer of POST /v1/models/{id}/attention: tokens, the weights or heatmaps of each site,
 * logits, outputs of the encoder and states. */
#include "api/models/models_sites.h"

#include <stdio.h>
#include <string.h>

#include "api/models/models_api.h"
#include "api/predictions/predictions_api.h"
#include "api/runs/runs_api.h"
#include "api/stored/stored_api.h"
#include "wire/answer.h"

bool srv_sites_mean(const srv_sites_pass *c) {
    return c->body.heads.is == SRV_U_STRING &&
           strcmp(srv_run_mean_words[c->body.heads.choice], "mean") == 0;
}

/* Returns the number of requested heads of a site. */
static size_t heads_of(const srv_sites_pass *c, const attn_site *site) {
    const size_t listed = c->body.heads.ints.count;
    return srv_sites_mean(c) ? 1 : listed ? listed : site->heads;
}

void srv_sites_dims(const srv_sites_pass *c, const attn_site *site, size_t dims[3]) {
    dims[0] = heads_of(c, site);
    dims[1] = site->kind == ATTN_SITE_ENCODER ? c->source.longest : c->T;
    dims[2] = site->kind == ATTN_SITE_DECODER ? c->T : c->source.longest;
}

double srv_sites_weights(const srv_sites_pass *c) {
    double count = 0;
    for (size_t i = 0; i < c->site_count; i++) {
        size_t d[3];
        srv_sites_dims(c, &c->sites[i], d);
        if (srv_sites_wants(c, i))
            count += (double)c->B * (double)d[0] * (double)d[1] * (double)d[2];
    }
    return count;
}

void srv_sites_inputs_dims(const srv_sites_pass *c, const attn_site *site, size_t query[3],
                           size_t key[3]) {
    size_t d[3];
    srv_sites_dims(c, site, d);
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    const size_t width = m->head_width ? m->head_width : m->width / site->heads;
    memcpy(query, (size_t[3]){d[0], d[1], width}, sizeof d);
    memcpy(key, (size_t[3]){d[0], d[2], width}, sizeof d);
}

double srv_sites_inputs(const srv_sites_pass *c) {
    double count = 0;
    for (size_t i = 0; (c->body.returns & SRV_SITES_INPUTS) && i < c->site_count; i++) {
        size_t q[3], k[3];
        srv_sites_inputs_dims(c, &c->sites[i], q, k);
        if (srv_sites_wants(c, i))
            count += (double)c->B * (double)q[0] * (double)q[2] * ((double)q[1] + 2 * (double)k[1]);
    }
    return count;
}

/* Returns whether the answer leaves out the weights, because the request has no `return` and they
 * are more than SRV_WEIGHTS_UNASKED numbers. */
static bool omits_weights(const srv_sites_pass *c) {
    return c->unasked && !c->body.analysis && srv_sites_weights(c) > SRV_WEIGHTS_UNASKED;
}

bool srv_sites_has_weights(const srv_sites_pass *c) {
    return (c->body.returns & SRV_SITES_WEIGHTS) && !omits_weights(c);
}

bool srv_sites_prints_heatmaps(const srv_sites_pass *c) {
    return (c->unasked && !c->body.analysis) || (c->body.returns & SRV_SITES_HEATMAP) ||
           srv_given(&c->pass.scope, "heatmap");
}

const srv_sequence *srv_sites_queries(const srv_sites_pass *c, const attn_site *site, size_t b) {
    if (c->merged)
        return &(site->kind == ATTN_SITE_ENCODER ? c->word_source : c->word_target).items[b];
    return site->kind == ATTN_SITE_ENCODER ? &c->source.items[b] : &c->target.items[b];
}

const srv_sequence *srv_sites_keys(const srv_sites_pass *c, const attn_site *site, size_t b) {
    if (c->merged)
        return srv_sites_queries(c, site, b);
    return site->kind == ATTN_SITE_DECODER ? &c->read.items[b] : &c->source.items[b];
}

/* Returns the side (encoder or decoder) of the queries of a site or, if `queries` is false, of its
 * keys. */
static int side_of(const attn_site *site, bool queries) {
    const bool source =
        site->kind == ATTN_SITE_ENCODER || (site->kind == ATTN_SITE_CROSS && !queries);
    return source ? SRV_SOURCE : SRV_TARGET;
}

static bool heatmaps_of(const srv_sites_pass *c, const attn_site *site, size_t b,
                        srv_model_heatmaps *out) {
    const size_t *d = site->weights.dims;
    const srv_sequence *rows = srv_sites_queries(c, site, b), *cols = srv_sites_keys(c, site, b);
    srv_heat_input in = c->body.heatmap;
    const char **row_names =
                   srv_models_shown(c->pass.req, c->pass.model, side_of(site, true), rows),
               **col_names =
                   srv_models_shown(c->pass.req, c->pass.model, side_of(site, false), cols);
    if (!row_names || !col_names)
        return false;
    const srv_model_weights what = {.weights =
                                        (const float *)site->weights.data + b * d[1] * d[2] * d[3],
                                    .heads = d[1],
                                    .head_stride = d[2] * d[3],
                                    .stride = d[3],
                                    .rows = rows->length,
                                    .cols = cols->length,
                                    .batch = b,
                                    .row_names = row_names,
                                    .col_names = col_names};
    if (!in.heads.is)
        in.heads = c->body.heads;
    return srv_models_heatmaps(c->pass.req, &what, &in, out);
}

/* Sets `to` [B, rows, columns] to the means over the heads of a tensor [B, heads, rows, columns].
 */
static void mean_heads(const attn_tensor *all, float *to) {
    const size_t *d = all->dims, matrix = d[2] * d[3];
    for (size_t i = 0; i < d[0] * matrix; i++) {
        const float *from = (const float *)all->data + i / matrix * d[1] * matrix + i % matrix;
        double sum = 0;
        for (size_t h = 0; h < d[1]; h++)
            sum += (double)from[h * matrix];
        to[i] = (float)(sum / (double)d[1]);
    }
}

/* Returns the requested heads of a tensor [B, heads, rows, columns], or the mean over all heads as
 * one head. If `data` of the result is NULL, memory ran out. */
static attn_tensor choose_heads(const srv_sites_pass *c, const attn_tensor *all) {
    const bool mean = srv_sites_mean(c);
    const size_t *d = all->dims, n = mean ? 1 : c->body.heads.ints.count, matrix = d[2] * d[3];
    if (!n)
        return *all;
    float *to = attn_arena_zeroed(c->pass.req->arena, d[0] * n * matrix, sizeof *to);
    if (to && mean)
        mean_heads(all, to);
    for (size_t i = 0; to && !mean && i < d[0] * n; i++) {
        const size_t head = (size_t)c->body.heads.ints.values[i % n];
        memcpy(to + i * matrix, (const float *)all->data + (i / n * d[1] + head) * matrix,
               matrix * sizeof *to);
    }
    return attn_tensor_dense(to, ATTN_F32, 4, (size_t[4]){d[0], n, d[2], d[3]});
}

/* Sets the padding rows of a tensor [B, heads, rows, columns] to 0, because the numbers of padding
 * have no meaning. Shorter sequences have padding at the end. The rows are keys if `keys` is true,
 * else queries. */
static void clear_padding(const srv_sites_pass *c, const attn_site *site, bool keys,
                          const attn_tensor *t) {
    const size_t *d = t->dims;
    for (size_t b = 0; b < d[0]; b++) {
        const size_t length =
            (keys ? srv_sites_keys(c, site, b) : srv_sites_queries(c, site, b))->length;
        for (size_t h = 0; length < d[2] && h < d[1]; h++)
            memset((float *)t->data + ((b * d[1] + h) * d[2] + length) * d[3], 0,
                   (d[2] - length) * d[3] * sizeof(float));
    }
}

/* The tensors of a site that an answer can have, in this order. */
static const struct {
    const char *key;
    size_t offset; /* offset of the tensor in attn_site */
    unsigned item; /* the bit of `return` that requests the tensor */
    bool keys;     /* true: its rows are keys; false: they are queries */
} site_tensors[] = {
    {"weights", offsetof(attn_site, weights), SRV_SITES_WEIGHTS, false},
    {"query", offsetof(attn_site, query), SRV_SITES_INPUTS, false},
    {"key", offsetof(attn_site, key), SRV_SITES_INPUTS, true},
    {"value", offsetof(attn_site, value), SRV_SITES_INPUTS, true},
};
enum { SITE_TENSORS = sizeof site_tensors / sizeof *site_tensors };

/* Sets *out to tensor i of a site (site_tensors) with the requested heads, and `name` to its name.
 * false: the answer does not have this tensor. If out->data is NULL, memory ran out. */
static bool site_tensor(const srv_sites_pass *c, const attn_site *site, size_t i, attn_tensor *out,
                        char name[32]) {
    const unsigned item = site_tensors[i].item;
    if (item == SRV_SITES_WEIGHTS ? !srv_sites_has_weights(c) : !(c->body.returns & item))
        return false;
    snprintf(name, 32, "%s.%s.%zu", site_tensors[i].key, srv_model_site_kinds[site->kind],
             site->layer);
    *out = choose_heads(c, (const attn_tensor *)((const char *)site + site_tensors[i].offset));
    if (out->data)
        clear_padding(c, site, site_tensors[i].keys, out);
    if (srv_sites_mean(c))
        *out = attn_tensor_dense(out->data, ATTN_F32, 3,
                                 (size_t[3]){out->dims[0], out->dims[2], out->dims[3]});
    return true;
}

void srv_sites_put_tensor(attn_json_text *j, const char *key, const char *name,
                          const attn_tensor *t) {
    if (j->aside) {
        j->failed = j->failed || !srv_parts_add(srv_json_request(j), j->aside, &name, 0, t);
        return;
    }
    srv_json_key_tensor(j, key, t);
}

/* An attention site in an answer. */
typedef struct site_answer {
    const srv_sites_pass *pass;
    const attn_site *site;
    int kind;
    size_t layer;
} site_answer;

static void put_heads(attn_json_text *j, const void *place) {
    const site_answer *a = place;
    const srv_ints *list = &a->pass->body.heads.ints;
    if (srv_sites_mean(a->pass)) {
        attn_json_string(j, "mean");
        return;
    }
    attn_json_array(j);
    for (size_t h = 0; h < heads_of(a->pass, a->site); h++)
        attn_json_int(j, list->count ? list->values[h] : (int64_t)h);
    attn_json_array_end(j);
}

static const srv_field site_rows[] = {
    SRV_ALWAYS("kind", SRV_ENUM, site_answer, kind, "The kind of the site.",
               .choices = srv_model_site_kinds),
    SRV_ALWAYS("layer", SRV_INT, site_answer, layer, "Its layer, from 0."),
    SRV_WRITTEN("heads", "[integer+]|string", put_heads, "The heads, or their mean.",
                .choices = srv_run_mean_words + 1, .always = true),
    SRV_WRITTEN(
        "weights", "Numbers", NULL,
        "[B, heads, L, S], with heads mean [B, L, S], padded to the longest with zeros. Row "
        "t of cross is the step that leads to token t, or with target_begin false the step "
        "after it. As safetensors its name is like weights.cross.0."),
    SRV_WRITTEN("query", "Numbers", NULL,
                "[B, heads, rows, width / num_heads], as the scores are made of it, before the "
                "tables of positions and the matrices of a score form."),
    SRV_WRITTEN("key", "Numbers", NULL, "As query."),
    SRV_WRITTEN("value", "Numbers", NULL, "As query."),
    SRV_WRITTEN("heatmaps", "[Heatmap]", NULL, "A set of heatmaps for each sequence."),
    {0},
};

/* Writes an attention site. false: a problem is set. */
static bool put_site(attn_json_text *j, const srv_sites_pass *c, const attn_site *site) {
    const site_answer answer = {c, site, (int)site->kind, site->layer};
    attn_json_object(j);
    srv_answer_members(j, site_rows, &answer);
    for (size_t i = 0; i < SITE_TENSORS; i++) {
        attn_tensor tensor;
        char name[32];
        if (!site_tensor(c, site, i, &tensor, name))
            continue;
        j->failed = j->failed || !tensor.data;
        if (!j->failed)
            srv_sites_put_tensor(j, site_tensors[i].key, name, &tensor);
    }
    if (c->body.returns & SRV_SITES_HEATMAP) {
        attn_json_key_array(j, "heatmaps");
        for (size_t b = 0; b < c->B; b++) {
            srv_model_heatmaps maps;
            if (!heatmaps_of(c, site, b, &maps))
                return false;
            srv_heat_put(j, &maps.maps, &c->body.heatmap, &maps.labels);
        }
        attn_json_array_end(j);
    }
    attn_json_object_end(j);
    return true;
}

static void put_sequences(attn_json_text *j, const char *name, const srv_sequences *s) {
    attn_json_key_array(j, name);
    for (size_t b = 0; b < s->count; b++)
        srv_models_put(j, &s->items[b]);
    attn_json_array_end(j);
}

static void put_omitted(attn_json_text *j, const srv_sites_pass *c) {
    attn_json_key_object(j, "omitted");
    srv_omitted_write(j, "weights", srv_sites_weights(c),
                      "ask by \"return\": \"weights\", or for a heatmap");
    attn_json_object_end(j);
}

static const srv_field omitted_tensor_rows[] = {
    SRV_WRITTEN("num_values", "number", NULL, "How many values it has.", .always = true),
    SRV_WRITTEN("how", "string", NULL, "How to ask for it.", .always = true),
    {0},
};

static const srv_field omitted_rows[] = {
    SRV_GROUP("weights", omitted_tensor_rows, "The weights of all sites.", .always = true),
    {0},
};

static const srv_field attention_rows[] = {
    SRV_WRITTEN("source", "[ModelTokens]", NULL, "The sources with their tokens."),
    SRV_WRITTEN("target", "[ModelTokens]", NULL,
                "The targets with their tokens, and the end token unless target_end is false."),
    SRV_WRITTEN("sites", "[*]", NULL, "The attention sites that were asked for.",
                .fields = site_rows),
    SRV_WRITTEN("logits", "Numbers", NULL,
                "The projection of the last state of the target. Those of padded positions mean "
                "nothing."),
    SRV_WRITTEN("encoder_output", "Numbers", NULL,
                "[B, S, width]: the last state of the source, which cross attention sees."),
    SRV_WRITTEN("log_probabilities", "Numbers", NULL,
                "[B, L]: the logarithm of the probability that the model gave each token after "
                "those before it; null where nothing stands before it, and at padding."),
    SRV_WRITTEN("pooled", "Numbers", NULL,
                "[B, width]: the mean of encoder_output over the tokens that are not hidden, as "
                "sentence-transformers pools."),
    SRV_WRITTEN("masks", "[[ModelMask]]", NULL,
                "For each sequence its masked words, and what may stand there."),
    SRV_WRITTEN("states", "[*]", NULL,
                "The hidden vectors of the pass in the order in which it computes them: [B, S, "
                "width] of a step of the source, [B, T, width] of the target, [B, width] of "
                "start_hidden and start_cell, without a meaning at padding.",
                .fields = srv_sites_state_rows),
    SRV_WRITTEN("analyses", "[ModelAnalysis]", NULL,
                "Measures of all layers and heads, for each kind of site and each sequence, with "
                "the tokens as labels and the masks of the model."),
    SRV_WRITTEN("omitted", "*", NULL,
                "What the default of return left out because of its size, and how to get it.",
                .fields = omitted_rows),
    SRV_WARNINGS_MEMBER(srv_sites_pass, warnings),
    SRV_WRITTEN("run", "Run", NULL, "The stored run, with store."),
    SRV_DRY_RUN_MEMBER,
    {0},
};

const srv_field srv_models_attention_answers[] = {
    SRV_GROUP("ModelAttention", attention_rows,
              "As safetensors, tensors are left out of the JSON and have names: weights.cross.0, "
              "query.cross.0, states.source.0.lstm, states.target.norm."),
    SRV_GROUP("ModelAnalysis", srv_sites_analysis_rows,
              "Analysis of all layers and heads of one kind of site, for one sequence of the "
              "request. Its heads have layer; their batch is 0."),
    {0},
};

static void put_masks(attn_json_text *j, const srv_sites_pass *c) {
    if (!(c->body.returns & SRV_SITES_MASKS))
        return;
    attn_json_key(j, "masks");
    srv_masks_put(j, c->pass.model, &c->out.logits, &c->source, (size_t)c->body.num_alternatives);
}

void srv_sites_json(void *data, attn_json_text *j) {
    const srv_sites_pass *c = data;
    if (srv_models_reads(c->pass.model, SRV_SOURCE))
        put_sequences(j, "source", &c->source);
    if (srv_models_reads(c->pass.model, SRV_TARGET))
        put_sequences(j, "target", &c->target);
    attn_json_key_array(j, "sites");
    for (size_t i = 0; i < c->out.site_count; i++)
        if (srv_sites_wants(c, i) && !put_site(j, c, &c->out.sites[i]))
            return;
    attn_json_array_end(j);
    if (c->body.returns & SRV_SITES_LOGITS)
        srv_json_key_tensor(j, "logits", &c->out.logits);
    if (c->body.returns & SRV_SITES_ENCODER)
        srv_json_key_tensor(j, "encoder_output", &c->out.encoder);
    if (c->body.returns & SRV_SITES_PROBABILITIES)
        srv_json_key_tensor(j, "log_probabilities", &c->probabilities);
    if (c->body.returns & SRV_SITES_POOLED)
        srv_json_key_tensor(j, "pooled", &c->pooled);
    put_masks(j, c);
    srv_sites_states_write(j, c);
    srv_sites_analyses_write(j, c);
    if (c->run)
        srv_run_member(j, c->run);
    if (omits_weights(c))
        put_omitted(j, c);
    srv_warnings_write(j, &c->warnings);
}

/* Prints the heatmaps of a site. false: a problem is set. */
static bool print_heatmaps(attn_text *t, const srv_sites_pass *c, const attn_site *site) {
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    for (size_t b = 0; b < c->B; b++) {
        srv_model_heatmaps maps;
        if (!heatmaps_of(c, site, b, &maps))
            return false;
        attn_text_add(t, "%s", srv_model_site_kinds[site->kind]);
        if (m->architecture != ATTN_MODEL_SEQ2SEQ)
            attn_text_add(t, ", layer %zu", site->layer);
        attn_text_add(t, "\n");
        srv_heat_text(t, &maps.maps, &maps.labels, NULL);
    }
    return true;
}

static void print_tensors(attn_text *t, const srv_sites_pass *c, const attn_site *site,
                          srv_print print) {
    for (size_t i = 0; i < SITE_TENSORS; i++) {
        attn_tensor tensor;
        char name[32];
        if (!site_tensor(c, site, i, &tensor, name))
            continue;
        t->failed = t->failed || !tensor.data;
        if (!t->failed)
            srv_text_tensor(t, name, &tensor, print);
    }
}

/* Prints the parts that the field `return` requests. Without this field, prints heatmaps instead of
 * weights. */
void srv_sites_text(void *data, attn_text *t) {
    const srv_sites_pass *c = data;
    const bool shows = srv_sites_prints_heatmaps(c);
    const srv_print print = {(int)c->body.decimals, false};
    for (size_t i = 0; i < c->out.site_count; i++) {
        if (srv_sites_wants(c, i) && shows && !print_heatmaps(t, c, &c->out.sites[i]))
            return;
        if (srv_sites_wants(c, i) && !c->unasked)
            print_tensors(t, c, &c->out.sites[i], print);
    }
    if (c->body.returns & SRV_SITES_LOGITS)
        srv_text_tensor(t, "logits", &c->out.logits, print);
    if (c->body.returns & SRV_SITES_ENCODER)
        srv_text_tensor(t, "encoder_output", &c->out.encoder, print);
    if (c->body.returns & SRV_SITES_PROBABILITIES)
        srv_text_tensor(t, "log_probabilities", &c->probabilities, print);
    if (c->body.returns & SRV_SITES_POOLED)
        srv_text_tensor(t, "pooled", &c->pooled, print);
    srv_sites_states_text(t, c);
    srv_sites_analyses_text(t, c);
    srv_run_print(t, c->run);
    srv_warnings_text(t, &c->warnings);
}

/* Draws the last of the requested sites. By default this is the cross-attention of the last layer.
 */
void srv_sites_picture(void *data) {
    const srv_sites_pass *c = data;
    srv_model_heatmaps maps;
    const attn_site *site = NULL;
    for (size_t i = 0; i < c->out.site_count; i++)
        if (srv_sites_wants(c, i))
            site = &c->out.sites[i];
    if (site && heatmaps_of(c, site, 0, &maps))
        srv_models_draw(c->pass.req, &maps, &c->body.heatmap, &c->body.figure, c->body.decimals);
}
