/* The JSON writer: builds an answer in the request's arena. Numbers by our own printer (number.h).
 * Commas and colons are put by the writer. After memory runs out, calls do nothing and srv_json_end
 * fails with a problem reply. */
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
    srv_parts *parts; /* tensors that stand in objects only go there instead of into the text */
    const char *names[SRV_JSON_DEPTH + 1]; /* the last key at each depth */
    int lists;                             /* how many of the open brackets are lists */
    size_t look_at; /* how long the text is when the request's deadline is looked at again */
    size_t key_at;  /* where the last key began, and the state before it */
    bool key_first;
} srv_json;

void srv_json_begin(srv_json *j, srv_request *req);
/* Take room for `bytes` of text to come, so that the buffer need not be replaced on the way; less
 * is no error. */
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
/* A dense float64 tensor, rounded to float32: 0.1 for what was 0.1 as float32. */
void srv_json_tensor_single(srv_json *j, const attn_tensor *t);
/* A flat list of n floats, and n bytes as a base64 string. */
void srv_json_floats(srv_json *j, const float *values, size_t n);
void srv_json_base64(srv_json *j, const void *bytes, size_t n);
/* Finish: a trailing newline, and the reply 200 application/json is set, or that of the container
 * which the client accepts; with req->parts the JSON that is left. false: a problem is set: of
 * memory, or of the deadline, which the writer looks at as the text grows. */
bool srv_json_end(srv_json *j);

#endif
