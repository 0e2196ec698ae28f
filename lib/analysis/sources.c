/* Sources of weights (heatmap.h). The source of an operation computes rows again at each fetch.
 * Derived sources compute rows from those of other sources: weights with a mask, the difference of
 * two sources, gradient x attention, and rollout. attn_head_sums, at the end, sums the cells of a
 * source.
 *
 * A fetch may use the scratch memory of its lane. An attn_sweep describes this memory. It has no
 * function `piece`, since the pieces are those of the sweep that fetches. */
#include <math.h>
#include <string.h>

#include <attn/heatmap.h>

#include "analysis/sums.h"
#include "attention/cells.h"
#include "attn/analysis.h"
#include "base/sweep.h"
#include "base/try.h"

/* Sets *out to `made` with a copy of the struct *work as its ctx. `lanes` is the scratch memory of
 * that struct. Error: ATTN_ENOMEM if `lanes` is NULL, or if there is no memory for the copy. */
static attn_status make_source(attn_weight_source made, const void *work, size_t size,
                               const void *lanes, attn_arena *arena, attn_weight_source *out,
                               attn_error *err) {
    void *copy = attn_arena_small(arena, size);
    ATTN_TAKEN(lanes && copy, "rows of weights", err);
    made.ctx = memcpy(copy, work, size);
    *out = made;
    return ATTN_OK;
}

/* --- weights and scores of an operation that has run --- */

typedef struct run_lane {
    attn_cells_scratch *scratch;
    /* [S] a row of float64 cells before rounding to float32; NULL: the results are float32 */
    double *wide;
} run_lane;

typedef struct run_rows {
    const attn_attention *a;
    const attn_stats *stats;
    attn_stage stage;
    run_lane *lanes;
} run_rows;

/* Computes cells of the stage s->stage. If that is the stage of the weights, also computes their
 * logits. */
static attn_status compute_cells(const run_rows *s, run_lane *l, const attn_range *rows,
                                 void *cells, float *logits, attn_error *err) {
    return s->stage == ATTN_STAGE_PROBS
               ? attn_cells_with_logits(s->a, s->stats, rows, cells, logits, l->scratch, err)
               : attn_attention_cells(s->a, s->stats, rows, s->stage, cells, rows->cols, l->scratch,
                                      err);
}

static attn_status fetch_run_f64(const run_rows *s, run_lane *l, const attn_range *rows,
                                 float *weights, float *logits, attn_error *err) {
    for (size_t r = 0; r < rows->rows; r++) {
        attn_range one = *rows;
        one.row += r;
        one.rows = 1;
        ATTN_TRY(compute_cells(s, l, &one, l->wide, logits + r * rows->cols, err));
        attn_widen_f32(weights + r * rows->cols, l->wide, ATTN_F64, 1, rows->cols);
    }
    return ATTN_OK;
}

/* Sets the logits of n scores, -infinity for hidden cells, and replaces hidden scores by 0. The
 * mask is applied at the stage BIASED; in earlier stages every cell is visible. */
static void mark_scores(attn_stage stage, float *scores, float *logits, size_t n) {
    for (size_t j = 0; j < n; j++) {
        logits[j] = stage < ATTN_STAGE_BIASED ? 0 : scores[j];
        if (logits[j] == -INFINITY)
            scores[j] = 0;
    }
}

static attn_status fetch_run(void *ctx, size_t lane_index, const attn_range *rows, float *weights,
                             float *logits, attn_error *err) {
    const run_rows *s = ctx;
    run_lane *l = &s->lanes[lane_index];
    ATTN_TRY(l->wide ? fetch_run_f64(s, l, rows, weights, logits, err)
                     : compute_cells(s, l, rows, weights, logits, err));
    if (s->stage != ATTN_STAGE_PROBS)
        mark_scores(s->stage, weights, logits, rows->rows * rows->cols);
    return ATTN_OK;
}

static void place_run_lane(const void *work, attn_area *area, void *to) {
    const attn_attention *a = ((const run_rows *)work)->a;
    run_lane *l = to;
    l->scratch = attn_cells_place(area, &a->dims, a->kernels);
    l->wide = a->dims.result == ATTN_F64 ? attn_area_take(area, a->dims.S, sizeof *l->wide) : NULL;
}

static const attn_sweep run_memory = {.lane_size = sizeof(run_lane), .place_lane = place_run_lane};

attn_status attn_attention_source(const attn_attention *a, const attn_stats *stats,
                                  attn_stage stage, size_t lanes, attn_arena *arena,
                                  attn_weight_source *out, attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    run_rows s = {.a = a, .stats = stats, .stage = stage};
    s.lanes = attn_sweep_open(&run_memory, &s, lanes, arena);
    const attn_weight_source made = {.batches = d->B,
                                     .heads = stage == ATTN_STAGE_PROBS ? d->Ho : d->Hq,
                                     .rows = d->L,
                                     .cols = d->S,
                                     .has_logits = true,
                                     .not_softmax = d->normalizer || d->factors,
                                     .has_negative = stage == ATTN_STAGE_PROBS && d->factors,
                                     .fetch = fetch_run};
    return make_source(made, &s, sizeof s, s.lanes, arena, out, err);
}

/* --- weights with a mask --- */

typedef struct masked {
    const attn_weight_source *inner;
    const attn_mask *mask;
    uint8_t **lanes; /* [lanes][S] which keys a row sees */
} masked;

static attn_status fetch_masked(void *ctx, size_t lane, const attn_range *at, float *weights,
                                float *logits, attn_error *err) {
    const masked *m = ctx;
    ATTN_TRY(m->inner->fetch(m->inner->ctx, lane, at, weights, logits, err));
    for (size_t r = 0; r < at->rows; r++) {
        uint8_t *keep = m->lanes[lane];
        float *w = weights + r * at->cols, *l = logits + r * at->cols;
        attn_mask_keep(m->mask, attn_repeated_entry(at->batch, attn_mask_batches(m->mask)),
                       at->head, at->row + r, at->col, at->cols, keep);
        for (size_t j = 0; j < at->cols; j++) {
            /* -200 takes the place of ln 0; e^-200 is 0 in float32 */
            l[j] = !keep[j] ? -INFINITY : w[j] > 0 ? logf(w[j]) : -200.0f;
            w[j] = keep[j] ? w[j] : 0;
        }
    }
    return ATTN_OK;
}

static void place_keep(const void *work, attn_area *area, void *to) {
    *(uint8_t **)to = attn_area_take(area, ((const masked *)work)->inner->cols, 1);
}

static const attn_sweep masked_memory = {.lane_size = sizeof(uint8_t *), .place_lane = place_keep};

attn_status attn_masked_source(const attn_weight_source *source, const attn_mask *mask,
                               size_t lanes, attn_arena *arena, attn_weight_source *out,
                               attn_error *err) {
    masked m = {.inner = source, .mask = mask};
    attn_weight_source made = *source;
    m.lanes = attn_sweep_open(&masked_memory, &m, lanes, arena);
    made.has_logits = true;
    made.not_softmax = false;
    made.fetch = fetch_masked;
    return make_source(made, &m, sizeof m, m.lanes, arena, out, err);
}

/* --- differences --- */

typedef struct difference {
    const attn_weight_source *a, *b;
    size_t room;   /* largest number of weights of b that a lane holds */
    float **lanes; /* [lanes] weights of b, then its logits, `room` floats each */
} difference;

/* Fetches rows of a - b, as many at a time as the scratch memory holds. */
static attn_status fetch_difference(void *ctx, size_t lane, const attn_range *at, float *weights,
                                    float *logits, attn_error *err) {
    const difference *d = ctx;
    float *other = d->lanes[lane], *hidden = other + d->room;
    const bool both = d->a->has_logits && d->b->has_logits;
    size_t most = at->cols ? d->room / at->cols : at->rows;
    ATTN_TRY(d->a->fetch(d->a->ctx, lane, at, weights, logits, err));
    for (size_t r = 0, n; r < at->rows; r += n) {
        n = at->rows - r < most ? at->rows - r : most;
        attn_range part = *at;
        part.row += r;
        part.rows = n;
        ATTN_TRY(d->b->fetch(d->b->ctx, lane, &part, other, hidden, err));
        float *w = weights + r * at->cols, *l = logits + r * at->cols;
        for (size_t k = 0; k < n * at->cols; k++) {
            w[k] -= other[k];
            if (both)
                l[k] = l[k] == -INFINITY && hidden[k] == -INFINITY ? -INFINITY : 0;
        }
    }
    return ATTN_OK;
}

/* Sets *out to the padding of both sources together: a row is padding if it is padding in either
 * source. *out is NULL if neither source has padding. Returns false if memory runs out. */
static bool join_padding(const attn_weight_source *a, const attn_weight_source *b,
                         attn_arena *arena, const attn_padding **out) {
    *out = a->padding ? a->padding : b->padding;
    if (!a->padding || !b->padding)
        return true;
    attn_padding *all = attn_arena_zeroed(arena, a->batches, sizeof *all);
    for (size_t i = 0; all && i < a->batches; i++) {
        uint8_t *rows = attn_arena_zeroed(arena, a->rows, 1);
        for (size_t r = 0; rows && r < a->rows; r++)
            rows[r] = attn_row_is_padding(a, i, r) || attn_row_is_padding(b, i, r);
        all[i] = (attn_padding){rows, a->padding[i].cols};
        if (!rows)
            return false;
    }
    *out = all;
    return all != NULL;
}

static void place_other(const void *work, attn_area *area, void *to) {
    *(float **)to = attn_area_take(area, ((const difference *)work)->room, 2 * sizeof(float));
}

static const attn_sweep difference_memory = {.lane_size = sizeof(float *),
                                             .place_lane = place_other};

attn_status attn_difference_source(const attn_weight_source *a, const attn_weight_source *b,
                                   size_t lanes, attn_arena *arena, attn_weight_source *out,
                                   attn_error *err) {
    if (a->batches != b->batches || a->heads != b->heads || a->rows != b->rows ||
        a->cols != b->cols)
        return attn_fail(err, ATTN_ESHAPE, "",
                         "[%zu, %zu, %zu, %zu] and [%zu, %zu, %zu, %zu] have no difference: batch "
                         "entries, heads, queries and keys must be equal",
                         a->batches, a->heads, a->rows, a->cols, b->batches, b->heads, b->rows,
                         b->cols);
    const size_t rows = attn_within((1 << 18) / (a->cols | 1), 1, a->rows | 1);
    difference d = {.a = a, .b = b, .room = rows * a->cols};
    attn_weight_source made = *a;
    made.has_logits = a->has_logits && b->has_logits;
    made.not_softmax = a->not_softmax || b->not_softmax;
    made.fetch = fetch_difference;
    d.lanes = attn_sweep_open(&difference_memory, &d, lanes, arena);
    if (d.lanes && !join_padding(a, b, arena, &made.padding))
        d.lanes = NULL;
    return make_source(made, &d, sizeof d, d.lanes, arena, out, err);
}

/* --- gradient x attention: for O = A V, the gradient of weight A_ij is the dot product of row i of
 * the output's gradient and value j --- */

enum { GRADIENT_ROWS = 16 }; /* rows of the output's gradient that are widened to double together */

typedef struct gradient {
    const attn_weight_source *inner;
    attn_tensor grad, value;
    attn_gradient_kind kind;
    size_t group;   /* query heads for each key/value head */
    double **lanes; /* [lanes] GRADIENT_ROWS rows of grad, then one of value */
} gradient;

static const void *row_of(const attn_tensor *t, size_t b, size_t h, size_t i) {
    size_t at = ((b * t->dims[1] + h) * t->dims[2] + i) * t->dims[3];
    return (const char *)t->data + at * attn_dtype_size(t->dtype);
}

static float gradient_cell(const gradient *g, double d, float weight) {
    double product = d * (double)weight;
    switch (g->kind) {
    case ATTN_GRADIENT_PRODUCT:
        return (float)product;
    case ATTN_GRADIENT_POSITIVE:
        return (float)fmax(product, 0);
    default:
        return (float)d;
    }
}

/* Computes the cells of `rows` <= GRADIENT_ROWS rows, beginning with row `first` of the range. */
static void fill_gradient(const gradient *g, const attn_range *at, size_t first, size_t rows,
                          double *scratch, float *weights, const float *logits) {
    const size_t E = g->grad.dims[3];
    double *v = scratch + GRADIENT_ROWS * E;
    for (size_t r = 0; r < rows; r++)
        attn_widen_f64(scratch + r * E, row_of(&g->grad, at->batch, at->head, at->row + first + r),
                       g->grad.dtype, 1, E);
    for (size_t j = 0; j < at->cols; j++) {
        attn_widen_f64(v, row_of(&g->value, at->batch, at->head / g->group, at->col + j),
                       g->value.dtype, 1, E);
        for (size_t r = 0; r < rows; r++) {
            size_t k = (first + r) * at->cols + j;
            bool hidden = g->inner->has_logits && logits[k] == -INFINITY;
            weights[k] = hidden ? 0 : gradient_cell(g, attn_dot(scratch + r * E, v, E), weights[k]);
        }
    }
}

static attn_status fetch_gradient(void *ctx, size_t lane, const attn_range *at, float *weights,
                                  float *logits, attn_error *err) {
    const gradient *g = ctx;
    ATTN_TRY(g->inner->fetch(g->inner->ctx, lane, at, weights, logits, err));
    for (size_t first = 0; first < at->rows; first += GRADIENT_ROWS)
        fill_gradient(g, at, first,
                      at->rows - first < GRADIENT_ROWS ? at->rows - first : GRADIENT_ROWS,
                      g->lanes[lane], weights, logits);
    return ATTN_OK;
}

static void place_gradient(const void *work, attn_area *area, void *to) {
    *(double **)to = attn_area_take(area, ((const gradient *)work)->grad.dims[3],
                                    (GRADIENT_ROWS + 1) * sizeof(double));
}

static const attn_sweep gradient_memory = {.lane_size = sizeof(double *),
                                           .place_lane = place_gradient};

static bool dims_fit(const attn_tensor *t, size_t B, size_t H, size_t n) {
    return t->rank == 4 && t->dims[0] == B && t->dims[1] == H && t->dims[2] == n &&
           attn_tensor_is_dense(t);
}

attn_status attn_gradient_source(const attn_weight_source *source, const attn_tensor *grad_output,
                                 const attn_tensor *value, attn_gradient_kind kind, size_t lanes,
                                 attn_arena *arena, attn_weight_source *out, attn_error *err) {
    char shape[128];
    if ((unsigned)kind > ATTN_GRADIENT_POSITIVE)
        return attn_fail(err, ATTN_EARG, "kind", "there is no kind of the number %d", (int)kind);
    if (!dims_fit(grad_output, source->batches, source->heads, source->rows))
        return attn_fail(err, ATTN_ESHAPE, "grad_output",
                         "expected [%zu, %zu, %zu, Ev] as the output has, found %s",
                         source->batches, source->heads, source->rows,
                         attn_found_text(grad_output, shape, sizeof shape));
    size_t kv = value->rank == 4 ? value->dims[1] : 0;
    const bool divides = kv ? source->heads % kv == 0 : source->heads == 0;
    if (!divides || !dims_fit(value, source->batches, kv, source->cols) ||
        value->dims[3] != grad_output->dims[3])
        return attn_fail(err, ATTN_ESHAPE, "value",
                         "expected [%zu, Hkv, %zu, %zu] with Hkv a divisor of %zu, found %s",
                         source->batches, source->cols, grad_output->dims[3], source->heads,
                         attn_found_text(value, shape, sizeof shape));
    gradient g = {.inner = source,
                  .grad = *grad_output,
                  .value = *value,
                  .kind = kind,
                  .group = kv ? source->heads / kv : 1};
    attn_weight_source made = *source;
    made.fetch = fetch_gradient;
    g.lanes = attn_sweep_open(&gradient_memory, &g, lanes, arena);
    return make_source(made, &g, sizeof g, g.lanes, arena, out, err);
}

/* --- rollout (Abnar and Zuidema 2020): row i of R = M_top ... M_1 is the unit vector e_i times the
 * layers' matrices, from the last layer to the first. The rows of a fetch are computed in chunks. A
 * chunk needs two buffers of its size and some rows of one layer, but no whole matrix --- */

enum {
    CHUNK_BYTES = 1 << 20, /* limit for the rows of a chunk, bytes */
    CHUNK_LEAST = 8,       /* fewest rows of a chunk, even if they exceed CHUNK_BYTES */
    LAYER_ROWS = 64,       /* rows of a layer that are averaged over heads together */
};

typedef struct rollout_lane {
    double *x, *y;           /* [chunk, S] rows before and after a layer */
    double *layer;           /* [LAYER_ROWS, S] rows of N(mean_h A + I); each row sums to 1 */
    float *weights, *logits; /* [LAYER_ROWS, S] rows of one head */
} rollout_lane;

typedef struct rollout {
    const attn_weight_source *inner;
    size_t layers;
    size_t batches; /* batch entries of each layer */
    size_t chunk;   /* largest number of rows of a chunk */
    size_t S;
    rollout_lane *lanes;
    const attn_control *control;
} rollout;

/* Computes rows [row, row + rows) of the matrix M = N(mean_h A + I) of one layer into l->layer. N
 * divides each row by its sum. */
static attn_status load_layer(const rollout *r, const rollout_lane *l, size_t lane_index,
                              size_t batch, size_t row, size_t rows, attn_error *err) {
    const attn_weight_source *in = r->inner;
    const size_t S = in->cols;
    memset(l->layer, 0, rows * S * sizeof *l->layer);
    for (size_t h = 0; h < in->heads; h++) {
        attn_range at = {.batch = batch, .head = h, .row = row, .rows = rows, .cols = S};
        ATTN_TRY(in->fetch(in->ctx, lane_index, &at, l->weights, l->logits, err));
        for (size_t k = 0; k < rows * S; k++)
            l->layer[k] += (double)l->weights[k];
    }
    for (size_t i = 0; i < rows; i++) {
        double *a = l->layer + i * S;
        for (size_t j = 0; j < S; j++)
            a[j] /= (double)in->heads;
        a[row + i] += 1;
        double sum = attn_sum(a, S);
        for (size_t j = 0; j < S; j++)
            a[j] /= sum;
    }
    return ATTN_OK;
}

/* Computes y = x M, both [rows, S], where M = N(mean_h A + I) is the matrix of one layer
 * (load_layer). */
static attn_status multiply_layer(const rollout *r, const rollout_lane *l, size_t lane_index,
                                  size_t batch, size_t rows, attn_error *err) {
    const size_t S = r->inner->cols;
    memset(l->y, 0, rows * S * sizeof *l->y);
    for (size_t j0 = 0; j0 < S; j0 += LAYER_ROWS) {
        size_t n = S - j0 < LAYER_ROWS ? S - j0 : LAYER_ROWS;
        ATTN_TRY(attn_control_check(r->control, err));
        ATTN_TRY(load_layer(r, l, lane_index, batch, j0, n, err));
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < n; j++) {
                const double x = l->x[i * S + j0 + j], *from = l->layer + j * S;
                double *to = l->y + i * S;
                if (x == 0)
                    continue;
                for (size_t k = 0; k < S; k++)
                    to[k] += x * from[k];
            }
    }
    return ATTN_OK;
}

static attn_status fetch_rollout(void *ctx, size_t lane_index, const attn_range *at, float *weights,
                                 float *logits, attn_error *err) {
    const rollout *r = ctx;
    rollout_lane l = r->lanes[lane_index];
    const size_t S = r->inner->cols;
    (void)logits;
    for (size_t from = 0; from < at->rows; from += r->chunk) {
        size_t rows = at->rows - from < r->chunk ? at->rows - from : r->chunk;
        memset(l.x, 0, rows * S * sizeof *l.x);
        for (size_t i = 0; i < rows; i++)
            l.x[i * S + at->row + from + i] = 1;
        for (size_t layer = r->layers; layer-- > 0;) {
            ATTN_TRY(multiply_layer(r, &l, lane_index, layer * r->batches + at->batch, rows, err));
            double *swap = l.x;
            l.x = l.y;
            l.y = swap;
        }
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < at->cols; j++)
                weights[(from + i) * at->cols + j] = (float)l.x[i * S + at->col + j];
    }
    return ATTN_OK;
}

static void place_rollout_lane(const void *work, attn_area *area, void *to) {
    const rollout *r = work;
    rollout_lane *l = to;
    l->x = attn_area_take_3(area, r->chunk, r->S, 1, sizeof *l->x);
    l->y = attn_area_take_3(area, r->chunk, r->S, 1, sizeof *l->y);
    l->layer = attn_area_take_3(area, LAYER_ROWS, r->S, 1, sizeof *l->layer);
    l->weights = attn_area_take_3(area, LAYER_ROWS, r->S, 1, sizeof *l->weights);
    l->logits = attn_area_take_3(area, LAYER_ROWS, r->S, 1, sizeof *l->logits);
}

static const attn_sweep rollout_memory = {.lane_size = sizeof(rollout_lane),
                                          .place_lane = place_rollout_lane};

static size_t chunk_of(size_t rows, size_t S) {
    const size_t chunk = CHUNK_BYTES / sizeof(double) / (S | 1);
    const size_t least = chunk < CHUNK_LEAST ? CHUNK_LEAST : chunk;
    return least > rows ? rows | 1 : least;
}

void attn_rollout_cost(size_t layers, size_t batches, size_t heads, size_t S, size_t lanes,
                       attn_cost *out) {
    rollout r = {.chunk = chunk_of(S, S), .S = S};
    const attn_area counted = attn_sweep_count(&rollout_memory, &r, lanes);
    const double size = (double)S;
    /* Each chunk of rows computes all layers again: the mean of the heads, and a product. */
    const double layer = size * size * (2 * size + (double)heads * (size / LAYER_ROWS + 1));
    *out = (attn_cost){.operations = (double)layers * (double)batches * layer,
                       .work_bytes = counted.overflow ? SIZE_MAX / 2 : counted.used};
}

attn_status attn_rollout_source(const attn_weight_source *source, size_t layers, size_t lanes,
                                const attn_control *control, attn_arena *arena,
                                attn_weight_source *out, attn_error *err) {
    if (source->rows != source->cols)
        return attn_fail(err, ATTN_ESHAPE, "weights",
                         "rollout multiplies layers: expected as many queries as keys, found %zu "
                         "and %zu",
                         source->rows, source->cols);
    if (source->heads == 0)
        return attn_fail(err, ATTN_ESHAPE, "weights", "a rollout needs at least one head");
    if (layers == 0)
        return attn_fail(err, ATTN_ESHAPE, "weights", "a rollout needs at least one layer");
    if (source->batches % layers)
        return attn_fail(err, ATTN_ESHAPE, "weights",
                         "%zu batch entries are not those of %zu layers", source->batches, layers);
    rollout r = {.inner = source,
                 .layers = layers,
                 .batches = source->batches / layers,
                 .chunk = chunk_of(source->rows, source->cols),
                 .S = source->cols,
                 .control = control};
    const attn_weight_source made = {.batches = r.batches,
                                     .heads = 1,
                                     .rows = source->rows,
                                     .cols = source->cols,
                                     .fetch = fetch_rollout,
                                     .padding = source->padding};
    r.lanes = attn_sweep_open(&rollout_memory, &r, lanes, arena);
    return make_source(made, &r, sizeof r, r.lanes, arena, out, err);
}

/* --- sums --- */

typedef struct summing {
    const attn_weight_source *source;
    size_t block;  /* rows that are fetched together */
    float **lanes; /* [lanes] weights of a block, then its logits */
    attn_head_sum *heads;
} summing;

static void add_row_sum(const float *w, size_t n, size_t row, attn_head_sum *out) {
    for (size_t j = 0; j < n; j++) {
        const double cell = (double)w[j];
        out->sum += cell;
        out->magnitude += fabs(cell);
        if (fabs(cell) > fabs(out->largest)) {
            out->largest = cell;
            out->row = row;
            out->col = j;
        }
    }
    out->rows++;
}

/* Sums the cells of one head, row by row. */
static attn_status sum_head(void *work, size_t index, size_t lane, attn_error *err) {
    const summing *s = work;
    const attn_weight_source *from = s->source;
    float *w = s->lanes[lane];
    attn_head_sum *out = &s->heads[index];
    for (size_t row = 0; row < from->rows; row += s->block) {
        size_t n = from->rows - row < s->block ? from->rows - row : s->block;
        attn_range at = {.batch = index / from->heads,
                         .head = index % from->heads,
                         .row = row,
                         .rows = n,
                         .cols = from->cols};
        ATTN_TRY(from->fetch(from->ctx, lane, &at, w, w + s->block * from->cols, err));
        for (size_t r = 0; r < n; r++)
            if (!attn_row_is_padding(from, at.batch, row + r))
                add_row_sum(w + r * from->cols, from->cols, row + r, out);
    }
    return ATTN_OK;
}

static void place_sum_lane(const void *work, attn_area *area, void *to) {
    const summing *s = work;
    *(float **)to = attn_area_take_3(area, s->block, s->source->cols, 1, 2 * sizeof(float));
}

static void place_head_sums(void *work, attn_area *area) {
    summing *s = work;
    s->heads = attn_area_take_3(area, s->source->batches, s->source->heads, 1, sizeof *s->heads);
}

static const attn_sweep summing_heads = {sizeof(float *), place_sum_lane, place_head_sums, sum_head,
                                         NULL};

attn_status attn_head_sums(const attn_weight_source *source, attn_pool *pool,
                           const attn_control *control, attn_arena *arena, attn_head_sum **out,
                           attn_error *err) {
    const size_t heads = source->batches * source->heads;
    summing s = {.source = source,
                 .block = attn_within((1 << 16) / (source->cols | 1), 1, source->rows | 1)};
    s.lanes = attn_sweep_open(&summing_heads, &s, attn_pool_slots(pool), arena);
    ATTN_TAKEN(s.lanes, "the sums of heads", err);
    memset(s.heads, 0, heads * sizeof *s.heads);
    ATTN_TRY(attn_sweep_run(&summing_heads, &s, heads, 0, pool, control, err));
    *out = s.heads;
    return ATTN_OK;
}
