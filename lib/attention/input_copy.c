/* The copy of its inputs that an operation keeps. To save time, it omits unused parts: mask layers
 * beyond mask.count and positions without a kind. These are four fifths of the inputs. */
#include <stddef.h>
#include <string.h>

#include "attention/resolved.h"

/* Copies a position. If it has no kind, nothing reads its tensors, so zeros take their place, which
 * is faster. */
static void copy_position(attn_position *to, const attn_position *from) {
    if (from->kind)
        *to = *from;
    else
        memset(to, 0, sizeof *to);
}

/* Copies the members from offset `first` to offset `end`. */
static void copy_members(attn_inputs *to, const attn_inputs *from, size_t first, size_t end) {
    memcpy((char *)to + first, (const char *)from + first, end - first);
}

_Static_assert(offsetof(attn_inputs, score_position) ==
                       offsetof(attn_inputs, position) + sizeof(attn_position) &&
                   offsetof(attn_inputs, normalizer) ==
                       offsetof(attn_inputs, score_position) + sizeof(attn_position),
               "attn_inputs_copy copies all members");

void attn_inputs_copy(attn_inputs *to, const attn_inputs *from) {
    const attn_mask_spec *mask = &from->mask;
    const size_t layers = mask->count < ATTN_MASK_LAYERS ? mask->count : ATTN_MASK_LAYERS;
    copy_members(to, from, 0, offsetof(attn_inputs, position));
    copy_position(&to->position, &from->position);
    copy_position(&to->score_position, &from->score_position);
    copy_members(to, from, offsetof(attn_inputs, normalizer),
                 offsetof(attn_inputs, mask.layers) + layers * sizeof *mask->layers);
    copy_members(to, from, offsetof(attn_inputs, mask.count), sizeof *from);
}
