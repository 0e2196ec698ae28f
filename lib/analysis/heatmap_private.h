/* Declarations shared by heatmap.c and heatmap_pool.c: the plan made from shapes, the scratch of a
 * thread, and the arrays that pieces of work write to. */
#ifndef ATTN_ANALYSIS_HEATMAP_PRIVATE_H
#define ATTN_ANALYSIS_HEATMAP_PRIVATE_H

#include "attn/heatmap.h"

/* Everything that follows from options and shapes. All heatmaps of a call have the same grid. */
typedef struct attn_heatmap_plan {
    const attn_heatmap_options *options;
    size_t H, S;
    size_t maps, maps_a_batch; /* number of heatmaps in all, and for each chosen batch entry */
    size_t merged;             /* heads that one heatmap reads: H for the mean, else 1 */
    size_t row0, rows, col0, cols;
    size_t step[2], shape[2];
    size_t piece_rows;                           /* rows of cells in a piece of work */
    size_t pieces;                               /* pieces of work in a heatmap */
    size_t block;                                /* rows of weights in one fetch */
    size_t edge_room;                            /* most edges of a row; 0: no edges wanted */
    size_t run_room;                             /* most hidden spans in a row of cells */
    size_t lane_bytes, result_bytes, work_bytes; /* of one lane, of the result, of all lanes */
} attn_heatmap_plan;

/* Makes the plan. The options must outlive it. Errors: those of attn_heatmap_build that follow from
 * options and shapes (ATTN_EARG, ATTN_ELIMIT). */
attn_status attn_analysis_plan(const attn_heatmap_options *options, size_t B, size_t H, size_t L,
                               size_t S, size_t slots, attn_heatmap_plan *out, attn_error *err);
size_t attn_analysis_map_batch(const attn_heatmap_plan *plan, size_t map);
size_t attn_analysis_map_head(const attn_heatmap_plan *plan, size_t map); /* SIZE_MAX: the mean */

/* A cell that is being filled. */
typedef struct attn_heatmap_cell {
    double sum;
    size_t count; /* visible weights that are not NaN */
    float max;
    bool nan; /* some visible weight is NaN */
} attn_heatmap_cell;

/* Sum of the entropies of one row over `alive` heads, those in which the row sees a key. */
typedef struct attn_heatmap_row {
    double entropy;
    size_t alive;
} attn_heatmap_row;

/* Scratch of a lane: one row of cells, and a block of fetched rows. */
typedef struct attn_heatmap_lane {
    attn_heatmap_cell *cells; /* [C] */
    attn_heatmap_row *rows;   /* [block] */
    double *sum;              /* [block, S], over heads; only for a mean */
    float *weights, *logits;  /* [block, S] */
    uint8_t *visible;         /* [block, S], 1 if visible in any head; only for a mean */
} attn_heatmap_lane;

/* The results of a piece that are merged later, in the order of the pieces. */
typedef struct attn_heatmap_part {
    double *received;        /* [C] */
    float range[2], mean[2]; /* ranges of the visible cells; [0] > [1] if there are none */
} attn_heatmap_part;

static inline void attn_analysis_widen(float range[2], float low, float high) {
    range[0] = low < range[0] ? low : range[0];
    range[1] = high > range[1] ? high : range[1];
}

typedef struct attn_heatmap_work {
    const attn_heatmap_plan *plan;
    const attn_weight_source *source;
    const attn_control *control; /* checked within pieces */
    attn_heatmap *maps;
    attn_heatmap_lane *lanes;
    attn_heatmap_part *parts; /* [maps, pieces] */
    attn_hidden_run *runs;    /* [maps, R, run_room] */
    size_t *run_counts;       /* [maps, R] */
    attn_edge *edges;         /* [maps, rows, edge_room] */
    size_t *edge_counts;      /* [maps, rows] */
} attn_heatmap_work;

/* Runs piece `index` of maps x pieces, for attn_pool_run. ctx is the attn_heatmap_work. */
attn_status attn_analysis_heatmap_piece(void *ctx, size_t index, size_t lane, attn_error *err);

/* One row of weights from a source. logits is NULL if the source has none. */
typedef struct attn_heatmap_line {
    const float *weights, *logits;
    size_t row; /* of the matrix */
} attn_heatmap_line;

/* Computes the entropy of a row over n keys, in nats. Returns false if no key is visible. */
bool attn_analysis_row_entropy(const float *weights, const float *logits, size_t n,
                               double *entropy);

#endif
