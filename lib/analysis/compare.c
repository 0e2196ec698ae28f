/* Computes distances between the heads of one source or of two sources.
 *
 * A piece of work is one block of rows, or several short blocks. It fetches these rows of all heads
 * and adds each row to the sums of every pair of heads, some columns at a time, so that these
 * columns of all heads are in the nearest cache while the pairs read them. The pool computes a wave
 * of several blocks; then their sums are merged in block order, so results do not depend on
 * threads. Memory holds the sums of one wave and some rows of each head, but no matrix. */
#include <math.h>
#include <string.h>

#include "analysis/sums.h"
#include "attn/analysis.h"
#include "base/sweep.h"
#include "base/try.h"

enum {
    BLOCK_PRODUCTS = 1 << 19, /* pairs x keys in a block of rows */
    /* Short blocks are combined into a piece of up to PIECE_ROWS rows. Its rows are fetched
     * together, because each fetch packs all keys of a run anew. */
    PIECE_ROWS = 16,
    LANE_BYTES = 8 << 20,    /* limit for the fetched rows of a thread, bytes */
    WAVE_BYTES = 8 << 20,    /* limit for the sums of a wave, bytes */
    WAVE_LEAST = 8,          /* smallest number of blocks in a wave */
    WAVE_MOST = 64,          /* largest number of blocks in a wave */
    COLUMN_BYTES = 24 << 10, /* limit for p, centered and q in a lane, bytes */
    COLUMNS_LEAST = 64,      /* smallest number of columns in a step of a row */
    COLUMNS_MOST = 512,      /* largest number of columns in a step of a row */
};

/* One of the two sources with its mask. */
typedef struct side {
    const attn_weight_source *source;
    const attn_mask *mask;
    size_t batch; /* the batch entry that is compared */
    size_t heads;
} side;

/* Sizes that follow from the shapes of the sources. */
typedef struct plan {
    side a, b; /* b.source is NULL if the heads of a are compared: pairs g < h */
    size_t batches;
    size_t cols;     /* heads with which each head of a is compared */
    size_t heads;    /* heads of both sources together */
    size_t L, S;     /* queries and keys of each source */
    size_t pairs;    /* number of pairs of heads */
    size_t block;    /* rows of a block; each block has its own sums */
    size_t blocks;   /* total number of blocks */
    size_t together; /* number of blocks in a piece of work, whose rows are fetched together */
    size_t wave;     /* blocks whose sums are in memory together; a multiple of `together` */
    size_t columns;  /* columns of a row that are compared in one step */
} plan;

/* Sums over the rows of a block for the heads g and h of a pair. */
typedef struct pair_sums {
    double js;       /* sum of the Jensen-Shannon divergence, in nats */
    double dot;      /* sum of p_g . p_h */
    double centered; /* sum of p_g . p_h after uniform attention is subtracted from both */
    uint64_t rows;   /* number of rows in which both heads have weight */
} pair_sums;
/* Sums over the rows of a block for one head. */
typedef struct head_sums {
    double square;   /* sum of p . p */
    double centered; /* sum of p . p after uniform attention is subtracted */
} head_sums;

/* The sums of one block. */
typedef struct part {
    pair_sums *pairs; /* [pairs] */
    head_sums *heads; /* [heads] */
} part;

/* Returns the number of rows of a piece. */
static size_t rows_of(const plan *p) {
    return p->together * p->block;
}

/* A row of one head, whose visible keys are in [from, to). */
typedef struct head_row {
    const float *weights;   /* [S] */
    const uint8_t *visible; /* [S] */
    size_t from, to;
    double mass;    /* sum of the weights p */
    double uniform; /* the weight of each visible key under uniform attention */
    double order;   /* sum of q ln q for q = p / mass */
    bool alive;     /* the row has weight */
} head_row;

/* Scratch memory of one thread. */
typedef struct lane {
    float *weights;   /* [heads, rows, S] the rows of a piece */
    float *logits;    /* [rows, S] the logits of these rows in one head */
    uint8_t *visible; /* [heads, rows, S] */
    /* Some columns of one row of every head, [heads, columns] each: */
    double *p, *centered, *q; /* p, p minus uniform attention, p / mass */
    head_row *row;            /* [heads] */
    double *mixed;            /* [pairs] sum of m ln m for m = (q_g + q_h) / 2 */
} lane;

typedef struct comparison {
    const plan *plan;
    lane *lanes;
    part *parts;                 /* [wave + 1]; the last part has the sums of a batch entry */
    attn_head_distances *result; /* [batches] */
    const attn_control *control;
} comparison;

/* --- a row --- */

static attn_status load_side(const plan *p, const side *s, lane *l, size_t lane_index, size_t at,
                             size_t row, size_t rows, attn_error *err) {
    const size_t each = rows_of(p) * p->S;
    for (size_t h = 0; h < s->heads; h++) {
        attn_range range = {.batch = s->batch, .head = h, .row = row, .rows = rows, .cols = p->S};
        ATTN_TRY(s->source->fetch(s->source->ctx, lane_index, &range, l->weights + (at + h) * each,
                                  l->logits, err));
        attn_drop_negative(s->source, l->weights + (at + h) * each, rows * p->S);
        for (size_t r = 0; r < rows; r++, range.row++)
            attn_find_visible(s->source, s->mask, l->logits + r * p->S, &range, p->S,
                              l->visible + (at + h) * each + r * p->S);
    }
    return ATTN_OK;
}

/* Returns whether a row is padding in one of the sources. */
static bool is_padding(const plan *p, size_t row) {
    return attn_row_is_padding(p->a.source, p->a.batch, row) ||
           (p->b.source && attn_row_is_padding(p->b.source, p->b.batch, row));
}

/* Sets l->row[h] from row r of the piece, except the member `order`. */
static void read_row(const plan *p, const lane *l, size_t h, size_t r) {
    const size_t S = p->S, at = (h * rows_of(p) + r) * S;
    head_row *row = &l->row[h];
    double *wide = l->p + h * p->columns;
    size_t seen = 0;
    *row = (head_row){.weights = l->weights + at, .visible = l->visible + at};
    attn_find_span(row->visible, S, &row->from, &row->to);
    for (size_t j = row->from; j < row->to; j++)
        seen += row->visible[j];
    for (size_t j = row->from, n; j < row->to; j += n) {
        n = row->to - j < p->columns ? row->to - j : p->columns;
        attn_pointwise_current()->widen_visible(wide, row->weights + j, row->visible + j, n);
        row->mass += attn_sum(wide, n);
    }
    row->uniform = seen ? 1 / (double)seen : 0;
    row->alive = row->mass > 0 && !isinf(row->mass);
}

/* Computes p, centered and q of keys j … j + n - 1 of head h, and adds their squares to *sums. */
static void centre_columns(const plan *p, const lane *l, size_t h, size_t j, size_t n,
                           head_sums *sums) {
    const attn_pointwise *rows = attn_pointwise_current();
    const size_t at = h * p->columns;
    double *wide = l->p + at, *centered = l->centered + at, *q = l->q + at;
    head_row *row = &l->row[h];
    rows->widen_visible(wide, row->weights + j, row->visible + j, n);
    rows->centre(centered, q, wide, row->visible + j, row->uniform, row->mass, n);
    row->order += attn_sum_xlnx(q, n);
    sums->square += attn_dot(wide, wide, n);
    sums->centered += attn_dot(centered, centered, n);
}

/* Loops over the pairs of heads g and h that both have weight in the row; `at` is the number of the
 * pair. */
#define FOR_PAIRS(p, l, g, h, at)                                                                  \
    for (size_t at = 0, g = 0; g < (p)->a.heads; g++)                                              \
        for (size_t h = (p)->b.source ? (p)->a.heads : g + 1; h < (p)->heads; h++, at++)           \
            if ((l)->row[g].alive && (l)->row[h].alive)

/* Adds row r of the piece to the sums of its block. */
static void add_row(const plan *p, const lane *l, size_t r, part *sums) {
    size_t from = p->S, to = 0;
    for (size_t h = 0; h < p->heads; h++) {
        const head_row *row = &l->row[h];
        read_row(p, l, h, r);
        from = row->alive && row->from < from ? row->from : from;
        to = row->alive && row->to > to ? row->to : to;
    }
    memset(l->mixed, 0, p->pairs * sizeof *l->mixed);
    for (size_t j = from, n; j < to; j += n) {
        n = to - j < p->columns ? to - j : p->columns;
        for (size_t h = 0; h < p->heads; h++)
            if (l->row[h].alive)
                centre_columns(p, l, h, j, n, &sums->heads[h]);
        FOR_PAIRS(p, l, g, h, at) {
            const size_t x = g * p->columns, y = h * p->columns;
            l->mixed[at] += attn_mix_xlnx(l->q + x, l->q + y, n);
            sums->pairs[at].dot += attn_dot(l->p + x, l->p + y, n);
            sums->pairs[at].centered += attn_dot(l->centered + x, l->centered + y, n);
        }
    }
    FOR_PAIRS(p, l, g, h, at) {
        const double js = 0.5 * (l->row[g].order + l->row[h].order) - l->mixed[at];
        sums->pairs[at].js += js > 0 ? js : 0; /* rounding can make js negative */
        sums->pairs[at].rows++;
    }
}

static attn_status compare_rows(void *work, size_t index, size_t lane_index, attn_error *err) {
    const comparison *w = work;
    const plan *p = w->plan;
    lane *l = &w->lanes[lane_index];
    part *sums = &w->parts[index * p->together % p->wave];
    const size_t row = index * p->together * p->block;
    size_t rows = p->L - row < rows_of(p) ? p->L - row : rows_of(p);
    ATTN_TRY(load_side(p, &p->a, l, lane_index, 0, row, rows, err));
    if (p->b.source)
        ATTN_TRY(load_side(p, &p->b, l, lane_index, p->a.heads, row, rows, err));
    for (size_t r = 0; r < rows; r++)
        if (!is_padding(p, row + r))
            add_row(p, l, r, &sums[r / p->block]);
    return ATTN_OK;
}

/* --- memory, merging, result --- */

static void place_comparison_lane(const void *work, attn_area *area, void *to) {
    const plan *p = ((const comparison *)work)->plan;
    lane *l = to;
    l->weights = attn_area_take_3(area, p->heads, rows_of(p), p->S, sizeof *l->weights);
    l->logits = attn_area_take_3(area, rows_of(p), p->S, 1, sizeof *l->logits);
    l->visible = attn_area_take_3(area, p->heads, rows_of(p), p->S, 1);
    l->p = attn_area_take_3(area, p->heads, p->columns, 1, sizeof *l->p);
    l->centered = attn_area_take_3(area, p->heads, p->columns, 1, sizeof *l->centered);
    l->q = attn_area_take_3(area, p->heads, p->columns, 1, sizeof *l->q);
    l->row = attn_area_take(area, p->heads, sizeof *l->row);
    l->mixed = attn_area_take(area, p->pairs, sizeof *l->mixed);
}

static void place_result(comparison *w, attn_area *area) {
    const plan *p = w->plan;
    const size_t rows = p->a.heads, n = rows * p->cols;
    w->result = attn_area_take(area, p->batches, sizeof *w->result);
    double *js = attn_area_take_3(area, p->batches, rows, p->cols, sizeof *js);
    double *cosine = attn_area_take_3(area, p->batches, rows, p->cols, sizeof *cosine);
    double *centered = attn_area_take_3(area, p->batches, rows, p->cols, sizeof *centered);
    for (size_t i = 0; area->base && i < p->batches; i++)
        w->result[i] = (attn_head_distances){.batch = i,
                                             .rows = rows,
                                             .cols = p->cols,
                                             .js = js + i * n,
                                             .cosine = cosine + i * n,
                                             .centered = centered + i * n};
}

static void place_comparison(void *work, attn_area *area) {
    comparison *w = work;
    w->parts = attn_area_take(area, w->plan->wave + 1, sizeof *w->parts);
    for (size_t i = 0; i <= w->plan->wave; i++) {
        pair_sums *pairs = attn_area_take(area, w->plan->pairs, sizeof *pairs);
        head_sums *heads = attn_area_take(area, w->plan->heads, sizeof *heads);
        if (area->base)
            w->parts[i] = (part){pairs, heads};
    }
    place_result(w, area);
}

static void clear_part(const plan *p, part *sums) {
    memset(sums->pairs, 0, p->pairs * sizeof *sums->pairs);
    memset(sums->heads, 0, p->heads * sizeof *sums->heads);
}

/* Sets all sums to 0. With many heads these are gigabytes, so the control is checked between
 * blocks. */
static attn_status clear_sums(const comparison *w, attn_error *err) {
    for (size_t i = 0; i <= w->plan->wave; i++) {
        clear_part(w->plan, &w->parts[i]);
        ATTN_TRY(attn_control_check(w->control, err));
    }
    return ATTN_OK;
}

static void merge_block(const plan *p, part *to, const part *from) {
    for (size_t i = 0; i < p->pairs; i++) {
        to->pairs[i].js += from->pairs[i].js;
        to->pairs[i].dot += from->pairs[i].dot;
        to->pairs[i].centered += from->pairs[i].centered;
        to->pairs[i].rows += from->pairs[i].rows;
    }
    for (size_t h = 0; h < p->heads; h++) {
        to->heads[h].square += from->heads[h].square;
        to->heads[h].centered += from->heads[h].centered;
    }
}

static double cosine_of(double dot, double a, double b) {
    double length = sqrt(a) * sqrt(b), cosine = dot / length;
    return length > 0 ? (cosine > 1 ? 1 : cosine < -1 ? -1 : cosine) : NAN;
}

/* Mean squares below this are only rounding differences from uniform attention. */
#define NOTHING 1e-12

static double centered_cosine_of(double dot, double a, double b, size_t L) {
    return a > NOTHING * (double)L && b > NOTHING * (double)L ? cosine_of(dot, a, b) : NAN;
}

static double mean_of_pairs(double sum, size_t n) {
    return n ? sum / (double)n : NAN;
}

static void finish_distances(const plan *p, const part *all, attn_head_distances *out) {
    const pair_sums *at = all->pairs;
    double sums[3] = {0};
    size_t counts[3] = {0};
    for (size_t g = 0; g < p->a.heads; g++)
        for (size_t h = p->b.source ? p->a.heads : g + 1; h < p->heads; h++, at++) {
            const head_sums *x = &all->heads[g], *y = &all->heads[h];
            double *const planes[] = {out->js, out->cosine, out->centered};
            const double values[] = {
                mean_of_pairs(at->js, at->rows), cosine_of(at->dot, x->square, y->square),
                centered_cosine_of(at->centered, x->centered, y->centered, p->L)};
            size_t col = p->b.source ? h - p->a.heads : h;
            for (size_t k = 0; k < 3; k++) {
                planes[k][g * out->cols + col] = values[k];
                if (!p->b.source)
                    planes[k][col * out->cols + g] = values[k];
                sums[k] += isnan(values[k]) ? 0 : values[k];
                counts[k] += isnan(values[k]) ? 0 : 1;
            }
        }
    for (size_t g = 0; !p->b.source && g < p->a.heads; g++) {
        const head_sums *x = &all->heads[g];
        out->js[g * out->cols + g] = x->square > 0 ? 0 : NAN;
        out->cosine[g * out->cols + g] = x->square > 0 ? 1 : NAN;
        out->centered[g * out->cols + g] = x->centered > NOTHING * (double)p->L ? 1 : NAN;
    }
    out->mean_js = mean_of_pairs(sums[0], counts[0]);
    out->mean_cosine = mean_of_pairs(sums[1], counts[1]);
    out->mean_centered = mean_of_pairs(sums[2], counts[2]);
}

/* Merges a wave of pieces. */
static void merge_wave(void *work, size_t first, size_t count) {
    const comparison *w = work;
    const plan *p = w->plan;
    const size_t end = (first + count) * p->together, past = end < p->blocks ? end : p->blocks;
    for (size_t i = 0; i < past - first * p->together; i++) {
        merge_block(p, &w->parts[p->wave], &w->parts[i]);
        clear_part(p, &w->parts[i]);
    }
    attn_control_tell(w->control, p->a.batch * p->blocks + past, p->batches * p->blocks);
}

/* --- the sweep --- */

static const attn_sweep comparison_sweep = {sizeof(lane), place_comparison_lane, place_comparison,
                                            compare_rows, merge_wave};

static plan make_plan(size_t batches, size_t heads_a, size_t heads_b, size_t L, size_t S) {
    plan p = {.batches = batches, .heads = heads_a + heads_b, .L = L, .S = S};
    p.a.heads = heads_a;
    p.cols = heads_b ? heads_b : heads_a;
    size_t keys = S ? S : 1, heads = p.heads ? p.heads : 1;
    p.pairs = heads_b ? heads_a * heads_b : heads_a * (heads_a ? heads_a - 1 : 0) / 2;
    p.block = BLOCK_PRODUCTS / (p.pairs ? p.pairs : 1) / keys;
    p.block = attn_within(p.block, 1, LANE_BYTES / (heads * (sizeof(float) + 1)) / keys + 1);
    p.block = attn_within(p.block, 1, L ? L : 1);
    p.blocks = L / p.block + (L % p.block != 0);
    size_t bytes = p.pairs * sizeof(pair_sums) + heads * sizeof(head_sums);
    p.wave = attn_within(WAVE_BYTES / (bytes | 1), WAVE_LEAST, WAVE_MOST);
    const size_t most = LANE_BYTES / (heads * (sizeof(float) + 1)) / keys / p.block;
    p.together = attn_within(PIECE_ROWS / p.block, 1, p.wave / WAVE_LEAST);
    p.together = attn_within(p.together, 1, most ? most : 1);
    p.wave -= p.wave % p.together;
    p.columns = COLUMN_BYTES / (3 * sizeof(double)) / heads & ~(size_t)7;
    p.columns = attn_within(p.columns, COLUMNS_LEAST, COLUMNS_MOST);
    return p;
}

attn_status attn_head_distances_cost(size_t batches, size_t heads_a, size_t heads_b, size_t L,
                                     size_t S, size_t slots, attn_cost *out, attn_error *err) {
    const plan p = make_plan(batches, heads_a, heads_b, L, S);
    comparison w = {.plan = &p};
    attn_area result = {0};
    const attn_area all = attn_sweep_count(&comparison_sweep, &w, slots);
    place_result(&w, &result);
    if (all.overflow)
        return attn_fail(err, ATTN_ELIMIT, "", "too many heads to compare");
    const double products = (double)batches * (double)p.pairs * (double)L * (double)S;
    /* counts 32 operations for each cell of each pair of heads: a logarithm and three products */
    *out = (attn_cost){.cells = products,
                       .operations = 32 * products,
                       .work_bytes = all.used - result.content,
                       .result_bytes = result.content};
    return ATTN_OK;
}

attn_status attn_head_distances_measure(const attn_weight_source *a, const attn_mask *mask_a,
                                        const attn_weight_source *b, const attn_mask *mask_b,
                                        attn_pool *pool, const attn_control *control,
                                        attn_arena *arena, attn_head_distances **out,
                                        attn_error *err) {
    if (b && (a->rows != b->rows || a->cols != b->cols || a->batches != b->batches))
        return attn_fail(err, ATTN_ESHAPE, "",
                         "heads of %zu x (%zu x %zu) and of %zu x (%zu x %zu) weights cannot be "
                         "compared",
                         a->batches, a->rows, a->cols, b->batches, b->rows, b->cols);
    plan p = make_plan(a->batches, a->heads, b ? b->heads : 0, a->rows, a->cols);
    comparison w = {.plan = &p, .control = control};
    p.a = (side){a, mask_a, 0, a->heads};
    p.b = (side){b, mask_b, 0, b ? b->heads : 0};
    p.cols = b ? b->heads : a->heads;
    w.lanes = attn_sweep_open(&comparison_sweep, &w, attn_pool_slots(pool), arena);
    ATTN_TAKEN(w.lanes, "the comparison of heads", err);
    ATTN_TRY(clear_sums(&w, err));
    for (size_t i = 0; i < a->batches; i++) {
        p.a.batch = p.b.batch = i;
        ATTN_TRY(attn_sweep_run(&comparison_sweep, &w, (p.blocks + p.together - 1) / p.together,
                                p.wave / p.together, pool, control, err));
        finish_distances(&p, &w.parts[p.wave], &w.result[i]);
        clear_part(&p, &w.parts[p.wave]);
    }
    *out = w.result;
    return ATTN_OK;
}
