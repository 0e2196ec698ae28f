/* Products of few rows with the quantised blocks of ATTN_WORD_FORMATS by the instruction vpdpbusd
 * of AVX-512 VNNI, which adds products of bytes to integers of 32 bits:
 *
 *   y[r][j]  =  sum over blocks b of   d * s_b * (65536 X1 + 256 X2 + X3) . u   +   (min - d * off) * sum of x
 *
 * where a weight is d * (u - off) + min with u in 0 … 255, and x is s_b * X: s_b is a power of two
 * for the 32 values of a block, and X is an integer of at most 2^22 that consists of three signed
 * digits X1, X2 and X3. So the sums of a block are exact, and the error of a number of x is at most
 * 2^-22 of the largest number in its block.
 *
 * The blocks are read in place: two blocks of a row of W fill a vector of 64 bytes. */
#include <immintrin.h>
#include <string.h>

#include "kernels/bf16.h"
#include "kernels/blocks.h"
#include "kernels/flush.h"
#include "kernels/gemm_table.h"
#define SPLIT_LANES 1
#include "kernels/block_split.h"

enum {
    FEW = ATTN_BLOCK_ROWS,
    VALUES = ATTN_BLOCK_TILED, /* values of a block */
    DEPTH = 2048,              /* terms of the sums that are computed at a time */
    PAIRS = DEPTH / VALUES / 2,
    DIGITS = 3,
    AT_ONCE = 4, /* rows of W that are multiplied at once */
    AHEAD = 8    /* rows of W that are prefetched before they are read */
};
#define LEAST 0x1p-100f /* if all numbers of a block are smaller, the block counts as zeros */

/* DEPTH numbers of a row of x as digits, with the s_b of their blocks. As a vector holds two blocks
 * of W, two neighbouring blocks of x are stored as a pair. */
typedef struct digits {
    _Alignas(64) int8_t digit[PAIRS][DIGITS][2 * VALUES];
    _Alignas(64) float scale[PAIRS][16]; /* s of each of the two blocks, eight times */
    float sums[PAIRS][4];                /* the factors of d, min, d and min of the two blocks */
} digits;

/* Splits 16 numbers, times `factor`, into digits, and returns the sum of the integers. */
INLINE int take_digits(int8_t (*to)[2 * VALUES], const float *x, float factor) {
    const __m512i all =
        _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), _mm512_set1_ps(factor)));
    __m512i rest = all;
    for (int k = DIGITS; k--;) {
        _mm_storeu_si128((__m128i *)to[k], _mm512_cvtepi32_epi8(rest));
        const __m512i digit = _mm512_srai_epi32(_mm512_slli_epi32(rest, 24), 24);
        rest = _mm512_srai_epi32(_mm512_sub_epi32(rest, digit), 8);
    }
    return _mm512_reduce_add_epi32(all);
}

/* Splits block `half` of a pair into digits. x is NULL if the pair has no second block. */
INLINE void take_block(digits *to, size_t pair, size_t half, const float *x, float off) {
    static const float none[VALUES];
    const float *from = x ? x : none;
    const __m512 a = _mm512_abs_ps(_mm512_loadu_ps(from)),
                 b = _mm512_abs_ps(_mm512_loadu_ps(from + 16));
    const float most = _mm512_reduce_max_ps(_mm512_max_ps(a, b));
    float factor = 0, scale = 0;
    int sum = 0;
    if (most >= LEAST) { /* scale = 2^(e - 21), with 2^e <= most */
        const uint32_t exponent = attn_bf16_bits(most) >> 23;
        scale = attn_bf16_float((exponent - 21) << 23);
        factor = attn_bf16_float((254 + 21 - exponent) << 23);
    }
    for (size_t i = 0; i < VALUES; i += 16)
        sum += take_digits((void *)(to->digit[pair][0] + half * VALUES + i), from + i, factor);
    for (size_t i = 0; i < 8; i++)
        to->scale[pair][8 * half + i] = scale;
    to->sums[pair][2 * half] = -off * scale * (float)sum;
    to->sums[pair][2 * half + 1] = scale * (float)sum;
}

static float offset_of(const attn_block_format *f) {
    return f->bytes > VALUES ? 128 : f->dmin ? 0 : 8;
}

static void take_row(digits *to, const attn_block_format *f, const float *x, size_t blocks) {
    for (size_t b = 0; b < blocks + blocks % 2; b++)
        take_block(to, b / 2, b % 2, b < blocks ? x + b * VALUES : NULL, offset_of(f));
}

/* Returns the bytes u of two blocks. */
INLINE __m512i pair_of(const bool halves, const char *a, const char *b) {
    if (!halves) {
        const __m512i low = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)a));
        return _mm512_xor_si512(_mm512_inserti64x4(low, _mm256_loadu_si256((const __m256i *)b), 1),
                                _mm512_set1_epi8((char)0x80));
    }
    const __m256i both =
        _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a)),
                                _mm_loadu_si128((const __m128i *)b), 1);
    const __m512i twice = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3),
                                                   _mm512_castsi256_si512(both));
    return _mm512_and_si512(_mm512_srlv_epi64(twice, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4)),
                            _mm512_set1_epi8(15));
}

/* Returns the vector d, min, d, min of two blocks. If the format has no min, its place holds 0. */
INLINE __m128 heads_of(const bool has_min, const char *a, const char *b) {
    uint32_t heads[2] = {0, 0};
    memcpy(&heads[0], a, has_min ? 4 : 2);
    memcpy(&heads[1], b, has_min ? 4 : 2);
    return _mm_cvtph_ps(_mm_set_epi32(0, 0, (int)heads[1], (int)heads[0]));
}

/* Returns 65536 X1 + 256 X2 + X3. Each lane sums four products. */
INLINE __m512 sums_of(const bool halves, __m512i u, const int8_t digit[DIGITS][2 * VALUES]) {
    const __m512i high =
        _mm512_dpbusd_epi32(_mm512_setzero_si512(), u, _mm512_load_si512(digit[0]));
    __m512i low = halves ? _mm512_slli_epi32(high, 8) : _mm512_setzero_si512();
    low = _mm512_dpbusd_epi32(low, u, _mm512_load_si512(digit[1]));
    low = _mm512_dpbusd_epi32(_mm512_slli_epi32(low, 8), u, _mm512_load_si512(digit[2]));
    const __m512 sum = _mm512_cvtepi32_ps(low);
    return halves ? sum /* the sum of the high digits fits, too, since u is below 16 */
                  : _mm512_fmadd_ps(_mm512_cvtepi32_ps(high), _mm512_set1_ps(65536), sum);
}

/* Computes the products of nr rows of x with nj rows of W. All but the pointers and `blocks` are
 * constants at each call. */
INLINE void multiply_rows(const bool halves, const bool has_min, const size_t bytes, const int nr,
                          const int nj, float sums[FEW][AT_ONCE], const digits *x, const char *w,
                          size_t ld, size_t blocks) {
    const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2);
    const size_t head = has_min ? 4 : 2;
    __m512 acc[FEW][AT_ONCE];
    __m128 rest[FEW][AT_ONCE];
    for (int r = 0; r < nr; r++)
        for (int j = 0; j < nj; j++) {
            acc[r][j] = _mm512_setzero_ps();
            rest[r][j] = _mm_setzero_ps();
        }
    for (size_t b = 0; b < blocks; b += 2, w += 2 * bytes)
        for (int j = 0; j < nj; j++) {
            const char *one = w + (size_t)j * ld, *two = b + 1 < blocks ? one + bytes : one;
            __builtin_prefetch(one + AHEAD * ld, 0, 2);
            const __m512i u = pair_of(halves, one + head, two + head);
            const __m128 heads = heads_of(has_min, one, two);
            const __m512 d = _mm512_permutexvar_ps(lanes, _mm512_castps128_ps512(heads));
            for (int r = 0; r < nr; r++) {
                const __m512 scale = _mm512_mul_ps(d, _mm512_load_ps(x[r].scale[b / 2]));
                acc[r][j] =
                    _mm512_fmadd_ps(sums_of(halves, u, x[r].digit[b / 2]), scale, acc[r][j]);
                rest[r][j] = _mm_fmadd_ps(heads, _mm_loadu_ps(x[r].sums[b / 2]), rest[r][j]);
            }
        }
    for (int r = 0; r < nr; r++)
        for (int j = 0; j < nj; j++) {
            const __m512 all =
                _mm512_add_ps(acc[r][j], _mm512_maskz_broadcast_f32x4(0xf, rest[r][j]));
            sums[r][j] = _mm512_reduce_add_ps(all);
        }
}

#define ROWS(nr, nj)                                                                               \
    case nr:                                                                                       \
        multiply_rows(halves, has_min, bytes, nr, nj, sums, x, w, ld, blocks);                     \
        break;
#define EACH(nj)                                                                                   \
    switch (rows) {                                                                                \
        ROWS(1, nj)                                                                                \
        ROWS(2, nj)                                                                                \
        ROWS(3, nj)                                                                                \
        ROWS(4, nj)                                                                                \
    }

/* Computes columns [first, last) of y from the digits of x. */
INLINE void multiply(const bool halves, const bool has_min, const size_t bytes, float *y,
                     size_t ldy, const digits *x, size_t rows, const char *w, size_t ld,
                     size_t columns, size_t blocks, bool adds) {
    float sums[FEW][AT_ONCE];
    for (size_t j = 0, n; j < columns; j += n, w += n * ld) {
        n = columns - j < AT_ONCE ? 1 : AT_ONCE;
        if (n == 1)
            EACH(1)
        else
            EACH(AT_ONCE)
        for (size_t r = 0; r < rows; r++)
            for (size_t i = 0; i < n; i++)
                y[r * ldy + j + i] = adds ? y[r * ldy + j + i] + sums[r][i] : sums[r][i];
    }
}

bool attn_blocks_vnni_has(const attn_block_format *f) {
    switch (f->type) {
#define HAS(name, type, ...) case type:
        ATTN_WORD_FORMATS(HAS)
#undef HAS
        return true;
    default:
        return false;
    }
}

void attn_blocks_product_vnni(float *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                              const attn_block_matrix *w, size_t first, size_t last, float beta) {
    digits few[FEW];
    const attn_block_format *f = w->format;
    const size_t ld = w->in / VALUES * f->bytes;
    for (size_t t = 0; t < w->in; t += DEPTH) {
        const size_t blocks = attn_gemm_least(w->in - t, DEPTH) / VALUES;
        const char *from = (const char *)w->blocks + first * ld + t / VALUES * f->bytes;
        const bool adds = t || beta != 0;
        for (size_t r = 0; r < rows; r++)
            take_row(&few[r], f, x + r * ldx + t, blocks);
        switch (f->type) {
#define MULTIPLY(name, type, values, bytes, group, d, dmin, subtracts, split)                      \
    case type:                                                                                     \
        multiply(bytes<values, dmin> 0, bytes, y + first, ldy, few, rows, from, ld, last - first,  \
                 blocks, adds);                                                                    \
        break;
            ATTN_WORD_FORMATS(MULTIPLY)
#undef MULTIPLY
        }
    }
}
