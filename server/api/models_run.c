#include "api/models_run.h"

#include <stdio.h>
#include <string.h>

#include "api/models_call.h"
#include "request/shared.h"

enum { NAME = 32 }; /* bytes of a site's name with the NUL */

static bool no_memory(srv_request *req) {
    srv_problem_memory(req, "/store", "no memory is left for the run");
    return false;
}

bool srv_model_run_check(const srv_scope *scope, const srv_model *model, bool store) {
    return !store || srv_models_attends(model) ||
           srv_refuse(scope, SRV_VALUE, "store",
                      "the model \"%s\" has no attention that could be stored", model->id);
}

/* --- cost --- */

/* Bytes of a site's text in the image and in the description, without its labels, and of a label:
 * in the texts, in their copies, and in the description. */
#define SITE_TEXT  8192.0
#define LABEL_TEXT 48.0

bool srv_model_run_dims(srv_request *req, const attn_model_config *m, const attn_site *site,
                        size_t B, size_t S, size_t T, attn_attention_dims *out) {
    attn_error err = {0};
    const size_t L = site->kind == ATTN_SITE_ENCODER ? S : T;
    const size_t keys = site->kind == ATTN_SITE_DECODER ? T : S;
    attn_inputs in = attn_attention_defaults();
    in.query = attn_tensor_dense(NULL, ATTN_F32, 3, (size_t[3]){B, L, m->width});
    in.key = in.value = attn_tensor_dense(NULL, ATTN_F32, 3, (size_t[3]){B, keys, m->width});
    in.layout = ATTN_BLD;
    in.num_heads = site->heads;
    if (!attn_attention_shape(&in, out, &err))
        return true;
    srv_problem_error(req, &err);
    return false;
}

bool srv_model_run_cost(srv_request *req, const srv_model *model, size_t B, size_t S, size_t T,
                        attn_model_cost *cost, double *text) {
    const attn_model_config *m = attn_model_configuration(model->model);
    const double tokens = (double)B * ((double)S + (double)T);
    attn_site sites[ATTN_MODEL_SITES];
    const size_t count = attn_model_sites(model->model, sites);
    attn_error err = {0};
    cost->bytes += LABEL_TEXT * tokens;
    for (size_t i = 0; i < count; i++) {
        attn_attention_dims d;
        attn_cost one;
        if (!srv_model_run_dims(req, m, &sites[i], B, S, T, &d))
            return false;
        if (attn_run_cost(&d, attn_pool_slots(req->app->pool), &one, &err)) {
            srv_problem_error(req, &err);
            return false;
        }
        cost->operations += one.operations;
        cost->bytes += (double)one.work_bytes + SITE_TEXT + (double)B * (double)S;
        *text += SITE_TEXT + LABEL_TEXT * (double)B * ((double)d.L + (double)d.S);
    }
    return true;
}

/* --- texts --- */

bool srv_model_run_special(const attn_model_config *m, int64_t id) {
    return id == m->pad || id == m->begin || id == m->end;
}

/* Allocates a text for n tokens, with ids and marks of special tokens. */
static bool take_text(const srv_model_run *r, size_t n, const char ***tokens, int64_t **ids,
                      uint8_t **special) {
    attn_arena *arena = r->req->arena;
    *tokens = attn_arena_zeroed(arena, n + 1, sizeof **tokens);
    *ids = attn_arena_zeroed(arena, n + 1, sizeof **ids);
    *special = attn_arena_zeroed(arena, n + 1, 1);
    return *tokens && *ids && *special;
}

/* Returns the ranges of the tokens of `s`, with an empty range in front if `begins`. NULL: there is
 * no memory. */
static const size_t (*spans_of(const srv_model_run *r, const srv_sequence *s, bool begins))[2] {
    const size_t n = s->length + begins;
    size_t(*spans)[2] = attn_arena_zeroed(r->req->arena, n + 1, sizeof *spans);
    if (spans)
        memcpy(spans + begins, s->spans, s->length * sizeof *spans);
    return (const size_t(*)[2])spans;
}

/* Makes the text of a sequence, with the begin token in front of it if `begins`. */
static bool make_text(const srv_model_run *r, const srv_sequence *s, int which, bool begins,
                      attn_run_text *out) {
    const attn_model_config *m = attn_model_configuration(r->model->model);
    const size_t n = s->length + begins;
    const char **tokens;
    int64_t *ids;
    uint8_t *special;
    srv_sequence begin;
    if (!take_text(r, n, &tokens, &ids, &special))
        return no_memory(r->req);
    if (begins) {
        if (!srv_models_name(r->req, r->model, which, &m->begin, 1, &begin))
            return false;
        tokens[0] = begin.tokens[0];
        ids[0] = begin.ids[0];
    }
    if (s->length)
        memcpy(tokens + begins, s->tokens, s->length * sizeof *tokens);
    for (size_t i = 0; i < s->length; i++)
        ids[begins + i] = s->ids[i];
    for (size_t i = 0; i < n; i++)
        special[i] = srv_model_run_special(m, ids[i]);
    *out = (attn_run_text){
        .count = n, .tokens = tokens, .ids = ids, .special = special, .text = s->text};
    if (s->text && !(out->offsets = spans_of(r, s, begins)))
        return no_memory(r->req);
    return true;
}

bool srv_model_run_begin(srv_model_run *r, srv_request *req, const srv_model *model,
                         const srv_sequences *source) {
    const size_t B = source->count;
    attn_arena *arena = req->arena;
    *r = (srv_model_run){.req = req,
                         .model = model,
                         .B = B,
                         .texts = attn_arena_zeroed(arena, 2 * B, sizeof *r->texts),
                         .source = attn_arena_zeroed(arena, B, sizeof *r->source),
                         .target = attn_arena_zeroed(arena, B, sizeof *r->target),
                         .source_lengths = attn_arena_zeroed(arena, B, sizeof(int64_t)),
                         .rows = attn_arena_zeroed(arena, B, sizeof(int64_t)),
                         .read = attn_arena_zeroed(arena, B, sizeof(int64_t))};
    if (!r->texts || !r->source || !r->target || !r->source_lengths || !r->rows || !r->read)
        return no_memory(req);
    for (size_t b = 0; b < B; b++) {
        r->source[b] = b;
        r->target[b] = B + b;
        r->source_lengths[b] = (int64_t)source->items[b].length;
        if (!make_text(r, &source->items[b], SRV_SOURCE, false, &r->texts[b]))
            return false;
    }
    return true;
}

bool srv_model_run_target(srv_model_run *r, size_t b, bool begins, const srv_sequence *rows,
                          size_t read) {
    r->start = begins;
    r->rows[b] = (int64_t)rows->length;
    r->read[b] = (int64_t)read;
    return make_text(r, rows, SRV_TARGET, begins, &r->texts[r->B + b]);
}

bool srv_model_run_start(srv_model_run *r, size_t b) {
    const srv_sequence none = {.length = 0};
    r->start = 1;
    r->rows[b] = r->read[b] = 1;
    return make_text(r, &none, SRV_TARGET, true, &r->texts[r->B + b]);
}

/* --- storing --- */

static const attn_run_kind kinds[] = {[ATTN_SITE_ENCODER] = ATTN_RUN_ENCODER,
                                      [ATTN_SITE_DECODER] = ATTN_RUN_DECODER,
                                      [ATTN_SITE_CROSS] = ATTN_RUN_CROSS};

/* Returns the lengths, or NULL if none is shorter than `longest`. */
static const int64_t *ragged(const srv_model_run *r, const int64_t *lengths, size_t longest) {
    bool shorter = false;
    for (size_t b = 0; b < r->B; b++)
        shorter = shorter || (size_t)lengths[b] < longest;
    return shorter ? lengths : NULL;
}

/* Describes a site. false: there is no memory. */
static bool describe(const srv_model_run *r, const attn_site *site, attn_run_site_source *out) {
    const attn_attention_dims *d = attn_attention_dims_of(site->operation);
    const bool encodes = site->kind == ATTN_SITE_ENCODER, itself = site->kind == ATTN_SITE_DECODER;
    char name[NAME];
    const int n =
        snprintf(name, sizeof name, "%s.%zu", srv_model_site_kinds[site->kind], site->layer);
    *out = (attn_run_site_source){
        .op = site->operation,
        .stats = site->stats,
        .info = {.name = attn_arena_text(r->req->arena, name, (size_t)n),
                 .kind = kinds[site->kind],
                 .layer = site->layer,
                 .query_start = encodes ? 0 : r->start,
                 .query_texts = encodes ? r->source : r->target,
                 .query_text_count = r->B,
                 .query_lengths = ragged(r, encodes ? r->source_lengths : r->rows, d->L),
                 .key_texts = itself ? r->target : r->source,
                 .key_text_count = r->B,
                 .key_lengths = ragged(r, itself ? r->read : r->source_lengths, d->S)}};
    return out->info.name;
}

bool srv_model_run_source(const srv_model_run *r, const attn_site *sites, size_t count,
                          attn_run_source *out) {
    attn_run_site_source *all = attn_arena_zeroed(r->req->arena, count + 1, sizeof *all);
    bool ok = all;
    for (size_t i = 0; ok && i < count; i++)
        ok = describe(r, &sites[i], &all[i]);
    *out = (attn_run_source){.sites = all,
                             .site_count = count,
                             .texts = r->texts,
                             .text_count = 2 * r->B,
                             .model = r->model->id};
    return ok || no_memory(r->req);
}

const srv_run *srv_model_run_store(const srv_model_run *r, const attn_site *sites, size_t count) {
    srv_request *req = r->req;
    attn_metadata metadata[2];
    attn_run_source source;
    attn_run_image image;
    attn_error err = {0};
    if (!srv_model_run_source(r, sites, count, &source) ||
        !srv_run_metadata(req, metadata, &source.metadata_count))
        return NULL;
    source.metadata = metadata;
    if (attn_run_image_new(&source, srv_request_pool(req), &req->control, req->arena, &image,
                           &err)) {
        srv_problem_error(req, &err);
        return NULL;
    }
    return srv_run_store(req, &image);
}
