/* POST /v1/runs/{id}/what-if computes rows of a stored run with some keys hidden. Rows are computed
 * in blocks, and only the items that `return` names are kept. Without weights, the memory therefore
 * grows with the number of rows and with the number of keys, but not with their product. */
#include <math.h>
#include <string.h>

#include "api/common/route_fields.h"
#include "api/common/warnings.h"
#include "api/runs/runs_api.h"
#include "api/stored/stored_api.h"
#include "base/try.h"
#include "request/shared.h"
#include "wire/answer.h"

static const char *const items[] = {"weights",        "output",        "removed",
                                    "weights_before", "output_before", NULL};
enum { WEIGHTS, OUTPUT, REMOVED, WEIGHTS_BEFORE, OUTPUT_BEFORE, ITEMS };
enum { UNASKED = 1u << WEIGHTS | 1u << OUTPUT | 1u << REMOVED | 1u << OUTPUT_BEFORE };
enum { BLOCK_ROWS = 1024 };
/* The largest number of weights in an answer whose request does not have `return`. */
#define MOST_UNASKED 16777216.0

typedef struct what_if_body {
    srv_given_bits given;
    srv_run_spot spot;
    srv_union heads;
    srv_ranges rows;
    srv_ints hide;
    unsigned items;
    int64_t decimals, timeout_ms;
    bool dry_run;
} what_if_body;

const srv_field srv_run_what_if_fields[] = {
    SRV_FIELD_ROW(what_if_body, hide, SRV_INTS, "Keys to hide from all queries.", .required = true),
    SRV_RUN_SPOT_ROWS(what_if_body),
    SRV_RUN_HEADS_ROW(what_if_body),
    SRV_FIELD_ROW(what_if_body, rows, SRV_RANGES,
                  "Queries: [from, to] without the end, or text as in the other routes of runs: an "
                  "index, from:to, or a list of these; default all.",
                  .accepts = SRV_R_MANY, .example = "\"5,9,100:104\""),
    SRV_NAMED_ROW(what_if_body, "return", items, SRV_FLAGS,
                  "The parts of the answer. The default is weights, output, output_before and "
                  "removed (the weight of the hidden keys in each row); more than 16,777,216 "
                  "weights are left out of the default, and omitted names them.",
                  .choices = items),
    SRV_DECIMALS_ROW(what_if_body, "."),
    SRV_DRY_RUN_ROW(what_if_body, "Compute nothing: return the shapes and the cost of the rows."),
    SRV_TIMEOUT_ROW(what_if_body),
    {0},
};

typedef struct what_if {
    SRV_LOOK;
    what_if_body body;
    srv_run_part part;
    bool omitted;               /* the default has more than MOST_UNASKED weights */
    attn_tensor tensors[ITEMS]; /* items that were not requested have rank 0 */
} what_if;

static bool wants(const what_if *c, int item) {
    return c->body.items >> item & 1;
}

/* Returns the requested results as ATTN_WANT flags. If `hidden`, these are the results after the
 * keys are hidden, else the results before. */
static unsigned results_of(const what_if *c, bool hidden) {
    return (wants(c, hidden ? OUTPUT : OUTPUT_BEFORE) ? (unsigned)ATTN_WANT_OUTPUT : 0) |
           (wants(c, hidden ? WEIGHTS : WEIGHTS_BEFORE) ? (unsigned)ATTN_WANT_WEIGHTS : 0);
}

static attn_dtype type_of(const what_if *c, int item) {
    return item == REMOVED ? ATTN_F64 : attn_run_dims(c->run->site)->result;
}

/* Returns the number of elements of the item in each row. */
static size_t width_of(const what_if *c, int item) {
    const attn_attention_dims *d = attn_run_dims(c->run->site);
    return item == REMOVED ? 1 : item == WEIGHTS || item == WEIGHTS_BEFORE ? d->S : d->Ev;
}

static size_t longest_block(const srv_run_part *part) {
    size_t most = 0;
    for (size_t i = 0; i < part->range_count; i++) {
        const size_t rows = (size_t)(part->ranges[i].to - part->ranges[i].from);
        most = rows > most ? rows : most;
    }
    return most < BLOCK_ROWS ? most : BLOCK_ROWS;
}

/* --- memory --- */

/* Adds the cells and operations of the rows to *to, and raises to->work to the bytes of scratch
 * that the rows need. `hidden` selects the computation with the keys hidden. The computations with
 * and without the keys share the scratch, because they run one after the other. */
static attn_status count_side(const what_if *c, bool hidden, srv_cost *to, attn_error *err) {
    const unsigned want = results_of(c, hidden);
    attn_attention_dims d = *attn_run_dims(c->run->site);
    attn_cost cost;
    if (!want)
        return ATTN_OK;
    const double reads = d.factors ? (double)d.reads : 1;
    const size_t mixed = d.factors ? d.S + d.Ev : 0; /* doubles for the sums over heads in a row */
    d.B = d.Hq = d.Hkv = d.Ho = d.Hv = 1;
    d.Ev = d.value_width;
    d.factors = d.reads = 0;
    d.pairs = ATTN_PAIRS_UNSTATED;
    d.L = longest_block(&c->part);
    ATTN_TRY(attn_attention_cost(&d, want, attn_pool_slots(srv_request_pool(c->req)), &cost, err));
    const double rows = reads * (double)c->part.head_count * (double)c->part.rows;
    to->work = fmax(to->work, (double)cost.work_bytes + (double)cost.result_bytes +
                                  (double)d.L * (double)mixed * sizeof(double));
    to->cells += rows * (double)d.S;
    to->operations += d.L ? rows / (double)d.L * cost.operations : 0;
    return ATTN_OK;
}

/* Sets the cost: the cells to compute, and the bytes of scratch, of the requested items and of
 * their text. false: a problem is set. */
static bool count_what_if(const what_if *c, srv_cost *out) {
    const attn_attention_dims *d = attn_run_dims(c->run->site);
    const double rows = (double)c->part.head_count * (double)c->part.rows;
    const double hidden = rows * (double)c->body.hide.count;
    attn_error err = {0};
    *out = (srv_cost){0};
    if (count_side(c, true, out, &err) || count_side(c, false, out, &err))
        return srv_problem_error(c->req, &err);
    out->work += 2 * (double)d->S;
    for (int i = 0; i < ITEMS; i++)
        if (wants(c, i))
            out->result += (double)attn_dtype_size(type_of(c, i)) * rows * (double)width_of(c, i);
    out->text = c->req->accept & SRV_ACCEPT_SAFETENSORS ? 0 : SRV_RUN_TEXT * out->result;
    if (wants(c, REMOVED)) {
        out->cells += hidden;
        out->operations += hidden * 2 * (double)d->score_width;
        out->work +=
            (double)attn_run_mass_work(c->run->site, attn_pool_slots(srv_request_pool(c->req)));
    }
    out->weighted = out->cells;
    return true;
}

/* Sets the shape of an item, [rows, width] or [heads, rows, width], and returns its rank. `removed`
 * has no last axis. */
static int shape_of(const what_if *c, int item, size_t dims[3]) {
    return srv_run_part_dims(&c->part, width_of(c, item), dims) - (item == REMOVED);
}

/* Allocates the tensors of the requested items. */
static attn_status take_tensors(what_if *c, attn_error *err) {
    for (int i = 0; i < ITEMS; i++) {
        const size_t elem = attn_dtype_size(type_of(c, i));
        size_t dims[3], numbers;
        const int rank = shape_of(c, i, dims);
        if (!wants(c, i))
            continue;
        void *data = attn_size_mul(c->part.head_count * c->part.rows, width_of(c, i), &numbers)
                         ? attn_arena_zeroed(c->req->arena, numbers, elem)
                         : NULL;
        ATTN_TAKEN(data, "the rows", err);
        c->tensors[i] = attn_tensor_dense(data, type_of(c, i), rank, dims);
    }
    return ATTN_OK;
}

/* --- the rows --- */

/* If the item is requested, copies its result for a block of rows into its tensor. The first row
 * goes to row `at` of the tensor. */
static void copy_result(what_if *c, int item, size_t at, const attn_tensor *result, size_t rows) {
    const size_t bytes = width_of(c, item) * attn_dtype_size(type_of(c, item));
    if (wants(c, item) && rows > 0 && bytes > 0)
        memcpy((char *)c->tensors[item].data + at * bytes, result->data, rows * bytes);
}

/* Computes a block of rows of one query head. `hidden` says whether the keys are hidden. */
static attn_status compute_head(what_if *c, const attn_range *rows, bool hidden, attn_results *out,
                                attn_error *err) {
    srv_request *req = c->req;
    attn_inputs in;
    attn_attention *op;
    ATTN_TRY(attn_run_rows_inputs(c->run->site, rows, hidden ? c->body.hide.values : NULL,
                                  hidden ? c->body.hide.count : 0, req->arena, &in, err));
    in.pool = srv_request_pool(req);
    in.control = &req->control;
    ATTN_TRY(attn_attention_new(&in, req->arena, &op, err));
    return attn_attention_run(op, results_of(c, hidden), ATTN_STAGE_PROBS, in.pool, in.control,
                              req->arena, out, err);
}

/* Multiplies the columns from … from + width - 1 of a result [rows, ..] by `factor`, and adds them
 * to sums [rows, width]. */
static void add_result(double *sums, double factor, const attn_tensor *result, size_t rows,
                       size_t from, size_t width) {
    const size_t row = result->rank ? result->dims[result->rank - 1] : 0;
    for (size_t i = 0; result->rank && i < rows * width; i++) {
        const size_t at = i / width * row + from + i % width;
        sums[i] += factor * (result->dtype == ATTN_F64 ? ((const double *)result->data)[at]
                                                       : (double)((const float *)result->data)[at]);
    }
}

/* If the item is requested, stores the sums for a block of rows in its tensor. */
static void store_sums(what_if *c, int item, size_t at, const double *sums, size_t rows) {
    const size_t width = width_of(c, item);
    const attn_tensor *t = &c->tensors[item];
    for (size_t i = 0; wants(c, item) && i < rows * width; i++)
        if (t->dtype == ATTN_F64)
            ((double *)t->data)[at * width + i] = sums[i];
        else
            ((float *)t->data)[at * width + i] = (float)sums[i];
}

/* Computes a block of rows of an output head that mixes the weights of several heads. `hidden` says
 * whether the keys are hidden. */
static attn_status compute_mix(what_if *c, const attn_range *rows, bool hidden, size_t at,
                               attn_error *err) {
    const attn_attention *site = attn_run_attention(c->run->site);
    const attn_attention_dims *d = attn_attention_dims_of(site);
    double *weights =
        attn_arena_zeroed(c->req->arena, rows->rows * (d->S + d->Ev), sizeof *weights);
    ATTN_TAKEN(weights, "the rows", err);
    double *output = weights + rows->rows * d->S;
    for (size_t n = 0; n < d->reads; n++) {
        const attn_head_read read = attn_attention_read(site, rows->head, n);
        const attn_arena_mark mark = attn_arena_here(c->req->arena);
        attn_range of_head = *rows;
        attn_results out;
        if (read.factor == 0)
            continue;
        of_head.head = read.head;
        ATTN_TRY(compute_head(c, &of_head, hidden, &out, err));
        add_result(weights, read.factor, &out.weights, rows->rows, 0, d->S);
        add_result(output, read.factor, &out.output, rows->rows, read.column, d->Ev);
        attn_arena_rewind(c->req->arena, &mark);
    }
    store_sums(c, hidden ? WEIGHTS : WEIGHTS_BEFORE, at, weights, rows->rows);
    store_sums(c, hidden ? OUTPUT : OUTPUT_BEFORE, at, output, rows->rows);
    return ATTN_OK;
}

/* Computes a block of rows, with the keys hidden if `hidden`, and stores the requested results. The
 * first row goes to row `at` of the tensors. */
static attn_status compute_side(what_if *c, const attn_range *rows, bool hidden, size_t at,
                                attn_error *err) {
    const attn_arena_mark mark = attn_arena_here(c->req->arena);
    attn_results out;
    if (!results_of(c, hidden))
        return ATTN_OK;
    if (attn_run_dims(c->run->site)->factors) {
        ATTN_TRY(compute_mix(c, rows, hidden, at, err));
    } else {
        ATTN_TRY(compute_head(c, rows, hidden, &out, err));
        copy_result(c, hidden ? WEIGHTS : WEIGHTS_BEFORE, at, &out.weights, rows->rows);
        copy_result(c, hidden ? OUTPUT : OUTPUT_BEFORE, at, &out.output, rows->rows);
    }
    attn_arena_rewind(c->req->arena, &mark);
    return ATTN_OK;
}

/* Computes for each row the sum of the weights of the keys in `hide`, before they are hidden. A key
 * that `hide` names twice counts once. */
static attn_status compute_removed(what_if *c, const attn_range *rows, size_t at, attn_error *err) {
    srv_request *req = c->req;
    if (!wants(c, REMOVED))
        return ATTN_OK;
    const attn_arena_mark mark = attn_arena_here(req->arena);
    attn_status status = attn_run_mass(c->run->site, rows, c->body.hide.values, c->body.hide.count,
                                       srv_request_pool(req), &req->control, req->arena,
                                       (double *)c->tensors[REMOVED].data + at, err);
    attn_arena_rewind(req->arena, &mark);
    return status;
}

/* Checks that the keys can be hidden, even if no requested item needs this. */
static attn_status check_hide(what_if *c, attn_error *err) {
    const attn_arena_mark mark = attn_arena_here(c->req->arena);
    const attn_range none = {.batch = c->part.batch}; /* head 0: all heads have the same keys */
    attn_inputs in;
    attn_status status = attn_run_rows_inputs(c->run->site, &none, c->body.hide.values,
                                              c->body.hide.count, c->req->arena, &in, err);
    attn_arena_rewind(c->req->arena, &mark);
    return status;
}

/* Computes the rows of one range of one head, block by block. The first row goes to row *at of the
 * tensors. Then sets *at to the row after the last one. */
static attn_status compute_range(what_if *c, size_t head, const srv_bounds *range, size_t *at,
                                 attn_error *err) {
    const size_t to = (size_t)range->to;
    attn_range rows = {.batch = c->part.batch, .head = head, .row = (size_t)range->from};
    for (; rows.row < to; rows.row += rows.rows, *at += rows.rows) {
        rows.rows = to - rows.row < BLOCK_ROWS ? to - rows.row : BLOCK_ROWS;
        ATTN_TRY(compute_side(c, &rows, true, *at, err));
        ATTN_TRY(compute_side(c, &rows, false, *at, err));
        ATTN_TRY(compute_removed(c, &rows, *at, err));
    }
    return ATTN_OK;
}

static bool compute_what_if(void *data) {
    what_if *c = data;
    size_t at = 0;
    attn_error err = {0};
    attn_status status = check_hide(c, &err);
    if (!status)
        status = take_tensors(c, &err);
    for (size_t h = 0; h < c->part.head_count && !status; h++)
        for (size_t i = 0; i < c->part.range_count && !status; i++)
            status = compute_range(c, (size_t)c->part.heads[h], &c->part.ranges[i], &at, &err);
    return !status || srv_problem_error(c->req, &err);
}

/* --- the answer --- */

static double count_weights(const what_if *c) {
    return (double)c->part.head_count * (double)c->part.rows * (double)width_of(c, WEIGHTS);
}

static void write_omitted(attn_json_text *j, const what_if *c) {
    attn_json_key_object(j, "omitted");
    srv_omitted_write(j, "weights", count_weights(c),
                      "choose fewer rows, or name \"weights\" in return");
    attn_json_object_end(j);
}

static const srv_field omitted_rows[] = {
    SRV_WRITTEN("weights", "OmittedTensor", NULL, NULL, .always = true),
    {0},
};

static const srv_field what_if_rows[] = {
    SRV_WRITTEN("weights", "Numbers", NULL,
                "The rows with the keys hidden, renormalised exactly. Dropout of the run is left "
                "out."),
    SRV_WRITTEN("output", "Numbers", NULL, "The output with the keys hidden."),
    SRV_WRITTEN("removed", "Numbers", NULL, "The weight that the hidden keys had, of each row."),
    SRV_WRITTEN("weights_before", "Numbers", NULL, "The rows without hiding."),
    SRV_WRITTEN("output_before", "Numbers", NULL, "The output without hiding."),
    SRV_WRITTEN("omitted", "*", NULL,
                "What the default of return left out because of its size, and how to get it.",
                .fields = omitted_rows),
    SRV_DRY_RUN_MEMBER,
    {0},
};

const srv_field srv_run_what_if_answers[] = {SRV_GROUP("RunWhatIf", what_if_rows, NULL), {0}};

static void answer_what_if(void *data, attn_json_text *j) {
    const what_if *c = data;
    const attn_dtype dtype = attn_run_dims(c->run->site)->result;
    for (int i = 0; i < ITEMS; i++) {
        if (!wants(c, i))
            continue;
        attn_json_key(j, items[i]);
        (type_of(c, i) == dtype ? srv_json_tensor : srv_json_tensor_single)(j, &c->tensors[i]);
    }
    if (c->omitted)
        write_omitted(j, c);
}

static bool prepare_what_if(void *data) {
    what_if *c = data;
    if (!srv_run_spot_check(&c->scope, c->run, &c->body.spot) ||
        !srv_run_select(&c->scope, c->run, &c->body.spot, &c->body.heads, &c->body.rows, NULL,
                        &c->part))
        return false;
    c->omitted = !srv_given(&c->scope, "return") && count_weights(c) > MOST_UNASKED;
    if (c->omitted)
        c->body.items &= ~(1u << WEIGHTS);
    return count_what_if(c, &c->look.call.cost);
}

static bool add_shapes(void *data, srv_dry *dry) {
    what_if *c = data;
    attn_error err = {0};
    if (check_hide(c, &err))
        return srv_problem_error(c->req, &err);
    for (int i = 0; i < ITEMS; i++) {
        size_t dims[3];
        const int rank = shape_of(c, i, dims);
        if (wants(c, i))
            srv_dry_shape(dry, items[i], rank, dims);
    }
    return true;
}

srv_outcome srv_runs_what_if(srv_request *req) {
    static const srv_steps steps = {
        .fields = srv_run_what_if_fields,
        SRV_BODY_OF(what_if),
        .limits = SRV_LOOK_LIMITS,
        .prepare = prepare_what_if,
        .dry = add_shapes,
        .compute = compute_what_if,
        .json = answer_what_if,
    };
    what_if c = {.look.call.req = req, .body = {.items = UNASKED, .decimals = -1}};
    return srv_look_run(&c, &steps, NULL);
}
