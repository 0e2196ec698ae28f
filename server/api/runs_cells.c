/* GET /v1/runs/{id}/cells: one weight explained, with its arithmetic in words. */
#include <math.h>

#include "api/handlers.h"
#include "api/plain.h"
#include "api/route_fields.h"
#include "api/runs_call.h"
#include "number/number.h"
#include "request/shared.h"

typedef struct query {
    uint64_t given;
    srv_run_spot spot;
    int64_t row, col, decimals;
} query;

const srv_field srv_run_cells_query[] = {
    SRV_RUN_SPOT_ROWS(query),
    {.name = "row",
     .kind = SRV_INT,
     .offset = offsetof(query, row),
     .mistaken = "q",
     .min = 0,
     .max = 4294967296,
     .required = true,
     .doc = "Which query."},
    {.name = "col",
     .kind = SRV_INT,
     .offset = offsetof(query, col),
     .mistaken = "k",
     .min = 0,
     .max = 4294967296,
     .required = true,
     .doc = "Which key."},
    SRV_RUN_DECIMALS_ROW(query),
    {0},
};

/* In words: "q . k = 3; x 0.577 = 1.73; - logsumexp 2.1; e^-0.37 = 0.69; rank 1 of 13". */
static const char *words(srv_request *req, const srv_run *run, const attn_run_cell *c) {
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

static void answer(srv_request *req, const srv_run *run, const query *q, const attn_run_cell *c) {
    const bool wide = attn_run_dims(run->run)->result == ATTN_F64;
    if (srv_plain(req)) {
        attn_text t = srv_plain_begin(req);
        attn_text_add(&t, "%s\n", words(req, run, c));
        srv_plain_end(req, &t);
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
    srv_json_string(&j, words(req, run, c));
    srv_json_object_end(&j);
    srv_json_end(&j);
}

/* false: a problem is set. */
static bool explain(srv_request *req, const srv_run *run, const query *q, attn_run_cell *cell) {
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
    query q = {.decimals = -1};
    const srv_scope scope = {req, srv_run_cells_query, &q, ""};
    const srv_run *run = srv_run_begin(&scope, &q, &q.spot);
    attn_run_cell cell;
    const bool ok = run && explain(req, run, &q, &cell);
    if (ok)
        answer(req, run, &q, &cell);
    return srv_run_end(req, run, ok);
}
