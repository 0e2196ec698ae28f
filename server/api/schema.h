/* JSON schemas (2020-12) for openapi.json: of bodies, from their field tables; of answers, from
 * schemas.json. */
#ifndef SRV_SCHEMA_H
#define SRV_SCHEMA_H

#include "wire/decode.h"
#include "wire/json_out.h"

/* The schema of a body, as a value. */
void srv_schema_body(srv_json *j, const srv_field *fields);
/* The schema of a query parameter: lists are texts. */
void srv_schema_parameter(srv_json *j, const srv_field *f);
/* Keys and values of components.schemas that bodies and answers refer to: tensors, the problem, one
 * schema a route's answer (schemas.json). */
void srv_schema_components(srv_json *j);

#endif
