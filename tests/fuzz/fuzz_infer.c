/* Any bytes as a body of the Open Inference Protocol, with or without binary tensors: reading it
 * may neither crash nor look outside of it; every refusal is a problem that its clients can read;
 * what is accepted has tensors inside of the body (or copied) and is answered with framing that
 * adds up. The input begins with a line, the text of Inference-Header-Content-Length; "*" stands
 * for the place of the last "}" of the body, an empty line for no header. */
#include <stdio.h>

#include "fuzz_fields.h"
#include "fuzz_request.h"
#include "wire/infer.h"

/* The header's text, or NULL: none. */
static const char *lead_of(const uint8_t *line, size_t size, const srv_request *req,
                           char text[32]) {
    if (size == 0)
        return NULL;
    if (size != 1 || *line != '*') {
        snprintf(text, 32, "%.*s", size < 31 ? (int)size : 31, (const char *)line);
        return text;
    }
    const char *last = memrchr(req->body, '}', req->body_size);
    snprintf(text, 32, "%zu", last ? (size_t)(last - req->body) + 1 : 0);
    return text;
}

static const char *header_of(const srv_request *req, const char *name) {
    for (size_t i = 0; i < req->reply.header_count; i++)
        if (strcmp(req->reply.headers[i].name, name) == 0)
            return req->reply.headers[i].value;
    return NULL;
}

/* JSON and then as many bytes as its outputs say. */
static void check_answer(const srv_request *req) {
    const srv_reply *reply = &req->reply;
    const char *length = header_of(req, "Inference-Header-Content-Length");
    if (!reply->pieces) {
        fuzz_check_json(reply->body, reply->size);
        return;
    }
    size_t total = 0, i;
    double blobs = 0;
    json_t *output, *root = json_loadb(reply->pieces[0].data, reply->pieces[0].size,
                                       JSON_REJECT_DUPLICATES, NULL);
    for (i = 0; i < reply->piece_count; i++)
        total += reply->pieces[i].size;
    if (!root || !length || strtoull(length, NULL, 10) != reply->pieces[0].size)
        abort();
    json_array_foreach(json_object_get(root, "outputs"), i, output) blobs += json_number_value(
        json_object_get(json_object_get(output, "parameters"), "binary_data_size"));
    if (total != reply->size || total != reply->pieces[0].size + (size_t)blobs)
        abort();
    json_decref(root);
}

/* What was read goes through the field decoder as /infer sends it on; was it accepted? */
static bool decode(srv_request *req, const srv_infer *in) {
    fuzz_input decoded = {0};
    size_t room = in->fields.size + 3;
    char *text = attn_arena_take(req->arena, room);
    if (!text)
        return false;
    /* its members begin with a comma */
    text[0] = '{';
    size_t skip = in->fields.size && in->fields.data[0] == ',' ? 1 : 0;
    if (in->fields.size)
        memcpy(text + 1, in->fields.data + skip, in->fields.size - skip);
    memcpy(text + 1 + in->fields.size - skip, "}", 2);
    srv_decoded_body form = {text, in->fields.size - skip + 2, in->inputs, in->input_count,
                             in->beyond};
    req->decoded_body = &form;
    bool ok = srv_decode(req, fuzz_fields, &decoded);
    if (!ok)
        fuzz_check_problem(req);
    req->decoded_body = NULL;
    return ok;
}

/* The inputs are handed back as outputs. */
static void answer(srv_request *req, const srv_infer *in) {
    srv_parts parts = {.tensors = in->inputs, .count = in->input_count, .rest = "{}"};
    const char *names[SRV_INFER_OUTPUTS];
    size_t count = in->input_count < SRV_INFER_OUTPUTS ? in->input_count : SRV_INFER_OUTPUTS;
    parts.decimals = -1;
    for (size_t i = 0; i < count; i++)
        names[i] = in->inputs[i].name;
    req->reply = (srv_reply){0};
    if (srv_infer_reply(req, in, "model", "1", names, count, &parts))
        check_answer(req);
    else
        fuzz_check_problem(req);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    srv_request req;
    srv_infer in;
    char text[32];
    const uint8_t *end = memchr(data, '\n', size < 32 ? size : 32);
    if (!end)
        return -1;
    fuzz_open(&req, end + 1, size - (size_t)(end + 1 - data));
    req.infer_header = lead_of(data, (size_t)(end - data), &req, text);
    req.only_400 = true;
    if (srv_infer_read(&req, 32, NULL, &in)) {
        size_t lead = req.infer_header ? strtoull(req.infer_header, NULL, 10) : req.body_size;
        for (size_t i = 0; i < in.input_count; i++)
            fuzz_touch(&in.inputs[i].tensor);
        size_t once = decode(&req, &in) ? JSON_REJECT_DUPLICATES : 0; /* of other parameters */
        fuzz_check_accepted(req.body, lead, once);
        answer(&req, &in);
    } else {
        fuzz_check_problem(&req);
    }
    fuzz_close(&req);
    return 0;
}
