/* Blocks of query rows over packed keys and values. Those of a long head are more than the second
 * cache holds, and each block would fetch all of them from behind it: so a few blocks go abreast,
 * part of the keys by part.
 *
 *              part 0   part 1   part 2
 *   block 0       1        5        9        in this order; between its parts a block's maxima,
 *   block 1       2        6       10        sums and packed queries wait in its work area
 *   block 2       3        7       11
 *   block 3       4        8       12 */
#include "attention/forward.h"

/* PART: bytes of packed keys and values that stay in the second cache beside all else. */
enum { ABREAST = 4, PART = 5 << 18 };

/* Of a packed tile of keys and values. */
static size_t tile_bytes(const attn_attention_dims *d, const attn_kernels *k) {
    return (k->key_room(d->score_width) + k->value_room(d->Ev)) * k->elem;
}

/* With weights: one after the other, as those of the blocks would take more of the cache than is
 * gained. `ref` and scores with a tanh wait for their arithmetic, not for the cache. */
size_t attn_forward_abreast(const attn_attention_dims *d, const attn_kernels *k, unsigned want) {
    size_t bytes;
    if (k->isa == ATTN_ISA_REF || d->tanh_score || d->L <= k->rows || want & ATTN_WANT_WEIGHTS ||
        (attn_size_mul(d->S, tile_bytes(d, k), &bytes) && bytes <= PART * k->keys))
        return 1;
    const size_t blocks = (d->L + k->rows - 1) / k->rows;
    return blocks < ABREAST ? blocks : ABREAST;
}

size_t attn_forward_part(const attn_attention *a) {
    const attn_attention_dims *d = &a->dims;
    const attn_kernels *k = a->kernels;
    if (a->rule.values) /* whose sums over positions end with the pass */
        return d->S;
    const size_t tiles = (d->S + k->keys - 1) / k->keys, bytes = tile_bytes(d, k);
    const size_t most = bytes < PART ? PART / bytes : 1, parts = (tiles + most - 1) / most;
    return (tiles + parts - 1) / parts * k->keys;
}

/* `count` blocks from the one at row i on. */
static attn_status run_abreast(attn_forward *f, size_t b, size_t h, size_t i, size_t count,
                               const attn_packed *packed, attn_forward_lane *l, attn_error *err) {
    const size_t L = f->a->dims.L, S = f->a->dims.S, rows = f->a->kernels->rows;
    attn_status status = ATTN_OK;
    for (size_t n = 0; n < count && status == ATTN_OK; n++, i += rows) {
        const attn_block block = {b, h, i, L - i < rows ? L - i : rows};
        status = attn_forward_begin(f, &block, packed, &l->runs[n], err);
    }
    size_t from = 0;
    do {
        for (size_t n = 0; n < count && status == ATTN_OK; n++) {
            attn_stream *s = &l->runs[n].stream;
            s->from = from;
            s->to = from + f->part;
            s->goes_on = from > 0;
            attn_block_stream(f->a, s, 1, packed);
        }
        from += f->part;
        if (from < S)
            attn_pool_yield(f->pool);
    } while (from < S);
    for (size_t n = 0; n < count && status == ATTN_OK; n++)
        status = attn_forward_end(f, &l->runs[n], l, err);
    return status;
}

attn_status attn_forward_blocks(attn_forward *f, size_t b, size_t h, size_t first, size_t last,
                                const attn_packed *packed, attn_forward_lane *l, attn_error *err) {
    attn_status status = ATTN_OK;
    for (size_t n = first; n < last && status == ATTN_OK; n += f->abreast) {
        const size_t left = last - n, count = left < f->abreast ? left : f->abreast;
        status = run_abreast(f, b, h, n * f->a->kernels->rows, count, packed, l, err);
    }
    return status;
}
