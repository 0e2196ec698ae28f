/* The words of a model, under /v1/models/{id}/vocabulary. */
#ifndef SRV_VOCABULARY_API_H
#define SRV_VOCABULARY_API_H

#include "request/request.h"
#include "wire/decode.h"

srv_outcome srv_models_vocabulary(srv_request *req); /* GET */

extern const srv_field srv_models_vocabulary_query[]; /* fields of its query string */
extern const srv_field srv_vocabulary_answers[];      /* schemas of its answers */

#endif
