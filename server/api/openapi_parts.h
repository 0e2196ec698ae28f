/* Inside openapi.json: what its parts share. */
#ifndef SRV_OPENAPI_PARTS_H
#define SRV_OPENAPI_PARTS_H

#include "api/route.h"
#include "wire/json_out.h"

/* "key": "text" */
void srv_openapi_put(srv_json *j, const char *key, const char *text);
/* {"$ref": "#/components/<kind>/<name><suffix>"} */
void srv_openapi_ref(srv_json *j, const char *kind, const char *name, const char *suffix);
/* "headers": X-Request-Id and those of the list, ended by NULL. */
void srv_openapi_headers(srv_json *j, const char *const *names);

/* What else than success a route may answer: "400": {"$ref": …}, … */
void srv_openapi_refusals(srv_json *j, const srv_route *route);
/* "parameters": of the path and of the header. */
void srv_openapi_parameters(srv_json *j, const srv_route *route);
/* "examples" of a request body, from the worked examples; nothing when there is none. */
void srv_openapi_examples(srv_json *j, const srv_route *route);

/* The members of components, but schemas. */
void srv_openapi_components(srv_json *j);

#endif
