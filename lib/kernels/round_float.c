/* bf16 on float tables without bf16 products: operands are rounded, products stay those of float32,
 * which hold a product of two bfloat16 exactly. Contract: kernels.h; what it must equal:
 * round_ref.c.
 *
 *   packed keys, values   the base table's layout, each number rounded in place
 *   packed queries        [rows, E], rounded
 *   tile                  numerators are rounded when softmax has made them, after they were summed
 */
#include "kernels/bf16.h"

static void round_all(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = attn_bf16_round(x[i]);
}

static size_t k_query_room(size_t rows, size_t E) {
    return rows * E;
}

static void k_pack_query(void *dst, const void *q, size_t ldq, size_t rows, size_t E) {
    for (size_t r = 0; r < rows; r++)
        for (size_t e = 0; e < E; e++)
            ((float *)dst)[r * E + e] = attn_bf16_round(((const float *)q)[r * ldq + e]);
}

static double pack_key(const attn_kernels *base, void *dst, const void *src, size_t ld, size_t n,
                       size_t E) {
    const double reach = base->pack_key(dst, src, ld, n, E);
    round_all(dst, (n + base->panel - 1) / base->panel * base->panel * E);
    return reach;
}

static double pack_value(const attn_kernels *base, void *dst, const void *src, size_t ld, size_t n,
                         size_t Ev) {
    const double reach = base->pack_value(dst, src, ld, n, Ev);
    round_all(dst, n * base->acc_room(Ev));
    return reach;
}

static void softmax(const attn_kernels *base, void *tile, size_t rows, size_t n, void *max,
                    void *sum, void *factor) {
    base->softmax(tile, rows, n, max, sum, factor);
    for (size_t r = 0; r < rows; r++)
        round_all((float *)tile + r * base->keys, n);
}

#define TABLE(isa)                                                                                 \
    static double k_pack_key_##isa(void *dst, const void *src, size_t ld, size_t n, size_t E) {    \
        return pack_key(&attn_kernels_##isa, dst, src, ld, n, E);                                  \
    }                                                                                              \
    static double k_pack_value_##isa(void *dst, const void *src, size_t ld, size_t n, size_t Ev) { \
        return pack_value(&attn_kernels_##isa, dst, src, ld, n, Ev);                               \
    }                                                                                              \
    static void k_softmax_##isa(void *tile, size_t rows, size_t n, void *max, void *sum,           \
                                void *factor) {                                                    \
        softmax(&attn_kernels_##isa, tile, rows, n, max, sum, factor);                             \
    }                                                                                              \
    void attn_kernels_round_##isa(attn_kernels *k) {                                               \
        k->precision = ATTN_PRECISION_BF16;                                                        \
        k->plain = &attn_kernels_##isa;                                                            \
        k->query_room = k_query_room;                                                              \
        k->pack_query = k_pack_query;                                                              \
        k->pack_key = k_pack_key_##isa;                                                            \
        k->pack_value = k_pack_value_##isa;                                                        \
        k->softmax = k_softmax_##isa;                                                              \
    }
TABLE(avx2)
TABLE(avx512)
