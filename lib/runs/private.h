/* Shared by the files of stored runs: the opened run, its sites, and the levels of their cells. An
 * image is a run as bytes (attn/run.h). */
#ifndef ATTN_RUN_PRIVATE_H
#define ATTN_RUN_PRIVATE_H

#include <attn/pages.h>
#include <attn/run.h>
#include <pthread.h>

#include "base/element.h"
#include "base/sweep.h"
#include "io/seal.h"

/* The levels of cells of an [L, S] matrix of weights. They depend on L and S alone. */
typedef struct attn_run_pyramid {
    size_t L, S;
    size_t levels; /* number of levels; the last fits into one tile */
    /* The overview has the cells of this level and of all levels above it. SIZE_MAX: there is no
     * overview. */
    size_t overview;
} attn_run_pyramid;

attn_run_pyramid attn_run_pyramid_of(size_t L, size_t S);
/* Returns how many cells of a level cover n rows (or columns) of weights. */
size_t attn_run_cells_along(size_t n, size_t level);
/* Returns the lowest level with at most `most` cells along a side of n weights. */
size_t attn_run_level_within(size_t n, size_t most);

enum { ATTN_RUN_SEAL = 2 }; /* version of sealed images */

enum { ATTN_RUN_LEVELS = 64 }; /* largest number of levels of any matrix */

/* Maxima and means of the cells of some levels. max[level] and mean[level] are [heads, rows, cols]
 * each, or NULL if they are not stored. */
typedef struct attn_run_planes {
    float *max[ATTN_RUN_LEVELS], *mean[ATTN_RUN_LEVELS];
} attn_run_planes;
#define ATTN_RUN_OVERVIEW_MAX  "overview.%zu.max" /* names of tensors, by level */
#define ATTN_RUN_OVERVIEW_MEAN "overview.%zu.mean"

/* The pool of blocks that holds the keys and values of a site. */
typedef struct attn_run_blocks {
    attn_pages pages;     /* pages.table.rank is 0 if the site has no blocks */
    attn_tensor pools[2]; /* the pools of keys and of values, in the image */
    const char *words;    /* text of attn_pages_words; NULL: the site has no blocks */
} attn_run_blocks;

struct attn_run {
    const char *model;
    attn_safetensors file;
    attn_seal seal;                    /* seal.version is 0 if the file has no seal */
    const attn_named_tensor **by_name; /* [file.count] the tensors of the file sorted by name */
    attn_arena *arena;                 /* protected by the lock, once the run is open */
    pthread_mutex_t *lock;
    attn_run_text *texts; /* [text_count] */
    size_t text_count;
    attn_run_site *sites; /* [site_count] */
    size_t site_count;
    size_t gathered; /* bytes of the keys and values that all sites gather from blocks */
};

struct attn_run_site {
    const attn_run *run; /* the run that has this site */
    attn_run_site_info info;
    /* The inputs, as views of the image. Keys and values of blocks have no data before the site is
     * opened, and then lie in the arena of the run. */
    attn_inputs in;
    attn_run_blocks blocks;
    attn_attention_dims shape; /* sizes, known before the site is opened */
    const char *kernel;        /* kernel table that computed the statistics; NULL: no statistics */
    const char *words;         /* the mask in words; if NULL, made when the site is opened */
    bool stated;               /* the site has mask_semantics, the meaning of numbers in masks */
    /* the file lacks the list `masks`, which attnd writes for each site */
    bool captured;
    _Atomic bool opened;
    /* The members below are set when the site is opened. */
    attn_attention *op;
    const attn_attention_dims *dims;
    attn_stats stats;
    attn_run_pyramid pyramid;
    attn_run_planes overview; /* planes in the image, which must not be written */
    /* [B, Hq, 2] result of attn_run_ranges, protected by the run's lock; NULL: not computed yet */
    float *ranges;
    /* [L] and [S], or [B, L] and [B, S] if own_labels; NULL: the site has no labels */
    const char **query_labels, **key_labels;
    /* [1] or [B] marks of the special tokens among the labels of a batch entry; NULL for an entry
     * whose text has no marks */
    const uint8_t **query_special, **key_special;
    const attn_padding *padding; /* [B]; NULL: the site has no padding */
    /* this process uses the run's kernel table, so weights are equal in every bit */
    bool exact;
    bool own_labels; /* batch entries have labels of their own */
};

/* --- an opened run (run.c) --- */

extern const char *const attn_run_kind_words[]; /* the names of attn_run_kind; then NULL */
/* Compares the names of two elements of attn_run.by_name, for qsort. */
int attn_run_by_name(const void *a, const void *b);
/* Returns the tensor of the image with this name; NULL: there is none. */
const attn_tensor *attn_run_find_tensor(const attn_run *run, const char *name);
/* Puts "sites/N/" before err->where. */
void attn_run_at_site(const attn_run_site *site, attn_error *err);
/* Sets the usual names of the axes if the site has none (axes.c). */
void attn_run_axes_usual(const attn_attention_dims *d, attn_run_site_info *info);

/* Finds the padding of an opened site (padding.c). Error: ATTN_ENOMEM. */
attn_status attn_run_padding_new(attn_run_site *site, attn_error *err);
/* Sets site->stats to statistics that are computed block by block, each on first use (stats.c). */
attn_status attn_run_stats_new(attn_run_site *site, attn_error *err);

/* Takes the scratch memory of attn_attention_cells from an area (ranges.c). */
attn_cells_scratch *attn_run_scratch_place(attn_area *area, const attn_attention_dims *d);
/* Takes from an area the scratch memory of a thread that computes weights of all layers
 * (layers.c). */
typedef struct attn_run_lane attn_run_lane;
attn_run_lane *attn_run_lane_place(attn_area *area, const attn_run_layers *layers);
/* Returns the scratch memory for the site of one of the layers, valid until the next call. */
attn_cells_scratch *attn_run_lane_scratch(attn_run_lane *lane, const attn_run_site *site);

/* Sets sums [rows, cols] to the weights of a block summed over `heads` (ranges.c). block->head is
 * not read. `cells` [rows, cols] is scratch memory in the result type. */
attn_status attn_run_add_heads(const attn_run_site *site, const attn_range *block,
                               const attn_run_heads *heads, attn_cells_scratch *scratch,
                               void *cells, double *sums, attn_error *err);

/* Gathers the keys and values of a site from its blocks, if it has any (run_blocks.c). Errors:
 * those of attn_pages_gather. */
attn_status attn_run_gather(attn_run_site *site, attn_error *err);

/* --- a layer as a step of rollout or flow (steps.c) --- */

/* Sets [*lo, *hi) to the keys that rows [row, row + rows) of a layer may see, extended to
 * [row, row + rows). */
void attn_run_step_keys(const attn_run_rollout *rollout, const attn_run_layer *layer, size_t row,
                        size_t rows, size_t *lo, size_t *hi);
/* Computes rows of N((1 - r) mean_h A + r I) of a layer, out [rows, cols], where N divides each row
 * by its sum. `at` gives the rows and columns; the columns must include those of attn_run_step_keys
 * for these rows. Batch and head of `at` are not read. `cells` [rows, cols] is scratch memory in
 * the widest type. */
attn_status attn_run_step_rows(const attn_run_rollout *rollout, const attn_run_layer *layer,
                               const attn_range *at, attn_run_lane *lane, void *cells, double *out,
                               attn_error *err);

/* --- boolean masks in an image (mask_bits.c) --- */

/* Returns whether the layer's tensor says which cells are visible. */
bool attn_run_mask_is_boolean(const attn_mask_layer *layer);
/* Replaces the tensor of a boolean mask for S keys by its visibility: by bits if the mask has at
 * least two axes and the last has S elements, else by booleans. The new tensor is in the arena.
 * Error: ATTN_ENOMEM. */
attn_status attn_run_mask_pack(attn_mask_layer *layer, size_t S, attn_arena *arena,
                               attn_error *err);

#endif
