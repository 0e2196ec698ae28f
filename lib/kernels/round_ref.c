/* The products of the precisions `fast` and `bf16` (bf16.h) in plain C. They are the reference for
 * the tables with bfloat16 products.
 *
 * Packed keys [n, E], values [n, Ev] and queries [rows, E] are doubles, as in ref.c. For bf16 their
 * numbers are already rounded to bfloat16. For fast a number is split into the parts h and m when
 * it is multiplied.
 *
 *   score of a cell         = sum over e of q_e k_e
 *   accumulated value of e  = sum over the keys j of a tile of p_j v_je
 *
 * Each product of two parts is exact. The products m h', h m' and h h' have separate sums in
 * float32, which are added as (m h' + h m') + h h'. The functions of ref.c do everything else, in
 * double. */
#include <math.h>
#include <string.h>

#include "kernels/bf16.h"

static double rounded(double x) {
    return (double)attn_bf16_round((float)x);
}

/* The elements x[0], x[stride], x[2 * stride], … */
typedef struct terms {
    const double *x;
    size_t stride;
} terms;

static double dot_bf16(terms a, terms b, size_t n) {
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (float)(rounded(a.x[i * a.stride]) * rounded(b.x[i * b.stride]));
    return (double)sum;
}

static double dot_fast(terms a, terms b, size_t n) {
    float low = 0, mixed = 0, high = 0;
    for (size_t i = 0; i < n; i++) {
        const double x = a.x[i * a.stride], y = b.x[i * b.stride];
        const double xh = rounded(x), yh = rounded(y);
        low += (float)(rounded(x - xh) * yh);
        mixed += (float)(xh * rounded(y - yh));
        high += (float)(xh * yh);
    }
    return (double)((low + mixed) + high);
}

typedef double dot(terms a, terms b, size_t n);

static inline void score(dot *product, double *tile, const double *q, size_t ldq, size_t rows,
                         const double *keys, size_t n, size_t E, double scale) {
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++)
            tile[r * attn_kernels_ref.keys + j] =
                product((terms){q + r * ldq, 1}, (terms){keys + j * E, 1}, E) * scale;
}

static inline void accumulate(dot *product, double *acc, const double *tile, size_t rows,
                              const double *values, size_t n, size_t Ev, const double *factor) {
    for (size_t r = 0; r < rows; r++)
        for (size_t e = 0; e < Ev; e++) {
            double *o = acc + r * Ev + e;
            *o = factor[r] == 0 ? 0 : *o * factor[r];
            *o += product((terms){tile + r * attn_kernels_ref.keys, 1}, (terms){values + e, Ev}, n);
        }
}

#define TABLE(name)                                                                                \
    static void k_score_##name(void *tile, const void *q, size_t ldq, size_t rows,                 \
                               const void *packed_key, size_t n, size_t E, double scale) {         \
        score(dot_##name, tile, q, ldq, rows, packed_key, n, E, scale);                            \
    }                                                                                              \
    static void k_accumulate_##name(void *acc, const void *tile, size_t rows,                      \
                                    const void *packed_value, size_t first, size_t n,              \
                                    size_t packed, size_t Ev, const void *factor) {                \
        (void)packed;                                                                              \
        accumulate(dot_##name, acc, tile, rows, (const double *)packed_value + first * Ev, n, Ev,  \
                   factor);                                                                        \
    }
TABLE(bf16)
TABLE(fast)

static double k_pack_query(void *dst, const void *q, size_t ldq, size_t rows, size_t E) {
    for (size_t r = 0; r < rows; r++)
        memcpy((double *)dst + r * E, (const double *)q + r * ldq, E * sizeof(double));
    return attn_kernels_ref.max_magnitude(dst, rows * E);
}

static void round_all(double *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = rounded(x[i]);
}

static double k_pack_query_bf16(void *dst, const void *q, size_t ldq, size_t rows, size_t E) {
    const double magnitude = k_pack_query(dst, q, ldq, rows, E);
    round_all(dst, rows * E);
    return magnitude;
}

static double k_pack_key_bf16(void *dst, const void *src, size_t ld, size_t n, size_t E) {
    const double magnitude = attn_kernels_ref.pack_key(dst, src, ld, n, E);
    round_all(dst, n * E);
    return magnitude;
}

void attn_kernels_round_ref(attn_kernels *k, attn_precision precision) {
    const bool fast = precision == ATTN_PRECISION_FAST;
    k->precision = precision;
    k->plain = &attn_kernels_ref;
    k->pack_query = fast ? k_pack_query : k_pack_query_bf16;
    k->score = fast ? k_score_fast : k_score_bf16;
    k->accumulate = fast ? k_accumulate_fast : k_accumulate_bf16;
    if (!fast) {
        k->pack_key = k_pack_key_bf16;
        k->pack_value = k_pack_key_bf16;
    }
}
