/* A stored run of one attention operation: all inputs of its scores, its row statistics and a small
 * overview, in one safetensors image. Any weight, row or tile can be computed from the image later,
 * with the same bits as in the full [L, S] matrix. That matrix is never stored.
 *
 * attn_run_image_new makes the image of an operation that has run. The image has the same bytes in
 * memory and in a file. attn_run_open makes an attn_run from an image and reads the image in place.
 *
 * Tiles form a pyramid of levels. A tile has 256 x 256 cells. A cell of level n covers 2^n x 2^n
 * weights. Tile (y, x) begins at cell (256 y, 256 x); tiles at the lower and right edges may be
 * smaller. The top level is one tile. The image of a run with more than 1,024 queries or keys holds
 * an overview: the first level of at most 512 x 512 cells and the level above it. Letters are those
 * of attention.h. */
#ifndef ATTN_RUN_H
#define ATTN_RUN_H

#include "attention.h"
#include "safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define ATTN_RUN_TILE     256 /* cells along one side of a tile */
#define ATTN_RUN_OVERVIEW 512 /* most cells along one side of the overview */

typedef struct attn_run attn_run;

enum { ATTN_RUN_METADATA = 16 };

/* The contents of an image. `op` has run and produced `stats`; its inputs are those after
 * projections. Labels are L and S texts, or NULL. Metadata are at most ATTN_RUN_METADATA texts of
 * the caller, with different keys. A key that begins with "run." is reserved (ATTN_EARG). */
typedef struct attn_run_source {
    const attn_attention *op;
    const attn_stats *stats;
    const char *const *query_labels, *const *key_labels;
    const attn_metadata *metadata;
    size_t metadata_count;
} attn_run_source;

/* The image in pieces, to be written one after the other; `size` bytes in all. The pieces point
 * into the inputs, the statistics and the arena. */
typedef struct attn_run_piece {
    const void *data;
    size_t size;
} attn_run_piece;
typedef struct attn_run_image {
    attn_run_piece *pieces;
    size_t count, size;
} attn_run_image;

/* Computes the cost of attn_run_image_new on `slots` threads from shapes alone. result_bytes is the
 * size of the image without masks and labels. ATTN_ELIMIT on overflow. */
attn_status attn_run_cost(const attn_attention_dims *dims, size_t slots, attn_cost *out,
                          attn_error *err);
/* Makes the image in the arena: packs masks to bits and computes the overview in the pool.
 * Errors: ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE, ATTN_ELIMIT. */
attn_status attn_run_image_new(const attn_run_source *source, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_run_image *out,
                               attn_error *err);

/* Makes a run of an image of `size` bytes. The image is aligned to ATTN_ALIGN and must outlive the
 * run. It is data from outside, so everything in it is checked. The run lives in the arena, and so
 * do the transformed queries and keys of learned scores and rotary positions. Any number of threads
 * may use a run. Errors: ATTN_EARG, ATTN_ESHAPE, ATTN_EDTYPE (not an image of a run),
 * ATTN_ENOMEM. */
attn_status attn_run_open(const void *data, size_t size, attn_arena *arena, attn_run **out,
                          attn_error *err);

const attn_attention *attn_run_attention(const attn_run *run); /* to be used with the stats */
const attn_attention_dims *attn_run_dims(const attn_run *run);
const attn_inputs *attn_run_inputs(const attn_run *run);
const attn_stats *attn_run_stats(const attn_run *run);
const char *const *attn_run_query_labels(const attn_run *run);   /* [L], or NULL */
const char *const *attn_run_key_labels(const attn_run *run);     /* [S], or NULL */
const char *attn_run_words(const attn_run *run);                 /* the original mask in words */
const char *attn_run_text(const attn_run *run, const char *key); /* metadata; NULL if absent */
/* Returns whether this process uses the kernel table that computed the run. If not (the image comes
 * from another processor), weights agree with those of the original run to float32 accuracy instead
 * of in every bit. */
bool attn_run_is_exact(const attn_run *run);

/* Returns the logsumexp of a row, or -infinity for a row that sees no key. */
double attn_run_logsumexp(const attn_run *run, size_t batch, size_t head, size_t row);

/* --- tiles --- */

typedef struct attn_run_place {
    size_t batch, head, level, y, x;
} attn_run_place;

size_t attn_run_levels(const attn_run *run); /* 1 or more */
/* Returns the first level that is read from the overview, or SIZE_MAX if there is no overview. */
size_t attn_run_overview_level(const attn_run *run);
/* Gives the rows and columns of a whole level, in cells. */
void attn_run_level_shape(const attn_run *run, size_t level, size_t shape[2]);
/* Gives the rows and columns of a tile, in cells. ATTN_EARG: there is no such tile (err->where is
 * "level", "y", "x", …). */
attn_status attn_run_tile_shape(const attn_run *run, const attn_run_place *at, size_t shape[2],
                                attn_error *err);
/* Computes the cost of a tile. It is a small constant for levels 0 and 1 and the overview
 * levels. */
attn_status attn_run_tile_cost(const attn_run *run, const attn_run_place *at, size_t slots,
                               attn_cost *out, attn_error *err);

/* The cells of a tile, in the arena. max and mean are over the visible weights of a cell; means are
 * summed in double. Both are -infinity if no weight of the cell is visible. NaN weights are left
 * out; a cell of NaN weights only is NaN. Weights of float64 runs are rounded to float32. */
typedef struct attn_run_tile {
    size_t shape[2];
    float *max, *mean;             /* equal at level 0 */
    bool hidden;                   /* no cell holds a visible weight */
    float range[2], mean_range[2]; /* smallest and largest visible value; 0, 0 without one */
} attn_run_tile;
attn_status attn_run_tile_make(const attn_run *run, const attn_run_place *at, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_run_tile *out,
                               attn_error *err);

/* --- one weight explained --- */

enum { ATTN_RUN_REASONS = ATTN_MASK_LAYERS };

typedef struct attn_run_cell {
    size_t width;     /* of the product: E, or the score width A of a learned form */
    double *query;    /* [width] after maps and rotation */
    double *key;      /* [width] */
    double *products; /* [width] q_e k_e, or v_e tanh(q_e + k_e); they sum to raw (without Shaw) */
    double relative;  /* Shaw: q . key_table at this distance */
    double raw, scale, scaled, softcap, softcapped; /* score stages and their factors */
    double mask_bias;                               /* sum of the additive masks */
    double position_bias;                           /* ALiBi, T5, relative */
    int64_t distance;                               /* j - p */
    bool visible, filled;                    /* filled: hidden, and replaced by a finite fill */
    double biased;                           /* input of softmax; -infinity where hidden */
    const char *hidden_by[ATTN_RUN_REASONS]; /* names of the masks that hide the cell */
    size_t hidden_count;
    double row_max, logsumexp; /* of the whole row */
    double weight;
    size_t rank, of; /* rank among the `of` visible keys of the row: 1 = largest weight (ties: the
                        lower key first), 0 = hidden */
} attn_run_cell;
/* Explains weight (row, col) of a head. Arrays are in the arena. The score stages are exact cells
 * of attn_attention_cells; `products` are computed in double. ATTN_EARG: the cell is outside of the
 * matrix. */
attn_status attn_run_explain(const attn_run *run, size_t batch, size_t head, size_t row, size_t col,
                             attn_arena *arena, attn_run_cell *out, attn_error *err);

/* --- what if --- */

/* Makes the inputs [1, 1, rows, E] of an operation that computes only the given rows of one head.
 * Without `hide`, its results equal these rows of the run in every bit. `hide` lists further keys
 * to hide, or is NULL. Dropout is left out. The tensors are views into the run or are in the
 * arena. */
attn_status attn_run_rows_inputs(const attn_run *run, const attn_range *rows, const int64_t *hide,
                                 size_t hide_count, attn_arena *arena, attn_inputs *out,
                                 attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
