/* Pools weights, or the numbers that a view shows instead (attn_run_view), to cells: maximum and
 * mean in squares of 2^level x 2^level, for the overview (pyramid.c) and for tiles. */
#ifndef ATTN_RUN_POOL_H
#define ATTN_RUN_POOL_H

#include "attention/cells.h"
#include "attention/resolved.h"
#include "kernels/pointwise.h"
#include "runs/private.h"

enum {
    /* Number of rows of weights that are computed together. It is a multiple of the rows of a tile
     * in every kernel table but `ref`, so all tiles are full. A kernel packs keys once for each
     * tile, so full tiles pack keys least often. */
    ATTN_RUN_ROWS = 96,
    ATTN_RUN_CHUNK = 2048, /* number of columns (keys) of weights that are computed together */
};

/* One operation and the statistics of its rows. */
typedef struct attn_run_term {
    const attn_attention *a;
    const attn_stats *stats;
} attn_run_term;

/* The matrices that are pooled, one for each head. A matrix has the weights of one operation, or
 * the weights of terms[0] minus those of terms[1], an operation of the same shape. */
typedef struct attn_run_matrix {
    attn_run_term terms[2];
    size_t count;                 /* number of terms: 1 or 2 */
    attn_run_normalize normalize; /* applied to each weight, before mean and difference */
    bool mean_heads;              /* there is one matrix, the mean over all heads */
} attn_run_matrix;

/* The cells [row, row + rows) x [col, col + cols) of a level of one head. All four count cells. */
typedef struct attn_run_area {
    size_t batch, head, level, row, rows, col, cols;
} attn_run_area;

/* Statistics of the weights in one cell. */
typedef struct attn_run_sum {
    double sum;
    size_t count; /* number of visible weights that are not NaN */
    float max;    /* largest weight, or the difference of largest magnitude */
    bool nan;     /* at least one visible weight is NaN */
} attn_run_sum;

/* The buffers of one thread. ROWS is ATTN_RUN_ROWS, CHUNK is ATTN_RUN_CHUNK. `mixed`, `wide` and
 * `seen` have no elements unless the matrix is a mean or a difference, `minus` none unless it is a
 * difference. */
typedef struct attn_run_buffers {
    attn_cells_scratch *scratch[2]; /* scratch memory for each term */
    void *weights;                  /* [ROWS, CHUNK] weights in the type of the results */
    float *line;                    /* [CHUNK] a row of weights as float32 */
    uint8_t *keep;                  /* [CHUNK] visibility of the weights in a row */
    double *factors;                /* [terms, heads, ROWS] the factors of attn_run_factors */
    double *mixed;                  /* [terms, ROWS, CHUNK] sums over heads */
    double *wide;                   /* [CHUNK] a row of one head as double, added to `mixed` */
    uint8_t *seen;                  /* [ROWS, CHUNK] 1: visible in a head of at least one term */
    float *minus;                   /* [CHUNK] the negative parts of a row of differences */
    /* Partial sums of the cells that CHUNK keys may touch. lanes[1] is for the negative parts of
     * differences; it is NULL if there is one term. */
    attn_pool_lanes *lanes[2];
    attn_run_sum *sums; /* [rows, cols] statistics of the cells of an attn_run_area */
    const attn_pointwise *pointwise;
    /* About every 0.2 ms, pooling lets other work of this pool go first, and checks `control`. Both
     * may be NULL. */
    attn_pool *pool;
    const attn_control *control;
} attn_run_buffers;

/* The shapes that determine the size of the buffers. */
typedef struct attn_run_shapes {
    /* dims of each term; dims[1] is NULL if there is one term */
    const attn_attention_dims *dims[2];
    bool mean_heads;
} attn_run_shapes;
attn_run_shapes attn_run_shapes_of(const attn_run_matrix *matrix);
/* Takes the buffers of one thread from an area of memory. They suffice for an attn_run_area of
 * rows x cols cells. */
void attn_run_buffers_place(attn_area *area, const attn_run_shapes *shapes, size_t rows,
                            size_t cols, attn_run_buffers *buf);
/* Prepares new buffers for attn_run_pool. */
void attn_run_buffers_begin(attn_run_buffers *buf, attn_pool *pool, const attn_control *control);
/* Computes the statistics of the cells of an area. Sets *sums to an array
 * [area->rows, area->cols] in the thread's buffers. */
attn_status attn_run_pool(const attn_run_matrix *matrix, const attn_run_area *area,
                          attn_run_buffers *buf, const attn_run_sum **sums, attn_error *err);
/* Adds the statistics `from` of a cell to the statistics `to` of another cell. */
void attn_run_join(const attn_run_matrix *matrix, attn_run_sum *to, const attn_run_sum *from);
/* Return the maximum and the mean of a cell: -infinity if no weight in it is visible, NaN if all
 * visible weights are NaN. */
float attn_run_max_of(const attn_run_sum *sum);
float attn_run_mean_of(const attn_run_sum *sum);
/* Sets `range` to the smallest and the largest finite value of n cells; to 0 and 0 if no value is
 * finite. Returns whether all cells are hidden (-infinity). */
bool attn_run_find_range(const float *cells, size_t n, float range[2]);

/* --- the matrices that are pooled (view.c) --- */

/* A part of a row of a matrix. */
typedef struct attn_run_row {
    const float *w;      /* [n] numbers, from column `col` on */
    size_t col, n;       /* first column, number of columns */
    size_t from, to;     /* columns outside of [from, to) are hidden */
    const uint8_t *keep; /* [to - from] visibility of these columns; NULL: all are visible */
} attn_run_row;

/* Returns the matrices that a view of a site shows. */
attn_run_matrix attn_run_matrix_of(const attn_run_site *site, const attn_run_view *view);
/* Reduces [*from, *to) by keys at its ends that the mask hides from a row. `row` gives batch, head
 * and row. If some keys of the reduced interval may be hidden, writes the visibility of each of its
 * keys to `keep` and returns `keep`. NULL: all keys of the interval are visible. */
const uint8_t *attn_run_visible_keys(const attn_attention *a, const attn_range *row, size_t *from,
                                     size_t *to, uint8_t *keep);
/* Reduces [*lo, *hi) without removing a key that one of the rows [row, row + rows) may see. */
void attn_run_clip(const attn_run_matrix *matrix, size_t batch, size_t row, size_t rows, size_t *lo,
                   size_t *hi);
/* Computes, for rows [row, row + rows) of each head, the number that normalises the row: its
 * largest weight, or the number of keys that it sees. Stores these numbers in buf->factors, which
 * attn_run_row_of reads. */
attn_status attn_run_factors(const attn_run_matrix *matrix, const attn_run_area *area, size_t row,
                             size_t rows, attn_run_buffers *buf, attn_error *err);
/* Computes a block of at most ROWS x CHUNK numbers of a matrix into the buffers. */
attn_status attn_run_block(const attn_run_matrix *matrix, const attn_range *range,
                           attn_run_buffers *buf, attn_error *err);
/* Normalises row r of the block that was computed last, in place, and returns the row. The row is
 * valid until the next call. This function must be called once for each row. */
attn_run_row attn_run_row_of(const attn_run_matrix *matrix, const attn_range *range, size_t r,
                             attn_run_buffers *buf);

/* --- the overview (pyramid.c) --- */

/* Heads first … first + count - 1 of all B * Hq heads. */
typedef struct attn_run_head_span {
    size_t first, count;
} attn_run_head_span;
/* Allocates the levels pyramid->overview … pyramid->levels - 1 of some heads, [heads, rows, cols]
 * each. Returns false if memory runs out. */
bool attn_run_planes_new(const attn_run_pyramid *pyramid, size_t heads, attn_arena *arena,
                         attn_run_planes *out);
/* Computes all cells of these levels for some heads, in pieces of work. If `done` is NULL, computes
 * all pieces. Otherwise there must be one head, and done [attn_run_overview_pieces, at most
 * ATTN_RUN_TILE] has a flag for each piece: computes the pieces whose flag is 0, and sets their
 * flags to 1. */
attn_status attn_run_overview_make(const attn_run_matrix *matrix, const attn_run_head_span *heads,
                                   const attn_run_pyramid *pyramid, attn_pool *pool,
                                   const attn_control *control, attn_arena *scratch, uint8_t *done,
                                   const attn_run_planes *out, attn_error *err);
/* Returns the number of pieces of work for each head. */
size_t attn_run_overview_pieces(const attn_run_pyramid *pyramid);
/* Sets *planes to the bytes of the planes of one head, and *work to the bytes that
 * attn_run_overview_make takes to work on `slots` threads. Returns false on overflow. */
bool attn_run_overview_bytes(const attn_run_shapes *shapes, const attn_run_pyramid *pyramid,
                             size_t slots, double *planes, size_t *work);

#endif
