/* Cells of the weights and score stages, for the whole matrix. */
#ifndef ATTN_CELLS_H
#define ATTN_CELLS_H

#include "attention/tile_pass.h"

/* Fill out [B, Hq, L, S] with a stage. double_only: only rows of kind ATTN_ROW_DOUBLE, the others
 * are there already. */
attn_status attn_cells_fill(const attn_attention *a, const attn_stats *stats, attn_stage stage,
                            bool double_only, attn_pool *pool, const attn_control *control,
                            attn_arena *arena, attn_tensor *out, attn_error *err);

/* Weights (elements of dims.result) and biased scores (float) of a range, both [rows, cols]. */
attn_status attn_cells_with_logits(const attn_attention *a, const attn_stats *stats,
                                   const attn_range *range, void *weights, float *logits,
                                   attn_cells_scratch *scratch, attn_error *err);

#endif
