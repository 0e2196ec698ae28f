/* The route POST /v1/positions. Its handler reads the request and sets the whole reply in
 * req->reply. On the HTTP thread it may return SRV_DEFER instead; it is then called again on a
 * request thread. */
#ifndef SRV_POSITIONS_API_H
#define SRV_POSITIONS_API_H

#include "request/request.h"
#include "wire/decode.h"

srv_outcome srv_positions(srv_request *req); /* POST /v1/positions */

extern const srv_field srv_positions_fields[];  /* the fields of the body */
extern const srv_field srv_positions_answers[]; /* the schema Positions */

#endif
