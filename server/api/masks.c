/* POST /v1/masks: builds, combines, explains and lints masks without computing any attention. */
#include "app.h"
#include "handlers.h"
#include "masks_call.h"

/* Masks up to this many cells are resolved on the HTTP thread: about half a millisecond. */
#define IN_PLACE_CELLS 262144

static bool decode(srv_masks_call *call) {
    srv_request *req = call->req;
    int64_t start = attn_now_ns();
    bool ok = srv_decode(req, srv_masks_fields, &call->body);
    if (ok) {
        srv_hurry(req, call->body.timeout_ms);
        ok = srv_masks_prepare(call);
    }
    req->decode_ns = attn_now_ns() - start;
    return ok;
}

static bool within_limits(srv_masks_call *call) {
    double most = call->req->app->config->max_cells;
    if (call->bound <= most)
        return true;
    char text[128];
    srv_problem_limit(call->req, SRV_TOO_LARGE, NULL, most, "max_cells",
                      "a mask of shape %s has %.4g cells; at most %.4g are allowed",
                      attn_shape_text(call->dims, call->rank, text, sizeof text), call->bound,
                      most);
    return false;
}

static bool compile(srv_masks_call *call) {
    srv_request *req = call->req;
    attn_error err = {0};
    if (attn_mask_new(&call->spec, &call->shape, req->arena, &call->mask, &err)) {
        srv_problem_error(req, &err);
        return false;
    }
    call->B = attn_mask_batches(call->mask);
    if (attn_mask_lint(call->mask, req->arena, &call->warnings, &err)) {
        srv_problem_error(req, &err);
        return false;
    }
    return true;
}

srv_outcome srv_masks(srv_request *req) {
    srv_masks_call call = {.req = req};
    if (!decode(&call) || !within_limits(&call))
        return SRV_DONE;
    if (req->in_place && call.bound > IN_PLACE_CELLS)
        return SRV_DEFER;
    int64_t start = attn_now_ns();
    bool ok = compile(&call);
    int64_t compiled = attn_now_ns();
    req->compute_ns = compiled - start;
    if (!ok)
        return SRV_DONE;
    if (srv_plain(req))
        srv_masks_text(&call);
    else
        srv_masks_json(&call);
    req->encode_ns = attn_now_ns() - compiled;
    return SRV_DONE;
}
