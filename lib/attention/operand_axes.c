#include "attention/operand_axes.h"

#include <attn/text.h>
#include <stdint.h>

#include "base/try.h"

attn_status attn_operand_check(const char *name, const attn_tensor *t, attn_error *err) {
    size_t count;
    if (t->rank == 1 && t->dims[0] == 0)
        return attn_fail(
            err, ATTN_ESHAPE, name,
            "expected a tensor of rank 2 or more, found an empty list: to send no "
            "rows, name the shape, {\"shape\": [0, E], \"data\": []} with the width E");
    if (t->rank < 2 || t->rank > ATTN_MAX_RANK - 1)
        return attn_fail(err, ATTN_ESHAPE, name,
                         "expected a tensor of rank 2 ([L, E]), 3 ([B, L, E]), 4 ([B, H, L, E]) or "
                         "up to %d, found %s",
                         ATTN_MAX_RANK - 1, attn_rank_text(t));
    if ((unsigned)t->dtype > ATTN_F64)
        return attn_fail(err, ATTN_EDTYPE, name,
                         "expected float32, float16, bfloat16 or float64, found %s",
                         attn_dtype_name(t->dtype));
    if (!attn_tensor_count(t, &count) || count > PTRDIFF_MAX / 8)
        return attn_fail(err, ATTN_ELIMIT, name, "too many elements");
    return ATTN_OK;
}

/* Fills the members of *o after `t`, for the layout [.., L, heads * width]. */
static attn_status split_bld(attn_operand *o, size_t heads, attn_error *err) {
    const attn_tensor *t = o->t;
    const size_t D = t->dims[t->rank - 1];
    if (!heads)
        return attn_fail(err, ATTN_EARG, "num_heads",
                         "layout BLD needs num_heads, the number of heads in the last axis");
    if (D % heads)
        return attn_fail(err, ATTN_ESHAPE, o->name,
                         "the last axis, %zu, is not a multiple of the %zu heads", D, heads);
    o->batch_rank = t->rank - 2;
    o->heads = heads;
    o->rows = t->dims[t->rank - 2];
    o->width = D / heads;
    return ATTN_OK;
}

attn_status attn_operand_split(attn_operand *o, attn_layout layout, size_t heads, attn_error *err) {
    const attn_tensor *t = o->t;
    const int r = t->rank;
    if ((unsigned)layout > ATTN_BLD)
        return attn_fail(err, ATTN_EARG, "layout", "there is no layout of the number %d",
                         (int)layout);
    if (layout == ATTN_BLD)
        return split_bld(o, heads, err);
    if (layout == ATTN_BLHE && r < 3)
        return attn_fail(err, ATTN_ESHAPE, o->name,
                         "layout BLHE needs rank 3 ([L, H, E]) or more, found %s",
                         attn_rank_text(o->t));
    o->width = t->dims[r - 1];
    if (layout == ATTN_BLHE) {
        o->batch_rank = r - 3;
        o->heads = t->dims[r - 2];
        o->rows = t->dims[r - 3];
    } else {
        o->batch_rank = r > 3 ? r - 3 : r - 2;
        o->heads = r > 3 ? t->dims[r - 3] : 1;
        o->rows = t->dims[r - 2];
    }
    if (heads && heads != o->heads)
        return attn_fail(err, ATTN_ESHAPE, o->name,
                         "the number of heads was stated as %zu, found %zu", heads, o->heads);
    return ATTN_OK;
}

attn_status attn_operand_same_rank(const attn_operand *q, const attn_operand *o, attn_error *err) {
    char have[128], need[128];
    if (o->t->rank == q->t->rank)
        return ATTN_OK;
    attn_shape_text(q->t->dims, q->t->rank, need, sizeof need);
    attn_found_text(o->t, have, sizeof have);
    return attn_fail(
        err, ATTN_ESHAPE, o->name,
        "%s has shape %s and query %s: both must have the same rank. Give the missing "
        "axis the size 1, e.g. one decoder state [8, 512] against [8, 20, 512] is sent as "
        "[8, 1, 512]",
        o->name, have, need);
}

attn_status attn_operand_split_cache(attn_operand *o, const attn_attention_dims *d,
                                     attn_error *err) {
    const attn_tensor *t = o->t;
    ATTN_TRY(attn_operand_check(o->name, t, err));
    if (t->rank != d->batch_rank + 3 && t->rank != d->batch_rank + 2)
        return attn_fail(err, ATTN_ESHAPE, o->name,
                         "a cache has the shape [batch axes, Hkv, P, E], which is rank %d here; "
                         "found %s",
                         d->batch_rank + 3, attn_rank_text(t));
    o->batch_rank = d->batch_rank;
    o->heads = t->rank == d->batch_rank + 3 ? t->dims[t->rank - 3] : 1;
    o->rows = t->dims[t->rank - 2];
    o->width = t->dims[t->rank - 1];
    return ATTN_OK;
}
