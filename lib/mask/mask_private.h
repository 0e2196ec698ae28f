/* The compiled mask: an interval of keys for each row, layers of visibility bytes, and layers of
 * numbers that are added to scores. */
#ifndef ATTN_MASK_PRIVATE_H
#define ATTN_MASK_PRIVATE_H

#include <attn/mask.h>

#include "base/view.h"
#include "kernels/kernels.h"
#include "mask/pattern.h"

/* One compiled layer, which is broadcast by strides of 0. `layer` points into the specification. */
typedef struct attn_mask_part {
    attn_view view; /* of packed bits: a view of bytes, whose column stride counts keys */
    const attn_mask_layer *layer;
    bool bits; /* the layer has one bit for each key instead of one byte */
} attn_mask_part;

struct attn_mask {
    attn_mask_layer *layers; /* the layers of the specification */
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
    const int64_t *lengths; /* [B] or NULL: keys from this index on are hidden */
    int64_t left, right;    /* keys seen before and after the row's own; INT64_MAX: all */
    bool same_heads, same_batches;
};

/* The bytes that each layer takes in the lists, and an upper bound of the bytes of a mask without
 * its tensors. */
enum {
    ATTN_MASK_LAYER_BYTES =
        sizeof(attn_mask_layer) + 2 * sizeof(attn_mask_part) + sizeof(const attn_pattern *),
    ATTN_MASK_BYTES = sizeof(attn_mask) + ATTN_MASK_LAYERS * ATTN_MASK_LAYER_BYTES
};

/* Returns the compiled part of layer `i` of the specification, or NULL (causal, window and lengths
 * layers have none). */
const attn_mask_part *attn_mask_part_of(const attn_mask *m, size_t i);
/* Returns whether the part hides cell (b, h, i, j). A number hides its cell if it is at most
 * `floor`: -INFINITY, or a large negative number so that finite fills count as hidden too. */
bool attn_mask_part_hides(const attn_mask_part *part, double floor, size_t b, size_t h, size_t i,
                          size_t j);

/* Computes what happens to cells j0 … j0 + n - 1 of row i: fills edit's bias, keep, lo, hi and fill
 * (but not scale and softcap). `bias` points to scratch of n elements of elem bytes (4 float, 8
 * double) and `keep` to n bytes of scratch. They are used if edit cannot point into the mask's own
 * memory. */
void attn_mask_edit(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                    size_t elem, void *bias, uint8_t *keep, attn_edit *edit);

/* Returns whether a layer other than the interval can hide a key (by bytes, -infinity or patterns).
 */
bool attn_mask_hides_cells(const attn_mask *m);
/* Returns whether the interval of every row holds all keys. */
bool attn_mask_is_open(const attn_mask *m);

/* Tells which keys have a finite score: those of attn_mask_keep, and under a finite fill also
 * others. */
void attn_mask_seen(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                    uint8_t *seen);
/* Returns whether row i has a key with a finite score. */
bool attn_mask_sees_any(const attn_mask *m, size_t b, size_t h, size_t i);

/* Returns whether patterns hide all keys j0 … j0 + n - 1 from all rows i … i + rows - 1. The result
 * is false under a finite fill. */
bool attn_mask_tile_hidden(const attn_mask *m, size_t b, size_t i, size_t rows, size_t j0,
                           size_t n);

#endif
