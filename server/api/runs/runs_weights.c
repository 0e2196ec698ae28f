/* Exact values of a stored run:
 *
 *   GET /v1/runs/{id}/weights   a part of the matrix of weights
 *   …/rows                      whole rows, with logsumexp and hidden keys
 *   …/cells                     one weight and how it was computed, also in words */
#include <math.h>
#include <string.h>

#include "api/common/form_input.h"
#include "api/common/route_fields.h"
#include "api/common/text_reply.h"
#include "api/runs/runs_api.h"
#include "api/stored/stored_api.h"
#include "base/try.h"
#include "number/number.h"
#include "request/shared.h"

/* --- weights and rows --- */

typedef struct part_query {
    uint64_t given;
    srv_run_spot spot;
    srv_union heads;
    srv_ranges rows, cols;
    int stage;
    bool hidden;
    int64_t decimals;
    bool full;
} part_query;

const srv_field srv_run_weights_query[] = {
    SRV_RUN_SPOT_ROWS(part_query),
    SRV_RUN_HEADS_OR_MEAN_ROW(part_query),
    SRV_RUN_ROWS_ROW(part_query),
    SRV_RUN_COLS_ROW(part_query),
    SRV_ENUM_ROW(part_query, stage, attn_stage_words,
                 "probs (default): the weights; else scores: raw (q . k), scaled, softcapped or "
                 "biased (the input of softmax, null where hidden).",
                 .standard = "\"probs\""),
    SRV_BOOL_ROW(part_query, hidden,
                 "Also list the hidden cells of the part, as [row, from, to] of keys."),
    SRV_DECIMALS_ROW(part_query, "."),
    SRV_FULL_ROW(part_query),
    {0},
};

const srv_field srv_run_rows_query[] = {
    SRV_RUN_SPOT_ROWS(part_query), SRV_RUN_HEADS_OR_MEAN_ROW(part_query),
    SRV_RUN_ROWS_ROW(part_query),  SRV_DECIMALS_ROW(part_query, "."),
    SRV_FULL_ROW(part_query),      {0},
};

typedef struct part_call {
    SRV_LOOK;
    part_query q;
    srv_run_part part;
    attn_tensor cells;
} part_call;

/* Returns the number of weights that have to be computed. */
static double cells_of(const srv_run_part *part) {
    return (double)part->head_count * (double)part->rows * (double)part->cols;
}

/* Returns the number of heads in the answer. The mean is one of them. */
static size_t heads_of(const srv_run_part *part) {
    return part->mean ? 1 : part->head_count;
}

/* Refuses more than SRV_WEIGHTS_UNASKED weights unless the request names a range, so that a request
 * without a range does not get gigabytes. */
static bool is_asked_for(const srv_scope *scope, const srv_run_part *part) {
    const double cells = (double)heads_of(part) * (double)part->rows * (double)part->cols;
    return cells <= SRV_WEIGHTS_UNASKED || srv_given(scope, "rows") ||
           (scope->fields == srv_run_weights_query && srv_given(scope, "cols")) ||
           srv_refuse(scope, SRV_VALUE, "rows",
                      "all rows are %.0f weights: say which are wanted, rows=from:to, or all with "
                      "rows=0:%zu (at most %d weights are sent unasked)",
                      cells, part->rows, SRV_WEIGHTS_UNASKED);
}

/* Refuses the mean of what is not a weight: scores of hidden cells are -infinity. */
static bool is_of_weights(const srv_scope *scope, const part_query *q, const srv_run_part *part) {
    return !part->mean || q->stage == ATTN_STAGE_PROBS ||
           srv_refuse(
               scope, SRV_VALUE, "heads",
               "\"mean\" is the mean of weights: leave stage out, or choose heads by number");
}

static void count_part(part_call *c) {
    const srv_run_part *part = &c->part;
    const bool binary = c->req->accept & (SRV_ACCEPT_SAFETENSORS | SRV_ACCEPT_NPY);
    const double rows = (double)heads_of(part) * (double)part->rows;
    const double bytes =
        rows * (double)part->cols * (double)attn_dtype_size(attn_run_dims(c->run->site)->result);
    const double work =
        part->mean ? srv_run_mean_work(c->req, c->run, part) : srv_run_cells_work(c->req, c->run);
    srv_look_needs(&c->look, cells_of(part), cells_of(part),
                   bytes * (binary ? 1 : 1 + SRV_RUN_TEXT) + SRV_RUN_ROW_WORK * rows + work);
}

/* Reads which part of the matrix is asked for. false: a problem is set. */
static bool prepare_part(void *data) {
    part_call *c = data;
    part_query *q = &c->q;
    if (!srv_run_spot_check(&c->scope, c->run, &q->spot) ||
        !srv_run_select(&c->scope, c->run, &q->spot, &q->heads, &q->rows,
                        c->scope.fields == srv_run_weights_query ? &q->cols : NULL, &c->part) ||
        !is_of_weights(&c->scope, q, &c->part) || !is_asked_for(&c->scope, &c->part))
        return false;
    count_part(c);
    return true;
}

/* Computes the cells of the part into a tensor in the arena. */
static bool compute_part(void *data) {
    part_call *c = data;
    const srv_run_part *part = &c->part;
    const attn_dtype dtype = attn_run_dims(c->run->site)->result;
    size_t dims[3];
    const int rank = srv_run_part_dims(part, part->cols, dims);
    attn_error err = {0};
    void *to = attn_arena_take(c->req->arena,
                               heads_of(part) * part->rows * part->cols * attn_dtype_size(dtype));
    attn_status status =
        !to          ? attn_no_memory(&err, "the weights")
        : part->mean ? srv_run_mean(c->req, c->run, part, to, &err)
                     : srv_run_cells(c->req, c->run, part, (attn_stage)c->q.stage, to, &err);
    if (status)
        srv_problem_error(c->req, &err);
    c->cells = attn_tensor_dense(to, dtype, rank, dims);
    return !status;
}

/* --- hidden cells --- */

/* Writes the keys that a row does not see, as [row, from, to]. Returns the number of visible keys.
 * keep[i] belongs to key `col` + i. */
static int64_t write_hidden(attn_json_text *j, size_t row, const uint8_t *keep, size_t col,
                            size_t n) {
    int64_t visible = 0;
    for (size_t from = 0, to; from < n; from = to) {
        to = from + 1;
        while (to < n && keep[to] == keep[from])
            to++;
        if (keep[from]) {
            visible += (int64_t)(to - from);
            continue;
        }
        attn_json_array(j);
        attn_json_size(j, row);
        attn_json_size(j, col + from);
        attn_json_size(j, col + to);
        attn_json_array_end(j);
    }
    return visible;
}

/* Sets keep[i] to whether the key `col` + i of the part is visible in a row: of the head or, for the
 * mean, of any head. `keep` has room for the columns twice. */
static void find_visible(const attn_mask *mask, const srv_run_part *part, size_t head, size_t row,
                         uint8_t *keep) {
    uint8_t *other = keep + part->cols;
    if (attn_mask_fills(mask)) {
        memset(keep, 1, part->cols);
        return;
    }
    attn_mask_keep(mask, part->batch, head, row, part->col, part->cols, keep);
    for (size_t h = 1; part->mean && !attn_mask_same_heads(mask) && h < part->head_count; h++) {
        attn_mask_keep(mask, part->batch, h, row, part->col, part->cols, other);
        for (size_t i = 0; i < part->cols; i++)
            keep[i] |= other[i];
    }
}

/* Writes the hidden cells of one head. visible, if not NULL, gets the number of visible keys of
 * each row. */
static void write_hidden_head(attn_json_text *j, const srv_run_view *run, const srv_run_part *part,
                              size_t head, uint8_t *keep, int64_t *visible) {
    const attn_mask *mask = attn_attention_mask(attn_run_attention(run->site));
    attn_json_array(j);
    for (size_t i = 0; i < part->range_count; i++)
        for (int64_t row = part->ranges[i].from; row < part->ranges[i].to; row++) {
            find_visible(mask, part, head, (size_t)row, keep);
            const int64_t seen = write_hidden(j, (size_t)row, keep, part->col, part->cols);
            if (visible)
                *visible++ = seen;
        }
    attn_json_array_end(j);
}

/* Writes the member `hidden`: a list of [row, from, to], or with `heads` such a list for each head.
 * visible is NULL or [heads, rows]. */
static void put_hidden(attn_json_text *j, const srv_run_view *run, const srv_run_part *part,
                       int64_t *visible) {
    uint8_t *keep = attn_arena_take(j->arena, 2 * part->cols);
    if (!keep) {
        j->failed = true;
        return;
    }
    attn_json_key(j, "hidden");
    if (part->many)
        attn_json_array(j);
    for (size_t h = 0; h < heads_of(part); h++)
        write_hidden_head(j, run, part, (size_t)part->heads[h], keep,
                          visible ? visible + h * part->rows : NULL);
    if (part->many)
        attn_json_array_end(j);
}

/* --- the answers --- */

static const char *name_of(const part_call *c) {
    return c->q.stage == ATTN_STAGE_PROBS ? "weights" : "scores";
}

static void print_weights(void *data, attn_text *t) {
    const part_call *c = data;
    srv_text_tensor(t, name_of(c), &c->cells, (srv_print){(int)c->q.decimals, c->q.full});
}

static void answer_weights(void *data, attn_json_text *j) {
    const part_call *c = data;
    srv_json_key_tensor(j, name_of(c), &c->cells);
    if (c->q.hidden)
        put_hidden(j, c->run, &c->part, NULL);
}

#define PART_CALL(req)                                                                             \
    {                                                                                              \
        .look.call.req = req, .q = {.stage = ATTN_STAGE_PROBS, .decimals = -1 }                    \
    }

srv_outcome srv_runs_weights(srv_request *req) {
    static const srv_steps steps = {
        SRV_LOOK_STEPS(part_call, srv_run_weights_query),
        .prepare = prepare_part,
        .compute = compute_part,
        .json = answer_weights,
        .text = print_weights,
    };
    part_call c = PART_CALL(req);
    return srv_look_run(&c, &steps, NULL);
}

/* Stores the logsumexp of each row of the part, [heads, rows]. */
static void read_logsumexp(const srv_run_view *run, const srv_run_part *part, double *to) {
    for (size_t h = 0; h < part->head_count; h++)
        for (size_t i = 0; i < part->range_count; i++)
            for (int64_t row = part->ranges[i].from; row < part->ranges[i].to; row++)
                *to++ =
                    attn_run_logsumexp(run->site, part->batch, (size_t)part->heads[h], (size_t)row);
}

static void answer_rows(void *data, attn_json_text *j) {
    const part_call *c = data;
    srv_request *req = c->req;
    const srv_run_part *part = &c->part;
    const attn_tensor *cells = &c->cells;
    const size_t n = heads_of(part) * part->rows;
    double *logsumexp = attn_arena_zeroed(req->arena, n, sizeof *logsumexp);
    int64_t *visible = attn_arena_zeroed(req->arena, n, sizeof *visible);
    j->failed |= !logsumexp || !visible;
    srv_json_key_tensor(j, "weights", cells);
    if (!j->failed) {
        const attn_tensor lse =
            attn_tensor_dense(logsumexp, ATTN_F64, cells->rank - 1, cells->dims);
        const attn_tensor seen = attn_tensor_dense(visible, ATTN_I64, cells->rank - 1, cells->dims);
        put_hidden(j, c->run, part, visible);
        if (!part->mean) { /* the mean of heads is no softmax */
            read_logsumexp(c->run, part, logsumexp);
            srv_json_key_tensor(j, "logsumexp", &lse);
        }
        srv_json_key_tensor(j, "num_visible_keys", &seen);
    }
}

srv_outcome srv_runs_rows(srv_request *req) {
    static const srv_steps steps = {
        SRV_LOOK_STEPS(part_call, srv_run_rows_query),
        .prepare = prepare_part,
        .compute = compute_part,
        .json = answer_rows,
    };
    part_call c = PART_CALL(req);
    return srv_look_run(&c, &steps, NULL);
}

/* --- one cell --- */

typedef struct cell_query {
    uint64_t given;
    srv_run_spot spot;
    int64_t row, col, decimals;
    unsigned members;
} cell_query;

/* The members of the answer; `fields` selects some. */
static const char *const cell_members[] = {
    "row",       "col",       "query_label", "key_label", "query",
    "key",       "products",  "relative",    "raw",       "scale",
    "scaled",    "softcap",   "softcapped",  "distance",  "position_bias",
    "mask_bias", "visible",   "hidden_by",   "filled",    "biased",
    "row_max",   "logsumexp", "weight",      "rank",      "num_visible_keys",
    "words",     NULL};

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

/* Returns the arithmetic of a cell in words: "q . k = 3; x 0.577 = 1.73; e^(1.73 - logsumexp 2.1) =
 * 0.69; rank 1 of 13". */
static const char *cell_words(srv_request *req, const srv_run_view *run, const attn_run_cell *c) {
    const attn_inputs *in = attn_run_inputs(run->site);
    const bool learned = in->score.v.rank > 0;
    attn_text t = {.arena = req->arena};
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
        attn_text_add(&t, "; e^(%.6g - logsumexp %.6g) = %.6g; rank %zu of %zu", c->biased,
                      c->logsumexp, c->weight, c->rank, c->of);
    else
        attn_text_add(&t, "; weight 0; the row sees %zu key%s", c->of, c->of == 1 ? "" : "s");
    return t.failed ? "" : t.data;
}

/* Writes the wanted members of one cell. */
typedef struct cell_writer {
    attn_json_text *j;
    unsigned wanted; /* bit i: cell_members[i]; 0: all */
    bool wide;       /* the numbers of the run are float64 */
} cell_writer;

/* Writes the key of a member. false: the member is not wanted. */
static bool put_key(cell_writer *w, const char *name) {
    size_t i = 0;
    while (cell_members[i] && strcmp(cell_members[i], name) != 0)
        i++;
    if (w->wanted && !(w->wanted >> i & 1))
        return false;
    attn_json_key(w->j, name);
    return true;
}

static void put_size(cell_writer *w, const char *name, size_t value) {
    if (put_key(w, name))
        attn_json_size(w->j, value);
}

static void put_real(cell_writer *w, const char *name, double value, bool wide) {
    char text[ATTN_NUMBER_TEXT];
    attn_json_text *j = w->j;
    if (!put_key(w, name))
        return;
    if (!wide)
        attn_json_float(j, (float)value);
    else if (j->decimals >= 0 && isfinite(value))
        attn_json_raw(j, text, (size_t)(attn_write_decimals(text, value, j->decimals) - text));
    else
        attn_json_real(j, value);
}

/* Writes a number of the type of the run. */
static void put_number(cell_writer *w, const char *name, double value) {
    put_real(w, name, value, w->wide);
}

/* Writes a number that is computed in double for every run. */
static void put_double(cell_writer *w, const char *name, double value) {
    put_real(w, name, value, true);
}

static void put_vector(cell_writer *w, const char *name, double *values, size_t n, bool wide) {
    const attn_tensor t = attn_tensor_dense(values, ATTN_F64, 1, &n);
    if (put_key(w, name))
        (wide ? srv_json_tensor : srv_json_tensor_single)(w->j, &t);
}

static void put_label(cell_writer *w, const char *name, const char *const *labels, int64_t i) {
    if (labels && put_key(w, name))
        attn_json_string(w->j, labels[i]);
}

static void put_reasons(cell_writer *w, const attn_run_cell *c) {
    if (put_key(w, "visible"))
        attn_json_bool(w->j, c->visible);
    if (put_key(w, "hidden_by"))
        attn_json_strings(w->j, c->hidden_by, c->hidden_count);
    if (c->filled && put_key(w, "filled"))
        attn_json_bool(w->j, true);
}

static void put_steps(cell_writer *w, const attn_run_cell *c, const attn_inputs *in) {
    put_vector(w, "query", c->query, c->width, w->wide);
    put_vector(w, "key", c->key, c->width, w->wide);
    put_vector(w, "products", c->products, c->width, true);
    if (in->position.kind == ATTN_POSITION_SHAW)
        put_double(w, "relative", c->relative);
    put_number(w, "raw", c->raw);
    put_double(w, "scale", c->scale);
    put_number(w, "scaled", c->scaled);
    put_double(w, "softcap", c->softcap);
    put_number(w, "softcapped", c->softcapped);
    if (put_key(w, "distance"))
        attn_json_int(w->j, c->distance);
    put_double(w, "position_bias", c->position_bias);
    put_double(w, "mask_bias", c->mask_bias);
    put_reasons(w, c);
    put_number(w, "biased", c->biased);
    put_double(w, "row_max", c->row_max);
    put_double(w, "logsumexp", c->logsumexp);
    put_number(w, "weight", c->weight);
    put_size(w, "rank", c->rank);
    put_size(w, "num_visible_keys", c->of);
}

typedef struct cell_call {
    SRV_LOOK;
    cell_query q;
    attn_run_cell cell;
} cell_call;

static void print_cell(void *data, attn_text *t) {
    const cell_call *c = data;
    attn_text_add(t, "%s\n", cell_words(c->req, c->run, &c->cell));
}

static void answer_cell(void *data, attn_json_text *j) {
    const cell_call *c = data;
    const attn_run_site *site = c->run->site;
    const cell_query *q = &c->q;
    cell_writer w = {.j = j, .wanted = q->members, .wide = attn_run_dims(site)->result == ATTN_F64};
    const size_t batch = (size_t)q->spot.batch;
    put_size(&w, "row", (size_t)q->row);
    put_size(&w, "col", (size_t)q->col);
    put_label(&w, "query_label", attn_run_query_labels(site, batch), q->row);
    put_label(&w, "key_label", attn_run_key_labels(site, batch), q->col);
    put_steps(&w, &c->cell, attn_run_inputs(site));
    if (put_key(&w, "words"))
        attn_json_string(j, cell_words(c->req, c->run, &c->cell));
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
