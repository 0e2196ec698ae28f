/* The compiled mask: an interval rule, layers of visibility bytes, layers of numbers to add. */
#ifndef ATTN_MASK_PRIVATE_H
#define ATTN_MASK_PRIVATE_H

#include <attn/mask.h>

#include "base/view.h"
#include "kernels/kernels.h"
#include "mask/pattern.h"

/* One compiled layer, broadcast by strides of 0. `layer` is the spec's. */
typedef struct attn_mask_part {
    attn_view view; /* of bits: bytes, whose column stride counts keys */
    const attn_mask_layer *layer;
    bool bits; /* one bit a key, not one byte */
} attn_mask_part;

struct attn_mask {
    attn_mask_layer *layers; /* those of the spec */
    attn_mask_part *keep;    /* bytes, 1 = visible */
    attn_mask_part *bias;    /* numbers; -infinity hides */
    const attn_pattern **patterns;
    size_t layer_count, keep_count, bias_count, pattern_count;
    attn_offset stated_offset;
    attn_fill fill;
    double fill_value;
    attn_mask_shape shape;
    size_t B;
    const int64_t *offset;  /* [B]: row i sits at key position i + offset */
    const int64_t *lengths; /* [B] or NULL: keys from here on are hidden */
    int64_t left, right;    /* other keys seen to either side; INT64_MAX = open */
    bool same_heads, same_batches;
};

/* Bytes that each layer takes in the lists, and an upper bound of a mask without its tensors. */
enum {
    ATTN_MASK_LAYER_BYTES =
        sizeof(attn_mask_layer) + 2 * sizeof(attn_mask_part) + sizeof(const attn_pattern *),
    ATTN_MASK_BYTES = sizeof(attn_mask) + ATTN_MASK_LAYERS * ATTN_MASK_LAYER_BYTES
};

/* The compiled part of layer `i` of the spec, or NULL (causal, window and lengths have none). */
const attn_mask_part *attn_mask_part_of(const attn_mask *m, size_t i);
/* Does the part hide cell (b, h, i, j)? Numbers hide from `floor` down: -INFINITY, or a large
 * negative number to count finite fills, too. */
bool attn_mask_part_hides(const attn_mask_part *part, double floor, size_t b, size_t h, size_t i,
                          size_t j);

/* What happens to cells j0 … j0 + n - 1 of row i: fills edit's bias, keep, lo, hi, fill (not scale
 * and softcap). `bias` points at n elements of elem bytes (4 float, 8 double) and `keep` at n bytes
 * of scratch, used where the mask's own memory cannot be pointed at. */
void attn_mask_edit(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                    size_t elem, void *bias, uint8_t *keep, attn_edit *edit);

/* Can a layer other than the interval hide a key (by bytes or by -infinity)? */
static inline bool attn_mask_hides_cells(const attn_mask *m) {
    return m->keep_count || m->bias_count || m->pattern_count;
}

/* Does every row's interval hold all keys? */
static inline bool attn_mask_is_open(const attn_mask *m) {
    return !m->lengths && m->left == INT64_MAX && m->right == INT64_MAX;
}

/* Which keys have a finite score: attn_mask_keep, or more under a finite fill. */
void attn_mask_seen(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                    uint8_t *seen);
/* Has row i such a key? */
bool attn_mask_sees_any(const attn_mask *m, size_t b, size_t h, size_t i);

/* Do patterns hide all of keys j0 … j0 + n - 1 from all of rows i … i + rows - 1? (Not under a
 * finite fill.) */
bool attn_mask_tile_hidden(const attn_mask *m, size_t b, size_t i, size_t rows, size_t j0,
                           size_t n);

#endif
