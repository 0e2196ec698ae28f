/* The vector operations that simd_body.h needs, for AVX-512: vectors of 16 floats. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

enum { LANES = 16 };

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

#define SIMD(name) _mm512_##name
#include "kernels/x86/simd_vectors.h"

VOCABULARY vm first_lanes(size_t n) {
    return (vm)(n >= 16 ? 0xffffu : (1u << n) - 1u);
}
VOCABULARY vf vload_n(const float *p, size_t n) {
    return n >= 16 ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(first_lanes(n), p);
}
VOCABULARY void vstore_n(float *p, vf x, size_t n) {
    if (n >= 16)
        _mm512_storeu_ps(p, x);
    else
        _mm512_mask_storeu_ps(p, first_lanes(n), x);
}
/* Computes x * 2^n. Far below the range of float the result is exactly 0. */
VOCABULARY vf vscale(vf x, vf n) {
    return _mm512_scalef_ps(x, n);
}
VOCABULARY vm vless(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
VOCABULARY vf vselect(vm m, vf yes, vf no) {
    return _mm512_mask_blend_ps(m, no, yes);
}
VOCABULARY vm vand(vm a, vm b) {
    return (vm)(a & b);
}
VOCABULARY float vhmax(vf a) {
    return _mm512_reduce_max_ps(a);
}
VOCABULARY vm vfirst_lanes_between(size_t lo, size_t hi) {
    return (vm)(first_lanes(hi) & ~first_lanes(lo));
}
/* Returns a mask of the lanes i < n with p[i] != 0. */
VOCABULARY vm vkeep(const uint8_t *p, size_t n) {
    return _mm_test_epi8_mask(_mm_maskz_loadu_epi8(first_lanes(n), p), _mm_set1_epi8(-1));
}

/* Transposes 16 rows of 16 numbers. It exchanges single numbers, then pairs, then 128-bit lanes. */
VOCABULARY void transpose(const vf r[16], vf column[16]) {
    vf a[16], b[16];
    exchange_numbers(r, a);
    for (int i = 0; i < 16; i += 4)
        for (int half = 0; half < 2; half++) {
            __m512d x = _mm512_castps_pd(a[i + half]), y = _mm512_castps_pd(a[i + half + 2]);
            b[i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
            b[i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
        }
    for (int c = 0; c < 4; c++) {
        vf even_low = _mm512_shuffle_f32x4(b[c], b[4 + c], 0x88);
        vf even_high = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0x88);
        vf odd_low = _mm512_shuffle_f32x4(b[c], b[4 + c], 0xdd);
        vf odd_high = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0xdd);
        column[c] = _mm512_shuffle_f32x4(even_low, even_high, 0x88);
        column[4 + c] = _mm512_shuffle_f32x4(odd_low, odd_high, 0x88);
        column[8 + c] = _mm512_shuffle_f32x4(even_low, even_high, 0xdd);
        column[12 + c] = _mm512_shuffle_f32x4(odd_low, odd_high, 0xdd);
    }
}

VOCABULARY vf vwiden_halves(const void *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}
VOCABULARY vf vwiden_bf16(const void *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}
VOCABULARY vf vwiden_bytes(const int8_t p[16]) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_load_si128((const __m128i *)p)));
}

/* Widens 16 numbers of binary16, whose low bytes are followed by their high bytes. */
VOCABULARY vf vwiden_pairs(const uint8_t p[32]) {
    const __m256i low = _mm256_cvtepu8_epi16(_mm_load_si128((const __m128i *)p)),
                  high = _mm256_cvtepu8_epi16(_mm_load_si128((const __m128i *)(p + 16)));
    return _mm512_cvtph_ps(_mm256_or_si256(low, _mm256_slli_epi16(high, 8)));
}

/* Widens the binary16 numbers in the low halves of integers. */
VOCABULARY vf vwiden_low_halves(vi x) {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x));
}
VOCABULARY vi vboth(vi a, vi b) {
    return _mm512_and_si512(a, b);
}
/* The order of bytes that moves byte i of each integer to its high byte and clears the others. */
VOCABULARY vi high_byte(int i) {
    return _mm512_broadcast_i32x4(high_byte_of_four(i));
}

VOCABULARY __m512i load_lanes(const uint8_t *row, size_t ld) {
    __m512i all = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)row));
    all = _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)(row + 4 * ld)), 1);
    all = _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)(row + 8 * ld)), 2);
    return _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)(row + 12 * ld)), 3);
}

/* Transposes 16 rows of 16 bytes, `ld` bytes apart. Lane l of 128 bits holds the rows 4l to 4l + 3:
 * bytes are exchanged within the lanes, and then groups of four bytes between the lanes. */
VOCABULARY void transpose_bytes(uint8_t *to, const uint8_t *rows, size_t ld) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i row[4] = {load_lanes(rows, ld), load_lanes(rows + ld, ld),
                            load_lanes(rows + 2 * ld, ld), load_lanes(rows + 3 * ld, ld)};
    const __m512i low[2] = {_mm512_unpacklo_epi8(row[0], row[1]),
                            _mm512_unpacklo_epi8(row[2], row[3])},
                  high[2] = {_mm512_unpackhi_epi8(row[0], row[1]),
                             _mm512_unpackhi_epi8(row[2], row[3])};
    const __m512i four[4] = {
        _mm512_unpacklo_epi16(low[0], low[1]), _mm512_unpackhi_epi16(low[0], low[1]),
        _mm512_unpacklo_epi16(high[0], high[1]), _mm512_unpackhi_epi16(high[0], high[1])};
    for (int i = 0; i < 4; i++)
        _mm512_storeu_si512(to + 64 * i, _mm512_permutexvar_epi32(order, four[i]));
}
