/* POST /v1/attention: the steps compute, store and answer. */
#include <stdio.h>
#include <string.h>

#include "api/attention/attention_api.h"
#include "api/attention/attention_call.h"
#include "api/stored/stored_api.h"
#include "base/try.h"
#include "request/shared.h"

/* --- the stored run --- */

/* The labels of the request as texts of a run. Equal lists of labels are stored once, as one
 * text. */
typedef struct run_texts {
    attn_run_text *texts; /* [count] */
    size_t count;
    /* [number of label sets] indices in `texts` of the labels of queries and of keys. There is one
     * set for all batch entries, or one for each. NULL: no labels. */
    size_t *query, *key;
} run_texts;

static bool is_same_list(const attn_run_text *text, const srv_strings *list) {
    bool same = text->count == list->count;
    for (size_t i = 0; same && i < list->count; i++)
        same = strcmp(text->tokens[i], list->values[i]) == 0;
    return same;
}

/* Returns the index of the text with these tokens. Adds the text if it is new. */
static size_t number_of(run_texts *t, const srv_strings *list) {
    for (size_t i = 0; i < t->count; i++)
        if (is_same_list(&t->texts[i], list))
            return i;
    t->texts[t->count] =
        (attn_run_text){.count = list->count, .tokens = (const char *const *)list->values};
    return t->count++;
}

/* Collects the labels. false: out of memory. */
static bool collect_texts(const srv_attention_call *call, run_texts *out) {
    const srv_labels *labels = &call->body.labels;
    attn_arena *arena = call->req->arena;
    *out = (run_texts){
        .texts = attn_arena_zeroed(arena, 2 * labels->count + 1, sizeof *out->texts),
        .query = attn_arena_zeroed(arena, labels->count + 1, sizeof *out->query),
        .key = attn_arena_zeroed(arena, labels->count + 1, sizeof *out->key),
    };
    if (!out->texts || !out->query || !out->key)
        return false;
    for (size_t b = 0; b < labels->count; b++) {
        const srv_names *names = srv_labels_of(labels, b);
        if (names->query.values)
            out->query[b] = number_of(out, &names->query);
        if (names->key.values)
            out->key[b] = number_of(out, &names->key);
    }
    if (!labels->count || !srv_labels_of(labels, 0)->query.values)
        out->query = NULL;
    if (!labels->count || !srv_labels_of(labels, 0)->key.values)
        out->key = NULL;
    return true;
}

/* Makes the sites of the run: a single operation, or the operations of all entries of a ragged
 * batch. NULL: out of memory. */
static attn_run_site_source *make_sites(const srv_attention_call *call, const run_texts *texts,
                                        size_t *count) {
    const srv_strings *axes = &call->body.axes;
    attn_arena *arena = call->req->arena;
    *count = call->entries ? call->entry_count : 1;
    attn_run_site_source *sites = attn_arena_zeroed(arena, *count, sizeof *sites);
    for (size_t i = 0; sites && i < *count; i++) {
        const srv_attention_call *one = call->entries ? &call->entries[i] : call;
        const size_t first = call->entries && call->body.labels.count > 1 ? i : 0;
        const size_t sets = call->entries ? call->body.labels.count > 0 : call->body.labels.count;
        char name[32] = "attention";
        if (call->entries)
            snprintf(name, sizeof name, "attention.%zu", i);
        sites[i] = (attn_run_site_source){
            .op = one->op,
            .stats = &one->results.stats,
            .info = {.name = attn_arena_text(arena, name, strlen(name)),
                     .call = i,
                     .query_texts = texts->query ? texts->query + first : NULL,
                     .query_text_count = texts->query ? sets : 0,
                     .key_texts = texts->key ? texts->key + first : NULL,
                     .key_text_count = texts->key ? sets : 0,
                     .axes = (const char *const *)axes->values,
                     .axis_count = axes->count}};
        if (!sites[i].info.name)
            return NULL;
    }
    return sites;
}

/* Stores the finished operation as a run. false: a problem is set. */
static bool store_run(srv_attention_call *call) {
    srv_request *req = call->req;
    attn_metadata metadata[2];
    size_t metadata_count, site_count;
    run_texts texts;
    attn_run_image image;
    attn_error err = {0};
    if (!srv_run_metadata(req, metadata, &metadata_count))
        return false;
    if (!collect_texts(call, &texts))
        return srv_problem_memory(req, "/labels", "no memory is left for the labels of the run");
    const attn_run_site_source *sites = make_sites(call, &texts, &site_count);
    if (!sites)
        return srv_problem_memory(req, "/store", "no memory is left for the sites of the run");
    const attn_run_source source = {.sites = sites,
                                    .site_count = site_count,
                                    .texts = texts.texts,
                                    .text_count = texts.count,
                                    .metadata = metadata,
                                    .metadata_count = metadata_count};
    if (attn_run_image_new(&source, srv_request_pool(req), &req->control, req->arena, &image, &err))
        return srv_problem_error(req, &err);
    call->run = srv_run_store(req, &image);
    return call->run != NULL;
}

/* --- the computation --- */

static attn_status run_operation(srv_attention_call *call, attn_error *err) {
    srv_request *req = call->req;
    return call->backward && !call->body.operation.projections.num_heads
               ? srv_gradients_with_run(call, err)
               : attn_attention_run(call->op, srv_attention_computes(call),
                                    srv_attention_stage(call), srv_request_pool(req), &req->control,
                                    req->arena, &call->results, err);
}

static bool compute_results(srv_attention_call *call) {
    srv_request *req = call->req;
    attn_error err = {0};
    attn_status status = srv_attention_begin(call, &call->warnings, &err);
    if (!status)
        status = run_operation(call, &err);
    if (!status)
        status = srv_attention_end(call, &err);
    if (!status && call->body.labels.count)
        status = srv_attention_warn_padding(call, &err);
    if (status)
        return srv_problem_error(call->req, &err);
    const attn_attention_dims *d = &call->body.operation.dims;
    const double cells = (double)d->B * (double)d->Hq * (double)d->L * (double)d->S;
    if (call->body.explain &&
        !srv_mask_kept(req, attn_attention_mask(call->op), cells, &call->kept))
        return false;
    if (!srv_attention_draw(call))
        return false;
    if ((call->analyses && srv_attention_analyse(call, &err)) || srv_attention_shape(call, &err))
        return srv_problem_error(call->req, &err);
    return true;
}

static void answer_picture(void *data) {
    const srv_attention_call *call = data;
    const srv_heat_answer all = {.maps = &call->maps,
                                 .in = &call->body.heatmap,
                                 .labels = &call->body.labels,
                                 .stages = call->stage_count ? call->stages : NULL,
                                 .stage_count = call->stage_count,
                                 .figure = &call->body.figure,
                                 .decimals = (int)call->body.decimals};
    srv_heat_reply(call->req, &all);
}

/* --- the row of the route --- */

static bool settle_call(srv_attention_call *call) {
    return call->entries ? srv_ragged_settle(call) : srv_attention_settle(call);
}

/* Reduces the call to the work of a job, which stores the run and answers nothing else. */
static bool keep_run(void *data) {
    srv_attention_call *call = data;
    srv_attention_keep_run(call);
    for (size_t b = 0; b < call->entry_count; b++)
        srv_attention_keep_run(&call->entries[b]);
    return settle_call(call);
}

static bool prepare_call(void *data) {
    srv_attention_call *call = data;
    const bool ragged = srv_operation_is_ragged(&call->body.operation);
    if (!(ragged ? srv_ragged_prepare : srv_attention_prepare)(call))
        return false;
    if (call->body.store)
        call->call.job = (srv_job_order){.run = srv_attention, .stores = true};
    call->call.needs_thread = call->body.store; /* storing may write a file */
    return call->req->is_job ? keep_run(call) : settle_call(call);
}

static bool dry_call(void *data, srv_dry *dry) {
    const srv_attention_call *call = data;
    return call->entries ? srv_ragged_dry(call, dry) : srv_attention_dry(data, dry);
}

static bool compute_and_store(void *data) {
    srv_attention_call *call = data;
    const srv_attention_bill *bill = &call->bill;
    const double share = bill->operations > 0 ? 1 - bill->stored / bill->operations : 1;
    if (call->body.store)
        srv_progress_part(call->req, 0, share);
    if (!(call->entries ? srv_ragged_compute : compute_results)(call))
        return false;
    if (!call->body.store)
        return true;
    srv_progress_part(call->req, share, 1);
    return store_run(call);
}

static void answer_json(void *data, attn_json_text *j) {
    srv_attention_call *call = data;
    if ((call->req->accept & SRV_ACCEPT_NPY) && call->heatmap && call->want == 0)
        answer_picture(data);
    else
        srv_attention_json(call, j);
}

srv_outcome srv_attention(srv_request *req) {
    static const srv_steps steps = {
        .fields = srv_attention_fields,
        SRV_BODY_OF(srv_attention_call),
        .limits = {.cells = {.what = "score cells"},
                   .operations = {.what = "floating-point operations in all"},
                   .bytes = {.what = "inputs, results, scratch and the answer's text need",
                             .advice = ": ask for less in return, or for a heatmap instead of "
                                       "weights"}},
        .explain = srv_attention_explain,
        .prepare = prepare_call,
        .dry = dry_call,
        .as_job = keep_run,
        .compute = compute_and_store,
        .json = answer_json,
        .text = srv_attention_text,
        .picture = answer_picture,
    };
    srv_attention_call call = {.call.req = req};
    srv_attention_init(&call.body);
    const srv_outcome outcome = srv_compute(&call, &steps);
    if (call.run)
        srv_run_tell(req, call.run);
    return outcome;
}
