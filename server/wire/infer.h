/* Requests and answers of the Open Inference Protocol, version 2, over HTTP, with the extension for
 * binary tensors. A request has input tensors, parameters, and the names of the wanted outputs.
 * server/api/service/v2.c makes a decoded body (request/decoded_body.h) from them, and the parts of
 * the answer (container.h) become output tensors.
 *
 * A body is JSON, optionally followed by binary data of tensors. The header
 * Inference-Header-Content-Length then states the size of the JSON. */
#ifndef SRV_INFER_H
#define SRV_INFER_H

#include "wire/container.h"
#include "wire/decode.h"

#define SRV_INFER_INPUTS  64 /* largest number of inputs; no model has so many */
#define SRV_INFER_OUTPUTS 16 /* largest number of outputs of a request */

/* An output that the client requests. */
typedef struct srv_infer_output {
    const char *name;
    int binary; /* 1: send it as binary data, 0: as JSON, -1: as srv_infer.binary says */
} srv_infer_output;

typedef struct srv_infer {
    const char *id; /* id of the request, which the answer repeats; NULL: none */
    attn_named_tensor *inputs;
    size_t input_count;
    const char *types[SRV_INFER_INPUTS]; /* the datatype of each input, such as "FP32" */
    srv_infer_output outputs[SRV_INFER_OUTPUTS];
    size_t output_count; /* 0: the client wants all outputs of the model */
    bool binary;         /* binary_data_output: outputs are binary unless they say otherwise */
    int64_t timeout_us;  /* 0: none */
    srv_beyond beyond;   /* the first number beyond its float type (request/decoded_body.h) */
    /* The parameters that the protocol does not define, as members of a JSON object, each preceded
     * by a comma: ",\"scale\":2,…". They are fields of the operation. `own` has those in the field
     * table `own` of srv_infer_read, and `fields` has the others. */
    attn_text fields, own;
} srv_infer;

/* Reads the body of the request. `max_depth` bounds the nesting of its JSON. `own` is the field
 * table of a nested object of the operation, such as "projections"; the client sends the fields of
 * this object as plain parameters. NULL: there is no such object. false: a problem is set. */
bool srv_infer_read(srv_request *req, size_t max_depth, const srv_field *own, srv_infer *out);

/* Returns the protocol's name of an element type, such as "FP32". */
const char *srv_infer_datatype(attn_dtype dtype);

/* Returns whether all outputs with the `count` names are answered as binary data. */
bool srv_infer_is_binary(const srv_infer *in, const char *const *names, size_t count);

/* Sets the reply. Its outputs are the parts with the `count` names, in this order. false: a problem
 * is set, because memory ran out or a part with one of the names does not exist. */
bool srv_infer_reply(srv_request *req, const srv_infer *in, const char *model, const char *version,
                     const char *const *names, size_t count, const srv_parts *parts);

/* The schemas of requests and answers. */
extern const srv_field srv_infer_answers[];

/* Reads the value of Inference-Header-Content-Length, the size in bytes of the JSON in front of
 * binary tensors. Returns false if the text is not a number. */
bool srv_infer_lead(const char *text, size_t *out);

#endif
