/* The handler of POST /v1/positions, and its answers. If `dims` names columns, pictures and CSV
 * show these columns as curves. Otherwise they show the tables. A picture shows a table as a
 * heatmap, in which a long table is pooled by its mean, because values have signs. */
#include <stdio.h>

#include "api/common/dry.h"
#include "api/positions/positions_api.h"
#include "api/positions/positions_call.h"
#include "base/try.h"
#include "request/shared.h"
#include "wire/csv.h"

/* --- curves --- */

static const char *curve_name(const srv_positions_call *call, size_t dim) {
    static const char *const parts[] = {"dimension", "dimension", "head",   "head",
                                        "head",      "column",    "column", "pair"};
    char text[64];
    const char *wave = "";
    if (call->body.kind == SRV_POSITIONS_SINUSOIDAL) {
        const bool halves = call->body.layout == ATTN_ENCODING_HALVES;
        const bool sine = halves ? dim < (size_t)call->body.width / 2 : dim % 2 == 0;
        wave = sine ? " (sine)" : " (cosine)";
    } else if (call->body.kind == SRV_POSITIONS_ROTARY) {
        wave = " (cosine)";
    }
    int n = snprintf(text, sizeof text, "%s %zu%s", parts[call->body.kind], dim, wave);
    return attn_arena_text(call->req->arena, text, (size_t)n);
}

static void draw_curves(srv_positions_call *call, const srv_figure_input *figure) {
    srv_request *req = call->req;
    const size_t each = figure->per_panel > 0 ? (size_t)figure->per_panel : call->curve_count;
    attn_figure_curve *items = attn_arena_zeroed(req->arena, call->curve_count, sizeof *items);
    const attn_figure_curves data = {.items = items,
                                     .count = call->curve_count,
                                     .titles = figure->titles.values,
                                     .panels = (call->curve_count + each - 1) / each};
    const attn_figure_options options = srv_figure_options(figure, ATTN_LINEAR);
    attn_text svg = {.arena = req->arena};
    attn_error err = {0};
    if (!srv_figure_titles(req, figure, data.panels))
        return;
    for (size_t i = 0; items && i < call->curve_count; i++) {
        const srv_curve *from = &call->curves[i];
        items[i] = (attn_figure_curve){.name = curve_name(call, from->dim),
                                       .y = from->values.data,
                                       .x0 = (double)call->first,
                                       .n = from->values.dims[0],
                                       .panel = i / each};
    }
    if (!items)
        attn_no_memory(&err, "the curves");
    if (!items || attn_figure_lines(&svg, &data, &options, &err))
        srv_figure_problem(req, &err);
    else
        srv_figure_reply(req, figure, &svg);
}

/* --- maps --- */

/* Implements attn_weight_source.fetch: returns rows of the tables as if they were rows of weights,
 * so that the tables can be drawn as heatmaps. rows->head selects a head of a bias, a column of
 * vectors by distance, or one of the tables 0 (cosines) and 1 (sines). */
static attn_status fetch(void *ctx, size_t lane, const attn_range *rows, float *weights,
                         float *logits, attn_error *err) {
    const srv_positions_call *call = ctx;
    const bool vectors = srv_positions_vectors(call);
    const attn_tensor *t = &call->tables[call->names[1] ? rows->head : 0];
    const double *from = t->data;
    const size_t cols = vectors ? t->dims[1] : t->dims[t->rank - 1];
    const size_t apart = vectors ? t->dims[2] : 1;
    (void)lane, (void)logits, (void)err;
    from += vectors ? rows->head : t->rank == 3 ? rows->head * t->dims[1] * t->dims[2] : 0;
    for (size_t r = 0; r < rows->rows; r++)
        for (size_t c = 0; c < rows->cols; c++)
            weights[r * rows->cols + c] =
                (float)from[((rows->row + r) * cols + rows->col + c) * apart];
    return ATTN_OK;
}

static attn_weight_source source_of(srv_positions_call *call) {
    const attn_tensor *t = &call->tables[0];
    attn_weight_source s = {.batches = 1, .heads = 1, .fetch = fetch, .ctx = call};
    const bool vectors = srv_positions_vectors(call);
    s.rows = t->rank == 2 || vectors ? t->dims[0] : t->dims[1];
    s.cols = vectors ? t->dims[1] : t->dims[t->rank - 1];
    s.heads = vectors ? t->dims[2] : t->rank == 3 ? t->dims[0] : call->names[1] ? 2 : 1;
    return s;
}

static void draw_tables(srv_positions_call *call, const srv_figure_input *figure) {
    static const char *rotary[] = {"cosines", "sines"};
    srv_request *req = call->req;
    const attn_weight_source source = source_of(call);
    attn_heatmap_options options = attn_heatmap_defaults();
    const srv_strings titles = {rotary, call->names[1] ? 2 : 0};
    const srv_labels labels = {0};
    const srv_heat_input heat = {0};
    attn_heatmaps maps;
    attn_error err = {0};
    options.pool = ATTN_POOL_MEAN;
    const srv_heat_answer all = {.maps = &maps,
                                 .in = &heat,
                                 .labels = &labels,
                                 .titles = &titles,
                                 .figure = figure,
                                 .decimals = -1};
    if (source.rows == 0 || source.cols == 0 || source.heads == 0)
        srv_problem(req, SRV_SHAPE, "/length", "a table without numbers cannot be drawn");
    else if (attn_heatmap_build(&source, &options, srv_request_pool(req), &req->control, req->arena,
                                &maps, &err))
        srv_problem_error(req, &err);
    else
        srv_heat_draw(req, &all);
}

static void answer_picture(void *data) {
    srv_positions_call *call = data;
    const int kind = call->body.kind;
    const bool by_position = kind == SRV_POSITIONS_SINUSOIDAL || kind == SRV_POSITIONS_LEARNED ||
                             kind == SRV_POSITIONS_ROTARY;
    const bool curves = call->curve_count > 0;
    const char *rows = srv_positions_given(call) ? "row" : "position";
    srv_figure_input figure = call->body.figure;
    figure.transpose = figure.transpose && !curves;
    if (curves)
        srv_figure_axes(&figure, by_position ? rows : "distance of the key", "value");
    else if (by_position)
        srv_figure_axes(&figure, kind == SRV_POSITIONS_ROTARY ? "pair" : "dimension", rows);
    else
        srv_figure_axes(&figure, "key", "query");
    if (!figure.value_label)
        figure.value_label = by_position || srv_positions_vectors(call) ? "value" : "bias";
    if (curves)
        draw_curves(call, &figure);
    else
        draw_tables(call, &figure);
}

/* --- CSV --- */

static void csv_curves(const srv_positions_call *call, srv_csv *t) {
    const size_t n = call->curves[0].values.dims[0];
    srv_csv_text(t, true,
                 call->by_distance           ? "distance"
                 : srv_positions_given(call) ? "row"
                                             : "position");
    for (size_t i = 0; i < call->curve_count; i++)
        srv_csv_index(t, false, call->curves[i].dim);
    srv_csv_line(t);
    for (size_t x = 0; x < n && !t->text.failed; x++) {
        srv_csv_number(t, true, (double)call->first + (double)x, false, -1);
        for (size_t i = 0; i < call->curve_count; i++)
            srv_csv_number(t, false, ((const double *)call->curves[i].values.data)[x], false,
                           (int)call->body.decimals);
        srv_csv_line(t);
    }
}

/* Writes a table as CSV. There is one line for each index of all axes but the last. */
static void csv_table(const srv_positions_call *call, size_t which, srv_csv *t) {
    const attn_tensor *table = &call->tables[which];
    const size_t cols = table->dims[table->rank - 1];
    const size_t inner = table->rank == 3 ? table->dims[1] : 1;
    const double *from = table->data;
    for (size_t r = 0; r < table->dims[0] * inner && !t->text.failed; r++) {
        if (call->names[1])
            srv_csv_text(t, true, call->names[which]);
        srv_csv_index(t, !call->names[1], r / inner);
        if (table->rank == 3)
            srv_csv_index(t, false, r % inner);
        for (size_t c = 0; c < cols; c++)
            srv_csv_number(t, false, from[r * cols + c], false, (int)call->body.decimals);
        srv_csv_line(t);
    }
}

static void answer_csv(void *data, srv_csv *t) {
    srv_positions_call *call = data;
    const attn_tensor *table = &call->tables[0];
    const bool vectors = srv_positions_vectors(call);
    if (call->curve_count > 0) {
        csv_curves(call, t);
    } else {
        if (call->names[1])
            srv_csv_text(t, true, "table");
        srv_csv_text(t, !call->names[1],
                     table->rank > 2             ? (vectors ? "query" : "head")
                     : srv_positions_given(call) ? "row"
                                                 : "position");
        if (table->rank == 3)
            srv_csv_text(t, false, vectors ? "key" : "query");
        for (size_t c = 0; c < table->dims[table->rank - 1]; c++)
            srv_csv_index(t, false, c);
        srv_csv_line(t);
        for (size_t i = 0; i < SRV_TABLES; i++)
            if (call->names[i])
                csv_table(call, i, t);
    }
}

/* --- JSON and text --- */

/* Writes a table or curve. Values that were copied from float32 numbers of the request are written
 * as float32, so that they have the digits that were sent. */
static void write_numbers(attn_json_text *j, const srv_positions_call *call, const attn_tensor *t) {
    const bool vectors = srv_positions_vectors(call);
    const attn_tensor *from =
        vectors ? srv_positions_vector_table(call) : &call->body.position.table;
    (from->rank > 0 && from->dtype != ATTN_F64 ? srv_json_tensor_single : srv_json_tensor)(j, t);
}

/* A curve of the answer. */
typedef struct curve_answer {
    const srv_positions_call *call;
    const srv_curve *curve;
    size_t dim;
} curve_answer;

static void put_distances(attn_json_text *j, const void *place) {
    const srv_positions_call *call = ((const curve_answer *)place)->call;
    if (!call->by_distance || call->points == 0)
        return;
    attn_json_array(j);
    attn_json_int(j, call->first);
    attn_json_int(j, call->first + (int64_t)call->points - 1);
    attn_json_array_end(j);
}

static void put_values(attn_json_text *j, const void *place) {
    const curve_answer *answer = place;
    write_numbers(j, answer->call, &answer->curve->values);
}

static const srv_field curve_rows[] = {
    SRV_ALWAYS("dim", SRV_INT, curve_answer, dim, "The column, or the head of a bias."),
    SRV_WRITTEN("distances", "[integer 2]", put_distances,
                "The first and the last distance; absent over positions."),
    SRV_WRITTEN("values", "[number?]", put_values, "The values.", .always = true),
    {0},
};

static void put_curves(attn_json_text *j, const void *data) {
    const srv_positions_call *call = data;
    if (call->curve_count == 0)
        return;
    attn_json_array(j);
    for (size_t i = 0; i < call->curve_count; i++)
        srv_answer_object(j, curve_rows,
                          &(curve_answer){call, &call->curves[i], call->curves[i].dim});
    attn_json_array_end(j);
}

/* The tables, for the schema only: answer_json writes them. An encoding has either `table`, or
 * `cosines` and `sines`. */
static const srv_field table_rows[] = {
    SRV_WRITTEN("table", "Numbers", NULL, "The encodings or biases, in float64."),
    SRV_WRITTEN("cosines", "Numbers", NULL, "[length, width/2], of rotary."),
    SRV_WRITTEN("sines", "Numbers", NULL, "[length, width/2], of rotary."),
    {0},
};

/* The members that a JSON answer has and an npy file lacks. An npy file holds only one table. */
static const srv_field rest_rows[] = {
    SRV_WRITTEN("curves", "[*]", put_curves,
                "A curve for each of dims: over the rows, or of a bias over the distances from "
                "distances[0] to distances[1].",
                .fields = curve_rows),
    SRV_IF_KNOWN("num_parameters", SRV_INT, srv_positions_call, parameters,
                 "Numbers that are learned, or that the request gives."),
    {0},
};

static const srv_field answer_rows[] = {
    SRV_GROUP("", table_rows, NULL),
    SRV_GROUP("", rest_rows, NULL),
    SRV_DRY_RUN_MEMBER,
    {0},
};

const srv_field srv_positions_answers[] = {
    SRV_GROUP("Positions", answer_rows,
              "Encodings: [length, width] (rotary: cosines and sines [length, width/2]); biases: "
              "[H, queries, keys]; shaw and disentangled: [queries, keys, E]."),
    {0},
};

static void answer_json(void *data, attn_json_text *j) {
    srv_positions_call *call = data;
    for (size_t i = 0; i < SRV_TABLES; i++)
        if (call->names[i]) {
            attn_json_key(j, call->names[i]);
            write_numbers(j, call, &call->tables[i]);
        }
    if (!(call->req->accept & SRV_ACCEPT_NPY))
        srv_answer_members(j, rest_rows, call);
}

static void answer_text(void *data, attn_text *t) {
    srv_positions_call *call = data;
    char name[48];
    for (size_t i = 0; i < SRV_TABLES; i++)
        if (call->names[i])
            srv_text_tensor(t, call->names[i], &call->tables[i],
                            (srv_print){(int)call->body.decimals, call->body.full});
    for (size_t i = 0; i < call->curve_count; i++) {
        snprintf(name, sizeof name, "curve %zu", call->curves[i].dim);
        srv_text_tensor(t, name, &call->curves[i].values,
                        (srv_print){(int)call->body.decimals, call->body.full});
    }
    attn_text_add(t, "parameters: %zu\n", call->parameters);
}

/* --- the row of the route --- */

static void explain(void *data, srv_limits *limits) {
    const srv_positions_call *call = data;
    attn_text t = {.arena = call->req->arena};
    attn_text_add(&t, "%.0f numbers and their text need up to", call->values);
    if (!t.failed)
        limits->bytes.what = t.data;
}

static bool add_shapes(void *data, srv_dry *dry) {
    const srv_positions_call *call = data;
    for (size_t i = 0; i < SRV_TABLES; i++)
        if (call->names[i])
            srv_dry_shape(dry, call->names[i], call->tables[i].rank, call->tables[i].dims);
    if (call->curve_count > 0)
        srv_dry_shape(dry, "curves", 2, (size_t[]){call->curve_count, call->points});
    dry->learns = true;
    dry->parameters = call->parameters;
    return true;
}

srv_outcome srv_positions(srv_request *req) {
    static const srv_steps steps = {
        .fields = srv_positions_fields,
        SRV_BODY_OF(srv_positions_call),
        .unit_ns = 60,
        .limits = {.cells = {.before = "the tables hold ", .what = "numbers"},
                   .bytes = {.what = "the numbers and their text need up to"}},
        .explain = explain,
        .prepare = srv_positions_prepare,
        .dry = add_shapes,
        .compute = srv_positions_make,
        .json = answer_json,
        .text = answer_text,
        .picture = answer_picture,
        .csv = answer_csv,
    };
    srv_positions_call call = {
        .call.req = req, .body = {.std = 0.02, .decimals = -1, .figure = SRV_FIGURE_DEFAULTS}};
    return srv_compute(&call, &steps);
}
