/* POST /v1/analyses: measures and diagnoses of weights that the caller has; with two operands, how
 * they differ. */
#include <math.h>

#include "api/analyses_call.h"
#include "api/dry.h"
#include "api/handlers.h"
#include "load/admission.h"
#include "request/shared.h"

/* Operations that the HTTP thread does itself: a fraction of a millisecond. */
#define IN_PLACE_OPERATIONS 3e5
#define OPERATIONS_OF_ROW   10.0

static bool decode(srv_analyses_call *call) {
    srv_request *req = call->req;
    int64_t start = attn_now_ns();
    call->body = (srv_analyses_body){.decimals = -1, .radius = 2, .top_keys = 5};
    srv_mask_input_init(&call->body.mask);
    srv_heat_init(&call->body.heatmap);
    srv_figure_init(&call->body.figure);
    bool ok = srv_decode(req, srv_analyses_fields, &call->body);
    if (ok) {
        srv_hurry(req, call->body.timeout_ms);
        ok = srv_analyses_prepare(call);
    }
    req->decode_ns = attn_now_ns() - start;
    return ok;
}

static double cells_of(const srv_analyses_call *call) {
    const attn_attention_dims *d = &call->dims;
    return (double)d->B * (double)d->Hq * (double)d->L * (double)d->S;
}

/* Of the analysis; a row that is empty counts as one cell. */
static double operations_of(const srv_analyses_call *call) {
    const attn_attention_dims *d = &call->dims;
    return fmax(call->cost.operations,
                OPERATIONS_OF_ROW * (double)d->B * (double)d->Hq * (double)d->L);
}

static bool within_limits(const srv_analyses_call *call) {
    srv_request *req = call->req;
    double most = req->app->config->max_cells, limit = (double)attn_arena_limit(req->arena);
    double need = (double)attn_arena_used(req->arena) + (double)call->cost.work_bytes +
                  (double)call->cost.result_bytes + call->text;
    if (cells_of(call) > most) {
        srv_problem_limit(req, SRV_TOO_LARGE, "/weights", most, "max_cells",
                          "%.4g weights; at most %.4g are allowed", cells_of(call), most);
        return false;
    }
    if (need <= limit)
        return true;
    srv_problem_limit(req, SRV_TOO_LARGE, "/weights", limit, "max_request_bytes",
                      "the weights, their measures and the answer's text need up to %.0f bytes; a "
                      "request may use %.0f: ask for less in analysis, or for fewer heads",
                      need, limit);
    return false;
}

static srv_outcome predict(const srv_analyses_call *call) {
    const attn_attention_dims *d = &call->dims;
    const size_t heads[2] = {d->B, d->Hq};
    srv_dry dry = {.cells = cells_of(call),
                   .operations = call->cost.operations,
                   .result = (double)call->cost.result_bytes,
                   .work = (double)call->cost.work_bytes,
                   .fits = within_limits(call)};
    srv_dry_shape(&dry, "measures", 2, heads);
    dry.load.units[SRV_UNIT_REQUEST] = 1;
    srv_analysis_load(&call->cost, call->text, &dry.load);
    dry.load.units[SRV_UNIT_BYTE] = dry.result + dry.work;
    dry.load.pieces = (double)d->B * (double)d->Hq;
    return srv_dry_reply(call->req, &dry);
}

static void answer_json(srv_analyses_call *call) {
    srv_json j;
    srv_json_begin(&j, call->req);
    j.decimals = (int)call->body.decimals;
    srv_json_object(&j);
    srv_analysis_members(&j, &call->analysis);
    srv_analyses_views(&j, call);
    srv_warnings_write(&j, &call->warnings);
    srv_json_object_end(&j);
    srv_json_end(&j);
}

static void answer_picture(srv_analyses_call *call) {
    static const srv_view order[] = {SRV_VIEW_DIFFERENCE, SRV_VIEW_GRADIENT, SRV_VIEW_ROLLOUT,
                                     SRV_VIEW_WEIGHTS};
    static const char *const values[] = {"difference", "gradient × attention", "rollout", "weight"};
    size_t i = 0;
    while (!call->views[order[i]] && i + 1 < SRV_VIEWS)
        i++;
    srv_figure_input figure = call->body.figure;
    if (!figure.value_label)
        figure.value_label = values[i];
    if (i == 0 && figure.colormap == ATTN_COLORMAP_AUTO)
        figure.colormap = ATTN_COLORMAP_RDBU; /* also where no difference is negative */
    const srv_heat_answer all = {.maps = &call->maps[order[i]],
                                 .in = &call->body.heatmap,
                                 .labels = &call->labels,
                                 .figure = &figure,
                                 .warnings = &call->warnings,
                                 .decimals = (int)call->body.decimals};
    srv_heat_draw(call->req, &all);
}

static void answer_text(srv_analyses_call *call) {
    attn_text t = srv_plain_begin(call->req);
    srv_analysis_text(&t, &call->analysis);
    for (srv_view v = 0; v < SRV_VIEWS; v++)
        if (call->views[v]) {
            attn_text_add(&t, "\n%s\n", srv_view_names[v]);
            srv_heat_text(&t, &call->maps[v], &call->labels, NULL);
        }
    srv_warnings_text(&t, &call->warnings);
    srv_plain_end(call->req, &t);
}

static srv_outcome analyse(srv_analyses_call *call) {
    srv_request *req = call->req;
    attn_error err = {0};
    if (!decode(call))
        return call->defer ? SRV_DEFER : SRV_DONE;
    if (call->body.dry_run)
        return predict(call);
    if (!within_limits(call))
        return SRV_DONE;
    if (req->in_place && (operations_of(call) > IN_PLACE_OPERATIONS || srv_draws(req)))
        return SRV_DEFER;
    if (!srv_admission_work(req, operations_of(call),
                            (double)call->cost.work_bytes + (double)call->cost.result_bytes +
                                call->text))
        return SRV_DONE;
    int64_t start = attn_now_ns();
    attn_status status = srv_analyses_compute(call, &err);
    int64_t computed = attn_now_ns();
    req->compute_ns = computed - start;
    if (status) {
        srv_heat_problem(req, &err);
        return SRV_DONE;
    }
    if (srv_draws(req))
        answer_picture(call);
    else if (srv_plain(req))
        answer_text(call);
    else
        answer_json(call);
    req->encode_ns = attn_now_ns() - computed;
    return SRV_DONE;
}

srv_outcome srv_analyses(srv_request *req) {
    srv_analyses_call call = {.req = req};
    srv_outcome outcome = analyse(&call);
    if (srv_run_is_whole(req, call.run))
        srv_run_is_whole(req, call.other_run);
    srv_run_release(req, call.run);
    srv_run_release(req, call.other_run);
    return outcome;
}
