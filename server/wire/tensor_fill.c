/* Tensors by rule: random numbers (attn/rng.h), zeros, ones, eye, arange; and the conversions that
 * their element types need. */
#include <math.h>
#include <string.h>

#include "wire/tensor_in.h"

/* The upper half, rounded to nearest even; NaN keeps a set bit. */
static uint16_t to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

void srv_tensor_narrow(void *data, attn_dtype dtype, size_t first, const float *src, size_t n) {
    uint16_t *out = (uint16_t *)data + first;
    if (dtype == ATTN_F16) {
        attn_narrow_f16(out, src, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = to_bf16(src[i]);
}

void srv_tensor_store(void *data, attn_dtype dtype, size_t i, double value) {
    float single = (float)value;
    switch (dtype) {
    case ATTN_F32:
        ((float *)data)[i] = single;
        break;
    case ATTN_F64:
        ((double *)data)[i] = value;
        break;
    case ATTN_F16:
    case ATTN_BF16:
        srv_tensor_narrow(data, dtype, i, &single, 1);
        break;
    case ATTN_I32:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    case ATTN_I64:
        ((int64_t *)data)[i] = (int64_t)value;
        break;
    case ATTN_U8:
    case ATTN_BOOL:
        ((uint8_t *)data)[i] = (uint8_t)value;
        break;
    }
}

static bool refuse_name(srv_scan *s, const char *field, const char *expected,
                        const srv_name *found) {
    srv_path_key(&s->path, field, strlen(field));
    srv_problem(s->req, SRV_VALUE, s->path.text, "expected %s, found \"%s\"", expected,
                found->text);
    return false;
}

static void fill_narrow(attn_tensor *t, size_t count, uint64_t seed,
                        void (*fill)(float *, size_t, uint64_t, uint64_t)) {
    float run[256];
    for (size_t i = 0; i < count; i += 256) {
        size_t n = count - i < 256 ? count - i : 256;
        fill(run, n, seed, i);
        srv_tensor_narrow(t->data, t->dtype, i, run, n);
    }
}

bool srv_tensor_random(srv_scan *s, const srv_name *what, int64_t seed, attn_tensor *t) {
    bool normal = srv_name_is(what, "normal");
    size_t count = 0;
    attn_tensor_count(t, &count);
    if (!normal && !srv_name_is(what, "uniform"))
        return refuse_name(s, "random", "\"normal\" or \"uniform\"", what);
    switch (t->dtype) {
    case ATTN_F32:
        (normal ? attn_rng_fill_normal : attn_rng_fill_uniform)(t->data, count, (uint64_t)seed, 0);
        return true;
    case ATTN_F16:
    case ATTN_BF16:
        fill_narrow(t, count, (uint64_t)seed,
                    normal ? attn_rng_fill_normal : attn_rng_fill_uniform);
        return true;
    case ATTN_F64:
        for (size_t i = 0; i < count; i++)
            ((double *)t->data)[i] =
                (normal ? attn_rng_normal : attn_rng_uniform)((uint64_t)seed, i);
        return true;
    default:
        srv_path_key(&s->path, "random", 6);
        srv_problem(s->req, SRV_DTYPE, s->path.text,
                    "expected float32, float16, bfloat16 or float64 for random elements, found %s",
                    attn_dtype_name(t->dtype));
        return false;
    }
}

/* The largest index up to which the type holds every integer. */
static double last_exact(attn_dtype dtype) {
    switch (dtype) {
    case ATTN_F32:
        return 16777216;
    case ATTN_F16:
        return 2048;
    case ATTN_BF16:
        return 256;
    case ATTN_I32:
        return INT32_MAX;
    case ATTN_U8:
        return UINT8_MAX;
    case ATTN_BOOL:
        return 1;
    default:
        return 9007199254740992.0; /* 2^53 */
    }
}

static bool fill_arange(srv_scan *s, attn_tensor *t, size_t count) {
    if (count > 0 && (double)(count - 1) > last_exact(t->dtype)) {
        srv_path_key(&s->path, "fill", 4);
        srv_problem(s->req, SRV_VALUE, s->path.text,
                    "expected at most %.0f elements, of which %s holds each index, found %zu",
                    last_exact(t->dtype) + 1, attn_dtype_name(t->dtype), count);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        srv_tensor_store(t->data, t->dtype, i, (double)i);
    return true;
}

static bool fill_eye(srv_scan *s, attn_tensor *t, size_t count) {
    if (t->rank < 2) {
        srv_path_key(&s->path, "fill", 4);
        srv_problem(s->req, SRV_SHAPE, s->path.text,
                    "expected 2 axes or more for \"eye\", found 1");
        return false;
    }
    size_t rows = t->dims[t->rank - 2], cols = t->dims[t->rank - 1];
    memset(t->data, 0, count * attn_dtype_size(t->dtype));
    for (size_t first = 0; first < count; first += rows * cols)
        for (size_t i = 0; i < rows && i < cols; i++)
            srv_tensor_store(t->data, t->dtype, first + i * cols + i, 1);
    return true;
}

bool srv_tensor_fill(srv_scan *s, const srv_name *what, attn_tensor *t) {
    size_t count = 0;
    attn_tensor_count(t, &count);
    if (srv_name_is(what, "arange"))
        return fill_arange(s, t, count);
    if (srv_name_is(what, "eye"))
        return fill_eye(s, t, count);
    if (srv_name_is(what, "zeros")) {
        memset(t->data, 0, count * attn_dtype_size(t->dtype));
        return true;
    }
    if (!srv_name_is(what, "ones"))
        return refuse_name(s, "fill", "\"zeros\", \"ones\", \"eye\" or \"arange\"", what);
    for (size_t i = 0; i < count; i++)
        srv_tensor_store(t->data, t->dtype, i, 1);
    return true;
}
