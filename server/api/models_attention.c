/* POST /v1/models/{id}/attention: one pass over source and target, and where the model looked. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "admission.h"
#include "app.h"
#include "handlers.h"
#include "models_call.h"

#define MOST_WEIGHTS 65536 /* answered unasked */

enum { WEIGHTS = 1, HEATMAP = 2, LOGITS = 4 };
static const char *const returns[] = {"weights", "heatmap", "logits", NULL};
static const char *const kinds[] = {"encoder", "decoder", "cross", NULL};

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

typedef struct call {
    srv_request *req;
    const srv_model *model;
    body body;
    srv_sequences source, target;
    size_t
        T; /* steps of the longest target, the end among them; expected ones before it is known */
    bool unasked; /* `return` is the default */
    attn_warnings warnings;
    attn_model_outputs out;
} call;

const srv_field srv_models_attention_fields[] = {
    SRV_SIDE_ROWS(body, source, "", "token_ids", "The source"),
    SRV_SIDE_ROWS(body, target, "target_", "target_ids",
                  "The target (default: what the model generates greedily)"),
    {.name = "sites",
     .kind = SRV_FLAGS,
     .offset = offsetof(body, sites),
     .choices = kinds,
     .doc = "Which attentions: encoder, decoder (this architecture has none), cross; default those "
            "that there are. A picture shows one, by default cross."},
    {.name = "layers",
     .kind = SRV_INTS,
     .offset = offsetof(body, layers),
     .max = 64,
     .doc = "Which layers of attention; this architecture has one, 0."},
    {.name = "heads",
     .kind = SRV_INTS,
     .offset = offsetof(body, heads),
     .max = 256,
     .doc = "Which heads; default all."},
    {.name = "return",
     .kind = SRV_FLAGS,
     .offset = offsetof(body, returns),
     .choices = returns,
     .doc = "weights (default, up to 65,536 values), heatmap, logits."},
    SRV_MODEL_COMMON_ROWS(body),
    {0},
};

static bool decode(call *c) {
    srv_request *req = c->req;
    body *b = &c->body;
    const srv_scope scope = {req, srv_models_attention_fields, b, ""};
    const size_t most = attn_model_configuration(c->model->model)->max_length;
    srv_reading source = {req,  c->model,    &scope, SRV_SOURCE, {"text", "tokens", "token_ids"},
                          most, &c->warnings};
    srv_reading target = {
        req,      c->model,    &scope, SRV_TARGET, {"target_text", "target_tokens", "target_ids"},
        most - 1, &c->warnings};
    *b = (body){.decimals = -1};
    srv_heat_init(&b->heatmap);
    srv_figure_init(&b->figure);
    if (!srv_decode(req, srv_models_attention_fields, b))
        return false;
    srv_hurry(req, b->timeout_ms);
    if (!srv_figure_check(req, &b->figure) || !srv_models_read(&source, &b->source, &c->source) ||
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

static size_t site_heads(const call *c, attn_site_kind kind) {
    return kind == ATTN_SITE_CROSS ? srv_models_cross_heads(c->model)
                                   : attn_model_configuration(c->model->model)->heads;
}

/* Is the site there, and asked for? */
static bool has_site(const call *c, attn_site_kind kind) {
    return srv_models_attends(c->model) && kind != ATTN_SITE_DECODER &&
           (!c->body.sites || (c->body.sites & 1u << kind));
}

static bool check_heads(const call *c, const srv_scope *scope, attn_site_kind kind) {
    const size_t heads = site_heads(c, kind);
    for (size_t i = 0; i < c->body.heads.count; i++) {
        char at[32];
        snprintf(at, sizeof at, "heads/%zu", i);
        if (c->body.heads.values[i] < 0 || (uint64_t)c->body.heads.values[i] >= heads)
            return srv_refuse(scope, SRV_VALUE, at,
                              "the site %s has the heads 0 to %zu, found %" PRId64, kinds[kind],
                              heads - 1, c->body.heads.values[i]);
    }
    return true;
}

static bool check_sites(const call *c) {
    const srv_scope scope = {c->req, srv_models_attention_fields, &c->body, ""};
    const body *b = &c->body;
    for (unsigned k = 0; k <= ATTN_SITE_CROSS; k++)
        if ((b->sites & 1u << k) && !has_site(c, (attn_site_kind)k))
            return srv_refuse(&scope, SRV_VALUE, "sites", "the model \"%s\" has no site %s",
                              c->model->id, kinds[k]);
    for (size_t i = 0; i < b->layers.count; i++) {
        char at[32];
        snprintf(at, sizeof at, "layers/%zu", i);
        if (b->layers.values[i] != 0)
            return srv_refuse(&scope, SRV_VALUE, at,
                              "the model has one layer of attention, 0; found %" PRId64,
                              b->layers.values[i]);
    }
    if ((srv_given(&scope, "heads") && !b->heads.count) ||
        (srv_given(&scope, "layers") && !b->layers.count))
        return srv_refuse(&scope, SRV_VALUE, b->heads.count ? "layers" : "heads",
                          "expected at least one, found an empty list");
    for (unsigned k = 0; k <= ATTN_SITE_CROSS; k++)
        if (has_site(c, (attn_site_kind)k) && !check_heads(c, &scope, (attn_site_kind)k))
            return false;
    if (!srv_draws(c->req))
        return true;
    if (!srv_models_attends(c->model))
        srv_problem(c->req, SRV_VALUE, NULL,
                    "the model \"%s\" has no attention that could be drawn", c->model->id);
    else if (c->source.count > 1)
        srv_problem(c->req, SRV_VALUE, NULL, "a picture shows one sequence, found %zu",
                    c->source.count);
    else
        return true;
    return false;
}

/* --- limits --- */

static size_t chosen(const call *c, attn_site_kind kind) {
    return c->body.heads.count ? c->body.heads.count : site_heads(c, kind);
}

static double weight_count(const call *c) {
    const double B = (double)c->source.count, S = (double)c->source.longest;
    double count = 0;
    if (has_site(c, ATTN_SITE_ENCODER))
        count += B * (double)chosen(c, ATTN_SITE_ENCODER) * S * S;
    if (has_site(c, ATTN_SITE_CROSS))
        count += B * (double)chosen(c, ATTN_SITE_CROSS) * S * (double)c->T;
    return count;
}

/* Bytes of the answer: numbers and their text. */
static double result_bytes(const call *c) {
    const attn_model_config *m = attn_model_configuration(c->model->model);
    const double logits = (double)c->source.count * (double)c->T * (double)m->target_vocabulary;
    double numbers = c->body.returns & HEATMAP || srv_draws(c->req) || srv_plain(c->req)
                         ? 2 * weight_count(c)
                         : 0;
    if (c->body.returns & WEIGHTS)
        numbers += weight_count(c);
    if (c->body.returns & LOGITS)
        numbers += logits;
    return SRV_MODEL_TEXT * numbers + (double)(c->source.count * (c->source.longest + c->T)) * 64;
}

static srv_pass_cost cost_of(const call *c) {
    const double B = (double)c->source.count, S = (double)c->source.longest, T = (double)c->T;
    srv_pass_cost cost = srv_models_cost(c->req, c->model, B, S, B, T);
    if (!c->target.count) { /* generated first */
        const srv_pass_cost search = srv_models_search_cost(c->req, c->model, B, S, B, T);
        cost.cells += search.cells;
        cost.operations += search.operations;
        cost.bytes += search.bytes;
    }
    return cost;
}

/* Too many weights to be answered unasked? */
static bool omits(const call *c) {
    return c->unasked && weight_count(c) > MOST_WEIGHTS;
}

static srv_outcome predict(const call *c, const srv_pass_cost *cost) {
    const attn_model_config *m = attn_model_configuration(c->model->model);
    const size_t B = c->source.count, S = c->source.longest;
    srv_dry dry = {.learns = true,
                   .parameters = attn_parameters_count(attn_model_parameters(c->model->model), "")};
    if (has_site(c, ATTN_SITE_ENCODER))
        srv_dry_shape(&dry, "encoder", 4, (size_t[4]){B, chosen(c, ATTN_SITE_ENCODER), S, S});
    if (has_site(c, ATTN_SITE_CROSS))
        srv_dry_shape(&dry, "cross", 4, (size_t[4]){B, chosen(c, ATTN_SITE_CROSS), c->T, S});
    srv_dry_shape(&dry, "logits", 3, (size_t[3]){B, c->T, m->target_vocabulary});
    return srv_models_dry(c->req, &dry, cost, result_bytes(c));
}

/* --- the pass --- */

static attn_status generate(call *c, const int32_t *source, const int64_t *lengths,
                            attn_error *err) {
    srv_request *req = c->req;
    const size_t B = c->source.count;
    attn_generate_options options = attn_generate_defaults();
    attn_generated *all = attn_arena_zeroed(req->arena, B, sizeof *all);
    c->target.items = attn_arena_zeroed(req->arena, B, sizeof *c->target.items);
    options.most = c->T > 1 ? c->T - 1 : 1;
    if (!all || !c->target.items)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory for the generated targets");
    const attn_status status =
        attn_model_generate(c->model->model, source, lengths, B, c->source.longest, &options,
                            req->arena, srv_request_pool(req), &req->control, all, err);
    if (status)
        return status;
    c->target.count = B;
    for (size_t b = 0; b < B; b++) {
        if (!srv_models_name(req, c->model, SRV_TARGET, all[b].ids, all[b].length,
                             &c->target.items[b]))
            return attn_fail(err, ATTN_ENOMEM, "", "no memory for the generated targets");
        if (all[b].length > c->target.longest)
            c->target.longest = all[b].length;
    }
    return ATTN_OK;
}

static bool compute(call *c) {
    srv_request *req = c->req;
    const attn_model_config *m = attn_model_configuration(c->model->model);
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
        status = attn_model_forward(c->model->model, &batch, true, req->arena,
                                    srv_request_pool(req), &req->control, &c->out, &err);
    if (status)
        srv_problem_error(req, &err);
    return !status;
}

/* The targets as rows are called: each row by the token that it leads to, the last by the end. */
static bool add_ends(call *c) {
    const int32_t end = attn_model_configuration(c->model->model)->end;
    srv_sequence last;
    if (!srv_models_name(c->req, c->model, SRV_TARGET, &end, 1, &last))
        return false;
    for (size_t b = 0; b < c->target.count; b++) {
        srv_sequence *s = &c->target.items[b], longer = {.length = s->length + 1};
        attn_arena *arena = c->req->arena;
        longer.ids = attn_arena_zeroed(arena, longer.length, sizeof *longer.ids);
        longer.tokens = attn_arena_zeroed(arena, longer.length, sizeof *longer.tokens);
        if (!longer.ids || !longer.tokens) {
            srv_problem(c->req, SRV_MEMORY_BUDGET, NULL, "no memory for the tokens is left");
            return false;
        }
        memcpy(longer.ids, s->ids, s->length * sizeof *s->ids);
        memcpy(longer.tokens, s->tokens, s->length * sizeof *s->tokens);
        longer.offsets = s->offsets;
        longer.ids[s->length] = end;
        longer.tokens[s->length] = last.tokens[0];
        *s = longer;
    }
    return true;
}

/* --- the answer --- */

static bool look(const call *c, const attn_site *site, size_t b, srv_looked *out) {
    const size_t *d = site->weights.dims;
    const srv_sequence *cols = &c->source.items[b];
    const srv_sequence *rows = site->kind == ATTN_SITE_CROSS ? &c->target.items[b] : cols;
    srv_heat_input in = c->body.heatmap;
    const srv_look what = {.weights = (const float *)site->weights.data + b * d[1] * d[2] * d[3],
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
    return srv_models_look(c->req, &what, &in, out);
}

/* The weights of the chosen heads, [B, heads, L, S]; data NULL: no memory. */
static attn_tensor choose_heads(const call *c, const attn_tensor *all) {
    const size_t *d = all->dims, n = c->body.heads.count, matrix = d[2] * d[3];
    if (!n)
        return *all;
    float *to = attn_arena_zeroed(c->req->arena, d[0] * n * matrix, sizeof *to);
    for (size_t i = 0; to && i < d[0] * n; i++) {
        const size_t head = (size_t)c->body.heads.values[i % n];
        memcpy(to + i * matrix, (const float *)all->data + (i / n * d[1] + head) * matrix,
               matrix * sizeof *to);
    }
    return attn_tensor_dense(to, ATTN_F32, 4, (size_t[4]){d[0], n, d[2], d[3]});
}

static void put_heads(srv_json *j, const call *c, const attn_site *site) {
    srv_json_key(j, "heads");
    srv_json_array(j);
    for (size_t h = 0; h < chosen(c, site->kind); h++)
        srv_json_int(j, c->body.heads.count ? c->body.heads.values[h] : (int64_t)h);
    srv_json_array_end(j);
}

/* false: a problem is set. */
static bool put_site(srv_json *j, const call *c, const attn_site *site) {
    srv_json_object(j);
    srv_json_key(j, "kind");
    srv_json_string(j, kinds[site->kind]);
    srv_json_key(j, "layer");
    srv_json_size(j, 0);
    put_heads(j, c, site);
    if ((c->body.returns & WEIGHTS) && !omits(c)) {
        const attn_tensor weights = choose_heads(c, &site->weights);
        j->failed = j->failed || !weights.data;
        srv_json_key(j, "weights");
        if (!j->failed)
            srv_json_tensor(j, &weights);
    }
    if (c->body.returns & HEATMAP) {
        srv_json_key(j, "heatmaps");
        srv_json_array(j);
        for (size_t b = 0; b < c->source.count; b++) {
            srv_looked looked;
            if (!look(c, site, b, &looked))
                return false;
            srv_heat_write(j, &looked.maps, &c->body.heatmap, &looked.labels);
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

static void put_omitted(srv_json *j, const call *c) {
    srv_json_key(j, "omitted");
    srv_json_object(j);
    srv_json_key(j, "weights");
    srv_json_object(j);
    srv_json_key(j, "values");
    srv_json_real(j, weight_count(c));
    srv_json_key(j, "how");
    srv_json_string(j, "ask by \"return\": \"weights\", or for a heatmap");
    srv_json_object_end(j);
    srv_json_object_end(j);
}

static void answer_json(const call *c) {
    srv_json j;
    srv_json_begin(&j, c->req);
    j.decimals = (int)c->body.decimals;
    srv_json_object(&j);
    put_sequences(&j, "source", &c->source);
    put_sequences(&j, "target", &c->target);
    srv_json_key(&j, "sites");
    srv_json_array(&j);
    for (size_t i = 0; i < c->out.site_count; i++)
        if (has_site(c, c->out.sites[i].kind) && !put_site(&j, c, &c->out.sites[i]))
            return;
    srv_json_array_end(&j);
    if (c->body.returns & LOGITS) {
        srv_json_key(&j, "logits");
        srv_json_tensor(&j, &c->out.logits);
    }
    if (omits(c))
        put_omitted(&j, c);
    srv_warnings_write(&j, &c->warnings);
    srv_json_object_end(&j);
    srv_json_end(&j);
}

static void answer_text(const call *c) {
    attn_text t = srv_plain_begin(c->req);
    for (size_t i = 0; i < c->out.site_count; i++)
        for (size_t b = 0; has_site(c, c->out.sites[i].kind) && b < c->source.count; b++) {
            srv_looked looked;
            if (!look(c, &c->out.sites[i], b, &looked))
                return;
            attn_text_add(&t, "%s\n", kinds[c->out.sites[i].kind]);
            srv_heat_text(&t, &looked.maps, &looked.labels, NULL);
        }
    srv_warnings_text(&t, &c->warnings);
    srv_plain_end(c->req, &t);
}

/* One site as a picture: the last one of those that were asked for, which is cross by default. */
static void answer_picture(const call *c) {
    srv_looked looked;
    const attn_site *site = NULL;
    for (size_t i = 0; i < c->out.site_count; i++)
        if (has_site(c, c->out.sites[i].kind))
            site = &c->out.sites[i];
    if (!site || !look(c, site, 0, &looked))
        return;
    const srv_heat_answer all = {.maps = &looked.maps,
                                 .in = &c->body.heatmap,
                                 .labels = &looked.labels,
                                 .figure = &c->body.figure,
                                 .decimals = (int)c->body.decimals};
    srv_heat_draw(c->req, &all);
}

static srv_outcome run(call *c) {
    srv_request *req = c->req;
    const size_t max = attn_model_configuration(c->model->model)->max_length;
    const int64_t start = attn_now_ns();
    const bool ok = decode(c) && check_sites(c);
    req->decode_ns = attn_now_ns() - start;
    if (!ok)
        return req->in_place && req->reply.status == 413 ? SRV_DEFER : SRV_DONE;
    c->T = c->target.count ? c->target.longest + 1 : 2 * c->source.longest + 11;
    c->T = c->T < max ? c->T : max;
    const srv_pass_cost cost = cost_of(c);
    if (c->body.dry_run)
        return predict(c, &cost);
    if (req->in_place && (cost.operations > SRV_MODEL_IN_PLACE || srv_draws(req)))
        return SRV_DEFER;
    if (!srv_models_fits(req, &cost, result_bytes(c), false) ||
        !srv_admission_work(req, cost.bytes + result_bytes(c)))
        return SRV_DONE;
    const int64_t begun = attn_now_ns();
    const bool done = compute(c) && add_ends(c);
    const int64_t computed = attn_now_ns();
    req->compute_ns = computed - begun;
    if (done && srv_draws(req))
        answer_picture(c);
    else if (done && srv_plain(req))
        answer_text(c);
    else if (done)
        answer_json(c);
    req->encode_ns = attn_now_ns() - computed;
    return SRV_DONE;
}

srv_outcome srv_models_attention(srv_request *req) {
    if (req->in_place && !srv_models_is_read(req, req->params[0]))
        return SRV_DEFER;
    call c = {.req = req, .model = srv_models_hold(req, req->params[0])};
    const srv_outcome outcome = c.model ? run(&c) : SRV_DONE;
    srv_models_release(req, c.model);
    return outcome;
}
