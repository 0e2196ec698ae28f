/* The Open Inference Protocol under /v2: metadata of the server and the models, health,
 * configuration, statistics, the index of the repository, and inference.
 *
 * Inference: an infer request is rewritten as a decoded body of POST /v1/attention. The handler of
 * that route computes the answer and leaves its tensors as parts (wire/container.h), which become
 * the outputs of the inference. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/attention/attention_api.h"
#include "api/common/form_input.h"
#include "api/service/service_api.h"
#include "api/service/v2_model.h"
#include "request/shared.h"
#include "system/clock.h"
#include "wire/infer.h"
#include "wire/json_out.h"
#include "wire/scan.h"

typedef struct srv_v2_output {
    const char *name;
    const char *item; /* the output's name in `return` of /v1/attention */
    /* Number of axes in the metadata. 0: the metadata does not list the output, but it is answered
     * if asked for. 4 stands for 3 in models with side_by_side. */
    int rank;
} srv_v2_output;

/* Ended by a row whose name is NULL. */
static const srv_v2_output outputs[] = {
    {"output", "output", 4},         {"weights", "weights", 4},
    {"logsumexp", "logsumexp", 3},   {"weights_dropped", "weights_dropped", 0},
    {"scores", "scores", 0},         {"present_key", "present", 0},
    {"present_value", "present", 0}, {0},
};

const srv_infer_model srv_infer_models[SRV_INFER_MODELS] = {
    {"scaled_dot_product_attention", NULL, NULL, false},
    {"multi_head_attention", "projections", SRV_PROJECTIONS_V2, true},
};

/* Returns whether the field of /v1/attention is an input. grad_output is not, because gradients are
 * not among the outputs. */
static bool takes_input(const char *input) {
    return strcmp(input, "grad_output") != 0;
}

/* Returns the model's index in srv_infer_models. */
static size_t index_of(const srv_infer_model *model) {
    return (size_t)(model - srv_infer_models);
}

/* Returns the model that the path names, and checks the version if the path has one. NULL: a
 * problem is set. */
static const srv_infer_model *find_model(srv_request *req) {
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

static srv_outcome reply_constant(srv_request *req, const char *json) {
    srv_reply_set(req, 200, "application/json", json, strlen(json));
    srv_reply_header(req, "Cache-Control", "no-store");
    return SRV_DONE;
}

srv_outcome srv_v2_live(srv_request *req) {
    return reply_constant(req, "{\"live\":true}\n");
}

srv_outcome srv_v2_ready(srv_request *req) {
    return srv_is_ready(req) ? reply_constant(req, "{\"live\":true,\"ready\":true}\n") : SRV_DONE;
}

static srv_outcome end_document(attn_json_text *j) {
    srv_json_object_end(j);
    return SRV_DONE;
}

srv_outcome srv_v2_server(srv_request *req) {
    static const char *const extensions[] = {"binary_tensor_data", "model_configuration",
                                             "parameters", "schedule_policy", "statistics"};
    attn_json_text j = srv_json_object(req);
    attn_json_key_string(&j, "name", "attnd");
    attn_json_key_string(&j, "version", attn_version());
    attn_json_key_strings(&j, "extensions", extensions, sizeof extensions / sizeof *extensions);
    return end_document(&j);
}

/* Ends an answer that must not be cached, because it changes while the service runs. */
static srv_outcome end_uncached(attn_json_text *j) {
    end_document(j);
    srv_reply_header(srv_json_request(j), "Cache-Control", "no-store");
    return SRV_DONE;
}

srv_outcome srv_v2_model_ready(srv_request *req) {
    const srv_infer_model *model = find_model(req);
    if (!model || !srv_is_ready(req))
        return SRV_DONE;
    attn_json_text j = srv_json_object(req);
    attn_json_key_string(&j, "name", model->name);
    attn_json_key_bool(&j, "ready", true);
    return end_uncached(&j);
}

srv_outcome srv_v2_models(srv_request *req) {
    attn_json_text j = srv_json_object(req);
    attn_json_key_array(&j, "models");
    for (size_t i = 0; i < SRV_INFER_MODELS; i++)
        attn_json_string(&j, srv_infer_models[i].name);
    attn_json_array_end(&j);
    return end_uncached(&j);
}

typedef struct index_body {
    uint64_t given;
    bool ready;
} index_body;

static const srv_field index_fields[] = {
    SRV_BOOL_ROW(index_body, ready, NULL),
    {0},
};

/* Lists all models. The protocol's field `ready` has no effect, because all models are always
 * ready; a body with an unknown field is refused nevertheless. */
srv_outcome srv_v2_index(srv_request *req) {
    attn_json_text j;
    index_body body = {.ready = false};
    if (req->body_size > 0 && !srv_decode(req, index_fields, &body))
        return SRV_DONE;
    srv_json_begin(&j, req);
    attn_json_array(&j);
    for (size_t i = 0; i < SRV_INFER_MODELS; i++) {
        attn_json_object(&j);
        attn_json_key_string(&j, "name", srv_infer_models[i].name);
        attn_json_key_string(&j, "version", SRV_V2_VERSION);
        attn_json_key_string(&j, "state", "READY");
        attn_json_key_string(&j, "reason", "");
        attn_json_object_end(&j);
    }
    attn_json_array_end(&j);
    srv_json_end(&j);
    srv_reply_header(req, "Cache-Control", "no-store");
    return SRV_DONE;
}

/* Returns the usual data type of an input. */
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

/* Begins the description of a tensor. `config` says for which document: the metadata or the
 * configuration of a model, whose members have different names. */
static void put_tensor(attn_json_text *j, const char *name, const char *type, int rank,
                       bool config) {
    char prefixed[24] = "TYPE_";
    strncat(prefixed, type, sizeof prefixed - 6);
    attn_json_object(j);
    attn_json_key_string(j, "name", name);
    attn_json_key_string(j, config ? "data_type" : "datatype", config ? prefixed : type);
    attn_json_key_array(j, config ? "dims" : "shape");
    for (int i = 0; i < rank; i++)
        attn_json_int(j, -1);
    attn_json_array_end(j);
}

static void put_input(attn_json_text *j, const srv_field *f, int rank, bool config) {
    put_tensor(j, f->name, input_type(f), rank, config);
    if (config)
        attn_json_key_bool(j, "optional", !f->required);
    attn_json_object_end(j);
}

static void put_tensors(attn_json_text *j, const srv_infer_model *model, bool config) {
    attn_json_key_array(j, config ? "input" : "inputs");
    for (const srv_field *f = srv_attention_fields; f->name; f++)
        if (f->kind == SRV_TENSOR && takes_input(f->name))
            put_input(j, f, input_rank(f, model), config);
    for (const srv_field *f = model->own; f && f->name; f++)
        if (f->kind == SRV_TENSOR)
            put_input(j, f, f->name[0] == 'w' ? 2 : 1, config);
    attn_json_array_end(j);
    attn_json_key_array(j, config ? "output" : "outputs");
    for (const srv_v2_output *o = outputs; o->name; o++)
        if (o->rank) {
            bool joined = model->side_by_side && strcmp(o->name, "output") == 0;
            put_tensor(j, o->name, "FP32", joined ? 3 : o->rank, config);
            attn_json_object_end(j);
        }
    attn_json_array_end(j);
}

srv_outcome srv_v2_model(srv_request *req) {
    const srv_infer_model *model = find_model(req);
    if (!model)
        return SRV_DONE;
    attn_json_text j = srv_json_object(req);
    attn_json_key_string(&j, "name", model->name);
    attn_json_key(&j, "versions");
    attn_json_raw(&j, "[\"" SRV_V2_VERSION "\"]", strlen(SRV_V2_VERSION) + 4);
    attn_json_key_string(&j, "platform", "attnd_c");
    put_tensors(&j, model, false);
    return end_document(&j);
}

srv_outcome srv_v2_config(srv_request *req) {
    const srv_infer_model *model = find_model(req);
    if (!model)
        return SRV_DONE;
    attn_json_text j = srv_json_object(req);
    attn_json_key_string(&j, "name", model->name);
    attn_json_key_string(&j, "platform", "attnd_c");
    attn_json_key_string(&j, "backend", "attnd");
    attn_json_key_int(&j, "max_batch_size", 0);
    put_tensors(&j, model, true);
    return end_document(&j);
}

static void put_duration(attn_json_text *j, const char *name, int64_t count, int64_t ns) {
    attn_json_key_object(j, name);
    attn_json_key_int(j, "count", count);
    attn_json_key_int(j, "ns", ns);
    attn_json_object_end(j);
}

/* Writes the batch statistics. Every request is computed by itself, so the only batch size is 1. */
static void put_batches(attn_json_text *j, int64_t good, const int64_t ns[3]) {
    static const char *const names[3] = {"compute_input", "compute_infer", "compute_output"};
    attn_json_key_array(j, "batch_stats");
    if (good > 0) {
        attn_json_object(j);
        attn_json_key_int(j, "batch_size", 1);
        for (int i = 0; i < 3; i++)
            put_duration(j, names[i], good, ns[i]);
        attn_json_object_end(j);
    }
    attn_json_array_end(j);
}

static void put_statistics(attn_json_text *j, const srv_meters *m, const srv_infer_model *model) {
    int64_t values[SRV_INFER_EACH];
    for (int i = 0; i < SRV_INFER_EACH; i++)
        values[i] =
            srv_meter_read(m, srv_infer_meter(index_of(model), (srv_meter)(SRV_INFER_GOOD + i)));
#define OF(name) values[SRV_INFER_##name - SRV_INFER_GOOD]
    attn_json_object(j);
    attn_json_key_string(j, "name", model->name);
    attn_json_key_string(j, "version", SRV_V2_VERSION);
    attn_json_key_int(j, "last_inference", OF(LAST_MS));
    attn_json_key_int(j, "inference_count", OF(GOOD));
    attn_json_key_int(j, "execution_count", OF(GOOD));
    attn_json_key_object(j, "inference_stats");
    put_duration(j, "success", OF(GOOD), OF(GOOD_NS));
    put_duration(j, "fail", OF(BAD), OF(BAD_NS));
    put_duration(j, "queue", OF(GOOD), OF(QUEUE_NS));
    put_duration(j, "compute_input", OF(GOOD), OF(DECODE_NS));
    put_duration(j, "compute_infer", OF(GOOD), OF(COMPUTE_NS));
    put_duration(j, "compute_output", OF(GOOD), OF(ENCODE_NS));
    put_duration(j, "cache_hit", 0, 0);
    put_duration(j, "cache_miss", 0, 0);
    attn_json_object_end(j);
    put_batches(j, OF(GOOD), (const int64_t[3]){OF(DECODE_NS), OF(COMPUTE_NS), OF(ENCODE_NS)});
#undef OF
    attn_json_key(j, "memory_usage");
    attn_json_raw(j, "[]", 2);
    attn_json_object_end(j);
}

srv_outcome srv_v2_stats(srv_request *req) {
    const srv_infer_model *model = req->params[0] ? find_model(req) : NULL;
    if (req->params[0] && !model)
        return SRV_DONE;
    attn_json_text j = srv_json_object(req);
    attn_json_key_array(&j, "model_stats");
    for (size_t i = 0; i < SRV_INFER_MODELS; i++)
        if (!model || i == index_of(model))
            put_statistics(&j, req->app->meters, &srv_infer_models[i]);
    attn_json_array_end(&j);
    return end_uncached(&j);
}

/* --- inference --- */

static const srv_v2_output *find_output(const char *name) {
    for (const srv_v2_output *o = outputs; o->name; o++)
        if (strcmp(o->name, name) == 0)
            return o;
    return NULL;
}

/* Chooses the outputs to answer: those that are asked for, or by default those of the metadata.
 * false: a problem is set. */
static bool choose_outputs(srv_request *req, const srv_infer *in, const char **names,
                           size_t *count) {
    *count = 0;
    for (size_t i = 0; i < in->output_count; i++) {
        char pointer[48];
        if (find_output(in->outputs[i].name)) {
            names[(*count)++] = in->outputs[i].name;
            continue;
        }
        snprintf(pointer, sizeof pointer, "/outputs/%zu/name", i);
        return srv_problem(
            req, SRV_VALUE, pointer,
            "expected output, weights, logsumexp, weights_dropped, scores, present_key or "
            "present_value, found \"%.80s\"",
            in->outputs[i].name);
    }
    for (const srv_v2_output *o = outputs; in->output_count == 0 && o->name; o++)
        if (o->rank)
            names[(*count)++] = o->name;
    return true;
}

/* Writes the items of `return`: "output","weights",… */
static void add_items(attn_text *text, const char *const *names, size_t count) {
    bool present = false;
    for (size_t i = 0; i < count; i++) {
        const char *item = find_output(names[i])->item;
        const bool both = strcmp(item, "present") == 0; /* outputs are one item */
        if (!both || !present)
            attn_text_add(text, "%s\"%s\"", i ? "," : "", item);
        present = present || both;
    }
}

static bool no_memory(srv_request *req) {
    return srv_problem_limit(req, SRV_TOO_LARGE, NULL, (double)attn_arena_limit(req->arena),
                             "max_request_bytes", "no memory for the parameters is left");
}

/* A body of /v1/attention, with the /v2 model for which it was made. */
typedef struct model_form {
    srv_decoded_body form;
    const srv_infer_model *model;
    const char *const *types; /* data types of the tensors in `form` */
} model_form;

/* The tensor "score.w" stands at the JSON pointer "/score/w". `behind` false: returns whether
 * `pointer` is this place or a place inside the tensor. `behind` true: returns whether the tensor's
 * place is `pointer` or a place inside of what `pointer` names. */
static bool is_at(const char *pointer, const char *name, bool behind) {
    attn_path path = {.size = 0};
    for (size_t n; n = strcspn(name, "."), attn_path_key(&path, name, n), name[n]; name += n + 1)
        ;
    size_t n = behind ? strlen(pointer) : path.size;
    const char *end = behind ? path.text : pointer;
    return strncmp(pointer, path.text, n) == 0 && strchr("/", end[n]);
}

static bool find_tensor(const model_form *form, const char *pointer, bool behind, srv_origin *out) {
    const attn_named_tensor *t = form->form.tensors;
    size_t i = 0, own = form->model->object ? strlen(form->model->object) : 0;
    while (i < form->form.count && !is_at(pointer, t[i].name, behind))
        i++;
    if (i == form->form.count)
        return false;
    snprintf(out->pointer, sizeof out->pointer, "/inputs/%zu", i);
    bool inside = own && strncmp(t[i].name, form->model->object, own) == 0 && t[i].name[own] == '.';
    out->name = t[i].name + (inside ? own + 1 : 0);
    out->type = form->types[i];
    return true;
}

/* The `place` of the decoded body: finds the input or parameter of the infer request from which the
 * value at `pointer` in the body of /v1/attention was made. For a place inside a parameter the
 * parameter itself is the result, because the client sent it as a text. */
static void find_origin(const srv_decoded_body *of, const char *pointer, srv_origin *out) {
    const model_form *form = (const model_form *)(const void *)of;
    const char *object = form->model->object, *step = pointer + 1;
    const srv_field *fields = srv_attention_fields;
    size_t n = *pointer ? strcspn(step, "/") : 0;
    *out = (srv_origin){.name = NULL};
    if (!*pointer || strncmp(pointer, "/inputs/", 8) == 0) {
        snprintf(out->pointer, sizeof out->pointer, "%s", pointer);
        return;
    }
    if (find_tensor(form, pointer, false, out))
        return;
    if (object && strlen(object) == n && memcmp(step, object, n) == 0) {
        fields = form->model->own;
        step += n + (step[n] == '/');
        n = strcspn(step, "/");
    }
    const srv_field *row = srv_find_field(fields, step, n);
    if (!row && n > 0 && find_tensor(form, pointer, true, out))
        return;
    if (row && strcmp(row->name, "return") == 0)
        snprintf(out->pointer, sizeof out->pointer, "/outputs");
    else
        snprintf(out->pointer, sizeof out->pointer, "/parameters%s%.*s", n ? "/" : "", (int)n,
                 step);
}

/* Makes the decoded body of /v1/attention, whose JSON is {"return":[outputs], parameters,
 * "object":{own parameters}}. The last member exists only if the model has an object. */
static bool make_form(srv_request *req, const srv_infer_model *model, const srv_infer *in,
                      const char *const *names, size_t count, model_form *out) {
    attn_text text = {.arena = req->arena};
    attn_text_add(&text, "{\"return\":[");
    add_items(&text, names, count);
    attn_text_add(&text, "]");
    if (in->fields.size)
        attn_text_bytes(&text, in->fields.data, in->fields.size);
    if (model->object) {
        attn_text_add(&text, ",\"%s\":{", model->object);
        if (in->own.size) /* without the first comma */
            attn_text_bytes(&text, in->own.data + 1, in->own.size - 1);
        attn_text_add(&text, "}");
    }
    attn_text_add(&text, "}");
    if (text.failed)
        return no_memory(req);
    *out = (model_form){{.text = text.data,
                         .size = text.size,
                         .tensors = in->inputs,
                         .count = in->input_count,
                         .beyond = in->beyond,
                         .place = find_origin},
                        model,
                        in->types};
    return true;
}

static bool check_inputs(srv_request *req, const srv_infer *in) {
    char pointer[32];
    for (size_t i = 0; i < in->input_count; i++) {
        if (takes_input(in->inputs[i].name))
            continue;
        snprintf(pointer, sizeof pointer, "/inputs/%zu", i);
        return srv_problem(req, SRV_BAD_REQUEST, pointer,
                           "\"%s\" is no input here: POST /v1/attention answers gradients",
                           in->inputs[i].name);
    }
    return true;
}

/* Renames inputs that belong to the model's own object: "w_q" becomes "projections.w_q". */
static bool place_inputs(srv_request *req, const srv_infer_model *model, srv_infer *in) {
    for (size_t i = 0; i < in->input_count; i++)
        for (const srv_field *f = model->own; f && f->name; f++) {
            char name[64];
            if (f->kind != SRV_TENSOR || strcmp(f->name, in->inputs[i].name) != 0)
                continue;
            int n = snprintf(name, sizeof name, "%s.%s", model->object, f->name);
            in->inputs[i].name = attn_arena_text(req->arena, name, (size_t)n);
            if (!in->inputs[i].name)
                return no_memory(req);
            break;
        }
    return true;
}

static void apply_timeout(srv_request *req, int64_t timeout_us) {
    int64_t most = (INT64_MAX - req->start_ns) / 1000;
    if (timeout_us > 0)
        srv_request_finish_by(req, req->start_ns + (timeout_us < most ? timeout_us : most) * 1000);
}

static srv_outcome answer_inference(srv_request *req, const srv_infer_model *model) {
    const char *names[SRV_INFER_OUTPUTS];
    srv_infer in;
    model_form form;
    srv_parts parts = {0};
    size_t count;
    int64_t start = attn_now_ns();
    if (!srv_infer_read(req, (size_t)req->app->config->max_json_depth, model->own, &in) ||
        !choose_outputs(req, &in, names, &count) || !check_inputs(req, &in) ||
        !place_inputs(req, model, &in) || !make_form(req, model, &in, names, count, &form))
        return SRV_DONE;
    apply_timeout(req, in.timeout_us);
    int64_t read = attn_now_ns() - start;
    req->decoded_body = &form.form;
    req->parts = &parts;
    srv_outcome outcome = srv_attention(req);
    req->decoded_body = NULL;
    req->parts = NULL;
    req->decode_ns += read;
    if (outcome == SRV_DEFER || req->reply.status != 200)
        return outcome;
    start = attn_now_ns();
    srv_infer_reply(req, &in, model->name, SRV_V2_VERSION, names, count, &parts);
    req->encode_ns += attn_now_ns() - start;
    return SRV_DONE;
}

static void count_inference(const srv_request *req, size_t model) {
    srv_meters *m = req->app->meters;
    int64_t total = attn_now_ns() - req->start_ns;
    bool good = req->reply.status == 200;
    srv_meter_add(m, srv_infer_meter(model, good ? SRV_INFER_GOOD : SRV_INFER_BAD), 1);
    srv_meter_add(m, srv_infer_meter(model, good ? SRV_INFER_GOOD_NS : SRV_INFER_BAD_NS), total);
    if (!good)
        return;
    srv_meter_add(m, srv_infer_meter(model, SRV_INFER_QUEUE_NS), req->queued_ns);
    srv_meter_add(m, srv_infer_meter(model, SRV_INFER_DECODE_NS), req->decode_ns);
    srv_meter_add(m, srv_infer_meter(model, SRV_INFER_COMPUTE_NS), req->compute_ns);
    srv_meter_add(m, srv_infer_meter(model, SRV_INFER_ENCODE_NS), req->encode_ns);
    srv_meter_set(m, srv_infer_meter(model, SRV_INFER_LAST_MS),
                  srv_clock_ns(CLOCK_REALTIME) / 1000000);
}

srv_outcome srv_v2_infer(srv_request *req) {
    const srv_infer_model *model = find_model(req);
    if (!model)
        return SRV_DONE;
    srv_outcome outcome = answer_inference(req, model);
    /* A request that needs a larger arena than it has on the HTTP thread runs again on a request
     * thread, and is counted there. */
    if (outcome == SRV_DONE && !(req->in_place && srv_problem_is_memory(req)))
        count_inference(req, index_of(model));
    return outcome;
}
