#include "attention/mix_weights.h"

#include <attn/input_rows.h>
#include <attn/text.h>
#include <math.h>
#include <string.h>

#include "attention/mix.h"
#include "base/try.h"

/* --- checks --- */

static attn_status check_weights(const attn_inputs *in, attn_attention_dims *d, attn_error *err) {
    const attn_tensor *m = &in->mix.weights;
    char found[128];
    if (!d->Hq)
        return attn_fail(err, ATTN_ESHAPE, "mix/weights",
                         "expected query heads whose weights are mixed, found none");
    if (m->rank != 2 || !m->dims[0] || m->dims[1] != d->Hq)
        return attn_fail(err, ATTN_ESHAPE, "mix/weights",
                         "expected one row an output head and one column a query head, shape "
                         "[G, %zu], found %s",
                         d->Hq, attn_found_text(m, found, sizeof found));
    if (m->dtype > ATTN_F64)
        return attn_fail(err, ATTN_EDTYPE, "mix/weights",
                         "expected floating-point numbers, found %s", attn_dtype_name(m->dtype));
    d->Ho = m->dims[0];
    d->reads = d->Hq;
    return ATTN_OK;
}

static attn_status check_subtract(const attn_inputs *in, attn_attention_dims *d, attn_error *err) {
    const attn_tensor *l = &in->subtract.lambda;
    char found[128];
    if (in->mix.weights.rank)
        return attn_fail(err, ATTN_EARG, "subtract",
                         "mix.weights and subtract cannot be combined: subtract is the matrix with "
                         "1 and -lambda in each row");
    if (in->subtract.pairs > ATTN_PAIRS_HALVES)
        return attn_fail(err, ATTN_EARG, "subtract/pairs",
                         "expected \"adjacent\" (heads 2g and 2g + 1) or \"halves\" (heads g and "
                         "g + H/2)");
    if (!in->subtract.pairs)
        return attn_fail(err, ATTN_EARG, "subtract/pairs",
                         "pairs is missing: expected \"adjacent\" (heads 2g and 2g + 1) or "
                         "\"halves\" (heads g and g + H/2)");
    if (d->Hq % 2 || !d->Hq)
        return attn_fail(err, ATTN_ESHAPE, "subtract",
                         "expected pairs of heads, found %zu query head%s", d->Hq,
                         attn_plural(d->Hq));
    d->Ho = d->Hq / 2;
    if (l->rank != 1 || (l->dims[0] != 1 && l->dims[0] != d->Ho))
        return attn_fail(err, ATTN_ESHAPE, "subtract/lambda",
                         "expected a number, or one for each pair of heads, shape [%zu], found %s",
                         d->Ho, attn_found_text(l, found, sizeof found));
    if (l->dtype > ATTN_F64)
        return attn_fail(err, ATTN_EDTYPE, "subtract/lambda",
                         "expected floating-point numbers, found %s", attn_dtype_name(l->dtype));
    d->reads = 2;
    d->pairs = in->subtract.pairs;
    return ATTN_OK;
}

/* Returns the output head that the pair of head h makes. */
static size_t output_of(const attn_attention_dims *d, size_t h) {
    return d->pairs == ATTN_PAIRS_ADJACENT ? h / 2 : h % d->Ho;
}

/* Returns how many value heads the query heads of key head hkv use. Neighbouring query heads make
 * neighbouring outputs (the first follows the last), so their value heads are neighbours too. */
static size_t parts_of(const attn_attention_dims *d, size_t hkv) {
    const size_t group = attn_group(d);
    size_t parts = 1;
    for (size_t h = hkv * group + 1; h < (hkv + 1) * group; h++)
        parts +=
            attn_mix_value_head(d, output_of(d, h)) != attn_mix_value_head(d, output_of(d, h - 1));
    return parts < d->Hv ? parts : d->Hv;
}

attn_status attn_mix_weights_resolve(const attn_inputs *in, size_t heads, attn_attention_dims *d,
                                     attn_error *err) {
    const bool subtracts = in->subtract.pairs || in->subtract.lambda.rank;
    const char *where = subtracts ? "subtract" : "mix/weights";
    ATTN_TRY((subtracts ? check_subtract : check_weights)(in, d, err));
    if (attn_score_position(in)->kind == ATTN_POSITION_SHAW &&
        attn_score_position(in)->value_table.rank)
        return attn_fail(
            err, ATTN_EARG, where,
            "weights cannot be mixed if position.value_table is given: the values then "
            "depend on the query");
    if (in->projected && d->Ho != d->Hq)
        return attn_fail(err, ATTN_EARG, where,
                         "with projections the number of output heads must be that of query heads, "
                         "%zu; send projected query, key and value",
                         d->Hq);
    if (!heads || d->Ho % heads)
        return attn_fail(err, ATTN_ESHAPE, "value",
                         "the number of value heads, %zu, must divide that of output heads, %zu: "
                         "mixed weights have values of their own",
                         heads, d->Ho);
    d->Hv = heads;
    size_t parts = d->pairs ? 1 : d->Hv;
    for (size_t hkv = 0; d->pairs && hkv < d->Hkv; hkv++) {
        const size_t more = parts_of(d, hkv);
        parts = more > parts ? more : parts;
    }
    if (!attn_size_mul(d->Ho, d->reads, &d->factors) ||
        !attn_size_mul(parts, d->Ev, &d->value_width))
        return attn_fail(err, ATTN_ELIMIT, where, "too many heads");
    return ATTN_OK;
}

/* --- wide values --- */

size_t attn_mix_value_of_part(const attn_attention_dims *d, size_t hkv, size_t part) {
    const size_t first = d->pairs ? attn_mix_value_head(d, output_of(d, hkv * attn_group(d))) : 0;
    return (first + part) % d->Hv;
}

size_t attn_mix_column(const attn_attention_dims *d, size_t h, size_t g) {
    const size_t hkv = d->Hq == d->Hkv ? h : h / attn_group(d);
    const size_t first = attn_mix_value_of_part(d, hkv, 0);
    return (attn_mix_value_head(d, g) + d->Hv - first) % d->Hv * d->Ev;
}

attn_head_read attn_attention_read(const attn_attention *a, size_t g, size_t n) {
    const size_t h = attn_mix_head(&a->dims, g, n);
    return (attn_head_read){h, attn_mix_column(&a->dims, h, g), attn_mix_factors(a, g)[n]};
}

/* The wide values. With mix.weights all key heads share them. */
typedef struct wide_values {
    const attn_attention *a;
    char *rows; /* [sets, heads, S, value width] */
    size_t heads;
    double *factors;
    ptrdiff_t *batch;
} wide_values;

static void place_values(attn_area *area, const attn_attention_dims *d, wide_values *w) {
    size_t rows = 0;
    w->heads = d->pairs ? d->Hkv : 1;
    if (!attn_size_mul(d->sets * w->heads, d->S, &rows))
        area->overflow = true;
    w->rows = attn_area_take_3(area, rows, d->value_width, 1, attn_dtype_size(d->result));
    w->factors = attn_area_take(area, d->factors, sizeof *w->factors);
    w->batch = attn_area_take(area, d->B, sizeof *w->batch);
}

/* Piece: joins some rows of the values of all heads of a batch entry. */
static attn_status value_piece(void *work, size_t index, size_t lane, attn_error *err) {
    const wide_values *w = work;
    const attn_attention *a = w->a;
    const attn_attention_dims *d = &a->dims;
    const attn_mix_piece p = attn_mix_piece_of(index, d->S);
    const size_t elem = attn_dtype_size(d->result);
    (void)lane, (void)err;
    for (size_t hkv = 0; hkv < w->heads; hkv++)
        for (size_t j = p.first; j < p.end; j++) {
            const bool cached = j < d->past;
            const attn_view *v = cached ? &a->past_value : &a->value;
            const size_t row = ((p.b * w->heads + hkv) * d->S + j) * d->value_width;
            for (size_t part = 0; part * d->Ev < d->value_width; part++)
                attn_elements_widen(w->rows + (row + part * d->Ev) * elem, elem,
                                    attn_view_at(v, p.b, attn_mix_value_of_part(d, hkv, part),
                                                 cached ? j : j - d->past, 0),
                                    v->dtype, v->col, d->Ev);
        }
    return ATTN_OK;
}

/* Reads the factors of all output heads into `to` [Ho, reads]. */
static attn_status read_factors(const attn_attention *a, double *to, attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    const attn_tensor *m = &a->in.mix.weights, *l = &a->in.subtract.lambda;
    for (size_t g = 0; g < d->Ho; g++)
        for (size_t n = 0; n < d->reads; n++) {
            double *factor = &to[g * d->reads + n];
            if (!d->pairs)
                *factor = attn_tensor_number(m, g, n);
            else
                *factor = n ? -attn_tensor_number(l, l->dims[0] == 1 ? 0 : g, 0) : 1;
            if (!isfinite(*factor))
                return attn_fail(err, ATTN_ENONFINITE, d->pairs ? "subtract/lambda" : "mix/weights",
                                 "expected finite numbers");
        }
    return ATTN_OK;
}

attn_status attn_mix_values(attn_attention *a, attn_arena *arena, attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    attn_area counted = {0}, area;
    wide_values w = {.a = a};
    place_values(&counted, d, &w);
    ATTN_TAKEN(attn_area_open(&area, &counted, arena), "mixed values", err);
    place_values(&area, d, &w);
    ATTN_TRY(read_factors(a, w.factors, err));
    a->factors = w.factors;
    ATTN_TRY(attn_pool_run(a->in.pool, attn_mix_pieces(d->sets, d->S), value_piece, &w,
                           a->in.control, err));
    const size_t rows = d->S * d->value_width;
    for (size_t b = 0; b < d->B; b++)
        w.batch[b] = d->sets == 1 ? 0 : (ptrdiff_t)(b * w.heads * rows);
    a->pass_value = (attn_view){.data = w.rows,
                                .dtype = d->result,
                                .batch = w.batch,
                                .head = d->pairs ? (ptrdiff_t)rows : 0,
                                .row = (ptrdiff_t)d->value_width,
                                .col = 1};
    a->pass_past = 0;
    return ATTN_OK;
}

bool attn_mix_values_bytes(const attn_attention_dims *d, size_t *bytes) {
    attn_area counted = {0};
    wide_values w;
    place_values(&counted, d, &w);
    return attn_mix_area_bytes(&counted, bytes);
}

/* --- outputs --- */

static size_t wide_row(const attn_attention *a, size_t b, size_t h, size_t i, size_t g) {
    return attn_row_index(a, b, h, i) * a->dims.value_width + attn_mix_column(&a->dims, h, g);
}

attn_status attn_mix_outputs(const attn_attention *a, const attn_results *results, size_t b,
                             size_t g, size_t row, size_t rows, attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    const size_t elem = attn_dtype_size(d->result);
    const double *factors = attn_mix_factors(a, g);
    const bool side_by_side = a->in.layout != ATTN_BHLE;
    double sums[ATTN_MIX_TOGETHER];
    bool held = true;
    for (size_t i = row; i < row + rows; i++) {
        const size_t to = side_by_side ? ((b * d->L + i) * d->Ho + g) * d->Ev
                                       : ((b * d->Ho + g) * d->L + i) * d->Ev;
        for (size_t e = 0, n; e < d->Ev; e += n) {
            n = d->Ev - e < ATTN_MIX_TOGETHER ? d->Ev - e : ATTN_MIX_TOGETHER;
            memset(sums, 0, sizeof sums);
            for (size_t h = 0; h < d->reads; h++)
                if (factors[h] != 0)
                    attn_mix_add(sums, factors[h],
                                 (const char *)results->head_outputs.data +
                                     (wide_row(a, b, attn_mix_head(d, g, h), i, g) + e) * elem,
                                 elem, n);
            for (size_t c = 0; c < n; c++) {
                attn_element_set(results->output.data, elem, to + e + c, sums[c]);
                held &= isfinite(attn_element(results->output.data, elem, to + e + c)) != 0;
            }
        }
    }
    if (held || a->in.allow_nonfinite)
        return ATTN_OK;
    return attn_fail(err, ATTN_ENONFINITE, d->pairs ? "subtract" : "mix/weights",
                     "outputs of head %zu overflow %s; scale the inputs down (or set "
                     "allow_nonfinite)",
                     g, attn_dtype_name(d->result));
}

/* --- backward --- */

/* Piece: computes the gradients of the wide outputs of head `index`, or of its factors. */
static attn_status output_back_piece(void *work, size_t index, size_t lane, attn_error *err) {
    const attn_weights_back *w = work;
    const attn_attention *a = w->a;
    const attn_attention_dims *d = &a->dims;
    const size_t h = index, elem = attn_dtype_size(d->result);
    (void)lane;
    for (size_t g = 0; g < d->Ho; g++)
        for (size_t n = 0; n < d->reads; n++) {
            if (attn_mix_head(d, g, n) != h)
                continue;
            const double factor = attn_mix_factors(a, g)[n];
            double sum = 0;
            for (size_t b = 0; b < d->B; b++)
                for (size_t i = 0; i < d->L; i++) {
                    const size_t at = wide_row(a, b, h, i, g);
                    ATTN_TRY(attn_control_check(w->control, err));
                    for (size_t e = 0; e < d->Ev; e++) {
                        const double grad =
                            attn_number_at(attn_view_at(&w->out, b, g, i, e), w->out.dtype);
                        if (w->wide)
                            attn_element_add(w->wide, w->elem, at + e, factor * grad);
                        if (w->sums)
                            sum += grad * attn_element(w->results->head_outputs.data, elem, at + e);
                    }
                }
            if (w->sums)
                w->sums[g * d->reads + n] = sum;
        }
    return ATTN_OK;
}

attn_status attn_mix_outputs_back(attn_weights_back *w, attn_pool *pool, attn_error *err) {
    return attn_pool_run(pool, w->a->dims.Hq, output_back_piece, w, w->control, err);
}

/* Piece: computes the gradients of one value head of a batch entry, number `index` modulo Hv. They
 * are sums over the copies of this head in the wide values. */
static attn_status value_back_piece(void *work, size_t index, size_t lane, attn_error *err) {
    const attn_weights_back *w = work;
    const attn_attention_dims *d = &w->a->dims;
    const size_t b = index / d->Hv, head = index % d->Hv;
    const size_t parts = d->Ev ? d->value_width / d->Ev : 0;
    (void)lane;
    for (size_t hkv = 0; hkv < d->Hkv; hkv++)
        for (size_t part = 0; part < parts; part++) {
            if (attn_mix_value_of_part(d, hkv, part) != head)
                continue;
            for (size_t j = 0; j < d->S; j++) {
                const size_t from = ((b * d->Hkv + hkv) * d->S + j) * d->value_width + part * d->Ev;
                ATTN_TRY(attn_control_check(w->control, err));
                for (size_t e = 0; e < d->Ev; e++)
                    attn_element_add(w->dvalue, w->elem, (index * d->S + j) * d->Ev + e,
                                     attn_element(w->dwide, w->elem, from + e));
            }
        }
    return ATTN_OK;
}

attn_status attn_mix_values_back(attn_weights_back *w, attn_pool *pool, attn_error *err) {
    return attn_pool_run(pool, w->a->dims.B * w->a->dims.Hv, value_back_piece, w, w->control, err);
}
