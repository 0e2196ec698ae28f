/* POST /v1/models/{id}/attention runs the model once over source and target. It answers the logits
 * and, for each attention site, weights or heatmaps. A site is an attention operation of the model:
 * encoder, decoder or cross-attention of a layer. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/handlers.h"
#include "api/models_call.h"
#include "request/shared.h"

/* Bits of the field `return`. */
enum { WEIGHTS = 1, HEATMAP = 2, LOGITS = 4 };

typedef struct body {
    uint64_t given;
    srv_side source, target;
    unsigned sites, returns;
    srv_ints layers, heads;
    srv_heat_input heatmap;
    srv_figure_input figure;
    int64_t decimals, timeout_ms;
    bool dry_run;
} body;

typedef struct sites_pass {
    srv_pass pass;
    body body;
    srv_sequences source, target;
    srv_sequences read; /* the target as the decoder reads it: the begin token, then the target */
    /* Decoder steps for the longest target, its end token included. An upper bound until a target
     * has been generated. */
    size_t T;
    attn_site sites[ATTN_MODEL_SITES]; /* all attention sites of the model, without their weights */
    bool wanted[ATTN_MODEL_SITES];
    size_t site_count;
    bool unasked; /* `return` was not sent; the answer then has weights unless they are too many */
    srv_warnings warnings;
    attn_model_outputs out;
} sites_pass;

static const char *const returns[] = {"weights", "heatmap", "logits", NULL};

const srv_field srv_models_attention_fields[] = {
    SRV_SIDE_ROWS(body, source, "", "token_ids", "The source"),
    SRV_SIDE_ROWS(body, target, "target_", "target_ids",
                  "The target (default: the sequence that greedy search generates)"),
    {.name = "sites",
     .kind = SRV_FLAGS,
     .offset = offsetof(body, sites),
     .choices = srv_model_site_kinds,
     .doc = "The attention sites: encoder, decoder (the causal attention of a transformer; seq2seq "
            "has none) and cross. The default is all sites of the model. A picture shows one site, "
            "by default cross, of the last layer."},
    {.name = "layers",
     .kind = SRV_INTS,
     .offset = offsetof(body, layers),
     .max = 64,
     .doc = "Attention layers, numbered from 0; default all. seq2seq has only layer 0."},
    {.name = "heads",
     .kind = SRV_INTS,
     .offset = offsetof(body, heads),
     .max = 256,
     .doc = "Heads; default all."},
    {.name = "return",
     .kind = SRV_FLAGS,
     .offset = offsetof(body, returns),
     .choices = returns,
     .doc = "The parts of the answer: weights (default if they hold at most 65,536 values), "
            "heatmap, logits."},
    SRV_MODEL_COMMON_ROWS(body),
    {0},
};

static bool decode(sites_pass *c) {
    srv_request *req = c->pass.req;
    body *b = &c->body;
    const srv_scope scope = {req, srv_models_attention_fields, &b->given, ""};
    const size_t most = attn_model_configuration(c->pass.model->model)->max_length;
    srv_reading source = {req,  c->pass.model, &scope, SRV_SOURCE, {"text", "tokens", "token_ids"},
                          most, &c->warnings};
    srv_reading target = {
        req,      c->pass.model, &scope, SRV_TARGET, {"target_text", "target_tokens", "target_ids"},
        most - 1, &c->warnings};
    *b = (body){.decimals = -1, .figure = SRV_FIGURE_DEFAULTS};
    if (!srv_read_body(req, srv_models_attention_fields, b, &b->timeout_ms) ||
        !srv_figure_check(req, &b->figure) || !srv_models_read(&source, &b->source, &c->source) ||
        !srv_models_read(&target, &b->target, &c->target))
        return false;
    if (!c->source.count)
        return srv_refuse(&scope, SRV_VALUE, "text", "send text, tokens or token_ids");
    for (int i = 0; c->target.count && c->target.count != c->source.count && i < 3; i++)
        if (srv_given(&scope, target.names[i]))
            return srv_refuse(&scope, SRV_SHAPE, target.names[i],
                              "expected %zu target%s, one a source, found %zu", c->source.count,
                              c->source.count == 1 ? "" : "s", c->target.count);
    c->unasked = !srv_given(&scope, "return");
    if (c->unasked)
        b->returns = srv_given(&scope, "heatmap") ? WEIGHTS | HEATMAP : WEIGHTS;
    return true;
}

/* --- sites --- */

static bool lists(const srv_ints *list, size_t value) {
    for (size_t i = 0; i < list->count; i++)
        if (list->values[i] == (int64_t)value)
            return true;
    return !list->count;
}

/* Lists the model's sites and marks the requested ones. */
static void list_sites(sites_pass *c) {
    c->site_count = attn_model_sites(c->pass.model->model, c->sites);
    for (size_t i = 0; i < c->site_count; i++)
        c->wanted[i] = (!c->body.sites || (c->body.sites & 1u << c->sites[i].kind)) &&
                       lists(&c->body.layers, c->sites[i].layer);
}

/* Checks that the model has all layers (or heads) in `list` at the sites that are asked for. */
static bool check_numbers(const sites_pass *c, const srv_scope *scope, const char *name,
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

static bool has_kind(const sites_pass *c, unsigned kind) {
    for (size_t i = 0; i < c->site_count; i++)
        if ((unsigned)c->sites[i].kind == kind)
            return true;
    return false;
}

static bool check_sites(sites_pass *c) {
    const srv_scope scope = {c->pass.req, srv_models_attention_fields, &c->body.given, ""};
    const body *b = &c->body;
    list_sites(c);
    for (unsigned k = 0; k <= ATTN_SITE_CROSS; k++)
        if ((b->sites & 1u << k) && !has_kind(c, k))
            return srv_refuse(&scope, SRV_VALUE, "sites", "the model \"%s\" has no site %s",
                              c->pass.model->id, srv_model_site_kinds[k]);
    if ((srv_given(&scope, "heads") && !b->heads.count) ||
        (srv_given(&scope, "layers") && !b->layers.count))
        return srv_refuse(&scope, SRV_VALUE, b->heads.count ? "layers" : "heads",
                          "expected at least one, found an empty list");
    if (!check_numbers(c, &scope, "layers", &b->layers, true) ||
        !check_numbers(c, &scope, "heads", &b->heads, false))
        return false;
    return srv_models_may_draw(&c->pass, c->source.count);
}

/* --- limits --- */

/* Returns the number of heads of a site that are requested. */
static size_t heads_of(const sites_pass *c, const attn_site *site) {
    return c->body.heads.count ? c->body.heads.count : site->heads;
}

/* Sets the shape [heads, L, S] that the site has in the answer. */
static void site_dims(const sites_pass *c, const attn_site *site, size_t dims[3]) {
    dims[0] = heads_of(c, site);
    dims[1] = site->kind == ATTN_SITE_ENCODER ? c->source.longest : c->T;
    dims[2] = site->kind == ATTN_SITE_DECODER ? c->T : c->source.longest;
}

/* Returns the number of weights that are requested. */
static double count_weights(const sites_pass *c) {
    double count = 0;
    for (size_t i = 0; i < c->site_count; i++) {
        size_t d[3];
        site_dims(c, &c->sites[i], d);
        if (c->wanted[i])
            count += (double)c->source.count * (double)d[0] * (double)d[1] * (double)d[2];
    }
    return count;
}

/* Returns whether the answer has no weights because the request does not name them and they are
 * more than SRV_WEIGHTS_UNASKED. */
static bool omits_weights(const sites_pass *c) {
    return c->unasked && count_weights(c) > SRV_WEIGHTS_UNASKED;
}

/* Returns an upper bound of the memory of the answer in bytes: its numbers and their text. */
static double result_bytes(const sites_pass *c) {
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    const double logits = (double)c->source.count * (double)c->T * (double)m->target_vocabulary;
    double numbers =
        c->body.returns & HEATMAP || srv_draws(c->pass.req) || srv_reads_text(c->pass.req)
            ? 2 * count_weights(c)
            : 0;
    if (c->body.returns & WEIGHTS)
        numbers += count_weights(c);
    if (c->body.returns & LOGITS)
        numbers += logits;
    return SRV_MODEL_TEXT * numbers + (double)(c->source.count * (c->source.longest + c->T)) * 64;
}

static attn_model_cost cost_of(const sites_pass *c) {
    const double B = (double)c->source.count;
    attn_model_pass pass = {.B = B, .S = (double)c->source.longest, .rows = B, .T = (double)c->T};
    attn_model_cost cost = srv_models_cost(&c->pass, &pass);
    if (!c->target.count) { /* the target must be generated first */
        pass.searches = true;
        const attn_model_cost search = srv_models_cost(&c->pass, &pass);
        cost.cells += search.cells;
        cost.operations += search.operations;
        cost.bytes += search.bytes;
    }
    return cost;
}

static size_t first_wanted(const sites_pass *c, attn_site_kind kind) {
    size_t i = 0;
    while (!c->wanted[i] || c->sites[i].kind != kind)
        i++;
    return c->sites[i].layer;
}

static srv_outcome predict(const sites_pass *c, const attn_model_cost *cost) {
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    const size_t B = c->source.count;
    srv_dry dry = {.learns = true,
                   .parameters =
                       attn_parameters_count(attn_model_parameters(c->pass.model->model), "")};
    for (size_t i = 0; i < c->site_count; i++) {
        size_t d[4] = {B, 0, 0, 0};
        site_dims(c, &c->sites[i], d + 1);
        /* All layers of a kind of site have the same shape, so each kind is listed once. */
        if (c->wanted[i] && c->sites[i].layer == first_wanted(c, c->sites[i].kind))
            srv_dry_shape(&dry, srv_model_site_kinds[c->sites[i].kind], 4, d);
    }
    srv_dry_shape(&dry, "logits", 3, (size_t[3]){B, c->T, m->target_vocabulary});
    return srv_models_dry(c->pass.req, &dry, cost, result_bytes(c));
}

/* --- the answer --- */

static const srv_sequence *queries_of(const sites_pass *c, const attn_site *site, size_t b) {
    return site->kind == ATTN_SITE_ENCODER ? &c->source.items[b] : &c->target.items[b];
}

static bool heatmaps_of(const sites_pass *c, const attn_site *site, size_t b,
                        srv_model_heatmaps *out) {
    const size_t *d = site->weights.dims;
    const srv_sequence *rows = queries_of(c, site, b);
    const srv_sequence *cols =
        site->kind == ATTN_SITE_DECODER ? &c->read.items[b] : &c->source.items[b];
    srv_heat_input in = c->body.heatmap;
    const srv_model_weights what = {.weights =
                                        (const float *)site->weights.data + b * d[1] * d[2] * d[3],
                                    .heads = d[1],
                                    .head_stride = d[2] * d[3],
                                    .stride = d[3],
                                    .rows = rows->length,
                                    .cols = cols->length,
                                    .batch = b,
                                    .row_names = rows->tokens,
                                    .col_names = cols->tokens};
    if (!in.heads.is && c->body.heads.count)
        in.heads = (srv_union){.is = SRV_U_INTS, .ints = c->body.heads};
    return srv_models_heatmaps(c->pass.req, &what, &in, out);
}

/* Returns the weights of the requested heads, [B, heads, L, S]. If its `data` is NULL, memory ran
 * out. */
static attn_tensor choose_heads(const sites_pass *c, const attn_tensor *all) {
    const size_t *d = all->dims, n = c->body.heads.count, matrix = d[2] * d[3];
    if (!n)
        return *all;
    float *to = attn_arena_zeroed(c->pass.req->arena, d[0] * n * matrix, sizeof *to);
    for (size_t i = 0; to && i < d[0] * n; i++) {
        const size_t head = (size_t)c->body.heads.values[i % n];
        memcpy(to + i * matrix, (const float *)all->data + (i / n * d[1] + head) * matrix,
               matrix * sizeof *to);
    }
    return attn_tensor_dense(to, ATTN_F32, 4, (size_t[4]){d[0], n, d[2], d[3]});
}

/* Sets the rows behind the end of shorter sequences to 0, because their weights mean nothing. */
static void clear_padding(const sites_pass *c, const attn_site *site, const attn_tensor *weights) {
    const size_t *d = weights->dims;
    for (size_t b = 0; b < d[0]; b++) {
        const size_t length = queries_of(c, site, b)->length;
        for (size_t h = 0; length < d[2] && h < d[1]; h++)
            memset((float *)weights->data + ((b * d[1] + h) * d[2] + length) * d[3], 0,
                   (d[2] - length) * d[3] * sizeof(float));
    }
}

static void put_heads(srv_json *j, const sites_pass *c, const attn_site *site) {
    srv_json_key(j, "heads");
    srv_json_array(j);
    for (size_t h = 0; h < heads_of(c, site); h++)
        srv_json_int(j, c->body.heads.count ? c->body.heads.values[h] : (int64_t)h);
    srv_json_array_end(j);
}

/* Writes an attention site. false: a problem is set. */
static bool put_site(srv_json *j, const sites_pass *c, const attn_site *site) {
    srv_json_object(j);
    srv_json_key(j, "kind");
    srv_json_string(j, srv_model_site_kinds[site->kind]);
    srv_json_key(j, "layer");
    srv_json_size(j, site->layer);
    put_heads(j, c, site);
    if ((c->body.returns & WEIGHTS) && !omits_weights(c)) {
        const attn_tensor weights = choose_heads(c, &site->weights);
        j->failed = j->failed || !weights.data;
        srv_json_key(j, "weights");
        if (!j->failed) {
            clear_padding(c, site, &weights);
            srv_json_tensor(j, &weights);
        }
    }
    if (c->body.returns & HEATMAP) {
        srv_json_key(j, "heatmaps");
        srv_json_array(j);
        for (size_t b = 0; b < c->source.count; b++) {
            srv_model_heatmaps maps;
            if (!heatmaps_of(c, site, b, &maps))
                return false;
            srv_heat_write(j, &maps.maps, &c->body.heatmap, &maps.labels);
        }
        srv_json_array_end(j);
    }
    srv_json_object_end(j);
    return true;
}

static void put_sequences(srv_json *j, const char *name, const srv_sequences *s) {
    srv_json_key(j, name);
    srv_json_array(j);
    for (size_t b = 0; b < s->count; b++)
        srv_models_put(j, &s->items[b]);
    srv_json_array_end(j);
}

static void put_omitted(srv_json *j, const sites_pass *c) {
    srv_json_key(j, "omitted");
    srv_json_object(j);
    srv_json_key(j, "weights");
    srv_json_object(j);
    srv_json_key(j, "values");
    srv_json_real(j, count_weights(c));
    srv_json_key(j, "how");
    srv_json_string(j, "ask by \"return\": \"weights\", or for a heatmap");
    srv_json_object_end(j);
    srv_json_object_end(j);
}

static void answer_json(const sites_pass *c) {
    srv_json j;
    srv_json_begin(&j, c->pass.req);
    j.decimals = (int)c->body.decimals;
    srv_json_object(&j);
    put_sequences(&j, "source", &c->source);
    put_sequences(&j, "target", &c->target);
    srv_json_key(&j, "sites");
    srv_json_array(&j);
    for (size_t i = 0; i < c->out.site_count; i++)
        if (c->wanted[i] && !put_site(&j, c, &c->out.sites[i]))
            return;
    srv_json_array_end(&j);
    if (c->body.returns & LOGITS) {
        srv_json_key(&j, "logits");
        srv_json_tensor(&j, &c->out.logits);
    }
    if (omits_weights(c))
        put_omitted(&j, c);
    srv_warnings_write(&j, &c->warnings);
    srv_json_object_end(&j);
    srv_json_end(&j);
}

static void answer_text(const sites_pass *c) {
    attn_text t = srv_text_begin(c->pass.req);
    for (size_t i = 0; i < c->out.site_count; i++)
        for (size_t b = 0; c->wanted[i] && b < c->source.count; b++) {
            srv_model_heatmaps maps;
            if (!heatmaps_of(c, &c->out.sites[i], b, &maps))
                return;
            attn_text_add(&t, "%s", srv_model_site_kinds[c->out.sites[i].kind]);
            if (attn_model_configuration(c->pass.model->model)->architecture ==
                ATTN_MODEL_TRANSFORMER)
                attn_text_add(&t, ", layer %zu", c->out.sites[i].layer);
            attn_text_add(&t, "\n");
            srv_heat_text(&t, &maps.maps, &maps.labels, NULL);
        }
    srv_warnings_text(&t, &c->warnings);
    srv_text_end(c->pass.req, &t);
}

/* Draws the last of the requested sites. By default this is the cross-attention of the last layer.
 */
static void answer_picture(const sites_pass *c) {
    srv_model_heatmaps maps;
    const attn_site *site = NULL;
    for (size_t i = 0; i < c->out.site_count; i++)
        if (c->wanted[i])
            site = &c->out.sites[i];
    if (site && heatmaps_of(c, site, 0, &maps))
        srv_models_draw(c->pass.req, &maps, &c->body.heatmap, &c->body.figure, c->body.decimals);
}

static void answer(const sites_pass *c) {
    if (srv_draws(c->pass.req))
        answer_picture(c);
    else if (srv_reads_text(c->pass.req))
        answer_text(c);
    else
        answer_json(c);
}

/* --- the computation --- */

static attn_status generate(sites_pass *c, const int32_t *source, const int64_t *lengths,
                            attn_error *err) {
    srv_request *req = c->pass.req;
    const size_t B = c->source.count;
    attn_generate_options options = attn_generate_defaults();
    attn_generated *all = attn_arena_zeroed(req->arena, B, sizeof *all);
    c->target.items = attn_arena_zeroed(req->arena, B, sizeof *c->target.items);
    options.most = c->T > 1 ? c->T - 1 : 1;
    if (!all || !c->target.items)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory for the generated targets");
    const attn_status status =
        attn_model_generate(c->pass.model->model, source, lengths, B, c->source.longest, &options,
                            req->arena, srv_request_pool(req), &req->control, all, err);
    if (status)
        return status;
    c->target.count = B;
    for (size_t b = 0; b < B; b++) {
        if (!srv_models_name(req, c->pass.model, SRV_TARGET, all[b].ids, all[b].length,
                             &c->target.items[b]))
            return attn_fail(err, ATTN_ENOMEM, "", "no memory for the generated targets");
        if (all[b].length > c->target.longest)
            c->target.longest = all[b].length;
    }
    return ATTN_OK;
}

static bool compute(sites_pass *c) {
    srv_request *req = c->pass.req;
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    attn_error err = {0};
    int64_t *lengths, *target_lengths;
    const int32_t *source = srv_models_pad(req, &c->source, c->source.longest, -1, &lengths);
    if (!source)
        return false;
    attn_status status = c->target.count ? ATTN_OK : generate(c, source, lengths, &err);
    c->T = c->target.longest + 1;
    const int32_t *target =
        status ? NULL : srv_models_pad(req, &c->target, c->T, m->begin, &target_lengths);
    if (!status && !target)
        return false;
    const attn_batch batch = {.B = c->source.count,
                              .S = c->source.longest,
                              .T = c->T,
                              .source = source,
                              .source_lengths = lengths,
                              .target = target};
    if (!status)
        status = attn_model_forward(c->pass.model->model, &batch, true, req->arena,
                                    srv_request_pool(req), &req->control, &c->out, &err);
    if (status)
        srv_problem_error(req, &err);
    return !status;
}

/* Copies sequence `s` with the token of `one` added: in front if `first`, else at the end. false: a
 * problem is set. */
static bool lengthen(const sites_pass *c, const srv_sequence *s, const srv_sequence *one,
                     bool first, srv_sequence *out) {
    attn_arena *arena = c->pass.req->arena;
    *out = (srv_sequence){.length = s->length + 1, .offsets = first ? NULL : s->offsets};
    out->ids = attn_arena_zeroed(arena, out->length, sizeof *out->ids);
    out->tokens = attn_arena_zeroed(arena, out->length, sizeof *out->tokens);
    if (!out->ids || !out->tokens) {
        srv_problem(c->pass.req, SRV_MEMORY_BUDGET, NULL, "no memory for the tokens is left");
        return false;
    }
    memcpy(out->ids + first, s->ids, s->length * sizeof *s->ids);
    memcpy(out->tokens + first, s->tokens, s->length * sizeof *s->tokens);
    out->ids[first ? 0 : s->length] = one->ids[0];
    out->tokens[first ? 0 : s->length] = one->tokens[0];
    return true;
}

/* Names rows and columns of the decoder's weights. A row is named after the token that it predicts,
 * so the last row is named after the end token. A column is named after a token that the decoder
 * reads, so the first column is named after the begin token. */
static bool name_rows(sites_pass *c) {
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    const size_t B = c->target.count;
    srv_sequence begin, end, longer;
    c->read = (srv_sequences){.count = B, .longest = c->T};
    c->read.items = attn_arena_zeroed(c->pass.req->arena, B, sizeof *c->read.items);
    if (!c->read.items) {
        srv_problem(c->pass.req, SRV_MEMORY_BUDGET, NULL, "no memory for the tokens is left");
        return false;
    }
    if (!srv_models_name(c->pass.req, c->pass.model, SRV_TARGET, &m->begin, 1, &begin) ||
        !srv_models_name(c->pass.req, c->pass.model, SRV_TARGET, &m->end, 1, &end))
        return false;
    for (size_t b = 0; b < B; b++) {
        srv_sequence *s = &c->target.items[b];
        if (!lengthen(c, s, &begin, true, &c->read.items[b]) ||
            !lengthen(c, s, &end, false, &longer))
            return false;
        *s = longer;
    }
    return true;
}

/* --- the steps of srv_pass_steps --- */

static sites_pass *of(srv_pass *pass) {
    return (sites_pass *)pass;
}
static const sites_pass *in(const srv_pass *pass) {
    return (const sites_pass *)pass;
}

static bool step_decode(srv_pass *pass) {
    sites_pass *c = of(pass);
    const size_t max = attn_model_configuration(pass->model->model)->max_length;
    if (!decode(c) || !check_sites(c))
        return false;
    c->T = c->target.count ? c->target.longest + 1 : 2 * c->source.longest + 11;
    c->T = c->T < max ? c->T : max;
    pass->dry_run = c->body.dry_run;
    return true;
}

static attn_model_cost step_cost(const srv_pass *pass) {
    return cost_of(in(pass));
}

static double step_result(const srv_pass *pass) {
    return result_bytes(in(pass));
}

static srv_outcome step_predict(const srv_pass *pass, const attn_model_cost *cost) {
    return predict(in(pass), cost);
}

static bool step_compute(srv_pass *pass) {
    return compute(of(pass)) && name_rows(of(pass));
}

static void step_answer(const srv_pass *pass) {
    answer(in(pass));
}

srv_outcome srv_models_attention(srv_request *req) {
    static const srv_pass_steps steps = {step_decode,  step_cost,    step_result,
                                         step_predict, step_compute, step_answer};
    sites_pass c = {.pass = {.req = req}};
    return srv_models_run(&c.pass, &steps);
}
