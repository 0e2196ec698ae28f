/* The vector operations of simd_body.h whose names differ only in the width between AVX2 and
 * AVX-512. The file that includes this one defines vf and vi, the types of vectors of floats and of
 * 32-bit integers, and SIMD(name), which makes the name of an intrinsic for its width. */
#define VOCABULARY static inline __attribute__((always_inline))

VOCABULARY vf vset(float x) {
    return SIMD(set1_ps)(x);
}
VOCABULARY vf vload(const float *p) {
    return SIMD(load_ps)(p);
}
VOCABULARY void vstore(float *p, vf x) {
    SIMD(store_ps)(p, x);
}
/* Stores a vector in memory, bypassing the caches. p must be aligned to the size of a vector. */
VOCABULARY void vstream(float *p, vf x) {
    SIMD(stream_ps)(p, x);
}
VOCABULARY vf vadd(vf a, vf b) {
    return SIMD(add_ps)(a, b);
}
VOCABULARY vf vsub(vf a, vf b) {
    return SIMD(sub_ps)(a, b);
}
VOCABULARY vf vmul(vf a, vf b) {
    return SIMD(mul_ps)(a, b);
}
VOCABULARY vf vdiv(vf a, vf b) {
    return SIMD(div_ps)(a, b);
}
VOCABULARY vf vfma(vf a, vf b, vf c) {
    return SIMD(fmadd_ps)(a, b, c);
}
VOCABULARY vf vfms(vf a, vf b, vf c) {
    return SIMD(fmsub_ps)(a, b, c);
}
VOCABULARY vf vfnma(vf a, vf b, vf c) {
    return SIMD(fnmadd_ps)(a, b, c);
}
VOCABULARY vf vmax(vf a, vf b) {
    return SIMD(max_ps)(a, b);
}
VOCABULARY vf vmin(vf a, vf b) {
    return SIMD(min_ps)(a, b);
}
/* Returns the larger bit pattern of two numbers whose sign bits are 0. */
VOCABULARY vf vlarger_bits(vf a, vf b) {
    return (vf)SIMD(max_epi32)((vi)a, (vi)b);
}
VOCABULARY vf vabs(vf a) {
    return SIMD(andnot_ps)(vset(-0.0f), a);
}
VOCABULARY vf vcopysign(vf magnitude, vf sign) {
    const vf bit = vset(-0.0f);
    return SIMD(or_ps)(SIMD(andnot_ps)(bit, magnitude), SIMD(and_ps)(bit, sign));
}

VOCABULARY __m128i high_byte_of_four(int i) {
    const char o = -1, a = (char)i, b = (char)(4 + i), c = (char)(8 + i), d = (char)(12 + i);
    return _mm_setr_epi8(o, o, o, a, o, o, o, b, o, o, o, c, o, o, o, d);
}

/* Does the first step of a transposition: exchanges single numbers of neighbouring rows. */
VOCABULARY void exchange_numbers(const vf r[LANES], vf a[LANES]) {
    for (int i = 0; i < LANES; i += 2) {
        a[i] = SIMD(unpacklo_ps)(r[i], r[i + 1]);
        a[i + 1] = SIMD(unpackhi_ps)(r[i], r[i + 1]);
    }
}
