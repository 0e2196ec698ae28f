/* /v2, the Open Inference Protocol: server and model metadata, health, configuration, statistics
 * and the repository's index. Inference itself is in v2_infer.c. */
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "api/form_input.h"
#include "api/handlers.h"
#include "api/route_fields.h"
#include "api/v2_model.h"
#include "request/shared.h"
#include "wire/infer.h"
#include "wire/json_out.h"

const srv_v2_output srv_v2_outputs[] = {
    {"output", "output", 4},         {"weights", "weights", 4},
    {"logsumexp", "logsumexp", 3},   {"weights_dropped", "weights_dropped", 0},
    {"scores", "scores", 0},         {"present_key", "present", 0},
    {"present_value", "present", 0}, {0},
};

const srv_infer_model srv_infer_models[SRV_INFER_MODELS] = {
    {"scaled_dot_product_attention", NULL, NULL, false},
    {"multi_head_attention", "projections", srv_projections_fields, true},
};

bool srv_v2_takes(const char *input) {
    return strcmp(input, "grad_output") != 0;
}

size_t srv_v2_index_of(const srv_infer_model *model) {
    return (size_t)(model - srv_infer_models);
}

const srv_infer_model *srv_v2_find(srv_request *req) {
    const char *name = req->params[0], *version = req->params[1];
    const srv_infer_model *model = srv_infer_models, *end = model + SRV_INFER_MODELS;
    while (model < end && strcmp(name, model->name) != 0)
        model++;
    if (model == end)
        srv_problem(req, SRV_NOT_FOUND, NULL,
                    "there is no model \"%.80s\"; there are \"%s\" and \"%s\"", name,
                    srv_infer_models[0].name, srv_infer_models[1].name);
    else if (version && strcmp(version, SRV_V2_VERSION) != 0)
        srv_problem(req, SRV_NOT_FOUND, NULL, "model \"%s\" has version \"%s\", not \"%.40s\"",
                    model->name, SRV_V2_VERSION, version);
    else
        return model;
    return NULL;
}

static srv_outcome say(srv_request *req, const char *json) {
    srv_reply_set(req, 200, "application/json", json, strlen(json));
    srv_reply_header(req, "Cache-Control", "no-store");
    return SRV_DONE;
}

/* Not ready: the service is on its way down. */
static bool is_draining(srv_request *req) {
    if (!atomic_load_explicit(&req->app->draining, memory_order_relaxed))
        return false;
    srv_problem(req, SRV_DRAINING, NULL, "the server is shutting down");
    return true;
}

srv_outcome srv_v2_live(srv_request *req) {
    return say(req, "{\"live\":true}\n");
}

srv_outcome srv_v2_ready(srv_request *req) {
    return is_draining(req) ? SRV_DONE : say(req, "{\"live\":true,\"ready\":true}\n");
}

static void put(srv_json *j, const char *key, const char *text) {
    srv_json_key(j, key);
    srv_json_string(j, text);
}

static void begin(srv_json *j, srv_request *req) {
    srv_json_begin(j, req);
    srv_json_object(j);
}

static srv_outcome end(srv_json *j) {
    srv_json_object_end(j);
    srv_json_end(j);
    return SRV_DONE;
}

srv_outcome srv_v2_server(srv_request *req) {
    static const char *const extensions[] = {"binary_tensor_data", "model_configuration",
                                             "model_repository",   "parameters",
                                             "schedule_policy",    "statistics"};
    srv_json j;
    begin(&j, req);
    put(&j, "name", "attnd");
    put(&j, "version", attn_version());
    srv_json_key(&j, "extensions");
    srv_json_array(&j);
    for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++)
        srv_json_string(&j, extensions[i]);
    srv_json_array_end(&j);
    return end(&j);
}

/* An answer that changes while the service runs. */
static srv_outcome end_now(srv_json *j) {
    end(j);
    srv_reply_header(j->req, "Cache-Control", "no-store");
    return SRV_DONE;
}

srv_outcome srv_v2_model_ready(srv_request *req) {
    const srv_infer_model *model = srv_v2_find(req);
    srv_json j;
    if (!model || is_draining(req))
        return SRV_DONE;
    begin(&j, req);
    put(&j, "name", model->name);
    srv_json_key(&j, "ready");
    srv_json_bool(&j, true);
    return end_now(&j);
}

srv_outcome srv_v2_models(srv_request *req) {
    srv_json j;
    begin(&j, req);
    srv_json_key(&j, "models");
    srv_json_array(&j);
    for (size_t i = 0; i < SRV_INFER_MODELS; i++)
        srv_json_string(&j, srv_infer_models[i].name);
    srv_json_array_end(&j);
    return end_now(&j);
}

typedef struct index_body {
    uint64_t given;
    bool ready;
} index_body;

static const srv_field index_fields[] = {
    {.name = "ready", .kind = SRV_BOOL, .offset = offsetof(index_body, ready)},
    {0},
};

/* All models are always ready, so that `ready` chooses nothing; but the body, where there is one,
 * is of the protocol. */
srv_outcome srv_v2_index(srv_request *req) {
    srv_json j;
    index_body body = {.ready = false};
    if (req->body_size > 0 && !srv_decode(req, index_fields, &body))
        return SRV_DONE;
    srv_json_begin(&j, req);
    srv_json_array(&j);
    for (size_t i = 0; i < SRV_INFER_MODELS; i++) {
        srv_json_object(&j);
        put(&j, "name", srv_infer_models[i].name);
        put(&j, "version", SRV_V2_VERSION);
        put(&j, "state", "READY");
        put(&j, "reason", "");
        srv_json_object_end(&j);
    }
    srv_json_array_end(&j);
    srv_json_end(&j);
    srv_reply_header(req, "Cache-Control", "no-store");
    return SRV_DONE;
}

/* The type that an input commonly has, and how many axes. */
static const char *input_type(const srv_field *f) {
    return f->accepts & SRV_T_INT ? "INT64" : f->accepts & SRV_T_BOOL ? "BOOL" : "FP32";
}

static int input_rank(const srv_field *f, const srv_infer_model *model) {
    if (f->accepts & SRV_T_INT || strcmp(f->name, "sinks") == 0)
        return 1;
    if (strcmp(f->name, "key_padding_mask") == 0)
        return 2;
    bool main = strcmp(f->name, "query") == 0 || strcmp(f->name, "key") == 0 ||
                strcmp(f->name, "value") == 0;
    return main && model->side_by_side ? 3 : 4;
}

/* One tensor of the metadata, or of the configuration, which calls its members otherwise. */
static void put_tensor(srv_json *j, const char *name, const char *type, int rank, bool config) {
    char prefixed[24] = "TYPE_";
    strncat(prefixed, type, sizeof prefixed - 6);
    srv_json_object(j);
    put(j, "name", name);
    put(j, config ? "data_type" : "datatype", config ? prefixed : type);
    srv_json_key(j, config ? "dims" : "shape");
    srv_json_array(j);
    for (int i = 0; i < rank; i++)
        srv_json_int(j, -1);
    srv_json_array_end(j);
}

static void put_input(srv_json *j, const srv_field *f, int rank, bool config) {
    put_tensor(j, f->name, input_type(f), rank, config);
    if (config) {
        srv_json_key(j, "optional");
        srv_json_bool(j, !f->required);
    }
    srv_json_object_end(j);
}

static void put_tensors(srv_json *j, const srv_infer_model *model, bool config) {
    srv_json_key(j, config ? "input" : "inputs");
    srv_json_array(j);
    for (const srv_field *f = srv_attention_fields; f->name; f++)
        if (f->kind == SRV_TENSOR && srv_v2_takes(f->name))
            put_input(j, f, input_rank(f, model), config);
    for (const srv_field *f = model->own; f && f->name; f++)
        if (f->kind == SRV_TENSOR)
            put_input(j, f, f->name[0] == 'w' ? 2 : 1, config);
    srv_json_array_end(j);
    srv_json_key(j, config ? "output" : "outputs");
    srv_json_array(j);
    for (const srv_v2_output *o = srv_v2_outputs; o->name; o++)
        if (o->rank) {
            bool joined = model->side_by_side && strcmp(o->name, "output") == 0;
            put_tensor(j, o->name, "FP32", joined ? 3 : o->rank, config);
            srv_json_object_end(j);
        }
    srv_json_array_end(j);
}

srv_outcome srv_v2_model(srv_request *req) {
    const srv_infer_model *model = srv_v2_find(req);
    srv_json j;
    if (!model)
        return SRV_DONE;
    begin(&j, req);
    put(&j, "name", model->name);
    srv_json_key(&j, "versions");
    srv_json_raw(&j, "[\"" SRV_V2_VERSION "\"]", strlen(SRV_V2_VERSION) + 4);
    put(&j, "platform", "attnd_c");
    put_tensors(&j, model, false);
    return end(&j);
}

srv_outcome srv_v2_config(srv_request *req) {
    const srv_infer_model *model = srv_v2_find(req);
    srv_json j;
    if (!model)
        return SRV_DONE;
    begin(&j, req);
    put(&j, "name", model->name);
    put(&j, "platform", "attnd_c");
    put(&j, "backend", "attnd");
    srv_json_key(&j, "max_batch_size");
    srv_json_int(&j, 0);
    put_tensors(&j, model, true);
    return end(&j);
}

static void put_duration(srv_json *j, const char *name, int64_t count, int64_t ns) {
    srv_json_key(j, name);
    srv_json_object(j);
    srv_json_key(j, "count");
    srv_json_int(j, count);
    srv_json_key(j, "ns");
    srv_json_int(j, ns);
    srv_json_object_end(j);
}

/* Every request is computed by itself, so there is one size of batch. */
static void put_batches(srv_json *j, int64_t good, const int64_t ns[3]) {
    static const char *const names[3] = {"compute_input", "compute_infer", "compute_output"};
    srv_json_key(j, "batch_stats");
    srv_json_array(j);
    if (good > 0) {
        srv_json_object(j);
        srv_json_key(j, "batch_size");
        srv_json_int(j, 1);
        for (int i = 0; i < 3; i++)
            put_duration(j, names[i], good, ns[i]);
        srv_json_object_end(j);
    }
    srv_json_array_end(j);
}

static void put_statistics(srv_json *j, const srv_meters *m, const srv_infer_model *model) {
    int64_t values[SRV_INFER_EACH];
    for (int i = 0; i < SRV_INFER_EACH; i++)
        values[i] = srv_meter_read(
            m, srv_infer_meter(srv_v2_index_of(model), (srv_meter)(SRV_INFER_GOOD + i)));
#define OF(name) values[SRV_INFER_##name - SRV_INFER_GOOD]
    srv_json_object(j);
    put(j, "name", model->name);
    put(j, "version", SRV_V2_VERSION);
    srv_json_key(j, "last_inference");
    srv_json_int(j, OF(LAST_MS));
    srv_json_key(j, "inference_count");
    srv_json_int(j, OF(GOOD));
    srv_json_key(j, "execution_count");
    srv_json_int(j, OF(GOOD));
    srv_json_key(j, "inference_stats");
    srv_json_object(j);
    put_duration(j, "success", OF(GOOD), OF(GOOD_NS));
    put_duration(j, "fail", OF(BAD), OF(BAD_NS));
    put_duration(j, "queue", OF(GOOD), OF(QUEUE_NS));
    put_duration(j, "compute_input", OF(GOOD), OF(DECODE_NS));
    put_duration(j, "compute_infer", OF(GOOD), OF(COMPUTE_NS));
    put_duration(j, "compute_output", OF(GOOD), OF(ENCODE_NS));
    put_duration(j, "cache_hit", 0, 0);
    put_duration(j, "cache_miss", 0, 0);
    srv_json_object_end(j);
    put_batches(j, OF(GOOD), (const int64_t[3]){OF(DECODE_NS), OF(COMPUTE_NS), OF(ENCODE_NS)});
#undef OF
    srv_json_key(j, "memory_usage");
    srv_json_raw(j, "[]", 2);
    srv_json_object_end(j);
}

srv_outcome srv_v2_stats(srv_request *req) {
    const srv_infer_model *model = req->params[0] ? srv_v2_find(req) : NULL;
    srv_json j;
    if (req->params[0] && !model)
        return SRV_DONE;
    begin(&j, req);
    srv_json_key(&j, "model_stats");
    srv_json_array(&j);
    for (size_t i = 0; i < SRV_INFER_MODELS; i++)
        if (!model || i == srv_v2_index_of(model))
            put_statistics(&j, req->app->meters, &srv_infer_models[i]);
    srv_json_array_end(&j);
    return end_now(&j);
}
