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
