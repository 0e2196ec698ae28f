/* The precision bf16 for the tables avx2 and avx512, for processors without bfloat16 products. The
 * operands are rounded to bfloat16 and then multiplied by the float kernels of the base table,
 * since a float32 holds the product of two bfloat16 exactly. kernels.h describes the functions, and
 * round_ref.c has the results that they must equal.
 *
 *   packed keys, values   layout of the base table, each number rounded in place
 *   packed queries        [rows, E], rounded
 *   numerators            rounded in a copy on the stack, before the product with the values */
#include <attn/memory.h>
#include <string.h>

#include "kernels/bf16.h"

static void round_all(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = attn_bf16_round(x[i]);
}

static double pack_query(const attn_kernels *base, float *dst, const float *q, size_t ldq,
                         size_t rows, size_t E) {
    for (size_t r = 0; r < rows; r++)
        memcpy(dst + r * E, q + r * ldq, E * sizeof *dst);
    const double magnitude = base->max_magnitude(dst, rows * E);
    round_all(dst, rows * E);
    return magnitude;
}

static double pack_key(const attn_kernels *base, void *dst, const void *src, size_t ld, size_t n,
                       size_t E) {
    const double magnitude = base->pack_key(dst, src, ld, n, E);
    round_all(dst, (n + base->panel - 1) / base->panel * base->panel * E);
    return magnitude;
}

static double pack_value(const attn_kernels *base, void *dst, const void *src, size_t ld, size_t n,
                         size_t Ev) {
    const double magnitude = base->pack_value(dst, src, ld, n, Ev);
    round_all(dst, n * attn_acc_room(base, Ev));
    return magnitude;
}

enum { ROWS = 48, KEYS = 256 }; /* size of the largest tile of numerators: 48 KiB on the stack */

static void accumulate(const attn_kernels *base, float *acc, const float *tile, size_t rows,
                       const void *packed_value, size_t first, size_t n, size_t packed, size_t Ev,
                       const float *factor) {
    _Alignas(ATTN_ALIGN) float numerators[ROWS * KEYS];
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++)
            numerators[r * base->keys + j] = attn_bf16_round(tile[r * base->keys + j]);
    base->accumulate(acc, numerators, rows, packed_value, first, n, packed, Ev, factor);
}

#define TABLE(isa)                                                                                 \
    static double k_pack_query_##isa(void *dst, const void *q, size_t ldq, size_t rows,            \
                                     size_t E) {                                                   \
        return pack_query(&attn_kernels_##isa, dst, q, ldq, rows, E);                              \
    }                                                                                              \
    static double k_pack_key_##isa(void *dst, const void *src, size_t ld, size_t n, size_t E) {    \
        return pack_key(&attn_kernels_##isa, dst, src, ld, n, E);                                  \
    }                                                                                              \
    static double k_pack_value_##isa(void *dst, const void *src, size_t ld, size_t n, size_t Ev) { \
        return pack_value(&attn_kernels_##isa, dst, src, ld, n, Ev);                               \
    }                                                                                              \
    static void k_accumulate_##isa(void *acc, const void *tile, size_t rows,                       \
                                   const void *packed_value, size_t first, size_t n,               \
                                   size_t packed, size_t Ev, const void *factor) {                 \
        accumulate(&attn_kernels_##isa, acc, tile, rows, packed_value, first, n, packed, Ev,       \
                   factor);                                                                        \
    }                                                                                              \
    void attn_kernels_round_##isa(attn_kernels *k) {                                               \
        k->precision = ATTN_PRECISION_BF16;                                                        \
        k->plain = &attn_kernels_##isa;                                                            \
        k->pack_query = k_pack_query_##isa;                                                        \
        k->pack_key = k_pack_key_##isa;                                                            \
        k->pack_value = k_pack_value_##isa;                                                        \
        k->accumulate = k_accumulate_##isa;                                                        \
        k->rows = k->rows < ROWS ? k->rows : ROWS;                                                 \
        k->score_unpacked = NULL; /* NULL: it would read unrounded keys */                         \
        k->accumulate_unpacked = NULL;                                                             \
    }
TABLE(avx2)
TABLE(avx512)
