/* A request with a body, as server/http would hand it over, for the tests of server/wire. The body
 * is copied into a block of exactly its size, so that AddressSanitizer sees reads behind it. */
#ifndef TEST_WIRE_BODY_H
#define TEST_WIRE_BODY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "wire/decode.h"

static inline void wire_open(srv_request *req, const char *body, size_t size, size_t limit) {
    char *copy = malloc(size + 1);
    assert_non_null(copy);
    memcpy(copy, body, size);
    copy[size] = 0;
    *req = (srv_request){.arena = attn_arena_new(limit),
                         .id = "test-1",
                         .path = "/v1/test",
                         .query = "",
                         .content_type = "application/json",
                         .body = copy,
                         .body_size = size};
    assert_non_null(req->arena);
}

static inline void wire_close(srv_request *req) {
    attn_arena_free(req->arena);
    free((char *)(uintptr_t)req->body);
}

/* The reply, which must be a well-formed problem with these members; NULL = must be absent, "*" =
 * any value. `detail`: a part of the text. */
static inline void wire_problem(const srv_request *req, int status, const char *code,
                                const char *pointer, const char *detail) {
    json_error_t error;
    json_t *root = json_loadb(req->reply.body, req->reply.size, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        fail_msg("problem body is not JSON: %s", error.text);
    const char *text = json_string_value(json_object_get(root, "detail"));
    const char *at = json_string_value(json_object_get(root, "pointer"));
    if (!text)
        fail_msg("a problem without detail");
    else if (req->reply.status != status)
        fail_msg("status %d, expected %d: %s", req->reply.status, status, text);
    assert_string_equal(req->reply.type, "application/problem+json");
    assert_int_equal(json_integer_value(json_object_get(root, "status")), status);
    assert_string_equal(json_string_value(json_object_get(root, "code")), code);
    if (!pointer)
        assert_null(at);
    else if (strcmp(pointer, "*") != 0)
        assert_string_equal(at ? at : "(none)", pointer);
    if (text && !strstr(text, detail))
        fail_msg("\"%s\" is not in \"%s\"", detail, text);
    const json_t *same = json_object_get(root, "error"); /* of /v2, and without memory */
    if (same)
        assert_string_equal(json_string_value(same), text);
    json_decref(root);
}

/* A small deterministic source of numbers for the samples. */
static inline uint64_t wire_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
