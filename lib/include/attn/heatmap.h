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
 * [rows, cols], where -infinity means hidden. A source without logits leaves them alone and sets
 * has_logits to false. `lane` is that of attn_pool_run. */
typedef struct attn_weight_source {
    size_t batches, heads, rows, cols; /* B, H, L, S */
    bool has_logits;
    attn_status (*fetch)(void *ctx, size_t lane, const attn_range *rows, float *weights,
                         float *logits, attn_error *err);
    void *ctx;
} attn_weight_source;

/* The rows of an attention operation that has run, as a source. It takes `lanes` scratch areas from
 * the arena and rounds float64 results to float32. */
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
    size_t max_cells;   /* cells of all heatmaps together, at least 1 a heatmap; 0 = 65,536,
                           less 64 for each heatmap but the first: JSON below 1 MiB */
    attn_pooling pool;  /* default MAX */
    size_t top_k;       /* 0 = none: the k largest weights of each row as edges */
    double top_p;       /* 0 = none: the fewest keys whose weights sum to >= top_p */
    bool signed_values; /* cells that may be negative: max is the value of largest magnitude, the
                           range is [-m, m], and there is no row entropy (NaN) */
} attn_heatmap_options;

typedef struct attn_edge {
    size_t row, col;
    float weight;
} attn_edge;

/* A span of hidden cells: cells (row, from) … (row, to - 1) of the pooled grid hold no visible
 * weight. */
typedef struct attn_hidden_run {
    size_t row, from, to;
} attn_hidden_run;

/* One heatmap of R x C cells. Cell (r, c) covers rows origin[0] + r*step[0] … and keys
 * origin[1] + c*step[1] …, the last row and column of cells may be narrower. */
typedef struct attn_heatmap {
    size_t batch, head; /* head = SIZE_MAX for the mean over heads */
    size_t shape[2];    /* R, C */
    size_t origin[2], step[2];
    float range[2];      /* smallest and largest visible value among the max (or only) cells; of
                            signed values [-m, m] with the largest magnitude m */
    float mean_range[2]; /* the same among the mean cells; as range where they are the only ones */
    bool signed_values;  /* as the options had it */
    float *max, *mean;   /* [R, C] or NULL; mean over the visible weights of the cell; hidden = 0 */
    attn_hidden_run *hidden;
    size_t hidden_count;
    float *row_entropy; /* [R], nats, over all keys of a row, mean over the cell's rows; NaN where
                           all rows are hidden */
    float *received;    /* [C], sum of the weights that these keys receive from the chosen rows */
    attn_edge *edges;   /* rows ascending, weights descending, equal ones by key; of the chosen
                           keys that are visible. Row and col are those of the matrix */
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
/* How many heatmaps, and how many rows and columns of cells each has, from shapes alone. */
attn_status attn_heatmap_shape(const attn_heatmap_options *options, size_t B, size_t H, size_t L,
                               size_t S, size_t *maps, size_t shape[2], attn_error *err);
/* Scratch and result bytes, from shapes alone. */
attn_status attn_heatmap_cost(const attn_heatmap_options *options, size_t B, size_t H, size_t L,
                              size_t S, size_t slots, attn_cost *out, attn_error *err);
/* Builds heatmaps. Row entropy is ln l - sum p (s - m) where logits are known (exact for large
 * logits), else -sum p ln p. Weights that are NaN count nowhere; a cell of nothing else is NaN.
 * Results do not depend on the pool. Errors, with their place:
 *   ATTN_EARG    a head, batch entry, row or column outside ("heads/2", "batch/0", "rows", "cols"),
 *                a number that is none of an enum ("heads", "pool")
 *   ATTN_ELIMIT  more than max(512, max_cells) heatmaps ("heads"); more than 1,048,576 edges in all
 *                ("top_k"; with top_p alone each row may have an equal share of them, "top_p") */
attn_status attn_heatmap_build(const attn_weight_source *source,
                               const attn_heatmap_options *options, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_heatmaps *out,
                               attn_error *err);

/* Turns cells into bytes for the wire: v in [lo, hi] becomes t in [0, 1], then round(255 t). The
 * transform of t is t itself, sqrt(t), or ln(1 + 255 t) / ln 256. Where lo = hi, t is 1 above 0 and
 * else 0. NaN gives 0. Signed values of a range [-m, m] are transformed by their magnitude u:
 * t = (1 + u) / 2 above 0 and (1 - u) / 2 below, so that 0 is the byte 128 under each transform. */
typedef enum attn_transform { ATTN_LINEAR = 0, ATTN_SQRT, ATTN_LOG } attn_transform;
void attn_heatmap_quantise(uint8_t *dst, const float *src, size_t n, const float range[2],
                           attn_transform transform, bool signed_values);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
