/* The models of /v2: the fields that each model takes in addition to those of /v1/attention, and
 * the names of the outputs. */
#ifndef SRV_V2_MODEL_H
#define SRV_V2_MODEL_H

#include "observe/metrics.h"
#include "request/request.h"
#include "wire/decode.h"

#define SRV_V2_VERSION "1"

typedef struct srv_infer_model {
    const char *name;
    /* The object of /v1/attention, such as "projections", whose fields are inputs and parameters of
     * the model; NULL: none. */
    const char *object;
    const srv_field *own; /* the table of `object`: tensors are inputs, other fields parameters */
    bool side_by_side;    /* query, key, value and output are [B, L, D], with all heads in D */
} srv_infer_model;

extern const srv_infer_model srv_infer_models[SRV_INFER_MODELS];

typedef struct srv_v2_output {
    const char *name;
    const char *item; /* the output's name in `return` of /v1/attention */
    /* Number of axes in the metadata. For models with side_by_side, the metadata says 3 instead of
     * 4. 0: the metadata does not list the output, but requests may name it. */
    int rank;
} srv_v2_output;

extern const srv_v2_output srv_v2_outputs[]; /* ended by a row whose name is NULL */

/* Returns whether the models take the field `input` of /v1/attention. The models do not take
 * grad_output and grad_logsumexp, because gradients are not among the outputs. */
bool srv_v2_takes_input(const char *input);
/* Returns the model's index in srv_infer_models. */
size_t srv_v2_model_index(const srv_infer_model *model);
/* Returns the model that the path names, and checks the version if the path has one. NULL: a
 * problem is set. */
const srv_infer_model *srv_v2_find_model(srv_request *req);

#endif
