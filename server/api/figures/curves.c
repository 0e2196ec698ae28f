/* POST /v1/curves draws numbers from the request as curves, such as quality against length. It
 * answers with pictures, CSV, text or JSON. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "api/common/compute.h"
#include "api/common/heatmap_object.h"
#include "api/common/route_fields.h"
#include "api/figures/figures_api.h"
#include "wire/csv.h"

#define MOST_CURVES 256 /* largest number of curves of a request */

typedef struct curves_body {
    srv_given_bits given;
    attn_tensor values, x;
    srv_strings names, titles;
    srv_figure_input figure;
    int64_t decimals, timeout_ms;
    bool full, markers, dry_run;
} curves_body;

typedef struct curves_call {
    SRV_CALL;
    curves_body body;
    size_t count;         /* number of curves */
    size_t points;        /* number of points of each curve */
    size_t each;          /* number of curves in each panel */
    size_t panels;        /* number of panels */
    const double *x;      /* [points]; NULL: the field x was not sent */
    const double *values; /* [count, points]; NaN: no value */
} curves_call;

const srv_field srv_curves_fields[] = {
    SRV_TENSOR_ROW(curves_body, values, SRV_T_REAL | SRV_T_NEGINF,
                   "[N] or [C, N], one row for each curve; null interrupts the curve, as text nan.",
                   .required = true),
    SRV_TENSOR_ROW(curves_body, x, SRV_T_REAL,
                   "[N]: the x coordinates of the values; default 0, 1, 2, …."),
    SRV_FIELD_ROW(curves_body, names, SRV_STRINGS, "One name for each curve, for the legend.",
                  .max = MOST_CURVES),
    SRV_FIELD_ROW(curves_body, titles, SRV_STRINGS,
                  "One title for each panel, instead of figure.titles; figure.per_panel is the "
                  "number of curves in a panel.",
                  .max = MOST_CURVES),
    SRV_BOOL_ROW(curves_body, markers, "Mark the points of curves with few points (default true)."),
    SRV_FIGURE_ROW(curves_body,
                   "Title, labels and style of the picture; vmin and vmax bound the y axis."),
    SRV_DECIMALS_ROW(curves_body, SRV_SHORTEST),
    SRV_FULL_ROW(curves_body),
    SRV_DRY_RUN_ROW(curves_body, "Draw nothing: return the shapes and the cost of the curves."),
    SRV_TIMEOUT_ROW(curves_body),
    {0},
};

static bool check_count(const srv_scope *scope, const char *name, const char *what,
                        const srv_strings *list, size_t expected) {
    if (!srv_given(scope, name) || list->count == expected)
        return true;
    return srv_refuse(scope, SRV_SHAPE, name, "expected %zu (one a %s), found %zu", expected, what,
                      list->count);
}

/* Upper bound of the memory of the answer for each number, in bytes. A number takes up to 33 bytes
 * in JSON and CSV, and fewer in a picture. The bound is about twice as large because the buffer of
 * the text grows by doubling. */
#define TEXT_OF_NUMBER 64.0

static bool prepare(void *data) {
    curves_call *call = data;
    curves_body *body = &call->body;
    const attn_tensor *v = &body->values, *x = &body->x;
    char shape[128];
    if (v->rank != 1 && v->rank != 2)
        return srv_refuse(&call->scope, SRV_SHAPE, "values", "expected [N] or [C, N], found %s",
                          attn_found_text(v, shape, sizeof shape));
    call->count = v->rank == 2 ? v->dims[0] : 1;
    call->points = v->dims[v->rank - 1];
    if (call->count == 0 || call->points == 0 || call->count > MOST_CURVES)
        return srv_refuse(&call->scope, SRV_SHAPE, "values",
                          "expected 1 to %d curves of at least one point, found %s", MOST_CURVES,
                          attn_found_text(v, shape, sizeof shape));
    if (srv_given(&call->scope, "x") && (x->rank != 1 || x->dims[0] != call->points))
        return srv_refuse(&call->scope, SRV_SHAPE, "x", "expected [%zu], a place a value, found %s",
                          call->points, attn_found_text(x, shape, sizeof shape));
    call->each = body->figure.per_panel > 0 ? (size_t)body->figure.per_panel : call->count;
    call->panels = (call->count + call->each - 1) / call->each;
    const double numbers = (double)call->points * (double)(call->count + (x->rank != 0));
    call->call.cost = (srv_cost){
        .weighted = numbers, .work = sizeof(double) * numbers, .text = TEXT_OF_NUMBER * numbers};
    return check_count(&call->scope, "names", "curve", &body->names, call->count) &&
           check_count(&call->scope, "titles", "panel", &body->titles, call->panels) &&
           (!srv_given(&call->scope, "titles") || body->figure.titles.count == 0 ||
            srv_refuse(&call->scope, SRV_VALUE, "titles",
                       "titles and figure.titles exclude each other: both name the panels")) &&
           srv_figure_titles(call->req, &body->figure, call->panels) &&
           srv_figure_check(call->req, &body->figure);
}

static void add_tensor(srv_dry *dry, const char *name, int rank, const size_t *dims,
                       const attn_tensor *t) {
    size_t numbers = 0;
    attn_tensor_count(t, &numbers);
    srv_dry_shape(dry, name, rank, dims);
    dry->result += (double)numbers * (double)attn_dtype_size(t->dtype);
}

static bool add_shapes(void *data, srv_dry *dry) {
    const curves_call *call = data;
    if (srv_draws(call->req)) /* a picture or a table has no tensors */
        return true;
    if (call->body.x.rank)
        add_tensor(dry, "x", 1, &call->points, &call->body.x);
    add_tensor(dry, "curves", 2, (size_t[2]){call->count, call->points}, &call->body.values);
    return true;
}

/* Converts the tensor to float64. Numbers that are not finite become NaN. NULL: out of memory. */
static const double *widen(curves_call *call, const attn_tensor *t) {
    size_t n;
    double *to =
        attn_tensor_count(t, &n) ? attn_arena_zeroed(call->req->arena, n, sizeof *to) : NULL;
    if (!to)
        return NULL;
    attn_widen_f64(to, t->data, t->dtype, 1, n);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(to[i]))
            to[i] = NAN;
    return to;
}

static bool read_numbers(void *data) {
    curves_call *call = data;
    call->values = widen(call, &call->body.values);
    if (call->values && call->body.x.rank)
        call->x = widen(call, &call->body.x);
    return (call->values && (call->x || !call->body.x.rank)) ||
           srv_problem_memory(call->req, NULL, "no memory left for the curves");
}

static const char *name_of(const curves_call *call, size_t i) {
    return i < call->body.names.count ? call->body.names.values[i] : NULL;
}

static void draw(void *data) {
    curves_call *call = data;
    srv_request *req = call->req;
    attn_figure_curve *items = attn_arena_zeroed(req->arena, call->count, sizeof *items);
    const attn_figure_curves shown = {.items = items,
                                      .count = call->count,
                                      .panels = call->panels,
                                      .titles = call->body.titles.values
                                                    ? call->body.titles.values
                                                    : call->body.figure.titles.values,
                                      .markers = call->body.markers};
    const attn_figure_options options = srv_figure_options(&call->body.figure, ATTN_LINEAR);
    attn_text svg = {.arena = req->arena};
    attn_error err = {0};
    for (size_t i = 0; items && i < call->count; i++)
        items[i] = (attn_figure_curve){.name = name_of(call, i),
                                       .x = call->x,
                                       .y = call->values + i * call->points,
                                       .n = call->points,
                                       .panel = i / call->each};
    if (!items)
        attn_fail(&err, ATTN_ENOMEM, "", "no memory left for the curves");
    if (!items || attn_figure_lines(&svg, &shown, &options, &err))
        srv_figure_problem(req, &err);
    else
        srv_figure_reply(req, &call->body.figure, &svg);
}

static void answer_csv(void *data, srv_csv *t) {
    const curves_call *call = data;
    const int decimals = (int)call->body.decimals;
    srv_csv_text(t, true, "x");
    for (size_t i = 0; i < call->count; i++)
        if (name_of(call, i))
            srv_csv_text(t, false, name_of(call, i));
        else
            srv_csv_index(t, false, i);
    srv_csv_line(t);
    for (size_t n = 0; n < call->points && !t->text.failed; n++) {
        srv_csv_number(t, true, call->x ? call->x[n] : (double)n, call->body.x.dtype == ATTN_F32,
                       decimals);
        for (size_t i = 0; i < call->count; i++)
            srv_csv_number(t, false, call->values[i * call->points + n],
                           call->body.values.dtype == ATTN_F32, decimals);
        srv_csv_line(t);
    }
}

/* A curve of the answer. */
typedef struct curve_answer {
    const char *name; /* NULL: none */
    attn_tensor numbers;
    const double *values; /* the curve's values in float64; NaN: there is no value */
} curve_answer;

static void put_range(attn_json_text *j, const void *place) {
    const curve_answer *curve = place;
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < curve->numbers.dims[0]; i++) {
        low = fmin(low, curve->values[i] + 0.0); /* -0 becomes 0 */
        high = fmax(high, curve->values[i] + 0.0);
    }
    attn_json_array(j);
    attn_json_float(j, (float)low);
    attn_json_float(j, (float)high);
    attn_json_array_end(j);
}

static const srv_field curve_rows[] = {
    SRV_IF_KNOWN("name", SRV_STRING, curve_answer, name, "The name of the curve."),
    SRV_WRITTEN("range", "[number?]", put_range, "The smallest and the largest value.",
                .always = true),
    SRV_ALWAYS("values", SRV_TENSOR, curve_answer, numbers, "The values.", .type = "[number?]"),
    {0},
};

static void put_x(attn_json_text *j, const void *data) {
    const curves_call *call = data;
    if (call->x)
        srv_json_tensor(j, &call->body.x);
}

static void put_curves(attn_json_text *j, const void *data) {
    const curves_call *call = data;
    const attn_tensor *v = &call->body.values;
    attn_json_array(j);
    for (size_t i = 0; i < call->count; i++) {
        char *from = (char *)v->data + i * call->points * attn_dtype_size(v->dtype);
        srv_answer_object(
            j, curve_rows,
            &(curve_answer){.name = name_of(call, i),
                            .numbers = attn_tensor_dense(from, v->dtype, 1, &call->points),
                            .values = call->values + i * call->points});
    }
    attn_json_array_end(j);
}

static const srv_field answer_rows[] = {
    SRV_WRITTEN("x", "[number?]", put_x, "The x coordinates."),
    SRV_WRITTEN("curves", "[*]", put_curves,
                "Name, smallest and largest value, and values of each curve.",
                .fields = curve_rows),
    SRV_DRY_RUN_MEMBER,
    {0},
};

const srv_field srv_curve_answers[] = {SRV_GROUP("Curves", answer_rows, NULL), {0}};

static void answer_json(void *data, attn_json_text *j) {
    srv_answer_members(j, answer_rows, data);
}

/* Returns a copy of the values in their own type, with NaN where a curve is interrupted. All bits
 * of such an element are 1, which is NaN in each type. The data is NULL if memory ran out. */
static attn_tensor interrupted(const curves_call *call) {
    attn_tensor v = call->body.values;
    const size_t n = call->count * call->points, each = attn_dtype_size(v.dtype);
    char *copy = attn_arena_take(call->req->arena, n * each);
    if (copy)
        memcpy(copy, v.data, n * each);
    for (size_t i = 0; copy && i < n; i++)
        if (isnan(call->values[i]))
            memset(copy + i * each, 0xff, each);
    v.data = copy;
    return v;
}

static void answer_text(void *data, attn_text *t) {
    const curves_call *call = data;
    const curves_body *body = &call->body;
    const attn_tensor values = interrupted(call);
    if (!values.data) {
        t->failed = true;
        return;
    }
    if (body->figure.title)
        attn_text_add(t, "%s\n\n", body->figure.title);
    srv_text_tensor(t, "x", &body->x, (srv_print){(int)body->decimals, body->full});
    for (size_t i = 0; i < body->names.count; i++)
        attn_text_add(t, "row %zu: %s\n", i, body->names.values[i]);
    srv_text_tensor(t, "values", &values, (srv_print){(int)body->decimals, body->full});
}

srv_outcome srv_curves(srv_request *req) {
    static const srv_steps steps = {
        .fields = srv_curves_fields,
        SRV_BODY_OF(curves_call),
        .unit_ns = 60,
        .prepare = prepare,
        .dry = add_shapes,
        .compute = read_numbers,
        .json = answer_json,
        .text = answer_text,
        .picture = draw,
        .csv = answer_csv,
    };
    curves_call call = {.call.req = req,
                        .body = {.decimals = -1, .markers = true, .figure = SRV_FIGURE_DEFAULTS}};
    return srv_compute(&call, &steps);
}
