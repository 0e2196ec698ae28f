/* All rows of a key/value head by one piece, which packs its keys and values first: those of one
 * head after the other take the same memory, so they stay in the caches, and nobody waits for all
 * of them. */
#include <stdatomic.h>

#include "attention/forward.h"

size_t attn_forward_head_bytes(const attn_attention_dims *d, const attn_kernels *k, unsigned want) {
    enum { CACHE = 1 << 20 };
    const unsigned later = ATTN_WANT_CELLS | ATTN_WANT_SCORES | ATTN_WANT_WEIGHTS_DROPPED;
    const bool weights_later = (want & ATTN_WANT_WEIGHTS) && k->elem != attn_dtype_size(d->result);
    size_t bytes;
    if (d->L <= ATTN_FEW_QUERIES || (want & later) || weights_later)
        return 0;
    const double rows = (double)attn_group(d) * (double)d->L;
    return attn_forward_operations(d, rows) <= ATTN_PIECE_OPERATIONS &&
                   attn_pack_head_bytes(d, k, &bytes) && bytes <= CACHE
               ? bytes
               : 0;
}

static attn_status run_head(void *ctx, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = ctx;
    attn_forward_lane *l = &f->lanes[lane];
    const attn_attention_dims *d = &f->a->dims;
    const size_t b = index / d->Hkv, hkv = index % d->Hkv, group = attn_group(d);
    attn_status status = ATTN_OK;
    if (!attn_pack_head(f->a, l->head, b, hkv, l->runs->work.source)) {
        atomic_store(&f->not_finite, 1);
        return ATTN_OK;
    }
    for (size_t h = hkv * group; h < (hkv + 1) * group && status == ATTN_OK; h++)
        status = attn_forward_blocks(f, b, h, 0, f->row_blocks, l->head, l, err);
    return status;
}

attn_status attn_forward_heads(attn_forward *f, attn_pool *pool, attn_error *err) {
    return attn_pool_run(pool, f->a->dims.B * f->a->dims.Hkv, run_head, f, f->control, err);
}
