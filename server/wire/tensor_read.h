/* Reads tensors of a JSON body directly into buffers of the request's arena. A tensor is written as
 * nested lists, or as an object with these members:
 *
 *   shape    the size of each axis
 *   dtype    the element type, such as "float32" (decode.h has the default)
 *   and one source of elements:
 *   data     a flat list, or without the member shape nested lists, from which the shape follows
 *   base64   little-endian bytes
 *   encoding "bits": the bytes hold booleans, eight in a byte (attn_tensor_bits). They stand in the
 *            member base64, or in a tensor of uint8 of a binary body
 *   random   "normal" or "uniform"; element i is random number i of the member seed (attn/rng.h).
 *            The default seed is the CRC-32 of the tensor's JSON pointer, such as "/query". With
 *            the member std, the standard deviation, element i is std * normal(seed, i), or
 *            sqrt(12) * std * (uniform(seed, i) - 1/2)
 *   init     initial values of a weight [fan_out, fan_in] as torch.nn.init computes their spread:
 *            "xavier_uniform" in ±sqrt(6 / (fan_in + fan_out)), "xavier_normal" with std
 *            sqrt(2 / (fan_in + fan_out)), "kaiming_uniform" in ±sqrt(6 / ((1 + a^2) fan_in)),
 *            "kaiming_normal" with std sqrt(2 / ((1 + a^2) fan_in)). The default of the member a is
 *            sqrt(5), as torch.nn.Linear calls kaiming_uniform, so the bound is 1/sqrt(fan_in).
 *            A bias [fan_out] needs the member fan_in: torch.nn.Linear's bias has this bound, too
 *   runs     runs of true in a tensor of booleans (tensor_runs.c)
 *   fill     "zeros", "ones", "eye" (a 1 on the diagonal of the last two axes), or
 *            "arange" (0, 1, 2, … in row-major order) */
#ifndef SRV_TENSOR_READ_H
#define SRV_TENSOR_READ_H

#include "wire/decode.h"
#include "wire/scan.h"

/* Reads the tensor at the cursor, which is not written as nested lists. `accepts` are the SRV_T_*
 * bits of the row (decode.h). false: a problem is set. */
bool srv_tensor_object(attn_scan *s, unsigned accepts, attn_tensor *out);

/* Converts a tensor of int32, int64 or uint8 to float32 if `accepts`, the row's SRV_T_* bits, has
 * SRV_T_REAL and neither SRV_T_INT nor SRV_T_BOOL. For such a row nested lists of integers become
 * float32, too. false: a problem is set. */
bool srv_tensor_as_numbers(srv_request *req, unsigned accepts, attn_tensor *t);

/* Replaces packed bits (ATTN_BITS, dense) by booleans. false: a problem at `pointer`, such as "/x",
 * is set. */
bool srv_tensor_unpack(srv_request *req, const char *pointer, attn_tensor *t);

/* Reads the nested lists at the cursor as a tensor of this element type: booleans for ATTN_BOOL,
 * numbers for the others. false: a problem is set. */
bool srv_tensor_list(attn_scan *s, attn_dtype dtype, attn_tensor *out);

/* --- only for the files tensor_*.c --- */

/* The values of the members random, init or fill of a tensor, and of the members that belong to
 * them. */
typedef struct srv_literal {
    attn_name what; /* the value of random, init or fill */
    int64_t seed;
    bool has_std, has_a; /* std and a were sent */
    double std, a;
    int64_t fan_in; /* 0: it was not sent */
} srv_literal;
/* These functions write the elements of a dense tensor. srv_tensor_random and srv_tensor_init need
 * a floating-point type. If `late` is true they only note the tensor, and srv_draw_random writes
 * its elements. false: a problem is set. */
bool srv_tensor_random(attn_scan *s, const srv_literal *l, bool late, attn_tensor *t);
bool srv_tensor_init(attn_scan *s, const srv_literal *l, bool late, attn_tensor *t);
bool srv_tensor_fill(attn_scan *s, const srv_literal *l, attn_tensor *t);
/* Moves the cursor behind the list of runs at the cursor. Does not check the contents of the
 * list. */
bool srv_tensor_skip_runs(attn_scan *s);
/* Writes the elements of a dense tensor of booleans by the list of runs that begins at `list`. The
 * cursor is left where it is. false: a problem is set. */
bool srv_tensor_runs(attn_scan *s, const char *list, attn_tensor *t);
/* Reads the nested lists at the cursor as a tensor of this element type. If `entries` is not NULL,
 * the items of the outermost list may differ in length: *out then has rank 0, and *entries holds
 * the items. false: a problem is set. */
bool srv_tensor_nested(attn_scan *s, unsigned accepts, attn_dtype dtype, attn_tensor *out,
                       srv_entries *entries);
/* Smallest text in bytes that several workers read. */
enum { SRV_TENSOR_LARGE = 1 << 19 };
/* Reads large nested lists of float32 by several workers. Returns false if the text is small,
 * invalid or written in an unusual way, or if there is only one worker, no memory or no time left.
 * In that case no problem is set, the cursor has not moved, and the caller must read the lists. */
bool srv_tensor_in_pieces(attn_scan *s, attn_tensor *out);
/* Returns the element type of the lists at p for a tensor without dtype. It follows from the types
 * that the row accepts and from the first element. */
attn_dtype srv_tensor_dtype(const char *p, unsigned accepts);
/* Returns an upper bound of the number of elements in the lists between `from` and `to`. */
size_t srv_tensor_room(const char *from, const char *to);
/* Reads a flat list of `count` elements into *data. The cursor stands behind the list's '[' before
 * the call and behind its ']' afterwards. false: a problem is set. */
bool srv_tensor_row(attn_scan *s, unsigned accepts, attn_dtype dtype, size_t count, void **data);
/* Allocates `count` elements in the request's arena. NULL: a problem is set. */
void *srv_tensor_take(attn_scan *s, attn_dtype dtype, size_t count);
/* Stores `value` as element i of the type. For float16 and bfloat16 the value is rounded to the
 * nearest, ties to even. */
void srv_tensor_store(void *data, attn_dtype dtype, size_t i, double value);
/* Stores n floats as float16 or bfloat16, in the elements `first`, first + 1, …; each is rounded to
 * the nearest, ties to even. */
void srv_tensor_narrow(void *data, attn_dtype dtype, size_t first, const float *src, size_t n);

#endif
