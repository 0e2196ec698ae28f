/* POST /v1/heatmaps draws weights from the request. This file holds the field table, and derives
 * shapes, cost and answer from the body. */
#include <math.h>
#include <stddef.h>

#include "api/common/compute.h"
#include "api/common/form_input.h"
#include "api/common/heatmap_object.h"
#include "api/common/route_fields.h"
#include "api/figures/figures_api.h"
#include "api/weights/weights_api.h"
#include "request/shared.h"

typedef struct heatmaps_body {
    srv_given_bits given;
    attn_tensor weights;
    srv_labels labels;
    srv_strings titles;
    srv_heat_input heatmap;
    srv_figure_input figure;
    int64_t decimals, timeout_ms;
    bool dry_run;
} heatmaps_body;

typedef struct heatmaps_call {
    SRV_CALL;
    heatmaps_body body;
    attn_attention_dims dims; /* only B, Hq, L and S are set */
    size_t layers, entries;   /* entries: batch entries of each layer */
    attn_heatmap_options options;
    attn_heatmaps maps;
    srv_warnings warnings;
} heatmaps_call;

const srv_field srv_heatmaps_fields[] = {
    SRV_TENSOR_ROW(heatmaps_body, weights, SRV_T_REAL,
                   "[L, S], [H, L, S], [B, H, L, S] or [layers, B, H, L, S] (more batch axes may "
                   "follow the layers): row = query, column = key.",
                   .required = true),
    SRV_LABELS_ROW(heatmaps_body, "Names of rows and columns"),
    SRV_FIELD_ROW(heatmaps_body, titles, SRV_STRINGS,
                  "One title for each head, which the answer repeats."),
    SRV_HEATMAP_ROW(heatmaps_body, "Content of the heatmaps."),
    SRV_FIGURE_ROW(heatmaps_body, "Title, labels and style of the picture."),
    SRV_DECIMALS_ROW(heatmaps_body, SRV_SHORTEST),
    SRV_DRY_RUN_ROW(heatmaps_body, "Draw nothing: return the shapes and the cost of the heatmaps."),
    SRV_TIMEOUT_ROW(heatmaps_body),
    {0},
};

/* Returns the cost of a request. `text` is the number of bytes of the answer for each byte of a
 * heatmap. */
static srv_cost cost_of(const attn_attention_dims *d, const attn_cost *drawn, double text) {
    const double rows = (double)d->B * (double)d->Hq * (double)d->L;
    return (srv_cost){.cells = rows * (double)d->S,
                      .operations = drawn->operations,
                      .weighted = fmax(drawn->cells, rows), /* a row takes time even without keys */
                      .result = (double)drawn->result_bytes,
                      .work = (double)drawn->work_bytes,
                      .text = text * (double)drawn->result_bytes};
}

/* Reads the body into dims and options, and sets the cost. false: a problem is set. */
static bool prepare(void *data) {
    heatmaps_call *call = data;
    const heatmaps_body *body = &call->body;
    const attn_attention_dims *d = &call->dims;
    size_t count = 0;
    bool exceeds = false;
    attn_cost drawn;
    if (!srv_parameter_check(&call->scope, "weights", &body->weights, false, &count) ||
        !srv_weights_shape(&call->scope, "weights", &body->weights, ATTN_MAX_RANK, &call->dims,
                           &call->layers, &call->entries) ||
        !srv_labels_check(call->req, &body->labels, call->entries, d->L, d->S))
        return false;
    if (srv_given(&call->scope, "titles") && body->titles.count != d->Hq)
        return srv_refuse(&call->scope, SRV_SHAPE, "titles",
                          "expected %zu title%s (one a head), found %zu", d->Hq, attn_plural(d->Hq),
                          body->titles.count);
    if (!srv_heat_options(call->req, &body->heatmap, d, &call->options) ||
        !srv_figure_check(call->req, &body->figure))
        return false;
    if (!srv_heat_cost(call->req, &call->options, d, attn_pool_slots(call->req->app->pool),
                       call->call.dry_run, &drawn, &exceeds))
        return false;
    call->call.cost = cost_of(d, &drawn, call->req->accept & SRV_ACCEPT_NPY ? 1 : SRV_HEAT_TEXT);
    call->call.cost.exceeds = exceeds;
    return true;
}

static bool draw(void *data) {
    heatmaps_call *call = data;
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
        call->maps.layer_batches = call->entries;
    return !status;
}

static bool add_shapes(void *data, srv_dry *dry) {
    const heatmaps_call *call = data;
    const attn_attention_dims *d = &call->dims;
    size_t maps[3] = {0};
    attn_error err = {0};
    if (attn_heatmap_shape(&call->options, d->B, d->Hq, d->L, d->S, &maps[0], maps + 1, &err))
        return srv_heat_problem(call->req, &err);
    srv_dry_shape(dry, "heatmap", 3, maps);
    dry->load.pieces = (double)d->B * (double)d->Hq;
    return true;
}

static void answer(void *data) {
    const heatmaps_call *call = data;
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
    static const srv_steps steps = {
        .fields = srv_heatmaps_fields,
        SRV_BODY_OF(heatmaps_call),
        .unit_ns = 30,
        .limits = {.cells = {.pointer = "/weights", .what = "weights"},
                   .bytes = {.pointer = "/heatmap",
                             .what = "the weights, heatmaps and their text need up to",
                             .advice = ": choose fewer cells, rows or heads"}},
        .prepare = prepare,
        .dry = add_shapes,
        .compute = draw,
        .reply = answer,
    };
    heatmaps_call call = {.call.req = req, .body = {.decimals = -1, .figure = SRV_FIGURE_DEFAULTS}};
    return srv_compute(&call, &steps);
}
