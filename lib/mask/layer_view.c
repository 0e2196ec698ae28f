#include "mask/layer_view.h"

#include <stdio.h>
#include <string.h>

#include "base/try.h"

/* --- errors --- */

/* Returns the error of a tensor that does not broadcast to the shape `want`. `axis` is the wrong
 * axis, counted from the right. If `axis` is below 0, the tensor has too many axes. */
static attn_status shape_error(const attn_mask_layer *layer, int axis, const size_t *want,
                               int want_rank, attn_error *err) {
    char have[128], need[128], size[32] = "";
    const attn_tensor *t = &layer->values;
    const char *what = t->rank == 1 && t->dims[0] == 0 ? "" : "shape ";
    attn_found_text(t, have, sizeof have);
    attn_shape_text(want, want_rank, need, sizeof need);
    if (axis < 0)
        return attn_fail(err, ATTN_ESHAPE, layer->where,
                         "%s%s has more axes than %s, to which it must broadcast", what, have,
                         need);
    if (want[want_rank - axis] != 1)
        snprintf(size, sizeof size, " or %zu", want[want_rank - axis]);
    return attn_fail(err, ATTN_ESHAPE, layer->where,
                     "%s%s does not broadcast to %s: axis %d from the right is %zu, expected 1%s",
                     what, have, need, axis, t->dims[t->rank - axis], size);
}

/* If a mask [batch.., L, S] or [batch.., S] lacks axes of the weights, appends to the text of the
 * error the shape that the caller should send. */
static void say_missing_axes(const attn_mask_shape *s, const size_t *want, int want_rank,
                             const attn_tensor *t, attn_error *err) {
    const int n = s->batch_rank, missing = want_rank - t->rank, between = want_rank - n - 1;
    size_t dims[ATTN_MAX_RANK + 3], used = err ? strlen(err->text) : 0;
    char shape[128];
    if (!err || n == 0 || missing < 1 || missing > between)
        return;
    for (int a = 0; a < want_rank; a++) {
        dims[a] = a < n ? t->dims[a] : a < n + missing ? 1 : t->dims[a - missing];
        if (dims[a] != 1 && dims[a] != want[a])
            return;
    }
    const char *axes = missing < between ? "L, S]" : "S]";
    snprintf(err->text + used, sizeof err->text - used,
             ". If its axes are [%s, %s, send [%s, %s%s, here %s", n > 1 ? "batch.." : "B", axes,
             n > 1 ? "batch.." : "B", missing > 1 ? "1, 1, " : "1, ", axes,
             attn_shape_text(dims, want_rank, shape, sizeof shape));
}

/* If the shape of a mask is one that other programs use, appends to the text of the error the shape
 * that the caller should send. These shapes are known:
 *   - [.., L, L] beside a cache: the new keys alone;
 *   - [B * H, L, S] of nn.MultiheadAttention;
 *   - [W, L, S] with the last of several batch axes, such as the windows of Swin. */
static void say_known_shape(const attn_mask_shape *s, const attn_tensor *t, attn_error *err) {
    const int n = s->batch_rank;
    const size_t used = err ? strlen(err->text) : 0, room = err ? sizeof err->text - used : 0;
    const size_t rows = t->rank > 1 ? t->dims[t->rank - 2] : 1, cols = t->dims[t->rank - 1];
    size_t B = 1;
    for (int a = 0; a < n; a++)
        B *= s->batch[a]; /* attn_mask_new has checked that the product does not overflow */
    if (!err)
        return;
    if (s->past && cols == s->S - s->past && (rows == 1 || rows == s->L))
        snprintf(err->text + used, room,
                 ". The last axis has all keys, the %zu cached ones first: send [.., %zu, %zu]",
                 s->past, rows, s->S);
    else if (t->rank == 3 && s->has_heads && n == 1 && rows == s->L && cols == s->S && s->H > 1 &&
             t->dims[0] == B * s->H)
        snprintf(err->text + used, room,
                 ". If its axes are [B * H, L, S], send [B, H, L, S], here [%zu, %zu, %zu, %zu]", B,
                 s->H, rows, cols);
    else if (t->rank == 3 && s->has_heads && n > 1 && t->dims[0] == s->batch[n - 1])
        snprintf(err->text + used, room,
                 ". If its first axis is the last batch axis, send [%zu, 1, %zu, %zu]", t->dims[0],
                 rows, cols);
}

/* --- views --- */

/* Computes the strides with which the layer's tensor broadcasts to the shape `want`, by NumPy's
 * rules. A broadcast axis gets the stride 0. Additional axes of length 1 in front are ignored. */
static attn_status broadcast_strides(const attn_mask_layer *layer, const size_t *want,
                                     int want_rank, ptrdiff_t *strides, attn_error *err) {
    const attn_tensor *t = &layer->values;
    for (int a = 0; a < t->rank - want_rank; a++)
        if (t->dims[a] != 1)
            return shape_error(layer, -1, want, want_rank, err);
    for (int a = 1; a <= want_rank; a++) {
        strides[want_rank - a] = 0;
        if (a > t->rank)
            continue;
        size_t dim = t->dims[t->rank - a];
        if (dim != want[want_rank - a] && dim != 1)
            return shape_error(layer, a, want, want_rank, err);
        if (dim != 1)
            strides[want_rank - a] = t->strides[t->rank - a];
    }
    return ATTN_OK;
}

/* Removes or adds a head axis of length 1, so that a mask has the axes of the weights:
 *   - If the weights have no head axis, a mask [batch.., 1, L, S] loses the axis of length 1. Other
 *     programs make the padding mask [B, 1, 1, S] for any number of heads.
 *   - If the weights have one head, a mask [batch.., L, S] gets a head axis. But if the last batch
 *     axis of the mask has length 1, NumPy's rules take this axis for the head axis, and the mask
 *     stays as it is. */
static attn_mask_layer with_heads_of(const attn_mask_layer *layer, const attn_mask_shape *s) {
    attn_mask_layer out = *layer;
    attn_tensor *t = &out.values;
    const int at = t->rank - 3, n = s->batch_rank;
    if (layer->kind != ATTN_LAYER_VALUES && layer->kind != ATTN_LAYER_BITS &&
        layer->kind != ATTN_LAYER_TOP_K)
        return out;
    if (!s->has_heads && t->rank == n + 3 && t->dims[at] == 1) {
        memmove(&t->dims[at], &t->dims[at + 1], 2 * sizeof *t->dims);
        memmove(&t->strides[at], &t->strides[at + 1], 2 * sizeof *t->strides);
        t->rank--;
    } else if (s->has_heads && s->H == 1 && n > 0 && t->rank == n + 2 && t->rank < ATTN_MAX_RANK &&
               t->dims[at] != 1) {
        memmove(&t->dims[n + 1], &t->dims[n], 2 * sizeof *t->dims);
        memmove(&t->strides[n + 1], &t->strides[n], 2 * sizeof *t->strides);
        t->dims[n] = 1;
        t->strides[n] = 0;
        t->rank++;
    }
    return out;
}

attn_status attn_weights_view(attn_mask *m, const attn_mask_layer *layer, attn_arena *arena,
                              attn_view *view, attn_error *err) {
    const attn_mask_shape *s = &m->shape;
    const attn_mask_layer fitted = with_heads_of(layer, s);
    const int n = s->batch_rank;
    size_t want[ATTN_MAX_RANK + 3];
    ptrdiff_t strides[ATTN_MAX_RANK + 3];
    int rank = n;
    memcpy(want, s->batch, (size_t)n * sizeof *want);
    if (s->has_heads)
        want[rank++] = s->H;
    want[rank++] = s->L;
    want[rank++] = s->S;
    attn_status status = broadcast_strides(&fitted, want, rank, strides, err);
    if (status != ATTN_OK) {
        say_missing_axes(s, want, rank, &layer->values, err);
        say_known_shape(s, &layer->values, err);
        return status;
    }
    *view = (attn_view){.data = fitted.values.data, .dtype = fitted.values.dtype};
    view->batch = attn_view_batches(arena, s->batch, n, strides);
    view->head = s->has_heads ? strides[n] : 0;
    view->row = strides[rank - 2];
    view->col = strides[rank - 1];
    for (int a = 0; a < n; a++)
        m->same_batches &= strides[a] == 0;
    m->same_heads &= view->head == 0;
    return view->batch ? ATTN_OK : attn_no_memory(err, "the mask");
}

attn_status attn_padding_view(attn_mask *m, const attn_mask_layer *layer, attn_arena *arena,
                              attn_view *view, attn_error *err) {
    const attn_mask_shape *s = &m->shape;
    const attn_tensor *t = &layer->values;
    size_t want[ATTN_MAX_RANK + 1];
    ptrdiff_t strides[ATTN_MAX_RANK + 1];
    int n = s->batch_rank;
    memcpy(want, s->batch, (size_t)n * sizeof *want);
    if (n != 1 && t->rank == 2) {
        n = 1;
        want[0] = m->B;
    }
    want[n] = s->S;
    ATTN_TRY(broadcast_strides(layer, want, n + 1, strides, err));
    *view = (attn_view){.data = t->data, .dtype = t->dtype, .col = strides[n]};
    view->batch = attn_view_batches(arena, want, n, strides);
    for (int a = 0; a < n; a++)
        m->same_batches &= strides[a] == 0;
    return view->batch ? ATTN_OK : attn_no_memory(err, "the mask");
}
