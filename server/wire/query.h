/* A query string by a field table, as bodies are decoded: the same names, ranges, errors and
 * openapi.json. */
#ifndef SRV_QUERY_H
#define SRV_QUERY_H

#include "wire/decode.h"

/* Decode the query string of `req` into *out. Lists are written 1,2,3 and ranges 0:256; the fields
 * of objects in the table stand beside its own. false: a problem is set. */
bool srv_decode_query(srv_request *req, const srv_field *fields, void *out);

#endif
