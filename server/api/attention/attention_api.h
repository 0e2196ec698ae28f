/* The route POST /v1/attention. Its handler reads the request and sets the whole reply in
 * req->reply. On the HTTP thread it may return SRV_DEFER instead; it is then called again on a
 * request thread. */
#ifndef SRV_ATTENTION_API_H
#define SRV_ATTENTION_API_H

#include "request/request.h"
#include "wire/decode.h"

srv_outcome srv_attention(srv_request *req); /* POST /v1/attention */

/* The fields of the body. */
extern const srv_field srv_attention_fields[];
/* The schemas of the answer (wire/answer.h). */
extern const srv_field srv_attention_answers[];

#endif
