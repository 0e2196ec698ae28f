/* POST /v1/positions answers positional encodings as tables and curves. This file holds the field
 * table, derives the shapes from a body, computes the tables with the library, and makes the curves
 * from the tables. */
#include <float.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/common/route_fields.h"
#include "api/positions/positions_api.h"
#include "api/positions/positions_call.h"
#include "base/try.h"

#define LONGEST 1073741824.0 /* largest `length`: 2^30 positions */

static const char *const kinds[] = {"sinusoidal", "learned",      "alibi",  "t5", "relative",
                                    "shaw",       "disentangled", "rotary", NULL};

/* For each srv_encoding_kind, the names of its fields (`own`) and of the fields that it requires
 * (`needed`), with a space before and after each name. */
static const char *const own[] = {
    " length positions width layout dims ",
    " length positions width seed std dims ",
    " length num_keys query_offset query_positions key_positions num_heads slopes dims ",
    " length num_keys query_offset query_positions key_positions table max_distance bidirectional "
    "dims ",
    " length num_keys query_offset query_positions key_positions table dims ",
    " length num_keys query_offset query_positions key_positions key_table head dims ",
    " length num_keys query_offset query_positions key_positions key_table query_table head "
    "max_distance dims ",
    " length positions width base dims frequencies factor scaling axes "};
static const char *const needed[] = {" length width ", " length width ", " length ",
                                     " length table ", " length table ", " length key_table ",
                                     " length ",       " length width "};
static const char common[] = " kind decimals full dry_run timeout_ms figure ";

const srv_field srv_positions_fields[] = {
    SRV_KIND_ROW(srv_positions_body, kinds,
                 "sinusoidal, learned: a vector for each position; alibi, t5, relative: a bias for "
                 "each head and distance; shaw, disentangled: a vector for each distance; rotary: "
                 "cosines and sines of the angles."),
    SRV_INT_ROW(srv_positions_body, length, 0, LONGEST, "Number of positions (queries)."),
    SRV_INT_ROW(
        srv_positions_body, width, 1, LONGEST,
        "sinusoidal, learned, rotary: length of each vector; an even number except for learned."),
    SRV_ENUM_ROW(
        srv_positions_body, layout, attn_pair_words,
        "sinusoidal: sines and cosines are interleaved (default, as in the paper) or in halves."),
    SRV_FIELD_ROW(srv_positions_body, dims, SRV_INTS,
                  "Columns (alibi, t5, relative: heads; rotary: pairs) to return as curves.",
                  .max = 256),
    SRV_FIELD_ROW(srv_positions_body, seed, SRV_INT,
                  "learned: element n (row-major) is std times the n-th normal number of this "
                  "seed; default 0."),
    SRV_REAL_ROW(srv_positions_body, std, 0, DBL_MAX,
                 "learned: the standard deviation of the initial table; default 0.02."),
    SRV_INT_ROW(srv_positions_body, num_heads, 1, LONGEST,
                "alibi: number of heads; default the number of slopes."),
    SRV_INT_ROW(srv_positions_body, num_keys, 0, LONGEST,
                "Biases and vectors by distance: number of keys; default length."),
    SRV_INT_ROW(srv_positions_body, query_offset, -LONGEST, LONGEST,
                "Biases and vectors by distance: query i has key position i + query_offset; "
                "default 0."),
    SRV_TENSOR_ROW(srv_positions_body, positions, SRV_T_INT | SRV_T_NONE,
                   "sinusoidal, learned, rotary: the position of each row, in any order, instead "
                   "of length; null = not encoded."),
    SRV_TENSOR_ROW(srv_positions_body, query_positions, SRV_T_INT | SRV_T_NONE,
                   "Biases and vectors by distance: the position of each query, instead of length "
                   "and query_offset; null = not encoded."),
    SRV_TENSOR_ROW(srv_positions_body, key_positions, SRV_T_INT | SRV_T_NONE,
                   "Biases and vectors by distance: the position of each key, instead of "
                   "num_keys."),
    SRV_NAMED_ROW(srv_positions_body, "slopes", position.slopes, SRV_TENSOR,
                  "alibi: [H], one slope for each head. The default is the slopes of the paper.",
                  .accepts = SRV_T_REAL),
    SRV_NAMED_ROW(srv_positions_body, "table", position.table, SRV_TENSOR,
                  "t5: [buckets, H]; relative: [H, 2m + 1], for distances -m to m.",
                  .accepts = SRV_T_REAL),
    SRV_NAMED_ROW(srv_positions_body, "max_distance", position.max_distance, SRV_INT,
                  "t5: all distances from this one on share the last bucket; default 128. "
                  "disentangled: with it distances have buckets, as in DeBERTa.",
                  .min = 2, .max = 1048576),
    SRV_NAMED_ROW(srv_positions_body, "bidirectional", position.unidirectional, SRV_BOOL,
                  "t5: true (default) gives half of the buckets to keys after the query.",
                  .accepts = SRV_B_NOT),
    SRV_NAMED_ROW(srv_positions_body, "key_table", position.key_table, SRV_TENSOR,
                  "shaw: [2m + 1, E] or [H, 2m + 1, E], for distances -m to m; larger distances "
                  "are clipped. disentangled: [2m, E] or [H, 2m, E], the vectors that queries are "
                  "multiplied by (c2p); row m + i - j is that of query i and key j.",
                  .accepts = SRV_T_REAL),
    SRV_NAMED_ROW(srv_positions_body, "query_table", position.query_table, SRV_TENSOR,
                  "disentangled: in place of key_table, the vectors that keys are multiplied by "
                  "(p2c).",
                  .accepts = SRV_T_REAL),
    SRV_INT_ROW(srv_positions_body, head, 0, LONGEST,
                "shaw, disentangled: the head of a table with an axis of heads whose vectors are "
                "answered; default 0."),
    SRV_NAMED_ROW(srv_positions_body, "base", position.base, SRV_REAL,
                  "rotary: pair t is rotated by position * base^(-2t/width); default 10000.",
                  .min = 1, .max = DBL_MAX, .above = true),
    SRV_NAMED_ROW(srv_positions_body, "frequencies", position.frequencies, SRV_TENSOR,
                  "rotary: [width/2], radians per position of each pair, instead of "
                  "base^(-2t/width). Angles are float32 products, or float64 if they are.",
                  .accepts = SRV_T_REAL),
    SRV_NAMED_ROW(srv_positions_body, "factor", position.factor, SRV_REAL,
                  "rotary: multiplies cosines and sines; default 1.", .min = 0, .max = 1e6,
                  .above = true),
    SRV_SCALING_ROW(srv_positions_body, position.scaling),
    SRV_AXES_ROW(srv_positions_body, axes),
    SRV_DECIMALS_ROW(srv_positions_body, SRV_SHORTEST),
    SRV_FULL_ROW(srv_positions_body),
    SRV_FIGURE_ROW(
        srv_positions_body,
        "Title, labels and style of the picture, which shows the curves or else the table."),
    SRV_DRY_RUN_ROW(srv_positions_body,
                    "Compute nothing: return the shapes and the cost of the tables."),
    SRV_TIMEOUT_ROW(srv_positions_body),
    {0},
};

static bool check_kind(const srv_positions_call *call, int kind) {
    const srv_scope *scope = &call->scope;
    const bool given_rows = srv_positions_given(call);
    for (const srv_field *f = srv_positions_fields; f->name; f++) {
        const bool given = srv_given(scope, f->name);
        if (given && !srv_is_listed(own[kind], f->name) && !srv_is_listed(common, f->name))
            return srv_refuse(scope, SRV_VALUE, f->name, "%s does not belong to the kind \"%s\"",
                              f->name, kinds[kind]);
        if (!given && srv_is_listed(needed[kind], f->name) &&
            !(given_rows && strcmp(f->name, "length") == 0))
            return srv_refuse(scope, SRV_VALUE, f->name, "the kind \"%s\" needs %s: %s",
                              kinds[kind], f->name, f->doc);
    }
    return true;
}

static void set_table(srv_positions_call *call, size_t i, const char *name, int rank,
                      const size_t *dims) {
    double values = 1;
    call->names[i] = name;
    call->tables[i] = attn_tensor_dense(NULL, ATTN_F64, rank, dims);
    for (int axis = 0; axis < rank; axis++)
        values *= (double)dims[axis];
    call->values += values;
}

static bool absolute_shape(srv_positions_call *call, const srv_scope *scope) {
    const srv_positions_body *body = &call->body;
    const bool rotary = body->kind == SRV_POSITIONS_ROTARY;
    size_t dims[2] = {(size_t)body->length, (size_t)body->width};
    if (body->kind != SRV_POSITIONS_LEARNED && body->width % 2)
        return srv_refuse(scope, SRV_VALUE, "width",
                          "expected an even number, pairs of sine and cosine, found %" PRId64,
                          body->width);
    if (rotary)
        dims[1] /= 2;
    call->points = dims[0];
    call->curve_columns = dims[1];
    set_table(call, 0, rotary ? "cosines" : "table", 2, dims);
    if (rotary)
        set_table(call, 1, "sines", 2, dims);
    int64_t rows = call->rows ? 0 : body->length; /* number of rows of a learned table */
    for (size_t i = 0; call->rows && i < dims[0]; i++)
        rows = call->rows[i] >= rows ? call->rows[i] + 1 : rows;
    if (body->kind == SRV_POSITIONS_LEARNED)
        call->parameters = (size_t)rows * dims[1];
    return true;
}

static bool head_count(srv_positions_call *call, const srv_scope *scope) {
    const srv_positions_body *body = &call->body;
    const attn_tensor *t =
        body->kind == SRV_POSITIONS_ALIBI ? &body->position.slopes : &body->position.table;
    call->heads = (size_t)body->num_heads;
    if (body->kind == SRV_POSITIONS_ALIBI && t->rank == 0)
        return call->heads > 0 || srv_refuse(scope, SRV_VALUE, "num_heads",
                                             "the kind \"alibi\" needs num_heads or slopes");
    const int rank = body->kind == SRV_POSITIONS_ALIBI ? 1 : 2;
    const char *name = body->kind == SRV_POSITIONS_ALIBI ? "slopes" : "table";
    if (t->rank != rank)
        return srv_refuse(scope, SRV_SHAPE, name, "expected a tensor of rank %d, found %s", rank,
                          attn_rank_text(t));
    size_t found = t->dims[body->kind == SRV_POSITIONS_T5 ? 1 : 0];
    if (call->heads > 0 && call->heads != found)
        return srv_refuse(scope, SRV_SHAPE, "num_heads", "expected %zu, the heads of %s, found %zu",
                          found, name, call->heads);
    call->heads = found;
    return true;
}

bool srv_positions_vectors(const srv_positions_call *call) {
    return call->body.kind == SRV_POSITIONS_SHAW || call->body.kind == SRV_POSITIONS_DISENTANGLED;
}

const attn_tensor *srv_positions_vector_table(const srv_positions_call *call) {
    const attn_position *p = &call->body.position;
    return p->key_table.rank ? &p->key_table : &p->query_table;
}

/* Checks the table of vectors by distance, and that the table has the requested head. */
static bool check_vectors(const srv_positions_call *call, const srv_scope *scope) {
    const attn_tensor *t = srv_positions_vector_table(call);
    const bool shaw = call->body.kind == SRV_POSITIONS_SHAW;
    const char *name = srv_given(scope, "query_table") ? "query_table" : "key_table";
    if (!srv_excludes(scope, "key_table", "query_table", "each has vectors of its own"))
        return false;
    if (!t->rank)
        return srv_refuse(scope, SRV_VALUE, "kind",
                          "the kind \"disentangled\" needs key_table or query_table");
    if ((t->rank != 2 && t->rank != 3) || t->dims[t->rank - 2] % 2 != shaw)
        return srv_refuse(scope, SRV_SHAPE, name,
                          shaw
                              ? "expected [2m + 1, E] or [H, 2m + 1, E], an odd number of distances"
                              : "expected [2m, E] or [H, 2m, E], an even number of rows");
    if (t->rank == 2 && srv_given(scope, "head"))
        return srv_refuse(scope, SRV_VALUE, "head",
                          "all heads share the table, which has no axis of heads");
    if (t->rank == 3 && (uint64_t)call->body.head >= t->dims[0])
        return srv_refuse(scope, SRV_VALUE, "head",
                          "expected one of the %zu heads of %s, found %" PRId64, t->dims[0], name,
                          call->body.head);
    return true;
}

static bool relative_shape(srv_positions_call *call, const srv_scope *scope) {
    const srv_positions_body *body = &call->body;
    const bool vectors = srv_positions_vectors(call);
    const attn_tensor *t = srv_positions_vector_table(call);
    if (!call->columns)
        call->keys = (size_t)(srv_given(scope, "num_keys") ? body->num_keys : body->length);
    size_t dims[3] = {(size_t)body->length, call->keys, 0};
    if (!(vectors ? check_vectors(call, scope) : head_count(call, scope)))
        return false;
    if (vectors) {
        dims[2] = call->curve_columns = t->dims[t->rank - 1];
    } else {
        dims[2] = dims[1];
        dims[1] = dims[0];
        dims[0] = call->curve_columns = call->heads;
    }
    call->first = 1 - body->length - body->query_offset;
    call->by_distance = true;
    call->points = body->length > 0 ? (size_t)body->length + call->keys - 1 : 0;
    set_table(call, 0, "table", 3, dims);
    return true;
}

static bool check_dims(srv_positions_call *call, const srv_scope *scope) {
    const srv_ints *dims = &call->body.dims;
    for (size_t i = 0; i < dims->count; i++) {
        char place[32];
        snprintf(place, sizeof place, "dims/%zu", i);
        if (dims->values[i] < 0 || (uint64_t)dims->values[i] >= call->curve_columns)
            return srv_refuse(scope, SRV_VALUE, place,
                              "%" PRId64 " is outside: there are %zu, the first one is 0",
                              dims->values[i], call->curve_columns);
    }
    call->curve_count = dims->count;
    call->values += (double)dims->count * (double)call->points;
    return true;
}

/* Memory in bytes for a float64 as text: twice the upper bound of its length, because the buffer of
 * the text grows by doubling. */
#define TEXT_OF_NUMBER 64.0

static srv_cost cost_of(const srv_positions_call *call) {
    /* Curves over distances need the values of all heads (or columns), even if the answer shows
     * only some of them. Vectors by distance need them twice: ordered by distance and ordered by
     * column. Tables of vectors are compiled once for the table and once for the curves. */
    const double curves = call->by_distance && call->curve_count > 0
                              ? (double)call->points * (double)call->curve_columns
                              : 0;
    const bool vectors = srv_positions_vectors(call);
    const size_t compiled = vectors ? call->parameters * (curves > 0 ? 2 : 1) : 0;
    const double work = (vectors ? 2 : 1) * curves + (double)compiled;
    return (srv_cost){.cells = call->values,
                      .operations = call->values,
                      .weighted = call->values + work,
                      .result = sizeof(double) * call->values,
                      .work = sizeof(double) * work,
                      .text = TEXT_OF_NUMBER * call->values};
}

bool srv_positions_prepare(void *data) {
    srv_positions_call *call = data;
    srv_positions_body *body = &call->body;
    const bool absolute = body->kind == SRV_POSITIONS_SINUSOIDAL ||
                          body->kind == SRV_POSITIONS_LEARNED || body->kind == SRV_POSITIONS_ROTARY;
    attn_position *p = &body->position;
    size_t *n = &call->parameters;
    if (!check_kind(call, body->kind) || !srv_positions_read(call))
        return false;
    p->kind = body->kind == SRV_POSITIONS_ALIBI          ? ATTN_POSITION_ALIBI
              : body->kind == SRV_POSITIONS_T5           ? ATTN_POSITION_T5
              : body->kind == SRV_POSITIONS_RELATIVE     ? ATTN_POSITION_RELATIVE
              : body->kind == SRV_POSITIONS_SHAW         ? ATTN_POSITION_SHAW
              : body->kind == SRV_POSITIONS_DISENTANGLED ? ATTN_POSITION_DISENTANGLED
              : body->kind == SRV_POSITIONS_ROTARY       ? ATTN_POSITION_ROTARY
                                                         : ATTN_POSITION_NONE;
    p->dims = body->width;
    if (!srv_figure_check(call->req, &body->figure) ||
        !srv_parameter_check(&call->scope, "slopes", &p->slopes, false, n) ||
        !srv_parameter_check(&call->scope, "table", &p->table, false, n) ||
        !srv_parameter_check(&call->scope, "key_table", &p->key_table, false, n) ||
        !srv_parameter_check(&call->scope, "query_table", &p->query_table, false, n) ||
        !srv_parameter_check(&call->scope, "frequencies", &p->frequencies, false, n) ||
        (srv_given(&call->scope, "scaling") &&
         !srv_scaling_check(&call->scope, &p->scaling, false)) ||
        !(absolute ? absolute_shape(call, &call->scope) : relative_shape(call, &call->scope)) ||
        !check_dims(call, &call->scope))
        return false;
    call->call.cost = cost_of(call);
    return true;
}

/* --- tables and curves --- */

/* Allocates the data of a table and returns it; NULL: out of memory. The memory is not zeroed,
 * because zeroing gigabytes takes long, and the deadline is not checked meanwhile. */
static double *take(srv_positions_call *call, attn_tensor *t) {
    size_t bytes;
    const bool fits = attn_tensor_count(t, &bytes) && attn_size_mul(bytes, sizeof(double), &bytes);
    return t->data = fits ? attn_arena_take(call->req->arena, bytes) : NULL;
}

/* Computes vectors by distance, [queries, keys, E]. */
static attn_status fill_vectors(const srv_positions_call *call, size_t queries, size_t keys,
                                int64_t offset, double *table, attn_error *err) {
    return attn_position_vectors(&call->body.position, (size_t)call->body.head, call->rows,
                                 call->columns, queries, keys, offset, &call->req->control,
                                 call->req->arena, table, err);
}

/* Computes a bias, [heads, queries, keys]. Adding 0.0 turns the -0 that ALiBi has at distance 0
 * into 0. */
static attn_status fill_bias(const srv_positions_call *call, size_t queries, size_t keys,
                             int64_t offset, double *table, attn_error *err) {
    attn_status status =
        attn_position_table(&call->body.position, call->heads, call->rows, call->columns, queries,
                            keys, offset, &call->req->control, call->req->arena, table, err);
    for (size_t i = 0; i < call->heads * queries * keys && !status; i++)
        table[i] += 0.0;
    return status;
}

static attn_status fill(srv_positions_call *call, attn_error *err) {
    const srv_positions_body *body = &call->body;
    const attn_control *control = &call->req->control;
    const size_t length = (size_t)body->length, width = (size_t)body->width;
    double *tables[SRV_TABLES] = {NULL};
    for (size_t i = 0; i < SRV_TABLES; i++)
        ATTN_TAKEN(!call->names[i] || (tables[i] = take(call, &call->tables[i])), "the tables",
                   err);
    switch ((srv_encoding_kind)body->kind) {
    case SRV_POSITIONS_SINUSOIDAL:
        return attn_sinusoidal(tables[0], call->rows, length, width,
                               (attn_encoding_layout)body->layout, control, err);
    case SRV_POSITIONS_LEARNED:
        return attn_learned(tables[0], call->rows, length, width, body->std, (uint64_t)body->seed,
                            control, err);
    case SRV_POSITIONS_ROTARY:
        return attn_rotary_table(&call->body.position, call->rows, length, tables[0], tables[1],
                                 control, call->req->arena, err);
    case SRV_POSITIONS_SHAW:
    case SRV_POSITIONS_DISENTANGLED:
        return fill_vectors(call, length, call->keys, body->query_offset, tables[0], err);
    case SRV_POSITIONS_ALIBI:
    case SRV_POSITIONS_T5:
    case SRV_POSITIONS_RELATIVE:
        break;
    }
    return fill_bias(call, length, call->keys, body->query_offset, tables[0], err);
}

/* Copies column `dim` of the first table, one number for each position, to `to`. */
static void copy_column(const srv_positions_call *call, size_t dim, double *to) {
    const attn_tensor *t = &call->tables[0];
    for (size_t i = 0; i < t->dims[0]; i++)
        to[i] = ((const double *)t->data)[i * t->dims[1] + dim];
}

/* Computes the values of all heads (or columns of a table of vectors) for each distance. Writes
 * them to `to`, [columns, distances]. */
static attn_status by_distance(srv_positions_call *call, double *to, attn_error *err) {
    const size_t n = call->points, columns = call->curve_columns;
    if (!srv_positions_vectors(call))
        return fill_bias(call, 1, n, -call->first, to, err);
    double *rows = attn_arena_zeroed(call->req->arena, n * columns + 1, sizeof *rows);
    ATTN_TAKEN(rows, "the tables", err);
    ATTN_TRY(fill_vectors(call, 1, n, -call->first, rows, err));
    for (size_t d = 0; d < n; d++)
        for (size_t c = 0; c < columns; c++)
            to[c * n + d] = rows[d * columns + c];
    return ATTN_OK;
}

static attn_status make_curves(srv_positions_call *call, attn_error *err) {
    const srv_ints *dims = &call->body.dims;
    const size_t n = call->points;
    attn_arena *arena = call->req->arena;
    size_t all;
    double *columns = NULL;
    if (dims->count == 0)
        return ATTN_OK;
    call->curves = attn_arena_zeroed(arena, dims->count, sizeof *call->curves);
    ATTN_TAKEN(call->curves, "the tables", err);
    if (call->by_distance) {
        ATTN_TAKEN(attn_size_mul(call->curve_columns, n, &all) &&
                       (columns = attn_arena_zeroed(arena, all, sizeof *columns)),
                   "the tables", err);
        ATTN_TRY(by_distance(call, columns, err));
    }
    for (size_t i = 0; i < dims->count; i++) {
        srv_curve *curve = &call->curves[i];
        curve->dim = (size_t)dims->values[i];
        curve->values = attn_tensor_dense(NULL, ATTN_F64, 1, &n);
        double *to = take(call, &curve->values);
        ATTN_TAKEN(to, "the tables", err);
        if (columns)
            memcpy(to, columns + curve->dim * n, n * sizeof *to);
        else
            copy_column(call, curve->dim, to);
    }
    return ATTN_OK;
}

bool srv_positions_make(void *data) {
    srv_positions_call *call = data;
    attn_error err = {0};
    attn_status status = fill(call, &err);
    if (!status)
        status = make_curves(call, &err);
    if (!status)
        return true;
    if (call->body.axes.count)
        srv_axes_where(&call->body.axes, "position/axes", &err);
    /* The library has `slopes` in `position`, as POST /v1/attention does. Here it is a field of the
     * body. */
    return srv_problem_error_at(call->req, &err,
                                (const srv_renamed[]){{"position", ""}, {NULL, NULL}});
}
