/* Exact values of a stored run:
 *
 *   GET /v1/runs/{id}/weights   a part of the matrix of weights
 *   …/rows                      whole rows, with logsumexp and hidden keys
 *   …/cells                     one weight and how it was computed, also in words
 *   POST …/what-if              rows as they would be if some keys were hidden */
#include <math.h>
#include <string.h>

#include "api/form_input.h"
#include "api/handlers.h"
#include "api/route_fields.h"
#include "api/runs_call.h"
#include "api/text_reply.h"
#include "number/number.h"
#include "request/shared.h"

/* --- weights and rows --- */

typedef struct part_query {
    uint64_t given;
    srv_run_spot spot;
    srv_ints rows, cols;
    int stage;
    int64_t decimals;
    bool full;
} part_query;

const srv_field srv_run_weights_query[] = {
    SRV_RUN_SPOT_ROWS(part_query),
    SRV_RUN_RANGE_ROW(part_query, rows, "queries"),
    SRV_RUN_RANGE_ROW(part_query, cols, "keys"),
    SRV_ENUM_ROW(part_query, stage, srv_stage_names,
                 "probs (default): the weights; else scores: raw (q . k), scaled, softcapped or "
                 "biased (the input of softmax, null where hidden)."),
    SRV_DECIMALS_ROW(part_query, "."),
    SRV_FULL_ROW(part_query),
    {0},
};

const srv_field srv_run_rows_query[] = {
    SRV_RUN_SPOT_ROWS(part_query),
    SRV_RUN_RANGE_ROW(part_query, rows, "queries"),
    SRV_DECIMALS_ROW(part_query, "."),
    SRV_FULL_ROW(part_query),
    {0},
};

/* Refuses more than SRV_WEIGHTS_UNASKED weights unless the request names a range, so that a request
 * without a range does not get gigabytes. */
static bool is_asked_for(const srv_scope *scope, const attn_range *range) {
    const double cells = (double)range->rows * (double)range->cols;
    return cells <= SRV_WEIGHTS_UNASKED || srv_given(scope, "rows") ||
           (scope->fields == srv_run_weights_query && srv_given(scope, "cols")) ||
           srv_refuse(scope, SRV_VALUE, "rows",
                      "all rows are %.0f weights: say which are wanted, rows=from:to (at most %d "
                      "weights are sent unasked)",
                      cells, SRV_WEIGHTS_UNASKED);
}

/* Holds the run and reads which part of the matrix is asked for. NULL: a problem is set. */
static const srv_run *begin(srv_request *req, const srv_field *fields, part_query *q,
                            attn_range *range) {
    const srv_scope scope = {req, fields, &q->given, ""};
    *q = (part_query){.stage = ATTN_STAGE_PROBS, .decimals = -1};
    const srv_run *run = srv_run_begin(req, fields, q, &q->spot);
    if (!run)
        return NULL;
    const attn_attention_dims *d = attn_run_dims(run->run);
    *range =
        (attn_range){.batch = (size_t)q->spot.batch, .head = (size_t)q->spot.head, .cols = d->S};
    if (srv_run_range(&scope, "rows", &q->rows, d->L, &range->row, &range->rows) &&
        (fields == srv_run_rows_query ||
         srv_run_range(&scope, "cols", &q->cols, d->S, &range->col, &range->cols)) &&
        is_asked_for(&scope, range))
        return run;
    srv_run_release(req, run);
    return NULL;
}

/* Computes the cells of the range into a tensor in the arena. false: a problem is set. */
static bool load(srv_request *req, const srv_run *run, const attn_range *range, attn_stage stage,
                 attn_tensor *out) {
    const attn_dtype dtype = attn_run_dims(run->run)->result;
    const double cells = (double)range->rows * (double)range->cols;
    const double bytes = cells * (double)attn_dtype_size(dtype);
    const size_t dims[2] = {range->rows, range->cols};
    const bool binary = req->accept & (SRV_ACCEPT_SAFETENSORS | SRV_ACCEPT_NPY);
    attn_error err = {0};
    if (!srv_run_admit(req, cells,
                       bytes * (binary ? 1 : 1 + SRV_RUN_TEXT) + srv_run_cells_work(req, run) +
                           64 * (double)range->rows))
        return false;
    void *data = attn_arena_take(req->arena, (size_t)bytes);
    attn_status status = data ? srv_run_cells(req, run, range, stage, data, &err)
                              : attn_fail(&err, ATTN_ENOMEM, "", "no memory left for the weights");
    if (status) {
        srv_problem_error(req, &err);
        return false;
    }
    *out = attn_tensor_dense(data, dtype, 2, dims);
    return true;
}

static void answer_weights(srv_request *req, const part_query *q, const attn_tensor *cells) {
    const char *name = q->stage == ATTN_STAGE_PROBS ? "weights" : "scores";
    if (srv_reads_text(req)) {
        attn_text t = srv_text_begin(req);
        srv_text_tensor(&t, name, cells, (srv_print){(int)q->decimals, q->full});
        srv_text_end(req, &t);
        return;
    }
    srv_json j;
    srv_json_begin(&j, req);
    j.decimals = (int)q->decimals;
    srv_json_object(&j);
    srv_json_key(&j, name);
    srv_json_tensor(&j, cells);
    srv_json_object_end(&j);
    srv_json_end(&j);
}

srv_outcome srv_runs_weights(srv_request *req) {
    part_query q;
    attn_range range;
    attn_tensor cells;
    const srv_run *run = begin(req, srv_run_weights_query, &q, &range);
    const bool ok = run && load(req, run, &range, (attn_stage)q.stage, &cells);
    if (ok)
        answer_weights(req, &q, &cells);
    return srv_run_end(req, run, ok);
}

/* --- whole rows, with logsumexp, visible and hidden keys --- */

typedef struct row_facts {
    double *logsumexp;
    int64_t *visible;
    uint8_t *keep;
} row_facts;

/* Writes each range of hidden keys of a row as [row, from, to]. Returns the number of visible keys.
 */
static int64_t write_hidden(srv_json *j, size_t row, const uint8_t *keep, size_t n) {
    int64_t visible = 0;
    for (size_t from = 0, to; from < n; from = to) {
        to = from + 1;
        while (to < n && keep[to] == keep[from])
            to++;
        if (keep[from]) {
            visible += (int64_t)(to - from);
            continue;
        }
        srv_json_array(j);
        srv_json_size(j, row);
        srv_json_size(j, from);
        srv_json_size(j, to);
        srv_json_array_end(j);
    }
    return visible;
}

static void write_facts(srv_json *j, const srv_run *run, const attn_range *range,
                        const row_facts *f) {
    const attn_mask *mask = attn_attention_mask(attn_run_attention(run->run));
    const size_t n[1] = {range->rows};
    srv_json_key(j, "hidden");
    srv_json_array(j);
    for (size_t r = 0; r < range->rows; r++) {
        const size_t row = range->row + r;
        if (attn_mask_fills(mask))
            memset(f->keep, 1, range->cols);
        else
            attn_mask_keep(mask, range->batch, range->head, row, 0, range->cols, f->keep);
        f->visible[r] = write_hidden(j, row, f->keep, range->cols);
        f->logsumexp[r] = attn_run_logsumexp(run->run, range->batch, range->head, row);
    }
    srv_json_array_end(j);
    const attn_tensor lse = attn_tensor_dense(f->logsumexp, ATTN_F64, 1, n);
    const attn_tensor visible = attn_tensor_dense(f->visible, ATTN_I64, 1, n);
    srv_json_key(j, "logsumexp");
    srv_json_tensor(j, &lse);
    srv_json_key(j, "visible");
    srv_json_tensor(j, &visible);
}

static void answer_rows(srv_request *req, const srv_run *run, const part_query *q,
                        const attn_range *range, const attn_tensor *cells) {
    const row_facts f = {attn_arena_zeroed(req->arena, range->rows, sizeof(double)),
                         attn_arena_zeroed(req->arena, range->rows, sizeof(int64_t)),
                         attn_arena_take(req->arena, range->cols)};
    srv_json j;
    srv_json_begin(&j, req);
    j.failed = !f.logsumexp || !f.visible || !f.keep;
    j.decimals = (int)q->decimals;
    srv_json_object(&j);
    srv_json_key(&j, "weights");
    srv_json_tensor(&j, cells);
    if (!j.failed)
        write_facts(&j, run, range, &f);
    srv_json_object_end(&j);
    srv_json_end(&j);
}

srv_outcome srv_runs_rows(srv_request *req) {
    part_query q;
    attn_range range;
    attn_tensor cells;
    const srv_run *run = begin(req, srv_run_rows_query, &q, &range);
    const bool ok = run && load(req, run, &range, ATTN_STAGE_PROBS, &cells);
    if (ok)
        answer_rows(req, run, &q, &range, &cells);
    return srv_run_end(req, run, ok);
}

/* --- one cell --- */

typedef struct cell_query {
    uint64_t given;
    srv_run_spot spot;
    int64_t row, col, decimals;
} cell_query;

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
    SRV_DECIMALS_ROW(cell_query, "."),
    {0},
};

/* Returns the arithmetic of a cell in words: "q . k = 3; x 0.577 = 1.73; e^(1.73 - logsumexp 2.1) =
 * 0.69; rank 1 of 13". */
static const char *cell_words(srv_request *req, const srv_run *run, const attn_run_cell *c) {
    const attn_inputs *in = attn_run_inputs(run->run);
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
        attn_text_add(&t, "; weight 0; the row sees %zu keys", c->of);
    return t.failed ? "" : t.data;
}

static void put_real(srv_json *j, const char *name, double value, bool wide) {
    char text[ATTN_NUMBER_TEXT];
    srv_json_key(j, name);
    if (wide && j->decimals >= 0 && isfinite(value))
        srv_json_raw(j, text, (size_t)(attn_write_decimals(text, value, j->decimals) - text));
    else if (wide)
        srv_json_real(j, value);
    else
        srv_json_float(j, (float)value);
}

static void put_vector(srv_json *j, const char *name, double *values, size_t n, bool wide) {
    const attn_tensor t = attn_tensor_dense(values, ATTN_F64, 1, &n);
    srv_json_key(j, name);
    (wide ? srv_json_tensor : srv_json_tensor_single)(j, &t);
}

static void put_label(srv_json *j, const char *name, const char *const *labels, int64_t i) {
    if (!labels)
        return;
    srv_json_key(j, name);
    srv_json_string(j, labels[i]);
}

static void put_reasons(srv_json *j, const attn_run_cell *c) {
    srv_json_key(j, "visible");
    srv_json_bool(j, c->visible);
    srv_json_key(j, "hidden_by");
    srv_json_array(j);
    for (size_t i = 0; i < c->hidden_count; i++)
        srv_json_string(j, c->hidden_by[i]);
    srv_json_array_end(j);
    if (c->filled) {
        srv_json_key(j, "filled");
        srv_json_bool(j, true);
    }
}

static void put_steps(srv_json *j, const attn_run_cell *c, const attn_inputs *in, bool wide) {
    put_vector(j, "query", c->query, c->width, wide);
    put_vector(j, "key", c->key, c->width, wide);
    put_vector(j, "products", c->products, c->width, true);
    if (in->position.kind == ATTN_POSITION_SHAW)
        put_real(j, "relative", c->relative, true);
    put_real(j, "raw", c->raw, wide);
    put_real(j, "scale", c->scale, true);
    put_real(j, "scaled", c->scaled, wide);
    put_real(j, "softcap", c->softcap, true);
    put_real(j, "softcapped", c->softcapped, wide);
    srv_json_key(j, "distance");
    srv_json_int(j, c->distance);
    put_real(j, "position_bias", c->position_bias, true);
    put_real(j, "mask_bias", c->mask_bias, true);
    put_reasons(j, c);
    put_real(j, "biased", c->biased, wide);
    put_real(j, "row_max", c->row_max, true);
    put_real(j, "logsumexp", c->logsumexp, true);
    put_real(j, "weight", c->weight, wide);
    srv_json_key(j, "rank");
    srv_json_size(j, c->rank);
    srv_json_key(j, "of");
    srv_json_size(j, c->of);
}

static void answer_cell(srv_request *req, const srv_run *run, const cell_query *q,
                        const attn_run_cell *c) {
    const bool wide = attn_run_dims(run->run)->result == ATTN_F64;
    if (srv_reads_text(req)) {
        attn_text t = srv_text_begin(req);
        attn_text_add(&t, "%s\n", cell_words(req, run, c));
        srv_text_end(req, &t);
        return;
    }
    srv_json j;
    srv_json_begin(&j, req);
    j.decimals = (int)q->decimals;
    srv_json_object(&j);
    srv_json_key(&j, "row");
    srv_json_int(&j, q->row);
    srv_json_key(&j, "col");
    srv_json_int(&j, q->col);
    put_label(&j, "query_label", attn_run_query_labels(run->run), q->row);
    put_label(&j, "key_label", attn_run_key_labels(run->run), q->col);
    put_steps(&j, c, attn_run_inputs(run->run), wide);
    srv_json_key(&j, "words");
    srv_json_string(&j, cell_words(req, run, c));
    srv_json_object_end(&j);
    srv_json_end(&j);
}

/* Explains a cell of the weights. false: a problem is set. */
static bool explain(srv_request *req, const srv_run *run, const cell_query *q,
                    attn_run_cell *cell) {
    const attn_attention_dims *d = attn_run_dims(run->run);
    attn_error err = {0};
    if (!srv_run_admit(req, (double)d->S,
                       srv_run_cells_work(req, run) + 200 * (double)d->score_width))
        return false;
    if (!attn_run_explain(run->run, (size_t)q->spot.batch, (size_t)q->spot.head, (size_t)q->row,
                          (size_t)q->col, req->arena, cell, &err))
        return true;
    srv_problem_error(req, &err);
    return false;
}

srv_outcome srv_runs_cells(srv_request *req) {
    cell_query q = {.decimals = -1};
    const srv_run *run = srv_run_begin(req, srv_run_cells_query, &q, &q.spot);
    attn_run_cell cell;
    const bool ok = run && explain(req, run, &q, &cell);
    if (ok)
        answer_cell(req, run, &q, &cell);
    return srv_run_end(req, run, ok);
}

/* --- what if --- */

static const char *const items[] = {"weights",        "output",        "removed",
                                    "weights_before", "output_before", NULL};
enum { WEIGHTS = 1, OUTPUT = 2, REMOVED = 4, WEIGHTS_BEFORE = 8, OUTPUT_BEFORE = 16, ITEMS = 5 };

typedef struct what_if_body {
    uint64_t given;
    srv_run_spot spot;
    srv_ints rows, hide;
    unsigned items;
    int64_t decimals, timeout_ms;
} what_if_body;

const srv_field srv_run_what_if_fields[] = {
    {.name = "hide",
     .kind = SRV_INTS,
     .offset = offsetof(what_if_body, hide),
     .required = true,
     .doc = "Keys to hide from all queries."},
    SRV_RUN_SPOT_ROWS(what_if_body),
    {.name = "rows",
     .kind = SRV_INTS,
     .offset = offsetof(what_if_body, rows),
     .max = 2,
     .doc = "[from, to): range of queries; default all."},
    {.name = "return",
     .kind = SRV_FLAGS,
     .offset = offsetof(what_if_body, items),
     .choices = items,
     .doc = "The parts of the answer. The default is weights, output, output_before and removed "
            "(the weight of the hidden keys in each row)."},
    SRV_DECIMALS_ROW(what_if_body, "."),
    SRV_TIMEOUT_ROW(what_if_body),
    {0},
};

typedef struct what_if {
    srv_request *req;
    const srv_run *run;
    what_if_body body;
    attn_range rows;
    attn_results before, after;
} what_if;

static attn_status compute_rows(what_if *c, bool hidden, unsigned want, attn_results *out,
                                attn_error *err) {
    srv_request *req = c->req;
    attn_inputs in;
    attn_attention *op;
    attn_status status =
        attn_run_rows_inputs(c->run->run, &c->rows, hidden ? c->body.hide.values : NULL,
                             hidden ? c->body.hide.count : 0, req->arena, &in, err);
    if (!status)
        status = attn_attention_new(&in, req->arena, &op, err);
    return status ? status
                  : attn_attention_run(op, want, ATTN_STAGE_PROBS, srv_request_pool(req),
                                       &req->control, req->arena, out, err);
}

/* Reserves memory for two computations, which run one after the other: with all keys, and with some
 * keys hidden. false: a problem is set. */
static bool admit_what_if(what_if *c) {
    srv_request *req = c->req;
    attn_attention_dims d = *attn_run_dims(c->run->run);
    const double elem = (double)attn_dtype_size(d.result);
    attn_cost cost;
    attn_error err = {0};
    d.B = d.Hq = d.Hkv = 1;
    d.L = c->rows.rows;
    if (attn_attention_cost(&d, ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS,
                            attn_pool_slots(srv_request_pool(req)), &cost, &err)) {
        srv_problem_error(req, &err);
        return false;
    }
    const double numbers = 2 * (double)d.L * (double)(d.S + d.Ev + 1) + (double)d.S;
    return srv_run_admit(req, 2 * cost.cells,
                         2 * ((double)cost.work_bytes + (double)cost.result_bytes) +
                             (1 + SRV_RUN_TEXT) * elem * numbers);
}

/* Computes for each row the sum of its weights, before hiding, on the keys that are hidden. A key
 * that is named twice counts once. false: memory ran out. */
static bool removed(const what_if *c, attn_tensor *out) {
    const attn_attention_dims *d = attn_run_dims(c->run->run);
    const size_t n = c->rows.rows;
    const attn_tensor *w = &c->before.weights;
    double *mass = attn_arena_zeroed(c->req->arena, n, sizeof *mass);
    uint8_t *hidden = attn_arena_zeroed(c->req->arena, d->S, 1);
    if (!mass || !hidden)
        return false;
    for (size_t i = 0; i < c->body.hide.count; i++)
        hidden[c->body.hide.values[i]] = 1;
    for (size_t r = 0; r < n; r++)
        for (size_t j = 0; j < d->S; j++) {
            const size_t at = r * d->S + j;
            if (hidden[j])
                mass[r] += w->dtype == ATTN_F64 ? ((const double *)w->data)[at]
                                                : (double)((const float *)w->data)[at];
        }
    *out = attn_tensor_dense(mass, ATTN_F64, 1, &n);
    return true;
}

/* Returns the tensor [1, 1, rows, n] as [rows, n]. */
static attn_tensor flat(const attn_tensor *t) {
    return attn_tensor_dense(t->data, t->dtype, 2, t->dims + 2);
}

static void answer_what_if(what_if *c) {
    srv_request *req = c->req;
    attn_tensor tensors[ITEMS] = {flat(&c->after.weights),
                                  flat(&c->after.output),
                                  {.rank = 0},
                                  flat(&c->before.weights),
                                  flat(&c->before.output)};
    srv_json j;
    srv_json_begin(&j, req);
    j.failed = !removed(c, &tensors[2]);
    j.decimals = (int)c->body.decimals;
    srv_json_object(&j);
    for (size_t i = 0; i < ITEMS && !j.failed; i++) {
        if (!(c->body.items & 1u << i))
            continue;
        srv_json_key(&j, items[i]);
        if (tensors[i].dtype == tensors[0].dtype)
            srv_json_tensor(&j, &tensors[i]);
        else
            srv_json_tensor_single(&j, &tensors[i]);
    }
    srv_json_object_end(&j);
    srv_json_end(&j);
}

static bool read_what_if(what_if *c) {
    const srv_scope scope = {c->req, srv_run_what_if_fields, &c->body.given, ""};
    const attn_attention_dims *d = attn_run_dims(c->run->run);
    c->body = (what_if_body){.items = WEIGHTS | OUTPUT | REMOVED | OUTPUT_BEFORE, .decimals = -1};
    c->rows = (attn_range){.cols = d->S};
    if (!srv_read_body(c->req, srv_run_what_if_fields, &c->body, &c->body.timeout_ms) ||
        !srv_run_spot_check(&scope, c->run, &c->body.spot) ||
        !srv_run_range(&scope, "rows", &c->body.rows, d->L, &c->rows.row, &c->rows.rows))
        return false;
    c->rows.batch = (size_t)c->body.spot.batch;
    c->rows.head = (size_t)c->body.spot.head;
    return true;
}

srv_outcome srv_runs_what_if(srv_request *req) {
    what_if c = {.req = req, .run = srv_run_of(req)};
    const unsigned want = ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS;
    attn_error err = {0};
    if (c.run && read_what_if(&c) && admit_what_if(&c)) {
        const int64_t start = attn_now_ns();
        attn_status status = compute_rows(&c, true, want, &c.after, &err);
        if (!status)
            status = compute_rows(&c, false, want, &c.before, &err);
        req->compute_ns = attn_now_ns() - start;
        if (status)
            srv_problem_error(req, &err);
        else
            answer_what_if(&c);
    }
    srv_run_is_whole(req, c.run);
    srv_run_release(req, c.run);
    return SRV_DONE;
}
