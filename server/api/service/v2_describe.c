/* The Open Inference Protocol under /v2: metadata of the server and the models, health,
 * configuration, statistics, and the index of the repository. */
#include <stddef.h>
#include <string.h>

#include "api/attention/attention_api.h"
#include "api/common/form_input.h"
#include "api/service/service_api.h"
#include "api/service/v2_model.h"
#include "request/shared.h"
#include "wire/json_out.h"

const srv_v2_output srv_v2_outputs[] = {
    {"output", "output", 4},         {"weights", "weights", 4},
    {"logsumexp", "logsumexp", 3},   {"weights_dropped", "weights_dropped", 0},
    {"scores", "scores", 0},         {"present_key", "present", 0},
    {"present_value", "present", 0}, {0},
};

const srv_infer_model srv_infer_models[SRV_INFER_MODELS] = {
    {"scaled_dot_product_attention", NULL, NULL, false},
    {"multi_head_attention", "projections", SRV_PROJECTIONS_V2, true},
};

bool srv_v2_takes_input(const char *input) {
    return strncmp(input, "grad_", strlen("grad_")) != 0;
}

size_t srv_v2_model_index(const srv_infer_model *model) {
    return (size_t)(model - srv_infer_models);
}

const srv_infer_model *srv_v2_find_model(srv_request *req) {
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

/* Sets the reply. Forbids clients to cache it, because it changes while the service runs. */
static srv_outcome reply_uncached(srv_request *req, const srv_field *rows, const void *answer) {
    if (srv_answer_reply(req, rows, answer))
        srv_reply_header(req, "Cache-Control", "no-store");
    return SRV_DONE;
}

/* --- the server --- */

/* The metadata and the state of the server or of a model. */
typedef struct state_answer {
    const char *name, *version;
    srv_strings extensions;
    bool live, ready;
} state_answer;

static const srv_field live_rows[] = {
    SRV_ALWAYS("live", SRV_BOOL, state_answer, live, "true as long as it answers."), {0}};
static const srv_field ready_rows[] = {
    SRV_GROUP("", live_rows, NULL, .always = true),
    SRV_ALWAYS("ready", SRV_BOOL, state_answer, ready, "Whether it takes requests."),
    {0},
};
static const srv_field model_ready_rows[] = {
    SRV_ALWAYS("name", SRV_STRING, state_answer, name, "The name of the model."),
    SRV_ALWAYS("ready", SRV_BOOL, state_answer, ready, "Whether it takes requests."),
    {0},
};
static const srv_field server_rows[] = {
    SRV_ALWAYS("name", SRV_STRING, state_answer, name, "The name of the server."),
    SRV_ALWAYS("version", SRV_STRING, state_answer, version, "Its version."),
    SRV_ALWAYS("extensions", SRV_STRINGS, state_answer, extensions,
               "The extensions of the protocol that it has."),
    {0},
};

srv_outcome srv_v2_live(srv_request *req) {
    return reply_uncached(req, live_rows, &(state_answer){.live = true});
}

srv_outcome srv_v2_ready(srv_request *req) {
    return srv_is_ready(req)
               ? reply_uncached(req, ready_rows, &(state_answer){.live = true, .ready = true})
               : SRV_DONE;
}

srv_outcome srv_v2_server(srv_request *req) {
    static const char *extensions[] = {"binary_tensor_data", "model_configuration", "parameters",
                                       "schedule_policy", "statistics"};
    srv_answer_reply(
        req, server_rows,
        &(state_answer){.name = "attnd",
                        .version = attn_version(),
                        .extensions = {extensions, sizeof extensions / sizeof *extensions}});
    return SRV_DONE;
}

srv_outcome srv_v2_model_ready(srv_request *req) {
    const srv_infer_model *model = srv_v2_find_model(req);
    return model && srv_is_ready(req)
               ? reply_uncached(req, model_ready_rows,
                                &(state_answer){.name = model->name, .ready = true})
               : SRV_DONE;
}

/* --- the models --- */

static void put_names(attn_json_text *j, const void *unused) {
    (void)unused;
    attn_json_array(j);
    for (size_t i = 0; i < SRV_INFER_MODELS; i++)
        attn_json_string(j, srv_infer_models[i].name);
    attn_json_array_end(j);
}

static const srv_field models_rows[] = {
    SRV_WRITTEN("models", "[string]", put_names, "The names of the models.", .always = true), {0}};

srv_outcome srv_v2_models(srv_request *req) {
    return reply_uncached(req, models_rows, req);
}

/* The body of the index. The protocol's field `ready` has no effect, because all models are always
 * ready. The body is decoded to refuse unknown fields. */
typedef struct index_body {
    srv_given_bits given;
    bool ready;
} index_body;

static const srv_field index_fields[] = {
    SRV_BOOL_ROW(index_body, ready, "Whether to list only models that are ready; all of them are.",
                 .type = "boolean?"),
    {0},
};

/* An entry of the index of models. */
typedef struct index_entry {
    const char *name, *version, *state, *reason;
} index_entry;

static const char *const states[] = {"READY", "UNAVAILABLE", NULL};
static const srv_field entry_rows[] = {
    SRV_ALWAYS("name", SRV_STRING, index_entry, name, "The name of the model."),
    SRV_ALWAYS("version", SRV_STRING, index_entry, version, "Its version."),
    SRV_ALWAYS("state", SRV_STRING, index_entry, state, "Whether it takes requests.",
               .choices = states),
    SRV_ALWAYS("reason", SRV_STRING, index_entry, reason, "Why it does not."),
    {0},
};

srv_outcome srv_v2_index(srv_request *req) {
    attn_json_text j;
    index_body body = {.ready = false};
    if (req->body_size > 0 && !srv_decode(req, index_fields, &body))
        return SRV_DONE;
    srv_json_begin(&j, req);
    attn_json_array(&j);
    for (size_t i = 0; i < SRV_INFER_MODELS; i++)
        srv_answer_object(&j, entry_rows,
                          &(index_entry){srv_infer_models[i].name, SRV_V2_VERSION, states[0], ""});
    attn_json_array_end(&j);
    srv_json_end(&j);
    srv_reply_header(req, "Cache-Control", "no-store");
    return SRV_DONE;
}

/* Returns the data type of an input in the metadata. Clients may also send the input in other
 * types. */
static const char *input_type(const srv_field *f) {
    return f->accepts & SRV_T_INT ? "INT64" : f->accepts & SRV_T_BOOL ? "BOOL" : "FP32";
}

static int input_rank(const srv_field *f, const srv_infer_model *model) {
    if (f->accepts & SRV_T_INT || strcmp(f->name, "sinks") == 0 || strcmp(f->name, "scale") == 0)
        return 1;
    if (strcmp(f->name, "key_padding_mask") == 0)
        return 2;
    bool main = strcmp(f->name, "query") == 0 || strcmp(f->name, "key") == 0 ||
                strcmp(f->name, "value") == 0;
    return main && model->side_by_side ? 3 : 4;
}

/* A tensor of a model, as the metadata and the configuration of the model describe it. */
typedef struct tensor_answer {
    const char *name, *type;
    char prefixed[24]; /* "TYPE_" followed by the type */
    int rank;
    bool optional;
} tensor_answer;

static void put_dims(attn_json_text *j, const void *rank) {
    attn_json_array(j);
    for (int i = 0; i < *(const int *)rank; i++)
        attn_json_int(j, -1);
    attn_json_array_end(j);
}

#define NAME_ROW SRV_ALWAYS("name", SRV_STRING, tensor_answer, name, "The name of the tensor.")
#define DIMS_ROW(name)                                                                             \
    SRV_WRITTEN_AT(name, "[integer+-1]", put_dims, tensor_answer, rank,                            \
                   "The length of each axis; -1: any.", .always = true)
#define CONFIGURED_ROWS                                                                            \
    NAME_ROW,                                                                                      \
        SRV_ALWAYS("data_type", SRV_CHARS, tensor_answer, prefixed, "The type of its elements."),  \
        DIMS_ROW("dims")

static const srv_field metadata_rows[] = {
    NAME_ROW,
    SRV_ALWAYS("datatype", SRV_STRING, tensor_answer, type, "The type of its elements."),
    DIMS_ROW("shape"),
    {0},
};
static const srv_field configured_rows[] = {CONFIGURED_ROWS, {0}};
static const srv_field configured_input_rows[] = {
    CONFIGURED_ROWS,
    SRV_IF_KNOWN("optional", SRV_BOOL, tensor_answer, optional, "Whether it may be left out."),
    {0},
};

static void put_tensor(attn_json_text *j, const srv_field *rows, const char *name, const char *type,
                       int rank, bool optional) {
    tensor_answer tensor = {name, type, "TYPE_", rank, optional};
    strncat(tensor.prefixed, type, sizeof tensor.prefixed - 6);
    srv_answer_object(j, rows, &tensor);
}

static void put_inputs_as(attn_json_text *j, const srv_infer_model *model, const srv_field *rows) {
    attn_json_array(j);
    for (const srv_field *f = srv_attention_fields; f->name; f++)
        if (srv_tensor_types(f) && srv_v2_takes_input(f->name))
            put_tensor(j, rows, f->name, input_type(f), input_rank(f, model), !f->required);
    for (const srv_field *f = model->own; f && f->name; f++)
        if (f->kind == SRV_TENSOR)
            put_tensor(j, rows, f->name, input_type(f), f->name[0] == 'w' ? 2 : 1, !f->required);
    attn_json_array_end(j);
}

static void put_outputs_as(attn_json_text *j, const srv_infer_model *model, const srv_field *rows) {
    attn_json_array(j);
    for (const srv_v2_output *o = srv_v2_outputs; o->name; o++)
        if (o->rank) {
            const bool joined = model->side_by_side && strcmp(o->name, "output") == 0;
            put_tensor(j, rows, o->name, "FP32", joined ? 3 : o->rank, false);
        }
    attn_json_array_end(j);
}

static void put_inputs(attn_json_text *j, const void *model) {
    put_inputs_as(j, model, metadata_rows);
}

static void put_outputs(attn_json_text *j, const void *model) {
    put_outputs_as(j, model, metadata_rows);
}

static void put_configured_inputs(attn_json_text *j, const void *model) {
    put_inputs_as(j, model, configured_input_rows);
}

static void put_configured_outputs(attn_json_text *j, const void *model) {
    put_outputs_as(j, model, configured_rows);
}

static void put_versions(attn_json_text *j, const void *model) {
    static const char *const versions[] = {SRV_V2_VERSION};
    (void)model;
    attn_json_strings(j, versions, 1);
}

static void put_platform(attn_json_text *j, const void *model) {
    (void)model;
    attn_json_string(j, "attnd_c");
}

static void put_backend(attn_json_text *j, const void *model) {
    (void)model;
    attn_json_string(j, "attnd");
}

static void put_zero(attn_json_text *j, const void *model) {
    (void)model;
    attn_json_int(j, 0);
}

#define MODEL_NAME_ROW                                                                             \
    SRV_ALWAYS("name", SRV_STRING, srv_infer_model, name, "The name of the model.")
#define PLATFORM_ROW                                                                               \
    SRV_WRITTEN("platform", "string", put_platform, "What computes it.", .always = true)
#define TENSORS_ROW(name, rows, function, text)                                                    \
    SRV_WRITTEN(name, "[*]", function, text, .fields = rows, .accepts = SRV_O_OPEN, .always = true)

static const srv_field model_rows[] = {
    MODEL_NAME_ROW,
    SRV_WRITTEN("versions", "[string]", put_versions, "Its versions."),
    PLATFORM_ROW,
    TENSORS_ROW("inputs", metadata_rows, put_inputs,
                "Name, type and shape of each input; -1 is any length."),
    TENSORS_ROW("outputs", metadata_rows, put_outputs,
                "Name, type and shape of each output; -1 is any length."),
    {0},
};
static const srv_field config_rows[] = {
    MODEL_NAME_ROW,
    PLATFORM_ROW,
    SRV_WRITTEN("backend", "string", put_backend, "The same in the words of Triton.",
                .always = true),
    SRV_WRITTEN("max_batch_size", "integer+", put_zero, "0: batches are an axis of the tensors.",
                .always = true),
    TENSORS_ROW("input", configured_input_rows, put_configured_inputs, "Its inputs."),
    TENSORS_ROW("output", configured_rows, put_configured_outputs, "Its outputs."),
    {0},
};

static srv_outcome describe(srv_request *req, const srv_field *rows) {
    const srv_infer_model *model = srv_v2_find_model(req);
    if (model)
        srv_answer_reply(req, rows, model);
    return SRV_DONE;
}

srv_outcome srv_v2_model(srv_request *req) {
    return describe(req, model_rows);
}

srv_outcome srv_v2_config(srv_request *req) {
    return describe(req, config_rows);
}

/* --- statistics --- */

/* The number of events of one kind, and their total time. */
typedef struct duration {
    int64_t count, ns;
} duration;

static const srv_field duration_rows[] = {
    SRV_ALWAYS("count", SRV_INT, duration, count, "How often."),
    SRV_ALWAYS("ns", SRV_INT, duration, ns, "How long in all, in nanoseconds."),
    {0},
};

/* The statistics of a model. */
typedef struct model_statistics {
    const char *name, *version;
    int64_t last_ms, good;
    int64_t batch_size;
    duration success, fail, queue, input, infer, output, none;
} model_statistics;

#define DURATION(name, member, text)                                                               \
    SRV_ALWAYS(name, SRV_OBJECT, model_statistics, member, text, .fields = duration_rows)
#define STEPS                                                                                      \
    DURATION("compute_input", input, "Reading of the inputs."),                                    \
        DURATION("compute_infer", infer, "The computation."),                                      \
        DURATION("compute_output", output, "Writing of the outputs.")

static const srv_field inference_rows[] = {
    DURATION("success", success, "Requests that were answered."),
    DURATION("fail", fail, "Requests that failed."),
    DURATION("queue", queue, "Waiting in the queue."),
    STEPS,
    DURATION("cache_hit", none, "There is no cache."),
    DURATION("cache_miss", none, "There is no cache."),
    {0},
};
static const srv_field batch_rows[] = {
    SRV_ALWAYS("batch_size", SRV_INT, model_statistics, batch_size, "The size of the batches."),
    STEPS,
    {0},
};

/* Writes the batch statistics. Requests are not batched, so the only batch size is 1. */
static void put_batches(attn_json_text *j, const void *place) {
    const model_statistics *statistics = place;
    attn_json_array(j);
    if (statistics->good > 0)
        srv_answer_object(j, batch_rows, statistics);
    attn_json_array_end(j);
}

static void put_empty_list(attn_json_text *j, const void *unused) {
    (void)unused;
    attn_json_array(j);
    attn_json_array_end(j);
}

static const srv_field statistics_rows[] = {
    SRV_ALWAYS("name", SRV_STRING, model_statistics, name, "The name of the model."),
    SRV_ALWAYS("version", SRV_STRING, model_statistics, version, "Its version."),
    SRV_ALWAYS("last_inference", SRV_INT, model_statistics, last_ms, "When the last request came."),
    SRV_ALWAYS("inference_count", SRV_INT, model_statistics, good, "Requests that were answered."),
    SRV_ALWAYS("execution_count", SRV_INT, model_statistics, good, "The same: none are batched."),
    SRV_GROUP("inference_stats", inference_rows, "Number and time of requests by stage.",
              .type = "{V2Duration}", .always = true),
    SRV_WRITTEN("batch_stats", "[object]", put_batches, "The same by the size of batches."),
    SRV_WRITTEN("memory_usage", "[object]", put_empty_list, "Always empty."),
    {0},
};

/* The answer of GET …/stats: the statistics of one model or of all models. */
typedef struct statistics_answer {
    const srv_meters *meters;
    const srv_infer_model *model; /* NULL: all models */
} statistics_answer;

static void put_statistics(attn_json_text *j, const srv_meters *m, const srv_infer_model *model) {
    int64_t values[SRV_INFER_EACH];
    const size_t index = srv_v2_model_index(model);
    for (int i = 0; i < SRV_INFER_EACH; i++)
        values[i] = srv_meter_read(m, srv_infer_meter(index, (srv_meter)(SRV_INFER_GOOD + i)));
#define OF(name) values[SRV_INFER_##name - SRV_INFER_GOOD]
    srv_answer_object(j, statistics_rows,
                      &(model_statistics){.name = model->name,
                                          .version = SRV_V2_VERSION,
                                          .last_ms = OF(LAST_MS),
                                          .good = OF(GOOD),
                                          .batch_size = 1,
                                          .success = {OF(GOOD), OF(GOOD_NS)},
                                          .fail = {OF(BAD), OF(BAD_NS)},
                                          .queue = {OF(GOOD), OF(QUEUE_NS)},
                                          .input = {OF(GOOD), OF(DECODE_NS)},
                                          .infer = {OF(GOOD), OF(COMPUTE_NS)},
                                          .output = {OF(GOOD), OF(ENCODE_NS)}});
#undef OF
}

static void put_models(attn_json_text *j, const void *place) {
    const statistics_answer *answer = place;
    attn_json_array(j);
    for (const srv_infer_model *m = srv_infer_models; m < srv_infer_models + SRV_INFER_MODELS; m++)
        if (!answer->model || answer->model == m)
            put_statistics(j, answer->meters, m);
    attn_json_array_end(j);
}

static const srv_field answer_rows[] = {
    SRV_WRITTEN("model_stats", "[V2ModelStatistics]", put_models, "Each model.", .always = true),
    {0},
};

srv_outcome srv_v2_stats(srv_request *req) {
    const srv_infer_model *model = req->params[0] ? srv_v2_find_model(req) : NULL;
    if (req->params[0] && !model)
        return SRV_DONE;
    return reply_uncached(req, answer_rows, &(statistics_answer){req->app->meters, model});
}

const srv_field srv_v2_answers[] = {
    SRV_GROUP("V2Server", server_rows, NULL, .accepts = SRV_O_OPEN),
    SRV_GROUP("V2Live", live_rows, NULL),
    SRV_GROUP("V2Ready", ready_rows, NULL),
    SRV_GROUP("V2Models", models_rows, NULL),
    SRV_GROUP("V2Model", model_rows, NULL, .accepts = SRV_O_OPEN),
    SRV_GROUP("V2ModelReady", model_ready_rows, NULL),
    SRV_GROUP("V2Config", config_rows, NULL, .accepts = SRV_O_OPEN),
    SRV_GROUP("V2Statistics", answer_rows, NULL),
    SRV_GROUP("V2ModelStatistics", statistics_rows,
              "Counts since the start, times in nanoseconds; last_inference in milliseconds since "
              "1970.",
              .accepts = SRV_O_OPEN),
    SRV_GROUP("V2Duration", duration_rows, NULL),
    SRV_WRITTEN("V2Index", "[*]", NULL, NULL, .fields = entry_rows),
    SRV_GROUP("V2IndexRequest", index_fields,
              "ready: list only models that are ready; all models are always ready."),
    {0},
};
