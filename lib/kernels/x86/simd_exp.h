/* Exponentials and tanh for vectors of floats. An exponential splits its exponent exactly into an
 * integer and a fraction, as promise 2 of kernels.h needs. The file that includes this one defines
 * the vector operations that simd_body.h lists. */
#include "kernels/flush.h"

/* log2(e) = HI + LO. In a fused multiply-add, s * HI - n is exact. */
#define LOG2E_HI 0x1.715476p+0f
#define LOG2E_LO 1.925963e-8f
/* Scores below LOWEST, including -infinity, are raised to LOWEST before their exponential is taken.
 * LOWEST is so far below -ATTN_WIDE that the exponential is exactly 0, and its magnitude is so
 * small that rint(s * log2 e) and the remaining fraction stay exact. */
#define LOWEST -0x1p20f

/* Returns the integer nearest to s * log2e, for scores s >= LOWEST. Adding 1.5 * 2^23 leaves no
 * bits for a fraction. The function is monotonic in s, so no score of a row gets a larger integer
 * than the row's maximum. */
INLINE vf nearest_integer(vf s, vf log2e) {
    return vsub(vfma(s, log2e, vset(0x1.8p23f)), vset(0x1.8p23f));
}

/* Returns the exponent of a row, rint(max * log2 e), by the same operations as for a score. */
INLINE vf row_exponent(vf max) {
    return nearest_integer(vmax(max, vset(LOWEST)), vset(LOG2E_HI));
}

/* Computes 2^f on [-1/2, 1/2] by a minimax polynomial with a relative error of 2^-29. Including
 * rounding, the error is at most 1 ulp. */
INLINE vf exp2_reduced(vf f) {
    vf p = vset(0x1.41d334p-13f);
    p = vfma(p, f, vset(0x1.5f456ap-10f));
    p = vfma(p, f, vset(0x1.3b2dbcp-7f));
    p = vfma(p, f, vset(0x1.c6aed4p-5f));
    p = vfma(p, f, vset(0x1.ebfbdap-3f));
    p = vfma(p, f, vset(0x1.62e430p-1f));
    return vfma(p, f, vset(1.0f));
}

/* Computes 2^f on [-1/2, 1/2] by a shorter polynomial with a relative error of 2^-18.4. */
INLINE vf exp2_coarse(vf f) {
    vf p = vset(0x1.3a02ccp-7f);
    p = vfma(p, f, vset(0x1.c9fc46p-5f));
    p = vfma(p, f, vset(0x1.ec0378p-3f));
    p = vfma(p, f, vset(0x1.62e12cp-1f));
    return vfma(p, f, vset(1.0f));
}

/* Computes the numerator e^(c s) 2^-m of the scaled score c s >= LOWEST. The scale c is a power of
 * two, and hi + lo = c log2(e), so no multiplication by c is needed.
 *
 * If `coarse`, `lo` is left out, which gives e^(c s (1 - 2^-26.2)). If two scores differ by 16, the
 * ratio of their numerators then has a relative error of 2^-22. */
INLINE vf numerator_of(const bool coarse, vf s, vf hi, vf lo, vf m) {
    vf n = nearest_integer(s, hi);
    vf f = vfms(s, hi, n);
    vf p = coarse ? exp2_coarse(f) : exp2_reduced(vfma(s, lo, f));
    return vscale(p, vsub(n, m));
}

/* Computes the numerator e^s 2^-m of a score s, where m is the exponent of the row's maximum
 * (row_exponent). The only rounding is that of 2^f, which depends on s alone. Under FLUSHED a
 * result below the normal range is 0. `coarse` selects the shorter polynomial, for the precision
 * `fast`, whose products have a larger error than this polynomial. */
INLINE vf numerator(const bool coarse, vf s, vf m) {
    return numerator_of(coarse, vmax(s, vset(LOWEST)), vset(LOG2E_HI), vset(LOG2E_LO), m);
}

/* Computes tanh with an error of at most 2 ulp: by an odd minimax polynomial for |x| < 0.625, and
 * by 1 - 2 / (e^2|x| + 1) for larger |x|. */
INLINE vf tanh_lanes(vf x) {
    vf z = vmul(x, x), a = vmin(vabs(x), vset(20.0f));
    vf q = vset(-0.005659989f);
    q = vfma(q, z, vset(0.02059098841f));
    q = vfma(q, z, vset(-0.05372106802f));
    q = vfma(q, z, vset(0.1333112754f));
    q = vfma(q, z, vset(-0.3333326053f));
    vf small = vfma(vmul(q, z), x, x);
    vf e = numerator(false, vadd(a, a), vset(0.0f));
    vf large = vsub(vset(1.0f), vdiv(vset(2.0f), vadd(e, vset(1.0f))));
    return vselect(vless(a, vset(0.625f)), small, vcopysign(large, x));
}
