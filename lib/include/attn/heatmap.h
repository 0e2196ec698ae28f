/* Heatmap data: a part of a weight matrix, pooled to what a browser can draw.
 *
 * Weights come from a source, so that the L x S matrix need not exist: the attention operation
 * gives rows on demand, a caller with finished weights gives them from memory. */
#ifndef ATTN_HEATMAP_H
#define ATTN_HEATMAP_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* fetch() reads rows row … row + rows - 1 of head (batch, head): weights [rows, cols] and logits
 * [rows, cols], where -infinity means hidden. A source without logits has has_logits false and does
 * not write `logits`. `lane` is the lane of attn_pool_run. */
typedef struct attn_weight_source {
    size_t batches, heads, rows, cols; /* B, H, L, S */
    bool has_logits;
    attn_status (*fetch)(void *ctx, size_t lane, const attn_range *rows, float *weights,
                         float *logits, attn_error *err);
    void *ctx;
} attn_weight_source;

/* Makes a source of the rows of an attention operation that has run. It takes `lanes` scratch areas
 * from the arena and rounds float64 results to float32. */
attn_status attn_attention_source(const attn_attention *a, const attn_stats *stats, size_t lanes,
                                  attn_arena *arena, attn_weight_source *out, attn_error *err);

typedef enum attn_pooling { ATTN_POOL_MAX = 0, ATTN_POOL_MEAN, ATTN_POOL_BOTH } attn_pooling;
typedef enum attn_heads { ATTN_HEADS_ALL = 0, ATTN_HEADS_LIST, ATTN_HEADS_MEAN } attn_heads;

typedef struct attn_heatmap_options {
    attn_heads heads;         /* default ALL; MEAN: one heatmap, the mean over heads */
    const int64_t *head_list; /* LIST */
    size_t head_count;
    const int64_t *batch_list; /* NULL = all batch entries */
    size_t batch_count;
    size_t row_from, row_to; /* half-open; 0, 0 = all rows */
    size_t col_from, col_to;
    size_t max_cells;   /* most cells of all heatmaps together, but a heatmap has at least 1; 0 =
                           65,536, less 64 for each heatmap after the first: JSON below 1 MiB */
    attn_pooling pool;  /* default MAX */
    size_t top_k;       /* most edges of a row, from its largest weights; 0 = no such edges */
    double top_p;       /* edges of a row: fewest keys whose weights sum to >= top_p; 0 = none */
    bool signed_values; /* cells may be negative: max is the value of largest magnitude, the range
                           is [-m, m], and row entropy is NaN */
} attn_heatmap_options;

typedef struct attn_edge {
    size_t row, col;
    float weight;
} attn_edge;

/* A span of hidden cells: cells (row, from) … (row, to - 1) of the heatmap hold no visible
 * weight. */
typedef struct attn_hidden_run {
    size_t row, from, to;
} attn_hidden_run;

/* One heatmap of R x C cells. Cell (r, c) covers step[0] rows from origin[0] + r*step[0] and
 * step[1] keys from origin[1] + c*step[1]. Cells of the last row and column may cover fewer. */
typedef struct attn_heatmap {
    size_t batch, head; /* head = SIZE_MAX for the mean over heads */
    size_t shape[2];    /* R, C */
    size_t origin[2], step[2];
    float range[2];      /* smallest and largest visible value of `max`, or of `mean` without `max`;
                            for signed values [-m, m] with the largest magnitude m */
    float mean_range[2]; /* the same for `mean`; equal to `range` without `max` */
    bool signed_values;  /* copied from the options */
    float *max, *mean;   /* [R, C] or NULL: over the visible weights of a cell; 0 in hidden cells */
    attn_hidden_run *hidden;
    size_t hidden_count;
    float *row_entropy; /* [R], nats: entropy of a row over all keys, mean over the rows of a cell;
                           NaN if all these rows are hidden */
    float *received;    /* [C], sum of the weights that these keys receive from the chosen rows */
    attn_edge *edges;   /* by row, then falling weight, then key; only visible keys within col_from
                           and col_to. row and col are indices of the matrix, not of cells */
    size_t edge_count;
} attn_heatmap;

typedef struct attn_heatmaps {
    attn_heatmap *items; /* batch-major */
    size_t count;
    size_t layer_batches; /* 0; a caller whose batch entries have a layer axis in front sets it:
                             item.batch = layer * layer_batches + batch */
} attn_heatmaps;

/* Default options. */
attn_heatmap_options attn_heatmap_defaults(void);
/* Computes the number of heatmaps, and the rows and columns of each, from shapes alone. */
attn_status attn_heatmap_shape(const attn_heatmap_options *options, size_t B, size_t H, size_t L,
                               size_t S, size_t *maps, size_t shape[2], attn_error *err);
/* Computes the scratch and result bytes from shapes alone. */
attn_status attn_heatmap_cost(const attn_heatmap_options *options, size_t B, size_t H, size_t L,
                              size_t S, size_t slots, attn_cost *out, attn_error *err);
/* Builds heatmaps. If the source has logits s, row entropy is ln l - sum p (s - m) with the row's
 * largest logit m and l = sum exp(s - m), which is exact for large logits; else it is -sum p ln p.
 * NaN weights are left out; a cell of NaN weights only is NaN. Results do not depend on the pool.
 * Errors, with err->where:
 *   ATTN_EARG    a head, batch entry, row or column out of range ("heads/2", "batch/0", "rows",
 *                "cols"), a number that its enum lacks ("heads", "pool")
 *   ATTN_ELIMIT  more than max(512, max_cells) heatmaps ("heads"); more than 1,048,576 edges in all
 *                ("top_k"); with top_p alone, more edges in a row than its equal share of 1,048,576
 *                ("top_p") */
attn_status attn_heatmap_build(const attn_weight_source *source,
                               const attn_heatmap_options *options, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_heatmaps *out,
                               attn_error *err);

/* Turns cells into bytes for the wire: v in [lo, hi] becomes t in [0, 1], then round(255 t). The
 * transform of t is t itself, sqrt(t), or ln(1 + 255 t) / ln 256. If lo = hi, t is 1 for v > 0,
 * else 0. NaN gives 0. For signed values of a range [-m, m], u is the transform of |v| / m. Then t
 * is (1 + u) / 2 for positive and (1 - u) / 2 for negative v, so v = 0 is the byte 128 under each
 * transform. */
typedef enum attn_transform { ATTN_LINEAR = 0, ATTN_SQRT, ATTN_LOG } attn_transform;
void attn_heatmap_quantise(uint8_t *dst, const float *src, size_t n, const float range[2],
                           attn_transform transform, bool signed_values);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
