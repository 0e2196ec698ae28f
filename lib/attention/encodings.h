/* Absolute positions: sinusoidal or learned encodings, which are added to query, key and value
 * before the operation, or before its projections if there are any. */
#ifndef ATTN_ENCODINGS_H
#define ATTN_ENCODINGS_H

#include <attn/attention.h>
#include <attn/positions.h>

#include "attention/sequence_positions.h"

/* Encodings of an operation. All pointers must outlive it. */
typedef struct attn_encoding {
    attn_position position; /* kind ATTN_POSITION_SINUSOIDAL or ATTN_POSITION_LEARNED */
    const char *where;      /* the input member that asks for encodings, for errors */
    attn_attention_dims dims;
    attn_sequence_positions query_positions, key_positions;
    attn_layout layout; /* layout of the tensors to which encodings are added */
    uint64_t stream;    /* stream of random numbers for dropout (attn_encoding_stream) */
} attn_encoding;

/* An encoded element counts as this many floating-point operations, since a sine takes about as
 * long. */
#define ATTN_ENCODING_OPERATIONS 32.0

/* Returns whether positions of this kind are added to the inputs. */
static inline bool attn_position_encodes(attn_position_kind kind) {
    return kind == ATTN_POSITION_SINUSOIDAL || kind == ATTN_POSITION_LEARNED;
}

/* Fills one row [width] of a sinusoidal table for any position, also a negative one. If the width
 * is odd, the last column is not set. */
void attn_sinusoidal_row(double *row, double position, size_t width, attn_encoding_layout layout);

/* Checks from shapes alone that the encodings fit the last axis of x, and that a learned table has
 * the positions 0 … positions - 1. */
attn_status attn_encoding_check(const attn_position *p, const char *where, const attn_tensor *x,
                                size_t positions, attn_error *err);
/* Refuses gradients through dropout of the encoded inputs. */
attn_status attn_encoding_differentiable(const attn_position *p, attn_error *err);

/* Returns the stream of random numbers for part 0 (query), 1 (key) or 2 (value). The stream is the
 * number of the first part with the same tensor. So parts that share a tensor have the same
 * dropout. */
uint64_t attn_encoding_stream(const attn_tensor *const parts[3], int part);

/* Sets *out to x plus the encoding of each row's position, after dropout; a row without a position
 * gets no encoding. x is the query, or, if `queries` is false, the key or the value. *out is dense,
 * in the arena, and float64 if x is, else float32. Errors: ATTN_ESHAPE (a position that the table
 * does not have), ATTN_EARG (positions that differ between batch entries that share a query),
 * ATTN_ENOMEM. */
attn_status attn_encode(const attn_encoding *e, bool queries, const attn_tensor *x,
                        attn_arena *arena, attn_tensor *out, attn_error *err);
/* Adds each row of `grad` to the row of `sums` for its position. `grad` is the gradient with
 * respect to *out of attn_encode. It is dense and has the shape of x. `sums` has the shape of the
 * learned table. */
void attn_encode_backward(const attn_encoding *e, bool queries, const attn_tensor *grad,
                          double *sums);

/* Gradients of one operand with respect to the rows of each head, [B, heads, stored, width] with
 * elements of elem bytes. In each head, `rows` rows from `first` on are encoded. */
typedef struct attn_encoding_rows {
    const char *grads;
    size_t elem, heads, stored, first, rows, width;
    bool queries;
} attn_encoding_rows;

/* Makes the gradient of the learned table of an operation. Row p of this gradient is the sum of the
 * gradients of all rows with the position p. */
attn_status attn_encodings_collect(const attn_attention *a, const attn_encoding_rows *parts,
                                   size_t count, attn_arena *arena, attn_tensor *table,
                                   attn_error *err);
/* Returns an array of zeros with a number for each element of a table, to which
 * attn_encode_backward adds. NULL: out of memory. */
double *attn_encoding_sums(const attn_tensor *table, attn_arena *arena);
/* Makes a tensor of type dtype with the shape of `like` from sums that attn_encoding_sums has
 * returned. */
attn_status attn_encoding_table(const attn_tensor *like, const double *sums, attn_dtype dtype,
                                attn_arena *arena, attn_tensor *table, attn_error *err);

#endif
