/* The Open Inference Protocol's infer request and answer (version 2, REST, with the binary tensor
 * extension): inputs and parameters become a form (wire/container.h), parts become outputs. */
#ifndef SRV_INFER_H
#define SRV_INFER_H

#include "wire/container.h"
#include "wire/decode.h"

#define SRV_INFER_INPUTS  64 /* more than any model has tensors */
#define SRV_INFER_OUTPUTS 16

typedef struct srv_infer_output {
    const char *name;
    int binary; /* 0, 1; -1 = as the request says for all */
} srv_infer_output;

/* Members of a JSON object, "" or ",…". */
typedef struct srv_infer_fields {
    char *text;
    size_t size, room;
} srv_infer_fields;

typedef struct srv_infer {
    const char *id; /* to be repeated; NULL: none */
    attn_named_tensor *inputs;
    size_t input_count;
    const char *types[SRV_INFER_INPUTS]; /* their datatypes */
    srv_infer_output outputs[SRV_INFER_OUTPUTS];
    size_t output_count; /* 0: all of the model */
    bool binary;         /* binary_data_output */
    int64_t timeout_us;  /* 0: none */
    srv_beyond beyond;
    srv_infer_fields fields; /* the other parameters, */
    srv_infer_fields own;    /* but those that belong to the object of the model's own */
} srv_infer;

/* Read req->body; req->infer_header is the text of Inference-Header-Content-Length or NULL. `own`:
 * the table of the model's own parameters, NULL: none. false: the problem is set. */
bool srv_infer_read(srv_request *req, size_t max_depth, const srv_field *own, srv_infer *out);

/* "FP32", …; the protocol's name of an element type. */
const char *srv_infer_datatype(attn_dtype dtype);

/* The answer's outputs in the order asked for. `names` (count of them): those to answer. false: a
 * problem is set. */
bool srv_infer_reply(srv_request *req, const srv_infer *in, const char *model, const char *version,
                     const char *const *names, size_t count, const srv_parts *parts);

/* How long the JSON before binary tensors is said to be; false: the text is no number. */
bool srv_infer_lead(const char *text, size_t *out);

#endif
