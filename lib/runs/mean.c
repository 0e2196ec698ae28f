/* The mean of the weights over heads, computed head by head in blocks of rows. Sums are in double,
 * in the order of the heads. */
#include <string.h>

#include "attention/resolved.h"
#include "base/area.h"
#include "runs/private.h"

attn_status attn_run_add_heads(const attn_run_site *site, const attn_range *block,
                               const attn_run_heads *heads, attn_cells_scratch *scratch,
                               void *cells, double *sums, attn_error *err) {
    const size_t n = block->rows * block->cols, count = heads->list ? heads->count : site->dims->Hq;
    const bool wide = site->dims->result == ATTN_F64;
    attn_status status = ATTN_OK;
    memset(sums, 0, n * sizeof *sums);
    for (size_t h = 0; h < count && !status; h++) {
        attn_range at = *block;
        at.head = heads->list ? (size_t)heads->list[h] : h;
        status = attn_attention_cells(site->op, &site->stats, &at, ATTN_STAGE_PROBS, cells,
                                      block->cols, scratch, err);
        const float *single = cells;
        const double *twice = cells;
        for (size_t i = 0; i < n && wide && !status; i++)
            sums[i] += twice[i];
        for (size_t i = 0; i < n && !wide && !status; i++)
            sums[i] += (double)single[i];
    }
    return status;
}

enum { PIECE_ROWS = 64, BLOCK_KEYS = 1024 };

typedef struct lane {
    attn_cells_scratch *scratch;
    void *cells;  /* [PIECE_ROWS, BLOCK_KEYS] of the result type */
    double *sums; /* [PIECE_ROWS, BLOCK_KEYS] */
} lane;

/* Some rows; their cells begin with row `at` of dst. */
typedef struct piece {
    attn_range rows;
    size_t at;
} piece;

typedef struct averager {
    const attn_run_site *site;
    lane *lanes;
    piece *pieces;
    size_t count, cols;
    char *dst;
    attn_pool *pool;
} averager;

static void store(const averager *a, const lane *l, const attn_range *block, char *to) {
    const double heads = (double)a->site->dims->Hq;
    const bool wide = a->site->dims->result == ATTN_F64;
    const size_t elem = wide ? sizeof(double) : sizeof(float);
    for (size_t r = 0; r < block->rows; r++)
        for (size_t c = 0; c < block->cols; c++) {
            const double mean = l->sums[r * block->cols + c] / heads;
            char *cell = to + (r * a->cols + c) * elem;
            if (wide)
                *(double *)(void *)cell = mean;
            else
                *(float *)(void *)cell = (float)mean;
        }
}

static attn_status average_piece(void *ctx, size_t index, size_t slot, attn_error *err) {
    const averager *a = ctx;
    const piece *p = &a->pieces[index];
    const lane *l = &a->lanes[slot];
    const attn_run_heads all = {0};
    const size_t elem = attn_dtype_size(a->site->dims->result);
    attn_status status = ATTN_OK;
    for (size_t j = 0; j < a->cols && !status; j += BLOCK_KEYS) {
        attn_range block = p->rows;
        block.col += j;
        block.cols = a->cols - j < BLOCK_KEYS ? a->cols - j : BLOCK_KEYS;
        attn_pool_yield(a->pool);
        status = attn_run_add_heads(a->site, &block, &all, l->scratch, l->cells, l->sums, err);
        if (!status)
            store(a, l, &block, a->dst + (p->at * a->cols + j) * elem);
    }
    return status;
}

/* Takes the arrays from an area. Returns those of the threads. */
static lane *place(const attn_run_site *site, attn_area *a, size_t slots) {
    const size_t cells = (size_t)PIECE_ROWS * BLOCK_KEYS;
    lane *lanes = attn_area_take(a, slots, sizeof *lanes);
    for (size_t s = 0; s < slots; s++) {
        void *weights = attn_area_take(a, cells, attn_dtype_size(site->dims->result));
        double *sums = attn_area_take(a, cells, sizeof *sums);
        if (a->base)
            lanes[s] = (lane){NULL, weights, sums};
    }
    return lanes;
}

size_t attn_run_mean_work(const attn_run_site *site, size_t slots) {
    attn_area counted = {0};
    place(site, &counted, slots);
    return counted.used;
}

static bool divide(averager *a, const attn_range *ranges, size_t count, attn_arena *arena) {
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

attn_status attn_run_mean(const attn_run_site *site, const attn_range *ranges, size_t count,
                          attn_pool *pool, const attn_control *control, attn_arena *arena,
                          void *dst, attn_error *err) {
    const size_t slots = attn_pool_slots(pool);
    attn_area counted = {0}, area;
    averager a = {.site = site, .cols = count ? ranges[0].cols : 0, .dst = dst, .pool = pool};
    place(site, &counted, slots);
    bool ok = attn_area_open(&area, &counted, arena) && divide(&a, ranges, count, arena);
    if (ok)
        a.lanes = place(site, &area, slots);
    for (size_t i = 0; i < slots && ok; i++)
        ok = (a.lanes[i].scratch = attn_cells_scratch_new(site->op, arena)) != NULL;
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the mean of the heads");
    return attn_pool_run(pool, a.count, average_piece, &a, control, err);
}
