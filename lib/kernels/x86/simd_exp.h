/* Exponentials and tanh of the float kernels. They split exponents exactly into a power of two and
 * the rest (kernels.h). The file that includes this one has the vocabulary of simd_body.h. */
#include "kernels/flush.h"

/* log2(e) in two parts: s * HI - n is exact in a fused multiply-add, and LO adds the rest. */
#define LOG2E_HI 0x1.715476p+0f
#define LOG2E_LO 1.925963e-8f
/* The lowest score for exponentials; lower scores, including -infinity, are raised to it. It is so
 * far below -ATTN_WIDE that such cells are exactly 0. It is small enough that rint(s * log2 e) and
 * the reduced argument stay exact. */
#define LOWEST -0x1p20f

/* Returns the integer nearest to s * log2e, for scores of at least LOWEST. After the addition of
 * 1.5 * 2^23 no bits are left for a fraction. The function is monotonic in s, so no score's
 * exponent exceeds that of its row's maximum. */
INLINE vf nearest_integer(vf s, vf log2e) {
    return vsub(vfma(s, log2e, vset(0x1.8p23f)), vset(0x1.8p23f));
}

/* Returns rint(max * log2 e), the exponent of a row, as the vector code computes it for scores. */
INLINE vf row_exponent(vf max) {
    return nearest_integer(vmax(max, vset(LOWEST)), vset(LOG2E_HI));
}

/* Computes 2^f on [-1/2, 1/2] by a minimax polynomial of relative error 2^-29: 1 ulp after
 * rounding. */
INLINE vf exp2_reduced(vf f) {
    vf p = vset(0x1.41d334p-13f);
    p = vfma(p, f, vset(0x1.5f456ap-10f));
    p = vfma(p, f, vset(0x1.3b2dbcp-7f));
    p = vfma(p, f, vset(0x1.c6aed4p-5f));
    p = vfma(p, f, vset(0x1.ebfbdap-3f));
    p = vfma(p, f, vset(0x1.62e430p-1f));
    return vfma(p, f, vset(1.0f));
}

/* Computes 2^f on [-1/2, 1/2] by a shorter polynomial of relative error 2^-18.4. */
INLINE vf exp2_coarse(vf f) {
    vf p = vset(0x1.3a02ccp-7f);
    p = vfma(p, f, vset(0x1.c9fc46p-5f));
    p = vfma(p, f, vset(0x1.ec0378p-3f));
    p = vfma(p, f, vset(0x1.62e12cp-1f));
    return vfma(p, f, vset(1.0f));
}

/* Computes numerator() of c s, which is at least LOWEST. c is a power of two, and hi and lo are the
 * two parts of c log2(e). coarse: without lo, e^s becomes e^(s (1 - 2^-26.2)). Of two numbers whose
 * scores are 16 apart, the smaller is then off by 2^-22 relative to the larger. */
INLINE vf numerator_of(const bool coarse, vf s, vf hi, vf lo, vf m) {
    vf n = nearest_integer(s, hi);
    vf f = vfms(s, hi, n);
    vf p = coarse ? exp2_coarse(f) : exp2_reduced(vfma(s, lo, f));
    return vscale(p, vsub(n, m));
}

/* Computes e^s 2^-m. It is exact except for the rounding of 2^f, which depends only on s. It is 0
 * below the normal range in calls with FLUSHED. coarse: for `fast`, whose products have a larger
 * error than the coarse polynomial. */
INLINE vf numerator(const bool coarse, vf s, vf m) {
    return numerator_of(coarse, vmax(s, vset(LOWEST)), vset(LOG2E_HI), vset(LOG2E_LO), m);
}

/* Computes tanh: an odd minimax polynomial below 0.625, 1 - 2 / (e^2x + 1) above. The error is at
 * most 2 ulp. */
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
