/* GET /v1/runs/{id}/metrics: the analysis of POST /v1/attention, of a stored run. */
#include "api/analyses_call.h"
#include "api/handlers.h"
#include "api/runs_call.h"
#include "request/shared.h"

typedef struct query {
    uint64_t given;
    srv_run_spot spot;
    unsigned items;
    int64_t radius, top_keys, decimals;
} query;

const srv_field srv_run_metrics_query[] = {
    SRV_RUN_SITE_ROWS(query),
    {.name = "analysis",
     .kind = SRV_FLAGS,
     .offset = offsetof(query, items),
     .choices = srv_analysis_items_run,
     .doc = "What to answer: the names of analysis in POST /v1/attention; default all."},
    {.name = "radius",
     .kind = SRV_INT,
     .offset = offsetof(query, radius),
     .max = 1048576,
     .doc = "Of local_mass: keys at most so far from the query; default 2."},
    {.name = "top_keys",
     .kind = SRV_INT,
     .offset = offsetof(query, top_keys),
     .max = 1024,
     .doc = "How many of the most attended keys to name; default 5."},
    SRV_RUN_DECIMALS_ROW(query),
    {0},
};

static srv_analysis analysis_of(srv_request *req, const attn_run *run, const query *q,
                                const srv_labels *labels) {
    const attn_attention_dims *d = attn_run_dims(run);
    srv_analysis an = {.req = req,
                       .items = q->items,
                       .B = d->B,
                       .H = d->Hq,
                       .L = d->L,
                       .S = d->S,
                       .layers = 1,
                       .run = attn_run_attention(run),
                       .mask = attn_attention_mask(attn_run_attention(run)),
                       .labels = labels,
                       .options = attn_measure_defaults()};
    if (an.items == 0 || (an.items & SRV_AN_ALL))
        an.items |= SRV_AN_ALL | SRV_AN_EVERY;
    an.options.radius = (size_t)q->radius;
    an.options.top_keys = (size_t)q->top_keys;
    return an;
}

static bool run_analysis(srv_analysis *an, const srv_run *run) {
    srv_request *req = an->req;
    attn_pool *pool = srv_request_pool(req);
    const size_t slots = attn_pool_slots(pool);
    attn_cost cost;
    double text;
    attn_error err = {0};
    if (!srv_analysis_cost(an, slots, &cost, &text) ||
        !srv_run_admit(req, cost.cells,
                       (double)cost.work_bytes + (double)cost.result_bytes + text +
                           srv_run_cells_work(req, run)))
        return false;
    const int64_t start = attn_now_ns();
    attn_status status = attn_attention_source(an->run, attn_run_stats(run->run), slots, req->arena,
                                               &an->source, &err);
    if (!status)
        status = srv_analysis_run(an, pool, &err);
    req->compute_ns = attn_now_ns() - start;
    if (status)
        srv_problem_error(req, &err);
    return !status;
}

static void answer(srv_request *req, const srv_analysis *an, const query *q) {
    if (srv_plain(req)) {
        attn_text t = srv_plain_begin(req);
        srv_analysis_text(&t, an);
        srv_plain_end(req, &t);
        return;
    }
    srv_json j;
    srv_json_begin(&j, req);
    j.decimals = (int)q->decimals;
    srv_json_object(&j);
    srv_analysis_members(&j, an);
    srv_json_object_end(&j);
    srv_json_end(&j);
}

srv_outcome srv_runs_metrics(srv_request *req) {
    query q = {.decimals = -1, .radius = 2, .top_keys = 5};
    const srv_scope scope = {req, srv_run_metrics_query, &q, ""};
    const srv_run *run = srv_run_begin(&scope, &q, &q.spot);
    if (!run)
        return SRV_DONE;
    const srv_labels labels = srv_run_labels(run->run);
    srv_analysis an = analysis_of(req, run->run, &q, &labels);
    const bool ok = run_analysis(&an, run);
    if (ok)
        answer(req, &an, &q);
    return srv_run_end(req, run, ok);
}
