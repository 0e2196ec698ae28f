/* The JSON of an answer: adds tensors to the JSON writer of lib/json, whose text grows in the
 * request's arena. If memory runs out or the deadline passes, later calls do nothing, and
 * srv_json_end sets a problem.
 *
 * If the client accepts safetensors or npy, or the request has `parts`, tensors that are members of
 * objects are not written into the text but collected as parts (container.h). In that case the
 * writer's member `aside` is the srv_parts, else it is NULL. */
#ifndef SRV_JSON_OUT_H
#define SRV_JSON_OUT_H

#include "wire/container.h"
#include "json/json_write.h"

void srv_json_begin(attn_json_text *j, srv_request *req);
/* Begins an answer that is an object. srv_json_object_end ends it. */
attn_json_text srv_json_object(srv_request *req);
static inline srv_request *srv_json_request(const attn_json_text *j) {
    return j->owner;
}
/* Writes a tensor as nested lists or, as the head of this file says, collects it as a part of the
 * answer. Floats in lists are rounded to j->decimals decimals (negative: not rounded); those that
 * are not finite become null. A tensor of rank 0 becomes null; an axis of length 0 gives []. */
void srv_json_tensor(attn_json_text *j, const attn_tensor *t);
void srv_json_key_tensor(attn_json_text *j, const char *key, const attn_tensor *t);
/* Writes a dense float64 tensor whose values came from float32, rounded to float32. Otherwise the
 * float32 0.1 would be written as 0.10000000149011612. */
void srv_json_tensor_single(attn_json_text *j, const attn_tensor *t);
/* Writes a flat list of n floats. */
void srv_json_floats(attn_json_text *j, const float *values, size_t n);
/* Ends the text with a newline and sets the reply with status 200: JSON, or the container that the
 * client accepts, with the parts. If req->parts was set, the reply is the JSON without the tensors.
 * false: a problem is set, because memory ran out or the deadline passed. */
bool srv_json_end(attn_json_text *j);
bool srv_json_object_end(attn_json_text *j);

#endif
