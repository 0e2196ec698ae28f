/* Runs of numbers of any dtype as text, each followed by a comma. */
#include "wire/json_run.h"

#include <math.h>
#include <string.h>

#include "number/number.h"

char *srv_write_real(char *p, double value, int decimals) {
    if (!isfinite(value)) {
        memcpy(p, "null", 4);
        return p + 4;
    }
    return decimals < 0 ? attn_write_f64(p, value) : attn_write_decimals(p, value, decimals);
}

char *srv_write_float(char *p, float value, int decimals) {
    if (decimals < 0 && isfinite(value))
        return attn_write_f32(p, value);
    return srv_write_real(p, value, decimals);
}

char *srv_write_run(char *p, const char *src, attn_dtype dtype, ptrdiff_t stride, size_t n,
                    int decimals) {
    union {
        float f[SRV_RUN];
        double d[SRV_RUN];
    } wide;
    switch (dtype) {
    case ATTN_F32:
    case ATTN_F16:
    case ATTN_BF16:
        if (decimals < 0 && dtype == ATTN_F32 && stride == 1)
            return attn_write_singles(p, (const float *)(const void *)src, n);
        attn_widen_f32(wide.f, src, dtype, stride, n);
        if (decimals < 0)
            return attn_write_singles(p, wide.f, n);
        for (size_t i = 0; i < n; i++, *p++ = ',')
            p = srv_write_float(p, wide.f[i], decimals);
        break;
    case ATTN_F64:
        attn_widen_f64(wide.d, src, dtype, stride, n);
        for (size_t i = 0; i < n; i++, *p++ = ',')
            p = srv_write_real(p, wide.d[i], decimals);
        break;
    case ATTN_BOOL:
        for (size_t i = 0; i < n; i++, *p++ = ',') {
            bool on = src[(ptrdiff_t)i * stride] != 0;
            memcpy(p, on ? "true" : "false", on ? 4 : 5);
            p += on ? 4 : 5;
        }
        break;
    case ATTN_I64:
        for (size_t i = 0; i < n; i++, *p++ = ',')
            p = attn_write_i64(p, ((const int64_t *)(const void *)src)[(ptrdiff_t)i * stride]);
        break;
    case ATTN_I32:
        for (size_t i = 0; i < n; i++, *p++ = ',')
            p = attn_write_i64(p, ((const int32_t *)(const void *)src)[(ptrdiff_t)i * stride]);
        break;
    case ATTN_U8:
        for (size_t i = 0; i < n; i++, *p++ = ',')
            p = attn_write_i64(p, ((const uint8_t *)src)[(ptrdiff_t)i * stride]);
        break;
    }
    return p;
}
