/* Views of the tensors of mask layers: how a tensor broadcasts to the shape of the weights. */
#ifndef ATTN_MASK_LAYER_VIEW_H
#define ATTN_MASK_LAYER_VIEW_H

#include "base/view.h"
#include "mask/mask_private.h"

/* Makes a view of the layer's tensor for a mask whose members shape and B are set. The function
 * clears m->same_batches if the tensor has a batch axis, and m->same_heads if the tensor has a head
 * axis. Errors: ATTN_ESHAPE, ATTN_ENOMEM. */
typedef attn_status (*attn_layer_view)(attn_mask *m, const attn_mask_layer *layer,
                                       attn_arena *arena, attn_view *view, attn_error *err);

/* Views a tensor that broadcasts to the weights [batch.., H, L, S], or [batch.., L, S] if the
 * weights have no head axis. A mask may have a head axis of length 1 if the weights have no head
 * axis. A mask may lack the head axis if the weights have one head. */
attn_status attn_weights_view(attn_mask *m, const attn_mask_layer *layer, attn_arena *arena,
                              attn_view *view, attn_error *err);
/* Views a tensor of padding. Its shape is [S], [batch.., S], or [B, S], where B is the product of
 * the batch axes. */
attn_status attn_padding_view(attn_mask *m, const attn_mask_layer *layer, attn_arena *arena,
                              attn_view *view, attn_error *err);

#endif
