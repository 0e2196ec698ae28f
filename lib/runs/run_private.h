/* Declarations shared by the files of stored runs: the opened run, its pyramid of cells, and the
 * tables that map inputs to named tensors and texts of an image. */
#ifndef ATTN_RUN_PRIVATE_H
#define ATTN_RUN_PRIVATE_H

#include <attn/run.h>

/* The levels of a pyramid, from L and S alone. */
typedef struct attn_run_pyramid {
    size_t L, S;
    size_t levels;
    size_t overview; /* first level of the overview; SIZE_MAX: there is no overview */
} attn_run_pyramid;

attn_run_pyramid attn_run_pyramid_of(size_t L, size_t S);
/* Returns the number of cells along an axis of n weights at a level. */
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

/* --- names in the image (run_image.c) --- */

/* Lists the tensors of attn_inputs with their names in requests. The last entry has name NULL. */
typedef struct attn_run_tensor_name {
    const char *name;
    size_t offset; /* of an attn_tensor in attn_inputs */
} attn_run_tensor_name;
extern const attn_run_tensor_name attn_run_tensor_names[];

/* Lists the numbers of attn_inputs, which the image holds as texts. The last entry has key NULL. */
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
    int most; /* ATTN_RUN_ENUM: the largest number of the enum */
} attn_run_number_name;
extern const attn_run_number_name attn_run_number_names[];

#define ATTN_RUN_VERSION     "run.version"
#define ATTN_RUN_KERNEL      "run.kernel"
#define ATTN_RUN_WORDS       "run.mask"
#define ATTN_RUN_SCORE       "run.score_name"
#define ATTN_RUN_MASK        "run.mask.%zu" /* key of the text of a mask layer */
#define ATTN_RUN_MASK_TENSOR "mask.%zu"
#define ATTN_RUN_OFFSETS     "query_offsets"

enum { ATTN_RUN_KEY = 32, ATTN_RUN_LINE = 320 };

/* Reads one number into *in; false: the text is not such a number. */
bool attn_run_number_read(const attn_run_number_name *name, const char *text, attn_inputs *in);
/* Reads a mask layer without its tensor from one line of at most ATTN_RUN_LINE bytes. false: the
 * line does not describe a layer. The layer's `where` points into the line. */
bool attn_run_layer_read(const char *line, attn_mask_layer *layer);

/* --- cells (run_tiles.c) --- */

/* Computes the bytes of one thread's scratch for pooling `cols` cells of a level; false:
 * overflow. */
bool attn_run_lane_bytes(const attn_attention_dims *d, size_t level, size_t cols, size_t *bytes);
/* Computes max and mean of each overview level, [B, Hq, rows, cols], in the arena. */
attn_status attn_run_overview_make(const attn_attention *a, const attn_stats *stats,
                                   const attn_run_pyramid *pyramid, attn_pool *pool,
                                   const attn_control *control, attn_arena *arena,
                                   float *max[ATTN_RUN_PLANES], float *mean[ATTN_RUN_PLANES],
                                   attn_error *err);

#endif
