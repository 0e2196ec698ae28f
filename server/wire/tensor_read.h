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

/* Reads the tensor at the cursor; `accepts` has SRV_T_* bits. Returns false with a problem set on
 * failure. */
bool srv_tensor_read(srv_scan *s, unsigned accepts, attn_tensor *out);

/* Reads nested or flat lists of numbers (of booleans for ATTN_BOOL) as a tensor of this type. */
bool srv_tensor_list(srv_scan *s, attn_dtype dtype, attn_tensor *out);

/* --- between tensor_list.c, tensor_pieces.c and tensor_object.c --- */

/* Reads a tensor written as an object; the cursor is at its '{'. */
bool srv_tensor_object(srv_scan *s, unsigned accepts, attn_tensor *out);
enum { SRV_TENSOR_LARGE = 1 << 19 }; /* bytes of text from which several workers read a tensor */
/* Reads large nested lists of float32 by all workers. Returns false if the lists are small, in an
 * unusual form or wrong; the cursor has not moved then and no problem is set. */
bool srv_tensor_in_pieces(srv_scan *s, attn_tensor *out);
/* Returns the accepted type that the first element at p suggests. */
attn_dtype srv_tensor_dtype(const char *p, unsigned accepts);
/* Returns an upper bound of the number of elements in the lists between `from` and `to`. */
size_t srv_tensor_room(const char *from, const char *to);
/* Reads the `count` elements of a flat list whose '[' has been taken, and its ']'. */
bool srv_tensor_row(srv_scan *s, unsigned accepts, attn_dtype dtype, size_t count, void **data);
/* Takes memory for `count` elements from the arena. NULL: a problem is set. */
void *srv_tensor_take(srv_scan *s, attn_dtype dtype, size_t count);
/* Stores one value as an element of this type; float16 and bfloat16 round to nearest even. */
void srv_tensor_store(void *data, attn_dtype dtype, size_t i, double value);
/* Stores n floats, rounded to float16 or bfloat16, from element `first` on. */
void srv_tensor_narrow(void *data, attn_dtype dtype, size_t first, const float *src, size_t n);

#endif
