/* The routes of models, under /v1/models. A handler reads the request and sets the whole reply in
 * req->reply. On the HTTP thread it may return SRV_DEFER instead, and is then called again on a
 * request thread. */
#ifndef SRV_MODELS_API_H
#define SRV_MODELS_API_H

#include "api/models/models_call.h"
#include "request/request.h"
#include "wire/decode.h"

srv_outcome srv_models_list(srv_request *req);      /* GET */
srv_outcome srv_models_create(srv_request *req);    /* POST */
srv_outcome srv_models_describe(srv_request *req);  /* GET …/{id} */
srv_outcome srv_models_remove(srv_request *req);    /* DELETE …/{id} */
srv_outcome srv_models_attention(srv_request *req); /* POST …/{id}/attention */
srv_outcome srv_models_generate(srv_request *req);  /* POST …/{id}/generate */

/* The fields of the routes' bodies and query strings. */
extern const srv_field srv_models_fields[], srv_models_attention_fields[],
    srv_models_generate_fields[];

/* The schemas of the routes' answers (server/wire/answer.h). */
extern const srv_field srv_models_answers[], srv_models_step_answers[],
    srv_models_generation_answers[], srv_models_attention_answers[];

#endif
