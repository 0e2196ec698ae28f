/* Tiles of a stored run, and maps: computed cells of many levels, from which tiles are copied. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "runs/pooling.h"

/* Returns the number of rows of cells in a piece of work: as many as cover a block of ATTN_RUN_ROWS
 * rows of weights, but at least 2. */
static size_t rows_per_piece(size_t level) {
    const size_t rows = level < 6 ? (size_t)ATTN_RUN_ROWS >> level : 0;
    return rows > 2 ? rows : 2;
}

size_t attn_run_levels(const attn_run_site *site) {
    return site->pyramid.levels;
}
size_t attn_run_overview_level(const attn_run_site *site) {
    return site->pyramid.overview;
}

void attn_run_level_shape(const attn_run_site *site, size_t level, size_t shape[2]) {
    shape[0] = attn_run_cells_along(site->dims->L, level);
    shape[1] = attn_run_cells_along(site->dims->S, level);
}

static attn_status refuse_index(attn_error *err, const char *where, const char *what, size_t found,
                                size_t count) {
    return count == 1
               ? attn_fail(err, ATTN_EARG, where, "expected 0, the only one, found %zu", found)
               : attn_fail(err, ATTN_EARG, where,
                           "expected one of %zu %s, counted from 0; found %zu", count, what, found);
}

static attn_status check_head(const attn_run_site *site, const attn_run_place *at,
                              attn_error *err) {
    if (at->batch >= site->dims->B)
        return refuse_index(err, "batch", "batch entries", at->batch, site->dims->B);
    if (at->head >= site->dims->Ho)
        return refuse_index(err, "head", "heads", at->head, site->dims->Ho);
    return ATTN_OK;
}

static size_t tiles_along(size_t cells) {
    return (cells + ATTN_RUN_TILE - 1) / ATTN_RUN_TILE;
}

attn_status attn_run_tile_shape(const attn_run_site *site, const attn_run_place *at,
                                size_t shape[2], attn_error *err) {
    size_t whole[2];
    ATTN_TRY(check_head(site, at, err));
    if (at->level >= site->pyramid.levels)
        return refuse_index(err, "level", "levels", at->level, site->pyramid.levels);
    attn_run_level_shape(site, at->level, whole);
    if (at->y >= tiles_along(whole[0]))
        return refuse_index(err, "y", "rows of tiles at this level", at->y, tiles_along(whole[0]));
    if (at->x >= tiles_along(whole[1]))
        return refuse_index(err, "x", "columns of tiles at this level", at->x,
                            tiles_along(whole[1]));
    const size_t from[2] = {at->y * ATTN_RUN_TILE, at->x * ATTN_RUN_TILE};
    for (int axis = 0; axis < 2; axis++)
        shape[axis] =
            whole[axis] - from[axis] < ATTN_RUN_TILE ? whole[axis] - from[axis] : ATTN_RUN_TILE;
    return ATTN_OK;
}

/* --- maps --- */

/* A map: the cells of one head of a view, for the levels that an overview has. */
struct attn_run_map {
    attn_run_planes planes;
    size_t pieces;               /* number of pieces of work that make the map */
    uint8_t done[ATTN_RUN_TILE]; /* 1 for each piece that is done */
};

static bool is_plain(const attn_run_view *v) {
    return v->normalize == ATTN_RUN_AS_IS && !v->mean_heads && !v->against;
}

static attn_status check_view(const attn_run_site *site, const attn_run_view *v, attn_error *err) {
    const attn_attention_dims *a = site->dims, *b = v->against ? v->against->dims : a;
    if (a->B == b->B && a->Ho == b->Ho && a->L == b->L && a->S == b->S)
        return ATTN_OK;
    return attn_fail(err, ATTN_ESHAPE, "against",
                     "expected a run of the same shape, [%zu, %zu, %zu, %zu], found [%zu, %zu, "
                     "%zu, %zu]",
                     a->B, a->Ho, a->L, a->S, b->B, b->Ho, b->L, b->S);
}

static attn_run_shapes shapes_of(const attn_run_site *site, const attn_run_view *v) {
    return (attn_run_shapes){.dims = {site->dims, v->against ? v->against->dims : NULL},
                             .mean_heads = v->mean_heads};
}

/* Returns whether the largest weight of a row is found by computing the row (view.c). */
static bool scans_rows(const attn_run_site *site) {
    return site->in.sinks.rank || site->dims->normalizer || site->dims->factors;
}

/* Returns how many weights must be computed to show `cells` weights in `rows` rows of a view. */
static double weights_of(const attn_run_site *site, const attn_run_view *v, double rows,
                         double cells) {
    const attn_attention_dims *d = site->dims;
    const double heads = v->mean_heads ? (double)d->Ho : 1;
    const bool scans = scans_rows(site) || (v->against && scans_rows(v->against));
    if (scans && v->normalize == ATTN_RUN_ROW_MAX)
        cells += rows * (double)d->S;
    return cells * heads * (v->against ? 2 : 1);
}

size_t attn_run_map_level(const attn_run_site *site) {
    return attn_run_pyramid_of(site->dims->L, site->dims->S).overview;
}

static attn_status no_maps(const attn_run_site *site, attn_error *err) {
    return attn_fail(err, ATTN_EARG, "level", "a matrix of %zu x %zu has no maps", site->dims->L,
                     site->dims->S);
}

attn_status attn_run_map_cost(const attn_run_site *site, const attn_run_place *at, size_t slots,
                              attn_cost *out, attn_error *err) {
    const attn_attention_dims *d = site->dims;
    const attn_run_pyramid p = attn_run_pyramid_of(d->L, d->S);
    attn_cost cost = {.cells = 0};
    double planes;
    ATTN_TRY(check_head(site, at, err));
    ATTN_TRY(check_view(site, &at->view, err));
    if (p.overview == SIZE_MAX)
        return no_maps(site, err);
    const attn_run_shapes shapes = shapes_of(site, &at->view);
    if (!attn_run_overview_bytes(&shapes, &p, slots, &planes, &cost.work_bytes))
        return attn_fail(err, ATTN_ELIMIT, "level", "more bytes than can be counted");
    cost.cells = weights_of(site, &at->view, (double)d->L, (double)d->L * (double)d->S);
    cost.operations = cost.cells * 2 * (double)d->score_width;
    cost.result_bytes = (size_t)planes + sizeof(attn_run_map);
    *out = cost;
    return ATTN_OK;
}

attn_status attn_run_map_new(const attn_run_site *site, attn_arena *arena, attn_run_map **out,
                             attn_error *err) {
    const attn_run_pyramid p = attn_run_pyramid_of(site->dims->L, site->dims->S);
    attn_run_map *map = attn_arena_zeroed(arena, 1, sizeof *map);
    if (p.overview == SIZE_MAX)
        return no_maps(site, err);
    ATTN_TAKEN(map && attn_run_planes_new(&p, 1, arena, &map->planes), "the map", err);
    map->pieces = attn_run_overview_pieces(&p);
    *out = map;
    return ATTN_OK;
}

double attn_run_map_missing(const attn_run_map *map) {
    size_t missing = 0;
    for (size_t i = 0; i < map->pieces; i++)
        missing += !map->done[i];
    return (double)missing / (double)map->pieces;
}

attn_status attn_run_map_fill(attn_run_map *map, const attn_run_site *site,
                              const attn_run_place *at, attn_pool *pool,
                              const attn_control *control, attn_arena *arena, attn_error *err) {
    const attn_run_pyramid p = attn_run_pyramid_of(site->dims->L, site->dims->S);
    const attn_run_matrix matrix = attn_run_matrix_of(site, &at->view);
    const attn_run_head_span head = {at->batch * site->dims->Ho + at->head, 1};
    ATTN_TRY(check_head(site, at, err));
    ATTN_TRY(check_view(site, &at->view, err));
    return attn_run_overview_make(&matrix, &head, &p, pool, control, arena, map->done, &map->planes,
                                  err);
}

/* --- tiles --- */

/* The cells of a level of one head. Both pointers are NULL if the cells are neither in a map nor in
 * the overview. */
typedef struct level_cells {
    const float *max, *mean;
} level_cells;

/* Returns the cells of the level of a place, if they are in its map or in the overview. */
static level_cells known_cells(const attn_run_site *site, const attn_run_place *at) {
    const attn_run_planes *p = at->map ? &at->map->planes : &site->overview;
    size_t whole[2];
    if ((!at->map && !is_plain(&at->view)) || !p->max[at->level])
        return (level_cells){NULL, NULL};
    attn_run_level_shape(site, at->level, whole);
    const size_t head = at->map ? 0 : at->batch * site->dims->Ho + at->head;
    const size_t from = head * whole[0] * whole[1];
    return (level_cells){p->max[at->level] + from, p->mean[at->level] + from};
}

typedef struct tile_work {
    const attn_run_matrix *matrix;
    attn_run_shapes shapes;
    const attn_run_place *at;
    attn_run_buffers *lanes;
    attn_run_tile *tile;
} tile_work;

static attn_status compute_tile_piece(void *work, size_t index, size_t lane, attn_error *err) {
    const tile_work *w = work;
    attn_run_tile *tile = w->tile;
    const size_t most_rows = rows_per_piece(w->at->level), first = index * most_rows;
    const attn_run_area area = {.batch = w->at->batch,
                                .head = w->at->head,
                                .level = w->at->level,
                                .row = w->at->y * ATTN_RUN_TILE + first,
                                .rows = tile->shape[0] - first < most_rows ? tile->shape[0] - first
                                                                           : most_rows,
                                .col = w->at->x * ATTN_RUN_TILE,
                                .cols = tile->shape[1]};
    const attn_run_sum *sums;
    ATTN_TRY(attn_run_pool(w->matrix, &area, &w->lanes[lane], &sums, err));
    for (size_t c = 0; c < area.rows * area.cols; c++) {
        tile->max[first * area.cols + c] = attn_run_max_of(&sums[c]);
        tile->mean[first * area.cols + c] = attn_run_mean_of(&sums[c]);
    }
    return ATTN_OK;
}

static void place_tile_lane(const void *work, attn_area *area, void *lane) {
    const tile_work *w = work;
    attn_run_buffers_place(area, &w->shapes, rows_per_piece(w->at->level), ATTN_RUN_TILE, lane);
}

static const attn_sweep tile_sweep = {.lane_size = sizeof(attn_run_buffers),
                                      .place_lane = place_tile_lane,
                                      .piece = compute_tile_piece};

attn_status attn_run_tile_cost(const attn_run_site *site, const attn_run_place *at, size_t slots,
                               attn_cost *out, attn_error *err) {
    const attn_attention_dims *d = site->dims;
    size_t shape[2];
    ATTN_TRY(attn_run_tile_shape(site, at, shape, err));
    ATTN_TRY(check_view(site, &at->view, err));
    attn_cost cost = {.result_bytes = 2 * shape[0] * shape[1] * sizeof(float)};
    if (!known_cells(site, at).max) {
        tile_work w = {.at = at, .shapes = shapes_of(site, &at->view)};
        const attn_area counted = attn_sweep_count(&tile_sweep, &w, slots);
        if (counted.overflow)
            return attn_fail(err, ATTN_ELIMIT, "level", "more bytes than can be counted");
        const double side = ldexp(1, (int)at->level);
        const double rows = fmin((double)shape[0] * side, (double)d->L);
        cost.cells =
            weights_of(site, &at->view, rows, rows * fmin((double)shape[1] * side, (double)d->S));
        cost.operations = cost.cells * 2 * (double)d->score_width;
        cost.work_bytes = counted.used;
    }
    *out = cost;
    return ATTN_OK;
}

static void copy_cells(const attn_run_site *site, const attn_run_place *at,
                       const level_cells *known, attn_run_tile *tile) {
    size_t whole[2];
    attn_run_level_shape(site, at->level, whole);
    for (size_t r = 0; r < tile->shape[0]; r++) {
        const size_t from = (at->y * ATTN_RUN_TILE + r) * whole[1] + at->x * ATTN_RUN_TILE;
        const size_t to = r * tile->shape[1], bytes = tile->shape[1] * sizeof(float);
        memcpy(tile->max + to, known->max + from, bytes);
        memcpy(tile->mean + to, known->mean + from, bytes);
    }
}

static attn_status compute_cells(const attn_run_site *site, const attn_run_place *at,
                                 attn_pool *pool, const attn_control *control, attn_arena *arena,
                                 attn_run_tile *tile, attn_error *err) {
    const size_t most_rows = rows_per_piece(at->level);
    const attn_run_matrix matrix = attn_run_matrix_of(site, &at->view);
    tile_work w = {
        .matrix = &matrix, .shapes = attn_run_shapes_of(&matrix), .at = at, .tile = tile};
    const size_t slots = attn_pool_slots(pool);
    w.lanes = attn_sweep_open(&tile_sweep, &w, slots, arena);
    ATTN_TAKEN(w.lanes, "the tile", err);
    for (size_t i = 0; i < slots; i++)
        attn_run_buffers_begin(&w.lanes[i], pool, control);
    return attn_sweep_run(&tile_sweep, &w, (tile->shape[0] + most_rows - 1) / most_rows, 0, pool,
                          control, err);
}

attn_status attn_run_tile_make(const attn_run_site *site, const attn_run_place *at, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_run_tile *out,
                               attn_error *err) {
    attn_run_tile tile = {.hidden = false};
    ATTN_TRY(attn_run_tile_shape(site, at, tile.shape, err));
    ATTN_TRY(check_view(site, &at->view, err));
    const size_t cells = tile.shape[0] * tile.shape[1];
    tile.max = attn_arena_take(arena, 2 * cells * sizeof(float));
    ATTN_TAKEN(tile.max, "the tile", err);
    tile.mean = tile.max + cells;
    const level_cells known = known_cells(site, at);
    if (known.max)
        copy_cells(site, at, &known, &tile);
    else
        ATTN_TRY(compute_cells(site, at, pool, control, arena, &tile, err));
    tile.hidden = attn_run_find_range(tile.max, cells, tile.range);
    attn_run_find_range(tile.mean, cells, tile.mean_range);
    *out = tile;
    return ATTN_OK;
}

/* --- ranges of whole heads --- */

/* Returns the maxima of the cells in the topmost tile of each head, [*heads, *cells], or NULL if
 * the run has no overview. */
static const float *tops_of(const attn_run_site *site, size_t *heads, size_t *cells) {
    const size_t top = site->pyramid.levels - 1;
    size_t shape[2];
    attn_run_level_shape(site, top, shape);
    *cells = shape[0] * shape[1];
    *heads = site->dims->B * site->dims->Ho;
    return *heads ? site->overview.max[top] : NULL;
}

const void *attn_run_tops(const attn_run_site *site, size_t *bytes) {
    size_t heads, cells;
    const float *tops = tops_of(site, &heads, &cells);
    *bytes = heads * cells * sizeof *tops;
    return tops;
}

const float *attn_run_ranges(const attn_run_site *site) {
    const attn_run *run = site->run;
    attn_run_site *own = &run->sites[attn_run_site_index(site)];
    size_t heads, cells;
    const float *tops = tops_of(site, &heads, &cells);
    if (!tops)
        return NULL;
    pthread_mutex_lock(run->lock);
    if (!own->ranges && (own->ranges = attn_arena_zeroed(run->arena, heads, 2 * sizeof(float))))
        for (size_t h = 0; h < heads; h++)
            attn_run_find_range(tops + h * cells, cells, own->ranges + 2 * h);
    const float *ranges = own->ranges;
    pthread_mutex_unlock(run->lock);
    return ranges;
}
