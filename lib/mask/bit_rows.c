#include "mask/bit_rows.h"

#include "base/try.h"
#include "mask/layer_view.h"

/* Sets *keys to the bytes of the layer as uint8, with a last axis that counts keys. */
static attn_status keys_of(const attn_mask_layer *layer, size_t S, attn_tensor *keys,
                           attn_error *err) {
    const attn_tensor *t = &layer->values;
    const int last = t->rank - 1;
    *keys = *t;
    if (t->dtype == ATTN_BITS) {
        keys->dtype = ATTN_U8;
        return ATTN_OK;
    }
    if (t->dtype != ATTN_U8 || t->rank < 2 || t->dims[last] != (S + 7) / 8 || t->strides[last] != 1)
        return attn_fail(err, ATTN_ESHAPE, layer->where,
                         "bits for %zu keys are rows of %zu bytes, found %s of rank %d", S,
                         (S + 7) / 8, attn_dtype_name(t->dtype), t->rank);
    keys->dims[last] = S;
    return ATTN_OK;
}

attn_status attn_bits_add(attn_mask *m, const attn_mask_layer *layer, attn_arena *arena,
                          attn_error *err) {
    const size_t S = m->shape.S;
    attn_mask_part *part = &m->keep[m->keep_count];
    attn_mask_layer rows = *layer;
    ATTN_TRY(keys_of(layer, S, &rows.values, err));
    ATTN_TRY(attn_weights_view(m, &rows, arena, &part->view, err));
    if (rows.values.dims[rows.values.rank - 1] != S)
        return attn_fail(err, ATTN_ESHAPE, layer->where,
                         "a row of bits has a bit for each of the %zu keys, found 1", S);
    part->layer = layer;
    part->bits = true;
    part->flipped = layer->semantics == ATTN_SEM_HIDE;
    part->lowest = 0;
    m->keep_count++;
    return layer->kind == ATTN_LAYER_BITS ? ATTN_OK
                                          : attn_bits_check(&layer->values, S, layer->where, err);
}
