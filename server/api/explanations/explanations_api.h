/* POST /v1/models/{id}/explain explains what the heads and layers of a model do. */
#ifndef SRV_EXPLANATIONS_API_H
#define SRV_EXPLANATIONS_API_H

#include "request/request.h"
#include "wire/decode.h"

/* The handler, which sets the whole reply in req->reply. On the HTTP thread it may return SRV_DEFER
 * instead, and is then called again on a request thread. */
srv_outcome srv_models_explain(srv_request *req);

extern const srv_field srv_models_explain_fields[];
/* The schema ModelExplanation. */
extern const srv_field srv_models_explain_answers[];

#endif
