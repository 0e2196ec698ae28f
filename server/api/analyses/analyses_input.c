/* The field table of POST /v1/analyses. From a decoded body this file derives the shapes of the
 * operands, the mask, the options of the analysis, and the cost. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/analyses/analyses_api.h"
#include "api/analyses/analyses_call.h"
#include "api/common/route_fields.h"
#include "api/stored/stored_api.h"
#include "api/weights/weights_api.h"
#include "request/shared.h"

static const srv_field ids_fields[] = {
    SRV_TENSOR_ROW(srv_ids_input, query, SRV_T_INT,
                   "[L] or [B, L]; the default is the id of the key at the position of the query."),
    SRV_FIELD_ROW(srv_ids_input, key, SRV_TENSOR, "Token ids of the keys, [S] or [B, S].",
                  .accepts = SRV_T_INT, .required = true),
    {0},
};

static const srv_field class_fields[] = {
    SRV_FIELD_ROW(srv_class_input, name, SRV_STRING, "Name of the class, such as nouns or verbs.",
                  .required = true),
    SRV_FIELD_ROW(srv_class_input, keys, SRV_INTS, "Indices of the keys, from 0.",
                  .required = true),
    {0},
};

static const srv_field segment_fields[] = {
    SRV_FIELD_ROW(srv_segments_input, query, SRV_INTS,
                  "[L]; the default is the segment of the key at the position of the query."),
    SRV_FIELD_ROW(srv_segments_input, key, SRV_INTS,
                  "[S]: the segment of each key, such as 0, 0, 0, 1, 1, …", .required = true),
    {0},
};

const srv_field srv_analyses_fields[] = {
    SRV_TENSOR_ROW(
        srv_analyses_body, weights, SRV_T_REAL,
        "[L, S], [H, L, S], [B, H, L, S] or [layers, B, H, L, S]: row = query, column = key."),
    SRV_TENSOR_ROW(
        srv_analyses_body, other, SRV_T_REAL,
        "A second operand with as many layers, batch entries, queries and keys. The answer then "
        "holds the difference, the distance of each pair of heads, and the nearest heads."),
    SRV_FIELD_ROW(srv_analyses_body, run, SRV_STRING,
                  "The id of a stored run, instead of weights; the run has its own mask, scores "
                  "and labels. Several sites of one kind are the layers of a model, and so is an "
                  "axis of layers; site, layer and kind choose some of them."),
    SRV_FIELD_ROW(srv_analyses_body, other_run, SRV_STRING,
                  "The id of a stored run, as the second operand."),
    SRV_RUN_SITE_ROWS(srv_analyses_body),
    SRV_NAMED_ROW(srv_analyses_body, "analysis", items, SRV_FLAGS,
                  "The parts of the answer. The default, all, is everything except value_norm, "
                  "rollout and gradient.",
                  .choices = srv_analysis_items),
    SRV_MASK_ROWS(srv_analyses_body, mask, 0),
    SRV_BOOL_ROW(srv_analyses_body, is_causal, "Query i sees the keys up to i + query_offset."),
    SRV_OFFSET_ROW(srv_analyses_body, query_offset),
    SRV_LABELS_ROW(srv_analyses_body,
                   "Names of queries and keys, which identify punctuation, special tokens and "
                   "repeated words, and which the sentences of the answer use"),
    SRV_FIELD_ROW(
        srv_analyses_body, ids, SRV_OBJECT,
        "Token ids, for duplicate and induction; without them labels tell which tokens are equal.",
        .fields = ids_fields),
    SRV_FIELD_ROW(srv_analyses_body, classes, SRV_OBJECTS,
                  "Classes of keys, such as nouns, in addition to punctuation and special tokens.",
                  .fields = class_fields, .size = sizeof(srv_class_input),
                  .max = ATTN_CLASSES_MOST - 2),
    SRV_FIELD_ROW(srv_analyses_body, segments, SRV_OBJECT,
                  "The segment (sentence) of each token, numbered from 0; at most 32 segments.",
                  .fields = segment_fields),
    SRV_INT_ROW(srv_analyses_body, radius, 0, 1048576,
                "For local_mass: largest distance between key and query; default 2."),
    SRV_INT_ROW(srv_analyses_body, top_k, 0, 1024,
                "Number of most attended keys in top_keys; default 5."),
    SRV_TENSOR_ROW(srv_analyses_body, grad_output, SRV_T_REAL,
                   "[.., H, L, Ev]: the gradient of a loss with respect to the outputs of the "
                   "heads. With value it requests gradient x attention."),
    SRV_TENSOR_ROW(
        srv_analyses_body, value, SRV_T_REAL,
        "[.., Hkv, S, Ev]: the values that the weights multiplied, for gradient x attention."),
    SRV_HEATMAP_ROW(srv_analyses_body,
                    "Content of the heatmaps. The field requests heatmaps of the weights; those of "
                    "the difference, the rollout and gradient x attention come with these items."),
    SRV_FIGURE_ROW(srv_analyses_body,
                   "Title, labels and style of the picture (Accept: image/svg+xml, image/png, "
                   "text/csv). It shows the first of difference, gradient x attention, rollout and "
                   "weights that the answer holds."),
    SRV_DECIMALS_ROW(srv_analyses_body, "."),
    SRV_DRY_RUN_ROW(srv_analyses_body, "Analyse nothing: return the cost."),
    SRV_TIMEOUT_ROW(srv_analyses_body),
    {0},
};

/* --- from the body to shapes, mask, options and cost --- */

#define UNPOOLED                                                                                   \
    ((size_t)1 << 6 * sizeof(size_t)) /* max_cells of tensors: more cells than any answer has */
#define TEXT_OF_PAIR 64.0             /* bytes of text for each pair of heads */

/* Takes the mask of the stored run. Refuses the mask fields of the request. */
static bool read_run_mask(srv_analyses_call *call, const srv_scope *scope) {
    static const char *const fields[] = {
        "is_causal", "query_offset", "attn_mask",   "mask_semantics", "key_padding_mask",
        "window",    "pattern",      "key_lengths", "token_ids",      "key_padding_semantics"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (!srv_excludes(scope, fields[i], "run", "a stored run has a mask of its own"))
            return false;
    /* Masks of several sites may differ. In that case the scores say which cells are hidden. */
    if (!call->first.stacked)
        call->first.mask = call->second.mask =
            attn_attention_mask(attn_run_attention(call->first.run->site));
    return true;
}

/* Compiles the mask of the request. The mask has no layer axis even if the weights have one,
 * because queries see the same keys in all layers. */
static bool read_mask(srv_analyses_call *call, const srv_scope *scope) {
    const srv_analyses_body *body = &call->body;
    const attn_attention_dims *d = &call->first.dims;
    const int rank = body->weights.rank;
    attn_error err = {0};
    if (body->is_causal)
        call->spec.layers[call->spec.count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"};
    if (!srv_mask_layers(scope, &body->mask, &call->spec))
        return false;
    srv_mask_offset(&body->query_offset, &call->spec);
    if (call->spec.count == 0 && call->spec.offset == ATTN_OFFSET_DEFAULT)
        return true;
    attn_mask_shape shape = {
        .batch_rank = rank > 3, .has_heads = rank > 2, .H = d->Hq, .L = d->L, .S = d->S};
    shape.batch[0] = call->entries;
    attn_mask *mask;
    if (!attn_mask_new(&call->spec, &shape, call->req->arena, &mask, &err)) {
        call->first.mask = call->second.mask = mask;
        return true;
    }
    return srv_problem_error(call->req, &err);
}

static int by_number(const void *x, const void *y) {
    size_t a = *(const size_t *)x, b = *(const size_t *)y;
    return a < b ? -1 : a > b;
}

static bool read_class(srv_analyses_call *call, size_t index, attn_key_class *out) {
    const srv_class_input *in = (const srv_class_input *)call->body.classes.items + index;
    char at[64];
    size_t n = 0, *keys = attn_arena_zeroed(call->req->arena, in->keys.count, sizeof *keys);
    for (size_t k = 0; keys && k < in->keys.count; k++) {
        int64_t key = in->keys.values[k];
        snprintf(at, sizeof at, "/classes/%zu/keys/%zu", index, k);
        if (key < 0 || (uint64_t)key >= call->first.dims.S)
            return srv_problem(call->req, SRV_VALUE, at,
                               "%" PRId64 " is outside the %zu key%s, counted from 0", key,
                               call->first.dims.S, attn_plural(call->first.dims.S));
        keys[k] = (size_t)key;
    }
    if (!keys)
        return srv_problem_memory(call->req, "/classes", "no memory is left for the classes");
    if (in->keys.count > 1)
        qsort(keys, in->keys.count, sizeof *keys, by_number);
    for (size_t k = 0; k < in->keys.count; k++)
        if (k == 0 || keys[k] != keys[n - 1])
            keys[n++] = keys[k];
    *out = (attn_key_class){in->name, keys, n};
    return true;
}

static bool read_classes(srv_analyses_call *call) {
    const size_t count = call->body.classes.count;
    attn_key_class *classes = attn_arena_zeroed(call->req->arena, count, sizeof *classes);
    for (size_t c = 0; classes && c < count; c++)
        if (!read_class(call, c, &classes[c]))
            return false;
    if (!classes)
        return srv_problem_memory(call->req, "/classes", "no memory is left for the classes");
    call->analysis.options.classes = classes;
    call->analysis.options.class_count = count;
    return true;
}

/* Returns the index of the key that has the same position as query i. -1: there is no such key. */
static int64_t key_of(const srv_analyses_call *call, size_t batch, size_t i) {
    int64_t at = (int64_t)i + attn_mask_repeated_offset(call->first.mask, batch);
    return at >= 0 && (uint64_t)at < call->first.dims.S ? at : -1;
}

static bool ids_fit(const srv_scope *scope, const char *name, const attn_tensor *ids, size_t B,
                    size_t n) {
    char found[128];
    if ((ids->rank == 1 || (ids->rank == 2 && ids->dims[0] == B)) && ids->dims[ids->rank - 1] == n)
        return true;
    return srv_refuse(scope, SRV_SHAPE, name, "expected [%zu] or [%zu, %zu], found %s", n, B, n,
                      attn_found_text(ids, found, sizeof found));
}

static bool read_ids(srv_analyses_call *call, const srv_scope *scope) {
    const srv_ids_input *in = &call->body.ids;
    attn_measure_options *o = &call->analysis.options;
    const size_t L = call->first.dims.L, S = call->first.dims.S, B = call->entries;
    const srv_scope inside = {scope->req, NULL, &in->given, "/ids"};
    if (!srv_given(scope, "ids"))
        return true;
    if (!ids_fit(&inside, "key", &in->key, B, S) ||
        (in->query.rank && !ids_fit(&inside, "query", &in->query, B, L)))
        return false;
    o->token_batches = in->key.rank == 2 || in->query.rank == 2 ? B : 1;
    int64_t *keys = attn_arena_zeroed(call->req->arena, o->token_batches * S, sizeof *keys);
    int64_t *queries = attn_arena_zeroed(call->req->arena, o->token_batches * L, sizeof *queries);
    if (!keys || !queries)
        return srv_problem_memory(call->req, "/ids", "no memory is left for token ids");
    const int64_t *k = in->key.data, *q = in->query.data;
    for (size_t b = 0; b < o->token_batches; b++) {
        for (size_t j = 0; j < S; j++)
            keys[b * S + j] = k[(in->key.rank == 2 ? b * S : 0) + j];
        for (size_t i = 0; i < L; i++) {
            int64_t at = key_of(call, b, i);
            queries[b * L + i] = in->query.rank ? q[(in->query.rank == 2 ? b * L : 0) + i]
                                 : at >= 0      ? keys[b * S + (size_t)at]
                                                : INT64_MIN;
        }
    }
    o->query_tokens = queries;
    o->key_tokens = keys;
    return true;
}

/* Reads a list of segment numbers, and raises *count above each of them. */
static bool read_numbers(const srv_scope *scope, const char *name, const srv_ints *in, size_t n,
                         uint32_t *out, size_t *count) {
    if (in->count != n)
        return srv_refuse(scope, SRV_SHAPE, name, "expected %zu number%s, found %zu", n,
                          attn_plural(n), in->count);
    for (size_t i = 0; i < n; i++) {
        if (in->values[i] < 0 || in->values[i] >= ATTN_SEGMENTS_MOST)
            return srv_refuse(scope, SRV_VALUE, name,
                              "segments are numbered from 0 to %d, found %" PRId64 " at %zu",
                              ATTN_SEGMENTS_MOST - 1, in->values[i], i);
        out[i] = (uint32_t)in->values[i];
        *count = out[i] >= *count ? out[i] + 1 : *count;
    }
    return true;
}

static bool read_segments(srv_analyses_call *call, const srv_scope *scope) {
    const srv_segments_input *in = &call->body.segments;
    attn_measure_options *o = &call->analysis.options;
    const size_t L = call->first.dims.L, S = call->first.dims.S;
    const srv_scope inside = {scope->req, NULL, &in->given, "/segments"};
    if (!srv_given(scope, "segments"))
        return true;
    uint32_t *keys = attn_arena_zeroed(call->req->arena, S, sizeof *keys);
    uint32_t *queries = attn_arena_zeroed(call->req->arena, L, sizeof *queries);
    if (!keys || !queries)
        return srv_problem_memory(call->req, "/segments", "no memory is left for segments");
    if (!read_numbers(&inside, "key", &in->key, S, keys, &o->segment_count) ||
        (in->query.values &&
         !read_numbers(&inside, "query", &in->query, L, queries, &o->segment_count)))
        return false;
    for (size_t i = 0; !in->query.values && i < L; i++) {
        int64_t at = key_of(call, 0, i);
        if (at < 0)
            return srv_refuse(&inside, SRV_VALUE, "query",
                              "query %zu has no key at its position: send segments.query", i);
        queries[i] = keys[at];
    }
    o->query_segments = queries;
    o->key_segments = keys;
    return true;
}

/* Reads the second operand, if there is one. Unless the mask differs between heads, the second
 * operand may have another number of heads than the first. false: a problem is set. */
static bool read_other(srv_analyses_call *call, const srv_scope *scope) {
    const attn_attention_dims *a = &call->first.dims, *b = &call->second.dims;
    size_t layers = 1, entries, count = 0;
    const char *name = srv_given(scope, "other_run") ? "other_run" : "other";
    call->compares = srv_given(scope, "other") || srv_given(scope, "other_run");
    if (!call->compares)
        return true;
    if (!srv_excludes(scope, "other", "other_run", "each is the second operand"))
        return false;
    if (srv_given(scope, "other_run")) {
        if (!srv_operand_of_run(call, scope, call->body.other_run, &call->second))
            return false;
        layers = call->second.layers.count;
        call->second.mask = call->second.stacked
                                ? NULL
                                : attn_attention_mask(attn_run_attention(call->second.run->site));
    } else if (!srv_parameter_check(scope, "other", &call->body.other, false, &count) ||
               !srv_weights_shape(scope, "other", &call->body.other, 5, &call->second.dims, &layers,
                                  &entries)) {
        return false;
    }
    if (a->B != b->B || layers != call->analysis.layers || a->L != b->L || a->S != b->S)
        return srv_refuse(scope, SRV_SHAPE, name,
                          "expected the layers, batch entries, queries and keys of weights (%zu, "
                          "%zu, %zu, %zu), found %zu, %zu, %zu, %zu",
                          call->analysis.layers, a->B, a->L, a->S, layers, b->B, b->L, b->S);
    if (a->Hq != b->Hq && !call->second.run && call->first.mask &&
        !attn_mask_same_heads(call->first.mask))
        return srv_refuse(scope, SRV_SHAPE, name,
                          "expected %zu head%s, as the mask has a head axis; found %zu", a->Hq,
                          attn_plural(a->Hq), b->Hq);
    return true;
}

static bool read_gradient(srv_analyses_call *call, const srv_scope *scope) {
    attn_tensor *const both[] = {&call->body.grad_output, &call->body.value};
    static const char *const names[] = {"grad_output", "value"};
    size_t count = 0;
    if (!srv_needs(scope, "grad_output", "value", "a gradient at a weight is dO_i . v_j") ||
        !srv_needs(scope, "value", "grad_output", "a gradient at a weight is dO_i . v_j"))
        return false;
    if ((call->analysis.items & SRV_AN_GRADIENT) && !srv_given(scope, "grad_output"))
        return srv_refuse(
            scope, SRV_VALUE, "analysis",
            "\"gradient\" needs grad_output and value, which are not in this request");
    call->views[SRV_VIEW_GRADIENT] = srv_given(scope, "grad_output");
    for (size_t i = 0; call->views[SRV_VIEW_GRADIENT] && i < 2; i++) {
        attn_tensor *t = both[i];
        if (!srv_parameter_check(scope, names[i], t, false, &count))
            return false;
        size_t dims[ATTN_MAX_RANK] = {0};
        if (t->rank < 2 || t->rank > 5)
            return srv_refuse(scope, SRV_SHAPE, names[i], "expected the rank of weights, found %d",
                              t->rank);
        for (int k = 0; k < 4; k++) /* [B, H, L, S]: missing axes are 1, and layers multiply B */
            dims[k] = t->rank - 4 + k >= 0 ? t->dims[t->rank - 4 + k] : 1;
        dims[0] *= t->rank == 5 ? t->dims[0] : 1;
        *t = attn_tensor_dense(t->data, t->dtype, 4, dims);
    }
    return true;
}

static bool read_views(srv_analyses_call *call, const srv_scope *scope) {
    srv_analysis *an = &call->analysis;
    const bool npy = call->req->accept & SRV_ACCEPT_NPY;
    an->as_tensors = call->req->accept & SRV_ACCEPT_SAFETENSORS;
    call->views[SRV_VIEW_WEIGHTS] = srv_given(scope, "heatmap") || srv_draws(call->req) || npy;
    call->views[SRV_VIEW_DIFFERENCE] =
        call->compares && call->first.dims.Hq == call->second.dims.Hq;
    call->views[SRV_VIEW_ROLLOUT] = (an->items & SRV_AN_ROLLOUT) != 0;
    if (call->views[SRV_VIEW_ROLLOUT] && !srv_analyses_may_roll(call, scope))
        return false;
    if (!srv_heat_options(call->req, &call->body.heatmap, &call->first.dims, &call->heat))
        return false;
    if ((npy || an->as_tensors) && call->body.heatmap.max_cells == 0)
        call->heat.max_cells = UNPOOLED;
    return true;
}

attn_heatmap_options srv_analyses_view(const srv_analyses_call *call, srv_view view) {
    attn_heatmap_options o = call->heat;
    o.signed_values =
        view == SRV_VIEW_DIFFERENCE || (view == SRV_VIEW_GRADIENT && o.heads != ATTN_HEADS_MEAN);
    if (view == SRV_VIEW_ROLLOUT)
        o.heads = ATTN_HEADS_ALL;
    if (o.signed_values) {
        o.top_k = 0;
        o.top_p = 0;
    }
    return o;
}

/* Adds the cost of the heatmaps to *all, and the bytes of their text to *text. Sets *exceeds as
 * srv_heat_cost does. false: a problem is set. */
static bool count_views(const srv_analyses_call *call, size_t slots, attn_cost *all, double *text,
                        bool *exceeds) {
    const attn_attention_dims *d = &call->first.dims;
    for (srv_view v = 0; v < SRV_VIEWS; v++) {
        attn_heatmap_options o = srv_analyses_view(call, v);
        bool rollout = v == SRV_VIEW_ROLLOUT;
        const attn_attention_dims drawn = {
            .B = rollout ? call->entries : d->B, .Hq = rollout ? 1 : d->Hq, .L = d->L, .S = d->S};
        attn_cost one;
        if (!call->views[v])
            continue;
        if (!srv_heat_cost(call->req, &o, &drawn, slots, call->call.dry_run, &one, exceeds))
            return false;
        all->operations += one.operations;
        if (rollout) {
            attn_cost rolled;
            attn_rollout_cost(1, d->B, d->Hq, d->S, slots, &rolled);
            all->operations += rolled.operations;
        }
        all->work_bytes += one.work_bytes + slots * (d->S * 4096 + (4 << 20));
        all->result_bytes += one.result_bytes;
        const bool tensors = call->req->accept & (SRV_ACCEPT_SAFETENSORS | SRV_ACCEPT_NPY);
        *text += (tensors ? 1 : SRV_HEAT_TEXT) * (double)one.result_bytes;
    }
    return true;
}

#define OPERATIONS_OF_ROW 10.0 /* a row of weights counts as at least this many operations */

static srv_cost cost_of(const attn_attention_dims *d, const attn_cost *all, double text) {
    const double rows = (double)d->B * (double)d->Hq * (double)d->L;
    return (srv_cost){.cells = rows * (double)d->S,
                      .operations = all->operations,
                      .weighted = fmax(all->operations, OPERATIONS_OF_ROW * rows),
                      .result = (double)all->result_bytes,
                      .work = (double)all->work_bytes,
                      .text = text};
}

static bool count_analyses(srv_analyses_call *call) {
    const attn_attention_dims *d = &call->first.dims;
    const size_t slots = attn_pool_slots(call->req->app->pool);
    attn_error err = {0};
    attn_cost all, between = {0};
    double text;
    bool exceeds = false;
    if (!srv_analysis_cost(&call->analysis, slots, &all, &text) ||
        !count_views(call, slots, &all, &text, &exceeds))
        return false;
    if (call->compares && attn_head_distances_cost(d->B, d->Hq, call->second.dims.Hq, d->L, d->S,
                                                   slots, &between, &err))
        return srv_problem_error(call->req, &err);
    if (call->compares) /* the padding of each operand, and the union of both paddings */
        between.work_bytes += d->B * (d->L + 3 * sizeof(attn_padding) + ATTN_ALIGN);
    all.operations += between.operations;
    all.work_bytes += between.work_bytes;
    all.result_bytes += between.result_bytes;
    text += TEXT_OF_PAIR * (double)between.result_bytes / 24;
    const srv_run_view *const runs[] = {call->first.run, call->second.run};
    for (size_t i = 0; i < 2; i++)
        all.work_bytes += runs[i] ? (size_t)srv_run_cells_work(call->req, runs[i]) : 0;
    call->call.cost = cost_of(d, &all, text);
    call->call.cost.exceeds = exceeds;
    return true;
}

/* Reads the shapes, the labels and the mask of the first operand. false: a problem is set. */
static bool read_first(srv_analyses_call *call, const srv_scope *scope) {
    const srv_analyses_body *body = &call->body;
    size_t numbers = 0;
    call->labels = body->labels;
    if (!srv_given(scope, "run") && !srv_given(scope, "weights"))
        return srv_refuse(scope, SRV_VALUE, "weights",
                          "send weights, or run: the id of a stored run");
    if (!srv_excludes(scope, "weights", "run", "each is the first operand"))
        return false;
    if (!srv_given(scope, "run"))
        return srv_parameter_check(scope, "weights", &body->weights, false, &numbers) &&
               srv_weights_shape(scope, "weights", &body->weights, 5, &call->first.dims,
                                 &call->analysis.layers, &call->entries) &&
               read_mask(call, scope);
    if (!srv_operand_of_run(call, scope, body->run, &call->first))
        return false;
    call->analysis.layers = call->first.layers.count;
    call->entries = call->first.layers.batches;
    if (!call->first.stacked) {
        call->analysis.run = attn_run_attention(call->first.run->site);
        call->analysis.valued = srv_run_valued(call->first.run->site);
    }
    if (!srv_given(scope, "labels"))
        return srv_run_labels(call->req, call->first.run->site, &call->labels) &&
               read_run_mask(call, scope);
    return read_run_mask(call, scope);
}

/* If the request names no run, refuses the fields that select sites of a run. */
static bool check_sites(const srv_scope *scope) {
    static const char *const fields[] = {"site", "layer", "kind"};
    for (size_t i = 0; i < 3; i++)
        if (!srv_given(scope, "other_run") &&
            !srv_needs(scope, fields[i], "run", "it selects sites of a stored run"))
            return false;
    return true;
}

bool srv_analyses_prepare(void *data) {
    srv_analyses_call *call = data;
    const srv_analyses_body *body = &call->body;
    const srv_scope scope = {call->req, srv_analyses_fields, &body->given, ""};
    srv_analysis *an = &call->analysis;
    const attn_attention_dims *d = &call->first.dims;
    call->call.defers = call->req->in_place && (body->run || body->other_run);
    if (call->call.defers || !check_sites(&scope) || !read_first(call, &scope) ||
        !srv_labels_check(call->req, &body->labels, call->entries, d->L, d->S))
        return false;
    an->req = call->req;
    an->layered = call->first.run ? call->first.layers.named && !srv_given(&scope, "layer")
                                  : body->weights.rank == 5;
    an->B = d->B;
    an->H = d->Hq;
    an->L = d->L;
    an->S = d->S;
    an->mask = call->first.mask;
    an->labels = &call->labels;
    an->items = srv_given(&scope, "analysis") ? body->items : SRV_AN_ALL;
    if (an->items & SRV_AN_ALL)
        an->items |= SRV_AN_EVERY;
    an->options = attn_measure_defaults();
    an->options.mask = call->first.mask;
    an->options.radius = (size_t)body->radius;
    an->options.top_keys = (size_t)body->top_k;
    return srv_figure_check(call->req, &body->figure) && read_classes(call) &&
           read_ids(call, &scope) && read_segments(call, &scope) && read_other(call, &scope) &&
           read_gradient(call, &scope) && read_views(call, &scope) && count_analyses(call);
}
