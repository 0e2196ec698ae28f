/* Heatmaps. A plan is made from options and shapes alone: the heads, rows and keys to show, how
 * many rows and keys share a cell, the pieces of work, and the bytes. Then memory is taken from the
 * arena, the pool computes the pieces (heatmap_pool.c), and their results are merged in order.
 * Results and scratch memory are both in the arena, so attn_heatmap_cost counts both.
 * attn_heatmap_quantise, at the end, converts cells to bytes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/heatmap_private.h"
#include "analysis/sums.h"
#include "attn/heatmap.h"
#include "base/sweep.h"
#include "base/try.h"

enum {
    /* Default number of cells of all heatmaps together. It keeps the JSON below 1 MiB, since a cell
     * takes at most 15 bytes: a number of 13 bytes, a comma, and its part of the list of hidden
     * cells. */
    DEFAULT_CELLS = 65536,
    /* Cells that are subtracted for each heatmap except the first, to leave space for the names and
     * numbers of the heatmap. */
    FRAME_CELLS = 64,
    DEFAULT_MAPS = 512,      /* largest number of heatmaps, unless max_cells is larger */
    EDGES_MOST = 1 << 20,    /* largest number of edges of all heatmaps together */
    LANE_BYTES = 4 << 20,    /* limit for the fetched rows of a thread, bytes */
    PIECE_WEIGHTS = 1 << 18, /* weights that a piece of work reads, in about a millisecond */
};

static size_t parts_of(size_t n, size_t step) {
    return n / step + (n % step != 0);
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Checks a list of indices of `size` things, such as "heads". */
static attn_status choose_list(const char *name, const char *things, const int64_t *list,
                               size_t count, size_t size, attn_error *err) {
    char where[96];
    if (count == 0)
        return attn_fail(err, ATTN_EARG, name, "an empty list chooses nothing");
    for (size_t i = 0; i < count; i++)
        if (list[i] < 0 || (uint64_t)list[i] >= size) {
            snprintf(where, sizeof where, "%s/%zu", name, i);
            return size == 1 ? attn_fail(err, ATTN_EARG, where, "%lld is outside: there is only 0",
                                         (long long)list[i])
                   : size    ? attn_fail(err, ATTN_EARG, where,
                                         "%lld is outside: there are %zu %s: 0 to %zu",
                                         (long long)list[i], size, things, size - 1)
                             : attn_fail(err, ATTN_EARG, where, "%lld is outside: there are no %s",
                                         (long long)list[i], things);
        }
    return ATTN_OK;
}

static attn_status choose_span(const char *name, size_t from, size_t to, size_t size, size_t *first,
                               size_t *count, attn_error *err) {
    if (from == 0 && to == 0)
        to = size;
    else if (from >= to || to > size)
        return attn_fail(err, ATTN_EARG, name,
                         "expected 0 <= from < to <= %zu (half-open), found [%zu, %zu]", size, from,
                         to);
    *first = from;
    *count = to - from;
    return ATTN_OK;
}

static attn_status choose_maps(attn_heatmap_plan *p, size_t B, attn_error *err) {
    const attn_heatmap_options *o = p->options;
    size_t batches = o->batch_list ? o->batch_count : B;
    if ((unsigned)o->heads > ATTN_HEADS_MEAN)
        return attn_fail(err, ATTN_EARG, "heads", "there is no choice of the number %d",
                         (int)o->heads);
    if ((unsigned)o->pool > ATTN_POOL_BOTH)
        return attn_fail(err, ATTN_EARG, "pool", "there is no pooling of the number %d",
                         (int)o->pool);
    if (o->batch_list)
        ATTN_TRY(choose_list("batch", "batch entries", o->batch_list, o->batch_count, B, err));
    if (o->heads == ATTN_HEADS_LIST)
        ATTN_TRY(choose_list("heads", "heads", o->head_list, o->head_count, p->H, err));
    p->merged = 1;
    p->maps_a_batch = p->H;
    if (o->heads == ATTN_HEADS_LIST)
        p->maps_a_batch = o->head_count;
    else if (o->heads == ATTN_HEADS_MEAN && p->H) {
        p->maps_a_batch = 1;
        p->merged = p->H;
    }
    if (!attn_size_mul(batches, p->maps_a_batch, &p->maps))
        return attn_fail(err, ATTN_ELIMIT, "heads", "more heatmaps than can be counted");
    return ATTN_OK;
}

static attn_status check_maps(const attn_heatmap_plan *p, attn_error *err) {
    const size_t most = larger(DEFAULT_MAPS, p->options->max_cells);
    if (p->maps <= most)
        return ATTN_OK;
    return attn_fail_limit(
        err, "heads", (double)most,
        "%zu batch entries x %zu heads are more than %zu heatmaps: choose some "
        "of either (batch, heads), take the mean of the heads or raise max_cells",
        p->maps / p->maps_a_batch, p->maps_a_batch, most);
}

/* Tells whether a grid with these steps has at most n cells, and at most n/16 + 16 rows and columns
 * together. Each row has an entropy and each column a sum. The second limit keeps these few in
 * comparison with the cells. A square grid of n cells always fits: 2 sqrt(n) <= n/16 + 16 follows
 * from (sqrt(n)/4 - 4)^2 >= 0. */
static bool grid_fits(const attn_heatmap_plan *p, size_t step_r, size_t step_c, size_t n) {
    size_t R = parts_of(p->rows, step_r), C = parts_of(p->cols, step_c), cells;
    return attn_size_mul(R, C, &cells) && cells <= n && R + C <= n / 16 + 16;
}

static size_t step_for(size_t n, size_t side) {
    return n ? parts_of(n, side) : 1;
}

/* Returns the largest `side` for which a grid of at most side x side cells fits. An axis with up to
 * `side` rows (or keys) is not pooled. Square matrices get square cells. */
static size_t widest_side(const attn_heatmap_plan *p, size_t n) {
    size_t low = 1, high = larger(1, larger(p->rows, p->cols));
    while (low < high) {
        size_t side = low + (high - low + 1) / 2;
        if (grid_fits(p, step_for(p->rows, side), step_for(p->cols, side), n))
            low = side;
        else
            high = side - 1;
    }
    return low;
}

/* Returns the smallest step of `axis` between `from` and `to` with which the grid fits. The step of
 * the other axis stays as it is. */
static size_t smallest_step(const attn_heatmap_plan *p, int axis, size_t from, size_t to,
                            size_t n) {
    while (from < to) {
        size_t step = from + (to - from) / 2;
        bool fits = axis ? grid_fits(p, p->step[0], step, n) : grid_fits(p, step, p->step[1], n);
        if (fits)
            to = step;
        else
            from = step + 1;
    }
    return to;
}

static void choose_steps(attn_heatmap_plan *p) {
    size_t total = p->options->max_cells;
    if (!total)
        total = DEFAULT_CELLS - FRAME_CELLS * (larger(1, smaller(p->maps, DEFAULT_MAPS)) - 1);
    size_t n = larger(1, total / larger(1, p->maps));
    size_t side = widest_side(p, n);
    p->step[0] = step_for(p->rows, side);
    p->step[1] = step_for(p->cols, side);
    if (p->step[0] > p->step[1])
        p->step[0] = smallest_step(p, 0, p->step[1], p->step[0], n);
    else if (p->step[1] > p->step[0])
        p->step[1] = smallest_step(p, 1, p->step[0], p->step[1], n);
    p->shape[0] = parts_of(p->rows, p->step[0]);
    p->shape[1] = parts_of(p->cols, p->step[1]);
}

/* Returns how many edges each row of the heatmaps may have. */
static size_t share_of_edges(const attn_heatmap_plan *p) {
    size_t lines;
    return attn_size_mul(p->maps, p->rows, &lines) ? EDGES_MOST / larger(1, lines) : 0;
}

static attn_status choose_edges(attn_heatmap_plan *p, attn_error *err) {
    const attn_heatmap_options *o = p->options;
    if (!(o->top_p >= 0 && o->top_p <= 1))
        return attn_fail(err, ATTN_EARG, "top_p", "expected 0 to 1, found %g", o->top_p);
    if (o->top_k || o->top_p > 0)
        p->edge_room = smaller(o->top_k ? o->top_k : larger(1, share_of_edges(p)), p->cols);
    return ATTN_OK;
}

static attn_status check_edges(const attn_heatmap_plan *p, attn_error *err) {
    const size_t share = share_of_edges(p);
    if (p->edge_room <= share)
        return ATTN_OK;
    return attn_fail_limit(err, p->options->top_k ? "top_k" : "top_p", EDGES_MOST,
                           "%zu heatmaps of %zu rows leave room for %zu edges a row (%d in all): "
                           "choose fewer rows, heads or edges",
                           p->maps, p->rows, share, EDGES_MOST);
}

static void choose_pieces(attn_heatmap_plan *p) {
    size_t a_key = 2 * sizeof(float) + (p->merged > 1 ? sizeof(double) + 1 : 0);
    size_t width = larger(1, p->S), look = width;
    if (!attn_size_mul(width, p->merged, &look))
        look = SIZE_MAX;
    size_t lines = larger(1, PIECE_WEIGHTS / look);
    p->piece_rows = larger(1, smaller(p->shape[0], lines / p->step[0]));
    p->pieces = parts_of(p->shape[0], p->piece_rows);
    p->block = larger(1, LANE_BYTES / a_key / width);
    p->block = smaller(p->block, smaller(p->piece_rows * p->step[0], larger(1, p->rows)));
}

/* --- memory --- */

static void place_heatmap_lane(const void *work, attn_area *area, void *to) {
    const attn_heatmap_plan *p = ((const attn_heatmap_work *)work)->plan;
    attn_heatmap_lane *l = to;
    const size_t merged = p->merged > 1 ? p->block : 0; /* rows that are summed over heads */
    l->cells = attn_area_take(area, p->shape[1], sizeof *l->cells);
    l->rows = attn_area_take(area, p->block, sizeof *l->rows);
    l->weights = attn_area_take_3(area, p->block, p->S, 1, sizeof *l->weights);
    l->logits = attn_area_take_3(area, p->block, p->S, 1, sizeof *l->logits);
    l->sum = attn_area_take_3(area, merged, p->S, 1, sizeof *l->sum);
    l->visible = attn_area_take_3(area, merged, p->S, 1, sizeof *l->visible);
}

/* Takes the memory of the results. Hidden runs and edges come last, so that their unused part can
 * be given back. */
static void place_answer(attn_heatmap_work *w, attn_area *area) {
    const attn_heatmap_plan *p = w->plan;
    const size_t R = p->shape[0], C = p->shape[1], M = p->maps;
    const bool max = p->options->pool != ATTN_POOL_MEAN, mean = p->options->pool != ATTN_POOL_MAX;
    attn_heatmap_arrays *a = &w->arrays;
    w->maps = attn_area_take(area, M, sizeof *w->maps);
    a->max = max ? attn_area_take_3(area, M, R, C, sizeof *a->max) : NULL;
    a->mean = mean ? attn_area_take_3(area, M, R, C, sizeof *a->mean) : NULL;
    a->entropy = attn_area_take_3(area, M, R, 1, sizeof *a->entropy);
    a->received = attn_area_take_3(area, M, C, 1, sizeof *a->received);
    w->runs = attn_area_take_3(area, M, R, p->run_room, sizeof *w->runs);
    w->edges = attn_area_take_3(area, M, p->rows, p->edge_room, sizeof *w->edges);
}

static void place_heatmaps(void *work, attn_area *area) {
    attn_heatmap_work *w = work;
    const attn_heatmap_plan *p = w->plan;
    w->parts = attn_area_take_3(area, p->maps, p->pieces, 1, sizeof *w->parts);
    w->arrays.sums = attn_area_take_3(area, p->maps, p->pieces, p->shape[1], sizeof(double));
    w->run_counts = attn_area_take_3(area, p->maps, p->shape[0], 1, sizeof *w->run_counts);
    w->edge_counts =
        attn_area_take_3(area, p->maps, p->rows, p->edge_room > 0, sizeof *w->edge_counts);
    place_answer(w, area);
}

static const attn_sweep heatmap_sweep = {
    sizeof(attn_heatmap_lane),
    place_heatmap_lane,
    place_heatmaps,
    attn_analysis_heatmap_piece,
    NULL,
};

static attn_status count_bytes(attn_heatmap_plan *p, attn_error *err) {
    attn_heatmap_work w = {.plan = p};
    p->run_room = (p->shape[1] + 1) / 2;
    const attn_area all = attn_sweep_count(&heatmap_sweep, &w, p->slots);
    if (all.overflow)
        return attn_fail(err, ATTN_ELIMIT, "", "heatmaps of %zu x %zu weights are too large",
                         p->rows, p->S);
    attn_area answer = {0};
    place_answer(&w, &answer);
    p->result_bytes = answer.content;
    p->work_bytes = all.used - p->result_bytes;
    return ATTN_OK;
}

/* Makes the plan without checking its limits. */
static attn_status make_plan(const attn_heatmap_options *options, size_t B, size_t H, size_t L,
                             size_t S, size_t slots, attn_heatmap_plan *out, attn_error *err) {
    attn_heatmap_plan p = {.options = options, .slots = slots, .H = H, .S = S};
    ATTN_TRY(choose_span("rows", options->row_from, options->row_to, L, &p.row0, &p.rows, err));
    ATTN_TRY(choose_span("cols", options->col_from, options->col_to, S, &p.col0, &p.cols, err));
    ATTN_TRY(choose_maps(&p, B, err));
    choose_steps(&p);
    ATTN_TRY(choose_edges(&p, err));
    choose_pieces(&p);
    ATTN_TRY(count_bytes(&p, err));
    *out = p;
    return ATTN_OK;
}

static attn_status check_limits(const attn_heatmap_plan *p, attn_error *err) {
    ATTN_TRY(check_maps(p, err));
    return check_edges(p, err);
}

attn_status attn_analysis_plan(const attn_heatmap_options *options, size_t B, size_t H, size_t L,
                               size_t S, size_t slots, attn_heatmap_plan *out, attn_error *err) {
    ATTN_TRY(make_plan(options, B, H, L, S, slots, out, err));
    return check_limits(out, err);
}

bool attn_heatmap_is_hidden(const attn_heatmap *map, size_t row, size_t col, size_t *at) {
    const attn_hidden_run *runs = map->hidden;
    while (*at < map->hidden_count &&
           (runs[*at].row < row || (runs[*at].row == row && runs[*at].to <= col)))
        (*at)++;
    return *at < map->hidden_count && runs[*at].row == row && runs[*at].from <= col;
}

attn_heatmap_options attn_heatmap_defaults(void) {
    return (attn_heatmap_options){.heads = ATTN_HEADS_ALL, .pool = ATTN_POOL_MAX};
}

attn_status attn_heatmap_shape(const attn_heatmap_options *options, size_t B, size_t H, size_t L,
                               size_t S, size_t *maps, size_t shape[2], attn_error *err) {
    attn_heatmap_plan plan;
    ATTN_TRY(make_plan(options, B, H, L, S, 1, &plan, err));
    *maps = plan.maps;
    shape[0] = plan.shape[0];
    shape[1] = plan.shape[1];
    return ATTN_OK;
}

attn_status attn_heatmap_cost(const attn_heatmap_options *options, size_t B, size_t H, size_t L,
                              size_t S, size_t slots, attn_cost *out, attn_error *err) {
    attn_heatmap_plan plan;
    ATTN_TRY(make_plan(options, B, H, L, S, slots, &plan, err));
    double cells = (double)plan.maps * (double)plan.merged * (double)plan.rows * (double)S;
    /* operations of each cell: a product and two sums for entropy, a comparison and a sum for
     * pooling */
    *out = (attn_cost){.cells = cells,
                       .operations = 5 * cells,
                       .work_bytes = plan.work_bytes,
                       .result_bytes = plan.result_bytes};
    return check_limits(&plan, err);
}

/* Initialises heatmaps and parts before the first piece. */
static void begin_maps(attn_heatmap_work *w) {
    const attn_heatmap_plan *p = w->plan;
    const attn_heatmap_arrays *a = &w->arrays;
    const size_t R = p->shape[0], C = p->shape[1];
    memset(a->sums, 0,
           /* zeroes all arrays but hidden runs and edges */
           (size_t)((char *)w->runs - (char *)a->sums));
    for (size_t i = 0; i < p->maps * p->pieces; i++)
        w->parts[i] =
            (attn_heatmap_part){a->sums + i * C, {INFINITY, -INFINITY}, {INFINITY, -INFINITY}};
    for (size_t i = 0; i < p->maps; i++)
        w->maps[i] = (attn_heatmap){
            .batch = attn_analysis_map_batch(p, i),
            .head = attn_analysis_map_head(p, i),
            .shape = {R, C},
            .origin = {p->row0, p->col0},
            .step = {p->step[0], p->step[1]},
            .signed_values = p->options->signed_values,
            .max = a->max ? a->max + i * R * C : NULL,
            .mean = a->mean ? a->mean + i * R * C : NULL,
            .row_entropy = a->entropy + i * R,
            .received = a->received + i * C,
        };
}

/* Sets the range of a heatmap from the smallest and largest value found, or to [0, 0] if there is
 * no value (found[0] > found[1]). Signed values get a range that is symmetric about 0. */
static void finish_range(float out[2], const float found[2], bool signed_values) {
    const bool any = found[0] <= found[1];
    const float low = any ? found[0] : 0, high = any ? found[1] : 0;
    const float most = fmaxf(fabsf(low), fabsf(high));
    out[0] = signed_values ? 0 - most : low; /* subtracted from 0, so that out[0] is never -0 */
    out[1] = signed_values ? most : high;
}

/* Merges the sums and ranges of the pieces of a heatmap, in the order of the pieces. */
static void merge_parts(const attn_heatmap_work *w, size_t map) {
    const attn_heatmap_plan *p = w->plan;
    attn_heatmap *m = &w->maps[map];
    attn_heatmap_part *all = &w->parts[map * p->pieces];
    if (!p->pieces)
        return;
    for (size_t i = 1; i < p->pieces; i++) {
        for (size_t c = 0; c < p->shape[1]; c++)
            all->received[c] += all[i].received[c];
        attn_analysis_widen(all->range, all[i].range[0], all[i].range[1]);
        attn_analysis_widen(all->mean, all[i].mean[0], all[i].mean[1]);
    }
    for (size_t c = 0; c < p->shape[1]; c++)
        m->received[c] = (float)all->received[c];
    finish_range(m->range, all->range, m->signed_values);
    finish_range(m->mean_range, all->mean, m->signed_values);
}

/* Moves hidden runs and edges together in place, since rows with fewer of them than their memory
 * holds leave gaps. Data moves only to lower addresses, so nothing is overwritten before it is
 * moved. */
static void close_gaps(attn_heatmap_work *w, attn_arena *arena) {
    const attn_heatmap_plan *p = w->plan;
    size_t runs = 0, edges = 0, R = p->shape[0];
    for (size_t map = 0; map < p->maps; map++) {
        attn_heatmap *m = &w->maps[map];
        m->hidden = w->runs + runs;
        for (size_t i = map * R; i < (map + 1) * R; i++) {
            memmove(w->runs + runs, w->runs + i * p->run_room, w->run_counts[i] * sizeof *w->runs);
            runs += w->run_counts[i];
        }
        m->hidden_count = (size_t)(w->runs + runs - m->hidden);
        if (!p->edge_room)
            continue;
        m->edges = w->edges + edges;
        for (size_t i = map * p->rows; i < (map + 1) * p->rows; i++) {
            memmove(w->edges + edges, w->edges + i * p->edge_room,
                    w->edge_counts[i] * sizeof *w->edges);
            edges += w->edge_counts[i];
        }
        m->edge_count = (size_t)(w->edges + edges - m->edges);
    }
    const char *end = p->edge_room ? (char *)(w->edges + edges) : (char *)(w->runs + runs);
    attn_arena_shrink(arena, w->lanes, (size_t)(end - (char *)w->lanes));
}

attn_status attn_heatmap_build(const attn_weight_source *source,
                               const attn_heatmap_options *options, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_heatmaps *out,
                               attn_error *err) {
    attn_heatmap_plan plan;
    size_t slots = attn_pool_slots(pool);
    ATTN_TRY(attn_analysis_plan(options, source->batches, source->heads, source->rows, source->cols,
                                slots, &plan, err));
    attn_heatmap_work work = {.plan = &plan, .source = source, .control = control};
    work.lanes = attn_sweep_open(&heatmap_sweep, &work, slots, arena);
    ATTN_TAKEN(work.lanes, "the heatmaps", err);
    begin_maps(&work);
    ATTN_TRY(attn_sweep_run(&heatmap_sweep, &work, plan.maps * plan.pieces, 0, pool, control, err));
    for (size_t i = 0; i < plan.maps; i++)
        merge_parts(&work, i);
    close_gaps(&work, arena);
    *out = (attn_heatmaps){.items = work.maps, .count = plan.maps};
    return ATTN_OK;
}

static double transformed(double t, attn_transform transform) {
    switch (transform) {
    case ATTN_SQRT:
        return sqrt(t);
    case ATTN_LOG:
        return log1p(255 * t) / log(256.0);
    default:
        return t;
    }
}

/* Maps v from [low, high] to [0, 1]. If low = high, returns 1 for v > 0, else 0. */
static double share_of_range(double v, double low, double high) {
    if (!(v > low))
        return high > low || !(v > 0) ? 0 : 1;
    return v >= high ? 1 : (v - low) / (high - low);
}

static double share_of_signed(double v, double high, attn_transform transform) {
    return (1 + copysign(transformed(share_of_range(fabs(v), 0, high), transform), v)) / 2;
}

void attn_heatmap_quantise(uint8_t *dst, const float *src, size_t n, const float range[2],
                           attn_transform transform, bool signed_values) {
    for (size_t i = 0; i < n; i++) {
        const double v = (double)src[i];
        double t = 0;
        if (!isnan(v))
            t = signed_values
                    ? share_of_signed(v, (double)range[1], transform)
                    : transformed(share_of_range(v, (double)range[0], (double)range[1]), transform);
        dst[i] = (uint8_t)(255 * t + 0.5);
    }
}
