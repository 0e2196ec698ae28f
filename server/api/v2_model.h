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
    const char *item; /* what `return` of /v1/attention calls it */
    int rank; /* of the metadata; 0: not there, but answered when asked for by name; 4 is one less
                 where the heads are side by side */
} srv_v2_output;

extern const srv_v2_output srv_v2_outputs[]; /* ended by a row with name NULL */

typedef struct srv_infer_model {
    const char *name;
    const char *object;   /* the field of /v1/attention that this model is about; NULL: none */
    const srv_field *own; /* its table: tensors are inputs, the others parameters */
    bool side_by_side;    /* query, key, value and output are [B, L, D] */
} srv_infer_model;

extern const srv_infer_model srv_infer_models[SRV_INFER_MODELS];

/* Is this field of /v1/attention an input? Gradients have no names among the outputs. */
bool srv_v2_takes(const char *input);
/* The model (and version, when there is one) of the path; NULL: a problem is set. */
const srv_infer_model *srv_v2_find(srv_request *req);
/* Its place among the models. */
size_t srv_v2_index_of(const srv_infer_model *model);

#endif
