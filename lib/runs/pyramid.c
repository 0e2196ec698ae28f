/* The levels of a run's cells, and its overview: the cells of all levels from one level up to the
 * top.
 *
 * Making the overview computes all weights once. The work is divided into pieces for the thread
 * pool. A piece is one or more rows of cells of the top level, with all cells below them. A piece
 * pools weights to a few rows of cells of the lowest level of the overview at a time, and joins
 * four cells of a level to one cell of the level above. All sums are in double. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/try.h"
#include "runs/pooling.h"

/* --- the levels --- */

/* The overview begins at the lowest level with at most LEAST_CELLS cells along each side, but not
 * above LEVEL. If a side has more than MOST_CELLS cells at LEVEL, this bound is LEVEL + 1. If the
 * lowest level with at most LEAST_CELLS cells is 0 or 1, there is no overview. An overview that
 * begins at level 5 has 0.3 % of the bytes of float32 weights. It lacks level 4, a tile of which is
 * computed from 2^24 weights. */
enum { LEAST_CELLS = 512, LEVEL = 5, MOST_CELLS = 2048 };

size_t attn_run_cells_along(size_t n, size_t level) {
    return n ? ((n - 1) >> level) + 1 : 0;
}

size_t attn_run_level_within(size_t n, size_t most) {
    size_t level = 0;
    while (attn_run_cells_along(n, level) > most)
        level++;
    return level;
}

attn_run_pyramid attn_run_pyramid_of(size_t L, size_t S) {
    const size_t longest = L > S ? L : S;
    const size_t coarse = attn_run_level_within(longest, LEAST_CELLS);
    const size_t fine = attn_run_cells_along(longest, LEVEL) > MOST_CELLS ? LEVEL + 1 : LEVEL;
    return (attn_run_pyramid){.L = L,
                              .S = S,
                              .levels = attn_run_level_within(longest, ATTN_RUN_TILE) + 1,
                              .overview = coarse < 2      ? SIZE_MAX
                                          : coarse < fine ? coarse
                                                          : fine};
}

/* --- the overview --- */

typedef struct lane {
    attn_run_buffers buffers;
    attn_run_sum *above; /* two rows of cells for each level above the lowest */
} lane;

typedef struct overview_work {
    const attn_run_matrix *matrix;
    const attn_attention_dims *dims;
    const attn_run_head_span *heads;
    const attn_run_pyramid *pyramid;
    attn_run_shapes shapes;
    lane *lanes;
    const attn_run_planes *planes;
    const attn_control *control;
    _Atomic size_t made; /* number of pieces made, for the progress of `control` */
    uint8_t *done;       /* [pieces] 1 for pieces that are done; or NULL */
    /* numbers of rows and columns of cells of each level */
    size_t rows[ATTN_RUN_LEVELS], cols[ATTN_RUN_LEVELS];
} overview_work;

/* A piece of work. */
typedef struct piece {
    const overview_work *m;
    size_t head;         /* index of the head within m->heads */
    attn_run_sum *above; /* two rows of cells for each level above the lowest, to be joined */
} piece;

static void store_cells(const piece *p, size_t level, size_t row, const attn_run_sum *sums) {
    const overview_work *m = p->m;
    const size_t at = (p->head * m->rows[level] + row) * m->cols[level];
    for (size_t c = 0; c < m->cols[level]; c++) {
        m->planes->max[level][at + c] = attn_run_max_of(&sums[c]);
        m->planes->mean[level][at + c] = attn_run_mean_of(&sums[c]);
    }
}

/* Stores one or two rows of cells of a level below the top level, from the even row `row` on, and
 * joins them to one row of the level above. When this completes a pair of rows of the level above,
 * or its last row, the function calls itself to store and join these rows. `above` holds two rows
 * of the level above, and behind them two rows of each higher level. */
static void join_rows(const piece *p, size_t level, size_t row, size_t rows,
                      const attn_run_sum *sums, attn_run_sum *above) {
    const overview_work *m = p->m;
    const size_t cols = m->cols[level], up = level + 1, half = row / 2;
    for (size_t r = 0; r < rows; r++)
        store_cells(p, level, row + r, sums + r * cols);
    attn_run_sum *line = above + half % 2 * m->cols[up];
    for (size_t c = 0; c < m->cols[up]; c++) {
        line[c] = sums[2 * c];
        for (size_t k = 1; k < 4; k++)
            if (k / 2 < rows && 2 * c + k % 2 < cols)
                attn_run_join(m->matrix, &line[c], &sums[k / 2 * cols + 2 * c + k % 2]);
    }
    if (up + 1 == m->pyramid->levels)
        store_cells(p, up, half, line);
    else if (half % 2 || half + 1 == m->rows[up])
        join_rows(p, up, half - half % 2, half % 2 + 1, above, above + 2 * m->cols[up]);
}

/* Returns how many rows of cells of the lowest level are pooled together: an even number that
 * covers whole blocks of ATTN_RUN_ROWS rows of weights. */
static size_t rows_at_once(size_t level) {
    return level < 5 ? (size_t)ATTN_RUN_ROWS >> level : 6;
}

/* Returns how many rows of cells of the top level make a piece: one, if it covers at least
 * rows_at_once() rows of the lowest level; else the smallest number that covers a multiple of
 * rows_at_once() rows. */
static size_t rows_per_piece(const attn_run_pyramid *p) {
    const size_t below = (size_t)1 << (p->levels - 1 - p->overview);
    size_t rows = 1;
    while (below < rows_at_once(p->overview) && rows * below % rows_at_once(p->overview))
        rows++;
    return rows;
}

static size_t pieces_of_head(const overview_work *m) {
    const size_t each = rows_per_piece(m->pyramid);
    return (m->rows[m->pyramid->levels - 1] + each - 1) / each;
}

static attn_status compute_overview_piece(void *work, size_t index, size_t slot, attn_error *err) {
    overview_work *m = work;
    lane *own = &m->lanes[slot];
    const size_t low = m->pyramid->overview, top = m->pyramid->levels - 1;
    const size_t pieces = pieces_of_head(m), each = rows_per_piece(m->pyramid) << (top - low);
    const piece p = {m, index / pieces, own->above};
    const size_t head = m->heads->first + p.head;
    const size_t first = index % pieces * each;
    const size_t end = m->rows[low] - first < each ? m->rows[low] : first + each;
    attn_status status = ATTN_OK;
    if (m->done && m->done[index])
        return ATTN_OK;
    for (size_t row = first; row < end && !status; row += rows_at_once(low)) {
        const size_t left = end - row;
        const attn_run_area area = {.batch = head / m->dims->Ho,
                                    .head = head % m->dims->Ho,
                                    .level = low,
                                    .row = row,
                                    .rows = left < rows_at_once(low) ? left : rows_at_once(low),
                                    .cols = m->cols[low]};
        const attn_run_sum *sums;
        status = attn_run_pool(m->matrix, &area, &own->buffers, &sums, err);
        for (size_t r = 0; r < area.rows && !status; r += 2)
            join_rows(&p, low, row + r, area.rows - r < 2 ? 1 : 2, sums + r * area.cols, p.above);
    }
    if (m->done)
        m->done[index] = status == ATTN_OK;
    attn_control_tell(m->control, atomic_fetch_add(&m->made, 1) + 1, m->heads->count * pieces);
    return status;
}

/* Sets the shapes of the levels of the overview. */
static void set_shapes(overview_work *m) {
    for (size_t level = m->pyramid->overview; level < m->pyramid->levels; level++) {
        m->rows[level] = attn_run_cells_along(m->pyramid->L, level);
        m->cols[level] = attn_run_cells_along(m->pyramid->S, level);
    }
}

/* Returns the number of cells in lane.above. */
static size_t waiting_cells(const overview_work *m) {
    size_t cells = 0;
    for (size_t level = m->pyramid->overview + 1; level < m->pyramid->levels; level++)
        cells += 2 * m->cols[level];
    return cells;
}

bool attn_run_planes_new(const attn_run_pyramid *pyramid, size_t heads, attn_arena *arena,
                         attn_run_planes *out) {
    overview_work m = {.pyramid = pyramid};
    set_shapes(&m);
    for (size_t level = pyramid->overview; level < pyramid->levels; level++) {
        size_t cells;
        if (!attn_size_mul(heads, m.rows[level] * m.cols[level], &cells))
            return false;
        out->max[level] = attn_arena_zeroed(arena, cells, sizeof(float));
        out->mean[level] = attn_arena_zeroed(arena, cells, sizeof(float));
        if (!out->max[level] || !out->mean[level])
            return false;
    }
    return true;
}

static void place_overview_lane(const void *work, attn_area *area, void *to) {
    const overview_work *m = work;
    const size_t low = m->pyramid->overview;
    lane *l = to;
    attn_run_buffers_place(area, &m->shapes, rows_at_once(low), m->cols[low], &l->buffers);
    l->above = attn_area_take(area, waiting_cells(m), sizeof *l->above);
}

static const attn_sweep overview_sweep = {
    .lane_size = sizeof(lane), .place_lane = place_overview_lane, .piece = compute_overview_piece};

attn_status attn_run_overview_make(const attn_run_matrix *matrix, const attn_run_head_span *heads,
                                   const attn_run_pyramid *pyramid, attn_pool *pool,
                                   const attn_control *control, attn_arena *scratch, uint8_t *done,
                                   const attn_run_planes *out, attn_error *err) {
    const size_t slots = attn_pool_slots(pool);
    overview_work m = {.matrix = matrix,
                       .dims = &matrix->terms[0].a->dims,
                       .heads = heads,
                       .pyramid = pyramid,
                       .shapes = attn_run_shapes_of(matrix),
                       .planes = out,
                       .control = control,
                       .done = done};
    set_shapes(&m);
    m.lanes = attn_sweep_open(&overview_sweep, &m, slots, scratch);
    ATTN_TAKEN(m.lanes, "the overview", err);
    for (size_t i = 0; i < slots; i++)
        attn_run_buffers_begin(&m.lanes[i].buffers, pool, control);
    return attn_sweep_run(&overview_sweep, &m, heads->count * pieces_of_head(&m), 0, pool, control,
                          err);
}

size_t attn_run_overview_pieces(const attn_run_pyramid *pyramid) {
    overview_work m = {.pyramid = pyramid};
    set_shapes(&m);
    return pieces_of_head(&m);
}

bool attn_run_overview_bytes(const attn_run_shapes *shapes, const attn_run_pyramid *pyramid,
                             size_t slots, double *planes, size_t *work) {
    overview_work m = {.shapes = *shapes, .pyramid = pyramid};
    set_shapes(&m);
    *planes = 0;
    for (size_t level = pyramid->overview; level < pyramid->levels; level++)
        *planes += (double)m.rows[level] * (double)m.cols[level] * 2 * sizeof(float);
    const attn_area counted = attn_sweep_count(&overview_sweep, &m, slots);
    *work = counted.used;
    return !counted.overflow;
}
