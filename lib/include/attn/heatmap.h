/* Heatmaps: a part of a matrix of weights, pooled to as many cells as can be drawn.
 *
 * Weights come from a source, which computes or copies rows when they are needed. So no L x S
 * matrix has to exist. */
#ifndef ATTN_HEATMAP_H
#define ATTN_HEATMAP_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The padding of a batch entry. A row of padding has weights as any other row, but no measure
 * counts it. */
typedef struct attn_padding {
    const uint8_t *rows; /* [L] 1: the query is padding; NULL: no query is */
    const uint8_t *cols; /* [S] 1: the key is padding; NULL: no key is */
} attn_padding;

/* A source of weights. fetch() stores the rows rows->row … rows->row + rows->rows - 1 of one head:
 * weights [rows, cols] and logits [rows, cols] (-infinity: hidden). If has_logits is false, it does
 * not write `logits`. Several threads may call it at the same time, each with another `lane`
 * (attn_pool_run), which selects the source's scratch memory. */
typedef struct attn_weight_source {
    size_t batches, heads, rows, cols; /* sizes B, H, L, S: batch entries, heads, queries, keys */
    bool has_logits;
    attn_status (*fetch)(void *ctx, size_t lane, const attn_range *rows, float *weights,
                         float *logits, attn_error *err);
    void *ctx;
    const attn_padding *padding; /* [batches]; NULL: no batch entry has padding */
    /* The weights are not the softmax of the logits. Entropies are then computed from the weights
     * divided by their sum. */
    bool not_softmax;
    /* Weights can be negative, as mixed ones are. Measures and distances count negative weights as 0. */
    bool has_negative;
} attn_weight_source;

/* Returns whether a row is padding. */
static inline bool attn_row_is_padding(const attn_weight_source *source, size_t batch, size_t row) {
    const uint8_t *rows = source->padding ? source->padding[batch].rows : NULL;
    return rows && rows[row];
}

/* Makes a source of the weights of an operation that has run (ATTN_STAGE_PROBS), or of its scores
 * of another stage, with scratch memory for `lanes` threads in the arena. All scores of the stages
 * before BIASED count as visible. Scores can be negative (attn_heatmap_options.signed_values).
 * float64 cells are rounded to float32. Error: ATTN_ENOMEM. */
attn_status attn_attention_source(const attn_attention *a, const attn_stats *stats,
                                  attn_stage stage, size_t lanes, attn_arena *arena,
                                  attn_weight_source *out, attn_error *err);

/* The value of a cell that covers several weights. */
typedef enum attn_pooling { ATTN_POOL_MAX = 0, ATTN_POOL_MEAN, ATTN_POOL_BOTH } attn_pooling;
typedef enum attn_heads { ATTN_HEADS_ALL = 0, ATTN_HEADS_LIST, ATTN_HEADS_MEAN } attn_heads;

/* Which heatmaps to make. Start from attn_heatmap_defaults(). */
typedef struct attn_heatmap_options {
    attn_heads heads;         /* default ALL; MEAN: one heatmap of the mean over heads */
    const int64_t *head_list; /* [head_count] for LIST */
    size_t head_count;
    const int64_t *batch_list; /* [batch_count]; NULL: all batch entries */
    size_t batch_count;
    size_t row_from, row_to; /* rows row_from … row_to - 1; 0, 0: all */
    size_t col_from, col_to; /* keys col_from … col_to - 1; 0, 0: all */
    /* Largest number of cells of all heatmaps together; each heatmap has at least one cell. 0:
     * 65,536 less 64 for each heatmap after the first, so that their JSON stays below 1 MiB. */
    size_t max_cells;
    attn_pooling pool; /* which value a cell gets; default ATTN_POOL_MAX */
    /* Edges are the largest weights of each row: at most top_k of them (0: no limit) and, if top_p
     * > 0, only as many as are needed for a sum of at least top_p. Both 0: there are no edges. */
    size_t top_k;
    double top_p;
    /* Cells may be negative: `max` is then the value of largest magnitude, the range is [-m, m],
     * and row entropy is NaN. */
    bool signed_values;
} attn_heatmap_options;

/* A large weight, drawn as a line between query `row` and key `col` (indices of the matrix). */
typedef struct attn_edge {
    size_t row, col;
    float weight;
} attn_edge;

/* A sequence of hidden cells in one row of a heatmap: the cells (row, from) … (row, to - 1). A cell
 * is hidden if it covers no visible weight. */
typedef struct attn_hidden_run {
    size_t row, from, to;
} attn_hidden_run;

/* One heatmap of R x C cells. Cell (r, c) covers step[0] rows from row origin[0] + r * step[0] on,
 * and step[1] keys from key origin[1] + c * step[1] on. Cells of the last row and column may cover
 * fewer rows or keys. */
typedef struct attn_heatmap {
    size_t batch, head;        /* head SIZE_MAX: the mean over heads */
    size_t shape[2];           /* rows R and columns C of cells */
    size_t origin[2], step[2]; /* in rows and keys of the matrix */
    /* Smallest and largest value of the visible cells in `max`, or in `mean` if max is NULL. For
     * signed values [-m, m], where m is the largest magnitude. */
    float range[2];
    float mean_range[2]; /* smallest and largest visible cell of `mean`; `range` if max is NULL */
    bool signed_values;  /* copied from the options */
    /* [R, C] maximum and mean of the visible weights of each cell; NULL: not asked for. Hidden
     * cells have 0. */
    float *max, *mean;
    attn_hidden_run *hidden; /* [hidden_count] in row-major order */
    size_t hidden_count;
    /* [R], nats: entropy of a row of weights over all keys, averaged over the rows of a cell; NaN
     * if none of these rows sees a key. */
    float *row_entropy;
    /* [C] sum of the weights on the keys of a cell, over the chosen rows that are no padding */
    float *received;
    /* [edge_count] ordered by row, then by falling weight, then by key. Only visible keys from
     * col_from to col_to - 1. */
    attn_edge *edges;
    size_t edge_count;
} attn_heatmap;

/* The heatmaps of a source. */
typedef struct attn_heatmaps {
    attn_heatmap *items; /* [count] ordered by batch entry, then head */
    size_t count;
    /* 0. A caller whose batch entries have a leading layer axis can set it to the entries of a
     * layer, so that items[i].batch = layer * layer_batches + batch. */
    size_t layer_batches;
} attn_heatmaps;

/* Returns the options with their default values. */
attn_heatmap_options attn_heatmap_defaults(void);
/* Returns whether cell (row, col) is hidden. Ask for cells in row-major order, with *at = 0 before
 * the first one: *at keeps the index of the first element of map->hidden that can contain the next
 * cell. */
bool attn_heatmap_is_hidden(const attn_heatmap *map, size_t row, size_t col, size_t *at);
/* Computes the number of heatmaps and the rows and columns of each from shapes alone, even if they
 * are beyond the limits of attn_heatmap_build. Errors: those of attn_heatmap_build about shapes and
 * options, except for these limits. */
attn_status attn_heatmap_shape(const attn_heatmap_options *options, size_t B, size_t H, size_t L,
                               size_t S, size_t *maps, size_t shape[2], attn_error *err);
/* Computes the bytes of attn_heatmap_build on `slots` threads from shapes alone. Errors as
 * attn_heatmap_build; if err->limit states an exceeded limit, *out still has the cost. */
attn_status attn_heatmap_cost(const attn_heatmap_options *options, size_t B, size_t H, size_t L,
                              size_t S, size_t slots, attn_cost *out, attn_error *err);
/* Makes heatmaps in the arena. Row entropy is -sum p ln p. If the source has logits s, the entropy
 * is computed as ln l - sum p (s - m), where m is the largest logit of the row and l = sum exp(s -
 * m); this is exact for large logits too. With source->not_softmax the weights are divided by
 * their sum first. NaN weights are left out; a cell whose visible weights
 * are all NaN is NaN. Results do not depend on the pool. Errors, with err->where:
 *
 *   ATTN_EARG    a head, batch entry, row or column is out of range ("heads/2", "batch/0", "rows",
 *                "cols"); an unknown number of an enum ("heads", "pool")
 *   ATTN_ELIMIT  "heads": more than max(512, max_cells) heatmaps; "top_k": more than 1,048,576
 *                edges in all; "top_p" without top_k: more edges in a row than its share of
 *                1,048,576
 *   ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE, and errors of the source */
attn_status attn_heatmap_build(const attn_weight_source *source,
                               const attn_heatmap_options *options, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_heatmaps *out,
                               attn_error *err);

/* How a place t in [0, 1] on the scale of a heatmap becomes the brightness f(t) of a cell. */
typedef enum attn_transform {
    ATTN_LINEAR = 0, /* f(t) = t */
    ATTN_SQRT,       /* f(t) = sqrt(t) */
    ATTN_LOG         /* f(t) = ln(1 + 255 t) / ln 256 */
} attn_transform;
/* Converts n cells to bytes; f is the transform.
 *
 *   unsigned  round(255 f(t)) with t = (v - lo) / (hi - lo), limited to [0, 1]. If lo = hi, t is 1
 *             for v > 0, else 0.
 *   signed    range is [-m, m] and u = f(|v| / m): round(255 (1 + u) / 2) for v >= 0,
 *             round(255 (1 - u) / 2) for v < 0. So v = 0 is always the byte 128.
 *
 * NaN becomes 0 in both cases. */
void attn_heatmap_quantise(uint8_t *dst, const float *src, size_t n, const float range[2],
                           attn_transform transform, bool signed_values);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
