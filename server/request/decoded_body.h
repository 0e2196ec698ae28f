/* A decoded body: the JSON of a request, and the tensors that were sent beside it. server/wire
 * makes it from containers and query strings. Problems point to the body that the client has sent.
 * Therefore a decoded body also gives the origin of each of its values. */
#ifndef SRV_DECODED_BODY_H
#define SRV_DECODED_BODY_H

#include <attn/safetensors.h>

#include "request/request.h"

/* The first number of a body that is beyond the range of its float type, such as 1e39 for float32.
 * It was read as an infinity. The request is refused for it unless one of its fields allows such
 * numbers (SRV_B_BEYOND in decode.h). */
typedef struct srv_beyond {
    const char *pointer; /* JSON pointer to the number; NULL: there is no such number */
    const char *text;    /* detail of the problem */
} srv_beyond;

/* The place of a value in the body that the client has sent. */
typedef struct srv_origin {
    char pointer[512];       /* JSON pointer */
    const char *name, *type; /* name and datatype of a tensor in the body; NULL: not a tensor */
} srv_origin;

struct srv_decoded_body {
    const char *text; /* the JSON of the request, one object of `size` bytes; a NUL follows it */
    size_t size;
    const attn_named_tensor *tensors;
    size_t count;
    srv_beyond beyond; /* for tensors that were read from JSON (Open Inference) */
    /* Writes to *out the place that the value at `pointer` in `text` has in the body that the
     * client has sent, because problems must point to that body. NULL if the client's body has
     * every value at the same pointer. */
    void (*place)(const srv_decoded_body *body, const char *pointer, srv_origin *out);
};

#endif
