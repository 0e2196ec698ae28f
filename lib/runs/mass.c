/* Sums the weights that each row gives to some keys. Blocks without any of these keys are not
 * computed. */
#include <string.h>

#include "attention/resolved.h"
#include "base/try.h"
#include "runs/private.h"

enum { PIECE_ROWS = 64, BLOCK_KEYS = 256 };

typedef struct lane {
    attn_cells_scratch *scratch;
    void *cells; /* [PIECE_ROWS, BLOCK_KEYS] of the run's result type */
} lane;

typedef struct mass_work {
    const attn_run_site *site;
    attn_range rows;
    uint8_t *chosen; /* [S]: 1 for the keys that count */
    double *mass;    /* [rows.rows] */
    attn_pool *pool;
    lane *lanes;
} mass_work;

/* Adds the chosen cells of a block to the sums of their rows, in the order of the keys. */
static void add_chosen_cells(const mass_work *s, const lane *l, const attn_range *block) {
    const size_t elem = attn_dtype_size(s->site->dims->result);
    for (size_t r = 0; r < block->rows; r++)
        for (size_t c = 0; c < block->cols; c++)
            if (s->chosen[block->col + c])
                s->mass[block->row - s->rows.row + r] +=
                    attn_element(l->cells, elem, r * block->cols + c);
}

static attn_status sum_chosen_weights(void *work, size_t index, size_t slot, attn_error *err) {
    const mass_work *s = work;
    const lane *l = &s->lanes[slot];
    const size_t S = s->site->dims->S, first = index * PIECE_ROWS, left = s->rows.rows - first;
    attn_range block = s->rows;
    block.row += first;
    block.rows = left < PIECE_ROWS ? left : PIECE_ROWS;
    for (size_t j = 0; j < S; j += BLOCK_KEYS) {
        const size_t end = S - j < BLOCK_KEYS ? S : j + BLOCK_KEYS;
        const uint8_t *from = memchr(s->chosen + j, 1, end - j);
        if (!from)
            continue;
        block.col = (size_t)(from - s->chosen);
        block.cols = end - block.col;
        while (!s->chosen[block.col + block.cols - 1])
            block.cols--;
        attn_pool_yield(s->pool);
        ATTN_TRY(attn_attention_cells(s->site->op, &s->site->stats, &block, ATTN_STAGE_PROBS,
                                      l->cells, block.cols, l->scratch, err));
        add_chosen_cells(s, l, &block);
    }
    return ATTN_OK;
}

static void place_mass_lane(const void *work, attn_area *area, void *to) {
    const attn_run_site *site = ((const mass_work *)work)->site;
    lane *l = to;
    l->scratch = attn_run_scratch_place(area, site->dims);
    l->cells = attn_area_take(area, PIECE_ROWS * BLOCK_KEYS, attn_dtype_size(site->dims->result));
}

static void place_chosen(void *work, attn_area *area) {
    mass_work *s = work;
    s->chosen = attn_area_take(area, s->site->dims->S, 1);
}

static const attn_sweep mass_sweep = {sizeof(lane), place_mass_lane, place_chosen,
                                      sum_chosen_weights, NULL};

size_t attn_run_mass_work(const attn_run_site *site, size_t slots) {
    mass_work s = {.site = site};
    return attn_sweep_count(&mass_sweep, &s, slots).used;
}

attn_status attn_run_mass(const attn_run_site *site, const attn_range *rows, const int64_t *keys,
                          size_t count, attn_pool *pool, const attn_control *control,
                          attn_arena *arena, double *mass, attn_error *err) {
    const size_t S = site->dims->S;
    mass_work s = {.site = site, .rows = *rows, .mass = mass, .pool = pool};
    s.lanes = attn_sweep_open(&mass_sweep, &s, attn_pool_slots(pool), arena);
    ATTN_TAKEN(s.lanes, "the sums", err);
    memset(s.chosen, 0, S);
    for (size_t i = 0; i < count; i++) {
        if (keys[i] < 0 || (uint64_t)keys[i] >= S)
            return attn_fail(err, ATTN_EARG, "keys", "expected keys from 0 to %zu, found %lld",
                             S ? S - 1 : 0, (long long)keys[i]);
        s.chosen[keys[i]] = 1;
    }
    memset(mass, 0, rows->rows * sizeof *mass);
    return attn_sweep_run(&mass_sweep, &s, (rows->rows + PIECE_ROWS - 1) / PIECE_ROWS, 0, pool,
                          control, err);
}
