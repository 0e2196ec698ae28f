/* Sources of weights (heatmap.h). The source of an operation computes rows again at each fetch.
 * Derived sources compute rows from those of other sources: weights with a mask, the difference of
 * two sources, gradient x attention, and rollout. attn_head_sums, at the end, sums the cells of a
 * source. A lane is the number of the scratch memory that a fetch may use. */
#include <math.h>
#include <string.h>

#include <attn/heatmap.h>

#include "analysis/sums.h"
#include "attention/cells.h"
#include "attn/analysis.h"

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

/* Computes cells of the stage and, for weights, their logits. */
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
        attn_status status = compute_cells(s, l, &one, l->wide, logits + r * rows->cols, err);
        if (status != ATTN_OK)
            return status;
        attn_widen_f32(weights + r * rows->cols, l->wide, ATTN_F64, 1, rows->cols);
    }
    return ATTN_OK;
}

/* Sets the logits of n scores, which tell hidden cells, and replaces hidden scores by 0. Before the
 * mask, which comes with the stage BIASED, every cell is visible. */
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
    const attn_status status = l->wide ? fetch_run_f64(s, l, rows, weights, logits, err)
                                       : compute_cells(s, l, rows, weights, logits, err);
    if (status == ATTN_OK && s->stage != ATTN_STAGE_PROBS)
        mark_scores(s->stage, weights, logits, rows->rows * rows->cols);
    return status;
}

attn_status attn_attention_source(const attn_attention *a, const attn_stats *stats,
                                  attn_stage stage, size_t lanes, attn_arena *arena,
                                  attn_weight_source *out, attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    run_rows *s = attn_arena_small(arena, sizeof *s);
    bool ok = s != NULL;
    if (ok) {
        *s = (run_rows){a, stats, stage, attn_arena_zeroed(arena, lanes, sizeof *s->lanes)};
        ok = s->lanes != NULL;
    }
    for (size_t i = 0; ok && i < lanes; i++) {
        s->lanes[i].scratch = attn_cells_scratch_new(a, arena);
        ok = s->lanes[i].scratch != NULL;
        if (ok && d->result == ATTN_F64)
            ok = (s->lanes[i].wide = attn_arena_zeroed(arena, d->S, sizeof(double))) != NULL;
    }
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the heatmap's rows");
    *out = (attn_weight_source){.batches = d->B,
                                .heads = d->Hq,
                                .rows = d->L,
                                .cols = d->S,
                                .has_logits = true,
                                .fetch = fetch_run,
                                .ctx = s};
    return ATTN_OK;
}

/* --- weights with a mask --- */

typedef struct masked {
    const attn_weight_source *inner;
    const attn_mask *mask;
    uint8_t **keep; /* [lanes][S] */
} masked;

static attn_status fetch_masked(void *ctx, size_t lane, const attn_range *at, float *weights,
                                float *logits, attn_error *err) {
    const masked *m = ctx;
    attn_status status = m->inner->fetch(m->inner->ctx, lane, at, weights, logits, err);
    for (size_t r = 0; !status && r < at->rows; r++) {
        uint8_t *keep = m->keep[lane];
        float *w = weights + r * at->cols, *l = logits + r * at->cols;
        attn_mask_keep(m->mask, attn_repeated_entry(at->batch, attn_mask_batches(m->mask)),
                       at->head, at->row + r, at->col, at->cols, keep);
        for (size_t j = 0; j < at->cols; j++) {
            /* ln 0 is replaced by -200; e^-200 is 0 in float32 */
            l[j] = !keep[j] ? -INFINITY : w[j] > 0 ? logf(w[j]) : -200.0f;
            w[j] = keep[j] ? w[j] : 0;
        }
    }
    return status;
}

attn_status attn_masked_source(const attn_weight_source *source, const attn_mask *mask,
                               size_t lanes, attn_arena *arena, attn_weight_source *out,
                               attn_error *err) {
    masked *m = attn_arena_small(arena, sizeof *m);
    bool ok = m != NULL;
    if (ok) {
        *m = (masked){source, mask, attn_arena_zeroed(arena, lanes, sizeof *m->keep)};
        ok = m->keep != NULL;
    }
    for (size_t i = 0; ok && i < lanes; i++)
        ok = (m->keep[i] = attn_arena_zeroed(arena, source->cols, 1)) != NULL;
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the mask's rows");
    *out = *source;
    out->has_logits = true;
    out->fetch = fetch_masked;
    out->ctx = m;
    return ATTN_OK;
}

/* --- differences --- */

typedef struct difference {
    const attn_weight_source *a, *b;
    size_t room;     /* floats for the weights of b in a lane */
    float **weights; /* [lanes] weights of b, then its logits, `room` floats each */
} difference;

/* Fetches rows of a - b, as many at a time as the scratch memory holds. */
static attn_status fetch_difference(void *ctx, size_t lane, const attn_range *at, float *weights,
                                    float *logits, attn_error *err) {
    const difference *d = ctx;
    float *other = d->weights[lane], *hidden = other + d->room;
    const bool both = d->a->has_logits && d->b->has_logits;
    size_t most = at->cols ? d->room / at->cols : at->rows;
    attn_status status = d->a->fetch(d->a->ctx, lane, at, weights, logits, err);
    for (size_t r = 0, n; !status && r < at->rows; r += n) {
        n = at->rows - r < most ? at->rows - r : most;
        attn_range part = *at;
        part.row += r;
        part.rows = n;
        status = d->b->fetch(d->b->ctx, lane, &part, other, hidden, err);
        float *w = weights + r * at->cols, *l = logits + r * at->cols;
        for (size_t k = 0; !status && k < n * at->cols; k++) {
            w[k] -= other[k];
            if (both)
                l[k] = l[k] == -INFINITY && hidden[k] == -INFINITY ? -INFINITY : 0;
        }
    }
    return status;
}

/* Sets *out to the padding of either source; NULL: neither has any. false: out of memory. */
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
    difference *d = attn_arena_small(arena, sizeof *d);
    bool ok = d != NULL;
    if (ok) {
        size_t rows = (1 << 18) / (a->cols | 1);
        rows = rows < 1 ? 1 : rows > a->rows ? a->rows | 1 : rows;
        *d =
            (difference){a, b, rows * a->cols, attn_arena_zeroed(arena, lanes, sizeof *d->weights)};
        ok = d->weights != NULL;
    }
    for (size_t i = 0; ok && i < lanes; i++)
        ok = (d->weights[i] = attn_arena_zeroed(arena, d->room, 2 * sizeof(float))) != NULL;
    const attn_padding *padding = NULL;
    if (!ok || !join_padding(a, b, arena, &padding))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the rows of the second operand");
    *out = *a;
    out->has_logits = a->has_logits && b->has_logits;
    out->padding = padding;
    out->fetch = fetch_difference;
    out->ctx = d;
    return ATTN_OK;
}

/* --- gradient x attention: for O = A V, the gradient of weight A_ij is the dot product of row i of
 * the output's gradient and value j --- */

enum { GRADIENT_ROWS = 16 }; /* rows of the output's gradient that are widened to double together */

typedef struct gradient {
    const attn_weight_source *inner;
    attn_tensor grad, value;
    attn_gradient_kind kind;
    size_t group;  /* query heads for each key/value head */
    double **rows; /* [lanes] GRADIENT_ROWS rows of grad, then one of value */
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
    attn_status status = g->inner->fetch(g->inner->ctx, lane, at, weights, logits, err);
    for (size_t first = 0; !status && first < at->rows; first += GRADIENT_ROWS)
        fill_gradient(g, at, first,
                      at->rows - first < GRADIENT_ROWS ? at->rows - first : GRADIENT_ROWS,
                      g->rows[lane], weights, logits);
    return status;
}

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
    gradient *g = attn_arena_small(arena, sizeof *g);
    bool ok = g != NULL;
    if (ok) {
        *g = (gradient){source,
                        *grad_output,
                        *value,
                        kind,
                        kv ? source->heads / kv : 1,
                        attn_arena_zeroed(arena, lanes, sizeof *g->rows)};
        ok = g->rows != NULL;
    }
    for (size_t i = 0; ok && i < lanes; i++)
        ok = (g->rows[i] = attn_arena_zeroed(arena, grad_output->dims[3],
                                             (GRADIENT_ROWS + 1) * sizeof(double))) != NULL;
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the rows of gradients");
    *out = *source;
    out->fetch = fetch_gradient;
    out->ctx = g;
    return ATTN_OK;
}

/* --- rollout (Abnar and Zuidema 2020): row i of R = N_top ... N_1 is the unit vector e_i times the
 * layers' matrices, from the last layer to the first. A chunk of rows needs two buffers of its size
 * and some rows of one layer, but no whole matrix --- */

enum {
    CHUNK_BYTES = 1 << 20, /* limit for the rows of a chunk, bytes */
    CHUNK_LEAST = 8,       /* rows in a chunk */
    LAYER_ROWS = 64,       /* rows of a layer that are averaged over heads together */
    LANE_BYTES = 4096,     /* rounding of the five blocks of a lane, and its struct */
};

typedef struct rollout_lane {
    double *x, *y;           /* [chunk, S] rows before and after a layer */
    double *layer;           /* [LAYER_ROWS, S] rows of N(mean_h A + I); each row sums to 1 */
    float *weights, *logits; /* [LAYER_ROWS, S] rows of one head */
} rollout_lane;

typedef struct rollout {
    const attn_weight_source *inner;
    size_t layers, batches, chunk;
    rollout_lane *lanes;
    const attn_control *control;
} rollout;

/* Computes rows row … row + rows - 1 of N(mean_h A + I) of one layer. N divides a row by its
 * sum. */
static attn_status load_layer(const rollout *r, const rollout_lane *l, size_t lane_index,
                              size_t batch, size_t row, size_t rows, attn_error *err) {
    const attn_weight_source *in = r->inner;
    const size_t S = in->cols;
    memset(l->layer, 0, rows * S * sizeof *l->layer);
    for (size_t h = 0; h < in->heads; h++) {
        attn_range at = {.batch = batch, .head = h, .row = row, .rows = rows, .cols = S};
        attn_status status = in->fetch(in->ctx, lane_index, &at, l->weights, l->logits, err);
        if (status)
            return status;
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

/* Computes y [rows, S] = x N for the matrix N of one layer. */
static attn_status multiply_layer(const rollout *r, const rollout_lane *l, size_t lane_index,
                                  size_t batch, size_t rows, attn_error *err) {
    const size_t S = r->inner->cols;
    memset(l->y, 0, rows * S * sizeof *l->y);
    for (size_t j0 = 0; j0 < S; j0 += LAYER_ROWS) {
        size_t n = S - j0 < LAYER_ROWS ? S - j0 : LAYER_ROWS;
        attn_status status = attn_control_check(r->control, err);
        if (!status)
            status = load_layer(r, l, lane_index, batch, j0, n, err);
        if (status)
            return status;
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
            attn_status status =
                multiply_layer(r, &l, lane_index, layer * r->batches + at->batch, rows, err);
            if (status)
                return status;
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

static bool take_lane(const rollout *r, attn_arena *arena, rollout_lane *l) {
    const size_t S = r->inner->cols;
    *l = (rollout_lane){.x = attn_arena_zeroed(arena, r->chunk * S, sizeof(double)),
                        .y = attn_arena_zeroed(arena, r->chunk * S, sizeof(double)),
                        .layer = attn_arena_zeroed(arena, LAYER_ROWS * S, sizeof(double)),
                        .weights = attn_arena_zeroed(arena, LAYER_ROWS * S, sizeof(float)),
                        .logits = attn_arena_zeroed(arena, LAYER_ROWS * S, sizeof(float))};
    return l->x && l->y && l->layer && l->weights && l->logits;
}

static size_t chunk_of(size_t rows, size_t S) {
    const size_t chunk = CHUNK_BYTES / sizeof(double) / (S | 1);
    const size_t least = chunk < CHUNK_LEAST ? CHUNK_LEAST : chunk;
    return least > rows ? rows | 1 : least;
}

void attn_rollout_cost(size_t layers, size_t batches, size_t heads, size_t S, size_t lanes,
                       attn_cost *out) {
    const double size = (double)S, rows = 2 * (double)chunk_of(S, S) + 2 * LAYER_ROWS;
    /* Each chunk of rows computes all layers again: the mean of the heads, and a product. */
    const double layer = size * size * (2 * size + (double)heads * (size / LAYER_ROWS + 1));
    const double bytes = (double)lanes * (rows * size * sizeof(double) + LANE_BYTES) + LANE_BYTES;
    *out = (attn_cost){.operations = (double)layers * (double)batches * layer,
                       .work_bytes = bytes < (double)SIZE_MAX / 2 ? (size_t)bytes : SIZE_MAX / 2};
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
    if (layers == 0 || source->batches % layers)
        return attn_fail(err, ATTN_ESHAPE, "weights",
                         "%zu batch entries are not those of %zu layers", source->batches, layers);
    rollout *r = attn_arena_small(arena, sizeof *r);
    bool ok = r != NULL;
    if (ok) {
        *r = (rollout){source,
                       layers,
                       source->batches / layers,
                       chunk_of(source->rows, source->cols),
                       attn_arena_zeroed(arena, lanes, sizeof *r->lanes),
                       control};
        ok = r->lanes != NULL;
    }
    for (size_t i = 0; ok && i < lanes; i++)
        ok = take_lane(r, arena, &r->lanes[i]);
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the rows of a rollout");
    *out = (attn_weight_source){.batches = r->batches,
                                .heads = 1,
                                .rows = source->rows,
                                .cols = source->cols,
                                .fetch = fetch_rollout,
                                .ctx = r,
                                .padding = source->padding};
    return ATTN_OK;
}

/* --- sums --- */

typedef struct summing {
    const attn_weight_source *source;
    size_t block;
    float **rows; /* [lanes] weights of a block, then its logits */
    attn_head_sum *heads;
} summing;

static void add_row(const float *w, size_t n, attn_head_sum *out) {
    for (size_t j = 0; j < n; j++) {
        out->sum += (double)w[j];
        out->magnitude += fabs((double)w[j]);
    }
    out->rows++;
}

/* Sums the cells of one head, row by row. */
static attn_status sum_head(void *ctx, size_t index, size_t lane, attn_error *err) {
    const summing *s = ctx;
    const attn_weight_source *from = s->source;
    float *w = s->rows[lane];
    attn_head_sum *out = &s->heads[index];
    attn_status status = ATTN_OK;
    for (size_t row = 0; !status && row < from->rows; row += s->block) {
        size_t n = from->rows - row < s->block ? from->rows - row : s->block;
        attn_range at = {.batch = index / from->heads,
                         .head = index % from->heads,
                         .row = row,
                         .rows = n,
                         .cols = from->cols};
        status = from->fetch(from->ctx, lane, &at, w, w + s->block * from->cols, err);
        for (size_t r = 0; !status && r < n; r++)
            if (!attn_row_is_padding(from, at.batch, row + r))
                add_row(w + r * from->cols, from->cols, out);
    }
    return status;
}

attn_status attn_head_sums(const attn_weight_source *source, attn_pool *pool,
                           const attn_control *control, attn_arena *arena, attn_head_sum **out,
                           attn_error *err) {
    size_t heads = source->batches * source->heads, lanes = attn_pool_slots(pool);
    size_t rows = (1 << 16) / (source->cols | 1);
    summing s = {.source = source,
                 .block = rows < 1              ? 1
                          : rows > source->rows ? source->rows | 1
                                                : rows,
                 .rows = attn_arena_zeroed(arena, lanes, sizeof *s.rows),
                 .heads = attn_arena_zeroed(arena, heads, sizeof *s.heads)};
    bool ok = s.rows && s.heads;
    for (size_t i = 0; ok && i < lanes; i++)
        ok = (s.rows[i] = attn_arena_zeroed(arena, s.block * source->cols, 2 * sizeof(float))) !=
             NULL;
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the sums of %zu heads", heads);
    attn_status status = attn_pool_run(pool, heads, sum_head, &s, control, err);
    if (!status)
        *out = s.heads;
    return status;
}
