/* The embedded examples, for the routes of examples, the index page and openapi.json. */
#ifndef SRV_EXAMPLES_H
#define SRV_EXAMPLES_H

#include "system/embedded.h"
#include "wire/json_out.h"

/* A part of an embedded file; no NUL follows it. */
typedef struct srv_span {
    const char *data;
    size_t size;
} srv_span;

/* Iterates over the examples in the order of the list: returns the example after `previous`, or the
 * first one if `previous` is NULL. Returns NULL after the last one. */
const srv_file *srv_example_next(const srv_file *previous);
/* Returns the JSON value of a top-level field as the file has it; "null" if the file lacks it. */
srv_span srv_example_field(const srv_file *file, const char *name);
/* Finds the title and the request body of the first case of the example that is a request to `path`
 * and is answered with status 200. (An example consists of cases: requests with their expected
 * answers.) false: there is no such case. */
bool srv_example_case(const srv_file *file, const char *path, srv_span *title, srv_span *request);
/* Writes the list of examples: objects with id, title, what, tags and href. It is the function of a
 * row (SRV_WRITTEN in wire/answer.h), and reads nothing from the struct of that row. */
void srv_examples_put(attn_json_text *j, const void *unused);
/* Prints a line for each example: `indent`, its path padded to `width` columns, and its title. */
void srv_examples_text(attn_text *t, const char *indent, int width);

/* Returns the Host header for addresses that users copy into a shell or a program. If it is absent
 * or has characters for which a shell needs quotes, returns the default address instead. */
const char *srv_example_host(const srv_request *req);

#endif
