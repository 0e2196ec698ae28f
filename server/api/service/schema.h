/* JSON schemas (2020-12) for openapi.json. Schemas of bodies come from field tables, schemas of
 * answers from the rows that write them (wire/answer.h). */
#ifndef SRV_SCHEMA_H
#define SRV_SCHEMA_H

#include "wire/answer.h"
#include "wire/json_out.h"

/* Writes the schema of a body as a value. */
void srv_schema_body(attn_json_text *j, const srv_field *fields);
/* Writes the schema of a parameter of a query string, where a list is written as a string. */
void srv_schema_parameter(attn_json_text *j, const srv_field *f);
/* Writes a member of components.schemas for each row of `schemas`. If the row is a SRV_GROUP, the
 * schema describes the rows of the group, else the `type` of the row. */
void srv_schema_answers(attn_json_text *j, const srv_field *schemas);
/* Writes the schemas of tensors and of the files that hold them. */
void srv_schema_tensors(attn_json_text *j);
/* Writes the members of components.schemas that bodies and answers share: the schemas of tensors
 * and of problem codes. */
void srv_schema_components(attn_json_text *j);

#endif
