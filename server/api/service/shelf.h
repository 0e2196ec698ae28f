/* Shelves: JSON files, embedded or of a directory, that two routes serve. One route answers the list
 * of the files with some fields of each, the other answers a file. The worked examples and the
 * lessons are shelves. */
#ifndef SRV_SHELF_H
#define SRV_SHELF_H

#include "system/embedded.h"
#include "wire/answer.h"

enum { SRV_SHELF_MOST = 255 }; /* largest number of files */

/* A part of a file. The text does not end with NUL. */
typedef struct srv_span {
    const char *data;
    size_t size;
} srv_span;

typedef struct srv_shelf {
    const char *folder; /* prefix of the names of its files: "examples/" */
    const char *route;  /* prefix of the paths of its files: "/v1/examples/" */
    const char *kind;   /* the word for a file in error texts: "example" */
    const srv_file *in_order[SRV_SHELF_MOST + 1];
} srv_shelf;

typedef enum srv_shelf_name { SRV_EXAMPLES, SRV_LESSONS } srv_shelf_name;
/* Returns a shelf. Its files are sorted by their member `order`, and by name if this is equal. Any
 * thread may call it. */
const srv_shelf *srv_shelf_of(srv_shelf_name name);
/* Puts a file `id`.json on a shelf, in its order. It takes the place of a file of the same id. The
 * shelf keeps `data` until the process ends: well-formed JSON of `size` bytes with a NUL behind it.
 * Must be called before the service answers requests. false: the shelf is full, or memory ran out;
 * `data` is still the caller's. */
bool srv_shelf_add(srv_shelf_name name, const char *id, const char *data, size_t size);
/* Returns the file after `previous`, or the first one if `previous` is NULL. NULL: `previous` was
 * the last file. */
const srv_file *srv_shelf_next(const srv_shelf *shelf, const srv_file *previous);

/* Returns the JSON of a member of the object at p, unchanged. "null": there is no such member. The
 * text must be well-formed JSON. */
srv_span srv_span_member(const char *p, const char *name);
/* Returns the JSON of a top-level member of the file, unchanged. "null": the file lacks the
 * member. */
srv_span srv_span_of(const srv_file *file, const char *name);
bool srv_span_is_null(srv_span span);
/* srv_span_behind returns the address behind the JSON value at p. srv_span_skip_space returns the
 * address behind white space at p. */
const char *srv_span_behind(const char *p);
const char *srv_span_skip_space(const char *p);
/* Returns the address of the next item of a list or object, or of the bracket that ends it. p is at
 * the value of an item. */
const char *srv_span_next(const char *p);

/* Returns the path of a file, such as "/v1/examples/causal", in the arena. */
const char *srv_shelf_path(const srv_shelf *shelf, const srv_file *file, attn_arena *arena);
/* Writes the list: an object for each file with the members of `rows`. Members whose row has no
 * function are copied from the file. */
void srv_shelf_put(attn_json_text *j, const srv_shelf *shelf, const srv_field *rows);
/* Prints a line for each file: `indent`, the path padded to `width` columns, and the title. */
void srv_shelf_text(attn_text *t, const srv_shelf *shelf, const char *indent, int width);
/* Answers the file whose id is req->params[0], or 404 with the most similar id. */
srv_outcome srv_shelf_one(srv_request *req, const srv_shelf *shelf);

#endif
