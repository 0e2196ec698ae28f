/* The plan of a heatmap, from options and shapes alone: which heads, rows and keys, how many of
 * them share a cell, how the work is split, how many bytes that takes. */
#include <stdio.h>

#include "analysis/heatmap_private.h"

enum {
    /* Default cells of all heatmaps together. Written as JSON a cell costs at most 15 bytes (a
     * number of 13 and a comma; beside a hidden cell its run), and FRAME_CELLS for every further
     * heatmap pay for its names, rows and columns, so that the default stays below 1 MiB. */
    DEFAULT_CELLS = 65536,
    FRAME_CELLS = 64,
    DEFAULT_MAPS = 512,
    /* Edges of all heatmaps together. */
    EDGES_MOST = 1 << 20,
    LANE_BYTES = 4 << 20,
    /* Weights a piece looks at: about a millisecond with fetching. */
    PIECE_WEIGHTS = 1 << 18,
};

typedef struct size_sum {
    size_t bytes;
    bool overflow;
} size_sum;

/* An array [a, b, c] of elements of `size` bytes. */
static void add_array(size_sum *s, size_t a, size_t b, size_t c, size_t size) {
    size_t bytes;
    if (!attn_size_mul(a, b, &bytes) || !attn_size_mul(bytes, c, &bytes) ||
        !attn_size_mul(bytes, size, &bytes) || !attn_size_add(s->bytes, bytes, &s->bytes))
        s->overflow = true;
}

static size_t parts_of(size_t n, size_t step) {
    return n / step + (n % step != 0);
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static attn_status choose_list(const char *name, const int64_t *list, size_t count, size_t size,
                               attn_error *err) {
    char where[96];
    if (count == 0)
        return attn_fail(err, ATTN_EARG, name, "an empty list chooses nothing");
    for (size_t i = 0; i < count; i++)
        if (list[i] < 0 || (uint64_t)list[i] >= size) {
            snprintf(where, sizeof where, "%s/%zu", name, i);
            return attn_fail(err, ATTN_EARG, where, "%lld is outside: there are %zu, from 0",
                             (long long)list[i], size);
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
    attn_status status = ATTN_OK;
    size_t batches = o->batch_list ? o->batch_count : B;
    if ((unsigned)o->heads > ATTN_HEADS_MEAN)
        return attn_fail(err, ATTN_EARG, "heads", "there is no choice of the number %d",
                         (int)o->heads);
    if ((unsigned)o->pool > ATTN_POOL_BOTH)
        return attn_fail(err, ATTN_EARG, "pool", "there is no pooling of the number %d",
                         (int)o->pool);
    if (o->batch_list)
        status = choose_list("batch", o->batch_list, o->batch_count, B, err);
    if (!status && o->heads == ATTN_HEADS_LIST)
        status = choose_list("heads", o->head_list, o->head_count, p->H, err);
    if (status)
        return status;
    p->merged = 1;
    p->maps_a_batch = p->H;
    if (o->heads == ATTN_HEADS_LIST)
        p->maps_a_batch = o->head_count;
    else if (o->heads == ATTN_HEADS_MEAN && p->H) {
        p->maps_a_batch = 1;
        p->merged = p->H;
    }
    size_t most = larger(DEFAULT_MAPS, o->max_cells);
    if (!attn_size_mul(batches, p->maps_a_batch, &p->maps) || p->maps > most)
        return attn_fail(err, ATTN_ELIMIT, "heads",
                         "%zu batch entries x %zu heads are more than %zu heatmaps: choose some "
                         "of either (batch, heads), take the mean of the heads or raise max_cells",
                         batches, p->maps_a_batch, most);
    return ATTN_OK;
}

/* Rows and columns of cells carry an entropy and a sum each; n/16 + 16 of them keep those a
 * fraction of the cells, and (sqrt(n)/4 - 4)^2 >= 0 says that a square grid of n cells always has
 * as many. */
static bool grid_fits(const attn_heatmap_plan *p, size_t step_r, size_t step_c, size_t n) {
    size_t R = parts_of(p->rows, step_r), C = parts_of(p->cols, step_c), cells;
    return attn_size_mul(R, C, &cells) && cells <= n && R + C <= n / 16 + 16;
}

static size_t step_for(size_t n, size_t side) {
    return n ? parts_of(n, side) : 1;
}

/* The largest side such that a grid of at most side x side cells fits: an axis that is shorter is
 * not pooled, a square matrix gets square cells. */
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

/* The smallest step of one axis in (from, to] that still fits beside the other axis's step. */
static size_t relax(const attn_heatmap_plan *p, int axis, size_t from, size_t to, size_t n) {
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
        total = DEFAULT_CELLS - FRAME_CELLS * (p->maps ? p->maps - 1 : 0);
    size_t n = larger(1, total / larger(1, p->maps));
    size_t side = widest_side(p, n);
    p->step[0] = step_for(p->rows, side);
    p->step[1] = step_for(p->cols, side);
    if (p->step[0] > p->step[1])
        p->step[0] = relax(p, 0, p->step[1], p->step[0], n);
    else if (p->step[1] > p->step[0])
        p->step[1] = relax(p, 1, p->step[0], p->step[1], n);
    p->shape[0] = parts_of(p->rows, p->step[0]);
    p->shape[1] = parts_of(p->cols, p->step[1]);
}

static attn_status choose_edges(attn_heatmap_plan *p, attn_error *err) {
    const attn_heatmap_options *o = p->options;
    if (!(o->top_p >= 0 && o->top_p <= 1))
        return attn_fail(err, ATTN_EARG, "top_p", "expected 0 to 1, found %g", o->top_p);
    if (!o->top_k && o->top_p == 0)
        return ATTN_OK;
    size_t lines, share;
    if (!attn_size_mul(p->maps, p->rows, &lines))
        lines = SIZE_MAX;
    share = EDGES_MOST / larger(1, lines);
    p->edge_room = smaller(o->top_k ? smaller(o->top_k, p->cols) : share, p->cols);
    if (p->edge_room > share || (p->cols && lines > EDGES_MOST))
        return attn_fail(err, ATTN_ELIMIT, o->top_k ? "top_k" : "top_p",
                         "%zu heatmaps of %zu rows leave room for %zu edges a row (%d in all): "
                         "choose fewer rows, heads or edges",
                         p->maps, p->rows, share, EDGES_MOST);
    return ATTN_OK;
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

static attn_status count_bytes(attn_heatmap_plan *p, size_t slots, attn_error *err) {
    size_t R = p->shape[0], C = p->shape[1], M = p->maps;
    size_t planes = p->options->pool == ATTN_POOL_BOTH ? 2 : 1;
    size_sum lane = {0}, result = {0}, work = {0};
    add_array(&lane, C, 1, 1, sizeof(attn_heatmap_cell));
    add_array(&lane, p->block, 1, 1, sizeof(attn_heatmap_row));
    add_array(&lane, p->block, p->S, 2, sizeof(float));
    if (p->merged > 1)
        add_array(&lane, p->block, p->S, 1, sizeof(double) + 1);
    p->lane_bytes = lane.bytes;

    p->run_room = (C + 1) / 2;
    add_array(&result, M, 1, 1, sizeof(attn_heatmap));
    add_array(&result, M, R, C, planes * sizeof(float));
    add_array(&result, M, R, 1, sizeof(float));
    add_array(&result, M, C, 1, sizeof(float));
    add_array(&result, M, R, p->run_room, sizeof(attn_hidden_run));
    add_array(&result, M, p->rows, p->edge_room, sizeof(attn_edge));
    p->result_bytes = result.bytes;

    add_array(&work, slots, 1, 1, sizeof(attn_heatmap_lane));
    add_array(&work, slots, p->lane_bytes, 1, 1);
    add_array(&work, M, p->pieces, 1, sizeof(attn_heatmap_part));
    add_array(&work, M, p->pieces, C, sizeof(double));
    add_array(&work, M, R, 1, sizeof(size_t));
    if (p->edge_room)
        add_array(&work, M, p->rows, 1, sizeof(size_t));
    p->work_bytes = work.bytes;
    if (lane.overflow || result.overflow || work.overflow)
        return attn_fail(err, ATTN_ELIMIT, "", "heatmaps of %zu x %zu weights are too large",
                         p->rows, p->S);
    return ATTN_OK;
}

attn_status attn_analysis_plan(const attn_heatmap_options *options, size_t B, size_t H, size_t L,
                               size_t S, size_t slots, attn_heatmap_plan *out, attn_error *err) {
    attn_heatmap_plan p = {.options = options, .H = H, .S = S};
    attn_status status =
        choose_span("rows", options->row_from, options->row_to, L, &p.row0, &p.rows, err);
    if (!status)
        status = choose_span("cols", options->col_from, options->col_to, S, &p.col0, &p.cols, err);
    if (!status)
        status = choose_maps(&p, B, err);
    if (status)
        return status;
    choose_steps(&p);
    status = choose_edges(&p, err);
    if (status)
        return status;
    choose_pieces(&p);
    status = count_bytes(&p, slots, err);
    if (!status)
        *out = p;
    return status;
}

size_t attn_analysis_map_batch(const attn_heatmap_plan *plan, size_t map) {
    size_t i = map / plan->maps_a_batch;
    return plan->options->batch_list ? (size_t)plan->options->batch_list[i] : i;
}

size_t attn_analysis_map_head(const attn_heatmap_plan *plan, size_t map) {
    size_t i = map % plan->maps_a_batch;
    switch (plan->options->heads) {
    case ATTN_HEADS_LIST:
        return (size_t)plan->options->head_list[i];
    case ATTN_HEADS_MEAN:
        return SIZE_MAX;
    default:
        return i;
    }
}
