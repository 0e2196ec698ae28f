/* GET /v1/runs/{id}/heatmap: the heatmap of POST /v1/attention, of a stored run. */
#include "api/handlers.h"
#include "api/heatmap_object.h"
#include "api/route_fields.h"
#include "api/runs_call.h"
#include "request/shared.h"

#define TEXT_OF_HEATMAP 4.0

typedef struct query {
    uint64_t given;
    srv_run_spot spot;
    srv_heat_input heatmap;
    srv_figure_input figure;
    int64_t decimals;
} query;

const srv_field srv_run_heatmap_query[] = {
    SRV_RUN_SITE_ROWS(query),
    {.name = "heatmap",
     .kind = SRV_OBJECT,
     .offset = offsetof(query, heatmap),
     .fields = srv_heat_fields,
     .init = srv_heat_init,
     .doc = "What the heatmap holds."},
    {.name = "figure",
     .kind = SRV_OBJECT,
     .offset = offsetof(query, figure),
     .fields = srv_figure_fields,
     .init = srv_figure_init,
     .doc = "What a picture says around it and looks like."},
    SRV_RUN_DECIMALS_ROW(query),
    {0},
};

srv_labels srv_run_labels(const attn_run *run) {
    const attn_attention_dims *d = attn_run_dims(run);
    const char *const *rows = attn_run_query_labels(run), *const *cols = attn_run_key_labels(run);
    return (srv_labels){.given = rows || cols,
                        .query = {(const char **)rows, rows ? d->L : 0},
                        .key = {(const char **)cols, cols ? d->S : 0}};
}

bool srv_run_heatmaps(srv_request *req, const srv_run *run, const attn_heatmap_options *options,
                      double text, void (*problem)(srv_request *, const attn_error *),
                      attn_heatmaps *out) {
    const attn_attention_dims *d = attn_run_dims(run->run);
    attn_pool *pool = srv_request_pool(req);
    const size_t slots = attn_pool_slots(pool);
    attn_weight_source source;
    attn_cost cost;
    attn_error err = {0};
    attn_status status = attn_heatmap_cost(options, d->B, d->Hq, d->L, d->S, slots, &cost, &err);
    if (!status && !srv_run_admit(req, cost.cells,
                                  (double)cost.work_bytes + (1 + text) * (double)cost.result_bytes +
                                      srv_run_cells_work(req, run)))
        return false;
    const int64_t start = attn_now_ns();
    if (!status)
        status = attn_attention_source(attn_run_attention(run->run), attn_run_stats(run->run),
                                       slots, req->arena, &source, &err);
    if (!status)
        status = attn_heatmap_build(&source, options, pool, &req->control, req->arena, out, &err);
    req->compute_ns = attn_now_ns() - start;
    if (status)
        problem(req, &err);
    return !status;
}

srv_outcome srv_runs_heatmap(srv_request *req) {
    query q = {.decimals = -1};
    const srv_scope scope = {req, srv_run_heatmap_query, &q, ""};
    const srv_run *run = srv_run_begin(&scope, &q, &q.spot);
    attn_heatmap_options o;
    attn_heatmaps maps;
    if (!run)
        return SRV_DONE;
    const bool ok = srv_figure_check(req, &q.figure) &&
                    srv_heat_options(req, &q.heatmap, attn_run_dims(run->run), &o) &&
                    srv_run_heatmaps(req, run, &o, TEXT_OF_HEATMAP, srv_heat_problem, &maps);
    if (ok) {
        const srv_labels labels = srv_run_labels(run->run);
        const srv_heat_answer all = {.maps = &maps,
                                     .in = &q.heatmap,
                                     .labels = &labels,
                                     .figure = &q.figure,
                                     .decimals = (int)q.decimals};
        srv_heat_reply(req, &all);
    }
    return srv_run_end(req, run, ok);
}
