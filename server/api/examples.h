/* The embedded examples, for their own routes, the index and openapi.json. */
#ifndef SRV_EXAMPLES_H
#define SRV_EXAMPLES_H

#include "system/embedded.h"
#include "wire/json_out.h"

/* A piece of an embedded file. */
typedef struct srv_span {
    const char *data;
    size_t size;
} srv_span;

/* The next example in the order of the list; NULL asks for the first, and ends it. */
const srv_file *srv_example_next(const srv_file *previous);
/* The JSON value of a top-level field, as written in the file; "null" when it has none. */
srv_span srv_example_field(const srv_file *file, const char *name);
/* Finds title and body of the first case that asks `path` and is answered with 200. false: there
 * is none. */
bool srv_example_case(const srv_file *file, const char *path, srv_span *title, srv_span *request);
/* The path "/v1/examples/<id>" as arena text. */
const char *srv_example_href(const srv_file *file, attn_arena *arena);
/* Writes one object of the list: id, title, what, tags, href. */
void srv_example_write(srv_json *j, const srv_file *file);

#endif
