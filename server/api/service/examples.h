/* Reads the embedded examples, for the routes of examples, the index page and openapi.json. */
#ifndef SRV_EXAMPLES_H
#define SRV_EXAMPLES_H

#include "api/service/shelf.h"

/* Iterates over the examples in the order of the list: returns the example after `previous`, or the
 * first example if `previous` is NULL. Returns NULL after the last example. */
const srv_file *srv_example_next(const srv_file *previous);
/* Finds the title and the request body of the first case of the example that is a request to `path`
 * and is answered with status 200. (An example consists of cases: requests with their expected
 * answers.) false: there is no such case. */
bool srv_example_case(const srv_file *file, const char *path, srv_span *title, srv_span *request);
/* Writes the list of examples: objects with id, title, what, tags and href. This is the function of
 * a row (SRV_WRITTEN in wire/answer.h). `unused`, the struct of the row, is not read. */
void srv_examples_put(attn_json_text *j, const void *unused);
/* Prints a line for each example: `indent`, the path padded to `width` columns, and the title. */
void srv_examples_text(attn_text *t, const char *indent, int width);

/* Returns the Host header, for addresses that users copy into a shell or a program. Without this
 * header, or if a shell needs quotes for its characters, returns the default address. */
const char *srv_example_host(const srv_request *req);

#endif
