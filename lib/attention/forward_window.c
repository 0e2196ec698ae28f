/* Tasks with windows (ATTN_WAY_WINDOWS). If each query sees few keys, most blocks see only a few
 * tiles of keys, and neighbouring blocks see the same ones:
 *
 *             tile 0  1  2  3  4  5        A window has room for the tiles of one block and a
 *   block 0        x  x                    few more. A task packs a tile when a block sees it,
 *   block 1        x  x  x                 into the place of a tile that only earlier blocks
 *   block 2           x  x  x              saw. So packed keys and values stay in the cache.
 *   block 3              x  x  x
 *
 * Tiles are packed as they are. If a task meets NaN, infinity or too large numbers, the pass is
 * repeated with all keys packed and marked (forward.c). */
#include <math.h>

#include "attention/forward.h"

/* Computes a block with the window of its lane. */
static attn_status run_in_window(attn_forward *f, const attn_block *block, attn_forward_lane *l,
                                 attn_error *err) {
    attn_block_run *run = l->runs;
    run->stream = (attn_stream){.block = *block, .w = &run->work};
    attn_status status = attn_forward_begin(f, NULL, run, err);
    if (status != ATTN_OK)
        return status;
    attn_block_stream(f->near ? f->near : f->a, &run->stream, 1, l->head);
    double key = run->work.key_magnitude, value = run->work.value_magnitude;
    if (f->near) {
        const size_t pieces = f->plan.strided.pieces_a_head;
        const double *most =
            f->strided_magnitudes + 2 * pieces * (block->b * f->a->dims.Hq + block->h);
        for (size_t n = 0; n < pieces; n++, most += 2) {
            key = fmax(key, most[0]);
            value = fmax(value, most[1]);
        }
        attn_forward_add_strided(f, run);
    }
    return attn_forward_end_as_is(f, run, key, value, l, err);
}

attn_status attn_forward_window(void *ctx, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = ctx;
    const attn_attention_dims *d = &f->a->dims;
    const size_t of_group = index / f->plan.pieces_a_head, group = attn_group(d);
    const size_t b = of_group / d->Hkv, hkv = of_group % d->Hkv;
    const size_t most = f->plan.blocks_a_piece * f->a->kernels->rows;
    const size_t first = index % f->plan.pieces_a_head * most;
    const size_t last = d->L - first < most ? d->L : first + most;
    attn_status status = ATTN_OK;
    for (size_t i = first, rows; i < last; i += rows) {
        rows = attn_plan_block(&f->plan, f->a->mask, b, i);
        for (size_t g = 0; g < group && status == ATTN_OK; g++) {
            const attn_block block = {b, hkv * group + g, i, rows};
            status = run_in_window(f, &block, &f->lanes[lane], err);
        }
        attn_pool_yield(f->pool);
    }
    return status;
}
