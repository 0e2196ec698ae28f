/* Products of few rows with quantised blocks of ATTN_WORD_FORMATS. Such a block consists of d,
 * perhaps dmin, and one number of 4 or 8 bits for each of 32 values. simd_blocks.h includes this
 * file. The blocks of LANES rows become vectors of 32-bit words: a lane is a row, and a byte of its
 * word is a value:
 *
 *   transpose   blocks [LANES][16 bytes] -> [4 words][LANES]
 *   widen       byte i of a word -> the high byte of an integer, and so 2^24 q as a float
 *   weights     (d / 2^24) * (2^24 q) + min, which has the bits of d * q + min
 *
 * The result is that of simd_blocks.h, but the numbers stay in registers. */

enum { WORDS = ATTN_WORD_VALUES / 4 }; /* words of a block */

/* A block of each of at most PW rows. */
typedef struct word_panel {
    vi q[WORDS][NV];
    vf scale[NV], min[NV];
} word_panel;

INLINE void transpose_words(vi word[4], const uint8_t *rows, size_t ld) {
    const vi row[4] = {load_lanes(rows, ld), load_lanes(rows + ld, ld),
                       load_lanes(rows + 2 * ld, ld), load_lanes(rows + 3 * ld, ld)};
    const vi low[2] = {SIMD(unpacklo_epi32)(row[0], row[1]), SIMD(unpacklo_epi32)(row[2], row[3])},
             high[2] = {SIMD(unpackhi_epi32)(row[0], row[1]), SIMD(unpackhi_epi32)(row[2], row[3])};
    word[0] = SIMD(unpacklo_epi64)(low[0], low[1]);
    word[1] = SIMD(unpackhi_epi64)(low[0], low[1]);
    word[2] = SIMD(unpacklo_epi64)(high[0], high[1]);
    word[3] = SIMD(unpackhi_epi64)(high[0], high[1]);
}

/* Loads a block of each of LANES rows as vector v of the panel. If a byte holds two 4-bit values,
 * they are the values i and 16 + i. Without dmin, 8 is subtracted from each value. */
INLINE void take_words(word_panel *to, size_t v, const attn_block_format *f, const uint8_t *rows,
                       size_t ld) {
    const size_t head = f->dmin ? f->dmin + 2 : f->d + 2;
    const bool halves = f->bytes - head < ATTN_WORD_VALUES;
    const vi low = SIMD(set1_epi8)(15), less = SIMD(set1_epi8)(f->dmin ? 0 : 8);
    vi words[4];
    transpose_words(words, rows, ld);
    to->scale[v] = vmul(vwiden_low_halves(words[0]), vset(0x1p-24f));
    to->min[v] = f->dmin ? vwiden_low_halves(SIMD(srli_epi32)(words[0], 16)) : vset(-0.0f);
    for (size_t part = 0; part < (halves ? 1 : 2); part++) {
        transpose_words(words, rows + head + 16 * part, ld);
        for (size_t k = 0; k < 4; k++)
            if (halves) {
                const vi rest = SIMD(srli_epi32)(words[k], 4);
                to->q[k][v] = SIMD(sub_epi8)(vboth(words[k], low), less);
                to->q[4 + k][v] = SIMD(sub_epi8)(vboth(rest, low), less);
            } else {
                to->q[4 * part + k][v] = words[k];
            }
    }
}

/* Loads block b of each of n rows of blocks. If n is not a multiple of LANES, the last row also
 * fills the remaining lanes. Prefetches the rows that come PW rows later, once for all blocks in a
 * cache line. */
INLINE void take_panel(word_panel *to, const int nv, const attn_block_format *f,
                       const uint8_t *blocks, size_t ld, size_t n, size_t b) {
    const size_t line = LINE * sizeof(float);
    blocks += b * f->bytes;
    uint8_t rows[LANES * ATTN_WORD_BYTES];
    for (size_t v = 0; v < (size_t)nv; v++, blocks += LANES * ld) {
        const size_t left = n - v * LANES;
        for (size_t j = 0; b % (line / f->bytes) == 0 && j < LANES; j++)
            __builtin_prefetch(blocks + (PW + j) * ld, 0, 2);
        for (size_t j = 0; left < LANES && j < LANES; j++)
            memcpy(rows + j * f->bytes, blocks + (j < left ? j : left - 1) * ld, f->bytes);
        if (left < LANES)
            take_words(to, v, f, rows, f->bytes);
        else
            take_words(to, v, f, blocks, ld);
    }
}

/* Returns the weights of byte i of word k, for all lanes of vector v. */
INLINE vf word_weights(const word_panel *p, size_t k, size_t v, int i) {
    return vfma(p->scale[v], SIMD(cvtepi32_ps)(SIMD(shuffle_epi8)(p->q[k][v], high_byte(i))),
                p->min[v]);
}

INLINE void score_words(const int nr, const int nv, const attn_block_format *f, float *const *tile,
                        const float *const *x, const uint8_t *blocks, size_t ld, size_t n,
                        size_t depth) {
    const size_t half = second_chain(false, depth);
    vf one[ATTN_BLOCK_ROWS][NV], acc[ATTN_BLOCK_ROWS][NV];
    word_panel p;
    for (int r = 0; r < nr; r++)
        for (int v = 0; v < nv; v++)
            acc[r][v] = one[r][v] = vset(0.0f);
    for (size_t b = 0; b < depth / ATTN_WORD_VALUES; b++) {
        take_panel(&p, nv, f, blocks, ld, n, b);
#pragma GCC unroll 1
        for (size_t k = 0, e = b * ATTN_WORD_VALUES; k < WORDS; k++, e += 4) {
            for (int r = 0; e == half && r < nr; r++)
                for (int v = 0; v < nv; v++) {
                    one[r][v] = acc[r][v];
                    acc[r][v] = vset(0.0f);
                }
            for (int i = 0; i < 4; i++)
                for (size_t v = 0; v < (size_t)nv; v++) {
                    const vf weights = word_weights(&p, k, v, i);
                    for (int r = 0; r < nr; r++)
                        acc[r][v] = vfma(vset(x[r][e + (size_t)i]), weights, acc[r][v]);
                }
        }
    }
    for (int r = 0; r < nr; r++)
        for (int v = 0; v < nv; v++)
            vstore(tile[r] + v * LANES, vadd(one[r][v], acc[r][v]));
}

INLINE void pack_words(const int nv, const attn_block_format *f, float *to, const uint8_t *blocks,
                       size_t ld, size_t n, size_t depth) {
    word_panel p;
    for (size_t b = 0; b < depth / ATTN_WORD_VALUES; b++) {
        take_panel(&p, nv, f, blocks, ld, n, b);
#pragma GCC unroll 1
        for (size_t k = 0; k < WORDS; k++)
            for (int i = 0; i < 4; i++, to += PW)
                for (size_t v = 0; v < (size_t)nv; v++)
                    vstore(to + v * LANES, word_weights(&p, k, v, i));
    }
}

/* Calls call(nr, nv) with nr = `rows`, the number of rows of x, which is a constant in each
 * case. */
#define EACH_FEW(call, rows, nv)                                                                   \
    switch (rows) {                                                                                \
        ROWS_CASE(call, 1, nv)                                                                     \
        ROWS_CASE(call, 2, nv)                                                                     \
        ROWS_CASE(call, 3, nv)                                                                     \
    default:                                                                                       \
        call(ATTN_BLOCK_ROWS, nv);                                                                 \
    }

/* Sets to[r] to the address of column j of tile[r]. */
INLINE void columns_from(float **to, float *const *tile, size_t rows, size_t j) {
    for (size_t r = 0; r < rows; r++)
        to[r] = tile[r] + j;
}

/* Defines attn_block_kernels.score and pack for blocks of a format. They handle whole panels, and
 * then LANES columns at a time. */
#define WORD_KERNELS(name, type, values, bytes, group, d, dmin, subtracts, split)                  \
    static void NAME(split##_score)(float *const *tile, const float *const *x, size_t rows,        \
                                    const uint8_t *blocks, size_t ld, size_t n, size_t depth) {    \
        const attn_block_format f = {name,  type, ATTN_F32, values,    bytes,                      \
                                     group, d,    dmin,     subtracts, NULL};                      \
        for (size_t j = 0; j < n; j += n - j < PW ? LANES : PW) {                                  \
            float *to[ATTN_BLOCK_ROWS];                                                            \
            columns_from(to, tile, rows, j);                                                       \
            if (n - j < PW)                                                                        \
                EACH_FEW(SCORE_WORDS, rows, 1)                                                     \
            else                                                                                   \
                EACH_FEW(SCORE_WORDS, rows, NV)                                                    \
        }                                                                                          \
    }                                                                                              \
    static void NAME(split##_pack)(float *packed, const uint8_t *blocks, size_t ld, size_t n,      \
                                   size_t depth) {                                                 \
        const attn_block_format f = {name,  type, ATTN_F32, values,    bytes,                      \
                                     group, d,    dmin,     subtracts, NULL};                      \
        for (size_t j = 0; j < n; j += n - j < PW ? LANES : PW)                                    \
            if (n - j < PW)                                                                        \
                PACK_WORDS(1);                                                                     \
            else                                                                                   \
                PACK_WORDS(NV);                                                                    \
    }
#define SCORE_WORDS(nr, nv) score_words(nr, nv, &f, to, x, blocks + j * ld, ld, n - j, depth)
#define PACK_WORDS(nv)                                                                             \
    pack_words(nv, &f, packed + j / PW * PW * depth + j % PW, blocks + j * ld, ld, n - j, depth)
ATTN_WORD_FORMATS(WORD_KERNELS)
#undef PACK_WORDS
#undef SCORE_WORDS
#undef WORD_KERNELS
