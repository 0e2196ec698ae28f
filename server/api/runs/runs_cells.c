/* GET /v1/runs/{id}/cells answers one weight of a stored run and the steps of its computation, as
 * numbers and in words. */
#include <math.h>
#include <string.h>

#include "api/common/form_input.h"
#include "api/common/route_fields.h"
#include "api/common/text_reply.h"
#include "api/runs/runs_api.h"
#include "api/stored/stored_api.h"
#include "number/number.h"
#include "request/shared.h"
#include "wire/answer.h"

typedef struct cell_query {
    srv_given_bits given;
    srv_run_spot spot;
    int64_t row, col, decimals;
    unsigned members;
} cell_query;

/* The members of the answer. The field `fields` selects some of them. */
static const char *const cell_members[] = {
    "row",        "col",       "query_label",      "key_label",
    "query",      "key",       "products",         "relative",
    "raw",        "scale",     "scaled",           "softcap",
    "softcapped", "distance",  "position_bias",    "mask_bias",
    "visible",    "hidden_by", "filled",           "biased",
    "row_max",    "logsumexp", "weight",           "explained_head",
    "mix",        "rank",      "num_visible_keys", "words",
    NULL};

const srv_field srv_run_cells_query[] = {
    SRV_RUN_SPOT_ROWS(cell_query),
    SRV_INT_ROW(cell_query, row, 0, 4294967296, "The query.", .required = true),
    SRV_INT_ROW(cell_query, col, 0, 4294967296, "The key.", .required = true),
    SRV_NAMED_ROW(
        cell_query, "fields", members, SRV_FLAGS,
        "The members of the answer that are wanted; default all. A member that a run does not "
        "have, such as query_label, stays absent. As text the answer is always one sentence.",
        .choices = cell_members, .example = "\"weight,logsumexp,words\""),
    SRV_DECIMALS_ROW(cell_query, "."),
    {0},
};

/* Returns the weight of the head whose score the answer explains. */
static double head_weight(const attn_run_cell *c) {
    for (size_t n = 0; n < c->read_count; n++)
        if (c->reads[n].head == c->head)
            return c->reads[n].weight;
    return c->weight;
}

/* Appends the sum by which weights of several heads are mixed. */
static void add_mix(attn_text *t, const attn_run_cell *c) {
    enum { TERMS = 8 };
    attn_text_add(t, "; mixed:");
    for (size_t n = 0; n < c->read_count && n < TERMS; n++)
        attn_text_add(t, "%s %.6g * %.6g of head %zu", n ? " +" : "", c->reads[n].factor,
                      c->reads[n].weight, c->reads[n].head);
    if (c->read_count > TERMS)
        attn_text_add(t, " + %zu more", c->read_count - TERMS);
    attn_text_add(t, " = %.6g", c->weight);
}

/* Appends the step from the input of the normaliser to the weight. */
static void add_weight(attn_text *t, attn_normalizer_kind kind, const attn_run_cell *c) {
    switch (kind) {
    case ATTN_NORMALIZER_sigmoid:
        attn_text_add(t, "; 1 / (1 + e^-(%.6g + bias %.6g))", c->biased, 0 - c->threshold);
        break;
    case ATTN_NORMALIZER_relu:
        attn_text_add(t, "; max(0, %.6g) / %.6g", c->biased, c->divisor);
        break;
    case ATTN_NORMALIZER_relu_squared:
        attn_text_add(t, "; max(0, %.6g)^2 / %.6g", c->biased, c->divisor);
        break;
    case ATTN_NORMALIZER_sparsemax:
        attn_text_add(t, "; max(0, %.6g - threshold %.6g)", c->biased, c->threshold);
        break;
    case ATTN_NORMALIZER_entmax:
        attn_text_add(t, "; entmax of %.6g at threshold %.6g", c->biased, c->threshold);
        break;
    default:
        attn_text_add(t, "; e^(%.6g - logsumexp %.6g)", c->biased, c->logsumexp);
    }
    attn_text_add(t, " = %.6g", head_weight(c));
    if (c->read_count)
        add_mix(t, c);
    attn_text_add(t, "; rank %zu of %zu", c->rank, c->of);
}

/* Returns the arithmetic of a cell in words: "q . k = 3; x 0.577 = 1.73; e^(1.73 - logsumexp 2.1) =
 * 0.69; rank 1 of 13". */
static const char *cell_words(srv_request *req, const srv_run_view *run, const attn_run_cell *c) {
    const attn_inputs *in = attn_run_inputs(run->site);
    const bool learned = in->score.v.rank > 0;
    attn_text t = {.arena = req->arena};
    if (c->read_count)
        attn_text_add(&t, "head %zu: ", c->head);
    attn_text_add(&t, learned ? "v . tanh(q + k) = %.6g" : "q . k = %.6g", c->raw);
    if (c->scale != 1)
        attn_text_add(&t, "; x %.6g = %.6g", c->scale, c->scaled);
    if (c->softcap > 0)
        attn_text_add(&t, "; capped at %.6g: %.6g", c->softcap, c->softcapped);
    if (c->position_bias != 0)
        attn_text_add(&t, "; position bias %+.6g at distance %lld", c->position_bias,
                      (long long)c->distance);
    if (c->mask_bias != 0 && isfinite(c->mask_bias))
        attn_text_add(&t, "; mask bias %+.6g", c->mask_bias);
    for (size_t i = 0; i < c->hidden_count; i++)
        attn_text_add(&t, "%s%s", i ? " and " : "; hidden by ", c->hidden_by[i]);
    if (c->filled)
        attn_text_add(&t, ", for which mask_fill stands: %.6g", c->biased);
    if (c->visible)
        add_weight(&t, in->normalizer.kind, c);
    else if (c->read_count)
        add_mix(&t, c);
    else
        attn_text_add(&t, "; weight 0; the row sees %zu key%s", c->of, attn_plural(c->of));
    return t.failed ? "" : t.data;
}

/* A number of a cell, and the type in which it is written. */
typedef struct number {
    double value;
    bool wide; /* the value is written as float64; false: as float32 */
} number;

static void put_number(attn_json_text *j, const void *place) {
    const number *n = place;
    char text[ATTN_NUMBER_TEXT];
    if (!n->wide)
        attn_json_float(j, (float)n->value);
    else if (j->decimals >= 0 && isfinite(n->value))
        attn_json_raw(j, text, (size_t)(attn_write_decimals(text, n->value, j->decimals) - text));
    else
        attn_json_real(j, n->value);
}

typedef struct vector {
    double *values;
    size_t n;
    bool wide;
} vector;

static void put_vector(attn_json_text *j, const void *place) {
    const vector *v = place;
    const attn_tensor t = attn_tensor_dense(v->values, ATTN_F64, 1, &v->n);
    (v->wide ? srv_json_tensor : srv_json_tensor_single)(j, &t);
}

/* A cell in an answer. */
typedef struct cell_facts {
    size_t row, col;
    const char *query_label, *key_label; /* NULL: the run has none */
    vector query, key, products;
    number relative, raw, scale, scaled, softcap, softcapped, position_bias, mask_bias, biased;
    number row_max, logsumexp, weight;
    int64_t distance;
    bool visible, filled;
    bool is_relative; /* the cell includes products with vectors by distance */
    srv_strings hidden_by;
    size_t rank, visible_keys;
    const attn_run_cell *cell;
    bool is_mixed;
    int64_t head;
    const char *words;
} cell_facts;

static void put_mix(attn_json_text *j, const void *place) {
    const attn_run_cell *cell = ((const cell_facts *)place)->cell;
    attn_json_array(j);
    for (size_t n = 0; n < cell->read_count; n++) {
        attn_json_object(j);
        attn_json_key_size(j, "head", cell->reads[n].head);
        attn_json_key(j, "factor");
        attn_json_real(j, cell->reads[n].factor);
        attn_json_key(j, "weight");
        attn_json_real(j, cell->reads[n].weight);
        attn_json_object_end(j);
    }
    attn_json_array_end(j);
}

static void put_distance(attn_json_text *j, const void *place) {
    const int64_t distance = ((const cell_facts *)place)->distance;
    if (distance == ATTN_NO_POSITION)
        attn_json_null(j);
    else
        attn_json_int(j, distance);
}
static void put_hidden_by(attn_json_text *j, const void *place) {
    const srv_strings *fields = &((const cell_facts *)place)->hidden_by;
    attn_json_strings(j, fields->values, fields->count);
}

#define NUMBER(member, text, ...)                                                                  \
    SRV_WRITTEN_AT(#member, "number?", put_number, cell_facts, member, text, __VA_ARGS__)
#define VECTOR(member, text)                                                                       \
    SRV_WRITTEN_AT(#member, "[number?]", put_vector, cell_facts, member, text)

/* The rows of the members, in the order of cell_members. */
const srv_field srv_run_cell_rows[] = {
    SRV_IF_KNOWN("row", SRV_INT, cell_facts, row, "The query."),
    SRV_IF_KNOWN("col", SRV_INT, cell_facts, col, "The key."),
    SRV_IF_KNOWN("query_label", SRV_STRING, cell_facts, query_label, "The name of the query."),
    SRV_IF_KNOWN("key_label", SRV_STRING, cell_facts, key_label, "The name of the key."),
    VECTOR(query, "The vector of the query."),
    VECTOR(key, "The vector of the key."),
    VECTOR(products, "query times key, by dimension."),
    NUMBER(relative, "The products with vectors of the distance (shaw, disentangled).",
           .when = offsetof(cell_facts, is_relative)),
    NUMBER(raw, "The score of the form, such as q . k."),
    NUMBER(scale, "The factor of the score."),
    NUMBER(scaled, "The score times scale."),
    NUMBER(softcap, "The bound of the score; 0: none."),
    NUMBER(softcapped, "The score after softcap."),
    SRV_WRITTEN("distance", "integer?", put_distance,
                "The position of the key minus that of the query; null if one has none."),
    NUMBER(position_bias, "The bias of the distance."),
    NUMBER(mask_bias, "The number that masks and attn_bias add."),
    SRV_IF_KNOWN("visible", SRV_BOOL, cell_facts, visible, "Whether the query sees the key."),
    SRV_WRITTEN("hidden_by", "[string]", put_hidden_by, "The fields that hide the cell."),
    SRV_IF_KNOWN("filled", SRV_BOOL, cell_facts, filled,
                 "true: mask_fill stands for -infinity in the cell; else absent.",
                 .when = offsetof(cell_facts, filled)),
    NUMBER(biased, "The input of the normalizer, softmax unless the request names another."),
    NUMBER(row_max, "The largest input of the row; null if the normalizer is not softmax."),
    NUMBER(logsumexp, "The logarithm of the sum of the exponentials of the row; null if the "
                      "normalizer is not softmax."),
    NUMBER(weight, "e^(biased - logsumexp), or what another normalizer makes of biased."),
    SRV_IF_KNOWN("explained_head", SRV_INT, cell_facts, head,
                 "If weights are mixed: the query head of the vectors and scores, the one with the "
                 "largest part in the weight; else absent.",
                 .when = offsetof(cell_facts, is_mixed)),
    SRV_WRITTEN(
        "mix", "[object]", put_mix,
        "If weights are mixed: {head, factor, weight} of each head whose weight times factor "
        "is part of the weight; else absent.",
        .when = offsetof(cell_facts, is_mixed)),
    SRV_IF_KNOWN("rank", SRV_INT, cell_facts, rank,
                 "The place of the weight in its row, the largest first."),
    SRV_IF_KNOWN("num_visible_keys", SRV_INT, cell_facts, visible_keys, "Keys that the row sees."),
    SRV_IF_KNOWN("words", SRV_STRING, cell_facts, words, "All of it in one sentence."),
    {0},
};
_Static_assert(sizeof srv_run_cell_rows / sizeof *srv_run_cell_rows ==
                   sizeof cell_members / sizeof *cell_members,
               "fields selects rows by their numbers");

typedef struct cell_call {
    SRV_LOOK;
    cell_query q;
    attn_run_cell cell;
} cell_call;

static void print_cell(void *data, attn_text *t) {
    const cell_call *c = data;
    attn_text_add(t, "%s\n", cell_words(c->req, c->run, &c->cell));
}

static const char *label_at(const char *const *labels, int64_t i) {
    return labels ? labels[i] : NULL;
}

static cell_facts facts_of(const cell_call *c) {
    const attn_run_site *site = c->run->site;
    const attn_run_cell *cell = &c->cell;
    const bool wide = attn_run_dims(site)->result == ATTN_F64;
    const size_t batch = (size_t)c->q.spot.batch;
    return (cell_facts){
        .cell = cell,
        .is_mixed = cell->read_count > 0,
        .head = (int64_t)cell->head,
        .row = (size_t)c->q.row,
        .col = (size_t)c->q.col,
        .query_label = label_at(attn_run_query_labels(site, batch), c->q.row),
        .key_label = label_at(attn_run_key_labels(site, batch), c->q.col),
        .query = {cell->query, cell->width, wide},
        .key = {cell->key, cell->width, wide},
        .products = {cell->products, cell->width, true},
        .is_relative = attn_run_dims(site)->relative != 0,
        .relative = {cell->relative, true},
        .raw = {cell->raw, wide},
        .scale = {cell->scale, true},
        .scaled = {cell->scaled, wide},
        .softcap = {cell->softcap, true},
        .softcapped = {cell->softcapped, wide},
        .distance = cell->distance,
        .position_bias = {cell->position_bias, true},
        .mask_bias = {cell->mask_bias, true},
        .visible = cell->visible,
        .hidden_by = {(const char **)(uintptr_t)cell->hidden_by, cell->hidden_count},
        .filled = cell->filled,
        .biased = {cell->biased, wide},
        .row_max = {cell->row_max, true},
        .logsumexp = {cell->logsumexp, true},
        .weight = {cell->weight, wide},
        .rank = cell->rank,
        .visible_keys = cell->of,
        .words = cell_words(c->req, c->run, cell),
    };
}

static void answer_cell(void *data, attn_json_text *j) {
    const cell_call *c = data;
    const unsigned wanted = c->q.members; /* bit i: cell_members[i]; 0: all */
    const cell_facts facts = facts_of(c);
    for (size_t i = 0; srv_run_cell_rows[i].name; i++)
        if (!wanted || wanted >> i & 1)
            srv_answer_member(j, &srv_run_cell_rows[i], &facts);
}

static bool prepare_cell(void *data) {
    cell_call *c = data;
    if (!srv_run_spot_check(&c->scope, c->run, &c->q.spot))
        return false;
    const attn_attention_dims *d = attn_run_dims(c->run->site);
    srv_look_needs(&c->look, (double)d->S, (double)d->S,
                   srv_run_cells_work(c->req, c->run) + 200 * (double)d->score_width);
    return true;
}

static bool explain_cell(void *data) {
    cell_call *c = data;
    const cell_query *q = &c->q;
    attn_error err = {0};
    return !attn_run_explain(c->run->site, (size_t)q->spot.batch, (size_t)q->spot.head,
                             (size_t)q->row, (size_t)q->col, c->req->arena, &c->cell, &err) ||
           srv_problem_error(c->req, &err);
}

srv_outcome srv_runs_cells(srv_request *req) {
    static const srv_steps steps = {
        SRV_LOOK_STEPS(cell_call, srv_run_cells_query),
        .prepare = prepare_cell,
        .compute = explain_cell,
        .json = answer_cell,
        .text = print_cell,
    };
    cell_call c = {.look.call.req = req, .q = {.decimals = -1}};
    return srv_look_run(&c, &steps, NULL);
}
