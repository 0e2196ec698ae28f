/* POST /v1/attention: decode, check, bound what it will cost, compute, answer. Runs on the HTTP
 * thread while it is small, else on a worker; everything lives in the request's arena. */
#include <stdio.h>

#include "app.h"
#include "attention_call.h"
#include "handlers.h"

/* Work that the HTTP thread may do itself, a fraction of a millisecond: operations, and the bound
 * of the answer's text for 256 KiB of results. */
#define IN_PLACE_OPERATIONS 2e6
#define IN_PLACE_TEXT       (2.0 * 1024 * 1024)

static bool decode(srv_attention_call *call) {
    srv_request *req = call->req;
    int64_t start = attn_now_ns();
    srv_attention_init(&call->body);
    bool ok = srv_decode(req, srv_attention_fields, &call->body);
    if (ok) {
        srv_hurry(req, call->body.timeout_ms);
        ok = srv_attention_prepare(call);
    }
    req->decode_ns = attn_now_ns() - start;
    return ok;
}

/* Bytes of JSON that result bytes become, with the writer's buffer doubling as it grows: a float32
 * takes up to 15, a float64 26; cells of a heatmap seldom need theirs, and its runs and edges take
 * no more than twice their 24 bytes. */
#define TEXT_OF_TENSORS 8.0
#define TEXT_OF_HEATMAP 4.0
/* Brackets and commas of a row of each of four tensors, which empty rows have too. */
#define TEXT_OF_ROWS 32.0

/* The cost of the run and its heatmap on `slots` threads, from shapes alone; *text: most bytes of
 * the answer. */
static bool count_cost(srv_attention_call *call, size_t slots, attn_cost *cost, double *text) {
    srv_request *req = call->req;
    const attn_attention_dims *d = &call->dims;
    attn_cost heat = {0};
    attn_error err = {0};
    if (attn_attention_cost(d, call->want, slots, cost, &err)) {
        srv_problem_error(req, &err);
        return false;
    }
    double rows = (double)d->B * ((double)d->Hq * (double)d->L + (double)d->Hkv * (double)d->S);
    *text = TEXT_OF_TENSORS * (double)cost->result_bytes + TEXT_OF_ROWS * rows;
    if (!call->heatmap)
        return true;
    if (attn_heatmap_cost(&call->heat, d->B, d->Hq, d->L, d->S, slots, &heat, &err)) {
        srv_heat_problem(req, &err);
        return false;
    }
    *text += TEXT_OF_HEATMAP * (double)heat.result_bytes;
    cost->operations += heat.operations;
    if (attn_size_add(cost->work_bytes, heat.work_bytes, &cost->work_bytes) &&
        attn_size_add(cost->result_bytes, heat.result_bytes, &cost->result_bytes))
        return true;
    srv_problem(req, SRV_TOO_LARGE, "/heatmap", "its size is beyond what can be counted");
    return false;
}

/* Refuse what can never fit, with the numbers. */
static bool within_limits(srv_attention_call *call, double *text) {
    srv_request *req = call->req;
    const attn_attention_dims *d = &call->dims;
    if (!count_cost(call, 1, &call->alone, text) ||
        !count_cost(call, attn_pool_slots(req->app->pool), &call->cost, text))
        return false;
    double most = req->app->config->max_cells;
    if (call->cost.cells > most) {
        srv_problem_limit(req, SRV_TOO_LARGE, NULL, most, "max_cells",
                          "B * Hq * L * S = %zu * %zu * %zu * %zu = %.4g score cells; at most %.4g "
                          "are allowed",
                          d->B, d->Hq, d->L, d->S, call->cost.cells, most);
        return false;
    }
    double limit = (double)attn_arena_limit(req->arena);
    double need = (double)attn_arena_used(req->arena) + (double)call->cost.work_bytes +
                  (double)call->cost.result_bytes + *text;
    if (need > limit) {
        srv_problem_limit(
            req, SRV_TOO_LARGE, NULL, limit, "max_request_bytes",
            "inputs, results (%zu bytes), scratch (%zu bytes) and the answer's text "
            "(up to %.0f bytes) need %.0f bytes; a request may use %.0f: ask for less "
            "in return, or for a heatmap instead of weights",
            call->cost.result_bytes, call->cost.work_bytes, *text, need, limit);
        return false;
    }
    return true;
}

static attn_status draw(srv_attention_call *call, attn_error *err) {
    srv_request *req = call->req;
    attn_pool *pool = req->app->pool;
    attn_weight_source source;
    attn_status status = attn_attention_source(call->op, &call->results.stats,
                                               attn_pool_slots(pool), req->arena, &source, err);
    return status ? status
                  : attn_heatmap_build(&source, &call->heat, pool, &req->control, req->arena,
                                       &call->maps, err);
}

static bool compute(srv_attention_call *call) {
    srv_request *req = call->req;
    attn_error err = {0};
    if (attn_attention_new(&call->in, req->arena, &call->op, &err)) {
        srv_problem_error(req, &err);
        return false;
    }
    attn_status status =
        attn_mask_lint(attn_attention_mask(call->op), req->arena, &call->warnings, &err);
    if (!status)
        status =
            attn_attention_run(call->op, call->want, (attn_stage)call->body.score_stage,
                               req->app->pool, &req->control, req->arena, &call->results, &err);
    if (status) {
        srv_problem_error(req, &err);
        return false;
    }
    if (call->heatmap && draw(call, &err)) {
        srv_heat_problem(req, &err);
        return false;
    }
    return true;
}

srv_outcome srv_attention(srv_request *req) {
    srv_attention_call call = {.req = req};
    double text = 0;
    if (!decode(&call) || !within_limits(&call, &text))
        return SRV_DONE;
    bool small = call.cost.operations <= IN_PLACE_OPERATIONS && text <= IN_PLACE_TEXT;
    if (req->in_place && !small)
        return SRV_DEFER;

    int64_t start = attn_now_ns();
    bool ok = compute(&call);
    int64_t computed = attn_now_ns();
    req->compute_ns = computed - start;
    if (!ok)
        return SRV_DONE;
    if (srv_plain(req))
        srv_attention_text(&call);
    else
        srv_attention_json(&call);
    req->encode_ns = attn_now_ns() - computed;
    return SRV_DONE;
}
