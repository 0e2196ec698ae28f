/* The models of /v2: what each takes beside the fields of /v1/attention, and what its outputs are
 * called. */
#ifndef SRV_V2_MODEL_H
#define SRV_V2_MODEL_H

#include "observe/metrics.h"
#include "request/request.h"
#include "wire/decode.h"

#define SRV_V2_VERSION "1"

typedef struct srv_v2_output {
    const char *name;
    const char *item; /* its name in `return` of /v1/attention */
    int rank; /* in the metadata; 0: not listed there, but answered when asked for; 4 is 3 where
                 heads are side by side */
} srv_v2_output;

extern const srv_v2_output srv_v2_outputs[]; /* ended by a row with name NULL */

typedef struct srv_infer_model {
    const char *name;
    const char *object;   /* the field of /v1/attention that this model is about; NULL: none */
    const srv_field *own; /* its field table: tensors are inputs, other fields parameters */
    bool side_by_side;    /* query, key, value and output are [B, L, D] */
} srv_infer_model;

extern const srv_infer_model srv_infer_models[SRV_INFER_MODELS];

/* Is this field of /v1/attention an input? Gradients are not among the outputs, so grad_output is
 * none. */
bool srv_v2_takes(const char *input);
/* The model (and version, when there is one) of the path; NULL: a problem is set. */
const srv_infer_model *srv_v2_find(srv_request *req);
/* The index of the model. */
size_t srv_v2_index_of(const srv_infer_model *model);

#endif
