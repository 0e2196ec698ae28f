/* The models of /v2: the fields that each takes besides those of /v1/attention, and the names of
 * the outputs. */
#ifndef SRV_V2_MODEL_H
#define SRV_V2_MODEL_H

#include "observe/metrics.h"
#include "request/request.h"
#include "wire/decode.h"

#define SRV_V2_VERSION "1"

typedef struct srv_infer_model {
    const char *name;
    const char *object;   /* the object of /v1/attention whose fields the model has; NULL: none */
    const srv_field *own; /* the table of `object`: its tensors are inputs, the rest parameters */
    bool side_by_side;    /* query, key, value and output are [B, L, D], heads side by side in D */
} srv_infer_model;

extern const srv_infer_model srv_infer_models[SRV_INFER_MODELS];

#endif
