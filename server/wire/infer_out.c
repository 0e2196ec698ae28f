/* Answers of the Open Inference Protocol: JSON, followed by the data of the outputs that are sent
 * as binary data. That data is sent from the memory of the tensors, without a copy. */
#include <string.h>

#include "wire/answer.h"
#include "wire/infer.h"
#include "wire/json_out.h"

static size_t elements_of(const attn_tensor *t) {
    size_t count = 0;
    attn_tensor_count(t, &count);
    return count;
}

static const attn_named_tensor *find_part(const srv_parts *parts, const char *name) {
    for (size_t i = 0; i < parts->count; i++)
        if (strcmp(parts->tensors[i].name, name) == 0)
            return &parts->tensors[i];
    return NULL;
}

/* Returns whether the client wants this output as binary data. */
static bool is_binary(const srv_infer *in, const char *name) {
    for (size_t i = 0; i < in->output_count; i++)
        if (strcmp(in->outputs[i].name, name) == 0 && in->outputs[i].binary >= 0)
            return in->outputs[i].binary;
    return in->binary;
}

/* An output of the answer. */
typedef struct output_answer {
    const char *name, *type;
    const attn_tensor *tensor;
    attn_tensor flat; /* the elements on one axis; rank 0 if they are binary */
    bool binary;
    size_t bytes; /* number of bytes of binary data */
} output_answer;

static void put_shape(attn_json_text *j, const void *place) {
    const attn_tensor *t = ((const output_answer *)place)->tensor;
    attn_json_array(j);
    for (int i = 0; i < t->rank; i++)
        attn_json_size(j, t->dims[i]);
    attn_json_array_end(j);
}

static const char *const types[] = {"BOOL",  "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16",
                                    "INT32", "INT64", "FP16",   "BF16",   "FP32",   "FP64", NULL};

static const srv_field size_rows[] = {
    SRV_IF_KNOWN("binary_data_size", SRV_INT, output_answer, bytes, NULL),
    {0},
};

static const srv_field output_rows[] = {
    SRV_ALWAYS("name", SRV_STRING, output_answer, name, "The name of the output."),
    SRV_ALWAYS("datatype", SRV_STRING, output_answer, type, "The type of the elements.",
               .choices = types),
    SRV_WRITTEN("shape", "[integer+]", put_shape, "The length of each axis.", .always = true),
    SRV_GROUP("parameters", size_rows, "The length of its bytes behind the JSON.",
              .when = offsetof(output_answer, binary)),
    SRV_IF_KNOWN("data", SRV_TENSOR, output_answer, flat, "The elements.", .type = "V2Data"),
    {0},
};

static void put_output(attn_json_text *j, const attn_named_tensor *part, bool binary) {
    const attn_tensor *t = &part->tensor;
    const size_t count = elements_of(t);
    output_answer output = {.name = part->name,
                            .type = srv_infer_datatype(t->dtype),
                            .tensor = t,
                            .binary = binary,
                            .bytes = count * attn_dtype_size(t->dtype)};
    if (!binary)
        output.flat = attn_tensor_dense(t->data, t->dtype, 1, &count);
    srv_answer_object(j, output_rows, &output);
}

/* The members of the answer before its outputs. */
typedef struct lead_answer {
    const char *model, *version, *id;
    const char
        *rest; /* the rest of the answer (warnings, heatmaps and others) as JSON; NULL: none */
} lead_answer;

static const srv_field rest_rows[] = {
    SRV_IF_KNOWN("response", SRV_STRING, lead_answer, rest, NULL),
    {0},
};

static const srv_field lead_rows[] = {
    SRV_ALWAYS("model_name", SRV_STRING, lead_answer, model, "The name of the model."),
    SRV_IF_KNOWN("model_version", SRV_STRING, lead_answer, version, "Its version."),
    SRV_IF_KNOWN("id", SRV_STRING, lead_answer, id, "The id of the request."),
    SRV_GROUP("parameters", rest_rows,
              "response: the other members of the answer, such as warnings, as JSON text."),
    {0},
};

static const srv_field answer_rows[] = {
    SRV_GROUP("", lead_rows, NULL, .always = true),
    SRV_WRITTEN("outputs", "[V2Output]", NULL, "The tensors.", .always = true),
    {0},
};

/* --- the schemas of requests, which infer_in.c reads --- */

static const srv_field request_rows[] = {
    SRV_WRITTEN("id", "string", NULL, "An id that the answer repeats."),
    SRV_WRITTEN(
        "parameters", "{string|number|boolean}", NULL,
        "The fields of /v1/attention that are not tensors (lists and objects as JSON text), and "
        "binary_data_output (true or false), timeout (microseconds), priority (a number from 0)."),
    SRV_WRITTEN("inputs", "[V2Input 1+]", NULL,
                "Tensors with the names of the fields of /v1/attention.", .always = true),
    SRV_WRITTEN("outputs", "[V2RequestedOutput 0-16]", NULL,
                "The outputs to return, in this order; the default is all outputs in the metadata "
                "of the model."),
    {0},
};

static const srv_field input_rows[] = {
    SRV_WRITTEN("name", "string", NULL, "The name of a field of POST /v1/attention.",
                .always = true),
    SRV_WRITTEN("datatype", "string", NULL, "The type of the elements.", .choices = types,
                .always = true),
    SRV_WRITTEN("shape", "[integer+]", NULL, "The length of each axis.", .always = true),
    SRV_WRITTEN("parameters", "*", NULL, "The length of its bytes behind the JSON.",
                .fields = size_rows),
    SRV_WRITTEN("data", "V2Data", NULL, "The elements."),
    {0},
};

static const char *const outputs[] = {"output", "weights",     "logsumexp",     "weights_dropped",
                                      "scores", "present_key", "present_value", NULL};
static const srv_field binary_rows[] = {SRV_WRITTEN("binary_data", "boolean", NULL, NULL), {0}};
static const srv_field requested_rows[] = {
    SRV_WRITTEN("name", "string", NULL, "The name of the output.", .choices = outputs,
                .always = true),
    SRV_WRITTEN("parameters", "*", NULL, "Whether its bytes shall follow the JSON.",
                .fields = binary_rows),
    {0},
};

const srv_field srv_infer_answers[] = {
    SRV_GROUP("V2Inference", answer_rows,
              "With binary outputs: application/octet-stream, this JSON and then their bytes."),
    SRV_GROUP("V2Output", output_rows, NULL),
    SRV_GROUP("V2InferenceRequest", request_rows, NULL),
    SRV_GROUP("V2Input", input_rows,
              "data is flat or nested; instead of it binary_data_size bytes follow the JSON, in "
              "the order of the inputs, little-endian."),
    SRV_GROUP("V2RequestedOutput", requested_rows, NULL),
    {0},
};

/* Appends the data of `count` tensors to the reply, which has the JSON already, and adds the header
 * that states the size of the JSON. */
static bool add_blobs(srv_request *req, const attn_tensor *const *blobs, size_t count) {
    srv_piece *pieces = attn_arena_zeroed(req->arena, count + 1, sizeof *pieces);
    char *length = attn_arena_small(req->arena, 24);
    size_t total = req->reply.size, n = 1;
    if (!pieces || !length)
        return srv_problem_memory(req, NULL, "The answer does not fit the memory of this request");
    pieces[0] = (srv_piece){req->reply.body, req->reply.size};
    for (size_t digits = total, at = 20; at > 0; digits /= 10)
        length[--at] = (char)('0' + digits % 10);
    length[20] = 0;
    while (*length == '0')
        length++;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = elements_of(blobs[i]) * attn_dtype_size(blobs[i]->dtype);
        total += bytes;
        if (bytes)
            pieces[n++] = (srv_piece){blobs[i]->data, bytes};
    }
    srv_reply_set(req, 200, "application/octet-stream", "", total);
    req->reply.pieces = pieces;
    req->reply.piece_count = n;
    srv_reply_header(req, "Inference-Header-Content-Length", length);
    return true;
}

bool srv_infer_is_binary(const srv_infer *in, const char *const *names, size_t count) {
    size_t i = 0;
    while (i < count && is_binary(in, names[i]))
        i++;
    return i == count;
}

bool srv_infer_reply(srv_request *req, const srv_infer *in, const char *model, const char *version,
                     const char *const *names, size_t count, const srv_parts *parts) {
    const attn_tensor *blobs[SRV_INFER_OUTPUTS];
    size_t binary = 0;
    attn_json_text j = srv_json_object(req);
    j.decimals = parts->decimals;
    const bool has_rest = strcmp(parts->rest, "{}") != 0;
    srv_answer_members(&j, lead_rows,
                       &(lead_answer){model, version, in->id, has_rest ? parts->rest : NULL});
    attn_json_key_array(&j, "outputs");
    for (size_t i = 0; i < count; i++) {
        const attn_named_tensor *part = find_part(parts, names[i]);
        if (!part)
            return srv_problem(req, SRV_VALUE, NULL, "this request yields no output \"%s\"",
                               names[i]);
        bool blob = is_binary(in, part->name);
        put_output(&j, part, blob);
        if (blob)
            blobs[binary++] = &part->tensor;
    }
    attn_json_array_end(&j);
    return srv_json_object_end(&j) && (binary == 0 || add_blobs(req, blobs, binary));
}
