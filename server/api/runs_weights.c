/* GET /v1/runs/{id}/weights and /rows: exact values of a part of the matrix. */
#include <string.h>

#include "api/handlers.h"
#include "api/plain.h"
#include "api/route_fields.h"
#include "api/runs_call.h"
#include "request/shared.h"

static const char *const stages[] = {"raw", "scaled", "softcapped", "biased", "probs", NULL};

typedef struct query {
    uint64_t given;
    srv_run_spot spot;
    srv_ints rows, cols;
    int stage;
    int64_t decimals;
} query;

const srv_field srv_run_weights_query[] = {
    SRV_RUN_SPOT_ROWS(query),
    SRV_RUN_RANGE_ROW(query, rows, "queries"),
    SRV_RUN_RANGE_ROW(query, cols, "keys"),
    {.name = "stage",
     .kind = SRV_ENUM,
     .offset = offsetof(query, stage),
     .choices = stages,
     .doc = "probs (default): the weights; else scores: raw (q . k), scaled, softcapped or biased "
            "(what softmax saw, null where hidden)."},
    SRV_RUN_DECIMALS_ROW(query),
    {0},
};

const srv_field srv_run_rows_query[] = {
    SRV_RUN_SPOT_ROWS(query),
    SRV_RUN_RANGE_ROW(query, rows, "queries"),
    SRV_RUN_DECIMALS_ROW(query),
    {0},
};

/* A page that forgets to say which part it wants shall not get gigabytes. */
static bool is_asked_for(const srv_scope *scope, const attn_range *range) {
    const double cells = (double)range->rows * (double)range->cols;
    return cells <= SRV_WEIGHTS_UNASKED || srv_given(scope, "rows") ||
           (scope->fields == srv_run_weights_query && srv_given(scope, "cols")) ||
           srv_refuse(scope, SRV_VALUE, "rows",
                      "all rows are %.0f weights: say which are wanted, rows=from:to (at most %d "
                      "weights are sent unasked)",
                      cells, SRV_WEIGHTS_UNASKED);
}

/* The run, held, and what part of it is asked for. NULL: a problem is set. */
static const srv_run *begin(srv_request *req, const srv_field *fields, query *q,
                            attn_range *range) {
    const srv_scope scope = {req, fields, q, ""};
    *q = (query){.stage = ATTN_STAGE_PROBS, .decimals = -1};
    const srv_run *run = srv_run_begin(&scope, q, &q->spot);
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

/* The cells of the range as a tensor in the arena. false: a problem is set. */
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

static void answer_weights(srv_request *req, const query *q, const attn_tensor *cells) {
    const char *name = q->stage == ATTN_STAGE_PROBS ? "weights" : "scores";
    if (srv_plain(req)) {
        attn_text t = srv_plain_begin(req);
        srv_plain_tensor(&t, name, cells, (int)q->decimals);
        srv_plain_end(req, &t);
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
    query q;
    attn_range range;
    attn_tensor cells;
    const srv_run *run = begin(req, srv_run_weights_query, &q, &range);
    const bool ok = run && load(req, run, &range, (attn_stage)q.stage, &cells);
    if (ok)
        answer_weights(req, &q, &cells);
    return srv_run_end(req, run, ok);
}

/* --- whole rows, with what belongs to a row --- */

typedef struct row_facts {
    double *logsumexp;
    int64_t *visible;
    uint8_t *keep;
} row_facts;

/* Runs of hidden keys of a row: [row, from, to]. */
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

static void answer_rows(srv_request *req, const srv_run *run, const query *q,
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
    query q;
    attn_range range;
    attn_tensor cells;
    const srv_run *run = begin(req, srv_run_rows_query, &q, &range);
    const bool ok = run && load(req, run, &range, ATTN_STAGE_PROBS, &cells);
    if (ok)
        answer_rows(req, run, &q, &range, &cells);
    return srv_run_end(req, run, ok);
}
