/* Pools weights to cells: maximum and mean of the visible weights in squares of 2^level x 2^level.
 * run_overview.c and run_tiles.c use it. */
#ifndef ATTN_RUN_POOL_H
#define ATTN_RUN_POOL_H

#include "attention/cells.h"
#include "attention/resolved.h"
#include "kernels/pointwise.h"
#include "runs/run_private.h"

/* Rows of weights that are computed together: a multiple of the rows of a tile of every kernel
 * table but `ref`, so that its keys are packed as seldom as possible. */
enum { ATTN_RUN_ROWS = 96 };

/* The cells [row, row + rows) x [col, col + cols) of a level, of one head. Units are cells. */
typedef struct attn_run_area {
    size_t batch, head, level, row, rows, col, cols;
} attn_run_area;

/* Statistics of the weights in one cell. */
typedef struct attn_run_sum {
    double sum;
    size_t count; /* visible weights that are not NaN */
    float max;
    bool nan;
} attn_run_sum;

/* The buffers of one thread. */
typedef struct attn_run_buffers {
    attn_cells_scratch *scratch;
    void *weights;          /* [ROWS, CHUNK] weights in the type of the results */
    float *line;            /* [CHUNK] a row of float64 weights, rounded to float32 */
    uint8_t *keep;          /* [CHUNK] visibility of the weights in a row */
    attn_pool_lanes *lanes; /* of the cells that CHUNK keys may touch */
    attn_run_sum *sums;     /* [rows, cols] */
    const attn_pointwise *pointwise;
    /* Pooling lets other work of this pool go first, and looks at `control`, about every 0.2 ms.
     * Both may be NULL. */
    attn_pool *pool;
    const attn_control *control;
} attn_run_buffers;

/* Computes *bytes, the size of the buffers that one thread needs to pool weights to an area of
 * rows x cols cells. Returns false on overflow. */
bool attn_run_buffer_bytes(const attn_attention_dims *d, size_t rows, size_t cols, size_t *bytes);
/* Allocates the buffers of each thread of a pool, [attn_pool_slots(pool)]. NULL: out of memory. */
attn_run_buffers **attn_run_buffers_new(const attn_attention *a, size_t rows, size_t cols,
                                        attn_pool *pool, const attn_control *control,
                                        attn_arena *arena);
/* Computes the statistics of the cells of an area from the weights, row-major
 * [area->rows, area->cols]. *sums points into the thread's buffers. */
attn_status attn_run_pool(const attn_attention *a, const attn_stats *stats,
                          const attn_run_area *area, attn_run_buffers *buf,
                          const attn_run_sum **sums, attn_error *err);
/* Return the maximum and the mean of a cell: -infinity if no weight in it is visible, NaN if all
 * visible weights are NaN. */
float attn_run_max_of(const attn_run_sum *sum);
float attn_run_mean_of(const attn_run_sum *sum);

#endif
