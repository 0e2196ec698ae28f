/* The cost and the steps that the routes of /v1/models/{id} share. */
#include "api/passes/passes_api.h"

#include "request/shared.h"

const char *const srv_model_site_kinds[] = {"encoder", "decoder", "cross", NULL};

attn_model_cost srv_models_cost(const srv_pass *pass, const attn_model_pass *extent) {
    attn_model_cost cost =
        attn_model_pass_cost(pass->model->model, extent, attn_pool_slots(pass->req->app->pool));
    cost.bytes += cost.fallback_bytes;
    return cost;
}

void srv_models_bill(srv_pass *pass, const attn_model_cost *cost, double result) {
    pass->call.cost = (srv_cost){.cells = cost->cells,
                                 .operations = cost->operations,
                                 .weighted = cost->operations + SRV_CELL_OPERATIONS * cost->cells,
                                 .work = cost->bytes,
                                 .result = result};
}

void srv_models_dry(const srv_pass *pass, srv_dry *dry) {
    dry->learns = true;
    dry->parameters = attn_parameters_count(attn_model_parameters(pass->model->model), "");
    dry->load.text = dry->result;
}

srv_outcome srv_models_run(srv_pass *pass, const srv_steps *steps) {
    srv_request *req = pass->req;
    if (req->in_place && !srv_models_is_read(req, req->params[0], false))
        return SRV_DEFER;
    pass->model = srv_models_hold(req, req->params[0]);
    const srv_outcome outcome = pass->model ? srv_compute(pass, steps) : SRV_DONE;
    if (pass->model && outcome == SRV_DONE && pass->req == req && req->reply.status < 400)
        srv_models_is_same(req, pass->model);
    srv_models_release(req, pass->model);
    return outcome;
}
