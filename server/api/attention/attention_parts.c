/* The steps of POST /v1/attention before and after the run of the operation. A request
 * (attention_run.c) and each entry of a ragged batch (attention_ragged.c) take these steps. */
#include "api/attention/attention_call.h"
#include "base/try.h"
#include "request/shared.h"

attn_status srv_attention_rows(srv_attention_call *call, attn_stage stage,
                               attn_weight_source *source, attn_error *err) {
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
    attn_status status = srv_attention_rows(call, stage, &weights, err);
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

bool srv_attention_draw(srv_attention_call *call) {
    attn_error err = {0};
    if (srv_attention_norms(call) &&
        attn_value_norms(call->op, srv_attention_w_o(call), srv_request_pool(call->req),
                         &call->req->control, call->req->arena, &call->value_norms, &err))
        return srv_problem_error(call->req, &err);
    return !call->heatmap || !draw_heatmaps(call, &err) || srv_heat_problem(call->req, &err);
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

attn_status srv_attention_begin(srv_attention_call *call, srv_warnings *warnings, attn_error *err) {
    ATTN_TRY(srv_operation_open(&call->body.operation, call->req, warnings, &call->op, err));
    return call->want & ATTN_WANT_SCORES ? run_stages(call, err) : ATTN_OK;
}

static attn_status verify_results(srv_attention_call *call, attn_error *err) {
    srv_request *req = call->req;
    ATTN_TRY(attn_attention_verify(call->op, &call->results, (size_t)call->body.verify,
                                   call->body.operation.in.dropout_seed, &req->control, req->arena,
                                   &call->verification, err));
    srv_meters_observe(req->app->meters, SRV_VERIFY_OUTPUT, call->verification.output_error);
    srv_meters_observe(req->app->meters, SRV_VERIFY_LOGSUMEXP, call->verification.logsumexp_error);
    return ATTN_OK;
}

attn_status srv_attention_end(srv_attention_call *call, attn_error *err) {
    srv_request *req = call->req;
    const bool projects = call->body.operation.projections.num_heads > 0;
    const attn_tensor heads = call->results.output;
    call->scores[srv_attention_stage(call)] = call->results.scores;
    if (call->body.verify)
        ATTN_TRY(verify_results(call, err));
    if (projects && (call->want & ATTN_WANT_OUTPUT))
        ATTN_TRY(attn_projections_output(&heads, &call->body.operation.projections,
                                         srv_request_pool(req), &req->control, req->arena,
                                         &call->results.output, err));
    if (call->backward && projects)
        ATTN_TRY(srv_gradients_run(call, &heads, err));
    if (call->want & ~(unsigned)SRV_WANT_LIBRARY)
        ATTN_TRY(read_operands(call, err));
    return ATTN_OK;
}

/* If the request had one query without an axis of queries, removes this axis, and adds the extra
 * axes that a mask or bias has. The axis of queries is the last one if `from_end` is 1, and the
 * last but one if `from_end` is 2. */
static void shape_result(const srv_attention_call *call, attn_tensor *t, int from_end) {
    if (call->body.operation.in.one_query)
        srv_drop_axis(t, from_end);
    if (call->body.operation.extra_axes)
        srv_add_axes(t, call->body.operation.extra_axes);
}

/* Gives the computed tensors the shapes that srv_attention_results describes: the weights may be
 * averaged over the heads, the axis of one query is removed, and axes of length 1 come in front. */
attn_status srv_attention_shape(srv_attention_call *call, attn_error *err) {
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

/* Warns that the measures are computed from rows that need not sum to 1. */
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

attn_status srv_attention_analyse(srv_attention_call *call, attn_error *err) {
    srv_analysis *an = &call->analysis;
    attn_status status = srv_attention_rows(call, ATTN_STAGE_PROBS, &an->source, err);
    if (!status)
        status = warn_of_sums(call, err);
    an->run = call->op;
    an->value_norms = call->value_norms;
    an->mask = call->body.operation.dims.factors ? NULL : attn_attention_mask(call->op);
    an->warnings = &call->warnings;
    return status ? status : srv_analysis_run(an, srv_request_pool(call->req), err);
}
