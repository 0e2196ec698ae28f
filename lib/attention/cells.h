/* Computes cells of the weights and of the score stages, for the whole matrix. */
#ifndef ATTN_CELLS_H
#define ATTN_CELLS_H

#include "attention/tile_pass.h"

/* Places the scratch memory of attn_attention_cells in an area. */
attn_cells_scratch *attn_cells_place(attn_area *area, const attn_attention_dims *d,
                                     const attn_kernels *k);

/* Fills out [B, Hq, L, S] with a stage. It uses one scratch for each slot of the pool. double_only:
 * it computes only rows of kind ATTN_ROW_DOUBLE, since the others are filled already. */
attn_status attn_cells_fill(const attn_attention *a, const attn_stats *stats, attn_stage stage,
                            bool double_only, attn_cells_scratch **lanes, attn_pool *pool,
                            const attn_control *control, attn_tensor *out, attn_error *err);

/* Computes the weights (elements of dims.result) and biased scores (float) of a range, both as
 * [rows, cols]. */
attn_status attn_cells_with_logits(const attn_attention *a, const attn_stats *stats,
                                   const attn_range *range, void *weights, float *logits,
                                   attn_cells_scratch *scratch, attn_error *err);

#endif
