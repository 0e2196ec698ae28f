/* Cells of the weights and score stages, for the whole matrix; and the grown cache. */
#ifndef ATTN_CELLS_H
#define ATTN_CELLS_H

#include "attention/block.h"

/* Fill out [B, Hq, L, S] with a stage. careful_only: only rows of kind ATTN_ROW_CAREFUL, the others
 * are there already. */
attn_status attn_cells_fill(const attn_attention *a, const attn_stats *stats, attn_stage stage,
                            bool careful_only, attn_pool *pool, const attn_control *control,
                            attn_arena *arena, attn_tensor *out, attn_error *err);

/* Weights (elements of dims.result) and biased scores (float) of a range, both [rows, cols]. */
attn_status attn_cells_with_logits(const attn_attention *a, const attn_stats *stats,
                                   const attn_range *range, void *weights, float *logits,
                                   attn_cells_scratch *scratch, attn_error *err);

/* Refuse a query row that is not finite and sees a key, unless the inputs allow it. */
attn_status attn_refuse_query(const attn_attention *a, size_t b, size_t h, size_t i,
                              attn_error *err);

/* Weights [B, Hq, L, S] become those after dropout. */
void attn_drop_weights(const attn_attention *a, attn_tensor *weights);

/* present_key and present_value: the cache with the new keys behind it, [B, Hkv, S, …]. */
attn_status attn_present(const attn_attention *a, attn_arena *arena, attn_results *out,
                         attn_error *err);

#endif
