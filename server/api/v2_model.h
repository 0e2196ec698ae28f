/* The one model of /v2: what its outputs are called, and what was counted of its requests. */
#ifndef SRV_V2_MODEL_H
#define SRV_V2_MODEL_H

#include "request.h"

#define SRV_V2_MODEL   "scaled_dot_product_attention"
#define SRV_V2_VERSION "1"

typedef struct srv_v2_output {
    const char *name;
    const char *item; /* what `return` of /v1/attention calls it */
    int rank;         /* of the metadata; 0: not there, but answered when asked for by name */
} srv_v2_output;

extern const srv_v2_output srv_v2_outputs[]; /* ended by a row with name NULL */

/* Does the path's model (and version, when there is one) exist? false: a problem is set. */
bool srv_v2_find(srv_request *req);

#endif
