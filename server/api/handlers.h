/* Handlers that rows of srv_routes name and that live in status.c; each works from what server/http
 * put into the request and leaves its reply there. */
#ifndef SRV_HANDLERS_H
#define SRV_HANDLERS_H

#include "request.h"

srv_outcome srv_get_healthz(srv_request *req); /* 200 while the process can answer */
srv_outcome srv_get_readyz(srv_request *req);  /* 503 while draining */
srv_outcome srv_get_version(srv_request *req); /* version, kernels and why, limits */
srv_outcome srv_get_metrics(srv_request *req); /* Prometheus text 0.0.4 */

#endif
