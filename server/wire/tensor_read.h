/* Tensors in a JSON body, decoded straight into arena buffers.
 *
 * A tensor is nested lists, or an object: {"shape":[..], "dtype":"float32", one of
 *   "data":[flat list] | "base64":"little-endian bytes" |
 *   "random":"normal" or "uniform" (with "seed", default 0; element i is number i of attn/rng.h) |
 *   "fill":"zeros", "ones", "eye" (over the last two axes) or "arange" (0, 1, 2, … row-major)}. */
#ifndef SRV_TENSOR_READ_H
#define SRV_TENSOR_READ_H

#include "wire/decode.h"
#include "wire/scan.h"

/* Read the tensor at the cursor; `accepts`: SRV_T_* bits. false: the problem is set. */
bool srv_tensor_read(srv_scan *s, unsigned accepts, attn_tensor *out);

/* Nested or flat lists of numbers (booleans for ATTN_BOOL) read as this type. */
bool srv_tensor_list(srv_scan *s, attn_dtype dtype, attn_tensor *out);

/* --- between tensor_list.c, tensor_pieces.c and tensor_object.c --- */

/* Read a tensor written as an object; the cursor is at its '{'. */
bool srv_tensor_object(srv_scan *s, unsigned accepts, attn_tensor *out);
enum { SRV_TENSOR_LARGE = 1 << 19 }; /* bytes of text from which several workers read a tensor */
/* Read large nested lists of float32 by all workers. false: they are not large, not in the usual
 * form, or wrong; nothing is taken and no problem is set. */
bool srv_tensor_in_pieces(srv_scan *s, attn_tensor *out);
/* The type that the first element at p (inside lists) implies, among the accepted types. */
attn_dtype srv_tensor_dtype(const char *p, unsigned accepts);
/* An upper bound of the elements in the lists between two places of the text. */
size_t srv_tensor_room(const char *from, const char *to);
/* Read the `count` elements of a flat list whose '[' has been taken, and its ']'. */
bool srv_tensor_row(srv_scan *s, unsigned accepts, attn_dtype dtype, size_t count, void **data);
/* Bytes for `count` elements, checked and taken from the arena; NULL: the problem is set. */
void *srv_tensor_take(srv_scan *s, attn_dtype dtype, size_t count);
/* Store one value as the dtype says (bfloat16 and float16 rounded to nearest even). */
void srv_tensor_store(void *data, attn_dtype dtype, size_t i, double value);
/* n floats narrowed into float16 or bfloat16. */
void srv_tensor_narrow(void *data, attn_dtype dtype, size_t first, const float *src, size_t n);

#endif
