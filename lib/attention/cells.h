/* Computes cells of the weights and of the scores at a stage, for other files of this room and for
 * heatmaps. A cell is a pair of a query and a key. */
#ifndef ATTN_CELLS_H
#define ATTN_CELLS_H

#include "attention/tile_pass.h"

/* Takes the scratch memory of attn_attention_cells from an area. */
attn_cells_scratch *attn_cells_place(attn_area *area, const attn_attention_dims *d,
                                     const attn_kernels *k);

/* Which cells to compute. */
typedef struct attn_cells {
    attn_stage stage;
    bool double_only; /* only rows of kind ATTN_ROW_DOUBLE; dst must already hold the other rows */
    bool dropped;     /* the weights after dropout */
    bool of_head;     /* the weights of one of the Hq heads, before they are mixed */
} attn_cells;

/* Computes the cells of a range, dense [rows, cols] of dims.result. The control is checked between
 * blocks of rows. The range must lie within the weights. */
attn_status attn_cells_rows(const attn_attention *a, const attn_stats *stats,
                            const attn_range *range, const attn_cells *cells,
                            const attn_control *control, void *dst, attn_cells_scratch *scratch,
                            attn_error *err);

/* Computes the weights (elements of dims.result) and the biased scores (float) of a range, both
 * dense [rows, cols]. With mixed weights the score of a cell is the largest score among the heads
 * that the output head reads. So it is -infinity if the cell is hidden in all these heads. */
attn_status attn_cells_with_logits(const attn_attention *a, const attn_stats *stats,
                                   const attn_range *range, void *weights, float *logits,
                                   attn_cells_scratch *scratch, attn_error *err);

#endif
