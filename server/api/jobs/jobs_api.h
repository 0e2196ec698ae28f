/* The routes of jobs, under /v1/jobs. A handler reads the request and sets the whole reply in
 * req->reply. On the HTTP thread it may return SRV_DEFER instead; it is then called again on a
 * request thread. */
#ifndef SRV_JOBS_API_H
#define SRV_JOBS_API_H

#include "wire/answer.h"

srv_outcome srv_jobs_list(srv_request *req);     /* GET /v1/jobs */
srv_outcome srv_jobs_create(srv_request *req);   /* POST /v1/jobs */
srv_outcome srv_jobs_describe(srv_request *req); /* GET …/{id} */
srv_outcome srv_jobs_remove(srv_request *req);   /* DELETE …/{id} */
srv_outcome srv_jobs_cancel(srv_request *req);   /* POST …/{id}/cancel */
srv_outcome srv_jobs_events(srv_request *req);   /* GET …/{id}/events */
srv_outcome srv_jobs_result(srv_request *req);   /* GET …/{id}/result */
srv_outcome srv_jobs_picture(srv_request *req);  /* GET …/{id}/pictures/{name} */

extern const srv_field srv_jobs_answers[]; /* the schemas of the answers */

#endif
