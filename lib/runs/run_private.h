/* What the files of stored runs share: the opened run, and the tables by which inputs become named
 * tensors and texts of an image and come back. */
#ifndef ATTN_RUN_PRIVATE_H
#define ATTN_RUN_PRIVATE_H

#include <attn/run.h>

/* The levels of a pyramid, from L and S alone. */
typedef struct attn_run_pyramid {
    size_t L, S;
    size_t levels;
    size_t overview; /* level of the overview, SIZE_MAX without */
} attn_run_pyramid;

attn_run_pyramid attn_run_pyramid_of(size_t L, size_t S);
/* Cells along an axis of n weights at a level. */
size_t attn_run_cells_along(size_t n, size_t level);

enum { ATTN_RUN_PLANES = 2 }; /* levels that the overview keeps: its own and the one above */

struct attn_run {
    attn_inputs in;
    attn_attention *op;
    const attn_attention_dims *dims;
    attn_stats stats;
    attn_run_pyramid pyramid;
    const float *max[ATTN_RUN_PLANES], *mean[ATTN_RUN_PLANES]; /* [B, Hq, rows, cols], or NULL */
    const char **query_labels, **key_labels;
    attn_safetensors file;
    bool exact;
};

/* --- the image's names (run_names.c) --- */

/* Tensors of attn_inputs by the name they have in requests. Ends with name NULL. */
typedef struct attn_run_tensor_name {
    const char *name;
    size_t offset; /* of an attn_tensor in attn_inputs */
} attn_run_tensor_name;
extern const attn_run_tensor_name attn_run_tensor_names[];

/* Numbers of attn_inputs as texts. Ends with key NULL. */
typedef enum attn_run_kind {
    ATTN_RUN_REAL,
    ATTN_RUN_SIZE,
    ATTN_RUN_I64,
    ATTN_RUN_ENUM,
    ATTN_RUN_BOOL
} attn_run_kind;
typedef struct attn_run_number_name {
    const char *key;
    attn_run_kind kind;
    size_t offset;
    int most; /* ENUM: its largest number */
} attn_run_number_name;
extern const attn_run_number_name attn_run_number_names[];

#define ATTN_RUN_VERSION     "run.version"
#define ATTN_RUN_KERNEL      "run.kernel"
#define ATTN_RUN_WORDS       "run.mask"
#define ATTN_RUN_SCORE       "run.score_name"
#define ATTN_RUN_MASK        "run.mask.%zu" /* texts of mask layers, and below their tensors */
#define ATTN_RUN_MASK_TENSOR "mask.%zu"
#define ATTN_RUN_OFFSETS     "query_offsets"

enum { ATTN_RUN_KEY = 32, ATTN_RUN_LINE = 320 };

/* One number as text into to[ATTN_RUN_KEY + 8], and back; false: the text is none. */
void attn_run_number_write(const attn_run_number_name *name, const attn_inputs *in, char *to);
bool attn_run_number_read(const attn_run_number_name *name, const char *text, attn_inputs *in);
/* A mask layer without its tensor as one line of at most ATTN_RUN_LINE bytes. The layer's `where`
 * points into the line. */
void attn_run_layer_write(const attn_mask_layer *layer, char *to);
bool attn_run_layer_read(const char *line, attn_mask_layer *layer);

/* --- pooling (run_pool.c) --- */

/* Cells [row, row + rows) x [col, col + cols) of a level of one head. */
typedef struct attn_run_area {
    size_t batch, head, level, row, rows, col, cols;
} attn_run_area;

/* Sums of one cell. */
typedef struct attn_run_sum {
    double sum;
    size_t count; /* visible weights that are numbers */
    float max;
    bool nan;
} attn_run_sum;

typedef struct attn_run_lane attn_run_lane; /* scratch of one thread */

/* Rows of cells whose weights are worth one piece of work. */
size_t attn_run_band(size_t level);
/* Scratch for bands of `cols` cells of a level; its bytes, false on overflow. */
attn_run_lane *attn_run_lane_new(const attn_attention *a, size_t level, size_t cols,
                                 attn_arena *arena);
bool attn_run_lane_bytes(const attn_attention_dims *d, size_t level, size_t cols, size_t *bytes);
/* The sums of an area of at most a band, row-major [rows, cols], computed from the weights. */
attn_status attn_run_pool(const attn_attention *a, const attn_stats *stats,
                          const attn_run_area *area, attn_run_lane *lane, const attn_run_sum **sums,
                          attn_error *err);
/* The two values of a cell. */
float attn_run_sum_max(const attn_run_sum *s);
float attn_run_sum_mean(const attn_run_sum *s);

/* --- the overview (run_overview.c) --- */

/* Both planes of each kept level, [B, Hq, rows, cols] in the arena. */
attn_status attn_run_overview_make(const attn_attention *a, const attn_stats *stats,
                                   const attn_run_pyramid *pyramid, attn_pool *pool,
                                   const attn_control *control, attn_arena *arena,
                                   float *max[ATTN_RUN_PLANES], float *mean[ATTN_RUN_PLANES],
                                   attn_error *err);

#endif
