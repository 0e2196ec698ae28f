/* The JSON writer builds an answer as text in the request's arena. It writes the commas and colons
 * itself. If memory runs out, later calls do nothing, and srv_json_end sets a problem.
 *
 * If the client accepts safetensors or npy, or the request has `parts`, tensors that are members of
 * objects are not written into the text but collected as parts (container.h). */
#ifndef SRV_JSON_OUT_H
#define SRV_JSON_OUT_H

#include "wire/container.h"

#define SRV_JSON_DEPTH 32 /* most nested lists and objects of an answer */

typedef struct srv_json {
    srv_request *req;
    char *data;                     /* the text so far, `size` bytes */
    size_t size, room;              /* used and allocated bytes */
    int depth;                      /* number of open objects and lists */
    bool first[SRV_JSON_DEPTH + 1]; /* at each depth: nothing has been written yet */
    bool after_key;                 /* the last thing written is a key */
    bool failed;                    /* memory ran out, too deep nesting, or the deadline passed */
    int decimals;     /* digits after the point of floats; -1: the shortest text that round-trips */
    srv_parts *parts; /* where tensors go; NULL: into the text */
    const char *names[SRV_JSON_DEPTH + 1]; /* the last key at each depth */
    int lists;                             /* number of open lists */
    size_t look_at;                        /* size at which the deadline is checked next */
    size_t key_at;                         /* where the last key begins, with its comma */
    bool key_first;                        /* the value of `first` before the last key */
} srv_json;

void srv_json_begin(srv_json *j, srv_request *req);
/* Reserves room for `bytes` more bytes of text, so that the buffer need not be copied while they
 * are written. If there is not enough memory, nothing happens, and the buffer grows as it fills. */
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
/* Writes a double with the fewest digits that read back as the same value. NaN and infinities
 * become null. */
void srv_json_real(srv_json *j, double value);
/* Writes a float32 in the same way, or with j->decimals digits after the point. */
void srv_json_float(srv_json *j, float value);
void srv_json_null(srv_json *j);
void srv_json_raw(srv_json *j, const char *text, size_t size); /* copies a complete JSON value */
/* Writes a tensor as nested lists, or adds it to the parts. Floats follow j->decimals, and those
 * that are not finite become null. A tensor of rank 0 becomes null; an axis of 0 gives []. */
void srv_json_tensor(srv_json *j, const attn_tensor *t);
/* Writes a dense float64 tensor whose values came from float32, rounded to float32. Otherwise the
 * float32 0.1 would be written as 0.10000000149011612. */
void srv_json_tensor_single(srv_json *j, const attn_tensor *t);
void srv_json_floats(srv_json *j, const float *values, size_t n); /* a flat list of n floats */
void srv_json_base64(srv_json *j, const void *bytes, size_t n);   /* n bytes as a base64 string */
/* Ends the text with a newline and sets the reply with status 200: JSON, or the container that the
 * client accepts, with the parts. If req->parts was set, the reply is the JSON without the tensors.
 * false: a problem is set, because memory ran out or the deadline passed. */
bool srv_json_end(srv_json *j);

#endif
