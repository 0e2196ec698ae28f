/* Stored runs as operands of POST /v1/analyses: one attention operation, or the layers of a
 * model. */
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

static bool select_layers(const srv_analyses_call *call, const srv_scope *scope, srv_operand *o) {
    if (!srv_run_layers(scope, o->run->held->run, &call->body.spot, &o->layers))
        return false;
    o->run->site = o->layers.items[0].site;
    if (!srv_run_touch_layers(call->req, o->run, &o->layers))
        return false;
    return o->layers.heads > 0 || srv_refuse(scope, SRV_SHAPE, "site",
                                             "the selected sites have different numbers of heads: "
                                             "choose one by its name or its number");
}

bool srv_operand_of_run(srv_analyses_call *call, const srv_scope *scope, const char *id,
                        srv_operand *o) {
    o->run = srv_run_look(call->req, id);
    if (!o->run || !select_layers(call, scope, o))
        return false;
    o->dims = attn_attention_map_dims(attn_run_dims(o->run->site));
    o->dims.B = o->layers.count * o->layers.batches;
    o->stacked = !is_whole_site(&o->layers);
    return true;
}

attn_status srv_operand_run_source(const srv_operand *o, size_t lanes, attn_arena *arena,
                                   attn_weight_source *out, attn_error *err) {
    return o->stacked ? attn_run_layers_source(&o->layers, lanes, arena, out, err)
                      : attn_run_source_of(o->run->site, lanes, arena, out, err);
}

bool srv_analyses_may_roll(const srv_analyses_call *call, const srv_scope *scope) {
    const char *name = call->first.run ? "run" : "weights";
    if (call->first.dims.L != call->first.dims.S)
        return srv_refuse(scope, SRV_SHAPE, name,
                          "rollout multiplies layers: expected as many queries as keys, found %zu "
                          "and %zu",
                          call->first.dims.L, call->first.dims.S);
    if (call->first.run ? srv_run_layers_are_known(call->first.run->held->run, &call->first.layers)
                        : call->analysis.layered || call->first.dims.B <= 1)
        return true;
    return call->first.run
               ? srv_refuse(scope, SRV_VALUE, name,
                            "rollout goes through layers, and %zu batch entries are none: store "
                            "the run with \"axes\": [\"layer\", \"batch\", \"head\"] and a query "
                            "[layers, B, H, L, E], or as a run with a site for each layer",
                            call->first.dims.B)
               : srv_refuse(scope, SRV_VALUE, name,
                            "rollout goes through layers, and the %zu batch entries of weights "
                            "[B, H, L, S] are none: send [layers, B, H, L, S]",
                            call->first.dims.B);
}
