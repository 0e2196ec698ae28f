/* The route POST /v1/masks. Its handler reads the request and sets the whole reply in req->reply.
 * On the HTTP thread it may return SRV_DEFER instead; it is then called again on a request
 * thread. */
#ifndef SRV_MASKS_API_H
#define SRV_MASKS_API_H

#include "request/request.h"
#include "wire/decode.h"

srv_outcome srv_masks(srv_request *req); /* POST /v1/masks */

extern const srv_field srv_masks_fields[];  /* the fields of the body */
extern const srv_field srv_masks_answers[]; /* the schema Mask */

#endif
