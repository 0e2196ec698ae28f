/* /v2, the Open Inference Protocol: server and model metadata, health, configuration, statistics
 * and the repository's index. Inference itself is in v2_infer.c. */
#include <string.h>
#include <time.h>

#include "api/handlers.h"
#include "api/route_fields.h"
#include "api/v2_model.h"
#include "app.h"
#include "wire/infer.h"
#include "wire/json_out.h"

const srv_v2_output srv_v2_outputs[] = {
    {"output", "output", 4},         {"weights", "weights", 4},
    {"logsumexp", "logsumexp", 3},   {"weights_dropped", "weights_dropped", 0},
    {"scores", "scores", 0},         {"present_key", "present", 0},
    {"present_value", "present", 0}, {0},
};

bool srv_v2_find(srv_request *req) {
    const char *model = req->params[0], *version = req->params[1];
    req->only_400 = true;
    if (strcmp(model, SRV_V2_MODEL) != 0)
        srv_problem(req, SRV_NOT_FOUND, NULL, "there is no model \"%.80s\"; there is \"%s\"", model,
                    SRV_V2_MODEL);
    else if (version && strcmp(version, SRV_V2_VERSION) != 0)
        srv_problem(req, SRV_NOT_FOUND, NULL, "model \"%s\" has version \"%s\", not \"%.40s\"",
                    SRV_V2_MODEL, SRV_V2_VERSION, version);
    else
        return true;
    return false;
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

srv_outcome srv_v2_model_ready(srv_request *req) {
    if (!srv_v2_find(req) || is_draining(req))
        return SRV_DONE;
    return say(req, "{\"name\":\"" SRV_V2_MODEL "\",\"ready\":true}\n");
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

srv_outcome srv_v2_models(srv_request *req) {
    return say(req, "{\"models\":[\"" SRV_V2_MODEL "\"]}\n");
}

srv_outcome srv_v2_index(srv_request *req) {
    return say(req, "[{\"name\":\"" SRV_V2_MODEL "\",\"version\":\"" SRV_V2_VERSION
                    "\",\"state\":\"READY\",\"reason\":\"\"}]\n");
}

/* The type that an input commonly has, and how many axes. */
static const char *input_type(const srv_field *f) {
    return f->accepts & SRV_T_INT ? "INT64" : f->accepts & SRV_T_BOOL ? "BOOL" : "FP32";
}

static int input_rank(const srv_field *f) {
    return f->accepts & SRV_T_INT || strcmp(f->name, "sinks") == 0 ? 1
           : strcmp(f->name, "key_padding_mask") == 0              ? 2
                                                                   : 4;
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
    srv_json_object_end(j);
}

static void put_tensors(srv_json *j, bool config) {
    srv_json_key(j, config ? "input" : "inputs");
    srv_json_array(j);
    for (const srv_field *f = srv_attention_fields; f->name; f++)
        if (f->kind == SRV_TENSOR)
            put_tensor(j, f->name, input_type(f), input_rank(f), config);
    srv_json_array_end(j);
    srv_json_key(j, config ? "output" : "outputs");
    srv_json_array(j);
    for (const srv_v2_output *o = srv_v2_outputs; o->name; o++)
        if (o->rank)
            put_tensor(j, o->name, "FP32", o->rank, config);
    srv_json_array_end(j);
}

srv_outcome srv_v2_model(srv_request *req) {
    srv_json j;
    if (!srv_v2_find(req))
        return SRV_DONE;
    begin(&j, req);
    put(&j, "name", SRV_V2_MODEL);
    srv_json_key(&j, "versions");
    srv_json_raw(&j, "[\"" SRV_V2_VERSION "\"]", strlen(SRV_V2_VERSION) + 4);
    put(&j, "platform", "attnd_c");
    put_tensors(&j, false);
    return end(&j);
}

srv_outcome srv_v2_config(srv_request *req) {
    srv_json j;
    if (!srv_v2_find(req))
        return SRV_DONE;
    begin(&j, req);
    put(&j, "name", SRV_V2_MODEL);
    put(&j, "platform", "attnd_c");
    put(&j, "backend", "attnd");
    srv_json_key(&j, "max_batch_size");
    srv_json_int(&j, 0);
    put_tensors(&j, true);
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

static void put_statistics(srv_json *j, const srv_meters *m) {
    int64_t good = srv_meter_read(m, SRV_INFER_GOOD);
    srv_json_object(j);
    put(j, "name", SRV_V2_MODEL);
    put(j, "version", SRV_V2_VERSION);
    srv_json_key(j, "last_inference");
    srv_json_int(j, srv_meter_read(m, SRV_INFER_LAST_MS));
    srv_json_key(j, "inference_count");
    srv_json_int(j, good);
    srv_json_key(j, "execution_count");
    srv_json_int(j, good);
    srv_json_key(j, "inference_stats");
    srv_json_object(j);
    put_duration(j, "success", good, srv_meter_read(m, SRV_INFER_GOOD_NS));
    put_duration(j, "fail", srv_meter_read(m, SRV_INFER_BAD), srv_meter_read(m, SRV_INFER_BAD_NS));
    put_duration(j, "queue", good, srv_meter_read(m, SRV_INFER_QUEUE_NS));
    put_duration(j, "compute_input", good, srv_meter_read(m, SRV_INFER_DECODE_NS));
    put_duration(j, "compute_infer", good, srv_meter_read(m, SRV_INFER_COMPUTE_NS));
    put_duration(j, "compute_output", good, srv_meter_read(m, SRV_INFER_ENCODE_NS));
    put_duration(j, "cache_hit", 0, 0);
    put_duration(j, "cache_miss", 0, 0);
    srv_json_object_end(j);
    srv_json_key(j, "batch_stats");
    srv_json_raw(j, "[]", 2);
    srv_json_key(j, "memory_usage");
    srv_json_raw(j, "[]", 2);
    srv_json_object_end(j);
}

srv_outcome srv_v2_stats(srv_request *req) {
    srv_json j;
    if (req->params[0] && !srv_v2_find(req))
        return SRV_DONE;
    begin(&j, req);
    srv_json_key(&j, "model_stats");
    srv_json_array(&j);
    put_statistics(&j, req->app->meters);
    srv_json_array_end(&j);
    end(&j);
    srv_reply_header(req, "Cache-Control", "no-store");
    return SRV_DONE;
}
