/* Requests and answers whose tensors stand beside the JSON: safetensors and npy bodies, and the
 * Open Inference Protocol.
 *
 * In: a decoded body is the JSON of a request and its tensors, each with the name of its field
 * ("query", "score.w" for a field of an object, "masks.0.attn_mask" for one of a list). srv_decode
 * reads it like a JSON body that had the tensors inside. Out: the JSON writer hands over the
 * tensors of an answer as parts, under the same names, and prints the rest. */
#ifndef SRV_CONTAINER_H
#define SRV_CONTAINER_H

#include <attn/safetensors.h>

#include "request/request.h"

struct srv_field; /* wire/decode.h */

#define SRV_SAFETENSORS "application/vnd.safetensors"
#define SRV_NPY         "application/x-npy"

/* The first number of a body that is beyond the range of its float type. It was read as an
 * infinity; the request is refused unless it allows such numbers. */
typedef struct srv_beyond {
    const char *pointer, *text; /* JSON pointer (NULL: no such number) and text of the problem */
} srv_beyond;

/* A position in a body. If it is that of a tensor, `name` and `type` are as in the body, else NULL.
 */
typedef struct srv_origin {
    char pointer[512];
    const char *name, *type;
} srv_origin;

struct srv_decoded_body {
    const char *text; /* one JSON object, NUL-terminated */
    size_t size;
    const attn_named_tensor *tensors;
    size_t count;
    srv_beyond beyond; /* of JSON that was read into the tensors */
    /* Finds the place in the original body of what stands at `pointer` here; NULL: the places are
     * the same. */
    void (*place)(const srv_decoded_body *body, const char *pointer, srv_origin *out);
};

struct srv_parts {
    attn_named_tensor *tensors; /* dense, in the order of the answer */
    size_t count, room;
    const char *rest; /* the JSON object without them, NUL-terminated */
    size_t rest_size;
    int decimals; /* as in srv_json */
};

/* Decodes a safetensors body into its tensors and the JSON in __metadata__.request. Unaligned data
 * is copied. Returns false with a problem set on failure. */
bool srv_safetensors_body(srv_request *req, srv_decoded_body *out);

/* Puts each tensor into the member of the decoded struct that its name selects. An object that a
 * tensor needs and that the JSON does not have is added. false: the problem is set. */
bool srv_insert_tensors(srv_request *req, const srv_decoded_body *from,
                        const struct srv_field *fields, void *to);

/* Checks and aligns a binary tensor. Unaligned data is copied. Returns false with a problem set if
 * a boolean is neither 0 nor 1 or memory ran out. */
bool srv_tensor_settle(srv_request *req, attn_named_tensor *t);

/* Adds a tensor to the parts. `path` holds the names of the `depth` objects around the tensor and
 * then its own name. Returns false if memory ran out. */
bool srv_parts_add(srv_request *req, srv_parts *parts, const char *const *path, int depth,
                   const attn_tensor *t);
/* Sets the reply in the format that req->accept selects, safetensors or npy. The data of the
 * tensors is not copied. */
bool srv_parts_reply(srv_request *req, srv_parts *parts);

/* Returns the offset of the tensors in a safetensors body, which its first 8 bytes state, or 0 if
 * it is unknown. With it the body can be stored so that its tensors are aligned to ATTN_ALIGN. */
size_t srv_safetensors_lead(const char *first, size_t size);

#endif
