/* Reads the tensor of one layer, to find out which keys it hides. */
#include "mask/mask_private.h"

void attn_mask_part_and(const attn_mask_part *part, size_t b, size_t h, size_t i, size_t j0,
                        size_t n, uint8_t *keep) {
    const uint8_t *from = attn_view_at(&part->view, b, h, i, part->bits ? 0 : j0);
    for (size_t j = j0; part->bits && j < j0 + n; j++)
        keep[j - j0] = keep[j - j0] && (from[j / 8] >> j % 8 & 1) != part->flipped;
    if (part->bits)
        return;
    for (size_t j = 0; j < n; j++)
        keep[j] &= from[(ptrdiff_t)j * part->view.col];
}

bool attn_mask_part_hides(const attn_mask_part *part, double floor, size_t b, size_t h, size_t i,
                          size_t j) {
    const void *at = attn_view_at(&part->view, b, h, i, part->bits ? 0 : j);
    if (part->bits)
        return (((const uint8_t *)at)[j / 8] >> j % 8 & 1) == part->flipped;
    if (part->view.dtype == ATTN_BOOL)
        return !*(const uint8_t *)at;
    return attn_number_at(at, part->view.dtype) <= floor;
}
