/* The field table of POST /v1/attention, by which a body is decoded into inputs of the library.
 * This file also refuses combinations of fields that a field table cannot express, and computes the
 * inputs and the shapes that depend on several fields. */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "api/attention/attention_api.h"
#include "api/attention/attention_call.h"
#include "api/common/route_fields.h"

#define AT(member) offsetof(srv_attention_body, member)
/* Name and offset of a row whose field has the name of the member of attn_inputs. */
#define INPUT(member) .name = #member, .offset = AT(in.member)

_Static_assert(sizeof(attn_layout) == sizeof(int) && sizeof(attn_precision) == sizeof(int) &&
                   sizeof(attn_stage) == sizeof(int),
               "SRV_ENUM stores an int");
_Static_assert(SRV_MASK_LAYERS + 2 <= ATTN_MASK_LAYERS, "room for is_causal and attn_bias, too");

static const char *const item_names[] = {
    "output",          "weights",  "logsumexp", "scores",           "present",
    "weights_dropped", "heatmap",  "gradients", "gradients.scores", "inputs",
    "weighted_values", "row_sums", NULL};

static const char ragged[] =
    "pad and send key_lengths, which hides the padding of a batch; all vectors have one width";

const srv_field srv_attention_fields[] = {
    {INPUT(query), .kind = SRV_TENSOR, .accepts = SRV_T_REAL, .required = true, .ragged = ragged,
     .doc = "[L, E], [B, L, E], [B, H, L, E] or with more batch axes in front."},
    {INPUT(key), .kind = SRV_TENSOR, .accepts = SRV_T_REAL, .ragged = ragged,
     .doc = "[.., Hkv, S, E], with the rank of query. Without key and value the request is "
            "self-attention."},
    {INPUT(value), .kind = SRV_TENSOR, .accepts = SRV_T_REAL, .ragged = ragged,
     .doc = "[.., Hkv, S, Ev], with the rank of query. With key and without value there is no "
            "output: the answer holds the weights."},
    SRV_MASK_ROWS(srv_attention_body, mask),
    SRV_TENSOR_ROW(srv_attention_body, attn_bias, SRV_T_REAL | SRV_T_NEGINF,
                   "A bias that is added to the scores and broadcast to the shape of the weights; "
                   "null and -Infinity stand for -infinity."),
    SRV_FILL_ROW(
        srv_attention_body, in.mask, fill_given,
        "A finite number in place of -infinity in hidden cells, for parity with code that "
        "does so. No cell then counts as hidden. A number alone, such as -1e9, is added to "
        "the scores."),
    SRV_BOOL_ROW(srv_attention_body, is_causal, "Query i sees the keys up to i + query_offset."),
    SRV_OFFSET_ROW(srv_attention_body, query_offset),
    {INPUT(score), .kind = SRV_OBJECT, .accepts = SRV_O_NAME, .fields = srv_score_fields,
     .given = AT(score_given),
     .doc = "The score function of a query and a key: a name, or an object with its parameters, "
            "which all heads share."},
    {INPUT(position), .kind = SRV_OBJECT, .accepts = SRV_O_NAME, .fields = srv_position_fields,
     .given = AT(position_given),
     .doc = "The position encoding: a name, or an object with its parameters. Query i has position "
            "i + query_offset, and key j has position j."},
    {.name = "projections",
     .kind = SRV_OBJECT,
     .offset = AT(projections),
     .fields = srv_projections_fields,
     .given = AT(projections_given),
     .doc = "Multi-head attention: query, key and value [.., L, D] are projected by linear maps "
            "and split into heads, whose outputs are concatenated. The weights are returned for "
            "each head."},
    {INPUT(sinks), .kind = SRV_TENSOR, .accepts = SRV_T_REAL,
     .doc = "[Hq]. One more logit for each head; it takes part in the softmax and has no value."},
    {INPUT(dropout_p), .kind = SRV_REAL, .max = 1,
     .doc = "Weights are dropped with this probability before they multiply the values, and the "
            "others are divided by 1 - p. A value above 0 needs seed. `weights` holds the weights "
            "before dropout."},
    {.name = "seed",
     .kind = SRV_INT,
     .offset = AT(in.dropout_seed),
     .doc = "Seed that selects the weights that dropout_p drops and the rows that verify checks."},
    {.name = "scale",
     .kind = SRV_UNION,
     .offset = AT(scale),
     .accepts = SRV_U_TRUE | SRV_U_FALSE | SRV_U_NUMBER,
     .doc = "A factor of the score; default 1/sqrt(E) for scaled_dot, 1 for the other scores; true "
            "= the default, false = 1."},
    {INPUT(softcap), .kind = SRV_REAL, .max = DBL_MAX,
     .doc = "Scores become c * tanh(score / c) after scaling; 0 = off."},
    {INPUT(past_key), .kind = SRV_TENSOR, .accepts = SRV_T_REAL,
     .doc = "Cached keys [.., Hkv, P, E], in every layout. They precede key."},
    {INPUT(past_value), .kind = SRV_TENSOR, .accepts = SRV_T_REAL,
     .doc = "Cached values [.., Hkv, P, Ev], in every layout. They precede value."},
    SRV_TENSOR_ROW(
        srv_attention_body, grad_output, SRV_T_REAL,
        "The gradient of a loss with respect to the output, with the shape of the output. The "
        "answer then holds the gradients with respect to every floating-point input, attn_mask "
        "included if its numbers are added to the scores."),
    {INPUT(layout), .kind = SRV_ENUM, .choices = attn_layout_words,
     .doc = "Order of the axes of query, key, value and output: BHLE (default), BLHE, or BLD "
            "(heads side by side in the last axis, with num_heads)."},
    {INPUT(num_heads), .kind = SRV_INT, .min = 1, .max = ATTN_INPUT_HEADS,
     .doc = "Number of query heads, for layout BLD."},
    {INPUT(num_kv_heads), .kind = SRV_INT, .min = 1, .max = ATTN_INPUT_HEADS,
     .doc = "Number of key and value heads, for layout BLD; default num_heads."},
    {.name = "enable_gqa",
     .kind = SRV_BOOL,
     .offset = AT(in.forbid_gqa),
     .accepts = SRV_B_NOT,
     .doc = "true (default): unequal head counts select grouped-query attention; false makes "
            "unequal head counts an error."},
    {INPUT(precision), .kind = SRV_ENUM, .choices = attn_precision_words,
     .doc = "The precision of products: fp32 (default), fast (errors up to 2e-5 of the value "
            "range, used where it is faster), or bf16 (queries, keys, values and the weights "
            "that multiply the values are rounded to bfloat16; sums are in float32). Not with "
            "float64 tensors or grad_output."},
    SRV_LABELS_ROW(srv_attention_body, "Names of queries and keys, for heatmaps and analyses"),
    {.name = "return",
     .kind = SRV_FLAGS,
     .offset = AT(items),
     .choices = item_names,
     .doc = "The parts of the answer. inputs are the members query, key and value of the answer, "
            "after projections, encodings and rotation; weighted_values is weight times value of "
            "each key; row_sums are the sums of the weights. Default: output (with key, only if "
            "value was sent), and weights if they hold at most 65,536 values."},
    {.name = "score_stage",
     .kind = SRV_FLAGS,
     .offset = AT(score_stages),
     .accepts = SRV_F_LIST,
     .choices = attn_stage_words,
     .doc = "The stage of the returned scores: raw (q . k), scaled, softcapped, biased (default: "
            "the input of softmax, null where hidden) or probs. With a list of stages, scores is "
            "an object with a tensor for each stage, and a picture shows the stages side by side."},
    SRV_BOOL_ROW(srv_attention_body, average_attn_weights,
                 "Return weights (and weights_dropped) as their mean over the heads, without a "
                 "head axis, as torch.nn.MultiheadAttention does."),
    SRV_DECIMALS_ROW(srv_attention_body,
                     ". The default is the shortest text that reads back to the same number."),
    SRV_FULL_ROW(srv_attention_body),
    {INPUT(allow_nonfinite), .kind = SRV_BOOL, .accepts = SRV_B_BEYOND,
     .doc =
         "Accept NaN and infinity instead of answering 422. The answer holds null in their place."},
    SRV_BOOL_ROW(
        srv_attention_body, explain,
        "Add diagnostics: the mask in words, the kept share, offsets, sizes, kernel, cost."),
    SRV_INT_ROW(srv_attention_body, verify, 1, 1000,
                "Computes this many random rows again in float64. Returns the largest differences "
                "as verification."),
    SRV_BOOL_ROW(srv_attention_body, store,
                 "Store the inputs of the scores, so that /v1/runs/{id} can return any part of the "
                 "exact weights later. The field run of the answer holds the id."),
    {.name = "axes",
     .kind = SRV_STRINGS,
     .offset = AT(axes),
     .example = "[\"layer\", \"batch\", \"head\"]",
     .max = ATTN_MAX_RANK,
     .doc = "With store: names of the axes of the weights in front of the last two, \"layer\", "
            "\"batch\" or \"head\". The default is \"batch\" for all but the heads. What goes "
            "through layers, such as a rollout, needs a first axis \"layer\"."},
    SRV_DRY_RUN_ROW(
        srv_attention_body,
        "Compute nothing: return the shapes, the mask in words, and the cost of the request."),
    SRV_TIMEOUT_ROW(srv_attention_body),
    {.name = "analysis",
     .kind = SRV_FLAGS,
     .offset = AT(analysis),
     .choices = srv_analysis_items_run,
     .doc = "Measures and diagnoses of the weights, as POST /v1/analyses returns them; all selects "
            "every one."},
    SRV_HEATMAP_ROW(srv_attention_body, "Content of the heatmap. The field also requests one."),
    SRV_FIGURE_ROW(
        srv_attention_body,
        "Title, labels and style of the picture of the heatmap, which the Accept header requests."),
    {0},
};

void srv_attention_init(srv_attention_body *body) {
    body->in = attn_attention_defaults();
    body->score_stages = 1u << ATTN_STAGE_BIASED;
    body->decimals = -1;
    body->figure = SRV_FIGURE_DEFAULTS;
}

/* --- from the body to inputs --- */

/* Returns whether the request has keys but no values, so that it can have no output. */
static bool lacks_value(const srv_scope *scope) {
    return srv_given(scope, "key") && !srv_given(scope, "value") &&
           !srv_given(scope, "projections");
}

/* Refuses what a request without values cannot have. */
static bool check_valueless(const srv_scope *scope, unsigned items) {
    static const char *const fields[] = {"grad_output", "past_key", "verify"};
    static const struct {
        unsigned bit;
        const char *name;
    } needing[] = {{ATTN_WANT_OUTPUT, "output"},
                   {ATTN_WANT_PRESENT, "present"},
                   {SRV_WANT_WEIGHTED_VALUES, "weighted_values"}};
    if (!lacks_value(scope))
        return true;
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

static bool check_company(const srv_scope *scope) {
    return srv_needs(scope, "value", "key", "send both, or neither for self-attention") &&
           srv_needs(scope, "past_key", "past_value", "a cache has keys and values") &&
           srv_needs(scope, "past_value", "past_key", "a cache has keys and values") &&
           srv_needs(scope, "num_kv_heads", "num_heads", "heads of queries come first");
}

static bool check_heads(const srv_scope *scope, const srv_attention_body *body) {
    if (srv_given(scope, "projections"))
        return srv_excludes(scope, "num_heads", "projections",
                            "projections have a num_heads of their own");
    if (body->in.layout == ATTN_BLD && !srv_given(scope, "num_heads"))
        return srv_refuse(
            scope, SRV_VALUE, "layout",
            "layout BLD needs num_heads, which is not in this request: it says how the "
            "last axis is split");
    if (body->in.layout != ATTN_BLD && srv_given(scope, "num_heads"))
        return srv_refuse(
            scope, SRV_VALUE, "num_heads",
            "num_heads goes with layout BLD; in layout %s the shapes say how many heads "
            "there are",
            attn_layout_words[body->in.layout]);
    return true;
}

/* Computes the set of items that the answer has from `return` and from the fields heatmap and
 * grad_output. Without `return` these are output and weights; omit_large_weights may remove the
 * weights later, when the shapes are known. */
static bool read_items(srv_attention_call *call, const srv_scope *scope) {
    const srv_attention_body *body = &call->body;
    const bool paints = call->req->accept & (SRV_ACCEPT_PNG | SRV_ACCEPT_SVG);
    unsigned items = srv_given(scope, "return") ? body->items
                     : lacks_value(scope)       ? ATTN_WANT_WEIGHTS
                                                : ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS;
    if (!check_valueless(scope, items))
        return false;
    if (srv_given(scope, "heatmap"))
        items |= SRV_WANT_HEATMAP;
    if (srv_given(scope, "grad_output") && !srv_given(scope, "return"))
        items |= SRV_WANT_GRADIENTS | SRV_WANT_SCORE_GRADIENTS;
    else if (srv_given(scope, "grad_output") && !(items & SRV_WANT_SCORE_GRADIENTS))
        items |= SRV_WANT_GRADIENTS;
    else if (!srv_given(scope, "grad_output") &&
             (items & (SRV_WANT_GRADIENTS | SRV_WANT_SCORE_GRADIENTS)))
        return srv_refuse(scope, SRV_VALUE, "return",
                          "\"gradients\" need grad_output, which is not in this request");
    if (srv_given(scope, "grad_output") && body->in.precision != ATTN_PRECISION_FP32)
        return srv_refuse(scope, SRV_VALUE, "precision",
                          "gradients are computed in fp32: leave precision out with grad_output, "
                          "found \"%s\"",
                          attn_precision_name(body->in.precision));
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
    if (srv_draws(call->req)) /* a picture or a CSV has the heatmap and nothing else */
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

static void read_scale(srv_attention_body *body) {
    if (body->scale.is == SRV_U_NUMBER)
        body->in.scale = body->scale.number;
    else if (body->scale.is == SRV_U_FALSE)
        body->in.scale = 1;
}

static bool read_mask(srv_attention_body *body, const srv_scope *scope) {
    attn_mask_spec *spec = &body->in.mask;
    if (body->is_causal)
        spec->layers[spec->count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"};
    if (srv_given_inside(scope, AT(mask), sizeof body->mask) &&
        !srv_mask_layers(scope, &body->mask, spec))
        return false;
    if (srv_given(scope, "attn_bias"))
        spec->layers[spec->count++] = (attn_mask_layer){
            .kind = ATTN_LAYER_BIAS, .where = "attn_bias", .values = body->attn_bias};
    if (body->query_offset.is)
        srv_mask_offset(&body->query_offset, spec);
    return true;
}

static bool check_dropout(const srv_attention_body *body, const srv_scope *scope) {
    if (body->in.dropout_p >= 1)
        return srv_refuse(scope, SRV_VALUE, "dropout_p",
                          "expected a probability from 0 to below 1: at 1 nothing would be left");
    if (body->in.dropout_p > 0 && !srv_given(scope, "seed"))
        return srv_refuse(scope, SRV_VALUE, "dropout_p",
                          "dropout_p needs seed, which is not in this request: the same seed drops "
                          "the same weights");
    if (srv_given(scope, "seed") && !srv_given(scope, "dropout_p") && !srv_given(scope, "verify"))
        return srv_refuse(scope, SRV_VALUE, "seed",
                          "seed needs dropout_p or verify, which are not in this request");
    return true;
}

static bool check_forms(srv_attention_call *call, const srv_scope *scope) {
    srv_attention_body *body = &call->body;
    const attn_inputs *in = &body->in;
    const bool any = in->allow_nonfinite;
    size_t *n = &call->parameters;
    body->projections.allow_nonfinite = any;
    return (!srv_given(scope, "score") ||
            srv_score_check(scope, &in->score, &body->score_given, any, n)) &&
           (!srv_given(scope, "position") ||
            srv_position_check(scope, &in->position, &body->position_given, any, n)) &&
           (!srv_given(scope, "sinks") ||
            srv_parameter_check(scope, "sinks", &in->sinks, any, n)) &&
           (!srv_given(scope, "projections") ||
            srv_projections_check(scope, &body->projections, &body->projections_given, any, n));
}

/* Gives a tensor [.., N] an axis of length 1 in front of the last one. */
static void add_axis(attn_tensor *t) {
    const int last = t->rank++;
    t->dims[last] = t->dims[last - 1];
    t->strides[last] = t->strides[last - 1];
    t->dims[last - 1] = 1;
}

/* Reads one query for each sequence of keys, without an axis L: the state [B, E] of a decoder
 * beside the states [B, S, E] of an encoder, for which all scores but scaled_dot were made
 * (Bahdanau et al. 2015, Luong et al. 2015). The tensors that have this axis get it here. */
static void read_one_query(srv_attention_call *call) {
    srv_attention_body *body = &call->body;
    attn_inputs *in = &body->in;
    const struct {
        attn_tensor *t;
        bool *lacks; /* set to whether the tensor was sent without the axis */
    } others[] = {{&body->grad_output, NULL},
                  {&body->attn_bias, &call->bias_axis},
                  {&body->mask.attn_mask, &call->mask_axis}};
    bool leading = in->score.kind != ATTN_SCORE_scaled_dot && in->layout == ATTN_BHLE &&
                   in->key.rank >= 3 && in->query.rank == in->key.rank - 1;
    for (int a = 0; leading && a < in->query.rank - 1; a++)
        leading = in->query.dims[a] == in->key.dims[a];
    call->one_query = leading;
    if (!leading)
        return;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const bool lacks = others[i].t->rank >= 2 && others[i].t->rank <= in->query.rank;
        if (others[i].lacks)
            *others[i].lacks = lacks;
        if (lacks)
            add_axis(others[i].t);
    }
    add_axis(&in->query);
}

/* Returns how many axes of length 1 the tensor has in front of its last two. */
static int axes_in_front(const attn_tensor *t) {
    int count = t->rank > 2 ? t->rank - 2 : 0;
    for (int a = 0; a < count; a++)
        if (t->dims[a] != 1)
            return 0;
    return count;
}

/* A mask [1, L, S] of scores [L, S] gives the results its axes of length 1, as the broadcasting of
 * NumPy and PyTorch does. grad_output may have them, too. */
static void read_extra_axes(srv_attention_call *call) {
    srv_attention_body *body = &call->body;
    const int of_mask = axes_in_front(&body->mask.attn_mask);
    const int of_bias = axes_in_front(&body->attn_bias);
    attn_tensor *grad = &body->grad_output;
    if (body->in.layout != ATTN_BHLE || body->in.query.rank != 2 || body->projections.num_heads)
        return;
    call->extra_axes = of_mask > of_bias ? of_mask : of_bias;
    if (call->extra_axes && axes_in_front(grad) == call->extra_axes) {
        memmove(grad->dims, grad->dims + call->extra_axes, 2 * sizeof *grad->dims);
        memmove(grad->strides, grad->strides + call->extra_axes, 2 * sizeof *grad->strides);
        grad->rank = 2;
    }
}

/* Gives projections that the request asks for by a seed their shapes. */
static bool read_projections(srv_attention_call *call, const srv_scope *scope) {
    srv_attention_body *body = &call->body;
    const srv_scope inside = {call->req, srv_projections_fields, &body->projections_given,
                              "projections"};
    attn_inputs shapes;
    attn_error err = {0};
    size_t made;
    if (!srv_given(scope, "projections") || !srv_given(&inside, "seed"))
        return true;
    if (attn_projections_declare(&body->in, &body->projections, &err) ||
        attn_projections_shape(&body->in, &body->projections, &shapes, &made, &err)) {
        srv_problem_error(call->req, &err);
        return false;
    }
    call->seeded = true;
    call->parameters += made;
    return true;
}

/* Returns whether the table `ref` computes the operation, which rounds only the results to float32.
 * Up to this size the double precision costs a few microseconds, and the answers are those of a
 * calculation by hand, equal on all processors. */
static bool is_small(const attn_inputs *in, const attn_attention_dims *d) {
    enum { SMALL = 8192 }; /* multiply-adds */
    const double cells = (double)d->B * (double)d->Hq * (double)d->L * (double)d->S;
    return !attn_isa_forced() && in->precision == ATTN_PRECISION_FP32 &&
           cells * (double)(d->score_width + d->Ev) <= SMALL;
}

/* Sets call->shaped to inputs with the shapes that they have after the projections, chooses the
 * kernel table of small operations, and computes the dims of the operation. No element is
 * computed. */
static bool read_shapes(srv_attention_call *call) {
    attn_error err = {0};
    attn_status status = ATTN_OK;
    srv_attention_body *body = &call->body;
    call->shaped = &body->in;
    if (body->projections.num_heads) {
        call->shaped = attn_arena_take(call->req->arena, sizeof *call->shaped);
        status = call->shaped ? attn_projections_shape(&body->in, &body->projections, call->shaped,
                                                       NULL, &err)
                              : attn_fail(&err, ATTN_ENOMEM, "", "no memory left for the inputs");
    }
    if (!status)
        status = attn_attention_shape(call->shaped, &call->dims, &err);
    if (!status && is_small(call->shaped, &call->dims)) {
        body->in.kernel = call->shaped->kernel = attn_isa_name(ATTN_ISA_REF);
        status = attn_attention_shape(call->shaped, &call->dims, &err);
    }
    if (status)
        srv_problem_error(call->req, &err);
    return !status;
}

unsigned srv_attention_computes(const srv_attention_call *call) {
    const bool reads_cells = call->heatmap || call->analyses || call->body.store ||
                             (call->backward && call->body.projections.num_heads);
    const unsigned weighting =
        call->body.in.dropout_p > 0 ? ATTN_WANT_WEIGHTS_DROPPED : ATTN_WANT_WEIGHTS;
    return (call->want & SRV_WANT_LIBRARY) |
           (call->body.verify || call->backward ? ATTN_WANT_OUTPUT : 0u) |
           (call->want & SRV_WANT_WEIGHTED_VALUES ? weighting : 0u) |
           (call->want & SRV_WANT_ROW_SUMS ? ATTN_WANT_WEIGHTS : 0u) |
           (reads_cells ? (unsigned)ATTN_WANT_CELLS : 0u);
}

bool srv_attention_norms(const srv_attention_call *call) {
    return (call->heatmap && call->body.heatmap.of == SRV_OF_VALUE_NORM) ||
           (call->analyses && !call->valueless && (call->analysis.items & SRV_AN_VALUE_NORM));
}

const attn_tensor *srv_attention_w_o(const srv_attention_call *call) {
    const attn_tensor *w_o = &call->body.projections.w_o;
    return w_o->rank ? w_o : NULL;
}

/* Removes the weights and the gradients of scores from the answer if they are more than
 * SRV_WEIGHTS_UNASKED each and the request has no `return`. */
static void omit_large_weights(srv_attention_call *call, const srv_scope *scope) {
    const attn_attention_dims *d = &call->dims;
    double values = (double)d->B * (double)d->Hq * (double)d->L * (double)d->S;
    if (!srv_given(scope, "return") && !srv_draws(call->req) && values > SRV_WEIGHTS_UNASKED) {
        call->want &= ~(unsigned)ATTN_WANT_WEIGHTS;
        call->gradient_items &= ~(unsigned)SRV_WANT_SCORE_GRADIENTS;
        call->weights_omitted = true;
    }
}

/* Prepares the analysis. Its source and mask are set later, when the operation exists. */
static void plan_analysis(srv_attention_call *call) {
    const attn_attention_dims *d = &call->dims;
    const unsigned items = call->body.analysis;
    call->analyses = true;
    call->analysis = (srv_analysis){.req = call->req,
                                    .items = items | (items & SRV_AN_ALL ? SRV_AN_EVERY : 0),
                                    .B = d->B,
                                    .H = d->Hq,
                                    .L = d->L,
                                    .S = d->S,
                                    .layers = 1,
                                    .valued = call->valueless ? NULL : d,
                                    .w_o = srv_attention_w_o(call),
                                    .labels = &call->body.labels,
                                    .options = attn_measure_defaults()};
}

/* Checks the names of the axes against the weights. */
static bool check_axes(const srv_attention_call *call, const srv_scope *scope) {
    const srv_strings *axes = &call->body.axes;
    attn_error err = {0};
    if (!srv_given(scope, "axes"))
        return true;
    if (!call->body.store)
        return srv_refuse(scope, SRV_VALUE, "axes",
                          "axes name the axes of a stored run: they need \"store\": true");
    if (!attn_run_axes_check(&call->dims, (const char *const *)axes->values, axes->count, &err))
        return true;
    srv_problem_error(call->req, &err);
    return false;
}

bool srv_attention_prepare(srv_attention_call *call) {
    srv_attention_body *body = &call->body;
    const srv_scope scope = {call->req, srv_attention_fields, &body->given, ""};
    if (!check_company(&scope) || !check_heads(&scope, body) || !read_items(call, &scope))
        return false;
    call->valueless = lacks_value(&scope);
    read_scale(body);
    read_one_query(call);
    read_extra_axes(call);
    if (!read_mask(body, &scope) || !check_dropout(body, &scope) || !check_forms(call, &scope) ||
        !read_projections(call, &scope) || !read_shapes(call) || !check_axes(call, &scope))
        return false;
    omit_large_weights(call, &scope);
    call->shaped->score_gradients = body->in.score_gradients =
        (call->gradient_items & SRV_WANT_SCORE_GRADIENTS) != 0;
    if (!srv_labels_check(call->req, &body->labels, call->dims.B, call->dims.L, call->dims.S))
        return false;
    if (body->analysis && !srv_draws(call->req))
        plan_analysis(call);
    body->heatmap.values = !call->valueless;
    if (body->heatmap.of && call->stage_count)
        return srv_refuse(
            &scope, SRV_VALUE, "score_stage",
            "a picture shows stages of the scores or the heatmap's \"value_norm\", not "
            "both");
    if ((call->want & SRV_WANT_WEIGHTED_VALUES) && call->dims.relative_values)
        return srv_refuse(&scope, SRV_VALUE, "position/value_table",
                          "\"weighted_values\" are not defined with value_table: the values "
                          "depend on the query, too");
    if (srv_attention_norms(call) && call->dims.relative_values)
        return srv_refuse(
            &scope, SRV_VALUE, "position/value_table",
            "\"value_norm\" is not defined with value_table: the values depend on the "
            "query, too");
    return (!srv_given(&scope, "figure") || srv_figure_check(call->req, &body->figure)) &&
           (!call->heatmap ||
            srv_heat_options(call->req, &body->heatmap, &call->dims, &call->heat));
}

void srv_attention_keep_run(srv_attention_call *call) {
    srv_attention_body *body = &call->body;
    call->want = call->gradient_items = 0;
    call->heatmap = call->analyses = call->backward = false;
    call->shaped->score_gradients = body->in.score_gradients = false;
    body->average_attn_weights = body->explain = false;
    body->verify = 0;
}
