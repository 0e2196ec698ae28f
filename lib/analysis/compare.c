/* Computes distances between the heads of one source or of two sources.
 *
 * A piece of work is a block of rows. It fetches these rows of all heads and adds each row to the
 * sums of every pair of heads. The pool computes a wave of several blocks; then their sums are
 * merged in block order, so results do not depend on threads. Memory holds the sums of one wave and
 * some rows of each head, but no matrix. */
#include <math.h>
#include <string.h>

#include "analysis/sums.h"
#include "attn/analysis.h"

enum {
    BLOCK_PRODUCTS = 1 << 19, /* pairs x keys in a block of rows, whose sums are added alone */
    PIECE_ROWS = 16,          /* rows of a piece, at most, unless a block has more: each fetch packs
                                 all keys of a run anew */
    LANE_BYTES = 8 << 20,     /* limit for the fetched rows of a thread, bytes */
    WAVE_BYTES = 8 << 20,     /* limit for the sums of a wave, bytes */
    WAVE_LEAST = 8,           /* blocks in a wave, at least and at most */
    WAVE_MOST = 64,
};

/* One of the two sources with its mask. */
typedef struct side {
    const attn_weight_source *source;
    const attn_mask *mask;
    size_t batch, heads; /* batch: the batch entry that is compared */
} side;

/* What follows from the sizes of the sources. */
typedef struct plan {
    side a, b;          /* b.source = NULL: pairs g < h of the heads of a */
    size_t heads, L, S; /* heads of both sources together; queries and keys of each */
    size_t pairs;       /* number of pairs of heads */
    size_t block;       /* number of rows whose sums are added alone */
    size_t blocks;      /* number of blocks in all */
    size_t together;    /* number of blocks in a piece of work, whose rows are fetched together */
    size_t wave;        /* number of blocks whose sums are in memory together, of whole pieces */
} plan;

/* Sums over the rows of a block, for a pair of heads and for one head. */
typedef struct pair_sums {
    /* sums of js; of p_g . p_h; of the same after uniform attention is subtracted */
    double js, dot, centered;
    uint64_t rows; /* rows in which both heads hold weight */
} pair_sums;
typedef struct head_sums {
    double square, centered; /* sums of squares of p, and of p minus uniform attention */
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

/* Scratch memory of one thread. p, centered and q have one row of every head: the weights p, p
 * minus uniform attention, and p divided by its sum. */
typedef struct lane {
    float *weights, *logits;  /* [heads, rows, S], [rows, S] of a piece */
    uint8_t *visible;         /* [heads, rows, S] */
    double *p, *centered, *q; /* [heads, S] */
    double *order;            /* [heads] sum of q ln q; NaN: the row has no weight */
    size_t *from, *to;        /* [heads] all visible keys are in [from, to) */
} lane;

typedef struct work {
    const plan *plan;
    lane *lanes;
    part *parts;
    size_t first;
} work;

static plan make_plan(size_t heads_a, size_t heads_b, size_t L, size_t S) {
    plan p = {.heads = heads_a + heads_b, .L = L, .S = S};
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
    return p;
}

attn_status attn_head_distances_cost(size_t batches, size_t heads_a, size_t heads_b, size_t L,
                                     size_t S, size_t slots, attn_cost *out, attn_error *err) {
    plan p = make_plan(heads_a, heads_b, L, S);
    const double heads = (double)p.heads, keys = (double)S, pairs = (double)p.pairs;
    const double cols = heads_b ? (double)heads_b : (double)heads_a;
    const double rows = (double)rows_of(&p);
    double a_lane = heads * rows * keys * (sizeof(float) + 1) + rows * keys * sizeof(float) +
                    3 * heads * keys * sizeof(double) + heads * sizeof(double) + sizeof(lane) +
                    2 * heads * sizeof(size_t) + 10 * ATTN_ALIGN;
    double a_part = pairs * sizeof(pair_sums) + heads * sizeof(head_sums) + 3 * ATTN_ALIGN;
    double scratch = a_lane * (double)slots + a_part * (double)(p.wave + 1);
    double result = (double)batches * ((double)heads_a * cols * 3 * sizeof(double) +
                                       sizeof(attn_head_distances) + 3 * ATTN_ALIGN);
    double products = (double)batches * pairs * (double)L * keys;
    if (scratch > (double)(SIZE_MAX / 4) || result > (double)(SIZE_MAX / 4))
        return attn_fail(err, ATTN_ELIMIT, "", "too many heads to compare");
    /* 32 operations for each pair of heads and cell: a logarithm and three products */
    *out = (attn_cost){.cells = products,
                       .operations = 32 * products,
                       .work_bytes = (size_t)scratch,
                       .result_bytes = (size_t)result};
    return ATTN_OK;
}

/* --- a row --- */

static void find_visible(const side *s, const float *logits, size_t head, size_t row, size_t S,
                         uint8_t *visible) {
    if (s->source->has_logits)
        attn_find_logits(logits, S, visible);
    else if (s->mask)
        attn_mask_keep(s->mask, s->batch % attn_mask_batches(s->mask), head, row, 0, S, visible);
    else
        memset(visible, 1, S);
}

static attn_status load_side(const plan *p, const side *s, lane *l, size_t lane_index, size_t at,
                             size_t row, size_t rows, attn_error *err) {
    const size_t each = rows_of(p) * p->S;
    for (size_t h = 0; h < s->heads; h++) {
        attn_range range = {.batch = s->batch, .head = h, .row = row, .rows = rows, .cols = p->S};
        attn_status status = s->source->fetch(s->source->ctx, lane_index, &range,
                                              l->weights + (at + h) * each, l->logits, err);
        if (status)
            return status;
        for (size_t r = 0; r < rows; r++)
            find_visible(s, l->logits + r * p->S, h, row + r, p->S,
                         l->visible + (at + h) * each + r * p->S);
    }
    return ATTN_OK;
}

/* Computes p, centered and q of row r of the piece, for head h, and adds their squares to *sums. */
static void take_row(const plan *p, const lane *l, size_t h, size_t r, head_sums *sums) {
    const size_t S = p->S, from = (h * rows_of(p) + r) * S;
    const float *w = l->weights + from;
    const uint8_t *visible = l->visible + from;
    double *row = l->p + h * S, *centered = l->centered + h * S, *q = l->q + h * S;
    const attn_pointwise *rows = attn_pointwise_current();
    size_t seen = 0;
    rows->widen_visible(row, w, visible, S);
    for (size_t j = 0; j < S; j++)
        seen += visible[j];
    attn_find_span(visible, S, &l->from[h], &l->to[h]);
    double mass = attn_sum(row, S), uniform = seen ? 1 / (double)seen : 0;
    l->order[h] = NAN;
    if (!(mass > 0) || isinf(mass)) {
        memset(row, 0, S * sizeof *row);
        memset(centered, 0, S * sizeof *centered);
        return;
    }
    rows->centre(centered, q, row, visible, uniform, mass, S);
    l->order[h] = attn_sum_xlnx(q, S);
    sums->square += attn_dot(row, row, S);
    sums->centered += attn_dot(centered, centered, S);
}

static void add_pair(const plan *p, const lane *l, size_t g, size_t h, pair_sums *sums) {
    const size_t S = p->S;
    if (isnan(l->order[g]) || isnan(l->order[h]))
        return;
    const size_t from = l->from[g] < l->from[h] ? l->from[g] : l->from[h];
    const size_t to = l->to[g] > l->to[h] ? l->to[g] : l->to[h], n = to - from;
    const size_t x = g * S + from, y = h * S + from;
    double js = 0.5 * (l->order[g] + l->order[h]) - attn_mix_xlnx(l->q + x, l->q + y, n);
    sums->js += js > 0 ? js : 0; /* for equal rows, rounding can make it negative */
    sums->rows++;
    sums->dot += attn_dot(l->p + x, l->p + y, n);
    sums->centered += attn_dot(l->centered + x, l->centered + y, n);
}

static attn_status piece(void *ctx, size_t index, size_t lane_index, attn_error *err) {
    const work *w = ctx;
    const plan *p = w->plan;
    lane *l = &w->lanes[lane_index];
    part *sums = &w->parts[index * p->together];
    size_t row = (w->first + index * p->together) * p->block;
    size_t rows = p->L - row < rows_of(p) ? p->L - row : rows_of(p);
    attn_status status = load_side(p, &p->a, l, lane_index, 0, row, rows, err);
    if (!status && p->b.source)
        status = load_side(p, &p->b, l, lane_index, p->a.heads, row, rows, err);
    for (size_t r = 0; !status && r < rows; r++) {
        part *own = &sums[r / p->block];
        pair_sums *at = own->pairs;
        for (size_t h = 0; h < p->heads; h++)
            take_row(p, l, h, r, &own->heads[h]);
        for (size_t g = 0; g < p->a.heads; g++)
            for (size_t h = p->b.source ? p->a.heads : g + 1; h < p->heads; h++)
                add_pair(p, l, g, h, at++);
    }
    return status;
}

/* --- memory, merging, result --- */

static bool take_lane(const plan *p, attn_arena *arena, lane *l) {
    const size_t each = p->heads * rows_of(p) * p->S, rows = p->heads * p->S;
    *l = (lane){.weights = attn_arena_zeroed(arena, each, sizeof(float)),
                .logits = attn_arena_zeroed(arena, rows_of(p) * p->S, sizeof(float)),
                .visible = attn_arena_zeroed(arena, each, 1),
                .p = attn_arena_zeroed(arena, rows, sizeof(double)),
                .centered = attn_arena_zeroed(arena, rows, sizeof(double)),
                .q = attn_arena_zeroed(arena, rows, sizeof(double)),
                .order = attn_arena_zeroed(arena, p->heads, sizeof(double)),
                .from = attn_arena_zeroed(arena, p->heads, sizeof(size_t)),
                .to = attn_arena_zeroed(arena, p->heads, sizeof(size_t))};
    return l->weights && l->logits && l->visible && l->p && l->centered && l->q && l->order &&
           l->from && l->to;
}

static void *take_many(attn_arena *arena, size_t count, size_t size) {
    size_t bytes;
    return attn_size_mul(count, size, &bytes) ? attn_arena_take(arena, bytes) : NULL;
}

static bool take_work(work *w, size_t slots, attn_arena *arena) {
    const plan *p = w->plan;
    w->lanes = attn_arena_zeroed(arena, slots, sizeof *w->lanes);
    w->parts = attn_arena_zeroed(arena, p->wave + 1, sizeof *w->parts);
    if (!w->lanes || !w->parts)
        return false;
    for (size_t i = 0; i < slots; i++)
        if (!take_lane(p, arena, &w->lanes[i]))
            return false;
    for (size_t i = 0; i <= p->wave; i++) {
        w->parts[i].pairs = take_many(arena, p->pairs, sizeof(pair_sums));
        w->parts[i].heads = take_many(arena, p->heads, sizeof(head_sums));
        if (!w->parts[i].pairs || !w->parts[i].heads)
            return false;
    }
    return true;
}

static void clear(const plan *p, part *sums) {
    memset(sums->pairs, 0, p->pairs * sizeof *sums->pairs);
    memset(sums->heads, 0, p->heads * sizeof *sums->heads);
}

/* Sets all sums to 0. With many heads these are gigabytes, so `control` is checked between
 * blocks. */
static attn_status clear_work(const work *w, const attn_control *control, attn_error *err) {
    const plan *p = w->plan;
    attn_status status = ATTN_OK;
    for (size_t i = 0; i <= p->wave && !status; i++) {
        clear(p, &w->parts[i]);
        status = attn_control_check(control, err);
    }
    return status;
}

static void merge(const plan *p, part *to, const part *from) {
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

static double over(double dot, double a, double b) {
    double length = sqrt(a) * sqrt(b), cosine = dot / length;
    return length > 0 ? (cosine > 1 ? 1 : cosine < -1 ? -1 : cosine) : NAN;
}

/* Mean squares below this are rounding differences from uniform attention. */
#define NOTHING 1e-12

static double over_centered(double dot, double a, double b, size_t L) {
    return a > NOTHING * (double)L && b > NOTHING * (double)L ? over(dot, a, b) : NAN;
}

static double mean(double sum, size_t n) {
    return n ? sum / (double)n : NAN;
}

static void finish(const plan *p, const part *all, attn_head_distances *out) {
    const pair_sums *at = all->pairs;
    double sums[3] = {0};
    size_t counts[3] = {0};
    for (size_t g = 0; g < p->a.heads; g++)
        for (size_t h = p->b.source ? p->a.heads : g + 1; h < p->heads; h++, at++) {
            const head_sums *x = &all->heads[g], *y = &all->heads[h];
            double *const planes[] = {out->js, out->cosine, out->centered};
            const double values[] = {mean(at->js, at->rows), over(at->dot, x->square, y->square),
                                     over_centered(at->centered, x->centered, y->centered, p->L)};
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
    out->mean_js = mean(sums[0], counts[0]);
    out->mean_cosine = mean(sums[1], counts[1]);
    out->mean_centered = mean(sums[2], counts[2]);
}

static bool take_result(attn_arena *arena, attn_head_distances *d) {
    const size_t n = d->rows * d->cols;
    d->js = attn_arena_zeroed(arena, n, sizeof(double));
    d->cosine = attn_arena_zeroed(arena, n, sizeof(double));
    d->centered = attn_arena_zeroed(arena, n, sizeof(double));
    return d->js && d->cosine && d->centered;
}

/* Computes the distances of one batch entry. All sums must be 0 before, and are 0 again
 * afterwards. */
static attn_status measure(work *w, attn_pool *pool, const attn_control *control,
                           attn_head_distances *out, attn_error *err) {
    const plan *p = w->plan;
    part *all = &w->parts[p->wave];
    attn_status status = ATTN_OK;
    for (w->first = 0; !status && w->first < p->blocks; w->first += p->wave) {
        size_t count = p->blocks - w->first < p->wave ? p->blocks - w->first : p->wave;
        status =
            attn_pool_run(pool, (count + p->together - 1) / p->together, piece, w, control, err);
        for (size_t i = 0; !status && i < count; i++) {
            merge(p, all, &w->parts[i]);
            clear(p, &w->parts[i]);
        }
        attn_control_tell(control, out->batch * p->blocks + w->first + count,
                          p->a.source->batches * p->blocks);
    }
    finish(p, all, out);
    clear(p, all);
    return status;
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
    plan p = make_plan(a->heads, b ? b->heads : 0, a->rows, a->cols);
    p.a = (side){a, mask_a, 0, a->heads};
    p.b = (side){b, mask_b, 0, b ? b->heads : 0};
    work w = {.plan = &p};
    attn_head_distances *all = attn_arena_zeroed(arena, a->batches, sizeof *all);
    bool ok = all && take_work(&w, attn_pool_slots(pool), arena);
    attn_status status = ok ? clear_work(&w, control, err) : ATTN_OK;
    for (size_t i = 0; ok && !status && i < a->batches; i++) {
        p.a.batch = p.b.batch = i;
        all[i] =
            (attn_head_distances){.batch = i, .rows = a->heads, .cols = b ? b->heads : a->heads};
        ok = take_result(arena, &all[i]);
        if (ok)
            status = measure(&w, pool, control, &all[i], err);
    }
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory to compare %zu heads", p.heads);
    if (!status)
        *out = all;
    return status;
}
