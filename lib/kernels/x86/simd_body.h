/* The float kernels, written once for any vector width. The .c file of an instruction set defines
 * these names and then includes this file, which defines the kernel table. kernels.h describes the
 * functions, and ref.c has the results that they must approximate.
 *
 *   NAME(x)      x with a suffix for the instruction set
 *   vf, vm, v…   a vector of LANES floats, a mask of lanes, operations on them
 *   NV, MR       vectors in a panel of B, and rows of A that the micro-kernel multiplies at once
 *   ROWS, KEYS   largest numbers of queries and keys in a tile
 *   KEY_PLACES   runs of rows from which keys are prefetched (simd_unpacked_rows.h)
 *
 * A panel has PW = LANES * NV columns. Data layout:
 *
 *   packed keys    panel 0: [E][PW]   panel 1: [E][PW] …     column = key
 *   packed values  panel 0: [n][PW]   panel 1: [n][PW] …     column = value dimension
 *   tile           [rows][KEYS]       accumulator [rows][panels * PW]
 *
 * Both products (scores; weights times values) use one micro-kernel. It multiplies MR rows of A,
 * whose elements are broadcast, by a panel of B:
 *
 *        B: depth x PW  ->  NV registers          registers: MR * NV accumulators + NV + 1
 *   A: MR x depth           MR x NV accumulators
 *
 * A chain is a sum of products that begins at 0 and is continued by fused multiply-adds in the
 * order of the depth. A cell of the result is a sum of few chains. It depends only on its row of A
 * and its column of B. */

#include "kernels/x86/simd_exp.h"

#define PW (LANES * NV)

#include "kernels/x86/simd_pack.h"

/* Defines the kernel `name` and name_coarse, its variant for the precision `fast`. `statement` is
 * the body of both, in which `coarse` is false or true. */
#define BOTH_PRECISIONS(result, name, parameters, statement)                                       \
    static result NAME(name) parameters {                                                          \
        const bool coarse = false;                                                                 \
        statement;                                                                                 \
    }                                                                                              \
    static result NAME(name##_coarse) parameters {                                                 \
        const bool coarse = true;                                                                  \
        statement;                                                                                 \
    }

/* --- the micro-kernel --- */

/* Computes acc[r][v] = the sum over d < depth of a[r * row + d * step] * b[d][v], for r < mr and
 * v < nv. b is [depth, PW]. At every call mr, nv and one of row and step are constants, so the
 * compiler unrolls all loops except the one over d. */
INLINE void product(const int mr, const int nv, const float *a, size_t row, size_t step,
                    const float *b, size_t depth, vf acc[MR][NV]) {
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < nv; v++)
            acc[r][v] = vset(0.0f);
#pragma GCC unroll 4
    for (size_t d = 0; d < depth; d++) {
        vf column[NV];
        for (int v = 0; v < nv; v++)
            column[v] = vload(b + d * PW + (size_t)v * LANES);
        for (int r = 0; r < mr; r++) {
            vf x = vset(a[(size_t)r * row + d * step]);
            for (int v = 0; v < nv; v++)
                acc[r][v] = vfma(x, column[v], acc[r][v]);
        }
    }
}

/* Returns the element of E at which the second chain of a score begins. A score is the sum of two
 * chains, since the rounding error of a chain grows with its length. With `coarse`, the precision
 * `fast`, a score is one chain. */
INLINE size_t second_chain(const bool coarse, size_t E) {
    const size_t half = (E / 2 + LANES - 1) / LANES * LANES;
    return !coarse && half < E ? half : E;
}

INLINE void score_rows(const bool coarse, const int mr, const int nv, float *tile, const float *q,
                       size_t ldq, const float *panel, size_t E, vf scale) {
    const size_t half = second_chain(coarse, E);
    vf one[MR][NV], two[MR][NV];
    product(mr, nv, q, ldq, 1, panel, half, one);
    if (!coarse)
        product(mr, nv, q + half, ldq, 1, panel + half * PW, E - half, two);
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < nv; v++)
            vstore(tile + (size_t)r * KEYS + (size_t)v * LANES,
                   vmul(coarse ? one[r][v] : vadd(one[r][v], two[r][v]), scale));
}

/* Values are summed in chains of at most CHAIN keys, since the rounding error of a chain grows with
 * its length. Chains begin at multiples of CHAIN in the packed tile. So if the first keys of a tile
 * are skipped, the sums over the others do not change. With the precision `fast`, each tile is one
 * chain. */
enum { CHAIN = 32 };

/* Computes acc = acc * factor + sum. If the factor is 0, acc is not read and may hold anything,
 * including NaN. */
INLINE void continue_sum(float *acc, float factor, vf sum) {
    vstore(acc, factor == 0 ? sum : vfma(vload(acc), vset(factor), sum));
}

INLINE void accumulate_rows(const bool coarse, const int mr, const int nv, float *acc_to,
                            size_t lda, const float *p, const float *panel, size_t first, size_t n,
                            const float *factor) {
    const size_t begun = CHAIN - first % CHAIN;
    size_t end = coarse || n < begun ? n : begun;
    vf total[MR][NV];
    product(mr, nv, p, KEYS, 1, panel, end, total);
    for (size_t d = end; !coarse && d < n; d = end) {
        vf acc[MR][NV];
        end = n - d < CHAIN ? n : d + CHAIN;
        product(mr, nv, p + d, KEYS, 1, panel + d * PW, end - d, acc);
        for (int r = 0; r < mr; r++)
            for (int v = 0; v < nv; v++)
                total[r][v] = vadd(total[r][v], acc[r][v]);
    }
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < nv; v++)
            continue_sum(acc_to + (size_t)r * lda + (size_t)v * LANES, factor[r], total[r][v]);
}

/* Calls call(mr, nv) with mr = the number of rows left, at most MR. Each case has mr as a constant,
 * so that the compiler unrolls the loops over it. */
#define ROWS_CASE(call, mr, nv)                                                                    \
    case mr:                                                                                       \
        call(mr, nv);                                                                              \
        break;
#define EACH_ROWS(call, left, nv)                                                                  \
    switch (left) {                                                                                \
        ROWS_CASE(call, 1, nv)                                                                     \
        ROWS_CASE(call, 2, nv)                                                                     \
        ROWS_CASE(call, 3, nv)                                                                     \
        ROWS_CASE(call, 4, nv)                                                                     \
        ROWS_CASE(call, 5, nv)                                                                     \
    default:                                                                                       \
        call(MR, nv);                                                                              \
    }

INLINE void score_panel(const bool coarse, const int nv, float *tile, const float *q, size_t ldq,
                        size_t rows, const float *panel, size_t E, vf scale) {
#define CALL(mr, nv_)                                                                              \
    score_rows(coarse, mr, nv_, tile + r * KEYS, q + r * ldq, ldq, panel, E, scale)
    for (size_t r = 0; r < rows; r += MR)
        EACH_ROWS(CALL, rows - r, nv)
#undef CALL
}

INLINE void accumulate_panel(const bool coarse, const int nv, float *acc, size_t lda,
                             const float *tile, size_t rows, const float *panel, size_t first,
                             size_t n, const float *factor) {
#define CALL(mr, nv_)                                                                              \
    accumulate_rows(coarse, mr, nv_, acc + r * lda, lda, tile + r * KEYS, panel, first, n,         \
                    factor + r)
    for (size_t r = 0; r < rows; r += MR)
        EACH_ROWS(CALL, rows - r, nv)
#undef CALL
}

/* Calls call(nv) with nv = the number of vectors of a panel that the `left` remaining columns fill,
 * at most NV. Each case has nv as a constant. */
#if NV > 2
#define BETWEEN_VECTORS(call)                                                                      \
    case 2:                                                                                        \
        call(2);                                                                                   \
        break;                                                                                     \
    case 3:                                                                                        \
        call(3);                                                                                   \
        break;
#else
#define BETWEEN_VECTORS(call)
#endif
#define EACH_VECTORS(call, left)                                                                   \
    switch ((left) >= PW ? NV : ((left) + LANES - 1) / LANES) {                                    \
    case 1:                                                                                        \
        call(1);                                                                                   \
        break;                                                                                     \
        BETWEEN_VECTORS(call)                                                                      \
    default:                                                                                       \
        call(NV);                                                                                  \
    }

INLINE void score_panels(const bool coarse, void *tile, const void *q, size_t ldq, size_t rows,
                         const void *packed_key, size_t n, size_t E, vf scale) {
    for (size_t j = 0; j < n; j += PW) {
        float *to = (float *)tile + j;
        const float *panel = (const float *)packed_key + j * E;
#define CALL(nv) score_panel(coarse, nv, to, q, ldq, rows, panel, E, scale)
        EACH_VECTORS(CALL, n - j)
#undef CALL
    }
}

BOTH_PRECISIONS(void, k_score,
                (void *tile, const void *q, size_t ldq, size_t rows, const void *packed_key,
                 size_t n, size_t E, double scale),
                score_panels(coarse, tile, q, ldq, rows, packed_key, n, E, vset((float)scale)))

/* Computes a block [mr, n] of y = x W^T, or adds it to y, with the bits of score_rows and of an
 * addition. */
INLINE void multiply_rows(const int mr, const int nv, float *y, size_t ldy, const float *x,
                          size_t ldx, const float *panel, size_t n, size_t depth, bool adds) {
    const size_t half = second_chain(false, depth);
    vf one[MR][NV], two[MR][NV];
    for (int r = 0; adds && r < mr; r++)
        for (int v = 0; v < nv; v++)
            __builtin_prefetch(y + (size_t)r * ldy + (size_t)v * LANES, 1);
    product(mr, nv, x, ldx, 1, panel, half, one);
    product(mr, nv, x + half, ldx, 1, panel + half * PW, depth - half, two);
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < nv; v++) {
            float *to = y + (size_t)r * ldy + (size_t)v * LANES;
            const size_t left = n - (size_t)v * LANES;
            const vf sum = vadd(one[r][v], two[r][v]);
            vstore_n(to, adds ? vadd(vload_n(to, left), sum) : sum, left);
        }
}

INLINE void multiply_panel(const int nv, float *y, size_t ldy, const float *x, size_t ldx,
                           size_t rows, const float *panel, size_t n, size_t depth, bool adds) {
#define CALL(mr, nv_)                                                                              \
    multiply_rows(mr, nv_, y + r * ldy, ldy, x + r * ldx, ldx, panel, n, depth, adds)
    for (size_t r = 0; r < rows; r += MR)
        EACH_ROWS(CALL, rows - r, nv)
#undef CALL
}

static void NAME(k_multiply)(float *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                             const float *packed, size_t n, size_t depth, bool adds) {
    for (size_t j = 0; j < n; j += PW) {
#define CALL(nv)                                                                                   \
    multiply_panel(nv, y + j, ldy, x, ldx, rows, packed + j * depth, n - j, depth, adds)
        EACH_VECTORS(CALL, n - j)
#undef CALL
    }
}

/* Computes the sum of v[c] tanh(a[c] + k[c]) over c = from … to - 1 for one query a and LANES keys
 * k. The elements c of these keys are at column + c * PW. */
INLINE vf tanh_terms(const float *a, const float *column, const float *v, size_t from, size_t to) {
    vf sum = vset(0.0f);
    for (size_t c = from; c < to; c++)
        sum = vfma(vset(v[c]), tanh_lanes(vadd(vset(a[c]), vload(column + c * PW))), sum);
    return sum;
}

/* A tanh score is the sum of chains of TERMS terms, since the rounding error of a chain grows with
 * its length. */
enum { TERMS = 16 };

static void NAME(k_score_tanh)(void *tile, const void *q, size_t ldq, size_t rows,
                               const void *packed_key, size_t n, size_t A, const void *v) {
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j += LANES) {
            const float *a = (const float *)q + r * ldq;
            const float *column = (const float *)packed_key + j / PW * PW * A + j % PW;
            vf sum = vset(0.0f);
            for (size_t c = 0; c < A; c += TERMS)
                sum = vadd(sum, tanh_terms(a, column, v, c, A - c < TERMS ? A : c + TERMS));
            vstore((float *)tile + r * KEYS + j, sum);
        }
}

INLINE void accumulate_panels(const bool coarse, void *acc, const void *tile, size_t rows,
                              const void *packed_value, size_t first, size_t n, size_t packed,
                              size_t Ev, const void *factor) {
    size_t lda = attn_round_up(Ev, PW);
    for (size_t c = 0; c < Ev; c += PW) {
        float *to = (float *)acc + c;
        const float *panel = (const float *)packed_value + c * packed + first * PW;
#define CALL(nv) accumulate_panel(coarse, nv, to, lda, tile, rows, panel, first, n, factor)
        EACH_VECTORS(CALL, Ev - c)
#undef CALL
    }
}

BOTH_PRECISIONS(void, k_accumulate,
                (void *acc, const void *tile, size_t rows, const void *packed_value, size_t first,
                 size_t n, size_t packed, size_t Ev, const void *factor),
                accumulate_panels(coarse, acc, tile, rows, packed_value, first, n, packed, Ev,
                                  factor))

/* The order of these includes matters: each file uses functions of the files before it. */
#include "kernels/x86/simd_softmax.h"

#include "kernels/x86/simd_backward.h"

#include "kernels/x86/simd_unpacked_rows.h"

#include "kernels/x86/simd_blocks.h"

const attn_kernels NAME(attn_kernels) = {
    .isa = ISA,
    .name = ISA_NAME,
    .elem = sizeof(float),
    .rows = ROWS,
    .keys = KEYS,
    .panel = PW > CHAIN ? PW : CHAIN,
    .lanes = LANES,
    .key_unit = 1,
    .value_unit = PW,
    .acc_unit = PW,
    .query_unit = 1,
    .halves = 2,
    .pack_key = NAME(k_pack_key),
    .pack_value = NAME(k_pack_value),
    .max_magnitude = NAME(k_max_magnitude),
    .score = NAME(k_score),
    .score_unpacked = NAME(k_score_unpacked),
    .score_tanh = NAME(k_score_tanh),
    .edit = NAME(k_edit),
    .softmax = NAME(k_softmax),
    .accumulate = NAME(k_accumulate),
    .accumulate_unpacked = NAME(k_accumulate_unpacked),
    .merge = NAME(k_merge),
    .statistics = NAME(k_statistics),
    .divide = NAME(k_divide),
    .weights = NAME(k_weights),
    .finish_weights = NAME(k_finish_weights),
    .logsumexp = NAME(k_logsumexp),
    .accumulate_backward = NAME(k_accumulate_backward),
    .weight_backward = NAME(k_weight_backward),
    .edit_backward = NAME(k_edit_backward),
    .score_tanh_backward = NAME(k_score_tanh_backward),
};

void NAME(attn_kernels_coarse)(attn_kernels *k) {
    k->precision = ATTN_PRECISION_FAST;
    k->score = NAME(k_score_coarse);
    k->score_unpacked = NAME(k_score_unpacked_coarse);
    k->softmax = NAME(k_softmax_coarse);
    k->accumulate = NAME(k_accumulate_coarse);
    k->accumulate_unpacked = NAME(k_accumulate_unpacked_coarse);
    k->weights = NAME(k_weights_coarse);
}
