/* Declarations that heatmap.c and heatmap_pool.c share: the plan that follows from shapes, the
 * scratch memory of a thread, and the arrays that pieces of work write. A lane is the number of the
 * scratch memory that a piece may use (attn_pool_run). */
#ifndef ATTN_ANALYSIS_HEATMAP_PRIVATE_H
#define ATTN_ANALYSIS_HEATMAP_PRIVATE_H

#include "attn/heatmap.h"

/* The numbers that follow from options and shapes. All heatmaps of a call have the same grid of
 * cells. */
typedef struct attn_heatmap_plan {
    const attn_heatmap_options *options;
    size_t H, S;         /* heads and keys of the source */
    size_t maps;         /* total number of heatmaps */
    size_t maps_a_batch; /* heatmaps of each chosen batch entry */
    size_t merged;       /* heads that are averaged for a heatmap: H for the mean, else 1 */
    size_t row0, rows;   /* first and number of the chosen rows of the matrix */
    size_t col0, cols;   /* first and number of the chosen keys */
    size_t step[2];      /* rows and keys in a cell */
    size_t shape[2];     /* rows and columns of cells */
    size_t piece_rows;   /* rows of cells in a piece of work */
    size_t pieces;       /* pieces of work for each heatmap */
    size_t block;        /* rows of weights fetched together */
    size_t edge_room;    /* largest number of edges of a row; 0: no edges */
    size_t run_room;     /* largest number of runs of hidden cells in a row of cells */
    size_t slots;        /* threads that compute pieces */
    size_t result_bytes; /* bytes of the results */
    size_t work_bytes;   /* bytes of all other memory, with gaps between the results */
} attn_heatmap_plan;

/* Makes the plan. The options must outlive it. Errors: ATTN_EARG and ATTN_ELIMIT of
 * attn_heatmap_build. */
attn_status attn_analysis_plan(const attn_heatmap_options *options, size_t B, size_t H, size_t L,
                               size_t S, size_t slots, attn_heatmap_plan *out, attn_error *err);
/* Returns the batch entry of heatmap number `map`. */
size_t attn_analysis_map_batch(const attn_heatmap_plan *plan, size_t map);
/* Returns the head of heatmap number `map`, or SIZE_MAX for the mean over heads. */
size_t attn_analysis_map_head(const attn_heatmap_plan *plan, size_t map);

/* A cell while it is filled. */
typedef struct attn_heatmap_cell {
    double sum;      /* sum of the visible weights that are not NaN */
    double received; /* the same sum without rows of padding; only if the source has padding */
    size_t count;    /* number of visible weights that are not NaN */
    float max;
    bool nan; /* some visible weight is NaN */
} attn_heatmap_cell;

/* Sum of the entropies of one row over the `alive` heads in which the row sees a key. */
typedef struct attn_heatmap_row {
    double entropy;
    size_t alive;
} attn_heatmap_row;

/* Scratch memory of one thread: one row of cells, and a block of fetched rows of weights. */
typedef struct attn_heatmap_lane {
    attn_heatmap_cell *cells; /* [C] */
    attn_heatmap_row *rows;   /* [block] */
    double *sum;              /* [block, S] sum over heads; empty if there is no mean over heads */
    float *weights, *logits;  /* [block, S] */
    uint8_t *visible;         /* [block, S] 1: visible in any head; empty if `sum` is */
} attn_heatmap_lane;

/* The results of a piece, which are merged later in the order of the pieces. */
typedef struct attn_heatmap_part {
    double *received; /* [C] sum of the weights on the keys of each column */
    /* Smallest and largest value of the visible cells; [0] > [1] if no cell is visible. */
    float range[2]; /* range of max, or of mean if the heatmap has no max */
    float mean[2];  /* range of mean */
} attn_heatmap_part;

/* Extends a range to include low … high. */
static inline void attn_analysis_widen(float range[2], float low, float high) {
    range[0] = low < range[0] ? low : range[0];
    range[1] = high > range[1] ? high : range[1];
}

/* The arrays of all heatmaps and parts, each as one block; max and mean are NULL if not wanted. */
typedef struct attn_heatmap_arrays {
    double *sums;              /* [maps, pieces, C] */
    float *max, *mean;         /* [maps, R, C] */
    float *entropy, *received; /* [maps, R], [maps, C] */
} attn_heatmap_arrays;

/* Data that all pieces of a call share. */
typedef struct attn_heatmap_work {
    const attn_heatmap_plan *plan;
    const attn_weight_source *source;
    const attn_control *control; /* checked within pieces */
    atomic_size_t done;          /* finished pieces */
    attn_heatmap_arrays arrays;
    attn_heatmap *maps;
    attn_heatmap_lane *lanes;
    attn_heatmap_part *parts; /* [maps, pieces] */
    attn_hidden_run *runs;    /* [maps, R, run_room] hidden cells */
    size_t *run_counts;       /* [maps, R] */
    attn_edge *edges;         /* [maps, rows, edge_room] */
    size_t *edge_counts;      /* [maps, rows] */
} attn_heatmap_work;

/* Computes piece `index` of an attn_sweep; `work` is an attn_heatmap_work. Errors are those of the
 * source and of `control`. */
attn_status attn_analysis_heatmap_piece(void *work, size_t index, size_t lane, attn_error *err);

/* One row of weights. logits is NULL if the source has none. */
typedef struct attn_heatmap_line {
    const float *weights, *logits;
    size_t row; /* index of the row in the matrix */
} attn_heatmap_line;

/* Computes the entropy of n weights of a row, in nats, from the weights and their logits, of which
 * the largest is `most`. Returns false if `most` is -infinity: the row sees no key. */
bool attn_analysis_logit_entropy(const float *weights, const float *logits, size_t n, float most,
                                 double *entropy);

#endif
