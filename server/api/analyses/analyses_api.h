/* The routes of measures and comparisons of weights: POST /v1/analyses and those of stored runs. A handler reads the request and sets the whole
 * reply in req->reply. On the HTTP thread it may return SRV_DEFER instead; it is then called again on
 * a request thread. */
#ifndef SRV_ANALYSES_API_H
#define SRV_ANALYSES_API_H

#include "request/request.h"
#include "wire/decode.h"

srv_outcome srv_analyses(srv_request *req);      /* POST /v1/analyses */
srv_outcome srv_runs_analyses(srv_request *req); /* GET …/analyses */
srv_outcome srv_runs_heads(srv_request *req);    /* GET …/heads */

/* The fields of their bodies and query strings. */
extern const srv_field srv_analyses_fields[], srv_run_analyses_query[], srv_run_heads_query[];

#endif
