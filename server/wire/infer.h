/* The Open Inference Protocol's infer request and answer (version 2, REST, with the binary tensor
 * extension): inputs and parameters become a decoded body (wire/container.h), parts become outputs.
 */
#ifndef SRV_INFER_H
#define SRV_INFER_H

#include "wire/container.h"
#include "wire/decode.h"

#define SRV_INFER_INPUTS  64 /* more than any model has tensors */
#define SRV_INFER_OUTPUTS 16

typedef struct srv_infer_output {
    const char *name;
    int binary; /* 1: binary data, 0: JSON, -1: as `binary` of srv_infer says */
} srv_infer_output;

/* Members of a JSON object, "" or ",…". */
typedef struct srv_infer_fields {
    char *text;
    size_t size, room;
} srv_infer_fields;

typedef struct srv_infer {
    const char *id; /* the answer repeats it; NULL: none */
    attn_named_tensor *inputs;
    size_t input_count;
    const char *types[SRV_INFER_INPUTS]; /* their datatypes */
    srv_infer_output outputs[SRV_INFER_OUTPUTS];
    size_t output_count; /* 0: all of the model */
    bool binary;         /* binary_data_output */
    int64_t timeout_us;  /* 0: none */
    srv_beyond beyond;
    srv_infer_fields fields; /* the parameters that are not the protocol's own */
    srv_infer_fields own;    /* those of them that belong to the model's own object */
} srv_infer;

/* Reads req->body. `own` is the field table of the model's own parameters, or NULL. Returns false
 * with a problem set on failure. */
bool srv_infer_read(srv_request *req, size_t max_depth, const srv_field *own, srv_infer *out);

/* Returns the protocol's name of an element type, such as "FP32". */
const char *srv_infer_datatype(attn_dtype dtype);

/* Sets the reply: the outputs with these `names`, in this order. Returns false with a problem set
 * on failure. */
bool srv_infer_reply(srv_request *req, const srv_infer *in, const char *model, const char *version,
                     const char *const *names, size_t count, const srv_parts *parts);

/* Reads the text of Inference-Header-Content-Length, the size of the JSON in front of binary
 * tensors. Returns false if the text is no number. */
bool srv_infer_lead(const char *text, size_t *out);

#endif
