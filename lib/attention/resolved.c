/* Turns inputs into the resolved operation: canonical views, the compiled mask, the scale, the
 * kernel table, sinks and positions. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "attention/operands.h"

static bool make_views(attn_attention *a, attn_arena *arena) {
    const attn_inputs *in = &a->in;
    const attn_attention_dims *d = &a->dims;
    const attn_tensor *key = in->key.rank ? &in->key : &in->query;
    const attn_tensor *value = in->value.rank ? &in->value : key;
    if (!attn_layout_view(a, &in->query, in->layout, arena, &a->query) ||
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
    a->out_head = (ptrdiff_t)(in->layout == ATTN_BHLE ? d->L * d->Ev : d->Ev);
    a->out_row = (ptrdiff_t)(in->layout == ATTN_BHLE ? d->Ev : d->Hq * d->Ev);
    return true;
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

static attn_status read_sinks(attn_attention *a, attn_arena *arena, attn_error *err) {
    const attn_tensor *t = &a->in.sinks;
    if (t->rank != 1 || t->dims[0] != a->dims.Hq)
        return attn_fail(err, ATTN_ESHAPE, "sinks", "expected one logit a query head, shape [%zu]",
                         a->dims.Hq);
    double *sinks = attn_arena_zeroed(arena, a->dims.Hq, sizeof *sinks);
    if (!sinks)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the operation");
    attn_widen_f64(sinks, t->data, t->dtype, t->strides[0], a->dims.Hq);
    for (size_t h = 0; h < a->dims.Hq; h++)
        if (!isfinite(sinks[h]))
            return attn_fail(err, ATTN_ENONFINITE, "sinks", "expected finite numbers");
    a->sinks = sinks;
    return ATTN_OK;
}

/* --- the operation --- */

/* Copies the inputs, and zeroes the members that attn_attention_resolve does not write. It leaves
 * out unused slots for mask layers, which are two thirds of the inputs. */
static void start(attn_attention *a, const attn_inputs *in) {
    const attn_mask_spec *mask = &in->mask;
    const size_t layers = mask->count < ATTN_MASK_LAYERS ? mask->count : ATTN_MASK_LAYERS;
    const size_t before = offsetof(attn_inputs, mask.layers) + layers * sizeof *mask->layers;
    const size_t after = offsetof(attn_inputs, mask.count);
    memcpy(&a->in, in, before);
    memcpy((char *)&a->in + after, (const char *)in + after, sizeof *in - after);
    memset(&a->kernels, 0, sizeof *a - offsetof(attn_attention, kernels));
}

attn_status attn_attention_new(const attn_inputs *in, attn_arena *arena, attn_attention **out,
                               attn_error *err) {
    attn_attention *a = attn_arena_take(arena, sizeof *a);
    if (!a)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the operation");
    start(a, in);
    attn_status status = attn_attention_resolve(&a->in, &a->dims, &a->plan, err);
    if (status == ATTN_OK)
        status = check_numbers(in, &a->dims, err);
    if (status != ATTN_OK)
        return status;
    const attn_attention_dims *d = &a->dims;
    a->kernels = attn_kernels_with(d->isa, d->precision, d->tanh_score);
    const bool unit = attn_score_form_of(in->score.kind)->unit_scale;
    a->scale = !isnan(in->scale) ? in->scale : unit ? 1 : 1 / sqrt((double)(d->E ? d->E : 1));
    if (!make_views(a, arena))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the operation");
    attn_mask_shape shape = {.batch_rank = d->batch_rank,
                             .has_heads = d->has_heads,
                             .H = d->Hq,
                             .L = d->L,
                             .S = d->S,
                             .past = d->past};
    memcpy(shape.batch, d->batch, sizeof shape.batch);
    status = attn_mask_new(&in->mask, &shape, arena, &a->mask, err);
    if (status == ATTN_OK && in->sinks.rank)
        status = read_sinks(a, arena, err);
    if (status == ATTN_OK && in->position.kind != ATTN_POSITION_NONE)
        status = attn_position_new(a, arena, err);
    if (status == ATTN_OK && d->transforms)
        status = attn_score_rows_new(a, arena, err);
    if (status == ATTN_OK)
        *out = a;
    return status;
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
