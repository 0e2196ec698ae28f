/* Names of the queries and keys: rows and columns of the weights. */
#ifndef SRV_LABELS_H
#define SRV_LABELS_H

#include "api/scope.h"
#include "wire/json_out.h"

typedef struct srv_labels {
    uint64_t given;
    srv_strings query, key;
} srv_labels;

extern const srv_field srv_label_fields[];

/* As many labels as queries (L) and keys (S); false and a problem otherwise. `scope` is the body.
 */
bool srv_labels_check(const srv_scope *scope, const srv_labels *labels, size_t L, size_t S);
/* {"query": [..], "key": [..]}, those that were given. */
void srv_labels_write(srv_json *j, const srv_labels *labels);

#endif
