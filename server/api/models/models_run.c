#include "api/models/models_run.h"

#include <string.h>

#include "api/models/models_call.h"
#include "request/shared.h"

static bool no_memory(srv_request *req) {
    return srv_problem_memory(req, "/store", "no memory is left for the run");
}

bool srv_model_run_check(const srv_scope *scope, const srv_model *model, bool store) {
    return !store || srv_models_attends(model) ||
           srv_refuse(scope, SRV_VALUE, "store",
                      "the model \"%s\" has no attention that could be stored", model->id);
}

/* --- cost --- */

/* Upper bounds in bytes. */
#define SITE_TEXT  8192.0 /* the JSON of a site without labels, in the image or the description */
#define LABEL_TEXT 48.0   /* a label in the texts, in copies of the texts or in the description */

bool srv_model_run_dims(srv_request *req, const attn_model_config *m, const attn_site *site,
                        size_t B, size_t S, size_t T, attn_attention_dims *out) {
    attn_error err = {0};
    const size_t L = site->kind == ATTN_SITE_ENCODER ? S : T;
    const size_t keys = site->kind == ATTN_SITE_DECODER ? T : S;
    attn_inputs in = attn_attention_defaults();
    const size_t width = site->heads * (m->head_width ? m->head_width : m->width / site->heads);
    in.query = attn_tensor_dense(NULL, ATTN_F32, 3, (size_t[3]){B, L, width});
    in.key = in.value = attn_tensor_dense(NULL, ATTN_F32, 3, (size_t[3]){B, keys, width});
    in.layout = ATTN_BLD;
    in.num_heads = site->heads;
    return !attn_attention_shape(&in, out, &err) || srv_problem_error(req, &err);
}

bool srv_model_run_cost(srv_request *req, const srv_model *model, size_t B, size_t S, size_t T,
                        attn_model_cost *cost, double *text) {
    const attn_model_config *m = attn_model_configuration(model->model);
    const double tokens = (double)B * ((double)S + (double)T);
    size_t count;
    const attn_site *sites = attn_model_sites(model->model, &count);
    attn_error err = {0};
    cost->bytes += LABEL_TEXT * tokens;
    for (size_t i = 0; i < count; i++) {
        attn_attention_dims d;
        attn_cost one;
        if (!srv_model_run_dims(req, m, &sites[i], B, S, T, &d))
            return false;
        if (attn_run_cost(&d, attn_pool_slots(req->app->pool), &one, &err))
            return srv_problem_error(req, &err);
        cost->operations += one.operations;
        cost->bytes += (double)one.work_bytes + SITE_TEXT + (double)B * (double)S;
        *text += SITE_TEXT + LABEL_TEXT * (double)B * ((double)d.L + (double)d.S);
    }
    return true;
}

/* --- texts --- */

/* Returns the byte ranges of the tokens of `s` in its text. If `begins` is true, an empty range for
 * the begin token comes first. NULL: out of memory. */
static const size_t (*spans_of(const srv_model_run *r, const srv_sequence *s, bool begins))[2] {
    const size_t n = s->length + begins;
    size_t(*spans)[2] = attn_arena_zeroed(r->req->arena, n + 1, sizeof *spans);
    if (spans)
        memcpy(spans + begins, s->spans, s->length * sizeof *spans);
    return (const size_t(*)[2])spans;
}

/* Makes the text of a sequence. If `first` is not NULL, this token comes in front. false: a problem
 * is set. */
static bool make_text(const srv_model_run *r, const srv_sequence *s, int which,
                      const int32_t *first, attn_run_text *out) {
    const attn_model_config *m = attn_model_configuration(r->model->model);
    const bool begins = first;
    const char **tokens;
    int64_t *ids;
    srv_sequence begin;
    if (!srv_run_plan_text(s->length + begins, r->req->arena, out, &tokens, &ids))
        return no_memory(r->req);
    if (begins) {
        if (!srv_models_name(r->req, r->model, which, first, 1, &begin))
            return false;
        tokens[0] = begin.tokens[0];
        ids[0] = begin.ids[0];
    }
    for (size_t i = 0; i < s->length; i++) {
        tokens[begins + i] = s->tokens[i];
        ids[begins + i] = s->ids[i];
    }
    srv_run_plan_mark(m, out);
    out->text = s->text;
    if (s->text && !(out->offsets = spans_of(r, s, begins)))
        return no_memory(r->req);
    return true;
}

bool srv_model_run_begin(srv_model_run *r, srv_request *req, const srv_model *model, size_t B,
                         const srv_sequences *source) {
    *r = (srv_model_run){.req = req, .model = model};
    if (!srv_run_plan_new(&r->plan, model->id, attn_model_configuration(model->model), B,
                          req->arena))
        return no_memory(req);
    for (size_t b = 0; srv_models_reads(model, SRV_SOURCE) && b < B; b++) {
        r->plan.source_lengths[b] = (int64_t)source->items[b].length;
        if (!make_text(r, &source->items[b], SRV_SOURCE, NULL, &r->plan.texts[b]))
            return false;
    }
    return true;
}

bool srv_model_run_target(srv_model_run *r, size_t b, bool begins, const srv_sequence *rows,
                          size_t read) {
    r->plan.start = begins;
    r->plan.rows[b] = (int64_t)rows->length;
    r->plan.read[b] = (int64_t)read;
    const int32_t *first = begins ? &attn_model_configuration(r->model->model)->begin : NULL;
    return make_text(r, rows, SRV_TARGET, first, &r->plan.texts[r->plan.target[b]]);
}

bool srv_model_run_start(srv_model_run *r, size_t b, int32_t first) {
    const srv_sequence none = {.length = 0};
    r->plan.start = 1;
    r->plan.rows[b] = r->plan.read[b] = 1;
    return make_text(r, &none, SRV_TARGET, &first, &r->plan.texts[r->plan.target[b]]);
}

/* --- storing --- */

const srv_run *srv_model_run_store(const srv_model_run *r, const attn_site *sites, size_t count) {
    srv_request *req = r->req;
    attn_metadata metadata[2];
    attn_run_source source;
    attn_run_image image;
    attn_error err = {0};
    if (!srv_run_plan_source(&r->plan, sites, count, req->arena, &source)) {
        no_memory(req);
        return NULL;
    }
    if (!srv_run_metadata(req, metadata, &source.metadata_count))
        return NULL;
    source.metadata = metadata;
    if (attn_run_image_new(&source, srv_request_pool(req), &req->control, req->arena, &image,
                           &err)) {
        srv_problem_error(req, &err);
        return NULL;
    }
    return srv_run_store(req, &image);
}
