/* A stored run: everything that shaped the scores of one attention operation, its row statistics
 * and a small overview, as one safetensors image. Any weight, row, tile or list is computed from it
 * later, bit for bit as the full [L, S] matrix would have held it. That matrix never exists.
 *
 * attn_run_image_new makes the image of an operation that has run. In memory and in a file it has
 * the same bytes. attn_run_open makes a run of an image, which it reads in place.
 *
 * Tiles form a pyramid; a tile has 256 x 256 cells. A cell of level n covers 2^n x 2^n weights.
 * Tile (y, x) begins at cell (256 y, 256 x); tiles at the far edges are smaller. The top level is
 * one tile. Runs of more than 1,024 queries or keys keep an overview: the first level of at most
 * 512 x 512 cells and the level above it. Letters are those of attention.h. */
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

/* The contents of an image. `op` has run (its inputs are those after projections) and left `stats`.
 * Labels are L and S texts, or NULL. Metadata are at most ATTN_RUN_METADATA texts of the caller.
 * Their keys differ and do not begin with "run.", which is reserved (else ATTN_EARG). */
typedef struct attn_run_source {
    const attn_attention *op;
    const attn_stats *stats;
    const char *const *query_labels, *const *key_labels;
    const attn_metadata *metadata;
    size_t metadata_count;
} attn_run_source;

/* The image in pieces, to be written one after the other; `size` bytes in all. The pieces point into
 * the inputs, the statistics and the arena. */
typedef struct attn_run_piece {
    const void *data;
    size_t size;
} attn_run_piece;
typedef struct attn_run_image {
    attn_run_piece *pieces;
    size_t count, size;
} attn_run_image;

/* The cost of attn_run_image_new over `slots` threads, from shapes alone. result_bytes is the size
 * of the image without masks and labels. ATTN_ELIMIT on overflow. */
attn_status attn_run_cost(const attn_attention_dims *dims, size_t slots, attn_cost *out,
                          attn_error *err);
/* Makes the image in the arena: packs masks to bits and computes the overview over the pool.
 * Errors: ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE, ATTN_ELIMIT. */
attn_status attn_run_image_new(const attn_run_source *source, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_run_image *out,
                               attn_error *err);

/* Makes a run of an image of `size` bytes. The image is aligned to ATTN_ALIGN and must outlive the
 * run. It is data from outside, so everything in it is checked. The run lives in the arena, and so
 * do the transformed queries and keys of learned scores and rotary positions. Any number of threads
 * may use a run. Errors: ATTN_EARG, ATTN_ESHAPE, ATTN_EDTYPE (not an image of a run), ATTN_ENOMEM. */
attn_status attn_run_open(const void *data, size_t size, attn_arena *arena, attn_run **out,
                          attn_error *err);

const attn_attention *attn_run_attention(const attn_run *run); /* to be used with the stats */
const attn_attention_dims *attn_run_dims(const attn_run *run);
const attn_inputs *attn_run_inputs(const attn_run *run);
const attn_stats *attn_run_stats(const attn_run *run);
const char *const *attn_run_query_labels(const attn_run *run); /* [L], or NULL */
const char *const *attn_run_key_labels(const attn_run *run);   /* [S], or NULL */
const char *attn_run_words(const attn_run *run); /* the mask in words, as it was sent */
const char *attn_run_text(const attn_run *run, const char *key); /* metadata; NULL if absent */
/* True when the kernel table that made the run is in use. If not (another processor opened it),
 * weights agree with those of the run to float32 accuracy instead of in every bit. */
bool attn_run_is_exact(const attn_run *run);

/* logsumexp of a row; -infinity for a row that sees no key. */
double attn_run_logsumexp(const attn_run *run, size_t batch, size_t head, size_t row);

/* --- tiles --- */

typedef struct attn_run_place {
    size_t batch, head, level, y, x;
} attn_run_place;

size_t attn_run_levels(const attn_run *run); /* 1 or more */
/* The first level that comes from the overview; SIZE_MAX when all levels are computed. */
size_t attn_run_overview_level(const attn_run *run);
/* Rows and columns of cells of a whole level. */
void attn_run_level_shape(const attn_run *run, size_t level, size_t shape[2]);
/* Rows and columns of cells of a tile. ATTN_EARG when there is no such tile ("level", "y", "x", …).
 */
attn_status attn_run_tile_shape(const attn_run *run, const attn_run_place *at, size_t shape[2],
                                attn_error *err);
/* The cost of a tile: a small constant for levels 0 and 1 and those of the overview. */
attn_status attn_run_tile_cost(const attn_run *run, const attn_run_place *at, size_t slots,
                               attn_cost *out, attn_error *err);

/* The cells of a tile, in the arena. max and mean are over the visible weights of a cell; means are
 * summed in double. Both are -infinity where no weight is visible. A NaN counts nowhere; a cell of
 * nothing else is NaN. Weights of float64 runs are rounded to float32. */
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
    double raw, scale, scaled, softcap, softcapped;
    double mask_bias;                        /* sum of the additive masks */
    double position_bias;                    /* ALiBi, T5, relative */
    int64_t distance;                        /* j - p */
    bool visible, filled;                    /* filled: hidden, but a finite fill stands for it */
    double biased;                           /* input of softmax; -infinity where hidden */
    const char *hidden_by[ATTN_RUN_REASONS]; /* names of the masks that hide it */
    size_t hidden_count;
    double row_max, logsumexp; /* of the whole row */
    double weight;
    size_t rank, of; /* 1 = largest weight of the row's visible keys (ties: the lower key first); 0
                        when hidden */
} attn_run_cell;
/* Explains weight (row, col) of a head with memory from the arena. ATTN_EARG outside of the matrix.
 * Stages are exact cells of attn_attention_cells. Products are computed in double. */
attn_status attn_run_explain(const attn_run *run, size_t batch, size_t head, size_t row, size_t col,
                             attn_arena *arena, attn_run_cell *out, attn_error *err);

/* --- what if --- */

/* Makes the inputs [1, 1, rows, E] of an operation over rows row … row + rows - 1 of one head alone.
 * Its results equal those rows of the run in every bit. `hide` lists keys that it hides besides, or
 * is NULL. Dropout is left out. The inputs are views into the run; the rest is in the arena. */
attn_status attn_run_rows_inputs(const attn_run *run, const attn_range *rows, const int64_t *hide,
                                 size_t hide_count, attn_arena *arena, attn_inputs *out,
                                 attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
