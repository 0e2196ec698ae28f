/* Answers of the Open Inference Protocol: JSON, followed by the data of the outputs that are sent
 * as binary data. That data is sent from the memory of the tensors, without a copy. */
#include <string.h>

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

static void put_output(attn_json_text *j, const attn_named_tensor *part, bool binary) {
    const attn_tensor *t = &part->tensor;
    size_t count = elements_of(t);
    attn_json_object(j);
    attn_json_key_string(j, "name", part->name);
    attn_json_key_string(j, "datatype", srv_infer_datatype(t->dtype));
    attn_json_key_sizes(j, "shape", t->dims, (size_t)t->rank);
    if (binary) {
        attn_json_key_object(j, "parameters");
        attn_json_key_size(j, "binary_data_size", count * attn_dtype_size(t->dtype));
        attn_json_object_end(j);
    } else {
        attn_tensor flat = attn_tensor_dense(t->data, t->dtype, 1, &count);
        srv_json_key_tensor(j, "data", &flat);
    }
    attn_json_object_end(j);
}

/* Writes the rest of the answer (warnings, heatmaps and others) as a JSON text in the parameter
 * "response". The protocol has no other place for it. */
static void put_rest(attn_json_text *j, const srv_parts *parts) {
    if (strcmp(parts->rest, "{}") == 0)
        return;
    attn_json_key_object(j, "parameters");
    attn_json_key_string(j, "response", parts->rest);
    attn_json_object_end(j);
}

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

bool srv_infer_reply(srv_request *req, const srv_infer *in, const char *model, const char *version,
                     const char *const *names, size_t count, const srv_parts *parts) {
    const attn_tensor *blobs[SRV_INFER_OUTPUTS];
    size_t binary = 0;
    attn_json_text j = srv_json_object(req);
    j.decimals = parts->decimals;
    attn_json_key_string(&j, "model_name", model);
    attn_json_key_string(&j, "model_version", version);
    if (in->id)
        attn_json_key_string(&j, "id", in->id);
    put_rest(&j, parts);
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
