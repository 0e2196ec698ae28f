/* A field table of tensors, and bodies of it that must be accepted or refused. */
#ifndef TEST_WIRE_TENSORS_H
#define TEST_WIRE_TENSORS_H

#include "unit/wire_body.h"

typedef struct input {
    srv_given_bits given;
    attn_tensor real, mask, ids, flags, bias;
} input;

static const srv_field fields[] = {
    {.name = "real", .kind = SRV_TENSOR, .offset = offsetof(input, real), .accepts = SRV_T_REAL},
    {.name = "mask",
     .kind = SRV_TENSOR,
     .offset = offsetof(input, mask),
     .accepts = SRV_T_REAL | SRV_T_BOOL | SRV_T_NEGINF},
    {.name = "ids", .kind = SRV_TENSOR, .offset = offsetof(input, ids), .accepts = SRV_T_INT},
    {.name = "flags", .kind = SRV_TENSOR, .offset = offsetof(input, flags), .accepts = SRV_T_BOOL},
    {.name = "bias",
     .kind = SRV_TENSOR,
     .offset = offsetof(input, bias),
     .accepts = SRV_T_REAL | SRV_T_NEGINF},
    {0},
};

enum { LIMIT = 1 << 20 };

static inline void refuse(const char *body, int status, const char *code, const char *pointer,
                          const char *detail) {
    srv_request req;
    input in = {0};
    wire_open(&req, body, strlen(body), LIMIT);
    if (srv_decode(&req, fields, &in))
        fail_msg("accepted: %s", body);
    wire_problem(&req, status, code, pointer, detail);
    wire_close(&req);
}

static inline void accept(srv_request *req, input *in, const char *body) {
    *in = (input){0};
    wire_open(req, body, strlen(body), LIMIT);
    if (!srv_decode(req, fields, in))
        fail_msg("%s refused: %.*s", body, (int)req->reply.size, req->reply.body);
}

static inline void shape_is(const attn_tensor *t, attn_dtype dtype, int rank, const size_t *dims) {
    assert_int_equal(t->dtype, dtype);
    assert_int_equal(t->rank, rank);
    for (int i = 0; i < rank; i++)
        assert_int_equal(t->dims[i], dims[i]);
    assert_true(attn_tensor_is_dense(t));
}

#define SHAPE(t, dtype, ...)                                                                       \
    shape_is(t, dtype, (int)(sizeof((size_t[]){__VA_ARGS__}) / sizeof(size_t)),                    \
             (const size_t[]){__VA_ARGS__})

#endif
