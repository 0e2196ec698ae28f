/* v . tanh(W [k ; q]): Luong, Pham and Manning, 2015, equation 8, "concat". W's first columns
 * belong to the key, the others to the query, so it is the additive score with W taken apart. */
#include <stdint.h>

#include "attention/score.h"

/* Columns from … of a matrix. */
static attn_tensor columns(const attn_tensor *w, size_t from, size_t count) {
    attn_tensor part = *w;
    part.dims[1] = count;
    part.data =
        (char *)w->data + (ptrdiff_t)from * w->strides[1] * (ptrdiff_t)attn_dtype_size(w->dtype);
    return part;
}

static attn_status plan(const attn_score *score, size_t Eq, size_t Ek, attn_score_plan *out,
                        attn_error *err) {
    size_t both;
    if (!attn_size_add(Ek, Eq, &both))
        return attn_fail(err, ATTN_ELIMIT, "score/w", "too wide");
    attn_status status = attn_score_parameter(&score->w, "w", 2, SIZE_MAX, both, err);
    if (status != ATTN_OK)
        return status;
    *out = (attn_score_plan){.width = score->w.dims[0],
                             .query_map = columns(&score->w, Ek, Eq),
                             .key_map = columns(&score->w, 0, Ek),
                             .v = score->v,
                             .query_from = &score->w,
                             .key_from = &score->w,
                             .query_column = Ek};
    return attn_score_parameter(&score->v, "v", 1, out->width, 0, err);
}

const attn_score_form attn_score_form_concat = {.unit_scale = true, .plan = plan};
