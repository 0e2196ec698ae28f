/* Pools weights, or what a view shows instead of them (attn_run_view), to cells: maximum and mean in
 * squares of 2^level x 2^level, for the overview (pyramid.c) and for tiles. */
#ifndef ATTN_RUN_POOL_H
#define ATTN_RUN_POOL_H

#include "attention/cells.h"
#include "attention/resolved.h"
#include "kernels/pointwise.h"
#include "runs/private.h"

enum {
    /* Rows of weights that are computed together: a multiple of the rows of a tile of every kernel
     * table but `ref`, so that its keys are packed as seldom as possible. */
    ATTN_RUN_ROWS = 96,
    ATTN_RUN_CHUNK = 2048, /* columns (keys) of weights that are computed together */
};

/* One operation and the statistics of its rows. */
typedef struct attn_run_term {
    const attn_attention *a;
    const attn_stats *stats;
} attn_run_term;

/* What is pooled. With two terms it is the difference first - second; they have the same shape. */
typedef struct attn_run_matter {
    attn_run_term terms[2];
    size_t count;
    attn_run_normalize normalize; /* of each weight, before everything else */
    bool mean_heads;              /* the mean over all heads of the operation */
} attn_run_matter;

/* The cells [row, row + rows) x [col, col + cols) of a level, of one head. Units are cells. */
typedef struct attn_run_area {
    size_t batch, head, level, row, rows, col, cols;
} attn_run_area;

/* Statistics of the weights in one cell. */
typedef struct attn_run_sum {
    double sum;
    size_t count; /* visible weights that are not NaN */
    float max;    /* of differences the one of largest magnitude */
    bool nan;
} attn_run_sum;

/* The buffers of one thread. */
typedef struct attn_run_buffers {
    attn_cells_scratch *scratch[2]; /* of the terms */
    void *weights;                  /* [ROWS, CHUNK] weights in the type of the results */
    float *line;                    /* [CHUNK] a row of them as float32 */
    uint8_t *keep;                  /* [CHUNK] visibility of the weights in a row */
    double *factors;                /* [terms, heads, ROWS] what normalises a row (view.c) */
    double *mixed; /* [terms, ROWS, CHUNK] the terms of a mean or a difference; else empty */
    double *wide;  /* [CHUNK] a row of one of them; else empty */
    uint8_t *seen; /* [ROWS, CHUNK] visibility in any of them; else empty */
    float *minus;  /* [CHUNK] for differences; else empty */
    /* of the cells that CHUNK keys may touch, and for differences those of their negative parts */
    attn_pool_lanes *lanes[2];
    attn_run_sum *sums; /* [rows, cols] */
    const attn_pointwise *pointwise;
    /* Pooling lets other work of this pool go first, and looks at `control`, about every 0.2 ms.
     * Both may be NULL. */
    attn_pool *pool;
    const attn_control *control;
} attn_run_buffers;

/* The shapes of what is pooled. */
typedef struct attn_run_sides {
    const attn_attention_dims *dims[2]; /* of the terms; the second is NULL if there is one */
    bool mean_heads;
} attn_run_sides;
attn_run_sides attn_run_sides_of(const attn_run_matter *matter);
/* Takes the buffers of one thread from an area, to pool weights to areas of rows x cols cells. */
void attn_run_buffers_place(attn_area *area, const attn_run_sides *sides, size_t rows, size_t cols,
                            attn_run_buffers *buf);
/* Sets what attn_run_pool expects of new buffers. */
void attn_run_buffers_begin(attn_run_buffers *buf, attn_pool *pool, const attn_control *control);
/* Computes the statistics of the cells of an area, row-major [area->rows, area->cols]. *sums points
 * into the thread's buffers. */
attn_status attn_run_pool(const attn_run_matter *matter, const attn_run_area *area,
                          attn_run_buffers *buf, const attn_run_sum **sums, attn_error *err);
/* Adds the statistics of a cell to those of another one. */
void attn_run_join(const attn_run_matter *matter, attn_run_sum *to, const attn_run_sum *from);
/* Return the maximum and the mean of a cell: -infinity if no weight in it is visible, NaN if all
 * visible weights are NaN. */
float attn_run_max_of(const attn_run_sum *sum);
float attn_run_mean_of(const attn_run_sum *sum);
/* Stores the smallest and the largest finite value of n cells in `range`; 0 and 0 if there is none.
 * Returns whether all cells are hidden. */
bool attn_run_find_range(const float *cells, size_t n, float range[2]);

/* --- what is pooled (view.c) --- */

/* A row of what is pooled, [n] from column `col` on. Those in [from, to) are visible unless `keep`,
 * which begins with column `from`, hides them; NULL: it hides none. */
typedef struct attn_run_row {
    const float *w;
    size_t col, n, from, to;
    const uint8_t *keep;
} attn_run_row;

/* Returns the matter of a view of a site. */
attn_run_matter attn_run_matter_of(const attn_run_site *site, const attn_run_view *view);
/* Reduces [*from, *to) to the interval that the mask leaves to a row, of which `row` gives batch, head
 * and row. Returns `keep`, with the visibility of the keys in [*from, *to); NULL: all of them are
 * visible. */
const uint8_t *attn_run_visible_keys(const attn_attention *a, const attn_range *row, size_t *from,
                                     size_t *to, uint8_t *keep);
/* Reduces [*lo, *hi) to the keys that at least one of the rows may see. */
void attn_run_clip(const attn_run_matter *matter, size_t batch, size_t row, size_t rows, size_t *lo,
                   size_t *hi);
/* Computes what normalises the rows [row, row + rows), for attn_run_block. */
attn_status attn_run_factors(const attn_run_matter *matter, const attn_run_area *area, size_t row,
                             size_t rows, attn_run_buffers *buf, attn_error *err);
/* Computes a block of at most ROWS x CHUNK of the matter into the buffers. */
attn_status attn_run_block(const attn_run_matter *matter, const attn_range *range,
                           attn_run_buffers *buf, attn_error *err);
/* Returns row r of the block that was computed last, which is asked for once. It is valid until the
 * next call. */
attn_run_row attn_run_row_of(const attn_run_matter *matter, const attn_range *range, size_t r,
                             attn_run_buffers *buf);

/* --- the overview (pyramid.c) --- */

/* Heads first … first + count - 1 of all B * Hq heads. */
typedef struct attn_run_head_span {
    size_t first, count;
} attn_run_head_span;
/* Allocates the levels pyramid->overview … pyramid->levels - 1 of some heads, [heads, rows, cols]
 * each. false: out of memory. */
bool attn_run_planes_new(const attn_run_pyramid *pyramid, size_t heads, attn_arena *arena,
                         attn_run_planes *out);
/* Computes all cells of these levels. `done` has a flag for each piece of work of one head (at most
 * ATTN_RUN_TILE): pieces with a flag are left out, and those that are computed get one. NULL: all
 * pieces of all heads are computed. */
attn_status attn_run_overview_make(const attn_run_matter *matter, const attn_run_head_span *heads,
                                   const attn_run_pyramid *pyramid, attn_pool *pool,
                                   const attn_control *control, attn_arena *scratch, uint8_t *done,
                                   const attn_run_planes *out, attn_error *err);
size_t attn_run_overview_pieces(const attn_run_pyramid *pyramid); /* of each head */
/* Computes the bytes of the planes of one head, and the work of attn_run_overview_make on `slots`
 * threads. Returns false on overflow. */
bool attn_run_overview_bytes(const attn_run_sides *sides, const attn_run_pyramid *pyramid,
                             size_t slots, double *planes, size_t *work);

#endif
