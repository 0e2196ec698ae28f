/* Finds out from the layers of a mask, without reading its tensors, whether most keys are hidden
 * from each query, and where the visible keys lie. The plan of a pass depends on this (plan.c). */
#include "attention/resolved.h"

/* Sets d->stride and d->near if the strided steps can compute the operation (strided.c) and save at
 * least half of the cells. The mask must have one strided pattern. Its other layers may only bound
 * the interval of keys that a row sees. Apart from the mask, nothing may depend on the position of
 * a key, so there may be no bias by distance and no dropout. */
static void resolve_stride(const attn_inputs *in, attn_attention_dims *d) {
    enum {
        BLOCK = 64, /* rows of a block */
        ROWS = 4    /* fewest rows of a class: rows with one remainder modulo the stride */
    };
    const attn_pattern *strided = NULL;
    for (size_t l = 0; l < in->mask.count && l < ATTN_MASK_LAYERS; l++) {
        const attn_mask_layer *layer = &in->mask.layers[l];
        const bool pattern = layer->kind == ATTN_LAYER_PATTERN;
        if (layer->by_head)
            return;
        if (pattern && layer->pattern.kind == ATTN_PATTERN_STRIDED && !strided)
            strided = &layer->pattern;
        else if (pattern ? layer->pattern.kind != ATTN_PATTERN_LOCAL &&
                               layer->pattern.kind != ATTN_PATTERN_BLOCK &&
                               layer->pattern.kind != ATTN_PATTERN_BLOCK_CAUSAL
                         : layer->kind != ATTN_LAYER_CAUSAL && layer->kind != ATTN_LAYER_WINDOW &&
                               layer->kind != ATTN_LAYER_LENGTHS)
            return;
    }
    if (!strided || attn_mask_spec_placed(&in->mask) || strided->stride < 1 || strided->local < 0 ||
        in->mask.fill != ATTN_FILL_HIDE || in->dropout_p > 0 ||
        (in->position.kind && in->position.kind != ATTN_POSITION_ROTARY) || in->score_position.kind)
        return;
    const double S = (double)d->S, near = BLOCK + 2 * (double)strided->local;
    if ((double)d->L < ROWS * (double)strided->stride ||
        2 * (S / (double)strided->stride + near) > S)
        return;
    d->stride = strided->stride;
    d->near = strided->local;
}

static void lower_bound_to(int64_t *bound, int64_t by) {
    if (by >= 0 && by < *bound)
        *bound = by;
}

/* Sets sides[0] and sides[1] to how many keys, at most, a query of any head sees to the left and to
 * the right of its own position, as a causal layer, a window or a local pattern says; -1: no
 * bound. */
static void sides_of(const attn_mask_layer *layer, int64_t sides[2]) {
    const bool window = layer->kind == ATTN_LAYER_WINDOW;
    const attn_head_keys one = {{layer->window[0], layer->window[1]}, layer->pattern};
    const attn_head_keys *all = layer->by_head ? layer->by_head : &one;
    sides[0] = -1;
    sides[1] = layer->kind == ATTN_LAYER_CAUSAL ? 0 : -1;
    if (!window && layer->kind != ATTN_LAYER_PATTERN)
        return;
    for (size_t h = 0; h < (layer->by_head ? layer->head_count : 1); h++)
        for (int side = 0; side < 2; side++) {
            const attn_pattern *p = &all[h].pattern;
            const int64_t radius = p->kind == ATTN_PATTERN_LOCAL ? p->radius : -1;
            const int64_t own = window ? all[h].window[side] : radius;
            const bool wider = own < 0 || (sides[side] >= 0 && own > sides[side]);
            sides[side] = h == 0 || wider ? own : sides[side];
        }
}

/* Sets d->reach and d->first_keys. Each layer hides keys by itself, so the narrowest layer decides.
 * Causal layers, windows and local patterns bound the keys to the left and to the right of a query;
 * these bounds are combined. */
static void resolve_reach(const attn_inputs *in, attn_attention_dims *d) {
    const int64_t none = INT64_MAX / 4;
    int64_t left = none, right = none, reach = none, first = 0;
    if (d->stride)
        left = right = d->near;
    for (size_t l = 0; l < in->mask.count && l < ATTN_MASK_LAYERS;
         l = attn_mask_spec_next(&in->mask, l)) {
        const attn_mask_layer *layer = &in->mask.layers[l];
        const attn_pattern *p = &layer->pattern;
        const bool pattern = layer->kind == ATTN_LAYER_PATTERN && !layer->by_head;
        int64_t sides[2];
        if (attn_mask_spec_placed(&in->mask))
            continue;
        sides_of(layer, sides);
        lower_bound_to(&left, sides[0]);
        lower_bound_to(&right, sides[1]);
        if (pattern && p->kind == ATTN_PATTERN_BLOCK && p->size < reach) {
            reach = p->size;
            first = 0;
        }
        if (pattern && p->kind == ATTN_PATTERN_GLOBAL && p->local < none / 2 &&
            p->num_keys < (int64_t)d->S && 2 * p->local + 1 < reach) {
            reach = 2 * p->local + 1;
            first = p->num_keys;
        }
    }
    if (left < none && right < none && left + right + 1 <= reach) {
        reach = left + right + 1;
        first = 0;
    }
    if (in->mask.fill != ATTN_FILL_HIDE || reach < 1 || first < 0 || (uint64_t)reach >= d->S)
        return;
    d->reach = (size_t)reach;
    d->first_keys = (size_t)first;
}

void attn_resolve_sparsity(const attn_inputs *in, attn_attention_dims *d) {
    resolve_stride(in, d);
    resolve_reach(in, d);
}
