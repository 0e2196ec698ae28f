/* Shared by the files of stored runs: the opened run, the levels of its cells, and the tables that
 * give inputs of an operation their names in an image. An image is a run as bytes (attn/run.h). */
#ifndef ATTN_RUN_PRIVATE_H
#define ATTN_RUN_PRIVATE_H

#include <attn/run.h>

/* The levels of cells of an [L, S] matrix of weights. They depend on L and S alone. */
typedef struct attn_run_pyramid {
    size_t L, S;
    size_t levels;   /* number of levels; the last fits into one tile */
    size_t overview; /* first level that the overview holds; SIZE_MAX: the image has no overview */
} attn_run_pyramid;

attn_run_pyramid attn_run_pyramid_of(size_t L, size_t S);
/* Returns how many cells of a level cover n rows (or columns) of weights. */
size_t attn_run_cells_along(size_t n, size_t level);

enum { ATTN_RUN_PLANES = 2 }; /* number of levels in the overview */

struct attn_run {
    attn_safetensors file;
    attn_run_site *sites; /* [site_count] */
    size_t site_count;
};

struct attn_run_site {
    const attn_run *run; /* the run of which this is a site */
    attn_run_site_info info;
    attn_inputs in; /* the inputs, as views of the image */
    attn_attention *op;
    const attn_attention_dims *dims;
    attn_stats stats;
    attn_run_pyramid pyramid;
    /* overview levels, each [B, Hq, rows, cols]; NULL without an overview */
    const float *max[ATTN_RUN_PLANES], *mean[ATTN_RUN_PLANES];
    /* [L] and [S], or [B, L] and [B, S] if batch entries have labels of their own; or NULL */
    const char **query_labels, **key_labels;
    bool exact; /* the kernel table that computed the run is in use, so weights have its bits */
    bool own_labels; /* batch entries have labels of their own */
};

/* --- names in the image (run_image.c) --- */

/* A tensor of attn_inputs and its name in the image, which is also its name in requests. The table
 * ends with the name NULL. */
typedef struct attn_run_tensor_name {
    const char *name;
    size_t offset; /* offset of the attn_tensor in attn_inputs */
} attn_run_tensor_name;
extern const attn_run_tensor_name attn_run_tensor_names[];

/* A number of attn_inputs and its key in the metadata of the image, which holds it as text. The
 * table ends with the key NULL. */
typedef enum attn_run_number {
    ATTN_RUN_REAL,
    ATTN_RUN_SIZE,
    ATTN_RUN_I64,
    ATTN_RUN_ENUM,
    ATTN_RUN_BOOL
} attn_run_number;
typedef struct attn_run_number_name {
    const char *key;
    attn_run_number kind;
    size_t offset;
    int most;      /* for ATTN_RUN_ENUM: the largest valid number */
    bool optional; /* runs of older versions lack it; then it is 0 */
} attn_run_number_name;
extern const attn_run_number_name attn_run_number_names[];

#define ATTN_RUN_VERSION     "run.version"
#define ATTN_RUN_KERNEL      "run.kernel"
#define ATTN_RUN_WORDS       "run.mask"
#define ATTN_RUN_SCORE       "run.score_name"
#define ATTN_RUN_MASK        "run.mask.%zu" /* key of a mask layer's line of text */
#define ATTN_RUN_MASK_TENSOR "mask.%zu"
#define ATTN_RUN_OFFSETS     "query_offsets"

/* Bytes of a key and of a mask layer's line, with the NUL. */
enum { ATTN_RUN_KEY = 32, ATTN_RUN_LINE = 320 };

/* Parses `text` as the number that `name` describes and stores it in that member of *in. Returns
 * false if the text is not a number of this kind or is out of its range. */
bool attn_run_number_read(const attn_run_number_name *name, const char *text, attn_inputs *in);
/* Reads a mask layer, except for its tensor, from a line of at most ATTN_RUN_LINE bytes. Returns
 * false if the line does not describe a layer. The layer's `where` points into the line. */
bool attn_run_layer_read(const char *line, attn_mask_layer *layer);

/* --- pooling weights to cells (run_tiles.c) --- */

/* Computes *bytes, the size of the buffers that one thread needs to pool weights to cells of
 * `level`, if a row has `cols` cells. Returns false on overflow. */
bool attn_run_buffer_bytes(const attn_attention_dims *d, size_t level, size_t cols, size_t *bytes);
/* Computes the overview in the arena: maximum and mean of each cell of its levels,
 * [B, Hq, rows, cols] for each level. */
attn_status attn_run_overview_make(const attn_attention *a, const attn_stats *stats,
                                   const attn_run_pyramid *pyramid, attn_pool *pool,
                                   const attn_control *control, attn_arena *arena,
                                   float *max[ATTN_RUN_PLANES], float *mean[ATTN_RUN_PLANES],
                                   attn_error *err);

#endif
