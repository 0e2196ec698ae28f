/* POST /v1/runs/{id}/what-if: rows computed again with some keys hidden, renormalised exactly. */
#include "api/handlers.h"
#include "api/plain.h"
#include "api/route_fields.h"
#include "api/runs_call.h"
#include "request/shared.h"

static const char *const items[] = {"weights",        "output",        "removed",
                                    "weights_before", "output_before", NULL};
enum { WEIGHTS = 1, OUTPUT = 2, REMOVED = 4, WEIGHTS_BEFORE = 8, OUTPUT_BEFORE = 16, ITEMS = 5 };

typedef struct body {
    uint64_t given;
    srv_run_spot spot;
    srv_ints rows, hide;
    unsigned items;
    int64_t decimals, timeout_ms;
} body;

const srv_field srv_run_what_if_fields[] = {
    {.name = "hide",
     .kind = SRV_INTS,
     .offset = offsetof(body, hide),
     .required = true,
     .doc = "Keys that no query sees any more."},
    SRV_RUN_SPOT_ROWS(body),
    {.name = "rows",
     .kind = SRV_INTS,
     .offset = offsetof(body, rows),
     .max = 2,
     .doc = "[from, to): which queries; default all."},
    {.name = "return",
     .kind = SRV_FLAGS,
     .offset = offsetof(body, items),
     .choices = items,
     .doc = "What to answer; default weights, output, output_before and removed, the weight that "
            "the hidden keys of each row had."},
    SRV_RUN_DECIMALS_ROW(body),
    {.name = "timeout_ms",
     .kind = SRV_INT,
     .offset = offsetof(body, timeout_ms),
     .min = 1,
     .max = 86400000,
     .doc = "Give up after this time, if that is sooner than the service would."},
    {0},
};

typedef struct call {
    srv_request *req;
    const srv_run *run;
    body body;
    attn_range rows;
    attn_results before, after;
} call;

static attn_status compute(call *c, bool hidden, unsigned want, attn_results *out,
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

/* Bytes of both runs, in turns; false: a problem is set. */
static bool admit(call *c) {
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

/* The mass on the hidden keys before, each counted once. */
static bool removed(const call *c, attn_tensor *out) {
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

/* [1, 1, rows, n] -> [rows, n] */
static attn_tensor flat(const attn_tensor *t) {
    return attn_tensor_dense(t->data, t->dtype, 2, t->dims + 2);
}

static void answer(call *c) {
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

static bool read(call *c) {
    const srv_scope scope = {c->req, srv_run_what_if_fields, &c->body, ""};
    const attn_attention_dims *d = attn_run_dims(c->run->run);
    c->body = (body){.items = WEIGHTS | OUTPUT | REMOVED | OUTPUT_BEFORE, .decimals = -1};
    if (!srv_decode(c->req, srv_run_what_if_fields, &c->body))
        return false;
    srv_hurry(c->req, c->body.timeout_ms);
    c->rows = (attn_range){.cols = d->S};
    if (!srv_run_spot_check(&scope, c->run, &c->body.spot) ||
        !srv_run_range(&scope, "rows", &c->body.rows, d->L, &c->rows.row, &c->rows.rows))
        return false;
    c->rows.batch = (size_t)c->body.spot.batch;
    c->rows.head = (size_t)c->body.spot.head;
    return true;
}

srv_outcome srv_runs_what_if(srv_request *req) {
    call c = {.req = req, .run = srv_run_of(req)};
    const unsigned want = ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS;
    attn_error err = {0};
    if (c.run && read(&c) && admit(&c)) {
        const int64_t start = attn_now_ns();
        attn_status status = compute(&c, true, want, &c.after, &err);
        if (!status)
            status = compute(&c, false, want, &c.before, &err);
        req->compute_ns = attn_now_ns() - start;
        if (status)
            srv_problem_error(req, &err);
        else
            answer(&c);
    }
    srv_run_is_whole(req, c.run);
    srv_run_release(req, c.run);
    return SRV_DONE;
}
