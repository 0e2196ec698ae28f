/* Stored runs as operands of POST /v1/analyses: one attention operation, or the layers of a model. */
#include "api/analyses/analyses_call.h"
#include "api/stored/stored_api.h"
#include "request/shared.h"

/* Returns whether the layers are all batch entries of one site, in their order. */
static bool is_whole_site(const attn_run_layers *l) {
    const attn_run_site *site = l->items[0].site;
    bool whole = l->count * l->batches == attn_run_dims(site)->B;
    for (size_t i = 0; i < l->count; i++)
        whole = whole && l->items[i].site == site && l->items[i].first == i * l->batches;
    return whole;
}

static bool select_layers(const srv_analyses_call *call, const srv_scope *scope, srv_run_view *view,
                          attn_run_layers *out) {
    if (!srv_run_layers(scope, view->held->run, &call->body.spot, out))
        return false;
    view->site = out->items[0].site;
    if (!srv_run_touch_layers(call->req, view, out))
        return false;
    return out->heads > 0 || srv_refuse(scope, SRV_SHAPE, "site",
                                        "the selected sites have different numbers of heads: "
                                        "choose one by its name or its number");
}

bool srv_analyses_run(srv_analyses_call *call, const srv_scope *scope, const char *name,
                      const char *id) {
    const bool second = name[0] == 'o';
    srv_run_view *view = srv_run_look(call->req, id);
    attn_run_layers *layers = second ? &call->other_layers : &call->layers;
    *(second ? &call->other_run : &call->run) = view;
    if (!view || !select_layers(call, scope, view, layers))
        return false;
    attn_attention_dims *dims = second ? &call->other_dims : &call->dims;
    *dims = *attn_run_dims(view->site);
    dims->B = layers->count * layers->batches;
    *(second ? &call->other_stacked : &call->stacked) = !is_whole_site(layers);
    return true;
}

attn_status srv_analyses_run_source(const srv_analyses_call *call, bool second, size_t lanes,
                                    attn_weight_source *out, attn_error *err) {
    const attn_run_site *site = (second ? call->other_run : call->run)->site;
    attn_arena *arena = call->req->arena;
    if (second ? call->other_stacked : call->stacked)
        return attn_run_layers_source(second ? &call->other_layers : &call->layers, lanes, arena,
                                      out, err);
    return attn_run_source_of(site, lanes, arena, out, err);
}

bool srv_analyses_may_roll(const srv_analyses_call *call, const srv_scope *scope) {
    const char *name = call->run ? "run" : "weights";
    if (call->dims.L != call->dims.S)
        return srv_refuse(scope, SRV_SHAPE, name,
                          "rollout multiplies layers: expected as many queries as keys, found %zu "
                          "and %zu",
                          call->dims.L, call->dims.S);
    if (call->run ? srv_run_layers_are_known(call->run->held->run, &call->layers)
                  : call->analysis.layered || call->dims.B <= 1)
        return true;
    return call->run
               ? srv_refuse(scope, SRV_VALUE, name,
                            "rollout goes through layers, and %zu batch entries are none: store "
                            "the run with \"axes\": [\"layer\", \"batch\", \"head\"] and a query "
                            "[layers, B, H, L, E], or as a run with a site for each layer",
                            call->dims.B)
               : srv_refuse(scope, SRV_VALUE, name,
                            "rollout goes through layers, and the %zu batch entries of weights "
                            "[B, H, L, S] are none: send [layers, B, H, L, S]",
                            call->dims.B);
}
