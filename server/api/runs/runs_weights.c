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

/* Holds the run and reads which part of the matrix is asked for. NULL: a problem is set. */
static const srv_run_view *begin(srv_request *req, const srv_field *fields, part_query *q,
                                 srv_run_part *part) {
    const srv_scope scope = {req, fields, &q->given, ""};
    *q = (part_query){.stage = ATTN_STAGE_PROBS, .decimals = -1};
    const srv_run_view *run = srv_run_begin(req, fields, q, &q->spot);
    if (!run)
        return NULL;
    if (srv_run_select(&scope, run, &q->spot, &q->heads, &q->rows,
                       fields == srv_run_weights_query ? &q->cols : NULL, part) &&
        is_of_weights(&scope, q, part) && is_asked_for(&scope, part))
        return run;
    srv_run_leave(req, run);
    return NULL;
}

/* Computes the cells of the part into a tensor in the arena. false: a problem is set. */
static bool load(srv_request *req, const srv_run_view *run, const srv_run_part *part,
                 attn_stage stage, attn_tensor *out) {
    const attn_dtype dtype = attn_run_dims(run->site)->result;
    const double rows = (double)heads_of(part) * (double)part->rows;
    const double bytes = rows * (double)part->cols * (double)attn_dtype_size(dtype);
    const double work =
        part->mean ? srv_run_mean_work(req, run, part) : srv_run_cells_work(req, run);
    const bool binary = req->accept & (SRV_ACCEPT_SAFETENSORS | SRV_ACCEPT_NPY);
    attn_error err = {0};
    size_t dims[3];
    const int rank = srv_run_part_dims(part, part->cols, dims);
    if (!srv_run_admit(req, cells_of(part),
                       bytes * (binary ? 1 : 1 + SRV_RUN_TEXT) + SRV_RUN_ROW_WORK * rows + work))
        return false;
    void *data = attn_arena_take(req->arena, (size_t)bytes);
    attn_status status = !data ? attn_fail(&err, ATTN_ENOMEM, "", "no memory left for the weights")
                         : part->mean ? srv_run_mean(req, run, part, data, &err)
                                      : srv_run_cells(req, run, part, stage, data, &err);
    if (status) {
        srv_problem_error(req, &err);
        return false;
    }
    *out = attn_tensor_dense(data, dtype, rank, dims);
    return true;
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

static void answer_weights(srv_request *req, const srv_run_view *run, const part_query *q,
                           const srv_run_part *part, const attn_tensor *cells) {
    const char *name = q->stage == ATTN_STAGE_PROBS ? "weights" : "scores";
    if (srv_reads_text(req)) {
        attn_text t = srv_text_begin(req);
        srv_text_tensor(&t, name, cells, (srv_print){(int)q->decimals, q->full});
        srv_text_end(req, &t);
        return;
    }
    attn_json_text j;
    srv_json_begin(&j, req);
    j.decimals = (int)q->decimals;
    attn_json_object(&j);
    attn_json_key(&j, name);
    srv_json_tensor(&j, cells);
    if (q->hidden)
        put_hidden(&j, run, part, NULL);
    attn_json_object_end(&j);
    srv_json_end(&j);
}

srv_outcome srv_runs_weights(srv_request *req) {
    part_query q;
    srv_run_part part;
    attn_tensor cells;
    const srv_run_view *run = begin(req, srv_run_weights_query, &q, &part);
    const bool ok = run && load(req, run, &part, (attn_stage)q.stage, &cells);
    if (ok)
        answer_weights(req, run, &q, &part, &cells);
    return srv_run_end(req, run, ok);
}

/* Stores the logsumexp of each row of the part, [heads, rows]. */
static void read_logsumexp(const srv_run_view *run, const srv_run_part *part, double *to) {
    for (size_t h = 0; h < part->head_count; h++)
        for (size_t i = 0; i < part->range_count; i++)
            for (int64_t row = part->ranges[i].from; row < part->ranges[i].to; row++)
                *to++ =
                    attn_run_logsumexp(run->site, part->batch, (size_t)part->heads[h], (size_t)row);
}

static void answer_rows(srv_request *req, const srv_run_view *run, const part_query *q,
                        const srv_run_part *part, const attn_tensor *cells) {
    const size_t n = heads_of(part) * part->rows;
    double *logsumexp = attn_arena_zeroed(req->arena, n, sizeof *logsumexp);
    int64_t *visible = attn_arena_zeroed(req->arena, n, sizeof *visible);
    attn_json_text j;
    srv_json_begin(&j, req);
    j.failed = !logsumexp || !visible;
    j.decimals = (int)q->decimals;
    attn_json_object(&j);
    attn_json_key(&j, "weights");
    srv_json_tensor(&j, cells);
    if (!j.failed) {
        const attn_tensor lse =
            attn_tensor_dense(logsumexp, ATTN_F64, cells->rank - 1, cells->dims);
        const attn_tensor seen = attn_tensor_dense(visible, ATTN_I64, cells->rank - 1, cells->dims);
        put_hidden(&j, run, part, visible);
        if (!part->mean) { /* the mean of heads is no softmax */
            read_logsumexp(run, part, logsumexp);
            attn_json_key(&j, "logsumexp");
            srv_json_tensor(&j, &lse);
        }
        attn_json_key(&j, "num_visible_keys");
        srv_json_tensor(&j, &seen);
    }
    attn_json_object_end(&j);
    srv_json_end(&j);
}

srv_outcome srv_runs_rows(srv_request *req) {
    part_query q;
    srv_run_part part;
    attn_tensor cells;
    const srv_run_view *run = begin(req, srv_run_rows_query, &q, &part);
    const bool ok = run && load(req, run, &part, ATTN_STAGE_PROBS, &cells);
    if (ok)
        answer_rows(req, run, &q, &part, &cells);
    return srv_run_end(req, run, ok);
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
    {.name = "row",
     .kind = SRV_INT,
     .offset = offsetof(cell_query, row),
     .min = 0,
     .max = 4294967296,
     .required = true,
     .doc = "The query."},
    {.name = "col",
     .kind = SRV_INT,
     .offset = offsetof(cell_query, col),
     .min = 0,
     .max = 4294967296,
     .required = true,
     .doc = "The key."},
    {.name = "fields",
     .kind = SRV_FLAGS,
     .offset = offsetof(cell_query, members),
     .choices = cell_members,
     .example = "\"weight,logsumexp,words\"",
     .doc = "The members of the answer that are wanted; default all. A member that a run does not "
            "have, such as query_label, stays absent. As text the answer is always one sentence."},
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
    attn_json_text j;
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
    attn_json_key(&w->j, name);
    return true;
}

static void put_size(cell_writer *w, const char *name, size_t value) {
    if (put_key(w, name))
        attn_json_size(&w->j, value);
}

static void put_real(cell_writer *w, const char *name, double value, bool wide) {
    char text[ATTN_NUMBER_TEXT];
    attn_json_text *j = &w->j;
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
        (wide ? srv_json_tensor : srv_json_tensor_single)(&w->j, &t);
}

static void put_label(cell_writer *w, const char *name, const char *const *labels, int64_t i) {
    if (labels && put_key(w, name))
        attn_json_string(&w->j, labels[i]);
}

static void put_reasons(cell_writer *w, const attn_run_cell *c) {
    if (put_key(w, "visible"))
        attn_json_bool(&w->j, c->visible);
    if (put_key(w, "hidden_by")) {
        attn_json_array(&w->j);
        for (size_t i = 0; i < c->hidden_count; i++)
            attn_json_string(&w->j, c->hidden_by[i]);
        attn_json_array_end(&w->j);
    }
    if (c->filled && put_key(w, "filled"))
        attn_json_bool(&w->j, true);
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
        attn_json_int(&w->j, c->distance);
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

static void answer_cell(srv_request *req, const srv_run_view *run, const cell_query *q,
                        const attn_run_cell *c) {
    cell_writer w = {.wanted = q->members, .wide = attn_run_dims(run->site)->result == ATTN_F64};
    const size_t batch = (size_t)q->spot.batch;
    if (srv_reads_text(req)) {
        attn_text t = srv_text_begin(req);
        attn_text_add(&t, "%s\n", cell_words(req, run, c));
        srv_text_end(req, &t);
        return;
    }
    srv_json_begin(&w.j, req);
    w.j.decimals = (int)q->decimals;
    attn_json_object(&w.j);
    put_size(&w, "row", (size_t)q->row);
    put_size(&w, "col", (size_t)q->col);
    put_label(&w, "query_label", attn_run_query_labels(run->site, batch), q->row);
    put_label(&w, "key_label", attn_run_key_labels(run->site, batch), q->col);
    put_steps(&w, c, attn_run_inputs(run->site));
    if (put_key(&w, "words"))
        attn_json_string(&w.j, cell_words(req, run, c));
    attn_json_object_end(&w.j);
    srv_json_end(&w.j);
}

/* Explains a cell of the weights. false: a problem is set. */
static bool explain(srv_request *req, const srv_run_view *run, const cell_query *q,
                    attn_run_cell *cell) {
    const attn_attention_dims *d = attn_run_dims(run->site);
    attn_error err = {0};
    if (!srv_run_admit(req, (double)d->S,
                       srv_run_cells_work(req, run) + 200 * (double)d->score_width))
        return false;
    if (!attn_run_explain(run->site, (size_t)q->spot.batch, (size_t)q->spot.head, (size_t)q->row,
                          (size_t)q->col, req->arena, cell, &err))
        return true;
    srv_problem_error(req, &err);
    return false;
}

srv_outcome srv_runs_cells(srv_request *req) {
    cell_query q = {.decimals = -1};
    const srv_run_view *run = srv_run_begin(req, srv_run_cells_query, &q, &q.spot);
    attn_run_cell cell;
    const bool ok = run && explain(req, run, &q, &cell);
    if (ok)
        answer_cell(req, run, &q, &cell);
    return srv_run_end(req, run, ok);
}
