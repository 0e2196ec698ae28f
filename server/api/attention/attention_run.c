/* POST /v1/attention computes, stores and answers. */
#include <string.h>

#include "api/attention/attention_api.h"
#include "api/attention/attention_call.h"
#include "api/stored/stored_api.h"
#include "api/weights/weights_api.h"
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

/* Returns the index of the text with these tokens, and adds the text if there is none. */
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

/* Stores the finished operation as a run. false: a problem is set. */
static bool store_run(srv_attention_call *call) {
    srv_request *req = call->req;
    attn_metadata metadata[2];
    size_t metadata_count;
    run_texts texts;
    attn_run_image image;
    attn_error err = {0};
    if (!srv_run_metadata(req, metadata, &metadata_count))
        return false;
    if (!collect_texts(call, &texts))
        return srv_problem_memory(req, "/labels", "no memory is left for the labels of the run");
    const srv_strings *axes = &call->body.axes;
    const attn_run_site_source site = {
        .op = call->op,
        .stats = &call->results.stats,
        .info = {.name = "attention",
                 .query_texts = texts.query,
                 .query_text_count = texts.query ? call->body.labels.count : 0,
                 .key_texts = texts.key,
                 .key_text_count = texts.key ? call->body.labels.count : 0,
                 .axes = (const char *const *)axes->values,
                 .axis_count = axes->count}};
    const attn_run_source source = {.sites = &site,
                                    .site_count = 1,
                                    .texts = texts.texts,
                                    .text_count = texts.count,
                                    .metadata = metadata,
                                    .metadata_count = metadata_count};
    if (attn_run_image_new(&source, srv_request_pool(req), &req->control, req->arena, &image, &err))
        return srv_problem_error(req, &err);
    call->run = srv_run_store(req, &image);
    return call->run != NULL;
}

/* --- warnings about weights on padding --- */

/* The largest number of cells that are read to find weights on padding: a few milliseconds of work.
 * Heads that would need further cells are not checked. */
#define PADDING_CELLS 1048576

typedef struct reader {
    const srv_attention_call *call;
    attn_cells_scratch *scratch;
    void *cells;
    double *row;
} reader;

/* Reads the weights of query i on the padding keys into r->row. Adjacent keys are read in one call.
 */
static attn_status read_row(const reader *r, const srv_padding *p, size_t b, size_t h, size_t i,
                            attn_error *err) {
    attn_dtype dtype = r->call->body.operation.dims.result;
    for (size_t k = 0, n; k < p->key_count; k += n) {
        for (n = 1; k + n < p->key_count && p->keys[k + n] == p->keys[k] + n;)
            n++;
        const attn_range range = {b, h, i, 1, p->keys[k], n};
        attn_status status = attn_attention_cells(r->call->op, &r->call->results.stats, &range,
                                                  ATTN_STAGE_PROBS, r->cells, n, r->scratch, err);
        if (status)
            return status;
        attn_widen_f64(r->row + k, r->cells, dtype, 1, n);
    }
    return ATTN_OK;
}

static attn_status read_head(const reader *r, srv_padding *p, size_t b, size_t h, attn_error *err) {
    attn_status status = attn_control_check(&r->call->req->control, err);
    for (size_t i = 0; i < r->call->body.operation.dims.L && !status; i++) {
        if (!srv_padding_counts(p, i))
            continue;
        status = read_row(r, p, b, h, i, err);
        if (!status)
            srv_padding_row(p, i, r->row);
    }
    if (!status && !srv_padding_head(p, h))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for warnings");
    return status;
}

/* Adds warnings about weights on keys whose labels mark them as padding. */
static attn_status warn_of_padding(srv_attention_call *call, attn_error *err) {
    const attn_attention_dims *d = &call->body.operation.dims;
    attn_arena *arena = call->req->arena;
    srv_padding p;
    bool many = d->B > 1 || d->Ho > 1;
    bool ok = srv_padding_begin(&p, arena, &call->body.labels, many, &call->warnings);
    if (ok && !p.any)
        return ATTN_OK;
    reader r = {.call = call,
                .scratch = attn_cells_scratch_new(call->op, arena),
                .cells = attn_arena_zeroed(arena, d->S, sizeof(double)),
                .row = attn_arena_zeroed(arena, d->S, sizeof(double))};
    attn_status status = ok && r.scratch && r.cells && r.row
                             ? ATTN_OK
                             : attn_fail(err, ATTN_ENOMEM, "", "no memory left for warnings");
    double looked = 0;
    for (size_t b = 0; b < d->B && !status; b++) {
        srv_padding_entry(&p, b);
        const double each = (double)d->L * (double)p.key_count;
        for (size_t h = 0;
             h < d->Ho && p.key_count > 0 && !status && looked + each <= PADDING_CELLS;
             h++, looked += each)
            status = read_head(&r, &p, b, h, err);
    }
    if (!status && !srv_padding_end(&p))
        status = attn_fail(err, ATTN_ENOMEM, "", "no memory left for warnings");
    return status;
}

/* --- the computation --- */

/* Opens a source that reads rows of the computed weights or of scores, for heatmaps and
 * analyses. */
static attn_status open_rows(srv_attention_call *call, attn_stage stage, attn_weight_source *source,
                             attn_error *err) {
    attn_pool *pool = srv_request_pool(call->req);
    return attn_attention_source(call->op, &call->results.stats, stage, attn_pool_slots(pool),
                                 call->req->arena, source, err);
}

static attn_status draw_stage(srv_attention_call *call, attn_stage stage, attn_heatmaps *maps,
                              attn_error *err) {
    srv_request *req = call->req;
    attn_weight_source weights, norms, *source = &weights;
    attn_heatmap_options options = call->heat;
    options.signed_values = stage != ATTN_STAGE_PROBS || call->body.operation.dims.factors;
    attn_status status = open_rows(call, stage, &weights, err);
    if (!status && call->body.heatmap.of == SRV_OF_VALUE_NORM) {
        source = &norms;
        status = attn_value_norm_source(&weights, call->value_norms, req->arena, &norms, err);
    }
    return status ? status
                  : attn_heatmap_build(source, &options, srv_request_pool(req), &req->control,
                                       req->arena, maps, err);
}

/* Makes the heatmaps of all stages that a picture shows. The heatmaps of a head are adjacent in the
 * list, in the order of the stages. */
static attn_status draw_stages(srv_attention_call *call, attn_error *err) {
    const size_t n = call->stage_count;
    attn_heatmaps all = {0}, one;
    attn_status status = ATTN_OK;
    for (size_t s = 0, stage = 0; stage < SRV_STAGES && !status; stage++) {
        if (!(call->body.score_stages >> stage & 1))
            continue;
        status = draw_stage(call, (attn_stage)stage, &one, err);
        if (!status && !all.items) {
            all = (attn_heatmaps){.count = n * one.count};
            all.items = attn_arena_zeroed(call->req->arena, all.count + 1, sizeof *all.items);
            if (!all.items)
                status = attn_fail(err, ATTN_ENOMEM, "", "no memory left for heatmaps");
        }
        for (size_t i = 0; !status && i < one.count; i++)
            all.items[i * n + s] = one.items[i];
        s++;
    }
    call->maps = all;
    return status;
}

static attn_status draw_heatmaps(srv_attention_call *call, attn_error *err) {
    return call->stage_count ? draw_stages(call, err)
                             : draw_stage(call, ATTN_STAGE_PROBS, &call->maps, err);
}

/* Warns that the measures are those of rows that need not sum to 1. */
static attn_status warn_of_sums(srv_attention_call *call, attn_error *err) {
    const attn_attention_dims *d = &call->body.operation.dims;
    const bool sums = !d->normalizer || attn_normalizer_sums_to_1(d->normalizer);
    const char *field = d->pairs ? "subtract" : d->factors ? "mix/weights" : "normalizer";
    if (sums && !d->factors)
        return ATTN_OK;
    const bool added =
        d->factors
            ? srv_warnings_add(&call->warnings, call->req->arena, "row_sums", field,
                               "rows of mixed weights need not sum to 1: measures count negative "
                               "weights as 0; entropies and spreads are those of the other weights "
                               "divided by their sum, masses those of the weights as they are")
            : srv_warnings_add(&call->warnings, call->req->arena, "row_sums", field,
                               "rows of %s need not sum to 1: entropies and spreads are those "
                               "of the weights divided by their sum, masses those of the "
                               "weights as they are",
                               attn_normalizer_words[d->normalizer]);
    return added ? ATTN_OK : attn_no_memory(err, "warnings");
}

static attn_status run_analysis(srv_attention_call *call, attn_error *err) {
    srv_analysis *an = &call->analysis;
    attn_status status = open_rows(call, ATTN_STAGE_PROBS, &an->source, err);
    if (!status)
        status = warn_of_sums(call, err);
    an->run = call->op;
    an->value_norms = call->value_norms;
    an->mask = call->body.operation.dims.factors ? NULL : attn_attention_mask(call->op);
    an->warnings = &call->warnings;
    return status ? status : srv_analysis_run(an, srv_request_pool(call->req), err);
}

/* Computes the scores of all wanted stages except the first. Each stage takes a run. */
static attn_status run_stages(srv_attention_call *call, attn_error *err) {
    srv_request *req = call->req;
    const attn_stage first = srv_attention_stage(call);
    attn_status status = ATTN_OK;
    for (int stage = (int)first + 1; stage < SRV_STAGES && !status; stage++) {
        attn_results results;
        if (!(call->body.score_stages >> stage & 1))
            continue;
        status =
            attn_attention_run(call->op, ATTN_WANT_SCORES, (attn_stage)stage, srv_request_pool(req),
                               &req->control, req->arena, &results, err);
        call->scores[stage] = results.scores;
    }
    return status;
}

/* Makes the tensors that the run does not compute: operands, row sums and weighted values. */
static attn_status read_operands(srv_attention_call *call, attn_error *err) {
    srv_request *req = call->req;
    const attn_tensor *weights = call->body.operation.in.dropout_p > 0
                                     ? &call->results.weights_dropped
                                     : &call->results.weights;
    attn_status status = ATTN_OK;
    if (call->want & SRV_WANT_INPUTS)
        status = attn_attention_operands(call->op, req->arena, &call->query, &call->key,
                                         &call->value, err);
    if (!status && (call->want & SRV_WANT_ROW_SUMS))
        status = attn_attention_row_sums(&call->body.operation.dims, &call->results.weights,
                                         &req->control, req->arena, &call->row_sums, err);
    if (!status && (call->want & SRV_WANT_WEIGHTED_VALUES))
        status = attn_attention_weighted_values(call->op, weights, &req->control, req->arena,
                                                &call->weighted_values, err);
    return status;
}

static attn_status run_operation(srv_attention_call *call, attn_error *err) {
    srv_request *req = call->req;
    attn_pool *pool = srv_request_pool(req);
    const bool projects = call->body.operation.projections.num_heads > 0;
    attn_tensor heads;
    attn_status status = call->want & ATTN_WANT_SCORES ? run_stages(call, err) : ATTN_OK;
    if (!status)
        status = call->backward && !projects
                     ? srv_gradients_with_run(call, err)
                     : attn_attention_run(call->op, srv_attention_computes(call),
                                          srv_attention_stage(call), pool, &req->control,
                                          req->arena, &call->results, err);
    call->scores[srv_attention_stage(call)] = call->results.scores;
    if (!status && call->body.verify)
        status = attn_attention_verify(call->op, &call->results, (size_t)call->body.verify,
                                       call->body.operation.in.dropout_seed, &req->control,
                                       req->arena, &call->verification, err);
    if (!status && call->body.verify) {
        srv_meters_observe(req->app->meters, SRV_VERIFY_OUTPUT, call->verification.output_error);
        srv_meters_observe(req->app->meters, SRV_VERIFY_LOGSUMEXP,
                           call->verification.logsumexp_error);
    }
    heads = call->results.output;
    if (!status && projects && (call->want & ATTN_WANT_OUTPUT))
        status = attn_projections_output(&heads, &call->body.operation.projections, pool,
                                         &req->control, req->arena, &call->results.output, err);
    if (!status && call->backward && projects)
        status = srv_gradients_run(call, &heads, err);
    if (!status && call->want & ~(unsigned)SRV_WANT_LIBRARY)
        status = read_operands(call, err);
    return status || call->body.labels.count == 0 ? status : warn_of_padding(call, err);
}

/* Removes the axis of queries if the request had one query without it, and adds the extra axes that
 * a mask or bias has. The axis of queries is the last one if `from_end` is 1, and the last but one
 * if `from_end` is 2. */
static void shape_result(const srv_attention_call *call, attn_tensor *t, int from_end) {
    if (call->body.operation.in.one_query)
        srv_drop_axis(t, from_end);
    if (call->body.operation.extra_axes)
        srv_add_axes(t, call->body.operation.extra_axes);
}

/* Gives the computed tensors the shapes that srv_attention_results describes: the weights may be
 * averaged over the heads, the axis of one query is removed, and axes of length 1 come in front. */
static attn_status shape_results(srv_attention_call *call, attn_error *err) {
    srv_request *req = call->req;
    attn_results *r = &call->results;
    attn_tensor *const weights[] = {&r->weights, &r->weights_dropped};
    attn_tensor *const rows[] = {&r->output, &r->weights, &r->weights_dropped};
    attn_status status = ATTN_OK;
    for (size_t i = 0; call->body.average_attn_weights && i < 2 && !status; i++)
        status = attn_attention_mean_heads(&call->body.operation.dims, weights[i], &req->control,
                                           req->arena, weights[i], err);
    if (status || (!call->body.operation.in.one_query && !call->body.operation.extra_axes))
        return status;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        shape_result(call, rows[i], 2);
    for (size_t i = 0; i < SRV_STAGES; i++)
        shape_result(call, &call->scores[i], 2);
    shape_result(call, &r->logsumexp, 1);
    shape_result(call, &call->row_sums, 1);
    if (call->body.operation.in.one_query) {
        srv_drop_axis(&call->query, 2);
        srv_drop_axis(&call->weighted_values, 3);
    }
    if (call->backward)
        srv_gradients_reshape(call);
    return ATTN_OK;
}

static bool compute_results(srv_attention_call *call) {
    srv_request *req = call->req;
    attn_error err = {0};
    attn_status status =
        srv_operation_open(&call->body.operation, req, &call->warnings, &call->op, &err);
    if (!status)
        status = run_operation(call, &err);
    if (status)
        return srv_problem_error(call->req, &err);
    const attn_attention_dims *d = &call->body.operation.dims;
    const double cells = (double)d->B * (double)d->Hq * (double)d->L * (double)d->S;
    if (call->body.explain &&
        !srv_mask_kept(req, attn_attention_mask(call->op), cells, &call->kept))
        return false;
    if (srv_attention_norms(call) &&
        attn_value_norms(call->op, srv_attention_w_o(call), srv_request_pool(req), &req->control,
                         req->arena, &call->value_norms, &err))
        return srv_problem_error(call->req, &err);
    if (call->heatmap && draw_heatmaps(call, &err))
        return srv_heat_problem(req, &err);
    if ((call->analyses && run_analysis(call, &err)) || shape_results(call, &err))
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

static bool prepare_call(void *data) {
    srv_attention_call *call = data;
    if (!srv_attention_prepare(call))
        return false;
    if (call->req->is_job)
        srv_attention_keep_run(call);
    if (call->body.store)
        call->call.job = (srv_job_order){.run = srv_attention, .stores = true};
    call->call.needs_thread = call->body.store; /* storing may write a file */
    return srv_attention_settle(call);
}

/* Reduces the call to the work of a job, which only stores the run. */
static bool keep_run(void *data) {
    srv_attention_keep_run(data);
    return srv_attention_settle(data);
}

static bool compute_and_store(void *data) {
    srv_attention_call *call = data;
    const srv_attention_bill *bill = &call->bill;
    const double share = bill->operations > 0 ? 1 - bill->stored / bill->operations : 1;
    if (call->body.store)
        srv_progress_part(call->req, 0, share);
    if (!compute_results(call))
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
        .dry = srv_attention_dry,
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
