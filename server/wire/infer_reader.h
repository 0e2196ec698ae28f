/* A cursor over an infer request, between the files that read it. Functions that return bool return
 * false after they have made the problem reply. */
#ifndef SRV_INFER_READER_H
#define SRV_INFER_READER_H

#include "wire/infer.h"
#include "wire/scan.h"

typedef struct srv_infer_reader {
    srv_scan s;
    srv_infer *out;
    const srv_field *own;
    const char *blob, *blob_end; /* binary data that no input has taken yet */
} srv_infer_reader;

bool srv_infer_refuse(srv_infer_reader *r, srv_code code, const char *text);
/* Take `mark` and white space around it; `what` is expected otherwise. */
bool srv_infer_need(srv_infer_reader *r, char mark, const char *what);
/* Between members: take ',' (*more) or `close`. */
bool srv_infer_next(srv_infer_reader *r, char close, bool *more);

/* A member of an object, whose value is at the cursor and whose name is on the path. */
typedef struct srv_infer_member {
    srv_name name;
    const char *text; /* the name as it was sent, with its quotes: text_size bytes */
    size_t text_size;
    int key; /* its place in `keys`, their count when it is none of them */
} srv_infer_member;
/* Reads the value. */
typedef bool srv_infer_take(srv_infer_reader *r, const srv_infer_member *m, void *to);
/* The object at the cursor: each member to `take`. `keys`, NULL-terminated, must not come twice;
 * `what` is expected where no object is. */
bool srv_infer_object(srv_infer_reader *r, const char *const *keys, const char *what,
                      srv_infer_take *take, void *to);
/* The problem of a key that is none of `keys`. */
bool srv_infer_unknown(srv_infer_reader *r, const srv_name *name, const char *const *keys);
bool srv_infer_text(srv_infer_reader *r, const char **out);
bool srv_infer_bool(srv_infer_reader *r, bool *out);
bool srv_infer_integer(srv_infer_reader *r, int64_t low, int64_t *out);
/* Step over any value; its grammar is looked at when it is read. */
bool srv_infer_skip_value(srv_infer_reader *r);
/* The object of the request's parameters. */
bool srv_infer_parameters(srv_infer_reader *r);
/* One input, at its '{', and the name of its datatype. */
bool srv_infer_input(srv_infer_reader *r, attn_named_tensor *out, const char **type);

#endif
