/* Requests and answers whose tensors travel beside the JSON: safetensors and npy bodies, and the
 * Open Inference Protocol.
 *
 * In: a form is the JSON of a request (text) and tensors by the field they belong to ("query",
 * "score.w" for a field of an object, "masks.0.attn_mask" of a list); srv_decode reads it like a
 * JSON body that had them inside. Out: the JSON writer hands the tensors of an answer that have a
 * name of their own over as parts, under the same names, and prints what is left. */
#ifndef SRV_CONTAINER_H
#define SRV_CONTAINER_H

#include <attn/safetensors.h>

#include "request/request.h"

struct srv_field; /* wire/decode.h */

#define SRV_SAFETENSORS "application/vnd.safetensors"
#define SRV_NPY         "application/x-npy"

/* The first number that its float type cannot hold: read as an infinity, which the request may
 * allow. */
typedef struct srv_beyond {
    const char *pointer, *text; /* where, NULL: none; and what to say */
} srv_beyond;

/* A place in a body, and what the body calls a tensor that is there, and its type; or NULL. */
typedef struct srv_origin {
    char pointer[512];
    const char *name, *type;
} srv_origin;

struct srv_form {
    const char *text; /* one JSON object, NUL-terminated */
    size_t size;
    const attn_named_tensor *tensors;
    size_t count;
    srv_beyond beyond; /* of JSON that was read into the tensors */
    /* Where in the body that the form was made of stands what `pointer` points at in the form;
     * NULL: at the same place. */
    void (*place)(const srv_form *form, const char *pointer, srv_origin *out);
};

struct srv_parts {
    attn_named_tensor *tensors; /* dense, in the order of the answer */
    size_t count, room;
    const char *rest; /* the JSON object without them, NUL-terminated */
    size_t rest_size;
    int decimals; /* as in srv_json */
};

/* A safetensors body as a form: tensors by name, the JSON from __metadata__.request. Data that is
 * not aligned to its element is copied. false: the problem is set. */
bool srv_form_read(srv_request *req, srv_form *out);

/* Put the tensors of a form into the struct that its JSON was decoded into: each where its name
 * says. An object that they need and that the JSON does not have is made. false: the problem is
 * set. */
bool srv_insert_tensors(srv_request *req, const srv_form *form, const struct srv_field *fields,
                        void *body);

/* What every binary tensor goes through: booleans are 0 and 1 (else a problem at its name), and
 * data that is not aligned to its element is copied. */
bool srv_tensor_settle(srv_request *req, attn_named_tensor *t);

/* Record a tensor; false: out of memory. `path` has `depth` names of enclosing objects, then its
 * own. */
bool srv_parts_add(srv_request *req, srv_parts *parts, const char *const *path, int depth,
                   const attn_tensor *t);
/* The reply: safetensors or npy, as req->accept says, with the blobs where they are. */
bool srv_parts_reply(srv_request *req, srv_parts *parts);

/* Bytes behind which the tensors of a body begin, so that it can be placed with them at a multiple
 * of ATTN_ALIGN: of safetensors from its first 8 bytes. 0: not known. */
size_t srv_form_lead(const char *first, size_t size);

#endif
