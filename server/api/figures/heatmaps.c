/* POST /v1/heatmaps draws weights from the request. This file holds the field table, and derives
 * shapes, cost and answer from the body. */
#include <math.h>
#include <stddef.h>

#include "api/common/dry.h"
#include "api/common/form_input.h"
#include "api/common/route_fields.h"
#include "api/common/weights_input.h"
#include "api/figures/figures_api.h"
#include "api/figures/heatmap_object.h"
#include "load/admission.h"
#include "request/shared.h"

typedef struct heatmaps_body {
    uint64_t given;
    attn_tensor weights;
    srv_labels labels;
    srv_strings titles;
    srv_heat_input heatmap;
    srv_figure_input figure;
    int64_t decimals, timeout_ms;
    bool dry_run;
} heatmaps_body;

typedef struct heatmaps_call {
    srv_request *req;
    heatmaps_body body;
    attn_attention_dims dims; /* only B, Hq, L and S are set */
    attn_heatmap_options options;
    attn_cost cost;
    attn_heatmaps maps;
    srv_warnings warnings;
} heatmaps_call;

#define AT(member) offsetof(heatmaps_body, member)

const srv_field srv_heatmaps_fields[] = {
    {.name = "weights",
     .kind = SRV_TENSOR,
     .offset = AT(weights),
     .accepts = SRV_T_REAL,
     .required = true,
     .doc = "[L, S], [H, L, S], [B, H, L, S] or [layers, B, H, L, S] (more batch axes may follow "
            "the layers): row = query, column = key."},
    SRV_LABELS_ROW(heatmaps_body, "Names of rows and columns"),
    {.name = "titles",
     .kind = SRV_STRINGS,
     .offset = AT(titles),
     .doc = "One title for each head, which the answer repeats."},
    SRV_HEATMAP_ROW(heatmaps_body, "Content of the heatmaps."),
    SRV_FIGURE_ROW(heatmaps_body, "Title, labels and style of the picture."),
    SRV_DECIMALS_ROW(heatmaps_body,
                     ". The default is the shortest text that reads back to the same number."),
    SRV_DRY_RUN_ROW(heatmaps_body, "Draw nothing: return the shapes and the cost of the heatmaps."),
    SRV_TIMEOUT_ROW(heatmaps_body),
    {0},
};

/* Returns the number of batch entries of each layer. They cannot overflow, because the number of
 * elements did not when the tensor was decoded. (An axis of 0 counts as 1 there.) */
static size_t entries_of(const attn_tensor *w) {
    size_t entries = 1;
    for (int axis = w->rank > 4; axis < w->rank - 3; axis++)
        entries *= w->dims[axis];
    return entries;
}

static bool read_dims(heatmaps_call *call, const srv_scope *scope) {
    const attn_tensor *w = &call->body.weights;
    attn_attention_dims *d = &call->dims;
    if (w->rank < 2)
        return srv_refuse(
            scope, SRV_SHAPE, "weights",
            "expected [L, S], [H, L, S], [B, H, L, S] or [layers, B, H, L, S], found %s",
            attn_rank_text(w));
    d->L = w->dims[w->rank - 2];
    d->S = w->dims[w->rank - 1];
    d->Hq = w->rank > 2 ? w->dims[w->rank - 3] : 1;
    d->B = entries_of(w) * (w->rank > 4 ? w->dims[0] : 1);
    return true;
}

/* Reads the body into dims, options and cost. false: a problem is set. */
static bool prepare(heatmaps_call *call) {
    const heatmaps_body *body = &call->body;
    const srv_scope scope = {call->req, srv_heatmaps_fields, &body->given, ""};
    const attn_attention_dims *d = &call->dims;
    size_t count = 0;
    attn_error err = {0};
    if (!srv_parameter_check(&scope, "weights", &body->weights, false, &count) ||
        !read_dims(call, &scope) ||
        !srv_labels_check(call->req, &body->labels, entries_of(&body->weights), d->L, d->S))
        return false;
    if (srv_given(&scope, "titles") && body->titles.count != d->Hq)
        return srv_refuse(&scope, SRV_SHAPE, "titles",
                          "expected %zu title%s (one a head), found %zu", d->Hq,
                          d->Hq == 1 ? "" : "s", body->titles.count);
    if (!srv_heat_options(call->req, &body->heatmap, d, &call->options) ||
        !srv_figure_check(call->req, &body->figure))
        return false;
    if (!attn_heatmap_cost(&call->options, d->B, d->Hq, d->L, d->S,
                           attn_pool_slots(call->req->app->pool), &call->cost, &err))
        return true;
    srv_heat_problem(call->req, &err);
    return false;
}

/* --- the handler --- */

/* The most weights for which the HTTP thread computes heatmaps itself, about 0.5 ms of work. */
#define IN_PLACE_CELLS 16384

static bool within_limits(const heatmaps_call *call) {
    srv_request *req = call->req;
    const attn_attention_dims *d = &call->dims;
    double most = req->app->config->max_cells, limit = (double)attn_arena_limit(req->arena);
    double cells = (double)d->B * (double)d->Hq * (double)d->L * (double)d->S;
    double need = (double)attn_arena_used(req->arena) + (double)call->cost.work_bytes +
                  (1 + SRV_HEAT_TEXT) * (double)call->cost.result_bytes;
    if (cells > most) {
        srv_problem_limit(req, SRV_TOO_LARGE, "/weights", most, "max_cells",
                          "%.4g weights; at most %.4g are allowed", cells, most);
        return false;
    }
    if (need <= limit)
        return true;
    srv_problem_limit(req, SRV_TOO_LARGE, "/heatmap", limit, "max_request_bytes",
                      "the weights, heatmaps and their text need up to %.0f bytes; a request may "
                      "use %.0f: choose fewer cells, rows or heads",
                      need, limit);
    return false;
}

static bool draw(heatmaps_call *call) {
    srv_request *req = call->req;
    const attn_attention_dims *d = &call->dims;
    attn_weight_source source;
    attn_error err = {0};
    const srv_weights_lint lint = {req, "weights",          &call->body.weights,
                                   d,   &call->body.labels, &call->warnings};
    bool unshared = false;
    attn_status status = srv_weights_warn(&lint, &unshared, &err);
    if (!status)
        status = srv_weights_source(&call->body.weights, d, req->arena, &source, &err);
    if (!status)
        status = attn_heatmap_build(&source, &call->options, req->app->pool, &req->control,
                                    req->arena, &call->maps, &err);
    if (!status && unshared)
        srv_heat_without_entropy(&call->maps);
    if (status)
        srv_heat_problem(req, &err);
    if (call->body.weights.rank > 4)
        call->maps.layer_batches = entries_of(&call->body.weights);
    return !status;
}

static srv_outcome predict(const heatmaps_call *call) {
    const attn_attention_dims *d = &call->dims;
    size_t maps[3] = {0};
    attn_error err = {0};
    if (attn_heatmap_shape(&call->options, d->B, d->Hq, d->L, d->S, &maps[0], maps + 1, &err)) {
        srv_heat_problem(call->req, &err);
        return SRV_DONE;
    }
    srv_dry dry = {.cells = (double)d->B * (double)d->Hq * (double)d->L * (double)d->S,
                   .operations = call->cost.operations,
                   .result = (double)call->cost.result_bytes,
                   .work = (double)call->cost.work_bytes,
                   .fits = within_limits(call)};
    srv_dry_shape(&dry, "heatmap", 3, maps);
    dry.load.plain = SRV_HEAT_WEIGHT * call->cost.operations;
    dry.load.alone = SRV_MASK_WEIGHT * dry.cells; /* the work of the linter */
    dry.load.text = SRV_HEAT_TEXT * dry.result;
    dry.load.memory = dry.result + dry.work;
    dry.load.pieces = (double)d->B * (double)d->Hq;
    return srv_dry_reply(call->req, &dry);
}

static void answer(heatmaps_call *call) {
    const srv_heat_answer all = {.maps = &call->maps,
                                 .in = &call->body.heatmap,
                                 .labels = &call->body.labels,
                                 .titles = &call->body.titles,
                                 .figure = &call->body.figure,
                                 .warnings = &call->warnings,
                                 .decimals = (int)call->body.decimals};
    srv_heat_reply(call->req, &all);
}

srv_outcome srv_heatmaps(srv_request *req) {
    heatmaps_call call = {.req = req, .body = {.decimals = -1, .figure = SRV_FIGURE_DEFAULTS}};
    int64_t start = attn_now_ns();
    bool ok = srv_read_body(req, srv_heatmaps_fields, &call.body, &call.body.timeout_ms) &&
              prepare(&call);
    req->decode_ns = attn_now_ns() - start;
    if (!ok)
        return SRV_DONE;
    if (call.body.dry_run)
        return predict(&call);
    if (!within_limits(&call))
        return SRV_DONE;
    const attn_attention_dims *d = &call.dims;
    double rows = (double)d->B * (double)d->Hq * (double)d->L; /* rows without keys take time too */
    if (req->in_place && (fmax(call.cost.cells, rows) > IN_PLACE_CELLS || srv_draws(req)))
        return SRV_DEFER;
    if (!srv_admission_work(req, call.cost.cells,
                            (double)call.cost.work_bytes +
                                (1 + SRV_HEAT_TEXT) * (double)call.cost.result_bytes))
        return SRV_DONE;
    start = attn_now_ns();
    ok = draw(&call);
    int64_t drawn = attn_now_ns();
    req->compute_ns = drawn - start;
    if (!ok)
        return SRV_DONE;
    answer(&call);
    req->encode_ns = attn_now_ns() - drawn;
    return SRV_DONE;
}
