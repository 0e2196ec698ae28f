/* POST /v1/positions: positional encodings as tables and curves. */
#include <stdio.h>

#include "api/dry.h"
#include "api/handlers.h"
#include "api/positions_call.h"
#include "load/admission.h"
#include "request/shared.h"

/* Numbers that the HTTP thread makes itself: about half a millisecond. */
#define IN_PLACE_VALUES 8192
/* Bytes of a float64 as text, with the writer's buffer doubling as it grows. */
#define TEXT_OF_NUMBER 64.0

static bool decode(srv_positions_call *call) {
    srv_request *req = call->req;
    int64_t start = attn_now_ns();
    call->body = (srv_positions_body){.std = 0.02, .bidirectional = true, .decimals = -1};
    srv_figure_init(&call->body.figure);
    bool ok = srv_decode(req, srv_positions_fields, &call->body);
    if (ok) {
        srv_hurry(req, call->body.timeout_ms);
        ok = srv_positions_prepare(call);
    }
    req->decode_ns = attn_now_ns() - start;
    return ok;
}

/* What curves by distance are cut from, all heads or columns of it. */
static double work_values(const srv_positions_call *call) {
    return call->curve_count > 0 ? (double)call->distances * (double)call->curve_columns : 0;
}

static bool within_limits(const srv_positions_call *call) {
    srv_request *req = call->req;
    double most = req->app->config->max_cells, limit = (double)attn_arena_limit(req->arena);
    double need = (double)attn_arena_used(req->arena) + 8 * work_values(call) +
                  (8 + TEXT_OF_NUMBER) * call->values;
    if (call->values > most) {
        srv_problem_limit(req, SRV_TOO_LARGE, NULL, most, "max_cells",
                          "the tables hold %.4g numbers; at most %.4g are allowed", call->values,
                          most);
        return false;
    }
    if (need <= limit)
        return true;
    srv_problem_limit(req, SRV_TOO_LARGE, NULL, limit, "max_request_bytes",
                      "%.0f numbers and their text need up to %.0f bytes; a request may use %.0f",
                      call->values, need, limit);
    return false;
}

static srv_outcome predict(const srv_positions_call *call) {
    srv_dry dry = {.cells = call->values,
                   .operations = call->values,
                   .result = 8 * call->values,
                   .work = 8 * work_values(call),
                   .fits = within_limits(call),
                   .learns = true,
                   .parameters = call->parameters};
    double *u = dry.load.units, made = call->values + work_values(call);
    for (size_t i = 0; i < SRV_TABLES; i++)
        if (call->names[i])
            srv_dry_shape(&dry, call->names[i], call->tables[i].rank, call->tables[i].dims);
    if (call->curve_count > 0)
        srv_dry_shape(
            &dry, "curves", 2,
            (size_t[]){call->curve_count,
                       (size_t)(call->distances > 0 ? call->distances : call->body.length)});
    u[SRV_UNIT_REQUEST] = 1;
    u[call->body.kind == SRV_POSITIONS_LEARNED ? SRV_UNIT_NORMAL
      : call->distances > 0                    ? SRV_UNIT_KEEP
                                               : SRV_UNIT_SINE] += made;
    u[SRV_UNIT_NUMBER64] += call->values;
    u[SRV_UNIT_BYTE] += dry.result + dry.work + 20 * call->values;
    return srv_dry_reply(call->req, &dry);
}

/* What copies float32 numbers of the request is written as they are. */
static void write_numbers(srv_json *j, const srv_positions_call *call, const attn_tensor *t) {
    const bool shaw = call->body.kind == SRV_POSITIONS_SHAW;
    const attn_tensor *from = shaw ? &call->position.key_table : &call->position.table;
    (from->rank > 0 && from->dtype != ATTN_F64 ? srv_json_tensor_single : srv_json_tensor)(j, t);
}

static void write_curves(srv_json *j, const srv_positions_call *call) {
    srv_json_key(j, "curves");
    srv_json_array(j);
    for (size_t i = 0; i < call->curve_count; i++) {
        srv_json_object(j);
        srv_json_key(j, "dim");
        srv_json_size(j, call->curves[i].dim);
        if (call->distances > 0) {
            srv_json_key(j, "distances");
            srv_json_array(j);
            srv_json_int(j, call->first);
            srv_json_int(j, call->first + call->distances - 1);
            srv_json_array_end(j);
        }
        srv_json_key(j, "values");
        write_numbers(j, call, &call->curves[i].values);
        srv_json_object_end(j);
    }
    srv_json_array_end(j);
}

static void answer_json(srv_positions_call *call) {
    srv_json j;
    srv_json_begin(&j, call->req);
    j.decimals = (int)call->body.decimals;
    srv_json_object(&j);
    for (size_t i = 0; i < SRV_TABLES; i++)
        if (call->names[i]) {
            srv_json_key(&j, call->names[i]);
            write_numbers(&j, call, &call->tables[i]);
        }
    if (!(call->req->accept & SRV_ACCEPT_NPY)) { /* which holds a table and nothing else */
        if (call->curve_count > 0)
            write_curves(&j, call);
        srv_json_key(&j, "parameters");
        srv_json_size(&j, call->parameters);
    }
    srv_json_object_end(&j);
    srv_json_end(&j);
}

static void answer_text(srv_positions_call *call) {
    attn_text t = srv_plain_begin(call->req);
    char name[48];
    for (size_t i = 0; i < SRV_TABLES; i++)
        if (call->names[i])
            srv_plain_tensor(&t, call->names[i], &call->tables[i], (int)call->body.decimals);
    for (size_t i = 0; i < call->curve_count; i++) {
        snprintf(name, sizeof name, "curve %zu", call->curves[i].dim);
        srv_plain_tensor(&t, name, &call->curves[i].values, (int)call->body.decimals);
    }
    attn_text_add(&t, "parameters: %zu\n", call->parameters);
    srv_plain_end(call->req, &t);
}

srv_outcome srv_positions(srv_request *req) {
    srv_positions_call call = {.req = req};
    if (!decode(&call))
        return SRV_DONE;
    if (call.body.dry_run)
        return predict(&call);
    if (!within_limits(&call))
        return SRV_DONE;
    if (req->in_place && (call.values + work_values(&call) > IN_PLACE_VALUES || srv_draws(req)))
        return SRV_DEFER;
    if (!srv_admission_work(req, work_values(&call),
                            8 * work_values(&call) + (8 + TEXT_OF_NUMBER) * call.values))
        return SRV_DONE;
    int64_t start = attn_now_ns();
    bool ok = srv_positions_make(&call);
    int64_t made = attn_now_ns();
    req->compute_ns = made - start;
    if (!ok)
        return SRV_DONE;
    if (req->accept & SRV_ACCEPT_CSV)
        srv_positions_csv(&call);
    else if (srv_draws(req))
        srv_positions_picture(&call);
    else if (srv_plain(req))
        answer_text(&call);
    else
        answer_json(&call);
    req->encode_ns = attn_now_ns() - made;
    return SRV_DONE;
}
