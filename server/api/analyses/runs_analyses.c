/* GET /v1/runs/{id}/analyses answers the analysis that POST /v1/attention offers, of a stored run. */
#include "api/analyses/analyses_api.h"
#include "api/analyses/analyses_call.h"
#include "api/common/route_fields.h"
#include "api/common/text_reply.h"
#include "api/runs/runs_look.h"
#include "request/shared.h"

typedef struct analyses_query {
    uint64_t given;
    srv_run_spot spot;
    unsigned items;
    int64_t radius, top_k, decimals;
} analyses_query;

const srv_field srv_run_analyses_query[] = {
    SRV_RUN_SITE_ROWS(analyses_query),
    {.name = "analysis",
     .kind = SRV_FLAGS,
     .offset = offsetof(analyses_query, items),
     .choices = srv_analysis_items_run,
     .doc = "The parts of the answer, named as in analysis of POST /v1/attention; default all."},
    {.name = "radius",
     .kind = SRV_INT,
     .offset = offsetof(analyses_query, radius),
     .max = 1048576,
     .doc = "For local_mass: largest distance between key and query.",
     .standard = "2"},
    {.name = "top_k",
     .kind = SRV_INT,
     .offset = offsetof(analyses_query, top_k),
     .max = 1024,
     .doc = "Number of most attended keys in top_keys.",
     .standard = "5"},
    SRV_DECIMALS_ROW(analyses_query, "."),
    {0},
};

/* How many operations of a kernel take the time of an operation of an analysis, before it is known
 * how long looks take (srv_admission_seconds). */
#define OPERATION_WEIGHT 2.5

static srv_analysis analysis_of(srv_request *req, const attn_run_site *site,
                                const analyses_query *q, const srv_labels *labels) {
    const attn_attention_dims *d = attn_run_dims(site);
    srv_analysis an = {.req = req,
                       .items = q->items,
                       .B = d->B,
                       .H = d->Hq,
                       .L = d->L,
                       .S = d->S,
                       .layers = 1,
                       .run = attn_run_attention(site),
                       .valued = srv_run_valued(site),
                       .mask = attn_attention_mask(attn_run_attention(site)),
                       .labels = labels,
                       .options = attn_measure_defaults()};
    if (an.items == 0 || (an.items & SRV_AN_ALL))
        an.items |= SRV_AN_ALL | SRV_AN_EVERY;
    an.options.radius = (size_t)q->radius;
    an.options.top_keys = (size_t)q->top_k;
    return an;
}

/* Computes the cost. false: a problem is set. */
static bool count_analysis(const srv_analysis *an, const srv_run_view *run, srv_look *look) {
    attn_cost cost;
    double text;
    if (!srv_analysis_cost(an, attn_pool_slots(srv_request_pool(an->req)), &cost, &text))
        return false;
    srv_look_needs(look, cost.cells, OPERATION_WEIGHT * cost.operations,
                   (double)cost.work_bytes + (double)cost.result_bytes + text +
                       srv_run_cells_work(an->req, run));
    return true;
}

static bool run_analysis(srv_analysis *an, const srv_run_view *run) {
    srv_request *req = an->req;
    attn_pool *pool = srv_request_pool(req);
    attn_error err = {0};
    const int64_t start = attn_now_ns();
    attn_status status =
        attn_run_source_of(run->site, attn_pool_slots(pool), req->arena, &an->source, &err);
    if (!status)
        status = srv_analysis_run(an, pool, &err);
    req->compute_ns = attn_now_ns() - start;
    if (status)
        srv_problem_error(req, &err);
    return !status;
}

static void answer_analyses(srv_request *req, const srv_analysis *an, const analyses_query *q) {
    if (srv_reads_text(req)) {
        attn_text t = srv_text_begin(req);
        srv_analysis_text(&t, an);
        srv_text_end(req, &t);
        return;
    }
    attn_json_text j;
    srv_json_begin(&j, req);
    j.decimals = (int)q->decimals;
    attn_json_object(&j);
    srv_analysis_members(&j, an);
    attn_json_object_end(&j);
    srv_json_end(&j);
}

srv_outcome srv_runs_analyses(srv_request *req) {
    analyses_query q = {.decimals = -1};
    srv_look look;
    if (srv_look_answered(&look, req))
        return SRV_DONE;
    const srv_run_view *run = srv_run_begin(req, srv_run_analyses_query, &q, &q.spot);
    if (!run)
        return SRV_DONE;
    srv_labels labels;
    bool ok = srv_run_labels(req, run->site, &labels);
    srv_analysis an = analysis_of(req, run->site, &q, &labels);
    ok = ok && count_analysis(&an, run, &look) && !srv_look_later(&look, srv_runs_analyses) &&
         srv_look_admit(&look) && run_analysis(&an, run);
    if (ok)
        answer_analyses(req, &an, &q);
    return srv_look_end(&look, run, ok);
}
