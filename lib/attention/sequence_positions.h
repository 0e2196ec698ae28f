/* Positions of queries and keys in encodings: checks, distances, and words. */
#ifndef ATTN_SEQUENCE_POSITIONS_H
#define ATTN_SEQUENCE_POSITIONS_H

#include <attn/attention.h>

#include "mask/row_positions.h"

/* Returns an error if the caller gives positions that nothing reads, since there is neither an
 * encoding nor a mask that reads them. Error: ATTN_EARG. */
attn_status attn_sequence_positions_read_by(const attn_inputs *in, bool encoding, attn_error *err);
/* Checks the shapes of in->query_positions and in->key_positions. Errors: ATTN_ESHAPE,
 * ATTN_EDTYPE. */
attn_status attn_sequence_positions_check(const attn_inputs *in, const attn_attention_dims *d,
                                          attn_error *err);
/* Returns how many positions the caller gives, 8 bytes each in an operation; SIZE_MAX on
 * overflow. */
size_t attn_sequence_positions_count(const attn_inputs *in);

/* Returns the distance of a key from a query at these positions; ATTN_NO_POSITION if one of the two
 * has none. */
static inline int64_t attn_distance(int64_t query, int64_t key) {
    return query == ATTN_NO_POSITION || key == ATTN_NO_POSITION ? ATTN_NO_POSITION : key - query;
}

/* Sets at[x] to the position on axis x by which rotary positions turn row i of batch entry b of the
 * queries or of the keys. Without axes, sets at[0] to the position of the row. Returns false if the
 * row is not rotated. */
bool attn_rotary_row(const attn_attention *a, bool query, size_t b, size_t i,
                     double at[ATTN_ROTARY_AXES]);
/* Returns whether all B batch entries have the same positions. */
bool attn_positions_same(const attn_sequence_positions *p, size_t B);
/* Returns whether the caller gives positions. The distances of neighbouring keys are then
 * arbitrary. */
bool attn_positions_given(const attn_attention *a);
/* Sets to[j] to the distance of key j0 + j from query i of batch entry b, for j < n. It is
 * ATTN_NO_POSITION if one of the two has no position. */
void attn_distances(const attn_attention *a, size_t b, size_t i, size_t j0, size_t n, int64_t *to);

#endif
