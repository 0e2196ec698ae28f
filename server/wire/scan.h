/* Scanners of request bodies. A scanner is a scanner of lib/json together with the request whose
 * body it reads. Its errors become problems that name the line and the pointer, and it notes the
 * first number beyond its float type. decode.c reads objects, lists and strings with it, and
 * tensor_*.c read tensors.
 *
 * The server puts a NUL behind each text, and the text itself has none (srv_decode_document checks
 * that first). Therefore *s->p can always be read here, and every loop stops at the NUL.
 *
 * Functions that return bool set a problem before they return false. */
#ifndef SRV_SCAN_H
#define SRV_SCAN_H

#include "wire/container.h"
#include "json/json_scan.h"

/* The `owner` of a scanner. */
typedef struct srv_scan {
    srv_request *req;
    const char *ragged; /* srv_field.ragged of the tensor that is read; NULL: none */
    srv_beyond beyond;  /* the first number beyond its float type (request/decoded_body.h) */
} srv_scan;
static inline srv_scan *srv_scan_of(const attn_scan *s) {
    return s->owner;
}

/* Returns a scanner without text, whose errors are problems of own->req. */
attn_scan srv_scan_new(srv_scan *own);

/* Sets a problem at the path. Returns false. */
bool srv_scan_refuse(attn_scan *s, srv_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Refuses the value at the cursor: "expected <expected>, found <the value>". If no value stands
 * there, the JSON is malformed, whatever the code. Returns false. */
bool srv_scan_unexpected(attn_scan *s, srv_code code, const char *expected);
/* Reads an integer from `least` to `most` into *out. For any other value, sets the problem of
 * srv_scan_unexpected with `code` and `expected`. */
bool srv_scan_integer(attn_scan *s, int64_t least, int64_t most, srv_code code,
                      const char *expected, int64_t *out);
/* Sets the problem 413, because the memory of the request does not suffice for the tensor at the
 * path. Returns false. */
bool srv_scan_memory(attn_scan *s);
/* Sets the problem that lists and objects are nested too deep. Returns false. */
bool srv_scan_depth(attn_scan *s);
/* Does what attn_scan_open does: enters the list or object at the cursor. If it is nested too deep,
 * sets the problem of srv_scan_depth. */
bool srv_scan_open(attn_scan *s, char close, bool *more);

/* Advice for null and Infinity in tensors of the Open Inference Protocol. */
#define SRV_SCAN_INFER_INFINITY                                                                    \
    "the Open Inference Protocol has none in JSON: send -infinity as binary data, or a mask as "   \
    "BOOL"

/* Returns the member timeout_ms of a JSON object that is not decoded yet, in milliseconds. 0: it is
 * missing or not a valid timeout. The text may be malformed; the decoder reports that later. */
int64_t srv_scan_timeout(const char *text, size_t size);
/* Returns the member parameters.timeout of an Open Inference request in the same way, in
 * microseconds. */
int64_t srv_scan_infer_timeout(const char *text, size_t size);

#endif
