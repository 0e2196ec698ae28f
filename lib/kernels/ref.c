/* The reference kernels, in plain C and double precision. The other kernel tables are tested
 * against their results. They also compute requests with float64 inputs, and the rows that a float
 * table cannot compute. Layouts: packed keys [n, E], packed values [n, Ev], tile [rows, KEYS]. NaN
 * and infinity behave as IEEE 754 says, except that a value with a weight of exactly 0 adds
 * nothing, even if it is NaN or infinite. */
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

enum { ROWS = 16, KEYS = 64 };

static double k_max_magnitude_ref(const void *src, size_t n) {
    const double *x = src;
    double magnitude = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return INFINITY;
        magnitude = fmax(magnitude, fabs(x[i]));
    }
    return magnitude;
}

static double k_pack_ref(void *dst, const void *src, size_t ld, size_t n, size_t width) {
    for (size_t j = 0; j < n; j++)
        memcpy((double *)dst + j * width, (const double *)src + j * ld, width * sizeof(double));
    return k_max_magnitude_ref(dst, n * width);
}

static void k_score_ref(void *tile, const void *q, size_t ldq, size_t rows, const void *packed_key,
                        size_t n, size_t E, double scale) {
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++) {
            const double *a = (const double *)q + r * ldq, *b = (const double *)packed_key + j * E;
            double sum = 0;
            for (size_t e = 0; e < E; e++)
                sum += a[e] * b[e];
            ((double *)tile)[r * KEYS + j] = sum * scale;
        }
}

static void k_score_tanh_ref(void *tile, const void *q, size_t ldq, size_t rows,
                             const void *packed_key, size_t n, size_t A, const void *v) {
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++) {
            const double *a = (const double *)q + r * ldq, *b = (const double *)packed_key + j * A;
            double sum = 0;
            for (size_t c = 0; c < A; c++)
                sum += ((const double *)v)[c] * tanh(a[c] + b[c]);
            ((double *)tile)[r * KEYS + j] = sum;
        }
}

/* Returns the score of a hidden cell. ATTN_EDIT_ADD adds in float32, as the float tables do, unless
 * the inputs are float64 (edit->wide). */
static double hide(double s, const attn_edit *edit) {
    switch (edit->fill) {
    case ATTN_EDIT_ADD:
        return edit->wide ? s + edit->fill_value : (double)((float)s + (float)edit->fill_value);
    case ATTN_EDIT_REPLACE:
        return edit->fill_value;
    default:
        return -INFINITY;
    }
}

static void k_edit_ref(void *row, size_t n, const attn_edit *edit) {
    double *s = row;
    const double *bias = edit->bias;
    for (size_t j = 0; j < n; j++) {
        double x = s[j] * edit->scale;
        if (edit->softcap != 0)
            x = edit->softcap * tanh(x / edit->softcap);
        if (bias)
            x = bias[j] == -INFINITY ? -INFINITY : x + bias[j];
        if (j < edit->lo || j >= edit->hi || (edit->keep && !edit->keep[j]))
            x = hide(x, edit);
        s[j] = x;
    }
}

/* Returns the larger score, or NaN if either is NaN, so that a NaN score makes its whole row
 * NaN. */
static double larger(double a, double b) {
    return isnan(a) || a >= b ? a : b;
}

static double numerator(double s, double max) {
    return s == -INFINITY ? 0 : exp(s - max);
}

static void k_softmax_ref(void *tile, size_t rows, size_t n, void *max, void *sum, void *factor) {
    for (size_t r = 0; r < rows; r++) {
        double *p = (double *)tile + r * KEYS, old = ((double *)max)[r], m = old, part = 0;
        for (size_t j = 0; j < n; j++)
            m = larger(m, p[j]);
        double scale = old == -INFINITY ? 0 : exp(old - m);
        for (size_t j = 0; j < n; j++) {
            p[j] = numerator(p[j], m);
            part += p[j];
        }
        ((double *)max)[r] = m;
        ((double *)sum)[r] = (scale == 0 ? 0 : ((double *)sum)[r] * scale) + part;
        ((double *)factor)[r] = scale;
    }
}

static void k_accumulate_ref(void *acc, const void *tile, size_t rows, const void *packed_value,
                             size_t first, size_t n, size_t packed, size_t Ev, const void *factor) {
    const double *values = (const double *)packed_value + first * Ev;
    (void)packed;
    for (size_t r = 0; r < rows; r++) {
        double *o = (double *)acc + r * Ev, scale = ((const double *)factor)[r];
        const double *p = (const double *)tile + r * KEYS;
        for (size_t e = 0; e < Ev; e++)
            o[e] = scale == 0 ? 0 : o[e] * scale;
        for (size_t j = 0; j < n; j++)
            for (size_t e = 0; p[j] != 0 && e < Ev; e++)
                o[e] += p[j] * values[j * Ev + e];
    }
}

static void k_merge_ref(const attn_partial *into, const attn_partial *from, size_t rows,
                        size_t Ev) {
    for (size_t r = 0; r < rows; r++) {
        double *m = (double *)into->max + r, *l = (double *)into->sum + r;
        double *acc = (double *)into->acc + r * Ev;
        const double other = ((const double *)from->max)[r], most = larger(*m, other);
        const double f = *m == -INFINITY ? 0 : exp(*m - most),
                     f2 = other == -INFINITY ? 0 : exp(other - most);
        *m = most;
        *l = (f == 0 ? 0 : *l * f) + (f2 == 0 ? 0 : ((const double *)from->sum)[r] * f2);
        for (size_t e = 0; e < Ev; e++)
            acc[e] = (f == 0 ? 0 : acc[e] * f) +
                     (f2 == 0 ? 0 : ((const double *)from->acc)[r * Ev + e] * f2);
    }
}

static void k_statistics_ref(const void *max, const void *sum, size_t rows, double *most,
                             double *total) {
    memcpy(most, max, rows * sizeof *most);
    memcpy(total, sum, rows * sizeof *total);
}

static void k_divide_ref(void *dst, size_t ld, const void *acc, size_t rows, size_t n,
                         const double *sum) {
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < n; i++)
            ((double *)dst)[r * ld + i] =
                sum[r] == 0 ? 0 : ((const double *)acc)[r * n + i] / sum[r];
}

static void k_weights_ref(void *dst, const void *scores, size_t n, double max, double sum) {
    for (size_t j = 0; j < n; j++) {
        double e = numerator(((const double *)scores)[j], max);
        ((double *)dst)[j] = e == 0 ? 0 : e / sum;
    }
}

static double k_logsumexp_ref(double max, double sum) {
    return max + log(sum);
}

/* --- gradients --- */

static void k_accumulate_back_ref(void *acc, bool begins, const void *tile, size_t rows, size_t n,
                                  const void *packed, size_t width) {
    if (begins)
        memset(acc, 0, n * width * sizeof(double));
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++) {
            const double p = ((const double *)tile)[r * KEYS + j];
            for (size_t e = 0; e < width; e++)
                ((double *)acc)[j * width + e] += p * ((const double *)packed)[r * width + e];
        }
}

static void k_weight_back_ref(void *weights, void *dz, const void *scores, size_t rows, size_t n,
                              const attn_weight_backward *back) {
    for (size_t r = 0; r < rows; r++) {
        double *p = (double *)weights + r * KEYS, *x = (double *)dz + r * KEYS;
        if (back->sum[r] == 0)
            memset(p, 0, n * sizeof *p);
        else
            k_weights_ref(p, (const double *)scores + r * KEYS, n, back->max[r], back->sum[r]);
        for (size_t j = 0; j < n; j++)
            x[j] = p[j] == 0 ? 0 : p[j] * (x[j] - back->dot[r]) * back->scale;
    }
}

static void k_edit_back_ref(void *ds, size_t n, const attn_edit_backward *edit) {
    double *s = ds;
    const double *capped = edit->capped;
    for (size_t j = 0; j < n; j++) {
        double t = capped ? capped[j] / edit->softcap : 0;
        t = fabs(t) < 2 ? t : 0; /* replaces NaN, which hidden cells may hold */
        s[j] *= edit->scale * (1 - t * t);
    }
}

static void k_score_tanh_back_ref(const attn_tanh_backward *b, const void *tile, size_t rows,
                                  size_t n) {
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++) {
            const double g = ((const double *)tile)[r * KEYS + j];
            const double *q = (const double *)b->q + r * b->ldq;
            const double *key = (const double *)b->packed_key + j * b->width;
            for (size_t a = 0; g != 0 && a < b->width; a++) {
                const double t = tanh(q[a] + key[a]);
                const double inner = g * ((const double *)b->v)[a] * (1 - t * t);
                ((double *)b->dq)[r * b->lddq + a] += inner;
                ((double *)b->dkey)[a * KEYS + j] += inner;
                b->dv[a] += g * t;
            }
        }
}

const attn_kernels attn_kernels_ref = {
    .isa = ATTN_ISA_REF,
    .name = "ref",
    .elem = sizeof(double),
    .rows = ROWS,
    .keys = KEYS,
    .panel = 1,
    .lanes = 1,
    .key_unit = 1,
    .value_unit = 1,
    .acc_unit = 1,
    .query_unit = 1,
    .halves = 2,
    .pack_key = k_pack_ref,
    .pack_value = k_pack_ref,
    .max_magnitude = k_max_magnitude_ref,
    .score = k_score_ref,
    .score_tanh = k_score_tanh_ref,
    .edit = k_edit_ref,
    .softmax = k_softmax_ref,
    .accumulate = k_accumulate_ref,
    .merge = k_merge_ref,
    .statistics = k_statistics_ref,
    .divide = k_divide_ref,
    .weights = k_weights_ref,
    .logsumexp = k_logsumexp_ref,
    .accumulate_backward = k_accumulate_back_ref,
    .weight_backward = k_weight_back_ref,
    .edit_backward = k_edit_back_ref,
    .score_tanh_backward = k_score_tanh_back_ref,
};
