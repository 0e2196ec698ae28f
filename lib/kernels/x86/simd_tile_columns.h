/* Makes columns of tiles (tiles.h) from quantised blocks whose groups have as many values as a tile
 * is deep. simd_blocks.h includes this file if vectors have 16 floats. Each vector is a row of a
 * tile.
 *
 *   16 rows of blocks, a group of each  ->  q as bfloat16, a tile of B: row k holds q_k and q_k+16
 *                                           scale [16], min [16]
 *
 * bfloat16 represents an integer of at most 8 bits exactly, also after a multiplication by 2^24. */
#include "kernels/x86/tiles_split.h"

INLINE void store_pairs(uint16_t *to, vf first, vf second) {
    const words pairs = PAIR_UP((words)first, (words)second);
    _mm512_store_si512(to, (__m512i)pairs);
}

/* Returns 2^24 times byte i of each lane. */
INLINE vf raised_bytes(vi q, int i) {
    return _mm512_cvtepi32_ps(_mm512_shuffle_epi8(q, high_byte(i)));
}

INLINE void word_columns(const attn_block_format *f, uint16_t *tiles, float *scale, float *min,
                         const uint8_t *blocks, size_t ld, size_t n, size_t depth) {
    word_panel p;
    for (size_t b = 0; b < depth / ATTN_WORD_VALUES; b++, scale += LANES, min += LANES) {
        take_panel(&p, 1, f, blocks, ld, n, b);
        vstore(scale, p.scale[0]);
        vstore(min, p.min[0]);
        for (size_t k = 0; k < WORDS / 2; k++)
            for (int i = 0; i < 4; i++, tiles += ATTN_TILE_DEPTH)
                store_pairs(tiles, raised_bytes(p.q[k][0], i),
                            raised_bytes(p.q[WORDS / 2 + k][0], i));
    }
}

static void NAME(split_columns)(const attn_block_format *format, uint16_t *tiles, float *scale,
                                float *min, const uint8_t *blocks, size_t ld, size_t n,
                                size_t depth) {
    split_rows split[NV];
    panel_walk w = {format, NAME(splitter_of)(format), blocks, ld, n, split, {0}, {{0}}, {{0}}};
    for (size_t e = 0; e < depth; e += ATTN_TILE_DEPTH, scale += LANES, min += LANES) {
        walk_to(&w, 1, e);
        vstore(scale, w.scale[0]);
        vstore(min, w.min[0]);
        for (size_t k = 0; k < ATTN_TILE; k++, tiles += ATTN_TILE_DEPTH)
            store_pairs(tiles, vwiden_bytes(w.q[0] + k * LANES),
                        vwiden_bytes(w.q[0] + (ATTN_TILE + k) * LANES));
    }
}

static void NAME(k_block_columns)(uint16_t *tiles, float *scale, float *min,
                                  const attn_block_format *format, const void *blocks, size_t ld,
                                  size_t n, size_t depth) {
    switch (format->type) {
#define COLUMNS(name, type, values, bytes, group, d, dmin, subtracts, split)                       \
    case type: {                                                                                   \
        const attn_block_format f = {name,  type, ATTN_F32, values,    bytes,                      \
                                     group, d,    dmin,     subtracts, NULL};                      \
        word_columns(&f, tiles, scale, min, blocks, ld, n, depth);                                 \
        break;                                                                                     \
    }
        ATTN_WORD_FORMATS(COLUMNS)
#undef COLUMNS
    default:
        NAME(split_columns)(format, tiles, scale, min, blocks, ld, n, depth);
    }
}
