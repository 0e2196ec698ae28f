/* Attention rollout of some rows through the layers of a run (Abnar and Zuidema 2020). A row of
 *
 *   R = M_top … M_1,  M_l = N((1 - r) mean_h A_l + r I),  where N divides each row by its sum
 *
 * is a unit vector times matrix after matrix, from the last layer to the first. With r = 0.5 this
 * is the rollout of attn_rollout_source. A row of a layer is computed only where the vector is not
 * 0, and no matrix is stored. So memory grows with the number of keys.
 *
 * The asked rows are computed in chunks, so that the memory of their vectors is bounded.
 *
 * The rows of a layer are divided into blocks. GROUPS blocks are computed at a time. Block k of the
 * layer adds to vector k % GROUPS, so the order of all sums is the same with any number of
 * threads. */
#include <string.h>

#include "analysis/sums.h"
#include "attention/resolved.h"
#include "base/try.h"
#include "runs/private.h"

enum {
    GROUPS = 8,
    BLOCK_ROWS = 64,        /* rows of a block, as in lazy statistics (stats.c) */
    BUFFER_BYTES = 4 << 20, /* limit of the bytes of lane.layer, unless it has one row */
    CHUNK_BYTES = 64 << 20, /* limit of the bytes of a chunk's vectors, unless it has one row */
};

/* Neighbouring rows of a layer. At the first row, and at the last, at least one vector of the chunk
 * is not 0. */
typedef struct block {
    size_t row, rows;
} block;

/* The memory of one thread. */
typedef struct lane {
    attn_run_lane *any; /* scratch memory for weights of any layer */
    void *cells;        /* [sub, S] weights of one head, of the widest type */
    double *layer;      /* [sub, S] rows of M_l */
} lane;

typedef struct rollout_work {
    const attn_run_rollout *r;
    size_t S;     /* number of queries, and of keys, of a layer */
    size_t sub;   /* number of rows of a layer that are averaged over heads together */
    size_t chunk; /* largest number of rows of a chunk */
    lane *lanes;
    attn_pool *pool;
    size_t rows;                 /* number of rows of the present chunk */
    double *x;                   /* [rows, S] the vectors of the chunk before the present layer */
    double *y[GROUPS];           /* [rows, S] each: parts of the vectors after the layer */
    const attn_run_layer *layer; /* the present layer */
    block *blocks;               /* [count], at most S / BLOCK_ROWS + 1: blocks of the layer */
    size_t count;
    size_t layers, layers_done; /* numbers of layers over all chunks, for the progress */
} rollout_work;

static size_t rows_together(size_t S) {
    return attn_within(BUFFER_BYTES / sizeof(double) / (S | 1), 1, BLOCK_ROWS);
}

static size_t rows_of_chunk(size_t S, size_t rows) {
    return attn_within(CHUNK_BYTES / ((GROUPS + 1) * sizeof(double)) / (S | 1), 1, rows | 1);
}

/* --- a block of a layer --- */

/* Adds to y [rows, S] the product of the columns of x that belong to block `b` with the rows of M_l
 * in block `b`. */
static attn_status add_layer_rows(const rollout_work *w, const lane *l, const block *b, double *y,
                                  attn_error *err) {
    size_t lo, hi;
    attn_run_step_keys(w->r, w->layer, b->row, b->rows, &lo, &hi);
    const attn_range range = {.row = b->row, .rows = b->rows, .col = lo, .cols = hi - lo};
    ATTN_TRY(attn_run_step_rows(w->r, w->layer, &range, l->any, l->cells, l->layer, err));
    for (size_t r = 0; r < w->rows; r++)
        for (size_t i = 0; i < b->rows; i++) {
            const double x = w->x[r * w->S + b->row + i], *a = l->layer + i * (hi - lo);
            double *to = y + r * w->S + lo;
            for (size_t j = 0; j < hi - lo && x != 0; j++)
                to[j] += x * a[j];
        }
    return ATTN_OK;
}

static attn_status multiply_block(void *work, size_t index, size_t slot, attn_error *err) {
    const rollout_work *w = work;
    const block *whole = &w->blocks[index];
    for (size_t at = 0; at < whole->rows; at += w->sub) {
        const size_t left = whole->rows - at;
        const block b = {whole->row + at, left < w->sub ? left : w->sub};
        attn_pool_yield(w->pool);
        ATTN_TRY(add_layer_rows(w, &w->lanes[slot], &b, w->y[index % GROUPS], err));
    }
    return ATTN_OK;
}

/* --- memory --- */

static void place_rollout_lane(const void *work, attn_area *area, void *to) {
    const rollout_work *w = work;
    lane *l = to;
    l->any = attn_run_lane_place(area, w->r->layers);
    l->cells = attn_area_take_3(area, w->sub, w->S, 1, sizeof(double));
    l->layer = attn_area_take_3(area, w->sub, w->S, 1, sizeof *l->layer);
}

static void place_rollout(void *work, attn_area *area) {
    rollout_work *w = work;
    w->x = attn_area_take_3(area, w->chunk, w->S, 1, sizeof *w->x);
    for (size_t g = 0; g < GROUPS; g++)
        w->y[g] = attn_area_take_3(area, w->chunk, w->S, 1, sizeof **w->y);
    w->blocks = attn_area_take(area, w->S / BLOCK_ROWS + 1, sizeof *w->blocks);
}

static const attn_sweep rollout_sweep = {sizeof(lane), place_rollout_lane, place_rollout,
                                         multiply_block, NULL};

/* --- a layer --- */

static bool is_reached(const rollout_work *w, size_t row) {
    bool reached = false;
    for (size_t r = 0; r < w->rows; r++)
        reached = reached || w->x[r * w->S + row] != 0;
    return reached;
}

/* Lists the blocks of rows at which at least one vector of the chunk is not 0. */
static void list_blocks(rollout_work *w) {
    w->count = 0;
    for (size_t row = 0; row < w->S; row += BLOCK_ROWS) {
        size_t end = row + BLOCK_ROWS < w->S ? row + BLOCK_ROWS : w->S, from = row;
        while (from < end && !is_reached(w, from))
            from++;
        while (end > from && !is_reached(w, end - 1))
            end--;
        if (from < end)
            w->blocks[w->count++] = (block){from, end - from};
    }
}

/* Replaces the vectors x by x M_l. */
static attn_status multiply_layer(rollout_work *w, const attn_control *control, attn_error *err) {
    const size_t n = w->rows * w->S;
    list_blocks(w);
    const size_t groups = w->count < GROUPS ? w->count : GROUPS;
    for (size_t g = 0; g < groups; g++)
        memset(w->y[g], 0, n * sizeof **w->y);
    ATTN_TRY(attn_sweep_run(&rollout_sweep, w, w->count, GROUPS, w->pool, control, err));
    memset(w->x, 0, n * sizeof *w->x);
    for (size_t g = 0; g < groups; g++)
        for (size_t i = 0; i < n; i++)
            w->x[i] += w->y[g][i];
    return ATTN_OK;
}

/* Computes the rollout of the rows of a chunk. */
static attn_status compute_chunk(rollout_work *w, const size_t *rows, const attn_control *control,
                                 double *out, attn_error *err) {
    const attn_run_layers *l = w->r->layers;
    memset(w->x, 0, w->rows * w->S * sizeof *w->x);
    for (size_t r = 0; r < w->rows; r++)
        w->x[r * w->S + rows[r]] = 1;
    for (size_t n = l->count; n-- > 0;) {
        w->layer = &l->items[n];
        ATTN_TRY(multiply_layer(w, control, err));
        attn_control_tell(control, ++w->layers_done, w->layers);
    }
    memcpy(out, w->x, w->rows * w->S * sizeof *out);
    return ATTN_OK;
}

/* --- cost --- */

/* Adds the cells and operations of a chunk to *cells and *operations. The rows of the chunk lie
 * within [from, to). Each layer counts from the first to the last row that the layer above may
 * reach. */
static void count_chunk(const attn_run_rollout *r, size_t from, size_t to, double *cells,
                        double *operations) {
    const attn_run_layers *l = r->layers;
    for (size_t n = l->count; n-- > 0;) {
        const attn_attention_dims *d = l->items[n].site->dims;
        const double heads = (double)(r->heads.list ? r->heads.count : d->Ho);
        size_t first = from, last = to, lo, hi;
        double layer = 0;
        for (size_t row = from; row < to; row += BLOCK_ROWS) {
            const size_t rows = to - row < BLOCK_ROWS ? to - row : BLOCK_ROWS;
            attn_run_step_keys(r, &l->items[n], row, rows, &lo, &hi);
            layer += (double)rows * (double)(hi - lo);
            first = lo < first ? lo : first;
            last = hi > last ? hi : last;
        }
        *cells += heads * layer;
        *operations += heads * layer * 2 * (double)d->score_width;
        from = first;
        to = last;
    }
}

attn_status attn_run_rollout_cost(const attn_run_rollout *r, const size_t *rows, size_t count,
                                  size_t slots, attn_cost *out, attn_error *err) {
    const size_t S = r->layers->cols, chunk = rows_of_chunk(S, count);
    rollout_work w = {.r = r, .S = S, .sub = rows_together(S), .chunk = chunk};
    const attn_area counted = attn_sweep_count(&rollout_sweep, &w, slots);
    if (counted.overflow)
        return attn_fail(err, ATTN_ELIMIT, "rows", "more bytes than can be counted");
    *out = (attn_cost){.work_bytes = counted.used, .result_bytes = count * S * sizeof(double)};
    for (size_t at = 0; at < count; at += chunk) {
        const size_t n = count - at < chunk ? count - at : chunk;
        size_t from = S, to = 0;
        for (size_t i = at; i < at + n; i++) {
            from = rows[i] < from ? rows[i] : from;
            to = rows[i] + 1 > to ? rows[i] + 1 : to;
        }
        count_chunk(r, from, to, &out->cells, &out->operations);
    }
    return ATTN_OK;
}

attn_status attn_run_rollout_rows(const attn_run_rollout *r, const size_t *rows, size_t count,
                                  attn_pool *pool, const attn_control *control, attn_arena *arena,
                                  double *out, attn_error *err) {
    const size_t S = r->layers->cols, chunk = rows_of_chunk(S, count);
    rollout_work w = {.r = r, .S = S, .sub = rows_together(S), .chunk = chunk, .pool = pool};
    w.lanes = attn_sweep_open(&rollout_sweep, &w, attn_pool_slots(pool), arena);
    ATTN_TAKEN(w.lanes, "the rows of a rollout", err);
    w.layers = (count + chunk - 1) / chunk * r->layers->count;
    for (size_t at = 0; at < count; at += w.rows) {
        w.rows = count - at < chunk ? count - at : chunk;
        ATTN_TRY(compute_chunk(&w, rows + at, control, out + at * S, err));
    }
    return ATTN_OK;
}
