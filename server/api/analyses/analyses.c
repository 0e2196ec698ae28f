/* POST /v1/analyses answers measures and diagnoses of attention weights, the first operand, and
 * compares them with other weights, the second operand, if the request has these. An operand comes
 * from the request or from a stored run. This file opens the operands as sources
 * (attn_weight_source, an object that reads rows of weights), computes the requested items, writes
 * the members of the answer that only this route has, and holds the handler. */
#include <math.h>

#include "api/analyses/analyses_api.h"
#include "api/analyses/analyses_call.h"
#include "api/stored/stored_api.h"
#include "api/weights/weights_api.h"
#include "base/try.h"
#include "request/shared.h"
#include "wire/answer.h"

/* --- operands and results --- */

static const char *const view_names[SRV_VIEWS] = {"weights", "difference: weights - other",
                                                  "rollout", "gradient x attention"};

/* Opens an operand as a source: its run, or the tensor `weights` if it has no run. */
static attn_status open_operand(const srv_analyses_call *call, const srv_operand *o,
                                const attn_tensor *weights, size_t lanes, attn_weight_source *out,
                                attn_error *err) {
    attn_arena *arena = call->req->arena;
    return o->run ? srv_operand_run_source(o, lanes, arena, out, err)
                  : srv_weights_source(weights, &o->dims, arena, out, err);
}

/* Opens a source that reads the rows of `plain`. The source also says which cells the mask of the
 * request hides, because a visible cell may have the weight 0, too. */
static attn_status mask_source(const srv_analyses_call *call, const attn_weight_source *plain,
                               size_t lanes, attn_weight_source *out, attn_error *err) {
    *out = *plain;
    if (!call->first.mask || plain->has_logits)
        return ATTN_OK;
    return attn_masked_source(plain, call->first.mask, lanes, call->req->arena, out, err);
}

static attn_status build_view(srv_analyses_call *call, srv_view view,
                              const attn_weight_source *source, attn_pool *pool, attn_error *err) {
    srv_request *req = call->req;
    attn_heatmap_options o = srv_analyses_view(call, view);
    attn_status status =
        attn_heatmap_build(source, &o, pool, &req->control, req->arena, &call->maps[view], err);
    if (call->analysis.layered && view != SRV_VIEW_ROLLOUT)
        call->maps[view].layer_batches = call->entries;
    return status;
}

static attn_status compute_comparison(srv_analyses_call *call, const attn_weight_source *first,
                                      const attn_weight_source *second, attn_pool *pool,
                                      size_t lanes, attn_error *err) {
    srv_request *req = call->req;
    attn_weight_source difference;
    ATTN_TRY(attn_head_distances_measure(first, call->first.mask, second, call->second.mask, pool,
                                         &req->control, req->arena, &call->between, err));
    if (!call->views[SRV_VIEW_DIFFERENCE])
        return ATTN_OK;
    ATTN_TRY(attn_difference_source(first, second, lanes, req->arena, &difference, err));
    ATTN_TRY(attn_head_sums(&difference, pool, &req->control, req->arena, &call->difference, err));
    return build_view(call, SRV_VIEW_DIFFERENCE, &difference, pool, err);
}

/* Computes the products gradient x attention: their sum over each head, and their heatmap. A
 * heatmap of the mean over heads counts negative products as 0, as Chefer et al. propose. */
static attn_status compute_gradient(srv_analyses_call *call, const attn_weight_source *source,
                                    attn_pool *pool, size_t lanes, attn_error *err) {
    srv_request *req = call->req;
    const srv_analyses_body *b = &call->body;
    const bool mean = call->heat.heads == ATTN_HEADS_MEAN;
    attn_weight_source product, positive;
    ATTN_TRY(attn_gradient_source(source, &b->grad_output, &b->value, ATTN_GRADIENT_PRODUCT, lanes,
                                  req->arena, &product, err));
    ATTN_TRY(attn_gradient_source(source, &b->grad_output, &b->value, ATTN_GRADIENT_POSITIVE, lanes,
                                  req->arena, &positive, err));
    ATTN_TRY(attn_head_sums(&product, pool, &req->control, req->arena, &call->gradient, err));
    ATTN_TRY(build_view(call, SRV_VIEW_GRADIENT, mean ? &positive : &product, pool, err));
    srv_heat_without_entropy(&call->maps[SRV_VIEW_GRADIENT]);
    return ATTN_OK;
}

static attn_status compute_rollout(srv_analyses_call *call, const attn_weight_source *source,
                                   attn_pool *pool, size_t lanes, attn_error *err) {
    attn_weight_source rollout;
    ATTN_TRY(attn_rollout_source(source, call->analysis.layers, lanes, &call->req->control,
                                 call->req->arena, &rollout, err));
    return build_view(call, SRV_VIEW_ROLLOUT, &rollout, pool, err);
}

/* Warns when every weight above the diagonal is exactly 0 although no mask was sent. */
static attn_status warn_of_missing_mask(srv_analyses_call *call, attn_error *err) {
    const attn_attention_dims *d = &call->first.dims;
    const attn_tensor *w = &call->body.weights;
    const size_t each = attn_dtype_size(w->dtype), heads = d->B * d->Hq;
    double *row = attn_arena_zeroed(call->req->arena, d->S, sizeof *row);
    ATTN_TAKEN(row, "a row", err);
    if (call->first.mask || call->first.run || heads == 0 || d->L < 2 || d->L != d->S)
        return ATTN_OK;
    for (size_t i = 0; i < heads * d->L; i++) {
        const size_t above = i % d->L + 1;
        if (i % 1024 == 0)
            ATTN_TRY(attn_control_check(&call->req->control, err));
        attn_widen_f64(row, (const char *)w->data + (i * d->S + above) * each, w->dtype, 1,
                       d->S - above);
        for (size_t j = 0; j < d->S - above; j++)
            if (row[j] != 0)
                return ATTN_OK;
    }
    if (srv_warnings_add(&call->warnings, call->req->arena, "looks_causal", "weights",
                         "every weight above the diagonal is 0: say is_causal, or the rows are "
                         "measured as if they had seen all %zu keys",
                         d->S))
        return ATTN_OK;
    return attn_no_memory(err, "warnings");
}

static attn_status warn_of_weights(srv_analyses_call *call, attn_error *err) {
    const srv_weights_lint first = {call->req,         "weights", &call->body.weights,
                                    &call->first.dims, NULL,      &call->warnings};
    const srv_weights_lint second = {call->req,          "other", &call->body.other,
                                     &call->second.dims, NULL,    &call->warnings};
    bool other = false;
    if (!call->first.run)
        ATTN_TRY(srv_weights_warn(&first, &call->analysis.unshared, err));
    if (call->compares && !call->second.run)
        ATTN_TRY(srv_weights_warn(&second, &other, err));
    call->incomparable = call->analysis.unshared || other;
    return ATTN_OK;
}

/* Opens the operands as sources and computes all requested results. */
static attn_status compute_all(srv_analyses_call *call, attn_error *err) {
    srv_request *req = call->req;
    srv_analysis *an = &call->analysis;
    attn_pool *pool = srv_request_pool(req);
    const size_t lanes = attn_pool_slots(pool);
    attn_weight_source first, second, other;
    if (call->first.mask && !call->first.run)
        ATTN_TRY(srv_warnings_of_mask(&call->warnings, req->arena, call->first.mask, err));
    ATTN_TRY(warn_of_missing_mask(call, err));
    ATTN_TRY(warn_of_weights(call, err));
    an->warnings = &call->warnings;
    ATTN_TRY(open_operand(call, &call->first, &call->body.weights, lanes, &an->source, err));
    ATTN_TRY(srv_analysis_run(an, pool, err));
    ATTN_TRY(mask_source(call, &an->source, lanes, &first, err));
    if (call->views[SRV_VIEW_WEIGHTS])
        ATTN_TRY(build_view(call, SRV_VIEW_WEIGHTS, &first, pool, err));
    if (call->views[SRV_VIEW_WEIGHTS] && an->unshared)
        srv_heat_without_entropy(&call->maps[SRV_VIEW_WEIGHTS]);
    call->views[SRV_VIEW_ROLLOUT] &= !an->unshared;
    if (call->views[SRV_VIEW_ROLLOUT])
        ATTN_TRY(compute_rollout(call, &first, pool, lanes, err));
    if (call->views[SRV_VIEW_GRADIENT])
        ATTN_TRY(compute_gradient(call, &first, pool, lanes, err));
    if (!call->compares)
        return ATTN_OK;
    ATTN_TRY(open_operand(call, &call->second, &call->body.other, lanes, &other, err));
    ATTN_TRY(mask_source(call, &other, lanes, &second, err));
    return compute_comparison(call, &first, &second, pool, lanes, err);
}

/* --- the answer --- */

/* Writes the double at `place` as a float32. */
static void put_float(attn_json_text *j, const void *place) {
    attn_json_float(j, (float)*(const double *)place);
}
#define FLOAT(name, T, member, text, ...)                                                          \
    SRV_WRITTEN_AT(name, "number?", put_float, T, member, text, __VA_ARGS__)

/* Returns the head of the second operand that has the smallest distance from `head`. */
static size_t nearest(const attn_head_distances *d, size_t head) {
    size_t best = 0;
    const double *row = d->js + head * d->cols;
    for (size_t h = 1; h < d->cols; h++)
        if (isnan(row[best]) || row[h] < row[best])
            best = h;
    return best;
}

typedef struct nearest_facts {
    size_t head;
    double js, cosine;
} nearest_facts;

static const srv_field nearest_rows[] = {
    SRV_ALWAYS("head", SRV_INT, nearest_facts, head, NULL),
    FLOAT("js", nearest_facts, js, NULL, .always = true),
    FLOAT("cosine", nearest_facts, cosine, NULL, .always = true),
    {0},
};

/* A head of the first operand in an answer. */
typedef struct compared_facts {
    srv_head_place place;
    bool has_counterpart; /* the second operand has as many heads as the first */
    double js, cosine, centered, total_variation;
    bool has_nearest;
    nearest_facts nearest;
} compared_facts;

#define TO_COUNTERPART .when = offsetof(compared_facts, has_counterpart)
static const srv_field compared_rows[] = {
    SRV_ALWAYS("", SRV_OBJECT, compared_facts, place, NULL, .fields = srv_head_place_rows),
    FLOAT("js", compared_facts, js, "Jensen-Shannon divergence of the two heads, in nats.",
          TO_COUNTERPART),
    FLOAT("cosine", compared_facts, cosine, "Cosine of their weights.", TO_COUNTERPART),
    FLOAT("centered_cosine", compared_facts, centered, "The same without the share of the mask.",
          TO_COUNTERPART),
    FLOAT("total_variation", compared_facts, total_variation,
          "Mean over rows of half the sum of |a - b|.", TO_COUNTERPART),
    SRV_IF_KNOWN("nearest", SRV_OBJECT, compared_facts, nearest,
                 "The head of the second operand with the smallest js.", .fields = nearest_rows,
                 .when = offsetof(compared_facts, has_nearest)),
    {0},
};

static void write_compared(attn_json_text *j, const srv_analyses_call *call, size_t b, size_t h) {
    const attn_head_distances *d = &call->between[b];
    const double *js = d->js + h * d->cols, *cosine = d->cosine + h * d->cols;
    compared_facts f = {.place = srv_analysis_place(&call->analysis, b, h),
                        .has_counterpart = call->views[SRV_VIEW_DIFFERENCE],
                        .has_nearest = d->cols > 0 && !call->incomparable};
    if (f.has_counterpart) {
        const attn_head_sum *sum = &call->difference[b * d->rows + h];
        f.js = call->incomparable ? NAN : js[h];
        f.cosine = cosine[h];
        f.centered = d->centered[h * d->cols + h];
        f.total_variation = sum->rows ? sum->magnitude / (2 * (double)sum->rows) : NAN;
    }
    if (f.has_nearest) {
        const size_t best = nearest(d, h);
        f.nearest = (nearest_facts){best, js[best], cosine[best]};
    }
    srv_answer_object(j, compared_rows, &f);
}

static void write_view(attn_json_text *j, const srv_analyses_call *call, srv_view view,
                       const char *name) {
    if (call->analysis.as_tensors) /* srv_analyses_cells has written the cells */
        return;
    srv_heat_write(j, name, &call->maps[view], &call->body.heatmap, &call->labels);
}

static const srv_field comparison_rows[] = {
    SRV_WRITTEN("heads", "[*]", NULL,
                "The distances of each head to its counterpart, and its nearest head.",
                .always = true, .fields = compared_rows),
    SRV_WRITTEN("difference", "Heatmap", NULL, "The signed difference."),
    SRV_WRITTEN("legend", "string", NULL, "What the numbers are.", .always = true),
    {0},
};

static void write_comparison(attn_json_text *j, const srv_analyses_call *call) {
    attn_json_key_object(j, "comparison");
    attn_json_key_array(j, "heads");
    for (size_t b = 0; b < call->first.dims.B; b++)
        for (size_t h = 0; h < call->first.dims.Hq; h++)
            write_compared(j, call, b, h);
    attn_json_array_end(j);
    if (call->views[SRV_VIEW_DIFFERENCE])
        write_view(j, call, SRV_VIEW_DIFFERENCE, "difference");
    attn_json_key(j, "legend");
    attn_json_string(j,
                     "js: mean over rows of the Jensen-Shannon distance, 0 to ln 2 (null where a "
                     "weight is negative or a row sums to more than 1); "
                     "total_variation: mean over rows of half the sum of |a - b|, 0 to 1; nearest: "
                     "the other operand's head with the smallest js; difference: weights - other, "
                     "of several cells the one of largest magnitude, so that the range is -m to m");
    attn_json_object_end(j);
}

typedef struct gradient_facts {
    srv_head_place place;
    double sum, importance, magnitude;
} gradient_facts;

static const srv_field gradient_head_rows[] = {
    SRV_ALWAYS("", SRV_OBJECT, gradient_facts, place, NULL, .fields = srv_head_place_rows),
    FLOAT("sum", gradient_facts, sum, NULL, .always = true),
    FLOAT("importance", gradient_facts, importance, NULL, .always = true),
    FLOAT("magnitude", gradient_facts, magnitude, NULL, .always = true),
    {0},
};

static const srv_field gradient_rows[] = {
    SRV_WRITTEN("heads", "[*]", NULL,
                "For each head the sum of its cells, the magnitude of the sum (importance), and "
                "the sum of their magnitudes.",
                .always = true, .fields = gradient_head_rows),
    SRV_WRITTEN("heatmap", "Heatmap", NULL, "The cells, weight times gradient.", .always = true),
    SRV_WRITTEN("legend", "string", NULL, "What the numbers are.", .always = true),
    {0},
};

const srv_field srv_analyses_answers[] = {
    SRV_GROUP("Comparison", comparison_rows,
              "Comparison of weights and other for each head; difference has signed cells."),
    SRV_GROUP("GradientAnalysis", gradient_rows, NULL),
    {0},
};

static void write_gradient(attn_json_text *j, const srv_analyses_call *call) {
    const bool mean = call->heat.heads == ATTN_HEADS_MEAN;
    attn_json_key_object(j, "gradient");
    attn_json_key_array(j, "heads");
    for (size_t i = 0; i < call->first.dims.B * call->first.dims.Hq; i++) {
        const size_t Hq = call->first.dims.Hq;
        const double sum = call->gradient[i].sum;
        const gradient_facts facts = {srv_analysis_place(&call->analysis, i / Hq, i % Hq), sum,
                                      fabs(sum), call->gradient[i].magnitude};
        srv_answer_object(j, gradient_head_rows, &facts);
    }
    attn_json_array_end(j);
    write_view(j, call, SRV_VIEW_GRADIENT, "heatmap");
    attn_json_key(j, "legend");
    attn_json_string(
        j, mean ? "heatmap: mean over heads of max(A * dA, 0), dA_ij = dO_i . v_j "
                  "(Chefer et al. 2021, arXiv:2103.15679, eq. 5); importance: |sum of A * "
                  "dA| = |<O_h, dO_h>| (Michel et al. 2019, arXiv:1905.10650)"
                : "heatmap: A * dA, dA_ij = dO_i . v_j, exact (input x gradient at the "
                  "weights); importance: |sum of A * dA| = |<O_h, dO_h>| (Michel et al. "
                  "2019, arXiv:1905.10650)");
    attn_json_object_end(j);
}

/* Writes the members of the comparison of two operands, of rollout, gradient and heatmaps. */
static void write_views(attn_json_text *j, const srv_analyses_call *call) {
    if (call->views[SRV_VIEW_WEIGHTS])
        write_view(j, call, SRV_VIEW_WEIGHTS, "heatmap");
    if (call->compares)
        write_comparison(j, call);
    if (call->views[SRV_VIEW_ROLLOUT])
        srv_rollout_write(j, call->analysis.as_tensors ? NULL : &call->maps[SRV_VIEW_ROLLOUT],
                          &call->body.heatmap, &call->labels);
    if (call->views[SRV_VIEW_GRADIENT])
        write_gradient(j, call);
}

/* --- the answer as a whole --- */

/* Writes the tensors of an answer in safetensors. */
static void write_tensors(attn_json_text *j, const srv_analyses_call *call) {
    static const char *const names[] = {"comparison.js", "comparison.cosine",
                                        "comparison.centered_cosine"};
    srv_analysis_tensors(j, &call->analysis);
    if (call->compares)
        srv_analysis_distances(j, &call->analysis, names, call->between);
    srv_analyses_cells(j, call);
}

/* Replies with one view: a picture, or its cells as CSV or npy. */
static void answer_view(void *data) {
    const srv_analyses_call *call = data;
    static const srv_view order[] = {SRV_VIEW_DIFFERENCE, SRV_VIEW_GRADIENT, SRV_VIEW_ROLLOUT,
                                     SRV_VIEW_WEIGHTS};
    static const char *const values[] = {"difference", "gradient × attention", "rollout", "weight"};
    size_t i = 0;
    while (!call->views[order[i]] && i + 1 < SRV_VIEWS)
        i++;
    srv_figure_input figure = call->body.figure;
    if (!figure.value_label)
        figure.value_label = values[i];
    if (i == 0 && figure.colormap == ATTN_COLORMAP_AUTO)
        figure.colormap = ATTN_COLORMAP_RDBU; /* even if no difference is negative */
    const srv_heat_answer all = {.maps = &call->maps[order[i]],
                                 .in = &call->body.heatmap,
                                 .labels = &call->labels,
                                 .figure = &figure,
                                 .warnings = &call->warnings,
                                 .decimals = (int)call->body.decimals};
    srv_heat_reply(call->req, &all);
}

static void answer_json(void *data, attn_json_text *j) {
    const srv_analyses_call *call = data;
    if (call->req->accept & SRV_ACCEPT_NPY) {
        answer_view(data);
        return;
    }
    if (call->analysis.as_tensors)
        write_tensors(j, call);
    srv_analysis_members(j, &call->analysis);
    write_views(j, call);
    srv_warnings_write(j, &call->warnings);
}

static void answer_text(void *data, attn_text *t) {
    const srv_analyses_call *call = data;
    srv_analysis_text(t, &call->analysis);
    for (srv_view v = 0; v < SRV_VIEWS; v++)
        if (call->views[v]) {
            attn_text_add(t, "\n%s\n", view_names[v]);
            srv_heat_text(t, &call->maps[v], &call->labels, NULL);
        }
    srv_warnings_text(t, &call->warnings);
}

/* --- the row of the route --- */

static bool add_shapes(void *data, srv_dry *dry) {
    const attn_attention_dims *d = &((const srv_analyses_call *)data)->first.dims;
    srv_dry_shape(dry, "measures", 2, (size_t[2]){d->B, d->Hq});
    dry->load.pieces = (double)d->B * (double)d->Hq;
    return true;
}

static bool compute_analyses(void *data) {
    srv_analyses_call *call = data;
    attn_error err = {0};
    return !compute_all(call, &err) || srv_heat_problem(call->req, &err);
}

srv_outcome srv_analyses(srv_request *req) {
    static const srv_steps steps = {
        .fields = srv_analyses_fields,
        SRV_BODY_OF(srv_analyses_call),
        .unit_ns = 1,
        .limits = {.cells = {.pointer = "/weights", .what = "weights"},
                   .bytes = {.pointer = "/weights",
                             .what = "the weights, their measures and the answer's text need up to",
                             .advice = ": ask for less in analysis, or for fewer heads"}},
        .prepare = srv_analyses_prepare,
        .dry = add_shapes,
        .compute = compute_analyses,
        .json = answer_json,
        .text = answer_text,
        .picture = answer_view,
    };
    srv_analyses_call call = {
        .call.req = req,
        .body = {.decimals = -1, .radius = 2, .top_k = 5, .figure = SRV_FIGURE_DEFAULTS}};
    const srv_outcome outcome = srv_compute(&call, &steps);
    if (srv_run_is_whole(req, call.first.run ? call.first.run->held : NULL))
        srv_run_is_whole(req, call.second.run ? call.second.run->held : NULL);
    srv_run_leave(req, call.first.run);
    srv_run_leave(req, call.second.run);
    return outcome;
}
