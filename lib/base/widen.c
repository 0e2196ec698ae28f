/* Widens element types to float and double, and narrows float to binary16. */
#include <string.h>

#include "attn/tensor.h"

static float from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t to_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Converts binary16 to binary32, exactly. A subnormal x is first made as 2^-14 + x, and subtracting
 * 2^-14 then normalises it. */
static float half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u,
             fraction = h & 0x3ffu;
    if (exponent == 31)
        return from_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent)
        return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float magnitude = from_bits(0x38800000u | fraction << 13) - 0x1p-14f;
    return sign ? -magnitude : magnitude;
}

/* Rounds to nearest even. For a value below the normal range of binary16 it adds 0.5. The sum has
 * the last place 2^-24, the smallest number of binary16, so the addition rounds the value. */
static uint16_t float_to_half(float f) {
    uint32_t bits = to_bits(f), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (rest >= 0x477ff000u) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (rest < 0x38800000u) /* below 2^-14 */
        return (uint16_t)(sign | (to_bits(from_bits(rest) + 0x1p-1f) - 0x3f000000u));
    rest += 0xfffu + (rest >> 13 & 1u);
    return (uint16_t)(sign | (rest - 0x38000000u) >> 13);
}

#define WIDEN(name, out)                                                                           \
    void name(out *dst, const void *src, attn_dtype dtype, ptrdiff_t stride, size_t n) {           \
        const ptrdiff_t count = (ptrdiff_t)n;                                                      \
        switch (dtype) {                                                                           \
        case ATTN_F32:                                                                             \
            for (ptrdiff_t i = 0; i < count; i++)                                                  \
                dst[i] = (out)((const float *)src)[i * stride];                                    \
            break;                                                                                 \
        case ATTN_F16:                                                                             \
            for (ptrdiff_t i = 0; i < count; i++)                                                  \
                dst[i] = (out)half_to_float(((const uint16_t *)src)[i * stride]);                  \
            break;                                                                                 \
        case ATTN_BF16:                                                                            \
            for (ptrdiff_t i = 0; i < count; i++)                                                  \
                dst[i] = (out)from_bits((uint32_t)((const uint16_t *)src)[i * stride] << 16);      \
            break;                                                                                 \
        case ATTN_F64:                                                                             \
            for (ptrdiff_t i = 0; i < count; i++)                                                  \
                dst[i] = (out)((const double *)src)[i * stride];                                   \
            break;                                                                                 \
        case ATTN_I32:                                                                             \
            for (ptrdiff_t i = 0; i < count; i++)                                                  \
                dst[i] = (out)((const int32_t *)src)[i * stride];                                  \
            break;                                                                                 \
        case ATTN_I64:                                                                             \
            for (ptrdiff_t i = 0; i < count; i++)                                                  \
                dst[i] = (out)((const int64_t *)src)[i * stride];                                  \
            break;                                                                                 \
        case ATTN_U8:                                                                              \
        case ATTN_BOOL:                                                                            \
            for (ptrdiff_t i = 0; i < count; i++)                                                  \
                dst[i] = (out)((const uint8_t *)src)[i * stride];                                  \
            break;                                                                                 \
        }                                                                                          \
    }

WIDEN(attn_widen_f32, float)
WIDEN(attn_widen_f64, double)

void attn_narrow_f16(uint16_t *dst, const float *src, size_t n) {
    for (size_t i = 0; i < n; i++)
        dst[i] = float_to_half(src[i]);
}
