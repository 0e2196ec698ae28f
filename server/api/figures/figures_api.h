/* The routes that draw numbers of the request: POST /v1/heatmaps and POST /v1/curves. A handler
 * reads the request and sets the whole reply in req->reply. On the HTTP thread it may return
 * SRV_DEFER instead; it is then called again on a request thread. */
#ifndef SRV_FIGURES_API_H
#define SRV_FIGURES_API_H

#include "request/request.h"
#include "wire/decode.h"

srv_outcome srv_heatmaps(srv_request *req); /* POST /v1/heatmaps */
srv_outcome srv_curves(srv_request *req);   /* POST /v1/curves */

/* The fields of the routes' bodies. */
extern const srv_field srv_heatmaps_fields[], srv_curves_fields[];
extern const srv_field srv_curve_answers[]; /* the schema Curves */

#endif
