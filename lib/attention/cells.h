/* Computes cells of the weights and of the scores at a stage, for other files of this room and for
 * heatmaps. A cell is a pair of a query and a key. */
#ifndef ATTN_CELLS_H
#define ATTN_CELLS_H

#include "attention/tile_pass.h"

/* Takes the scratch memory of attn_attention_cells from an area. */
attn_cells_scratch *attn_cells_place(attn_area *area, const attn_attention_dims *d,
                                     const attn_kernels *k);

/* Computes the cells of a range at a stage, dense [rows, cols] of dims.result. With double_only the
 * function computes only rows of kind ATTN_ROW_DOUBLE; dst must already hold the other rows. The
 * control is checked between blocks of rows. The range must lie within the weights. */
attn_status attn_cells_rows(const attn_attention *a, const attn_stats *stats,
                            const attn_range *range, attn_stage stage, bool double_only,
                            const attn_control *control, void *dst, attn_cells_scratch *scratch,
                            attn_error *err);

/* Computes the weights (elements of dims.result) and the biased scores (float) of a range, both
 * dense [rows, cols]. */
attn_status attn_cells_with_logits(const attn_attention *a, const attn_stats *stats,
                                   const attn_range *range, void *weights, float *logits,
                                   attn_cells_scratch *scratch, attn_error *err);

#endif
