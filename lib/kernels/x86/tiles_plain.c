/* Tile products in plain C for any x86-64, exactly as tiles.h defines them. These products replace
 * AMX on other processors, and AMX is compared with them. The code computes one tile of C at a time
 * and widens B to float once for all 16 rows. The compiler vectorises the inner loop over 16
 * columns. */
#include <attn/rng.h>

#include "kernels/x86/vectors.h"

#define NAME(x) x##_plain
#define BASE    (attn_kernels_vector())
#define PRODUCT attn_tiles_plain
#define BEGIN
#define END
#include "kernels/x86/tiles_body.h"

/* Replaces a subnormal number by a zero of the same sign. */
INLINE float flush(float x) {
    const uint32_t bits = attn_bf16_bits(x);
    return attn_bf16_float(bits & 0x7f800000u ? bits : bits & 0x80000000u);
}

INLINE float widen(uint16_t half) {
    return flush(attn_bf16_float((uint32_t)half << 16));
}

INLINE void multiply(float c[ATTN_TILE][ATTN_TILE], const uint16_t *a, const uint16_t *b) {
    float wide[2][ATTN_TILE][ATTN_TILE];
    for (int k = 0; k < ATTN_TILE; k++)
        for (int n = 0; n < ATTN_TILE; n++) {
            wide[0][k][n] = widen(b[ATTN_TILE_DEPTH * k + 2 * n]);
            wide[1][k][n] = widen(b[ATTN_TILE_DEPTH * k + 2 * n + 1]);
        }
    for (int m = 0; m < ATTN_TILE; m++) {
        float even[ATTN_TILE] = {0}, odd[ATTN_TILE] = {0};
        for (int k = 0; k < ATTN_TILE; k++) {
            const float x = widen(a[ATTN_TILE_DEPTH * m + 2 * k]);
            const float y = widen(a[ATTN_TILE_DEPTH * m + 2 * k + 1]);
            for (int n = 0; n < ATTN_TILE; n++) {
                even[n] = flush(fmaf(x, wide[0][k][n], even[n]));
                odd[n] = flush(fmaf(y, wide[1][k][n], odd[n]));
            }
        }
        for (int n = 0; n < ATTN_TILE; n++)
            c[m][n] = flush(c[m][n] + flush(even[n] + odd[n]));
    }
}

INLINE void product(const attn_tiles *t) {
    for (size_t i = 0; i < t->row_tiles; i++)
        for (size_t j = 0; j < t->col_tiles; j++) {
            float c[ATTN_TILE][ATTN_TILE] = {{0}};
            for (size_t s = 0; s < t->steps; s++)
                for (int p = 0; p < ATTN_TILE_PAIRS(t->parts); p++) {
                    const uint8_t *pair = attn_tile_pairs[t->parts - 1][p];
                    multiply(c, t->a + pair[0] * t->a_part + s * t->a_step + i * ATTN_TILE_CELLS,
                             t->b + j * t->b_column + pair[1] * t->b_part + s * ATTN_TILE_CELLS);
                }
            for (size_t r = 0; r < ATTN_TILE; r++)
                memcpy(t->c + (i * ATTN_TILE + r) * t->ldc + j * ATTN_TILE, c[r], sizeof c[r]);
        }
}

/* The same code, compiled with the FMA instruction. Without that instruction, fmaf is a function
 * call that may take as long as a hundred instructions. */
__attribute__((target("avx2,fma"))) static void product_fma(const attn_tiles *t) {
    product(t);
}

void attn_tiles_plain(const attn_tiles *t) {
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        product_fma(t);
        return;
    }
    product(t);
}

/* --- comparison of another product with the plain one --- */

enum { CHECK_TILES = 3, CHECK_CELLS = 3 * CHECK_TILES * CHECK_TILES * ATTN_TILE_CELLS };

/* Fills x with n random bfloat16 numbers:
 *   1 of 8   any exponent, so that products overflow and underflow (with `small`: below 1)
 *   1 of 8   zero or subnormal
 *   6 of 8   a magnitude near 1 (with `small`: near 2^-65, so that products and sums are close to
 *            the smallest normal number) */
static void fill(uint16_t *x, size_t n, uint64_t seed, bool small) {
    for (size_t i = 0; i < n; i++) {
        const uint64_t bits = attn_rng_bits(seed, i), kind = bits >> 32 & 7;
        uint64_t exponent = (small ? 56 : 120) + (bits >> 40) % 12;
        if (kind < 2)
            exponent = kind ? 0 : (bits >> 40) % (small ? 127 : 255);
        x[i] = (uint16_t)((bits & 0x807f) | exponent << 7);
    }
}

static bool same_shape(void (*product_of)(const attn_tiles *), uint16_t *a, uint16_t *b,
                       uint64_t seed) {
    _Alignas(64) float got[CHECK_TILES * CHECK_TILES * 256], want[CHECK_TILES * CHECK_TILES * 256];
    const uint64_t shape = attn_rng_bits(seed, 0);
    attn_tiles t = {.c = want,
                    .ldc = CHECK_TILES * ATTN_TILE,
                    .a = a,
                    .b = b,
                    .row_tiles = 1 + shape % 3,
                    .col_tiles = 1 + shape / 3 % 3,
                    .steps = 1 + shape / 9 % 3,
                    .parts = 1 + (int)(shape / 27 % 3)};
    t.a_step = t.row_tiles * ATTN_TILE_CELLS;
    t.a_part = t.steps * t.a_step;
    t.b_part = t.steps * ATTN_TILE_CELLS;
    t.b_column = (size_t)t.parts * t.b_part;
    fill(a, CHECK_CELLS, seed + 1, seed % 3 == 0);
    fill(b, CHECK_CELLS, seed + 2, seed % 3 == 0);
    memset(got, 0, sizeof got);
    memset(want, 0, sizeof want);
    attn_tiles_plain(&t);
    t.c = got;
    product_of(&t);
    for (size_t i = 0; i < sizeof got / sizeof *got; i++) /* all NaNs count as equal */
        if (memcmp(&got[i], &want[i], sizeof *got) != 0 && !(isnan(got[i]) && isnan(want[i])))
            return false;
    return true;
}

bool attn_tiles_agree(void (*product_of)(const attn_tiles *)) {
    _Alignas(64) uint16_t a[CHECK_CELLS], b[CHECK_CELLS];
    for (uint64_t seed = 0; seed < 60; seed++)
        if (!same_shape(product_of, a, b, seed * 10))
            return false;
    return true;
}
