/* Tensors by rule: random numbers (attn/rng.h), zeros, ones, eye, arange; and the conversions that
 * their element types need. A few bytes of text can ask for gigabytes, so the elements are written
 * in pieces over the request's pool: deadline, cancel and the other requests count between them. */
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

/* What to write: element i depends on i alone, so pieces may come in any order. */
typedef struct filling {
    const attn_tensor *t;
    size_t count;
    uint64_t seed;
    bool normal;
    void (*fill)(const struct filling *f, size_t first, size_t n);
} filling;

enum { PIECE = 65536 };

static attn_status fill_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    const filling *f = ctx;
    size_t first = index * PIECE, left = f->count - first;
    (void)lane;
    (void)err;
    f->fill(f, first, left < PIECE ? left : PIECE);
    return ATTN_OK;
}

static bool fill_all(srv_scan *s, filling *f) {
    attn_error err;
    size_t pieces = f->count / PIECE + (f->count % PIECE != 0);
    if (!attn_pool_run(srv_request_pool(s->req), pieces, fill_piece, f, &s->req->control, &err))
        return true;
    srv_problem_error(s->req, &err);
    return false;
}

static void fill_random(const filling *f, size_t first, size_t n) {
    void (*fill)(float *, size_t, uint64_t, uint64_t) =
        f->normal ? attn_rng_fill_normal : attn_rng_fill_uniform;
    double (*number)(uint64_t, uint64_t) = f->normal ? attn_rng_normal : attn_rng_uniform;
    float run[256];
    if (f->t->dtype == ATTN_F32) {
        fill((float *)f->t->data + first, n, f->seed, first);
        return;
    }
    for (size_t i = first, end = first + n; i < end; i += 256) {
        size_t some = end - i < 256 ? end - i : 256;
        if (f->t->dtype != ATTN_F64) {
            fill(run, some, f->seed, i);
            srv_tensor_narrow(f->t->data, f->t->dtype, i, run, some);
            continue;
        }
        for (size_t k = 0; k < some; k++)
            ((double *)f->t->data)[i + k] = number(f->seed, i + k);
    }
}

bool srv_tensor_random(srv_scan *s, const srv_name *what, int64_t seed, attn_tensor *t) {
    filling f = {
        .t = t, .seed = (uint64_t)seed, .normal = srv_name_is(what, "normal"), .fill = fill_random};
    attn_tensor_count(t, &f.count);
    if (!f.normal && !srv_name_is(what, "uniform"))
        return refuse_name(s, "random", "\"normal\" or \"uniform\"", what);
    if (t->dtype == ATTN_F32 || t->dtype == ATTN_F16 || t->dtype == ATTN_BF16 ||
        t->dtype == ATTN_F64)
        return fill_all(s, &f);
    srv_path_key(&s->path, "random", 6);
    srv_problem(s->req, SRV_DTYPE, s->path.text,
                "expected float32, float16, bfloat16 or float64 for random elements, found %s",
                attn_dtype_name(t->dtype));
    return false;
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

static void fill_zeros(const filling *f, size_t first, size_t n) {
    size_t size = attn_dtype_size(f->t->dtype);
    memset((char *)f->t->data + first * size, 0, n * size);
}

static void fill_ones(const filling *f, size_t first, size_t n) {
    for (size_t i = first; i < first + n; i++)
        srv_tensor_store(f->t->data, f->t->dtype, i, 1);
}

static void fill_arange(const filling *f, size_t first, size_t n) {
    for (size_t i = first; i < first + n; i++)
        srv_tensor_store(f->t->data, f->t->dtype, i, (double)i);
}

/* Element (r, r) of matrix m is number m * rows * cols + r * (cols + 1). */
static void fill_eye(const filling *f, size_t first, size_t n) {
    const attn_tensor *t = f->t;
    size_t rows = t->dims[t->rank - 2], cols = t->dims[t->rank - 1];
    size_t size = rows * cols, diagonal = rows < cols ? rows : cols, end = first + n;
    fill_zeros(f, first, n);
    for (size_t start = first - first % size; start < end; start += size) {
        size_t r = first > start ? (first - start + cols) / (cols + 1) : 0;
        for (; r < diagonal && start + r * (cols + 1) < end; r++)
            srv_tensor_store(t->data, t->dtype, start + r * (cols + 1), 1);
    }
}

static bool check_arange(srv_scan *s, const attn_tensor *t, size_t count) {
    if (count == 0 || (double)(count - 1) <= last_exact(t->dtype))
        return true;
    srv_path_key(&s->path, "fill", 4);
    srv_problem(s->req, SRV_VALUE, s->path.text,
                "expected at most %.0f elements, of which %s holds each index, found %zu",
                last_exact(t->dtype) + 1, attn_dtype_name(t->dtype), count);
    return false;
}

static bool check_eye(srv_scan *s, const attn_tensor *t) {
    if (t->rank >= 2)
        return true;
    srv_path_key(&s->path, "fill", 4);
    srv_problem(s->req, SRV_SHAPE, s->path.text, "expected 2 axes or more for \"eye\", found 1");
    return false;
}

bool srv_tensor_fill(srv_scan *s, const srv_name *what, attn_tensor *t) {
    filling f = {.t = t};
    attn_tensor_count(t, &f.count);
    if (srv_name_is(what, "arange"))
        f.fill = fill_arange;
    else if (srv_name_is(what, "eye"))
        f.fill = fill_eye;
    else if (srv_name_is(what, "zeros"))
        f.fill = fill_zeros;
    else if (srv_name_is(what, "ones"))
        f.fill = fill_ones;
    else
        return refuse_name(s, "fill", "\"zeros\", \"ones\", \"eye\" or \"arange\"", what);
    if (f.fill == fill_arange && !check_arange(s, t, f.count))
        return false;
    return (f.fill != fill_eye || check_eye(s, t)) && fill_all(s, &f);
}
