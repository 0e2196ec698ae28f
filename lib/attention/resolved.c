/* Turns inputs into the resolved operation.
 *
 * The first part reads only shapes: it checks that query, key, value and cache fit together, and
 * computes dims and the shapes of results. The second part reads values: it makes views with the
 * axes [B, H, rows, width], the compiled mask, the scale, sinks and positions. */
#include <attn/text.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "attention/encodings.h"
#include "attention/mix.h"
#include "attention/mix_weights.h"
#include "attention/normalizer.h"
#include "attention/operand_axes.h"
#include "attention/operands.h"
#include "base/try.h"

/* --- shapes --- */

attn_inputs attn_attention_defaults(void) {
    return (attn_inputs){.scale = NAN};
}

/* Merges the batch axes of an operand into dims. An axis can only be broadcast from size 1. */
static attn_status merge_batch(attn_attention_dims *d, const attn_operand *o, attn_error *err) {
    for (int a = 0; a < d->batch_rank; a++) {
        size_t dim = o->t->dims[a];
        if (d->batch[a] == 1)
            d->batch[a] = dim;
        else if (dim != 1 && dim != d->batch[a])
            return attn_fail(err, ATTN_ESHAPE, o->name, "batch axis %d is %zu, expected %zu or 1",
                             a, dim, d->batch[a]);
    }
    return ATTN_OK;
}

static attn_status expect_size(const char *name, const char *what, size_t found, size_t expected,
                               const char *why, attn_error *err) {
    if (found == expected)
        return ATTN_OK;
    return attn_fail(err, ATTN_ESHAPE, name, "%s is %zu, expected %zu (%s)", what, found, expected,
                     why);
}

/* Checks that query heads and key/value heads form equal groups if their numbers differ. */
static attn_status check_heads(const attn_inputs *in, const attn_attention_dims *d,
                               attn_error *err) {
    if (in->forbid_gqa)
        return attn_fail(err, ATTN_ESHAPE, "key",
                         "%zu query head%s and %zu key/value head%s differ, which enable_gqa false "
                         "forbids",
                         d->Hq, attn_plural(d->Hq), d->Hkv, attn_plural(d->Hkv));
    if (!d->Hkv || d->Hq % d->Hkv)
        return attn_fail(
            err, ATTN_ESHAPE, "key",
            "the number of query heads, %zu, must be a multiple of that of key/value heads, %zu",
            d->Hq, d->Hkv);
    return ATTN_OK;
}

static attn_status resolve_past(const attn_inputs *in, attn_attention_dims *d, attn_error *err) {
    attn_operand k = {"past_key", &in->past_key, 0, 0, 0, 0},
                 v = {"past_value", &in->past_value, 0, 0, 0, 0};
    if (!in->past_key.rank || !in->past_value.rank)
        return attn_fail(err, ATTN_EARG, in->past_key.rank ? "past_value" : "past_key",
                         "past_key and past_value go together, one is missing");
    ATTN_TRY(attn_operand_split_cache(&k, d, err));
    ATTN_TRY(attn_operand_split_cache(&v, d, err));
    d->past = k.rows;
    ATTN_TRY(merge_batch(d, &k, err));
    ATTN_TRY(merge_batch(d, &v, err));
    ATTN_TRY(expect_size(k.name, "the number of heads", k.heads, d->Hkv, "as key has", err));
    ATTN_TRY(expect_size(v.name, "the number of heads", v.heads, d->Hv, "as value has", err));
    ATTN_TRY(expect_size(k.name, "the width", k.width, d->Ek, "as key has", err));
    ATTN_TRY(expect_size(v.name, "the width", v.width, d->Ev, "as value has", err));
    return expect_size(v.name, "the length", v.rows, k.rows, "as past_key has", err);
}

/* Returns whether all batch entries of t read the same memory. */
static bool is_shared(const attn_attention_dims *d, const attn_tensor *t) {
    for (int a = 0; t->rank && a < d->batch_rank; a++)
        if (d->batch[a] > 1 && t->dims[a] != 1 && t->strides[a] != 0)
            return false;
    return true;
}

static attn_status fill_results(const attn_inputs *in, attn_attention_dims *d, attn_error *err) {
    const attn_tensor *q = &in->query;
    size_t count = 1;
    d->has_heads = in->layout != ATTN_BHLE || q->rank > 3;
    d->B = 1;
    for (int a = 0; a < d->batch_rank; a++)
        if (!attn_size_mul(d->B, d->batch[a], &d->B))
            return attn_fail(err, ATTN_ELIMIT, "query", "too many batch entries");
    const attn_tensor *on_axes = &in->position.axes.key_positions;
    const bool own_positions = in->position.axes.pairs.rank
                                   ? on_axes->rank == 3 && on_axes->dims[1] > 1
                                   : in->key_positions.rank == 2 && in->key_positions.dims[0] > 1;
    const bool one_set = !(own_positions && in->position.kind == ATTN_POSITION_ROTARY) &&
                         is_shared(d, in->key.rank ? &in->key : q) && is_shared(d, &in->value) &&
                         is_shared(d, &in->past_key) && is_shared(d, &in->past_value);
    d->sets = one_set && d->B ? 1 : d->B;
    for (int r = 0; r < q->rank; r++)
        d->output[r] = r < d->batch_rank ? d->batch[r] : q->dims[r];
    d->output_rank = q->rank;
    if (!d->has_heads && d->Ho != 1)
        return attn_fail(err, ATTN_ESHAPE, "mix/weights",
                         "%zu output heads need tensors with an axis of heads", d->Ho);
    if (d->has_heads && in->layout != ATTN_BLD)
        d->output[q->rank - (in->layout == ATTN_BHLE ? 3 : 2)] = d->Ho;
    int n = 0;
    for (; n < d->batch_rank; n++)
        d->weights[n] = d->scores[n] = d->rows[n] = d->batch[n];
    if (d->has_heads) {
        d->weights[n] = d->Ho;
        d->scores[n] = d->rows[n] = d->Hq;
        n++;
    }
    d->weights[n] = d->scores[n] = d->rows[n] = d->L;
    d->rows_rank = ++n;
    d->weights[n] = d->scores[n] = d->S;
    n++;
    d->weights_rank = n;
    if (in->layout == ATTN_BLD) {
        if (!attn_size_mul(d->Ho, d->Ev, &d->output[q->rank - 1]))
            return attn_fail(err, ATTN_ELIMIT, "value", "too wide");
    } else {
        d->output[q->rank - 1] = d->Ev;
    }
    const size_t factors[] = {d->B, d->Hq > d->Ho ? d->Hq : d->Ho, d->L, d->S ? d->S : 1, 16};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        if (factors[i] && !attn_size_mul(count, factors[i], &count))
            return attn_fail(err, ATTN_ELIMIT, "query",
                             "batch x heads x queries x keys is beyond what can be counted");
    return ATTN_OK;
}

/* Limits below which the tiles of AMX gain nothing. With a score width below TILES_FROM, half of
 * each tile is empty. With at most TILES_BEYOND queries, packing the keys takes as much time as the
 * tiles save. */
enum { TILES_FROM = 16, TILES_BEYOND = 32 };

/* Chooses the instruction set. The choice depends on the instruction set of the process, on the
 * shapes, and on the precision and the kernel table that the inputs ask for. */
static attn_status resolve_kernels(const attn_inputs *in, attn_attention_dims *d, attn_error *err) {
    if (in->precision < ATTN_PRECISION_FP32 || in->precision >= ATTN_PRECISION_COUNT)
        return attn_fail(err, ATTN_EARG, "precision", "unknown precision");
    if (in->precision != ATTN_PRECISION_FP32 && d->result == ATTN_F64)
        return attn_fail(err, ATTN_EARG, "precision",
                         "float64 tensors are computed in double: leave precision out, or send "
                         "float32");
    d->precision = in->precision;
    d->isa = attn_isa_current();
    if (d->isa == ATTN_ISA_AMX && !attn_isa_forced() &&
        (d->L <= TILES_BEYOND || d->score_width < TILES_FROM))
        d->isa = attn_kernels_of(d->isa)->isa;
    if (in->kernel && !attn_kernels_find(in->kernel, d->precision, d->tanh_score, &d->isa))
        return attn_fail(err, ATTN_EUNSUPPORTED, "kernel",
                         "expected a kernel table of this processor, found \"%.32s\"", in->kernel);
    if (d->result == ATTN_F64)
        d->isa = ATTN_ISA_REF;
    d->isa = attn_kernels_with(d->isa, d->precision, d->tanh_score)->isa;
    return ATTN_OK;
}

/* Returns how many learned parameters a head has for biases by distance: 1 for a given ALiBi slope,
 * the number of buckets for T5, the number of distances for relative tables. The shapes of the
 * tables are checked later. */
static size_t count_entries(const attn_position *p) {
    switch (p->kind) {
    case ATTN_POSITION_ALIBI:
        return p->slopes.rank ? 1 : 0;
    case ATTN_POSITION_T5:
        return p->table.rank ? p->table.dims[0] : 0;
    case ATTN_POSITION_RELATIVE:
        return p->table.rank > 1 ? p->table.dims[1] : 0;
    default:
        return 0;
    }
}

/* Plans the score form, and sets the members of *d that depend on the form and on the positions. */
static attn_status resolve_score(const attn_inputs *in, attn_attention_dims *d,
                                 attn_score_plan *plan, attn_error *err) {
    if (in->score.kind >= ATTN_SCORE_COUNT)
        return attn_fail(err, ATTN_EARG, "score", "unknown score form");
    ATTN_TRY(attn_score_form_of(in->score.kind)->plan(&in->score, d->E, d->Ek, plan, err));
    d->score_width = plan->width;
    d->tanh_score = plan->v.rank != 0;
    d->transforms =
        plan->query_map.rank || plan->key_map.rank || in->position.kind == ATTN_POSITION_ROTARY;
    size_t maps;
    if (in->mix.logits.rank)
        ATTN_TRY(attn_mix_resolve(in, d, err));
    if (!attn_tensor_count(&plan->query_map, &d->query_map) ||
        !attn_tensor_count(&plan->key_map, &d->key_map) ||
        !attn_size_add(d->query_map, d->key_map, &maps))
        return attn_fail(err, ATTN_ELIMIT, "score", "too many elements");
    ATTN_TRY(attn_position_pair_check(in, err));
    const attn_position *p = attn_score_position(in);
    attn_vectors_resolve(p, d);
    d->softcap = in->softcap != 0;
    if (in->position.kind || in->score_position.kind) {
        d->entries = count_entries(p);
        d->positions = attn_position_doubles(&in->position, d->Hq);
        if (!attn_size_add(d->positions, attn_position_doubles(&in->score_position, d->Hq),
                           &d->positions))
            d->positions = SIZE_MAX;
        if (!attn_size_add(d->positions, attn_sequence_positions_count(in), &d->positions) ||
            !attn_size_add(d->positions, attn_rotary_axes_count(&in->position.axes), &d->positions))
            d->positions = SIZE_MAX;
    }
    return ATTN_OK;
}

/* Checks the encodings that are added to the inputs, and sets d->encoded. */
static attn_status resolve_encodings(const attn_inputs *in, const attn_tensor *key,
                                     const attn_tensor *value, attn_attention_dims *d,
                                     attn_error *err) {
    const attn_tensor *const parts[] = {&in->query, key, value};
    const bool learned = in->position.kind == ATTN_POSITION_LEARNED;
    for (int i = 0; i < 3; i++) {
        size_t count;
        ATTN_TRY(attn_encoding_check(&in->position, learned ? "position/table" : "position/kind",
                                     parts[i], i == 0 || in->key_positions.rank ? 0 : d->S, err));
        if (!attn_tensor_count(parts[i], &count) || !attn_size_add(d->encoded, count, &d->encoded))
            return attn_fail(err, ATTN_ELIMIT, "query", "too many elements");
    }
    return ATTN_OK;
}

attn_status attn_check_loss_gradient(const char *field, const attn_tensor *grad, const size_t *dims,
                                     int rank, attn_error *err) {
    char want[128], have[128];
    bool same = grad->rank == rank;
    for (int a = 0; same && a < rank; a++)
        same = grad->dims[a] == dims[a];
    if (!same)
        return attn_fail(err, ATTN_ESHAPE, field, "expected the %s's shape %s, found %s",
                         field + strlen("grad_"), attn_shape_text(dims, rank, want, sizeof want),
                         attn_found_text(grad, have, sizeof have));
    if (grad->dtype > ATTN_F64)
        return attn_fail(err, ATTN_EDTYPE, field, "expected floating-point numbers, found %s",
                         attn_dtype_name(grad->dtype));
    return ATTN_OK;
}

static bool mixes_weights(const attn_inputs *in) {
    return in->mix.weights.rank || in->subtract.lambda.rank || in->subtract.pairs;
}

/* Computes dims and the score plan, which points into *in. */
static attn_status resolve_dims(const attn_inputs *in, attn_attention_dims *d,
                                attn_score_plan *plan, attn_error *err) {
    const attn_tensor *key = in->key.rank ? &in->key : &in->query;
    const attn_tensor *value = in->value.rank ? &in->value : key;
    const size_t kv_heads = in->num_kv_heads ? in->num_kv_heads : in->num_heads;
    attn_operand q = {"query", &in->query, 0, 0, 0, 0}, k = {"key", key, 0, 0, 0, 0},
                 v = {"value", value, 0, 0, 0, 0};
    if (in->value.rank && !in->key.rank)
        return attn_fail(err, ATTN_EARG, "key", "value was given without key");
    ATTN_TRY(attn_operand_check(q.name, q.t, err));
    ATTN_TRY(attn_operand_split(&q, in->layout, in->num_heads, err));
    ATTN_TRY(attn_operand_check(k.name, key, err));
    ATTN_TRY(attn_operand_check(v.name, value, err));
    ATTN_TRY(attn_operand_same_rank(&q, &k, err));
    ATTN_TRY(attn_operand_same_rank(&q, &v, err));
    ATTN_TRY(attn_operand_split(&k, in->layout, kv_heads, err));
    /* two key heads share a value head if their weights are subtracted */
    const size_t value_heads = in->subtract.pairs && kv_heads % 2 == 0 ? kv_heads / 2 : kv_heads;
    ATTN_TRY(attn_operand_split(&v, in->layout, value_heads, err));
    *d = (attn_attention_dims){.batch_rank = q.batch_rank,
                               .Hq = q.heads,
                               .Hkv = k.heads,
                               .L = q.rows,
                               .E = q.width,
                               .Ek = k.width,
                               .Ho = q.heads,
                               .Hv = k.heads,
                               .Ev = v.width,
                               .value_width = v.width};
    for (int a = 0; a < d->batch_rank; a++)
        d->batch[a] = in->query.dims[a];
    ATTN_TRY(merge_batch(d, &k, err));
    ATTN_TRY(merge_batch(d, &v, err));
    ATTN_TRY(resolve_score(in, d, plan, err));
    ATTN_TRY(expect_size("value", "the number of keys", v.rows, k.rows, "as key has", err));
    if (d->Hq != d->Hkv)
        ATTN_TRY(check_heads(in, d, err));
    if (mixes_weights(in))
        ATTN_TRY(attn_mix_weights_resolve(in, v.heads, d, err));
    else
        ATTN_TRY(expect_size("value", "the number of heads", v.heads, d->Hkv, "as key has", err));
    if (in->past_key.rank || in->past_value.rank)
        ATTN_TRY(resolve_past(in, d, err));
    if (!attn_size_add(d->past, k.rows, &d->S))
        return attn_fail(err, ATTN_ELIMIT, "past_key", "too long");
    if (in->position.kind != ATTN_POSITION_NONE && attn_position_encodes(in->position.kind))
        ATTN_TRY(resolve_encodings(in, key, value, d, err));
    const bool wide =
        in->query.dtype == ATTN_F64 || key->dtype == ATTN_F64 || value->dtype == ATTN_F64;
    d->result = wide ? ATTN_F64 : ATTN_F32;
    ATTN_TRY(resolve_kernels(in, d, err));
    ATTN_TRY(attn_normalizer_resolve(in, d, err));
    if (!d->normalizer) /* another normaliser needs whole rows of scores */
        attn_resolve_sparsity(in, d);
    ATTN_TRY(fill_results(in, d, err));
    d->scales = in->scales.rank != 0;
    if (in->sinks.rank)
        ATTN_TRY(attn_check_by_row("sinks", &in->sinks, d, err));
    if (d->scales)
        ATTN_TRY(attn_check_by_row("scale", &in->scales, d, err));
    d->grad_logsumexp = in->grad_logsumexp.rank != 0;
    if (d->grad_logsumexp)
        ATTN_TRY(attn_check_loss_gradient("grad_logsumexp", &in->grad_logsumexp, d->rows,
                                          d->rows_rank, err));
    if (attn_mask_spec_placed(&in->mask)) {
        const size_t own =
            in->position.kind || in->score_position.kind ? 0 : attn_sequence_positions_count(in);
        if (!attn_size_add(d->positions, attn_mask_position_numbers(&in->mask, d->B, d->S),
                           &d->positions) ||
            !attn_size_add(d->positions, own, &d->positions))
            d->positions = SIZE_MAX;
    }
    ATTN_TRY(attn_sequence_positions_read_by(in, in->projected || attn_position_reads(in), err));
    if (in->position.kind == ATTN_POSITION_ROTARY && in->position.axes.pairs.rank)
        ATTN_TRY(attn_rotary_axes_check(&in->position.axes, d->L, d->S, d->B, err));
    return attn_sequence_positions_check(in, d, err);
}

attn_status attn_attention_shape(const attn_inputs *in, attn_attention_dims *out, attn_error *err) {
    attn_attention_dims dims;
    attn_score_plan plan;
    ATTN_TRY(resolve_dims(in, &dims, &plan, err));
    *out = dims;
    return ATTN_OK;
}

/* --- the operation --- */

static attn_status add_encodings(const attn_attention *a, attn_arena *arena, attn_tensor *query,
                                 attn_tensor *key, attn_tensor *value, attn_error *err) {
    attn_encoding e = {.position = a->in.position,
                       .where = "position/table",
                       .dims = a->dims,
                       .query_positions = a->query_positions,
                       .key_positions = a->key_positions,
                       .layout = a->in.layout};
    const attn_tensor k = *key, v = *value;
    const attn_tensor *const parts[3] = {&a->in.query, &k, &v};
    attn_tensor *const to[3] = {query, key, value};
    for (int i = 0; i < 3; i++) {
        e.stream = attn_encoding_stream(parts, i);
        if (i == 2 && !a->in.value.rank)
            *value = *key;
        else
            ATTN_TRY(attn_encode(&e, i == 0, parts[i], arena, to[i], err));
    }
    return ATTN_OK;
}

static bool make_views(attn_attention *a, const attn_tensor *query, const attn_tensor *key,
                       const attn_tensor *value, attn_arena *arena) {
    const attn_inputs *in = &a->in;
    const attn_attention_dims *d = &a->dims;
    if (!attn_layout_view(a, query, in->layout, arena, &a->query) ||
        !attn_layout_view(a, key, in->layout, arena, &a->key) ||
        !attn_layout_view(a, value, in->layout, arena, &a->value))
        return false;
    if (in->layout == ATTN_BLD) {
        a->query.head = (ptrdiff_t)d->E * a->query.col;
        a->key.head = (ptrdiff_t)d->Ek * a->key.col;
        a->value.head = (ptrdiff_t)d->Ev * a->value.col;
    }
    if (d->past && (!attn_layout_view(a, &in->past_key, ATTN_BHLE, arena, &a->past_key) ||
                    !attn_layout_view(a, &in->past_value, ATTN_BHLE, arena, &a->past_value)))
        return false;
    a->score_query = a->query;
    a->score_key = a->key;
    a->score_past = d->past;
    a->pass_value = a->value;
    a->pass_past = d->past;
    const bool by_head = in->layout == ATTN_BHLE || d->factors;
    a->out_head = (ptrdiff_t)(by_head ? d->L * d->value_width : d->Ev);
    a->out_row = (ptrdiff_t)(by_head ? d->value_width : d->Hq * d->Ev);
    return true;
}

/* Makes the views of query, key, value and cache. If there are encodings, the function first adds
 * them to query, key and value. */
static attn_status open_views(attn_attention *a, attn_arena *arena, attn_error *err) {
    const attn_inputs *in = &a->in;
    attn_tensor query = in->query, key = in->key.rank ? in->key : query;
    attn_tensor value = in->value.rank ? in->value : key;
    if (a->dims.encoded)
        ATTN_TRY(add_encodings(a, arena, &query, &key, &value, err));
    ATTN_TAKEN(make_views(a, &query, &key, &value, arena), "the operation", err);
    return ATTN_OK;
}

static attn_status check_numbers(const attn_inputs *in, const attn_attention_dims *d,
                                 attn_error *err) {
    if (isinf(in->scale))
        return attn_fail(err, ATTN_EARG, "scale", "expected a finite number");
    if (!isfinite(in->softcap) || in->softcap < 0)
        return attn_fail(err, ATTN_EARG, "softcap",
                         "expected a positive number, or 0 for none; found %g", in->softcap);
    if (!(in->dropout_p >= 0 && in->dropout_p < 1))
        return attn_fail(err, ATTN_EARG, "dropout_p", "expected a probability in [0, 1), found %g",
                         in->dropout_p);
    if (in->mask.fill != ATTN_FILL_HIDE && d->result != ATTN_F64 &&
        fabs(in->mask.fill_value) > FLT_MAX)
        return attn_fail(err, ATTN_EARG, "mask_fill/value",
                         "expected a number that %s holds, found %g; for all of float64 send "
                         "float64 inputs",
                         attn_dtype_name(d->result), in->mask.fill_value);
    return ATTN_OK;
}

attn_status attn_attention_mask_new(const attn_mask_spec *spec, const attn_attention_dims *d,
                                    attn_arena *arena, attn_mask **out, attn_error *err) {
    attn_mask_shape shape = {.batch_rank = d->batch_rank,
                             .has_heads = d->has_heads,
                             .H = d->Hq,
                             .L = d->L,
                             .S = d->S,
                             .past = d->past};
    memcpy(shape.batch, d->batch, sizeof shape.batch);
    return attn_mask_new(spec, &shape, arena, out, err);
}

/* Reads a number for each query head from t [Hq], or from t [1], into *out. */
static attn_status read_heads(const attn_attention *a, const attn_tensor *t, const char *where,
                              attn_arena *arena, const double **out, attn_error *err) {
    const ptrdiff_t stride = t->dims[0] == 1 ? 0 : t->strides[0];
    double *numbers = attn_arena_zeroed(arena, a->dims.Hq, sizeof *numbers);
    ATTN_TAKEN(numbers, "the operation", err);
    attn_widen_f64(numbers, t->data, t->dtype, stride, a->dims.Hq);
    for (size_t h = 0; h < a->dims.Hq; h++)
        if (!isfinite(numbers[h]))
            return attn_fail(err, ATTN_ENONFINITE, where, "expected finite numbers");
    *out = numbers;
    return ATTN_OK;
}

/* Returns the factor of the scores if the caller gives none. Disentangled attention adds one or two
 * terms to q . k, each with the variance of q . k. */
static double default_scale(const attn_inputs *in, const attn_attention_dims *d) {
    size_t terms = 1;
    if (attn_score_form_of(in->score.kind)->unit_scale)
        return 1;
    if (attn_score_position(in)->kind == ATTN_POSITION_DISENTANGLED)
        terms += (size_t)(d->relative_keys > 0) + (size_t)(d->relative_queries > 0);
    return 1 / sqrt((double)((d->E ? d->E : 1) * terms));
}

attn_status attn_attention_new(const attn_inputs *in, attn_arena *arena, attn_attention **out,
                               attn_error *err) {
    attn_attention *a = attn_arena_take(arena, sizeof *a);
    ATTN_TAKEN(a, "the operation", err);
    attn_inputs_copy(&a->in, in);
    memset(&a->kernels, 0, sizeof *a - offsetof(attn_attention, kernels));
    ATTN_TRY(resolve_dims(&a->in, &a->dims, &a->plan, err));
    ATTN_TRY(check_numbers(in, &a->dims, err));
    const attn_attention_dims *d = &a->dims;
    a->kernels = attn_kernels_with(d->isa, d->precision, d->tanh_score);
    a->scale = !isnan(in->scale) ? in->scale : default_scale(in, d);
    ATTN_TRY(attn_attention_mask_new(&in->mask, d, arena, &a->mask, err));
    ATTN_TRY(attn_sequence_positions_read(&in->query_positions, "query_positions", a->mask->offset,
                                          arena, &a->query_positions, err));
    ATTN_TRY(attn_sequence_positions_read(&in->key_positions, "key_positions", NULL, arena,
                                          &a->key_positions, err));
    ATTN_TRY(open_views(a, arena, err));
    double most;
    if (in->sinks.rank)
        ATTN_TRY(attn_read_by_row(a, "sinks", &in->sinks, false, arena, &a->sinks, &most, err));
    if (in->scales.rank)
        ATTN_TRY(
            attn_read_by_row(a, "scale", &in->scales, true, arena, &a->scales, &a->scale, err));
    if (d->normalizer_bias)
        ATTN_TRY(read_heads(a, &in->normalizer.bias, "normalizer/bias", arena, &a->normalizer_bias,
                            err));
    if (in->position.kind || in->score_position.kind)
        ATTN_TRY(attn_position_new(a, arena, err));
    if (d->transforms)
        ATTN_TRY(attn_score_rows_new(a, arena, err));
    if (d->factors)
        ATTN_TRY(attn_mix_values(a, arena, err));
    *out = a;
    return ATTN_OK;
}

const attn_attention_dims *attn_attention_dims_of(const attn_attention *a) {
    return &a->dims;
}
const attn_mask *attn_attention_mask(const attn_attention *a) {
    return a->mask;
}
double attn_attention_scale(const attn_attention *a) {
    return a->scale;
}
const char *attn_attention_kernel(const attn_attention *a) {
    return a->kernels->name;
}
