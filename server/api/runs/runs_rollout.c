/* GET /v1/runs/{id}/rollout and /flow: rows of the attention rollout, or of the attention flow,
 * through the self-attention layers of a run. Both routes have the same fields. */
#include <string.h>

#include "api/common/route_fields.h"
#include "api/common/text_reply.h"
#include "api/runs/runs_api.h"
#include "api/stored/stored_api.h"
#include "base/try.h"
#include "request/shared.h"
#include "wire/answer.h"

static const char *const mean_words[] = {"mean", NULL};

typedef struct rollout_query {
    srv_given_bits given;
    srv_run_spot spot; /* only site, kind, stack and batch are read */
    srv_union heads;
    srv_ranges rows;
    int64_t from_layer, to_layer, call, decimals;
    double residual;
    bool full;
} rollout_query;

const srv_field srv_run_rollout_query[] = {
    SRV_RUN_ROWS_ROW(rollout_query),
    SRV_NAMED_ROW(
        rollout_query, "site", spot.site, SRV_STRING,
        "A site with an axis of layers, by name or number. Not needed if the layers are sites.",
        .example = "\"0\""),
    SRV_NAMED_ROW(rollout_query, "kind", spot.kind, SRV_ENUM,
                  "The kind of the sites that are the layers: self, encoder or decoder. Not needed "
                  "if the run has one of them.",
                  .choices = srv_run_kinds),
    SRV_RUN_STACK_ROW(rollout_query, spot.stack),
    SRV_RUN_PLACE_ROW(rollout_query, batch, 4294967296, "Batch entry of each layer.",
                      .standard = "0"),
    SRV_INT_ROW(rollout_query, call, 0, 1099511627776,
                "Goes through the sites of this call, if layers were called several times."),
    SRV_INT_ROW(rollout_query, from_layer, 0, 1099511627776,
                "The lowest layer; default the first one."),
    SRV_INT_ROW(rollout_query, to_layer, 0, 1099511627776,
                "The layer behind the highest one, so that from_layer=2 and to_layer=5 are the "
                "layers 2, 3 and 4; default all from from_layer on."),
    SRV_FIELD_ROW(
        rollout_query, heads, SRV_UNION,
        "mean (default): the mean of all heads of a layer; a list of numbers: that of these "
        "heads.",
        .accepts = SRV_U_STRING | SRV_U_INTS, .choices = mean_words, .example = "\"mean\"",
        .standard = "\"mean\""),
    SRV_REAL_ROW(rollout_query, residual, 0, 1,
                 "The share r of the residual connection: a layer is (1 - r) A + r I, with rows "
                 "divided by their sums; 0.5 as in the paper.",
                 .standard = "0.5"),
    SRV_DECIMALS_ROW(rollout_query, "."),
    SRV_FULL_ROW(rollout_query),
    {0},
};

/* A method that computes the result from the layers: rollout or flow. */
typedef struct method {
    const char *name; /* name of the answer's tensor */
    const srv_field *answer;
    attn_status (*cost)(const attn_run_rollout *, const size_t *rows, size_t count, size_t slots,
                        attn_cost *, attn_error *);
    attn_status (*compute)(const attn_run_rollout *, const size_t *rows, size_t count, attn_pool *,
                           const attn_control *, attn_arena *, double *out, attn_error *);
} method;

typedef struct rollout_call {
    SRV_LOOK;
    const method *method;
    rollout_query q;
    attn_run_layers layers;
    attn_run_rollout rollout;
    size_t *rows; /* [count] numbers of the rows in the answer */
    size_t count;
    attn_tensor result;
} rollout_call;

/* --- the layers --- */

static bool is_wanted(const rollout_call *c, size_t number) {
    return (!srv_given(&c->scope, "from_layer") || number >= (size_t)c->q.from_layer) &&
           (!srv_given(&c->scope, "to_layer") || number < (size_t)c->q.to_layer);
}

/* Returns whether the site has a requested layer and, if the request has `call`, belongs to this
 * call. */
static bool has_wanted(const rollout_call *c, size_t index) {
    const attn_run *run = c->run->held->run;
    const attn_run_site_info *info = attn_run_site_info_of(run, index);
    const size_t axis = attn_run_site_layers(run, index);
    bool wanted = false;
    for (size_t n = 0; n < (axis ? axis : 1); n++)
        wanted = wanted || is_wanted(c, info->layer + n);
    return wanted && (!srv_given(&c->scope, "call") || info->call == (size_t)c->q.call);
}

/* Lists the site that the request names. If it names none, lists the self-attention sites that kind
 * and stack select and that have a requested layer. false: a problem is set. */
static bool list_sites(const rollout_call *c, size_t *sites, size_t *count) {
    const attn_run *run = c->run->held->run;
    size_t wanted = 0;
    *count = 0;
    if (c->q.spot.site) {
        sites[(*count)++] = srv_run_site_named(run, c->q.spot.site);
        return sites[0] != SIZE_MAX || srv_run_no_site(&c->scope, run, "site", c->q.spot.site);
    }
    for (size_t i = 0; i < attn_run_site_count(run); i++)
        if (attn_run_site_info_of(run, i)->kind != ATTN_RUN_CROSS &&
            srv_run_site_selected(&c->scope, run, i, &c->q.spot))
            sites[(*count)++] = i;
    if (*count == 0)
        return srv_refuse(&c->scope, SRV_VALUE, srv_run_selector(&c->scope),
                          "%s goes through layers of self-attention, and the run has no such layer",
                          c->method->name);
    if (!srv_run_one_stack(&c->scope, run, sites, *count))
        return false;
    for (size_t i = 0; i < *count; i++)
        if (has_wanted(c, sites[i]))
            sites[wanted++] = sites[i];
    *count = wanted;
    return true;
}

/* Checks that query i and key i of a site are the same token. false: a problem is set. */
static bool is_square(const rollout_call *c, size_t index) {
    const attn_run *run = c->run->held->run;
    const attn_run_site_info *info = attn_run_site_info_of(run, index);
    const attn_attention_dims *d = attn_run_site_shape(run, index);
    if (d->L == d->S && info->query_start == info->key_start)
        return true;
    return srv_refuse(&c->scope, SRV_SHAPE, c->q.spot.site ? "site" : "kind",
                      "%s goes from layer to layer: expected the same tokens as queries and keys, "
                      "found %zu quer%s from token %zu on and %zu key%s from token %zu on in "
                      "\"%.48s\"",
                      c->method->name, d->L, attn_plural_y(d->L), info->query_start, d->S,
                      attn_plural(d->S), info->key_start, info->name);
}

/* Removes the layers that are not requested. false: none is left, and a problem is set. */
static bool keep_wanted(rollout_call *c) {
    size_t kept = 0;
    for (size_t i = 0; i < c->layers.count; i++)
        if (is_wanted(c, c->layers.items[i].number))
            c->layers.items[kept++] = c->layers.items[i];
    c->layers.count = kept;
    return kept > 0 ||
           srv_refuse(&c->scope, SRV_VALUE,
                      srv_given(&c->scope, "from_layer") ? "from_layer"
                      : srv_given(&c->scope, "to_layer") ? "to_layer"
                                                         : "call",
                      "no layer of the run is selected; GET /v1/runs/{id} lists its sites and "
                      "their layers");
}

static bool find_layers(rollout_call *c) {
    const attn_run *run = c->run->held->run;
    attn_error err = {0};
    size_t count,
        *sites = attn_arena_zeroed(c->req->arena, attn_run_site_count(run), sizeof *sites);
    if (!sites)
        return srv_problem_memory(c->req, NULL, "no memory is left for the sites of the run");
    if (!list_sites(c, sites, &count))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!is_square(c, sites[i]))
            return false;
    if (attn_run_layers_of(run, sites, count, c->req->arena, &c->layers, &err))
        return srv_problem_error(c->req, &err);
    if (!keep_wanted(c))
        return false;
    c->run->site = c->layers.items[0].site;
    return srv_run_layers_are_known(run, &c->layers) ||
           srv_refuse(
               &c->scope, SRV_VALUE, "site",
               "%s goes through layers, and %zu batch entries are none: store the run with "
               "\"axes\": [\"layer\", \"batch\", \"head\"] and a query [layers, B, H, L, E], "
               "or as a run with a site for each layer",
               c->method->name, c->layers.batches);
}

/* --- heads and rows --- */

static bool find_heads(rollout_call *c) {
    const srv_union *heads = &c->q.heads;
    if (heads->is != SRV_U_INTS)
        return true;
    if (heads->ints.count == 0)
        return srv_refuse(&c->scope, SRV_VALUE, "heads",
                          "expected at least one head, found an empty list");
    for (size_t n = 0; n < c->layers.count; n++) {
        const size_t Hq = attn_run_dims(c->layers.items[n].site)->Ho;
        for (size_t i = 0; i < heads->ints.count; i++)
            if ((uint64_t)heads->ints.values[i] >= Hq)
                return srv_refuse(&c->scope, SRV_VALUE, "heads",
                                  "layer %zu has %zu head%s, counted from 0; found %lld",
                                  c->layers.items[n].number, Hq, attn_plural(Hq),
                                  (long long)heads->ints.values[i]);
    }
    c->rollout.heads = (attn_run_heads){heads->ints.values, heads->ints.count};
    return true;
}

static bool find_rows(rollout_call *c) {
    const size_t L = c->layers.rows;
    const srv_bounds all = {0, (int64_t)L};
    const bool given = srv_given(&c->scope, "rows");
    const srv_bounds *ranges = given ? c->q.rows.items : &all;
    const size_t ranges_count = given ? c->q.rows.count : 1;
    if (given && !srv_ranges_check(&c->scope, "rows", &c->q.rows, L))
        return false;
    for (size_t i = 0; i < ranges_count; i++)
        c->count += (size_t)(ranges[i].to - ranges[i].from);
    if (!given && (double)L * (double)L > SRV_WEIGHTS_UNASKED)
        return srv_refuse(&c->scope, SRV_VALUE, "rows",
                          "all rows are %.0f numbers: say which are wanted, rows=from:to (at most "
                          "%d numbers are sent unasked)",
                          (double)L * (double)L, SRV_WEIGHTS_UNASKED);
    c->rows = attn_arena_zeroed(c->req->arena, c->count, sizeof *c->rows);
    if (!c->rows)
        return srv_problem_memory(c->req, NULL, "no memory is left for the rows");
    for (size_t i = 0, n = 0; i < ranges_count; i++)
        for (int64_t row = ranges[i].from; row < ranges[i].to; row++)
            c->rows[n++] = (size_t)row;
    return true;
}

static bool check_batch(const rollout_call *c) {
    return (uint64_t)c->q.spot.batch < c->layers.batches ||
           srv_refuse(&c->scope, SRV_VALUE, "batch",
                      "a layer has %zu batch entr%s, counted from 0; found %lld", c->layers.batches,
                      attn_plural_y(c->layers.batches), (long long)c->q.spot.batch);
}

/* --- the answer --- */

/* Counts the cost. false: a problem is set. */
static bool count_rows(rollout_call *c) {
    const bool binary = c->req->accept & (SRV_ACCEPT_SAFETENSORS | SRV_ACCEPT_NPY);
    attn_cost cost;
    attn_error err = {0};
    if (c->method->cost(&c->rollout, c->rows, c->count, attn_pool_slots(srv_request_pool(c->req)),
                        &cost, &err))
        return srv_problem_error(c->req, &err);
    srv_look_needs(&c->look, cost.cells, cost.operations,
                   (double)cost.work_bytes +
                       (binary ? 2 : 1 + SRV_RUN_TEXT) * (double)cost.result_bytes);
    return true;
}

static void explain_rows(void *data, srv_limits *limits) {
    const rollout_call *c = data;
    attn_text cells = {.arena = c->req->arena}, operations = cells;
    attn_text_add(&cells, "cells of the weights of %zu layer%s have to be computed",
                  c->layers.count, attn_plural(c->layers.count));
    attn_text_add(&operations, "operations are expected for %zu row%s of %s", c->count,
                  attn_plural(c->count), c->method->name);
    if (cells.failed || operations.failed)
        return;
    limits->cells.what = cells.data;
    limits->operations.what = operations.data;
}

/* Makes the tensor of the answer, in the result type of the layers. */
static void set_result(rollout_call *c, double *values) {
    const size_t dims[2] = {c->count, c->layers.cols}, n = c->count * c->layers.cols;
    float *singles = (float *)(void *)values;
    if (attn_run_dims(c->run->site)->result == ATTN_F64) {
        c->result = attn_tensor_dense(values, ATTN_F64, 2, dims);
        return;
    }
    for (size_t i = 0; i < n; i++) { /* in place: reads double i, then writes float i */
        const float value = (float)values[i];
        memcpy(&singles[i], &value, sizeof value);
    }
    c->result = attn_tensor_dense(singles, ATTN_F32, 2, dims);
}

static bool compute_rows(void *data) {
    rollout_call *c = data;
    srv_request *req = c->req;
    attn_error err = {0};
    double *values = attn_arena_zeroed(req->arena, c->count * c->layers.cols, sizeof *values);
    attn_status status =
        values ? c->method->compute(&c->rollout, c->rows, c->count, srv_request_pool(req),
                                    &req->control, req->arena, values, &err)
               : attn_no_memory(&err, "the rows");
    if (status)
        srv_problem_error(req, &err);
    else
        set_result(c, values);
    return !status;
}

static void put_layers(attn_json_text *j, const void *place) {
    const attn_run_layers *layers = &((const rollout_call *)place)->layers;
    attn_json_array(j);
    for (size_t i = 0; i < layers->count; i++)
        attn_json_size(j, layers->items[i].number);
    attn_json_array_end(j);
}

/* The members of the answer. Both routes have them. */
#define ANSWER_ROWS(method)                                                                        \
    SRV_WRITTEN("layers", "[integer+]", put_layers,                                                \
                "The layers that it goes through, from the lowest.", .always = true),              \
        SRV_ALWAYS(method, SRV_TENSOR, rollout_call, result, "[rows, tokens]."), {                 \
        0                                                                                          \
    }
static const srv_field rollout_rows[] = {ANSWER_ROWS("rollout")};
static const srv_field flow_rows[] = {ANSWER_ROWS("flow")};

const srv_field srv_run_rollout_answers[] = {
    SRV_GROUP("RunRollout", rollout_rows,
              "layers are the numbers of the layers, from the lowest to the highest; rollout is "
              "[rows, tokens]."),
    SRV_GROUP("RunFlow", flow_rows,
              "layers are the numbers of the layers, from the lowest to the highest; flow is "
              "[rows, tokens]."),
    {0},
};

static void answer_text(void *data, attn_text *t) {
    const rollout_call *c = data;
    srv_text_tensor(t, c->method->name, &c->result, (srv_print){(int)c->q.decimals, c->q.full});
}

static void answer_json(void *data, attn_json_text *j) {
    const rollout_call *c = data;
    const bool alone = c->req->accept & SRV_ACCEPT_NPY; /* npy holds one tensor and nothing else */
    srv_answer_members(j, c->method->answer + alone, c);
}

static bool prepare_layers(void *data) {
    rollout_call *c = data;
    if (!find_layers(c) || !check_batch(c))
        return false;
    c->rollout = (attn_run_rollout){
        .layers = &c->layers, .batch = (size_t)c->q.spot.batch, .residual = c->q.residual};
    return find_heads(c) && find_rows(c) && srv_run_touch_layers(c->req, c->run, &c->layers) &&
           count_rows(c);
}

static srv_outcome look_through(srv_request *req, const method *how,
                                srv_outcome (*handler)(srv_request *)) {
    static const srv_steps steps = {
        .fields = srv_run_rollout_query,
        .body = offsetof(rollout_call, q),
        .decimals = offsetof(rollout_call, q.decimals),
        .limits = {.cells = {.pointer = "/rows",
                             .what = "cells have to be computed",
                             .advice = ": ask for earlier rows, fewer layers or fewer heads"},
                   /* A flow needs a limit of its own, because the limit on cells does not bound its
                    * work. */
                   .operations = {.pointer = "/rows",
                                  .before = "about ",
                                  .what = "operations are expected",
                                  .advice = ": ask for fewer or earlier rows, or fewer layers"}},
        .explain = explain_rows,
        .prepare = prepare_layers,
        .compute = compute_rows,
        .json = answer_json,
        .text = answer_text,
    };
    rollout_call c = {.look.call.req = req, .method = how, .q = {.decimals = -1}};
    return srv_look_run(&c, &steps, handler);
}

srv_outcome srv_runs_rollout(srv_request *req) {
    static const method rollout = {"rollout", rollout_rows, attn_run_rollout_cost,
                                   attn_run_rollout_rows};
    return look_through(req, &rollout, srv_runs_rollout);
}

srv_outcome srv_runs_flow(srv_request *req) {
    static const method flow = {"flow", flow_rows, attn_run_flow_cost, attn_run_flow_rows};
    return look_through(req, &flow, srv_runs_flow);
}
