/* Explains one weight: the query and key vectors, every step from their product to the weight, and
 * the masks that hide it. */
#include <math.h>
#include <string.h>

#include "attention/cells.h"
#include "attention/mix_weights.h"
#include "base/try.h"
#include "mask/rule.h"
#include "runs/pooling.h"
#include "runs/private.h"

/* Number of keys of a row whose weights are computed together. */
enum { CHUNK = 2048 };

/* Copies n doubles, unless `row` is `to`: attn_query_rows and attn_key_rows return `to` if they had
 * to convert the row. */
static void copy_vector(double *to, const void *row, size_t n) {
    if (row != to)
        memcpy(to, row, n * sizeof *to);
}

/* Returns the product of a vector with row t of a table of vectors by distance; 0: there is none. */
static double product(const attn_vector_table *table, size_t head, size_t t, const double *x) {
    double sum = 0;
    for (size_t e = 0; table->rows && e < table->width; e++)
        sum += x[e] * attn_vector_at(table, head, t)[e];
    return sum;
}

static attn_status explain_product(const attn_run_site *site, const attn_range *at,
                                   attn_arena *arena, attn_run_cell *out, attn_error *err) {
    const attn_attention *a = site->op;
    const size_t A = a->dims.score_width;
    size_t ld;
    out->width = A;
    out->query = attn_arena_zeroed(arena, A, sizeof(double));
    out->key = attn_arena_zeroed(arena, A, sizeof(double));
    out->products = attn_arena_zeroed(arena, A, sizeof(double));
    ATTN_TAKEN(out->query && out->key && out->products, "the explanation", err);
    copy_vector(
        out->query,
        attn_query_rows(a, at->batch, at->head, at->row, 1, sizeof(double), out->query, &ld), A);
    copy_vector(out->key,
                attn_key_rows(a, at->batch, attn_kv_head(a, at->head), at->col, 1, sizeof(double),
                              out->key, &ld),
                A);
    for (size_t e = 0; e < A; e++)
        out->products[e] = a->score_v_wide ? a->score_v_wide[e] * tanh(out->query[e] + out->key[e])
                                           : out->query[e] * out->key[e];
    const size_t row =
        a->rule.relative ? attn_vector_row(a, at->batch, at->row, at->col) : SIZE_MAX;
    if (row != SIZE_MAX)
        out->relative = product(&a->rule.keys, at->head, row, out->query) +
                        product(&a->rule.queries, at->head, row, out->key);
    return ATTN_OK;
}

static attn_status stage_of(const attn_run_site *site, const attn_range *at, attn_stage stage,
                            attn_cells_scratch *scratch, double *out, attn_error *err) {
    union {
        float f;
        double d;
    } cell;
    attn_status status =
        attn_attention_cells(site->op, &site->stats, at, stage, &cell, 1, scratch, err);
    *out = status ? 0 : attn_element(&cell, attn_dtype_size(site->dims->result), 0);
    return status;
}

static attn_status explain_stages(const attn_run_site *site, const attn_range *at,
                                  attn_cells_scratch *scratch, attn_run_cell *out,
                                  attn_error *err) {
    double *const places[] = {&out->raw, &out->scaled, &out->softcapped, &out->biased};
    for (int s = ATTN_STAGE_RAW; s < ATTN_STAGE_PROBS; s++)
        ATTN_TRY(stage_of(site, at, (attn_stage)s, scratch, places[s], err));
    return ATTN_OK;
}

/* Lists the weights from which the mixed weight of a cell is computed. at->head becomes the head
 * with the largest share in it. */
static attn_status explain_mix(const attn_run_site *site, attn_range *at,
                               attn_cells_scratch *scratch, attn_arena *arena, attn_run_cell *out,
                               attn_error *err) {
    const attn_attention *a = site->op;
    const attn_cells one = {.stage = ATTN_STAGE_PROBS, .of_head = true};
    const size_t g = at->head;
    double most = -1;
    out->reads = attn_arena_zeroed(arena, a->dims.reads, sizeof *out->reads);
    ATTN_TAKEN(out->reads, "the explanation", err);
    for (size_t n = 0; n < a->dims.reads; n++) {
        attn_run_read *read = &out->reads[n];
        attn_range cell = *at;
        double number[1] = {0};
        cell.head = attn_mix_head(&a->dims, g, n);
        ATTN_TRY(attn_cells_rows(a, &site->stats, &cell, &one, NULL, number, scratch, err));
        *read = (attn_run_read){cell.head, attn_mix_factors(a, g)[n],
                                attn_element(number, attn_dtype_size(a->dims.result), 0)};
        if (fabs(read->factor * read->weight) > most) {
            most = fabs(read->factor * read->weight);
            at->head = cell.head;
        }
    }
    out->read_count = a->dims.reads;
    return ATTN_OK;
}

/* Tells whether mask layer number `layer` hides the key by itself, without the other layers. */
static bool layer_hides(const attn_mask *m, size_t layer, const attn_range *at) {
    const attn_mask_layer *l = &m->layers[layer];
    const attn_mask_part *part = attn_mask_part_of(m, layer);
    const int64_t key = (int64_t)at->col;
    const int64_t distance = key - (int64_t)at->row - attn_mask_offset(m, at->batch);
    if (m->rules && m->rules[layer].layer)
        return attn_rule_hides(m, &m->rules[layer], at->batch, at->head, at->row, at->col);
    switch (l->kind) {
    case ATTN_LAYER_CAUSAL:
        return distance > 0;
    case ATTN_LAYER_WINDOW:
        return (l->window[0] >= 0 && distance < -l->window[0]) ||
               (l->window[1] >= 0 && distance > l->window[1]);
    case ATTN_LAYER_PATTERN:
        return !attn_pattern_sees(&l->pattern, key - distance, key);
    case ATTN_LAYER_LENGTHS:
        return key >= m->lengths[at->batch];
    default:
        return part && attn_mask_part_hides(part, -INFINITY, at->batch, at->head, at->row, at->col);
    }
}

static void explain_mask(const attn_run_site *site, const attn_range *at, attn_run_cell *out) {
    const attn_attention *a = site->op;
    uint8_t keep;
    attn_mask_keep(a->mask, at->batch, at->head, at->row, at->col, 1, &keep);
    attn_mask_additive(a->mask, at->batch, at->head, at->row, at->col, 1, &out->mask_bias);
    out->filled = !keep && attn_mask_fills(a->mask);
    out->visible = keep || out->filled;
    for (size_t i = 0; i < a->mask->layer_count && !keep; i += attn_mask_nodes(a->mask, i))
        if (layer_hides(a->mask, i, at))
            out->hidden_by[out->hidden_count++] = a->mask->layers[i].where;
    if (a->rule.biases && out->distance != ATTN_NO_POSITION)
        out->position_bias = attn_position_bias_at(&a->rule, at->head, out->distance);
}

/* Computes the rank of the cell's weight among the weights of all visible keys of its row. */
static attn_status find_rank(const attn_run_site *site, const attn_range *at, attn_arena *arena,
                             attn_cells_scratch *scratch, attn_run_cell *out, attn_error *err) {
    const attn_attention *a = site->op;
    const bool fills = attn_mask_fills(a->mask);
    const size_t elem = attn_dtype_size(a->dims.result);
    double *row = attn_arena_take(arena, CHUNK * sizeof *row);
    uint8_t *keep = attn_arena_take(arena, CHUNK);
    size_t before = 0;
    ATTN_TAKEN(row && keep, "the explanation", err);
    for (size_t j = 0; j < a->dims.S; j += CHUNK) {
        const size_t n = a->dims.S - j < CHUNK ? a->dims.S - j : CHUNK;
        const attn_range part = {at->batch, at->head, at->row, 1, j, n};
        ATTN_TRY(
            attn_attention_cells(a, &site->stats, &part, ATTN_STAGE_PROBS, row, n, scratch, err));
        attn_run_keep(a, &part, keep);
        for (size_t k = 0; k < n; k++) {
            const double w = attn_element(row, elem, k);
            if (!keep[k] && !fills)
                continue;
            out->of++;
            before += w > out->weight || (w == out->weight && j + k < at->col);
        }
    }
    out->rank = out->visible ? before + 1 : 0;
    return ATTN_OK;
}

/* Returns the logsumexp of a row of a query head. */
static double head_logsumexp(const attn_run_site *site, size_t batch, size_t head, size_t row) {
    const size_t at = attn_row_index(site->op, batch, head, row);
    const attn_kernels *table =
        site->stats.kind[at] == ATTN_ROW_DOUBLE ? &attn_kernels_ref : site->op->kernels;
    if (site->dims->normalizer)
        return NAN;
    return site->stats.sum[at] == 0 ? -INFINITY
                                    : table->logsumexp(site->stats.max[at], site->stats.sum[at]);
}

double attn_run_logsumexp(const attn_run_site *site, size_t batch, size_t head, size_t row) {
    return site->dims->factors ? NAN : head_logsumexp(site, batch, head, row);
}

attn_status attn_run_explain(const attn_run_site *site, size_t batch, size_t head, size_t row,
                             size_t col, attn_arena *arena, attn_run_cell *out, attn_error *err) {
    const attn_attention *a = site->op;
    const attn_attention_dims *d = site->dims;
    const attn_range cell_at = {batch, head, row, 1, col, 1};
    attn_range at = cell_at; /* the cell in the head whose score is explained */
    attn_run_cell cell = {.softcap = a->in.softcap};
    if (batch >= d->B || head >= d->Ho || row >= d->L || col >= d->S)
        return attn_fail(err, ATTN_EARG,
                         batch >= d->B   ? "batch"
                         : head >= d->Ho ? "head"
                         : row >= d->L   ? "row"
                                         : "col",
                         "the weights are %zu x %zu x %zu x %zu (batch, head, query, key), counted "
                         "from 0; found %zu, %zu, %zu, %zu",
                         d->B, d->Ho, d->L, d->S, batch, head, row, col);
    attn_cells_scratch *scratch = attn_cells_scratch_new(a, arena);
    ATTN_TAKEN(scratch, "the explanation", err);
    ATTN_TRY(stage_of(site, &cell_at, ATTN_STAGE_PROBS, scratch, &cell.weight, err));
    if (d->factors)
        ATTN_TRY(explain_mix(site, &at, scratch, arena, &cell, err));
    cell.head = head = at.head;
    cell.scale = attn_row_scale(a, batch, head, row);
    attn_distances(a, batch, row, col, 1, &cell.distance);
    ATTN_TRY(explain_product(site, &at, arena, &cell, err));
    ATTN_TRY(explain_stages(site, &at, scratch, &cell, err));
    explain_mask(site, &at, &cell);
    cell.threshold = cell.row_max = site->stats.max[attn_row_index(a, batch, head, row)];
    cell.divisor = site->stats.sum[attn_row_index(a, batch, head, row)];
    if (d->normalizer)
        cell.row_max = NAN;
    cell.logsumexp = head_logsumexp(site, batch, head, row);
    ATTN_TRY(find_rank(site, &cell_at, arena, scratch, &cell, err));
    *out = cell;
    return ATTN_OK;
}
