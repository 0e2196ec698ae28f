/* Sinusoidal positions added to the inputs of projections. */
#ifndef ATTN_ADD_POSITIONS_H
#define ATTN_ADD_POSITIONS_H

#include <attn/attention.h>

/* *out = x [.., L, D] plus the sinusoidal rows of its positions: i + query_offset for queries, past
 * + j for keys and values. `projected` gives the shapes of the operation (its tensors need no data)
 * and the mask spec, of which the offset is read. */
attn_status attn_add_positions(const attn_inputs *projected, bool queries, const attn_tensor *x,
                               attn_arena *arena, attn_tensor *out, attn_error *err);

#endif
