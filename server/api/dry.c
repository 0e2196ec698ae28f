/* Predictions as JSON and as text. */
#include "api/dry.h"

#include <math.h>
#include <string.h>

#include "api/plain.h"
#include "request/shared.h"

void srv_dry_shape(srv_dry *dry, const char *name, int rank, const size_t *dims) {
    srv_shape *shape = &dry->shapes[dry->shape_count++];
    *shape = (srv_shape){.name = name, .rank = rank};
    memcpy(shape->dims, dims, (size_t)rank * sizeof *dims);
}

static void put(srv_json *j, const char *name, double value) {
    srv_json_key(j, name);
    srv_json_real(j, value);
}

static void write_shapes(srv_json *j, const srv_dry *dry) {
    srv_json_key(j, "shapes");
    srv_json_object(j);
    for (size_t i = 0; i < dry->shape_count; i++) {
        srv_json_key(j, dry->shapes[i].name);
        srv_json_array(j);
        for (int axis = 0; axis < dry->shapes[i].rank; axis++)
            srv_json_size(j, dry->shapes[i].dims[axis]);
        srv_json_array_end(j);
    }
    srv_json_object_end(j);
}

static void write_bytes(srv_json *j, const srv_dry *dry) {
    srv_json_key(j, "bytes");
    srv_json_object(j);
    if (dry->with_weights > 0) {
        put(j, "with_weights", dry->with_weights);
        put(j, "without_weights", dry->without_weights);
    }
    put(j, "result", dry->result);
    put(j, "work", dry->work);
    srv_json_object_end(j);
}

static void write_rnn(srv_json *j, const srv_dry *dry) {
    srv_json_key(j, "rnn");
    srv_json_object(j);
    put(j, "operations", dry->rnn_operations);
    put(j, "score_operations", dry->rnn_products);
    put(j, "path_length", dry->rnn_steps);
    srv_json_object_end(j);
    put(j, "path_length", 1);
}

static void dry_json(srv_request *req, const srv_dry *dry, double ms) {
    srv_json j;
    srv_json_begin(&j, req);
    srv_json_object(&j);
    srv_json_key(&j, "dry_run");
    srv_json_object(&j);
    write_shapes(&j, dry);
    if (dry->mask) {
        srv_json_key(&j, "mask");
        srv_json_string(&j, dry->mask);
    }
    put(&j, "cells", dry->cells);
    put(&j, "operations", dry->operations);
    write_bytes(&j, dry);
    srv_json_key(&j, "fits");
    srv_json_bool(&j, dry->fits);
    if (dry->learns) {
        srv_json_key(&j, "parameters");
        srv_json_size(&j, dry->parameters);
    }
    if (dry->rnn_steps > 0)
        write_rnn(&j, dry);
    put(&j, "predicted_ms", ms);
    srv_json_object_end(&j);
    srv_json_object_end(&j);
    srv_json_end(&j);
}

static void dry_text(srv_request *req, const srv_dry *dry, double ms) {
    char shape[128];
    attn_text t = srv_plain_begin(req);
    for (size_t i = 0; i < dry->shape_count; i++)
        attn_text_add(
            &t, "%s: %s\n", dry->shapes[i].name,
            attn_shape_text(dry->shapes[i].dims, dry->shapes[i].rank, shape, sizeof shape));
    if (dry->mask)
        attn_text_add(&t, "mask: %s\n", dry->mask);
    attn_text_add(&t, "cost: %.6g cells, %.6g operations, about %.3g ms\n", dry->cells,
                  dry->operations, ms);
    attn_text_add(&t, "bytes: %.0f of results, %.0f of scratch%s\n", dry->result, dry->work,
                  dry->fits ? "" : "; more than this service allows");
    if (dry->with_weights > 0)
        attn_text_add(&t, "results: %.0f bytes with weights, %.0f without\n", dry->with_weights,
                      dry->without_weights);
    if (dry->learns)
        attn_text_add(&t, "parameters: %zu\n", dry->parameters);
    if (dry->rnn_steps > 0)
        attn_text_add(&t,
                      "beside a recurrent layer of this width: %.6g multiply-adds of scores "
                      "instead of %.6g, paths of length 1 instead of %.0f\n",
                      dry->rnn_products, dry->rnn_operations, dry->rnn_steps);
    srv_plain_end(req, &t);
}

srv_outcome srv_dry_reply(srv_request *req, const srv_dry *dry) {
    /* In place there is less room than a run would have, so "does not fit" is no answer there. */
    if (req->in_place && (!srv_predictor_ready(req->app->predictor) || !dry->fits))
        return SRV_DEFER;
    /* This request was decoded as the run's would be. */
    double seconds = srv_predict(req->app->predictor, req->app->pool, &dry->load);
    double ms = seconds < 0 ? NAN : 1e3 * seconds + 1e-6 * (double)req->decode_ns;
    ms = round(ms * 1e4) / 1e4;
    if (srv_plain(req))
        dry_text(req, dry, ms);
    else
        dry_json(req, dry, ms);
    return SRV_DONE;
}
