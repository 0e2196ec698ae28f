/* Computes the cells of ranges of rows, or their mean over the heads. A mean is computed in blocks
 * of keys, and each block head by head. Sums over heads are in double, in the order of the
 * heads. */
#include <string.h>

#include "attention/cells.h"
#include "base/try.h"
#include "runs/private.h"

attn_cells_scratch *attn_run_scratch_place(attn_area *area, const attn_attention_dims *d) {
    return attn_cells_place(area, d, attn_kernels_with(d->isa, d->precision, d->tanh_score));
}

attn_status attn_run_add_heads(const attn_run_site *site, const attn_range *block,
                               const attn_run_heads *heads, attn_cells_scratch *scratch,
                               void *cells, double *sums, attn_error *err) {
    const size_t n = block->rows * block->cols, count = heads->list ? heads->count : site->dims->Ho;
    const bool wide = site->dims->result == ATTN_F64;
    memset(sums, 0, n * sizeof *sums);
    for (size_t h = 0; h < count; h++) {
        attn_range at = *block;
        at.head = heads->list ? (size_t)heads->list[h] : h;
        ATTN_TRY(attn_attention_cells(site->op, &site->stats, &at, ATTN_STAGE_PROBS, cells,
                                      block->cols, scratch, err));
        const float *single = cells;
        const double *twice = cells;
        for (size_t i = 0; i < n && wide; i++)
            sums[i] += twice[i];
        for (size_t i = 0; i < n && !wide; i++)
            sums[i] += (double)single[i];
    }
    return ATTN_OK;
}

enum { PIECE_ROWS = 64, BLOCK_KEYS = 1024 };

typedef struct lane {
    attn_cells_scratch *scratch;
    /* The arrays below have no elements unless a mean is computed. */
    void *cells;  /* [PIECE_ROWS, BLOCK_KEYS] weights of one head, in the result type */
    double *sums; /* [PIECE_ROWS, BLOCK_KEYS] sums over heads */
} lane;

typedef struct piece {
    attn_range rows; /* at most PIECE_ROWS rows of a range */
    size_t at;       /* row of `dst` for the first of these rows */
} piece;

typedef struct ranges_work {
    const attn_run_site *site;
    bool mean;
    attn_stage stage;
    lane *lanes;
    piece *pieces; /* [count] */
    size_t count;
    size_t cols; /* number of keys of each range */
    char *dst;   /* [rows of all ranges, cols] of the result type */
    attn_pool *pool;
} ranges_work;

static void store_mean(const ranges_work *a, const lane *l, const attn_range *block, char *to) {
    const double heads = (double)a->site->dims->Ho;
    const size_t elem = attn_dtype_size(a->site->dims->result);
    for (size_t r = 0; r < block->rows; r++)
        for (size_t c = 0; c < block->cols; c++)
            attn_element_set(to, elem, r * a->cols + c, l->sums[r * block->cols + c] / heads);
}

static attn_status average_piece(const ranges_work *a, const piece *p, const lane *l, char *to,
                                 attn_error *err) {
    const attn_run_heads all = {0};
    const size_t elem = attn_dtype_size(a->site->dims->result);
    for (size_t j = 0; j < a->cols; j += BLOCK_KEYS) {
        attn_range block = p->rows;
        block.col += j;
        block.cols = a->cols - j < BLOCK_KEYS ? a->cols - j : BLOCK_KEYS;
        attn_pool_yield(a->pool);
        ATTN_TRY(attn_run_add_heads(a->site, &block, &all, l->scratch, l->cells, l->sums, err));
        store_mean(a, l, &block, to + j * elem);
    }
    return ATTN_OK;
}

static attn_status compute_range_piece(void *work, size_t index, size_t slot, attn_error *err) {
    const ranges_work *a = work;
    const piece *p = &a->pieces[index];
    char *to = a->dst + p->at * a->cols * attn_dtype_size(a->site->dims->result);
    return a->mean ? average_piece(a, p, &a->lanes[slot], to, err)
                   : attn_attention_cells(a->site->op, &a->site->stats, &p->rows, a->stage, to,
                                          a->cols, a->lanes[slot].scratch, err);
}

static void place_range_lane(const void *work, attn_area *area, void *to) {
    const ranges_work *a = work;
    const size_t cells = a->mean ? (size_t)PIECE_ROWS * BLOCK_KEYS : 0;
    lane *l = to;
    l->scratch = attn_run_scratch_place(area, a->site->dims);
    l->cells = attn_area_take(area, cells, attn_dtype_size(a->site->dims->result));
    l->sums = attn_area_take(area, cells, sizeof *l->sums);
}

static const attn_sweep range_sweep = {
    .lane_size = sizeof(lane), .place_lane = place_range_lane, .piece = compute_range_piece};

size_t attn_run_mean_work(const attn_run_site *site, size_t slots) {
    ranges_work a = {.site = site, .mean = true};
    return attn_sweep_count(&range_sweep, &a, slots).used;
}

/* Divides the ranges into pieces. Returns false if memory runs out. */
static bool divide_ranges(ranges_work *a, const attn_range *ranges, size_t count,
                          attn_arena *arena) {
    size_t most = 0, at = 0;
    for (size_t i = 0; i < count; i++)
        most += ranges[i].rows / PIECE_ROWS + 1;
    a->pieces = attn_arena_zeroed(arena, most + 1, sizeof *a->pieces);
    for (size_t i = 0; a->pieces && i < count; i++)
        for (size_t r = 0, n; r < ranges[i].rows; r += n, at += n) {
            n = ranges[i].rows - r < PIECE_ROWS ? ranges[i].rows - r : PIECE_ROWS;
            piece *p = &a->pieces[a->count++];
            *p = (piece){ranges[i], at};
            p->rows.row += r;
            p->rows.rows = n;
        }
    return a->pieces != NULL;
}

static attn_status compute_ranges(ranges_work *a, const attn_range *ranges, size_t count,
                                  const attn_control *control, attn_arena *arena, attn_error *err) {
    a->cols = count ? ranges[0].cols : 0;
    a->lanes = attn_sweep_open(&range_sweep, a, attn_pool_slots(a->pool), arena);
    ATTN_TAKEN(a->lanes && divide_ranges(a, ranges, count, arena), "the cells", err);
    return attn_sweep_run(&range_sweep, a, a->count, 0, a->pool, control, err);
}

attn_status attn_run_cells(const attn_run_site *site, const attn_range *ranges, size_t count,
                           attn_stage stage, attn_pool *pool, const attn_control *control,
                           attn_arena *arena, void *dst, attn_error *err) {
    ranges_work a = {.site = site, .stage = stage, .dst = dst, .pool = pool};
    return compute_ranges(&a, ranges, count, control, arena, err);
}

attn_status attn_run_mean(const attn_run_site *site, const attn_range *ranges, size_t count,
                          attn_pool *pool, const attn_control *control, attn_arena *arena,
                          void *dst, attn_error *err) {
    ranges_work a = {.site = site, .mean = true, .dst = dst, .pool = pool};
    return compute_ranges(&a, ranges, count, control, arena, err);
}
