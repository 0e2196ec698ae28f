/* Finds the rows with the largest weights on each key. An edge is a row, a key and its weight. The
 * cells are computed in tiles, and each key has a heap of the best edges so far, so memory grows
 * with the number of edges alone. A piece of work is some neighbouring keys with all rows. */
#include <math.h>
#include <string.h>

#include "analysis/edges.h"
#include "analysis/sums.h"
#include "attention/resolved.h"
#include "base/try.h"
#include "runs/pooling.h"
#include "runs/private.h"

enum {
    TILE_ROWS = 64,
    TILE_KEYS = 256,      /* largest number of keys of a piece */
    LEAST_KEYS = 64,      /* smallest number of keys of a piece, for long columns */
    PIECE_CELLS = 1 << 20 /* largest number of cells of a piece with more than LEAST_KEYS keys */
};
#define MOST_EDGES 1048576.0

typedef struct lane {
    attn_cells_scratch *scratch;
    void *cells; /* [TILE_ROWS, TILE_KEYS] of the run's result type */
    uint8_t *keep;
} lane;

typedef struct column_search {
    const attn_run_site *site;
    const attn_range *ranges;
    size_t range_count;
    size_t first, keys; /* the first key and the number of keys */
    size_t k;           /* largest number of edges of a key */
    size_t width;       /* number of keys of a piece */
    attn_pool *pool;
    const attn_control *control;
    attn_edge *edges; /* [keys, k] The edges of a key are a heap until they are sorted. */
    size_t *found;    /* [keys] number of edges of each key so far */
    lane *lanes;
} column_search;

/* Adds the visible cells of one row that are not NaN to the heaps of their keys, if they are among
 * the best. `hidden` tells whether cells may be hidden. `keep` [at->cols] is working memory. */
static void add_row_edges(const column_search *f, bool hidden, const attn_range *at, size_t row,
                          const void *cells, uint8_t *keep) {
    const attn_range part = {at->batch, at->head, row, 1, at->col, at->cols};
    const size_t elem = attn_dtype_size(f->site->dims->result);
    bool known = !hidden;
    if (known)
        memset(keep, 1, at->cols);
    for (size_t c = 0; c < at->cols; c++) {
        const size_t key = at->col - f->first + c;
        attn_edge *heap = f->edges + key * f->k;
        const float weight = (float)attn_element(cells, elem, c);
        if (isnan(weight) || (f->found[key] == f->k && weight < heap[0].weight))
            continue;
        if (!known)
            attn_run_keep(f->site->op, &part, keep);
        known = true;
        if (keep[c])
            attn_edges_add(heap, &f->found[key], f->k, (attn_edge){row, at->col + c, weight});
    }
}

static attn_status search_range(const column_search *f, const lane *l, const attn_range *range,
                                size_t key, size_t keys, attn_error *err) {
    const bool hidden = !attn_mask_fills(f->site->op->mask);
    const size_t elem = attn_dtype_size(f->site->dims->result);
    attn_range tile = {.batch = range->batch, .head = range->head, .col = key, .cols = keys};
    for (size_t r = 0; r < range->rows; r += tile.rows) {
        tile.row = range->row + r;
        tile.rows = range->rows - r < TILE_ROWS ? range->rows - r : TILE_ROWS;
        attn_pool_yield(f->pool);
        ATTN_TRY(attn_control_check(f->control, err));
        ATTN_TRY(attn_attention_cells(f->site->op, &f->site->stats, &tile, ATTN_STAGE_PROBS,
                                      l->cells, keys, l->scratch, err));
        const attn_padding *padding = f->site->padding ? &f->site->padding[tile.batch] : NULL;
        const uint8_t *pads = padding ? padding->rows : NULL;
        for (size_t i = 0; i < tile.rows; i++)
            if (!pads || !pads[tile.row + i])
                add_row_edges(f, hidden, &tile, tile.row + i,
                              (const char *)l->cells + i * keys * elem, l->keep);
    }
    return ATTN_OK;
}

static attn_status search_columns(void *work, size_t index, size_t slot, attn_error *err) {
    const column_search *f = work;
    const size_t at = index * f->width;
    const size_t keys = f->keys - at < f->width ? f->keys - at : f->width;
    for (size_t i = 0; i < f->range_count; i++)
        ATTN_TRY(search_range(f, &f->lanes[slot], &f->ranges[i], f->first + at, keys, err));
    for (size_t key = at; key < at + keys; key++)
        attn_edges_sort(f->edges + key * f->k, f->found[key]);
    return ATTN_OK;
}

static void place_column_lane(const void *work, attn_area *area, void *to) {
    const attn_run_site *site = ((const column_search *)work)->site;
    lane *l = to;
    l->scratch = attn_run_scratch_place(area, site->dims);
    l->cells = attn_area_take(area, TILE_ROWS * TILE_KEYS, attn_dtype_size(site->dims->result));
    l->keep = attn_area_take(area, TILE_KEYS, 1);
}

static void place_columns(void *work, attn_area *area) {
    column_search *f = work;
    f->edges = attn_area_take_3(area, f->keys, f->k, 1, sizeof *f->edges);
    f->found = attn_area_take(area, f->keys, sizeof *f->found);
}

static const attn_sweep column_sweep = {sizeof(lane), place_column_lane, place_columns,
                                        search_columns, NULL};

static size_t rows_of_ranges(const attn_range *ranges, size_t count) {
    size_t rows = 0;
    for (size_t i = 0; i < count; i++)
        rows += ranges[i].rows;
    return rows;
}

/* Sets the members of *f, except its arrays. Error: ATTN_ELIMIT. */
static attn_status plan_columns(const attn_run_site *site, const attn_range *ranges, size_t count,
                                size_t k, column_search *f, attn_error *err) {
    const size_t rows = rows_of_ranges(ranges, count);
    *f = (column_search){.site = site,
                         .ranges = ranges,
                         .range_count = count,
                         .first = count ? ranges[0].col : 0,
                         .keys = count ? ranges[0].cols : 0,
                         .k = k < rows ? k : rows,
                         .width =
                             attn_within(PIECE_CELLS / (rows ? rows : 1), LEAST_KEYS, TILE_KEYS)};
    if ((double)f->keys * (double)f->k > MOST_EDGES)
        return attn_fail_limit(err, "top_k", MOST_EDGES,
                               "%zu keys with %zu rows each are %.0f edges; at "
                               "most %.0f can be listed",
                               f->keys, f->k, (double)f->keys * (double)f->k, MOST_EDGES);
    return ATTN_OK;
}

attn_status attn_run_columns_cost(const attn_run_site *site, const attn_range *ranges, size_t count,
                                  size_t k, size_t slots, attn_cost *out, attn_error *err) {
    column_search f;
    ATTN_TRY(plan_columns(site, ranges, count, k, &f, err));
    const attn_area counted = attn_sweep_count(&column_sweep, &f, slots);
    if (counted.overflow)
        return attn_fail(err, ATTN_ELIMIT, "top_k", "the edges are too many");
    *out = (attn_cost){.cells = (double)rows_of_ranges(ranges, count) * (double)f.keys,
                       .work_bytes = counted.used,
                       .result_bytes = f.keys * f.k * sizeof(attn_edge)};
    return ATTN_OK;
}

/* Moves the edges of all keys to the beginning of f->edges, without gaps. Returns their number. */
static size_t gather_edges(column_search *f) {
    size_t n = 0;
    for (size_t key = 0; key < f->keys; key++) {
        memmove(f->edges + n, f->edges + key * f->k, f->found[key] * sizeof *f->edges);
        n += f->found[key];
    }
    return n;
}

attn_status attn_run_columns(const attn_run_site *site, const attn_range *ranges, size_t count,
                             size_t k, attn_pool *pool, const attn_control *control,
                             attn_arena *arena, attn_edge **edges, size_t *edge_count,
                             attn_error *err) {
    column_search f;
    ATTN_TRY(plan_columns(site, ranges, count, k, &f, err));
    f.lanes = attn_sweep_open(&column_sweep, &f, attn_pool_slots(pool), arena);
    ATTN_TAKEN(f.lanes, "the edges", err);
    memset(f.found, 0, f.keys * sizeof *f.found);
    f.pool = pool;
    f.control = control;
    const size_t pieces = f.k ? (f.keys + f.width - 1) / f.width : 0;
    attn_status status = attn_sweep_run(&column_sweep, &f, pieces, 0, pool, control, err);
    *edges = f.edges;
    *edge_count = status ? 0 : gather_edges(&f);
    return status;
}
