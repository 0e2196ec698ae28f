/* Safetensors bodies: the container is read by the library (attn/safetensors.h), the JSON of the
 * request stands in its metadata. */
#include <string.h>

#include "wire/container.h"

#define REQUEST "request"

size_t srv_form_lead(const char *first, size_t size) {
    uint64_t length = 0;
    if (size < 8)
        return 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | (unsigned char)first[i];
    return length < SIZE_MAX / 2 ? 8 + (size_t)length : 0;
}

static bool out_of_memory(srv_request *req) {
    srv_problem_limit(req, SRV_TOO_LARGE, "", (double)attn_arena_limit(req->arena),
                      "max_request_bytes",
                      "The memory of one request does not suffice for its tensors");
    return false;
}

/* A malformed container is 400 and no JSON, so there is nothing for a pointer to point at but the
 * tensor. */
static bool refuse(srv_request *req, const attn_error *err) {
    if (err->code == ATTN_EARG)
        srv_problem(req, SRV_MALFORMED, NULL, "safetensors: %s%s%s", err->where,
                    err->where[0] ? ": " : "", err->text);
    else
        srv_problem_error(req, err);
    return false;
}

/* Element types whose bytes could be anything: only booleans have wrong ones. */
static bool check_booleans(srv_request *req, const attn_named_tensor *t) {
    const uint8_t *bytes = t->tensor.data;
    size_t count = 0;
    attn_tensor_count(&t->tensor, &count);
    for (size_t i = 0; t->tensor.dtype == ATTN_BOOL && i < count; i++)
        if (bytes[i] > 1) {
            char pointer[128];
            int n = (int)strnlen(t->name, 100);
            memcpy(pointer, "/", 1);
            memcpy(pointer + 1, t->name, (size_t)n);
            pointer[n + 1] = 0;
            srv_problem(req, SRV_VALUE, pointer,
                        "expected bytes 0 and 1 for bool, found %u at index %zu", bytes[i], i);
            return false;
        }
    return true;
}

/* Kernels read whole elements, so what is not aligned to them moves. */
static bool align(srv_request *req, attn_tensor *t) {
    size_t count = 0;
    if (attn_tensor_is_aligned(t))
        return true;
    attn_tensor_count(t, &count);
    size_t bytes = count * attn_dtype_size(t->dtype); /* no more than the body has */
    void *copy = attn_arena_take(req->arena, bytes);
    if (!copy)
        return out_of_memory(req);
    memcpy(copy, t->data, bytes);
    t->data = copy;
    return true;
}

/* An axis of 0 counts as 1, as for tensors in JSON: the others bound loops over rows without
 * elements. */
static bool check_bound(srv_request *req, const attn_named_tensor *t) {
    size_t bound = attn_dtype_size(t->tensor.dtype);
    for (int i = 0; i < t->tensor.rank; i++)
        if (!attn_size_mul(bound, t->tensor.dims[i] ? t->tensor.dims[i] : 1, &bound))
            return out_of_memory(req);
    return bound <= attn_arena_limit(req->arena) || out_of_memory(req);
}

bool srv_tensor_settle(srv_request *req, attn_named_tensor *t) {
    return check_booleans(req, t) && align(req, &t->tensor);
}

bool srv_form_read(srv_request *req, srv_form *out) {
    attn_safetensors file = {0};
    attn_error err;
    if (attn_safetensors_read(req->body, req->body_size, req->arena, &file, &err))
        return refuse(req, &err);
    *out = (srv_form){.text = "{}", .tensors = file.tensors, .count = file.count};
    for (size_t i = 0; i < file.metadata_count; i++)
        if (strcmp(file.metadata[i].key, REQUEST) == 0)
            out->text = file.metadata[i].text;
    out->size = strlen(out->text);
    for (size_t i = 0; i < file.count; i++)
        if (!check_bound(req, &file.tensors[i]) || !srv_tensor_settle(req, &file.tensors[i]))
            return false;
    return true;
}
