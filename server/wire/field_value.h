/* One value of a body, decoded as the row of its field table says (wire/fields.h). Only for
 * wire/fields.c, which walks objects. */
#ifndef SRV_FIELD_VALUE_H
#define SRV_FIELD_VALUE_H

#include <jansson.h>

#include "wire/envelope.h"
#include "wire/scan.h"

typedef struct srv_decoder {
    srv_request *req;
    srv_envelope envelope;
    srv_path path; /* of the value */
} srv_decoder;

/* v into *out, of the type that f's kind names; objects and lists of them are not for it. false:
 * the request has the problem. Lists and texts are copied into its arena. */
bool srv_field_value(srv_decoder *d, const srv_field *f, const json_t *v, void *out);

/* false, with the problem that v is not as expected. */
bool srv_field_refuse(srv_decoder *d, srv_code code, const json_t *v, const char *expected);
/* Is the list v no longer than f allows? Else false, with the problem. */
bool srv_field_counts(srv_decoder *d, const srv_field *f, const json_t *v);
/* `count` zeroed elements of the request's memory; NULL, with the problem, when it is used up. */
void *srv_field_take(srv_decoder *d, size_t count, size_t size);
/* false, with that problem. */
bool srv_field_no_memory(srv_decoder *d);

#endif
