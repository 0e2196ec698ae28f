/* Requests and answers whose tensors are binary data outside of the JSON: safetensors, npy, npz
 * (requests only), and the Open Inference Protocol.
 *
 * A tensor has the name of the JSON member in whose place it stands: "query", "score.w" for the
 * member "w" of the object "score", "masks.0.attn_mask" for a member of the first object in a list.
 *
 * Requests: a decoded body (srv_decoded_body) is the JSON of a request without its tensors, and the
 * tensors. srv_decode reads it as if the tensors stood in the JSON. Answers: the JSON writer
 * collects the tensors as parts (srv_parts) instead of printing them. */
#ifndef SRV_CONTAINER_H
#define SRV_CONTAINER_H

#include "request/decoded_body.h"

struct srv_field; /* wire/decode.h */

#define SRV_SAFETENSORS "application/vnd.safetensors"
#define SRV_NPY         "application/x-npy"
#define SRV_NPZ         "application/x-npz"

struct srv_parts {
    attn_named_tensor *tensors; /* dense, in the order in which the answer was written */
    size_t count, room;         /* tensors in the list; allocated elements of the list */
    const char *rest;           /* the JSON object of the answer without the tensors, and a NUL */
    size_t rest_size;           /* without the NUL */
    bool binary;  /* the tensors become binary data; false: some of them become JSON */
    int decimals; /* number of decimals to which the answer is rounded; -1: not rounded */
};

/* Decodes a safetensors body: the tensors, and the JSON in the metadata text "request". Tensors
 * whose data is not aligned are copied. false: a problem is set. */
bool srv_safetensors_body(srv_request *req, srv_decoded_body *out);
/* Sets the problem for an error with which attn_safetensors_read refuses a body. A malformed
 * container gets no JSON pointer, because it is not JSON; the text names the tensor. Returns
 * false. */
bool srv_safetensors_refuse(srv_request *req, const attn_error *err);

/* Decodes an .npy body: its array becomes the first tensor field of the table `fields`, and the
 * query string holds the other fields. false: a problem is set. */
bool srv_npy_body(srv_request *req, const struct srv_field *fields, srv_decoded_body *out);
/* Decodes an .npz body, an archive with an .npy file for each tensor, and the JSON in its member
 * "request". false: a problem is set. */
bool srv_npz_body(srv_request *req, srv_decoded_body *out);

/* Stores each tensor of `from` in the member of the decoded struct `to` that its name selects.
 * `fields` is the field table of the struct. If the JSON lacks an object on the way, such as
 * "score" for "score.w", this object gets its default values. false: a problem is set. */
bool srv_insert_tensors(srv_request *req, const srv_decoded_body *from,
                        const struct srv_field *fields, void *to);

/* Returns whether a tensor of this type and shape would fit into the arena. An axis of size 0
 * counts as size 1: a tensor of shape [1e12, 0] has no elements, but loops over its first axis
 * would run 1e12 times. */
bool srv_tensor_fits(const attn_arena *arena, const attn_tensor *t);
/* Sets the problem 413, because the memory of the request does not suffice for its tensors. Returns
 * false. */
static inline bool srv_refuse_tensors(srv_request *req, const char *pointer) {
    return srv_problem_memory(req, pointer,
                              "The memory of one request does not suffice for its tensors");
}
/* Checks that the elements of a boolean tensor are 0 or 1, and copies the data of a tensor if it is
 * not dense or not aligned to its elements. false: a problem is set. */
bool srv_tensor_settle(srv_request *req, attn_named_tensor *t);

/* Replaces the data of the tensor by a dense copy in the arena, unless it is dense already. Returns
 * false if memory ran out. */
bool srv_tensor_make_dense(srv_request *req, attn_tensor *t);
/* Adds a tensor to the parts. `path` has depth + 1 names: those of the `depth` objects around the
 * tensor, from outside, and its own. Returns false if memory ran out or the joined name has more
 * than about 250 bytes. */
bool srv_parts_add(srv_request *req, srv_parts *parts, const char *const *path, int depth,
                   const attn_tensor *t);
/* Sets the reply in the format that req->accept selects, safetensors or npy. The data of the
 * tensors is not copied. false: a problem is set. */
bool srv_parts_reply(srv_request *req, srv_parts *parts);

/* Returns the offset in bytes at which the tensors of a safetensors body begin. `first` are the
 * first `size` bytes of the body; fewer than 8 bytes do not show the offset, and 0 is returned.
 * server/http places the body so that the bytes at this offset are aligned to ATTN_ALIGN. */
size_t srv_safetensors_lead(const char *first, size_t size);

#endif
