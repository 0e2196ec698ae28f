/* GET /v1/runs/{id}/analyses answers an analysis of a site of a stored run, as the field `analysis`
 * of POST /v1/attention does for that request. */
#include "api/analyses/analyses_api.h"
#include "api/analyses/analyses_call.h"
#include "api/common/route_fields.h"
#include "api/common/text_reply.h"
#include "api/stored/stored_api.h"
#include "request/shared.h"

typedef struct analyses_query {
    srv_given_bits given;
    srv_run_spot spot;
    unsigned items;
    int64_t radius, top_k, decimals;
} analyses_query;

const srv_field srv_run_analyses_query[] = {
    SRV_RUN_SITE_ROWS(analyses_query),
    SRV_NAMED_ROW(analyses_query, "analysis", items, SRV_FLAGS,
                  "The parts of the answer, named as in analysis of POST /v1/attention; default "
                  "all of these but value_norm.",
                  .choices = srv_analysis_items_run),
    SRV_INT_ROW(analyses_query, radius, 0, 1048576,
                "For local_mass: largest distance between key and query.", .standard = "2"),
    SRV_INT_ROW(analyses_query, top_k, 0, 1024, "Number of most attended keys in top_keys.",
                .standard = "5"),
    SRV_DECIMALS_ROW(analyses_query, "."),
    {0},
};

typedef struct analyses_look {
    SRV_LOOK;
    analyses_query q;
    srv_labels labels;
    srv_analysis analysis;
} analyses_look;

srv_analysis srv_analysis_of_site(srv_request *req, const attn_run_site *site, unsigned items,
                                  const srv_labels *labels) {
    const attn_attention_dims *d = attn_run_dims(site);
    return (srv_analysis){.req = req,
                          .items = items,
                          .B = d->B,
                          .H = d->Ho,
                          .L = d->L,
                          .S = d->S,
                          .layers = 1,
                          .run = attn_run_attention(site),
                          .valued = srv_run_valued(site),
                          .mask = d->factors ? NULL : attn_attention_mask(attn_run_attention(site)),
                          .labels = labels,
                          .options = attn_measure_defaults()};
}

static bool prepare_analysis(void *data) {
    analyses_look *c = data;
    attn_cost cost;
    double text;
    if (!srv_run_spot_check(&c->scope, c->run, &c->q.spot) ||
        !srv_run_labels(c->req, c->run->site, &c->labels))
        return false;
    const bool all = c->q.items == 0 || (c->q.items & SRV_AN_ALL);
    c->analysis = srv_analysis_of_site(
        c->req, c->run->site, c->q.items | (all ? SRV_AN_ALL | SRV_AN_EVERY : 0), &c->labels);
    c->analysis.options.radius = (size_t)c->q.radius;
    c->analysis.options.top_keys = (size_t)c->q.top_k;
    if (!srv_analysis_cost(&c->analysis, attn_pool_slots(srv_request_pool(c->req)), &cost, &text))
        return false;
    srv_look_needs(&c->look, cost.cells, cost.operations,
                   (double)cost.work_bytes + (double)cost.result_bytes + text +
                       srv_run_cells_work(c->req, c->run));
    return true;
}

static bool compute_analysis(void *data) {
    analyses_look *c = data;
    attn_pool *pool = srv_request_pool(c->req);
    attn_error err = {0};
    attn_status status = attn_run_source_of(c->run->site, attn_pool_slots(pool), c->req->arena,
                                            &c->analysis.source, &err);
    if (!status)
        status = srv_analysis_run(&c->analysis, pool, &err);
    return !status || srv_problem_error(c->req, &err);
}

static void answer_text(void *data, attn_text *t) {
    const analyses_look *c = data;
    srv_analysis_text(t, &c->analysis);
}

static void answer_json(void *data, attn_json_text *j) {
    const analyses_look *c = data;
    srv_analysis_members(j, &c->analysis);
}

srv_outcome srv_runs_analyses(srv_request *req) {
    static const srv_steps steps = {
        SRV_LOOK_STEPS(analyses_look, srv_run_analyses_query),
        .unit_ns = 0.125,
        .prepare = prepare_analysis,
        .compute = compute_analysis,
        .json = answer_json,
        .text = answer_text,
    };
    analyses_look c = {.look.call.req = req, .q = {.decimals = -1}};
    return srv_look_run(&c, &steps, srv_runs_analyses);
}
