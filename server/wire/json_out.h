/* The JSON writer builds an answer in the request's arena. It writes the commas and colons, and
 * prints numbers by number/number.h. After memory has run out, calls do nothing and srv_json_end
 * fails with a problem. */
#ifndef SRV_JSON_OUT_H
#define SRV_JSON_OUT_H

#include "wire/container.h"

#define SRV_JSON_DEPTH 32

typedef struct srv_json {
    srv_request *req;
    char *data;
    size_t size, room;
    int depth;
    bool first[SRV_JSON_DEPTH + 1];
    bool after_key, failed;
    int decimals;     /* -1 = shortest text that round-trips */
    srv_parts *parts; /* tensors outside lists go there instead of into the text */
    const char *names[SRV_JSON_DEPTH + 1]; /* the last key at each depth */
    int lists;                             /* the number of open brackets that are lists */
    size_t look_at; /* the size of the text at which the deadline is checked next */
    size_t key_at;  /* the offset of the last key, and the state before it */
    bool key_first;
} srv_json;

void srv_json_begin(srv_json *j, srv_request *req);
/* Reserves room for `bytes` of text, so that the buffer is not replaced while they are written. If
 * there is less memory, writing goes on and the buffer grows as it fills. */
void srv_json_reserve(srv_json *j, size_t bytes);
void srv_json_object(srv_json *j);
void srv_json_object_end(srv_json *j);
void srv_json_array(srv_json *j);
void srv_json_array_end(srv_json *j);
void srv_json_key(srv_json *j, const char *key);
void srv_json_string(srv_json *j, const char *text); /* escaped; NULL writes null */
void srv_json_bool(srv_json *j, bool value);
void srv_json_int(srv_json *j, int64_t value);
void srv_json_size(srv_json *j, size_t value);
void srv_json_real(srv_json *j, double value); /* shortest double; non-finite -> null */
void srv_json_float(srv_json *j,
                    float value); /* shortest float32, honours decimals; non-finite -> null */
void srv_json_null(srv_json *j);
void srv_json_raw(srv_json *j, const char *text, size_t size); /* one ready JSON value */
/* Nested arrays of any dtype, honouring decimals; non-finite -> null. An empty axis gives []. */
void srv_json_tensor(srv_json *j, const attn_tensor *t);
/* A dense float64 tensor, rounded to float32: a float32 of 0.1 that was widened prints as 0.1. */
void srv_json_tensor_single(srv_json *j, const attn_tensor *t);
/* Write a flat list of n floats, and n bytes as a base64 string. */
void srv_json_floats(srv_json *j, const float *values, size_t n);
void srv_json_base64(srv_json *j, const void *bytes, size_t n);
/* Ends the text with a newline and sets the reply: 200 with application/json or the container that
 * the client accepts. With req->parts the reply is the JSON without the tensors. Returns false with
 * a problem set if memory ran out or the deadline passed while the text was written. */
bool srv_json_end(srv_json *j);

#endif
