/* The route POST /v1/models/{id}/heads, which scores the heads of a model. */
#ifndef SRV_HEADS_API_H
#define SRV_HEADS_API_H

#include "request/request.h"
#include "wire/decode.h"

srv_outcome srv_heads(srv_request *req);
extern const srv_field srv_heads_fields[];  /* fields of the route's body */
extern const srv_field srv_heads_answers[]; /* schemas of its answer (server/wire/answer.h) */

#endif
