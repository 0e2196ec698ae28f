/* What the fuzz targets share: a request over a body that ends where its block ends, so that
 * reading past it is seen, and checks of what comes back. Header only; included once by each
 * target. */
#ifndef FUZZ_REQUEST_H
#define FUZZ_REQUEST_H

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "request/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_open(srv_request *req, const void *body, size_t size) {
    char *copy = malloc(size + 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, body, size);
    copy[size] = 0;
    *req = (srv_request){.arena = attn_arena_new(1 << 20), .id = "fuzz", .path = "/", .query = ""};
    req->content_type = "";
    req->body = copy;
    req->body_size = size;
}

static inline void fuzz_close(srv_request *req) {
    attn_arena_free(req->arena);
    free((char *)(uintptr_t)req->body);
}

/* What we write is one JSON document in jansson's eyes; integers may have more than 64 bits. */
static inline void fuzz_check_json(const char *text, size_t size) {
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
    if (!root)
        abort();
    json_decref(root);
}

/* What was accepted is JSON in jansson's eyes, too. It alone refuses numbers beyond a double, so a
 * text with an exponent or with 308 digits in a row is let off. `flags`: JSON_REJECT_DUPLICATES, or
 * 0 where members that are there twice are only found later. */
static inline void fuzz_check_accepted(const char *text, size_t size, size_t flags) {
    size_t digits = 0;
    for (size_t i = 0; i < size; i++) {
        if ((digits > 0 && (text[i] == 'e' || text[i] == 'E')) || digits > 307)
            return;
        digits = text[i] >= '0' && text[i] <= '9' ? digits + 1 : 0;
    }
    json_t *root = json_loadb(text, size, flags | JSON_DECODE_INT_AS_REAL, NULL);
    if (!root)
        abort();
    json_decref(root);
}

/* A refusal: a problem with one of the statuses that a body can cause. */
static inline void fuzz_check_problem(const srv_request *req) {
    int status = req->reply.status;
    if (status != 400 && status != 413 && status != (req->only_400 ? 400 : 422))
        abort();
    fuzz_check_json(req->reply.body, req->reply.size);
}

static inline size_t fuzz_bytes(const attn_tensor *t) {
    attn_tensor bytes = *t;
    size_t count = 0;
    if (t->dtype == ATTN_BITS)
        bytes.dims[t->rank - 1] = t->dims[t->rank - 1] / 8 + (t->dims[t->rank - 1] % 8 != 0);
    if (!attn_tensor_count(&bytes, &count))
        abort();
    return count * attn_dtype_size(t->dtype);
}

/* Every byte is read, so that a view outside of the body is seen. */
static inline void fuzz_touch(const attn_tensor *t) {
    volatile unsigned sum = 0;
    if (t->rank < 1 || t->rank > ATTN_MAX_RANK || !attn_tensor_is_aligned(t))
        abort();
    for (size_t i = 0; i < fuzz_bytes(t); i++)
        sum += ((const unsigned char *)t->data)[i];
}

#endif
