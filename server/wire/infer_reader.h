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
/* "key": taken, and the key put on the path (*mark goes back); *key: its place in `keys`, their
 * count when it is none of them. `seen`: those that were there, which must not come twice. */
bool srv_infer_key(srv_infer_reader *r, srv_name *name, const char *const *keys, unsigned *seen,
                   int *key, size_t *mark);
/* The problem of a key that is none of `keys`. */
bool srv_infer_unknown(srv_infer_reader *r, const srv_name *name, const char *const *keys);
bool srv_infer_text(srv_infer_reader *r, const char **out);
bool srv_infer_bool(srv_infer_reader *r, bool *out);
bool srv_infer_integer(srv_infer_reader *r, int64_t low, int64_t *out);
/* Step over any value; its grammar is looked at when it is read. */
bool srv_infer_skip_value(srv_infer_reader *r);
/* {"key": ..} with the one key of an input (*size) or of an output (*binary). */
bool srv_infer_own(srv_infer_reader *r, const char *const *keys, int64_t *size, int *binary);

/* One input, at its '{'. */
bool srv_infer_input(srv_infer_reader *r, attn_named_tensor *out);

#endif
