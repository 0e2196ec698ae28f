/* Tensors in a JSON body, decoded straight into arena buffers.
 *
 * A tensor is nested lists, or an object: {"shape":[..], "dtype":"float32", one of
 *   "data":[flat list] | "base64":"little-endian bytes" |
 *   "random":"normal" or "uniform" (with "seed", default 0; element i is number i of attn/rng.h) |
 *   "fill":"zeros", "ones", "eye" (over the last two axes) or "arange" (0, 1, 2, … row-major)}. */
#ifndef SRV_TENSOR_IN_H
#define SRV_TENSOR_IN_H

#include "wire/decode.h"
#include "wire/scan.h"

/* Read the tensor at the cursor; `accepts`: SRV_T_* bits. false: the problem is set. */
bool srv_tensor_read(srv_scan *s, unsigned accepts, attn_tensor *out);

/* Nested or flat lists of numbers (booleans for ATTN_BOOL) read as this type. */
bool srv_tensor_list(srv_scan *s, attn_dtype dtype, attn_tensor *out);

/* --- between the files of the tensor reader --- */

/* Lists of numbers on their way into `data`. */
typedef struct srv_tensor_reader {
    srv_scan *s;
    unsigned accepts;
    attn_dtype dtype;
    char *data;
    size_t count, room;          /* elements */
    size_t index[ATTN_MAX_RANK]; /* where the reader is, from the outermost axis */
    size_t dims[ATTN_MAX_RANK];  /* SIZE_MAX: not known yet */
    int rank;                    /* 0: not known yet */
} srv_tensor_reader;

/* The type that the first element at p (inside of lists) asks for, among those accepted. */
attn_dtype srv_tensor_reader_dtype(const char *p, unsigned accepts);
/* How many elements the lists between two places can hold at most. */
size_t srv_tensor_reader_room(const char *from, const char *to);
/* Take room for the elements; false: 413. */
bool srv_tensor_reader_take(srv_tensor_reader *l);
/* Read the elements of the innermost list whose '[' has been taken, up to and including its ']';
 * *n counts them. `level`: its axis. */
bool srv_tensor_reader_row(srv_tensor_reader *l, int level, size_t *n);
/* Read large nested lists of float32 by all workers. false: they are not large, or not of the usual
 * form, or wrong; nothing is taken and no problem set. */
bool srv_tensor_reader_in_pieces(srv_scan *s, attn_tensor *out);
/* The problem of the element at the cursor, which cannot be read as l->dtype. */
bool srv_tensor_reader_refuse(srv_tensor_reader *l, int level, size_t at);

/* The object form; the cursor is at its '{'. */
bool srv_tensor_object(srv_scan *s, unsigned accepts, attn_tensor *out);
/* Bytes for `count` elements, checked and taken from the arena; NULL: the problem is set. */
void *srv_tensor_take(srv_scan *s, attn_dtype dtype, size_t count);
/* Elements from rng or a rule; `what` is the value of "random" or "fill". */
bool srv_tensor_random(srv_scan *s, const srv_name *what, int64_t seed, attn_tensor *t);
bool srv_tensor_fill(srv_scan *s, const srv_name *what, attn_tensor *t);
/* Store one value as the dtype says (bfloat16 and float16 rounded to nearest even). */
void srv_tensor_store(void *data, attn_dtype dtype, size_t i, double value);
/* n floats narrowed into float16 or bfloat16. */
void srv_tensor_narrow(void *data, attn_dtype dtype, size_t first, const float *src, size_t n);

#endif
