/* The field table of POST /v1/attention: the fields of the operation, and fields that choose the
 * parts of the answer. This file also refuses combinations of fields that a table cannot
 * express. */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "api/attention/attention_api.h"
#include "api/attention/attention_call.h"
#include "api/common/route_fields.h"

static const char *const item_names[] = {
    "output",          "weights",  "logsumexp", "scores",           "present",
    "weights_dropped", "heatmap",  "gradients", "gradients.scores", "inputs",
    "weighted_values", "row_sums", NULL};

const srv_field srv_attention_fields[] = {
    SRV_OPERATION_ROWS(srv_attention_body, operation),
    SRV_LABELS_ROW(srv_attention_body, "Names of queries and keys, for heatmaps and analyses"),
    SRV_NAMED_ROW(
        srv_attention_body, "return", items, SRV_FLAGS,
        "The parts of the answer, its members. present are present_key and present_value; inputs "
        "are query, key and value as the scores are made of them; gradients.scores is the gradient "
        "with respect to the biased scores. Default: output (with key, only if value was sent), "
        "weights, and with grad_output or grad_logsumexp both kinds of gradients. Weights and "
        "gradients.scores of "
        "more than 65,536 values are left out of the default, and omitted names them.",
        .choices = item_names),
    SRV_NAMED_ROW(
        srv_attention_body, "score_stage", score_stages, SRV_FLAGS,
        "The stage of the returned scores: raw (q . k), scaled, softcapped, biased "
        "(default: the input of the normalizer, null where hidden) or probs. With a list of "
        "stages, scores is an object with a tensor for each stage, and a picture shows "
        "the stages of each head side by side, each with colours of its own.",
        .accepts = SRV_F_LIST, .choices = attn_stage_words),
    SRV_BOOL_ROW(srv_attention_body, average_attn_weights,
                 "Return weights (and weights_dropped) as their mean over the heads, without a "
                 "head axis, as torch.nn.MultiheadAttention does."),
    SRV_DECIMALS_ROW(srv_attention_body, SRV_SHORTEST),
    SRV_FULL_ROW(srv_attention_body),
    SRV_NONFINITE_ROW(srv_attention_body, operation),
    SRV_BOOL_ROW(
        srv_attention_body, explain,
        "Add diagnostics: the mask in words, the kept share, offsets, sizes, kernel, cost."),
    SRV_INT_ROW(srv_attention_body, verify, 1, 1000,
                "Computes this many rows, drawn with seed (default 0), again in float64. Returns "
                "the largest differences as verification."),
    SRV_BOOL_ROW(srv_attention_body, store,
                 "Store the inputs of the scores, so that /v1/runs/{id} can return any part of the "
                 "exact weights later. run of the answer and the header X-Run-Id hold the id. With "
                 "Prefer: respond-async a job does what takes long."),
    SRV_FIELD_ROW(
        srv_attention_body, axes, SRV_STRINGS,
        "With store: names of the axes of the weights in front of the last two, \"layer\", "
        "\"batch\" or \"head\". The default is \"batch\" for all but the heads. What goes through "
        "layers, such as a rollout, needs a first axis \"layer\".",
        .example = "[\"layer\", \"batch\", \"head\"]", .max = ATTN_MAX_RANK),
    SRV_DRY_RUN_ROW(
        srv_attention_body,
        "Compute nothing: return the shapes, the mask in words, and the cost of the request."),
    SRV_TIMEOUT_ROW(srv_attention_body),
    SRV_FIELD_ROW(srv_attention_body, analysis, SRV_FLAGS,
                  "Measures and diagnoses of the weights, as POST /v1/analyses returns them, "
                  "without rollout and gradient. all is everything except value_norm.",
                  .choices = srv_analysis_items_run),
    SRV_HEATMAP_ROW(srv_attention_body, "Content of the heatmap. The field also requests one."),
    SRV_FIGURE_ROW(
        srv_attention_body,
        "Title, labels and style of the picture of the heatmap, which the Accept header requests."),
    {0},
};

void srv_attention_init(srv_attention_body *body) {
    srv_operation_init(&body->operation);
    body->score_stages = 1u << ATTN_STAGE_BIASED;
    body->decimals = -1;
    body->figure = SRV_FIGURE_DEFAULTS;
}

/* --- what the answer has --- */

/* Refuses fields and items of `return` that need values. */
static bool check_valueless(const srv_scope *scope, unsigned items) {
    static const char *const fields[] = {"grad_output", "past_key", "verify"};
    static const struct {
        unsigned bit;
        const char *name;
    } needing[] = {{ATTN_WANT_OUTPUT, "output"},
                   {ATTN_WANT_PRESENT, "present"},
                   {SRV_WANT_WEIGHTED_VALUES, "weighted_values"}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!srv_needs(scope, fields[i], "value", "without value only weights are computed"))
            return false;
    for (size_t i = 0; i < sizeof needing / sizeof *needing; i++)
        if (items & needing[i].bit)
            return srv_refuse(scope, SRV_VALUE, "return",
                              "\"%s\" needs value, which is not in this request; weights, "
                              "logsumexp, scores, inputs and heatmap need only query and key",
                              needing[i].name);
    return true;
}

/* Sets the items of the answer from `return` and the fields heatmap, grad_output and
 * grad_logsumexp. Without `return`, the items are output and weights. omit_large_weights may remove
 * the weights later, when the shapes are known. false: a problem is set. */
static bool read_items(srv_attention_call *call, const srv_scope *scope) {
    const srv_attention_body *body = &call->body;
    const bool paints = call->req->accept & (SRV_ACCEPT_PNG | SRV_ACCEPT_SVG);
    const bool valueless = srv_operation_lacks_value(scope);
    const bool differentiates =
        srv_given(scope, "grad_output") || srv_given(scope, "grad_logsumexp");
    unsigned items = srv_given(scope, "return") ? body->items
                     : valueless                ? ATTN_WANT_WEIGHTS
                                                : ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS;
    if (valueless && !check_valueless(scope, items))
        return false;
    if (srv_given(scope, "heatmap"))
        items |= SRV_WANT_HEATMAP;
    if (differentiates && !srv_given(scope, "return"))
        items |= SRV_WANT_GRADIENTS | SRV_WANT_SCORE_GRADIENTS;
    else if (differentiates && !(items & SRV_WANT_SCORE_GRADIENTS))
        items |= SRV_WANT_GRADIENTS;
    else if (!differentiates && (items & (SRV_WANT_GRADIENTS | SRV_WANT_SCORE_GRADIENTS)))
        return srv_refuse(scope, SRV_VALUE, "return",
                          "\"gradients\" need grad_output or grad_logsumexp, which are not in this "
                          "request");
    if (differentiates && body->operation.in.precision != ATTN_PRECISION_FP32)
        return srv_refuse(
            scope, SRV_VALUE, "precision",
            "gradients are computed in fp32: leave precision out for them, found \"%s\"",
            attn_precision_name(body->operation.in.precision));
    if (items == 0 && !srv_draws(call->req) && !body->store && !body->analysis && !body->explain &&
        !body->dry_run && !body->verify)
        return srv_refuse(
            scope, SRV_VALUE, "return",
            "return is empty, and nothing else (heatmap, analysis, store, explain, verify, "
            "dry_run) asks for anything");
    if ((items & ATTN_WANT_WEIGHTS_DROPPED) && !srv_given(scope, "dropout_p"))
        return srv_refuse(scope, SRV_VALUE, "return",
                          "\"weights_dropped\" needs dropout_p, which is not in this request");
    if (srv_given(scope, "score_stage") && !(body->score_stages & ~SRV_FLAGS_LIST))
        return srv_refuse(scope, SRV_VALUE, "score_stage", "the list of stages is empty");
    if (srv_given(scope, "average_attn_weights") &&
        !(items & (ATTN_WANT_WEIGHTS | ATTN_WANT_WEIGHTS_DROPPED)))
        return srv_refuse(scope, SRV_VALUE, "average_attn_weights",
                          "average_attn_weights needs \"weights\" in return, which does not ask "
                          "for them");
    if (srv_given(scope, "score_stage") && (items & ATTN_WANT_SCORES) == 0 && !paints)
        return srv_refuse(scope, SRV_VALUE, "score_stage",
                          "score_stage needs \"scores\" in return, which does not ask for them");
    if (srv_draws(call->req)) /* a picture or a CSV holds only the heatmap */
        items = SRV_WANT_HEATMAP;
    if (paints && (body->score_stages & SRV_FLAGS_LIST))
        for (int stage = 0; stage < SRV_STAGES; stage++)
            if (body->score_stages >> stage & 1)
                call->stages[call->stage_count++] = attn_stage_words[stage];
    call->want = items & SRV_WANT_TENSORS;
    call->heatmap = (items & SRV_WANT_HEATMAP) != 0;
    call->gradient_items = items & (SRV_WANT_GRADIENTS | SRV_WANT_SCORE_GRADIENTS);
    call->backward = call->gradient_items != 0;
    return true;
}

unsigned srv_attention_computes(const srv_attention_call *call) {
    const bool reads_cells = call->heatmap || call->analyses || call->body.store ||
                             (call->backward && call->body.operation.projections.num_heads);
    const unsigned weighting =
        call->body.operation.in.dropout_p > 0 ? ATTN_WANT_WEIGHTS_DROPPED : ATTN_WANT_WEIGHTS;
    return (call->want & SRV_WANT_LIBRARY) |
           (call->body.verify || call->backward ? ATTN_WANT_OUTPUT : 0u) |
           (call->want & SRV_WANT_WEIGHTED_VALUES ? weighting : 0u) |
           (call->want & SRV_WANT_ROW_SUMS ? ATTN_WANT_WEIGHTS : 0u) |
           (reads_cells ? (unsigned)ATTN_WANT_CELLS : 0u);
}

bool srv_attention_norms(const srv_attention_call *call) {
    return (call->heatmap && call->body.heatmap.of == SRV_OF_VALUE_NORM) ||
           (call->analyses && !call->body.operation.valueless &&
            (call->analysis.items & SRV_AN_VALUE_NORM));
}

const attn_tensor *srv_attention_w_o(const srv_attention_call *call) {
    const attn_tensor *w_o = &call->body.operation.projections.w_o;
    return w_o->rank ? w_o : NULL;
}

/* Requests no gradient of the scores. */
static void leave_score_gradients(srv_operation *o) {
    o->in.score_gradients = false;
    if (o->shaped) /* NULL in a ragged batch, where each entry has an operation */
        o->shaped->score_gradients = false;
}

void srv_attention_omit(srv_attention_call *call) {
    call->want &= ~(unsigned)ATTN_WANT_WEIGHTS;
    call->gradient_items &= ~(unsigned)SRV_WANT_SCORE_GRADIENTS;
    call->weights_omitted = true;
    leave_score_gradients(&call->body.operation);
}

/* If the request has no `return` and there are more than SRV_WEIGHTS_UNASKED weights, removes the
 * weights and the gradient of the scores from the answer. */
static void omit_large_weights(srv_attention_call *call, const srv_scope *scope) {
    const attn_attention_dims *d = &call->body.operation.dims;
    double values = (double)d->B * (double)d->Ho * (double)d->L * (double)d->S;
    if (!srv_given(scope, "return") && !srv_draws(call->req) && values > SRV_WEIGHTS_UNASKED)
        srv_attention_omit(call);
}

/* Prepares the analysis, except its source and mask, which are set when the operation exists. */
static void plan_analysis(srv_attention_call *call) {
    const attn_attention_dims *d = &call->body.operation.dims;
    const unsigned items = call->body.analysis;
    call->analyses = true;
    call->analysis = (srv_analysis){.req = call->req,
                                    .items = items | (items & SRV_AN_ALL ? SRV_AN_EVERY : 0),
                                    .B = d->B,
                                    .H = d->Ho,
                                    .L = d->L,
                                    .S = d->S,
                                    .layers = 1,
                                    .valued = call->body.operation.valueless ? NULL : d,
                                    .w_o = srv_attention_w_o(call),
                                    .labels = &call->body.labels,
                                    .options = attn_measure_defaults()};
}

/* Checks the names of axes against the shape of the weights. false: a problem is set. */
static bool check_axes(const srv_attention_call *call, const srv_scope *scope) {
    const srv_strings *axes = &call->body.axes;
    attn_error err = {0};
    if (!call->body.store)
        return srv_refuse(scope, SRV_VALUE, "axes",
                          "axes name the axes of a stored run: they need \"store\": true");
    return !attn_run_axes_check(&call->body.operation.dims, (const char *const *)axes->values,
                                axes->count, &err) ||
           srv_problem_error(call->req, &err);
}

/* Refuses a list whose items differ in shape. */
static bool refuse_list(void *data, const srv_by_entry *field) {
    const srv_attention_call *call = data;
    return !field->list->count || srv_refuse_list(&call->scope, field->at, field->list);
}

bool srv_attention_prepare(srv_attention_call *call) {
    srv_attention_body *body = &call->body;
    srv_operation *o = &body->operation;
    if (!srv_operation_is_ragged(o) && !srv_by_entry_each(o, o, refuse_list, call))
        return false;
    if (!srv_operation_check(&body->operation, &call->scope) || !read_items(call, &call->scope))
        return false;
    if (!srv_operation_settle(&body->operation, &call->scope) ||
        (srv_given(&call->scope, "axes") && !check_axes(call, &call->scope)))
        return false;
    omit_large_weights(call, &call->scope);
    call->body.operation.shaped->score_gradients = body->operation.in.score_gradients =
        (call->gradient_items & SRV_WANT_SCORE_GRADIENTS) != 0;
    if (body->labels.items &&
        !srv_labels_check(call->req, &body->labels, call->body.operation.dims.B,
                          call->body.operation.dims.L, call->body.operation.dims.S))
        return false;
    if (body->analysis && !srv_draws(call->req))
        plan_analysis(call);
    body->heatmap.values = !call->body.operation.valueless;
    if (body->heatmap.of && call->stage_count)
        return srv_refuse(
            &call->scope, SRV_VALUE, "score_stage",
            "a picture shows stages of the scores or the heatmap's \"value_norm\", not "
            "both");
    if ((call->want & SRV_WANT_WEIGHTED_VALUES) && call->body.operation.dims.relative_values)
        return srv_refuse(&call->scope, SRV_VALUE, "position/value_table",
                          "\"weighted_values\" are not defined with value_table: the values "
                          "depend on the query, too");
    if (call->body.operation.dims.relative_values && srv_attention_norms(call))
        return srv_refuse(
            &call->scope, SRV_VALUE, "position/value_table",
            "\"value_norm\" is not defined with value_table: the values depend on the "
            "query, too");
    const attn_attention_dims maps = attn_attention_map_dims(&call->body.operation.dims);
    if (call->stage_count && maps.Hq != call->body.operation.dims.Hq)
        return srv_refuse(&call->scope, SRV_VALUE, "score_stage",
                          "a picture shows stages of each head beside each other: here scores have "
                          "%zu heads and weights %zu",
                          call->body.operation.dims.Hq, maps.Hq);
    return (!srv_given(&call->scope, "figure") || srv_figure_check(call->req, &body->figure)) &&
           (!call->heatmap || srv_heat_options(call->req, &body->heatmap, &maps, &call->heat));
}

void srv_attention_keep_run(srv_attention_call *call) {
    srv_attention_body *body = &call->body;
    call->want = call->gradient_items = 0;
    call->heatmap = call->analyses = call->backward = false;
    leave_score_gradients(&body->operation);
    body->average_attn_weights = body->explain = false;
    body->verify = 0;
}
