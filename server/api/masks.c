/* POST /v1/masks: builds, combines, explains and lints masks without computing any attention. */
#include "api/dry.h"
#include "api/handlers.h"
#include "api/masks_call.h"
#include "request/shared.h"

/* Masks up to this many cells are resolved on the HTTP thread: about half a millisecond. */
#define IN_PLACE_CELLS 262144

static bool decode(srv_masks_call *call) {
    srv_request *req = call->req;
    int64_t start = attn_now_ns();
    srv_figure_init(&call->body.figure);
    bool ok = srv_decode(req, srv_masks_fields, &call->body);
    if (ok) {
        srv_hurry(req, call->body.timeout_ms);
        ok = srv_masks_prepare(call);
    }
    req->decode_ns = attn_now_ns() - start;
    return ok;
}

double srv_masks_batches(const srv_masks_call *call) {
    double n = 1;
    for (int i = 0; i < call->shape.batch_rank; i++)
        n *= (double)call->shape.batch[i];
    return n;
}

static bool within_limits(srv_masks_call *call) {
    double most = call->req->app->config->max_cells;
    double limit = (double)attn_arena_limit(call->req->arena);
    double entries = SRV_MASK_ENTRY * srv_masks_batches(call);
    char text[128];
    attn_shape_text(call->dims, call->rank, text, sizeof text);
    if (call->bound > most)
        srv_problem_limit(call->req, SRV_TOO_LARGE, NULL, most, "max_cells",
                          "a mask of shape %s has %.4g cells; at most %.4g are allowed", text,
                          call->bound, most);
    else if (entries > limit)
        srv_problem_limit(call->req, SRV_TOO_LARGE, NULL, limit, "max_request_bytes",
                          "a mask of shape %s has %.4g batch entries, which take %.4g bytes; a "
                          "request may use %.4g",
                          text, srv_masks_batches(call), entries, limit);
    else
        return true;
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

static srv_outcome predict(srv_masks_call *call) {
    srv_request *req = call->req;
    if (req->in_place && !srv_predictor_ready(req->app->predictor))
        return SRV_DEFER;
    bool fits = within_limits(call);
    /* Words need the compiled mask, which a shape beyond the limits has no memory for. */
    if (!fits || !compile(call))
        return SRV_DONE;
    bool cells = call->bound <= SRV_MASK_CELLS;
    srv_dry dry = {.mask = attn_mask_words(call->mask, req->arena),
                   .cells = call->cells,
                   .operations = call->cells,
                   .result = cells ? call->cells : 0,
                   .fits = fits};
    srv_dry_shape(&dry, "keep", call->rank, call->dims);
    dry.load.units[SRV_UNIT_REQUEST] = 1;
    dry.load.units[SRV_UNIT_KEEP] = 2 * call->cells;
    dry.load.units[SRV_UNIT_FLAG] = cells ? call->cells : 0;
    return srv_dry_reply(req, &dry);
}

srv_outcome srv_masks(srv_request *req) {
    srv_masks_call call = {.req = req};
    if (!decode(&call))
        return SRV_DONE;
    if (call.body.dry_run)
        return predict(&call);
    if (!within_limits(&call))
        return SRV_DONE;
    if (req->in_place && (call.bound > IN_PLACE_CELLS || srv_draws(req)))
        return SRV_DEFER;
    int64_t start = attn_now_ns();
    bool ok = srv_masks_admit(&call) && compile(&call) &&
              (srv_draws(req) || srv_mask_kept(req, call.mask, call.cells, &call.kept));
    int64_t compiled = attn_now_ns();
    req->compute_ns = compiled - start;
    if (!ok)
        return SRV_DONE;
    if (srv_draws(req))
        srv_masks_picture(&call);
    else if (srv_plain(req))
        srv_masks_text(&call);
    else
        srv_masks_json(&call);
    req->encode_ns = attn_now_ns() - compiled;
    return SRV_DONE;
}
