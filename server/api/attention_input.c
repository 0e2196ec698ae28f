/* Decoded body -> the library's inputs, with the contradictions that a field table cannot see. */
#include <math.h>

#include "api/attention_call.h"
#include "api/handlers.h"

static bool check_company(const srv_scope *scope) {
    return (srv_given(scope, "projections") ||
            srv_needs(scope, "key", "value", "send both, or neither for self-attention")) &&
           srv_needs(scope, "value", "key", "send both, or neither for self-attention") &&
           srv_needs(scope, "past_key", "past_value", "a cache has keys and values") &&
           srv_needs(scope, "past_value", "past_key", "a cache has keys and values") &&
           srv_needs(scope, "num_kv_heads", "num_heads", "heads of queries come first");
}

static bool check_heads(const srv_scope *scope, const srv_attention_body *body) {
    if (srv_given(scope, "projections"))
        return srv_excludes(scope, "num_heads", "projections",
                            "projections have a num_heads of their own");
    if (body->layout == ATTN_BLD && !srv_given(scope, "num_heads"))
        return srv_refuse(
            scope, SRV_VALUE, "layout",
            "layout BLD needs num_heads, which is not in this request: it says how the "
            "last axis is split");
    if (body->layout != ATTN_BLD && srv_given(scope, "num_heads"))
        return srv_refuse(
            scope, SRV_VALUE, "num_heads",
            "num_heads goes with layout BLD; in layout %s the shapes say how many heads "
            "there are",
            body->layout == ATTN_BHLE ? "BHLE" : "BLHE");
    return true;
}

/* `return`, or its default, as a set of bits; weights of the default are settled once shapes are
 * known. */
static bool read_items(srv_attention_call *call, const srv_scope *scope) {
    const srv_attention_body *body = &call->body;
    unsigned items =
        srv_given(scope, "return") ? body->items : ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS;
    if (srv_given(scope, "heatmap"))
        items |= SRV_WANT_HEATMAP;
    if (srv_given(scope, "grad_output"))
        items |= SRV_WANT_GRADIENTS;
    else if (items & SRV_WANT_GRADIENTS)
        return srv_refuse(scope, SRV_VALUE, "return",
                          "\"gradients\" need grad_output, which is not in this request");
    if (srv_given(scope, "grad_output") && body->precision != ATTN_PRECISION_FP32)
        return srv_refuse(scope, SRV_VALUE, "precision",
                          "gradients are computed in fp32: leave precision out with grad_output, "
                          "found \"%s\"",
                          attn_precision_name((attn_precision)body->precision));
    if (items == 0 && !srv_draws(call->req) && !body->store && !body->analysis && !body->explain &&
        !body->dry_run && !body->verify)
        return srv_refuse(
            scope, SRV_VALUE, "return",
            "return is empty, and nothing else (heatmap, analysis, store, explain, verify, "
            "dry_run) asks for anything");
    if ((items & ATTN_WANT_WEIGHTS_DROPPED) && !srv_given(scope, "dropout_p"))
        return srv_refuse(scope, SRV_VALUE, "return",
                          "\"weights_dropped\" needs dropout_p, which is not in this request");
    if (srv_given(scope, "score_stage") && (items & ATTN_WANT_SCORES) == 0)
        return srv_refuse(scope, SRV_VALUE, "score_stage",
                          "score_stage needs \"scores\" in return, which does not ask for them");
    if (srv_draws(call->req)) /* a picture holds the heatmap and nothing else */
        items = SRV_WANT_HEATMAP;
    call->want = items & SRV_WANT_LIBRARY;
    call->heatmap = (items & SRV_WANT_HEATMAP) != 0;
    call->backward = (items & SRV_WANT_GRADIENTS) != 0;
    return true;
}

static void read_scale(const srv_union *scale, double *out) {
    if (scale->is)
        *out = scale->is == SRV_U_FALSE ? 1 : scale->number;
}

static bool read_masks(srv_attention_call *call, const srv_scope *scope) {
    const srv_attention_body *body = &call->body;
    attn_mask_spec *spec = &call->in.mask;
    if (body->is_causal) {
        const attn_mask_layer causal = {.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"};
        if (!srv_mask_add(scope, spec, &causal))
            return false;
    }
    if (!srv_mask_layers(scope, &body->mask, spec))
        return false;
    if (srv_given(scope, "attn_bias")) {
        const attn_mask_layer bias = {
            .kind = ATTN_LAYER_BIAS, .where = "attn_bias", .values = body->attn_bias};
        if (!srv_mask_add(scope, spec, &bias))
            return false;
    }
    if (srv_given(scope, "mask_fill")) {
        spec->fill = body->mask_fill.mode == 0 ? ATTN_FILL_ADD : ATTN_FILL_REPLACE;
        spec->fill_value = body->mask_fill.value;
    }
    srv_mask_offset(&body->query_offset, spec);
    return true;
}

static bool read_dropout(srv_attention_call *call, const srv_scope *scope) {
    const srv_attention_body *body = &call->body;
    if (body->dropout_p >= 1)
        return srv_refuse(scope, SRV_VALUE, "dropout_p",
                          "expected a probability from 0 to below 1: at 1 nothing would be left");
    if (body->dropout_p > 0 && !srv_given(scope, "seed"))
        return srv_refuse(scope, SRV_VALUE, "dropout_p",
                          "dropout_p needs seed, which is not in this request: the same seed drops "
                          "the same weights");
    if (srv_given(scope, "seed") && !srv_given(scope, "dropout_p") && !srv_given(scope, "verify"))
        return srv_refuse(scope, SRV_VALUE, "seed",
                          "seed needs dropout_p or verify, which are not in this request");
    call->in.dropout_p = body->dropout_p;
    call->in.dropout_seed = (uint64_t)body->seed;
    return true;
}

static bool read_forms(srv_attention_call *call, const srv_scope *scope) {
    const srv_attention_body *body = &call->body;
    attn_inputs *in = &call->in;
    bool any = body->allow_nonfinite;
    size_t *n = &call->parameters;
    return read_dropout(call, scope) && srv_score_read(scope, &body->score, any, &in->score, n) &&
           srv_position_read(scope, &body->position, any, &in->position, n) &&
           srv_parameter_read(scope, "sinks", &body->sinks, any, &in->sinks, n) &&
           (!srv_given(scope, "projections") ||
            srv_projections_read(scope, &body->projections, any, &call->projections, n));
}

static void copy_tensors(attn_inputs *in, const srv_attention_body *body) {
    in->query = body->query;
    in->key = body->key;
    in->value = body->value;
    in->past_key = body->past_key;
    in->past_value = body->past_value;
    in->layout = (attn_layout)body->layout;
    in->precision = (attn_precision)body->precision;
    in->num_heads = (size_t)body->num_heads;
    in->num_kv_heads = (size_t)body->num_kv_heads;
    in->forbid_gqa = !body->enable_gqa;
    in->softcap = body->softcap;
    in->allow_nonfinite = body->allow_nonfinite;
}

/* The inputs after projections, which need no data for it, and the shapes that follow. */
static bool read_shapes(srv_attention_call *call) {
    attn_error err = {0};
    attn_status status = ATTN_OK;
    call->shaped = &call->in;
    if (call->projections.num_heads) {
        call->shaped = attn_arena_take(call->req->arena, sizeof *call->shaped);
        status = call->shaped ? attn_projections_shape(&call->in, &call->projections, call->shaped,
                                                       NULL, &err)
                              : attn_fail(&err, ATTN_ENOMEM, "", "no memory left for the inputs");
    }
    if (!status)
        status = attn_attention_shape(call->shaped, &call->dims, &err);
    if (status)
        srv_problem_error(call->req, &err);
    return !status;
}

unsigned srv_attention_computes(const srv_attention_call *call) {
    const bool looks = call->heatmap || call->analyses || call->body.store ||
                       (call->backward && call->projections.num_heads);
    return call->want | (call->body.verify || call->backward ? ATTN_WANT_OUTPUT : 0u) |
           (looks ? (unsigned)ATTN_WANT_CELLS : 0u);
}

/* Weights that nobody asked for are left out when they are large. */
static void settle_weights(srv_attention_call *call, const srv_scope *scope) {
    const attn_attention_dims *d = &call->dims;
    double values = (double)d->B * (double)d->Hq * (double)d->L * (double)d->S;
    if (!srv_given(scope, "return") && !srv_draws(call->req) && values > SRV_WEIGHTS_UNASKED) {
        call->want &= ~(unsigned)ATTN_WANT_WEIGHTS;
        call->weights_omitted = true;
    }
}

/* The options of an analysis; its source and mask follow when the operation is there. */
static void plan_analysis(srv_attention_call *call) {
    srv_analysis *an = &call->analysis;
    const attn_attention_dims *d = &call->dims;
    call->analyses = call->body.analysis != 0 && !srv_draws(call->req);
    *an = (srv_analysis){.req = call->req,
                         .items = call->body.analysis,
                         .B = d->B,
                         .H = d->Hq,
                         .L = d->L,
                         .S = d->S,
                         .layers = 1,
                         .labels = &call->body.labels,
                         .options = attn_measure_defaults()};
    if (an->items & SRV_AN_ALL)
        an->items |= SRV_AN_EVERY;
}

bool srv_attention_prepare(srv_attention_call *call) {
    srv_attention_body *body = &call->body;
    const srv_scope scope = {call->req, srv_attention_fields, body, ""};
    if (!check_company(&scope) || !check_heads(&scope, body) || !read_items(call, &scope))
        return false;
    copy_tensors(&call->in, body);
    read_scale(&body->scale, &call->in.scale);
    if (!read_masks(call, &scope) || !read_forms(call, &scope) || !read_shapes(call))
        return false;
    settle_weights(call, &scope);
    if (!srv_labels_check(&scope, &body->labels, call->dims.L, call->dims.S))
        return false;
    plan_analysis(call);
    return srv_figure_check(call->req, &body->figure) &&
           (!call->heatmap ||
            srv_heat_options(call->req, &body->heatmap, &call->dims, &call->heat));
}
