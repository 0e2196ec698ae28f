/* Stored runs. A run holds sites; a site is one attention operation. Its image is a safetensors
 * container with all inputs of the scores (lib/runs/FORMAT.md), and with the row statistics and a
 * small overview if its maker had them. Any weight, row or tile can be computed from the image
 * later, with the same bits as in the full [L, S] matrix. That matrix is never stored.
 *
 * attn_run_image_new makes the image of operations. The image has the same bytes in memory and in a
 * file. attn_run_open makes an attn_run from an image; it copies no tensor.
 *
 * Weights are shown as cells in levels. A cell of level n covers 2^n x 2^n weights. A tile is 256 x
 * 256 cells of a level: tile (y, x) begins at cell (256 y, 256 x), and tiles at the lower and right
 * edges may be smaller. The top level is a single tile. If a site has more than 1,024 queries or
 * keys, its image may hold an overview, so that no tile takes long. An overview is all cells of one
 * level and of all levels above. Its lowest level is the first one that has at most 512 x 512
 * cells, but at most level 5, or level 6 for more than 65,536 queries or keys.
 *
 * B, Hq, L, S, E and A are the sizes of attention.h. */
#ifndef ATTN_RUN_H
#define ATTN_RUN_H

#include "attention.h"
#include "checksum.h"
#include "heatmap.h"
#include "safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define ATTN_RUN_TILE 256 /* cells along one side of a tile */

typedef struct attn_run attn_run;
typedef struct attn_run_site attn_run_site;

/* Where a site stands in its model:
 *   SELF              self-attention; no model is known
 *   ENCODER, DECODER  self-attention of an encoder or of a decoder
 *   CROSS             attention of a decoder to an encoder's outputs */
#define ATTN_RUN_KIND_LIST(ITEM)                                                                   \
    ITEM(SELF, "self") ITEM(ENCODER, "encoder") ITEM(DECODER, "decoder") ITEM(CROSS, "cross")
#define ATTN_RUN_KIND_NUMBER(name, text) ATTN_RUN_##name,
typedef enum attn_run_kind {
    ATTN_RUN_KIND_LIST(ATTN_RUN_KIND_NUMBER) ATTN_RUN_KINDS
} attn_run_kind;
#undef ATTN_RUN_KIND_NUMBER
const char *attn_run_kind_name(attn_run_kind kind); /* NULL: no such kind */

/* The description of a site, apart from its operation. */
typedef struct attn_run_site_info {
    const char *name; /* UTF-8, unique in the run */
    attn_run_kind kind;
    /* UTF-8 name of the stack of layers that the site belongs to, if the model has several stacks
     * of this kind, such as one for texts and one for images; else NULL */
    const char *stack;
    size_t layer; /* number of the layer among the sites of its kind and stack, from 0 */
    size_t call;  /* number of the call of this layer, from 0 */
    /* index in its text of the token of query 0, and of the token of key 0 */
    size_t query_start, key_start;
    /* Indices of the texts of the queries and of the keys in the run: one for all batch entries, or
     * one for each. NULL: no texts. */
    const size_t *query_texts, *key_texts;
    size_t query_text_count, key_text_count;
    /* [B] how many of the queries and of the keys of each batch entry are real; the others are
     * padding, which no measure counts. NULL: not stated. */
    const int64_t *query_lengths, *key_lengths;
    /* [axis_count] names of the axes of the weights in front of L and S. A caller that stores a
     * site may leave it NULL: then every axis is "batch", but the last one "head" if the weights
     * have heads. */
    const char *const *axes;
    size_t axis_count;
} attn_run_site_info;

/* Returns whether the layers of both sites are counted together: kind and stack are the same. */
bool attn_run_same_stack(const attn_run_site_info *a, const attn_run_site_info *b);

/* Checks names of axes against the shape of the weights: one for each axis in front of L and S,
 * "layer" (the first one only), "batch" or "head" (the last one, if the weights have heads). Errors
 * at "axes": ATTN_ESHAPE, ATTN_EARG. */
attn_status attn_run_axes_check(const attn_attention_dims *dims, const char *const *axes,
                                size_t count, attn_error *err);

/* A text as the tokens that sites refer to. Members may be NULL, except tokens. */
typedef struct attn_run_text {
    size_t count;
    const char *const *tokens;  /* [count] UTF-8 */
    const int64_t *ids;         /* [count] */
    const size_t (*offsets)[2]; /* [count] bytes [from, to) of each token in `text` */
    const uint8_t *special;     /* [count] 1: a token such as [CLS] */
    const char *text;           /* UTF-8 */
} attn_run_text;

/* Largest number of metadata texts that a caller can add to an image. */
enum { ATTN_RUN_METADATA = 16 };

/* A site of an image to be made. Its inputs are stored as they are after projections. */
typedef struct attn_run_site_source {
    const attn_attention *op;
    /* Statistics of the run of `op`. NULL: they are computed when rows are read. Only with
     * statistics does the image hold an overview. */
    const attn_stats *stats;
    attn_run_site_info info; /* name NULL: "sites.N" with the site's number */
} attn_run_site_source;

/* The contents of an image to be made. `metadata` are at most ATTN_RUN_METADATA texts of the caller
 * with different keys; "run", and keys that begin with "run.", are reserved. */
typedef struct attn_run_source {
    const attn_run_site_source *sites; /* [site_count] */
    size_t site_count;                 /* at least 1 */
    const attn_run_text *texts;        /* [text_count] */
    size_t text_count;
    const char *model; /* a name for people; or NULL */
    const attn_metadata *metadata;
    size_t metadata_count;
} attn_run_source;

/* An image as byte ranges that are to be written one after the other, `size` bytes in all. The
 * ranges point into the inputs, the statistics and the arena. */
typedef struct attn_run_piece {
    const void *data;
    size_t size;
} attn_run_piece;
typedef struct attn_run_image {
    attn_run_piece *pieces;
    size_t count, size;
} attn_run_image;

/* Computes the cost of attn_run_image_new for one site on `slots` threads from shapes alone.
 * result_bytes is the size of the image without masks and texts, in bytes. ATTN_ELIMIT: a size
 * overflows. */
attn_status attn_run_cost(const attn_attention_dims *dims, size_t slots, attn_cost *out,
                          attn_error *err);
/* Makes the image in the arena: packs boolean masks to bits and computes the overview on the pool.
 * Errors:
 *
 *   ATTN_EARG       a metadata key is reserved or repeated
 *   ATTN_ESHAPE     a list of texts or lengths does not fit the batch entries, or a text is too
 *                   short; err->where names the site and the list ("sites/0/query_text")
 *   ATTN_ENOMEM     the arena is full
 *   ATTN_ECANCELED  `control` cancelled the work
 *   ATTN_EDEADLINE  the deadline of `control` has passed
 *   ATTN_ELIMIT     too many texts, or a size overflows */
attn_status attn_run_image_new(const attn_run_source *source, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_run_image *out,
                               attn_error *err);

/* Largest number of sites of a run, and largest size in bytes of the text that describes them,
 * unless attn_run_limits says otherwise. */
#define ATTN_RUN_SITES_MOST 4096
#define ATTN_RUN_BYTES_MOST (16 << 20)

typedef struct attn_run_limits {
    size_t sites;      /* most sites; 0: ATTN_RUN_SITES_MOST */
    size_t text_bytes; /* most bytes of the text; 0: ATTN_RUN_BYTES_MOST */
} attn_run_limits;

enum { ATTN_RUN_FORMAT = 2 }; /* version of the format, the only one that is read and written */

/* Opens an image of `size` bytes (lib/runs/FORMAT.md). The image must be aligned to ATTN_ALIGN and
 * must outlive the run. Names, shapes and numbers of all sites are checked; the elements of masks
 * and tables are checked when their site is opened. `limits` NULL: the limits above. The run is in
 * the arena and takes more memory from it when sites are opened, so nothing else may use the arena
 * as long as the run lives. Any number of threads may use a run at the same time. On an error
 * err->where names a member ("sites/3/scale") or a tensor. Errors: ATTN_EARG, ATTN_ESHAPE,
 * ATTN_EDTYPE or ATTN_EVALUE if the data is not a valid image; ATTN_ELIMIT; ATTN_ENOMEM. */
attn_status attn_run_open(const void *data, size_t size, const attn_run_limits *limits,
                          attn_arena *arena, attn_run **out, attn_error *err);
/* Returns the texts of the run, [*count]. They live as long as the run. */
const attn_run_text *attn_run_texts(const attn_run *run, size_t *count);
/* Returns the name of the model for people, or NULL. */
const char *attn_run_model(const attn_run *run);

/* Returns the number of sites, at least 1. */
size_t attn_run_site_count(const attn_run *run);
/* Returns the sizes of site `index` without opening it. */
const attn_attention_dims *attn_run_site_shape(const attn_run *run, size_t index);
/* Returns what is known of site `index`, below attn_run_site_count, without opening it. */
const attn_run_site_info *attn_run_site_info_of(const attn_run *run, size_t index);
/* Return the length of the site's axis of layers, or 0 if it has none, and the number of batch
 * entries of one layer. Entry b of layer l is the batch entry l * entries + b of the site, and the
 * layer has the number info->layer + l. */
size_t attn_run_site_layers(const attn_run *run, size_t index);
size_t attn_run_site_entries(const attn_run *run, size_t index);
/* Returns how many bytes of keys and values all sites of the run gather from blocks when they are
 * opened. attn_run_open refuses a run in which this exceeds the limit of its arena. */
size_t attn_run_gathered(const attn_run *run);
/* Opens site `index`: gathers its keys and values if they lie in blocks (attn/pages.h), compiles
 * its masks, and transforms its queries and keys if the score form needs this. A site is opened
 * once; later calls return the same one. It lives as long as the run.
 * Errors: those of attn_attention_new. */
attn_status attn_run_site_open(const attn_run *run, size_t index, const attn_run_site **out,
                               attn_error *err);

/* Returns the number of an opened site in its run. */
size_t attn_run_site_index(const attn_run_site *site);

/* Returns the checksums of the bytes behind the header of the image, and sets *bytes to the first
 * of these bytes; NULL: the image has no checksums. attn_run_image_new adds them. attn_run_open
 * checks the header alone. Callers must check the parts that they use: attn_run_visit names the
 * parts, and attn_checksums_check checks them. */
const attn_checksums *attn_run_checksums(const attn_run *run, const void **bytes);
/* Calls visit for each part of the image that the weights and outputs of a head are computed from,
 * until it returns false; then returns false. `batch` and `head` SIZE_MAX: all. A part that lies
 * outside of the image is a copy of parts that are visited, too. */
bool attn_run_visit(const attn_run_site *site, size_t batch, size_t head,
                    bool (*visit)(void *ctx, const void *from, size_t bytes), void *ctx);

/* Return parts of an opened site, which live as long as the run. */
const attn_attention *attn_run_attention(const attn_run_site *site);
const attn_attention_dims *attn_run_dims(const attn_run_site *site);
const attn_inputs *attn_run_inputs(const attn_run_site *site);
/* If the site belongs to a capture (lib/runs/FORMAT.md) without mask_semantics, warns about the
 * numbers that its masks add (attn_mask_lint_numbers). Other sites get no warnings. Error:
 * ATTN_ENOMEM. */
attn_status attn_run_lint(const attn_run_site *site, attn_arena *arena, attn_warnings *out,
                          attn_error *err);
/* Makes a source of the weights of the site, with its padding, for `lanes` threads. Queries and
 * keys are padding from the query length or key length of their batch entry on. In a capture, a key
 * is also padding if a mask with one value for all heads and queries hides it; and if the capture
 * has no query lengths, a query in self-attention of one text is padding if the key of its token
 * is. Error: ATTN_ENOMEM. */
attn_status attn_run_source_of(const attn_run_site *site, size_t lanes, attn_arena *arena,
                               attn_weight_source *out, attn_error *err);
/* Return the labels of the queries [L] and of the keys [S] of a batch entry, or NULL. */
const char *const *attn_run_query_labels(const attn_run_site *site, size_t batch);
const char *const *attn_run_key_labels(const attn_run_site *site, size_t batch);
/* Return for each of these labels, [L] and [S], whether its text says that it is a special token
 * (attn_run_text.special). NULL: the text does not say. */
const uint8_t *attn_run_query_special(const attn_run_site *site, size_t batch);
const uint8_t *attn_run_key_special(const attn_run_site *site, size_t batch);
/* Returns the number of batch entries with labels of their own: 1 if all have the same labels, 0
 * if there are none. */
size_t attn_run_label_entries(const attn_run_site *site);
/* Returns the site's mask in words, as the image has it. */
const char *attn_run_words(const attn_run_site *site);
/* Returns how many blocks hold the keys, in words (attn_pages_words); NULL: the keys are not in
 * blocks. */
const char *attn_run_blocks_words(const attn_run_site *site);
/* Returns the metadata text of a key; NULL: the run has no such key. */
const char *attn_run_metadata(const attn_run *run, const char *key);
/* Tells whether this process uses the kernel table that computed the run. If not (the image comes
 * from another kind of processor), weights agree with the original ones to float32 accuracy, but
 * not in every bit. */
bool attn_run_is_exact(const attn_run_site *site);

/* Returns the natural logarithm of the sum of exp(score) over a row; -infinity if the row sees no
 * key, NaN if the normaliser is not softmax. The indices must be in range, and a weight of the row
 * must have been computed before, so that its statistics are known. */
double attn_run_logsumexp(const attn_run_site *site, size_t batch, size_t head, size_t row);

/* --- layers --- */

/* A layer: batch entries first … first + batches - 1 of the site. */
typedef struct attn_run_layer {
    const attn_run_site *site;
    size_t number, first;
} attn_run_layer;

/* Layers, ordered by their numbers. All have the same batch entries, queries and keys. */
typedef struct attn_run_layers {
    attn_run_layer *items; /* [count] */
    size_t count, batches, rows, cols;
    size_t heads; /* heads of each layer; 0: layers have different numbers of heads */
    bool named;   /* the layers are those of an axis of layers or of several sites */
} attn_run_layers;

/* Collects the layers of the sites: those of an axis of layers, or one for a site without such an
 * axis. The sites are opened. Errors at "site": ATTN_ESHAPE (layers have other shapes), ATTN_EARG
 * (two sites are the same layer); those of attn_run_site_open; ATTN_ENOMEM. */
attn_status attn_run_layers_of(const attn_run *run, const size_t *sites, size_t count,
                               attn_arena *arena, attn_run_layers *out, attn_error *err);
/* Makes a source of the weights of all layers, which must have equally many heads: batch entry
 * l * batches + b is entry b of layers->items[l]. `layers` must outlive the source. Error:
 * ATTN_ENOMEM. */
attn_status attn_run_layers_source(const attn_run_layers *layers, size_t lanes, attn_arena *arena,
                                   attn_weight_source *out, attn_error *err);

/* --- cells of ranges, means of heads, and rollout --- */

/* Sets keep[i], i < at->cols, to whether row at->row of the weights of a head sees key at->col + i.
 * A row of mixed weights sees a key if any head that it is mixed from sees it. Scores that
 * attn_mask_fills replaces count as hidden. */
void attn_run_keep(const attn_attention *a, const attn_range *at, uint8_t *keep);

/* Computes the cells of `count` ranges with the same columns, at a stage. dst gets their rows one
 * range after the other, [rows, cols] of the result type. Errors: those of attn_attention_cells;
 * ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE. */
attn_status attn_run_cells(const attn_run_site *site, const attn_range *ranges, size_t count,
                           attn_stage stage, attn_pool *pool, const attn_control *control,
                           attn_arena *arena, void *dst, attn_error *err);
/* Computes the mean of the weights over all heads, for ranges as in attn_run_cells; `head` of the
 * ranges is not read. Sums are in double, in the order of the heads; dropout is left out. It takes
 * at most attn_run_mean_work bytes for the threads of the pool, and ATTN_RUN_MEAN_ROW bytes for
 * each row. */
attn_status attn_run_mean(const attn_run_site *site, const attn_range *ranges, size_t count,
                          attn_pool *pool, const attn_control *control, attn_arena *arena,
                          void *dst, attn_error *err);
size_t attn_run_mean_work(const attn_run_site *site, size_t slots);
#define ATTN_RUN_MEAN_ROW 128

/* Heads by number, or all. */
typedef struct attn_run_heads {
    const int64_t *list; /* [count]; NULL: all */
    size_t count;
} attn_run_heads;

/* A rollout through layers with as many queries as keys. */
typedef struct attn_run_rollout {
    const attn_run_layers *layers;
    size_t batch;         /* batch entry, the same in each layer */
    attn_run_heads heads; /* heads over which the mean is taken; every layer must have them */
    double residual;      /* r, from 0 to 1 */
} attn_run_rollout;

/* Computes rows of the attention rollout (Abnar and Zuidema 2020) of the layers, out [count, S]:
 *
 *   R_0 = I,  R_l = N((1 - r) mean_h A_l + r I) R_{l-1},  where N divides each row by its sum
 *
 * With r = 0.5 these are rows of attn_rollout_source, in O(S) memory: of each A_l, only the rows on
 * which the wanted rows depend are computed. A row whose sum is 0 (r = 0 and no visible key) stays
 * 0. Sums are in double, and their order does not depend on the pool. Errors: those of
 * attn_attention_cells; ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE. */
attn_status attn_run_rollout_rows(const attn_run_rollout *rollout, const size_t *rows, size_t count,
                                  attn_pool *pool, const attn_control *control, attn_arena *arena,
                                  double *out, attn_error *err);
/* Computes the cost of attn_run_rollout_rows on `slots` threads from the masks. Of each layer it
 * counts all cells from the first to the last row that the wanted rows depend on, though rows
 * between them may not be needed. ATTN_ELIMIT: a size overflows. */
attn_status attn_run_rollout_cost(const attn_run_rollout *rollout, const size_t *rows, size_t count,
                                  size_t slots, attn_cost *out, attn_error *err);

/* Largest number of tokens of an attention flow, counted from the first to the last token that the
 * wanted rows reach. */
#define ATTN_RUN_FLOW_TOKENS 512
/* Computes rows of the attention flow of the layers of a rollout (Abnar and Zuidema 2020, section
 * 3.2), out [count, S]. An edge leads from token i above a layer to token j below it, and its
 * capacity is element (i, j) of N((1 - r) mean_h A_l + r I). Row i of the flow has in column j the
 * maximum flow from token i on top to token j at the bottom. This flow is at least the rollout, and
 * equal to it for one layer. It is NaN where a row of capacities between the tokens has NaN.
 *
 * Flows are in double. A remaining capacity of at most 1e-12 counts as 0, so a flow is too small by
 * at most 1e-12 for each edge of the cut that bounds it. Each flow is computed by itself, so it
 * does not depend on the pool or on the other rows. Time is about rows * tokens * edges, where
 * edges grow with layers * tokens^2. Errors: ATTN_ELIMIT at "rows" (more than ATTN_RUN_FLOW_TOKENS
 * tokens), and those of attn_run_rollout_rows. */
attn_status attn_run_flow_rows(const attn_run_rollout *rollout, const size_t *rows, size_t count,
                               attn_pool *pool, const attn_control *control, attn_arena *arena,
                               double *out, attn_error *err);
/* Computes the cost of attn_run_flow_rows on `slots` threads from the masks. The operations are
 * those that flows usually take. Errors: ATTN_ELIMIT as attn_run_flow_rows. */
attn_status attn_run_flow_cost(const attn_run_rollout *rollout, const size_t *rows, size_t count,
                               size_t slots, attn_cost *out, attn_error *err);

/* --- tiles --- */

/* How weights are normalised. AS_IS: not at all. ROW_MAX: each weight is divided by the largest
 * weight of its row, which becomes 1. UNIFORM: each weight is multiplied by the number of keys that
 * its row sees, so that 1 is uniform attention. */
typedef enum attn_run_normalize {
    ATTN_RUN_AS_IS = 0,
    ATTN_RUN_ROW_MAX,
    ATTN_RUN_UNIFORM
} attn_run_normalize;

/* What tiles show; all zero: the weights. Each number is computed in double from one or more
 * normalised weights; hidden weights count as 0. The number is rounded to float32 once, before
 * numbers are pooled to cells. A number is visible if one of its weights is. */
typedef struct attn_run_view {
    attn_run_normalize normalize;
    /* true: the mean over all heads of the site; then attn_run_place.head is not read */
    bool mean_heads;
    /* Not NULL: the numbers are differences from the weights of this site, which has the same B,
     * Hq, L and S, in the same batch entry and head. The maximum of a cell is then the difference
     * of largest magnitude (of equal ones the positive), with its sign. */
    const attn_run_site *against;
} attn_run_view;

/* All cells of one head in one view, for the levels from attn_run_map_level on. */
typedef struct attn_run_map attn_run_map;

/* Which tile, and what it shows. */
typedef struct attn_run_place {
    size_t batch, head;
    size_t level;
    size_t y, x; /* row and column in the grid of tiles of this level, from 0 */
    attn_run_view view;
    /* a complete map of this head and view; the tile is copied from it if the map has its level.
     * NULL: no map */
    const attn_run_map *map;
} attn_run_place;

size_t attn_run_levels(const attn_run_site *site); /* number of levels, 1 or more */
/* Returns the lowest level of the overview, or SIZE_MAX if there is no overview. */
size_t attn_run_overview_level(const attn_run_site *site);
/* Stores the rows and columns of a whole level, in cells. */
void attn_run_level_shape(const attn_run_site *site, size_t level, size_t shape[2]);
/* Stores the rows and columns of a tile, in cells. ATTN_EARG: there is no such tile; err->where
 * names the wrong member of `at`. */
attn_status attn_run_tile_shape(const attn_run_site *site, const attn_run_place *at,
                                size_t shape[2], attn_error *err);
/* Computes the cost of attn_run_tile_make on `slots` threads. A tile of weights is copied if the
 * overview has its level, and a tile with a map is copied if the map has its level. A copied tile
 * has no cells to compute. ATTN_EARG: there is no such tile. ATTN_ESHAPE at "against": that site
 * has other shapes. */
attn_status attn_run_tile_cost(const attn_run_site *site, const attn_run_place *at, size_t slots,
                               attn_cost *out, attn_error *err);

/* The cells of a tile, in the arena. max and mean are those of the visible weights of a cell. NaN
 * weights are left out. A cell without a visible weight has -infinity in both, and a cell in which
 * all visible weights are NaN has NaN. Sums are in double; weights of float64 runs are rounded to
 * float32. */
typedef struct attn_run_tile {
    size_t shape[2];     /* rows and columns of cells */
    float *max, *mean;   /* [shape[0], shape[1]] each, in this order; equal at level 0 */
    bool hidden;         /* true: no cell has a visible weight */
    float range[2];      /* smallest and largest finite max; 0, 0: there is none */
    float mean_range[2]; /* smallest and largest finite mean; 0, 0: there is none */
} attn_run_tile;
/* Makes a tile. Errors: ATTN_EARG (there is no such tile), ATTN_ESHAPE at "against", ATTN_ENOMEM,
 * ATTN_ECANCELED, ATTN_EDEADLINE. */
attn_status attn_run_tile_make(const attn_run_site *site, const attn_run_place *at, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_run_tile *out,
                               attn_error *err);

/* The topmost tiles of all heads in the overview. attn_run_tops returns their maxima, which are
 * *bytes bytes of the image; NULL: there is no overview, or there are no heads. attn_run_ranges
 * returns the ranges [B, Hq, 2] of these maxima, as attn_run_tile has them, which live as long as
 * the run; NULL: there are none, or no memory is left. The first call reads the tiles, so the
 * caller must check the bytes of attn_run_tops before it. */
const void *attn_run_tops(const attn_run_site *site, size_t *bytes);
const float *attn_run_ranges(const attn_run_site *site);

/* Returns the lowest level of a map, or SIZE_MAX if the matrix is so small that maps have no
 * cells. */
size_t attn_run_map_level(const attn_run_site *site);
/* Computes the cost of attn_run_map_fill of a new map on `slots` threads. result_bytes are those of
 * the map. Errors as attn_run_tile_cost, but level, y and x of `at` are not read. */
attn_status attn_run_map_cost(const attn_run_site *site, const attn_run_place *at, size_t slots,
                              attn_cost *out, attn_error *err);
/* Makes a map without cells, which points to nothing outside of the arena. ATTN_EARG at "level":
 * the site has no maps; ATTN_ENOMEM. */
attn_status attn_run_map_new(const attn_run_site *site, attn_arena *arena, attn_run_map **out,
                             attn_error *err);
/* Returns the share of a map's work that is still to do: 1 for a new map, 0 for a complete one. */
double attn_run_map_missing(const attn_run_map *map);
/* Computes the cells that the map lacks, for which it reads all weights of the head. `at` names the
 * head and the view. If the call is stopped, the map keeps what is done, and another call goes on
 * from there. No other thread may use the map meanwhile. Errors as attn_run_tile_make. */
attn_status attn_run_map_fill(attn_run_map *map, const attn_run_site *site,
                              const attn_run_place *at, attn_pool *pool,
                              const attn_control *control, attn_arena *arena, attn_error *err);

/* --- thumbnails --- */

/* A small picture of one head: all cells of the lowest level that has at most a given number of
 * rows and of columns of cells. The cells are as those of a tile. The level may lie above the
 * topmost tile; its cells cover 2^level x 2^level weights, too. */
typedef struct attn_run_thumbnail {
    size_t level, shape[2];
    float *max, *mean;             /* [shape[0], shape[1]] each, in the arena */
    float range[2], mean_range[2]; /* as in attn_run_tile */
} attn_run_thumbnail;

/* The number of visible weights in each cell of a site's topmost tile. Heads with equal masks share
 * the numbers. */
typedef struct attn_run_counts attn_run_counts;
/* Makes room for the counts in the arena. NULL: out of memory. */
attn_run_counts *attn_run_counts_new(const attn_run_site *site, attn_arena *arena);

/* Makes the thumbnail of head at->head of batch entry at->batch, with at most `cells` rows and
 * columns. Of `at`, only these two members and at->map are read. Cells that the overview or the map
 * lacks are computed on `threads`. `counts` of the site are the weights with which means of cells
 * are pooled; NULL: means are not wanted, and may be wrong. NaN weights are left out of maxima and
 * means, but the counts include them. One thread at a time may use `counts`. Errors as
 * attn_run_tile_make. */
attn_status attn_run_thumbnail_make(const attn_run_site *site, const attn_run_place *at,
                                    size_t cells, attn_run_counts *counts, attn_pool *threads,
                                    const attn_control *control, attn_arena *arena,
                                    attn_run_thumbnail *out, attn_error *err);
/* Computes an upper bound of the cost of attn_run_thumbnail_make on `slots` threads, its counts
 * included. ATTN_ELIMIT: a size overflows. */
attn_status attn_run_thumbnail_cost(const attn_run_site *site, size_t slots, attn_cost *out,
                                    attn_error *err);

/* --- who looks at a key --- */

/* Finds for each key the at most k rows with the largest weights on it. The rows are those of the
 * `count` ranges, which are of one head and have the same keys, col … col + cols - 1; rows of
 * padding are left out. The edges are in the arena, ordered by key, then by falling weight, then by
 * row. Only visible cells count, and NaN weights are left out. Weights of float64 runs are rounded
 * to float32. It takes memory for cols * k edges, but for no part of the matrix. Errors: ATTN_EARG
 * (a range is outside of the matrix), ATTN_ELIMIT at "top_k" (more than 1,048,576 edges),
 * ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE. */
attn_status attn_run_columns(const attn_run_site *site, const attn_range *ranges, size_t count,
                             size_t k, attn_pool *pool, const attn_control *control,
                             attn_arena *arena, attn_edge **edges, size_t *edge_count,
                             attn_error *err);
/* Computes the cost of attn_run_columns on `slots` threads. Error: ATTN_ELIMIT as
 * attn_run_columns. */
attn_status attn_run_columns_cost(const attn_run_site *site, const attn_range *ranges, size_t count,
                                  size_t k, size_t slots, attn_cost *out, attn_error *err);

/* --- one weight explained --- */

/* Largest number of masks that can hide a cell. */
enum { ATTN_RUN_REASONS = ATTN_MASK_LAYERS };

/* One weight and the steps of its computation. `query` to `products` are [width] arrays in the
 * arena. */
/* One of the weights from which a mixed weight is computed. */
typedef struct attn_run_read {
    size_t head;
    double factor, weight;
} attn_run_read;

typedef struct attn_run_cell {
    /* The head whose score is explained: that of the cell. If weights are mixed, it is the head of
     * the element of `reads` whose weight times factor has the largest magnitude. */
    size_t head;
    /* [read_count] terms whose sum is the weight; 0: the weight is not mixed */
    attn_run_read *reads;
    size_t read_count;
    size_t width;     /* E, or the score width A of a learned form */
    double *query;    /* the query vector after projection and rotation */
    double *key;      /* the key vector after projection and rotation */
    double *products; /* terms q_e k_e, or v_e tanh(q_e + k_e); raw = their sum + relative */
    double relative;  /* SHAW, DISENTANGLED: products with vectors of the distance; else 0 */
    /* scaled = scale * raw; softcapped = softcap * tanh(scaled / softcap), or scaled */
    double raw, scale, scaled, softcap, softcapped;
    double mask_bias;     /* sum of the additive masks at this cell */
    double position_bias; /* bias of ALiBi, T5 or relative positions */
    /* position of the key minus that of the query; ATTN_NO_POSITION: one of them has none */
    int64_t distance;
    /* true: a mask hides the key, but the run gives it a finite score instead. Such a cell counts
     * as visible. */
    bool visible, filled;
    double biased; /* the input of the normaliser; -infinity if hidden */
    /* [hidden_count] names of the masks that hide the cell */
    const char *hidden_by[ATTN_RUN_REASONS];
    size_t hidden_count;
    /* largest visible score (or sink) of the row, and its logsumexp; NaN: the normaliser is not
     * softmax */
    double row_max, logsumexp;
    /* if the normaliser is not softmax: the weight is a function of biased - threshold, divided by
     * the divisor (forms.h) */
    double threshold, divisor;
    double weight;
    /* Rank of the weight among the `of` visible keys of its row. 1 is the largest; of equal weights
     * the lower key comes first; 0: the cell is hidden. */
    size_t rank, of;
} attn_run_cell;
/* Explains the weight of query `row` and key `col` in a head. Arrays are in the arena. The steps
 * raw … weight have the bits that attn_attention_cells gives; `products` are computed in double.
 * Errors: ATTN_EARG (the cell is outside of the matrix), ATTN_ENOMEM. */
attn_status attn_run_explain(const attn_run_site *site, size_t batch, size_t head, size_t row,
                             size_t col, attn_arena *arena, attn_run_cell *out, attn_error *err);

/* --- what if --- */

/* Makes the inputs of an operation that computes only the given rows of one head, with batch and
 * head axes of length 1. Without `hide`, its results have the bits of these rows of the run; but
 * under a strided pattern, few rows are summed in another order. `hide` lists hide_count more keys
 * to hide, or is NULL. Dropout is left out. The tensors are views of the run or are in the arena.
 * Errors: ATTN_EARG (rows or a key out of range, or the run has a mask fill), ATTN_ELIMIT (too many
 * masks), ATTN_ENOMEM. */
attn_status attn_run_rows_inputs(const attn_run_site *site, const attn_range *rows,
                                 const int64_t *hide, size_t hide_count, attn_arena *arena,
                                 attn_inputs *out, attn_error *err);

/* Sums the run's weights on `count` keys in each row of a range: mass[r] is the sum for row
 * rows->row + r, in double, in the order of the keys; rows->col and rows->cols are not read. A key
 * that is named twice counts once. Dropout is left out. It needs O(S) memory. Errors: ATTN_EARG (a
 * key is out of range: "keys"; the range is outside of the matrix), ATTN_ENOMEM, ATTN_ECANCELED,
 * ATTN_EDEADLINE. */
attn_status attn_run_mass(const attn_run_site *site, const attn_range *rows, const int64_t *keys,
                          size_t count, attn_pool *pool, const attn_control *control,
                          attn_arena *arena, double *mass, attn_error *err);
/* Returns how many bytes attn_run_mass takes on `slots` threads. */
size_t attn_run_mass_work(const attn_run_site *site, size_t slots);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
