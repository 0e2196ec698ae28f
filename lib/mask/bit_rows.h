/* Masks of packed bits, eight keys in a byte. */
#ifndef ATTN_MASK_BIT_ROWS_H
#define ATTN_MASK_BIT_ROWS_H

#include "mask/mask_private.h"

/* Adds a layer of kind BITS, or of kind VALUES with a tensor of ATTN_BITS, to the mask. The bits
 * are not copied. */
attn_status attn_bits_add(attn_mask *m, const attn_mask_layer *layer, attn_arena *arena,
                          attn_error *err);

#endif
