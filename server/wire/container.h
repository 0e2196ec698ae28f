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

/* The first number beyond the range of its float type. It was read as an infinity, which the
 * request may allow. */
typedef struct srv_beyond {
    const char *pointer, *text; /* its place (NULL: there is none) and the text of the refusal */
} srv_beyond;

/* A place in a body. If a tensor is there: its name and its type in the words of the body, else
 * NULL. */
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

/* Decode a safetensors body: tensors by name, the JSON from __metadata__.request. Data that is not
 * aligned to its element is copied. false: the problem is set. */
bool srv_safetensors_body(srv_request *req, srv_decoded_body *out);

/* Puts each tensor into the member of the decoded struct that its name selects. An object that a
 * tensor needs and that the JSON does not have is added. false: the problem is set. */
bool srv_insert_tensors(srv_request *req, const srv_decoded_body *from,
                        const struct srv_field *fields, void *to);

/* Check and align a binary tensor: a boolean other than 0 and 1 is a problem, and data that is not
 * aligned to its element is copied. */
bool srv_tensor_settle(srv_request *req, attn_named_tensor *t);

/* Add a tensor to the parts; false: out of memory. `path` holds the names of the `depth` objects
 * around it and then its own name. */
bool srv_parts_add(srv_request *req, srv_parts *parts, const char *const *path, int depth,
                   const attn_tensor *t);
/* Set the reply, safetensors or npy as req->accept says. The data of the tensors is not copied. */
bool srv_parts_reply(srv_request *req, srv_parts *parts);

/* The offset of the tensors in a safetensors body, from its first 8 bytes, so that the body can be
 * stored with its tensors at a multiple of ATTN_ALIGN. 0: it is not known. */
size_t srv_safetensors_lead(const char *first, size_t size);

#endif
