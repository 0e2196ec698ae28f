/* The parts of openapi.json that several operations refer to (refusals, headers and parameters),
 * and small writers of JSON that openapi.c and openapi_parts.c share. */
#ifndef SRV_OPENAPI_PARTS_H
#define SRV_OPENAPI_PARTS_H

#include "api/common/route.h"
#include "wire/json_out.h"

/* Writes a member whose value is the JSON `text`. */
void srv_api_raw(attn_json_text *j, const char *key, const char *text);
/* Writes the value {"$ref": "#/components/<kind>/<name><suffix>"}. */
void srv_api_ref(attn_json_text *j, const char *kind, const char *name, const char *suffix);
/* Writes "<type>": {"schema": {"$ref": …}}. */
void srv_api_schema(attn_json_text *j, const char *type, const char *schema);
/* Writes the member `example` from answers.json: the request of the route if `what` is "request
 * of", its answer if `what` is "answer of". A /v2 route with a version in its path has the example
 * of the route without a version. Writes nothing if there is no example. */
void srv_api_example(attn_json_text *j, const srv_route *route, const char *what);
/* Writes the member `headers`: X-Request-Id and the headers in `names`, which ends with NULL. */
void srv_api_headers(attn_json_text *j, const char *const *names);
/* Returns whether the route runs a model of the Open Inference Protocol (POST …/infer). */
bool srv_api_infers(const srv_route *route);

/* Write the refusals of a route among its responses, and its member `parameters`. */
void srv_api_refusals(attn_json_text *j, const srv_route *route);
void srv_api_parameters(attn_json_text *j, const srv_route *route);
/* Writes the members of `components` to which operations refer, except the schemas. `keys`: API
 * keys are configured. */
void srv_api_shared(attn_json_text *j, bool keys);

#endif
