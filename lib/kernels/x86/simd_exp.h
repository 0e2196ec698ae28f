/* Exponentials and tanh of float kernels, split exactly in a power of two and the rest (kernels.h),
 * for a unit that has the vocabulary of simd_body.h. */
#include "kernels/flush.h"

/* log2(e) in two parts: s * HI - n is exact in a fused multiply-add, LO carries the rest. */
#define LOG2E_HI 0x1.715476p+0f
#define LOG2E_LO 1.925963e-8f
/* Scores are held above this in exponents: it is far below -ATTN_WIDE, so such cells are exactly 0,
 * and small enough that rint(s * log2 e) and the reduced argument stay exact. -infinity ends here
 * too. */
#define LOWEST -0x1p20f

/* The integer nearest to s * log2e, for scores above LOWEST: adding 1.5 * 2^23 leaves no room for
 * a fraction. Monotonic in s, so that no score's exponent is above that of its row's maximum. */
INLINE vf nearest_integer(vf s, vf log2e) {
    return vsub(vfma(s, log2e, vset(0x1.8p23f)), vset(0x1.8p23f));
}

/* rint(max * log2 e), the row's power of two, as the vector code computes it for single scores. */
INLINE vf row_exponent(vf max) {
    return nearest_integer(vmax(max, vset(LOWEST)), vset(LOG2E_HI));
}

/* 2^f on [-1/2, 1/2]: minimax polynomial of relative error 2^-29, 1 ulp after rounding. */
INLINE vf exp2_reduced(vf f) {
    vf p = vset(0x1.41d334p-13f);
    p = vfma(p, f, vset(0x1.5f456ap-10f));
    p = vfma(p, f, vset(0x1.3b2dbcp-7f));
    p = vfma(p, f, vset(0x1.c6aed4p-5f));
    p = vfma(p, f, vset(0x1.ebfbdap-3f));
    p = vfma(p, f, vset(0x1.62e430p-1f));
    return vfma(p, f, vset(1.0f));
}

/* The same of relative error 2^-18.4. */
INLINE vf exp2_coarse(vf f) {
    vf p = vset(0x1.3a02ccp-7f);
    p = vfma(p, f, vset(0x1.c9fc46p-5f));
    p = vfma(p, f, vset(0x1.ec0378p-3f));
    p = vfma(p, f, vset(0x1.62e12cp-1f));
    return vfma(p, f, vset(1.0f));
}

/* numerator() of c s, which is above LOWEST, where c is a power of two: hi and lo are c log2(e).
 * Without lo, e^s is e^(s (1 - 2^-26.2)): of two numbers whose scores are 16 apart, the smaller is
 * off by 2^-22 beside the larger. */
INLINE vf numerator_of(const bool coarse, vf s, vf hi, vf lo, vf m) {
    vf n = nearest_integer(s, hi);
    vf f = vfms(s, hi, n);
    vf p = coarse ? exp2_coarse(f) : exp2_reduced(vfma(s, lo, f));
    return vscale(p, vsub(n, m));
}

/* e^s 2^-m: exact but for the rounding of 2^f, which depends on s alone, and 0 below the normal
 * range where FLUSHED. Coarse for `fast`, whose products are further off than that. */
INLINE vf numerator(const bool coarse, vf s, vf m) {
    return numerator_of(coarse, vmax(s, vset(LOWEST)), vset(LOG2E_HI), vset(LOG2E_LO), m);
}

/* tanh: odd minimax polynomial below 0.625, 1 - 2 / (e^2x + 1) above; within 2 ulp. */
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
