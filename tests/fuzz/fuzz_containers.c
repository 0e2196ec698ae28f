/* Any bytes as a safetensors body and as an Open Inference body: neither may crash nor read outside
 * of the body; what is accepted has tensors inside of the body (or copied), aligned, of the size of
 * their shape, and goes out and comes in again as it was. The first byte chooses the framing and
 * its second where the JSON of an infer request ends. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/fields.h"
#include "wire/infer.h"

typedef struct inner {
    uint64_t given;
    attn_tensor w;
} inner;

typedef struct input {
    uint64_t given;
    attn_tensor query, mask, ids;
    inner score;
    srv_objects masks;
    double scale;
} input;

static const srv_field inner_fields[] = {
    {.name = "w", .kind = SRV_TENSOR, .offset = offsetof(inner, w), .accepts = SRV_T_REAL},
    {0},
};
static const srv_field fields[] = {
    {.name = "query", .kind = SRV_TENSOR, .offset = offsetof(input, query), .accepts = SRV_T_REAL},
    {.name = "mask",
     .kind = SRV_TENSOR,
     .offset = offsetof(input, mask),
     .accepts = SRV_T_REAL | SRV_T_BOOL | SRV_T_NEGINF},
    {.name = "ids", .kind = SRV_TENSOR, .offset = offsetof(input, ids), .accepts = SRV_T_INT},
    {.name = "score", .kind = SRV_OBJECT, .offset = offsetof(input, score), .fields = inner_fields},
    {.name = "masks",
     .kind = SRV_OBJECTS,
     .offset = offsetof(input, masks),
     .fields = inner_fields,
     .size = sizeof(inner),
     .max = 8},
    {.name = "scale", .kind = SRV_REAL, .offset = offsetof(input, scale)},
    {0},
};

static size_t bytes_of(const attn_tensor *t) {
    size_t count = 0;
    attn_tensor_count(t, &count);
    return count * attn_dtype_size(t->dtype);
}

/* Touch every byte, so that a view outside of the body is seen. */
static void touch(const attn_tensor *t) {
    volatile unsigned sum = 0;
    if (t->rank < 1 || t->rank > ATTN_MAX_RANK || !attn_tensor_is_aligned(t))
        abort();
    for (size_t i = 0; i < bytes_of(t); i++)
        sum += ((const unsigned char *)t->data)[i];
}

static void open_request(srv_request *req, const uint8_t *data, size_t size) {
    /* a block of exactly this size, its tensors at any alignment */
    char *copy = malloc(size + 1);
    memcpy(copy, data, size);
    copy[size] = 0;
    *req = (srv_request){.arena = attn_arena_new(1 << 20), .id = "fuzz", .path = "/", .query = ""};
    req->body = copy;
    req->body_size = size;
}

static void close_request(srv_request *req) {
    attn_arena_free(req->arena);
    free((char *)(uintptr_t)req->body);
}

/* Header and blobs in one block, read again: the same tensors by name. */
static void round_trip(srv_request *req, const attn_named_tensor *tensors, size_t count) {
    attn_safetensors file = {.count = count}, back;
    attn_error err;
    const void *header;
    size_t size, total;
    file.tensors = attn_arena_zeroed(req->arena, count + 1, sizeof *file.tensors);
    if (!file.tensors)
        return;
    for (size_t i = 0; i < count; i++)
        file.tensors[i] = tensors[i];
    if (attn_safetensors_header(&file, req->arena, &header, &size, &err))
        return;
    total = size;
    for (size_t i = 0; i < count; i++)
        total += bytes_of(&file.tensors[i].tensor);
    char *block = malloc(total), *p = block + size;
    memcpy(block, header, size);
    for (size_t i = 0; i < count; i++) {
        memcpy(p, file.tensors[i].tensor.data, bytes_of(&file.tensors[i].tensor));
        p += bytes_of(&file.tensors[i].tensor);
    }
    attn_status status = attn_safetensors_read(block, total, req->arena, &back, &err);
    if (status && status != ATTN_ENOMEM) {
        fprintf(stderr, "%s: %s\n", err.where, err.text);
        abort();
    }
    for (size_t i = 0; !status && i < count; i++) {
        const attn_tensor *a = &file.tensors[i].tensor, *b = &back.tensors[i].tensor;
        if (back.count != count || strcmp(file.tensors[i].name, back.tensors[i].name) ||
            a->dtype != b->dtype || a->rank != b->rank ||
            memcmp(a->dims, b->dims, sizeof(size_t) * (size_t)a->rank) ||
            memcmp(a->data, b->data, bytes_of(a)))
            abort();
    }
    free(block);
}

static void try_safetensors(srv_request *req) {
    input in = {0};
    srv_form form;
    req->content_type = SRV_SAFETENSORS;
    if (srv_form_read(req, &form)) {
        for (size_t i = 0; i < form.count; i++)
            touch(&form.tensors[i].tensor);
        round_trip(req, form.tensors, form.count);
    } else if (req->reply.status < 400 || req->reply.status > 422) {
        abort();
    }
    srv_decode(req, fields, &in);
}

static void try_infer(srv_request *req, unsigned lead) {
    char header[16];
    srv_infer in;
    input decoded = {0};
    snprintf(header, sizeof header, "%u", lead);
    req->infer_header = lead == 255 ? NULL : header;
    req->only_400 = true;
    if (!srv_infer_read(req, 32, &in)) {
        if (req->reply.status != 400 && req->reply.status != 413)
            abort();
        return;
    }
    for (size_t i = 0; i < in.input_count; i++)
        touch(&in.inputs[i].tensor);
    srv_form form = {.text = in.fields_size ? attn_arena_text(req->arena, in.fields, in.fields_size)
                                            : "{}",
                     .tensors = in.inputs,
                     .count = in.input_count};
    if (!form.text)
        return;
    form.size = strlen(form.text);
    req->form = &form;
    srv_decode(req, fields, &decoded);
    req->form = NULL;
    srv_parts parts = {.tensors = in.inputs, .count = in.input_count, .rest = "{}", .decimals = -1};
    const char *names[SRV_INFER_OUTPUTS];
    size_t count = in.input_count < SRV_INFER_OUTPUTS ? in.input_count : SRV_INFER_OUTPUTS;
    for (size_t i = 0; i < count; i++)
        names[i] = in.inputs[i].name;
    srv_infer_reply(req, &in, "model", "1", names, count, &parts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    srv_request req;
    if (size < 2)
        return 0;
    open_request(&req, data + 2, size - 2);
    if (data[0] & 1)
        try_infer(&req, data[1]);
    else
        try_safetensors(&req);
    close_request(&req);
    return 0;
}
